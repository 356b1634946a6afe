"""The adaptive rule and Gauss's rules against integrals that are known."""

import numpy as np
import pytest
from scipy import special, stats

from ruvdecision.errors import ConvergenceError
from ruvdecision.numerics.glm import _cholesky_or_ridge
from ruvdecision.numerics.quadrature import GAUSS, KRONROD, NODES, adaptive, gauss_legendre, gauss_normal


def test_kinks_and_narrow_peaks():
    value, error = adaptive(lambda x: np.abs(x - 0.3), np.array([0.0, 1.0]), absolute=1e-12)
    assert value == pytest.approx(0.29, abs=1e-11) and error < 1e-9
    value, _ = adaptive(lambda x: np.exp(-0.5 * (x / 1e-3) ** 2), np.array([-1.0, 0.0, 1.0]), absolute=1e-13)
    assert value == pytest.approx(1e-3 * np.sqrt(2 * np.pi), abs=1e-12)


def test_an_array_of_integrals_has_panels_of_its_own():
    sd = np.array([1.0, 1e-3, 1e4])
    value, error = adaptive(lambda x: stats.norm.pdf(x / sd) / sd, np.linspace(-12, 12, 9)[:, None] * sd)
    np.testing.assert_allclose(value, 1.0, rtol=1e-13)
    assert not error.any()


def test_what_does_not_settle_has_an_error():
    value, error = adaptive(lambda x: 1 / np.abs(x - 0.3), np.array([0.0, 1.0]), rounds=12)
    assert error > 0.03 * value


@pytest.mark.parametrize("order", [6, 24, 64])
def test_gauss_rules_are_exact_for_polynomials_and_kept(order):
    nodes, weights = gauss_legendre(order)
    for power in (0, 2, 2 * order - 2):
        assert weights @ nodes**power == pytest.approx(2 / (power + 1), rel=1e-12)
    z, share = gauss_normal(order)
    for power in (0, 2, 8):
        assert share @ z**power == pytest.approx(special.factorial2(power - 1) if power else 1.0, rel=1e-12)
    assert gauss_legendre(order)[0] is nodes
    with pytest.raises(ValueError, match="read-only"):
        weights[0] = 1.0


def test_kronrod_rule_is_exact_for_polynomials():
    for n in range(0, 32, 2):
        assert KRONROD @ NODES**n == pytest.approx(2 / (n + 1), rel=1e-14)
    for n in range(0, 20, 2):
        assert GAUSS @ NODES**n == pytest.approx(2 / (n + 1), rel=1e-14)


@pytest.mark.parametrize("size", [1e-320, 1e-310, 1e-300, 1.0, 1e300])
@pytest.mark.parametrize("kind", ["constant", "square"])
def test_an_integral_of_any_size_ends_after_a_few_panels(size, kind):
    """Close to zero no refinement can agree to 13 digits, because numbers there do not have them."""
    asked = []

    def f(x):
        asked.append(x.size)
        return size * (np.ones_like(x) if kind == "constant" else x**2)

    found = adaptive(f, np.linspace(-3.0, 3.0, 13))
    assert sum(asked) <= 21 * 12 * 3
    assert found.value == pytest.approx(
        size * (6.0 if kind == "constant" else 18.0), rel=1e-3 if size < 1e-300 else 1e-12
    )


def test_the_root_of_a_matrix_that_has_none_is_not_looked_for_for_ever():
    with pytest.raises(ConvergenceError, match="no root"):
        _cholesky_or_ridge(-np.eye(2))
