"""Targets say what they are; one that is defined outside the package goes through every engine that can take it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import ruvdecision as ruv
from ruvdecision.targets import BaseTarget, Files, LinearForm

WEIGHTS = {0: 1.0, 2: 2.0, 3: -0.5}


@dataclass(frozen=True)
class WeightedTotal(BaseTarget):
    """A weighted total of three records, linear."""

    rows = tuple(WEIGHTS)

    def of(self, records, parameters=None):
        return sum(w * records[row] for row, w in WEIGHTS.items())

    def linear(self, k, number=False, widths=None):
        return LinearForm.of_rows(WEIGHTS, k, number)

    def describe(self):
        return "a weighted total"


@dataclass(frozen=True)
class Ratio(BaseTarget):
    """A ratio of two records, which is not linear."""

    rows = (1, 3)

    def of(self, records, parameters=None):
        return records[1] / (1.0 + records[3] ** 2)

    def describe(self):
        return "a ratio"


@dataclass(frozen=True)
class Range(BaseTarget):
    """A function of the whole file and of nothing else."""

    def of(self, records, parameters=None):
        return np.max(records, axis=0) - np.min(records, axis=0)

    def describe(self):
        return "the range"


TWINS = {
    WeightedTotal(): ruv.Functional(
        lambda a, b, c: a + 2 * b - 0.5 * c, of=[ruv.Record(0), ruv.Record(2), ruv.Record(3)]
    ),
    Ratio(): ruv.Functional(lambda a, b: a / (1 + b**2), of=[ruv.Record(1), ruv.Record(3)]),
    Range(): ruv.Functional(lambda a, b: a - b, of=[ruv.Maximum(), ruv.Minimum()]),
}
NORMAL = ruv.NormalBelief(records=4, variance=2.0, prior_mean=1.0, prior_variance=3.0)
MASKS = [ruv.Release(), ruv.Noise(variance=0.7), ruv.Noise(variance=0.7) | ruv.Suppress(rows=[3]), ruv.Suppress()]


def uncertainty(belief, target, masks, **options):
    user = ruv.User(belief, target, ruv.Quadratic())
    return ruv.evaluate(masks, intruder=user, scientist=user, seed=1, **options)


@pytest.mark.parametrize("target", TWINS, ids=lambda t: t.describe())
def test_value_in_a_file(target):
    files = np.random.default_rng(0).normal(size=(50, 4))
    alone = np.array([target.of(file) for file in files])
    together = target.in_files(Files(files))
    np.testing.assert_allclose(together, alone, rtol=1e-14)
    np.testing.assert_allclose(TWINS[target].in_files(Files(files)), alone, rtol=1e-12)
    np.testing.assert_allclose([TWINS[target].of(file) for file in files], alone, rtol=1e-12)


@pytest.mark.parametrize("target", TWINS, ids=lambda t: t.describe())
def test_exact(target):
    own, twin = (uncertainty(NORMAL, t, MASKS, replicates=5) for t in (target, TWINS[target]))
    np.testing.assert_allclose(own.intruder_uncertainty, twin.intruder_uncertainty, rtol=1e-10, atol=1e-12)
    linear = target == WeightedTotal()
    assert all(word == ("exact" if linear else "exact, averaged over releases") for word in own.engine)


def test_exact_by_hand():
    # After Noise(v) the covariance of the records is D^-1 with D = (S + F 11')^-1 + I/v.
    w = np.array([1.0, 0.0, 2.0, -0.5])
    prior = 2.0 * np.eye(4) + 3.0
    after = np.linalg.inv(np.linalg.inv(prior) + np.eye(4) / 0.7)
    found = uncertainty(NORMAL, WeightedTotal(), [ruv.Noise(variance=0.7), ruv.Suppress()]).intruder_uncertainty
    np.testing.assert_allclose(found, [w @ after @ w, w @ prior @ w], rtol=1e-12)


@pytest.mark.parametrize("target", TWINS, ids=lambda t: t.describe())
def test_enumeration_against_a_list_of_all_files(target):
    values, chances = np.array([0.0, 1.0, 3.0]), np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    belief = ruv.FiniteBelief(
        values=["a", "b"], probabilities=[0.4, 0.6], likelihood=chances, outcomes=list(values), records=4
    )
    places = np.indices((3,) * 4).reshape(4, -1).T
    law = sum(p * np.prod(c[places], axis=1) for p, c in zip((0.4, 0.6), chances, strict=True))
    truth = np.array([target.of(file) for file in values[places]])
    hidden = places.copy()
    hidden[:, [0, 2]] = 0  # records 0 and 2 are suppressed
    expected = 0.0
    for release in np.unique(hidden, axis=0):
        mine = np.all(hidden == release, axis=1)
        p = law[mine] / law[mine].sum()
        expected += law[mine].sum() * (p @ truth[mine] ** 2 - (p @ truth[mine]) ** 2)
    found = uncertainty(belief, target, [ruv.Suppress(rows=[0, 2]), ruv.Release()])
    np.testing.assert_allclose(found.intruder_uncertainty, [expected, 0.0], rtol=1e-10, atol=1e-12)
    assert set(found.engine) == {"enumeration"}


def model(n):
    import pymc as pm

    with pm.Model() as built:
        mu = pm.Normal("mu", 1.0, np.sqrt(3.0))
        pm.Normal("x", mu, np.sqrt(2.0), shape=n)
    return built


def test_quadrature_has_the_linear_one_and_refuses_the_others():
    belief = ruv.PyMCBelief(model, records="x", size=4)
    data = np.array([0.3, 1.9, -0.4, 2.2])
    mask = ruv.Noise(variance=0.7)
    found = uncertainty(belief, WeightedTotal(), [mask], data=data, engine=ruv.Quadrature())
    exact = uncertainty(NORMAL, WeightedTotal(), [mask], data=data)
    np.testing.assert_allclose(found.intruder_uncertainty, exact.intruder_uncertainty, rtol=1e-6)
    for target in (Ratio(), Range()):
        with pytest.raises(ruv.UnsupportedError, match="Quadrature"):
            uncertainty(belief, target, [mask], data=data, engine=ruv.Quadrature())


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize("target", TWINS, ids=lambda t: t.describe())
def test_sampling(target):
    belief = ruv.PyMCBelief(model, records="x", size=4)
    data = np.array([0.3, 1.9, -0.4, 2.2])
    mask, engine = ruv.Noise(variance=0.7), ruv.Sampling(draws=500, tune=300, chains=2)
    user = ruv.User(belief, target, ruv.Quadratic())
    release = mask.release(data, 3)
    found = engine.posterior(user, mask, release)
    exact = ruv.posterior(ruv.User(NORMAL, target, ruv.Quadratic()), mask, release)
    sd = float(np.sqrt(exact.var()))
    assert abs(float(found.mean()) - float(exact.mean())) < 0.25 * sd
    assert 0.75 * sd < float(np.sqrt(found.var())) < 1.3 * sd


@pytest.mark.parametrize("target", TWINS, ids=lambda t: t.describe())
def test_snooper(target):
    data = np.array([0.3, 1.9, -0.4, 2.2])
    snooper = ruv.Snooper("mean", target)
    scientist = ruv.User(NORMAL, ruv.Parameter("mu"), ruv.Quadratic())
    found = ruv.evaluate([ruv.Noise(variance=0.5)], intruder=snooper, scientist=scientist, data=data, seed=2)
    truth = float(np.asarray(target.of(data)))
    assert float(found.intruder_uncertainty[0]) == pytest.approx((data.mean() - truth) ** 2 + 0.5 / 4, rel=1e-10)


def test_record_by_record_and_in_another_place():
    one = ruv.Functional(lambda a, m: a - m, of=[ruv.Record(0), ruv.Average()])
    assert one.aimed_at(3).terms[0].row == 3 and Ratio().aimed_at(0) is None
    moved = Ratio().with_rows_moved({1: 0, 3: 2}.__getitem__)
    assert moved.of(np.array([2.0, 9.0, 1.0, 9.0])) == pytest.approx(2.0 / 2.0)
    # A sample tells which rows it holds: the target's records are looked up where they stand.
    found = uncertainty(NORMAL, Ratio(), [ruv.Subsample(size=4), ruv.Release()], replicates=3)
    np.testing.assert_allclose(found.intruder_uncertainty, 0.0, atol=1e-12)


def test_a_target_without_a_value_says_so():
    class Nothing(BaseTarget):
        def describe(self):
            return "nothing"

    with pytest.raises(ruv.InputError, match="says its value"):
        Nothing().of(np.zeros(3))


def test_a_function_of_linear_targets() -> None:
    inner = ruv.Functional(lambda x: 3 * x + 5, of=ruv.Record(1))
    target = ruv.Functional(lambda a, b: 2 * a + b + 1, of=[WeightedTotal(), inner])
    form, x = target.linear(1, True), np.array([0.3, -1.0, 2.0, 4.0])
    assert form.matrix @ x[[t.row for t in form.terms]] + form.constant == pytest.approx(target.of(x))
