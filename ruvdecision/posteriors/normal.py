"""Expectations under normal laws, with point masses and infinite variances: closed forms, quadrature, boxes.

Throughout, X is normal with mean ``d`` and standard deviation ``s``; the arrays broadcast. A point mass has
s = 0. With s infinite every quantity takes its limit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..numerics.quadrature import adaptive, gauss_legendre
from ..numerics.semidefinite import lower_root
from ..protocols import Array, Value

_ROOT2PI = float(np.sqrt(2 * np.pi))
_PANELS = np.array([-38.0, -22.0, -12.0, -6.0, -3.0, 0.0, 3.0, 6.0, 12.0, 22.0, 38.0])
"""Where panels of quadrature begin, in standard deviations; beyond 38 the density underflows."""
_SCRAMBLES = 16
_BOX_POINTS = 512


def phi(z: ArrayLike) -> Array:
    """Density of the standard normal."""
    return np.exp(-0.5 * np.square(z)) / _ROOT2PI


def mean_positive_part(d: ArrayLike, s: ArrayLike) -> Array:
    """E max(X, 0) = s phi(d/s) + d Phi(d/s)."""
    d, s, z = _standardise(d, s)
    size = np.abs(z)
    # E max(Z - size, 0), through Mills' ratio so that the far tail keeps its relative accuracy.
    tail = phi(size) * np.maximum(1.0 - size * np.sqrt(np.pi / 2) * special.erfcx(size / np.sqrt(2)), 0.0)
    with np.errstate(invalid="ignore"):
        value = np.maximum(d, 0.0) + s * tail
    return _replace_at_zero_and_infinite_sd(value, s, np.maximum(d, 0.0), np.inf)


def mean_power(d: ArrayLike, s: ArrayLike, p: float, *, signed: bool = False) -> Array:
    """E |X|^p, or E sign(X) |X|^p with ``signed``, by Kummer's function; p > 0 (p = 0 too when signed)."""
    d, s, z = _standardise(d, s)
    with np.errstate(over="ignore", invalid="ignore"):
        point = np.abs(d) ** p * (np.sign(d) if signed else 1.0)
        half = 0.5 * np.square(z)
        if signed:
            shape = z * _kummer_function((1 - p) / 2, 1.5, half)
            value = _scaled_gamma(s, p, (p + 1) / 2, p / 2 + 1) * shape
        else:
            shape = _kummer_function(-p / 2, 0.5, half)
            value = _scaled_gamma(s, p, p / 2, (p + 1) / 2) * shape
        # So far out that z**2 overflows, X is as good as constant.
        value = np.where(half < 1e30, value, point)
    return _replace_at_zero_and_infinite_sd(value, s, point, 0.0 if signed else np.inf)


def _scaled_gamma(s: Array, p: float, twos: float, at: float) -> Array:
    """s**p 2**twos Gamma(at) / sqrt(pi), by logarithms where a factor, but not the product, leaves the floats."""
    power, front = s**p, 2.0**twos * special.gamma(at) / np.sqrt(np.pi)
    inner = (power > 0) & np.isfinite(power) & np.isfinite(front)
    if np.all(inner | (s == 0) | np.isinf(s)):
        return np.asarray(power * front)
    with np.errstate(divide="ignore"):
        logs = p * np.log(s) + twos * np.log(2.0) + special.gammaln(at) - 0.5 * np.log(np.pi)
    return np.where(inner, power * (front if np.isfinite(front) else 0.0), np.exp(logs))


def mean_huber_loss(d: ArrayLike, s: ArrayLike, delta: float) -> Array:
    """E of Huber's loss of X: X**2/2 within ``delta`` of zero, delta |X| - delta**2/2 beyond."""
    d, s, z = _standardise(d, s)
    size = np.abs(d)
    with np.errstate(over="ignore"):
        point = np.where(size <= delta, 0.5 * np.square(np.minimum(size, delta)), delta * (size - 0.5 * delta))
    safe = np.where((s > 0) & np.isfinite(s), s, 1.0)
    # In units of s; a bend beyond 1e150 is none.
    with np.errstate(over="ignore"):
        bend = np.minimum(delta / safe, 1e150)
        near = bend <= 1.0
        value = _huber_loss_large_delta(z, np.maximum(bend, 1.0)) if not near.all() else np.asarray(0.0)
        if near.any():
            value = np.where(near, _huber_loss_small_delta(z, np.minimum(bend, 1.0)), value)
        value = value * safe * safe
    return _replace_at_zero_and_infinite_sd(value, s, point, np.inf)


