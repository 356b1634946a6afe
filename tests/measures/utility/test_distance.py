"""Distances and divergences: constant columns and far origins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from measured import AWKWARD, two_columns
from scipy.stats import energy_distance

from ruvdecision.errors import InputError
from ruvdecision.measures import (
    Correlations,
    DensityKL,
    Eigenvalues,
    EnergyDistance,
    IL1s,
    IntervalOverlap,
    Mahalanobis,
    NormalKL,
    Pairwise,
    SlicedWasserstein,
    Wasserstein,
)
from ruvdecision.measures.utility import distance
from ruvdecision.measures.utility.cdf import Law, kolmogorov
from ruvdecision.measures.utility.distance import _energy_distance_1d


@pytest.mark.parametrize("value", AWKWARD)
@pytest.mark.parametrize(
    "measure",
    [
        NormalKL(),
        EnergyDistance(),
        Wasserstein(),
        SlicedWasserstein(),
        IL1s(),
        Mahalanobis(),
        Eigenvalues(),
        DensityKL(),
    ],
    ids=repr,
)
def test_constant_original_is_refused_by_name(measure, value: float) -> None:
    original = two_columns().assign(c=value)
    with pytest.raises(InputError, match=r"constant c\b"):
        measure(original, original.assign(c=2 * value))


@pytest.mark.parametrize("value", AWKWARD)
def test_constant_release(value: float) -> None:
    original = two_columns()
    released = original.assign(c=value)
    assert NormalKL()(original, released) == np.inf
    with pytest.raises(InputError, match="vary in the release"):
        Eigenvalues()(original, released)
    with pytest.raises(InputError, match="vary in the release"):
        IntervalOverlap(Correlations())(original, released)
    # The association with a constant is zero, so the change is that of the original.
    r = np.corrcoef(original.c, original.x)[0, 1]
    assert Pairwise()(original, released) == pytest.approx(abs(r) / 2, abs=1e-12)


def test_energy_distance_does_not_depend_on_the_origin() -> None:
    rng = np.random.default_rng(0)
    # Multiples of 2^-10 stay exact after the shift.
    x, y = (np.round(rng.normal(m, 1, 300) * 1024) / 1024 for m in (0.0, 0.2))
    near = [float(EnergyDistance(standardise=False)(x + far, y + far)) for far in (0.0, 1e6, 1e10)]
    assert near[0] == pytest.approx(energy_distance(x, y) ** 2, rel=1e-10)
    assert all(a == pytest.approx(b, rel=1e-12) for a, b in pairwise(near))


def test_energy_of_projections_is_that_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over all directions times a constant: an estimate with its error, which long files use by themselves."""
    rng = np.random.default_rng(1)
    a = rng.normal(size=(300, 4))
    b = a + 0.5 * rng.normal(size=a.shape)
    exact, drawn = EnergyDistance()(a, b), EnergyDistance(projections=400)(a, b)
    assert drawn.error > 0 and abs(drawn - exact) < 4 * drawn.error and drawn.error < 0.05 * exact
    others = [float(EnergyDistance(projections=40, seed=s)(a, b)) for s in range(1, 40)]
    assert np.std(others) == pytest.approx(EnergyDistance(projections=40)(a, b).error, rel=0.6)
    monkeypatch.setattr(distance, "ALL_PAIRS", 299)
    assert float(EnergyDistance()(a, b)) == float(EnergyDistance(projections=100)(a, b))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("digits", [0, 1, 9])
def test_distribution_functions_in_pieces_are_those_of_whole_samples(
    digits: int, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ties within and between the samples, ends of pieces on them, and a sample that begins where the other ends.
    rng = np.random.default_rng(digits)
    for n, m, away in ((1, 1, 0.0), (40, 23, 0.0), (23, 40, 5.0), (64, 64, 0.3), (200, 7, -1.0)):
        x, y = rng.standard_normal(n).round(digits), (rng.standard_normal(m) + away).round(digits)
        a, b = (Law.of(v, rng.uniform(0.1, 2, len(v)) if weighted else None) for v in (x, y))
        at = np.unique(np.concatenate([x, y]))
        gap = a.below(at) - b.below(at)
        for piece in (1, 2, 5, 16, 4096):
            monkeypatch.setattr("ruvdecision.measures.utility.cdf.PIECE", piece)
            assert kolmogorov(a, b) == pytest.approx(np.abs(gap).max(), abs=1e-14)
            area = 2 * np.sum(gap[:-1] ** 2 * np.diff(at))
            assert _energy_distance_1d(a, b) == pytest.approx(area, rel=1e-12, abs=1e-14)
        assert _energy_distance_1d(a, a) == 0
