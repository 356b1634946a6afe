"""Posteriors of a finite belief: of one release, and of every release that a mask can give.

Records are independent given the state, so a release matters through the counts of its outputs; only the rows that the
target names are followed one by one. Fifty binary records are 51 releases, not 2^50.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import comb, perm, prod
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaln, logsumexp, softmax

from ...beliefs.finite import FiniteBelief
from ...channels.finite import FiniteChannel, RecordEvidence
from ...errors import InputError, UnsupportedError
from ...numerics.counts import compositions
from ...protocols import Array, Ints
from .target_table import TargetLaw


@dataclass(frozen=True, eq=False)
class Outputs:
    """All releases of a mask: ``joint[r, t]`` is the chance of release r together with target value t."""

    joint: Array
    weights: Array
    """The chance of each release: under the belief, or given the realised records."""


@dataclass(frozen=True, eq=False)
class _Scenario:
    """Who is in the file: the kernel of each followed row (None if absent), and how many others of each kernel."""

    weight: float
    followed: tuple[int | None, ...]
    others: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FiniteLaw:
    """A finite belief, a target's table and a mask's channel."""

    belief: FiniteBelief
    table: TargetLaw
    channel: FiniteChannel
    limit: int

    # -- one release -------------------------------------------------------------------------------------

    def posterior_probabilities(self, slots: RecordEvidence) -> Array:
        """Probabilities of the target's values given one release."""
        log_joint = self._log_joint(slots)
        if np.all(log_joint == -np.inf):
            do = "Check the release, or the prior probabilities that are zero"
            raise InputError("The release cannot come from this belief and mask", "probability zero", do)
        return np.asarray(softmax(log_joint))

    def _log_joint(self, slots: RecordEvidence) -> Array:
        """Log joint of release and target value. Whose record is whose does not matter where no row is followed."""
        known = bool((slots.rows >= 0).all())
        if not known and self.table.rows:
            return self._joint_of_unlabelled_rows(slots)
        log_evidence = np.zeros((self.belief.records, len(self.belief.levels)))
        log_evidence[slots.rows if known else np.arange(len(slots.rows))] = slots.log_evidence
        return self._joint_of_labelled_rows(log_evidence)

    def _joint_of_labelled_rows(self, log_evidence: Array) -> Array:
        """Log joint of release and target value, given evidence for every row."""
        law, table = self.belief.law, self.table
        evidence = np.exp(log_evidence)
        with np.errstate(divide="ignore"):
            log_rows = np.log(evidence @ law.T)  # rows by states
            log_state = np.log(self.belief.prior) + log_rows.sum(axis=0)
            if table.counted:
                chances = law[:, None, :] * evidence[None] / np.maximum(np.exp(log_rows.T)[..., None], 1e-300)
                return np.log(
                    np.exp(log_state - _finite_maximum(log_state)) @ table.counts_law(chances)
                ) + _finite_maximum(log_state)
            followed = list(table.rows)
            log_state = np.log(self.belief.prior) + np.delete(log_rows, followed, axis=0).sum(axis=0)
            joint = np.zeros(len(table.values))
            shift = _finite_maximum(log_state)
            for s in range(len(law)):
                columns, chances = table.joint_law(s, law[s], [evidence[r][:, None] for r in followed])
                joint[columns] += np.exp(log_state[s] - shift) * chances[0]
            return np.log(joint) + shift

    def _joint_of_unlabelled_rows(self, slots: RecordEvidence) -> Array:
        """Sum over which released record belongs to which followed row, or to none of them."""
        table, law = self.table, self.belief.law
        kinds = self.channel.kinds
        live = [k for k in np.unique(kinds) if not self.channel.kernels[k].uninformative]
        if len(live) > 1 or (self.channel.sampled and len(np.unique(kinds)) > 1):
            what = "Rows that were masked in different ways and then mixed are too many cases"
            raise UnsupportedError(what, do="Use one mask for all rows before Shuffle, or known rows")
        if not live:
            return self._joint_of_labelled_rows(np.zeros((self.belief.records, len(self.belief.levels))))
        n = int(np.sum(kinds == live[0]))
        mine = [r for r in table.rows if kinds[r] == live[0]]
        log_evidence = slots.log_evidence[slots.kinds == live[0]]
        m = len(log_evidence)
        if m ** len(mine) > 100_000:
            what = f"Which of {m} records belongs to which of {len(mine)} rows has too many answers"
            raise UnsupportedError(what, do="Ask for one record")
        evidence = np.exp(log_evidence)
        with np.errstate(divide="ignore"):
            log_rows = np.log(evidence @ law.T)  # slots by states
            log_all = np.log(self.belief.prior) + log_rows.sum(axis=0)
            shift = _finite_maximum(log_all) if np.isfinite(_finite_maximum(log_all)) else 0.0
            joint = np.zeros(len(table.values))
            nothing = np.ones(len(self.belief.levels))
            for choice in itertools.product(range(-1, m), repeat=len(mine)):
                taken = [c for c in choice if c >= 0]
                absent = len(choice) - len(taken)
                if len(set(taken)) < len(taken) or absent > n - m:
                    continue
                chance = perm(n - m, absent) / perm(n, len(choice))
                log_state = np.log(self.belief.prior) + np.delete(log_rows, taken, axis=0).sum(axis=0)
                pick = dict(zip(mine, choice, strict=True))
                for s in range(len(law)):
                    each = [(nothing if pick.get(r, -1) < 0 else evidence[pick[r]])[:, None] for r in table.rows]
                    columns, chances = table.joint_law(s, law[s], each)
                    joint[columns] += chance * np.exp(log_state[s] - shift) * chances[0]
            return np.log(joint) + shift

    def log_joint(self, release: object) -> tuple[Array, float] | None:
        """Log density of a release together with the target's values, and the dimension of its continuous part.

        None if impossible.
        """
        channel = self.channel
        frame = pd.DataFrame(channel.side_by_side(release)).to_numpy(dtype=object)
        if channel.ordered and not channel.sampled and all(k.noise is not None for k in channel.kernels):
            return self._log_joint_of_numbers(frame)
        try:
            slots = channel.read(release)
        except InputError:
            return None
        offset, rank = 0.0, 0.0
        for slot, kind in enumerate(slots.kinds):
            kernel = channel.kernels[kind]
            if kernel.noise is None:
                continue
            # Evidence is kept relative to the nearest output; across masks the size of the density counts.
            values = np.array(kernel.numbers([None if pd.isna(v) else v for v in frame[slot]]))
            offset += float(kernel.log_densities(values[None])[0].max())
            volume, dimension = kernel.noise_volume
            offset -= 0.5 * volume
            rank += dimension
        return self._log_joint(slots) + offset, rank

    def density(self, release: object) -> tuple[float, float]:
        """Log density of a release, and the dimension of its continuous part."""
        found = self.log_joint(release)
        return (-np.inf, 0.0) if found is None else (float(logsumexp(found[0])), found[1])

    def _log_joint_of_numbers(self, frame: Any) -> tuple[Array, float] | None:
        """The same where every row goes out with noise and keeps its place: all rows of a kind at once."""
        channel = self.channel
        numbers = np.array([[np.nan if pd.isna(v) else float(v) for v in row] for row in frame])
        evidence = np.empty((len(channel.kinds), len(self.belief.levels)))
        offset, rank = 0.0, 0.0
        for kind, kernel in enumerate(channel.kernels):
            mine = channel.kinds == kind
            blank = np.asarray(np.isnan(kernel.levels()).all(axis=0))
            if numbers.shape != (len(channel.kinds), len(blank)) or np.any(np.isnan(numbers[mine]) != blank):
                return None
            assert kernel.noise is not None
            logs = kernel.log_densities(numbers[mine])
            top = logs.max(axis=1, keepdims=True)
            if np.any(top == -np.inf):
                return None
            with np.errstate(divide="ignore"):
                evidence[mine] = np.log(np.exp(logs - top) @ kernel.matrix.T)
            volume, dimension = kernel.noise_volume
            offset += float(top.sum()) - 0.5 * float(mine.sum()) * volume
            rank += float(mine.sum()) * dimension
        return self._joint_of_labelled_rows(evidence) + offset, rank

    # -- all releases ------------------------------------------------------------------------------------

    def outputs(self, codes: Ints | None = None) -> Outputs:
        """Every release with its chance: under the belief, or given the realised records ``codes``."""
        if self.channel.continuous:
            what = "A release with noise has a continuum of values"
            raise UnsupportedError(what, do="Draw releases, or integrate over them")
        if codes is not None and self.channel.sampled:
            what = "Releases of a sample are drawn when the records are given"
            raise UnsupportedError(what, do="Pass data=, or a smaller file")
        if self.table.counted or self.channel.ordered:
            pieces = [self._labelled_outputs(s, codes) for s in self._possible_samples()]
            joint = np.concatenate([p.joint for p in pieces])
            weights = np.concatenate([p.weights for p in pieces])
        else:
            joint, weights = self._unlabelled_outputs(codes)
        live = weights > 0
        return Outputs(joint[live], weights[live])

    def check_room(self) -> None:
        """Raise if there are more releases than allowed, without listing them."""
        for scenario in self._possible_samples():
            releases = 1
            for kind, count in enumerate(scenario.others):
                if count:
                    keep = self.table.counted or not self.channel.ordered
                    merged = _merge_equivalent_outputs(self.channel.kernels[kind].matrix, self.belief.law, keep)
                    releases *= comb(count + merged.shape[1] - 1, merged.shape[1] - 1)
            for k in scenario.followed:
                releases *= 1 if k is None else int(self.channel.kernels[k].matrix.any(axis=0).sum())
            self._check_size(releases * len(self.table.values))

    @property
    def one_number(self) -> bool:
        """Whether the release is one number with noise and the target follows from at most that record."""
        return self.one_record and len(self.channel.kernels[0].outputs[0]) == 1

    @property
    def one_record(self) -> bool:
        """Whether the file is one record, and the target follows from at most that."""
        return not self.table.counted and len(self.channel.kinds) == 1

    def outputs_before_noise(self) -> Array:
        """Chance of each output of the only record (rows) together with the target's values (columns)."""
        matrix = self.channel.kernels[0].matrix
        if self.table.rows:
            return np.asarray(self._joint_of_counts(self.belief.prior[None, :], [matrix])[0])
        state = (self.belief.law @ matrix).T * self.belief.prior
        return np.asarray(self._joint_of_counts(state, [])[:, 0])

    def _possible_samples(self) -> Iterator[_Scenario]:
        """Who may be in the file, with the chance of it."""
        channel = self.channel
        rows = self.table.rows
        n, m = len(channel.kinds), channel.kept
        kinds = [int(channel.kinds[r]) for r in rows]
        others = np.bincount(np.delete(channel.kinds, list(rows)), minlength=len(channel.kernels))
        if m == n:
            yield _Scenario(1.0, tuple(kinds), tuple(int(c) for c in others))
            return
        for present in itertools.product((True, False), repeat=len(rows)):
            left = m - sum(present)
            if left < 0:
                continue
            for counts in itertools.product(*(range(min(int(c), left) + 1) for c in others)):
                if sum(counts) == left:
                    ways = prod(comb(int(size), c) for c, size in zip(counts, others, strict=True))
                    followed = tuple(k if p else None for k, p in zip(kinds, present, strict=True))
                    yield _Scenario(ways / comb(n, m), followed, counts)

    def _labelled_outputs(self, scenario: _Scenario, codes: Ints | None) -> Outputs:
        """Releases whose rows are known: the followed rows' outputs and the counts of the others'."""
        kernels, law = self.channel.kernels, self.belief.law
        counted = []
        for kind, count in enumerate(scenario.others):
            if count == 0:
                continue
            merged = _merge_equivalent_outputs(kernels[kind].matrix, law, self.table.counted)
            self._check_size(comb(count + merged.shape[1] - 1, merged.shape[1] - 1))
            if codes is None:
                counts = compositions(count, merged.shape[1])
                chance = np.ones(len(counts))
            else:
                others = [r for r in np.flatnonzero(self.channel.kinds == kind) if r not in self.table.rows]
                counts, chance = _counts_law(merged[codes[others]])
            counted.append((merged, counts, chance))
        self._check_size(int(np.prod([len(c) for _, c, _ in counted], dtype=np.float64)) if counted else 1)
        # Chance of the counts in every state, for every combination of the kinds of rows.
        log_state = np.zeros((1, len(law)))
        given = np.ones(1)
        for merged, counts, chance in counted:
            log_state = (log_state[:, None, :] + _log_multinomial(counts, law @ merged)[None]).reshape(-1, len(law))
            given = np.outer(given, chance).reshape(-1)
        state = self.belief.prior * np.exp(log_state)
        if self.table.counted:
            joint = self._average_joint(state, [(m, c) for m, c, _ in counted], scenario)
            weights = given if codes is not None else joint.sum(axis=1)
            return Outputs(scenario.weight * joint, scenario.weight * weights)
        followed = [
            np.ones((len(self.belief.levels), 1)) if k is None else kernels[k].matrix for k in scenario.followed
        ]
        joint = self._joint_of_counts(state, followed)
        if codes is None:
            weights = joint.sum(axis=2)
        else:
            own: Array = np.ones(1)
            for f, r in zip(followed, self.table.rows, strict=True):
                own = np.kron(own, f[codes[r]])
            weights = given[:, None] * own[None, :]
        return Outputs(scenario.weight * joint.reshape(-1, joint.shape[2]), scenario.weight * weights.reshape(-1))

    def _joint_of_counts(self, state: Array, followed: list[Array]) -> Array:
        """Chance of counts (first axis), the followed rows' outputs (second) and the target's values (third)."""
        law, table = self.belief.law, self.table
        outputs = int(np.prod([f.shape[1] for f in followed], dtype=np.float64)) if followed else 1
        self._check_size(len(state) * outputs * len(table.values))
        self._check_size(outputs * len(law[0]) ** len(followed))
        joint = np.zeros((len(state), outputs, len(table.values)))
        for s in range(len(law)):
            columns, chances = table.joint_law(s, law[s], followed)
            joint[:, :, columns] += state[:, s, None, None] * chances[None]
        return joint

    def _average_joint(self, state: Array, counted: list[tuple[Array, Ints]], scenario: _Scenario) -> Array:
        """Chance of counts and of the average: given the state every record has its own law of outcomes."""
        law, n = self.belief.law, self.belief.records
        self._check_size(len(state) * len(law) * (n + 1) ** (law.shape[1] - 1))
        outputs = []
        for index in itertools.product(*(range(len(c)) for _, c in counted)):
            rows = [np.repeat(m.T, counts[i], axis=0) for (m, counts), i in zip(counted, index, strict=True)]
            absent = np.ones((n - sum(map(len, rows)), law.shape[1]))
            outputs.append(np.concatenate([*rows, absent]))
        evidence = np.array(outputs)  # releases, records, outcomes
        chances = law[None, :, None, :] * evidence[:, None]
        total = chances.sum(axis=-1, keepdims=True)
        given_state = self.table.counts_law(chances / np.where(total > 0, total, 1.0))
        return np.einsum("rs,rst->rt", state, given_state)

    def _unlabelled_outputs(self, codes: Ints | None) -> tuple[Array, Array]:
        """Releases without names: how many records show each output."""
        kernels, law = self.channel.kernels, self.belief.law
        names = list(dict.fromkeys(o for k in kernels for o in k.outputs))
        wide = [k.over(names) for k in kernels]
        keys: list[Ints] = []
        joints: list[Array] = []
        for scenario in self._possible_samples():
            counts, state = np.zeros((1, len(names)), dtype=np.int64), self.belief.prior[None, :]
            for kind, count in enumerate(scenario.others):
                if count:
                    open_ = np.flatnonzero(wide[kind].any(axis=0))
                    self._check_size(len(counts) * comb(count + len(open_) - 1, len(open_) - 1))
                    own = np.zeros((comb(count + len(open_) - 1, len(open_) - 1), len(names)), dtype=np.int64)
                    own[:, open_] = compositions(count, len(open_))
                    log_chance = _log_multinomial(own[:, open_], law @ wide[kind][:, open_])
                    counts = _all_sums(counts, own)
                    state = (state[:, None] * np.exp(log_chance)[None]).reshape(-1, len(law))
            followed = []
            for k in scenario.followed:
                if k is None:
                    followed.append(np.ones((len(law[0]), 1)))
                    continue
                open_ = np.flatnonzero(wide[k].any(axis=0))
                followed.append(wide[k][:, open_])
                counts = _all_sums(counts, np.eye(len(names), dtype=np.int64)[open_])
            joint = self._joint_of_counts(state, followed)
            keys.append(counts)
            joints.append(scenario.weight * joint.reshape(-1, joint.shape[2]))
        distinct, group = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
        total = np.zeros((len(distinct), joints[0].shape[1]))
        np.add.at(total, group.reshape(-1), np.concatenate(joints))
        if codes is None:
            return total, total.sum(axis=1)
        counts, chance = _counts_law(np.stack([wide[self.channel.kinds[r]][codes[r]] for r in range(len(codes))]))
        where = {tuple(row): i for i, row in enumerate(distinct.tolist())}
        weights = np.zeros(len(distinct))
        for row, p in zip(counts.tolist(), chance, strict=True):
            weights[where[tuple(row)]] += p
        return total, weights

    def _check_size(self, size: int) -> None:
        if size > self.limit:
            what = f"Enumeration would hold {size} combinations of releases and target values"
            do = "Use Enumeration(limit=...) with a larger limit, fewer outcomes, or pass data= so that releases are "
            raise TooManyReleases(what, f"a limit of {self.limit}", do + "drawn")


