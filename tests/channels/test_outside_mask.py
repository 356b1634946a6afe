"""A mask from outside the package, of which only the steps are written: every engine takes it, rightly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import ruvdecision as ruv
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.channels.steps import AddNoise, ClipTo, Cut, FileFacts, Step
from ruvdecision.engines.finite.enumeration import Enumeration
from ruvdecision.engines.normal.exact import Exact
from ruvdecision.engines.pymc.quadrature import Quadrature
from ruvdecision.engines.pymc.sampling import Sampling
from ruvdecision.masks import Mask, Microaggregate, Shuffle
from ruvdecision.targets import Identity


@dataclass(frozen=True, repr=False)
class Income(Mask):
    """Incomes with noise, cut off at bounds and put into intervals; ``before`` says that the noise comes first."""

    variance: float = 0.0
    lower: float = -np.inf
    upper: float = np.inf
    edges: tuple[float, ...] | None = None
    label: str = "midpoint"
    before: bool = True

    def steps(self, about: FileFacts, numbers: Any) -> list[Step]:
        columns = about.positions(None)
        ones = np.ones(len(columns))
        noise = [AddNoise(columns=columns, covariance=self.variance * np.eye(len(columns))[None, None])]
        coarse: list[Step] = [ClipTo(columns=columns, lower=self.lower * ones, upper=self.upper * ones)]
        if self.edges is not None:
            coarse.append(Cut(columns=columns, edges=self.edges, label=self.label))
        if not np.isfinite([self.lower, self.upper]).any():
            coarse = coarse[1:]
        return [*noise, *coarse] if self.before else [*coarse, *noise]


NOISY = Income(variance=0.7)
CUT = (0.0, 1.0, 2.0, 4.0)


def test_it_is_released_step_by_step() -> None:
    x = np.array([-3.0, 0.2, 1.4, 9.0])
    noise = np.random.default_rng(5).standard_normal((4, 1))[:, 0]
    np.testing.assert_allclose(NOISY.release(x, np.random.default_rng(5)), x + np.sqrt(0.7) * noise, rtol=1e-15)
    coarse = Income(lower=0.0, upper=4.0, edges=CUT)
    np.testing.assert_array_equal(coarse.release(x, 1), [0.5, 0.5, 1.5, 3.0])
    named = Income(lower=0.0, upper=4.0, edges=CUT, label="interval").release(pd.DataFrame({"x": x}), 1)
    assert named["x"].tolist() == ["[0, 1)", "[0, 1)", "[1, 2)", "[2, 4]"]
    assert (coarse | Shuffle()).release(x, 3).shape == (4,)


def test_exact_takes_it_alone_and_in_a_chain() -> None:
    n, s2, v0 = 6, 2.0, 5.0
    belief = ruv.NormalBelief(records=n, variance=s2, prior_mean=0, prior_variance=v0)
    record, mean = (ruv.User(belief, t, ruv.Quadratic()) for t in (ruv.Record(0), ruv.Parameter("mu")))
    masks = [NOISY, NOISY | Microaggregate(groups=1)]
    found = ruv.evaluate(masks, intruder=record, scientist=mean, engine=Exact())
    # By hand: the covariance of records and mean given all noisy records, and given their average.
    prior = np.full((n + 1, n + 1), v0) + np.diag([s2] * n + [0.0])
    for i, a in enumerate((np.eye(n), np.full((1, n), 1 / n))):
        gain = prior[:, :n] @ a.T @ np.linalg.inv(a @ (prior[:n, :n] + 0.7 * np.eye(n)) @ a.T)
        after = prior - gain @ a @ prior[:n]
        np.testing.assert_allclose(1 / found.risk[i], after[0, 0], rtol=1e-12)
        np.testing.assert_allclose(1 / found.utility[i], after[-1, -1], rtol=1e-12)
    with pytest.raises(ruv.UnsupportedError, match=r"Income.*beyond a bound"):
        Exact().posterior(record, Income(variance=0.7, lower=0.0))


def test_enumeration_takes_it() -> None:
    outcomes, law = np.array([-1.0, 0.5, 1.5, 7.0]), np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    belief = ruv.FiniteBelief(values=[0, 1], probabilities=[0.6, 0.4], likelihood=law, outcomes=outcomes, records=3)
    user = ruv.User(belief, ruv.Record(1), ruv.Quadratic())
    mask = Income(variance=0.3, lower=0.0, upper=4.0, edges=CUT, before=False)
    release = np.array([0.4, 1.9, 2.6])
    found = Enumeration().posterior(user, mask, release)
    coarse = np.array([0.5, 0.5, 1.5, 3.0])
    like = stats.norm.pdf(release[:, None], coarse, np.sqrt(0.3))
    joint = np.zeros(4)
    for prior, row in zip([0.6, 0.4], law, strict=True):
        others = (like[0] @ row) * (like[2] @ row)
        joint += prior * others * row * like[1]
    np.testing.assert_allclose(found.probabilities, joint / joint.sum(), rtol=1e-12)


def test_identity_takes_it() -> None:
    belief = ruv.NormalBelief(records=3, variance=4.0, prior_mean=1.0, prior="known")
    user = ruv.User(belief, Identity(0, values=1.3), ruv.ZeroOne())
    mask = Income(variance=0.5, lower=0.0, upper=4.0, edges=CUT)
    release = np.array([0.5, 1.5, 3.0])
    # P(interval | known) over P(interval), where the lowest and the highest interval hold what was cut off.
    low, high = np.array([-np.inf, 1.0, 2.0]), np.array([1.0, 2.0, np.inf])
    chance = lambda mean, sd: stats.norm.cdf(high, mean, sd) - stats.norm.cdf(low, mean, sd)  # noqa: E731
    weight = chance(1.3, np.sqrt(0.5)) / chance(1.0, np.sqrt(4.5))
    found = ruv.posterior(user, mask, release).probabilities
    np.testing.assert_allclose(found, weight / weight.sum(), rtol=1e-10)


@pytest.mark.slow
def test_a_snooper_takes_it_exactly_and_by_simulation() -> None:
    data = np.array([0.3, 1.0, 2.5, 3.9])
    mask = Income(variance=0.8, lower=0.0, upper=4.0)
    snooper = ruv.Snooper("row", ruv.Record(2))
    sd = np.sqrt(0.8)
    error = integrate.quad(
        lambda y: (np.clip(y, 0.0, 4.0) - 2.5) ** 2 * stats.norm.pdf(y, 2.5, sd), -8, 13, points=[0, 4], epsabs=1e-13
    )[0]
    mean = ruv.Snooper("mean", ruv.Average())
    found = ruv.evaluate([mask], intruder=snooper, scientist=mean, data=data, engine="exact")
    np.testing.assert_allclose(1 / found.risk[0], error, rtol=1e-9)
    coarse = Income(variance=0.8, lower=0.0, upper=4.0, edges=CUT)
    drawn = ruv.evaluate([coarse], intruder=snooper, scientist=mean, data=data, replicates=4000, seed=2)
    edges = np.array([-np.inf, 1.0, 2.0, np.inf])
    exact = float(np.diff(stats.norm.cdf(edges, 2.5, sd)) @ (np.array([0.5, 1.5, 3.0]) - 2.5) ** 2)
    frame = drawn.to_dataframe()
    u, se = frame["intruder_uncertainty"][0], frame["risk_error"][0] / frame["risk"][0] ** 2
    assert abs(u - exact) < 4 * se and se < 0.1


def population(n: int) -> Any:
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 1.0, 1.5)
        pm.Normal("x", mu, 1.0, shape=n)
    return model


def by_hand(mask: Income, release: np.ndarray) -> tuple[float, float]:
    """Mean and variance of mu given the release: records integrated out in closed form, mu summed over a grid."""
    mu, cdf = np.linspace(-11, 13, 40001), stats.norm.cdf
    log = stats.norm.logpdf(mu, 1.0, 1.5)
    for y in release:
        if mask.before:
            # Noise, then cut off and put into intervals: the chance of the interval, the outer ones without an end.
            low, high = {0.5: (-np.inf, 1.0), 1.5: (1.0, 2.0), 3.0: (2.0, np.inf)}[y]
            sd = np.sqrt(1.0 + mask.variance)
            with np.errstate(divide="ignore"):  # far out the chance is below the smallest number
                log += np.log(cdf(high, mu, sd) - cdf(low, mu, sd))
        else:
            # Cut off, then noise: a point mass at either bound, and a normal record between them.
            v, sd = mask.variance, np.sqrt(mask.variance)
            centre, wide = (mu * v + y) / (1 + v), np.sqrt(v / (1 + v))
            inside = cdf(mask.upper, centre, wide) - cdf(mask.lower, centre, wide)
            ends = cdf(mask.lower, mu) * stats.norm.pdf(y, mask.lower, sd)
            ends += stats.norm.sf(mask.upper, mu) * stats.norm.pdf(y, mask.upper, sd)
            log += np.log(ends + stats.norm.pdf(y, mu, np.sqrt(1 + v)) * inside)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    centre = float(weight @ mu)
    return centre, float(weight @ (mu - centre) ** 2)


CASES = [
    (Income(variance=0.5, lower=0.0, upper=4.0, edges=CUT), np.array([0.5, 1.5, 3.0])),
    (Income(variance=0.3, lower=0.0, upper=2.0, before=False), np.array([-0.2, 1.1, 2.3])),
]


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize(("mask", "release"), CASES, ids=["noise first", "noise last"])
def test_quadrature_takes_it(mask: Income, release: np.ndarray) -> None:
    pytest.importorskip("pymc")
    user = ruv.User(PyMCBelief(population, records="x", size=3), ruv.Parameter("mu"), ruv.Quadratic())
    found = ruv.posterior(user, mask, release, engine=Quadrature())
    mean, variance = by_hand(mask, release)
    np.testing.assert_allclose(
        [float(found.mean()), float(ruv.Quadratic().uncertainty(found).value)], [mean, variance], rtol=2e-6
    )


@pytest.mark.slow
def test_sampling_takes_it() -> None:
    pytest.importorskip("pymc")
    mask, release = CASES[0]
    user = ruv.User(PyMCBelief(population, records="x", size=3), ruv.Parameter("mu"), ruv.Quadratic())
    found = ruv.posterior(user, mask, release, engine=Sampling(draws=1000, chains=2))
    mean, variance = by_hand(mask, release)
    assert abs(float(found.mean()) - mean) < 5 * np.sqrt(variance / 500)
    assert abs(float(ruv.Quadratic().uncertainty(found).value) / variance - 1) < 5 * np.sqrt(2 / 500)
