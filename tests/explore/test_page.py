"""The page without a browser: lessons, controls, drawings, studies, files, and what can be taken away."""

from __future__ import annotations

import io
import re
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sentinels import CATEGORY, SECRETS, WHO, leaks

import ruvdecision as ruv
from ruvdecision import cli
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.running.progress import Bar
from ruvdecision.scenarios import RankPosterior
from ruvdecision.studies import load_study

pytest.importorskip("panel", reason="the page needs panel")

from ruvdecision.explore import beliefs
from ruvdecision.explore.beliefs import RankPrior, TabulatedRankPosterior, beliefs_of, draw_example
from ruvdecision.explore.drawing import BeliefDrawing, MapDrawing, _axis_limits, _outline_of_law, explain_releases
from ruvdecision.explore.jobs import Job, Runner, error_message
from ruvdecision.explore.lessons import LESSONS, NORMAL, PRAM_LESSON, SNOOPER, TABLE, WEIGHTS
from ruvdecision.explore.microdata import example_file, own_topic, read_upload
from ruvdecision.explore.page import FilePage, Page, navigation, page_for_visit, static_page
from ruvdecision.explore.study import describe_setting, study_topic
from ruvdecision.explore.topic import Pick, Slider, Topic, threshold_stops

QUICK = [topic for topic in LESSONS if topic.name != "microdata"]


def named(topic: Topic) -> str:
    return topic.name


# -- controls ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"), [("8", 9), ("1e9", 9), ("-inf", 1), ("nan", 5), ("x", 5), ("1" * 50, 5), ("", 5)]
)
def test_a_slider_reads_the_nearest_stop_or_keeps_its_default(text: str, value: int) -> None:
    assert Slider("n", "Records", (1, 9), 5).read(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("a,c", ("a", "c")), ("c,x", ("c",)), ("x", ("b",)), ("a,b,c", ("a", "b"))]
)
def test_a_pick_of_several_takes_what_it_knows(text: str, value: tuple[str, ...]) -> None:
    assert Pick("p", "Some", {"a": "A", "b": "B", "c": "C"}, ("b",), most=2).read(text) == value


@pytest.mark.parametrize("topic", LESSONS, ids=named)
def test_every_lesson_is_whole(topic: Topic) -> None:
    assert len({c.name for c in topic.controls}) == len(topic.controls) and len(topic.questions) >= 2
    for control in topic.controls:
        if isinstance(control, Slider):
            assert control.default in control.stops and list(control.stops) == sorted(control.stops)
    controls: Any = {c.name: c for c in topic.controls}
    assert topic.states
    for name, some in topic.states.items():
        known = getattr(controls[name], "stops", None) or controls[name].options
        assert all(set(one) <= set(known) if isinstance(one, tuple) else one in known for one in some), name


# -- lessons -------------------------------------------------------------------------------------------


def test_the_first_lesson_opens_with_the_paper() -> None:
    built = NORMAL.build(NORMAL.defaults)
    choice = built.rumap.choose(max_risk=0.5)
    assert choice.release == "Noise(variance=2.08) | Microaggregate(groups=1)" and round(choice.utility, 3) == 2.651
    assert built.rumap.releases[built.own or 0] == choice.release


