"""The limit for normal records when users already know something of them, as `knows=` says.

Let b be what the mechanism sees: the records that a target names and the mean of each group of other rows that what is
known treats alike. Everything that is known is linear and normal, so that Cov(b | known) = C does not depend on what it
says. If both users know the same, all goes on as without knowledge, with C for the covariance of b.

If the intruder knows more than the scientist, what he knows is, to him, what she knows and a look y = Y z + e at the
coordinates z that are independent to her. If K = E Cov(z | release, what she knows), then for every mechanism

    E Cov(z | release, what he knows) <= phi(K),   phi(K) = K - K Y' (Y K Y' + Cov e)^-1 Y K,

since the best linear estimate from y is an estimate, and phi is concave. Normal noise on b has equality, so that the
limit is the least tr(B K) subject to tr(A phi(K)) >= d, 0 <= K <= I: a convex programme, solved by a barrier method,
whose multiplier proves how far from the least it can be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from ...beliefs.normal import NormalBelief
from ...engines.normal.conditioning import Conditioned
from ...engines.normal.forms import all_records
from ...engines.normal.releases import channel_of, rows_alike
from ...errors import UnsupportedError
from ...masks.rows import NOTHING
from ...numerics.semidefinite import pseudo_inverse, range_root, symmetric_root, units
from ...protocols import Array, Ints
from ...targets import Kind, LinearForm, Term
from ...users.user import User
from .normal import (
    FLAT,
    LARGEST,
    NormalTwoUsers,
    TargetGivenFile,
    check_mechanism_size,
    covariance_given_file,
    linear_form,
    mean_given_file,
    named_rows,
    squared_weights,
    uninformed_users,
)
from .programme import BestMechanism

MOST = 24
"""Most coordinates of the convex programme."""


@dataclass(frozen=True, eq=False)
class InformedIntruder(NormalTwoUsers):
    """Two users of whom the intruder knows more."""

    basis: Array
    """Directions of z that he does not know, independent to him. He loses nothing if the others are told."""
    look: Array
    """R: the root of the precision with which he sees each of them beside what both know."""
    method = "convex programme for normal records and squared errors"

    def uncertainty(self, k: Array) -> tuple[float, float]:
        own = self.condition_on_knowledge(self.basis.T @ k @ self.basis)[0]
        return self.intruder.uncertainty(self.basis @ own @ self.basis.T), self.scientist.uncertainty(k)

    def condition_on_knowledge(self, k: Array) -> tuple[Array, Array, Array]:
        """phi(K), I - K N and N = Y' (Y K Y' + Cov e)^-1 Y = R (I + R K R)^-1 R, where R R = Y' (Cov e)^-1 Y."""
        one, factor = np.eye(len(k)), symmetric_root(k)
        look = self.look[:, None] * factor
        inner = np.linalg.inv(one + look @ look.T) * np.outer(self.look, self.look)
        return factor @ np.linalg.inv(one + look.T @ look) @ factor.T, one - k @ inner, inner

    def solve(self, least: float) -> BestMechanism:
        k, bound = self._solve_for_bound(least)
        intruder, scientist = self.uncertainty(k)
        return BestMechanism(min(bound, scientist), k, intruder, scientist, self.mask(k))

    def _solve_for_bound(self, least: float) -> tuple[Array, float]:
        """The best K when the intruder must keep at least that uncertainty, and a bound on the scientist's."""
        a, b = (self.basis.T @ user.uncertainty_per_covariance @ self.basis for user in (self.intruder, self.scientist))
        r, wide = len(a), self.basis.T
        one, nothing = np.eye(r), np.zeros((r, r))
        most, size = float(np.sum(a * self.condition_on_knowledge(one)[0])), float(np.trace(b))
        need = (least - self.after[0]) / most if most > 0 else 0.0
        if need <= 1e-12 or size <= 0:
            return wide.T @ (nothing if need <= 1e-12 else one) @ wide, np.inf
        need = min(need, 1.0 - 3e-8)
        a, b = a / (most * need), b / (size * need)  # both in units of what is needed
        upper = np.triu_indices(r)
        basis = np.zeros((len(upper[0]), r, r))
        basis[np.arange(len(basis)), upper[0], upper[1]] = basis[np.arange(len(basis)), upper[1], upper[0]] = 1.0
        flat = basis.reshape(len(basis), -1)

        def barrier(k: Array) -> float:
            values = np.linalg.eigvalsh(k)
            spare = (
                float(np.sum(a * self.condition_on_knowledge(k)[0])) - 1.0 if values[0] > 0 and values[-1] < 1 else 0.0
            )
            if spare <= 0:
                return np.inf
            return float(np.sum(b * k) - weight * (np.log(values).sum() + np.log1p(-values).sum() + np.log(spare)))

        k = one * min((1.0 + need) / 2, 2.0 * need)  # phi is concave: it leaves more than is needed
        for weight in np.logspace(0, -9, 10):
            for _ in range(60):
                law, left, inner = self.condition_on_knowledge(k)
                spare, slope = float(np.sum(a * law)) - 1.0, left.T @ a @ left
                # In the directions of K, where the barrier's own curvature is diagonal.
                values, turn = np.linalg.eigh(k)
                price, view = turn.T @ slope @ turn / spare, turn.T @ inner @ turn
                low, high = 1 / values, 1 / (1 - values)
                gradient = flat @ (turn.T @ b @ turn - weight * (np.diag(low - high) + price)).ravel()
                own = np.outer(low, low) + np.outer(high, high)
                curve = weight * (flat @ (np.diag(own.ravel()) + np.kron(2 * price, view)) @ flat.T)
                curve += weight * np.outer(flat @ price.ravel(), flat @ price.ravel())
                unit = np.sqrt(np.diag(curve))
                step = np.linalg.lstsq(curve / np.outer(unit, unit), -gradient / unit, rcond=None)[0] / unit
                fall, share, now = float(gradient @ step), 1.0, barrier(k)
                move = turn @ np.tensordot(step, basis, 1) @ turn.T
                # Close to the middle the fall is lost in rounding, and Newton's step needs no check but of the bounds.
                top = np.inf if -fall < 0.1 * weight else now
                while share > 1e-10 and not barrier(k + share * move) < top + 0.1 * share * fall:
                    share /= 2
                if -fall < 1e-6 * weight or share <= 1e-10:
                    break
                k = k + share * move

        def duality(log_price: float) -> float:
            """How far f may be from the least, by Lagrange's bound with this price, as f - price * phi is convex."""
            tilt = b - np.exp(log_price) * slope
            return float(np.exp(log_price) * spare + np.sum(tilt * k) - np.minimum(np.linalg.eigvalsh(tilt), 0.0).sum())

        near = np.log(weight / spare)
        gap = minimize_scalar(duality, bounds=(near - 3.0, near + 3.0), method="bounded", options={"xatol": 1e-10}).fun
        bound = self.scientist.uncertainty(wide.T @ k @ wide) - max(float(gap), 0.0) * size * need
        return wide.T @ self._round_directions(k, a) @ wide, bound

    def _round_directions(self, k: Array, a: Array) -> Array:
        """Directions that are almost suppressed, suppressed; those almost told, told where that breaks no bound."""
        values, vectors = np.linalg.eigh(k)
        values = np.where(values > 1.0 - 1e-7, 1.0, values)
        for some in (np.where(values < 1e-7 * values[-1], 0.0, values), values):
            near = (vectors * some) @ vectors.T
            if float(np.sum(a * self.condition_on_knowledge(near)[0])) >= 1.0 - 1e-9:
                break
        return np.asarray(near)


