"""Engines: how posteriors are computed. `pick` chooses one and says why none can."""

from typing import TYPE_CHECKING

import lazy_loader

from .base import BaseEngine, Evidence, Missing, Plan, Problem, Question, Refusal, pick, plan_for
from .finite.enumeration import Enumeration
from .normal.exact import Exact
from .normal.ranks import Ranks
from .rules.fixed_rule import FixedRule

if TYPE_CHECKING:
    from .every_record import EveryRecord
    from .finite.whole_file import WholeFile
    from .identity.identity import Identification
    from .pymc.quadrature import Quadrature
    from .pymc.sampling import Sampling
    from .wrong_belief import WrongBelief

# They need masks that are imported when they are first used, or few need them.
LATER = {
    "every_record": ["EveryRecord"],
    "finite.whole_file": ["WholeFile"],
    "identity.identity": ["Identification"],
    "pymc.quadrature": ["Quadrature"],
    "pymc.sampling": ["Sampling"],
    "wrong_belief": ["WrongBelief"],
}
if not TYPE_CHECKING:  # or every name would be taken to exist, and to be of any type
    __getattr__, __dir__, _ = lazy_loader.attach(__name__, submod_attrs=LATER)

__all__ = [
    "BaseEngine",
    "Enumeration",
    "EveryRecord",
    "Evidence",
    "Exact",
    "FixedRule",
    "Identification",
    "Missing",
    "Plan",
    "Problem",
    "Quadrature",
    "Question",
    "Ranks",
    "Refusal",
    "Sampling",
    "WholeFile",
    "WrongBelief",
    "pick",
    "plan_for",
]
