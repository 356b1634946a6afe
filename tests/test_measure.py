"""measure: releases against the original, by data. Which numbers go where, and what is refused."""

from __future__ import annotations

import decimal
import fractions
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import places
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import ruvdecision as ruv
from ruvdecision.checks import as_seed_sequence
from ruvdecision.data.files import KINDS
from ruvdecision.data.read import read_data
from ruvdecision.decide import frontier, not_dominated, undominated
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.maps.rumap import RUMap
from ruvdecision.maps.scores import Column, as_score
from ruvdecision.measure import measure
from ruvdecision.measures import (
    MD,
    EllipsoidOverlap,
    ImputationLoss,
    IntervalOverlap,
    IntruderError,
    KAnonymity,
    Mahalanobis,
    Measured,
    NormalKL,
    Propensity,
    RecordLinkage,
)
from ruvdecision.measures.battery import labelled_measures
from ruvdecision.measures.comparison import Comparison
from ruvdecision.running.replication import replicate_seeds

MODEL = "y ~ a + b"
MASKS = [ruv.Noise(share=0.16), ruv.Microaggregate(size=10, by="each"), ruv.RankSwap(within=0.15)]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    root = np.linalg.cholesky([[1, 0.6, 0.5], [0.6, 1, 0.2], [0.5, 0.2, 1]])
    return pd.DataFrame(2 + rng.standard_normal((120, 3)) @ root.T, columns=["y", "a", "b"])


@dataclass(frozen=True)
class Counting:
    """A measure of somebody's own: a call only. It counts how often it is asked."""

    asked: list
    name = "mean_shift"
    role = "utility"

    def __call__(self, original, released):
        self.asked.append(len(released))
        return -float(abs(np.asarray(original) - np.asarray(released)).mean())


@dataclass(frozen=True)
class Preparing:
    """A measure that counts how often it sees the original."""

    seen: list
    name = "spread"
    role = "risk"
    direction = "lower"

    def prepare(self, original):
        self.seen.append(1)
        base = float(np.asarray(original).std())
        return lambda released: Measured(base / float(np.asarray(released).std()), error=0.25)

    def __call__(self, original, released):
        return self.prepare(original)(released)


# -- the numbers ---------------------------------------------------------------------------------------


def test_columns_are_what_each_measure_says_of_each_replicate(data):
    measures = [RecordLinkage(known=["a", "b"]), IntervalOverlap(MODEL), EllipsoidOverlap(MODEL), NormalKL()]
    rumap = measure(data, MASKS, measures=measures, replicates=4, seed=7)
    seeds = [s[1] for s in replicate_seeds(as_seed_sequence(7), 4)]
    for i, mask in enumerate(MASKS):
        by_hand = np.array([[m(data, mask.release(data, s)) for m in measures] for s in seeds])
        for j, m in enumerate(measures):
            assert rumap.columns[m.name][i] == pytest.approx(by_hand[:, j].mean(), rel=1e-12)
            assert rumap.columns[f"{m.name}_error"][i] == pytest.approx(
                by_hand[:, j].std(ddof=1) / 2, rel=1e-9, abs=1e-15
            )
    assert rumap.columns["KL_error"][1] == 0  # individual ranking is not random
    assert rumap.columns["KL_error"][0] > 0
    assert_array_equal(rumap.risk, rumap.columns["linkage"])
    assert_array_equal(rumap.utility, rumap.columns["IO"])
    assert set(rumap.engine) == {"data"}
    assert rumap.releases == tuple(map(str, MASKS))
    assert rumap.masks == tuple(MASKS)
    assert rumap.attrs["better"] == {"linkage": "lower", "IO": "higher", "EO": "higher", "KL": "lower"}


def test_all_masks_share_their_random_numbers(data):
    """Noise of the same seed differs by its factor alone."""
    spread = measure(
        data, [ruv.Noise(sd=0.1), ruv.Noise(sd=0.2)], measures=[Counting([]), RecordLinkage()], replicates=3, seed=5
    )
    shift = spread.columns["mean_shift"]
    assert shift[1] == pytest.approx(2 * shift[0], rel=1e-12)


def test_adding_a_candidate_changes_no_other(data):
    measures = [RecordLinkage(), NormalKL()]
    few = measure(data, MASKS[:2], measures=measures, replicates=2, seed=1).to_dataframe()
    many = measure(data, MASKS[::-1], measures=measures, replicates=2, seed=1).to_dataframe()
    for name in ("risk", "utility", "linkage", "KL", "KL_error"):
        assert_array_equal(few[name], many[name].iloc[[2, 1]])


def test_the_original_is_prepared_once_and_deterministic_masks_are_applied_once(data):
    seen, asked = [], []
    measure(data, MASKS, measures=[Preparing(seen), Counting(asked)], replicates=5, seed=1)
    assert seen == [1]
    assert len(asked) == 5 + 1 + 5


def test_a_chain_without_randomness_is_measured_once(data):
    asked = []
    chain = ruv.Microaggregate(size=3, by="zscore") | ruv.Microaggregate(size=5, by="each")
    rumap = measure(data, [chain], measures=[Counting(asked)], replicates=6, seed=1)
    assert len(asked) == 1
    assert rumap.columns["mean_shift_error"][0] == 0


