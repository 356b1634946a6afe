"""A user: belief, target and loss. The intruder and the scientist are two users."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .checks import as_float_array, check_choice
from .errors import InputError
from .losses import as_loss

__all__ = ["User"]


@dataclass(frozen=True)
class User:
    """A Bayesian decision maker who waits for a release.

    Parameters
    ----------
    belief : Belief
        What the user believes before the release.
    target : Target
        What the user wants to know.
    loss : Loss or callable
        What it costs to be wrong; a callable ``loss(estimate, truth)`` will do.
    estimates : "free", "target" or array, default "free"
        Which estimates the user may give. ``"free"`` is the natural action space (the reals, a vector space,
        all distributions), which every closed form of Trottini and Fienberg needs. ``"target"`` restricts
        estimates to the finite set of target values, as their step 2 says; U is then never smaller. An array
        lists the allowed estimates.
    name : str, optional
        A name for tables and plots.
    """

    belief: Any
    target: Any
    loss: Any
    estimates: Any = field(default="free")
    name: str | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.belief, "draw"):
            raise InputError("A user needs a belief", self.belief, "Use NormalBelief, FiniteBelief, TableBelief or PyMCBelief")
        if not hasattr(self.target, "describe"):
            raise InputError("A user needs a target", self.target, 'Use Record(0), Parameter("mu"), NewRecord() or Functional(...)')
        object.__setattr__(self, "loss", as_loss(self.loss))
        if isinstance(self.estimates, str):
            check_choice("estimates", self.estimates, ["free", "target"])
        else:
            object.__setattr__(self, "estimates", as_float_array("estimates", self.estimates))
        check = getattr(self.belief, "check_target", None)
        if check is not None:
            check(self.target)

    @property
    def actions(self) -> Any:
        """The allowed estimates as the losses take them: None, ``"target"`` or an array."""
        return None if isinstance(self.estimates, str) and self.estimates == "free" else self.estimates

    def describe(self) -> str:
        """One sentence about the user."""
        name = self.name or "The user"
        belief = self.belief.describe() if hasattr(self.belief, "describe") else repr(self.belief)
        limits = "" if self.actions is None else (" and may only name values of the target" if isinstance(self.estimates, str) else f" and may name {np.shape(self.estimates)[0]} values")
        return f"{name} believes {belief}, wants {self.target.describe()} and pays {self.loss}{limits}."
