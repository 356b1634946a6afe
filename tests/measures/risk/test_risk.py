"""Measures of risk: linkage, attribute and interval disclosure, uniqueness.

Checked by brute force, by hand and by simulation.
"""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import places
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy import integrate, stats
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.measures.risk import neighbours, uniqueness
from ruvdecision.measures.risk.disclosure import (
    AttributeDisclosure,
    ClusteringAttack,
    IntervalDisclosure,
    IntruderError,
)
from ruvdecision.measures.risk.diversity import LDiversity
from ruvdecision.measures.risk.fellegi_sunter import AgreementMixture, FellegiSunter, fit_mixture
from ruvdecision.measures.risk.linkage import RecordLinkage
from ruvdecision.measures.risk.neighbours import BoxTree, nearest, share_of_own_links
from ruvdecision.measures.risk.population_uniques import (
    LogLinearUniques,
    PitmanUniques,
    PoissonGammaUniques,
    fit_pitman,
)
from ruvdecision.measures.risk.uniqueness import KAnonymity, SampleUniques, SpecialUniques

approx = pytest.approx
BACK = "original to released"
MASKS = {
    "Micir(p,10)": "Micir_p_10", "Resamp(3)": "Resamp_3", "Micp(p,3)": "Micp_p_3", "Rank(.15)": "Rank_15",
    "Micm(3,7)": "Micm_3_7", "Micm(p,3)": "Micm_p_3", "Micz(p,3)": "Micz_p_3", "Noise(.16)": "Noise_16",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder() -> Path:
    return places.REFERENCE


@pytest.fixture(scope="module")
def numbers(folder: Path) -> dict[str, float]:
    return {r["name"]: r["value"] for r in json.loads((folder / "empirical.json").read_text())}


def brute(original, released, link="released to original"):
    """Shares by the full matrix of distances, with ties to nine digits."""
    a, b = (released, original) if link != BACK else (original, released)
    d = cdist(a, b)
    least = d.min(axis=1, keepdims=True)
    tie = d <= least * (1 + 1e-9) + 1e-11
    return np.diag(tie) / tie.sum(axis=1)


# -- the papers' and the reference's numbers ---------------------------------------------------------------


@pytest.mark.parametrize("name", MASKS)
def test_reference_linkage(name: str, folder: Path, numbers: dict[str, float]) -> None:
    x = np.loadtxt(folder / "karr_p3" / "karr_p3_orig.csv", delimiter=",")
    y = np.loadtxt(folder / "karr_p3" / f"karr_p3_{MASKS[name]}.csv", delimiter=",")
    assert RecordLinkage()(x, y) == approx(numbers[f"p3 {name} NN std rel->orig"], abs=1e-12)
    assert RecordLinkage(link=BACK)(x, y) == approx(numbers[f"p3 {name} NN std orig->rel"], abs=1e-11)
    assert RecordLinkage(distance="mahalanobis")(x, y) == approx(numbers[f"p3 {name} NN mah rel->orig"], abs=1e-12)
    assert FellegiSunter()(x, y) == approx(numbers[f"p3 {name} FS tau=.05"], abs=1e-11)


def test_reference_small_cases(numbers: dict[str, float]) -> None:
    assert (
        RecordLinkage()([0.0, 1, 2, 10], [0.1, 1.9, 0.9, 10.3])
        == numbers["NN linkage X=(0,1,2,10) Y=(.1,1.9,.9,10.3)"]
        == 0.5
    )
    assert RecordLinkage()([0.0, 1], [0.5, 0.5]) == numbers["NN linkage, tie Y=(.5,.5) X=(0,1)"] == 0.5
    assert RecordLinkage()([0.0, 1, 7], [0.0, 1, 7]) == numbers["NN linkage identical"] == 1.0
    value = FellegiSunter()([0.0, 10, 20], [0.1, 10.1, 50])
    assert value == approx(numbers["Fellegi-Sunter X=(0,10,20) Y=(.1,10.1,50) tau=.05"], abs=1e-12)
    assert value == approx(7 / 9)  # two correct links, and one that all three share


def test_reference_uniques(folder: Path, numbers: dict[str, float]) -> None:
    for which, file in (("orig", "cat_orig.csv"), ("swapped", "cat_swapped.csv")):
        table = pd.read_csv(folder / file, header=None, names=["sex", "region", "age"])
        assert SampleUniques()(table, table) == numbers[f"cat uniques {which}"]
        assert KAnonymity(["sex", "region"])(table, table) == numbers[f"cat k-anonymity sex x region {which}"]


# -- nearest neighbours ------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 5), st.booleans(), st.sampled_from([0, 250_000]))
def test_neighbours_are_those_of_a_full_scan(seed: int, n: int, p: int, lattice: bool, small: int) -> None:
    rng = np.random.default_rng(seed)
    draw = (lambda: rng.integers(0, 3, size=(n, p)).astype(float)) if lattice else (lambda: rng.standard_normal((n, p)))
    x, y = draw(), draw()
    tree = BoxTree.of(x)
    with mock.patch.object(neighbours, "SMALL", small):  # pair by pair, and by the tree
        np.testing.assert_allclose(share_of_own_links(tree, y, x), brute(x, y), atol=1e-12)
        links = nearest(tree, y)
    d = cdist(y, x)
    least = d.min(axis=1)
    np.testing.assert_allclose(links.distance, least, atol=1e-12)
    for i in range(n):
        assert (
            links.points[links.edges[i] : links.edges[i + 1]].tolist()
            == np.flatnonzero(d[i] <= least[i] * (1 + 1e-9) + 1e-11).tolist()
        )


def test_neighbours_agree_with_scipy_on_a_larger_file() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3000, 6))
    for spread in (0.01, 0.4, 3.0):
        y = x + spread * rng.standard_normal(x.shape)
        theirs = cKDTree(x).query(y)[1]
        assert share_of_own_links(BoxTree.of(x), y, x).mean() == approx((theirs == np.arange(3000)).mean(), abs=1e-12)
        assert np.array_equal(nearest(BoxTree.of(x), y).points, theirs)


def test_weights_stand_for_equal_points() -> None:
    x = np.array([[0.0], [0.0], [0.0], [1.0]])
    tree = BoxTree.of(np.array([[0.0], [1.0]]), np.array([3.0, 1.0]))
    assert share_of_own_links(tree, x, x).tolist() == [1 / 3, 1 / 3, 1 / 3, 1.0]


