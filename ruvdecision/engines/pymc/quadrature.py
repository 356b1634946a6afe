"""Posteriors by quadrature: PyMC models with one or two unknown parameters, without a sampler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...beliefs.pymc import PyMCBelief
from ...channels.likelihood import ReleaseLikelihood
from ...checks import check_flag, check_number
from ...errors import ConvergenceError, InputError, RuvError, UnsupportedError
from ...masks.base import Mask
from ...protocols import Posterior, Solution, Value
from ...targets import BaseTarget, Kind
from ...users.user import User
from ..base import BaseEngine, Missing, Problem, Refusal
from .draws import ReleaseSampler, SolvedRelease, before_release
from .log_posterior import LogPosteriors, log_posteriors
from .loss_growth import nothing_released
from .model import CompiledModel, compiled_model
from .node_uncertainty import SettledUncertainties, settled_law
from .normal_records import LINEAR
from .parameter_points import MOST_NUMBERS, entries_per_parameter
from .replicates import (
    ReplicateTally,
    drawn_records,
    observed_in,
    observed_release,
    record_count_of,
    records_of,
    replicates_of,
)
from .sampling import Sampling

SAMPLE = "Use engine=ruv.Sampling()"
PLANNED = 32
"""Files drawn from the belief where there are no data and nothing else was asked for."""
RELEASES, FEWEST = 100, 8
"""Releases of given data where nothing else was asked for, and how few they may become where they are dear."""
WORK = 20_000_000
"""Nodes of the parameters times nodes of a record from which on a release is so dear that they become fewer still."""
SETTLED_RELATIVE_ERROR = 1e-3
"""Relative error of nodes up to which a number is called settled; the error itself is in the map."""
TOGETHER = 512
"""Releases that are looked at in one go."""
ALIKE = 3
"""Releases after which it is seen whether their uncertainties differ at all."""
AVERAGED = 1e-4
"""Tolerance after these."""
PARAMETERS = 2


@dataclass(frozen=True)
class Quadrature(BaseEngine):
    """Integrate the parameters of a `PyMCBelief` on a grid: no sampler, errors near those of rounding.

    For models with at most two unknown continuous parameters (numbers on the unconstrained scale) and masks that work
    record by record. The records are integrated out as in `Sampling`. The parameters get a product grid around the mode
    of their posterior, as wide as it has any chance; the trapezoid rule is then exact to many digits, and coarser
    subsets of its nodes show how many. Records are averaged over the nodes in closed form, and a parameter's density is
    laid out on a fine grid.

    Parameters
    ----------
    tolerance : float
        Relative error of an uncertainty that is worth finer nodes, three times at most. The error that is left is in
        the map.

    fallback : bool
        Sample a release whose nodes do not settle, instead of marking it; ``engine="auto"`` does.

    Unless ``replicates`` says otherwise U is averaged over 100 releases of the data, or over 32 files drawn from the
    belief. A fifth of them will do for records that are not normal, two fifths for two parameters, 8 at least, or 3
    where each takes long; the map says how many, and which masks ended at that budget.

    Examples
    --------
    >>> Quadrature()
    Quadrature(tolerance=1e-09)
    """

    tolerance: float = 1e-9
    fallback: bool = False
    name = "quadrature"
    beliefs = (PyMCBelief,)
    shares = always_cut = draws_files = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", check_number("tolerance", self.tolerance, low=0, open_low=True))
        check_flag("fallback", self.fallback, "Say whether a release that does not settle is sampled")

    @classmethod
    def where(cls, asked: BaseEngine | None) -> BaseEngine:
        return super().where(asked) if asked is not None else cls(fallback=True)

    def __repr__(self) -> str:
        return f"Quadrature(tolerance={self.tolerance!r}{', fallback=True' if self.fallback else ''})"

    # -- the engine's contract -----------------------------------------------------------------------

    def prepare(self, problem: Problem) -> Refusal | None:
        return next((r for r in (self._why_refused(user, problem) for user in problem.users) if r is not None), None)

    def _why_refused(self, user: User, problem: Problem) -> Refusal | None:
        """None if the model has few parameters, and every mask's law and the target's are known without drawing."""
        belief, masks = user.belief, problem.masks
        compiled = compiled_model(belief, record_count_of(belief, problem))
        belief.check_names(user.target, compiled.n)
        compiled.check_new_record(user.target)
        reason = _refuses_question(compiled, user.target)
        if reason is not None:
            return reason
        try:
            if problem.release is not None:
                _, observed = observed_release(belief, user.target, masks[0], problem.release, "posterior")
                releases = [observed]
            else:
                releases = problem.build_once(self, belief, lambda: _example_releases(problem, compiled))
            for observed in releases:
                log_posteriors(compiled, [observed])
                reason = _why_target_refused(compiled, user.target, observed)
                if reason is not None:
                    return reason
        except (InputError, ConvergenceError):
            # What is wrong with the study itself is said when it is solved; an UnsupportedError is a refusal.
            return None
        return None

    def pieces(self, problem: Problem) -> list[list[int]]:
        """Members of a family are worked on together."""
        return [list(map(int, family.positions)) for family in problem.masks.families]

    def run(self, problem: Problem, built: None) -> list[Solution]:
        users, masks = problem.users, problem.masks
        compiled = compiled_model(users[0].belief, record_count_of(users[0].belief, problem))
        count = problem.replicates or (PLANNED if problem.data is None else RELEASES)
        tally = ReplicateTally(len(users), len(masks), count)
        nodes, rough, marginalizations = np.zeros(len(masks), dtype=int), np.zeros(len(masks)), [""] * len(masks)
        trouble: list[dict[str, int]] = [{} for _ in masks]
        budget = [""] * len(masks)
        sampled: dict[int, SolvedRelease] = {}
        sampler = ReleaseSampler(Sampling(importance=True), compiled, users) if self.fallback else None
        solve_before = partial(
            before_release, compiled, users, self.name, partial(self._solve_before_release, compiled, users)
        )
        waiting: list[tuple[int, int, ReleaseLikelihood, np.random.SeedSequence]] = []
        for r, observed, seed, _ in replicates_of(problem, compiled, tally):
            for i, release in enumerate(observed):
                if release is None:
                    continue
                known = solve_before() if release.is_uninformative else [Value.exact(np.nan)]
                if np.isnan([value for value, _ in known]).any():
                    waiting.append((r, i, release, seed))
                else:
                    tally.add(r, i, known)
                    marginalizations[i] = "nothing is released"
            if ALIKE <= r < tally.counts.max() - 1 and len(waiting) < TOGETHER:
                continue
            for group, posteriors in log_posteriors(compiled, [release for _, _, release, _ in waiting]):
                # The spread of several releases is far larger than what finer nodes would add. The first ones may turn
                # out to be alike, but not where each takes long: their records are not normal.
                several = all(tally.counts[waiting[k][1]] > 1 for k in group) and bool(posteriors.support_maps)
                tolerance = max(self.tolerance, AVERAGED) if r >= ALIKE or several else self.tolerance
                for some, found in _each_settled(posteriors, users, tolerance):
                    own = [waiting[group[k]] for k in some]
                    if isinstance(found, UnsupportedError) and sampler is None:
                        raise found
                    if isinstance(found, RuvError):
                        ((at, i, release, for_draws),) = own
                        point = None if sampler is None else _solve_by_sampling(sampler, release, for_draws)
                        if point is None:
                            trouble[i][found.what] = trouble[i].get(found.what, 0) + 1
                        else:
                            tally.add(at, i, point.values, 1 + point.source)
                            sampled[i] = point if i not in sampled or point.trouble else sampled[i]
                        continue
                    for k, (at, i, _, _) in enumerate(own):
                        tally.add(at, i, [Value(v.value[k], v.error[k]) for v in found.values])
                        marginalizations[i], nodes[i] = posteriors.marginalization, max(nodes[i], found.nodes[k])
                        rough[i] = max(rough[i], found.record_error[k])
                        if problem.replicates is None:
                            dear = (5 if posteriors.support_maps else 1) * (2.5 if compiled.size > 1 else 1)
                            work = int(found.nodes[k]) * max(1, posteriors.record_nodes)
                            fewest = int(np.clip(FEWEST * WORK // work, ALIKE, FEWEST))
                            budget[i] = "" if fewest == FEWEST else f"{fewest} releases, as each takes long"
                            few = max(FEWEST, int(count / dear)) if fewest == FEWEST else fewest
                            tally.counts[i] = min(tally.counts[i], few)
            waiting = []
            if problem.replicates is None and r == ALIKE - 1:
                tally.stop_constant_masks(r)
            problem.progress((r + 1) / tally.counts.max())
        with np.errstate(invalid="ignore"):
            relative_error = np.nanmax(tally.error / np.maximum(np.abs(tally.value), 1e-300), axis=(0, 1), initial=0.0)
        bad, endless = [i for i, words in enumerate(trouble) if words], np.isinf(tally.value).any(axis=(0, 1))
        for i in np.flatnonzero(endless).tolist():
            trouble[i]["the loss is not finite"] = int(np.isinf(tally.value[:, :, i]).any(axis=1).sum())
        diagnostics = {
            "converged": [
                i not in bad
                and (
                    sampled[i].converged
                    if i in sampled
                    else bool(relative_error[i] <= SETTLED_RELATIVE_ERROR and not endless[i])
                )
                for i in range(len(masks))
            ],
            "how": ["sampled" if i in sampled else "integrated" for i in range(len(masks))],
            "marginalization": marginalizations,
            "nodes": nodes.tolist(),
            "node_error": relative_error.tolist(),
            "integration_error": rough.tolist(),
            "releases": tally.counts.tolist(),
        }
        if any(budget):
            diagnostics["budget"] = budget
        if any(trouble):
            diagnostics["trouble"] = [
                "; ".join(f"{what} ({k} of {count} releases)" for what, k in words.items()) for words in trouble
            ]
        before = solve_before()
        names = ["sampling" if i in sampled else self.name for i in range(len(masks))]
        engine = self.name if not sampled else names
        return [
            Solution(*value, float(b.value), engine, diagnostics)
            for value, b in zip(tally.averages(), before, strict=True)
        ]

    def posterior(self, user: User, mask: Mask, release: object = None) -> Posterior:
        """Posterior of the user's target after one release; its nodes settle what the user's loss asks of it."""
        compiled, observed = observed_release(user.belief, user.target, mask, release, "posterior by quadrature")
        reason = _refuses_question(compiled, user.target) or _why_target_refused(compiled, user.target, observed)
        if reason is not None:
            raise reason.error()
        ((_, posteriors),) = log_posteriors(compiled, [observed])
        try:
            return settled_law(posteriors, user, self.tolerance)
        except RuvError:
            sampler = ReleaseSampler(Sampling(importance=True), compiled, [user])
            point = _solve_by_sampling(sampler, observed, np.random.SeedSequence(0)) if self.fallback else None
            if point is None:
                raise
            return point.law

    def _solve_before_release(self, compiled: CompiledModel, users: Sequence[User], some: list[int]) -> list[Value]:
        ((_, posteriors),) = log_posteriors(compiled, [nothing_released(compiled)])
        found = SettledUncertainties.of(posteriors, [users[i] for i in some], self.tolerance)
        return [Value(answer.value[0], answer.error[0]) for answer in found.values]


def _example_releases(problem: Problem, compiled: CompiledModel) -> list[ReleaseLikelihood]:
    """What a release by one mask of each family tells."""
    belief, masks = compiled.belief, problem.masks
    records = records_of(belief, problem.data)
    records = drawn_records(belief, 0) if records is None else records
    some = (masks[family.positions[0]] for family in masks.families)
    return [observed_in(mask, records, compiled, np.random.SeedSequence(0)) for mask in some]


def _each_settled(
    posteriors: LogPosteriors, users: Sequence[User], tolerance: float
) -> Iterator[tuple[list[int], SettledUncertainties | RuvError]]:
    """Uncertainties after all releases at once; one by one, with what is wrong, if that fails for some of them."""
    every = list(range(len(posteriors)))
    try:
        yield every, SettledUncertainties.of(posteriors, users, tolerance)
    except RuvError as error:
        if len(every) == 1:
            yield every, error
            return
        for i in every:
            for _, found in _each_settled(posteriors.take([i]), users, tolerance):
                yield [i], found


def _solve_by_sampling(
    sampler: ReleaseSampler, observed: ReleaseLikelihood, seed: np.random.SeedSequence
) -> SolvedRelease | None:
    """What sampling finds where nodes do not settle; None if it cannot either."""
    try:
        return sampler.solve_release(observed, seed)
    except RuvError:
        return None


def _refuses_question(compiled: CompiledModel, target: BaseTarget) -> Refusal | None:
    """None if the model has few parameters and the target a law without drawing; otherwise why not and what can."""
    if compiled.kind == "joint":
        return Refusal("Quadrature needs records that are independent given the parameters", SAMPLE)
    if not compiled.continuous:
        return Refusal(
            "Quadrature needs continuous parameters", "Sum the discrete ones out, or use engine=ruv.Sampling()"
        )
    if compiled.size > PARAMETERS:
        most = f"Quadrature needs at most {PARAMETERS} unknown parameters"
        return Refusal(f"{most}; this model has {compiled.size}", SAMPLE)
    if target.asks_only(Kind.PARAMETER):
        return None
    numbers, what = compiled.kind == "normal" and compiled.scalar, None
    if target.is_order_statistic or not (target.asks_only(*LINEAR) or target.is_a(Kind.FILE)):
        what = f"Quadrature does not have the target {target.describe()}"
    elif target.is_a(Kind.AVERAGE) and not numbers:
        what = "Quadrature has the average of normal records only"
    elif target.is_a(Kind.FILE) and not (compiled.kind == "normal" and compiled.n * compiled.k <= MOST_NUMBERS):
        what = f"Quadrature has all records at once only if they are normal and at most {MOST_NUMBERS} numbers"
    elif target.term is None and (target.entry is None or compiled.scalar):
        form = target.linear(1, True, entries_per_parameter(compiled)) if numbers else None
        if form is None or not form.number:
            what = f"Quadrature has linear functions of normal records only; {target.describe()} is another"
    return None if what is None else Refusal(what, SAMPLE, Missing.TARGET)


def _why_target_refused(compiled: CompiledModel, target: BaseTarget, observed: ReleaseLikelihood) -> Refusal | None:
    """None if the target has a law without drawing after this release; otherwise why not and what can."""
    normal = compiled.kind == "normal" and all(column.normal is not None for column in observed.columns)
    what = None
    if (target.asks(Kind.AVERAGE) or target.asks(Kind.FILE)) and (not normal or observed.shuffled):
        what = f"Quadrature has {target.describe()} only after normal noise in known rows"
    elif observed.shuffled and target.asks(Kind.RECORD) and not (normal and compiled.scalar):
        what = "Quadrature has records in unknown rows only if they are normal numbers with normal noise"
    elif (target.asks(Kind.RECORD) or target.asks(Kind.NEW)) and not (
        compiled.scalar or normal or compiled.kind == "mvnormal" or (target.entry is not None and not observed.shuffled)
    ):
        what = "Quadrature has records of several variables only after normal noise"
    return None if what is None else Refusal(what, SAMPLE, Missing.TARGET)
