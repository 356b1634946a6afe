"""Every measure on every edge of the data: a number inside its range, or an error that says what to do."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from edges import EDGES, attempt, frame, tried
from measured import RELEASES, instances, names, noisy

from ruvdecision import measures
from ruvdecision.errors import RuvError
from ruvdecision.measures import Measured
from ruvdecision.measures.missing import OmittedWarning

DATA = list(EDGES)
#: Measures whose docstring says when they are infinite.
INFINITE = {"NormalKL", "LogLinearLoss", "VarianceInflation"}
#: Nothing is nearer to the original than itself, but these are no distances.
NO_DISTANCE = {"VarianceInflation"}


def call(measure: Any, data: Any, released: Any) -> Any:
    """The measure's number, its table made too; `ImputationLoss` takes several copies."""
    if type(measure).__name__ == "ImputationLoss":
        released = [released, noisy(data)] if released is not data else [data, data]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OmittedWarning)  # releases with blanks are part of the game
        value = measure(data, released)
    assert isinstance(value, Measured)
    assert value.table is None or len(value.table) > 0
    return value


@functools.cache
def cases(edge: str) -> tuple[Any, dict[str, Any]]:
    """An edge and its releases, made once; `attempt` sees to it that nobody changes them."""
    data = EDGES[edge]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making odd releases is not what is tested
        return data, {name: make(data) for name, make in RELEASES.items()}


def check(name: str, measure: Any, value: Any) -> None:
    """A number, inside the measure's range, with parts and an error that are numbers too."""
    low, high = measure.range
    assert not np.isnan(value) and low - 1e-9 <= value <= high + 1e-9, f"{value!r} outside [{low}, {high}]"
    assert np.isfinite(value) or name in INFINITE, "an infinity that is not documented"
    assert value.error >= 0
    unknown = [part for part, number in value.parts.items() if np.isnan(number)]
    assert not unknown, f"parts without a value: {unknown}"


def tries(name: str, edge: str, whole: bool) -> Iterator[tuple[Any, str]]:
    """Settings and releases to try; by turns, so that over all edges each meets each.

    ``whole`` has every setting on every edge.
    """
    turn, made, kinds = DATA.index(edge), instances(name, cases(edge)[0]), list(RELEASES)
    if whole:
        for i, make in enumerate(made):
            yield from ((make, kinds[k % len(kinds)]) for k in {0, turn + i, turn + 5 * i + 3})
        return
    yield made[turn % len(made)], kinds[(turn + turn // len(made)) % len(kinds)]


def walk(name: str, whole: bool) -> None:
    """Try the measure on every edge, and say which cases broke the rule."""
    broken = []
    for edge in DATA:
        data, released = cases(edge)
        for make, kind in tries(name, edge, whole):
            try:
                measure = make()
            except RuvError:  # it refuses these columns' names
                tried("measures")
                continue
            try:
                value = attempt(functools.partial(call, measure), data, released[kind], kind="measures")
                if not isinstance(value, RuvError):
                    check(name, measure, value)
            except Exception as error:  # every kind of failure is one; all are listed at the end
                broken.append(f"{measure!r} on {edge}, {kind}: {type(error).__name__}: {str(error)[:120]}")
    assert not broken, "\n".join(broken)


@pytest.mark.slow
@pytest.mark.campaign(6)
@pytest.mark.parametrize("name", names())
def test_every_edge_gives_a_number_or_says_what_to_do(name: str) -> None:
    walk(name, whole=False)


@pytest.mark.long
@pytest.mark.parametrize("name", names())
def test_every_setting_on_every_edge(name: str) -> None:
    walk(name, whole=True)


@pytest.mark.slow
@pytest.mark.campaign(6)
@pytest.mark.parametrize("name", [n for n in names() if n not in NO_DISTANCE])
def test_nothing_is_better_than_the_original(name: str) -> None:
    """Distances of a file from itself are zero and overlaps are whole, whatever the data look like."""
    broken, numbers = [], 0
    for turn, edge in enumerate(DATA):
        data = cases(edge)[0]
        made = instances(name, data)
        try:
            measure = made[turn % len(made)]()
        except RuvError:
            continue
        if measure.role == "risk" or getattr(measure, "statistic", "") == "z":
            continue
        value = attempt(functools.partial(call, measure), data, data, kind="measures")
        if isinstance(value, RuvError):
            continue
        numbers += 1
        best = -getattr(measure, "level", 0.0) if measure.direction == "higher" else 0.0
        sign = -1 if measure.direction == "higher" else 1
        room = 1e-9 + (4 * value.error if measure.direction == "higher" else 0.0)
        if sign * value > best + room:
            broken.append(f"{measure!r} on {edge}: {float(value)}")
    assert not broken, "\n".join(broken)
    assert numbers or getattr(instances(name, frame())[0](), "role", "") == "risk"


TINY = frame(columns=3) * [1.0, 1.0, 1e-310]


@pytest.mark.parametrize(
    "measure",
    [measures.SlicedWasserstein(), measures.EnergyDistance(), measures.Wasserstein(), measures.IL1s()],
    ids=lambda measure: measure.name,
)
def test_releases_beyond_all_bounds_in_the_units_of_the_original(measure: Any) -> None:
    found = attempt(measure, TINY, frame(columns=3), kind="measures")
    assert isinstance(found, RuvError)


@pytest.mark.parametrize("name", ["FellegiSunter", "GeneralUtility", "Marginals", "NormalKL"])
def test_weights_alone_are_nothing_to_compare(name: str) -> None:
    data = frame(columns=1).abs()
    found = attempt(getattr(measures, name)(weights="a"), data, data, kind="measures")
    assert isinstance(found, RuvError) and "besides the weights" in found.what


def test_a_weighted_column_of_blanks() -> None:
    data = frame(columns=2).abs().assign(c=np.nan)
    found = attempt(measures.GeneralUtility(weights="a"), data, data, kind="measures")
    assert found == attempt(measures.GeneralUtility(weights="a"), data[["a", "b"]], data[["a", "b"]], kind="measures")


def test_intervals_of_no_width_around_missing_values() -> None:
    data = frame(columns=1).mask(frame(columns=1) > 2.5)
    width = measures.IntervalDisclosure(width_rank=0, missing="pairwise")
    assert attempt(width, data, data, kind="measures") == data["a"].notna().mean()


def test_a_released_column_of_blanks_of_another_kind() -> None:
    original = frame(columns=2)
    released = original.assign(b=pd.Series(pd.NaT, index=original.index).astype("period[M]"))
    assert np.isfinite(attempt(measures.ClosestRecord(), original, released, kind="measures"))


def test_a_fraction_next_to_nothing() -> None:
    keys = pd.DataFrame({"a": [1, 1, 2, 3, 3]})
    assert attempt(measures.SpecialUniques(fraction=1e-320), keys, keys, kind="measures") == 1.0
