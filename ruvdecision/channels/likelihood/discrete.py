"""Entries that are categories: the likelihood is a table with one row per category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...protocols import Array
from .base import Observation
from .maps import not_from
from .mathematics import NUMPY, logsumexp


@dataclass(frozen=True, repr=False, eq=False)
class Categories(Observation):
    """log p(released | x) for x among some categories, ``logs`` of shape (categories, n).

    In numbers a category is itself if all categories are numbers, else its place among them, counted from 0.

    >>> Categories(["a", "b"], np.log([[0.9], [0.2]])).log([[0.0], [1.0], [0.5]]).ravel().round(4)
    array([-0.1054, -1.6094,    -inf])
    """

    labels: Any
    logs: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        if np.any(np.isneginf(self.logs).all(axis=0)):
            raise not_from("a category that cannot come from any other")

    @property
    def n(self) -> int:  # type: ignore[override]
        return int(self.logs.shape[1])

    @property
    def support(self) -> Array:
        return codes_of(self.labels)

    def log(self, x: Any, math: Any = NUMPY) -> Any:
        x = math.asarray(x) + np.zeros(self.n)
        found = math.zeros_like(x) - np.inf
        for value, row in zip(self.support, self.logs, strict=True):
            found = math.where(x == value, row, found)
        return found

    def log_label(self, label: Any) -> Array:
        if label in self.labels:
            return np.asarray(self.logs[self.labels.index(label)])
        return np.full(self.n, -np.inf)

    def take(self, rows: Any) -> Categories:
        return Categories(self.labels, self.logs[:, rows])

    @property
    def uninformative(self) -> Any:
        return np.all(self.logs == self.logs[:1], axis=0)

    @property
    def low(self) -> Array:
        return np.where(np.isneginf(self.logs), np.inf, self.support[:, None]).min(axis=0)

    @property
    def high(self) -> Array:
        return np.where(np.isneginf(self.logs), -np.inf, self.support[:, None]).max(axis=0)

    @property
    def scale(self) -> Array:
        return np.full(self.n, float(np.ptp(self.support)) or 1.0)

    def before_kernel(self, kernel: Any) -> Observation:
        if np.all(self.uninformative):
            from .simple import Uninformative

            return Uninformative(self.n)
        raise UnsupportedError(
            "Noise before a mask for categories has no likelihood: noisy numbers are no categories",
            do="Use Recode(bins=...) between them, or PRAM alone",
        )


def codes_of(labels: Sequence[Any]) -> Array:
    """The numbers that stand for categories: themselves if they are numbers, else 0, 1, ...

    >>> codes_of([False, True]), codes_of(["no", "yes"])
    (array([0., 1.]), array([0., 1.]))
    """
    if all(isinstance(v, (bool, int, float, np.number, np.bool_)) for v in labels):
        return np.array([float(v) for v in labels])
    return np.arange(float(len(labels)))


def before_matrix(later: Observation, inputs: Sequence[Any], outputs: Sequence[Any], matrix: Array) -> Categories:
    """What is known about a category if ``later`` is known about the one drawn from its row of the matrix."""
    with np.errstate(divide="ignore"):
        steps = np.log(np.asarray(matrix, dtype=np.float64))
    reached = np.stack([later.log_label(label) for label in outputs])
    return Categories(inputs, np.stack([logsumexp(row[:, None] + reached, NUMPY) for row in steps]))
