"""The contract of engines: a problem goes in, a plan or a refusal comes out, and `pick` takes the first plan in a list.

An engine derives from `BaseEngine` and writes three methods: `prepare` looks whether it can and gives back what it
built on the way, or a `Refusal`; `run` solves the problem with that; `posterior` gives the law of the target after one
release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import InputError, UnsupportedError
from ..masks.base import Batch, Mask
from ..protocols import Posterior, Solution
from ..users.user import Snooper, User

Tell = Callable[..., None]


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
    why: Any = None

    @classmethod
    def of(cls, error: UnsupportedError, missing: Missing = Missing.MASK) -> Refusal:
        """The refusal that an error says."""
        return cls(error.what, error.do or "Use engine='auto', or another mask, target or loss", missing, error.got)

    def error(self) -> UnsupportedError:
        """The refusal as an error."""
        return UnsupportedError(self.what, self.why, self.do)

    def __str__(self) -> str:
        return str(self.error())


@dataclass(frozen=True, eq=False)
class Problem:
    """Users who share a belief, and the masks whose releases they wait for."""

    users: tuple[Any, ...]
    masks: Batch
    data: Any = None
    replicates: int | None = None
    seed: np.random.SeedSequence | None = None

    @classmethod
    def of(cls, user: User | Snooper, masks: Iterable[Mask], data: Any = None, **options: Any) -> Problem:
        """The problem of one user."""
        return cls((user,), Batch.of(masks), data, **options)

    @property
    def user(self) -> Any:
        """The first user, who is the only one for an engine that solves users one by one."""
        return self.users[0]

    def only(self, places: Sequence[int]) -> Problem:
        """The same for some of the masks."""
        if len(places) == len(self.masks):
            return self
        return replace(self, masks=Batch(self.masks[i] for i in places))


@dataclass(frozen=True, eq=False)
class Plan:
    """How an engine will solve a problem, with what it built to find out that it can."""

    engine: BaseEngine
    problem: Problem
    built: Any = field(default=None, repr=False)

    @property
    def pieces(self) -> list[list[int]]:
        """Positions of masks that are solved in one go; pieces do not depend on each other."""
        return self.engine.pieces(self.problem)

    def together(self, users: Sequence[Any]) -> Plan:
        """The same for users with the same belief, whom the engine solves together."""
        return replace(self, problem=replace(self.problem, users=tuple(users)))

    def run(
        self, piece: Sequence[int] | None = None, tell: Tell | None = None, interruptible: bool = False
    ) -> list[Solution]:
        """One solution per user for the masks of a piece; all masks if none is named.

        ``tell`` is told the share of the work that is done. With ``interruptible`` an engine that can gives back what
        is finished when Ctrl-C comes.
        """
        problem = self.problem if piece is None else self.problem.only(piece)
        return self.engine.run(problem, self.built, tell, interruptible)


class Evidence(NamedTuple):
    """A posterior with the log density of the release that it comes from, where that is known."""

    posterior: Posterior
    log: float = float("nan")
    dimension: float = float("nan")
    """Of the space on which it is a density."""


class BaseEngine:
    """What every engine offers."""

    name: ClassVar[str]
    special: ClassVar[bool] = False
    """Whether it is made for certain users or targets.

    Then it goes before the others, and gives way where they are not.
    """
    shares: ClassVar[bool] = False
    """Whether users with one belief are solved together, from the same draws or nodes.

    What it built must suit them all.
    """
    always_cut: ClassVar[bool] = False
    """Whether pieces are solved one by one wherever they are solved."""
    planned: ClassVar[bool] = False
    """Whether files are drawn from the belief where there are no data, for each of which a posterior is computed."""

    def prepare(self, problem: Problem) -> Any:
        """What the engine builds for a problem, or a `Refusal`; an `UnsupportedError` is one too."""
        raise NotImplementedError

    def run(
        self, problem: Problem, built: Any, tell: Tell | None = None, interruptible: bool = False
    ) -> list[Solution]:
        """One solution per user. The masks are those that ``built`` is for, or whole pieces of them."""
        raise NotImplementedError

    def posterior(self, user: Any, mask: Mask, release: Any = None) -> Posterior:
        """Posterior of the user's target after one release (before the data are known where it does not matter)."""
        raise NotImplementedError

    def posteriors(self, problem: Problem, mask: Mask, releases: Iterable[Any]) -> list[Evidence]:
        """Posteriors of the first user after releases of one mask, with their evidence where it is known."""
        return [Evidence(self.posterior(problem.user, mask, release)) for release in releases]

    def pieces(self, problem: Problem) -> list[list[int]]:
        """Positions of masks to be solved in one go. They depend on users, masks and engine alone."""
        return [[i] for i in range(len(problem.masks))]

    @classmethod
    def beside(cls, asked: BaseEngine | None, choice: Any) -> BaseEngine | None:
        """What is tried of this class where an engine is asked for, None standing for "auto"; None if nothing is."""
        return cls() if asked is None else asked if type(asked) is cls else None

    @property
    def inner(self) -> Any:
        """The choice for users whom a special engine is not made for."""
        return "auto"

    # -- written once ----------------------------------------------------------------------------------

    def plan(self, problem: Problem) -> Plan | Refusal:
        """A plan, or why there is none."""
        try:
            built = self.prepare(problem)
        except UnsupportedError as error:
            return Refusal.of(error)
        return built if isinstance(built, Refusal) else Plan(self, problem, built)

    def refuses(self, user: Any, masks: Iterable[Mask], data: Any = None) -> Refusal | None:
        """None if the engine can do it; otherwise why not and what can."""
        found = self.plan(Problem.of(user, masks, data))
        return found if isinstance(found, Refusal) else None

    def solve(
        self,
        user: Any,
        masks: Iterable[Mask],
        *,
        data: Any = None,
        replicates: int | None = None,
        seed: np.random.SeedSequence | None = None,
        tell: Tell | None = None,
    ) -> Solution:
        """Uncertainty of one user after each mask. ``tell`` is told the share of the work that is done."""
        found = self.plan(Problem.of(user, masks, data, replicates=replicates, seed=seed))
        if isinstance(found, Refusal):
            raise found.error()
        return found.run(tell=tell)[0]


