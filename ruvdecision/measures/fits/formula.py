"""Designs from formulas: formulaic reads the text, and builds what is richer than columns and their products.

Columns, categories and products of them are built here, because a map fits the same formula thousands of times and
formulaic's own matrix costs several times a whole fit (benchmarks/bench_measures.py, two statsmodels fits / IO).
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from ...checks import suggest
from ...errors import InputError, describe_failure
from ...masks.columns import is_categorical
from ...protocols import Array
from ..frames import ColumnCategories, categories_of, is_number, vector

CALL = re.compile(r"""([CQ])\(\s*(?:`([^`]+)`|"([^"]+)"|'([^']+)'|(\w+))\s*\)""")
"""A column inside C(...), which makes it a category, or Q(...), which lets it have any name."""

ELEMENTWISE = ("log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "sqrt", "cbrt", "square", "abs", "sign")
"""Functions of one column, as they are or after ``np.``."""

SPREADING = ("poly", "bs", "cr", "cs", "cc")
"""Transforms that make several columns of one."""

TRANSFORMS = ("C", "I", "Q", "center", "scale", "standardize", *SPREADING, *ELEMENTWISE)
CODINGS = (*(f"contr.{name}" for name in ("treatment", "sum", "helmert", "diff", "poly", "SAS")), "Treatment")
"""How the indicators of a category are coded, inside C(...)."""

MOST_COLUMNS, MOST_PRODUCTS = 100, 1_000_000
FEW_COLUMNS = 1000
"""Columns of a design that any file may have, and twice its records more."""
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor)
COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


@dataclass(frozen=True)
class ParsedFormula:
    """A formula as text and, where it has columns and their products only, its parts."""

    text: str
    variables: tuple[Hashable, ...]
    response: Hashable = None
    terms: tuple[tuple[Hashable, ...], ...] | None = None
    intercept: bool = True
    factors: frozenset[Hashable] = frozenset()
    products: tuple[tuple[str, ...], ...] = ()
    """The text of the factors of each term on the right, also where they are no columns."""


@dataclass(frozen=True)
class Design:
    """A formula with the levels of its categorical variables: turns a table into a response and a matrix."""

    formula: ParsedFormula
    levels: dict[Hashable, ColumnCategories]
    names: tuple[str, ...]
    spec: Any = field(default=None, repr=False, compare=False)

    @property
    def intercept(self) -> bool:
        """True if the first coefficient is the intercept."""
        return self.formula.intercept if self.spec is None else self.names[:1] == ("Intercept",)

    @property
    def terms(self) -> tuple[tuple[Hashable, ...], ...]:
        """The products of columns that the predictors are, where they are no more than that."""
        return self.formula.terms or ()

    @property
    def is_plain(self) -> bool:
        """True if all predictors are columns of numbers as they are."""
        return self.spec is None and not self.levels and bool(self.terms) and all(len(t) == 1 for t in self.terms)

    def response(self, table: pd.DataFrame) -> pd.Series:
        """The response as a column; a name, or the left side of a richer formula."""
        if self.spec is None:
            return table[self.formula.response]
        return pd.Series(self._side_matrix(self.spec.lhs, table)[:, 0], name=self.formula.text.split("~")[0].strip())

    def rows(self, table: pd.DataFrame, which: str) -> Array:
        """The design matrix, one row per coefficient (transposed), and one spare row at the end for the response."""
        formula = self.formula
        if self.spec is not None:
            return np.vstack([self._side_matrix(self.spec.rhs, table).T, np.empty(len(table))])
        parts: dict[Hashable, Array] = {}
        for variable in {v for term in self.terms for v in term}:
            if variable in self.levels:
                codes = self.levels[variable].codes(table[variable])
                parts[variable] = (np.arange(1, len(self.levels[variable]))[:, None] == codes).astype(np.float64)
            else:
                parts[variable] = vector("A regression", table[variable], which)[None, :]
        out = np.empty((len(self.names) + 1, len(table)))
        row = 0
        if formula.intercept:
            out[0] = 1.0
            row = 1
        for term in self.terms:
            block = parts[term[0]]
            for variable in term[1:]:
                block = (block[:, None, :] * parts[variable][None, :, :]).reshape(-1, len(table))
            out[row : row + len(block)] = block
            row += len(block)
        return out

    def _side_matrix(self, spec: Any, table: pd.DataFrame) -> Array:
        try:
            with _without_warnings():
                return np.asarray(
                    spec.get_model_matrix(self._with_all_levels(table), context=_allowed_functions()), dtype=np.float64
                )
        except Exception as error:
            raise _formula_error(self.formula.text, error, table) from None

    def _with_all_levels(self, table: pd.DataFrame) -> pd.DataFrame:
        # numpy's functions keep the seven digits of narrow floats.
        narrow = [c for c, t in table.dtypes.items() if t in (np.float16, np.float32)]
        table = table.astype(dict.fromkeys(narrow, np.float64)) if narrow else table
        coded = {str(c): pd.Categorical(table[c].astype(object), categories=v.index) for c, v in self.levels.items()}
        return table.assign(**coded) if coded else table


def read(text: str, table: pd.DataFrame, *, allow_code: bool = False) -> ParsedFormula:
    """Read a formula against a table's columns; unknown names are an error that lists what is near.

    A formula has columns, operators and the `TRANSFORMS`. Whatever else Python would run is refused by name, unless
    ``allow_code``.
    """
    if text.count("~") != 1 or not all(side.strip() for side in text.split("~")):
        raise InputError("A formula has a response and predictors", text, 'Write "y ~ a + b"')
    return _parse(text, tuple(table.columns.tolist()), allow_code)


@lru_cache(maxsize=64)
def _parse(text: str, columns: tuple[Hashable, ...], allow_code: bool) -> ParsedFormula:
    # A map reads the same formula for every release and measure.
    # A column that is called by a number must not pass for one.
    known = {_quotable_name(str(c)): c for c in reversed(columns)}
    spelled = re.sub(r"`(\d+)`", lambda quoted: f"`{_quotable_name(quoted[1])}`", text)
    from formulaic import Formula

    if not allow_code:
        _refuse_code(text, len(columns))
    try:
        # A dot means every column but the response.
        available = [_quotable_name(str(c)) for c in columns]
        parsed = Formula.from_spec(spelled, context={"__formulaic_variables_available__": available})
        left, right = (
            [[(f.expr, f.eval_method.value) for f in t.factors] for t in side] for side in (parsed.lhs, parsed.rhs)
        )
        needed = {str(v) for v in parsed.required_variables} - set(ELEMENTWISE)
    except Exception as error:
        # Below its first line formulaic shows the place in colours.
        do = f'Write it like "y ~ a + b" ({type(error).__name__}: {str(error).partition(chr(10))[0][:80]})'
        raise InputError("The formula cannot be read", text, do) from None
    # Names inside some functions are not reported; a column that is spelled out in the text is needed as well.
    needed |= {name for name in known if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", spelled)}
    needed |= {name for term in [*left, *right] for name, how in term if how == "lookup"}
    lost = sorted(name for name in needed - set(known) if not any(k.startswith(f"{name}.") for k in known))
    if lost:
        do = suggest(lost[0], [str(c) for c in columns])
        raise InputError("The formula names a column that is not there", ", ".join(lost), do)
    variables = tuple(c for c in columns if _quotable_name(str(c)) in needed)
    intercept = [("1", "literal")] in right
    terms = [[_column_of_factor(factor, known) for factor in term] for term in right if term != [("1", "literal")]]
    response = _column_of_factor(left[0][0], known) if len(left) == len(left[0]) == 1 else None
    products = tuple(tuple(expression for expression, _ in term) for term in right)
    if response is None or response[1] or any(factor is None for term in terms for factor in term):
        return ParsedFormula(text, variables, products=products)
    plain = tuple(tuple(column for column, _ in term) for term in terms)  # type: ignore[misc]
    if any(response[0] in term for term in plain):
        raise InputError("The response is among the predictors", text, "Leave it out on the right side")
    if not plain and not intercept:
        raise InputError("A formula needs at least one coefficient", text, 'Write "y ~ a + b"')
    factors = frozenset(column for term in terms for column, category in term if category)  # type: ignore[misc]
    return ParsedFormula(text, variables, response[0], plain, intercept, factors, products)


def _refuse_code(text: str, columns: int) -> None:
    """Refuse what is more than columns, operators and transforms, before formulaic evaluates any of it.

    Formulaic runs what it takes for Python with all that Python can do, some of it while it looks for variables.
    """
    from formulaic.parser.algos.tokenize import tokenize
    from formulaic.utils.code import sanitize_variable_names

    odd: str | None = None
    try:
        tokens = [(str(t.kind.value), str(t.token)) for t in tokenize(text)]
        for kind, token in tokens:
            if kind == "value" and token != ".":  # a dot stands for every other column
                ast.literal_eval(token)
            elif kind == "python" and odd is None:
                odd = _first_unsafe_part(ast.parse(sanitize_variable_names(token, {}, {}), mode="eval").body)
    except Exception as error:
        do = f'Write it like "y ~ a + b" ({describe_failure(error)})'
        raise InputError("The formula cannot be read", text, do) from None
    if odd is not None:
        do = f"Use columns, operators and {', '.join(TRANSFORMS)}; from Python, allow_code=True lets a formula be code"
        raise InputError("A formula may not run code", odd[:60], do)
    # (a + b) ** 9 and a * b * c are written out as products before anybody can count them.
    size, doublings = sum(columns if token == "." else kind in ("name", "python") for kind, token in tokens), 0.0
    for (kind, token), (_, after) in zip(tokens, [*tokens[1:], ("", "")], strict=True):
        if kind == "operator" and token in ("**", "^"):
            doublings += math.log2(max(size, 1)) * (min(int(after), 50) if after.isdigit() else 50)
        elif kind == "operator":
            doublings += token.count("*")
    if doublings > math.log2(MOST_PRODUCTS):
        raise InputError("The formula has too many products of columns", text, "Write out those that you want")


def _first_unsafe_part(node: ast.expr) -> str | None:
    """The first part of an expression that is neither a column, a number, an operator nor a transform; None if none."""
    parts: list[ast.expr] = []
    match node:
        case ast.Name() | ast.Constant(value=bool() | int() | float() | str() | None):
            return None
        case ast.Attribute() if ast.unparse(node) in CODINGS:
            return None
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            pass
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
            parts = [operand]
        case ast.BinOp(op=op, left=left, right=right) if isinstance(op, OPERATORS):
            texts = any(isinstance(n, (ast.List, ast.Tuple, ast.Constant)) and not _is_figure(n) for n in (left, right))
            # 9 ** 9 ** 9 and "a" * 10 ** 9 never end.
            if texts or (isinstance(op, ast.Pow) and not any(isinstance(n, ast.Name) for n in ast.walk(node))):
                return ast.unparse(node)
            parts = [left, right]
        case ast.Compare(left=left, ops=ops, comparators=others) if all(isinstance(op, COMPARISONS) for op in ops):
            parts = [left, *others]
        case ast.Call(func=function, args=args, keywords=keywords):
            name = ast.unparse(function)
            short = name.removeprefix("np.")
            figures = [n for part in [*args, *(k.value for k in keywords)] for n in ast.walk(part) if _is_figure(n)]
            if short in ELEMENTWISE:
                wrong = len(args) != 1 or bool(keywords)  # a second argument would be written to
            elif name in SPREADING:
                sizes = [n.value for n in figures]
                # 99 * 99 * 99 columns are asked for in small figures, too.
                wrong = any(abs(size) > MOST_COLUMNS for size in sizes if isinstance(size, int)) or not all(
                    map(_is_written_out, [*args[1:], *(k.value for k in keywords)])
                )
            else:
                wrong = name not in (*TRANSFORMS, *CODINGS)
            if wrong or any(k.arg is None or k.arg.startswith("_") for k in keywords):
                return ast.unparse(node) if name in TRANSFORMS or short in ELEMENTWISE else name
            parts = [*args, *(k.value for k in keywords)]
        case _:
            return ast.unparse(node)
    return next(filter(None, map(_first_unsafe_part, parts)), None)


def _is_figure(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float))


def _is_written_out(node: ast.expr) -> bool:
    """Whether an expression is a number, text or a list of such, so that nothing is computed."""
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return all(map(_is_written_out, parts))
        case ast.UnaryOp(operand=operand):
            return _is_figure(operand)
    return isinstance(node, ast.Constant)


def _refuse_size(
    formula: ParsedFormula, levels: dict[Hashable, ColumnCategories], tables: Sequence[pd.DataFrame]
) -> None:
    """Refuse a matrix whose columns, which grow with the categories of the data, could not be held."""
    rows = max(map(len, tables))
    if formula.terms is None:
        sizes = [[_most_columns(factor, formula, tables) for factor in term] for term in formula.products]
    else:
        sizes = [[len(levels[v]) if v in levels else 1 for v in term] for term in formula.terms]
    total = sum(map(math.prod, sizes))
    if total > 2 * rows + FEW_COLUMNS:
        got = f"up to {total:,} columns for {rows:,} records"
        raise InputError("The formula has too many products of columns", got, "Write out those that you want")


def _most_columns(factor: str, formula: ParsedFormula, tables: Sequence[pd.DataFrame]) -> int:
    """How many columns of a matrix a factor of a product becomes, at most."""
    if factor.startswith(tuple(f"{name}(" for name in SPREADING)):
        figures = [int(figure) for figure in re.findall(r"\d+", factor)]
        return len(figures) + max([3, *(size for size in figures if size <= MOST_COLUMNS)])
    many = 1
    for variable in formula.variables:
        if re.search(rf"(?<![\w.]){re.escape(_quotable_name(str(variable)))}(?!\w)", factor):
            categories = factor.startswith("C(") or not all(is_number(t[variable]) for t in tables)
            many *= max(t[variable].nunique() for t in tables) if categories else 1
    return min(many, max(map(len, tables)))


def _quotable_name(name: str) -> str:
    return f"column {name}" if name.isdigit() else name


def _column_of_factor(factor: tuple[str, str], known: dict[str, Hashable]) -> tuple[Hashable, bool] | None:
    """The column that a factor is, and whether as categories; None for what must be computed."""
    expression, how = factor
    if how == "lookup":
        return known[expression], False
    call = CALL.fullmatch(expression)
    name = next(filter(None, call.groups()[1:])) if call else ""
    return (known[name], expression.startswith("C")) if call and name in known else None


def design(formula: ParsedFormula, *tables: pd.DataFrame) -> Design:
    """The design for the levels that occur in any of the tables.

    The first level is the reference; with several tables it is the first level that all of them have.
    """
    kinds = [dict(zip(t.columns.tolist(), map(is_number, t.dtypes.tolist()), strict=True)) for t in tables]
    wanted = formula.variables if formula.terms is None else dict.fromkeys(v for t in formula.terms for v in t)
    levels = {v: _joint_levels(v, tables) for v in wanted if v != formula.response and _is_factor(formula, v, kinds)}
    _refuse_size(formula, levels, tables)
    if formula.terms is None:
        return _rich_design(formula, levels, tables[0])
    if levels and not (formula.intercept and _is_hierarchical(formula.terms, levels)):
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


def _is_factor(formula: ParsedFormula, variable: Hashable, kinds: list[dict[Hashable, bool]]) -> bool:
    numbers = {kind[variable] for kind in kinds}
    if formula.terms is not None and variable not in formula.factors and len(numbers) > 1:
        what = "A variable must be of one kind in both files"
        raise InputError(what, f"{variable}: a number in one only", "Convert it in one of them")
    return variable in formula.factors or not kinds[0][variable]


def _joint_levels(variable: Hashable, tables: tuple[pd.DataFrame, ...]) -> ColumnCategories:
    own = [categories_of(t[variable]) for t in tables]
    joint = own[0]
    for others in own[1:]:
        joint = joint.joined(others)
    common = [v for v in joint.values if all(v in set(o.values) for o in own)]
    if not common:
        raise InputError(
            f"The files have no category of {variable} in common",
            f"{len(own[0])} in one and {len(joint) - len(own[0])} others in the other",
            "Recode the original in the same way first",
        )
    return ColumnCategories([common[0], *(v for v in joint.values if v != common[0])])


def _is_hierarchical(terms: tuple[tuple[Hashable, ...], ...], levels: Container[Hashable]) -> bool:
    """True if every product with categories comes with all products of fewer of its variables."""
    have = {frozenset(t) for t in terms}
    products = [t for t in terms if len(t) > 1 and any(v in levels for v in t)]
    return all(frozenset(c) in have for t in products for size in range(1, len(t)) for c in combinations(t, size))


def _rich_design(formula: ParsedFormula, levels: dict[Hashable, ColumnCategories], table: pd.DataFrame) -> Design:
    from formulaic import Formula

    bare = Design(formula, levels, ())
    text = formula.text
    try:
        with _without_warnings():
            matrices = Formula(text).get_model_matrix(
                bare._with_all_levels(table), na_action="raise", context=_allowed_functions(), ensure_full_rank=True
            )
    except Exception as error:
        raise _formula_error(text, error, table) from None
    if np.asarray(matrices.lhs).shape[1] != 1:
        raise InputError("The response must be one number per record", text, "Give a numeric response")
    return Design(formula, levels, tuple(map(str, matrices.rhs.columns)), matrices.model_spec)


def _allowed_functions() -> dict[str, Any]:
    return {"np": np, **{name: getattr(np, name) for name in ELEMENTWISE}}


@contextmanager
def _without_warnings() -> Iterator[None]:
    """No word of what is not finite, which is refused by name later, and none of categories, which are records."""
    from formulaic.errors import DataMismatchWarning

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error", DataMismatchWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def variables_of_coefficients(names: Iterable[str]) -> str:
    """Names of coefficients for an error: their variables, without the categories, which are values of records.

    >>> variables_of_coefficients(["age", "trade[T.farrier]", "trade[T.smith]", "age:trade[T.smith]"])
    'age, trade, age:trade'
    """
    return ", ".join(dict.fromkeys(re.sub(r"\[.*?\](?=:|$)", "", name) for name in names))


def _formula_error(text: str, error: Exception, table: pd.DataFrame) -> InputError:
    if isinstance(error, Warning):
        what = "The formula names levels, and others occur in the data"
        return InputError(what, text, "Name all levels of the category, or recode it first")
    for name in (*TRANSFORMS, "np", "contr"):
        if name in table.columns and re.search(rf"(?<![\w.]){name}[(.]", text):
            return InputError("A column has the name of a function that the formula uses", name, "Rename the column")
    # What formulaic says may quote values.
    return InputError("The formula cannot be evaluated", text, f"formulaic fails with {describe_failure(error)}")


@dataclass(frozen=True)
class FileKinds:
    """What a design needs to know of a file before it reads it: which variables are numbers, the others' categories.

    Found piece by piece.
    """

    numbers: dict[Hashable, bool]
    levels: dict[Hashable, tuple[Hashable, ...]]
    order: dict[Hashable, tuple[Hashable, ...]]
    """All categories of a categorical column in their order, whether they occur or not."""

    @classmethod
    def of(cls, table: pd.DataFrame, factors: Container[Hashable]) -> FileKinds:
        """Look at one piece."""
        numbers = {c: is_number(table[c]) for c in table.columns}
        chosen = [c for c in table.columns if c in factors or not numbers[c]]
        order = {c: tuple(table[c].cat.categories) for c in chosen if is_categorical(table[c])}
        return cls(numbers, {c: tuple(categories_of(table[c]).values) for c in chosen}, order)

    def plus(self, other: FileKinds) -> FileKinds:
        """What both pieces tell."""
        mixed = [str(c) for c, number in self.numbers.items() if other.numbers[c] != number]
        if mixed:
            what = "A column must be of one kind in all of a file"
            raise InputError(what, ", ".join(mixed), "Convert it, or leave it out")
        levels = {c: _union(values, other.levels[c]) for c, values in self.levels.items()}
        order = {c: _union(values, other.order.get(c, ())) for c, values in self.order.items()}
        return FileKinds(self.numbers, levels, order)

    def example(self) -> pd.DataFrame:
        """A small table with the same kinds and categories."""
        height = max([1, *(len(v) for v in self.levels.values())])
        columns: dict[Hashable, Any] = {}
        for name, number in self.numbers.items():
            values = self.levels.get(name, (0.0,)) or (None,)
            full = pd.Series([*values, *[values[0]] * (height - len(values))], dtype=object)
            if name in self.order:
                full = pd.Series(pd.Categorical(full, categories=pd.Index(self.order[name], dtype=object)))
            columns[name] = full.infer_objects() if number else full
        return pd.DataFrame(columns)


def _union(first: tuple[Hashable, ...], second: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    return tuple(dict.fromkeys([*first, *second]))
