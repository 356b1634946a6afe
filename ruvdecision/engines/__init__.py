"""Engines: how posteriors are computed. `pick` chooses one and says why none can."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
