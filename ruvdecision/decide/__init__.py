"""Choosing among the releases of a map: which ones are not dominated, and which one is best.

`frontier` keeps the releases that no other one dominates, `choose` takes the best one, `probabilities` says how sure
that is given the errors of the map, `explain` and `dominated_releases` say why the others are not on the frontier.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
