"""Sensitivity of sampled maps to their priors, by importance weights instead of sampling again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...beliefs.pymc import PyMCBelief
from ...checks import Data, check_kind, check_list, check_number
from ...engines import Sampling
from ...engines.pymc.sampling import STRONGEST
from ...engines.solving import check_user
from ...errors import InputError
from ...evaluate import Setting, check_masks, check_setting, evaluate
from ...maps.rumap import RUMap
from ...masks.base import Mask
from ...users.panel import Role
from .result import Sensitivity


def power_scaling(
    masks: Sequence[Mask] | Mask,
    *,
    intruder: Role,
    scientist: Role,
    data: Data | None = None,
    powers: Sequence[float] = (0.8, 1.25),
    max_risk: float | None = None,
    engine: Sampling | None = None,
    **options: Any,
) -> Sensitivity:
    """How a sampled map moves when prior or likelihood count for less or more.

    The prior (and, apart, the likelihood) is raised to a power: below one it is weaker, above one stronger. The
    posterior that follows comes from the same draws by Pareto-smoothed weights, so that nothing is sampled twice. A
    choice that moves with the prior's power, and not only with the likelihood's, rests on the prior (Kallioinen et al.,
    2024).

    Parameters
    ----------
    masks, intruder, scientist, data
        As for `evaluate`; the beliefs are `PyMCBelief`. A snooper has no prior, and does not move.
    powers : list of float
        Powers other than one, larger than zero and at most 1,000.
    max_risk : float, optional
        The threshold of the choice.
    engine : Sampling, optional
        Its settings.
    options
        More arguments of `evaluate`, such as ``seed``.

    Returns
    -------
    Sensitivity
        With the factors ``prior_power`` and ``likelihood_power``.
    """
    from . import sensitivity

    do = "Draws are reweighted: give engine=ruv.Sampling(...), or use ruv.sensitivity"
    base = check_kind("engine", Sampling() if engine is None else engine, Sampling, do)
    do = "Write powers=(0.8, 1.25)"
    found = [check_number("powers", p, low=0, high=STRONGEST, open_low=True) for p in check_list("powers", powers, do)]
    levels = sorted(set(found) - {1.0})
    if not levels:
        raise InputError("powers must hold a number other than 1", found, do)
    roles = check_user("intruder", intruder), check_user("scientist", scientist)
    users = [user for role in roles for _, user in role.leaves]
    beliefs = [user if user.has_rule else user.belief for user in users]  # a snooper stands for himself
    if not any(isinstance(belief, PyMCBelief) for belief in beliefs):
        what = "power_scaling needs a user with a PyMCBelief, whose draws it reweights"
        kinds = ", ".join(dict.fromkeys(type(belief).__name__ for belief in beliefs))
        raise InputError(what, kinds, "Use ruv.sensitivity")
    check_setting(options, [n for n in Setting.__annotations__ if n not in ("data", "engine")])
    candidates = check_masks(masks)  # every run needs them, and some lists can be gone through once only

    def run(prior_power: float = 1.0, likelihood_power: float = 1.0) -> RUMap:
        scaled = replace(base, prior_power=prior_power, likelihood_power=likelihood_power)
        return evaluate(candidates, intruder=intruder, scientist=scientist, data=data, engine=scaled, **options)

    vary = {"prior_power": levels, "likelihood_power": levels}
    return sensitivity(run, vary, max_risk=max_risk, name="power scaling")
