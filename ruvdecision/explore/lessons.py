"""The built-in lessons, each computed while a slider moves.

A lesson is a Python program with the settings in it: what the page computes is the code that it hands out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from ..beliefs.normal import NormalBelief
from ..errors import InputError
from ..losses import Quadratic
from ..maps.rumap import RUMap
from ..maps.show import format_number
from ..masks.base import Mask
from ..masks.cells import SuppressCells
from ..masks.rows import Shuffle
from ..posteriors import Gaussian
from ..scenarios import Curve
from ..scenarios.bayes import belief as belief_behind, snooper
from ..targets import Parameter
from ..users.user import User
from .beliefs import FLAT, Example, RankPrior, TabulatedRankPosterior, belief_of, beliefs_of, draw_example
from .microdata import example_topic
from .topic import (
    BeliefView,
    Built,
    LawView,
    Pick,
    Slider,
    Topic,
    Values,
    even_stops,
    fraction,
    geometric_stops,
    mathml,
    power,
    subscript,
)

START = "import numpy as np\nimport ruvdecision as ruv\n\n"


@lru_cache(maxsize=24)
def run(code: str) -> Values:
    """What a lesson's program leaves behind: ``rumap`` and whatever it names on the way."""
    scope: dict[str, object] = {}
    exec(compile(code, "<lesson>", "exec"), scope)
    return scope


def lesson_builder(
    write: Callable[[Values], str],
    own: Callable[[Values, RUMap], int],
    formulas: Callable[[Values, RUMap, int], tuple[str, ...]] | None = None,
) -> Callable[[Values], Built]:
    """What builds a lesson from its program."""

    def build(values: Values) -> Built:
        rumap = run(write(values))["rumap"]
        row = own(values, rumap)
        users = rumap.users if rumap.users and rumap.before[0].size and rumap.masks else None
        lines = formulas(values, rumap, row) if formulas else ()
        return Built(rumap, beliefs_of(*users) if users else None, row, lines)

    return build


# -- Trottini and Fienberg (2002), example 1 ------------------------------------------------------------

#: The losses by name: how code writes them, and what they are.
LOSSES = {
    "squared": ("ruv.Quadratic()", "the squared error"),
    "absolute": ("ruv.Absolute()", "the absolute error"),
    "within": ("ruv.ZeroOne(tolerance=0.5)", "1 if more than 0.5 away"),
    "huber": ("ruv.Huber(1.0)", "Huber's loss, 1"),
    "linex": ("ruv.Linex(0.5)", "Linex, too low costs more"),
    "pinball": ("ruv.Pinball(0.9)", "the pinball loss, 0.9"),
    "crps": ("ruv.CRPS()", "the CRPS of a forecast"),
}
OPTIONS = {name: words for name, (_, words) in LOSSES.items()}
#: Noise variances: the paper's 2.08 is one of them, and a long tail leads to suppression.
GRID = np.concatenate([np.arange(1, 251) * 2 / 25, np.round(np.geomspace(21, 2000, 40))]).tolist()
COUNTS = (*range(1, 31), *geometric_stops(32, 1000, 36, whole=True))


def normal_program(values: Values) -> str:
    """Suppression, averages, noise and both together."""
    n, groups, row = values["n"], values["groups"], values["row"]
    if groups > n:
        do = "Move one of the two sliders"
        raise InputError(f"There cannot be more groups than records, and there are {n}", groups, do)
    if row != "known" and values["intruder_loss"] != "squared":
        what = "With an unknown row the intruder's uncertainty has a closed form for the squared error only"
        do = "Let the intruder pay the squared error, or know the row"
        raise InputError(what, OPTIONS[values["intruder_loss"]], do)
    shuffle = "" if row == "known" else "masks = [ruv.Shuffle() | mask for mask in masks]  # the row is not known\n"
    return f"""{START}n, variance, prior_variance = {n!r}, {values["variance"]!r}, {values["prior_variance"]!r}
belief = ruv.NormalBelief(records=n, variance=variance, prior_mean=0, prior_variance=prior_variance)
intruder = ruv.User(belief, ruv.Record(0), {LOSSES[values["intruder_loss"]][0]}, name="The intruder")
scientist = ruv.User(belief, ruv.Parameter("mu"), {LOSSES[values["scientist_loss"]][0]}, name="The scientist")
average = ruv.Microaggregate(groups={groups!r})
grid = np.concatenate([np.arange(1, 251) * 2 / 25, np.round(np.geomspace(21, 2000, 40))]).tolist()
masks = [average, *(ruv.Noise(variance=v) | average for v in grid), *(ruv.Noise(variance=v) for v in grid)]
{shuffle}rumap = ruv.evaluate([ruv.Suppress(), *masks], intruder=intruder, scientist=scientist, progress=False)
"""


