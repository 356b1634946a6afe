"""What a report says about a map, or about a panel of maps: everything is read from the maps and nothing else.

No confidential record can get into a report, because a map holds none: it has labels, parameters, summaries and what
the study itself had to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..decide import Choice, choose, explain, not_dominated
from ..errors import InfeasibleError
from ..maps.rumap import RUMap
from ..maps.show import HEADS, better, counted, cut, entry, evenly, number, user_columns
from ..maps.storage import fingerprint
from ..plots.map import Positions
from ..running.fingerprint import fingerprint_data
from .diagnostics import Flags, diagnostics, doubtful, is_diagnostic
from .document import Document, Fold, Heading, Items, Paragraph, Picture, ReportBlock, Table, TableRow, Terms
from .extras import Extras, reasons, sections, sureness
from .methods import method_notes, references
from .picture import map_drawing
from .users import users

#: Tables with more rows than this are folded, behind an excerpt of `EXCERPT` rows.
OPEN, EXCERPT = 40, 20
#: Rows of the releases that are not on the frontier; more of them are left out, evenly.
REST = 200
#: Digits of a seed that nobody finds by trying: fresh ones have about 38.
LONG = 24
#: Libraries whose versions a map may hold.
LIBRARIES = ("ruvdecision", "python", "numpy", "scipy", "pymc", "arviz", "pytensor", "nutpie")


def compose(
    maps: Mapping[str, RUMap],
    max_risk: float | None,
    title: str,
    notes: Sequence[str],
    date: str | None,
    extras: Mapping[str, Extras] | None = None,
) -> Document:
    """Write the report of one map (whatever its name) or of several named ones."""
    panel = len(maps) > 1
    beside = {name: (extras or {}).get(name, Extras()) for name in maps}
    decisions = {name: _decide(rumap, max_risk, beside[name].rule) for name, rumap in maps.items()}
    blocks: list[ReportBlock] = [Heading(2, "Decision", "decision")]
    blocks += [_decisions(decisions, max_risk)] if panel else []
    for k, (name, rumap) in enumerate(maps.items(), start=1):
        anchor, level = f"map{k}", 3 if panel else 2
        blocks += [Heading(2, name, anchor)] if panel else []
        blocks += _chapter(rumap, decisions[name], max_risk, anchor, level, beside[name])
    if notes:
        blocks += [Heading(2, "What the study has to say", "notes"), Items(notes)]
    blocks += [Heading(2, "Method", "method"), *map(Paragraph, method_notes(list(maps.values())))]
    blocks += [Heading(3, "References", "references"), Items(references(list(maps.values())))]
    signers = [TableRow((who, "", "", "")) for who in ("prepared by", "reviewed by", "approved by")]
    head = ("", "name", "date", "signature")
    blocks += [Heading(2, "Signed", "signed"), Table("Signatures", head, signers, (False,) * 4)]
    releases = counted(sum(len(set(m.released)) for m in maps.values()), "candidate release")
    parts = [
        f"{counted(len(maps), 'map')} with {releases}" if panel else releases,
        f"threshold on the risk: {_threshold(max_risk)}",
    ]
    return Document(title, "; ".join([*parts, date] if date else parts) + ".", blocks)


# -- the decision --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decision:
    """What was decided about one map: a choice, or why there is none."""

    sentence: str
    choice: Choice | None = None
    failed: bool = False

    @property
    def kind(self) -> str:
        unsure = self.choice is not None and (self.choice.within_error or not self.choice.row.converged)
        return "warning" if self.failed or unsure else "decision"


def _decide(rumap: RUMap, max_risk: float | None, rule: Mapping[str, Any] | None) -> _Decision:
    if max_risk is None and "by" not in (rule or {}):
        return _Decision(
            "No threshold on the risk was given, so no release is chosen; the frontier shows what can be had."
        )
    try:
        choice = choose(rumap, max_risk, **(rule or {}))
    except InfeasibleError as error:
        return _Decision(f"No release is chosen. {error}", failed=True)
    return _Decision(str(choice), choice)


def _plainly(choice: Choice | None) -> list[ReportBlock]:
    """The decision in words and in the data's own unit, for readers who do not read Python."""
    if choice is None or not (choice.order or choice.meaning):
        return []
    order = f"Decision: {choice.order}." if choice.order else ""
    return [Paragraph(" ".join([*([order] if order else []), *choice.meaning]))]


