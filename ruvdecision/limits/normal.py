"""The limit for normal records and squared errors, in closed form.

Let b be what the mechanism sees, z = L^-1 (b - E b) with L L' = Cov b, and K = E Cov(z | release). Whatever the
mechanism, 0 <= K <= I and

    U_intruder = c_I + tr(A K),   U_scientist = c_S + tr(B K),   A = L' H_I' W H_I L,   B = L' H_S' Z H_S L,

where E(target | b) = H b. For normal records every such K is reached by releasing b plus normal noise, so the best K
solves "minimise tr(B K) subject to tr(A K) >= d, 0 <= K <= I": K projects on the directions where B - l A is negative,
for a price l of the intruder's uncertainty. While d is small K has rank one, along the smallest generalised eigenvector
of (B, A) (FORMULAS, section 3 (d)); then whole directions are suppressed and the next one gets noise. As the bounds on
K hold for every mechanism, no mechanism at all does better, linear or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..beliefs.normal import NormalBelief
from ..engines.exact import _form
from ..errors import UnsupportedError
from ..losses import Quadratic
from ..masks.base import Mask
from ..masks.mechanism import Apart, Combine
from ..posteriors.shapes import as_weight_matrix
from ..protocols import Array
from ..targets import Average, NewRecord, Parameter, Record, Records
from ..users import User

__all__ = ["NormalStudy", "Seen", "seen_by"]

LARGEST = 300
"""Most entries of b."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A linear target beside what a mechanism sees: E(target | b) = H b + constant, and Cov(target | b)."""

    slope: Array
    left: Array
    scalar: bool
    weights: Array | None = None


@dataclass(frozen=True, eq=False)
class NormalStudy:
    """A normal belief, what a mechanism sees of the file, and the two users' targets beside it."""

    belief: NormalBelief
    rows: tuple[int, ...]
    """Records that are seen on their own; the mean of the others is seen too. Empty for the average alone."""
    covariance: Array
    """Cov b."""
    intruder: Seen
    scientist: Seen

    @property
    def matrices(self) -> tuple[Array, Array, float, float]:
        """A, B and the constants c_I, c_S."""
        root = np.linalg.cholesky(self.covariance)
        parts = []
        for seen in (self.intruder, self.scientist):
            assert seen.weights is not None
            turned = seen.slope @ root
            parts.append((turned.T @ seen.weights @ turned, float(np.sum(seen.weights * seen.left))))
        return parts[0][0], parts[1][0], parts[0][1], parts[1][1]

    def best(self, least: float) -> Array:
        """The best K when the intruder must keep an uncertainty of at least ``least``."""
        a, b, constant, _ = self.matrices
        total = float(np.trace(a))
        need = least - constant
        if need <= 0 or total <= 0:
            return np.zeros_like(a)
        size = float(np.trace(b))
        if size <= 0:
            return np.eye(len(a))
        a, b, need = a / total, b / size, min(need / total, 1.0)
        low, high = -80.0, 80.0  # log of the price
        k_low, k_high = _negative(a, b, np.exp(low)), _range(a)
        got_low, got_high = float(np.sum(a * k_low)), 1.0
        if got_low >= need:
            # The scientist does not care about some directions at all: they are suppressed for nothing.
            return k_low
        for _ in range(200):
            middle = (low + high) / 2
            k = _negative(a, b, np.exp(middle))
            got = float(np.sum(a * k))
            if got >= need:
                high, k_high, got_high = middle, k, got
            else:
                low, k_low, got_low = middle, k, got
            if high - low < 1e-15 * max(1.0, abs(low)):
                break
        share = (need - got_low) / (got_high - got_low) if got_high > got_low else 1.0
        return np.asarray((1.0 - share) * k_low + share * k_high)

    def uncertainty(self, k: Array) -> tuple[float, float]:
        """Both users' uncertainty when z is left with covariance K."""
        a, b, first, second = self.matrices
        return first + float(np.sum(a * k)), second + float(np.sum(b * k))

    def mask(self, k: Array) -> Mask:
        """The mask that leaves z with covariance K: b plus noise K (I - K)^-1, nothing but noise where K is one."""
        root = np.linalg.cholesky(self.covariance)
        share, vectors = np.linalg.eigh(k)
        share = np.where(share < 1e-14, 0.0, share)
        gone = share > 1.0 - 1e-11
        noise = np.where(gone, 1.0, share / np.where(gone, 1.0, 1.0 - share))
        keep = np.linalg.solve(root.T, (vectors * np.where(gone, 0.0, 1.0)) @ vectors.T @ root.T).T
        if not gone.any():
            keep = np.eye(len(k))
        covariance = root @ (vectors * noise) @ vectors.T @ root.T
        combine = Combine(keep, (covariance + covariance.T) / 2, rows=self.rows)
        return Apart(self.rows) | combine if self.rows else combine


