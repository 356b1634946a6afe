"""What a search gives back: the best release, its errors, and the certificate of the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from ...masks.base import Mask, show_number


@dataclass(frozen=True)
class Contender:
    """One family of several: its best release, or why it has none."""

    family: str
    optimum: Optimum | None
    reason: str = ""


@dataclass(frozen=True)
class Optimum:
    """The best release of a family, with the certificate of the search.

    Attributes
    ----------
    mask, release, parameters
        The mask, its label and the family's parameter values. An infinite noise variance is suppression.
    risk, utility, intruder_uncertainty, scientist_uncertainty : float
        Where it lies on the map.
    binding : tuple of str
        Which constraints hold with equality: "max_risk", and parameters that sit at a bound.
    gap : float
        Utility won over the best feasible point of the search grid; never negative.
    grid : int
        How many points that grid had.
    evaluations : int
        How many releases were evaluated in all.
    risk_error, utility_error : float
        Standard errors; zero where the objective is exact.
    parameters_error : mapping
        How far each parameter moves when the intruder's side errs by one standard error; zero where it is exact or
        where the threshold does not bind.
    meets : float
        Probability that the risk truly meets the threshold.
    method : str
        ``"exact"`` (roots and slopes) or ``"surface"`` (smooth surfaces through noisy values).
    family : str
        The family's name, where several were searched.
    contenders : tuple of Contender
        The best of every family, where several were searched, the winner first.
    unconverged : int
        How many of the evaluated releases did not converge; they are never chosen.
    """

    mask: Mask
    release: str
    parameters: Mapping[str, object]
    risk: float
    utility: float
    intruder_uncertainty: float
    scientist_uncertainty: float
    max_risk: float
    binding: tuple[str, ...]
    gap: float
    grid: int
    evaluations: int
    risk_error: float = 0.0
    utility_error: float = 0.0
    parameters_error: Mapping[str, float] = field(default_factory=dict)
    meets: float = 1.0
    method: str = "exact"
    family: str = ""
    contenders: tuple[Contender, ...] = ()
    unconverged: int = 0

    def to_dataframe(self) -> pd.DataFrame:
        """One row per family that was searched, the best one first."""
        rows = []
        for one in self.contenders or (Contender(self.family, self),):
            best = vars(one.optimum) if one.optimum is not None else {"release": ""}
            numbers = ("risk", "risk_error", "utility", "utility_error", "meets")
            found = {n: best.get(n, float("nan")) for n in numbers}
            rows.append({"family": one.family, "release": best["release"], **found, "remark": one.reason})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        def shown(value: object, error: float) -> str:
            text = show_number(value) if isinstance(value, float) else str(value)
            return text + (f" ± {error:.2g}" if error > 0 else "")

        errors = self.parameters_error
        values = ", ".join(f"{name} = {shown(v, errors.get(name, 0.0))}" for name, v in self.parameters.items())
        holds = " and ".join(self.binding) if self.binding else "nothing"
        risk, utility = shown(f"{self.risk:.6g}", self.risk_error), shown(f"{self.utility:.6g}", self.utility_error)
        head = f"Best of {self.family}" if self.contenders else "Best of the family"
        text = (
            f"{head}: {self.release}{f' ({values})' if values else ''}, "
            f"risk {risk} (threshold {self.max_risk:g}), utility {utility}; "
            f"binding: {holds}; {self.gap:.3g} above the best of {self.grid} grid points"
        )
        if self.meets < 0.995:
            text += f"; it truly meets the threshold with probability {self.meets:.2g}"
        if self.unconverged:
            text += f"; {self.unconverged} of {self.evaluations} releases did not converge and were left out"
        second = self.contenders[1] if len(self.contenders) > 1 else None
        if second is not None and second.optimum is not None:
            text += f"; the next family is {second.family} with utility {second.optimum.utility:.6g}"
        return text + "."
