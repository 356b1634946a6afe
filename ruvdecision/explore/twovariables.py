"""The third lesson: Trottini and Fienberg (2002), example 2. Which of two variables should get the noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..beliefs.normal import NormalBelief
from ..evaluate import evaluate
from ..losses import Quadratic
from ..masks.microaggregate import Microaggregate
from ..masks.noise import Noise
from ..masks.rows import Suppress
from ..targets import Parameter, Record
from ..users.user import User
from .controls import Pick, Slider, counts, even, rising
from .examplefile import panels_of
from .lesson import Built, Lesson

VARIANCES = (1.0, 1.5)
"""Of the two variables, as in the paper; the page moves their correlation."""
NAMES = ("variable 1", "variable 2")
PRIOR_COVARIANCE = ((5.0, 0.5), (0.5, 4.0))
GRID = np.unique([float(f"{v:.1e}") for v in np.geomspace(0.05, 2500, 150)])
STRETCH = rising(0.1, 20, 60)


def build(values: Mapping[str, Any]) -> Built:
    """Map noise on the first variable only and on the second only, then the average.

    >>> built = build({c.name: c.default for c in LESSON.controls})
    >>> print(built.rumap.choose(max_risk=0.12).technique)
    Noise | Microaggregate
    """
    shared = values["correlation"] * float(np.sqrt(np.prod(VARIANCES)))
    covariance = [[VARIANCES[0], shared], [shared, VARIANCES[1]]]
    belief = NormalBelief(
        records=values["n"], covariance=covariance, prior_mean=[0, 0], prior_covariance=PRIOR_COVARIANCE, columns=NAMES
    )
    w, z = (((values[f"{who}_1"], 0.0), (0.0, values[f"{who}_2"])) for who in ("intruder", "scientist"))
    intruder = User(belief, Record(0), Quadratic(weights=w), name="The intruder")
    scientist = User(belief, Parameter("mu"), Quadratic(weights=z), name="The scientist")
    average = Microaggregate(groups=1)
    grid = np.union1d(GRID, [values["noise"]]).tolist()
    masks = [Suppress(), average, *(Noise(variance=v, columns=[name]) | average for name in NAMES for v in grid)]
    rumap = evaluate(masks, intruder=intruder, scientist=scientist, progress=False)
    own = 2 + (int(values["column"]) - 1) * len(grid) + grid.index(values["noise"])
    return Built(rumap, panels_of(intruder, scientist), own=own)


def write(values: Mapping[str, Any]) -> str:
    """Code that makes the same map."""
    return f"""import numpy as np
import ruvdecision as ruv

shared = {values["correlation"]!r} * float(np.sqrt({VARIANCES[0]!r} * {VARIANCES[1]!r}))
covariance = [[{VARIANCES[0]!r}, shared], [shared, {VARIANCES[1]!r}]]
prior, names = {{"prior_mean": [0, 0], "prior_covariance": {PRIOR_COVARIANCE!r}}}, {list(NAMES)!r}
belief = ruv.NormalBelief(records={values["n"]!r}, covariance=covariance, columns=names, **prior)
weights = np.diag([{values["intruder_1"]!r}, {values["intruder_2"]!r}])
intruder = ruv.User(belief, ruv.Record(0), ruv.Quadratic(weights=weights), name="The intruder")
weights = np.diag([{values["scientist_1"]!r}, {values["scientist_2"]!r}])
scientist = ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic(weights=weights), name="The scientist")
average = ruv.Microaggregate(groups=1)
grid = np.unique([float(f"{{v:.1e}}") for v in np.geomspace(0.05, 2500, 150)])
grid = np.union1d(grid, [{values["noise"]!r}]).tolist()
masks = [ruv.Suppress(), average, *(ruv.Noise(variance=v, columns=[name]) | average for name in names for v in grid)]
rumap = ruv.evaluate(masks, intruder=intruder, scientist=scientist)
"""


LESSON = Lesson(
    name="weights",
    title="Two variables and their weights",
    about="Trottini and Fienberg (2002), example 2. The records have two variables, with variances 1 and 1.5; one of "
    "them gets noise before all records are averaged. Which one should it be? That depends on how much each user minds "
    "errors in each variable.",
    controls=(
        Slider("n", "Records n", counts(2, 1000), 20, whole=True),
        Slider("correlation", "Correlation of the variables", even(-0.95, 0.95, 0.05), 0.15),
        Slider("intruder_1", "Intruder's weight on variable 1", STRETCH, 1.0),
        Slider("intruder_2", "Intruder's weight on variable 2", STRETCH, 3.0),
        Slider("scientist_1", "Scientist's weight on variable 1", STRETCH, 6.0),
        Slider("scientist_2", "Scientist's weight on variable 2", STRETCH, 0.5),
        Slider(
            "noise",
            "Noise variance",
            GRID.tolist(),
            5.0,
            hint="Your own candidate: this noise, then the average.",
            looks=True,
        ),
        Pick("column", "Noise on", {"1": "variable 1", "2": "variable 2"}),
    ),
    threshold=Slider("max_risk", "Largest tolerable risk", even(0.005, 1, 0.005), 0.12),
    build=build,
    write=write,
)