def test_a_measures_own_error_does_not_average_out(data):
    rumap = measure(data, [ruv.Noise(sd=1e-9)], measures=[Preparing([])], replicates=9, seed=1)
    assert rumap.columns["spread_error"][0] == pytest.approx(0.25)  # the spread over replicates is far smaller
    assert measure(data, [ruv.Release()], measures=[Preparing([])], seed=1).columns["spread_error"][0] == 0.25


def test_errors_shrink_with_replicates_as_they_should(data):
    """The mean of few replicates lies within 4 standard errors of that of many."""
    many = measure(data, MASKS[:1], measures=[NormalKL(), RecordLinkage()], replicates=80, seed=2)
    few = measure(data, MASKS[:1], measures=[NormalKL(), RecordLinkage()], replicates=20, seed=3)
    for name in ("KL", "linkage"):
        gap = abs(many.columns[name][0] - few.columns[name][0])
        error = np.hypot(many.columns[f"{name}_error"][0], few.columns[f"{name}_error"][0])
        assert gap < 4 * error
        ratio = few.columns[f"{name}_error"][0] / many.columns[f"{name}_error"][0]
        assert 1.2 < ratio < 3.3  # 2 in expectation


def test_infinite_values_have_no_spread(data):
    twice = data.assign(b=data["a"])
    rumap = measure(data, releases={"singular": twice, "same": data}, measures=[RecordLinkage(), NormalKL()])
    assert rumap.columns["KL"].tolist() == [np.inf, 0.0]
    assert rumap.columns["KL_error"].tolist() == [0.0, 0.0]
    assert rumap.utility.tolist() == [0.0, np.inf]
    assert rumap.frontier().releases[-1] == "same"


@pytest.mark.slow
@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_the_map_is_the_same_whoever_runs_it(data, pool):
    measures = [RecordLinkage(), IntervalOverlap(MODEL), NormalKL()]
    alone = measure(data, MASKS, measures=measures, replicates=30, seed=4)
    with pool(2) as executor:
        together = measure(data, MASKS, measures=measures, replicates=30, seed=4, executor=executor)
    pd.testing.assert_frame_equal(alone.to_dataframe(), together.to_dataframe(), check_exact=True)


def test_an_error_in_a_worker_comes_home(data):
    with (
        ProcessPoolExecutor(1) as executor,
        pytest.raises(InputError, match=r"^Subsample\(size=3\): Mahalanobis compares"),
    ):
        measure(data, [ruv.Subsample(size=3)], measures=[Mahalanobis()], executor=executor)


def test_kinds_of_data_agree(data):
    measures = [RecordLinkage(), NormalKL()]
    table = measure(data, MASKS, measures=measures, seed=1).to_dataframe()
    array = measure(data.to_numpy(), MASKS, measures=measures, seed=1).to_dataframe()
    pd.testing.assert_frame_equal(table, array)
    one = measure(data["a"], [ruv.Noise(sd=0.1)], measures=measures, seed=1)
    assert one.columns["KL"][0] == pytest.approx(
        float(
            NormalKL()(
                data["a"], ruv.Noise(sd=0.1).release(data["a"], next(replicate_seeds(as_seed_sequence(1), 1))[1])
            )
        )
    )


def test_parts_are_columns_when_asked_for(data):
    rumap = measure(
        data, MASKS[:1], measures=[RecordLinkage(), IntervalOverlap(MODEL), MD()], replicates=3, seed=1, parts=True
    )
    assert rumap.columns["IO.IO"][0] == pytest.approx(rumap.columns["IO"][0])
    assert rumap.columns["MD.MCM"][0] > 0
    plain = measure(data, MASKS[:1], measures=[RecordLinkage(), MD()], seed=1)
    assert not [name for name in plain.columns if "." in name]


# -- no record leaves ----------------------------------------------------------------------------------


def test_no_confidential_record_is_in_the_map(data, tmp_path):
    marked = data.copy()
    marked.iloc[7] = [987.654321, 876.543219, 765.432198]
    marked.insert(0, "id", [f"person-{i}" for i in range(len(data))])
    measures = [RecordLinkage(known=["a"]), IntervalOverlap(MODEL), NormalKL(columns=["y", "a", "b"])]
    rumap = measure(marked, releases={"x": marked}, measures=measures, key="id", parts=True)
    kept = rumap.save(tmp_path / "map.nc").read_bytes() + pickle.dumps(rumap) + rumap.to_dataframe().to_csv().encode()
    for secret in (b"person-7", b"987.65", np.float64(987.654321).tobytes(), np.float64(765.432198).tobytes()):
        assert secret not in kept
    assert rumap.columns["linkage"].shape == (1,)


# -- which column is risk, which utility ---------------------------------------------------------------


def test_lower_is_better_is_turned_around(data):
    rumap = measure(data, MASKS, measures=[NormalKL(), RecordLinkage()], seed=1)
    assert_allclose(rumap.utility, 1 / rumap.columns["KL"])
    assert rumap.utility_score == Column("KL", "reciprocal")
    error = measure(
        data, MASKS, measures=[IntruderError(known=["a"], unknown="y", name="guess"), IntervalOverlap(MODEL)], seed=1
    )
    assert_allclose(error.risk, 1 / error.columns["guess"])


