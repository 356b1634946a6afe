"""Uncertainties and laws of targets by nodes of the parameters, made finer until they settle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import ConvergenceError, InputError, UnsupportedError
from ...losses import Quadratic
from ...losses.base import as_bayes_loss
from ...posteriors import Drawn, Gaussian, Mixture
from ...protocols import Array, Loss, Posterior, Value
from ...targets import BaseTarget, Files, Kind
from ...users.user import User
from .importance import weighted_draws
from .log_posterior import LogPosteriors
from .loss_growth import khat_of_loss
from .nodes import SHIFT, LaplaceBoxes, Nodes, Rule, find_boxes, find_modes, place_nodes
from .normal_records import NormalRecords, mixture_curve, released_averages
from .parameter_law import law_of_value, masses_of_value
from .parameter_points import ParameterPoints, entries_per_parameter, parameter_values

ROUNDING_OF_MEANS = 1e-14
"""Relative difference of numbers that are equal but for rounding."""
EXACT_RELATIVE_ERROR = 1e-13
"""Relative error below which a number is as exact as numbers are."""
REFINEMENTS = 5
"""Times that the records' nodes are made finer before their error is taken as it is."""
CLOSE, MANY = 1e-9, 2000
"""Error of the records' nodes, in logs, that is as good as none, and how many of them are many."""
HALVINGS, FEW_HALVINGS = 4, 3
GROWING = 1e-4
"""Share of a value beyond which that matters."""
LOOKED_AT = 3
"""Releases of a group that are checked for mass outside of their boxes."""
MISSED = 1e-3
"""Share of the mass that may lie there."""
LARGEST_WEIGHT = 0.9
"""Weight of one node from which on it is not a rule but a guess."""
UNSETTLED = 0.01
"""Error of the records' own nodes, in logs, beyond which a law is refused."""
STEP_OFF_POLE = 1e-9
"""Standard deviations that a node is moved off a pole."""
LARGE_RELATIVE_ERROR, DRAWS = 1e-3, 4000
"""Relative error from which on nodes are not settled, and draws that are asked why."""
MOST_NODES = 80_000
"""Nodes of one release where each takes a law of a record."""
ROUGH = 1e-5
"""Tolerance where records are summed over nodes, which makes every parameter point dear."""