def normal_users(intruder: User, scientist: User, statistic: str) -> NormalTwoUsers:
    """Set up the study: both users share a normal belief and have linear targets."""
    belief, users = intruder.belief, (intruder, scientist)
    forms = [linear_form(belief, user.target) for user in users]
    weights = [squared_weights(user, form) for user, form in zip(users, forms, strict=True)]
    if intruder.knows is None and scientist.knows is None:
        return uninformed_users(belief, forms, weights, statistic)
    same = intruder.knows == scientist.knows
    if not same and scientist.knows is not None:
        what = "The limit needs a scientist who knows nothing of the records, or what the intruder knows"
        raise UnsupportedError(what, scientist.knows, "Give both the same knows=, or leave out the scientist's")
    if not same and any(weight is None for weight in weights):
        what = "The limit under a normal belief for an intruder who knows more than the scientist needs squared errors"
        raise UnsupportedError(what, do="Use Quadratic(), give both the same knows=, or write it with a FiniteBelief")
    n, k = belief.records, belief.k
    given = [_belief_given_knowledge(belief, user) for user in users]
    parts = [np.arange(n)] if statistic == "average" else _named_rows_and_rest(given, forms, n)
    means = np.zeros((len(parts), n))
    for i, part in enumerate(parts):
        means[i, part] = 1.0 / len(part)
    means = np.kron(means, np.eye(k))
    size = len(means)
    check_mechanism_size(size, LARGEST)
    share, rest = mean_given_file(belief)
    found, laws = [], []
    for form, weight, law in zip(forms, weights, given, strict=True):
        terms, matrix = form.terms, form.matrix
        target = matrix @ np.concatenate([_mean_given_file(t, n, k, share) for t in terms])
        cov = law.covariance(all_records(belief).terms, np.concatenate([means, target]))[0]
        if not np.isfinite(cov).all():
            raise UnsupportedError(FLAT, do="Give prior_variance=")
        apart = np.block([[covariance_given_file(p, q, rest, belief.record_covariance) for q in terms] for p in terms])
        slope = cov[size:, :size] @ pseudo_inverse(cov[:size, :size])
        residual = cov[size:, size:] - slope @ cov[:size, size:] + matrix @ apart @ matrix.T
        laws.append(cov[:size, :size])
        found.append(TargetGivenFile(slope, residual, form.number, weight))
    # Coordinates that are independent to the scientist; what she knows exactly has none.
    root, inverse = range_root(laws[1], units(laws[1]), 1e-12)
    one, two = (replace(target, slope=target.slope @ root) for target in found)
    rows = tuple(tuple(part.tolist()) for part in parts)
    if same:
        return NormalTwoUsers(rows, root, inverse, one, two)
    check_mechanism_size(root.shape[1], MOST)
    return InformedIntruder(rows, root, inverse, one, two, *_unknown_directions(inverse @ laws[0] @ inverse.T))