def test_a_lower_is_better_column_that_may_be_negative_is_negated(data):
    rumap = measure(
        data,
        [ruv.Release(), ruv.Noise(sd=1.0)],
        measures=[Propensity(statistic="z", degree=2), RecordLinkage()],
        seed=1,
    )
    assert rumap.columns["pMSE"][0] < 0 < rumap.columns["pMSE"][1]
    assert_array_equal(rumap.utility, -rumap.columns["pMSE"])
    assert RUMap.build(
        labels=["a", "b"], columns={"x": [-1.0, 2.0]}, risk="x", utility=Column("x", "negative")
    ).utility.tolist() == [
        1.0,
        -2.0,
    ]


def test_any_column_may_serve(data):
    measures = [RecordLinkage(), IntervalOverlap(MODEL), EllipsoidOverlap(MODEL), NormalKL()]
    rumap = measure(data, MASKS, measures=measures, seed=1, risk="linkage", utility="EO")
    assert_array_equal(rumap.utility, rumap.columns["EO"])
    logs = measure(data, MASKS, measures=measures, seed=1, utility=Column("KL", "negative_log"))
    assert_allclose(logs.utility, -np.log(logs.columns["KL"]))
    part = measure(data, MASKS, measures=measures, seed=1, utility="IO.J", parts=True)
    assert_array_equal(part.utility, part.columns["IO.J"])
    with pytest.raises(InputError, match=r"linkge.*Did you mean 'linkage'"):
        measure(data, MASKS, measures=measures, risk="linkge")


def test_a_map_without_risk_says_so(data):
    rumap = measure(data, MASKS, measures=[NormalKL()], seed=1)
    assert np.isnan(rumap.risk).all()
    assert any("no risk" in note for note in rumap.notes)
    assert "no release has both risk and utility" in repr(rumap)
    with pytest.raises(InputError, match="No release has both"):
        rumap.frontier()


def test_one_replicate_is_noted(data):
    assert any("once" in note for note in measure(data, MASKS, measures=[NormalKL(), RecordLinkage()], seed=1).notes)
    assert not measure(data, MASKS, measures=[NormalKL(), RecordLinkage()], replicates=2, seed=1).notes


# -- releases made elsewhere ---------------------------------------------------------------------------


def test_releases_by_position_and_by_key_agree(data):
    measures = [RecordLinkage(), NormalKL(), Mahalanobis()]
    released = ruv.Noise(sd=0.3).release(data, 1)
    by_position = measure(data, releases={"noise": released}, measures=measures)
    keyed, other = (
        data.assign(id=np.arange(len(data)) * 7),
        released.assign(id=np.arange(len(data)) * 7).sample(frac=1, random_state=2),
    )
    by_key = measure(keyed, releases={"noise": other}, measures=measures, key="id")
    pd.testing.assert_frame_equal(by_position.to_dataframe(), by_key.to_dataframe(), rtol=1e-12)
    shuffled = measure(data, releases={"noise": other.drop(columns="id").reset_index(drop=True)}, measures=measures)
    # Rows in another order are noticed, and linked as those of a file in which no row is known to be anybody's.
    assert any("not in the order of the data" in note for note in shuffled.notes)
    assert abs(shuffled.columns["linkage"][0] - by_key.columns["linkage"][0]) < 4 * shuffled.columns["linkage_error"][0]
    assert shuffled.columns["KL"][0] == pytest.approx(by_key.columns["KL"][0])


def test_labels_in_another_order_are_refused(data):
    with pytest.raises(InputError, match=r"mixed: .*another order"):
        measure(data, releases={"mixed": data.sample(frac=1, random_state=1)}, measures=[NormalKL()])


def test_a_subsample_is_paired_by_its_key(data):
    keyed = data.assign(id=[f"p{i}" for i in range(len(data))])
    part = keyed.iloc[[5, 3, 80, 41]]
    rumap = measure(keyed, releases={"some": part}, measures=[RecordLinkage()], key="id")
    assert rumap.columns["linkage"][0] == 1.0
    rows = part.drop(columns="id").reset_index(drop=True)
    nobodys = measure(data, releases={"some": rows}, measures=[RecordLinkage()])
    assert nobodys.columns["linkage"][0] == 1.0 and "linkage of some: no row is known" in " ".join(nobodys.notes)
    with pytest.raises(InputError, match=r"some: linkage cannot tell whose rows"):
        measure(data, releases={"some": rows}, measures=[RecordLinkage(one_to_one=True)])
    assert measure(data, releases={"some": rows}, measures=[NormalKL(columns=["a"])]).columns["KL"][0] > 0
    with pytest.raises(InputError, match=r"some: Mahalanobis compares record by record"):
        measure(data, releases={"some": rows}, measures=[Mahalanobis()])


def test_masks_and_releases_share_a_map(data, tmp_path):
    released = ruv.Noise(sd=0.3).release(data, 1)
    rumap = measure(
        data, MASKS, releases={"elsewhere": released}, measures=[RecordLinkage(), NormalKL()], seed=1, replicates=2
    )
    assert rumap.releases == (*map(str, MASKS), "elsewhere")
    assert rumap.techniques == ("Noise", "Microaggregate", "RankSwap", "elsewhere")
    assert rumap[3].mask is None
    assert rumap[0].mask == MASKS[0]
    alone = measure(data, releases={"elsewhere": released}, measures=[RecordLinkage(), NormalKL()])
    assert alone.columns["KL"][0] == rumap.columns["KL"][3]
    assert RUMap.load(rumap.save(tmp_path / "map.nc")).releases == rumap.releases


