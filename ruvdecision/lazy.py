"""Public names that are imported when they are first used, so that ``import ruvdecision`` stays light."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["attach"]


def attach(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping
        The module that each public name lives in, relative to the package; a name that is its own home is a submodule.
    """

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{home}")
        value = module if home == name else getattr(module, name, module)
        # From now on Python finds it without asking.
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted([*homes, *vars(sys.modules[package])]), sorted(homes)
