"""Choosing among the releases of a map: which ones are not dominated, and which one is best.

`frontier` keeps the releases that no other one dominates, `choose` takes the best one, `probabilities` says how sure
that is given the errors of the map, `explain` and `dominated` say why the others are not on the frontier.
"""

from __future__ import annotations

from .choice import Choice, choose
from .compare import Explanation, dominated, explain, frontier
from .criteria import Criterion, ExpectedLoss, Lexicographic, MostUseful, Weighted
from .dominance import not_dominated, undominated
from .probability import Errors, probabilities

__all__ = [
    "Choice",
    "Criterion",
    "Errors",
    "ExpectedLoss",
    "Explanation",
    "Lexicographic",
    "MostUseful",
    "Weighted",
    "choose",
    "dominated",
    "explain",
    "frontier",
    "not_dominated",
    "probabilities",
    "undominated",
]