# -- record linkage ----------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["standardised", "mahalanobis", "rank"]),
    st.sampled_from(["released to original", BACK]),
)
def test_linkage_is_brute_force(seed: int, distance: str, link: str) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 3)) * [1, 10, 0.1] + 5
    y = x + 0.3 * rng.standard_normal(x.shape) * x.std(axis=0)
    if distance == "standardised":
        a, b = x / x.std(axis=0, ddof=1), y / x.std(axis=0, ddof=1)
    elif distance == "mahalanobis":
        root = np.linalg.cholesky(np.linalg.inv(np.cov(x.T)))
        a, b = x @ root, y @ root
    else:
        a, b = stats.rankdata(x, axis=0) / 40, stats.rankdata(y, axis=0) / 40
    measure = RecordLinkage(distance=distance, link=link)
    np.testing.assert_allclose(measure.per_record(x, y), brute(a, b, link), atol=1e-12)
    assert measure(x, y) == approx(brute(a, b, link).mean(), abs=1e-12)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(["standardised", "mahalanobis", "rank"]), st.booleans())
def test_linkage_does_not_care_about_order_or_units(seed: int, distance: str, one_to_one: bool) -> None:
    # Ranks tie, and of several assignments that cost the same only one is found: which one depends on the order.
    assume(not (one_to_one and distance == "rank"))
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((30, 2))
    y = x + 0.5 * rng.standard_normal(x.shape)
    measure = RecordLinkage(distance=distance, one_to_one=one_to_one)
    base = measure(x, y)
    shuffled = rng.permutation(30)
    assert measure(x[shuffled], y[shuffled]) == approx(base, abs=1e-12)
    scale, shift = np.array([1e3, 2e-3]), np.array([-5.0, 70.0])
    assert measure(x * scale + shift, y * scale + shift) == approx(base, abs=1e-12)
    if distance == "mahalanobis":
        mix = np.array([[2.0, 1.0], [-1.0, 1.5]])
        assert measure(x @ mix, y @ mix) == approx(base, abs=1e-12)
    if distance == "rank":
        assert measure(np.exp(x), y**3) == approx(base, abs=1e-12)  # each file has its own monotone recoding


def test_standardising_keeps_ties() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 4, size=(300, 3)).astype(float)
    y = np.clip(x + rng.integers(-1, 2, size=x.shape), 0, 3)
    sd = x.std(axis=0, ddof=1)
    expected = brute(x / sd, y / sd).mean()
    assert RecordLinkage()(x, y) == approx(expected, abs=1e-12)
    # Tenths are not exact in binary; the ties must be the same ones.
    assert RecordLinkage()(x / 10 + 0.1, y / 10 + 0.1) == approx(expected, abs=1e-12)


def test_one_to_one_by_all_permutations() -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        x = rng.standard_normal((6, 2))
        y = x + rng.standard_normal(x.shape)
        d = cdist(y / x.std(axis=0, ddof=1), x / x.std(axis=0, ddof=1), "sqeuclidean")
        best = min(itertools.permutations(range(6)), key=lambda s: sum(d[i, s[i]] for i in range(6)))
        assert RecordLinkage(one_to_one=True)(x, y) == approx(np.mean([best[i] == i for i in range(6)]))


def test_one_to_one_shares_between_equal_rows() -> None:
    # Two equal releases: either exchange costs the same, so each original is found with probability one half.
    assert RecordLinkage(one_to_one=True).per_record([0.0, 1.0, 5.0], [0.5, 0.5, 5.0]).tolist() == [0.5, 0.5, 1.0]
    assert RecordLinkage(one_to_one=True)(np.zeros(4), np.zeros(4)) == 0.25


def test_one_to_one_says_what_it_holds() -> None:
    with pytest.raises(UnsupportedError, match="matrix of all distances"):
        RecordLinkage(one_to_one=True)(np.zeros(15_001), np.zeros(15_001))


def test_categories_cost_the_same_whichever_mismatch() -> None:
    x = pd.DataFrame({"region": ["n", "s", "e", "n"], "age": [10.0, 20.0, 30.0, 40.0]})
    y = pd.DataFrame({"region": ["n", "s", "w", "n"], "age": [11.0, 21.0, 31.0, 39.0]})  # "w" is unseen in the original
    differ = 1 - (0.5**2 + 0.25**2 + 0.25**2)
    gap = (y["region"].to_numpy()[:, None] != x["region"].to_numpy()) * 2 / differ
    gap = gap + (y["age"].to_numpy()[:, None] - x["age"].to_numpy()) ** 2 / x["age"].var()
    links = RecordLinkage().links(x, y)
    assert links["linked"].tolist() == gap.argmin(axis=1).tolist()
    np.testing.assert_allclose(links["distance"], np.sqrt(gap.min(axis=1)))
    assert RecordLinkage()(x, y) == approx((gap.argmin(axis=1) == np.arange(4)).mean())


def test_files_of_categories_count_all_ties() -> None:
    rng = np.random.default_rng(4)
    x = pd.DataFrame({"a": rng.choice(list("uvw"), 500), "b": rng.choice([True, False], 500)})
    shares = RecordLinkage().per_record(x, x)
    sizes = x.groupby(["a", "b"])["a"].transform("size")
    np.testing.assert_allclose(shares, 1 / sizes)


def test_known_columns_and_constants() -> None:
    x = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [7.0, 7.0, 7.0], "c": [3.0, 1.0, 2.0]})
    y = pd.DataFrame({"a": [3.0, 2.0, 1.0], "b": [9.0, 1.0, 4.0], "c": [3.0, 1.0, 2.0]})
    assert RecordLinkage(known="c")(x, y) == 1.0
    assert RecordLinkage(known=["a"])(x, y) == approx(1 / 3)
    for distance in ("standardised", "mahalanobis", "rank"):
        assert RecordLinkage(known="b", distance=distance)(x, y) == approx(1 / 3)  # nothing tells records apart
        assert RecordLinkage(known=["b", "c"], distance=distance)(x, y) == 1.0
    assert RecordLinkage()([3.0], [4.0]) == 1.0


def test_links_list_ties_and_directions() -> None:
    links = RecordLinkage().links([0.0, 1.0, 4.0], [0.5, 0.5, 3.0])
    assert links[["row", "linked", "weight"]].to_numpy().tolist() == [
        [0, 0, 0.5],
        [0, 1, 0.5],
        [1, 0, 0.5],
        [1, 1, 0.5],
        [2, 2, 1.0],
    ]
    back = RecordLinkage(link=BACK).links([0.0, 1.0, 4.0], [0.5, 0.5, 3.0])
    assert back[["row", "linked"]].to_numpy().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2]]


