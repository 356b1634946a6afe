"""How a map is shown: one row as an object, the whole as a short table in text or HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..checks import suggest
from ..errors import InputError
from ..protocols import Array

if TYPE_CHECKING:
    from .rumap import RUMap


@dataclass(frozen=True)
class ReleaseRow:
    """One release of a map. Parameters and measures are attributes too: ``row.variance``, ``row.linkage``."""

    release: str
    mask: Any  # a Mask, something that describes itself as one, or None
    technique: str
    parameters: Mapping[str, Any]
    risk: float
    utility: float
    risk_error: float
    utility_error: float
    intruder_uncertainty: float
    scientist_uncertainty: float
    intruder_error: float
    scientist_error: float
    engine: str
    columns: Mapping[str, Any]
    converged: bool
    position: int

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for source in ("columns", "parameters"):
                values = self.__dict__.get(source, {})
                if name in values:
                    return values[name]
        known = [*self.__dict__, *self.__dict__.get("columns", ()), *self.__dict__.get("parameters", ())]
        raise AttributeError(f"This release has no {name!r}. {suggest(name, known)}")

    def __getstate__(self) -> dict[str, Any]:
        return {k: dict(v) if k in ("columns", "parameters") else v for k, v in self.__dict__.items()}

    def __str__(self) -> str:
        return f"{self.release}: risk {short(self.risk)}, utility {short(self.utility)}"


def as_text_table(rumap: RUMap) -> str:
    """Count, ranges and some releases of the frontier, as text."""
    head, lines, rows = _summary(rumap)
    wide = [max(len(r[j]) for r in rows) for j in range(3)]
    table = [f"  {r[0]:<{wide[0]}}  {r[1]:>{wide[1]}}  {r[2]:>{wide[2]}}" for r in rows]
    return "\n".join([head, *(f"  {line}" for line in lines), *table])


def as_html_table(rumap: RUMap) -> str:
    """The same as HTML; every text is escaped."""
    head, lines, rows = _summary(rumap)
    top = "".join(f"<th>{html.escape(x)}</th>" for x in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in r) + "</tr>" for r in rows[1:])
    text = "<br>".join(html.escape(line) for line in lines)
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><strong>{html.escape(head)}</strong><br>{text}{table}</div>"


def short(x: float) -> str:
    """Four digits, the way a table shows a number."""
    return f"{x:.4g}".replace("inf", "∞")


def _summary(rumap: RUMap) -> tuple[str, list[str], list[tuple[str, str, str]]]:
    engines = ", ".join(dict.fromkeys(e for e in rumap.engine if e))
    head = f"RUMap: {counted(rumap.size, 'release')} of {counted(len(set(rumap.techniques)), 'technique')}"
    head += f" ({engines})" if engines else ""
    try:
        rumap.risk, rumap.utility  # noqa: B018
    except InputError as error:
        # U is there, but the chosen function of it makes no sense: show U and say what to do.
        some = range(min(rumap.size, 8))
        rows = [("release", "intruder's U", "scientist's U")]
        rows += [
            (rumap.releases[i], short(rumap.intruder_uncertainty[i]), short(rumap.scientist_uncertainty[i]))
            for i in some
        ]
        return head, [str(error)], rows
    axes = rumap.axis("risk"), rumap.axis("utility")
    lines = [f"{a.role} {_range(rumap.column(a.role).value)}: {a.score.words(a.who)}" for a in axes]
    bad = int(np.sum(~rumap.converged))
    lines += [f"{counted(bad, 'release')} did not converge"] if bad else []
    lines += rumap.notes
    known = bool(np.any(~np.isnan(rumap.risk) & ~np.isnan(rumap.utility)))
    best = rumap.frontier() if known else rumap
    shown = np.unique(np.linspace(0, best.size - 1, min(best.size, 8)).round().astype(int))
    part = ", some of them" if len(shown) < best.size else ""
    lines.append(
        f"frontier: {counted(best.size, 'release')}{part}" if known else "no release has both risk and utility"
    )
    rows = [("release", "risk", "utility")]
    rows += [(best.releases[i], short(best.risk[i]), short(best.utility[i])) for i in shown]
    return head, lines, rows


def counted(number: int, what: str) -> str:
    """A number of things: 1 release, 2 releases."""
    return f"{number} {what}" + "s" * (number != 1)


def _range(values: Array) -> str:
    known = values[~np.isnan(values)]
    return f"{short(known.min())} to {short(known.max())}" if known.size else "not known"
