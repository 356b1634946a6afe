"""What a user wants to know: one record, all records, a parameter, a function of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import (
    as_float_array,
    check_columns,
    check_finite,
    check_index,
    check_integer,
    check_list,
    check_number,
    check_text,
    is_single,
)
from .errors import InputError, failure
from .numerics.orderstatistics import percentile_rank
from .protocols import Array

__all__ = [
    "Average",
    "EachRecord",
    "Functional",
    "Identity",
    "Maximum",
    "Minimum",
    "NewRecord",
    "OrderStatistic",
    "Parameter",
    "Percentile",
    "Record",
    "Records",
]


def is_target(thing: Any) -> bool:
    """Whether something can be what a user wants: it describes itself, and is neither data, which pandas describes, nor a belief."""
    return (
        hasattr(thing, "describe")
        and not isinstance(thing, type)
        and not hasattr(thing, "__array__")
        and not hasattr(thing, "draw")
    )


@dataclass(frozen=True)
class Record:
    """The confidential record of one respondent, by its row (counted from 0).

    >>> Record(3)
    Record(3)
    """

    row: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "row", check_integer("row", self.row))

    def __repr__(self) -> str:
        return f"Record({self.row})"

    def describe(self) -> str:
        return f"record {self.row}"


@dataclass(frozen=True)
class Records:
    """All confidential records at once.

    Losses add up over the records. Weights are those of one record's variables, the same for every record, or one for each
    entry of the file, record by record.
    """

    def describe(self) -> str:
        return "all records"


@dataclass(frozen=True)
class EachRecord:
    """Every record by itself, each as if it alone were the target; one number is made of their uncertainties.

    Risk falls with U, so the riskiest record is the one with the least U, and the quantile of the risks at level q is
    that of the U at level 1 - q, whichever decreasing function risk is. The mean is the mean of U. `record_risk` keeps the
    records apart.

    Parameters
    ----------
    aggregate : "max", "mean" or a number from 0 to 1, default "max"
        The riskiest record, the average record, or the record at this quantile of the risks (the next riskier one where
        the quantile falls between two, so that at least that share of the records has no more risk).
    rows : list of int, optional
        The records in question, all of them if not given.

    Examples
    --------
    >>> [float(each.of([5.0, 1.0, 3.0])) for each in (EachRecord(), EachRecord("mean"), EachRecord(0.5))]
    [1.0, 3.0, 3.0]
    """

    aggregate: Any = "max"
    rows: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.aggregate, str):
            if self.aggregate not in ("max", "mean"):
                raise InputError(
                    'aggregate must be "max", "mean" or a number from 0 to 1', self.aggregate, "Write EachRecord(0.95)"
                )
        else:
            object.__setattr__(self, "aggregate", check_number("aggregate", self.aggregate, low=0, high=1))
        if self.rows is not None:
            rows = tuple(
                check_integer("rows", r) for r in check_list("rows", self.rows, "Leave rows out for all records")
            )
            if not rows:
                raise InputError("rows must not be empty", self.rows, "Leave rows out for all records")
            if len(set(rows)) != len(rows):
                raise InputError("rows names a record twice", list(rows), "Name each record once")
            object.__setattr__(self, "rows", rows)

    def rows_in(self, n: int) -> NDArray[np.int64]:
        """The rows among ``n``, each once."""
        if self.rows is None:
            return np.arange(n)
        found = [check_index("rows", r, n) for r in self.rows]
        if len(set(found)) != len(found):
            raise InputError("rows names a record twice", list(self.rows), "Name each record once")
        return np.array(found, dtype=np.int64)

    def of(self, uncertainties: Any) -> Any:
        """One number of the uncertainties of the records, which are on the last axis."""
        u = np.asarray(uncertainties, dtype=np.float64)
        if self.aggregate == "mean":
            return u.mean(axis=-1)[()]
        if self.aggregate == "max":
            return u.min(axis=-1)[()]
        return np.take(np.sort(u, axis=-1), self.rank_from_below(u.shape[-1]), axis=-1)[()]

    def rank_from_below(self, count: int) -> int:
        """Where the aggregate stands among ``count`` uncertainties in ascending order, counted from 0."""
        if self.aggregate == "max":
            return 0
        # At least that share of the risks is no larger: rank ceil(q count) of the risks, from below.
        rank = max(1, int(np.ceil(float(self.aggregate) * count - 1e-9)))
        return count - rank

    def describe(self) -> str:
        whose = "each record" if self.rows is None else f"each of {len(self.rows)} records"
        how = {"max": "the riskiest one counts", "mean": "on average"}.get(self.aggregate, "")
        return f"{whose} ({how or f'the risk at quantile {self.aggregate:g} counts'})"


@dataclass(frozen=True)
class NewRecord:
    """A record of a respondent who is not in the file, drawn from the same population."""

    def describe(self) -> str:
        return "the record of somebody outside the file"


@dataclass(frozen=True)
class Parameter:
    """A parameter of the population model, by name.

    ``component`` picks one entry of a vector parameter.

    >>> Parameter("mu")
    Parameter('mu')
    """

    name: str
    component: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError("A parameter is named by text", self.name, 'Write Parameter("mu")')
        if self.component is not None:
            object.__setattr__(self, "component", check_integer("component", self.component))

    def __repr__(self) -> str:
        return (
            f"Parameter({self.name!r})"
            if self.component is None
            else f"Parameter({self.name!r}, component={self.component})"
        )

    def describe(self) -> str:
        return f"the parameter {self.name}" + ("" if self.component is None else f"[{self.component}]")


@dataclass(frozen=True)
class Average:
    """The mean of the confidential records in the file (not of the population)."""

    def describe(self) -> str:
        return "the average of the records in the file"


@dataclass(frozen=True)
class Identity:
    """Which row of the release is a respondent's, for an intruder who knows some of the respondent's confidential columns.

    The release carries no names and its order tells nothing: before the release every place in the file is equally
    likely to be the respondent's, whether or not the mask shuffles. The target is that place: the rows of the release in
    their order, 0, 1, ..., then the places that were not released (`Subsample`); the probability of those together is
    the probability that the respondent is not in the release. Bayes' rule gives place i the weight p(known | release, i).
    Under `ZeroOne` 1 - U is the expected chance of a correct match. Winkler (2004), Duncan and Lambert (1989).

    Parameters
    ----------
    row : int, list of ints or "all"
        The respondent's row in the confidential file, counted from 0. With several, U is the average over them.
    known : names or positions, optional
        Columns that the intruder knows; all of them if not given.
    error_variance, error_sd : number or one per known column, optional
        Variance or standard deviation of normal errors in what the intruder knows; exact if not given.
    values : numbers, optional
        What the intruder knows, one per known column (one row of them per respondent if there are several). If not
        given, the respondent's own record tells, plus an error drawn with the stated size. `posterior` needs them.

    Examples
    --------
    >>> Identity(3, known=["age", "income"], error_sd=[1, 500]).describe()
    "which row is record 3's, knowing 'age' and 'income' with errors"
    """

    row: Any
    known: Any = None
    error_variance: Any = None
    error_sd: Any = None
    values: Any = None

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        if isinstance(self.row, str):
            if self.row != "all":
                raise InputError(
                    'row must be a row, a list of rows or "all"', self.row, "Write Identity(0, known=[...])"
                )
        elif is_single(self.row):
            put("row", check_integer("row", self.row))
        else:
            rows = tuple(check_integer("row", r) for r in self.row)
            if not rows:
                raise InputError(
                    'row must be a row, a flat list of rows or "all"', self.row, "Write Identity([0, 3], known=[...])"
                )
            put("row", rows)
        if self.known is not None:
            known = (self.known,) if is_single(self.known) else tuple(self.known)
            if not known:
                raise InputError(
                    "known must not be empty", self.known, "Name a column; one who knows nothing gains by no release"
                )
            put("known", known)
        if self.error_variance is not None and self.error_sd is not None:
            raise InputError("Give error_variance or error_sd", "both", "Leave one of them out")
        for name in ("error_variance", "error_sd"):
            given = getattr(self, name)
            if given is not None:
                array = check_finite(name, as_float_array(name, given))
                if array.ndim > 1 or array.size == 0 or np.any(array < 0):
                    raise InputError(
                        f"{name} must be a number of at least 0, or one per known column", given, f"Write {name}=2"
                    )
                put(name, float(array) if array.ndim == 0 else tuple(array.tolist()))
        if self.values is not None:
            put("values", _rows_of_values(self.values))

    @property
    def exact(self) -> bool:
        """Whether the intruder knows the columns without error."""
        return not np.any(np.asarray(self.error_variance or 0.0)) and not np.any(np.asarray(self.error_sd or 0.0))

    def rows_in(self, n: int) -> NDArray[np.int64]:
        """The respondents' rows among ``n``, each once."""
        if isinstance(self.row, str):
            return np.arange(n)
        rows = [check_index("row", r, n) for r in (self.row if isinstance(self.row, tuple) else (self.row,))]
        if len(set(rows)) != len(rows):
            raise InputError("row names a respondent twice", list(rows), "Name each respondent once")
        return np.array(rows, dtype=np.int64)

    def columns_in(self, names: Sequence[Any]) -> list[int]:
        """Positions of the known columns among ``names``."""
        return list(range(len(names))) if self.known is None else check_columns("known", self.known, names)

    def variances(self, size: int) -> Array:
        """Error variance of each of ``size`` known columns."""
        name = "error_variance" if self.error_variance is not None else "error_sd"
        given = np.atleast_1d(np.asarray(0.0 if getattr(self, name) is None else getattr(self, name), dtype=np.float64))
        if len(given) not in (1, size):
            raise InputError(
                f"{name} must have {size} entries, one per known column",
                len(given),
                "Give one number, or one per column",
            )
        return np.broadcast_to(given if name == "error_variance" else given**2, (size,)).copy()

    def describe(self) -> str:
        if isinstance(self.row, str):
            whose = "each record's"
        elif isinstance(self.row, tuple):
            whose = f"each of {len(self.row)} records'"
        else:
            whose = f"record {self.row}'s"
        what = "all columns" if self.known is None else " and ".join(repr(c) for c in self.known)
        return f"which row is {whose}, knowing {what} {'exactly' if self.exact else 'with errors'}"


