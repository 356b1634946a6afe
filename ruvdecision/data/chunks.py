"""Reading large data files in pieces: parquet by batches, CSV by lines, with one type per column in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ..checks import check_integer
from ..errors import InputError, UnsupportedError
from .csv import csv_pieces
from .read import check_file, reading


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
                raise UnsupportedError(
                    "Only CSV and parquet files are read in pieces", f"{file.name}, which is {kind}", do
                )

    def __iter__(self) -> Iterator[pd.DataFrame]:
        table = self.source
        if isinstance(table, pd.DataFrame):
            yield from (table.iloc[start : start + self.size] for start in range(0, max(len(table), 1), self.size))
            return
        file, kind = check_file(table)
        rows = 0
        with reading(file, kind):
            for piece in csv_pieces(file, self.size) if kind == "CSV" else self._parquet(file):
                if len(piece):
                    rows += len(piece)
                    yield piece
        if rows == 0:
            raise InputError(f"{file} has no records", "0 rows", "Give one row per respondent")

    def _parquet(self, file: Path) -> Iterator[pd.DataFrame]:
        import pyarrow
        from pyarrow.parquet import ParquetFile

        with ParquetFile(file) as opened:
            for batch in opened.iter_batches(batch_size=self.size):
                yield pyarrow.Table.from_batches([batch]).to_pandas()
