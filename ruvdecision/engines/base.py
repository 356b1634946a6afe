"""The contract of engines: a problem goes in, a plan or a refusal comes out, and `pick` takes the first plan in a list.

An engine derives from `BaseEngine` and writes three methods: `prepare` looks whether it can and gives back what it
built on the way, or a `Refusal`; `run` solves the problem with that; `posterior` gives the law of the target after one
release. Problems that no engine knows, of users who want every record, who already know something, whose belief is not
the agency's or who do not know the mask, are rewritten into problems that engines know, whichever engine is asked
(`plan_of_rewrite`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import wraps
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ..checks import refuse_class
from ..errors import InputError, UnsupportedError
from ..masks.base import Batch, Mask
from ..protocols import Array, Belief, Ints, Posterior, Root, Solution, Value
from ..running.replication import REPLICATES
from ..users.user import Snooper, User
from .names import resolve_names

Progress = Callable[..., None]
"""Called with the share of the work that is done, and perhaps a note."""
Piece = Sequence[int] | None
"""Positions of masks, None for all."""


def no_progress(share: float, *note: str) -> None:
    """Progress that nobody watches."""


def progress_of_part(progress: Progress, done: float, total: float, size: float = 1.0) -> Progress:
    """Progress of a part of this size, where so much of the total is done before it."""
    return lambda share, *note: progress((done + size * share) / total, *note)


class Missing(Enum):
    """What would have to be another for an engine to take a problem."""

    USER = "user"
    """Another engine is made for such users or targets."""
    BELIEF = "belief"
    MASK = "mask"
    TARGET = "target"
    LOSS = "loss"
    DATA = "data"


@dataclass(frozen=True)
class Refusal:
    """Why an engine does not take a problem: what is wrong, the detail, what can be done, and what is missing."""

    what: str
    do: str
    missing: Missing = Missing.MASK
    why: object = None

    @classmethod
    def of(cls, error: UnsupportedError, missing: Missing = Missing.MASK) -> Refusal:
        """The refusal that an error says."""
        return cls(error.what, error.do or "Use engine='auto', or another mask, target or loss", missing, error.got)

    def error(self) -> UnsupportedError:
        """The refusal as an error."""
        return UnsupportedError(self.what, self.why, self.do)

    @property
    def refusal(self) -> Refusal:
        """Itself; a plan has none."""
        return self

    def granted(self) -> Plan:
        """Raises; a plan gives itself."""
        raise self.error()

    def __str__(self) -> str:
        return str(self.error())


def needs_release(mask: Mask) -> InputError:
    """The error where a posterior is asked for without the release that it depends on."""
    what = f"The posterior after {mask} depends on what is released"
    return InputError(what, None, "Pass release=mask.release(data, rng)")


class Question(Enum):
    """What a user asks of an engine. Each has engines of its own."""

    POSTERIOR = "posterior"
    """What to think of a target after a release."""
    ROW = "row"
    """Which row of a release is whose."""
    RULE = "rule"
    """What a fixed rule costs."""


def question_of(user: User | Snooper) -> Question:
    """What a user asks."""
    if user.has_rule:
        return Question.RULE
    return Question.ROW if user.target.asks_row else Question.POSTERIOR


@dataclass(frozen=True, eq=False)
class Problem:
    """Users who share a belief, and the masks whose releases they wait for."""

    users: tuple[Any, ...]
    masks: Batch
    data: object = None
    replicates: int | None = None
    seed: Root = None
    release: object = None
    """The release whose posterior is asked for; like data, it tells how many records there are."""
    cache: dict[tuple[object, int], Any] = field(default_factory=dict, repr=False)
    """What engines built of these masks and data, by engine and belief; users with one belief share it."""
    progress: Progress = field(default=no_progress, repr=False)
    interruptible: bool = False
    """Whether an engine that can gives back what is finished when Ctrl-C comes."""
    after_only: bool = False
    """Whether nobody asks for the uncertainty before any release: it is known already."""

    @classmethod
    def of(cls, user: User | Snooper, masks: Iterable[Mask], data: object = None, **options: Any) -> Problem:
        """The problem of one user; what is named in it is found, see `ruvdecision.engines.names`."""
        return cls((), Batch.of(masks), data, **options).of_user(user)

    @property
    def user(self) -> Any:
        """The first user, who is the only one for an engine that solves users one by one."""
        return self.users[0]

    @property
    def count(self) -> int:
        """How many releases are drawn where a number depends on them."""
        return REPLICATES if self.replicates is None else self.replicates

    def of_user(self, user: User | Snooper) -> Problem:
        """The same for another user."""
        return resolve_names(replace(self, users=(user,)))

    def for_masks(self, places: Sequence[int]) -> Problem:
        """The same for some of the masks."""
        if len(places) == len(self.masks):
            return self
        return replace(self, masks=Batch(self.masks[i] for i in places), cache={})

    def build_once(self, engine: object, belief: Belief | Batch, build: Callable[[], Any]) -> Any:
        """What an engine builds for a belief, or anybody of the masks, built once."""
        key = (engine, id(belief))
        if key not in self.cache:
            self.cache[key] = build()
        return self.cache[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "cache": {}, "progress": no_progress}


class Evidence(NamedTuple):
    """A posterior with the log density of the release that it comes from, where that is known."""

    posterior: Posterior
    density: Callable[[], tuple[float, float]] = lambda: (float("nan"), float("nan"))
    """Log density, and the dimension of the space on which it is one; computed when asked for."""


class MaskMixture(Protocol):
    """Posteriors over what a mask may have been."""

    @property
    def masks(self) -> tuple[Mask, ...]: ...

    def posterior(self, release: object, rng: np.random.Generator) -> Posterior: ...


class DecisionCosts(NamedTuple):
    """What a user's estimates cost after each mask."""

    cost: Value
    """By the agency's belief."""
    believed: Array
    """By the user's own."""
    before: float | None
    """By the agency's belief before any release, None if not known."""
    engine: list[str]
    remaining: Sequence[int] = ()
    """Positions of masks for which there is no closed form."""
    averaged: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """How an engine will solve a problem, with what it built to find out that it can."""

    engine: BaseEngine
    """Who computes posteriors."""
    problem: Problem
    built: Any = field(default=None, repr=False)

    @property
    def refusal(self) -> Refusal | None:
        """None; a refusal gives itself."""
        return None

    def granted(self) -> Plan:
        """Itself; a refusal is raised."""
        return self

    @property
    def choice(self) -> object:
        """What to ask for to get the same for other masks, data or seeds."""
        return self.engine

    @property
    def pieces(self) -> list[list[int]]:
        """Positions of masks that are solved in one go; pieces do not depend on each other."""
        return self.engine.pieces(self.problem)

    @property
    def scheduling_engine(self) -> BaseEngine:
        """The engine that says whether users share its work, pieces are always cut, and files are drawn."""
        return self.engine

    @property
    def group(self) -> Hashable:
        """Plans of one group may be solved together, if they share."""
        return id(self.problem.user.belief), type(self.engine)

    def with_other_seed(self, replicates: int | None, seed: Root) -> Plan:
        """The same with other random numbers."""
        return replace(self, problem=replace(self.problem, replicates=replicates, seed=seed))

    def solved_together(self, users: Sequence[User]) -> Plan:
        """The same for users with the same belief, whom the engine solves together."""
        return replace(self, problem=replace(self.problem, users=tuple(users)))

    def run(
        self, piece: Piece = None, on_progress: Progress = no_progress, interruptible: bool = False
    ) -> list[Solution]:
        """One solution per user for the masks of a piece; all masks if none is named."""
        problem = self.problem if piece is None else self.problem.for_masks(piece)
        return self.solve(replace(problem, progress=on_progress, interruptible=interruptible))

    def solve(self, problem: Problem) -> list[Solution]:
        """One solution per user for the plan's own problem, or that with some of its masks."""
        return self.engine.run(problem, self.built)

    def every_row(self, problem: Problem, rows: Ints) -> Solution | None:
        """The record of every row at once, for the plan of one of them; None if there is no quick way."""
        return self.engine.every_row(problem, self.built, rows)

    def row_kinds(self, problem: Problem, rows: Ints) -> Ints:
        """A label per row: the records of rows with one label have the same uncertainty."""
        return self.engine.row_kinds(problem, self.built, rows)

    def posterior(self, mask: Mask, release: object = None) -> Posterior:
        """Posterior of the first user's target after one release."""
        return self.engine.posterior(self.problem.user, mask, release)

    def posteriors(self, mask: Mask, releases: Iterable[object]) -> Iterator[Evidence]:
        """Posteriors of the first user after releases of one mask."""
        return self.engine.posteriors(self.problem, mask, releases)


