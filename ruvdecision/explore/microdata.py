"""A file of records on the page: an example, or one's own. Masks are tried on it and measured against it.

The file stays in the memory of the process that serves the page. Nothing of it, not even a column's name, gets into
an address or a log.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..checks import as_generator
from ..data.read import read_data
from ..errors import InputError, RuvError
from ..maps.rumap import RUMap
from ..maps.scores import Column, Decreasing
from ..maps.show import format_number
from ..masks.base import Mask
from ..masks.exchange import RankSwap
from ..masks.microaggregate import Microaggregate
from ..masks.noise import Noise
from ..masks.pram import PRAM
from ..measure import measure
from ..measures import AttributeDisclosure, IntervalOverlap, Marginals, Propensity, RecordLinkage
from ..protocols import Measure
from .topic import Built, Control, Pick, Slider, Topic, Values, fraction, geometric_stops, mathml

#: By technique: the slider of its strength with its words, stops and default, and the strengths on the curve.
SLIDERS: dict[str, tuple[str, tuple[float, ...], float, tuple[float, ...]]] = {
    "noise": (
        "Noise, as a share of the covariance",
        geometric_stops(0.01, 2, 30),
        0.1,
        (0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
    ),
    "average": ("Alike records averaged, group size", tuple(range(2, 41)), 5, (2, 3, 5, 10, 20)),
    "swap": (
        "Swapped within this share of the ranks",
        geometric_stops(0.01, 0.5, 25),
        0.05,
        (0.01, 0.02, 0.05, 0.1, 0.2),
    ),
    "turn": ("Categories turned round, share", (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), 0.1, (0.05, 0.1, 0.2, 0.4)),
}
WORDS = {"noise": "add noise", "average": "average groups", "swap": "swap ranks", "turn": "turn categories round"}
RISKS = {"linkage": "records linked rightly", "attribute_disclosure": "target values guessed within 0.1 sd"}
UTILITIES = {
    "IO": "regression of the target: intervals overlap",
    "marginals": "distributions of the columns stay",
    "pMSE": "a model cannot tell release from original",
}
#: Utilities as scores of their measures; propensity's mean squared error is 1/4 where a model tells the files apart.
SCORES: dict[str, str | Column] = {
    "IO": "IO",
    "marginals": Column("marginals", Decreasing(lambda u: 1 - u, "closeness")),
    "pMSE": Column("pMSE", Decreasing(lambda u: 1 - 4 * u, "closeness")),
}
#: Columns with at most so many different values may be categories.
FEW = 30


def read_upload(name: str, content: bytes | str) -> pd.DataFrame:
    """Read what a browser sent, by the ending of its name."""
    with tempfile.TemporaryDirectory(prefix="ruvdecision-") as folder:
        # mkdtemp lets nobody else in, and the file is gone before the page is answered.
        path = Path(folder) / f"file{Path(name).suffix.lower() or '.csv'}"
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return read_data(path)


def example_file(n: int = 250) -> pd.DataFrame:
    """A made-up file of incomes; the same every time.

    >>> example_file(3).columns.tolist()
    ['age', 'income', 'tax', 'savings', 'region']
    """
    rng = as_generator(1995)
    age = rng.integers(20, 68, n)
    income = (rng.lognormal(10.2, 0.45, n) * np.sqrt(age / 45)).round(-1)
    tax = np.maximum(0.22 * income + rng.normal(0, 900, n), 0).round()
    savings = (0.4 * income + rng.lognormal(8.5, 0.9, n)).round()
    region = rng.choice(["north", "south", "east", "west"], n, p=[0.4, 0.3, 0.2, 0.1])
    return pd.DataFrame({"age": age, "income": income, "tax": tax, "savings": savings, "region": region})


def file_topic(data: pd.DataFrame, **words: object) -> Topic:
    """A topic out of a file: tick what the intruder knows, try masks, see risk and utility move."""
    numbers = [c for c in data.columns if pd.api.types.is_numeric_dtype(data[c]) and data[c].dtype.kind in "iuf"]
    labels = [c for c in data.columns if c not in numbers and data[c].nunique() <= FEW]
    if len(data) < 4 or len(numbers) + len(labels) < 2:
        do = "Give a file with two columns or more of numbers or a few categories"
        raise InputError("There is too little in this file to play with", f"{len(data)} records", do)
    columns = {c: str(c) for c in (*numbers, *labels)}
    possible = [t for t in WORDS if (labels if t == "turn" else numbers)]
    table = data[list(columns)]
    utilities = {k: v for k, v in UTILITIES.items() if k != "IO" or len(numbers) >= 2}

    def mask(technique: str, strength: float) -> Mask:
        if technique == "turn":
            return PRAM(stay=float(f"{1 - strength:.6g}"), columns=labels)
        some = None if not labels else numbers
        if technique == "noise":
            return Noise(share=strength, columns=some)
        if technique == "average":
            return Microaggregate(size=int(strength), by="mdav", columns=some)
        return RankSwap(within=strength, columns=some)

    def wanted(known: tuple[Hashable, ...], target: Hashable, risk: str, utility: str) -> list[Measure]:
        rest = " + ".join(f"`{c}`" for c in numbers if c != target)
        by_risk = [AttributeDisclosure(unknown=target, known=list(known), within_sd=0.1)] * (risk != "linkage")
        useful = {"marginals": Marginals, "pMSE": Propensity}.get(
            utility, lambda: IntervalOverlap(f"`{target}` ~ {rest}")
        )
        return [RecordLinkage(known=list(known)), *by_risk, useful()]

    @lru_cache(maxsize=400)
    def measured(
        technique: str, strength: float, known: tuple[Hashable, ...], target: Hashable, risk: str, utility: str
    ) -> RUMap:
        # Always the same seed: neighbours on a curve have common random numbers.
        measures = wanted(known, target, risk, utility)
        return measure(
            table,
            [mask(technique, strength)],
            measures=measures,
            risk=risk,
            utility=SCORES[utility],
            seed=1,
            progress=False,
        )

    def write(values: Values) -> str:
        asked = tuple(values["known"]), values["target"], values["risk"], values["utility"]
        masks = "".join(f"    ruv.{mask(t, s)},\n" for t, s in _releases_to_draw(values))
        measures = "".join(f"    ruv.measures.{m!r},\n" for m in wanted(*asked))
        where = "example_file()" if words["name"] != "file" else 'ruv.data.read.read_data("FILE.csv")'
        return f"""import ruvdecision as ruv
