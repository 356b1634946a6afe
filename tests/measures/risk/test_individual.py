"""Individual and household risk by their definitions; matches that are unique; populations that are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import nbinom

from ruvdecision.errors import InputError
from ruvdecision.measures import (
    DeltaPresence,
    HouseholdRisk,
    IndividualRisk,
    KAnonymity,
    KMap,
    PopulationUniques,
    SampleUniques,
    SkinnerElliot,
    SpecialUniques,
)
from ruvdecision.measures.risk.individual import individual_risk

approx = pytest.approx


def drawn(seed: int, n: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.choice(["x", "y", "z"], n),
            "b": rng.integers(0, 3, n).astype(float),
            "c": rng.integers(0, 2, n),
            "home": rng.integers(0, max(n // 3, 1), n),
            "w": rng.uniform(1, 50, n),
        }
    )


def blanked(table: pd.DataFrame, seed: int, share: float) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return table.assign(**{c: table[c].where(rng.random(len(table)) >= share) for c in "abc"})


@pytest.mark.parametrize(("f", "big"), [(1, 17.0), (2, 2.001), (2, 110.0), (3, 9.0), (7, 400.0), (30, 31.0)])
def test_risk_is_the_mean_of_one_over_f(f: int, big: float) -> None:
    # F given f is negative binomial: f + the failures before the f-th success of probability f / big.
    failures = np.arange(200_000)
    truth = float((nbinom.pmf(failures, f, f / big) / (f + failures)).sum())
    exact, approximate = (individual_risk(np.array([float(f)]), np.array([big]), m)[0] for m in ("exact", "approx"))
    assert exact == approx(truth, rel=1e-9)
    assert approximate == approx(truth, rel=1e-9 if f <= 2 else 0.12)


def test_ends_of_the_risk() -> None:
    f = np.array([1.0, 2.0, 5.0, 1.0, 2.0])
    for method in ("approx", "exact"):
        np.testing.assert_allclose(
            individual_risk(f, np.array([1.0, 2.0, 5.0, 0.5, 1.9]), method), [1, 0.5, 0.2, 1, 0.5]
        )


def test_a_person_is_present_as_far_as_records_may_be_his() -> None:
    people = pd.DataFrame({"a": [1.0, 1, 1, 2], "b": list("xyzx")})
    value = DeltaPresence(population=people)(people[:2], pd.DataFrame({"a": [1.0, None], "b": [None, "x"]}))
    # The first record is anybody's of the first three, the second the first's or the last's.
    assert float(value) == pytest.approx(1 / 3 + 1 / 2)
    assert value.parts["smallest"] == pytest.approx(1 / 3) and value.parts["mean"] == pytest.approx(2 / 4)
    blank = DeltaPresence("a", population=people)(people[:3], people[["a"]][:3] * np.nan)
    assert float(blank) == blank.parts["mean"] == blank.parts["smallest"] == pytest.approx(3 / 4)


@pytest.mark.slow
@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(2, 40), st.floats(0.0, 0.5), st.floats(0.01, 0.5))
def test_more_blanks_never_raise_the_risk(seed: int, n: int, before: float, more: float) -> None:
    table = blanked(drawn(seed, n), seed + 1, before)
    for measure in (
        IndividualRisk(["a", "b", "c"], "w"),
        IndividualRisk(["a", "b", "c"], "w", method="exact"),
        IndividualRisk(["a", "b", "c"]),
        HouseholdRisk(["a", "b", "c"], "home", "w"),
        SpecialUniques(["a", "b", "c"], largest=3),
        KAnonymity(["a", "b", "c"]),
        SampleUniques(["a", "b", "c"]),
        *(kind(["a", "b", "c"], population=table) for kind in (KMap, PopulationUniques)),
    ):
        first, second = measure(table, table), measure(table, blanked(table, seed + 2, more))
        assert (second.records <= first.records * (1 + 1e-12)).all(), measure
        assert measure.sign * (float(second) - float(first)) <= 1e-12 * float(first), measure


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_weights_of_one_and_the_order_of_rows_and_keys(seed: int, n: int) -> None:
    table = blanked(drawn(seed, n), seed, 0.1).assign(one=1.0)
    keys, turn = ["a", "b", "c"], np.random.default_rng(seed).permutation(n)
    np.testing.assert_allclose(
        IndividualRisk(keys, "one").per_record(table, table), IndividualRisk(keys).per_record(table, table)
    )
    for make in (lambda k: IndividualRisk(k, "w"), lambda k: HouseholdRisk(k, "home", "w")):
        plain = make(keys).per_record(table, table)
        np.testing.assert_allclose(make(keys[::-1]).per_record(table, table.iloc[turn]), plain[turn])


def test_wildcards_by_hand() -> None:
    # The blank agrees with both; it counts half for those with other keys, and they in full for it.
    table = pd.DataFrame({"a": ["x", "y", None], "w": [2.0, 3.0, 4.0]})
    found = IndividualRisk("a", "w", alpha=0.5).record_table(table, table)
    assert found["f"].tolist() == [1.5, 1.5, 3.0] and found["F"].tolist() == [4.0, 5.0, 9.0]
    own = IndividualRisk("a", "w", missing="category").record_table(table, table)
    assert own["f"].tolist() == [1.0, 1.0, 1.0]


def test_households_by_hand() -> None:
    table = pd.DataFrame({"a": [1, 2, 2, 3, 3, 3], "home": ["p", "p", "q", "q", "r", "r"]})
    value = HouseholdRisk("a", "home", threshold=0.6)(table, table)
    p, q, r = 1.0, 1 - 0.5 * 2 / 3, 1 - (2 / 3) ** 2
    assert value.records == approx([p, p, q, q, r, r])
    assert value.parts["expected"] == approx(2 * (p + q + r)) and float(value) == approx((p + q + r) / 3)
    assert value.parts["expected households"] == approx(p + q + r) and value.parts["above"] == 4
    found = HouseholdRisk("a", "home").household_table(table, table)
    assert found.index.tolist() == ["p", "q", "r"] and found["members"].tolist() == [2, 2, 2]
    assert found["risk"].tolist() == approx([p, q, r]) and found["largest"].tolist() == approx([1, 0.5, 1 / 3])


def test_skinner_elliot_finds_the_truth_within_its_error() -> None:
    rng = np.random.default_rng(5)
    off, errors = [], []
    for _ in range(60):
        people = rng.choice(4000, 20_000, p=rng.dirichlet(np.full(4000, 0.3)))
        sample = people[rng.random(len(people)) < 0.1]
        file = pd.DataFrame({"k": sample, "w": 10.0})
        value = SkinnerElliot("k", "w")(file, file)
        truth = KMap("k", population=pd.DataFrame({"k": people}))(file, file).parts["unique match"]
        off.append(float(value) - truth)
        errors.append(value.error)
        assert SkinnerElliot("k", population=10 * len(file))(file, file) == approx(float(value))
    assert abs(np.mean(off)) < 3 * np.std(off) / np.sqrt(len(off))
    assert 0.6 < np.std(off) / np.mean(errors) < 1.6


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(2, 20), st.floats(0.0, 0.4))
def test_known_population_by_brute_force(seed: int, n: int, share: float) -> None:
    people = drawn(seed, 3 * n)[["a", "b"]]
    release = blanked(people.assign(c=0).iloc[:n], seed, share)[["a", "b"]]

    def agree(one: pd.Series, other: pd.Series) -> bool:
        return all(pd.isna(one[c]) or pd.isna(other[c]) or one[c] == other[c] for c in "ab")

    f = np.array([sum(agree(r, s) for _, s in release.iterrows()) for _, r in release.iterrows()])
    big = np.array([sum(agree(r, p) for _, p in people.iterrows()) for _, r in release.iterrows()])
    value = KMap(population=people)(release, release)
    assert float(value) == big.min() and value.records == approx(1 / big)
    assert value.parts["population uniques"] == (big == 1).sum() and value.parts["unmatched"] == 0
    if (f == 1).any():
        assert value.parts["unique match"] == approx((f == 1).sum() / big[f == 1].sum())
    uniques = PopulationUniques(population=people)(release, release)
    assert uniques.records.tolist() == ((f == 1) & (big == 1)).astype(float).tolist()
    present = DeltaPresence(population=people)(release, release)
    each = [
        sum(agree(r, p) / many for (_, r), many in zip(release.iterrows(), big, strict=True))
        for _, p in people.iterrows()
    ]
    assert present.records == approx(np.minimum(f / big, 1)) and float(present) == approx(min(max(each), 1))
    assert present.parts["smallest"] == approx(min(*each, 1))
    assert present.parts["mean"] == approx(np.minimum(each, 1).mean())


def test_nobody_has_the_keys() -> None:
    people, release = pd.DataFrame({"a": [1, 1, 2]}), pd.DataFrame({"a": [9, 1]})
    value = KMap(population=people)(release, release)
    assert float(value) == 2 and value.parts["unmatched"] == 1 and value.records.tolist() == [0, 0.5]
    assert repr(KMap(population=people)) == "KMap(population=3 records)"


def test_bad_input() -> None:
    table = drawn(1, 6)
    with pytest.raises(InputError, match="positive weights"):
        IndividualRisk("a", "w")(table, table.assign(w=0.0))
    with pytest.raises(InputError, match="household of every record"):
        HouseholdRisk("a", "home")(table, table.assign(home=[1, 1, None, 2, 2, 2]))
    with pytest.raises(InputError, match="in keys and be weights"):
        IndividualRisk(["a", "w"], "w")(table, table)
    with pytest.raises(InputError, match="be household and weights"):
        HouseholdRisk("a", "w", "w")(table, table)
    with pytest.raises(InputError, match="weights or the size"):
        SkinnerElliot("a")
    with pytest.raises(InputError, match="at least the number"):
        SkinnerElliot("a", population=3)(table, table)
    with pytest.raises(InputError, match="same columns in the population"):
        KMap("a", population=table[["b"]])(table, table)
