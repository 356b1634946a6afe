"""A user: belief, target and loss. The intruder and the scientist are two users. A snooper has a fixed rule instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from numpy.typing import ArrayLike

from ..beliefs.base import BaseBelief
from ..checks import as_float_array, check_choice, check_fields, check_finite, check_flag, check_text, checked
from ..errors import InputError, kind_of
from ..losses import Quadratic, as_loss
from ..losses.base import as_bayes_loss, is_bayes_loss
from ..masks.base import Mask, check_mask
from ..protocols import Array, Belief, Loss
from ..targets import BaseTarget, Kind, is_target
from .mask_prior import MaskPrior, MaskPriorLike, as_mask_prior
from .rules import Row, Rule, as_rule

LossLike: TypeAlias = Loss | Callable[[Any, Any], ArrayLike]
"""A loss, or a function of estimate and truth."""
NAME = "Leave it out, or give a name for tables and plots"


class SingleUser:
    """What a user offers where a panel of them may stand instead."""

    @property
    def users(self) -> tuple[Self]:
        """All users there are: this one."""
        return (self,)

    @property
    def is_rightly_informed(self) -> bool:
        """Whether the belief is the agency's and the mask is known; nobody asks that of a rule."""
        return True

    loss: Any
    members: ClassVar[tuple[()]] = ()
    """Users within this one: none."""
    has_rule: ClassVar[bool] = False
    """Whether a fixed rule stands where others have a posterior."""
    knows: Mask | None = None
    """What is already known; a rule looks at the release alone."""

    @property
    def unit_words(self) -> str:
        """What U is measured in."""
        return self.loss.unit if is_bayes_loss(self.loss) else f"the loss {type(self.loss).__name__}"

    @property
    def error_scale(self) -> tuple[float, float] | None:
        """Weight and power that make a typical error of U (`BayesLoss.error_scale`); None if there is no one."""
        return as_bayes_loss(self.loss).error_scale

    def leaves(self, name: str) -> list[tuple[str, SingleUser]]:
        """Every single user, with the name of its columns: this one, under the name that is given."""
        return [(name, self)]

    def describe(self) -> str:
        """One sentence about the user."""
        raise NotImplementedError

    def in_role(self, role: str) -> str:
        """The user in words; a panel says how it stands in this role."""
        return self.describe()

    def replace(self, change: Callable[[Self], Self]) -> Self:
        """The user, changed."""
        return change(self)


