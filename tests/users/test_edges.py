"""Users at the edge: data of every kind for every belief, engines that must agree, and laws that no user may break."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from edges import EDGES, attempt, read_only, tried
from hypothesis import given, settings, strategies as st

import ruvdecision as ruv
from ruvdecision.errors import RuvError

NORMAL = ruv.NormalBelief(records=12, variance=1, prior_variance=1)
NORMALS = ruv.NormalBelief(records=12, covariance=np.eye(3), prior_covariance=np.eye(3))
COIN = ruv.FiniteBelief([0.3, 0.7], likelihood=[[0.7, 0.3], [0.3, 0.7]], records=12)
WORDS = ruv.FiniteBelief(["a", "b"], likelihood=[[0.7, 0.3], [0.3, 0.7]], outcomes=["north", "south"], records=12)
TABLE = ruv.TableBelief((2, 2), total=5)

#: Users whose uncertainty depends on the data, or who look at them, with masks.
USERS = {
    "normal": (ruv.User(NORMAL, ruv.Record(0), ruv.Quadratic()), [ruv.Noise(variance=1.0), ruv.Subsample(size=3)]),
    "normal vectors": (
        ruv.User(NORMALS, ruv.Record(0), ruv.Quadratic()),
        [ruv.Noise(variance=1.0), ruv.Microaggregate(groups=3)],
    ),
    "ranks": (ruv.User(NORMAL, ruv.Maximum(), ruv.Quadratic()), [ruv.Noise(variance=1.0)]),
    "finite": (
        ruv.User(COIN, ruv.Record(0), ruv.Quadratic()),
        [ruv.Stochastic([[0.9, 0.1], [0.2, 0.8]]), ruv.Noise(variance=1.0)],
    ),
    "words": (ruv.User(WORDS, ruv.Record(0), ruv.ZeroOne()), [ruv.PRAM(stay=0.8, columns=[0])]),
    "table": (ruv.User(TABLE, ruv.Cell((0, 0)), ruv.Quadratic()), [ruv.SuppressCells(cells=[(0, 0)])]),
    "identity": (ruv.User(NORMAL, ruv.Identity(0, known=[0]), ruv.ZeroOne()), [ruv.Noise(variance=1.0)]),
    "each record": (ruv.User(NORMAL, ruv.EachRecord(), ruv.Absolute()), [ruv.Noise(variance=1.0)]),
    "snooper": (ruv.Snooper("max", ruv.Maximum()), [ruv.Noise(variance=1.0)]),
    "snooper's row": (ruv.Snooper("row", ruv.Record(3)), [ruv.Noise(sd=[1.0, 2.0, 3.0]), ruv.Shuffle()]),
    "wrong belief": (
        ruv.User(
            NORMAL, ruv.Record(0), ruv.Quadratic(), truth=ruv.NormalBelief(records=12, variance=2, prior_variance=1)
        ),
        [ruv.Noise(variance=1.0)],
    ),
    "unknown mask": (
        ruv.User(NORMAL, ruv.Record(0), ruv.Quadratic(), knows_mask=False, mask_prior=[0.5, 1.0]),
        [ruv.Noise(variance=1.0)],
    ),
}


@pytest.mark.campaign(8, "slow")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n == "ranks" else n for n in USERS])
def test_data_of_every_kind(name):
    """A map of finite numbers that are not negative, or a RuvError."""
    user, masks = USERS[name]
    wrong = []
    for edge, make in EDGES.items():
        try:
            found = attempt(
                lambda data: ruv.evaluate(masks, intruder=user, scientist=user, data=data, replicates=2, seed=1),
                make(),
                kind="users",
            )
            if isinstance(found, RuvError):
                continue
            u = found.intruder_uncertainty
            assert np.all(u >= 0), f"U is {u}"
        except Exception as error:
            wrong.append(f"{edge}: {type(error).__name__}: {str(error)[:160]}")
    assert not wrong, f"{len(wrong)} of {name}: " + "; ".join(wrong)


#: Zeros and ones, and two words, as every kind of container.
CODES = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0])
KINDS = {
    "array": lambda v: v,
    "read only": lambda v: read_only(v.copy()),
    "column": lambda v: v[:, None],
    "list": lambda v: v.tolist(),
    "tuple": lambda v: tuple(v.tolist()),
    "objects": lambda v: v.astype(object),
    "series": lambda v: pd.Series(v, index=[3] * 12),
    "categories": lambda v: pd.Series(pd.Categorical(v)),
    "frame": lambda v: pd.DataFrame({"a": v}),
    "frame of levels": lambda v: pd.DataFrame(v[:, None], columns=pd.MultiIndex.from_tuples([("a", 1)])),
}
NUMBERS = {
    "floats": lambda v: v.astype(float),
    "float32": lambda v: v.astype("float32"),
    "int8": lambda v: v.astype("int8"),
    "truth values": lambda v: v.astype(bool),
    "nullable integers": lambda v: pd.Series(v, dtype="Int64"),
    "nullable frame": lambda v: pd.DataFrame({"a": pd.array(v, dtype="Int64")}),
}


def test_a_finite_belief_reads_every_container_alike():
    coin, words = USERS["finite"], USERS["words"]
    for user, masks, plain, kinds in (
        (*coin, CODES, KINDS | NUMBERS),
        (*words, np.array(["north", "south"])[CODES], KINDS),
    ):
        base = ruv.evaluate(masks, intruder=user, scientist=user, data=plain, replicates=2, seed=1).intruder_uncertainty
        for kind, make in kinds.items():
            found = attempt(
                lambda data: ruv.evaluate(masks, intruder=user, scientist=user, data=data, replicates=2, seed=1),  # noqa: B023
                make(plain),
                kind="users",
            )
            assert not isinstance(found, RuvError), f"{kind}: {found}"
            np.testing.assert_array_equal(found.intruder_uncertainty, base, err_msg=kind)


# -- engines must agree -----------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.integers(1, 4),
    st.floats(0.2, 3.0),
    st.floats(0.1, 4.0),
    st.sampled_from(["Record", "mu", "Average", "Functional"]),
    st.sampled_from(
        [ruv.Quadratic(), ruv.Absolute(), ruv.ZeroOne(0.4), ruv.LogScore(), ruv.Pinball(0.3), ruv.Huber(1.0)]
    ),
    st.sampled_from(["noise", "noise | average", "subsample", "suppress", "release"]),
)
def test_closed_form_agrees_with_itself_by_another_road(n, spread, prior, aim, loss, kind):
    """One variable, and the same variable as the first of two that have nothing to do with each other."""
    masks = {
        "noise": ruv.Noise(variance=0.7),
        "noise | average": ruv.Noise(variance=0.7) | ruv.Microaggregate(groups=1),
        "subsample": ruv.Subsample(size=1),
        "suppress": ruv.Suppress(),
        "release": ruv.Release(),
    }
    one = ruv.NormalBelief(records=n, variance=spread, prior_variance=prior)
    two = ruv.NormalBelief(records=n, covariance=np.diag([spread, 1.0]), prior_covariance=np.diag([prior, 1.0]))
    first = {
        "Record": ruv.Record(0),
        "mu": ruv.Parameter("mu"),
        "Average": ruv.Average(),
        "Functional": ruv.Functional(lambda x: 2 * x, of=ruv.Record(0)),
    }
    parts = {"Record": ruv.Record(0), "mu": ruv.Parameter("mu"), "Average": ruv.Average(), "Functional": ruv.Record(0)}
    factor = 2.0 if aim == "Functional" else 1.0
    other = ruv.Functional([[factor, 0.0]], of=parts[aim])
    found = [
        ruv.evaluate([masks[kind]], intruder=user, scientist=user, seed=1).intruder_uncertainty[0]
        for user in (ruv.User(one, first[aim], loss), ruv.User(two, other, loss))
    ]
    tried("engines")
    if np.isinf(found[0]):
        assert found[0] == found[1]
    else:
        assert found[1] == pytest.approx(found[0], rel=1e-7, abs=1e-9)


@settings(max_examples=15)
@given(
    st.floats(0.05, 0.95),
    st.floats(0.0, 1.0),
    st.sampled_from([ruv.Record(0), ruv.Parameter("theta"), ruv.NewRecord(), ruv.Average()]),
    st.sampled_from([ruv.Quadratic(), ruv.Absolute(), ruv.ZeroOne(), ruv.LogScore(), ruv.CRPS()]),
)
def test_enumeration_is_the_sum_over_all_files(prior, chance, target, loss):
    """U by `evaluate` is the average over every file of the U that `posterior` gives for every release of it."""
    belief = ruv.FiniteBelief(
        [0.2, 0.9], [prior, 1 - prior], likelihood=[[chance, 1 - chance], [1 - chance, chance]], records=2
    )
    user = ruv.User(belief, target, loss)
    noisy = np.array([[0.9, 0.1], [0.2, 0.8]])
    u = ruv.evaluate([ruv.Stochastic(noisy)], intruder=user, scientist=user).intruder_uncertainty[0]
    total, mass = 0.0, 0.0
    for release in np.ndindex(2, 2):
        weight = 0.0
        for records in np.ndindex(2, 2):
            law = sum(belief.prior[s] * np.prod([belief.law[s, r] for r in records]) for s in range(2))
            weight += law * np.prod([noisy[r, y] for r, y in zip(records, release, strict=True)])
        if weight > 0:
            total += weight * float(
                loss.uncertainty(ruv.posterior(user, ruv.Stochastic(noisy), np.array(release, dtype=float))).value
            )
            mass += weight
    tried("engines")
    assert mass == pytest.approx(1.0)
    assert u == pytest.approx(total, rel=1e-9, abs=1e-12)


# -- laws that no user may break --------------------------------------------------------------------------


@settings(max_examples=20)
@given(
    st.integers(2, 6),
    st.floats(0.01, 100.0),
    st.floats(1.01, 50.0),
    st.sampled_from(
        [ruv.Quadratic(), ruv.Absolute(), ruv.ZeroOne(0.3), ruv.LogScore(), ruv.CRPS(), ruv.Linex(0.7), ruv.Power(0.5)]
    ),
    st.sampled_from(["Record", "mu", "New"]),
)
def test_less_information_never_helps(n, noise, factor, loss, aim):
    belief = ruv.NormalBelief(records=n, variance=1.3, prior_variance=2.0)
    target = {"Record": ruv.Record(0), "mu": ruv.Parameter("mu"), "New": ruv.NewRecord()}[aim]
    user = ruv.User(belief, target, loss)
    average = ruv.Microaggregate(groups=1)
    masks = [
        ruv.Noise(variance=noise),
        ruv.Noise(variance=noise * factor),
        ruv.Noise(variance=noise * factor) | average,
        ruv.Suppress(),
    ]
    u = ruv.evaluate(masks, intruder=user, scientist=user).intruder_uncertainty
    tried("engines", 4)
    assert np.all(np.diff(u) >= -1e-9 * np.abs(u[1:])), u
    more = ruv.NormalBelief(records=n + 1, variance=1.3, prior_variance=2.0)
    after = ruv.evaluate(masks[:1], intruder=ruv.User(more, target, loss), scientist=user).intruder_uncertainty[0]
    assert after <= u[0] + 1e-9 * abs(u[0])


def study(masks, **options):
    user = ruv.User(COIN, ruv.Parameter("theta"), ruv.Absolute())
    return ruv.evaluate(masks, intruder=user, scientist=user, seed=7, **options)


GRID = [ruv.Stochastic([[1 - p, p], [p, 1 - p]]) for p in (0.05, 0.2, 0.4)] + [
    ruv.Noise(variance=0.5),
    ruv.Noise(variance=2.0),
]


def test_order_and_company_change_no_number():
    """Permuting the masks permutes the rows, and another candidate changes nobody's numbers, to the last bit."""
    whole = study(GRID, data=CODES, replicates=3)
    for order in ([4, 2, 0, 3, 1], [1, 0, 2, 4, 3]):
        turned = study([GRID[i] for i in order], data=CODES, replicates=3)
        np.testing.assert_array_equal(turned.intruder_uncertainty, whole.intruder_uncertainty[order])
        np.testing.assert_array_equal(turned.risk_error, whole.risk_error[order])
    for left in range(len(GRID)):
        fewer = study([m for i, m in enumerate(GRID) if i != left], data=CODES, replicates=3)
        np.testing.assert_array_equal(fewer.intruder_uncertainty, np.delete(whole.intruder_uncertainty, left))
    tried("engines", 7)


