"""The sampled engine against closed forms, quadrature and brute force, with one compiled model for many releases."""

from __future__ import annotations

import itertools
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import ruvdecision as ruv
from ruvdecision.beliefs.normal import NormalBelief
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.engines.normal.exact import Exact
from ruvdecision.engines.pymc import draws, nuts
from ruvdecision.engines.pymc.model import compiled_model
from ruvdecision.engines.pymc.replicates import observed_in
from ruvdecision.engines.pymc.sampling import Sampling
from ruvdecision.errors import ConvergenceError, InputError, NotConvergedWarning
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, LogScore, Quadratic, ZeroOne
from ruvdecision.masks import Noise, Round, Shuffle, Subsample, Suppress
from ruvdecision.masks.base import Mask
from ruvdecision.targets import Average, Functional, Maximum, NewRecord, Parameter, Record, Records
from ruvdecision.users.user import User

# PyMC and its libraries speak about their own future when a builder imports them.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")

N, VARIANCE, DOUBT = 6, 2.0, 5.0
S1 = np.array([[2.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.5]])
S0 = np.diag([4.0, 2.0, 3.0])
LOSSES = {"quadratic": Quadratic(), "absolute": Absolute(), "zero-one": ZeroOne(tolerance=0.5), "log score": LogScore()}
QUICK = Sampling(draws=1000, tune=400, chains=2)
ONE = pd.DataFrame({0: np.array([1.3, -0.4, 2.2, 0.1, 3.0, -1.1])})
THREE = pd.DataFrame(np.random.default_rng(4).multivariate_normal(np.zeros(3), S1, size=N))


def scalar_model(n):
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, np.sqrt(DOUBT))
        pm.Normal("x", mu, np.sqrt(VARIANCE), shape=n)
    return model


def vector_model(n):
    import pymc as pm

    with pm.Model() as model:
        mu = pm.MvNormal("mu", np.zeros(3), S0, shape=3)
        pm.MvNormal("x", mu, S1, shape=(n, 3))
    return model


def two_unknowns(n):
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        sigma = pm.HalfNormal("sigma", 2.0)
        pm.Deterministic("cv", sigma / (1 + mu**2))
        pm.Normal("x", mu, sigma, shape=n)
    return model


def lognormal(n):
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.LogNormal("x", mu, 0.7, shape=n)
    return model


@pytest.fixture(scope="module")
def scalar() -> PyMCBelief:
    return PyMCBelief(scalar_model, size=N)


@pytest.fixture(scope="module")
def vector() -> PyMCBelief:
    return PyMCBelief(vector_model, size=N)


@pytest.fixture(scope="module")
def unknowns() -> PyMCBelief:
    return PyMCBelief(two_unknowns)


@pytest.fixture(scope="module")
def incomes() -> PyMCBelief:
    return PyMCBelief(lognormal, size=4)


EXACT = {1: NormalBelief(N, VARIANCE, prior_variance=DOUBT), 3: NormalBelief(N, covariance=S1, prior_covariance=S0)}


def agree(
    exact: User,
    sampled: User,
    mask: Mask,
    data: pd.DataFrame,
    losses=LOSSES,
    marginalization: str = "",
    engine: Sampling = QUICK,
) -> None:
    """U of both for each loss within four Monte Carlo errors, from one run of the sampler."""
    release = mask.release(data, 11)
    point = engine.solve_release(sampled, mask, release)
    assert marginalization in point.marginalization
    assert point.rhat < 1.02
    right = Exact().posterior(exact, mask, release)
    for name, loss in losses.items():
        value, error = loss.uncertainty(point.posteriors[0])
        # Where the answer given the parameters does not vary, there is no error but rounding.
        assert abs(value - loss.uncertainty(right).value) <= 4 * error + 1e-9 * abs(value), name
        assert error <= 0.1 * abs(value) + 0.1, name