@dataclass(frozen=True, eq=False)
class Rewrite(Plan):
    """The plan of a problem that is rewritten into others."""

    asked: object = "auto"
    """Which engine was asked for; the problems inside ask for it too."""

    @property
    def choice(self) -> object:
        return self.asked

    @property
    def pieces(self) -> list[list[int]]:
        return [[i] for i in range(len(self.problem.masks))]

    def every_row(self, problem: Problem, rows: Ints) -> Solution | None:
        return None

    @property
    def scheduling_engine(self) -> BaseEngine:
        return BaseEngine()


class BaseEngine:
    """What every engine offers."""

    name: ClassVar[str]
    answers: ClassVar[Question] = Question.POSTERIOR
    """Whom it is made for."""
    beliefs: ClassVar[tuple[type, ...]] = ()
    """Kinds of beliefs that it takes; any if none is named."""
    stands_in: ClassVar[bool] = False
    """Whether it is asked where another engine is meant, whose refusal of a belief is the one to show."""
    companions: ClassVar[tuple[Place, ...]] = ()
    """Engines that are asked after it where it is asked for."""
    shares: ClassVar[bool] = False
    """Whether users with one belief are solved together, from the same draws or nodes.

    What it built must suit them all.
    """
    always_cut: ClassVar[bool] = False
    """Whether pieces are solved one by one wherever they are solved."""
    normal: ClassVar[bool] = False
    """Whether beliefs and releases are normal."""
    draws_files: ClassVar[bool] = False
    """Whether files are drawn from the belief where there are no data, for each of which a posterior is computed."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Every engine's `posterior` takes users who already know something, or do not know the mask."""
        super().__init_subclass__(**options)
        if "posterior" in cls.__dict__:
            cls.posterior = _of_any_user(cls.posterior)  # type: ignore[method-assign]

    def prepare(self, problem: Problem) -> Any:
        """What the engine builds for a problem, or a `Refusal`; an `UnsupportedError` is one too."""
        raise NotImplementedError

    def run(self, problem: Problem, built: Any) -> list[Solution]:
        """One solution per user. The masks are those that ``built`` is for, or whole pieces of them."""
        raise NotImplementedError

    def posterior(self, user: Any, mask: Mask, release: object = None) -> Posterior:
        """Posterior of the user's target after one release (before the data are known where it does not matter)."""
        raise NotImplementedError

    def drawn_posterior(
        self, user: Any, mask: Mask, release: object, seed: np.random.SeedSequence
    ) -> tuple[Posterior, Mapping[str, float]]:
        """The posterior with random numbers of its own, where it needs some, and what tells how well it was drawn."""
        return self.posterior(user, mask, release), {}

    def posteriors(self, problem: Problem, mask: Mask, releases: Iterable[object]) -> Iterator[Evidence]:
        """Posteriors of the first user after releases of one mask, with their evidence where it is known."""
        return (Evidence(self.posterior(problem.user, mask, release)) for release in releases)

    def every_row(self, problem: Problem, built: Any, rows: Ints) -> Solution | None:
        """Uncertainty of the record of every row ``(masks, rows)`` under masks of one family, where that is quick.

        The user of ``problem`` is after any record, ``built`` is for the first of ``rows``.
        """
        return None

    def row_kinds(self, problem: Problem, built: Any, rows: Ints, located: bool = False) -> Ints:
        """Labels of rows ``(rows, labels)``: records whose rows have the same ones have the same uncertainty.

        ``located`` says that it matters where posteriors lie, whatever the user's loss.
        """
        return rows[:, None]

    def unknown_mask(self, problem: Problem, mask: Mask) -> MaskMixture:
        """Posteriors of somebody who does not know the mask's numbers."""
        belief = type(problem.user.belief).__name__
        what = f"A mask that is not known needs a NormalBelief or a FiniteBelief; this user has a {belief}"
        raise UnsupportedError(what, do="Use knows_mask=True, or list the candidate masks in a map of their own")

    def wrong_belief(self, own: Plan, agency: Plan) -> Callable[[Problem], DecisionCosts] | None:
        """What a user's estimates cost by the agency's belief, in closed form, where this engine serves both.

        None if there is none.
        """
        return None

    def pieces(self, problem: Problem) -> list[list[int]]:
        """Positions of masks to be solved in one go. They depend on users, masks and engine alone."""
        return [[i] for i in range(len(problem.masks))]

    @classmethod
    def where(cls, asked: BaseEngine | None) -> BaseEngine:
        """The engine of this class where ``asked`` is asked for."""
        return asked if type(asked) is cls else cls()  # type: ignore[return-value]

    # -- written once ----------------------------------------------------------------------------------

    def plan(self, problem: Problem) -> Plan | Refusal:
        """A plan, or why there is none."""
        found = plan_of_rewrite(self, problem)
        if found is None:
            return self._own_plan(problem)
        if isinstance(found, Plan) and found.engine is not self:
            what = f"{type(self).__name__} is not made for this user; {type(found.engine).__name__} is"
            return Refusal(what, "Use engine='auto'", Missing.USER)
        return found

    def _own_plan(self, problem: Problem) -> Plan | Refusal:
        asked = question_of(problem.user)
        if asked is not self.answers:
            return Refusal(f"{type(self).__name__} {UNFIT[asked]}", "Use engine='auto'", Missing.USER)
        several = next((m for m in problem.masks if m.separate_releases), None) if asked in ONE_RELEASE else None
        if several is not None:
            return Refusal(f"{several} makes several releases, and {ONE_RELEASE[asked]}", "Ask for each by itself")
        refusal = next((r for user in problem.users if (r := self._refuses_belief(user.belief)) is not None), None)
        if refusal is not None:
            return refusal
        try:
            built = self.prepare(problem)
        except UnsupportedError as error:
            return Refusal.of(error)
        return built if isinstance(built, Refusal) else Plan(self, problem, built)

    def _refuses_belief(self, belief: object) -> Refusal | None:
        if not self.beliefs or isinstance(belief, self.beliefs):
            return None
        needed = " or ".join(f"a {kind.__name__}" for kind in self.beliefs)
        what = f"{type(self).__name__} needs {needed}; this user has a {type(belief).__name__}"
        return Refusal(what, "Use engine='auto'", Missing.USER if self.stands_in else Missing.BELIEF)

    def refuses(self, user: Any, masks: Iterable[Mask], data: object = None) -> Refusal | None:
        """None if the engine can do it; otherwise why not and what can."""
        return self.plan(Problem.of(user, masks, data)).refusal

    def solve(
        self,
        user: Any,
        masks: Iterable[Mask],
        *,
        data: object = None,
        replicates: int | None = None,
        seed: Root = None,
        on_progress: Progress = no_progress,
    ) -> Solution:
        """Uncertainty of one user after each mask. ``on_progress`` gets the share that is done."""
        plan = self.plan(Problem.of(user, masks, data, replicates=replicates, seed=seed)).granted()
        return plan.run(on_progress=on_progress)[0]


