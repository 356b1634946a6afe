"""The error of a mean over replicates, for every engine that averages: it is the spread of that mean between runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ruvdecision as ruv

BELIEF = ruv.NormalBelief(records=4, variance=2, prior_variance=5)
AGENCY = ruv.NormalBelief(records=4, variance=1, prior_variance=5)
TWO = ruv.NormalBelief(records=4, covariance=[[2, 1], [1, 2]], prior_covariance=[[4, 0], [0, 4]])

CASES: dict[str, tuple[Any, Any]] = {
    "unknown row": (ruv.User(BELIEF, ruv.Record(0), ruv.Absolute()), ruv.Shuffle() | ruv.Noise(variance=1.0)),
    "identity": (ruv.User(TWO, ruv.Identity(0, known=[0]), ruv.ZeroOne()), ruv.Noise(variance=1.0)),
    "fixed rule": (ruv.Snooper("max", ruv.Maximum(), belief=BELIEF, loss=ruv.Absolute()), ruv.Noise(variance=1.0)),
    "wrong user": (
        ruv.User(BELIEF, ruv.Record(0), ruv.Absolute(), truth=AGENCY),
        ruv.Shuffle() | ruv.Noise(variance=1.0),
    ),
    "unknown mask": (ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows_mask=False), ruv.Noise(variance=1.0)),
    "function of a record": (
        ruv.User(BELIEF, ruv.Functional(np.exp, of=ruv.Record(0)), ruv.Absolute()),
        ruv.Noise(variance=1.0),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_error_of_replicates_is_the_spread_between_runs(name: str) -> None:
    """Over 40 runs the standard deviation of the mean is known to 1/sqrt(78) of itself; four of those are allowed."""
    user, mask = CASES[name]
    runs, replicates = 40, 6
    found = [
        ruv.evaluate([mask], intruder=user, scientist=user, replicates=replicates, seed=s, progress=False)
        for s in range(runs)
    ]
    means = np.array([m.to_dataframe()["intruder_uncertainty"][0] for m in found])
    stated = np.array([m.to_dataframe()["intruder_error"][0] for m in found])
    assert np.std(means, ddof=1) > 0
    ratio = np.sqrt(np.mean(stated**2)) / np.std(means, ddof=1)
    assert abs(ratio - 1) < 4 / np.sqrt(2 * (runs - 1))
