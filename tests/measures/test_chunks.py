"""Files larger than memory: measures from sums over pieces are those of whole files."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import ruvdecision as ruv
from ruvdecision.data.read import Pieces, read_data
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.measure import measure
from ruvdecision.measures import (
    MD,
    CoefficientChanges,
    Correlations,
    CramersV,
    Eigenvalues,
    EllipsoidOverlap,
    EntropyChange,
    Hellinger,
    IL1s,
    IntervalOverlap,
    KAnonymity,
    LDiversity,
    Linear,
    Logistic,
    Mahalanobis,
    Means,
    NormalKL,
    PearsonC,
    Propensity,
    Quantiles,
    RecordLinkage,
    SampleUniques,
    TotalVariation,
    VarianceInflation,
)
from ruvdecision.measures.sums import ColumnMoments, Counts, Triangle

NUMBERS = ["y", "a", "b"]
KEYS = ["region", "sex"]
ALL = [
    NormalKL(columns=NUMBERS),
    NormalKL("both", columns=NUMBERS, name="both"),
    IntervalOverlap("y ~ a + b"),
    IntervalOverlap(["y ~ a * region + sex", "a ~ b - 1", Means(NUMBERS), Correlations(NUMBERS)], name="several"),
    EllipsoidOverlap("y ~ a + region"),
    CoefficientChanges("y ~ a + b + C(size)"),
    Eigenvalues(columns=NUMBERS),
    VarianceInflation(columns=NUMBERS),
    IL1s(columns=NUMBERS),
    Mahalanobis(columns=NUMBERS),
    Hellinger(columns=KEYS),
    TotalVariation(columns=[*KEYS, "size"], way=2),
    EntropyChange(columns=KEYS),
    CramersV(columns=[*KEYS, "size"]),
    PearsonC(columns=KEYS),
    KAnonymity(keys=[*KEYS, "size"]),
    SampleUniques(keys=[*KEYS, "a_round"]),
    LDiversity(KEYS, "size"),
    LDiversity(KEYS, "size", kind="entropy", name="l_entropy"),
    LDiversity(KEYS, "size", kind="recursive", c=2.0, name="l_recursive"),
]


def make(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky([[1, 0.6, 0.5], [0.6, 1, 0.2], [0.5, 0.2, 1]])
    table = pd.DataFrame(1000 + rng.standard_normal((n, 3)) @ root.T, columns=NUMBERS)
    table["region"] = rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2])
    table["sex"] = rng.choice(["f", "m"], n)
    table["size"] = rng.integers(1, 5, n)
    table["a_round"] = table["a"].round(2)
    return table


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    original = make(700, 1)
    released = original.copy()
    rng = np.random.default_rng(2)
    for name in NUMBERS:
        released[name] += rng.normal(0, 0.4, 700)
    released["region"] = np.where(
        rng.random(700) < 0.1, "west", released["region"]
    )  # a category that the original lacks
    released["sex"] = rng.permutation(released["sex"].to_numpy())
    tables = {"original": original, "released": released, "short": released.iloc[:640]}
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
        table.to_parquet(folder / f"{name}.parquet", row_group_size=150)
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize(("ending", "size"), [("csv", 300), ("parquet", 150)])
def test_pieces_give_the_numbers_of_whole_files(files: dict[str, Path], ending: str, size: int) -> None:
    original, released = files[f"original.{ending}"], files[f"released.{ending}"]
    whole = measure(original, releases={"r": released, "same": original}, measures=ALL, parts=True)
    pieces = measure(original, releases={"r": released, "same": original}, measures=ALL, parts=True, chunksize=size)
    assert set(pieces.columns) == set(whole.columns)
    for name, values in whole.columns.items():
        assert_allclose(pieces.columns[name], values, rtol=1e-10, atol=1e-10, err_msg=name)
    assert pieces.attrs["data"].startswith("700 records, 7 columns")


def test_a_release_of_another_length(files: dict[str, Path]) -> None:
    chosen = [m for m in ALL if not m.matched]
    whole = measure(files["original.csv"], releases={"r": files["short.parquet"]}, measures=chosen)
    pieces = measure(files["original.csv"], releases={"r": files["short.parquet"]}, measures=chosen, chunksize=250)
    for name, values in whole.columns.items():
        assert_allclose(pieces.columns[name], values, rtol=1e-10, atol=1e-10, err_msg=name)
    with pytest.raises(InputError, match="needs as many rows in both files"):
        measure(
            files["original.csv"], releases={"r": files["short.csv"]}, measures=[IL1s(columns=NUMBERS)], chunksize=250
        )


@pytest.mark.slow
def test_workers_and_checkpoints_change_nothing(files: dict[str, Path], tmp_path: Path) -> None:
    releases = {"r": files["released.parquet"], "copies": [files["released.csv"], files["original.csv"]]}
    chosen = [NormalKL(columns=NUMBERS), EllipsoidOverlap("y ~ a + region"), Hellinger(columns=KEYS)]
    alone = measure(files["original.csv"], releases=releases, measures=chosen, chunksize=90)
    with ProcessPoolExecutor(2) as pool:
        together = measure(
            files["original.csv"],
            releases=releases,
            measures=chosen,
            chunksize=90,
            executor=pool,
            checkpoint=tmp_path / "run",
        )
    again = measure(
        files["original.csv"], releases=releases, measures=chosen, chunksize=90, checkpoint=tmp_path / "run"
    )
    for other in (together, again):
        for name, values in alone.columns.items():
            assert_array_equal(other.columns[name], values)
    with pytest.raises(InputError, match="another study; got other chunksize"):
        measure(files["original.csv"], releases=releases, measures=chosen, chunksize=91, checkpoint=tmp_path / "run")


def test_data_in_memory_are_cut_up_too() -> None:
    table = make(300, 5)
    value = measure(
        table, releases={"r": table.assign(y=table.y + 1)}, measures=[NormalKL(columns=NUMBERS)], chunksize=64
    )
    assert_allclose(value.columns["KL"], NormalKL(columns=NUMBERS)(table, table.assign(y=table.y + 1)), rtol=1e-10)


def test_missing_values(tmp_path: Path) -> None:
    table = make(400, 6)
    table.loc[3, "a"] = np.nan
    other = table.copy()
    other["a"] += 0.1
    other.loc[300:310, "y"] = np.nan
    other.loc[5, "region"] = None
    table.to_parquet(tmp_path / "a.parquet")
    other.to_parquet(tmp_path / "b.parquet")
    chosen = [
        NormalKL(columns=NUMBERS, missing="omit"),
        IntervalOverlap("y ~ a + region", missing="omit"),
        IL1s(columns=NUMBERS, missing="omit"),
        Hellinger(columns=KEYS, missing="category"),
        KAnonymity(keys=KEYS, missing="category"),
        SampleUniques(keys=KEYS, missing="omit"),
    ]
    arguments = {"releases": {"b": tmp_path / "b.parquet"}, "measures": chosen, "parts": True}
    whole = measure(tmp_path / "a.parquet", **arguments)
    assert any("sample_uniques left out up to 1 records" in note and "protects" in note for note in whole.notes)
    pieces = measure(tmp_path / "a.parquet", **arguments, chunksize=60)
    for name, values in whole.columns.items():
        if not name.endswith(".blanked"):  # files in pieces count what is left out, not who blanked it
            assert_allclose(pieces.columns[name], values, rtol=1e-10, atol=1e-12, err_msg=name)
    with pytest.raises(InputError, match="KL takes missing values as 'impute', which asks for whole files"):
        measure(
            tmp_path / "a.parquet",
            releases={"b": tmp_path / "b.parquet"},
            measures=[NormalKL(columns=NUMBERS)],
            chunksize=60,
        )
    with pytest.raises(UnsupportedError, match="with wildcards compares every record"):
        measure(
            tmp_path / "a.parquet",
            releases={"b": tmp_path / "b.parquet"},
            measures=[KAnonymity(keys=KEYS)],
            chunksize=60,
        )


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (MD(), "MD cannot read files in pieces"),
        (RecordLinkage(), "linkage cannot read files in pieces"),
        (Propensity(), "pMSE cannot read files in pieces"),
        (IntervalOverlap(Logistic("sex ~ a")), "A logistic regression is not made of sums"),
        (IntervalOverlap(Quantiles(["a"])), "Quantiles.* is not made of sums"),
        (IntervalOverlap("y ~ np.log(a)"), "looks at whole columns"),
        (IntervalOverlap(Linear("y ~ a:region")), "looks at whole columns"),
        (Eigenvalues(columns=["a", "b"], robust=True), "Robust eigenvalues"),
        (VarianceInflation(statistic=lambda t: t["a"].median()), "of a function is no sum"),
    ],
)
def test_what_is_no_sum_is_refused_by_name(files: dict[str, Path], item: object, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        measure(files["original.csv"], releases={"r": files["released.csv"]}, measures=[item], chunksize=100)


def test_what_else_is_refused(files: dict[str, Path], tmp_path: Path) -> None:
    chosen = [NormalKL(columns=NUMBERS)]
    with pytest.raises(UnsupportedError, match="Masks look at all records"):
        measure(files["original.csv"], [ruv.Noise(sd=1)], measures=chosen, chunksize=100)
    with pytest.raises(InputError, match="chunksize must be"):
        measure(files["original.csv"], releases={"r": files["released.csv"]}, measures=chosen, chunksize=0)
    make(5, 1)[["y"]].to_stata(tmp_path / "a.dta", write_index=False)
    with pytest.raises(UnsupportedError, match="Only CSV and parquet"):
        measure(tmp_path / "a.dta", releases={"r": files["released.csv"]}, measures=chosen, chunksize=100)
    make(5, 1)[["y", "a"]].to_csv(tmp_path / "narrow.csv", index=False)
    with pytest.raises(InputError, match="r: KL needs the same columns"):
        measure(files["original.csv"], releases={"r": tmp_path / "narrow.csv"}, measures=chosen, chunksize=100)
    make(50, 1).assign(b=3.3).to_csv(tmp_path / "flat.csv", index=False)
    with pytest.raises(InputError, match="constant b"):
        measure(tmp_path / "flat.csv", releases={"r": files["released.csv"]}, measures=chosen, chunksize=100)
    table = make(50, 1)
    table.assign(b=2 * table["a"]).to_csv(tmp_path / "line.csv", index=False)
    with pytest.raises(InputError, match="Predictors are collinear in the original"):
        measure(
            tmp_path / "line.csv",
            releases={"r": files["released.csv"]},
            measures=[IntervalOverlap("y ~ a + b")],
            chunksize=100,
        )
    with pytest.raises(UnsupportedError, match="not put in order by key"):
        measure(
            files["original.csv"],
            releases={"r": files["released.csv"]},
            measures=[IL1s()],
            key="a_round",
            chunksize=100,
        )


def test_a_key_is_no_variable(files: dict[str, Path]) -> None:
    chosen = [KAnonymity(), NormalKL(columns=NUMBERS)]
    value = measure(
        files["original.csv"], releases={"r": files["released.csv"]}, measures=chosen, key="a_round", chunksize=100
    )
    table = read_data(files["released.csv"]).drop(columns=["a_round"])
    assert value.columns["k_anonymity"][0] == float(KAnonymity()(table, table))
    with pytest.raises(InputError, match="The key is not a column"):
        measure(files["original.csv"], releases={"r": files["released.csv"]}, measures=chosen, key="id", chunksize=100)
    alone = pd.DataFrame({"id": [1, 2, 3]})
    for size in (None, 2):
        with pytest.raises(InputError, match="the original has no column beside its key"):
            measure(alone, releases={"r": alone}, measures=[KAnonymity()], key="id", chunksize=size)


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_in_parquet(tmp_path: Path, ordered: bool) -> None:
    rng = np.random.default_rng(8)
    codes = np.r_[[2] * 80, rng.integers(0, 3, 120)]
    table = pd.DataFrame({"y": rng.normal(size=200), "g": pd.Categorical.from_codes(codes, ["z", "m", "a"], ordered)})
    table.to_parquet(tmp_path / "a.parquet", row_group_size=40)
    other = table.assign(y=table.y + rng.normal(size=200))
    other.to_parquet(tmp_path / "b.parquet", row_group_size=40)
    chosen = [IntervalOverlap("y ~ g"), EllipsoidOverlap("y ~ g"), Hellinger(columns=["g"])]
    whole = measure(tmp_path / "a.parquet", releases={"b": tmp_path / "b.parquet"}, measures=chosen, parts=True)
    pieces = measure(
        tmp_path / "a.parquet", releases={"b": tmp_path / "b.parquet"}, measures=chosen, parts=True, chunksize=40
    )
    for name, values in whole.columns.items():
        assert_allclose(pieces.columns[name], values, rtol=1e-10, atol=1e-12, err_msg=name)


# -- reading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,x\n2,\n3,y\n4,z\n",
        "a,b\n1,1\n2,2\n3,x\n4,4\n",  # looks like numbers at first
        "a;b\n1,5;2\n2,5;3\n3,0;4\n4;5\n",  # decimal commas
        "a,b\n1,True\n2,False\n3,True\n4,True\n",
        "a,b\n1,2\n2,\n3,4\n4,5\n",  # a gap makes whole numbers real
        ",a\nr1,1\nr2,2\nr3,3\nr4,4\n",
        " a , b\n1,2\n3,4\n5,6\n7,8\n",
    ],
)
def test_pieces_of_a_csv_file_have_the_types_of_the_whole(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    whole = read_data(path)
    pieces = list(Pieces(path, 1))
    assert len(pieces) == 4
    joined = pd.concat(pieces)
    assert list(joined.columns) == list(whole.columns)
    for name in whole.columns:
        assert joined[name].tolist() == whole[name].tolist() or (joined[name].isna() == whole[name].isna()).all()
        assert all(p[name].dtype == pieces[0][name].dtype for p in pieces)
        assert pd.api.types.is_numeric_dtype(joined[name].dtype) == pd.api.types.is_numeric_dtype(whole[name].dtype)


def test_a_file_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n2\n")
    assert pd.concat(Pieces(path, 1))["a"].tolist() == [1, 2]
    path.write_text("a\nx\n2\n3\n")
    assert pd.concat(Pieces(path, 1))["a"].tolist() == ["x", "2", "3"]


def test_a_file_without_records_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n")
    with pytest.raises(InputError, match="has no records"):
        list(Pieces(tmp_path / "a.csv", 3))
    (tmp_path / "a.parquet").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        list(Pieces(tmp_path / "a.parquet", 3))


# -- sums ----------------------------------------------------------------------------------------------

cuts = st.lists(st.integers(0, 60), min_size=1, max_size=6).map(sorted)


@settings(deadline=None, max_examples=12)
@given(cuts=cuts, shift=st.sampled_from([0.0, 1e4, -1e7]), seed=st.integers(0, 1000))
def test_moments_do_not_depend_on_the_cuts(cuts: list[int], shift: float, seed: int) -> None:
    values = np.random.default_rng(seed).normal(shift, 1.0, (60, 3))
    whole = ColumnMoments.of(values)
    parts = [ColumnMoments.of(part) for part in np.split(values, cuts)]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.plus(part)
    assert joined.n == 60
    assert_allclose(
        joined.mean, whole.mean, rtol=1e-13, atol=1e-16
    )  # a mean near nought has no more digits than its terms
    # The numbers themselves have an error of 1e-16 of their size, so their differences cannot have less.
    assert_allclose(
        joined.products, np.cov(values, rowvar=False) * 59, rtol=1e-11, atol=1e-11 + 60 * 1e-15 * abs(shift)
    )
    assert_array_equal(joined.low, values.min(axis=0))


@settings(deadline=None, max_examples=12)
@given(cuts=cuts, seed=st.integers(0, 1000))
def test_factors_give_least_squares(cuts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.vstack([np.ones(60), rng.normal(size=(2, 60))])
    x = np.vstack([x, x[1] + 1e-5 * rng.normal(size=60)])  # nearly collinear: normal equations would lose ten digits
    y = x.sum(axis=0) + 0.01 * rng.normal(size=60)
    rows = np.vstack([x, y])
    parts = [Triangle.of(part) for part in np.split(rows, cuts, axis=1)]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.plus(part)
    beta = np.linalg.solve(joined.triangle[:4, :4], joined.triangle[:4, 4])
    expected, rss, *_ = np.linalg.lstsq(x.T, y, rcond=None)
    assert_allclose(beta, expected, rtol=1e-7, atol=1e-8)
    assert_allclose(joined.triangle[4, 4] ** 2, rss[0], rtol=1e-8)


@settings(deadline=None, max_examples=8)
@given(cuts=cuts, seed=st.integers(0, 1000))
def test_counts_do_not_depend_on_the_cuts(cuts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.choice(["x", "y", None], 60), "b": rng.integers(0, 3, 60)})
    edges = [0, *cuts, 60]
    joined = Counts.of(table.iloc[:0])
    for start, stop in pairwise(edges):
        joined = joined.plus(Counts.of(table.iloc[start:stop]))
    brute = {}
    for a, b in table.itertuples(index=False):
        key = (None if pd.isna(a) else a, b)
        brute[key] = brute.get(key, 0) + 1
    found = {
        (None if pd.isna(a) else a, b): int(c)
        for (a, b), c in zip(joined.rows.itertuples(index=False), joined.count, strict=True)
    }
    assert found == brute


def test_records_that_a_release_blanked_are_counted_in_pieces(tmp_path: Path) -> None:
    table = make(60, 1)
    original = table.assign(a_round=table["a_round"].where(table.index % 10 > 0))
    released = original.assign(a_round=original["a_round"].where(table.index % 4 > 0))
    for name, part in (("a", original), ("b", released)):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    chosen = [SampleUniques(["a_round", "region"], missing="omit")]
    pair = {"releases": {"r": tmp_path / "b.csv"}, "measures": chosen, "parts": True}
    whole, pieces = measure(tmp_path / "a.csv", **pair), measure(tmp_path / "a.csv", **pair, chunksize=25)
    for column in ("sample_uniques", "sample_uniques.blanked", "sample_uniques.omitted"):
        assert pieces.columns[column][0] == whole.columns[column][0] > 0
    assert any("blanked by the release" in note for note in pieces.notes)
