"""Expected uncertainty about tables of counts, over the tables that a belief holds possible or for a realised one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ...beliefs.table.belief import LISTED, TableBelief, TablePosterior
from ...errors import InputError, UnsupportedError, kind_of
from ...masks.base import Mask
from ...masks.cells import PublishedTable, ReleasedCells, as_counts, publish
from ...posteriors import Finite
from ...protocols import Array, Ints, Solution, Value
from ...running.replication import mean_of_replicates, replicate_seeds
from ...targets import Kind
from ...users.user import User
from ..base import Problem

AVERAGED = "enumeration, averaged over releases"
GROUPS = 3000
"""Up to so many different releases are enumerated one by one."""


def published_pattern(belief: TableBelief, mask: Mask) -> PublishedTable:
    """What a mask publishes of an empty table: which cells are missing, and which margins there are.

    An `UnsupportedError` if it is no mask of tables that can be inverted.
    """
    return publish(mask, np.zeros(belief.shape))


def _is_uninformative(shown: PublishedTable) -> bool:
    """Whether nothing but the total is published."""
    return bool(np.isnan(shown.cells).all()) and not shown.margins


def after_release(belief: TableBelief, mask: Mask, release: object) -> TableBelief:
    """The belief after a release: a published table, or an array with missing cells where no margins go out."""
    shown = published_pattern(belief, mask)
    if release is None:
        if _is_uninformative(shown):
            return belief
        what = f"The posterior after {mask} depends on what is released"
        raise InputError(what, None, "Pass release=mask.publish(table)")
    # Cells of a table carry what was published with them.
    attrs = getattr(release, "attrs", {})
    carried = release.published if isinstance(release, ReleasedCells) else attrs.get("published", release)
    table = carried if isinstance(carried, PublishedTable) else None
    if mask.separate_releases and table is not release:
        what = "Several releases of a table are published together"
        raise InputError(what, kind_of(release), "Pass publish(mask, table)")
    if not shown.margins:
        return belief.given(release)
    if table is not None:
        return belief.given(table)
    if np.isnan(as_counts(release, missing=True)).any():
        do = "Pass release=mask.publish(table), or publish(mask, table) for a chain"
        raise InputError("The mask publishes margins, and these cells have lost theirs", "cells alone", do)
    return belief.given(release)


@dataclass(frozen=True, eq=False)
class TableProblem:
    """A user of a table."""

    user: User

    def solve(self, problem: Problem) -> Solution:
        """Uncertainty after each mask: of the realised table, or expected over the belief's tables."""
        belief, masks, data = self.user.belief, problem.masks, problem.data
        for mask in masks:
            published_pattern(belief, mask)
        before = self._uncertainty_of_belief(belief)
        counts = None if data is None else self._check_counts(data)
        listed = belief.listed_tables() if data is None else None
        values: list[Value] = []
        names: list[str] = []
        effective: list[float] = []
        for i, mask in enumerate(masks):
            if counts is None:
                value, name = self._expected_uncertainty(problem, mask, listed)
                effective.append(np.inf)
            else:
                after = belief.given(publish(mask, counts))
                value = self._uncertainty_of_belief(after)
                name = "enumeration" if after.system.exact else "enumeration, sequential importance sampling"
                effective.append(after.system.effective_draws)
            values.append(value)
            names.append(name)
            problem.progress((i + 1) / len(masks))
        diagnostics = {} if np.isinf(effective).all() else {"effective_draws": np.array(effective)}
        u, error = np.array([float(v.value) for v in values]), np.array([float(v.error) for v in values])
        return Solution(u, error, float(before.value), names, diagnostics, averaged=AVERAGED in names)

    def _uncertainty_of_belief(self, belief: TableBelief) -> Value:
        posterior = belief.posterior(self.user.target)
        if not self.user.lists_estimates and self.user.actions and isinstance(posterior, TablePosterior):
            what = f"More than {LISTED} tables cannot be listed as estimates"
            raise UnsupportedError(what, do='Use estimates="free", or ask for one cell')
        return self.user.loss.uncertainty(posterior, self.user.actions)  # type: ignore[no-any-return]

    def _expected_uncertainty(
        self, problem: Problem, mask: Mask, listed: tuple[Ints, Array] | None
    ) -> tuple[Value, str]:
        belief = self.user.belief
        if _is_uninformative(published_pattern(belief, mask)):
            return self._uncertainty_of_belief(belief), "enumeration"
        if listed is not None:
            tables, chances = listed
            groups = same_release(mask, tables.reshape(-1, *belief.shape))
            count = int(groups.max()) + 1
            if self.user.target.is_a(Kind.FILE):
                if count <= GROUPS:
                    return self._sum_over_groups(tables, chances, groups, count), "enumeration"
            else:
                return self._sum_over_values(tables, chances, groups, count), "enumeration"
        return self._average_over_draws(problem, mask), AVERAGED

    def _sum_over_values(self, tables: Ints, chances: Array, groups: Ints, count: int) -> Value:
        """Sum over releases at once: the target has few values."""
        values, place = np.unique(self.user.belief.values_of(self.user.target, tables), axis=0, return_inverse=True)
        total, error = 0.0, 0.0
        step = max(1, LISTED * 100 // len(values))
        weight = np.bincount(groups, weights=chances, minlength=count)
        for start in range(0, count, step):
            part = (groups >= start) & (groups < start + step)
            size = min(step, count - start)
            joint = np.zeros((size, len(values)))
            np.add.at(joint, (groups[part] - start, place.reshape(-1)[part]), chances[part])
            mass = weight[start : start + size]
            u = self.user.loss.uncertainty(Finite(values, joint / mass[:, None]), self.user.actions)
            total += float(np.sum(mass * u.value))
            error += float(np.sum(mass * u.error))
        return Value(np.asarray(total), np.asarray(error))

    def _sum_over_groups(self, tables: Ints, chances: Array, groups: Ints, count: int) -> Value:
        """Sum over releases one by one: each leaves other tables possible."""
        order = np.argsort(groups, kind="stable")
        edges = np.searchsorted(groups[order], np.arange(count + 1))
        total, error = 0.0, 0.0
        for a, b in itertools.pairwise(edges):
            members = order[a:b]
            mass = float(chances[members].sum())
            u = self.user.loss.uncertainty(Finite(tables[members], chances[members] / mass), self.user.actions)
            total += mass * float(u.value)
            error += mass * float(u.error)
        return Value(np.asarray(total), np.asarray(error))

    def _average_over_draws(self, problem: Problem, mask: Mask) -> Value:
        """Average over tables drawn from the belief, the same for every mask."""
        belief = self.user.belief
        known: dict[object, Value] = {}
        each = []
        for for_data, _, _ in replicate_seeds(problem.seed, problem.count):
            release = publish(mask, belief.draw(np.random.default_rng(for_data)))
            if release.key not in known:
                known[release.key] = self._uncertainty_of_belief(belief.given(release))
            each.append(known[release.key])
        return mean_of_replicates(Value(*(np.array([float(v[i]) for v in each]) for i in (0, 1))))

    def _check_counts(self, data: object) -> Array:
        belief = self.user.belief
        counts = as_counts(data)
        if counts.shape != belief.shape:
            what = f"data must be a table of shape {belief.shape}"
            raise InputError(what, f"shape {counts.shape}", "Give the table that the belief is about")
        if int(counts.sum()) != belief.total:
            what = f"data must add up to the total {belief.total}"
            raise InputError(what, "another total", "Give the table that the belief is about")
        return counts


def same_release(mask: Mask, tables: Ints) -> Ints:
    """Number the releases of many tables; tables with the same number look the same to a user."""
    template = publish(mask, tables[0])
    shown = ~np.isnan(template.cells).reshape(-1)
    columns = [tables.reshape(len(tables), -1)[:, shown]]
    for axes in template.margins:
        summed = tuple(1 + a for a in range(tables.ndim - 1) if a not in axes)
        columns.append(tables.sum(axis=summed).reshape(len(tables), -1))
    stacked = np.concatenate(columns, axis=1)
    if stacked.shape[1] == 0:
        return np.zeros(len(tables), dtype=np.int64)
    return np.unique(stacked, axis=0, return_inverse=True)[1].reshape(-1)
