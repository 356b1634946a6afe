"""The report: complete, harmless, self-contained, valid, and the same bytes for the same map."""

from __future__ import annotations

import base64
import datetime
import html
import itertools
import os
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import html5lib
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision.analyses.limit import limit
from ruvdecision.analyses.record_risk import record_risk
from ruvdecision.analyses.sensitivity import sensitivity
from ruvdecision.beliefs import FiniteBelief, NormalBelief, PyMCBelief
from ruvdecision.decide import Weighted, choose, frontier
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, Pinball, Quadratic, ZeroOne
from ruvdecision.maps import Labels, Provenance, RUMap
from ruvdecision.maps.scores import Column
from ruvdecision.masks import Microaggregate, Noise, Suppress
from ruvdecision.protocols import Value
from ruvdecision.report import fingerprint, render_report, write_report
from ruvdecision.report.diagnostics import release_warnings
from ruvdecision.report.document import Table, TableRow, as_mathml
from ruvdecision.targets import EachRecord, Maximum, Parameter, Record
from ruvdecision.users.panel import Panel
from ruvdecision.users.user import Snooper, User

EVIL = "<script>alert(1)</script>"
QUOTES = """a"b'c & <d> --> ]]> </title></style></svg> javascript:alert(1)"""
VOID = {"meta", "br", "img", "hr", "link", "input"}