def test_knowledge_with_error() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((400, 3))
    exact = RecordLinkage()(x, x)
    some = RecordLinkage(error_sd=0.3, draws=20, seed=1)(x, x)
    much = RecordLinkage(error_sd=2.0, draws=20, seed=1)(x, x)
    assert exact == 1.0 and exact > some + 10 * some.error and some > much + 10 * (some.error + much.error)
    assert some.error > 0 and exact.error == 0
    # By hand: the same noise added outside gives the same law, within four standard errors.
    by_hand = [
        brute(noisy / x.std(axis=0, ddof=1), x / x.std(axis=0, ddof=1)).mean()
        for noisy in x + 0.3 * rng.standard_normal((20, *x.shape))
    ]
    assert abs(some - np.mean(by_hand)) < 4 * np.hypot(some.error, np.std(by_hand, ddof=1) / np.sqrt(20))
    assert float(RecordLinkage(error_sd=0.3, draws=20, seed=1)(x, x)) == float(some)
    assert RecordLinkage(error_sd={0: 0.0})(x, x) == 1.0
    own = RecordLinkage(error_sd=0.3, seed=np.random.default_rng(2))
    assert float(own(x, x)) == float(own(x, x))  # a measure does not change by being used


@pytest.mark.slow
def test_wrong_categories() -> None:
    x = pd.DataFrame({"a": list("abcdefgh")})
    value = RecordLinkage(error_rate=0.25, draws=400, seed=3)(x, x)
    # A released record shares its link with all originals told the same as it; if there are none, with everybody.
    rng = np.random.default_rng(6)
    told = np.arange(8) + np.where(rng.random((20000, 8)) < 0.25, rng.integers(1, 8, (20000, 8)), 0)
    told %= 8
    share = [
        (row[i] == i) / max((row == i).sum(), 1) + (0 if (row == i).any() else 1 / 8)
        for row in told[:4000]
        for i in range(8)
    ]
    assert abs(value - np.mean(share)) < 4 * (value.error + np.std(share) / np.sqrt(len(share)))


def test_a_subsample_is_paired_by_its_labels() -> None:
    x = pd.DataFrame({"a": [0.0, 1.0, 2.0, 9.0]}, index=["w", "x", "y", "z"])
    y = x.loc[["z", "x"]] + 0.1
    assert RecordLinkage()(x, y) == 1.0
    assert RecordLinkage(link=BACK).per_record(x, y).tolist()[1::2] == [1.0, 1.0]
    assert np.isnan(RecordLinkage(link=BACK).per_record(x, y)[[0, 2]]).all()
    assert RecordLinkage()(x, y.reset_index(drop=True)).parts["linked"] == 0
    with pytest.raises(InputError, match="more rows"):
        RecordLinkage(link=BACK)(y, x)
    with pytest.raises(InputError, match="whose rows"):
        RecordLinkage()(y, x)
    with pytest.raises(InputError, match="unique row labels"):
        RecordLinkage()(x.set_axis(["w", "w", "y", "z"]), y)


