"""A mask that applies itself in a way of its own does what its steps say."""

from __future__ import annotations

import numpy as np
import pytest

import ruvdecision as ruv
from ruvdecision.masks.base import Mask
from ruvdecision.masks.frame import Frame

MASKS = [
    ruv.Noise(sd=[1.0, 3.0]),
    ruv.Noise(covariance=[[2.0, -1.2], [-1.2, 1.0]]),
    ruv.Noise(sd=lambda x: 0.1 * np.abs(x)),
    ruv.Noise(sd=[1.0, 2.0, 3.0, 1.0, 5.0, 0.5]),
    ruv.Noise(variance=2.0, common=True),
    ruv.Microaggregate(groups=[0, 0, 1, 1, 1, 0]),
    ruv.Topcode(at=9.0, replace="mean"),
    ruv.Bottomcode(at=9.0, replace="mean"),
    ruv.Recode(width=5, label="midpoint"),
]


@pytest.mark.parametrize("mask", MASKS, ids=[f"{i} {type(m).__name__}" for i, m in enumerate(MASKS)])
def test_a_masks_own_way_is_its_steps(mask: Mask) -> None:
    x = np.random.default_rng(0).normal(10, 5, size=(6, 2))
    by_steps = Mask.apply(mask, Frame.of(x), np.random.default_rng(5)).unwrap()
    np.testing.assert_allclose(by_steps, mask.release(x, np.random.default_rng(5)), rtol=1e-12)
