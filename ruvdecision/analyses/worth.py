"""What an observation is worth: the fall in a user's uncertainty from seeing more.

The value of information of Raiffa and Schlaifer, as a difference of U: U without the observation less U with it. For a
user who decides by Bayes' rule it is never negative when what is released without it can be made from what is released
with it, and the helpers here compare such pairs only. For an intruder the same number says what the observation costs
in risk.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import Data, Seed, as_seed_sequence, check_index, check_integer, check_kind, check_number, check_text
from ..engines.base import Problem, plan_for
from ..errors import InputError
from ..maps.show import Sentence
from ..masks.base import Batch, Mask, check_mask
from ..masks.coarsen import Round
from ..masks.rows import Release, Suppress
from ..protocols import Engine
from ..users.user import Snooper, User

BLOCKS = 10
"""Groups of replicates from whose differences the error is judged."""


@dataclass(frozen=True, repr=False)
class Worth(Sentence):
    """How much a user's uncertainty falls by seeing one release rather than another; made by `worth`."""

    gain: float
    error: float
    """Standard error of the gain; both uncertainties share their random numbers."""
    without: float
    """U after the poorer release."""
    having: float
    """U after the richer one."""
    before: float
    """U before any release."""
    what: str
    engine: str

    @property
    def relative_gain(self) -> float:
        """The gain as a share of the uncertainty without the observation; 0 if there was none."""
        return self.gain / self.without if self.without else 0.0

    def __float__(self) -> float:
        return self.gain

    def __str__(self) -> str:
        error = f" ± {self.error:.2g}" if self.error > 0 else ""
        gain = f"a gain of {self.gain:.5g}{error} ({100 * self.relative_gain:.3g} %)"
        return f"{self.what}: U falls from {self.without:.5g} to {self.having:.5g}, {gain}"


