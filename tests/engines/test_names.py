"""Files meet models by name; entries that nobody knows; survey weights. Checked by direct conditioning."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import ruvdecision as ruv
from ruvdecision.errors import InputError, RuvError

S, S0, MEAN, N = np.array([[2.0, 0.8], [0.8, 1.0]]), np.array([[3.0, 0.5], [0.5, 2.0]]), np.array([1.0, 2.0]), 4
BELIEF = ruv.NormalBelief(records=N, covariance=S, prior_mean=MEAN, prior_covariance=S0, columns=["income", "age"])
DATA = pd.DataFrame(
    [[0.3, 1.0], [2.2, 0.1], [-1.0, 3.0], [0.7, 2.5]],
    columns=["income", "age"],
    index=["id-4", "id-17", "id-2", "id-9"],
)
OTHER = DATA[["age", "income"]]
NOISE = ruv.Noise(variance=[0.5, 1.5])
TARGETS = [
    ruv.Record("id-2"),
    ruv.Record("id-2", column="income"),
    ruv.Parameter("mu", component="age"),
    ruv.Average(column="age"),
    ruv.Functional(lambda a, b: a - b, of=[ruv.Record("id-17", column="age"), ruv.Parameter("mu", component="age")]),
    ruv.Functional(lambda a: a**2, of=ruv.Record("id-17", column="age")),
]


def u_of(user, mask, **options):
    rumap = ruv.evaluate([mask], intruder=user, scientist=user, seed=3, **options)
    return float(rumap.intruder_uncertainty[0])


def conditioned(rows, noise):
    """Covariance of (mu, records) given some entries (row, column) with noise of these variances; all by hand."""
    prior = np.kron(np.ones((N + 1, N + 1)), S0) + np.kron(np.diag([0.0] + [1.0] * N), S)
    place = [2 * (i + 1) + j for i, j in rows]
    gain = np.linalg.solve(prior[np.ix_(place, place)] + np.diag([noise[j] for _, j in rows]), prior[place])
    values = np.array([DATA.iloc[i, j] for i, j in rows])
    mean = np.tile(MEAN, N + 1)
    return mean + gain.T @ (values - mean[place]), prior - prior[:, place] @ gain


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.describe())
def test_columns_in_another_order_give_the_same_numbers(target):
    user = ruv.User(BELIEF, target, ruv.Quadratic())
    numbers = [u_of(user, NOISE, data=file, replicates=5) for file in (DATA, OTHER)]
    assert numbers[0] == numbers[1] > 0
    release = NOISE.release(DATA, 1)
    laws = [ruv.posterior(user, NOISE, r) for r in (release, release[["age", "income"]])]
    assert np.array_equal(laws[0].mean(), laws[1].mean())


def test_labels_are_positions():
    for name, place in ((ruv.Record("id-17"), ruv.Record(1)), (TARGETS[1], ruv.Record(2, column=0))):
        one, two = (ruv.User(BELIEF, t, ruv.Quadratic()) for t in (name, place))
        mask = ruv.Noise(variance=1.0, columns=["income"]) | ruv.Suppress(rows=["id-17"])
        assert u_of(one, mask, data=OTHER) == u_of(two, mask, data=DATA)
    each = ruv.User(BELIEF, ruv.EachRecord("mean", rows=["id-9", "id-4"]), ruv.Quadratic())
    same = ruv.User(BELIEF, ruv.EachRecord("mean", rows=[3, 0]), ruv.Quadratic())
    assert u_of(each, mask, data=OTHER) == u_of(same, mask, data=DATA)


def test_dates_and_tuples_are_labels():
    days = DATA.set_axis(pd.date_range("2021-03-01", periods=N))
    pairs = DATA.set_axis(pd.MultiIndex.from_product([["a"], range(N)]))
    right = u_of(ruv.User(BELIEF, ruv.Record(2), ruv.Quadratic()), ruv.Suppress(rows=[2]) | NOISE, data=DATA)
    for file, label in (
        (days, "2021-03-03"),
        (days, dt.date(2021, 3, 3)),
        (days, days.index[2]),
        (pairs, ("a", 2)),
    ):
        user = ruv.User(BELIEF, ruv.Record(label), ruv.Quadratic())
        assert u_of(user, ruv.Suppress(rows=[2]) | NOISE, data=file) == right
    assert ruv.Suppress(rows=["2021-03-03"]).release(days).isna().all(axis=1).tolist() == [i == 2 for i in range(N)]
    with pytest.raises(InputError, match="No row has this label"):
        u_of(ruv.User(BELIEF, ruv.Record("2021-04-03"), ruv.Quadratic()), NOISE, data=days)


def test_one_entry_is_that_of_direct_conditioning():
    mean, covariance = conditioned([(i, j) for i in range(N) for j in range(2)], [0.5, 1.5])
    user = ruv.User(BELIEF, ruv.Record("id-2", column="age"), ruv.Quadratic())
    law = ruv.posterior(user, ruv.Release(), OTHER)
    assert float(law.mean()) == pytest.approx(3.0) and float(law.var()) == pytest.approx(0.0, abs=1e-12)
    assert u_of(user, NOISE, data=OTHER) == pytest.approx(covariance[7, 7])
    assert float(ruv.posterior(user, NOISE, OTHER).mean()) == pytest.approx(mean[7])


def test_knows_by_label():
    known = ruv.Release(rows=["id-4", "id-9"])
    users = [ruv.User(BELIEF, ruv.Record("id-2"), ruv.Quadratic(), knows=k) for k in (known, ruv.Release(rows=[0, 3]))]
    assert u_of(users[0], NOISE, data=OTHER) == pytest.approx(u_of(users[1], NOISE, data=DATA), rel=1e-14)
    both = (NOISE & known).release(DATA, 1)
    laws = [ruv.posterior(users[0], NOISE, tuple(f[c] for f in both)) for c in (["income", "age"], ["age", "income"])]
    assert np.array_equal(laws[0].mean(), laws[1].mean())
    assert known.release(DATA).isna().sum().tolist() == [2, 2]
    with pytest.raises(InputError, match="No row has this label"):
        ruv.Release(rows=["nobody"]).release(DATA)


def test_rows_of_a_release_by_date():
    days = pd.DataFrame({"income": [1.0, 2.0, 3.0]}, index=pd.to_datetime(["2021-03-03", "2021-03-04", "2021-03-05"]))
    for row in ("2021-03-04", dt.date(2021, 3, 4)):
        assert ruv.Suppress(rows=[row]).release(days)["income"].isna().tolist() == [False, True, False]


def test_a_missing_or_extra_column_lists_both():
    user = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic())
    odd = DATA.rename(columns={"age": "Age"}).assign(region="north")
    for call in (
        lambda: u_of(user, NOISE, data=odd),
        lambda: ruv.posterior(user, NOISE, odd),
        lambda: ruv.analyses.record_risk([NOISE], intruder=user, data=odd),
    ):
        with pytest.raises(InputError, match=r"missing \['age'\] and extra \['Age', 'region'\]"):
            call()


def test_names_that_are_not_there():
    for target, words in (
        (ruv.Record("id-5"), "No row has this label"),
        (ruv.Record(0, column="wage"), "names a column that is not there"),
        (ruv.Parameter("mu", component="wage"), "No entry of mu is called so"),
    ):
        with pytest.raises(InputError, match=words) as error:
            u_of(ruv.User(BELIEF, target, ruv.Quadratic()), NOISE, data=DATA)
        assert "id-17" not in str(error.value)
    with pytest.raises(InputError, match="needs a file with labels"):
        u_of(ruv.User(BELIEF, ruv.Record("id-2"), ruv.Quadratic()), NOISE)
    twice = DATA.rename(index={"id-9": "id-2"})
    with pytest.raises(InputError, match="Several rows have this label"):
        u_of(ruv.User(BELIEF, ruv.Record("id-2"), ruv.Quadratic()), NOISE, data=twice)
    for bad in (1.5, None, [1], "", True):
        with pytest.raises(InputError):
            ruv.Record(bad)


def test_analyses_take_names():
    each = ruv.User(BELIEF, ruv.EachRecord(rows=["id-9", "id-4"]), ruv.Quadratic())
    found = ruv.analyses.record_risk([NOISE], intruder=each, data=OTHER)
    assert found.rows.tolist() == [3, 0]
    users = [
        [ruv.User(BELIEF, t, ruv.Quadratic()) for t in (ruv.Record(0), ruv.Parameter("mu", c))] for c in ("age", 1)
    ]
    limits = [ruv.limit(intruder=i, scientist=s, max_risk=0.5) for i, s in users]
    assert np.array_equal(limits[0].utility, limits[1].utility)


def test_a_truth_with_other_names_is_refused():
    truth = ruv.NormalBelief(records=N, covariance=S, prior_covariance=S0, columns=["age", "income"])
    with pytest.raises(InputError, match="alike, in one order"):
        u_of(ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), truth=truth), NOISE, data=DATA)


def test_snoopers_take_labels():
    users = [ruv.Snooper("row", t) for t in (ruv.Record("id-17", column=None), ruv.Record(1))]
    assert u_of(users[0], NOISE, data=DATA) == u_of(users[1], NOISE, data=DATA)


PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1)]
FINITE = ruv.FiniteBelief(
    [0, 1],
    [0.3, 0.7],
    likelihood=[[0.4, 0.1, 0.2, 0.3], [0.1, 0.5, 0.2, 0.2]],
    outcomes=PAIRS,
    records=3,
    columns=["a", "b"],
)
BITS = pd.DataFrame([[0, 1], [1, 1], [0, 0]], columns=["a", "b"], index=["x", "y", "z"])


def test_finite_beliefs_have_columns():
    mask = ruv.Suppress(columns=["b"])
    for target in (ruv.Record("y", column="b"), ruv.Record("y"), ruv.Parameter("theta")):
        user = ruv.User(FINITE, target, ruv.Quadratic())
        assert u_of(user, mask, data=BITS) == u_of(user, mask, data=BITS[["b", "a"]]) > 0
    post = ruv.posterior(
        ruv.User(FINITE, ruv.Record("y", column="b"), ruv.Quadratic()), mask, mask.release(BITS)[["b", "a"]]
    )
    state = FINITE.prior * np.prod(
        [FINITE.law[:, [0, 1]].sum(1), FINITE.law[:, 2:].sum(1), FINITE.law[:, :2].sum(1)], axis=0
    )
    assert float(post.mean()) == pytest.approx(state @ (FINITE.law[:, 3] / FINITE.law[:, 2:].sum(1)) / state.sum())
    with pytest.raises(InputError, match="extra"):
        u_of(user, mask, data=BITS.assign(c=1))
    with pytest.raises(InputError, match="2 different names"):
        ruv.FiniteBelief([(0, 0), (0, 1)], columns=["a"])


# -- entries that nobody knows -----------------------------------------------------------------------------

GAPS = DATA.copy()
GAPS.loc["id-17", "income"] = np.nan
GAPS.loc["id-9"] = np.nan
THERE = [(0, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("target", "matrix"),
    [
        (ruv.Record("id-17", column="income"), [(4, 1.0)]),
        (ruv.Record("id-9", column="age"), [(9, 1.0)]),
        (ruv.Parameter("mu", component="age"), [(1, 1.0)]),
        (ruv.Average(column="age"), [(i, 0.25) for i in (3, 5, 7, 9)]),
    ],
)
def test_missing_entries_are_integrated_out(target, matrix):
    weights = np.zeros(10)
    for place, weight in matrix:
        weights[place] = weight
    user = ruv.User(BELIEF, target, ruv.Quadratic())
    mean, covariance = conditioned(THERE, [0.5, 1.5])
    assert u_of(user, NOISE, data=GAPS) == pytest.approx(weights @ covariance @ weights)
    law = ruv.posterior(user, NOISE, GAPS)  # as if the noise had been nought
    assert float(law.mean()) == pytest.approx(weights @ mean) and float(law.var()) == pytest.approx(
        weights @ covariance @ weights
    )


def test_missing_entries_stay_gaps_in_drawn_releases():
    """A loss of one's own is averaged over releases."""
    own = ruv.User(BELIEF, ruv.Record("id-9", column="age"), lambda e, t: (e - t) ** 2)
    _, covariance = conditioned(THERE, [0.5, 1.5])
    assert u_of(own, NOISE, data=GAPS, replicates=2) == pytest.approx(covariance[9, 9], rel=0.1)


