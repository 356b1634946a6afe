"""Closed forms for one normal variable, vectorised, with point masses and infinite variances.

Throughout, X is normal with mean ``d`` and standard deviation ``s``; the arrays broadcast. A point mass has
s = 0. With s infinite every quantity takes its limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..numerics.quadrature import gauss_legendre
from ..protocols import Array

_ROOT2PI = float(np.sqrt(2 * np.pi))


def phi(z: ArrayLike) -> Array:
    """Density of the standard normal."""
    return np.exp(-0.5 * np.square(z)) / _ROOT2PI


def positive_part(d: ArrayLike, s: ArrayLike) -> Array:
    """E max(X, 0) = s phi(d/s) + d Phi(d/s)."""
    d, s, z = _standard(d, s)
    size = np.abs(z)
    # E max(Z - size, 0), through Mills' ratio so that the far tail keeps its relative accuracy.
    tail = phi(size) * np.maximum(1.0 - size * np.sqrt(np.pi / 2) * special.erfcx(size / np.sqrt(2)), 0.0)
    with np.errstate(invalid="ignore"):
        value = np.maximum(d, 0.0) + s * tail
    return _ends(value, s, np.maximum(d, 0.0), np.inf)


def power(d: ArrayLike, s: ArrayLike, p: float, *, signed: bool = False) -> Array:
    """E |X|^p, or E sign(X) |X|^p with ``signed``, by Kummer's function; p > 0 (p = 0 too when signed)."""
    d, s, z = _standard(d, s)
    with np.errstate(over="ignore", invalid="ignore"):
        point = np.abs(d) ** p * (np.sign(d) if signed else 1.0)
        half = 0.5 * np.square(z)
        if signed:
            shape = z * _kummer((1 - p) / 2, 1.5, half)
            value = _scaled(s, p, (p + 1) / 2, p / 2 + 1) * shape
        else:
            shape = _kummer(-p / 2, 0.5, half)
            value = _scaled(s, p, p / 2, (p + 1) / 2) * shape
        # So far out that z**2 overflows, X is as good as constant.
        value = np.where(half < 1e30, value, point)
    return _ends(value, s, point, 0.0 if signed else np.inf)


def _scaled(s: Array, p: float, twos: float, at: float) -> Array:
    """s**p 2**twos Gamma(at) / sqrt(pi), by logarithms where a factor, but not the product, leaves the floats."""
    power, front = s**p, 2.0**twos * special.gamma(at) / np.sqrt(np.pi)
    inner = (power > 0) & np.isfinite(power) & np.isfinite(front)
    if np.all(inner | (s == 0) | np.isinf(s)):
        return np.asarray(power * front)
    with np.errstate(divide="ignore"):
        logs = p * np.log(s) + twos * np.log(2.0) + special.gammaln(at) - 0.5 * np.log(np.pi)
    return np.where(inner, power * (front if np.isfinite(front) else 0.0), np.exp(logs))


def huber(d: ArrayLike, s: ArrayLike, delta: float) -> Array:
    """E of Huber's loss of X: X**2/2 within ``delta`` of zero, delta |X| - delta**2/2 beyond."""
    d, s, z = _standard(d, s)
    size = np.abs(d)
    with np.errstate(over="ignore"):
        point = np.where(size <= delta, 0.5 * np.square(np.minimum(size, delta)), delta * (size - 0.5 * delta))
    safe = np.where((s > 0) & np.isfinite(s), s, 1.0)
    # In units of s; a bend beyond 1e150 is none.
    with np.errstate(over="ignore"):
        bend = np.minimum(delta / safe, 1e150)
        near = bend <= 1.0
        value = _far_bend(z, np.maximum(bend, 1.0)) if not near.all() else np.asarray(0.0)
        if near.any():
            value = np.where(near, _near_bend(z, np.minimum(bend, 1.0)), value)
        value = value * safe * safe
    return _ends(value, s, point, np.inf)


def _near_bend(d: Array, bend: Array) -> Array:
    """Huber's loss of N(d, 1) for a small bend c: c E|X| - c**2/2 + E max(c - |X|, 0)**2 / 2, the first the largest."""
    inside = np.zeros(())
    # Node by node: the arrays may hold millions of components.
    for node, weight in zip(*gauss_legendre(24), strict=True):
        t = bend * (node + 1) / 2
        inside = inside + weight * np.square(bend - t) * (phi(t - d) + phi(t + d))
    apart = 2 * positive_part(d, 1.0) - d
    return np.asarray(bend * (apart - bend / 2 + inside / 4))


