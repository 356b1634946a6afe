"""What must not matter to a measure: order, labels, types, memory, units; and what it must not touch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from edges import tried
from measured import instances, names

from ruvdecision.errors import RuvError
from ruvdecision.measures import Linear, Measured

ROWS = 24
TURN = np.random.default_rng(3).permutation(ROWS)


def numbers() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers that float32 holds exactly, and a masked copy of them."""
    rng = np.random.default_rng(11)
    original = pd.DataFrame(
        (rng.standard_normal((ROWS, 3)) @ (np.eye(3) + 0.4) + 3).astype(np.float32).astype(float), columns=list("abc")
    )
    released = original + 0.3 * rng.standard_normal((ROWS, 3))
    return original, released.astype(np.float32).astype(float)


def groups() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Text in a few categories, and a copy with some of it exchanged."""
    rng = np.random.default_rng(12)
    original = pd.DataFrame({c: rng.choice(list("xyz"), ROWS) for c in "abc"})
    return original, original.assign(a=np.where(rng.random(ROWS) < 0.3, rng.choice(list("xyz"), ROWS), original["a"]))


def mixed() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Few numbers and categories, so that many records and distances are equal, with blanks; some rows exchanged."""
    rng = np.random.default_rng(5)
    original = pd.DataFrame(
        {
            "a": rng.integers(0, 4, ROWS).astype(float),
            "b": rng.choice(list("uvw"), ROWS),
            "c": rng.choice([1.5, 2], ROWS),
        }
    ).mask(rng.random((ROWS, 3)) < 0.1)
    other = original.sample(frac=1, random_state=1).reset_index(drop=True)
    return original, original.where(rng.random(original.shape) < 0.7, other)


Pair = tuple[pd.DataFrame, pd.DataFrame]
Change = Callable[[pd.DataFrame, pd.DataFrame], Pair]


def labelled(a: pd.DataFrame, b: pd.DataFrame) -> Pair:
    """Other row labels in both files, and the release's columns in another order."""
    rows = [f"r{i}" for i in range(ROWS)]
    return a.set_axis(rows, axis=0), b.set_axis(np.arange(100, 100 + ROWS), axis=0)[["c", "a", "b"]]


#: Changes that tell a measure nothing new, by name, several at once; the numbers say how near the value must stay.
ROWS_TURNED: Change = lambda a, b: (a.iloc[TURN], b.iloc[TURN])  # noqa: E731
NUMBERS: dict[str, tuple[Change, float]] = {
    "labels": (labelled, 0.0),
    "float32, labels": (lambda a, b: labelled(a.astype("float32"), b.astype("float32")), 1e-12),
    "nullable against long double": (lambda a, b: (a.astype("Float64"), b.astype(np.longdouble)), 1e-12),
    "memory, float64 against float32": (
        lambda a, b: (pd.DataFrame(np.asfortranarray(a.to_numpy()), columns=a.columns), b.astype("float32")),
        1e-9,
    ),
}
GROUPS: dict[str, tuple[Change, float]] = {
    "categories, labels": (lambda a, b: labelled(a.astype("category"), b.astype("category")), 1e-12),
    "text against categories": (lambda a, b: (a, b.astype("category")), 1e-12),
    "text type, labels": (lambda a, b: labelled(a.astype("string"), b.astype("string")), 1e-12),
}


def scaled(*powers: int) -> Change:
    """Other units, each a power of two."""
    return lambda a, b: tuple(f * np.ldexp(1.0, np.array(powers)) for f in (a, b))  # type: ignore[return-value]


UNITS: dict[str, Change] = {
    "large units": scaled(300, 300, 300),
    "small units": scaled(-300, -300, -300),
    "very different units": scaled(-90, 0, 90),
}


def is_random(measure: Any) -> bool:
    """Whether random numbers meet the records in their order, as a simulation of the caller's does."""
    if any(getattr(measure, key, None) is not None for key in ("error_sd", "error_rate")):
        return True
    sampled = callable(getattr(measure, "statistic", None)) or hasattr(getattr(measure, "model", None), "draws")
    return sampled or getattr(measure, "method", "") == "draws" or getattr(measure, "robust", False)


def has_units(measure: Any) -> bool:
    """Whether the measure speaks in the columns' own units, or says that it clusters in them."""
    model = getattr(measure, "model", None)
    if any(getattr(measure, key, None) is not None for key in ("weights", "holdout", "population")):
        return True  # sampling weights, or another file in the units of the first
    if getattr(measure, "standardise", True) is False or getattr(measure, "error_sd", None) is not None:
        return True
    if hasattr(model, "draws") or "log" in str(model):
        return True
    return isinstance(model, Linear) and model.kind == "Poisson"


