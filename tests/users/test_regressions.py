"""Cases that a careful reader tried and that once went wrong.

Every reference is worked out here, by hand or by enumeration.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from brute import condition

import ruvdecision as ruv
from ruvdecision.checks import as_generator

S1 = np.array([[2.0, 0.5], [0.5, 1.0]])
S0 = np.array([[5.0, 1.0], [1.0, 3.0]])


def uncertainty(belief, target, mask, loss=None, **kwargs):
    """The intruder's U after one mask."""
    scientist = ruv.User(belief, ruv.NewRecord(), ruv.Quadratic())
    rumap = ruv.evaluate(
        [mask], intruder=ruv.User(belief, target, loss or ruv.Quadratic()), scientist=scientist, **kwargs
    )
    return float(rumap.intruder_uncertainty[0])


# -- a sample keeps the order of the file ------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 2, 4])
@pytest.mark.parametrize(
    ("mask", "labels", "noise", "hidden"),
    [
        (ruv.Suppress(rows=[0]), [0, 1, 2], [0, 0, 0], [0]),
        (ruv.Microaggregate(groups=2), [0, 0, 1], [0, 0, 0], []),
        (ruv.Noise(variance=[1.0, 2.0, 9.0]), [0, 1, 2], [1, 2, 9], []),
    ],
)
def test_where_a_record_lies_in_a_sample_depends_on_its_row(row, mask, labels, noise, hidden):
    """The first record is the first of the sample if it is in it; all ten samples of 3 out of 5 are gone through."""
    n, size = 5, 3
    labels = np.array(labels)
    found = []
    for kept in itertools.combinations(range(n), size):
        a = np.zeros((size, n))
        for i in range(size):
            mates = np.flatnonzero(labels == labels[i])
            a[i, [kept[m] for m in mates]] = 1 / len(mates)
        shown = [i for i in range(size) if i not in hidden]
        a, r = np.kron(a[shown], np.eye(2)), np.kron(np.diag(np.array(noise, float)[shown]), np.eye(2))
        prior = np.kron(np.ones((n, n)), S0) + np.kron(np.eye(n), S1)
        gain = prior @ a.T @ np.linalg.pinv(a @ prior @ a.T + r, rcond=1e-11, hermitian=True)
        found.append(np.diag(prior - gain @ a @ prior)[2 * row : 2 * row + 2].sum())
    belief = ruv.NormalBelief(records=n, covariance=S1, prior_covariance=S0)
    assert uncertainty(belief, ruv.Record(row), ruv.Subsample(size=size) | mask) == pytest.approx(
        np.mean(found), rel=1e-10
    )


def test_ranks_in_a_large_sample():
    """The last of a million records is the last of the sample, so that it alone is hidden; the first never is."""
    n, m = 1_000_000, 400_000
    belief = ruv.NormalBelief(records=n, variance=2.0, prior="known")
    mask = ruv.Subsample(size=m) | ruv.Suppress(rows=[m - 1])
    assert uncertainty(belief, ruv.Record(n - 1), mask) == pytest.approx(2.0, rel=1e-9)
    assert uncertainty(belief, ruv.Record(0), mask) == pytest.approx(2.0 * (1 - m / n), rel=1e-9)


# -- linear functions --------------------------------------------------------------------------------------


def test_a_difference_is_known_where_the_level_is_not():
    """Under a flat prior two unreleased records differ by N(0, 2 s2), whatever their level.

    So does a record from mu.
    """
    belief = ruv.NormalBelief(records=4, variance=2, prior="flat")
    apart = ruv.Functional(lambda a, b: a - b, of=[ruv.Record(0), ruv.Record(1)])
    assert uncertainty(belief, apart, ruv.Suppress()) == pytest.approx(4.0, rel=1e-12)
    error = ruv.Functional([1.0, -1.0], of=[ruv.Record(0), ruv.Parameter("mu")])
    assert uncertainty(belief, error, ruv.Suppress()) == pytest.approx(2.0, rel=1e-12)
    assert uncertainty(belief, ruv.Record(0), ruv.Suppress()) == np.inf


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("n", [3, 6, 7])
def test_a_sum_that_the_release_tells_is_known_exactly(n, k):
    """The mean of the group goes out, so the mean of its records is known.

    U is zero, not rounding error, nor refused.
    """
    a = np.random.default_rng(n * k).normal(size=(k, k))
    belief = ruv.NormalBelief(records=n, covariance=a @ a.T + 0.1 * np.eye(k), prior_covariance=1.7 * np.eye(k))
    mean = ruv.Functional(lambda *x: sum(x) / n, of=[ruv.Record(j) for j in range(n)])
    for target in (mean, ruv.Average()):
        assert uncertainty(belief, target, ruv.Microaggregate(groups=[0] * n)) == 0.0
        assert uncertainty(belief, target, ruv.Microaggregate(groups=1), ruv.LogScore()) == -np.inf