def test_imputed_copies_are_one_release(data):
    copies = [ruv.Noise(sd=0.5).release(data, s) for s in range(3)]
    rumap = measure(data, releases={"imputed": copies}, measures=[NormalKL(), ImputationLoss(), RecordLinkage()])
    by_hand = np.array([float(NormalKL()(data, c)) for c in copies])
    assert rumap.columns["KL"][0] == pytest.approx(by_hand.mean())
    assert rumap.columns["KL_error"][0] == pytest.approx(by_hand.std(ddof=1) / np.sqrt(3))
    assert rumap.columns["imputation_loss"][0] == pytest.approx(float(ImputationLoss()(data, copies)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: {"releases": {}}, "releases must not be empty"),
        (lambda d: {"releases": [d]}, "releases must be a mapping"),
        (lambda d: {}, "needs masks or releases"),
        (lambda d: {"releases": {"x": d}, "measures": []}, "measures must not be empty"),
        (lambda d: {"releases": {"x": d}, "measures": [NormalKL]}, r"the class NormalKL.*Write NormalKL"),
        (lambda d: {"releases": {"x": d}, "measures": "KL"}, "must be a list of measures"),
        (lambda d: {"releases": {"x": d}, "measures": [lambda a, b: 1.0]}, "must be a measure"),
        (
            lambda d: {"releases": {"x": d}, "measures": [NormalKL(), NormalKL(under="both")]},
            "same column; got KL.*name=",
        ),
        (lambda d: {"releases": {"x": d}, "measures": [NormalKL(name="risk")]}, "name that the map uses already"),
        (lambda d: {"releases": {"x": d}, "key": "nobody"}, "The key is not a column of the original; got nobody"),
        (lambda d: {"releases": {"x": d.drop(columns="y")}, "key": "y"}, "x: The key is not a column of the release"),
        (
            lambda d: {"releases": {"x": d.assign(y=1.0)}, "key": "y"},
            "x: The key y of the release must be unique; got 119 repeated",
        ),
        (
            lambda d: {"releases": {"x": d.assign(y=d.y + 100)}, "key": "y"},
            "x: it has keys that the original does not have; got 120 of 120",
        ),
        (lambda d: {"releases": {"x": d.assign(y=d.y.astype(str))}, "key": "y"}, "keys are float64 in the original"),
        (lambda d: {"releases": {"x": d.assign(y=np.nan)}, "key": "y"}, "missing values; got 120 rows"),
        (
            lambda d: {"releases": {"x": d.drop(columns="b")}},
            "x: KL needs the same columns in both files; got not in the release: b",
        ),
        (lambda d: {"releases": {"x": d.assign(extra=1)}}, "not in the original: extra"),
        (lambda d: {"releases": {"x": "no_such.csv"}}, "x: There is no such data file; got no_such.csv"),
        (lambda d: {"releases": {"x": d}, "replicates": 0}, "replicates must be"),
        (lambda d: {"releases": {"x": d}, "risk": 3}, "score must be"),
        (lambda d: {"releases": {"x": d}, "risk": "reciprocal"}, "not there; got reciprocal"),
        (
            lambda d: {"releases": {"x": d}, "utility": "KL.nothing", "parts": True},
            "utility names a column that is not there",
        ),
        (lambda d: {"masks": [ruv.Noise(sd=1.0)], "releases": {"Noise(sd=1)": d}}, "name of a mask"),
        (lambda d: {"masks": [ruv.Noise(sd=1.0)] * 2}, "same release"),
    ],
)
def test_bad_input(data, change, message):
    settings = {"measures": [NormalKL()], **change(data)}
    with pytest.raises(InputError, match=message):
        measure(data, **settings)


def test_data_that_are_missing_are_asked_for():
    with pytest.raises(InputError, match="original, which is missing"):
        measure(None, releases={"x": [1.0]}, measures=[NormalKL()])


def test_category_that_only_one_file_has(data):
    kinds = data.assign(kind=np.where(data.a > 2, "high", "low"))
    new = kinds.assign(kind=np.where(data.a > 3, "top", kinds.kind))
    rumap = measure(
        kinds,
        releases={"new": new, "same": kinds},
        measures=[Propensity(), IntervalOverlap("y ~ kind"), KAnonymity(keys=["kind"])],
    )
    assert rumap.columns["pMSE"][0] > 0 == rumap.columns["pMSE"][1]
    assert rumap.columns["IO"][0] < rumap.columns["IO"][1] == pytest.approx(0.95)


# -- model and data on one map -------------------------------------------------------------------------


