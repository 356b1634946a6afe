"""Where curves cross, and the least noise that brings a risk under a threshold: continuous, not on a grid."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from ..checks import as_tuple, check_integer, check_number
from ..errors import InfeasibleError, InputError
from ..maps.rumap import RUMap
from ..numerics.roots import brent_root
from ..protocols import Array
from .curve import Curve


class Crossing(NamedTuple):
    """A noise variance at which two curves have the same risk."""

    first: str
    second: str
    noise_variance: float
    risk: float
    utility: float


class LeastNoise(NamedTuple):
    """The least noise that keeps a risk at or below a threshold."""

    curve: str
    noise_variance: float
    risk: float
    utility: float
    utility_informed: float


def crossings(
    curves: Sequence[Curve] | Curve | RUMap,
    low: float | None = None,
    high: float | None = None,
    points: int | None = None,
) -> list[Crossing]:
    """Every crossing of every two curves, where one kind of knowledge stops paying and the other starts.

    Parameters
    ----------
    curves : sequence of Curve, or a map from `additive_noise`
        At least two curves. A map with a population of your own or with data does not carry its curves: pass those.
    low, high : float, optional
        Noise variances between which to look; a millionth and a thousand times the population variance if not given.
    points : int, optional
        Crossings closer together than the steps of a geometric grid with so many points may be missed; 241 of them,
        or 31 where a curve needs numerical convolution.

    Examples
    --------
    >>> both = [Curve(n=200, knowledge="population"), Curve(n=200, knowledge="record")]
    >>> round(crossings(both)[0].noise_variance, 9)  # (n + 1)/(n - 1), printed upside down in the paper
    1.010050251
    """
    listed = _as_curves(curves)
    if len(listed) < 2:
        raise InputError("crossings needs at least two curves", len(listed), "Give several knowledge states or methods")
    scale = float(listed[0].variance or 1.0)
    low = check_number("low", 1e-6 * scale if low is None else low, low=0, open_low=True)
    high = check_number("high", 1e3 * scale if high is None else high, low=low, open_low=True)
    if points is None:
        points = 241 if all(curve.normal for curve in listed) else 31
    grid = np.geomspace(low, high, check_integer("points", points, low=3))
    values = [curve.uncertainty(grid) for curve in listed]
    found = []
    for (i, a), (j, b) in combinations(enumerate(listed), 2):
        difference = values[i] - values[j]
        # Curves that are the same (or differ by rounding) do not cross.
        difference = np.where(np.abs(difference) <= 1e-13 * (values[i] + values[j]), 0.0, difference)
        for root in _crossing_roots(a, b, grid, difference):
            found.append(Crossing(a.label, b.label, root, float(a.risk(root)), float(a.utility(root))))
    return found


def optimal_noise(curve: Curve | Sequence[Curve] | RUMap, max_risk: float) -> Any:
    """The least noise variance whose risk is at most ``max_risk``: the most useful release that is allowed.

    Gives a `LeastNoise` for a `Curve`, and a list of them for a list of curves or a map. Zero where no noise is
    needed; an `InfeasibleError` where no noise is enough. In a list such a curve has NaN in its place, so that the
    others are not lost; the error comes if none can do it.

    Examples
    --------
    >>> best = optimal_noise(Curve(n=200, knowledge="record"), max_risk=5)
    >>> round(best.noise_variance, 6), round(best.utility, 4)  # Duncan et al. have .21 and 165
    (0.2, 166.6667)
    """
    max_risk = check_number("max_risk", max_risk, low=0, open_low=True)
    if not isinstance(curve, Curve):
        found: list[LeastNoise] = []
        failures: list[InfeasibleError] = []
        for one in _as_curves(curve):
            try:
                found.append(optimal_noise(one, max_risk))
            except InfeasibleError as error:
                failures.append(error)
                found.append(LeastNoise(one.label, *[float("nan")] * 4))
        if len(failures) == len(found):
            raise failures[0]
        return found
    need = 1 / max_risk
    scale = float(curve.variance or 1.0)

    def lacks(v: float) -> float:
        return float(curve.uncertainty(v)) - need

    if lacks(0.0) >= 0:
        return _least_noise_at(curve, 0.0)
    # Uncertainty need not rise all the way (a biased percentile): look outward for the first place that will do.
    last = 0.0
    for steps in _variances_to_try(curve, scale):
        enough = np.flatnonzero(curve.uncertainty(steps) >= need)
        if enough.size:
            first = int(enough[0])
            high = float(steps[first])
            low = last if first == 0 else float(steps[first - 1])
            while low == 0.0 and high > 1e-300 * scale:
                # Hardly any noise will do: the root is bracketed on both sides before it is looked for, so that it
                # keeps its digits.
                if lacks(1e-3 * high) >= 0:
                    high *= 1e-3
                else:
                    low = 1e-3 * high
            root = brent_root(lacks, low, high, absolute=4e-16 * high, relative=1e-14)
            # By its rounding at most to the side on which the risk is allowed.
            near = (root * (1 + step) for step in (0.0, 1e-15, 1e-14, 1e-13, 1e-12))
            return _least_noise_at(curve, next((v for v in near if float(curve.risk(v)) <= max_risk), root))
        last = float(steps[-1])
    limit = float(curve.risk(last))
    what = f"No noise brings the risk of the curve '{curve.label}' to {max_risk:g}"
    do = "Allow a higher risk, or use another mask"
    raise InfeasibleError(what, f"a risk of {limit:.6g} with noise variance {last:.3g}", do)


def _variances_to_try(curve: Curve, scale: float) -> Iterable[Array]:
    """Noise variances to try, in blocks. A curve by convolution costs by the point, the others by the block."""
    if not curve.normal:
        return [scale * np.array([v]) for v in np.geomspace(1e-6, 1e6, 25)]
    return [
        scale * np.geomspace(1e-9, 1e-2, 15),
        scale * np.geomspace(0.012, 1e3, 61),
        scale * 10.0 ** np.arange(3.5, 24.5),
    ]


def _least_noise_at(curve: Curve, v: float) -> LeastNoise:
    return LeastNoise(
        curve.label, v, float(curve.risk(v)), float(curve.utility(v)), float(curve.utility(v, informed=True))
    )


def _crossing_roots(a: Curve, b: Curve, grid: Array, difference: Array) -> Iterable[float]:
    def gap(v: float) -> float:
        return float(a.uncertainty(v)) - float(b.uncertainty(v))

    sign = np.sign(difference)
    if not np.any(sign):
        return
    known = np.flatnonzero(sign)
    for i, j in pairwise(known):
        if sign[i] != sign[j]:
            yield brent_root(gap, grid[i], grid[j], absolute=1e-15 * grid[j], relative=1e-14)


def _as_curves(curves: object) -> list[Curve]:
    if isinstance(curves, RUMap):
        stored = curves.attrs.get("scenario", "")
        if not stored:
            what, do = "This map does not carry its curves", "Pass the curves: scenarios.curves(...)"
            raise InputError(what, "a map with data or with a population of its own, or not of additive_noise", do)
        return [Curve(**entry) for entry in json.loads(stored)]
    listed = list(as_tuple(curves))
    if not listed or not all(isinstance(c, Curve) for c in listed):
        raise InputError("Curves are needed", curves, "Use scenarios.curves(...) or a map from additive_noise")
    return listed
