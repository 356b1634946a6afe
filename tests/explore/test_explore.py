"""The page without a browser: controls, lessons, drawings, answers and the server; test_browser has the rest."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision import cli, explore as package
from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.errors import InfeasibleError, InputError
from ruvdecision.explore import LESSONS, Server, open_server, server as server_module
from ruvdecision.explore.axes import Scale, labels
from ruvdecision.explore.background import Runner
from ruvdecision.explore.controls import Pick, Slider, Switch, read_values
from ruvdecision.explore.desk import Desk
from ruvdecision.explore.examplefile import draw_example, panels_of
from ruvdecision.explore.lawdrawing import draw_panel
from ruvdecision.explore.lesson import BeliefPanel, Built, Law, Lesson
from ruvdecision.explore.mapdrawing import draw_map, series_of
from ruvdecision.explore.ranklaw import RankPrior, TabulatedRankPosterior
from ruvdecision.explore.scene import show
from ruvdecision.explore.server import _is_here
from ruvdecision.explore.study import StudyTopic
from ruvdecision.losses import Absolute, Quadratic
from ruvdecision.maps.rumap import RUMap
from ruvdecision.masks import Microaggregate, Noise, Release
from ruvdecision.posteriors import Drawn, Finite, Gaussian, Mixture
from ruvdecision.protocols import Value
from ruvdecision.scenarios import RankPosterior
from ruvdecision.studies import load_study
from ruvdecision.targets import Parameter, Record
from ruvdecision.users.user import User

LESSON = {lesson.name: lesson for lesson in LESSONS}
SENTINEL = "987654.321"


def defaults(lesson: Lesson, **changes: Any) -> dict[str, Any]:
    return {c.name: c.default for c in lesson.controls} | changes


def ask(desk: Desk, wanted: str = "scene", *, post: bool = False, **query: Any) -> tuple[int, dict[str, Any]]:
    answer = desk.answer(wanted, {k: str(v) for k, v in query.items()}, post=post)
    return answer.status, json.loads(answer.body)


@pytest.fixture(scope="module")
def desk() -> Desk:
    return Desk(LESSONS)


# -- controls --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda x: x.name)
def test_sliders_rise_hold_their_default_and_can_be_crossed(lesson: Lesson) -> None:
    for control in [*lesson.controls, lesson.threshold]:
        if isinstance(control, Slider):
            assert list(control.stops) == sorted(set(control.stops))
            assert control.default in control.stops, control.name
            assert len(control.stops) <= 400
            assert control.read(str(control.default)) == control.default
        elif isinstance(control, Pick):
            assert control.default in control.options
    assert len({c.name for c in lesson.controls}) == len(lesson.controls)


@settings(max_examples=60)
@given(
    text=st.one_of(
        st.text("0123456789.eE+-_ xnaifty", max_size=12), st.floats().map(str), st.integers(-10, 200).map(str)
    ),
    whole=st.booleans(),
)
def test_a_slider_gives_a_number_inside_its_limits_or_says_what_they_are(text: str, whole: bool) -> None:
    slider = Slider("n", "Records", range(2, 101), 10, whole=whole)
    value, said = None, ""
    try:
        value = slider.read(text)
    except InputError as error:
        said = str(error)
    if value is None:
        assert "between 2 and 100" in said
    else:
        assert 2 <= value <= 100 and (not whole or value == int(value))


@pytest.mark.parametrize("text", ["1_0", "nan", "inf", "-inf", "1e400", "", " ", "5.5", "0x10", "9" * 50, "٥٠٠٠٠"])
def test_a_slider_of_whole_numbers_refuses(text: str) -> None:
    with pytest.raises(InputError, match="whole number between 2 and 100"):
        Slider("n", "Records", range(2, 101), 10, whole=True).read(text)


def test_picks_switches_and_unknown_names() -> None:
    controls = [Pick("loss", "Loss", {"squared": "a", "absolute": "b"}), Switch("known", "Known", True)]
    assert read_values(controls, {}) == {"loss": "squared", "known": True}
    assert read_values(controls, {"known": "no"})["known"] is False
    for sent in ({"loss": "cubic"}, {"known": "true"}, {"lss": "squared"}):
        with pytest.raises(InputError):
            read_values(controls, sent)


def test_a_long_text_is_not_thrown_back_whole() -> None:
    with pytest.raises(InputError) as caught:
        Pick("loss", "Loss", {"squared": "a"}).read("x" * 5000)
    assert len(str(caught.value)) < 300


# -- lessons ---------------------------------------------------------------------------------------------


def test_the_first_lesson_opens_with_the_paper() -> None:
    choice = LESSON["normal"].build(defaults(LESSON["normal"])).rumap.choose(max_risk=0.5)
    assert choice.release == "Noise(variance=2.08) | Microaggregate(groups=1)"
    assert choice.utility == pytest.approx(2.650980392156863, rel=1e-12)  # T–F 5.1; their "r" is the variance


@settings(max_examples=40)
@given(
    n=st.integers(1, 1000),
    variance=st.floats(0.1, 20),
    prior=st.floats(0.1, 100),
    noise=st.floats(0.08, 2000),
)
def test_the_readers_own_release_is_what_conditioning_by_hand_gives(
    n: int, variance: float, prior: float, noise: float
) -> None:
    built = LESSON["normal"].build(
        defaults(LESSON["normal"], n=n, variance=variance, prior_variance=prior, noise=noise)
    )
    assert built.own is not None
    # The released mean against record 0 and against mu: two 2 by 2 covariances.
    spread = prior + (variance + noise) / n
    intruder = (variance + prior) - (prior + variance / n) ** 2 / spread
    scientist = prior - prior**2 / spread
    assert built.rumap.intruder_uncertainty[built.own] == pytest.approx(intruder, rel=1e-7)
    assert built.rumap.scientist_uncertainty[built.own] == pytest.approx(scientist, rel=1e-7)


def test_a_typed_noise_that_reads_like_a_stop_is_its_own_release() -> None:
    value = 2.08 + 1e-9
    built = LESSON["normal"].build(defaults(LESSON["normal"], noise=value))
    assert built.own is not None and built.rumap.masks is not None
    assert built.rumap.masks[built.own] == Noise(variance=value) | Microaggregate(groups=1)


@pytest.mark.parametrize(("variance", "noise"), [(1.0, 0.21), (0.3, 0.07), (7.0, 2.99), (2.0, 0.123456)])
def test_the_snoopers_own_release(variance: float, noise: float) -> None:
    built = LESSON["snooper"].build(defaults(LESSON["snooper"], variance=variance, noise=noise))
    assert built.own is not None
    row = built.rumap[built.own]
    assert row.risk == pytest.approx(1 / (noise * variance), rel=1e-10)  # eq. 4
    assert row.utility == pytest.approx(200 / (variance + noise * variance), rel=1e-10)


def test_the_weights_decide_which_variable_gets_the_noise() -> None:
    lesson = LESSON["weights"]
    for weights, variable in (
        ({"scientist_1": 6.0, "scientist_2": 0.5}, 2),
        ({"scientist_1": 0.5, "scientist_2": 6.0}, 1),
    ):
        chosen = lesson.build(defaults(lesson, **weights)).rumap.choose(max_risk=0.12)
        assert f"'variable {variable}'" in chosen.release


def test_the_own_release_of_the_third_lesson_is_on_the_variable_asked_for() -> None:
    for column in ("1", "2"):
        built = LESSON["weights"].build(defaults(LESSON["weights"], column=column, noise=3.3))
        assert built.own is not None
        assert (
            built.rumap.releases[built.own]
            == f"Noise(variance=3.3, columns=['variable {column}']) | Microaggregate(groups=1)"
        )


CODES = [
    ("normal", {}),
    (
        "normal",
        {"n": 7, "variance": 3.3, "prior_variance": 0.7, "noise": 1.2345, "groups": 3, "scientist_loss": "absolute"},
    ),
    ("normal", {"row": "unknown", "groups": 5, "scientist_loss": "crps"}),
    ("normal", {"intruder_loss": "within", "scientist_loss": "linex"}),
    ("normal", {"intruder_loss": "huber", "scientist_loss": "pinball", "n": 1}),
    ("snooper", {}),
    (
        "snooper",
        {
            "target": "percentile",
            "p": 0.95,
            "knowledge": "population",
            "method": "exact",
            "variance": 0.3,
            "noise": 0.017,
        },
    ),
    ("snooper", {"target": "maximum", "knowledge": "sample", "method": "bayes", "prior": "known", "n": 30}),
    ("weights", {}),
    ("weights", {"correlation": -0.55, "intruder_1": 2.2, "scientist_2": 9.0, "noise": 77.7, "n": 3}),
]


@pytest.mark.parametrize(("name", "changes"), CODES)
def test_the_code_runs_and_gives_the_same_numbers(
    name: str,
    changes: Mapping[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    lesson = LESSON[name]
    values, max_risk = defaults(lesson, **changes), lesson.threshold.default
    text = Desk(LESSONS).answer("map.py", {"topic": name, **{k: str(v) for k, v in changes.items()}}).body.decode()
    assert text == lesson.code(values, max_risk)
    scope: dict[str, Any] = {}
    exec(compile(text, "map.py", "exec"), scope)
    _close_figures()
    theirs, ours = scope["rumap"], lesson.build(values).rumap
    assert theirs.releases == ours.releases
    for column in ("risk", "utility", "intruder_uncertainty", "scientist_uncertainty"):
        assert np.array_equal(getattr(theirs, column), getattr(ours, column)), column
    printed = capsys.readouterr().out.strip()
    try:
        expected = str(ours.choose(max_risk=max_risk))
    except InfeasibleError as error:
        expected = str(error)
    assert printed == expected
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"


def test_what_a_lesson_cannot_do_it_says() -> None:
    with pytest.raises(InputError, match="more groups than records"):
        LESSON["normal"].build(defaults(LESSON["normal"], n=5, groups=6))
    with pytest.raises(InputError, match="unknown row"):
        LESSON["normal"].build(defaults(LESSON["normal"], row="unknown", intruder_loss="absolute"))
    with pytest.raises(InputError, match="belongs to the sample"):
        LESSON["snooper"].build(defaults(LESSON["snooper"], target="maximum", knowledge="population"))


# -- examples and posteriors -----------------------------------------------------------------------------


def test_the_same_example_is_the_same_file_whatever_the_mask() -> None:
    belief = NormalBelief(records=6, variance=2, prior_variance=5)
    user = User(belief, Record(2), Quadratic())
    panels = panels_of(user, User(belief, Parameter("mu"), Quadratic()))
    few, many = (panels(Noise(variance=v), 3)[0].laws[0] for v in (0.5, 0.9))
    assert few.truth == many.truth == pytest.approx(float(draw_example(belief, 3)[1][2]))
    assert few.truth != panels(Noise(variance=0.5), 4)[0].laws[0].truth
    # Common random numbers: the noise scales with its sd.
    release = [Noise(variance=v).release(np.zeros(6), 3) for v in (0.5, 0.9)]
    assert release[1] == pytest.approx(release[0] * np.sqrt(0.9 / 0.5), rel=1e-12)


def test_an_example_follows_its_belief() -> None:
    belief = NormalBelief(
        records=40,
        covariance=[[2.0, 0.8], [0.8, 1.0]],
        prior_mean=[1.0, -2.0],
        prior_covariance=[[3.0, 1.0], [1.0, 2.0]],
    )
    made = [draw_example(belief, k) for k in range(1500)]
    means = np.array([mu for mu, _ in made])
    assert means.mean(axis=0) == pytest.approx([1.0, -2.0], abs=4 * np.sqrt(3 / 1500))
    assert np.cov(means.T) == pytest.approx(np.array([[3.0, 1.0], [1.0, 2.0]]), abs=4 * 3 * np.sqrt(2 / 1500))
    inside = np.concatenate([records - mu for mu, records in made])
    assert np.cov(inside.T) == pytest.approx(np.array([[2.0, 0.8], [0.8, 1.0]]), abs=4 * 2 * np.sqrt(2 / len(inside)))


@settings(max_examples=25)
@given(
    n=st.integers(2, 60),
    noise=st.floats(0.08, 50),
    row=st.sampled_from(["known", "unknown"]),
    example=st.integers(1, 50),
)
def test_the_drawn_posteriors_have_the_maps_uncertainty(n: int, noise: float, row: str, example: int) -> None:
    built = LESSON["normal"].build(defaults(LESSON["normal"], n=n, noise=noise, row=row))
    assert built.own is not None and built.rumap.masks is not None and built.panels is not None
    panels = built.panels(built.rumap.masks[built.own], example)
    # One group: the release tells nothing of the row, so U is the posterior variance whatever was released.
    assert float(panels[0].laws[0].posterior.var()) == pytest.approx(
        built.rumap.intruder_uncertainty[built.own], rel=1e-9
    )
    assert float(panels[1].laws[0].posterior.var()) == pytest.approx(
        built.rumap.scientist_uncertainty[built.own], rel=1e-9
    )


@pytest.mark.parametrize("target", ["typical", "percentile", "maximum", "minimum"])
@pytest.mark.parametrize("knowledge", ["record", "sample", "population"])
@pytest.mark.parametrize("prior", ["flat", "known"])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_every_snooper_has_a_picture(target: str, knowledge: str, prior: str, noise: float) -> None:
    lesson = LESSON["snooper"]
    values = defaults(lesson, target=target, knowledge=knowledge, prior=prior, noise=noise, n=40, method="bayes")
    try:
        built = lesson.build(values)
    except InputError:
        assert target in ("maximum", "minimum") and knowledge == "population"
        return
    scene = show(built, 5.0, "own", 2, 700)
    assert [p["who"] for p in scene["panels"]] == ["intruder", "scientist"]
    for panel in scene["panels"]:
        ET.fromstring(panel["svg"])
    assert scene["look"]["row"] == built.own
    assert built.own is not None and built.rumap.masks is not None and built.panels is not None
    law = built.panels(built.rumap.masks[built.own], 2)[0].laws[0]
    if noise and (target == "typical" or knowledge != "sample") and not (target == "typical" and knowledge == "sample"):
        assert float(law.posterior.var()) == pytest.approx(
            built.rumap.intruder_uncertainty[built.own], rel=1e-9, abs=1e-12
        )


def test_a_percentiles_posterior_lies_where_the_percentile_does() -> None:
    values = defaults(LESSON["snooper"], target="percentile", knowledge="population", p=0.9, variance=4.0, n=1000)
    built = LESSON["snooper"].build(values)
    assert built.panels is not None
    law = built.panels(Noise(variance=0.4), 1)[0].laws[0]
    assert law.truth == pytest.approx(2 * 1.2815515655446004, rel=1e-9)
    assert float(law.posterior.mean()) == pytest.approx(law.truth, abs=4 * np.sqrt(4.4 / 1000))


@pytest.mark.parametrize("prior", ["flat", "known"])
@pytest.mark.parametrize(("n", "rank"), [(1, 1), (2, 1), (25, 25), (25, 13), (60, 2)])
@pytest.mark.parametrize(("variance", "noise"), [(1.0, 0.21), (4.0, 12.0), (0.1, 0.001)])
def test_the_tabulated_law_of_a_rank_is_the_packages(
    prior: str, n: int, rank: int, variance: float, noise: float
) -> None:
    release = np.random.default_rng(n).normal(0, np.sqrt(variance + noise), n)
    table, law = (
        TabulatedRankPosterior(release, rank, variance, noise, prior),
        RankPosterior(release, rank, variance, noise, prior),
    )
    sd = np.sqrt(law.var())
    assert table.mean() == pytest.approx(law.mean(), abs=1e-4 * sd)
    assert table.var() == pytest.approx(law.var(), rel=2e-4)
    at = law.mean() + sd * np.linspace(-4, 4, 33)
    assert table.cdf(at) == pytest.approx(law.cdf(at), abs=2e-5)


def test_the_prior_of_a_rank_against_simulation() -> None:
    law = RankPrior(12, 9, 4.0)
    drawn = np.sort(np.random.default_rng(5).normal(0, 2, (40_000, 12)), axis=1)[:, 8]
    assert law.mean() == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 200)
    assert law.var() == pytest.approx(drawn.var(), rel=4 * np.sqrt(2 / 40_000) * 1.2)
    for at in (0.0, 1.0, 2.5):
        share = float(law.cdf(at))
        assert np.mean(drawn <= at) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 40_000))


LAWS = {
    "gaussian": (Gaussian.scalar(1.0, 4.0), Gaussian.scalar(0.0, 9.0)),
    "sharp": (Gaussian.scalar(1.0, 1e-6), Gaussian.scalar(0.0, 9.0)),
    "spike": (Gaussian.scalar(1.0, 0.0), Gaussian.scalar(0.0, 9.0)),
    "certain": (Gaussian.scalar(1.0, 0.0), None),
    "mixture": (Mixture(Gaussian.scalar([0.0, 5.0], [1.0, 0.1]), [0.4, 0.6]), Gaussian.scalar(0.0, 9.0)),
    "finite": (Finite([0.0, 1.0, 4.0], [0.2, 0.5, 0.3]), Finite([0.0, 1.0, 4.0], [0.4, 0.3, 0.3])),
    "drawn": (Drawn(np.random.default_rng(1).standard_normal(800)), None),
}


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("width", [300.0, 640.0])
def test_every_kind_of_law_can_be_drawn(kind: str, width: float) -> None:
    posterior, prior = LAWS[kind]
    svg = draw_panel(BeliefPanel("intruder", "a <b>", (Law("x", posterior, prior, 0.5, 0.7),), "words & more"), width)
    root = ET.fromstring(svg)
    assert root.get("width") == f"{width:g}" and "words & more" in (root.get("aria-label") or "")
    for points in re.findall(r'points="([^"]*)"', svg):
        places = np.array([p.split(",") for p in points.split()], dtype=float)
        assert np.isfinite(places).all() and (places[:, 0] >= -8).all() and (places[:, 0] <= width + 8).all()


def test_the_drawn_area_is_one() -> None:
    from ruvdecision.explore import lawdrawing

    for kind in ("gaussian", "sharp", "mixture", "drawn"):
        law = Law("x", LAWS[kind][0])
        across = Scale(*lawdrawing._limits([law]), 0.0, 100.0)
        outline = lawdrawing._outline(law.posterior, law, across)
        assert outline is not None
        assert np.trapezoid(outline[1], outline[0]) == pytest.approx(1.0, abs=0.01), kind
    law = Law("x", LAWS["finite"][0])
    outline = lawdrawing._outline(law.posterior, law, Scale(*lawdrawing._limits([law]), 0.0, 100.0))
    assert outline is not None and outline[1][1::4] == pytest.approx([0.2, 0.5, 0.3])


def test_a_finite_belief_has_panels_too() -> None:
    belief = FiniteBelief(values=[0.0, 1.0, 2.0], probabilities=[0.2, 0.3, 0.5])
    user = User(belief, Record(0), Absolute())
    panels = panels_of(user, user)(Release(), 1)
    assert panels[0].laws and draw_panel(panels[0], 300).startswith("<svg")


# -- drawings --------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-6, 1e6), most=st.integers(3, 8))
def test_ticks_are_few_round_and_inside(low: float, span: float, most: int) -> None:
    scale = Scale(low, low + span, 0.0, 100.0)
    ticks = scale.ticks(most)
    assert len(ticks) <= most + 2
    assert all(scale.low - 1e-6 * span <= t <= scale.high + 1e-6 * span for t in ticks)
    places = scale(np.array(ticks))
    assert (np.diff(places) > 0).all()
    assert len(set(labels(ticks))) == len(ticks)


@settings(max_examples=40)
@given(low=st.floats(1e-9, 1e3), decades=st.floats(3.1, 12))
def test_a_wide_scale_is_logarithmic(low: float, decades: float) -> None:
    scale = Scale.fit([low, low * 10**decades], 0.0, 100.0)
    assert scale.log and scale.low < low < scale.high
    assert 2 <= len(scale.ticks(6)) <= 8


def awkward() -> dict[str, RUMap]:
    nan, inf = np.nan, np.inf
    return {
        "one": RUMap.build(labels=["only"], intruder=[2.0], scientist=[1.0]),
        "infinite": RUMap.build(labels=["a", "b", "c"], intruder=[0.0, 2.0, inf], scientist=[0.0, 1.0, 3.0]),
        "missing": RUMap.build(labels=["a", "b"], intruder=[nan, 2.0], scientist=[1.0, 1.0]),
        "nothing": RUMap.build(labels=["a", "b"], intruder=[nan, nan], scientist=[1.0, 1.0]),
        "equal": RUMap.build(labels=["a", "b"], intruder=[2.0, 2.0], scientist=[1.0, 1.0]),
        "errors": RUMap.build(
            labels=["a", "b"],
            intruder=Value(np.array([2.0, 3.0]), np.array([0.1, inf])),
            scientist=Value(np.array([2.0, 3.0]), np.array([0.1, 0.2])),
            columns={"converged": [True, False]},
        ),
        "negative": RUMap.build(
            labels=["a", "b"], intruder=[2.0, 3.0], scientist=[1.0, 2.0], risk="negative_log", utility="negative_log"
        ),
        "measured": RUMap.build(
            labels=["a", "b"], columns={"linkage": [0.1, 0.5], "IO": [0.4, 0.9]}, risk="linkage", utility="IO"
        ),
        "many": RUMap.build(
            labels=[f"r{i}" for i in range(5000)], intruder=np.linspace(1, 9, 5000), scientist=np.linspace(1, 2, 5000)
        ),
        "names": RUMap.build(
            labels=["<script>alert(1)</script>", '"&\x00\u202e'], intruder=[2.0, 1.0], scientist=[1.0, 2.0]
        ),
    }


@pytest.mark.parametrize("kind", awkward())
@pytest.mark.parametrize("width", [240.0, 1400.0])
@pytest.mark.parametrize("max_risk", [0.4, 0.01, 0.0])
def test_awkward_maps_have_a_scene(kind: str, width: float, max_risk: float) -> None:
    scene = show(Built(awkward()[kind]), max_risk, "chosen", 1, width)
    text = json.dumps(scene, allow_nan=False)
    root = ET.fromstring(scene["map"]["svg"])
    assert not [
        e
        for e in root.iter()
        if e.tag.endswith(("script", "style", "image", "a")) or "style" in e.attrib or "href" in e.attrib
    ]
    assert "nan" not in scene["map"]["svg"] and "inf" not in scene["map"]["svg"].replace("infinite", "").replace(
        "information", ""
    )
    assert len(scene["order"]) <= 3002 and len(text) < 2_000_000
    if max_risk == 0.01 and kind not in ("negative", "infinite"):
        assert scene["sentence"].startswith("No release is chosen") and scene["kind"] == "warning"


def test_a_release_that_was_picked_is_looked_at_as_long_as_it_is_there() -> None:
    built = LESSON["normal"].build(defaults(LESSON["normal"]))
    label = built.rumap.releases[40]
    assert show(built, 0.5, f"release:{label}", 1, 700)["look"] == {"row": 40, "how": "picked", "label": label}
    assert show(built, 0.5, "release:gone", 1, 700)["look"]["how"] == "chosen"
    assert show(built, 0.01, "chosen", 1, 700)["look"] == {"row": 0, "how": "safest", "label": "Suppress()"}


def test_points_lie_where_they_are_drawn() -> None:
    rumap = LESSON["normal"].build(defaults(LESSON["normal"])).rumap
    drawing = draw_map(rumap, 0.5, 27, 27, 700, "words")
    star = re.search(r'class="chosen" points="([^"]*)"', drawing.svg)
    assert star is not None
    corners = np.array([p.split(",") for p in star.group(1).split()], dtype=float)
    place = next(p for p in drawing.points if p[2] == 27)
    assert corners[:, 0].mean() == pytest.approx(place[0], abs=0.5) and corners[:, 1].mean() == pytest.approx(
        place[1], abs=0.5
    )
    # Riskier releases lie higher, more useful ones to the right.
    ordered = sorted(drawing.points, key=lambda p: rumap.risk[int(p[2])])
    assert [p[1] for p in ordered] == sorted((p[1] for p in ordered), reverse=True)
    ordered = sorted(drawing.points, key=lambda p: rumap.utility[int(p[2])])
    assert [p[0] for p in ordered] == sorted(p[0] for p in ordered)


def test_every_release_belongs_to_one_series() -> None:
    for lesson in LESSONS:
        rumap = lesson.build(defaults(lesson)).rumap
        rows = np.concatenate([s.rows for s in series_of(rumap)])
        assert sorted(rows.tolist()) == list(range(len(rumap)))


# -- answers ---------------------------------------------------------------------------------------------


def test_the_scene_says_what_the_package_says(desk: Desk) -> None:
    status, scene = ask(desk, topic="normal", n=12, variance=3, max_risk=0.4, look="own", noise=1.04)
    rumap = LESSON["normal"].build(defaults(LESSON["normal"], n=12, variance=3.0, noise=1.04)).rumap
    assert status == 200
    assert scene["sentence"] == str(rumap.choose(max_risk=0.4))
    row = rumap["Noise(variance=1.04) | Microaggregate(groups=1)"]
    assert scene["looked"]["risk"] == f"{row.risk:.6g}" and scene["looked"]["utility"] == f"{row.utility:.6g}"
    marks = [r["cells"][-1] for r in scene["table"]["rows"]]
    assert sum("chosen" in m for m in marks) == 1 and sum("look" in m for m in marks) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"n": "0"}, "between 1 and 1000"),
        ({"n": "ten"}, "between 1 and 1000"),
        ({"variance": "-1"}, "between 0.1 and 20"),
        ({"max_risk": "1e9"}, "between 0.01 and 4"),
        ({"topic": "nromal"}, "normal"),
        ({"nn": "3"}, "no such setting"),
        ({"look": "<script>"}, "look must be"),
        ({"example": "0"}, "between 1 and 50"),
        ({"width": "99999"}, "between 240 and 1400"),
        ({"intruder_loss": "__import__('os')"}, "must be one of"),
        ({"groups": "20", "n": "5"}, "more groups than records"),
        ({"map": "other"}, "one map"),
    ],
)
@pytest.mark.parametrize("wanted", ["scene", "map.csv", "map.png", "map.py", "report.html"])
def test_bad_input_is_a_message(desk: Desk, query: dict[str, str], expected: str, wanted: str) -> None:
    if wanted == "map.csv" and "max_risk" in query:
        return  # a table has no threshold
    if wanted == "map.py" and ("map" in query or "groups" in query):
        return  # code is written, not run
    status, answer = ask(desk, wanted, **query)
    assert status == 400
    assert expected in answer["message"] and "Traceback" not in answer["message"]


@settings(max_examples=60)
@given(data=st.data(), lesson=st.sampled_from(LESSONS))
def test_no_setting_that_the_page_allows_is_a_defect(data: st.DataObject, lesson: Lesson) -> None:
    query = {
        "topic": lesson.name,
        "look": data.draw(st.sampled_from(["own", "chosen"])),
        "example": data.draw(st.sampled_from(["1", "50"])),
    }
    for control in [*lesson.controls, lesson.threshold]:
        if isinstance(control, Slider):
            ends = st.sampled_from([control.low, control.high, control.default])
            inside = st.sampled_from(control.stops) | (st.integers if control.whole else st.floats)(
                control.low, control.high
            )  # type: ignore[operator]
            query[control.name] = repr(data.draw(ends | inside))
        elif isinstance(control, Pick):
            query[control.name] = data.draw(st.sampled_from(list(control.options)))
    answer = Desk([lesson]).answer("scene", query)
    assert answer.status in (200, 400), answer.body
    if answer.status == 200:
        scene = json.loads(answer.body)
        assert scene["sentence"] and len(scene["panels"]) == 2 and scene["look"]["row"] is not None
        for svg in (scene["map"]["svg"], *(p["svg"] for p in scene["panels"] if p["svg"])):
            places = [
                v for e in ET.fromstring(svg).iter() for k, v in e.attrib.items() if k not in ("aria-label", "class")
            ]
            assert not re.search(r"\b(nan|inf)\b", " ".join(places))


def test_unknown_requests(desk: Desk) -> None:
    assert desk.answer("secrets", {}).status == 404
    assert desk.answer("scene", {}, post=True).status == 405
    assert desk.answer("compute", {}).status == 405
    assert desk.answer("compute", {}, post=True).status == 400


def test_a_defect_is_not_a_traceback(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError(SENTINEL)

    monkeypatch.setattr("ruvdecision.explore.desk.show", broken)
    status, answer = ask(desk)
    assert status == 500 and "ZeroDivisionError" in answer["message"] and SENTINEL not in answer["message"]


def test_downloads(desk: Desk) -> None:
    import io

    import pandas as pd

    table = desk.answer("map.csv", {"topic": "snooper", "n": "50"})
    assert table.file == "snooper-map.csv" and table.kind.startswith("text/csv")
    ours = LESSON["snooper"].build(defaults(LESSON["snooper"], n=50)).rumap
    theirs = pd.read_csv(io.BytesIO(table.body))
    assert list(theirs["release"]) == list(ours.releases)
    assert theirs["risk"].to_numpy() == pytest.approx(ours.risk, rel=1e-14)
    picture = desk.answer("map.png", {"topic": "snooper"})
    assert picture.body[:8] == b"\x89PNG\r\n\x1a\n" and picture.kind == "image/png"
    report = desk.answer("report.html", {"topic": "normal"})
    assert b"Noise(variance=2.08)" in report.body and report.body.startswith(b"<!DOCTYPE html>")
    _close_figures()


# -- studies ---------------------------------------------------------------------------------------------

STUDY = '''
"""A study for the page's tests."""
import numpy as np
import ruvdecision as ruv
from ruvdecision.running.progress import Bar

