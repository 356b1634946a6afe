"""Files as they are found: data by the endings of their names, studies by their text.

Nothing heavy is imported, so that the command line says at once that a name is wrong.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError

KINDS: dict[str, tuple[str, ...]] = {
    "CSV": (".csv", ".tsv", ".txt"),
    "parquet": (".parquet", ".pq"),
    "Stata": (".dta",),
    "SPSS": (".sav", ".zsav", ".por"),
    "SAS": (".sas7bdat", ".xpt"),
}
"""The kinds of file that can be read, with the endings of their names."""

_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")


def check_file(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Return the path and its kind if the file is there and has a known ending; its content is not looked at."""
    file = _existing_path(path)
    return file, _kind_of_file(file)


def study_source(path: str | Path) -> bytes:
    """The text of a study file."""
    path = Path(path)
    if "\0" not in str(path) and path.exists() and not (path.is_file() or path.is_dir()):
        # A device may have no end, and a pipe nobody who writes to it.
        raise InputError("A study is a regular file", str(path), "Save it to a file first")
    listing = "List the studies with: ruvdecision models"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("There is no such study file", str(path), listing) from None
    except IsADirectoryError:
        do = f"List its studies with: ruvdecision models {path}"
        raise InputError("A study is a file", f"the directory {path}", do) from None
    except ValueError:
        raise InputError("This is no name for a file", repr(str(path)), listing) from None
    except OSError as error:
        got = error.strerror or str(error)
        raise InputError(f"{path} cannot be read", got, "Check its name and permissions") from None


def study_directory(directory: str | Path) -> Path:
    """A directory of studies, if it is one."""
    directory = Path(directory)
    if not directory.is_dir():
        do = "The studies come with the source; name your own: ruvdecision models DIR"
        raise InputError("There is no such directory of studies", str(directory), do)
    return directory


def _existing_path(path: str | os.PathLike[str]) -> Path:
    try:
        file = Path(path)
    except TypeError:
        raise InputError("A data file is named by its path", type(path).__name__, 'Write "released.csv"') from None
    if file.is_dir():
        raise InputError("A data file is a file", f"the directory {file}", "Name a file in it")
    if "\0" in str(file) or not os.path.lexists(file):
        raise InputError("There is no such data file", str(file), "Check its name and place")
    if not file.is_file():
        # A pipe can be read once only, and would wait for ever if nobody writes to it.
        raise InputError("A data file is a regular file", str(file), "Save the data to a file first, or mend the link")
    try:
        with file.open("rb"):
            return file
    except OSError as error:
        raise InputError(f"{file} cannot be read", error.strerror or str(error), "Check its permissions") from None


def _kind_of_file(file: Path) -> str:
    endings = [s.lower() for s in file.suffixes]
    packed = bool(endings) and endings[-1] in _PACKED
    if packed:
        endings.pop()
    for kind, known in KINDS.items():
        if endings and endings[-1] in known and (kind == "CSV" or not packed):
            return kind
    listed = "; ".join(f"{kind}: {', '.join(known)}" for kind, known in KINDS.items())
    raise InputError("The ending of a data file says what kind it is", file.name, f"Known are {listed}")