def test_seeds_and_workers_change_no_number():
    whole = study(GRID, data=CODES, replicates=3)
    again = study(GRID, data=CODES, replicates=3)
    np.testing.assert_array_equal(whole.intruder_uncertainty, again.intruder_uncertainty)
    with ThreadPoolExecutor(2) as pool:
        apart = study(GRID, data=CODES, replicates=3, executor=pool)
    np.testing.assert_array_equal(whole.intruder_uncertainty, apart.intruder_uncertainty)
    np.testing.assert_array_equal(whole.risk_error, apart.risk_error)


def many_users():
    """A map of users with engines of their own, most of them with random numbers."""
    chosen = ("finite", "identity", "each record", "snooper", "wrong belief", "unknown mask")
    masks = [ruv.Noise(variance=v) for v in (0.2, 0.5, 1.0, 2.0, 4.0)]
    panel = ruv.Panel([USERS[name][0] for name in chosen], names=chosen, unit=[1.0] * len(chosen))
    return {
        "masks": masks,
        "intruder": panel,
        "scientist": USERS["snooper"][0],
        "data": CODES.astype(float),
        "replicates": 3,
        "seed": 7,
    }


def many_measures():
    """A data set, masks that draw, and measures that add up and measures that look at records."""
    data = pd.DataFrame(np.random.default_rng(1).normal(size=(40, 3)), columns=["a", "b", "c"])
    masks = [
        *(ruv.Noise(sd=s) for s in (0.1, 0.5, 2.0)),
        ruv.RankSwap(within=0.2),
        ruv.DataShuffle(columns=["a"]),
        ruv.Synthesize(),
    ]
    measures = [
        ruv.measures.NormalKL(),
        ruv.measures.Mahalanobis(),
        ruv.measures.IntervalOverlap("a ~ b + c"),
        ruv.measures.RecordLinkage(known=["a", "b"]),
    ]
    return {"data": data, "masks": masks, "measures": measures, "replicates": 5, "seed": 7}