def test_missing_values_are_refused_or_left_out() -> None:
    x = pd.DataFrame({"a": [0.0, 1.0, np.nan, 9.0], "b": [1.0, 2.0, 3.0, 4.0]}, index=list("wxyz"))
    y = pd.DataFrame({"a": [0.0, np.nan, 2.0, 9.0], "b": [1.0, 2.0, 3.0, 4.0]}, index=range(4))
    with pytest.raises(InputError, match="columns a"):
        RecordLinkage(missing="raise")(x, y)
    value = RecordLinkage(missing="omit")(x, y)
    assert value == 1.0 and value.parts["omitted"] == 1
    shares = RecordLinkage(missing="omit").per_record(x, y)
    assert shares[[0, 3]].tolist() == [1.0, 1.0] and np.isnan(shares[[1, 2]]).all()
    assert RecordLinkage(known="b")(x, y) == 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"distance": "cosine"}, "standardised"),
        ({"link": "both"}, "released to original"),
        ({"error_sd": -1}, "error_sd"),
        ({"error_rate": 1.5}, "error_rate"),
        ({"draws": 3}, "makes none"),
        ({"draws": 0}, "draws"),
        ({"seed": "x"}, "seed"),
        ({"known": []}, "at least one"),
        ({"missing": "guess"}, "missing"),
    ],
)
def test_bad_settings(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        RecordLinkage(**arguments)


def test_bad_files() -> None:
    x = pd.DataFrame({"age": [1.0, 2.0, 4.0], "town": ["a", "b", "c"], "twice": [2.0, 4.0, 8.0]})
    with pytest.raises(InputError, match="'age'"):
        RecordLinkage(known="aeg")(x, x)
    with pytest.raises(InputError, match="not in the release: twice"):
        RecordLinkage()(x, x[["age", "town"]])
    with pytest.raises(UnsupportedError, match="categories in town"):
        RecordLinkage(distance="mahalanobis")(x, x)
    with pytest.raises(UnsupportedError, match="unordered categories in town"):
        RecordLinkage(distance="rank")(x, x)
    with pytest.raises(InputError, match="collinear age, twice"):
        RecordLinkage(known=["age", "twice"], distance="mahalanobis")(x, x)
    with pytest.raises(InputError, match="one kind"):
        RecordLinkage(known="age")(x, x.assign(age=["1", "2", "4"]))
    with pytest.raises(InputError, match="cannot be about"):
        RecordLinkage(error_sd={"town": 1.0})(x, x)
    with pytest.raises(InputError, match="no known column"):
        RecordLinkage(known="age", error_rate=0.1)(x, x)
    with pytest.raises(InputError, match="finite"):
        RecordLinkage(known="age")(x, x.assign(age=[1.0, np.inf, 2.0]))


def test_times_and_ordered_categories() -> None:
    when = pd.to_datetime(["2020-01-01", "2020-01-05", "2020-03-01"])
    size = pd.Categorical(["s", "m", "l"], categories=["s", "m", "l"], ordered=True)
    x = pd.DataFrame({"when": when, "size": size})
    for distance in ("standardised", "rank"):
        assert RecordLinkage(distance=distance)(x, x.assign(when=when + pd.Timedelta("1D"))) == 1.0


def test_more_noise_is_less_linkage() -> None:
    rng = np.random.default_rng(7)
    x, e = rng.standard_normal((500, 4)), rng.standard_normal((500, 4))
    rates = [RecordLinkage()(x, x + s * e) for s in (0, 0.1, 0.3, 1.0, 3.0)]
    assert rates == sorted(rates, reverse=True) and rates[0] == 1.0 and rates[-1] < 0.05


def test_the_original_is_prepared_once() -> None:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((50, 2))
    prepared = RecordLinkage().prepare(x)
    for s in (0.1, 0.5):
        y = x + s
        assert float(prepared(y)) == float(RecordLinkage()(x, y))
    assert prepared.state.tree is prepared.state.tree
    assert float(pickle.loads(pickle.dumps(prepared))(x)) == 1.0


# -- Fellegi and Sunter ------------------------------------------------------------------------------------


def slow_fellegi_sunter(x, y, tolerance=0.05, iterations=200):
    """All pairs in a matrix, EM over pairs."""
    n, p = x.shape
    gamma = (np.abs(y[:, None, :] - x[None]) <= tolerance * x.std(axis=0, ddof=1)).reshape(-1, p).astype(float)
    m, u, w = np.full(p, 0.9), gamma.mean(axis=0).clip(1e-12, 1 - 1e-12), 1 / n
    for _ in range(iterations):
        a = w * np.prod(np.where(gamma > 0, m, 1 - m), axis=1)
        b = (1 - w) * np.prod(np.where(gamma > 0, u, 1 - u), axis=1)
        g = a / (a + b)
        w = g.mean()
        m, u = (g @ gamma / g.sum()).clip(1e-12, 1 - 1e-12), ((1 - g) @ gamma / (1 - g).sum()).clip(1e-12, 1 - 1e-12)
    weight = np.log2(np.prod(np.where(gamma > 0, m / u, (1 - m) / (1 - u)), axis=1)).reshape(len(y), n)
    tie = weight >= weight.max(axis=1, keepdims=True) - 1e-9
    return np.diag(tie) / tie.sum(axis=1), m, u, w


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_fellegi_sunter_is_brute_force(seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((30, p))
    y = x + 0.05 * rng.standard_normal(x.shape)
    shares, m, u, w = slow_fellegi_sunter(x, y)
    value = FellegiSunter()(x, y)
    np.testing.assert_allclose(value.records, shares, atol=1e-9)
    np.testing.assert_allclose(value.table["m"], m, rtol=1e-6)
    np.testing.assert_allclose(value.table["u"], u, rtol=1e-6)
    assert value.parts["prevalence"] == approx(w, rel=1e-6)


def test_em_never_lowers_the_likelihood() -> None:
    rng = np.random.default_rng(9)
    counts = rng.integers(1, 50, size=8).astype(float)
    bits = (np.arange(8)[:, None] >> np.arange(3)) & 1

    def score(fit: AgreementMixture) -> float:
        a = fit.prevalence * np.prod(np.where(bits, fit.m, 1 - fit.m), axis=1)
        b = (1 - fit.prevalence) * np.prod(np.where(bits, fit.u, 1 - fit.u), axis=1)
        return float(counts @ np.log(a + b))

    scores = [score(fit_mixture(counts, prevalence=0.2, iterations=k)) for k in range(12)]
    assert all(b >= a - 1e-9 for a, b in itertools.pairwise(scores)) and scores[-1] > scores[0]


def test_match_probabilities_are_bayes() -> None:
    fit = AgreementMixture(np.array([0.9, 0.8]), np.array([0.1, 0.3]), 0.2)
    both = 0.2 * 0.9 * 0.8 / (0.2 * 0.9 * 0.8 + 0.8 * 0.1 * 0.3)
    assert fit.probabilities(np.array([3]))[0] == approx(both)
    assert fit.weights(np.array([0]))[0] == approx(np.log2(0.1 / 0.9 * 0.2 / 0.7))
    rng = np.random.default_rng(10)
    x = rng.standard_normal((200, 4))
    y = x + 0.005 * rng.standard_normal(x.shape)
    chances = FellegiSunter().match_probabilities(x, y)
    assert chances.mean() == approx(FellegiSunter()(x, y).parts["expected"]) and chances.mean() > 0.9


def test_fellegi_sunter_takes_categories_and_units() -> None:
    rng = np.random.default_rng(11)
    x = pd.DataFrame({"town": rng.choice(list("abcdefghij"), 60), "age": rng.integers(20, 60, 60).astype(float)})
    y = x.assign(age=x["age"] + rng.integers(-1, 2, 60))
    one = FellegiSunter(tolerance={"age": 1.0})(x, y)
    table = x.assign(age=x["age"] * 1000), y.assign(age=y["age"] * 1000)
    assert FellegiSunter(tolerance={"age": 1000.0})(*table) == approx(float(one), abs=1e-12)
    sd = x["age"].std()
    assert FellegiSunter(tolerance_sd={"age": 1 / sd})(x, y) == approx(float(one), abs=1e-12)
    order = rng.permutation(60)
    assert FellegiSunter(tolerance={"age": 1.0})(x.iloc[order], y.iloc[order]) == approx(float(one), abs=1e-9)
    renamed = FellegiSunter(tolerance={"age": 1.0})(x, y.assign(town=y["town"].replace("a", "new")))
    assert renamed < one  # an unseen category agrees with nobody


def test_fellegi_sunter_within_a_share() -> None:
    x, y = pd.DataFrame({"pay": [100.0, 200.0, -50.0, 0.0]}), pd.DataFrame({"pay": [105.0, 189.0, -52.5, 0.0]})
    order, first, last = FellegiSunter(tolerance_share=0.05)._agreement_of_columns(x, y)
    found = [sorted(order[a:b].tolist()) for a, b in zip(first[0], last[0], strict=True)]
    assert found == [[0], [], [2], [3]]  # 189 is 5.5 % below 200
    assert FellegiSunter(tolerance_share={"pay": 0.06})._agreement_of_columns(x, y)[2][0, 1] == 4
    with pytest.raises(InputError, match="numeric column"):
        FellegiSunter(tolerance_share={"town": 0.1})(x.assign(town="a"), y.assign(town="a"))


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_fellegi_sunter_one_to_one_is_the_best_of_all_assignments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = pd.DataFrame({"a": rng.normal(size=6), "b": rng.integers(0, 3, 6).astype(str)})
    y = x.assign(a=x["a"] + rng.normal(0, 0.1, 6))
    measure = FellegiSunter(one_to_one=True, tolerance_sd=0.3)
    value = measure(x, y)
    fit = AgreementMixture(value.table["m"].to_numpy(), value.table["u"].to_numpy(), value.parts["prevalence"])
    near = np.abs(y["a"].to_numpy()[:, None] - x["a"].to_numpy()) <= 0.3 * x["a"].std()
    same = y["b"].to_numpy()[:, None] == x["b"].to_numpy()
    weights = fit.weights((near + 2 * same).reshape(-1)).reshape(6, 6)
    totals = {p: weights[range(6), p].sum() for p in itertools.permutations(range(6))}
    top = max(totals.values())
    shares = [np.mean(np.array(p) == range(6)) for p, total in totals.items() if total > top - 1e-9]
    assert min(shares) - 1e-12 <= value <= max(shares) + 1e-12


def test_fellegi_sunter_takes_names_that_are_nearly_equal() -> None:
    fuzz = pytest.importorskip("rapidfuzz")
    x = pd.DataFrame({"name": ["MARTHA", "DWAYNE", "DIXON", "SMITH"]})
    y = pd.DataFrame({"name": ["MARHTA", "DUANE", "DICKSONX", None]})
    measure = FellegiSunter(similar=0.84)
    order, first, last = measure._agreement_of_columns(x, y)
    found = [order[a:b].tolist() for a, b in zip(first[0], last[0], strict=True)]
    score = fuzz.distance.JaroWinkler.similarity
    assert found == [[j for j in range(4) if n and score(n, x["name"][j]) >= 0.84] for n in y["name"]]
    assert found[:2] == [[0], [1]]  # Winkler's examples: .961, .84
    with pytest.raises(InputError, match="column of text"):
        FellegiSunter(similar={"age": 0.9})(x.assign(age=1.0), x.assign(age=1.0))


def test_fellegi_sunter_bad_input() -> None:
    x = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    for arguments, words in (
        ({"tolerance": 3}, "per column"),
        ({"tolerance_sd": -1}, "tolerance_sd"),
        ({"start_m": 1.0}, "start_m"),
        ({"iterations": -1}, "iterations"),
    ):
        with pytest.raises(InputError, match=words):
            FellegiSunter(**arguments)
    with pytest.raises(InputError, match="numeric column"):
        FellegiSunter(tolerance={"b": 1})(x, x)
    with pytest.raises(UnsupportedError, match="20 columns"):
        FellegiSunter()(np.zeros((3, 21)), np.zeros((3, 21)))
    with pytest.raises(InputError, match="one kind"):
        FellegiSunter()(x, x.assign(a=["1", "2"]))
    with pytest.raises(InputError, match="counts"):
        fit_mixture([1.0, 2.0, 3.0], prevalence=0.1)


# -- disclosure of values ----------------------------------------------------------------------------------


def test_attribute_disclosure_by_hand() -> None:
    x = pd.DataFrame({"age": [20.0, 30, 40, 50], "pay": [1.0, 2, 3, 4], "job": ["a", "b", "a", "b"]})
    y = pd.DataFrame({"age": [21.0, 31, 52, 49], "pay": [1.0, 2, 3, 4], "job": ["a", "b", "a", "b"]})
    # 20 -> 21 (pay 1), 30 -> 31 (2), 40 -> 31 and 49 tie (mean of 2 and 4), 50 -> 49 (4).
    guess = np.array([1.0, 2.0, 3.0, 4.0])
    error = IntruderError("pay", known="age")
    np.testing.assert_allclose(error.per_record(x, y.assign(age=[21.0, 31, 70, 49])), np.abs(guess - x["pay"]))
    moved = y.assign(pay=[1.0, 2, 3, 7])
    # Now 40 -> mean(2, 7) = 4.5 and 50 -> 7.
    off = error.per_record(x, moved.assign(age=[21.0, 31, 70, 49]))
    np.testing.assert_allclose(off, [0, 0, 1.5, 3])
    value = error(x, moved.assign(age=[21.0, 31, 70, 49]))
    assert value.parts["error"] == approx(np.sqrt(np.mean([0, 0, 2.25, 9])))
    assert value == approx(value.parts["error"] / x["pay"].std())
    share = AttributeDisclosure("pay", known="age", within_sd=1.5 / x["pay"].std())
    assert share(x, moved.assign(age=[21.0, 31, 70, 49])) == 0.75
    # Categories: 40 has one link with "b" and one with "b"; its own is "a".
    job = AttributeDisclosure("job", known="age")(x, y.assign(age=[21.0, 31, 70, 49]))
    assert job == 0.75 and job.parts["chance"] == 0.5
    assert IntruderError("job", known="age")(x, y.assign(age=[21.0, 31, 70, 49])) == 0.25


def test_a_random_link_tells_no_more_than_chance() -> None:
    rng = np.random.default_rng(12)
    x = pd.DataFrame({"a": rng.standard_normal(4000), "s": rng.choice(list("xyz"), 4000, p=[0.5, 0.3, 0.2])})
    y = x.assign(a=rng.standard_normal(4000))
    value = AttributeDisclosure("s")(x, y)
    p = 0.25 + 0.09 + 0.04
    assert abs(value - p) < 4 * np.sqrt(p * (1 - p) / 4000) * 1.5 and value.parts["chance"] == approx(p, abs=0.02)


def test_attribute_disclosure_with_few_different_keys() -> None:
    rng = np.random.default_rng(19)
    x = pd.DataFrame(
        {"k": rng.choice(list("abc"), 300), "v": rng.standard_normal(300), "s": rng.choice(list("pq"), 300)}
    )
    y = x.assign(v=x["v"] + 1.0)
    expected = (y.groupby("k")["v"].transform("mean") - x["v"]).abs()
    np.testing.assert_allclose(IntruderError("v", known="k").per_record(x, y), expected)
    same = x.groupby(["k", "s"])["k"].transform("size") / x.groupby("k")["k"].transform("size")
    np.testing.assert_allclose(AttributeDisclosure("s", known="k").per_record(x, y), same)


def test_attribute_disclosure_bad_input() -> None:
    x = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 3.0]})
    with pytest.raises(InputError, match="unknown must name"):
        AttributeDisclosure()
    with pytest.raises(InputError, match="in known and be unknown"):
        AttributeDisclosure("a", known=["a", "b"])(x, x)
    with pytest.raises(InputError, match="known must name some column"):
        AttributeDisclosure("a")(x[["a"]], x[["a"]])
    with pytest.raises(InputError, match="varies"):
        IntruderError("b")(x, x)
    with pytest.raises(InputError, match="one kind"):
        IntruderError("b")(x, x.assign(b=["u", "v"]))
    with pytest.raises(InputError, match="names a column"):
        AttributeDisclosure("zz")(x, x)


