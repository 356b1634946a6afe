"""The best release of a map: under a threshold on the risk, by utility or by another criterion of the agency."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..channels.steps import FileFacts
from ..channels.words import in_words
from ..checks import check_arguments, check_flag, check_mapping, check_number
from ..errors import InfeasibleError, InputError
from ..maps.rumap import RUMap
from ..maps.show import ReleaseRow, chance_in_words, clean_text, few_digits, format_amount, why_unreliable
from ..protocols import Array
from .criteria import (
    PLAIN,
    Columns,
    Criterion,
    ExpectedLoss,
    Rule,
    Tier,
    best_positions,
    check_map,
    criterion_or_default,
    directions,
)
from .dominance import snap_ties
from .probability import (
    Errors,
    check_errors,
    check_threshold,
    expected_loss,
    frontier_probability,
    frontier_probability_of,
    probability_below_threshold,
)

LITTLE = 0.05
"""A release that leaves less than this share of what could be gained is of next to no use."""
LINKED = {"linkage": "are linked rightly", "fellegi_sunter": "are linked rightly"}
"""Measures of risk that are shares of records, and what happens to these records."""
BELOW_ZERO = {
    "gain": "after the release the {who}'s expected loss is larger than before, so the release misleads",
    "relative_gain": "after the release the {who}'s expected loss is larger than before, so the release misleads",
    "negative_log": "the {who}'s expected loss is above 1, in the unit of the loss",
    "negative": "it is minus the {who}'s expected loss, and the largest that it can be is 0",
}


def check_rule(rule: Rule | None) -> Rule:
    """Further arguments of `choose`, all of which it has."""
    known = [n for n in inspect.signature(choose).parameters if n not in ("rumap", "max_risk")]
    found = check_mapping("rule", {} if rule is None else rule, 'Write rule={"confidence": 0.95}')
    check_arguments("choose", found, known)
    return found


def choose(
    rumap: RUMap,
    max_risk: float | None = None,
    by: Criterion | None = None,
    *,
    confidence: float | None = None,
    frontier_confidence: float | None = None,
    columns: Columns | None = None,
    converged: bool | None = None,
    min_utility: float | None = None,
    errors: Errors | None = None,
    tolerance: float = 1e-9,
) -> Choice:
    """Return the best release whose risk is at most ``max_risk``: the most useful one, unless said otherwise.

    The choice is among releases, never among users: where several look at the same releases (`RUMap.concat` with names,
    curves of a scenario), risk and utility of a release are those of the worst of them (`RUMap.worst`).

    Parameters
    ----------
    rumap : RUMap
        The map.
    max_risk : float, optional
        The threshold, on the scale of the map's risk: positive for a reciprocal, any value that the score can take
        otherwise. Infinity allows everything. It may be left out if ``by`` weighs the risk.
    by : Criterion, optional
        What makes a release the best: `MostUseful` if not given, ``Weighted({"utility": 1, "risk": 3})``,
        ``Lexicographic(["IO", "KL"], slack={"IO": 0.01})`` or ``ExpectedLoss(lambda risk, utility: ...)``.
    confidence : float, optional
        Allow a release only if the probability that its risk truly meets the threshold is at least this. Without it the
        estimated risk alone decides, and the choice says how probable it is. The estimate of an exact map is the truth.
    frontier_confidence : float, optional
        Allow a release only if the probability that no other one truly dominates it is at least this.
    columns : list or mapping, optional
        Columns of the frontier that the choice is compared with, and better ends that the map does not know:
        ``{"IO": "higher"}``. By default the columns of the criterion.
    converged : bool, optional
        True leaves out releases whose sampler did not converge. Their errors mean nothing, so that is the default where
        ``confidence`` is given; otherwise they compete, and the choice says so if one of them wins.
    min_utility : float, optional
        A floor: releases of less utility are not worth giving out, and are not allowed.
    errors : Errors, optional
        How errors of different releases are correlated, and how often they are drawn for probabilities about several
        releases at once; independent if not given.
    tolerance : float, default 1e-9
        A release is allowed if its risk exceeds the threshold by no more than this share of it (for gains and logs, of
        the natural scale if that is larger: U0 or 1), so that a noise level that was solved for meets its own
        threshold.

    Returns
    -------
    Choice
        The row of the map, the runner-up, probabilities and remarks; its text is one sentence. Ties in utility (within
        a relative 1e-12) go to the lowest risk, ties in both to the release that is listed first.

    Raises
    ------
    InfeasibleError
        If no release is allowed; the message names the nearest miss.

    Examples
    --------
    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> print(choose(rumap, max_risk=0.5))
    Release a: risk 0.5 (threshold 0.5), utility 2; nothing else is allowed.
    >>> choose(rumap, by=ExpectedLoss(lambda risk, utility: 3 * risk - utility)).release
    'b'
    """
    rumap = check_map(rumap).worst()
    criterion = criterion_or_default(by).for_map(rumap, columns if isinstance(columns, Mapping) else {})
    if max_risk is None and not criterion.weighs_risk:
        raise InputError("choose needs max_risk, or a criterion that weighs the risk", None, "Give max_risk= or by=")
    threshold, room = (np.inf, 0.0) if max_risk is None else check_threshold(rumap, max_risk, tolerance)
    how = check_errors(errors)
    better = directions(rumap, columns) if columns is not None else dict(criterion.needs) or dict(PLAIN)
    if columns is None and max_risk is not None:
        better = {"risk": "lower", **better}

    allowed = np.ones(rumap.size, dtype=bool)
    chance = np.ones(rumap.size)
    if max_risk is not None:
        chance = probability_below_threshold(rumap, threshold, room)
        allowed = rumap.risk <= threshold + room  # NaN is never allowed
        if confidence is not None:
            confidence = check_number("confidence", confidence, low=0, high=1, open_low=True)
            allowed = chance >= confidence
    elif confidence is not None:
        raise InputError("confidence is about the threshold", "no max_risk", "Give max_risk=, or frontier_confidence=")
    if not allowed.any():
        raise _nearest_miss(rumap, threshold, confidence, chance)
    if min_utility is not None:
        floor = check_number("min_utility", min_utility, infinite=True)
        what = f"No allowed release has utility of at least {few_digits(floor, 6)}"
        do = "Lower min_utility, raise max_risk, or add masks that keep more"
        allowed = _at_least(rumap, allowed, "utility", rumap.utility, floor, what, do)
    allowed, left_out = _converged_only(rumap, allowed, (confidence is not None) if converged is None else converged)
    if frontier_confidence is not None:
        level = check_number("frontier_confidence", frontier_confidence, low=0, high=1, open_low=True)
        what = f"No allowed release is on the frontier with probability {level:g}"
        do, on = "Lower frontier_confidence, or use more replicates", frontier_probability(rumap, better, how)
        allowed = _at_least(rumap, allowed, "probability", on, level, what, do)
    tiers, value = _ranking_values(rumap, criterion, how)
    known = ~np.any([np.isnan(t) for t, _ in tiers], axis=0)
    if not np.any(allowed & known):
        under = f" with risk at most {threshold:.6g}" if np.isfinite(threshold) else ""
        do = f"Look at the column {next(iter(criterion.needs), 'utility')}"
        raise InfeasibleError(f"No release{under} has {criterion.lacking}", "NaN for all of them", do)
    allowed &= known
    best = int(best_positions(tiers, allowed))
    others = allowed.copy()
    others[best] = False
    second = rumap[int(best_positions(tiers, others))] if others.any() else None
    competing = known & (rumap.converged if left_out else True)
    on_frontier, is_best = frontier_probability_of(rumap, best, better, how, criterion, threshold + room, competing)
    return Choice(
        **vars(rumap[best]),
        max_risk=threshold,
        next_best=second,
        allowed=int(allowed.sum()),
        meets=float(chance[best]),
        on_frontier=on_frontier,
        best=is_best,
        confidence=confidence,
        rule=criterion.in_words(float(value[best])),
        value=float(value[best]),
        left_out=left_out,
        order=_mask_in_words(rumap, best),
        typical_errors=tuple(_typical_errors_in_words(rumap, best)),
        findings=tuple(_findings_in_words(rumap, best)),
        worthless=_why_worthless(rumap, best),
    )


@dataclass(frozen=True, repr=False)
class Choice(ReleaseRow):
    """The chosen release: a row of the map, with the threshold, the runner-up, and how probable it is that it is right.

    Its text is one sentence.
    """

    max_risk: float = np.inf
    next_best: ReleaseRow | None = None
    """The second best release that is allowed."""
    allowed: int = 1
    """How many releases are allowed."""
    meets: float = 1.0
    """Probability that its risk truly meets the threshold; NaN if its error is not known."""
    on_frontier: float = 1.0
    """Probability that no other release truly dominates it; NaN if it has no value in one of the columns compared."""
    best: float = 1.0
    """Probability that it is the best of those that truly meet the threshold; neighbours on a fine grid share it."""
    confidence: float | None = None
    """The probability of meeting the threshold that was demanded."""
    rule: str = ""
    """The agency's criterion and its value, if it is not the utility."""
    value: float = float("nan")
    """What the criterion takes the most (or least) of: utility, weighted sum, expected loss or first column."""
    left_out: int = 0
    """How many releases were left out because their sampler did not converge."""
    order: str = ""
    """What to do, in words: "add normal noise with variance 2 to income, then publish the average of all records"."""
    typical_errors: tuple[str, ...] = ()
    """How far each user's estimate is typically off, in the data's own unit."""
    findings: tuple[str, ...] = ()
    """How many records are found or linked, and what a number below zero says."""
    worthless: str = ""
    """Why there is next to nothing to be gained from the release; empty where there is."""

    @property
    def meaning(self) -> tuple[str, ...]:
        """What risk and utility mean, in sentences."""
        return self.typical_errors + self.findings

    @property
    def within_error(self) -> bool:
        """True if the threshold lies within two standard errors of the release's risk."""
        return bool(self.risk_error > 0 and abs(self.risk - self.max_risk) <= 2 * self.risk_error)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know before trusting the choice."""
        remarks = []
        if "worst_user" in self.columns:
            remarks.append(f"its risk is that of the worst user, {self.columns['worst_user']}")
        if self.worthless:
            remarks.append(self.worthless)
        if self.within_error:
            errors = f"two standard errors ({few_digits(self.risk_error)} each)"
            remarks.append(f"the threshold lies within {errors} of its risk")
        if self.meets < 0.995 or (self.confidence is not None and 0 < self.meets < 1):
            demanded = "" if self.confidence is None else f" ({self.confidence:.12g} was demanded)"
            remarks.append(f"it truly meets the threshold with probability {chance_in_words(self.meets)}{demanded}")
        elif np.isnan(self.meets):
            remarks.append("how surely it meets the threshold is not known, because its error is not")
        if self.on_frontier == 0:
            remarks.append("another release dominates it")
        elif self.on_frontier < 0.95:
            remarks.append(f"it is truly on the frontier with probability {chance_in_words(self.on_frontier)}")
        if self.one_release:
            remarks.append("its numbers are of one release: without an error, as another draw would give others")
        if not self.converged:
            both = self.intruder_uncertainty, self.scientist_uncertainty
            remarks.append(f"its {why_unreliable(self.engine, *both)}")
        if self.left_out:
            plural = "s" * (self.left_out > 1)
            remarks.append(
                f"{self.left_out} release{plural} left out, as {'they' if plural else 'it'} did not converge"
            )
        if self.mask is None and self.parameters:
            remarks.append("its mask is not stored in the map")
        return tuple(remarks)

    def __str__(self) -> str:
        def with_error(value: float, error: float) -> str:
            return few_digits(value) + (f" ± {few_digits(error, 2)}" if error > 0 else "")

        threshold = "no threshold" if np.isinf(self.max_risk) else f"threshold {few_digits(self.max_risk)}"
        risk, utility = with_error(self.risk, self.risk_error), with_error(self.utility, self.utility_error)
        text = f"Release {self.release}: risk {risk} ({threshold}), utility {utility}"
        text += f", {self.rule}" if self.rule else ""
        text += "".join(f"; {remark}" for remark in self.remarks)
        if self.next_best is None:
            return clean_text(f"{text}; nothing else is allowed.")
        other = self.next_best
        where = f"risk {few_digits(other.risk)}, utility {few_digits(other.utility)}"
        return clean_text(f"{text}; the next best allowed is {other.release} with {where}.")


def _mask_in_words(rumap: RUMap, i: int) -> str:
    """What the mask of a release does, in words."""
    mask = None if rumap.masks is None else rumap.masks[i]
    if mask is None:
        return ""
    names = rumap.attrs.get("file_columns")
    facts = FileFacts(
        int(rumap.attrs.get("file_records") or 2), tuple(names) if isinstance(names, list) and names else (0,)
    )
    return in_words(mask, facts)


def _typical_errors_in_words(rumap: RUMap, i: int) -> Iterator[str]:
    """How far each user's estimate is typically off, before and after."""
    unit = str(rumap.attrs.get("unit", ""))
    for who in rumap.uncertainties:
        after, before = rumap.typical_error(who), rumap.typical_error(who, before=True)
        if after is not None and np.isfinite(after.value[i]):
            text = f"The {who}'s estimate is typically off by {format_amount(after.value[i], unit)}"
            start = np.nan if before is None else float(before.value[i])
            if np.isfinite(start) and start > 0:
                share = f", {_share_in_words(after.value[i] / start)} of the" if after.value[i] > 0 else "; it was"
                text += f"{share} {format_amount(start, unit)} before any release"
            yield text + "."


