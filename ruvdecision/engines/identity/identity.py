"""The engine of identity: which row of a release is whose, by Bayes' rule over the places of the file."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import pandas as pd
from scipy.special import softmax

from ...beliefs.finite import FiniteBelief
from ...beliefs.normal import NormalBelief
from ...channels.finite import FiniteChannel
from ...channels.linear import LINEAR
from ...channels.steps import FileFacts, resolve
from ...checks import as_float_array, check_finite
from ...errors import InputError, UnsupportedError
from ...losses import ZeroOne
from ...losses.base import check_labels
from ...masks.base import Mask
from ...masks.frame import Frame
from ...posteriors import Finite
from ...protocols import Array, Ints, Posterior, Solution
from ...running.replication import mean_over_replicates, replicate_error, replicate_seeds
from ...targets import Identity
from ...users.user import User
from ..base import BaseEngine, Problem, Question
from ..normal.releases import as_records, belief_facts
from .coarse_rows import CoarseRows
from .row_laws import FiniteRows, LinearRows, Records, outcome_table

ENTRIES = 2_000_000
"""Most probabilities to hold at a time."""


RowLaw: TypeAlias = LinearRows | CoarseRows | FiniteRows


class _Built(NamedTuple):
    """How records are drawn, masked and read, and the law of each mask by its identity."""

    rows: _Rows
    laws: dict[int, RowLaw]


@dataclass(frozen=True)
class Identification(BaseEngine):
    """Posteriors of `Identity`, for a `NormalBelief` or a `FiniteBelief` and masks whose law is known record by record.

    Exact for every release (see `ruvdecision.engines.identity.row_laws`): a normal belief with any prior on its mean
    and a linear Gaussian release (noise of all shapes, suppression, sampling, fixed groups); with a known mean also
    rounding, top- and bottom-coding, intervals and noise that is not normal; a finite belief with PRAM, `Stochastic`,
    recoding, noise.

    U depends on the release, so it is averaged over releases of ``data`` or of records drawn from the belief, with the
    same random numbers for every mask. The map also gets the columns ``expected_match`` (the chance of a correct match
    as the intruder sees it, the largest posterior probability), ``correct_match`` (how often the row that he names
    is right; ties count as fractions) and, for several respondents, ``highest_match`` (the largest expected match among
    them).

    Examples
    --------
    >>> from ruvdecision import Noise, NormalBelief, User, ZeroOne, posterior
    >>> user = User(NormalBelief(records=3, variance=4, prior="flat"), Identity(0, values=1.0), ZeroOne())
    >>> posterior(user, Noise(sd=0.5), [1.1, 4.0, -2.5]).probabilities.round(3)
    array([1., 0., 0.])
    """

    name = "identification"
    answers = Question.ROW

    def prepare(self, problem: Problem) -> _Built:
        user = problem.user
        do = "Use ZeroOne() or LogScore()"
        check_labels(user.loss, user.actions, "rows are labels", do, "rows have none", "rows")
        rows = _rows_of(user, problem.data)
        return _Built(rows, {id(mask): rows.law(mask) for mask in problem.masks})

    def run(self, problem: Problem, built: _Built) -> list[Solution]:
        user, masks, data, rows = problem.user, problem.masks, problem.data, built.rows
        laws = [built.laws[id(mask)] for mask in masks]
        fixed = data is not None and (rows.target.exact or rows.target.values is not None)
        once = np.array([fixed and rows.deterministic(m) for m in masks])
        count = 1 if once.all() else problem.count
        uncertainty = np.empty((count, len(masks)))
        claimed = np.empty((count, len(masks), len(rows.rows)))
        correct = np.empty((count, len(masks)))
        for r, seeds in enumerate(replicate_seeds(problem.seed, count)):
            for_data, for_mask, for_draws = (np.random.default_rng(s) for s in seeds)
            records, z = rows.draw(for_data, for_draws)
            for i, law in enumerate(laws):
                if r and once[i]:
                    # Nothing is random: every replicate would give the same.
                    uncertainty[r, i], claimed[r, i], correct[r, i] = uncertainty[0, i], claimed[0, i], correct[0, i]
                    continue
                shown, ids = rows.release(law, masks[i], records, copy.deepcopy(for_mask))
                scored = _score_matches(user, partial(law.log_match_weights, shown), z, ids, rows.rows)
                uncertainty[r, i], claimed[r, i], correct[r, i] = scored
            problem.progress((r + 1) / count)
        error = replicate_error(uncertainty) if count > 1 else np.where(once, 0.0, np.nan)
        n = user.belief.records
        before = user.loss.uncertainty(Finite(np.arange(n, dtype=np.float64), np.full(n, 1.0 / n)), user.actions).value
        each = claimed.mean(axis=0)
        columns = {"expected_match": each.mean(axis=1), "correct_match": correct.mean(axis=0)}
        if len(rows.rows) > 1:
            columns["highest_match"] = each.max(axis=1)
        names = [self.name if o else f"{self.name}, averaged over releases" for o in once]
        error = np.where(once, 0.0, error)
        value = mean_over_replicates(uncertainty)
        return [Solution(value, error, float(before), names, columns, averaged=not once.all())]

    def posterior(self, user: User, mask: Mask, release: object = None) -> Posterior:
        """Posterior over the places of the file: rows 0, 1, ... of the release, then the places that are not in it.

        A batch with one entry per respondent if the target names several. The intruder's knowledge must be in the
        target, ``Identity(..., values=...)``.
        """
        reason = self.refuses(user, [mask])
        if reason is not None:
            raise reason.error()
        if release is None:
            what = "Which row is whose depends on what is released"
            raise InputError(what, None, "Pass release=mask.release(data, rng)")
        target = cast(Identity, user.target)
        if target.values is None:
            what = "The posterior depends on what the intruder knows"
            raise InputError(what, "no values", "Write Identity(row, known=[...], values=[...])")
        rows = _rows_of(user, None, _names_of(release))
        law: Any = rows.law(mask)
        n = user.belief.records
        found = softmax(law.log_match_weights(law.prepare(release), rows.known_values()), axis=1)
        return Finite(np.arange(n, dtype=np.float64), found[0] if target.asks_one else found)


# -- one belief ----------------------------------------------------------------------------------------


class _Rows:
    """Drawing, masking and reading for one kind of belief; records are values, or codes of outcomes."""

    def __init__(self, user: User, names: Sequence[Hashable], records: Records | None) -> None:
        self.target, self.records = cast(Identity, user.target), records
        self.known = self.target.known_positions(names)
        self.errors = self.target.variances(len(self.known))
        self.rows = self.target.rows_in(user.belief.records)

    @property
    def about(self) -> FileFacts:
        """What is known of the file beforehand."""
        raise NotImplementedError

    def law(self, mask: Mask) -> RowLaw:
        """The law of what a mask says about places."""
        raise NotImplementedError

    def deterministic(self, mask: Mask) -> bool:
        """Whether a mask releases the same rows, in whatever order, every time."""
        return all(found.step.is_deterministic for found in resolve(mask, self.about))

    def known_values(self) -> Records:
        """What the intruder knows, as the target says: one row per respondent."""
        values, respondents, columns = self.target.values, len(self.rows), len(self.known)
        assert values is not None
        if len(values) != respondents or any(len(v) != columns for v in values):
            what = f"values must have {respondents} rows of {columns} numbers, one per known column"
            got = f"{len(values)} rows of {len(values[0])}"
            raise InputError(what, got, "Give what the intruder knows of each respondent")
        return np.array(values, dtype=object)

    def draw(self, for_data: np.random.Generator, for_draws: np.random.Generator) -> tuple[Records, Records]:
        """Records and what the intruder knows of each respondent."""
        # Drawn whether or not they are used, so that the stream does not depend on the options.
        noise = for_draws.standard_normal((len(self.rows), len(self.known)))
        if self.target.values is not None:
            z = self.known_values()
            if self.records is None and len(self.rows) != 1:
                what = "Records cannot be drawn around the given values of several respondents"
                raise UnsupportedError(what, do="Pass data=, or leave out values")
            return (self._draw_given_respondent(z, for_data) if self.records is None else self.records), z
        records = self.records if self.records is not None else self._draw_records(for_data)
        z = self.values(records[self.rows])[:, self.known]
        return records, z + noise * np.sqrt(self.errors) if self.errors.any() else z

    def values(self, records: Records) -> Records:
        """What records are in all columns."""
        return records

    def _draw_records(self, rng: np.random.Generator) -> Records:
        """Records drawn from the belief."""
        raise NotImplementedError

    def _draw_given_respondent(self, z: Records, rng: np.random.Generator) -> Records:
        """Records drawn from the belief given what the intruder knows of one respondent."""
        raise NotImplementedError

    def release(self, law: Any, mask: Mask, records: Records, rng: np.random.Generator) -> tuple[Any, Ints]:
        """What the law needs to know of a fresh release, and whose record stands in each row."""
        raise NotImplementedError


class _NormalRows(_Rows):
    """Records of a normal belief."""

    def __init__(self, user: User, data: object, names: Sequence[Hashable] | None) -> None:
        belief = user.belief
        if isinstance(data, pd.DataFrame) and belief.columns is not None and set(belief.columns) <= set(data.columns):
            data = data[list(belief.columns)]
        self.names = belief.columns or names or _names_of(data) or tuple(range(belief.k))
        if len(self.names) != belief.k:
            self.names = tuple(range(belief.k))
        self.belief: NormalBelief = belief if belief.columns is not None else replace(belief, columns=self.names)
        super().__init__(user, self.names, None if data is None else as_records(belief, data))

    @property
    def about(self) -> FileFacts:
        return belief_facts(self.belief, self.records)

    def law(self, mask: Mask) -> LinearRows | CoarseRows:
        try:
            return LinearRows(self.belief, mask, self.known, self.errors, self.records)
        except UnsupportedError as linear:
            # Any step may be the one that is not linear; the reader of intervals is asked next.
            if CoarseRows.applies_to(self.belief, mask, self.records):
                return CoarseRows.of(self.belief, mask, self.known, self.errors, self.records)
            odd = [f.step for f in resolve(mask, self.about) if type(f.step) not in LINEAR]
            if all(step.why and step.do for step in odd):
                raise
            do = "Identity knows Noise, Suppress, Subsample, Shuffle, Round, Clip, Topcode, Recode and fixed groups"
            raise UnsupportedError(linear.what, do=do) from None

    def known_values(self) -> Array:
        return check_finite("values", as_float_array("values", super().known_values()))

    def _draw_records(self, rng: np.random.Generator) -> Array:
        return np.reshape(self.belief.draw(rng), (self.belief.records, -1))

    def _draw_given_respondent(self, z: Array, rng: np.random.Generator) -> Array:
        belief = self.belief
        if belief.mu_covariance is None:
            raise UnsupportedError("A flat prior cannot be drawn from", do="Give prior_variance=, or pass data=")
        records = self._draw_records(rng)
        own = records[self.rows[0]]
        # Shift the draw by its error at what is known (Matheron): the respondent's record first, then the mean, with
        # the rest.
        total = belief.record_covariance + belief.mu_covariance
        drawn = own[self.known] + rng.standard_normal(len(self.known)) * np.sqrt(self.errors)
        gain = np.linalg.solve(total[np.ix_(self.known, self.known)] + np.diag(self.errors), z[0] - drawn)
        records = records + belief.mu_covariance[:, self.known] @ gain
        records[self.rows[0]] = own + total[:, self.known] @ gain
        return records

    def release(
        self, law: LinearRows | CoarseRows, mask: Mask, records: Array, rng: np.random.Generator
    ) -> tuple[Any, Ints]:
        frame, ids = mask.apply_tracking_rows(Frame.of(pd.DataFrame(records, columns=list(self.names))), rng)
        return law.prepare(frame), ids


class _FiniteRows(_Rows):
    """Records of a finite belief, as codes of its outcomes."""

    def __init__(self, user: User, data: object) -> None:
        self.belief: FiniteBelief = user.belief
        levels, codes = self.belief.levels, None
        if data is not None:
            codes = levels.codes(data, "data")
            if len(codes) != self.belief.records or np.any(codes < 0):
                what = f"data must have {self.belief.records} complete records, as the belief says"
                got = f"{int(np.sum(codes >= 0))} complete ones of {len(codes)}"
                raise InputError(what, got, "Give records= to the belief, or other data")
        super().__init__(user, range(levels.columns), codes)
        if levels.labelled and self.errors.any():
            do = "Leave out error_sd and error_variance, or use numbers"
            raise UnsupportedError("Labels have no errors that can be measured", do=do)
        self.table = outcome_table(self.belief)

    @property
    def about(self) -> FileFacts:
        return FiniteChannel.file_facts(self.belief)

    def law(self, mask: Mask) -> FiniteRows:
        return FiniteRows.of(self.belief, mask, self.known, self.errors, self.records)

    def values(self, records: Ints) -> Records:
        return self.table[records]

    def _draw_records(self, rng: np.random.Generator) -> Ints:
        return self.belief.draw_codes(rng)

    def _draw_given_respondent(self, z: Records, rng: np.random.Generator) -> Ints:
        belief = self.belief
        like = FiniteRows.likelihood(self.table[:, self.known], z, self.errors)[0]
        joint = belief.prior[:, None] * belief.law * like
        if not joint.sum() > 0:
            what = "No record of the belief has the values that the intruder knows"
            raise InputError(what, "others", "Check values=")
        pick = int(rng.choice(joint.size, p=(joint / joint.sum()).ravel()))
        state, outcome = divmod(pick, joint.shape[1])
        codes = rng.choice(joint.shape[1], size=belief.records, p=belief.law[state]).astype(np.int64)
        codes[self.rows[0]] = outcome
        return codes

    def release(
        self, law: FiniteRows, mask: Mask, records: Ints, rng: np.random.Generator
    ) -> tuple[tuple[Array, Ints], Ints]:
        evidence, inverse, ids = law.channel.mask_records(records, rng)
        # An output that no outcome gives says nothing and never occurs.
        possible = (evidence > -np.inf).any(axis=1, keepdims=True)
        return (np.where(possible, evidence, 0.0), inverse), ids


def _rows_of(user: User, data: object, names: Sequence[Hashable] | None = None) -> _Rows:
    if isinstance(user.belief, NormalBelief):
        return _NormalRows(user, data, names)
    if isinstance(user.belief, FiniteBelief):
        return _FiniteRows(user, data)
    what = f"Identity is not available for a {type(user.belief).__name__}"
    raise UnsupportedError(what, do="Use a NormalBelief or a FiniteBelief")


# -- helpers -------------------------------------------------------------------------------------------


def _score_matches(
    user: User, log_match_weights: Callable[[Records], Array], z: Records, ids: Ints, rows: Ints
) -> tuple[float, Array, float]:
    """Average uncertainty, the chance of each match as the intruder sees it, and the share that is right."""
    n = user.belief.records
    place = np.full(n, -1, dtype=np.int64)
    place[ids] = np.arange(len(ids))
    # Places that are not in the release are alike: any of them will do as the respondent's.
    place[place < 0] = np.arange(len(ids), n)
    truth = place[rows]
    total, right = 0.0, 0.0
    claimed = np.empty(len(rows))
    step = max(1, ENTRIES // n)
    states = np.arange(n, dtype=np.float64)
    plain = isinstance(user.loss, ZeroOne) and user.actions is None
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        chances = softmax(log_match_weights(z[part]), axis=1)
        top = chances.max(axis=1)
        best = chances >= top[:, None] * (1 - 1e-12)
        mine = np.take_along_axis(best, truth[part, None], axis=1)[:, 0]
        right += float(np.sum(mine / best.sum(axis=1)))
        claimed[part] = top
        if plain:
            # 1 - max by adding up the others: it keeps its digits near certainty.
            first = np.argmax(chances, axis=1)
            np.put_along_axis(chances, first[:, None], 0.0, axis=1)
            total += float(chances.sum())
        else:
            total += float(np.sum(user.loss.uncertainty(Finite(states, chances), user.actions).value))
    return total / len(rows), claimed, right / len(rows)


def _names_of(data: object) -> tuple[Hashable, ...] | None:
    return tuple(data.columns) if isinstance(data, pd.DataFrame) else None
