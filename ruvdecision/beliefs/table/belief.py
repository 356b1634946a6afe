"""A belief about a table of counts with a known total, and perhaps known cells and margins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from ...checks import (
    as_float_array,
    as_generator,
    check_fields,
    check_index,
    check_integer,
    check_integers,
    check_mapping,
    check_shape,
    checked,
    is_flag,
    is_integer,
    is_single,
)
from ...errors import InputError, UnsupportedError
from ...masks.cells import PublishedTable, as_counts
from ...posteriors import Drawn, Finite
from ...posteriors.base import PartwisePosterior, as_weight_matrix
from ...protocols import Array, Posterior, Value
from ...targets import BaseTarget, Files, Kind
from ..base import BaseBelief, DrawnFile
from .completions import LARGEST_TOTAL, Completions, least_linear_value

Ints = NDArray[np.int64]
LARGEST_TABLE = 1_000_000
LARGEST_WEIGHT = 1e100
"""A Dirichlet law so sure of itself is a known table; beyond, sums of concentrations overflow."""
LISTED = 20_000
"""Up to so many completions a posterior of whole tables lists them."""
FEW = 30
"""Fewer effective draws than this and an importance sample says little about its own error."""
DRAWN = 4000
"""Draws from the exact law for a function of cells when there are too many completions to list."""


@dataclass(frozen=True, eq=False)
class TableBelief(BaseBelief):
    """What a user believes about a table of non-negative integer counts with a known total.

    Every table that agrees with what is known is possible. Its prior weight is the same for all
    (Trottini and Fienberg 2002, section 4.1, prior iii), or Dirichlet-multinomial: the product over cells of
    Gamma(x + a) / (Gamma(a) x!), which is uniform for a = 1 and the law of N respondents whose cell
    probabilities are Dirichlet(a).

    Parameters
    ----------
    shape : int or tuple of int
        Sizes of the table's axes.
    total : int
        The grand total.
    cells : dict, optional
        Known cells, ``{(0, 1): 63}``.
    margins : dict, optional
        Known margins by the axes that they keep, ``{(0,): [113, 145]}`` for row totals.
    weights : "uniform", number or array of the table's shape
        The concentration a of Dirichlet-multinomial weights.
    limit : int
        Most steps of exact counting, for each part of the table that can be counted on its own. Above it sequential
        importance sampling is used, and `method` says so.
    draws, seed : int
        Size and seed of the importance sample, where there is one.

    Examples
    --------
    >>> TableBelief((2, 2), total=258).count()
    2929290
    >>> TableBelief((2, 2), total=258, margins={0: [113, 145], 1: [120, 138]}).count()
    114
    """

    shape: Any
    total: int = checked(MISSING, check_integer, low=0, high=LARGEST_TOTAL)
    cells: Any = None
    margins: Any = None
    weights: Any = "uniform"
    # Above this many steps sums of residues would no longer be exact.
    limit: int = checked(4_000_000, check_integer, low=1, high=8_000_000)
    draws: int = checked(5000, check_integer, low=2)
    seed: int = checked(0, check_integer, low=0)

    def __post_init__(self) -> None:
        shape = check_integers("shape", self.shape, "Write shape=(2, 3)", low=1)
        if prod(shape) > LARGEST_TABLE:
            raise InputError(f"A table has at most {LARGEST_TABLE:,} cells", f"{prod(shape):.3g}", "Write shape=(2, 3)")
        object.__setattr__(self, "shape", shape)
        check_fields(self)
        object.__setattr__(self, "cells", self._check_cells(self.cells))
        object.__setattr__(self, "margins", self._check_margins(self.margins))
        if self.uniform or is_flag(self.weights):
            if str(self.weights) != "uniform":
                what = 'weights must be "uniform", a number or an array'
                raise InputError(what, self.weights, "Give the concentration, weights=0.5")
        else:
            a = as_float_array("weights", self.weights)
            if a.ndim != 0 and a.shape != shape:
                raise InputError(
                    f"weights must be a number or have shape {shape}",
                    f"shape {a.shape}",
                    "Give one concentration per cell",
                )
            if np.any(a <= 0) or not np.all(a <= LARGEST_WEIGHT):
                do = "Use cells={...: 0} for a cell that must be empty"
                raise InputError(f"weights must be positive, and at most {LARGEST_WEIGHT:g}", a.tolist(), do)
        if not self.system.feasible:
            raise InputError(
                "No table of counts agrees with what is known",
                # Positions only: after a release the counts are those of the confidential table.
                f"the total {self.total}, {len(self.cells)} cells and the margins {list(self.margins)}",
                "Check the total, the cells and the margins",
            )

    # -- what a user may ask ---------------------------------------------------------------------------

    @property
    def records(self) -> int:
        """The number of respondents: the total."""
        return self.total

    @property
    def parameters(self) -> tuple[str, ...]:
        """None: the table itself is what is unknown."""
        return ()

    @property
    def uniform(self) -> bool:
        """Whether all tables are equally likely."""
        return isinstance(self.weights, str)

    def draw(self, rng: np.random.Generator) -> Ints:
        """Draw a table."""
        return self.system.sample(1, rng)[0].reshape(self.shape)

    def draw_file(self, rng: np.random.Generator, new: bool = False) -> DrawnFile:
        counts = self.draw(rng)
        return DrawnFile(counts, np.asarray(counts, dtype=np.float64), {})

    def describe(self) -> str:
        known = [f"{len(self.cells)} known cells"] * bool(self.cells) + [
            f"known margins {sorted(self.margins)}"
        ] * bool(self.margins)
        weights = "all equally likely" if self.uniform else "with Dirichlet-multinomial weights"
        size = " x ".join(map(str, self.shape))
        return (
            f"a table of {size} counts that add up to {self.total}"
            + (f" with {' and '.join(known)}" if known else "")
            + f", {weights}"
        )

    def check_target(self, target: BaseTarget) -> None:
        for term in target.terms:
            if term.kind is Kind.CELL:
                self._flat_index(term.index)
        if target.is_order_statistic or not target.asks_only(Kind.CELL, Kind.FILE):
            raise InputError(
                "A table has cells", target, "Use Cell((0, 1)), Records() for the whole table, or a Functional of cells"
            )

    # -- counting --------------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        """How completions are counted, with the error where it is not exact."""
        if self.system.exact:
            return "dynamic programming"
        error, effective = float(self.system.log_count().error), self.system.effective_draws
        caution = "; too few for its error to be trusted, raise draws=" if effective < FEW else ""
        return (
            f"sequential importance sampling ({self.draws} draws worth {effective:.0f}, error {error:.2g} of the "
            f"log count{caution})"
        )

    def count(self) -> int | Value:
        """The number of tables that agree with what is known: an exact integer, or an estimate with its error."""
        return self.system.count()

    def log_count(self) -> Value:
        """Log of that number, the uncertainty log M(S) of Trottini and Fienberg (2002), eq. 7-12."""
        return self.system.log_count()

    def completions(self, limit: int = 100_000) -> Ints:
        """All tables that agree with what is known, shape ``(completions,) + shape``."""
        limit = check_integer("limit", limit, low=1)
        log_count = self.log_count()
        if float(log_count.value) > np.log(limit) + 1e-9:
            raise UnsupportedError(
                f"There are more than limit={limit} completions",
                f"about {_power_of_ten(float(log_count.value))}",
                "Raise limit=, or ask for count(), cell() or bounds()",
            )
        return self.system.all().reshape(-1, *self.shape)

    def cell(self, index: Any) -> Posterior:
        """The law of one cell: `Finite` where counting is exact, weighted draws otherwise."""
        return self._cell_posterior(self._flat_index(index))

    def bounds(self, index: Any) -> tuple[int, int]:
        """The lowest and the highest count that a cell can have, exact."""
        flat = self._flat_index(index)
        marginal = self.system.marginal(flat)
        if marginal is not None:
            possible = np.flatnonzero(marginal)
            return int(possible[0]), int(possible[-1])
        matrix, sums = self._linear_system
        goal = np.zeros(matrix.shape[1])
        found = []
        for sign in (1.0, -1.0):
            goal[flat] = sign
            answer = least_linear_value(goal, matrix, sums)
            if not answer.success:
                raise UnsupportedError(
                    "The bounds of this cell could not be found", answer.message, "Publish or know fewer margins"
                )
            found.append(int(np.rint(sign * answer.fun)))
        return found[0], found[1]

    def given(self, release: Any) -> TableBelief:
        """The belief after a release: a published table, or an array with missing values where cells are suppressed."""
        if isinstance(release, PublishedTable):
            counts, margins, total = as_counts(release.cells, missing=True), dict(release.margins), release.total
        else:
            counts, margins, total = as_counts(release, missing=True), {}, self.total
        if counts.shape != self.shape:
            raise InputError(
                f"The release must have the table's shape {self.shape}",
                f"shape {counts.shape}",
                "Release the table that the belief is about",
            )
        if total != self.total:
            raise InputError(
                f"The release must add up to the total {self.total}",
                "another total",
                "Release the table that the belief is about",
            )
        cells = dict(self.cells)
        for index in zip(*np.nonzero(~np.isnan(counts)), strict=True):
            place = tuple(int(i) for i in index)
            value = int(counts[place])
            if cells.setdefault(place, value) != value:
                raise InputError(
                    f"The release contradicts the known cell {place}",
                    "another count",
                    f"The belief holds {cells[place]} to be certain",
                )
        merged = dict(self.margins)
        for axes, margin in margins.items():
            if axes in merged and not np.array_equal(merged[axes], margin):
                raise InputError(
                    f"The release contradicts the known margin {axes}",
                    "other counts",
                    "Release the table that the belief is about",
                )
            merged[axes] = margin
        return replace(self, cells=cells, margins=merged)

    def posterior(self, target: BaseTarget) -> Posterior:
        """The law of a target under this belief."""
        self.check_target(target)
        if target.verbatim and target.asks(Kind.CELL):
            return self.cell(target.terms[0].index)
        listed = self.listed_tables()
        if listed is not None:
            tables, chances = listed
            return Finite(tables if target.verbatim else self.values_of(target, tables), chances)
        if target.verbatim:
            return TablePosterior(self.system, [self._cell_posterior(i) for i in range(prod(self.shape))], self.seed)
        if self.system.exact:
            return Drawn(self.values_of(target, self.system.sample(DRAWN, as_generator(self.seed, 2))), discrete=True)
        tables, weights = self.system.weighted_draws
        return Drawn(self.values_of(target, tables), weights, discrete=True)

    def values_of(self, target: BaseTarget, tables: Ints) -> Array:
        """The target's value in each of many tables, given as rows of cells."""
        return target.in_files(Files(tables.astype(np.float64).reshape(-1, *self.shape)))

    # -- helpers ---------------------------------------------------------------------------------------

    @cached_property
    def system(self) -> Completions:
        """The tables that agree with what is known."""
        matrix, sums = self._linear_system
        a = (
            np.ones(self.shape)
            if self.uniform
            else np.broadcast_to(np.asarray(self.weights, dtype=np.float64), self.shape)
        )
        return Completions(matrix, sums, a.reshape(-1).astype(np.float64), self.limit, self.draws, self.seed)

    @cached_property
    def _linear_system(self) -> tuple[Ints, Ints]:
        """Everything that is known, as sums of cells."""
        size = prod(self.shape)
        place = np.indices(self.shape).reshape(len(self.shape), size)
        rows, sums = [np.ones(size, dtype=np.int64)], [self.total]
        for index, count in self.cells.items():
            row = np.zeros(size, dtype=np.int64)
            row[int(np.ravel_multi_index(index, self.shape))] = 1
            rows.append(row)
            sums.append(count)
        for axes, margin in self.margins.items():
            for index in itertools.product(*(range(self.shape[a]) for a in axes)):
                rows.append(np.all([place[a] == i for a, i in zip(axes, index, strict=True)], axis=0).astype(np.int64))
                sums.append(int(margin[index]))
        return np.stack(rows), np.array(sums, dtype=np.int64)

    def listed_tables(self) -> tuple[Ints, Array] | None:
        """All tables with their probabilities, if they are few enough."""
        if not self.system.exact or float(self.system.log_count().value) > np.log(LISTED) + 1e-9:
            return None
        tables = self.system.all()
        return tables, softmax(self.system.log_weight(tables))

    def _cell_posterior(self, flat: int) -> Posterior:
        marginal = self.system.marginal(flat)
        if marginal is not None:
            possible = np.flatnonzero(marginal)
            return Finite(possible.astype(np.float64), marginal[possible] / marginal[possible].sum())
        tables, weights = self.system.weighted_draws
        return Drawn(tables[:, flat].astype(np.float64), weights, discrete=True)

    def _flat_index(self, index: Any) -> int:
        index = (index,) if is_integer(index) else index
        if isinstance(index, str) or not isinstance(index, Sequence) or len(index) != len(self.shape):
            raise InputError(
                f"A cell of this table has {len(self.shape)} positions", index, "Give one position per axis"
            )
        place = tuple(check_index("index", i, size) for i, size in zip(index, self.shape, strict=True))
        return int(np.ravel_multi_index(place, self.shape))

    def _check_cells(self, cells: Any) -> dict[tuple[int, ...], int]:
        if cells is None:
            return {}
        checked: dict[tuple[int, ...], int] = {}
        for index, count in check_mapping("cells", cells, "Write cells={(0, 1): 63}").items():
            place = tuple(int(i) for i in np.unravel_index(self._flat_index(index), self.shape))
            checked[place] = check_integer(f"cells[{place}]", count, low=0)
        return checked

    def _check_margins(self, margins: Any) -> dict[tuple[int, ...], Ints]:
        if margins is None:
            return {}
        checked: dict[tuple[int, ...], Ints] = {}
        for given, counts in check_mapping("margins", margins, "Write margins={(0,): row_totals}").items():
            axes = (given,) if is_integer(given) else given
            if is_single(axes):
                raise InputError(
                    "A margin is named by the axes that it keeps", given, "Write margins={(0,): row_totals}"
                )
            places = [check_index("margins", a, len(self.shape)) for a in axes]
            if len(set(places)) != len(places) or len(places) >= len(self.shape):
                raise InputError(
                    "A margin keeps some but not all axes, each once", given, "Write (0,) for the totals of axis 0"
                )
            array = np.asarray(check_integer("margins", counts, low=0)) if is_single(counts) else as_counts(counts)
            shape = tuple(self.shape[a] for a in places)
            check_shape(f"The margin {tuple(places)}", array, shape, "Give one count per combination of its axes")
            if int(array.sum()) != self.total:
                raise InputError(
                    f"The margin {tuple(places)} must add up to the total {self.total}",
                    int(array.sum()),
                    "Check the margin and the total",
                )
            order = np.argsort(places)
            checked[tuple(sorted(places))] = np.transpose(array, order).astype(np.int64)
        return checked


