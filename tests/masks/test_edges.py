"""Every exported mask, in every variant of its options, at every edge.

A release keeps kind, labels and types, blanks nothing that it does not say, keeps what its technique promises, and does
not depend on how the same numbers lie in memory, on labels or on units. Where a mask cannot do it, it says so in an
error that shows no value of the data.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from edges import EDGES, attempt, frame, numbers, read_only, tried
from examples import MASKS, exported
from hypothesis import given, settings, strategies as st
from maskvariants import OPTIONS, VARIANTS
from test_checks import ZOO

import ruvdecision as ruv
from ruvdecision import masks
from ruvdecision.channels.linear import LinearChannel
from ruvdecision.channels.steps import FileFacts
from ruvdecision.checks import RELEASES, as_seed_sequence
from ruvdecision.errors import RuvError, UnsupportedError
from ruvdecision.masks.localsuppress import key_matches

SINGLE = {name: mask for name, mask in VARIANTS.items() if len(mask.parts) == 1}


def test_every_mask_is_walked_over() -> None:
    assert set(OPTIONS) == set(exported(masks, masks.Mask))
    assert all(type(mask).__name__ == name.split("-")[0] or len(mask.parts) > 1 for name, mask in VARIANTS.items())


@pytest.mark.parametrize("mask", [masks.MomentNoise(sd=1.0), ruv.Noise(share=0.1)], ids=repr)
@pytest.mark.parametrize("scale", [1e-310, 1e307])
def test_units_in_which_nothing_can_be_held(mask: masks.Mask, scale: float) -> None:
    for rows in (2, 12):
        data = frame(rows=rows, columns=1) * scale
        released = attempt(lambda data: mask.release(data, 1), data, kind="masks")
        assert isinstance(released, RuvError) or np.isfinite(released.to_numpy()).all()


# -- the walk ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.campaign(8)
@pytest.mark.parametrize("name", VARIANTS)
def test_at_every_edge_a_right_release_or_a_helpful_error(name: str) -> None:
    mask = VARIANTS[name]
    for edge, make in EDGES.items():
        result = attempt(lambda data: mask.release(data, 1), make(), kind="masks")
        if isinstance(result, RuvError):
            shows_no_value(result, make(), edge)
            continue
        if getattr(make(), "ndim", 0) > 2:  # a table of counts has any number of dimensions
            continue
        before, after = labelled_alike(mask, make(), result, edge)
        missing_only_where_it_says(mask, before, after, edge)
        if len(mask.parts) == 1:
            if isinstance(result, pd.DataFrame):
                of_the_right_type(mask, before, after, edge)
            TRUTHS.get(type(mask).__name__, lambda *_: None)(mask, before, after, edge)


def shows_no_value(error: RuvError, data: Any, edge: str) -> None:
    """No number of the data, told by its digits, is in the message."""
    table = (
        data
        if isinstance(data, pd.DataFrame)
        else pd.DataFrame(np.asarray(data))
        if np.ndim(data) in (1, 2)
        else pd.DataFrame()
    )
    shown = [str(v) for column in table for v in (table[column].tolist() if table.columns.is_unique else [])]
    for value in shown:
        if sum(c.isdigit() for c in value) >= 8:
            assert value[:10] not in str(error), f"the error shows a value at {edge!r}: {error}"


def labelled_alike(mask: masks.Mask, data: Any, result: Any, edge: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Kind, shape, index and columns are kept; both files as tables."""
    fewer = "Subsample" in mask.technique
    if not isinstance(data, pd.DataFrame | pd.Series):
        array = data.filled(np.nan) if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
        assert isinstance(result, np.ndarray) and result.ndim == array.ndim, edge
        assert fewer or result.shape == array.shape, edge
        if array.dtype.kind in "biuf" and not any(isinstance(s, masks.Recode) for s in mask.parts):
            assert result.dtype.kind in "biuf" or (isinstance(mask, masks.Stochastic) and mask.outputs is not None), (
                edge,
                result.dtype,
            )
        return pd.DataFrame(array), pd.DataFrame(np.asarray(result))
    assert type(result) is type(data) and list(result.index.names) == list(data.index.names), edge
    assert result.index.isin(data.index).all() if fewer else result.index.equals(data.index), edge
    if isinstance(data, pd.Series):
        assert result.name == data.name, edge
        return data.to_frame(), result.to_frame()
    assert result.columns.equals(data.columns) and list(result.columns.names) == list(data.columns.names), edge
    return data, result


BLANKS = {"Suppress", "SuppressCells", "LocalSuppress"}
MOVES = {"Shuffle", "Swap", "Subsample", "Chain"}


