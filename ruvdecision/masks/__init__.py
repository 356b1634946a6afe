"""Masks: techniques with their parameters. One file per idea."""

from .base import Chain, Mask
from .microaggregate import Microaggregate
from .noise import Noise
from .release import Release
from .shuffle import Shuffle
from .subsample import Subsample
from .suppress import Suppress

__all__ = ["Chain", "Mask", "Microaggregate", "Noise", "Release", "Shuffle", "Subsample", "Suppress"]
