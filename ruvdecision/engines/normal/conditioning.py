"""Conditioning a normal belief on a linear-Gaussian release, block by block.

Given the latent vector h (the population mean and any noise drawn once for the whole file) blocks are
independent. Each block gives information about h; the target follows from h and from its own block:

    J   = sum over blocks of H' V^-1 H,         P = Cov(h | release) = (I + P0 J)^-1 P0
    Cov(target | release) = T P T' + Cov(target | h, release)

with V = B Q B' + R, K = Q B' V^-1, T = G - K H. Covariances are built as sums of squares (Joseph's form), so
that none comes out negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...beliefs.normal import NormalBelief
from ...channels.linear import Block, LinearChannel
from ...numerics.semidefinite import (
    combined_covariance,
    concatenate_blocks,
    drop_spurious_covariances,
    exact_product,
    from_blocks,
    gram,
    joseph_update,
    not_negative,
    null_rows,
    parallel_sum,
    pseudo_inverse,
    right_divide,
    root,
    root_of_inverse,
    signal_noise_gains,
    snap_to_zero,
    sufficient_transform,
    symmetric,
    through,
    units,
    with_infinite_variance,
)
from ...protocols import Array, Ints
from ...targets import Kind, Term
from .latents import ExchangeableLaw, common_covariance, latent_law

MANY = 32
"""Records of a linear function from which on they are gathered by place."""


@dataclass(frozen=True, eq=False)
class _ConditionedBlock:
    """One shape of block after conditioning on h and the release."""

    observed: Ints
    """Positions of the coordinates that are in the file."""
    gain: Array
    """K, shape (..., cells * k, observed)."""
    covariance: Array
    """Cov(cell means | h, release), shape (..., cells * k, cells * k)."""
    slope: Array
    """T, shape (..., cells * k, latents)."""
    weight: Array
    """H' V^-1, shape (..., latents, observed)."""
    loading: Array
    """H, shape (..., observed, latents)."""
    complement: Array | None = None
    """I - K B, where ``covariance`` was built from it."""
    noise: Array | None = None
    """R of what is observed, likewise."""
    mean_observation: tuple[Array, Array] | None = None
    """H and V of the mean (with the common noise), where a block observes it and its repeated entries are known."""