def _decisions(decisions: Mapping[str, _Decision], max_risk: float | None) -> Table:
    rows = []
    for name, decision in decisions.items():
        chosen = decision.choice
        cells = ("none", "", "") if chosen is None else (chosen.release, number(chosen.risk), number(chosen.utility))
        rows.append(TableRow((name, *cells), "doubtful" if decision.kind == "warning" else ""))
    caption = f"The choice in every map; threshold on the risk: {_threshold(max_risk)}"
    return Table(caption, ("map", "chosen release", "risk", "utility"), rows, (False, False, True, True))


def _threshold(max_risk: float | None) -> str:
    return "none" if max_risk is None or np.isinf(max_risk) else number(max_risk)


def _circumstances(rumap: RUMap, choice: Choice | None, front: Flags) -> list[str]:
    """What a board asks next: how many were allowed, and what the threshold costs."""
    facts = []
    if choice is not None:
        verb = ("meets" if choice.allowed == 1 else "meet") + " the threshold"
        if np.isinf(choice.max_risk) or choice.confidence is not None:
            verb = f"{'is' if choice.allowed == 1 else 'are'} allowed"
        facts.append(f"{choice.allowed:,} of {counted(len(rumap), 'release')} {verb}.")
        known = np.flatnonzero(~np.isnan(rumap.utility) & ~np.isnan(rumap.risk))
        best = rumap[int(known[np.argmax(rumap.utility[known])])]
        if best.utility > choice.utility and best.risk > choice.max_risk:
            facts.append(
                f"Without a threshold the most useful release would be {best.release}: utility "
                f"{number(best.utility, 4)} "
                f"instead of {number(choice.utility, 4)}, at a risk of {number(best.risk, 4)}."
            )
    if front.any():
        verb, them = ("is", "it") if front.sum() == 1 else ("are", "them")
        share = f"{front.sum():,} of {counted(len(rumap), 'release')}"
        facts.append(f"{share} {verb} on the frontier: no other release beats {them}.")
    else:
        facts.append("No release has both a risk and a utility, so there is no frontier.")
    if choice is not None and not np.isnan([choice.risk, choice.utility]).any():
        facts.append(str(explain(rumap, choice)))
    return facts


# -- one map -------------------------------------------------------------------------------------------


def _chapter(
    rumap: RUMap, decision: _Decision, max_risk: float | None, anchor: str, level: int, extras: Extras
) -> list[ReportBlock]:
    whole, rumap = rumap, rumap.worst()
    front = not_dominated(rumap.risk, rumap.utility)
    order = np.flatnonzero(front)
    order = order[np.lexsort((rumap.utility[order], rumap.risk[order]))]
    blocks: list[ReportBlock] = [
        *_plainly(decision.choice),
        Paragraph(decision.sentence, decision.kind),
        Items(_circumstances(rumap, decision.choice, front)),
    ]

    def section(title: str, name: str, parts: Sequence[ReportBlock]) -> None:
        if parts:
            blocks.extend([Heading(level, title, f"{anchor}-{name}"), *parts])

    if whole.user_names:
        names = "; ".join(whole.user_names)
        blocks.append(
            Paragraph(
                f"{len(whole.user_names)} users look at the same releases: {names}. Risk and utility of a release are "
                "those of the worst of them; the column worst_user says whose risk it is. The picture has all of them."
            )
        )
    section("The map", "map", [_picture(rumap, whole, decision, max_risk, anchor, order, extras)])
    section("The users" if rumap.uncertainties else "Risk and utility", "users", users(rumap, decision.choice))
    section("The releases", "releases", _releases(rumap, order, front, decision.choice))
    section("Measures and other columns", "measures", _measures(rumap, order, decision.choice))
    section("How sure that is", "sure", sureness(rumap, decision.choice, order, max_risk))
    for title, name, parts in sections(rumap, decision.choice, max_risk, extras, anchor):
        section(title, name, parts)
    section("Diagnostics", "diagnostics", diagnostics(rumap, decision.choice))
    section("Remarks on the map", "remarks", [Items(rumap.notes)] if rumap.notes else [])
    section("Record", "record", [Terms(_record(rumap, extras.seed))])
    return blocks


