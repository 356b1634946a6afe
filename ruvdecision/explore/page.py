"""The page, by Panel: widgets for a topic's controls, the map, what users believe, words, formulas and downloads."""

from __future__ import annotations

import base64
import html
import io
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import panel as pn
from bokeh.document import Document
from panel.io.callbacks import PeriodicCallback
from panel.viewable import Viewable
from param.parameterized import Event

from .._version import __version__
from ..decide.choice import Choice
from ..errors import InputError, RuvError
from ..maps.show import clean_text, evenly_spaced, format_entry, format_number, plural, user_columns
from ..plots.theme import use_files_only
from ..report import render_report
from ..report.content import Chapter, alt_text, release_table, sentences_on_releases, user_blocks
from ..report.document import Items, fragment
from ..report.picture import draw_map_png
from .drawing import BeliefDrawing, MapDrawing
from .jobs import Job, Runner, error_message
from .microdata import own_topic, read_upload
from .topic import BeliefView, Built, Pick, Slider, Topic, Values, threshold_stops

LOOK, CHOICE, MAP = 1, 2, 3
"""What has to be drawn again: the release looked at, the choice, or the whole map."""
#: Milliseconds between two steps of the play button, and how many steps there are.
PACE, STEPS = 350, 24
#: Rows of the table, beside those that have a mark.
EXCERPT = 8
MARKS = "Dashed: before the release. Filled: after it. Line: best estimate. Diamond: the truth of the example."
"""What the marks of the posteriors are."""
FILE = "file"
"""The name of the topic that is a file of one's own."""
# matplotlib's settings are global, so only one picture is drawn at a time.
_TURN = threading.Lock()

HERE = Path(__file__).parent
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath "
    "d='M1 15C9 15 14 11 15 2' fill='none' stroke='%230072B2' stroke-width='2.4'/%3E%3C/svg%3E"
)
CSS = (HERE / "page.css").read_text(encoding="utf-8")


