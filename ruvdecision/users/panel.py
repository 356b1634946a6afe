"""Several users in the place of one: the worst of many intruders, the average of many scientists, a class of users."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ..checks import as_float_array, check_choice, check_finite, check_list, check_shares, suggest
from ..errors import InputError, kind_of
from ..masks.base import show_number
from ..protocols import Array, Value
from ..targets import Kind
from .rules import Row
from .user import Snooper, User

ROLES = ("intruder", "scientist")
NEAR = 4.0
"""Members within this many standard errors of the worst may be the worst."""
UNITS = {
    "Quadratic": "squared units",
    "Huber": "squared units",
    "Absolute": "units",
    "Pinball": "units",
    "CRPS": "units",
    "IntervalScore": "units",
    "ZeroOne": "a probability",
    "LogScore": "nats",
    "KullbackLeibler": "nats",
}
"""What the losses are measured in; any other loss is its own unit."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Panel:
    """Several users that stand where one user stands.

    A map keeps the curve of every member and makes one of them. For intruders the default is the worst case for the
    agency: the least U of any member, since risk falls with U (Duncan et al. 2001: protect against the worst of many
    snoopers). For scientists it is the weighted mean of U. Where ``combine="worst"`` is asked for scientists, the worst
    is the largest U: the one whom the release serves least.

    Parameters
    ----------
    members : list of User, Snooper or Panel
        The users.
    weights : array, optional
        Weights of the mean, equal if not given; they are divided by their sum.
    combine : "worst", "mean" or callable, optional
        How one U is made of the members'. A callable gets an array ``(members, releases)`` and gives back one U per
        release; it should not fall when a member's U grows. Without it: the mean where weights are given, otherwise the
        worst for intruders and the mean for scientists.
    name : str, optional
        A name for tables and plots.
    unit : "before" or array, optional
        What each member's U is divided by first. ``"before"`` is the member's own U before any release, so that U
        becomes the share that is still unknown; an array holds one number per member. Losses in different units (a
        squared error beside a probability) cannot be compared and are refused without it.
    names : list of str, optional
        Names of the members; otherwise their own names, or what tells them apart.

    The standard error of the mean is the weighted sum of the members' errors: they share random numbers, so they are
    taken as fully dependent, which is never too small. That of the worst case is the largest among members within four
    standard errors of the worst. The least of several noisy U is a little too small on average, which overstates risk.

    Examples
    --------
    >>> from ruvdecision.beliefs import NormalBelief
    >>> from ruvdecision.targets import Record
    >>> user = User(NormalBelief(records=5, variance=1, prior_variance=1), Record(0), lambda e, t: (e - t) ** 2)
    >>> Panel.vary(user, prior_variance=[1, 10]).names
    ('prior_variance=1', 'prior_variance=10')
    """

    members: tuple[Any, ...]
    weights: tuple[float, ...] | None
    combine: Any
    name: str | None
    unit: Any
    names: tuple[str, ...]

    def __init__(
        self,
        members: Iterable[Any],
        weights: Any = None,
        combine: str | Callable[[Array], Any] | None = None,
        name: str | None = None,
        unit: Any = None,
        names: Sequence[str] | None = None,
    ) -> None:
        put = lambda field, value: object.__setattr__(self, field, value)  # noqa: E731
        try:
            found = (members,) if isinstance(members, (User, Snooper, Panel)) else tuple(members)
        except TypeError:
            raise InputError(
                "A panel needs a list of users", kind_of(members), "Write Panel([user_a, user_b])"
            ) from None
        if not found:
            raise InputError("A panel needs at least one user", "none", "Write Panel([user_a, user_b])")
        for i, member in enumerate(found):
            if not isinstance(member, (User, Snooper, Panel)):
                raise InputError(
                    f"member {i} of the panel must be a User, a Snooper or a Panel",
                    kind_of(member),
                    "Write Panel([user_a, user_b])",
                )
        put("members", found)
        if isinstance(combine, str):
            check_choice("combine", combine, ["worst", "mean"])
        elif combine is not None and not callable(combine):
            raise InputError(
                'combine must be "worst", "mean" or a function of the uncertainties',
                combine,
                'Leave it out, or write "mean"',
            )
        if weights is not None:
            if combine == "worst" or callable(combine):
                do = 'Use combine="mean", or put the weights into your function'
                raise InputError("weights belong to the mean", f"combine={show_number(combine)}", do)
            weights, combine = (
                tuple(check_shares("weights", weights, (len(found),), "Give one weight per member").tolist()),
                "mean",
            )
        put("weights", weights)
        put("combine", combine)
        if name is not None and (not isinstance(name, str) or not name):
            raise InputError("name must be text", name, "Leave it out, or give a name")
        put("name", name)
        if isinstance(unit, str):
            check_choice("unit", unit, ["before"])
        elif unit is not None:
            sizes = check_finite("unit", as_float_array("unit", unit))
            if sizes.shape != (len(found),) or np.any(sizes <= 0):
                do = 'Give one number per member, or unit="before"'
                raise InputError(f"unit must be {len(found)} positive numbers", f"shape {sizes.shape}", do)
            unit = tuple(sizes.tolist())
        put("unit", unit)
        put("names", _names(found, names))
        if unit is None and not callable(combine):
            self._check_units()

    @classmethod
    def over(cls, *, belief: Any, target: Any, loss: Any, estimates: Any = "free", **options: Any) -> Panel:
        """Every combination of beliefs, targets and losses; each is one thing or a list of them.

        ``options`` are the panel's.

        >>> from ruvdecision.beliefs import NormalBelief
        >>> from ruvdecision.targets import Record
        >>> belief = NormalBelief(records=5, variance=1, prior_variance=1)
        >>> Panel.over(belief=belief, target=[Record(0), Record(4)], loss=lambda e, t: abs(e - t)).names
        ('record 0', 'record 4')
        """
        lists = [list(x) if isinstance(x, (list, tuple)) else [x] for x in (belief, target, loss)]
        for name, found in zip(("belief", "target", "loss"), lists, strict=True):
            if not found:
                raise InputError(f"{name} must not be empty", [], f"Give one {name}, or a list of them")
        users = [User(b, t, loss_, estimates) for b, t, loss_ in product(*lists)]
        several = [i for i, found in enumerate(lists) if len(found) > 1]
        words: list[Any] = [
            _belief_words(lists[0]),
            [t.describe() for t in lists[1]],
            _loss_words([u.loss for u in users[: len(lists[2])]]),
        ]
        labels = [", ".join(words[i][place[i]] for i in several) for place in product(*(range(len(x)) for x in lists))]
        if several and "names" not in options and len(set(labels)) == len(labels):
            options["names"] = labels
        return cls(users, **options)

    @classmethod
    def vary(cls, user: Any, *, options: dict[str, Any] | None = None, **fields: Any) -> Panel:
        """A class of users.

        ``user`` with every combination of the listed values of fields of the belief or of the user.

        ``Panel.vary(user, prior_variance=[1, 5, 25])`` is a belief with a range of a hyperparameter, and
        ``Panel.vary(user, loss=[...], target=[...])`` a set of losses and targets. ``options`` are the panel's
        (weights, combine, ...).
        """
        if not isinstance(user, (User, Snooper)):
            raise InputError(
                "Panel.vary needs a User or a Snooper", user, "Write Panel.vary(user, prior_variance=[1, 5])"
            )
        if not fields:
            raise InputError(
                "Panel.vary needs something to vary", "nothing", "Write Panel.vary(user, prior_variance=[1, 5])"
            )
        lists: dict[str, list[Any]] = {}
        for name, values in fields.items():
            try:
                lists[name] = [values] if isinstance(values, str) else list(values)
            except TypeError:
                raise InputError(f"{name} must be a list of values", values, f"Write {name}=[...]") from None
            if not lists[name]:
                raise InputError(f"{name} must not be empty", values, f"Write {name}=[...]")
        members, labels = [], []
        for choice in product(*lists.values()):
            settings = dict(zip(lists, choice, strict=True))
            members.append(vary_user(user, **settings))
            labels.append(", ".join(f"{name}={_word(value)}" for name, value in settings.items()))
        given = {"names": labels} if len(set(labels)) == len(labels) else {}
        return cls(members, **(given | (options or {})))

    # -- one U of many -------------------------------------------------------------------------------

    def how(self, role: str = "intruder") -> Any:
        """How the members' U are put together for users of this role: ``"worst"``, ``"mean"`` or the callable."""
        check_choice("role", role, ROLES)
        if self.combine is not None:
            return self.combine
        return "worst" if role == "intruder" else "mean"

    def merge(self, values: Sequence[Value], role: str = "intruder", before: Sequence[float] | None = None) -> Value:
        """One uncertainty of the members', in any shape that they share.

        ``before`` holds the members' U before any release, needed by ``unit="before"``.
        """
        how = self.how(role)
        value, error = self._scaled(values, before)
        if len(value) == 1 and not callable(how):
            return Value(value[0], error[0])
        if how == "mean":
            weights = np.array(self.weights) if self.weights is not None else np.full(len(value), 1.0 / len(value))
            # A weight of zero counts for nothing, even where U is infinite.
            used = np.flatnonzero(weights)
            tail = (slice(None),) + (None,) * (value.ndim - 1)
            weighed = weights[used][tail]
            return Value(np.sum(weighed * value[used], axis=0), np.sum(weighed * error[used], axis=0))
        if how == "worst":
            sign = 1.0 if role == "intruder" else -1.0
            with np.errstate(invalid="ignore"):
                place = np.argmin(sign * value, axis=0)[None]
                worst, own = np.take_along_axis(value, place, 0)[0], np.take_along_axis(error, place, 0)[0]
                near = sign * (value - worst) <= NEAR * (error + own)
            near = near | (np.arange(len(value)).reshape((-1,) + (1,) * (value.ndim - 1)) == place)
            return Value(worst, np.max(np.where(near, error, 0.0), axis=0))
        return self._called(how, value, error)

    def merge_before(self, before: Sequence[float], role: str = "intruder") -> float:
        """The panel's U before any release: the members', put together in the same way."""
        found = [Value.exact(np.array([float(b)])) for b in before]
        return float(self.merge(found, role, before=before).value[0])

    def _scaled(self, values: Sequence[Value], before: Sequence[float] | None) -> tuple[Array, Array]:
        if len(values) != len(self.members):
            raise InputError(
                "There must be one value per member",
                f"{len(values)} for {len(self.members)}",
                "Give them in the panel's order",
            )
        value = np.stack([np.asarray(v.value, dtype=np.float64) for v in values])
        error = np.stack([np.asarray(v.error, dtype=np.float64) for v in values])
        if self.unit is None:
            return value, error
        if isinstance(self.unit, str):
            sizes = np.full(len(values), np.nan) if before is None else np.asarray(before, dtype=np.float64)
            bad = [name for name, s in zip(self.names, sizes, strict=True) if not (np.isfinite(s) and s > 0)]
            if bad:
                do = "Use proper priors and no snoopers, or give unit= as one number per member"
                raise InputError(
                    'unit="before" divides by U before any release, which must be positive and finite', bad, do
                )
        else:
            sizes = np.array(self.unit)
        tail = sizes.reshape((-1,) + (1,) * (value.ndim - 1))
        return value / tail, error / tail

    def _called(self, combine: Any, value: Array, error: Array) -> Value:
        """A function of the caller's; its error is the sum of what each member's error moves it by."""

        def one(u: Array) -> Array:
            found = np.asarray(combine(u), dtype=np.float64)
            if found.shape != value.shape[1:]:
                raise InputError(
                    "combine must give one U per release",
                    f"shape {found.shape} for {value.shape[1:]}",
                    "Take the members along axis 0",
                )
            return found

        centre = one(value)
        moved = np.zeros_like(centre)
        for i in np.flatnonzero(error.reshape(len(error), -1).any(axis=1)):
            sides = []
            for sign in (1.0, -1.0):
                step = value.copy()
                step[i] += sign * error[i]
                sides.append(np.abs(one(step) - centre))
            moved = moved + np.maximum(*sides)
        return Value(centre, moved)

    # -- words ---------------------------------------------------------------------------------------

    def describe(self, role: str | None = None) -> str:
        """What the panel is, in words."""
        words = {"worst": "the worst case for the agency counts", "mean": "their mean counts"}
        if role is None and self.combine is None:
            counts = "the worst case counts for intruders, the mean for scientists"
        else:
            how = self.how(role or "intruder")
            counts = words[how] if isinstance(how, str) else f"{show_number(how)} of their uncertainties counts"
        if self.weights is not None:
            shares = ", ".join(f"{w:.3g}" for w in self.weights[:12])
            counts = f"their mean with weights {shares}{' ...' if len(self.weights) > 12 else ''} counts"
        unit = (
            ""
            if self.unit is None
            else ", relative to U before the release"
            if self.unit == "before"
            else ", each in a unit of its own"
        )
        size = len(self.members)
        head = f"{self.name or 'A panel'} of {size} user{'s' if size > 1 else ''}: {counts}{unit}."
        shown = [f"{n}: {m.describe()}" for n, m in zip(self.names[:4], self.members, strict=False)]
        more = f" And {size - 4} more: {', '.join(self.names[4:16])}{', ...' if size > 16 else ''}." if size > 4 else ""
        return head + " " + " ".join(shown) + more

    def __repr__(self) -> str:
        options = "".join(
            f", {n}={show_number(v)}"
            for n in ("weights", "combine", "name", "unit")
            if (v := getattr(self, n)) is not None
        )
        shown = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        return f"Panel(<{len(self.members)} users: {shown}>{options})"

    def __len__(self) -> int:
        return len(self.members)

    @property
    def users(self) -> tuple[User | Snooper, ...]:
        """All users of the panel, those of panels within it too."""
        found: list[User | Snooper] = []
        for member in self.members:
            found.extend(member.users if isinstance(member, Panel) else (member,))
        return tuple(found)

    def replace(self, change: Callable[[Any], Any]) -> Panel:
        """The same panel with every user changed."""
        members = [m.replace(change) if isinstance(m, Panel) else change(m) for m in self.members]
        # The weights are already there as the mean's.
        combine = None if self.weights is not None else self.combine
        return Panel(members, self.weights, combine, self.name, self.unit, self.names)

    def _check_units(self) -> None:
        kinds: dict[str, str] = {}
        for name, member in zip(self.names, self.members, strict=True):
            kinds.setdefault(_unit_of(member), name)
        if len(kinds) > 1:
            raise InputError(
                "The members' losses are in different units, so that no U of one can be compared with one of another",
                ", ".join(f"{name} in {unit}" for unit, name in kinds.items()),
                'Give unit="before" (U relative to that before the release), or one number per member',
            )