def _findings_in_words(rumap: RUMap, i: int) -> Iterator[str]:
    """How many records are linked or found, and what a number below zero says."""
    records = rumap.attrs.get("file_records")
    for who, u in rumap.uncertainties.items():
        if records and who in rumap.attrs.get("find_rows", ()) and 0 <= u.value[i] <= 1:
            hits = format_amount((1 - u.value[i]) * records)
            yield f"The {who} finds the right row for {hits} of {records:,} records (1 of {records:,} by guessing)."
    score = rumap.risk_score
    if score.as_stored and records:
        verb = LINKED.get(score.name)
        if verb and np.isfinite(rumap.risk[i]):
            # Not how many: a release may have more records than the file, or fewer.
            yield f"{_share_in_words(rumap.risk[i])} of the records {verb}."
    for axis in (rumap.axis("risk"), rumap.axis("utility")):
        value = rumap.column(axis.role).value[i]
        if value < 0 and axis.score.name in BELOW_ZERO:
            yield f"{axis.role.title()} is below zero: {BELOW_ZERO[axis.score.name].format(who=axis.who)}."


def _share_in_words(ratio: float) -> str:
    """A ratio as a percentage, where that can be read; "about all" never hides a difference."""
    return f"{100 * ratio:.3g} %" if ratio < 10 else f"{ratio:,.3g} times"


