"""Narrow utility: how far confidence intervals and ellipsoids from the release overlap with those from the original."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import linalg, special

from ...checks import (
    as_generator,
    as_tuple,
    check_choice,
    check_integer,
    check_number,
    check_vector,
    checked,
    is_single,
)
from ...errors import InputError, UnsupportedError
from ...numerics import generalised_chi2
from ...protocols import Array
from ..base import Measured, SummedMeasure, WeightedMeasure
from ..fits.formula import variables_of_coefficients
from ..fits.regression import Fit, Linear
from ..frames import Flags
from ..missing import COMPLETE
from ..sums import NamedSums


@dataclass(frozen=True, repr=False)
class _Overlap(SummedMeasure, WeightedMeasure):
    """What both overlaps share: one or several models, each with its weight, and weights of the records."""

    model: Any = None
    model_weights: Any = None
    level: float = checked(0.95, check_number, low=0, high=1, open_low=True, open_high=True)
    allow_code: bool = field(default=False, kw_only=True)

    direction: ClassVar[str] = "higher"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    surveyed: ClassVar[bool] = True
    missing_choices: ClassVar[tuple[str, ...]] = COMPLETE

    def __post_init__(self) -> None:
        if not is_single(self.weights):
            # Numbers are about models; a name is about records.
            object.__setattr__(self, "model_weights", self.weights)
            object.__setattr__(self, "weights", None)
        if not isinstance(self.model, Mapping) and not is_single(self.model):
            object.__setattr__(self, "model", tuple(self.model))
        super().__post_init__()
        models = self._named_models
        if self.model_weights is not None:
            weights = check_vector("model_weights", self.model_weights, len(models))
            if np.any(weights < 0) or weights.sum() == 0:
                raise InputError("model_weights must be positive", weights.tolist(), "Give one weight per model")
            object.__setattr__(self, "model_weights", tuple(float(w) for w in weights))

    @cached_property
    def _named_models(self) -> dict[str, Any]:
        given: Any = () if self.model is None else self.model
        labels = list(given) if isinstance(given, Mapping) else None
        models = [_as_model(m, self.allow_code) for m in (as_tuple(given) if labels is None else given.values())]
        if not models:
            who = type(self).__name__
            raise InputError(f"{who} needs a model", "none", f'Write {who}("y ~ a + b")')
        names = [str(name) for name in labels or models]
        return {n if names.count(n) == 1 else f"{n} ({i + 1})": models[i] for i, n in enumerate(names)}

    def uses(self, original: pd.DataFrame) -> list[Any]:
        return list(dict.fromkeys(c for m in self._named_models.values() for c in m.variables(original)))

    def begin(self, original: pd.DataFrame, *weights: Array) -> dict[str, Any]:
        return {name: model.fit_original(original, *weights) for name, model in self._named_models.items()}

    def survey(self, piece: pd.DataFrame) -> NamedSums:
        return NamedSums({name: _refuse_unsummable(model).survey(piece) for name, model in self._named_models.items()})

    def settle(self, original: NamedSums, released: NamedSums) -> dict[str, Any]:
        return {name: model.settle(original.of[name], released.of[name]) for name, model in self._named_models.items()}

    def sums_of(self, piece: pd.DataFrame, plan: Any, which: str, *weights: Array) -> NamedSums:
        models = self._named_models.items()
        return NamedSums({name: model.sums_of(piece, plan[name], which, *weights) for name, model in models})

    def compare_sums(self, original: NamedSums, released: NamedSums, plan: Any) -> Measured:
        models = self._named_models.items()
        return self._compare_fits({k: m.compare_sums(original.of[k], released.of[k], plan[k]) for k, m in models})

    def compare(self, state: dict[str, Any], released: pd.DataFrame, *weights: Array) -> Measured:
        return self._compare_fits(
            {name: started.fits_with_release(released, *weights) for name, started in state.items()}
        )

    def _compare_fits(self, pairs: dict[str, tuple[Fit, Fit]]) -> Measured:
        """The measure from the fits of original and release, by model."""
        raise NotImplementedError

    def _weights_of_models(self, count: int) -> Array:
        return np.ones(count) if self.model_weights is None else np.array(self.model_weights)

    def _weighted_average(self, *values: list[float]) -> list[float]:
        """Averages over the models of lists with a number of each."""
        weights = self._weights_of_models(len(values[0]))
        return (np.array(values) @ weights / weights.sum()).tolist()


@dataclass(frozen=True, repr=False)
class IntervalOverlap(_Overlap):
    """IO: the overlap of confidence intervals, averaged over coefficients.

    I_k is the mean of two probabilities: of the released interval under the original's law of coefficient k, and of the
    original interval under the release's. It is ``level`` (0.95) for identical fits and 0 where intervals are far
    apart. J_k is the length of the common interval relative to both lengths, 1 for identical fits. Karr et al. (2006),
    eqs. 4 and 5.

    Parameters
    ----------
    model : str, model, list or dict
        A formula for least squares, ``Logistic(...)``, ``Poisson(...)``, ``Means(...)``, ``Quantiles(...)``,
        ``Correlations(...)``, ``Statistic(...)``, or several of them.
    model_weights : list of float, optional
        Weights of several models; equal unless given.
    level : float
        Confidence level of the intervals.
    kind : "probability" or "length"
        Whether the value is the mean I_k or the mean J_k; both are in ``parts``.
    allow_code : bool, default False
        Let formulas be code, and not only columns, operators and named transforms; see `Linear`.
    penalty : float
        Taken off I_k (or J_k) where the intervals do not touch, times their gap in units of the original interval's
        length: intervals that miss by much then count less than those that miss by little (section 2.2, last remark).

    Notes
    -----
    ``parts`` has IO, J, and the numbers of coefficients whose sign switched, whose significance changed, and which only
    one file can give (a category that the other does not have); those count as no overlap. ``table`` has both fits. An
    exact fit has intervals of length zero: such an interval overlaps fully if it lies in the other, and has probability
    zero.

    Examples
    --------
    >>> original = pd.DataFrame({"x": [0, 1, 2, 3], "y": [0, 1, 1, 3]})
    >>> value = IntervalOverlap("y ~ x")(original, original.assign(y=[0, 2, 1, 3]))
    >>> round(value, 6), round(value.parts["J"], 6)
    (0.92941, 0.811805)
    """

    kind: str = checked("probability", check_choice, options=("probability", "length"))
    penalty: float = checked(0.0, check_number, low=0)

    label: ClassVar[str] = "IO"
    reference: ClassVar[str] = "Karr, Kohnen, Oganian, Reiter and Sanil (2006), section 2.2, eqs. 4 and 5"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalty:
            object.__setattr__(self, "range", (-np.inf, 1.0))

    def _compare_fits(self, pairs: dict[str, tuple[Fit, Fit]]) -> Measured:
        probability, length, chosen = [], [], []
        switched = changed = lost = 0
        for first, second in pairs.values():
            a, b, only = _common_coefficients(first, second)
            i, j, gap = interval_overlap(a, b, self.level)
            total = len(a.names) + only
            probability.append(float(i.sum()) / total)
            length.append(float(j.sum()) / total)
            off = float(self.penalty * gap.sum()) / total if self.penalty else 0.0
            chosen.append((probability if self.kind == "probability" else length)[-1] - off)
            switched += int(np.count_nonzero(_sign_switches(a, b)))
            changed += int(
                np.count_nonzero(_significant_coefficients(a, self.level) != _significant_coefficients(b, self.level))
            )
            lost += only
        io, lengths, value = self._weighted_average(probability, length, chosen)
        parts = {
            "IO": io,
            "J": lengths,
            "sign switches": float(switched),
            "significance changes": float(changed),
            "lost": float(lost),
        }
        if len(pairs) > 1:
            parts |= dict(zip(pairs, chosen, strict=True))
        return Measured(value, parts=parts, table=partial(_coefficient_table, pairs, self.level))


@dataclass(frozen=True, repr=False)
class EllipsoidOverlap(_Overlap):
    """EO: the overlap of the joint confidence ellipsoids of all coefficients.

    The mean of two probabilities: of the original's ellipsoid under the release's law of the coefficients, and the
    other way round. It is ``level`` (0.95) for identical fits. Karr et al. (2006), section 2.2, with the t law's scale
    matrix.

    Parameters
    ----------
    model, model_weights, level
        As for `IntervalOverlap`; the model must have a joint covariance.
    method : "exact" or "draws"
        Quadrature, correct to about 1e-12, or Monte Carlo with a standard error.
    draws, seed : int
        Number of draws and where they start, for ``method="draws"``.

    Notes
    -----
    ``parts`` has both halves. A coefficient that only one file can give leaves no common space: the model's overlap is
    0.

    Examples
    --------
    >>> original = pd.DataFrame({"x": [0, 1, 2, 3], "y": [0, 1, 1, 3]})
    >>> round(EllipsoidOverlap("y ~ x")(original, original.assign(y=[0, 2, 1, 3])), 6)
    0.928063
    """

    method: str = checked("exact", check_choice, options=("exact", "draws"))
    draws: int = checked(100_000, check_integer, low=2)
    seed: int = checked(0, check_integer, low=0)

    label: ClassVar[str] = "EO"
    reference: ClassVar[str] = "Karr, Kohnen, Oganian, Reiter and Sanil (2006), section 2.2"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(self.method == "draws", "that method", 'method="draws"', "draws")

    def _compare_fits(self, pairs: dict[str, tuple[Fit, Fit]]) -> Measured:
        values, value_errors = [], []
        parts: dict[str, float] = {}
        for name, (first, second) in pairs.items():
            if first.scale is None or second.scale is None:
                raise UnsupportedError(
                    f"{name} has no joint covariance, so it has no ellipsoid",
                    do="Use IntervalOverlap, or a Statistic, whose covariance is bootstrapped",
                )
            only = set(first.names) ^ set(second.names)
            if only:
                halves, errors = (0.0, 0.0), (0.0, 0.0)
            elif self.method == "exact":
                halves, errors = ellipsoid_overlap(first, second, self.level), (0.0, 0.0)
            else:
                rng = as_generator(self.seed)
                (one, e_one), (two, e_two) = (
                    _drawn_probability_in_region(f, g, self.level, self.draws, rng)
                    for f, g in ((second, first), (first, second))
                )
                halves, errors = (one, two), (e_one, e_two)
            values.append(sum(halves) / 2)
            value_errors.append(float(np.hypot(*errors)) / 2)
            prefix = f"{name}: " if len(pairs) > 1 else ""
            parts |= {f"{prefix}original's ellipsoid": halves[0], f"{prefix}release's ellipsoid": halves[1]}
            if len(pairs) > 1:
                parts[name] = values[-1]
        weights = self._weights_of_models(len(values))
        error = float(np.linalg.norm(weights / weights.sum() * np.array(value_errors)))
        return Measured(self._weighted_average(values)[0], error, parts, partial(_coefficient_table, pairs, self.level))


@dataclass(frozen=True, repr=False)
class CoefficientChanges(_Overlap):
    """The number of coefficients that switch their sign, or gain or lose significance, in the release.

    A change of sign mis-states the direction of an effect. Karr et al. (2006), section 4. Several models are added up,
    with their weights if given. A coefficient that only one file can give counts as a change.

    Parameters
    ----------
    model, model_weights, level
        As for `IntervalOverlap`; a coefficient is significant if its interval does not hold zero.
    kind : "sign" or "significance"
        What is counted. A switch of sign counts only where the original's coefficient is significant, as the paper has
        it, unless ``kind="any sign"``.

    Examples
    --------
    >>> original = pd.DataFrame({"x": [0, 1, 2, 3, 4], "y": [0, 1, 2, 3, 4.1]})
    >>> CoefficientChanges("y ~ x")(original, original.assign(y=-original.y))
    1.0
    """

    kind: str = checked("sign", check_choice, options=("sign", "any sign", "significance"))

    label: ClassVar[str] = "coefficient changes"
    direction: ClassVar[str] = "lower"
    range: ClassVar[tuple[float, float]] = (0.0, np.inf)
    reference: ClassVar[str] = "Karr, Kohnen, Oganian, Reiter and Sanil (2006), section 4"

    def _compare_fits(self, pairs: dict[str, tuple[Fit, Fit]]) -> Measured:
        total = 0.0
        for weight, (first, second) in zip(self._weights_of_models(len(pairs)), pairs.values(), strict=True):
            a, b, only = _common_coefficients(first, second)
            if self.kind == "significance":
                changed = _significant_coefficients(a, self.level) != _significant_coefficients(b, self.level)
            else:
                counted = _significant_coefficients(a, self.level) | (self.kind == "any sign")
                changed = _sign_switches(a, b) & counted
            total += weight * (int(np.sum(changed)) + only)
        return Measured(total, table=partial(_coefficient_table, pairs, self.level))


def interval_overlap(first: Fit, second: Fit, level: float = 0.95) -> tuple[Array, Array, Array]:
    """I_k and J_k of two fits with the same names, and the gap between intervals in lengths of the first."""
    # By how far the estimates are apart: far from zero the ends of short intervals have few digits. One row per fit.
    se, away = np.array([first.se, second.se]), np.abs(second.estimate - first.estimate)
    half = np.array([[_confidence_quantile(first.df, level)], [_confidence_quantile(second.df, level)]]) * se
    flat = None if half.all() else half == 0  # intervals of length zero, most of laws that are points
    unit = se if flat is None else np.where(se == 0, 1.0, se)
    # Both laws are symmetric: the other interval lies on the left, where small tails are exact.
    centre, reach, df = -away / unit, half[::-1] / unit, np.array([[first.df], [second.df]])
    mass = special.stdtr(df, centre + reach) - special.stdtr(df, centre - reach)
    common, length = np.minimum(2 * half.min(axis=0), half.sum(axis=0) - away), 2 * half
    if flat is not None:
        mass, length[flat] = np.where(se == 0, away <= half[::-1], mass), 1.0
    share = common / length if flat is None else np.where(flat, common >= 0, common / length)
    j = np.minimum(np.maximum(0.5 * (share[0] + share[1]), 0.0), 1.0)
    return 0.5 * (mass[0] + mass[1]), j, np.maximum(-common / length[0], 0.0)


def ellipsoid_overlap(first: Fit, second: Fit, level: float = 0.95) -> tuple[float, float]:
    """Probability of the first fit's ellipsoid under the second's law, and of the second's under the first's."""
    return _probability_in_region(second, first, level), _probability_in_region(first, second, level)


def _probability_in_region(law: Fit, region: Fit, level: float) -> float:
    assert law.scale is not None and region.scale is not None
    radius = _ellipsoid_radius(region, level)
    exact = [not np.any(f.scale) for f in (law, region)]
    if exact[1]:
        # An ellipsoid that has shrunk to a point catches a law only if that sits on the very point.
        return float(exact[0] and np.array_equal(law.estimate, region.estimate))
    shape, root = _rescaled_scale_matrix(region, region)
    away = (law.estimate - region.estimate) / region.se
    if exact[0]:
        inner = linalg.solve_triangular(root, away, lower=True)
        return float(inner @ inner <= radius)
    return generalised_chi2.ellipsoid_content(
        away, _rescaled_scale_matrix(law, region)[0], law.df, np.zeros(len(away)), shape, radius
    )


def _drawn_probability_in_region(
    law: Fit, region: Fit, level: float, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    assert law.scale is not None and region.scale is not None
    if not np.any(law.scale) or not np.any(region.scale):
        return _probability_in_region(law, region, level), 0.0
    z = rng.standard_normal((len(law.estimate), draws))
    if np.isfinite(law.df):
        z /= np.sqrt(rng.chisquare(law.df, draws) / law.df)
    away = ((law.estimate - region.estimate) / region.se)[:, None] + _rescaled_scale_matrix(law, region)[1] @ z
    inner = linalg.solve_triangular(_rescaled_scale_matrix(region, region)[1], away, lower=True)
    share = float(np.mean(np.einsum("ij,ij->j", inner, inner) <= _ellipsoid_radius(region, level)))
    # One success or failure more keeps the error above zero when all draws agree.
    smooth = (share * draws + 1) / (draws + 2)
    return share, float(np.sqrt(smooth * (1 - smooth) / draws))


def _rescaled_scale_matrix(fit: Fit, unit: Fit) -> tuple[Array, Array]:
    """The fit's scale matrix in units of another one's standard errors, and its Cholesky factor.

    A singular law is refused.

    A common change of scale alters nothing and spares the quadrature badly scaled matrices.
    """
    assert fit.scale is not None
    known = [name for name, a, b in zip(fit.names, fit.se, unit.se, strict=True) if not (a > 0 and b > 0)]
    if known:
        what = "The joint law of the coefficients is singular: some of them are known exactly"
        raise InputError(what, variables_of_coefficients(known), "Leave constant columns out, or use IntervalOverlap")
    # One side after the other: the product of two tiny errors would vanish.
    shape = fit.scale / unit.se[:, None] / unit.se
    try:
        return shape, np.asarray(np.linalg.cholesky(shape))
    except np.linalg.LinAlgError:
        what = "The joint law of the coefficients is singular to the last digit"
        do = "Centre and rescale the predictors, or use IntervalOverlap"
        raise InputError(what, variables_of_coefficients(fit.names), do) from None


def _ellipsoid_radius(fit: Fit, level: float) -> float:
    p = len(fit.estimate)
    return float(special.chdtri(p, 1 - level)) if np.isinf(fit.df) else float(p * special.fdtri(p, fit.df, level))


@lru_cache(maxsize=256)
def _confidence_quantile(df: float, level: float) -> float:
    # All releases of a map have the same few degrees of freedom, and the quantile costs more than the rest of an
    # interval.
    return float(special.ndtri(0.5 + level / 2) if np.isinf(df) else special.stdtrit(df, 0.5 + level / 2))


def _sign_switches(first: Fit, second: Fit) -> Flags:
    """Which coefficients have another sign; one that is zero but for rounding has none."""
    some = [np.abs(fit.estimate) > 1e-9 * fit.se for fit in (first, second)]
    return (first.estimate * second.estimate < 0) & some[0] & some[1]


def _significant_coefficients(fit: Fit, level: float) -> Flags:
    return np.abs(fit.estimate) > _confidence_quantile(fit.df, level) * fit.se


def _common_coefficients(first: Fit, second: Fit) -> tuple[Fit, Fit, int]:
    if first.names == second.names:
        return first, second, 0
    both = [n for n in first.names if n in second.names]
    return first.take(both), second.take(both), len(set(first.names) ^ set(second.names))


def _coefficient_table(fits: dict[str, tuple[Fit, Fit]], level: float) -> pd.DataFrame:
    """Both fits, coefficient by coefficient."""
    rows = []
    for model, (first, second) in fits.items():
        a, b, _ = _common_coefficients(first, second)
        i, j, _ = interval_overlap(a, b, level)
        overlap = dict(zip(a.names, zip(i, j, strict=True), strict=True))
        for name in dict.fromkeys([*first.names, *second.names]):
            row: dict[str, Any] = {"model": model, "coefficient": name}
            for side, fit in (("original", first), ("released", second)):
                if name in fit.names:
                    k = fit.names.index(name)
                    centre, half = fit.estimate[k], _confidence_quantile(fit.df, level) * fit.se[k]
                    row |= {side: centre, f"{side}_se": fit.se[k]}
                    row |= {f"{side}_low": centre - half, f"{side}_high": centre + half}
            row["I"], row["J"] = overlap.get(name, (0.0, 0.0))
            if name in overlap:
                k = a.names.index(name)
                row["sign_switch"] = bool(row["original"] * row["released"] < 0)
                row["significance_change"] = bool(
                    _significant_coefficients(a, level)[k] != _significant_coefficients(b, level)[k]
                )
            rows.append(row)
    return pd.DataFrame(rows).set_index(["model", "coefficient"])


def _refuse_unsummable(model: Any) -> Any:
    if not hasattr(model, "survey"):
        raise UnsupportedError(
            f"{model} is not made of sums over records, so it cannot read files in pieces",
            do="Leave chunksize= out, or use a formula for least squares, Means or Correlations",
        )
    return model


def _as_model(given: Any, allow_code: bool) -> Any:
    if isinstance(given, str):
        return Linear(given, allow_code=allow_code)
    if hasattr(given, "fit_original") and not isinstance(given, type):
        return given
    raise InputError(
        "A model is a formula, Linear, Logistic, Poisson, Means, Quantiles, Correlations or Statistic",
        given,
        'Write "y ~ a + b"',
    )