class Conditioned:
    """A normal belief given a linear-Gaussian release, for a whole family of masks at once."""

    def __init__(self, belief: NormalBelief, channel: LinearChannel) -> None:
        self.belief, self.channel = belief, channel
        self.k, self.n, self.width = belief.k, belief.records, channel.width
        self.latents = self.k * (1 + len(channel.common))
        self._units = units(belief.record_covariance)
        self.blocks = [self._solve_block(block) for block in channel.blocks]
        self.revealed_noise = self._exactly_revealed_noise()
        draws = None if self.revealed_noise is None else self.revealed_noise[1]
        self.cov, self.unidentified = latent_law(
            belief.mu_covariance, channel.common, self.blocks, [b.shape for b in channel.blocks], self.k, draws
        )
        self._exchangeable = ExchangeableLaw.of(channel, belief.record_covariance, belief.mu_covariance, self.blocks)

    # -- blocks and latents --------------------------------------------------------------------------

    def _solve_block(self, block: Block) -> _ConditionedBlock:
        k, record_covariance = self.k, self.belief.record_covariance
        roots = block.shape.roots
        c = len(roots)
        size = c * k
        mean_part: Array = np.asarray(np.kron(roots[:, None], np.eye(k)), dtype=np.float64)
        start = np.concatenate([mean_part, np.zeros((size, self.latents - k))], axis=1)
        observed = np.flatnonzero(block.released.reshape(-1))
        q: Array = np.asarray(np.kron(np.eye(c), record_covariance), dtype=np.float64) if c > 1 else record_covariance
        if len(observed) == 0:
            nothing = np.zeros((1, size, 0))
            return _ConditionedBlock(
                observed, nothing, q[None], start[None], np.zeros((1, self.latents, 0)), np.zeros((1, 0, self.latents))
            )
        loading, alike = self._loading_of_latents(block, mean_part, observed)
        if block.plain and len(observed) == size and alike:
            # B is the identity: both shares of V keep their digits, however small the noise is.
            gain, complement = split = signal_noise_gains(q, block.r)
            slope = np.concatenate([complement @ mean_part] + [-gain @ mean_part] * len(block.loads), axis=-1)
            total = q + block.r
            weight = np.tile(right_divide(mean_part.T[None], total), (1, self.latents // k, 1))
            given_latents, seen = parallel_sum(q, block.r, split), (loading[..., :k], total)
            return _ConditionedBlock(observed, gain, given_latents, slope, weight, loading, mean_observation=seen)
        b = block.b[:, observed, :]
        r = block.r[:, observed[:, None], observed]
        unit = np.tile(self._units, c)
        mean_observation, reduction = None, None
        direct = block.plain or (c == 1 and self.width == k)
        if not direct and alike and len(b) == 1:
            # Cells that were averaged together and several releases repeat each other: the file without repetitions.
            released = np.tile(unit, self.width // k)[observed]
            reduction = sufficient_transform(b[0], r, released, unit)
        if direct or reduction is not None:
            shown, noise, loaded = b, r, loading
            if reduction is not None:
                shown, noise, loaded = reduction @ b, gram(reduction @ root(r)), reduction @ loading
            bq = shown @ q
            total = bq @ np.swapaxes(shown, -1, -2) + noise
            gain, weight = (
                right_divide(np.swapaxes(bq, -1, -2), total),
                right_divide(np.swapaxes(loaded, -1, -2), total),
            )
            mean_observation = (loaded[..., :k], total) if alike else None
            if reduction is not None:
                gain, weight = gain @ reduction, weight @ reduction
                if self.width > k:
                    # What an exact release leaves to a noisy one is nothing, and not the rounding error of that.
                    gain = snap_to_zero(gain, unit[:, None] / released)
        else:
            lower = root_of_inverse(b, self._root_of_record_covariance(), r)
            gain, weight = q @ through(b, lower), through(loading, lower)
        complement = snap_to_zero(np.eye(size) - gain @ b, unit[:, None] / unit)
        given_latents = joseph_update(complement, q, gain, r)
        scale = float(roots.max()) * unit[:, None] / np.tile(self._units, self.latents // k)
        slope = snap_to_zero(start - gain @ loading, scale)
        return _ConditionedBlock(observed, gain, given_latents, slope, weight, loading, complement, r, mean_observation)

    def _loading_of_latents(self, block: Block, mean_part: Array, observed: Ints) -> tuple[Array, bool]:
        """H, and whether every common draw enters as the mean does."""
        mean = block.b[:, observed, :] @ mean_part
        parts, alike = [mean], True
        for load in block.loads:
            entered = np.broadcast_to(load, (max(len(load), 1), *load.shape[-2:]))[:, observed]
            same = bool(np.all(np.abs(entered - mean) <= 1e-12 * float(block.shape.roots.max())))
            parts.append(mean if same else entered)
            alike = alike and same
        return concatenate_blocks(parts), alike

    def _exactly_revealed_noise(self) -> tuple[list[Array], Array] | None:
        """What several releases tell exactly of common draws: by one as it is and one with such noise it is undone.

        For the first mask the map from what is observed of each shape of block to the draws' mean, and for all masks
        their covariance. None if nothing is known exactly.
        """
        k, common = self.k, self.channel.common
        if not common or self.width == k:
            return None
        prior = common_covariance(common, k)
        arrays = [x for block in self.channel.blocks for x in (block.b, block.r)]
        lead = max(map(len, [prior, *arrays, *(s.loading for s in self.blocks)]))
        maps: list[Array] = []
        covariance, found = np.broadcast_to(prior, (lead, *prior.shape[1:])).copy(), False
        for member in range(lead):
            pick = lambda x, i=member: x[min(i, len(x) - 1)]  # noqa: E731
            views = []
            for block, solved in zip(self.channel.blocks, self.blocks, strict=True):
                at = solved.observed
                cells = len(block.shape.roots)
                signal = pick(block.b)[at].reshape(len(at), cells, k) @ self._root_of_record_covariance()
                signal = signal.reshape(len(at), cells * k)
                views.append(null_rows(np.concatenate([signal, root(pick(block.r)[at[:, None], at])], axis=1)))
            pairs = zip(views, self.blocks, strict=True)
            exact_rows = np.concatenate([exact_product(view, pick(s.loading)[:, k:]) for view, s in pairs])
            own = covariance[member]
            gain = (
                own @ exact_rows.T @ pseudo_inverse(exact_rows @ own @ exact_rows.T)
                if len(exact_rows)
                else np.zeros((len(own), 0))
            )
            found = found or bool(np.abs(exact_rows).max(initial=0.0) > 1e-12)
            covariance[member] = joseph_update(
                snap_to_zero(np.eye(len(own)) - gain @ exact_rows), own, gain, np.zeros((len(exact_rows),) * 2)
            )
            if not maps:
                stops = np.cumsum([len(view) for view in views])[:-1]
                maps = [g @ view for g, view in zip(np.split(gain, stops, axis=1), views, strict=True)]
        return (maps, covariance) if found else None

    @property
    def latent_mean(self) -> Array:
        """The latents before the release; zero for the mean under a flat prior, whose part the caller adds."""
        found = np.zeros(self.latents)
        if self.belief.mu_covariance is not None:
            found[: self.k] = self.belief.mu_mean
        return found

    def _root_of_record_covariance(self) -> Array:
        """A root of the covariance of a record."""
        return np.asarray(np.linalg.cholesky(self.belief.record_covariance))

    # -- targets -------------------------------------------------------------------------------------

    def covariance(self, parts: Sequence[Term], matrix: Array | None = None) -> Array:
        """Joint covariance of basic targets given the release, shape (masks or 1, len(parts) * k, ...).

        ``matrix`` gives the covariance of linear functions of the stacked targets instead. It is applied before
        anything infinite enters, so that a difference of two records is known even where their level is not.
        """
        many = matrix is not None and len(parts) > MANY and all(p.kind is Kind.RECORD and not p.index for p in parts)
        if self._exchangeable is not None and not many:
            total = self._exchangeable.covariance(
                parts, matrix, lambda p: (*self._block_and_cell(p), self.row_in_file(p)), self.contrast
            )
            return not_negative(symmetric(total))
        if matrix is not None and many:
            t, given_latents = self._weighted_rows(parts, matrix)
        else:
            t = concatenate_blocks([self._slope_of_target(p) for p in parts], axis=-2)
            given_latents = from_blocks([[self._covariance_given_latents(a, b) for b in parts] for a in parts])
            if matrix is not None:
                t, given_latents = self._combined_slopes(matrix, parts, t), combined_covariance(matrix, given_latents)
        total = t @ self.cov @ np.swapaxes(t, -1, -2) + given_latents
        # Rounding may leave a variance a hair below zero where nothing remains unknown, or a covariance beside it.
        total = not_negative(symmetric(total))
        if total.shape[-1] > 1:
            total = drop_spurious_covariances(total)
        if np.any(self.unidentified):
            # A direction of the mean that nothing was said about: infinite variance wherever it enters.
            total = with_infinite_variance(total, np.any((t != 0) & self.unidentified[:, None, :], axis=-1))
        return total

    def _weighted_rows(self, parts: Sequence[Term], matrix: Array) -> tuple[Array, Array]:
        """Slopes of linear functions of many records, and their covariance given the latents.

        Records of one place go together, not pair by pair.
        """
        place = np.array([self.row_in_file(p) for p in parts])
        shape, copy, cell = (a[place] for a in self.channel.layout.place_of_rows())
        weights = matrix.reshape(len(matrix), -1, self.k).transpose(1, 0, 2)
        t, total = np.zeros((1, len(matrix), self.latents)), np.zeros((1, len(matrix), len(matrix)))
        for kind in np.unique(shape):
            block, solved, mine = self.channel.blocks[kind], self.blocks[kind], np.flatnonzero(shape == kind)
            size, (_, group) = block.shape.sizes, np.unique(copy[mine], return_inverse=True)
            sums = np.zeros((group.max() + 1, len(size), *weights.shape[1:]))
            np.add.at(sums, (group, cell[mine]), weights[mine])
            scaled = (sums / block.shape.roots[:, None, None]).transpose(0, 2, 1, 3).reshape(len(sums), len(matrix), -1)
            t = t + scaled.sum(axis=0) @ solved.slope
            total = total + np.einsum("pia,lab,pjb->lij", scaled, solved.covariance, scaled, optimize=True)
            for c in np.flatnonzero(np.asarray(size) > 1):
                own, inner = weights[mine[cell[mine] == c]], sums[:, c]
                pairs = np.einsum("pia,pjb->iajb", own, own) - np.einsum("pia,pjb->iajb", inner, inner) / size[c]
                total = total + np.einsum("iajb,lab->lij", pairs, self.contrast(int(kind), int(c)))
        return t, total

    def _combined_slopes(self, matrix: Array, parts: Sequence[Term], slopes: Array) -> Array:
        """How linear functions of the targets move with the latents."""
        turned = exact_product(matrix, slopes)
        blocks = matrix.reshape(len(matrix), -1, self.k)
        apart_from_mean = np.all(np.abs(blocks.sum(axis=1)) <= 1e-13 * np.abs(blocks).sum(axis=1), axis=-1)
        if len(parts) == 1 or not apart_from_mean.any():
            return turned
        # The mean itself cancels out of a difference; the product of gain and loading remains, however small it is.
        short = [
            np.zeros((1, self.k, self.latents))
            if p.is_outside_file
            else self._block_matrix_for_term(p, lambda b: b.gain @ b.loading)
            for p in parts
        ]
        return np.where(apart_from_mean[:, None], -exact_product(matrix, concatenate_blocks(short, axis=-2)), turned)

    def _slope_of_target(self, part: Term) -> Array:
        """How a target moves with the latents given the release."""
        return (
            np.eye(self.k, self.latents)[None]
            if part.is_outside_file
            else self._block_matrix_for_term(part, lambda b: b.slope)
        )

    def _block_matrix_for_term(self, part: Term, of: Callable[[_ConditionedBlock], Array]) -> Array:
        """What a matrix with a row per coordinate of a block's cells says of a record, or of the average."""
        k = self.k
        if part.kind is Kind.AVERAGE:
            pairs = zip(self.channel.blocks, self.blocks, strict=True)
            return sum(
                (block.shape.count * (self.cell_weights_in_average(block) @ of(solved)) for block, solved in pairs),
                np.zeros(1),
            )
        shape, _, cell = self._block_and_cell(part)
        return of(self.blocks[shape])[:, cell * k : cell * k + k] / self.channel.blocks[shape].shape.roots[cell]

    def cell_weights_in_average(self, block: Block) -> Array:
        """What each cell of a block adds to the average of all records, (k, cells * k)."""
        return np.asarray(np.kron(block.shape.roots, np.eye(self.k)) / self.n)

    def _covariance_given_latents(self, first: Term, second: Term) -> Array:
        """Covariance of two targets given the latents and the release."""
        k = self.k
        if first.kind is Kind.NEW and second.kind is Kind.NEW:
            return self.belief.record_covariance[None]
        if first.kind is Kind.AVERAGE and second.kind is Kind.AVERAGE:
            total: Array = np.zeros((1, k, k))
            for block, solved in zip(self.channel.blocks, self.blocks, strict=True):
                a = self.cell_weights_in_average(block)
                if solved.complement is None or solved.noise is None:
                    total = total + block.shape.count * (a @ solved.covariance @ a.T)
                    continue
                # Through the factors of ``covariance``: an average that the release determines comes out as known.
                unit = self._units[:, None] / np.tile(self._units, len(block.shape.roots))
                complement = snap_to_zero(a @ solved.complement, float(block.shape.roots.max()) / self.n * unit)
                root = complement.reshape(complement.shape[:2] + (-1, k)) @ self._root_of_record_covariance()
                gain = a @ solved.gain
                square = np.einsum("...icj,...lcj->...il", root, root) + gain @ solved.noise @ np.swapaxes(gain, -1, -2)
                total = total + block.shape.count * square
            return total
        if first.kind is Kind.RECORD and second.kind is Kind.AVERAGE:
            return np.swapaxes(self._covariance_given_latents(second, first), -1, -2)
        if second.kind is Kind.RECORD and first.kind is Kind.AVERAGE:
            shape, _, cell = self._block_and_cell(second)
            block, solved = self.channel.blocks[shape], self.blocks[shape]
            here = solved.covariance[:, :, cell * k : cell * k + k]
            return np.asarray(self.cell_weights_in_average(block) @ here / block.shape.roots[cell])
        if first.kind is Kind.RECORD and second.kind is Kind.RECORD:
            one, two = self._block_and_cell(first), self._block_and_cell(second)
            if one[:2] != two[:2]:
                return np.zeros((1, k, k))
            block, solved = self.channel.blocks[one[0]], self.blocks[one[0]]
            i, j = one[2], two[2]
            size = block.shape.sizes
            out = solved.covariance[:, i * k : i * k + k, j * k : j * k + k] / np.sqrt(float(size[i]) * float(size[j]))
            if i == j and size[i] > 1:
                same = self.row_in_file(first) == self.row_in_file(second)
                out = out + (float(same) - 1.0 / size[i]) * self.contrast(one[0], i)
            return out
        return np.zeros((1, k, k))

    def contrast(self, shape: int, cell: int) -> Array:
        """Cov of a contrast within a cell given the release, shape (masks or 1, k, k)."""
        block, record_covariance = self.channel.blocks[shape], self.belief.record_covariance
        observed = self._contrast_columns(block, cell)
        if len(observed) == 0:
            return record_covariance[None]
        if block.plain and len(observed) == self.k and block.contrasts_released[cell].all():
            return parallel_sum(record_covariance, block.rw[:, cell])
        gain, w, noise = self._contrast_gain(block, cell, observed)
        complement = snap_to_zero(np.eye(self.k) - gain @ w, self._units[:, None] / self._units)
        return joseph_update(complement, record_covariance, gain, noise)

    def _contrast_columns(self, block: Block, cell: int) -> Ints:
        """Columns in which differences within a cell tell anything.

        A column that was averaged and then got noise shows pure noise, which tells something about the noise on
        the columns it is correlated with; unless no column shows differences at all.
        """
        if not np.any(block.contrasts_released[cell] & block.released[cell]):
            return np.zeros(0, dtype=np.int64)
        noisy = np.any(np.diagonal(block.rw[:, cell], axis1=-2, axis2=-1) > 0, axis=0)
        return np.flatnonzero(block.released[cell] & (block.contrasts_released[cell] | noisy))

    def _contrast_gain(self, block: Block, cell: int, observed: Ints) -> tuple[Array, Array, Array]:
        w = (block.w[:, cell] * block.contrasts_released[cell][:, None])[:, observed]
        noise = block.rw[:, cell][:, observed[:, None], observed]
        if self.width > self.k and len(w) == 1:
            # Several releases may repeat each other.
            unit = np.tile(self._units, self.width // self.k)[observed]
            reduction = sufficient_transform(w[0], noise, unit, self._units)
            shown = reduction @ w
            across = self.belief.record_covariance @ np.swapaxes(shown, -1, -2)
            gain = right_divide(across, shown @ across + gram(reduction @ root(noise))) @ reduction
            return snap_to_zero(gain, self._units[:, None] / unit), w, noise
        total = w @ self.belief.record_covariance @ np.swapaxes(w, -1, -2) + noise
        across = self.belief.record_covariance @ np.swapaxes(w, -1, -2)
        regular = block.contrasts_released[cell][observed].all() and self.width == self.k
        return right_divide(across, total) if regular else across @ pseudo_inverse(total), w, noise

    def record_covariance(self, shape: int, cell: int, matrix: Array | None = None) -> Array:
        """Cov of a record that lies in this cell (or of a linear function of it) given the release."""
        return self.covariance([record_in(shape, cell)], matrix)

    def _block_and_cell(self, part: Term) -> tuple[int, int, int]:
        if part.index:
            shape, cell = part.index
            return shape, 0, cell
        return self.channel.layout.cell_of_row(self.row_in_file(part))

    def row_in_file(self, part: Term) -> int:
        return part.row % self.n

    # -- means, once the release is known ------------------------------------------------------------

    def means(self, release: Array) -> _Means:
        """Posterior means given the released values, shape (n, k) with anything where nothing was released."""
        return _Means(self, np.nan_to_num(release, nan=0.0, posinf=0.0, neginf=0.0))


def record_in(shape: int, cell: int) -> Term:
    """A record known by its cell only."""
    return Term(Kind.RECORD, index=(shape, cell))


class _Means:
    """Posterior means of the latents and of every record, for one member of a family."""

    def __init__(self, given: Conditioned, release: Array) -> None:
        self.given, self.release, k = given, release, given.k
        self.shape, self.copy, self.cell = given.channel.layout.place_of_rows()
        self.tables = cell_means(given.channel, release)
        observed = [table[:, solved.observed] for table, solved in zip(self.tables, given.blocks, strict=True)]
        prior = given.latent_mean
        if given.revealed_noise is not None:
            # Every block of a shape tells the same of a common draw.
            for move, y in zip(given.revealed_noise[0], observed, strict=True):
                prior[k:] += move @ y.mean(axis=0)
        score = np.zeros(given.latents)
        for y, solved in zip(observed, given.blocks, strict=True):
            score += solved.weight[0] @ (y.sum(axis=0) - len(y) * (solved.loading[0] @ prior))
        self.latent = prior + given.cov[0] @ score

    def records(self) -> Array:
        """Posterior mean of every record, shape (n, k)."""
        given, k = self.given, self.given.k
        out = np.zeros((given.n, k))
        for t, (block, solved) in enumerate(zip(given.channel.blocks, given.blocks, strict=True)):
            roots, y = block.shape.roots, self.tables[t][:, solved.observed]
            means = np.kron(roots, self.latent[:k]) + (y - solved.loading[0] @ self.latent) @ solved.gain[0].T
            mine = np.flatnonzero(self.shape == t)
            out[mine] = (means.reshape(len(y), -1, k) / roots[:, None])[self.copy[mine], self.cell[mine]]
            shown = self.tables[t].reshape(len(y), len(roots), -1) / roots[:, None]
            for cell, size in enumerate(block.shape.sizes):
                observed = given._contrast_columns(block, cell)
                if len(observed) and size > 1:
                    gain = given._contrast_gain(block, cell, observed)[0][0]
                    rows = mine[self.cell[mine] == cell]
                    out[rows] += (self.release[rows] - shown[self.copy[rows], cell])[:, observed] @ gain.T
        return out

    def of(self, parts: Sequence[Term]) -> Array:
        """Stacked posterior means of basic targets."""
        k = self.given.k
        records = self.records() if not all(p.is_outside_file for p in parts) else None
        means = []
        for part in parts:
            if records is None or part.is_outside_file:
                means.append(self.latent[:k])
            elif part.kind is Kind.AVERAGE:
                means.append(records.mean(axis=0))
            else:
                means.append(records[self.given.row_in_file(part)])
        return np.concatenate(means)


def cell_means(channel: LinearChannel, values: Array) -> list[Array]:
    """Sums of the rows of every cell over the root of its size, a table ``(blocks, cells * width)`` per shape.

    Summed as distances from their mean: a million values near 1e8 one after the other would lose what they differ by.
    """
    shape, copy, cell = channel.layout.place_of_rows()
    found = []
    for t, block in enumerate(channel.blocks):
        mine, size = shape == t, (block.shape.count, len(block.shape.sizes))
        rows, at = values[mine], (copy[mine], cell[mine])
        centre = rows.mean(axis=0) if len(rows) else np.zeros(values.shape[1])
        total, count = np.zeros((*size, values.shape[1])), np.zeros(size)
        np.add.at(total, at, rows - centre)
        np.add.at(count, at, 1)
        found.append(((total + count[..., None] * centre) / block.shape.roots[:, None]).reshape(size[0], -1))
    return found


def released_entries(channel: LinearChannel) -> NDArray[np.bool_]:
    """Which entries are in the file, shape (n, width)."""
    shape, _, cell = channel.layout.place_of_rows()
    found = np.empty((channel.layout.n, channel.width), dtype=bool)
    for t, block in enumerate(channel.blocks):
        mine = shape == t
        found[mine] = block.released[cell[mine]]
    return found
