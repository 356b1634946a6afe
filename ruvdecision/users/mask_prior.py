"""What a user thinks the mask may have been, where its numbers are not published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..checks import (
    WithSettings,
    as_float_array,
    as_tuple,
    check_filled,
    check_finite,
    check_integer,
    check_number,
    check_shares,
    checked,
    is_single,
)
from ..errors import InputError
from ..masks.base import Mask, check_mask
from ..protocols import Array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from scipy.stats.distributions import rv_frozen

LOW, HIGH = 1e-3, 10.0
"""The default range of the noise variance, in variances of a record."""
POINTS, MOST_POINTS = 61, 2001
LARGEST = 5000
"""Most candidates for one release."""


@dataclass(frozen=True, eq=False, repr=False)
class MaskPrior(WithSettings):
    """A prior on the mask that made a release.

    The technique is known and the size of its noise is not: a candidate is the same chain with another variance in its
    `Noise`. The variance meant is the average over columns and records; the shape of a covariance, a share, or of sizes
    that differ between records is known. Each `Noise` of a chain has a variance of its own with this prior. A mask
    without noise has no number to hide. A list of masks is taken as it is, whatever was released.

    Without arguments the variance is log-uniform between 1/1000 and 10 times the variance of a record: the range
    depends on the user's belief and never on the mask that was used, which would tell the secret. The grid is fine
    enough for what a file of n records can tell: steps of half the relative posterior standard deviation sqrt(2 / n).

    Parameters
    ----------
    variances : array, optional
        What the noise variance may be; 0 is no noise.
    masks : list of masks, optional
        What the mask may be, instead of variances.
    weights : array, optional
        Prior weights of either, equal if not given; they are divided by their sum.
    low, high : float, optional
        Range of the log-uniform prior, in the units of the records.
    points : int, optional
        Points of its grid.

    Examples
    --------
    >>> from ruvdecision.masks import Noise
    >>> prior = MaskPrior(variances=[1.0, 4.0], weights=[3, 1])
    >>> prior.candidates(Noise(sd=1.5), scale=1.0)
    ((Noise(sd=1), Noise(sd=2)), array([0.75, 0.25]))
    """

    variances: Any = None
    masks: Any = None
    weights: Any = None
    low: float | None = checked(None, check_number, low=0, open_low=True)
    high: float | None = checked(None, check_number, low=0, open_low=True)
    points: int | None = checked(None, check_integer, low=2, high=LARGEST)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        super().__post_init__()
        listed = self.masks if self.variances is None else self.variances
        if self.variances is not None and self.masks is not None:
            raise InputError("MaskPrior takes variances or masks", "both", "Leave one of them out")
        if listed is not None and not (self.low is self.high is self.points is None):
            what = "low, high and points belong to the log-uniform prior"
            raise InputError(what, "a list beside them", "Leave them out")
        if self.variances is not None:
            found = check_finite("variances", as_float_array("variances", self.variances))
            if found.ndim != 1 or found.size == 0 or np.any(found < 0) or len(np.unique(found)) != found.size:
                what = "variances must be different numbers that are not negative"
                raise InputError(what, f"shape {found.shape}", "Give a flat list")
            listed = tuple(found.tolist())
            put("variances", listed)
        if self.masks is not None:
            do = "Write [ruv.Noise(variance=1), ruv.Noise(variance=4)]"
            listed = check_filled("masks", as_tuple(self.masks), do)
            put("masks", tuple(check_mask(f"masks[{i}]", mask) for i, mask in enumerate(listed)))
        if self.weights is not None:
            if listed is None:
                raise InputError("weights belong to a list", "no list", "Give variances= or masks= too")
            shares = check_shares("weights", self.weights, (len(listed),), "Give one for each variance or mask")
            put("weights", tuple(shares.tolist()))
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise InputError("low must be below high", (self.low, self.high), "Give the range of the noise variance")

    @classmethod
    def from_law(cls, law: rv_frozen, points: int = 101) -> MaskPrior:
        """A prior on the variance from a frozen scipy distribution, by equally likely points (midpoint quantiles).

        >>> import scipy.stats
        >>> MaskPrior.from_law(scipy.stats.gamma(2.0), points=3).variances[1].__round__(3)
        1.678
        """
        if not hasattr(law, "ppf"):
            do = "Write scipy.stats.gamma(2.0, scale=3.0), for example"
            raise InputError("law must be a frozen scipy distribution", law, do)
        points = check_integer("points", points, low=1, high=LARGEST)
        return cls(variances=np.unique(law.ppf((np.arange(points) + 0.5) / points)))

    def candidates(self, mask: Mask, scale: float, records: int = 1) -> tuple[tuple[Mask, ...], Array]:
        """What ``mask`` may have been in the eyes of the user, with prior probabilities.

        ``scale`` is the variance of a record under the user's belief, ``records`` the size of the file.
        """
        if mask.public_mask is not None:
            own, weights = self.candidates(mask.separate_releases[0], scale, records)
            return tuple(replace(mask, masks=(m, mask.public_mask)) for m in own), weights  # type: ignore[call-arg]
        if self.masks is not None:
            return self.masks, self._candidate_weights(len(self.masks))
        leaves = list(mask.leaves)
        noisy = [i for i, part in enumerate(leaves) if part.resized(1.0, 1.0) is not part]
        if not noisy:
            return (mask,), np.ones(1)
        sizes, weights = self.grid(scale, records)
        if len(sizes) ** len(noisy) > LARGEST:
            if self.variances is not None:
                what = f"{mask} hides {len(noisy)} sizes, too many combinations of {len(sizes)} variances"
                raise InputError(what, LARGEST, "Give fewer, or masks=")
            # Several unknown sizes: as many points for each as fit.
            sizes, weights = replace(self, points=max(2, int(LARGEST ** (1 / len(noisy))))).grid(scale, records)
        found, chances = [], []
        for choice in product(range(len(sizes)), repeat=len(noisy)):
            parts = list(leaves)
            for i, c in zip(noisy, choice, strict=True):
                parts[i] = parts[i].resized(float(sizes[c]), scale)
            found.append(mask.of_leaves(iter(parts)))
            chances.append(float(np.prod(weights[list(choice)])))
        return tuple(found), np.array(chances)

    def grid(self, scale: float, records: int = 1) -> tuple[Array, Array]:
        """The variances and their prior probabilities."""
        if self.variances is not None:
            return np.array(self.variances), self._candidate_weights(len(self.variances))
        low = LOW * scale if self.low is None else self.low
        high = HIGH * scale if self.high is None else self.high
        if low >= high:
            raise InputError("low must be below high", (low, high), "Give both ends of the range of the noise variance")
        points = self.points
        if points is None:
            step = 0.5 * np.sqrt(2.0 / records)
            points = int(np.clip(np.ceil(np.log(high / low) / step) + 1, POINTS, MOST_POINTS))
        return np.geomspace(low, high, points), self._candidate_weights(points)

    def _candidate_weights(self, size: int) -> Array:
        return np.full(size, 1.0 / size) if self.weights is None else np.array(self.weights)

    def describe(self) -> str:
        """A phrase for reports."""
        if self.masks is not None:
            return f"it may be one of {len(self.masks)} masks"
        if self.variances is not None:
            return f"its variance may be one of {len(self.variances)} values"
        low = f"{LOW:g} variances of a record" if self.low is None else f"{self.low:g}"
        high = f"{HIGH:g} variances of a record" if self.high is None else f"{self.high:g}"
        return f"its variance is log-uniform from {low} to {high}"


MaskPriorLike: TypeAlias = "MaskPrior | Mask | Sequence[Mask] | ArrayLike | rv_frozen"
"""What may stand for a prior on the mask: masks, variances, or a frozen scipy distribution of the variance."""


def as_mask_prior(given: MaskPriorLike) -> MaskPrior:
    """A `MaskPrior` from one, from a list of masks or of variances, or from a scipy distribution of the variance."""
    if isinstance(given, MaskPrior):
        return given
    if hasattr(given, "ppf"):
        return MaskPrior.from_law(given)
    if any(isinstance(one, Mask) for one in as_tuple(given)):
        return MaskPrior(masks=given)
    if isinstance(given, (Sequence, np.ndarray)) and not is_single(given) and len(given):
        return MaskPrior(variances=given)
    do = "Give MaskPrior(...), a list of masks or of variances"
    raise InputError("mask_prior must say what the mask may have been", given, do)