def test_the_average_through_overlapping_groups_is_known_exactly():
    a = np.random.default_rng(599).normal(size=(3, 3))
    belief = ruv.NormalBelief(records=4, covariance=a @ a.T + 0.2 * np.eye(3), prior="known")
    mask = ruv.Microaggregate(groups=[0, 0, 0, 2]) | ruv.Microaggregate(groups=[0, 1, 0, 0], columns=[2])
    assert uncertainty(belief, ruv.Average(), mask) == pytest.approx(0.0, abs=1e-25)


def test_a_column_that_is_told_exactly_beside_one_that_is_not():
    """Its variance is rounding error at most, and no covariance may stick out beside it."""
    for seed in range(40):
        a = np.random.default_rng(seed).normal(size=(3, 3))
        belief = ruv.NormalBelief(records=3, covariance=a @ a.T + 0.2 * np.eye(3), prior="flat")
        mask = ruv.Noise(variance=3, columns=[1]) | ruv.Microaggregate(groups=[1, 1, 1], columns=[0])
        cov = ruv.posterior(ruv.User(belief, ruv.Record(2), ruv.Quadratic()), mask).cov()
        assert abs(cov[2, 2]) < 1e-28
        assert np.linalg.eigvalsh(cov)[0] > -1e-15


# -- noise -------------------------------------------------------------------------------------------------


def test_a_wiped_column_stays_wiped_under_later_noise():
    """Infinite noise is suppression: what is added afterwards must not tell the noise on the other columns."""
    spread = np.diag([1.0, 2.0, 3.0]) + 0.3
    belief = ruv.NormalBelief(records=4, covariance=spread, prior_covariance=2 * np.eye(3))
    later = np.array([[0.5, 0.4, 0.2], [0.4, 0.9, -0.3], [0.2, -0.3, 0.7]])
    for common in (False, True):
        after = ruv.Noise(covariance=later, common=common)
        wiped = ruv.Noise(variance=[0, np.inf, 1.0]) | after
        dropped = ruv.Noise(variance=[0, 0, 1.0]) | ruv.Suppress(columns=[1]) | after
        for target in (ruv.Record(0), ruv.Parameter("mu"), ruv.Average()):
            assert uncertainty(belief, target, wiped) == pytest.approx(uncertainty(belief, target, dropped), rel=1e-12)


@pytest.mark.parametrize("noise", [1e-12, 1e-9, 1e-3])
def test_very_small_noise_after_overlapping_averages(noise):
    """Four noisy copies of one mean: the average is known up to noise / 4."""
    belief = ruv.NormalBelief(records=4, variance=1.3, prior_variance=0.8)
    mask = ruv.Microaggregate(groups=[2, 0, 2, 2]) | ruv.Microaggregate(groups=1) | ruv.Noise(variance=noise)
    expected = 1 / (4 / noise + 1 / (0.8 + 1.3 / 4))
    assert uncertainty(belief, ruv.Average(), mask) == pytest.approx(expected, rel=1e-7)
    exact = condition(
        ruv.Microaggregate(groups=1) | ruv.Noise(variance=noise), 4, np.array([[1.3]]), np.array([[0.8]])
    )[0][0, 0]
    assert uncertainty(belief, ruv.Parameter("mu"), mask) == pytest.approx(exact, rel=1e-6)


# -- unknown rows ------------------------------------------------------------------------------------------


def test_shuffled_groups_are_put_together_again():
    """Two groups of two with means 0.5 and 11, rows shuffled: every order gives the same mixture."""
    belief = ruv.NormalBelief(records=4, variance=2.0, prior_variance=5.0)
    mask = ruv.Microaggregate(groups=2) | ruv.Shuffle()
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    for order in ([11, 0.5, 11, 0.5], [0.5, 11, 11, 0.5], [11, 11, 0.5, 0.5]):
        posterior = ruv.posterior(user, mask, np.array(order, dtype=float))
        # Within a group the variance is s2 / 2; the mean of the group is the record's expectation.
        assert float(posterior.mean()) == pytest.approx(5.75, rel=1e-12)
        assert float(posterior.var()) == pytest.approx(1.0 + 5.25**2, rel=1e-12)


def test_data_count_for_a_quadratic_loss_of_an_unknown_row():
    """FORMULAS section 2: U(y) = s2 (1 - rho) + (1 - rho)^2 V + rho^2 mean (y - ybar)^2, here without noise."""
    x = np.array([1.0, 5.0, -2.0, 7.0])
    belief = ruv.NormalBelief(records=4, variance=2.0, prior_variance=5.0)
    assert uncertainty(belief, ruv.Record(0), ruv.Shuffle(), data=x) == pytest.approx(x.var(), rel=1e-10)
    assert uncertainty(belief, ruv.Record(0), ruv.Shuffle()) == pytest.approx(1.5, rel=1e-12)


