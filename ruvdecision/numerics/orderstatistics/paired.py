"""The same rank in two correlated normal samples: what ties the largest released value to the largest record."""

from __future__ import annotations

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import ArrayLike
from scipy import special

from ...checks import as_float_array, check_finite
from ...errors import InputError
from ...numerics.quadrature import gauss_legendre
from ...protocols import Array
from .single import cached_moments, check_rank, normal_moments, order_law, order_window


def same_record(n: int, rank: int, angle: ArrayLike) -> Array:
    """Probability that one record has the same rank r in both coordinates of n independent normal pairs.

    The pairs have correlation cos(angle). 1 at angle 0, 1/n at a right angle.

    >>> round(float(same_record(10, 10, np.pi / 2)), 12)
    0.1
    """
    n, rank = check_rank(n, rank)
    theta = _check_angle(angle)
    return _same_record(n, rank, theta.ravel()).reshape(theta.shape)


def paired_gap(n: int, rank: int, angle: ArrayLike) -> Array:
    r"""E (X_(r) - Z_(r))^2 for n independent standard normal pairs (X_i, Z_i) of correlation cos(angle).

    Each coordinate is ranked by itself. By Price's theorem the derivative of E X_(r) Z_(r) with respect to the
    correlation is the probability P that the same record holds rank r in both, so

        E (X_(r) - Z_(r))^2 = 2 \int_0^angle P(a) sin(a) da,

    a sum of positive terms: no digits are lost for small angles. P is computed on a few panels of the angle and
    interpolated, so a whole grid of angles costs hardly more than one.

    For a record x with variance s2 released as Y = x + noise of variance l2, tan(angle) = sqrt(l2 / s2).

    >>> round(float(paired_gap(1, 1, np.pi / 2)), 10)  # two independent normals
    2.0
    """
    n, rank = check_rank(n, rank)
    theta = _check_angle(angle)
    flat = np.atleast_1d(theta).ravel()
    if n == 1:
        return np.asarray(4 * np.sin(theta / 2) ** 2)
    edges, values = _panels(n, max(rank, n + 1 - rank), float(np.max(flat, initial=0.0)))
    return _integrate(edges, values, flat).reshape(theta.shape)


def paired_product(n: int, rank: int, angle: ArrayLike) -> Array:
    """E X_(r) Z_(r) for n independent standard normal pairs of correlation cos(angle).

    >>> round(float(paired_product(200, 200, 0.0)), 6)  # the second moment of the maximum
    7.701474
    """
    mean, variance = normal_moments(n, rank)
    return np.asarray(mean**2 + variance - paired_gap(n, rank, angle) / 2)


# -- helpers -------------------------------------------------------------------------------------------------

_PANEL = 12  # Gauss-Legendre nodes of the angle per panel


def _panels(n: int, rank: int, largest: float) -> tuple[Array, Array]:
    """Return panel edges up to at least ``largest`` and P at the nodes of each panel."""
    # P falls from 1 on the scale of the gap to the next record, then ever more slowly: panels double.
    gap = _record_gap(n, rank)
    edges = [0.0]
    step = min(gap, np.pi / 4)
    while edges[-1] < largest:
        edges.append(min(edges[-1] + step, np.pi / 2) if edges[-1] + 1.6 * step < np.pi / 2 else np.pi / 2)
        step = max(step, edges[-1])
    if len(edges) == 1:
        edges.append(step)
    ends = np.array(edges)
    nodes = gauss_legendre(_PANEL)[0]
    theta = ends[:-1, None] + (ends[1:] - ends[:-1])[:, None] * (nodes + 1) / 2
    return ends, _same_record(n, rank, theta.ravel()).reshape(theta.shape)


def _integrate(edges: Array, values: Array, theta: Array) -> Array:
    """2 times the integral of P(a) sin(a) from 0 to each theta, from P at the nodes of each panel."""
    nodes, weights = gauss_legendre(_PANEL)
    width = np.diff(edges)
    inner = edges[:-1, None] + width[:, None] * (nodes + 1) / 2
    whole = np.concatenate([[0.0], np.cumsum(np.sum(weights * width[:, None] / 2 * values * np.sin(inner), axis=1))])
    panel = np.clip(np.searchsorted(edges, theta, side="right") - 1, 0, len(width) - 1)
    # The part of the last panel: P interpolated at nodes between the panel's start and theta.
    reach = theta - edges[panel]
    at = reach[:, None] * (nodes + 1) / 2
    position = 2 * at / width[panel][:, None] - 1
    basis = legvander(nodes, _PANEL - 1)
    coefficients = (np.arange(_PANEL) + 0.5)[:, None] * (basis * weights[:, None]).T @ values.T
    part = np.einsum("tkc,ct->tk", legvander(position, _PANEL - 1), coefficients[:, panel])
    rest = np.sum(weights * reach[:, None] / 2 * part * np.sin(edges[panel][:, None] + at), axis=1)
    return np.asarray(2 * (whole[panel] + rest))


def _record_gap(n: int, rank: int) -> float:
    mean = cached_moments(n, rank).mean
    return float(np.sqrt(2 * np.pi) * np.exp(mean * mean / 2) / n)


