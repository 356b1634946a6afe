"""Choosing among the releases of a map: which ones are not dominated, and which one is best.

`frontier` keeps the releases that no other one dominates, `choose` takes the best one, `probabilities` says what the errors of
the map leave in doubt, `explain` and `dominated` say why the others are not on the frontier.
"""

from __future__ import annotations

from .choice import Choice, choose
from .compare import Explanation, dominated, explain
from .dominance import not_dominated, undominated
from .doubt import Errors, probabilities
from .fronts import frontier

__all__ = [
    "Choice",
    "Errors",
    "Explanation",
    "choose",
    "dominated",
    "explain",
    "frontier",
    "not_dominated",
    "probabilities",
    "undominated",
]