def vary_user(user: Any, **settings: Any) -> Any:
    """The user with other values of fields of the user or of his belief.

    >>> from ruvdecision.beliefs import NormalBelief
    >>> from ruvdecision.targets import Record
    >>> user = User(NormalBelief(records=5, variance=1, prior_variance=1), Record(0), lambda e, t: (e - t) ** 2)
    >>> vary_user(user, prior_variance=7).belief
    NormalBelief(records=5, variance=1, prior_mean=0, prior_variance=7)
    """
    own = [f.name for f in dataclasses.fields(user) if f.init]
    theirs = (
        [f.name for f in dataclasses.fields(user.belief) if f.init] if dataclasses.is_dataclass(user.belief) else []
    )
    mine: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    for name, value in settings.items():
        if name in own and name != "name":
            mine[name] = value
        elif name in theirs:
            inner[name] = value
        else:
            options = [*theirs, *(n for n in own if n != "name")]
            raise InputError("Neither the user nor the belief has such a field", name, suggest(name, options))
    belief = mine.pop("belief", user.belief)
    if inner:
        belief = dataclasses.replace(belief, **inner)
    own_row = (
        isinstance(user, Snooper) and user.target.is_a(Kind.RECORD) and user.estimator == Row(user.target.terms[0].row)
    )
    if own_row and "target" in mine and "estimator" not in mine:
        mine["estimator"] = "row"  # index knowledge goes with the target: the row of another record is another row
    return dataclasses.replace(user, belief=belief, **mine)