def test_missing_entries_against_listwise_deletion():
    """Of one variable a missing record is one record less; of two, what is left of it still tells something."""
    data = np.array([1.0, np.nan, 3.0, 0.5])
    one = [ruv.NormalBelief(records=n, variance=2.0, prior_variance=5.0) for n in (4, 3)]
    for mask in (ruv.Noise(variance=1.0), ruv.Noise(variance=1.0) | ruv.Microaggregate(groups=1)):
        users = [ruv.User(b, ruv.Parameter("mu"), ruv.Quadratic()) for b in one]
        whole, listwise = u_of(users[0], mask, data=data), u_of(users[1], mask, data=data[[0, 2, 3]])
        assert whole == pytest.approx(listwise, rel=1e-12)
        release = ruv.Noise(variance=1.0).release(data, 1)
        laws = [
            ruv.posterior(u, ruv.Noise(variance=1.0), release[rows])
            for u, rows in zip(users, (slice(None), [0, 2, 3]), strict=True)
        ]
        assert float(laws[0].mean()) == pytest.approx(float(laws[1].mean()), rel=1e-12)
    small = ruv.NormalBelief(records=2, covariance=S, prior_mean=MEAN, prior_covariance=S0, columns=["income", "age"])
    user = ruv.User(BELIEF, ruv.Parameter("mu", component="age"), ruv.Quadratic())
    deleted = u_of(ruv.User(small, user.target, ruv.Quadratic()), NOISE, data=GAPS.dropna())
    assert u_of(user, NOISE, data=GAPS) < 0.95 * deleted


