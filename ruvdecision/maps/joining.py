"""Joining two maps into one, and refusing where the result would mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..protocols import Value
from .columns import frozen, stack

if TYPE_CHECKING:
    from .rumap import RUMap


def join(a: RUMap, b: RUMap, named: bool) -> RUMap:
    """Put map ``b`` below map ``a``; ``named`` says that prefixes tell different users apart."""
    for role in ("risk", "utility"):
        ours, theirs = a.axis(role), b.axis(role)
        who = ours.who
        if ours.score != theirs.score:
            raise InputError(
                f"The maps measure {role} by different functions",
                f"{ours.score.name} and {theirs.score.name}",
                f"Give both the same one first, with_{role}(...)",
            )
        if not named and a.attrs.get(who) != b.attrs.get(who):
            raise InputError(
                f"The maps have different users: the {who}s differ",
                [a.attrs.get(who), b.attrs.get(who)],
                "Tell the maps apart with RUMap.concat([a, b], names=[...])",
            )
        if (ours.value is None) != (theirs.value is None):
            raise InputError(
                f"One map has the {who}'s uncertainty and the other has not", None, "Join maps of the same kind"
            )
    twice = sorted(set(a.releases) & set(b.releases))
    if twice:
        raise InputError(
            "The maps share releases",
            twice[:5],
            "Leave them out of one map, or tell the maps apart with RUMap.concat([a, b], names=[...])",
        )

    def glue(x: Value | None, y: Value | None) -> Value | None:
        if x is None or y is None:
            return None
        return Value(*(frozen(np.concatenate(pair)) for pair in zip(x, y, strict=True)))

    masks = None
    if a.masks is not None or b.masks is not None:
        masks = (a.masks or (None,) * a.size) + (b.masks or (None,) * b.size)
    attrs = {k: _merge_attr(k, a.attrs, b.attrs) for k in {**a.attrs, **b.attrs}}
    return replace(
        a,
        size=a.size + b.size,
        intruder=glue(a.intruder, b.intruder),
        scientist=glue(a.scientist, b.scientist),
        before=(np.concatenate([a.before[0], b.before[0]]), np.concatenate([a.before[1], b.before[1]])),
        masks=masks,
        columns=MappingProxyType(stack(a.columns, b.columns, a.size, b.size)),
        attrs=MappingProxyType(attrs),
        notes=tuple(dict.fromkeys(a.notes + b.notes)),
        _engine=a.engine + b.engine,
        _labels=a.releases + b.releases,
        _technique=a.techniques + b.techniques,
        _parameters=stack(a.parameters, b.parameters, a.size, b.size),
    )


def _merge_attr(key: str, a: Mapping[str, object], b: Mapping[str, object]) -> object:
    if key not in a or key not in b:
        return a.get(key, b.get(key))
    x, y = a[key], b[key]
    if type(x) is type(y) and str(x) == str(y):
        return x
    if key in ("intruder", "scientist"):
        return f"{x}\n{y}"
    return [*(x if isinstance(x, list) else [x]), *(y if isinstance(y, list) else [y])]
