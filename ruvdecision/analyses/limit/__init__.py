"""How good can any mask be? The best utility that any release mechanism can reach under each bound on risk.

`limit` looks at all mechanisms at once, not at a list of masks: every law of what is released given the file. The
result bounds every map of the same users from outside, and shows what a chosen mask leaves on the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...beliefs.normal import NormalBelief
from ...checks import as_float_array, check_choice, check_integer, check_kind
from ...engines.base import Problem
from ...errors import InputError, UnsupportedError
from ...losses.base import as_bayes_loss
from ...maps.scores import Score, ScoreLike, as_score_of_uncertainty
from ...masks.base import Mask
from ...protocols import Array
from ...running.progress import Bar
from ...users.user import User
from .files import FileProgramme, common_kind, file_programme
from .informed import normal_users
from .normal import NormalTwoUsers
from .programme import BestMechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...maps.rumap import RUMap

__all__ = ["Limit", "limit"]

POINTS = 25
"""Risk bounds when none are given."""


@dataclass(frozen=True, eq=False, repr=False)
class Limit:
    """The best utility under each risk bound, and a mechanism that reaches it; made by `limit`.

    Arrays have one entry per risk bound. Where a bound is below the risk of releasing nothing, no mechanism meets it:
    the uncertainties are missing and the mechanism is None.
    """

    max_risk: Array
    least: Array
    """The intruder's uncertainty that the bound asks for."""
    scientist_uncertainty: Array
    """No mechanism that meets the bound leaves the scientist less."""
    reached: tuple[Array, Array]
    """What the mechanism found leaves the intruder and the scientist."""
    before: tuple[float, float]
    after: tuple[float, float]
    """Both uncertainties when the file itself (or the whole statistic) is released."""
    risk_score: Score
    utility_score: Score
    mechanisms: tuple[Mask | None, ...]
    matrices: tuple[Array | None, ...]
    method: str
    statistic: str
    certain: bool
    """Whether it is proved that no mechanism does better (up to `gap`)."""
    users: tuple[User, User]
    states: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def utility(self) -> Array:
        """The limit: no mechanism whose risk is within the bound has more utility."""
        return np.asarray(self.utility_score(self.scientist_uncertainty, self.before[1]))

    @property
    def reached_risk(self) -> Array:
        """Risk of the mechanism found; at most the bound."""
        return np.asarray(self.risk_score(self.reached[0], self.before[0]))

    @property
    def reached_utility(self) -> Array:
        """Utility of the mechanism found; at most the limit."""
        return np.asarray(self.utility_score(self.reached[1], self.before[1]))

    @property
    def gap(self) -> Array:
        """How far the scientist's uncertainty after the mechanism is above the limit."""
        return np.asarray(np.maximum(self.reached[1] - self.scientist_uncertainty, 0.0))

    def mechanism(self, max_risk: float) -> Mask:
        """The best mask for one of the risk bounds."""
        near = np.flatnonzero(np.isclose(self.max_risk, max_risk, rtol=1e-9, atol=0.0))
        if not near.size:
            raise InputError("max_risk must be one of the bounds", max_risk, f"Ask ruv.limit for max_risk={max_risk}")
        mask = self.mechanisms[int(near[0])]
        if mask is None:
            met = not np.isnan(self.reached[0][near[0]])
            why = "This mechanism has no mask" if met else "No mechanism meets this bound"
            raise UnsupportedError(why, f"max_risk={max_risk}", "See notes and matrices")
        return mask

    def __len__(self) -> int:
        return len(self.max_risk)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per risk bound."""
        return pd.DataFrame(
            {
                "max_risk": self.max_risk,
                "utility": self.utility,
                "reached_risk": self.reached_risk,
                "reached_utility": self.reached_utility,
                "least_intruder_uncertainty": self.least,
                "scientist_uncertainty": self.scientist_uncertainty,
                "gap": self.gap,
                "mechanism": ["" if m is None else str(m) for m in self.mechanisms],
            }
        )

    def check_map(self, rumap: RUMap) -> None:
        """Refuse a map whose risk and utility are other functions of U."""
        if rumap.risk_score != self.risk_score or rumap.utility_score != self.utility_score:
            got = " and ".join(f"{m.risk_score.name}, {m.utility_score.name}" for m in (rumap, self))
            do = "Give ruv.limit the risk= and utility= of the map"
            raise InputError("The map and the limit must measure risk and utility alike", got, do)

    def shortfall(self, rumap: RUMap) -> pd.DataFrame:
        """What each release of a map leaves on the table: the limit at its own risk, and its share of that.

        The limit is computed anew at the map's risks, for the same users and the same ``statistic``.
        """
        self.check_map(rumap)
        # Releases of one risk share a bound; those without one have no limit.
        risks, place = np.unique(rumap.risk, return_inverse=True)
        known = ~np.isnan(risks)
        best = np.full(len(risks), np.nan)
        if known.any():
            risk, utility = self.risk_score, self.utility_score
            again = partial(limit, *self.users, risks[known], risk=risk, utility=utility)
            best[known] = again(statistic=self.statistic, states=self.states).utility
        best = best[place.reshape(-1)]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(best == rumap.utility, 1.0, rumap.utility / best)
        return pd.DataFrame(
            {"release": rumap.releases, "risk": rumap.risk, "utility": rumap.utility, "limit": best, "share": share}
        )

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw the limit and return the Axes; see `plots.limit`."""
        from ... import plots

        return plots.limit(self, ax, **style)

    def __repr__(self) -> str:
        met = ~np.isnan(self.scientist_uncertainty)
        span = "no bound can be met"
        if met.any():
            utility, risk = _range_in_words(self.utility[met]), _range_in_words(self.max_risk[met])
            span = f"utility at most {utility} for risk at most {risk}"
        proof = "" if self.certain else "; not proved to be the best"
        return f"Limit({len(self)} bound{'s' * (len(self) != 1)}: {span}; {self.method}{proof})"