# -- agreement with the closed form ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.campaign(7, "slow")
@pytest.mark.parametrize(
    ("mask", "target"),
    [
        (Noise(variance=1.5), Record(0)),
        (Noise(variance=1.5), Parameter("mu")),
        (Noise(variance=1.5), NewRecord()),
        (Noise(variance=1.5), Average()),
        (Noise(variance=[0.2, 0.4, 0.8, 1.6, 3.2, 6.4]), Record(5)),
        (Suppress(rows=[0, 3]), Record(0)),
        (Suppress(rows=[0, 3]), Parameter("mu")),
        (Noise(variance=0.5) | Noise(sd=1.0), Record(2)),
        (Suppress(), Record(0)),
    ],
    ids=str,
)
def test_one_variable_in_closed_form(scalar: PyMCBelief, mask: Mask, target: object) -> None:
    user, same = User(EXACT[1], target, Quadratic()), User(scalar, target, Quadratic())
    agree(user, same, mask, ONE, marginalization="nothing is released" if mask == Suppress() else "closed form")


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("target", [Record(0), Record(4), Parameter("mu")], ids=str)
def test_a_subsample_says_who_is_in_it(scalar: PyMCBelief, target: object) -> None:
    mask = Subsample(size=4) | Noise(variance=1.0)
    agree(
        User(EXACT[1], target, Quadratic()), User(scalar, target, Quadratic()), mask, ONE, marginalization="closed form"
    )


@pytest.mark.slow
@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize(
    ("mask", "target", "marginalization"),
    [
        (Noise(covariance=0.7 * S1), Record(0), "closed form, rows"),
        (Noise(covariance=0.7 * S1), Parameter("mu"), "closed form, rows"),
        (Noise(covariance=0.7 * S1), Parameter("mu", component=1), "closed form, rows"),
        (Noise(variance=[0.5, 1.0, 2.0]) | Suppress(columns=1), Record(0), "closed form, uneven rows"),
        (Noise(variance=[0.5, 1.0, 2.0]) | Suppress(columns=1), Parameter("mu"), "closed form, uneven rows"),
        (Subsample(size=3), Parameter("mu"), "closed form, rows"),
    ],
    ids=str,
)
def test_three_variables_in_closed_form(vector: PyMCBelief, mask: Mask, target: object, marginalization: str) -> None:
    losses = LOSSES if target != Parameter("mu") else {k: LOSSES[k] for k in ("quadratic", "absolute")}
    agree(User(EXACT[3], target, Quadratic()), User(vector, target, Quadratic()), mask, THREE, losses, marginalization)


@pytest.mark.slow
def test_the_density_of_draws_in_three_dimensions(vector: PyMCBelief) -> None:
    """Entropy and boxes of raw draws are estimates with a bias of their own.

    The engine must not pretend that they are exact.
    """
    mask = Noise(covariance=0.7 * S1)
    release = mask.release(THREE, 11)
    user, same = User(EXACT[3], Parameter("mu"), LogScore()), User(vector, Parameter("mu"), LogScore())
    right = Exact().posterior(user, mask, release)
    posterior = QUICK.posterior(same, mask, release)
    for loss in (LogScore(), ZeroOne(tolerance=0.8)):
        value, error = loss.uncertainty(posterior)
        assert error > 0
        assert abs(value - loss.uncertainty(right).value) <= 4 * error + 0.05


@pytest.mark.slow
def test_exact_and_sampled_maps_are_one_map(scalar: PyMCBelief) -> None:
    masks = [Suppress(), *(Noise(variance=v) for v in (0.3, 1.0, 3.0, 10.0))]
    maps = [
        evaluate(
            masks,
            intruder=User(b, Record(0), Quadratic()),
            scientist=User(b, Parameter("mu"), Absolute()),
            data=ONE,
            engine=engine,
            seed=3,
        )
        for b, engine in ((EXACT[1], "exact"), (scalar, QUICK))
    ]
    exact, sampled = maps
    for who in ("intruder", "scientist"):
        gap = np.abs(getattr(exact, f"{who}_uncertainty") - getattr(sampled, f"{who}_uncertainty"))
        assert np.all(gap <= 4 * getattr(sampled, who).error), who
    table = sampled.to_dataframe()
    assert set(table["engine"]) == {"sampling"}
    assert {"intruder_rhat", "intruder_ess_bulk", "intruder_how", "intruder_marginalization"} <= set(table.columns)
    assert np.all(table["utility_error"] > 0)


# -- routes that integrate over nodes ------------------------------------------------------------------------


def marginal_law(released, noise) -> tuple[np.ndarray, np.ndarray]:
    """Posterior of mu on a fine grid: log p(release | mu) one lognormal record at a time.

    By scipy's Simpson rule on the log scale.
    """
    mu, t = np.linspace(-3.5, 4.0, 151), np.linspace(-9.0, 9.5, 20_001)
    density = stats.norm.pdf(t, mu[:, None], 0.7)
    logs = stats.norm.logpdf(mu, 0, 1)
    for y in released:
        logs += np.log(integrate.simpson(density * noise(y, np.exp(t)), x=t, axis=1))
    weight = np.exp(logs - logs.max())
    return mu, weight / weight.sum()


