"""Reading data files that other tools wrote, whole or in pieces: CSV, parquet, Stata, SPSS and SAS.

What fails is said in one clear line.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import pandas as pd

from ..checks import check_integer, check_text
from ..errors import InputError, UnsupportedError
from .csv import csv_pieces, read_csv
from .files import check_file

NEEDED = {"parquet": "pyarrow", "SPSS": "pyreadstat", "SAS": "pyreadstat"}
"""Packages that some kinds need."""


def read_data(
    path: str | os.PathLike[str], *, sep: str | None = None, decimal: str | None = None, encoding: str | None = None
) -> pd.DataFrame:
    r"""Read a data file into a DataFrame; its name's ending says which kind it is.

    CSV files (also compressed) may separate their columns by commas, semicolons, tabs or bars; the header line decides.
    With semicolons a decimal comma is understood. A first column without a name, as R and pandas write it for row
    labels, becomes the index. Columns with labelled values in Stata and SPSS files become categories. Parquet needs the
    package pyarrow, SPSS the package pyreadstat.

    Parameters
    ----------
    path : str or Path
        The file.
    sep, decimal : str, optional
        One letter each, for CSV files whose separator or decimal sign is not recognised.
    encoding : str, optional
        Of the text of a CSV file, such as "latin-1"; UTF-8 unless given.

    Examples
    --------
    >>> size = Path("tiny.csv").write_text("age;income\n30;1,5\n40;2,5\n")
    >>> read_data("tiny.csv")["income"].tolist()
    [1.5, 2.5]
    """
    file, kind = check_file(path)
    how = {"sep": sep, "decimal": decimal, "encoding": encoding}
    how = {name: check_csv(name, value) for name, value in how.items() if value is not None}
    if how and kind != "CSV":
        raise InputError(f"{', '.join(how)} are for CSV files", f"{file.name}, which is {kind}", "Leave them out")
    with report_read_errors(file, kind, encoding):
        table = _READERS[kind](file, **how)
    if len(table) == 0 or table.shape[1] == 0:
        do = "Give one row per respondent"
        raise InputError(f"{file} has no records", f"{len(table)} rows and {table.shape[1]} columns", do)
    twice = [str(name) for name, count in Counter(table.columns).items() if count > 1]
    if twice:
        raise InputError(f"{file} has columns that share a name", ", ".join(twice), "Rename them")
    return table


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

    source: str | Path | pd.DataFrame
    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_integer("chunksize", self.size, low=1))
        if not isinstance(self.source, pd.DataFrame):
            file, kind = check_file(self.source)
            if kind not in ("CSV", "parquet"):
                do = "Save it as parquet or CSV, or leave chunksize= out"
                what = "Only CSV and parquet files are read in pieces"
                raise UnsupportedError(what, f"{file.name}, which is {kind}", do)

    def __iter__(self) -> Iterator[pd.DataFrame]:
        table = self.source
        if isinstance(table, pd.DataFrame):
            yield from (table.iloc[start : start + self.size] for start in range(0, max(len(table), 1), self.size))
            return
        file, kind = check_file(table)
        rows = 0
        with report_read_errors(file, kind):
            for piece in csv_pieces(file, self.size) if kind == "CSV" else self._parquet_pieces(file):
                if len(piece):
                    rows += len(piece)
                    yield piece
        if rows == 0:
            raise InputError(f"{file} has no records", "0 rows", "Give one row per respondent")

    def _parquet_pieces(self, file: Path) -> Iterator[pd.DataFrame]:
        import pyarrow
        from pyarrow.parquet import ParquetFile

        with ParquetFile(file) as opened:
            for batch in opened.iter_batches(batch_size=self.size):
                yield pyarrow.Table.from_batches([batch]).to_pandas()


def is_path(data: object) -> TypeGuard[str | Path]:
    """Whether data are named by the path of their file."""
    return isinstance(data, (str, Path))


def check_csv(name: str, value: str) -> str:
    """A separator or decimal sign of one letter, or an encoding that Python knows."""
    if name == "encoding":
        try:
            found = codecs.lookup(check_text(name, value, "Write encoding='latin-1'")).name
            return "utf-8-sig" if found == "utf-8" else found
        except LookupError:
            raise InputError("There is no such encoding", value, "Write utf-8, latin-1 or cp1252") from None
    found = {"\\t": "\t", "tab": "\t"}.get(value, value)
    if not isinstance(found, str) or len(found) != 1:
        raise InputError(f"{name} must be one letter", value, "Write ';' or ',', for example; tab is 'tab'")
    return found


@contextmanager
def report_read_errors(file: Path, kind: str, encoding: str | None = None) -> Iterator[None]:
    """Turn what goes wrong while a file is read into one clear line, which never quotes what is in it."""
    if file.stat().st_size == 0:
        raise InputError(f"{file} is empty", "0 bytes", "Check how it was written")
    try:
        yield
    except (InputError, UnsupportedError):
        raise
    except UnicodeDecodeError:
        do = "Save it as UTF-8, or say its encoding: encoding='latin-1'"
        raise InputError(f"{file} is not encoded as {encoding or 'UTF-8'}", "other bytes", do) from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{file} is empty", "no line with names", "Check how it was written") from None
    except pd.errors.ParserWarning:
        do = "Name every column once"
        raise InputError(f"{file} has rows with more entries than there are names", "a long row", do) from None
    except ImportError as error:
        package = NEEDED.get(kind, error.name)
        what = f"Reading {file.name} needs the package {package}, which is not installed"
        raise UnsupportedError(what, do=f"Install {package}, or save the file as CSV") from None
    except Exception as error:
        # Each library has its own errors for damaged files; all mean the same to the caller. Their messages may quote
        # records, but for that of the CSV parser, which counts lines.
        where = re.search(r"Expected \d+ fields in line \d+, saw \d+|EOF inside string starting at row \d+", str(error))
        got = where[0] if where and isinstance(error, pd.errors.ParserError) else type(error).__name__
        do = "Check the file and its ending: it may be damaged or cut short"
        raise InputError(f"{file} cannot be read as {kind}", got, do) from None


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal: the same file, the same digest, whatever its name."""
    with Path(path).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# -- one reader per kind -------------------------------------------------------------------------------


