"""The frontier of a map: the releases that no other one dominates."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..checks import Seed, check_flag
from ..errors import InputError
from ..maps.columns import frozen
from ..maps.rumap import RUMap
from .criteria import directions, value_of
from .dominance import undominated
from .doubt import DRAWS, Errors, frontier_probability

__all__ = ["frontier"]


def frontier(
    rumap: RUMap,
    tolerance: float = 1e-12,
    *,
    columns: Any = None,
    probability: bool = False,
    errors: Any = "independent",
    draws: int = DRAWS,
    seed: Seed = 0,
) -> RUMap:
    """Return the releases that no other one dominates, in order of increasing risk.

    A release is dominated if another one has no more risk and no less utility, and is strictly better in one
    of them (Karr et al. 2006). Releases that tie in both stay together. Infinite values count like any other: a
    release with infinite risk is on the frontier only if nothing with finite risk is as useful. Releases whose
    risk or utility is NaN are never on the frontier and dominate nobody.

    Parameters
    ----------
    rumap : RUMap
        The map.
    tolerance : float, default 1e-12
        Values whose relative difference is at most this are ties: the same U by two routes differs in its last digits.
    columns : list of names or mapping from name to "lower" or "higher", optional
        Compare by these columns instead of risk and utility, however many (Karr et al. 2006, eq. 11). A mapping says which
        values of each are better. A list takes ``"risk"``, ``"utility"`` and the measures whose better end the map knows.
    probability : bool, default False
        Add the column ``frontier_probability``: how probable it is, given the errors of the map, that the release is truly on
        the frontier. One on an exact map.
    errors, draws, seed
        How errors of different releases hang together, and how often the map is drawn anew; as for `choose`.

    Examples
    --------
    >>> rumap = RUMap.build(
    ...     labels=list("abc"), intruder=[4.0, 2.0, 2.0], scientist=[2.0, 1.0, 3.0], columns={"KL": [2.0, 1.0, 0.5]}
    ... )
    >>> frontier(rumap).releases
    ('a', 'b')
    >>> frontier(rumap, columns={"risk": "lower", "utility": "higher", "KL": "lower"}).releases
    ('a', 'c', 'b')
    """
    check_flag("probability", probability, "Say whether the map should carry the column frontier_probability")
    how = Errors(errors, draws, seed)
    if not probability and how != Errors():
        raise InputError(
            "errors, draws and seed are for the probability", "probability=False", "Pass probability=True, too"
        )
    better = directions(rumap, ["risk", "utility"] if columns is None else columns)
    keep = np.flatnonzero(undominated([value_of(rumap, n) for n in better], list(better.values()), tolerance))
    if keep.size == 0:
        if columns is None:
            raise InputError(
                "No release has both a risk and a utility",
                f"{len(rumap)} releases with NaN",
                "Look at the columns risk and utility",
            )
        raise InputError(
            "No release has a value in every column", ", ".join(better), "Leave out the columns that hold NaN"
        )
    if probability:
        chance = frontier_probability(rumap, better, how, tolerance)
        rumap = replace(rumap, columns=MappingProxyType({**rumap.columns, "frontier_probability": frozen(chance)}))
    return rumap.take(keep[np.lexsort((rumap.utility[keep], rumap.risk[keep]))])
