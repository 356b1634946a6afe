"""Conditional data shuffling: confidential values move to other records by way of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ..checks import check_columns, checked
from ..errors import InputError
from ..numerics.semidefinite import symmetric_root
from ..protocols import Array
from .base import Mask
from .columnkinds import apart, as_columns, category_codes, kind_of, put, rank_columns, refuse_missing
from .frame import Frame
from .synthesize.copula import normal_scores

MOST_CATEGORIES = 200


@dataclass(frozen=True, repr=False)
class DataShuffle(Mask):
    """Shuffle confidential columns so that, given the other columns, the release is independent of the original.

    Muralidhar and Sarathy (2006), Management Science 52, 658-670. Values become normal scores. The confidential
    scores are regressed on those of ``given``; new scores are drawn from the fitted conditional law, without a
    look at the confidential record; each column's own values are then laid out in the order of the new scores.
    Margins are kept value for value. Rank correlations, within ``columns`` and with ``given``, are kept up to sampling
    error as far as the scores are jointly normal. An intruder who knows ``given`` learns nothing more about a
    record than the model tells.

    Parameters
    ----------
    columns : names or positions
        Confidential columns to shuffle: numbers, booleans, dates or ordered categories.
    given : names or positions, optional
        Columns that everybody may see, of any kind; they stay as they are. Text and unordered categories count as one
        indicator per category. None: the columns are shuffled jointly, given nothing.

    Missing and infinite values in any of these columns are refused. All other columns stay and play no part.

    Examples
    --------
    >>> df = pd.DataFrame({"age": [30, 41, 52, 38], "income": [2, 3, 5, 4]})
    >>> sorted(DataShuffle(columns=["income"], given=["age"]).release(df, 1)["income"].tolist())
    [2, 3, 4, 5]
    """

    columns: Any = checked(None, as_columns)
    given: Any = checked(None, as_columns, empty=True)

    opaque: ClassVar[str] = "values are exchanged between records by ranks of the whole file"

    def __post_init__(self) -> None:
        if self.columns is None:
            do = "Write DataShuffle(columns=[...], given=[...])"
            raise InputError("DataShuffle needs the confidential columns", None, do)
        super().__post_init__()

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        chosen = check_columns("columns", self.columns, frame.columns)
        given = check_columns("given", self.given, frame.columns) if self.given else []
        apart("columns", chosen, "given", given, frame.columns)
        refuse_missing("DataShuffle", frame.table.iloc[:, [*chosen, *given]])
        n = frame.n
        ranked = rank_columns("DataShuffle", frame.table.iloc[:, chosen])
        x = np.stack([normal_scores(c) for c in ranked], axis=1)
        u = _directions(frame.table.iloc[:, given])
        fitted = u @ (u.T @ x)
        df = n - u.shape[1]
        if df < 1:
            raise InputError(
                f"DataShuffle needs more than {u.shape[1]} records for what is given",
                n,
                "Give fewer columns or categories",
            )
        residual = x - fitted
        y = fitted + rng.standard_normal(x.shape) @ symmetric_root(residual.T @ residual / df)
        new = {}
        for j, i in enumerate(chosen):
            source = np.empty(n, dtype=np.int64)
            source[np.argsort(y[:, j], kind="stable")] = ranked[j].order
            new[i] = frame.table.iloc[:, i].array.take(source)
        return put(frame, new)


def _directions(part: pd.DataFrame) -> Array:
    """Orthonormal basis of what the regression may use: the intercept, scores, and indicators of categories."""
    blocks = [np.ones((len(part), 1))]
    for name in part.columns:
        column = part[name]
        if kind_of(column) == "category" and not getattr(column.dtype, "ordered", False):
            codes, levels = category_codes(column)
            if len(levels) > MOST_CATEGORIES:
                raise InputError(
                    f"DataShuffle takes at most {MOST_CATEGORIES} categories in a column",
                    f"{len(levels)} in {name!r}",
                    "Recode it into fewer, or leave it out of given=[...]",
                )
            blocks.append((codes[:, None] == np.arange(1, len(levels))).astype(np.float64))
        else:
            blocks.append(normal_scores(rank_columns("DataShuffle", part[[name]])[0])[:, None])
    u, s, _ = np.linalg.svd(np.hstack(blocks), full_matrices=False)
    return np.asarray(u[:, s > 1e-10 * s[0]])
