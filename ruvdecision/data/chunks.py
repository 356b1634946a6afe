"""Reading large data files in pieces: parquet by batches, CSV by lines, with one type per column in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..checks import check_integer
from ..errors import InputError, UnsupportedError
from .csv import (
    csv_settings,
    decimal_commas,
    misses_last,
    refuse_long_rows,
    refuse_short_rows,
    refuse_thousands,
    strict,
    thousands,
)
from .read import check_file, reading

__all__ = ["Pieces"]


@dataclass(frozen=True)
class Pieces:
    r"""A data set that is read in pieces of some thousands of records, as often as one likes.

    Parameters
    ----------
    source : str, Path or DataFrame
        A CSV or parquet file, or data in memory, which are cut up.
    size : int
        Records per piece.

    Examples
    --------
    >>> size = Path("long.csv").write_text("a,b\n1,x\n2,y\n3,x\n")
    >>> [len(piece) for piece in Pieces("long.csv", 2)]
    [2, 1]
    """

    source: Any
    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_integer("chunksize", self.size, low=1))
        if self.is_file:
            file, kind = check_file(self.source)
            if kind not in ("CSV", "parquet"):
                do = "Save it as parquet or CSV, or leave chunksize= out"
                raise UnsupportedError(
                    "Only CSV and parquet files are read in pieces", f"{file.name}, which is {kind}", do
                )

    @property
    def is_file(self) -> bool:
        """True if the data are read from a file."""
        return isinstance(self.source, (str, Path))

    def __iter__(self) -> Iterator[pd.DataFrame]:
        if not self.is_file:
            table = self.source
            yield from (table.iloc[start : start + self.size] for start in range(0, max(len(table), 1), self.size))
            return
        file, kind = check_file(self.source)
        rows = 0
        with reading(file, kind):
            for piece in self._csv(file) if kind == "CSV" else self._parquet(file):
                if len(piece):
                    rows += len(piece)
                    yield piece
        if rows == 0:
            raise InputError(f"{file} has no records", "0 rows", "Give one row per respondent")

    def _csv(self, file: Path) -> Iterator[pd.DataFrame]:
        settings, types = self._csv_plan(file)
        for piece in _csv_pieces(file, self.size, settings, types):
            yield piece.rename(columns=lambda c: c.strip() if isinstance(c, str) else c)

    def _csv_plan(self, file: Path) -> tuple[dict[str, Any], dict[Any, Any]]:
        """How to read a CSV file, and one type per column: a piece alone may look like numbers where the file has text."""
        known = _CSV_PLANS.get(_stamp(file))
        if known is None:
            settings = csv_settings(file)
            types, commas, grouped = _csv_types(file, self.size, settings)
            if settings["sep"] == ";" and commas:
                settings["decimal"] = ","
                types, _, grouped = _csv_types(file, self.size, settings)
            refuse_thousands(file, grouped)
            refuse_long_rows(file, settings["sep"])
            _CSV_PLANS.clear()
            known = _CSV_PLANS[_stamp(file)] = settings, types
        return known

    def _parquet(self, file: Path) -> Iterator[pd.DataFrame]:
        if find_spec("pyarrow") is None:
            do = "Install pyarrow, or save the file as CSV"
            raise UnsupportedError("Reading parquet in pieces needs the package pyarrow, which is not installed", do=do)
        import pyarrow
        from pyarrow.parquet import ParquetFile

        with ParquetFile(file) as opened:
            for batch in opened.iter_batches(batch_size=self.size):
                yield pyarrow.Table.from_batches([batch]).to_pandas()


_CSV_PLANS: dict[tuple[Any, ...], tuple[dict[str, Any], dict[Any, Any]]] = {}
"""How the CSV file that was read last is read: its types cost a pass over it."""


def _stamp(file: Path) -> tuple[Any, ...]:
    status = file.stat()
    return str(file.resolve()), status.st_size, status.st_mtime_ns


def _csv_types(file: Path, size: int, settings: dict[str, Any]) -> tuple[dict[Any, Any], bool, list[Any]]:
    """The type that fits all of a column, whether some column of text holds numbers with a decimal comma, and which thousands."""
    kinds: dict[Any, set[str]] = {}
    commas: dict[Any, bool] = {}
    digits: dict[Any, tuple[bool, bool]] = {}
    missing = False
    for piece in _csv_pieces(file, size, settings, None):
        missing = missing or misses_last(piece)
        for name in piece.columns:
            column = piece[name]
            if column.isna().all():
                kinds.setdefault(name, set()).add("f")
            elif pd.api.types.is_bool_dtype(column.dtype):
                kinds.setdefault(name, set()).add("b")
            else:
                number = pd.api.types.is_numeric_dtype(column.dtype)
                kinds.setdefault(name, set()).add(column.dtype.kind if number else "O")
                if not number:
                    commas[name] = commas.get(name, True) and decimal_commas(column)
                    all_before, some_before = digits.get(name, (True, False))
                    all_here, some_here = thousands(column)
                    digits[name] = all_before and all_here, some_before or some_here
    if missing:
        refuse_short_rows(file, settings["sep"])
    types: dict[Any, Any] = {}
    for name, found in kinds.items():
        # Truth values with gaps are no numbers.
        text = "O" in found or ("b" in found and len(found) > 1)
        whole = np.uint64 if "u" in found else np.int64
        types[name] = str if text else np.bool_ if "b" in found else np.float64 if "f" in found else whole
    return types, any(commas.values()), [name for name, found in digits.items() if all(found)]


def _csv_pieces(
    file: Path, size: int, settings: dict[str, Any], types: dict[Any, Any] | None
) -> Iterator[pd.DataFrame]:
    with strict():
        reader = pd.read_csv(file, **settings, dtype=types, chunksize=size)
    with reader:
        while True:
            with strict():  # not while the caller has the piece
                piece = next(reader, None)
            if piece is None:
                return
            yield piece