def _why_worthless(rumap: RUMap, i: int) -> str:
    """Why a release is of next to no use; empty if it is of use, or if nothing is known."""
    score, utility = rumap.utility_score, rumap.utility
    if score.column is not None:
        known = utility[np.isfinite(utility)]
        if score.as_stored and known.size and known.min() >= 0 and known.max() <= 1 and utility[i] < LITTLE:
            left = few_digits(utility[i], 2)
            return f"almost nothing of its use is left: {score.name} is {left} on a scale from 0 to 1"
        return ""
    before, after = rumap.before[1][i], rumap.scientist_uncertainty[i]
    if np.isfinite(before) and before > 0 and after >= (1 - LITTLE) * before:
        return f"it tells the scientist almost nothing: {_share_in_words(after / before)} of the expected loss stays"
    return ""


def _ranking_values(rumap: RUMap, criterion: Criterion, errors: Errors) -> tuple[list[Tier], Array]:
    """What the criterion ranks by, with rounding made into ties, and its value for every release."""
    if isinstance(criterion, ExpectedLoss):
        value = expected_loss(rumap, criterion, errors)
        tiers: list[Tier] = [(-value, 0.0)]
        # Equal losses go to the safer release, then to the more useful one.
        for column in (-rumap.risk, rumap.utility):
            if not np.all(np.isnan(column)):
                tiers.append((np.nan_to_num(column, nan=-np.inf), 0.0))
    else:
        values = {n: rumap.column(n).value for n in criterion.needs}
        tiers, value = criterion.ranking_tiers(values), criterion.value(values)
    return [(snap_ties(t, 1e-12), slack) for t, slack in tiers], value


