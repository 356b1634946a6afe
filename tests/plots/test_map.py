"""Pictures of maps: what is drawn, where, and that texts neither overlap nor leave the axes."""

import io
import itertools
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.text import Annotation, Text

import ruvdecision as ruv
from ruvdecision import plots, report
from ruvdecision.errors import InputError
from ruvdecision.maps import Labels, Provenance, RUMap
from ruvdecision.maps.scores import Column
from ruvdecision.masks import Microaggregate, Noise, Release, Suppress
from ruvdecision.plots.labels import pick_spread_points
from ruvdecision.protocols import Value

AVERAGE = Microaggregate(groups=1)
GRID = np.unique(np.r_[np.geomspace(0.01, 1600, 120).round(4), 0.5, 2, 2.08, 10, 100])


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def formula(noise, k, n=10, s2=2.0, f2=5.0):
    """T-F example 1: U of the intruder and of the scientist with groups of k (FORMULAS section 2)."""
    noise = np.asarray(noise, dtype=float)
    v, rho = 1 / (1 / f2 + n / (s2 + noise)), s2 / (s2 + noise)
    return s2 * (1 - rho / k) + (1 - rho) ** 2 * v, v


def example_1(released=False):
    masks = [Suppress(), AVERAGE, *(Noise(variance=float(g)) | AVERAGE for g in GRID)]
    intruder, scientist = (np.r_[a, b, c] for a, b, c in zip((7, 5), formula(0, 10), formula(GRID, 10), strict=True))
    if released:
        masks, intruder, scientist = [*masks, Release()], np.r_[intruder, 0.0], np.r_[scientist, formula(0, 1)[1]]
    return RUMap.build(
        masks=masks, intruder=intruder, scientist=scientist, before=(7.0, 5.0), provenance=Provenance(engine="exact")
    )


def legend_of(ax):
    return [t.get_text() for t in ax.get_legend().get_texts()]


def boxes_of(ax):
    ax.get_figure(root=True).draw_without_rendering()
    return {t.get_text(): Text.get_window_extent(t) for t in ax.texts if isinstance(t, Annotation)}


def assert_tidy(ax):
    """No text overlaps another or leaves the axes, and the legend lies beside the axes but inside the figure."""
    boxes, frame = list(boxes_of(ax).values()), ax.get_window_extent()
    for box in boxes:
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1
        assert frame.y0 <= box.y0 < box.y1 <= frame.y1
    for a, b in itertools.combinations(boxes, 2):
        assert not a.overlaps(b)
    whole = ax.figure.bbox
    legend = ax.get_legend().get_window_extent()
    assert legend.x0 >= frame.x1
    assert legend.x1 <= whole.x1 + 1
    assert legend.y0 >= whole.y0 - 1
    for label in (ax.xaxis.label, ax.yaxis.label):
        box = label.get_window_extent()
        assert box.x0 >= whole.x0 - 1
        assert box.y0 >= whole.y0 - 1
        assert box.x1 <= whole.x1 + 1
        assert box.y1 <= whole.y1 + 1


def test_example_1():
    ax = example_1().plot(max_risk=0.5)
    assert_tidy(ax)
    assert {
        "Suppress",
        "Microaggregate",
        "Noise | Microaggregate",
        "threshold: risk at most 0.5",
        "chosen release",
    } < set(legend_of(ax))
    texts = list(boxes_of(ax))
    assert "Noise(variance=2.08) |\nMicroaggregate(groups=1)\nrisk 0.5, utility 2.65" in texts
    assert "threshold 0.5" in texts
    assert any(t.startswith("variance ") for t in texts)
    # The values marked along the curve are the round ones of the grid.
    assert {"10", "100"} < set(texts)
    assert ax.get_xlabel() == "data utility (1 / expected loss of the scientist)   better →"
    assert ax.get_ylabel() == "disclosure risk (1 / expected loss of the intruder)   ← better"
    curve = next(line for line in ax.lines if line.get_label() == "Noise | Microaggregate")
    risk, utility = (1 / u for u in formula(GRID, 10))
    np.testing.assert_allclose(curve.get_xdata(), utility, rtol=1e-14)
    np.testing.assert_allclose(curve.get_ydata(), risk, rtol=1e-14)


