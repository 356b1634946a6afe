"""What noise lets through: the likelihood of noisy values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..channels.likelihood import Observation, Observed, Silent
from ..channels.likelihood.kernel import Sized, refuse_no_noise
from ..channels.likelihood.laws import LaplaceLaw, Law, NormalLaw, StudentLaw
from ..channels.likelihood.maps import Clip
from ..channels.likelihood.simple import split
from ..checks import as_float_array
from ..errors import InputError, UnsupportedError
from ..protocols import Array
from .noisesize import is_per_record

if TYPE_CHECKING:
    from .noise import Noise

__all__ = ["back"]


def back(mask: Noise, observed: Observed) -> Observed:
    """What is known about the values before the noise, if this is known about those after it."""
    _refuse(mask, observed.n)
    positions = observed.positions(mask.columns)
    n, k = observed.n, len(positions)
    if mask.where is None and mask.even is not None:
        return _independent(mask, observed, positions, np.full((n, k), mask.even))
    value = getattr(mask, mask.unit)
    apart = mask.unit in ("variance", "sd") and is_per_record(value, n, k)
    if isinstance(mask.where, tuple) or apart:
        observed.refuse_uneven(mask)
    times = (
        np.ones(n)
        if mask.where is None or callable(mask.where)
        else np.where(mask._where(n), float(mask.times or 1.0), 1.0)
    )
    if callable(value) or callable(mask.where):
        return _sized(mask, observed, positions, times)
    if not apart:
        matrix = mask.matrix(k)
        if np.any(matrix[~np.eye(k, dtype=bool)] != 0):
            return _correlated(mask, observed, positions, matrix * times[:, None, None])
        sd = np.sqrt(np.diag(matrix)) * np.sqrt(times)[:, None]
    else:
        given = np.asarray(value, dtype=np.float64).reshape(n, -1)
        if given.shape[1] not in (1, k):
            raise InputError(
                f"Noise({mask.unit}=...) must have one column or {k}",
                f"shape {given.shape}",
                "Give one number per record",
            )
        given = np.sqrt(given) if mask.unit == "variance" else given
        sd = np.broadcast_to(given, (n, k)) * np.sqrt(times)[:, None]
    return _independent(mask, observed, positions, sd)


def law(mask: Noise, sd: Array) -> Law:
    """The noise's law for entries of these sds."""
    if mask.kind == "laplace":
        return LaplaceLaw(np.array(sd))
    if mask.kind == "t":
        return StudentLaw(np.array(sd), float(mask.df or 0.0))
    if mask.kind == "mixture":
        return NormalLaw.of(sd, mask.weights, mask.centres)
    return NormalLaw.of(sd)


def _refuse(mask: Noise, n: int) -> None:
    why = None
    if mask.common and n > 1:
        why = "one draw of noise is common to all records, so that they do not tell apart"
    elif mask.share is not None:
        why = "the size of its noise is a share of the file's own covariance"
    elif mask.keep_moments or mask.matching_residuals:
        why = "it looks at the whole file's moments"
    if why is not None:
        exact = ", or a NormalBelief with engine=Exact()" if mask.obstacle is None else ""
        raise UnsupportedError(
            f"{mask} has no likelihood entry by entry: {why}",
            do=f"Use Noise(variance=...) or Noise(covariance=...) with a size of its own{exact}, or measure its releases with ruv.measure",
        )


def _bounds(mask: Noise, n: int, j: int, k: int) -> Clip | None:
    if mask.lower is None and mask.upper is None:
        return None
    ends = []
    for name, nothing in (("lower", -np.inf), ("upper", np.inf)):
        given = getattr(mask, name)
        row = np.atleast_1d(np.asarray(nothing if given is None else given, dtype=np.float64))
        if len(row) not in (1, k):
            raise InputError(
                f"{name} must have {k} entries, one per column", len(row), "Give one number, or one per column"
            )
        ends.append(np.full(n, np.broadcast_to(row, (k,))[j]))
    return Clip(ends[0], ends[1])