def test_interval_disclosure_by_hand() -> None:
    x, y = [0.0, 1.0, 2.0, 3.0], [0.4, 1.0, 3.0, 3.0]
    sd = np.std(x, ddof=1)
    assert IntervalDisclosure(width_sd=0.4 / sd)(x, y) == 0.75  # the border counts
    assert IntervalDisclosure(width_sd=0.39 / sd)(x, y) == 0.5
    assert IntervalDisclosure(width_sd=0)(x, x) == 1.0
    both = np.column_stack([x, x]), np.column_stack([y, x])
    for across, value in (("all", 0.5), ("any", 1.0), ("mean", 0.75)):
        assert IntervalDisclosure(width_sd=0.3, across=across)(*both) == value
    assert IntervalDisclosure(width_sd=0.3).per_record(*both).tolist() == [0.0, 1.0, 0.0, 1.0]
    # Ranks: one place either way among 0, 10, 20, 30 around the released value.
    rank = IntervalDisclosure(width_rank=0.25)
    assert rank.name == "rank_interval"
    assert rank.per_record([9.0, 31.0, 5.0, 15.0], [0.0, 10.0, 20.0, 30.0]).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_interval_disclosure_bad_input() -> None:
    with pytest.raises(InputError, match="one width"):
        IntervalDisclosure(width_sd=0.1, width_rank=0.1)
    with pytest.raises(InputError, match="width_rank"):
        IntervalDisclosure(width_rank=2)
    with pytest.raises(InputError, match="non-numeric"):
        IntervalDisclosure()(["a", "b"], ["a", "b"])


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_interval_disclosure_does_not_care_about_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((50, 2))
    y = x + 0.1 * rng.standard_normal(x.shape)
    for measure in (IntervalDisclosure(), IntervalDisclosure(width_rank=0.05)):
        assert measure(x, y) == measure(x * [3.0, 0.01] - 7, y * [3.0, 0.01] - 7)


