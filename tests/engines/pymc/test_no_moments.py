"""Numbers that do not exist: records, and functions of parameters, whose mean or variance is infinite."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, special, stats

import ruvdecision as ruv
from ruvdecision.engines.pymc.one_record import OneRecord

pytestmark = pytest.mark.slow
MU, SCALE = 2.0, 1.5
"""Standard deviation of the records' centre, and their scale."""


def belief_of(law: str, n: int = 3, **settings) -> ruv.PyMCBelief:
    """Records of this law around an unknown centre."""

    def builder(n: int):
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu", 0, MU)
            if law == "cauchy":
                pm.Cauchy("x", mu, SCALE, shape=n)
            elif law == "half-cauchy":
                pm.HalfCauchy("x", pm.math.exp(0.1 * mu), shape=n)
            elif law == "student":
                pm.StudentT("x", mu=mu, sigma=SCALE, shape=n, **settings)
            elif law == "gamma":
                pm.Gamma("x", 2.0, pm.math.exp(-mu / 4), shape=n)
            elif law == "exponential":
                pm.Exponential("x", pm.math.exp(-mu / 4), shape=n)
            elif law == "exp":
                pm.LogNormal("x", mu, 0.7, shape=n)
            else:
                pm.LogNormal("x", mu / 4, 0.7, shape=n)
        return model

    return ruv.PyMCBelief(builder, records="x", size=n)


def ratio(sd: float = 0.5, n: int = 3) -> ruv.PyMCBelief:
    def builder(n: int):
        import pymc as pm

        with pm.Model() as model:
            a, b = pm.Normal("a", 0, 1), pm.Normal("b", 1, sd)
            pm.Deterministic("ratio", a / b)
            pm.Normal("x", a, 1, shape=n)
        return model

    return ruv.PyMCBelief(builder, records="x", size=n)


DATA = np.array([0.4, 2.1, 1.3])
ENGINES = {"quadrature": ruv.Quadrature(), "sampling": ruv.Sampling(draws=500, chains=2)}
ABSOLUTE, QUADRATIC = ruv.Absolute(), ruv.Quadratic()


def solved(user: ruv.User, engine: str, masks=None):
    return ruv.evaluate(
        [ruv.Suppress()] if masks is None else masks,
        intruder=user, scientist=user, data=DATA, seed=1, engine=ENGINES[engine],
    )  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("law", "settings", "loss"),
    [
        ("cauchy", {}, ABSOLUTE),
        ("cauchy", {}, ruv.Huber(1.0)),
        ("cauchy", {}, ruv.Pinball(0.9)),
        ("half-cauchy", {}, QUADRATIC),
        ("student", {"nu": 2}, QUADRATIC),
        ("student", {"nu": 3}, ruv.Linex(0.1)),
    ],
)
def test_a_record_without_moments_has_an_infinite_loss(engine: str, law: str, settings: dict, loss) -> None:
    """The mean of a Cauchy record does not exist, nor the variance of Student's with two degrees of freedom."""
    rumap = solved(ruv.User(belief_of(law, **settings), ruv.Record(0), loss), engine)
    assert rumap.intruder_uncertainty[0] == np.inf and not rumap.converged[0]
    assert "a U that is not finite" in repr(rumap)
    assert "the loss is not finite" in rumap.to_dataframe()["intruder_trouble"][0]


@pytest.mark.parametrize("engine", ["quadrature", pytest.param("sampling", marks=pytest.mark.long)])
def test_so_has_a_new_record_after_noise_but_not_the_record_in_it(engine: str) -> None:
    belief = belief_of("student", nu=2)
    new = solved(ruv.User(belief, ruv.NewRecord(), QUADRATIC), engine, [ruv.Noise(sd=1.0)])
    assert new.intruder_uncertainty[0] == np.inf and not new.converged[0]
    noisy = solved(ruv.User(belief, ruv.Record(0), QUADRATIC), engine, [ruv.Noise(sd=1.0)])
    assert np.isfinite(noisy.intruder_uncertainty[0])
    # What lies beyond a top code is known to be beyond it alone.
    coded = solved(ruv.User(belief, ruv.Record(1), QUADRATIC), engine, [ruv.Topcode(1.0)])
    assert coded.intruder_uncertainty[0] == np.inf


