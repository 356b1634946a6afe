"""A typed program that uses the package as its users do. ``mypy --strict`` must find nothing in it, and it must run.

`tests/contracts/test_wheel.py` checks and runs it against the installed wheel, outside the source tree. What stands
behind ``assert_type`` is promised. A line with ``type: ignore[...]`` is wrong use: mypy must call it an error, and an
ignore that is not needed is one too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, assert_type

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import ruvdecision as ruv
from ruvdecision.beliefs import BaseBelief
from ruvdecision.engines import BaseEngine, Missing, Problem, Refusal
from ruvdecision.maps.show import ReleaseRow
from ruvdecision.masks.frame import Frame
from ruvdecision.protocols import Belief, Engine, Loss, Measure, Posterior, Solution, Target, Value

Array = NDArray[np.float64]


# -- own parts, written from the README --------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Exponential(ruv.Mask):
    """A mask of the user's own."""

    mean: float = 1.0

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        values, positions = frame.numeric("Exponential")
        return frame.replace(values + rng.exponential(self.mean, values.shape), positions)


@dataclass(frozen=True)
class InUnits:
    """A loss of the user's own, with a class attribute where the protocol asks for one."""

    unit: float
    location_free: ClassVar[bool] = True

    def __call__(self, estimate: Any, truth: Any) -> Array:
        return np.asarray(((estimate - truth) / self.unit) ** 2, dtype=np.float64)

    def estimate(self, posterior: Posterior, actions: Any = None) -> Any:
        return ruv.Quadratic().estimate(posterior, actions)

    def uncertainty(self, posterior: Posterior, actions: Any = None) -> Value:
        value, error = ruv.Quadratic().uncertainty(posterior, actions)
        return Value(value / self.unit**2, error / self.unit**2)


@dataclass(frozen=True)
class MeanShift:
    """A measure of the user's own; its name is a field, its role a class attribute."""

    name: str = "mean_shift"
    role: ClassVar[str] = "utility"

    def __call__(self, original: Any, released: Any) -> float:
        return -float(abs(np.mean(original) - np.mean(released)))


@dataclass(frozen=True)
class Coin(BaseBelief):
    """A belief of the user's own: one record, heads or tails."""

    heads: float = 0.5

    @property
    def records(self) -> int:
        return 1

    @property
    def parameters(self) -> tuple[str, ...]:
        return ()

    def draw(self, rng: np.random.Generator) -> Array:
        return np.asarray([float(rng.random() < self.heads)])


class Toss(BaseEngine):
    """An engine of the user's own: the coin is seen, or it is not."""

    name = "toss"

    def prepare(self, problem: Problem) -> Refusal | None:
        if isinstance(problem.user.belief, Coin):
            return None
        return Refusal("Toss needs a Coin", "Use engine='auto'", Missing.BELIEF)

    def posterior(self, user: Any, mask: Any, release: Any = None) -> ruv.posteriors.Finite:
        heads = user.belief.heads if release is None else release[0]
        return ruv.posteriors.Finite(np.array([0.0, 1.0]), np.array([1 - heads, heads]))

    def run(
        self, problem: Problem, built: None, on_progress: Callable[..., None] | None = None, interruptible: bool = False
    ) -> list[Solution]:
        user = problem.user
        before = float(user.loss.uncertainty(self.posterior(user, None), user.actions).value)
        u = np.array([before if isinstance(mask, ruv.Suppress) else 0.0 for mask in problem.masks])
        return [Solution(u, np.zeros_like(u), before, [self.name] * len(u))]


def own_parts() -> None:
    """What a user writes is what the package asks for, by type and when it runs."""
    loss: Loss = InUnits(10.0)
    measure: Measure = MeanShift()
    belief: Belief = Coin()
    engine: Engine = Toss()
    assert (
        isinstance(loss, Loss)
        and isinstance(measure, Measure)
        and isinstance(belief, Belief)
        and isinstance(engine, Engine)
    )
    user = ruv.User(belief, ruv.Record(0), loss)
    rumap = ruv.evaluate([ruv.Suppress(), ruv.Release()], intruder=user, scientist=user, engine=engine)
    assert rumap.intruder_uncertainty.tolist() == [0.0025, 0.0]
    normal = ruv.NormalBelief(records=3, variance=1, prior_variance=5)
    function = ruv.User(normal, ruv.Record(0), lambda estimate, truth: abs(estimate - truth))
    assert ruv.evaluate(ruv.Noise(sd=1), intruder=function, scientist=function).size == 1
    data = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0]})
    assert (Exponential(2.0).release(data, rng=1)["income"] >= data["income"]).all()
    both = ruv.measure(
        data, [Exponential(2.0), Exponential() | ruv.Round(0.5)], measures=[measure, MeanShift("again")], seed=1
    )
    assert_type(both, ruv.RUMap)