@dataclass(frozen=True, eq=False)
class NodeSolver:
    """Releases with nodes of their parameters; answers for any target that needs no draws."""

    posteriors: LogPosteriors
    boxes: LaplaceBoxes
    nodes: Nodes
    tolerance: float = 0.0
    """Relative error that is good enough."""

    def uncertainty(self, user: User) -> Value:
        """Of a user after each release, with the error that coarser subsets of the nodes show."""
        target = user.target
        if target.asks_only(Kind.PARAMETER):
            values = self._values_at_nodes(target)
            if not _second_order(user):
                heavy = self._has_heavy_tails(values)
                return self._ask_each_release(
                    lambda i: self._uncertainty_of_parameter(user, i, values[i], bool(heavy[i]))
                )
            return _value_by_rules(_quadratic_uncertainties(user.loss, values, self.nodes.rules))
        moments = None if self._normal_numbers is None else self._moments_given_nodes(self._normal_numbers, target)
        if moments is None:
            return self._ask_each_release(lambda i: self._uncertainty_of_record(user, i)[0])
        means, variances = moments
        # Where records are known, a function of them and of parameters is point masses.
        caution = 1.0 if variances.all() else 1000.0
        return _value_by_rules(_uncertainties_of_mixtures(user, means, variances, self.nodes.rules), caution)

    def law(self, user: User) -> tuple[Posterior, float]:
        """Posterior of the user's target after the only release, and its relative error by the parameter nodes."""
        if user.target.asks_only(Kind.PARAMETER):
            laws, share = self._parameter_laws(user, 0)
            if len(laws) > 1:
                share += _relative_error_between_steps(*self._uncertainty_of_coarser_masses(user, laws))
            return laws[0], share
        if self._normal_numbers is None or self._moments_given_nodes(self._normal_numbers, user.target) is None:
            (value, error), law = self._uncertainty_of_record(user, 0)
        else:
            value, error = self.uncertainty(user)
            law = self._parameter_points(0).law(user.target, density=_needs_density(user.loss))
        return law, _relative_error_between_steps(value, error)

    # -- functions of the parameters -------------------------------------------------------------------

    def _values_at_nodes(self, target: BaseTarget) -> Array:
        """The target at every node, ``(L, S)`` or ``(L, S, k)``."""
        return self._shaped_by_release(self._value_of(target, self.nodes.theta))

    def _value_of(self, target: BaseTarget, theta: dict[str, Array]) -> Array:
        return _numbers_of(target, self.posteriors, theta)

    def _shaped_by_release(self, values: Array) -> Array:
        return values.reshape(*self.nodes.weights.shape, *values.shape[1:])

    def _uncertainty_of_parameter(self, user: User, release: int, values: Array, heavy: bool) -> Value:
        """Of one user after one release, from the target's values at the nodes."""
        laws, share = self._parameter_laws(user, release)
        ask = lambda own: user.loss.uncertainty(own, user.actions)  # noqa: E731
        value, error = ask(laws[0]) if len(laws) == 1 else self._uncertainty_of_coarser_masses(user, laws)
        found = Value(value, error + share * np.abs(value))
        if _needs_density(user.loss) or not heavy:
            return found
        own, _, _, *light = self.nodes.weights_by_rule(release)
        whole, *parts = (ask(_point_masses(values, weights)).value for weights in (own, *light))
        return _with_tail_mass(found, *(found.value - whole + part for part in parts))

    def _uncertainty_of_coarser_masses(self, user: User, laws: Sequence[Posterior]) -> Value:
        """Of one user by point masses, with the error that coarser ones show."""
        return _with_step_error([user.loss.uncertainty(law, user.actions).value for law in laws], caution=1000.0)

    def _has_heavy_tails(self, values: Array) -> NDArray[np.bool_]:
        """Whether the variance of a function of the parameters grows with the range of the nodes, ``(L,)``."""
        finest, _, _, inner, _ = self.nodes.rules
        whole, part = _quadratic_uncertainties(Quadratic(), values, (finest, inner))
        return np.asarray(whole - part > GROWING * whole)

    def _parameter_laws(self, user: User, release: int) -> tuple[list[Posterior], float]:
        """Law of a function of the parameters, else point masses and coarser ones; and a relative error."""
        target, one, boxes = user.target, self.posteriors.take([release]), self.boxes.take([release])
        values = lambda u: self._value_of(target, one.compiled.reduced_model.on_natural_scale(u))  # noqa: E731
        dense = _needs_density(user.loss)
        try:
            found = law_of_value(one, boxes, values, self._parameter_position(target))
            if found is not None and (dense or found[1] + np.max(found[0].error) <= ROUGH):
                return [found[0]], found[1]
            if boxes.size and not dense:
                laws, gap = masses_of_value(one, boxes, values)
                return [_point_masses(*masses) for masses in laws], gap
        except InputError:
            pass  # too wide for a fine grid: the nodes will do
        if dense:
            raise UnsupportedError(
                f"Quadrature has no density of {target.describe()}: it does not rise or fall with the parameters "
                "throughout",
                do="Use another loss, or engine=ruv.Sampling()",
            )
        own = self._values_at_nodes(target)[release]
        return [_point_masses(own, weights) for weights in self.nodes.weights_by_rule(release)[:3]], 0.0

    def _parameter_position(self, target: BaseTarget) -> int | None:
        """Which unconstrained number the target is a function of, if it is one parameter that is a number."""
        core, name = self.posteriors.compiled.reduced_model, target.terms[0].name
        names = [v.name for v in core.free]
        if not target.is_a(Kind.PARAMETER) or name not in names or core.shapes[name]:
            return None
        return core.parameter_slices[names.index(name)][0]

    # -- records ---------------------------------------------------------------------------------------

    @cached_property
    def _normal_numbers(self) -> NormalRecords | None:
        """The records, if they are normal numbers given the parameters, for all releases at once."""
        core, observed = self.posteriors.compiled.reduced_model, self.posteriors.observed
        pairs = [release.columns[0].normal for release in observed]
        if core.kind != "normal" or not core.scalar or any(pair is None for pair in pairs):
            return None
        if self.nodes.at.normal is not None:
            mean, variance = (self.nodes.values_at_nodes(a) for a in self.nodes.at.normal)
        else:
            mean, variance = (self._shaped_by_release(a) for a in core.record_moments(self.nodes.theta))
        centre, noise = (np.stack([pair[i] for pair in pairs]) for i in (0, 1))  # type: ignore[index]
        complete = core.with_deterministics(self.nodes.theta)
        return NormalRecords(
            mean,
            variance,
            centre,
            noise,
            lambda term: self._shaped_by_release(parameter_values(core, complete, term)),
            entries_per_parameter(core),
            averages=released_averages(observed[0], 0) if observed[0].averages is not None else None,
        )

    def _moments_given_nodes(self, numbers: NormalRecords, target: BaseTarget) -> tuple[Array, Array] | None:
        """Mean and variance given parameters and release, ``(L, S)``; for an unknown row ``(L, S, n)``."""
        if any(release.shuffled for release in self.posteriors.observed):
            if target.is_a(Kind.RECORD):
                return numbers.moments_of_each_row()
            return numbers.moments_of_target(target) if target.is_a(Kind.NEW) else None
        return numbers.moments_of_target(target)

    def _uncertainty_of_record(self, user: User, release: int) -> tuple[Value, Posterior]:
        """Uncertainty about records by averages of their laws, and the average itself."""
        weights = self.nodes.weights_by_rule(release)
        laws = self._parameter_points(release).averaged_laws(user.target, weights, self.tolerance / 10)
        found = [user.loss.uncertainty(law, user.actions) for law in laws]
        # Laws narrower than the distance of the nodes leave a comb, whose error falls slowly and by fits and starts.
        value = _with_step_error([f.value for f in found[:3]], caution=10.0)
        return _with_tail_mass(Value(value.value, value.error + found[0].error), *(f.value for f in found[3:])), laws[0]

    def _parameter_points(self, release: int) -> ParameterPoints:
        own, weights = self.posteriors, self.nodes.weights[release]
        mine = slice(release * len(weights), (release + 1) * len(weights))
        theta = {name: values[mine] for name, values in self.nodes.theta.items()}
        return ParameterPoints(own.compiled, own.observed[release], own.support_maps, theta, weights, exact=True)

    def _ask_each_release(self, ask: Callable[[int], Value]) -> Value:
        found = [ask(i) for i in range(len(self.posteriors))]
        return Value(np.array([float(f.value) for f in found]), np.array([float(f.error) for f in found]))