def gaussian(y, x):
    return stats.norm.pdf(y, x, 0.8)


def laplace(y, x):
    return stats.laplace.pdf(y, x, 0.8 / np.sqrt(2))


def rounded(y, x):
    return (np.abs(x - y) <= 0.5).astype(float)


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize(
    ("mask", "noise", "marginalization"),
    [
        (Noise(sd=0.8), gaussian, "integrated on a shared grid"),
        (Noise(sd=0.8, kind="laplace"), laplace, "integrated on a shared grid"),
        (Round(base=1.0), rounded, "integrated over nodes"),
    ],
    ids=["grid", "laplace", "round"],
)
def test_integrated_routes_against_quadrature(
    incomes: PyMCBelief, mask: Mask, noise: object, marginalization: str
) -> None:
    data = pd.DataFrame({0: [0.7, 2.3, 1.2, 0.4]})
    release = mask.release(data, 5)
    mu, weight = marginal_law(release.to_numpy()[:, 0], noise)
    mean = weight @ mu
    variance = weight @ (mu - mean) ** 2
    point = QUICK.solve_release(User(incomes, Parameter("mu"), Quadratic()), mask, release)
    assert point.marginalization == marginalization
    assert point.integration_error < 0.02
    value, error = point.values[0]
    assert abs(value - variance) <= 4 * error + 1e-3 * variance  # the grid's own step
    where, spread = point.posteriors[0].mean(), np.sqrt(variance / point.ess_bulk)
    assert abs(where - mean) <= 4 * spread


@pytest.mark.slow
def test_a_record_behind_nodes_against_quadrature(incomes: PyMCBelief) -> None:
    """E(x_0 | release) and its variance, by two quadratures, one inside the other."""
    mask = Noise(sd=0.8)
    data = pd.DataFrame({0: [0.7, 2.3, 1.2, 0.4]})
    release = mask.release(data, 5)
    mu, weight = marginal_law(release.to_numpy()[:, 0], gaussian)
    y = float(release.iloc[1, 0])
    x = np.linspace(1e-6, 14, 8001)
    density = np.zeros_like(x)
    for m, w in zip(mu, weight, strict=True):
        own = stats.norm.pdf(np.log(x), m, 0.7) / x * stats.norm.pdf(y, x, 0.8)
        density += w * own / np.trapezoid(own, x)
    mean = np.trapezoid(x * density, x)
    variance = np.trapezoid((x - mean) ** 2 * density, x)
    point = QUICK.solve_release(User(incomes, Record(1), Quadratic()), mask, release)
    value, error = point.values[0]
    assert error < 0.02 * value  # the law of the record is averaged, not drawn
    assert abs(value - variance) <= 4 * error + 1e-4 * variance
    cut = np.quantile(np.linspace(0, 1, 5), 0.5)
    assert point.posteriors[0].cdf(point.posteriors[0].quantile(cut)) == pytest.approx(cut, abs=1e-6)


@pytest.mark.slow
def test_the_same_release_by_nodes_and_in_closed_form(scalar: PyMCBelief) -> None:
    """Rounding to a very fine base is as good as no mask; to a coarse one it is an interval around each record."""
    release = Round(base=0.5).release(ONE, 1)
    point = QUICK.solve_release(User(scalar, Parameter("mu"), Quadratic()), Round(base=0.5), release)
    assert point.marginalization == "integrated over nodes"
    grid = np.linspace(-4, 5, 2001)
    logs = stats.norm.logpdf(grid, 0, np.sqrt(DOUBT))
    for y in release.to_numpy()[:, 0]:
        edges = stats.norm.cdf(np.array([y + 0.25, y - 0.25])[:, None], grid, np.sqrt(VARIANCE))
        logs += np.log(edges[0] - edges[1])
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    variance = weight @ grid**2 - (weight @ grid) ** 2
    value, error = point.values[0]
    assert abs(value - variance) <= 4 * error


# -- rows in unknown order -----------------------------------------------------------------------------------


