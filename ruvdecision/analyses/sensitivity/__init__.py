"""How a map and its choice move when a prior, a loss, a user or another setting does.

`sensitivity` runs a study again and again with one setting changed at a time (or with all combinations), and compares
each map with the one at the base settings. Anything that turns settings into a map can be varied: a study, a function,
or masks and users. A sampled map that is reweighted instead of sampled again is such a function, too: ``lambda
prior_power=1.0: ...``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ...checks import check_flag, check_number
from ...decide import Choice, choose
from ...decide.choice import check_rule
from ...decide.criteria import Rule, criterion_or_default
from ...errors import InfeasibleError, InputError
from ...maps.rumap import RUMap
from ...running.progress import Bar
from ...users.panel import Role
from .result import Sensitivity, Variation
from .varying import Varied, Vary, as_factors, as_study

__all__ = ["Sensitivity", "Variation", "sensitivity"]

MOST = 20_000
"""More combinations than this are a mistake."""


def sensitivity(
    study: object,
    vary: Vary,
    *,
    max_risk: float | None = None,
    intruder: Role | None = None,
    scientist: Role | None = None,
    together: bool = False,
    settings: Mapping[str, object] | None = None,
    rule: Rule | None = None,
    tolerance: float = 0.01,
    name: str | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Sensitivity:
    """Say how risk, utility, the frontier and the chosen release move when settings are varied.

    Parameters
    ----------
    study : callable, Study or list of masks
        A function of keyword settings that gives a map; a study that `load_study` loaded; or masks, to be evaluated for
        ``intruder`` and ``scientist`` or, with ``data`` and without users, measured (None where ``releases`` say all).
    vary : mapping from setting to its values
        ``{"prior_variance": [1, 5, 25], "loss": [ruv.Quadratic(), ruv.Absolute()]}``. A mapping of values names them:
        ``{"vague": 25, "sharp": 1}``. With masks a setting is a path into a user, ``"intruder.belief.prior_variance"``
        or ``"scientist.loss"`` (without the user's name, ``"belief.prior_variance"``, both users change), or an
        argument of `evaluate`. Where masks are measured a setting is one of a measure, ``"linkage.known"``, or an
        argument of `measure`. ``"max_risk"`` varies the threshold.
    max_risk : float, optional
        The threshold; without it (and without a rule) no release is chosen, and the frontier alone is compared. A
        loaded study brings its own.
    intruder, scientist : User or Snooper
        The two users, where masks are given.
    together : bool, default False
        True runs every combination of values; otherwise one setting at a time leaves its base value.
    settings : mapping, optional
        Base settings of a study that differ from its defaults.
    rule : mapping, optional
        Further arguments of `choose`: ``{"confidence": 0.95}``, ``{"by": ruv.decide.ExpectedLoss(f)}``.
    tolerance : float, default 0.01
        Keeping the choice may cost this share of the utility and still count as nearly stable.
    name : str, optional
        Which map, where a study gives several.
    progress : bool, optional
        Show a progress bar on standard error; by default on a terminal, and only for work that takes a while.
    **options
        Further arguments of `evaluate` (or `measure`) where masks are given, further settings otherwise.

    Returns
    -------
    Sensitivity
        With ``sentence``, ``to_dataframe()``, ``plot()`` (a tornado), ``describe()`` and the maps.

    Examples
    --------
    >>> import ruvdecision as ruv
    >>> from ruvdecision.analyses.sensitivity import sensitivity
    >>> belief = ruv.NormalBelief(records=10, variance=2, prior_variance=5)
    >>> result = sensitivity(
    ...     [ruv.Suppress(), *(ruv.Noise(variance=v) | ruv.Microaggregate(groups=1) for v in (1, 2.08, 4))],
    ...     vary={"intruder.belief.prior_variance": [4, 6], "scientist.loss": [ruv.Absolute()]},
    ...     intruder=ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
    ...     scientist=ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    ...     max_risk=0.5,
    ... )
    >>> result.stable, len(result.variations)
    (False, 3)
    """
    tolerance = check_number("tolerance", tolerance, low=0, high=1)
    together = check_flag("together", together, "together=True runs every combination")
    work = as_study(study, {"intruder": intruder, "scientist": scientist}, settings, options, name)
    max_risk = work.max_risk if max_risk is None else max_risk
    factors = as_factors(vary)
    threshold_varies = "max_risk" in factors and not work.has_setting("max_risk")
    if threshold_varies and max_risk is None:
        raise InputError("max_risk is varied", "no base value", "Give max_risk=, too")
    rule = _check_rule(rule, max_risk)
    plans = _settings_of_variations(factors, together)
    outside = {"max_risk"} if threshold_varies else set()
    for plan in plans:  # a misspelt setting should not cost the work
        work.check({k: factors[k].values[i] for k, i in plan.items() if k not in outside})
    found: list[Variation] = []
    with Bar(f"Running {len(plans):,} variations", progress) as bar:
        for plan in [{}, *plans]:
            changes = {k: factors[k].values[i] for k, i in plan.items()}
            limit: Any = changes.pop("max_risk", max_risk) if threshold_varies else max_risk
            labels = MappingProxyType({k: factors[k].labels[i] for k, i in plan.items()})
            rumap = work.run(changes)
            kept = _value_of_choice(rumap, found[0].choice, rule) if found else float("nan")
            found.append(Variation(labels, rumap, limit, *_choose_or_reason(rumap, limit, rule), kept))
            bar.update(len(found) / (len(plans) + 1))
    shown = {k: f.base_label(max_risk if k in outside else work.base(k)) for k, f in factors.items()}
    about = criterion_or_default(rule.get("by")).about
    labels_of = {k: f.labels for k, f in factors.items()}
    return Sensitivity(found[0], tuple(found[1:]), labels_of, shown, together, tolerance, about)


def _settings_of_variations(factors: Mapping[str, Varied], together: bool) -> list[dict[str, int]]:
    """Which value of which settings each variation takes."""
    if not together:
        return [{name: i} for name, f in factors.items() for i in range(len(f.values))]
    count = math.prod(len(f.values) for f in factors.values())
    if count > MOST:
        do = "Vary fewer values, or one setting at a time (together=False)"
        raise InputError("There are too many combinations", f"{count:,}", do)
    places = itertools.product(*(range(len(f.values)) for f in factors.values()))
    return [dict(zip(factors, place, strict=True)) for place in places]


def _check_rule(rule: Rule | None, max_risk: float | None) -> Rule:
    found = check_rule(rule)
    if found and max_risk is None and "by" not in found:
        raise InputError("A rule needs a threshold", "no max_risk", "Give max_risk=")
    return found


def _choose_or_reason(rumap: RUMap, max_risk: float | None, rule: Rule) -> tuple[Choice | None, str]:
    if max_risk is None and "by" not in rule:
        return None, ""
    try:
        return choose(rumap, max_risk, **rule), ""
    except InfeasibleError as error:
        return None, str(error)


def _value_of_choice(rumap: RUMap, choice: Choice | None, rule: Rule) -> float:
    """What the rule is about, at the release of a choice."""
    if choice is None or choice.release not in rumap.releases:
        return float("nan")
    own = {k: v for k, v in rule.items() if k in ("by", "columns", "errors")}
    kept, _ = _choose_or_reason(rumap.take([choice.release]), np.inf, own)
    return float("nan") if kept is None else kept.value
