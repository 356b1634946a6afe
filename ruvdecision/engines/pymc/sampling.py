"""Posteriors by sampling: user models written in PyMC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ...beliefs.pymc import PyMCBelief
from ...checks import WithSettings, as_tuple, check_choice, check_integer, check_kind, check_number, checked, is_flag
from ...errors import ConvergenceError
from ...masks.base import Mask
from ...protocols import Posterior, Solution, Value
from ...users.user import User
from ..already_knows import join_known_release
from ..base import BaseEngine, Problem, Refusal, progress_of_part
from .draws import ReleaseSampler, SolvedRelease
from .model import compiled_model
from .replicates import ReplicateTally, observed_release, record_count_of, records_of, replicates_of
from .traces import Groups, arviz_groups_of, with_target

BLOCK = 8
"""Neighbours in a grid that share draws. Blocks do not depend on each other, whoever works on them."""
STRONGEST = 1000.0
"""The largest power of a prior or likelihood; beyond it one draw would have all the weight."""
RELEASES, FEWEST = 8, 3
"""Releases of the data, or files drawn from the belief, where nothing else was asked for; at least so many."""
WORK = 60_000_000
"""Draws of all chains times numbers in the file up to which all of them are looked at."""


def _check_keep(name: str, value: object) -> bool | tuple[Mask, ...]:
    """True, False, or the masks whose draws are kept."""
    do = "Name the releases whose draws you want, or write True or False"
    return bool(value) if is_flag(value) else tuple(check_kind(name, m, Mask, do) for m in as_tuple(value))


@dataclass(frozen=True, repr=False)
class Sampling(WithSettings, BaseEngine):
    """Sample the posterior of a `PyMCBelief` for each release; every number carries its Monte Carlo error.

    Where the records are independent given the parameters and the mask works record by record, the records are
    integrated out: in closed form for normal records and noise, over nodes otherwise. Then only the parameters are
    sampled, and the law of a record is averaged over them (Rao and Blackwell). Neighbouring releases of a grid reuse
    draws by Pareto-smoothed importance weights where k-hat is below 0.7, and are sampled afresh where it is not. The
    model is compiled once; released data and mask parameters are its data.

    Parameters
    ----------
    draws, tune, chains : int
        Draws kept per chain, draws to tune each chain, and chains.
    sampler : "auto", "nutpie" or "pymc"
        nutpie where it is installed, PyMC's own NUTS otherwise.
    target_accept : float, default 0.8
        Acceptance that the step size is tuned for; nearer to one where there are divergences (smaller steps, slower).
    target_mcse : float, optional
        Go on drawing until the uncertainty of every user is known to this relative error (0.01 for 1 %), which is the
        relative error of 1/U too, or until ``max_draws``. The map says which.
    max_draws : int
        Largest number of draws of one release, all chains together.
    strict : bool
        Raise `ConvergenceError` where a point does not converge, instead of marking it.
    keep : bool or list of masks
        Keep the draws of the first release by all or by some masks, for `RUMap.draws`; these are sampled afresh. The
        draws go with the map and grow with it, on disk too.
    keep_records : bool
        Keep draws of the confidential records among them.
    reuse : bool
        False samples every release afresh.
    importance : bool
        Try weighted draws around the mode first, for models with at most six unknown numbers: nothing is compiled, and
        a sampler is asked where the weights say that they will not do; ``engine="auto"`` does.
    prior_power, likelihood_power : float
        Raise the prior or the likelihood to a power by importance weights: what a weaker or stronger prior would have
        given, without sampling again (Kallioinen et al., 2024). At most 1,000. See `power_scaling`.

    Unless ``replicates`` says otherwise U is averaged over 8 releases of the data, or over as many files drawn from the
    belief; over fewer, 3 at least, where a file is so large that each takes long. The map says how many.

    A point has converged if R-hat is at most 1.01, bulk and tail effective sample size at least 400 (or a tenth of the
    draws, if these are fewer than 4,000, but 50), there is no divergence, and k-hat is below 0.7.

    Examples
    --------
    >>> Sampling(draws=500, chains=2)
    Sampling(draws=500, chains=2)
    """

    draws: int = checked(1000, check_integer, low=10)
    tune: int = checked(500, check_integer, low=10)
    chains: int = checked(4, check_integer, low=1)
    sampler: str = checked("auto", check_choice, options=["auto", "nutpie", "pymc"])
    target_accept: float = checked(0.8, check_number, low=0, high=1, open_low=True, open_high=True)
    target_mcse: float | None = checked(None, check_number, low=0, open_low=True)
    max_draws: int = checked(40_000, check_integer, low=10)
    strict: bool = False
    keep: Any = checked(False, _check_keep)
    keep_records: bool = False
    reuse: bool = True
    importance: bool = False
    prior_power: float = checked(1.0, check_number, low=0, high=STRONGEST, open_low=True)
    likelihood_power: float = checked(1.0, check_number, low=0, high=STRONGEST, open_low=True)
    name = "sampling"
    beliefs = (PyMCBelief,)
    shares = always_cut = draws_files = True

    @classmethod
    def where(cls, asked: BaseEngine | None) -> BaseEngine:
        return super().where(asked) if asked is not None else cls(importance=True)

    # -- the engine's contract -----------------------------------------------------------------------

    def prepare(self, problem: Problem) -> Refusal | None:
        for user in problem.users:
            records_of(user.belief, problem.data)  # data that do not fit are said before any compiling
            user.belief.check_names(user.target, record_count_of(user.belief, problem))
        return None

    def pieces(self, problem: Problem) -> list[list[int]]:
        """Blocks of neighbours: members of a family in the order of their numbers."""
        blocks = []
        for family in problem.masks.families:
            order = np.lexsort(family.numbers.T[::-1]) if family.numbers.shape[1] else np.arange(len(family.positions))
            ranked = [int(family.positions[i]) for i in order]
            blocks += [ranked[i : i + BLOCK] for i in range(0, len(ranked), BLOCK)]
        return blocks

    def run(self, problem: Problem, built: None) -> list[Solution]:
        users, masks = problem.users, problem.masks
        belief = users[0].belief
        n = record_count_of(belief, problem)
        compiled = compiled_model(belief, n)
        for user in users:
            belief.check_names(user.target, n)
            compiled.check_new_record(user.target)
        sampler = ReleaseSampler(self, compiled, users)
        sampler.fresh = frozenset(i for i, mask in enumerate(masks) if self._keeps_draws(mask))
        steps = (self.draws + self.tune) * self.chains * n * compiled.k
        count = problem.replicates or int(np.clip(WORK // steps, FEWEST, RELEASES))
        tally = _DiagnosticTally(users, masks, count)
        if problem.replicates is None and count < RELEASES:
            tally.budget = f"{count} releases, as each takes long"
        try:
            with threadpool_limits(1):
                for r, observed, for_draws, released in replicates_of(problem, compiled, tally):
                    for i, point in sampler.solve_releases(
                        observed, for_draws, progress_of_part(problem.progress, r, count)
                    ):
                        self._raise_if_strict(point, masks[i])
                        if r == 0 and i in sampler.fresh and point.chains is not None:
                            tally.keep_draws(
                                i, point, arviz_groups_of(point, masks[i], released[i], compiled, self.keep_records)
                            )
                        tally.add_point(r, i, point)
        except KeyboardInterrupt:
            if not problem.interruptible or not tally.finished.any():
                raise
            # Whole replicates count; of the first one those masks that are finished.
            tally.counts[:] = max(1, int(np.sum(tally.finished.all(axis=1))))
        return tally.solutions(sampler.uncertainties_before, self.name)

    def posterior(self, user: User, mask: Mask, release: object = None) -> Posterior:
        """Posterior of the user's target after one release."""
        return self.solve_release(user, mask, release).law

    def drawn_posterior(
        self, user: User, mask: Mask, release: object, seed: np.random.SeedSequence
    ) -> tuple[Posterior, Mapping[str, float]]:
        point = self.solve_release(user, mask, release, seed)
        return point.law, {"rhat": point.rhat, "ess": point.ess_bulk, "divergences": point.divergences}

    def solve_release(
        self, user: User, mask: Mask, release: object = None, seed: np.random.SeedSequence | None = None
    ) -> SolvedRelease:
        """Posterior, uncertainty and diagnostics after one release. Releases of one kind share a compiled model."""
        user, mask = join_known_release(user, mask)
        compiled, observed = observed_release(user.belief, user.target, mask, release, "sampled posterior")
        sampler = ReleaseSampler(self, compiled, [user])
        with threadpool_limits(1):
            seed = np.random.SeedSequence(0) if seed is None else seed
            point = sampler.solve_release(observed, seed)
        self._raise_if_strict(point, mask)
        return point

    def _raise_if_strict(self, point: SolvedRelease, mask: Mask) -> None:
        if self.strict and not point.converged:
            raise ConvergenceError(
                f"{mask} did not converge",
                point.trouble,
                "Draw more (draws=, tune=), reparametrise the model, or use strict=False to mark it",
            )

    def _keeps_draws(self, mask: Mask) -> bool:
        return bool(self.keep) if is_flag(self.keep) else any(repr(mask) == repr(m) for m in self.keep)


