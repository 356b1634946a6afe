"""Which releases of a map a reader should look at twice, and why."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..maps.rumap import RUMap
from .numbers import number

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
_OF_ENGINE = re.compile(r"^(intruder|scientist)(\[.*\])*_", re.DOTALL)


def doubts(rumap: RUMap) -> dict[int, list[str]]:
    """The positions of the releases that carry a mark, with the reasons in words.

    A release is marked if its sampler did not converge, if the standard error of its risk or utility is more than 5 %
    of the value (of U0 or 1 for gains and logs, if that is larger), and if a value is infinite or missing.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[0.0, 1.0], scientist=[1.0, 1.0])
    >>> doubts(rumap)
    {0: ['its risk is infinite']}
    """
    found: dict[int, list[str]] = {}

    def mark(rows: Any, why: Any) -> None:
        for i in np.flatnonzero(rows).tolist():
            found.setdefault(i, []).append(why(i))

    bad = {k: beyond(rumap, k) for k in rumap.columns}

    def why(i: int) -> str:
        seen = [f"{k} {number(float(rumap.columns[k][i]), 4)}" for k, rows in bad.items() if rows[i]]
        return "its sampler did not converge" + (f" ({', '.join(seen)})" if seen else "")

    mark(~rumap.converged, why)
    for role in ("risk", "utility"):
        values, errors = getattr(rumap, role), getattr(rumap, f"{role}_error")
        share = _share(rumap, role)
        mark(np.isnan(values), lambda i, role=role: f"it has no {role}")
        mark(np.isinf(values), lambda i, role=role: f"its {role} is infinite")
        mark(~np.isfinite(errors) & np.isfinite(values), lambda i, role=role: f"the error of its {role} is not known")
        mark(
            np.isfinite(share) & (share > LARGE),
            lambda i, role=role, share=share: (
                f"the standard error of its {role} is large, {number(100 * float(share[i]), 2)} %"
            ),
        )
    return dict(sorted(found.items()))


def doubtful(rumap: RUMap) -> Any:
    """True where an error is large or not known, or a value is missing: the number itself is in doubt."""
    bad = np.zeros(len(rumap), dtype=bool)
    for role in ("risk", "utility"):
        values, errors, share = getattr(rumap, role), getattr(rumap, f"{role}_error"), _share(rumap, role)
        bad |= np.isnan(values) | (~np.isfinite(errors) & np.isfinite(values)) | (share > LARGE)
    return bad


def is_diagnostic(rumap: RUMap, name: str) -> bool:
    """True for a column that an engine wrote about its own work, not about the release."""
    return name == "converged" or name.endswith("_converged") or _OF_ENGINE.match(name) is not None


def beyond(rumap: RUMap, name: str) -> Any:
    """True where a sampler's diagnostic is not what it should be; False everywhere for other columns."""
    column = rumap.columns[name]
    key = next((k for k in LIMITS if name == k or name.endswith(f"_{k}")), None)
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
    return found


def _share(rumap: RUMap, role: str) -> Any:
    values, errors = getattr(rumap, role), getattr(rumap, f"{role}_error")
    score, before = getattr(rumap, f"{role}_score"), rumap.before[0 if role == "risk" else 1]
    scale = score.scale(before[np.isfinite(before)]) if np.isfinite(before).any() else score.scale(1.0)
    with np.errstate(all="ignore"):
        share = errors / np.maximum(np.abs(values), scale)
    return np.where((errors == 0) | ~np.isfinite(values), 0.0, share)
