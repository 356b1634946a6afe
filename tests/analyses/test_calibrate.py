"""Simulation-based calibration: right models pass, wrong ones fail, and the bands hold what they promise."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision.analyses.calibrate import Calibration, calibrate
from ruvdecision.beliefs.base import BaseBelief
from ruvdecision.beliefs.finite import FiniteBelief
from ruvdecision.beliefs.normal import NormalBelief
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.beliefs.table.belief import TableBelief
from ruvdecision.engines import BaseEngine
from ruvdecision.engines.normal.exact import Exact
from ruvdecision.engines.pymc import nuts
from ruvdecision.engines.pymc.sampling import Sampling
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.masks import PRAM, Microaggregate, Noise, Release, Round, Shuffle, Subsample, Suppress
from ruvdecision.masks.base import Mask
from ruvdecision.numerics.uniform_ranks import rank_count_bands, uniformity_p_value
from ruvdecision.targets import Average, Cell, EachRecord, Functional, Identity, NewRecord, Parameter, Record, Records

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")

NORMAL = NormalBelief(5, 2.0, prior_variance=5.0)
PAIRS = NormalBelief(
    4, covariance=[[2.0, 0.5], [0.5, 1.0]], prior_covariance=[[3.0, 0.0], [0.0, 2.0]], columns=["a", "b"]
)
COIN = FiniteBelief(
    [0.2, 0.5, 0.9], [0.5, 0.3, 0.2], likelihood=lambda x, p: p if x else 1 - p, outcomes=[0, 1], records=4
)
LABELS = FiniteBelief(["low", "middle", "high"], [0.2, 0.5, 0.3])
TABLE = TableBelief((2, 2), total=12)
FEW = Sampling(draws=200, tune=200, chains=1)


@dataclass(frozen=True, repr=False)
class Told(Mask):
    """Noise of sd 1.5, with a likelihood that says so; ``share`` of the true variance is what it says."""

    share: float = 1.0
    shift: float = 0.0

    def apply(self, frame, rng):
        values, positions = frame.numeric("Told")
        return frame.replace(values + rng.normal(0, 1.5, values.shape), positions)

    def log_likelihood(self, released, x, math):
        variance = 2.25 * self.share
        return -0.5 * (released - x - self.shift) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)


def normal_model(n):
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        pm.Normal("x", mu, 1.0, shape=n)
    return model


@pytest.fixture(scope="module")
def model() -> PyMCBelief:
    return PyMCBelief(normal_model, size=4)


# -- right ones pass -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.campaign(4)
@pytest.mark.parametrize(
    ("belief", "mask", "target"),
    [
        (NORMAL, Noise(variance=1.0), Record(0)),
        (NORMAL, Noise(variance=1.0) | Microaggregate(groups=1), Parameter("mu")),
        (NORMAL, Noise(variance=1.0) | Shuffle(), Record(2)),
        (NORMAL, Subsample(size=3), Record(1)),
        (NORMAL, Suppress(), NewRecord()),
        (NORMAL, Noise(variance=1.0), Functional(lambda a, m: a - m, of=[Record(0), Average()])),
        (PAIRS, Noise(variance=[1.0, 2.0]), Record(0)),
        (PAIRS, Suppress(columns="a"), Parameter("mu")),
        (COIN, PRAM([[0.8, 0.2], [0.2, 0.8]], columns=[0], categories=[0, 1]), Parameter("theta")),
        (COIN, PRAM([[0.8, 0.2], [0.2, 0.8]], columns=[0], categories=[0, 1]) | Shuffle(), Record(0)),
        (
            LABELS,
            PRAM([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]], categories=["low", "middle", "high"]),
            Parameter("theta"),
        ),
        (TABLE, Suppress(), Cell((0, 1))),
    ],
    ids=lambda x: str(x)[:40],
)
def test_every_belief_with_a_closed_form_is_calibrated(belief: object, mask: Mask, target: object) -> None:
    found = calibrate(belief, mask, target, simulations=100, seed=20)
    assert found.passed, found.verdict
    assert found.simulations == 100
    assert found.ranks.min() >= 0
    assert found.ranks.max() <= 99
    assert "Calibrated, as far as 100 simulations can tell" in found.verdict


def test_a_record_that_is_released_as_it_is_breaks_ties_at_random() -> None:
    found = calibrate(NORMAL, Release(), Record(0), simulations=100, seed=3)
    assert found.passed
    assert len(np.unique(found.ranks)) > 50


@pytest.mark.long
def test_a_sampled_model_is_calibrated_with_one_compilation(model: PyMCBelief, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    init = nuts.Sampler.__init__

    def count(self, *arguments, **options):
        made.append(1)
        init(self, *arguments, **options)

    monkeypatch.setattr(nuts.Sampler, "__init__", count)
    found = calibrate(model, Noise(sd=1.5), Parameter("mu"), simulations=25, engine=FEW, seed=5)
    assert len(made) == 1
    assert found.passed, found.verdict
    assert {"rhat", "ess", "divergences"} <= set(found.to_dataframe().columns)
    record = calibrate(model, Noise(sd=0.7) | Shuffle(), Record(0), simulations=25, engine=FEW, seed=5)
    assert len(made) == 1
    assert record.passed, record.verdict
    new = calibrate(model, Noise(sd=0.7), NewRecord(), simulations=20, engine=FEW, seed=6)
    assert len(made) == 1
    assert new.passed, new.verdict


@pytest.mark.long
def test_nodes_and_latent_records_are_calibrated(model: PyMCBelief) -> None:
    # One short chain has not converged in most simulations, and calibration sees that: two longer ones do.
    enough = Sampling(draws=400, tune=300, chains=2)
    for mask in (Round(base=1.0), Microaggregate(groups=2), Noise(sd=1.0, kind="laplace")):
        target = Functional(lambda a, m: a - m, of=[Record(0), Parameter("mu")])
        found = calibrate(model, mask, target, simulations=60, engine=enough, seed=5)
        assert found.passed, (mask, found.verdict)


# -- wrong ones fail -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Understated(Noise):
    """Noise of three times the variance that it admits to: its likelihood is that of the smaller one."""

    def apply(self, frame, rng):
        return Noise(variance=3 * float(self.variance)).apply(frame, rng)


@pytest.mark.slow
def test_a_likelihood_that_lies_fails(model: PyMCBelief) -> None:
    right = calibrate(model, Noise(variance=1.0), Record(0), simulations=50, engine=FEW, seed=8)
    assert right.passed, right.verdict
    narrow = calibrate(model, Understated(variance=1.0), Record(0), simulations=50, engine=FEW, seed=8)
    assert not narrow.passed
    assert "too narrow" in narrow.verdict
    assert "Not calibrated" in repr(narrow)


@pytest.mark.long
def test_a_likelihood_of_ones_own(model: PyMCBelief) -> None:
    right = calibrate(model, Told(), Record(0), simulations=100, engine=FEW, seed=8)
    assert right.passed, right.verdict
    half = calibrate(model, Told(share=0.5), Record(0), simulations=400, engine=FEW, seed=8)
    assert not half.passed
    assert "too narrow" in half.verdict
    shifted = calibrate(model, Told(shift=1.5), Record(0), simulations=100, engine=FEW, seed=8)
    assert "lies too low" in shifted.verdict


@dataclass(frozen=True)
class Wrong(Exact):
    """Exact posteriors, moved or stretched."""

    shift: float = 0.0
    scale: float = 1.0

    def posterior(self, user, mask, release=None):
        from ruvdecision.posteriors import Gaussian

        right = super().posterior(user, mask, release)
        return Gaussian.scalar(right.mean() + self.shift * np.sqrt(right.var()), self.scale * right.var())


@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (Wrong(scale=0.5), "too narrow"),
        (Wrong(scale=2.5), "too wide"),
        (Wrong(shift=0.5), "lies too high"),
        (Wrong(shift=-0.5), "lies too low"),
    ],
)
def test_faults_are_told_apart(engine: Exact, words: str) -> None:
    found = calibrate(NORMAL, Noise(variance=1.0), Record(0), simulations=200, engine=engine, seed=1)
    assert not found.passed
    assert words in found.verdict


# -- the statistics ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_p_values_of_even_ranks_are_as_promised() -> None:
    """The chance of a p-value below a is a at most, and not much less: the law of the statistic is exact."""
    rng = np.random.default_rng(1)
    p = np.array(
        [uniformity_p_value(tuple(np.bincount(rng.integers(0, 20, 50), minlength=20).tolist())) for _ in range(1500)]
    )
    for a in (0.05, 0.2, 0.5):
        assert abs(np.mean(p <= a) - a) < 4 * np.sqrt(a * (1 - a) / len(p)) + 0.02
        assert np.mean(p <= a) <= a + 4 * np.sqrt(a * (1 - a) / len(p))


def test_bands_hold_even_ranks_together() -> None:
    rng = np.random.default_rng(2)
    low, high = rank_count_bands(80, 19, 0.1)
    inside = 0
    for _ in range(2000):
        seen = np.cumsum(np.bincount(rng.integers(0, 20, 80), minlength=20))[:-1]
        inside += bool(np.all((seen >= low) & (seen <= high)))
    assert inside / 2000 >= 0.9 - 4 * np.sqrt(0.09 / 2000)
    assert inside / 2000 <= 0.94


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 15), min_size=4, max_size=10).filter(lambda c: 0 < sum(c) <= 60))
def test_a_verdict_and_its_picture_agree(counts: list[int]) -> None:
    """The p-value is below alpha exactly if the distribution function leaves the band."""
    ranks = np.repeat(np.arange(len(counts)), counts)[:, None]
    found = Calibration(ranks, draws=len(counts) - 1, alpha=0.1)
    table = found.ecdf()
    outside = bool(((table["share"] < table["low"] - 1e-12) | (table["share"] > table["high"] + 1e-12)).any())
    assert 0 <= found.p_value <= 1
    assert outside == (not found.passed)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=4, max_size=8).filter(lambda c: 0 < sum(c) <= 40))
def test_ranks_counted_from_above_are_as_even(counts: list[int]) -> None:
    assert uniformity_p_value(tuple(counts)) == pytest.approx(uniformity_p_value(tuple(counts[::-1])), abs=1e-9)


def test_several_components_pay_for_their_number() -> None:
    rng = np.random.default_rng(3)
    ranks = np.column_stack([rng.integers(0, 100, 100), np.minimum(99, rng.integers(0, 140, 100))])
    found = Calibration(ranks, draws=99)
    assert found.components == 2
    assert found.p_value == pytest.approx(min(1.0, 2 * found.p_values.min()))
    assert not found.passed
    assert "component 1" in found.verdict


# -- the object ----------------------------------------------------------------------------------------------------


def test_seeds_blocks_and_workers_give_the_same_ranks() -> None:
    options = {"simulations": 23, "seed": 4}
    here = calibrate(NORMAL, Noise(variance=1.0), Record(0), **options)
    again = calibrate(NORMAL, Noise(variance=1.0), Record(0), **options)
    with ThreadPoolExecutor(2) as pool:
        there = calibrate(NORMAL, Noise(variance=1.0), Record(0), executor=pool, **options)
    np.testing.assert_array_equal(here.ranks, again.ranks)
    np.testing.assert_array_equal(here.ranks, there.ranks)
    more = calibrate(NORMAL, Noise(variance=1.0), Record(0), simulations=30, seed=4)
    np.testing.assert_array_equal(here.ranks, more.ranks[:23])
    assert not np.array_equal(
        here.ranks, calibrate(NORMAL, Noise(variance=1.0), Record(0), simulations=23, seed=5).ranks
    )


def test_a_checkpoint_goes_on_where_it_was(tmp_path) -> None:
    first = calibrate(NORMAL, Noise(variance=1.0), Record(0), simulations=15, seed=4, checkpoint=tmp_path / "run")
    second = calibrate(NORMAL, Noise(variance=1.0), Record(0), simulations=15, seed=4, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(first.ranks, second.ranks)
    with pytest.raises(InputError):
        calibrate(NORMAL, Noise(variance=2.0), Record(0), simulations=15, seed=4, checkpoint=tmp_path / "run")


@dataclass(frozen=True)
class Stops(Exact):
    """Exact posteriors; Ctrl-C comes at the 13th."""

    seen: tuple[list, ...] = ([],)

    def posterior(self, user, mask, release=None):
        self.seen[0].append(1)
        if len(self.seen[0]) == 13:
            raise KeyboardInterrupt
        return super().posterior(user, mask, release)


def test_ctrl_c_judges_what_is_finished() -> None:
    found = calibrate(NORMAL, Noise(variance=1.0), Record(0), simulations=40, engine=Stops(([],)), seed=1)
    assert found.simulations == 10
    assert "10 of 40" in found.verdict


def test_tables_and_pictures() -> None:
    found = calibrate(NORMAL, Noise(variance=1.0), Records(), simulations=40, seed=4)
    assert found.components == 5
    table = found.to_dataframe()
    assert len(table) == 200
    assert list(table.columns) == ["simulation", "component", "rank"]
    histogram = found.histogram(bins=10)
    assert histogram["count"].sum() == 40
    assert histogram["to"].iloc[-1] == 99
    assert (histogram["low"] <= 4).all()
    assert (histogram["high"] >= 4).all()
    for kind in ("histogram", "ecdf"):
        axes = found.plot(kind=kind)
        assert "rank of the truth" in axes.get_xlabel()
        assert "p =" in axes.get_title(loc="right")
        plt.close(axes.figure)
    _, mine = plt.subplots()
    assert found.plot(mine, component=2) is mine
    plt.close(mine.figure)
    assert "all records after Noise(variance=1), exact" in repr(found)


def test_an_own_belief_says_what_it_drew() -> None:
    class Own(BaseBelief):
        records, parameters = 1, ("theta",)

        def draw(self, rng):
            return np.array([rng.normal()])

        def describe(self):
            return "one normal record"

    class Engine(BaseEngine):
        name = "own"

        def prepare(self, problem):
            return None

        def posterior(self, user, mask, release=None):
            from ruvdecision.posteriors import Gaussian

            return Gaussian.scalar(np.asarray(release)[0, 0] / 2, 0.5)

    found = calibrate(Own(), Noise(variance=1.0), Record(0), simulations=60, engine=Engine(), seed=1)
    assert found.passed
    with pytest.raises(UnsupportedError, match="draw_with_parameters"):
        calibrate(Own(), Noise(variance=1.0), Parameter("theta"), simulations=60, engine=Engine(), seed=1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"simulations": 5}, "simulations"),
        ({"draws": 2}, "draws"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": 1.0}, "alpha"),
        ({"mask": "noise"}, "mask"),
        ({"target": Identity(0, known=[0])}, "no rank"),
        ({"target": EachRecord()}, "no rank"),
        ({"target": Record(9)}, "row"),
        ({"belief": NormalBelief(5, 2.0, prior="flat")}, "flat prior"),
        ({"belief": 3}, "belief"),
        ({"engine": "fast"}, "engine"),
        ({"executor": 4}, "executor"),
    ],
    ids=str,
)
def test_bad_input(changes: dict[str, object], words: str) -> None:
    options = {
        "belief": NORMAL,
        "mask": Noise(variance=1.0),
        "target": Record(0),
        "simulations": 10,
        "seed": 1,
    } | changes
    with pytest.raises((InputError, UnsupportedError)) as caught:
        calibrate(**options)
    assert words in str(caught.value).lower()


def test_a_sampler_that_draws_too_little(model: PyMCBelief) -> None:
    with pytest.raises(InputError, match="at least draws=99"):
        calibrate(model, Noise(sd=1.0), Parameter("mu"), engine=Sampling(draws=20, chains=2))


def test_bad_bins_and_components() -> None:
    found = Calibration(np.arange(100)[:, None], draws=99)
    with pytest.raises(InputError, match="divide the 100 ranks"):
        found.histogram(bins=7)
    with pytest.raises(InputError, match="component"):
        found.ecdf(3)
    with pytest.raises(InputError, match="kind"):
        found.plot(kind="pie")


def test_trouble_of_the_sampler_is_said() -> None:
    columns = {"ess": np.full(100, 30.0), "rhat": np.full(100, 1.0), "divergences": np.zeros(100)}
    found = Calibration(np.arange(100)[:, None], draws=99, columns=columns)
    assert found.unreliable_count == 100
    assert "In 100 simulations the sampler had trouble" in found.verdict
    assert isinstance(found.to_dataframe(), pd.DataFrame)
