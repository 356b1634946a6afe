"""Synthetic data: the mask, and the rules that combine several copies."""

from .combine import Combined, combine_full, combine_partial
from .mask import Synthesize

__all__ = ["Combined", "Synthesize", "combine_full", "combine_partial"]