def _huber_loss_small_delta(d: Array, bend: Array) -> Array:
    """Huber's loss of N(d, 1) for a small bend c: c E|X| - c**2/2 + E max(c - |X|, 0)**2 / 2, the first the largest."""
    inside = np.zeros(())
    # Node by node: the arrays may hold millions of components.
    for node, weight in zip(*gauss_legendre(24), strict=True):
        t = bend * (node + 1) / 2
        inside = inside + weight * np.square(bend - t) * (phi(t - d) + phi(t + d))
    apart = 2 * mean_positive_part(d, 1.0) - d
    return np.asarray(bend * (apart - bend / 2 + inside / 4))


def _huber_loss_large_delta(d: Array, bend: Array) -> Array:
    """Huber's loss of N(d, 1) for a bend of one or more: the square inside it, the line beyond it."""
    low, high = -bend - d, bend - d
    inside = special.ndtr(high) - special.ndtr(low)
    square = (np.square(d) + 1.0) * inside + 2 * d * (phi(low) - phi(high)) + low * phi(low) - high * phi(high)
    beyond = mean_positive_part(d - bend, 1.0) + mean_positive_part(-d - bend, 1.0)
    tails = special.ndtr(-high) + special.ndtr(low)
    value = 0.5 * square + bend * (beyond + 0.5 * bend * tails)
    # Far from the bend the middle part is a difference of equal numbers, while the loss is linear there.
    return np.where(high < -40, bend * (d - 0.5 * bend), np.where(low > 40, bend * (-d - 0.5 * bend), value))


def probability_outside(d: ArrayLike, s: ArrayLike, width: ArrayLike) -> Array:
    """P(|X| > width)."""
    d, s, _ = _standardise(d, s)
    width = np.asarray(width, dtype=np.float64)
    safe = np.where((s > 0) & np.isfinite(s), s, 1.0)
    with np.errstate(over="ignore"):
        value = special.ndtr((-width - d) / safe) + special.ndtr((d - width) / safe)
    return _replace_at_zero_and_infinite_sd(value, s, is_farther(d, 0.0, width).astype(np.float64), 1.0)


def is_farther(a: ArrayLike, b: ArrayLike, width: ArrayLike) -> NDArray[np.bool_]:
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