@pytest.mark.slow
def test_clustering_attack() -> None:
    x = np.array([[0.0], [0.2], [5.0], [9.0]])
    y = np.array([[0.1], [0.15], [5.1], [20.0]])
    value = ClusteringAttack(clusters=4)(x, y)
    # Clusters {0, .2, .1, .15}, {5, 5.1}, {9}, {20}: two originals in the first, the last pair is torn apart.
    assert value.records.tolist() == [0.5, 0.5, 1.0, 0.0] and value == 0.5
    assert ClusteringAttack(clusters=1)(x, y) == 0.25
    assert ClusteringAttack(clusters=8)(x, y) == 0.0
    assert ClusteringAttack(clusters=4, method="kmeans", seed=1)(x * 1.0, x + 0.01) > 0.5
    assert ClusteringAttack()(np.ones(3), np.ones(3)) == approx(1 / 3)
    with pytest.raises(InputError, match="at most"):
        ClusteringAttack(clusters=9)(x, y)


# -- uniqueness --------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_counts_are_those_of_groupby(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"a": rng.integers(0, 3, n), "b": rng.choice(list("uvw"), n), "c": rng.integers(0, 2, n)})
    sizes = table.groupby(["a", "b", "c"])["a"].transform("size")
    assert KAnonymity()(table, table) == sizes.min()
    np.testing.assert_allclose(KAnonymity().per_record(table, table), 1 / sizes)
    assert SampleUniques()(table, table) == (sizes == 1).sum()
    assert SampleUniques(share=True)(table, table) == approx((sizes == 1).mean())
    distinct = table.groupby(["a", "c"])["b"].nunique().min()
    assert LDiversity(target="b")(table, table) == distinct
    spread = table.groupby(["a", "c"])["b"].apply(lambda s: np.exp(stats.entropy(s.value_counts())))
    assert LDiversity(target="b", kind="entropy")(table, table) == approx(spread.min())
    order = rng.permutation(n)
    assert KAnonymity()(table.iloc[order], table.iloc[order]) == sizes.min()


def test_recursive_diversity_by_hand() -> None:
    table = pd.DataFrame({"k": ["x"] * 10, "s": ["a"] * 4 + ["b"] * 3 + ["c"] * 2 + ["d"]})
    # r = 4, 3, 2, 1: 4 < c (r_l + ... + r_m), tails 10, 6, 3, 1.
    for c, expected in ((1.0, 2), (1.5, 3), (0.5, 1), (5.0, 4), (0.3, 0)):
        assert LDiversity(target="s", kind="recursive", c=c)(table, table) == expected
    assert LDiversity(target="s").per_record(table, table).tolist() == [0.4] * 10


def test_missing_keys() -> None:
    table = pd.DataFrame({"a": ["x", "x", None, "y"], "b": [1, 1, 1, 2]})
    with pytest.raises(InputError, match="missing values in the release"):
        KAnonymity(missing="raise")(table, table)
    assert KAnonymity(missing="raise")(table, table.fillna("x")) == 1.0  # the original's gaps do not matter
    assert KAnonymity(missing="category").per_record(table, table).tolist() == [0.5, 0.5, 1.0, 1.0]
    np.testing.assert_allclose(KAnonymity(missing="wildcard").per_record(table, table), [1 / 3, 1 / 3, 1 / 3, 1.0])
    omitted = KAnonymity(missing="omit").per_record(table, table)
    assert omitted[[0, 1, 3]].tolist() == [0.5, 0.5, 1.0] and np.isnan(omitted[2])


def slow_minimal(codes, largest):
    """Minimal sample uniques by their definition, record by record."""
    n, p = codes.shape
    found = {i: [] for i in range(n)}
    for i in range(n):
        for k in range(1, largest + 1):
            for chosen in itertools.combinations(range(p), k):
                alone = (codes[:, chosen] == codes[i, chosen]).all(axis=1).sum() == 1
                if alone and not any(set(f) <= set(chosen) for f in found[i]):
                    found[i].append(chosen)
    return found


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 25), st.integers(2, 4))
def test_minimal_uniques_are_brute_force(seed: int, n: int, p: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 3, size=(n, p))
    found = slow_minimal(codes, min(3, p))
    value = SpecialUniques(largest=3)(codes, codes)
    assert value == sum(bool(f) for f in found.values())
    for k in range(1, min(3, p) + 1):
        assert value.parts[f"size {k}"] == sum(len(s) == k for f in found.values() for s in f)
    top = min(3, p - 1)
    worth = [
        sum(np.prod([p - i for i in range(len(s), top + 1)]) if len(s) <= top else 1 for s in f) for f in found.values()
    ]
    np.testing.assert_allclose(value.records, worth)


def test_scores_of_the_suda_manual() -> None:
    # Four keys, sets up to three: a single column is worth 3 * 2 * 1, a pair 2 * 1, a triple 1.
    base = np.zeros((4, 4), dtype=int)
    base[0, 0] = 1
    assert SpecialUniques(largest=3).per_record(base, base).tolist() == [6.0, 0, 0, 0]


def test_uniqueness_bad_input() -> None:
    x = pd.DataFrame({"a": [1, 2], "b": [1, 1]})
    with pytest.raises(InputError, match="target must name"):
        LDiversity(None)
    with pytest.raises(InputError, match="in keys and be target"):
        LDiversity(["a"], "a")(x, x)
    with pytest.raises(InputError, match="keys must name some column"):
        LDiversity(target="a")(x[["a"]], x[["a"]])
    with pytest.raises(InputError, match="kind"):
        LDiversity(target="a", kind="t")
    with pytest.raises(InputError, match="largest"):
        SpecialUniques(largest=0)
    with pytest.raises(InputError, match="names a column"):
        KAnonymity(["q"])(x, x)


# -- population uniques ------------------------------------------------------------------------------------


def sample_of_cells(rng, rates, fraction):
    """A population of Poisson cells and a Bernoulli sample.

    Codes of the sample, and which of its uniques are population uniques.
    """
    population = rng.poisson(rates)
    sample = rng.binomial(population, fraction)
    truth = int(((sample == 1) & (population == 1)).sum())
    matches = float((1 / np.maximum(population, 1))[sample == 1].sum())
    return np.repeat(np.arange(len(rates)), sample), int(population.sum()), truth, matches


