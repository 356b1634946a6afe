"""The page in a real browser: Debian's Chromium without a window, moved by keyboard and pointer.

Needs the Python package playwright (as a driver only; it downloads no browser) and a Chromium; skips, and says so,
without.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest

from ruvdecision.explore import LESSONS, Server, open_server
from ruvdecision.explore.lesson import Lesson
from ruvdecision.maps.rumap import RUMap

playwright = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome", "chrome") if (found := shutil.which(name))),
    None,
)
if CHROMIUM is None:
    pytest.skip("no Chromium was found on this machine", allow_module_level=True)

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)
LESSON = {lesson.name: lesson for lesson in LESSONS}
PATIENCE = 90_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with open_server(port=0) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=CHROMIUM,
            args=ARGUMENTS.split(),
            viewport={"width": 1280, "height": 900},
            accept_downloads=True,
        )
        yield context
        context.close()


class Visit:
    """A page with what it did on the way: requests, console lines, errors."""

    def __init__(self, page: Any, server: Server) -> None:
        self.page, self.url = page, server.url
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on(
            "console", lambda line: self.complaints.append(line.text) if line.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, query: str = "", state: str = "ready") -> Any:
        self.page.goto(self.url + query)
        self.page.wait_for_selector(f"html[data-state={state}]", timeout=PATIENCE)
        return self.page

    def after(self, act: Any, state: str = "ready") -> None:
        """Do something and wait until the page has drawn what came of it, and nothing is under way."""
        before = int(self.drawn)
        act()
        for _ in range(600):
            if (
                int(self.drawn) > before
                and self.page.evaluate("document.documentElement.dataset.state") == state
                and not self.busy
            ):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"the page was not {state} in time")

    @property
    def drawn(self) -> str:
        return self.page.evaluate("document.documentElement.dataset.drawn || '0'")

    @property
    def busy(self) -> bool:
        return bool(self.page.evaluate("busy || again"))

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())


@pytest.fixture
def visit(browser: Any, server: Server) -> Iterator[Visit]:
    page = browser.new_page()
    yield Visit(page, server)
    page.close()


def built(name: str, **changes: Any) -> RUMap:
    lesson: Lesson = LESSON[name]
    return lesson.build({c.name: c.default for c in lesson.controls} | changes).rumap


def test_a_slider_is_moved_by_keyboard_and_the_numbers_are_the_packages(visit: Visit) -> None:
    page = visit.open()
    assert visit.text("#sentence") == str(built("normal").choose(max_risk=0.5))
    page.focus("#c-n")
    for key, expected in (("ArrowRight", 11), ("ArrowRight", 12), ("ArrowLeft", 11), ("Home", 1), ("End", 1000)):
        visit.after(lambda key=key: page.keyboard.press(key))
        assert page.input_value("#c-n-number") == str(expected)
        assert page.get_attribute("#c-n", "aria-valuetext") == str(expected)
        rumap = built("normal", n=expected)
        choice = rumap.choose(max_risk=0.5)
        assert visit.text("#sentence") == str(choice)
        assert (
            visit.text("#looked-risk") == f"{choice.risk:.6g}"
            and visit.text("#looked-utility") == f"{choice.utility:.6g}"
        )
        assert visit.text("tr.chosen th") == choice.release
    assert visit.complaints == []


def test_the_noise_slider_turns_the_eye_to_the_readers_own_release(visit: Visit) -> None:
    page = visit.open()
    before = page.locator(".panel svg").first.get_attribute("aria-label")
    page.focus("#c-noise")
    visit.after(lambda: page.keyboard.press("ArrowRight"))
    row = built("normal")["Noise(variance=2.16) | Microaggregate(groups=1)"]
    assert visit.text("#release-name") == row.release
    assert (
        visit.text("#looked-risk") == f"{row.risk:.6g}"
        and visit.text("#looked-intruder_uncertainty") == f"{row.intruder_uncertainty:.6g}"
    )
    assert page.locator(".panel svg").first.get_attribute("aria-label") != before  # the posterior moved too
    assert page.get_attribute("#look-own", "aria-pressed") == "true"
    visit.after(lambda: page.click("#look-chosen"))
    assert visit.text("#release-name") == "Noise(variance=2.08) | Microaggregate(groups=1)"


def test_the_threshold_a_typed_number_and_a_pick(visit: Visit) -> None:
    page = visit.open()

    def type_threshold() -> None:
        page.fill("#c-max_risk-number", "0.333")
        page.keyboard.press("Enter")

    visit.after(type_threshold)
    assert visit.text("#sentence") == str(built("normal").choose(max_risk=0.333))
    visit.after(lambda: page.select_option("#c-scientist_loss", "absolute"))
    assert visit.text("#sentence") == str(built("normal", scientist_loss="absolute").choose(max_risk=0.333))
    visit.after(lambda: page.click("#reset"))
    assert visit.text("#sentence") == str(built("normal").choose(max_risk=0.5))


def test_the_other_lessons(visit: Visit) -> None:
    page = visit.open()
    visit.after(lambda: page.click("text=A snooper against noise"))
    assert not page.is_visible("#c-p")
    visit.after(lambda: page.select_option("#c-target", "percentile"))
    assert page.is_visible("#c-p")  # a control shows when it is of use
    visit.after(lambda: page.select_option("#c-knowledge", "sample"))
    assert visit.text("#sentence") == str(
        built("snooper", target="percentile", knowledge="sample").choose(max_risk=5.0)
    )
    visit.after(lambda: page.click("text=Two variables and their weights"))
    page.focus("#c-scientist_2")
    visit.after(lambda: page.keyboard.press("End"))
    assert visit.text("#sentence") == str(built("weights", scientist_2=20.0).choose(max_risk=0.12))
    assert len(page.query_selector_all(".panel svg")) == 2


def test_settings_live_in_the_address(visit: Visit) -> None:
    page = visit.open("?topic=normal&n=14&max_risk=0.45&look=own&noise=1.2&example=7&intruder_loss=absolute")
    assert page.input_value("#c-n-number") == "14" and page.input_value("#c-intruder_loss") == "absolute"
    rumap = built("normal", n=14, noise=1.2, intruder_loss="absolute")
    assert visit.text("#release-name") == "Noise(variance=1.2) | Microaggregate(groups=1)"
    assert visit.text("#looked-risk") == f"{rumap['Noise(variance=1.2) | Microaggregate(groups=1)'].risk:.6g}"
    page.focus("#c-n")
    visit.after(lambda: page.keyboard.press("ArrowRight"))
    page.wait_for_timeout(400)
    sent = parse_qs(urlsplit(page.url).query)
    assert sent["n"] == [page.input_value("#c-n-number")] and sent["example"] == ["7"] and "variance" not in sent
    sentence = visit.text("#sentence")
    page.reload()
    page.wait_for_selector("html[data-state=ready]", timeout=PATIENCE)
    assert visit.text("#sentence") == sentence


@pytest.mark.parametrize(
    "query", ["?topic=normal&n=1e999", "?topic=<script>alert(1)</script>", "?n=abc&look=release:<b>x</b>"]
)
def test_a_strange_address_opens_the_page_all_the_same(visit: Visit, query: str) -> None:
    visit.open(query)
    assert visit.text("#sentence") == str(built("normal").choose(max_risk=0.5))
    assert visit.complaints == []


def test_bad_settings_are_a_message_and_the_way_back_works(visit: Visit) -> None:
    page = visit.open("?n=5")
    page.focus("#c-groups")
    visit.after(lambda: page.keyboard.press("End"), "problem")
    assert "more groups than records" in visit.text("#problem") and page.is_visible("#problem")
    visit.after(lambda: page.keyboard.press("Home"))
    assert not page.is_visible("#problem")


def test_a_pointer_finds_a_release(visit: Visit) -> None:
    page = visit.open()
    point = page.evaluate(
        "scene.map.points.find((p) => scene.labels[p[2]] === 'Noise(variance=8) | Microaggregate(groups=1)')"
    )
    page.hover("#stage svg", position={"x": point[0], "y": point[1]})
    row = built("normal")["Noise(variance=8) | Microaggregate(groups=1)"]
    assert visit.text("#tip") == f"{row.release}: risk {row.risk:.6g}, utility {row.utility:.6g}"
    visit.after(lambda: page.click("#stage svg", position={"x": point[0], "y": point[1]}))
    assert visit.text("#release-name") == row.release
    page.focus("#release")
    visit.after(lambda: page.keyboard.press("ArrowRight"))
    assert visit.text("#release-name") == "Noise(variance=8.08) | Microaggregate(groups=1)"
    assert page.get_attribute("#release", "aria-valuetext") == "Noise(variance=8.08) | Microaggregate(groups=1)"


@pytest.mark.parametrize("width", [320, 375, 768])
@pytest.mark.parametrize("topic", LESSON)
def test_a_phone_has_no_horizontal_scroll(visit: Visit, width: int, topic: str) -> None:
    visit.page.set_viewport_size({"width": width, "height": 740})
    page = visit.open(f"?topic={topic}")
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = (
        "[...document.querySelectorAll('main *')].filter((e) => !e.closest('.wide') && "
        "e.getBoundingClientRect().right > innerWidth + 1)"
    )
    assert page.evaluate(f"{wide}.map((e) => e.tagName + '#' + e.id)") == []
    assert page.evaluate("document.querySelector('#stage svg').getBoundingClientRect().width") <= width


def test_every_control_has_a_name_and_can_be_reached(visit: Visit) -> None:
    page = visit.open()
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    roles = {
        "slider",
        "spinbutton",
        "combobox",
        "button",
        "link",
        "checkbox",
        "image",
        "img",
        "region",
        "form",
        "navigation",
    }
    found = [
        (n["role"]["value"], n.get("name", {}).get("value", ""))
        for n in tree
        if not n["ignored"] and n["role"]["value"] in roles
    ]
    assert all(name.strip() for _, name in found), [f for f in found if not f[1].strip()]
    names = [name for role, name in found if role == "slider"]
    assert len(names) == len(set(names)) >= 8
    reached = set()
    page.evaluate("document.body.focus()")
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    wanted = page.evaluate(
        "[...document.querySelectorAll('main input, main select, main button, main a')].filter((e) => "
        "e.checkVisibility()).map((e) => e.id)"
    )
    assert set(wanted) <= reached, set(wanted) - reached
    page.focus("#c-n")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("getComputedStyle(document.getElementById('c-n')).outlineStyle") == "solid"
    assert page.evaluate("document.documentElement.lang") == "en" and len(page.query_selector_all("h1")) == 1


COLOURS = """() => {
  const look = getComputedStyle;
  const solid = (e) => e && (/, 0\\)$/.test(look(e).backgroundColor) ? solid(e.parentElement) : look(e).backgroundColor);
  const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const name = (e) => e.tagName + '.' + (e.id || e.getAttribute('class'));
  const seen = (e) => own(e) && e.checkVisibility() && !e.closest('.skip, script, noscript');
  const lines = document.querySelectorAll('svg .curve, svg .prior, svg .threshold, svg .looked, svg .axis');
  return {
    texts: [...document.querySelectorAll('body *')].filter(seen)
      .map((e) => [name(e), look(e)[e.closest('svg') ? 'fill' : 'color'], solid(e)]),
    lines: [...lines].map((e) => [name(e), look(e).stroke, solid(e)]),
  };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(visit: Visit, scheme: str) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    for query in ("?topic=normal", "?topic=weights", "?topic=normal&max_risk=0.01"):
        colours = visit.open(query).evaluate(COLOURS)
        assert len(colours["texts"]) > 60 and len(colours["lines"]) > 5
        assert (luminance(colours["texts"][0][2]) > 0.5) is (scheme == "light")
        for what, least in (("texts", 4.5), ("lines", 3.0)):
            weak = [(name, ink, paper) for name, ink, paper in colours[what] if contrast(ink, paper) < least]
            assert weak == []


