"""The law of a target given a release.

A posterior is the seam: losses ask it for what they need and never look at its type.
"""

from __future__ import annotations

from .base import BasePosterior
from .curve import Curve
from .drawn import Drawn
from .finite import Finite
from .gaussian import Gaussian
from .mixture import Mixture
from .partlydiscrete import PartlyDiscrete

__all__ = ["BasePosterior", "Curve", "Drawn", "Finite", "Gaussian", "Mixture", "PartlyDiscrete"]