def test_missing_entries_with_knowledge_and_every_record():
    knows = ruv.Release(rows=["id-4"])
    user = ruv.User(BELIEF, ruv.Record("id-9", column="age"), ruv.Quadratic(), knows=knows)
    _, before = conditioned([(0, 0), (0, 1)], [0.0, 0.0])
    rumap = ruv.evaluate([NOISE], intruder=user, scientist=user, data=GAPS)
    assert float(rumap.before[0][0]) == pytest.approx(before[9, 9])
    each = ruv.User(BELIEF, ruv.EachRecord("mean"), ruv.Quadratic(weights=[1, 1]))
    _, after = conditioned(THERE, [0.5, 1.5])
    assert u_of(each, NOISE, data=GAPS) == pytest.approx(np.trace(after[2:, 2:]) / N)


def test_missing_entries_of_finite_beliefs():
    gaps = BITS.astype(float)
    gaps.loc["y", "b"], gaps.loc["z"] = np.nan, np.nan
    user = ruv.User(FINITE, ruv.Parameter("theta"), ruv.Quadratic())
    state = FINITE.prior * FINITE.law[:, 1] * FINITE.law[:, 2:].sum(1)
    p = state[1] / state.sum()
    assert u_of(user, ruv.Release(), data=gaps) == pytest.approx(p * (1 - p))
    assert float(ruv.posterior(user, ruv.Release(), gaps).mean()) == pytest.approx(p)


