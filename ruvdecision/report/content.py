"""What a report says about a map, or about a panel of maps: everything is read from the maps and nothing else.

First comes the page that is signed: the decision in words, the map, what it means before and after, what was tried, and
the conditions. Everything else is an annex. No confidential record can get into a report, because a map holds none: it
has labels, parameters, summaries and what the study itself had to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from string import ascii_uppercase
from typing import Any

import numpy as np

from .. import plots
from ..decide import Choice, choose, explain, not_dominated
from ..errors import InfeasibleError
from ..maps.rumap import RUMap
from ..maps.show import (
    better_end,
    evenly_spaced,
    format_amount,
    format_entry,
    format_number,
    format_value,
    plural,
    shorten_text,
    user_columns,
    with_readable_labels,
)
from ..maps.storage import fingerprint
from ..plots.map import Positions
from ..running.fingerprint import fingerprint_data
from .diagnostics import Flags, diagnostic_blocks, is_diagnostic, unreliable_releases
from .document import Annex, Document, Fold, Heading, Items, Paragraph, Picture, ReportBlock, Table, TableRow, Terms
from .extras import (
    Extras,
    limit_blocks,
    probability_blocks,
    record_risk_blocks,
    sensitivity_blocks,
    why_not_on_frontier,
)
from .methods import measure_meanings, method_notes, references
from .picture import Draw, map_drawing
from .users import ROLES, member_columns, users

#: Rows of a table that are always seen, in the report of one map and of several; all of them are in a fold.
ROWS, FEW = 10, 4
#: Rows in a fold; more of them are left out, evenly.
REST = 200
#: Maps in one picture.
TOGETHER = 12
#: Digits of a seed that nobody finds by trying: fresh ones have about 38.
LONG = 24
#: Libraries whose versions a map may hold.
LIBRARIES = ("ruvdecision", "python", "numpy", "scipy", "pymc", "arviz", "pytensor", "nutpie")
#: What a map says of itself that has its own place in a report.
PLACED = (
    *(*LIBRARIES, *ROLES, "better", "seed_means", "measures", "unit", "file_records", "file_columns", "find_rows"),
    *(f"{who}_error_scale" for who in ROLES),
)


@dataclass(frozen=True)
class Chapter:
    """One map with what was decided about it: a choice, or why there is none."""

    name: str
    whole: RUMap
    max_risk: float | None
    extras: Extras = field(default_factory=Extras)
    anchor: str = "map"
    rows: int = ROWS

    @cached_property
    def rumap(self) -> RUMap:
        """The map of the worst case, if several users look at the same releases."""
        return self.whole.worst()

    @property
    def _asks_for_choice(self) -> bool:
        return self.max_risk is not None or "by" in (self.extras.rule or {})

    @cached_property
    def _choice_or_reason(self) -> tuple[Choice | None, str]:
        if not self._asks_for_choice:
            why = "No threshold on the risk was given, so no release is chosen; the frontier shows what can be had."
            return None, why
        try:
            choice = choose(self.whole, self.max_risk, **(self.extras.rule or {}))
        except InfeasibleError as error:
            return None, f"No release is chosen. {error}"
        return choice, str(choice)

    @property
    def choice(self) -> Choice | None:
        return self._choice_or_reason[0]

    @property
    def sentence(self) -> str:
        return self._choice_or_reason[1]

    @property
    def failed(self) -> bool:
        """True if a threshold was given that no release meets."""
        return self.choice is None and self._asks_for_choice

    @property
    def kind(self) -> str:
        """Whether a reader must look twice before signing."""
        choice = self.choice
        unsure = choice is not None and (choice.within_error or not choice.converged or choice.worthless)
        return "warning" if self.failed or unsure else "decision"

    @cached_property
    def on_frontier(self) -> Flags:
        return not_dominated(self.rumap.risk, self.rumap.utility)

    @cached_property
    def order(self) -> Positions:
        """The frontier, in order of risk."""
        rows = np.flatnonzero(self.on_frontier)
        return rows[np.lexsort((self.rumap.utility[rows], self.rumap.risk[rows]))]

    @property
    def drawable(self) -> bool:
        return not np.all(np.isnan(self.rumap.risk) | np.isnan(self.rumap.utility))


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
    rows = FEW if panel else ROWS
    parts = [Chapter(k, m, max_risk, beside[k], f"map{i}", rows) for i, (k, m) in enumerate(maps.items(), start=1)]
    first = _panel_decisions(parts, max_risk) if panel else _decision_blocks(parts[0])
    signers = [TableRow((who, "", "", ""), "sign") for who in ("prepared by", "reviewed by", "approved by")]
    first += [
        Terms(_condition_blocks(parts)),
        Table("Signed", ("", "name", "date", "signature"), signers, (False,) * 4),
    ]
    prints = [fingerprint(rumap) for rumap in maps.values()]
    whole = hashlib.sha256(" ".join(prints).encode()).hexdigest() if panel else prints[0]
    first.append(Paragraph(f"Fingerprint of the map{'s' * panel}: sha256 {whole}", "quiet"))
    topics: dict[str, tuple[str, Callable[[Chapter], Sequence[ReportBlock]]]] = {
        "The users" if any(m.uncertainties for m in maps.values()) else "Risk and utility": ("users", user_blocks),
        "The releases": ("releases", _release_blocks),
        "Measures and other columns": ("measures", _measure_blocks),
        "How sure that is": ("sure", lambda c: probability_blocks(c.rumap, c.choice, c.order, max_risk, c.rows)),
        "What no mechanism can pass": ("limit", lambda c: limit_blocks(c.rumap, c.choice, c.extras.limit)),
        "Sensitivity": ("sensitivity", lambda c: sensitivity_blocks(c.rumap, c.extras.sensitivity, c.anchor)),
        "Risk of every record": (
            "records",
            lambda c: record_risk_blocks(c.choice, max_risk, c.extras.record_risk, c.anchor),
        ),
        "Diagnostics": ("diagnostics", lambda c: diagnostic_blocks(c.rumap, c.choice)),
        "Remarks on the map": ("remarks", lambda c: [Items(c.rumap.notes)] if c.rumap.notes else []),
    }
    annexes: list[tuple[str, str, Sequence[ReportBlock]]] = [
        (head, name, _group_by_map(name, {c.name: write(c) for c in parts})) for head, (name, write) in topics.items()
    ]
    annexes.append(("What the study has to say", "notes", [Items(notes)] if notes else []))
    listed = list(maps.values())
    method = [*map(Paragraph, method_notes(listed)), Heading(3, "References", "references"), Items(references(listed))]
    annexes.append(("Method", "method", method))
    record = {c.name: [Terms(_record_of_origin(c.rumap, c.extras.seed))] for c in parts}
    annexes.append(("Record", "record", _group_by_map("record", record)))
    kept = zip(ascii_uppercase, [annex for annex in annexes if annex[2]], strict=False)
    lettered = [Annex(f"Annex {letter}. {head}", name, found) for letter, (head, name, found) in kept]
    facts = [f"threshold on the risk: {_threshold_in_words(max_risk)}", *([date] if date else [])]
    return Document(title, _as_sentence(facts), first, lettered)


def _group_by_map(topic: str, said: Mapping[str, Sequence[ReportBlock]]) -> list[ReportBlock]:
    """What is said about each map, under its name; what is the same for several of them is said once."""
    found = {name: blocks for name, blocks in said.items() if blocks}
    groups: list[tuple[list[str], Sequence[ReportBlock]]] = []
    for name, blocks in found.items():
        same = next((names for names, found in groups if list(found) == list(blocks)), None)
        if same is None:
            groups.append(([name], blocks))
        else:
            same.append(name)
    if len(said) == 1 or (len(groups) == 1 and len(found) == len(said)):
        return list(groups[0][1]) if groups else []
    heads = [Heading(3, "; ".join(names), f"{topic}-{k}") for k, (names, _) in enumerate(groups, start=1)]
    return [block for head, (_, blocks) in zip(heads, groups, strict=True) for block in (head, *blocks)]


# -- the first page ------------------------------------------------------------------------------------


def _decision_blocks(part: Chapter) -> list[ReportBlock]:
    """The decision about one map: in words, on the map, and before and after."""
    choice = part.choice
    blocks: list[ReportBlock] = []
    if choice is not None and choice.order:
        blocks += [Paragraph(f"Decision: {choice.order}.", part.kind), Paragraph(part.sentence, "quiet")]
    else:
        blocks.append(Paragraph(part.sentence, part.kind))
    if choice is not None and choice.worthless:
        blocks.append(Paragraph(f"Warning: {choice.worthless}.", "warning"))
    if part.drawable:
        drawing = map_drawing(part.whole, part.max_risk, limit=part.extras.limit, rule=part.extras.rule)
        blocks.append(Picture(drawing, _map_caption([part]), alt_text(part), part.anchor))
    else:
        blocks.append(Paragraph("There is nothing to draw: no release has both a risk and a utility.", "warning"))
    return [*blocks, *_before_and_after(part)]


def _panel_decisions(parts: Sequence[Chapter], max_risk: float | None) -> list[ReportBlock]:
    """The choice in every map of a panel, and small pictures of all of them."""
    rows = []
    for part in parts:
        chosen, cells = part.choice, ["none", "", "", part.sentence if part.failed else ""]
        if chosen is not None:
            cells = [chosen.release, format_number(chosen.risk, 3), format_number(chosen.utility, 3)]
            cells.append(" ".join([*chosen.meaning, *(_as_sentence([x]) for x in (chosen.worthless,) if x)]))
            if chosen.order:
                cells[-1] = f"{_as_sentence([chosen.order])} {cells[-1]}".strip()
        rows.append(TableRow((part.name, *cells), "doubtful" if part.kind == "warning" else ""))
    caption = f"The choice in every map; threshold on the risk: {_threshold_in_words(max_risk)}"
    head = ("map", "chosen release", "risk", "utility", "what to do, and what that means")
    blocks: list[ReportBlock] = [Table(caption, head, rows, (False, False, True, True, False)).without_empty_end()]
    if all(part.choice is None and not part.failed for part in parts):
        blocks = [Paragraph(parts[0].sentence, "decision")]
    drawn = [part for part in parts if part.drawable]
    for k, some in enumerate((drawn[i : i + TOGETHER] for i in range(0, len(drawn), TOGETHER)), start=1):
        words = " ".join(f"{part.name}: {alt_text(part)}" for part in some)
        high = -(-len(some) // min(len(some), 3))
        drawing = _small_maps(some, max_risk)
        blocks.append(Picture(drawing, _map_caption(some), words, f"maps{k}", (10.5, 0.8 + 2.7 * high)))
    return blocks


def _small_maps(parts: Sequence[Chapter], max_risk: float | None) -> Draw:
    shown = {part.name: with_readable_labels(part.whole) for part in parts}
    share = len({m.risk_score for m in shown.values()}) == 1
    rule = parts[0].extras.rule
    options: dict[str, Any] = {"share": share, "rule": rule} if rule else {"share": share}
    return lambda figure: plots.maps(shown, max_risk, figure, across=min(len(shown), 3), **options)


def _before_and_after(part: Chapter) -> list[ReportBlock]:
    """What each user does not know before any release and after the chosen one, in the data's unit if it is known."""
    rumap, choice = part.rumap, part.choice
    if choice is None:
        return []
    i, unit = choice.position, str(rumap.attrs.get("unit", ""))
    rows: list[TableRow] = []
    lines: list[str] = []
    for place, (who, role) in enumerate(zip(ROLES, ("risk", "utility"), strict=True)):
        score = rumap.axis(role).score
        on_map = format_value(float(rumap.column(role).value[i]), float(rumap.column(role).error[i]), 3)
        if score.column is not None:
            lines.append(f"{role.title()}: {score.name} {on_map}.")
        if who in rumap.uncertainties:
            pair = [rumap.typical_error(who, before=True), rumap.typical_error(who)]
            known = [float(e.value[i]) for e in pair if e is not None]
            what = f"how far the {who} is typically off" if known else f"expected loss of the {who}"
            before, after = known or (float(rumap.before[place][i]), float(rumap.uncertainties[who].value[i]))
            share = f"{format_number(100 * after / before, 3)} %" if 0 < before < np.inf and after < np.inf else ""
            cells = [format_amount(x, unit * bool(known)) if not np.isnan(x) else "not known" for x in (before, after)]
            rows.append(TableRow((what, *cells, share, f"{role} {on_map}")))
    lines += choice.findings if rows else choice.meaning
    head = ("", "before any release", "after the chosen one", "that is", "on the map")
    table = [Table("Before and after", head, rows, (False, True, True, True, False))] if rows else []
    return [*table, *([Paragraph(" ".join(lines))] if lines else [])]


