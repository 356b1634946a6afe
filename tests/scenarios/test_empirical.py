"""The database-specific map of Duncan et al., section V: simulated in one pass, exact beside it, and drawn."""

from __future__ import annotations

import sys
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose

from ruvdecision import plots
from ruvdecision.checks import as_seed_sequence
from ruvdecision.engines.rules import clipped_noise as incomes
from ruvdecision.errors import InputError
from ruvdecision.evaluate import evaluate
from ruvdecision.maps import Labels, RUMap
from ruvdecision.masks import Clip, Noise
from ruvdecision.running.replication import replicate_seeds
from ruvdecision.scenarios import Curve, empirical, map_curves
from ruvdecision.targets import Maximum, Minimum, OrderStatistic, Percentile, Record
from ruvdecision.users.user import Snooper

X = np.sort(np.random.default_rng(5).gamma(2.0, 10.0, 60))[np.random.default_rng(6).permutation(60)]
V = X.var(ddof=1)
GRID = V * np.array([0.05, 0.3, 1.0])
BOTH = ["simulate", "exact"]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def plain_loop(x, grid, ranks, replicates, rng, lower, upper, variances):
    """What a user would write: two loops, one release at a time."""
    order = np.argsort(x, kind="stable")
    risk = {}
    for g in range(len(grid)):
        index, position, means, spreads = [], [], [], []
        for _ in range(replicates):
            y = np.clip(x + np.sqrt(variances[g]) * rng.standard_normal(len(x)), lower, upper)
            ordered = np.sort(y)
            index.append([(y[order[r - 1]] - x[order[r - 1]]) ** 2 for r in ranks])
            position.append([(ordered[r - 1] - x[order[r - 1]]) ** 2 for r in ranks])
            means.append(y.mean())
            spreads.append(y.var(ddof=1))
        science = np.mean(spreads) / len(x) + (np.mean(means) - x.mean()) ** 2 - np.var(means, ddof=1) / replicates
        risk[g] = (
            np.mean(index, axis=0),
            np.mean(position, axis=0),
            science,
            np.std(index, axis=0, ddof=1) / np.sqrt(replicates),
        )
    return risk


def test_one_pass_gives_what_two_loops_give():
    targets = [Minimum(), Percentile(0.1), OrderStatistic(30), Maximum()]
    ranks = [1, 6, 30, 60]
    rumap = empirical(X, GRID, targets, replicates=40, seed=12, lower=0, upper=90, where=X > 20, times=2)
    # The same stream: one generator, replicate by replicate. The loop starts it again for every noise variance.
    for v in GRID:
        rng = np.random.default_rng(next(replicate_seeds(as_seed_sequence(12)))[1])
        told = plain_loop(X, [v], ranks, 40, rng, 0, 90, [np.where(X > 20, 2 * v, v)])[0]
        for state, column in (("index", 0), ("position", 1)):
            here = rumap.select(knowledge=state, variance=v)
            assert_allclose(here.intruder_uncertainty, told[column], rtol=1e-11)
            assert_allclose(here.scientist_uncertainty, told[2], rtol=1e-9)
        assert_allclose(rumap.select(knowledge="index", variance=v).intruder.error, told[3], rtol=1e-7)


def test_layout_of_the_map():
    rumap = empirical(X, GRID, seed=1, method=BOTH)
    assert len(rumap) == 6 * 2 * 2 * 3
    table = rumap.to_dataframe()
    assert list(dict.fromkeys(table["target"])) == [
        "minimum",
        "percentile 0.01",
        "percentile 0.1",
        "percentile 0.9",
        "percentile 0.99",
        "maximum",
    ]
    assert set(table["knowledge"]) == {"index", "position"} and set(table["method"]) == set(BOTH)
    assert table.groupby("target")["rank"].first().to_dict() == {
        "minimum": 1, "percentile 0.01": 1, "percentile 0.1": 6, "percentile 0.9": 54, "percentile 0.99": 60, "maximum": 60,
    }  # fmt: skip
    drawn = table[table["method"] == "simulate"]
    # The smallest released value is always cut off where there is much noise, and then nothing is random about it.
    always = (drawn["rank"] == 1) & (drawn["knowledge"] == "position")
    assert (drawn["utility_error"] > 0).all() and (drawn["risk_error"] > 0)[~always].all()
    assert not table[table["method"] == "exact"][["risk_error", "utility_error"]].to_numpy().any()
    # The scientist is one and the same on every curve.
    assert drawn.groupby("variance")["utility"].nunique().max() == 1
    assert any("0.6 is not a whole number: the record of rank 1" in n for n in rumap.notes)
    assert not any("percentile 0.1" in n and "6" in n for n in rumap.notes if "x 0.1 =" in n)


