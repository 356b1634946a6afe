"""The reader of steps that gives p(released | x): from the last step of a chain back to the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...errors import InputError, UnsupportedError
from ...protocols import Array
from ..steps import (
    TOLERANCE,
    AddNoise,
    AverageRows,
    ClipTo,
    Cut,
    Drop,
    FileFacts,
    MaskLike,
    Matrix,
    MeanOfTail,
    Multiply,
    NoiseSize,
    OwnLaw,
    PermuteRows,
    RoundTo,
    SampleRows,
    Step,
    resolve,
)
from .base import Change, ColumnLikelihood, Ints, impossible_release_error
from .entries import Between, Known, Uninformative, join_rows, nothing_observed, observe_by_case
from .kernels import AdditiveNoise, HeteroscedasticNoise, RandomFactor, refuse_no_noise
from .laws import factor_law, noise_law
from .mathematics import NUMPY, Mathematics, Values
from .own_law import OwnLawChange
from .release import Averages, ReleaseLikelihood, as_one_matrix
from .transformations import Bins, CategoryLikelihood, Clipping, EqualWidthBins, RandomRounding, Rounding

MEASURE = "or measure its releases with ruv.measure"
KNOWN = (
    "Use Noise, MultiplicativeNoise, Round, Recode, Topcode, Bottomcode, Suppress, Subsample, Shuffle, PRAM, "
    "Microaggregate by rows, "
    f"or a chain of them; write log_likelihood(released, x, math) for a mask of your own; {MEASURE}"
)


def read(mask: MaskLike, observed: ReleaseLikelihood) -> ReleaseLikelihood:
    """What is known about the records, if this is known about what a mask gave out."""
    total = observed.n if observed.total is None else observed.total
    levels = tuple(() if flag else None for flag in observed.categorical)
    about = FileFacts(total, observed.names, levels=levels if any(observed.categorical) else ())
    found = resolve(mask, about)
    if not any(f.step.samples for f in found) and observed.n != total:
        found = resolve(mask, replace(about, n=observed.n))  # some rows were left out of the file by other means
    for step, part, _ in found:
        if step.why:
            raise UnsupportedError(f"{part} has no likelihood: {step.why}", do=step.do or KNOWN)
        if type(step) not in LIKELIHOOD or (isinstance(step, OwnLaw) and step.mask.log_likelihood is None):
            what = f"{part} has no likelihood: it does not say how likely a released value is"
            raise UnsupportedError(what, do=KNOWN)
    for step, part, _ in reversed(found):
        observed = LIKELIHOOD[type(step)](observed, step, part)
    return observed


# -- rows ----------------------------------------------------------------------------------------------------


def _read_drop(observed: ReleaseLikelihood, step: Drop, mask: MaskLike) -> ReleaseLikelihood:
    """Nothing is known about suppressed entries; an average later in the chain leaves them out."""
    rows = np.arange(observed.n) if step.rows is None else np.flatnonzero(_row_labels(observed, step) == 1)
    if step.rows is not None and len(rows) < observed.n and step.columns:
        observed.refuse_uneven(mask)
    rest, positions = np.setdiff1d(np.arange(observed.n), rows), list(step.columns)
    columns = list(observed.columns)
    for j in positions:
        columns[j] = join_rows(observed.n, [(rows, Uninformative(len(rows))), (rest, columns[j].take(rest))])
    joint = observed.joint
    if joint is not None:
        centre = joint.centre.copy()
        centre[np.ix_(rows, np.array(positions, dtype=np.int64))] = np.nan
        joint = replace(joint, centre=centre)
    averages = None if observed.averages is None else observed.averages.drop(rows, positions)
    return replace(observed, columns=tuple(columns), joint=joint, averages=averages)


def _read_sample(observed: ReleaseLikelihood, step: SampleRows, mask: MaskLike) -> ReleaseLikelihood:
    """The sample's rows at their places; nothing is known about the others."""
    if observed.index is None:
        raise UnsupportedError(
            "A sample of a sample does not say which rows the first one held",
            do="Use one Subsample of the final size, at either place",
        )
    return observed.in_whole_file()