def provided_parts() -> None:
    """What the package ships is what its protocols ask for."""
    normal = ruv.NormalBelief(records=3, variance=1, prior_variance=5)
    beliefs: list[Belief] = [normal, ruv.FiniteBelief(values=[0, 1], probabilities=[0.5, 0.5])]
    targets: list[Target] = [
        ruv.Record(0),
        ruv.Records(),
        ruv.NewRecord(),
        ruv.Parameter("mu"),
        ruv.Average(),
        ruv.EachRecord(),
    ]
    targets += [ruv.Maximum(), ruv.Minimum(), ruv.Percentile(0.9), ruv.OrderStatistic(2), ruv.Identity(0)]
    targets += [ruv.Functional(lambda a, b: a - b, of=[ruv.Record(0), ruv.Record(1)], name="the gap")]
    losses: list[Loss] = [
        ruv.Quadratic(),
        ruv.Absolute(),
        ruv.Power(1.5),
        ruv.ZeroOne(),
        ruv.LogScore(),
        ruv.Pinball(0.9),
        ruv.Linex(1.0),
    ]
    losses += [
        ruv.Huber(1.0),
        ruv.CRPS(),
        ruv.IntervalScore(0.1),
        ruv.KullbackLeibler(),
        ruv.CustomLoss(lambda e, t: (e - t) ** 2),
    ]
    engines: list[Engine] = [ruv.Exact(), ruv.Enumeration(), ruv.Quadrature(), ruv.Sampling(draws=100, chains=2)]
    laws: list[Posterior] = [
        ruv.posteriors.Gaussian.scalar(0.0, 1.0),
        ruv.posteriors.Finite([0.0, 1.0], [0.5, 0.5]),
        ruv.posteriors.Drawn(np.arange(9.0)),
    ]
    measures: list[Measure] = [
        ruv.measures.RecordLinkage(known=["a"]),
        ruv.measures.IntervalOverlap("y ~ a"),
        ruv.measures.NormalKL(),
        ruv.measures.Propensity(),
    ]
    parts: list[Sequence[object]] = [beliefs, targets, losses, engines, laws, measures]
    assert all(part for part in parts)
    for law in laws:
        assert_type(law.mean(), Array)
        assert_type(law.quadratic(), Value)
        assert float(law.var()) > 0


# -- the flow: belief, mask, release, posterior, map, choice -----------------------------------------------


def flow(folder: Path) -> ruv.RUMap:
    """Every step of the flow, with the types that it gives back."""
    belief = ruv.NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    intruder = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), name="the intruder")
    scientist = ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())
    average = ruv.Microaggregate(groups=1)
    chain = ruv.Noise(variance=2.08) | average
    assert_type(chain, ruv.Mask)
    masks: list[ruv.Mask] = [ruv.Suppress(), average, chain]
    masks += [ruv.Noise(variance=v) | average for v in np.arange(1, 5) / 2]
    law = ruv.posterior(intruder, chain)
    assert_type(law, Posterior)
    rumap = ruv.evaluate(
        masks, intruder=intruder, scientist=scientist, seed=np.random.default_rng(1), risk=lambda u: 1 / u
    )
    assert_type(rumap, ruv.RUMap)
    assert_type(rumap.risk, Array)
    assert_type(rumap.utility_error, Array)
    assert_type(rumap.releases, tuple[str, ...])
    assert_type(rumap.to_dataframe(), pd.DataFrame)
    assert_type(rumap.frontier(), ruv.RUMap)
    assert_type(rumap.dominated(), pd.DataFrame)
    assert_type(rumap.explain(rumap.releases[0]), ruv.decide.Explanation)
    assert_type(rumap[0], ReleaseRow)
    assert_type(rumap[1:3], ruv.RUMap)
    best = rumap.choose(max_risk=0.5)
    assert_type(best, ruv.decide.Choice)
    assert_type(best.release, str)
    assert_type(best.utility, float)
    assert_type(best.within_error, bool)
    assert round(best.utility, 3) == 2.651
    saved = rumap.with_risk("reciprocal").save(folder / "map.nc")
    assert_type(saved, Path)
    assert_type(ruv.RUMap.load(saved), ruv.RUMap)
    assert_type(rumap.report(folder / "report.html", max_risk=0.5), Path)
    return rumap


def release() -> None:
    """A mask gives back the kind of data that it took."""
    mask = ruv.Noise(sd=1.0)
    table, column, array = pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1.0, 2.0]), np.array([1.0, 2.0])
    assert_type(mask.release(table, rng=1), pd.DataFrame)
    again: pd.Series[float] = mask.release(column, rng=np.random.SeedSequence(1))
    assert_type(mask.release(array, rng=1), NDArray[Any])
    assert_type(mask.release([1.0, 2.0]), NDArray[Any])
    assert again.shape == array.shape


