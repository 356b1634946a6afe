"""What a benchmark yields besides a row of times: a peer that is not here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

__all__ = ["Absent", "peer"]


@dataclass(frozen=True)
class Absent:
    """A comparison that was not made, and why. It is printed in the table and fails nothing."""

    name: str
    why: str


def peer(module: str) -> Any:
    """Import a peer, or return None where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None
