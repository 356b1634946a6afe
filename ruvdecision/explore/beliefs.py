"""Posteriors after one release of an example file.

A map averages over releases; a posterior needs one. The page draws a file from the belief itself (so it is nobody's
record), masks it and shows what both users then believe. The same example number gives the same file and the same
random numbers for every mask, so that only the settings move the picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special
from scipy.interpolate import PchipInterpolator

from ..beliefs.normal import NormalBelief
from ..checks import as_generator
from ..engines.base import Problem, plan_for
from ..errors import RuvError
from ..maps.show import format_number
from ..masks.base import Mask
from ..masks.rows import Suppress
from ..numerics.orderstatistics import normal_moments
from ..numerics.semidefinite import symmetric_root
from ..protocols import Array, Belief as BeliefBefore, Posterior
from ..scenarios import RankPosterior
from ..targets import BaseTarget, Files
from ..users.user import Snooper, User
from .topic import BeliefView, Believed, LawView

#: Components of a vector target that are drawn.
MOST_COMPONENTS = 4
FLAT = "The prior is flat, so there is nothing to draw for the time before the release."
Example: TypeAlias = "tuple[Array | None, pd.DataFrame | Array]"
"""The population mean of an example file, where there is one, and its records."""


def beliefs_of(intruder: object, scientist: object) -> Believed | None:
    """A function that gives what both users believe for a mask and an example number; None without two users."""
    users: dict[str, Any] = {"intruder": intruder, "scientist": scientist}
    if not all(isinstance(user, (User, Snooper)) for user in users.values()):
        return None
    belief = users["scientist"].belief

    def believed(mask: Mask, example: int, slow: bool) -> list[BeliefView]:
        made = draw_example(belief, example)
        return [belief_of(who, user, mask, made, example, slow) for who, user in users.items()]

    return believed


def draw_example(belief: BeliefBefore, example: int) -> Example:
    """The population mean of an example file, where the belief has one, and its records.

    >>> mu, records = draw_example(NormalBelief(records=4, variance=1, prior="flat"), 1)
    >>> mu.tolist(), records.shape
    ([0.0], (4,))
    """
    rng = as_generator(example)
    if not isinstance(belief, NormalBelief):
        return None, belief.draw(rng)
    # A flat prior cannot be drawn from: the example then comes from a population with the prior's mean.
    prior = belief.mu_covariance if belief.mu_covariance is not None else np.zeros_like(belief.record_covariance)
    mu = belief.mu_mean + symmetric_root(prior) @ rng.standard_normal(len(belief.mu_mean))
    records = mu + rng.standard_normal((belief.records, len(mu))) @ symmetric_root(belief.record_covariance).T
    if belief.columns is not None:
        return mu, pd.DataFrame(records, columns=list(belief.columns))
    return mu, records[:, 0] if belief.variance is not None else records


def belief_of(
    who: str, user: User | Snooper, mask: Mask, made: Example, example: int, slow: bool = False
) -> BeliefView:
    """What one user believes after a release of the example; where there is nothing to draw it says why."""
    title = user.target.describe()
    if isinstance(user, Snooper):
        return BeliefView(
            who, title, words="A snooper with a fixed rule has no posterior: the rule's error is on the map."
        )
    mu, records = made
    try:
        plan = plan_for("auto", Problem.of(user, [mask]))
        if plan.engine.draws_files and not slow:
            return BeliefView(who, title, words="This posterior is sampled, which takes a while.", slow=True)
        # One seed whatever the mask: common random numbers; a release has none that the file was drawn with.
        posterior = plan.posterior(mask, mask.release(records, example))
        estimate = np.ravel(np.asarray(user.loss.estimate(posterior, user.actions), dtype=float))
        after = float(user.loss.uncertainty(posterior, user.actions).value)
    except RuvError as error:
        return BeliefView(who, title, words=f"No posterior can be drawn here: {error.what}.")
    except (TypeError, ValueError):
        return BeliefView(who, title, words="The target or the loss has no single number to draw.")
    try:
        prior = plan.posterior(Suppress())
    except RuvError:
        prior = None  # the picture does without it
    truth = true_value(user.target, mu, records)
    words = f"In this example the best estimate is {_first_numbers(estimate)}"
    words += "" if truth is None else f" and the truth {_first_numbers(truth)}"
    words += f"; the expected loss of that estimate is {format_number(after, 4)}."
    if prior is not None and not np.all(np.isfinite(prior.var())):
        prior, words = None, f"{words} {FLAT}"
    return BeliefView(who, title, _laws_of_target(user.target, prior, posterior, estimate, truth), words)


def _laws_of_target(
    target: BaseTarget, prior: Posterior | None, posterior: Posterior, estimate: Array, truth: Array | None
) -> tuple[LawView, ...]:
    """The laws of a target: one for a number, one per component for a vector."""
    if posterior.event == ():
        one = float(estimate[0]) if np.size(estimate) == 1 else None
        return (
            LawView(target.describe(), posterior, prior, one, None if truth is None else float(np.ravel(truth)[0])),
        )
    fits = np.size(estimate) == posterior.event[0]
    return tuple(
        LawView(
            f"variable {j + 1}",
            posterior,
            prior,
            float(estimate[j]) if fits else None,
            None if truth is None else float(truth[j]),
            j,
        )
        for j in range(min(posterior.event[0], MOST_COMPONENTS))
    )


def true_value(target: BaseTarget, mu: Array | None, records: pd.DataFrame | Array) -> Array | None:
    """The target's value in the example, where it can be read off it; None otherwise."""
    values = np.asarray(records)
    if values.dtype.kind not in "biuf":
        return None
    known = {} if mu is None else {"mu": np.asarray(mu, dtype=np.float64)[None]}
    try:
        return np.atleast_1d(target.in_files(Files(values[None], known))[0])
    except RuvError:
        return None


