"""Beliefs: a user's joint law of parameters and records before the release."""

from .base import BaseBelief
from .finite import FiniteBelief
from .normal import NormalBelief
from .pymc import PyMCBelief
from .table.belief import TableBelief

__all__ = ["BaseBelief", "FiniteBelief", "NormalBelief", "PyMCBelief", "TableBelief"]
