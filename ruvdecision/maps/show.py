"""How a map is shown: numbers and counts as text, entries of its table, one row as an object, the whole as a summary.

Every table of a map (printed, in a report, on the page) takes its entries from here.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..checks import suggest
from ..errors import InputError
from ..protocols import Array
from .columns import attr_as_list

if TYPE_CHECKING:
    from .rumap import RUMap

Kind = TypeVar("Kind", bound=np.generic)
# Control characters and half surrogates are not text, and the marks that turn the direction of writing can make one
# release look like another. None of them belongs in a document that is signed.
_NOT_TEXT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)


def format_number(x: float, digits: int = 6) -> str:
    """A number with so many digits, infinity as its sign, and a word where there is none.

    >>> format_number(2.6509803921), format_number(float("inf")), format_number(float("nan"))
    ('2.65098', '∞', 'none')
    """
    return "none" if math.isnan(x) else f"{x:.{digits}g}".replace("inf", "∞").replace("-", "−")


def format_value(x: float, error: float = 0.0, digits: int = 6) -> str:
    """A number with its standard error, where it has one.

    >>> format_value(0.5, 0.03), format_value(0.5)
    ('0.5 ± 0.03', '0.5')
    """
    if not math.isfinite(error):
        return f"{format_number(x, digits)} ± unknown"
    return format_number(x, digits) + (f" ± {format_number(error, 2)}" if error > 0 else "")


def format_amount(x: float, unit: str = "", digits: int = 3) -> str:
    """A number as a person writes it, with its unit: so many digits, and whole numbers in full.

    >>> format_amount(1852.4, "$"), format_amount(0.012345, "kg"), format_amount(12.0)
    ('$1,852', '0.0123 kg', '12')
    """
    text = format_number(x, digits)
    if math.isfinite(x) and 1e-4 <= abs(x) < 1e15:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(x))))
        text = f"{x:,.{decimals}f}".replace("-", "−")
        text = text.rstrip("0").rstrip(".") if decimals else text
    return unit + text if unit in ("$", "€", "£", "¥") else f"{text} {unit}".rstrip()


def plural(size: int, what: str) -> str:
    """A number of things.

    >>> plural(1, "release"), plural(4000, "release")
    ('1 release', '4,000 releases')
    """
    return f"{size:,} {what}" + "s" * (size != 1)


def few_digits(x: float, digits: int = 4) -> str:
    """Four digits, the way a summary shows a number."""
    return f"{x:.{digits}g}".replace("inf", "∞")


def chance_in_words(p: float) -> str:
    """A probability that never rounds to certainty.

    >>> chance_in_words(0.25), chance_in_words(0.9999)
    ('0.25', 'above 0.999')
    """
    if np.isnan(p):
        return "not known"
    return "above 0.999" if 0.9995 <= p < 1 else "below 0.001" if 0 < p < 0.0005 else f"{p:.3f}".rstrip("0").rstrip(".")


def shorten_text(text: str, most: int) -> str:
    """Text that is no longer than so many letters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def clean_text(text: object) -> str:
    r"""Replace what is not readable text by U+FFFD; tabs and line ends stay.

    >>> clean_text("a\x00b") == "a\ufffdb"
    True
    """
    return _NOT_TEXT.sub("\ufffd", str(text))


def evenly_spaced(rows: NDArray[Kind], most: int) -> NDArray[Kind]:
    """At most so many of the rows, at even distances, with both ends."""
    return rows if rows.size <= most else rows[np.unique(np.linspace(0, rows.size - 1, most).round().astype(int))]


def user_columns(rumap: RUMap) -> dict[str, str]:
    """Risk, utility, uncertainties, and typical errors in a map that knows its unit: names of columns and heads."""
    heads = {"risk": "risk", "utility": "utility"} | {f"{who}_uncertainty": f"{who}'s U" for who in rumap.uncertainties}
    return heads | {name: f"{name.partition('_')[0]} off by ({rumap.attrs['unit']})" for name in rumap.typical_errors}


def better_end(rumap: RUMap) -> dict[str, str]:
    """Which values of a measure are better, as far as the map knows; joined maps keep one list each."""
    parts = [part for part in attr_as_list(rumap.attrs.get("better")) if isinstance(part, Mapping)]
    return {str(name): str(end) for part in parts for name, end in part.items()}


def format_entry(rumap: RUMap, column: str, i: int, digits: int = 6) -> str:
    """An entry of a map's table, with its error where it has one."""
    if column == "engine":
        return rumap.engine[i]
    users = {f"{who}_uncertainty": u for who, u in rumap.uncertainties.items()} | rumap.typical_errors
    pair = rumap.column(column) if column in ("risk", "utility") else users.get(column)
    if pair is not None:
        return format_value(float(pair.value[i]), float(pair.error[i]), digits)
    found = rumap.columns[column]
    if found.dtype.kind not in "iuf":
        return str(found[i])
    error = rumap.columns.get(f"{column}_error")
    return format_value(
        float(found[i]), 0.0 if error is None or error.dtype.kind not in "biuf" else float(error[i]), digits
    )


