"""Simulation-based calibration: whether a user's posterior is right on data that the user's own belief has made."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special

from ..beliefs.base import BaseBelief, DrawnFile
from ..checks import Seed, check_choice, check_index, check_integer, check_number
from ..engines.base import Problem, plan_for
from ..engines.pymc.sampling import Sampling
from ..errors import InputError, UnsupportedError
from ..losses import Quadratic, ZeroOne
from ..masks.base import Mask, check_mask
from ..numerics.uniform_ranks import rank_count_bands, uniformity_p_value
from ..protocols import Array, Engine, Ints
from ..running.progress import Bar
from ..running.replication import replicate_seeds
from ..running.run import Task, root_seed, run
from ..targets import BaseTarget, Files, Kind
from ..users.user import User

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLOCK = 5
"""Simulations in one piece of work."""
FEW_DRAWS, FEW_TUNE = 500, 300
"""A sampled posterior needs few draws here: one rank is taken from it."""


def calibrate(
    belief: BaseBelief,
    mask: Mask,
    target: BaseTarget,
    simulations: int = 200,
    *,
    draws: int = 99,
    knows: Mask | None = None,
    engine: Engine | str = "auto",
    alpha: float = 0.01,
    seed: Seed = None,
    progress: bool | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Calibration:
    """Check a user's posterior on data drawn from the user's own belief (simulation-based calibration).

    Parameters and records are drawn from the belief, the mask releases the records, and the posterior of the target is
    computed from the release. If model, mask likelihood and engine fit together, the rank of the true target among
    independent draws from the posterior is uniform. Talts et al. (2018); ties of discrete targets are broken at random.

    Parameters
    ----------
    belief : Belief
        What is checked. Its prior must be proper; a `PyMCBelief` needs ``size=``.
    mask : Mask
        How the records are released.
    target : Target
        What the posterior is of. Each component of a vector is ranked apart.
    simulations : int, default 200
        Data sets to draw. More find smaller faults.
    draws : int, default 99
        Draws from each posterior among which the truth is ranked.
    knows : Mask, optional
        What the user has already seen of the same records, as in `User`.
    engine : "auto", name or engine
        How posteriors are computed. Where "auto" (or "sampling") samples, it takes few draws, 2 chains of 500.
    alpha : float, default 0.01
        Chance that a right model is called wrong.
    seed : int, SeedSequence or Generator, optional
        Root of all random numbers.
    progress : bool, optional
        Show a progress bar; by default on a terminal.
    executor : concurrent.futures.Executor, optional
        Who does the work; the ranks are the same. Every worker process compiles a PyMC model once.
    checkpoint : str or Path, optional
        A directory that keeps finished simulations.

    A belief of one's own whose target is a parameter or a new record defines ``draw_with_parameters(rng)``, which gives
    back the records and a dictionary of the parameters. Ctrl-C ends the run: what is finished is judged.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> from ruvdecision.beliefs import NormalBelief
    >>> from ruvdecision.masks import Noise
    >>> from ruvdecision.targets import Parameter
    >>> belief = NormalBelief(records=5, variance=2, prior_variance=5)
    >>> calibrate(belief, Noise(variance=1.0), Parameter("mu"), simulations=50, seed=1).passed
    True
    """
    simulations = check_integer("simulations", simulations, low=10)
    draws = check_integer("draws", draws, low=9)
    alpha = check_number("alpha", alpha, low=0, high=1, open_low=True, open_high=True)
    check_mask("mask", mask)
    if knows is not None:
        mask = mask & check_mask("knows", knows)
    # The loss does not matter to the posterior, but labels have no distances.
    user = User(belief, target, Quadratic())
    if belief.labels_of(target):
        user = replace(user, loss=ZeroOne())
    if target.asks_row or target.asks_each:
        do = "Calibrate Record(j), Parameter(name) or a Functional"
        raise UnsupportedError(f"{target.describe()} has no rank to look at", do=do)
    problem = Problem.of(user, [mask])
    user, chosen = problem.user, plan_for(engine, problem).engine
    if isinstance(chosen, Sampling):
        if isinstance(engine, str):
            chosen = replace(chosen, draws=FEW_DRAWS, tune=FEW_TUNE, chains=2)
        if chosen.draws * chosen.chains < draws:
            do = "Raise its draws=, or rank among fewer"
            raise InputError(f"The engine must draw at least draws={draws}", chosen, do)
    root = root_seed(seed, checkpoint)
    shared = (user, mask, chosen, draws, simulations, root)
    blocks = [(i, min(i + BLOCK, simulations)) for i in range(0, simulations, BLOCK)]
    tasks = [Task(f"{i}", simulate, (i, stop), partial(_are_ranks, stop - i, draws)) for i, stop in blocks]
    about = {"belief": belief.describe(), "mask": str(mask), "target": target.describe(), "engine": chosen.name}
    prints: dict[str, object] = {"user": user.describe(), "mask": repr(mask), "engine": repr(chosen), "draws": draws}
    prints["seed"] = (root.entropy, tuple(root.spawn_key))
    with Bar(f"Calibrating on {simulations:,} simulations", progress) as bar:
        kept = partial(run, checkpoint=checkpoint, fingerprint=lambda: prints)
        outcome = kept(tasks, shared=shared, executor=executor, on_progress=bar.update)
    finished = [r for r in outcome.results if r is not None]
    if not finished:
        raise KeyboardInterrupt
    if len({tuple((name, np.shape(r[name])[1:]) for name in sorted(r)) for r in finished}) > 1:
        what = f"Files of the checkpoint {checkpoint} do not fit each other"
        raise InputError(what, "ranks of other columns", "Name another directory")
    columns = {name: np.concatenate([np.asarray(r[name]) for r in finished]) for name in finished[0]}
    ranks = columns.pop("ranks").astype(np.int64)
    return Calibration(ranks, draws, alpha, about, columns, wanted=simulations)


# -- the result --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Ranks of the truth among posterior draws, and what they say. Made by `calibrate`.

    The verdict looks at the distribution function of the ranks at every rank at once: its deepest excursion into the
    tails of the binomial laws that it has if all is right, with the exact probability of one so deep (Säilynoja,
    Bürkner and Vehtari, 2022). Of several components the worst counts, by Bonferroni.

    Examples
    --------
    >>> even = Calibration(np.arange(100)[:, None], draws=99)
    >>> even.passed, round(float(even.p_value), 3)
    (True, 1.0)
    """

    ranks: Ints
    """Rank of the truth, from 0 to ``draws``: ``(simulations, components)``."""
    draws: int
    alpha: float = 0.01
    about: Mapping[str, str] = field(default_factory=dict)
    """Belief, mask, target and engine in words."""
    columns: Mapping[str, Array] = field(default_factory=dict)
    """Diagnostics of sampled posteriors, one entry per simulation: R-hat, effective sample size, divergences."""
    wanted: int | None = None
    """Simulations that were asked for."""

    @property
    def simulations(self) -> int:
        """Simulations that were finished."""
        return len(self.ranks)

    @property
    def components(self) -> int:
        """Numbers that the target is made of."""
        return self.ranks.shape[1]

    @cached_property
    def p_values(self) -> Array:
        """Probability of ranks that look so uneven if all is right, for each component."""
        return np.array(
            [uniformity_p_value(tuple(np.bincount(r, minlength=self.draws + 1).tolist())) for r in self.ranks.T]
        )

    @property
    def p_value(self) -> float:
        """That probability for all components together."""
        return float(min(1.0, self.components * self.p_values.min()))

    @property
    def passed(self) -> bool:
        """True if the ranks are as even as they should be."""
        return self.p_value >= self.alpha

    @property
    def unreliable_count(self) -> int:
        """Simulations whose sampler gave fewer effective draws than were ranked, or did not mix (R-hat above 1.05)."""
        if "ess" not in self.columns:
            return 0
        return int(np.sum((self.columns["ess"] < self.draws) | ~(self.columns["rhat"] <= 1.05)))

    @property
    def verdict(self) -> str:
        """What the ranks say, in words."""
        if self.passed:
            words = (
                f"Calibrated, as far as {self.simulations} simulations can tell (p = {_format_p_value(self.p_value)})."
            )
        else:
            worst = int(np.argmin(self.p_values))
            which = "" if self.components == 1 else f", component {worst}"
            whose = f"the posterior of {self.about.get('target', 'the target')}{which}"
            how = _describe_unevenness(self.ranks[:, worst], self.draws)
            words = f"Not calibrated (p = {_format_p_value(self.p_value)}): {whose} {how}. "
            words += "The model, the mask's likelihood or the sampler is wrong."
        if self.unreliable_count:
            words += f" In {self.unreliable_count} simulations the sampler had trouble: draw more, "
            words += "so that this is not what the ranks show."
        if self.wanted is not None and self.simulations < self.wanted:
            words += f" Stopped before the end: {self.simulations} of {self.wanted} simulations were finished."
        return words

    def histogram(self, component: int = 0, bins: int | None = None) -> pd.DataFrame:
        """How many ranks fall into each bin, and the band that holds all bins with probability 1 - alpha or more.

        ``bins`` must divide the number of ranks, ``draws + 1``; by default about one for every ten simulations, 20 at
        most.
        """
        place = check_index("component", component, self.components)
        total = self.draws + 1
        fitting = [b for b in range(2, total + 1) if total % b == 0]
        if bins is None:
            bins = max([b for b in fitting if b <= min(20, max(4, self.simulations // 10))], default=fitting[0])
        elif check_integer("bins", bins, low=2) not in fitting:
            do = f"Choose one of {', '.join(map(str, fitting[:12]))}"
            raise InputError(f"bins must divide the {total} ranks", bins, do)
        counts = np.bincount(self.ranks[:, place] // (total // bins), minlength=bins)
        tail = self.alpha / (2 * bins * self.components)
        chance = special.bdtr(np.arange(self.simulations + 1), self.simulations, 1 / bins)
        low, high = int(np.argmax(chance > tail)), int(np.argmax(chance >= 1 - tail))
        first = np.arange(bins) * (total // bins)
        return pd.DataFrame({"from": first, "to": first + total // bins - 1, "count": counts, "low": low, "high": high})

    def ecdf(self, component: int = 0) -> pd.DataFrame:
        """The ranks' distribution function, with bands that hold all of it with probability 1 - alpha or more.

        Shares of simulations with a rank below ``rank``; ``expected`` is the share if all is right.
        """
        place = check_index("component", component, self.components)
        at, size = np.arange(1, self.draws + 1), self.simulations
        count = np.searchsorted(np.sort(self.ranks[:, place]), at, side="left")
        low, high = rank_count_bands(size, self.draws, self.alpha / self.components)
        shares = {"share": count / size, "expected": at / (self.draws + 1), "low": low / size, "high": high / size}
        return pd.DataFrame({"rank": at, **shares})

    def to_dataframe(self) -> pd.DataFrame:
        """One row per simulation and component: rank, and diagnostics where the posterior was sampled."""
        n, m = self.ranks.shape
        at = {"simulation": np.repeat(np.arange(n), m), "component": np.tile(np.arange(m), n)}
        columns = {name: np.repeat(np.asarray(values), m) for name, values in self.columns.items()}
        return pd.DataFrame({**at, "rank": self.ranks.ravel(), **columns})

    def plot(
        self, ax: Axes | None = None, *, kind: str = "histogram", component: int | None = None, bins: int | None = None
    ) -> Axes:
        """Draw the ranks with their band: a histogram, or with ``kind="ecdf"`` the error of their cumulative shares.

        ``component`` is the worst one if not given.
        """
        import matplotlib.pyplot as plt

        check_choice("kind", kind, ["histogram", "ecdf"])
        place = int(np.argmin(self.p_values)) if component is None else component
        if ax is None:
            _, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        band = f"{1 - self.alpha:.0%} band"
        if kind == "histogram":
            table = self.histogram(place, bins)
            low, high, width = (float(table[name][0]) for name in ("low", "high", "to"))
            ax.axhspan(low, high, color="0.88", label=f"{band} of all bins")
            ax.axhline(self.simulations / len(table), color="0.5", linewidth=0.8)
            left, look = table["from"] - 0.5, {"color": "tab:blue", "edgecolor": "white", "alpha": 0.8}
            ax.bar(left, table["count"], width + 1, align="edge", **look)  # type: ignore[arg-type]
            ax.set(ylabel="simulations", xlim=(-0.5, self.draws + 0.5))
        else:
            table = self.ecdf(place)
            share, below, above = (table[name] - table["expected"] for name in ("share", "low", "high"))
            ax.fill_between(table["rank"], below, above, color="0.88", label=band)
            ax.axhline(0, color="0.5", linewidth=0.8)
            ax.step(table["rank"], share, where="post", color="tab:blue")
            ax.set(ylabel="share of ranks below, less expected", xlim=(0, self.draws + 1))
        which = "" if self.components == 1 else f" (component {place})"
        what = f"{self.about.get('target', 'target')}{which} after {self.about.get('mask', 'release')}"
        verdict = "calibrated" if self.passed else "not calibrated"
        ax.set(xlabel=f"rank of the truth among {self.draws} posterior draws", title=verdict)
        ax.set_title(what.replace("$", r"\$"), fontsize=9, loc="left")
        ax.set_title(f"{verdict}, p = {_format_p_value(self.p_value)}", fontsize=9, loc="right")
        ax.legend(loc="upper center", frameon=False, fontsize=8)
        return ax

    def __repr__(self) -> str:
        about = f"{self.about['target']} after {self.about['mask']}, {self.about['engine']}: " if self.about else ""
        return f"Calibration({about}{self.verdict})"


# -- one simulation ----------------------------------------------------------------------------------------


def simulate(shared: Any, start: int, stop: int) -> dict[str, Any]:
    """Ranks of some simulations, on any machine. They depend on the seed and their number alone."""
    user, mask, engine, draws, total, root = shared
    found: dict[str, list[object]] = {"ranks": []}
    for r, (for_data, for_mask, for_draws) in enumerate(replicate_seeds(root, total)):
        if not start <= r < stop:
            continue
        made = user.belief.draw_file(np.random.default_rng(for_data), user.target.asks(Kind.NEW))
        truth = np.atleast_1d(_true_target(user.target, made))
        release = mask.release(made.table, for_mask)
        for_sampler, for_ranks = for_draws.spawn(2)
        rng = np.random.default_rng(for_ranks)
        # A sampler must not have the same luck in every simulation: its errors would add up.
        posterior, diagnostics = engine.drawn_posterior(user, mask, release, for_sampler)
        for name, value in diagnostics.items():
            found.setdefault(name, []).append(value)
        found["ranks"].append(_rank_among_draws(truth, posterior.thinned_sample(draws, rng).reshape(draws, -1), rng))
    return {name: np.asarray(values) for name, values in found.items()}


def _are_ranks(count: int, draws: int, found: Mapping[str, Array]) -> bool:
    """Whether a stored result has the shape of so many simulations' ranks among so many draws."""
    ranks = found["ranks"]
    return (
        (ranks.ndim, ranks.dtype.kind) == (2, "i")
        and 0 <= ranks.min() <= ranks.max() <= draws
        and all(len(column) == count and column.dtype.kind in "bif" for column in found.values())
    )


def _rank_among_draws(truth: Array, values: Array, rng: np.random.Generator) -> Ints:
    # Numbers that differ by rounding alone are ties: a record that is released as it is has one value only.
    room = 1e-11 * np.maximum(np.abs(truth), np.abs(values).max(axis=0))
    below, equal = np.sum(values < truth - room, axis=0), np.sum(np.abs(values - truth) <= room, axis=0)
    return np.asarray(below + rng.integers(0, equal + 1), dtype=np.int64)


def _true_target(target: BaseTarget, made: DrawnFile) -> Array:
    """The target in a data set that was drawn, a number or a vector."""
    known = {name: np.asarray(value, dtype=np.float64)[None] for name, value in made.parameters.items()}
    new = None if made.new is None else np.asarray(made.new, dtype=np.float64)[None]
    do = "Give the belief a method draw_with_parameters(rng) -> (records, {name: value}), or calibrate a Record"
    return target.in_files(Files(made.records[None], known, new, do))[0]


# -- how even ranks are ------------------------------------------------------------------------------------


def _describe_unevenness(ranks: Ints, draws: int) -> str:
    """In which way ranks are not even."""
    u, size = (ranks + 0.5) / (draws + 1) - 0.5, len(ranks)
    shift, excess = u.mean() * np.sqrt(12 * size), (np.mean(u**2) - 1 / 12) * np.sqrt(180 * size)
    if abs(shift) <= abs(excess):
        if excess > 0:
            return "is too narrow: the truth is in its tails, or outside, too often"
        return "is too wide: the truth is in its middle too often"
    low, above = ("low", "above") if shift > 0 else ("high", "below")
    return f"lies too {low}: the truth is {above} it too often"


def _format_p_value(value: float) -> str:
    return "below 0.0001" if value < 1e-4 else f"{value:.2g}"
