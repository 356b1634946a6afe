"""Any loss that a user can write as a function of estimate and truth."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from ..checks import check_text, name_of, refuse_class
from ..errors import InputError, UnsupportedError, describe_failure
from ..numerics.roots import least_near
from ..protocols import Array, Loss, Posterior
from .base import BayesLoss
from .search import candidate_estimates, least_vector


@dataclasses.dataclass(frozen=True, repr=False)
class CustomLoss(BayesLoss):
    """A loss given by a function; its estimate is found by numerical minimisation of the expected loss.

    For numbers the whole line is scanned and the deepest valleys searched, so that the loss need not be convex; for
    vectors a quasi-Newton search and a simplex start from several points. The values of a finite target are always
    tried. Expectations are split at the estimate, where a loss has its kink most often.

    Parameters
    ----------
    function : callable
        ``function(estimate, truth)``, not negative and finite. Best if it takes arrays (for vectors with the components
        along the last axis, giving one loss per vector); otherwise it is called point by point, which is slow.
    name : str, optional
        A name for tables and reports.
    location_free : bool, default False
        True if the loss depends on the difference alone, so that its uncertainty does not depend on where the posterior
        lies.

    Examples
    --------
    >>> from ruvdecision.posteriors import Gaussian
    >>> fourth = CustomLoss(lambda e, t: (e - t) ** 4, name="fourth power")
    >>> float(fourth.uncertainty(Gaussian.scalar(mean=1.0, var=2.0)).value.round(9))
    12.0
    """

    unit = "a loss of the user's own"
    searches = True
    function: Callable[[Any, Any], ArrayLike]
    name: str | None = None
    location_free: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            what = "A loss must be a function of estimate and truth"
            raise InputError(what, self.function, "Write CustomLoss(lambda estimate, truth: ...)")
        if self.name is not None:
            check_text("name", self.name, 'Write name="my loss"')
        super().__post_init__()

    def __call__(self, estimate: ArrayLike, truth: ArrayLike, *, vector: bool | None = None) -> Array:
        return self.cost(estimate, truth, bool(vector))

    def cost(self, estimate: ArrayLike, truth: ArrayLike, vector: bool) -> Array:
        estimate, truth = np.asarray(estimate, dtype=np.float64), np.asarray(truth, dtype=np.float64)
        full = np.broadcast_shapes(estimate.shape, truth.shape)
        shape = full[:-1] if vector else full
        wide_e, wide_t = np.broadcast_to(estimate, full), np.broadcast_to(truth, full)
        values = self._loss_of_arrays(estimate, truth, wide_e, wide_t, shape)
        if values is None:
            values = np.array([self._loss_of_one_pair(wide_e[i], wide_t[i]) for i in np.ndindex(shape)]).reshape(shape)
        if values.size and values.min() >= 0 and values.max() < np.inf:
            return values
        # Huge arguments stand for an infinite variance; there a loss may overflow.
        big = np.broadcast_to(np.abs(truth) > 1e35, full)
        finite = np.isfinite(values) | (np.isposinf(values) & (big.any(axis=-1) if vector else big))
        if not finite.all():
            got = f"{int(np.sum(~finite))} of {np.size(finite)} that are not"
            do = "Let the function give a number for every estimate and truth"
            raise InputError(f"{self._name_in_words()} must be finite", got, do)
        if (values < 0).any():
            got = f"{int(np.sum(values < 0))} of {np.size(values)} below 0"
            do = "Add a constant so that a perfect estimate costs at least 0"
            raise InputError(f"{self._name_in_words()} must not be negative", got, do)
        return values

    def best(self, posterior: Posterior) -> Array:
        if not posterior.event:
            return self._best_number(posterior)
        found = []
        for index in np.ndindex(posterior.batch):
            one = posterior.select(index)
            found.append(least_vector(one, lambda e: float(self.expected(one, e).value)))  # noqa: B023
        return np.stack(found).reshape(posterior.batch + posterior.event)

    def _best_number(self, posterior: Posterior) -> Array:
        def risk(e: Array) -> Array:
            return self.expected(posterior, e).value

        grid = candidate_estimates(posterior, 17, 6.0, 25)
        if posterior.support is not None:
            count = len(posterior.support)
            atoms = posterior.support[np.unique(np.linspace(0, count - 1, min(count, 1024)).astype(int))]
            rows = np.broadcast_to(atoms.reshape((-1,) + (1,) * len(posterior.batch)), (len(atoms), *posterior.batch))
            grid = np.sort(np.concatenate([grid, rows]), axis=0)
        values = np.stack([risk(row) for row in grid])
        for turn in range(60):
            # While the lowest candidate is the last one, look twice as far on that side.
            low = values[0] < values[1:].min(axis=0)
            high = values[-1] < values[:-1].min(axis=0)
            if not (low.any() or high.any()):
                break
            if turn == 59:
                what = "The expected loss falls for ever, so there is no best estimate"
                do = "Use a loss that grows with the error, or list the allowed estimates"
                raise UnsupportedError(what, self._name_in_words(), do)
            span = grid[-1] - grid[0] + (grid[-1] == grid[0])
            ends = np.where(low, grid[0] - span, grid[0]), np.where(high, grid[-1] + span, grid[-1])
            grid = np.concatenate([ends[0][None], grid, ends[1][None]])
            values = np.concatenate([risk(ends[0])[None], values, risk(ends[1])[None]])
        return least_near(risk, grid, values, tries=2, rounds=38)[0]

    def _loss_of_arrays(
        self, estimate: Array, truth: Array, wide_e: Array, wide_t: Array, shape: tuple[int, ...]
    ) -> Array | None:
        """The function of whole arrays, or None if it does not work on them (as a look at three points shows)."""
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                values = np.asarray(self.function(estimate, truth), dtype=np.float64)
        except Exception:
            # Whatever went wrong with arrays, point by point it either works or shows its own error.
            return None
        if values.shape != shape:
            return None
        if values.size > 1:
            for flat in {0, values.size // 2, values.size - 1}:
                index = np.unravel_index(flat, shape)
                alone = self._loss_of_one_pair(wide_e[index], wide_t[index])
                if not np.isclose(alone, values[index], rtol=1e-9, atol=1e-300, equal_nan=True):
                    return None
        return values

    def _loss_of_one_pair(self, estimate: Array, truth: Array) -> float:
        e, t = (estimate, truth) if np.ndim(truth) else (float(estimate), float(truth))
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                value = np.asarray(self.function(e, t), dtype=np.float64)
        except Exception as error:
            # Neither its text nor where it was called is told: the truth may be a confidential record.
            raise InputError(f"{self._name_in_words()} fails", describe_failure(error), "Check the function") from None
        if value.size != 1:
            do = "Sum over the components of a vector, along the last axis"
            raise InputError(f"{self._name_in_words()} must give one number", f"shape {value.shape}", do)
        return float(value.reshape(()))

    def _name_in_words(self) -> str:
        return f"The loss {self._title()}" if self._title() else "The loss"

    def _title(self) -> str:
        return self.name or name_of(self.function)

    def __repr__(self) -> str:
        return f"CustomLoss({self._title() or 'a function'}{', location_free=True' if self.location_free else ''})"

    def phrase(self) -> str:
        return f"the loss {self._title()}" if self._title() else "a loss of their own"


def as_loss(loss: object) -> Loss:
    """Return a loss from a loss or from a callable ``loss(estimate, truth)``.

    >>> as_loss(lambda e, t: abs(e - t)).location_free
    False
    """
    refuse_class("A loss", loss)
    if isinstance(loss, (BayesLoss, Loss)):  # the protocol is slow to ask
        return loss
    if callable(loss):
        return cast(Loss, CustomLoss(loss))
    what = "A loss must be a loss or a function of estimate and truth"
    raise InputError(what, loss, "Use Quadratic(), Absolute(), ... or a callable")
