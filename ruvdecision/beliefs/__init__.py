"""Beliefs: a user's joint law of parameters and records before the release."""

from .finite import FiniteBelief
from .normal import NormalBelief
from .pymc import PyMCBelief
from .table.belief import Cell, TableBelief

__all__ = ["Cell", "FiniteBelief", "NormalBelief", "PyMCBelief", "TableBelief"]