def with_readable_labels(rumap: RUMap) -> RUMap:
    """The same map with labels that a drawing can hold."""
    texts = {"_labels": rumap.releases, "_technique": rumap.techniques}
    changed: dict[str, Any] = {name: tuple(map(clean_text, texts[name])) for name in texts}
    changed = {name: found for name, found in changed.items() if found != texts[name]}
    words = {
        k: np.array([clean_text(x) for x in v.tolist()]) for k, v in rumap.parameters.items() if v.dtype.kind in "US"
    }
    if any(clean_text(k) != k for k in rumap.parameters) or any(
        (v != rumap.parameters[k]).any() for k, v in words.items()
    ):
        changed["_parameters"] = {clean_text(k): words.get(k, v) for k, v in rumap.parameters.items()}
    if changed and "user" in rumap.columns:
        changed["columns"] = {**rumap.columns, "user": np.array([clean_text(str(u)) for u in rumap.columns["user"]])}
    return replace(rumap, **changed) if changed else rumap


class Sentence:
    """A result whose text is a sentence; shown, the name of its class stands before it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self}"


@dataclass(frozen=True, repr=False)
class ReleaseRow(Sentence):
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
    one_release: bool = False

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for source in ("columns", "parameters"):
                values = self.__dict__.get(source, {})
                if name in values:
                    return values[name]
        known = [*self.__dict__, *self.__dict__.get("columns", ()), *self.__dict__.get("parameters", ())]
        raise AttributeError(f"This release has no {name!r}. {suggest(name, known)}")

    def __getstate__(self) -> dict[str, object]:
        return {k: dict(v) if k in ("columns", "parameters") else v for k, v in self.__dict__.items()}

    def __str__(self) -> str:
        risk, utility = format_value(self.risk, self.risk_error, 4), format_value(self.utility, self.utility_error, 4)
        return f"{clean_text(self.release)}: risk {risk}, utility {utility}"


def why_unreliable(engine: str, *uncertainties: float) -> str:
    """Why a number is not to be trusted: it does not exist, or its sampler or its nodes."""
    if np.isinf(uncertainties).any():
        return "uncertainty is not finite"
    return "nodes did not settle" if engine == "quadrature" else "sampler did not converge"


def as_text_table(rumap: RUMap) -> str:
    """Count, ranges and some releases of the frontier, as text."""
    head, lines, rows = _summary_line(rumap)
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lined_up = ([r[0].ljust(first), *(x.rjust(wide) for x, wide in zip(r[1:], others, strict=True))] for r in rows)
    table = ["  ".join(["", *cells]) for cells in lined_up]
    return clean_text("\n".join([head, *(f"  {line}" for line in lines), *table]))


def as_html_table(rumap: RUMap) -> str:
    """The same as HTML; every text is escaped."""
    head, lines, rows = _summary_line(rumap)
    top = "".join(f"<th>{html.escape(x)}</th>" for x in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in r) + "</tr>" for r in rows[1:])
    text = "<br>".join(html.escape(line) for line in lines)
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return clean_text(f"<div><strong>{html.escape(head)}</strong><br>{text}{table}</div>")


def _summary_line(rumap: RUMap) -> tuple[str, list[str], list[tuple[str, ...]]]:
    engines = ", ".join(dict.fromkeys(e for e in rumap.engine if e))
    head = f"RUMap: {plural(rumap.size, 'release')} of {plural(len(set(rumap.techniques)), 'technique')}"
    head += f" ({engines})" if engines else ""
    try:
        rumap.risk, rumap.utility  # noqa: B018
    except InputError as error:
        # U is there, but the chosen function of it makes no sense: show U and say what to do.
        heads = {f"{who}_uncertainty": f"{who}'s U" for who in rumap.uncertainties}
        return head, [str(error)], _summary_rows(rumap, np.arange(min(rumap.size, 8)), heads)
    axes = rumap.axis("risk"), rumap.axis("utility")
    lines = [f"{a.role} {_range_in_words(rumap.column(a.role).value)}: {a.score.words(a.who)}" for a in axes]
    endless = ~rumap.converged & (np.isinf(rumap.intruder_uncertainty) | np.isinf(rumap.scientist_uncertainty))
    for bad, what in ((~rumap.converged & ~endless, "did not converge"), (endless, "with a U that is not finite")):
        lines += [f"{plural(int(bad.sum()), 'release')} {what}"] if bad.any() else []
    alone = int(np.sum(rumap.one_release))
    lines += [f"one release behind each of {plural(alone, 'point')}: no error, another draw gives another"] * (
        alone > 0
    )
    lines += rumap.notes
    known = bool(np.any(~np.isnan(rumap.risk) & ~np.isnan(rumap.utility)))
    best = rumap.frontier() if known else rumap
    shown = evenly_spaced(np.arange(best.size), 8)
    part = ", some of them" if len(shown) < best.size else ""
    lines.append(f"frontier: {plural(best.size, 'release')}{part}" if known else "no release has both risk and utility")
    return head, lines, _summary_rows(best, shown, {"risk": "risk", "utility": "utility"})


def _summary_rows(rumap: RUMap, shown: NDArray[np.int_], heads: Mapping[str, str]) -> list[tuple[str, ...]]:
    """The heads and some releases with two numbers each, and their errors."""
    rows = [(rumap.releases[i], *(format_entry(rumap, column, i, 4) for column in heads)) for i in shown.tolist()]
    return [("release", *heads.values()), *rows]


def _range_in_words(values: Array) -> str:
    known = values[~np.isnan(values)]
    ends = dict.fromkeys(few_digits(end) for end in (known.min(), known.max())) if known.size else ["not known"]
    return " to ".join(ends)
