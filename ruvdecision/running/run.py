"""Running many small tasks, here or on workers, with the same results in the same order whoever does them.

No scheduler of our own: any `concurrent.futures.Executor` does the work. What is added is what a long run needs: shared data
sent once, finished tasks kept on disk, a worker that died replaced, and a clean stop at Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    InvalidStateError,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..checks import Seed, as_seed_sequence
from ..errors import InputError, RuvError
from .checkpoint import Checkpoint, kept_seed
from .sharing import Absent, Parcel, Sealed, call, dumps, forget

__all__ = ["Outcome", "Task", "placed", "root_seed", "run", "using"]

AHEAD = 4
"""Tasks in the executor's hands per worker: enough to keep it busy, few enough to stop quickly."""

WATCH, PATIENCE = 2.0, 60.0
"""Seconds between two looks at a dask cluster that says nothing, and to wait for a worker of it."""

ALONE, GIVEN_UP = 2, 4
"""Deaths of its worker after which a task runs alone, and after which it is given up."""


Keep = Callable[[int, Any], None]


@dataclass(frozen=True)
class Task:
    """One piece of work.

    Parameters
    ----------
    key : str
        Unique among the tasks of a run and the same each time; names the task in a checkpoint and in errors.
    function : callable
        A function of a module, called as ``function(shared, *arguments)``. Its result must depend on these alone.
    arguments : tuple
        Small; they go to the worker with every task.
    """

    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


class Outcome(NamedTuple):
    """Results in the order of the tasks, None where a task was not done, and whether Ctrl-C came."""

    results: list[Any]
    interrupted: bool


def run(
    tasks: Sequence[Task],
    *,
    shared: Any = None,
    executor: Executor | None = None,
    checkpoint: Any = None,
    fingerprint: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
    tell: Callable[[float], Any] | None = None,
) -> Outcome:
    """Do all tasks and give back their results in order.

    An error in a task ends the run; of several errors the first by the order of tasks is raised, as it is. What was finished
    before is in the checkpoint. A worker that dies is replaced and its tasks are done again. Ctrl-C stops the run cleanly.

    Parameters
    ----------
    tasks : list of Task
        What to do.
    shared : object, optional
        The first argument of every function. A worker gets it once.
    executor : concurrent.futures.Executor, optional
        Who does it: a process or thread pool, ``dask.distributed``'s ``Client.get_executor()``; one after the other here if
        not given. Results are the same.
    checkpoint : str or Path, optional
        A directory. Each finished task is on disk there before the next is taken; tasks that are there already are not done again.
        Their results must be numbers, text, arrays, lists or dictionaries of them.
    fingerprint : mapping from name to object, or a function that gives it, optional
        What the results depend on, such as ``{"masks": masks, "seed": seed, "data": data}``; a checkpoint with other ones is refused,
        and the error names the part. By default ``shared`` and the tasks themselves.
    tell : callable, optional
        Called with the share of tasks done.

    Examples
    --------
    >>> run([Task("a", pow, (3,)), Task("b", pow, (4,))], shared=2).results
    [8, 16]
    """
    tasks = list(tasks)
    twice = [key for key, count in Counter(t.key for t in tasks).items() if count > 1]
    if twice:
        raise InputError("Tasks need keys that differ", ", ".join(twice[:5]), "Give each task a key of its own")
    place = _place()
    if place is not None:
        executor = place.executor if executor is None else executor
        checkpoint = place.directory() if checkpoint is None else checkpoint
    if executor is not None and not (hasattr(executor, "submit") and hasattr(executor, "shutdown")):
        do = "Write ProcessPoolExecutor(4), or client.get_executor()"
        raise InputError("executor must be a concurrent.futures.Executor", type(executor).__name__, do)
    results: list[Any] = [None] * len(tasks)
    with contextlib.ExitStack() as stack:
        kept = None
        todo = list(range(len(tasks)))
        if checkpoint is not None:
            given = fingerprint() if callable(fingerprint) else fingerprint
            parts = {"shared": shared, "tasks": tasks} if given is None else given
            kept = stack.enter_context(Checkpoint(checkpoint, {**parts, "work": [(t.key, t.function) for t in tasks]}))
            found = [kept.get(task.key) for task in tasks]
            todo = [i for i, item in enumerate(found) if item is None]
            results = [None if item is None else item[0] for item in found]
        done = len(tasks) - len(todo)
        if tell is not None:
            tell(done / max(len(tasks), 1))  # where the pace begins

        def keep(i: int, result: Any) -> None:
            nonlocal done
            if kept is not None:
                kept.put(tasks[i].key, result)
            results[i] = result
            done += 1
            if tell is not None:
                tell(done / len(tasks))

        if executor is None or not todo:
            interrupted = _here(tasks, todo, shared, keep)
        else:
            interrupted = _Crew(executor, tasks, shared, todo, keep).work()
    return Outcome(results, interrupted)