def test_shuffled_rows_against_the_mixture_over_all_orders(scalar: PyMCBelief) -> None:
    """Brute force: every one of the 720 orders is as likely as any other, so record 0 is any row with chance 1/6."""
    mask = Noise(variance=1.0) | Shuffle()
    released = mask.release(ONE, 3)
    y = released.to_numpy()[:, 0]
    plain = NormalBelief(N, VARIANCE, prior_variance=DOUBT)
    laws = []
    for order in itertools.islice(itertools.permutations(range(N)), 0, None, 7):
        laws.append(
            (Exact().posterior(User(plain, Record(0), Quadratic()), Noise(variance=1.0), y[list(order)]), order[0])
        )
    per_row = {row: law for law, row in laws}
    assert len(per_row) == N
    means = np.array([float(per_row[r].mean()) for r in range(N)])
    variance = float(per_row[0].var()) + means.var()
    point = Sampling(draws=3000, tune=400, chains=2).solve_release(User(scalar, Record(0), Quadratic()), mask, released)
    value, error = point.values[0]
    assert abs(value - variance) <= 4 * error
    assert abs(float(point.posteriors[0].mean()) - means.mean()) <= 4 * np.sqrt(variance / 3000)
    exact = Exact().posterior(User(plain, Record(0), Quadratic()), mask, released)
    for name, loss in LOSSES.items():
        value, error = loss.uncertainty(point.posteriors[0])
        assert abs(value - loss.uncertainty(exact).value) <= 4 * error + 2e-3 * abs(value), name


def test_a_difference_of_two_records_in_unknown_rows(scalar: PyMCBelief) -> None:
    """Any ordered pair of rows may be theirs.

    The mean difference is zero, its variance that of the mixture over all pairs.
    """
    mask = Noise(variance=1.0) | Shuffle()
    released = mask.release(ONE, 3)
    y = released.to_numpy()[:, 0]
    plain = NormalBelief(N, VARIANCE, prior_variance=DOUBT)
    spread, middles = [], []
    for a, b in itertools.permutations(range(N), 2):
        gap = ruv.Functional([1.0, -1.0], of=[Record(a), Record(b)])
        law = Exact().posterior(User(plain, gap, Quadratic()), Noise(variance=1.0), y)
        spread.append(float(law.var()))
        middles.append(float(law.mean()))
    target = ruv.Functional(lambda a, b: a - b, of=[Record(0), Record(1)])
    point = Sampling(draws=3000, tune=400, chains=2).solve_release(User(scalar, target, Quadratic()), mask, released)
    value, error = point.values[0]
    assert abs(value - (np.mean(spread) + np.var(middles))) <= 4 * error
    assert abs(float(point.posteriors[0].mean())) <= 4 * np.sqrt(float(value) / 3000)


# -- samplers, seeds, workers ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_nutpie_and_pymc_agree_and_repeat(scalar: PyMCBelief) -> None:
    pytest.importorskip("nutpie")
    mask = Noise(variance=1.5)
    release = mask.release(ONE, 11)
    user = User(scalar, Parameter("mu"), Quadratic())
    right = Exact().posterior(User(EXACT[1], Parameter("mu"), Quadratic()), mask, release)
    seen = {}
    for sampler in ("nutpie", "pymc"):
        engine = Sampling(draws=800, tune=300, chains=2, sampler=sampler)
        first, second = (engine.solve_release(user, mask, release) for _ in range(2))
        assert np.array_equal(first.posteriors[0].draws, second.posteriors[0].draws)
        other = engine.solve_release(user, mask, release, seed=np.random.SeedSequence(5))
        assert not np.array_equal(first.posteriors[0].draws, other.posteriors[0].draws)
        value, error = first.values[0]
        assert abs(value - float(right.var())) <= 4 * error
        seen[sampler] = first
    gap = seen["nutpie"].values[0].value - seen["pymc"].values[0].value
    assert abs(gap) <= 4 * np.hypot(seen["nutpie"].values[0].error, seen["pymc"].values[0].error)


@pytest.mark.slow
def test_a_second_map_compiles_nothing(scalar: PyMCBelief, monkeypatch: pytest.MonkeyPatch) -> None:
    users = {"intruder": User(scalar, Record(0), Quadratic()), "scientist": User(scalar, Parameter("mu"), Quadratic())}
    engine = Sampling(draws=100, tune=100, chains=2)
    evaluate([Noise(variance=1.0)], **users, data=ONE, engine=engine, seed=1)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(nuts.Sampler, "__init__", fail)
    rumap = evaluate([Noise(variance=v) for v in (0.1, 0.7, 5.0)], **users, data=ONE + 1, engine=engine, seed=2)
    other = evaluate([Suppress(rows=[1]), Subsample(size=3)], **users, data=ONE, engine=engine, seed=2)
    assert len(rumap) == 3
    assert len(other) == 2


