"""Individual risk in a sample with weights: how likely each record, or anyone of its household, is to be found.

An intruder who knows the keys of a respondent finds the F people of the population with these keys, and has a chance of
one in F. The agency sees the f records of the sample and their weights, and estimates F.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import hyp2f1

from ...checks import check_choice, check_integer, check_number, checked
from ...errors import InputError
from ...masks.localsuppress import key_matches
from ...protocols import Array
from .. import frames
from ..base import Measured
from ..frames import Data, Ints
from ..missing import KEYED
from ..tables import cells
from .uniqueness import KeyMeasure, enough_population

METHODS = ("approx", "exact")
BELOW = (2, 3, 5)


class _Classes(NamedTuple):
    """Records that agree with the same others on the keys, and so have the same risk."""

    row: Ints
    """Class of each record."""
    f: Array
    F: Array

    @classmethod
    def of_keys(cls, keys: pd.DataFrame, weights: Array | None, wildcard: bool, alpha: float) -> _Classes:
        """Those of a table; where a missing key agrees with everything each record is one of its own."""
        if not wildcard or frames.missing_rows(keys) is None:
            (row,), size = cells.joint_codes_of_tables(keys)
            return cls.of_codes(row, size, weights)

        def agreeing(amounts: Array) -> Array:
            return np.asarray(key_matches(keys, weights=amounts, alpha=alpha), dtype=np.float64)

        f = agreeing(np.ones(len(keys)))
        return cls(np.arange(len(keys)), f, f if weights is None else agreeing(weights))

    @classmethod
    def of_codes(cls, row: Ints, size: int, weights: Array | None) -> _Classes:
        f = np.bincount(row, minlength=size).astype(np.float64)
        return cls(row, f, f if weights is None else np.bincount(row, weights, size).astype(np.float64))


def individual_risk(f: Array, F: Array, method: str = "approx") -> Array:
    """E(1/F) given f records in the sample and an estimate of the F people in the population.

    F given f is negative binomial with success probability p = f / (estimate of F), so that E(1/F | f) = (p / f)
    2F1(1, 1; f + 1; 1 - p). ``"exact"`` is that. ``"approx"`` takes p / (f - 1 + p) for f > 2, as mu-Argus and sdcMicro
    do. Benedetti and Franconi (1998); Franconi and Polettini (2004). An estimate below f is taken to be f.

    >>> individual_risk(np.array([1.0, 2.0]), np.array([17.0, 110.0])).round(6).tolist()
    [0.177076, 0.017144]
    """
    p = np.minimum(f / F, 1.0)
    q = 1.0 - p
    risk = p / (f - q)
    exact = np.ones(len(f), dtype=bool) if method == "exact" else f <= 2
    # Logarithms where they lose no digits; they are quicker.
    far = exact & (q > 0.01)
    one, two = far & (f == 1), far & (f == 2)
    risk[one] = -p[one] / q[one] * np.log(p[one])
    odds = p[two] / q[two]
    risk[two] = odds + odds**2 * np.log(p[two])
    rest = exact & ~one & ~two
    risk[rest] = p[rest] / f[rest] * hyp2f1(1.0, 1.0, f[rest] + 1.0, q[rest])
    return risk


@dataclass(frozen=True, repr=False)
class IndividualRisk(KeyMeasure):
    """Expected share of records that an intruder who knows the keys finds in the population: Benedetti-Franconi.

    The intruder knows the keys of everybody in the population, not who is in the sample. The number of people who share
    a record's keys is estimated by the sum of weights over the sample's records that share them (see
    `individual_risk`). Without weights the sample is the population, or the intruder knows who is in it, and the risk
    is one over the records that agree. `per_record` gives the risk of each.

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all others by default.
    weights : name, optional
        The column of sampling weights, one over the probability of being in the sample.
    method : "approx" or "exact"
        The mean of 1/F for more than two records: mu-Argus' approximation, or the exact series.
    alpha : float
        How much a record with a missing key counts for one with other keys: 1 as any, 0 not at all.
    threshold : float, optional
        Risks above it are counted in ``parts["above"]``.

    Notes
    -----
    ``parts``: ``expected`` re-identifications (the sum of risks), ``largest`` risk, and how many records agree with
    fewer than 2, 3 and 5 on the keys (themselves included): ``below 2``, ``below 3``, ``below 5``. `record_table`
    has f, F and risk of every record.

    Examples
    --------
    >>> file = pd.DataFrame({"age": [1, 1, 2], "w": [10.0, 10.0, 10.0]})
    >>> IndividualRisk("age", "w").per_record(file, file).round(4).tolist()
    [0.0827, 0.0827, 0.2558]
    """

    label: ClassVar[str] = "individual_risk"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Benedetti and Franconi (1998); Franconi and Polettini (2004)"
    missing_choices: ClassVar[tuple[str, ...]] = KEYED
    own_columns: ClassVar[tuple[str, ...]] = ("weights",)

    weights: Hashable = checked(None, frames.one_name)
    method: str = checked("approx", check_choice, options=METHODS)
    alpha: float = checked(1.0, check_number, low=0, high=1)
    threshold: float | None = checked(None, check_number, low=0, high=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(self.missing == "wildcard", 'missing="wildcard"', 'missing="wildcard"', "alpha")

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Count and estimate."""
        return self._measured(self._classes_of_keys(released))

    def from_whole_numbers(self, columns: Sequence[NDArray[Any]]) -> Measured | None:
        keys, weights = (columns, None) if self.weights is None else (columns[:-1], columns[-1])
        codes = cells.close_numbers(np.stack(keys))
        if codes is None or (weights is not None and not (weights.min() > 0 and weights.max() < frames.LARGE)):
            return None
        return self._measured(_Classes.of_codes(*cells.joint_codes_of_columns(*codes), weights))

    def frequencies_and_risk(self, used: pd.DataFrame) -> tuple[Array, Array, Array]:
        """f, F and risk of the records of a table of the keys and then the weights."""
        found = self._classes_of_keys(used)
        return found.f[found.row], found.F[found.row], self._risk(found)

    def _classes_of_keys(self, used: pd.DataFrame) -> _Classes:
        weights = None if self.weights is None else frames.positive_weights(self.name, used.iloc[:, -1])
        keys = used if weights is None else used.iloc[:, :-1]
        return _Classes.of_keys(keys, weights, self.missing == "wildcard", self.alpha)

    def _risk(self, found: _Classes) -> Array:
        """Risk of each record."""
        each = 1.0 / found.f if self.weights is None else individual_risk(found.f, found.F, self.method)
        return each[found.row]

    def _measured(self, found: _Classes) -> Measured:
        risk = self._risk(found)
        return Measured(float(risk.mean()), parts=self._risk_parts(found.f[found.row], risk), records=risk)

    def _risk_parts(self, f: Array, risk: Array) -> dict[str, float]:
        parts = {"expected": float(risk.sum()), "largest": float(risk.max())}
        parts |= {f"below {k}": float(np.count_nonzero(f < k)) for k in BELOW}
        return parts if self.threshold is None else parts | {"above": float(np.count_nonzero(risk > self.threshold))}

    def record_table(self, original: Data, released: Data) -> pd.DataFrame:
        """f, F and risk of every released record, under its row label. Confidential."""
        used = self.prepare(original).columns_used_of(released)
        return pd.DataFrame(
            dict(zip(("f", "F", "risk"), self.frequencies_and_risk(used), strict=True)), index=used.index
        )