def absolute_of_student(nu: float) -> float:
    """E|x| of a normal centre with a Student error, around the median zero."""

    def given(m: float) -> float:
        beyond, _ = integrate.quad(stats.t(nu).sf, abs(m) / SCALE, np.inf, limit=500)
        return (abs(m) + 2 * SCALE * beyond) * stats.norm.pdf(m, 0, MU)

    return 2 * integrate.quad(given, 0, 12 * MU, limit=500)[0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("nu", [3.0, 5.0])
def test_a_variance_that_exists_is_right(engine: str, nu: float) -> None:
    rumap = solved(ruv.User(belief_of("student", nu=nu), ruv.Record(0), QUADRATIC), engine)
    right = MU**2 + SCALE**2 * nu / (nu - 2)
    error = 4 * np.nan_to_num(rumap.to_dataframe()["intruder_error"][0]) + 1e-4 * right
    assert abs(rumap.intruder_uncertainty[0] - right) < error
    assert rumap.converged[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mean_that_exists_without_a_variance_is_right(engine: str) -> None:
    rumap = solved(ruv.User(belief_of("student", nu=1.5), ruv.Record(0), ABSOLUTE), engine)
    assert rumap.intruder_uncertainty[0] == pytest.approx(
        absolute_of_student(1.5), rel=1e-3 if engine == "quadrature" else 0.1
    )
    assert rumap.converged[0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("law", ["gamma", "exponential", "lognormal"])
def test_lighter_tails_are_not_marked(engine: str, law: str) -> None:
    for loss in (ABSOLUTE, QUADRATIC):
        rumap = solved(ruv.User(belief_of(law), ruv.Record(0), loss), engine)
        assert np.isfinite(rumap.intruder_uncertainty[0]) and rumap.converged[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_losses_that_do_not_grow_are_finite(engine: str) -> None:
    user = ruv.User(belief_of("cauchy"), ruv.Record(0), ruv.ZeroOne(1.0))
    rumap = solved(user, engine)
    # The record is the sum of a normal and a Cauchy number: Voigt's profile.
    inside = integrate.quad(lambda x: special.voigt_profile(x, MU, SCALE), -1, 1)[0]
    assert rumap.intruder_uncertainty[0] == pytest.approx(1 - inside, rel=1e-5 if engine == "quadrature" else 0.02)
    assert rumap.converged[0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("loss", [ABSOLUTE, QUADRATIC])
@pytest.mark.parametrize("named", [True, False])
def test_a_ratio_of_normal_parameters_has_no_moments(engine: str, loss, named: bool) -> None:
    """Near zero the density of b is positive, and the mean of 1 / |b| diverges."""
    target = (
        ruv.Parameter("ratio")
        if named
        else ruv.Functional(lambda a, b: a / b, of=[ruv.Parameter("a"), ruv.Parameter("b")])
    )
    rumap = solved(ruv.User(ratio(), target, loss), engine)
    u = rumap.intruder_uncertainty[0]
    assert not rumap.converged[0]
    assert loss == ABSOLUTE or u == np.inf


def test_a_wide_prior_of_a_mean_that_exists_is_not_settled_by_draws_but_not_infinite() -> None:
    """Exp(2 mu) with mu of standard deviation two has a mean, which a thousand draws do not reach."""
    rumap = solved(ruv.User(belief_of("exp"), ruv.Record(0), QUADRATIC), "sampling")
    assert np.isfinite(rumap.intruder_uncertainty[0]) and not rumap.converged[0]
    assert "the loss is not settled" in rumap.to_dataframe()["intruder_trouble"][0]


# -- what draws alone do not tell ------------------------------------------------------------------------


@functools.cache
def spread_belief(law: str, spread: float = 1.0, n: int = 4) -> ruv.PyMCBelief:
    """Records whose scale has a prior of this spread."""

    def builder(n: int):
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu", 1, 0.5)
            if law == "half-cauchy scale":
                pm.Normal("x", mu, pm.HalfCauchy("sigma", spread), shape=n)
            elif law == "gamma":
                pm.Gamma("x", 2 + pm.HalfNormal("sigma", spread), pm.math.exp(-mu), shape=n)
            elif law == "weibull":
                pm.Weibull("x", 1.5, pm.HalfNormal("sigma", 3 * spread), shape=n)
            elif law == "normal":
                pm.Normal("x", mu, pm.HalfNormal("sigma", spread), shape=n)
            else:
                pm.LogNormal("x", mu, pm.HalfNormal("sigma", spread), shape=n)
        return model

    return ruv.PyMCBelief(builder, records="x", size=n)


FOUR = np.array([1.2, 3.4, 2.2, 5.0])
DRAWN = ruv.Sampling(draws=500, chains=2, importance=True)


def sampled_map(belief, target, loss, mask, seed=1, engine=DRAWN):
    user = ruv.User(belief, target, loss)
    return ruv.evaluate([mask], intruder=user, scientist=user, data=FOUR, replicates=1, seed=seed, engine=engine)


@pytest.mark.parametrize("target", [ruv.Record(0), ruv.NewRecord(), ruv.Average(), ruv.Average(weights=[1, 2, 0, 1])])
@pytest.mark.parametrize("loss", [ABSOLUTE, QUADRATIC, ruv.Pinball(0.9), ruv.Huber(1.0), lambda e, t: abs(e - t)])
def test_lognormal_records_with_a_half_normal_scale_have_no_mean(target, loss) -> None:
    """E exp(sigma^2 / 2) diverges for sigma ~ HalfNormal(1), as quadrature says; k-hat of draws is anywhere above .5."""
    rumap = sampled_map(spread_belief("lognormal"), target, loss, ruv.Suppress())
    assert rumap.intruder_uncertainty[0] == np.inf and not rumap.converged[0]
    assert "the loss is not finite" in rumap.to_dataframe()["intruder_trouble"][0]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rows", [None, [3]])
def test_so_has_the_square_after_a_release(seed: int, rows) -> None:
    mask = ruv.Noise(sd=1.0) if rows is None else ruv.Suppress(rows=rows) | ruv.Noise(sd=1.0)
    for target in (ruv.NewRecord(),) if rows is None else (ruv.NewRecord(), ruv.Record(3), ruv.Records()):
        rumap = sampled_map(spread_belief("lognormal"), target, QUADRATIC, mask, seed)
        assert "the loss is not" in rumap.to_dataframe()["intruder_trouble"][0]
    # A record behind noise is known to a few standard deviations.
    rumap = sampled_map(spread_belief("lognormal"), ruv.Record(0), QUADRATIC, mask, seed)
    assert np.isfinite(rumap.intruder_uncertainty[0])
    assert "loss" not in rumap.to_dataframe()["intruder_trouble"][0]


def test_all_records_at_once_have_no_mean_either() -> None:
    for loss in (ABSOLUTE, QUADRATIC):
        rumap = sampled_map(spread_belief("half-cauchy scale"), ruv.Records(), loss, ruv.Suppress())
        assert rumap.intruder_uncertainty[0] == np.inf and not rumap.converged[0]


@pytest.mark.parametrize("law", ["normal", "gamma", "weibull", "lognormal"])
@pytest.mark.parametrize("loss", [ABSOLUTE, QUADRATIC])
def test_means_that_exist_are_not_marked(law: str, loss) -> None:
    belief = spread_belief(law, 0.2 if law == "lognormal" else 1.0)
    for target in (ruv.Record(0), ruv.NewRecord(), ruv.Average(), ruv.Records()):
        for mask in (ruv.Suppress(), ruv.Noise(sd=1.0)):
            rumap = sampled_map(belief, target, loss, mask)
            assert np.isfinite(rumap.intruder_uncertainty[0])
            assert "loss" not in rumap.to_dataframe()["intruder_trouble"][0]


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_a_loss_of_ones_own_has_no_mean_where_absolute_has_none(engine: str) -> None:
    rumap = solved(ruv.User(belief_of("cauchy"), ruv.Record(0), lambda e, t: np.abs(e - t)), engine)
    assert rumap.intruder_uncertainty[0] == np.inf and not rumap.converged[0]
    bounded = solved(ruv.User(belief_of("cauchy"), ruv.Record(0), lambda e, t: np.minimum(np.abs(e - t), 1.0)), engine)
    assert np.isfinite(bounded.intruder_uncertainty[0]) and bounded.converged[0]


def test_the_heaviest_tail_that_counts_is_that_of_the_average():
    """Parameter points without weight have no say, wherever they stand; of the others the heaviest tail remains."""
    orders = np.array([[5.0, 2.0, 3.0, np.inf], [np.inf, 1.0, np.inf, 4.0]])
    law = SimpleNamespace(_tail_orders=orders)
    for weights, expected in (
        ([0.5, 0, 0.5, 0], [3, np.inf]),
        ([0.5, 0.1, 0, 0.4], [2, 1]),
        ([0, 0, 0, 1], [np.inf, 4]),
    ):
        found = OneRecord._tail_orders_of_average(law, np.array(weights, dtype=float))
        assert found.tolist() == expected
