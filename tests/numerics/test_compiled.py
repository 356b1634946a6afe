"""Inner loops: small files are done in plain Python, with the same bits as the compiled ones, and without numba."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ruvdecision.masks.exchange import RankSwap
from ruvdecision.masks.microaggregate import Microaggregate
from ruvdecision.measures.risk.fellegi_sunter import FellegiSunter
from ruvdecision.measures.utility.cdf import MD
from ruvdecision.measures.utility.distance import EnergyDistance, sum_distances
from ruvdecision.measures.utility.propensity import TreePropensity
from ruvdecision.numerics import compiled as module

CASES: dict[str, Callable[[pd.DataFrame, pd.DataFrame], Any]] = {
    "Microaggregate": lambda x, y: Microaggregate(size=3).release(x).to_numpy().tolist(),
    "RankSwap": lambda x, y: RankSwap(0.2).release(x, 1).to_numpy().tolist(),
    "FellegiSunter": lambda x, y: (v := FellegiSunter()(x, y), v.parts),
    "MD of two": lambda x, y: MD(columns=["a", "b"])(x, y),
    "MD of three": lambda x, y: MD(columns=["a", "b", "c"])(x, y),
    "MD with weights": lambda x, y: MD(weights="c")(x.assign(c=x.c.abs() + 0.1), y.assign(c=y.c.abs() + 0.1)),
    "TreePropensity": lambda x, y: (v := TreePropensity()(x, y), v.parts),
    "TreePropensity of classes": lambda x, y: TreePropensity(kind="class", weights="c")(
        x.assign(b=x.b.round().astype(str), c=x.c.abs() + 0.1), y.assign(b=y.b.round().astype(str), c=y.c.abs() + 0.1)
    ),
    "TreePropensity with weights": lambda x, y: TreePropensity(weights="c")(
        x.assign(c=x.c.abs() + 0.1), y.assign(c=y.c.abs() + 0.1)
    ),
}
FILES = {
    "numbers": lambda rng: rng.normal(size=(70, 3)),
    "ties": lambda rng: rng.integers(0, 4, size=(70, 3)).astype(float),
    "rounded": lambda rng: rng.normal(size=(70, 3)).round(1),
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("case", CASES)
def test_plain_python_and_machine_code_give_the_same_bits(case: str, file: str, monkeypatch: Any) -> None:
    rng = np.random.default_rng(8)
    x, y = (pd.DataFrame(FILES[file](rng), columns=["a", "b", "c"]) for _ in range(2))
    found = []
    for steps in (np.inf, -1.0):
        monkeypatch.setattr(module, "PLAIN", steps)
        found.append(CASES[case](x, y))
    assert found[0] == found[1]


def test_few_pairs_have_the_distances_of_the_compiled_loop() -> None:
    rng = np.random.default_rng(2)
    x, y, a, b = rng.normal(size=(40, 3)), rng.normal(size=(30, 3)), rng.random(40), rng.random(30)
    a, b = a / a.sum(), b / b.sum()
    across, within, other = (
        sum_distances(np.ascontiguousarray(p.T), np.ascontiguousarray(q.T), u, v, p is q)
        for p, q, u, v in ((x, y, a, b), (x, x, a, a), (y, y, b, b))
    )
    files = [pd.DataFrame(z, columns=["a", "b", "c"]).assign(w=w) for z, w in ((x, a), (y, b))]
    assert EnergyDistance(weights="w", standardise=False)(*files) == pytest.approx(
        2 * across - within - other, rel=1e-12
    )


def test_small_files_do_not_wait_for_numba() -> None:
    code = """
import sys
import numpy as np, pandas as pd
from ruvdecision.masks import Microaggregate, RankSwap
from ruvdecision.measures import EnergyDistance, FellegiSunter, MD, TreePropensity
rng = np.random.default_rng(1)
x, y = (pd.DataFrame(rng.normal(size=(100, 3)), columns=list("abc")) for _ in range(2))
RankSwap(0.2).release(x, 1), Microaggregate(size=3).release(x)
EnergyDistance()(x, y), FellegiSunter()(x, y), MD()(x, y), TreePropensity()(x, y)
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"], done.stderr
