"""What every measure shares."""

from __future__ import annotations

import numpy as np
import pytest

from ruvdecision.errors import InputError
from ruvdecision.measures import (
    Cluster,
    RecordLinkage,
    SampleUniques,
)


@pytest.mark.parametrize(
    "make", [lambda: SampleUniques(share="no"), lambda: RecordLinkage(one_to_one=1), lambda: Cluster(standardise=None)]
)
def test_a_switch_is_true_or_false(make) -> None:
    with pytest.raises(InputError, match="must be True or False"):
        make()
    assert SampleUniques(share=np.bool_(True))([1, 2, 2], [1, 2, 2]) == pytest.approx(1 / 3)
