"""One way to list the settings of a belief, a mask, a loss, a user or a panel, and to make it again with others.

All of them are frozen dataclasses. A path such as ``("belief", "prior_variance")`` leads to a setting of a setting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from ..checks import field_values, suggest
from ..errors import InputError


def settings_of(thing: object) -> dict[str, Any]:
    """Settings by name: arguments of a dataclass, entries of a mapping, members of a list by position.

    >>> from ruvdecision.losses import Huber
    >>> settings_of(Huber(2.0))["delta"]
    2.0
    """
    if isinstance(thing, Mapping):
        return dict(thing)
    if isinstance(thing, (list, tuple)):
        return {str(i): member for i, member in enumerate(thing)}
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return {}
    if hasattr(thing, "adjustable_settings"):
        return dict(thing.adjustable_settings)
    held = field_values(thing)
    return {f.name: held[f.name] for f in dataclasses.fields(thing) if f.init}


def with_setting(thing: Any, path: Sequence[str], value: object, whole: str) -> Any:
    """The same thing with the setting at ``path`` replaced; nothing is edited in place. Errors name the ``whole`` path.

    Of a panel every member that has such a setting changes.

    >>> from ruvdecision.beliefs import NormalBelief
    >>> with_setting(NormalBelief(records=3, variance=1, prior_variance=5), ["prior_variance"], 2, "prior_variance")
    NormalBelief(records=3, variance=1, prior_mean=0, prior_variance=2)
    """
    if not path:
        return value
    head, known = path[0], settings_of(thing)
    if head in known:
        new = with_setting(known[head], path[1:], value, whole)
    elif "members" in known and has_setting(thing, head):
        members = [with_setting(m, path, value, whole) if has_setting(m, head) else m for m in known["members"]]
        head, new = "members", tuple(members)
    elif isinstance(thing, (list, tuple)):
        raise InputError(f"{whole} needs a position from 0 to {len(thing) - 1}", head, "Count from 0")
    elif not known:
        what = f"{whole} cannot be varied: {type(thing).__name__} has no named parts"
        raise InputError(what, head, "Give whole objects as values instead")
    else:
        what = f"{whole} names a part that {type(thing).__name__} does not have"
        raise InputError(what, head, suggest(head, [str(name) for name in known]))
    return with_new_settings(thing, {head: new})


def with_new_settings(thing: Any, changes: dict[str, Any]) -> Any:
    """The same thing with other settings; one whose settings are no fields says how (``adjusted``)."""
    if hasattr(thing, "adjusted"):
        return thing.adjusted(**changes)
    if dataclasses.is_dataclass(type(thing)):
        return dataclasses.replace(thing, **changes)
    settings = settings_of(thing) | changes
    if isinstance(thing, list):
        made = copy(thing)  # whatever else it says stays
        made[:] = settings.values()
        return made
    return settings if isinstance(thing, Mapping) else tuple(settings.values())


def setting_at(thing: object, path: Sequence[str]) -> Any:
    """The setting at a path; of a panel that of the first member who has it."""
    for name in path:
        while name not in settings_of(thing):
            thing = next(m for m in settings_of(thing)["members"] if has_setting(m, name))
        thing = settings_of(thing)[name]
    return thing


def has_setting(thing: object, name: str) -> bool:
    """Whether a thing, or a member of a panel, has a setting of that name."""
    known = settings_of(thing)
    return name in known or any(has_setting(member, name) for member in known.get("members", ()))
