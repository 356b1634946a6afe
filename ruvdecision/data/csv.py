"""CSV files as other tools write them: separator, decimal sign, and nothing that pandas would get wrong in silence."""

from __future__ import annotations

import csv
import functools
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from pandas.io.common import get_handle

from ..errors import InputError

Settings = dict[str, Any]
"""Arguments of pandas' reader."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COMMA = r"\s*[+-]?\d*,?\d+([eE][+-]?\d+)?\s*"
_GROUPED = r"\s*[+-]?(\d+|\d{1,3}([,.'\u00a0\u202f]\d{3})+)([.,]\d+)?\s*"
_SEPARATOR = r"\d[,.'\u00a0\u202f]\d{3}(?!\d)"


def read_csv(
    file: Path, sep: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> pd.DataFrame:
    """All of a CSV file; what is not given is recognised."""
    return _strip_column_names(_survey_file(file, None, sep, decimal, encoding)[1].last)


def csv_pieces(file: Path, size: int) -> Iterator[pd.DataFrame]:
    """A CSV file in pieces of ``size`` records, with one type per column: some pieces of text may look like numbers."""
    status = file.stat()
    settings, types = _plan_reading(file.resolve(), size, status.st_size, status.st_mtime_ns)
    return map(_strip_column_names, _parse_pieces(file, settings, size, types))


def _strip_column_names(table: pd.DataFrame) -> pd.DataFrame:
    # A name such as " age" would never be found by somebody who types "age".
    return table.rename(columns=lambda c: c.strip() if isinstance(c, str) else c)


@functools.lru_cache(maxsize=1)
def _plan_reading(file: Path, size: int, *_stamp: int) -> tuple[Settings, dict[Hashable, type]]:
    """How to read a file in pieces. It costs a pass over the file, so the last plan is kept until the file changes."""
    settings, survey = _survey_file(file, size)
    return settings, {name: column.type for name, column in survey.columns.items()}


def _survey_file(
    file: Path, size: int | None, sep: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> tuple[Settings, _Survey]:
    settings = _pandas_settings(file, sep, encoding or "utf-8-sig") | ({} if decimal is None else {"decimal": decimal})
    survey = _Survey.of(_parse_pieces(file, settings, size))
    if (
        decimal is None
        and settings["sep"] == ";"
        and any(column.has_text and column.commas for column in survey.columns.values())
    ):
        settings["decimal"] = ","
        survey = _Survey.of(_parse_pieces(file, settings, size))
    grouped = [str(name) for name, column in survey.columns.items() if column.numbers and column.grouped]
    if grouped:
        what = f"A column of {file} holds numbers with separators of thousands"
        raise InputError(what, ", ".join(grouped), "Write 1234.5, with a point and no separator of thousands")
    # Before version 3 pandas drops entries of a long row without a word where a piece begins with it.
    long = size is not None and int(pd.__version__.split(".")[0]) < 3
    if survey.gaps or long:
        _check_rows(file, settings["sep"], settings["encoding"], long)
    return settings, survey


@dataclass
class _Column:
    """What all pieces of a column say together."""

    kinds: set[str] = field(default_factory=set)
    commas: bool = True
    """Whether all text is numbers with a decimal comma."""
    numbers: bool = True
    """Whether all text is numbers, perhaps with separators of thousands."""
    grouped: bool = False
    """Whether some text has separators of thousands."""

    def add(self, column: pd.Series) -> None:
        known = column.dropna()
        if len(known) == 0:
            self.kinds.add("f")
        elif pd.api.types.is_numeric_dtype(column.dtype):
            self.kinds.add(column.dtype.kind)
        else:
            self.kinds.add("O")
            text = known.astype(str)
            self.commas = self.commas and bool(text.str.fullmatch(_COMMA).all())
            # Most text is known by its first entry.
            self.numbers = self.numbers and re.fullmatch(_GROUPED, text.iloc[0]) is not None
            self.numbers = self.numbers and bool(text.str.fullmatch(_GROUPED).all())
            self.grouped = self.grouped or (self.numbers and bool(text.str.contains(_SEPARATOR, regex=True).any()))

    @property
    def has_text(self) -> bool:
        return "O" in self.kinds

    @property
    def type(self) -> type:
        if self.has_text or ("b" in self.kinds and len(self.kinds) > 1):
            return str  # truth values with gaps are no numbers
        if self.kinds <= {"b"}:
            return np.bool_
        return np.float64 if "f" in self.kinds else np.uint64 if "u" in self.kinds else np.int64


@dataclass
class _Survey:
    """What is known of a file after it was read once."""

    columns: dict[Hashable, _Column]
    gaps: bool
    """Whether the last of several columns has missing values: only then can a row be too short."""
    last: pd.DataFrame

    @classmethod
    def of(cls, pieces: Iterable[pd.DataFrame]) -> _Survey:
        found = cls({}, False, pd.DataFrame())
        for found.last in pieces:
            for name in found.last.columns:
                found.columns.setdefault(name, _Column()).add(found.last[name])
            found.gaps = found.gaps or (found.last.shape[1] > 1 and bool(found.last.iloc[:, -1].isna().any()))
        return found


def _parse_pieces(
    file: Path, settings: Settings, size: int | None, types: Mapping[Hashable, type] | None = None
) -> Iterator[pd.DataFrame]:
    with _strict_pandas():
        read = pd.read_csv(file, **settings, dtype=types, chunksize=size)
    if size is None:
        yield read
        return
    with read:
        while True:
            with _strict_pandas():  # not while the caller has the piece
                piece = next(read, None)
            if piece is None:
                return
            yield piece


@contextmanager
def _strict_pandas() -> Iterator[None]:
    """Let pandas fail where it would drop entries of long rows and only warn of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        yield


