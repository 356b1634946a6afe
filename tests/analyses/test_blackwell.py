"""Blackwell's order: garblings are found, and where there is none some user prefers the other release."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision.analyses.blackwell import blackwell_order, garbling, refines
from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Quadratic
from ruvdecision.masks import (
    Microaggregate,
    Noise,
    Recode,
    Release,
    ResidualNoise,
    Round,
    Shuffle,
    Stochastic,
    Subsample,
    Suppress,
)
from ruvdecision.masks.mechanism import Combine, Mechanism
from ruvdecision.targets import Functional, Record, Records
from ruvdecision.users.user import User

AVERAGE = Microaggregate(groups=1)


def random_channel(rng, rows, columns):
    return rng.dirichlet(np.full(columns, rng.uniform(0.2, 1.5)), size=rows)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_random_garblings_are_found(seed):
    rng = np.random.default_rng(seed)
    size, inner, outer = rng.integers(2, 6, size=3)
    first = random_channel(rng, size, inner)
    second = first @ random_channel(rng, inner, outer)
    matrix, missing = garbling(first, second)
    assert missing < 1e-8
    assert np.allclose(matrix.sum(axis=1), 1)
    belief = FiniteBelief(np.arange(size))
    a, b = Stochastic(first, outputs=range(inner)), Stochastic(second, outputs=range(outer))
    assert a.refines(b, belief)


def prefers_other(first, second, missing, rng):
    """A user (prior and gains) to whom the second channel is worth more than the first, found by search over decision problems.

    By Blackwell's theorem there is one; the acts are the outputs of the second channel, and the gains are the dual of
    the garbling.
    """
    from scipy.optimize import linprog

    size, inner = first.shape
    outer = second.shape[1]
    # maximise sum g(x, o) second[x, o] - sum over y of w(y)  with  w(y) >= sum over x of first[x, y] g(x, o),  |g| <= 1
    cost = np.r_[-second.reshape(-1), np.ones(inner)]
    rows = []
    for y in range(inner):
        for o in range(outer):
            row = np.zeros(size * outer + inner)
            row[np.arange(size) * outer + o] = first[:, y]
            row[size * outer + y] = -1
            rows.append(row)
    bounds = [(-1, 1)] * (size * outer) + [(None, None)] * inner
    found = linprog(cost, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), bounds=bounds)
    gains = found.x[: size * outer].reshape(size, outer)
    value = lambda channel: sum(max(channel[:, y] @ gains[:, o] for o in range(outer)) for y in range(channel.shape[1]))  # noqa: E731
    return value(second) - value(first)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_where_it_does_not_refine_a_user_prefers_the_other(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 5))
    first, second = (
        random_channel(rng, size, int(rng.integers(2, 5))),
        random_channel(rng, size, int(rng.integers(2, 5))),
    )
    belief = FiniteBelief(np.arange(size))
    a, b = Stochastic(first, outputs=range(first.shape[1])), Stochastic(second, outputs=range(second.shape[1]))
    missing = garbling(first, second)[1]
    if missing > 1e-6:
        assert not a.refines(b, belief)
        assert prefers_other(first, second, missing, rng) > 1e-8
    else:
        assert prefers_other(first, second, missing, rng) < 1e-5


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_linear_channels(seed):
    """Build b from a by a linear map and further noise: it must be refined.

    Without the extra noise and the other way round: never.
    """
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    root, more = rng.normal(size=(k, k)), rng.normal(size=(k, k))
    noise = root @ root.T + 0.1 * np.eye(k)
    extra = more @ more.T + 0.05 * np.eye(k)
    belief = NormalBelief(records=n, covariance=np.eye(k) * 2, prior_covariance=np.eye(k))
    a, b = Noise(covariance=noise), Noise(covariance=noise + extra)
    assert a.refines(b, belief)
    assert not b.refines(a, belief)
    assert a.refines(b | AVERAGE, belief)
    other = Noise(
        covariance=noise - 0.04 * np.eye(k) + (extra if k > 1 else 0)
    )  # less in some direction only if extra is small there
    gap = np.linalg.eigvalsh(other.matrix(k) - noise)[0]
    assert a.refines(other, belief) == (gap >= 0)
    if gap < -1e-3:
        # A user who wants the direction in which b has less noise prefers b.
        direction = np.linalg.eigh(other.matrix(k) - noise)[1][:, 0]
        target = Functional(direction if k > 1 else np.ones(1), of=Record(0))
        vague = NormalBelief(records=n, covariance=np.eye(k) * 1e6, prior_covariance=np.zeros((k, k)))
        rumap = evaluate(
            [a, other], intruder=User(vague, target, Quadratic()), scientist=User(vague, target, Quadratic())
        )
        assert rumap.scientist_uncertainty[1] < rumap.scientist_uncertainty[0]


def test_linear_channels_that_tell_something_exactly():
    assert AVERAGE.refines(Noise(variance=1.0) | AVERAGE, records=6)
    assert not (Noise(variance=1.0) | AVERAGE).refines(AVERAGE, records=6)
    assert Microaggregate(groups=3).refines(AVERAGE, records=6)
    assert not AVERAGE.refines(Microaggregate(groups=3), records=6)
    assert Microaggregate(groups=4).refines(Microaggregate(groups=2), records=8)
    assert not Microaggregate(groups=3).refines(Microaggregate(groups=2), records=6)  # pairs do not make triples
    assert Suppress(columns=[1]).refines(Suppress(columns=[1]) | Noise(sd=1), records=2, columns=2)
    assert not Suppress(columns=[1]).refines(Suppress(columns=[0]), records=2, columns=2)
    # Noise before the average is noise of a tenth of the variance on it.
    assert Combine([[1.0]], [[0.2]]).refines(Noise(variance=2.0) | AVERAGE, records=10)
    assert (Noise(variance=2.0) | AVERAGE).refines(Combine([[1.0]], [[0.2]]), records=10)
    assert not (Noise(variance=2.0) | AVERAGE).refines(Combine([[1.0]], [[0.19]]), records=10)
    assert Noise(variance=1.0).refines(Noise(variance=1.0, common=True) | Noise(variance=1.0), records=3)


def test_chains_need_no_belief():
    noise = Noise(variance=2.0)
    assert noise.refines(noise | Shuffle() | Subsample(size=3))
    assert Release().refines(Recode(bins=[0, 1]))
    assert Round(1).refines(Suppress())
    assert Microaggregate(size=3, by="mdav").refines(Microaggregate(size=3, by="mdav") | Noise(sd=1))
    # Noise that looks at what the step before it took away looks at the records again.
    with pytest.raises(UnsupportedError):
        Microaggregate(size=3, by="zscore").refines(Microaggregate(size=3, by="zscore") | ResidualNoise(), records=9)
    assert noise.refines(Noise(variance=3.0) | Shuffle(), records=4)  # it refines what the shuffle goes on from
    with pytest.raises(UnsupportedError):
        Shuffle().refines(noise, records=4)


def test_rows_of_a_finite_file():
    belief = FiniteBelief([0, 1], likelihood=[[0.7, 0.3], [0.2, 0.8]], records=3)
    a, b = Stochastic([[0.9, 0.1], [0.1, 0.9]]), Stochastic([[0.8, 0.2], [0.2, 0.8]])
    assert a.refines(b, belief)
    assert not b.refines(a, belief)
    assert not (a | Suppress(rows=[1])).refines(b, belief)
    assert a.refines(b | Suppress(rows=[1]), belief)
    assert Noise(sd=1.0).refines(Noise(sd=2.0), belief)
    assert not Noise(sd=2.0).refines(Noise(sd=1.0), belief)
    assert Release().refines(Noise(sd=1.0), belief)
    assert Stochastic(np.eye(2)).refines(Noise(sd=1.0), belief)
    with pytest.raises(UnsupportedError):
        Noise(sd=1.0).refines(a, belief)


def test_outcomes_that_cannot_be_do_not_count():
    belief = FiniteBelief([0, 1, 2], probabilities=[0.5, 0.5, 0.0])
    a = Stochastic([[1, 0], [0, 1], [0, 1]], outputs=[0, 1])
    assert a.refines(Stochastic(np.eye(3)), belief)
    assert not a.refines(Stochastic(np.eye(3)), FiniteBelief([0, 1, 2]))


def test_mechanisms_of_the_whole_file():
    belief = FiniteBelief([0, 1], likelihood=[[0.7, 0.3], [0.2, 0.8]], records=2)
    rng = np.random.default_rng(3)
    first = rng.dirichlet(np.ones(3), size=3)
    a = Mechanism(first, outputs=[0, 1, 2], outcomes=[0, 1], records=2)
    b = Mechanism(first @ rng.dirichlet(np.ones(2), size=3), outputs=[0, 1], outcomes=[0, 1], records=2)
    assert a.refines(b, belief)
    assert not b.refines(a, belief)
    users = [User(belief, target, Quadratic()) for target in (Record(0), Records())]
    from ruvdecision.engines.finite.whole_file import WholeFile

    for user in users:
        u = WholeFile().solve(user, [a, b]).uncertainty
        assert u[0] <= u[1] + 1e-12


def test_order_of_a_list():
    masks = [Release(), Noise(sd=1.0), Noise(sd=2.0), Suppress(), Noise(variance=1.0), Shuffle()]
    order = blackwell_order(masks, records=3)
    assert order.nearest_more_informative()[:4] == ["", "Release()", "Noise(sd=1)", "Noise(sd=2)"]
    assert order.equally_informative[1] == (4,)
    assert order.table[5, 1] == -1
    assert "pairs not decided" in repr(order)


def test_bad_input():
    with pytest.raises(InputError, match="must be a mask"):
        Release().refines(3)
    with pytest.raises(InputError, match="both"):
        refines(Noise(sd=1), Noise(sd=2), FiniteBelief([0, 1]), records=3)
    with pytest.raises(UnsupportedError, match="depends on what the records are"):
        Noise(sd=1).refines(Noise(sd=2))
    with pytest.raises(UnsupportedError, match="too large"):
        Noise(sd=1).refines(Noise(sd=2), records=10_000)
    with pytest.raises(InputError, match="one row per category"):
        garbling(np.eye(2), np.eye(3))


def test_a_map_says_which_release_tells_everything() -> None:
    import ruvdecision as ruv

    belief = ruv.NormalBelief(records=4, variance=1, prior_variance=2)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    rumap = ruv.evaluate([ruv.Noise(variance=1.0), ruv.Noise(variance=3.0)], intruder=user, scientist=user).with_order()
    column = rumap.columns["tells_less_than"]
    assert column[0] == "" and "Noise(variance=1)" in column[1]
