"""Designs from formulas: ``"y ~ a + b"`` read here, anything richer by formulaic where it is installed.

The small reader knows names, ``a:b``, ``a*b``, ``C(a)``, names in backticks or ``Q("...")``, ``.`` for all other columns, and
``- 1`` or ``+ 0`` for no intercept. It is quick because a map fits the same formula thousands of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ...checks import suggest
from ...errors import InputError, UnsupportedError, failure
from ...protocols import Array
from ..frames import Levels, is_number, levels_of, vector

__all__ = ["Design", "Formula", "design", "read", "without_levels"]

NAME = r"`[^`]+`|Q\(\s*(?:\"[^\"]+\"|'[^']+')\s*\)|C\(\s*(?:`[^`]+`|\w+)\s*\)|[^\W\d]\w*(?:\.\w+)*|\.|\b[01]\b"
SIMPLE = re.compile(rf"\s*(?:(?P<name>{NAME})|(?P<sign>[-+:*]))")


@dataclass(frozen=True)
class Formula:
    """A formula as text and, where the small reader understands it, its parts."""

    text: str
    response: Any = None
    terms: tuple[tuple[Any, ...], ...] | None = None
    intercept: bool = True
    factors: frozenset[Any] = frozenset()
    variables: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Design:
    """A formula with the levels of its categorical variables: turns a table into a response and a matrix."""

    formula: Formula
    levels: dict[Any, Levels]
    names: tuple[str, ...]
    spec: Any = field(default=None, repr=False)

    @property
    def intercept(self) -> bool:
        """True if the first coefficient is the intercept."""
        return self.formula.intercept if self.spec is None else self.names[:1] == ("Intercept",)

    def response(self, table: pd.DataFrame) -> pd.Series:
        """The response as a column; a name, or the left side of a richer formula."""
        if self.spec is None:
            return table[self.formula.response]
        return pd.Series(self._side(self.spec.lhs, table)[:, 0], name=self.formula.text.split("~")[0].strip())

    def rows(self, table: pd.DataFrame, which: str) -> Array:
        """The design matrix, one row per coefficient (transposed), and one spare row at the end for the response."""
        formula = self.formula
        if self.spec is not None:
            return np.vstack([self._side(self.spec.rhs, table).T, np.empty(len(table))])
        assert formula.terms is not None
        parts: dict[Any, Array] = {}
        for variable in {v for term in formula.terms for v in term}:
            if variable in self.levels:
                codes = np.asarray(self.levels[variable].codes(table[variable]))
                parts[variable] = (np.arange(1, len(self.levels[variable]))[:, None] == codes).astype(np.float64)
            else:
                parts[variable] = vector("A regression", table[variable], which)[None, :]
        out = np.empty((len(self.names) + 1, len(table)))
        row = 0
        if formula.intercept:
            out[0] = 1.0
            row = 1
        for term in formula.terms:
            block = parts[term[0]]
            for variable in term[1:]:
                block = (block[:, None, :] * parts[variable][None, :, :]).reshape(-1, len(table))
            out[row : row + len(block)] = block
            row += len(block)
        return out

    def _side(self, spec: Any, table: pd.DataFrame) -> Array:
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused by name later
                return np.asarray(spec.get_model_matrix(self._leveled(table)), dtype=np.float64)
        except Exception as error:
            raise _cannot(self.formula.text, error) from None

    def _leveled(self, table: pd.DataFrame) -> pd.DataFrame:
        # numpy's functions keep the seven digits of narrow floats.
        narrow = {
            c: np.float64
            for c, t in table.dtypes.items()
            if isinstance(t, np.dtype) and t.kind == "f" and t.itemsize < 8
        }
        table = table.astype(narrow) if narrow else table
        if not self.levels:
            return table
        return table.assign(
            **{
                str(c): pd.Categorical(table[c].astype(object), categories=pd.Index(v.values, dtype=object))
                for c, v in self.levels.items()
            }
        )


def read(text: str, table: pd.DataFrame) -> Formula:
    """Read a formula against a table's columns; unknown names are an error that lists what is near."""
    if not isinstance(text, str) or text.count("~") != 1:
        raise InputError("A formula has a response and predictors", text, 'Write "y ~ a + b"')
    left, right = (side.strip() for side in text.split("~"))
    if not left or not right:
        raise InputError("A formula has a response and predictors", text, 'Write "y ~ a + b"')
    return _read(text, left, right, tuple(table.columns))