def _picture(
    rumap: RUMap,
    whole: RUMap,
    decision: _Decision,
    max_risk: float | None,
    anchor: str,
    order: Positions,
    extras: Extras,
) -> ReportBlock:
    if np.all(np.isnan(rumap.risk) | np.isnan(rumap.utility)):
        return Paragraph("There is nothing to draw: no release has both a risk and a utility.", "warning")
    words = _in_words(rumap, decision, max_risk, order)
    caption = "Utility to the right, risk upwards: good releases lie at the lower right. The grey band is the frontier"
    caption += "" if max_risk is None or np.isinf(max_risk) else ", the dashed line the threshold"
    caption += "" if extras.limit is None else ", the dotted line the limit of all mechanisms"
    caption += "." if decision.choice is None else ", the star the chosen release."
    caption += "" if rumap.converged.all() else " Open markers did not converge."
    return Picture(map_drawing(whole, max_risk, limit=extras.limit, rule=extras.rule), caption, words, anchor)


def _in_words(rumap: RUMap, decision: _Decision, max_risk: float | None, order: Positions) -> str:
    ends = {k: (float(np.nanmin(v)), float(np.nanmax(v))) for k, v in (("U", rumap.utility), ("R", rumap.risk))}
    spans = {k: f"{number(low, 4)} to {number(high, 4)}" for k, (low, high) in ends.items()}
    words = [f"Risk-utility map of {counted(len(rumap), 'release')}."]
    words.append(f"Utility from {spans['U']}, risk from {spans['R']}.")
    rows = [rumap[int(i)] for i in (order[[0, -1]] if order.size > 1 else order)]
    at = [f"{r.release} (risk {number(r.risk, 4)}, utility {number(r.utility, 4)})" for r in rows]
    words.append(
        f"The frontier runs from {at[0]} to {at[1]}." if len(at) == 2 else f"The frontier is one release, {at[0]}."
    )
    if max_risk is not None and not np.isinf(max_risk):
        words.append(f"The threshold is a horizontal line at risk {number(max_risk)}.")
    if decision.choice is not None:
        row = decision.choice
        numbers = f"risk {number(row.risk, 4)} and utility {number(row.utility, 4)}"
        words.append(f"The chosen release is {row.release}, with {numbers}.")
    elif decision.failed:
        words.append("No release meets the threshold.")
    return " ".join(words)


# -- tables --------------------------------------------------------------------------------------------


def _releases(rumap: RUMap, order: Positions, front: Flags, choice: Choice | None) -> list[ReportBlock]:
    columns = user_columns(rumap) + (["engine"] if len(set(rumap.engine)) > 1 else [])
    blocks = _tables(rumap, order, choice, "Releases on the frontier, in order of risk", columns)
    rest = np.flatnonzero(~front)
    if rest.size:
        shown = evenly(rest, REST)
        more = f"; {rest.size - shown.size} more are left out evenly, the map's own table has all"
        caption = (
            f"Releases that are not on the frontier, as listed ({shown.size}{more if shown.size < rest.size else ''})"
        )
        table = _table(rumap, shown, choice, caption, columns)
        why = zip(table.rows, reasons(rumap, shown), strict=True)
        rows = [TableRow((*row.cells, reason), row.kind) for row, reason in why]
        table = Table(caption, (*table.head, "why not"), rows, (*table.numbers, False))
        blocks.append(Fold(f"The other {counted(rest.size, 'release')}", [table]))
    return blocks


def _measures(rumap: RUMap, order: Positions, choice: Choice | None) -> list[ReportBlock]:
    """Columns that are the same everywhere are said once; the others are tables."""
    errors = {f"{k}_error" for k in rumap.columns}
    names = [k for k in rumap.columns if not is_diagnostic(rumap, k) and k not in errors]
    same = [k for k in names if len(rumap) > 1 and len({str(x) for x in rumap.columns[k].tolist()}) == 1]
    blocks: list[ReportBlock] = [Terms([(k, entry(rumap, k, 0)) for k in same])] if same else []
    varying = [k for k in names if k not in same]
    if varying:
        blocks += _tables(rumap, order, choice, "Measures of the releases on the frontier", varying)
        rest = np.setdiff1d(np.arange(len(rumap)), order)
        if rest.size:
            shown = evenly(rest, REST)
            more = f", {rest.size - shown.size} more left out evenly" if shown.size < rest.size else ""
            table = _table(rumap, shown, choice, f"Measures of the other releases ({shown.size}{more})", varying)
            blocks.append(Fold(f"Measures of the other {counted(rest.size, 'release')}", [table]))
    return blocks