@dataclass(frozen=True)
class User(SingleUser):
    """A Bayesian decision maker who waits for a release.

    Parameters
    ----------
    belief : Belief
        What the user believes before the release.
    target : Target
        What the user wants to know.
    loss : Loss or callable
        What it costs to be wrong; a callable ``loss(estimate, truth)`` will do.
    estimates : "free", "target" or array, default "free"
        Which estimates the user may give. ``"free"`` is the natural action space (the reals, a vector space,
        all distributions), which every closed form of Trottini and Fienberg needs. ``"target"`` restricts
        estimates to the finite set of target values, as their step 2 says; U is then never smaller. An array
        lists the allowed estimates.
    name : str, optional
        A name for tables and plots.
    truth : Belief, optional
        What the agency believes, where the user is thought to be wrong: he decides by ``belief``, and his loss is
        averaged over ``truth`` (the records that are drawn, and the law of the target after a release). U is then
        never below that of one who believes ``truth``, and the same where the two beliefs are.
    knows_mask : bool, default True
        Whether the user is told the mask's numbers. One who is not knows the technique, treats the size of the noise as
        unknown with the prior ``mask_prior``, and decides by the mixture over what the mask may have been; his loss is
        averaged over the mask that was really used. Not to publish therefore never lowers U. (What he himself would
        say his uncertainty is stands in the map's column ``intruder_believed`` or ``scientist_believed``.)
    mask_prior : MaskPrior, list of masks, list of variances or scipy distribution, optional
        See `MaskPrior`; log-uniform around the variance of a record if not given.
    knows : Mask, optional
        What the user has already observed of the same records, said as the mask that would release it:
        ``Release(rows=[1, 2, 3])`` for records that he knows, ``Microaggregate(groups=1)`` for their mean,
        ``Noise(sd=2)`` for a noisy copy, ``a & b`` for both. U0 is then U given that knowledge alone. With data, what
        he knows is computed from the data, drawn anew for every replicate. `ruvdecision.posterior` takes what
        ``(mask & knows).release(data, rng)`` gives: the release and what is known.

    Examples
    --------
    >>> from ruvdecision.beliefs import NormalBelief
    >>> from ruvdecision.losses import Quadratic
    >>> from ruvdecision.targets import Record
    >>> User(NormalBelief(records=3, variance=1, prior="flat"), Record(0), Quadratic()).target
    Record(0)
    """

    belief: Any
    target: BaseTarget
    loss: Any
    estimates: str | Array = "free"
    name: str | None = checked(None, check_text, do=NAME)
    truth: Any = None
    knows_mask: bool = True
    mask_prior: MaskPrior | None = None
    knows: Mask | None = None

    if TYPE_CHECKING:
        # What may be given. The fields stay open: engines ask a belief, target or loss for more than every one must
        # have.
        def __init__(
            self,
            belief: Belief,
            target: BaseTarget,
            loss: LossLike,
            estimates: str | ArrayLike = "free",
            name: str | None = None,
            truth: Belief | None = None,
            knows_mask: bool = True,
            mask_prior: MaskPriorLike | None = None,
            knows: Mask | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        _check_belief("A user needs a belief", self.belief)
        if not is_target(self.target):
            hint = 'Use Record(0), Parameter("mu"), NewRecord(), Identity(0) or Functional(...)'
            raise InputError("A user needs a target", kind_of(self.target), hint)
        put("loss", as_loss(self.loss))
        if not self.lists_estimates:
            check_choice("estimates", self.estimates, ["free", "target"])
        else:
            listed = check_finite("estimates", as_float_array("estimates", self.estimates))
            if listed.ndim == 0 or listed.size == 0:
                do = 'List the allowed estimates, or write "free" or "target"'
                raise InputError("estimates must be a list of the allowed ones", f"shape {listed.shape}", do)
            put("estimates", listed)
        _check_target(self.belief, self.target)
        if self.truth is not None:
            _check_belief("truth must be a belief, the agency's", self.truth)
            _check_target(self.truth, self.target)
            sizes = [size_of(belief) for belief in (self.belief, self.truth)]
            if None not in sizes and sizes[0] != sizes[1]:
                what = "The user's belief and the truth must have the same number of records"
                raise InputError(what, f"{sizes[0]} and {sizes[1]}", "Both are about one file: set records= alike")
        put("knows_mask", check_flag("knows_mask", self.knows_mask, "Say whether the user is told the mask's numbers"))
        check_fields(self)
        if self.mask_prior is not None:
            if self.knows_mask:
                what = "mask_prior is for a user who does not know the mask"
                raise InputError(what, "knows_mask=True", "Give knows_mask=False too")
            put("mask_prior", as_mask_prior(self.mask_prior))
        if self.knows is not None:
            check_mask("knows", self.knows)

    @property
    def is_rightly_informed(self) -> bool:
        """Whether the user is right about everything but what he is after.

        No ``truth`` of another, and the mask is known.
        """
        return self.truth is None and self.knows_mask

    @property
    def actions(self) -> str | Array | None:
        """The allowed estimates as the losses take them: None, ``"target"`` or an array."""
        return None if not self.lists_estimates and self.estimates == "free" else self.estimates

    @property
    def lists_estimates(self) -> bool:
        """Whether the allowed estimates were given one by one."""
        return not isinstance(self.estimates, str)

    def describe(self) -> str:
        limits = known = truth = already = ""
        if self.actions is not None:
            which = f"{len(self.actions)} values" if self.lists_estimates else "values of the target"
            limits = f" and may {'' if self.lists_estimates else 'only '}name {which}"
        if not self.knows_mask:
            known = f" The size of the noise is not told: {(self.mask_prior or MaskPrior()).describe()}."
        if self.truth is not None:
            truth = f" The loss is averaged over the agency's belief, {self.truth.describe()}."
        if self.knows is not None:
            already = f" What {self.knows} releases of the same records is already known."
        wants = f"believes {self.belief.describe()}, wants {self.target.describe()}"
        return f"{self.name or 'The user'} {wants} and pays {self.loss}{limits}.{already}{known}{truth}"


@dataclass(frozen=True)
class Snooper(SingleUser):
    """A user with a fixed rule instead of Bayes' rule, as in Duncan, Keller-McNulty and Stokes (2001).

    The rule need not be good: U is its expected loss, over the records and the mask's randomness. Without data the
    records are drawn from ``belief``; with data they are the records at hand, and only the mask is random. Exact where
    the rule is linear and the release linear-Gaussian, otherwise averaged over releases (200 unless ``replicates`` says
    otherwise) with the error of that average; ``engine="exact"`` integrates ranks and cut-off noise on records at hand
    instead (normal noise, squared error). Nothing is known before the release, so U0 is not defined.

    Parameters
    ----------
    estimator : name, rule, target or callable
        ``"mean"``, ``"median"``, ``"lower median"`` (of an even number the lower of the two in the middle), ``"max"``,
        ``"min"``, ``"row"`` (the row of the target's record: index knowledge), `Row(j)`, `WeightedSum(weights)`, or any
        ``callable(release)`` that gives a number or a vector. A target stands for the same function of the release:
        ``Percentile(0.99)`` takes Y of rank ceil(n p) (position knowledge).
    target : Target
        What the snooper wants. With data it must be a function of the records, with one exception: the released mean
        for ``Parameter("mu")`` under squared error is valued by eqs 13 and 14, s^2/n plus the squared bias of the
        release, averaged over releases. (The variance of that average is taken off the squared bias, so that U does
        not depend on how many releases there are.)
    loss : Loss or callable, default squared error
        What it costs to be wrong.
    belief : Belief, optional
        Law of the records; needed, and used, only where no data are given. Under a flat prior the rule's error must not
        depend on the population mean.
    name : str, optional
        A name for tables and plots.

    Examples
    --------
    >>> from ruvdecision.targets import Maximum, Record
    >>> Snooper("row", Record(3)).describe()
    'The snooper takes row 3 of the release for record 3 and pays the squared error.'
    >>> Snooper("max", Maximum()).estimator
    Ranked(target=Maximum())
    """

    estimator: Any
    target: BaseTarget
    loss: Any = field(default_factory=Quadratic)
    belief: Any = None
    name: str | None = checked(None, check_text, do=NAME)
    has_rule: ClassVar[bool] = True

    if TYPE_CHECKING:

        def __init__(
            self,
            estimator: str | Rule | BaseTarget | Callable[..., ArrayLike],
            target: BaseTarget,
            loss: LossLike = ...,
            belief: Belief | None = None,
            name: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        rule = as_rule(self.estimator)
        if not is_target(self.target):
            do = "Use Record(0), Maximum(), Percentile(0.99), Average() ..."
            raise InputError("A snooper needs a target", self.target, do)
        if rule == Row() and not self.target.has_names:
            if self.target.is_a(Kind.RECORD):
                rule = Row(self.target.terms[0].row)
            elif not self.target.asks_each and not self.target.is_order_statistic:
                what = '"row" is the row of the target\'s record, and this target is not one record'
                do = "Use it with Record(j), Maximum(), Minimum(), Percentile(p) or OrderStatistic(rank)"
                raise InputError(what, self.target, f"{do}, or give the row: Row(3)")
        put("estimator", rule)
        put("loss", as_loss(self.loss))
        check_fields(self)
        if self.belief is not None:
            _check_belief("A snooper's belief must be a belief", self.belief)
            if self.target.is_order_statistic:
                self.target.rank(self.belief.records)
            else:
                _check_target(self.belief, self.target)

    def describe(self) -> str:
        belief = "" if self.belief is None else f" believes {self.belief.describe()},"
        takes = f"takes {self.estimator.describe()} for {self.target.describe()}"
        return f"{self.name or 'The snooper'}{belief} {takes} and pays {self.loss}."


def _check_belief(what: str, belief: object) -> None:
    if not isinstance(belief, BaseBelief):
        do = "Use NormalBelief, FiniteBelief, TableBelief or PyMCBelief, or derive your own from beliefs.BaseBelief"
        raise InputError(what, kind_of(belief), do)


def _check_target(belief: BaseBelief, target: BaseTarget) -> None:
    for part in target.single_targets:
        if not part.has_names:  # names are found, and looked at, where data and model meet
            belief.check_target(part)


def size_of(belief: Belief) -> int | None:
    """How many records a belief is about, None if only the data can tell."""
    try:
        return int(belief.records)
    except InputError:
        return None
