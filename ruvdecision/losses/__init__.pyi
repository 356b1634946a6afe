from .base import BayesLoss as BayesLoss, Componentwise as Componentwise
from .custom import CustomLoss as CustomLoss, as_loss as as_loss
from .distance import (
    Absolute as Absolute,
    Huber as Huber,
    Linex as Linex,
    Pinball as Pinball,
    Power as Power,
    Quadratic as Quadratic,
    ZeroOne as ZeroOne,
)
from .scores import (
    CRPS as CRPS,
    IntervalScore as IntervalScore,
    KullbackLeibler as KullbackLeibler,
    LogScore as LogScore,
)
