"""Engines: how posteriors are computed. `pick` chooses one and says why none can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import lazy_loader

from ..beliefs.finite import FiniteBelief
from ..beliefs.normal import NormalBelief
from ..beliefs.pymc import PyMCBelief
from ..errors import InputError
from ..targets import EachRecord, Identity
from ..users.user import Snooper, User
from .finite.enumeration import Enumeration
from .normal.exact import Exact
from .normal.ranks import Ranks
from .refusal import refusal
from .rules.fixed_rule import FixedRule

if TYPE_CHECKING:
    from .each_record import EachRecords
    from .finite.whole_file import WholeFile
    from .identity.identity import Identification
    from .pymc.quadrature import Quadrature
    from .pymc.sampling import Sampling
    from .wrong_belief import Misjudged

# They need masks that are imported when they are first used, or few need them.
LATER = {
    "each_record": ["EachRecords"],
    "finite.whole_file": ["WholeFile"],
    "identity.identity": ["Identification"],
    "pymc.quadrature": ["Quadrature"],
    "pymc.sampling": ["Sampling"],
    "wrong_belief": ["Misjudged"],
}
if not TYPE_CHECKING:  # or every name would be taken to exist, and to be of any type
    __getattr__, __dir__, _ = lazy_loader.attach(__name__, submod_attrs=LATER)

__all__ = [
    "EachRecords",
    "Enumeration",
    "Exact",
    "FixedRule",
    "Identification",
    "Misjudged",
    "Quadrature",
    "Ranks",
    "Sampling",
    "WholeFile",
    "pick",
]

ENGINES: dict[str, Any] = {"exact": Exact, "enumeration": Enumeration, "quadrature": None, "sampling": None}
"""In the order of preference; those without a class here are for PyMC models and imported when one comes."""


def pick(engine: Any, user: Any, masks: Sequence[Any], data: Any = None) -> Any:
    """Return the engine for a user: the one asked for if it can, or with "auto" the first that can.

    The order is exact, enumeration, and for PyMC models quadrature before sampling.
    An engine that cannot says why and what can. A snooper has no posterior and
    always gets `FixedRule`, so that snoopers and Bayesian users mix in one map; "exact" then allows closed forms only.
    The target `Identity` has an engine of its own too, `Identification`, whatever the other user's is. So have `EachRecord`, and users
    whose belief is not the agency's or who do not know the mask; these engines use the one asked for inside.
    """
    if isinstance(engine, type):
        raise InputError("engine must be an object", f"the class {engine.__name__}", f"Write {engine.__name__}()")
    special = _doubtful(engine, user, masks, data)
    if special is not None:
        return special
    engine = (
        getattr(engine, "engine", engine) if getattr(engine, "name", None) in ("each record", "misjudged") else engine
    )
    if isinstance(getattr(user, "target", None), Identity) and not isinstance(user, Snooper):
        if hasattr(engine, "solve") or (isinstance(engine, str) and engine in ("auto", *ENGINES)):
            from .identity.identity import Identification

            engine = Identification()
    elif getattr(engine, "name", None) == "identification":
        engine = "auto"
    if isinstance(user, Snooper):
        if isinstance(engine, Exact) or (isinstance(engine, str) and engine == "exact"):
            engine = FixedRule(method="exact")
        elif not isinstance(engine, FixedRule) and (
            hasattr(engine, "solve") or (isinstance(engine, str) and engine in ("auto", *ENGINES))
        ):
            engine = FixedRule()
    elif isinstance(engine, (FixedRule, Ranks)):
        engine = "auto"
    ranked = not isinstance(user, Snooper) and user.target.ranked and isinstance(user.belief, NormalBelief)
    if ranked and (isinstance(engine, Exact) or (isinstance(engine, str) and engine in ("auto", "exact"))):
        engine = Ranks()  # order statistics of normal records have an engine of their own
    if isinstance(getattr(user, "belief", None), FiniteBelief) and not isinstance(user, Snooper):
        from .finite.whole_file import WholeFile, file_matrix

        if any(file_matrix(user.belief, mask) is not None for mask in masks):
            engine = WholeFile() if not hasattr(engine, "solve") or isinstance(engine, (Exact, Enumeration)) else engine
    if isinstance(engine, str):
        if engine == "auto":
            reasons = []
            for name in ENGINES:
                if ENGINES[name] is None and not isinstance(getattr(user, "belief", None), PyMCBelief):
                    continue
                found = _named(name)
                reason = found.refuses(user, masks, data)
                if reason is None:
                    return found
                reasons.append(reason)
            fitting = [r for r in reasons if "needs a" not in r] or reasons
            raise refusal(" ".join(fitting))
        if engine not in ENGINES:
            raise InputError(
                f"engine must be 'auto', {', '.join(map(repr, ENGINES))} or an engine", engine, "Leave it at 'auto'"
            )
        engine = _named(engine)
    if not hasattr(engine, "solve") or not hasattr(engine, "refuses"):
        raise InputError("engine must be 'auto', a name or an engine", engine, "Use engine=ruv.Exact(), for example")
    reason = engine.refuses(user, masks, data)
    if reason is not None:
        raise refusal(reason)
    return engine


def _named(name: str) -> Any:
    """The engine of this name."""
    if name == "quadrature":
        from .pymc.quadrature import Quadrature

        return Quadrature()
    if name == "sampling":
        from .pymc.sampling import Sampling

        return Sampling()
    return ENGINES[name]()


def _doubtful(engine: Any, user: Any, masks: Sequence[Any], data: Any) -> Any:
    """The engine for every record at once, or for a user who is wrong or does not know the mask; None for others."""
    kind: Any = None
    if isinstance(getattr(user, "target", None), EachRecord):
        from .each_record import EachRecords as kind
    elif isinstance(user, User) and not user.plain:
        from .wrong_belief import Misjudged as kind
    if kind is None:
        return None
    inner = (
        getattr(engine, "engine", engine) if getattr(engine, "name", None) in ("each record", "misjudged") else engine
    )
    found = kind(inner)
    reason = found.refuses(user, masks, data)
    if reason is not None:
        raise refusal(reason)
    return found