def test_curve_follows_the_parameter_not_the_order_given():
    rng = np.random.default_rng(1)
    grid = rng.permutation(GRID)
    u = formula(grid, 1)
    ax = RUMap.build(masks=[Noise(variance=float(g)) for g in grid], intruder=u[0], scientist=u[1]).plot()
    curve = next(line for line in ax.lines if line.get_label() == "Noise")
    assert np.all(np.diff(curve.get_xdata()) < 0)


def test_one_curve_for_each_value_of_a_second_parameter():
    pairs = [(float(g), k) for k in (1, 2, 5) for g in np.geomspace(0.1, 1000, 12)]
    u = np.array([formula(g, 10 / k) for g, k in pairs])
    ax = RUMap.build(
        masks=[Noise(variance=g) | Microaggregate(groups=k) for g, k in pairs], intruder=u[:, 0], scientist=u[:, 1]
    ).plot(max_risk=0.5)
    assert_tidy(ax)
    names = [n.replace("\n", " ") for n in legend_of(ax)]
    assert [n for n in names if "groups" in n] == [f"Noise | Microaggregate, groups={k}" for k in (1, 2, 5)]


def test_a_vector_of_noise_is_drawn_along_each_component():
    level = np.geomspace(0.1, 1000, 9)
    masks = [Noise(variance=[float(v), 0]) for v in level] + [Noise(variance=[0, float(v)]) for v in level]
    u = np.r_[5 + 10 * level / (level + 20), 5 + 5 * level / (level + 10)]
    ax = RUMap.build(masks=masks, intruder=u, scientist=u / 3).plot()
    assert {"Noise, variance[1]=0", "Noise, variance[0]=0"} < set(legend_of(ax))


def test_a_grid_in_two_parameters_is_a_cloud():
    pairs = [(float(a), float(b)) for a in range(1, 13) for b in range(1, 13)]
    u = np.array([a + 0.1 * b for a, b in pairs])
    ax = RUMap.build(masks=[Noise(variance=p) for p in pairs], intruder=u, scientist=u[::-1]).plot()
    cloud = next(line for line in ax.lines if line.get_label() == "Noise")
    assert cloud.get_linestyle() == "None"
    assert len(cloud.get_xdata()) == 144


def test_infinite_and_missing_values():
    ax = example_1(released=True).plot(max_risk=0.5)
    assert_tidy(ax)
    assert "triangle at the edge: infinite" in legend_of(ax)
    arrow = next(line for line in ax.lines if line.get_marker() == "^")
    assert arrow.get_xdata()[0] == pytest.approx(5.2)
    low, high = ax.get_ylim()
    assert low < arrow.get_ydata()[0] < high
    odd = RUMap.build(labels=list("abcd"), intruder=[0.0, np.inf, 2.0, np.nan], scientist=[0.0, 3.0, 0.0, 1.0])
    ax = odd.plot(max_risk=1)
    assert {"not drawn: 1 (no value)", "triangle at the edge: infinite"} < set(legend_of(ax))
    markers = {line.get_marker() for line in ax.lines}
    assert {"^", ">"} <= markers
    assert "chosen: c" in legend_of(ax)
    gone = RUMap.build(labels=["a"], intruder=[np.nan], scientist=[1.0])
    with pytest.raises(InputError, match="nothing to draw"):
        gone.plot()
    only = RUMap.build(labels=["a"], intruder=[0.0], scientist=[0.0]).plot()
    assert "a" in legend_of(only)
    falls = RUMap.build(
        labels=["a", "b"], intruder=[np.inf, 1.0], scientist=[np.inf, 1.0], risk="negative_log", utility="negative_log"
    ).plot()
    assert "v" in {line.get_marker() for line in falls.lines}


