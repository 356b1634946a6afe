"""The gallery: what is drawn is what was computed, names stand where the things are, and dark paper can be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from ruvdecision import plots
from ruvdecision.analyses.publishing import price_of_publishing
from ruvdecision.analyses.record_risk import record_risk
from ruvdecision.analyses.sensitivity import sensitivity
from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.decide import Weighted
from ruvdecision.errors import InputError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, LogScore, Quadratic, ZeroOne
from ruvdecision.maps import Labels, RUMap
from ruvdecision.masks import Microaggregate, Noise, Release, Suppress
from ruvdecision.measures import TableUtility
from ruvdecision.plots.gallery import _maps_per_row
from ruvdecision.plots.theme import DARK, LIGHT, look_of, theme
from ruvdecision.protocols import Value
from ruvdecision.scenarios import additive_noise
from ruvdecision.targets import Parameter, Record
from ruvdecision.users.user import User

BELIEF = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
INTRUDER, SCIENTIST = User(BELIEF, Record(0), Quadratic()), User(BELIEF, Parameter("mu"), Quadratic())
AVERAGE = Microaggregate(groups=1)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def example(variance: float = 2.0) -> RUMap:
    belief = NormalBelief(records=10, variance=variance, prior_mean=0, prior_variance=5)
    masks = [
        Suppress(),
        AVERAGE,
        *(Noise(variance=v) | AVERAGE for v in (0.5, 2.0, 8.0)),
        *(Noise(variance=v) for v in (4.0, 16.0)),
    ]
    users = (User(belief, t, Quadratic()) for t in (Record(0), Parameter("mu")))
    return evaluate(masks, intruder=next(users), scientist=next(users))


def luminance(colour: Any) -> float:
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a: Any, b: Any) -> float:
    high, low = sorted([luminance(a), luminance(b)], reverse=True)
    return (high + 0.05) / (low + 0.05)


# -- paper ---------------------------------------------------------------------------------------------


def test_every_colour_can_be_seen_on_dark_paper() -> None:
    assert min(contrast(c, DARK.paper) for c in DARK.colours) >= 4.5
    assert contrast(DARK.ink, DARK.paper) > 12
    assert min(contrast(c, LIGHT.paper) for c in LIGHT.colours) >= 2
    assert len(set(DARK.colours)) == len(DARK.colours) == len(LIGHT.colours)


def test_a_theme_is_over_when_it_is_over() -> None:
    before = dict(plt.rcParams)
    with theme("dark"):
        assert look_of(plt.figure().subplots()) is DARK
    assert dict(plt.rcParams) == before
    assert look_of(plt.figure().subplots()) is LIGHT
    with plt.style.context("dark_background"):
        assert look_of(plt.figure().subplots()) is DARK  # it follows matplotlib's own styles
    clear = plt.figure(facecolor="black").subplots()
    clear.patch.set_alpha(0.0)
    assert look_of(clear) is DARK
    with pytest.raises(InputError, match="style"), theme("blue"):
        pass


def test_a_map_on_dark_paper_can_be_read() -> None:
    with theme("dark"):
        ax = plots.rumap(example(), 0.5)
    ax.figure.draw_without_rendering()
    assert {line.get_color() for line in ax.get_lines()} & set(DARK.colours[:4])
    for note in ax.texts:
        box = note.get_bbox_patch()
        behind = box.get_facecolor() if box is not None else DARK.paper
        assert contrast(note.get_color(), behind) >= 4.5, note.get_text()
    assert all(contrast(t.get_color(), DARK.paper) > 7 for t in ax.get_legend().get_texts())
    assert contrast(ax.xaxis.label.get_color(), DARK.paper) > 7


def draw_knowledge() -> Any:
    rumap = additive_noise(
        n=20,
        variance=1,
        noise_variance=[0.1, 0.3, 1.0],
        knowledge=["record", "sample", "population"],
        method=["paper", "bayes"],
    )
    return plots.knowledge(rumap, max_risk=2)


def draw_tornado() -> Any:
    masks = [Noise(variance=v) | AVERAGE for v in (1.0, 2.0, 4.0)]
    vary = {"intruder.belief.prior_variance": [1, 25]}
    return plots.tornado(sensitivity(masks, vary, intruder=INTRUDER, scientist=SCIENTIST, max_risk=0.5))


def draw_record_risk() -> Any:
    masks = [Noise(variance=1.0), AVERAGE, Suppress()]
    return plots.record_risk(record_risk(masks, intruder=INTRUDER), max_risk=1.0)


def draw_publishing() -> Any:
    masks = [Noise(variance=v) for v in (1.0, 4.0)]
    return plots.publishing(
        price_of_publishing(masks, intruder=INTRUDER, scientist=SCIENTIST, replicates=5, seed=1), max_risk=1.0
    )


@pytest.mark.long
@pytest.mark.parametrize("draw", [draw_knowledge, draw_tornado, draw_record_risk, draw_publishing])
def test_every_other_picture_follows_its_paper(draw: Any) -> None:
    """Names, lines, marks and bars stand out from dark paper; on light paper they have the colours of light paper."""
    with theme("dark"):
        ax = draw()
    ax.figure.draw_without_rendering()
    written = [t for t in (*ax.texts, *ax.get_xticklabels(), ax.xaxis.label, ax.title) if t.get_text()]
    written += ax.get_legend().get_texts() if ax.get_legend() else []
    assert written and min(contrast(t.get_color(), DARK.paper) for t in written) >= 4.5
    lines = [line.get_color() for line in ax.get_lines() if len(line.get_xdata())]
    bars = [patch.get_facecolor() for patch in ax.patches]
    assert lines + bars and min(contrast(c, DARK.paper) for c in lines + bars) >= 4.5
    with theme("light"):
        light = draw()
    own = [line.get_color() for line in light.get_lines()] + [patch.get_facecolor() for patch in light.patches]
    assert {to_rgb(c) for c in own} & {to_rgb(c) for c in LIGHT.colours}


def test_the_star_follows_the_rule() -> None:
    sampled = Value(np.array([4.0, 2.0, 1.0]), np.array([0.0, 0.2, 0.0]))
    rumap = RUMap.build(labels=["a", "b", "c"], intruder=sampled, scientist=[1.0, 0.5, 0.25])

    def star(**options: Any) -> float:
        (found,) = [line for line in plots.rumap(rumap, **options).get_lines() if line.get_marker() == "*"]
        return float(found.get_xdata()[0])

    assert star(max_risk=0.5) == 2.0
    assert star(max_risk=0.5, rule={"confidence": 0.95}) == 1.0
    assert star(rule={"by": Weighted({"utility": 1.0, "risk": 0.1})}) == 4.0


# -- several maps --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_maps_side_by_side_share_the_risk_axis() -> None:
    maps = {f"variance {v:g}": example(v) for v in (1.0, 2.0, 4.0)}
    figure = plots.maps(maps, 0.5)
    assert len(figure.axes) == 3
    assert len({ax.get_ylim() for ax in figure.axes}) == 1
    low, top = figure.axes[0].get_ylim()
    for ax, (name, rumap) in zip(figure.axes, maps.items(), strict=True):
        first, *rest = ax.get_title().split("\n")
        assert first == name
        assert " ".join(rest) == f"chosen: {rumap.choose(max_risk=0.5).release}"
        assert rumap.risk.max() < top
        assert rumap.risk.min() > low
        stars = [line for line in ax.get_lines() if line.get_marker() == "*"]
        assert [float(s.get_ydata()[0]) for s in stars] == [rumap.choose(max_risk=0.5).risk]
        shade = next(p for p in ax.patches if isinstance(p, Rectangle))
        assert shade.get_y() + shade.get_height() == pytest.approx(top)
    (legend,) = figure.legends
    texts = [t.get_text() for t in legend.get_texts()]
    assert len(texts) == len(set(texts))
    assert {"Suppress", "Microaggregate", "chosen release"} <= set(texts)
    assert [bool(ax.get_ylabel()) for ax in figure.axes] == [True, False, False]


@pytest.mark.parametrize(("count", "across"), [(1, 1), (2, 2), (3, 3), (4, 2), (6, 3), (10, 5), (12, 4)])
def test_few_places_stay_empty(count: int, across: int) -> None:
    assert _maps_per_row(count) == across


@pytest.mark.slow
def test_empty_places_are_taken_away() -> None:
    one = RUMap.build(labels=["a"], intruder=[1.0], scientist=[1.0])
    figure = plots.maps([one] * 3, across=2)
    assert len(figure.axes) == 3
    assert [bool(ax.get_ylabel()) for ax in figure.axes] == [True, False, True]
    assert [bool(ax.get_xlabel()) for ax in figure.axes] == [False, True, True]


def test_maps_with_their_own_thresholds_axes_and_figure() -> None:
    mine = plt.figure(figsize=(9, 4), layout="constrained")
    maps = {"a": example(1.0), "b": example(4.0)}
    assert plots.maps(maps, {"a": 0.9}, mine, share=False, labels=True) is mine
    assert len({ax.get_ylim() for ax in mine.axes}) == 2
    assert any("variance" in t.get_text() for t in mine.axes[0].texts)
    assert not [line for line in mine.axes[1].get_lines() if line.get_marker() == "*"]
    assert "no release meets the threshold" in plots.maps([maps["a"]], 0.01).axes[0].get_title()


def test_texts_beside_points_stay_in_their_own_map() -> None:
    """Places are measured in the layout that the whole figure has in the end, with its legend and shared labels."""
    figure = plots.maps({"a": example(1.0), "b": example(4.0)}, 0.9, labels=True)
    figure.draw_without_rendering()
    for ax in figure.axes:
        box = ax.get_window_extent()
        written = [t.get_window_extent() for t in ax.texts if "risk" not in t.get_text()]
        assert len(written) > 1
        assert all(box.x0 <= t.x0 and t.x1 <= box.x1 and box.y0 <= t.y0 and t.y1 <= box.y1 for t in written)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"maps": []}, "maps must not be empty"),
        ({"maps": [3]}, "maps must be an RUMap"),
        ({"names": ["x"]}, "2 different texts"),
        ({"max_risk": {"z": 1.0}}, "not there"),
        ({"across": 0}, "across"),
        ({"style": "grey"}, "style"),
        ({"title": "x"}, "itself"),
        ({"figure": "new", "style": "dark"}, "new figure"),
    ],
)
def test_bad_arguments_of_maps(arguments: dict[str, Any], words: str) -> None:
    one = RUMap.build(labels=["a"], intruder=[1.0], scientist=[1.0])
    if arguments.get("figure") == "new":
        arguments = {**arguments, "figure": plt.figure()}
    with pytest.raises(InputError, match=words):
        plots.maps(**{"maps": [one, one], **arguments})


def test_maps_that_measure_risk_differently_cannot_share_an_axis() -> None:
    one = RUMap.build(labels=["a"], intruder=[1.0], scientist=[1.0])
    with pytest.raises(InputError, match="alike"):
        plots.maps([one, one.with_risk("negative_log")])
    assert len(plots.maps([one, one.with_risk("negative_log")], share=False).axes) == 2


# -- posteriors ----------------------------------------------------------------------------------------


def curves(ax: Any, solid: bool) -> list[tuple[Any, Any]]:
    lines = [line for line in ax.get_lines() if len(line.get_xdata()) > 100]
    return [(line.get_xdata(), line.get_ydata()) for line in lines if (line.get_linestyle() == "-") == solid]


def test_posteriors_are_the_laws_that_bayes_rule_gives() -> None:
    records = np.linspace(-2.0, 3.0, 10)
    masks = [Noise(variance=1.0), Noise(variance=9.0)]
    released = [m.release(records, 5) for m in masks]
    ax = plots.posteriors(INTRUDER, masks, release=released)
    drawn = curves(ax, solid=True)
    tops = []
    for row, ((x, y), mask, y_all) in enumerate(zip(drawn, masks, released, strict=True)):
        # Bayes' rule by hand, for the whole vector of records.
        prior = 2 * np.eye(10) + 5
        gain = prior @ np.linalg.inv(prior + mask.variance * np.eye(10))
        law = scipy.stats.norm((gain @ y_all)[0], np.sqrt((prior - gain @ prior)[0, 0]))
        height = np.asarray(y) + row
        assert height / height.max() == pytest.approx(law.pdf(x) / law.pdf(x).max(), rel=1e-9)
        tops.append(height.max() / law.pdf(x).max())
        assert float(law.cdf(x[-1]) - law.cdf(x[0])) == pytest.approx(0.998, abs=1e-6)
    assert tops[0] == pytest.approx(tops[1])  # one scale: equal areas
    outlines = curves(ax, solid=False)
    assert len(outlines) == 2
    flat = scipy.stats.norm(0, np.sqrt(7)).pdf(outlines[0][0])
    assert np.asarray(outlines[0][1]) == pytest.approx(tops[0] * flat, rel=1e-9)
    assert [t.get_text() for t in ax.texts] == ["U = 0.698", "U = 2.24"]
    assert [t.get_text() for t in ax.get_yticklabels()] == [str(m) for m in masks]
    assert ax.get_xlabel() == "record 0"


def test_records_are_drawn_from_the_belief_by_the_seed() -> None:
    masks = [Noise(variance=1.0)]
    first, again, other = (curves(plots.posteriors(SCIENTIST, masks, seed=s), True)[0][0][0] for s in (1, 1, 2))
    assert first == again != other
    data = np.arange(10.0)
    given = [
        curves(plots.posteriors(SCIENTIST, masks, data=data, seed=s, prior=False), True)[0][0].mean() for s in (1, 2)
    ]
    assert given[0] != given[1]
    assert abs(given[0] - 4.5) < 1.5


def test_certainty_is_a_line_and_finite_laws_are_bars() -> None:
    ax = plots.posteriors(INTRUDER, [Release(), Suppress()], data=np.arange(10.0), truth=0.0)
    assert any(np.allclose(line.get_xdata(), 0.0) and np.ptp(line.get_ydata()) > 0.8 for line in ax.get_lines())
    assert [t.get_text() for t in ax.texts] == ["U = 0", "U = 7"]
    assert "true value (confidential)" in [t.get_text() for t in ax.get_legend().get_texts()]
    finite = FiniteBelief(values=[0, 1, 2, 3], probabilities=[0.1, 0.2, 0.3, 0.4])
    for loss in (ZeroOne(), LogScore()):
        ax = plots.posteriors(User(finite, Record(0), loss), [Suppress(), Noise(sd=1.0)], data=np.array([2]), seed=1)
        bars = ax.collections[0].get_segments()
        heights = np.array([s[1][1] - s[0][1] for s in bars])
        assert heights / heights.sum() == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_a_flat_prior_is_not_drawn() -> None:
    belief = NormalBelief(records=5, variance=1, prior="flat")
    ax = plots.posteriors(User(belief, Record(0), Absolute()), [Noise(variance=1.0)], data=np.arange(5.0))
    assert curves(ax, solid=False) == []
    assert ax.get_legend() is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"masks": []}, "must not be empty"),
        ({"data": np.arange(10.0), "release": [np.arange(10.0)]}, "both"),
        ({"masks": [Suppress(), Release()], "release": [np.arange(10.0)]}, "one per mask"),
        ({"release": {"other": np.arange(10.0)}}, "no release"),
        ({"masks": [Noise(variance=float(v)) for v in range(1, 40)]}, "At most 30"),
    ],
)
def test_bad_arguments_of_posteriors(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plots.posteriors(INTRUDER, **{"masks": [Noise(variance=1.0)], **arguments})


def test_a_vector_is_refused_with_what_to_do() -> None:
    belief = NormalBelief(records=4, covariance=np.eye(2), prior_mean=[0, 0], prior_covariance=np.eye(2))
    with pytest.raises(InputError, match="Choose one component"):
        plots.posteriors(User(belief, Parameter("mu"), Quadratic()), [Noise(variance=1.0)], seed=1)
    assert plots.posteriors(User(belief, Parameter("mu", 1), Quadratic()), [Noise(variance=1.0)], seed=1).get_xlabel()


# -- uncertainty ---------------------------------------------------------------------------------------


def test_uncertainty_is_a_share_of_what_was_unknown() -> None:
    variances = np.array([0.5, 1.0, 2.0, 4.0])
    rumap = evaluate([Noise(variance=v) for v in variances[::-1]], intruder=INTRUDER, scientist=SCIENTIST)
    ax = plots.uncertainty(rumap, "variance")
    lines = {line.get_label(): line for line in ax.get_lines() if not line.get_label().startswith("_")}
    assert list(lines) == ["intruder", "scientist"]
    assert np.array_equal(lines["intruder"].get_xdata(), variances)
    assert lines["scientist"].get_ydata() == pytest.approx(1 / (1 + 5 * 10 / (2 + variances)))  # conjugate, U0 = 5
    assert lines["intruder"].get_linestyle() == "-"
    assert lines["scientist"].get_linestyle() == "--"
    assert [t.get_text() for t in ax.texts] == ["intruder", "scientist"]
    absolute = plots.uncertainty(rumap, relative=False, users=["scientist"])
    (line,) = [x for x in absolute.get_lines() if x.get_label() == "scientist"]
    assert line.get_ydata() == pytest.approx(5 / (1 + 50 / (2 + variances)))
    assert "expected loss" in absolute.get_ylabel()


def test_unconverged_points_are_open_and_errors_are_bars() -> None:
    u = Value(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.0]))
    rumap = RUMap.build(
        labels=Labels(["a", "b", "c"], technique="T", parameters={"level": [1.0, 2.0, 3.0]}),
        intruder=u,
        scientist=u,
        columns={"intruder_converged": [True, False, True]},
    )
    with theme("dark"):
        ax = plots.uncertainty(rumap, users=["intruder"])
    hollow = [line for line in ax.get_lines() if line.get_markerfacecolor() == DARK.paper and len(line.get_xdata())]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in hollow] == [(2.0, 2.0)]
    (bars,) = [c for c in ax.collections if len(c.get_segments()) == 2]
    assert [np.ptp(s[:, 1]) / 2 for s in bars.get_segments()] == pytest.approx([0.1, 0.2])


def test_techniques_are_told_apart_and_the_axis_is_logarithmic_where_it_helps() -> None:
    masks = [*(Noise(variance=v) for v in (0.1, 1.0, 10.0)), *(Noise(variance=v) | AVERAGE for v in (0.1, 1.0, 10.0))]
    ax = plots.uncertainty(evaluate(masks, intruder=INTRUDER, scientist=SCIENTIST), "variance")
    assert ax.get_xscale() == "log"
    names = [t.get_text() for t in ax.texts]
    assert sorted(names) == [
        "intruder, Noise",
        "intruder, Noise | Microaggregate",
        "scientist, Noise",
        "scientist, Noise | Microaggregate",
    ]
    ax.figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"parameter": "size"}, "varies"), ({"users": ["agency"]}, "users"), ({"relative": True}, "not known")],
)
def test_bad_arguments_of_uncertainty(arguments: dict[str, Any], words: str) -> None:
    rumap = RUMap.build(
        labels=Labels(["a", "b"], technique="T", parameters={"level": [1.0, 2.0]}),
        intruder=[1.0, 2.0],
        scientist=[1.0, 2.0],
    )
    with pytest.raises(InputError, match=words):
        plots.uncertainty(rumap, **arguments)


def test_a_map_of_measures_has_no_uncertainty() -> None:
    rumap = RUMap.build(labels=["a", "b"], columns={"x": [1.0, 2.0], "y": [1.0, 2.0]}, risk="x", utility="y")
    with pytest.raises(InputError, match="no uncertainty"):
        plots.uncertainty(rumap)


# -- three measures ------------------------------------------------------------------------------------


def measured(values: Any) -> RUMap:
    a, b, c = np.asarray(values, dtype=float).T
    better = {"linkage": "lower", "IO": "higher", "KL": "lower"}
    columns = {"linkage": a, "IO": b, "KL": c}
    return RUMap.build(
        labels=[f"r{i}" for i in range(len(a))], columns=columns, risk="linkage", utility="IO", attrs={"better": better}
    )


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=2, max_size=12))
def test_the_frontier_of_three_is_the_one_by_brute_force(values: list[tuple[int, int, int]]) -> None:
    def beats(p: Any, q: Any) -> bool:
        good = p[0] <= q[0], p[1] >= q[1], p[2] <= q[2]
        return all(good) and p != q

    expected = sorted((b, a, c) for a, b, c in values if not any(beats(p, (a, b, c)) for p in values))
    ax = plots.frontier3(measured(values), ["linkage", "IO", "KL"], names=False)
    dots = ax.collections[0]
    drawn = sorted(
        (*map(float, place), float(z)) for place, z in zip(dots.get_offsets(), dots.get_array(), strict=True)
    )
    assert drawn == [tuple(map(float, e)) for e in expected]
    plt.close("all")


def test_axes_colour_and_names_say_what_they_are() -> None:
    rumap = measured([(0.1, 0.2, 3.0), (0.5, 0.9, 1.0), (0.6, 0.8, 2.0)])
    ax = plots.frontier3(rumap, style="dark", columns=["linkage", "IO", "KL"])
    assert ax.get_title() == "2 of 3 releases are on the frontier of linkage, IO and KL"
    assert ax.get_ylabel().startswith("linkage")
    assert "← better" in ax.get_ylabel()
    assert "IO   better →" in ax.get_xlabel()
    assert ax.figure.axes[1].get_ylabel() == "KL (less is better)"
    assert {t.get_text() for t in ax.texts} == {"r0", "r1"}
    assert all(contrast(t.get_color(), DARK.paper) > 7 for t in ax.texts)
    assert ax.collections[0].get_cmap().name == "cividis"
    default = plots.frontier3(
        RUMap.build(
            labels=["a"], intruder=[1.0], scientist=[1.0], columns={"IO": [0.5]}, attrs={"better": {"IO": "higher"}}
        )
    )
    assert default.get_title().endswith("risk, utility and IO")


def test_unconverged_and_missing_releases_are_marked() -> None:
    rumap = RUMap.build(
        labels=["a", "b", "c"],
        intruder=[3.0, 2.0, 1.0],
        scientist=[3.0, 2.0, 1.0],
        columns={"IO": [0.1, 0.2, np.nan], "converged": [True, False, True]},
        attrs={"better": {"IO": "higher"}},
    )
    ax = plots.frontier3(rumap)
    assert "1 not drawn" in ax.get_title()
    (ring,) = [line for line in ax.get_lines() if line.get_label() == "not converged"]
    assert list(ring.get_xdata()) == [0.5]


def test_joined_maps_know_the_measure_that_each_of_them_knew():
    """They keep one list of better ends each."""
    ends = ({"IO": "higher"}, {"IO": "higher", "KL": "lower"})
    parts = [
        RUMap.build(
            labels=list(names), intruder=[3.0, 2.0], scientist=[3.0, 1.0], columns={"IO": [0.2, 0.3]}, attrs=attrs
        )
        for names, attrs in zip(("ab", "cd"), ({"better": known} for known in ends), strict=True)
    ]
    title = plots.frontier3(RUMap.concat(parts)).get_title()
    assert title == "4 of 4 releases are on the frontier of risk, utility and IO"


@pytest.mark.parametrize(("columns", "words"), [(["linkage", "IO"], "three columns"), (["linkage", "IO", "XX"], "XX")])
def test_bad_columns(columns: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plots.frontier3(measured([(1, 1, 1), (2, 2, 2)]), columns)


def test_nothing_to_draw() -> None:
    with pytest.raises(InputError, match="nothing to draw"):
        plots.frontier3(measured([(np.nan, 1, 1), (np.nan, 2, 2)]), ["linkage", "IO", "KL"])


def test_axes_of_the_callers_are_used() -> None:
    figure, axes = plt.subplots(1, 3)
    assert plots.posteriors(INTRUDER, [Suppress()], axes[0], seed=1) is axes[0]
    assert plots.uncertainty(example(), "variance", axes[1]) is axes[1]
    assert plots.frontier3(measured([(1, 1, 1), (2, 2, 2)]), ["linkage", "IO", "KL"], axes[2]) is axes[2]
    with pytest.raises(InputError, match="new figure"):
        plots.uncertainty(example(), "variance", axes[1], style="dark")
    assert plt.get_fignums() == [figure.number]


def test_tables_of_pairs() -> None:
    x = pd.DataFrame({"a": list("uuvv") * 5, "b": list("pqpq") * 5, "c": range(20)})
    y = x.assign(c=list(range(10)) * 2)
    found = TableUtility(way=[1, 2], groups=2)(x, y)
    ax = plots.tables(found, title="all pairs")
    drawn = ax.images[0].get_array()
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b", "c"] and found.table is not None
    assert (
        drawn[0, 2] == drawn[2, 0] == found.table.loc["a x c", "S_pMSE"]
        and drawn[2, 2] == found.table.loc["c", "S_pMSE"]
    )
    for bad in ((TableUtility()(x, y),), (found, "S_nothing")):
        with pytest.raises(InputError):
            plots.tables(*bad)
