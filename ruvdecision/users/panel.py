"""Several users in the place of one: the worst of many intruders, the average of many scientists, a class of users."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..checks import (
    as_float_array,
    as_tuple,
    check_choice,
    check_filled,
    check_finite,
    check_kind,
    check_list,
    check_mapping,
    check_shares,
    check_text,
    show_setting,
    suggest,
)
from ..errors import InputError
from ..protocols import Array, Belief, Loss, Value
from ..targets import BaseTarget, Kind, is_target
from .rules import Row
from .settings import settings_of, with_new_settings
from .user import LossLike, SingleUser, Snooper, User

ROLES = ("intruder", "scientist")
NEAR = 4.0
"""Members within this many standard errors of the worst may be the worst."""


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

    members: tuple[Role, ...]
    weights: tuple[float, ...] | None
    combine: str | Callable[[Array], ArrayLike] | None
    name: str | None
    unit: str | tuple[float, ...] | None
    names: tuple[str, ...]

    def __init__(
        self,
        members: Role | Iterable[Role],
        weights: ArrayLike | None = None,
        combine: str | Callable[[Array], ArrayLike] | None = None,
        name: str | None = None,
        unit: str | ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        put, do = partial(object.__setattr__, self), "Write Panel([user_a, user_b])"
        found = check_filled("members", as_tuple(members), do)
        for i, member in enumerate(found):
            check_kind(f"members[{i}]", member, (User, Snooper, Panel), do)
        put("members", found)
        if combine is not None and not callable(combine):
            check_choice("combine", combine, ["worst", "mean"])
        if weights is not None:
            if combine == "worst" or callable(combine):
                do = 'Use combine="mean", or put the weights into your function'
                raise InputError("weights belong to the mean", f"combine={show_setting(combine)}", do)
            weights = tuple(check_shares("weights", weights, (len(found),), "Give one weight per member").tolist())
            combine = "mean"
        put("weights", weights)
        put("combine", combine)
        put("name", name if name is None else check_text("name", name, "Leave it out, or give a name"))
        if isinstance(unit, str):
            check_choice("unit", unit, ["before"])
        elif unit is not None:
            sizes = check_finite("unit", as_float_array("unit", unit))
            if sizes.shape != (len(found),) or np.any(sizes <= 0):
                do = 'Give one number per member, or unit="before"'
                raise InputError(f"unit must be {len(found)} positive numbers", f"shape {sizes.shape}", do)
            unit = tuple(sizes.tolist())
        put("unit", unit)
        put("names", _member_names(found, names))
        if unit is None and not callable(combine):
            self._check_units()

    @classmethod
    def over(
        cls,
        *,
        belief: Belief | Sequence[Belief],
        target: BaseTarget | Sequence[BaseTarget],
        loss: LossLike | Sequence[LossLike],
        estimates: str | ArrayLike = "free",
        **options: Any,
    ) -> Panel:
        """Every combination of beliefs, targets and losses; each is one thing or a list of them.

        ``options`` are the panel's.

        >>> from ruvdecision.beliefs import NormalBelief
        >>> from ruvdecision.targets import Record
        >>> belief = NormalBelief(records=5, variance=1, prior_variance=1)
        >>> Panel.over(belief=belief, target=[Record(0), Record(4)], loss=lambda e, t: abs(e - t)).names
        ('record 0', 'record 4')
        """
        given: dict[str, list[Any]] = {}
        for name, each in (("belief", belief), ("target", target), ("loss", loss)):
            given[name] = list(check_filled(name, as_tuple(each), f"Give one {name}, or a list of them"))
        users = [User(b, t, x, estimates) for b, t, x in product(*given.values())]
        words = {
            "belief": _belief_words(given["belief"]),
            "target": [t.describe() for t in given["target"]],
            "loss": _loss_words([user.loss for user in users[: len(given["loss"])]]),
        }
        labels = [", ".join(label) for label in product(*(w for w in words.values() if len(w) > 1))]
        return cls(users, **(_distinct_labels(labels) | options))

    @classmethod
    def vary(
        cls, user: User | Snooper, *, options: Mapping[str, Any] | None = None, **fields: Iterable[object] | str
    ) -> Panel:
        """A class of users.

        ``user`` with every combination of the listed values of fields of the belief or of the user.

        ``Panel.vary(user, prior_variance=[1, 5, 25])`` is a belief with a range of a hyperparameter, and
        ``Panel.vary(user, loss=[...], target=[...])`` a set of losses and targets. ``options`` are the panel's
        (weights, combine, ...).
        """
        do = "Write Panel.vary(user, prior_variance=[1, 5])"
        check_kind("user", user, (User, Snooper), do)
        check_filled("fields", fields, do)
        lists = {}
        for name, values in fields.items():
            do = f"Write {name}=[...]"
            listed = [values] if isinstance(values, str) else check_list(name, values, do)
            lists[name] = check_filled(name, listed, do)
        chosen = [dict(zip(lists, choice, strict=True)) for choice in product(*lists.values())]
        labels = [", ".join(f"{name}={_setting_text(value)}" for name, value in each.items()) for each in chosen]
        do = 'Write options={"weights": [1, 2]}'
        further = check_mapping("options", {} if options is None else options, do)
        for name in further:
            check_choice("An option of a panel", name, ["combine", "weights", "name", "unit", "names"])
        put: dict[str, Any] = {**_distinct_labels(labels), **further}
        return cls([vary_user(user, **each) for each in chosen], **put)

    # -- one U of many -------------------------------------------------------------------------------

    def combining_rule(self, role: str = "intruder") -> str | Callable[[Array], ArrayLike]:
        """How the members' U are put together for users of this role: ``"worst"``, ``"mean"`` or the callable."""
        check_choice("role", role, ROLES)
        return self.combine or ("worst" if role == "intruder" else "mean")

    def merge(self, values: Sequence[Value], role: str = "intruder", before: Sequence[float] | None = None) -> Value:
        """One uncertainty of the members', in any shape that they share.

        ``before`` holds the members' U before any release, needed by ``unit="before"``.
        """
        how = self.combining_rule(role)
        value, error = self._scale_members(values, before)
        if callable(how):
            return self._combine_by_function(how, value, error)
        if len(value) == 1:
            return Value(value[0], error[0])
        tail = (-1,) + (1,) * (value.ndim - 1)
        if how == "mean":
            weights = np.array(self.weights) if self.weights is not None else np.full(len(value), 1.0 / len(value))
            # A weight of zero counts for nothing, even where U is infinite.
            used = np.flatnonzero(weights)
            weighed = weights[used].reshape(tail)
            return Value(np.sum(weighed * value[used], axis=0), np.sum(weighed * error[used], axis=0))
        sign = 1.0 if role == "intruder" else -1.0
        with np.errstate(invalid="ignore"):
            place = np.argmin(sign * value, axis=0)[None]
            worst, own = np.take_along_axis(value, place, 0)[0], np.take_along_axis(error, place, 0)[0]
            near = sign * (value - worst) <= NEAR * (error + own)
        near |= np.arange(len(value)).reshape(tail) == place
        return Value(worst, np.max(np.where(near, error, 0.0), axis=0))

    def merge_before(self, before: Sequence[float], role: str = "intruder") -> float:
        """The panel's U before any release: the members', put together in the same way."""
        return float(self.merge([Value.exact([float(b)]) for b in before], role, before=before).value[0])

    def _scale_members(self, values: Sequence[Value], before: Sequence[float] | None) -> tuple[Array, Array]:
        if len(values) != len(self.members):
            got = f"{len(values)} for {len(self.members)}"
            raise InputError("There must be one value per member", got, "Give them in the panel's order")
        value, error = Value.stacked(values)
        if self.unit is None:
            return value, error
        given = before if self.unit == "before" else self.unit
        sizes = np.asarray([np.nan] * len(values) if given is None else given, dtype=np.float64)
        bad = [name for name, size in zip(self.names, sizes, strict=True) if not 0 < size < np.inf]
        if bad:
            what = 'unit="before" divides by U before any release, which must be positive and finite'
            raise InputError(what, bad, "Use proper priors and no snoopers, or give unit= as one number per member")
        tail = sizes.reshape((-1,) + (1,) * (value.ndim - 1))
        return value / tail, error / tail

    def _combine_by_function(self, combine: Callable[[Array], ArrayLike], value: Array, error: Array) -> Value:
        """A function of the caller's; its error is the sum of what each member's error moves it by."""

        def one(u: Array) -> Array:
            found = np.asarray(combine(u), dtype=np.float64)
            if found.shape != value.shape[1:]:
                got = f"shape {found.shape} for {value.shape[1:]}"
                raise InputError("combine must give one U per release", got, "Take the members along axis 0")
            return found

        centre = one(value)
        moved = np.zeros_like(centre)
        for i in np.flatnonzero(error.reshape(len(error), -1).any(axis=1)):
            step = np.zeros_like(value)
            step[i] = error[i]
            moved = moved + np.maximum(np.abs(one(value + step) - centre), np.abs(one(value - step) - centre))
        return Value(centre, moved)

    # -- words ---------------------------------------------------------------------------------------

    def describe(self, role: str | None = None) -> str:
        """What the panel is, in words."""
        how = self.combining_rule(role or "intruder")
        counts = "the worst case for the agency counts" if how == "worst" else "their mean counts"
        if self.weights is not None:
            shares = ", ".join(f"{w:.3g}" for w in self.weights[:12])
            counts = f"their mean with weights {shares}{' ...' if len(self.weights) > 12 else ''} counts"
        elif role is None and self.combine is None:
            counts = "the worst case counts for intruders, the mean for scientists"
        elif callable(how):
            counts = f"{show_setting(how)} of their uncertainties counts"
        unit = "" if self.unit is None else ", each in a unit of its own"
        if self.unit == "before":
            unit = ", relative to U before the release"
        size = len(self.members)
        head = f"{self.name or 'A panel'} of {size} user{'s' if size > 1 else ''}: {counts}{unit}."
        shown = [f"{n}: {m.describe()}" for n, m in zip(self.names[:4], self.members, strict=False)]
        more = f" And {size - 4} more: {', '.join(self.names[4:16])}{', ...' if size > 16 else ''}." if size > 4 else ""
        return head + " " + " ".join(shown) + more

    def __repr__(self) -> str:
        options = {name: value for name, value in settings_of(self).items() if value is not None}
        shown = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        said = "".join(f", {n}={show_setting(v)}" for n, v in options.items() if n not in ("members", "names"))
        return f"Panel(<{len(self.members)} users: {shown}>{said})"

    def __len__(self) -> int:
        return len(self.members)

    def leaves(self, name: str) -> list[tuple[str, SingleUser]]:
        """Every single user, those of panels within it too, with the name of its columns."""
        members = zip(self.names, self.members, strict=True)
        return [leaf for label, member in members for leaf in member.leaves(f"{name}[{label}]")]

    def in_role(self, role: str) -> str:
        """What the panel is in this role, in words."""
        return self.describe(role)

    @property
    def users(self) -> tuple[User | Snooper, ...]:
        """All users of the panel, those of panels within it too."""
        return tuple(user for member in self.members for user in member.users)

    def replace(self, change: Callable[[Any], Any]) -> Panel:
        """The same panel with every user changed."""
        return dataclasses.replace(self, members=tuple(member.replace(change) for member in self.members))

    @property
    def unit_words(self) -> str:
        """What U is measured in."""
        if self.unit == "before":
            return "shares of U before the release"
        if self.unit is not None or callable(self.combine):
            return "a unit of its own"
        return self.members[0].unit_words

    @property
    def error_scale(self) -> tuple[float, float] | None:
        """Weight and power that make a typical error of U, where all members share them; else None."""
        found = {member.error_scale for member in self.members}
        plain = self.unit is None and not callable(self.combine)
        return found.pop() if len(found) == 1 and plain else None

    def _check_units(self) -> None:
        kinds: dict[str, str] = {}
        for name, member in zip(self.names, self.members, strict=True):
            kinds.setdefault(member.unit_words, name)
        if len(kinds) > 1:
            raise InputError(
                "The members' losses are in different units, so that no U of one can be compared with one of another",
                ", ".join(f"{name} in {unit}" for unit, name in kinds.items()),
                'Give unit="before" (U relative to that before the release), or one number per member',
            )