def _normal_formulas(values: Values, rumap: RUMap, own: int) -> tuple[str, ...]:
    """Both uncertainties after noise and one average, where they are variances."""
    if values["groups"] != 1 or {values["intruder_loss"], values["scientist_loss"]} != {"squared"}:
        return ()
    n, s, p, r = (format_number(float(values[k]), 4) for k in ("n", "variance", "prior_variance", "noise"))
    mean, record = (format_number(float(u[own]), 4) for u in (rumap.scientist_uncertainty, rumap.intruder_uncertainty))
    us = mathml(
        subscript("U", "S"), "=", power([fraction("1", "φ²"), "+", fraction("n", ["σ²", "+", "r"])], "−1"),
        "=", power([fraction("1", p), "+", fraction(n, [s, "+", r])], "−1"), "=", mean,
    )  # fmt: skip
    if values["row"] != "known":
        return (us,)
    return us, mathml(
        subscript("U", "I"), "=", "σ²", "+", "φ²", "−",
        fraction(power(["φ²", "+", fraction("σ²", "n")], "2"), ["φ²", "+", fraction(["σ²", "+", "r"], "n")]),
        "=", s, "+", p, "−", fraction(power([p, "+", fraction(s, n)], "2"), [p, "+", fraction([s, "+", r], n)]),
        "=", record,
    )  # fmt: skip


NORMAL = Topic(
    "normal",
    "Two users and a normal variable",
    "Trottini and Fienberg (2002), example 1. The agency may suppress everything, average the records in groups, add "
    "noise, or add noise and average. The intruder wants record 0, the scientist the population mean.",
    (
        Slider("n", "Records n", COUNTS, 10),
        Slider("variance", "Variance σ² of a record", geometric_stops(0.1, 20, 60), 2.0),
        Slider(
            "prior_variance",
            "Prior variance φ² of the mean",
            geometric_stops(0.1, 100, 60),
            5.0,
            "What nobody knows yet.",
        ),
        Slider("noise", "Noise variance r", GRID, 2.08, "Your own candidate: this noise, then the average.", True),
        Slider("groups", "Groups", range(1, 21), 1),
        Pick("row", "The target's row", {"known": "known to the intruder", "unknown": "not known"}),
        Pick("intruder_loss", "The intruder pays", OPTIONS),
        Pick("scientist_loss", "The scientist pays", OPTIONS),
    ),
    lesson_builder(normal_program, lambda values, rumap: 2 + GRID.index(values["noise"]), _normal_formulas),
    normal_program,
    0.5,
    (
        (
            "Noise and then the average: is there still a reason for the noise, if only one number is published?",
            "Yes. The average of ten records tells a good deal about each of them. Without noise the risk is 0.556; "
            "with noise of variance 2.08 it is 0.5, and most of the scientist's precision stays.",
        ),
        (
            "A file of 100 records instead of 10: does the average alone become safer?",
            "Yes. The average then tells less about any one of them, and its risk falls to 0.505: it is nearly the "
            "risk of telling the population mean itself, 1/σ² = 0.5.",
        ),
    ),
    "noise",
    states={"n": (3, 10, 100), "noise": (0.4, 1.04, 2.08, 4.0, 16.0, 108.0)},
)

# -- Duncan, Keller-McNulty and Stokes (2001) -----------------------------------------------------------

