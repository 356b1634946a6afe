"""Sending what all tasks share to a worker once, whatever the executor.

A worker keeps what it was given under a token. It finds it in its own memory (threads, forked processes, every task after the
first), else in the memory of the process that started the run (other processes on this machine), else in dask's store. Where none
of these can be reached it says so, and the next task for it carries the bytes. Confidential records are in memory only: no
file is written that could outlive a killed run.
"""

from __future__ import annotations

import hashlib
import mmap
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import InputError

__all__ = ["Absent", "Handle", "Parcel", "Sealed", "begin_worker", "call", "dumps", "forget"]

KEPT = 2
"""How many shared objects a worker keeps: enough for two runs that share a pool."""

STUDIES = "ruvdecision_study_"
"""How the names of study modules begin; they are made from files, and no worker can import them."""

_OWN: dict[str, Any] = {}
_HELD: OrderedDict[str, Any] = OrderedDict()
_LOCK = threading.Lock()
_FOLLOWING: dict[str, int] = {}


class Handle(NamedTuple):
    """Names a shared object, small enough to go with every task."""

    token: str
    digest: bytes
    place: str


class Absent(NamedTuple):
    """A worker's answer when it cannot find the shared object; says which worker."""

    host: str
    process: int


class Sealed(bytes):
    """Bytes that do not show what they hold: dask's workers log the arguments of a task that failed."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"

    __str__ = __repr__


class Parcel:
    """A shared object, ready to be fetched by workers; use it as a context manager.

    Parameters
    ----------
    value : object
        What the tasks share.
    sent : bool, default True
        False if workers are threads of this process, which need no copy.
    by_value : bool, default False
        Send functions and classes of the main module as code, for workers that do not have that module.

    >>> with Parcel([1, 2]) as parcel:
    ...     call(parcel.handle, None, dumps((sum, ())))
    3
    """

    def __init__(self, value: Any, *, sent: bool = True, by_value: bool = False) -> None:
        self.blob = dumps(value, by_value=by_value) if sent else b""
        self._file: int | None = None
        place = ""
        if sent and hasattr(os, "memfd_create"):
            self._file = os.memfd_create("ruvdecision")
            os.fchmod(self._file, 0o600)
            with os.fdopen(os.dup(self._file), "wb") as opened:
                opened.write(self.blob)
            place = f"/proc/{os.getpid()}/fd/{self._file}"
        self.handle = Handle(uuid.uuid4().hex, hashlib.blake2b(self.blob).digest(), place)
        _OWN[self.handle.token] = value

    def __enter__(self) -> Parcel:
        return self

    def __exit__(self, *_: object) -> None:
        _OWN.pop(self.handle.token, None)
        if self._file is not None:
            os.close(self._file)
            self._file = None


def call(handle: Handle, blob: bytes | None, work: bytes) -> Any:
    """Do one task on a worker: find what is shared, then call the function with it."""
    shared = _find(handle, blob)
    if isinstance(shared, Absent):
        return shared
    function, arguments = pickle.loads(work)
    return function(shared, *arguments)


def begin_worker() -> None:
    """For the initializer of a process pool: leave Ctrl-C to the process that started the worker, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _follow_parent()


def forget(token: str) -> None:
    """Let go of a shared object that was sent to this process."""
    with _LOCK:
        _HELD.pop(token, None)


def dumps(value: Any, *, by_value: bool = False) -> bytes:
    """Pickle ``value``; where pickle cannot (a lambda, a closure, a class made in a function) cloudpickle does it."""
    ways: list[Callable[[Any], bytes]] = [lambda v: pickle.dumps(v, protocol=pickle.HIGHEST_PROTOCOL)]
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:
        pass
    else:
        studies = [module for name, module in list(sys.modules.items()) if name.startswith(STUDIES)]
        for module in studies:
            cloudpickle.register_pickle_by_value(module)
        ways.insert(0 if by_value or studies else 1, cloudpickle.dumps)
    reason: Exception | None = None
    for way in ways:
        try:
            return way(value)
        except Exception as error:  # pickling runs code of any kind and fails in any way
            reason = error
    # The error's text may show what was being pickled, so only its kind is told.
    raise InputError(
        "A part of the study cannot be sent to a worker",
        type(reason).__name__,
        "Leave executor= out, or use functions and classes that can be pickled (no open files, locks or generators)",
    ) from None


def _find(handle: Handle, blob: bytes | None) -> Any:
    if handle.token in _OWN:  # a thread of the process that started the run, or a process forked from it
        _follow_parent()
        return _OWN[handle.token]
    with _LOCK:
        if handle.token not in _HELD:
            found = blob if blob is not None else _read(handle)
            if found is None:
                return Absent(socket.gethostname(), os.getpid())
            _follow_parent()
            while len(_HELD) >= KEPT:
                _HELD.popitem(last=False)
            _HELD[handle.token] = pickle.loads(found)
            if isinstance(found, mmap.mmap):
                found.close()
        return _HELD[handle.token]


def _follow_parent() -> None:
    """End this worker when the process that started it is killed: a pool's workers would wait for ever, with the records in memory."""
    parent = multiprocessing.parent_process()
    if parent is None or "distributed" in sys.modules or _FOLLOWING.get("process") == os.getpid():
        return  # dask's workers look after themselves
    _FOLLOWING["process"] = os.getpid()

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, name="ruvdecision-follow-parent", daemon=True).start()


def _read(handle: Handle) -> mmap.mmap | None:
    """The bytes in the memory of the process that started the run, if it is on this machine and lets us."""
    if not handle.place:
        return None
    try:
        with open(handle.place, "rb") as opened:
            found = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    # On another machine the same number may belong to another process.
    if hashlib.blake2b(found).digest() != handle.digest:
        found.close()
        return None
    return found