# -- nodes that are fine enough ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SettledUncertainties:
    """Uncertainties after L releases by nodes that are fine enough, or as fine as they may be."""

    values: list[Value]
    """Of each user."""
    nodes: Array
    """How many nodes were used for each release."""
    record_error: Array
    """How far the records' own nodes may be off, in logs."""

    @classmethod
    def of(cls, posteriors: LogPosteriors, users: Sequence[User], tolerance: float) -> SettledUncertainties:
        """Halve the steps of the nodes until every user's uncertainty is known to this relative error."""
        posteriors, boxes, node_error = _refine_record_nodes(posteriors)
        count = len(posteriors)
        answers = [Value(np.zeros(count), np.full(count, np.inf)) for _ in users]
        used = np.zeros(count, dtype=int)
        dear = bool(posteriors.support_maps)
        tolerance, halvings = (max(tolerance, ROUGH), FEW_HALVINGS) if dear else (tolerance, HALVINGS)
        tolerance = min(tolerance, ROUGH) if posteriors.has_edges else tolerance  # many such releases are all alike
        for todo, steps in boxes.grouped_by_steps(dear):
            reached = 0.0
            for halving in range(halvings):
                some, part = posteriors.take(todo), boxes.take(todo)
                nodes = _halved_nodes(some, part, steps, halving)
                if nodes is None:
                    break
                used[todo] = nodes.weights.shape[1]
                solver, before = NodeSolver(some, part, nodes, max(tolerance, reached / 8)), answers
                found = [solver.uncertainty(user) for user in users]
                for shift in (SHIFT, 2 * SHIFT) if some.has_edges else ():
                    beside = replace(solver, nodes=place_nodes(some, part, _halved(steps, halving), shift))
                    found = [_with_error_beside(v, beside.uncertainty(u)) for v, u in zip(found, users, strict=True)]
                    if all(np.all(v.error <= CLOSE * np.abs(v.value)) for v in found):
                        break  # smooth between nodes; two grids alone may agree by chance
                answers = [_keep_smaller_error(a, todo, own) for a, own in zip(answers, found, strict=True)]
                # Finer nodes are worth it as long as they help: a record's own law may leave an error too.
                worth = [
                    (a.error > tolerance * np.abs(a.value)) & (a.error < b.error / 2)
                    for a, b in zip(answers, before, strict=True)
                ]
                todo = [i for i in todo if any(own[i] for own in worth)]
                reached = max(
                    (float(a.error[i] / max(abs(a.value[i]), 1e-300)) for a in answers for i in todo), default=0
                )
                if not todo or not boxes.size or _exceeds_budget(posteriors, nodes):
                    break
        for own, user in zip(answers, users, strict=True):
            for i in np.flatnonzero(own.error > LARGE_RELATIVE_ERROR * np.abs(own.value)).tolist():
                if user.target.asks_only(Kind.PARAMETER) and not _has_mean_of_loss(posteriors.take([i]), user):
                    own.value[i], own.error[i] = np.inf, 0.0
        share = np.where(node_error > EXACT_RELATIVE_ERROR, node_error, 0.0)
        # A share of an infinite value says nothing.
        values = [Value(a.value, a.error + share * np.where(np.isinf(a.value), 0.0, np.abs(a.value))) for a in answers]
        return cls(values, used, node_error)


