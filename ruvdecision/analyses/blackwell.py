"""When one release tells everything that another does: Blackwell's order of masks.

Mask a refines mask b if b's release can be made from a's by adding noise, without looking at the records again. Then
every user, whatever he wants to know and whatever being wrong costs him, has an uncertainty after a that is no larger
than after b: a is at least as useful and at least as risky. Blackwell (1953); for normal releases Hansen and Torgersen
(1974).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

from ..beliefs.finite import FiniteBelief
from ..beliefs.normal import NormalBelief
from ..channels.file_matrix import FileMatrix
from ..channels.finite import FiniteChannel, Kernel
from ..channels.linear import LinearChannel
from ..checks import as_float_array, check_finite, check_integer, is_integer
from ..engines.finite.whole_file import PossibleFiles, file_matrix
from ..engines.normal.releases import channel_of
from ..errors import InputError, RuvError, UnsupportedError
from ..evaluate import check_masks
from ..masks.base import Chain, Mask, check_mask
from ..masks.rows import UNMASKED, Suppress
from ..protocols import Array, Belief, Ints

LARGEST = 600
"""Most entries of a file whose linear channels are compared as full matrices."""
MOST_COLUMNS = 1000
"""Most columns of a record."""
SAME = 1e-8


def refines(a: Mask, b: Mask, belief: Belief | None = None, *, records: int | None = None, columns: int = 1) -> bool:
    """Whether release a tells everything that release b does.

    Decided for masks of one chain (``a`` refines ``a | more``), for linear-Gaussian channels, where a linear map and
    further noise must lead from a to b, and for finite channels, where a row-stochastic matrix must (a linear
    programme). Refuses what it cannot decide.

    Parameters
    ----------
    a, b : Mask
        The masks.
    belief : NormalBelief or FiniteBelief, optional
        What the records are: how many, how many columns, which outcomes. The order does not depend on priors, except
        that outcomes of probability zero do not count.
    records, columns : int, optional
        Size of a numeric file, instead of a belief.

    Examples
    --------
    >>> from ruvdecision.masks import Microaggregate, Noise
    >>> (
    ...     refines(Noise(variance=1.0), Noise(variance=2.0), records=5),
    ...     refines(Noise(variance=2.0), Noise(variance=1.0), records=5),
    ... )
    (True, False)
    >>> refines(Noise(variance=2.0), Noise(variance=2.0) | Microaggregate(groups=1))
    True
    """
    check_mask("a", a), check_mask("b", b)
    if belief is not None and records is not None:
        raise InputError("Give a belief or the number of records", "both", "Leave records out")
    if is_integer(belief):
        records, belief = int(belief), None
    if _refines_trivially(a, b):
        return True
    if belief is None and records is not None:
        size = check_integer("columns", columns, low=1, high=MOST_COLUMNS)
        count, eye = check_integer("records", records, low=1), np.eye(size)
        belief = NormalBelief(records=count, covariance=eye, prior_covariance=eye)
    if belief is None:
        do = "Give a belief, or records= and columns= of a numeric file"
        raise UnsupportedError(f"Whether {a} refines {b} depends on what the records are", do=do)
    # What a tells of a mask that b goes on from, it tells of b; but not the other way round.
    steps = b.parts
    problem: RuvError | None = None
    for stop in range(len(steps), 0, -1):
        part = steps[0] if stop == 1 else Chain(steps[:stop])
        if stop < len(steps) and not _reads_release_only(steps[stop]):
            continue
        try:
            answer = _decide_refinement(a, part, belief)
        except UnsupportedError as error:
            # A shorter part of the chain may have a law that decides it; the first reason is given if none has.
            problem = problem or error
            continue
        if answer:
            return True
        if stop == len(steps):
            return False
    assert problem is not None
    raise problem


def garbling(first: ArrayLike, second: ArrayLike) -> tuple[Array, float]:
    """The row-stochastic matrix G that brings ``first @ G`` nearest to ``second``, and the residual's largest entry.

    Both are row-stochastic with one row per category; second is a garbling of first if the residual is zero.

    >>> garbling([[1, 0], [0, 1]], [[0.9, 0.1], [0.2, 0.8]])[1] < 1e-9
    True
    """
    k, target = (check_finite(name, as_float_array(name, v)) for name, v in (("first", first), ("second", second)))
    if k.ndim != 2 or target.ndim != 2 or len(k) != len(target):
        got, do = f"shapes {k.shape} and {target.shape}", "Give two matrices of the same rows"
        raise InputError("Channels must have one row per category", got, do)
    inner, outer = k.shape[1], target.shape[1]
    product = kron(csr_array(k), eye_array(outer), format="csr")  # (K G) row by row
    slack = csr_array(np.ones((product.shape[0], 1)))
    upper = vstack([hstack([product, -slack]), hstack([-product, -slack])], format="csr")
    right = np.r_[target.reshape(-1), -target.reshape(-1)]
    total = hstack([kron(eye_array(inner), csr_array(np.ones((1, outer)))), csr_array((inner, 1))], format="csr")
    cost = np.r_[np.zeros(inner * outer), 1.0]
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    sums = {"A_eq": total, "b_eq": np.ones(inner)}
    found = linprog(cost, A_ub=upper, b_ub=right, **sums, bounds=(0, None), method="highs", options=tight)
    if found.x is None:
        raise RuvError("The linear programme that compares two channels failed", found.message, "Use fewer outcomes")
    matrix = np.clip(found.x[:-1].reshape(inner, outer), 0.0, None)
    matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix, float(np.abs(k @ matrix - target).max())


@dataclass(frozen=True, eq=False, repr=False)
class Order:
    """Which masks of a list tell everything that others do.

    ``table[i, j]`` is 1 if mask i refines j, 0 if not, -1 if not known.
    """

    masks: tuple[Mask, ...]
    table: Ints

    @property
    def more_informative(self) -> tuple[tuple[int, ...], ...]:
        """For every mask, the positions of the masks that tell more: all that it does, and not the other way round."""
        return self._marked_positions((self.table == 1) & (self.table.T == 0))

    @property
    def equally_informative(self) -> tuple[tuple[int, ...], ...]:
        """For every mask, the positions of the others that tell exactly the same."""
        return self._marked_positions((self.table == 1) & (self.table.T == 1))

    def _marked_positions(self, marked: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
        """The positions of the others that are marked, for every column."""
        others = marked & ~np.eye(len(self.masks), dtype=bool)
        return tuple(tuple(np.flatnonzero(column).tolist()) for column in others.T)

    def nearest_more_informative(self) -> list[str]:
        """For every mask the nearest one that tells more whatever the users want, "" if none: a column of a map."""
        out = []
        for above in self.more_informative:
            nearest = [
                i for i in above if not any(self.table[i, other] == 1 and self.table[other, i] == 0 for other in above)
            ]
            out.append(str(self.masks[nearest[0]]) if nearest else "")
        return out

    def __repr__(self) -> str:
        less = sum(bool(b) for b in self.more_informative)
        open_ = int(np.sum(self.table == -1))
        verdict = f"{less} tell less than another whatever the users want; {open_} pairs not decided"
        return f"Order({len(self.masks)} masks: {verdict})"


def blackwell_order(
    masks: Sequence[Mask], belief: Belief | None = None, *, records: int | None = None, columns: int = 1
) -> Order:
    """Compare all masks of a map by what they tell, whatever the users want.

    A release that another one refines serves no scientist better, whatever she wants; and it helps no intruder more,
    whatever he wants. The scientists' side of dominance is thus settled without any target or loss. Pairs that cannot
    be decided are marked as not known.

    Examples
    --------
    >>> from ruvdecision.masks import Noise, Release
    >>> blackwell_order([Release(), Noise(sd=1.0), Noise(sd=2.0)], records=3).nearest_more_informative()
    ['', 'Release()', 'Noise(sd=1)']
    """
    listed = tuple(check_masks(masks))
    table = np.full((len(listed), len(listed)), -1, dtype=np.int64)
    for i, a in enumerate(listed):
        for j, b in enumerate(listed):
            try:
                table[i, j] = 1 if i == j else int(refines(a, b, belief, records=records, columns=columns))
            except UnsupportedError:
                continue  # the table says that it is not known
    return Order(listed, table)


# -- chains ----------------------------------------------------------------------------------------------


def _refines_trivially(a: Mask, b: Mask) -> bool:
    """Whether b goes on from a's release, or tells nothing, or a tells all."""
    first, second = _steps_but_unmasked(a), _steps_but_unmasked(b)
    if not first or any(isinstance(s, Suppress) and s.columns is None and s.rows is None for s in second):
        return True
    if len(second) < len(first) or not all(
        x.family == y.family and x.numbers == y.numbers for x, y in zip(first, second, strict=False)
    ):
        return False
    return len(second) == len(first) or _reads_release_only(second[len(first)])