def test_a_candidate_does_not_change_another_ones_score():
    """Chains spawn random streams; every mask of a map must start from the same ones."""
    belief = ruv.NormalBelief(records=5, variance=2.0, prior_variance=5.0)
    user = ruv.User(belief, ruv.Record(0), ruv.Absolute())
    masks = [ruv.Noise(variance=v) | ruv.Shuffle() for v in (0.1, 1.0, 4.0)]
    together = ruv.evaluate(masks, intruder=user, scientist=user, replicates=5, seed=1)
    for i, mask in enumerate(masks):
        alone = ruv.evaluate([mask], intruder=user, scientist=user, replicates=5, seed=1)
        assert alone.intruder_uncertainty[0] == together.intruder_uncertainty[i]


def test_a_seed_sequence_gives_the_same_release_every_time():
    root = np.random.SeedSequence(3)
    mask = ruv.Noise(variance=1.0) | ruv.Shuffle()
    assert np.array_equal(mask.release(np.arange(5.0), root), mask.release(np.arange(5.0), root))
    assert root.n_children_spawned == 0
    assert as_generator(root).random() == np.random.default_rng(3).random()


def test_weights_for_every_entry_of_all_records():
    belief = ruv.NormalBelief(records=3, variance=2.0, prior_variance=5.0)
    one = uncertainty(belief, ruv.Record(0), ruv.Noise(variance=2.0))
    for weights in ([1.0, 2.0, 3.0], np.diag([1.0, 2.0, 3.0])):
        assert uncertainty(
            belief, ruv.Records(), ruv.Noise(variance=2.0), ruv.Quadratic(weights=weights)
        ) == pytest.approx(6 * one)


def test_a_linear_function_of_a_record_in_an_unknown_row():
    """One variable of a record: its mixture and its expected U follow from those of the whole record."""
    belief = ruv.NormalBelief(records=4, covariance=S1, prior_covariance=S0)
    mask = ruv.Noise(variance=1.0) | ruv.Shuffle()
    part = ruv.Functional(lambda r: r[0] - 2 * r[1] + 1, of=ruv.Record(1))
    release = np.random.default_rng(0).normal(size=(4, 2))
    whole = ruv.posterior(ruv.User(belief, ruv.Record(1), ruv.Quadratic()), mask, release)
    one = ruv.posterior(ruv.User(belief, part, ruv.Quadratic()), mask, release)
    a = np.array([1.0, -2.0])
    assert float(one.mean()) == pytest.approx(float(whole.mean() @ a + 1), rel=1e-12)
    assert float(one.var()) == pytest.approx(float(a @ whole.cov() @ a), rel=1e-12)
    matrix = np.outer(a, a)
    expected = uncertainty(belief, ruv.Record(1), mask, ruv.Quadratic(weights=matrix))
    assert uncertainty(belief, part, mask) == pytest.approx(expected, rel=1e-12)


# -- bad input ---------------------------------------------------------------------------------------------


def test_functions_that_fail_are_named():
    belief = ruv.NormalBelief(records=4, variance=2.0, prior_variance=5.0)
    mask = ruv.Noise(variance=1.0)
    with pytest.raises(ruv.InputError, match="The function of record 0 fails; got TypeError"):
        uncertainty(belief, ruv.Functional(lambda a, b: a, of=[ruv.Record(0)]), mask)
    with pytest.raises(ruv.InputError, match="must be a number for every value"):
        uncertainty(belief, ruv.Functional(lambda a: np.sqrt(a) if a > 0 else np.nan, of=[ruv.Record(0)]), mask)


def test_data_that_are_no_numbers_are_refused_by_name():
    belief = ruv.NormalBelief(records=5, variance=2.0, prior_variance=5.0)
    with pytest.raises(ruv.InputError, match="needs numeric columns"):
        uncertainty(belief, ruv.Record(0), ruv.Release(), data=list("abcde"))


# -- optimising and choosing -------------------------------------------------------------------------------


@pytest.fixture
def example():
    belief = ruv.NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    return {
        "intruder": ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
        "scientist": ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    }


def noisy_average(variance):
    return ruv.Noise(variance=variance) | ruv.Microaggregate(groups=1)


def test_optimise_with_gains(example):
    best = ruv.optimise(noisy_average, max_risk=5, risk="gain", utility="relative_gain", **example)
    assert best.parameters["variance"] == pytest.approx(2.08, rel=1e-9)
    assert best.utility == pytest.approx(1 - 0.3772189349112426 / 5, rel=1e-9)


def test_optimise_refuses_functions_that_do_not_fall(example):
    for role in ("risk", "utility"):
        with pytest.raises(ruv.InputError, match=f"{role} function must be strictly decreasing"):
            ruv.optimise(noisy_average, max_risk=3, **{role: lambda u: u}, **example)