def test_poisson_gamma_finds_the_truth_where_it_holds() -> None:
    rng = np.random.default_rng(13)
    cells = 20_000
    truths, said, links, told = [], [], [], []
    for _ in range(6):
        rates = rng.gamma(0.3, 10.0, cells)
        codes, size, truth, matches = sample_of_cells(rng, rates, 0.1)
        value = PoissonGammaUniques(population=size, combinations=cells)(codes, codes)
        assert value.parts["alpha"] == approx(0.3, rel=0.15)
        truths.append(truth)
        said.append(value.parts["expected uniques"])
        links.append(matches)
        told.append(value.parts["expected matches"])
    difference = np.array(said) - truths
    assert abs(difference.mean()) < 4 * difference.std(ddof=1) / np.sqrt(6) + 1 and np.mean(said) == approx(
        np.mean(truths), rel=0.1
    )
    assert np.mean(told) == approx(np.mean(links), rel=0.05)


def test_poisson_gamma_formulas_by_quadrature() -> None:
    # A cell with rate r ~ Gamma(alpha): f ~ Poisson(n r), rest ~ Poisson((N - n) r), and f = 1 was seen.
    codes = np.repeat(np.arange(40), np.random.default_rng(14).negative_binomial(0.6, 0.2, 40))
    n, big = len(codes), 20 * len(codes)
    value = PoissonGammaUniques(population=big, combinations=60)(codes, codes)
    alpha = value.parts["alpha"]
    law = stats.gamma(alpha, scale=1 / (60 * alpha))
    peak = {"points": [1e-6, 1e-4, 1e-3, 1e-2], "limit": 400}
    below = integrate.quad(lambda r: n * r * np.exp(-n * r) * law.pdf(r), 0, 1, **peak)[0]
    alone = integrate.quad(lambda r: n * r * np.exp(-big * r) * law.pdf(r), 0, 1, **peak)[0] / below
    match = (
        integrate.quad(
            lambda r: n * r * np.exp(-n * r) * law.pdf(r) * -np.expm1(-(big - n) * r) / ((big - n) * r), 0, 1, **peak
        )[0]
        / below
    )
    uniques = value.parts["sample uniques"]
    assert uniques > 0
    assert value.parts["share of uniques"] == approx(alone, rel=1e-6)
    assert value.parts["expected matches"] / uniques == approx(match, rel=1e-6)


def test_poisson_gamma_moments_and_the_poisson_limit() -> None:
    codes = np.repeat(np.arange(5), [1, 2, 4, 1, 2])
    value = PoissonGammaUniques(population=100, combinations=8, method="moments")(codes, codes)
    counts = np.array([1, 2, 4, 1, 2, 0, 0, 0])
    mean, var = counts.mean(), counts.var(ddof=1)
    assert value.parts["alpha"] == approx(mean**2 / (var - mean))
    even = np.repeat(np.arange(4), [1, 2, 2, 2])  # less spread than Poisson
    for method in ("moments", "likelihood"):
        flat = PoissonGammaUniques(population=70, combinations=4, method=method)(even, even)
        assert flat.parts["alpha"] == np.inf
        assert flat.parts["share of uniques"] == approx(np.exp(-63 / 4))


def test_log_linear_by_hand_and_by_quadrature() -> None:
    table = pd.DataFrame({"a": [0, 0, 0, 1, 1, 2], "b": [0, 0, 1, 0, 1, 1]})
    n, big = 6, 30
    mu = np.array(
        [6 * (3 / 6) * (3 / 6), 6 * (2 / 6) * (3 / 6), 6 * (2 / 6) * (3 / 6), 6 * (1 / 6) * (3 / 6)]
    )  # cells 01, 10, 11, 21
    records = LogLinearUniques(population=big).per_record(table, table)
    np.testing.assert_allclose(records, [0, 0, *np.exp(-mu * (big - n) / n)], rtol=1e-10)
    # Saturated: the fitted rate of a unique is one.
    full = LogLinearUniques(population=big, margins=2).per_record(table, table)
    np.testing.assert_allclose(full[2:], np.exp(-(big - n) / n), rtol=1e-6)
    # The lognormal factor, against numerical integration.
    clumped = pd.DataFrame({"a": np.repeat([0, 0, 1, 1], [30, 1, 1, 28]), "b": np.repeat([0, 1, 0, 1], [30, 1, 1, 28])})
    value = LogLinearUniques(population=600, overdispersed=True)(clumped, clumped)
    spread = value.parts["log variance"]
    assert spread > 0.5
    law = stats.lognorm(np.sqrt(spread), scale=np.exp(-spread / 2))
    rate, ratio = 60 * (31 / 60) * (29 / 60), 9.0
    below = integrate.quad(lambda w: w * np.exp(-rate * w) * law.pdf(w), 0, np.inf, limit=300)[0]
    alone = integrate.quad(lambda w: w * np.exp(-rate * w * (1 + ratio)) * law.pdf(w), 0, np.inf, limit=300)[0] / below
    assert value.records[30] == approx(alone, rel=2e-3)


def test_log_linear_finds_the_truth_where_it_holds() -> None:
    rng = np.random.default_rng(15)
    rates = 40000 * np.einsum("i,j,k->ijk", *(rng.dirichlet(np.full(20, 0.5)) for _ in range(3))).ravel()
    truth, said = [], []
    for _ in range(5):
        codes, size, uniques, _ = sample_of_cells(rng, rates, 0.1)
        table = np.column_stack(np.unravel_index(codes, (20, 20, 20)))
        truth.append(uniques)
        said.append(LogLinearUniques(population=size)(table, table).parts["expected uniques"])
    assert np.mean(said) == approx(np.mean(truth), rel=0.12)


def pitman_sample(rng, theta, alpha, n):
    """Chinese restaurant: the table of each customer."""
    sizes, seats = [], []
    for i in range(n):
        weights = np.array([s - alpha for s in sizes] + [theta + alpha * len(sizes)])
        k = int(rng.choice(len(weights), p=weights / weights.sum())) if i else 0
        if k == len(sizes):
            sizes.append(0)
        sizes[k] += 1
        seats.append(k)
    return np.array(seats)


def test_pitman_likelihood_is_the_restaurants() -> None:
    rng = np.random.default_rng(16)
    seats = pitman_sample(rng, 5.0, 0.4, 400)
    sizes = np.bincount(seats)
    theta, alpha = fit_pitman(sizes)

    def score(t: float, a: float) -> float:
        total, seen = 0.0, {}
        for i, s in enumerate(seats):
            total += np.log((seen[s] - a if s in seen else t + a * len(seen)) / (t + i)) if i else 0.0
            seen[s] = seen.get(s, 0) + 1
        return total

    best = score(theta, alpha)
    for t, a in (
        (theta * 1.01, alpha),
        (theta * 0.99, alpha),
        (theta, alpha + 0.005),
        (theta, alpha - 0.005),
        (5.0, 0.4),
    ):
        assert score(t, a) <= best + 1e-6


