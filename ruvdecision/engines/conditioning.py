"""Conditioning a normal belief on a linear-Gaussian release, block by block.

Given the latent vector h (the population mean and any noise drawn once for the whole file) blocks are
independent. Each block gives information about h; the target follows from h and from its own block:

    J   = sum over blocks of H' V^-1 H,         P = Cov(h | release) = (I + P0 J)^-1 P0
    Cov(target | release) = T P T' + Cov(target | h, release)

with V = B Q B' + R, K = Q B' V^-1, T = G - K H. Covariances are built as sums of squares (Joseph's form), so
that none comes out negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..beliefs.normal import NormalBelief
from ..channels import Block, LinearChannel
from ..protocols import Array
from ..targets import Average, NewRecord, Parameter, Record

__all__ = ["Conditioned"]


@dataclass(frozen=True, eq=False)
class _Solved:
    """One shape of block after conditioning on h and the release."""

    seen: Any
    """Positions of the coordinates that are in the file."""
    gain: Array
    """K, shape (..., cells * k, seen)."""
    left: Array
    """Cov(cell means | h, release), shape (..., cells * k, cells * k)."""
    slope: Array
    """T, shape (..., cells * k, latents)."""
    weight: Array
    """H' V^-1, shape (..., latents, seen)."""
    view: Array
    """H, shape (..., seen, latents)."""
    away: Array | None = None
    """I - K B, where ``left`` was built from it."""
    noise: Array | None = None
    """R of what is seen, likewise."""


