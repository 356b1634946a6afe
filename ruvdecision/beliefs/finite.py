"""Trottini and Fienberg's own setting: a finite set of states, prior probabilities and a likelihood."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..checks import (
    Data,
    as_float_array,
    check_distinct,
    check_finite,
    check_index,
    check_integer,
    check_names,
    check_probabilities,
    check_text,
    is_label,
    is_single,
    suggest,
)
from ..errors import InputError, RuvError
from ..protocols import Array
from ..targets import BaseTarget, Kind, Term
from .base import BaseBelief, DrawnFile

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FiniteValues:
    """A finite list of values: numbers, vectors, or labels such as text."""

    names: tuple[Any, ...]
    """The values as they were given, hashable."""
    numbers: Array
    """The values as losses see them, ``(size,)`` or ``(size, k)``; labels are numbered 0, 1, ... in their order."""
    labelled: bool

    @classmethod
    def of(cls, name: str, values: ArrayLike) -> FiniteValues:
        """Read values; each may occur once."""
        if is_single(values):
            raise InputError(f"{name} must be a list of values", values, f"Write {name}=[0, 1, 2]")
        if isinstance(values, (Mapping, Set, Iterator)):
            raise InputError(
                f"{name} must be a list, which has an order", type(values).__name__, f"Write {name}=[0, 1, 2]"
            )
        try:
            array = np.asarray(values)
        except ValueError:
            raise InputError(
                f"{name} must be vectors of one length", "several lengths", f"Write {name}=[[0, 1], [2, 3]]"
            ) from None
        if array.ndim not in (1, 2) or array.size == 0:
            raise InputError(
                f"{name} must be a list of numbers, vectors or labels",
                f"shape {array.shape}",
                f"Write {name}=[0, 1, 2]",
            )
        if array.dtype.kind in "biuf":
            numbers = check_finite(name, as_float_array(name, values))
            names = tuple(numbers.tolist()) if numbers.ndim == 1 else tuple(map(tuple, numbers.tolist()))
            labelled = False
        else:
            if array.ndim != 1:
                raise InputError(f"{name} must be numbers if they are vectors", values, "Use one label per value")
            names = tuple(array.tolist())
            odd = [n for n in names if n is None or n is pd.NA or n is pd.NaT or (isinstance(n, float) and n != n)]
            if odd or np.ma.is_masked(values) or not all(map(is_label, names)):
                raise InputError(
                    f"{name} must be numbers or labels, none of them missing",
                    f"{len(names)} values",
                    "Use text for labels",
                )
            numbers, labelled = np.arange(len(names), dtype=np.float64), True
        return cls(check_distinct(name, names, "Add up the probabilities of equal values"), numbers, labelled)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def columns(self) -> int:
        """Entries of one value."""
        return 1 if self.numbers.ndim == 1 else self.numbers.shape[1]

    def _offer_names(self) -> str:
        # The value itself stays out of messages: it may be a confidential record.
        names = [str(n) for n in self.names]
        return f"Choose from {', '.join(names[:12])}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")

    def codes(self, data: Data, what: str) -> Ints:
        """Positions of observed values in the list; -1 where they are missing."""
        try:
            frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame([data] if np.ndim(data) == 0 else data)
        except (TypeError, ValueError):
            raise InputError(
                f"{what} must be a list of records", type(data).__name__, "Give one row per record"
            ) from None
        if frame.shape[1] != self.columns:
            raise InputError(f"{what} must have {self.columns} columns", frame.shape[1], "Give one row per record")
        place = {name: i for i, name in enumerate(self.names)}
        found = np.empty(len(frame), dtype=np.int64)
        for row, entry in enumerate(frame.itertuples(index=False, name=None)):
            missing = [bool(pd.isna(e)) for e in entry]
            if any(missing):
                if not all(missing):
                    raise InputError(
                        f"{what} has a record with some of its entries missing", f"row {row}", "Give whole records"
                    )
                found[row] = -1
                continue
            key: Any = entry[0] if self.columns == 1 and self.numbers.ndim == 1 else entry
            if not self.labelled:
                try:
                    key = tuple(float(e) for e in entry) if isinstance(key, tuple) else float(key)
                except (TypeError, ValueError):
                    raise InputError(
                        f"{what} must be made of the belief's values", f"row {row}", self._offer_names()
                    ) from None
            if key not in place:
                raise InputError(
                    f"{what} holds a value that the belief does not know", f"row {row}", self._offer_names()
                )
            found[row] = place[key]
        return found


@dataclass(frozen=True, eq=False)
class FiniteBelief(BaseBelief):
    """A state theta from a finite set, and records whose law depends on it.

    Without a likelihood the one confidential record is theta itself. With one, the records are independent
    given theta, each from the outcomes with the probabilities of the likelihood.
    Trottini and Fienberg (2002), section 3.

    Parameters
    ----------
    values : list
        The states: numbers, vectors ``(states, k)``, or labels. Losses see labels as 0, 1, ... in their order.
    probabilities : array, optional
        Prior probabilities; uniform if not given.
    likelihood : matrix or callable, optional
        One row per state and one column per outcome, rows summing to one; or ``likelihood(outcome, value)``,
        a probability for every outcome.
    outcomes : list, optional
        What a record can be; 0, 1, ... if a matrix is given without them.
    records : int, default 1
        Number of records.
    name : str, default "theta"
        The state's name, for ``Parameter(name)``.
    columns : list of names, optional
        Names of a record's variables, so that masks and targets may name them. A DataFrame must have exactly these
        columns, in any order; without names its columns are taken in the order in which they come.

    Examples
    --------
    >>> coin = FiniteBelief([0.3, 0.7], likelihood=[[0.7, 0.3], [0.3, 0.7]], records=50)
    >>> coin.marginal
    array([0.5, 0.5])
    """

    values: ArrayLike
    probabilities: ArrayLike | None = None
    likelihood: Any = None
    outcomes: ArrayLike | None = None
    records: int = 1
    name: str = "theta"
    columns: Sequence[Hashable] | None = None

    def __post_init__(self) -> None:
        check_text("name", self.name, 'Write name="theta"')
        object.__setattr__(self, "records", check_integer("records", self.records, low=1))
        if self.likelihood is None:
            if self.records != 1:
                raise InputError(
                    "Without a likelihood there is one record, the state itself",
                    f"records={self.records}",
                    "Give likelihood=, or records=1",
                )
            if self.outcomes is not None:
                raise InputError("outcomes belong to a likelihood", self.outcomes, "Give likelihood= too")
        elif callable(self.likelihood) and self.outcomes is None:
            raise InputError("A likelihood function needs the list of outcomes", None, "Give outcomes=[...]")
        # Compute now what may be wrong, so that errors come where the belief is written.
        _ = self.states, self.prior, self.levels, self.law
        if self.columns is not None:
            object.__setattr__(self, "columns", check_names("columns", self.columns, self.levels.columns))

    @cached_property
    def states(self) -> FiniteValues:
        """The values of theta."""
        return FiniteValues.of("values", self.values)

    @cached_property
    def prior(self) -> Array:
        """Prior probabilities of the states."""
        size = len(self.states)
        if self.probabilities is None:
            return np.full(size, 1.0 / size)
        array = as_float_array("probabilities", self.probabilities)
        if array.ndim != 1:
            raise InputError(
                "probabilities must be a flat list", f"shape {array.shape}", "Give one probability per value"
            )
        return check_probabilities("probabilities", array, size)

    @cached_property
    def levels(self) -> FiniteValues:
        """What a record can be."""
        if self.likelihood is None:
            return self.states
        if self.outcomes is not None:
            return FiniteValues.of("outcomes", self.outcomes)
        matrix = as_float_array("likelihood", self.likelihood)
        return FiniteValues.of("outcomes", np.arange(matrix.shape[-1] if matrix.ndim == 2 else 1))

    @cached_property
    def law(self) -> Array:
        """Probability of every outcome (columns) in every state (rows)."""
        if self.likelihood is None:
            return np.eye(len(self.states))
        size = (len(self.states), len(self.levels))
        if callable(self.likelihood):
            values = [_argument_of_user_function(self.states, i) for i in range(size[0])]
            outcomes = [_argument_of_user_function(self.levels, i) for i in range(size[1])]
            try:
                matrix = as_float_array("likelihood", [[self.likelihood(o, v) for o in outcomes] for v in values])
            except RuvError:
                raise
            except Exception as error:  # whatever the caller's function raises
                do = "Let it take an outcome and a value and give back a probability"
                raise InputError("The likelihood fails", f"{type(error).__name__}: {error}", do) from error
        else:
            matrix = as_float_array("likelihood", self.likelihood)
        if matrix.shape != size:
            raise InputError(
                f"likelihood must have shape {size}, states by outcomes",
                f"shape {matrix.shape}",
                "Give one row per state and one column per outcome",
            )
        return check_probabilities("likelihood", matrix)

    @property
    def marginal(self) -> Array:
        """Probability of every outcome of one record before the release."""
        return self.prior @ self.law

    @property
    def parameters(self) -> tuple[str, ...]:
        """The state's name."""
        return (self.name,)

    def draw_codes(self, rng: np.random.Generator) -> Ints:
        """Draw a state, then the records given it, as positions in the list of outcomes."""
        state = rng.choice(len(self.prior), p=self.prior)
        return rng.choice(len(self.levels), size=self.records, p=self.law[state]).astype(np.int64)

    def draw(self, rng: np.random.Generator) -> NDArray[Any]:
        """Draw the records."""
        return self.decode(self.draw_codes(rng))

    def draw_file(self, rng: np.random.Generator, new: bool = False) -> DrawnFile:
        state = int(rng.choice(len(self.prior), p=self.prior))
        codes = rng.choice(len(self.levels), size=self.records + 1, p=self.law[state]).astype(np.int64)
        rows, value = self.levels.numbers[codes], self.states.numbers[state]
        table = pd.DataFrame(self.decode(codes[:-1]), columns=self.columns)
        return DrawnFile(table, rows[:-1], {self.name: value}, rows[-1])

    def decode(self, codes: Ints) -> NDArray[Any]:
        """Records as masks take them, from positions in the list of outcomes."""
        if self.levels.labelled:
            return np.array([self.levels.names[c] for c in codes], dtype=object)
        return np.asarray(self.levels.numbers[codes])

    def describe(self) -> str:
        """One phrase about the belief."""
        if self.likelihood is None:
            return f"one of {len(self.states)} values to be the confidential record"
        return (
            f"one of {len(self.states)} states {self.name} to have made {self.records} records with "
            f"{len(self.levels)} outcomes"
        )

    def entry_names(self, name: str, n: int | None = None) -> Sequence[Sequence[Hashable]]:
        """Names of the entries of the state, where it is the record itself."""
        return () if self.columns is None or self.likelihood is not None or name != self.name else (self.columns,)

    def check_target(self, target: BaseTarget) -> None:
        target.rows_in(self.records)
        if target.asks_row:
            return
        if target.entry is not None:
            check_index("column", target.entry[1], self.levels.columns)
        for term in target.terms:
            self._check_term(term, target)
        if not target.verbatim and (
            (self.states.labelled and target.asks(Kind.PARAMETER))
            or (self.levels.labelled and not target.asks_only(Kind.PARAMETER))
        ):
            raise InputError(
                "A function needs numbers, and these values are labels", target.describe(), "Give the values as numbers"
            )

    def _check_term(self, term: Term, target: BaseTarget) -> None:
        if term.kind is Kind.PARAMETER:
            if term.name != self.name:
                raise InputError("The belief has no such parameter", term.name, suggest(term.name, self.parameters))
            if term.component is not None:
                if self.states.numbers.ndim == 1:
                    raise InputError(
                        f"{self.name} is a number and has no components",
                        term.component,
                        f'Write Parameter("{self.name}")',
                    )
                check_index("component", term.component, self.states.columns)
        elif term.kind is Kind.RECORD:
            check_index("row", term.row, self.records)
        elif term.kind is Kind.NEW and self.likelihood is None:
            raise InputError(
                "Without a likelihood there is no population to draw a new record from",
                target.describe(),
                "Give likelihood=",
            )
        elif term.kind is Kind.AVERAGE and self.levels.labelled:
            raise InputError("Labels have no average", target.describe(), "Give outcomes as numbers")
        elif term.kind is Kind.CELL:
            raise InputError(
                "A FiniteBelief has no such target",
                target,
                f'Use Parameter("{self.name}"), Record(j), NewRecord(), Records(), Average() or a Functional of them',
            )

    def labels_of(self, target: BaseTarget) -> bool:
        return target.verbatim and (self.states if target.asks(Kind.PARAMETER) else self.levels).labelled


def _argument_of_user_function(levels: FiniteValues, place: int) -> Any:
    """A value as a user's function gets it."""
    return levels.names[place] if levels.labelled or levels.numbers.ndim == 1 else levels.numbers[place]
