"""A belief written as a PyMC model. PyMC is imported when the model is first built, not before."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..checks import check_integer, check_text
from ..errors import InputError
from ..targets import BaseTarget, Kind

if TYPE_CHECKING:
    from ..engines.pymc.model import Anatomy

__all__ = ["PyMCBelief", "quiet_pymc"]


@dataclass(frozen=True, init=False, eq=False)
class PyMCBelief:
    """A user's belief as a PyMC model: any population model, any prior.

    Parameters
    ----------
    builder : callable
        ``builder(n)`` gives back a `pymc.Model` for a file of n records. One variable of it holds the confidential records:
        n of them, or an n by k matrix for k variables. Everything else in the model is a parameter that a target may name.
    records : str, default "x"
        Name of that variable.
    size : int, optional
        How many records there are, where no data say so: planning before any data exist.
    name : str, optional
        The belief in words, for reports ("incomes are lognormal with ...").

    Notes
    -----
    The model must not contain the release: the mask adds its own likelihood. Where the records are independent given the
    parameters (most models), they are integrated out and only the parameters are sampled; put ``x`` last, and write it as
    one distribution with ``shape=n`` (or dims), so that this can be seen.

    Examples
    --------
    >>> def incomes(n):
    ...     import pymc as pm
    ...
    ...     with pm.Model() as model:
    ...         mu = pm.Normal("mu", 10, 1)
    ...         sigma = pm.HalfNormal("sigma", 1)
    ...         pm.LogNormal("x", mu, sigma, shape=n)
    ...     return model
    >>> belief = PyMCBelief(incomes, size=200)
    >>> belief.records
    200
    """

    builder: Callable[[int], Any]
    variable: str
    size: int | None
    name: str | None

    def __init__(
        self, builder: Callable[[int], Any], records: str = "x", *, size: int | None = None, name: str | None = None
    ) -> None:
        put = lambda key, value: object.__setattr__(self, key, value)  # noqa: E731
        if not callable(builder):
            do = "Write a function builder(n) that makes the model for n records and gives it back"
            raise InputError("builder must be a function of n", type(builder).__name__, do)
        if not isinstance(records, str) or not records:
            do = 'Name the variable, records="x"; the number of records is size='
            raise InputError("records must be the name of the variable that holds the records", records, do)
        put("builder", builder)
        put("variable", records)
        put("size", None if size is None else check_integer("size", size, low=1))
        put("name", None if name is None else check_text("name", name, "Leave it out, or say what is believed"))

    @property
    def _built(self) -> dict[int, Any]:
        # Not a field: what was built is no part of what is believed.
        return self.__dict__.setdefault("_models", {})  # type: ignore[no-any-return]

    @property
    def records(self) -> int:
        """How many records there are."""
        if self.size is None:
            raise InputError(
                "This belief does not say how many records there are",
                None,
                "Pass data=, or PyMCBelief(builder, size=200)",
            )
        return self.size

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that a target may ask for."""
        return tuple(self._some.names)

    @property
    def _some(self) -> Anatomy:
        """The model for some number of records: what it is in words does not depend on that, and building takes time."""
        return self.anatomy(self.size or max(self._built, default=2))

    def anatomy(self, n: int) -> Anatomy:
        """The model for ``n`` records, built once and taken apart."""
        if n not in self._built:
            from ..engines.pymc.model import Anatomy

            if len(self._built) >= 8:
                self._built.pop(next(iter(self._built)))
            self._built[n] = Anatomy.of(self, n)
        return self._built[n]  # type: ignore[no-any-return]

    def build(self, n: int) -> Any:
        """Call the builder and check what it gives back."""
        pm = quiet_pymc()
        try:
            model = self.builder(n)
        except Exception as error:
            do = "Call the builder yourself to see where; it must work for any number of records"
            raise InputError(f"The builder fails for {n} records", f"{type(error).__name__}: {error}", do) from error
        if not isinstance(model, pm.Model):
            raise InputError(
                "The builder must give back a pymc.Model", type(model).__name__, "End it with `return model`"
            )
        return model

    def check_target(self, target: BaseTarget) -> None:
        """Refuse a target that this belief can never have; names are checked when the model is built."""
        if target.asks_row:
            raise InputError(
                "PyMCBelief does not have this target",
                target,
                "Use Record(j), Parameter(name), NewRecord(), Average() ...",
            )

    def check_names(self, target: BaseTarget, n: int) -> None:
        """Refuse a parameter that is not in the model, and a row that is not in the file, before anything is compiled."""
        names = self.anatomy(n).names
        for term in target.terms:
            if term.kind is Kind.PARAMETER and term.name not in names:
                raise InputError(
                    "The model has no parameter of this name", term.name, f"Choose one of {', '.join(names) or 'none'}"
                )
            if term.kind is Kind.RECORD and not -n <= term.row < n:
                raise InputError(f"There are {n} records", term.row, "Count rows from 0")

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw a data set of ``size`` records from the belief: parameters from the prior, then records."""
        return self.draw_with_parameters(rng)[0]

    def draw_with_parameters(self, rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
        """Draw records and the parameters that they came from."""
        return self.anatomy(self.records).draw(rng)

    def describe(self) -> str:
        """What is believed, in words."""
        return self.name or self._some.describe()

    def __getstate__(self) -> dict[str, Any]:
        # Compiled functions stay in the process that made them.
        return {name: value for name, value in self.__dict__.items() if name != "_models"}

    def __repr__(self) -> str:
        size = "" if self.size is None else f", size={self.size}"
        return f"PyMCBelief({getattr(self.builder, '__name__', type(self.builder).__name__)}, records={self.variable!r}{size})"


def quiet_pymc() -> Any:
    """PyMC, imported without the notices that its libraries print about their own future."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pymc
    return pymc