def test_evaluate_takes_measures(data):
    incomes = data["y"].to_numpy()
    belief = ruv.NormalBelief(records=len(incomes), variance=1, prior_variance=5)
    users = {
        "intruder": ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
        "scientist": ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    }
    masks = [ruv.Noise(variance=v) for v in (0.01, 0.1, 1.0)]
    plain = ruv.evaluate(masks, **users)
    both = ruv.evaluate(masks, **users, data=incomes, measures=[RecordLinkage(), NormalKL()], replicates=3, seed=9)
    assert_array_equal(plain.risk, both.risk)
    by_data = measure(incomes, masks, measures=[RecordLinkage(), NormalKL()], replicates=3, seed=9)
    for name in ("linkage", "linkage_error", "KL", "KL_error"):
        assert_array_equal(both.columns[name], by_data.columns[name])
    turned = ruv.evaluate(
        masks, **users, data=incomes, measures=[RecordLinkage(), NormalKL()], seed=9, risk="linkage", utility="KL"
    )
    assert_allclose(turned.utility, 1 / turned.columns["KL"])
    assert_array_equal(turned.risk, turned.columns["linkage"])
    assert len(both.frontier(columns=["risk", "utility", "KL", "linkage"])) >= 1
    with pytest.raises(InputError, match=r"which is missing.*data="):
        ruv.evaluate(masks, **users, measures=[NormalKL()])


# -- the frontier over several columns -----------------------------------------------------------------


def brute(values, better):
    signs = np.array([1 if b == "lower" else -1 for b in better])
    cost = np.array(values).T * signs
    return [not any((c <= own).all() and (c < own).any() for c in cost) for own in cost]


@given(st.integers(1, 5), st.integers(1, 25), st.integers(0, 2**32 - 1), st.integers(2, 6))
@settings(deadline=None, max_examples=60)
def test_undominated_is_the_definition(criteria, points, seed, levels):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, levels, size=(criteria, points)).astype(float)  # many ties
    better = rng.choice(["lower", "higher"], criteria).tolist()
    assert undominated(values, better).tolist() == brute(values, better)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_two_criteria_agree_with_the_map(points, seed):
    risk, utility = np.random.default_rng(seed).integers(0, 5, size=(2, points)).astype(float)
    assert_array_equal(undominated([risk, utility], ["lower", "higher"]), not_dominated(risk, utility))


def test_undominated_skips_nan_and_knows_infinity():
    assert undominated([[1, np.nan, np.inf], [1, 5, 2], [0, 9, 0]], ["lower", "higher", "higher"]).tolist() == [
        True,
        False,
        True,
    ]
    assert not undominated([[np.nan], [1.0]], ["lower", "lower"]).any()
    with pytest.raises(InputError, match="better end"):
        undominated([[1.0], [2.0]], ["lower"])
    with pytest.raises(InputError, match="'lower', 'higher'"):
        undominated([[1.0]], ["up"])
    with pytest.raises(InputError, match="one entry per point"):
        undominated([[1.0], [2.0, 3.0]], ["lower", "lower"])


def test_frontier_by_columns(data):
    measures = [RecordLinkage(), IntervalOverlap(MODEL), NormalKL()]
    rumap = measure(data, MASKS, measures=measures, seed=1)
    listed = frontier(rumap, columns=["linkage", "IO", "KL"])
    mapped = rumap.frontier(columns={"linkage": "lower", "IO": "higher", "KL": "lower"})
    assert listed.releases == mapped.releases
    assert list(listed.risk) == sorted(listed.risk)
    worst = rumap.frontier(columns={"linkage": "higher"})
    assert worst.releases == (rumap.releases[int(np.argmax(rumap.risk))],)
    for columns, message in (
        (["nobody"], "does not have"),
        ([], "must not be empty"),
        (["IO", "IO"], "different from each other"),
        (["IO_error"], "which values of IO_error are better"),
        ({"IO": "up"}, "'lower', 'higher'"),
    ):
        with pytest.raises(InputError, match=message):
            rumap.frontier(columns=columns)
    joined = RUMap.concat([rumap, rumap], names=["one", "two"])
    assert len(joined.frontier(columns=["linkage", "IO", "KL"])) == 2 * len(listed)


def test_table_3_of_karr_from_the_printed_tables():
    """40 of 40 cells, with the weak rule of eq. 11; requiring strictness everywhere would not give them."""
    printed = pd.read_csv(places.REFERENCE / "karr_printed_tables_1_2.csv")
    table = pd.read_csv(places.REFERENCE / "karr_printed_table_3.csv").set_index("method")
    ends = {"risk": "lower", "EO": "higher", "IO": "higher", "KL": "lower"}
    counts = pd.DataFrame(0, index=table.index, columns=table.columns)
    for _, cell in printed.groupby(["correlation", "dimension"]):
        for heading in table.columns:
            names = ["risk", *heading.split("+")]
            on = undominated([cell[n] for n in names], [ends[n] for n in names])
            counts.loc[cell["method"][on], heading] += 1
    pd.testing.assert_frame_equal(counts, table, check_dtype=False)
    assert counts.sum().tolist() == [19, 19, 29, 20, 30]  # the paper's totals 21, 20 and 31 are misprints


# -- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".txt"])
def test_separated_files(tmp_path, data, ending):
    path = tmp_path / f"file{ending}"
    data.to_csv(path, index=False, sep="\t" if ending in (".tsv", ".txt") else ",")
    pd.testing.assert_frame_equal(read_data(path), data)


def test_european_csv_row_labels_and_spaces(tmp_path):
    (tmp_path / "a.csv").write_text('\ufeff"";" age ";"name; first"\nx;1,5;"b;c"\ny;2;"d"\n', encoding="utf-8")
    table = read_data(tmp_path / "a.csv")
    assert list(table.index) == ["x", "y"]
    assert table["age"].tolist() == [1.5, 2.0]
    assert table["name; first"].tolist() == ["b;c", "d"]


