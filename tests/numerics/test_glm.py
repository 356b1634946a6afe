"""Newton's method where some responses can be told apart: the likelihood grows without end, and the fit ends."""

from __future__ import annotations

import numpy as np
import pytest

from ruvdecision.measures.utility.propensity import design_rows
from ruvdecision.numerics import glm


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_fit_ends_where_rounding_is_all_that_is_gained(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rare combinations of categories are in one file alone: their coefficients have no bound."""
    rng, made = np.random.default_rng(seed), []
    rare = 0.3 ** np.arange(6)
    x = rng.choice(6, size=(1500, 4), p=rare / rare.sum())
    levels = [x[:, [j]] == np.arange(1, 6) for j in range(4)]
    design = design_rows(np.hstack([*levels, rng.integers(0, 50, size=(1500, 1))]).astype(float), "products")
    y = (rng.random(1500) < 0.5).astype(float)
    matrix = glm._information_matrix
    monkeypatch.setattr(glm, "_information_matrix", lambda *a: made.append(1) or matrix(*a))
    fit = glm.logistic.maximise(design, y, np.zeros(len(design)))
    assert len(made) < 60  # it was 297 of at most 300
    np.testing.assert_allclose(design @ (y - fit.mean), 0.0, atol=1e-6)  # the likelihood has no slope left
    assert not fit.has_finite_coefficients(design)
