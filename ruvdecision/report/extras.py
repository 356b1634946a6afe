"""What a report adds where it was computed: sureness of the choice, sensitivity, the limit, risk of every record."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from .. import plots
from ..analyses.limit import Limit
from ..analyses.record_risk import RecordRisk
from ..analyses.sensitivity import Sensitivity
from ..checks import check_kind
from ..decide import Choice, probabilities
from ..decide.choice import check_rule
from ..decide.compare import explanations
from ..decide.criteria import Rule
from ..maps.rumap import RUMap
from ..maps.show import chance_in_words, format_number, plural, shorten_text
from ..maps.storage import fingerprint
from ..plots.map import Positions
from .diagnostics import has_errors
from .document import Fold, Items, Paragraph, Picture, ReportBlock, Table, TableRow

#: Probabilities about a map with more releases than this are given for the chosen one alone.
MOST = 500
#: Tables with more lines than this are folded.
OPEN = 12
#: Releases whose records' risks can be told apart in one picture.
CURVES = 12
#: Records that are named by their position.
RISKIEST = 10


@dataclass(frozen=True)
class Extras:
    """What was done beside the map, further arguments of `choose`, and whether the seed is shown."""

    sensitivity: Sensitivity | None = None
    limit: Limit | None = None
    record_risk: RecordRisk | None = None
    rule: Rule | None = None
    seed: bool = False

    def __post_init__(self) -> None:
        kinds: dict[str, tuple[object, type, str]] = {
            "sensitivity": (self.sensitivity, Sensitivity, "Write sensitivity=ruv.sensitivity(...)"),
            "limit": (self.limit, Limit, "Write limit=ruv.limit(intruder, scientist)"),
            "record_risk": (self.record_risk, RecordRisk, "Write record_risk=ruv.analyses.record_risk(...)"),
        }
        check_rule(self.rule)
        for name, (given, kind, do) in kinds.items():
            if given is not None:
                check_kind(name, given, kind, do)


def why_not_on_frontier(rumap: RUMap, rows: Positions) -> list[str]:
    """Why each of these releases is not on the frontier."""
    found = explanations(rumap, rows.tolist())
    # The table's row begins with the release.
    return [str(one).removeprefix(f"{one.release} is ").removesuffix(".") for one in found]


def probability_blocks(
    rumap: RUMap, choice: Choice | None, order: Positions, max_risk: float | None, most: int
) -> list[ReportBlock]:
    """Probabilities that the errors leave in doubt; nothing where all is exact."""
    if not has_errors(rumap).any():
        return []
    blocks: list[ReportBlock] = []
    if choice is not None:
        said = [
            ("meets the threshold", choice.meets),
            ("is on the frontier", choice.on_frontier),
            ("is the best of those allowed", choice.best),
        ]
        said = said[1:] if np.isinf(choice.max_risk) else said
        facts = [f"The probability that the chosen release truly {what} is {chance_in_words(p)}." for what, p in said]
        blocks.append(Items(facts))
    if len(rumap) > MOST or not order.size:
        return blocks
    given = None if max_risk is None or np.isinf(max_risk) else max_risk
    table = probabilities(rumap, given).iloc[order.tolist()]
    head = [("meets", "meets the threshold"), ("on_frontier", "is on the frontier"), ("best", "is the best allowed")]
    head = [(k, words) for k, words in head if k in table and (k != "best" or given is not None)]
    rows = [
        TableRow(
            (str(row["release"]), *(chance_in_words(row[k]) for k, _ in head)), "" if row["converged"] else "doubtful"
        )
        for _, row in table.iterrows()
    ]
    caption = f"Probabilities that a release of the frontier truly … ({len(rows)})"
    whole = Table(caption, ("release", *(words for _, words in head)), rows)
    return [*blocks, whole.fold_if_long(most, f"Probabilities of {plural(len(rows), 'release')}")]


# -- the limit -----------------------------------------------------------------------------------------


def limit_blocks(rumap: RUMap, choice: Choice | None, limit: Limit | None) -> list[ReportBlock]:
    """What no mechanism can pass, and how much of it the choice reaches."""
    if limit is None:
        return []
    known = {"records": "all records", "average": "the average of the records"}
    blocks: list[ReportBlock] = [
        Paragraph(
            "The dotted line on the map is the limit: no way of releasing anything, however made, has more utility at "
            f"its risk. It was computed by {limit.method}, over mechanisms that see "
            f"{known.get(limit.statistic, limit.statistic)}."
        )
    ]
    if not limit.certain:
        blocks.append(Paragraph("It is not proved that no mechanism does better than this line.", "warning"))
    facts = []
    if choice is not None and np.isfinite([choice.risk, choice.utility]).all():
        found = limit.shortfall(rumap.take([choice.position])).iloc[0]
        if not np.isnan(found["share"]):
            facts.append(
                f"At the risk of the chosen release the limit is {format_number(float(found['limit']), 4)}; the chosen "
                f"release reaches {format_number(100 * float(found['share']), 3)} % of it."
            )
    facts += list(limit.notes)
    if facts:
        blocks.append(Items(facts))
    figures = limit.to_dataframe()[["max_risk", "utility", "reached_risk", "reached_utility", "mechanism"]]
    rows = [
        TableRow((*(format_number(x, 3) for x in row[1:5]), shorten_text(row[5], 80))) for row in figures.itertuples()
    ]
    head = ("risk at most", "utility at most", "risk reached", "utility reached", "by")
    whole = Table(f"The limit ({len(rows)} bounds)", head, rows, (False, True, True, True, False))
    return [*blocks, Fold("The limit in numbers", [whole])]


# -- sensitivity ---------------------------------------------------------------------------------------


def sensitivity_blocks(rumap: RUMap, result: Sensitivity | None, anchor: str) -> list[ReportBlock]:
    """What the choice depends on, with a tornado."""
    if result is None:
        return []
    first, *others = result.describe()
    kind = "" if result.base.choice is None or result.stable else "warning"
    blocks: list[ReportBlock] = [Paragraph(first, kind), *map(Paragraph, others)]
    if fingerprint(result.base.rumap) != fingerprint(rumap):
        said = "The base of the sensitivity analysis is another map than the one of this report."
        blocks.insert(0, Paragraph(said, "warning"))
    effects = result.effects("risk")
    ends = effects[["low", "high", "base"]].to_numpy(dtype=float)
    if np.isfinite(ends).any():
        what = "the risk of the chosen release" if result.base.choice is not None else "the risks of the releases"
        rows = effects.head(5).itertuples()
        moves = [f"{r.factor} from {format_number(float(r.low), 4)} to {format_number(float(r.high), 4)}" for r in rows]
        words = f"Bars that show how far each setting moves {what}, the widest on top: {'; '.join(moves)}."
        caption = f"How far each setting moves {what}. The line is the value at the base settings."
        size = (8.6, min(1.6 + 0.5 * min(len(effects), 20), 11.0))
        draw = lambda figure: plots.tornado(result, "risk", figure.subplots())  # noqa: E731
        blocks.append(Picture(draw, caption, words, f"{anchor}-tornado", size))
    table = result.to_dataframe()
    chosen = result.base.choice is not None
    numbers = ["risk", "utility", "regret"] if chosen else ["frontier_shared", "risk_change", "utility_change"]
    texts = ["chosen", "meets"] if chosen else []
    heads = {
        "chosen": "chosen there",
        "risk": "risk of the choice",
        "utility": "its utility",
        "meets": "still allowed",
        "regret": "cost of keeping it",
        "frontier_shared": "share of the frontier that stays",
        "risk_change": "median change of risk",
        "utility_change": "median change of utility",
    }
    shown = [k for k in heads if k in numbers + texts]
    labels = ["base", *(v.label for v in result.variations)]
    rows = []
    for label, (_, row) in zip(labels, table.iterrows(), strict=True):
        cells = [
            format_number(float(row[k]), 3)
            if k in numbers
            else {True: "yes", False: "no"}.get(row[k], str(row[k]) or "none")
            for k in shown
        ]
        rows.append(TableRow((label, *cells), "doubtful" if chosen and not bool(row["meets"]) else ""))
    head = ("setting", *(heads[k] for k in shown))
    whole = Table(f"Variations ({len(rows) - 1})", head, rows, (False, *(k in numbers for k in shown)))
    return [*blocks, whole.fold_if_long(OPEN, f"All {len(rows) - 1} variations")]


# -- records -------------------------------------------------------------------------------------------


def record_risk_blocks(
    choice: Choice | None, max_risk: float | None, found: RecordRisk | None, anchor: str
) -> list[ReportBlock]:
    """Records are named by their position in the file and never by a value; groups, whose labels are data, stay out."""
    if found is None:
        return []
    who = re.sub(r"^The (user|snooper) ", "The intruder ", found.intruder)
    blocks: list[ReportBlock] = [
        Paragraph(f"{plural(len(found.rows), 'record')}, each as if it were the intruder's target. {who}")
    ]
    summary = found.summary()
    quantiles = [k for k in summary if k.startswith("quantile_")]
    shares = (f"{100 * float(k.removeprefix('quantile_')):g} % have at most" for k in quantiles)
    head = ("release", "mean risk", *shares, "largest", "its position")

    here = choice.release if choice is not None and choice.release in found.releases else None
    rows = []
    for _, row in summary.iterrows():
        cells = [format_number(float(row[k]), 3) for k in ("mean", *quantiles, "max")]
        kind = "chosen" if row["release"] == here else ""
        rows.append(TableRow((str(row["release"]), *cells, str(int(row["riskiest"]))), kind))
    table = Table(f"Risk of the records ({len(rows)} releases)", head, rows)
    one = here if here is not None else found.releases[0] if len(found.releases) == 1 else None
    if np.isfinite(found.risk).any() and (one is not None or len(found.releases) <= CURVES):
        which = f"under {one}" if one is not None else f"under {len(found.releases)} releases"
        part = found.risk[found.releases.index(one)] if one is not None else found.risk
        finite = part[np.isfinite(part)]
        if finite.size:
            limit = None if max_risk is None or np.isinf(max_risk) else max_risk
            ends = f"from {format_number(float(finite.min()), 4)} to {format_number(float(finite.max()), 4)}"
            words = f"How the risks of {plural(len(found.rows), 'record')} are distributed {which}: {ends}."
            caption = f"How the risks of the records are distributed {which}."

            draw = lambda figure: plots.record_risk(found, one, figure.subplots(), max_risk=limit)  # noqa: E731
            blocks.append(Picture(draw, caption, words, f"{anchor}-recordrisk", (7.6, 4.4)))
    blocks.append(table.fold_if_long(OPEN, f"Risk of the records under {len(rows)} releases"))
    if one is not None:
        worst = found.riskiest(min(RISKIEST, len(found.rows)), one)
        rows = [
            TableRow((str(int(r.row)), format_number(float(r.risk), 3), format_number(float(r.uncertainty), 3)))
            for r in worst.itertuples()
        ]
        caption = f"The records at most risk under {one}, by their position in the file (counted from 0)"
        blocks.append(Table(caption, ("position", "risk", "intruder's U"), rows))
    return blocks
