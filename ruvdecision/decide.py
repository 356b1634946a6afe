"""Choosing among the releases of a map: which ones are not dominated, and which one is best under a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import as_float_array, check_choice, check_number, suggest
from .errors import InfeasibleError, InputError
from .protocols import Array
from .rumap import Row, RUMap

__all__ = ["Choice", "choose", "frontier", "not_dominated", "undominated"]

BETTER = ("lower", "higher")


def frontier(rumap: RUMap, tolerance: float = 1e-12, *, columns: Any = None) -> RUMap:
    """Return the releases that no other one dominates, in order of increasing risk.

    A release is dominated if another one has no more risk and no less utility, and is strictly better in one
    of them (Karr et al. 2006). Releases that tie in both stay together. Infinite values count like any other: a
    release with infinite risk is on the frontier only if nothing with finite risk is as useful. Releases whose
    risk or utility is NaN are never on the frontier and dominate nobody.

    Parameters
    ----------
    rumap : RUMap
        The map.
    tolerance : float, default 1e-12
        Values whose relative difference is at most this are ties: the same U by two routes differs in its last digits.
    columns : list of names or mapping from name to "lower" or "higher", optional
        Compare by these columns instead of risk and utility, however many (Karr et al. 2006, eq. 11). A mapping says which
        values of each are better. A list takes ``"risk"``, ``"utility"`` and the measures whose better end the map knows.

    Examples
    --------
    >>> rumap = RUMap.build(labels=list("abc"), intruder=[4.0, 2.0, 2.0], scientist=[2.0, 1.0, 3.0], columns={"KL": [2.0, 1.0, 0.5]})
    >>> frontier(rumap).releases
    ('a', 'b')
    >>> frontier(rumap, columns={"risk": "lower", "utility": "higher", "KL": "lower"}).releases
    ('a', 'c', 'b')
    """
    if columns is not None:
        better = _directions(rumap, columns)
        values = [rumap.risk if n == "risk" else rumap.utility if n == "utility" else rumap.columns[n] for n in better]
        keep = np.flatnonzero(undominated(values, list(better.values()), tolerance))
        if keep.size == 0:
            raise InputError("No release has a value in every column", ", ".join(better), "Leave out the columns that hold NaN")
        return rumap.take(keep[np.lexsort((rumap.utility[keep], rumap.risk[keep]))])
    keep = np.flatnonzero(not_dominated(rumap.risk, rumap.utility, tolerance))
    if keep.size == 0:
        raise InputError(
            "No release has both a risk and a utility", f"{len(rumap)} releases with NaN", "Look at the columns risk and utility"
        )
    return rumap.take(keep[np.lexsort((rumap.utility[keep], rumap.risk[keep]))])


def not_dominated(risk: ArrayLike, utility: ArrayLike, tolerance: float = 1e-12) -> NDArray[np.bool_]:
    """Return True for every point that no other one dominates; low risk and high utility are good.

    One sort and one pass: O(n log n).

    >>> not_dominated([1, 2, 2], [1, 3, 2]).tolist()
    [True, True, False]
    """
    r, u = as_float_array("risk", risk), as_float_array("utility", utility)
    if r.ndim != 1 or r.shape != u.shape:
        raise InputError(
            "risk and utility must have one entry per release", f"shapes {r.shape} and {u.shape}", "Give flat arrays of the same length"
        )
    tolerance = check_number("tolerance", tolerance, low=0, high=1, open_high=True)
    keep = np.zeros(r.shape, dtype=bool)
    known = np.flatnonzero(~(np.isnan(r) | np.isnan(u)))
    if known.size == 0:
        return keep
    low, high = _ranks(r[known], tolerance), _ranks(u[known], tolerance)
    order = np.lexsort((-high, low))
    low, high = low[order], high[order]
    first = np.r_[True, low[1:] != low[:-1]]  # the most useful among those with the same risk
    best = high[first]
    beaten = np.r_[False, best[1:] <= np.maximum.accumulate(best)[:-1]]
    group = np.cumsum(first) - 1
    keep[known[order]] = (high == best[group]) & ~beaten[group]
    return keep


def undominated(values: Any, better: Sequence[str], tolerance: float = 1e-12) -> NDArray[np.bool_]:
    """Return True for every point that no other one dominates, in any number of criteria.

    Point i is dominated if some point is at least as good in every criterion and better in one (Karr et al. 2006, eq. 11).
    Points that tie in all of them stay together. Points with a NaN are never kept and dominate nobody.

    Parameters
    ----------
    values : sequence of arrays
        One array per criterion, each with one entry per point.
    better : sequence of "lower" or "higher"
        Which values of each criterion are better.
    tolerance : float, default 1e-12
        Values whose relative difference is at most this are ties.

    Examples
    --------
    >>> undominated([[0.1, 0.2, 0.2], [0.9, 0.8, 0.95], [3.0, 1.0, 4.0]], ["lower", "higher", "lower"]).tolist()
    [True, True, True]
    """
    criteria = [as_float_array(f"criterion {j + 1}", v) for j, v in enumerate(values)]
    if not criteria or len(criteria) != len(better):
        raise InputError(
            "Every criterion needs its better end", f"{len(criteria)} criteria and {len(better)} ends", 'Write "lower" or "higher" for each'
        )
    if any(v.ndim != 1 or v.shape != criteria[0].shape for v in criteria):
        raise InputError(
            "Criteria must have one entry per point", f"shapes {[v.shape for v in criteria]}", "Give flat arrays of the same length"
        )
    tolerance = check_number("tolerance", tolerance, low=0, high=1, open_high=True)
    keep = np.zeros(criteria[0].shape, dtype=bool)
    known = np.flatnonzero(~np.any([np.isnan(v) for v in criteria], axis=0))
    if known.size == 0:
        return keep
    signs = [1 if check_choice("better", b, BETTER) == "lower" else -1 for b in better]
    # Small ranks are good from here on, and ties are exact.
    costs = np.stack([s * _ranks(v[known], tolerance) for v, s in zip(criteria, signs, strict=True)], axis=1)
    # In this order nobody is dominated by a later one, so every point meets the front as it stands and stays.
    order = np.lexsort(costs.T[::-1])
    front = np.empty((0, costs.shape[1]), dtype=costs.dtype)
    for i in order:
        at_least = (front <= costs[i]).all(axis=1)
        if not np.any(at_least & (front < costs[i]).any(axis=1)):
            keep[known[i]] = True
            if not at_least.any():  # a tie adds nothing to compare with
                front = np.concatenate([front, costs[i][None]])
    return keep


def choose(rumap: RUMap, max_risk: float, tolerance: float = 1e-9) -> Choice:
    """Return the release with the greatest utility among those whose risk is at most ``max_risk``.

    Parameters
    ----------
    rumap : RUMap
        The map.
    max_risk : float
        The threshold, on the scale of the map's risk: positive for a reciprocal, any value that the score can take
        otherwise. Infinity allows everything.
    tolerance : float, default 1e-9
        A release is allowed if its risk exceeds the threshold by no more than this share of it (for gains and logs,
        of the natural scale if that is larger: U0 or 1), so that a noise level that was solved for meets its own threshold.

    Returns
    -------
    Choice
        The row of the map, the runner-up and remarks; its text is one sentence. Ties in utility (within a relative 1e-12)
        go to the lowest risk, ties in both to the release that is listed first. Releases whose sampler did not converge
        compete like the others, and the choice says so if one of them wins.

    Raises
    ------
    InfeasibleError
        If no release is allowed; the message names the nearest miss.

    Examples
    --------
    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> print(choose(rumap, max_risk=0.5))
    Release a: risk 0.5 (threshold 0.5), utility 2; nothing else is allowed.
    """
    threshold = _check_threshold(rumap, max_risk)
    tolerance = check_number("tolerance", tolerance, low=0, high=1, open_high=True)
    slack = 0.0 if np.isinf(threshold) else tolerance * max(abs(threshold), rumap.risk_score.scale(rumap.before[0]))
    risk, utility = rumap.risk, rumap.utility
    allowed = np.flatnonzero(risk <= threshold + slack)  # NaN is never allowed
    if allowed.size == 0:
        raise _nearest_miss(rumap, threshold)
    allowed = allowed[~np.isnan(utility[allowed])]
    if allowed.size == 0:
        raise InfeasibleError(
            f"No release with risk at most {threshold:.6g} has a utility", "NaN for all of them", "Look at the column utility"
        )
    order = allowed[np.lexsort((allowed, _ranks(risk[allowed], 1e-12), -_ranks(utility[allowed], 1e-12)))]
    rows = [rumap[int(i)] for i in order[:2]]
    return Choice(rows[0], threshold, rows[1] if len(rows) > 1 else None, int(allowed.size))


@dataclass(frozen=True)
class Choice:
    """The chosen release: its row of the map, the threshold and the runner-up. Its text is one sentence."""

    row: Row
    max_risk: float
    next_best: Row | None = None
    """The second best release that is allowed."""
    allowed: int = 1
    """How many releases are allowed."""

    @property
    def release(self) -> str:
        return self.row.release

    @property
    def mask(self) -> Any:
        return self.row.mask

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.row.parameters

    @property
    def risk(self) -> float:
        return self.row.risk

    @property
    def utility(self) -> float:
        return self.row.utility

    @property
    def risk_error(self) -> float:
        return self.row.risk_error

    @property
    def utility_error(self) -> float:
        return self.row.utility_error

    @property
    def within_error(self) -> bool:
        """True if the threshold lies within two standard errors of the release's risk."""
        return bool(self.risk_error > 0 and abs(self.risk - self.max_risk) <= 2 * self.risk_error)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know before trusting the choice."""
        remarks = []
        if self.within_error:
            remarks.append(f"the threshold lies within two standard errors ({_number(self.risk_error)} each) of its risk")
        if not self.row.converged:
            remarks.append("its sampler did not converge")
        if self.row.mask is None and self.row.parameters:
            remarks.append("its mask is not stored in the map")
        return tuple(remarks)

    def __getattr__(self, name: str) -> Any:
        # Everything else that the row knows: technique, engine, measures, the mask's parameters.
        if name.startswith("__") or "row" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.row, name)

    def __str__(self) -> str:
        def with_error(value: float, error: float) -> str:
            return _number(value) + (f" ± {_number(error, 2)}" if error > 0 else "")

        threshold = "no threshold" if np.isinf(self.max_risk) else f"threshold {_number(self.max_risk)}"
        risk, utility = with_error(self.risk, self.risk_error), with_error(self.utility, self.utility_error)
        text = f"Release {self.release}: risk {risk} ({threshold}), utility {utility}"
        text += "".join(f"; {remark}" for remark in self.remarks)
        if self.next_best is None:
            return text + "; nothing else is allowed."
        other = self.next_best
        return text + f"; the next best allowed is {other.release} with risk {_number(other.risk)}, utility {_number(other.utility)}."


def _directions(rumap: RUMap, columns: Any) -> dict[str, str]:
    """Which end of each named column is better."""
    known: dict[str, str] = {"risk": "lower", "utility": "higher"}
    stored = rumap.attrs.get("better", {})
    for part in stored if isinstance(stored, list) else [stored]:  # joined maps keep both
        known |= part
    names = [columns] if isinstance(columns, str) else list(columns)
    if not names:
        raise InputError("columns must name at least one column", columns, "Leave it out to compare risk and utility")
    if len(set(names)) != len(names):
        raise InputError("columns names a column twice", names, "Name each column once")
    found = {}
    for name in names:
        if name not in ("risk", "utility") and name not in rumap.columns:
            raise InputError(
                "columns names a column that the map does not have", str(name), suggest(str(name), ["risk", "utility", *rumap.columns])
            )
        if name in rumap.columns and rumap.columns[name].dtype.kind not in "biuf":
            raise InputError("A frontier compares numbers", f"{name} is text", "Name columns of numbers")
        if isinstance(columns, Mapping):
            found[name] = check_choice(f"The better end of {name}", columns[name], BETTER)
        elif name in known:
            found[name] = known[name]
        else:
            raise InputError(
                f"The map does not know which values of {name} are better",
                "a name alone",
                f'Write columns={{"{name}": "lower"}}, or "higher"',
            )
    return found


def _check_threshold(rumap: RUMap, max_risk: Any) -> float:
    score = rumap.risk_score
    threshold = check_number("max_risk", max_risk, infinite=True)
    known = rumap.risk[np.isfinite(rumap.risk)]
    highest = max(score.highest, float(known.max(initial=-np.inf)))
    if score.lowest == 0.0 and threshold <= 0:
        raise InputError(f"max_risk must be positive, as the risk is a {score.name}", threshold, "Give a threshold above zero")
    if threshold == -np.inf:
        raise InputError("max_risk must be a number", threshold, "Give a threshold that a release can meet")
    if threshold > highest and not np.isinf(threshold):
        raise InputError(
            f"max_risk must be at most {highest:g}, as the risk is a {score.name}", threshold, "Give a threshold that the risk can take"
        )
    return threshold


def _nearest_miss(rumap: RUMap, threshold: float) -> InfeasibleError:
    if np.all(np.isnan(rumap.risk)):
        return InfeasibleError("No release has a risk", "NaN for all of them", "Look at the column risk")
    i = int(np.nanargmin(rumap.risk))
    risk = float(rumap.risk[i])
    over = risk - threshold
    share = f", {100 * over / abs(threshold):.3g} %" if threshold else ""
    return InfeasibleError(
        f"No release has risk at most {_number(threshold, 6)}",
        f"{rumap.releases[i]} as the nearest miss, with risk {_number(risk, 6)} ({_number(over, 3)} above{share})",
        "Raise max_risk, or add masks that release less, such as Suppress()",
    )


def _ranks(values: Array, tolerance: float) -> NDArray[np.int64]:
    """Rank values, the lowest first; values closer than the tolerance to their neighbour share a rank."""
    order = np.argsort(values, kind="stable")
    v = values[order]
    with np.errstate(invalid="ignore"):
        gap = v[1:] - v[:-1]
        larger = (v[1:] != v[:-1]) & (np.isinf(gap) | (gap > tolerance * np.maximum(np.abs(v[1:]), np.abs(v[:-1]))))
    # An infinite neighbour makes the tolerance infinite; it is never a tie with a finite value.
    ranks = np.empty(len(v), dtype=np.int64)
    ranks[order] = np.concatenate([[0], np.cumsum(larger)])
    return ranks


def _number(x: float, digits: int = 4) -> str:
    return f"{x:.{digits}g}".replace("inf", "∞")
