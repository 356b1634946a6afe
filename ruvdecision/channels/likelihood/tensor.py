"""The PyTensor twin of the functions that likelihoods are written in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np


def tensor_math() -> SimpleNamespace:
    """Return the namespace `NUMPY` over PyTensor variables; PyTensor is imported here and nowhere else.

    >>> tensor_math().name
    'pytensor'
    """
    import pytensor.tensor as pt
    from pytensor.scalar.basic import autocast_float_as
    from pytensor.tensor.sort import sort

    def call(function: Any, x: Any) -> Any:
        # 2.0 * (x > 4) would be in single precision otherwise.
        with autocast_float_as("float64"):
            return pt.cast(pt.as_tensor_variable(function(x)), "float64")

    def wide(function: Any) -> Any:
        # PyTensor tries plain numbers in single precision first, where 1e-300 is not to be had.
        return lambda *values: function(
            *(np.asarray(v, dtype=np.float64) if isinstance(v, (int, float)) else v for v in values)
        )

    def log_ndtr(z: Any) -> Any:
        # Each branch is given values that it can take: a gradient sees both.
        low, high = pt.minimum(z, -1.0), pt.maximum(z, -1.0)
        far = pt.log(pt.erfcx(-low / 2**0.5) / 2) - low**2 / 2
        return pt.where(z < -1.0, far, pt.log1p(-pt.erfc(high / 2**0.5) / 2))

    return SimpleNamespace(
        name="pytensor",
        exp=pt.exp,
        log=pt.log,
        log1p=pt.log1p,
        expm1=pt.expm1,
        sqrt=pt.sqrt,
        abs=pt.abs,
        where=wide(pt.where),
        maximum=wide(pt.maximum),
        minimum=wide(pt.minimum),
        floor=pt.floor,
        ceil=pt.ceil,
        rint=lambda x: pt.round(x, mode="half_to_even"),
        isfinite=lambda x: pt.invert(pt.isnan(x) | pt.isinf(x)),
        logical_and=pt.and_,
        logical_or=pt.or_,
        ndtr=lambda z: pt.erfc(-z / 2**0.5) / 2,
        log_ndtr=log_ndtr,
        gammaln=pt.gammaln,
        betainc=pt.betainc,
        logaddexp=pt.logaddexp,
        stack=pt.stack,
        concatenate=pt.concatenate,
        sort=sort,
        sum=pt.sum,
        max=pt.max,
        asarray=pt.as_tensor_variable,
        call=call,
        zeros_like=pt.zeros_like,
    )