@pytest.mark.slow
def test_seeds_repeat_a_map_to_the_last_bit(scalar: PyMCBelief) -> None:
    users = {"intruder": User(scalar, Record(0), Absolute()), "scientist": User(scalar, Parameter("mu"), Quadratic())}
    engine = Sampling(draws=200, tune=200, chains=2)
    masks = [Noise(variance=v) for v in np.geomspace(0.1, 10, 10)]
    first, again, other = (evaluate(masks, **users, data=ONE, engine=engine, seed=s, replicates=2) for s in (1, 1, 2))
    assert first.risk.tobytes() == again.risk.tobytes()
    assert first.utility.tobytes() == again.utility.tobytes()
    assert not np.array_equal(first.risk, other.risk)


@pytest.mark.long
def test_workers_give_the_same_bits(scalar: PyMCBelief) -> None:
    users = {"intruder": User(scalar, Record(0), Quadratic()), "scientist": User(scalar, Parameter("mu"), Quadratic())}
    engine = Sampling(draws=100, tune=100, chains=2)
    masks = [Noise(variance=v) for v in np.geomspace(0.1, 10, 18)]
    here = evaluate(masks, **users, data=ONE, engine=engine, seed=1)
    for workers in (1, 2):
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            there = evaluate(masks, **users, data=ONE, engine=engine, seed=1, executor=pool)
        assert here.risk.tobytes() == there.risk.tobytes()
        assert here.utility.tobytes() == there.utility.tobytes()


# -- reuse, budgets, verdicts ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_reused_draws_agree_with_fresh_ones(unknowns: PyMCBelief) -> None:
    data = np.random.default_rng(2).normal(1.0, 1.4, 60)
    users = {
        "intruder": User(unknowns, Record(0), Quadratic()),
        "scientist": User(unknowns, Parameter("sigma"), Quadratic()),
    }
    masks = [Noise(sd=s) for s in (0.8, 1.0, 1.2)]
    reused, fresh = (
        evaluate(masks, **users, data=data, engine=Sampling(chains=2, reuse=r), seed=1).to_dataframe()
        for r in (True, False)
    )
    assert any("reweighted" in how for how in reused["intruder_how"])
    assert set(fresh["intruder_how"]) == {"sampled"}
    khat = reused["intruder_khat"][reused["intruder_how"] == "reweighted"]
    assert np.all(khat < 0.7)
    for name in ("risk", "utility"):
        gap = np.abs(reused[name] - fresh[name])
        assert np.all(gap <= 4 * np.hypot(reused[f"{name}_error"], fresh[f"{name}_error"]))
    # A release of another size is far: its posterior has other places for its mass.
    far = evaluate(
        [Noise(sd=0.05), Noise(sd=20.0)], **users, data=data, engine=Sampling(chains=2, draws=300), seed=1
    ).to_dataframe()
    assert "reweighted" not in set(far["intruder_how"])  # each is sampled, further releases of it may be reweighted


def test_the_wanted_error_is_reached_or_said(scalar: PyMCBelief) -> None:
    users = {"intruder": User(scalar, Record(0), Quadratic()), "scientist": User(scalar, Parameter("mu"), Quadratic())}
    start, options = {"draws": 50, "tune": 200, "chains": 2}, {**users, "data": ONE, "replicates": 1, "seed": 1}
    engine = Sampling(**start, target_mcse=0.03)
    table = evaluate([Noise(variance=1.0)], **options, engine=engine).to_dataframe()
    assert table["intruder_budget"][0] == "reached"
    assert table["intruder_draws"][0] > 100
    value, error = engine.solve_release(
        users["scientist"], Noise(variance=1.0), Noise(variance=1.0).release(ONE, 4)
    ).values[0]
    assert error <= 0.03 * value * (1 + 1e-9)
    engine = Sampling(**start, target_mcse=0.001, max_draws=400)
    poor = evaluate([Noise(variance=1.0)], **options, engine=engine).to_dataframe()
    assert poor["intruder_budget"][0] == "not reached with 400 draws"
    assert poor["intruder_draws"][0] == 400


def test_a_point_that_does_not_converge_is_marked_or_raised(scalar: PyMCBelief) -> None:
    users = {"intruder": User(scalar, Record(0), Quadratic()), "scientist": User(scalar, Parameter("mu"), Quadratic())}
    hasty = {"draws": 10, "tune": 10, "chains": 2}
    rumap = evaluate([Noise(variance=1.0)], **users, data=ONE, engine=Sampling(**hasty), seed=1)
    assert not rumap.converged[0]
    with pytest.raises(ConvergenceError, match="did not converge"):
        evaluate([Noise(variance=1.0)], **users, data=ONE, engine=Sampling(**hasty, strict=True), seed=1)


