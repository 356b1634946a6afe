"""The engine for snoopers: the expected loss of a fixed rule, exact where it can be, otherwise simulated."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...beliefs.normal import NormalBelief
from ...channels.linear import LinearChannel
from ...checks import as_generator, check_choice
from ...errors import InputError, UnsupportedError
from ...losses import Quadratic
from ...masks.base import Mask
from ...masks.frame import Frame
from ...posteriors import Gaussian
from ...protocols import Array, Posterior, Solution, Value
from ...running.replication import replicate_seeds
from ...targets import Kind, LinearForm
from ...users.rules import Custom, Linear, Mean, Row, Rule, order_rows
from ...users.user import Snooper
from ..base import BaseEngine, Ints, Problem, Question, Refusal, Tell
from ..normal.conditioning import present
from ..normal.exact import Exact
from ..normal.forms import form_of
from ..normal.releases import linear_channel
from .clipped import clipped_error, has_clipped_error
from .every_row import REPLICATES, every_row, row_kinds
from .losses import check_sizes, costs, mean_moments, sampling_shares
from .moments import Wanted, error_law, pull
from .source import Drawing, EntryNoise, Seeds, Source, truth_of

CHUNK = 200_000
"""Entries of a block of replicates: what is held at any time does not grow with replicates or masks."""
BLOCK = 500
"""Masks that are solved in one go, and kept in a checkpoint together."""
LARGEST_PROBED = 500
"""In larger files a callable rule is not tried for linearity, which takes one call per record."""


@dataclass(frozen=True)
class FixedRule(BaseEngine):
    """Expected loss of a `Snooper`'s rule.

    Exact for linear rules and linear targets, where the release is linear-Gaussian and the records come from a
    `NormalBelief` or are given, and the loss depends on the error alone: the error is then normal with known
    mean and covariance. Otherwise releases are simulated. All masks share their random numbers (noise of different
    size is the same draw, scaled), blocks of replicates are worked on together, and U carries its standard error.

    Parameters
    ----------
    method : {"auto", "exact", "simulate"}
        "auto" is exact where the error is normal, as above. "exact" also integrates the error of linear rules and ranks
        on records at hand, for normal noise with or without bounds and squared error (Duncan et al., section V); the
        work for a rank in the middle grows as the square of the number of records.

    A release that holds no value at all for the rule (everything suppressed) leaves the snooper without an estimate: U
    is infinite. One that holds it only sometimes (a sample without the target's row) is refused, because an infinite
    U would hide what the other releases give away.
    """

    method: str = "auto"
    name = "fixed rule"
    answers = Question.RULE
    always_cut = True

    def __post_init__(self) -> None:
        check_choice("method", self.method, ["auto", "exact", "simulate"])

    @classmethod
    def where(cls, asked: BaseEngine | None) -> BaseEngine:
        return cls(method="exact") if isinstance(asked, Exact) else super().where(asked)

    def prepare(self, problem: Problem) -> Refusal | None:
        user, masks = problem.user, problem.masks
        if self.method == "exact":
            work = _Work(user, Source.of(user.belief, problem.data))
            for family in masks.families:
                mask = masks[family.positions[0]]
                if work.channel(mask, family.numbers[:1]) is not None and not any(
                    _wiped(masks[i]) for i in family.positions
                ):
                    continue
                if not all(work.clipped(masks[i]) for i in family.positions):
                    what = f"{mask} with {user.estimator!r} has no closed form for a snooper"
                    return Refusal(what, "Use engine='auto', which simulates it")
        return None

    def pieces(self, problem: Problem) -> list[list[int]]:
        """Blocks so large that what their masks share, the drawn records and the noise, is little work."""
        count = len(problem.masks)
        return [list(range(i, min(i + BLOCK, count))) for i in range(0, count, BLOCK)]

    def run(
        self, problem: Problem, built: None, tell: Tell | None = None, interruptible: bool = False
    ) -> list[Solution]:
        user, masks, replicates, seed = problem.user, problem.masks, problem.replicates, problem.seed
        work = _Work(user, Source.of(user.belief, problem.data))
        value, error = np.empty(len(masks)), np.zeros(len(masks))
        names = ["exact"] * len(masks)
        solved: set[int] = set()
        if self.method != "simulate":
            for family in masks.families:
                members = [i for i in family.positions if not _wiped(masks[i])]
                if not members:
                    continue
                channel = work.channel(
                    masks[members[0]], np.array([masks[i].numbers for i in members], dtype=np.float64)
                )
                if channel is not None:
                    value[members], error[members] = work.exact(channel)
                    solved.update(members)
        left = [i for i in range(len(masks)) if i not in solved]
        if self.method == "exact":
            for i in left:
                value[i] = clipped_error(user, work.source, masks[i], work._linear_rule())
        elif left:
            count = REPLICATES if replicates is None else replicates
            work.check_flat([masks[i] for i in left], seed)
            result = work.simulate([masks[i] for i in left], count, seed, tell)
            value[left], error[left] = result.value, result.error
            for i in left:
                names[i] = "simulated"
        return [Solution(value, error, float("nan"), names[0] if len(set(names)) == 1 else names)]

    def every_row(self, problem: Problem, built: None, rows: Ints, tell: Tell | None = None) -> Solution | None:
        return None if self.method == "exact" else every_row(problem, rows, tell)

    def row_kinds(self, problem: Problem, built: None, rows: Ints, located: bool = False) -> Ints:
        return row_kinds(problem, rows)

    def posterior(self, user: Any, mask: Mask, release: Any = None) -> Posterior:
        """A snooper has none."""
        raise UnsupportedError(
            "A snooper uses a fixed rule and has no posterior", type(user).__name__, "Ask for the posterior of a User"
        )


class _Work:
    """One snooper and the records that the rule is judged on."""

    def __init__(self, user: Snooper, source: Source) -> None:
        self.user, self.source = user, source
        self.rule: Rule = user.estimator
        if isinstance(self.rule, Row) and self.rule.row is None and source.table is not None and source.k == 1:
            # Index knowledge of the records at hand is a row like any other.
            self.rule = Row(int(order_rows(source.table, _rank(user, source.n))[0]))
        if user.target.ranked:
            user.target.rank(source.n)
        if isinstance(self.rule, Row) and self.rule.row is not None:
            self.rule.place(source.n)
        self.sampling_variance = source.table is not None and user.target.is_a(Kind.PARAMETER)
        if self.sampling_variance:
            _check_scientist(user, source)

    # -- in closed form ------------------------------------------------------------------------------------

    def channel(self, mask: Mask, numbers: Array) -> LinearChannel | None:
        """The channel of a family whose exact value is known, or None."""
        user, source = self.user, self.source
        loss, target = user.loss, user.target
        if not loss.location_free or not hasattr(loss, "expected") or target.is_a(Kind.FILE) or self.sampling_variance:
            return None
        if source.table is None and not isinstance(user.belief, NormalBelief):
            return None
        rule = self._linear_rule()
        if (
            rule is None
            or (source.table is not None and source.n < 2)
            or (source.table is None and self._form() is None)
        ):
            return None
        channel = linear_channel(self._stand_in(), mask, numbers, source.table)
        if channel is None or channel.location == "known":
            return channel
        # Rows that moved or were drawn: only a rule that treats them alike, and one record at most in the target.
        plain = isinstance(rule, Mean) and sum(t.kind is Kind.RECORD for t in target.terms) <= 1
        return channel if plain and source.table is None else None

    def clipped(self, mask: Mask) -> bool:
        """Whether the error on the records at hand is a known integral."""
        return has_clipped_error(self.user, self.source, mask, self._linear_rule())

    def exact(self, channel: LinearChannel) -> Value:
        """Expected loss of the rule for every member of a family."""
        source, rule = self.source, self._linear_rule()
        assert rule is not None
        there = present(channel)
        weights = rule.weights(there)
        assert weights is not None
        if np.any((weights != 0) & ~there) or not np.all(there.any(axis=0)):
            # Nothing is released that the rule could use.
            return Value.exact(np.inf)
        pulled = pull(channel, weights)
        if source.table is not None:
            truth = truth_of(self.user.target, Drawing(source.table[None]))[0]
            centre = np.einsum("nij,nj->i", pulled.records, source.table) + rule.constant()
            check_sizes(len(centre), len(truth), rule)
            return self._expected(centre - truth, pulled.noise)
        form = self._form()
        assert form is not None
        check_sizes(source.k, len(form.constant), rule)
        total: Any = 0.0
        for share, shaped in self._places(form, channel):
            mean, covariance = error_law(self.user.belief, pulled, shaped, rule)
            total = total + share * self._expected(mean, covariance).value
        return Value.exact(total)

    def _places(self, form: LinearForm, channel: LinearChannel) -> Iterator[tuple[float, Wanted]]:
        """The target at each kind of place where its record may be, with its share."""
        n, k = self.source.n, self.source.k
        wanted = Wanted.of(form, n, k)
        rows = [i for i, p in enumerate(form.terms) if p.kind is Kind.RECORD]
        if channel.location == "known" or not rows:
            yield 1.0, wanted
            return
        shape, _, cell = channel.layout.rows()
        piece = form.matrix[:, rows[0] * k : rows[0] * k + k]
        here = form.terms[rows[0]].row % n
        kinds = channel.layout.places(here) if channel.location == "drawn" else channel.layout.classes()
        for share, t, c in kinds:
            records = wanted.records.copy()
            records[here] -= piece
            records[np.flatnonzero((shape == t) & (cell == c))[0]] += piece
            yield share, Wanted(wanted.mean, wanted.new, records, wanted.constant)

    def _expected(self, mean: Array, covariance: Array) -> Value:
        """Expected loss of an error with this law: the truth seen from the estimate."""
        loss = self.user.loss
        costs(
            loss, np.zeros((1, len(mean))), np.zeros((1, len(mean))), self.rule
        )  # a loss of intervals refuses a number
        if len(mean) == 1:
            return loss.expected(
                Gaussian.scalar(np.full(len(covariance), -mean[0]), covariance[:, 0, 0]), np.zeros(len(covariance))
            )
        centre = np.broadcast_to(-mean, (len(covariance), len(mean)))
        return loss.expected(Gaussian(centre, covariance), np.zeros(centre.shape))

    def _form(self) -> LinearForm | None:
        return form_of(self.user.belief, self.user.target)

    def _linear_rule(self) -> Rule | None:
        if isinstance(self.rule, Custom) and not hasattr(self, "_probed"):
            self._probed = _probe(self.rule, self.source)
        rule = self._probed if isinstance(self.rule, Custom) else self.rule
        if rule is None or (isinstance(rule, Row) and rule.row is None):
            return None
        return rule if rule.weights(np.ones((self.source.n, self.source.k), dtype=bool)) is not None else None

    def _stand_in(self) -> NormalBelief:
        """A belief that has the size and the columns of the data; its law is not used."""
        if self.source.table is None:
            return self.user.belief  # type: ignore[no-any-return]
        return NormalBelief(
            records=self.source.n, covariance=np.eye(self.source.k), prior="flat", columns=self.source.columns
        )

    # -- by simulation -----------------------------------------------------------------------------------------

    def check_flat(self, masks: Sequence[Mask], seed: Any) -> None:
        """Refuse a flat prior unless the loss is the same wherever the population mean is."""
        belief = self.user.belief
        if self.source.table is not None or not isinstance(belief, NormalBelief) or belief.mu_covariance is not None:
            return
        step = 1000.0 * float(np.sqrt(np.diag(belief.record_covariance).max()))
        here = self._losses(masks, 4, seed, None)[0]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rule may overflow so far out, which is an answer too
            there = self._losses(masks, 4, seed, None, shift=step)[0]
        scale = np.nanmax(np.abs(here), initial=0.0)
        if not np.allclose(here, there, rtol=1e-7, atol=1e-7 * scale, equal_nan=True):
            raise UnsupportedError(
                "The loss of this rule depends on the population mean, and a flat prior gives no law to average over",
                do="Give the belief a prior_variance, or pass data=",
            )

    def simulate(self, masks: Sequence[Mask], count: int, seed: Any, tell: Any) -> Value:
        losses, correction = self._losses(masks, count, seed, tell)
        value = losses.mean(axis=1) - correction
        error = np.full(len(masks), np.nan)
        if count > 1:
            # Squares of very large losses are out of reach.
            unit = np.nanmax(np.abs(losses), axis=1, initial=0.0)
            unit = np.where(np.isfinite(unit) & (unit > 0), unit, 1.0)
            error = unit * (losses / unit[:, None]).std(axis=1, ddof=1) / np.sqrt(count)
        for i, mask in enumerate(masks):
            lost = np.isnan(losses[i])
            if np.all(lost):
                value[i], error[i] = np.inf, 0.0
            elif np.any(lost):
                raise UnsupportedError(
                    f"After {mask} some releases hold no value for the rule {self.rule!r}, others do",
                    f"{int(lost.sum())} of {count} without",
                    "Give a callable that says what the snooper does then, such as taking the mean",
                )
        return Value(value, error)

    def _losses(
        self, masks: Sequence[Mask], count: int, seed: Any, tell: Any, shift: float = 0.0
    ) -> tuple[Array, Array]:
        """Loss in every replicate, (masks, replicates), and what is to be taken off their mean."""
        source = self.source
        seeds = list(replicate_seeds(seed, count))
        step = max(1, CHUNK // (source.n * source.k))
        laws: dict[Any, list[tuple[int, EntryNoise]]] = {}
        others = []
        for i, mask in enumerate(masks):
            noise = EntryNoise.of(mask, source) if self._plain else None
            if noise is None:
                others.append(i)
            else:
                laws.setdefault(noise.draws, []).append((i, noise))
        found: list[list[Array]] = [[] for _ in masks]
        truths = []
        for start in range(0, count, step):
            block = seeds[start : start + step]
            drawn = source.draw(block).moved(shift) if shift else source.draw(block)
            if not self.sampling_variance:
                truths.append(truth_of(self.user.target, drawn))
            index = self._index(drawn.records)
            for members in laws.values():
                draws = members[0][1].draw(source.n, source.k, block)
                for i, noise in members:
                    found[i].append(self._noisy(noise, drawn.records, draws, index))
            for i in others:
                found[i].append(
                    np.stack([self._released(masks[i], drawn.records, index, r, s) for r, s in enumerate(block)])
                )
            if tell is not None:
                tell(min(start + step, count) / count)
        estimates = [np.concatenate(f) for f in found]
        if self.sampling_variance:
            assert source.table is not None
            return sampling_shares(np.stack(estimates), source.table.mean(axis=0), self.user.loss)
        truth = np.concatenate(truths)
        return np.stack([costs(self.user.loss, e, truth, self.rule) for e in estimates]), np.zeros(len(masks))

    def _index(self, records: Array) -> Any:
        """Where the target's record stands in each replicate, (replicates, k), if the rule needs to know."""
        if isinstance(self.rule, Row) and self.rule.row is None:
            return order_rows(records, _rank(self.user, records.shape[1]))
        return None

    def _noisy(self, noise: EntryNoise, records: Array, draws: Array, index: Any) -> Array:
        """Estimates from releases with noise, all replicates of a block at once."""
        if isinstance(self.rule, Row) and self.rule.row is not None:
            return noise.release(records, draws, self.rule.place(records.shape[1]))[:, 0]
        released = noise.release(records, draws)
        if isinstance(self.rule, Custom):
            return np.stack([self._asked(y) for y in released])
        return self._look(released, index)

    @property
    def _plain(self) -> bool:
        """Whether a release needs no frame; a function of one's own gets the kind of data that was given."""
        return not isinstance(self.rule, Custom) or self.source.kind in ("vector", "matrix")

    def _asked(self, release: Array) -> Array:
        """What a function of one's own makes of a released matrix."""
        return np.asarray(np.atleast_1d(self.rule(release[:, 0] if self.source.kind == "vector" else release))).ravel()

    def _released(self, mask: Mask, records: Array, index: Any, r: int, seeds: Seeds) -> Array:
        """The estimate from one release of any mask."""
        rng = as_generator(seeds[1])
        x = records[r]
        if isinstance(self.rule, Custom):
            given = self.source.given
            if given is None:
                given = x[:, 0] if self.source.kind == "vector" else x
            return np.asarray(np.atleast_1d(self.rule(mask.release(given, rng)))).ravel()
        frame = mask.release(self.source.frame(x), rng)
        try:
            values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):  # a mask that turned numbers into words
            values, _ = Frame.of(frame).numeric(f"The rule {self.rule!r}", missing=True)
        labels = frame.index.to_numpy()
        if len(labels) < len(x) and np.issubdtype(labels.dtype, np.integer) and len(np.unique(labels)) == len(labels):
            # A sample tells which rows it holds: the others are missing.
            whole = np.full((len(x), values.shape[1]), np.nan)
            whole[labels] = values
            values = whole
        return self._look(values[None], None if index is None else index[[r]])[0]

    def _look(self, values: Array, index: Any) -> Array:
        """What the rule makes of released values (replicates, n, k)."""
        if self.sampling_variance:
            return mean_moments(values)
        if index is not None:
            return np.asarray(np.take_along_axis(values, index[:, None, :], axis=1)[:, 0])
        return self.rule.of(values)