class Conditioned:
    """A normal belief given a linear-Gaussian release, for a whole family of masks at once."""

    def __init__(self, belief: NormalBelief, channel: LinearChannel) -> None:
        self.belief, self.channel = belief, channel
        self.k, self.n = belief.k, belief.records
        self.latents = self.k * (1 + len(channel.common))
        self.blocks = [self._solve(block) for block in channel.blocks]
        self.cov, self.lost = self._latent()

    # -- blocks and latents --------------------------------------------------------------------------

    def _solve(self, block: Block) -> _Solved:
        k, spread = self.k, self.belief.spread
        roots = block.shape.roots
        c = len(roots)
        size = c * k
        mean_part = np.kron(roots[:, None], np.eye(k))
        start = np.concatenate([mean_part, np.zeros((size, self.latents - k))], axis=1)
        seen = np.flatnonzero(block.alive.reshape(-1))
        q: Array = np.asarray(np.kron(np.eye(c), spread), dtype=np.float64) if c > 1 else spread
        if len(seen) == 0:
            nothing = np.zeros((1, size, 0))
            return _Solved(seen, nothing, q[None], start[None], np.zeros((1, self.latents, 0)), np.zeros((1, 0, self.latents)))
        if block.plain and len(seen) == size and not block.loads:
            # B is the identity: I - K = R V^-1 and Cov = Q V^-1 R lose no digits, however small the noise is.
            inverse = _inverse(q + block.r)
            away = block.r @ inverse
            left = _symmetric(away @ q)
            return _Solved(
                seen, q @ inverse, left, away @ start, np.swapaxes(start, -1, -2) @ inverse, np.broadcast_to(start, (1, size, self.latents))
            )
        b = block.b[:, seen, :]
        r = block.r[:, seen[:, None], seen]
        loads = (
            np.concatenate([np.broadcast_to(x, (max(len(x), 1), size, k))[:, seen] for x in block.loads], axis=-1) if block.loads else None
        )
        view = b @ mean_part
        if loads is not None:
            lead = np.broadcast_shapes(view.shape[:1], loads.shape[:1])
            view = np.concatenate([np.broadcast_to(view, lead + view.shape[1:]), np.broadcast_to(loads, lead + loads.shape[1:])], axis=-1)
        elif self.latents > k:
            view = np.concatenate([view, np.zeros(view.shape[:2] + (self.latents - k,))], axis=-1)
        # Cells that were averaged together repeat each other, so V may be singular.
        if block.plain or c == 1:
            bq = b @ q
            inverse = _inverse(bq @ np.swapaxes(b, -1, -2) + r)
            gain, weight = np.swapaxes(bq, -1, -2) @ inverse, np.swapaxes(view, -1, -2) @ inverse
        else:
            root = _root_of_inverse(b, self._root(), r)
            gain, weight = q @ _through(b, root), _through(view, root)
        away = _snap(np.eye(size) - gain @ b)
        left = _symmetric(away @ q @ np.swapaxes(away, -1, -2) + gain @ r @ np.swapaxes(gain, -1, -2))
        slope = _snap(start - gain @ view, float(roots.max()))
        return _Solved(seen, gain, left, slope, weight, view, away, r)

    def _root(self) -> Array:
        """A root of the covariance of a record."""
        return np.asarray(np.linalg.cholesky(self.belief.spread))

    def _latent(self) -> tuple[Array, Any]:
        """Cov(h | release), and which latents the release leaves entirely open under a flat prior."""
        k, d = self.k, self.latents
        information: Array = np.zeros((1, d, d))
        for block, solved in zip(self.channel.blocks, self.blocks, strict=True):
            information = information + block.shape.count * (solved.weight @ solved.view)
        information = _symmetric(information)
        lead = np.broadcast_shapes(information.shape[:1], *(c.shape[:1] for c in self.channel.common))
        noise = np.zeros(lead + (d - k, d - k))
        for i, covariance in enumerate(self.channel.common):
            noise[:, i * k : i * k + k, i * k : i * k + k] = covariance
        if self.belief.doubt is not None:
            prior = np.zeros(lead + (d, d))
            prior[:, :k, :k] = self.belief.doubt
            prior[:, k:, k:] = noise
            if d == 1:
                return prior / (1.0 + prior * information), np.zeros((1, d), dtype=bool)
            return _symmetric(np.asarray(np.linalg.solve(np.eye(d) + prior @ information, prior))), np.zeros((1, d), dtype=bool)
        # Flat prior: integrate the common noise out first, then invert what is known about the mean.
        a, b, c = information[:, :k, :k], information[:, :k, k:], information[:, k:, k:]
        mixed = np.linalg.solve(np.eye(d - k) + noise @ c, noise) if d > k else noise
        about_mean = _symmetric(a - b @ mixed @ np.swapaxes(b, -1, -2))
        scale = np.diagonal(a, axis1=-2, axis2=-1)
        lost = ~(np.diagonal(about_mean, axis1=-2, axis2=-1) > 1e-13 * scale)
        keep = np.where(lost, 0.0, 1.0)
        patched = about_mean * keep[:, :, None] * keep[:, None, :] + (1.0 - keep)[:, :, None] * np.eye(k)
        mean_cov = _inverse(patched) * keep[:, :, None] * keep[:, None, :]
        cross = -mean_cov @ b @ mixed
        rest = mixed + np.swapaxes(mixed, -1, -2) @ np.swapaxes(b, -1, -2) @ mean_cov @ b @ mixed
        cov = np.concatenate(
            [np.concatenate([mean_cov, cross], axis=-1), np.concatenate([np.swapaxes(cross, -1, -2), rest], axis=-1)], axis=-2
        )
        return cov, np.concatenate([lost, np.zeros(lost.shape[:1] + (d - k,), dtype=bool)], axis=-1)

    # -- targets -------------------------------------------------------------------------------------

    def covariance(self, parts: Sequence[Any], matrix: Array | None = None) -> Array:
        """Joint covariance of basic targets given the release, shape (masks or 1, len(parts) * k, ...).

        ``matrix`` gives the covariance of linear functions of the stacked targets instead. It is applied before
        anything infinite enters, so that a difference of two records is known even where their level is not.
        """
        slopes = [self._slope(p) for p in parts]
        lead = np.broadcast_shapes(self.cov.shape[:1], *(s.shape[:1] for s in slopes))
        t = np.concatenate([np.broadcast_to(s, lead + s.shape[1:]) for s in slopes], axis=-2)
        k = self.k
        rows: list[list[Array]] = [[self._left(a, b) for b in parts] for a in parts]
        left = rows[0][0]
        if len(parts) > 1:
            left = np.zeros(np.broadcast_shapes(*(x.shape[:1] for row in rows for x in row)) + (len(parts) * k,) * 2)
            for i, row in enumerate(rows):
                for j, x in enumerate(row):
                    left[:, i * k : i * k + k, j * k : j * k + k] = x
        if matrix is not None:
            t = np.where(np.abs(matrix @ t) < 1e-13 * (np.abs(matrix) @ np.abs(t)), 0.0, matrix @ t)
            left = _combined(matrix, left)
        total = t @ self.cov @ np.swapaxes(t, -1, -2) + left
        # Rounding may leave a variance a hair below zero where nothing is left to know, or a covariance beside it.
        total = _not_negative(_symmetric(total))
        if total.shape[-1] > 1:
            total = _apart(total)
        if np.any(self.lost):
            # A direction of the mean that nothing was said about: infinite variance wherever it enters.
            open_ = np.any((np.abs(t) > 0) & np.broadcast_to(self.lost, lead + (self.latents,))[:, None, :], axis=-1)
            open_ = np.broadcast_to(open_, total.shape[:2])
            total = np.where(open_[:, :, None] | open_[:, None, :], 0.0, total)
            total = _fill_diagonal(total, open_)
        return total

    def _slope(self, part: Any) -> Array:
        """How a target moves with the latents given the release."""
        k = self.k
        if isinstance(part, (Parameter, NewRecord)):
            return np.eye(k, self.latents)[None]
        if isinstance(part, Average):
            total: Array = np.zeros((1, k, self.latents))
            for block, solved in zip(self.channel.blocks, self.blocks, strict=True):
                roots = block.shape.roots
                for c, root in enumerate(roots):
                    total = total + (block.shape.count * root / self.n) * solved.slope[:, c * k : c * k + k]
            return total
        shape, _, cell = self._place(part)
        return self.blocks[shape].slope[:, cell * k : cell * k + k] / self.channel.blocks[shape].shape.roots[cell]

    def _left(self, first: Any, second: Any) -> Array:
        """Covariance of two targets given the latents and the release."""
        k = self.k
        if isinstance(first, NewRecord) and isinstance(second, NewRecord):
            return self.belief.spread[None]
        if isinstance(first, Average) and isinstance(second, Average):
            total: Array = np.zeros((1, k, k))
            for block, solved in zip(self.channel.blocks, self.blocks, strict=True):
                a = np.kron(block.shape.roots[:, None], np.eye(k)) / self.n
                if solved.away is None or solved.noise is None:
                    total = total + block.shape.count * (a.T @ solved.left @ a)
                    continue
                # Through the factors of ``left``: an average that the release tells exactly comes out as exactly known.
                away = _snap(a.T @ solved.away, float(block.shape.roots.max()) / self.n)
                root = away.reshape(away.shape[:2] + (-1, k)) @ self._root()
                gain = a.T @ solved.gain
                square = np.einsum("...icj,...lcj->...il", root, root) + gain @ solved.noise @ np.swapaxes(gain, -1, -2)
                total = total + block.shape.count * square
            return total
        if isinstance(first, Record) and isinstance(second, Average):
            return np.swapaxes(self._left(second, first), -1, -2)
        if isinstance(second, Record) and isinstance(first, Average):
            shape, _, cell = self._place(second)
            block, solved = self.channel.blocks[shape], self.blocks[shape]
            a = np.kron(block.shape.roots[:, None], np.eye(k)) / self.n
            return (a.T @ solved.left[:, :, cell * k : cell * k + k]) / block.shape.roots[cell]
        if isinstance(first, Record) and isinstance(second, Record):
            one, two = self._place(first), self._place(second)
            if one[:2] != two[:2]:
                return np.zeros((1, k, k))
            block, solved = self.channel.blocks[one[0]], self.blocks[one[0]]
            i, j = one[2], two[2]
            size = block.shape.sizes
            out = solved.left[:, i * k : i * k + k, j * k : j * k + k] / np.sqrt(float(size[i]) * float(size[j]))
            if i == j and size[i] > 1:
                same = self._row(first) == self._row(second)
                out = out + (float(same) - 1.0 / size[i]) * self.contrast(one[0], i)
            return out
        return np.zeros((1, k, k))

    def contrast(self, shape: int, cell: int) -> Array:
        """Cov of a contrast within a cell given the release, shape (masks or 1, k, k)."""
        block, spread = self.channel.blocks[shape], self.belief.spread
        seen = self._contrast_seen(block, cell)
        if len(seen) == 0:
            return spread[None]
        if block.plain and len(seen) == self.k and block.told[cell].all():
            noise = block.rw[:, cell]
            return _symmetric(noise @ _inverse(spread + noise) @ spread)
        gain, w, noise = self._contrast_gain(block, cell, seen)
        away = _snap(np.eye(self.k) - gain @ w)
        return _symmetric(away @ spread @ np.swapaxes(away, -1, -2) + gain @ noise @ np.swapaxes(gain, -1, -2))

    def _contrast_seen(self, block: Block, cell: int) -> Any:
        """Columns in which differences within a cell tell anything.

        A column that was averaged and then got noise shows pure noise, which tells something about the noise on
        the columns it is correlated with; unless no column shows differences at all.
        """
        if not np.any(block.told[cell] & block.alive[cell]):
            return np.zeros(0, dtype=np.int64)
        noisy = np.any(np.diagonal(block.rw[:, cell], axis1=-2, axis2=-1) > 0, axis=0)
        return np.flatnonzero(block.alive[cell] & (block.told[cell] | noisy))

    def _contrast_gain(self, block: Block, cell: int, seen: Any) -> tuple[Array, Array, Array]:
        w = (block.w[:, cell] * block.told[cell][:, None])[:, seen]
        noise = block.rw[:, cell][:, seen[:, None], seen]
        total = w @ self.belief.spread @ np.swapaxes(w, -1, -2) + noise
        inverse = _inverse(total) if block.told[cell][seen].all() else _pseudo_inverse(total)
        return self.belief.spread @ np.swapaxes(w, -1, -2) @ inverse, w, noise

    def record_covariance(self, shape: int, cell: int, matrix: Array | None = None) -> Array:
        """Cov of a record that lies in this cell (or of a linear function of it) given the release."""
        return self.covariance([_Placed(shape, cell)], matrix)

    def _place(self, part: Any) -> tuple[int, int, int]:
        if isinstance(part, _Placed):
            return part.shape, 0, part.cell
        return self.channel.layout.locate(self._row(part))

    def _row(self, part: Record) -> int:
        return part.row % self.n

    # -- means, once the release is known ------------------------------------------------------------

    def means(self, release: Array) -> _Means:
        """Posterior means given the released values, shape (n, k) with anything where nothing was released."""
        return _Means(self, np.nan_to_num(release, nan=0.0, posinf=0.0, neginf=0.0))