def _independent(mask: Noise, observed: Observed, positions: list[int], sd: Array) -> Observed:
    """Noise that is independent across columns; ``sd`` has a column for each position."""
    n, k = sd.shape
    bounded = mask.lower is not None or mask.upper is not None
    plain = mask.kind == "normal" and not bounded
    averaged = [
        j for j, p in enumerate(positions) if observed.averages is not None and observed.averages.members[:, p].any()
    ]
    joint = [j for j, p in enumerate(positions) if observed.joint is not None and p in observed.joint.columns]
    if averaged:
        observed = _onto_averages(mask, observed, positions, averaged, sd, plain)
    if joint:
        if not plain or not np.isfinite(sd[:, joint]).all():
            observed.refuse_joint(mask, positions)
        observed = _add(observed, _diagonal(sd, positions, joint, observed.k))
    single = [j for j in range(k) if j not in averaged and j not in joint]

    def change(j: int, column: Observation) -> Observation:
        return _entrywise(column, sd[:, single[j]], _bounds(mask, n, single[j], k), lambda s: law(mask, s))

    return observed.each(mask, [positions[j] for j in single], change)


def _entrywise(column: Observation, sd: Array, bounds: Clip | None, make: Callable[[Array], Law]) -> Observation:
    """One column: back over the bounds, then over the noise; without noise nothing changes, infinite noise tells nothing."""

    def noisy(rows: Any) -> Observation:
        part = column.take(rows)
        if bounds is not None:
            part = part.before_map(bounds.take(rows))
        return part.before_noise(make(sd[rows]))

    if bounds is None and sd.min() > 0 and sd.max() < np.inf:
        return column.before_noise(make(sd))  # the common case: every entry has noise

    def still(rows: Any) -> Observation:
        part = column.take(rows)
        return part if bounds is None else part.before_map(bounds.take(rows))

    return split(
        len(sd), [(np.isinf(sd), lambda rows: Silent(len(rows))), (sd == 0, still), ((sd > 0) & np.isfinite(sd), noisy)]
    )


def _onto_averages(
    mask: Noise, observed: Observed, positions: list[int], averaged: list[int], sd: Array, plain: bool
) -> Observed:
    """Noise before an average: the average carries its own average."""
    assert observed.averages is not None
    chosen = [positions[j] for j in averaged]
    told = any(not np.all(observed.columns[p].silent) for p in chosen)
    if not plain or told or not np.isfinite(sd[:, averaged]).all():
        raise UnsupportedError(
            f"{mask} before an average has no likelihood here",
            do="Use plain normal noise without bounds before Microaggregate, or measure the releases with ruv.measure",
        )
    return observed.replace(averages=observed.averages.add_noise(_diagonal(sd, positions, averaged, observed.k)))


def _diagonal(sd: Array, positions: list[int], chosen: list[int], k: int) -> Array:
    """Covariances of shape (n or 1, k, k) from the sds of some columns."""
    out = np.zeros((len(sd), k, k))
    for j in chosen:
        out[:, positions[j], positions[j]] = sd[:, j] ** 2
    return out[:1] if np.all(out == out[:1]) else out


def _add(observed: Observed, covariance: Array) -> Observed:
    from ..channels.likelihood import JointNormal

    joint = observed.joint
    assert joint is not None
    total = joint.covariance + covariance
    return observed.replace(
        joint=JointNormal(joint.centre, total[:1] if np.all(total == total[:1]) else total, joint.columns)
    )


