"""The users of a map in a report: in words, in formulas, and panels member by member."""

from __future__ import annotations

import re

import numpy as np

from ..decide import Choice
from ..maps.rumap import RUMap
from ..maps.show import number, value
from ..users.panel import Panel
from ..users.user import Snooper, User
from .document import Fold, Formula, Items, Paragraph, ReportBlock, Table, TableRow
from .formulas import formulas

ROLES = ("intruder", "scientist")
#: Panels with more members than this are folded.
OPEN = 12
_MEMBER = re.compile(r"^(intruder|scientist)(\[.*\])_uncertainty$", re.DOTALL)


def users(rumap: RUMap, choice: Choice | None) -> list[ReportBlock]:
    """Who the users are, what U they have before any release, and how risk and utility follow from U."""
    blocks: list[ReportBlock] = []
    for place, who in enumerate(ROLES):
        user = None if rumap.users is None else rumap.users[place]
        said = str(rumap.attrs.get(who, ""))
        # A map that was joined or renamed has other words than its first users: then the words are right.
        if user is not None and said not in ("", user.describe(), *_in_role(user, who)):
            user = None
        if isinstance(user, Panel):
            blocks += _panel(user, who)
        elif said or user is not None:
            blocks += _words(said or user.describe(), who)  # type: ignore[union-attr]
            blocks += [] if user is None else _formula(user, who)
        elif who in rumap.uncertainties:
            blocks.append(Paragraph(f"The map does not say who the {who} is."))
        blocks += _members(rumap, who, choice)
    return [*blocks, Items(_scores(rumap))]


def member_columns(rumap: RUMap, who: str) -> dict[str, str]:
    """Columns with the uncertainty of each member of a panel, by the member's name; panels in panels too."""
    found = {k: _MEMBER.match(k) for k in rumap.columns}
    return {m[2][1:-1].replace("][", ", "): k for k, m in found.items() if m is not None and m[1] == who}


def _in_role(user: User | Snooper | Panel, who: str) -> list[str]:
    """How a panel speaks of itself in this role."""
    return [user.describe(who)] if isinstance(user, Panel) else []


def _words(said: str, who: str) -> list[ReportBlock]:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # A user without a name of his own is called by his role.
    lines = [re.sub(r"^The (user|snooper) (?=believes |takes )", f"The {who} ", line) for line in lines]
    if lines and not lines[0].lower().startswith(f"the {who}"):
        lines.insert(0, f"The {who}, in the study's words:")
    return [*map(Paragraph, lines)]


def _formula(user: User | Snooper | Panel, who: str) -> list[ReportBlock]:
    lines = formulas(user, who)
    return [Formula(lines)] if lines else []


def _panel(panel: Panel, who: str) -> list[ReportBlock]:
    head = panel.describe(who).partition(f" {panel.names[0]}: ")[0]
    blocks: list[ReportBlock] = [Paragraph(f"The {who} is a panel. {head}"), *_formula(panel, who)]
    inside: list[ReportBlock] = []
    for name, member in zip(panel.names, panel.members, strict=True):
        if isinstance(member, Panel):
            inside += [Paragraph(f"{name} is a panel itself."), *_panel(member, who)[1:]]
            continue
        said = re.sub(r"^The (user|snooper) ", "", member.describe())
        inside += [Paragraph(f"{name}: {said}"), *_formula(member, who)]
    return [*blocks, *(inside if len(panel.members) <= OPEN else [Fold(f"The {len(panel.members)} members", inside)])]


def _members(rumap: RUMap, who: str, choice: Choice | None) -> list[ReportBlock]:
    """How much each member of a panel still does not know."""
    columns = member_columns(rumap, who)
    if not columns:
        return []
    rows = []
    for name, column in columns.items():
        u = np.asarray(rumap.columns[column], dtype=float)
        known = u[~np.isnan(u)]
        cells = [number(float(f(known)), 3) if known.size else "none" for f in (np.min, np.max)]
        if choice is not None:
            error = rumap.columns.get(column.removesuffix("_uncertainty") + "_error", np.zeros(len(rumap)))
            cells.insert(0, value(float(u[choice.position]), float(error[choice.position]), 3))
        rows.append(TableRow((name, *cells)))
    after = ["U after the chosen release"] if choice is not None else []
    head = ("member", *after, "least U of any release", "largest U")
    table = Table(f"Members of the {who}s' panel ({len(rows)})", head, rows)
    return [table.folded(OPEN, f"What each of the {len(rows)} members still does not know")]


def _scores(rumap: RUMap) -> list[str]:
    sentences = []
    for axis in (rumap.axis("risk"), rumap.axis("utility")):
        if axis.score.column is not None:
            sentences.append(f"{axis.role.title()}: the column {axis.score.name}.")
            continue
        sentences.append(f"{axis.role.title()}: {axis.score.words(axis.who)}.")
        before = np.unique(axis.before)
        if before.size == 1 and not np.isnan(before[0]):
            sentences[-1] += f" Before any release that loss is U0 = {number(float(before[0]))}."
    return sentences