def test_shares_of_a_covariance_that_is_not_known_are_refused():
    user = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic())
    with pytest.raises(RuvError, match="covariance="):
        u_of(user, ruv.Noise(share=0.2), data=GAPS)


# -- survey weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [NOISE, NOISE | ruv.Microaggregate(groups=2), ruv.Suppress(rows=[1])])
def test_weighted_averages(mask):
    weights = pd.Series([1.0, 4.0, 2.0, 0.0], index=["id-9", "id-4", "id-2", "id-17"])
    user = ruv.User(BELIEF, ruv.Average(weights=weights, column="income"), ruv.Quadratic())
    records = ruv.User(BELIEF, ruv.Records(), ruv.Quadratic())
    w = np.kron(weights[DATA.index] / weights.sum(), [1.0, 0.0])
    law = ruv.posterior(records, mask, mask.release(DATA, 1))
    assert u_of(user, mask, data=OTHER) == pytest.approx(w @ law.cov() @ w)
    own = ruv.posterior(user, mask, mask.release(DATA, 1))
    assert float(own.mean()) == pytest.approx(w @ law.mean())
    total = ruv.Functional([[7.0]], of=ruv.Average(weights=weights, column="income"))
    assert u_of(ruv.User(BELIEF, total, ruv.Quadratic()), mask, data=DATA) == pytest.approx(49 * w @ law.cov() @ w)


@pytest.mark.slow
def test_weights_of_all_records_of_large_files():
    n, rng = 5000, np.random.default_rng(1)
    belief = ruv.NormalBelief(records=n, variance=2.0, prior_variance=5.0)
    w = rng.uniform(0.5, 3, n)
    user = ruv.User(belief, ruv.Average(weights=w), ruv.Quadratic())
    w = w / w.sum()
    total = 1 / (1 / 5 + n / 3)
    # Given mu the records after noise of variance 1 have variance 2/3 and slope 1/3.
    assert u_of(user, ruv.Noise(variance=1.0)) == pytest.approx(np.sum(w**2) * 2 / 3 + total / 9)
    grouped = ruv.Microaggregate(groups=2)
    inside = sum(np.sum((part - part.mean()) ** 2) for part in np.split(w, 2))
    assert u_of(user, grouped) == pytest.approx(2 * inside, rel=1e-6)


def test_weights_are_checked():
    for bad in ([], [-1.0, 2.0], [0.0, 0.0], [[1.0]], ["a"]):
        with pytest.raises(InputError):
            ruv.Average(weights=bad)
    with pytest.raises(InputError, match="one per record"):
        ruv.User(BELIEF, ruv.Average(weights=[1, 2]), ruv.Quadratic())
    user = ruv.User(BELIEF, ruv.Average(weights=pd.Series([1.0, 2.0, 3.0, 4.0])), ruv.Quadratic())
    with pytest.raises(InputError, match="4 records without one"):
        u_of(user, NOISE, data=DATA)


def test_weighted_averages_of_finite_records():
    coin = ruv.FiniteBelief([0.3, 0.6], likelihood=[[0.7, 0.3], [0.4, 0.6]], records=3)
    user = ruv.User(coin, ruv.Average(weights=[1, 1, 2]), ruv.Quadratic())
    p = np.array([0.3, 0.6])
    given = np.sum(np.array([0.25, 0.25, 0.5]) ** 2) * p * (1 - p)
    assert u_of(user, ruv.Suppress()) == pytest.approx(given.mean() + p.var())
