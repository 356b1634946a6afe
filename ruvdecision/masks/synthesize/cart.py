"""The tree model of sequential synthesis: donors from the leaf in which a synthetic record falls."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ...protocols import Array
from ..columnkinds import Ints, spread
from .sequential import ColumnTask, Model


def cart(min_leaf: int) -> Model:
    """Return the model: a regression tree for numbers and dates, a classification tree (Gini) for categories.

    Reiter (2005), Journal of Official Statistics 21, 441-462. The tree grows until leaves have fewer than twice
    ``min_leaf`` records; a synthetic record takes the value of a random original record in its leaf. With
    ``proper`` tree and donors come from a bootstrap sample of the records. Without predictors all records are one leaf.
    """

    def model(task: ColumnTask, rng: np.random.Generator) -> Any:
        n = len(task.column)
        least = min(min_leaf, n)
        rows = rng.integers(0, n, size=n) if task.proper else np.arange(n)
        if task.original.shape[1] == 0:
            donors = rows[rng.integers(0, n, size=n)]
        else:
            leaf, fallen = _leaves(task, rows, least, rng)
            donors = rows[_members(leaf, fallen, rng.random(n))]
        return task.column.array.take(donors)

    return model


def _leaves(task: ColumnTask, rows: Ints, min_leaf: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Leaf of each fitted record and of each synthetic one."""
    try:
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    except ImportError:
        raise UnsupportedError(
            'Synthesize(method="cart") needs scikit-learn', do="Install scikit-learn, or use regression"
        ) from None

    # The seed only decides between splits of equal gain, but those are common in small leaves.
    seed = int(rng.integers(0, 2**31 - 1))
    x = task.original[rows]
    if task.codes is None:
        y = np.asarray(task.column.astype("int64") if task.kind == "time" else task.column, dtype=np.float64)
        y = (y - y.mean()) / (float(spread(y)) or 1.0)
        tree = DecisionTreeRegressor(min_samples_leaf=min_leaf, random_state=seed).fit(x, y[rows])
    else:
        tree = DecisionTreeClassifier(min_samples_leaf=min_leaf, random_state=seed).fit(x, task.codes[rows])
    return np.asarray(tree.apply(x), dtype=np.int64), np.asarray(tree.apply(task.synthetic), dtype=np.int64)


def _members(leaf: Ints, fallen: Ints, u: Array) -> Ints:
    """A random member of the leaf of each synthetic record."""
    order = np.argsort(leaf, kind="stable")
    inside = leaf[order]
    start, stop = np.searchsorted(inside, fallen, side="left"), np.searchsorted(inside, fallen, side="right")
    return np.asarray(
        order[start + np.minimum((u * (stop - start)).astype(np.int64), stop - start - 1)], dtype=np.int64
    )
