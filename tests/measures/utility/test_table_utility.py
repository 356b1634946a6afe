"""Comparisons of tables by their definitions, and models trained on releases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from ruvdecision.errors import InputError
from ruvdecision.measures import TableUtility, TrainOnRelease
from ruvdecision.measures.utility.table_utility import quantile_groups, table_measures

approx = pytest.approx


@settings(max_examples=12)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=8))
def test_table_measures_by_records(cells: list[tuple[int, int]]) -> None:
    d, s = (np.array(side) for side in zip(*cells, strict=True))
    if min(d.sum(), s.sum()) == 0:
        return
    found = table_measures(d, s)
    score = np.divide(s, s + d, out=np.zeros(len(d)), where=s + d > 0)
    ours, theirs = np.repeat(score, d), np.repeat(score, s)
    n, m = len(ours), len(theirs)
    share = m / (n + m)
    assert found["pMSE"] == approx(np.mean((np.concatenate([ours, theirs]) - share) ** 2), abs=1e-12)
    assert found["SPECKS"] == approx(stats.ks_2samp(ours, theirs, method="asymp").statistic)
    assert found["U"] == approx(stats.mannwhitneyu(theirs, ours).statistic)
    both = (d > 0) | (s > 0)
    p, q = d[both] / n, s[both] / m
    assert found["JSD"] == approx(
        0.5 * (stats.entropy(p, (p + q) / 2, 2) + stats.entropy(q, (p + q) / 2, 2)), abs=1e-12
    )
    if both.sum() > 1:
        table = np.stack([d[both], s[both]])
        # VW is Pearson's chi-square of the table of files by cells, over the original's share.
        assert found["VW"] == approx(
            stats.chi2_contingency(table, correction=False)[0] / (1 - share) * (1 - share) ** 0
        )


def test_another_sample_has_a_scaled_value_of_one() -> None:
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.full(12, 5.0))
    found = [table_measures(rng.multinomial(4000, p), rng.multinomial(3000, p)) for _ in range(200)]
    for name, wanted in (("S_pMSE", 7 / 4), ("S_FT", 7 / 4)):
        values = [f[name] for f in found]
        assert np.mean(values) == approx(wanted, abs=4 * np.std(values) / np.sqrt(200))


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(2, 60))
def test_all_tables_at_once_are_the_single_ones(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    files = [
        pd.DataFrame({"x": rng.normal(size=k), "g": rng.choice(list("uv"), k), "h": rng.integers(0, 3, k)}).mask(
            rng.random((k, 3)) < 0.1
        )
        for k in (n, m)
    ]
    value = TableUtility(way=[1, 2, 3], kind="FT")(*files)
    assert list(value.parts) == ["x", "g", "h", "x x g", "x x h", "g x h", "x x g x h"] and value.table is not None
    for name in ("x", "g x h", "x x g x h"):
        columns = name.split(" x ") if name != "x x g x h" else ["x", "g", "h"]
        single = TableUtility(columns, kind="FT")(*files)
        assert value.parts[name] == approx(float(single)) and value.table.loc[name, "VW"] == approx(single.parts["VW"])
    assert TableUtility()(files[0], files[0].sample(frac=1, random_state=1)) == 0


def test_groups_and_codes() -> None:
    assert quantile_groups(np.arange(10.0), 5).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert quantile_groups(np.array([0.0] * 9 + [10.0]), 5).tolist() == [0] * 9 + [4]
    assert quantile_groups(np.ones(3), 5).tolist() == [0, 0, 0]
    x = pd.DataFrame({"pay": [-8.0, -8.0, 1.0, 2.0, 3.0, 4.0]})
    y = x.assign(pay=[1.0, -8.0, 1.0, 2.0, 3.0, 4.0])
    assert TableUtility(codes={"pay": -8}, groups=2)(x, y).parts["df"] == 2
    for bad in ({"codes": {"q": 1}}, {"way": 4}):
        with pytest.raises(InputError):
            TableUtility(**bad)(x, y)


def people(seed: int, n: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=n), rng.choice(list("uv"), n)
    y = 2 * x + 3 * (g == "v") + rng.normal(size=n)
    return pd.DataFrame({"x": x, "g": g, "y": y, "job": np.where(y > 1, "hi", "lo")})


def test_least_squares_trained_on_the_release() -> None:
    original, held, released = people(1, 400), people(2, 300), people(3, 700)
    value = TrainOnRelease("y", holdout=held, predictors=["x", "g"], estimator="linear")(original, released)

    def design(t: pd.DataFrame) -> np.ndarray:
        return np.column_stack([np.ones(len(t)), t["x"], t["g"] == "v"])

    beta = np.linalg.lstsq(design(released), released["y"], rcond=None)[0]
    off, base = (held["y"] - design(held) @ beta) ** 2, (held["y"] - original["y"].mean()) ** 2
    assert float(value) == approx(1 - off.sum() / base.sum())
    turned = TrainOnRelease("y", holdout=held, predictors=["x", "g"], estimator="linear")(
        original, released.sample(frac=1, random_state=1)
    )
    assert float(turned) == approx(float(value), rel=1e-12)
    assert 0 < value.error < 0.1 and value.parts["ratio"] == approx(float(value) / value.parts["original"])


@pytest.mark.parametrize("target", ["y", "job"])
@pytest.mark.parametrize("estimator", ["boosting", pytest.param("forest", marks=pytest.mark.long), "linear"])
def test_a_destroyed_file_has_no_skill_and_a_good_one_keeps_it(target: str, estimator: str) -> None:
    original = people(1, 150).drop(columns={"y": "job", "job": "y"}[target])
    shuffled = original.assign(**{target: original[target].sample(frac=1, random_state=1).to_numpy()})
    constant = original.assign(**{target: original[target].iloc[0]})
    measure = TrainOnRelease(target, estimator=estimator, folds=2)
    good, bad, nothing = (measure(original, r) for r in (people(2, 150)[original.columns], shuffled, constant))
    assert good > 0.3 and bad < 0.2 and nothing <= 0.001 and good.parts["ratio"] > 0.7


def test_missing_values_and_bad_input() -> None:
    original = people(1, 120).drop(columns="job")
    holes = original.mask(np.random.default_rng(1).random(original.shape) < 0.1)
    value = TrainOnRelease("y", estimator="linear")(original, holes)
    assert value > 0.5 and value.parts["without target"] == holes["y"].isna().sum()
    with pytest.raises(InputError, match="target that varies"):
        TrainOnRelease("y")(original.assign(y=1.0), original)
    with pytest.raises(InputError, match="scikit-learn model"):
        TrainOnRelease("y", estimator="oracle")
    with pytest.raises(InputError, match="folds would not be used: only cross-validation does; got folds=3"):
        TrainOnRelease("y", holdout=original, folds=3)


def test_times_are_cut_and_codes_are_for_what_is_cut() -> None:
    rng = np.random.default_rng(3)
    days = [pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D") for n in (60, 90)]
    files = [pd.DataFrame({"t": d, "n": (d - d.min()).days, "s": "x"}) for d in days]
    numbers = [f.assign(t=(f["t"] - files[0]["t"].min()).dt.total_seconds()) for f in files]
    for file in (*files, *numbers):
        file.loc[::9, "t"] = None
    assert TableUtility(["t", "n"])(*files).parts == TableUtility(["t", "n"])(*numbers).parts
    for column in ("s", "t", "q"):
        with pytest.raises(InputError, match="does not cut"):
            TableUtility(codes={column: [-8]})(*files)
