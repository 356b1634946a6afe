"""A mask that applies itself in a way of its own does what its steps say."""

from __future__ import annotations

import numpy as np
import pytest

import ruvdecision as ruv
from ruvdecision.channels.layout import Partition
from ruvdecision.channels.steps import AverageRows, ClipTo, Drop, MeanOfTail, RoundTo, Step
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


NAN = np.nan
VALUES = np.array([[1.0, 8.0], [4.0, NAN], [7.0, 2.0], [10.0, 6.0]])
GROUPS = Partition.of([0, 1, 1, 0], joins=True)
APPLIED = [
    (
        ClipTo(columns=(0, 1), lower=np.array([2.0, -np.inf]), upper=np.array([9.0, 5.0])),
        [[2, 5], [4, NAN], [7, 2], [9, 5]],
    ),
    (RoundTo(columns=(0, 1), base=np.array([3.0, 4.0])), [[0, 8], [3, NAN], [6, 0], [9, 8]]),
    (AverageRows(columns=(0, 1), rows=GROUPS), [[5.5, 7], [5.5, NAN], [5.5, 2], [5.5, 7]]),
    (Drop(columns=(0, 1), rows=GROUPS), [[1, 8], [NAN, NAN], [NAN, NAN], [10, 6]]),
    (MeanOfTail(columns=(0, 1), at=np.array([5.0, 5.0]), above=True), [[1, 7], [4, NAN], [8.5, 2], [8.5, 7]]),
]


@pytest.mark.parametrize(("step", "expected"), APPLIED, ids=[type(s).__name__ for s, _ in APPLIED])
def test_a_step_applied_to_values(step: Step, expected: list[list[float]]) -> None:
    """Missing entries stay missing and count for nothing."""
    np.testing.assert_allclose(step.apply(VALUES, np.random.default_rng(0)), expected)