def _read_average(observed: ReleaseLikelihood, step: AverageRows, mask: MaskLike) -> ReleaseLikelihood:
    """The averages of groups that were fixed beforehand; noisy copies of one average are put together."""
    if step.rows is None:
        return observed
    n, label = observed.n, _row_labels(observed, step)
    groups = int(label.max()) + 1
    if groups > 1:
        observed.refuse_uneven(mask)
    observed.refuse_joint(mask, step.columns)
    if observed.averages is not None:
        raise UnsupportedError(f"{mask} before another average has no likelihood here", do="Use one Microaggregate")
    columns, shape = list(observed.columns), (groups, observed.k)
    values, error, constant = np.full(shape, np.nan), np.zeros(shape), np.zeros(shape)
    members = np.zeros((n, observed.k), dtype=bool)
    for position in step.columns:
        normal = columns[position].normal
        if normal is None:
            raise UnsupportedError(
                f"{mask} with a mask after it that is not plain normal noise has no likelihood here",
                do=f"Use Noise(variance=...) after it or nothing, {MEASURE}",
            )
        values[:, position], error[:, position], constant[:, position] = _combined_averages(*normal, label, groups)
        columns[position], members[:, position] = Uninformative(n), True
    return replace(observed, columns=tuple(columns), averages=Averages.of(label, values, members, error, constant))


def _combined_averages(centre: Array, variance: Array, label: Ints, groups: int) -> tuple[Array, Array, Array]:
    """Several observations of each group's average as one: value, variance, and the rest of their log density."""
    sure, informative = variance == 0, np.isfinite(variance)
    exact = np.bincount(label, weights=sure, minlength=groups) > 0
    # Where an observation is exact the others add nothing; those of infinite variance have no weight.
    use = informative & (sure | ~exact[label])
    with np.errstate(divide="ignore"):
        precision = np.where(use, np.where(sure, 1.0, 1.0 / np.where(variance > 0, variance, 1.0)), 0.0)
    total = np.bincount(label, weights=precision, minlength=groups)
    safe = np.where(total > 0, total, 1.0)
    value = np.where(
        total > 0, np.bincount(label, weights=precision * np.where(use, centre, 0.0), minlength=groups) / safe, np.nan
    )
    away = np.where(use, centre - value[label], 0.0)
    if np.any(sure & (np.abs(away) > TOLERANCE * np.maximum(np.abs(centre), np.finfo(float).tiny))):
        raise impossible_release_error("different values in one group")
    log_terms = np.where(
        use & ~sure,
        -0.5 * away**2 * precision + 0.5 * np.log(np.where(precision > 0, precision, 1.0) / (2 * np.pi)),
        0.0,
    )
    rest = np.bincount(label, weights=log_terms, minlength=groups) - np.where(
        exact | (total == 0), 0.0, 0.5 * np.log(safe / (2 * np.pi))
    )
    return value, np.where(exact, 0.0, np.where(total > 0, 1.0 / safe, 0.0)), np.asarray(rest, dtype=np.float64)


