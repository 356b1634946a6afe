"""Nodes and weights for the parameters after each of several releases: the trapezoid rule around the mode.

On the whole line the trapezoid rule errs like exp(-c / step) for functions that are analytic near it, so that halving
the step squares the relative error (Trefethen and Weideman, 2014). Subsets of the same nodes with twice and four times
the step show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...protocols import Array
from .log_posterior import LogPosteriors
from .model import ModelValues

DROP = 36.0
"""Log posteriors this far below their top are nothing: 1e-16."""
STEP = 0.5
"""Step of the nodes, in standard deviations as the curvature at the mode says."""
SHIFT = 0.38
"""Of a step, by which a second grid lies beside the first: no part of it that halving would meet."""
LARGEST = 400_000
WIDENINGS = 12
"""Times that a box may be widened."""
MIDDLE = 1.5
"""Standard deviations from the mode within which the largest log posterior is looked for."""
BLOCK = 48_000
"""Nodes that are worked on at a time, where there are many releases.

Larger arrays cost more to get hold of than to fill.
"""
CUTS = (18.0, 9.0)
"""How far below the largest, in logs, a node's weight may be where it is seen how a value grows with the range."""
Rule: TypeAlias = tuple[slice | NDArray[np.int_], Array]
"""Some of the nodes and their weights, which sum to one after each release."""
WIDE = 13.0
"""Boxes that reach farther than this are stretched, so that heavy tails cost few nodes."""
_DISTANCES = np.array(
    [5, 6, 7, 8, 9, 10, 11, 12, 14, 17, 21, 26, 32, 40, 50, 65, 85, 110, 150, 200, 300, 500, 1000], dtype=np.float64
)
_SCAN = np.array([0, 2, 4, 6, 8, 11, 16, 30, 80], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LaplaceBoxes:
    """Where the posteriors lie: u = mode + root z, and the box of z that holds each."""

    modes: Array
    roots: Array
    """``(L, d, d)``, lower triangular."""
    low: Array
    high: Array
    """Ends of the boxes, ``(L, d)``."""

    @property
    def size(self) -> int:
        """Number of parameters."""
        return int(self.modes.shape[1])

    def parameters_at(self, z: Array) -> Array:
        """Parameters at points ``(S, d)``, the same for every release, or ``(L, S, d)``: ``(L, S, d)``."""
        if not self.size:
            return np.zeros((len(self.modes), *z.shape[-2:]))
        parts = []
        for i in range(self.size):
            # Two products at most: faster than any general one.
            parts.append(sum(self.roots[:, i, j, None] * z[..., j] for j in range(self.size)) + self.modes[:, i, None])
        return np.stack(parts, axis=-1)

    def parameters_on_grid(self, z: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """Parameters over a product grid with places ``z`` along each axis, to be broadcast: ``(L, *shape, d)``."""
        found = np.empty((len(self.modes), *shape, self.size))
        ends = (-1,) + (1,) * self.size
        for i in range(self.size):
            # Many roots are zero: what is left varies along one axis only, and is written out once.
            moves = [self.roots[:, i, j].reshape(ends) * z[j] for j in range(self.size) if self.roots[:, i, j].any()]
            found[..., i] = sum(moves, self.modes[:, i].reshape(ends))
        return found

    def take(self, some: Sequence[int]) -> LaplaceBoxes:
        """Some of the releases."""
        own = list(some)
        return LaplaceBoxes(self.modes[own], self.roots[own], self.low[own], self.high[own])

    def grouped_by_steps(self, dear: bool = False) -> list[tuple[list[int], tuple[float, ...]]]:
        """Releases in groups, with the steps that suit them: posteriors with a long tail need finer ones along it.

        Groups are small enough for their nodes to stay in the processor's cache. Where nodes are ``dear`` they are few
        at first.
        """
        wide = np.maximum(-self.low, self.high) > WIDE
        groups: dict[tuple[bool, ...], list[int]] = {}
        for i, row in enumerate(wide.tolist()):
            groups.setdefault(tuple(row), []).append(i)
        found = []
        for key, members in groups.items():
            steps = tuple(STEP / (2 if dear else 4) if far else STEP for far in key)
            widths = np.minimum((self.high - self.low)[members].max(axis=0), 2 * WIDE)
            places = max(1, int(np.prod(widths / np.array(steps))))
            count = -(-len(members) // max(1, BLOCK // places))
            found += [(part.tolist(), steps) for part in np.array_split(np.array(members), count)]
        return found

    def with_first_parameter(self, first: int) -> LaplaceBoxes:
        """The same with another parameter depending on the first coordinate of z alone."""
        if first == 0:
            return self
        order = [first, *(i for i in range(self.size) if i != first)]
        covariance = self.roots @ np.swapaxes(self.roots, 1, 2)
        roots = np.asarray(np.linalg.cholesky(covariance[:, order][:, :, order]), dtype=np.float64)[
            :, np.argsort(order)
        ]
        return LaplaceBoxes(self.modes, roots, self.low[:, order], self.high[:, order])


@dataclass(frozen=True, eq=False)
class Nodes:
    """A product grid for L releases. Weights sum to one in each row."""

    weights: Array
    """``(L, S)``"""
    subsets: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    """Nodes of twice and of four times the step, booleans ``(S,)``."""
    axes: tuple[Array, ...]
    """Places along each axis before any stretching, ``(L, places)`` each."""
    logs: Array
    """Log posterior times the stretch, at all places: ``(L, places, ...)``."""
    whole: Array
    """Parameters at all places, ``(L, places, ..., d)``."""
    keep: NDArray[np.int_]
    """Which of all places are nodes, positions ``(S,)``."""
    at: ModelValues
    """What the model says at all places, release after release."""

    @cached_property
    def rules(self) -> list[Rule]:
        """Nodes of one, two and four times the step, and those whose weight is not far below the largest."""
        top = self.weights.max(axis=1, keepdims=True)
        parts: list[Rule] = [(some, self.weights[:, some]) for some in map(np.flatnonzero, self.subsets)]
        parts += [(slice(None), np.where(self.weights > top * np.exp(-cut), self.weights, 0.0)) for cut in CUTS]
        for _, weights in parts:
            weights /= weights.sum(axis=1, keepdims=True)
        return [(slice(None), self.weights), *parts]

    def weights_by_rule(self, release: int) -> list[Array]:
        """Weights of all nodes by each rule after one release, ``(S,)``; zero where a node is left out."""
        found = np.zeros((len(self.rules), self.weights.shape[1]))
        for row, (some, weights) in zip(found, self.rules, strict=True):
            row[some] = weights[release]
        return list(found)

    def values_at_nodes(self, values: Array) -> Array:
        """What was said at all places ``(L places, ...)``, at the nodes: ``(L, S, ...)``."""
        return np.asarray(np.take(values.reshape(len(self.weights), -1, *values.shape[1:]), self.keep, axis=1))

    @cached_property
    def theta(self) -> dict[str, Array]:
        """The nodes on their natural scale, release after release: ``(L S, ...)`` each."""
        return {name: self.values_at_nodes(v).reshape(-1, *v.shape[1:]) for name, v in self.at.theta.items()}


def find_boxes(posteriors: LogPosteriors, starts: Array, hessians: Array | None = None) -> LaplaceBoxes:
    """Modes and curvatures of the log posteriors, from one start each, and boxes in which nothing is missed."""
    size = starts.shape[1]
    if not size:
        return LaplaceBoxes(starts, np.zeros((len(starts), 0, 0)), starts, starts)
    for _ in range(4):
        modes, hessians = find_modes(posteriors, starts, hessians)
        boxes = LaplaceBoxes(modes, _roots_of_covariances(hessians), np.zeros(modes.shape), np.zeros(modes.shape))
        some = np.unique(np.linspace(0, len(modes) - 1, min(len(modes), 3)).astype(int)).tolist()
        better = _higher_modes(posteriors.take(some), boxes.take(some))
        if better is None:
            return find_box_ends(posteriors, boxes)
        # The scan found a place that is far higher: search again from there.
        starts, hessians = modes.copy(), None
        starts[:] = better[0]
        starts[some] = better
    raise InputError(
        "The posterior of the parameters has no clear mode",
        "one that rises for ever",
        "Give proper priors, or use engine=ruv.Sampling()",
    )


def place_nodes(
    posteriors: LogPosteriors, boxes: LaplaceBoxes, steps: tuple[float, ...] = (STEP, STEP), shift: float = 0.0
) -> Nodes:
    """Put a grid over each box, widen boxes whose edges still count, and weigh the nodes; a step for each axis.

    Another grid, ``shift`` of a step from this one, tells where the log posterior is not smooth between nodes.
    """
    size, count = boxes.size, len(boxes.modes)
    if not size:
        one, flags, u = np.ones((count, 1)), np.ones(1, dtype=bool), np.zeros((count, 1, 0))
        return Nodes(one, (flags, flags), (), np.zeros(count), u, np.arange(1), posteriors.evaluate(u)[1])
    low, high = boxes.low.copy(), boxes.high.copy()
    for turn in range(WIDENINGS):
        axes, z, slopes = zip(
            *[_stretched_axis(low[:, i], high[:, i], steps[i], shift) for i in range(size)], strict=True
        )
        shape = tuple(a.shape[1] for a in axes)
        if int(np.prod(shape)) > LARGEST:
            raise InputError(
                "The posterior of the parameters is too wide to integrate",
                "very heavy tails",
                "Use engine=ruv.Sampling()",
            )
        u = boxes.parameters_on_grid([_broadcast_over_grid(z[i], i, size) for i in range(size)], shape).reshape(
            count, -1, size
        )
        stretch = sum(_broadcast_over_grid(slope, i, size) for i, slope in enumerate(slopes))
        if posteriors.support_maps and turn < WIDENINGS - 1:
            # Where points are dear, edges and middle alone show whether the box is too small.
            some = _edges_and_middle(z)
            logs = np.full((count, len(some)), -np.inf)
            logs[:, some] = posteriors.evaluate(u[:, some])[0]
            if _widen_boxes(_relative_to_largest(logs.reshape(count, *shape) + stretch), low, high):
                continue
        found, at = posteriors.evaluate(u)
        logs = found.reshape(count, *shape) + stretch
        far = _relative_to_largest(logs)
        if not _widen_boxes(far, low, high):
            break
    weights = np.exp(far, out=far).reshape(count, -1)
    keep = np.flatnonzero(weights.max(axis=0) > 1e-17)
    marks = [reduce(np.logical_and.outer, [np.arange(n) % m == 0 for n in shape]).ravel()[keep] for m in (2, 4)]
    weights = weights[:, keep]
    weights /= weights.sum(axis=1, keepdims=True)
    return Nodes(weights, (marks[0], marks[1]), axes, logs, u.reshape(count, *shape, size), keep, at)


def _edges_and_middle(z: Sequence[Array]) -> NDArray[np.bool_]:
    """Which places of a product grid lie on its edge or near the mode, ``(places,)``."""
    ends = [np.isin(np.arange(a.shape[1]), (0, a.shape[1] - 1)) for a in z]
    near = [(np.abs(a) < MIDDLE).any(axis=0) for a in z]
    edge, middle = (np.stack(np.meshgrid(*marks, indexing="ij")) for marks in (ends, near))
    return np.asarray((edge.any(axis=0) | middle.all(axis=0)).ravel())


def _relative_to_largest(logs: Array) -> Array:
    """Log densities over product grids ``(L, places, ...)``, less the largest of each."""
    with np.errstate(invalid="ignore"):
        return np.asarray(logs - logs.max(axis=tuple(range(1, logs.ndim)), keepdims=True))


def _widen_boxes(far: Array, low: Array, high: Array) -> bool:
    """Move the ends ``(L, d)`` of boxes at whose edges there still is something, in place; whether any was moved."""
    grown = False
    for i in range(far.ndim - 1):
        edges = np.max(far, axis=tuple(j for j in range(1, far.ndim) if j != i + 1))
        for end, place in ((0, low), (-1, high)):
            more = edges[:, end] > -DROP + 6
            place[:, i] = np.where(more, 1.4 * place[:, i], place[:, i])
            grown = grown or bool(more.any())
    return grown


def find_modes(posteriors: LogPosteriors, starts: Array, hessians: Array | None = None) -> tuple[Array, Array]:
    """Modes of L log posteriors and the matrices of second derivatives there, by Newton steps that are never too bold.

    ``hessians``, if such matrices are known from near by, say how far apart to look first.
    """
    u = starts.astype(np.float64).copy()
    count, size = u.shape
    scale = np.ones((count, size))
    if hessians is not None:
        curve = -np.diagonal(hessians, axis1=1, axis2=2)
        scale = np.where(curve > 0, 0.4 / np.sqrt(np.maximum(curve, 1e-12)), 1.0)
    hessians = np.zeros((count, size, size))
    steps = np.array([0.0, 1.0, 0.3, 0.05, 3.0, 10.0, 1e-3])
    offsets = np.array([[0.0], [1.0], [-1.0]])
    if size == 2:
        offsets = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, -1]], dtype=np.float64)
    for _ in range(120):
        around = posteriors.evaluate(u[:, None] + offsets * scale[:, None])[0]
        least = np.min(np.where(np.isfinite(around), around, np.inf), axis=1, keepdims=True, initial=1e300)
        slope, hessian = _slope_and_hessian(np.where(np.isfinite(around), around, least - 10), size)
        values, vectors = np.linalg.eigh(hessian)
        # In units of the stencil; where the curvature has the wrong sign, go uphill as if it had the other.
        cure = 1.0 / np.maximum(np.abs(values), 1e-3)
        move = np.einsum("lij,lj,lkj,lk->li", vectors, cure, vectors, slope)
        length = np.linalg.norm(move, axis=1, keepdims=True)
        move = move * np.minimum(1.0, 20.0 / np.maximum(length, 1e-300))
        tried = posteriors.evaluate(u[:, None] + steps[:, None] * (move * scale)[:, None])[0]
        best = np.argmax(np.where(np.isfinite(tried), tried, -np.inf), axis=1)
        with np.errstate(invalid="ignore"):
            gain = tried[np.arange(count), best] - tried[:, 0]
        u = u + steps[best][:, None] * move * scale
        hessians = hessian / (scale[:, :, None] * scale[:, None, :])
        curve = -np.diagonal(hessian, axis1=1, axis2=2)
        wanted = np.where(curve > 0, 0.4 / np.sqrt(np.maximum(curve, 1e-12)), 4.0)
        fitting = np.all((wanted > 0.25) & (wanted < 4.0)) and np.all(values[:, -1] < 0)
        scale = scale * np.clip(wanted, 0.02, 50.0)
        # The box and the weights do not ask for the mode to many digits.
        if fitting and np.all((gain < 1e-3) | ~np.isfinite(gain)):
            break
    return u, hessians