def _condition_blocks(parts: Sequence[Chapter]) -> list[tuple[str, str]]:
    """What a board asks next: what was tried, who is the worst user, and under what conditions all this holds."""
    pairs = []
    if len(parts) == 1:
        (part,) = parts
        pairs.append(("tried", " ".join(sentences_on_releases(part))))
        worst = _worst_user(part)
        pairs += [("worst user", worst)] if worst else []
        if part.choice is not None and part.choice.remarks:
            pairs.append(("look twice", _as_sentence(part.choice.remarks)))
    else:
        size = plural(sum(len(set(p.whole.released)) for p in parts), "release")
        pairs.append(("tried", f"{len(parts)} maps with {size}."))
    modelled = any(part.rumap.uncertainties for part in parts)
    holds = ["The users know what annex A says and no more."] * modelled
    if any(s.column is not None for p in parts for s in (p.whole.risk_score, p.whole.utility_score)):
        holds.append("Measures speak of this file, and of an intruder who does what they do.")
    holds.append("The release is made once, as stated, with random numbers that nobody else can draw again.")
    if any(part.rumap.attrs.get("partial") for part in parts):
        holds.append("The run was stopped: releases that were not finished are missing.")
    return [*pairs, ("conditions", " ".join(holds))]


def sentences_on_releases(part: Chapter) -> Iterator[str]:
    """What was tried, how much of it is allowed, and what the threshold costs."""
    rumap, choice = part.rumap, part.choice
    names = list(dict.fromkeys(rumap.techniques))
    listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    yield f"{plural(len(rumap), 'release')} of {plural(len(names), 'technique')} ({shorten_text(listed, 160)})."
    if choice is not None:
        verb = ("meets" if choice.allowed == 1 else "meet") + " the threshold"
        if np.isinf(choice.max_risk) or choice.confidence is not None:
            verb = f"{'is' if choice.allowed == 1 else 'are'} allowed"
        front = int(part.on_frontier.sum())
        yield f"{choice.allowed:,} {verb}, {front:,} {'is' if front == 1 else 'are'} on the frontier."
        known = np.flatnonzero(~np.isnan(rumap.utility) & ~np.isnan(rumap.risk))
        best = rumap[int(known[np.argmax(rumap.utility[known])])]
        if best.utility > choice.utility and best.risk > choice.max_risk:
            yield (
                f"Without a threshold it would be {best.release}: utility {format_number(best.utility, 3)} instead of "
                f"{format_number(choice.utility, 3)}, at a risk of {format_number(best.risk, 3)}."
            )
    elif not part.on_frontier.any():
        yield "No release has both a risk and a utility, so there is no frontier."


