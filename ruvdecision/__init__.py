"""Risk-utility maps for confidential data: intruder and scientist as Bayesian decision makers.

A belief and a mask give a release, the release a posterior of the target, the posterior an estimate and its
uncertainty, both users' uncertainties a map, the map a choice. The names stand in that order in ``__init__.pyi`` and
are imported when they are first used.
"""

import lazy_loader

from ._version import __version__ as __version__

# These two functions have the names of their modules, which would hide them once something has imported the module.
from .evaluate import evaluate as evaluate
from .measure import measure as measure

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
