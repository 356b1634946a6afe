"""Questions asked of maps, users and masks: what is best, what is possible, how sure, what it is worth."""

import lazy_loader

# These functions have the names of their modules, which would hide them once something has imported the module.
from .calibrate import calibrate as calibrate
from .limit import limit as limit
from .optimise import optimise as optimise
from .record_risk import record_risk as record_risk
from .sensitivity import sensitivity as sensitivity
from .worth import worth as worth

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
