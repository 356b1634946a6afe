"""Labels for the outputs of a mechanism: what the scientist will estimate when she sees each of them.

Merging outputs with the same best estimate costs the scientist nothing and tells the intruder less, so an optimal
mechanism needs one output per estimate. Where estimates are few (a list, or a loss whose best estimate is always one of
the target's values) they are all listed, and the programme is exact. Where they form a continuum it is cut into cells,
and each cell gets a cost that is never above the scientist's true uncertainty there, so that the programme's value is
a bound for every mechanism; cells in use are split until bound and mechanism agree.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...losses import Absolute, Huber, Linex, LogScore, Pinball, Power, Quadratic, ZeroOne
from ...losses.base import BayesLoss
from ...posteriors import Finite
from ...posteriors.base import as_weight_matrix
from ...protocols import Array
from ...users.user import User

MOST_LISTED = 3000
MOST_CORNERS = 4
"""Up to so many target values, the simplex of posteriors itself is cut into cells."""
NEARLY = 1e-13
"""Share of the uniform distribution that keeps the log of an estimated distribution finite."""


def uncertainties(user: User, values: Array, joint: Array) -> Array:
    """Expected loss that each row of ``joint`` (chances together with target values) adds; zero for empty rows."""
    chance = joint.sum(axis=1)
    live = chance > 0
    out = np.zeros(len(joint))
    if live.any():
        found = user.loss.uncertainty(Finite(values, joint[live] / chance[live, None]), user.actions).value
        out[live] = chance[live] * found
    return out


def cost_of_best(user: User, values: Array, law: Array) -> Array:
    """Loss of the best estimate under ``law``, for every value of the target.

    It is the slope of the (concave) uncertainty at that law, and never below the uncertainty elsewhere.
    """
    posterior = Finite(values, law)
    best = user.loss.estimate(posterior, user.actions)
    return cost_of(user, values, best)


def cost_of(user: User, values: Array, estimate: Any) -> Array:
    """Loss of one estimate for every value of the target."""
    loss, vector = user.loss, values.ndim > 1
    if isinstance(estimate, Finite):
        if isinstance(loss, LogScore) or (not vector and not hasattr(loss, "each")):
            # Any distribution is an estimate; a trace of the uniform one keeps its log finite.
            mixed = (1.0 - NEARLY) * estimate.probabilities + NEARLY / len(values)
            return np.asarray(-np.log(mixed))
        return np.array([float(loss(estimate, v)) for v in values])
    estimate = np.asarray(estimate, dtype=np.float64)
    if isinstance(loss, BayesLoss):
        if type(loss).__name__ == "KullbackLeibler":
            estimate = (1.0 - NEARLY) * estimate + NEARLY / estimate.shape[-1]
        return np.asarray(
            loss.cost(np.broadcast_to(estimate, (len(values), *estimate.shape)), values, vector), dtype=np.float64
        )
    return np.array([float(loss(estimate, v)) for v in values])


class EstimateCells:
    """Labels with their costs: ``costs[b, t]`` bounds from below what the scientist pays at label b for target value t.

    This class lists estimates, which needs no splitting; its children cut a continuum. ``certain`` says whether the
    costs bound the scientist's uncertainty from below, whatever the mechanism.
    """

    certain = True
    quick = True
    """Whether splitting closes the gap in a few rounds."""

    def __init__(self, user: User, values: Array, costs: Array) -> None:
        self.user, self.values, self.costs = user, values, costs

    def __len__(self) -> int:
        return len(self.costs)

    def cone(self, label: int) -> Array | None:
        """Rows of conditions ``row @ law >= 0`` that an output with this label must meet, or None."""
        return None

    def split(self, label: int, law: Array) -> list[int]:
        """Split a cell near the law that it is used for; gives back new labels, the old one is changed in place."""
        return []

    def words(self) -> str:
        return f"{len(self):,} outputs, one for each estimate that can be best"

    def _add(self, cost: Array) -> int:
        self.costs = np.concatenate([self.costs, cost[None]])
        return len(self.costs) - 1


class MeanCells(EstimateCells):
    """EstimateCells of the posterior mean, for the squared error.

    U = E|t|^2 - |m|^2 in coordinates where the weights are one. On [l, r] the chord of -m^2 lies below it, so that
    E (t - l)(t - r) is at most U there, by at most (r - l)^2 / 4; outside it lies above.
    """

    def __init__(self, user: User, values: Array) -> None:
        event = values.shape[1:]
        matrix = np.atleast_2d(as_weight_matrix(user.loss.weights, event))
        eigenvalues, vectors = np.linalg.eigh(matrix)
        root = (vectors * np.sqrt(np.clip(eigenvalues, 0.0, None)))[:, eigenvalues > 1e-14 * eigenvalues[-1]]
        self.points = values.reshape(len(values), -1) @ root
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        k = self.points.shape[1]
        pieces = max(1, int(16 ** (1 / k)))
        edges = [
            np.unique(np.linspace(a, b, pieces + 1)) if b > a else np.array([a, b])
            for a, b in zip(low, high, strict=True)
        ]
        sides = [list(pairwise(e)) for e in edges]
        self.boxes = [np.array(box) for box in product(*sides)]
        self.span = float(np.max(high - low))
        super().__init__(user, values, np.array([self._cost(b) for b in self.boxes]))

    def _cost(self, box: Array) -> Array:
        return np.asarray(np.sum((self.points - box[:, 0]) * (self.points - box[:, 1]), axis=1))

    def split(self, label: int, law: Array) -> list[int]:
        box = self.boxes[label]
        mean = law @ self.points / law.sum()
        room = (mean - box[:, 0]) * (box[:, 1] - mean)
        axis = int(np.argmax(room))
        width = box[axis, 1] - box[axis, 0]
        if width <= 1e-12 * self.span:
            return []
        at = float(mean[axis])
        if not box[axis, 0] + 1e-9 * width < at < box[axis, 1] - 1e-9 * width:
            axis = int(np.argmax(box[:, 1] - box[:, 0]))
            at = float(box[axis].mean())
        left, right = box.copy(), box.copy()
        left[axis, 1], right[axis, 0] = at, at
        self.boxes[label] = left
        self.costs[label] = self._cost(left)
        self.boxes.append(right)
        return [self._add(self._cost(right))]

    def words(self) -> str:
        return f"{len(self):,} cells of the scientist's estimate, finest where they are used"


class IntervalCells(EstimateCells):
    """EstimateCells of a number's estimate, for losses that grow with the distance from the truth.

    In a cell no estimate is nearer to a value than the value itself, or the end of the cell on its side.
    """

    quick = False

    def __init__(self, user: User, values: Array) -> None:
        low, high = float(values.min()), float(values.max())
        edges = np.linspace(low, high, 33) if high > low else np.array([low, low])
        self.cells = np.column_stack([edges[:-1], edges[1:]])
        self.span = max(high - low, 1e-300)
        super().__init__(user, values, np.zeros((0, len(values))))
        self.costs = np.array([self._cost(c) for c in self.cells])

    def _cost(self, cell: Array) -> Array:
        return np.asarray(self.user.loss.cost(np.clip(self.values, *cell), self.values, False))

    def split(self, label: int, law: Array) -> list[int]:
        low, high = self.cells[label]
        if high - low <= 1e-9 * self.span:
            return []
        at = float(np.asarray(self.user.loss.estimate(Finite(self.values, law / law.sum()))))
        if not low + 0.1 * (high - low) < at < high - 0.1 * (high - low):
            at = (low + high) / 2
        self.cells[label] = low, at
        self.costs[label] = self._cost(self.cells[label])
        self.cells = np.concatenate([self.cells, [[at, high]]])
        return [self._add(self._cost(self.cells[-1]))]

    def words(self) -> str:
        return f"{len(self):,} cells of the scientist's estimate, finest where they are used"


class PosteriorCells(EstimateCells):
    """EstimateCells of the posterior itself, for any loss and a target with few values.

    U is concave, so inside a simplex it is never below the plane through its values at the corners.
    """

    quick = False

    def __init__(self, user: User, values: Array) -> None:
        self.corners = [np.eye(len(values))]
        super().__init__(user, values, np.zeros((0, len(values))))
        self.costs = np.array([self._cost(c) for c in self.corners])
        for _ in range(3):
            for label in range(len(self.corners)):
                self.split(label, self.corners[label].mean(axis=0))

    def _cost(self, corners: Array) -> Array:
        return np.asarray(np.linalg.solve(corners, uncertainties(self.user, self.values, corners)), dtype=np.float64)

    def cone(self, label: int) -> Array | None:
        return np.asarray(np.linalg.inv(self.corners[label]).T, dtype=np.float64)

    def split(self, label: int, law: Array) -> list[int]:
        corners = self.corners[label]
        i, j = max(
            ((i, j) for i in range(len(corners)) for j in range(i)),
            key=lambda p: float(np.abs(corners[p[0]] - corners[p[1]]).max()),
        )
        if np.abs(corners[i] - corners[j]).max() <= 1e-6:
            return []
        share = 0.5
        weights = np.linalg.solve(corners.T, law / law.sum())
        if weights[i] + weights[j] > 0.2 and min(weights[i], weights[j]) > 0.05 * (weights[i] + weights[j]):
            share = float(weights[i] / (weights[i] + weights[j]))
        middle = share * corners[i] + (1.0 - share) * corners[j]
        left, right = corners.copy(), corners.copy()
        left[i], right[j] = middle, middle
        self.corners[label] = left
        self.costs[label] = self._cost(left)
        self.corners.append(right)
        return [self._add(self._cost(right))]

    def words(self) -> str:
        return f"{len(self):,} cells of the scientist's posterior, finest where they are used"


class SearchedEstimates(EstimateCells):
    """Estimates found on the way: of every file, of mixtures with the prior, and of every output in use.

    The mechanism is real, and so is what it reaches; that no other does better is not proved.
    """

    certain = quick = False

    def __init__(self, user: User, values: Array, laws: Array) -> None:
        prior = laws.mean(axis=0)
        seeds = [prior, *laws, *((laws + prior) / 2)]
        costs = np.unique(np.round([cost_of_best(user, values, law / law.sum()) for law in seeds[:400]], 12), axis=0)
        super().__init__(user, values, costs)

    def split(self, label: int, law: Array) -> list[int]:
        cost = cost_of_best(self.user, self.values, law / law.sum())
        if np.min(np.abs(self.costs - cost).max(axis=1)) <= 1e-10 * (1.0 + np.abs(cost).max()):
            return []
        return [self._add(cost)]

    def words(self) -> str:
        return f"{len(self):,} estimates found by search"


def estimates_for(user: User, values: Array, laws: Array) -> EstimateCells:
    """The labels that suit a scientist's loss; ``laws`` are the laws of the target given each file."""
    loss = user.loss
    if user.actions is not None:
        listed = loss.listed(Finite(values, laws[:1]), user.actions)
        costs = np.array([cost_of(user, values, a) for a in listed])
        if not np.isfinite(costs).all():
            raise UnsupportedError(f"{loss!r} over a list of estimates can be infinite", do='Use estimates="free"')
        return EstimateCells(user, values, costs)
    if isinstance(loss, Quadratic):
        return MeanCells(user, values)
    candidates = _candidates(loss, values)
    if candidates is not None:
        return EstimateCells(user, values, np.array([cost_of(user, values, a) for a in candidates]))
    if isinstance(loss, (Power, Huber, Linex)) and values.ndim == 1:
        return IntervalCells(user, values)
    if len(values) <= MOST_CORNERS and len(values) > 1:
        return PosteriorCells(user, values)
    return SearchedEstimates(user, values, laws)


def listed(user: User) -> bool:
    """Whether a user's best estimate is always one of finitely many."""
    return user.actions is not None or isinstance(user.loss, (Absolute, Pinball, ZeroOne))


def _candidates(loss: Any, values: Array) -> Array | None:
    """Estimates among which a best one always is, or None."""
    if isinstance(loss, (Absolute, Pinball)) or (isinstance(loss, ZeroOne) and np.any(np.asarray(loss.tolerance) > 0)):
        # A median is one of the values, and a best window may be moved until a value is at its lower end.
        shift = np.asarray(loss.tolerance if isinstance(loss, ZeroOne) else 0.0)
        if values.ndim == 1:
            return np.unique(values) + shift
        axes = [np.unique(v) for v in values.T]
        if np.prod([float(len(a)) for a in axes]) > MOST_LISTED:
            return None
        return np.array(list(product(*axes))) + shift
    if isinstance(loss, ZeroOne):
        return np.unique(values, axis=0)
    return None
