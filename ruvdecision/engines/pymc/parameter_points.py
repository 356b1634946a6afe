"""The law of a target after a release, from weighted points of the parameters: nodes or draws alike.

The records behind the release were integrated out. Whatever has a closed form given the parameters is averaged over
them, not drawn (Rao and Blackwell): a record, a new record, all records, and linear functions of normal ones. Other
functions of records are drawn, one record law per point of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...channels.likelihood import ColumnLikelihood, ReleaseLikelihood, Uninformative
from ...checks import check_index
from ...errors import InputError, UnsupportedError
from ...numerics.semidefinite import joseph_update, right_divide, symmetric_root
from ...posteriors import Drawn, Gaussian, Mixture
from ...posteriors.base import BasePosterior
from ...protocols import Array, Posterior
from ...targets import BaseTarget, Files, Kind, Term
from .model import CompiledModel, Theta, point_count
from .normal_records import (
    ROW,
    NormalRecords,
    condition_on_noisy_value,
    mixture_curve,
    normal_entries,
    normal_rows,
    released_averages,
)
from .one_record import OneCount, OneRecord
from .one_record_with_masses import OneRecordWithPointMasses
from .support import SupportMap, released_location_and_scale, support_ends_of_rows

Places = NDArray[np.int_]
COST, COUNT_COST = 400, 16
"""Numbers that one draw of a record takes, and of a count."""
CURVES = 1000
"""Draws of the parameters over which densities that are no closed form are averaged."""
WORK = 60_000_000
"""Numbers that drawing whole files may take; more draws than that are thinned."""
BLOCK = 1_000_000
"""Densities that are worked out at a time."""
LARGE = 4_000_000
"""Records times points of the parameters from which on only those records are looked at that are asked for."""
MOST_NUMBERS = 60
"""Numbers in a file whose joint normal law is written out."""


@dataclass(frozen=True, eq=False)
class ParameterPoints:
    """A release and weighted points of the parameters: all that is needed for the law of any target."""

    compiled: CompiledModel
    observed: ReleaseLikelihood
    support_maps: tuple[SupportMap, ...]
    """The ends between which the model's records of each column lie; none for normal records."""
    theta: Theta
    """The free variables, chain after chain if they were drawn by chains."""
    weights: Array | None = None
    chains: int | None = None
    exact: bool = False
    """True if the points are nodes of a quadrature rule."""
    rng: np.random.Generator | None = None

    @property
    def count(self) -> int:
        """How many points there are."""
        return point_count(self.theta)

    def law(self, target: BaseTarget, density: bool = False) -> Posterior:
        """Posterior of a target; with ``density`` a law whose density is cheap, where there is one."""
        found = self._normal_law(target, density)
        if found is not None:
            return found
        term = target.term
        if target.entry is not None and not self.observed.shuffled:
            row, column = target.entry
            found = self._law_of_column(
                check_index(ROW, row, self.compiled.n), check_index("column", column, self.compiled.k)
            )
            if found is not None:
                return found
        if term is None or term.kind is Kind.AVERAGE:
            return self._law_of_function(target)
        if term.kind is Kind.PARAMETER:
            kinds = {v.name: np.dtype(v.dtype).kind for v in (*self.compiled.free, *self.compiled.deterministics)}
            return self._drawn_law(parameter_values(self.compiled, self.values, term), kinds[term.name] in "iub")
        if term.kind is Kind.FILE:
            return self._law_of_records()
        return self._law_of_record(self._row_of_term(term))

    def averaged_laws(self, target: BaseTarget, weightings: Sequence[Array], tolerance: float = 0.0) -> list[Posterior]:
        """Posteriors for several weights of the same nodes; an error up to ``tolerance`` is not worth finer points."""
        term = target.term
        if term is not None and term.kind in (Kind.RECORD, Kind.NEW) and self.compiled.scalar:
            row = self._row_of_term(term)
            known_place = not (row is not None and self.observed.shuffled)
            if known_place and self._needs_grid(row, 0):
                return list(self._one_record(row, 0).averaged_laws(weightings, tolerance))
            if known_place and self.compiled.discrete and np.isnan(self._entry_likelihood(row, 0).known_values[0]):
                return list(self._one_count(row, 0).averaged_laws(np.stack(weightings)))
        parts = [(np.flatnonzero(weights > 0), weights) for weights in weightings]
        return [replace(self._at_positions(keep), weights=weights[keep]).law(target) for keep, weights in parts]

    @cached_property
    def values(self) -> dict[str, Array]:
        """Everything that a target may name, at every point."""
        return self.compiled.with_deterministics(self.theta)

    @property
    def records_are_normal(self) -> bool:
        """True if records are normal given the parameters and the release."""
        if self.compiled.kind == "mvnormal":
            return True
        return self.compiled.kind == "normal" and all(column.normal is not None for column in self.observed.columns)

    @property
    def _point_weights(self) -> Array:
        return np.full(self.count, 1.0 / self.count) if self.weights is None else self.weights

    def _row_of_term(self, term: Term) -> int | None:
        return None if term.kind is Kind.NEW else check_index(ROW, term.row, self.compiled.n)

    # -- normal records ------------------------------------------------------------------------------

    def _normal_law(self, target: BaseTarget, density: bool) -> Posterior | None:
        """The law of a linear function of normal numbers, or None."""
        if not (self.compiled.scalar and self.records_are_normal) or target.asks_only(Kind.PARAMETER):
            return None
        if self.observed.shuffled and not target.asks_only(Kind.PARAMETER, Kind.NEW):
            return None
        moments = self._normal_numbers_for(target).moments_of_target(target)
        if moments is None:
            return None
        mean, variance = (np.broadcast_to(a, (1, self.count))[0] for a in moments)
        if density and self.exact and (variance > 0).all():
            return mixture_curve(self._point_weights, mean, variance)
        return self._mixture_over_points(Gaussian.scalar(mean, variance))

    def _normal_numbers_for(self, target: BaseTarget) -> NormalRecords:
        """The records that a target asks for: those of a large file at many points would fill the memory."""
        n = self.compiled.n
        if (
            n * self.count < LARGE
            or self.observed.averages is not None
            or not target.asks_only(Kind.RECORD, Kind.NEW, Kind.PARAMETER)
        ):
            return self._normal_numbers
        asked = {check_index(ROW, term.row, n) for term in target.terms if term.kind is Kind.RECORD}
        return self._normal_numbers_in_rows(tuple(sorted({0, *asked})))

    @cached_property
    def _normal_numbers(self) -> NormalRecords:
        return self._normal_numbers_in_rows(None)

    def _normal_numbers_in_rows(self, rows: tuple[int, ...] | None) -> NormalRecords:
        mean, variance = self.compiled.record_moments(self.theta, rows)
        centre, noise = (a[:, 0][None] for a in normal_entries(self.observed))
        return NormalRecords(
            mean[None],
            variance[None],
            centre,
            noise,
            lambda term: parameter_values(self.compiled, self.values, term)[None],
            entries_per_parameter(self.compiled),
            rows,
            None if self.observed.averages is None else released_averages(self.observed, 0),
        )

    @cached_property
    def _entry_moments(self) -> tuple[Array, Array]:
        """Mean and variance of each entry given parameters and release, ``(S, n, k)``; normal entries only."""
        own = self._moments_by_own_release
        if self.observed.averages is None:
            return own
        each = [released_averages(self.observed, j).moments(*(a[..., j] for a in own)) for j in range(self.compiled.k)]
        mean, variance = (np.stack([pair[i] for pair in each], axis=-1) for i in (0, 1))
        return mean, variance

    @cached_property
    def _moments_by_own_release(self) -> tuple[Array, Array]:
        """The same without what averages of several records tell."""
        return condition_on_noisy_value(*self.compiled.entry_moments(self.theta), *normal_entries(self.observed))

    def _moments_of_normal_row(self, row: int | None) -> tuple[Array, Array]:
        """Mean and covariance of one normal row given parameters and release."""
        mean, covariance = self.compiled.record_moments(self.theta)
        place = 0 if row is None or mean.shape[1] == 1 else row
        m, c = mean[:, place], covariance[:, 0 if row is None or covariance.shape[1] == 1 else row]
        m = np.broadcast_to(m, (len(m), self.compiled.k))
        c = np.broadcast_to(c, (len(m), self.compiled.k, self.compiled.k))
        if row is None:
            return m, c
        centre, noises, released = normal_rows(self.observed)
        noise, some = noises[0 if len(noises) == 1 else row], np.flatnonzero(released[row])
        if not len(some):
            return m, c
        view, noise = np.eye(self.compiled.k)[some], noise[np.ix_(some, some)]
        gain = right_divide(c @ view.T, view @ c @ view.T + noise)
        told = np.diagonal(noise) == 0
        gain[:, some[told]] = np.eye(len(some))[told]  # what is released as it is is known, not up to rounding
        after = joseph_update(np.eye(self.compiled.k) - gain @ view, c, gain, noise)
        mean = m + np.einsum("sij,sj->si", gain, centre[row, some] - m[:, some])
        mean[:, some[told]] = centre[row, some[told]]
        return mean, after

    # -- one record ----------------------------------------------------------------------------------

    def _law_of_record(self, row: int | None) -> Posterior:
        if row is not None and self.observed.shuffled:
            return self._law_of_shuffled_record()
        if self.compiled.kind == "mvnormal":
            return self._mixture_over_points(Gaussian(*self._moments_of_normal_row(row)))
        if self.compiled.scalar:
            many = not self.exact and self.count > CURVES and self.compiled.point_masses is None
            if many and self._needs_grid(row, 0):
                length = self.count // (self.chains or 1)
                return self._at_positions(
                    self._evenly_thinned_positions(-(-length // max(1, CURVES // (self.chains or 1))))
                )._law_of_record(row)
            found = self._law_of_column(row, 0)
            return self._drawn_law(self._entry_draws(row), self.compiled.discrete) if found is None else found
        parts = [self._law_of_entry(row, j) for j in range(self.compiled.k)]
        if all(isinstance(part, Gaussian) for part in parts):
            moments = [[np.broadcast_to(a, (self.count,)) for a in (p.mean(), p.var())] for p in parts if p is not None]
            mean, variance = (np.stack([pair[i] for pair in moments], axis=-1) for i in (0, 1))
            return self._mixture_over_points(Gaussian(mean, variance[..., None] * np.eye(self.compiled.k)))
        return self._drawn_law(self._entry_draws(row), self.compiled.discrete)

    def _law_of_column(self, row: int | None, column: int) -> Posterior | None:
        """One entry of a record; None where its laws given the parameters do not go on one grid."""
        if self.compiled.kind == "mvnormal":
            mean, covariance = self._moments_of_normal_row(row)
            return self._mixture_over_points(Gaussian.scalar(mean[:, column], covariance[:, column, column]))
        if self._needs_grid(row, column) and self.exact:
            return self._one_record(row, column).averaged_laws([self._point_weights])[0]
        entry = self._law_of_entry(row, column)
        return None if entry is None else self._mixture_over_points(entry)

    def _law_of_shuffled_record(self) -> Posterior:
        """Every row may be the respondent's: all of them for nodes, one at random for each draw."""
        if self.exact and self.compiled.scalar and self.records_are_normal:
            mean, variance = (a[0] for a in self._normal_numbers.moments_of_each_row())
            weights = np.repeat(self._point_weights / mean.shape[1], mean.shape[1])
            return Mixture(Gaussian.scalar(mean.ravel(), np.broadcast_to(variance, mean.shape).ravel()), weights)
        rng = self._required_generator
        rows = rng.permutation(np.resize(rng.permutation(self.compiled.n), self.count))
        if self.compiled.kind == "mvnormal":
            mean = np.empty((self.count, self.compiled.k))
            covariance = np.empty((self.count, self.compiled.k, self.compiled.k))
            for row in np.unique(rows):
                own = np.flatnonzero(rows == row)
                mean[own], covariance[own] = self._at_positions(own)._moments_of_normal_row(int(row))
            return self._mixture_over_points(Gaussian(mean, covariance))
        if self.records_are_normal:
            mean, variance = (a[np.arange(self.count), rows] for a in self._entry_moments)
            if self.compiled.scalar:
                return self._mixture_over_points(Gaussian.scalar(mean[:, 0], variance[:, 0]))
            return self._mixture_over_points(Gaussian(mean, variance[..., None] * np.eye(self.compiled.k)))
        files, keep = self._draw_files()
        values = files[np.arange(len(files)), rows[keep]]
        return self._at_positions(keep)._drawn_law(
            values[:, 0] if self.compiled.scalar else values, self.compiled.discrete
        )

    def _needs_grid(self, row: int | None, column: int) -> bool:
        """Whether an entry is neither normal nor known nor a category, given the parameters."""
        likelihood = self._entry_likelihood(row, column)
        plain = self.compiled.kind == "normal" and likelihood.normal is not None
        return not plain and not self.compiled.discrete and bool(np.isnan(likelihood.known_values[0]))

    def _law_of_entry(self, row: int | None, column: int) -> BasePosterior | None:
        """Law of one entry given each point of the parameters, with batch ``(S,)``; None if no grid suits them all."""
        likelihood = self._entry_likelihood(row, column)
        if self.compiled.kind == "normal" and likelihood.normal is not None:
            if row is not None and self.observed.averages is not None:
                return Gaussian.scalar(*(a[:, row, column] for a in self._entry_moments))
            mean, variance = (a[:, row or 0, column] for a in self.compiled.entry_moments(self.theta))
            centre, noise = likelihood.normal
            return Gaussian.scalar(*condition_on_noisy_value(mean, variance, centre[0], noise[0]))
        known = float(likelihood.known_values[0])
        if not np.isnan(known):
            return Gaussian.scalar(np.full(self.count, known), 0.0)
        if self.compiled.discrete:
            return self._one_count(row, column).laws()
        if self.compiled.point_masses is not None:
            return None
        curve = self._record_without_point_masses(row, column).laws()
        # Draws whose laws are of too different scales for one grid are drawn from one by one.
        return curve if np.max(curve.error) < 0.01 else None

    def _one_record(self, row: int | None, column: int) -> OneRecord | OneRecordWithPointMasses:
        found = self._record_without_point_masses(row, column)
        if self.compiled.point_masses is None:
            return found
        return OneRecordWithPointMasses(found, *self._point_masses(row, column))

    def _record_without_point_masses(self, row: int | None, column: int) -> OneRecord:
        """An entry without the point masses of its law."""
        return OneRecord(
            lambda x, some: self._at_positions(some)._log_density(x, row, column),
            self._entry_likelihood(row, column),
            self.support_of_entry(0 if row is None else row, column),
            self.near_entry(column),
            self._point_weights,
        )

    def _point_masses(self, row: int | None, column: int) -> tuple[Array, Array]:
        """Places of an entry's point masses ``(A,)``, and the logs of their chances ``(S, A)``."""
        core = self.compiled.reduced_model
        assert core.point_masses is not None
        entry = (0 if row is None or core.n == 1 else row, *(() if core.scalar else (column,)))
        return core.point_masses.places[(slice(None), *entry)], core.log_chances(self.theta)[(..., *entry)]

    def support_of_entry(self, row: int, column: int) -> SupportMap:
        """The ends between which a record lies: those of its own law where laws differ in that."""
        if not self.support_maps:
            return SupportMap() if not self.compiled.discrete else SupportMap(-0.5)
        ends = support_ends_of_rows(self.compiled, self.observed.columns[column], column)
        return self.support_maps[column] if ends is None else SupportMap(float(ends[0][row]), float(ends[1][row]))

    def near_entry(self, column: int) -> tuple[float, float]:
        """A place and a length from which to look for the records of a column; neither needs to be near."""
        return released_location_and_scale(self.observed.columns[column])

    def _entry_likelihood(self, row: int | None, column: int) -> ColumnLikelihood:
        return Uninformative(1) if row is None else self.observed.columns[column].take(np.array([row]))

    def _one_count(self, row: int | None, column: int) -> OneCount:
        return OneCount(
            lambda x, some: self._at_positions(some)._log_density(x, row, column),
            self._entry_likelihood(row, column),
            released_location_and_scale(self.observed.columns[column])[0],
            self._point_weights,
        )

    def _log_density(self, x: Array, row: int | None, column: int) -> Array:
        """Log density of an entry at ``x`` given each point of the parameters, ``(S, len(x))``."""
        alike = self.compiled.one_record_model is not None
        step = max(1, BLOCK // max(1, len(x) * (1 if alike else self.compiled.n) * self.compiled.k))
        parts = [slice(i, i + step) for i in range(0, self.count, step)]
        logs = [self.compiled.entry_log_density(self._at_positions(part).theta, x, column) for part in parts]
        return np.concatenate([a[:, :, 0 if alike or row is None else row] for a in logs])

    def log_density_of_entry(self, x: Array, row: int | None, column: int) -> Array:
        """Log density of an entry after the release, at a number for each point of the parameters: ``(S,)`` both.

        Up to the evidence, where it is neither normal nor a vector's; without its point masses.
        """
        if self.compiled.kind == "mvnormal":
            mean, covariance = self._moments_of_normal_row(row)
            return Gaussian.scalar(mean[:, column], covariance[:, column, column]).log_density(x)
        likelihood = self._entry_likelihood(row, column)
        if self.compiled.kind == "normal" and likelihood.normal is not None:
            law = self._law_of_entry(row, column)
            assert law is not None
            return law.log_density(x)
        logs = np.diagonal(self._log_density(x, row, column)) + np.asarray(likelihood.log(x[:, None]))[:, 0]
        return np.where(np.isnan(logs), -np.inf, logs)

    def _log_density_of_known(self, known: float, row: int, column: int) -> Array:
        """Log density of an entry at the number that it is known to be, or the log of its chance, ``(S,)``."""
        if self.compiled.point_masses is not None:
            places, log_chances = self._point_masses(row, column)
            if (places == known).any():
                return np.logaddexp.reduce(log_chances[:, places == known], axis=1)
        return self._log_density(np.array([known]), row, column)[:, 0]

    # -- many records --------------------------------------------------------------------------------

    def _law_of_records(self) -> Posterior:
        if self.observed.shuffled:
            raise UnsupportedError(
                "All records in unknown order cannot be sampled", do="Ask for one Record, or leave out Shuffle()"
            )
        numbers = self.compiled.n * self.compiled.k
        if self.records_are_normal and self.compiled.kind == "normal" and numbers <= MOST_NUMBERS:
            mean, variance = (a.reshape(self.count, -1) for a in self._entry_moments)
            covariance = variance[..., None] * np.eye(numbers)
            if self.observed.averages is not None:
                for j in range(self.compiled.k):
                    column = slice(j, None, self.compiled.k)
                    own = (a[..., j] for a in self._moments_by_own_release)
                    covariance[:, column, column] = released_averages(self.observed, j).covariance(*own)
            return self._mixture_over_points(Gaussian(mean, covariance))
        files, keep = self._draw_files()
        return self._at_positions(keep)._drawn_law(files.reshape(len(files), -1), self.compiled.discrete)

    def _draw_files(self) -> tuple[Array, Places]:
        """Whole files of records given parameters and release, ``(draws, n, k)``, and which draws they belong to.

        They are thinned where there would be a lot of them. Rows in unknown order are put in a random one.
        """
        files, keep = self._draw_files_in_released_order()
        if self.observed.shuffled:
            order = self._required_generator.permuted(np.tile(np.arange(files.shape[1]), (len(files), 1)), axis=1)
            files = np.take_along_axis(files, order[:, :, None], axis=1)
        return files, keep

    def _draw_files_in_released_order(self) -> tuple[Array, Places]:
        n, k = self.compiled.n, self.compiled.k
        if self.records_are_normal and self.compiled.kind == "normal":
            mean, variance = self._moments_by_own_release
            files = mean + np.sqrt(variance) * self._required_generator.standard_normal(mean.shape)
            if self.observed.averages is not None:
                for j in range(k):
                    files[..., j] = released_averages(self.observed, j).condition_draws(
                        files[..., j], mean[..., j], variance[..., j], self._required_generator
                    )
            return files, np.arange(self.count)
        mv = self.compiled.kind == "mvnormal"
        keep = self._positions_within_work(n * k * (k if mv else COUNT_COST if self.compiled.discrete else COST))
        part = self._at_positions(keep)
        out = np.empty((len(keep), n, k))
        if mv:
            for row in range(n):
                out[:, row] = part._entry_draws(row)
            return out, keep
        for column in range(k):
            for row in range(n):
                out[:, row, column] = part._entry_draw(row, column)
        return out, keep

    def _positions_within_work(self, cost: int) -> Places:
        """Which draws to keep where each costs so much."""
        chains = self.chains or 1
        length = self.count // chains
        return self._evenly_thinned_positions(length // int(np.clip(WORK // max(1, cost) // chains, 25, length)))

    def _evenly_thinned_positions(self, step: int) -> Places:
        """Positions of every so many draws, the same from each chain."""
        length = self.count // (self.chains or 1)
        return (np.arange(self.chains or 1)[:, None] * length + np.arange(0, length, max(1, step))).ravel()

    def _at_positions(self, keep: slice | Places) -> ParameterPoints:
        theta = {name: values[keep] for name, values in self.theta.items()}
        return replace(self, theta=theta, weights=None if self.weights is None else self.weights[keep])

    def _law_of_function(self, target: BaseTarget) -> Posterior:
        """A function of several quantities, drawn together: of the whole file where it must be."""
        files, part = None, self
        whole = target.asks(Kind.FILE) or target.asks(Kind.AVERAGE) or 2 * len(target.terms) > self.compiled.n > 4
        tied = self.observed.shuffled or self.observed.averages is not None
        if whole or (target.asks(Kind.RECORD) and tied):
            files, keep = self._draw_files()
            files = files[..., 0] if self.compiled.scalar else files
            part = self if len(keep) == self.count else self._at_positions(keep)
        return part._drawn_law(target.numbers_in_files(_Draws(part, files)), False)

    def _entry_draws(self, row: int | None) -> Array:
        if self.compiled.kind == "mvnormal":
            mean, covariance = self._moments_of_normal_row(row)
            noise = self._required_generator.standard_normal(mean.shape)
            return mean + np.einsum("sij,sj->si", symmetric_root(covariance), noise)
        found = [self._entry_draw(row, j) for j in range(self.compiled.k)]
        return found[0] if self.compiled.scalar else np.stack(found, axis=-1)

    def _entry_draw(self, row: int | None, column: int) -> Array:
        """One draw of an entry for each draw of the parameters."""
        if self._needs_grid(row, column):
            return self._one_record(row, column).draws(self._required_generator)
        entry = self._law_of_entry(row, column)
        assert entry is not None
        return np.broadcast_to(entry.sample(1, self._required_generator)[0], (self.count,))

    # -- as posteriors -------------------------------------------------------------------------------

    @property
    def _required_generator(self) -> np.random.Generator:
        if self.rng is None:
            do = "Use engine='auto' or engine=ruv.Sampling()"
            raise UnsupportedError("Quadrature has no law of this target after some of the releases", do=do)
        return self.rng

    def _mixture_over_points(self, parts: BasePosterior) -> Posterior:
        return Mixture(parts, self.weights, sampled=not self.exact, chains=None if self.exact else self.chains)

    def _drawn_law(self, values: Array, discrete: bool) -> Posterior:
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


class _Draws(Files):
    """One draw of what a target asks for, for each draw of the parameters; whole files only if they were drawn."""

    def __init__(self, points: ParameterPoints, files: Array | None) -> None:
        super().__init__(files, points.values)
        self.points = points

    def record(self, row: int) -> Array:
        row = check_index(ROW, row, self.points.compiled.n)
        return self.points._entry_draws(row) if self._records is None else np.asarray(self._records[:, row])

    def new_record(self) -> Array:
        return self.points._entry_draws(None)


# -- parameters ------------------------------------------------------------------------------------------


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


def entries_per_parameter(compiled: CompiledModel) -> dict[str, int]:
    """Number of entries of each parameter; 0 for a number."""
    return {name: int(np.prod(shape)) if shape else 0 for name, shape in compiled.shapes.items()}
