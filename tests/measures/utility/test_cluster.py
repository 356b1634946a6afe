"""Clusters in units of standard deviations."""

from __future__ import annotations

import pytest
from measured import AWKWARD, two_columns

from ruvdecision.measures import (
    Cluster,
    ClusteredPropensity,
)


@pytest.mark.parametrize("value", AWKWARD)
def test_standardised_clusters_leave_a_constant_column_alone(value: float) -> None:
    original = two_columns().assign(c=value)
    released = two_columns(1).assign(c=value)
    for measure in (Cluster(clusters=4, standardise=True), ClusteredPropensity(clusters=4, standardise=True)):
        assert measure(original, released) == pytest.approx(
            float(measure(original.assign(c=0.0), released.assign(c=0.0))), abs=1e-9
        )