@pytest.mark.parametrize(
    "options",
    [{}, {"lower": None}, {"upper": 90.0}, {"where": X > 25, "times": 3.0}, {"where": lambda x: x < 10, "times": 0.25}],
)
def test_simulated_and_exact_agree(options):
    rumap = empirical(X, GRID, replicates=3000, seed=21, method=BOTH, **options)
    drawn, exact = rumap.select(method="simulate"), rumap.select(method="exact")
    gap = np.abs(drawn.intruder_uncertainty - exact.intruder_uncertainty)
    # A minimum that is always cut off has no spread left; then both are its square, up to what 3,000 draws cannot show.
    assert np.all(gap <= 4 * drawn.intruder.error + 1e-3 * exact.intruder_uncertainty * (drawn.intruder.error < 1e-6))
    assert np.all(np.abs(drawn.scientist_uncertainty - exact.scientist_uncertainty) < 4 * drawn.scientist.error)
    assert np.median(drawn.intruder.error / drawn.intruder_uncertainty) < 0.04


def test_exact_values_are_those_of_the_formulas():
    rumap = empirical(X, GRID, ["maximum", 0.25], method="exact")
    assert_allclose(
        rumap.select(target="maximum", knowledge="index").intruder_uncertainty,
        incomes.linked_record_mse(X.max(), GRID),
        rtol=1e-13,
    )
    assert_allclose(
        rumap.select(target="percentile 0.25", knowledge="position").intruder_uncertainty,
        incomes.ranked_record_mse(X, GRID, 15),
        rtol=1e-13,
    )
    assert_allclose(rumap.scientist_uncertainty[:3], incomes.scientist_mse(X, GRID), rtol=1e-13)
    # Without bounds index knowledge is eq. 4 for every target.
    free = empirical(X, GRID, knowledge="index", lower=None, method="exact")
    assert_allclose(free.risk, np.tile(1 / GRID, 6), rtol=1e-12)


@pytest.mark.slow
def test_snoopers_in_evaluate_say_the_same():
    masks = [Noise(variance=float(v)) | Clip(lower=0) for v in GRID]
    exact = empirical(X, GRID, ["maximum", 0.9], method="exact")
    for target, name in ((Maximum(), "maximum"), (Percentile(0.9), "percentile 0.9")):
        for rule, state in (("row", "index"), (target, "position")):
            rumap = evaluate(
                masks,
                intruder=Snooper(rule, target),
                scientist=Snooper("mean", Record(0)),
                data=X,
                replicates=1500,
                seed=4,
            )
            told = exact.select(target=name, knowledge=state).intruder_uncertainty
            assert np.all(np.abs(rumap.intruder_uncertainty - told) < 4 * rumap.intruder.error)


def test_seeds_blocks_and_replicates(monkeypatch):
    first = empirical(X, GRID, seed=3)
    assert_allclose(empirical(X, GRID, seed=3).risk, first.risk, rtol=0)
    assert not np.allclose(empirical(X, GRID, seed=4).risk, first.risk)
    monkeypatch.setattr(sys.modules["ruvdecision.scenarios.empirical"], "CHUNK", 130)
    small = empirical(X, GRID, seed=3)
    for name in ("risk", "utility", "risk_error", "utility_error"):
        assert_allclose(getattr(small, name), getattr(first, name), rtol=1e-9)
    one = empirical(X, GRID, replicates=1, seed=3)
    assert np.isnan(one.risk_error).all() and np.isfinite(one.risk).all()


def test_common_random_numbers_over_the_grid():
    grid = V * np.linspace(0.2, 0.4, 41)
    rumap = empirical(X, grid, "maximum", "position", seed=1)
    assert np.abs(np.diff(rumap.intruder_uncertainty, 2)).max() < 0.02 * rumap.intruder.error.min()


@pytest.mark.slow
@given(st.integers(2, 30), st.integers(0, 10_000), st.floats(0.01, 3.0), st.data())
@settings(deadline=None, max_examples=30)
def test_units_and_order_of_the_file_do_not_matter(n, seed, share, data):
    rng = np.random.default_rng(seed)
    x = rng.gamma(2.0, 3.0, n)
    rank = data.draw(st.integers(1, n))
    v = share * x.var(ddof=1)
    for method in BOTH:
        base = empirical(x, [v], OrderStatistic(rank), replicates=20, seed=1, method=method)
        scaled = empirical(1000 * x, [1e6 * v], OrderStatistic(rank), replicates=20, seed=1, method=method)
        assert_allclose(scaled.intruder_uncertainty, 1e6 * base.intruder_uncertainty, rtol=1e-8)
        assert_allclose(scaled.scientist_uncertainty, 1e6 * base.scientist_uncertainty, rtol=1e-8)
    shuffled = empirical(rng.permutation(x), [v], OrderStatistic(rank), method="exact")
    assert_allclose(shuffled.risk, empirical(x, [v], OrderStatistic(rank), method="exact").risk, rtol=1e-9)


