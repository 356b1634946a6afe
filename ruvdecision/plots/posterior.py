"""What a user knows of the target before and after a release, mask by mask.

matplotlib is imported when something is drawn, and nothing here calls ``show()``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..checks import Data, Seed, as_generator, as_seed_sequence, check_flag, check_kind, check_number, is_number
from ..errors import InputError, RuvError
from ..evaluate import check_masks, posterior
from ..masks import Suppress
from ..masks.base import Mask
from ..posteriors import Drawn
from ..protocols import Array, Engine, Posterior
from ..running.replication import replicate_seeds
from ..users.user import User
from .theme import Style, as_literal_text, axes_on, hide_frame, look_of, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Releases: TypeAlias = "Mapping[str, Data] | Sequence[Data] | Data"
POINTS = 401
"""Points of a density."""
MOST_ROWS = 30
"""Masks whose posteriors can be read in one picture."""


def posteriors(
    user: User,
    masks: Sequence[Mask] | Mask,
    ax: Axes | None = None,
    *,
    data: Data | None = None,
    release: Releases | None = None,
    seed: Seed = None,
    prior: bool = True,
    truth: float | None = None,
    engine: Engine | str = "auto",
    style: str | None = None,
) -> Axes:
    """Draw a user's target before and after a release, one row per mask, and return the Axes.

    Every row is a posterior with the user's estimate (dot) and U; the dashed outline is the prior. All rows have the
    same area, so that a narrow one is a high one.

    Parameters
    ----------
    user : User
        Whose posterior. The target must be one number.
    masks : list of masks
        How the releases are made.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    data : DataFrame or array, optional
        The confidential records; every mask is applied to them with the same random numbers. Without data and releases
        the records are drawn from the user's belief.
    release : list of data or mapping from mask label to data, optional
        What was released under each mask, instead of ``data``.
    seed : int, SeedSequence or Generator, optional
        Root of the random numbers.
    prior : bool
        Draw the prior.
    truth : float, optional
        Draws a line at the target's true value. It is confidential: for teaching, not for release.
    engine : "auto", name or engine
        How posteriors are computed.
    style : "light" or "dark", optional
        The paper of a new figure.

    Examples
    --------
    >>> import ruvdecision as ruv
    >>> user = ruv.User(ruv.NormalBelief(records=10, variance=2, prior_variance=5), ruv.Record(0), ruv.Quadratic())
    >>> ax = posteriors(user, [ruv.Noise(variance=1), ruv.Noise(variance=9)], seed=1)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['Noise(variance=1)', 'Noise(variance=9)']
    """
    candidates = check_masks(masks)
    if len(candidates) > MOST_ROWS:
        what = f"At most {MOST_ROWS} posteriors can be read in one picture"
        raise InputError(what, len(candidates), "Choose some of the masks")
    check_kind("user", user, User, "Write ruv.User(belief, target, loss)")
    releases, records = _draw_releases(user, candidates, data, release, seed)
    laws = [posterior(user, mask, r, engine=engine) for mask, r in zip(candidates, releases, strict=True)]
    for law in laws:
        if law.event != () or law.batch != ():
            do = 'Choose one component: Parameter("mu", 0), or Functional(lambda x: x[0], of=Record(0))'
            got = f"{user.target.describe()} with shape {law.event}"
            raise InputError("A posterior of one number can be drawn", got, do)
    check_flag("prior", prior, "Say whether the law before the release is drawn")
    truth = None if truth is None else check_number("truth", truth)
    before = _prior_law(user, records, releases[0], engine) if prior else None
    shapes = [_shape_of_law(law) for law in laws]
    outline = None if before is None else _shape_of_law(before)
    ends = np.array([[s[0][0], s[0][-1]] for s in [*shapes, *([outline] if outline is not None else [])]])
    top = max((float(s[1].max()) for s in shapes if s[2] != "point"), default=1.0)
    with axes_on(style, ax, (7.6, 1.0 + 0.85 * len(laws))) as ax:
        look = look_of(ax)
        for row, (law, (x, y, kind)) in enumerate(zip(laws, shapes, strict=True)):
            base, colour = -float(row), look.colours[0]
            # The highest row just fits; a prior that is much flatter than its posterior is still seen, as heights are
            # not cut off.
            scale = 0.85 / top
            if outline is not None:
                _draw_outline(ax, outline, base, scale, look.soft, "prior" if row == 0 else None)
            if kind == "point":
                ax.plot([x[0], x[0]], [base, base + 0.85], color=colour, lw=2.4, solid_capstyle="butt", zorder=3)
            elif kind == "bars":
                ax.vlines(x, base, base + scale * y, color=colour, lw=5, zorder=3)
            else:
                ax.fill_between(x, base, base + scale * y, color=colour, alpha=0.35, lw=0, zorder=2)
                ax.plot(x, base + scale * y, color=colour, lw=1.6, zorder=3)
            _draw_estimate(ax, user, law, base)
        if truth is not None:
            dashes: Style = {"color": look.colours[1], "lw": 1.4, "ls": (0, (5, 3)), "zorder": 4}
            ax.axvline(truth, label="true value (confidential)", **dashes)
        span = float(ends.max() - ends.min()) or 1.0
        ax.set_xlim(ends.min() - 0.02 * span, ends.max() + 0.18 * span)
        ax.set_ylim(-len(laws) + 0.75, 1.0)
        ax.set_yticks([-i for i in range(len(laws))], [as_literal_text(str(m)) for m in candidates])
        ax.set_xlabel(as_literal_text(user.target.describe()))
        if outline is not None or truth is not None:
            ax.legend(loc="upper right", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")
        hide_frame(ax, look, "x", ("top", "right", "left"))
        ax.tick_params(axis="y", length=0)
    return ax


def _draw_releases(
    user: User, masks: Sequence[Mask], data: Data | None, release: Releases | None, seed: Seed
) -> tuple[list[Data], Data | None]:
    """What is released under each mask, and the records if they are known."""
    if release is not None:
        if data is not None:
            raise InputError("Give data or release", "both", "A release is already made from data")
        if isinstance(release, Mapping):
            missing = [str(m) for m in masks if str(m) not in release]
            if missing:
                raise InputError("Some masks have no release", missing, "Give one for each mask, by its label")
            return [release[str(m)] for m in masks], None
        if isinstance(release, (list, tuple)) and len(release) == len(masks):
            return list(release), None
        if len(masks) > 1:
            what = f"release must be {len(masks)} data sets, one per mask"
            raise InputError(what, type(release).__name__, "Give a list, or a mapping")
        return [release], None
    first, second = next(iter(replicate_seeds(as_seed_sequence(seed), 1)))[:2]
    records = user.belief.draw(as_generator(first)) if data is None else data
    # Every mask gets the same random numbers, so that posteriors differ by the masks alone.
    seen = [mask if user.knows is None else mask & user.knows for mask in masks]
    return [mask.release(records, as_generator(second)) for mask in seen], records


def _prior_law(user: User, records: Data | None, release: Any, engine: Engine | str) -> Posterior | None:
    """The law of the target when nothing is released; None where it has none, as under a flat prior."""
    nothing = Suppress()
    known = () if user.knows is None else tuple(release)[-user.knows.file_count :]
    blank = nothing.release(records if records is not None else known[0] if known else release, 0)
    for given in ([(blank, *known) if known else blank], []):
        with contextlib.suppress(RuvError):
            law = posterior(user, nothing, *given, engine=engine)
            if np.isfinite(np.asarray(law.var())).all():
                return law
    return None


def _shape_of_law(law: Posterior) -> tuple[Array, Array, str]:
    """Places, heights and kind ("bars", "curve" or "point") of a posterior of one number."""
    if float(law.var()) <= 0:
        return np.array([float(law.mean())] * 2), np.ones(2), "point"
    if law.support is not None:
        x = np.unique(np.asarray(law.support, dtype=float))
        return x, np.exp(np.asarray(law.log_density(x), dtype=float)), "bars"
    if isinstance(law, Drawn):
        import scipy.stats

        x, y = np.unique(law.draws, return_counts=True)
        if len(x) <= min(60, len(law.draws) // 10):
            return x.astype(float), y / len(law.draws), "bars"
        x = np.linspace(float(law.quantile(0.001)), float(law.quantile(0.999)), POINTS)
        smooth = scipy.stats.gaussian_kde(np.asarray(law.draws, dtype=float), weights=law.weights)
        return x, smooth(x), "curve"
    low, high = (float(law.quantile(q)) for q in (0.001, 0.999))
    x = np.linspace(low, high, POINTS)
    with np.errstate(over="ignore"):
        return x, np.exp(np.asarray(law.log_density(x), dtype=float)), "curve"


def _draw_outline(
    ax: Axes, shape: tuple[Array, Array, str], base: float, scale: float, colour: str, label: str | None
) -> None:
    x, y, kind = shape
    if kind == "bars":
        ax.plot(x, base + scale * y, color=colour, ls="none", marker="_", ms=11, mew=1.4, zorder=3.5, label=label)
    elif kind == "curve":
        ax.plot(x, base + scale * y, color=colour, lw=1.1, ls=(0, (4, 2)), zorder=2.5, label=label)


def _draw_estimate(ax: Axes, user: User, law: Posterior, base: float) -> None:
    """The user's estimate as a dot, where it is a number, and U at the right."""
    look = look_of(ax)
    u = float(user.loss.uncertainty(law, user.actions).value)
    act = np.asarray(user.loss.estimate(law, user.actions), dtype=object)
    if act.ndim == 0 and is_number(act.item()):
        points(ax, float(act.item()), base, "o", 6, look.ink, hollow=True, mew=1.4, zorder=5, clip_on=False)
    style: Style = {"textcoords": "offset points", "ha": "right", "fontsize": "small"}
    ax.annotate(f"U = {u:.3g}", (1.0, base), xycoords=("axes fraction", "data"), xytext=(-2, 6), **style)