def _at_least(
    rumap: RUMap, allowed: NDArray[np.bool_], name: str, values: Array, least: float, what: str, do: str
) -> NDArray[np.bool_]:
    """What is allowed and has at least so much; the error names the nearest miss."""
    kept = allowed & (values >= least)
    if not kept.any():
        i = int(np.flatnonzero(allowed)[np.argmax(np.nan_to_num(values[allowed], nan=-np.inf))])
        miss = f"{rumap.releases[i]} as the nearest miss, with {name} {few_digits(values[i], 6)}"
        raise InfeasibleError(what, miss, do)
    return kept


def _converged_only(rumap: RUMap, allowed: NDArray[np.bool_], demanded: bool) -> tuple[NDArray[np.bool_], int]:
    demanded = check_flag("converged", demanded, "converged=True leaves out releases that did not converge")
    kept = allowed & rumap.converged if demanded else allowed.copy()
    if not kept.any():
        do = "Sample longer, or pass converged=False to see them"
        raise InfeasibleError("No release that is allowed has converged", f"{int(allowed.sum())} that did not", do)
    return kept, int(allowed.sum() - kept.sum())


def _nearest_miss(rumap: RUMap, threshold: float, confidence: float | None, chance: Array) -> InfeasibleError:
    missing = "NaN for all of them"
    if np.all(np.isnan(rumap.risk)):
        return InfeasibleError("No release has a risk", missing, "Look at the column risk")
    what = f"No release has risk at most {few_digits(threshold, 6)}"
    if confidence is not None and np.any(chance > 0):
        i = int(np.nanargmax(chance))
        miss = f"with probability {chance_in_words(chance[i])} (risk {few_digits(rumap.risk[i], 6)})"
        what += f" with probability {confidence:.12g}"
        do = "Lower confidence, use more replicates, or add masks that release less"
    elif confidence is not None and np.all(np.isnan(chance) | np.isnan(rumap.risk)):
        return InfeasibleError("No release has a known error of its risk", missing, "Use at least two replicates")
    else:
        i = int(np.nanargmin(rumap.risk))
        over = float(rumap.risk[i]) - threshold
        ratio = float(rumap.risk[i]) / threshold if threshold > 0 else np.inf
        share = f", {100 * (ratio - 1):.3g} %"
        if ratio > 2:
            share = f", {ratio:,.3g} times the threshold" if np.isfinite(ratio) else ""
        miss = f"with risk {few_digits(rumap.risk[i], 6)} ({few_digits(over, 3)} above{share})"
        do = "Raise max_risk, or add masks that release less, such as Suppress()"
        if "Suppress()" in (rumap.releases[i], "" if rumap.masks is None else str(rumap.masks[i])):
            do = "Raise max_risk: nothing releases less than Suppress(), so what the users know beforehand is too much"
    return InfeasibleError(what, f"{rumap.releases[i]} as the nearest miss, {miss}", do)
