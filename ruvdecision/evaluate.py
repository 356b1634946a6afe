"""Risk and utility of candidate releases by model: `evaluate` makes a map, `posterior` shows what lies behind it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TypedDict

from .beliefs.base import BaseBelief
from .checks import Data, Seed, check_arguments, check_integer, check_kind
from .engines.base import Problem, plan_for
from .engines.solving import check_user, solve
from .errors import InputError, NotConvergedWarning, kind_of
from .maps.rumap import Provenance, RUMap
from .maps.scores import ScoreLike
from .masks.base import Batch, Mask, check_mask
from .protocols import Engine, Measure, Posterior
from .running.fingerprint import fingerprint_as_attrs
from .running.progress import Bar
from .running.run import root_seed, seed_attrs
from .users.panel import Role
from .users.user import Snooper, User, size_of


class Setting(TypedDict, total=False):
    """Arguments of `evaluate` that other analyses pass on: how masks are evaluated, besides the two users."""

    data: Data | None
    engine: Engine | str
    replicates: int | None
    seed: Seed
    risk: ScoreLike
    utility: ScoreLike
    measures: Sequence[Measure] | None
    executor: Executor | None
    checkpoint: str | os.PathLike[str] | None


def check_setting(options: Mapping[str, object], allowed: Collection[str] = Setting.__annotations__) -> None:
    """Refuse an argument that `evaluate` does not have, or that may not be given here."""
    check_arguments("evaluate", options, allowed)


def evaluate(
    masks: Sequence[Mask] | Mask,
    *,
    intruder: Role,
    scientist: Role,
    data: Data | None = None,
    engine: Engine | str = "auto",
    replicates: int | None = None,
    seed: Seed = None,
    risk: ScoreLike = "reciprocal",
    utility: ScoreLike = "reciprocal",
    measures: Sequence[Measure] | None = None,
    progress: bool | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> RUMap:
    """Map candidate releases: the intruder's and the scientist's uncertainty, and the risk and utility that follow.

    Parameters
    ----------
    masks : list of masks
        The candidate releases. Masks of one family (the same chain with other numbers) are evaluated together.
    intruder, scientist : User, Snooper or Panel
        The two users. A `Snooper` has a fixed rule instead of Bayes' rule, a `Panel` is several users. Risk is a
        decreasing function of the intruder's
        uncertainty, utility of the scientist's.
    data : DataFrame or array, optional
        The confidential records. Needed only where a user's uncertainty depends on what is released; without
        data it is then averaged over records drawn from the belief.
    engine : "auto", name or engine
        How posteriors are computed. The map says which was used.
    replicates : int, optional
        Releases to average over where the uncertainty depends on the release (100 if not given; 200 for a snooper). U
        is averaged first, then turned into risk or utility, so that the order of releases does not depend on which
        decreasing function is used.
    seed : int, SeedSequence or Generator, optional
        Root of all random numbers. Every mask gets the same ones.
    risk, utility : name or callable
        "reciprocal" (1/U), "relative_gain" (1 - U/U0), "gain" (U0 - U), "negative_log" (-log U), or any strictly
        decreasing function of U. U0 is the uncertainty before any release. The name of a measure puts that measure
        there.
    measures : list of measures, optional
        Empirical measures to compute in addition to the users' uncertainties, a column each; they need ``data``. Masks
        are applied to the data ``replicates`` times (once if not given) with the same random numbers as everywhere else
        on the map.
    progress : bool, optional
        Show a progress bar on standard error; by default on a terminal, and only for work that takes a while.
    executor : concurrent.futures.Executor, optional
        Who does the work: a process pool, or ``dask.distributed``'s ``Client.get_executor()``. The map is the same,
        whoever does it.
    checkpoint : str or Path, optional
        A directory that keeps every finished piece of work. A run that was stopped or killed goes on from there and
        ends with the same map to the last bit; a checkpoint of another study or of other data is refused.

    Ctrl-C ends the run: the releases that are finished are given back as a map that says so.

    Returns
    -------
    RUMap

    Examples
    --------
    >>> import ruvdecision as ruv
    >>> belief = ruv.NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    >>> rumap = ruv.evaluate(
    ...     [ruv.Noise(variance=2.08) | ruv.Microaggregate(groups=1)],
    ...     intruder=ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
    ...     scientist=ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    ... )
    >>> [round(float(x), 3) for x in (rumap.risk[0], rumap.utility[0])]
    [0.5, 2.651]
    """
    candidates = check_masks(masks)
    roles = [check_user("intruder", intruder), check_user("scientist", scientist)]
    if replicates is not None:
        replicates = check_integer("replicates", replicates, low=1)
    root = root_seed(seed, checkpoint)
    empirical = None
    if measures is not None:
        from .measures.comparison import Comparison

        empirical = Comparison(measures, data)
    share = 1.0 if empirical is None else 2 / 3
    with Bar(f"Evaluating {len(candidates):,} releases", progress) as bar:
        solved, done, kept = solve(
            roles,
            candidates,
            engine=engine,
            data=data,
            replicates=replicates,
            seed=root,
            executor=executor,
            checkpoint=checkpoint,
            on_progress=lambda part, *note: bar.update(share * part, *note),
        )
        notes: tuple[str, ...] = ()
        stopped = len(done) < len(candidates)
        if stopped:
            notes = (f"Stopped before the end: {len(done)} of {len(candidates)} releases were finished.",)
            candidates = Batch(candidates[i] for i in done)
        if empirical is not None and empirical.apply(
            candidates,
            replicates or 1,
            root,
            executor,
            on_progress=lambda part: bar.update(share + (1 - share) * part),
            checkpoint=None if checkpoint is None else Path(checkpoint) / "measures",
        ):
            stopped = True
            notes += ("Stopped before the end: some measures are missing.",)
    first, second = solved
    if data is None and any(s.planned for s in solved):
        notes += (
            "Planned before any data: the records were drawn from the belief, and the uncertainties averaged over such "
            "files.",
        )
    engines = list(first.engine)
    if engines != list(second.engine):
        engines = [a if a == b else f"{a} / {b}" for a, b in zip(first.engine, second.engine, strict=True)]
    columns = {**first.columns, **second.columns}
    if empirical is not None:
        columns |= empirical.columns()
        risk, utility = empirical.score_column("risk", risk), empirical.score_column("utility", utility)
        notes += (*empirical.notes, *empirical.notes_on_nan())
    draws = {user: {at: found[i] for at, i in enumerate(done) if i in found} for user, found in kept.items()}
    return RUMap.build(
        masks=candidates,
        intruder=first.value,
        scientist=second.value,
        before=(first.before, second.before),
        provenance=Provenance(engines[0] if len(set(engines)) == 1 else engines, notes, (intruder, scientist), draws),
        risk=risk,
        utility=utility,
        columns=columns,
        attrs={
            **seed_attrs(root),
            "replicates": "default" if replicates is None else replicates,
            "data": "given" if data is not None else "none",
            **({} if data is None else fingerprint_as_attrs(data)),
            **_file_facts(roles[0].leaves[0][1].belief),
            **_common_unit(data),
            **{role.name: role.describe() for role in roles},
            "find_rows": [r.name for r in roles if all(user.target.asks_row for _, user in r.leaves)],
            **{f"{role.name}_error_scale": list(s) for role in roles if (s := role.user.error_scale) is not None},
            **({"partial": "yes"} if stopped else {}),
            **({} if empirical is None else empirical.describe()),
        },
    )


def _file_facts(belief: BaseBelief | None) -> dict[str, object]:
    """Number of records and names of columns, for a mask in words."""
    if belief is None:
        return {}
    records = size_of(belief)
    found: dict[str, object] = {} if records is None else {"file_records": records}
    return found | ({"file_columns": [str(name) for name in belief.columns]} if belief.columns else {})


def _common_unit(data: object) -> dict[str, str]:
    """The unit of the data, where all columns carry the same one in ``data.attrs["units"]``."""
    units = getattr(data, "attrs", {}).get("units", {})
    found = {str(units.get(c, "")) for c in getattr(data, "columns", ())} if isinstance(units, dict) else {str(units)}
    return {"unit": found.pop()} if len(found) == 1 and found != {""} else {}


def posterior(user: User, mask: Mask, release: object = None, *, engine: Engine | str = "auto") -> Posterior:
    """Posterior of a user's target after one release.

    Parameters
    ----------
    user : User
        Whose posterior.
    mask : Mask
        How the release was made; a user knows the mask and its parameters.
    release : data, optional
        What was released, as ``mask.release(data, rng)`` gave it. Without it a Gaussian posterior is centred at the
        prior mean: its shape is right, its place is not known yet.

    Where the draws of a sampler did not converge a `NotConvergedWarning` says why, and so does ``posterior.trouble``.
    """
    check_kind("user", user, (User, Snooper), "Write ruv.User(belief, ruv.Record(0), ruv.Quadratic())")
    check_mask("mask", mask)
    problem = Problem.of(user, [mask], release=release)
    found = plan_for(engine, problem).posterior(problem.masks[0], problem.release)
    if found.trouble:
        warnings.warn(f"The draws of {mask} did not converge: {found.trouble}", NotConvergedWarning, stacklevel=2)
    return found


def check_masks(masks: Sequence[Mask] | Mask) -> Batch:
    """The candidates: at least one, all masks, none twice."""
    if isinstance(masks, Mask):
        masks = [masks]
    try:
        found = Batch.of(masks)
    except TypeError:
        do = "Write [ruv.Suppress(), ruv.Noise(variance=2)]"
        raise InputError("masks must be a list of masks", kind_of(masks), do) from None
    if not found:
        raise InputError("masks must not be empty", [], "Give at least one candidate release")
    for i, mask in enumerate(found):
        check_mask(f"masks[{i}]", mask)
    twins = found.duplicate()
    if twins is not None:
        do = "List each release once"
        raise InputError(f"masks {twins[0]} and {twins[1]} are the same release", str(found[twins[0]]), do)
    return found
