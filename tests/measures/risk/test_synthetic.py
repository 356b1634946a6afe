"""Attribution, closest records, membership and closeness of classes, by their definitions and for files of any length."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from places import REFERENCE
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

import ruvdecision as ruv
from ruvdecision.errors import InputError
from ruvdecision.measures import (
    AttributeDisclosure,
    ClosestRecord,
    Disclosure,
    IndividualRisk,
    IntruderError,
    LDiversity,
    Linkability,
    Membership,
    ReplicatedUniques,
    TCloseness,
)

approx = pytest.approx


def drawn(seed: int, n: int, blanks: float = 0.1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.integers(0, 4, n).astype(float), "b": rng.choice(list("uvw"), n)})
    table = table.assign(t=rng.choice(list("pqr"), n, p=[0.7, 0.2, 0.1]))
    return table.mask(rng.random(table.shape) < blanks)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 50))
def test_disclosure_by_its_definition(seed: int, n: int, m: int) -> None:
    original, released = drawn(seed, n), drawn(seed + 1, m)
    rows = [
        [tuple("?" if pd.isna(v) else v for v in r) for r in t.itertuples(index=False)] for t in (original, released)
    ]
    targets: list[dict] = [{}, {}]
    for side, found in zip(rows, targets, strict=True):
        for a, b, t in side:
            found.setdefault((a, b), []).append(t)
    told = [len(set(targets[1].get(r[:2], []))) == 1 for r in rows[0]]
    right = [t and r[2] == targets[1][r[:2]][0] for t, r in zip(told, rows[0], strict=True)]
    alone = [len(targets[0][r[:2]]) == 1 for r in rows[0]]
    value = Disclosure(["a", "b"], "t")(original, released)
    assert value.records.tolist() == [float(r) for r in right] and float(value) == approx(np.mean(right))
    assert value.parts["DiS"] == approx(100 * np.mean(told))
    assert value.parts["iS"] == approx(100 * np.mean([r[:2] in targets[1] for r in rows[0]]))
    dcap = [np.mean([t == r[2] for t in targets[1].get(r[:2], [None])]) for r in rows[0]]
    assert value.parts["DCAP"] == approx(100 * np.mean(dcap))
    both = [u and len(targets[1].get(r[:2], [])) == 1 for u, r in zip(alone, rows[0], strict=True)]
    assert value.parts["repU"] == approx(100 * np.mean(both)) and value.parts["UiO"] == approx(100 * np.mean(alone))
    uniques = ReplicatedUniques(["a", "b"], share=True)(original, released)
    assert float(uniques) == approx(np.mean(both)) and uniques.records.tolist() == [float(b) for b in both]
    every = Disclosure(["a"])(original, released)
    assert every.parts["DiSCO t"] == approx(Disclosure("a", "t")(original, released).parts["DiSCO"])


def test_keys_of_numbers_are_numbers() -> None:
    # 1 and 1.0 are one key whatever the width of the longest number; pasted text would match nothing.
    original, released = pd.DataFrame({"k": [1, 20, 300]}), pd.DataFrame({"k": [1.0, 20.5]})
    assert float(ReplicatedUniques()(original, released)) == 1


def test_a_release_of_any_length_goes_onto_a_map() -> None:
    original, short, long = (drawn(n, n, 0.0).assign(y=np.random.default_rng(n).normal(size=n)) for n in (60, 20, 200))
    releases = {"short": short, "long": long, "copy": original}
    found = ruv.measure(original, releases=releases, measures=[Disclosure(["a", "b"], "t"), ClosestRecord()])
    assert np.isfinite(found.columns["disclosure"]).all() and found.columns["closest_record"][2] == 1


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_closest_records_by_all_distances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    original, held, released = rng.normal(size=(30, 2)), rng.normal(size=(20, 2)), rng.normal(size=(50, 2))
    scale = original.std(axis=0, ddof=1)
    near, far = (np.sort(cdist(released / scale, x / scale), axis=1) for x in (original, held))
    value = ClosestRecord(holdout=held)(original, released)
    assert value.records.tolist() == (near[:, 0] < far[:, 0]).astype(float).tolist()
    assert value.parts["baseline"] == 0.6 and value.parts["excess"] == approx(float(value) - 0.6)
    assert value.parts["DCR median"] == approx(np.median(near[:, 0]))
    assert value.parts["holdout NNDR 5%"] == approx(np.quantile(far[:, 0] / far[:, 1], 0.05))
    member = Membership(holdout=held)(original, released)
    inside, outside = (cdist(x / scale, released / scale).min(axis=1) for x in (original, held))
    wins = inside[:, None] < outside
    assert float(member) == approx(wins.mean()) and member.records == approx(wins.mean(axis=1))
    delong = np.sqrt(wins.mean(axis=1).var(ddof=1) / 30 + wins.mean(axis=0).var(ddof=1) / 20)
    assert member.error == approx(delong)
    at = np.concatenate([inside, outside])
    best = max((inside <= t).mean() - (outside <= t).mean() for t in at)
    assert member.parts["advantage"] == approx(best)


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_equal_distances_are_equal_in_any_order_of_records_and_columns(seed: int) -> None:
    # Sums of the same numbers in another order differ in their last digits, which must not rank anybody.
    rng = np.random.default_rng(seed)
    files = [drawn(seed + k, n) for k, n in enumerate((40, 50, 30))]
    turned = [f.iloc[rng.permutation(len(f))][list(rng.permutation(f.columns))] for f in files]
    for kind in (ClosestRecord, Membership):
        value, other = (kind(holdout=held)(a, b) for a, b, held in (files, turned))
        assert float(value) == approx(float(other), abs=1e-12) and value.error == approx(other.error)
        assert value.parts == approx(other.parts)
    alone, other = (ClosestRecord()(a, b) for a, b, _ in (files, turned))
    assert float(alone) == approx(float(other), abs=1e-12)


def test_an_independent_release_is_at_the_baseline_and_a_copy_is_found() -> None:
    rng = np.random.default_rng(3)
    shares, areas, errors = [], [], []
    for _ in range(40):
        original, held, released = (rng.normal(size=(n, 2)) for n in (150, 100, 200))
        shares.append(float(ClosestRecord(holdout=held)(original, released)))
        member = Membership(holdout=held)(original, released)
        areas.append(float(member))
        errors.append(member.error)
    assert np.mean(shares) == approx(0.6, abs=3 * np.std(shares) / np.sqrt(40))
    assert np.mean(areas) == approx(0.5, abs=3 * np.std(areas) / np.sqrt(40))
    assert 0.7 < np.std(areas) / np.mean(errors) < 1.4
    assert float(ClosestRecord(holdout=held)(original, original)) == 1
    assert float(Membership(holdout=held)(original, original)) == 1
    assert ClosestRecord()(original, original) == 1 and ClosestRecord()(original, original + 50) == 0


def test_mixed_columns_with_missing_values() -> None:
    original, held, released = drawn(1, 80), drawn(2, 60), drawn(3, 120)
    value = ClosestRecord(holdout=held)(original, released)
    assert 0 < value < 1 and value.missing == "category"
    assert 0.3 < Membership(holdout=held)(original, released) < 0.7
    with pytest.raises(InputError, match="missing values in the holdout"):
        ClosestRecord(holdout=held, missing="raise")(original.dropna(), released.dropna())
    with pytest.raises(InputError, match="a file of records"):
        Membership(holdout=3)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_closeness_is_the_earth_movers_distance(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"k": rng.integers(0, 4, n), "pay": rng.choice([1.0, 2.5, 7.0, 8.0], n)})
    table["job"] = rng.choice(list("pqr"), n)
    ranks = table["pay"].rank(method="dense").to_numpy() - 1
    each = TCloseness("k", "pay").per_record(table, table)
    steps = max(ranks.max(), 1)
    wanted = {k: wasserstein_distance(ranks[table["k"] == k], ranks) / steps for k in set(table["k"])}
    assert each == approx([wanted[k] for k in table["k"]], abs=1e-12)
    whole = table["job"].value_counts(normalize=True)
    part = {k: g["job"].value_counts(normalize=True) for k, g in table.groupby("k")}
    apart = {k: 0.5 * p.reindex(whole.index, fill_value=0).sub(whole).abs().sum() for k, p in part.items()}
    value = TCloseness("k", "job")(table, table)
    assert value.records == approx([apart[k] for k in table["k"]], abs=1e-12)
    assert float(value) == approx(max(apart.values()), abs=1e-12)


def test_truth_values_with_missing_ones_are_as_close_as_their_words() -> None:
    rng = np.random.default_rng(6)
    words = pd.Series(rng.choice(["yes", "no", None], 60), dtype=object)
    table = pd.DataFrame({"k": rng.integers(0, 5, 60), "t": words})
    truth = table.assign(t=words.map({"yes": True, "no": False}).astype("boolean"))
    each = TCloseness("k", "t").per_record(table, table)
    assert 0 < each.max() < 1 and TCloseness("k", "t").per_record(truth, truth) == approx(each)


def test_more_blanks_may_raise_t_and_lower_l() -> None:
    """Both take records with a blank key for a class of their own: what holds of wildcards does not hold of them."""
    table = pd.DataFrame({"k": [1.0, 1.0, 2.0, 2.0], "t": ["p", "q", "p", "q"]})
    blanked = table.assign(k=[np.nan, 1.0, 2.0, 2.0])
    assert [float(TCloseness("k", "t")(table, file)) for file in (table, blanked)] == [0, 0.5]
    assert [float(LDiversity("k", "t")(table, file)) for file in (table, blanked)] == [2, 1]


def test_a_missing_target_is_one_value() -> None:
    table = pd.DataFrame({"k": [1, 1, 1, 1], "t": ["p", None, None, "p"]})
    assert LDiversity("k", "t").diversity(table, table).tolist() == [2, 2, 2, 2]
    assert float(LDiversity("k", "t", kind="entropy")(table, table)) == approx(2)


# -- linkage and inference without pairs ---------------------------------------------------------------


def rounded(seed: int, n: int) -> pd.DataFrame:
    """Coarse numbers, so that records tie."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n, 3)).round(), columns=list("abc"))
    return table.assign(g=rng.choice(list("uvw"), n, p=[0.6, 0.3, 0.1]), t=rng.choice(list("pqr"), n))