# -- helpers -------------------------------------------------------------------------------------------------


def _rank(user: Snooper, n: int) -> int:
    """The rank of the record that a snooper is after."""
    rank = user.target.rank(n)
    assert rank is not None
    return rank


def _check_scientist(user: Snooper, source: Source) -> None:
    """The population mean of given records has a meaning for the released mean and squared error only."""
    fits = (
        isinstance(user.estimator, Mean) and isinstance(user.loss, Quadratic) and user.target.terms[0].component is None
    )
    if not fits or user.target.terms[0].name != "mu":
        raise UnsupportedError(
            "With data the population's parameters are not known; the exception is the released mean for "
            "Parameter('mu') under "
            "squared error (Duncan et al., eqs 13 and 14)",
            f"rule {user.estimator!r}, {user.target!r}, {user.loss!r}",
            "Ask for Average() or another function of the records, or use a NormalBelief without data",
        )
    if source.n < 2:
        raise InputError("The error of a mean needs at least two records", source.n, "Give the whole file")


def _wiped(mask: Mask) -> bool:
    """Infinite noise releases missing values, which a rule cannot use."""
    return bool(np.isinf(mask.numbers).any()) if mask.numbers else False


def _probe(rule: Custom, source: Source) -> Linear | None:
    """The weights of a callable that is linear, found by trying it; None if it is not, or too large to try."""
    if source.table is not None or source.k != 1 or source.n > LARGEST_PROBED:
        return None
    n = source.n
    shape = (n,) if source.kind == "vector" else (n, 1)
    rng = np.random.default_rng(0)
    probes = np.concatenate([rng.standard_normal((4, n)) * s for s in (1e-2, 1.0, 1e3)])
    points = np.concatenate([np.zeros((1, n)), np.eye(n), probes])
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen = np.array([np.asarray(rule(x.reshape(shape))).reshape(()) for x in points], dtype=np.float64)
    except (InputError, ValueError):
        return None
    if not np.all(np.isfinite(seen)):
        return None
    offset, coefficients = seen[0], seen[1 : n + 1] - seen[0]
    told = probes @ coefficients + offset
    room = 1e-9 * (1.0 + abs(offset) + np.abs(probes) @ np.abs(coefficients))
    return Linear(coefficients, float(offset)) if np.all(np.abs(seen[n + 1 :] - told) <= room) else None