def _far_bend(d: Array, bend: Array) -> Array:
    """Huber's loss of N(d, 1) for a bend of one or more: the square inside it, the line beyond it."""
    low, high = -bend - d, bend - d
    inside = special.ndtr(high) - special.ndtr(low)
    square = (np.square(d) + 1.0) * inside + 2 * d * (phi(low) - phi(high)) + low * phi(low) - high * phi(high)
    beyond = positive_part(d - bend, 1.0) + positive_part(-d - bend, 1.0)
    tails = special.ndtr(-high) + special.ndtr(low)
    value = 0.5 * square + bend * (beyond + 0.5 * bend * tails)
    # Far from the bend the middle part is a difference of equal numbers, while the loss is linear there.
    return np.where(high < -40, bend * (d - 0.5 * bend), np.where(low > 40, bend * (-d - 0.5 * bend), value))


def outside(d: ArrayLike, s: ArrayLike, width: ArrayLike) -> Array:
    """P(|X| > width)."""
    d, s, _ = _standard(d, s)
    width = np.asarray(width, dtype=np.float64)
    safe = np.where((s > 0) & np.isfinite(s), s, 1.0)
    value = special.ndtr((-width - d) / safe) + special.ndtr((d - width) / safe)
    return _ends(value, s, farther(d, 0.0, width).astype(np.float64), 1.0)


def farther(a: ArrayLike, b: ArrayLike, width: ArrayLike) -> NDArray[np.bool_]:
    """Whether |a - b| > width; equal up to rounding counts as within when the width is positive."""
    a, b, width = np.asarray(a), np.asarray(b), np.asarray(width)
    slack = np.where(width > 0, 4 * np.finfo(float).eps * np.maximum(np.abs(a), np.abs(b)), 0.0)
    return np.abs(a - b) > width + slack


def expm1_less(u: Array) -> Array:
    """exp(u) - 1 - u without the loss of digits near zero."""
    series = np.zeros_like(u)
    small = np.clip(u, -0.3, 0.3)
    for n in range(16, 1, -1):
        series = (series + 1.0) * small / n if n > 2 else (series + 1.0) * small * small / 2
    with np.errstate(over="ignore"):
        return np.where(np.abs(u) < 0.3, series, np.expm1(np.minimum(u, 700.0)) - u)


def _standard(d: ArrayLike, s: ArrayLike) -> tuple[Array, Array, Array]:
    d, s = np.asarray(d, dtype=np.float64), np.asarray(s, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = d / s
    # Point masses and infinite variances are filled in at the end, so any z will do for them.
    bad = ~np.isfinite(z) | (s == 0)
    return (
        d,
        s,
        np.where(bad, np.where(np.isposinf(s) | np.isnan(z), 0.0, np.clip(z, -1e150, 1e150)), z) if np.any(bad) else z,
    )


def _ends(value: Array, s: Array, zero: ArrayLike, infinite: ArrayLike) -> Array:
    if np.any(s == 0):
        value = np.where(s == 0, zero, value)
    if np.any(np.isinf(s)):
        value = np.where(np.isinf(s), infinite, value)
    return np.asarray(value, dtype=np.float64)


def _kummer(a: float, b: float, x: Array) -> Array:
    """1F1(a; b; -x) for x >= 0, to rounding error."""
    # Kummer's transformation has positive terms only; far out the asymptotic series takes over.
    bend = 45.0 + 2 * abs(a)
    near = np.minimum(x, bend)
    value = np.exp(-near) * special.hyp1f1(b - a, b, near)
    far = x > bend
    if np.any(far):
        far_x = np.where(far, x, bend)
        term, total = np.ones_like(far_x), np.ones_like(far_x)
        for k in range(60):
            step = term * ((a + k) * (a - b + 1 + k)) / ((k + 1) * far_x)
            # An asymptotic series is cut at its smallest term.
            step = np.where((np.abs(step) < np.abs(term)) | (k < -a), step, 0.0)
            total += step
            term = step
            if not np.any(np.abs(step) > 1e-18 * np.abs(total)):
                break
        tail = special.gamma(b) * special.rgamma(b - a) * far_x ** (-a) * total
        value = np.where(far, tail, value)
    return np.asarray(value)
