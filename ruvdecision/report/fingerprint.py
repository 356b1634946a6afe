"""A fingerprint of a map: two maps with the same one hold the same releases and the same numbers."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ..maps.rumap import RUMap


def fingerprint(rumap: RUMap) -> str:
    """SHA-256 of a map's labels and numbers, in hexadecimal.

    It covers the releases in their order, both users' uncertainties with their errors, U0, risk, utility and all
    further columns. It does not cover attributes and notes, so it does not change when a map is saved and read again.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> len(fingerprint(rumap)), fingerprint(rumap) == fingerprint(rumap.take([1, 0]))
    (64, False)
    """
    state = hashlib.sha256(b"ruvdecision map 1")
    _add(state, "release", np.array(rumap.releases, dtype=str))
    for who, pair in (("intruder", rumap.intruder), ("scientist", rumap.scientist)):
        if pair is not None:
            _add(state, f"{who}_uncertainty", pair.value)
            _add(state, f"{who}_error", pair.error)
    for name, values in zip(("intruder_before", "scientist_before"), rumap.before, strict=True):
        _add(state, name, values)
    for name in ("risk", "utility"):
        _add(state, name, getattr(rumap, name))
    for name in sorted(rumap.columns):
        _add(state, f"column {name}", rumap.columns[name])
    return state.hexdigest()


def _add(state: Any, name: str, values: Any) -> None:
    state.update(_framed(name))
    if values.dtype.kind in "biuf":
        # One NaN and one zero: the same number must give the same bytes on every machine.
        numbers = np.where(np.isnan(values.astype(np.float64)), np.nan, values.astype(np.float64)) + 0.0
        state.update(_framed(numbers.astype("<f8").tobytes()))
    else:
        for text in values.tolist():
            state.update(_framed(str(text)))


def _framed(content: str | bytes) -> bytes:
    """Put the length in front, so that no two lists of texts run together to the same bytes."""
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8, "little") + raw
