"""The executor of a command: none, processes of this machine, or a dask cluster."""

from __future__ import annotations

import argparse
import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from ..errors import InputError, UnsupportedError


@contextmanager
def executor_of(options: argparse.Namespace) -> Iterator[Executor | None]:
    """The executor that --workers or --dask ask for, or None."""
    if options.dask is not None:
        if options.workers is not None:
            raise InputError(
                "--workers and --dask do not go together", f"{options.workers} and {options.dask}", "Give one of them"
            )
        try:
            from distributed import Client
        except ImportError:
            raise UnsupportedError(
                "--dask needs the package distributed, which is not installed", do="Install dask[distributed]"
            ) from None
        try:
            client = Client(options.dask, timeout="10s", set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            what = f"{type(error).__name__} at {options.dask}"
            raise InputError(
                "There is no dask scheduler to talk to", what, "Start one with dask scheduler, or check the address"
            ) from error
        with client:
            yield client.get_executor()
        return
    if options.workers is None or options.workers == 1:
        yield None
        return
    pool = ProcessPoolExecutor(options.workers, initializer=_begin_worker)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the workers end, too
    try:
        yield pool
    finally:
        signal.signal(signal.SIGTERM, before)
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in multiprocessing.active_children():
            worker.terminate()


def _begin_worker() -> None:
    # Ctrl-C is for the process that started the workers, which then ends them: they should not answer with tracebacks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
