"""Attribution, closest records, membership and closeness of classes, by their definitions and for files of any length."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import wasserstein_distance

import ruvdecision as ruv
from ruvdecision.errors import InputError
from ruvdecision.measures import ClosestRecord, Disclosure, LDiversity, Membership, ReplicatedUniques, TCloseness

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


def test_a_missing_target_is_one_value() -> None:
    table = pd.DataFrame({"k": [1, 1, 1, 1], "t": ["p", None, None, "p"]})
    assert LDiversity("k", "t").diversity(table, table).tolist() == [2, 2, 2, 2]
    assert float(LDiversity("k", "t", kind="entropy")(table, table)) == approx(2)
