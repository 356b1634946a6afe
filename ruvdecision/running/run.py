"""Running many small tasks, here or on workers, with the same results in the same order whoever does them.

No scheduler of our own: any `concurrent.futures.Executor` does the work. What is added is what a long run needs: what
all tasks share goes to a worker once, finished tasks are kept on disk, and Ctrl-C stops cleanly.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
import threading
import traceback
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..checks import Seed, as_seed_sequence, check_kind
from ..errors import InputError, RuvError
from .checkpoint import Checkpoint, kept_seed

AHEAD = 4
"""Tasks that the executor has per worker: enough to keep it busy, few enough to stop quickly."""

STUDIES = "ruvdecision_study_"
"""How the names of study modules begin; they are made from files, and no worker can import them."""

SEED_MEANS = (
    "Makes this map again. Whoever knows a seed can draw the same random numbers and take noise off: release files "
    "that leave the agency without one, mask.release(data)."
)


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
    fits : callable
        Whether a result that a checkpoint keeps has the shape of this task's; one that has not is done again. It may
        fail on what it did not expect, and stays here.
    """

    key: str
    function: Callable[..., object]
    arguments: tuple[object, ...] = ()
    fits: Callable[[object], bool] = lambda _: True


class RunResult(NamedTuple):
    """Results in the order of the tasks, None where a task was not done, and whether Ctrl-C came."""

    results: list[Any]
    interrupted: bool


def run(
    tasks: Sequence[Task],
    *,
    shared: object = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    fingerprint: Callable[[], Mapping[str, object]] | None = None,
    on_progress: Callable[[float], object] | None = None,
) -> RunResult:
    """Do all tasks and give back their results in order.

    An error in a task ends the run; of several errors the first by the order of tasks is raised, as it is. What was
    finished before is in the checkpoint. Ctrl-C stops the run cleanly.

    Parameters
    ----------
    tasks : list of Task
        What to do.
    shared : object, optional
        The first argument of every function. A worker gets it once.
    executor : concurrent.futures.Executor, optional
        Who does it: a process or thread pool, ``dask.distributed``'s ``Client.get_executor()``; one after the other
        here if not given. Results are the same.
    checkpoint : str or Path, optional
        A directory. Each finished task is on disk there before the next is taken; tasks that are there already are not
        done again. Their results must be numbers, text, arrays, lists or dictionaries of them.
    fingerprint : function that gives a mapping from name to object, optional
        What the results depend on, such as ``{"masks": masks, "seed": seed, "data": data}``; a checkpoint with other
        ones is refused, and the error names the part. By default ``shared`` and the tasks themselves.
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
    if executor is not None:
        check_kind("executor", executor, Executor, "Write ProcessPoolExecutor(4), or client.get_executor()")
    if checkpoint is None:
        return _run_tasks(tasks, [None] * len(tasks), shared, executor, None, on_progress)
    parts = {"shared": shared, "tasks": [t.arguments for t in tasks]} if fingerprint is None else fingerprint()
    with Checkpoint(checkpoint, {**parts, "work": [(t.key, t.function) for t in tasks]}) as kept:
        return _run_tasks(tasks, [kept.get(task.key, task.fits) for task in tasks], shared, executor, kept, on_progress)


def root_seed(seed: Seed, checkpoint: str | os.PathLike[str] | None = None) -> np.random.SeedSequence:
    """The root of a run's random numbers; without a seed a fresh one, or the one that the checkpoint keeps.

    Ask for it before `run`: a run that was given no seed could not go on otherwise.

    >>> root_seed(3).entropy
    3
    """
    return as_seed_sequence(seed) if seed is not None or checkpoint is None else kept_seed(checkpoint)


def seed_attrs(root: np.random.SeedSequence) -> dict[str, str]:
    """The seed as attributes of a map, with what it means. A report, which leaves the room, gives a digest of it."""
    return {"seed": str(root.entropy), "seed_means": SEED_MEANS}


def _run_tasks(
    tasks: Sequence[Task],
    found: Sequence[tuple[object] | None],
    shared: object,
    executor: Executor | None,
    kept: Checkpoint | None,
    on_progress: Callable[[float], object] | None,
) -> RunResult:
    results = [None if item is None else item[0] for item in found]
    todo = [i for i, item in enumerate(found) if item is None]
    done = len(tasks) - len(todo)
    if on_progress is not None:
        on_progress(done / max(len(tasks), 1))  # where the pace begins
    try:
        for i, result in (_run_here if executor is None else partial(_run_in_executor, executor))(tasks, todo, shared):
            if kept is not None:
                kept.put(tasks[i].key, result)
            results[i] = result
            done += 1
            if on_progress is not None:
                on_progress(done / len(tasks))
    except KeyboardInterrupt:
        return RunResult(results, True)
    return RunResult(results, False)


def _run_here(tasks: Sequence[Task], todo: Sequence[int], shared: object) -> Iterator[tuple[int, object]]:
    for i in todo:
        yield i, tasks[i].function(shared, *tasks[i].arguments)


# -- on workers --------------------------------------------------------------------------------------------


def _run_in_executor(
    executor: Executor, tasks: Sequence[Task], todo: Sequence[int], shared: object
) -> Iterator[tuple[int, object]]:
    """Results as workers finish them. A worker that lacks what is shared says so, and gets it with the next task."""
    token = uuid.uuid4().hex
    waiting: deque[tuple[int, bytes | None]] = deque((i, None) for i in todo)
    held: list[int] = []
    flying: dict[Future[Reply], int] = {}
    carriers: set[int] = set()
    lacking: set[Worker] = set()
    workers: set[Worker] = set()
    errors: dict[int, BaseException] = {}
    cargo = None
    _SHARED[token] = shared
    try:
        while waiting or flying:
            # How many workers there are is known from who has answered.
            while waiting and len(flying) < AHEAD * max(os.cpu_count() or 1, len(workers)):
                i, carried = waiting.popleft()
                work = pickle_for_worker((tasks[i].function, tasks[i].arguments))
                with _as_broken_executor():
                    flying[executor.submit(run_on_worker, token, i, carried, work)] = i
            with _as_broken_executor():
                done = wait(flying, return_when=FIRST_COMPLETED).done
            for future in done:
                i, error = flying.pop(future), future.exception()
                if isinstance(error, (BrokenExecutor, KeyboardInterrupt)):
                    raise error
                if isinstance(error, OSError) and _is_scheduler_error(executor, error):
                    raise BrokenExecutor(type(error).__name__) from error
                if i in carriers:
                    carriers.remove(i)
                    lacking.clear()
                    waiting.extendleft((j, None) for j in reversed(held))
                    held.clear()
                if error is not None:
                    errors[i] = error
                    continue
                reply = future.result()
                workers.add(reply.worker)
                if reply.result is not None:
                    yield i, reply.result[0]
                elif reply.worker in lacking:
                    held.append(i)  # what its worker lacks is on the way
                else:
                    lacking.add(reply.worker)
                    carriers.add(i)
                    cargo = pickle_for_worker(shared) if cargo is None else cargo
                    waiting.appendleft((i, cargo))
            if errors:
                # The first error by the order of tasks is raised: those before it must be done, those after it not.
                first = min(errors)
                waiting = deque(item for item in (*((j, None) for j in held), *waiting) if item[0] < first)
                held.clear()
                lacking.clear()  # a carrier may be among those after it
                if not waiting and all(i > first for i in flying.values()):
                    raise errors[first]
    except (BrokenExecutor, CancelledError) as error:
        yield from _collect_finished(flying)
        raise RuvError(
            "The executor broke: a worker may have been killed or out of memory, or the scheduler is gone",
            type(error.__cause__ or error).__name__,
            "Run it again with a new executor, perhaps with fewer workers; with checkpoint= it goes on where it was",
        ) from error
    except KeyboardInterrupt:
        yield from _collect_finished(flying)
        raise
    finally:
        for future in flying:
            future.cancel()
        del _SHARED[token]


@contextmanager
def _as_broken_executor() -> Iterator[None]:
    """What goes wrong between us and the workers is an executor that broke."""
    try:
        yield
    except BrokenExecutor:
        raise
    except (OSError, RuntimeError) as error:
        raise BrokenExecutor(type(error).__name__) from error


def _is_scheduler_error(executor: Executor, error: BaseException) -> bool:
    """Whether an error of dask's comes from a scheduler that cannot be reached, not from a task on a worker."""
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    return type(executor).__module__.startswith("distributed") and run_on_worker.__name__ not in names