def _of_any_user(law: Callable[..., Posterior]) -> Callable[..., Posterior]:
    """An engine's posterior for users whom it knows, as one for those whose problem is rewritten too."""

    @wraps(law)
    def posterior(self: BaseEngine, user: Any, mask: Mask, release: object = None) -> Posterior:
        if user.knows is None and user.is_rightly_informed:
            refusal = self._refuses_belief(user.belief)
            if refusal is not None:
                raise refusal.error()
            return law(self, user, mask, release)
        return self.plan(Problem.of(user, [mask], release=release)).granted().posterior(mask, release)

    return posterior


# -- which engine ----------------------------------------------------------------------------------------

Place = tuple[str, str]
"""Module and class of an engine, which is imported when its turn comes."""
EXACT, RANKS = ("normal.exact", "Exact"), ("normal.ranks", "Ranks")
ENUMERATION, WHOLE_FILE = ("finite.enumeration", "Enumeration"), ("finite.whole_file", "WholeFile")
QUADRATURE, SAMPLING = ("pymc.quadrature", "Quadrature"), ("pymc.sampling", "Sampling")
ORDER: Mapping[Question, tuple[Place, ...]] = {
    Question.POSTERIOR: (EXACT, RANKS, WHOLE_FILE, ENUMERATION, QUADRATURE, SAMPLING),
    Question.ROW: (("identity.identity", "Identification"),),
    Question.RULE: (("rules.fixed_rule", "FixedRule"),),
}
"""Engines in the order of preference."""
NAMES = {"exact": EXACT, "enumeration": ENUMERATION, "quadrature": QUADRATURE, "sampling": SAMPLING}
ONE_RELEASE = {Question.ROW: "which row is whose is asked of one", Question.RULE: "a snooper's rule looks at one"}
UNFIT = {
    Question.POSTERIOR: "does not give the posterior of a target",
    Question.ROW: "does not have the target Identity",
    Question.RULE: "needs a User; a Snooper has a rule and no posterior",
}