class _DiagnosticTally(ReplicateTally):
    """Sums over replicates with the diagnostics of every point."""

    def __init__(self, users: Sequence[User], masks: Sequence[Mask], count: int) -> None:
        super().__init__(len(users), len(masks), count)
        self.points: list[list[SolvedRelease]] = [[] for _ in masks]
        self.kept: list[dict[int, Groups]] = [{} for _ in users]
        self.budget = ""

    def keep_draws(self, i: int, point: SolvedRelease, groups: Groups) -> None:
        """Draws of a release, for each user with the target's."""
        for own, posterior in zip(self.kept, point.posteriors, strict=True):
            own[i] = with_target(groups, posterior, point)

    def add_point(self, r: int, i: int, point: SolvedRelease) -> None:
        self.add(r, i, point.values, point.source)
        self.points[i].append(point.without_draws())

    def solutions(self, before: Sequence[Value], name: str) -> list[Solution]:
        columns = self._diagnostic_columns()
        with np.errstate(invalid="ignore"):
            return [
                Solution(*value, float(u0), name, columns, kept, before_error=float(error))
                for value, (u0, error), kept in zip(self.averages(), before, self.kept, strict=True)
            ]

    def _diagnostic_columns(self) -> dict[str, Any]:
        found: dict[str, list[Any]] = {}
        missing = [not own[:count].all() for own, count in zip(self.finished.T, self.counts, strict=True)]
        for own in self.points:
            for key, entry in _worst_diagnostics(own).items():
                found.setdefault(key, []).append(entry)
        found["releases"] = self.counts.tolist()
        found["budget"] = [", ".join(filter(None, (self.budget, own))) for own in found["budget"]]
        if any(missing):
            found["unfinished"] = missing
        return found


def _worst_diagnostics(points: list[SolvedRelease]) -> dict[str, Any]:
    """Diagnostics of a release over its replicates: the worst of each."""
    worst = lambda name, f: float(f([getattr(p, name) for p in points])) if points else np.nan  # noqa: E731
    words = lambda name: ", ".join(dict.fromkeys(getattr(p, name) for p in points if getattr(p, name)))  # noqa: E731
    return {
        "converged": bool(points) and all(p.converged for p in points),
        "rhat": worst("rhat", np.max),
        "ess_bulk": worst("ess_bulk", np.min),
        "ess_tail": worst("ess_tail", np.min),
        "divergences": int(sum(p.divergences for p in points)),
        "khat": worst("khat", np.max),
        "draws": int(sum(p.count for p in points)),
        "how": words("how"),
        "marginalization": words("marginalization"),
        "budget": words("budget"),
        "integration_error": worst("integration_error", np.max),
        "trouble": words("trouble"),
    }
