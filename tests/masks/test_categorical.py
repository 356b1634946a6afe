"""Masks of categories: PRAM, local suppression, and the mixed distance."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ruvdecision.checks import RELEASES, as_generator
from ruvdecision.errors import InfeasibleError, InputError
from ruvdecision.masks.frame import Frame
from ruvdecision.masks.localsuppress import LocalSuppress, key_matches
from ruvdecision.masks.mdav import mdav
from ruvdecision.masks.microaggregate import MicroaggregateMixed, centres, embed_mixed_records
from ruvdecision.masks.noise import Noise
from ruvdecision.masks.pram import PRAM, invariant_matrix

P3 = [[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.3, 0.3, 0.4]]


def town(n: int, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "c": pd.Categorical(rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1]), categories=list("abc")),
            "s": rng.choice(["x", "y"], n),
            "b": rng.random(n) < 0.2,
            "i": rng.integers(0, 5, n),
            "v": rng.standard_normal(n),
        },
        index=np.arange(n) + 100,
    )


# -- PRAM --------------------------------------------------------------------------------------------------


def test_pram_draws_from_its_matrix() -> None:
    n = 40_000
    data = town(n)
    released = PRAM(matrix=P3, columns=["c"]).release(data, 2)
    seen = pd.crosstab(data["c"], released["c"]).to_numpy()
    size = seen.sum(axis=1, keepdims=True)
    p = np.array(P3)
    assert np.all(np.abs(seen / size - p) < 4 * np.sqrt(p * (1 - p) / size))
    pd.testing.assert_frame_equal(released.drop(columns="c"), data.drop(columns="c"))


def test_pram_keeps_types_index_and_seed_and_picks_categorical_columns() -> None:
    data = town(200)
    data.loc[103, "s"] = None
    before = data.copy(deep=True)
    mask = PRAM(stay=0.5)
    released = mask.release(data, 3)
    pd.testing.assert_frame_equal(data, before)
    assert (released.dtypes == data.dtypes).all()
    assert_array_equal(released.index, data.index)
    assert [c for c in data if not released[c].equals(data[c])] == ["c", "s", "b"]
    assert released["s"].isna().tolist() == data["s"].isna().tolist()
    pd.testing.assert_frame_equal(released, pickle.loads(pickle.dumps(mask)).release(data, as_generator(3, RELEASES)))


def test_a_column_is_treated_alike_whichever_others_are() -> None:
    data = town(100)
    alone, both = PRAM(stay=0.4, columns=["b"]).release(data, 7), PRAM(stay=0.4, columns=["s", "b"]).release(data, 7)
    assert_array_equal(alone["b"], both["b"])


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2, 3, 3], "int64"),
        ([1.0, 2.5, np.nan, 2.5], "float64"),
        ([1, 2, None, 2], "Int64"),
        ([True, None, False, True], "boolean"),
    ],
)
def test_pram_on_other_types(values: list, dtype: str) -> None:
    column = pd.Series(values, dtype=dtype, name="a")
    seen = set()
    for seed in range(30):
        released = PRAM(stay=0.2).release(column, seed)
        assert released.dtype == column.dtype and released.name == "a"
        assert released.isna().tolist() == column.isna().tolist()
        seen |= set(released.dropna())
    assert seen == set(column.dropna())
    assert set(PRAM(stay=0.0).release(np.array([4, 9]), 1).tolist()) == {4, 9}


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(0, 10**6), st.booleans())
def test_invariant_matrices_keep_margins_exactly(k: int, seed: int, holes: bool) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), size=k)
    t = rng.integers(0 if holes else 1, 50, k).astype(float)
    if t.sum() == 0:
        t[0] = 1
    if holes and k > 1:
        p[:, 0] = 0  # nobody is ever sent to the first category
        p /= p.sum(axis=1, keepdims=True)
    r = invariant_matrix(p, t)
    assert_allclose(r.sum(axis=1), 1, rtol=1e-12)
    assert np.all(r >= 0)
    assert_allclose(t @ r, t, rtol=1e-10, atol=1e-10)
    # Detailed balance: the two steps are a move and the move back by Bayes' rule.
    assert_allclose(t[:, None] * r, (t[:, None] * r).T, atol=1e-10 * t.max())


@pytest.mark.slow
def test_invariant_pram_keeps_margins_in_simulation_and_plain_pram_does_not() -> None:
    data = town(400)
    margins = data["c"].value_counts().reindex(list("abc")).to_numpy()
    runs = 400
    r = PRAM(stay=0.5, invariant=True).transition(list("abc"), margins)
    # Each record moves on its own: the exact variance of a released count.
    sd = np.sqrt((margins[:, None] * r * (1 - r)).sum(axis=0) / runs)
    counts = np.array(
        [
            PRAM(stay=0.5, invariant=True, columns="c").release(data, s)["c"].value_counts().reindex(list("abc"))
            for s in range(runs)
        ]
    )
    assert np.all(np.abs(counts.mean(axis=0) - margins) < 4 * sd)
    assert counts.std(axis=0).min() > 1
    plain = np.array(
        [PRAM(stay=0.5, columns="c").release(data, s)["c"].value_counts().reindex(list("abc")) for s in range(50)]
    )
    assert np.abs(plain.mean(axis=0) - margins).max() > 40


def test_the_order_of_categories() -> None:
    p = np.array([[1.0, 0.0], [1.0, 0.0]])  # everything becomes the first category
    assert set(PRAM(matrix=p).release(pd.Series(["z", "a", "z"]), 1)) == {"a"}  # sorted values
    assert set(PRAM(matrix=p, categories=["z", "a"]).release(pd.Series(["z", "a", "z"]), 1)) == {"z"}
    labelled = pd.DataFrame([[0.0, 1.0], [0.0, 1.0]], index=["a", "z"], columns=["z", "a"])
    assert set(PRAM(matrix=labelled).release(pd.Series(["z", "a", "z"]), 1)) == {"a"}
    own = pd.Series(pd.Categorical(["z", "a"], categories=["z", "a"]))
    assert set(PRAM(matrix=p).release(own, 1)) == {"z"}
    mapped = PRAM(matrix={"s": p, "t": p}, categories={"t": ["z", "a"]}).release(
        pd.DataFrame({"s": ["z", "a"], "t": ["z", "a"]}), 1
    )
    assert set(mapped["s"]) == {"a"} and set(mapped["t"]) == {"z"}
    shared = PRAM(matrix=p, categories={"t": ["z", "a"]}, columns=["s", "t"]).release(
        pd.DataFrame({"s": ["z", "a"], "t": ["z", "a"]}), 1
    )
    assert set(shared["s"]) == {"a"} and set(shared["t"]) == {"z"}


def test_a_category_that_does_not_occur_can_be_released() -> None:
    released = PRAM(matrix=[[0, 1], [0, 1]], categories=["a", "new"]).release(pd.Series(["a", "a"]), 1)
    assert set(released) == {"new"}
    unused = pd.Series(pd.Categorical(["a", "a"], categories=["a", "new"]))
    assert set(PRAM(matrix=[[0, 1], [0, 1]]).release(unused, 1)) == {"new"}
    with pytest.raises(InputError, match="does not have"):
        PRAM(matrix=[[0, 1], [0, 1]], categories=["a", "new"]).release(pd.Series(pd.Categorical(["a", "a"])), 1)


def test_transition_is_the_channel_of_an_entry() -> None:
    assert_allclose(PRAM(matrix=P3).transition(list("abc")), P3, rtol=1e-15)
    assert_allclose(PRAM(stay=0.7).transition(range(4))[0], [0.7, 0.1, 0.1, 0.1])
    assert_array_equal(PRAM(stay=0.7).transition(["only"]), [[1.0]])
    reordered = PRAM(matrix=P3, categories=list("abc")).transition(list("cab"))
    assert_allclose(reordered, np.array(P3)[np.ix_([2, 0, 1], [2, 0, 1])])
    channel = PRAM(matrix=P3).stochastic(list("abc"))
    assert_allclose(channel.table, P3, rtol=1e-15)
    assert channel.labels() == ("a", "b", "c")
    both = PRAM(stay={"a": 0.9, "b": 0.5})
    assert both.transition([0, 1], column="b")[0, 0] == 0.5
    margins = np.array([5, 3, 2])
    r = PRAM(matrix=P3, invariant=True).transition(list("abc"), margins)
    assert_allclose(margins @ r, margins, rtol=1e-13)
    # A released file's law: E margins = t' P for plain PRAM.
    assert_allclose(margins @ PRAM(matrix=P3).transition(list("abc")), margins @ np.array(P3))


def test_a_grid_of_stay_shares_its_random_numbers() -> None:
    data = town(500)["s"]
    moved = [set(np.flatnonzero((PRAM(stay=s).release(data, 4) != data).to_numpy())) for s in (0.9, 0.7, 0.4)]
    assert moved[0] <= moved[1] <= moved[2]
    assert len(moved[0]) < len(moved[2])


def test_pram_describes_itself() -> None:
    assert repr(PRAM(stay=0.8, invariant=True, columns="a")) == "PRAM(stay=0.8, invariant=True, columns=['a'])"
    assert repr(PRAM(matrix=[[0.9, 0.1], [0, 1]])) == "PRAM(matrix=[[0.9, 0.1], [0, 1]])"
    chain = PRAM(stay=0.8, columns="s") | Noise(sd=1, columns=["v"])
    assert chain.parameters()["stay"] == 0.8
    released = chain.release(town(50), 1)
    assert not released["v"].equals(town(50)["v"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs one of matrix and stay"),
        ({"matrix": [[1.0]], "stay": 0.5}, "needs one of matrix and stay"),
        ({"stay": 1.2}, "stay must be a number in \\[0, 1\\]"),
        ({"stay": {"a": -0.1}}, "stay\\['a'\\]"),
        ({"matrix": [[0.5, 0.4], [0, 1]]}, "sums to 1"),
        ({"matrix": [[1.5, -0.5], [0, 1]]}, "negative"),
        ({"matrix": [[0.5, 0.5]]}, "square"),
        ({"matrix": {"a": [[0.5, np.nan], [0, 1]]}}, "finite"),
        ({"matrix": {}}, "same columns"),
        ({"matrix": {"a": [[1.0]]}, "columns": ["a"]}, "itself"),
        ({"matrix": {"a": [[1.0]]}, "categories": {"b": ["x"]}}, "same columns"),
        ({"matrix": [[1.0]], "categories": ["x", "y"]}, "2 by 2"),
        ({"matrix": [[0, 1], [1, 0]], "categories": ["x", "x"]}, "different"),
        ({"matrix": pd.DataFrame([[0, 1], [1, 0]], index=["x", "y"], columns=["x", "z"])}, "do not agree"),
        ({"stay": 0.5, "invariant": "yes"}, "True or False"),
        ({"stay": 0.5, "columns": []}, "empty"),
    ],
)
def test_pram_refuses_arguments(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PRAM(**arguments)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (PRAM(stay=0.8, columns=["d"]), "not there"),
        (PRAM(matrix=P3, columns=["s"]), "3 categories"),
        (
            PRAM(matrix=[[0, 1], [1, 0]], categories=["x", "z"], columns=["s"]),
            "no category of the matrix; got some in .* rows",
        ),
        (PRAM(stay=0.8, columns=["v"]), "at most 2000"),
        (PRAM(stay={"nope": 0.5}), "not there"),
    ],
)
def test_pram_refuses_data(mask: PRAM, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mask.release(town(2500), 1)


def test_pram_refuses_what_has_no_order_or_no_margins() -> None:
    with pytest.raises(InputError, match="no text"):
        PRAM(stay=0.5).release(pd.DataFrame({"a": [1, 2], "b": [1, 2]}), 1)
    with pytest.raises(InputError, match="no order"):
        PRAM(stay=0.5).release(pd.Series(["a", 1, ("t",)], dtype=object), 1)
    with pytest.raises(InputError, match="hashable"):
        PRAM(stay=0.5).release(pd.Series([["a"], ["b"]], dtype=object), 1)
    with pytest.raises(InputError, match="depends on the margins"):
        PRAM(stay=0.5, invariant=True).transition(["a", "b"])
    with pytest.raises(InputError, match="3 counts"):
        invariant_matrix(P3, [1, 2])
    with pytest.raises(InputError, match="column= from"):
        PRAM(stay={"a": 0.5, "b": 0.4}).transition(["x"])


# -- local suppression -------------------------------------------------------------------------------------


def matches_by_brute_force(frame: pd.DataFrame) -> np.ndarray:
    """Compare every pair of records, value by value."""
    rows = list(frame.itertuples(index=False))
    agree = lambda a, b: all(pd.isna(x) or pd.isna(y) or x == y for x, y in zip(a, b, strict=True))  # noqa: E731
    return np.array([sum(agree(a, b) for b in rows) for a in rows])


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.data())
def test_every_key_occurs_k_times(data: st.DataObject) -> None:
    n, d = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 4))
    k = data.draw(st.integers(1, n))
    levels = data.draw(st.integers(1, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    frame = pd.DataFrame({f"k{j}": rng.integers(0, levels, n).astype(str) for j in range(d)})
    holes = rng.random((n, d)) < data.draw(st.sampled_from([0.0, 0.2]))
    frame = frame.mask(holes)
    costs = data.draw(st.sampled_from([None, list(range(1, d + 1))]))
    released = LocalSuppress(k=k, keys=list(frame), importance=costs).release(frame, 5)
    assert matches_by_brute_force(released).min() >= k
    assert_array_equal(key_matches(released), matches_by_brute_force(released))
    # Nothing changes but to a blank, and nothing at all if the file was safe.
    kept = released.notna()
    assert (released.where(kept, "") == frame.where(kept, "")).all().all()
    assert (frame.isna() & kept).sum().sum() == 0
    if matches_by_brute_force(frame).min() >= k:
        assert released.equals(frame)


def fewest_blanks(frame: pd.DataFrame, k: int, most: int) -> int:
    """The smallest number of blanks that will do, by trying all sets of entries."""
    cells = list(itertools.product(range(len(frame)), range(frame.shape[1])))
    for size in range(most + 1):
        for chosen in itertools.combinations(cells, size):
            trial = frame.copy()
            for i, j in chosen:
                trial.iat[i, j] = None
            if matches_by_brute_force(trial).min() >= k:
                return size
    return most


def test_blanks_are_few_against_the_optimum_of_small_files() -> None:
    rng = np.random.default_rng(8)
    ours = best = 0
    for _ in range(25):
        n, d = int(rng.integers(3, 6)), 2
        frame = pd.DataFrame(rng.integers(0, 3, (n, d)).astype(str)).astype(object)
        k = int(rng.integers(2, 4))
        blanks = int(LocalSuppress(k=k, keys=[0, 1]).release(frame, 1).isna().sum().sum())
        ours += blanks
        best += fewest_blanks(frame, k, blanks)
    assert best > 20
    assert ours <= 1.2 * best


def test_blanks_help_each_other() -> None:
    # Two records that differ in one key: one blank is enough for both.
    two = pd.DataFrame({"a": ["p", "q"], "b": ["r", "r"]})
    assert LocalSuppress(k=2, keys=["a", "b"]).release(two, 1).isna().sum().tolist() == [1, 0]
    # Two groups of four that lack one each: one blank in each, not four in one.
    fours = pd.DataFrame({"a": list("ppppqqqq")})
    assert LocalSuppress(k=5, keys="a").release(fours, 1)["a"].isna().sum() == 2
    # Nine alike among many: blanking one safe record helps all nine.
    nine = pd.DataFrame({"a": ["p"] * 9 + ["q"] * 30})
    assert LocalSuppress(k=10, keys="a").release(nine, 1)["a"].isna().sum() == 1


def test_importance_decides_which_key_is_blanked() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({c: rng.integers(0, 6, 60) for c in "abc"})
    blanks = {}
    for dear in "abc":
        released = LocalSuppress(k=3, keys=list("abc"), importance={dear: 20}).release(frame, 1)
        blanks[dear] = released.isna().sum()
        assert matches_by_brute_force(released).min() >= 3
    for dear in "abc":
        assert blanks[dear][dear] == 0
        assert blanks[dear].sum() > 0


def test_blanked_columns_keep_their_kind() -> None:
    data = town(60).assign(t=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(60) % 7, unit="D"))
    released = LocalSuppress(k=8, keys=["c", "s", "b", "i", "t"]).release(data, 2)
    kinds = {
        "c": data["c"].dtype,
        "s": data["s"].dtype,
        "b": "boolean",
        "i": "Int64",
        "t": data["t"].dtype,
        "v": "float64",
    }
    for c in data:
        assert released[c].dtype == (kinds[c] if released[c].isna().any() else data[c].dtype), c
    assert released["i"].isna().any()
    assert_array_equal(released.index, data.index)
    assert_array_equal(released["v"], data["v"])
    assert matches_by_brute_force(released[["c", "s", "b", "i", "t"]]).min() >= 8
    array = LocalSuppress(k=2, keys=[0]).release(np.array([[1, 5], [2, 6], [2, 7]]), 1)
    assert array.dtype == np.float64 and np.isnan(array[:, 0]).sum() == 1


def test_equal_records_are_blanked_at_random_and_by_seed() -> None:
    frame = pd.DataFrame({"a": ["p"] * 4 + ["q"] * 4})
    chosen = {tuple(np.flatnonzero(LocalSuppress(k=5, keys="a").release(frame, s)["a"].isna())) for s in range(30)}
    assert len(chosen) > 5
    assert LocalSuppress(k=5, keys="a").release(frame, 9).equals(LocalSuppress(k=5, keys="a").release(frame, 9))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(6, 60), st.integers(1, 4), st.sampled_from([0.0, 0.3, 0.9]), st.integers(2, 6)
)
def test_blanks_that_count_less_leave_nobody_below_k(seed: int, n: int, p: int, alpha: float, k: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.integers(0, 4, size=(n, p)).astype(float)).mask(rng.random((n, p)) < 0.1)
    released = LocalSuppress(k=k, keys=list(frame), alpha=alpha).release(frame, 1)
    assert key_matches(released, alpha=alpha).min() >= k * (1 - 1e-9)
    assert ((released == frame) | released.isna()).all(axis=None)
    rare = key_matches(frame, alpha=alpha) < k * (1 - 1e-9)
    if not rare.any():
        assert released.isna().sum().sum() == frame.isna().sum().sum()


@pytest.mark.slow
def test_a_large_file_reaches_k() -> None:
    rng = np.random.default_rng(4)
    n = 20_000
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 90, n),
            "sex": rng.integers(0, 2, n),
            "region": rng.integers(0, 20, n),
            "edu": rng.integers(0, 6, n),
            "family": rng.integers(0, 4, n),
        }
    )
    released = LocalSuppress(k=3, keys=list(frame)).release(frame, 1)
    assert (key_matches(frame) < 3).sum() > 10_000
    assert key_matches(released).min() >= 3
    # A spot check of the fast count.
    for row in rng.integers(0, n, 20):
        agree = np.ones(n, dtype=bool)
        for c in frame:
            value, column = released[c].iloc[row], released[c]
            agree &= (
                np.ones(n, dtype=bool) if pd.isna(value) else (column.isna() | (column == value)).to_numpy(dtype=bool)
            )
        assert agree.sum() == key_matches(released)[row]


def test_many_levels_do_not_overflow() -> None:
    frame = pd.DataFrame({j: np.arange(40) * (j + 1) % 37 for j in range(12)})
    released = LocalSuppress(k=2, keys=list(frame)[:6]).release(frame, 1)
    assert matches_by_brute_force(released.iloc[:, :6]).min() >= 2
    wide = pd.DataFrame(np.random.default_rng(0).integers(0, 2**30, (50, 12)))
    assert_array_equal(key_matches(wide), np.ones(50))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"k": 0, "keys": ["c"]}, InputError, "k must be"),
        ({"k": 2}, InputError, "key variables"),
        ({"k": 2, "keys": []}, InputError, "empty"),
        ({"k": 2, "keys": list(range(13))}, InputError, "at most 12"),
        ({"k": 2, "keys": ["c"], "importance": {"s": 1}}, InputError, "no keys"),
        ({"k": 2, "keys": ["c"], "importance": [0]}, InputError, "importance"),
        ({"k": 2, "keys": ["c"], "importance": [1, 2]}, InputError, "length 1"),
        ({"k": 2, "keys": ["zz"]}, InputError, "not there"),
        ({"k": 51, "keys": ["c"]}, InfeasibleError, "51 times in 50 records"),
    ],
)
def test_local_suppression_refuses(arguments: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        LocalSuppress(**arguments).release(town(50), 1)


def test_local_suppression_describes_itself() -> None:
    assert repr(LocalSuppress(k=2, keys=["a"])) == "LocalSuppress(k=2, keys=['a'])"
    assert (
        repr(LocalSuppress(k=3, keys=["a", "b"], importance=[1, 2]))
        == "LocalSuppress(k=3, keys=['a', 'b'], importance=[1, 2])"
    )


# -- mixed distance ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["sd", "range"])
def test_embedded_points_have_the_stated_distances(scale: str) -> None:
    data = town(12).assign(o=pd.Categorical([2, 1, 3] * 4, categories=[1, 2, 3], ordered=True), flat=1.0)
    weights = {"s": 2.0, "v": 0.5}
    z = embed_mixed_records(data, scale=scale, weights=weights)
    size = lambda x: np.std(x, ddof=1) if scale == "sd" else np.ptp(x)  # noqa: E731
    rank = data["o"].cat.codes.to_numpy()
    for a, b in itertools.combinations(range(12), 2):
        wanted = 0.5 * ((data["v"].iloc[a] - data["v"].iloc[b]) / size(data["v"])) ** 2
        wanted += ((data["i"].iloc[a] - data["i"].iloc[b]) / size(data["i"])) ** 2 + (
            (rank[a] - rank[b]) / size(rank)
        ) ** 2
        wanted += 2.0 * (data["s"].iloc[a] != data["s"].iloc[b])
        wanted += int(data["c"].iloc[a] != data["c"].iloc[b]) + int(data["b"].iloc[a] != data["b"].iloc[b])
        assert np.sum((z[a] - z[b]) ** 2) == pytest.approx(wanted, rel=1e-10)


def test_centres_are_means_medians_and_commonest_categories() -> None:
    data = pd.DataFrame(
        {
            "v": [1.0, 2.0, 6.0, 10.0, 20.0],
            "i": [1, 2, 2, 7, 8],
            "s": ["y", "x", "x", "q", "p"],
            "o": pd.Categorical([3, 1, 2, 1, 3], categories=[1, 2, 3], ordered=True),
        }
    )
    out = centres(Frame.of(data), [0, 1, 2, 3], np.array([5, 5, 5, 9, 9])).unwrap()
    assert out["v"].tolist() == [3, 3, 3, 15, 15]
    assert out["i"].tolist() == [2, 2, 2, 8, 8] and out["i"].dtype == np.int64  # 5/3 and 7.5, rounded half to even
    assert out["s"].tolist() == ["x", "x", "x", "q", "q"]  # a tie goes to the first in the group
    assert out["o"].tolist() == [2, 2, 2, 1, 1] and out["o"].dtype == data["o"].dtype


def test_mixed_microaggregation_with_numbers_alone_is_plain_mdav() -> None:
    x = np.random.default_rng(2).standard_normal((40, 3)) * [1, 10, 100]
    labels = mdav((x - x.mean(axis=0)) / x.std(axis=0, ddof=1), 4)
    wanted = np.array([[x[labels == g, j].mean() for j in range(3)] for g in labels])
    assert_allclose(MicroaggregateMixed(size=4).release(x), wanted, rtol=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(3, 60), st.integers(1, 3), st.integers(0, 10**6))
def test_mixed_microaggregation_makes_groups_of_at_least_k_alike(n: int, size: int, seed: int) -> None:
    data = town(n, seed)
    released = MicroaggregateMixed(size=size, weights={"s": 3}).release(data)
    assert (released.dtypes == data.dtypes).all()
    assert_array_equal(released.index, data.index)
    assert released.groupby(list(data.columns), observed=True).size().min() >= size
    assert released["v"].mean() == pytest.approx(data["v"].mean(), abs=1e-12)
    if size == 1:
        pd.testing.assert_frame_equal(released, data)


def test_a_heavy_category_is_not_mixed() -> None:
    rng = np.random.default_rng(6)
    data = pd.DataFrame({"v": rng.standard_normal(60), "s": rng.permutation(["x"] * 30 + ["y"] * 30)})
    same = lambda w: (MicroaggregateMixed(size=3, weights={"s": w}).release(data)["s"] == data["s"]).mean()  # noqa: E731
    assert same(1000.0) == 1.0
    assert same(0.0) < 0.95
    assert repr(MicroaggregateMixed(size=3, weights={"s": 2})) == "MicroaggregateMixed(size=3, weights={'s': 2.0})"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size"),
        ({"size": 2, "scale": "iqr"}, "scale"),
        ({"size": 2, "weights": [1]}, "mapping"),
        ({"size": 2, "weights": {"s": -1}}, "weights"),
    ],
)
def test_mixed_microaggregation_refuses(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        MicroaggregateMixed(**arguments)
    with pytest.raises(InputError, match="more than the 5 records"):
        MicroaggregateMixed(size=6).release(town(5))


def test_mixed_distance_refuses() -> None:
    with pytest.raises(InputError, match="missing"):
        embed_mixed_records(pd.DataFrame({"a": [1.0, np.nan]}))
    with pytest.raises(InputError, match="not there"):
        embed_mixed_records(pd.DataFrame({"a": [1.0, 2.0]}), weights={"b": 1})
    with pytest.raises(InputError, match="sd"):
        embed_mixed_records(pd.DataFrame({"a": [1.0, 2.0]}), scale="iqr")
    with pytest.raises(InputError, match="200 categories"):
        embed_mixed_records(pd.DataFrame({"a": [f"n{i}" for i in range(300)]}))
