"""Users whose belief is not the agency's: they decide by their own, and pay by the agency's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given, settings, strategies as st

from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.beliefs.table.belief import TableBelief
from ruvdecision.engines import Enumeration, Exact, Problem, pick, plan_for
from ruvdecision.engines.every_record import uncertainty_of_every_record
from ruvdecision.engines.normal.affine import AffineMeans, residual_law
from ruvdecision.engines.normal.conditioning import Conditioned
from ruvdecision.engines.normal.releases import channel_of
from ruvdecision.engines.wrong_belief import WrongBelief
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.losses import CRPS, Absolute, Huber, IntervalScore, Linex, LogScore, Pinball, Power, Quadratic, ZeroOne
from ruvdecision.masks import Microaggregate, Noise, Release, Shuffle, Stochastic, Subsample, Suppress, SuppressCells
from ruvdecision.posteriors import Gaussian
from ruvdecision.targets import Average, Cell, Functional, Identity, NewRecord, Parameter, Record, Records
from ruvdecision.users.user import User

S1 = np.array([[2.0, 0.6], [0.6, 1.0]])
OWN = NormalBelief(records=7, covariance=S1, prior_mean=[1.0, 0.0], prior_covariance=np.diag([3.0, 2.0]))
RIGHT = NormalBelief(
    records=7, covariance=1.7 * S1 + 0.3 * np.eye(2), prior_mean=[0.0, 0.5], prior_covariance=np.diag([1.0, 5.0])
)
MASKS = [
    Release(),
    Suppress(),
    Suppress(columns=[0]),
    Suppress(rows=[1, 5]),
    Noise(variance=1.3),
    Noise(variance=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
    Noise(covariance=[[1.0, 0.5], [0.5, 2.0]]),
    Noise(variance=1.0) | Microaggregate(groups=3),
    Microaggregate(groups=2) | Noise(variance=0.4) | Microaggregate(groups=3),
    Noise(variance=0.5, common=True) | Noise(variance=0.2),
    Microaggregate(groups=1, columns=[0]) | Noise(variance=0.3),
]


def drawn(user: User, mask: Any, count: int, seed: np.random.SeedSequence) -> tuple[float, float]:
    """The loss as an average over releases, where there is a closed form too."""
    plan = plan_for("auto", Problem.of(user, [mask], replicates=count, seed=seed))
    (value, error), _ = plan.loss_over_draws(mask)
    return value, error


def solve(user: User, masks: Any, **options: Any) -> Any:
    masks = list(masks) if isinstance(masks, (list, tuple)) else [masks]
    return plan_for(options.pop("engine", "auto"), Problem.of(user, masks, **options)).run()[0]


def root(seed: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed)


# -- the algebra ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_residual_law_against_dense_matrices(mask: Any) -> None:
    """The law of target less the user's mean, by matrices of the whole file."""
    n, k = 7, 2
    parts = [Record(0), Record(1), Average(), Parameter("mu"), Record(5)]
    own, right = (Conditioned(b, channel_of(b, mask)) for b in (OWN, RIGHT))
    a, r = right.channel.dense()
    # The user's mean as a matrix on the release, found by asking for it at every unit vector.
    probes = np.array(
        [own.means(e.reshape(n, k)).of([p.term for p in parts]) for e in np.vstack([np.zeros(n * k), np.eye(n * k)])]
    )
    constant, gain = probes[0], (probes[1:] - probes[0]).T
    wanted, on_mean = np.zeros((10, n * k)), np.zeros((10, k))
    for i, part in enumerate(parts):
        for j in range(k):
            if isinstance(part, Record):
                wanted[i * k + j, part.row * k + j] = 1.0
            elif isinstance(part, Average):
                wanted[i * k + j, j::k] = 1.0 / n
            else:
                on_mean[i * k + j, j] = 1.0
    left = wanted - gain @ a
    slope = left @ np.kron(np.ones((n, 1)), np.eye(k)) + on_mean
    covariance = (
        left @ np.kron(np.eye(n), RIGHT.record_covariance) @ left.T
        + slope @ RIGHT.mu_covariance @ slope.T
        + gain @ r @ gain.T
    )
    bias, found = residual_law(own, right, [p.term for p in parts], np.eye(10))
    np.testing.assert_allclose(found[0], covariance, atol=1e-12)
    np.testing.assert_allclose(bias[0], slope @ RIGHT.mu_mean - constant, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_affine_means_are_the_posterior_means(mask: Any) -> None:
    given_ = Conditioned(OWN, channel_of(OWN, mask))
    parts = [Record(6), Average(), NewRecord(), Record(2)]
    release = np.asarray(mask.release(np.random.default_rng(3).normal(size=(7, 2)), 4))
    affine = AffineMeans(given_, [p.term for p in parts])
    found = affine.matrix[0] @ affine.sufficient_statistic(release) + affine.constant[0]
    np.testing.assert_allclose(found, given_.means(release).of([p.term for p in parts]), atol=1e-13)


def test_one_record_by_hand() -> None:
    """n = 1: the user shrinks by his own ratio; bias and variance of that under the truth."""
    own, right = (
        NormalBelief(records=1, variance=2, prior_mean=1, prior_variance=3),
        NormalBelief(records=1, variance=4, prior_variance=6),
    )
    shrink, noise = 5 / (5 + 1.5), 1.5
    expected = (1 - shrink) ** 2 * 10 + shrink**2 * noise + (1 - shrink) ** 2
    found = solve(User(own, Record(0), Quadratic(), truth=right), Noise(variance=1.5))
    assert found.uncertainty[0] == pytest.approx(expected, rel=1e-13)
    assert found.engine == "exact" and found.error[0] == 0
    assert found.before == pytest.approx(10 + 1, rel=1e-13)
    assert found.diagnostics["believed"][0] == pytest.approx(5 * 1.5 / 6.5, rel=1e-13)


# -- what must hold ------------------------------------------------------------------------------------

LOSSES = [
    Quadratic(),
    Absolute(),
    Pinball(0.8),
    Power(1.5),
    Huber(0.7),
    Linex(0.4),
    ZeroOne(tolerance=0.5),
    LogScore(),
    CRPS(),
    IntervalScore(0.9),
]
TARGETS = [
    Record(3),
    Parameter("mu"),
    Average(),
    NewRecord(),
    Functional(lambda a, b: a - 2 * b, of=[Record(0), Average()]),
]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(LOSSES),
    st.sampled_from(TARGETS),
    st.sampled_from(
        [Noise(variance=0.7), Suppress(), Noise(sd=1.0) | Microaggregate(groups=2), Release(), Microaggregate(groups=1)]
    ),
    st.floats(0.2, 5),
    st.floats(0.05, 20),
    st.floats(-3, 3),
)
def test_never_below_the_agency_and_the_same_where_beliefs_are(
    loss: Any, target: Any, mask: Any, variance: float, doubt: float, centre: float
) -> None:
    right = NormalBelief(records=5, variance=1.3, prior_mean=0.4, prior_variance=2.0)
    own = NormalBelief(records=5, variance=variance, prior_mean=centre, prior_variance=doubt)
    agency = solve(User(right, target, loss), mask)
    wrong = solve(User(own, target, loss, truth=right), mask)
    assert wrong.engine == "exact"
    slack = 1e-9 * (1 + abs(agency.uncertainty[0])) if np.isfinite(agency.uncertainty[0]) else 0.0
    assert wrong.uncertainty[0] >= agency.uncertainty[0] - slack - 4 * wrong.error[0]
    same = solve(User(right, target, loss, truth=right), mask)
    twin = NormalBelief(records=5, variance=1.3, prior_mean=0.4, prior_variance=2.0)
    for found in (same, solve(User(twin, target, loss, truth=right), mask)):
        np.testing.assert_allclose(found.uncertainty, agency.uncertainty, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(found.before, agency.before, rtol=1e-12)
        np.testing.assert_allclose(found.diagnostics["believed"], agency.uncertainty, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@pytest.mark.campaign(2)
@pytest.mark.parametrize("mask", [Noise(variance=1.3), Microaggregate(groups=2) | Noise(variance=0.4)], ids=str)
def test_direct_simulation(mask: Any) -> None:
    """Draw mu and the records from the truth, mask them, let the user decide, and count what it costs."""
    losses = [Quadratic(weights=[1, 3]), Absolute(), LogScore()]
    rng = np.random.default_rng(11)
    lower = np.linalg.cholesky(RIGHT.record_covariance)
    own = Conditioned(OWN, channel_of(OWN, mask))
    covariance = own.covariance([Record(2).term])[0]
    costs = []
    for _ in range(2000):
        mu = RIGHT.mu_mean + rng.standard_normal(2) * np.sqrt(np.diag(RIGHT.mu_covariance))
        records = mu + rng.standard_normal((7, 2)) @ lower.T
        posterior = Gaussian(own.means(np.asarray(mask.release(records, rng))).of([Record(2).term]), covariance)
        costs.append([float(loss(loss.estimate(posterior), records[2], vector=True)) for loss in losses])
    for loss, column in zip(losses, np.array(costs).T, strict=True):
        exact = solve(User(OWN, Record(2), loss, truth=RIGHT), mask).uncertainty[0]
        assert abs(np.mean(column) - exact) < 4 * np.std(column) / np.sqrt(len(column))


@pytest.mark.slow
def test_families_places_and_all_records() -> None:
    """A sample that is told, an unknown order, all records at once: each against the average over drawn releases."""
    own = NormalBelief(records=6, variance=1.0, prior_mean=1.0, prior_variance=0.5)
    right = NormalBelief(records=6, variance=2.0, prior_mean=0.0, prior_variance=3.0)
    chains = [
        Shuffle() | Noise(variance=0.6),
        Subsample(size=3) | Noise(variance=0.6),
        Subsample(size=4) | Noise(sd=1.0) | Microaggregate(groups=2),
    ]
    for target in (Record(4), Parameter("mu")):
        user = User(own, target, Quadratic(), truth=right)
        exact = solve(user, chains)
        assert exact.engine == "exact"
        for i, mask in enumerate(chains):
            value, error = drawn(user, mask, 120, root(2))
            assert abs(value - exact.uncertainty[i]) < 4 * error
    alone = sum(
        solve(User(own, Record(j), Absolute(), truth=right), Noise(variance=[0.1, 0.5, 1, 1, 2, 3])).uncertainty[0]
        for j in range(6)
    )
    together = solve(User(own, Records(), Absolute(), truth=right), Noise(variance=[0.1, 0.5, 1, 1, 2, 3]))
    assert together.uncertainty[0] == pytest.approx(alone, rel=1e-12)
    log = solve(User(own, Records(), LogScore(), truth=right), Noise(variance=0.7))
    assert log.uncertainty[0] > solve(User(right, Records(), LogScore()), Noise(variance=0.7)).uncertainty[0]
    grid = [Noise(variance=v) for v in (0.1, 1.0, 10.0)]
    many = solve(User(own, Record(0), Quadratic(), truth=right), grid).uncertainty
    np.testing.assert_allclose(
        many, [solve(User(own, Record(0), Quadratic(), truth=right), m).uncertainty[0] for m in grid], rtol=1e-14
    )


def test_a_million_records_cost_no_more_than_ten() -> None:
    """With both means known the record stands alone, so that n does not matter."""
    found = []
    for n in (10, 1_000_000):
        own = NormalBelief(records=n, variance=1.0, prior_mean=0.5, prior="known")
        right = NormalBelief(records=n, variance=2.0, prior_mean=0.0, prior="known")
        found.append(solve(User(own, Record(3), Quadratic(), truth=right), Noise(variance=0.8)).uncertainty[0])
    shrink = 1.0 / 1.8
    assert found[0] == pytest.approx((1 - shrink) ** 2 * (2.0 + 0.25) + shrink**2 * 0.8, rel=1e-13)
    assert found[1] == pytest.approx(found[0], rel=1e-12)


def test_flat_priors() -> None:
    flat, other = (
        NormalBelief(records=4, variance=1.0, prior="flat"),
        NormalBelief(records=4, variance=3.0, prior="flat"),
    )
    proper = NormalBelief(records=4, variance=1.0, prior_variance=1.0)
    noise = Noise(variance=1.0)
    # Flat against flat: the mean cancels, and what is left is finite and worse than right.
    wrong = solve(User(flat, Record(0), Quadratic(), truth=other), noise).uncertainty[0]
    assert wrong > solve(User(other, Record(0), Quadratic()), noise).uncertainty[0]
    # A prior mean that is anywhere at all, and a user who is sure that it is near zero.
    assert solve(User(proper, Record(0), Quadratic(), truth=other), noise).uncertainty[0] == np.inf
    assert solve(User(flat, Record(0), Quadratic(), truth=proper), Suppress()).uncertainty[0] == np.inf
    assert np.isfinite(solve(User(flat, Record(0), Quadratic(), truth=proper), noise).uncertainty[0])
    assert solve(User(flat, Record(0), ZeroOne(tolerance=1.0), truth=proper), Suppress()).uncertainty[0] == 1.0


@pytest.mark.slow
def test_losses_and_targets_without_closed_form() -> None:
    own = NormalBelief(records=4, variance=1.0, prior_mean=1.0, prior_variance=1.0)
    right = NormalBelief(records=4, variance=2.0, prior_variance=2.0)
    listed = solve(
        User(own, Record(0), Quadratic(), estimates=[-1.0, 0.0, 1.0], truth=right),
        Noise(variance=1.0),
        seed=root(1),
        replicates=200,
    )
    assert listed.engine == "exact, averaged over releases" and listed.error[0] > 0
    agency = solve(User(right, Record(0), Quadratic(), estimates=[-1.0, 0.0, 1.0]), Noise(variance=1.0))
    assert listed.uncertainty[0] > agency.uncertainty[0] - 4 * listed.error[0]
    square = Functional(lambda x: x**2, of=Record(0))
    found = solve(User(own, square, Quadratic(), truth=right), Noise(variance=1.0), seed=root(1), replicates=40)
    again = solve(User(right, square, Quadratic(), truth=right), Noise(variance=1.0), seed=root(1), replicates=40)
    plain = solve(User(right, square, Quadratic()), Noise(variance=1.0), seed=root(1), replicates=40)
    assert again.uncertainty[0] == pytest.approx(plain.uncertainty[0], rel=1e-12)
    assert found.uncertainty[0] > again.uncertainty[0] - 4 * found.error[0]


def test_data_are_released_and_judged_by_the_agency() -> None:
    own = NormalBelief(records=4, variance=1.0, prior_mean=1.0, prior_variance=1.0)
    right = NormalBelief(records=4, variance=2.0, prior_variance=2.0)
    data = np.array([5.0, -2.0, 0.3, 1.0])
    found = solve(
        User(own, Record(0), Quadratic(), truth=right), Noise(variance=1.0), data=data, seed=root(3), replicates=100
    )
    # By hand: agency's posterior variance plus the squared gap of the two posterior means, over the noise.
    gaps = []
    both = [Conditioned(b, channel_of(b, Noise(variance=1.0))) for b in (own, right)]
    for seed in range(400):
        release = Noise(variance=1.0).release(data, 1000 + seed)[:, None]
        means = [given_.means(release).of([Record(0).term]) for given_ in both]
        gaps.append(float(means[0][0] - means[1][0]) ** 2)
    left = solve(User(right, Record(0), Quadratic()), Noise(variance=1.0)).uncertainty[0]
    spread = np.hypot(np.std(gaps) / 20, found.error[0])
    assert abs(found.uncertainty[0] - left - np.mean(gaps)) < 4 * spread
    same = solve(
        User(right, Record(0), Quadratic(), truth=right), Noise(variance=1.0), data=data, seed=root(3), replicates=5
    )
    assert same.uncertainty[0] == pytest.approx(left, rel=1e-12) and same.error[0] < 1e-12


# -- finite beliefs ------------------------------------------------------------------------------------

THIRDS = FiniteBelief(
    [0.2, 0.8], [0.5, 0.5], likelihood=[[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], outcomes=[0.0, 1.0, 2.0], records=3
)
OTHER = FiniteBelief(
    [0.2, 0.8], [0.9, 0.1], likelihood=[[0.4, 0.4, 0.2], [0.3, 0.3, 0.4]], outcomes=[0.0, 1.0, 2.0], records=3
)
MATRIX = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])


def brute(
    own: FiniteBelief,
    right: FiniteBelief,
    target: Any,
    loss: Any,
    matrix: Any,
    *,
    shuffled: bool = False,
    data: Any = None,
) -> float:
    """Sum over every state, file and release; estimates by the user's sums, costs by the agency's."""
    n, size = own.records, len(own.levels)
    tables = []
    for belief in (own, right):
        joint: dict[Any, dict[float, float]] = {}
        for s, file, out in itertools.product(
            range(len(belief.prior)), itertools.product(range(size), repeat=n), itertools.product(range(3), repeat=n)
        ):
            p = (
                belief.prior[s]
                * np.prod([belief.law[s, x] for x in file])
                * np.prod([matrix[x, y] for x, y in zip(file, out, strict=True)])
            )
            if isinstance(target, Record):
                value = belief.levels.numbers[file[target.row]]
            elif isinstance(target, Average):
                value = round(float(np.mean(belief.levels.numbers[list(file)])), 12)
            else:
                value = belief.states.numbers[s]
            key = tuple(sorted(out)) if shuffled else out
            cell = joint.setdefault(key, {})
            cell[float(value)] = cell.get(float(value), 0.0) + p
        tables.append(joint)
    chances: dict[Any, float] = {key: sum(cell.values()) for key, cell in tables[1].items()}
    if data is not None:
        chances = {}
        for out in itertools.product(range(3), repeat=n):
            key = tuple(sorted(out)) if shuffled else out
            chances[key] = chances.get(key, 0.0) + float(
                np.prod([matrix[x, y] for x, y in zip(data, out, strict=True)])
            )
    total = 0.0
    for key, chance in chances.items():
        mine, theirs = tables[0][key], tables[1][key]
        values = np.array(sorted(mine))
        weights = np.array([mine[v] for v in values])
        weights /= weights.sum()
        estimate = weights @ values if isinstance(loss, Quadratic) else values[np.argmax(weights)]
        weight = sum(theirs.values())
        cost = [(estimate - v) ** 2 if isinstance(loss, Quadratic) else float(estimate != v) for v in theirs]
        total += chance * sum(c * p for c, p in zip(cost, theirs.values(), strict=True)) / weight
    return total


@pytest.mark.parametrize("target", [Record(1), Parameter("theta"), Average()], ids=repr)
@pytest.mark.parametrize("loss", [Quadratic(), ZeroOne()], ids=repr)
@pytest.mark.parametrize("shuffled", [False, True])
def test_finite_beliefs_against_every_case(target: Any, loss: Any, shuffled: bool) -> None:
    mask = Stochastic(MATRIX) | Shuffle() if shuffled else Stochastic(MATRIX)
    found = solve(User(THIRDS, target, loss, truth=OTHER), mask)
    assert found.engine == "enumeration" and found.error[0] == 0
    assert found.uncertainty[0] == pytest.approx(
        brute(THIRDS, OTHER, target, loss, MATRIX, shuffled=shuffled), rel=1e-11
    )
    data = [2, 0, 1]
    given_ = solve(User(THIRDS, target, loss, truth=OTHER), mask, data=np.array([2.0, 0.0, 1.0]))
    assert given_.uncertainty[0] == pytest.approx(
        brute(THIRDS, OTHER, target, loss, MATRIX, shuffled=shuffled, data=data), rel=1e-11
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(0.01, 1), min_size=8, max_size=8),
    st.sampled_from([Record(0), Parameter("theta"), Average(), NewRecord()]),
    st.integers(0, 3),
)
def test_finite_never_below_the_agency(numbers: list[float], target: Any, which: int) -> None:
    a, b = np.array(numbers[:4]).reshape(2, 2), np.array(numbers[4:]).reshape(2, 2)
    own = FiniteBelief([0.0, 1.0], likelihood=a / a.sum(axis=1, keepdims=True), records=4)
    right = FiniteBelief([0.0, 1.0], [0.3, 0.7], likelihood=b / b.sum(axis=1, keepdims=True), records=4)
    flip = Stochastic([[0.9, 0.1], [0.3, 0.7]])
    mask = [flip, flip | Shuffle(), Subsample(size=2) | flip, Suppress()][which]
    for loss in (Quadratic(), LogScore()):
        agency = solve(User(right, target, loss), mask)
        wrong = solve(User(own, target, loss, truth=right), mask)
        same = solve(User(right, target, loss, truth=right), mask)
        assert wrong.uncertainty[0] >= agency.uncertainty[0] - 1e-10
        assert same.uncertainty[0] == pytest.approx(agency.uncertainty[0], rel=1e-10, abs=1e-12)
        assert same.before == pytest.approx(agency.before, rel=1e-10)