@dataclass(frozen=True)
class RankPrior:
    """The law of the r-th smallest of n normal records with mean 0, before any release.

    >>> round(float(RankPrior(1, 1, 4.0).cdf(2.0)), 6)  # one record: the normal law itself
    0.841345
    """

    records: int
    rank: int
    variance: float
    event: ClassVar[tuple[int, ...]] = ()
    support: ClassVar[None] = None

    def cdf(self, at: ArrayLike) -> Array:
        """Probability that the record is at most ``at``: that many of n uniform numbers are."""
        level = special.ndtr(np.asarray(at, dtype=float) / np.sqrt(self.variance))
        return np.asarray(special.betainc(self.rank, self.records - self.rank + 1, level))

    def mean(self) -> float:
        return float(np.sqrt(self.variance) * normal_moments(self.records, self.rank).mean)

    def var(self) -> float:
        return float(self.variance * normal_moments(self.records, self.rank).variance)


class TabulatedRankPosterior(RankPosterior):
    """`scenarios.RankPosterior` with its distribution function given the mean taken from a table, built once.

    >>> table = TabulatedRankPosterior([0.3, 1.2, 4.0], 3, 1.0, 0.5, "flat")
    >>> same = RankPosterior([0.3, 1.2, 4.0], 3, 1.0, 0.5, "flat")
    >>> bool(abs(table.mean() - same.mean()) < 1e-4 and abs(table.var() - same.var()) < 1e-4)
    True
    """

    @cached_property
    def _table(self) -> tuple[float, float, PchipInterpolator]:
        exact = super()._cdf_given_mean
        low, high = self._means.min() - 8 * self._sd, self._means.max() + 8 * self._sd
        for _ in range(3):
            rough = np.linspace(low, high, 65)
            level = exact(rough)
            low = rough[max(int(np.searchsorted(level, 1e-9)) - 1, 0)]
            high = rough[min(int(np.searchsorted(level, 1 - 1e-9)), len(rough) - 1)]
        grid = np.linspace(low, high, 161)
        return float(low), float(high), PchipInterpolator(grid, np.clip(exact(grid), 0.0, 1.0))

    def _cdf_given_mean(self, at: Array) -> Array:
        low, high, inside = self._table
        return np.where(at < low, 0.0, np.where(at > high, 1.0, inside(np.clip(at, low, high))))


def _first_numbers(values: Array) -> str:
    return ", ".join(format_number(float(v), 4) for v in np.ravel(values)[:MOST_COMPONENTS])
