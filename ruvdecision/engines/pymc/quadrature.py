"""Posteriors by quadrature: PyMC models with one or two unknown parameters, without a sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...beliefs.pymc import PyMCBelief
from ...channels.likelihood import ReleaseLikelihood, Uninformative, observe
from ...checks import check_number
from ...errors import InputError, RuvError, UnsupportedError
from ...masks.frame import Frame
from ...protocols import Array, Posterior, Solution, Value
from ...running.replication import over_replicates, replicate_error, replicate_seeds
from ..base import BaseEngine, Missing, Problem, Refusal, Tell
from .data import as_frame, observed_in, records_of, size_of
from .levels import CLOSE, FINER, Levels, RouteLevels, levels_of
from .model import CompiledModel, compiled_model
from .node_targets import Solver, refuses_release, refuses_target
from .nodes import Frames, climb, find_frames, lay_nodes

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

    def _refuses(self, user: Any, problem: Problem) -> Refusal | None:
        """None if the model has few parameters, and every mask's law and the target's are known without drawing."""
        belief, data, masks = user.belief, problem.data, problem.masks
        if not isinstance(belief, PyMCBelief):
            return Refusal("Quadrature needs a PyMCBelief", "Use engine='auto'", Missing.BELIEF)
        n = 2 if data is None and belief.size is None else size_of(belief, data)
        compiled = compiled_model(belief, n)
        belief.check_names(user.target, n)
        reason = _refuses_model(compiled) or refuses_target(compiled, user.target)
        if reason is not None or (data is None and belief.size is None):
            return reason
        records = records_of(belief, data)
        try:
            if records is None:
                records = as_frame(belief.draw(np.random.default_rng(0)))
            for family in masks.families:
                mask = masks[family.positions[0]]
                seen = observed_in(mask, records, compiled, np.random.SeedSequence(0))
                levels_of(compiled, [seen])
                reason = refuses_release(compiled, user.target, seen)
                if reason is not None:
                    return reason
        except UnsupportedError as error:
            return Refusal.of(error)
        except RuvError:
            # What is wrong with the study itself is said when it is solved.
            return None
        return None

    def pieces(self, problem: Problem) -> list[list[int]]:
        """Members of a family are worked on together."""
        return [list(map(int, family.positions)) for family in problem.masks.families]

    def run(
        self, problem: Problem, built: None, tell: Tell | None = None, interruptible: bool = False
    ) -> list[Solution]:
        users, masks, data = problem.users, problem.masks, problem.data
        replicates, seed = problem.replicates, problem.seed
        belief = users[0].belief
        records = records_of(belief, data)
        compiled = compiled_model(belief, size_of(belief, data))
        count = (1 if data is not None else PLANNED) if replicates is None else replicates
        value, error = (np.empty((count, len(users), len(masks))) for _ in range(2))
        nodes, rough, routes = np.zeros(len(masks), dtype=int), np.zeros(len(masks)), [""] * len(masks)
        for r, (for_data, for_mask, _) in enumerate(replicate_seeds(seed, count)):
            file = records if records is not None else as_frame(belief.draw(np.random.default_rng(for_data)))
            seen = [observed_in(mask, file, compiled, for_mask) for mask in masks]
            done = 0
            for places, levels in levels_of(compiled, seen):
                found, sizes, off = self._solved(levels, users)
                for i, answer in enumerate(found):
                    value[r, i, places], error[r, i, places] = answer
                nodes[places], rough[places] = np.maximum(nodes[places], sizes), np.maximum(rough[places], off)
                for place in places:
                    routes[place] = levels.route
                done += len(places)
                if tell is not None:
                    tell((r + done / len(masks)) / count)
        spread = replicate_error(value) if count > 1 else error[0]
        diagnostics = {
            "converged": [bool(e <= 1e-4) for e in np.max(error / np.maximum(np.abs(value), 1e-300), axis=(0, 1))],
            "how": ["integrated"] * len(masks),
            "route": routes,
            "nodes": nodes.tolist(),
            "integration_error": rough.tolist(),
        }
        before = self._before(compiled, users)
        return [
            Solution(over_replicates(value[:, i]), spread[i], before[i], self.name, diagnostics)
            for i in range(len(users))
        ]

    def posterior(self, user: Any, mask: Any, release: Any = None) -> Posterior:
        """Posterior of the user's target after one release."""
        if release is None:
            raise InputError(
                "A posterior by quadrature needs a release", None, "Pass what mask.release(data, rng) gave back"
            )
        belief = user.belief
        frame = Frame.of(release)
        n = belief.size if belief.size is not None else frame.n
        compiled = compiled_model(belief, n)
        belief.check_names(user.target, n)
        reason = _refuses_model(compiled) or refuses_target(compiled, user.target)
        if reason is not None:
            raise reason.error()
        seen = observe(mask, frame.table if frame.kind in ("frame", "series") else release, n)
        ((_, levels),) = levels_of(compiled, [seen])
        levels, frames, _ = _settled(levels)
        ((_, steps),) = frames.sorted()
        return Solver(levels, frames, lay_nodes(levels, frames, steps)).law(user)

    # -- a row of releases -----------------------------------------------------------------------------

    def _solved(self, levels: Levels, users: Sequence[Any]) -> tuple[list[Value], Any, Array]:
        """Answers for every user, how many nodes were used, and how far the records' own nodes may be off."""
        levels, frames, off = _settled(levels)
        count = len(levels)
        answers = [Value(np.zeros(count), np.full(count, np.inf)) for _ in users]
        used = np.zeros(count, dtype=int)
        # Records that are summed over nodes make every parameter point dear.
        dear = isinstance(levels, RouteLevels) and levels.parts[0][2] is not None
        tolerance, halvings = (max(self.tolerance, 1e-5), 2) if dear else (self.tolerance, 4)
        for todo, steps in frames.sorted():
            # Halving the steps of those that need it, three times at most.
            for halving in range(halvings):
                some, part = levels.take(todo), frames.take(todo)
                try:
                    nodes = lay_nodes(some, part, tuple(step / 2**halving for step in steps))
                except InputError:
                    if not halving:
                        raise
                    break  # finer would be too many: what is left of the error stays in the map
                used[todo] = nodes.weights.shape[1]
                solver = Solver(some, part, nodes)
                found = [solver.uncertainty(user) for user in users]
                answers = [_better(old, todo, new) for old, new in zip(answers, found, strict=True)]
                todo = [i for i in todo if any(a.error[i] > tolerance * abs(a.value[i]) for a in answers)]
                if not todo or not frames.size:
                    break
        doubt = np.where(off > 1e-13, off, 0.0)
        # A share of an infinite value says nothing.
        return (
            [Value(a.value, a.error + doubt * np.where(np.isinf(a.value), 0.0, np.abs(a.value))) for a in answers],
            used,
            off,
        )

    def _before(self, compiled: CompiledModel, users: Sequence[Any]) -> list[float]:
        """Uncertainties before any release, worked out once; missing where the prior is flat."""
        keys = [_key(user) for user in users]
        fresh = [i for i, key in enumerate(keys) if key is None or key not in compiled.cache]
        found = dict(zip(fresh, self._fresh_before(compiled, [users[i] for i in fresh]), strict=True)) if fresh else {}
        compiled.cache.update({keys[i]: value for i, value in found.items() if keys[i] is not None})
        return [found[i] if i in found else float(compiled.cache[key]) for i, key in enumerate(keys)]

    def _fresh_before(self, compiled: CompiledModel, users: Sequence[Any]) -> list[float]:
        missing = [float("nan")] * len(users)
        if compiled.improper:
            return missing
        uninformative = ReleaseLikelihood(tuple(Uninformative(compiled.n) for _ in range(compiled.k)))
        try:
            ((_, levels),) = levels_of(compiled, [uninformative])
            return [float(answer.value[0]) for answer in self._solved(levels, users)[0]]
        except (InputError, UnsupportedError):
            # A prior so wide that its moments are beyond numbers, or a density that only the release makes simple.
            return missing


