"""Labels for the outputs of a mechanism: what the scientist will estimate when she sees each of them.

Merging outputs with the same best estimate costs the scientist nothing and tells the intruder less, so an optimal
mechanism needs one output per estimate. Where estimates are few (a list, or a loss whose best estimate is always one of
the target's values) they are all listed, and the programme is exact. Where they form a continuum it is cut into cells,
and each cell gets a cost that is never above the scientist's true uncertainty there, so that the programme's value is
a bound for every mechanism; cells in use are split until bound and mechanism agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...losses import KullbackLeibler, LogScore
from ...losses.base import as_bayes_loss, is_bayes_loss
from ...numerics.semidefinite import range_root
from ...posteriors import Finite
from ...posteriors.base import as_weight_matrix
from ...protocols import Array, Loss
from ...users.user import User

MOST_LISTED = 3000
MOST_CORNERS = 4
"""Up to so many target values, the simplex of posteriors itself is cut into cells."""
NEARLY = 1e-13
"""Share of the uniform distribution that keeps the log of an estimated distribution finite."""


@dataclass(frozen=True, eq=False)
class UserOverFiles:
    """A user, and the chance of every file together with every value of what the user wants to know.

    What he already knows of the file stands beside the target's values: a law is one of pairs of the two, and an
    estimate a function of what is known.
    """

    user: User
    values: Array
    """Values of the target."""
    joint: Array
    """Chances under the user's belief, files by pairs: the target's values for the first thing known, and so on."""

    @property
    def knowledge_count(self) -> int:
        """How many things there are that he may know."""
        return self.joint.shape[1] // len(self.values)

    @property
    def chance(self) -> Array:
        """Of every file."""
        return np.asarray(self.joint.sum(axis=1))

    @property
    def is_squared_loss(self) -> bool:
        """Whether the user pays the squared error of any estimate."""
        return as_bayes_loss(self.user.loss).second_order and self.user.actions is None

    @property
    def lists_estimates(self) -> bool:
        """Whether the best estimate is always one of finitely many."""
        return self.user.actions is not None or as_bayes_loss(self.user.loss).value_offset is not None

    def uncertainty_of_outputs(self, columns: Array) -> Array:
        """The uncertainty that outputs add; each is a row, the chance that each file gives it."""
        return self.uncertainty_contributions(columns @ self.joint)

    def uncertainty_contributions(self, joint: Array) -> Array:
        """Expected loss that each row of chances together with target values adds; zero for empty rows."""
        each = joint.reshape(-1, len(self.values))
        chance = each.sum(axis=1)
        live = chance > 0
        out = np.zeros(len(each))
        if live.any():
            found = self.user.loss.uncertainty(Finite(self.values, each[live] / chance[live, None]), self.user.actions)
            out[live] = chance[live] * found.value
        return np.asarray(out.reshape(len(joint), self.knowledge_count).sum(axis=1))

    def best(self, law: Array) -> tuple[Any, ...]:
        """The best estimates, one for each thing known, where the pairs have this law (up to a factor)."""
        each = law.reshape(-1, len(self.values))
        each = np.where(each.sum(axis=1, keepdims=True) > 0, each, each.sum(axis=0))  # what cannot be, costs nothing
        laws = each / each.sum(axis=1, keepdims=True)
        return tuple(self.user.loss.estimate(Finite(self.values, one), self.user.actions) for one in laws)

    def cost(self, estimates: Sequence[Any]) -> Array:
        """Loss of one estimate for each thing known, for every value of the target.

        Of the best ones under a law it is the slope of the (concave) uncertainty at that law, and never below the
        uncertainty elsewhere.
        """
        return np.concatenate([self._cost_in_each_file(estimate) for estimate in estimates])

    def _cost_in_each_file(self, estimate: Any) -> Array:
        loss, vector = self.user.loss, self.values.ndim > 1
        if isinstance(estimate, Finite):
            if isinstance(loss, LogScore) or (not vector and not hasattr(loss, "each")):
                # Any distribution is an estimate; a trace of the uniform one keeps its log finite.
                mixed = (1.0 - NEARLY) * estimate.probabilities + NEARLY / len(self.values)
                return np.asarray(-np.log(mixed))
        else:
            estimate = np.asarray(estimate, dtype=np.float64)
            if isinstance(loss, KullbackLeibler):
                estimate = (1.0 - NEARLY) * estimate + NEARLY / estimate.shape[-1]
            if is_bayes_loss(loss):
                each = np.broadcast_to(estimate, (len(self.values), *estimate.shape))
                return np.asarray(loss.cost(each, self.values, vector), dtype=np.float64)
        return np.array([float(loss(estimate, v)) for v in self.values])


class EstimateCells:
    """Labels with their costs: ``costs[b, t]`` bounds from below what the scientist pays at label b for target value t.

    This class lists estimates, which needs no splitting; its children cut a continuum. ``certain`` says whether the
    costs bound the scientist's uncertainty from below, whatever the mechanism.
    """

    certain = True
    quick = True
    """Whether splitting closes the gap in a few rounds."""
    what = "outputs, one for each estimate that can be best"

    def __init__(self, user: UserOverFiles, costs: Array) -> None:
        self.user, self.costs = user, costs

    def __len__(self) -> int:
        return len(self.costs)

    def conditions_on_law(self, label: int) -> Array | None:
        """Rows of conditions ``row @ law >= 0`` that an output with this label must meet, or None."""
        return None

    def split(self, label: int, law: Array) -> bool:
        """Split a cell near the law that it is used for, and say whether that was possible.

        One part takes the place of the old cell, the other is the last one.
        """
        return False


class DividedCells(EstimateCells):
    """Cells of a continuum: ``cells`` with a cost each, and where to cut one of them."""

    what = "cells of the scientist's estimate, finest where they are used"

    def __init__(self, user: UserOverFiles, cells: Sequence[Array]) -> None:
        self.cells = list(cells)
        super().__init__(user, np.array([self.cost(cell) for cell in cells]))

    def cost(self, cell: Array) -> Array:
        """What the scientist pays at least in a cell, for every target value."""
        raise NotImplementedError

    def split_in_two(self, cell: Array, law: Array) -> tuple[Array, Array] | None:
        """The two parts of a cell, or None if it is too small to be cut."""
        raise NotImplementedError

    def split(self, label: int, law: Array) -> bool:
        parts = self.split_in_two(self.cells[label], law)
        if parts is None:
            return False
        self.cells[label], last = parts
        self.cells.append(last)
        self.costs[label] = self.cost(parts[0])
        self.costs = np.concatenate([self.costs, self.cost(last)[None]])
        return True


class MeanCells(DividedCells):
    """Boxes of the posterior mean, for the squared error.

    U = E|t|^2 - |m|^2 in coordinates where the weights are one. On [l, r] the chord of -m^2 lies below it, so that
    E (t - l)(t - r) is at most U there, by at most (r - l)^2 / 4; outside it lies above.
    """

    def __init__(self, user: UserOverFiles) -> None:
        values = user.values
        matrix = np.atleast_2d(as_weight_matrix(user.user.loss.weights, values.shape[1:]))
        root = range_root(matrix, np.ones(len(matrix)), 1e-14)[0]
        points = values.reshape(len(values), -1) @ root
        low, high = (np.tile(ends, user.knowledge_count) for ends in (points.min(axis=0), points.max(axis=0)))
        # A mean of its own for each thing known: pairs look at theirs alone.
        self.points, self.own = (np.kron(np.eye(user.knowledge_count), p) for p in (points, np.ones_like(points)))
        self.span = float(np.max(high - low))
        pieces = max(1, int(16 ** (1 / len(low))))
        sides = []
        for a, b in zip(low, high, strict=True):
            sides.append(list(pairwise(np.unique(np.linspace(a, b, pieces + 1)))) if b > a else [(a, b)])
        super().__init__(user, [np.array(box) for box in product(*sides)])

    def cost(self, cell: Array) -> Array:
        return np.asarray(np.sum(self.own * (self.points - cell[:, 0]) * (self.points - cell[:, 1]), axis=1))

    def split_in_two(self, cell: Array, law: Array) -> tuple[Array, Array] | None:
        mass = law @ self.own
        mean = np.where(mass > 0, law @ self.points / np.where(mass > 0, mass, 1.0), cell[:, 0])
        room = mass * (mean - cell[:, 0]) * (cell[:, 1] - mean)
        axis = int(np.argmax(room))
        width = cell[axis, 1] - cell[axis, 0]
        if width <= 1e-12 * self.span:
            return None
        at = float(mean[axis])
        if not cell[axis, 0] + 1e-9 * width < at < cell[axis, 1] - 1e-9 * width:
            axis = int(np.argmax(cell[:, 1] - cell[:, 0]))
            at = float(cell[axis].mean())
        lower, upper = cell.copy(), cell.copy()
        lower[axis, 1] = upper[axis, 0] = at
        return lower, upper


class IntervalCells(DividedCells):
    """Intervals of a number's estimate, for losses that grow with the distance from the truth.

    In a cell no estimate is nearer to a value than the value itself, or the end of the cell on its side.
    """

    quick = False

    def __init__(self, user: UserOverFiles) -> None:
        low, high = float(user.values.min()), float(user.values.max())
        self.user, self.span = user, max(high - low, 1e-300)
        edges = np.linspace(low, high, 33) if high > low else np.array([low, low])
        super().__init__(user, list(np.column_stack([edges[:-1], edges[1:]])))

    def cost(self, cell: Array) -> Array:
        return np.asarray(self.user.user.loss.cost(np.clip(self.user.values, *cell), self.user.values, False))

    def split_in_two(self, cell: Array, law: Array) -> tuple[Array, Array] | None:
        low, high = cell
        if high - low <= 1e-9 * self.span:
            return None
        at = float(np.asarray(self.user.best(law)[0]))
        if not low + 0.1 * (high - low) < at < high - 0.1 * (high - low):
            at = (low + high) / 2
        return np.array([low, at]), np.array([at, high])


class PosteriorCells(DividedCells):
    """Simplices of the posterior itself, for any loss and a target with few values; a cell is its corners.

    U is concave, so inside a simplex it is never below the plane through its values at the corners.
    """

    quick = False
    what = "cells of the scientist's posterior, finest where they are used"

    def __init__(self, user: UserOverFiles) -> None:
        self.user = user
        super().__init__(user, [np.eye(user.joint.shape[1])])
        for _ in range(3):
            for label in range(len(self.cells)):
                self.split(label, self.cells[label].mean(axis=0))

    def cost(self, cell: Array) -> Array:
        return np.asarray(np.linalg.solve(cell, self.user.uncertainty_contributions(cell)), dtype=np.float64)

    def conditions_on_law(self, label: int) -> Array | None:
        return np.asarray(np.linalg.inv(self.cells[label]).T, dtype=np.float64)

    def split_in_two(self, cell: Array, law: Array) -> tuple[Array, Array] | None:
        pairs = [(i, j) for i in range(len(cell)) for j in range(i)]
        i, j = max(pairs, key=lambda p: float(np.abs(cell[p[0]] - cell[p[1]]).max()))
        if np.abs(cell[i] - cell[j]).max() <= 1e-6:
            return None
        share = 0.5
        weights = np.linalg.solve(cell.T, law / law.sum())
        if weights[i] + weights[j] > 0.2 and min(weights[i], weights[j]) > 0.05 * (weights[i] + weights[j]):
            share = float(weights[i] / (weights[i] + weights[j]))
        first, second = cell.copy(), cell.copy()
        first[i] = second[j] = share * cell[i] + (1.0 - share) * cell[j]
        return first, second


class SearchedEstimates(EstimateCells):
    """Estimates found on the way: of every file, of mixtures with the prior, and of every output in use.

    The mechanism is real, and so is what it reaches; that no other does better is not proved.
    """

    certain = quick = False
    what = "estimates found by search"

    def __init__(self, user: UserOverFiles, laws: Array) -> None:
        prior = laws.mean(axis=0)
        seeds = [prior, *laws, *((laws + prior) / 2)]
        costs = np.unique(np.round([user.cost(user.best(law)) for law in seeds[:400]], 12), axis=0)
        super().__init__(user, costs)

    def split(self, label: int, law: Array) -> bool:
        cost = self.user.cost(self.user.best(law))
        if np.min(np.abs(self.costs - cost).max(axis=1)) <= 1e-10 * (1.0 + np.abs(cost).max()):
            return False
        self.costs = np.concatenate([self.costs, cost[None]])
        return True


def estimates_for(user: UserOverFiles) -> EstimateCells:
    """The labels that suit a scientist's loss."""
    loss, values = user.user.loss, user.values
    laws = user.joint[user.chance > 0]
    laws = laws / laws.sum(axis=1, keepdims=True)
    if user.is_squared_loss:
        return MeanCells(user)
    actions = user.user.actions
    one = Finite(values, np.full((1, len(values)), 1.0 / len(values)))
    listed = _candidate_estimates(loss, values) if actions is None else loss.listed(one, actions)
    if listed is not None and len(listed) ** user.knowledge_count <= max(MOST_LISTED, len(listed)):
        costs = np.array([user.cost(estimates) for estimates in product(listed, repeat=user.knowledge_count)])
        if not np.isfinite(costs).all():
            raise UnsupportedError(f"{loss!r} over a list of estimates can be infinite", do='Use estimates="free"')
        return EstimateCells(user, costs)
    if as_bayes_loss(loss).grows_with_distance and values.ndim == 1 and user.knowledge_count == 1:
        return IntervalCells(user)
    if 1 < user.joint.shape[1] <= MOST_CORNERS:
        return PosteriorCells(user)
    return SearchedEstimates(user, laws)


def _candidate_estimates(loss: Loss, values: Array) -> Array | None:
    """Estimates among which a best one always is, or None."""
    offset, distance = as_bayes_loss(loss).value_offset, as_bayes_loss(loss).measures_distance
    if offset is None or not distance:
        return None if offset is None else np.unique(values, axis=0)
    # A median is one of the values, and a best window may be moved until a value is at its lower end.
    if values.ndim == 1:
        return np.unique(values) + np.asarray(offset)
    axes = [np.unique(v) for v in values.T]
    if np.prod([float(len(a)) for a in axes]) > MOST_LISTED:
        return None
    return np.array(list(product(*axes))) + np.asarray(offset)