def _same_record(n: int, rank: int, theta: Array) -> Array:
    """P that the record of rank r is the same in both coordinates, for each angle.

    With X = c s + d w and Z = c s - d w, c and d the cosine and sine of half the angle, s and w are independent
    standard normals, and P is the integral of n phi(s) phi(w) K, K the probability that of the n - 1 other
    records equally many are below in both coordinates.
    """
    rank = max(rank, n + 1 - rank)  # by symmetry work in the upper tail, where survival functions keep digits
    result = np.ones_like(theta)
    if n == 1:
        return result
    low, high = order_window(n, rank, 36.0)
    sd = np.sqrt(cached_moments(n, rank).variance)
    gap = _record_gap(n, rank)
    constant = order_law(n, rank, 401)[2] - 0.5 * np.log(2 * np.pi)
    # Inner order statistics are nearly normal and forgive wider steps than extremes, whose law is Gumbel's.
    wide = min(0.54, (0.44 if n <= 10_000 else 0.36) + 0.06 * (n - rank))
    for i, angle in enumerate(theta):
        if angle < 1e-200:
            continue
        c, d = np.cos(angle / 2), np.sin(angle / 2)
        # How far apart the two values may lie: their own noise, and the ranks that must agree.
        narrow = 1 / np.sqrt(1 + 2.5 * d / gap)
        step_w, step_s = wide * narrow, (wide - 0.04) * sd
        w = np.arange(0.0, min(8.6, (high - low) / (2 * d)) + step_w, step_w)
        middle = np.arange(low, high, step_s) + 1e-9 * step_s
        s = middle / c
        shift = d * w[:, None]
        # Both values must lie where the order statistic does; K is at most one, which bounds the rest.
        keep = (middle - shift > low) & (middle + shift < high) & (constant - (s**2 + w[:, None] ** 2) / 2 > -32.0)
        row, column = np.nonzero(keep)
        ss, ww = s[column], w[row]
        log = constant - (ss**2 + ww**2) / 2 + _log_agreement(n, rank, ss, ww, c, d)
        weight = np.where(row == 0, 0.5, 1.0)
        result[i] = 2 * step_w * step_s / c * np.sum(weight * np.exp(log))
    return result


def _log_agreement(n: int, rank: int, s: Array, w: Array, c: float, d: float) -> Array:
    """Log of K up to the constant C(n - 1, r - 1)."""
    a, b = c * s + d * w, c * s - d * w
    above_a, above_b = special.ndtr(-a), special.ndtr(-b)
    both = (above_a + above_b) / 2 - special.owens_t(a, (s * d - w * c) / a) - special.owens_t(b, (s * d + w * c) / b)
    both = np.where(a * b < 0, both - 0.5, both)
    both = np.clip(both, 0.0, np.minimum(above_a, above_b))
    with np.errstate(divide="ignore"):
        neither = np.log1p(both - above_a - above_b)
        if rank == n:
            return np.asarray((rank - 1) * neither)
        odds = np.log(above_b - both) + np.log(above_a - both) - np.log(both) - neither
        return np.asarray((rank - 1) * neither + (n - rank) * np.log(both) + _log_exchanges(rank - 1, n - rank, odds))


def _log_exchanges(below: int, above: int, odds: Array) -> Array:
    """Log of sum_k C(below, k) C(above, k) exp(k odds): k records go up and k come down."""
    top = min(below, above)
    k = np.arange(top, dtype=np.float64)
    table = np.concatenate([[0.0], np.cumsum(np.log((below - k) * (above - k) / (k + 1) ** 2))])
    odds = np.where(np.isfinite(odds), odds, -700.0)
    q = np.exp(np.minimum(odds, 300.0))
    total = float(below + above)
    product = float(below) * float(above)
    # The largest term solves (below - k)(above - k) q = k^2; written so that q = 1 is no exception.
    peak = 2 * product * q / (q * total + np.sqrt(np.maximum(q * q * total**2 + 4 * (1 - q) * q * product, 0.0)))
    curvature = 2 / np.maximum(peak, 0.5) + 1 / np.maximum(below - peak, 0.5) + 1 / np.maximum(above - peak, 0.5)
    reach = np.ceil(7.5 / np.sqrt(curvature)).astype(int) + 8
    start = np.clip(np.floor(peak).astype(int) - reach, 0, top)
    result = np.empty_like(odds)
    order = np.argsort(reach, kind="stable")
    # Records of similar reach are summed together, so that a few wide ones do not widen all.
    for block in np.array_split(order, max(1, -(-len(order) // 512))):
        exchanged = start[block][:, None] + np.arange(2 * int(reach[block].max(initial=0)) + 1)
        terms = np.where(
            exchanged <= top, table[np.minimum(exchanged, top)] + exchanged * odds[block][:, None], -np.inf
        )
        highest = terms.max(axis=1)
        result[block] = highest + np.log(np.exp(terms - highest[:, None]).sum(axis=1))
    return result


def _check_angle(angle: ArrayLike) -> Array:
    theta = check_finite("angle", as_float_array("angle", angle))
    if np.any(theta < 0) or np.any(theta > np.pi / 2 * (1 + 1e-15)):
        do = "Use arctan(sqrt(noise_variance / variance))"
        raise InputError("angle must lie in [0, pi/2]", [float(theta.min()), float(theta.max())], do)
    # Rounding may take a right angle beyond itself, where the panels never come.
    return np.asarray(np.minimum(theta, np.pi / 2))