MAX_RISK = 0.5
RANGES = {"n": (2, 40)}
RECORDS = np.full(8, 987654.321)

def users(n=4, variance=2.0):
    belief = ruv.NormalBelief(records=n, variance=variance, prior_variance=5)
    return ruv.User(belief, ruv.Record(0), ruv.Quadratic()), ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())

def study(n=4, variance=2.0, flag=True, word="plain", seed=3, limit=None, width=7.5):
    """Noise of several sizes.

    More about it.
    """
    if word == "panel":
        return {"first": make(n, variance), "second": make(n, 2 * variance)}
    if not flag:
        raise ValueError(f"bad record {RECORDS[0]}")
    return make(n, variance)

def make(n, variance):
    intruder, scientist = users(n, variance)
    return ruv.evaluate([ruv.Suppress(), *(ruv.Noise(variance=v) for v in (0.5, 1.0, 2.0))], intruder=intruder, scientist=scientist)
'''


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "page_study.py"
    path.write_text(STUDY, encoding="utf-8")
    return path


def run(topic: StudyTopic, **changes: Any) -> Desk:
    values = {c.name: c.default for c in topic.controls} | changes
    job = topic.runner.start(topic.settings(values))
    assert job.ended.wait(60)
    return Desk([topic])


def test_settings_of_a_study_become_controls(study_file: Path) -> None:
    topic = StudyTopic(load_study(study_file))
    controls = {c.name: c for c in topic.controls}
    assert list(controls) == ["n", "variance", "flag", "seed", "width."]
    n, variance, flag = controls["n"], controls["variance"], controls["flag"]
    assert isinstance(n, Slider) and (n.low, n.high, n.whole) == (2, 40, True)
    assert isinstance(variance, Slider) and (variance.low, variance.high) == (0.2, 20.0) and 2.0 in variance.stops
    assert isinstance(flag, Switch) and flag.default is True
    assert topic.title == "A study for the page's tests." and topic.about == "Noise of several sizes."
    assert topic.settings({"width.": 3.0}) == {"width": 3.0}


def test_a_study_is_shown_with_its_users(study_file: Path) -> None:
    topic = StudyTopic(load_study(study_file))
    desk = run(topic, n=6)
    status, scene = ask(desk, n=6, look="release:Noise(variance=1)")
    ours = load_study(study_file).run(n=6).maps["map"]
    assert status == 200 and scene["maps"] == ["map"]
    assert scene["sentence"] == str(ours.choose(max_risk=0.5))
    assert scene["looked"]["risk"] == f"{ours['Noise(variance=1)'].risk:.6g}"
    assert [p["who"] for p in scene["panels"]] == ["intruder", "scientist"] and all(p["svg"] for p in scene["panels"])
    assert 0.5 in scene["threshold"]["stops"]


def test_code_of_a_study_runs(
    study_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = StudyTopic(load_study(study_file), {"word": "panel"})
    desk = run(topic, n=5)
    text = desk.answer("map.py", {"n": "5", "map": "second", "max_risk": "0.3"}).body.decode()
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(compile(text, "map.py", "exec"), scope)
    _close_figures()
    ours = load_study(study_file).run(n=5, word="panel").maps["second"]
    assert np.array_equal(scope["rumap"].risk, ours.risk)
    assert capsys.readouterr().out.strip() == str(ours.choose(max_risk=0.3))
    assert "word" not in {c.name for c in topic.controls}
    status, scene = ask(desk, n=5, map="second")
    assert status == 200 and scene["maps"] == ["first", "second"] and scene["map_name"] == "second"
    assert ask(desk, n=5, map="third")[0] == 400


def test_a_study_that_fails_does_not_tell_records(study_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = StudyTopic(load_study(study_file))
    desk = run(topic, flag=False)
    status, answer = ask(desk, flag="no")
    assert status == 400 and "ValueError" in answer["message"]
    captured = capsys.readouterr()
    assert SENTINEL not in answer["message"] + captured.out + captured.err


def test_a_study_that_is_quick_runs_while_the_slider_moves(study_file: Path) -> None:
    topic = StudyTopic(load_study(study_file))
    desk = Desk([topic])
    status, answer = ask(desk, n=9)
    assert status == 202 and answer["waiting"] == "ask"
    topic.begin()
    run(topic)
    topic.runner.quick = True  # whatever this machine is busy with
    status, scene = ask(desk, n=9)
    assert status == 200 or scene["waiting"] == "running"
    _wait_for(lambda: ask(desk, n=9)[0] == 200)
    topic.runner.quick = False
    assert ask(desk, n=11)[1]["waiting"] == "ask"
    assert ask(desk, "compute", post=True, n=11)[0] == 202
    _wait_for(lambda: ask(desk, n=11)[0] == 200)
    assert ask(desk, n=11)[1]["live"] in (True, False)


@pytest.mark.parametrize(
    "ranges", ['{"n": (5, 40)}', '{"n": (9, 2)}', '{"n": 3}', '{"n": (1, "x")}', '{"n": (1, float("inf"))}', "[1, 2]"]
)
def test_bad_ranges_are_refused(study_file: Path, ranges: str) -> None:
    study_file.write_text(STUDY.replace('{"n": (2, 40)}', ranges), encoding="utf-8")
    with pytest.raises(InputError, match="RANGES"):
        StudyTopic(load_study(study_file))


def test_users_that_need_more_are_left_out(study_file: Path) -> None:
    study_file.write_text(
        STUDY.replace("def users(n=4,", "def users(more, n=4,").replace("users(n, variance)", "users(0, n, variance)"),
        encoding="utf-8",
    )
    status, scene = ask(run(StudyTopic(load_study(study_file))))
    assert status == 200 and scene["panels"] == [] and any("users(**settings)" in note for note in scene["notes"])


SLOW = '''
"""Slow."""
import time
from ruvdecision.running.progress import Bar
from ruvdecision.maps.rumap import RUMap

