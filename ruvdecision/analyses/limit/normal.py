"""The limit for normal records and squared errors, in closed form.

Let b be what the mechanism sees, b = E b + L z with Cov z = I, and K = E Cov(z | release). Whatever the
mechanism, 0 <= K <= I and

    U_intruder = c_I + tr(A K),   U_scientist = c_S + tr(B K),   A = L' H_I' W H_I L,   B = L' H_S' Z H_S L,

where E(target | b) = H b. L comes from the average of the file and the distances of the followed records from it, which
are independent: however flat the prior is, it enters the average alone and costs the distances no digits. For normal
records every such K is reached by releasing b plus normal noise, so the best K solves "minimise tr(B K) subject to tr(A
K) >= d, 0 <= K <= I": K projects on the directions where B - l A is negative, for a price l of the intruder's
uncertainty. While d is small K has rank one, along the smallest generalised eigenvector of (B, A) (FORMULAS, section 3
(d)); then whole directions are suppressed and the next one gets noise. As the bounds on K hold for every mechanism, no
mechanism at all does better, linear or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...beliefs.normal import NormalBelief
from ...engines.normal.forms import all_records, form_of
from ...errors import UnsupportedError
from ...losses import Quadratic
from ...masks.base import Mask
from ...masks.mechanism import Apart, Combine
from ...numerics.semidefinite import parallel, root, shares
from ...posteriors.base import as_weight_matrix
from ...protocols import Array
from ...targets import BaseTarget, Kind, LinearForm, Term
from ...users.user import User

LARGEST = 300
"""Most entries of b."""


@dataclass(frozen=True, eq=False)
class TargetGivenFile:
    """A linear target given what a mechanism takes in: E(target | b) = H L z + constant, and Cov(target | b)."""

    slope: Array
    """H L."""
    residual: Array
    """Cov(target | b)."""
    scalar: bool
    weights: Array | None = None


@dataclass(frozen=True, eq=False)
class NormalTwoUsers:
    """A normal belief, what a mechanism takes in of the file, and the two users' targets given that."""

    belief: NormalBelief
    rows: tuple[int, ...]
    """Records that it takes in one by one, besides the mean of the others. Empty for the average alone."""
    root: Array
    """L."""
    inverse: Array
    """Its inverse."""
    intruder: TargetGivenFile
    scientist: TargetGivenFile

    @property
    def matrices(self) -> tuple[Array, Array, float, float]:
        """A, B and the constants c_I, c_S."""
        parts = []
        for target in (self.intruder, self.scientist):
            weights = target.weights
            assert weights is not None
            parts.append((target.slope.T @ weights @ target.slope, float(np.sum(weights * target.residual))))
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
        """Both users' uncertainty when K is the covariance of z given the release."""
        a, b, first, second = self.matrices
        return first + float(np.sum(a * k)), second + float(np.sum(b * k))

    def mask(self, k: Array) -> Mask:
        """The mask that leaves z with covariance K: b plus noise K (I - K)^-1, nothing but noise where K is one."""
        share, vectors = np.linalg.eigh(k)
        # Relative to the largest: under a nearly flat prior all of K is small.
        share = np.where(share < 1e-14 * share[-1], 0.0, share)
        gone = share > 1.0 - 1e-11
        noise = np.where(gone, 1.0, share / np.where(gone, 1.0, 1.0 - share))
        keep = self.root @ (vectors * np.where(gone, 0.0, 1.0)) @ vectors.T @ self.inverse
        if not gone.any():
            keep = np.eye(len(k))
        covariance = self.root @ (vectors * noise) @ vectors.T @ self.root.T
        combine = Combine(keep, (covariance + covariance.T) / 2, rows=self.rows)
        return Apart(self.rows) | combine if self.rows else combine


def normal_users(intruder: User, scientist: User, statistic: str) -> NormalTwoUsers:
    """Set up the study: both users share a normal belief and have linear targets."""
    belief = intruder.belief
    if belief.mu_covariance is None:
        raise UnsupportedError(
            "Under a flat prior there is no limit to compute: U is infinite before the release",
            do="Give prior_variance=",
        )
    n, k = belief.records, belief.k
    forms = []
    rows: set[int] = set()
    for user in (intruder, scientist):
        form = _linear(belief, user.target)
        forms.append(form)
        rows |= {t.row % n for t in form.terms if t.kind is Kind.RECORD}
    followed = tuple(sorted(rows)) if statistic == "records" else ()
    # The last of all records follows from the others and the average.
    apart = min(len(followed), n - 1)
    if (apart + 1) * k > LARGEST:
        raise UnsupportedError(
            f"The mechanism would see {(apart + 1) * k} numbers apart",
            f"a limit of {LARGEST}",
            'Ask for one Record(j), or statistic="average"',
        )
    base = _Base(belief, followed[:apart])
    found = []
    for user, form in zip((intruder, scientist), forms, strict=True):
        matrix, scalar = form.matrix, form.number
        slope = matrix @ np.concatenate([base.slope(t) for t in form.terms])
        residual = matrix @ np.block([[base.residual(p, q) for q in form.terms] for p in form.terms]) @ matrix.T
        weights = None
        if isinstance(user.loss, Quadratic):
            weights = _weights(user, k, len(matrix), scalar)
        found.append(TargetGivenFile(slope, residual, scalar, weights))
    return NormalTwoUsers(belief, followed, base.root, base.inverse, found[0], found[1])