KNOWLEDGE = {"record": "which row is the target's", "sample": "that the target is in the file",
             "population": "that the target is in the population"}  # fmt: skip
METHODS = {"paper": "the paper's formulas", "exact": "the exact error of the same rules",
           "bayes": "a snooper who uses Bayes' rule"}  # fmt: skip
#: Noise as a share of the population's variance, from none to three times as much.
SHARES = (np.arange(0, 301) / 100).tolist()


def arguments(values: Values, knowledge: str) -> Values:
    """The arguments of `additive_noise`; those that the target does not take are left out."""
    given = {**{k: values[k] for k in ("n", "variance", "target", "method")}, "knowledge": knowledge}
    if values["target"] == "percentile":
        given["p"] = values["p"]
    if values["method"] == "bayes":
        given["prior"] = values["prior"]
    return given


def snoopers(values: Values) -> Built:
    """Noise against up to three snoopers at once."""
    rumap = run(snoopers_program(values))["rumap"]
    own = SHARES.index(values["noise"])
    plain = "The posterior is what Bayes' rule makes of the same release; this snooper uses a plain rule instead."
    return Built(
        rumap,
        lambda mask, example, slow: _snoopers_beliefs(values, mask, example),
        own,
        _snooper_formulas(values, SHARES[own] * values["variance"]),
        () if values["method"] == "bayes" else (plain,),
    )


def _snooper_formulas(values: Values, noise: float) -> tuple[str, ...]:
    n, s, r = (format_number(float(x), 4) for x in (values["n"], values["variance"], noise))
    mean, known = (values["variance"] + noise) / values["n"], values["knowledge"]
    lines = [
        mathml(
            subscript("U", "S"),
            "=",
            fraction(["σ²", "+", "λ²"], "n"),
            "=",
            fraction([s, "+", r], n),
            "=",
            format_number(mean, 4),
        )
    ]
    if values["target"] == "typical" and values["method"] == "paper":
        whole = format_number(mean + values["variance"], 4)
        rows = {"record": ("λ²", "=", r), "population": ("σ²", "+", fraction(["σ²", "+", "λ²"], "n"), "=", whole)}
        lines += [mathml(subscript("U", f"knows {KNOWLEDGE[k]}"), "=", *rows[k]) for k in known if k in rows]
    return tuple(lines)


def _snoopers_beliefs(values: Values, mask: Mask, example: int) -> list[BeliefView]:
    """Both posteriors after one release of an example file; of several snoopers the first one's."""
    n, variance, prior, knowledge = values["n"], values["variance"], values["prior"], values["knowledge"][0]
    # The example has mean 0, whatever the prior: a flat one cannot be drawn from.
    made = draw_example(NormalBelief(records=n, variance=variance, prior="known"), example)
    scientist = User(NormalBelief(records=n, variance=variance, prior="flat"), Parameter("mu"), Quadratic())
    second = belief_of("scientist", scientist, mask, made, example)
    order = Curve(**arguments(values, knowledge)).order
    if order is None or knowledge == "record":
        user = snooper(n, variance, prior, knowledge)
        return [belief_of("intruder", user, mask | Shuffle() if knowledge == "sample" else mask, made, example), second]
    if knowledge == "population":
        return [_percentile_beliefs(values, mask, made, example), second]
    return [_rank_beliefs(values, mask, made, example, order), second]


def _percentile_beliefs(values: Values, mask: Mask, made: Example, example: int) -> BeliefView:
    """The population percentile is the mean, moved: the population's variance is known."""
    shift = float(special.ndtri(values["p"]) * np.sqrt(values["variance"]))
    user = User(belief_behind(values["n"], values["variance"], values["prior"]), Parameter("mu"), Quadratic())
    inner = belief_of("intruder", user, mask, made, example)
    title = f"percentile {values['p']:g} of the population"
    if not inner.laws:
        return BeliefView("intruder", title, words=inner.words)
    law = inner.laws[0]
    after, before = (
        None if x is None or not np.isfinite(x.var()) else Gaussian.scalar(x.mean() + shift, x.var())
        for x in (law.posterior, law.prior)
    )
    estimate = float(law.estimate or 0.0) + shift
    words = (
        f"In this example the best estimate is {format_number(estimate, 4)} and the truth {format_number(shift, 4)}."
    )
    words += "" if before is not None else f" {FLAT}"
    return BeliefView("intruder", title, (LawView(title, after, before, estimate, shift),), words)