@pytest.mark.long
@pytest.mark.parametrize("job", [(ruv.evaluate, many_users), (ruv.measure, many_measures)], ids=["evaluate", "measure"])
def test_processes_change_no_number(job):
    """Every column of the map is the same to the last bit for no worker, one, two and three."""
    function, make = job
    alone = function(**make()).to_dataframe()
    assert len(alone) >= 5 and (alone.filter(like="error").to_numpy() > 0).any()
    for workers in (1, 2, 3):
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            apart = function(**make(), executor=pool).to_dataframe()
        pd.testing.assert_frame_equal(apart, alone, check_exact=True)
        tried("workers")


def test_a_loss_twice_as_large_halves_the_risk():
    for loss, double in (
        (ruv.Quadratic(), ruv.Quadratic(2.0)),
        (ruv.Absolute(), ruv.Absolute(2.0)),
        (ruv.Huber(1.0), ruv.Huber(1.0, 2.0)),
    ):
        maps = [
            ruv.evaluate([ruv.Noise(variance=1.0)], intruder=user, scientist=user)
            for user in (ruv.User(NORMAL, ruv.Record(0), loss), ruv.User(NORMAL, ruv.Record(0), double))
        ]
        assert maps[1].risk[0] == pytest.approx(maps[0].risk[0] / 2, rel=1e-14)


def test_what_lies_under_the_mask_of_an_array_is_not_released():
    """Masked entries are missing, for masks as for beliefs; numpy itself would hand them out."""
    data = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    for mask in (ruv.Noise(variance=1.0), ruv.Microaggregate(groups=1), ruv.Round(base=1)):
        found = attempt(lambda d: mask.release(d, 1), data, kind="users")  # noqa: B023
        assert isinstance(found, RuvError) or np.isnan(np.asarray(found, dtype=float)[1]), mask
    user = ruv.User(ruv.NormalBelief(records=3, variance=1, prior_variance=1), ruv.Record(0), ruv.Absolute())
    assert isinstance(
        attempt(lambda d: ruv.posterior(user, ruv.Noise(variance=1.0), d), data, kind="users").mean(), np.ndarray
    )
    plain = ruv.Noise(variance=1.0).release(np.ma.array([1.0, 2.0, 3.0]), 1)
    np.testing.assert_array_equal(plain, ruv.Noise(variance=1.0).release(np.array([1.0, 2.0, 3.0]), 1))
