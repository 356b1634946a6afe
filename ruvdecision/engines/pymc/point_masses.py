"""Single numbers that a record is with a positive chance: the zeros of a hurdle law, the ends of a censored one.

Such a law is a sum: the chances of a few numbers, and a density beside them. The numbers are constants of the model;
their chances depend on the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...beliefs.pymc import BuiltModel, cheap_mode, quiet_pymc, without_notices
from ...errors import InputError
from ...protocols import Array

if TYPE_CHECKING:
    from pytensor.tensor.variable import TensorVariable

MIXTURES = ("Mixture", "MarginalMixture", "_Hurdle")
WITH_MASSES = ("DiracDelta", "Censored", "_Hurdle")
"""Laws of PyMC that give single numbers a chance, whatever their parameters."""
FILES, FEWEST = 20, 2_000
"""Files that are drawn where a law of the user's own may have point masses, and how many records at least."""
DO = (
    "Write zeros as pm.HurdleGamma, pm.HurdleLogNormal or a pm.Mixture with pm.DiracDelta.dist(0.0), and ends as "
    "pm.Censored, each at a number that does not depend on the parameters; or write the records as a function of a "
    "latent variable, pm.Deterministic('x', pm.math.maximum(z, 0))"
)


@dataclass(frozen=True, eq=False)
class PointMasses:
    """The point masses of a record's law."""

    places: Array
    """Where they are for each entry of the records, ``(A, *shape)``."""
    log_chances: TensorVariable
    """Graph of the logs of their chances given the parameters, ``(A, *shape)``."""

    @classmethod
    def of(cls, built: BuiltModel) -> PointMasses | None:
        """Those of a model's records; None for a density, a count, or records that are no independent numbers."""
        import pytensor.tensor as pt

        with without_notices():
            if built.discrete or built.kind != "elementwise":
                return None
            found = list(_masses_of(built.x, built))
            if not found:
                if _has_law_of_the_user(built) and (
                    _law_has_masses(built.x, _other_variables(built)) or _repeats_numbers(built)
                ):
                    raise _cannot_locate(built)
                return None
            shape = built.shape
            places = np.stack([np.broadcast_to(_constant(place, built), shape) for place, _ in found])
            logs = pt.stack([pt.broadcast_to(chance, shape) for _, chance in found])
        return cls(places.astype(np.float64), logs)


def _masses_of(x: TensorVariable, built: BuiltModel) -> Iterator[tuple[TensorVariable, TensorVariable]]:
    """Places and log chances of the point masses of a law: PyMC gives a density and a chance by one function."""
    import pytensor.tensor as pt

    if x.owner is None:
        return
    law, inputs = _law_name(x), x.owner.inputs
    if law == "DiracDelta":
        yield inputs[-1], pt.zeros(())
    elif law in MIXTURES:
        weights, parts = inputs[1], inputs[2:]
        for j, part in enumerate(parts):
            for place, chance in _masses_of(part, built):
                if len(parts) == 1:  # the parts stand along an axis of one law
                    raise _cannot_locate(built)
                yield place, chance + pt.log(weights[..., j])
    elif law == "Censored":
        yield from _masses_of_censored(x, built)


def _masses_of_censored(x: TensorVariable, built: BuiltModel) -> Iterator[tuple[TensorVariable, TensorVariable]]:
    """The ends, with the chances that the law without ends has beyond them, and its own point masses between them."""
    import pytensor.tensor as pt

    pm, (own, low, high) = quiet_pymc(), x.owner.inputs
    lower, upper = _constant(low, built), _constant(high, built)
    for place, chance in _masses_of(own, built):
        at = _constant(place, built)
        if ((lower < at) & (at < upper)).all():
            yield place, chance
        elif not ((at <= lower) | (upper < at)).all():
            raise _cannot_locate(built)  # PyMC gives the upper end what is above it, without what is at it
    if not np.isinf(lower).all():
        yield low, pm.logcdf(own, low, warn_rvs=False)
    if not np.isinf(upper).all():
        yield high, pt.log1mexp(pm.logcdf(own, high, warn_rvs=False))


def _law_name(x: TensorVariable) -> str:
    return type(x.owner.op).__name__.removesuffix("RV")


def _law_has_masses(x: TensorVariable, others: Sequence[TensorVariable] = ()) -> bool:
    """Whether a law that gives single numbers a chance takes part in this one, laws of the user's own looked into.

    The laws of ``others``, on whose values this one depends, are not.
    """
    from pytensor.graph.traversal import ancestors

    waiting: list[Any] = [x]
    while waiting:
        for v in ancestors([waiting.pop()], blockers=others):
            if v.owner is not None:
                if _law_name(v) in WITH_MASSES:
                    return True
                waiting += getattr(v.owner.op, "inner_outputs", ()) if _law_name(v).startswith("Custom") else ()
    return False


def refuse_masses_that_are_sampled(built: BuiltModel) -> None:
    """Refuse point masses in the law of a parameter, or of records drawn with it: a sampler never meets them."""
    for rv in built.model.free_RVs:
        drawn = rv is not built.x or built.kind == "joint"
        if drawn and np.dtype(rv.dtype).kind == "f" and _law_has_masses(rv, _other_variables(built, rv)):
            raise InputError(
                f"The law of {rv.name!r} has point masses, and it would be sampled or integrated as a density",
                built.describe(),
                "Write the choice as a discrete variable that is summed out, or as a pm.Mixture of narrow densities; "
                "of records, leave out what ties them together",
            )


def _constant(place: TensorVariable, built: BuiltModel) -> Array:
    """A place as a number."""
    from pytensor.graph.traversal import ancestors

    if set(ancestors([place])) & set(built.model.basic_RVs):
        raise _cannot_locate(built)
    return np.asarray(place.eval(mode=cheap_mode()))


def _has_law_of_the_user(built: BuiltModel) -> bool:
    """Whether a law that PyMC does not know takes part in the records' law."""
    from pytensor.graph.traversal import ancestors

    laws = (type(v.owner.op).__name__ for v in ancestors([built.x], blockers=_other_variables(built)) if v.owner)
    return any(law.startswith("Custom") for law in laws)


def _other_variables(built: BuiltModel, rv: TensorVariable | None = None) -> list[TensorVariable]:
    """The model's variables but this one, or but the records."""
    own = built.x if rv is None else rv
    return [v for v in built.model.basic_RVs if v is not own]


def _repeats_numbers(built: BuiltModel) -> bool:
    """Whether draws of the records hold a number twice, which draws from a density do not."""
    rng = np.random.default_rng(20_003)
    try:
        files = [built.draw(rng)[0].ravel() for _ in range(max(FILES, FEWEST // built.n))]
    except Exception:
        return False  # a law without draws cannot be looked at
    return bool(len(np.unique(np.concatenate(files))) < sum(map(len, files)))


def _cannot_locate(built: BuiltModel) -> InputError:
    name = built.belief.variable
    return InputError(f"The law of {name!r} has point masses that cannot be located", built.describe(), DO)