@lru_cache(maxsize=64)
def _read(text: str, left: str, right: str, columns: tuple[Any, ...]) -> Formula:
    # A map reads the same formula for every release and measure.
    parsed = _parse(text, left, right, columns)
    return parsed if parsed is not None else _rich(text, columns)


def design(formula: Formula, *tables: pd.DataFrame) -> Design:
    """The design for the levels that occur in any of the tables.

    The first level is the reference; with several tables it is the first level that all of them have.
    """
    kinds = [dict(zip(t.columns, map(is_number, t.dtypes), strict=True)) for t in tables]
    wanted = formula.variables if formula.terms is None else dict.fromkeys(v for t in formula.terms for v in t)
    levels = {v: _joint_levels(v, tables) for v in wanted if v != formula.response and _is_factor(formula, v, kinds)}
    if formula.terms is None:
        return _rich_design(formula, levels, tables[0])
    hollow = [
        ":".join(map(str, t))
        for t in formula.terms
        if len(t) > 1 and any(v in levels for v in t) and not _margins(t, formula.terms)
    ]
    if (levels and not formula.intercept) or hollow:
        # Which indicators are redundant is then a question for a full formula library.
        return _rich_design(formula, levels, tables[0])
    names = ["Intercept"] if formula.intercept else []
    for term in formula.terms:
        labels = [""]
        for variable in term:
            own = [f"{variable}[T.{v}]" for v in levels[variable].values[1:]] if variable in levels else [str(variable)]
            labels = [f"{a}:{b}" if a else b for a in labels for b in own]
        names += labels
    return Design(formula, levels, tuple(names))


def _parse(text: str, left: str, right: str, columns: tuple[Any, ...]) -> Formula | None:
    response = _column(left, columns)
    if response is None:
        return None
    tokens, place = [], 0
    while place < len(right):
        match = SIMPLE.match(right, place)
        if match is None:
            return None
        tokens.append(match["name"] or match["sign"])
        place = match.end()
        if right[place:].strip() == "":
            break
    if len(tokens) % 2 == 0 and tokens[0] in "+-":
        tokens = ["1", *tokens]
    if len(tokens) % 2 == 0 or any((t in ("+", "-", ":", "*")) != bool(i % 2) for i, t in enumerate(tokens)):
        return None
    terms: list[tuple[Any, ...]] = []
    mentioned: list[Any] = []
    factors: set[Any] = set()
    intercept = True
    sign, group = "+", [tokens[0]]
    crossed: list[str] = []
    pieces: list[tuple[str, list[str], list[str]]] = []
    for operator, name in zip(tokens[1::2], tokens[2::2], strict=True):
        if operator in ":*":
            group.append(name)
            crossed.append(operator)
        else:
            pieces.append((sign, group, crossed))
            sign, group, crossed = operator, [name], []
    pieces.append((sign, group, crossed))
    for sign, group, crossed in pieces:
        if group in (["0"], ["1"]):
            intercept = (group == ["1"]) == (sign == "+")
            continue
        if any(g in ("0", "1") for g in group) or (len(set(crossed)) > 1):
            return None
        if group == ["."]:
            new = [(c,) for c in columns if c != response]
        else:
            named = []
            for name in group:
                variable = _column(name, columns)
                if variable is None:
                    return None
                if name.startswith("C("):
                    factors.add(variable)
                named.append(variable)
                mentioned.append(variable)
            if len(set(named)) != len(named):
                return None
            sizes = range(1, len(named) + 1) if "*" in crossed else [len(named)]
            new = [c for size in sizes for c in combinations(named, size)]
        seen = {frozenset(t) for t in terms}
        if sign == "+":
            terms += [t for t in new if frozenset(t) not in seen]
        else:
            gone = {frozenset(t) for t in new}
            terms = [t for t in terms if frozenset(t) not in gone]
    if any(response in t for t in terms):
        raise InputError("The response is among the predictors", text, "Leave it out on the right side")
    if not terms and not intercept:
        raise InputError("A formula needs at least one coefficient", text, 'Write "y ~ a + b"')
    terms.sort(key=len)
    variables = tuple(dict.fromkeys([response, *(v for t in terms for v in t), *mentioned]))
    return Formula(text, response, tuple(terms), intercept, frozenset(factors), variables)


