"""Posteriors by quadrature: PyMC models with one or two unknown parameters, without a sampler."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ...beliefs.pymc import PyMCBelief
from ...channels.likelihood import ReleaseLikelihood, Uninformative
from ...checks import check_number
from ...errors import ConvergenceError, InputError, UnsupportedError
from ...masks.base import Mask
from ...protocols import Posterior, Solution
from ...running.replication import over_replicates, replicate_error
from ...targets import BaseTarget, Kind
from ...users.user import User
from ..base import BaseEngine, Missing, Problem, ProgressCallback, Refusal
from .data import drawn_records, observed_in, observed_release, records_of, replicates_of, size_of
from .log_posterior import log_posteriors
from .model import CompiledModel, compiled_model
from .node_uncertainty import Settled, settled_law
from .normal_records import LINEAR
from .targets import MOST_NUMBERS, widths_of

SAMPLE = "Use engine=ruv.Sampling()"
PLANNED = 32
"""Files drawn from the belief where there are no data and nothing else was asked for."""
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

    With data one release is looked at unless ``replicates`` says otherwise; without data files are drawn from the
    belief.

    Examples
    --------
    >>> Quadrature()
    Quadrature(tolerance=1e-09)
    """

    tolerance: float = 1e-9
    name = "quadrature"
    shares = always_cut = planned = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", check_number("tolerance", self.tolerance, low=0, open_low=True))

    # -- the engine's contract -----------------------------------------------------------------------

    def prepare(self, problem: Problem) -> Refusal | None:
        return next((r for r in (self._refuses(user, problem) for user in problem.users) if r is not None), None)

    def _refuses(self, user: User, problem: Problem) -> Refusal | None:
        """None if the model has few parameters, and every mask's law and the target's are known without drawing."""
        belief, data, masks = user.belief, problem.data, problem.masks
        if not isinstance(belief, PyMCBelief):
            return Refusal("Quadrature needs a PyMCBelief", "Use engine='auto'", Missing.BELIEF)
        planned = data is None and belief.size is None
        compiled = compiled_model(belief, 2 if planned else size_of(belief, data))
        belief.check_names(user.target, compiled.n)
        reason = _refuses_model(compiled) or _refuses_target(compiled, user.target)
        if reason is not None or planned:
            return reason
        records = records_of(belief, data)
        try:
            if records is None:
                records = drawn_records(belief, 0)
            for family in masks.families:
                observed = observed_in(masks[family.positions[0]], records, compiled, np.random.SeedSequence(0))
                log_posteriors(compiled, [observed])
                reason = _refuses_release(compiled, user.target, observed)
                if reason is not None:
                    return reason
        except (InputError, ConvergenceError):
            # What is wrong with the study itself is said when it is solved; an UnsupportedError is a refusal.
            return None
        return None

    def pieces(self, problem: Problem) -> list[list[int]]:
        """Members of a family are worked on together."""
        return [list(map(int, family.positions)) for family in problem.masks.families]

    def run(
        self, problem: Problem, built: None, on_progress: ProgressCallback | None = None, interruptible: bool = False
    ) -> list[Solution]:
        users, masks = problem.users, problem.masks
        compiled = compiled_model(users[0].belief, size_of(users[0].belief, problem.data))
        count = problem.replicates or (PLANNED if problem.data is None else 1)
        value, error = np.empty((2, count, len(users), len(masks)))
        nodes, rough, marginalizations = np.zeros(len(masks), dtype=int), np.zeros(len(masks)), [""] * len(masks)
        for r, observed, _ in replicates_of(problem, compiled, count):
            done = 0
            for places, posteriors in log_posteriors(compiled, observed):
                settled = Settled.of(posteriors, users, self.tolerance)
                for i, answer in enumerate(settled.values):
                    value[r, i, places], error[r, i, places] = answer
                nodes[places] = np.maximum(nodes[places], settled.nodes)
                rough[places] = np.maximum(rough[places], settled.record_error)
                for place in places:
                    marginalizations[place] = posteriors.how
                done += len(places)
                if on_progress is not None:
                    on_progress((r + done / len(masks)) / count)
        errors = replicate_error(value) if count > 1 else error[0]
        diagnostics = {
            "converged": [bool(e <= 1e-4) for e in np.max(error / np.maximum(np.abs(value), 1e-300), axis=(0, 1))],
            "how": ["integrated"] * len(masks),
            "marginalization": marginalizations,
            "nodes": nodes.tolist(),
            "integration_error": rough.tolist(),
        }
        before = self._before(compiled, users)
        return [
            Solution(over_replicates(value[:, i]), errors[i], before[i], self.name, diagnostics)
            for i in range(len(users))
        ]

    def posterior(self, user: User, mask: Mask, release: object = None) -> Posterior:
        """Posterior of the user's target after one release; its nodes settle what the user's loss asks of it."""
        compiled, observed = observed_release(user.belief, user.target, mask, release, "posterior by quadrature")
        reason = (
            _refuses_model(compiled)
            or _refuses_target(compiled, user.target)
            or _refuses_release(compiled, user.target, observed)
        )
        if reason is not None:
            raise reason.error()
        ((_, posteriors),) = log_posteriors(compiled, [observed])
        return settled_law(posteriors, user, self.tolerance)

    # -- before any release ----------------------------------------------------------------------------

    def _before(self, compiled: CompiledModel, users: Sequence[User]) -> list[float]:
        """Uncertainties before any release, worked out once; missing where the prior is flat."""
        keys = [_key(user) for user in users]
        fresh = [i for i, key in enumerate(keys) if key is None or key not in compiled.cache]
        found = dict(zip(fresh, self._fresh_before(compiled, [users[i] for i in fresh]), strict=True)) if fresh else {}
        compiled.cache.update({keys[i]: value for i, value in found.items() if keys[i] is not None})
        return [found[i] if i in found else float(compiled.cache[key]) for i, key in enumerate(keys)]

    def _fresh_before(self, compiled: CompiledModel, users: Sequence[User]) -> list[float]:
        missing = [float("nan")] * len(users)
        if compiled.improper:
            return missing
        uninformative = ReleaseLikelihood(tuple(Uninformative(compiled.n) for _ in range(compiled.k)))
        try:
            ((_, posteriors),) = log_posteriors(compiled, [uninformative])
            return [float(answer.value[0]) for answer in Settled.of(posteriors, users, self.tolerance).values]
        except (InputError, UnsupportedError):
            # A prior so wide that its moments are beyond numbers, or a density that only the release makes simple.
            return missing