def ties(asking: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Which records are nearest, with all distances."""
    distance = cdist(asking, asked)
    return distance <= distance.min(axis=1, keepdims=True) + 1e-9


@pytest.mark.parametrize(("n", "m"), [(25, 40), (40, 25), (30, 30), (1, 5)])
def test_linkability_by_all_distances(n: int, m: int) -> None:
    original, released, held = rounded(1, n), rounded(2, m), rounded(3, 20)

    def expected(file: pd.DataFrame) -> np.ndarray:
        sd = original[["a", "b", "c"]].std().fillna(1) + (original[["a", "b", "c"]].std().fillna(0) == 0) * 1e300
        first = ties(file[["a"]] / sd["a"], released[["a"]] / sd["a"])
        second = ties(file[["b", "c"]] / sd[["b", "c"]], released[["b", "c"]] / sd[["b", "c"]])
        return (first & second).sum(axis=1) / (first.sum(axis=1) * second.sum(axis=1))

    measure = Linkability("a", ["b", "c"], holdout=held)
    value = measure(original, released)
    np.testing.assert_allclose(measure.per_record(original, released), expected(original), rtol=1e-12)
    assert value == approx(expected(original).mean()) and value.parts["chance"] == 1 / m
    baseline = expected(held).mean()
    assert value.parts["holdout"] == approx(baseline)
    assert value.parts["excess"] == approx((value - baseline) / (1 - baseline))


def test_linkability_of_a_copy_and_of_another_sample() -> None:
    rng = np.random.default_rng(4)
    file, other, held = (pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd")) for _ in range(3))
    measure = Linkability(["a", "b"], ["c", "d"], holdout=held)
    assert measure(file, file) == 1 and measure(file, file).parts["excess"] == 1
    apart = measure(file, other)
    assert abs(apart - 1 / 400) < 5 * (apart.error + 0.01) and abs(apart.parts["excess"]) < 0.02
    mixed = Linkability("g", "t")(rounded(5, 50), rounded(6, 80))  # categories alone: every record of a class ties
    counts = pd.crosstab(rounded(6, 80)["g"], rounded(6, 80)["t"])
    chance = [counts.loc[g, t] / (counts.loc[g].sum() * counts[t].sum()) for g, t in rounded(5, 50)[["g", "t"]].values]
    assert mixed == approx(np.mean(chance))
    with pytest.raises(InputError, match="different columns"):
        Linkability("a", ["a", "b"])(file, file)


@pytest.mark.parametrize(("n", "m"), [(25, 40), (40, 25)])
def test_attributes_are_read_from_releases_of_any_length(n: int, m: int) -> None:
    """No row of such a file is anybody's: all originals count, each with the released records nearest to it."""
    original, released, held = rounded(1, n), rounded(2, m), rounded(3, 20)
    known, sd = ["a", "b"], original[["a", "b", "c"]].std()
    near = [ties(file[known] / sd[known], released[known] / sd[known]) for file in (original, held)]
    read = [(w @ released["c"].to_numpy()) / w.sum(axis=1) for w in near]
    right = [np.abs(r - f["c"]) <= 0.5 * sd["c"] for r, f in zip(read, (original, held), strict=True)]
    measure = AttributeDisclosure("c", known, within_sd=0.5, holdout=held)
    value = measure(original, released)
    assert value == approx(right[0].mean()) and value.parts["holdout"] == approx(right[1].mean())
    assert measure.per_record(original, released).tolist() == right[0].astype(float).tolist()
    wrong = IntruderError("c", known)(original, released)
    assert wrong.parts["error"] == approx(np.sqrt(np.mean((read[0] - original["c"]) ** 2)))
    hits = (near[0] & (released["t"].to_numpy() == original[["t"]].to_numpy())).sum(axis=1) / near[0].sum(axis=1)
    assert AttributeDisclosure("t", known)(original, released) == approx(hits.mean())
    blanked = released.mask(np.random.default_rng(7).random(released.shape) < 0.2)
    assert 0 <= AttributeDisclosure("t", known)(original, blanked) <= 1


def test_groups_of_a_release_of_another_length_are_by_its_own_values() -> None:
    original, released = rounded(1, 60), rounded(2, 90)
    value = AttributeDisclosure("t", ["a", "b"], by="g")(original, released)
    parts = [f[f["g"] == "u"].reset_index(drop=True) for f in (original, released)]
    assert value.parts["g=u"] == approx(float(AttributeDisclosure("t", ["a", "b"])(*parts)))


def test_part_of_the_original_counts_alone() -> None:
    """Labels tell who is in the release: the others are not asked about, as in files of one length."""
    original = rounded(1, 30).set_axis([f"p{i}" for i in range(30)])
    some = original.iloc[5:12]
    each = AttributeDisclosure("t", ["a", "b", "c"]).per_record(original, some)
    assert np.isnan(each[:5]).all() and np.isnan(each[12:]).all() and not np.isnan(each[5:12]).any()


def test_links_and_inferences_are_anonymeters() -> None:
    """Its rates are Wilson's of 150 attacks, by Gower's distance; members and people outside within both errors."""
    stored = json.loads((REFERENCE / "anonymeter.json").read_text())
    unit, files = stored["inputs"].pop("unit"), {}
    for name, columns in stored["inputs"].items():
        files[name] = pd.DataFrame({k: list(v) if k == "g" else np.array(v) * unit for k, v in columns.items()})
    original, released, held = files.values()
    near = 0.05 * original["a"].mean() / original["a"].std()
    for measure, name in (
        (Linkability(["a", "b"], ["c", "d"], holdout=held), "linkability"),
        (AttributeDisclosure("a", ["b", "c", "d"], within_sd=near, holdout=held), "inference a"),
        (AttributeDisclosure("g", ["a", "b", "c", "d"], holdout=held), "inference g"),
    ):
        value = measure(original, released)
        for ours, side in ((float(value), "attack"), (value.parts["holdout"], "control")):
            theirs, room = stored[name][side]
            assert abs(ours - theirs) < room


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from(["int64", "float64", "int8", "Int64"]))
def test_whole_numbers_are_counted_as_any_others(seed: int, n: int, dtype: str) -> None:
    """Files of whole numbers take a shorter way, which must end at the same place."""
    rng = np.random.default_rng(seed)
    file = pd.DataFrame(rng.integers(-3, 4, size=(n, 4)), columns=list("abtw")).astype(dtype)
    file["w"] = rng.integers(1, 9, n) * (1.0 if seed % 2 else 1)
    measures = [LDiversity(["a", "b"], "t", kind=kind) for kind in ("distinct", "entropy", "recursive")]
    measures += [IndividualRisk(["a", "b"], weights) for weights in (None, "w")]
    for measure in (*measures, IndividualRisk(["a", "b"], "w", method="exact", threshold=0.1)):
        short, long = measure(file, file), measure.prepare(file)(file)
        assert float(short) == approx(float(long)) and short.parts == approx(long.parts)
        np.testing.assert_allclose(short.records, long.records)
        assert measure.per_record(file, file) == approx(long.records)
