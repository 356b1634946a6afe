"""Engines: how posteriors are computed. `pick` chooses one and says why none can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError, UnsupportedError
from .enumeration import Enumeration
from .exact import Exact

__all__ = ["Enumeration", "Exact", "pick"]

ENGINES = {"exact": Exact, "enumeration": Enumeration}


def pick(engine: Any, user: Any, masks: Sequence[Any], data: Any = None) -> Any:
    """Return the engine for a user: the one asked for if it can, or with "auto" the first that can.

    The order is exact before enumeration. An engine that cannot says why and what can.
    """
    if isinstance(engine, str):
        if engine == "auto":
            reasons = []
            for kind in ENGINES.values():
                reason = kind().refuses(user, masks, data)
                if reason is None:
                    return kind()
                reasons.append(reason)
            fitting = [r for r in reasons if "needs a" not in r] or reasons
            raise UnsupportedError(" ".join(fitting).rstrip("."))
        if engine not in ENGINES:
            raise InputError(f"engine must be 'auto', {', '.join(map(repr, ENGINES))} or an engine", engine, "Leave it at 'auto'")
        engine = ENGINES[engine]()
    if not hasattr(engine, "solve") or not hasattr(engine, "refuses"):
        raise InputError("engine must be 'auto', a name or an engine", engine, "Use engine=ruv.Exact(), for example")
    reason = engine.refuses(user, masks, data)
    if reason is not None:
        raise UnsupportedError(reason.rstrip("."))
    return engine