def _read_mean_of_tail(observed: ReleaseLikelihood, step: MeanOfTail, mask: MaskLike) -> ReleaseLikelihood:
    """A tail of one is known; one of several has a known average, and each of them lies beyond the threshold."""
    if observed.averages is not None:
        raise UnsupportedError(f"{mask} before another average has no likelihood here", do='Use replace="threshold"')
    observed.refuse_joint(mask, step.columns)
    n, columns = observed.n, list(observed.columns)
    members, values = np.zeros((n, observed.k), dtype=bool), np.full((1, observed.k), np.nan)
    for threshold, position in zip(step.at, step.columns, strict=True):
        column = columns[position]
        known, uninformative = column.known_values, column.uninformative
        if np.any(np.isnan(known) & ~uninformative):
            raise UnsupportedError(f"{mask} with a mask after it has no likelihood here", do='Use replace="threshold"')
        tail = known > threshold if step.above else known < threshold
        if tail.sum() > 1 and not np.allclose(known[tail], known[tail][0], rtol=TOLERANCE, atol=0):
            raise impossible_release_error("different values beyond its threshold")
        if uninformative.any() and tail.any():
            raise UnsupportedError(
                f"{mask} with suppressed entries does not say how many are in the tail",
                do='Use replace="threshold", or suppress first in the chain',
            )
        if tail.sum() <= 1:
            continue
        members[:, position], values[0, position] = tail, known[tail][0]
        rows, rest = np.flatnonzero(tail), np.flatnonzero(~tail)
        low, high = (threshold, np.inf) if step.above else (-np.inf, threshold)
        columns[position] = join_rows(
            n,
            [
                (rows, Between(np.full(len(rows), low), np.full(len(rows), high), False, False)),
                (rest, Known(known[rest]) if not uninformative[rest].any() else Uninformative(len(rest))),
            ],
        )
    if not members.any():
        return observed
    return replace(observed, columns=tuple(columns), averages=Averages.of(np.zeros(n, dtype=np.int64), values, members))


def _row_labels(observed: ReleaseLikelihood, step: Step) -> Ints:
    """The label of every row that was observed."""
    assert step.rows is not None
    if step.rows.n != observed.n:
        raise InputError(
            f"The release must have {step.rows.n} rows at this mask", observed.n, "Give what mask.release gave back"
        )
    return step.rows.row_labels()


# -- entries -------------------------------------------------------------------------------------------------


CHANGES: dict[type[Step], Callable[[Any, int], Change]] = {
    ClipTo: lambda step, place: Clipping(float(step.lower[place]), float(step.upper[place])),
    RoundTo: lambda step, place: (RandomRounding if step.random else Rounding)(float(step.base[place])),
    Cut: lambda step, place: (
        EqualWidthBins(step.width, str(step.label))
        if step.edges is None
        else Bins(np.asarray(step.edges), step.interval_names(np.asarray(step.edges)))
    ),
}
"""What each step of one entry by itself does to the column at a place of the step's columns."""


def _read_entries(observed: ReleaseLikelihood, step: ClipTo | RoundTo | Cut, mask: MaskLike) -> ReleaseLikelihood:
    """What is known before bounds, multiples or intervals: the value, where it lies, or how likely each is."""
    change = CHANGES[type(step)]
    return observed.change_columns(mask, step.columns, lambda j, column: column.pulled_back(change(step, j)))


def _read_matrix(observed: ReleaseLikelihood, step: Matrix, mask: MaskLike) -> ReleaseLikelihood:
    """The chance of each category to be released as what was released."""

    def pulled_back(j: int, column: ColumnLikelihood) -> ColumnLikelihood:
        return CategoryLikelihood.before_matrix(column, step.inputs, step.released, step.matrix)

    return observed.change_columns(mask, step.columns, pulled_back)


def _read_own_law(observed: ReleaseLikelihood, step: OwnLaw, mask: MaskLike) -> ReleaseLikelihood:
    return observed.change_columns(
        mask, step.columns, lambda j, column: column.pulled_back(OwnLawChange(step.mask, observed.names[j]))
    )


def _read_factor(observed: ReleaseLikelihood, step: Multiply, mask: MaskLike) -> ReleaseLikelihood:
    """The density of a value times a factor; a released zero was a zero."""
    if step.common and len(step.columns) > 1:
        raise UnsupportedError(
            f"{mask} multiplies several columns of a record by one factor, so that they are not independent",
            do='Use per="entry", or name one column with columns=',
        )
    if step.factor.name != "split" and step.factor.sd == 0:
        if step.factor.away:
            raise UnsupportedError(f"{mask} has no density: its factor takes two values", do="Give sd above 0")
        return observed

    def change(j: int, column: ColumnLikelihood) -> ColumnLikelihood:
        zero = column.known_values == 0
        factor = RandomFactor(factor_law(step.factor, column.n))
        return observe_by_case(
            column.n,
            [
                (zero, lambda rows: Known(np.zeros(len(rows)))),
                (~zero, lambda rows: column.take(rows).pulled_back(factor.take(rows))),
            ],
        )

    return observed.change_columns(mask, step.columns, change)