def _worst_user(part: Chapter) -> str:
    """Whose risk it is, where several users look at the same releases or the intruder is a panel."""
    if part.whole.user_names:
        size = f"of {len(part.whole.user_names)} users; risk and utility of every release are those of the worst"
        who = "" if part.choice is None else str(part.choice.columns.get("worst_user", ""))
        return f"{who}, {size}." if who else f"The worst {size}."
    members = member_columns(part.rumap, "intruder")
    if not members or part.choice is None:
        return ""
    i = part.choice.position
    name = min(members, key=lambda k: np.nan_to_num(part.rumap.columns[members[k]][i], nan=np.inf))
    return f"{name} knows most after the chosen release, of {len(members)} intruders."


def _as_sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _threshold_in_words(max_risk: float | None) -> str:
    return "none" if max_risk is None or np.isinf(max_risk) else format_number(max_risk)


# -- the picture ---------------------------------------------------------------------------------------


def _map_caption(parts: Sequence[Chapter]) -> str:
    part = parts[0]
    text = "Good releases lie at the lower right. Grey band: frontier"
    text += "" if part.max_risk is None or np.isinf(part.max_risk) else "; dashed line: threshold"
    text += "" if part.extras.limit is None else "; dotted line: the limit of all mechanisms"
    text += "; star: chosen release." if any(p.choice is not None for p in parts) else "."
    return text + ("" if all(p.rumap.converged.all() for p in parts) else " Open markers did not converge.")