Role: TypeAlias = User | Snooper | Panel
"""Who stands in the intruder's or the scientist's place."""


def vary_user(user: User | Snooper, **settings: Any) -> User | Snooper:
    """The user with other values of fields of the user or of his belief.

    >>> from ruvdecision.beliefs import NormalBelief
    >>> from ruvdecision.targets import Record
    >>> user = User(NormalBelief(records=5, variance=1, prior_variance=1), Record(0), lambda e, t: (e - t) ** 2)
    >>> vary_user(user, prior_variance=7).belief
    NormalBelief(records=5, variance=1, prior_mean=0, prior_variance=7)
    """
    check_kind("user", user, (User, Snooper), "Write vary_user(user, prior_variance=5)")
    own, theirs = [name for name in settings_of(user) if name != "name"], list(settings_of(user.belief))
    for name in settings:
        if name not in own and name not in theirs:
            what = "Neither the user nor the belief has such a field"
            raise InputError(what, name, suggest(name, [*theirs, *own]))
    mine = {name: value for name, value in settings.items() if name in own}
    belief = mine.pop("belief", user.belief)
    if len(mine) < len(settings) - ("belief" in settings):
        belief = with_new_settings(belief, {name: v for name, v in settings.items() if name not in own})
    index = user.target.is_a(Kind.RECORD) and settings_of(user).get("estimator") == Row(user.target.terms[0].row)
    if index and "target" in mine:
        # Index knowledge goes with the target: the row of another record is another row.
        mine = {"estimator": "row", **mine}
    return dataclasses.replace(user, belief=belief, **mine)


