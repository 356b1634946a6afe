"""What a mask does, in words: steps read as sentences for people who do not read Python."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import reduce, singledispatch
from operator import or_

import numpy as np

from ..checks import is_integer
from ..errors import RuvError
from ..protocols import Array
from .steps import (
    AddNoise,
    AverageRows,
    ClipTo,
    Cut,
    Drop,
    FileFacts,
    MaskLike,
    Matrix,
    MeanOfTail,
    Multiply,
    PermuteRows,
    Resolved,
    RoundTo,
    SampleRows,
    Step,
    facts_after,
    resolve,
)


def in_words(mask: MaskLike, about: FileFacts) -> str:
    """What a mask does to a file, as orders: "add normal noise with variance 29 to income, then publish the average".

    A step that only its mask can describe is given as the mask is written.

    >>> from ruvdecision import Microaggregate, Noise
    >>> in_words(Noise(variance=29) | Microaggregate(groups=1), FileFacts(10, ("income",)))
    'add normal noise with variance 29 to income, then publish the average of all records'
    """
    try:
        if mask.separate_releases:
            return _releases_in_words(mask, about)
        steps = resolve(mask, about)
    except (RuvError, NotImplementedError):  # steps that need the data themselves
        return f"apply {mask}"
    said = [text for found in steps if (text := _step_in_words(found.step, found))]
    return ", then ".join(dict.fromkeys(said)) or "publish the records as they are"


def _releases_in_words(mask: MaskLike, about: FileFacts) -> str:
    """What several releases start from, and what each of them does."""
    start = reduce(or_, mask.parts[:-1]) if len(mask.parts) > 1 else None
    first = "" if start is None else f"{in_words(start, about)}, then "
    after = about if start is None else facts_after(resolve(start, about), about)
    return first + "; and as another release: ".join(in_words(each, after) for each in mask.separate_releases)


@singledispatch
def _step_in_words(step: Step, found: Resolved) -> str:
    return f"apply {found.mask}"


@_step_in_words.register
def _(step: Drop, found: Resolved) -> str:
    if not step.columns:
        return ""  # it only tells rows apart
    if step.rows is None:
        whole = len(step.columns) == found.about.k
        return "publish nothing" if whole else f"leave out {_columns_in_words(step, found)}"
    blank = int(np.sum(step.rows.row_labels() == 1))
    return f"blank {_columns_in_words(step, found)} in {blank:,} of {found.about.n:,} records"


@_step_in_words.register
def _(step: SampleRows, found: Resolved) -> str:
    return "" if step.rows is None else f"keep a random sample of {step.kept:,} of {found.about.n:,} records"


@_step_in_words.register
def _(step: PermuteRows, found: Resolved) -> str:
    return "put the records in random order"


@_step_in_words.register
def _(step: AverageRows, found: Resolved) -> str:
    if step.rows is None:
        return ""
    of = "" if len(step.columns) == found.about.k else f" of {_columns_in_words(step, found)}"
    if step.rows.is_one_group:
        return f"publish the average{of or ' of all records'}"
    groups = len(np.unique(step.rows.row_labels()))
    return f"replace the values{of} in each of {groups:,} groups of records by their average"


@_step_in_words.register
def _(step: AddNoise, found: Resolved) -> str:
    if step.size is not None:
        size = f"with a {step.size.unit} that depends on the value"
    else:
        matrices = step.covariance[0]
        diagonal = np.diagonal(matrices, axis1=1, axis2=2)
        if not np.any(matrices):
            return ""
        if np.all(np.isinf(diagonal)):
            return f"leave out {_columns_in_words(step, found)}"
        alike = np.unique(diagonal)
        size = "with variance " + (_format_number(alike[0]) if alike.size == 1 else _numbers_in_words(alike))
        size += ", correlated between columns" if np.any(matrices[:, ~np.eye(len(step.columns), dtype=bool)]) else ""
    one = "one draw of " if step.common else ""
    kind = {"t": "Student-t", "laplace": "Laplace"}.get(step.kind.name, step.kind.name)
    return f"add {one}{kind} noise {size} to {_columns_in_words(step, found)}"


@_step_in_words.register
def _(step: Multiply, found: Resolved) -> str:
    return f"multiply {_columns_in_words(step, found)} by random factors around 1 ({step.factor.name})"


@_step_in_words.register
def _(step: ClipTo, found: Resolved) -> str:
    ends = []
    if np.any(np.isfinite(step.lower)):
        ends.append(f"below {_numbers_in_words(step.lower)} up to it")
    if np.any(np.isfinite(step.upper)):
        ends.append(f"above {_numbers_in_words(step.upper)} down to it")
    return f"set {_columns_in_words(step, found)} {' and '.join(ends)}" if ends else ""


@_step_in_words.register
def _(step: RoundTo, found: Resolved) -> str:
    how = "at random up or down to" if step.random else "to"
    return f"round {_columns_in_words(step, found)} {how} multiples of {_numbers_in_words(step.base)}"


@_step_in_words.register
def _(step: Cut, found: Resolved) -> str:
    size = (
        f"{len(step.edges) - 1} intervals"
        if step.edges is not None
        else f"intervals of width {_format_number(step.width)}"
    )
    return f"publish {_columns_in_words(step, found)} in {size}"


@_step_in_words.register
def _(step: Matrix, found: Resolved) -> str:
    return f"redraw the categories of {_columns_in_words(step, found)} with given probabilities"


@_step_in_words.register
def _(step: MeanOfTail, found: Resolved) -> str:
    side = "above" if step.above else "below"
    return f"replace what lies {side} {_numbers_in_words(step.at)} in {_columns_in_words(step, found)} by its average"


def _columns_in_words(step: Step, found: Resolved) -> str:
    names: Sequence[Hashable] = found.about.names
    picked = [names[j] for j in step.columns]
    if all(map(is_integer, names)):  # columns without names of their own
        if len(picked) == len(names):
            return "every record" if len(names) == 1 else "every column"
        return ("column " if len(picked) == 1 else "columns ") + _list_in_words([str(name) for name in picked])
    return "every column" if len(picked) == len(names) > 3 else _list_in_words([str(name) for name in picked])


def _list_in_words(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _numbers_in_words(values: Array) -> str:
    known = list(dict.fromkeys(np.ravel(values)[np.isfinite(np.ravel(values))].tolist()))
    return (
        _list_in_words([_format_number(v) for v in known])
        if len(known) <= 3
        else f"{_format_number(min(known))} to {_format_number(max(known))}"
    )


def _format_number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:,.0f}"