def alt_text(part: Chapter) -> str:
    """What the picture of a map shows, for somebody who cannot see it."""
    rumap, order = part.rumap, part.order
    ends = {k: (float(np.nanmin(v)), float(np.nanmax(v))) for k, v in (("U", rumap.utility), ("R", rumap.risk))}
    spans = {k: f"{format_number(low, 3)} to {format_number(high, 3)}" for k, (low, high) in ends.items()}
    words = [f"Risk-utility map of {plural(len(rumap), 'release')}."]
    words.append(f"Utility from {spans['U']}, risk from {spans['R']}.")
    rows = [rumap[int(i)] for i in (order[[0, -1]] if order.size > 1 else order)]
    at = [f"{r.release} (risk {format_number(r.risk, 3)}, utility {format_number(r.utility, 3)})" for r in rows]
    words.append(f"The frontier {f'runs from {at[0]} to {at[1]}' if len(at) == 2 else f'is one release, {at[0]}'}.")
    if part.max_risk is not None and not np.isinf(part.max_risk):
        words.append(f"The threshold is a horizontal line at risk {format_number(part.max_risk)}.")
    if part.choice is not None:
        numbers = f"risk {format_number(part.choice.risk, 3)} and utility {format_number(part.choice.utility, 3)}"
        words.append(f"The chosen release is {part.choice.release}, with {numbers}.")
    elif part.failed:
        words.append("No release meets the threshold.")
    return " ".join(words)


