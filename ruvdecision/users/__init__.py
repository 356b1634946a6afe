"""Who waits for the release: users, snoopers, panels, and what they know of the mask."""

from . import rules
from .mask_prior import MaskPrior
from .panel import Panel, vary_user
from .user import Snooper, User

__all__ = ["MaskPrior", "Panel", "Snooper", "User", "rules", "vary_user"]