def _slope_and_hessian(logs: Array, size: int) -> tuple[Array, Array]:
    slope = 0.5 * (logs[:, 1 : 2 * size : 2] - logs[:, 2 : 2 * size + 1 : 2])
    hessian = np.zeros((len(logs), size, size))
    for i in range(size):
        hessian[:, i, i] = logs[:, 1 + 2 * i] + logs[:, 2 + 2 * i] - 2 * logs[:, 0]
    if size == 2:
        cross = 0.5 * (logs[:, 5] + logs[:, 6] - 2 * logs[:, 0] - hessian[:, 0, 0] - hessian[:, 1, 1])
        hessian[:, 0, 1] = hessian[:, 1, 0] = cross
    return slope, hessian


def _roots_of_covariances(hessians: Array) -> Array:
    values, vectors = np.linalg.eigh(hessians)
    # Flat or upward directions get the size of the others: the scan finds how far they really go.
    least = 1e-6 * np.max(np.abs(values), axis=1, keepdims=True) + 1e-300
    covariance = np.einsum("lij,lj,lkj->lik", vectors, 1.0 / np.maximum(np.abs(values), least), vectors)
    return np.linalg.cholesky(covariance)


def _higher_modes(posteriors: LogPosteriors, boxes: LaplaceBoxes) -> Array | None:
    """Places that are far higher than the modes, if a coarse scan meets any."""
    size = boxes.size
    line = np.concatenate([-_SCAN[:0:-1], _SCAN])
    u = boxes.parameters_at(np.stack(np.meshgrid(*[line] * size, indexing="ij"), axis=-1).reshape(-1, size))
    logs = posteriors.evaluate(u)[0]
    middle = logs[:, logs.shape[1] // 2]
    if not np.any(logs.max(axis=1) > middle + 3.0):
        return None
    return np.asarray(u[np.arange(len(u)), np.argmax(logs, axis=1)])


def find_box_ends(posteriors: LogPosteriors, boxes: LaplaceBoxes) -> LaplaceBoxes:
    """How far each posterior goes along each axis, and parallel to it."""
    size = boxes.size
    line = np.concatenate([-_DISTANCES[::-1], _DISTANCES])
    other = np.array([-3.0, 0.0, 3.0]) if size > 1 else np.zeros(1)
    blocks = []
    for i in range(size):
        block = np.zeros((len(line), len(other), size))
        block[..., i] = line[:, None]
        if size > 1:
            block[..., 1 - i] = other
        blocks.append(block.reshape(-1, size))
    z = np.concatenate([np.zeros((1, size)), *blocks])
    logs = posteriors.evaluate(boxes.parameters_at(z))[0]
    near = np.reshape(logs[:, 1:] > logs[:, :1] - DROP, (len(logs), size, len(line), len(other)))
    there = np.logical_or.reduce(near, axis=3)
    half = len(_DISTANCES)
    # The first place outward beyond which nothing is left, at least that of a normal law.
    out = np.append(_DISTANCES, 1.4 * _DISTANCES[-1])
    right = half - np.argmax(there[:, :, : half - 1 : -1], axis=2)
    left = half - np.argmax(there[:, :, :half], axis=2)
    right = np.where(there[:, :, half:].any(axis=2), right, 0)
    left = np.where(there[:, :, :half].any(axis=2), left, 0)
    return LaplaceBoxes(boxes.modes, boxes.roots, -np.maximum(out[left], 8.6), np.maximum(out[right], 8.6))


def _stretched_axis(low: Array, high: Array, step: float, shift: float) -> tuple[Array, Array, Array]:
    """Even places from low to high for each release, where they lie after stretching, and the log of the stretch."""
    reach = np.maximum(-low, high)
    # z = sinh(c s) / c reaches a far end with about as many steps as a normal law needs.
    values, wide, stretch = np.linspace(0.02, 3.0, 300), reach > WIDE, np.zeros((len(reach), 1))
    stretch[wide, 0] = values[np.argmin(np.abs(np.arcsinh(values * reach[wide, None]) / values - 9.5), axis=1)]
    safe = np.where(stretch > 0, stretch, 1.0)
    first = np.where(stretch > 0, np.arcsinh(safe * low[:, None]) / safe, low[:, None])
    last = np.where(stretch > 0, np.arcsinh(safe * high[:, None]) / safe, high[:, None])
    count = 4 * int(np.ceil(float(np.max(last - first)) / step / 4)) + 1
    s = first + (last - first) * (np.linspace(0, 1, count) + shift / (count - 1))
    return s, np.where(stretch > 0, np.sinh(safe * s) / safe, s), np.where(stretch > 0, np.log(np.cosh(safe * s)), 0.0)


def _broadcast_over_grid(array: Array, axis: int, size: int) -> Array:
    """Places along one axis ``(L, places)``, to be broadcast over the product grid."""
    return array.reshape((len(array),) + tuple(-1 if j == axis else 1 for j in range(size)))