class _Placed(Record):
    """A record known by its cell only."""

    def __init__(self, shape: int, cell: int) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "cell", cell)
        object.__setattr__(self, "row", 0)

    shape: int
    cell: int


class _Means:
    """Posterior means of the latents and of every record, for one member of a family."""

    def __init__(self, given: Conditioned, release: Array) -> None:
        self.given = given
        k = given.k
        self.shape, self.copy, self.cell = given.channel.layout.rows()
        self.sums: list[Array] = []
        prior = np.zeros(given.latents)
        if given.belief.doubt is not None:
            prior[:k] = given.belief.centre
        push = np.zeros(given.latents)
        for t, (block, solved) in enumerate(zip(given.channel.blocks, given.blocks, strict=True)):
            c, count = len(block.shape.sizes), block.shape.count
            total = np.zeros((count, c, k))
            mine = self.shape == t
            np.add.at(total, (self.copy[mine], self.cell[mine]), release[mine])
            self.sums.append(total)
            y = (total / block.shape.roots[:, None]).reshape(count, c * k)[:, solved.seen]
            push += solved.weight[0] @ (y.sum(axis=0) - count * (solved.view[0] @ prior))
        self.latent = prior + given.cov[0] @ push
        self.release = release

    def records(self) -> Array:
        """Posterior mean of every record, shape (n, k)."""
        given, k = self.given, self.given.k
        out = np.zeros((given.n, k))
        for t, (block, solved) in enumerate(zip(given.channel.blocks, given.blocks, strict=True)):
            c, count = len(block.shape.sizes), block.shape.count
            sums, roots = self.sums[t], block.shape.roots
            y = (sums / roots[:, None]).reshape(count, c * k)[:, solved.seen]
            centre = np.kron(roots, self.latent[:k])
            means = centre + (y - solved.view[0] @ self.latent) @ solved.gain[0].T
            means = means.reshape(count, c, k) / roots[:, None]
            mine = np.flatnonzero(self.shape == t)
            out[mine] = means[self.copy[mine], self.cell[mine]]
            for cell in range(c):
                seen = given._contrast_seen(block, cell)
                if len(seen) and block.shape.sizes[cell] > 1:
                    gain = given._contrast_gain(block, cell, seen)[0][0]
                    rows = mine[self.cell[mine] == cell]
                    off = self.release[rows] - sums[self.copy[rows], cell] / block.shape.sizes[cell]
                    out[rows] += off[:, seen] @ gain.T
        return out

    def of(self, parts: Sequence[Any]) -> Array:
        """Stacked posterior means of basic targets."""
        k = self.given.k
        records = self.records() if any(isinstance(p, (Record, Average)) for p in parts) else None
        means = []
        for part in parts:
            if records is None or isinstance(part, (Parameter, NewRecord)):
                means.append(self.latent[:k])
            elif isinstance(part, Average):
                means.append(records.mean(axis=0))
            else:
                means.append(records[self.given._row(part)])
        return np.concatenate(means)