@pytest.mark.slow
def test_kept_draws_go_to_arviz(scalar: PyMCBelief) -> None:
    az = nuts.quiet_arviz()
    users = {"intruder": User(scalar, Record(0), Quadratic()), "scientist": User(scalar, Parameter("mu"), Quadratic())}
    kept = Noise(variance=1.0)
    rumap = evaluate(
        [kept, Noise(variance=2.0)],
        **users,
        data=ONE,
        engine=Sampling(draws=200, tune=200, chains=2, keep=[kept]),
        seed=1,
    )
    found = rumap.draws(0)["posterior"]
    assert found["mu"].dims == ("chain", "draw")
    assert found.sizes["chain"] == 2
    assert found.sizes["draw"] == 200
    summary = az.summary(rumap.draws(0), var_names=["mu"])
    assert float(summary.loc["mu", "mean"]) == pytest.approx(float(found["mu"].mean()), abs=0.01)
    with pytest.raises(InputError, match="No draws were kept"):
        rumap.draws(1)


@dataclass(frozen=True, repr=False)
class Interrupting(Noise):
    """Noise; the release of a variance above 3 meets a Ctrl-C."""

    def apply(self, frame, rng):
        if float(self.variance) > 3:
            raise KeyboardInterrupt
        return super().apply(frame, rng)


def test_ctrl_c_keeps_what_is_finished(scalar: PyMCBelief, monkeypatch: pytest.MonkeyPatch) -> None:
    users = {"intruder": User(scalar, Record(0), Quadratic()), "scientist": User(scalar, Parameter("mu"), Quadratic())}
    engine = Sampling(draws=100, tune=100, chains=2, reuse=False)
    runs = []
    run = nuts.Sampler.run

    def third(self, *arguments, **options):
        runs.append(1)
        if len(runs) == 3:
            raise KeyboardInterrupt
        return run(self, *arguments, **options)

    monkeypatch.setattr(nuts.Sampler, "run", third)
    options = {**users, "data": ONE, "engine": engine, "seed": 1}
    rumap = evaluate([Noise(variance=v) for v in (0.5, 1.0, 2.0, 4.0, 8.0)], **options)
    assert len(rumap) == 2 and rumap.one_release.all()
    assert "Stopped before the end: 2 of 5" in str(rumap.notes)
    monkeypatch.undo()
    whole = evaluate([Noise(variance=v) for v in (0.5, 1.0, 2.0, 4.0, 8.0)], **options, replicates=1)
    rows = [str(m) for m in whole.masks]
    assert all(rumap.risk[i] == whole.risk[rows.index(str(m))] for i, m in enumerate(rumap.masks))


def test_ctrl_c_before_anything_is_finished_is_a_ctrl_c(scalar: PyMCBelief) -> None:
    users = {"intruder": User(scalar, Record(0), Quadratic()), "scientist": User(scalar, Parameter("mu"), Quadratic())}
    with pytest.raises(KeyboardInterrupt):
        evaluate([Interrupting(variance=4.0)], **users, data=ONE, engine=Sampling(draws=50, tune=50, chains=1), seed=1)


# -- targets ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_functions_of_draws_and_derived_parameters(unknowns: PyMCBelief) -> None:
    data = np.random.default_rng(2).normal(1.0, 1.4, 60)
    mask = Noise(sd=1.0)
    release = mask.release(pd.DataFrame(data), 1)
    engine = Sampling(draws=600, tune=400, chains=2)
    cv = engine.posterior(User(unknowns, Parameter("cv"), Quadratic()), mask, release)
    by_hand = Functional(lambda s, m: s / (1 + m**2), of=[Parameter("sigma"), Parameter("mu")])
    same = engine.posterior(User(unknowns, by_hand, Quadratic()), mask, release)
    np.testing.assert_allclose(cv.draws, same.draws, rtol=1e-12)
    whole = engine.posterior(User(unknowns, Records(), Quadratic()), mask, release)
    first = engine.posterior(User(unknowns, Record(0), Quadratic()), mask, release)
    assert float(whole.mean()[0]) == pytest.approx(float(first.mean()), abs=0.15)
    top = engine.posterior(User(unknowns, Maximum(), Quadratic()), mask, release)
    assert float(top.mean()) > float(first.mean())
    gap = engine.posterior(
        User(unknowns, Functional(lambda a, b: a - b, of=[Record(0), Record(1)]), Quadratic()), mask, release
    )
    second = engine.posterior(User(unknowns, Record(1), Quadratic()), mask, release)
    assert float(gap.mean()) == pytest.approx(float(first.mean()) - float(second.mean()), abs=0.15)


