"""How many threads linear algebra may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS on one thread: many small problems lose more to waiting threads than they gain."""
    with _thread_controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _thread_controller() -> Any:
    """The libraries' thread settings, looked up once because the search takes longer than a small problem."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
