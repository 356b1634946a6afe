"""Running a compiled model: nutpie where it is there, PyMC's own NUTS otherwise.

A model is compiled once and given new data.
"""

from __future__ import annotations

import importlib.util
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count as counter
from typing import Any, NamedTuple

import numpy as np

from ...beliefs.pymc import without_notices
from ...errors import InputError
from ...protocols import Array

ARVIZ = {name: name for name in ("lp", "energy", "diverging", "tree_depth", "step_size", "n_steps", "acceptance_rate")}
"""Statistics of draws that are kept, by the names that ArviZ has for them."""
ARVIZ |= {"logp": "lp", "depth": "tree_depth", "mean_tree_accept": "acceptance_rate"}
PLAIN_ACCEPT = 0.8
"""Acceptance that both samplers aim at by themselves."""


@dataclass(frozen=True, eq=False)
class Chains:
    """Draws of the parameters: each variable has shape ``(chains, draws) + its own``."""

    values: Mapping[str, Array]
    divergences: int
    chains: int
    draws: int
    number: int = field(default_factory=counter().__next__)
    """Releases whose draws have the same number share their Monte Carlo error."""
    stats: Mapping[str, Array] = field(default_factory=dict)
    """What the sampler says of every draw, ``(chains, draws)``, under ArviZ's names."""

    @property
    def theta(self) -> dict[str, Array]:
        """The draws laid chain after chain, ``(chains * draws,) + shape``."""
        return {k: v.reshape((-1, *v.shape[2:])) for k, v in self.values.items()}

    def evenly_thinned(self, count: int) -> dict[str, Array]:
        """So many of the draws, evenly from all chains."""
        places = np.linspace(0, self.count - 1, count).astype(int)
        return {k: v[places] for k, v in self.theta.items()}

    def joined(self, other: Chains) -> Chains:
        """More draws of the same chains."""
        values = {k: np.concatenate([v, other.values[k]], axis=1) for k, v in self.values.items()}
        both = self.stats.keys() & other.stats.keys()
        stats = {k: np.concatenate([self.stats[k], other.stats[k]], axis=1) for k in sorted(both)}
        draws = self.draws + other.draws
        return Chains(values, self.divergences + other.divergences, self.chains, draws, stats=stats)

    @property
    def count(self) -> int:
        """Draws of all chains together."""
        return self.chains * self.draws


class Diagnosis(NamedTuple):
    """The worst over all parameters."""

    rhat: float
    ess_bulk: float
    ess_tail: float


class Sampler:
    """A compiled model. ``kind`` is "nutpie" or "pymc"."""

    def __init__(
        self,
        model: Any,
        kind: str,
        names: Sequence[str],
        shapes: Mapping[str, tuple[int, ...]],
        prefix: str = "release::",
    ) -> None:
        self.model, self.kind, self.names, self.shapes, self.prefix = model, kind, tuple(names), dict(shapes), prefix
        self.recent: dict[Any, Chains] = {}
        self.steps: dict[float, Any] = {}
        warn_without_compiler(kind)
        with without_notices():
            try:
                if kind == "nutpie":
                    import nutpie

                    self.compiled: Any = nutpie.compile_pymc_model(model)
                else:
                    import pymc as pm

                    with model:
                        self.compiled = pm.NUTS() if not model.discrete_value_vars else None
                    self.steps[PLAIN_ACCEPT] = self.compiled
            except Exception as error:
                raise _sampler_error(error) from None

    def run(
        self, data: Mapping[str, Array], draws: int, tune: int, chains: int, seed: int, accept: float = 0.8
    ) -> Chains:
        """Draw from the posterior of the parameters for a release."""
        named = {f"{self.prefix}{k}": v for k, v in data.items()}
        with without_notices():
            try:
                trace = (self._run_nutpie if self.kind == "nutpie" else self._run_pymc)(
                    named, draws, tune, chains, seed, accept
                )
            except KeyboardInterrupt:
                raise
            except Exception as error:
                raise _sampler_error(error) from None
        posterior = trace["posterior"]
        values = {}
        for name in self.names:
            array = np.asarray(posterior[name].values, dtype=np.float64)
            values[name] = array.reshape((*array.shape[:2], *self.shapes[name]))
        if draws > 1 and self.model.continuous_value_vars and not any(np.ptp(v, axis=1).any() for v in values.values()):
            what, got = "The sampler never moved from where it started", f"{chains * draws} equal draws"
            do = "Look at the slope of the log density there, model.compile_dlogp(): it is probably no number"
            raise InputError(what, got, do)
        stats = {ARVIZ.get(str(k), str(k)): np.asarray(v.values) for k, v in trace["sample_stats"].items()}
        own = {k: v for k, v in stats.items() if k in ARVIZ.values() and v.shape == (chains, draws)}
        return Chains(values, int(np.sum(stats["diverging"])), chains, draws, stats=own)

    def _run_nutpie(
        self, data: Mapping[str, Array], draws: int, tune: int, chains: int, seed: int, accept: float
    ) -> Any:
        import nutpie

        # nutpie knows the data that the density uses, and refuses the rest.
        keys = getattr(self.compiled, "shared_var_keys", None)
        used = set(self.compiled.shared_data) if keys is None else {variable.name for variable in keys}
        ready = self.compiled.with_data(**{k: v for k, v in data.items() if k in used})
        settings: dict[str, Any] = {"draws": draws, "tune": tune, "chains": chains, "seed": seed, "progress_bar": False}
        if accept != PLAIN_ACCEPT:
            settings["target_accept"] = accept
        return nutpie.sample(ready, **settings)

    def _run_pymc(self, data: Mapping[str, Array], draws: int, tune: int, chains: int, seed: int, accept: float) -> Any:
        import pymc as pm

        if data:
            pm.set_data(data, model=self.model)
        settings = {"draws": draws, "tune": tune, "chains": chains, "random_seed": seed, "model": self.model}
        # Tiny models are quicker one chain after the other than with the cost of starting processes.
        settings |= {"cores": 1, "compute_convergence_checks": False, "progressbar": False}
        if self.compiled is not None:
            if accept not in self.steps:
                with self.model:
                    self.steps[accept] = pm.NUTS(target_accept=accept)
            settings["step"] = self.steps[accept]
        return pm.sample(**settings)


