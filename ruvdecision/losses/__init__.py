"""What it costs a user to be wrong.

Each loss gives the Bayes estimate and the uncertainty from what a posterior offers.
"""

from __future__ import annotations

from .base import BayesLoss, Componentwise
from .custom import CustomLoss, as_loss
from .distance import Absolute, Huber, Linex, Pinball, Power, Quadratic, ZeroOne
from .scores import CRPS, IntervalScore, KullbackLeibler, LogScore

__all__ = [
    "CRPS",
    "Absolute",
    "BayesLoss",
    "Componentwise",
    "CustomLoss",
    "Huber",
    "IntervalScore",
    "KullbackLeibler",
    "Linex",
    "LogScore",
    "Pinball",
    "Power",
    "Quadratic",
    "ZeroOne",
    "as_loss",
]