def test_the_theme_button(visit: Visit) -> None:
    page = visit.open()
    seen = {}
    for expected in ("light", "dark", "auto"):
        page.click("#theme")
        assert visit.text("#theme") == f"Theme: {expected}"
        seen[expected] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert luminance(seen["light"]) > 0.9 and luminance(seen["dark"]) < 0.05


def test_downloads(visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = visit.open("?n=13&groups=2&max_risk=0.6")
    files = {}
    for name in ("csv", "png", "py", "report"):
        with page.expect_download(timeout=PATIENCE) as caught:
            page.click(f"#take-{name}")
        files[caught.value.suggested_filename] = Path(caught.value.path()).read_bytes()
    assert list(files) == ["normal-map.csv", "normal-map.png", "normal_map.py", "normal-report.html"]
    rumap = built("normal", n=13, groups=2)
    table = pd.read_csv(io.BytesIO(files["normal-map.csv"]))
    assert list(table["release"]) == list(rumap.releases) and np.allclose(table["risk"], rumap.risk, rtol=1e-14)
    assert files["normal-map.png"][:8] == b"\x89PNG\r\n\x1a\n" and b"<svg" in files["normal-report.html"]
    scope: dict[str, Any] = {}
    exec(compile(files["normal_map.py"], "normal_map.py", "exec"), scope)
    assert np.array_equal(scope["rumap"].risk, rumap.risk) and scope["max_risk"] == 0.6
    import matplotlib.pyplot as plt

    plt.close("all")


def test_nothing_is_fetched_from_elsewhere_and_nothing_is_blocked(visit: Visit) -> None:
    page = visit.open()
    page.focus("#c-variance")
    visit.after(lambda: page.keyboard.press("ArrowRight"))
    page.hover("#stage svg")
    assert (
        all(url.startswith((visit.url, "data:image/svg+xml,")) for url in visit.requests) and len(visit.requests) >= 5
    )
    assert visit.complaints == []


STUDY = '''
"""A <b>study</b> & more."""
import time
from pathlib import Path
import ruvdecision as ruv
from ruvdecision.running.progress import Bar

MAX_RISK = 0.5

def study(n=10, steps=40):
    """Takes a while."""
    with Bar("Counting sheep") as bar:
        for i in range(steps):
            bar.update(i / steps)
            time.sleep(0.02)
        while not Path(__file__).with_name("seen").exists():
            time.sleep(0.02)
    labels = ['<img src="x" onerror="document.title=1">', "b & c"]
    return {"one": ruv.RUMap.build(labels=labels, intruder=[n, 1.0], scientist=[n / 2, 0.25]),
            "<i>two</i>": ruv.RUMap.build(labels=labels, intruder=[3.0, 1.0], scientist=[1.5, 0.25])}
'''


def test_a_study_runs_in_the_background(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "sheep.py"
    path.write_text(STUDY, encoding="utf-8")
    with open_server(path, port=0) as server:
        page = browser.new_page()
        visit = Visit(page, server)
        page.goto(server.url)
        page.wait_for_selector("text=Counting sheep", timeout=PATIENCE)
        (tmp_path / "seen").touch()  # the study goes on only now, however slow the browser is
        page.wait_for_selector("html[data-state=ready]", timeout=PATIENCE)
        assert visit.text("#title") == "A <b>study</b> & more." and visit.text("#about") == "Takes a while."
        assert visit.text("#sentence").startswith('Release <img src="x" onerror="document.title=1">: risk 0.1')
        assert page.query_selector_all("main img, main b, main i") == [] and "study" in page.title()
        # A slow study waits for the button.
        page.focus("#c-n")
        visit.after(lambda: page.keyboard.press("ArrowRight"), "waiting")
        assert "Press Compute" in visit.text("#progress")
        visit.after(lambda: page.click("#compute"), "waiting")
        page.wait_for_selector("html[data-state=ready]", timeout=PATIENCE)
        assert f"risk {1 / 11:.4g}" in visit.text("#sentence")
        # Long enough to be stopped.
        visit.after(lambda: page.fill("#c-steps-number", "400") or page.keyboard.press("Enter"), "waiting")
        visit.after(lambda: page.click("#compute"), "waiting")
        page.wait_for_selector("#stop:visible", timeout=PATIENCE)
        visit.after(lambda: page.click("#stop"), "waiting")
        page.wait_for_selector("#stop", state="hidden", timeout=PATIENCE)
        # Back where it has been: the map is still there, and so is the other one.
        visit.after(lambda: page.fill("#c-steps-number", "40") or page.keyboard.press("Enter"))
        visit.after(lambda: page.select_option("#c-map", "<i>two</i>"))
        assert "risk 0.3333" in visit.text("#sentence")
        assert visit.complaints == []
        page.close()


def luminance(colour: str) -> float:
    parts = [float(x) for x in re.findall(r"[\d.]+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (p / 255 for p in parts)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(ink: str, paper: str) -> float:
    """WCAG 2's contrast of two opaque colours."""
    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
