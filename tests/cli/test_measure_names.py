"""Measures spelled on the command line."""

from __future__ import annotations

import pytest

from ruvdecision.cli.measure_names import spell_measures
from ruvdecision.errors import InputError
from ruvdecision.measures import (
    LDiversity,
    SampleUniques,
)


def test_spelled_measures_take_arguments_in_the_order_of_the_call() -> None:
    made = spell_measures(["l_diversity(['age'], 'ill', kind='entropy')", "SampleUniques(share=True)"], known=["age"])
    assert made == [LDiversity(["age"], "ill", kind="entropy"), SampleUniques(keys=["age"], share=True)]
    with pytest.raises(InputError, match="target must name one column"):
        spell_measures(["l_diversity"])
    with pytest.raises(InputError, match="No measure has a use for --known"):
        spell_measures(["KL"], known=["age"])
    with pytest.raises(InputError, match="No measure has a use for --model"):
        spell_measures(["linkage"], models=["y ~ a"])
    with pytest.raises(InputError, match="No measure has a use for --columns"):
        spell_measures(["linkage"], columns=["a"])