def test_stata_and_sas(tmp_path, data):
    labelled = data.assign(kind=pd.Categorical(np.where(data.a > 2, "high", "low")))
    labelled.to_stata(tmp_path / "x.dta", write_index=False)
    back = read_data(tmp_path / "x.dta")
    pd.testing.assert_frame_equal(back[["y", "a", "b"]], data)
    assert back["kind"].tolist() == labelled["kind"].tolist()
    (tmp_path / "x.xpt").write_bytes(xport({"AGE": [30.0, 41.5], "PAY": [-1.25, 1e6]}))
    assert read_data(tmp_path / "x.xpt").to_dict("list") == {"AGE": [30.0, 41.5], "PAY": [-1.25, 1e6]}


def test_parquet_and_spss(tmp_path, data):
    pytest.importorskip("pyarrow")
    data.to_parquet(tmp_path / "x.parquet")
    pd.testing.assert_frame_equal(read_data(tmp_path / "x.parquet"), data)
    pyreadstat = pytest.importorskip("pyreadstat")
    pyreadstat.write_sav(data, str(tmp_path / "x.sav"))
    pd.testing.assert_frame_equal(read_data(tmp_path / "x.sav"), data)
    for version in (5, 8):
        pyreadstat.write_xport(data, str(tmp_path / "x.xpt"), file_format_version=version, table_name="X")
        pd.testing.assert_frame_equal(read_data(tmp_path / "x.xpt"), data, rtol=1e-12)


