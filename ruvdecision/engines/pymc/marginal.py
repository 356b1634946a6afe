"""How the records behind a release are integrated out, and when they cannot be.

Normal records with normal noise have the integral in closed form; any other law is summed over nodes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...channels.likelihood import Between, ReleaseLikelihood, join_rows
from ...channels.likelihood.product import combine_observations
from .marginal_base import MarginalLikelihood
from .marginal_nodes import GridMarginal, NodesMarginal
from .model import CompiledModel
from .normal_records import AveragesMarginal, NormalMarginal, RowsMarginal, UnevenRowsMarginal, normal_rows
from .support import RecordGrid, find_grid, finite_cuts, informative_entries, support_ends_of_rows

LARGEST_GRID, MOST_CUTS = 4096, 256


def why_records_are_dependent(compiled: CompiledModel, observed: ReleaseLikelihood) -> str:
    """Why the records cannot be integrated out one by one; empty if they can."""
    if compiled.kind == "joint":
        return "the records depend on each other given the parameters"
    if observed.averages is not None and not _has_normal_averages(compiled, observed):
        return "averages tie records together"
    if observed.shuffled and compiled.one_record_model is None:
        return "rows in unknown order need records of one law"
    if compiled.kind == "mvnormal":
        normal = all(column.normal is not None for column in observed.columns)
        return "" if normal else "only normal noise can be integrated out of correlated variables"
    return "noise that is correlated across columns ties the variables together" if observed.joint is not None else ""


def _has_normal_averages(compiled: CompiledModel, observed: ReleaseLikelihood) -> bool:
    """Whether all that is released, averages of records too, is normal given the parameters, column by column."""
    assert observed.averages is not None
    plain = compiled.kind == "normal" and not observed.shuffled and observed.joint is None
    if not plain or any(column.normal is None for column in observed.columns):
        return False
    covariance = observed.averages.covariance
    return not np.any(covariance * (1 - np.eye(observed.k)))


def marginal_likelihood_class(compiled: CompiledModel, observed: ReleaseLikelihood) -> type[MarginalLikelihood]:
    """How the records behind a release are integrated out, where nothing ties them together."""
    if compiled.kind == "mvnormal":
        _, covariance, released = normal_rows(observed)
        even = len(covariance) == 1 and (released == released[:, :1]).all() and compiled.one_record_model is not None
        return RowsMarginal if even and released.any() else UnevenRowsMarginal
    if compiled.kind == "normal" and all(column.normal is not None for column in observed.columns):
        return NormalMarginal if observed.averages is None else AveragesMarginal
    if compiled.one_record_model is None or not compiled.scalar or compiled.point_masses is not None:
        return NodesMarginal
    column = observed.columns[0]
    few = len(finite_cuts(informative_entries(column))) <= MOST_CUTS
    smooth = few and column.support is None and np.isnan(column.known_values).all()
    open_ends = np.isinf(column.low).all() and np.isinf(column.high).all()
    return GridMarginal if compiled.discrete or (smooth and open_ends) else NodesMarginal


def _within_support(compiled: CompiledModel, observed: ReleaseLikelihood) -> ReleaseLikelihood:
    """What is told of records, each between the ends of its own law where these differ: nodes are cut there."""
    if compiled.discrete or compiled.one_record_model is not None or compiled.kind != "elementwise":
        return observed
    columns = list(observed.columns)
    for j, column in enumerate(columns):
        ends = support_ends_of_rows(compiled, column, j)
        if ends is not None:
            bounded = (np.isfinite(ends[0]) | np.isfinite(ends[1])) & ~np.asarray(column.uninformative)
            rows, rest = (np.flatnonzero(some & np.isnan(column.known_values)) for some in (bounded, ~bounded))
            rest = np.setdiff1d(np.arange(column.n), rows)
            own = (
                combine_observations(column.take(rows), Between(ends[0][rows], ends[1][rows])) if len(rows) else column
            )
            columns[j] = join_rows(column.n, [(rows, own), (rest, column.take(rest))]) if len(rows) else column
    return replace(observed, columns=tuple(columns))


def marginal_likelihood(
    compiled: CompiledModel, observed: ReleaseLikelihood, grids: tuple[RecordGrid, ...] | None = None
) -> MarginalLikelihood:
    """The likelihood for a release, with nodes that are fine enough for it; found afresh unless ``grids`` are known.

    A shared grid that would be too large gives way to nodes of each record.
    """
    observed = _within_support(compiled, observed)
    kind, core = marginal_likelihood_class(compiled, observed), compiled.reduced_model
    if not kind.on_grid:
        return kind(core, observed)
    if grids is None:
        grids = tuple(find_grid(compiled, column, j) for j, column in enumerate(observed.columns))
    if kind is GridMarginal:
        cut = grids[0].for_release(observed.columns[0], LARGEST_GRID)
        kind, grids = (NodesMarginal, grids) if cut is None else (GridMarginal, (cut,))
    return kind(core, observed, grids)