def _range_in_words(values: Array) -> str:
    low, high = f"{values.min():.4g}", f"{values.max():.4g}"
    return low if low == high else f"{low} to {high}"


def limit(
    intruder: User,
    scientist: User,
    max_risk: ArrayLike | None = None,
    *,
    risk: ScoreLike = "reciprocal",
    utility: ScoreLike = "reciprocal",
    statistic: str = "records",
    states: int | None = None,
    progress: bool | None = None,
) -> Limit:
    """The best utility that any release mechanism at all can reach under each bound on risk.

    Finite beliefs and tables: a linear programme over all row-stochastic matrices from files to outputs. Normal beliefs
    with squared errors: closed form, and optimal among all mechanisms, not only linear ones. Other losses under a
    normal belief with targets that are numbers: the pair of targets is cut into cells first, and the notes say how
    finely. U is averaged over releases before it becomes risk or utility, as in a map without data.

    Parameters
    ----------
    intruder, scientist : User
        The two users, who decide by Bayes' rule. Their beliefs are about the same file; finite ones may differ in their
        chances. What a user already knows (``knows=``) comes with every release: under a finite belief, or a table, as
        named rows or cells; under a normal one the scientist knows nothing or what the intruder knows.
    max_risk : number or array, optional
        Bounds on risk; 25 between the risk of releasing nothing and that of releasing everything if not given.
    risk, utility : name or callable
        Decreasing functions of U, as in `evaluate`.
    statistic : {"records", "average"}
        What the mechanism may look at: the whole file, row by row, or only the average of the records. A mechanism for
        the whole file may treat the intruder's target apart from the others, which no agency could do for all at once.
    states : int, optional
        Most kinds of files in the programme (1500), or the number of cells for a normal belief (400).
    progress : bool, optional
        Show a progress bar on standard error; by default on a terminal.

    Returns
    -------
    Limit

    Notes
    -----
    Outputs are labelled by the scientist's best estimate, which loses nothing. Where her estimates form a continuum
    they are cut into cells with costs that bound hers from below, refined where they are used; ``gap`` says what is
    left between bound and mechanism, and ``certain`` whether the bound is proved. The search at each risk bound, and at
    all of them together, ends after a number of steps at the latest, and ``notes`` says where it did: few bounds, or
    one, come closer than many.

    Examples
    --------
    >>> from ruvdecision.beliefs import FiniteBelief
    >>> from ruvdecision.losses import ZeroOne
    >>> from ruvdecision.targets import Functional, Record
    >>> belief = FiniteBelief([0, 1, 2, 3])
    >>> intruder = User(belief, Record(0), ZeroOne())
    >>> scientist = User(belief, Functional(lambda x: x // 2, of=Record(0)), ZeroOne())
    >>> best = limit(intruder, scientist, max_risk=[2.0, 1.5], utility="relative_gain")
    >>> best.utility.round(6).tolist()  # telling the upper from the lower half: the intruder still errs half the time
    [1.0, 0.333333]
    """
    check_choice("statistic", statistic, ["records", "average"])
    if states is not None:
        states = check_integer("states", states, low=2)
    do = 'Use risk="reciprocal", for example'
    scores = [as_score_of_uncertainty(s, "The limit is about uncertainties", do) for s in (risk, utility)]
    solver = _choose_solver(intruder, scientist, statistic, states)
    before, after = solver.before, solver.after
    for score, role, first, last in zip(scores, ("risk", "utility"), before, after, strict=True):
        score.check(np.array([last, first]), np.array([first, first]), role)
    bounds = _intruder_bounds(max_risk, scores[0], before[0], after[0])
    least = np.array([scores[0].inverse(float(b), before[0]) for b in bounds])
    found: list[BestMechanism | None] = [None] * len(bounds)
    room = 1e-12 * max(abs(before[0]), 1e-300)
    with Bar(f"The limit at {len(bounds)} risk bounds", progress) as bar:
        met = [int(i) for i in np.argsort(least) if least[i] <= before[0] + room]
        wanted = [min(max(float(least[i]), after[0]), before[0]) for i in met]
        for i, best in zip(met, solver.solve_all(wanted, bar.update), strict=True):
            found[i] = best
    notes = list(solver.notes)
    unmet = found.count(None)
    if unmet:
        nothing = f"{float(scores[0](before[0], before[0])):.6g}"
        notes.append(f"{unmet} of the bounds are below the risk of releasing nothing ({nothing})")
    numbers = np.array(
        [(np.nan,) * 3 if best is None else (best.bound, best.intruder, best.scientist) for best in found]
    ).T
    masks = tuple(None if best is None else best.mask for best in found)
    matrices = tuple(None if best is None else best.matrix for best in found)
    return Limit(
        bounds, least, numbers[0], (numbers[1], numbers[2]), before, after, scores[0], scores[1], masks,
        matrices, solver.method, statistic, solver.certain, (intruder, scientist), states, tuple(notes),
    )  # fmt: skip


