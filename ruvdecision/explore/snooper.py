"""The second lesson: Duncan, Keller-McNulty and Stokes (2001), additive noise against snoopers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from ..beliefs.normal import NormalBelief
from ..losses import Quadratic
from ..maps.show import number
from ..masks.rows import Shuffle
from ..posteriors import Gaussian
from ..scenarios import Curve, additive_noise
from ..scenarios.bayes import belief as belief_of, snooper
from ..targets import Parameter
from ..users.user import User
from .controls import Pick, Slider, counts, even, rising
from .examplefile import FLAT, draw_example, panel_of
from .lesson import BeliefPanel, Built, Drawable, Law, Lesson
from .ranklaw import RankPrior, TabulatedRankPosterior

KNOWLEDGE = {
    "record": "which row is the target's",
    "sample": "that the target is in the file",
    "population": "that the target is in the population",
}
METHODS = {
    "paper": "the paper's formulas",
    "exact": "the exact error of the same rules",
    "bayes": "a snooper who uses Bayes' rule",
}
PRIORS = {"flat": "nothing (a flat prior)", "known": "the population mean"}
#: Noise as a share of the population's variance, from none to three times as much.
SHARES = np.arange(0, 301) / 100


def build(values: Mapping[str, Any]) -> Built:
    """Map noise variances for one snooper.

    >>> built = build({c.name: c.default for c in LESSON.controls})
    >>> print(built.rumap.choose(max_risk=5.0).release)
    Noise(variance=0.2)
    """
    settings = arguments(values)
    rumap = additive_noise(noise_variance=_grid(values), **settings)
    own = int(np.searchsorted(_grid(values), _noise(values)))
    said = (
        ""
        if values["method"] == "bayes"
        else "The posterior is what Bayes' rule makes of the same release; this snooper uses a plain rule instead."
    )
    return Built(rumap, lambda mask, example: panels(values, mask, example), own, (said,) if said else ())


def arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `additive_noise`; those that the target does not take are left out."""
    given: dict[str, Any] = {k: values[k] for k in ("n", "variance", "target", "knowledge", "method")}
    if values["target"] == "percentile":
        given["p"] = values["p"]
    if values["method"] == "bayes":
        given["prior"] = values["prior"]
    return given


def panels(values: Mapping[str, Any], mask: Any, example: int) -> list[BeliefPanel]:
    """Both posteriors after one release of an example file."""
    n, variance, prior, knowledge = values["n"], values["variance"], values["prior"], values["knowledge"]
    # The example has mean 0, whatever the prior: a flat one cannot be drawn from.
    made = draw_example(NormalBelief(records=n, variance=variance, prior="known"), example)
    scientist = User(NormalBelief(records=n, variance=variance, prior="flat"), Parameter("mu"), Quadratic())
    second = panel_of("scientist", scientist, mask, made, example)
    order = Curve(**arguments(values)).order
    if order is None or knowledge == "record":
        user = snooper(n, variance, prior, knowledge)
        return [panel_of("intruder", user, mask | Shuffle() if knowledge == "sample" else mask, made, example), second]
    if knowledge == "population":
        return [_percentile(values, mask, made, example), second]
    return [_ranked(values, mask, made, example, order), second]


def _percentile(values: Mapping[str, Any], mask: Any, made: Any, example: int) -> BeliefPanel:
    """The population percentile is the mean, moved: the population's variance is known."""
    shift = float(special.ndtri(values["p"]) * np.sqrt(values["variance"]))
    user = User(belief_of(values["n"], values["variance"], values["prior"]), Parameter("mu"), Quadratic())
    inner = panel_of("intruder", user, mask, made, example)
    title = f"percentile {values['p']:g} of the population"
    if not inner.laws:
        return BeliefPanel("intruder", title, words=inner.words)
    law = inner.laws[0]

    def moved(x: Drawable | None) -> Gaussian | None:
        return Gaussian.scalar(x.mean() + shift, x.var()) if x is not None and np.isfinite(x.var()) else None

    prior, posterior = moved(law.prior), moved(law.posterior)
    assert law.estimate is not None and posterior is not None
    words = f"In this example the best estimate is {number(law.estimate + shift, 4)} and the truth {number(shift, 4)}."
    words += "" if prior is not None else f" {FLAT}"
    return BeliefPanel("intruder", title, (Law(title, posterior, prior, law.estimate + shift, shift),), words)