def settled_law(posteriors: LogPosteriors, user: User, tolerance: float) -> Posterior:
    """Posterior of a user's target after one release, by nodes that settle what the user's loss asks of it."""
    posteriors, boxes, (node_error,) = _refine_record_nodes(posteriors)
    if not node_error <= UNSETTLED:
        what, do = "The records cannot be integrated out by nodes", "Use engine=ruv.Sampling()"
        raise ConvergenceError(what, f"an error of {node_error:.2g}", do)
    ((_, steps),) = boxes.grouped_by_steps(bool(posteriors.support_maps))
    for halving in range(FEW_HALVINGS if posteriors.support_maps else HALVINGS):
        nodes = _halved_nodes(posteriors, boxes, steps, halving)
        if nodes is None:
            break
        solver = NodeSolver(posteriors, boxes, nodes)
        law, error = solver.law(user)
        if posteriors.has_edges and not user.target.asks_only(Kind.PARAMETER):
            beside = replace(solver, nodes=place_nodes(posteriors, boxes, _halved(steps, halving), SHIFT))
            value, other = (s.uncertainty(user) for s in (solver, beside))
            error = max(error, _relative_error_between_steps(*_with_error_beside(value, other)))
        if (
            error <= max(tolerance, ROUGH)
            or user.target.asks_only(Kind.PARAMETER)
            or _exceeds_budget(posteriors, nodes)
        ):
            break
    error += node_error if node_error > EXACT_RELATIVE_ERROR else 0.0
    return law.less_certain(error) if error > EXACT_RELATIVE_ERROR else law


def _halved_nodes(
    posteriors: LogPosteriors, boxes: LaplaceBoxes, steps: tuple[float, ...], halving: int
) -> Nodes | None:
    """Nodes whose steps were halved so often; None if they are too many: what is left of the error stays in the map.

    Nodes of which one has all the weight are refused: a spike narrower than their distance.
    """
    try:
        nodes = place_nodes(posteriors, boxes, _halved(steps, halving))
    except InputError:
        if not halving:
            raise
        return None
    if nodes.weights.shape[1] > 1 and nodes.weights.max() > LARGEST_WEIGHT:
        what = "The posterior of the parameters is narrower than the distance of its nodes"
        raise ConvergenceError(what, f"one node with {nodes.weights.max():.3f} of it", "Use engine=ruv.Sampling()")
    return nodes