def _rank_beliefs(values: Values, mask: Any, made: Example, example: int, order: int) -> BeliefView:
    """A record by its rank: the largest, the smallest, or a percentile of the file."""
    n = values["n"]
    words = {n: "the largest record", 1: "the smallest record"}.get(order, f"the record of rank {order} of {n}")
    truth = float(np.sort(made[1])[order - 1])
    prior = RankPrior(n, order, values["variance"]) if values["prior"] == "known" else None
    flat = "" if prior is not None else f" {FLAT}"
    if mask.variance == 0:
        law = LawView(words, Gaussian.scalar(truth, 0.0), prior, truth, truth)
        return BeliefView("intruder", words, (law,), f"Without noise the file gives the record away.{flat}")
    release = mask.release(made[1], example)
    posterior = TabulatedRankPosterior(release, order, values["variance"], float(mask.variance), values["prior"])
    estimate, variance = posterior.mean(), posterior.var()
    said = f"In this example the best estimate is {format_number(estimate, 4)} and the truth {format_number(truth, 4)}"
    law = LawView(words, posterior, prior, estimate, truth)
    return BeliefView(
        "intruder", words, (law,), f"{said}; the expected loss of that estimate is {format_number(variance, 4)}.{flat}"
    )


def snoopers_program(values: Values) -> str:
    """Noise variances for one snooper, or for several: each has a curve, and the choice is by the worst of them."""
    given = [", ".join(f"{k}={v!r}" for k, v in arguments(values, know).items()) for know in values["knowledge"]]
    maps = ",\n    ".join(f"ruv.scenarios.additive_noise(noise_variance=grid, {one})" for one in given)
    names = [f"knows {KNOWLEDGE[k]}" for k in values["knowledge"]]
    last = "maps[0]" if len(given) == 1 else f"ruv.RUMap.concat(maps, names={names!r})"
    grid = f'[float(f"{{v:.12g}}") for v in np.arange(0, 301) / 100 * {values["variance"]!r}]'
    return f"{START}grid = np.array({grid})\nmaps = [\n    {maps},\n]\nrumap = {last}\n"


SNOOPER = Topic(
    "snooper",
    "Snoopers against noise",
    "Duncan, Keller-McNulty and Stokes (2001). Every record gets noise; the scientist takes the mean of the release. "
    "How much noise is needed depends on whom the snooper is after, and on what the snooper knows. Tick two or three "
    "to see them side by side: the choice is then by the worst of them.",
    (
        Slider("n", "Records n", COUNTS[1:], 200),
        Slider("variance", "Variance σ² of a record", geometric_stops(0.1, 20, 60), 1.0),
        Slider("noise", "Noise variance λ², times σ²", SHARES, 0.21, "The release that you look at.", True),
        Pick("target", "The snooper is after", {"typical": "a typical record", "percentile": "a percentile",
                                                "maximum": "the largest record", "minimum": "the smallest record"}),
        Pick("knowledge", "The snooper knows", KNOWLEDGE, ("record",), "One curve for each.", 3),
        Pick("method", "Risk by", METHODS),
        Slider("p", "Percentile p, where one is the target", (*even_stops(0.5, 0.99, 0.01), 0.995, 0.999), 0.99),
        Pick("prior", "Beforehand the Bayesian snooper knows", {"flat": "nothing (a flat prior)",
                                                                "known": "the population mean"}),
    ),
    snoopers,
    snoopers_program,
    5.0,
    (
        (
            "One snooper knows which row is the target's, another only that the target is in the population. For whom "
            "does noise matter?",
            "For the first. He takes the released value, so that his error is the noise itself. The second takes the "
            "mean of the file: noise changes his error by λ²/n only. Tick both and move the threshold.",
        ),
        (
            "The same noise, a file of 1,000 instead of 200: what happens to the risk of the row that is known, and "
            "to utility?",
            "The risk stays 1/λ²; utility n/(σ² + λ²) grows five times. Large files can afford noise.",
        ),
    ),
    "noise",
    states={"knowledge": (("record",), ("record", "population")), "noise": (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)},
)  # fmt: skip

