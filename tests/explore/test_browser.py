"""The page in a real browser: Chromium without a window, moved by keyboard and pointer.

Needs the Python package playwright (as a driver only; it downloads no browser) and a Chromium; skips, and says so,
without.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sentinels import SECRETS, WHO, leaks

pytest.importorskip("panel", reason="the page needs panel")

from ruvdecision.explore import open_server
from ruvdecision.explore.lessons import LESSONS, NORMAL, TABLE
from ruvdecision.explore.microdata import example_file
from ruvdecision.explore.page import static_page
from ruvdecision.explore.server import Server

playwright = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")

# Elsewhere a warning is an error; here it would be one inside of Bokeh's and Tornado's callbacks, in the server's thread.
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]
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
PATIENCE = 60_000
IDLE = "window.Bokeh && Bokeh.documents.length > 0 && Bokeh.documents.every((d) => d.is_idle)"


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
        self.page, self.server = page, server
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: self.complaints.append(line.text) if line.type == "error" else None)

    def open(self, query: str = "", shown: str = "canvas") -> Any:
        self.page.goto(self.server.url + query)
        self.page.wait_for_selector(shown, timeout=PATIENCE)
        # What is pressed before everything is drawn does not reach the program.
        self.page.wait_for_function(IDLE, polling=100, timeout=PATIENCE)
        return self.page

    def verdict(self) -> str:
        return str(self.page.locator(".banner").first.inner_text())

    def until(self, wanted: str) -> None:
        self.page.locator(".banner", has_text=wanted).first.wait_for(timeout=PATIENCE)


@pytest.fixture
def visit(browser: Any, server: Server) -> Iterator[Visit]:
    page = browser.new_page()
    yield Visit(page, server)
    page.close()


def choice(max_risk: float, **moved: Any) -> str:
    return NORMAL.build({**NORMAL.defaults, **moved}).rumap.choose(max_risk=max_risk).release


@pytest.mark.parametrize("name", [t.name for t in LESSONS])
def test_every_lesson_opens_and_fetches_nothing_from_elsewhere(visit: Visit, name: str) -> None:
    page = visit.open(f"?topic={name}")
    visit.until("Release ")
    page.locator("details").nth(1).wait_for(state="attached", timeout=PATIENCE)
    if name != "weights":
        page.locator("math").first.wait_for(state="attached", timeout=PATIENCE)
    here = (visit.server.url, "data:", "blob:")
    assert [u for u in visit.requests if not u.startswith(here)] == [] and visit.complaints == []


def test_the_keyboard_alone_moves_a_slider_and_the_address_keeps_it(visit: Visit) -> None:
    page = visit.open()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(LABEL).startswith("Records n"):
            break
    assert page.evaluate(LABEL).startswith("Records n")
    page.keyboard.press("ArrowRight")
    visit.until(choice(0.5, n=11))
    page.wait_for_function("location.search.includes('n=11')", polling=100, timeout=PATIENCE)
    page.reload()
    visit.until(choice(0.5, n=11))
    assert visit.complaints == []


#: What the element that has the focus is called, also within shadow roots.
LABEL = """() => { let e = document.activeElement; while (e && e.shadowRoot && e.shadowRoot.activeElement)
  e = e.shadowRoot.activeElement; return (e && e.getAttribute('aria-label')) || ''; }"""


def test_the_threshold_is_dragged(visit: Visit) -> None:
    page = visit.open()
    visit.until(choice(0.5))
    canvas = page.locator("canvas").first.bounding_box()
    before = visit.verdict()
    # The line is somewhere in the lower half: look for the pointer that says so.
    x = canvas["x"] + canvas["width"] / 2
    for y in range(int(canvas["y"] + canvas["height"]) - 60, int(canvas["y"]), -4):
        page.mouse.move(x, y)
        if page.evaluate(CURSOR) in ("ns-resize", "row-resize", "move", "grab"):
            break
    page.mouse.down()
    page.mouse.move(x, y - 40, steps=5)
    page.mouse.up()
    page.wait_for_function("location.search.includes('max_risk=')", polling=100, timeout=PATIENCE)
    assert visit.verdict() != before and visit.complaints == []


CURSOR = """() => { const all = []; const walk = (r) => r.querySelectorAll('*').forEach((e) => {
  if (e.shadowRoot) walk(e.shadowRoot); if (e.style && e.style.cursor && e.style.cursor != 'default') all.push(e.style.cursor); });
  walk(document); return all.find((c) => /resize|move|grab/.test(c)) || ''; }"""


@pytest.mark.parametrize("name", [*(t.name for t in LESSONS), "file"])
@pytest.mark.parametrize("theme", ["default", "dark"])
def test_axe_finds_nothing_serious(visit: Visit, name: str, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core was not found: npm install --no-save axe-core, or AXE_CORE=axe.min.js")
    page = visit.open(f"?topic={name}&theme={theme}", "input[type=file]" if name == "file" else "canvas")
    page.wait_for_timeout(1000)  # handles of sliders get their names
    page.evaluate(AXE.read_text(encoding="utf-8") + "; 0")
    found = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    serious = [v for v in found if v["impact"] in ("serious", "critical")]
    assert [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in serious] == []


#: The program that checks a page for readers who cannot see it or use a pointer.
AXE = Path(os.environ.get("AXE_CORE", "node_modules/axe-core/axe.min.js"))


@pytest.mark.parametrize("name", [t.name for t in LESSONS])
def test_a_phone_has_no_horizontal_scroll(visit: Visit, name: str) -> None:
    visit.page.set_viewport_size({"width": 390, "height": 780})
    page = visit.open(f"?topic={name}")
    visit.until("Release ")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_dark_system_gets_a_dark_page(visit: Visit) -> None:
    visit.page.emulate_media(color_scheme="dark")
    page = visit.open("?n=14")
    page.wait_for_function("location.search.includes('theme=dark')", polling=100, timeout=PATIENCE)
    visit.until(choice(0.5, n=14))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"


def test_ones_own_file_stays_here(visit: Visit, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table = example_file(60)
    table.loc[:4, "income"] = SECRETS
    path = tmp_path / "people.csv"
    table.assign(name=[WHO, *(f"p{i}" for i in range(59))]).to_csv(path, index=False)
    page = visit.open("?topic=file", "input[type=file]")
    page.locator("input[type=file]").set_input_files(path)
    visit.until("60 records")
    page.locator("text=records are linked rightly").first.wait_for(timeout=PATIENCE)
    with page.expect_download(timeout=PATIENCE) as caught:
        page.locator("text=The released file you look at").last.click()
    released = pd.read_csv(io.BytesIO(Path(caught.value.path()).read_bytes()))
    assert len(released) == 60 and "name" not in released
    said = "".join(capfd.readouterr()) + page.url + "".join(visit.requests)
    assert leaks(said) == [] and "income" not in said and visit.complaints == []


def test_a_lesson_opens_from_a_file(browser: Any, tmp_path: Path, server: Server) -> None:
    path = tmp_path / "lesson.html"
    path.write_text(static_page(replace(TABLE, states={"a": (2, 12), "b": (2, 16)})), encoding="utf-8")
    page = browser.new_page()
    visit = Visit(page, server)
    page.goto(path.as_uri())
    visit.until("Release ")
    before = page.locator("math").all_text_contents()
    page.locator("[role=slider]").nth(1).focus()
    page.keyboard.press("Home")
    page.wait_for_timeout(500)
    assert page.locator("math").all_text_contents() != before
    assert [u for u in visit.requests if not u.startswith(("file:", "data:", "blob:"))] == []
    assert not [c for c in visit.complaints if not re.search("manifest|favicon", c)]
    page.close()