def _choose_solver(
    intruder: User, scientist: User, statistic: str, states: int | None
) -> NormalTwoUsers | FileProgramme:
    users = {"intruder": intruder, "scientist": scientist}
    for name, user in users.items():
        check_kind(name, user, User, f"Write {name}=ruv.User(belief, ruv.Record(0), ruv.Quadratic())")
        if not user.is_rightly_informed:
            what = f"The limit needs a user who knows the mechanism and believes what is true; {name} does not"
            raise UnsupportedError(what, do="Leave out truth= and knows_mask=")
        if user.target.asks_row:
            what = "The limit is about values, and Identity asks for a row of the release"
            raise UnsupportedError(what, do="Ask for Record(j)")
    intruder, scientist = (Problem.of(user, ()).user for user in users.values())  # names are found
    beliefs = [user.belief for user in users.values()]
    kind, names = common_kind(*beliefs), list(dict.fromkeys(type(belief).__name__ for belief in beliefs))
    if kind is None and len(names) > 1:
        do = "Give both a NormalBelief, both a FiniteBelief or both a TableBelief"
        raise UnsupportedError("Both users must hold the same kind of belief", " and ".join(names), do)
    if kind is None:
        do = "Write the study with a FiniteBelief of the values that matter, or with a NormalBelief"
        raise UnsupportedError(f"The limit is not available for a {names[0]}", do=do)
    if kind is NormalBelief:
        if not _beliefs_equal(*beliefs):
            what = "Under normal beliefs both users must hold the same one"
            raise UnsupportedError(what, do="Give both the same belief")
        if all(as_bayes_loss(user.loss).second_order and user.actions is None for user in users.values()):
            return normal_users(intruder, scientist, statistic)
    return file_programme(intruder, scientist, statistic, states)


def _beliefs_equal(first: NormalBelief, second: NormalBelief) -> bool:
    both = [(b.record_covariance, b.mu_mean, b.mu_covariance) for b in (first, second)]
    return first.records == second.records and all(
        a is b or (a is not None and b is not None and a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=0.0))
        for a, b in zip(*both, strict=True)
    )


def _intruder_bounds(max_risk: ArrayLike | None, score: Score, before: float, after: float) -> Array:
    if max_risk is None:
        least = np.linspace(before, after, POINTS + 1)
        if not np.isfinite(score(after, before)):
            least = least[:-1]
        return np.unique(np.asarray(score(least, before)))
    bounds = np.atleast_1d(as_float_array("max_risk", max_risk))
    if bounds.ndim != 1 or bounds.size == 0 or np.isnan(bounds).any():
        what = "max_risk must be a number or a list of numbers"
        raise InputError(what, f"shape {bounds.shape}", "Write max_risk=[0.2, 0.5]")
    return bounds