def root_seed(seed: Seed, checkpoint: str | os.PathLike[str] | None = None) -> np.random.SeedSequence:
    """The root of a run's random numbers; without a seed a fresh one, or the one that the checkpoint keeps.

    Ask for it before `run`: a run that was given no seed could not go on otherwise.

    >>> root_seed(3).entropy
    3
    """
    place = _place()
    if seed is None and checkpoint is None and place is not None and place.folder is not None:
        checkpoint = place.folder / f"run-{place.runs + 1}"
    return as_seed_sequence(seed) if seed is not None or checkpoint is None else kept_seed(checkpoint)


@contextlib.contextmanager
def using(executor: Executor | None = None, checkpoint: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Runs inside use this executor and this checkpoint unless they are given others.

    It is for programs that run somebody else's study. Every run gets a directory of its own below ``checkpoint``, numbered in the
    order of the runs, which is the same each time.

    >>> with using(checkpoint="runs"):
    ...     first = run([Task("a", pow, (3,))], shared=2)
    >>> sorted(path.name for path in Path("runs").iterdir())
    ['run-1']
    """
    token = _PLACE.set(_Place(executor, None if checkpoint is None else Path(checkpoint), os.getpid()))
    try:
        yield
    finally:
        _PLACE.reset(token)


@dataclass
class _Place:
    executor: Executor | None
    folder: Path | None
    process: int
    runs: int = 0

    def directory(self) -> Path | None:
        self.runs += 1
        return None if self.folder is None else self.folder / f"run-{self.runs}"


_PLACE: ContextVar[_Place | None] = ContextVar("place", default=None)


def placed() -> bool:
    """Whether runs here are given an executor or a checkpoint by `using`."""
    place = _place()
    return place is not None and (place.executor is not None or place.folder is not None)


def _place() -> _Place | None:
    place = _PLACE.get()
    # A worker that was forked from us must not hand its own work to our executor.
    return place if place is not None and place.process == os.getpid() else None


def _here(tasks: Sequence[Task], todo: Sequence[int], shared: Any, keep: Keep) -> bool:
    token = _PLACE.set(None)  # a run inside a task is part of that task
    try:
        for i in todo:
            keep(i, tasks[i].function(shared, *tasks[i].arguments))
    except KeyboardInterrupt:
        return True
    finally:
        _PLACE.reset(token)
    return False


def _gone(error: BaseException | None) -> RuvError:
    got = "no answer" if error is None else type(error).__name__
    return RuvError(
        "The dask cluster has no workers any more",
        got,
        "Start it again, and the run with the same checkpoint= if it had one",
    )


class _Ticket(Future[Any]):
    """A future of dask's as one of Python's. Dask's own such executor forgets futures whose result was lost with a worker."""

    def __init__(self, task: Any) -> None:
        super().__init__()
        self.task = task
        task.add_done_callback(self._hear)

    def cancel(self) -> bool:
        self.task.cancel()
        return super().cancel()

    def _hear(self, task: Any) -> None:
        # A ticket that was called off meanwhile takes no result.
        with contextlib.suppress(InvalidStateError):
            try:
                result = task.result()
            except BaseException as error:
                self.set_exception(error)
            else:
                self.set_result(result)


class _Stranded(Exception):
    """The executor broke and cannot be replaced."""


class _Crew:
    """Tasks in the hands of an executor."""

    def __init__(self, executor: Executor, tasks: Sequence[Task], shared: Any, todo: Sequence[int], keep: Keep) -> None:
        self.executor, self.tasks, self.shared, self.keep = executor, tasks, shared, keep
        self.waiting = deque(todo)
        self.flying: dict[Future[Any], int] = {}
        self.dask: Any = (
            getattr(executor, "_client", None) if type(executor).__module__.startswith("distributed") else None
        )
        self.stored: Any = None
        self.spare: ProcessPoolExecutor | None = None
        self.strikes: Counter[int] = Counter()
        self.carriers: set[int] = set()
        self.errors: dict[int, BaseException] = {}

    def work(self) -> bool:
        """Do the tasks; True if Ctrl-C came."""
        sent = not isinstance(self.executor, ThreadPoolExecutor)
        with Parcel(self.shared, sent=sent, by_value=self.dask is not None) as self.parcel:
            try:
                while self._unfinished():
                    self._fill()
                    ready = wait(self.flying, None if self.dask is None else WATCH, FIRST_COMPLETED).done
                    for future in ready:
                        self._take(future)
                    if not ready:
                        self._look_after_store()
                self._gather()
            except KeyboardInterrupt:
                self._gather()
                return True
            except _Stranded:
                return _here(self.tasks, sorted(self.waiting), self.shared, self.keep)
            finally:
                self._clean()
        if self.errors:
            raise self.errors[min(self.errors)]
        return False

    # -- handing out ---------------------------------------------------------------------------------

    def _unfinished(self) -> bool:
        if not self.errors:
            return bool(self.waiting or self.flying)
        # The first error by task order is raised, so tasks before it must have their say; those after it need not be waited for.
        first = min(self.errors)
        return any(i < first for i in (*self.waiting, *self.flying.values()))

    def _fill(self) -> None:
        room = AHEAD * self._workers()
        while self.waiting and len(self.flying) < room:
            i = self.waiting[0]
            # A task whose worker died before goes alone, so that it takes no other task with it if it is to blame.
            if self.flying and (
                self.strikes[i] >= ALONE or any(self.strikes[j] >= ALONE for j in self.flying.values())
            ):
                return
            try:
                future = self._submit(i)
            except BrokenExecutor as error:
                self._replace(error)
                continue
            self.waiting.popleft()
            self.flying[future] = i

    def _submit(self, i: int) -> Future[Any]:
        work = Sealed(dumps((self.tasks[i].function, self.tasks[i].arguments), by_value=self.dask is not None))
        if self.dask is None:
            return self.executor.submit(
                call, self.parcel.handle, self.parcel.blob if i in self.carriers else None, work
            )
        if self.stored is None:
            self._wait_for_dask()
            # Every worker gets the bytes now; one that joins later takes them from another.
            self.stored = self.dask.scatter(self.parcel.blob, broadcast=True, hash=False)
        options = {"pure": False} | getattr(self.executor, "_kwargs", {})
        return _Ticket(self.dask.submit(call, self.parcel.handle._replace(place=""), self.stored, work, **options))

    def _workers(self) -> int:
        if self.dask is not None:
            return max(1, sum(self.dask.nthreads().values()))
        return int(getattr(self.executor, "_max_workers", None) or os.cpu_count() or 1)

    def _wait_for_dask(self) -> None:
        try:
            self.dask.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, TimeoutError, ValueError) as error:
            raise _gone(error) from error

    def _look_after_store(self) -> None:
        """Send the bytes again if all workers that had them died: dask cannot make them, and tasks would wait for ever."""
        if self.dask.status not in ("running", "connecting"):
            raise _gone(None)
        lost = self.stored is not None and not (
            self.stored.status == "finished" and any(self.dask.who_has([self.stored]).values())
        )
        if lost:
            self.stored = None
        for future, i in sorted(self.flying.items(), key=lambda item: -item[1]):
            if not future.done() and (lost or future.task.status in ("cancelled", "lost")):  # type: ignore[attr-defined]
                future.cancel()
                del self.flying[future]
                self._strike(i, None)

    # -- taking back ---------------------------------------------------------------------------------

    def _take(self, future: Future[Any]) -> None:
        i = self.flying.pop(future, None)
        if i is None:
            return  # taken back already, when the executor broke
        try:
            result = future.result()
        except BrokenExecutor as error:
            self._strike(i, error)
            self._replace(error)
        except Exception as error:
            if isinstance(error, CancelledError) or type(error).__name__ == "KilledWorker":
                self.stored = None  # what dask had stored may have died with the worker
                self._strike(i, error)
            else:
                self._fail(i, error)
        else:
            self.carriers.discard(i)
            if isinstance(result, Absent):
                self.waiting.appendleft(i)
                if len(self.carriers) < self._workers():
                    self.carriers.add(i)
            else:
                self.keep(i, result)

    def _fail(self, i: int, error: BaseException) -> None:
        self.errors[i] = error
        first = min(self.errors)
        self.waiting = deque(j for j in self.waiting if j < first)
        for future, j in list(self.flying.items()):
            if j > first and future.cancel():
                del self.flying[future]

    def _strike(self, i: int, error: BaseException | None) -> None:
        self.strikes[i] += 1
        if self.strikes[i] >= GIVEN_UP:
            raise RuvError(
                f"The worker of task {self.tasks[i].key} died each time",
                f"{self.strikes[i]} times",
                "It may need more memory than a worker has: use fewer workers, or leave executor= out",
            ) from error
        self.waiting.appendleft(i)

    def _replace(self, error: BrokenExecutor) -> None:
        """Put a new pool in the place of one that broke, and take back what the old one had."""
        wait(self.flying)
        for future, i in sorted(self.flying.items(), key=lambda item: -item[1]):
            del self.flying[future]
            if future.cancelled() or isinstance(future.exception(), BrokenExecutor):
                self._strike(i, error)
            else:
                self.flying[future] = i
                self._take(future)
        workers = getattr(self.executor, "_max_workers", None)
        if self.spare is None:
            how = "a new pool of the same size" if isinstance(error, BrokenProcessPool) and workers else "this process"
            warnings.warn(
                f"A worker died and its pool broke; {how} goes on with the run.", RuntimeWarning, stacklevel=5
            )
        if not isinstance(error, BrokenProcessPool) or not workers:
            raise _Stranded
        old = self.executor
        # Its threads end with it: a process should not be forked beside them.
        old.shutdown(wait=True)
        self.spare = ProcessPoolExecutor(
            workers,
            mp_context=getattr(old, "_mp_context", None),
            initializer=getattr(old, "_initializer", None),
            initargs=getattr(old, "_initargs", ()),
        )
        with warnings.catch_warnings():
            # The old pool is gone but for a thread that sleeps, so the warning that one forks beside threads is idle here.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            with contextlib.suppress(BrokenExecutor):
                self.spare.submit(int)  # starts the workers
        self.executor = self.spare

    # -- leaving -------------------------------------------------------------------------------------

    def _gather(self) -> None:
        """Keep what is finished and call off the rest."""
        for future, i in list(self.flying.items()):
            if not future.cancel() and future.done() and not future.cancelled() and future.exception() is None:
                result = future.result()
                if not isinstance(result, Absent):
                    self.keep(i, result)
            del self.flying[future]

    def _clean(self) -> None:
        for future in self.flying:
            future.cancel()
        if self.spare is not None:
            self.spare.shutdown(wait=False, cancel_futures=True)
        if self.dask is not None and self.dask.status == "running":
            self.stored = None
            self.dask.run(forget, self.parcel.handle.token, on_error="ignore")
