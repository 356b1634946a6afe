"""Risk where the population is known, as an agency with a register knows it: nothing about it needs to be estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...checks import checked
from ...masks.localsuppress import key_matches
from ...protocols import Array
from ..base import Measured
from ..tables import cells
from .records import OtherFile
from .uniqueness import KeyMeasure


@dataclass(frozen=True, repr=False)
class _InPopulation(KeyMeasure):
    """A risk from how many people of the population, and how many released records, share a combination of keys."""

    missing_choices: ClassVar[tuple[str, ...]] = ("wildcard", "category", "omit", "raise")

    population: Any = checked(None, OtherFile.of, required=True)

    def _counts_in_population(self, released: pd.DataFrame) -> tuple[Array, Array, Array]:
        """Released records and people who agree with each released record, and each person's probability of presence.

        A released record is any of the people who agree with it, each as likely.
        """
        people = self.population.table(self.name, "the population", list(released.columns))
        (ours, theirs), size = cells.joint_codes_of_tables(released, people)
        f, big = np.bincount(ours, minlength=size), np.bincount(theirs, minlength=size)
        if self.missing != "wildcard" or not (released.isna().any(axis=None) or people.isna().any(axis=None)):
            return f[ours].astype(float), big[ours].astype(float), f[theirs] / big[theirs]
        mine = np.arange(len(released) + len(people)) < len(released)
        both = pd.concat([released, people], ignore_index=True)
        f, big = (key_matches(both, weights=which.astype(np.float64)) for which in (mine, ~mine))
        share = np.divide(1.0, big, out=np.zeros(len(both)), where=mine & (big > 0))
        return f[mine], big[mine], key_matches(both, weights=share)[~mine]


@dataclass(frozen=True, repr=False)
class KMap(_InPopulation):
    """The smallest number of people in the population who share a released record's combination of keys, k.

    What `KAnonymity` is to an intruder who knows who is in the file, k-map is to one who does not: he finds k people
    for each record. `per_record` gives one over their number, 0 where nobody has the keys (after masking).

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all of the release by default.
    population : DataFrame, array or path
        The records of the population, with the keys as they are.

    Notes
    -----
    ``parts``: ``expected`` re-identifications, ``sample uniques``, ``population uniques`` among the released records,
    records ``unmatched`` by anybody (they do not count for k; a file of them has k equal to the population's size), and
    ``unique match``, the probability that a match is right if it is the only one (Skinner and Elliot 2002), counted.

    Examples
    --------
    >>> people = pd.DataFrame({"age": [1, 1, 1, 2, 2, 3]})
    >>> value = KMap("age", population=people)(people.iloc[[0, 3]], people.iloc[[0, 3]])
    >>> float(value), value.parts["unique match"]
    (2.0, 0.4)
    """

    label: ClassVar[str] = "k_map"
    direction: ClassVar[str] = "higher"
    range: ClassVar[tuple[float, float]] = (1.0, np.inf)
    reference: ClassVar[str] = "Sweeney (2002), section 5; Skinner and Elliot (2002), JRSS B 64, 855-867"

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Count."""
        f, people, _ = self._counts_in_population(released)
        there = people > 0
        risk = np.divide(1.0, people, out=np.zeros(len(f)), where=there)
        alone = (f == 1) & there
        parts = {
            "expected": float(risk.sum()),
            "sample uniques": float((f == 1).sum()),
            "population uniques": float((people == 1).sum()),
            "unmatched": float((~there).sum()),
            "unique match": float(alone.sum() / people[alone].sum()) if alone.any() else 0.0,
        }
        k = float(people[there].min()) if there.any() else float(self.population.frame.n)
        return Measured(k, parts=parts, records=risk)


@dataclass(frozen=True, repr=False)
class PopulationUniques(_InPopulation):
    """Share of released records that are unique in the file and in the population, counted.

    What `PoissonGammaUniques`, `LogLinearUniques` and `PitmanUniques` estimate, on the same scale. `per_record` gives 1
    for such a record: it says which, as the models cannot.

    Parameters
    ----------
    keys, population
        As in `KMap`.

    Examples
    --------
    >>> people = pd.DataFrame({"age": [1, 1, 1, 2, 2, 3]})
    >>> float(PopulationUniques("age", population=people)(people.iloc[[0, 5]], people.iloc[[0, 5]]))
    0.5
    """

    label: ClassVar[str] = "population_uniques"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Winkler (2004), section 4"

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Count."""
        f, people, _ = self._counts_in_population(released)
        both = ((f == 1) & (people == 1)).astype(np.float64)
        parts = {"sample uniques": float((f == 1).sum()), "population uniques": float(both.sum())}
        return Measured(float(both.mean()), parts=parts, records=both)


@dataclass(frozen=True, repr=False)
class DeltaPresence(_InPopulation):
    """The largest probability that somebody of the population is in the file, given his keys: delta-presence.

    An intruder who knows the population's keys, and that the release is a part of it, learns that a person with these
    keys is in the file with probability f / F, records over people. A file is (delta_min, delta_max)-present if that
    lies between the two for everybody. With missing keys a record is any of the F people who agree with it, and a
    person is present with the sum of 1 / F over the records that agree with him (at most 1): more blanks spread the
    same number of records over more people, so that somebody else's probability may rise. `per_record` gives f / F of
    each released record, at most 1.

    Parameters
    ----------
    keys, population
        As in `KMap`.

    Notes
    -----
    ``parts``: ``smallest``, delta_min over the whole population, ``mean``, and the records ``unmatched`` by anybody.

    Examples
    --------
    >>> people = pd.DataFrame({"age": [1, 1, 1, 2, 2, 3]})
    >>> float(DeltaPresence("age", population=people)(people.iloc[[0, 3]], people.iloc[[0, 3]]))
    0.5
    """

    label: ClassVar[str] = "delta_presence"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Nergiz, Atzori and Clifton (2007), SIGMOD, 665-676"

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Count."""
        f, people, present = self._counts_in_population(released)
        there = people > 0
        risk = np.minimum(np.divide(f, people, out=np.zeros(len(f)), where=there), 1.0)
        present = np.minimum(present, 1.0)
        parts = {
            "smallest": float(present.min()),
            "mean": float(present.mean()),
            "unmatched": float((~there).sum()),
        }
        return Measured(float(present.max()), parts=parts, records=risk)