def _pandas_settings(file: Path, sep: str | None, encoding: str) -> Settings:
    """How pandas should read a CSV file, from its first line."""
    names, separator = _read_header(file, sep, encoding)
    if _is_record(names):
        do = "Write the names of its columns in the first line"
        raise InputError(f"The first line of {file} holds numbers", "no names of columns", do)
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        # pandas would rename the second one in silence.
        raise InputError(f"{file} has columns that share a name", ", ".join(twice), "Rename them")
    unnamed = [i + 1 for i, name in enumerate(names) if not name]
    if unnamed and unnamed != [1]:
        raise InputError(f"{file} has columns without a name", f"columns {unnamed}", "Name them in the first line")
    # All of a column at once (not low_memory): pandas would guess the types of a long one in parts.
    label = 0 if unnamed else False
    return {"sep": separator, "decimal": ".", "encoding": encoding, "index_col": label, "low_memory": False}


def _is_record(names: Sequence[str]) -> bool:
    """True for a first line that is a record: it would be lost, and its values printed as names of columns.

    Names may be whole numbers in rising order, such as positions or years. A first line of words cannot be told from
    names.
    """
    given = [name for name in names if name]
    whole = [name for name in given if re.fullmatch(r"[+-]?\d+", name)]
    if any(_NUMBER.fullmatch(name.replace(",", ".")) for name in given if name not in whole):
        return True
    return bool(whole) and len(whole) == len(given) and any(int(a) >= int(b) for a, b in itertools.pairwise(whole))


def _read_header(file: Path, sep: str | None, encoding: str) -> tuple[list[str], str]:
    """The names in the first line, and the separator: as given, or the one that occurs most often there."""
    with _open_text(file, encoding) as lines:
        line = next((line for line in iter(lines.readline, "") if line.strip()), "")
        if "\0" in line:
            raise InputError(f"{file} is not a text file", "NUL bytes", "Save it as UTF-8")
        bare = re.sub(r'"[^"]*"', "", line)
        separator = sep or max(",;\t|", key=bare.count)
        try:
            # A name in quotes may go on in the next line.
            names = next(csv.reader(itertools.chain([line], lines), delimiter=separator), []) if line else []
        except csv.Error:
            what = f"The first line of {file} cannot be read"
            raise InputError(what, "a name without end", "Check the quotes in it") from None
    return [name.strip() for name in names], separator


@contextmanager
def _open_text(file: Path, encoding: str) -> Iterator[IO[str]]:
    with get_handle(file, "r", encoding=encoding, compression="infer") as opened:
        yield opened.handle  # type: ignore[misc]


def _check_rows(file: Path, separator: str, encoding: str, long: bool) -> None:
    """Refuse rows that end too early, as a line that was cut off, which pandas fills up in silence.

    ``long`` rows are refused too.
    """
    short = []
    with _open_text(file, encoding) as lines:
        rows = csv.reader(lines, delimiter=separator)
        try:
            names = next((row for row in rows if "".join(row).strip()), [])
            for row in rows:
                if long and any(row[len(names) :]):
                    raise pd.errors.ParserError(f"Expected {len(names)} fields in line {rows.line_num}, saw {len(row)}")
                if len(row) < len(names) and "".join(row).strip():
                    short.append(rows.line_num)
        except csv.Error:
            return  # an entry that is too long for Python's reader, though not for pandas
    if short:
        what = f"{file} has rows with fewer entries than there are names"
        do = "Fill them up, or check whether it was cut short"
        raise InputError(what, f"{len(short)} rows, the first in line {short[0]}", do)