def _steps_but_unmasked(mask: Mask) -> list[Mask]:
    return [s for s in mask.parts if s != UNMASKED]


def _reads_release_only(step: Mask) -> bool:
    """Whether a step of a chain looks at nothing but the release before it."""
    return type(step).follow is Mask.follow


# -- channels --------------------------------------------------------------------------------------------


def _decide_refinement(a: Mask, b: Mask, belief: Belief | None) -> bool:
    if isinstance(belief, NormalBelief):
        return _linear_channel_refines(a, b, belief)
    if isinstance(belief, FiniteBelief):
        return _finite_channel_refines(a, b, belief)
    what = f"Releases are compared for normal and finite beliefs, not for a {type(belief).__name__}"
    raise UnsupportedError(what, do="Give records= and columns=")


def _linear_channel_refines(a: Mask, b: Mask, belief: NormalBelief) -> bool:
    """Compare A x + N(0, R): exact observations of b must follow from those of a, and a must know more about the rest.

    The information about x is A' R^-1 A; where R is singular some combinations of x are released exactly. On the x that
    a's exact combinations leave open, a's information less b's must be positive semidefinite (Hansen and Torgersen
    1974).
    """
    if belief.records * belief.k > LARGEST:
        what = f"A file of {belief.records * belief.k:,} entries is too large to compare channels entry by entry"
        raise UnsupportedError(what, f"a limit of {LARGEST}", "Compare the masks on a smaller file")
    exact_a, known_a = _noiseless_rows_and_information(_known_linear_channel(a, belief))
    exact_b, known_b = _noiseless_rows_and_information(_known_linear_channel(b, belief))
    _, s, v = np.linalg.svd(exact_a)
    open_ = v[int(np.sum(s > 1e-10)) :].T  # what a does not release exactly
    if exact_b.size and np.abs(exact_b @ open_).max(initial=0.0) > SAME:
        return False
    gap = open_.T @ (known_a - known_b) @ open_
    if not gap.size:
        return True
    scale = max(float(np.abs(known_a).max(initial=0.0)), float(np.abs(known_b).max(initial=0.0)), 1e-300)
    return bool(np.linalg.eigvalsh((gap + gap.T) / 2)[0] >= -SAME * scale)