def _member_names(members: Sequence[Role], given: Sequence[str] | None) -> tuple[str, ...]:
    """One name per member: as given, the member's own, or what tells it from the others."""
    if given is not None:
        do = "Name each member once"
        names = tuple(check_text("Each of names", n, do) for n in check_list("names", given, do))
        if len(names) != len(members):
            raise InputError(f"names must be {len(members)} texts", list(names), "Name each member once")
    else:
        single = [user for m in members if not m.members for user in m.users]
        columns = [[m.target.describe() for m in single], _loss_words([m.loss for m in single])]
        words = [", ".join(parts) for parts in zip(*(c for c in columns if len(set(c)) > 1), strict=True)]
        each = {id(m): word for m, word in zip(single, words, strict=False) if words.count(word) == 1}
        names = tuple(m.name or each.get(id(m), f"member {i + 1}") for i, m in enumerate(members))
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InputError("Two members of a panel have the same name", twice, "Give each its own name, or names=[...]")
    return names


def _distinct_labels(labels: list[str]) -> dict[str, list[str]]:
    """Labels as the panel's names, if they tell its members apart."""
    return {"names": labels} if all(labels) and len(set(labels)) == len(labels) else {}


def _loss_words(losses: Sequence[Loss]) -> list[str]:
    plain = [str(loss) for loss in losses]
    return [repr(loss) if plain.count(word) > 1 else word for loss, word in zip(losses, plain, strict=True)]


def _belief_words(beliefs: Sequence[Belief]) -> list[str]:
    """What tells beliefs apart: the fields in which they differ, or their numbers."""
    if len({type(b) for b in beliefs}) == 1:
        shown = [{name: _setting_text(value) for name, value in settings_of(b).items()} for b in beliefs]
        differ = [name for name in shown[0] if len({s[name] for s in shown}) > 1]
        words = [", ".join(f"{name}={s[name]}" for name in differ) for s in shown]
        if len(set(words)) == len(words):
            return words
    return [f"belief {i + 1}" for i in range(len(beliefs))]


def _setting_text(value: object) -> str:
    """A setting in a name: targets in words, everything else as it is written."""
    return value.describe() if is_target(value) and not settings_of(value) else show_setting(value)