# -- noise ---------------------------------------------------------------------------------------------------


def _read_noise(observed: ReleaseLikelihood, step: AddNoise, mask: MaskLike) -> ReleaseLikelihood:
    """What is known before the noise; columns whose noise is correlated go together."""
    n, k = observed.n, len(step.columns)
    if step.common and n > 1:
        raise UnsupportedError(
            f"{mask} has no likelihood entry by entry: one draw of noise is common to all records",
            do=f"Use Noise(variance=...) without common, or a NormalBelief with engine=Exact(), {MEASURE}",
        )
    if step.rows is not None:
        _row_labels(observed, step)
        observed.refuse_uneven(mask)
    own = step.standard_deviations(n)
    if own is None:
        return _read_correlated_noise(observed, step, mask, step.of_rows(n))
    sd = np.broadcast_to(own, (n, k))
    if step.size is not None:
        return _read_heteroscedastic_noise(observed, step, mask, sd)
    plain = step.kind.is_normal
    averaged = [
        j for j, p in enumerate(step.columns) if observed.averages is not None and observed.averages.members[:, p].any()
    ]
    joint = [j for j, p in enumerate(step.columns) if observed.joint is not None and p in observed.joint.columns]
    if averaged:
        observed = _add_noise_to_averages(observed, step, mask, averaged, sd)
    if joint:
        if not plain or not np.isfinite(sd[:, joint]).all():
            observed.refuse_joint(mask, step.columns)
        observed = _add_joint_noise(observed, _diagonal_covariances(sd, step.columns, joint, observed.k))
    single = [j for j in range(k) if j not in averaged and j not in joint]

    def change(j: int, column: ColumnLikelihood) -> ColumnLikelihood:
        size = sd[:, single[j]]
        if size.min() > 0 and size.max() < np.inf:
            return column.pulled_back(
                AdditiveNoise(noise_law(step.kind, size))
            )  # the common case: every entry has noise
        return _pull_back_where_noisy(column, size, lambda rows: AdditiveNoise(noise_law(step.kind, size[rows])))

    return observed.change_columns(mask, [step.columns[j] for j in single], change)


def _pull_back_where_noisy(column: ColumnLikelihood, size: Array, change: Callable[[Ints], Change]) -> ColumnLikelihood:
    """What is known before noise that some entries have not, and that wipes others out."""
    return observe_by_case(
        column.n,
        [
            (np.isinf(size), nothing_observed),
            (size == 0, column.take),
            ((size > 0) & np.isfinite(size), lambda rows: column.take(rows).pulled_back(change(rows))),
        ],
    )


def _add_noise_to_averages(
    observed: ReleaseLikelihood, step: AddNoise, mask: MaskLike, averaged: list[int], sd: Array
) -> ReleaseLikelihood:
    """Noise before an average: the average carries its own average."""
    assert observed.averages is not None
    informative = any(not np.all(observed.columns[step.columns[j]].uninformative) for j in averaged)
    if not step.kind.is_normal or informative or not np.isfinite(sd[:, averaged]).all():
        raise UnsupportedError(
            f"{mask} before an average has no likelihood here",
            do=f"Use plain normal noise without bounds before Microaggregate, {MEASURE}",
        )
    noise = _diagonal_covariances(sd, step.columns, averaged, observed.k)
    return replace(observed, averages=observed.averages.add_noise(noise))