def _read_stata(file: Path) -> pd.DataFrame:
    try:
        return pd.read_stata(file)
    except ValueError:
        # Two codes may share a label; the codes are then kept, which lose nothing. A damaged file fails again.
        return pd.read_stata(file, convert_categoricals=False)


def _read_spss(file: Path) -> pd.DataFrame:
    if file.suffix.lower() == ".por":
        import pyreadstat  # type: ignore[import-not-found]

        return pyreadstat.read_por(str(file), apply_value_formats=True)[0]  # type: ignore[no-any-return]
    return pd.read_spss(file)


def _read_sas(file: Path) -> pd.DataFrame:
    if file.suffix.lower() == ".sas7bdat":
        return pd.read_sas(file, format="sas7bdat", encoding="infer")
    with file.open("rb") as opened:
        newer = b"LIBV8" in opened.read(80)
    if newer:
        # pandas reads transport files of version 5 only.
        import pyreadstat

        return pyreadstat.read_xport(str(file))[0]  # type: ignore[no-any-return]
    try:
        return pd.read_sas(file, format="xport", encoding="utf-8")
    except UnicodeDecodeError:
        # Transport files do not say how their text is encoded; western European is the usual one after UTF-8.
        return pd.read_sas(file, format="xport", encoding="latin-1")


_READERS: dict[str, Callable[..., pd.DataFrame]] = {
    "CSV": read_csv,
    "parquet": pd.read_parquet,
    "Stata": _read_stata,
    "SPSS": _read_spss,
    "SAS": _read_sas,
}
