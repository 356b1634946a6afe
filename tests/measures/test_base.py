"""What every measure shares."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ruvdecision import Noise, measure
from ruvdecision.errors import InputError
from ruvdecision.measures import Cluster, NormalKL, RecordLinkage, SampleUniques
from ruvdecision.measures.base import Measure


@pytest.mark.parametrize(
    "make", [lambda: SampleUniques(share="no"), lambda: RecordLinkage(one_to_one=1), lambda: Cluster(standardise=None)]
)
def test_a_switch_is_true_or_false(make) -> None:
    with pytest.raises(InputError, match="must be True or False"):
        make()
    assert SampleUniques(share=np.bool_(True))([1, 2, 2], [1, 2, 2]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("given", [None, "text", 1j, [1.0, 2.0], np.array([1.0, 2.0]), pd.NaT, {}])
def test_a_measure_of_ones_own_that_gives_no_number_is_refused_by_name(given: Any) -> None:
    @dataclass(frozen=True, repr=False)
    class Own(Measure):
        def compare(self, state: Any, released: Any) -> Any:
            return given

    with pytest.raises(InputError, match="A measure must give one real number"):
        Own()([1.0, 2.0], [1.0, 3.0])
    with pytest.raises(InputError, match="A measure must give one real number"):
        measure(np.arange(9.0), masks=[Noise(variance=1)], measures=[Own(), NormalKL()], seed=1, progress=False)


@pytest.mark.parametrize("given", [2, np.float32(2), Decimal(2), Fraction(2), np.array(2.0), np.int8(2)])
def test_a_measure_of_ones_own_may_give_any_kind_of_number(given: Any) -> None:
    @dataclass(frozen=True, repr=False)
    class Own(Measure):
        def compare(self, state: Any, released: Any) -> Any:
            return given

    assert Own()([1.0, 2.0], [1.0, 3.0]) == 2.0
