"""Timing two functions against each other in one run."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

__all__ = ["best", "race"]


def best(function: Callable[[], Any], *, rounds: int = 5) -> float:
    """Return the shortest of several runs, in seconds. The first run warms caches and does not count."""
    function()
    return min(_once(function) for _ in range(rounds))


def race(ours: Callable[[], Any], theirs: Callable[[], Any], *, rounds: int = 5) -> tuple[float, float]:
    """Time two functions in turns and return the best of each, in seconds.

    Turns, because a busy machine then slows both down alike.
    """
    ours()
    theirs()
    times = [(_once(ours), _once(theirs)) for _ in range(rounds)]
    return min(t[0] for t in times), min(t[1] for t in times)


def _once(function: Callable[[], Any]) -> float:
    start = perf_counter()
    function()
    return perf_counter() - start