@pytest.mark.campaign(5, "slow")
@pytest.mark.parametrize("topic", QUICK, ids=named)
def test_the_code_that_is_handed_out_makes_the_map(topic: Topic, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    middle = {c.name: c.stops[len(c.stops) // 2] for c in topic.controls if isinstance(c, Slider)}
    values = {**topic.defaults, **middle, **({"groups": 1} if topic is NORMAL else {})}
    scope: dict[str, Any] = {}
    exec(compile(topic.code(values, 0.4), "code.py", "exec"), scope)
    plt.close("all")
    assert np.array_equal(scope["rumap"].risk, topic.build(values).rumap.risk, equal_nan=True)
    assert Path("map.png").stat().st_size > 5000 and capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("n", "variance", "prior", "noise"), [(10, 2.0, 5.0, 2.08), (3, 0.5, 8.8, 16.0), (100, 20.0, 0.1, 0.08)]
)
def test_the_formulas_say_what_the_map_says(n: int, variance: float, prior: float, noise: float) -> None:
    values = {**NORMAL.defaults, "n": n, "variance": variance, "prior_variance": prior, "noise": noise}
    built = NORMAL.build(values)
    us = 1 / (1 / prior + n / (variance + noise))
    ui = variance + prior - (prior + variance / n) ** 2 / (prior + (variance + noise) / n)
    assert built.rumap.scientist_uncertainty[built.own] == pytest.approx(us, rel=1e-12)
    assert built.rumap.intruder_uncertainty[built.own] == pytest.approx(ui, rel=1e-10)
    last = [re.findall(r"<mn>([^<]*)</mn></math>$", line)[0] for line in built.formulas]
    assert last == [f"{us:.4g}", f"{ui:.4g}"]
    assert NORMAL.build({**values, "intruder_loss": "absolute"}).formulas == ()


def test_the_answers_to_the_questions_are_right() -> None:
    risk = {n: NORMAL.build({**NORMAL.defaults, "n": n}).rumap["Microaggregate(groups=1)"].risk for n in (10, 100)}
    assert (round(risk[10], 3), round(risk[100], 3)) == (0.556, 0.505)
    assert "0.556" in NORMAL.questions[0][1] and "0.505" in NORMAL.questions[1][1]
    both = {k: SNOOPER.build({**SNOOPER.defaults, "knowledge": (k,)}).rumap for k in ("record", "population")}
    change = {k: m.intruder_uncertainty[100] - m.intruder_uncertainty[0] for k, m in both.items()}
    assert change["record"] == pytest.approx(1.0) and change["population"] == pytest.approx(1 / 200)
    large = SNOOPER.build({**SNOOPER.defaults, "n": 1000}).rumap
    assert np.allclose(large.risk[1:], both["record"].risk[1:])
    assert np.allclose(large.utility, 5 * both["record"].utility)
    assert "'variable 2'" in WEIGHTS.build(WEIGHTS.defaults).rumap.choose(max_risk=0.12).release
    table = {a: TABLE.build({**TABLE.defaults, "a": a, "b": b}) for a, b in ((12, 16), (1, 2))}
    assert table[12].rumap.risk[-1] == pytest.approx(1.0)  # one blank cell beside its margins protects nothing
    assert table[1].rumap.risk[3] > table[12].rumap.risk[3]  # all margins, the first row small
    coin = PRAM_LESSON.build({**PRAM_LESSON.defaults, "noise": 0.5})
    assert coin.own == 0 and abs(coin.rumap.risk[0]) < 1e-9 and abs(coin.rumap.utility[0]) < 1e-9
    (line,) = PRAM_LESSON.build(PRAM_LESSON.defaults).formulas
    numbers = [float(x) for x in re.findall(r"<mn>([^<]*)</mn>", line)]
    share, after = numbers[1], numbers[-1]
    assert after == pytest.approx(0.8 * share / (0.8 * share + 0.2 * (1 - share)), abs=2e-3)
    assert f"a share of {share:.2f} the formula gives {after:.2f}" in PRAM_LESSON.questions[1][1]


def test_what_a_lesson_cannot_do_it_says() -> None:
    for change in ({"n": 3, "groups": 5}, {"row": "unknown", "intruder_loss": "absolute"}):
        with pytest.raises(InputError):
            NORMAL.build({**NORMAL.defaults, **change})


# -- what users believe --------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.4, 8.0])
def test_the_drawn_posteriors_have_the_maps_uncertainty(noise: float) -> None:
    built: Any = NORMAL.build({**NORMAL.defaults, "noise": noise})
    found = built.beliefs(built.rumap.masks[built.own], 7, False)
    expected = built.rumap.intruder_uncertainty[built.own], built.rumap.scientist_uncertainty[built.own]
    assert [float(b.laws[0].posterior.var()) for b in found] == pytest.approx(expected, rel=1e-9)
    assert [float(b.laws[0].prior.var()) for b in found] == pytest.approx([7.0, 5.0])


@pytest.mark.parametrize("target", ["typical", "percentile", "maximum", "minimum"])
@pytest.mark.parametrize("knowledge", ["record", "sample", "population"])
@pytest.mark.parametrize("noise", [0.0, 0.21])
def test_every_snooper_has_a_picture_or_says_why_not(target: str, knowledge: str, noise: float) -> None:
    moved = {"n": 20, "target": target, "knowledge": (knowledge,), "prior": "known", "noise": noise, "p": 0.9}
    try:
        built: Any = SNOOPER.build({**SNOOPER.defaults, **moved})
    except InputError:
        return  # not every target goes with every state of knowledge
    for k, belief in enumerate(built.beliefs(built.rumap.masks[built.own], 1, False)):
        assert belief.words and (belief.laws or "posterior" in belief.words)
        BeliefDrawing(False, k).show(belief)


def test_the_tabulated_law_of_a_rank_is_the_packages() -> None:
    release = np.random.default_rng(3).normal(size=12)
    table, exact = (kind(release, 12, 1.0, 0.3, "flat") for kind in (TabulatedRankPosterior, RankPosterior))
    at = np.linspace(-1, 4, 9)
    assert np.allclose(table.cdf(at), exact.cdf(at), atol=2e-5)
    draws = np.sort(np.random.default_rng(4).normal(size=(20_000, 5)) * 2, axis=1)[:, 3]
    prior = RankPrior(5, 4, 4.0)
    assert abs(prior.mean() - draws.mean()) < 5 * draws.std() / 141
    assert prior.var() == pytest.approx(draws.var(), rel=0.05)


def test_the_same_example_is_the_same_file() -> None:
    belief = ruv.NormalBelief(records=6, variance=1, prior_variance=2)
    first, again, other = (draw_example(belief, k)[1] for k in (3, 3, 4))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_the_drawn_area_is_one() -> None:
    built: Any = NORMAL.build(NORMAL.defaults)
    (law,) = built.beliefs(built.rumap.masks[1], 1, False)[1].laws
    low, high = _axis_limits([law])
    for one in (law.posterior, law.prior):
        outline = _outline_of_law(one, law, low, high)
        assert outline is not None
        assert np.trapezoid(outline[1], outline[0]) == pytest.approx(float(one.cdf(high) - one.cdf(low)), abs=0.01)


def test_sampled_posteriors_wait_until_they_are_asked_for(monkeypatch: Any) -> None:
    belief = ruv.NormalBelief(records=4, variance=1, prior_variance=1)
    users = ruv.User(belief, ruv.Record(0), ruv.Quadratic()), ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())
    believed: Any = beliefs_of(*users)
    real = beliefs.plan_for

    class Sampled:
        engine = type("Slow", (), {"draws_files": True})

        def __init__(self, *given: Any) -> None:
            self.posterior = real(*given).posterior

    monkeypatch.setattr(beliefs, "plan_for", Sampled)
    assert all(b.slow and not b.laws for b in believed(ruv.Noise(variance=1), 1, False))
    assert all(b.laws for b in believed(ruv.Noise(variance=1), 1, True))


def test_posteriors_that_were_sampled_are_seen() -> None:
    """A study that is sampled: there is nothing to see before the button is pressed, and both laws after it."""
    page: Any = Page(NORMAL)
    laws = page.built.beliefs(page.built.rumap.masks[page.row], 1, False)
    waiting = [replace(law, laws=(), slow=True) for law in laws]
    page.built = replace(page.built, beliefs=lambda mask, example, slow: laws if slow else waiting)
    page.redraw_soon(1)
    assert page.sample.visible and [pane.visible for pane in page.panes] == [False, False]
    page._show_beliefs(page.built, slow=True)
    assert not page.sample.visible and [pane.visible for pane in page.panes] == [True, True]
    assert all(sheet.figure.visible and sheet.after.data["xs"] for sheet in page.sheets)


# -- drawings ------------------------------------------------------------------------------------------


def test_the_drawing_has_every_release_where_it_is() -> None:
    page: Any = Page(NORMAL)
    rumap, drawing = page.built.rumap, page.drawing
    rows = np.array(drawing.dots.data["row"])
    assert sorted(rows) == list(range(len(rumap)))
    assert np.allclose(drawing.dots.data["x"], drawing.place("x", rumap.utility[rows]))
    assert drawing.value_at("y", float(drawing.place("y", 0.7))) == pytest.approx(0.7)
    assert drawing.star.data["y"] == [pytest.approx(float(drawing.place("y", page.chosen.risk)))]


def test_a_point_says_what_dominates_it() -> None:
    rng = np.random.default_rng(5)
    u, v = (1 / rng.integers(1, 9, 40) for _ in range(2))
    rumap = ruv.RUMap.build(labels=[f"r{i}" for i in range(40)], intruder=u, scientist=v)
    for i, words in enumerate(explain_releases(rumap)):
        safer, useful = rumap.risk < rumap.risk[i], rumap.utility > rumap.utility[i]
        better = (rumap.risk <= rumap.risk[i]) & (rumap.utility >= rumap.utility[i]) & (safer | useful)
        if not better.any():
            assert words.startswith("On the frontier")
            continue
        j = int(re.findall(r"Dominated by r(\d+)", words)[0])
        assert better[j] and ("safer" in words, "more useful" in words) == (safer[j], useful[j])


AWKWARD: dict[str, tuple[Any, Any]] = {
    "one": ([2.0], [0.5]),
    "infinite": ([0.0, 1.0, 2.0], [0.0, 0.5, 1.0]),
    "nan": ([np.nan, 1.0], [0.3, 0.5]),
    "tiny": ([1e-160, 1e-150], [1e150, 1e160]),
    "same": ([1.0, 1.0, 1.0], [0.5, 0.5, 0.5]),
    "wide": (np.geomspace(1e-6, 1e6, 50), np.geomspace(1e-3, 1e3, 50)),
}


@pytest.mark.parametrize("kind", AWKWARD)
@pytest.mark.parametrize("max_risk", [1e-9, 0.5, 1e9])
def test_awkward_maps_are_drawn(kind: str, max_risk: float) -> None:
    u, v = AWKWARD[kind]
    rumap = ruv.RUMap.build(labels=[f"<b>{i}</b>" for i in range(len(u))], intruder=u, scientist=v)
    drawing = MapDrawing(True, lambda risk: None, lambda row: None)
    drawing.show(rumap, max_risk, None)
    drawing.look_at(rumap, 0)
    assert np.isfinite(np.array(drawing.dots.data["y"], dtype=float)).all()
    assert np.isfinite([drawing.figure.y_range.start, drawing.figure.x_range.end]).all()
    stops, default = threshold_stops(rumap, None)
    assert default in stops and list(stops) == sorted(stops)


# -- the page ------------------------------------------------------------------------------------------


def test_sliders_threshold_and_looks_move_the_page() -> None:
    page = Page(NORMAL)
    assert "2.08" in page.texts["verdict"].object and "In words: add normal noise" in page.texts["verdict"].object
    page.controls["n"].value = 30
    assert page.chosen.release == NORMAL.build({**NORMAL.defaults, "n": 30}).rumap.choose(max_risk=0.5).release
    page.controls["noise"].value = 8.0
    assert page.look == "own" and "Noise(variance=8)" in page.texts["looked"].object
    page.threshold.value = page.threshold.values[0]
    assert page.drawing.value_at("y", page.drawing.grip.location) == pytest.approx(page.threshold.value)
    page.to_chosen.clicks += 1
    assert page.look == "chosen"
    page.controls["groups"].value = 20
    page.controls["n"].value = 3
    assert "more groups than records" in page.texts["progress"].object
    page.reset.clicks += 1
    assert page.values == NORMAL.defaults and page.texts["progress"].object == "" and page.threshold.value == 0.5


def test_the_threshold_is_dragged_on_the_map() -> None:
    page = Page(NORMAL)
    page.drawing.grip.location = float(page.drawing.place("y", 0.333))  # as the browser does
    assert page.threshold.value == pytest.approx(0.333, rel=0.05) and page.chosen.risk <= page.threshold.value
    page.threshold.value = 0.5
    assert page.drawing.rule.location == pytest.approx(float(page.drawing.place("y", 0.5)))


@pytest.mark.slow
def test_a_tap_and_a_walk_look_at_a_release() -> None:
    page: Any = Page(NORMAL)
    page.drawing.dots.selected.indices = [5]
    assert page.row == page.drawing.dots.data["row"][5] and page.look == "picked"
    page.walk.value = 40
    assert page.row == 40 and page.built.rumap.releases[40] in page.texts["looked"].object


def test_several_snoopers_stand_on_one_map_and_the_worst_decides() -> None:
    page: Any = Page(SNOOPER)
    page.controls["knowledge"].value = ["record", "sample", "population"]
    rumap, worst = page.built.rumap, page.built.rumap.worst()
    assert len(rumap.user_names) == 3 and len(page.drawing.lines.data["xs"]) == 3
    assert page.chosen.release == worst.choose(max_risk=page.threshold.value).release
    assert "worst case" in page.texts["legend"].object
    order = np.argsort(worst.utility, kind="stable")
    assert np.allclose(page.drawing.worst.data["y"], page.drawing.place("y", worst.risk[order]))


def test_playing_goes_round() -> None:
    page = Page(NORMAL)
    slider = page.controls["noise"]
    slider.value = slider.values[-1]
    page.step()
    assert slider.value == slider.values[0]
    page.step()
    assert slider.value > slider.values[0] and page.look == "own"


@pytest.mark.campaign(5)
@pytest.mark.parametrize("topic", QUICK, ids=named)
@pytest.mark.parametrize(
    "query",
    [{"n": "1e999", "max_risk": "nan"}, {"n": "<b>x</b>", "noise": "-5", "knowledge": "x", "theme": "dark", "a": "no"}],
)
def test_a_strange_address_opens_the_page_all_the_same(topic: Topic, query: dict[str, str]) -> None:
    page = Page(topic, True, query)
    assert page.built is not None and "<b>x" not in "".join(t.object for t in page.texts.values())


def test_settings_come_from_the_address() -> None:
    page = Page(NORMAL, query={"n": "14", "max_risk": "0.45", "intruder_loss": "absolute", "noise": "1.2"})
    assert (page.values["n"], page.values["intruder_loss"], page.values["noise"]) == (14, "absolute", 1.2)
    assert page.threshold.value == pytest.approx(0.45, rel=0.05)
    assert page_for_visit(LESSONS, {"topic": "<script>"})[1] == NORMAL.title
    odd = replace(NORMAL, name="a&b", title="<i>")
    assert "&lt;i&gt;" in navigation([odd], "a", "dark").object


@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize("what", ["csv", "png", "py", "report"])
def test_what_is_taken_away_is_the_map(what: str) -> None:
    page: Any = Page(NORMAL, query={"n": "13"})
    content, rumap = page.take(what).getvalue(), page.built.rumap
    starts = {"csv": b"release,", "png": b"\x89PNG", "py": b'"""Two users', "report": b"<!DOCTYPE html>"}
    assert content.startswith(starts[what])
    if what == "csv":
        table = pd.read_csv(io.BytesIO(content))
        assert list(table["release"]) == list(rumap.releases) and np.allclose(table["risk"], rumap.risk, rtol=1e-14)


@pytest.mark.slow
def test_a_lesson_becomes_one_file(tmp_path: Path) -> None:
    text = static_page(replace(TABLE, states={"a": (2,)}))
    assert "Predict first" in text and text.count("<script") >= 2
    assert not re.findall(r"""<(?:script|link|img)[^>]+(?:src|href)=["'](?:https?:)?//""", text)
    with pytest.raises(InputError, match="no such lesson"):
        ruv.explore.export_lesson("tabel", tmp_path / "x.html")


# -- files ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_file() -> bytes:
    table = example_file(60)
    table.loc[:4, "income"] = SECRETS
    table.loc[0, "region"] = CATEGORY
    return table.assign(name=[WHO, *(f"p{i}" for i in range(59))]).to_csv(index=False).encode()


@pytest.mark.slow
def test_a_file_of_ones_own(own_file: bytes) -> None:
    page = FilePage()
    page.show_upload("people.csv", own_file)
    inner: Any = page.page
    assert "60 records" in page.said.object and not inner.topic.shared
    assert [c.name for c in inner.topic.controls][:4] == ["known", "target", "masks", "mine"]
    assert "name" not in inner.topic.controls[0].options  # neither a number nor one of a few categories
    built = inner.built
    linked = float(built.rumap.columns["linkage"][built.own]) * 60
    assert f"{linked:.4g} of 60 records are linked rightly" in built.said(built.own)
    first = inner.take("release").getvalue()
    assert len(pd.read_csv(io.BytesIO(first))) == 60 and inner.take("release").getvalue() != first  # drawn anew
    taken = "".join(inner.take(what).getvalue().decode() for what in ("report", "csv"))
    inner.controls["known"].value = [*inner.controls["known"].value, inner.values["target"]]
    assert "knows the target already" in inner.texts["progress"].object
    assert leaks(taken + "".join(t.object for t in inner.texts.values())) == []


@pytest.mark.parametrize("content", [b"", b"a\n1\n", b"\x00\x01", b"a,b\n1,2\n3\n", f"x,y\n{WHO},1\n".encode()])
def test_a_file_that_cannot_be_read_is_a_message(content: bytes) -> None:
    page = FilePage()
    page.show_upload("people.csv", content)
    assert page.page is None and 'role="alert"' in page.said.object and leaks(page.said.object) == []


def test_an_upload_leaves_no_file(own_file: bytes, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert len(read_upload("People.CSV", own_file)) == 60 and not list(tmp_path.iterdir())


def test_the_code_of_a_file_runs() -> None:
    topic = own_topic(example_file(60))
    values = {**topic.defaults, "masks": ("noise", "turn"), "mine": "swap", "utility": "marginals"}
    code = topic.code(values, 0.1).partition("\nmax_risk")[0]
    scope: dict[str, Any] = {}
    exec(compile(re.sub(r"data = .*", "data = example_file(60)", code), "code.py", "exec"), scope)
    rumap = topic.build(values).rumap
    assert scope["rumap"].releases == rumap.releases
    assert np.allclose(scope["rumap"].risk, rumap.risk) and np.allclose(scope["rumap"].utility, rumap.utility)


# -- studies -------------------------------------------------------------------------------------------

STUDY = '''"""A <b>study</b>."""
import ruvdecision as ruv
MAX_RISK = 0.7
RANGES = {"n": (2, 40)}

def study(n=10, variance=2.0, p=0.5, flag=False, wrong=False, text="x"):
    """Noise.

    Parameters
    ----------
    n : int
        How many records
        there are.
    variance : float
        Their variance.
    """
    if wrong:
        float("Zebulon Quixby")
    belief = ruv.NormalBelief(records=n, variance=variance, prior_variance=5)
    users = {"intruder": ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
             "scientist": ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())}
    maps = {name: ruv.evaluate([ruv.Noise(variance=v * s) for v in (1, 2, 4)], **users)
            for name, s in (("one", 1), ("two", 3))}
    return maps if flag else maps["one"]
'''


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "noise.py"
    path.write_text(STUDY, encoding="utf-8")
    return path


def test_settings_of_a_study_become_sliders_with_their_words(study_file: Path) -> None:
    topic = study_topic(load_study(study_file), {"p": 0.3})
    found: Any = {c.name: c for c in topic.controls}
    assert list(found) == ["n", "variance", "flag", "wrong"] and topic.threshold == 0.7
    assert found["n"].hint == "How many records there are." and (found["n"].stops[0], found["n"].stops[-1]) == (2, 40)
    assert describe_setting("largest", "Up to ``largest`` times. More.") == "Up to largest times."
    page: Any = Page(topic)
    assert page.chosen.release == "Noise(variance=4)" and page.panes[0].visible
    assert "<b>study" not in page.view[0].object
    page.controls["flag"].value = True
    assert page.maps.visible and page.maps.options == ["one", "two"]
    page.maps.value = "two"
    assert page.built.rumap.releases[0] == "Noise(variance=3)"
    page.controls["wrong"].value = True
    assert "ValueError" in page.texts["progress"].object and leaks(page.texts["progress"].object) == []


@pytest.mark.parametrize("ranges", ["3", '{"n": 3}', '{"n": (5, 4)}', '{"n": (20, 30)}'])
def test_bad_ranges_are_refused(study_file: Path, ranges: str) -> None:
    study_file.write_text(STUDY.replace('{"n": (2, 40)}', ranges), encoding="utf-8")
    with pytest.raises(InputError, match="RANGES"):
        study_topic(load_study(study_file))


def test_a_slow_run_tells_its_progress_and_can_be_stopped() -> None:
    pause = threading.Event()

    def build(values: Any) -> None:
        with Bar("Counting sheep") as bar:
            for i in range(10_000):
                bar.update(i / 10_000)
                pause.wait(0.005)

    runner = Runner(build, None)
    job = runner.request({"n": 1})
    assert job is not None and not job.ended.is_set() and "Counting sheep" in job.text
    assert runner.request({"n": 2}, start=False) is None  # what is slow waits for the button
    runner.stop()
    assert job.ended.wait(20) and job.stopped and job.result is None


def test_an_error_of_others_tells_its_kind_only() -> None:
    assert leaks(error_message(ValueError(WHO))) == [] and "n must" in error_message(InputError("n must be positive"))
    assert "ValueError" in Job(lambda: float(WHO)).run_now().failure


def test_without_panel_it_says_what_to_install(monkeypatch: Any, capsys: Any) -> None:
    for name in [name for name in sys.modules if name.startswith("ruvdecision.explore.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ruv.explore.__all__:
        monkeypatch.delitem(vars(ruv.explore), name, raising=False)
    monkeypatch.setitem(sys.modules, "panel", None)
    with pytest.raises(UnsupportedError, match=r'pip install "ruvdecision\[explore\]"'):
        ruv.explore.open_server(port=0)
    assert cli.main(["explore", "--no-browser"]) == 2 and "pip install" in capsys.readouterr().err