def test_kinds_of_data_and_no_noise():
    series = pd.Series(X, name="income")
    for data in (series, series.to_frame(), X.tolist()):
        assert_allclose(empirical(data, GRID, seed=1).risk, empirical(X, GRID, seed=1).risk, rtol=0)
    still = empirical(X, [0.0], ["maximum", 0.5], method=BOTH, seed=1)
    assert np.all(still.intruder_uncertainty == 0) and np.all(np.isinf(still.risk))
    assert_allclose(still.utility, 60 / V, rtol=1e-12)


def test_nothing_of_the_records_is_shown():
    rumap = empirical(X, GRID, seed=1, where=X > 25, times=2)
    shown = rumap.to_dataframe().to_csv() + repr(dict(rumap.attrs)) + repr(rumap)
    assert "True" not in shown and f"{X.max():.4f}"[:7] not in shown
    assert set(rumap.parameters) == {"variance", "lower", "times"}


def test_saved_and_loaded(tmp_path):
    rumap = empirical(X, GRID, ["maximum"], seed=1, method=BOTH)
    again = RUMap.load(rumap.save(tmp_path / "map.nc"))
    assert_allclose(again.risk, rumap.risk) and assert_allclose(again.risk_error, rumap.risk_error)
    assert again.select(knowledge="index", method="exact").size == 3


