"""The distribution of a weighted sum of squared normal variables, and of its ratio to an independent chi-square.

Both are needed for the ellipsoid overlap: how much of one multivariate t law lies in the confidence ellipsoid of
another. No simulation: the inner law by Laplace inversion on a bent path through the saddle point, the outer one
by the trapezoidal rule, which converges exponentially fast for such integrands.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ..checks import check_number, check_vector
from ..errors import InputError
from ..protocols import Array

STEP = 0.1
"""Step along the path; halving it changes nothing beyond 1e-13."""
PIECE = 60
"""Steps that are taken together; pieces are added until the integrand has vanished."""
SLOPE = 0.5
"""How much the path leans to the right in the end; it then passes every singularity at an angle of 63 degrees."""


def cdf(x: ArrayLike, weights: ArrayLike, shifts: ArrayLike | None = None) -> Array:
    """P(sum_i w_i (z_i + b_i)^2 <= x) for independent standard normal z_i and weights w_i > 0.

    Parameters
    ----------
    x : array
        Where to evaluate, any shape.
    weights : array of length p
        The positive weights w_i.
    shifts : array, optional
        The shifts b_i (not squared), of length p, or of shape ``x.shape + (p,)`` for shifts that vary with x.

    Notes
    -----
    With K the cumulant generating function, the probability is the integral of exp(K(t) - t x) / (-t) over a line to
    the left of the origin, divided by 2 pi i; above the mean the same to the right of it gives the upper tail. The line
    passes the saddle point, follows the steepest descent there and ends in rays that lean to the right, where the
    integrand falls off exponentially; steps grow along it (Rice, 1980; Daniels, 1987).

    Examples
    --------
    >>> round(float(cdf(6.0, [1, 2, 0.5], np.sqrt([1, 0.3, 2]))), 12)
    0.594108015038
    """
    weights = check_vector("weights", weights)
    if len(weights) == 0 or np.any(weights <= 0):
        raise InputError("weights must be positive", weights.tolist(), "Leave out terms of weight zero")
    x = np.asarray(x, dtype=np.float64)
    if np.any(np.isnan(x)):
        raise InputError("x must not be missing", "nan", "Give numbers")
    b = np.zeros(len(weights)) if shifts is None else np.asarray(shifts, dtype=np.float64)
    if b.shape[-1:] != weights.shape or not np.all(np.isfinite(b)):
        what = f"shifts must be finite and end in {len(weights)} entries"
        raise InputError(what, f"shape {b.shape}", "Give one shift per weight")
    scale = float(weights.max())
    points = np.broadcast_to(x, np.broadcast_shapes(x.shape, b.shape[:-1]))
    squares = np.broadcast_to(b * b, (*points.shape, len(weights)))
    result = np.where(points == np.inf, 1.0, 0.0)
    inside = (points > 0) & np.isfinite(points)
    if np.any(inside):
        result[inside] = _invert_characteristic_function(points[inside] / scale, weights / scale, squares[inside])
    return result


def ellipsoid_content(
    centre: ArrayLike, scale: ArrayLike, df: float, middle: ArrayLike, shape: ArrayLike, radius: float
) -> float:
    """P((beta - m)' G^-1 (beta - m) <= r) for beta from a multivariate t law, or a normal one if ``df`` is infinite.

    Parameters
    ----------
    centre, scale, df
        The law of beta: location b, scale matrix V (the covariance is df/(df - 2) times it) and degrees of freedom.
    middle, shape, radius
        The ellipsoid: its middle m, its matrix G and its squared radius r.

    Notes
    -----
    beta = b + L z / s with V = LL' and s^2 = chi2_df / df. With L'G^-1 L = Q diag(a) Q' and d = Q'L^-1(b - m), the
    event is sum a_i (z_i + s d_i)^2 <= r s^2, whose probability given s is `cdf`. Karr et al. (2006), section 2.2.

    Examples
    --------
    >>> round(ellipsoid_content([1, 0], np.eye(2), np.inf, [0, 0], np.eye(2), 5.991464547107983), 10)
    0.8672899858
    """
    centre, middle = check_vector("centre", centre), check_vector("middle", middle)
    radius = check_number("radius", radius, low=0, infinite=True)
    df = check_number("df", df, low=0, open_low=True, infinite=True)
    if radius == np.inf:
        return 1.0
    root = np.linalg.cholesky(np.asarray(scale, dtype=np.float64))
    whitened = np.linalg.solve(
        np.linalg.cholesky(np.asarray(shape, dtype=np.float64)), np.column_stack([root, centre - middle])
    )
    # Singular values keep the small weights to full precision, which the eigenvalues of the product would not.
    left, singular, _ = np.linalg.svd(whitened[:, :-1])
    d = (left.T @ whitened[:, -1]) / singular
    a = singular**2
    if df == np.inf:
        return float(cdf(radius, a, d))
    s, mass = _scale_law(df, len(a))
    return float(mass @ cdf(radius * s * s, a, s[:, None] * d))


def _scale_law(df: float, p: int) -> tuple[Array, Array]:
    """Nodes and masses of s = sqrt(chi2_df / df) by the trapezoidal rule in log s."""
    sd = 1.0 / np.sqrt(2 * df)
    # The content falls like s^p at the left end, which shortens the tail of the density s^df there.
    low = -np.sqrt(2 * 37 * (sd**2)) - 37.0 / (df + p)
    high = 0.5 * np.log1p(74 / df + np.sqrt(148 / df))
    step = min(sd * 0.4, 0.08)
    v = np.arange(low, high + step, step)
    half = df / 2
    if df > 50:
        # The constant loses digits here, and the whole density lies between the ends: its masses sum to one.
        mass = np.exp(df * v - half * np.expm1(2 * v))
        mass /= mass.sum()
    else:
        mass = step * np.exp(np.log(2) + half * np.log(half) - special.gammaln(half) + df * v - half * np.exp(2 * v))
    keep = mass > 1e-18
    return np.exp(v[keep]), mass[keep]


def _invert_characteristic_function(x: Array, w: Array, squares: Array) -> Array:
    """`cdf` for positive x of shape (m,) and weights scaled to a largest one of 1."""
    upper = x > (w * (1 + squares)).sum(axis=1)
    t = np.empty(len(x))
    for side in (False, True):
        here = upper == side
        if np.any(here):
            t[here] = _saddle_point(x[here], w, squares[here], side)
    one = 1 - 2 * w * t[:, None]
    second = (w * w * (2 / one**2 + 4 * squares / one**3)).sum(axis=1) + 1 / t**2
    third = (w**3 * (8 / one**3 + 24 * squares / one**4)).sum(axis=1)
    width = 1 / np.sqrt(second)
    # Near the saddle the curve bends as the steepest descent of K does, far away it is straight.
    reach = np.maximum(SLOPE * 3 * (second - 1 / t**2) / third, 2 * width)
    lead = -0.5 * np.log(one).sum(axis=1) + t * (squares * w / one).sum(axis=1) - t * x
    result = np.zeros(len(x))
    active = np.arange(len(x))
    for piece in range(10):
        v = STEP * (np.arange(PIECE) + 0.5 + piece * PIECE)
        y = width[active, None] * np.sinh(v)
        far = reach[active, None]
        root = np.sqrt(y * y + far * far)
        z = t[active, None] + SLOPE * (y * y / (root + far)) + 1j * y
        exponent = -z * x[active, None] - lead[active, None]
        for j, weight in enumerate(w):
            gap = 1 - 2 * weight * z
            exponent += weight * squares[active, j, None] * z / gap - 0.5 * np.log(gap)
        term = np.exp(exponent) * (SLOPE * y / root + 1j) / -z * (width[active, None] * np.cosh(v))
        result[active] += np.imag(term).sum(axis=1) * STEP / np.pi
        active = active[np.abs(term[:, -1]) > 1e-17 * np.maximum(np.abs(result[active]), 1e-300)]
        if not len(active):
            break
    tail = np.clip(np.abs(result) * np.exp(lead), 0.0, 1.0)
    return np.where(upper, 1 - tail, tail)


def _saddle_point(x: Array, w: Array, squares: Array, upper: bool) -> Array:
    """The root of K'(t) - x - 1/t, which rises on either side of 0: t < 0, or 0 < t < 1/2 for the upper tail."""
    if upper:
        low, high = np.full(len(x), -60.0), np.full(len(x), 36.0)
        u = np.zeros(len(x))
    else:
        # 0 < K'(t) <= (p/2 + sum b^2 / 8) / |t| puts the root between these two.
        low, high = -np.log(x) - 1, np.log((len(w) / 2 + squares.sum(axis=1) / 8 + 1) / x) + 1
        u = low + 1
    for _ in range(200):
        # Newton in log(-t), or in the log odds of 2t, kept inside a bracket.
        t = 0.5 * special.expit(u) if upper else -np.exp(u)
        one = 1 - 2 * w * t[:, None]
        value = (w / one + w * squares / one**2).sum(axis=1) - x - 1 / t
        slope = (w * w * (2 / one**2 + 4 * squares / one**3)).sum(axis=1) + 1 / t**2
        slope = slope * (t * (1 - 2 * t) if upper else t)
        above = value > 0
        # On the left side t falls as u grows.
        right = above == upper
        low, high = np.where(right, low, u), np.where(right, u, high)
        step = u - value / slope
        step = np.where((step > low) & (step < high), step, (low + high) / 2)
        done = np.abs(step - u) < 1e-8
        u = step
        if np.all(done):
            break
    return 0.5 * special.expit(u) if upper else -np.exp(u)
