"""A directory that keeps every finished task of a run, so that a run which was killed goes on where it stopped.

Inside are a manifest and one small file per finished task. Each file is written beside its place, forced to disk and
moved there in one step, so that it is whole or absent at any instant. Files hold results only, as text: no records, no
code.

A checkpoint belongs to the settings and the data of a study, to the versions of Python, this package and the libraries
below it, and to the source text of every imported module that is neither the standard library nor installed. The
manifest has salted digests of them (see `ruvdecision.running.digests`); if one
differs the checkpoint is refused, and the error says which.

It belongs to whoever runs it, too: a directory of somebody else, one that others can write to, and one that holds links
are refused. A seed that it keeps counts only beside a manifest, which nobody can write who has not got the data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from .._version import __version__
from ..checks import as_seed_sequence
from ..data.write import UNFINISHED, is_valid_path, place_files, unfinished_files
from ..errors import InputError, RuvError
from .digests import digest, sources
from .encoding import decode, encode

FORMAT = "ruvdecision checkpoint, schema 3"
LIBRARIES = ("numpy", "scipy", "pandas")
SALT = 16
OURS = ("lock", "seed.json", "tasks")
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)

_OPEN: set[str] = set()
_FRESH: dict[str, np.random.SeedSequence] = {}
"""Seeds of runs that were given none and have no manifest yet, by directory."""


class Checkpoint:
    """Finished tasks on disk; use it as a context manager.

    Parameters
    ----------
    directory : str or Path
        Where. It is made if it is not there; one that holds something else, or a checkpoint of another study, is
        refused.
    parts : mapping from name to object
        What the results depend on: masks, users, engine, seed, data. Only salted digests of them are stored.

    Examples
    --------
    >>> with Checkpoint("run", {"seed": 1}) as kept:
    ...     kept.put("first", 0.5)
    >>> with Checkpoint("run", {"seed": 1}) as kept:
    ...     kept.get("first"), kept.get("second")
    ((0.5,), None)
    """

    def __init__(self, directory: str | os.PathLike[str], parts: Mapping[str, object]) -> None:
        self.directory = as_directory(directory)
        self.tasks = self.directory / "tasks"
        self.parts = dict(parts)
        self.count = 0

    def __enter__(self) -> Checkpoint:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_lock_directory(self.directory))
            with _report_write_errors(self.directory, self.count):
                self.tasks.mkdir(exist_ok=True)
                for stale in (*unfinished_files(self.directory), *unfinished_files(self.tasks)):
                    stale.unlink(missing_ok=True)
            self._write_or_check_manifest(self.directory / "manifest.json")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def get(self, key: str, fits: Callable[[object], bool] = lambda _: True) -> tuple[object] | None:
        """The result of a finished task in a tuple of one, or None if it is not there.

        A file that was damaged, or whose result does not fit, counts as not there: its task is done again.
        """
        try:
            check, _, text = self._task_file(key).read_text("utf-8").partition("\n")
            kept, result = decode(text) if check == _checksum(text) else (None, None)
            found = kept == key and fits(result)
        except UNREADABLE:
            return None
        self.count += found
        return (result,) if found else None

    def put(self, key: str, result: object) -> None:
        """Keep the result of a task. When this comes back it is on disk, whatever happens next."""
        text = encode((key, result))
        with _report_write_errors(self.directory, self.count):
            place_files({self._task_file(key): f"{_checksum(text)}\n{text}".encode()}, overwrite=True)
        self.count += 1

    def _write_or_check_manifest(self, path: Path) -> None:
        """Write the manifest of a new checkpoint, or refuse one that was made by another study."""
        if not path.exists():
            salt = secrets.token_bytes(SALT)
            manifest = {
                "format": FORMAT,
                "software": _software_versions(),
                "salt": salt.hex(),
                **self._digests_of_parts(salt),
            }
            files = {path: f"{json.dumps(manifest, indent=1)}\n".encode()}
            fresh = _FRESH.pop(str(self.directory.resolve()), None)
            if fresh is not None:
                # As text: JSON readers elsewhere may not know numbers of 128 bits.
                files[self.directory / "seed.json"] = json.dumps({"entropy": str(fresh.entropy)}).encode()
            with _report_write_errors(self.directory, self.count):
                # After a power cut a lost task is done again, but a lost manifest would lose all.
                place_files(files, overwrite=True, durable=True)
            return
        try:
            manifest = json.loads(path.read_text("utf-8"))
            kind, salt = str(manifest["format"])[:80], bytes.fromhex(manifest["salt"])
            software, parts, texts = (manifest[name] for name in ("software", "parts", "sources"))
            if kind == FORMAT and (len(salt) != SALT or not all(isinstance(x, dict) for x in (software, parts, texts))):
                raise ValueError("odd")
        except UNREADABLE:
            what = f"The manifest of the checkpoint {self.directory} cannot be read"
            raise InputError(what, path.name, "Name another directory") from None
        if kind != FORMAT:
            do = f"This version reads {FORMAT}; name another directory"
            raise InputError(f"{self.directory} is a checkpoint of another kind", kind, do)
        ours = self._digests_of_parts(salt)
        other = sorted(name for name in {*ours["parts"], *parts} if ours["parts"].get(name) != parts.get(name))
        # A module that only one of the two runs has imported so far is not needed by what both have.
        both = sorted(ours["sources"].keys() & texts)
        other += [f"source of {name}" for name in both if ours["sources"][name] != texts[name]]
        if other:
            raise InputError(
                f"The checkpoint {self.directory} belongs to another study",
                f"other {' and '.join(other)}",
                "Run the study that it was made by, or name another directory",
            )
        here = _software_versions()
        changed = [name for name in here if software.get(name) != here[name]]
        if changed:
            raise InputError(
                f"{self.directory} is a checkpoint of other software, whose numbers may differ in their last bits",
                "; ".join(f"{name} {software.get(name, 'none')} then, {here[name]} now" for name in changed),
                "Use the software of then, or name another directory",
            )

    def _digests_of_parts(self, salt: bytes) -> dict[str, dict[str, str]]:
        found: dict[str, Mapping[str, object]] = {"parts": self.parts, "sources": sources()}
        return {kind: {name: digest(item, salt) for name, item in items.items()} for kind, items in found.items()}

    def _task_file(self, key: str) -> Path:
        plain = re.sub(r"[^0-9A-Za-z._-]+", "_", key).strip("._")[:60]
        return self.tasks / f"{plain}-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.json"


def kept_seed(directory: str | os.PathLike[str]) -> np.random.SeedSequence:
    """The seed of a run that was given none: a new one, which the checkpoint keeps with its manifest for the next time.

    >>> kept_seed("unseeded").entropy == kept_seed("unseeded").entropy
    True
    """
    folder = as_directory(directory)
    _refuse_strangers(folder)
    path = folder / "seed.json"
    if not (folder / "manifest.json").exists() or not path.exists():
        return _FRESH.setdefault(str(folder.resolve()), as_seed_sequence(None))
    try:
        return as_seed_sequence(int(json.loads(path.read_text("utf-8"))["entropy"]))
    except UNREADABLE:
        what = f"The seed of the checkpoint {folder} cannot be read"
        raise InputError(what, path.name, "Name another directory") from None


def as_directory(value: str | os.PathLike[str]) -> Path:
    """A path, or an error that says what it should be."""
    try:
        folder = Path(value)
    except TypeError:
        raise InputError("checkpoint must be a directory", type(value).__name__, 'Write checkpoint="run/"') from None
    if not is_valid_path(value):
        raise InputError("checkpoint must be a directory", repr(str(value)), 'Write checkpoint="run/"')
    return folder


def _refuse_strangers(directory: Path) -> None:
    """Refuse a file, a directory that holds something else, and one that others have, or had, a hand in."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InputError("checkpoint must be a directory", f"the file {directory}", "Name another place")
    try:
        if not (directory / "manifest.json").exists():
            found = (p.name for p in directory.iterdir())
            strangers = [name for name in found if name not in OURS and not name.startswith(UNFINISHED)]
            if strangers:
                got, do = f"a directory with {len(strangers)} other files", "Name an empty directory, or a new one"
                raise InputError(f"{directory} is not a checkpoint", got, do)
        _refuse_others(directory)
    except OSError as error:
        got = error.strerror or type(error).__name__
        raise InputError(f"The checkpoint {directory} cannot be read", got, "Name another directory") from None


