"""One record behind a release whose law has chances of a few numbers besides a density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...errors import InputError
from ...posteriors import Finite, PartlyDiscrete
from ...posteriors.base import BasePosterior
from ...protocols import Array
from .one_record import OneRecord
from .support import no_density_error


@dataclass(frozen=True, eq=False)
class OneRecordWithPointMasses:
    """One entry whose law has chances of a few numbers besides a density."""

    continuous_part: OneRecord
    """The same without the point masses."""
    places: Array
    """``(A,)``"""
    log_chances: Array
    """``(S, A)``"""

    def averaged_laws(self, weightings: Sequence[Array], tolerance: float = 0.0) -> list[BasePosterior]:
        """As of `OneRecord`; chances and density are weighted by their shares of the evidence at each point."""
        shares, coarse = self._shares
        chances = [weights @ shares / weights.sum() for weights in weightings]
        # Halving the step takes off more than a sixteenth of the error.
        errors = [weights @ np.abs(shares - coarse)[:, -1] / weights.sum() / 16 for weights in weightings]
        values = [Finite(self.places, c[:-1] / c[:-1].sum()) if c[:-1].any() else None for c in chances]
        if not shares[:, -1].any():
            return [v for v in values if v is not None]
        curves = self.continuous_part.averaged_laws([weights * shares[:, -1] for weights in weightings], tolerance)
        masses = [c[:-1].sum() for c in chances]  # one less the density's share may be below zero by rounding
        return [
            curve if value is None else PartlyDiscrete(value, curve.less_certain(error / c[-1]), m / (m + c[-1]))
            for value, curve, error, c, m in zip(values, curves, errors, chances, masses, strict=True)
        ]

    def draws(self, rng: np.random.Generator) -> Array:
        """As of `OneRecord`."""
        shares = self._shares[0]
        sums = np.cumsum(shares, axis=1)
        place = (sums[:, :-1] < rng.random((len(sums), 1))).sum(axis=1)
        drawn = self.continuous_part.draws(rng) if shares[:, -1].any() else np.zeros(len(sums))
        return np.where(place < len(self.places), np.append(self.places, np.nan)[place], drawn)

    def log_evidence(self) -> Array:
        """As of `OneRecord`."""
        return np.logaddexp.reduce(self._log_parts[0], axis=1)

    @cached_property
    def _shares(self) -> Array:
        """Shares of the point masses and of the density in the evidence, by all points and by every other one.

        ``(2, S, A + 1)``
        """
        logs = self._log_parts
        top = logs.max(axis=2, keepdims=True)
        if not np.isfinite(top).any():
            raise no_density_error()
        parts = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
        return np.asarray(parts / np.maximum(parts.sum(axis=2, keepdims=True), 1e-300))

    @cached_property
    def _log_parts(self) -> Array:
        own = self.log_chances + np.asarray(self.continuous_part.likelihood.log(self.places[:, None]))[:, 0]
        # Without a release the density has all that the chances leave.
        left = np.log1p(-np.minimum(np.exp(self.log_chances).sum(axis=1), 1 - 1e-16))
        try:
            from_density = (
                left
                if self.continuous_part.likelihood.uninformative[0]
                else self.continuous_part.log_evidence_of_rules()
            )
        except InputError:
            from_density = np.full(len(own), -np.inf)  # the release leaves the point masses alone
        from_density = np.broadcast_to(from_density, (2, len(own)))
        return np.concatenate([np.broadcast_to(own, (2, *own.shape)), from_density[..., None]], axis=2)