@cache
def choose_sampler(wanted: str = "auto") -> str:
    """The sampler that will be used."""
    there = importlib.util.find_spec("nutpie") is not None
    if wanted == "nutpie" and not there:
        raise InputError("nutpie is not installed", wanted, 'Install it (pip install nutpie), or use sampler="pymc"')
    return ("nutpie" if there else "pymc") if wanted == "auto" else wanted


@cache
def warn_without_compiler(kind: str) -> None:
    """Say once if PyMC's own sampler has to run without a C++ compiler."""
    if kind == "pymc":
        import pytensor

        if pytensor.config.mode in ("Mode", "FAST_RUN", "CVM", "Cxx") and not (
            pytensor.config.cxx or shutil.which("g++")
        ):
            warnings.warn(
                "No C++ compiler was found: PyMC's sampler runs in plain Python, much slower. Install g++ or nutpie.",
                stacklevel=2,
            )


# -- diagnostics -------------------------------------------------------------------------------------------


def diagnose(chains: Chains) -> Diagnosis:
    """Largest R-hat, least bulk and tail effective sample size over all numbers that vary.

    What the model knows already (a record that is observed) is the same in all draws, and has none.
    """
    flat = [v.reshape(*v.shape[:2], -1) for v in chains.values.values()]
    numbers = np.concatenate([v[:, :, np.ptp(v, axis=(0, 1)) > 0] for v in flat], axis=2) if flat else np.empty(0)
    if not numbers.size:
        return Diagnosis(1.0, float(chains.count), float(chains.count))
    import xarray as xr

    az = quiet_arviz()
    named = lambda values: xr.Dataset({"x": (("chain", "draw", "number"), values)})  # noqa: E731
    data, half = named(numbers), chains.draws // 2
    # One chain is compared with itself: its first half with its second.
    parts = data if chains.chains > 1 else named(numbers[:, : 2 * half].reshape(2, half, -1))
    with without_notices(), np.errstate(all="ignore"):
        rhat = az.rhat(parts) if half > 3 else None
        bulk, tail = (float(np.min(az.ess(data, method=method)["x"].values)) for method in ("bulk", "tail"))
    return Diagnosis(np.nan if rhat is None else float(np.max(rhat["x"].values)), bulk, tail)


def quiet_arviz() -> Any:
    """ArviZ, imported without the notices that it prints about its own future."""
    with without_notices():
        import arviz
    return arviz


def _sampler_error(error: Exception) -> InputError:
    # Only the first line: what follows shows values that the graph held, and records are among them.
    first = str(error).strip().splitlines()[0][:200] if str(error).strip() else "no message"
    if "initial" in first.lower() or "logp" in first.lower() or "SamplingError" in type(error).__name__:
        do = "Check that priors allow the start (initval=), and that the records' law gives density to the release"
        return InputError("The model cannot be sampled from where it starts", f"{type(error).__name__}: {first}", do)
    return InputError(
        "The sampler fails on this model",
        f"{type(error).__name__}: {first}",
        "Try pm.sample on builder(n) to see where",
    )
