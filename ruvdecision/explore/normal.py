"""The first lesson: Trottini and Fienberg (2002), example 1, with everything in it free to move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..beliefs.normal import NormalBelief
from ..errors import InputError
from ..evaluate import evaluate
from ..losses import CRPS, Absolute, Huber, Linex, Pinball, Quadratic, ZeroOne
from ..masks.microaggregate import Microaggregate
from ..masks.noise import Noise
from ..masks.rows import Shuffle, Suppress
from ..targets import Parameter, Record
from ..users.user import User
from .controls import Pick, Slider, counts, even, rising
from .examplefile import panels_of
from .lesson import Built, Lesson

#: The losses by name: what they are, and how code writes them.
LOSSES: dict[str, tuple[Any, str, str]] = {
    "squared": (Quadratic(), "the squared error", "ruv.Quadratic()"),
    "absolute": (Absolute(), "the absolute error", "ruv.Absolute()"),
    "within": (ZeroOne(tolerance=0.5), "1 if more than 0.5 away", "ruv.ZeroOne(tolerance=0.5)"),
    "huber": (Huber(1.0), "Huber's loss, 1", "ruv.Huber(1.0)"),
    "linex": (Linex(0.5), "Linex, too low costs more", "ruv.Linex(0.5)"),
    "pinball": (Pinball(0.9), "the pinball loss, 0.9", "ruv.Pinball(0.9)"),
    "crps": (CRPS(), "the CRPS of a forecast", "ruv.CRPS()"),
}
OPTIONS = {name: words for name, (_, words, _) in LOSSES.items()}
#: Noise variances: the paper's 2.08 is one of them, and a long tail leads to suppression.
GRID = np.concatenate([np.arange(1, 251) * 2 / 25, np.round(np.geomspace(21, 2000, 40))])


def build(values: Mapping[str, Any]) -> Built:
    """Map suppression, averages, noise and both together.

    >>> built = build({c.name: c.default for c in LESSON.controls})
    >>> print(built.rumap.choose(max_risk=0.5).release)
    Noise(variance=2.08) | Microaggregate(groups=1)
    """
    n, groups, known = values["n"], values["groups"], values["row"] == "known"
    if groups > n:
        raise InputError(
            f"There cannot be more groups than records, and there are {n}", groups, "Move one of the two sliders"
        )
    if not known and values["intruder_loss"] != "squared":
        do = "Let the intruder pay the squared error, or know the row"
        raise InputError(
            "With an unknown row the intruder's uncertainty has a closed form for the squared error only",
            OPTIONS[values["intruder_loss"]],
            do,
        )
    belief = NormalBelief(records=n, variance=values["variance"], prior_mean=0, prior_variance=values["prior_variance"])
    intruder = User(belief, Record(0), LOSSES[values["intruder_loss"]][0], name="The intruder")
    scientist = User(belief, Parameter("mu"), LOSSES[values["scientist_loss"]][0], name="The scientist")
    average = Microaggregate(groups=groups)
    grid = np.union1d(GRID, [values["noise"]]).tolist()
    masks = [average, *(Noise(variance=v) | average for v in grid), *(Noise(variance=v) for v in grid)]
    if not known:
        masks = [Shuffle() | mask for mask in masks]
    rumap = evaluate([Suppress(), *masks], intruder=intruder, scientist=scientist, progress=False)
    # After suppression and the plain average. By position: equal texts of different numbers would mislead.
    return Built(rumap, panels_of(intruder, scientist), own=2 + grid.index(values["noise"]))


def write(values: Mapping[str, Any]) -> str:
    """Code that makes the same map."""
    shuffle = (
        "" if values["row"] == "known" else "masks = [ruv.Shuffle() | mask for mask in masks]  # the row is not known\n"
    )
    return f"""import numpy as np
import ruvdecision as ruv

n, variance, prior_variance = {values["n"]!r}, {values["variance"]!r}, {values["prior_variance"]!r}
belief = ruv.NormalBelief(records=n, variance=variance, prior_mean=0, prior_variance=prior_variance)
intruder = ruv.User(belief, ruv.Record(0), {LOSSES[values["intruder_loss"]][2]}, name="The intruder")
scientist = ruv.User(belief, ruv.Parameter("mu"), {LOSSES[values["scientist_loss"]][2]}, name="The scientist")
average = ruv.Microaggregate(groups={values["groups"]!r})
grid = np.concatenate([np.arange(1, 251) * 2 / 25, np.round(np.geomspace(21, 2000, 40))])
grid = np.union1d(grid, [{values["noise"]!r}]).tolist()
masks = [average, *(ruv.Noise(variance=v) | average for v in grid), *(ruv.Noise(variance=v) for v in grid)]
{shuffle}rumap = ruv.evaluate([ruv.Suppress(), *masks], intruder=intruder, scientist=scientist)
"""


LESSON = Lesson(
    name="normal",
    title="Two users and a normal variable",
    about="Trottini and Fienberg (2002), example 1. The agency may suppress everything, average the records in groups, "
    "add noise, or add noise and average. The intruder wants record 0, the scientist the population mean.",
    controls=(
        Slider("n", "Records n", counts(1, 1000), 10, whole=True),
        Slider("variance", "Variance σ² of a record", rising(0.1, 20, 60), 2.0),
        Slider(
            "prior_variance",
            "Prior variance φ² of the mean",
            rising(0.1, 100, 60),
            5.0,
            hint="What both users do not know beforehand.",
        ),
        Slider(
            "noise",
            "Noise variance",
            GRID.tolist(),
            2.08,
            hint="Your own candidate: this noise, then the average.",
            looks=True,
        ),
        Slider("groups", "Groups", range(1, 21), 1, whole=True),
        Pick("row", "The target's row", {"known": "known to the intruder", "unknown": "not known"}),
        Pick("intruder_loss", "The intruder pays", OPTIONS),
        Pick("scientist_loss", "The scientist pays", OPTIONS),
    ),
    threshold=Slider("max_risk", "Largest tolerable risk", even(0.01, 4, 0.01), 0.5),
    build=build,
    write=write,
)
