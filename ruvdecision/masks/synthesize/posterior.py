"""Synthetic records from a user's belief: parameters from their posterior given the data, then new records."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InputError, UnsupportedError
from ...numerics.semidefinite import symmetric_root
from ...protocols import Array
from ..frame import Frame


def draw_belief(belief: Any, frame: Frame, positions: list[int], rng: np.random.Generator) -> Any:
    """Draw a data set from the posterior predictive law of a belief, one row per record and one column per variable.

    A belief that offers ``predictive(data, rng)`` is asked for it. ``data`` are the chosen columns of the
    confidential file: a DataFrame, or an array if an array is being masked. It gives back as many rows and columns.
    """
    n, k = frame.n, len(positions)
    predictive = getattr(belief, "predictive", None)
    if callable(predictive):
        part = frame.table.iloc[:, positions]
        seen = (
            part
            if frame.kind == "frame"
            else part.to_numpy()[:, 0]
            if frame.kind in ("series", "vector")
            else part.to_numpy()
        )
        drawn = predictive(seen, rng)
    elif all(hasattr(belief, name) for name in ("spread", "centre", "doubt")):
        values, _ = frame.numeric("Synthesize(belief=...)", [frame.columns[i] for i in positions])
        drawn = normal_predictive(belief, values, rng)
    else:
        raise UnsupportedError(
            f"{type(belief).__name__} offers no posterior predictive law",
            do="Give it a method predictive(data, rng), or use a NormalBelief",
        )
    shape = np.shape(drawn)
    if shape not in ((n, k), (n,) if k == 1 else (n, k)):
        raise InputError(
            f"The belief must draw {n} records of {k} columns",
            f"shape {shape}",
            "Give back as many rows and columns as predictive(data, rng) received",
        )
    return drawn


def normal_predictive(belief: Any, data: Array, rng: np.random.Generator) -> Array:
    """Draw ``mu`` from its posterior given the data, then records around it, under a `NormalBelief`.

    mu | x ~ N(m, V) with V = D - D (D + S/n)^-1 D and m = c + D (D + S/n)^-1 (mean - c), where S is the spread of a
    record, c and D the prior mean and covariance; a flat prior has m = mean and V = S/n.
    """
    n, k = data.shape
    if belief.record_covariance.shape != (k, k):
        raise InputError(
            f"The belief has {len(belief.record_covariance)} variables",
            f"{k} columns",
            "Name the belief's columns with columns=[...]",
        )
    if belief.records != n:
        raise InputError(
            f"The belief is about {belief.records} records",
            f"{n} records",
            "Make a belief with as many records as the data",
        )
    mean = data.mean(axis=0)
    if belief.mu_covariance is None:
        centre, doubt = mean, belief.record_covariance / n
    else:
        gain = np.linalg.solve(belief.mu_covariance + belief.record_covariance / n, belief.mu_covariance).T
        centre = belief.mu_mean + gain @ (mean - belief.mu_mean)
        doubt = belief.mu_covariance - gain @ belief.mu_covariance
    mu = centre + rng.standard_normal(k) @ symmetric_root((doubt + doubt.T) / 2)
    return np.asarray(mu + rng.standard_normal((n, k)) @ symmetric_root(belief.record_covariance))
