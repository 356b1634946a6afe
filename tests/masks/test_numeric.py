"""Masks for numeric columns: exact to their definitions, on any frame."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pandas as pd
import places
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from ruvdecision.channels.linear import LinearChannel
from ruvdecision.channels.steps import FileFacts
from ruvdecision.checks import RELEASES, as_generator
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.masks import Clip, MomentNoise, ResidualNoise, Synthesize
from ruvdecision.masks.coarsen import Bottomcode, Round, Topcode
from ruvdecision.masks.columns import stable_order
from ruvdecision.masks.exchange import DataShuffle, RankSwap, Resample, Swap, rank_partners
from ruvdecision.masks.mdav import mdav
from ruvdecision.masks.microaggregate import Microaggregate
from ruvdecision.masks.multiplicative import MultiplicativeNoise
from ruvdecision.masks.noise import Noise
from ruvdecision.masks.recode import Recode
from ruvdecision.masks.rows import Subsample

few = settings(deadline=None, max_examples=40)

# Values on a coarse grid: ties, duplicates and constant columns come up all the time.
frames = hnp.arrays(
    np.float64,
    st.tuples(st.integers(2, 25), st.sampled_from([1, 2, 3, 60])),
    elements=st.integers(-3, 3).map(lambda v: v / 2),
)

WHOLE_FILE = [
    Microaggregate(size=2, by="each"),
    Microaggregate(size=2, by="zscore", centre="median"),
    Microaggregate(size=2, by="pc1"),
    Microaggregate(size=2, by="mdav"),
    Microaggregate(size=2, by="mdav", block=2, standardise=False),
    RankSwap(within=0.4),
    Resample(times=3),
    Noise(share=0.16),
    MomentNoise(share=0.16),
    Microaggregate(size=2, by="zscore") | ResidualNoise(),
    Topcode(quantile=0.9),
    Topcode(quantile=0.9, replace="mean"),
    Bottomcode(at=0, replace="median"),
]
RECORD_BY_RECORD = [
    Noise(sd=1.5),
    Noise(variance=2, kind="laplace"),
    Noise(variance=2, kind="t", df=5),
    Noise(sd=1, kind="mixture"),
    Noise(sd=3) | Clip(lower=-1, upper=1),
    Noise(sd=np.abs),
    Noise(variance=lambda x: 1.0 + (x > 0)),
    MultiplicativeNoise(sd=0.1),
    MultiplicativeNoise(sd=0.1, kind="lognormal", per="record"),
    MultiplicativeNoise(sd=0.02, away=0.1, kind="mixture"),
    MultiplicativeNoise(kind="split", least=0.1, most=0.2),
    Topcode(at=1),
    Bottomcode(at=-1),
    Round(base=0.5),
    Round(base=1, random=True),
    Recode(bins=[-np.inf, 0, 1, np.inf]),
    Recode(width=0.7, label="midpoint"),
]
ALL = WHOLE_FILE + RECORD_BY_RECORD


def read(name: str) -> np.ndarray:
    return np.loadtxt(places.REFERENCE / name, delimiter=",")


# -- what every mask keeps ---------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ALL, ids=str)
def test_index_other_columns_and_the_input_stay_as_they_are(mask):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "who": pd.Categorical(list("abcdefghij")),
            "x": rng.normal(size=10),
            "weight": np.arange(10, dtype=np.int32),
            "y": rng.normal(size=10),
            "note": pd.array([1, None] * 5, dtype="Int64"),
        },
        index=pd.Index(range(100, 110), name="id"),
    )
    before = frame.copy(deep=True)
    chosen = [
        step.__class__(
            **{**{k: dict(v) if k == "categories" else v for k, v in step.settings().items()}, "columns": ["y", "x"]}
        )
        for step in mask.parts
    ]
    named = chosen[0]
    for step in chosen[1:]:
        named = named | step
    released = named.release(frame, 5)
    pd.testing.assert_frame_equal(frame, before)
    assert list(released.columns) == list(frame.columns)
    pd.testing.assert_index_equal(released.index, frame.index)
    pd.testing.assert_frame_equal(released[["who", "weight", "note"]], frame[["who", "weight", "note"]])
    assert (
        not released[["x", "y"]].equals(frame[["x", "y"]]) or named.parts[0].settings().get("replace") == "mean"
    )  # a tail of one
    pd.testing.assert_frame_equal(released, named.release(frame, 5))


@pytest.mark.parametrize("mask", ALL, ids=str)
def test_every_kind_of_data_comes_back_as_its_kind(mask):
    x = np.random.default_rng(1).normal(size=12)
    vector, matrix, series = (
        mask.release(x, 3),
        mask.release(x[:, None], 3),
        mask.release(pd.Series(x, name="x", index=range(5, 17)), 3),
    )
    assert vector.shape == (12,)
    assert matrix.shape == (12, 1)
    assert series.name == "x"
    assert list(series.index) == list(range(5, 17))
    assert list(vector) == list(matrix[:, 0]) == list(series)
    other = mask.release(x, 4)
    again = mask.release(x, as_generator(3, RELEASES))
    assert list(vector) == list(again)
    assert other.shape == (12,)


@pytest.mark.parametrize("mask", ALL, ids=str)
def test_masks_can_be_copied_compared_and_read(mask):
    assert mask == mask
    assert mask.parts[0].__class__.__name__ in repr(mask)
    assert "Error" not in repr(mask)
    assert all(isinstance(v, (int, float, str)) for v in mask.parameters().values())
    if "lambda" not in repr(mask):
        assert pickle.loads(pickle.dumps(mask)) == mask


@settings(deadline=None, max_examples=20)
@given(x=frames, seed=st.integers(0, 5))
def test_any_frame_gives_finite_numbers_of_the_same_shape(x, seed):
    for mask in WHOLE_FILE + RECORD_BY_RECORD[:-2]:
        released = mask.release(x, seed)
        assert released.shape == x.shape
        assert np.all(np.isfinite(released)), mask


REFUSING = ("MomentNoise", "ResidualNoise")


@pytest.mark.parametrize("mask", [m for m in WHOLE_FILE if any(word in str(m) for word in REFUSING)], ids=str)
def test_missing_values_are_refused_by_name_where_a_method_cannot_take_them(mask):
    frame = pd.DataFrame({"good": [1.0, 2.0, 3.0, 4.0], "holes": [1.0, np.nan, 3.0, 4.0]})
    with pytest.raises(InputError, match=r"missing.*holes.*columns="):
        mask.release(frame, 1)


@pytest.mark.parametrize(
    "mask",
    [m for m in RECORD_BY_RECORD if "interval" not in str(m) and "inf" not in str(m)] + [Topcode(quantile=0.5)],
    ids=str,
)
def test_missing_values_stay_missing_elsewhere(mask):
    x = np.array([1.0, np.nan, -3.0, 4.0])
    assert np.isnan(mask.release(x, 1)).tolist() == [False, True, False, False]


@pytest.mark.parametrize("by", ["each", "zscore", "pc1", "mdav"])
@pytest.mark.parametrize("centre", ["mean", "median"])
def test_microaggregation_leaves_blanks_and_shows_no_mean_of_few(by, centre):
    rng = np.random.default_rng(2)
    data = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "y"])
    holes = data.copy()
    holes.loc[rng.random(60) < 0.5, "x"] = np.nan
    mask = Microaggregate(size=3, by=by, centre=centre)
    released = mask.release(holes)
    assert released["x"].isna()[holes["x"].isna()].all()
    for name in ("x", "y"):
        shown = released[name].dropna()
        assert (shown.value_counts() >= 3).all()  # every centre stands for three entries that were there
        for value, rows in shown.groupby(shown).groups.items():
            assert getattr(holes.loc[rows, name], centre)() == pytest.approx(value)
    if by == "each":
        kept = holes["x"].dropna()
        assert released["x"].dropna().equals(mask.release(kept.to_frame())["x"])


def test_resampling_and_shuffling_leave_blanks_where_they_are():
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.normal(size=200), "g": rng.choice(list("ab"), 200)})
    data["y"] = data["x"] + 0.3 * rng.normal(size=200)
    data.loc[::5, "x"], data.loc[1::9, "y"], data.loc[::11, "g"] = np.nan, np.nan, None
    again = Resample(times=1).release(data[["x"]], 4)
    assert again["x"].isna().equals(data["x"].isna())
    assert again["x"].dropna().equals(Resample(times=1).release(data[["x"]].dropna(), 4)["x"])
    shuffled = DataShuffle(columns=["y"], given=["x", "g"]).release(data, 4)
    assert shuffled["y"].isna().equals(data["y"].isna())
    assert sorted(shuffled["y"].dropna()) == sorted(data["y"].dropna())
    both = shuffled.dropna()
    assert np.corrcoef(both["x"], both["y"])[0, 1] > 0.7
    assert abs(np.corrcoef(data.dropna()["y"], both["y"])[0, 1]) < 0.99


@pytest.mark.parametrize("method", ["normal", "copula", "hypercube"])
def test_synthesis_that_cannot_draw_blanks_says_what_can(method):
    data = pd.DataFrame({"x": [1.0, np.nan, 3.0, 4.0], "y": [1.0, 2.0, 2.5, 4.0]})
    with pytest.raises(InputError, match="cart"):
        Synthesize(method).release(data, 1)


@pytest.mark.parametrize("mask", ALL, ids=str)
def test_text_is_refused_by_name(mask):
    with pytest.raises(InputError, match="city"):
        mask.release(pd.DataFrame({"x": [1.0, 2.0, 3.0], "city": ["a", "b", "c"]}), 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda c: Noise(sd=1, columns=c),
        lambda c: RankSwap(0.2, columns=c),
        lambda c: Swap(0.5, columns=c),
        lambda c: Round(5, columns=c),
    ],
)
def test_unknown_columns_get_close_matches(make):
    with pytest.raises(InputError, match="Did you mean 'income'"):
        make(["incom"]).release(pd.DataFrame({"income": [1.0, 2.0], "age": [3.0, 4.0]}), 1)


# -- microaggregation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("Micir_p_10", Microaggregate(size=10, by="each")),
        ("Micz_p_3", Microaggregate(size=3, by="zscore")),
        ("Micp_p_3", Microaggregate(size=3, by="pc1")),
        ("Micm_p_3", Microaggregate(size=3, by="mdav")),
        ("Micm_3_7", Microaggregate(size=7, by="mdav", block=3)),
    ],
)
def test_the_reference_files_of_karr_et_al(name, mask):
    released = mask.release(read("karr_p3/karr_p3_orig.csv"))
    np.testing.assert_allclose(released, read(f"karr_p3/karr_p3_{name}.csv"), rtol=2e-15, atol=2e-15)


def test_the_reference_file_of_woo():
    released = Microaggregate(size=3, by="zscore").release(read("woo_nonlopos/woo_nonlopos_orig.csv"))
    np.testing.assert_allclose(released, read("woo_nonlopos/woo_nonlopos_Micz03.csv"), rtol=2e-15, atol=2e-15)


def plain_mdav(z, k):
    """MDAV by its definition: every distance, every time. Ties: ten digits, then the smaller row."""

    def distances(rows, q):
        d = np.array([sum((a - b) ** 2 for a, b in zip(z[i], q, strict=True)) for i in rows])
        c = 1048577.0 * d
        return c - (c - d)

    labels, left, group = np.full(len(z), -1), np.arange(len(z)), 0
    while len(left) >= 2 * k:
        r = left[np.argmax(distances(left, z[left].mean(axis=0)))]
        targets = [r, left[np.argmax(distances(left, z[r]))]] if len(left) >= 3 * k else [r]
        for target in targets:
            near = left[np.argsort(distances(left, z[target]), kind="stable")[:k]]
            labels[near], group = group, group + 1
            left = np.setdiff1d(left, near)
    labels[left] = group
    return labels


@few
@given(
    z=hnp.arrays(np.float64, st.tuples(st.integers(1, 60), st.integers(1, 4)), elements=st.integers(-3, 3).map(float)),
    k=st.integers(1, 7),
)
def test_mdav_is_the_plain_algorithm_on_tied_data(z, k):
    k = min(k, len(z))
    assert mdav(z, k).tolist() == plain_mdav(z, k).tolist()


@pytest.mark.parametrize(("n", "p", "k"), [(400, 1, 3), (500, 2, 5), (300, 6, 3), (150, 30, 4), (120, 3, 50)])
def test_mdav_is_the_plain_algorithm_on_larger_data(n, p, k):
    z = np.random.default_rng(n).standard_t(3, size=(n, p))
    assert mdav(z, k).tolist() == plain_mdav(z, k).tolist()


def test_mdav_does_not_hang_on_rounding_errors():
    # Symmetric points: every choice is a tie, and z-scores of these steps are not exact in binary.
    x = np.array(list(product(range(4), range(3))), dtype=float)
    groups = mdav((x - x.mean(axis=0)) / x.std(axis=0, ddof=1), 3)
    for scale, shift in [(0.1, 0.0), (3.7, 11.3), (1e-3, 1e3)]:
        y = x * scale + shift
        assert mdav((y - y.mean(axis=0)) / y.std(axis=0, ddof=1), 3).tolist() == groups.tolist()


def test_mdav_takes_values_of_any_size():
    z = np.random.default_rng(3).normal(size=(40, 2))
    for scale in (1e-200, 1e200):
        assert mdav(z * scale, 3).tolist() == mdav(z, 3).tolist()


@pytest.mark.slow
@few
@given(x=frames, k=st.integers(1, 6), by=st.sampled_from(["rows", "each", "zscore", "pc1", "mdav"]))
def test_groups_partition_the_records_and_keep_means(x, k, by):
    k = min(k, len(x))
    released = Microaggregate(size=k, by=by).release(x)
    np.testing.assert_allclose(released.mean(axis=0), x.mean(axis=0), atol=1e-12)
    for j in range(x.shape[1]):
        assert np.unique(released[:, j], return_counts=True)[1].min() >= k
        if np.ptp(x[:, j]) == 0:
            assert released[:, j].tolist() == x[:, j].tolist()
    if by == "mdav":
        sizes = np.bincount(mdav(x, k))
        assert sizes.sum() == len(x)
        assert sizes.min() >= k
        assert sizes.max() < 2 * k or len(sizes) == 1
        assert np.count_nonzero(sizes > k) <= 1


@few
@given(x=hnp.arrays(np.float64, st.integers(4, 30), elements=st.floats(-100, 100)), k=st.integers(1, 4))
def test_individual_ranking_by_hand(x, k):
    order = sorted(range(len(x)), key=lambda i: (x[i], i))
    groups = [order[a : a + k] for a in range(0, len(x) - len(x) % k, k)]
    groups[-1] += order[len(x) - len(x) % k :]
    for centre, function in (("mean", np.mean), ("median", np.median)):
        expected = np.empty(len(x))
        for group in groups:
            expected[group] = function(x[group])
        np.testing.assert_allclose(
            Microaggregate(size=k, by="each", centre=centre).release(x), expected, rtol=1e-13, atol=1e-13
        )


def test_groups_within_categories_are_groups_of_each_category_alone():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {"sex": list("mf") * 20, "x": rng.normal(size=40), "area": ["n"] * 17 + [None] * 23, "y": rng.normal(size=40)}
    )
    mask = Microaggregate(size=3, by="mdav", within=["sex", "area"])
    released = mask.release(frame)
    z = frame[["x", "y"]].to_numpy()
    z = (z - z.mean(axis=0)) / z.std(axis=0, ddof=1)
    assert released["sex"].equals(frame["sex"])
    for _, rows in frame.groupby(["sex", "area"], dropna=False).indices.items():
        labels = plain_mdav(z[rows], 3)
        for group in np.unique(labels):
            member = rows[labels == group]
            np.testing.assert_allclose(
                released.loc[member, ["x", "y"]],
                np.tile(frame.loc[member, ["x", "y"]].mean(), (len(member), 1)),
                rtol=1e-13,
            )
    with pytest.raises(InputError, match=r"at least 9 records.*8 like row \d"):
        Microaggregate(size=9, by="zscore", within=["sex", "area"]).release(frame)


def test_blocks_are_grouped_apart():
    x = np.random.default_rng(4).normal(size=(50, 7))
    for by in ("mdav", "zscore", "pc1"):
        released = Microaggregate(size=4, by=by, block=3).release(x)
        parts = [Microaggregate(size=4, by=by).release(x[:, a : a + 3]) for a in (0, 3, 6)]
        np.testing.assert_array_equal(released, np.hstack(parts))
    raw = Microaggregate(size=4, by="mdav", standardise=False).release(x * [1, 1, 1, 1, 1, 1, 1000])
    assert not np.allclose(raw, Microaggregate(size=4, by="mdav").release(x * [1, 1, 1, 1, 1, 1, 1000]))


def test_the_first_principal_component_is_the_direction_of_most_variance():
    x = np.random.default_rng(6).normal(size=(60, 2)) @ [[2.0, -1.0], [0.0, 0.7]]
    z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    angles = np.linspace(0, np.pi, 20001)
    best = angles[np.argmax(np.var(z @ np.array([np.cos(angles), np.sin(angles)]), axis=0))]
    score = z @ [np.cos(best), np.sin(best)]
    # Two standardised variables have loadings of equal size: the first one is made negative.
    order = np.argsort(score * -np.sign(np.cos(best)), kind="stable")
    released = Microaggregate(size=5, by="pc1").release(x)
    np.testing.assert_allclose(
        released[order].reshape(12, 5, 2),
        np.repeat(x[order].reshape(12, 5, 2).mean(axis=1)[:, None], 5, axis=1),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size must be a whole number"),
        ({}, "needs one of groups and size"),
        ({"size": 2, "groups": 3}, "needs one of groups and size"),
        ({"size": 2, "by": "zscores"}, "Did you mean 'zscore'"),
        ({"size": 2, "centre": "mode"}, "centre must be one of"),
        ({"groups": 2, "by": "mdav"}, "need size"),
        ({"groups": 2, "within": "a"}, "need size"),
        ({"size": 2, "by": "rows", "block": 2}, "block goes with"),
        ({"size": 2, "by": "each", "standardise": False}, "standardise=False goes with"),
        ({"size": 2, "by": "mdav", "standardise": "no"}, "True or False"),
        ({"size": 2, "columns": []}, "must not be empty"),
    ],
)
def test_bad_microaggregation(arguments, message):
    with pytest.raises(InputError, match=message):
        Microaggregate(**arguments)


@pytest.mark.parametrize("by", ["rows", "each", "zscore", "pc1", "mdav"])
def test_groups_larger_than_the_file_are_refused(by):
    with pytest.raises(InputError, match="size=4 is more than the 3 records"):
        Microaggregate(size=4, by=by).release([1.0, 2.0, 3.0])


def test_bad_points_for_mdav():
    for points, size, message in [
        ([1.0, 2.0], 1, "rows and columns"),
        ([[np.nan]], 1, "finite"),
        ([[1.0]], 2, "more than the 1"),
        ([[1.0]], 0, "at least 1"),
    ]:
        with pytest.raises(InputError, match=message):
            mdav(points, size)


def test_data_dependent_groups_and_medians_have_no_linear_channel():
    for mask in (
        Microaggregate(size=2, by="mdav"),
        Microaggregate(size=2, within="a"),
        Microaggregate(size=2, centre="median"),
    ):
        with pytest.raises(UnsupportedError, match=r"no linear-Gaussian channel: (groups are found|medians are no)"):
            LinearChannel.of(mask, FileFacts(6, ("a", "b")))


# -- noise -------------------------------------------------------------------------------------------


@few
@given(x=frames, seed=st.integers(0, 9), share=st.floats(0.01, 2))
def test_kims_noise_keeps_mean_and_covariance(x, seed, share):
    x = x * np.linspace(1, 50, x.shape[1]) + 7
    for mask in (MomentNoise(share=share), MomentNoise(sd=0.5, kind="laplace")):
        released = mask.release(x, seed)
        scale = np.maximum(np.sqrt(np.outer(x.var(axis=0), x.var(axis=0))), 1e-6)
        np.testing.assert_allclose(released.mean(axis=0), x.mean(axis=0), rtol=1e-12)
        assert np.max(np.abs(np.cov(released.T) - np.cov(x.T)) / scale) < 1e-10


def test_kims_noise_on_a_nearly_singular_file():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 5)) * [1, 1e5, 1e-4, 1, 1] + 3
    x[:, 4] = x[:, 0] + 1e-7 * rng.normal(size=300)
    released = MomentNoise(share=0.16).release(x, 1)
    spread = x.std(axis=0)
    assert np.max(np.abs(np.cov((released / spread).T) - np.cov((x / spread).T))) < 1e-10
    # What is left of the noise: records move by about sqrt(2 - 2 / sqrt(1.16)) of a standard deviation.
    moved = np.sqrt(np.mean(((released - x) / spread) ** 2, axis=0))
    np.testing.assert_allclose(moved, np.sqrt(2 - 2 / np.sqrt(1.16)), rtol=0.15)


def test_kims_transform_moves_noisy_records_least():
    rng = np.random.default_rng(9)
    x = rng.normal(size=(40, 2)) @ [[1.0, 6.0], [0.0, 8.0]]
    noisy, kept = Noise(share=0.3).release(x, 4), MomentNoise(share=0.3).release(x, 4)
    spread = x.std(axis=0)
    least = np.sum(((kept - noisy + noisy.mean(axis=0) - x.mean(axis=0)) / spread) ** 2)
    root = np.linalg.cholesky(np.cov(x.T)).T
    white = (noisy - noisy.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(noisy.T)).T)
    for angle in np.linspace(0, 2 * np.pi, 60):
        for flip in (1, -1):
            turn = np.array([[np.cos(angle), -np.sin(angle)], [flip * np.sin(angle), flip * np.cos(angle)]])
            other = white @ turn @ root
            np.testing.assert_allclose(np.cov(other.T), np.cov(x.T), atol=1e-12)
            assert np.sum(((other - noisy + noisy.mean(axis=0)) / spread) ** 2) >= least - 1e-9


def test_a_share_of_the_covariance_inflates_it_by_one_plus_the_share():
    rng = np.random.default_rng(10)
    x = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 3))
    s = np.cov(x.T)
    draws = np.array([np.cov(Noise(share=0.16).release(x, i).T) for i in range(400)])
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.max(np.abs(draws.mean(axis=0) - 1.16 * s) / error) < 4


@pytest.mark.parametrize(
    ("mask", "law"),
    [
        (Noise(sd=3), stats.norm(scale=3)),
        (Noise(variance=9, kind="laplace"), stats.laplace(scale=3 / np.sqrt(2))),
        (Noise(sd=3, kind="t", df=5), stats.t(df=5, scale=3 * np.sqrt(3 / 5))),
    ],
)
def test_noise_has_the_law_it_says(mask, law):
    e = mask.release(np.zeros(20_000), 7)
    assert law.var() == pytest.approx(9)
    assert stats.kstest(e, law.cdf).pvalue > 1e-3
    assert abs(e.mean()) < 4 * 3 / np.sqrt(len(e))


@pytest.mark.parametrize(
    ("weights", "centres"), [(None, None), ([0.2, 0.3, 0.5], [-1.2, -0.2, 0.6]), (None, [-0.5, 0.5])]
)
def test_mixture_noise_has_the_components_it_says(weights, centres):
    e = Noise(sd=2, kind="mixture", weights=weights, centres=centres).release(np.zeros(20_000), 3)
    w = np.array(weights if weights else [0.5, 0.5])
    c = np.array(centres if centres else [-0.9, 0.9])
    own = np.sqrt(1 - w @ c**2)
    assert (
        stats.kstest(e, lambda t: sum(a * stats.norm.cdf(t / 2, b, own) for a, b in zip(w, c, strict=True))).pvalue
        > 1e-3
    )
    assert np.var(e) == pytest.approx(4, rel=4 * np.sqrt(2 / 20_000))


def test_correlated_noise_has_its_covariance_whatever_its_kind():
    target = np.array([[2.0, -1.2], [-1.2, 1.0]])
    for kind in ({}, {"kind": "laplace"}, {"kind": "t", "df": 9}, {"kind": "mixture"}):
        e = Noise(covariance=target, **kind).release(np.zeros((40_000, 2)), 11)
        products = e[:, :, None] * e[:, None, :]
        error = products.std(axis=0) / np.sqrt(len(e))
        assert np.max(np.abs(products.mean(axis=0) - target) / error) < 4


def test_truncation_at_a_bound_is_equation_11_of_duncan_et_al():
    x = np.array([0.5, 2.0, 9.0])
    releases = (Noise(sd=2) | Clip(lower=0)).release(np.tile(x, (4000, 1)), 1)
    c = x / 2
    expected = x * stats.norm.cdf(c) + 2 * stats.norm.pdf(c)  # E max(0, x + e)
    assert np.max(np.abs(releases.mean(axis=0) - expected) / (releases.std(axis=0) / np.sqrt(4000))) < 4
    noisy = Noise(sd=2).release(np.ones((50, 2)), 5)
    np.testing.assert_array_equal(Clip(lower=0).release(noisy), np.maximum(0, noisy))
    np.testing.assert_array_equal(Clip(lower=[0, 1], upper=5).release(noisy), np.clip(noisy, [0, 1], 5))


def test_unequal_variances_scale_the_same_draws():
    x = np.array([10.0, 40.0, 20.0, 50.0])
    e = Noise(sd=1).release(x, 2) - x
    double = Noise(variance=np.where(x > 35, 2.0, 1.0))
    np.testing.assert_allclose(double.release(x, 2) - x, e * np.where(x > 35, np.sqrt(2), 1), rtol=1e-12)
    np.testing.assert_allclose(
        Noise(variance=lambda v: 1.0 + (v > 35)).release(x, 2) - x, double.release(x, 2) - x, rtol=1e-14
    )
    np.testing.assert_allclose(Noise(sd=[1, 2, 3, 4]).release(x, 2) - x, e * [1, 2, 3, 4], rtol=1e-12)
    np.testing.assert_allclose(Noise(variance=lambda v: v**2).release(x, 2) - x, e * x, rtol=1e-12)
    two = np.stack([x, x], axis=1)
    f = Noise(sd=1).release(two, 3) - two
    table = np.arange(8.0).reshape(4, 2)
    np.testing.assert_allclose(Noise(sd=table).release(two, 3) - two, f * table, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        Noise(sd=[[1], [2], [3], [4]]).release(two, 3) - two, f * [[1], [2], [3], [4]], rtol=1e-12
    )
    np.testing.assert_allclose(Noise(sd=[5, 7]).release(two, 3) - two, f * [5, 7], rtol=1e-12)  # one number per column


def test_infinite_noise_on_some_records_leaves_them_out():
    released = Noise(sd=[1, np.inf, 1]).release([1.0, 2.0, 3.0], 1)
    assert np.isnan(released).tolist() == [False, True, False]


def test_noise_matches_what_the_step_before_took_away():
    x = np.random.default_rng(12).normal(size=(300, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    step = Microaggregate(size=3, by="zscore")
    averaged = step.release(x)
    e = (step | ResidualNoise()).release(x, 6) - averaged
    # The same draws, given the covariance of X - Mic(X) by hand.
    stream = as_generator(6, RELEASES).spawn(2)[1]
    by_hand = Noise(covariance=np.cov((x - averaged).T)).release(averaged, stream) - averaged
    np.testing.assert_allclose(e, by_hand, atol=1e-12)
    long = (Noise(sd=0.1) | step | ResidualNoise()).release(x, 6)
    assert np.all(np.isfinite(long))
    with pytest.raises(InputError, match="no mask before it"):
        ResidualNoise().release(x, 1)
    with pytest.raises(InputError, match="keep rows and columns"):
        (Subsample(size=5) | ResidualNoise()).release(x, 1)


def dense(mask, n, k):
    return LinearChannel.of(mask, FileFacts(n, tuple(range(k)))).dense()


@pytest.mark.parametrize(
    ("mask", "variances"),
    [
        (Noise(variance=[6, 3, 6, 3, 3]), np.outer([6, 3, 6, 3, 3], [1, 1])),
        (Noise(sd=[4] * 5), np.full((5, 2), 16)),
        (Noise(variance=[1, 2, 2, 5, 1]), np.outer([1, 2, 2, 5, 1], [1, 1])),
        (Noise(sd=[2, 2, 2, 2, 2]), np.full((5, 2), 4)),
        (Noise(sd=[1, 2, 3, 4, 5], columns=[1]), np.outer([1, 4, 9, 16, 25], [0, 1])),
        (Noise(sd=np.arange(10.0).reshape(5, 2)), np.arange(10.0).reshape(5, 2) ** 2),
        (
            Noise(variance=[[1], [2], [30], [40], [50]]),
            np.outer([1, 2, 30, 40, 50], [1, 1]),
        ),
        (Noise(variance=[3, 7]), np.tile([3, 7], (5, 1))),
    ],
    ids=str,
)
def test_unequal_variances_keep_the_linear_channel(mask, variances):
    a, r = dense(mask, 5, 2)
    np.testing.assert_allclose(a, np.eye(10), atol=1e-14)
    np.testing.assert_allclose(r, np.diag(np.asarray(variances, float).ravel()), atol=1e-12)
    # The release has the same variances: it is the same draws, scaled.
    columns = mask.columns or [0, 1]
    drawn = Noise(sd=1, columns=columns).release(np.zeros((5, 2)), 3)
    scaled = np.where(drawn == 0, 0, mask.release(np.zeros((5, 2)), 3) / np.where(drawn == 0, 1, drawn))
    np.testing.assert_allclose(scaled**2, variances, atol=1e-12)


def test_families_with_a_variance_per_record_are_evaluated_together_or_apart_alike():
    one, twice, other = Noise(variance=[1, 2, 2]), Noise(variance=[2, 4, 4]), Noise(variance=[3, 1, 1])
    assert one.family == twice.family == other.family != Noise(variance=[1, 2, 3]).family
    for members in ([one, twice], [one, twice, other]):
        together = LinearChannel.of(one, FileFacts(3, (0,)), np.array([m.numbers for m in members]))
        for i, member in enumerate(members):
            np.testing.assert_allclose(np.diag(together.dense(i)[1]), member.variance, atol=1e-14)


@pytest.mark.parametrize(
    ("mask", "why"),
    [
        (Noise(sd=1, kind="laplace"), "laplace, not normal"),
        (Noise(sd=1) | Clip(lower=0), "beyond a bound"),
        (Noise(sd=np.abs), "depends on the values"),
        (MomentNoise(share=0.1), "whole file"),
        (ResidualNoise(), "whole file"),
        (Noise(sd=[1, 2, np.inf]), "some records only"),
    ],
)
def test_other_noise_has_no_linear_channel_and_says_why(mask, why):
    with pytest.raises(UnsupportedError, match=why):
        dense(mask, 3, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs one of"),
        ({"sd": 1, "variance": 1}, "needs one of"),
        ({"sd": -1}, r"\[0, inf"),
        ({"sd": [1, -1]}, r"\[0, inf"),
        ({"sd": [[[1.0]]]}, "shape"),
        ({"sd": 1, "kind": "gauss"}, "kind must be one of"),
        ({"sd": 1, "kind": "t"}, "needs df"),
        ({"sd": 1, "kind": "t", "df": 2}, "df must be a number in"),
        ({"sd": 1, "df": 3}, "df goes with"),
        ({"sd": 1, "centres": [0]}, "go with"),
        ({"sd": 1, "kind": "mixture", "centres": [0.1, 0.5]}, "average to zero"),
        ({"sd": 1, "kind": "mixture", "centres": [-1, 1]}, "below 1"),
        ({"sd": 1, "kind": "mixture", "weights": [0.5, 0.5]}, "needs the components' centres"),
        ({"sd": 1, "kind": "mixture", "weights": [0.5, 0.6], "centres": [-0.5, 0.5]}, "sum to 1"),
        ({"sd": np.abs, "common": True}, "one size"),
        ({"sd": 1, "common": 1}, "True or False"),
    ],
)
def test_bad_noise(arguments, message):
    with pytest.raises(InputError, match=message):
        Noise(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "lower or upper"), ({"lower": 3, "upper": 3}, "below upper"), ({"lower": "zero"}, "numbers")],
)
def test_bad_bounds(arguments, message):
    with pytest.raises(InputError, match=message):
        Clip(**arguments)


def test_noise_that_keeps_moments_draws_for_each_record():
    with pytest.raises(InputError, match="each record"):
        MomentNoise(sd=1, common=True)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (Noise(sd=[1, 2]), "one per column, or one per record"),
        (Noise(sd=np.ones((2, 1))), "3 rows"),
        (Noise(sd=np.ones((3, 2))), "one column or 1"),
        (Noise(sd=lambda x: -x), "at least 0"),
        (Noise(sd=lambda x: x[:2]), "one number per value"),
        (Clip(lower=[0, 0]), "1 entries"),
        (Noise(sd=[1, 2, 3], common=True), "one size"),
        (MomentNoise(sd=np.inf), "infinite"),
    ],
)
def test_noise_that_does_not_fit_the_data(mask, message):
    with pytest.raises(InputError, match=message):
        mask.release([1.0, 2.0, 3.0], 1)


def test_moments_need_two_records():
    for mask in (Noise(share=0.1), MomentNoise(sd=1)):
        with pytest.raises(InputError, match=r"at least two (complete )?records"):
            mask.release([1.0], 1)


# -- multiplicative noise ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "sd"),
    [
        (MultiplicativeNoise(sd=0.2), 0.2),
        (MultiplicativeNoise(sd=0.2, kind="lognormal"), 0.2),
        (MultiplicativeNoise(sd=0.03, away=0.1, kind="mixture"), np.hypot(0.1, 0.03)),
        (MultiplicativeNoise(kind="split", least=0.1, most=0.3), np.sqrt((0.1**2 + 0.1 * 0.3 + 0.3**2) / 3)),
    ],
)
def test_factors_have_mean_one_and_the_spread_they_say(mask, sd):
    factor = mask.release(np.full(40_000, 8.0), 1) / 8
    assert abs(factor.mean() - 1) < 4 * sd / 200
    square = (factor - 1) ** 2
    assert abs(square.mean() - sd**2) < 4 * square.std() / 200
    if mask.kind == "split":
        assert np.all((np.abs(factor - 1) >= 0.1 - 1e-12) & (np.abs(factor - 1) <= 0.3 + 1e-12))
        assert abs(np.mean(factor > 1) - 0.5) < 4 * 0.5 / 200
    if mask.kind == "lognormal":
        assert factor.min() > 0


def test_one_factor_per_record_keeps_ratios():
    x = np.array([[1.0, 2.0], [3.0, 12.0], [0.0, 5.0]])
    released = MultiplicativeNoise(sd=0.3, per="record").release(x, 4)
    np.testing.assert_allclose(released[:2, 1] / released[:2, 0], [2, 4])
    assert released[2, 0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"sd": 0.1, "away": 0.1},
        {"kind": "mixture", "sd": 1},
        {"kind": "split", "least": 0.2, "most": 0.1},
        {"sd": -1},
        {"kind": "split", "sd": 1},
        {"sd": 1, "per": "row"},
    ],
)
def test_bad_multiplicative_noise(arguments):
    with pytest.raises(InputError):
        MultiplicativeNoise(**arguments)


# -- rank swapping, swapping, resampling -------------------------------------------------------------


def plain_partners(draws, window):
    """The obvious loop."""
    n = len(draws)
    partner, free = list(range(n)), [True] * n
    for i in range(n):
        if free[i]:
            free[i] = False
            options = [j for j in range(i + 1, min(i + window, n - 1) + 1) if free[j]]
            if options:
                j = options[int(draws[i] * len(options))]
                partner[i], partner[j], free[j] = j, i, False
    return partner


@few
@given(n=st.integers(1, 120), window=st.integers(0, 130), seed=st.integers(0, 1000))
def test_rank_partners_are_those_of_the_obvious_loop(n, window, seed):
    draws = np.random.default_rng(seed).random(n)
    assert rank_partners(draws, min(window, n)).tolist() == plain_partners(draws, window)


@few
@given(x=frames, share=st.floats(0.01, 1), seed=st.integers(0, 9))
def test_rank_swapping_permutes_each_margin_within_the_window(x, share, seed):
    mask = RankSwap(within=share)
    released = mask.release(x, seed)
    window = mask.window(len(x))
    for j in range(x.shape[1]):
        assert sorted(released[:, j]) == sorted(x[:, j])
        ranked = np.sort(x[:, j])
        rank = np.argsort(np.argsort(x[:, j], kind="stable"))
        low, high = ranked[np.maximum(rank - window, 0)], ranked[np.minimum(rank + window, len(x) - 1)]
        assert np.all((low <= released[:, j]) & (released[:, j] <= high))


def test_partners_are_uniform_in_the_window():
    # Three ranks, window 2: rank 0 takes 1 or 2, the third stays.
    found = [tuple(RankSwap(within=1).release([1.0, 2.0, 3.0], i)) for i in range(800)]
    counts = {p: found.count(p) for p in set(found)}
    assert set(counts) == {(2.0, 1.0, 3.0), (3.0, 2.0, 1.0)}
    assert abs(counts[(2.0, 1.0, 3.0)] - 400) < 4 * np.sqrt(200)


def test_the_window_is_the_whole_part_of_the_share():
    assert RankSwap(within=0.29).window(100) == 29
    assert RankSwap(within=0.15).window(10_000) == 1500
    assert RankSwap(within=0.15).window(6) == 0
    assert RankSwap(within=0.15).release([3.0, 1.0, 2.0], 1).tolist() == [3.0, 1.0, 2.0]


def test_rank_swapping_keeps_types():
    n = 30
    frame = pd.DataFrame(
        {
            "count": np.arange(n, dtype=np.int16)[::-1],
            "big": np.arange(n) + 2**60,
            "day": pd.date_range("2020-01-01", periods=n),
            "level": pd.Categorical(["low", "mid", "high"] * 10, categories=["low", "mid", "high"], ordered=True),
            "null": pd.array(range(n), dtype="Int64"),
            "flag": [True, False] * 15,
        }
    )
    released = RankSwap(within=0.2).release(frame, 2)
    assert released.dtypes.equals(frame.dtypes)
    for name in frame:
        assert released[name].sort_values().tolist() == frame[name].sort_values().tolist()
        assert released[name].tolist() != frame[name].tolist()
    with pytest.raises(InputError, match=r"unordered|category in 'city'"):
        RankSwap(within=0.2).release(frame.assign(city=pd.Categorical(["a"] * n)), 1)


@pytest.mark.parametrize("share", [0, -0.1, 1.01, np.nan, "a", True])
def test_windows_outside_the_unit_interval_are_refused(share):
    with pytest.raises(InputError, match=r"within must be a number in \(0, 1\]"):
        RankSwap(within=share)


@few
@given(n=st.integers(1, 40), rate=st.floats(0.01, 1), seed=st.integers(0, 9))
def test_swapping_exchanges_pairs_of_records(n, rate, seed):
    frame = pd.DataFrame({"a": np.arange(n), "b": [f"r{i}" for i in range(n)], "c": np.arange(n) / 2})
    released = Swap(rate=rate, columns=["b", "c"]).release(frame, seed)
    source = (released["c"] * 2).astype(int).to_numpy()
    assert released["a"].equals(frame["a"])
    assert released["b"].tolist() == [f"r{i}" for i in source]
    assert source[source].tolist() == list(range(n))
    assert np.count_nonzero(source != np.arange(n)) == 2 * min(int(np.floor(rate * n / 2 + 0.5)), n // 2)


def test_swapping_only_records_at_risk_and_only_within_categories():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "area": rng.choice(["n", "s", None], 200),
            "x": np.arange(200),
            "hole": np.where(rng.random(200) < 0.1, np.nan, 1.0),
        }
    )
    risky = rng.random(200) < 0.4
    released = Swap(rate=0.7, columns="x", where=risky, within="area").release(frame, 1)
    source = released["x"].to_numpy()
    assert np.all(source[~risky] == np.flatnonzero(~risky))
    assert np.all(risky[source] == risky)
    area = frame["area"].fillna("none").to_numpy()
    assert np.all(area[source] == area)
    for name in ("n", "s", "none"):
        m = np.sum(risky & (area == name))
        assert np.sum((source != np.arange(200)) & (area == name)) == 2 * min(int(np.floor(0.7 * m / 2 + 0.5)), m // 2)


@pytest.mark.parametrize(
    "arguments",
    [
        {"rate": 0, "columns": "x"},
        {"rate": 0.1, "columns": None},
        {"rate": 0.1, "columns": []},
        {"rate": 0.1, "columns": "x", "where": [1, 0]},
    ],
)
def test_bad_swaps(arguments):
    with pytest.raises(InputError):
        Swap(**arguments)


def test_swaps_that_do_not_fit_the_data():
    frame = pd.DataFrame({"x": [1, 2, 3], "y": [1, 2, 3]})
    with pytest.raises(InputError, match="each of the 3 records"):
        Swap(rate=1, columns="x", where=[True]).release(frame, 1)
    with pytest.raises(InputError, match="in columns and in within"):
        Swap(rate=1, columns="x", within=["x", "y"]).release(frame, 1)


@pytest.mark.slow
@few
@given(x=frames, times=st.integers(1, 4), seed=st.integers(0, 9))
def test_resampling_keeps_ranks_and_the_range(x, times, seed):
    released = Resample(times=times).release(x, seed)
    for j in range(x.shape[1]):
        order = np.argsort(x[:, j], kind="stable")
        assert np.all(np.diff(released[order, j]) >= 0)
        assert x[:, j].min() <= released[:, j].min()
        assert released[:, j].max() <= x[:, j].max() + 1e-12
        if times == 1:
            assert set(released[:, j]) <= set(x[:, j])


@pytest.mark.slow
def test_resampling_has_the_mean_of_bootstrap_order_statistics():
    x = np.array([5.0, 1.0, 2.0])
    samples = np.sort(np.array(list(product([1.0, 2.0, 5.0], repeat=3))), axis=1)
    expected, spread = samples.mean(axis=0)[[2, 0, 1]], samples.std(axis=0)[[2, 0, 1]]
    for times in (1, 3):
        draws = np.array([Resample(times=times).release(x, i) for i in range(800)])
        assert np.max(np.abs(draws.mean(axis=0) - expected) / (spread / np.sqrt(800 * times))) < 4


def test_resampling_needs_a_sample():
    with pytest.raises(InputError, match="times"):
        Resample(times=0)
    assert str(Resample()) == "Resample(times=3)"


# -- tails, rounding, recoding -----------------------------------------------------------------------


@pytest.mark.long
@few
@given(x=frames, q=st.sampled_from([0.0625, 0.25, 0.5, 0.65625, 0.9375]))
def test_top_and_bottom_coding_mirror_each_other(x, q):
    threshold = np.quantile(x, q, axis=0)
    for how in ("threshold", "mean", "median"):
        top = Topcode(quantile=q, replace=how).release(x)
        np.testing.assert_array_equal(
            -Bottomcode(at=-threshold, replace=how).release(-x), Topcode(at=threshold, replace=how).release(x)
        )
        np.testing.assert_array_equal(Topcode(at=threshold, replace=how).release(x), top)
        changed = x > threshold
        np.testing.assert_array_equal(top[~changed], x[~changed])
        if how == "threshold":
            np.testing.assert_array_equal(top, np.minimum(x, threshold))
        if how == "mean":
            np.testing.assert_allclose(top.mean(axis=0), x.mean(axis=0), atol=1e-12)


def test_tails_by_hand():
    frame = pd.DataFrame(
        {"a": [1, 5, 9, 20], "b": pd.array([1, None, 30, 50], dtype="Int64"), "c": np.float32([1, 2, 3, 4])}
    )
    released = Topcode(at=[8, 20, 3.5]).release(frame)
    assert released["a"].tolist() == [1, 5, 8, 8]
    assert released["b"].tolist()[2:] == [20, 20]
    assert released["b"].isna().tolist() == [False, True, False, False]
    assert released.dtypes.equals(frame.dtypes)
    assert Topcode(at=8, replace="mean", columns="a").release(frame)["a"].tolist() == [1, 5, 14.5, 14.5]
    assert Topcode(at=4, replace="median", columns="a").release(frame)["a"].tolist() == [1, 9, 9, 9]
    assert Bottomcode(at=4, replace="mean", columns="a").release(frame)["a"].tolist() == [1, 5, 9, 20]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"at": 1, "quantile": 0.5},
        {"quantile": 1},
        {"quantile": 0},
        {"at": np.nan},
        {"at": 1, "replace": "max"},
        {"at": [[1]]},
    ],
)
def test_bad_tails(arguments):
    for kind in (Topcode, Bottomcode):
        with pytest.raises(InputError):
            kind(**arguments)
    with pytest.raises(InputError, match="2 entries, one per column"):
        Topcode(at=[1, 2, 3]).release([[1.0, 2.0]])


@few
@given(
    x=hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e6, 1e6)),
    base=st.sampled_from([0.1, 0.25, 0.3, 1, 5, 100]),
)
def test_rounding_gives_near_multiples(x, base):
    for random in (False, True):
        released = Round(base=base, random=random).release(x, 1)
        np.testing.assert_allclose(released / base, np.rint(released / base), atol=1e-8)
        assert np.all(np.abs(released - x) <= base * (1 if random else 0.5) + 1e-8)
        np.testing.assert_array_equal(Round(base=base, random=random).release(released, 2), released)


def test_random_rounding_is_unbiased():
    x = np.array([-7.0, 0.0, 1.0, 2.5, 10.0])
    draws = Round(base=5, random=True).release(np.tile(x, (4000, 1)), 1)
    p = np.mod(x, 5) / 5
    error = 5 * np.sqrt(p * (1 - p) / 4000)
    assert np.all(np.abs(draws.mean(axis=0) - x) <= 4 * error)


def test_rounding_by_hand():
    frame = pd.DataFrame({"a": [12, 15, 25], "b": [0.31, 0.349, -0.32], "c": pd.array([7, None, 8], dtype="Int64")})
    released = Round(base=[10, 0.1, 5]).release(frame)
    assert released["a"].tolist() == [10, 20, 20]
    assert released["b"].tolist() == [0.3, 0.3, -0.3]
    assert released["c"].dropna().tolist() == [5, 10]
    assert released.dtypes.equals(frame.dtypes)
    assert Round(base=2.5, columns="a").release(frame)["a"].tolist() == [12.5, 15, 25]
    for base in (0, -1, np.inf, [], "a"):
        with pytest.raises(InputError):
            Round(base=base)
    with pytest.raises(InputError, match="3 entries"):
        Round(base=[1, 2]).release(frame)


def test_recoding_numbers():
    x = pd.Series([0.0, 9.99, 10.0, 30.0, np.nan], name="x")
    cut = Recode(bins=[0, 10, 20, 30]).release(x)
    assert cut.cat.ordered
    assert list(cut.cat.categories) == ["[0, 10)", "[10, 20)", "[20, 30]"]
    assert cut.tolist()[:4] == ["[0, 10)", "[0, 10)", "[10, 20)", "[20, 30]"]
    assert pd.isna(cut.iloc[4])
    assert Recode(bins=[0, 10, 20, 30], label="midpoint").release(x).tolist()[:4] == [5, 5, 15, 25]
    assert Recode(bins=[0, 10, np.inf], label="lower").release(x).tolist()[:4] == [0, 0, 10, 10]
    assert Recode(bins=[-np.inf, 10, np.inf], label=["young", "old"]).release(x).tolist()[:4] == [
        "young",
        "young",
        "old",
        "old",
    ]
    assert list(Recode(bins=[-np.inf, 10, np.inf]).release(x).cat.categories) == ["(-inf, 10)", "[10, inf)"]
    assert Recode(width=10).release(x).tolist()[:4] == ["[0, 10)", "[0, 10)", "[10, 20)", "[30, 40)"]
    assert Recode(width=4, label="lower").release([-1.0, 4.0]).tolist() == [-4, 4]


def test_recoding_categories():
    frame = pd.DataFrame(
        {
            "area": ["n", "s", None, "e"],
            "level": pd.Categorical(["a", "b", "c", "a"], categories=["a", "b", "c"], ordered=True),
            "k": [1, 2, 3, 1],
        }
    )
    area = Recode(categories={"n": "up", "s": "down"}, other="side", columns="area").release(frame)["area"]
    assert area.tolist()[:2] == ["up", "down"]
    assert area.tolist()[3] == "side"
    assert pd.isna(area.iloc[2])
    level = Recode(categories={"a": "low", "b": "low", "c": "high"}, columns="level").release(frame)["level"]
    assert level.tolist() == ["low", "low", "high", "low"]
    assert list(level.cat.categories) == ["low", "high"]
    assert level.cat.ordered
    assert not Recode(categories={"a": "x", "b": "y", "c": "x"}, columns="level").release(frame)["level"].cat.ordered
    assert Recode(categories={1: 10, 2: 20, 3: 20}, columns="k").release(frame)["k"].tolist() == [10, 20, 20, 10]
    with pytest.raises(InputError, match=r"column 'area'; got 1 others, in \d rows?, the first at position \d.*other="):
        Recode(categories={"n": "up", "s": "down"}, columns="area").release(frame)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"bins": [1]},
        {"bins": [2, 1]},
        {"bins": [0, 1], "width": 2},
        {"width": 0},
        {"categories": {}},
        {"categories": ["a"]},
        {"bins": [0, 1], "other": "x"},
        {"bins": [0, 1], "label": "middle"},
        {"bins": [0, 1, 2], "label": ["a"]},
        {"bins": [0, np.inf], "label": "midpoint"},
        {"categories": {"a": "b"}, "label": "midpoint"},
    ],
)
def test_bad_recodings(arguments):
    with pytest.raises(InputError):
        Recode(**arguments)


def test_bins_must_cover_the_data():
    with pytest.raises(InputError, match=r"2 values outside \[0, 10\].*-inf"):
        Recode(bins=[0, 5, 10]).release([1.0, -1.0, 11.0])


def test_a_covariance_is_never_read_record_by_record():
    # As many records as columns: the matrix is still across columns.
    target = [[4.0, 1.0], [1.0, 9.0]]
    x = np.zeros((2, 2))
    drawn = Noise(sd=1).release(x, 3)
    values, vectors = np.linalg.eigh(np.array(target))
    np.testing.assert_allclose(
        Noise(covariance=target).release(x, 3), drawn @ (vectors * np.sqrt(values)) @ vectors.T, rtol=1e-12
    )
    np.testing.assert_allclose(dense(Noise(covariance=target), 2, 2)[1], np.kron(np.eye(2), target), atol=1e-14)


@few
@given(keys=hnp.arrays(np.float64, st.integers(1, 60), elements=st.integers(-4, 4).map(float)))
def test_fast_sorting_is_stable_sorting(keys):
    assert stable_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()


def test_microaggregation_takes_values_of_any_size():
    x = np.random.default_rng(3).normal(size=(40, 3))
    for mask in [Microaggregate(size=3, by=by) for by in ("each", "zscore", "pc1", "mdav")] + [
        Microaggregate(size=3, by=by, standardise=False) for by in ("pc1", "mdav")
    ]:
        for scale in (2.0**-600, 2.0**600):
            np.testing.assert_allclose(mask.release(x * scale) / scale, mask.release(x), rtol=1e-12)