def _refuses_model(compiled: CompiledModel) -> Refusal | None:
    if compiled.kind == "joint":
        return Refusal("Quadrature needs records that are independent given the parameters", SAMPLE)
    if not compiled.continuous:
        return Refusal(
            "Quadrature needs continuous parameters", "Sum the discrete ones out, or use engine=ruv.Sampling()"
        )
    if compiled.size > PARAMETERS:
        what = f"Quadrature needs at most {PARAMETERS} unknown parameters; this model has {compiled.size}"
        return Refusal(what, SAMPLE)
    return None


def _key(user: User) -> Hashable:
    """What the uncertainty before any release depends on, beside the model.

    None if it cannot be told apart from others.
    """
    key = (
        "quadrature before",
        user.target,
        user.loss,
        None if user.actions is None else repr(np.asarray(user.actions).tolist()),
    )
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _refuses_target(compiled: CompiledModel, target: BaseTarget) -> Refusal | None:
    """None if the target has a law without drawing; otherwise why not and what can."""
    numbers = compiled.kind == "normal" and compiled.scalar
    what = None
    if target.only(Kind.PARAMETER):
        return None
    if target.ranked or not (target.only(*LINEAR) or target.is_a(Kind.FILE)):
        what = f"Quadrature does not have the target {target.describe()}"
    elif target.is_a(Kind.AVERAGE) and not numbers:
        what = "Quadrature has the average of normal records only"
    elif target.is_a(Kind.FILE) and not (compiled.kind == "normal" and compiled.n * compiled.k <= MOST_NUMBERS):
        what = f"Quadrature has all records at once only if they are normal and at most {MOST_NUMBERS} numbers"
    elif target.term is None:
        form = target.linear(1, True, widths_of(compiled)) if numbers else None
        if form is None or not form.number:
            what = f"Quadrature has linear functions of normal records only; {target.describe()} is another"
    return None if what is None else Refusal(what, SAMPLE, Missing.TARGET)


def _refuses_release(compiled: CompiledModel, target: BaseTarget, observed: ReleaseLikelihood) -> Refusal | None:
    """None if the target has a law without drawing after this release; otherwise why not and what can."""
    normal = compiled.kind == "normal" and all(column.normal is not None for column in observed.columns)
    what = None
    if (target.asks(Kind.AVERAGE) or target.asks(Kind.FILE)) and (not normal or observed.shuffled):
        what = f"Quadrature has {target.describe()} only after normal noise in known rows"
    elif observed.shuffled and target.asks(Kind.RECORD) and not (normal and compiled.scalar):
        what = "Quadrature has records in unknown rows only if they are normal numbers with normal noise"
    elif (target.asks(Kind.RECORD) or target.asks(Kind.NEW)) and not (
        compiled.scalar or normal or compiled.kind == "mvnormal"
    ):
        what = "Quadrature has records of several variables only after normal noise"
    return None if what is None else Refusal(what, SAMPLE, Missing.TARGET)
