"""The front door at the edge: maps say what the measures say, in pieces as in one, or an error says what to do."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest
from edges import EDGES, attempt, tried
from measured import RELEASES, instances

import ruvdecision as ruv
from ruvdecision.errors import RuvError

#: Measures that files in pieces can give, and one of each kind that they cannot.
SUMMED = [
    "NormalKL",
    "IL1s",
    "Mahalanobis",
    "Eigenvalues",
    "Hellinger",
    "EntropyChange",
    "CramersV",
    "KAnonymity",
    "LDiversity",
]
SUMMED += ["SampleUniques", "VarianceInflation", "IntervalOverlap", "CoefficientChanges"]
WHOLE = ["MD", "RecordLinkage", "KAnonymity", "Marginals"]


@functools.cache
def files(edge: str) -> tuple[Any, dict[str, Any]]:
    """An edge and some releases of it."""
    data = EDGES[edge]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making odd releases is not what is tested
        return data, {kind: RELEASES[kind](data) for kind in ("the same", "noisy", "fewer rows")}


def mapped_by(measure: Any, chunksize: int | None, data: Any, released: Any) -> Any:
    """A map of one release by one measure."""
    return ruv.measure(data, releases={"x": released}, measures=[measure], parts=True, chunksize=chunksize)


def close(one: float, other: float, edge: str) -> bool:
    """Equal to rounding; at a value of zero what counts is the size of what was compared.

    Numbers of one about a billion have nine digits less.
    """
    return one == other or abs(one - other) <= (1e-7 if edge == "far from zero" else 1e-9) * max(abs(one), 1.0)


@pytest.mark.slow
@pytest.mark.campaign(2)
@pytest.mark.parametrize("name", WHOLE)
def test_a_map_says_what_the_measure_says(name: str) -> None:
    broken = []
    for edge in EDGES:
        data, released = files(edge)
        measure = instances(name, data)[0]()
        for kind in ("noisy", "fewer rows"):
            plain = attempt(measure, data, released[kind], kind="maps")
            mapped = attempt(
                lambda a, b, m=measure: ruv.measure(a, releases={"x": b}, measures=[m], parts=True),
                data,
                released[kind],
                kind="maps",
            )
            if isinstance(plain, RuvError) != isinstance(mapped, RuvError) and not isinstance(data, list | str | None):
                broken.append(f"{edge}, {kind}: {plain!r} but {mapped!r}")
            elif (
                not isinstance(mapped, RuvError)
                and not isinstance(plain, RuvError)
                and mapped.columns[measure.name][0] != float(plain)
            ):
                broken.append(f"{edge}, {kind}: {float(plain)} but {mapped.columns[measure.name][0]}")
    assert not broken, "\n".join(broken)


@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize("mask", [ruv.Noise(sd=0.1), ruv.Resample(times=2), ruv.Suppress(), ruv.Round(base=1)], ids=str)
def test_masks_at_the_edge(mask: Any) -> None:
    """Masks applied by the front door.

    Their numbers are those of releases made by hand with the same seeds, or an error.
    """
    for edge in EDGES:
        data = files(edge)[0]
        found = attempt(
            lambda d: ruv.measure(
                d, [mask], measures=[ruv.measures.MD(), ruv.measures.RecordLinkage()], replicates=2, seed=3
            ),
            data,
            kind="maps",
        )
        if not isinstance(found, RuvError):
            for name in ("MD", "linkage"):
                assert 0 <= found.columns[name][0] <= 1 and found.columns[f"{name}_error"][0] >= 0


@pytest.mark.slow
@pytest.mark.campaign(6)
@pytest.mark.parametrize("name", SUMMED)
def test_pieces_say_what_the_whole_says(name: str) -> None:
    """Errors in both, or the same number, for pieces of one, five and more records than there are."""
    broken = []
    for turn, edge in enumerate(EDGES):
        data, released = files(edge)
        if not hasattr(data, "columns") and not isinstance(data, np.ndarray):
            continue
        try:
            measure = instances(name, data)[0]()
        except RuvError:
            continue
        size, kind = (1, 5, 100)[turn % 3], ("noisy", "the same")[turn % 2]
        whole, pieces = (
            attempt(functools.partial(mapped_by, measure, c), data, released[kind], kind="maps") for c in (None, size)
        )
        if isinstance(whole, RuvError) or isinstance(pieces, RuvError):
            # Sums of squares at the ends of what a float can hold may be refused where whole files need not be, and so
            # are missing values that need whole files (filled in, pairwise, wildcards).
            asked = isinstance(pieces, RuvError) and any(w in str(pieces) for w in ("missing", "whole files"))
            if (
                isinstance(whole, RuvError) != isinstance(pieces, RuvError)
                and not edge.endswith(" scale")
                and not asked
            ):
                broken.append(f"{edge} by {size}: {whole!r} but {pieces!r}")
        elif not close(float(whole.columns[measure.name][0]), float(pieces.columns[measure.name][0]), edge):
            broken.append(f"{edge} by {size}: {whole.columns[measure.name][0]} but {pieces.columns[measure.name][0]}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("ratio", [1e-28, 1e-14, 1e-7, 0.3, 0.999, 1.0, 1.001, 3.0, 1e7, 1e14, 1e28])
def test_divergence_of_very_different_variances(ratio: float) -> None:
    """The closed form of two centred normal laws, whose variances may differ by any factor."""
    tried("measures")
    sd = np.sqrt(ratio)
    excess = ratio - 1
    exact = 0.5 * (excess - (np.log1p(excess) if abs(excess) < 0.5 else np.log(ratio)))
    released = np.array([-1.0, 1.0] * 5)
    assert float(ruv.measures.NormalKL()(sd * released, released)) == pytest.approx(exact, rel=1e-9, abs=1e-15)
