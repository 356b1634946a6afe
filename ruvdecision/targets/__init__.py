"""What a user wants to know: one record, all records, a parameter, a function of them.

A target says what it is, and nobody asks for its type: `BaseTarget` has everything that engines ask.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