def missing_only_where_it_says(mask: masks.Mask, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    """Missing and infinite entries come from the input, or from suppression.

    They stay in their rows unless rows move. A synthetic column may have blanks if the column had some, elsewhere, and
    so may a microaggregated one: a centre of too few entries is not shown.
    """
    known = [type(s).__name__ for s in mask.parts]
    infinite = any(isinstance(s, masks.Noise) and (s.variance == np.inf or callable(s.sd)) for s in mask.parts)
    for old, new in ((before.isna(), after.isna()), (infinities(before), infinities(after))):
        if not BLANKS.intersection(known) and not infinite:
            if "Microaggregate" in known or known == ["Synthesize"]:
                assert not (new.to_numpy().any(axis=0) & ~old.to_numpy().any(axis=0)).any(), edge
            elif MOVES.intersection(known) or len(known) > 1:
                assert (new.to_numpy().sum(axis=0) <= old.to_numpy().sum(axis=0)).all(), edge
            else:
                assert not (new.to_numpy() & ~old.to_numpy()).any(), edge


def infinities(table: pd.DataFrame) -> pd.DataFrame:
    flags = np.zeros(table.shape, dtype=bool)
    for j, dtype in enumerate(
        table.dtypes
    ):  # one at a time: older pandas cannot select among columns of another byte order
        if pd.api.types.is_float_dtype(dtype):
            flags[:, j] = np.isinf(table.iloc[:, j].to_numpy(dtype=np.float64, na_value=0.0))
    return pd.DataFrame(flags)


SAME = {
    "Release",
    "SeparateRows",
    "Shuffle",
    "RankSwap",
    "Swap",
    "DataShuffle",
    "Subsample",
    "PRAM",
    "MicroaggregateMixed",
}
REAL = {
    "Noise",
    "MomentNoise",
    "ResidualNoise",
    "Clip",
    "MultiplicativeNoise",
    "Microaggregate",
    "Resample",
    "Combine",
    "Synthesize",
    "Topcode",
    "Bottomcode",
    "Round",
}
NULLABLE = {"i": "Int64", "u": "UInt64", "b": "boolean"}


def of_the_right_type(mask: masks.Mask, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    """The rule of types.

    Floating types stay, whole numbers become double precision where values become real, the rest stays.
    """
    name = type(mask).__name__
    for old, new in zip(before.dtypes, after.dtypes, strict=True):
        whole = pd.api.types.is_integer_dtype(old) or pd.api.types.is_bool_dtype(old)
        real = old if not whole else np.dtype(np.float64) if isinstance(old, np.dtype) else pd.Float64Dtype()
        if name in SAME or (name == "Synthesize" and mask.method not in ("normal", "belief")):  # type: ignore[attr-defined]
            allowed: list[Any] = [old]
        elif name in REAL:
            allowed = [old, real]
        elif name in ("Suppress", "LocalSuppress"):
            allowed = (
                [old, pd.api.types.pandas_dtype(NULLABLE[old.kind])]
                if isinstance(old, np.dtype) and old.kind in "iub"
                else [old]
            )
            allowed += [object, "interval[float64, right]"] if isinstance(old, pd.IntervalDtype) else []
        elif name == "Recode" and mask.label in ("midpoint", "lower"):  # type: ignore[attr-defined]
            allowed = [old, real]
        elif name == "Recode" and mask.categories is None:  # type: ignore[attr-defined]
            assert new == old or (isinstance(new, pd.CategoricalDtype) and new.ordered), (edge, new)
            continue
        elif name == "Stochastic" and mask.outputs is None and mask.inputs is not None:  # type: ignore[attr-defined]
            if isinstance(old, pd.CategoricalDtype) and not set(mask.inputs) <= set(old.categories):  # type: ignore[attr-defined]
                continue
            allowed = [old]
        else:
            continue
        assert any(new == a for a in allowed), f"{name} at {edge!r}: {old} became {new}"


# -- what each technique promises ------------------------------------------------------------------------


def values_of(table: pd.DataFrame) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """The columns as doubles with their scales, or None if they are not plain double precision or whole numbers."""
    if not all(isinstance(t, np.dtype) and (t == np.float64 or t.kind in "iu") for t in table.dtypes):
        return None
    values = table.to_numpy(dtype=np.float64)
    known = np.where(np.isfinite(values), np.abs(values), 0.0)
    return values, known.max(axis=0)


def chosen(mask: Any, table: pd.DataFrame) -> list[int]:
    return list(range(table.shape[1])) if mask.columns is None else [int(c) % table.shape[1] for c in mask.columns]


def multiset(column: pd.Series) -> Counter[Any]:
    return Counter("missing" if pd.isna(v) else v for v in column.tolist())


def keeps_margins(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    for i in range(before.shape[1]):
        assert multiset(before.iloc[:, i]) == multiset(after.iloc[:, i]), edge


def comes_from_the_column(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    for i in range(before.shape[1]):
        assert set(multiset(after.iloc[:, i])) <= set(multiset(before.iloc[:, i])), edge


def unchanged(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    pd.testing.assert_frame_equal(pd.DataFrame(after.to_numpy()), pd.DataFrame(before.to_numpy()), check_dtype=False)


def microaggregated(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    """Column means are kept to rounding, and no group is smaller than it may be."""
    found, new = values_of(before), values_of(after)
    if found is None or new is None or np.isnan(found[0]).any():
        return
    x, scale = found
    cols = [i for i in chosen(mask, before) if mask.within is None or i not in mask.within]
    y = new[0][:, cols]
    if mask.centre == "mean":
        assert (np.abs(y.mean(axis=0) - x[:, cols].mean(axis=0)) <= 1e-12 * scale[cols]).all(), edge
    least = mask.size or (1 if isinstance(mask.groups, tuple) else len(x) // mask.groups)
    width = 1 if mask.by == "each" else mask.block or y.shape[1]
    for start in range(0, y.shape[1], width):
        assert np.unique(y[:, start : start + width], axis=0, return_counts=True)[1].min() >= least, edge
    assert (y >= x[:, cols].min(axis=0) - 1e-12 * scale[cols]).all() and (
        y <= x[:, cols].max(axis=0) + 1e-12 * scale[cols]
    ).all(), edge


def mixed(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    table = after.iloc[:, chosen(mask, before)].astype(object)
    assert table.groupby(list(table.columns), dropna=False, observed=True, sort=False).size().min() >= mask.size, edge


def top_coded(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    found, new = values_of(before), values_of(after)
    if found is None or new is None:
        return
    cols = chosen(mask, before)
    x, y, sign = found[0][:, cols], new[0][:, cols], -1.0 if isinstance(mask, masks.Bottomcode) else 1.0
    at = mask.thresholds(x)
    with np.errstate(invalid="ignore"):
        tail = sign * x > sign * at
        np.testing.assert_array_equal(y[~tail], x[~tail])
        if mask.replace == "threshold":
            assert not (sign * y > sign * at).any(), edge
        elif mask.replace == "mean" and not np.isnan(x).any():
            np.testing.assert_allclose(y.mean(axis=0), x.mean(axis=0), rtol=1e-12)


def rounded(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    found, new = values_of(before), values_of(after)
    if found is None or new is None:
        return
    cols = chosen(mask, before)
    x, y, base = found[0][:, cols], new[0][:, cols], np.broadcast_to(np.atleast_1d(mask.base), len(cols))
    fits = np.isfinite(x) & (np.abs(x) < 2.0**40 * base)
    count = np.where(fits, y, 0.0) / base
    assert (np.abs(count - np.rint(count)) <= 1e-12 * np.maximum(np.abs(count), 1.0)).all(), edge
    reach = base * ((1.0 if mask.random else 0.5) + 1e-9)
    assert (np.abs(np.where(fits, y, 0.0) - np.where(fits, x, 0.0)) <= reach).all(), edge
    np.testing.assert_allclose(y[~fits], x[~fits], rtol=1e-15)


def recoded(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    """Equal values stay equal, and numbers keep their order."""
    for i in chosen(mask, before):
        old, new = before.iloc[:, i], after.iloc[:, i]
        pairs = {(str(a), str(b)) for a, b in zip(old.tolist(), new.tolist(), strict=True) if not pd.isna(a)}
        assert len(pairs) == len({a for a, _ in pairs}), edge
        if mask.categories is None:
            codes = new.cat.codes.to_numpy() if isinstance(new.dtype, pd.CategoricalDtype) else None
            x = old.to_numpy(dtype=np.float64, na_value=np.nan)
            if codes is not None and not np.isnan(x).any():
                assert (np.diff(codes[np.argsort(x, kind="stable")].astype(int)) >= 0).all(), edge


def resampled(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    found, new = values_of(before), values_of(after)
    if found is None or new is None:
        return
    for i in chosen(mask, before):
        there = ~np.isnan(found[0][:, i])
        x, y = found[0][there, i], new[0][there, i]
        if not there.any():
            continue
        assert (np.diff(y[np.argsort(x, kind="stable")]) >= 0).all() and x.min() <= y.min() and y.max() <= x.max(), edge
        assert mask.times > 1 or set(y) <= set(x), edge


def sampled(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    assert len(after) == mask.kept_count(len(before)), edge
    rows = Counter(map(str, before.itertuples(index=False, name=None)))
    assert not Counter(map(str, after.itertuples(index=False, name=None))) - rows, edge


def k_anonymous(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    keys = [int(c) for c in mask.keys]
    part = after.iloc[:, keys].set_axis(range(len(keys)), axis=1)
    assert key_matches(part).min() >= mask.k, edge
    kept = ~after.isna().to_numpy()
    assert (after.astype(object).to_numpy()[kept] == before.astype(object).to_numpy()[kept]).all(), edge


def noisy(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    found, new = values_of(before), values_of(after)
    if found is None or new is None:
        return
    (x, scale), y = found, new[0]
    rest = [i for i in range(x.shape[1]) if i not in chosen(mask, before)]
    np.testing.assert_array_equal(y[:, rest], x[:, rest])
    if mask.variance == 0:
        np.testing.assert_array_equal(y, x)
    if mask.variance == np.inf:
        assert np.isnan(y).all(), edge
    if mask.common and np.isfinite(x).all():
        np.testing.assert_allclose(
            np.diff(y, axis=0), np.diff(x, axis=0), atol=1e-14 * float(scale.max() + 5.0), rtol=0
        )


def moments_kept(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    found, new = values_of(before), values_of(after)
    if found is not None and new is not None:
        same_moments(found[0], new[0], found[1], edge)


def clipped(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    found, new = values_of(before), values_of(after)
    if found is None or new is None:
        return
    cols = chosen(mask, before)
    low = -np.inf if mask.lower is None else np.asarray(mask.lower)
    high = np.inf if mask.upper is None else np.asarray(mask.upper)
    np.testing.assert_array_equal(new[0][:, cols], np.minimum(np.maximum(found[0][:, cols], low), high))


def same_moments(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], scale: np.ndarray[Any, Any], edge: str) -> None:
    unit = np.where(scale > 0, scale, 1.0)
    np.testing.assert_allclose((y / unit).mean(axis=0), (x / unit).mean(axis=0), atol=1e-12, err_msg=edge)
    x, y = (x - x.mean(axis=0)) / unit, (y - y.mean(axis=0)) / unit
    np.testing.assert_allclose(y.T @ y, x.T @ x, atol=1e-11 * max(1.0, float(np.abs(x.T @ x).max())), err_msg=edge)


def multiplied(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    found, new = values_of(before), values_of(after)
    if found is None or new is None:
        return
    x, y = found[0][:, chosen(mask, before)], new[0][:, chosen(mask, before)]
    assert (y[x == 0] == 0).all(), edge
    if mask.sd == 0 and mask.kind == "normal":
        np.testing.assert_array_equal(y, x)
    ok = np.isfinite(x) & (x != 0)
    factor = y[ok] / x[ok]
    if mask.kind == "lognormal":
        assert (factor > 0).all(), edge
    if mask.kind == "split":
        away = np.abs(factor - 1)
        assert ((away >= mask.least - 1e-12) & (away <= mask.most + 1e-12)).all(), edge


def synthetic(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    if mask.method in ("copula", "cart"):
        comes_from_the_column(mask, before, after, edge)
    found, new = values_of(before), values_of(after)
    if mask.moments == "exact" and found is not None and new is not None:
        part = [*chosen(mask, before), *(mask.given or ())]
        same_moments(found[0][:, part], new[0][:, part], found[1][part], edge)
    if mask.given:
        i = mask.given[0]
        assert multiset(before.iloc[:, i]) == multiset(after.iloc[:, i]), edge


def suppressed(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    n, k = before.shape
    gone = np.zeros((n, k), dtype=bool)
    rows = range(n) if mask.rows is None else [r % n for r in mask.rows]
    gone[np.ix_(list(rows), chosen(mask, before))] = True
    assert after.isna().to_numpy()[gone].all(), edge
    kept = ~after.isna().to_numpy()
    assert (kept == ~(gone | before.isna().to_numpy())).all(), edge
    assert (after.astype(object).to_numpy()[kept] == before.astype(object).to_numpy()[kept]).all(), edge


def perturbed(mask: Any, before: pd.DataFrame, after: pd.DataFrame, edge: str) -> None:
    """Only categories come out: those of the matrix, of the column's type, or those that occur."""
    for i in range(before.shape[1]):
        column = before.iloc[:, i]
        typed = set(column.cat.categories) if isinstance(column.dtype, pd.CategoricalDtype) else set()
        named = set() if mask.categories is None else set(mask.categories)
        assert set(multiset(after.iloc[:, i])) <= set(multiset(column)) | typed | named, edge


TRUTHS: dict[str, Callable[[Any, pd.DataFrame, pd.DataFrame, str], None]] = {
    "Release": unchanged,
    "SeparateRows": unchanged,
    "Shuffle": keeps_margins,
    "RankSwap": keeps_margins,
    "Swap": keeps_margins,
    "DataShuffle": keeps_margins,
    "Microaggregate": microaggregated,
    "MicroaggregateMixed": mixed,
    "Topcode": top_coded,
    "Bottomcode": top_coded,
    "Round": rounded,
    "Recode": recoded,
    "Resample": resampled,
    "Subsample": sampled,
    "LocalSuppress": k_anonymous,
    "Noise": noisy,
    "MomentNoise": moments_kept,
    "Clip": clipped,
    "MultiplicativeNoise": multiplied,
    "Synthesize": synthetic,
    "Suppress": suppressed,
    "PRAM": perturbed,
}


# -- the same numbers, however they come ------------------------------------------------------------------


def data_for(mask: masks.Mask) -> np.ndarray[Any, Any]:
    """A small array that the mask takes."""
    for data in (
        numbers(),
        np.array([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]]),
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        numbers(2, 3),
        numbers(1, 1),
    ):
        try:
            mask.release(data, 1)
        except RuvError:
            continue
        return data
    return np.empty((0, 0))


SUITED = {name: data_for(mask) for name, mask in VARIANTS.items()}
FORMS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "Fortran order": np.asfortranarray,
    "read-only": lambda x: read_only(x.copy()),
    "strided": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards in memory": lambda x: x[::-1].copy()[::-1],
    "big-endian": lambda x: x.astype(">f8"),
    "list of lists": lambda x: x.tolist(),
    "masked array without a mask": np.ma.masked_array,
    "frame": pd.DataFrame,
    "names of text": lambda x: pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])]),
    "names in levels": lambda x: pd.DataFrame(
        x, columns=pd.MultiIndex.from_tuples([("a", f"b{i}") for i in range(x.shape[1])])
    ),
    "big-endian frame": lambda x: pd.DataFrame({f"x{i}": x[:, i].astype(">f8") for i in range(x.shape[1])}),
    "rows in levels": lambda x: pd.DataFrame(x, index=pd.MultiIndex.from_product([["p"], range(len(x))])),
    "repeated index": lambda x: pd.DataFrame(x, index=[7] * len(x)),
    "nullable": lambda x: pd.DataFrame(x).astype("Float64"),
}


@pytest.mark.parametrize("name", [name for name, data in SUITED.items() if data.size])
def test_neither_memory_nor_labels_matter(name: str) -> None:
    mask, data = VARIANTS[name], SUITED[name]
    want = np.asarray(mask.release(data, 1))
    for form, make in FORMS.items():
        released = attempt(lambda x: mask.release(x, 1), make(data), kind="masks")
        if isinstance(released, RuvError):
            # In a frame of numbers nobody has said which columns are categories.
            assert form not in list(FORMS)[:7] and any(isinstance(s, masks.PRAM) for s in mask.parts), (
                form,
                str(released),
            )
            continue
        got = (
            np.asarray(released)
            if form != "nullable"
            else np.asarray(pd.DataFrame(released).astype(object).where(lambda t: t.notna(), np.nan))
        )
        if want.dtype.kind in "biuf":
            got = got.astype(np.float64)
        pd.testing.assert_frame_equal(
            pd.DataFrame(got), pd.DataFrame(want), check_dtype=False, check_exact=True, obj=form
        )


@pytest.mark.parametrize("name", [name for name, data in SUITED.items() if data.size])
def test_a_seed_fixes_a_release_and_nothing_else_does(name: str) -> None:
    mask, data = VARIANTS[name], SUITED[name]
    state = np.random.get_state()  # noqa: NPY002
    want = pd.DataFrame(np.asarray(mask.release(data, 5)))
    sequence = as_seed_sequence(5, RELEASES)
    for seed in (5, np.int64(5), sequence, np.random.default_rng(sequence)):
        tried("masks")
        pd.testing.assert_frame_equal(pd.DataFrame(np.asarray(mask.release(data, seed))), want, check_exact=True)
    assert all(np.array_equal(a, b) for a, b in zip(state, np.random.get_state(), strict=True))  # noqa: NPY002
    mask.release(data, sequence)
    pd.testing.assert_frame_equal(pd.DataFrame(np.asarray(mask.release(data, sequence))), want, check_exact=True)
    for wrong in (-1, 1.5, "1", True, [1], object):
        assert isinstance(attempt(lambda s: mask.release(data, s), wrong, kind="arguments"), RuvError)


# -- units ------------------------------------------------------------------------------------------------

#: Masks that know no unit: the release of a file in other units is the release in other units.
UNITLESS = [
    name
    for name, mask in VARIANTS.items()
    if SUITED[name].shape == (12, 3)
    and all(
        type(s).__name__
        in ("Release", "SeparateRows", "Shuffle", "RankSwap", "Swap", "DataShuffle", "Subsample", "Microaggregate")
        or type(s).__name__
        in (
            "MicroaggregateMixed",
            "MultiplicativeNoise",
            "ResidualNoise",
            "Resample",
            "Suppress",
            "LocalSuppress",
            "PRAM",
        )
        or (isinstance(s, masks.Synthesize) and s.method != "belief")
        or (isinstance(s, masks.Topcode | masks.Bottomcode) and s.quantile is not None)
        or (isinstance(s, masks.Noise) and (s.share is not None or callable(s.sd) or s.variance in (0.0, np.inf)))
        for s in mask.parts
    )
]
#: Masks with a unit, in the unit c.
WITH_UNIT: dict[str, Callable[[float], masks.Mask]] = {
    "sd": lambda c: ruv.Noise(sd=0.5 * c),
    "variance": lambda c: ruv.Noise(variance=0.25 * c**2),
    "covariance": lambda c: ruv.Noise(covariance=(np.eye(3) + 0.5) * c**2),
    "moments": lambda c: masks.MomentNoise(sd=0.5 * c),
    "laplace": lambda c: ruv.Noise(sd=0.5 * c, kind="laplace") | masks.Clip(lower=-c, upper=4 * c),
    "at": lambda c: ruv.Topcode(at=2.5 * c),
    "mean of the tail": lambda c: ruv.Topcode(at=2.5 * c, replace="mean"),
    "base": lambda c: ruv.Round(base=0.5 * c),
    "random": lambda c: ruv.Round(base=0.5 * c, random=True),
    "width": lambda c: ruv.Recode(width=0.5 * c, label="midpoint"),
    "bins": lambda c: ruv.Recode(bins=[-8 * c, 2 * c, 8 * c], label="midpoint"),
    "combine": lambda c: ruv.masks.Combine(np.eye(3), np.eye(3) * c**2),
}


@pytest.mark.parametrize("power", [1, 40, 480, -40, -480])
def test_other_units_give_the_release_in_other_units(power: int) -> None:
    x, c = numbers(), 2.0**power
    for name in [*UNITLESS, *WITH_UNIT]:
        one, other = (
            (WITH_UNIT[name](1.0), WITH_UNIT[name](c)) if name in WITH_UNIT else (VARIANTS[name], VARIANTS[name])
        )
        want, got = one.release(x, 3), attempt(lambda data: other.release(data, 3), c * x, kind="masks")  # noqa: B023
        assert not isinstance(got, RuvError), (name, str(got))
        np.testing.assert_allclose(np.asarray(got) / c, want, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    "mask",
    [
        ruv.Noise(share=0.16),
        ruv.Noise(share=0.16, kind="laplace"),
        masks.MomentNoise(share=0.16),
        ruv.Microaggregate(size=3, by="zscore") | masks.ResidualNoise(),
        ruv.Synthesize(),
        ruv.Synthesize(moments="exact"),
        ruv.Synthesize(method="regression"),
        ruv.Synthesize(method="copula"),
        ruv.MultiplicativeNoise(sd=0.1),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "units", [[1e-3, 1.0, 1e9], [1e-150, 1.0, 1e150], [1e-200, 1e-200, 1e-200], [1e200, 1e250, 1e300]], ids=str
)
def test_a_column_in_small_units_is_altered_as_much_as_one_in_large_units(mask: masks.Mask, units: list[float]) -> None:
    x = numbers(60, 3)
    alone = (np.asarray(mask.release(x, 1)) - x).std(axis=0)
    released = attempt(lambda data: mask.release(data, 1), x * units, kind="masks")
    moved = (np.asarray(released) / units - x).std(axis=0)
    # Whichever root of a covariance is taken, the share of the noise is the same up to the luck of 60 draws.
    np.testing.assert_allclose(moved, alone, rtol=0.35, err_msg=str(units))


def test_noise_has_its_covariance_in_any_units() -> None:
    units = np.array([1e-9, 1.0, 1e9])
    covariance = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.5], [0.3, 0.5, 1.0]])
    noise = ruv.Noise(covariance=covariance * np.outer(units, units)).release(np.zeros((20_000, 3)), 1) / units
    error = 4 * np.sqrt((1 + covariance**2) / 20_000)
    assert (np.abs(np.cov(noise.T) - covariance) < error).all()


#: Masks that know no origin, as functions of the amount by which the file was moved.
SHIFTED: dict[str, Callable[[float], masks.Mask]] = {
    **{
        name: lambda shift, name=name: VARIANTS[name]  # type: ignore[misc]
        for name in UNITLESS
        if "Multiplicative" not in VARIANTS[name].technique
        and not any(isinstance(s, masks.Noise) and callable(s.sd) for s in VARIANTS[name].parts)
    },
    "sd": lambda shift: ruv.Noise(sd=0.5),
    "kept moments": lambda shift: masks.MomentNoise(sd=0.5),
    "at": lambda shift: ruv.Topcode(at=2.5 + shift, replace="mean"),
    "combine": lambda shift: ruv.masks.Combine(np.eye(3), np.eye(3)),
}


def test_a_file_that_is_moved_gives_a_release_that_is_moved() -> None:
    x = np.round(numbers() * 2.0**20) / 2.0**20  # so that moving rounds nothing
    for name, make in SHIFTED.items():
        for shift in (1024.0, -1024.0):
            want = make(0.0).release(x, 4)
            got = attempt(lambda data: make(shift).release(data, 4), x + shift, kind="masks")  # noqa: B023
            np.testing.assert_allclose(np.asarray(got) - shift, want, rtol=0, atol=1e-8, err_msg=name)


DETERMINISTIC = [
    name
    for name, mask in VARIANTS.items()
    if SUITED[name].shape == (12, 3)
    and type(mask).__name__
    in ("Release", "Microaggregate", "MicroaggregateMixed", "Topcode", "Bottomcode", "Round", "Recode", "Suppress")
    and all(
        getattr(mask, field, None) in (None, False) for field in ("columns", "within", "block", "random", "weights")
    )
    and not any(isinstance(getattr(mask, field, None), tuple) for field in ("at", "base"))
]


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_the_order_of_columns_does_not_matter(name: str) -> None:
    mask, x, turned = VARIANTS[name], numbers(), [2, 0, 1]
    want, got = pd.DataFrame(mask.release(x, 1)[:, turned]), pd.DataFrame(mask.release(x[:, turned], 1))
    tried("masks")
    pd.testing.assert_frame_equal(got, want, rtol=1e-12)


# -- arguments --------------------------------------------------------------------------------------------


def arguments() -> list[tuple[str, str]]:
    """Every argument of every mask, in the first variant in which it counts."""
    found: dict[tuple[type, str], str] = {}
    for name, mask in SINGLE.items():
        for field in dataclasses.fields(mask):
            if (type(mask), field.name) not in found or (name in MASKS and getattr(mask, field.name) is not None):
                found[type(mask), field.name] = name
            if (
                getattr(SINGLE[found[type(mask), field.name]], field.name) is None
                and getattr(mask, field.name) is not None
            ):
                found[type(mask), field.name] = name
    return [(name, field) for (_, field), name in found.items() if field != "masks"]


@pytest.mark.parametrize(("name", "field"), arguments())
def test_a_wrong_argument_is_refused_or_used_rightly(name: str, field: str) -> None:
    mask, table = SINGLE[name], frame()
    given = {f.name: getattr(mask, f.name) for f in dataclasses.fields(mask)}

    def make_and_use(value: Any) -> masks.Mask:
        made = type(mask)(**{**given, field: value})
        assert repr(made) and str(made) and made.technique and isinstance(made.parameters(), dict)
        hash(made.family)
        for data in (table, SUITED[name]):
            try:
                made.release(data, 1)
            except RuvError as error:
                assert error.do  # noqa: PT017
        return made

    for thing, value in ZOO.items():
        if thing in ("type", "function") and field in ("variance", "sd", "where"):
            continue  # a user's own function may raise what it likes
        attempt(make_and_use, value, kind="arguments")


# -- describing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VARIANTS)
def test_a_mask_describes_itself_and_can_be_copied_compared_and_looked_up(name: str) -> None:
    mask = VARIANTS[name]
    copied = pickle.loads(pickle.dumps(mask))
    if getattr(mask, "belief", None) is None:  # beliefs are compared by what they are, not by what they say
        assert (
            copied == mask
            and hash(copied) == hash(mask)
            and copied.family == mask.family
            and copied.numbers == mask.numbers
        )
        assert {mask: 1}[copied] == 1
    assert all(isinstance(k, str) and isinstance(v, int | float | str) for k, v in mask.parameters().items())
    assert (
        str(mask) == repr(copied)
        and len(str(mask)) < 600
        and mask.technique == " | ".join(type(s).__name__ for s in mask.parts)
    )
    assert mask != ruv.Release() or isinstance(mask, masks.Release)
    tried("masks")


# -- random small files -----------------------------------------------------------------------------------


@st.composite
def small_files(draw: st.DrawFn) -> pd.DataFrame:
    """A few rows and columns of ordinary, tied, missing, infinite, huge and tiny numbers, whole numbers and categories."""
    n, k = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    ordinary = st.one_of(st.floats(-5, 5), st.sampled_from([0.0, 1.0, 2.0, -0.0]))
    odd = st.sampled_from([np.nan, np.inf, -np.inf, 1e150, -1e150, 1e-150, 5e-324, 1e300])
    columns = {}
    for j in range(k):
        kind = draw(st.sampled_from(["ordinary", "odd", "whole", "small", "category", "truth"]))
        if kind == "category":
            values: Any = pd.Categorical(
                draw(st.lists(st.sampled_from(["x", "y", None]), min_size=n, max_size=n)), categories=["x", "y", "z"]
            )
        elif kind == "whole":
            values = np.array(draw(st.lists(st.integers(-(2**62), 2**62), min_size=n, max_size=n)), dtype=np.int64)
        elif kind == "small":
            values = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), dtype=np.int8)
        elif kind == "truth":
            values = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
        else:
            values = np.array(
                draw(st.lists(ordinary if kind == "ordinary" else st.one_of(ordinary, odd), min_size=n, max_size=n))
            )
        columns[f"c{j}"] = values
    return pd.DataFrame(columns)


@pytest.mark.slow
@settings(max_examples=400)
@given(small_files(), st.sampled_from(sorted(SINGLE)), st.integers(0, 99))
def test_random_files_keep_the_same_promises(data: pd.DataFrame, name: str, seed: int) -> None:
    mask = SINGLE[name]
    result = attempt(lambda table: mask.release(table, seed), data, kind="masks")
    if not isinstance(result, RuvError):
        labelled_alike(mask, data, result, name)
        missing_only_where_it_says(mask, data, result, name)
        of_the_right_type(mask, data, result, name)
        TRUTHS.get(type(mask).__name__, lambda *_: None)(mask, data, result, name)


@pytest.mark.slow
@settings(max_examples=200)
@given(small_files(), st.sampled_from(sorted(SINGLE)), st.sampled_from(sorted(SINGLE)), st.integers(0, 99))
def test_random_chains_of_two(data: pd.DataFrame, first: str, second: str, seed: int) -> None:
    mask = SINGLE[first] | SINGLE[second]
    result = attempt(lambda table: mask.release(table, seed), data, kind="masks")
    if not isinstance(result, RuvError):
        labelled_alike(mask, data, result, first)
        missing_only_where_it_says(mask, data, result, second)
        again = mask.release(data, seed)
        pd.testing.assert_frame_equal(again, result)


# -- channels ---------------------------------------------------------------------------------------------


def dense(mask: masks.Mask, n: int, k: int) -> tuple[Any, Any] | None:
    """A and R of the mask's linear channel on n records of k columns, or None if it has none, or draws or moves rows."""
    try:
        channel = LinearChannel.of(mask, FileFacts(n, tuple(range(k))))
    except RuvError:
        return None
    return channel.dense() if channel.location == "known" else None


LINEAR = {name: found for name, mask in VARIANTS.items() if (found := dense(mask, 12, 3)) is not None}
MORE_LINEAR: dict[str, masks.Mask] = {
    "noise on groups": ruv.Noise(covariance=np.eye(3) + 0.5) | ruv.Microaggregate(groups=5),
    "groups then noise": ruv.Microaggregate(size=5, by="rows") | ruv.Noise(sd=[0.1, 1.0, 2.0]),
    "common": ruv.Noise(variance=1.0, common=True)
    | ruv.Microaggregate(groups=3, columns=[1])
    | ruv.Noise(variance=0.5, columns=[0, 2]),
    "blanks": ruv.Suppress(rows=[0, 5], columns=[1]) | ruv.Noise(sd=1.0) | ruv.Microaggregate(groups=2),
    "uneven": ruv.Noise(variance=[3.0, 1.0] * 6) | ruv.Microaggregate(groups=[0, 1, 2] * 4),
    "apart": ruv.masks.SeparateRows(rows=[0])
    | ruv.masks.Combine(np.arange(36.0).reshape(6, 6) / 20, np.eye(6) + 0.3, rows=[0]),
}


def test_linear_channels_are_found() -> None:
    assert {"Release", "Noise", "Microaggregate", "Suppress", "SeparateRows", "Combine", "Chain"} <= {
        name.split("-")[0] for name in LINEAR
    }


@pytest.mark.campaign(4)
@pytest.mark.parametrize("name", [*LINEAR, *MORE_LINEAR])
def test_releases_have_the_mean_and_covariance_that_their_channel_says(name: str) -> None:
    """y - A x has mean 0 and covariance R: whitened, its mean square is 1; where R is zero it is zero."""
    mask, (n, k), times = VARIANTS.get(name) or MORE_LINEAR[name], (12, 3), 150
    a, r = LINEAR[name] if name in LINEAR else dense(mask, n, k)  # type: ignore[misc]
    rng = np.random.default_rng(7)
    x = rng.standard_normal((n, k)) + 1.0
    seen = np.array([np.asarray(mask.release(x, rng), dtype=np.float64).reshape(-1) for _ in range(times)])
    tried("masks", times)
    there = ~np.isnan(seen[0])
    assert (np.isnan(seen) == ~there).all()
    gone = np.diag(r)[~there]
    assert not a[~there].any() or (gone == 1.0).all()  # infinite noise: unit noise that has to do with nothing
    left = (seen - x.reshape(-1) @ a.T)[:, there]
    values, vectors = np.linalg.eigh(r[np.ix_(there, there)])
    some = values > 1e-10 * max(values.max(initial=0.0), 1.0)
    assert np.abs(left @ vectors[:, ~some]).max(initial=0.0) < 1e-9
    white = left @ vectors[:, some] / np.sqrt(values[some])
    if white.size:
        assert abs(white.sum() / np.sqrt(white.size)) < 4
        assert abs((white**2).mean() - 1.0) < 4 * np.sqrt(2 / white.size)
        mixed_up = white @ np.linalg.qr(rng.standard_normal((white.shape[1], white.shape[1])))[0]
        assert (np.abs((mixed_up**2).mean(axis=0) - 1.0) < 4.5 * np.sqrt(2 / times)).all()


def test_what_refines_leaves_no_user_more_uncertain() -> None:
    belief = ruv.NormalBelief(records=6, variance=2.0, prior_variance=3.0)
    users = [
        ruv.User(belief, target, ruv.Quadratic())
        for target in (ruv.Record(0), ruv.Record(3), ruv.Parameter("mu"), ruv.Average())
    ]
    several: list[masks.Mask] = [
        ruv.Release(),
        ruv.Noise(variance=0.5),
        ruv.Noise(variance=1.0),
        ruv.Noise(variance=1.0, common=True),
        ruv.Microaggregate(groups=1),
        ruv.Microaggregate(groups=2),
        ruv.Noise(variance=3.0) | ruv.Microaggregate(groups=3),
        ruv.Microaggregate(groups=3) | ruv.Noise(variance=1.0),
        ruv.Suppress(rows=[0]),
        ruv.Suppress(),
    ]
    u = np.array([ruv.evaluate(several, intruder=user, scientist=user).intruder_uncertainty for user in users])
    decided = 0
    for i, one in enumerate(several):
        for j, other in enumerate(several):
            tried("masks")
            try:
                finer = one.refines(other, belief)
            except UnsupportedError:
                continue
            decided += 1
            assert finer or i != j
            if finer:
                assert (u[:, i] <= u[:, j] + 1e-9).all(), (one, other)
    assert decided > 50


@pytest.mark.parametrize("given", [None, 3, "abc", (), (None,), [3], object()])
def test_a_chain_of_no_masks(given: Any) -> None:
    with pytest.raises(RuvError, match="A chain needs masks"):
        masks.Chain(given)
