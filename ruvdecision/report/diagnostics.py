"""Which releases of a map a reader should look at twice, and why; and what engines say about their own work."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from ..decide import Choice
from ..maps.columns import marks_convergence
from ..maps.rumap import RUMap
from ..maps.show import format_amount, format_number, plural, shorten_text, why_unreliable
from ..protocols import Array
from .document import Items, Paragraph, ReportBlock, Table, TableRow

Flags = NDArray[np.bool_]

#: A standard error above this share of its value is large.
LARGE = 0.05
#: What a sampler's diagnostics should be, by the end of the column's name: R-hat at most 1.01, and so on.
LIMITS = {
    "rhat": ("above", 1.01),
    "ess_bulk": ("below", 400.0),
    "ess_tail": ("below", 400.0),
    "khat": ("at least", 0.7),
    "divergences": ("above", 0.0),
}
#: Rows of the table of doubts.
SHOWN_WARNINGS = 12
_OF_ENGINE = re.compile(r"^(intruder|scientist)(\[.*\])*_", re.DOTALL)


def release_warnings(rumap: RUMap) -> dict[int, list[str]]:
    """The positions of the releases that carry a mark, with the reasons in words.

    A release is marked if its sampler did not converge, if the standard error of its risk or utility is more than 5 %
    of the value (of U0 or 1 for gains and logs, if that is larger), and if a value is infinite or missing.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[0.0, 1.0], scientist=[1.0, 1.0])
    >>> release_warnings(rumap)
    {0: ['its risk is infinite']}
    """
    bad = {k: fails_diagnostic(rumap, k) for k in rumap.columns}
    axes = [(role, *rumap.column(role), _relative_error_of_axis(rumap, role)) for role in ("risk", "utility")]
    found: dict[int, list[str]] = {}
    for i in range(len(rumap)):
        reasons = []
        if not rumap.converged[i]:
            shown = [f"{k} {format_number(float(rumap.columns[k][i]), 4)}" for k, rows in bad.items() if rows[i]]
            both = rumap.intruder_uncertainty[i], rumap.scientist_uncertainty[i]
            reasons.append(
                f"its {why_unreliable(rumap.engine[i], *both)}" + (f" ({', '.join(shown)})" if shown else "")
            )
        if rumap.one_release[i]:
            reasons.append("its numbers are of one release")
        for role, values, errors, share in axes:
            if np.isnan(values[i]):
                reasons.append(f"it has no {role}")
            elif np.isinf(values[i]):
                reasons.append(f"its {role} is infinite")
            elif not np.isfinite(errors[i]):
                reasons.append(f"the error of its {role} is not known")
            elif share[i] > LARGE:
                reasons.append(
                    f"the standard error of its {role} is large, {format_amount(100 * float(share[i]), digits=2)} %"
                )
        if reasons:
            found[i] = reasons
    return found


def unreliable_releases(rumap: RUMap) -> Flags:
    """True where an error is large or not known, or a value is missing: the number itself is in doubt."""
    bad = np.zeros(len(rumap), dtype=bool)
    for role in ("risk", "utility"):
        values, errors = rumap.column(role)
        bad |= (
            np.isnan(values)
            | (~np.isfinite(errors) & np.isfinite(values))
            | (_relative_error_of_axis(rumap, role) > LARGE)
        )
    return bad


def has_errors(rumap: RUMap) -> Flags:
    """True where risk or utility carries a standard error."""
    return (rumap.risk_error > 0) | (rumap.utility_error > 0)


def is_diagnostic(rumap: RUMap, name: str) -> bool:
    """True for a column that an engine wrote about its own work, not about the release."""
    return marks_convergence(name) or _OF_ENGINE.match(name) is not None


def fails_diagnostic(rumap: RUMap, name: str) -> Flags:
    """True where a sampler's diagnostic is not what it should be; False everywhere for other columns."""
    column, key = rumap.columns[name], _limit_of(name)
    if key is None or not is_diagnostic(rumap, name) or column.dtype.kind not in "biuf":
        return np.zeros(len(rumap), dtype=bool)
    way, limit = LIMITS[key]
    values = column.astype(float)
    with np.errstate(invalid="ignore"):
        found = values < limit if way == "below" else values >= limit if way == "at least" else values > limit
    if way == "below":
        # Few draws cannot have a large effective size: a tenth of them is then enough.
        draws = rumap.columns.get(name.removesuffix(key) + "draws")
        if draws is not None and draws.dtype.kind in "biuf":
            found &= values < np.minimum(limit, draws.astype(float) / 10)
    return np.asarray(found)