# -- small linear algebra over a leading axis --------------------------------------------------------


def _symmetric(x: Array) -> Array:
    return x if x.shape[-1] == 1 else (x + np.swapaxes(x, -1, -2)) / 2


def _inverse(x: Array) -> Array:
    return np.asarray(1.0 / x if x.shape[-1] == 1 else np.linalg.inv(x), dtype=np.float64)


def _root_of_inverse(b: Array, root: Array, r: Array) -> Array:
    """W with W W' the pseudo-inverse of B Q B' + R, where Q is root root' for every cell.

    It comes from the factor [B root, R^(1/2)], whose singular values span half as many decades as the eigenvalues of the
    sum, so that very small noise is told from none.
    """
    k = len(root)
    values, vectors = np.linalg.eigh(r)
    values = np.where(values > 1e-13 * values[..., -1:], values, 0.0)
    signal = (b.reshape(b.shape[:2] + (-1, k)) @ root).reshape(b.shape)
    noise = vectors * np.sqrt(values)[..., None, :]
    lead = np.broadcast_shapes(signal.shape[:1], noise.shape[:1])
    both = np.concatenate([np.broadcast_to(x, lead + x.shape[1:]) for x in (signal, noise)], axis=-1)
    # Judged on the correlation scale: units must not decide what counts as nothing.
    size = np.sqrt(np.sum(np.square(both), axis=-1, keepdims=True))
    size = np.where(size > 0, size, 1.0)
    u, s, _ = np.linalg.svd(both / size, full_matrices=False)
    return np.where((s > 1e-12 * s[..., :1])[..., None, :], u, 0.0) / (np.where(s > 0, s, 1.0)[..., None, :] * size)


