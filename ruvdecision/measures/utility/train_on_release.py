"""Train on the release, test on real records: whether a model that an analyst learns from the release predicts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...checks import Seed, as_generator, check_integer, checked, fixed_seed
from ...errors import InputError, UnsupportedError, describe_failure
from ...numerics.threads import one_thread
from ...protocols import Array
from .. import frames
from ..base import Measured, WeightedMeasure
from ..frames import ColumnCategories
from ..risk.records import OtherFile

MODELS = ("boosting", "forest", "linear")


@dataclass(frozen=True, repr=False)
class TrainOnRelease(WeightedMeasure):
    """Skill on real records of a model that was trained on the release (TSTR, train on synthetic and test on real).

    Skill is 1 - (mean squared error) / (mean squared error of the original's mean) for a number, and the same with
    Brier's score and the original's shares for a category: 1 is perfect, 0 no better than knowing the mean, below 0
    worse. Beside it, ``parts["original"]`` is the skill of the same model trained on the original, ``ratio`` the part
    of it that the release keeps.

    Parameters
    ----------
    target : column name
        What is predicted, a number or a category.
    holdout : DataFrame, array or path, optional
        Real records to test on, from which the release was not made. Without one the original's records are tested, the
        model of the original by cross-validation; the release has seen something of them then, and looks better.
    predictors : list of column names, optional
        What is predicted from; all other columns by default.
    estimator : "boosting", "forest", "linear", or a scikit-learn regressor or classifier
        Histogram gradient boosting, a random forest, or least squares and logistic regression.
    folds : int
        Parts of the cross-validation, which is done without a holdout.
    seed : int, SeedSequence or Generator
        Of the folds and of models that draw.

    Notes
    -----
    ``error`` is the standard error of the skill over the tested records, the models taken as they are. A missing
    predictor is the mean of the column and an indicator, a missing category a level; records without target are left
    out (``parts["without target"]``).

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=(300, 2))
    >>> data = pd.DataFrame({"y": x[:, 0] + 0.1 * x[:, 1], "x": x[:, 0]})
    >>> value = TrainOnRelease("y", holdout=data[200:], estimator="linear")(data[:200], data[:200])
    >>> bool(value > 0.98), value.parts["ratio"]
    (True, 1.0)
    """

    label: ClassVar[str] = "train_on_release"
    direction: ClassVar[str] = "higher"
    range: ClassVar[tuple[float, float]] = (-np.inf, 1.0)
    reference: ClassVar[str] = "Esteban, Hyland and Raetsch (2017), arXiv:1706.02633; Beaulieu-Jones et al. (2019)"
    missing_choices: ClassVar[tuple[str, ...]] = ("category", "omit", "raise")
    own_missing: ClassVar[tuple[str, ...]] = ("category",)
    own_columns: ClassVar[tuple[str, ...]] = ("target",)

    target: Hashable = checked(None, frames.one_name, required=True)
    holdout: Any = checked(None, OtherFile.of)
    predictors: frames.Names = checked(None, frames.as_names)
    estimator: Any = "boosting"
    folds: int = checked(5, check_integer, low=2)
    seed: Seed = checked(0, fixed_seed)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(self.holdout is None, "cross-validation", "holdout=None", "folds")
        if not (self.estimator in MODELS if isinstance(self.estimator, str) else hasattr(self.estimator, "fit")):
            options = ", ".join(map(repr, MODELS))
            raise InputError(
                "estimator must be known, or be a scikit-learn model", self.estimator, f"Choose from {options}"
            )

    def uses(self, original: pd.DataFrame) -> frames.Labels:
        """The predictors, in an order that is not the file's, and then the target."""
        *found, target = super().uses(original) or []
        return [*sorted(found, key=str), target]

    def compare(
        self, state: tuple[pd.DataFrame, Array | None], released: pd.DataFrame, weights: Array | None = None
    ) -> Measured:
        """Train both models and test them on the same records."""
        original, own = state
        tables, often = [original, released], [own, weights]
        if self.holdout is not None:
            used = list(original.columns) if weights is None else [*original.columns, self.weights]
            held = self.holdout.with_missing_handled(self.name, "the holdout", used, self.missing)
            tables.append(held[original.columns])
            often.append(
                None if weights is None else frames.positive_weights(self.name, held[self.weights], "the holdout")
            )
        there = [t.iloc[:, -1].notna().to_numpy(dtype=bool) for t in tables]
        whole = [t[k] for t, k in zip(tables, there, strict=True)]
        w = [np.ones(k.sum()) if v is None else v[k] / v[k].mean() for v, k in zip(often, there, strict=True)]
        omitted = sum(map(len, tables)) - sum(map(len, whole))
        for t, which in zip(whole, ("the original", "the release", "the holdout"), strict=False):
            frames.check_enough_rows(self.name, len(t), 2, which)
        x, (y, classes) = _design_of_tables(self.name, whole), self._encode_targets([t.iloc[:, -1] for t in whole])
        # The order of a file means nothing, and a model that draws must not see it.
        rows = [np.lexsort((*np.atleast_2d(b.T), *a.T)) for a, b in zip(x, y, strict=True)]
        x, y, w = ([part[row] for part, row in zip(both, rows, strict=True)] for both in (x, y, w))
        weighty = weights is not None
        truth, tested = (y[-1], w[-1]) if self.holdout is not None else (y[0], w[0])
        base = tested * _squared_errors(truth, np.average(y[0], axis=0, weights=w[0])[None])
        if not base.sum() > 0:
            what = f"{self.name} needs a target that varies"
            raise InputError(what, f"{original.columns[-1]} is constant", "Choose another column")
        with one_thread():
            train = [(x[i], y[i], w[i] if weighty else None) for i in (0, 1)]
            if self.holdout is not None:
                guesses = [self._predict_elsewhere(*train[i], classes, x[2]) for i in (1, 0)]
            else:
                guesses = [self._predict_elsewhere(*train[1], classes, x[0]), self._cross_validated(*train[0], classes)]
        losses = [tested * _squared_errors(truth, guess) for guess in guesses]
        skill, real = (1.0 - float(loss.sum() / base.sum()) for loss in losses)
        influence = (losses[0] - (1.0 - skill) * base) / base.mean()
        error = float(influence.std(ddof=1) / np.sqrt(len(influence))) if len(influence) > 1 else 0.0
        parts = {"original": real, "ratio": skill / real if real > 0 else 0.0, "without target": float(omitted)}
        if classes is not None:
            hits = [guess.argmax(axis=1) == truth.argmax(axis=1) for guess in guesses]
            right = [float(np.average(hit, weights=tested)) for hit in hits]
            parts |= {"accuracy": right[0], "accuracy original": right[1]}
        return Measured(skill, error, parts)

    def _encode_targets(self, columns: Sequence[pd.Series]) -> tuple[list[Array], ColumnCategories | None]:
        """The targets as numbers, or as indicators of the categories of all files."""
        for other in columns[1:]:
            frames.refuse_mixed(self.name, columns[0], other)
        if frames.is_number(columns[0]) and not pd.api.types.is_bool_dtype(columns[0].dtype):
            return [frames.vector(self.name, c, "the files") for c in columns], None
        return frames.indicators(*columns)

    def _predict_elsewhere(
        self, x: Array, y: Array, weights: Array | None, classes: ColumnCategories | None, at: Array
    ) -> Array:
        """What a model trained on x and y says at other places: a mean, or the probability of each category."""
        if classes is None:
            if np.ptp(y) == 0:
                return np.full(len(at), y[0])
            return np.asarray(self._train_model(False, x, y, weights).predict(at), dtype=np.float64).reshape(-1)
        found = np.zeros((len(at), y.shape[1]))
        code = y.argmax(axis=1)
        if (code == code[0]).all():
            found[:, code[0]] = 1.0
            return found
        made = self._train_model(True, x, code, weights)
        if not hasattr(made, "predict_proba"):
            what = f"{self.name} needs a classifier with probabilities for a category"
            raise UnsupportedError(what, type(made).__name__, 'Use estimator="boosting"')
        found[:, made.classes_] = made.predict_proba(at)
        return found

    def _train_model(self, classify: bool, x: Array, y: Array, weights: Array | None) -> Any:
        """A model, with the records' weights if they have any."""
        made = self._fresh_model(classify)
        if weights is None:
            return made.fit(x, y)
        last = f"{made.steps[-1][0]}__sample_weight" if hasattr(made, "steps") else "sample_weight"
        try:
            return made.fit(x, y, **{last: weights})
        except (TypeError, ValueError) as error:
            what = f"{self.name} cannot give the model the weights of records"
            raise UnsupportedError(
                what, describe_failure(error), 'Use estimator="boosting", or leave weights= out'
            ) from None

    def _cross_validated(self, x: Array, y: Array, weights: Array | None, classes: ColumnCategories | None) -> Array:
        """What models trained on the other folds say at each record."""
        frames.check_enough_rows(self.name, len(x), self.folds, "the original")
        fold = as_generator(self.seed).permutation(np.arange(len(x)) % self.folds)
        found = np.empty_like(y)
        for k in range(self.folds):
            rest = fold != k
            own = None if weights is None else weights[rest]
            found[~rest] = self._predict_elsewhere(x[rest], y[rest], own, classes, x[~rest])
        return found

    def _fresh_model(self, classify: bool) -> Any:
        """A fresh model: scikit-learn's, like those a user brings; `numerics/glm` has no penalty to train by."""
        if not isinstance(self.estimator, str):
            from sklearn.base import clone

            return clone(self.estimator)
        draw = int(as_generator(self.seed).integers(2**31))
        if self.estimator == "linear":
            from sklearn.linear_model import LinearRegression, LogisticRegression
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import StandardScaler

            return make_pipeline(
                StandardScaler(), LogisticRegression(max_iter=1000) if classify else LinearRegression()
            )
        from sklearn import ensemble

        if self.estimator == "forest":
            forest = ensemble.RandomForestClassifier if classify else ensemble.RandomForestRegressor
            return forest(min_samples_leaf=5, random_state=draw)
        boosting = ensemble.HistGradientBoostingClassifier if classify else ensemble.HistGradientBoostingRegressor
        return boosting(early_stopping=False, random_state=draw)