def test_pitman_chances_by_simulation() -> None:
    # Given one sample, let the restaurant run on: how often does a unique stay alone?
    rng = np.random.default_rng(17)
    codes = pitman_sample(rng, 3.0, 0.5, 120)
    value = PitmanUniques(population=400)(codes, codes)
    theta, alpha = value.parts["theta"], value.parts["alpha"]
    alone, shares = [], []
    for _ in range(4000):
        mine, total = 1.0, 120
        u = rng.random(280)
        for x in u:
            mine += x < (mine - alpha) / (theta + total)
            total += 1
        alone.append(mine == 1)
        shares.append(1 / mine)
    uniques = value.parts["sample uniques"]
    for said, seen in ((value.parts["share of uniques"], alone), (value.parts["expected matches"] / uniques, shares)):
        assert abs(said - np.mean(seen)) < 4 * np.std(seen) / np.sqrt(4000)


def test_population_models_at_their_borders() -> None:
    codes = np.array([0, 1, 1, 2, 2, 2])
    for model in (PoissonGammaUniques, LogLinearUniques, PitmanUniques):
        whole = model(population=6)(codes, codes)
        assert whole == approx(1 / 6) and whole.parts["expected matches"] == 1
        risks = [model(population=size)(codes, codes) for size in (7, 20, 100, 10_000)]
        assert risks == sorted(risks, reverse=True) and 0 <= risks[-1] < risks[0] <= 1 / 6
        assert model(population=50)(codes[1:], codes[1:]) == 0  # no unique, no risk
        records = model(population=20).per_record(codes, codes)
        assert records[1:].tolist() == [0] * 5 and records[0] == approx(6 * float(risks[1]))
        with pytest.raises(InputError, match="population"):
            model(population=5)(codes, codes)
        with pytest.raises(InputError, match="population must be a whole number"):
            model()
    with pytest.raises(UnsupportedError, match="every record is unique"):
        PitmanUniques(population=100)(np.arange(5), np.arange(5))
    with pytest.raises(InputError, match="combinations"):
        PoissonGammaUniques(population=100, combinations=2)(codes, codes)
    with pytest.raises(InputError, match="margins"):
        LogLinearUniques(population=100, margins=2)(codes, codes)
    for model in (PoissonGammaUniques, LogLinearUniques, PitmanUniques):
        assert "Winkler" in model.__doc__


@pytest.mark.parametrize(
    "measure",
    [
        RecordLinkage(), FellegiSunter(), AttributeDisclosure("a"), IntruderError("a"), IntervalDisclosure(), ClusteringAttack(),
        KAnonymity(), LDiversity(target="a"), SampleUniques(), SpecialUniques(), PoissonGammaUniques(population=99),
        LogLinearUniques(population=99),
    ],
    ids=lambda m: type(m).__name__,
)  # fmt: skip
def test_every_risk_measure_keeps_the_contract(measure) -> None:
    rng = np.random.default_rng(18)
    x = pd.DataFrame({"a": rng.integers(0, 9, 30).astype(float), "b": rng.integers(0, 5, 30).astype(float)})
    y = x + rng.integers(0, 2, x.shape)
    value = measure(x, y)
    assert measure.role == "risk" and measure.direction in ("higher", "lower") and measure.reference and measure.name
    assert measure.range[0] <= value <= measure.range[1]
    assert measure.per_record(x, y).shape == (30,) and np.isfinite(measure.per_record(x, y)).all()
    assert float(pickle.loads(pickle.dumps(measure))(x, y)) == float(value)
    order = rng.permutation(30)
    assert measure(x.iloc[order], y.iloc[order]) == approx(float(value), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("missing", ["category", "pairwise", "wildcard"])
@pytest.mark.parametrize(
    ("n", "p", "largest"), [(1, 3, 3), (2, 3, 3), (65, 2, 1), (130, 7, 2), (200, 6, 6), (90, 8, 5)]
)
def test_the_search_by_bits_finds_what_the_search_by_sets_finds(monkeypatch, n, p, largest, missing) -> None:
    rng = np.random.default_rng(n)
    keys = pd.DataFrame({f"k{j}": rng.zipf(1.5, n).clip(max=rng.integers(2, 30)).astype(float) for j in range(p)})
    keys = keys.mask(rng.random(keys.shape) < 0.05)
    measure = SpecialUniques(largest=largest, missing=missing)
    monkeypatch.setattr(uniqueness, "SMALL_SEARCH", -1)
    by_pairs = measure._search_minimal_uniques(keys)
    monkeypatch.setattr(uniqueness, "MOST_KEYS", -1)
    depth_first = measure._search_minimal_uniques(keys)
    monkeypatch.setattr(uniqueness, "MOST_BITS", -1)
    slow = measure._search_minimal_uniques(keys)
    for quick in (by_pairs, depth_first):
        np.testing.assert_array_equal(quick.score, slow.score)
        np.testing.assert_array_equal(quick.worth, slow.worth)
        assert (quick.taking.tolist(), quick.sizes) == (slow.taking.tolist(), slow.sizes)


def test_blanks_in_many_columns_are_not_matched_set_by_set(monkeypatch) -> None:
    """300 rows of 35 columns took 8 s per release; a battery of measures spent three quarters of its time here."""
    rng = np.random.default_rng(4)
    keys = pd.DataFrame(rng.integers(0, 4, (70, 24)).astype(float)).mask(rng.random((70, 24)) < 0.05)
    keys.columns = [f"k{j}" for j in range(24)]
    measure, matches = SpecialUniques(largest=2), mock.Mock(wraps=uniqueness.key_matches)
    monkeypatch.setattr(uniqueness, "key_matches", matches)
    quick = measure._search_minimal_uniques(keys)
    assert not matches.called
    monkeypatch.setattr(uniqueness, "MOST_BITS", -1)
    slow = measure._search_minimal_uniques(keys)
    assert matches.call_count > 250 and quick.sizes == slow.sizes and quick.sizes[1] > 0
    np.testing.assert_array_equal(quick.worth, slow.worth)


@pytest.mark.parametrize("variance", [0.0, 0.5])
def test_the_variance_of_lognormal_rates_is_found_again(variance):
    """Independent keys, about two records in a cell, every rate times a lognormal factor: 10,000 cells."""
    rng = np.random.default_rng(11)
    a, b = (rng.uniform(0.5, 1.5, 100) for _ in range(2))
    factor = np.exp(rng.normal(-variance / 2, np.sqrt(variance), (100, 100)))
    counts = rng.poisson(2 * np.outer(a, b) * factor)
    file = pd.DataFrame(np.repeat(np.argwhere(counts >= 0), counts.ravel(), axis=0), columns=["a", "b"])
    parts = LogLinearUniques(population=10 * len(file), overdispersed=True)(file, file).parts
    # The moment's standard error is near .02, and larger where the factors vary.
    assert parts["log variance"] == pytest.approx(variance, abs=0.06)