def test_errors_and_convergence():
    grid = np.geomspace(0.1, 100, 8)
    u = formula(grid, 1)
    good = [True, True, False, True, True, True, True, False]
    rumap = RUMap.build(
        masks=[Noise(sd=float(g)) for g in grid],
        intruder=Value(u[0], 0.05 * u[0]),
        scientist=Value(u[1], 0.04 * u[1]),
        columns={"converged": good},
    )
    ax = rumap.plot(max_risk=1.0)
    assert {"open marker: not converged", "bars: one standard error"} < set(legend_of(ax))
    bars = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert [len(c.get_segments()) for c in bars] == [8, 8]
    assert not [text for text in legend_of(ax) if "one release" in text]
    across = bars[0].get_segments()[0]
    assert across[1][0] - across[0][0] == pytest.approx(2 * rumap.utility_error[0])
    opened = [line for line in ax.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata()) == 2]
    assert opened[0].get_xdata().tolist() == rumap.utility[[2, 7]].tolist()
    exact = example_1().plot()
    assert not [c for c in exact.collections if isinstance(c, LineCollection)]
    cloud = RUMap.build(labels=["a"], intruder=[1.0], scientist=[1.0], columns={"converged": [False]}).plot()
    assert next(line for line in cloud.lines if line.get_label() == "a").get_markerfacecolor() == "none"


def test_points_of_one_release_say_that_their_error_is_unknown():
    grid = np.geomspace(0.1, 100, 4)
    u = formula(grid, 1)
    rumap = RUMap.build(
        masks=[Noise(sd=float(g)) for g in grid],
        intruder=Value(u[0], np.array([np.nan, 0.1, 0.1, 0.1])),
        scientist=Value(u[1], np.array([np.nan, 0.1, 0.1, 0.1])),
        columns={"intruder_releases": [1, 40, 40, 40]},
    )
    assert "no bars: one release" in legend_of(rumap.plot())


def test_log_axes_where_values_span_decades():
    grid = np.geomspace(1e-5, 100, 30)
    u = formula(grid, 1)
    rumap = RUMap.build(masks=[Noise(variance=float(g)) for g in grid], intruder=u[0], scientist=u[1])
    ax = rumap.plot(max_risk=2)
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
    assert_tidy(ax)
    assert rumap.plot(log=False).get_yscale() == "linear"
    assert rumap.plot(log="x").get_xscale() == "log"
    assert rumap.plot(log=True).get_xscale() == "log"
    assert example_1().plot().get_yscale() == "linear"
    gains = example_1().with_risk("gain")
    with pytest.raises(InputError, match="positive"):
        gains.plot(log="y")
    with pytest.raises(InputError, match="log must be one of"):
        rumap.plot(log="z")


@pytest.mark.campaign(5, "slow")
@pytest.mark.parametrize("count", [1, 2, 3, 6, 16])
def test_any_number_of_techniques(count):
    grid = np.geomspace(0.01, 100, 30)
    masks, u = [], []
    for j in range(count):
        masks += [Noise(variance=float(g)) for g in grid]
        u += list(formula(grid, 1)[0] + 0.3 * j)
    labels = [f"{m} in state {i // 30}" for i, m in enumerate(masks)]
    rumap = RUMap.build(
        masks=masks,
        labels=Labels(labels, technique=[f"state {i // 30}" for i in range(len(masks))]),
        intruder=u,
        scientist=list(formula(grid, 1)[1]) * count,
    )
    ax = rumap.plot(max_risk=0.6)
    assert_tidy(ax)
    curves = [line for line in ax.lines if str(line.get_label()).startswith("state")]
    assert len({(c.get_color(), c.get_linestyle()) for c in curves}) == count