@pytest.mark.parametrize(
    ("ending", "package"), [(".parquet", "pyarrow"), (".sav", "pyreadstat"), (".xpt", "pyreadstat")]
)
def test_packages_that_are_not_there_are_named(tmp_path, monkeypatch, ending, package):
    for name in ("pyarrow", "fastparquet", "pyreadstat"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / f"x{ending}").write_bytes(b"HEADER RECORD*******LIBV8   HEADER RECORD!!!!!!!")
    with pytest.raises(UnsupportedError, match=f"needs the package {package}.*Install {package}"):
        read_data(tmp_path / f"x{ending}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.xlsx", b"1", "ending.*x.xlsx.*CSV: .csv"),
        ("x", b"1", "ending"),
        ("x.dta.gz", b"1", "ending"),
        ("x.csv", b"", "is empty"),
        ("x.csv", b"a,b\n", "no records"),
        ("x.csv", b"a,a\n1,2\n", "share a name; got a"),
        ("x.csv", b"a,,c\n1,2,3\n", r"without a name; got columns \[2\]"),
        ("x.csv", b"a,b\n1,\xff\n", "UTF-8"),
        ("x.csv", b'a,b\n1,"2\n', "cannot be read as CSV"),
        ("x.dta", b"nonsense", "cannot be read as Stata"),
        ("x.sas7bdat", b"nonsense" * 100, "cannot be read as SAS"),
        ("x.xpt", b"nonsense" * 100, "cannot be read as SAS"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_data(tmp_path / name)


def test_no_file(tmp_path):
    with pytest.raises(InputError, match="no such data file"):
        read_data(tmp_path / "x.csv")
    with pytest.raises(InputError, match="directory"):
        read_data(tmp_path)
    with pytest.raises(InputError, match="named by its path; got int"):
        read_data(3)
    assert len({e for endings in KINDS.values() for e in endings}) == sum(map(len, KINDS.values()))


def test_paths_are_read(tmp_path, data):
    data.to_csv(tmp_path / "o.csv", index=False)
    ruv.Noise(sd=0.2).release(data, 1).to_csv(tmp_path / "r.csv", index=False)
    by_path = measure(
        tmp_path / "o.csv", releases={"r": str(tmp_path / "r.csv")}, measures=[NormalKL(), RecordLinkage()]
    )
    by_frame = measure(data, releases={"r": ruv.Noise(sd=0.2).release(data, 1)}, measures=[NormalKL(), RecordLinkage()])
    assert_allclose(by_path.columns["KL"], by_frame.columns["KL"], rtol=1e-9)


def test_comparison_is_reusable(data):
    comparison = Comparison([NormalKL()], data)
    comparison.add("same", data)
    comparison.add("shifted", data + 1)
    assert comparison.columns()["KL"][0] == 0 < comparison.columns()["KL"][1]
    assert comparison.score_column("risk") is None


def xport(columns: dict[str, list[float]]) -> bytes:
    """A SAS transport file (version 5) of numbers, written from its specification."""
    stamp = b"01JAN70:00:00:00"

    def card(text: bytes) -> bytes:
        return text.ljust(80)

    def ibm(x: float) -> bytes:
        if x == 0:
            return bytes(8)
        sign, x, power = (0x80 if x < 0 else 0), abs(x), 64
        while x >= 1:
            x, power = x / 16, power + 1
        while x < 1 / 16:
            x, power = x * 16, power - 1
        return bytes([sign | power]) + int(x * 2**56).to_bytes(7, "big")

    head = b"HEADER RECORD*******%-8sHEADER RECORD!!!!!!!"
    out = (
        card(head % b"LIBRARY " + b"0" * 30)
        + card(b"SAS     SAS     SASLIB  9.4     X64     ".ljust(64) + stamp)
        + card(stamp)
    )
    out += card(head % b"MEMBER  " + b"000000000000000001600000000140") + card(head % b"DSCRPTR " + b"0" * 30)
    out += card(b"SAS     DATA    SASDATA 9.4     X64     ".ljust(64) + stamp) + card(stamp)
    out += card(head % b"NAMESTR " + b"%010d" % len(columns) + b"0" * 20)
    names = b""
    for i, name in enumerate(columns):
        numbers = b"".join(v.to_bytes(2, "big") for v in (1, 0, 8, i + 1))
        field = (
            numbers
            + name.encode().ljust(8)
            + b" " * 40
            + b" " * 8
            + bytes(8)
            + b" " * 8
            + bytes(4)
            + (8 * i).to_bytes(4, "big")
        )
        names += field.ljust(140, b"\0")
    out += names.ljust(-(-len(names) // 80) * 80) + card(head % b"OBS     " + b"0" * 30)
    rows = b"".join(ibm(v) for row in zip(*columns.values(), strict=True) for v in row)
    return out + rows.ljust(-(-len(rows) // 80) * 80)


# -- every measure that is offered ---------------------------------------------------------------------

SETTINGS = {
    "IntervalOverlap": {"model": MODEL},
    "EllipsoidOverlap": {"model": MODEL},
    "CoefficientChanges": {"model": MODEL},
    "AttributeDisclosure": {"known": ["a"], "unknown": "y"},
    "IntruderError": {"known": ["a"], "unknown": "y"},
    "KAnonymity": {"keys": ["kind"]},
    "LDiversity": {"keys": ["kind"], "target": "group"},
    "TCloseness": {"keys": ["kind"], "target": "group"},
    "IndividualRisk": {"keys": ["kind", "group"], "weights": "cell"},
    "HouseholdRisk": {"keys": ["kind"], "household": "cell"},
    "SkinnerElliot": {"keys": ["kind", "group", "cell"], "population": 1200},
    "KMap": {"keys": ["kind"], "population": pd.DataFrame({"kind": list("pqrpqr")})},
    "PopulationUniques": {"keys": ["kind"], "population": pd.DataFrame({"kind": list("pqrpqr")})},
    "DeltaPresence": {"keys": ["kind"], "population": pd.DataFrame({"kind": list("pqrpqr")})},
    "Disclosure": {"keys": ["kind", "cell"], "target": "group"},
    "ReplicatedUniques": {"keys": ["kind", "cell"]},
    "ClosestRecord": {"known": ["y", "a", "b"]},
    "Linkability": {"known": ["y"], "other": ["a", "b"]},
    "Membership": {"known": ["y", "a"], "holdout": pd.DataFrame({"y": [0.0, 1.0, 2.5], "a": [2.0, 1.0, 2.0]})},
    "TableUtility": {"columns": ["kind", "group", "y"]},
    "TrainOnRelease": {"target": "y", "predictors": ["a", "b"], "estimator": "linear"},
    "SampleUniques": {"keys": ["kind", "group"]},
    "SpecialUniques": {"keys": ["kind", "group"]},
    "LogLinearUniques": {"keys": ["kind", "group"], "population": 1200},
    "PitmanUniques": {"keys": ["kind", "group", "cell"], "population": 1200},
    "PoissonGammaUniques": {"keys": ["kind", "group"], "population": 1200},
    "Cluster": {"clusters": 8},
    "ClusteredPropensity": {"clusters": 8, "columns": ["y", "a", "b"]},
    "IntervalDisclosure": {"columns": ["y", "a", "b"], "width_sd": 0.1},
    **{
        key: {"columns": ["y", "a", "b"]}
        for key in ["NormalKL", "MD", "MCM", "Eigenvalues", "Mahalanobis", "IL1s", "VarianceInflation"]
    },
    **{
        key: {"columns": ["y", "a", "b"]}
        for key in ["EnergyDistance", "Wasserstein", "SlicedWasserstein", "ImputationLoss"]
    },
    **{key: {"columns": ["y", "a"]} for key in ["DensityKL", "InformationLoss"]},
    **{
        key: {"columns": ["kind", "group"]}
        for key in ["Hellinger", "TotalVariation", "EntropyChange", "CramersV", "PearsonC"]
    },
    **{key: {"columns": ["kind", "group"]} for key in ["EntropyLoss", "LogLinearLoss"]},
}


@pytest.fixture(scope="module")
def mixed(data):
    rng = np.random.default_rng(8)
    return data.assign(
        kind=rng.choice(["p", "q", "r"], len(data)),
        group=rng.choice(["u", "v"], len(data)),
        cell=rng.integers(1, 21, len(data)),
    )


@pytest.mark.parametrize("label", sorted(labelled_measures()))
def test_every_measure_makes_a_map(label, mixed):
    kind = labelled_measures()[label]
    item = kind(**SETTINGS.get(kind.__name__, {}), name=f"the {label}")
    assert kind.direction in ("lower", "higher") and kind.range[0] <= kind.range[1] and kind.reference
    worse = mixed.assign(kind=mixed["kind"].to_numpy()[::-1], y=mixed["y"] + np.linspace(-2, 2, len(mixed)))
    same, other = [mixed, mixed.copy()], [worse, worse.copy()]
    copies = kind is ImputationLoss
    releases = {"same": same if copies else mixed, "worse": other if copies else worse}
    rumap = measure(mixed, releases=releases, measures=[item])
    values = rumap.columns[item.name]
    assert np.isfinite(values).all()
    low, high = kind.range
    assert low - 1e-9 <= values.min() and values.max() <= high + 1e-9
    if kind.role == "utility":
        # Nothing is more useful than the file itself.
        sign = 1 if kind.direction == "lower" else -1
        assert sign * values[0] <= sign * values[1] + 1e-12
        assert_array_equal(
            rumap.utility, rumap.columns[item.name] if kind.direction == "higher" else rumap.utility_score.score(values)
        )
    again = pickle.loads(pickle.dumps(item.prepare(mixed)))
    assert float(again(releases["worse"])) == values[1]
    assert item.settings()["name"] == f"the {label}"


def test_settings_name_measures_that_exist():
    assert set(SETTINGS) <= {c.__name__ for c in labelled_measures().values()}


def test_the_negative_score():
    score = as_score("negative")
    assert score([2.0, -3.0, np.inf]).tolist() == [-2.0, 3.0, -np.inf]
    assert score.inverse(-2.0) == 2.0
    assert score.error([2.0, 5.0], [0.1, 0.0]).tolist() == [0.1, 0.0]
    with pytest.raises(InputError, match="names a column"):
        measure([1.0, 2.0], releases={"x": [1.0, 2.5]}, measures=[NormalKL()], utility=Column("nothing", "negative"))


def test_the_layout_of_data_in_memory_does_not_matter_to_workers(data):
    ragged = pd.DataFrame(np.repeat(data.to_numpy(), 2, axis=0), columns=data.columns)[::2].reset_index(drop=True)
    measures = [
        IntervalOverlap(MODEL),
        EllipsoidOverlap(MODEL),
        NormalKL(),
        Mahalanobis(),
        Propensity(),
        RecordLinkage(),
    ]
    alone = measure(ragged, MASKS, measures=measures, replicates=3, seed=4)
    with ProcessPoolExecutor(2) as pool:
        together = measure(ragged, MASKS, measures=measures, replicates=3, seed=4, executor=pool)
    for name, values in alone.columns.items():
        assert values.tobytes() == together.columns[name].tobytes(), name


def test_releases_made_elsewhere_are_measured_by_workers_too(data, tmp_path):
    data.to_csv(tmp_path / "r.csv", index=False)
    releases = {"file": str(tmp_path / "r.csv"), "frame": data + 1, "copies": [data, data + 0.5]}
    alone = measure(data, releases=releases, measures=[NormalKL(), IntervalOverlap(MODEL)])
    with ProcessPoolExecutor(2) as pool:
        together = measure(data, releases=releases, measures=[NormalKL(), IntervalOverlap(MODEL)], executor=pool)
    for name, values in alone.columns.items():
        assert_array_equal(values, together.columns[name])


# -- measures of somebody's own, and odd files ---------------------------------------------------------


class Own:
    name, role = "own", "utility"

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, original: Any, released: Any) -> Any:
        return self.value


@pytest.mark.parametrize("value", [None, "0.5", 1 + 2j, np.complex128(1), [0.5], np.array([0.5, 1.0]), pd.NA, object()])
def test_a_measure_of_ones_own_must_give_a_number(data, value):
    with pytest.raises(InputError, match="The measure own must give back one number; got"):
        measure(data, MASKS, measures=[RecordLinkage(), Own(value)])
    with pytest.raises(InputError, match="The measure own must give back one number; got"):
        measure(data, releases={"r": data}, measures=[RecordLinkage(), Own(value)])


def test_a_measure_that_gives_no_number_says_so(data):
    rumap = measure(data, MASKS, measures=[RecordLinkage(), Own(np.nan)])
    assert f"own is not a number (NaN) for {len(MASKS)} of {len(MASKS)} releases." in rumap.notes
    assert not any("NaN" in note for note in measure(data, MASKS, measures=[RecordLinkage(), Own(0.5)]).notes)


@pytest.mark.parametrize(
    "value", [decimal.Decimal("0.5"), 0.5, np.float32(0.5), np.array(0.5), fractions.Fraction(1, 2)]
)
def test_numbers_of_every_kind_are_numbers(data, value, tmp_path):
    rumap = measure(data, MASKS[:1], measures=[RecordLinkage(), Own(value)])
    assert rumap.columns["own"].tolist() == [0.5]
    threshold = decimal.Decimal(str(float(rumap.risk[0]) + 1))
    assert rumap.choose(max_risk=threshold).utility == 0.5
    assert "The chosen release" in rumap.report(tmp_path / "report.md", max_risk=threshold).read_text()


def test_columns_of_lists_are_refused_by_name(data, tmp_path):
    nested = data.assign(l=[[i] for i in range(len(data))], d=[{"x": i} for i in range(len(data))])
    nested.to_parquet(tmp_path / "nested.parquet")
    for item in (RecordLinkage(), NormalKL(), ruv.measures.KAnonymity(keys=["l"]), ruv.measures.Marginals()):
        with pytest.raises(InputError, match=r"one value per record; got lists or the like in l"):
            item(nested, nested)
        with pytest.raises(InputError, match=r"one value per record; got lists or the like in l"):
            measure(tmp_path / "nested.parquet", releases={"r": nested}, measures=[item])
    assert measure(nested, releases={"r": nested}, measures=[RecordLinkage(known=["a"])]).columns["linkage"][0] > 0.9
