"""Whether to publish the mask's numbers: both maps, and what publishing costs in risk and gains in utility."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np
import pandas as pd

from ..checks import as_seed_sequence
from ..engines.solving import check_user
from ..evaluate import Setting, evaluate
from ..maps.rumap import RUMap
from ..maps.show import few_digits
from ..masks.base import Mask
from ..protocols import Array
from ..users.mask_prior import MaskPriorLike, as_mask_prior
from ..users.panel import Role
from ..users.user import Snooper, User

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def price_of_publishing(
    masks: Sequence[Mask] | Mask,
    *,
    intruder: Role,
    scientist: Role,
    mask_prior: MaskPriorLike | None = None,
    **options: Unpack[Setting],
) -> PublishingPrice:
    """Map the releases twice: with the mask's numbers published to both users, and with the numbers kept secret.

    Trottini and Fienberg (2002) leave it open whether the agency should publish the variance of its noise. Telling it
    helps the scientist and the intruder alike: neither's U can rise, so that risk and utility both rise or stay.
    Snoopers follow a fixed rule and do not care.

    Parameters
    ----------
    masks : list of masks
        The candidate releases.
    intruder, scientist : User, Snooper or Panel
        The two users; whether they know the mask is set here.
    mask_prior : optional
        What users think of an unknown mask, as in `User`; a user's own ``mask_prior`` goes first.
    **options
        Of `evaluate`: data, replicates, seed, risk, utility, ... Both maps use the same random numbers.

    Returns
    -------
    PublishingPrice

    Examples
    --------
    >>> import ruvdecision as ruv
    >>> belief = ruv.NormalBelief(records=5, variance=2, prior_variance=5)
    >>> price = price_of_publishing(
    ...     [ruv.Noise(variance=1.0)],
    ...     intruder=ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
    ...     scientist=ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()),
    ...     seed=1,
    ... )
    >>> bool(price.risk_price[0] > 0), bool(price.utility_gain[0] > 0)
    (True, True)
    """
    roles = check_user("intruder", intruder), check_user("scientist", scientist)
    prior = None if mask_prior is None else as_mask_prior(mask_prior)
    options["seed"] = as_seed_sequence(options.get("seed"))

    def mapped(published: bool) -> RUMap:
        def with_knowledge_of_mask(user: User | Snooper) -> User | Snooper:
            if isinstance(user, Snooper):
                return user
            own = None if published else user.mask_prior or prior
            return dataclasses.replace(user, knows_mask=published, mask_prior=own)

        users = {role.name: role.user.replace(with_knowledge_of_mask) for role in roles}
        return evaluate(masks, **users, **options)

    return PublishingPrice(mapped(True), mapped(False))


@dataclass(frozen=True, eq=False, repr=False)
class PublishingPrice:
    """The map with the mask's numbers published, and the one with them kept secret; made by `price_of_publishing`."""

    published: RUMap
    unpublished: RUMap

    @property
    def releases(self) -> tuple[str, ...]:
        """Labels of the releases."""
        return tuple(self.published.releases)

    @property
    def risk_price(self) -> Array:
        """How much more risk there is if the numbers are published."""
        return np.asarray(_difference(self.published.risk, self.unpublished.risk))

    @property
    def utility_gain(self) -> Array:
        """How much more utility there is if the numbers are published."""
        return np.asarray(_difference(self.published.utility, self.unpublished.utility))

    def to_dataframe(self) -> pd.DataFrame:
        """One row per release: risk and utility of both, the differences and their standard errors.

        The two maps share their random numbers; the errors of a difference are added, which is never too small.
        """
        columns: dict[str, object] = {"release": self.releases, "technique": list(self.published.techniques)}
        columns |= {name: values for name, values in self.published.parameters.items() if name not in columns}
        for word, gap in (("risk", "risk_price"), ("utility", "utility_gain")):
            both = [m.column(word) for m in (self.published, self.unpublished)]
            columns |= {f"{word}_published": both[0].value, f"{word}_unpublished": both[1].value}
            columns |= {gap: _difference(both[0].value, both[1].value), f"{gap}_error": both[0].error + both[1].error}
        return pd.DataFrame(columns)

    @property
    def rumap(self) -> RUMap:
        """Both maps as one, named published and unpublished."""
        return RUMap.concat([self.published, self.unpublished], names=["published", "unpublished"])

    def plot(self, ax: Axes | None = None, *, max_risk: float | None = None) -> Axes:
        """Each release twice on the map, with an arrow from secret to published; see `plots.publishing`."""
        from .. import plots

        return plots.publishing(self, ax, max_risk=max_risk)

    def __str__(self) -> str:
        """One sentence that says what publishing costs at most and what it brings."""
        words = []
        for name, gap in (("risk", self.risk_price), ("utility", self.utility_gain)):
            with np.errstate(all="ignore"):
                share = 100 * gap / np.abs(self.unpublished.column(name).value)
            known = np.where(np.isfinite(share), share, -np.inf)
            place = int(np.argmax(known))
            if not np.isfinite(known[place]) or known[place] <= 0:
                words.append(f"does not raise {name}")
            else:
                words.append(f"raises {name} by at most {known[place]:.2g} % ({self.releases[place]})")
        return f"Publishing the mask's numbers {words[0]} and {words[1]}."

    def __repr__(self) -> str:
        table = self.to_dataframe().drop(columns="technique")
        return f"{self}\n{table.to_string(index=False, float_format=few_digits)}"


def _difference(a: Array, b: Array) -> Array:
    """The difference, zero where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, a - b)