def worth(
    user: User | Snooper,
    mask: Mask,
    than: Mask | None = None,
    *,
    data: Data | None = None,
    engine: Engine | str = "auto",
    replicates: int | None = None,
    seed: Seed = None,
    what: str | None = None,
) -> Worth:
    """Expected gain of a user from one release rather than another, U(than) - U(mask).

    Exact where the engine is; otherwise both masks get the same random numbers, and the error is that of the
    difference. With data the gain is that for the records at hand, which may be negative: bad luck is possible, on
    average it is not.

    Parameters
    ----------
    user : User or Snooper
        Who sees the release. A snooper's fixed rule may lose by seeing more.
    mask, than : Mask
        The richer release and the poorer one; nothing at all (``Suppress()``) if ``than`` is not given.
    data, engine, replicates, seed
        As in `evaluate`.
    what : str, optional
        What is compared, in words.

    Examples
    --------
    >>> from ruvdecision.beliefs import NormalBelief
    >>> from ruvdecision.losses import Quadratic
    >>> from ruvdecision.masks import Noise
    >>> from ruvdecision.targets import Parameter
    >>> from ruvdecision.users.user import User
    >>> scientist = User(NormalBelief(records=10, variance=2, prior_variance=5), Parameter("mu"), Quadratic())
    >>> round(worth(scientist, Noise(variance=2.0)).gain, 6)  # 5 - 1 / (1/5 + 10/4)
    4.62963
    """
    check_kind("user", user, (User, Snooper), "Write worth(ruv.User(...), mask)")
    poorer = Suppress() if than is None else than
    check_mask("mask", mask), check_mask("than", poorer)
    if what is not None:
        check_text("what", what, "Say what is compared, or leave it out")
    if replicates is not None:
        replicates = check_integer("replicates", replicates, low=1)
    pair = Batch.of([mask, poorer])
    plan = plan_for(engine, Problem.of(user, pair, data))
    root = as_seed_sequence(seed)
    words = what or f"{mask} rather than {poorer}"
    count = replicates or (20 if user.has_rule else 10) * BLOCKS
    first = plan.with_other_seed(min(count, max(2, -(-count // BLOCKS))), root).run()[0]
    name = first.words(len(pair))[0]
    if not np.any(first.error) and not first.averaged:
        u = first.uncertainty
        return Worth(float(u[1] - u[0]), 0.0, float(u[1]), float(u[0]), float(first.before), words, name)
    blocks = [root.spawn(1)[0] for _ in range(BLOCKS)] if count >= 2 * BLOCKS else [root]
    size = max(1, round(count / len(blocks)))
    found = [plan.with_other_seed(size, s).run()[0] for s in blocks]
    table = np.array([f.uncertainty for f in found])
    gains = table[:, 1] - table[:, 0]
    # Too few to pair: as if they were independent, which is not too small.
    error = float(gains.std(ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else float(np.hypot(*found[0].error))
    mean = table.mean(axis=0)
    return Worth(float(gains.mean()), error, float(mean[1]), float(mean[0]), float(first.before), words, name)


def one_more_record(user: User, mask: Mask | None = None, row: int = -1, **options: Any) -> Worth:
    """What one row of the release is worth: the release as it is, against the release with that row taken out.

    Where records are masked one by one, that is the worth of having the respondent in the file. A mask that averages
    shows the same average in the other rows, and the row adds nothing to them.

    Parameters
    ----------
    user : User
        Who sees the release.
    mask : Mask, optional
        The mask; the records as they are if not given.
    row : int, default the last one
        Which row.
    **options
        As for `worth`.

    Examples
    --------
    >>> from ruvdecision.beliefs import NormalBelief
    >>> from ruvdecision.losses import Quadratic
    >>> from ruvdecision.targets import Parameter
    >>> from ruvdecision.users.user import User
    >>> scientist = User(NormalBelief(records=10, variance=2, prior_variance=5), Parameter("mu"), Quadratic())
    >>> round(one_more_record(scientist).gain, 6)  # 1 / (1/5 + 9/2) - 1 / (1/5 + 10/2)
    0.020458
    """
    mask = Release() if mask is None else check_mask("mask", mask)
    check_kind("user", user, (User, Snooper), "Ask for each member of a panel by itself")
    if user.belief is None:
        raise InputError("The user needs a belief that says how many records there are", user, "Give belief=")
    position = check_index("row", row, user.belief.records)
    options.setdefault("what", f"row {position} of {mask}")
    return worth(user, mask, mask | Suppress(rows=[position]), **options)


def one_more_variable(user: User, column: Hashable, mask: Mask | None = None, **options: Any) -> Worth:
    """What one column of the release is worth: the release as it is, against the release with that column taken out.

    Examples
    --------
    >>> from ruvdecision.beliefs import NormalBelief
    >>> from ruvdecision.losses import Quadratic
    >>> from ruvdecision.targets import Parameter
    >>> from ruvdecision.users.user import User
    >>> belief = NormalBelief(records=5, covariance=[[2, 1], [1, 2]], prior_covariance=[[4, 0], [0, 4]])
    >>> one_more_variable(User(belief, Parameter("mu", component=0), Quadratic()), 1).gain > 0  # correlated errors
    True
    """
    mask = Release() if mask is None else check_mask("mask", mask)
    options.setdefault("what", f"column {column!r} of {mask}")
    return worth(user, mask, mask | Suppress(columns=[column]), **options)


def one_more_digit(user: User, base: float, mask: Mask | None = None, *, digits: int = 1, **options: Any) -> Worth:
    """What a digit that rounding takes off is worth: rounded to ``base / 10``, against that rounded on to ``base``.

    The poorer release is rounded twice, so that it can be made from the richer one: 1.46 becomes 1.5, and then 2.
    Rounded at once it would be 1, and the two releases would tell different things.

    Parameters
    ----------
    user : User
        Who sees the release.
    base : float
        The coarser unit, 100 for hundreds.
    mask : Mask, optional
        What happens before the rounding; nothing if not given.
    digits : int, default 1
        How many digits are compared.
    **options
        As for `worth`.

    Examples
    --------
    >>> from ruvdecision.beliefs import FiniteBelief
    >>> from ruvdecision.losses import Quadratic
    >>> from ruvdecision.targets import Record
    >>> from ruvdecision.users.user import User
    >>> user = User(FiniteBelief([0.0, 1.0, 2.0, 10.0, 11.0, 12.0]), Record(0), Quadratic())
    >>> round(one_more_digit(user, 10).gain, 6)  # the last digit is worth its variance
    0.666667
    """
    unit = check_number("base", base, low=0.0, open_low=True)
    fine = Round(unit / 10.0 ** check_integer("digits", digits, low=1, high=300))
    richer: Mask = fine if mask is None else check_mask("mask", mask) | fine
    options.setdefault("what", f"rounding to {fine.base:g} rather than {unit:g}")
    return worth(user, richer, richer | Round(unit), **options)