def seen_by(intruder: User, scientist: User, statistic: str) -> NormalStudy:
    """Set up the study: both users share a normal belief and have linear targets."""
    belief = intruder.belief
    if belief.doubt is None:
        raise UnsupportedError(
            "Under a flat prior there is no limit to compute: U is infinite before the release", do="Give prior_variance="
        )
    n, k = belief.records, belief.k
    forms = []
    rows: set[int] = set()
    for user in (intruder, scientist):
        parts, matrix, scalar = _linear(belief, user.target)
        forms.append((parts, matrix, scalar))
        rows |= {p.row % n for p in parts if isinstance(p, Record)}
    followed = tuple(sorted(rows)) if statistic == "records" else ()
    atoms: list[Any] = [Record(r) for r in followed]
    if statistic == "average":
        atoms = [Average()]
    elif len(followed) < n:
        atoms.append("others")
    if len(atoms) * k > LARGEST:
        raise UnsupportedError(
            f"The mechanism would see {len(atoms) * k} numbers apart",
            f"a limit of {LARGEST}",
            'Ask for one Record(j), or statistic="average"',
        )
    covariance = _covariance(belief, atoms, atoms, followed)
    found = []
    for user, (parts, matrix, scalar) in zip((intruder, scientist), forms, strict=True):
        across = matrix @ _covariance(belief, parts, atoms, followed)
        slope = np.asarray(np.linalg.solve(covariance, across.T).T, dtype=np.float64)
        own = matrix @ _covariance(belief, parts, parts, followed) @ matrix.T
        left = own - slope @ across.T
        left = np.where(np.abs(left) < 1e-12 * max(1e-300, float(np.abs(own).max())), 0.0, left)
        weights = None
        if isinstance(user.loss, Quadratic):
            weights = _weights(user, k, len(matrix), scalar)
        found.append(Seen(slope, left, scalar, weights))
    rows_seen = followed if statistic == "records" else ()
    return NormalStudy(belief, rows_seen, covariance, found[0], found[1])


def _weights(user: User, k: int, size: int, scalar: bool) -> Array:
    weights = np.asarray(user.loss.weights, dtype=np.float64)
    if isinstance(user.target, Records) and weights.ndim and len(weights) == k and size != k:
        # Weights of one record stand for every record.
        one = np.diag(weights) if weights.ndim == 1 else weights
        return np.asarray(np.kron(np.eye(size // k), one))
    return as_weight_matrix(user.loss.weights, () if scalar else (size,))


def _linear(belief: NormalBelief, target: Any) -> tuple[list[Any], Array, bool]:
    """A target as a matrix times basic targets."""
    if isinstance(target, Records):
        if belief.records * belief.k > LARGEST:
            raise UnsupportedError("All records together are too many", belief.records * belief.k, "Ask for one Record(j)")
        size = belief.records * belief.k
        return [Record(j) for j in range(belief.records)], np.eye(size), size == 1 and belief.scalar
    form = _form(belief, target)
    if form is None:
        raise UnsupportedError(
            f"The limit of {target.describe()} under a normal belief needs a linear target", do="Write the study with a FiniteBelief"
        )
    return list(form.parts), form.matrix, form.scalar


def _covariance(belief: NormalBelief, first: Sequence[Any], second: Sequence[Any], followed: tuple[int, ...]) -> Array:
    """Covariance of stacked basic targets: all share the population mean, and some of them records."""
    assert belief.doubt is not None
    blocks = [[belief.doubt + _shared(a, b, belief.records, len(followed)) * belief.spread for b in second] for a in first]
    return np.block(blocks)


def _shared(a: Any, b: Any, n: int, followed: int) -> float:
    """Weight of the population's covariance in the covariance of two basic targets."""
    if isinstance(a, Parameter) or isinstance(b, Parameter):
        return 0.0
    if isinstance(a, NewRecord) or isinstance(b, NewRecord):
        return float(isinstance(a, NewRecord) and isinstance(b, NewRecord))
    if isinstance(a, Record) and isinstance(b, Record):
        return float(a.row % n == b.row % n)
    if isinstance(a, str) and isinstance(b, str):
        return 1.0 / (n - followed)
    if isinstance(a, Average) or isinstance(b, Average):
        return 1.0 / n
    return 0.0  # a followed record and the mean of the others


def _negative(a: Array, b: Array, price: float) -> Array:
    """Projection on the directions in which B - price A is negative."""
    values, vectors = np.linalg.eigh(b - price * a)
    inside = vectors[:, values < 0]
    return np.asarray(inside @ inside.T)


def _range(a: Array) -> Array:
    """Projection on the directions that A sees."""
    values, vectors = np.linalg.eigh(a)
    inside = vectors[:, values > 1e-13 * values[-1]]
    return np.asarray(inside @ inside.T)