# -- Trottini and Fienberg (2002), example 2 ------------------------------------------------------------

VARIANCES, NAMES = (1.0, 1.5), ("variable 1", "variable 2")
PRIOR_COVARIANCE = ((5.0, 0.5), (0.5, 4.0))
NOISES = np.unique([5.0, *(float(f"{v:.1e}") for v in np.geomspace(0.05, 2500, 150))]).tolist()
STRETCH = geometric_stops(0.1, 20, 60)


def weights_program(values: Values) -> str:
    """Noise on the first variable only and on the second only, then the average."""
    return f"""{START}shared = {values["correlation"]!r} * float(np.sqrt({VARIANCES[0]!r} * {VARIANCES[1]!r}))
covariance = [[{VARIANCES[0]!r}, shared], [shared, {VARIANCES[1]!r}]]
prior, names = {{"prior_mean": [0, 0], "prior_covariance": {PRIOR_COVARIANCE!r}}}, {list(NAMES)!r}
belief = ruv.NormalBelief(records={values["n"]!r}, covariance=covariance, columns=names, **prior)
weights = np.diag([{values["intruder_1"]!r}, {values["intruder_2"]!r}])
intruder = ruv.User(belief, ruv.Record(0), ruv.Quadratic(weights=weights), name="The intruder")
weights = np.diag([{values["scientist_1"]!r}, {values["scientist_2"]!r}])
scientist = ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic(weights=weights), name="The scientist")
average = ruv.Microaggregate(groups=1)
grid = np.unique([5.0, *(float(f"{{v:.1e}}") for v in np.geomspace(0.05, 2500, 150))]).tolist()
masks = [ruv.Suppress(), average, *(ruv.Noise(variance=v, columns=[name]) | average for name in names for v in grid)]
rumap = ruv.evaluate(masks, intruder=intruder, scientist=scientist)
"""


WEIGHTS = Topic(
    "weights",
    "Two variables and their weights",
    "Trottini and Fienberg (2002), example 2. The records have two variables, with variances 1 and 1.5; one of them "
    "gets noise before all records are averaged. Which one should it be? That depends on how much each user minds "
    "errors in each variable.",
    (
        Slider("n", "Records n", COUNTS[1:], 20),
        Slider("correlation", "Correlation of the variables", even_stops(-0.95, 0.95, 0.05), 0.15),
        Slider("intruder_1", "Intruder's weight on variable 1", STRETCH, 1.0),
        Slider("intruder_2", "Intruder's weight on variable 2", STRETCH, 3.0),
        Slider("scientist_1", "Scientist's weight on variable 1", STRETCH, 6.0),
        Slider("scientist_2", "Scientist's weight on variable 2", STRETCH, 0.5),
        Slider("noise", "Noise variance", NOISES, 5.0, "Your own candidate: this noise, then the average.", True),
        Pick("column", "Noise on", {"1": "variable 1", "2": "variable 2"}, looks=True),
    ),
    lesson_builder(
        weights_program, lambda v, rumap: 2 + (int(v["column"]) - 1) * len(NOISES) + NOISES.index(v["noise"])
    ),
    weights_program,
    0.12,
    (
        (
            "The intruder minds errors in variable 2, the scientist errors in variable 1. Where does the noise go?",
            "On variable 2: it hurts the intruder where he minds and leaves the scientist what she needs.",
        ),
        (
            "Now both mind errors in the same variable. Is one of the two curves still better everywhere?",
            "Give variable 1 the larger weight of both: the curves cross or lie close together. What protects is then "
            "also what costs, and the threshold decides.",
        ),
    ),
    "noise",
    states={"scientist_1": (0.1, 6.0), "scientist_2": (0.5, 20.0), "noise": (0.51, 2.0, 5.0, 21.0, 100.0)},
)