def _settled(levels: Levels) -> tuple[Levels, Frames, Array]:
    """Frames of the posteriors, with the records' own nodes made fine enough first."""
    frames = _frames(levels)
    off = np.zeros(len(levels))
    if not isinstance(levels, RouteLevels) or levels.parts[0][2] is None:
        return levels, frames, off
    rng = np.random.default_rng(0)
    for _ in range(FINER):
        z = rng.standard_normal((16, frames.size)) * 2
        off[0] = levels.integration_error(0, frames.u(z)[0])
        if off[0] <= CLOSE:
            break
        levels = levels.finer(0)
    return levels, _frames(levels, frames.modes), off


def _frames(levels: Levels, starts: Any = None) -> Frames:
    """The first release is climbed from the model's own start, the others from its mode."""
    if not levels.core.size:
        return find_frames(levels, np.zeros((len(levels), 0)))
    bends: Any = None
    if starts is None:
        first = levels.take([len(levels) // 2])
        key = ("quadrature start",)
        start, bends = levels.core.cache.get(key, (levels.core.initial[None], None))
        mode, bends = climb(first, start, bends)
        if np.isfinite(mode).all() and np.isfinite(bends).all():
            levels.core.cache[key] = mode, bends
        starts, bends = (np.repeat(a, len(levels), axis=0) for a in (mode, bends))
    return find_frames(levels, starts, bends)


def _refuses_model(compiled: CompiledModel) -> Refusal | None:
    do = "Use engine=ruv.Sampling()"
    if compiled.kind == "joint":
        return Refusal("Quadrature needs records that are independent given the parameters", do)
    if not compiled.continuous:
        return Refusal(
            "Quadrature needs continuous parameters", "Sum the discrete ones out, or use engine=ruv.Sampling()"
        )
    if compiled.size > PARAMETERS:
        what = f"Quadrature needs at most {PARAMETERS} unknown parameters; this model has {compiled.size}"
        return Refusal(what, do)
    return None


def _key(user: Any) -> Any:
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


def _better(old: Value, places: Sequence[int], new: Value) -> Value:
    """The old answers with the new ones put in their places, where their error is not larger."""
    value, error = np.array(old.value), np.array(old.error)
    with np.errstate(invalid="ignore"):
        keep = ~(np.asarray(new.error) > error[places])
    value[places] = np.where(keep, new.value, value[places])
    error[places] = np.where(keep, new.error, error[places])
    return Value(value, error)