def test_planning_without_data_draws_files_from_the_belief(scalar: PyMCBelief) -> None:
    users = {"intruder": User(scalar, Record(0), Quadratic()), "scientist": User(scalar, Parameter("mu"), Quadratic())}
    rumap = evaluate(
        [Noise(variance=1.0)], **users, engine=Sampling(draws=400, tune=200, chains=2), seed=1, replicates=4
    )
    exact = evaluate(
        [Noise(variance=1.0)],
        intruder=User(EXACT[1], Record(0), Quadratic()),
        scientist=User(EXACT[1], Parameter("mu"), Quadratic()),
    )
    np.testing.assert_allclose(rumap.intruder_uncertainty, exact.intruder_uncertainty, rtol=0.02)
    np.testing.assert_allclose(rumap.scientist_uncertainty, exact.scientist_uncertainty, rtol=0.15)


def test_a_release_is_seen_as_the_mask_made_it(scalar: PyMCBelief) -> None:
    # A Generator, because an integer gives maps and releases streams of their own.
    seen = observed_in(Noise(variance=2.0), ONE, compiled_model(scalar, N), np.random.default_rng(4))
    centre, variance = seen.columns[0].normal
    np.testing.assert_allclose(variance, 2.0)
    np.testing.assert_allclose(centre, Noise(variance=2.0).release(ONE, np.random.default_rng(4))[0])


@pytest.mark.long
def test_power_scaling_agrees_with_another_prior() -> None:
    """A normal prior to the power a is a normal prior of 1/a times the variance, which the exact engine knows."""

    def build(n):
        import pymc as pm

        with pm.Model() as model:
            pm.Normal("x", pm.Normal("mu", 0, 1), 1.0, shape=n)
        return model

    data = np.random.default_rng(0).normal(2, 1, 5)
    masks = [ruv.Noise(variance=v) for v in (0.5, 1.0, 4.0)]

    def users(belief):
        return {
            "intruder": ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
            "scientist": ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
        }

    sampled = ruv.PyMCBelief(build)
    for power in (0.7, 1.4):
        scaled = ruv.evaluate(
            masks, **users(sampled), data=data, seed=1, engine=ruv.Sampling(draws=2000, prior_power=power)
        )
        exact = ruv.evaluate(
            masks, **users(ruv.NormalBelief(records=5, variance=1, prior_mean=0, prior_variance=1 / power))
        )
        for who in ("intruder", "scientist"):
            away = getattr(scaled, f"{who}_uncertainty") - getattr(exact, f"{who}_uncertainty")
            assert np.all(np.abs(away) < 4 * getattr(scaled, who).error)
        plain = ruv.evaluate(masks, **users(ruv.NormalBelief(records=5, variance=1, prior_mean=0, prior_variance=1)))
        # Behind the most noise the prior counts most, and the test can tell the powers apart.
        assert abs(scaled.scientist_uncertainty[2] - plain.scientist_uncertainty[2]) > 4 * scaled.scientist.error[2]
    result = ruv.analyses.power_scaling(
        masks, **users(sampled), data=data, seed=1, max_risk=1.5, engine=ruv.Sampling(draws=2000)
    )
    assert len(result.to_dataframe()) == 5 and "power" in result.sentence
    with pytest.raises(ruv.InputError, match="must be a Sampling"):
        ruv.analyses.power_scaling(masks, **users(sampled), data=data, engine=ruv.Quadrature())


def test_smoothed_weights_grow_with_the_log_weights() -> None:
    from ruvdecision.engines.pymc.importance import pareto_smoothed_weights

    logs = 0.5 * np.random.default_rng(1).normal(size=4000)
    weights, khat = pareto_smoothed_weights(logs)
    assert np.corrcoef(weights, np.exp(logs))[0, 1] > 0.99 and khat < 0.5
    assert abs(weights.sum() - 1) < 1e-12
    # A tail of fewer than five values, or of equal ones, says nothing: whatever the version of ArviZ, k-hat is infinite.
    for few in (np.log([1.0, 2.0, 3.0, 4.0]), np.repeat([0.0, 1.0], 50)):
        weights, unknown = pareto_smoothed_weights(few)
        assert unknown == np.inf and np.allclose(weights, np.exp(few) / np.exp(few).sum())
    even, flat = pareto_smoothed_weights(np.zeros(100))
    assert np.all(even == 0.01) and flat == -np.inf