def _rows_of_values(values: Any) -> tuple[tuple[Any, ...], ...]:
    """What an intruder knows, one row per respondent."""
    try:
        table = np.asarray(values, dtype=object)
        rows = [[values]] if is_single(values) else (table if table.ndim == 2 else table[None]).tolist()
    except (TypeError, ValueError):  # rows of several lengths
        table, rows = np.empty(0), []
    if table.ndim > 2 or table.size == 0:
        # What the intruder knows is a confidential record: it stays out of the message.
        raise InputError(
            "values must be one per known column", f"shape {table.shape}", "Give a list, or one list per respondent"
        )
    return tuple(map(tuple, rows))


@dataclass(frozen=True)
class OrderStatistic:
    """The confidential record of a given rank, 1 for the smallest; of several variables each is ranked apart.

    Ranks outside 1..n are refused when the number of records n is known. Records that are equal are ranked in the
    order of the file. For snoopers: Duncan et al. (2001), sections 4.2, 4.3 and V.

    >>> OrderStatistic(3).rank_in(10)
    3
    """

    rank: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", check_integer("rank", self.rank, low=1))

    def rank_in(self, n: int) -> int:
        """The rank among ``n`` records."""
        return check_integer("rank", self.rank, low=1, high=n)

    def describe(self) -> str:
        return f"the record of rank {self.rank} from below"


