"""Divergence of kernel densities, and of what a user reconstructs behind a noisy release."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special

from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.measures import DensityKL, InformationLoss
from ruvdecision.measures.utility.divergence import reconstruct


@pytest.mark.parametrize("noise", ["normal", "uniform"])
def test_reconstruction_is_the_maximum_of_the_likelihood(noise: str) -> None:
    """EM against a general optimiser of the likelihood of the values themselves."""
    rng = np.random.default_rng(2)
    low, half = np.arange(4.0), 0.4 * np.sqrt(3)
    error = 0.4 * rng.normal(size=3000) if noise == "normal" else rng.uniform(-half, half, 3000)
    y = rng.choice(low, p=[0.4, 0.1, 0.2, 0.3], size=3000) + rng.random(3000) + error
    found, _ = reconstruct(y, [0, 1, 2, 3, 4], 0.4, noise)
    z = y - low[:, None]
    if noise == "normal":
        each = special.ndtr(z / 0.4) - special.ndtr((z - 1) / 0.4)
    else:
        each = np.clip((z + half) / (2 * half), 0, 1) - np.clip((z - 1 + half) / (2 * half), 0, 1)

    def loss(free: np.ndarray) -> float:
        return float(-np.log(special.softmax(np.append(free, 0.0)) @ each).mean())

    best = special.softmax(np.append(optimize.minimize(loss, np.zeros(3), tol=1e-10).x, 0.0))
    np.testing.assert_allclose(found, best, atol=4e-3)  # fine cells stand for values
    np.testing.assert_allclose(found, [0.4, 0.1, 0.2, 0.3], atol=0.05)


@pytest.mark.parametrize(("noise", "draw"), [("normal", "normal"), ("uniform", "uniform")])
def test_known_mixture(noise: str, draw: str) -> None:
    rng = np.random.default_rng(3)
    n = 20_000
    x = np.where(rng.random(n) < 0.6, rng.normal(-2, 0.5, n), rng.normal(2, 0.7, n))
    error = rng.normal(0, 1, n) if draw == "normal" else rng.uniform(-np.sqrt(3), np.sqrt(3), n)
    value = InformationLoss(noise_sd=1.0, noise=noise, cells=30)(x, x + error)
    assert value < (0.12 if noise == "normal" else 0.2) < 0.22 < value.parts["released"]
    assert InformationLoss()(x, x + error) == value.parts["released"]
    told_wrong = InformationLoss(noise_sd=0.2, noise=noise, cells=30)(x, x + error)
    assert told_wrong > 1.3 * value  # who knows the noise badly reconstructs badly


def test_no_noise_to_speak_of_loses_nothing() -> None:
    x = np.random.default_rng(4).normal(size=2000)
    assert InformationLoss(noise_sd=1e-3, cells=20)(x, x) < 0.02


def test_what_is_refused() -> None:
    two = pd.DataFrame(np.random.default_rng(5).normal(size=(50, 2)), columns=["a", "b"])
    with pytest.raises(UnsupportedError, match="reconstructs one variable"):
        InformationLoss(noise_sd=1.0)(two, two)
    with pytest.raises(InputError, match="noise_sd"):
        InformationLoss(noise_sd=0.0)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("columns", [["a"], ["a", "b"]])
def test_densities_are_those_of_the_kernels_themselves(columns: list[str], weights: str | None) -> None:
    """Every record's kernel at every point of a fine grid, by group, for files of other lengths with missing values."""
    rng = np.random.default_rng(7)
    files = [pd.DataFrame(rng.normal(size=(n, 2)), columns=list("ab")).round(1) for n in (80, 130)]
    for file in files:
        file["w"], file["g"] = rng.integers(1, 6, len(file)).astype(float), rng.choice(list("NS"), len(file))
        file.loc[rng.random(len(file)) < 0.1, "a"] = np.nan
    kl, loss = (kind(columns=columns, weights=weights, by="g")(*files) for kind in (DensityKL, InformationLoss))

    def expected(first: pd.DataFrame, second: pd.DataFrame) -> tuple[float, float]:
        x, y = (f[columns].fillna(first[columns].median()).to_numpy() for f in (first, second))
        u, v = (np.ones(len(f)) if weights is None else f["w"].to_numpy() for f in (first, second))
        mean, p = np.average(x, axis=0, weights=u), len(columns)
        white = np.linalg.inv(np.linalg.cholesky(np.atleast_2d(np.cov(x.T, aweights=u, ddof=0)))).T
        x, y, width = (x - mean) @ white, (y - mean) @ white, len(x) ** (-1 / (p + 4))
        ends = np.minimum(x.min(0), y.min(0)) - 6 * width, np.maximum(x.max(0), y.max(0)) + 6 * width
        axes = [np.linspace(a, b, 1500 if p == 1 else 90) for a, b in zip(*ends, strict=True)]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, p)
        f, g = (w @ np.exp(-0.5 * ((grid - z[:, None]) ** 2).sum(axis=2) / width**2) for z, w in ((x, u), (y, v)))
        f, g = f / f.sum(), g / g.sum()
        return float((f * np.log(f / g)).sum()), float(0.5 * np.abs(f - g).sum())

    for level in (None, "N", "S"):
        parted = files if level is None else [f[f["g"] == level] for f in files]
        divergence, change = expected(*parted)
        assert (kl if level is None else kl.parts[f"g={level}"]) == pytest.approx(divergence, rel=5e-3)
        assert (loss if level is None else loss.parts[f"g={level}"]) == pytest.approx(change, rel=5e-3)


@pytest.mark.parametrize("measure", [DensityKL(), InformationLoss()])
def test_the_order_of_columns_does_not_matter(measure: DensityKL | InformationLoss) -> None:
    rng = np.random.default_rng(5)
    original = pd.DataFrame(rng.multivariate_normal(np.zeros(3), 0.5 + 0.5 * np.eye(3), 60), columns=list("abc"))
    released = original + 0.3 * rng.normal(size=original.shape)
    turned = measure(original[["c", "a", "b"]], released[["b", "c", "a"]])
    assert float(turned) == pytest.approx(float(measure(original, released)), rel=1e-12)