def diagnostic_blocks(rumap: RUMap, choice: Choice | None) -> list[ReportBlock]:
    """Engines, errors, the releases to look at twice, and the samplers' diagnostics."""
    engines = Counter(name or "not said" for name in rumap.engine)
    facts = ["Computed by: " + ", ".join(f"{name} ({plural(k, 'release')})" for name, k in engines.items()) + "."]
    inexact = int(has_errors(rumap).sum())
    if inexact:
        some = f"{inexact:,} of {plural(len(rumap), 'release')} with a standard error (after ±)"
        facts.append(f"{some}; the frontier does not allow for it.")
    else:
        facts.append("No number carries a standard error.")
    blocks: list[ReportBlock] = [Items(facts)]
    if choice is not None and choice.remarks:
        blocks.append(Paragraph(f"About the chosen release: {'; '.join(choice.remarks)}.", "warning"))
    found = release_warnings(rumap)
    if found:
        rows = [
            TableRow((rumap.releases[i], "; ".join(why)), "doubtful") for i, why in list(found.items())[:SHOWN_WARNINGS]
        ]
        more = f", the first {SHOWN_WARNINGS} are shown" if len(found) > SHOWN_WARNINGS else ""
        caption = f"Releases to look at twice ({len(found)}{more})"
        blocks.append(Table(caption, ("release", "why"), rows, (False, False)))
    else:
        ran = any(map(marks_convergence, rumap.columns))
        sampled = "every sampler converged, " if ran else ""
        blocks.append(Paragraph(f"Nothing is marked: {sampled}every number is finite, no error is large."))
    rows, texts = [], []
    for name, column in rumap.columns.items():
        # The members of a panel have their own table.
        if not is_diagnostic(rumap, name) or name.endswith(("converged", "]_uncertainty", "]_error")):
            continue
        if column.dtype.kind not in "biuf":
            often = Counter(map(str, column.tolist()))  # how often each text occurs, the first few
            parts = [f"{shorten_text(x, 80) or 'nothing'} ({plural(k, 'release')})" for x, k in list(often.items())[:6]]
            more = f" and {len(often) - 6} more" if len(often) > 6 else ""
            texts.append(f"{name}: {', '.join(parts)}{more}.")
            continue
        known = column[~np.isnan(column.astype(float))].astype(float)
        cells = [format_number(float(f(known)), 3) if known.size else "none" for f in (np.min, np.median, np.max)]
        bad, mark = int(fails_diagnostic(rumap, name).sum()), ""
        if bad:
            way, limit = LIMITS[_limit_of(name) or ""]
            mark = f"{plural(bad, 'release')} {way} {format_number(limit)}"
        rows.append(TableRow((name, *cells, mark), "doubtful" if bad else ""))
    if rows:
        head, numbers = ("column", "smallest", "median", "largest", "mark"), (False, True, True, True, False)
        blocks.append(Table("Diagnostics over all releases", head, rows, numbers).without_empty_end())
    return [*blocks, Items(texts)] if texts else blocks


def _limit_of(name: str) -> str | None:
    return next((k for k in LIMITS if name == k or name.endswith(f"_{k}")), None)


def _relative_error_of_axis(rumap: RUMap, role: str) -> Array:
    values, errors = rumap.column(role)
    axis = rumap.axis(role)
    known = axis.before[np.isfinite(axis.before)]
    with np.errstate(all="ignore"):
        share = errors / np.maximum(np.abs(values), axis.score.scale(known if known.size else 1.0))
    return np.where((errors == 0) | ~np.isfinite(values), 0.0, share)