def _unknown_directions(covariance: Array) -> tuple[Array, Array]:
    """Directions of z that the intruder does not know, a column each, and the roots of the precisions he has there.

    By the eigenvalues themselves, not by a root of `numerics/`: in these directions what he knows is independent, too.
    """
    variances, vectors = np.linalg.eigh(covariance)
    unknown = variances > 1e-10
    return vectors[:, unknown], np.sqrt(np.maximum(1.0 / variances[unknown] - 1.0, 0.0))


def _belief_given_knowledge(belief: NormalBelief, user: User) -> Conditioned:
    channel = channel_of(belief, NOTHING if user.knows is None else user.knows)
    if channel.location != "known" or channel.open_samples:
        what = f"The limit beside {user.knows} needs knowledge that says whose row is whose"
        raise UnsupportedError(what, do="Let the user know named rows, as Release(rows=[...]) does")
    return Conditioned(belief, channel)


def _named_rows_and_rest(given: list[Conditioned], forms: list[LinearForm], n: int) -> list[Ints]:
    """Rows that a target names, one by one, and all others as what is known treats them, the largest group last."""
    named = named_rows(forms, n)
    rest = np.setdiff1d(np.arange(n), named)
    columns = [label for law in given for label in rows_alike(law.channel, rest) or [rest]]
    label = np.unique(np.stack(columns), axis=1, return_inverse=True)[1].reshape(-1)
    groups = [rest[label == i] for i in range(int(label.max()) + 1)] if len(rest) else []
    return [np.array([r]) for r in named] + sorted(groups, key=len)


def _mean_given_file(term: Term, n: int, k: int, share: Array) -> Array:
    """E(term | file) as a function of the records, one after the other."""
    if term.kind is Kind.RECORD:
        return np.asarray(np.kron(np.eye(n)[[term.row % n]], np.eye(k)))
    return np.asarray(np.kron(np.full((1, n), 1.0 / n), share if term.is_outside_file else np.eye(k)))
