"""One way to call the linear programming solver: tight tolerances, and a second try where rounding defeats it."""

from __future__ import annotations

from typing import Any

from scipy.optimize import linprog

from ...errors import RuvError

__all__ = ["SLACK", "solve_programme"]

SLACK = 1e-10
"""The bound on the intruder is loosened by this share of his uncertainty, so that rounding never makes it impossible."""
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
TRIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("highs", TIGHT),
    ("highs-ds", {**TIGHT, "presolve": False}),
    ("highs-ipm", TIGHT),
    ("highs", {}),
    ("highs-ds", {"presolve": False}),
)


def solve_programme(cost: Any, **parts: Any) -> Any:
    """The first solution that HiGHS finds, from tight tolerances to its usual ones."""
    for method, options in TRIES:
        found = linprog(cost, method=method, options=options, **parts)
        if found.status == 0 and found.x is not None:
            return found
    raise RuvError(
        "The linear programme of the limit has no solution",
        found.message,
        "Ask for another risk bound, or fewer states",
    )