def _unit_of(member: Any) -> str:
    """What a member's U is measured in."""
    if isinstance(member, Panel):
        if member.unit == "before":
            return "shares of U before the release"
        if member.unit is not None or callable(member.combine):
            return "a unit of its own"
        return _unit_of(member.members[0])
    loss = member.loss
    kind = type(loss).__name__
    if kind == "Power":
        return {1.0: "units", 2.0: "squared units"}.get(float(loss.p), f"units to the power {loss.p:g}")
    if kind == "CustomLoss":
        return "a loss of the user's own"
    return UNITS.get(kind, f"the loss {kind}")


def _names(members: Sequence[Any], given: Sequence[str] | None) -> tuple[str, ...]:
    """One name per member: as given, the member's own, or what tells it from the others."""
    if given is not None:
        names = tuple(check_list("names", given, "Name each member once"))
        if len(names) != len(members) or not all(isinstance(n, str) and n for n in names):
            raise InputError(f"names must be {len(members)} texts", list(names), "Name each member once")
    else:
        plain = [m for m in members if not isinstance(m, Panel)]
        targets = [m.target.describe() for m in plain]
        losses = _loss_words([m.loss for m in plain])
        columns = [c for c in (targets, losses) if len(set(c)) > 1]
        told = iter([", ".join(parts) for parts in zip(*columns, strict=True)] if columns else [""] * len(plain))
        words = ["" if isinstance(m, Panel) else next(told) for m in members]
        names = tuple(
            m.name or (w if w and words.count(w) == 1 else f"member {i + 1}")
            for i, (m, w) in enumerate(zip(members, words, strict=True))
        )
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InputError("Two members of a panel have the same name", twice, "Give each its own name, or names=[...]")
    return names


def _loss_words(losses: Sequence[Any]) -> list[str]:
    plain = [str(loss) for loss in losses]
    return [repr(loss) if plain.count(word) > 1 else word for loss, word in zip(losses, plain, strict=True)]


def _belief_words(beliefs: Sequence[Any]) -> list[str]:
    """What tells beliefs apart: the fields in which they differ, or their numbers."""
    if len({type(b) for b in beliefs}) == 1 and dataclasses.is_dataclass(beliefs[0]):
        fields = [f.name for f in dataclasses.fields(beliefs[0]) if f.init]
        shown = [{n: _word(getattr(b, n)) for n in fields} for b in beliefs]
        differ = [n for n in fields if len({s[n] for s in shown}) > 1]
        words = [", ".join(f"{n}={s[n]}" for n in differ) for s in shown]
        if len(set(words)) == len(words):
            return words
    return [f"belief {i + 1}" for i in range(len(beliefs))]


def _word(value: Any) -> str:
    """A setting in a name."""
    if hasattr(value, "describe") and not isinstance(value, type) and not dataclasses.is_dataclass(type(value)):
        return str(value.describe())
    return show_number(value)