def further() -> None:
    """What is built on maps."""
    belief = ruv.NormalBelief(records=10, variance=2, prior_variance=5)
    intruder = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    scientist = ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())
    masks = [ruv.Noise(variance=v) for v in (1.0, 2.0)]
    panel = ruv.Panel.vary(intruder, prior_variance=[1, 5])
    assert_type(panel, ruv.Panel)
    assert_type(ruv.evaluate(masks, intruder=panel, scientist=scientist), ruv.RUMap)
    snooper = ruv.Snooper("row", ruv.Record(0), belief=belief)
    assert_type(ruv.evaluate(masks, intruder=snooper, scientist=scientist), ruv.RUMap)
    optimum = ruv.optimise(
        lambda variance: ruv.Noise(variance=variance), max_risk=0.7, intruder=intruder, scientist=scientist
    )
    assert_type(optimum, ruv.analyses.Optimum)
    assert_type(optimum.mask, ruv.Mask)
    what_if = ruv.sensitivity(
        masks, {"intruder.belief.prior_variance": [1, 25]}, intruder=intruder, scientist=scientist, max_risk=0.7
    )
    assert_type(what_if, ruv.analyses.Sensitivity)
    assert_type(what_if.sentence, str)
    best = ruv.limit(intruder, scientist, max_risk=[0.5, 0.6])
    assert_type(best, ruv.analyses.Limit)
    assert_type(best.to_dataframe(), pd.DataFrame)
    assert_type(ruv.analyses.worth(scientist, masks[0]), ruv.analyses.Worth)
    assert_type(ruv.analyses.record_risk(masks, intruder), ruv.analyses.RecordRisk)
    assert_type(
        ruv.analyses.price_of_publishing(masks, intruder=intruder, scientist=scientist), ruv.analyses.PublishingPrice
    )
    assert_type(ruv.analyses.refines(masks[0], masks[1], records=10), bool)
    curves = ruv.scenarios.additive_noise(n=20, variance=1, noise_variance=[0.5, 1.0])
    assert_type(curves, ruv.RUMap)
    try:
        ruv.Noise(variance=-1)
    except ruv.InputError as error:
        general: ruv.RuvError = error
        assert_type(general.what, str)


def pictures(rumap: ruv.RUMap) -> None:
    """Pictures are axes of matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.axes import Axes

    assert_type(rumap.plot(max_risk=0.5), Axes)
    assert_type(ruv.plots.rumap(rumap), Axes)


def wrong_use(rumap: ruv.RUMap, user: ruv.User) -> None:
    """Never run: every line is an error that a type checker must find."""
    belief = ruv.NormalBelief(records=10, variance=2, prior_variance=5)
    ruv.User(belief, ruv.Quadratic(), ruv.Record(0))  # type: ignore[arg-type]
    ruv.User(ruv.Record(0), ruv.Record(0), ruv.Quadratic())  # type: ignore[arg-type]
    ruv.User(belief, ruv.Record(0), "quadratic")  # type: ignore[arg-type]
    ruv.User(belief, ruv.Record(0))  # type: ignore[call-arg]
    ruv.Snooper("row", "record 0")  # type: ignore[arg-type]
    ruv.evaluate(["noise"], intruder=user, scientist=user)  # type: ignore[list-item]
    ruv.evaluate([ruv.Suppress()], user, user)  # type: ignore[call-arg]
    ruv.evaluate([ruv.Suppress()], intruder=user)  # type: ignore[call-arg]
    ruv.evaluate([ruv.Suppress()], intruder=user, scientist=belief)  # type: ignore[arg-type]
    ruv.evaluate([ruv.Suppress()], intruder=user, scientist=user, seed="one")  # type: ignore[arg-type]
    ruv.evaluate([ruv.Suppress()], intruder=user, scientist=user, engine=ruv.Quadratic())  # type: ignore[arg-type]
    ruv.measure([1.0, 2.0], [ruv.Noise(sd=1)], measures=["linkage"])  # type: ignore[list-item]
    ruv.Noise(sd=1) | 3  # type: ignore[operator]
    ruv.Noise(r=2.08)  # type: ignore[call-arg]
    rumap.choose(max_risk="low")  # type: ignore[arg-type]
    user.belief = belief  # type: ignore[misc]
    print(rumap.utilty)  # type: ignore[attr-defined]
    print(ruv.no_such_name)  # type: ignore[attr-defined]
    ruv.posterior(user, ruv.Suppress()).median()  # type: ignore[attr-defined]


if TYPE_CHECKING:
    # Names that are imported when they are first used have their own types too, not Any.
    assert_type(ruv.plots.tornado(ruv.analyses.Sensitivity.__new__(ruv.analyses.Sensitivity)).get_title(), str)
    assert_type(ruv.masks.combine_partial([1.0, 2.0], [1.0, 1.0]), ruv.masks.Combined)
    assert_type(ruv.__version__, str)


if __name__ == "__main__":
    import tempfile

    own_parts()
    provided_parts()
    with tempfile.TemporaryDirectory() as name:
        pictures(flow(Path(name)))
    release()
    further()
    print("the typed client ran")