def pick(choice: object, user: Any, masks: Iterable[Mask], data: object = None) -> BaseEngine:
    """Return the engine for a user: the one asked for if it can, or with "auto" the first that can.

    The order is exact, enumeration, and for PyMC models quadrature before sampling. An engine that cannot says why and
    what can. A snooper has no posterior and always gets `FixedRule`, so that snoopers and Bayesian users mix in one
    map; "exact" then allows closed forms only. The target `Identity` has an engine of its own too, `Identification`,
    whatever the other user's is. The problem of a user who wants every record, or who is wrong, is rewritten; the
    engine is then the one that computes the posteriors by which U is judged.
    """
    return plan_for(choice, Problem.of(user, masks, data)).engine


def plan_for(choice: object, problem: Problem) -> Plan:
    """The plan of the first engine that has one.

    Otherwise an error that says why each of those that come near has none.
    """
    asked = _engine_asked_for(choice)
    found = plan_of_rewrite("auto" if asked is None else asked, problem)
    if found is not None:
        return found.granted()
    refusals: list[Refusal] = []
    for engine in _engines_to_ask(asked, question_of(problem.user)):
        found = engine._own_plan(problem)
        if found.refusal is None:
            return found.granted()
        refusals.append(found.refusal)
    near = [r for r in refusals if r.missing not in (Missing.USER, Missing.BELIEF)]
    near = near or [r for r in refusals if r.missing is Missing.BELIEF] or refusals[-1:]
    first, others = near[0], near[1:]
    do = f"{first.do.rstrip('.')}." if others else first.do
    raise replace(first, do=" ".join([do, *map(str, others)])).error()