def _standardise(d: ArrayLike, s: ArrayLike) -> tuple[Array, Array, Array]:
    d, s = np.asarray(d, dtype=np.float64), np.asarray(s, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = d / s
    # Point masses and infinite variances are filled in at the end, so any z will do for them.
    bad = ~np.isfinite(z) | (s == 0)
    if np.any(bad):
        z = np.where(bad, np.where(np.isposinf(s) | np.isnan(z), 0.0, np.clip(z, -1e150, 1e150)), z)
    return d, s, z


def _replace_at_zero_and_infinite_sd(value: Array, s: Array, zero: ArrayLike, infinite: ArrayLike) -> Array:
    if np.any(s == 0):
        value = np.where(s == 0, zero, value)
    if np.any(np.isinf(s)):
        value = np.where(np.isinf(s), infinite, value)
    return np.asarray(value, dtype=np.float64)


def _kummer_function(a: float, b: float, x: Array) -> Array:
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


# -- expectations of any function ----------------------------------------------------------------------


def expectation(f: Callable[[Array], Array], mean: Array, sd: Array, at: Array | None) -> Value:
    """E f(mean + sd Z) for arrays of means and sds; ``at`` holds kinks, ``(kinks,) + shape`` or None.

    f takes ``(points,) + shape`` and gives back the same. It is seen out to 38 sds, so that growth like exp(18 z) still
    fits into a float. An infinite sd is taken as the limit of large ones.
    """
    shape = np.broadcast_shapes(mean.shape, sd.shape)
    if np.any(np.isinf(sd)):
        return diffuse_limit(
            lambda big: expectation(f, mean, np.where(np.isinf(sd), big, sd), at), np.broadcast_to(np.isinf(sd), shape)
        )
    edges = np.broadcast_to(_PANELS.reshape((-1,) + (1,) * len(shape)), (len(_PANELS),) + shape)
    if at is not None:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            kinks = (at - mean) / sd
        kinks = np.clip(np.where(np.isfinite(kinks), kinks, 0.0), _PANELS[0], _PANELS[-1])
        edges = np.sort(np.concatenate([edges, np.broadcast_to(kinks, kinks.shape[:1] + shape)]), axis=0)

    def integrand(z: Array) -> Array:
        density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
        return np.asarray(f(mean + sd * z)) * density

    value = adaptive(integrand, edges)
    if np.any(sd == 0):
        point = np.asarray(f(np.broadcast_to(mean, shape)[None]))[0]
        value = Value(np.where(sd == 0, point, value.value), np.where(sd == 0, 0.0, value.error))
    return value


@lru_cache(maxsize=64)
def sobol_points(size: int, points: int) -> Array:
    """Scrambled Sobol points turned normal, ``(scrambles, points, size)``, always the same ones."""
    from scipy.stats import qmc

    blocks = []
    for scramble in range(_SCRAMBLES):
        uniform = qmc.Sobol(size, scramble=True, rng=np.random.default_rng([20020501, size, scramble])).random(points)
        blocks.append(special.ndtri(np.clip(uniform, 2.0**-40, 1 - 2.0**-40)))
    block = np.stack(blocks)
    block.setflags(write=False)
    return block


def mean_over_scrambles(means: list[Array]) -> Value:
    """Mean over scrambles, with the standard error that their scatter shows."""
    stack = np.stack([np.asarray(m) for m in means])
    return Value(np.asarray(stack.mean(axis=0)), np.asarray(stack.std(axis=0, ddof=1) / np.sqrt(len(stack))))


def diffuse_limit(evaluate: Callable[[float], Value], infinite: NDArray[np.bool_]) -> Value:
    """The limit of an expectation as the infinite sds grow: itself if it settles, infinity if it grows."""
    with np.errstate(over="ignore", invalid="ignore"):
        first, second = evaluate(1e40), evaluate(1e50)
        grows = infinite & ((second.value > first.value * (1 + 1e-6)) | ~np.isfinite(second.value))
    value = np.where(grows, np.inf, second.value)
    return Value(value, np.where(np.isinf(value), 0.0, second.error))


# -- the chance of leaving a box -----------------------------------------------------------------------


def probability_outside_box(d: ArrayLike, cov: ArrayLike, width: ArrayLike) -> Value:
    """P(some |X_j| > width_j) for X normal with mean ``d`` (..., k) and covariance ``cov`` (..., k, k).

    Uncorrelated components multiply; two correlated ones use Owen's T function (1956); more use the
    separation of variables of Genz (1992) with scrambled Sobol points and the error that they show.
    """
    d, cov = np.asarray(d, dtype=np.float64), np.asarray(cov, dtype=np.float64)
    width = np.broadcast_to(np.asarray(width, dtype=np.float64), d.shape[-1:])
    sd = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
    alone = probability_outside(d, sd, width)
    k = d.shape[-1]
    off = np.where(np.eye(k, dtype=bool), 0.0, cov)
    if k == 1 or not np.any(off):
        with np.errstate(divide="ignore"):
            return Value.exact(-np.expm1(np.sum(np.log1p(-np.minimum(alone, 1.0)), axis=-1)))
    certain = np.any(np.isinf(sd), axis=-1) | np.any(alone >= 1.0, axis=-1)
    cov = np.where(np.isinf(cov), 1.0, cov)
    value = _outside_pair(d, cov, width, alone) if k == 2 else _outside_many(d, cov, width)
    certain = np.broadcast_to(certain, value.value.shape)
    return Value(np.where(certain, 1.0, value.value), np.where(certain, 0.0, value.error))


def _outside_pair(d: Array, cov: Array, width: Array, alone: Array) -> Value:
    sd = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
    flat = np.any(sd == 0, axis=-1)
    safe = np.where(sd > 0, sd, 1.0)
    rho = np.clip(cov[..., 0, 1] / (safe[..., 0] * safe[..., 1]), -1.0, 1.0)
    # The determinant on its own keeps digits that 1 - rho**2 has lost.
    determinant = np.maximum(cov[..., 0, 0] * cov[..., 1, 1] - cov[..., 0, 1] ** 2, 0.0)
    rest = np.sqrt(determinant) / (safe[..., 0] * safe[..., 1])
    low, high = (-width - d) / safe, (d - width) / safe
    corners = ((low, low, rho), (high, high, rho), (low, high, -rho), (high, low, -rho))
    both = sum(_bivariate_normal_cdf(a[..., 0], b[..., 1], r, rest) for a, b, r in corners)
    union = alone[..., 0] + alone[..., 1] - both
    union = np.maximum(union, np.max(alone, axis=-1))
    # A component without variance is a matter of yes or no.
    union = np.where(flat, np.max(alone, axis=-1), union)
    return Value.exact(np.clip(union, 0.0, 1.0))


def _bivariate_normal_cdf(h: Array, k: Array, rho: Array, rest: Array) -> Array:
    """P(X < h, Y < k) for standard normals with correlation rho; ``rest`` is sqrt(1 - rho**2)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(h == 0, np.copysign(np.inf, k), (k - rho * h) / (h * rest))
        second = np.where(k == 0, np.copysign(np.inf, h), (h - rho * k) / (k * rest))
        first, second = np.where(np.isnan(first), 0.0, first), np.where(np.isnan(second), 0.0, second)
    value = 0.5 * (special.ndtr(h) + special.ndtr(k)) - special.owens_t(h, first) - special.owens_t(k, second)
    value = value - np.where((h * k > 0) | ((h * k == 0) & (h + k >= 0)), 0.0, 0.5)
    value = np.where((h == 0) & (k == 0), 0.25 + np.arcsin(rho) / (2 * np.pi), value)
    together = special.ndtr(np.minimum(h, k))
    apart = np.maximum(special.ndtr(h) - special.ndtr(-k), 0.0)
    value = np.where(rest < 1e-15, np.where(rho > 0, together, apart), value)
    return np.asarray(np.maximum(value, 0.0))


def _outside_many(d: Array, cov: Array, width: Array) -> Value:
    shape = np.broadcast_shapes(d.shape[:-1], cov.shape[:-2])
    k = d.shape[-1]
    lower = np.broadcast_to(lower_root(cov), shape + (k, k)).reshape(-1, k, k)
    d = np.broadcast_to(d, shape + (k,)).reshape(-1, k)
    points = special.ndtr(sobol_points(k, _BOX_POINTS))[:, :, None]
    block = max(1, 4_000_000 // (_BOX_POINTS * k))
    values, errors = np.empty(len(d)), np.empty(len(d))
    for start in range(0, len(d), block):
        part = slice(start, start + block)
        means = [
            probability_outside_by_separation(d[part], lower[part], width, uniform).mean(axis=0) for uniform in points
        ]
        values[part], errors[part] = mean_over_scrambles(means)
    return Value(values.reshape(shape), errors.reshape(shape))


def probability_outside_by_separation(d: Array, lower: Array, width: Array, uniform: Array) -> Array:
    """1 - prod_j P(component j inside | components before it) of laws (laws, k) at uniform points (..., laws, k).

    Genz (1992). The mean over points is the chance that a normal vector with mean ``d`` and root ``lower`` leaves the
    box; points may be shared by all laws.
    """
    k = d.shape[-1]
    drawn = np.zeros(np.broadcast_shapes(uniform.shape, d.shape))
    inside = np.zeros(drawn.shape[:-1])
    for j in range(k):
        mean = d[:, j] + np.einsum("...si,si->...s", drawn[..., :j], lower[:, j, :j])
        sd = np.broadcast_to(lower[:, j, j], mean.shape)
        with np.errstate(divide="ignore"):
            inside += np.log1p(-np.minimum(probability_outside(mean, sd, width[j]), 1.0))
        if j == k - 1:
            break
        safe = np.where(sd > 0, sd, 1.0)
        a, b = special.ndtr((-width[j] - mean) / safe), special.ndtr((width[j] - mean) / safe)
        drawn[..., j] = special.ndtri(np.clip(a + uniform[..., j] * (b - a), 1e-300, 1 - 1e-16))
    return np.asarray(-np.expm1(inside))