def _ranked(values: Mapping[str, Any], mask: Any, made: Any, example: int, order: int) -> BeliefPanel:
    """A record by its rank: the largest, the smallest, or a percentile of the file."""
    n = values["n"]
    words = {n: "the largest record", 1: "the smallest record"}.get(order, f"the record of rank {order} of {n}")
    truth = float(np.sort(made[1])[order - 1])
    prior = RankPrior(n, order, values["variance"]) if values["prior"] == "known" else None
    flat = "" if prior is not None else f" {FLAT}"
    if mask.variance == 0:
        law = Law(words, Gaussian.scalar(truth, 0.0), prior, truth, truth)
        return BeliefPanel("intruder", words, (law,), f"Without noise the file gives the record away.{flat}")
    release = mask.release(made[1], example)
    posterior = TabulatedRankPosterior(release, order, values["variance"], float(mask.variance), values["prior"])
    estimate, spread = posterior.mean(), posterior.var()
    said = f"In this example the best estimate is {number(estimate, 4)} and the truth {number(truth, 4)}"
    law = Law(words, posterior, prior, estimate, truth)
    return BeliefPanel(
        "intruder", words, (law,), f"{said}; the expected loss of that estimate is {number(spread, 4)}.{flat}"
    )


def _noise(values: Mapping[str, Any]) -> float:
    return float(f"{values['noise'] * values['variance']:.12g}")


def _grid(values: Mapping[str, Any]) -> Any:
    return np.union1d([float(f"{v:.12g}") for v in SHARES * values["variance"]], [_noise(values)])


def write(values: Mapping[str, Any]) -> str:
    """Code that makes the same map."""
    given = ", ".join(f"{k}={v!r}" for k, v in arguments(values).items())
    return f"""import numpy as np
import ruvdecision as ruv

shares = np.union1d(np.arange(0, 301) / 100, [{values["noise"]!r}])
grid = np.unique([float(f"{{v:.12g}}") for v in shares * {values["variance"]!r}])
rumap = ruv.scenarios.additive_noise(noise_variance=grid, {given})
"""


LESSON = Lesson(
    name="snooper",
    title="A snooper against noise",
    about="Duncan, Keller-McNulty and Stokes (2001). Every record gets noise; the scientist takes the mean of the "
    "release. How much noise is needed depends on whom the snooper is after, and on what the snooper knows.",
    controls=(
        Slider("n", "Records n", counts(2, 1000), 200, whole=True),
        Slider("variance", "Variance σ² of a record", rising(0.1, 20, 60), 1.0),
        Slider(
            "noise", "Noise variance, times σ²", SHARES.tolist(), 0.21, hint="The release that you look at.", looks=True
        ),
        Pick(
            "target",
            "The snooper is after",
            {
                "typical": "a typical record",
                "percentile": "a percentile",
                "maximum": "the largest record",
                "minimum": "the smallest record",
            },
        ),
        Pick("knowledge", "The snooper knows", KNOWLEDGE),
        Pick("method", "Risk by", METHODS),
        Slider("p", "Percentile p", [*even(0.01, 0.99, 0.01), 0.995, 0.999], 0.99, when=("target", ("percentile",))),
        Pick("prior", "Beforehand the Bayesian snooper knows", PRIORS),
    ),
    threshold=Slider("max_risk", "Largest tolerable risk", rising(0.05, 100, 200, 2), 5.0),
    build=build,
    write=write,
)