def _column(name: str, columns: tuple[Any, ...]) -> Any:
    """The column that a name in a formula means; None if the text is not a plain name."""
    if re.fullmatch(NAME, name) is None or name in (".", "0", "1"):
        return None
    plain = re.sub(r"^(?:Q|C)\(\s*|\s*\)$", "", name) if name[:2] in ("Q(", "C(") else name
    plain = plain.strip("`\"'")
    if plain in columns:
        return plain
    by_text = [c for c in columns if str(c) == plain]
    if by_text:
        return by_text[0]
    raise InputError("The formula names a column that is not there", plain, suggest(plain, [str(c) for c in columns]))


def _is_factor(formula: Formula, variable: Any, kinds: list[dict[Any, bool]]) -> bool:
    numbers = {kind[variable] for kind in kinds}
    if formula.terms is not None and variable not in formula.factors and len(numbers) > 1:
        raise InputError(
            "A variable must be of one kind in both files",
            f"{variable}: a number in one only",
            "Convert it in one of them",
        )
    return variable in formula.factors or not kinds[0][variable]


def _joint_levels(variable: Any, tables: tuple[pd.DataFrame, ...]) -> Levels:
    own = [levels_of(t[variable]) for t in tables]
    joint = own[0]
    for table in tables[1:]:
        joint = joint.plus(table[variable])
    common = [v for v in joint.values if all(v in set(o.values) for o in own)]
    if not common:
        raise InputError(
            f"The files have no category of {variable} in common",
            f"{len(own[0])} in one and {len(joint) - len(own[0])} others in the other",
            "Recode the original in the same way first",
        )
    return Levels([common[0], *(v for v in joint.values if v != common[0])])


def _margins(term: tuple[Any, ...], terms: tuple[tuple[Any, ...], ...]) -> bool:
    have = {frozenset(t) for t in terms}
    return all(frozenset(c) in have for size in range(1, len(term)) for c in combinations(term, size))


def _rich(text: str, columns: tuple[Any, ...]) -> Formula:
    formulaic = _formulaic(text)
    try:
        needed = {str(v) for v in formulaic.Formula(text).required_variables}
    except Exception as error:
        raise InputError(
            "The formula cannot be read", text, f'Write it like "y ~ a + b" ({type(error).__name__}: {str(error)[:80]})'
        ) from None
    known = {str(c): c for c in columns}
    # Names inside some functions are not reported; a column that is spelled out in the text is needed as well.
    needed |= {name for name in known if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)}
    lost = sorted(needed - set(known))
    if lost:
        raise InputError("The formula names columns that are not there", ", ".join(lost), suggest(lost[0], list(known)))
    return Formula(text, variables=tuple(c for c in columns if str(c) in needed))


def _rich_design(formula: Formula, levels: dict[Any, Levels], table: pd.DataFrame) -> Design:
    formulaic = _formulaic(formula.text)
    bare = Design(formula, levels, ())
    text = formula.text
    try:
        with np.errstate(all="ignore"):
            matrices = formulaic.Formula(text).get_model_matrix(
                bare._leveled(table), na_action="raise", context={"np": np}, ensure_full_rank=True
            )
    except Exception as error:
        raise _cannot(text, error) from None
    if np.asarray(matrices.lhs).shape[1] != 1:
        raise InputError("The response must be one number per record", text, "Give a numeric response")
    return Design(formula, levels, tuple(map(str, matrices.rhs.columns)), matrices.model_spec)


def without_levels(names: Iterable[str]) -> str:
    """Names of coefficients for an error: their variables, without the categories, which are values of records.

    >>> without_levels(["age", "trade[T.farrier]", "trade[T.smith]", "age:trade[T.smith]"])
    'age, trade, age:trade'
    """
    return ", ".join(dict.fromkeys(re.sub(r"\[.*?\](?=:|$)", "", name) for name in names))


def _cannot(text: str, error: Exception) -> InputError:
    # What formulaic says may quote values.
    return InputError("The formula cannot be evaluated", text, f"formulaic fails with {failure(error)}")


def _formulaic(text: str) -> Any:
    try:
        import formulaic
    except ImportError:
        raise UnsupportedError(
            f"The formula {text!r} needs the package formulaic, which is not installed",
            do='Install formulaic, or add the columns yourself and write "y ~ a + b"',
        ) from None
    return formulaic
