"""Posteriors after one release of an example file.

A map averages over releases; a posterior needs one. The page draws a file from the belief itself (so it is nobody's
record), masks it and shows what both users then believe. The same example number gives the same file and the same
random numbers for every mask, so that only the settings move the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..beliefs.normal import NormalBelief
from ..checks import as_generator
from ..engines.base import Problem, plan_for
from ..errors import RuvError
from ..maps.show import number
from ..masks.rows import Suppress
from ..numerics.semidefinite import symmetric_root
from ..posteriors import Drawn
from ..targets import BaseTarget, Files
from ..users.user import Snooper, User
from .lesson import BeliefPanel, Law

#: Components of a vector target that are drawn.
MOST_COMPONENTS = 4
#: Said where there is no prior to draw.
FLAT = "The prior is flat, so there is nothing to draw for the time before the release."


def panels_of(
    intruder: Any, scientist: Any, draw: Callable[[int], tuple[Any, Any]] | None = None
) -> Callable[[Any, int], list[BeliefPanel]]:
    """A function that gives both users' panels for a mask and an example number.

    Parameters
    ----------
    intruder, scientist : User or Snooper
        The users.
    draw : callable, optional
        ``draw(example)`` gives the parameters that the example comes from, or None, and its records. By default
        both come from the scientist's belief.
    """

    def panels(mask: Any, example: int) -> list[BeliefPanel]:
        made = draw(example) if draw is not None else draw_example(scientist.belief, example)
        return [
            panel_of("intruder", intruder, mask, made, example),
            panel_of("scientist", scientist, mask, made, example),
        ]

    return panels


def draw_example(belief: Any, example: int) -> tuple[Any, Any]:
    """The population mean of an example file, where the belief has one, and its records.

    >>> from ruvdecision.beliefs import NormalBelief
    >>> mu, records = draw_example(NormalBelief(records=4, variance=1, prior="flat"), 1)
    >>> mu.tolist(), records.shape
    ([0.0], (4,))
    """
    rng = as_generator(example)
    if not isinstance(belief, NormalBelief):
        return None, belief.draw(rng)
    # A flat prior cannot be drawn from: the example then comes from a population with the prior's mean.
    prior = belief.mu_covariance if belief.mu_covariance is not None else np.zeros_like(belief.record_covariance)
    mu = belief.mu_mean + symmetric_root(prior) @ rng.standard_normal(len(belief.mu_mean))
    records = mu + rng.standard_normal((belief.records, len(mu))) @ symmetric_root(belief.record_covariance).T
    if belief.columns is not None:
        return mu, pd.DataFrame(records, columns=list(belief.columns))
    return mu, records[:, 0] if belief.variance is not None else records


def panel_of(who: str, user: Any, mask: Any, made: tuple[Any, Any], example: int) -> BeliefPanel:
    """One user's panel; where there is no posterior to draw it says why."""
    if isinstance(user, Snooper):
        return BeliefPanel(
            who,
            user.target.describe(),
            words="A snooper with a fixed rule has no posterior: the rule's error is on the map.",
        )
    assert isinstance(user, User)
    title = user.target.describe()
    mu, records = made
    try:
        plan = plan_for("auto", Problem.of(user, [mask]))
        if plan.engine.planned:
            return BeliefPanel(
                who, title, words="This posterior is sampled, which takes too long to draw while you look."
            )
        # One seed whatever the mask: common random numbers; a release has none that the file was drawn with.
        release = mask.release(records, example)
        posterior = plan.posterior(mask, release)
        estimate = np.ravel(np.asarray(user.loss.estimate(posterior, user.actions), dtype=float))
        after = float(user.loss.uncertainty(posterior, user.actions).value)
    except RuvError as error:
        return BeliefPanel(who, title, words=f"No posterior can be drawn here: {error.what}.")
    except (TypeError, ValueError):
        return BeliefPanel(
            who, title, words="No posterior can be drawn here: the target or the loss has no single number to show."
        )
    try:
        prior = plan.posterior(Suppress())
    except RuvError:
        prior = None  # the picture does without it
    truth = true_value(user.target, mu, records)
    words = f"In this example the best estimate is {_list(estimate)}"
    words += "" if truth is None else f" and the truth {_list(np.ravel(truth))}"
    words += f"; the expected loss of that estimate is {number(after, 4)}."
    if prior is not None and not np.all(np.isfinite(prior.var())):
        words += f" {FLAT}"
    return BeliefPanel(who, title, laws_of(user.target, prior, posterior, estimate, truth), words)


def laws_of(target: Any, prior: Any, posterior: Any, estimate: Any, truth: Any) -> tuple[Law, ...]:
    """The laws of a target: one for a number, one per component for a vector."""
    if posterior.event == ():
        one = float(estimate[0]) if np.size(estimate) == 1 else None
        return (Law(target.describe(), posterior, prior, one, None if truth is None else float(np.ravel(truth)[0])),)
    size = min(posterior.event[0], MOST_COMPONENTS)
    fits = np.size(estimate) == posterior.event[0]
    return tuple(
        Law(
            f"variable {j + 1}",
            posterior,
            prior,
            float(estimate[j]) if fits else None,
            None if truth is None else float(truth[j]),
            j,
        )
        for j in range(size)
    )


def true_value(target: BaseTarget, mu: Any, records: Any) -> Any:
    """The target's value in the example, where it can be read off it; None otherwise."""
    values = np.asarray(records) if not hasattr(records, "to_numpy") else records.to_numpy()
    if values.dtype.kind not in "biuf":
        return None
    known = {} if mu is None else {"mu": np.asarray(mu, dtype=np.float64)[None]}
    try:
        return np.atleast_1d(target.in_files(Files(values[None], known))[0])
    except RuvError:
        return None


def known_by_draws(law: Any) -> bool:
    """True for a law that is known by its draws only, which a coarse histogram shows best."""
    return isinstance(law, Drawn)


def _list(values: Sequence[float] | Any) -> str:
    return ", ".join(number(float(v), 4) for v in np.ravel(values)[:MOST_COMPONENTS])