def test_one_number_with_noise_is_an_integral() -> None:
    own, right = FiniteBelief([0.0, 1.0, 3.0]), FiniteBelief([0.0, 1.0, 3.0], [0.7, 0.2, 0.1])
    values, sd = np.array([0.0, 1.0, 3.0]), 0.8

    def density(y: float) -> float:
        like = scipy.stats.norm.pdf(y, values, sd)
        mine, theirs = like / 3, like * np.array([0.7, 0.2, 0.1])
        estimate = mine @ values / mine.sum()
        return float(theirs @ (estimate - values) ** 2)

    expected = scipy.integrate.quad(density, -8, 11, limit=200, epsabs=1e-12)[0]
    found = solve(User(own, Record(0), Quadratic(), truth=right), Noise(sd=sd))
    assert found.engine == "enumeration"
    assert found.uncertainty[0] == pytest.approx(expected, rel=1e-9)


def test_drawn_finite_releases_share_their_numbers_with_the_plain_user() -> None:
    plain = solve(User(OTHER, Record(0), Quadratic()), Noise(sd=0.7), seed=root(5), replicates=30)
    same = solve(User(OTHER, Record(0), Quadratic(), truth=OTHER), Noise(sd=0.7), seed=root(5), replicates=30)
    assert same.uncertainty[0] == pytest.approx(plain.uncertainty[0], rel=1e-12)
    assert same.error[0] == pytest.approx(plain.error[0], rel=1e-12)
    wrong = solve(User(THIRDS, Record(0), Quadratic(), truth=OTHER), Noise(sd=0.7), seed=root(5), replicates=30)
    assert wrong.uncertainty[0] > plain.uncertainty[0] - 1e-12  # release by release, on the same releases