def _power_of_ten(log_count: float) -> str:
    """A number of any size in powers of ten."""
    power = log_count / np.log(10.0)
    return f"{10 ** (power % 1):.3g}e{int(power // 1)}" if power > 6 else f"{np.exp(log_count):.0f}"


@dataclass(frozen=True, eq=False, repr=False)
class TablePosterior(PartwisePosterior):
    """The law of all cells of a table at once, ``event = (cells,)``, without a list of the tables.

    What concerns each cell apart comes from the laws of the cells; entropy, moments and the most probable table
    come from counting; other joint questions are answered by draws, with their error.
    """

    completions: Completions
    cells: Sequence[Posterior]
    seed: int

    def __repr__(self) -> str:
        return f"TablePosterior(cells={len(self.cells)}, {'exact' if self.completions.exact else 'sampled'})"

    def __post_init__(self) -> None:
        self.__dict__["event"] = (len(self.cells),)

    @property
    def support(self) -> Array | None:
        """Distinct tables that were drawn: all of them are too many to list."""
        return self._drawn_tables.support

    # -- from counting -----------------------------------------------------------------------------------

    def mean(self) -> Array:
        return np.stack([c.mean() for c in self.cells])

    def var(self) -> Array:
        return np.stack([c.var() for c in self.cells])

    def cov(self) -> Array:
        return self.completions.moments()[1] if self.completions.exact else self._drawn_tables.cov()

    def entropy(self) -> Value:
        return self.completions.entropy()

    def mode(self, width: ArrayLike = 0.0) -> Array:
        if np.any(np.asarray(width) >= 1):
            return self._drawn_tables.mode(width)
        if not self.completions.exact:
            raise UnsupportedError(
                "The most probable table needs exact counting", do="Raise limit=, or use LogScore or Quadratic"
            )
        return self.completions.most_probable().astype(np.float64)

    def log_density(self, at: ArrayLike) -> Array:
        """Log probability of whole tables; minus infinity for tables that do not agree with what is known."""
        at = np.asarray(at, dtype=np.float64)
        whole = np.rint(at)
        agrees = np.all((at == whole) & (at >= 0), axis=-1) & np.all(
            np.maximum(whole, 0) @ self.completions.matrix.T == self.completions.sums, axis=-1
        )
        logs = self.completions.log_weight(np.maximum(whole, 0).astype(np.int64)) - float(
            self.completions.log_total.value
        )
        return np.where(agrees, logs, -np.inf)

    def outside(self, at: ArrayLike, width: ArrayLike) -> Value:
        width = np.asarray(width, dtype=np.float64)
        if np.any(width >= 0.5):
            return self._drawn_tables.outside(at, width)
        near = np.rint(np.asarray(at, dtype=np.float64))
        close = np.all(np.abs(near - at) <= width, axis=-1)
        chance = np.where(close, np.exp(self.log_density(near)), 0.0)
        return Value(1.0 - chance, chance * float(self.completions.log_total.error))

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        return self.completions.sample(size, rng).astype(np.float64)

    def quadratic(self, weights: ArrayLike = 1.0) -> Value:
        if not self.completions.exact:
            return self._drawn_tables.quadratic(weights)
        matrix = as_weight_matrix(weights, self.event)
        return Value.exact(np.diag(matrix) @ self.var() if np.ndim(weights) < 2 else np.sum(matrix * self.cov()))

    # -- each cell apart ---------------------------------------------------------------------------------

    def quantile(self, q: float) -> Array:
        return np.stack([c.quantile(q) for c in self.cells])

    def ask_parts(self, ask: Callable[[Posterior, Array], Value], at: ArrayLike, *, joint: bool = False) -> Value:
        at = np.asarray(at, dtype=np.float64)
        at = np.broadcast_to(at, np.broadcast_shapes(at.shape, self.event))
        return Value.stacked([ask(c, at[..., i]) for i, c in enumerate(self.cells)], axis=-1)

    def log_mgf(self, t: float, *, centred: bool = False) -> Value:
        return Value.stacked([c.log_mgf(t, centred=centred) for c in self.cells], axis=-1)

    def mean_difference(self) -> Value:
        return Value.stacked([c.mean_difference() for c in self.cells], axis=-1)

    # -- by draws ----------------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array], at: ArrayLike | None = None) -> Value:
        return self._drawn_tables.expect(f, at)

    @cached_property
    def _drawn_tables(self) -> Drawn:
        if self.completions.exact:
            return Drawn(self.completions.sample(DRAWN, as_generator(self.seed, 3)), discrete=True)
        return Drawn(*self.completions.weighted_draws, discrete=True)
