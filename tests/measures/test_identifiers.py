"""A column that tells records apart and is released as it is draws a warning, however the rows are arranged."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ruvdecision as ruv
from ruvdecision.measures.identifiers import Identifiers

N = 200
RNG = np.random.default_rng(1)
NAMES = [f"person {i}" for i in range(N)]
FILE = pd.DataFrame(
    {
        "number": RNG.permutation(np.arange(5000, 5000 + N)),
        "name": pd.Series(NAMES, dtype=object),
        "region": RNG.choice(list("abcd"), N),
        "age": RNG.integers(18, 90, N),
        "income": RNG.lognormal(size=N),
    }
)
ARRANGED = {
    "as it is": FILE,
    "in another order": FILE.sample(frac=1, random_state=1),
    "labels dropped": FILE.sample(frac=1, random_state=1).reset_index(drop=True),
    "drawn with repetition": FILE.sample(frac=1, replace=True, random_state=1).reset_index(drop=True),
    "longer": FILE.sample(500, replace=True, random_state=1).reset_index(drop=True),
    "some left out": FILE.iloc[::3],
    "one column masked": FILE.sample(frac=1, random_state=1).assign(income=1.0),
}


@pytest.mark.parametrize("arranged", ARRANGED)
def test_identifiers_are_found_in_any_order(arranged: str) -> None:
    assert set(Identifiers(FILE)(ARRANGED[arranged]).parts) == {"number", "name"}


def test_a_number_that_stands_with_other_records_identifies_nobody() -> None:
    moved = FILE.assign(number=RNG.permutation(FILE["number"]))
    swapped = ruv.RankSwap(within=0.5, columns=["number"]).release(FILE, 1)
    new = FILE.sample(300, replace=True, random_state=2).assign(number=np.arange(5000, 5300), name="")
    for release in (moved, swapped, moved.sample(frac=1, random_state=3)):
        assert set(Identifiers(FILE)(release).parts) == {"name"}
    assert not Identifiers(FILE)(new).parts
    assert not Identifiers(FILE)(FILE.assign(name="x", number=0)).parts
    assert not Identifiers(FILE)(FILE.head(0)).parts


def test_names_that_are_shuffled_among_the_records_are_released_all_the_same() -> None:
    apart = FILE.assign(name=RNG.permutation(NAMES), number=0)
    notes = ruv.measure(FILE, releases={"r": apart}).notes
    assert any("name is different for every record and unchanged in every release" in note for note in notes)
