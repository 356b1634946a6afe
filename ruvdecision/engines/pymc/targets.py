"""The law of a target given draws of the parameters and a release whose records were integrated out.

Whatever has a closed form given the parameters is averaged, not drawn (Rao and Blackwell): a record, a new record, all
records, and averages of normal ones. Other functions of records are drawn, one record law per draw of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...channels.likelihood import Observation, ReleaseLikelihood, Uninformative
from ...errors import InputError, UnsupportedError
from ...numerics.semidefinite import symmetric_root
from ...posteriors import Drawn, Finite, Gaussian, Mixture
from ...protocols import Array, Posterior
from ...targets import BaseTarget, Files, Kind, Term
from .marginal import normal_rows
from .model import CompiledModel, Theta
from .one_record import OneRecord, count_law
from .support import Line, middle_of_released

COST = 400
"""Numbers that one draw of a record takes."""
CURVES = 1000
"""Draws of the parameters over which such densities are averaged."""
WORK = 60_000_000
"""Numbers that drawing whole files may take; more draws than that are thinned."""


@dataclass(frozen=True, eq=False)
class Given:
    """A release and weighted draws of the parameters: all that is needed for the law of any target."""

    compiled: CompiledModel
    observed: ReleaseLikelihood
    lines: tuple[Line, ...] | None
    """The ends between which the model's records of each column lie; None for normal records."""
    theta: Theta
    """Draws of the free variables, chain after chain."""
    chains: int | None
    weights: Array | None = None
    exact: bool = False
    """True if the draws are nodes of a quadrature rule."""
    rng: Any = None

    @property
    def count(self) -> int:
        """Draws of the parameters."""
        return len(next(iter(self.theta.values()))) if self.theta else 1

    def law(self, target: BaseTarget) -> Posterior:
        """Posterior of a target."""
        term = target.term
        if term is None:
            return self._function(target)
        if term.kind is Kind.PARAMETER:
            return self._drawn(parameter_values(self.compiled, self.values, term), self._is_discrete(term))
        if term.kind is Kind.RECORD:
            return self._record(row_of(term.row, self.compiled.n))
        if term.kind is Kind.NEW:
            return self._record(None)
        if term.kind is Kind.FILE:
            return self._records()
        if term.kind is Kind.AVERAGE and self.compiled.scalar and self.closed and not self.observed.shuffled:
            mean, variance = self.moments
            return self._averaged(
                Gaussian.scalar(mean[..., 0].mean(axis=1), variance[..., 0].mean(axis=1) / self.compiled.n)
            )
        return self._function(target)

    @cached_property
    def values(self) -> dict[str, Array]:
        """Everything that a target may name, at every draw."""
        return self.compiled.complete(self.theta)

    # -- one record ----------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True if records are normal given the parameters and the release."""
        if self.compiled.kind == "mvnormal":
            return True
        return self.compiled.kind == "normal" and all(column.normal is not None for column in self.observed.columns)

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Mean and variance of each entry given parameters and release, ``(S, n, k)``; normal entries only."""
        mean, variance = (_full(a, self.compiled) for a in self.compiled.normal(self.theta))
        pairs = [column.normal for column in self.observed.columns]
        centre, noise = (np.stack([pair[i] for pair in pairs], axis=1) for i in (0, 1))  # type: ignore[index]
        return after_noise(mean, variance, centre, noise)

    def _record(self, row: int | None) -> Posterior:
        if row is not None and self.observed.shuffled:
            return self._any_row()
        if self.compiled.kind == "mvnormal":
            return self._averaged(Gaussian(*self._row_law(row)))
        if self.compiled.scalar and self._curved(row, 0):
            if self.exact:
                return self._one_record(row, 0).averages([self._weights])[0]
            if self.count > CURVES:
                return self._at(self._evenly(CURVES))._record(row)
        parts = [self._entry(row, j) for j in range(self.compiled.k)]
        if self.compiled.scalar and parts[0] is not None:
            return self._averaged(parts[0])
        if all(isinstance(part, Gaussian) for part in parts):
            mean = np.stack([np.broadcast_to(p.mean(), (self.count,)) for p in parts], axis=-1)
            variance = np.stack([np.broadcast_to(p.var(), (self.count,)) for p in parts], axis=-1)
            return self._averaged(Gaussian(mean, variance[..., None] * np.eye(self.compiled.k)))
        return self._drawn(self._entry_draws(row), self.compiled.discrete)

    def _curved(self, row: int | None, column: int) -> bool:
        """Whether an entry is neither normal nor known nor a category, given the parameters."""
        seen = self._likelihood(row, column)
        plain = self.compiled.kind == "normal" and seen.normal is not None
        return not plain and not self.compiled.discrete and bool(np.isnan(seen.known[0]))

    def averages(self, target: BaseTarget, weightings: Sequence[Array]) -> list[Posterior]:
        """Posteriors for several weights of the same nodes."""
        term = target.term
        if term is not None and term.kind in (Kind.RECORD, Kind.NEW) and self.compiled.scalar:
            row = None if term.kind is Kind.NEW else row_of(term.row, self.compiled.n)
            if not (row is not None and self.observed.shuffled) and self._curved(row, 0):
                return list(self._one_record(row, 0).averages(weightings))
        return [self._weighted(weights).law(target) for weights in weightings]

    def _weighted(self, weights: Array) -> Given:
        keep = np.flatnonzero(weights > 0)
        return replace(self._at(keep), weights=weights[keep])

    @property
    def _weights(self) -> Array:
        return np.full(self.count, 1.0 / self.count) if self.weights is None else self.weights

    def _evenly(self, wanted: int) -> Any:
        """Positions of about this many draws, the same from each chain."""
        chains = self.chains or 1
        length = self.count // chains
        own = np.arange(0, length, max(1, -(-length // max(1, wanted // chains))))
        return (np.arange(chains)[:, None] * length + own).ravel()

    def _any_row(self) -> Posterior:
        """Every row may be the respondent's: one of them, at random, for each draw of the parameters."""
        rows = np.resize(self.rng.permutation(self.compiled.n), self.count)
        rows = self.rng.permutation(rows)
        if self.compiled.kind == "mvnormal":
            found = [self._row_law(int(r), slice(i, i + 1)) for i, r in enumerate(rows)]
            return self._averaged(
                Gaussian(np.concatenate([m for m, _ in found]), np.concatenate([c for _, c in found]))
            )
        if self.closed:
            mean, variance = self.moments
            picked = np.arange(self.count)
            mean, variance = mean[picked, rows], variance[picked, rows]
            if self.compiled.scalar:
                return self._averaged(Gaussian.scalar(mean[:, 0], variance[:, 0]))
            return self._averaged(Gaussian(mean, variance[..., None] * np.eye(self.compiled.k)))
        files, keep = self._files()
        values = files[np.arange(len(files)), rows[keep]]
        return self._at(keep)._drawn(values[:, 0] if self.compiled.scalar else values, self.compiled.discrete)

    def _row_law(self, row: int | None, draws: Any = slice(None)) -> tuple[Array, Array]:
        """Mean and covariance of one normal row given parameters and release."""
        mean, covariance = self.compiled.normal({k: v[draws] for k, v in self.theta.items()})
        place = 0 if row is None or mean.shape[1] == 1 else row
        m, c = mean[:, place], covariance[:, 0 if row is None or covariance.shape[1] == 1 else row]
        m = np.broadcast_to(m, (len(m), self.compiled.k))
        c = np.broadcast_to(c, (len(m), self.compiled.k, self.compiled.k))
        if row is None:
            return m, c
        centre, noises, told = self._seen_rows
        noise, seen = noises[0 if len(noises) == 1 else row], np.flatnonzero(told[row])
        centre = centre[row]
        if not len(seen):
            return m, c
        total = c[:, seen][:, :, seen] + noise[np.ix_(seen, seen)]
        gain = np.linalg.solve(total, c[:, seen]).transpose(0, 2, 1)
        after = c - gain @ c[:, seen]
        return m + np.einsum("sij,sj->si", gain, centre[seen] - m[:, seen]), (after + after.transpose(0, 2, 1)) / 2

    @cached_property
    def _seen_rows(self) -> tuple[Array, Array, Array]:
        return normal_rows(self.observed)

    def _entry(self, row: int | None, column: int) -> Any:
        """Law of one entry given each draw of the parameters, with batch ``(S,)``."""
        seen = self._likelihood(row, column)
        if self.compiled.kind == "normal" and seen.normal is not None:
            mean, variance = (
                _full(a, self.compiled)[:, 0 if row is None else row, column] for a in self.compiled.normal(self.theta)
            )
            centre, noise = seen.normal
            m, v = after_noise(mean, variance, centre[0], noise[0])
            return Gaussian.scalar(m, v)
        known = float(seen.known[0])
        if not np.isnan(known):
            return Gaussian.scalar(np.full(self.count, known), 0.0)
        if self.compiled.discrete:
            return self._categories(seen, row, column)
        curve = self._one_record(row, column).laws()
        # Draws whose laws are of too different scales for one grid are drawn from one by one.
        return curve if np.max(curve.error) < 0.01 else None

    def _one_record(self, row: int | None, column: int) -> OneRecord:
        assert self.lines is not None

        def log_density(x: Array, some: Any) -> Array:
            return self._at(some)._log_density(x, row, column)

        near = middle_of_released(self.observed.columns[column])
        return OneRecord(log_density, self._likelihood(row, column), self.lines[column], near, self._weights)

    def _likelihood(self, row: int | None, column: int) -> Observation:
        return Uninformative(1) if row is None else self.observed.columns[column].take(np.array([row]))

    def _categories(self, seen: Observation, row: int | None, column: int) -> Finite:
        if seen.support is None:
            near = middle_of_released(self.observed.columns[column])[0]
            return count_law(lambda x: self._log_density(x, row, column), seen, near, self._weights)
        logs = self._log_density(seen.support, row, column) + np.asarray(seen.log(seen.support[:, None]))[:, 0]
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        return Finite(seen.support, weights / weights.sum(axis=1, keepdims=True))

    def _log_density(self, x: Array, row: int | None, column: int) -> Array:
        """Log density of an entry at ``x`` given each draw, ``(S, len(x))``."""
        one = self.compiled.single
        model, place = (one, 0) if one is not None else (self.compiled, 0 if row is None else row)
        points = np.broadcast_to(x.reshape((-1,) + (1,) * len(model.shape)), (len(x), *model.shape))
        step = max(1, 4_000_000 // max(1, points.size))
        parts = []
        for i in range(0, self.count, step):
            logs = model.log_density({k: v[i : i + step] for k, v in self.theta.items()}, points)
            parts.append(logs[:, :, place] if model.scalar else logs[:, :, place, column])
        return np.concatenate(parts)

    # -- many records --------------------------------------------------------------------------------

    def _records(self) -> Posterior:
        if self.observed.shuffled:
            raise UnsupportedError(
                "All records in unknown order cannot be sampled", do="Ask for one Record, or leave out Shuffle()"
            )
        if self.closed and self.compiled.kind == "normal":
            mean, variance = self.moments
            flat = mean.reshape(self.count, -1)
            if flat.shape[1] <= 60:
                return self._averaged(
                    Gaussian(flat, variance.reshape(self.count, -1)[..., None] * np.eye(flat.shape[1]))
                )
        files, keep = self._files()
        return self._at(keep)._drawn(files.reshape(len(files), -1), self.compiled.discrete)

    def _files(self) -> tuple[Array, Any]:
        """Whole files of records given parameters and release, ``(draws, n, k)``, and which draws they belong to.

        They are thinned where there would be a lot of them. Rows in unknown order are put in a random one.
        """
        files, keep = self._released_order()
        if self.observed.shuffled:
            order = self.rng.permuted(np.tile(np.arange(files.shape[1]), (len(files), 1)), axis=1)
            files = np.take_along_axis(files, order[:, :, None], axis=1)
        return files, keep

    def _released_order(self) -> tuple[Array, Any]:
        n, k = self.compiled.n, self.compiled.k
        if self.compiled.kind == "mvnormal":
            keep = self._thin(n * k * k)
            part = self._at(keep)
            out = np.empty((len(keep), n, k))
            for row in range(n):
                mean, covariance = part._row_law(row)
                out[:, row] = mean + np.einsum(
                    "sij,sj->si", symmetric_root(covariance), self.rng.standard_normal(mean.shape)
                )
            return out, keep
        if self.closed:
            mean, variance = self.moments
            return np.asarray(mean + np.sqrt(variance) * self.rng.standard_normal(mean.shape)), np.arange(self.count)
        keep = self._thin(n * k * (COST if not self.compiled.discrete else 16))
        part = self._at(keep)
        out = np.empty((len(keep), n, k))
        for column in range(k):
            for row in range(n):
                out[:, row, column] = part._entry_draw(row, column)
        return out, keep

    def _thin(self, cost: int) -> Any:
        """Which draws to keep, evenly, the same from each chain."""
        chains = self.chains or 1
        length = self.count // chains
        wanted = int(np.clip(WORK // max(1, cost) // chains, 25, length))
        step = max(1, length // wanted)
        own = np.arange(0, length, step)
        return (np.arange(chains)[:, None] * length + own).ravel()

    def _at(self, keep: Any) -> Given:
        theta = {k: v[keep] for k, v in self.theta.items()}
        weights = None if self.weights is None else self.weights[keep]
        return Given(self.compiled, self.observed, self.lines, theta, self.chains, weights, self.exact, self.rng)

    def _function(self, target: BaseTarget) -> Posterior:
        """A function of several quantities, drawn together: of the whole file where it must be."""
        whole = target.asks(Kind.FILE) or target.asks(Kind.AVERAGE)
        files, keep = None, np.arange(self.count)
        if whole or (target.asks(Kind.RECORD) and self.observed.shuffled):
            files, keep = self._files()
            files = files[..., 0] if self.compiled.scalar else files
        part = self if len(keep) == self.count else self._at(keep)
        found = target.in_files(_Draws(part, files))
        if not np.isfinite(found).all():
            raise InputError(
                f"The target, {target.describe()}, must be a number for every value that is possible",
                f"{int(np.sum(~np.isfinite(found)))} missing or infinite values",
                "Choose a function that is defined on the whole range",
            )
        return part._drawn(found, False)

    def _entry_draws(self, row: int | None) -> Array:
        if self.compiled.kind == "mvnormal":
            mean, covariance = self._row_law(row)
            return mean + np.einsum("sij,sj->si", symmetric_root(covariance), self.rng.standard_normal(mean.shape))
        found = [self._entry_draw(row, j) for j in range(self.compiled.k)]
        return found[0] if self.compiled.scalar else np.stack(found, axis=-1)

    def _entry_draw(self, row: int | None, column: int) -> Array:
        """One draw of an entry for each draw of the parameters."""
        if self._curved(row, column):
            return self._one_record(row, column).draws(self.rng)
        found = self._entry(row, column).sample(1, self.rng)[0]
        return np.broadcast_to(found, (self.count,))

    # -- as posteriors -------------------------------------------------------------------------------

    def _averaged(self, components: Any) -> Posterior:
        if components.batch != (self.count,):
            components = _spread(components, self.count)
        return Mixture(components, self.weights, sampled=not self.exact, chains=None if self.exact else self.chains)

    def _drawn(self, values: Array, discrete: bool) -> Posterior:
        weights = self.weights
        if self.chains is None:
            return Drawn(values, weights, discrete=discrete)
        shape = (self.chains, len(values) // self.chains)
        return Drawn(
            values.reshape(shape + values.shape[1:]),
            None if weights is None else weights.reshape(shape),
            self.chains,
            discrete=discrete,
        )

    def _is_discrete(self, target: Term) -> bool:
        kinds = {v.name: np.dtype(v.dtype).kind for v in (*self.compiled.free, *self.compiled.derived)}
        return kinds[target.name] in "iub"


class _Draws(Files):
    """One draw of what a target asks for, for each draw of the parameters; whole files only if they were drawn."""

    def __init__(self, given: Given, files: Array | None) -> None:
        super().__init__(files, given.values)
        self.given = given

    def record(self, row: int) -> Array:
        row = row_of(row, self.given.compiled.n)
        return self.given._entry_draws(row) if self._records is None else np.asarray(self._records[:, row])

    def new_record(self) -> Array:
        return self.given._entry_draws(None)


def parameter_values(compiled: CompiledModel, values: Theta, target: Term) -> Array:
    """Draws of a parameter: numbers, or vectors of its entries laid in a row."""
    if target.name not in values:
        raise InputError(
            "The model has no parameter of this name", target.name, f"Choose one of {', '.join(compiled.names)}"
        )
    found = np.asarray(values[target.name], dtype=np.float64)
    flat = found.reshape(len(found), -1)
    if target.component is not None:
        if not -flat.shape[1] <= target.component < flat.shape[1]:
            raise InputError(f"{target.name} has {flat.shape[1]} entries", target.component, "Count components from 0")
        return flat[:, target.component]
    return flat[:, 0] if found.ndim == 1 else flat


def after_noise(mean: Array, variance: Array, centre: Array, noise: Array) -> tuple[Array, Array]:
    """Mean and variance of a normal number after its release with normal noise; infinite noise tells nothing."""
    if (noise > 0).all() and np.isfinite(noise).all():
        gain = variance / (variance + noise)
        return mean + gain * (centre - mean), variance * (1 - gain)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(np.isinf(noise), 0.0, np.where(variance + noise > 0, variance / (variance + noise), 0.0))
    return mean + gain * (np.where(np.isinf(noise), 0.0, centre) - mean), variance * (1 - gain)


def _full(array: Array, compiled: CompiledModel) -> Array:
    """Moments of every entry, ``(S, n, k)``."""
    array = array if not compiled.scalar else array[..., None]
    return np.broadcast_to(array, (len(array), compiled.n, compiled.k))


def row_of(row: int, n: int) -> int:
    """A row counted from 0, also if it was counted from the end."""
    if not -n <= row < n:
        raise InputError(f"There are {n} records", row, "Count rows from 0")
    return row % n


def _spread(components: Any, count: int) -> Any:
    if isinstance(components, Gaussian):
        return Gaussian.scalar(
            np.broadcast_to(components.mean(), (count,)), np.broadcast_to(components.var(), (count,))
        )
    return components
