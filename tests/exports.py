"""What the package offers: names at the top, and names of the rooms that a study reaches through them."""

from __future__ import annotations

from typing import Any

import ruvdecision as ruv

ROOMS = ("masks", "posteriors", "channels", "users", "engines", "measures", "decide", "analyses")


def public() -> dict[str, Any]:
    """Every public class and function by its own name, wherever it is offered; plots take no data and are left out."""
    found = {name: getattr(ruv, name) for name in ruv.__all__ if not name.startswith("_")}
    for room in ROOMS:
        found |= {name: getattr(getattr(ruv, room), name) for name in getattr(ruv, room).__all__}
    return found