def _refuse_others(directory: Path) -> None:
    own = os.geteuid() if hasattr(os, "geteuid") else None
    about = directory.stat()
    if own is not None and about.st_uid != own:
        do = "Name a new one"
        raise InputError(f"The checkpoint {directory} belongs to another user", f"user {about.st_uid}", do)
    what, do = f"The checkpoint {directory} is open to others", f"Look at what is in it, then chmod 700 {directory}"
    if own is not None and about.st_mode & 0o077 and not any(directory.iterdir()):
        directory.chmod(0o700)
    elif own is not None and about.st_mode & 0o022:
        raise InputError(what, "a directory that others can write to", do)
    for folder in [directory, *directory.glob("tasks")]:
        with os.scandir(folder) as entries:
            for entry in entries:
                of_kind = entry.is_dir if folder is directory and entry.name == "tasks" else entry.is_file
                found = entry.stat(follow_symlinks=False)
                theirs = own is not None and found.st_uid != own
                if own is not None and about.st_mode & 0o011 and found.st_mode & 0o022 and not entry.is_symlink():
                    raise InputError(what, f"{entry.name}, which others can reach and write to", do)
                if theirs or not of_kind(follow_symlinks=False):
                    got = f"{entry.name}, a link or a file of another user"
                    raise InputError(f"The checkpoint {directory} holds what no run puts there", got, "Name a new one")


@contextlib.contextmanager
def _lock_directory(directory: Path) -> Iterator[None]:
    """Make the directory ours for the time of the run; the system gives it back if we are killed."""
    _refuse_strangers(directory)
    name = str(directory.resolve())
    what = f"Another run is working in the checkpoint {directory}"
    busy = InputError(what, "a lock", "Wait for it, or name another directory")
    if name in _OPEN:
        raise busy
    with contextlib.ExitStack() as stack:
        with _report_write_errors(directory, 0):
            # For its owner alone: with the digests and all records but one, that one could be guessed.
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = stack.enter_context(open(directory / "lock", "a"))
        # A system, or a file system, may be without locks. Workers, which may outlive a killed run, do not inherit this
        # one.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                raise busy from None
        _OPEN.add(name)
        stack.callback(_OPEN.discard, name)
        yield


@contextlib.contextmanager
def _report_write_errors(directory: Path, count: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RuvError(
            f"The checkpoint {directory} could not be written: {error.strerror or error}",
            f"{count} finished tasks, which are kept",
            "Make room or check permissions and run it again: it goes on from there",
        ) from error


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _software_versions() -> dict[str, str]:
    found = {"python": ".".join(platform.python_version_tuple()[:2]), "ruvdecision": __version__}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