def study(n=4):
    with Bar("Counting") as bar:
        for i in range(2000):
            bar.update(i / 2000)
            time.sleep(0.01)
    return RUMap.build(labels=["only"], intruder=[2.0], scientist=[1.0])
'''


def test_a_slow_study_tells_its_progress_and_can_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(SLOW, encoding="utf-8")
    topic = StudyTopic(load_study(path))
    desk = Desk([topic])
    assert ask(desk, "page")[0] == 200  # opening the page starts it
    _wait_for(lambda: "Counting: " in ask(desk)[1]["message"])
    job = topic.runner.job({"n": 4})
    assert job is not None and topic.runner.start({"n": 4}) is job
    assert ask(desk, "map.csv")[0] == 400
    assert ask(desk, "stop", post=True)[0] == 200
    assert job.ended.wait(10) and job.message == "stopped"
    assert ask(desk)[1]["waiting"] == "ask"  # stopped is not failed
    # Another start stops the one before it.
    first, second = topic.runner.start({"n": 5}), topic.runner.start({"n": 6})
    assert first.ended.wait(10) and first.message == "stopped" and not second.ended.is_set()
    topic.runner.stop()
    assert second.ended.wait(10)


def test_a_runner_keeps_only_the_last_results(study_file: Path) -> None:
    runner = Runner(load_study(study_file))
    for n in range(2, 18):
        assert runner.start({"n": n}).ended.wait(30)
    assert runner.outcome({"n": 17}) is not None and runner.outcome({"n": 2}) is None


def test_no_record_gets_out(tmp_path: Path) -> None:
    path = tmp_path / "secret.py"
    path.write_text(
        '"""Secret."""\nimport numpy as np\nimport ruvdecision as ruv\n'
        "def users(n=6):\n"
        "    belief = ruv.NormalBelief(records=n, variance=2, prior_mean=0, prior_variance=5)\n"
        "    return ruv.User(belief, ruv.Record(0), ruv.Absolute()), ruv.User(belief, ruv.Parameter('mu'), "
        "ruv.Quadratic())\n"
        "def study(n=6):\n"
        "    data = np.full(n, 987654.321)\n"
        "    intruder, scientist = users(n)\n"
        "    masks = [ruv.Noise(variance=1.0), ruv.Noise(variance=2.0)]\n"
        "    return ruv.evaluate(masks, intruder=intruder, scientist=scientist, data=data, seed=1)\n",
        encoding="utf-8",
    )
    desk = run(StudyTopic(load_study(path)))
    for wanted in ("page", "scene", "map.csv", "map.py", "report.html"):
        answer = desk.answer(wanted, {})
        assert answer.status == 200
        assert not re.search(rb"98765[34][.,]?\d*|987,65", answer.body), wanted
    _close_figures()


# -- the server ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with open_server(port=0) as opened:
        yield opened


def fetch(
    server: Server, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    for name, value in ({"Host": f"127.0.0.1:{server.port}"} | dict(headers or {})).items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    response.body = response.read()  # type: ignore[attr-defined]
    connection.close()
    return response


def test_it_listens_to_this_machine_only(server: Server) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/" and server.local
    assert server._http.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path", ["/", "/page.css", "/page.js", "/api/page", "/api/scene?n=12", "/api/map.csv", "/?n=12&topic=normal"]
)
def test_it_serves_with_strict_headers(server: Server, path: str) -> None:
    response = fetch(server, path)
    assert response.status == 200 and response.body  # type: ignore[attr-defined]
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff" and response.headers["Cache-Control"] == "no-store"
    head = fetch(server, path, "HEAD")
    assert (
        head.status == 200 and head.body == b"" and head.headers["Content-Length"] == response.headers["Content-Length"]
    )  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1:1",
        "localhost.evil.example:{port}",
        "192.168.1.2:{port}",
        "127.0.0.1",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/scene"])
def test_a_foreign_host_is_refused(server: Server, host: str, path: str) -> None:
    response = fetch(server, path, headers={"Host": host.format(port=server.port)})
    assert response.status == 421 and b"svg" not in response.body  # type: ignore[attr-defined]


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}", "[::1]:{port}"])
def test_its_own_names_are_answered(server: Server, host: str) -> None:
    assert fetch(server, "/api/page", headers={"Host": host.format(port=server.port)}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
@pytest.mark.parametrize(("path", "method"), [("/api/scene", "GET"), ("/api/stop", "POST"), ("/api/map.py", "GET")])
def test_other_sites_are_refused(server: Server, headers: dict[str, str], path: str, method: str) -> None:
    sent = {k: v.format(port=server.port) for k, v in headers.items()}
    assert fetch(server, path, method, sent).status == 403


def test_a_link_from_elsewhere_opens_the_page_and_a_frame_does_not(server: Server) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert fetch(server, "/?n=12", headers=link | {"Sec-Fetch-Dest": "document"}).status == 200
    assert fetch(server, "/?n=12", headers=link | {"Sec-Fetch-Dest": "iframe"}).status == 403
    assert (
        fetch(
            server, "/api/page", headers={"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
        ).status
        == 200
    )


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/../../etc/passwd", 404),
        ("/api/../server.py", 404),
        ("/server.py", 404),
        ("/page/index.html", 404),
        ("/api/", 404),
        ("/api/scene?n=1&n=2", 400),
        ("/api/scene?" + "&".join(f"a{i}=1" for i in range(100)), 400),
        ("/api/scene?n=" + "9" * 9000, 414),
        ("/api/scene?n=%00%ff", 400),
        ("//[", 404),
    ],
)
def test_odd_addresses(server: Server, path: str, status: int) -> None:
    response = fetch(server, path)
    assert response.status == status
    assert b"Traceback" not in response.body  # type: ignore[attr-defined]


def test_methods(server: Server) -> None:
    assert fetch(server, "/api/scene", "POST").status == 405
    assert fetch(server, "/api/compute", "GET").status == 405
    assert fetch(server, "/", "POST").status == 404
    assert fetch(server, "/api/scene", "DELETE").status == 501


def test_many_requests_at_once(server: Server) -> None:
    found: list[int] = []

    def one(k: int) -> None:
        found.append(fetch(server, f"/api/scene?topic={('normal', 'snooper', 'weights')[k % 3]}&n={20 + k}").status)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [200] * 9


@pytest.mark.parametrize(
    ("host", "bound", "expected"),
    [
        ("127.0.0.1:8177", "127.0.0.1", True),
        ("127.0.0.2:8177", "127.0.0.1", True),
        ("localhost:8177", "127.0.0.1", True),
        ("[::1]:8177", "::1", True),
        ("localhost", "127.0.0.1", False),
        ("10.0.0.5:8177", "127.0.0.1", False),
        ("10.0.0.5:8177", "0.0.0.0", True),
        ("evil.example:8177", "0.0.0.0", False),
        ("[::1]", "::1", False),
        (":8177", "127.0.0.1", False),
        ("[fe80::1%25eth0]:8177", "::1", False),
    ],
)
def test_which_hosts_are_here(host: str, bound: str, expected: bool) -> None:
    assert _is_here(host, bound, 8177) is expected


def test_ports() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="port cannot be had"):
            Server(LESSONS, port=taken.getsockname()[1])
    first, second = Server(LESSONS), Server(LESSONS)
    assert first.port != second.port
    first.close()
    second.close()
    for bad in (
        {"port": 70000},
        {"port": -1},
        {"host": "no.such.host.invalid", "port": 0},
        {"host": "203.0.113.7", "port": 0},
    ):
        with pytest.raises(InputError):
            Server(LESSONS, **bad)  # type: ignore[arg-type]


def test_the_page_fetches_nothing_and_runs_nothing_inline() -> None:
    folder = Path(package.__file__).parent / "page"
    for path in folder.iterdir():
        text = path.read_text("utf-8")
        assert set(re.findall(r"https?://[\w./]+", text)) <= {"http://www.w3.org/2000/svg"}, path.name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|@import|\son\w+=", text
        ), path.name
    html = (folder / "index.html").read_text("utf-8")
    assert "<style" not in html and "style=" not in html and html.count("<script") == html.count("<script src=")


# -- the command -----------------------------------------------------------------------------------------


def test_the_command_serves_until_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []

    def interrupted(self: Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "run", interrupted)
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert cli.main(["explore", "--port", "0", "--no-browser"]) == 0
    said = capsys.readouterr().out
    assert re.fullmatch(r"The page is at http://127\.0\.0\.1:\d+/ \(Ctrl-C ends it\)\n", said) and not opened
    assert cli.main(["explore", "--port", "0"]) == 0
    assert opened == [re.findall(r"http://\S+", capsys.readouterr().out)[0]]
    assert cli.main(["explore", "--port", "0", "--no-browser", "--host", "0.0.0.0"]) == 0
    assert "Everybody on the network" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["no_such_study.py"],
        ["--set", "n=3"],
        ["--port", "70000"],
        ["--port", "x"],
        ["{study}", "--set", "nn=3"],
        ["{study}", "--set", "n=text"],
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], study_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["explore", "--no-browser", *(a.format(study=study_file) for a in arguments)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_ctrl_c_ends_the_page_even_while_a_study_runs(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(SLOW, encoding="utf-8")
    command = [sys.executable, "-m", "ruvdecision", "explore", str(path), "--no-browser", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[2])}
    hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background job would not
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=hear
    )
    assert process.stdout is not None
    url = re.findall(r"http://\S+", process.stdout.readline())[0]
    with urllib.request.urlopen(f"{url}api/page", timeout=20) as reply:
        assert json.load(reply)["topics"][0]["kind"] == "study"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def _wait_for(done: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def _close_figures() -> None:
    import matplotlib.pyplot as plt

    plt.close("all")


def test_many_silent_connections_shut_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a request each: as many as there is room for, and more."""
    monkeypatch.setattr(server_module, "MOST", 8)
    with Server(LESSONS, port=0) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(12)]
        try:
            for connection in silent:
                with contextlib.suppress(OSError):  # the oldest have made room already
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
            for _ in range(3):
                with urllib.request.urlopen(server.url, timeout=20) as answer:
                    assert answer.status == 200
        finally:
            for connection in silent:
                connection.close()
