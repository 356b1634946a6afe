"""Beliefs: a user's joint law of parameters and records before the release."""

from .finite import FiniteBelief
from .normal import NormalBelief
from .pymc import PyMCBelief
from .table.belief import TableBelief

__all__ = ["FiniteBelief", "NormalBelief", "PyMCBelief", "TableBelief"]
