"""Joining two maps into one, and refusing where the result would mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..protocols import Value
from .columns import attr_as_list, read_only_copy, stack_columns

if TYPE_CHECKING:
    from .rumap import RUMap


def join_two_maps(a: RUMap, b: RUMap, named: bool) -> RUMap:
    """Put map ``b`` below map ``a``; ``named`` says that prefixes tell different users apart."""
    for role in ("risk", "utility"):
        ours, theirs = a.axis(role), b.axis(role)
        who = ours.who
        if ours.score != theirs.score:
            what = f"The maps measure {role} by different functions"
            do = f"Give both the same one first, with_{role}(...)"
            raise InputError(what, f"{ours.score.name} and {theirs.score.name}", do)
        if not named and a.attrs.get(who) != b.attrs.get(who):
            what = f"The maps have different users: the {who}s differ"
            do = "Tell the maps apart with RUMap.concat([a, b], names=[...])"
            raise InputError(what, [a.attrs.get(who), b.attrs.get(who)], do)
        if (ours.value is None) != (theirs.value is None):
            do = "Join maps of the same kind"
            raise InputError(f"One map has the {who}'s uncertainty and the other has not", None, do)
    twice = sorted(set(a.releases) & set(b.releases))
    if twice:
        do = "Leave them out of one map, or tell the maps apart with RUMap.concat([a, b], names=[...])"
        raise InputError("The maps share releases", twice[:5], do)

    users: dict[str, Any] = {
        who: Value(*(read_only_copy(np.concatenate(pair)) for pair in zip(found, b.uncertainties[who], strict=True)))
        for who, found in a.uncertainties.items()
    }
    masks = None
    if a.masks is not None or b.masks is not None:
        masks = (a.masks or (None,) * a.size) + (b.masks or (None,) * b.size)
    attrs = {k: _merge_attr(k, a.attrs, b.attrs) for k in {**a.attrs, **b.attrs}}
    return replace(
        a,
        size=a.size + b.size,
        **users,
        before=(np.concatenate([a.before[0], b.before[0]]), np.concatenate([a.before[1], b.before[1]])),
        masks=masks,
        columns=MappingProxyType(stack_columns(a.columns, b.columns, a.size, b.size)),
        attrs=MappingProxyType(attrs),
        notes=tuple(dict.fromkeys(a.notes + b.notes)),
        _engine=a.engine + b.engine,
        _labels=a.releases + b.releases,
        _technique=a.techniques + b.techniques,
        _parameters=stack_columns(a.parameters, b.parameters, a.size, b.size),
    )


def worst_case(rumap: RUMap) -> RUMap | None:
    """Of every release that all users have looked at, the largest risk and the least utility; None without any."""
    users = rumap.user_names
    if not users:
        return rumap
    rows: dict[str, dict[str, int]] = {}
    for i, (user, label) in enumerate(zip(rumap.columns["user"], rumap.released, strict=True)):
        rows.setdefault(label, {})[str(user)] = i
    whole = {label: list(found.values()) for label, found in rows.items() if len(found) == len(users)}
    if not whole:
        return None
    table = np.array(list(whole.values()))
    # A value that is not known may be the worst.
    unknown = lambda values, end: np.where(np.isnan(values), end, values)[table]  # noqa: E731
    pick = lambda at: table[np.arange(len(table)), at]  # noqa: E731
    risky = pick(np.argmax(unknown(rumap.risk, np.inf), axis=1))
    useless = pick(np.argmin(unknown(rumap.utility, -np.inf), axis=1))
    by_risk, by_utility = rumap.take(risky), rumap.take(useless)
    columns = {k: v for k, v in by_risk.columns.items() if k != "user"}
    if (name := rumap.utility_score.column) is not None:
        columns |= {k: by_utility.columns[k] for k in (name, f"{name}_error") if k in by_utility.columns}
    columns["worst_user"] = by_risk.columns["user"]
    if rumap.size > table.size:
        left_out = len(rows) - len(whole)
        notes = (*rumap.notes, f"{left_out} releases that not all users have looked at are left out of the worst case.")
    else:
        notes = rumap.notes
    techniques = [t.replace(f"{u}: ", "", 1) for t, u in zip(by_risk.techniques, by_risk.columns["user"], strict=True)]
    return replace(
        by_risk,
        scientist=by_utility.scientist,
        before=(by_risk.before[0], by_utility.before[1]),
        columns=MappingProxyType(columns),
        notes=notes,
        users=None,
        _labels=tuple(whole),
        _technique=tuple(techniques),
        _parameters=dict(by_risk.parameters),
    )


def _merge_attr(key: str, a: Mapping[str, object], b: Mapping[str, object]) -> object:
    if key not in a or key not in b:
        return a.get(key, b.get(key))
    x, y = a[key], b[key]
    if type(x) is type(y) and str(x) == str(y):
        return x
    if key in ("intruder", "scientist"):
        return f"{x}\n{y}"
    return [*attr_as_list(x), *attr_as_list(y)]


def named_maps(found: object, what: str) -> dict[str, RUMap]:
    """The maps that a study gave back, by name: one is "map", those of a list are "map1", "map2" and so on.

    The error where it gave something else begins with ``what``.
    """
    from .rumap import RUMap

    given: dict[str, Any] = {"map": found}
    if isinstance(found, Mapping):
        given = {str(name): item for name, item in found.items()}
    elif isinstance(found, (list, tuple)):
        given = {f"map{i}": item for i, item in enumerate(found, start=1)}
    wrong = [type(item).__name__ for item in given.values() if not isinstance(item, RUMap)]
    if wrong or not given:
        got = wrong[0] if wrong else f"an empty {type(found).__name__}"
        raise InputError(what, got, "End it with return ruv.evaluate(...)")
    return given
