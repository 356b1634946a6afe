"""Measures for tables and imputed releases: the reference's numbers, scipy, statsmodels, hand-made cases, bad input."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import places
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.stats.contingency import association

from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.measures.tables.distances import (
    CramersV,
    EntropyChange,
    Hellinger,
    PearsonC,
    TotalVariation,
    chi_square,
    cramers_v,
    entropy,
    hellinger,
    pearson_c,
    total_variation,
)
from ruvdecision.measures.tables.loglinear import LogLinearLoss, fit_loglinear
from ruvdecision.measures.tables.willenborg import EntropyLoss, VarianceInflation
from ruvdecision.measures.utility.imputation import ImputationLoss, little_liu

approx = pytest.approx
HALVES, SPREAD = [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]
TABLE = [[10, 20], [30, 40]]


@pytest.fixture(scope="module")
def folder() -> Path:
    return places.REFERENCE


@pytest.fixture(scope="module")
def numbers(folder: Path) -> dict[str, float]:
    return {r["name"]: r["value"] for r in json.loads((folder / "empirical.json").read_text())}


@pytest.fixture(scope="module")
def files(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    names = ["sex", "region", "age"]
    return tuple(pd.read_csv(folder / f"cat_{w}.csv", header=None, names=names) for w in ("orig", "swapped"))


def random_files(seed: int, n: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    x = pd.DataFrame({"a": rng.choice(list("uvw"), n), "b": rng.integers(0, 4, n), "c": rng.choice([True, False], n)})
    y = x.assign(a=np.where(rng.random(n) < 0.3, rng.choice(list("uvwx"), n), x["a"]), b=rng.permutation(x["b"]))
    return x, y


# -- the reference's numbers -------------------------------------------------------------------------------


def test_reference_small_cases(numbers: dict[str, float]) -> None:
    assert hellinger(HALVES, SPREAD) == approx(numbers["Hellinger (.5,.5,0)|(.25,.25,.5)"], abs=1e-12)
    assert total_variation(HALVES, SPREAD) == numbers["TV same"]
    assert entropy(SPREAD) - entropy(HALVES) == approx(numbers["entropy change same (nats) = ln2/2"], abs=1e-11)
    assert hellinger([1, 0], [0, 1]) == approx(numbers["Hellinger disjoint"])
    assert total_variation([1, 0], [0, 1]) == numbers["TV disjoint"]
    assert chi_square(TABLE) == approx(numbers["chi2 [[10,20],[30,40]]"], abs=1e-11)
    assert cramers_v(TABLE) == approx(numbers["Cramer V"], abs=1e-12)
    assert pearson_c(TABLE) == approx(numbers["Pearson C"], abs=1e-12)
    assert cramers_v([[5, 0, 0], [0, 5, 0]]) == approx(numbers["Cramer V [[5,0,0],[0,5,0]]"])
    assert pearson_c([[5, 0, 0], [0, 5, 0]]) == approx(numbers["Pearson C same"], abs=1e-12)
    fit = little_liu([1.0, 2, 3], [1.0, 1, 1])
    assert fit.total == approx(numbers["MI: T for phi=(1,2,3), V=1"], abs=1e-11)
    assert fit.gamma == approx(numbers["MI: gamma"])


def test_reference_files(files: tuple[pd.DataFrame, pd.DataFrame], numbers: dict[str, float]) -> None:
    assert Hellinger()(*files) == approx(numbers["cat Hellinger (full 3-way table)"], abs=1e-12)
    assert TotalVariation()(*files) == approx(numbers["cat TV"], abs=1e-12)
    change = EntropyChange(signed=True)(*files)
    assert change == approx(numbers["cat entropy change"], abs=1e-12)
    assert change.parts["original"] == approx(numbers["cat entropy orig"], abs=1e-11)
    pair = ["region", "age"]
    v, c = CramersV(pair, signed=True)(*files), PearsonC(pair, signed=True)(*files)
    for which, short in (("original", "orig"), ("released", "swapped")):
        assert v.parts[which] == approx(numbers[f"cat Cramer V region x age {short}"], abs=1e-12)
        assert c.parts[which] == approx(numbers[f"cat Pearson C region x age {short}"], abs=1e-12)
    assert v == approx(v.parts["released"] - v.parts["original"]) and v < 0
    assert CramersV(pair)(*files) == approx(-float(v))


# -- distances of tables -----------------------------------------------------------------------------------


@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_tables_agree_with_pandas_and_scipy(seed: int) -> None:
    x, y = random_files(seed)
    f, g = (t.value_counts(normalize=True) for t in (x, y))
    f, g = f.align(g, fill_value=0.0)
    assert TotalVariation()(x, y) == approx(np.abs(f - g).sum() / 2, abs=1e-12)
    assert Hellinger()(x, y) == approx(np.sqrt(1 - np.sqrt(f * g).sum()), abs=1e-8)
    assert EntropyChange(signed=True)(x, y) == approx(stats.entropy(g) - stats.entropy(f), abs=1e-10)
    for method, measure in (("cramer", CramersV), ("pearson", PearsonC)):
        value = measure()(x, y)
        for first, second, before, after, change in value.table.itertuples(index=False):
            assert before == approx(association(pd.crosstab(x[first], x[second]).to_numpy(), method=method), abs=1e-12)
            assert after == approx(association(pd.crosstab(y[first], y[second]).to_numpy(), method=method), abs=1e-12)
            assert change == approx(after - before)
        assert value == approx(value.table["change"].abs().mean()) and len(value.table) == 3


@settings(max_examples=4)
@given(st.integers(0, 10**6))
def test_tables_do_not_care_about_order_or_names(seed: int) -> None:
    x, y = random_files(seed)
    rng = np.random.default_rng(seed)
    for measure in (
        Hellinger(),
        TotalVariation(),
        EntropyChange(),
        CramersV(),
        PearsonC(),
        LogLinearLoss(margins=1, smoothing=0.5),
    ):
        base = measure(x, y)
        assert measure(x, x) == approx(0, abs=1e-12)
        assert measure(x.iloc[rng.permutation(60)], y.iloc[rng.permutation(60)]) == approx(float(base), abs=1e-9)
        code = {"u": "z", "v": "q", "w": "p", "x": "o"}
        assert measure(x.assign(a=x["a"].map(code)), y.assign(a=y["a"].map(code))) == approx(float(base), abs=1e-9)
        assert measure(x.astype({"a": "category"}), y) == approx(float(base), abs=1e-9)
        if not isinstance(measure, LogLinearLoss):  # smoothing counts records
            assert measure(x, pd.concat([y, y])) == approx(float(base), abs=1e-9)


def test_margins_of_a_table() -> None:
    x, y = random_files(1)
    value = Hellinger(way=2)(x, y)
    pairs = [float(Hellinger([*c])(x, y)) for c in itertools.combinations("abc", 2)]
    assert value == approx(np.mean(pairs)) and list(value.parts) == ["a x b", "a x c", "b x c"]
    assert value <= Hellinger()(x, y)  # a margin cannot be further apart than the table
    with pytest.raises(InputError, match="tables of 4 columns"):
        Hellinger(way=4)(x, y)


def test_unseen_categories_and_missing_values_are_kept() -> None:
    assert TotalVariation()(["a", "a", "b"], ["a", "c", "c"]) == approx(2 / 3)
    x, y = pd.DataFrame({"k": ["a", "a", "b", "b"]}), pd.DataFrame({"k": ["a", None, "b", None]})
    with pytest.raises(InputError, match="columns k"):
        TotalVariation(missing="raise")(x, y)
    assert TotalVariation(missing="category")(x, y) == 0.5
    omitted = TotalVariation(missing="omit")(x, y)
    assert omitted == 0 and omitted.parts["omitted"] == 2


def test_many_columns_do_not_overflow() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 1000, size=(200, 40))
    assert TotalVariation()(x, x) == 0 and TotalVariation()(x, x + 1000) == approx(1)


def test_association_borders() -> None:
    assert cramers_v([[3, 4]]) == 0 and pearson_c([[3, 4]]) == 0
    assert cramers_v([[5, 0, 0], [0, 5, 0], [0, 0, 0]]) == approx(1)  # an empty row is no category
    assert CramersV()([[0, 0], [1, 1]], [[0, 0], [0, 1]]) == 1  # the first column became constant


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hellinger([0.5, 0.6], [0.5, 0.5]), "sum to 1"),
        (lambda: total_variation([1.0], [0.5, 0.5]), "same cells"),
        (lambda: entropy([-0.5, 1.5]), "at least 0"),
        (lambda: chi_square([1.0, 2.0]), "two-way"),
        (lambda: chi_square([[0, 0], [0, 0]]), "two-way"),
        (lambda: CramersV()([1, 2], [1, 2]), "two columns"),
        (lambda: Hellinger(["q"])(pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]})), "names a column"),
        (lambda: Hellinger()([1, 2], ["1", "2"]), "one kind"),
        (lambda: Hellinger(way=0), "way"),
    ],
)
def test_bad_tables(call, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


# -- log-linear models -------------------------------------------------------------------------------------


def test_independence_is_the_product_of_margins() -> None:
    table = np.random.default_rng(3).integers(1, 20, size=(3, 4, 2)).astype(float)
    fit = fit_loglinear(table, [[0], [1], [2]])
    n = table.sum()
    expected = np.einsum("i,j,k->ijk", table.sum((1, 2)), table.sum((0, 2)), table.sum((0, 1))) / n**2
    np.testing.assert_allclose(fit.fitted, expected, rtol=1e-10)
    assert fit.df == 24 - (1 + 2 + 3 + 1)
    assert fit.deviance == approx(2 * (table * np.log(table / expected)).sum())
    flat = stats.chi2_contingency(table[:, :, 0], correction=False, lambda_="log-likelihood")
    two = fit_loglinear(table[:, :, 0], [[0], [1]])
    assert (two.deviance, two.df, two.pvalue) == approx((flat.statistic, flat.dof, flat.pvalue))


def test_two_way_interactions_are_a_poisson_regression() -> None:
    sm = pytest.importorskip("statsmodels.api")
    table = np.random.default_rng(4).integers(1, 30, size=(2, 3, 3)).astype(float)
    where = pd.DataFrame(np.indices(table.shape).reshape(3, -1).T, columns=list("abc")).astype("category")
    single = pd.get_dummies(where, drop_first=True, dtype=float)
    products = {
        f"{p}*{q}": single[p] * single[q]
        for p, q in itertools.combinations(single.columns, 2)
        if p.split("_")[0] != q.split("_")[0]
    }
    design = sm.add_constant(pd.concat([single, pd.DataFrame(products)], axis=1))
    theirs = sm.GLM(table.ravel(), design, family=sm.families.Poisson()).fit(tol=1e-12)
    fit = fit_loglinear(table, [[0, 1], [0, 2], [1, 2]])
    np.testing.assert_allclose(fit.fitted.ravel(), theirs.fittedvalues, rtol=1e-6)
    assert fit.deviance == approx(theirs.deviance, rel=1e-6) and fit.df == theirs.df_resid


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, [["a", "b"], ["c"]]]))
def test_the_loss_is_a_difference_of_likelihoods(seed: int, margins) -> None:
    x, y = random_files(seed, 200)
    value = LogLinearLoss(margins=margins, smoothing=0.5)(x, y)
    # Second way: fit both tables apart and average log likelihood over the (smoothed) original records.
    levels = [sorted(set(x[c]) | set(y[c]), key=str) for c in "abc"]
    tables = []
    for t in (x, y):
        counts = np.full([len(v) for v in levels], 0.5)
        for row in t.itertuples(index=False):
            counts[tuple(v.index(r) for v, r in zip(levels, row, strict=True))] += 1
        tables.append(counts)
    kept = {1: [[0], [1], [2]], 2: [[0, 1], [0, 2], [1, 2]]}.get(
        margins if isinstance(margins, int) else 0, [[0, 1], [2]]
    )
    f, g = (fit_loglinear(t, kept).fitted for t in tables)
    weight = tables[0] / tables[0].sum()
    expected = (weight * (np.log(f / f.sum()) - np.log(g / g.sum()))).sum()
    assert value == approx(expected, abs=1e-7) and value >= 0
    assert value.parts["deviance original"] == approx(fit_loglinear(tables[0], kept).deviance)


@pytest.mark.parametrize(
    ("name", "columns", "weights"),
    [
        ("SD2011", ["sex", "edu", "ls", "marital"], None),
        ("testdata", ["urbrur", "water", "sex", "hhcivil"], "sampling_weight"),
        ("francdat", ["Key1", "Key2", "Key4"], "w"),
    ],
)
def test_the_loss_of_real_files_cell_by_cell(name: str, columns: list[str], weights: str | None) -> None:
    """Proportional fitting and divergence once more, over dictionaries, with blanks, weights and categories."""
    path = places.SHARED / "data" / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the working copy")
    x, rng = pd.read_csv(path)[[*columns, *([weights] if weights else [])]], np.random.default_rng(2)
    y = x.sample(frac=0.7, random_state=3).reset_index(drop=True)
    y = y.assign(
        **{c: y[c].mask(rng.random(len(y)) < 0.1).sample(frac=1, random_state=4).to_numpy() for c in columns[:1]}
    )
    if name == "testdata":
        x = x.assign(sex=x["sex"].map({0: "woman", 1: "man"}).mask(rng.random(len(x)) < 0.05))
        y = y.assign(sex=y["sex"].map({0: "woman", 1: "man"}))
    records = []
    for t in (x, y):
        often = [1.0] * len(t) if weights is None else (t[weights] / t[weights].mean()).tolist()
        keys = t[columns].astype(object).where(t[columns].notna(), None).itertuples(index=False, name=None)
        records.append(list(zip(keys, often, strict=True)))
    levels = [{key[j] for file in records for key, _ in file} for j in range(len(columns))]
    fits, deviances, pairs = [], [], list(itertools.combinations(range(len(columns)), 2))

    def margin(cells: dict, axes: tuple[int, int]) -> dict:
        sums: dict = {}
        for cell, count in cells.items():
            sums[cell[axes[0]], cell[axes[1]]] = sums.get((cell[axes[0]], cell[axes[1]]), 0.0) + count
        return sums

    for file in records:
        counts = dict.fromkeys(itertools.product(*levels), 0.25)
        for key, w in file:
            counts[key] += w
        fitted, wanted = dict.fromkeys(counts, 1.0), [margin(counts, axes) for axes in pairs]
        for _ in range(200):
            for axes, goal in zip(pairs, wanted, strict=True):
                now = margin(fitted, axes)
                ratio = {k: goal[k] / now[k] for k in goal}
                fitted = {cell: v * ratio[cell[axes[0]], cell[axes[1]]] for cell, v in fitted.items()}
            if max(abs(v - 1) for v in ratio.values()) < 1e-13:
                break
        total = sum(counts.values())
        fits.append({cell: v / total for cell, v in fitted.items()})
        deviances.append(2 * sum(v * np.log(v / fitted[cell]) for cell, v in counts.items()))
    value = LogLinearLoss(columns=columns, margins=2, smoothing=0.25, weights=weights)(x, y)
    assert value == approx(sum(v * np.log(v / fits[1][cell]) for cell, v in fits[0].items()), rel=1e-6)
    assert [value.parts[f"deviance {k}"] for k in ("original", "released")] == approx(deviances, rel=1e-6)
    terms = [
        np.prod([len(levels[j]) - 1 for j in s])
        for k in range(3)
        for s in itertools.combinations(range(len(levels)), k)
    ]
    assert value.parts["df original"] == np.prod([len(v) for v in levels]) - sum(terms)


def test_a_release_that_rules_out_what_is_there() -> None:
    x, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 0], [0, 1], [0, 1]]
    assert LogLinearLoss(margins=1)(x, y) == np.inf
    assert np.isfinite(LogLinearLoss(margins=1, smoothing=0.5)(x, y))
    assert LogLinearLoss(margins=1)(y, x) == approx(np.log(2))  # the release doubts what is sure


def test_bad_models() -> None:
    x = pd.DataFrame({"a": [0, 1], "b": [1, 0]})
    for arguments, words in (
        ({"margins": 3}, "margins of 3"),
        ({"margins": [["a"]]}, "none with b"),
        ({"margins": []}, "must hold a margin"),
        ({"margins": [["q"]]}, "names a column"),
    ):
        with pytest.raises(InputError, match=words):
            LogLinearLoss(**arguments)(x, x)
    with pytest.raises(InputError, match="smoothing"):
        LogLinearLoss(smoothing=-1)
    with pytest.raises(InputError, match="axis"):
        fit_loglinear([[1.0]], [[2]])
    wide = np.column_stack([np.arange(500)] * 3)
    with pytest.raises(UnsupportedError, match="cells"):
        LogLinearLoss()(wide, wide)


# -- Willenborg and de Waal --------------------------------------------------------------------------------


def test_entropy_left_about_a_record() -> None:
    x, y = ["a", "a", "b", "b"], ["u", "u", "u", "v"]
    # Given u: a, a, b; given v: b.
    left = -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3))
    value = EntropyLoss()(x, y)
    assert value == approx(0.75 * left) and value.parts["before"] == approx(np.log(2))
    np.testing.assert_allclose(EntropyLoss().per_record(x, y), [left, left, left, 0])
    assert EntropyLoss()(x, x) == 0 and EntropyLoss()(x, ["u"] * 4) == approx(np.log(2))


@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_entropy_loss_is_joint_minus_marginal(seed: int) -> None:
    x, y = random_files(seed)
    expected = np.mean([
        stats.entropy(pd.crosstab(x[c], y[c]).to_numpy().ravel()) - stats.entropy(y[c].value_counts().to_numpy()) for c in "abc"
    ])  # fmt: skip
    assert EntropyLoss()(x, y) == approx(expected, abs=1e-10)
    assert EntropyLoss().role == "utility"


def test_entropy_loss_of_a_known_channel() -> None:
    matrix = pd.DataFrame([[0.8, 0.2], [0.4, 0.6]], index=["m", "f"], columns=["m", "f"])
    x, y = pd.DataFrame({"sex": ["m"] * 6 + ["f"] * 4}), pd.DataFrame({"sex": ["m"] * 5 + ["f"] * 5})
    said_m = np.array([0.6 * 0.8, 0.4 * 0.4]) / (0.6 * 0.8 + 0.4 * 0.4)
    said_f = np.array([0.6 * 0.2, 0.4 * 0.6]) / (0.6 * 0.2 + 0.4 * 0.6)
    value = EntropyLoss(transition={"sex": matrix})(x, y)
    assert value == approx((stats.entropy(said_m) + stats.entropy(said_f)) / 2)
    with pytest.raises(InputError, match="sum to 1"):
        EntropyLoss(transition={"sex": matrix * 2})(x, y)
    with pytest.raises(InputError, match="lacks released"):
        EntropyLoss(transition={"sex": matrix[["m"]] / matrix[["m"]]})(x, y)
    with pytest.raises(InputError, match="cannot produce"):
        EntropyLoss(transition={"sex": pd.DataFrame([[1.0, 0.0], [1.0, 0.0]], index=["m", "f"], columns=["m", "f"])})(
            x, y
        )
    with pytest.raises(InputError, match="not used"):
        EntropyLoss(transition={"age": matrix})(x, y)
    with pytest.raises(InputError, match="DataFrame"):
        EntropyLoss(transition=[[1.0]])


def test_variance_ratio() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((5000, 2)) * [1.0, 5.0]
    noisy = x + rng.standard_normal(x.shape) * [0.4, 2.0]
    value = VarianceInflation()(x, noisy)
    assert value == approx(1 / 1.16, abs=4 * np.sqrt(2 / 5000)) and set(value.parts) == {"0", "1"}
    assert value == approx(np.sqrt(np.prod(x.var(axis=0, ddof=1) / noisy.var(axis=0, ddof=1))))
    grouped = np.sort(x[:, 0]).reshape(-1, 5).mean(axis=1).repeat(5)
    assert VarianceInflation()(np.sort(x[:, 0]), grouped) > 1  # false precision, as Winkler observes
    assert VarianceInflation()([1.0, 2.0], [3.0, 3.0]) == np.inf
    assert VarianceInflation()(x * 7 + 3, noisy * 7 + 3) == approx(float(value))


def test_variance_ratio_of_any_statistic() -> None:
    rng = np.random.default_rng(6)
    x = pd.DataFrame({"a": rng.standard_normal(400)})
    y = x + rng.standard_normal(x.shape)
    value = VarianceInflation(statistic=lambda t: t["a"].mean(), draws=300, seed=1)(x, y)
    assert value.error > 0 and abs(value - VarianceInflation()(x, y)) < 4 * value.error
    assert float(VarianceInflation(statistic=lambda t: t["a"].mean(), draws=300, seed=1)(x, y)) == float(value)
    for seed in (0, None, np.random.default_rng(3), np.random.SeedSequence(4)):
        assert float(VarianceInflation(statistic=lambda t: t["a"].median(), draws=50, seed=seed)(x, x)) == approx(1.0)
    with pytest.raises(InputError, match="seed"):
        VarianceInflation(seed=-1)


def test_bad_variance_ratios() -> None:
    with pytest.raises(InputError, match="variance zero"):
        VarianceInflation()([1.0, 1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="at least 2 rows"):
        VarianceInflation()([1.0], [1.0])
    with pytest.raises(InputError, match="statistic"):
        VarianceInflation(statistic="median")
    with pytest.raises(InputError, match="one number"):
        VarianceInflation(statistic=lambda t: t)([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(InputError, match="non-numeric"):
        VarianceInflation()(["a", "b"], ["a", "b"])


# -- multiple imputation -----------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 8))
def test_little_liu_by_its_formula(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    phi, v = rng.standard_normal(d), rng.random(d) + 0.1
    fit = little_liu(phi, v)
    b = sum((p - phi.mean()) ** 2 for p in phi) / (d - 1)
    t = v.mean() + b / d
    assert (fit.estimate, fit.within, fit.between, fit.total, fit.gamma) == approx(
        (phi.mean(), v.mean(), b, t, b / d / t)
    )
    assert 0 <= fit.gamma <= 1
    assert little_liu(phi * 3 + 1, v * 9).gamma == approx(fit.gamma)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_several_quantities_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((6, 3))
    roots = rng.standard_normal((6, 3, 3))
    v = roots @ roots.transpose(0, 2, 1) + np.eye(3)
    fit = little_liu(q, v)
    eigen = np.linalg.eigvals(np.cov(q.T) / 6 @ np.linalg.inv(v.mean(axis=0) + np.cov(q.T) / 6))
    assert fit.gamma == approx(eigen.real.mean())
    mix = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    assert little_liu(q @ mix.T, mix @ v @ mix.T).gamma == approx(fit.gamma, rel=1e-6)
    assert little_liu(q[:, :1], v[:, :1, :1]).gamma == approx(little_liu(q[:, 0], v[:, 0, 0]).gamma)


def test_imputation_loss() -> None:
    rng = np.random.default_rng(7)
    x = pd.DataFrame({"a": rng.standard_normal(50), "b": rng.standard_normal(50)})
    copies = [x + rng.standard_normal(2) * 0.2 for _ in range(5)]
    value = ImputationLoss()(x, copies)
    gammas = [little_liu([c[k].mean() for c in copies], [c[k].var() / 50 for c in copies]).gamma for k in "ab"]
    assert value == approx(np.mean(gammas)) and value.parts["a"] == approx(gammas[0]) and value.parts["copies"] == 5
    own = ImputationLoss(statistic=lambda t: (t["a"].mean(), t["a"].var() / len(t)))(x, copies)
    assert own == approx(gammas[0])
    both = ImputationLoss(statistic=lambda t: (t.mean().to_numpy(), t.cov().to_numpy() / len(t)))(x, copies)
    assert 0 < both < 1
    assert ImputationLoss()(x, [x, x, x]) == 0
    assert ImputationLoss()(x.to_numpy(), np.stack([c.to_numpy() for c in copies])) == approx(float(value))
    more = [x + rng.standard_normal(2) * 0.2 for _ in range(100)]
    assert ImputationLoss()(x, more) < value  # it goes to zero with the number of copies, whatever the model
    holes = [c.mask(c > 1.2) for c in copies]
    assert any(c.isna().any(axis=None) for c in holes)
    assert ImputationLoss(missing="omit")(x, holes).parts["omitted"] == sum(c.isna().any(axis=1).sum() for c in holes)


def test_bad_imputations() -> None:
    x = pd.DataFrame({"a": [1.0, 2.0]})
    for given_, words in (
        (x, "list of imputed copies"),
        ([x], "two imputed copies"),
        ([x, x.rename(columns={"a": "b"})], "same columns"),
        ([x, x.iloc[:1]], "at least 2 rows"),
    ):
        with pytest.raises(InputError, match=words):
            ImputationLoss()(x, given_)
    with pytest.raises(InputError, match="missing"):
        ImputationLoss(missing="raise")(x, [x, x.assign(a=[1.0, np.nan])])
    with pytest.raises(InputError, match="Return a pair"):
        ImputationLoss(statistic=lambda t: 3.0)(x, [x, x])
    with pytest.raises(InputError, match="statistic"):
        ImputationLoss(statistic="median")
    with pytest.raises(InputError, match="do not fit"):
        little_liu(np.zeros((3, 2)), np.zeros((3, 2)))
    with pytest.raises(InputError, match="positive definite"):
        little_liu(np.zeros((3, 2)), np.zeros((3, 2, 2)))
    with pytest.raises(InputError, match="two copies"):
        little_liu([1.0], [1.0])


@pytest.mark.parametrize(
    "measure",
    [Hellinger(), TotalVariation(), EntropyChange(), CramersV(), PearsonC(), LogLinearLoss(), EntropyLoss()],
    ids=lambda m: type(m).__name__,
)
def test_every_table_measure_keeps_the_contract(measure) -> None:
    x, y = random_files(8)
    value = measure(x, y)
    assert measure.role == "utility" and measure.direction == "lower" and measure.reference and measure.name
    assert measure.range[0] <= value <= measure.range[1] and value.error == 0
    assert float(measure.prepare(x)(y)) == float(value)
    assert float(pickle.loads(pickle.dumps(measure))(x, y)) == float(value)
    with pytest.raises(InputError, match="not in the release: c"):
        measure(x, y[["a", "b"]])
