"""Writing files: whole or not at all, several together or none of them, never over another unless asked for.

Every file of the package is written here. Its bytes go to a file beside its place, whose name begins with ``.tmp-``,
are forced to disk, and then get their name in one step. Where nothing may be written over, that step is a hard link,
which the system refuses if the name is taken: of two processes only one can win. What went wrong, Ctrl-C too, leaves
the files that were there before, and no others; only a process that is killed outright can leave a ``.tmp-`` file,
which may be deleted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..checks import check_flag
from ..errors import InputError, RuvError

#: How the name of an unfinished file begins.
UNFINISHED = ".tmp-"
FREE = "Give overwrite=True to write over it, or another name"


def write_files(
    contents: Mapping[Path, bytes] | Mapping[str | os.PathLike[str], bytes],
    *,
    overwrite: bool = False,
    folders: bool = False,
    do: str = FREE,
) -> list[Path]:
    """Write files together: all of them, or none if one fails.

    Parameters
    ----------
    contents : mapping from path to bytes
        What goes where.
    overwrite : bool, default False
        Write over files that exist. A link stays a link, and the new file has the permissions of the old one.
    folders : bool, default False
        Make directories that are not there.
    do : str
        What the caller can do about a file that is in the way.

    Examples
    --------
    >>> write_files({"kept.txt": b"first"})[0].name
    'kept.txt'
    >>> try:
    ...     write_files({"kept.txt": b"second"})
    ... except InputError as error:
    ...     print(error)
    A file exists already; got kept.txt. Give overwrite=True to write over it, or another name.
    """
    places = {as_output_path(place): content for place, content in contents.items()}
    check_output_paths(places, overwrite=overwrite, folders=folders, do=do)
    try:
        place_files(places, overwrite=overwrite, folders=folders)
    except FileExistsError as error:
        # Another process was first.
        what = "A file exists already"
        raise InputError(what, str(error.filename2 or error.filename or next(iter(places))), do) from None
    except OSError as error:
        names = ", ".join(map(str, places))
        do = "Check space and permissions, or name another place"
        raise RuvError(f"{names} could not be written", error.strerror or str(error), do) from error
    return list(places)


def check_output_paths(
    places: Iterable[str | os.PathLike[str]], *, overwrite: bool = False, folders: bool = False, do: str = FREE
) -> None:
    """Refuse, before any work is done, places that are taken or cannot be written to."""
    check_flag("overwrite", overwrite, "Say whether files are written over")
    taken = []
    for place in map(as_output_path, places):
        folder = _nearest_existing_folder(place.parent) if folders else place.parent
        if not folder.is_dir():
            what = f"{folder} is not a directory" if os.path.lexists(folder) else f"There is no directory {folder}"
            raise InputError(what, str(place), "Name another place")
        if not os.access(folder, os.W_OK | os.X_OK):
            do = "Name another place, or change its permissions"
            raise InputError(f"The directory {folder} cannot be written to", str(place), do)
        found = _file_status(place)
        if found is None:
            continue
        if stat.S_ISDIR(found.st_mode):
            raise InputError("A file cannot take the place of a directory", str(place), "Name a file")
        if not overwrite:
            taken.append(place)
        elif not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            raise InputError("Only a regular file is written over", str(place), "Name another place")
    if taken:
        what = "A file exists already" if len(taken) == 1 else "Files exist already"
        raise InputError(what, ", ".join(map(str, taken)), do)


def as_output_path(path: str | os.PathLike[str]) -> Path:
    """A path that a file can have."""
    try:
        place = Path(path)
    except TypeError:
        raise InputError("A file is named by its path", type(path).__name__, 'Write "map.nc", for example') from None
    if not is_valid_path(place) or not place.name:
        raise InputError("This is no name for a file", repr(str(path)), 'Write "map.nc", for example')
    return place


def is_valid_path(path: str | os.PathLike[str]) -> bool:
    """Whether a file or directory can have this path at all."""
    text = str(path)
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return bool(text.strip()) and "\0" not in text


def place_files(
    contents: Mapping[Path, bytes],
    *,
    overwrite: bool = False,
    folders: bool = False,
    private: bool = False,
    durable: bool = False,
) -> None:
    """Do what `write_files` does, with the system's own errors and without looking first.

    ``private`` files can be read by their owner alone. ``durable`` ones are still there after a power cut once this
    comes back.
    """
    places = {Path(os.path.realpath(place)) if overwrite else place: content for place, content in contents.items()}
    # What was begun is undone first, the last step first; then unfinished files go, then directories that were made for
    # them.
    with contextlib.ExitStack() as tidy, contextlib.ExitStack() as undo:
        made: list[Path] = []
        tidy.callback(_remove_folders, made)
        for place in places if folders else ():
            _make_folders(place.parent, made)
        parts = {place: place.parent / f"{UNFINISHED}{uuid.uuid4().hex}" for place in places}
        for place, part in parts.items():
            tidy.callback(_remove_file, part)
            _write_new_file(part, places[place], 0o600 if private else 0o666)
        for place, part in parts.items():
            if not overwrite:
                undo.callback(_remove_file, place, only=os.stat(part))
                _name_finished_file(part, place)
                continue
            old = _file_status(place)
            if old is not None:
                os.chmod(part, stat.S_IMODE(old.st_mode))
            if len(parts) > 1:
                spare = None if old is None else part.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
                if spare is not None:
                    tidy.callback(_remove_file, spare)
                    _link_or_copy(place, spare)
                undo.callback(_put_back, place, spare, os.stat(part))
            os.replace(part, place)
        if durable:
            for folder in {place.parent for place in places}:
                _sync_folder(folder)
        undo.pop_all()
        made.clear()


# -- single steps --------------------------------------------------------------------------------------


def _write_new_file(part: Path, content: bytes, mode: int) -> None:
    with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def _name_finished_file(part: Path, place: Path) -> None:
    """Give a finished file its name, unless the name is taken."""
    try:
        os.link(part, place)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: take the name with an empty file, which nobody else can then do.
        with open(place, "xb"):
            pass
        try:
            os.replace(part, place)
        except BaseException:
            place.unlink()
            raise


def _link_or_copy(place: Path, spare: Path) -> None:
    try:
        os.link(place, spare)
    except OSError:
        shutil.copy2(place, spare)


def _put_back(place: Path, spare: Path | None, ours: os.stat_result) -> None:
    if spare is None:
        _remove_file(place, only=ours)
    elif _is_same_file(place, ours):
        with contextlib.suppress(OSError):
            os.replace(spare, place)


def _remove_file(place: Path, only: os.stat_result | None = None) -> None:
    """Delete a file; with ``only`` not if it is another one by now."""
    if only is None or _is_same_file(place, only):
        with contextlib.suppress(OSError):
            place.unlink()


def _is_same_file(place: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(place), file)
    except OSError:
        return False


def _file_status(place: Path) -> os.stat_result | None:
    """What is at a place, None if nothing is; for a link what it points to, or the link itself if that is not there."""
    try:
        return os.stat(place)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(f"{place} cannot be written", error.strerror or str(error), "Name another place") from None
    try:
        return os.lstat(place)
    except FileNotFoundError:
        return None


def _nearest_existing_folder(folder: Path) -> Path:
    """The directory, or the nearest one above it that is there."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make a directory and those above it, and note each before it is there, so that all can be taken back."""
    if not folder.is_dir():
        _make_folders(folder.parent, made)
        made.append(folder)
        folder.mkdir(exist_ok=True)


def _remove_folders(made: list[Path]) -> None:
    for folder in reversed(made):
        with contextlib.suppress(OSError):  # somebody else has put a file there by now
            folder.rmdir()


def _sync_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def unfinished_files(folder: Path) -> Iterator[Path]:
    """Files that a process which was killed has left unfinished."""
    return folder.glob(f"{UNFINISHED}*")
