"""Laws of functions of two bounded parameters, against closed forms and a fine grid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import ruvdecision as ruv
from ruvdecision.engines.pymc.nodes import find_boxes
from ruvdecision.engines.pymc.parameter_law import law_of_value, masses_of_value


class Posterior:
    """Two independent beta laws, on the logit scale."""

    support_maps = ()

    def __init__(self, first, second):
        self.shapes = np.array([first, second], dtype=float)

    def evaluate(self, u):
        a, b = self.shapes.T
        return np.sum(a * special.log_expit(u) + b * special.log_expit(-u), axis=-1), None

    def take(self, some):
        return self

    def __len__(self):
        return 1


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
    for x, mass in masses_of_value(UNIFORM, boxes, lambda u: NUMBERS[name](special.expit(u))):
        order = np.argsort(x)
        middle = x[order][np.searchsorted(np.cumsum(mass[order]), 0.5)]
        found.append(mass @ np.abs(x - middle))
    right = (2 - np.sqrt(2)) / 3
    assert found[0] == pytest.approx(right, rel=1e-4)
    assert abs(found[0] - right) < abs(found[1] - right) < abs(found[2] - right)


def test_a_crease_is_in_the_error():
    found = law(UNIFORM, "larger")
    assert found is None or found[1] > 1e-4