from ruvdecision.explore.microdata import SCORES, example_file

data = {where}
masks = [
{masks}]
measures = [
{measures}]
how = {{"measures": measures, "risk": {asked[2]!r}, "utility": SCORES[{asked[3]!r}]}}
# Each mask with the same seed, as the page does it.
rumap = ruv.RUMap.concat(ruv.measure(data, [mask], seed=1, **how) for mask in masks)
"""

    def build(values: Values) -> Built:
        known, target = tuple(values["known"]), values["target"]
        if target in known:
            raise InputError("The intruder knows the target already", str(target), "Untick it, or take another target")
        if values["utility"] == "IO" and target not in numbers:
            raise InputError("A regression needs a number as its target", str(target), "Take another target or utility")
        points, mine = _releases_to_draw(values), (values["mine"], values[values["mine"]])
        parts, failed = {}, []
        for point in points:
            try:
                parts[point] = measured(*point, known, target, values["risk"], values["utility"])
            except RuvError as error:
                if point == mine:
                    raise
                failed.append(str(error))  # one release that fails does not end the map
        points = list(parts)
        rumap = parts[mine] if len(parts) == 1 else RUMap.concat(parts.values())
        own = points.index(mine)
        linked, n = float(rumap.columns["linkage"][own]) * len(table), f"{len(table):,}"

        def said(row: int) -> str:
            right = float(rumap.columns["linkage"][row]) * len(table)
            return f"{format_number(round(right, 1), 5)} of {n} records are linked rightly by what the intruder knows."

        rightly = fraction(format_number(round(linked, 1), 5), n)
        whole = fraction("records linked rightly", "records")
        share = mathml("linkage", "=", whole, "=", rightly, "=", format_number(linked / len(table), 3))
        return Built(
            rumap,
            own=own,
            formulas=(share,),
            notes=(f"{n} records. Every point is one masked file; another draw would give other numbers.", *failed),
            # A file that leaves is drawn anew: nobody can draw its random numbers again.
            release=lambda row: mask(*points[row]).release(table),
            said=said,
        )

    target = next((c for c in reversed(numbers) if len(numbers) > 1), [*columns][-1])
    controls: tuple[Control, ...] = (
        Pick("known", "The intruder knows", columns, tuple([c for c in columns if c != target][:2]), most=len(columns)),
        Pick("target", "and wants to know", columns, target),
        Pick("masks", "Masks to compare", {t: WORDS[t] for t in possible}, tuple(possible[:3]), most=len(possible)),
        Pick("mine", "Your own release", {t: WORDS[t] for t in possible}, looks=True),
        *(Slider(t, SLIDERS[t][0], (*SLIDERS[t][1], *SLIDERS[t][3]), SLIDERS[t][2], looks=True) for t in possible),
        Pick("risk", "Risk", RISKS),
        Pick("utility", "Utility", utilities),
    )
    given: dict[str, Any] = {"quick": None, "threshold": 0.1, "play": possible[0], "shared": False, **words}
    return Topic(controls=controls, build=build, write=write, **given)


def own_topic(data: pd.DataFrame) -> Topic:
    """A topic out of somebody's own file."""
    about = "Your file stays in the memory of this program, on this machine, until the page is closed."
    return file_topic(data, name="file", title="Your own file", about=about)


def example_topic() -> Topic:
    """The lesson on measures of microdata, on a made-up file."""
    return file_topic(
        example_file(),
        name="microdata",
        title="Measures of microdata",
        about="Domingo-Ferrer and Torra (2001); Karr et al. (2006). A made-up file of incomes is masked in several "
        "ways. Risk is measured by an attack that is really tried, utility by an analysis that is really done, on the "
        "original and on the release.",
        shared=True,
        questions=(
            (
                "The intruder learns one column more. Which masks get into trouble?",
                "Those that change every column only a little: with more known columns small changes no longer hide "
                "who is nearest. Tick a third column and watch noise at 0.1 and swapping at 0.02.",
            ),
            (
                "Swapping leaves every column's distribution exactly as it was. Is it then the most useful mask?",
                "Only if distributions are what you measure. Swapping loosens the columns from each other: choose the "
                "regression as utility and compare again.",
            ),
        ),
        states={"noise": (0.02, 0.1, 0.5), "risk": tuple(RISKS), "utility": ("IO", "marginals")},
    )


def _releases_to_draw(values: Values) -> list[tuple[str, float]]:
    """Technique and strength of every release: the curves that are ticked, and the reader's own one."""
    mine = values["mine"]
    curves = {t: {*SLIDERS[t][3], values[t]} if t == mine else {*SLIDERS[t][3]} for t in values["masks"]}
    curves.setdefault(mine, {values[mine]})
    return [(t, s) for t, strengths in curves.items() for s in sorted(strengths)]