# -- annexes -------------------------------------------------------------------------------------------


def user_blocks(part: Chapter) -> list[ReportBlock]:
    """Who the users are, in words and formulas."""
    several: list[ReportBlock] = []
    if part.whole.user_names:
        said = f"{len(part.whole.user_names)} users look at the same releases: {'; '.join(part.whole.user_names)}. "
        said += "Risk and utility of a release are those of the worst of them; worst_user says whose risk it is."
        several.append(Paragraph(said))
    return [*several, *users(part.rumap, part.choice)]


def _release_blocks(part: Chapter) -> list[ReportBlock]:
    rumap, choice = part.rumap, part.choice
    columns = [*user_columns(rumap), *(["engine"] if len(set(rumap.engine)) > 1 else [])]
    blocks: list[ReportBlock] = []
    if choice is not None and not np.isnan([choice.risk, choice.utility]).any():
        blocks.append(Paragraph(str(explain(rumap, choice))))
    blocks += _table_with_fold(part, part.order, "Releases on the frontier, in order of risk", columns)
    rest = np.flatnonzero(~part.on_frontier)
    if rest.size:
        shown = evenly_spaced(rest, REST)
        more = f"; {rest.size - shown.size} more are left out evenly, the map's own table has all"
        caption = f"Releases that are not on the frontier ({shown.size}{more if shown.size < rest.size else ''})"
        table = release_table(part, shown, caption, columns)
        why = zip(table.rows, why_not_on_frontier(rumap, shown), strict=True)
        rows = [TableRow((*row.cells, reason), row.kind) for row, reason in why]
        table = Table(caption, (*table.head, "why not"), rows, (*table.numbers, False))
        blocks.append(Fold(f"The other {plural(rest.size, 'release')}", [table]))
    return blocks


def _measure_blocks(part: Chapter) -> list[ReportBlock]:
    """What each measure means; columns that are the same everywhere are said once; the others are tables."""
    rumap = part.rumap
    errors = {f"{k}_error" for k in rumap.columns}
    names = [k for k in rumap.columns if not is_diagnostic(rumap, k) and k not in errors]
    same = [k for k in names if len(rumap) > 1 and len({str(x) for x in rumap.columns[k].tolist()}) == 1]
    pairs = [*measure_meanings(rumap), *((k, format_entry(rumap, k, 0, 3)) for k in same)]
    blocks: list[ReportBlock] = [Terms(pairs)] if pairs else []
    varying = [k for k in names if k not in same]
    if varying:
        every = [*part.order.tolist(), *np.flatnonzero(~part.on_frontier).tolist()]
        blocks += _table_with_fold(part, np.array(every, dtype=np.intp), "Measures of the releases", varying)
    return blocks