def _collect_finished(flying: Mapping[Future[Reply], int]) -> Iterator[tuple[int, object]]:
    for future, i in flying.items():
        if future.done() and not future.cancelled() and future.exception() is None:
            result = future.result().result
            if result is not None:
                yield i, result[0]


class _Sealed(bytes):
    """Bytes that do not show what they hold: dask's workers log the arguments of a task that failed."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"

    __str__ = __repr__


Worker = tuple[str, int, int]
"""Machine, process and thread."""


class Reply(NamedTuple):
    """A worker's answer: who it is, and the result in a tuple of one, or None if it does not have what is shared."""

    worker: Worker
    result: tuple[object] | None


_SHARED: dict[str, object] = {}
"""What runs of this process share, by their tokens. Threads find it here, and so do processes that are forked."""
_RECEIVED: dict[str, object] = {}
"""What this worker was sent last. It is in memory only: no file is written that could outlive a killed run."""
_LOCK = threading.Lock()


def run_on_worker(token: str, _number: int, cargo: bytes | None, work: bytes) -> Reply:
    """Do one task on a worker. What all tasks share comes with a task only where a worker said that it lacks it.

    The number is for dask, which takes tasks whose arguments look alike for one task.
    """
    worker = (socket.gethostname(), os.getpid(), threading.get_ident())
    with _LOCK:
        if cargo is not None and token not in _RECEIVED:
            _RECEIVED.clear()
            _RECEIVED[token] = pickle.loads(cargo)
        known = _SHARED if token in _SHARED else _RECEIVED
        if token not in known:
            return Reply(worker, None)
        shared = known[token]
    function, arguments = pickle.loads(work)
    return Reply(worker, (function(shared, *arguments),))


def pickle_for_worker(value: object) -> _Sealed:
    """Pickle ``value``, with lambdas, closures, and classes of the main module and of study files by their code."""
    import cloudpickle  # type: ignore[import-untyped]

    for module in [module for name, module in list(sys.modules.items()) if name.startswith(STUDIES)]:
        cloudpickle.register_pickle_by_value(module)
    try:
        return _Sealed(cloudpickle.dumps(value))
    except Exception as error:  # pickling runs code of any kind and fails in any way
        kind = type(error).__name__  # its text may show what was being pickled
    do = "Leave executor= out, or use functions and classes that can be pickled (no open files, locks or generators)"
    raise InputError("A part of the study cannot be sent to a worker", kind, do)
