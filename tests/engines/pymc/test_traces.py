"""What a map keeps for ArviZ, and ArviZ's own functions on it, with whichever ArviZ is installed."""

from __future__ import annotations

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

import ruvdecision as ruv
from ruvdecision.engines.pymc.nuts import quiet_arviz

N, MASK = 8, ruv.Noise(sd=2.0)
DATA = np.random.default_rng(1).lognormal(2.0, 0.5, size=N)


def incomes(n):
    import pymc as pm

    with pm.Model(coords={"person": [f"p{i}" for i in range(n)]}) as model:
        mu = pm.Normal("mu", 2.0, 1.0)
        sigma = pm.HalfNormal("sigma", 0.5)
        pm.Deterministic("median", pm.math.exp(mu))
        pm.LogNormal("x", mu, sigma, dims="person")
    return model


@pytest.fixture(scope="module")
def rumap():
    belief = ruv.PyMCBelief(incomes)
    return ruv.evaluate(
        [MASK, ruv.Noise(sd=4.0)],
        intruder=ruv.User(belief, ruv.Record(3), ruv.Absolute()),
        scientist=ruv.User(belief, ruv.Parameter("median"), ruv.Quadratic()),
        data=DATA,
        engine=ruv.Sampling(draws=300, tune=300, chains=2, keep=[MASK], keep_records=True),
        replicates=1,
        seed=1,
    )


GROUPS = {
    "posterior": {"mu", "sigma", "median", "target", "x"},
    "log_likelihood": {"release"},
    "log_prior": {"prior"},
    "prior": {"mu", "sigma", "median"},
    "observed_data": {"release"},
    "prior_predictive": {"x", "release"},
    "posterior_predictive": {"x", "release"},
}


@pytest.mark.slow
def test_groups(rumap):
    draws = rumap.draws(0)
    for group, names in GROUPS.items():
        assert set(draws[group].data_vars) == names, group
    assert {"diverging", "energy", "lp"} <= set(draws["sample_stats"].data_vars)
    posterior = draws["posterior"]
    assert posterior["x"].dims == ("chain", "draw", "person") and list(posterior["person"].values[:2]) == ["p0", "p1"]
    assert np.array_equal(posterior["median"], np.exp(posterior["mu"]))
    assert np.array_equal(rumap.draws(0, "scientist")["posterior"]["target"], posterior["median"])
    # The records are drawn given the release: noise of sd 2 around what was released.
    released = draws["observed_data"]["release"].values
    assert np.abs(posterior["x"].mean(("chain", "draw")) - released).max() < 6
    target, record = posterior["target"].values, posterior["x"].values[..., 3]
    error = np.hypot(target.std(), record.std()) / np.sqrt(target.size)
    assert abs(target.mean() - record.mean()) < 4 * error
    with pytest.raises(ruv.InputError, match="No draws were kept"):
        rumap.draws(1)


@pytest.mark.slow
def test_the_likelihood_of_every_record_is_its_integral(rumap):
    draws = rumap.draws(0)
    posterior, released = draws["posterior"], draws["observed_data"]["release"].values
    x = np.linspace(1e-3, 80, 200_001)
    for row in (0, 5):
        mu, sigma = float(posterior["mu"][1, 7]), float(posterior["sigma"][1, 7])
        density = stats.lognorm(sigma, scale=np.exp(mu)).pdf(x) * stats.norm(x, 2.0).pdf(released[row])
        found = float(draws["log_likelihood"]["release"][1, 7, row])
        assert found == pytest.approx(np.log(np.trapezoid(density, x)), abs=1e-4)


@pytest.mark.slow
def test_draws_survive_save_and_load(rumap, tmp_path):
    again = ruv.RUMap.load(rumap.save(tmp_path / "map.nc"))
    for user in ("intruder", "scientist"):
        one, two = rumap.draws(0, user), again.draws(0, user)
        for group in (*GROUPS, "sample_stats"):
            first, second = (d[group].to_dataset() if hasattr(d[group], "to_dataset") else d[group] for d in (one, two))
            assert first.identical(second), group


@pytest.mark.slow
def test_arviz_takes_it(rumap):
    az, draws = quiet_arviz(), rumap.draws(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws, and ArviZ's notices about its own future
        summary = az.summary(draws, var_names=["mu", "sigma", "median", "target"])
        assert list(summary.index) == ["mu", "sigma", "median", "target"]
        assert np.isfinite(az.loo(draws).elpd if hasattr(az.loo(draws), "elpd") else az.loo(draws).elpd_loo)
        names = ["mu", "sigma"]
        az.plot_trace(draws, var_names=names)
        az.plot_energy(draws)
        if hasattr(az, "plot_ppc"):
            az.plot_ppc(draws, var_names=["release"], num_pp_samples=20)
            az.plot_ppc(draws, var_names=["release"], group="prior", num_pp_samples=20)
            sensitivity = az.psens(draws, component="likelihood", var_names=names)
        else:
            az.plot_ppc_dist(draws, var_names=["release"], num_samples=20)
            az.plot_ppc_dist(draws, var_names=["release"], group="prior_predictive", num_samples=20)
            sensitivity = az.psense(draws, group="likelihood", var_names=names)
        assert all(float(sensitivity[name]) > 0.01 for name in names)
    plt.close("all")