class Page(HTMLParser):
    """Reads a page, keeps what it holds, and fails on a tag that is not closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice: {tag} {names}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open, f"only a drawing may have <{tag}/>"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    def table(self, caption: str) -> str:
        (found,) = [text for text in self.texts["table"] if caption in text]
        return found


def check(text: str) -> Page:
    """What holds for every report: valid, accessible, self-contained and without scripts."""
    assert text.startswith("<!DOCTYPE html>\n")
    page = Page(text)
    # A parser of the HTML standard that stops at the first parse error.
    html5lib.HTMLParser(strict=True).parse(text)
    tags = [tag for tag, _ in page.tags]
    assert page.all("html") == [{"lang": "en"}]
    for once in ("html", "head", "body", "main", "title", "h1"):
        assert tags.count(once) == 1, once
    assert {"charset": "utf-8"} in page.all("meta")
    assert not {"script", "iframe", "object", "embed", "link", "base", "form", "foreignObject", "foreignobject"} & set(
        tags
    )
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert all(ids)
    for tag, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on")], (tag, attrs)
        for name in ("href", "src", "xlink:href"):
            if tag == "image" and str(attrs.get(name)).startswith("data:image/png;base64,"):
                continue  # the pixels of a large cloud stand in the page itself
            if name in attrs:
                assert str(attrs[name])[:1] == "#", (tag, attrs)
                assert str(attrs[name])[1:] in ids, (tag, attrs)
        for value in attrs.values():
            for reference in re.findall(r"url\(([^)]*)\)", value or "") if tag != "meta" else ():
                assert reference[1:] in ids
    assert "url(http" not in text
    assert "@import" not in text
    for drawing in page.all("svg"):
        assert drawing["role"] == "img"
        assert len(str(drawing["aria-label"])) > 40
    for figure in re.findall(r"<figure>.*?</figure>", text, flags=re.DOTALL):
        assert "<figcaption>" in figure
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(cell.get("scope") in ("col", "row") for cell in page.all("th"))
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels)), levels
    assert "@media print" in text
    assert "prefers-color-scheme: dark" in text
    return page


def example(points: int = 25) -> RUMap:
    """T-F example 1."""
    belief = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    average = Microaggregate(groups=1)
    masks = [Suppress(), average, *(Noise(variance=float(v)) | average for v in [2.08, *np.geomspace(0.1, 50, points)])]
    intruder = User(belief, Record(0), Quadratic(), name="The intruder")
    return evaluate(
        masks, intruder=intruder, scientist=User(belief, Parameter("mu"), Quadratic(), name="The scientist"), seed=1
    )


def small(**options: object) -> RUMap:
    given: dict[str, object] = {
        "labels": ["safe", "middle", "open"],
        "intruder": [4.0, 2.0, 1.0],
        "scientist": [1.0, 0.5, 0.25],
    }
    return RUMap.build(**{**given, **options})  # type: ignore[arg-type]


#: A map without risk: there is nothing to draw, so its report is quick.
EMPTY = small(intruder=[np.nan] * 3)


# -- what it says --------------------------------------------------------------------------------------


def test_the_papers_choice_is_the_first_thing_said(tmp_path: Path) -> None:
    rumap = example()
    path = rumap.report(tmp_path / "report.html", max_risk=0.5, title="Pilot", notes=["They print r = 2.081."])
    assert path == tmp_path / "report.html"
    text = path.read_text("utf-8")
    page = check(text)
    assert page.texts["h1"] == ["Pilot"]
    assert page.texts["title"] == ["Pilot"]
    (decision,) = re.findall(r'<p class="decision">(.*?)</p>', text)
    words = "add normal noise with variance 2.08 to every record, then publish the average of all records"
    assert decision == f"Decision: {words}."
    assert html.escape(str(rumap.choose(max_risk=0.5)), quote=False) in text
    # The page that is signed comes first: decision, map, before and after, conditions, signatures, fingerprint.
    first = text.partition("</section>")[0]
    parts = [
        decision,
        "<svg",
        "Before and after",
        "<dt>tried</dt>",
        "<dt>conditions</dt>",
        "approved by",
        "Fingerprint",
    ]
    places = [first.index(part) for part in parts]
    assert places == sorted(places)
    assert page.texts["h2"][0] == "Annex A. The users"
    table = " ".join(page.table("Before and after").replace("\u2007", "").split())
    assert "how far the intruder is typically off2.651.4153.5 %risk 0.5" in table  # √7 and √2
    assert "how far the scientist is typically off2.240.61427.5 %utility 2.65" in table
    assert "They print r = 2.081." in text
    for words in (
        "wants record 0 and pays the squared error",
        "wants the parameter mu",
        "variance 5",
        "U0 = 7.",
        "U0 = 5.",
    ):
        assert words in text
    for words in (
        "Trottini and S. E. Fienberg (2002)",
        "Keller-McNulty and S. L. Stokes (2001)",
        f"sha256 {fingerprint(rumap)}",
    ):
        assert words in html.unescape(text)
    assert "<dt>seed</dt><dd>kept in the map; its digest is blake2b" in text
    assert f"numpy {np.__version__}" in text
    (drawing,) = page.all("svg")
    assert "The threshold is a horizontal line at risk 0.5." in str(drawing["aria-label"])
    assert "The chosen release is Noise(variance=2.08) | Microaggregate(groups=1), with risk 0.5" in str(
        drawing["aria-label"]
    )
    assert "threshold 0.5" in "".join(page.texts["text"])
    assert "chosen release" in "".join(page.texts["text"])
    assert list(tmp_path.iterdir()) == [path]


def test_every_release_of_the_frontier_is_in_the_table() -> None:
    rumap = example(300)
    best = frontier(rumap)
    page = check(render_report(rumap, 0.5))
    whole = page.table(f"Releases on the frontier, in order of risk ({len(best)})")
    assert [label for label in best.releases if label not in whole] == []
    rows = [text for text in page.texts["tr"] if "Noise(variance=2.08) |" in text and "chosen" in text]
    assert len(rows) == 2  # in the excerpt and in the whole
    assert all("2.65" in row and "0.5" in row for row in rows)
    assert len(page.all("details")) >= 1


def test_the_rest_is_folded_and_cut() -> None:
    n = 4000
    u = np.linspace(1, 2, n)
    rumap = RUMap.build(labels=[f"r{i}" for i in range(n)], intruder=u, scientist=np.r_[u[::-1][:-1], 0.1])
    assert len(frontier(rumap)) == 1
    text = render_report(rumap, 0.9)
    page = check(text)
    assert "r3999" in page.table("Releases on the frontier, in order of risk (1)")
    rest = page.table("Releases that are not on the frontier (200; 3799 more are left out evenly")
    assert rest.count("dominated by r3999") == 200  # why each of them is not on the frontier
    assert "The other 3,999 releases" in page.texts["summary"]
    assert len(text) < 500_000
    assert len(page.all("image")) == 1  # its cloud is pixels, not 4,000 shapes
    assert len(page.all("use")) < 200


@pytest.mark.long
def test_a_frontier_of_4000_is_complete_and_its_excerpt_short() -> None:
    u = np.geomspace(1, 100, 4000)
    rumap = RUMap.build(
        labels=Labels([f"r{i}" for i in range(4000)], technique="one", parameters={"level": u}), intruder=u, scientist=u
    )
    page = check(render_report(rumap, 0.5))
    excerpt = page.table("in order of risk (11 of 4000)")
    assert len(re.findall(r"\br\d+", excerpt)) == 11
    assert choose(rumap, 0.5).release in excerpt
    assert len(re.findall(r"\br\d+", page.table("in order of risk (4000)"))) == 4000


def test_one_release() -> None:
    rumap = RUMap.build(labels=["only"], intruder=[2.0], scientist=[0.5])
    text = render_report(rumap, 0.5)
    page = check(text)
    assert "Release only: risk 0.5 (threshold 0.5), utility 2; nothing else is allowed." in text
    assert "1 release of 1 technique (only). 1 meets the threshold, 1 is on the frontier." in text
    assert "The frontier is one release, only (risk 0.5, utility 2)." in str(page.all("svg")[0]["aria-label"])


def test_without_a_threshold() -> None:
    text = render_report(small())
    check(text)
    assert "No threshold on the risk was given, so no release is chosen" in text
    assert "Threshold on the risk: none" in text
    assert "chosen</td>" not in text


def test_an_infinite_threshold_allows_all() -> None:
    text = render_report(small(), np.inf)
    check(text)
    assert "Release open: risk 1 (no threshold), utility 4" in text


@pytest.mark.parametrize("form", ["html", "md"])
def test_an_infeasible_threshold_is_said(form: str) -> None:
    text = render_report(small(), 0.1, format=form)
    if form == "html":
        page = check(text)
        assert '<p class="warning">No release is chosen.' in text
        assert "No release meets the threshold." in str(page.all("svg")[0]["aria-label"])
    assert "No release is chosen. No release has risk at most 0.1; got safe as the nearest miss, with risk 0.25" in text
    assert "chosen</td>" not in text


def test_infinite_and_missing_values() -> None:
    rumap = small(
        labels=["safe", "sure", "lost", "gone", "useless"],
        intruder=[4.0, 0.0, np.nan, 2.0, np.inf],
        scientist=[1.0, 0.0, 1.0, np.nan, np.inf],
    )
    text = render_report(rumap, 0.5)
    page = check(text)
    marked = page.table("Releases to look at twice (3)")
    assert "its risk is infinite; its utility is infinite" in marked
    assert "it has no risk" in marked
    assert "it has no utility" in marked
    assert "∞" in text
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text).lower().replace("finance", "")
    assert "Release safe: risk 0.25" in text


def test_nothing_to_draw() -> None:
    rumap = small(intruder=[np.nan] * 3)
    page = check(render_report(rumap))
    assert page.all("svg") == []
    assert any("nothing to draw" in text for text in page.texts["p"])
    check(render_report(rumap, 0.5))
    assert "nothing to draw" in render_report(rumap, format="md")


def test_errors_and_samplers_that_did_not_converge_are_marked() -> None:
    rumap = small(
        intruder=Value(np.array([4.0, 2.0, 1.0]), np.array([0.04, 0.3, 0.0])),
        columns={
            "intruder_converged": [True, True, False],
            "intruder_rhat": [1.0, 1.01, 1.9],
            "scientist_ess": [400.0, np.nan, 12.0],
        },
        provenance=Provenance(engine=["sampling", "sampling", "exact"]),
    )
    assert release_warnings(rumap) == {
        1: ["the standard error of its risk is large, 15 %"],
        2: ["its sampler did not converge (intruder_rhat 1.9)"],
    }
    text = render_report(rumap, 0.5)
    page = check(text)
    assert '<p class="warning">Release middle: risk 0.5 ± 0.075' in text  # the threshold is within its error
    assert "0.25 ± 0.0025" in page.table("Releases on the frontier").replace("\u2007", "")
    assert "not converged" in page.table("Releases on the frontier")
    assert "intruder_rhat11.011.9" in page.table("Diagnostics over all releases").replace("\n", "").replace(
        "\u2007", ""
    )
    assert "scientist_ess12206400" in page.table("Diagnostics over all releases").replace("\n", "").replace(
        "\u2007", ""
    )
    assert "sampling (2 releases), exact (1 release)" in text
    assert "threshold lies within two standard errors" in text
    assert not [head for head in page.texts["h2"] if "Measures" in head]  # diagnostics are not measures


def test_a_gain_near_zero_is_judged_on_its_own_scale() -> None:
    sampled = Value(np.array([6.999, 3.0]), np.array([0.01, 0.01]))
    rumap = RUMap.build(
        labels=["a", "b"],
        intruder=sampled,
        scientist=[1.0, 0.5],
        before=(7.0, 2.0),
        risk="gain",
        utility="relative_gain",
    )
    assert release_warnings(rumap) == {}  # 0.01 is ten times the gain of 0.001, and small beside U0 = 7
    plain = RUMap.build(
        labels=["a", "b"], intruder=Value(np.array([0.1, 3.0]), np.array([0.01, 0.01])), scientist=[1.0, 0.5]
    )
    assert list(release_warnings(plain)) == [0]


def test_measures_have_a_table_with_errors() -> None:
    rumap = small(
        columns={
            "linkage": [0.1, 0.2, 0.9],
            "linkage_error": [0.01, 0.0, 0.0],
            "IO": [0.5, 0.7, 0.9],
            "who": ["me"] * 3,
        },
        risk=Column("linkage"),
        attrs={"better": {"linkage": "lower", "IO": "higher"}},
    )
    text = render_report(rumap, 0.5)
    page = check(text)
    table = page.table("Measures of the releases (3)").replace("\u2007", "")
    assert "IO (higher is better)" in table
    assert "0.1 ± 0.01" in table
    assert "linkage_error" not in table
    assert "<dt>who</dt><dd>me</dd>" in text
    assert "Risk: the column linkage." in text
    assert "Winkler (2004)" in text
    assert "Winkler" not in render_report(small(), 0.5)


def test_a_map_of_columns_alone_names_no_users() -> None:
    rumap = RUMap.build(
        labels=["a", "b"], columns={"linkage": [0.1, 0.2], "IO": [0.5, 0.7]}, risk="linkage", utility="IO"
    )
    text = render_report(rumap, 0.15)
    page = check(text)
    assert "Trottini" not in text
    assert "intruder's U" not in page.table("Releases on the frontier")
    assert page.texts["h2"][0] == "Annex A. Risk and utility"


def test_remarks_settings_and_long_attributes() -> None:
    text = render_report(
        small(
            provenance=Provenance(notes=["A remark."]),
            attrs={"data_hash": "abc123", "n": 10, "long": "x" * 1000, "none": None},
        )
    )
    page = check(text)
    assert [head for head in page.texts["h2"] if head.endswith("Remarks on the map")]
    assert "<dt>data hash</dt><dd>abc123</dd>" in text
    assert "<dt>n</dt><dd>10</dd>" in text
    assert "x" * 299 + "…" in text
    assert "x" * 301 not in text


def test_indented_notes_go_on() -> None:
    text = render_report(EMPTY, notes="One thing\n  and the rest of it.\n\nAnother.")
    assert "<li>One thing and the rest of it.</li>\n<li>Another.</li>" in text


@pytest.mark.slow
def test_a_panel_is_one_report_with_small_multiples() -> None:
    maps = {"Z 1": small(), "Z/2 & more": small(intruder=[1.0, 0.5, 0.25])}
    text = render_report(maps, 0.6)
    page = check(text)
    table = page.table("The choice in every map; threshold on the risk: 0.6")
    assert "Z 1middle0.52" in table.replace("\n", "")
    assert "Z/2 & morenone" in table.replace("\n", "")
    assert len(page.all("svg")) == 1  # one picture has both
    assert page.texts["h3"].count("Z 1") == 2  # in the annexes on releases and record; the rest is said once for both
    plain = render_report(maps, 0.6, format="md")
    assert plain.count("\n[map") == 1


def test_ten_maps_are_said_once_where_they_are_alike() -> None:
    maps = {f"map {k}": with_users(User(BELIEF, Record(0), Quadratic())) for k in range(10)}
    page = check(render_report(maps))
    assert sum("wants record 0" in text for text in page.texts["p"]) == 1


def test_a_release_of_no_use_is_in_no_green_box() -> None:
    columns = {"linkage": [0.04, 0.5], "EO": [6.7e-08, 0.9]}
    attrs = {
        "better": {"linkage": "lower", "EO": "higher"},
        "file_records": 1080,
        "measures": ["RecordLinkage()", "EllipsoidOverlap('y ~ x')"],
    }
    rumap = RUMap.build(labels=["a", "b"], columns=columns, risk="linkage", utility="EO", attrs=attrs)
    text = render_report(rumap, 0.1)
    page = check(text)
    assert '<p class="decision">' not in text
    assert "almost nothing of its use is left: EO is 6.7e-08 on a scale from 0 to 1" in text
    assert "4 % of the records are linked rightly." in text
    assert "Winkler (2004)" in "".join(page.texts["dd"])  # each measure in one sentence, with its reference
    assert "sampler" not in text
    with pytest.raises(RuvError, match=r"utility of at least 0\.5"):
        choose(rumap, 0.1, min_utility=0.5)
    assert choose(rumap, 0.6, min_utility=0.5).release == "b"


@pytest.mark.slow
def test_units_stand_on_the_first_page() -> None:
    rumap = RUMap.build(
        labels=["a"],
        intruder=[1852.0**2],
        scientist=[100.0],
        before=(3000.0**2, 400.0),
        attrs={"intruder_error_scale": [1, 0.5], "scientist_error_scale": [1, 0.5], "unit": "$"},
    )
    table = check(render_report(rumap, 1.0)).table("Before and after").replace("\u2007", "")
    assert "$3,000$1,85261.7 %" in table.replace("\n", "")


# -- the users -----------------------------------------------------------------------------------------

BELIEF = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)


def with_users(intruder: object, scientist: object = None) -> RUMap:
    """A small map that was made with these users; nothing is drawn."""
    users = (intruder, scientist or User(BELIEF, Parameter("mu"), Quadratic()))
    words = {who: user.describe() for who, user in zip(("intruder", "scientist"), users, strict=True)}  # type: ignore[attr-defined]
    return small(intruder=[np.nan] * 3, provenance=Provenance(users=users), attrs=words)


def formulas_of(text: str) -> list[str]:
    return [html.unescape(line) for line in re.findall(r'<math alttext="(.*?)">', text)]


@pytest.mark.parametrize(
    ("user", "lines"),
    [
        (
            User(BELIEF, Record(17 % 10), Absolute()),
            ["xᵢ | μ ~ N(μ, 2) for i = 0, …, 9; μ ~ N(0, 5)", "θ = x₇", "L(d, θ) = |d − θ|"],
        ),
        (User(BELIEF, Maximum(), Pinball(0.9)), ["θ = max over i of xᵢ", "L(d, θ) = (θ − d) (0.9 − 1[θ < d])"]),
        (
            User(
                NormalBelief(records=3, covariance=[[2, 1], [1, 3]], prior="flat"),
                Record(0),
                Quadratic(weights=[1.0, 2.0]),
            ),
            ["xᵢ | μ ~ N(μ, [2, 1; 1, 3]) for i = 0, …, 2; p(μ) constant", "L(d, θ) = Σₖ wₖ (dₖ − θₖ)², w = (1, 2)"],
        ),
        (
            User(BELIEF, Record(0), Quadratic(), truth=NormalBelief(records=10, variance=3, prior_variance=5)),
            [
                "d*(release) = argmin over d of E[ L(d, θ) | release ], by the user's own belief",
                "Truth: xᵢ | μ ~ N(μ, 3) for i = 0, …, 9; μ ~ N(0, 5)",
                "U = E[ L(d*(release), θ) ] over the agency's belief",
            ],
        ),
        (
            User(BELIEF, Record(0), Quadratic(), knows_mask=False),
            [
                "d*(release) = argmin over d of the sum over masks λ of P(λ | release) E[ L(d, θ) | release, λ ], by "
                "the user's own belief",
                "U = E[ L(d*(release), θ) ] over the user's belief and the mask that was really used",
            ],
        ),
        (
            User(FiniteBelief(values=[0, 1], probabilities=[0.3, 0.7]), Record(0), ZeroOne()),
            ["P(x = vⱼ) = pⱼ for j = 1, …, 2", "L(d, θ) = 1[d ≠ θ]"],
        ),
        (
            Snooper("max", Maximum(), belief=BELIEF),
            ["U = E[ L(t(release), θ) ], where t takes the largest released value"],
        ),
        (
            User(BELIEF, EachRecord(0.9), Quadratic()),
            ["θ = xᵢ, for every i", "U = the quantile of the Uᵢ at level 0.1"],
        ),
    ],
)
def test_users_in_words_and_formulas(user: object, lines: list[str]) -> None:
    text = render_report(with_users(user))
    check(text)
    found = formulas_of(text)
    assert [line for line in lines if line not in found] == []
    assert re.search(r"<p>The intruder (believes|takes) ", text)
    assert "The user " not in text
    assert "The snooper" not in text


def test_a_belief_of_somebodys_own_may_bring_its_formula() -> None:
    @dataclass(frozen=True)
    class Own(NormalBelief):
        def formula(self) -> str:
            return f"x ~ {EVIL}"

    text = render_report(with_users(User(Own(records=3, variance=1, prior_variance=1), Record(0), Quadratic())))
    check(text)
    assert f"x ~ {EVIL}" in formulas_of(text)


def test_a_pymc_belief_is_named_and_written_out() -> None:
    def incomes(n: int) -> object:
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu", 10, 1)
            pm.LogNormal("x", mu, pm.HalfNormal("sigma", 1), shape=n)
        return model

    pytest.importorskip("pymc")
    belief = PyMCBelief(incomes, size=20, name="incomes to be lognormal <i>")
    text = render_report(with_users(User(belief, Record(17), Absolute())))
    check(text)
    assert (
        "The intruder believes incomes to be lognormal &lt;i&gt;, wants record 17 and pays the absolute error." in text
    )
    assert {"mu ~ Normal(10, 1)", "sigma ~ HalfNormal(0, 1)", "x ~ LogNormal(mu, sigma)", "θ = x₁₇"} <= set(
        formulas_of(text)
    )


def test_the_members_of_a_panel_are_listed() -> None:
    panel = Panel.vary(User(BELIEF, Record(0), Quadratic()), prior_variance=[1.0, 5.0, 25.0])
    rumap = evaluate(
        [Suppress(), Noise(variance=1.0)], intruder=panel, scientist=User(BELIEF, Parameter("mu"), Quadratic())
    )
    text = render_report(rumap, 0.5)
    page = check(text)
    assert "U = min over members m of Uₘ" in formulas_of(text)
    for v in (1, 5, 25):
        assert f"<p>prior_variance={v}: believes that 10 records" in text
        assert f"xᵢ | μ ~ N(μ, 2) for i = 0, …, 9; μ ~ N(0, {v})" in formulas_of(text)
    table = page.table("Members of the intruders' panel (3)")
    assert all(
        f"prior_variance={v}{2 + v}" in table.replace("\n", "").replace("\u2007", "") for v in (1, 5, 25)
    )  # U before: 2 + v
    assert not [head for head in page.texts["h2"] if "Measures" in head]
    many = Panel.vary(User(BELIEF, Record(0), Quadratic()), prior_variance=np.arange(1.0, 21.0))
    long = check(render_report(with_users(many)))
    assert "The 20 members" in long.texts["summary"]


def test_a_joined_map_keeps_its_words_and_shows_no_wrong_formula() -> None:
    a, b = (with_users(User(BELIEF, Record(i), Quadratic())) for i in (0, 1))
    text = render_report(RUMap.concat([a, b], names=["first", "second"]))
    assert "second: The user believes" in text
    assert formulas_of(text) == []


# -- what was done beside the map ----------------------------------------------------------------------


@pytest.mark.long
def test_sensitivity_limit_and_records_have_their_chapters(tmp_path: Path) -> None:
    belief, average = BELIEF, Microaggregate(groups=1)
    intruder, scientist = User(belief, Record(0), Quadratic()), User(belief, Parameter("mu"), Quadratic())
    masks = [Suppress(), average, *(Noise(variance=v) | average for v in (1.0, 2.08, 4.0))]
    rumap = evaluate(masks, intruder=intruder, scientist=scientist)
    result = sensitivity(
        masks, {"intruder.belief.prior_variance": [4, 6]}, intruder=intruder, scientist=scientist, max_risk=0.5
    )
    wall = limit(intruder, scientist, np.linspace(0.2, 0.9, 5))
    records = record_risk(masks[3:], intruder=intruder)
    options = {"sensitivity": result, "limit": wall, "record_risk": records, "date": None}
    path = write_report(rumap, tmp_path / "a.html", 0.5, figures=tmp_path / "figures", **options)  # type: ignore[arg-type]
    text = path.read_text("utf-8")
    page = check(text)
    heads = {head.partition(". ")[2] for head in page.texts["h2"]}
    assert {"Sensitivity", "What no mechanism can pass", "Risk of every record"} <= heads
    assert result.sentence in html.unescape(text)
    assert "another map" not in text
    assert "prior_variance = 4" in page.table("Variations (2)")
    share = float(wall.shortfall(rumap.take([3]))["share"].iloc[0])
    assert f"reaches {100 * share:.3g} % of it" in text
    assert "dotted line: the limit" in text
    riskiest = page.table("The records at most risk under Noise(variance=2.08)").replace("\u2007", "")
    assert re.findall(r"\n(\d)0\.52", riskiest) == [str(i) for i in range(10)]
    assert len(page.all("svg")) == 3
    # Figures for papers: vectors, and the same bytes again.
    names = sorted(p.name for p in (tmp_path / "figures").iterdir())
    assert names == [
        "map1-recordrisk.pdf",
        "map1-recordrisk.svg",
        "map1-tornado.pdf",
        "map1-tornado.svg",
        "map1.pdf",
        "map1.svg",
    ]
    first = {p.name: p.read_bytes() for p in (tmp_path / "figures").iterdir()}
    assert all(b.startswith(b"%PDF" if n.endswith("pdf") else b"<?xml") for n, b in first.items())
    assert b"chosen release" in first["map1.svg"]
    write_report(rumap, tmp_path / "b.md", 0.5, figures=str(tmp_path / "figures"), overwrite=True, **options)  # type: ignore[arg-type]
    assert first == {p.name: p.read_bytes() for p in (tmp_path / "figures").iterdir()}
    plain = (tmp_path / "b.md").read_text("utf-8")
    assert all(f". {head}\n" in plain for head in ("Sensitivity", "Risk of every record"))
    assert plain.count("data:image/png") == 3
    other = render_report({"one": rumap, "two": rumap.take([0, 3])}, 0.5, sensitivity={"two": result})
    assert "is another map than the one of this report" in other


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sensitivity": 3}, "sensitivity must be a Sensitivity"),
        ({"limit": True}, "limit must be a Limit"),
        ({"record_risk": "x"}, "record_risk must be a RecordRisk"),
        ({"rule": 3}, "rule must be a mapping"),
        ({"figures": 3}, "figures must be a str or a PathLike"),
        ({"limit": {"other": 3}}, "not in the report"),
    ],
)
def test_bad_parts(change: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        write_report(EMPTY, tmp_path / "a.html", **change)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="whose it is"):
        render_report({"a": EMPTY, "b": EMPTY}, sensitivity=3)
    assert list(tmp_path.iterdir()) == []


def test_figures_are_not_put_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(InputError, match="figures must be a directory"):
        write_report(small(), tmp_path / "a.html", figures=tmp_path / "taken")
    assert not (tmp_path / "a.html").exists()


@pytest.mark.slow
def test_probabilities_and_the_rule_of_the_choice() -> None:
    sampled = Value(np.array([4.0, 2.1, 1.0]), np.array([0.04, 0.1, 0.0]))
    rumap = small(intruder=sampled)
    text = render_report(rumap, 0.5)
    page = check(text)
    assert "The probability that the chosen release truly meets the threshold is 0.841." in text
    table = page.table("Probabilities that a release of the frontier truly").replace("\n", "")
    assert "middle0.841" in table
    careful = render_report(rumap, 0.5, rule={"confidence": 0.95})
    assert "Release safe: risk 0.25" in careful
    assert "1 is allowed, 3 are on the frontier." in careful
    assert "The chosen release is safe" in str(check(careful).all("svg")[0]["aria-label"])
    assert "How sure that is" not in render_report(small(), 0.5)
    weighed = render_report(small(), rule={"by": Weighted({"utility": 1.0, "risk": 0.1})})
    assert "Release open: risk 1 (no threshold), utility 4" in weighed


def test_diagnostics_of_a_sampler_are_explained() -> None:
    rumap = small(
        provenance=Provenance(engine="sampling"),
        columns={
            "intruder_converged": [True, False, True],
            "intruder_rhat": [1.0, 1.2, 1.0],
            "intruder_ess_bulk": [900.0, 30.0, 150.0],
            "intruder_draws": [4000, 4000, 1000],
            "intruder_khat": [0.1, np.nan, 0.2],
            "intruder_divergences": [0, 3, 0],
            "intruder_how": ["sampled", "sampled", "weighted"],
            "scientist[a]_rhat": [1.0, 1.0, 1.3],
        },
    )
    assert release_warnings(rumap) == {
        1: ["its sampler did not converge (intruder_rhat 1.2, intruder_ess_bulk 30, intruder_divergences 3)"]
    }
    text = render_report(rumap, 0.5)
    page = check(text)
    table = page.table("Diagnostics over all releases").replace("\n", "").replace("\u2007", "")
    assert "intruder_rhat111.21 release above 1.01" in table
    assert "intruder_ess_bulk301509001 release below 400" in table  # 150 of 1,000 draws is enough
    assert "scientist[a]_rhat111.31 release above 1.01" in table
    assert "intruder_how: sampled (2 releases), weighted (1 release)." in text
    assert "Open markers did not converge." in text
    assert "Vehtari, D. Simpson" in text


def test_the_fingerprint_of_the_data_says_what_it_is() -> None:
    text = render_report(small(intruder=[np.nan] * 3, attrs={"data_fingerprint": "blake2b 12ab, key 34cd"}))
    assert (
        "<dt>fingerprint of the data</dt><dd>blake2b 12ab, key 34cd (a hash of the confidential records with a key"
        in text
    )


# -- harmless ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize("evil", [EVIL, QUOTES, '" onload="alert(1)', "<!-- x", "&lt;b&gt;", "$x^2$ \\$"])
def test_texts_are_only_texts(evil: str) -> None:
    rumap = RUMap.build(
        labels=Labels([f"{evil} {i}" for i in range(5)], technique=[evil] * 5, parameters={evil: np.arange(5.0)}),
        intruder=[5.0, 4.0, 3.0, 2.0, 1.0],
        scientist=[1.0, 0.8, 0.9, 0.4, 0.2],
        provenance=Provenance(engine=[evil, "b", "c", "d", "e"], notes=[evil]),
        columns={f"{evil} m": np.arange(5.0), "text": [evil, "b", "c", "d", "e"], f"intruder_{evil}": np.arange(5.0)},
        attrs={"intruder": evil, "scientist": evil, evil: evil, "better": {f"{evil} m": evil}},
    )
    options: dict[str, object] = {"title": evil, "notes": [evil], "date": evil}
    page = check(render_report({evil: rumap, "undrawn": EMPTY}, 0.4, **options))  # type: ignore[arg-type]
    assert page.texts["h1"] == [evil]
    assert page.texts["title"] == page.texts["h1"]
    assert f"{evil} 3" in "".join(page.texts["table"])
    assert evil in page.texts["li"]
    assert evil in page.texts["dt"]
    assert evil in page.texts["dd"]
    assert f"The chosen release is {evil} 1, with" in str(page.all("svg")[0]["aria-label"])
    assert evil.split()[0] in "".join(page.texts["text"])
    plain = render_report({evil: rumap, "undrawn": EMPTY}, 0.4, format="md", **options)  # type: ignore[arg-type]
    assert not re.search(r"<[a-zA-Z!/]", plain)


LABELS = st.lists(st.text(max_size=12), min_size=2, max_size=4, unique=True)


@settings(max_examples=60)
@given(LABELS, st.text(max_size=20))
def test_any_text_gives_a_valid_page(labels: list[str], title: str) -> None:
    # Without a risk there is nothing to draw, and a page is quick.
    rumap = RUMap.build(
        labels=[f"{x} {i}" for i, x in enumerate(labels)],
        intruder=[np.nan] * len(labels),
        scientist=[1.0] * len(labels),
    )
    text = render_report(rumap, 0.5, title=title, notes=[title])
    text.encode("utf-8")
    check(text)
    assert not re.search(r"<[a-zA-Z!/]", render_report(rumap, 0.5, title=title, notes=[title], format="md"))


@pytest.mark.slow
@settings(max_examples=4)
@given(LABELS)
def test_any_label_can_be_drawn(labels: list[str]) -> None:
    u = np.arange(1.0, len(labels) + 1)
    check(render_report(RUMap.build(labels=[f"{x} {i}" for i, x in enumerate(labels)], intruder=u, scientist=u), 0.5))


@pytest.mark.slow
def test_letters_that_are_not_latin_and_characters_that_are_not_letters(tmp_path: Path) -> None:
    labels = ["噪声 σ²=2", "a\x00b", "half \ud800", "turned \u202e txt.exe", "ok\nnext"]
    rumap = RUMap.build(labels=labels, intruder=[5.0, 4.0, 3.0, 2.0, 1.0], scientist=[5.0, 4.0, 3.0, 2.0, 1.0])
    for name in ("r.html", "r.md"):
        text = rumap.report(tmp_path / name, 0.5, title=labels[2]).read_text("utf-8")
        assert "噪声 σ²=2" in text
        assert "a\ufffdb" in text
        assert not {"\x00", "\u202e"} & set(text)
    check((tmp_path / "r.html").read_text("utf-8"))


def test_no_confidential_record_gets_in() -> None:
    secret = np.array([12345.678901, 777.7771237, 98765.43219])
    belief = NormalBelief(records=3, variance=2, prior_mean=0, prior_variance=5)
    user = User(belief, Record(0), Quadratic())
    rumap = evaluate([Suppress(), Noise(variance=1.0)], intruder=user, scientist=user, data=secret, seed=1)
    for form in ("html", "md"):
        text = render_report(rumap, 0.5, format=form)
        assert not [x for x in secret for digits in (5, 7, 10) if f"{x:.{digits}g}" in text]


# -- the files -----------------------------------------------------------------------------------------


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("form", ["html", "md"])
def test_the_same_map_gives_the_same_bytes(tmp_path: Path, form: str) -> None:
    plt.close("all")
    rumap = example()
    first = rumap.report(tmp_path / f"a.{form}", 0.5, date=None).read_bytes()
    plt.figure()
    with plt.style.context("dark_background"), mpl.rc_context({"svg.fonttype": "path", "font.size": 20.0}):
        before = dict(mpl.rcParams)
        second = example().report(tmp_path / f"b.{form}", 0.5, date=None).read_bytes()
        assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == [1]  # the caller's own, and none of ours
    plt.close("all")
    assert first == second
    assert b"\r" not in first
    year = str(datetime.date.today().year).encode()
    assert year not in re.sub(rb"base64,.*|sha256 \w+", b"", first) or year in rumap.attrs["numpy"].encode()


def test_today_unless_another_date_or_none_is_asked_for() -> None:
    assert f"; {datetime.date.today().isoformat()}." in render_report(EMPTY)
    assert str(datetime.date.today().year) not in re.sub(
        r"sha256 \w+|numpy [\d.]+", "", render_report(EMPTY, date=None)
    )
    assert "2031-02-03" in render_report(EMPTY, date=datetime.date(2031, 2, 3))
    assert "3 February 2031." in render_report(EMPTY, date="3 February 2031", format="md")


def test_the_format_follows_the_name_unless_it_is_given(tmp_path: Path) -> None:
    assert EMPTY.report(tmp_path / "a.md").read_text("utf-8").startswith("# ")
    assert EMPTY.report(str(tmp_path / "a.HTM")).read_text("utf-8").startswith("<!DOCTYPE")
    assert EMPTY.report(tmp_path / "a.txt", format="md").read_text("utf-8").startswith("# ")
    assert EMPTY.report(tmp_path / "a.md", format="html", overwrite=True).read_text("utf-8").startswith("<!DOCTYPE")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "report.doc"}, ["which format", "report.doc", ".md"]),
        ({"path": "report"}, ["which format"]),
        ({"path": "report.html", "format": "doc"}, ["format", "'html'", "doc"]),
        ({"path": "no/where/report.html"}, ["no directory no/where"]),
        ({"path": ".", "format": "md"}, ["no name for a file"]),
        ({"max_risk": -1.0}, ["max_risk must be positive"]),
        ({"max_risk": np.nan}, ["max_risk"]),
        ({"title": 3}, ["title must be text", "got an int"]),
        ({"notes": [3]}, ["notes must be text", "got an int"]),
        ({"notes": 3}, ["notes must be text", "got 3"]),
        ({"date": 3}, ["date must be text or a date"]),
    ],
)
def test_bad_arguments(
    change: dict[str, object], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        small().report(**{"path": "report.html", **change})  # type: ignore[arg-type]
    for word in words:
        assert word in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [3, {}, {"a": 3}, [small()]])
def test_a_report_needs_maps(given: object, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"write_report\(rumap"):
        write_report(given, tmp_path / "a.html")  # type: ignore[arg-type]


def test_a_file_is_replaced_whole_or_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(opened: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="exists already"):
        small().report(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RuvError, match="No space"):
            small().report(path, overwrite=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    small().report(path, overwrite=True)
    assert path.read_text("utf-8").startswith("<!DOCTYPE")


# -- Markdown ------------------------------------------------------------------------------------------


def test_markdown_says_the_same() -> None:
    rumap = example()
    text = render_report(rumap, 0.5, title="1. Pilot", notes=["- one", "+ two", "2) three", "0.5 is half"], format="md")
    lines = text.splitlines()
    assert lines[0] == "# 1\\. Pilot"
    assert "Release Noise(variance=2.08) \\| Microaggregate(groups=1): risk 0.5 (threshold 0.5), utility 2.651" in text
    assert "**Decision: add normal noise with variance 2.08 to every record, then publish" in text
    assert {"- \\- one", "- \\+ two", "- 2\\) three", "- 0.5 is half"} <= set(lines)
    heads = [line.partition(". ")[2] for line in lines if line.startswith("## Annex ")]
    assert heads == ["The users", "The releases", "Diagnostics", "What the study has to say", "Method", "Record"]
    for start, line in enumerate(lines):
        if line.startswith("| ---"):
            width = len(re.findall(r"(?<!\\)\|", line))
            body = [x for x in lines[start - 1 : start + 2] if x.startswith("|")]
            assert {len(re.findall(r"(?<!\\)\|", x)) for x in body} == {width}
    image = lines[-1].removeprefix("[map1]: data:image/png;base64,")
    assert base64.b64decode(image, validate=True)[:8] == b"\x89PNG\r\n\x1a\n"
    assert "][map1]" in text


# -- PDF -----------------------------------------------------------------------------------------------


def test_a_pdf_is_the_page_printed(tmp_path: Path) -> None:
    try:
        import weasyprint  # noqa: F401
    except (ImportError, OSError):
        with pytest.raises(UnsupportedError, match="pip install"):
            EMPTY.report(tmp_path / "a.pdf")
        assert list(tmp_path.iterdir()) == []
        return
    made = [small().report(tmp_path / f"{k}.pdf", 0.5, date=None).read_bytes() for k in range(2)]
    assert made[0][:5] == b"%PDF-"
    assert made[0] == made[1]


def test_numbers_stand_below_each_other() -> None:
    rows = [TableRow(("a", "0.25 ± 0.01")), TableRow(("b", "12")), TableRow(("c", "none"))]
    first, second, third = (row.cells[1] for row in Table("x", ("", "x"), rows).aligned_rows)
    # Set to the right, what is as far from the end stands below each other.
    assert len(first) - first.index(".") == len(second) - len(second.rstrip("\u2007"))
    assert third.rstrip("\u2007") == "none"


@pytest.mark.parametrize("line", ["xᵢ | μ ~ N(μ, 2)", "L(d, θ) = Σₖ wₖ (dₖ − θₖ)²", EVIL, "x₍ₖ₎, k = ⌈0.5 n⌉", "²"])
def test_formulas_lose_no_letter(line: str) -> None:
    made = as_mathml(line)
    text = html.unescape(re.sub("<[^>]*>", "", made)).replace("\u00a0", "")
    flat = line.translate(str.maketrans("ᵢₖ₍₎²", "ik()2"))
    assert text.replace(" ", "") == flat.replace(" ", "")
    assert html.unescape(re.findall('alttext="(.*?)"', made)[0]) == line


# -- the fingerprint -----------------------------------------------------------------------------------


def test_the_fingerprint_survives_a_file_and_notices_a_change(tmp_path: Path) -> None:
    columns = {"flag": [True, False, True], "count": [1, 2, 3], "word": ["x", "", "z"], "gap": [np.nan, 0.0, -np.inf]}
    rumap = small(columns=columns, risk=lambda u: 1 / (1 + u))
    same = RUMap.load(rumap.save(tmp_path / "map.nc"))
    assert fingerprint(same) == fingerprint(rumap)
    assert re.fullmatch("[0-9a-f]{64}", fingerprint(rumap))
    others = [
        small(columns=columns),
        rumap.take([0, 2, 1]),
        small(columns={**columns, "gap": [np.nan, 1e-300, -np.inf]}, risk=lambda u: 1 / (1 + u)),
        small(columns={**columns, "word": ["x", "z", ""]}, risk=lambda u: 1 / (1 + u)),
        small(columns=columns, risk=lambda u: 1 / (1 + u), labels=["safe", "middle", "ope"]),
        small(columns=columns, risk=lambda u: 1 / (1 + u), before=(9.0, 9.0)),
    ]
    assert len({fingerprint(m) for m in [rumap, *others]}) == len(others) + 1


def test_minus_zero_and_nan_have_one_form() -> None:
    a, b = (small(columns={"x": [zero, 1.0, nan]}) for zero, nan in ((0.0, np.nan), (-0.0, -np.nan)))
    assert fingerprint(a) == fingerprint(b)
