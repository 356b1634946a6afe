"""What it costs a user to be wrong.

Each loss gives the Bayes estimate and the uncertainty from what a posterior offers.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