def test_optimise_refuses_a_gain_over_nothing():
    belief = ruv.NormalBelief(records=10, variance=2, prior="flat")
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    with pytest.raises(ruv.InputError, match="finite uncertainty before the release"):
        ruv.optimise(noisy_average, max_risk=0.3, risk="gain", intruder=user, scientist=user)


@pytest.mark.slow
def test_optimise_meets_its_threshold_when_risk_is_averaged_over_releases(example):
    intruder = ruv.User(example["intruder"].belief, ruv.Record(0), ruv.Absolute())
    family = lambda variance: ruv.Noise(variance=variance) | ruv.Shuffle()  # noqa: E731
    best = ruv.optimise(
        ruv.analyses.MaskFamily(family, variance=(0.1, 30)),
        max_risk=0.9,
        intruder=intruder,
        scientist=example["scientist"],
        replicates=3,
    )
    assert best.risk == pytest.approx(0.9, rel=1e-9)


def test_ties_in_risk_that_differ_by_rounding_go_to_the_first():
    below = np.nextafter(2.0, 3.0)
    rumap = ruv.RUMap.build(labels=["first", "second"], intruder=[2.0, below], scientist=[1.0, 1.0])
    assert rumap.choose(max_risk=1).release == "first"


def test_suppressed_rows_can_be_averaged_around():
    """The release does what the channel says: the mean is over the entries that are left."""
    mask = ruv.Suppress(rows=[0]) | ruv.Microaggregate(groups=2)
    np.testing.assert_allclose(mask.release(np.array([9.0, 1.0, 3.0, 10.0, 20.0]), 1), [np.nan, 2, 2, 15, 15])
    gone = ruv.Suppress() | ruv.Microaggregate(groups=1)
    assert np.isnan(gone.release(np.array([1.0, 2.0]), 1)).all()


def test_measures_and_snoopers_of_a_chain_do_not_depend_on_its_neighbours():
    chain, other = (
        ruv.Noise(variance=1.0) | ruv.Shuffle() | ruv.Noise(sd=0.5),
        ruv.Noise(variance=3.0) | ruv.Noise(variance=1.0),
    )
    data = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 2)), columns=["a", "b"])
    both = ruv.measure(data, [other, chain], measures=[ruv.measures.NormalKL()], replicates=3, seed=5)
    alone = ruv.measure(data, [chain], measures=[ruv.measures.NormalKL()], replicates=3, seed=5)
    assert both.to_dataframe()["KL"][1] == alone.to_dataframe()["KL"][0]
    belief = ruv.NormalBelief(records=6, variance=1, prior_variance=1)
    snooper = ruv.Snooper("max", ruv.Maximum(), belief=belief)
    u = [
        ruv.evaluate(m, intruder=snooper, scientist=snooper, replicates=20, seed=3).intruder_uncertainty[-1]
        for m in ([other, chain], [chain])
    ]
    assert u[0] == u[1]


def test_a_snooper_knows_that_a_sample_keeps_the_order_of_the_file():
    """Mean of what is left of a sample of 3 of 5 without its first row; n = 5, known mean, variance 1.

    By simulation.
    """
    belief = ruv.NormalBelief(records=5, variance=1, prior="known")
    mask = ruv.Subsample(size=3) | ruv.Suppress(rows=[0])
    rng = np.random.default_rng(4)
    x = rng.standard_normal((200_000, 5))
    kept = np.sort(np.argsort(rng.random(x.shape), axis=1)[:, :3], axis=1)[:, 1:]
    guess = np.take_along_axis(x, kept, axis=1).mean(axis=1)
    for row in (0, 4):
        snooper = ruv.Snooper("mean", ruv.Record(row), belief=belief)
        u = ruv.evaluate([mask], intruder=snooper, scientist=snooper).intruder_uncertainty[0]
        seen = (guess - x[:, row]) ** 2
        assert abs(u - seen.mean()) < 4 * seen.std() / np.sqrt(len(seen))


def test_classes_instead_of_objects_are_refused():
    belief = ruv.NormalBelief(records=5, variance=1, prior="known")
    for make in (
        lambda: ruv.User(ruv.NormalBelief, ruv.Record(0), ruv.Quadratic()),
        lambda: ruv.User(belief, ruv.NewRecord, ruv.Quadratic()),
    ):
        with pytest.raises(ruv.InputError, match="A user needs"):
            make()


def test_a_family_that_cannot_be_infinite_asks_for_bounds():
    belief = ruv.NormalBelief(records=5, variance=1, prior_variance=1)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    with pytest.raises(ruv.InputError, match="finite upper bound"):
        ruv.optimise(lambda share: ruv.Noise(share=share), intruder=user, scientist=user, max_risk=2.0)