def test_a_large_file_is_not_held_at_every_draw(monkeypatch):
    """Only the records that a target asks for are worked out where n times draws is large."""
    import pymc as pm

    from ruvdecision.engines.pymc import parameter_points

    covariates = np.random.default_rng(0).normal(size=30)

    def regression(n):
        with pm.Model() as model:
            slope = pm.Normal("slope", 0, 1)
            pm.Normal("x", covariates * slope, 1.0, shape=n)
        return model

    user = ruv.User(ruv.PyMCBelief(regression), ruv.Record(7), ruv.Quadratic())
    engine = ruv.Sampling(draws=200, chains=2, importance=True)
    release = 2 * covariates + 0.3
    whole = engine.solve_release(user, ruv.Noise(sd=0.5), release).values[0]
    monkeypatch.setattr(parameter_points, "LARGE", 1)
    monkeypatch.setattr("ruvdecision.engines.pymc.model.HELD", 900)  # thirty draws at a time
    some = engine.solve_release(user, ruv.Noise(sd=0.5), release).values[0]
    assert float(some.value) == pytest.approx(float(whole.value), rel=1e-12)
    cov = np.outer(covariates, covariates) + np.eye(30)
    right = (cov - cov @ np.linalg.solve(cov + 0.25 * np.eye(30), cov))[7, 7]
    assert abs(float(some.value) - right) < 4 * float(some.error) + 1e-9


def test_uncertainty_before_any_release_is_worked_out_once_for_all_blocks_of_a_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    found = draws.ReleaseSampler.prior_point.func
    counted = cached_property(lambda self: asked.append(self.settings) or found(self))
    counted.__set_name__(draws.ReleaseSampler, "prior_point")
    monkeypatch.setattr(draws.ReleaseSampler, "prior_point", counted)
    belief = PyMCBelief(two_unknowns)
    users = {"intruder": User(belief, Record(0), Quadratic()), "scientist": User(belief, Parameter("mu"), Quadratic())}
    masks = [Noise(sd=s) for s in np.linspace(0.2, 2.0, 10)]
    how = {"data": ONE, "replicates": 1, "seed": 1, "progress": False}
    few = Sampling(draws=50, tune=50, chains=2, importance=True)
    rumap = evaluate(masks, **users, engine=few, **how)
    assert len(asked) == 1
    assert len(rumap) == 10
    evaluate(masks[:2], **users, engine=Sampling(draws=50, tune=50, chains=2, importance=True, prior_power=0.5), **how)
    assert len(asked) == 2


def test_a_posterior_says_that_its_draws_did_not_converge() -> None:
    belief = PyMCBelief(two_unknowns, records="x", size=4)
    user, mask = User(belief, Record(0), Absolute()), Noise(sd=1.0)
    released = mask.release(np.array([1.2, 3.4, 2.2, 5.0]), np.random.default_rng(1))
    with pytest.warns(
        NotConvergedWarning, match=r"The draws of Noise\(sd=1\) did not converge: .*effective sample size"
    ):
        law = ruv.posterior(user, mask, released, engine=Sampling(draws=20, tune=10, chains=2))
    assert "effective sample size" in law.trouble and f"trouble={law.trouble!r}" in repr(law)
    known = Sampling(draws=20, tune=10, chains=2).solve_release(user, mask, released)
    assert not known.converged and law.trouble == known.trouble
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConvergedWarning)
        law = ruv.posterior(user, mask, released, engine=Sampling(importance=True))
    assert law.trouble == "" and "trouble" not in repr(law)


@pytest.mark.slow
def test_weighted_draws_go_on_to_the_error_that_is_wanted() -> None:
    user, mask = User(PyMCBelief(two_unknowns, records="x", size=6), Record(0), Quadratic()), Noise(sd=1.0)
    start = {"draws": 100, "chains": 4, "importance": True}
    for wanted, most, words in ((0.02, 40_000, "reached"), (1e-4, 2_000, "not reached with 2000 draws")):
        rumap = evaluate(
            [mask],
            intruder=user, scientist=user, data=ONE, seed=3, replicates=1,
            engine=Sampling(**start, target_mcse=wanted, max_draws=most),
        )  # fmt: skip
        row = rumap.to_dataframe().iloc[0]
        assert row["intruder_how"] == "importance sampled" and row["intruder_budget"] == words
        assert 400 < row["intruder_draws"] <= most
