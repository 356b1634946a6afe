"""Laws that a user makes with pm.CustomDist, beside PyMC's own law that is the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import ruvdecision as ruv
from ruvdecision.beliefs.pymc import cheap_mode
from ruvdecision.channels.likelihood import ReleaseLikelihood, Uninformative
from ruvdecision.engines.pymc.latent import ALL, LatentRecords
from ruvdecision.engines.pymc.model import compiled_model
from ruvdecision.errors import InputError

pytest.importorskip("pymc")
pytensor = pytest.importorskip("pytensor")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")

RELEASE = np.array([1.1, 4.0, 2.3])


def pm():
    import pymc

    return pymc


def own(n):
    def law(mu, size):
        return pm().math.exp(pm().Normal.dist(mu, 0.5, size=size))

    with pm().Model() as model:
        mu = pm().Normal("mu", 1, 1)
        pm().CustomDist("x", mu, dist=law, shape=n)
    return model


def same(n):
    with pm().Model() as model:
        mu = pm().Normal("mu", 1, 1)
        pm().LogNormal("x", mu, 0.5, shape=n)
    return model


@pytest.mark.parametrize("target", [ruv.Record(1), ruv.NewRecord(), ruv.Parameter("mu")], ids=str)
def test_a_law_made_of_others(target) -> None:
    """Its density was that at a parameter of zero, whatever the parameter: U of mu was its prior variance, error 0."""
    found = []
    for builder in (own, same):
        user = ruv.User(ruv.PyMCBelief(builder, size=3), target, ruv.Quadratic())
        found.append(user.loss.uncertainty(ruv.posterior(user, ruv.Noise(sd=1.0), RELEASE)).value)
    assert float(found[0]) == pytest.approx(float(found[1]), rel=1e-6)


def test_the_same_where_records_are_sampled_too() -> None:
    """The density of records that are drawn with the parameters knows these, too."""
    compiled = compiled_model(ruv.PyMCBelief(own, size=3), 3)
    model = LatentRecords(compiled, ReleaseLikelihood((Uninformative(3),)), "")._build_model()
    values, point = [model.rvs_to_values[rv] for rv in model.free_RVs], model.initial_point()
    graphs = [*model.replace_rvs_by_values([model[ALL]]), model.logp()]
    function = pytensor.function(values, graphs, mode=cheap_mode())
    heights, expected = [], []
    for mu in (0.0, 1.0, 2.5):
        place = point | {"mu": np.array(mu)}
        x, height = function(*(place[v.name] for v in values))
        heights.append(float(height))
        expected.append(stats.norm.logpdf(mu, 1, 1) + stats.norm.logpdf(np.log(x), mu, 0.5).sum())
    assert np.diff(heights) == pytest.approx(np.diff(expected), rel=1e-9)


def test_a_law_without_a_density() -> None:
    def sums(n):
        def law(mu, size):
            return pm().Normal.dist(mu, 1.0, size=size) + pm().Exponential.dist(1.0, size=size)

        with pm().Model() as model:
            mu = pm().Normal("mu", 1, 1)
            pm().CustomDist("x", mu, dist=law, shape=n)
        return model

    user = ruv.User(ruv.PyMCBelief(sums, size=3), ruv.Record(0), ruv.Quadratic())
    with pytest.raises(InputError, match="PyMC has no density") as error:
        ruv.posterior(user, ruv.Noise(sd=1.0), RELEASE)
    assert "logp=" in error.value.do