def _diagonal_covariances(sd: Array, positions: Sequence[int], chosen: list[int], k: int) -> Array:
    """Covariances of shape (n or 1, k, k) from the sds of some columns."""
    out = np.zeros((len(sd), k, k))
    for j in chosen:
        out[:, positions[j], positions[j]] = sd[:, j] ** 2
    return as_one_matrix(out)


def _add_joint_noise(observed: ReleaseLikelihood, covariance: Array) -> ReleaseLikelihood:
    joint = observed.joint
    assert joint is not None
    return replace(observed, joint=replace(joint, covariance=as_one_matrix(joint.covariance + covariance)))


def _read_correlated_noise(
    observed: ReleaseLikelihood, step: AddNoise, mask: MaskLike, matrices: Array
) -> ReleaseLikelihood:
    """Noise that is correlated across columns; ``matrices`` has shape (n or 1, k, k)."""
    if step.not_linear is not None:
        raise UnsupportedError(
            f"{mask} is correlated across columns, and {step.not_linear}: it has no likelihood here",
            do="Use a diagonal covariance (or variance=), or normal noise",
        )
    at = np.array(step.columns)
    whole = np.zeros((len(matrices), observed.k, observed.k))
    whole[:, at[:, None], at] = matrices
    whole, averages = as_one_matrix(whole), observed.averages
    if averages is not None and averages.members[:, at].any():
        informative = any(not np.all(observed.columns[p].uninformative) for p in step.columns)
        if informative or not averages.members[:, at].any(axis=0).all():
            raise UnsupportedError(
                f"{mask} is correlated across columns of which only some were averaged",
                do="Average all of them, or use variance=",
            )
        return replace(observed, averages=averages.add_noise(whole))
    return _add_joint_noise(observed.with_joint_normal(mask, step.columns), whole)


def _read_heteroscedastic_noise(
    observed: ReleaseLikelihood, step: AddNoise, mask: MaskLike, base: Array
) -> ReleaseLikelihood:
    """Noise whose size depends on the value, times ``base``."""
    assert step.size is not None
    size = partial(_size_at, step.size)

    def change(j: int, column: ColumnLikelihood) -> ColumnLikelihood:
        def sized(rows: Ints) -> HeteroscedasticNoise:
            at = column.known_values[rows]
            at = at[~np.isnan(at)]
            if len(at) and np.any(np.asarray(size(at, NUMPY)) == 0):
                raise refuse_no_noise(f"The size of {mask}")
            return HeteroscedasticNoise(noise_law(step.kind, np.ones(len(rows))), base[rows, j], size)

        return _pull_back_where_noisy(column, base[:, j], sized)

    return observed.change_columns(mask, step.columns, change)


def _size_at(size: NoiseSize, x: Values, math: Mathematics) -> Values:
    """The standard deviation at x, for numbers of any shape, or for tensors if the user's function can take them."""
    if math is NUMPY:
        found = size.at(x)
    else:
        try:
            found = math.call(size.function, x)
        except Exception as error:
            raise UnsupportedError(
                f"The function given as {size.unit} works on numpy arrays but not on PyTensor variables "
                f"({type(error).__name__})",
                do="Write it with plain operators (0.1 * abs(x), x > 35_000), or integrate the records out",
            ) from None
    return math.sqrt(found) if size.unit == "variance" else found


LIKELIHOOD: dict[type[Step], Callable[[ReleaseLikelihood, Any, Any], ReleaseLikelihood]] = {
    Drop: _read_drop,
    AddNoise: _read_noise,
    Multiply: _read_factor,
    ClipTo: _read_entries,
    RoundTo: _read_entries,
    Cut: _read_entries,
    Matrix: _read_matrix,
    AverageRows: _read_average,
    MeanOfTail: _read_mean_of_tail,
    SampleRows: _read_sample,
    PermuteRows: lambda observed, step, mask: replace(observed, shuffled=True),
    OwnLaw: _read_own_law,
}
"""What is known before each step; other steps have no likelihood."""
