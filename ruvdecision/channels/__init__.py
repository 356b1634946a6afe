"""The law of a release given the records."""

from . import likelihood
from .linear import LinearChannel

__all__ = ["LinearChannel", "likelihood"]