# -- tables ---------------------------------------------------------------------------------------------

CELLS = {"(0, 0)": "top left", "(0, 1)": "top right", "(1, 0)": "bottom left", "(1, 1)": "bottom right"}


PATTERNS = {
    "ruv.Suppress()": "nothing published",
    "ruv.SuppressCells(margins=[(0,)])": "row totals only",
    "ruv.SuppressCells(margins=[(1,)])": "column totals only",
    "ruv.SuppressCells()": "all margins, no cells",
    "ruv.SuppressCells([(0, 0), (0, 1)], margins=False)": "the second row's cells",
    "ruv.SuppressCells([(0, 0), (1, 1)], margins=False)": "the two cells off the diagonal",
    "ruv.SuppressCells([(0, 0), (0, 1), (1, 0)], margins=False)": "the last cell only",
    "ruv.SuppressCells([(0, 0)])": "all margins and all cells but one",
}
GAIN = 'gain = {"risk": "relative_gain", "utility": "relative_gain"}\n'


def table_program(values: Values) -> str:
    """Patterns of suppression for one table of counts."""
    masks = "".join(f"    {code},  # {words}\n" for code, words in PATTERNS.items())
    return f"""{START}counts = np.array([[{values["a"]}, {values["b"]}], [{values["c"]}, {values["d"]}]])
belief = ruv.TableBelief((2, 2), total=int(counts.sum()))
intruder = ruv.User(belief, ruv.Cell({values["cell"]}), ruv.Quadratic(), name="The intruder")
scientist = ruv.User(belief, ruv.Records(), ruv.LogScore(), name="The scientist")
masks = [
{masks}]
{GAIN}rumap = ruv.evaluate(masks, intruder=intruder, scientist=scientist, data=counts, progress=False, **gain)
"""


def build_table(values: Values) -> Built:
    """The map, and how many tables remain possible."""
    scope = run(table_program(values))
    belief, counts = scope["belief"], scope["counts"]
    cell = tuple(int(x) for x in values["cell"].strip("()").split(","))
    after = belief.given(SuppressCells().publish(counts))
    (least, most), total, count = after.bounds(cell), int(counts.sum()), f"{after.count():,}"
    formulas = (
        mathml("M", "=", fraction([f"{total + 3:,}", "·", f"{total + 2:,}", "·", f"{total + 1:,}"], "6"),
               "=", f"{belief.count():,}", "tables with that total"),
        mathml(subscript("M", "margins"), "=", count, ", ", subscript("U", "S"), "=", "log", count, "=",
               format_number(float(np.log(after.count())), 4)),
        mathml(f"{least}", "≤", subscript("c", f"{cell[0] + 1}{cell[1] + 1}"), "≤", f"{most}", "given all margins"),
    )  # fmt: skip

    def believed(mask: Mask, example: int, slow: bool) -> list[BeliefView]:
        # No example is drawn here: the table is the one that the sliders say.
        return [belief_of("intruder", scope["intruder"], mask, (None, counts), example)]

    return Built(scope["rumap"], believed, int(values["pattern"]), formulas)


TABLE = Topic(
    "table",
    "A table with blank cells",
    "Trottini and Fienberg (2002), section 4.1. A 2 × 2 table of counts is published with some of its cells left out. "
    "A reader holds every table possible that agrees with what is there. The intruder wants one cell, the scientist "
    "the whole table; risk and utility are the shares of their uncertainty that the publication removes.",
    (
        *(Slider(k, f"Count, {words}", range(41), at) for (k, at), words in
          zip({"a": 12, "b": 16, "c": 18, "d": 19}.items(), CELLS.values(), strict=True)),
        Pick("cell", "The intruder wants the cell", CELLS),
        Pick("pattern", "You look at", {str(i): t for i, t in enumerate(PATTERNS.values())}, "3", looks=True),
    ),
    build_table,
    table_program,
    0.5,
    (
        (
            "One sensitive cell is left blank, all other cells and the margins are published. How much is protected?",
            "Nothing: the cell follows by subtraction from its row's total. A second cell must be blank in the row "
            "and in the column (complementary suppression).",
        ),
        (
            "All cells blank, all margins published: does the intruder learn more if one row's total is small?",
            "Yes. A cell cannot exceed its row's or its column's total. Make the counts of the first row small: the "
            "interval below the map shrinks, and the risk rises.",
        ),
    ),
    states={"a": (2, 12, 30), "b": (2, 16, 30)},
)  # fmt: skip