def _tables(
    rumap: RUMap, rows: Positions, choice: Choice | None, caption: str, columns: Sequence[str]
) -> list[ReportBlock]:
    """All rows; if they are many, an excerpt that is always seen and the whole in a fold."""
    if not rows.size:
        return []
    whole = _table(rumap, rows, choice, f"{caption} ({rows.size})", columns)
    if rows.size <= OPEN:
        return [whole]
    few = {*evenly(rows, EXCERPT).tolist(), *([] if choice is None else [choice.row.position])}
    excerpt = rows[np.isin(rows, list(few))]
    title = f"{caption} ({excerpt.size} of {rows.size})"
    return [_table(rumap, excerpt, choice, title, columns), Fold(f"All {rows.size} of them", [whole])]


def _table(rumap: RUMap, rows: Positions, choice: Choice | None, caption: str, columns: Sequence[str]) -> Table:
    chosen = None if choice is None else choice.row.position
    flagged = doubtful(rumap)
    lines = []
    for i in rows.tolist():
        marks = {"chosen": i == chosen, "not converged": not rumap.converged[i], "see diagnostics": flagged[i]}
        kind = "chosen" if i == chosen else "doubtful" if flagged[i] or not rumap.converged[i] else ""
        cells = [entry(rumap, k, i) for k in columns]
        lines.append(TableRow((rumap.releases[i], *cells, ", ".join(k for k, found in marks.items() if found)), kind))
    words = HEADS | {name: f"{name} ({end} is better)" for name, end in better(rumap).items()}
    texts = {"engine", *(k for k, v in rumap.columns.items() if v.dtype.kind not in "biuf")}
    head = ("release", *(words.get(k, k) for k in columns), "mark")
    return Table(caption, head, lines, (False, *(k not in texts for k in columns), False)).without_empty_end()


# -- the record ----------------------------------------------------------------------------------------


def _record(rumap: RUMap, seed: bool) -> list[tuple[str, str]]:
    """Where the numbers come from. A map's attributes are its maker's; long ones are cut."""
    known = {str(k): _text(v) for k, v in rumap.attrs.items() if v is not None}
    if rumap.attrs.get("replicates") in (0, "default"):
        known["replicates"] = "not set"
    pairs = [("fingerprint of the map", f"sha256 {fingerprint(rumap)}")]
    taken = known.pop("data_fingerprint", None)
    if taken:
        what = "a hash of the confidential records with a key that the agency keeps: it tells nothing without the key"
        pairs.append(("fingerprint of the data", f"{taken} ({what}, and with it whether other records are the same)"))
    if "seed" in known and not seed:
        known["seed"] = _seed_digest(known["seed"])
    placed = (*LIBRARIES, "intruder", "scientist", "better", "seed_means")  # they have their own places
    pairs += [(k.replace("_", " "), text) for k, text in known.items() if text and k not in placed]
    versions = ", ".join(f"{k} {known[k]}" for k in LIBRARIES if k in known)
    return [*pairs, ("versions", versions or "not known")]


def _seed_digest(seed: str) -> str:
    """What names a seed without giving it. A short one could be found from a plain hash by trying."""
    keyed = fingerprint_data(seed)
    if keyed or len(seed) >= LONG:
        digest = keyed or f"sha256 {hashlib.sha256(f'ruvdecision seed {seed}'.encode()).hexdigest()[:32]}"
        return f"kept in the map; its digest is {digest}"
    return (
        "kept in the map; no digest, because a short seed could be found from one: set RUVDECISION_KEY for a keyed one"
    )


def _text(entry: object) -> str:
    return cut(", ".join(map(str, entry)) if isinstance(entry, (list, tuple)) else str(entry), 300)