@dataclass(frozen=True)
class Percentile:
    """The confidential record at the p-th sample percentile, the one of rank n p.

    Where n p is not a whole number the next rank up is used, ceil(n p); the minimum and the maximum have classes
    of their own. Duncan et al. (2001), section 4.2.

    >>> Percentile(0.99).rank_in(200), Percentile(0.1).rank_in(177)
    (198, 18)
    """

    p: float

    def __post_init__(self) -> None:
        inside = "a number strictly between 0 and 1"
        try:
            object.__setattr__(self, "p", check_number("p", self.p, low=0, high=1, open_low=True, open_high=True))
        except InputError:
            do = "The record of rank ceil(n p) is meant; use Minimum() or Maximum() for the ends"
            raise InputError(f"p must be {inside}", self.p, do) from None

    def rank_in(self, n: int) -> int:
        """The rank among ``n`` records, ceil(n p)."""
        return percentile_rank(n, self.p)

    def describe(self) -> str:
        return f"the record at sample percentile {self.p:g}, of rank ceil({self.p:g} n)"


@dataclass(frozen=True)
class Maximum:
    """The largest confidential record; of several variables each has its own."""

    def rank_in(self, n: int) -> int:
        """The rank among ``n`` records."""
        return n

    def describe(self) -> str:
        return "the largest record"