@pytest.mark.slow
def test_one_point_ties_and_thousands():
    assert_tidy(RUMap.build(labels=["only"], intruder=[2.0], scientist=[2.0]).plot(max_risk=0.6))
    ties = RUMap.build(labels=list("abcd"), intruder=[2.0, 2, 3, 3], scientist=[2.0, 2, 1, 1]).plot(max_risk=0.6)
    assert_tidy(ties)
    sizes = [next(line for line in ties.lines if line.get_label() == x).get_markersize() for x in "ab"]
    assert sizes[0] > sizes[1]  # the first shows as a ring around the second
    u = formula(GRID, 10)
    same = RUMap.build(
        labels=Labels(
            [f"{name}{i}" for name in "xy" for i in range(len(GRID))],
            technique=[name for name in "xy" for _ in GRID],
            parameters={"variance": np.r_[GRID, GRID]},
        ),
        intruder=np.r_[u[0], u[0]],
        scientist=np.r_[u[1], u[1]],
    ).plot()
    widths = [next(line for line in same.lines if line.get_label() == x).get_linewidth() for x in "xy"]
    assert widths == [5, 2]  # a tied curve shows as a rim
    rng = np.random.default_rng(3)
    points = rng.gamma(3, size=(2, 2000)) + 0.1
    cloud = RUMap.build(
        labels=Labels([f"r{i}" for i in range(2000)], technique=["A"] * 1000 + ["B"] * 1000),
        intruder=points[0],
        scientist=points[1],
    )
    assert_tidy(cloud.plot(max_risk=1))


def test_frontier_is_a_staircase():
    rumap = RUMap.build(labels=list("abc"), intruder=[4.0, 2.0, 1.5], scientist=[1.0, 0.5, 2.0])
    ax = rumap.plot()
    band = next(line for line in ax.lines if str(line.get_label()).startswith("frontier"))
    # Utility above 1 needs release b, so the corner is at (1, risk of b).
    assert band.get_xydata().tolist() == [[1, 0.25], [1, 0.5], [2, 0.5]]
    assert not [line for line in rumap.plot(frontier=False).lines if str(line.get_label()).startswith("frontier")]


def test_infeasible_threshold_is_drawn_and_said():
    ax = example_1().plot(max_risk=0.1)
    assert "no release meets the threshold" in legend_of(ax)
    assert "chosen release" not in legend_of(ax)
    assert ax.get_ylim()[0] < 0.1
    with pytest.raises(InputError, match="max_risk"):
        example_1().plot(max_risk=-1)
    everything = example_1().plot(max_risk=np.inf)
    assert "chosen release" in legend_of(everything)


def test_own_axes_are_used_and_make_room():
    figure, axes = plt.subplots(1, 2, figsize=(13, 5))
    for ax in axes:
        assert plots.rumap(example_1(), 0.4, ax) is ax
    assert len(plt.get_fignums()) == 1
    figure.draw_without_rendering()
    assert_tidy(axes[1])
    assert axes[0].get_legend().get_window_extent().x1 <= axes[1].get_window_extent().x0
    bare = example_1().plot(legend=False, labels=False, title="cost $5")
    assert bare.get_legend() is None
    assert len(bare.texts) == 0
    assert bare.get_title() == r"cost \$5"


def test_subfigures_and_layout_engines():
    figure = plt.figure(layout="constrained", figsize=(14, 5))
    for part in figure.subfigures(1, 2):
        ax = example_1().plot(max_risk=0.5, ax=part.subplots())
        assert any("2.08" in t for t in boxes_of(ax))
        assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1


def test_odd_names_are_drawn_as_they_are(tmp_path):
    rumap = RUMap.build(
        labels=["$x", "_hidden", "a$b$\\frac", "very long name without any space " * 3],
        intruder=[4.0, 3, 2, 1],
        scientist=[4.0, 3, 2, 1],
    )
    ax = rumap.with_risk(lambda u: 1 / (1 + u)).plot(max_risk=0.3)
    ax.figure.savefig(tmp_path / "map.png")
    ax.figure.savefig(tmp_path / "map.svg")
    assert legend_of(ax)[1:3] == [r"\$x", " _hidden"]


def test_a_column_names_its_axis():
    rumap = RUMap.build(
        labels=["a", "b"],
        columns={"linkage": [0.1, 0.5], "KL": [2.0, 0.1]},
        risk="linkage",
        utility=Column("KL", "reciprocal"),
    )
    ax = rumap.plot(max_risk=0.2)
    assert ax.get_ylabel() == "disclosure risk (linkage)   ← better"
    assert "reciprocal of KL" in ax.get_xlabel()


