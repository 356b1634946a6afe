"""Engines: how posteriors are computed. `pick` chooses one and says why none can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..beliefs.normal import NormalBelief
from ..errors import InputError, UnsupportedError
from ..lazy import attach
from ..targets import Identity
from ..users import Snooper
from .enumeration import Enumeration
from .exact import Exact
from .ranks import Ranks
from .rules import FixedRule

if TYPE_CHECKING:
    from .identity import Identification

# It needs masks that are imported when they are first used.
__getattr__, __dir__, _ = attach(__name__, {"Identification": "identity"})

__all__ = ["Enumeration", "Exact", "FixedRule", "Identification", "Ranks", "pick"]

ENGINES = {"exact": Exact, "enumeration": Enumeration}


def pick(engine: Any, user: Any, masks: Sequence[Any], data: Any = None) -> Any:
    """Return the engine for a user: the one asked for if it can, or with "auto" the first that can.

    The order is exact before enumeration. An engine that cannot says why and what can. A snooper has no posterior and
    always gets `FixedRule`, so that snoopers and Bayesian users mix in one map; "exact" then allows closed forms only.
    The target `Identity` has an engine of its own too, `Identification`, whatever the other user's is.
    """
    if isinstance(getattr(user, "target", None), Identity) and not isinstance(user, Snooper):
        if hasattr(engine, "solve") or (isinstance(engine, str) and engine in ("auto", *ENGINES)):
            from .identity import Identification

            engine = Identification()
    elif getattr(engine, "name", None) == "identification":
        engine = "auto"
    if isinstance(user, Snooper):
        if isinstance(engine, Exact) or (isinstance(engine, str) and engine == "exact"):
            engine = FixedRule(method="exact")
        elif not isinstance(engine, FixedRule) and (hasattr(engine, "solve") or (isinstance(engine, str) and engine in ("auto", *ENGINES))):
            engine = FixedRule()
    elif isinstance(engine, (FixedRule, Ranks)):
        engine = "auto"
    ranked = not isinstance(user, Snooper) and hasattr(user.target, "rank_in") and isinstance(user.belief, NormalBelief)
    if ranked and (isinstance(engine, Exact) or (isinstance(engine, str) and engine in ("auto", "exact"))):
        engine = Ranks()  # order statistics of normal records have an engine of their own
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
