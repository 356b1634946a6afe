"""The limit for normal records and squared errors, in closed form.

Let b be what the mechanism sees, b = E b + L z with Cov z = I, and K = E Cov(z | release). Whatever the
mechanism, 0 <= K <= I and

    U_intruder = c_I + tr(A K),   U_scientist = c_S + tr(B K),   A = L' H_I' W H_I L,   B = L' H_S' Z H_S L,

where E(target | b) = H b. L comes from the average of the file and the distances of the followed records from it, which
are independent: however flat the prior is, it enters the average alone and costs the distances no digits. For normal
records every such K is reached by releasing b plus normal noise, so the best K solves "minimise tr(B K) subject to tr(A
K) >= d, 0 <= K <= I": K projects on the directions where B - l A is negative, for a price l of the intruder's
uncertainty. While d is small K has rank one, along the smallest generalised eigenvector of (B, A);
then whole directions are suppressed and the next one gets noise. As the bounds on K hold for every mechanism, no
mechanism at all does better, linear or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from ...beliefs.normal import NormalBelief
from ...engines.normal.forms import all_records, form_of
from ...errors import UnsupportedError
from ...losses.base import as_bayes_loss
from ...masks.base import Mask
from ...masks.mechanism import Combine, SeparateRows
from ...numerics.semidefinite import gram, parallel_sum, root, signal_noise_gains
from ...posteriors.base import as_weight_matrix
from ...protocols import Array
from ...targets import BaseTarget, Kind, LinearForm, Term
from ...users.user import User
from .programme import BestMechanism, solve_in_turn

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
    weights: Array | None
    """Of the squared error, if that is the loss."""

    @property
    def uncertainty_per_covariance(self) -> Array:
        """What U is per unit of K: A or B."""
        assert self.weights is not None  # nobody asks unless the loss is the squared error
        return np.asarray(self.slope.T @ self.weights @ self.slope)

    def uncertainty(self, k: Array) -> float:
        """U when K is the covariance of z given the release."""
        assert self.weights is not None
        found = np.sum(self.weights * self.residual) + np.sum(self.uncertainty_per_covariance * k)
        return max(float(found), 0.0)  # what is known exactly has zeros that rounding may take below


@dataclass(frozen=True, eq=False)
class NormalTwoUsers:
    """A normal belief, what a mechanism takes in of the file, and the two users' targets given that."""

    parts: tuple[tuple[int, ...], ...]
    """Rows whose mean it takes in, for each part of b: a record by itself, or a group; all others come last."""
    root: Array
    """L."""
    inverse: Array
    """Its inverse."""
    intruder: TargetGivenFile
    scientist: TargetGivenFile

    certain = True
    method = "closed form for normal records and squared errors"
    notes = ("no mechanism does better, linear or not",)

    @property
    def before(self) -> tuple[float, float]:
        """Both users' uncertainty when nothing is released."""
        return self.uncertainty(np.eye(self.root.shape[1]))

    @property
    def after(self) -> tuple[float, float]:
        """Both users' uncertainty when all that the mechanism takes in is released."""
        return self.uncertainty(np.zeros((self.root.shape[1],) * 2))

    def solve_all(self, wanted: Sequence[float], on_progress: Callable[[float], None]) -> list[BestMechanism]:
        """The best mechanism for each uncertainty that the intruder is to keep."""
        return solve_in_turn(self.solve, wanted, on_progress)

    def solve(self, least: float) -> BestMechanism:
        """The best mechanism whose intruder keeps an uncertainty of at least ``least``."""
        k = self.best_matrix(least)
        intruder, scientist = self.uncertainty(k)
        return BestMechanism(scientist, k, intruder, scientist, self.mask(k))

    def best_matrix(self, least: float) -> Array:
        """The best K when the intruder must keep an uncertainty of at least ``least``.

        It mixes those on both sides of the price at which K jumps, of which the root finders of `numerics/` give one.
        """
        a, b = self.intruder.uncertainty_per_covariance, self.scientist.uncertainty_per_covariance
        total = float(np.trace(a))
        need = least - self.intruder.uncertainty(np.zeros_like(a))
        if need <= 0 or total <= 0:
            return np.zeros_like(a)
        size = float(np.trace(b))
        if size <= 0:
            return np.eye(len(a))
        a, b, need = a / total, b / size, min(need / total, 1.0)
        low, high = -80.0, 80.0  # log of the price
        # B - price A is negative where a price pays; at last wherever A sees anything.
        least = 1e-13 * np.linalg.eigvalsh(a)[-1] * np.eye(len(a))
        k_low, k_high = _negative_projection(b - np.exp(low) * a), _negative_projection(least - a)
        got_low, got_high = float(np.sum(a * k_low)), 1.0
        if got_low >= need:
            # The scientist does not care about some directions at all: they are suppressed for nothing.
            return k_low
        for _ in range(200):
            middle = (low + high) / 2
            k = _negative_projection(b - np.exp(middle) * a)
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
        return self.intruder.uncertainty(k), self.scientist.uncertainty(k)

    def mask(self, k: Array) -> Mask:
        """The mask that leaves z with covariance K: b plus noise K (I - K)^-1, and nothing of it where K is one."""
        share, vectors = np.linalg.eigh(k)
        # Relative to the largest: under a nearly flat prior all of K is small.
        share = np.where(share < 1e-14 * share[-1], 0.0, share)
        gone = share > 1.0 - 1e-11
        noise = np.where(gone, 0.0, share / np.where(gone, 1.0, 1.0 - share))
        keep = self.root @ (vectors * np.where(gone, 0.0, 1.0)) @ vectors.T @ self.inverse
        if not gone.any():
            keep = np.eye(len(keep))
        factor = self.root @ (vectors * np.sqrt(noise))
        # Every row of a group shows the group's part.
        sizes = [len(rows) for rows in self.parts[:-1]] + [1]
        part = np.repeat(np.arange(len(sizes)), sizes)
        show = np.kron(part[:, None] == np.arange(len(sizes)), np.eye(len(keep) // len(sizes)))
        mean = np.linalg.pinv(show)
        rows = tuple(row for rows in self.parts[:-1] for row in rows)
        size = np.sqrt(np.diag(gram(self.root)))
        factor = np.where(np.abs(factor) > 1e-13 * size[:, None], factor, 0.0)  # what rounding leaves is no noise
        keep = np.where(np.abs(keep) * size > 1e-13 * size[:, None], keep, 0.0)
        combine = Combine(show @ keep @ mean, show @ gram(factor) @ show.T, rows=rows)
        return SeparateRows(rows) | combine if rows else combine


FLAT = "Under a flat prior there is no limit to compute: U is infinite before the release"


def uninformed_users(
    belief: NormalBelief, forms: list[LinearForm], weights: list[Array | None], statistic: str
) -> NormalTwoUsers:
    """Two users who know nothing of the records."""
    if belief.mu_covariance is None:
        raise UnsupportedError(FLAT, do="Give prior_variance=")
    n = belief.records
    followed = named_rows(forms, n) if statistic == "records" else ()
    # The last of all records follows from the others and the average.
    base = _AverageAndDistances(belief, followed[: n - 1])
    check_mechanism_size((len(base.rows) + 1) * belief.k, LARGEST)
    found = []
    for form, weight in zip(forms, weights, strict=True):
        matrix = form.matrix
        slope = matrix @ np.concatenate([base.slope(t) for t in form.terms])
        residual = matrix @ np.block([[base.residual(p, q) for q in form.terms] for p in form.terms]) @ matrix.T
        found.append(TargetGivenFile(slope, residual, form.number, weight))
    others = tuple(row for row in range(n) if row not in base.rows)
    return NormalTwoUsers((*((row,) for row in base.rows), others), base.root, base.inverse, found[0], found[1])


def named_rows(forms: list[LinearForm], n: int) -> tuple[int, ...]:
    """The rows that targets name."""
    return tuple(sorted({t.row % n for form in forms for t in form.terms if t.kind is Kind.RECORD}))


def check_mechanism_size(size: int, most: int) -> None:
    """Refuse more entries of b than that."""
    if size > most:
        what = f"The mechanism would see {size} numbers apart"
        raise UnsupportedError(what, f"a limit of {most}", 'Ask for one Record(j), or statistic="average"')


class _AverageAndDistances:
    """The average a of the file and the distances d of some records from it, as functions of independent z.

    Cov a = F + S/n and Cov(d_i, d_j) = (1{i = j} - 1/n) S; the two are independent, and so is the residual of
    the mean given a.
    """

    def __init__(self, belief: NormalBelief, rows: tuple[int, ...]) -> None:
        assert belief.mu_covariance is not None
        self.belief, self.rows = belief, rows
        n, k, m = belief.records, belief.k, len(rows)
        covariance = belief.record_covariance
        total, own = root(belief.mu_covariance + covariance / n), root(covariance)
        distances = root(np.eye(m) - 1.0 / n)
        self.lower = block_diag(total, np.kron(distances, own))
        # b: the records on their own, and the mean of all others.
        merge = np.concatenate(
            [np.ones((m + 1, 1)), np.concatenate([np.eye(m), np.full((1, m), -1.0 / (n - m))])], axis=1
        )
        back = np.concatenate([np.full((1, m + 1), 1.0 / n), np.eye(m, m + 1) - 1.0 / n])
        back[0, m] = (n - m) / n
        back[1:, m] = -(n - m) / n
        self.root = np.asarray(np.kron(merge, np.eye(k)) @ self.lower)
        undone = block_diag(np.linalg.inv(total), np.kron(np.linalg.inv(distances), np.linalg.inv(own)))
        self.inverse = np.asarray(undone @ np.kron(back, np.eye(k)))
        self.share, self.rest = mean_given_file(belief)

    def slope(self, part: Term) -> Array:
        """E(part | b) as a function of z."""
        k, m = self.belief.k, len(self.rows)
        if part.is_outside_file:
            return np.asarray(np.concatenate([self.share @ self.lower[:k, :k], np.zeros((k, m * k))], axis=1))
        place = self._position_of_record(part)
        if place is None:
            return self.lower[:k]
        return np.asarray(self.root[place * k : place * k + k])

    def residual(self, first: Term, second: Term) -> Array:
        """Covariance of two parts given b."""
        covariance, n = self.belief.record_covariance, self.belief.records
        if all(part.kind is Kind.RECORD and self._position_of_record(part) is None for part in (first, second)):
            return np.asarray((float(first.row % n == second.row % n) - 1.0 / n) * covariance)
        return covariance_given_file(first, second, self.rest, covariance)

    def _position_of_record(self, part: Term) -> int | None:
        """Where a record stands in b; None for the average, and for records of which it takes in the average alone."""
        n, m = self.belief.records, len(self.rows)
        if part.kind is not Kind.RECORD:
            return None
        if part.row % n in self.rows:
            return self.rows.index(part.row % n)
        return m if m == n - 1 and (m or n == 1) else None


def mean_given_file(belief: NormalBelief) -> tuple[Array, Array]:
    """E(mu | file) as a share of the file's average (beside a constant), and Cov(mu | file)."""
    noise = belief.record_covariance / belief.records
    if belief.mu_covariance is None:
        return np.eye(belief.k), noise
    split = signal_noise_gains(belief.mu_covariance, noise)
    return split[0], parallel_sum(belief.mu_covariance, noise, split)


def covariance_given_file(first: Term, second: Term, rest: Array, covariance: Array) -> Array:
    """Covariance of two terms given the file, where ``rest`` is that of the mean."""
    if not (first.is_outside_file and second.is_outside_file):
        return np.zeros_like(rest)
    both = first.kind is Kind.NEW and second.kind is Kind.NEW
    return np.asarray(rest + covariance if both else rest)


def squared_weights(user: User, form: LinearForm) -> Array | None:
    """Weights of the squared error of a target, None for another loss."""
    if not as_bayes_loss(user.loss).second_order:
        return None
    k, size = user.belief.k, len(form.matrix)
    weights = np.asarray(user.loss.weights, dtype=np.float64)
    if user.target.is_a(Kind.FILE) and weights.ndim and len(weights) == k and size != k:
        # Weights of one record stand for every record.
        one = np.diag(weights) if weights.ndim == 1 else weights
        return np.asarray(np.kron(np.eye(size // k), one))
    return as_weight_matrix(user.loss.weights, () if form.number else (size,))


def linear_form(belief: NormalBelief, target: BaseTarget) -> LinearForm:
    """A target as a linear form."""
    if target.is_a(Kind.FILE):
        size = belief.records * belief.k
        if size > LARGEST:
            raise UnsupportedError("All records together are too many", size, "Ask for one Record(j)")
        return replace(all_records(belief), number=size == 1 and belief.scalar)
    form = form_of(belief, target)
    if form is None:
        what = f"The limit of {target.describe()} under a normal belief needs a linear target"
        raise UnsupportedError(what, do="Write the study with a FiniteBelief")
    return form


def _negative_projection(matrix: Array) -> Array:
    """Projection on the directions in which a matrix is negative."""
    values, vectors = np.linalg.eigh(matrix)
    inside = vectors[:, values < 0]
    return np.asarray(inside @ inside.T)
