"""Weights of places for finitely many kinds of records: see `ruvdecision.engines.identity.row_laws`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...beliefs.finite import FiniteBelief
from ...channels.finite import FiniteChannel
from ...errors import InputError, UnsupportedError
from ...masks.base import Mask
from ...protocols import Array
from .row_laws import settled

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FiniteRows:
    """Weights for a finite belief: p(known | release, i) = sum over states of P(state | release) p(known | y_i, state).

    Every row of the release tells about the state, so the sum is exact Bayes. The matrix of a mask is that of whole
    records; columns that are masked apart multiply.
    """

    belief: FiniteBelief
    channel: FiniteChannel
    table: Any
    """What each outcome says about the known columns, ``(outcomes, known)``."""
    errors: Array

    @classmethod
    def of(
        cls, belief: FiniteBelief, mask: Mask, known: Sequence[int], errors: Array, codes: Ints | None = None
    ) -> FiniteRows:
        """Follow the mask; ``codes`` are the records, for noise that is a share of their covariance."""
        levels = belief.levels
        scale = None
        if codes is not None and not levels.labelled and belief.records > 1:
            scale = np.atleast_2d(np.cov(levels.numbers.reshape(len(levels), -1)[codes], rowvar=False))
        names: Any = levels.names if levels.labelled else levels.numbers
        table = np.array(names, dtype=object if levels.labelled else np.float64).reshape(len(levels), -1)[
            :, list(known)
        ]
        try:
            channel = FiniteChannel.of(belief, mask, scale)
        except UnsupportedError as error:
            raise UnsupportedError(
                error.what,
                error.got,
                (error.do or "").replace("It knows", "Identity knows PRAM, Recode, Round, Topcode,") or None,
            ) from None
        return cls(belief, channel, table, errors)

    def log_weights(self, seen: tuple[Array, Ints], z: Any) -> Array:
        """Log weight of every place, ``(respondents, places)``.

        ``evidence[u, x]`` is the log chance of each different released record for every outcome, up to a constant, and
        ``inverse`` says which of them stands in each row.
        """
        evidence, inverse = seen
        law, n = self.belief.law, self.belief.records
        like = self.likelihood(self.table, z, self.errors)
        chance = np.exp(evidence - evidence.max(axis=1, keepdims=True))
        of_row = chance @ law.T
        with np.errstate(divide="ignore"):
            counts = np.bincount(inverse, minlength=len(evidence)).astype(np.float64)
            there = counts > 0
            state = np.log(self.belief.prior) + counts[there] @ np.log(of_row[there])
        if state.max() == -np.inf:
            raise InputError(
                "The release cannot come from this belief",
                "probability zero",
                "Check that the release was made by this mask",
            )
        post = np.exp(state - state.max())
        post /= post.sum()
        share = np.where(of_row > 0, post / np.where(of_row > 0, of_row, 1.0), 0.0)
        # P(outcome of the record | its row, the whole release), one row per different released record.
        outcome = chance * (share @ law)
        weights = np.empty((len(z), n))
        weights[:, : len(inverse)] = (like @ outcome.T)[:, inverse]
        weights[:, len(inverse) :] = (like @ (post @ law))[:, None]
        with np.errstate(divide="ignore"):
            return settled(np.log(weights), 0)

    @staticmethod
    def likelihood(table: Any, z: Any, errors: Array) -> Array:
        """p(known values | outcome), ``(respondents, outcomes)``, up to a constant for each respondent."""
        log = np.zeros((len(z), len(table)))
        for j, variance in enumerate(errors):
            if variance > 0:
                numbers = np.asarray(z[:, j], dtype=np.float64)
                log -= (numbers[:, None] - table[:, j].astype(np.float64)) ** 2 / (2 * variance)
            else:
                log[z[:, j, None] != table[None, :, j]] = -np.inf
        top = log.max(axis=1, keepdims=True)
        if np.any(top == -np.inf):
            wrong = f"those of respondent {int(np.argmin(top[:, 0]))} among {len(z)}"
            raise InputError(
                "No record of the belief has the values that the intruder knows",
                wrong,
                "Check values=, or state error_sd=",
            )
        return np.exp(log - top)

    def simulate(self, codes: Ints, rng: np.random.Generator) -> tuple[Array, Ints, Ints]:
        """Mask records: evidence of each different released record, which of them each row is, and whose it is."""
        channel = self.channel
        n = len(channel.kinds)
        rows = np.sort(rng.choice(n, size=channel.kept, replace=False)) if channel.sampled else np.arange(n)
        # The same draws whatever the mask's numbers are, so that curves over them are smooth.
        uniform = rng.random(n)
        width = max(len(o) for k in channel.kernels for o in k.outputs)
        normal = rng.standard_normal((n, width))
        evidence: list[Array] = []
        inverse = np.empty(len(rows), dtype=np.int64)
        offset = 0
        for kind, kernel in enumerate(channel.kernels):
            mine = np.flatnonzero(channel.kinds[rows] == kind)
            if not len(mine):
                continue
            who = rows[mine]
            running = np.cumsum(kernel.matrix, axis=1)
            output = np.empty(len(mine), dtype=np.int64)
            for code in np.unique(codes[who]):
                members = codes[who] == code
                edges = running[code]
                output[members] = np.minimum(
                    np.searchsorted(edges, uniform[who[members]] * edges[-1], side="right"), len(edges) - 1
                )
            if kernel.noise is None:
                with np.errstate(divide="ignore"):
                    evidence.append(np.log(kernel.matrix.T))
                inverse[mine] = offset + output
                offset += kernel.matrix.shape[1]
                continue
            values, vectors = np.linalg.eigh(kernel.noise)
            root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
            seen = kernel.levels()[output] + normal[who, : len(root)] @ root
            log_density = kernel.log_densities(seen)
            top = log_density.max(axis=1, keepdims=True)
            with np.errstate(divide="ignore"):
                evidence.append(np.log(np.exp(log_density - top) @ kernel.matrix.T))
            inverse[mine] = offset + np.arange(len(mine))
            offset += len(mine)
        found = np.concatenate(evidence)
        # An output that no outcome gives says nothing and is never seen.
        return np.where((found > -np.inf).any(axis=1, keepdims=True), found, 0.0), inverse, rows