def test_outcomes_that_only_one_side_knows() -> None:
    own = FiniteBelief([0.0, 1.0], likelihood=[[0.5, 0.5], [0.2, 0.8]], outcomes=[0.0, 1.0], records=2)
    right = FiniteBelief([0.0, 1.0], likelihood=[[0.5, 0.4, 0.1], [0.2, 0.2, 0.6]], outcomes=[0.0, 1.0, 2.0], records=2)
    with pytest.raises(InputError, match="impossible in the user's eyes"):
        solve(User(own, Record(0), Quadratic(), truth=right), Release())
    found = solve(User(right, Record(0), Quadratic(), truth=own), Release())
    assert found.uncertainty[0] == pytest.approx(0.0, abs=1e-15)
    labels = FiniteBelief(["a", "b"], likelihood=[[0.5, 0.5], [0.2, 0.8]], outcomes=["x", "y"])
    turned = FiniteBelief(["b", "a"], likelihood=[[0.2, 0.8], [0.5, 0.5]], outcomes=["x", "y"])
    with pytest.raises(UnsupportedError, match="different orders"):
        solve(User(labels, Parameter("theta"), ZeroOne(), truth=turned), Release())


def test_a_normal_user_in_a_finite_world() -> None:
    """Beliefs of different kinds.

    A user who thinks that coin tosses are normal, judged by one who knows that they are not.
    """
    right = FiniteBelief([0.2, 0.8], likelihood=[[0.8, 0.2], [0.2, 0.8]], outcomes=[0.0, 1.0], records=3)
    own = NormalBelief(records=3, variance=0.25, prior_mean=0.5, prior_variance=0.1)
    wrong = solve(User(own, Record(0), Quadratic(), truth=right), Noise(sd=0.5), seed=root(4), replicates=60)
    agency = solve(User(right, Record(0), Quadratic()), Noise(sd=0.5), seed=root(4), replicates=60)
    assert wrong.engine == "enumeration, averaged over releases"
    assert wrong.uncertainty[0] > agency.uncertainty[0] - 4 * np.hypot(wrong.error[0], agency.error[0])
    assert wrong.before == pytest.approx(0.25, rel=1e-12)


