"""Beliefs: a user's joint law of parameters and records before the release."""

from .normal import NormalBelief

__all__ = ["NormalBelief"]