class Page:
    """One topic to play with.

    Parameters
    ----------
    topic : Topic
        The topic.
    dark : bool
        Whether the paper is dark.
    query : mapping, optional
        Settings as an address has them.
    debug : bool
        Write tracebacks of what fails to standard error.
    static : bool
        For a file without a program behind it: only the controls that the topic names for that.

    Examples
    --------
    >>> from ruvdecision.explore.lessons import NORMAL
    >>> page = Page(NORMAL)
    >>> page.threshold.value, page.chosen.release
    (0.5, 'Noise(variance=2.08) | Microaggregate(groups=1)')
    """

    def __init__(
        self,
        topic: Topic,
        dark: bool = False,
        query: Mapping[str, str] | None = None,
        *,
        debug: bool = False,
        static: bool = False,
    ) -> None:
        self.topic, self.static, self.query = topic, static, dict(query or {})
        self.runner = Runner(topic.build, topic.quick, debug)
        self.built: Built | None = None
        self.fitted = False
        self.chosen: Choice | None = None
        self.look, self.row, self._due, self._muted = "chosen", None, 0, False  # type: str, int | None, int, bool
        self.drawing = MapDrawing(dark, self._on_threshold_drag, self._on_release_tap, 60 if static else 3000)
        self.sheets = [BeliefDrawing(dark, 0), BeliefDrawing(dark, 2)]
        self._held = False
        self._ticks: list[PeriodicCallback] = []
        self._polls: list[PeriodicCallback] = []
        self._make_widgets()
        self.texts = {name: html_pane(margin=(0, 10)) for name in TEXTS}
        self.panes = [pn.pane.Bokeh(sheet.figure, sizing_mode="stretch_width") for sheet in self.sheets]
        self.view = self._make_layout()
        # A browser looks on; otherwise everything is done at once.
        self._document = pn.state.curdoc if in_browser() else None
        self._location = pn.state.location if in_browser() else None
        if self._document is not None:
            pn.state.on_session_destroyed(lambda context: self.runner.stop())
        self.refresh(MAP, start=True)

    # -- controls ---------------------------------------------------------------------------------------

    def _make_widgets(self) -> None:
        states = dict(self.topic.states or {}) if self.static else {}
        self.controls: dict[str, pn.widgets.Widget] = {}
        for control in self.topic.controls:
            value = control.read(self.query[control.name]) if control.name in self.query else control.default
            self.controls[control.name] = widget(control, value, states.get(control.name))
            self.controls[control.name].param.watch(lambda event, c=control: self._on_control_change(c), "value")
        self.shown = [c for c in self.topic.controls if not self.static or c.name in states]
        # Disabled while there is nothing to choose: a static file has one state per choice of every widget that is not.
        hidden = {"options": [], "visible": False, "disabled": True}
        wide = {"sizing_mode": "stretch_width"}
        self.maps = pn.widgets.Select(label="Map", **hidden, **wide)
        self.maps.param.watch(lambda event: self._on_control_change(None), "value")
        said = "Largest tolerable risk (or drag the line)"
        self.threshold = pn.widgets.DiscreteSlider(label=said, options=[0.5, 1.0], **wide)
        self.threshold.param.watch(lambda event: self.redraw_soon(CHOICE), "value")
        said = "Example file that the posteriors are drawn for"
        self.example = pn.widgets.IntSlider(label=said, start=1, end=50, value=1, **wide)
        self.example.param.watch(lambda event: self.redraw_soon(LOOK), "value")
        self.walk = pn.widgets.IntSlider(label="Release that you look at", start=0, end=1, **wide)
        self.walk.param.watch(lambda event: self._on_release_tap(event.new), "value")
        self.play = pn.widgets.Toggle(label=f"▶ Play: {self._played_label()}", visible=self.topic.play is not None)
        self.play.param.watch(self._toggle_play, "value")
        self.compute = button("Compute", lambda: self.refresh(MAP, start=True), "primary", False)
        self.stop = button("Stop", self.runner.stop, "default", False)
        self.sample = button("Draw the sampled posteriors", self._sample_posteriors, "default", False)
        self.reset = button("Back to the start", self._reset_controls)
        self.to_chosen = button("The chosen release", lambda: self._look_elsewhere("chosen"))
        self.to_own = button("Your own candidate", lambda: self._look_elsewhere("own"))

    @property
    def values(self) -> Values:
        """Where the controls stand."""
        found: dict[str, object] = {}
        for c in self.topic.controls:
            value = self.controls[c.name].value
            found[c.name] = tuple(value) if c.several else value
        if self.maps.value:
            found["map."] = self.maps.value
        return found

    def _on_control_change(self, control: Slider | Pick | None) -> None:
        if control is not None and control.looks:
            self.look = "own"
        self.redraw_soon(MAP)

    def _reset_controls(self) -> None:
        defaults = self.topic.defaults
        loose = {c.name: list(defaults[c.name]) if c.several else c.default for c in self.topic.controls}
        self._without_callbacks(
            lambda: [self.controls[name].param.update(value=value) for name, value in loose.items()]
        )
        self.look, self.query = "chosen", {}
        self.example.value, self.threshold.value = 1, self._default
        self.refresh(MAP, start=False)

    def _without_callbacks(self, act: Callable[[], object]) -> None:
        self._muted = True
        try:
            act()
        finally:
            self._muted = False

    def _played_label(self) -> str:
        return next((c.label.lower() for c in self.topic.controls if c.name == self.topic.play), "")

    def _toggle_play(self, event: Event) -> None:
        """Move the slider by itself, round and round, until the button is pressed again."""
        self.play.label = f"{'❚❚ Stop' if event.new else '▶ Play'}: {self._played_label()}"
        if event.new:
            self._ticks.append(pn.state.add_periodic_callback(self.step, period=PACE))
        while self._ticks and not event.new:
            self._ticks.pop().stop()

    def step(self) -> None:
        """One step of playing."""
        slider = self.controls[str(self.topic.play)]
        stops = list(slider.values)
        at = stops.index(slider.value) + max(1, len(stops) // STEPS)
        slider.value = stops[at] if at < len(stops) else stops[0]

    # -- from the drawing -------------------------------------------------------------------------------

    def _on_threshold_drag(self, risk: float) -> None:
        """The threshold follows the line on the map."""
        if self._muted or self.built is None:
            return
        self._held = True  # the line stays where the pointer has it
        self.threshold.value = min(self.threshold.values, key=lambda stop: abs(stop - risk))

    def _on_release_tap(self, row: int) -> None:
        if not self._muted and self.built is not None and row < len(self.built.rumap):
            self.row = int(row)
            self._look_elsewhere("picked")

    def _look_elsewhere(self, how: str) -> None:
        self.look = how
        self.redraw_soon(LOOK)

    # -- drawing ----------------------------------------------------------------------------------------

    def redraw_soon(self, level: int) -> None:
        """Draw again soon: several moves that come at once are one drawing."""
        if self._muted:
            return
        waiting, self._due = self._due, max(self._due, level)
        if self._document is None:
            self.refresh()
        elif not waiting:
            self._document.add_timeout_callback(self.refresh, 12)

    def refresh(self, level: int = 0, *, start: bool = False) -> None:
        """Draw again what has to be."""
        level, self._due = max(level, self._due), 0
        if level == MAP:
            job = self.runner.request(self.values, start=start or self._document is None)
            if job is not None and self._document is None:
                job.ended.wait()
            if job is None or not job.ended.is_set() or job.result is None:
                self._show_no_map(job)
                return
            self._show_waiting("")
            self.built = job.result
            self._fit_controls_to_map()
        if level and self.built is not None:
            try:
                self._draw_from_level(level, self.built)
            except RuvError as error:
                self.texts["verdict"].object = banner(str(error), "warning")
        self._tell_address()

    def _show_no_map(self, job: Job[Built] | None) -> None:
        """There is no map for these settings, or not yet."""
        if job is None:
            self._show_waiting("These settings have not been computed yet. Press Compute.", compute=True)
        elif job.ended.is_set():
            self._show_waiting(job.failure, compute=job.stopped, bad=not job.stopped)
        else:
            self._poll_job(job)
            self._polls.append(pn.state.add_periodic_callback(lambda: self._poll_job(job), period=300))

    def _poll_job(self, job: Job[Built]) -> None:
        if not job.ended.is_set():
            self._show_waiting(f"Computing: {job.text}", stop=True)
            return
        while self._polls:
            self._polls.pop().stop()
        if job is self.runner.job:
            if job.result is not None:
                self.refresh(MAP)
            else:
                self._show_no_map(job)

    def _show_waiting(self, text: str, *, compute: bool = False, stop: bool = False, bad: bool = False) -> None:
        said = banner(text, "warning" if bad else "") if text else ""
        self.texts["progress"].object = f'<div role="status">{said}</div>' if text else ""
        self.compute.visible, self.stop.visible = compute, stop

    def _fit_controls_to_map(self) -> None:
        """Fit what depends on the map: its threshold, the releases to walk through, the maps of a panel."""
        assert self.built is not None
        rumap = self.built.rumap
        worst = rumap.worst() if rumap.user_names else rumap
        stops, self._default = threshold_stops(worst, self.topic.threshold)
        first = not self.fitted
        if self.static:
            stops = tuple(sorted({*evenly_spaced(np.array(stops), 6).tolist(), self._default}))
        wanted = self._default if first else self.threshold.value
        if first and "max_risk" in self.query:
            wanted = Slider("", "", stops, self._default).read(self.query["max_risk"])
        self.fitted = True

        def fit() -> None:
            if not (self.static and not first):
                nearest = min(stops, key=lambda stop: abs(stop - wanted))
                self.threshold.param.update(options={format_number(s, 4): s for s in stops}, value=nearest)
            self.walk.param.update(end=max(len(rumap) - 1, 1), disabled=len(rumap) < 2)
            if self.built is not None and self.built.maps and self.maps.options != list(self.built.maps):
                shown = {"visible": True, "disabled": False}
                self.maps.param.update(options=list(self.built.maps), value=self.built.maps[0], **shown)

        self._without_callbacks(fit)

    def _draw_from_level(self, level: int, built: Built) -> None:
        rumap, max_risk = built.rumap, float(self.threshold.value)
        if level >= CHOICE:
            self.part = Chapter(self.topic.title, rumap, max_risk)
            self.chosen = self.part.choice
            more = (
                f"<br>In words: {escaped(self.chosen.order)}." if self.chosen is not None and self.chosen.order else ""
            )
            said = banner(self.part.sentence, self.part.kind, more)
            self.texts["verdict"].object = f'<div role="status">{said}</div>'
        if level == MAP:
            self._without_callbacks(lambda: self.drawing.show(rumap, max_risk, self.chosen))
            self.texts["legend"].object = legend(self.drawing, self.part, built)
            lines = [f'<div class="wide">{formula}</div>' for formula in built.formulas]
            self.texts["formulas"].object = "".join(lines) + fragment(user_blocks(self.part))
        elif level == CHOICE:
            self._without_callbacks(lambda: self.drawing.show_choice(max_risk, self.chosen, move=not self._held))
        self._held = False
        self.row = self._row_looked_at(built)
        self._without_callbacks(lambda: self.drawing.look_at(rumap, self.row))
        if self.row is not None and self.walk.value != self.row:
            self._without_callbacks(lambda: self.walk.param.update(value=self.row))
        self.to_own.visible = built.own is not None
        self.texts["looked"].object = release_in_words(built, self.row, self.look)
        if level >= CHOICE:
            meaning = () if self.chosen is None else self.chosen.meaning
            self.texts["why"].object = fragment([Items([*sentences_on_releases(self.part), *meaning])])
        self.texts["numbers"].object = numbers(self.part, self.row)
        self._show_beliefs(built, slow=self.static)

    def _row_looked_at(self, built: Built) -> int | None:
        """The row that the reader looks at."""
        rumap = built.rumap
        if self.look == "own" and built.own is not None:
            return built.own
        if self.look == "picked" and self.row is not None and self.row < len(rumap):
            return self.row
        if self.chosen is not None:
            # Of several users the row is that of the first who looks at the chosen release.
            return rumap.released.index(self.chosen.release) if rumap.user_names else int(self.chosen.position)
        # Nothing is chosen: the safest release is the nearest miss.
        return None if np.all(np.isnan(rumap.risk)) else int(np.nanargmin(rumap.risk))

    # -- what users believe -----------------------------------------------------------------------------

    def _beliefs_after_chosen_release(self, built: Built, slow: bool) -> list[BeliefView]:
        mask = None if self.row is None or built.rumap.masks is None else built.rumap.masks[self.row]
        if built.beliefs is None or mask is None:
            return []
        try:
            return built.beliefs(mask, int(self.example.value), slow)
        except Exception as error:
            return [BeliefView("intruder", "", words=f"No posterior can be drawn here: {error_message(error)}")]

    def _show_beliefs(self, built: Built, slow: bool = False, found: list[BeliefView] | None = None) -> None:
        found = self._beliefs_after_chosen_release(built, slow) if found is None else found
        self.sample.visible = any(belief.slow for belief in found)
        self.believing.visible = bool(found)
        for k, sheet in enumerate(self.sheets):
            one = found[k] if k < len(found) else BeliefView("", "")
            sheet.show(one)
            # After the figure's own: a pane that is to be seen takes over what its figure says.
            self.panes[k].visible = bool(one.laws)
            said = f"<strong>The {one.who}</strong>, {escaped(one.title)}. {escaped(one.words)}" if one.who else ""
            self.texts[f"belief{k}"].object = f"<p>{said}</p>" if said else ""

    def _sample_posteriors(self) -> None:
        """Sample the posteriors of the release looked at, beside the page."""
        if self.built is None:
            return
        built, job = self.built, Job(lambda: self._beliefs_after_chosen_release(built, True)).run_in_thread()
        self.sample.disabled = True

        def poll() -> None:
            if not job.ended.is_set():
                self.texts["belief0"].object = "<p>Sampling…</p>"
                return
            watch.stop()
            self.sample.disabled = False
            self._show_beliefs(built, found=job.result or [])

        watch = pn.state.add_periodic_callback(poll, period=300)

    # -- taking away ------------------------------------------------------------------------------------

    def _tell_address(self) -> None:
        """Put the settings into the address, so that a link holds them."""
        if not self.topic.shared or self._location is None or self.built is None:
            return
        kept = {k: v for k, v in self.query.items() if k == "theme"}
        for c in self.topic.controls:
            value = self.values[c.name]
            if value != c.default:
                kept[c.name] = ",".join(map(str, value)) if c.several else str(value)
        if self.threshold.value != self._default:
            kept["max_risk"] = str(self.threshold.value)
        search = "?" + urlencode({"topic": self.topic.name, **kept})
        if self._location.search != search:
            self._location.search = search

    def take(self, what: str) -> io.BytesIO:
        """A file to take away: "csv", "png", "py", "report", "release" or "static"."""
        if self.built is None:
            raise InputError("There is no map yet", do="Press Compute first")
        built, rumap, max_risk = self.built, self.built.rumap, float(self.threshold.value)
        with _TURN:
            use_files_only()
            if what == "csv":
                content: str | bytes = rumap.to_dataframe().to_csv(index=False, lineterminator="\n")
            elif what == "png":
                content = (built.figure(max_risk) if built.figure else None) or draw_map_png(rumap, max_risk)
            elif what == "py":
                content = self.topic.code(self.values, max_risk)
            elif what == "report":
                content = render_report(rumap, max_risk, title=self.topic.title)
            elif what == "release" and built.release is not None and self.row is not None:
                content = built.release(self.row).to_csv(index=False, lineterminator="\n")
            else:
                content = static_page(self.topic)
        return io.BytesIO(content.encode("utf-8") if isinstance(content, str) else content)

    def _make_downloads(self) -> pn.FlexBox:
        name = self.topic.name
        files = {"csv": ("Map as CSV", f"{name}-map.csv"), "png": ("Map as PNG", f"{name}-map.png")}
        if self.topic.write is not None:
            files["py"] = ("Python code", f"{name}_map.py")
        files["report"] = ("Report", f"{name}-report.html")
        if self.topic.name in (FILE, "microdata"):
            files["release"] = ("The released file you look at", f"{name}-release.csv")
        if self.topic.states:
            files["static"] = ("This lesson as one file", f"{name}-lesson.html")
        look = {"width": 250, "margin": 5}
        made = [
            pn.widgets.FileDownload(callback=lambda w=what: self.take(w), filename=file, label=label, **look)
            for what, (label, file) in files.items()
        ]
        return pn.FlexBox(*made)

    # -- the layout -------------------------------------------------------------------------------------

    def _make_layout(self) -> pn.Column:
        text, stretch = self.texts, {"sizing_mode": "stretch_width"}
        head = f"<h1>{escaped(self.topic.title)}</h1><p class='quiet'>{escaped(self.topic.about)}</p>"
        questions = "".join(
            f"<details><summary><strong>Predict first.</strong> {escaped(q)}</summary><p>{escaped(a)}</p></details>"
            for q, a in self.topic.questions
        )
        moved = [item for c in self.shown for item in labelled(c, self.controls[c.name])]
        buttons = pn.FlexBox(self.play, self.compute, self.stop, self.reset) if not self.static else pn.FlexBox()
        narrow = {"flex": "1 1 270px", "min-width": "250px"}
        settings = pn.Column(heading("Settings"), self.maps, self.threshold, *moved, buttons, styles=narrow)
        picture = pn.Column(
            pn.pane.Bokeh(self.drawing.figure, **stretch), text["legend"], text["progress"],
            styles={"flex": "3 1 340px", "min-width": "min(100%, 340px)"},
        )  # fmt: skip
        sheets = [
            pn.Column(pane, text[f"belief{k}"], styles={"flex": "1 1 300px", "min-width": "min(100%, 280px)"})
            for k, pane in enumerate(self.panes)
        ]
        self.believing = pn.Column(
            heading("What both users believe"), *([] if self.static else [self.example, self.sample]),
            pn.FlexBox(*sheets, **stretch), html_pane(f'<p class="quiet">{MARKS}</p>'), **stretch,
        )  # fmt: skip
        looking = [] if self.static else [pn.FlexBox(self.to_chosen, self.to_own), self.walk]
        parts = [
            html_pane(head), html_pane(questions), text["verdict"], pn.FlexBox(picture, settings, **stretch),
            heading("The release that you look at"), *looking, text["looked"],
            self.believing,
            heading("Why this release"), text["why"], heading("Formulas and users"), text["formulas"],
            heading("Numbers"), text["numbers"],
        ]  # fmt: skip
        if not self.static:
            parts += [heading("Take it with you"), self._make_downloads()]
        return pn.Column(*parts, **stretch)


TEXTS = ("verdict", "legend", "progress", "looked", "belief0", "belief1", "why", "formulas", "numbers")


# -- parts ---------------------------------------------------------------------------------------------


def widget(control: Slider | Pick, value: Any, only: Sequence[Any] | None = None) -> pn.widgets.Widget:
    """Panel's widget for a control; ``only`` some of its values for a static file."""
    look = {"label": control.label, "sizing_mode": "stretch_width"}
    if isinstance(control, Slider):
        stops = control.stops if only is None else sorted({*only, control.default})
        return pn.widgets.DiscreteSlider(options={format_number(s, 6): s for s in stops}, value=value, **look)
    options = {clean_text(words): option for option, words in control.options.items()}
    if not control.several:
        return pn.widgets.Select(options=options, value=value, **look)
    if only is None:
        return pn.widgets.CheckBoxGroup(options=options, value=list(value), **look)
    sets = {", ".join(control.options[o] for o in one): one for one in only}
    return pn.widgets.Select(options=sets, value=tuple(value), **look)


def escaped(text: object) -> str:
    """Text that can stand in a page."""
    return html.escape(clean_text(text))


def in_browser() -> bool:
    """Whether a browser looks on."""
    return pn.state.curdoc is not None and pn.state.curdoc.session_context is not None


def labelled(control: Slider | Pick, made: pn.widgets.Widget) -> list[Viewable]:
    """A widget with what its own look leaves out: the name of a group of boxes, and the hint."""
    name = [html_pane(f"<strong>{escaped(control.label)}</strong>", margin=(5, 10, 0, 10))] * control.several
    hint = [html_pane(f"<p class='quiet'>{escaped(control.hint)}</p>", margin=(-4, 10, 4, 10))] if control.hint else []
    return [*name, made, *hint]


def html_pane(text: str = "", **look: object) -> pn.pane.HTML:
    """Some HTML in the page's own look."""
    return pn.pane.HTML(text, stylesheets=[CSS], sizing_mode="stretch_width", **look)


def heading(text: str) -> pn.pane.HTML:
    """A heading between parts of the page."""
    return html_pane(f"<h2>{text}</h2>", margin=(0, 10))


def button(name: str, act: Callable[[], object], kind: str = "default", visible: bool = True) -> pn.widgets.Button:
    """A button that does something."""
    made = pn.widgets.Button(label=name, color=kind, visible=visible)
    made.on_click(lambda event: act())
    return made


def banner(text: str, kind: str = "", more: str = "") -> str:
    """A sentence that stands out."""
    return f'<p class="banner {kind}">{escaped(text)}{more}</p>'


def legend(drawing: MapDrawing, part: Chapter, built: Built) -> str:
    """What the marks of the map are, and what the map shows for somebody who cannot see it."""
    marks = [
        f'<span><b style="color:{colour}">{sign}</b> {escaped(name)}</span>' for sign, colour, name in drawing.legend
    ]
    marks += ["<span>★ chosen</span>", "<span>◯ you look at it</span>"]
    marks.append('<span><b style="background:#F0E44299">▁</b> frontier</span>')
    if part.whole.user_names:
        marks.append("<span>┈ worst case over the snoopers</span>")
    notes = "".join(f"<li>{escaped(n)}</li>" for n in (*built.notes, *(f"{r.capitalize()}." for r in drawing.remarks)))
    words = f'<p class="hidden">{escaped(alt_text(part)) if part.drawable else ""}</p>'
    return f'{words}<p class="legend">{" ".join(marks)}</p><ul class="quiet">{notes}</ul>'


def release_in_words(built: Built, row: int | None, look: str) -> str:
    """The release that the reader looks at, with its numbers."""
    if row is None:
        return ""
    how = {"own": "your own candidate", "picked": "picked by you"}.get(look, "the chosen one")
    said = f" {html.escape(built.said(row))}" if built.said else ""
    pairs = ", ".join(f"{head} {format_entry(built.rumap, c, row)}" for c, head in user_columns(built.rumap).items())
    return f"<p><strong>{escaped(built.rumap.releases[row])}</strong> ({how}): {html.escape(pairs)}.{said}</p>"


def numbers(part: Chapter, looked: int | None) -> str:
    """Some rows of the map's table, the marked ones among them."""
    rumap = part.rumap
    known = np.flatnonzero(~np.isnan(rumap.risk) & ~np.isnan(rumap.utility))
    some = evenly_spaced(known[np.argsort(rumap.risk[known], kind="stable")], EXCERPT).tolist()
    looked = None if part.whole.user_names else looked  # of several users the table is that of the worst
    marked = [looked] if part.choice is None else [looked, part.choice.position]
    rows = np.array(sorted({*some, *(i for i in marked if i is not None)}, key=lambda i: (rumap.risk[i], i)))
    rest = plural(len(rumap) - rows.size, "further release")
    caption = f"{plural(rows.size, 'release')} in order of risk; {rest} in the CSV file"
    return fragment([release_table(part, rows, caption, list(user_columns(rumap)), looked)])


# -- the whole -----------------------------------------------------------------------------------------


class FilePage:
    """A place to drop a file of one's own, and what comes of it."""

    def __init__(self, dark: bool = False, debug: bool = False) -> None:
        self.dark, self.debug = dark, debug
        self.page: Page | None = None
        kinds = {"accept": ".csv,.tsv,.txt,.parquet,.dta,.sav", "label": "A file of records"}
        self.drop = pn.widgets.FileInput(sizing_mode="stretch_width", **kinds)
        self.drop.param.watch(lambda event: self.show_upload(str(self.drop.filename or "file.csv"), event.new), "value")
        self.said = html_pane()
        head = (
            "<h1>Your own file</h1><p>Choose a file of records (CSV, or what <code>ruvdecision measure</code> reads), "
            "or drop it on the button. It stays on this machine, in the memory of this program; nothing of it gets "
            "into an address or a log.</p>"
        )
        self.body = pn.Column(sizing_mode="stretch_width")
        self.view = pn.Column(html_pane(head), self.drop, self.said, self.body, sizing_mode="stretch_width")

    def show_upload(self, name: str, content: bytes) -> None:
        """Show a file."""
        try:
            data = read_upload(name, content)
            self.page = Page(own_topic(data), self.dark, debug=self.debug)
        except Exception as error:
            self.said.object = f'<div role="alert">{banner(error_message(error), "warning")}</div>'
            self.body.objects = []
            return
        read = banner(f"{plural(len(data), 'record')} with {plural(data.shape[1], 'column')} read.")
        self.said.object = f'<div role="status">{read}</div>'
        self.body.objects = [self.page.view]


def navigation(topics: Sequence[Topic], current: str, theme: str) -> pn.pane.HTML:
    """Links to all topics, and to the other theme."""
    links = [(t.name, t.title) for t in topics] + ([(FILE, "Your own file")] if len(topics) > 1 else [])

    def link(to: str, words: str, **query: str) -> str:
        here = ' aria-current="page"' if to == current and words != switch else ""
        return f'<a href="?{escaped(urlencode({"topic": to, "theme": theme, **query}))}"{here}>{escaped(words)}</a>'

    switch = "Light page" if theme == "dark" else "Dark page"
    items = "".join(link(name, title) for name, title in links)
    items += link(current, switch, theme="default" if theme == "dark" else "dark")
    return html_pane(f'<nav aria-label="Topics">{items}</nav>')


def page_template(dark: bool, where: str) -> tuple[str, dict[str, object]]:
    """The page around everything: its template and what goes into that."""
    variables = {"dark": dark, "version": __version__, "where": where, "app_favicon": ICON, "apple_icon": ICON}
    return (HERE / "page.html").read_text(encoding="utf-8"), variables


class _Template(pn.Template):  # type: ignore[misc]
    """Panel's template without what took half of the time to open: its text, and the links among models one by one."""

    def __repr__(self) -> str:
        return type(self).__name__

    def server_doc(self, doc: Document | None = None, title: str | None = None, location: bool = True) -> Document:
        doc = pn.state.curdoc if doc is None else doc
        with doc.models.freeze():
            return super().server_doc(doc, title, location)


def page_for_visit(topics: Sequence[Topic], query: Mapping[str, str], debug: bool = False) -> tuple[pn.Template, str]:
    """The page for one visit: navigation and the topic that the address names."""
    theme = "dark" if query.get("theme") == "dark" else "default"
    names = {t.name: t for t in topics}
    wanted = query.get("topic", topics[0].name)
    if wanted == FILE and len(topics) > 1:
        inner: FilePage | Page = FilePage(theme == "dark", debug)
        title = "Your own file"
    else:
        topic = names.get(wanted, topics[0])
        wanted, title = topic.name, clean_text(topic.title)
        inner = Page(topic, theme == "dark", query, debug=debug)
    body = pn.Column(navigation(topics, wanted, theme), inner.view, sizing_mode="stretch_width")
    return _page_around(body, title, theme == "dark"), title


def failed_page(error: Exception) -> pn.Template:
    """The page where none could be made; Panel's own would show the error's text, and print it."""
    # Without what keeps the address in step, which may be what failed.
    return _page_around(html_pane(banner(error_message(error), "warning")), "ruvdecision", False, location=False)


def _page_around(body: Viewable, title: str, dark: bool, *, location: bool = True) -> pn.Template:
    text, variables = page_template(dark, "Computed on this machine by the package itself; nothing leaves it.")
    made = _Template(text, location=location)
    for name, value in {**variables, "title": title, "live": True, "located": location}.items():
        made.add_variable(name, value)
    made.add_panel("body", body)
    return made


def static_page(topic: Topic, dark: bool = False) -> str:
    """A topic as one HTML file that needs no program: its states are computed now and are all in it."""
    from bokeh.resources import INLINE
    from panel.io.resources import set_resource_mode

    text, variables = page_template(dark, "A lesson with states that were computed beforehand.")
    text = text.partition("\n")[2]  # `save` extends the base by itself
    place, states = io.StringIO(), {"embed": True, "max_opts": 99, "max_states": 10_000, "progress": False}
    around_it = {"title": topic.title, "template": text, "template_variables": variables, "resources": INLINE}
    with set_resource_mode("inline"):
        Page(topic, dark, static=True).view.save(place, **around_it, **states)
    # Style sheets of Panel's own would be fetched from its site: they go into the file, too.
    return re.sub(
        r"https://cdn\.holoviz\.org/panel/[^\"/]+/dist/([^\"?]+\.css)(?:\?[^\"]*)?", _own_sheet, place.getvalue()
    )


def _own_sheet(found: re.Match[str]) -> str:
    content = (Path(pn.__file__).parent / "dist" / found[1]).read_bytes()
    return f"data:text/css;base64,{base64.b64encode(content).decode()}"