class _Base:
    """The average a of the file and the distances d of some records from it, as functions of independent z.

    Cov a = F + S/n and Cov(d_i, d_j) = (1{i = j} - 1/n) S; the two are independent, and so is the residual of
    the mean given a.
    """

    def __init__(self, belief: NormalBelief, rows: tuple[int, ...]) -> None:
        assert belief.mu_covariance is not None
        self.belief, self.rows = belief, rows
        n, k, m = belief.records, belief.k, len(rows)
        spread = belief.record_covariance
        total, own = root(belief.mu_covariance + spread / n), np.linalg.cholesky(spread)
        between = np.kron(np.linalg.cholesky(np.eye(m) - 1.0 / n), own) if m else np.zeros((0, 0))
        lower = np.zeros(((m + 1) * k, (m + 1) * k))
        lower[:k, :k], lower[k:, k:] = total, between
        self.lower = lower
        # b: the records on their own, and the mean of all others.
        merge = np.concatenate(
            [np.ones((m + 1, 1)), np.concatenate([np.eye(m), np.full((1, m), -1.0 / (n - m))])], axis=1
        )
        back = np.concatenate([np.full((1, m + 1), 1.0 / n), np.eye(m, m + 1) - 1.0 / n])
        back[0, m] = (n - m) / n
        back[1:, m] = -(n - m) / n
        self.root = np.asarray(np.kron(merge, np.eye(k)) @ lower)
        undone = np.zeros_like(lower)
        undone[:k, :k] = np.linalg.inv(total)
        undone[k:, k:] = (
            np.kron(np.linalg.inv(np.linalg.cholesky(np.eye(m) - 1.0 / n)), np.linalg.inv(own)) if m else between
        )
        self.inverse = np.asarray(undone @ np.kron(back, np.eye(k)))
        self.share = shares(belief.mu_covariance, spread / n)
        self.rest = parallel(belief.mu_covariance, spread / n, self.share)

    def slope(self, part: Term) -> Array:
        """E(part | b) as a function of z."""
        k, m = self.belief.k, len(self.rows)
        if part.outside:
            return np.asarray(np.concatenate([self.share[0] @ self.lower[:k, :k], np.zeros((k, m * k))], axis=1))
        place = self._place(part)
        if place is None:
            return self.lower[:k]
        return np.asarray(self.root[place * k : place * k + k])

    def residual(self, first: Term, second: Term) -> Array:
        """Covariance of two parts given b."""
        spread, n = self.belief.record_covariance, self.belief.records
        means = [p.outside for p in (first, second)]
        if all(means):
            both = first.kind is Kind.NEW and second.kind is Kind.NEW
            return np.asarray(self.rest + spread if both else self.rest)
        open_ = [p.kind is Kind.RECORD and self._place(p) is None for p in (first, second)]
        if all(open_):
            return np.asarray((float(first.row % n == second.row % n) - 1.0 / n) * spread)
        return np.zeros_like(spread)

    def _place(self, part: Term) -> int | None:
        """Where a record stands in b; None for the average, and for records of which it takes in the average alone."""
        n, m = self.belief.records, len(self.rows)
        if part.kind is not Kind.RECORD:
            return None
        if part.row % n in self.rows:
            return self.rows.index(part.row % n)
        return m if m == n - 1 and (m or n == 1) else None


def _weights(user: User, k: int, size: int, scalar: bool) -> Array:
    weights = np.asarray(user.loss.weights, dtype=np.float64)
    if user.target.is_a(Kind.FILE) and weights.ndim and len(weights) == k and size != k:
        # Weights of one record stand for every record.
        one = np.diag(weights) if weights.ndim == 1 else weights
        return np.asarray(np.kron(np.eye(size // k), one))
    return as_weight_matrix(user.loss.weights, () if scalar else (size,))


def _linear(belief: NormalBelief, target: BaseTarget) -> LinearForm:
    """A target as a linear form."""
    if target.is_a(Kind.FILE):
        size = belief.records * belief.k
        if size > LARGEST:
            raise UnsupportedError("All records together are too many", size, "Ask for one Record(j)")
        return replace(all_records(belief), number=size == 1 and belief.scalar)
    form = form_of(belief, target)
    if form is None:
        raise UnsupportedError(
            f"The limit of {target.describe()} under a normal belief needs a linear target",
            do="Write the study with a FiniteBelief",
        )
    return form


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
