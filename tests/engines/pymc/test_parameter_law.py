"""Laws of functions of two bounded parameters, against closed forms and a fine grid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import ruvdecision as ruv
from ruvdecision.engines.pymc.nodes import find_boxes
from ruvdecision.engines.pymc.parameter_law import _law_of_monotone_function, law_of_value, masses_of_value


class Posterior:
    """Two independent beta laws, on the logit scale."""

    support_maps = ()
    has_edges = False

    def __init__(self, first, second):
        self.shapes = np.array([first, second], dtype=float)

    def evaluate(self, u):
        a, b = self.shapes.T
        return np.sum(a * special.log_expit(u) + b * special.log_expit(-u), axis=-1), None

    def take(self, some):
        return self

    def __len__(self):
        return 1


class Kinked(Posterior):
    """A standard normal parameter, and another with a Laplace law around a function of it."""

    def __init__(self):
        pass

    def evaluate(self, u):
        return -0.5 * u[..., 0] ** 2 - 1.5 * np.abs(u[..., 1] - np.sin(2 * u[..., 0])), None


UNIFORM = Posterior((1, 1), (1, 1))
NUMBERS = {
    "sum": lambda p: p[:, 0] + p[:, 1],
    "difference": lambda p: p[:, 0] - p[:, 1],
    "minus product": lambda p: -p[:, 0] * p[:, 1],
    "ratio": lambda p: p[:, 0] / p[:, 1],
    "larger": lambda p: p.max(axis=1),
    "apart": lambda p: np.abs(p[:, 0] - p[:, 1]),
}


def law(posterior, name):
    boxes = find_boxes(posterior, np.zeros((1, 2)))
    return law_of_value(posterior, boxes, lambda u: NUMBERS[name](special.expit(u)), None)


@pytest.mark.parametrize(
    ("name", "entropy", "absolute"),
    [
        ("sum", 0.5, 1 / 3),
        ("difference", 0.5, 1 / 3),
        ("minus product", -special.digamma(2), None),
        ("ratio", 1 + np.log(2), None),
    ],
)
def test_uniform_parameters(name, entropy, absolute):
    """Their sum has a kink, their product the density -log t, with E log(-log t) = digamma(2); their ratio no mean."""
    curve, error = law(UNIFORM, name)
    assert float(curve.error) + error < 1e-8
    assert float(ruv.LogScore().uncertainty(curve).value) == pytest.approx(entropy, abs=1e-8)
    if absolute is not None:
        assert float(ruv.Absolute().uncertainty(curve).value) == pytest.approx(absolute, rel=1e-8)


def test_beta_parameters():
    """A difference of chances was off by seven per cent, with an error that said so."""
    curve, error = law(Posterior((4, 3), (3, 5)), "difference")
    g = (np.arange(1200) + 0.5) / 1200
    weight = np.multiply.outer(g**3 * (1 - g) ** 2, g**2 * (1 - g) ** 4)
    apart = np.subtract.outer(g, g)
    below = float(curve.quantile(0.5))
    right = np.sum(weight * np.abs(apart - below)) / weight.sum()
    assert error < 1e-8
    assert float(ruv.Absolute().uncertainty(curve).value) == pytest.approx(right, rel=1e-6)


@pytest.mark.parametrize("name", ["larger", "apart"])
def test_a_function_with_a_crease(name):
    """What is no law by its density is many point masses, and coarser ones show how far they are off."""
    boxes = find_boxes(UNIFORM, np.zeros((1, 2)))
    found = []
    for x, mass in masses_of_value(UNIFORM, boxes, lambda u: NUMBERS[name](special.expit(u)))[0]:
        order = np.argsort(x)
        middle = x[order][np.searchsorted(np.cumsum(mass[order]), 0.5)]
        found.append(mass @ np.abs(x - middle))
    right = (2 - np.sqrt(2)) / 3
    assert found[0] == pytest.approx(right, rel=1e-4)
    assert abs(found[0] - right) < abs(found[1] - right) < abs(found[2] - right)


def test_a_crease_is_in_the_error():
    found = law(UNIFORM, "larger")
    assert found is None or found[1] > 1e-4


def test_a_parameter_with_a_kink_beside_it():
    """Halving the step squares the error of smooth posteriors alone: one with kinks was 13 errors off."""
    boxes = find_boxes(Kinked(), np.zeros((1, 2)))
    curve, error = law_of_value(Kinked(), boxes, lambda u: u[:, 0], 0)
    off = abs(float(curve.var()) - 1)
    assert 1e-7 < off < 4 * error
    assert error < 1e-3


@pytest.mark.slow
def test_the_posterior_of_a_function_with_a_crease_has_its_error():
    """The larger of two uniform parameters: point masses were 3e-5 off, and the law said nothing of it."""

    def chances(n):
        import pymc as pm

        with pm.Model() as model:
            p = pm.Uniform("p", 0, 1, shape=2)
            pm.Deterministic("larger", pm.math.maximum(p[0], p[1]))
            pm.Bernoulli("x", p[0], shape=n)
        return model

    user = ruv.User(ruv.PyMCBelief(chances), ruv.Parameter("larger"), ruv.Absolute())
    release = np.full(2, np.nan)
    value, error = user.loss.uncertainty(ruv.posterior(user, ruv.Suppress(), release, engine=ruv.Quadrature()))
    right = (2 - np.sqrt(2)) / 3
    assert abs(value - right) < 2 * error
    assert error < 1e-4 * right


def test_a_spike_between_nodes_has_no_law():
    s = np.linspace(-5, 5, 101)
    assert _law_of_monotone_function(s, s, -500 * np.abs(s - 0.3)) is None