# -- PRAM -----------------------------------------------------------------------------------------------

STAYS = even_stops(0.5, 1.0, 0.05)


def pram_program(values: Values) -> str:
    """The chance that an answer is kept."""
    return f"""{START}traits = np.round(np.linspace(0.05, 0.95, 10), 2)
chances = traits ** ({values["a"]!r} - 1) * (1 - traits) ** ({values["b"]!r} - 1)
chances /= chances.sum()
answers = {{"likelihood": np.column_stack([1 - traits, traits]), "outcomes": [0, 1], "records": {values["n"]!r}}}
belief = ruv.FiniteBelief(values=traits, probabilities=chances, name="p", **answers)
intruder = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), name="The intruder")
scientist = ruv.User(belief, ruv.Parameter("p"), ruv.Quadratic(), name="The scientist")
stays = [round(0.5 + 0.05 * i, 10) for i in range(11)]
masks = [ruv.PRAM(stay=s, columns=[0], categories=[0, 1]) for s in stays]
{GAIN}rumap = ruv.evaluate(masks, intruder=intruder, scientist=scientist, progress=False, **gain)
"""


def _pram_formulas(values: Values, rumap: RUMap, own: int) -> tuple[str, ...]:
    assert rumap.users is not None
    belief = rumap.users[0].users[0].belief
    share, stay = float(belief.states.numbers @ belief.prior), values["noise"]
    s, t, p, q = (format_number(x, 3) for x in (stay, 1 - stay, share, 1 - share))
    after = stay * share / (stay * share + (1 - stay) * (1 - share))
    return (
        mathml("P( trait | answer yes )", "=", fraction(["s", "p"], ["s", "p", "+", "(1 − s)", "(1 − p)"]), "=",
               fraction([s, "·", p], [s, "·", p, "+", t, "·", q]), "=", format_number(after, 3)),
    )  # fmt: skip


PRAM_LESSON = Topic(
    "pram",
    "Turning answers round (PRAM)",
    "Warner (1965); Gouweleeuw et al. (1998). A sensitive yes or no is kept with probability s and turned round "
    "otherwise. The intruder wants one respondent's trait, the scientist the share p of people with the trait; risk "
    "and utility are the shares of their uncertainty that the release removes.",
    (
        Slider("n", "Respondents n", (2, 5, 10, 20, 30, 50), 20),
        Slider("noise", "Chance s that an answer is kept", STAYS, 0.8, "The release that you look at.", True),
        Slider("a", "Prior of p: weight of the trait", (1, 2, 3, 4, 6), 2),
        Slider("b", "Prior of p: weight of its absence", (1, 2, 3, 4, 6, 8), 6),
    ),
    lesson_builder(pram_program, lambda values, rumap: STAYS.index(values["noise"]), _pram_formulas),
    pram_program,
    0.2,
    (
        (
            "Every answer is kept with probability 0.5. What does the scientist learn from a thousand of them?",
            "Nothing: the answers are then coin tosses. At s = 0.5 risk and utility are both zero.",
        ),
        (
            "Somebody answers yes, and answers are kept with probability 0.8. Is the trait 80 % likely?",
            "Only if it was even beforehand. A rare trait stays unlikely: with a share of 0.25 the formula gives 0.57.",
        ),
    ),
    "noise",
    states={"n": (5, 20), "noise": STAYS},
)

MICRODATA = example_topic()

LESSONS = (NORMAL, SNOOPER, WEIGHTS, TABLE, PRAM_LESSON, MICRODATA)
"""The built-in lessons, in the order in which the page lists them."""
