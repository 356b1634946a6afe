"""Refusals: users who have an engine of their own, and a refusal as an error, with what can be done instead after it."""

from __future__ import annotations

import re
from typing import Any

from ..errors import UnsupportedError
from ..users.user import Snooper

__all__ = ["has_own_engine", "refusal"]


def refusal(reason: str) -> UnsupportedError:
    """The error for what an engine's ``refuses`` said; its first sentence is what is wrong, the others are what can be done.

    >>> refusal("Quadrature needs a PyMCBelief. Use engine='auto'.").do
    "Use engine='auto'."
    """
    what, *rest = re.split(r"(?<=\S)\. (?=[A-Z])", reason.strip(), maxsplit=1)
    return UnsupportedError(
        what.rstrip("."), do=rest[0] if rest else "Use engine='auto', or another mask, target or loss"
    )


def has_own_engine(name: str, user: Any, *, identity: bool = False) -> str | None:
    """Why an engine for one target of a Bayesian user refuses this one: another engine is made for him. None if it is not.

    ``identity`` says that the engine is the one for `Identity`.
    """
    if isinstance(user, Snooper):
        return f"{name} needs a User; a Snooper has a rule and no posterior. Use engine='auto'."
    if user.target.asks_each:
        return f"{name} needs a target that is one thing; {user.target.describe()} is many. Use engine='auto'."
    if user.target.asks_row and not identity:
        return f"{name} does not have the target Identity. Use engine='auto', or Record(j) with Shuffle()."
    if not user.plain:
        return f"{name} needs a user whose belief is the agency's and who knows the mask. Use engine='auto'."
    return None