def test_a_large_file_stays_small_in_memory():
    x = np.random.default_rng(1).gamma(2.0, 1.0, 100_000)
    tracemalloc.start()
    rumap = empirical(x, np.linspace(0.1, 1, 4), ["maximum", 0.9], replicates=20, seed=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.all(rumap.risk > 0) and peak < 100e6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise_variance": []}, "at least one variance"),
        ({"noise_variance": [-1.0]}, "not be negative"),
        ({"noise_variance": [np.inf]}, "finite"),
        ({"data": [1.0]}, "at least two records"),
        ({"data": [1.0, np.nan]}, "missing"),
        ({"data": ["a", "b"]}, "numeric"),
        ({"data": np.ones((3, 2))}, "one variable"),
        ({"data": [-1.0, 2.0]}, "lower=None"),
        ({"upper": 5.0}, "outside"),
        ({"lower": 5.0, "upper": 2.0}, "lower must lie below upper"),
        ({"targets": "median"}, "'maximum', 'minimum'"),
        ({"targets": 1.0}, "strictly between 0 and 1"),
        ({"targets": OrderStatistic(61)}, "between 1 and 60"),
        ({"targets": Record(3)}, "a target with a rank"),
        ({"targets": 3}, "a target with a rank"),
        ({"targets": []}, "must not be empty"),
        ({"targets": ["maximum", Maximum()]}, "differ"),
        ({"knowledge": "record"}, "'index', 'position'"),
        ({"knowledge": ["index", "index"]}, "each entry once"),
        ({"method": "paper"}, "'simulate', 'exact'"),
        ({"replicates": 0}, "at least 1"),
        ({"seed": -1}, "seed must be"),
        ({"times": 2.0}, "go together"),
        ({"where": [True], "times": 2.0}, "60 records"),
        ({"where": lambda x: x, "times": 2.0}, "boolean"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(InputError, match=words):
        empirical(**{"data": X, "noise_variance": GRID, **options})


# -- the drawing -------------------------------------------------------------------------------------------------------


def texts(ax):
    return [t.get_text() for t in ax.texts]


def test_names_stand_on_the_curves_and_risk_is_logarithmic():
    four = [
        Curve(n=200, knowledge="record"),
        Curve(n=200),
        Curve(n=200, target="percentile", p=0.99),
        Curve(n=200, target="maximum", knowledge="sample"),
    ]
    ax = plots.knowledge(map_curves(four, np.linspace(0.0, 1.5, 76)), max_risk=5)
    assert ax.get_yscale() == "log" and ax.get_xscale() == "linear"
    legend = [] if ax.get_legend() is None else [t.get_text() for t in ax.get_legend().get_texts()]
    for name in ("typical, record", "typical, population", "percentile, population", "maximum, sample"):
        assert name in texts(ax) + legend
    assert "threshold 5" in texts(ax)
    assert sum(t.startswith("variance") for t in texts(ax)) >= 1  # where a curve meets the threshold
    assert "better →" in ax.get_xlabel() and "← better" in ax.get_ylabel()
    # Texts do not overlap each other.
    ax.figure.canvas.draw()
    boxes = [t.get_window_extent() for t in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])
    # Infinite risk at no noise: a triangle at the edge.
    assert any(line.get_marker() == "^" for line in ax.lines)


def test_methods_share_a_colour_and_simulations_have_bars():
    rumap = empirical(X, V * np.linspace(0.05, 1, 12), ["maximum", "minimum"], "position", seed=1, method=BOTH)
    ax = plots.knowledge(rumap, max_risk=1 / (0.2 * V), title="Two ends")
    assert len(ax.containers) == 2 and ax.get_title() == "Two ends"
    colours = {line.get_color() for line in ax.lines if len(line.get_xdata()) == 12}
    assert len(colours) == 2
    legend = [t.get_text() for t in ax.get_legend().get_texts()]
    assert {"simulate", "exact", "bars: one standard error"} <= set(legend)


def test_other_axes_names_and_maps():
    rumap = map_curves([Curve(n=20, knowledge="record"), Curve(n=20)], [0.01, 0.1, 1.0])
    _, ax = plt.subplots()
    assert (
        plots.knowledge(
            rumap, ax=ax, against="variance", log=True, names={"record knowledge": "row"}, risk_range=(0.1, 1000)
        )
        is ax
    )
    assert ax.get_xlabel() == "noise variance" and ax.get_xscale() == "log" and ax.get_ylim() == (0.1, 1000)
    assert "row" in texts(ax)
    both = RUMap.concat(
        [empirical(X, GRID, 0.9, "index", seed=1), empirical(X, GRID, 0.9, "index", seed=1, where=X > 25, times=2)],
        names=["equal", "unequal"],
    )
    ax = plots.knowledge(both)
    assert {"equal: percentile 0.9, index", "unequal: percentile 0.9, index"} <= set(texts(ax))
    assert plots.knowledge(RUMap.build(labels=["a"], intruder=[1.0], scientist=[1.0])).get_xlim()[0] < 1


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("against", ["utility", "variance"])
def test_the_mark_of_a_crossing_lies_on_the_drawn_line_however_sparse_the_grid(against, log):
    """Two far releases on each side of the threshold: U is a power of the variance, so that the crossing is known."""
    v = np.array([0.5, 8.0])
    rumap = RUMap.build(
        labels=Labels(["a", "b"], technique="row known: Noise", parameters={"variance": v}),
        intruder=v**2,
        scientist=3 * v**0.5,
    )
    truth = 2.0  # risk 1/4
    ax = plots.knowledge(rumap, max_risk=0.25, against=against, log=log)
    (mark,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert mark.get_ydata()[0] == 0.25
    assert mark.get_xdata()[0] == pytest.approx(truth if against == "variance" else 1 / (3 * truth**0.5), rel=1e-12)
    assert any(text.get_text() == "variance 2" for text in ax.texts)
    (curve,) = [line for line in ax.lines if line.get_ls() == "-" and len(line.get_xdata()) > 2]
    corners = ax.transData.transform(curve.get_xydata())
    point = ax.transData.transform(mark.get_xydata())[0]
    ways = np.diff(corners, axis=0)
    along = np.clip(np.sum((point - corners[:-1]) * ways, axis=1) / np.sum(ways**2, axis=1), 0, 1)
    assert np.hypot(*(corners[:-1] + along[:, None] * ways - point).T).min() < 1e-6
    plt.close(ax.figure)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"against": "varaince"}, "Did you mean 'variance'"),
        ({"log": "z"}, "log must be"),
        ({"risk_range": (2, 1)}, "lower and an upper end"),
        ({"log": "x", "against": "variance"}, "positive values"),
    ],
)
def test_bad_input_to_the_drawing(options, words):
    with pytest.raises(InputError, match=words):
        plots.knowledge(map_curves([Curve(n=20)], [0.0, 0.1, 1.0]), **options)


def test_no_noise_has_no_place_on_a_logarithmic_axis():
    ax = plots.knowledge(map_curves([Curve(n=20, knowledge="record")], [0.0, 0.1, 1.0]), log="x", against="variance")
    assert ax.get_xscale() == "log" and not any(line.get_marker() == "^" for line in ax.lines)


def test_nothing_to_draw():
    with pytest.raises(InputError, match="nothing to draw"):
        plots.knowledge(RUMap.build(labels=["a", "b"], intruder=[0.0, 0.0], scientist=[1.0, 1.0]))
