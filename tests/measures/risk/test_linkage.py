"""Linkage by nearest neighbour: units and far records."""

from __future__ import annotations

import numpy as np
import pytest
from measured import two_columns

from ruvdecision.measures import (
    RecordLinkage,
)


@pytest.mark.parametrize("distance", ["standardised", "mahalanobis"])
def test_linkage_does_not_depend_on_the_unit(distance: str) -> None:
    original, released = two_columns(), two_columns() + 0.3 * two_columns(1)
    measure = RecordLinkage(distance=distance)
    assert 0 < measure(original, released) < 1
    for unit in (2.0**-700, 2.0**400):
        assert measure(original * unit, released * unit) == measure(original, released)


@pytest.mark.parametrize("link", ["released to original", "original to released"])
def test_one_far_record_makes_no_ties_of_the_others(link: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = x + rng.normal(0, 0.003, 300)
    far = y.copy()
    far[0] = 1e11
    measure = RecordLinkage(link=link)
    before, after = measure.per_record(x, y), measure.per_record(x, far)
    assert 0.5 < before.mean() < 0.9
    changed = np.flatnonzero(before != after)
    # Only the record itself, and those that were linked to it or had it as a rival, may change.
    assert len(changed) <= 3 and after.mean() == pytest.approx(before.mean(), abs=0.01)
    brute = (np.abs(x[:, None] - far) if link == "original to released" else np.abs(far[:, None] - x)).argmin(axis=1)
    # From so far away all originals are equally near, so the record itself is left out.
    assert after[1:].tolist() == (brute == np.arange(300)).astype(float)[1:].tolist()
    # The other kernel, which finds all neighbours, agrees.
    found = measure.links(x, far)
    assert found["linked"][found["row"] > 0].tolist() == brute[1:].tolist()
