"""What the maps of a command lead to: the choice in each of them, what is printed, and the exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InfeasibleError, RuvError
from .printing import complain, show

if TYPE_CHECKING:
    from ..studies import Outcome


def choose(outcome: Outcome, max_risk: float | None) -> tuple[dict[str, Any], dict[str, InfeasibleError]]:
    """Choose in every map; maps without a feasible release are kept apart, so that the others still show."""
    choices: dict[str, Any] = {}
    misses: dict[str, InfeasibleError] = {}
    if max_risk is not None:
        for name, rumap in outcome.maps.items():
            try:
                choices[name] = rumap.choose(max_risk=max_risk)
            except InfeasibleError as error:
                misses[name] = error
    return choices, misses


def close(
    outcome: Outcome,
    choices: dict[str, Any],
    misses: Mapping[str, InfeasibleError],
    max_risk: float | None,
    notes: Sequence[str],
    written: Sequence[Path],
    *,
    quiet: bool,
) -> int:
    """Print what there is and return the exit code, or raise the error of a threshold that no release meets."""
    show(outcome, choices, max_risk, notes, written, quiet=quiet)
    sys.stdout.flush()
    if misses:
        raise _merge(misses, outcome)
    if any(rumap.attrs.get("partial") for rumap in outcome.maps.values()):
        return complain("interrupted: the map has the releases that were finished", code=130)
    return 0


def _merge(misses: Mapping[str, InfeasibleError], outcome: Outcome) -> RuvError:
    name, first = next(iter(misses.items()))
    if not outcome.panel:
        return first
    others = len(misses) - 1
    also = f" (and {others} more of the {len(outcome.maps)} maps)" if others else ""
    return InfeasibleError(f"{name}{also}: {first.what}", first.got, first.do)