@dataclass(frozen=True, repr=False)
class HouseholdRisk(KeyMeasure):
    """Expected share of records whose household is found, through any of its members.

    Who finds one member of a household has found all of them: the household's risk is 1 - prod(1 - r) over its members'
    `IndividualRisk` r, which are taken to be independent. `per_record` gives it to every member.

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all others by default.
    household : name
        The column that says which household a record is of.
    weights, method, alpha, threshold
        As in `IndividualRisk`.

    Notes
    -----
    ``parts``: ``expected`` records whose household is found, ``expected households``, and the parts of
    `IndividualRisk` beside it, its ``expected`` as ``expected alone``. `household_table` has every household.

    Examples
    --------
    >>> file = pd.DataFrame({"age": [1, 1, 2], "home": [1, 2, 2], "w": [10.0, 10.0, 10.0]})
    >>> HouseholdRisk("age", "home", "w").per_record(file, file).round(4).tolist()
    [0.0827, 0.3174, 0.3174]
    """

    label: ClassVar[str] = "household_risk"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Franconi and Polettini (2004); Templ, Meindl and Kowarik (2015), section 2"
    missing_choices: ClassVar[tuple[str, ...]] = KEYED
    own_columns: ClassVar[tuple[str, ...]] = ("household", "weights")

    household: Hashable = checked(None, frames.one_name, required=True)
    weights: Hashable = checked(None, frames.one_name)
    method: str = checked("approx", check_choice, options=METHODS)
    alpha: float = checked(1.0, check_number, low=0, high=1)
    threshold: float | None = checked(None, check_number, low=0, high=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_unused(self.missing == "wildcard", 'missing="wildcard"', 'missing="wildcard"', "alpha")

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Put the members' risks together."""
        f, risk, home, found = self._record_and_household_risks(released)
        alone = self._individual_measure()._risk_parts(f, risk)
        above = {} if self.threshold is None else {"above": float((found[home] > self.threshold).sum())}
        parts = (
            alone
            | above
            | {
                "expected": float(found[home].sum()),
                "largest": float(found.max()),
                "expected alone": alone["expected"],
                "expected households": float(found.sum()),
            }
        )
        return Measured(float(found[home].mean()), parts=parts, records=found[home])

    def household_table(self, original: Data, released: Data) -> pd.DataFrame:
        """Members, largest risk of a member and risk of every household, under its number. Confidential."""
        used = self.prepare(original).columns_used_of(released)
        _, risk, home, found = self._record_and_household_risks(used)
        members = pd.Series(risk).groupby(home)
        table = pd.DataFrame({"members": members.size(), "largest": members.max(), "risk": found})
        return table.set_axis(pd.Index(pd.unique(used[self._household_column(used)]), name=self.household), axis=0)

    def _individual_measure(self) -> IndividualRisk:
        shared: Any = {"method": self.method, "alpha": self.alpha, "threshold": self.threshold}
        return IndividualRisk(self.keys, self.weights, missing=self.missing, **shared)

    def _household_column(self, used: pd.DataFrame) -> Hashable:
        return used.columns[-1 if self.weights is None else -2]

    def _record_and_household_risks(self, used: pd.DataFrame) -> tuple[Array, Array, frames.Ints, Array]:
        """F and risk of each record, its household's position and the households' risks."""
        label = self._household_column(used)
        home, _ = pd.factorize(used[label])
        if (home < 0).any():
            what = f"{self.name} needs to know the household of every record"
            raise InputError(what, f"{int((home < 0).sum())} missing in {label}", "Give each a number of its own")
        f, _, risk = self._individual_measure().frequencies_and_risk(used.drop(columns=[label]))
        with np.errstate(divide="ignore"):  # a sure find of a member is one of the household
            spared = np.bincount(home, weights=np.log1p(-risk))
        return f, risk, home, -np.expm1(spared)


@dataclass(frozen=True, repr=False)
class SkinnerElliot(KeyMeasure):
    """Probability that a match is right if it is the only one: an intruder draws a person whose keys match one record.

    theta = sum I(f = 1) / sum F I(f = 1): of the people in the population who match exactly one record of the sample,
    the share who are in it. Estimated from the sample alone, without a model of the cells, by n1 / (n1 + sum (w - 1))
    with n1 uniques and the sum over the records that share their keys with exactly one other; for a sampling fraction
    pi that is pi n1 / (pi n1 + 2 (1 - pi) n2) with n2 pairs. Assumes a Bernoulli sample. The error takes the numbers
    of uniques and of pairs as Poisson counts. `per_record` gives theta to uniques and 0 to others. A ratio of counts:
    blanks that make triples of pairs raise it.

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all others by default.
    weights : name, optional
        The column of sampling weights.
    population : int, optional
        Size of the population, for a simple random sample; one of the two is needed.

    Examples
    --------
    >>> file = pd.DataFrame({"age": [1, 1, 2, 3]})
    >>> round(float(SkinnerElliot("age", population=8)(file, file)), 6)
    0.5
    """

    label: ClassVar[str] = "unique_match"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Skinner and Elliot (2002), JRSS B 64, 855-867; Skinner and Carter (2003)"
    missing_choices: ClassVar[tuple[str, ...]] = KEYED
    own_columns: ClassVar[tuple[str, ...]] = ("weights",)

    weights: Hashable = checked(None, frames.one_name)
    population: int | None = checked(None, check_integer, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.weights is None) == (self.population is None):
            got = f"weights={self.weights!r}, population={self.population!r}"
            raise InputError(f"{self.name} needs the weights or the size of the population", got, "Give one of them")

    def compare(self, state: None, released: pd.DataFrame) -> Measured:
        """Count uniques and pairs."""
        n = len(released)
        if self.population is not None:
            enough_population(self.population, n)
        keys = released if self.weights is None else released.iloc[:, :-1]
        weights = (
            np.full(n, (self.population or n) / n)
            if self.weights is None
            else frames.positive_weights(self.name, released.iloc[:, -1])
        )
        found = _Classes.of_keys(keys, None, self.missing == "wildcard", 1.0)
        f = found.f[found.row]
        unique, paired = f == 1, f == 2
        others = float(np.maximum(weights[paired] - 1.0, 0.0).sum())
        single, pairs = float(unique.sum()), paired.sum() / 2
        theta = single / (single + others) if single else 0.0
        error = theta * (1.0 - theta) * np.sqrt(1.0 / single + 1.0 / pairs) if single and pairs else 0.0
        parts = {"uniques": single, "pairs": float(pairs), "fraction": float(n / weights.sum())}
        return Measured(theta, float(error), parts, records=theta * unique)