def test_marks_are_spread_and_round():
    path = np.column_stack([np.linspace(0, 500, 101), np.zeros(101)])
    values = np.linspace(0, 10, 101)
    chosen = pick_spread_points(path, values)
    assert np.all(np.diff(path[chosen, 0]) >= 45)
    assert all(values[i] == round(values[i]) for i in chosen)
    assert 4 <= len(chosen) <= 6
    assert len(pick_spread_points([[0, 0], [1, 0]], [1, 2])) == 1


@pytest.mark.slow
def test_importing_does_not_import_matplotlib():
    code = "import sys, ruvdecision.plots.map, ruvdecision.maps.rumap; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_crowd_is_pixels_in_a_vector_file_and_its_bars_lie_where_they_should(monkeypatch):
    """Shapes for each release of a large map would be megabytes; the bars are those that a small map has."""
    from ruvdecision.plots import map as plots

    n = 60
    rng = np.random.default_rng(2)
    error = np.where(np.arange(n) == 7, np.inf, 0.05)
    rumap = RUMap.build(
        labels=Labels([f"r{i}" for i in range(n)], technique="cloud"),
        intruder=Value(rng.uniform(1, 3, n), error),
        scientist=Value(rng.uniform(1, 3, n), 0.05 * np.ones(n)),
    )

    def drawn():
        ax = rumap.plot(legend=False)
        file = io.BytesIO()
        ax.figure.savefig(file, format="svg")
        bars = [c for c in ax.collections if c.get_zorder() == 2.5]
        ends = [np.concatenate([p.vertices for p in c.get_paths()]) for c in bars]
        limits = ax.get_xlim() + ax.get_ylim()
        plt.close(ax.figure)
        return file.getvalue().decode(), np.concatenate(ends), limits

    shapes, one_by_one, limits = drawn()
    monkeypatch.setattr(plots, "CROWD", 50)
    pixels, together, same = drawn()
    assert "data:image/png" in pixels and "data:image/png" not in shapes
    assert pixels.count("<use ") < shapes.count("<use ") - n // 2
    assert len(together) == 4 * n and same == limits
    np.testing.assert_allclose(sorted(together.tolist()), sorted(one_by_one.tolist()), rtol=1e-12)


# -- units ---------------------------------------------------------------------------------------------


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("score", ["reciprocal", "relative_gain"])
def test_far_axes_tell_typical_errors_in_the_unit_of_the_data(score):
    belief = ruv.NormalBelief(records=10, variance=2e6, prior_variance=5e6)
    users = {"intruder": ruv.User(belief, ruv.Record(0), ruv.Quadratic())}
    users["scientist"] = ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())
    masks = [ruv.Noise(variance=v) for v in np.geomspace(1e5, 1e8, 12)]
    rumap = ruv.evaluate(masks, risk=score, utility=score, **users)
    assert rumap.plot().child_axes == []  # nobody knows the unit
    rumap = rumap.with_unit("$")
    table = rumap.to_dataframe()
    assert np.allclose(table["intruder_typical_error"] ** 2, table["intruder_uncertainty"], rtol=1e-12)
    found = {str(axes.get_xlabel() or axes.get_ylabel()): axes for axes in rumap.plot().child_axes}
    assert set(found) == {"scientist typically off by", "intruder typically off by"}
    for who, axes in zip(("scientist", "intruder"), found.values(), strict=True):
        axis = axes.xaxis if who == "scientist" else axes.yaxis
        off = [float(label.get_text().lstrip("\\$").replace(",", "")) for label in axis.get_ticklabels()]
        before = 7e6 if who == "intruder" else 5e6
        u = np.array(off) ** 2
        with np.errstate(divide="ignore"):
            expected = 1 / u if score == "reciprocal" else 1 - u / before
        assert len(off) >= 2 and np.allclose(axis.get_ticklocs(), expected, rtol=1e-9)
    row = report.render_report(rumap, format="md", date=None)
    assert "intruder off by ($)" in row.replace("\\", "")