def test_tables() -> None:
    """Counts behind suppressed cells, averaged over drawn tables.

    The plain user exactly where the beliefs are the same.
    """
    even, uneven = TableBelief((2, 2), total=8), TableBelief((2, 2), total=8, weights=[[3.0, 1.0], [1.0, 1.0]])
    mask = SuppressCells(cells=[(0, 0), (0, 1), (1, 0), (1, 1)])
    agency = solve(User(uneven, Cell((0, 0)), Quadratic()), mask).uncertainty[0]
    assert solve(User(uneven, Cell((0, 0)), Quadratic(), truth=uneven), mask).uncertainty[0] == agency
    wrong = solve(User(even, Cell((0, 0)), Quadratic(), truth=uneven), mask, seed=root(1), replicates=60)
    assert wrong.uncertainty[0] > agency - 4 * wrong.error[0] and wrong.error[0] > 0
    assert wrong.before > solve(User(uneven, Cell((0, 0)), Quadratic()), mask).before


@pytest.mark.long
def test_models_in_pymc_agree_with_the_normal_beliefs_that_they_are() -> None:
    pm = pytest.importorskip("pymc")
    from ruvdecision.beliefs.pymc import PyMCBelief

    def model(doubt: float, sd: float) -> Any:
        def build(n: int) -> Any:
            with pm.Model() as found:
                pm.Normal("x", pm.Normal("mu", 0, doubt), sd, shape=n)
            return found

        return build

    data, mask = np.array([1.0, 0.3, -2.0, 0.5]), Noise(variance=1.0)
    own, right = PyMCBelief(model(1.0, 1.0)), PyMCBelief(model(2.0, 1.5))
    sampled = solve(User(own, Record(0), Quadratic(), truth=right), mask, data=data, seed=root(1), replicates=3)
    twins = [NormalBelief(records=4, variance=v, prior_variance=d) for v, d in ((1.0, 1.0), (2.25, 4.0))]
    normal = solve(User(twins[0], Record(0), Quadratic(), truth=twins[1]), mask, data=data, seed=root(1), replicates=3)
    assert sampled.uncertainty[0] == pytest.approx(normal.uncertainty[0], rel=1e-5)
    assert sampled.before == pytest.approx(normal.before, rel=1e-5)
    users = [User(own, Record(0), Quadratic()), User(twins[0], Record(0), Quadratic())]
    rows = np.arange(len(data))
    each, plain = (
        uncertainty_of_every_record("auto", Problem.of(u, [mask], data=data, seed=root(1)), rows) for u in users
    )
    np.testing.assert_allclose(each.uncertainty, plain.uncertainty, rtol=1e-5)