def _correlated(mask: Noise, observed: Observed, positions: list[int], matrices: Array) -> Observed:
    """Noise that is correlated across columns; ``matrices`` has shape (n, k, k)."""
    if mask.kind != "normal" or mask.lower is not None or mask.upper is not None:
        what = f"{mask.kind} noise" if mask.kind != "normal" else "noise cut off at bounds"
        raise UnsupportedError(
            f"{what[0].upper()}{what[1:]} that is correlated across columns has no likelihood here",
            do="Use a diagonal covariance (or variance=), or normal noise without bounds",
        )
    whole = np.zeros((observed.n, observed.k, observed.k))
    whole[:, np.array(positions)[:, None], np.array(positions)] = matrices
    whole = whole[:1] if np.all(whole == whole[:1]) else whole
    averages = observed.averages
    if averages is not None and averages.members[:, positions].any():
        if not averages.members[:, positions].any(axis=0).all() or any(
            not np.all(observed.columns[p].silent) for p in positions
        ):
            raise UnsupportedError(
                f"{mask} is correlated across columns of which only some were averaged",
                do="Average all of them, or use variance=",
            )
        return observed.replace(averages=averages.add_noise(whole))
    return _add(observed.joined(mask, positions), whole)


def _sized(mask: Noise, observed: Observed, positions: list[int], times: Array) -> Observed:
    """Noise whose size depends on the value."""
    n, k = observed.n, len(positions)
    value = getattr(mask, mask.unit)
    if mask.unit == "covariance" and np.any(np.asarray(value)[~np.eye(k, dtype=bool)] != 0):
        raise UnsupportedError(
            f"{mask} is correlated across columns and depends on the values", do="Use variance= or sd="
        )

    def size(x: Any, math: Any) -> Any:
        s: Any = 1.0
        if callable(value):
            s = _call(value, x, math, mask.unit)
            s = math.sqrt(s) if mask.unit == "variance" else s
        if callable(mask.where):
            s = s * math.where(_call(mask.where, x, math, "where"), np.sqrt(float(mask.times or 1.0)), 1.0)
        return s

    if callable(value):
        base = np.ones((n, k))
    elif mask.unit != "covariance" and is_per_record(value, n, k):
        given = np.asarray(value, dtype=np.float64).reshape(n, -1)
        base = np.broadcast_to(np.sqrt(given) if mask.unit == "variance" else given, (n, k))
    else:
        base = np.broadcast_to(np.sqrt(np.diag(mask.matrix(k))), (n, k))
    base = base * np.sqrt(times)[:, None]

    def change(j: int, column: Observation) -> Observation:
        bounds = _bounds(mask, n, j, k)

        def noisy(rows: Any) -> Observation:
            part = column.take(rows)
            if bounds is not None:
                part = part.before_map(bounds.take(rows))
            kernel = Sized(law(mask, np.ones(len(rows))), base[rows, j], size)
            at = part.known
            at = at[~np.isnan(at)]
            if len(at) and np.any(np.asarray(size(at, _numpy())) == 0):
                raise refuse_no_noise(f"The size of {mask}")
            return part.before_kernel(kernel)

        still = base[:, j] == 0
        cases = [
            (np.isinf(base[:, j]), lambda rows: Silent(len(rows))),
            (
                still,
                lambda rows: column.take(rows) if bounds is None else column.take(rows).before_map(bounds.take(rows)),
            ),
            (~still & np.isfinite(base[:, j]), noisy),
        ]
        return split(n, cases)

    return observed.each(mask, positions, change)


def _numpy() -> Any:
    from ..channels.likelihood import NUMPY

    return NUMPY


def _call(function: Any, x: Any, math: Any, name: str) -> Any:
    """A user's function of a column's values, for values of any shape, or for tensors if it can take them."""
    if math.name == "numpy":
        flat = np.ravel(x)
        answer = np.asarray(function(flat.copy()))
        if answer.shape not in ((), flat.shape):
            raise InputError(
                f"{name} must give back one number per value", f"shape {answer.shape}", "Write it with array operations"
            )
        answer = answer if name == "where" else as_float_array(f"{name}(x)", answer)
        return np.broadcast_to(answer, flat.shape).reshape(np.shape(x))
    try:
        return math.asarray(function(x))
    except Exception as error:
        raise UnsupportedError(
            f"The function given as {name} works on numpy arrays but not on PyTensor variables ({type(error).__name__})",
            do="Write it with plain operators (0.1 * abs(x), x > 35_000), or integrate the records out",
        ) from None
