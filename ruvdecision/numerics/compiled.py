"""Inner loops that array operations cannot express, compiled by numba when one of them is first called."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np

PLAIN = 200_000
"""Steps that a plain function takes in all, at most a quarter of them in one call, before it is compiled.

Loading numba takes longer, and compiling up to ten seconds.
"""


def compiled(
    *helpers: Callable[..., Any],
    fastmath: frozenset[str] | None = None,
    steps: Callable[..., float] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that is plain Python and gives the same answer without numba, only slowly.

    ``helpers`` are the functions of the same kind that it calls, ``fastmath`` the liberties that the compiler may take
    with sums. The machine code is cached on disk, so that a new process does not compile again. Nothing runs in
    parallel: results do not depend on the number of threads. The plain function stays at ``__wrapped__``.

    ``steps`` says how many steps, of about a microsecond each, the plain function takes: small files are done before
    numba is loaded. It must then give the same bits: of sums only ``cumsum`` adds in the same order with and without
    numba, and a square is a product.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def machine_code() -> Callable[..., Any]:
            import numba
            from numba.extending import register_jitable

            for helper in helpers:
                register_jitable(helper)
            options = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath) if fastmath else False}
            try:
                return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
            except RuntimeError:
                # No directory that could hold the cache: compile for this process alone.
                return numba.njit(**options)(function)  # type: ignore[no-any-return]

        taken = 0.0

        @wraps(function)
        def call(*arguments: Any) -> Any:
            nonlocal taken
            if steps is not None and taken < PLAIN:
                wanted = steps(*arguments)
                taken += wanted
                if wanted < PLAIN / 4 and taken < PLAIN:
                    with np.errstate(all="ignore"):
                        return function(*arguments)
            return machine_code()(*arguments)

        return call

    return decorate


def count_bits(x: np.uint64) -> np.uint64:
    """How many bits of a word are set."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)