def _halved(steps: tuple[float, ...], times: int) -> tuple[float, ...]:
    return tuple(step / 2**times for step in steps)


def _exceeds_budget(posteriors: LogPosteriors, nodes: Nodes) -> bool:
    """Whether nodes of half the step would cost more than a release may; what is left of the error stays in the map."""
    return bool(posteriors.support_maps) and nodes.weights.size * 2 ** nodes.whole.shape[-1] > MOST_NODES


def _refine_record_nodes(posteriors: LogPosteriors) -> tuple[LogPosteriors, LaplaceBoxes, Array]:
    """LaplaceBoxes of the posteriors, with the records' own nodes made fine enough first."""
    boxes, node_error = _boxes_that_miss_no_mass(posteriors), np.zeros(len(posteriors))
    if not posteriors.support_maps:
        return posteriors, boxes, node_error
    rng, before = np.random.default_rng(0), np.inf
    for _ in range(REFINEMENTS):
        node_error[0] = posteriors.refinement_error(boxes.parameters_at(rng.standard_normal((16, boxes.size)) * 2)[0])
        # Where there are many, finer nodes that do not help would only cost.
        if node_error[0] <= CLOSE or (node_error[0] > before / 2 and posteriors.record_nodes > MANY):
            break
        posteriors, before = posteriors.refined(), node_error[0]
    return posteriors, _boxes_that_miss_no_mass(posteriors, boxes.modes), node_error


def _boxes_that_miss_no_mass(posteriors: LogPosteriors, starts: Array | None = None) -> LaplaceBoxes:
    """Boxes of the posteriors that miss no mass which draws from the prior can see; searched for again from there."""
    boxes = _find_boxes(posteriors, starts)
    some = np.unique(np.linspace(0, len(posteriors) - 1, LOOKED_AT).astype(int)).tolist()
    share, best = _mass_outside_boxes(posteriors.take(some), boxes.take(some))
    if share <= MISSED:
        return boxes
    if len(posteriors) == 1:
        boxes = _find_boxes(posteriors, best)
        share, _ = _mass_outside_boxes(posteriors, boxes)
        if share <= MISSED:
            return boxes
    raise ConvergenceError(
        "The posterior of the parameters has mass that the nodes around its mode miss",
        f"{share:.2g} times as much as around it",
        "Use engine=ruv.Sampling()",
    )


def _mass_outside_boxes(posteriors: LogPosteriors, boxes: LaplaceBoxes) -> tuple[float, Array]:
    """Mass outside of the boxes over that around the modes, by draws from the prior: the largest, and where it is."""
    points, count = posteriors.compiled.reduced_model.prior_points, len(posteriors)
    if points is None:
        return 0.0, boxes.modes
    u, prior = points
    logs = posteriors.evaluate(np.broadcast_to(u, (count, *u.shape)))[0]
    z = np.linalg.solve(boxes.roots[:, None], (u - boxes.modes[:, None])[..., None])[..., 0]
    outside = np.any((z < boxes.low[:, None]) | (z > boxes.high[:, None]), axis=2)
    far = np.where(outside, logs - prior, -np.inf)
    middle = posteriors.evaluate(boxes.modes[:, None])[0][:, 0] + np.log(np.abs(np.linalg.det(boxes.roots)))
    with np.errstate(over="ignore"):
        share = np.exp(far - middle[:, None]).mean(axis=1) / (2 * np.pi) ** (boxes.size / 2)
    worst = int(np.argmax(share))
    return float(share[worst]), u[np.argmax(np.where(outside, logs, -np.inf)[worst])][None]