def measured(measure: Any, pair: Pair) -> Measured | None:
    """What the measure says, or None where it refuses such data."""
    tried("invariances")
    original, released = pair
    try:
        return Measured.of(
            measure(original, [released, original] if type(measure).__name__ == "ImputationLoss" else released)
        )
    except RuvError:
        return None


def value(measure: Any, pair: Pair) -> float | None:
    """The number alone."""
    found = measured(measure, pair)
    return None if found is None else float(found)


@functools.cache
def as_python_value(name: str, place: int, make: Callable[[], Pair]) -> float | None:
    """The number of the files as they are, which all tests compare with."""
    return value(instances(name, make()[0])[place](), make())


def compare(
    name: str, make: Callable[[], Pair], changes: dict[str, tuple[Change, float]], skip: Callable[[Any], bool]
) -> None:
    broken = []
    for place, one in enumerate(instances(name, make()[0])):
        try:
            measure = one()
        except RuvError:
            continue
        plain = None if skip(measure) else as_python_value(name, place, make)
        if plain is None:
            continue
        for what, (change, room) in changes.items():
            other = value(measure, change(*make()))
            if other is None or not (other == plain or abs(other - plain) <= room * max(1.0, abs(plain))):
                broken.append(f"{measure!r}, {what}: {plain} but {other}")
    assert not broken, "\n".join(broken)


@pytest.mark.slow
@pytest.mark.campaign(6)
@pytest.mark.newest
@pytest.mark.parametrize("name", names())
def test_labels_types_and_memory_do_not_matter(name: str) -> None:
    compare(name, numbers, NUMBERS, lambda m: False)
    compare(name, groups, GROUPS, lambda m: False)


@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize("name", names())
def test_the_order_of_records_and_columns_does_not_matter(name: str) -> None:
    changes: dict[str, Change] = {
        "rows in another order": ROWS_TURNED,
        "columns in another order": lambda a, b: (a[["c", "b", "a"]], b[["c", "b", "a"]]),
    }
    broken = []
    for make in (numbers, groups, mixed):
        for one in instances(name, make()[0]):
            try:
                measure = one()
            except RuvError:
                continue
            plain = None if is_random(measure) else measured(measure, make())
            for what, change in changes.items() if plain is not None else ():
                other = measured(measure, change(*make()))
                if other is None:
                    broken.append(f"{measure!r}, {what}: {plain} but refused")
                    continue
                first, second = ({"value": v, "error": v.error} | v.parts for v in (plain, other))
                broken += [  # tables of columns are named in their order
                    f"{measure!r}, {what}: {part} is {first[part]} but {second[part]}"
                    for part in first.keys() & second.keys()
                    if second[part] != pytest.approx(first[part], rel=1e-7, abs=1e-7, nan_ok=True)
                ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("name", names())
def test_units_do_not_matter(name: str) -> None:
    compare(name, numbers, {k: (v, 1e-9) for k, v in UNITS.items()}, has_units)


@pytest.mark.parametrize("name", names())
def test_a_measure_repeats_itself_and_leaves_the_global_random_numbers_alone(name: str) -> None:
    for make in (numbers, groups):
        for place, one in enumerate(instances(name, make()[0])):
            before = np.random.get_state()  # noqa: NPY002 - the global state is what must not change
            first, second = as_python_value(name, place, make), value(one(), make())
            after = np.random.get_state()  # noqa: NPY002
            assert first == second
            assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


SYMMETRIC = [
    "MD",
    "MCM",
    "Hellinger",
    "TotalVariation",
    "IntervalOverlap",
    "EllipsoidOverlap",
    "Marginals",
    "Pairwise",
    "Propensity",
    "TreePropensity",
]


@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_files_may_change_places(name: str) -> None:
    """The mean of both directions, and distances, do not care which file is called the release."""
    broken = []
    for make in (numbers, groups):
        original, released = make()
        for one in instances(name, original):
            measure = one()
            drawn = getattr(measure, "null", "") in ("synthetic", "permutation")
            if drawn or is_random(measure) or getattr(measure, "penalty", 0.0):
                continue
            there, back = value(measure, (original, released)), value(measure, (released, original))
            if there is None or back is None:
                continue
            if abs(there - back) > 1e-9 * max(1.0, abs(there)):
                broken.append(f"{measure!r}: {there} but {back}")
    assert not broken, "\n".join(broken)