# -- the engine's as_bayes_loss ------------------------------------------------------------------------------


def test_posterior_is_the_users_own_and_words_say_so() -> None:
    user = User(OWN, Record(0), Quadratic(), truth=RIGHT)
    release = np.zeros((7, 2))
    own = plan_for("auto", Problem.of(user, [MASKS[4]])).posterior(MASKS[4], release)
    plain = Exact().posterior(User(OWN, Record(0), Quadratic()), MASKS[4], release)
    np.testing.assert_allclose(own.mean(), plain.mean())
    assert "averaged over the agency's belief" in user.describe()
    assert not user.is_rightly_informed and User(OWN, Record(0), Quadratic()).is_rightly_informed


def test_bad_input() -> None:
    with pytest.raises(InputError, match="same number of records"):
        User(OWN, Record(0), Quadratic(), truth=NormalBelief(records=8, covariance=S1, prior="flat"))
    with pytest.raises(InputError, match="truth must be a belief"):
        User(OWN, Record(0), Quadratic(), truth=3)
    with pytest.raises(InputError, match="no such parameter"):
        User(THIRDS, Parameter("theta"), Quadratic(), truth=NormalBelief(records=3, variance=1, prior="flat"))
    wide = NormalBelief(records=7, variance=1.0, prior_variance=1.0)
    with pytest.raises(InputError, match="same variables"):
        solve(User(OWN, Record(0), Quadratic(), truth=wide), Noise(variance=1.0))
    with pytest.raises(UnsupportedError, match="not available"):
        solve(User(OWN, Identity(0), ZeroOne(), truth=RIGHT), Noise(variance=1.0))
    with pytest.raises(RuvError):
        pick("nonsense", User(OWN, Record(0), Quadratic(), truth=RIGHT), [Release()])
    finite = User(THIRDS, Record(0), Quadratic(), truth=OTHER)
    assert isinstance(plan_for(Enumeration(), Problem.of(finite, [Release()])), WrongBelief)
    assert isinstance(pick(Enumeration(), finite, [Release()]), Enumeration)