def _known_linear_channel(mask: Mask, belief: NormalBelief) -> tuple[Array, Array]:
    channel: LinearChannel = channel_of(belief, mask)
    if channel.location != "known" or channel.open_samples:
        what = f"{mask} moves or drops rows at random, which is no linear channel"
        raise UnsupportedError(what, do="Compare the masks before that step")
    return channel.dense()


def _noiseless_rows_and_information(channel: tuple[Array, Array]) -> tuple[Array, Array]:
    """Orthonormal rows of what is released exactly, and the information about the rest."""
    a, r = channel
    values, vectors = np.linalg.eigh((r + r.T) / 2)
    noisy = values > 1e-11 * max(float(values[-1]), 1e-300)
    exact = vectors[:, ~noisy].T @ a
    size = float(np.abs(a).max(initial=0.0))
    if exact.size and size > 0:
        _, s, v = np.linalg.svd(exact)
        exact = v[: int(np.sum(s > 1e-10 * size))]
    else:
        exact = np.zeros((0, a.shape[1]))
    turned = vectors[:, noisy].T @ a
    return exact, np.asarray(turned.T @ (turned / values[noisy, None]))


def _finite_channel_refines(a: Mask, b: Mask, belief: FiniteBelief) -> bool:
    whole = [m for m in (file_matrix(belief, a), file_matrix(belief, b)) if m is not None]
    if whole:
        return _file_mechanism_refines(whole, belief)
    first, second = FiniteChannel.of(belief, a), FiniteChannel.of(belief, b)
    for channel, mask in ((first, a), (second, b)):
        if not channel.ordered or channel.sampled or channel.open_samples:
            raise UnsupportedError(f"{mask} moves or drops rows at random", do="Compare the masks before that step")
    live = belief.marginal > 0
    # Rows are masked apart, so that a file's release refines another's if every row's does, and only then.
    pairs = {(int(i), int(j)) for i, j in zip(first.kinds, second.kinds, strict=True)}
    undecided = False
    for i, j in pairs:
        answer = _kernel_refines(first.kernels[i], second.kernels[j], live)
        if answer is False:
            return False
        undecided = undecided or answer is None
    if undecided:
        what = f"Whether {a} with noise on categories refines {b} cannot be decided"
        raise UnsupportedError(what, do="Compare masks without noise")
    return True


def _kernel_refines(first: Kernel, second: Kernel, live: NDArray[np.bool_]) -> bool | None:
    """Whether one record's release refines another's; None if it cannot be decided."""
    if second.uninformative:
        return True
    missing = garbling(first.matrix[live], second.matrix[live])[1]
    if first.noise is None and second.noise is None:
        return missing <= SAME
    if first.noise is None:
        return True if missing <= SAME else None
    if first.uninformative:
        return False if second.noise is None else None
    same = first.outputs == second.outputs and np.allclose(first.matrix[live], second.matrix[live], atol=1e-12)
    if second.noise is not None and same:
        gap = np.linalg.eigvalsh(second.noise - first.noise)[0]
        if gap >= -1e-12 * max(1.0, float(np.abs(second.noise).max())):
            return True
        # More noise on both of two values tells less: with the sizes the other way round it is certainly not a
        # garbling.
        return False if first.noise.shape == (1, 1) else None
    return None


def _file_mechanism_refines(masks: Sequence[FileMatrix], belief: FiniteBelief) -> bool:
    """Compare mechanisms of the whole file, written as matrices over the same list of files."""
    if len(masks) < 2:
        what = "A mechanism of the whole file is compared with another one only"
        raise UnsupportedError(what, do="Compare masks of one kind")
    for mask in masks:
        if mask.records != belief.records or mask.outcomes != len(belief.levels):
            got = f"{mask.records} records with {mask.outcomes} outcomes"
            raise InputError("The mechanism was made for other files", got, "Give the belief that it was made for")
    files = PossibleFiles.of(belief, [*masks[0].followed, *masks[1].followed], 20_000)
    live = belief.prior @ files.chance > 0
    first, second = (m.matrix[files.index_in(m)][live] for m in masks)
    return garbling(first, second)[1] <= SAME
