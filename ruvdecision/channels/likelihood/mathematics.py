"""The functions that likelihoods are written in: one text serves numpy and PyTensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy import special

from ...numerics.quadrature import gauss_legendre
from ...protocols import Array

Values: TypeAlias = Any
"""Numbers that a likelihood works with: a numpy array or a PyTensor variable, or a number beside one."""

TINY = 1e-300
"""Stands for zero under a logarithm, so that gradients stay finite: exp(-690) is nothing."""

LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)
LEGENDRE = gauss_legendre(16)
"""Nodes and weights on [-1, 1]; sixteen are exact to the last digit for a panel of a smooth function."""


def _as_static(function: Callable[..., Values]) -> staticmethod[..., Values]:
    return staticmethod(function)


def _without_warnings(function: Callable[..., Values]) -> staticmethod[..., Values]:
    def call(*values: Values, **options: int) -> Values:
        # log 0 = -inf and exp of much are what is meant, not accidents.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore", under="ignore"):
            return function(*values, **options)

    return staticmethod(call)


class Mathematics:
    """What a likelihood may compute with. This is numpy's; `tensor_math` gives PyTensor's, under the same names."""

    name = "numpy"
    exp = _without_warnings(np.exp)
    log = _without_warnings(np.log)
    log1p = _without_warnings(np.log1p)
    expm1 = _without_warnings(np.expm1)
    sqrt = _as_static(np.sqrt)
    abs = _as_static(np.abs)
    where = _as_static(np.where)
    maximum = _as_static(np.maximum)
    minimum = _as_static(np.minimum)
    floor = _as_static(np.floor)
    ceil = _as_static(np.ceil)
    rint = _as_static(np.rint)
    isfinite = _as_static(np.isfinite)
    logical_and = _as_static(np.logical_and)
    logical_or = _as_static(np.logical_or)
    ndtr = _as_static(special.ndtr)
    log_ndtr = _without_warnings(special.log_ndtr)
    gammaln = _as_static(special.gammaln)
    betainc = _as_static(special.betainc)
    logaddexp = _without_warnings(np.logaddexp)
    stack = _as_static(np.stack)
    concatenate = _as_static(np.concatenate)
    sort = _as_static(np.sort)
    sum = _as_static(np.sum)
    max = _as_static(np.max)
    asarray = _as_static(np.asarray)

    @staticmethod
    def zeros_like(x: Values) -> Values:
        """Zeros of the shape of ``x``."""
        return np.zeros(np.shape(x))

    @staticmethod
    def call(function: Callable[[Values], Values], x: Values) -> Values:
        """A user's function of numbers."""
        return function(x)


NUMPY = Mathematics()
SAME = (
    *("exp", "log", "log1p", "expm1", "sqrt", "abs", "floor", "ceil", "gammaln", "betainc", "logaddexp"),
    *("stack", "concatenate", "sum", "max", "zeros_like"),
)
"""Functions that PyTensor has under numpy's names."""


def tensor_math() -> Mathematics:
    """Return the twin of `NUMPY` over PyTensor variables; PyTensor is imported here and nowhere else.

    >>> tensor_math().name
    'pytensor'
    """
    import pytensor.tensor as pt
    from pytensor.scalar.basic import autocast_float_as
    from pytensor.tensor.sort import sort

    def call(function: Callable[[Values], Values], x: Values) -> Values:
        # 2.0 * (x > 4) would be in single precision otherwise.
        with autocast_float_as("float64"):
            return pt.cast(pt.as_tensor_variable(function(x)), "float64")

    def wide(function: Callable[..., Values]) -> Callable[..., Values]:
        # PyTensor tries plain numbers in single precision first, where 1e-300 is not to be had.
        return lambda *values: function(
            *(np.asarray(v, dtype=np.float64) if isinstance(v, (int, float)) else v for v in values)
        )

    def log_ndtr(z: Values) -> Values:
        # Each branch is given values that it can take: a gradient sees both.
        low, high = pt.minimum(z, -1.0), pt.maximum(z, -1.0)
        far = pt.log(pt.erfcx(-low / 2**0.5) / 2) - low**2 / 2
        return pt.where(z < -1.0, far, pt.log1p(-pt.erfc(high / 2**0.5) / 2))

    twin = Mathematics()
    vars(twin).update(
        {name: getattr(pt, name) for name in SAME},
        name="pytensor",
        where=wide(pt.where),
        maximum=wide(pt.maximum),
        minimum=wide(pt.minimum),
        rint=lambda x: pt.round(x, mode="half_to_even"),
        isfinite=lambda x: pt.invert(pt.isnan(x) | pt.isinf(x)),
        logical_and=pt.and_,
        logical_or=pt.or_,
        ndtr=lambda z: pt.erfc(-z / 2**0.5) / 2,
        log_ndtr=log_ndtr,
        sort=sort,
        asarray=pt.as_tensor_variable,
        call=call,
    )
    return twin


def legendre_for(x: Values) -> tuple[Array, Array]:
    """Nodes and weights on a first axis of their own, to broadcast with an array or tensor.

    >>> legendre_for(np.zeros((2, 3)))[0].shape
    (16, 1, 1)
    """
    shape = (-1, *(1,) * x.ndim)
    return LEGENDRE[0].reshape(shape), LEGENDRE[1].reshape(shape)


def logsumexp(terms: Values, math: Mathematics = NUMPY) -> Values:
    """Logarithm of a sum of exponentials over the first axis; -inf if all terms are.

    >>> float(logsumexp(np.log([[1.0], [3.0]]))[0].round(6))
    1.386294
    """
    largest = math.maximum(math.max(terms, axis=0), -1e300)
    total = math.sum(math.exp(terms - largest), axis=0)
    # The logarithm never sees a zero: its gradient would be infinite times nothing.
    return math.where(total > 0, largest + math.log(math.maximum(total, TINY)), -np.inf)