def plan_of_rewrite(choice: object, problem: Problem) -> Plan | Refusal | None:
    """The plan of a problem that is rewritten into others; None if it need not be."""
    user = problem.user
    if user.target.asks_each:
        place = ("every_record", "EveryRecord")
    elif user.knows is not None:
        place = ("already_knows", "AlreadyKnows")
    elif not user.is_rightly_informed:
        place = ("wrong_belief", "WrongBelief")
    else:
        return None
    try:
        return _load_engine_class(place).of(choice, problem)  # type: ignore[no-any-return, attr-defined]
    except UnsupportedError as error:
        return Refusal.of(error)


def _engines_to_ask(asked: BaseEngine | None, question: Question) -> Iterator[BaseEngine]:
    """The engines to ask, in their order."""
    if asked is not None and asked.answers is question:
        yield asked
        places = asked.companions
    else:
        places = ORDER[question]
    for place in places:
        yield _load_engine_class(place).where(asked)


def _engine_asked_for(choice: object) -> BaseEngine | None:
    """The engine that is asked for, None for "auto"."""
    refuse_class("engine", choice)
    if isinstance(choice, BaseEngine):
        return choice
    if not isinstance(choice, str):
        raise InputError("engine must be 'auto', a name or an engine", choice, "Use engine=ruv.Exact(), for example")
    if choice == "auto":
        return None
    if choice not in NAMES:
        names = ", ".join(map(repr, NAMES))
        raise InputError(f"engine must be 'auto', {names} or an engine", choice, "Leave it at 'auto'")
    return _load_engine_class(NAMES[choice])()


def _load_engine_class(place: Place) -> type[BaseEngine]:
    found: type[BaseEngine] = getattr(import_module(f"{__package__}.{place[0]}"), place[1])
    return found