@dataclass(frozen=True)
class Minimum:
    """The smallest confidential record; of several variables each has its own."""

    def rank_in(self, n: int) -> int:
        """The rank among ``n`` records."""
        return 1

    def describe(self) -> str:
        return "the smallest record"


@dataclass(frozen=True)
class Functional:
    """A function of other targets.

    Parameters
    ----------
    function : callable or array
        A callable receives one argument per entry of ``of`` (a number, or an array of length k) and gives
        back a number or a vector. An array is a matrix of coefficients on the stacked entries. Linear
        functions are recognised, whichever way they are given, and stay exact.
    of : target or list of targets
        What the function is taken of.

    Examples
    --------
    >>> difference = Functional(lambda a, b: a - b, of=[Record(0), Record(1)])
    >>> ratio = Functional(lambda a, b: a / b, of=[Record(0), Average()], name="share of the mean")
    """

    function: Callable[..., Any] | Any
    of: Any
    name: str | None = None
    parts: tuple[Any, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = tuple(self.of) if isinstance(self.of, Sequence) else (self.of,)
        if not parts or not all(map(is_target, parts)):
            raise InputError("A Functional is taken of targets", self.of, 'Write of=[Record(0), Parameter("mu")]')
        if any(isinstance(p, Functional) for p in parts):
            raise InputError(
                "A Functional of a Functional is not supported", self.of, "Write one function of records and parameters"
            )
        if not callable(self.function):
            matrix = check_finite("function", as_float_array("function", self.function))
            if matrix.ndim > 2 or matrix.size == 0:
                do = "Give one row of coefficients per number that is wanted"
                raise InputError("function must be callable or a matrix of coefficients", f"shape {matrix.shape}", do)
        if self.name is not None:
            check_text("name", self.name, "Leave it out, or say what the function gives")
        object.__setattr__(self, "of", parts)
        object.__setattr__(self, "parts", parts)

    def __call__(self, stacked: Array, sizes: Sequence[int], scalars: Sequence[bool]) -> Array:
        """Apply to stacked values ``(..., sum(sizes))``; gives back ``(..., m)`` or ``(...)``."""
        if not callable(self.function):
            matrix = np.atleast_2d(np.asarray(self.function, dtype=np.float64))
            if matrix.shape[1] != stacked.shape[-1]:
                raise InputError(
                    f"The coefficients must have {stacked.shape[-1]} columns",
                    f"shape {matrix.shape}",
                    "Give one coefficient per entry of the targets",
                )
            result = stacked @ matrix.T
            return result[..., 0] if np.ndim(self.function) == 1 else result
        edges = np.cumsum([0, *sizes])
        spans = list(zip(edges[:-1], edges[1:], scalars, strict=True))
        flat = stacked.reshape(-1, stacked.shape[-1])

        def one(point: Array) -> Array:
            arguments = [float(point[a]) if scalar else point[a:b] for a, b, scalar in spans]
            try:
                return np.asarray(self.function(*arguments), dtype=np.float64)
            except Exception as error:
                # Arguments and text stay out of the message: they may be, or quote, confidential records.
                raise InputError(
                    f"The function of {', '.join(p.describe() for p in self.parts)} fails",
                    failure(error),
                    "Let it take one argument per target and give back a number or a vector",
                ) from None

        together = self._together(flat, spans, one)
        if together is not None:
            return together.reshape(stacked.shape[:-1] + together.shape[1:])
        rows = [one(point) for point in flat]
        result = np.stack(rows)
        if result.ndim > 2:
            raise InputError(
                "The function must give a number or a vector", f"shape {result.shape[1:]}", "Flatten what it gives back"
            )
        return result.reshape(stacked.shape[:-1] + result.shape[1:])

    def _together(self, flat: Array, spans: Sequence[Any], one: Callable[[Array], Array]) -> Array | None:
        """All points in one call, for functions written in array arithmetic; None if the function is not.

        A vector argument is given with its components first, so that ``m[0]`` is the first component of every point.
        Points at both ends and in the middle are computed one by one as well, and must agree.
        """
        if len(flat) < 32:
            return None
        try:
            with np.errstate(all="ignore"):
                found = np.asarray(
                    self.function(*[flat[:, a] if scalar else flat[:, a:b].T for a, b, scalar in spans]),
                    dtype=np.float64,
                )
        except Exception:
            # Whatever goes wrong with arrays, point by point is the definition and says what is really wrong.
            return None
        if found.ndim not in (1, 2) or found.shape[-1] != len(flat):
            return None
        found = found if found.ndim == 1 else found.T
        some = [0, len(flat) // 3, len(flat) // 2, len(flat) - 1]
        alone = [one(flat[i]) for i in some]
        if any(a.shape != found.shape[1:] for a in alone) or not np.allclose(
            found[some], np.stack(alone), rtol=1e-12, equal_nan=True
        ):
            return None
        return found

    def linear(self, sizes: Sequence[int], scalars: Sequence[bool]) -> tuple[Array, Array, bool] | None:
        """Return (matrix, constant, is a number) if the function is affine, else None.

        A callable is probed at the origin, along each axis and at ten random points of three sizes.
        """
        width = int(np.sum(sizes))
        try:
            with np.errstate(all="ignore"):
                constant = self(np.zeros((1, width)), sizes, scalars)[0]
                axes = self(np.eye(width), sizes, scalars)
        except (ZeroDivisionError, FloatingPointError, ValueError, OverflowError):
            return None
        scalar = constant.ndim == 0
        constant = np.atleast_1d(constant)
        matrix = (axes.reshape(width, -1) - constant).T
        if not (np.all(np.isfinite(constant)) and np.all(np.isfinite(matrix))):
            return None
        if callable(self.function):
            rng = np.random.default_rng(0)
            probes = np.concatenate([rng.standard_normal((4, width)) * s for s in (1e-2, 1.0, 1e3)])
            try:
                with np.errstate(all="ignore"):
                    seen = self(probes, sizes, scalars).reshape(len(probes), -1)
            except (ZeroDivisionError, FloatingPointError, ValueError, OverflowError):
                return None
            told = probes @ matrix.T + constant
            room = 1e-9 * (1.0 + np.abs(constant) + np.abs(probes) @ np.abs(matrix).T)
            if not np.all(np.abs(seen - told) <= room):
                return None
        return matrix, constant, scalar

    def describe(self) -> str:
        if self.name:
            return self.name
        of = ", ".join(p.describe() for p in self.parts)
        return f"a function of {of}"