def _find_boxes(posteriors: LogPosteriors, starts: Array | None = None) -> LaplaceBoxes:
    """The first release is climbed from the model's own start, the others from its mode."""
    core, count = posteriors.compiled.reduced_model, len(posteriors)
    if not core.size:
        return find_boxes(posteriors, np.zeros((count, 0)))
    hessians: Array | None = None
    if starts is None:
        key = ("quadrature start",)
        start, hessians = core.cache.get(key, (core.initial[None], None))
        mode, hessians = find_modes(posteriors.take([count // 2]), start, hessians)
        if np.isfinite(mode).all() and np.isfinite(hessians).all():
            core.cache[key] = mode, hessians
        starts, hessians = np.repeat(mode, count, axis=0), np.repeat(hessians, count, axis=0)
    return find_boxes(posteriors, starts, hessians)


# -- helpers -------------------------------------------------------------------------------------------


def _numbers_of(target: BaseTarget, posteriors: LogPosteriors, theta: dict[str, Array]) -> Array:
    """A function of the parameters at points of them, ``(S,)`` or ``(S, k)``."""

    def ask(places: dict[str, Array]) -> Array:
        return target.numbers_in_files(Files(parameters=posteriors.compiled.reduced_model.with_deterministics(places)))

    try:
        return ask(theta)
    except InputError:
        # A node that is a pole of the function, such as a denominator of zero, is passed by next to nothing.
        return ask({name: a + STEP_OFF_POLE * np.std(a, axis=0) for name, a in theta.items()})


def _has_mean_of_loss(posteriors: LogPosteriors, user: User) -> bool:
    """False if draws of the parameters after the only release tell that the mean of a user's loss does not exist.

    A pole in their midst, such as a denominator near zero, moves what nodes say without end.
    """
    drawn = weighted_draws(posteriors, DRAWS, np.random.default_rng(0))
    if drawn is None:
        return True
    values = _numbers_of(user.target, posteriors, posteriors.compiled.reduced_model.on_natural_scale(drawn.u))
    return khat_of_loss(user, Drawn(values, drawn.weights)) < 1


def _point_masses(values: Array, weights: Array) -> Posterior:
    keep = weights > 0
    if values.ndim == 1:
        return Mixture(Gaussian.scalar(values[keep], 0.0), weights[keep])
    return Mixture(Gaussian(values[keep], np.zeros((values.shape[1],) * 2)), weights[keep])


def _second_order(user: User) -> bool:
    return user.actions is None and as_bayes_loss(user.loss).second_order


def _needs_density(loss: Loss) -> bool:
    return as_bayes_loss(loss).needs_density


def _quadratic_uncertainties(
    loss: Loss, values: Array, rules: Sequence[Rule], variances: Array | None = None
) -> list[Array]:
    """U of a loss that is linear in the covariance, for every release at once, by each rule."""
    if values.ndim == 2:
        # About one mean for all rules, as theirs are near to it.
        gap = values - values[:, :1]
        gap -= np.vecdot(rules[0][1], gap)[:, None]
        with np.errstate(over="ignore"):  # nodes of a law without variance
            square = gap * gap
        if variances is not None:
            square += variances
        totals = [np.vecdot(w, square[:, some]) - np.vecdot(w, gap[:, some]) ** 2 for some, w in rules]
        law = Gaussian.scalar(np.zeros(len(rules) * len(values)), np.maximum(np.concatenate(totals), 0.0))
        return np.split(np.asarray(loss.uncertainty(law).value), len(rules))
    found = []
    for some, weights in rules:
        gap = values[:, some] - np.einsum("ls,lsk->lk", weights, values[:, some])[:, None]
        cov = np.einsum("ls,lsi,lsj->lij", weights, gap, gap)
        found.append(np.asarray(loss.uncertainty(Gaussian(np.zeros(cov.shape[:2]), cov)).value))
    return found


def _uncertainties_of_mixtures(user: User, means: Array, variances: Array, rules: Sequence[Rule]) -> list[Array]:
    """Uncertainties from all releases as one batch of mixtures of normal numbers, by each rule."""
    # Means that differ by rounding alone are one number: what is known has no tail.
    means = np.where(np.abs(means - means[:, :1]) <= ROUNDING_OF_MEANS * np.abs(means[:, :1]), means[:, :1], means)
    if _second_order(user) and means.ndim == 2:
        return _quadratic_uncertainties(user.loss, means, rules, variances)
    return [_uncertainty_of_mixtures(user, means[:, some], variances[:, some], weights) for some, weights in rules]


def _uncertainty_of_mixtures(user: User, means: Array, variances: Array, weights: Array) -> Array:
    """The same by one rule."""
    if means.ndim == 3:
        n = means.shape[2]
        weights = np.repeat(weights / n, n, axis=1)
        means, variances = (a.reshape(len(means), -1) for a in np.broadcast_arrays(means, variances))
    if _needs_density(user.loss) and user.actions is None and (variances > 0).all():
        laws = (mixture_curve(*row) for row in zip(weights, means, variances, strict=True))
        return np.array([float(user.loss.uncertainty(law).value) for law in laws])
    return np.asarray(user.loss.uncertainty(Mixture(Gaussian.scalar(means, variances), weights), user.actions).value)


def _value_by_rules(found: Sequence[Array], caution: float = 1.0) -> Value:
    """A value with its error, from what the rules of nodes give."""
    return _with_tail_mass(_with_step_error(found[:3], caution), *found[3:])


def _with_step_error(found: Sequence[Array], caution: float = 1.0) -> Value:
    """A value with its error, from three steps each twice the one before."""
    fine, middle, coarse = (np.asarray(a, dtype=np.float64) for a in found)
    with np.errstate(invalid="ignore", divide="ignore"):
        first, second = np.abs(fine - middle), np.abs(middle - coarse)
        # What halving the step did last time it will do again, at least.
        error = first * np.minimum(1.0, np.where(second > 0, caution * first / second, 1.0))
        error = np.where((error <= EXACT_RELATIVE_ERROR * np.abs(fine)) | ~np.isfinite(error), 0.0, error)
    return Value(fine, error)


def _with_tail_mass(found: Value, far: Array, near: Array) -> Value:
    """A value with what the nodes beyond the last ones would add; infinite if that does not become less.

    Nodes reach down to a weight of exp(-27) at least. ``far`` is the value by those above exp(-18), ``near`` above
    exp(-9): of an expectation that exists the tail beyond exp(-c) falls off with c. If it falls by x for every nine,
    what the three values differ by tells x, and so what is left beyond the last.
    """
    value, error = np.asarray(found.value, dtype=np.float64), np.asarray(found.error, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        last, before = np.abs(value - far), np.abs(np.asarray(far) - near)
        there = last > GROWING * np.abs(value)
        x = last / before
        left = np.where(there, last * x / (1 - x), 0.0)
        endless = there & (last >= before)
    return Value(np.where(endless, np.inf, value), np.where(endless, 0.0, error + np.where(endless, 0.0, left)))


def _with_error_beside(found: Value, beside: Value) -> Value:
    """A value with an error of at least twice what a second grid beside the first one moves it."""
    with np.errstate(invalid="ignore"):
        moved = 2 * np.abs(np.asarray(found.value) - beside.value)
    return Value(
        found.value, np.maximum(found.error, np.where(moved > EXACT_RELATIVE_ERROR * np.abs(found.value), moved, 0.0))
    )


def _relative_error_between_steps(value: Array, error: Array) -> float:
    """Of one number; infinite if it is."""
    first, off = float(np.ravel(value)[0]), float(np.ravel(error)[0])
    return np.inf if np.isinf(first) else off / abs(first) if first else 0.0


def _keep_smaller_error(old: Value, places: Sequence[int], new: Value) -> Value:
    """The old answers with the new ones put in their places, where their error is not larger."""
    value, error = np.array(old.value), np.array(old.error)
    with np.errstate(invalid="ignore"):
        keep = ~(np.asarray(new.error) > error[places])
    value[places] = np.where(keep, new.value, value[places])
    error[places] = np.where(keep, new.error, error[places])
    return Value(value, error)
