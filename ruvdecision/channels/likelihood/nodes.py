"""Nodes and weights that integrate any smooth function against what a release tells."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ...checks import check_integer
from ...errors import InputError
from ...numerics.quadrature import gauss_legendre
from ...protocols import Array
from .base import ColumnLikelihood, as_row

# Numbers that one look at a likelihood may need at a time; more are taken in turns.
CHUNK = 4_000_000


def nodes(
    observation: ColumnLikelihood,
    low: ArrayLike,
    high: ArrayLike,
    panels: int = 8,
    order: int = 16,
    edges: ArrayLike = (),
) -> tuple[Array, Array]:
    """Return x and log weights, both of shape (K, n), for integrals against the likelihood.

    ``sum_k exp(logw[k, i]) f(x[k, i])`` is the integral of f(x) p(released_i | x) from low_i to high_i. Gauss-Legendre
    panels are cut at the kinks and ends of the likelihood, restricted to where it is within 40 of its largest
    logarithm, and graded where it changes. A known entry has one node of weight one; a category has one node per
    category. All x are finite, also where the weight is zero.

    Parameters
    ----------
    observation : Observation
        What is told about one column.
    low, high : float or one per entry
        Where f lives. They may be infinite where the likelihood falls off by itself.
    panels : int, default 8
        Panels of equal width, beside the cuts that the likelihood needs. More of them suit an f that is narrow.
    order : int, default 16
        Nodes per panel.
    edges : array, optional
        Further edges of panels, where f has heavy tails.

    >>> from ...masks import Noise
    >>> from .from_release import observe
    >>> x, logw = nodes(observe(Noise(sd=2.0), [1.0], 1).columns[0], -50, 50)
    >>> float(np.sum(np.exp(logw) * x).round(9))
    1.0
    """
    panels, order = check_integer("panels", panels, low=1), check_integer("order", order, low=1)
    n = observation.n
    low, high = as_row(low, n), as_row(high, n)
    if not np.all(low <= high):
        raise InputError("low must not exceed high", "some entries where it does", "Swap them")
    if observation.support is not None:
        x = np.repeat(observation.support[:, None], n, axis=1)
        logs = np.asarray(observation.log(x))
        return x, np.where((x >= low) & (x <= high), logs, -np.inf)
    known = observation.known_values
    sure = ~np.isnan(known)
    if sure.all():
        return known[None].copy(), np.where((known >= low) & (known <= high), 0.0, -np.inf)[None]
    rows = np.flatnonzero(~sure)
    inner_x, inner_w = _continuous_nodes(
        observation.take(rows) if sure.any() else observation, low[rows], high[rows], panels, order, np.asarray(edges)
    )
    if not sure.any():
        return inner_x, inner_w
    x, logw = np.repeat(np.where(sure, known, 0.0)[None], len(inner_x), axis=0), np.full((len(inner_x), n), -np.inf)
    x[:, rows], logw[:, rows] = inner_x, inner_w
    logw[0, sure] = np.where((known >= low) & (known <= high), 0.0, -np.inf)[sure]
    return x, logw


def _continuous_nodes(
    part: ColumnLikelihood, low: Array, high: Array, panels: int, order: int, more: Array
) -> tuple[Array, Array]:
    """Nodes of entries that are not known exactly."""
    start, end = part.window()
    a, b = np.maximum(np.maximum(low, start), part.low), np.minimum(np.minimum(high, end), part.high)
    empty = ~(a < b)
    wrong = ~empty & ~(np.isfinite(a) & np.isfinite(b))
    if wrong.any():
        raise InputError(
            "low and high must be finite where the likelihood does not fall off",
            f"{int(wrong.sum())} entries where they are not",
            "Give finite ends",
        )
    # An empty range keeps a finite place, so that f can be asked there.
    spot = np.where(np.isfinite(a), a, np.where(np.isfinite(b), b, 0.0))
    spot = np.clip(spot, np.where(np.isfinite(low), low, -1e300), np.where(np.isfinite(high), high, 1e300))
    a, b = np.where(empty, spot, a), np.where(empty, spot, b)
    own = np.repeat(more[None], part.n, axis=0)
    fixed = np.concatenate([part.cuts, part.panel_edges, own], axis=1).T
    even = a + (b - a) * np.linspace(0, 1, panels + 1)[:, None]
    even[-1] = b
    edges = np.sort(np.concatenate([even, np.clip(np.where(np.isfinite(fixed), fixed, a), a, b)]), axis=0)
    # Zero-width panels go last, and those that are empty for every entry are left out.
    wide = edges[1:] > edges[:-1]
    keep = int(wide.sum(axis=0).max(initial=0)) or 1
    first = np.argsort(~wide, axis=0, kind="stable")[:keep]
    left, right = np.take_along_axis(edges[:-1], first, axis=0), np.take_along_axis(edges[1:], first, axis=0)
    node, weight = gauss_legendre(order)
    half = (right - left) / 2
    x = ((left + right) / 2 + half * node[:, None, None]).reshape(-1, part.n)
    with np.errstate(divide="ignore"):
        logw = (np.log(half) + np.log(weight)[:, None, None]).reshape(-1, part.n)
    step = max(1, CHUNK // (part.n * part.points_per_entry))
    logs = np.concatenate([np.asarray(part.log(x[i : i + step])) for i in range(0, len(x), step)])
    return x, logw + logs
