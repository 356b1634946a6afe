"""CSV files as other tools write them: which separator, which decimal sign, and nothing that pandas would get wrong in silence."""

from __future__ import annotations

import csv
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import InputError

__all__ = [
    "csv_settings",
    "decimal_commas",
    "misses_last",
    "read_csv",
    "refuse_long_rows",
    "refuse_short_rows",
    "refuse_thousands",
    "strict",
    "thousands",
]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_GROUPED = r"\s*[+-]?(\d+|\d{1,3}([,.'\u00a0\u202f]\d{3})+)([.,]\d+)?\s*"


def read_csv(file: Path) -> pd.DataFrame:
    """All of a CSV file."""
    settings = csv_settings(file)
    with strict():
        table = pd.read_csv(file, **settings)
        if settings["sep"] == ";" and any(decimal_commas(table[c]) for c in table.columns):
            table = pd.read_csv(file, **(settings | {"decimal": ","}))
    refuse_thousands(file, [name for name in table.columns if all(thousands(table[name]))])
    if misses_last(table):
        refuse_short_rows(file, settings["sep"])
    # A name such as " age" would never be found by somebody who types "age".
    return table.rename(columns=lambda c: c.strip() if isinstance(c, str) else c)


def csv_settings(file: Path) -> dict[str, Any]:
    """How pandas should read a CSV file, from its first line."""
    names, separator = _header(file)
    if _is_record(names):
        raise InputError(
            f"The first line of {file} holds numbers",
            "no names of columns",
            "Write the names of its columns in the first line",
        )
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        # pandas would rename the second one in silence.
        raise InputError(f"{file} has columns that share a name", ", ".join(twice), "Rename them")
    unnamed = [i + 1 for i, name in enumerate(names) if not name]
    if unnamed and unnamed != [1]:
        raise InputError(f"{file} has columns without a name", f"columns {unnamed}", "Name them in the first line")
    # All of a column at once (not low_memory): pandas would guess the types of a long one in parts.
    return {
        "sep": separator,
        "decimal": ".",
        "encoding": "utf-8-sig",
        "index_col": 0 if unnamed else False,
        "low_memory": False,
    }


def _is_record(names: Sequence[str]) -> bool:
    """True for a first line that is a record: it would be lost, and its values printed as names of columns.

    Names may be whole numbers in rising order, such as positions or years. A first line of words cannot be told from names.
    """
    given = [name for name in names if name]
    whole = [name for name in given if re.fullmatch(r"[+-]?\d+", name)]
    if any(_NUMBER.fullmatch(name.replace(",", ".")) for name in given if name not in whole):
        return True
    return bool(whole) and len(whole) == len(given) and any(int(a) >= int(b) for a, b in itertools.pairwise(whole))


@contextmanager
def strict() -> Iterator[None]:
    """Let pandas fail where it would drop entries of long rows and only warn of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def _header(file: Path) -> tuple[list[str], str]:
    """The names in the first line, and the separator that occurs most often there."""
    with _opened(file) as lines:
        line = ""
        while not line.strip():
            line = lines.readline()
            if not line:
                return [], ","
        if "\0" in line:
            raise InputError(f"{file} is not a text file", "NUL bytes", "Save it as UTF-8")
        bare = re.sub(r'"[^"]*"', "", line)
        separator = max(",;\t|", key=bare.count)
        try:
            # A name in quotes may go on in the next line.
            names = next(csv.reader(itertools.chain([line], lines), delimiter=separator), [])
        except csv.Error:
            raise InputError(
                f"The first line of {file} cannot be read", "a name without end", "Check the quotes in it"
            ) from None
    return [name.strip() for name in names], separator


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    from pandas.io.common import get_handle

    with get_handle(file, "r", encoding="utf-8-sig", compression="infer") as opened:
        yield opened.handle


def decimal_commas(column: pd.Series[Any]) -> bool:
    """True for a column of text that holds numbers with a decimal comma."""
    known = column.dropna()
    return (
        not pd.api.types.is_numeric_dtype(column.dtype)
        and len(known) > 0
        and known.astype(str).str.fullmatch(r"\s*[+-]?\d*,?\d+([eE][+-]?\d+)?\s*").all()
    )


def thousands(column: pd.Series[Any]) -> tuple[bool, bool]:
    """Whether a column, or a piece of it, is text that holds numbers only, and whether some have separators of thousands."""
    known = column.dropna()
    if pd.api.types.is_numeric_dtype(column.dtype):
        return False, False
    if len(known) and not re.fullmatch(_GROUPED, str(known.iloc[0])):
        return False, False  # most text is known by its first entry
    text = known.astype(str)
    return bool(text.str.fullmatch(_GROUPED).all()), bool(
        text.str.contains(r"\d[,.'\u00a0\u202f]\d{3}(?!\d)", regex=True).any()
    )


def refuse_thousands(file: Path, names: Sequence[Any]) -> None:
    """Refuse columns of numbers with separators of thousands, which would be taken for text."""
    if names:
        do = "Write 1234.5, with a point and no separator of thousands"
        raise InputError(
            f"A column of {file} holds numbers with separators of thousands", ", ".join(map(str, names)), do
        )


def misses_last(table: pd.DataFrame) -> bool:
    """Whether the last of several columns has missing values: only then can a row be too short."""
    return table.shape[1] > 1 and bool(table.iloc[:, -1].isna().any())


def refuse_long_rows(file: Path, separator: str) -> None:
    """Refuse rows with more entries than there are names, in a file that is read in pieces.

    From version 3 on pandas does so itself. Before, it drops the entries without a word where a piece begins with such a row.
    """
    if int(pd.__version__.split(".")[0]) >= 3:
        return
    with _opened(file) as lines:
        rows = csv.reader(lines, delimiter=separator)
        try:
            names = next((row for row in rows if "".join(row).strip()), [])
            for row in rows:
                if any(row[len(names) :]):
                    raise pd.errors.ParserError(f"Expected {len(names)} fields in line {rows.line_num}, saw {len(row)}")
        except csv.Error:
            return  # an entry that is too long for Python's reader, though not for pandas


def refuse_short_rows(file: Path, separator: str) -> None:
    """Refuse rows that end too early, such as that of a line which was cut off: pandas fills them up without a word."""
    with _opened(file) as lines:
        rows = csv.reader(lines, delimiter=separator)
        try:
            names = next((row for row in rows if "".join(row).strip()), [])
            short = [rows.line_num for row in rows if len(row) < len(names) and "".join(row).strip()]
        except csv.Error:
            return  # an entry that is too long for Python's reader, though not for pandas
    if short:
        got = f"{len(short)} rows, the first in line {short[0]}"
        raise InputError(
            f"{file} has rows with fewer entries than there are names",
            got,
            "Fill them up, or check whether it was cut short",
        )