def _through(x: Array, root: Array) -> Array:
    """X' W W'; a direction that X does not have is left out, not kept as rounding error times a large number."""
    turned = np.swapaxes(x, -1, -2)
    part = turned @ root
    part = np.where(np.abs(part) < 1e-13 * (np.abs(turned) @ np.abs(root)), 0.0, part)
    return np.asarray(part @ np.swapaxes(root, -1, -2))


def _combined(matrix: Array, covariance: Array) -> Array:
    """M C M'; a combination whose variance is the rounding error of its terms is exactly known."""
    out = matrix @ covariance @ matrix.T
    terms = np.einsum("ij,...jk,ik->...i", np.abs(matrix), np.abs(covariance), np.abs(matrix))
    keep = np.where(np.diagonal(out, axis1=-2, axis2=-1) > 1e-13 * terms, 1.0, 0.0)
    return np.asarray(out * keep[..., :, None] * keep[..., None, :])


def _pseudo_inverse(x: Array) -> Array:
    """Inverse of a positive semidefinite matrix on its range, judged on the correlation scale."""
    root = np.sqrt(np.diagonal(x, axis1=-2, axis2=-1))
    root = np.where(root > 0, root, 1.0)
    scale = root[..., :, None] * root[..., None, :]
    return np.linalg.pinv(x / scale, rcond=1e-12, hermitian=True) / scale


def _snap(x: Array, scale: float = 1.0) -> Array:
    """Set what is rounding error of a difference of this scale to zero, so that nothing left is exactly nothing."""
    return np.where(np.abs(x) < 1e-14 * scale, 0.0, x)


def _not_negative(x: Array) -> Array:
    """Clip the diagonal at zero."""
    index = np.arange(x.shape[-1])
    if np.all(x[:, index, index] >= 0):
        return x
    out = x.copy()
    out[:, index, index] = np.maximum(out[:, index, index], 0.0)
    return out


def _apart(x: Array) -> Array:
    """Take out the covariances of entries that are known up to rounding, where they are more than the variances allow."""
    variance = np.diagonal(x, axis1=-2, axis2=-1)
    tiny = variance < 1e-26 * variance.max(axis=-1, keepdims=True)
    if not tiny.any():
        return x
    root = np.sqrt(np.where(variance > 0, variance, 1.0))
    impossible = np.linalg.eigvalsh(x / (root[:, :, None] * root[:, None, :]))[:, 0] < -1e-10
    known = tiny & impossible[:, None]
    return np.where((known[:, :, None] | known[:, None, :]) & ~np.eye(x.shape[-1], dtype=bool), 0.0, x)


def _fill_diagonal(x: Array, where: Any) -> Array:
    """Put infinity on the diagonal at the marked places."""
    out = x.copy()
    index = np.arange(x.shape[-1])
    out[:, index, index] = np.where(where, np.inf, out[:, index, index])
    return out