def _table_with_fold(part: Chapter, rows: Positions, caption: str, columns: Sequence[str]) -> list[ReportBlock]:
    """All rows; if they are many, an excerpt that is always seen and the rest of them in a fold."""
    if not rows.size:
        return []
    if rows.size <= part.rows + 2:
        return [release_table(part, rows, f"{caption} ({rows.size})", columns)]
    few = {*evenly_spaced(rows, part.rows).tolist(), *([] if part.choice is None else [part.choice.position])}
    excerpt = rows[np.isin(rows, list(few))]
    title = f"{caption} ({excerpt.size} of {rows.size})"
    whole = Fold(f"All {rows.size:,} of them", [release_table(part, rows, f"{caption} ({rows.size})", columns)])
    return [release_table(part, excerpt, title, columns), whole]


def release_table(
    part: Chapter, rows: Positions, caption: str, columns: Sequence[str], looked: int | None = None
) -> Table:
    """Some releases with these columns; the chosen one, doubtful ones and one that a reader looks at are marked."""
    rumap = part.rumap
    chosen = None if part.choice is None else part.choice.position
    flagged = unreliable_releases(rumap)
    lines = []
    for i in rows.tolist():
        marks = {"chosen": i == chosen, "you look at it": i == looked}
        marks |= {"not converged": not rumap.converged[i], "see diagnostics": flagged[i]}
        kind = "chosen" if i == chosen else "doubtful" if flagged[i] or not rumap.converged[i] else ""
        cells = [format_entry(rumap, k, i, 3) for k in columns]
        lines.append(TableRow((rumap.releases[i], *cells, ", ".join(k for k, found in marks.items() if found)), kind))
    words = user_columns(rumap) | {name: f"{name} ({end} is better)" for name, end in better_end(rumap).items()}
    texts = {"engine", *(k for k, v in rumap.columns.items() if v.dtype.kind not in "biuf")}
    head = ("release", *(words.get(k, k) for k in columns), "mark")
    return Table(caption, head, lines, (False, *(k not in texts for k in columns), False)).without_empty_end()


def _record_of_origin(rumap: RUMap, seed: bool) -> list[tuple[str, str]]:
    """Where the numbers come from. A map's attributes are its maker's; long ones are cut."""
    known = {str(k): _entry_text(v) for k, v in rumap.attrs.items() if v is not None}
    if rumap.attrs.get("replicates") in (0, "default"):
        known["replicates"] = "not set"
    pairs = [("fingerprint of the map", f"sha256 {fingerprint(rumap)}")]
    taken = known.pop("data_fingerprint", None)
    if taken:
        what = "a hash of the confidential records with a key that the agency keeps: it tells nothing without the key"
        pairs.append(("fingerprint of the data", f"{taken} ({what}, and with it whether other records are the same)"))
    if "seed" in known and not seed:
        known["seed"] = _seed_digest(known["seed"])
    pairs += [(k.replace("_", " "), text) for k, text in known.items() if text and k not in PLACED]
    versions = ", ".join(f"{k} {known[k]}" for k in LIBRARIES if k in known)
    return [*pairs, ("versions", versions or "not known")]


def _seed_digest(seed: str) -> str:
    """What names a seed without giving it. A short one could be found from a plain hash by trying."""
    keyed = fingerprint_data(seed)
    if keyed or len(seed) >= LONG:
        digest = keyed or f"sha256 {hashlib.sha256(f'ruvdecision seed {seed}'.encode()).hexdigest()[:32]}"
        return f"kept in the map; its digest is {digest}"
    why = "a short seed could be found from one: set RUVDECISION_KEY for a keyed one"
    return f"kept in the map; no digest, because {why}"


def _entry_text(entry: object) -> str:
    return shorten_text(", ".join(map(str, entry)) if isinstance(entry, (list, tuple)) else str(entry), 300)
