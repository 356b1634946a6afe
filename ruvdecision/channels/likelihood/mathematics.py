"""The functions that likelihoods are written in: one text serves numpy and, through its twin, PyTensor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special as sp

from ...numerics.quadrature import gauss_legendre

# Stands for zero under a logarithm, so that gradients stay finite: exp(-690) is nothing.
TINY = 1e-300

# Gauss-Legendre nodes and weights on [-1, 1]; sixteen points are exact to the last digit for a panel of a smooth
# function.
LEGENDRE = gauss_legendre(16)


def _quiet(function: Any) -> Any:
    def call(*values: Any, **options: Any) -> Any:
        # log 0 = -inf and exp of much are what is meant, not accidents.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
            return function(*values, **options)

    return call


NUMPY = SimpleNamespace(
    name="numpy",
    exp=_quiet(np.exp),
    log=_quiet(np.log),
    log1p=_quiet(np.log1p),
    expm1=_quiet(np.expm1),
    sqrt=np.sqrt,
    abs=np.abs,
    where=np.where,
    maximum=np.maximum,
    minimum=np.minimum,
    floor=np.floor,
    ceil=np.ceil,
    rint=np.rint,
    isfinite=np.isfinite,
    logical_and=np.logical_and,
    logical_or=np.logical_or,
    ndtr=sp.ndtr,
    log_ndtr=_quiet(sp.log_ndtr),
    gammaln=sp.gammaln,
    betainc=sp.betainc,
    logaddexp=_quiet(np.logaddexp),
    stack=np.stack,
    concatenate=np.concatenate,
    sort=np.sort,
    sum=np.sum,
    max=np.max,
    asarray=np.asarray,
    zeros_like=lambda x: np.zeros(np.shape(x)),
)


def legendre_for(x: Any) -> tuple[Any, Any]:
    """Nodes and weights on a first axis of their own, to broadcast with an array or tensor.

    >>> legendre_for(np.zeros((2, 3)))[0].shape
    (16, 1, 1)
    """
    shape = (-1, *(1,) * x.ndim)
    return LEGENDRE[0].reshape(shape), LEGENDRE[1].reshape(shape)


def logsumexp(terms: Any, math: Any = NUMPY) -> Any:
    """Logarithm of a sum of exponentials over the first axis; -inf if all terms are.

    >>> float(logsumexp(np.log([[1.0], [3.0]]))[0].round(6))
    1.386294
    """
    largest = math.maximum(math.max(terms, axis=0), -1e300)
    total = math.sum(math.exp(terms - largest), axis=0)
    # The logarithm never sees a zero: its gradient would be infinite times nothing.
    return math.where(total > 0, largest + math.log(math.maximum(total, TINY)), -np.inf)
