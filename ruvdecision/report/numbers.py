"""How a report writes numbers."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["count", "number", "value"]


def number(x: float, digits: int = 6) -> str:
    """A number with so many digits, infinity as its sign, and a word where there is none.

    >>> number(2.6509803921), number(float("inf")), number(float("nan"))
    ('2.65098', '∞', 'none')
    """
    return "none" if math.isnan(x) else f"{x:.{digits}g}".replace("inf", "∞").replace("-", "−")


def value(x: Any, error: Any = 0.0) -> str:
    """A number with its standard error, where it has one.

    >>> value(0.5, 0.03), value(0.5)
    ('0.5 ± 0.03', '0.5')
    """
    x, error = float(x), float(error)
    if math.isnan(error) or math.isinf(error):
        return f"{number(x)} ± unknown"
    return number(x) + (f" ± {number(error, 2)}" if error > 0 else "")


def count(size: int, what: str) -> str:
    """A number of things.

    >>> count(1, "release"), count(4000, "release")
    ('1 release', '4,000 releases')
    """
    return f"{size:,} {what}" + "s" * (size != 1)
