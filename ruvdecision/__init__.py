"""Risk-utility maps for confidential data: intruder and scientist as Bayesian decision makers.

A belief and a mask give a release, the release a posterior of the target, the posterior an estimate and its
uncertainty, both users' uncertainties a map, the map a choice. The names stand in that order in ``__init__.pyi`` and
are imported when they are first used.
"""

import importlib
import sys
import types

import lazy_loader

from ._version import __version__ as __version__


class _Package(types.ModuleType):
    """Two functions have the names of their modules, which would hide them once something has imported the module."""


def _function(name: str) -> property:
    def get(package: types.ModuleType) -> object:
        found = package.__dict__.get(name)
        return getattr(importlib.import_module(f"{__name__}.{name}"), name) if found is None else found

    def put(package: types.ModuleType, value: object) -> None:
        if not isinstance(value, types.ModuleType):
            package.__dict__[name] = value

    return property(get, put)


for _name in ("evaluate", "measure"):
    setattr(_Package, _name, _function(_name))
sys.modules[__name__].__class__ = _Package

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
