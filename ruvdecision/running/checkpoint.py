"""A directory that keeps every finished task of a run, so that a run which was killed goes on where it stopped.

Inside are a manifest with digests of the study and one small file per finished task. Each file is written beside its place, forced
to disk and moved there in one step, so that it is whole or absent at any instant. Files hold results only, as text: no
records, no code. Digests are salted (see `ruvdecision.running.digests`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import secrets
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..data.write import UNFINISHED, nameable, place_files, unfinished
from ..errors import InputError, RuvError
from .digests import digest
from .encoding import decode, encode

__all__ = ["Checkpoint", "as_directory", "kept_seed"]

SCHEMA = 1
FORMAT = "ruvdecision checkpoint"
LIBRARIES = ("numpy", "scipy", "pandas")
OURS = ("lock", "seed.json", "tasks")

_OPEN: set[str] = set()


class Checkpoint:
    """Finished tasks on disk; use it as a context manager.

    Parameters
    ----------
    directory : str or Path
        Where. It is made if it is not there; one that holds something else, or a checkpoint of another study, is refused.
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

    def __init__(self, directory: str | os.PathLike[str], parts: Mapping[str, Any]) -> None:
        self.directory = as_directory(directory)
        self.tasks = self.directory / "tasks"
        self.parts = dict(parts)
        self.count = 0

    def __enter__(self) -> Checkpoint:
        self._claim()
        try:
            with self._writing():
                self.tasks.mkdir(exist_ok=True)
                for stale in (*unfinished(self.directory), *unfinished(self.tasks)):
                    stale.unlink(missing_ok=True)
            self._compare()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def get(self, key: str) -> tuple[Any] | None:
        """The result of a finished task in a tuple of one, or None if it is not there.

        A file that was damaged counts as not there: its task is done again.
        """
        try:
            check, _, text = self._file(key).read_text("utf-8").partition("\n")
            if check != _check(text):
                return None
            kept = json.loads(text.partition("\n")[0])
            found = (decode(text.partition("\n")[2]),) if kept == key else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        self.count += found is not None
        return found

    def put(self, key: str, result: Any) -> None:
        """Keep the result of a task. When this comes back it is on disk, whatever happens next."""
        text = json.dumps(key) + "\n" + encode(result)
        with self._writing():
            place_files({self._file(key): f"{_check(text)}\n{text}".encode()}, overwrite=True)
        self.count += 1

    # -- the manifest --------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Write the manifest of a new checkpoint, or refuse one that was made by another study."""
        path = self.directory / "manifest.json"
        if not path.exists():
            salt = secrets.token_bytes(16)
            manifest = {
                "format": FORMAT,
                "schema": SCHEMA,
                "software": _software(),
                "salt": salt.hex(),
                "parts": self._digests(salt),
            }
            with self._writing():
                # After a power cut a lost task is done again, but a lost manifest would lose all.
                place_files({path: f"{json.dumps(manifest, indent=1)}\n".encode()}, overwrite=True, durable=True)
            return
        try:
            manifest = json.loads(path.read_text("utf-8"))
            software, parts = dict(manifest["software"]), dict(manifest["parts"])
            found = manifest["format"], manifest["schema"], bytes.fromhex(manifest["salt"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise InputError(
                f"The manifest of the checkpoint {self.directory} cannot be read", path.name, "Name another directory"
            ) from None
        kind, schema, salt = found
        if kind != FORMAT or schema != SCHEMA:
            raise InputError(
                f"{self.directory} is a checkpoint of another kind",
                f"{kind}, schema {schema}",
                f"This version reads schema {SCHEMA}; name another directory",
            )
        ours = self._digests(salt)
        other = sorted(name for name in {*ours, *parts} if ours.get(name) != parts.get(name))
        if other:
            raise InputError(
                f"The checkpoint {self.directory} belongs to another study",
                f"other {' and '.join(other)}",
                "Run the study that it was made by, or name another directory",
            )
        here = _software()
        changed = [
            f"{name} {software.get(name, 'none')} then, {here[name]} now"
            for name in here
            if software.get(name) != here[name]
        ]
        if changed:
            raise InputError(
                f"The checkpoint {self.directory} was made by other software, whose numbers may differ in their last bits",
                "; ".join(changed),
                "Use the software of then, or name another directory",
            )

    def _digests(self, salt: bytes) -> dict[str, str]:
        return {name: digest(value, salt) for name, value in self.parts.items()}

    # -- the directory -------------------------------------------------------------------------------

    def _claim(self) -> None:
        """Make the directory ours for the time of the run; the system gives it back if we are killed."""
        _refuse_strangers(self.directory)
        self._lock: Any = None
        self._name = str(self.directory.resolve())
        busy = InputError(
            f"Another run is working in the checkpoint {self.directory}",
            "a lock",
            "Wait for it, or name another directory",
        )
        if self._name in _OPEN:
            raise busy
        with self._writing():
            # For its owner alone: with the digests and all records but one, that one could be guessed.
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = open(self.directory / "lock", "a")  # noqa: SIM115
        try:
            import fcntl
        except ImportError:  # pragma: no cover - a system without these locks
            pass
        else:
            try:
                # This kind of lock is not inherited by workers, which may outlive a run that was killed.
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                self._lock.close()
                raise busy from None
            except OSError:
                pass  # a file system without locks
        _OPEN.add(self._name)

    def _release(self) -> None:
        _OPEN.discard(self._name)
        if self._lock is not None:
            self._lock.close()

    def _file(self, key: str) -> Path:
        plain = re.sub(r"[^0-9A-Za-z._-]+", "_", key).strip("._")[:60]
        return self.tasks / f"{plain}-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.json"

    def _writing(self) -> Any:
        return _writing(self.directory, self.count)


def kept_seed(directory: str | os.PathLike[str]) -> np.random.SeedSequence:
    """The seed of a run that was given none: a new one, which the checkpoint keeps for the next time.

    >>> kept_seed("unseeded").entropy == kept_seed("unseeded").entropy
    True
    """
    folder = as_directory(directory)
    _refuse_strangers(folder)
    path = folder / "seed.json"
    try:
        return np.random.SeedSequence(int(json.loads(path.read_text("utf-8"))["entropy"]))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"The seed of the checkpoint {folder} cannot be read", path.name, "Name another directory"
        ) from None
    fresh = np.random.SeedSequence()
    try:
        with _writing(folder, 0):
            # As text: JSON readers elsewhere may not know numbers of 128 bits.
            new = not folder.exists()
            place_files({path: json.dumps({"entropy": str(fresh.entropy)}).encode()}, folders=True, durable=True)
            if new:
                folder.chmod(0o700)
    except RuvError as error:
        if isinstance(error.__cause__, FileExistsError) and path.is_file():
            return kept_seed(directory)  # another run was first, and its seed counts
        raise
    return fresh


def as_directory(value: Any) -> Path:
    """A path, or an error that says what it should be."""
    try:
        folder = Path(value)
    except TypeError:
        raise InputError("checkpoint must be a directory", type(value).__name__, 'Write checkpoint="run/"') from None
    if not nameable(value):
        raise InputError("checkpoint must be a directory", repr(str(value)), 'Write checkpoint="run/"')
    return folder


def _refuse_strangers(directory: Path) -> None:
    """Refuse a file, and a directory that holds something else."""
    if directory.exists() and not directory.is_dir():
        raise InputError("checkpoint must be a directory", f"the file {directory}", "Name another place")
    if directory.is_dir() and not (directory / "manifest.json").exists():
        strangers = [p.name for p in directory.iterdir() if p.name not in OURS and not p.name.startswith(UNFINISHED)]
        if strangers:
            do = "Name an empty directory, or one that does not exist"
            raise InputError(f"{directory} is not a checkpoint", f"a directory with {len(strangers)} other files", do)


@contextlib.contextmanager
def _writing(directory: Path, count: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RuvError(
            f"The checkpoint {directory} could not be written: {error.strerror or error}",
            f"{count} finished tasks, which are kept",
            "Make room or check permissions and run it again: it goes on from there",
        ) from error


def _check(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _software() -> dict[str, str]:
    found = {"python": ".".join(platform.python_version_tuple()[:2]), "ruvdecision": __version__}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