def elsewhere(name: str, user: Any, *, row: bool = False) -> Refusal | None:
    """Why an engine for one target of a Bayesian user refuses this one: another engine is made for him.

    None if it is not.

    ``row`` says that the engine is the one for targets that ask for a row of the release.
    """
    do = "Use engine='auto'"
    if isinstance(user, Snooper):
        return Refusal(f"{name} needs a User; a Snooper has a rule and no posterior", do, Missing.USER)
    if user.target.asks_each:
        what = f"{name} needs a target that is one thing; {user.target.describe()} is many"
        return Refusal(what, do, Missing.USER)
    if user.target.asks_row and not row:
        what = f"{name} does not have the target Identity"
        return Refusal(what, f"{do}, or Record(j) with Shuffle()", Missing.USER)
    if not user.plain:
        what = f"{name} needs a user whose belief is the agency's and who knows the mask"
        return Refusal(what, do, Missing.USER)
    return None


# -- which engine ----------------------------------------------------------------------------------------

ORDER = (
    ("each_record", "EveryRecord"),
    ("wrong_belief", "WrongBelief"),
    ("identity.identity", "Identification"),
    ("rules.fixed_rule", "FixedRule"),
    ("normal.ranks", "Ranks"),
    ("finite.whole_file", "WholeFile"),
    ("normal.exact", "Exact"),
    ("finite.enumeration", "Enumeration"),
    ("pymc.quadrature", "Quadrature"),
    ("pymc.sampling", "Sampling"),
)
"""Modules and classes in the order of preference, imported when their turn comes. Special ones go first."""
NAMES = {"exact": ORDER[6], "enumeration": ORDER[7], "quadrature": ORDER[8], "sampling": ORDER[9]}


def pick(choice: Any, user: Any, masks: Iterable[Mask], data: Any = None) -> BaseEngine:
    """Return the engine for a user: the one asked for if it can, or with "auto" the first that can.

    The order is exact, enumeration, and for PyMC models quadrature before sampling. An engine that cannot says why and
    what can. A snooper has no posterior and always gets `FixedRule`, so that snoopers and Bayesian users mix in one
    map; "exact" then allows closed forms only. The target `Identity` has an engine of its own too, `Identification`,
    whatever the other user's is. So have `EachRecord`, and users whose belief is not the agency's or who do not know
    the mask; these use the one asked for inside.
    """
    return plan_for(choice, Problem.of(user, masks, data)).engine


def plan_for(choice: Any, problem: Problem) -> Plan:
    """The plan of the first engine that has one.

    Otherwise an error that says why each of those that come near has none.
    """
    refusals: list[Refusal] = []
    for engine in _candidates(choice):
        found = engine.plan(problem)
        if not isinstance(found, Refusal):
            return found
        refusals.append(found)
    near = [r for r in refusals if r.missing not in (Missing.USER, Missing.BELIEF)]
    near = near or [r for r in refusals if r.missing is Missing.BELIEF] or refusals[-1:]
    first, others = near[0], near[1:]
    do = f"{first.do.rstrip('.')}." if others else first.do
    raise replace(first, do=" ".join([do, *map(str, others)])).error()


def _candidates(choice: Any) -> Iterator[BaseEngine]:
    """The engines to ask, in their order."""
    asked = _asked(choice)
    if asked is not None and asked.special:
        # It goes where its class stands; users whom it is not made for get what they would have got without it.
        for engine in _candidates(asked.inner):
            yield asked if type(engine) is type(asked) else engine
        return
    met = False
    for place in ORDER:
        found = _class(place).beside(asked, choice)
        if found is not None:
            met = met or found is asked
            yield found
    if asked is not None and not met:
        yield asked


def _asked(choice: Any) -> BaseEngine | None:
    """The engine that is asked for, None for "auto"."""
    if isinstance(choice, type):
        raise InputError("engine must be an object", f"the class {choice.__name__}", f"Write {choice.__name__}()")
    if isinstance(choice, BaseEngine):
        return choice
    if not isinstance(choice, str):
        raise InputError("engine must be 'auto', a name or an engine", choice, "Use engine=ruv.Exact(), for example")
    if choice == "auto":
        return None
    if choice not in NAMES:
        names = ", ".join(map(repr, NAMES))
        raise InputError(f"engine must be 'auto', {names} or an engine", choice, "Leave it at 'auto'")
    return _class(NAMES[choice])()


def _class(place: tuple[str, str]) -> type[BaseEngine]:
    found: type[BaseEngine] = getattr(import_module(f"{__package__}.{place[0]}"), place[1])
    return found