class TooManyReleases(UnsupportedError):
    """More combinations than the engine's limit."""


def _merge_equivalent_outputs(matrix: Array, law: Array, keep: bool) -> Array:
    """Put together outputs that say the same about the state; all are kept where the records themselves matter."""
    matrix = matrix[:, matrix.any(axis=0)]
    if keep:
        return matrix
    likelihood = law @ matrix
    total = likelihood.sum(axis=0)
    profile = np.round(likelihood / np.where(total > 0, total, 1.0), 13)
    _, group = np.unique(profile.T, axis=0, return_inverse=True)
    merged = np.zeros((len(matrix), int(group.max()) + 1))
    np.add.at(merged.T, group.reshape(-1), matrix.T)
    return merged


def _log_multinomial(counts: Ints, chances: Array) -> Array:
    """Log chance of counts (rows) in every state (columns)."""
    constant = gammaln(counts.sum(axis=1) + 1.0) - gammaln(counts + 1.0).sum(axis=1)
    # Matrix products: a cube of releases, states and outputs would not fit into memory.
    log_chances = np.log(np.where(chances > 0, chances, 1.0))
    impossible = (counts > 0).astype(np.float64) @ (chances <= 0).astype(np.float64).T > 0
    return np.where(impossible, -np.inf, constant[:, None] + counts.astype(np.float64) @ log_chances.T)


def _counts_law(chances: Array) -> tuple[Ints, Array]:
    """Law of the counts of outputs when record r shows output o with ``chances[r, o]``."""
    size = chances.shape[1]
    counts: Ints = np.zeros((1, size), dtype=np.int64)
    law: Array = np.ones(1)
    for row in chances:
        possible = np.flatnonzero(row)
        grown = _all_sums(counts, np.eye(size, dtype=np.int64)[possible])
        weight = np.outer(law, row[possible]).reshape(-1)
        counts, group = np.unique(grown, axis=0, return_inverse=True)
        law = np.asarray(np.bincount(group.reshape(-1), weights=weight, minlength=len(counts)), dtype=np.float64)
    return counts, law


def _all_sums(counts: Ints, more: Ints) -> Ints:
    """Sums of every row of one table with every row of another, which run fastest."""
    return (counts[:, None] + more[None]).reshape(-1, counts.shape[1])


def _finite_maximum(values: Array) -> float:
    top = float(values.max())
    return top if np.isfinite(top) else 0.0