def _squared_errors(truth: Array, guess: Array) -> Array:
    """Squared error of each record, summed over indicators."""
    off = (truth - guess) ** 2
    return off if off.ndim == 1 else off.sum(axis=1)


def _design_of_tables(who: str, tables: Sequence[pd.DataFrame]) -> list[Array]:
    """Predictors of each table as numbers, the same columns in all, centred and scaled by the first."""
    blocks: list[list[Array]] = [[] for _ in tables]
    for label in tables[0].columns[:-1]:
        columns = [t[label] for t in tables]
        for other in columns[1:]:
            frames.refuse_mixed(who, columns[0], other)
        if frames.is_number(columns[0]) or frames.is_time(columns[0]):
            new = _fill_with_mean(who, columns)
        else:
            new, _ = frames.indicators(*columns)
        for block, part in zip(blocks, new, strict=True):
            block.append(part)
    return [np.concatenate(block, axis=1) for block in blocks]


def _fill_with_mean(who: str, columns: Sequence[pd.Series]) -> list[Array]:
    """A column of numbers or times, with the mean where it is missing and an indicator of that."""
    first = columns[0]
    values: list[NDArray[Any]] = [
        frames.seconds_since_first(c, first) if frames.is_time(c) else c.to_numpy(dtype=np.float64, na_value=np.nan)
        for c in columns
    ]
    if any(np.isinf(v).any() or np.nanmax(np.abs(v), initial=0.0) >= frames.LARGE for v in values):
        got = f"infinite or beyond 1e140 in {first.name}"
        raise InputError(f"{who} needs finite predictors", got, "Remove or replace them first")
    known = values[0][np.isfinite(values[0])]
    middle = float(known.mean()) if len(known) else 0.0
    size = float(np.abs(known - middle).max(initial=0.0)) or 1.0
    holes = [np.isnan(v) for v in values]
    found = [((np.where(h, middle, v) - middle) / size)[:, None] for v, h in zip(values, holes, strict=True)]
    if any(h.any() for h in holes):
        found = [np.concatenate([v, h[:, None].astype(float)], axis=1) for v, h in zip(found, holes, strict=True)]
    return found
