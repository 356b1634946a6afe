"""What a sampled release leaves for ArviZ: posterior, sample statistics, likelihood, prior and predictive draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from ...checks import as_generator
from ...errors import RuvError
from ...masks.base import Mask
from ...masks.frame import Frame, files_of
from ...posteriors import Drawn, Mixture
from ...protocols import Array, Posterior
from .normal_records import normal_entries, normal_rows
from .nuts import quiet_arviz
from .parameter_points import ParameterPoints

if TYPE_CHECKING:
    from .draws import SolvedRelease
    from .model import CompiledModel

PRIOR, FILES = 500, 200
"""Draws from the prior, and files that are predicted."""
MOST_DENSITIES = 4_000_000_000
"""Densities that the likelihood of every record may take; of more it is left out."""
Groups = dict[str, xr.Dataset]


def as_arviz(groups: Mapping[str, xr.Dataset]) -> Any:
    """Groups as the ArviZ that is installed takes them: InferenceData (ArviZ 0) or an xarray DataTree (ArviZ 1)."""
    az = quiet_arviz()
    if az.__version__.startswith("0."):
        return az.InferenceData(**groups)
    return xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})


def arviz_groups_of(point: SolvedRelease, mask: Mask, released: Any, compiled: CompiledModel, records: bool) -> Groups:
    """All groups of one sampled release but the users' targets; see `with_target`."""
    chains = point.chains
    assert chains is not None
    shape, rng = (chains.chains, chains.draws), as_generator(2)
    points = point.points
    theta = chains.theta
    values = compiled.with_deterministics(theta) if points is None else points.values
    about = {"how": point.how, "marginalization": point.marginalization}
    resampled = None
    if point.weights is not None:
        # Draws of a neighbour: drawn again by their weights, so that every draw counts as one.
        resampled = np.sort(rng.choice(len(point.weights), len(point.weights), p=point.weights))
        about["resampled"] = "yes"

    def draws(array: Array) -> Array:
        array = array if resampled is None else array[resampled]
        return array.reshape(*shape, *array.shape[1:])

    names = [name for name in compiled.names if name in values]
    inside = {name: draws(np.asarray(values[name])) for name in names}
    if records:
        own = _draw_record_files(points, theta, compiled)
        if own is not None:
            inside[compiled.belief.variable] = draws(own)
    found: Groups = {"posterior": _as_dataset(inside, compiled, about)}
    if resampled is None and chains.stats:
        found["sample_stats"] = _as_dataset(chains.stats, compiled)
    if points is not None and compiled.free:
        logs = _log_likelihood(points)
        if logs is not None:
            found["log_likelihood"] = _as_dataset({"release": draws(logs)}, compiled)
        core = compiled.reduced_model
        found["log_prior"] = _as_dataset({"prior": draws(core.log_prior_density(theta))}, compiled)
    found |= _predictive_draws(mask, released, compiled, theta, draws, rng)
    return found


def with_target(groups: Groups, posterior: Posterior, point: SolvedRelease) -> Groups:
    """The groups with a user's target among the posterior's variables, draw by draw."""
    chains = point.chains
    assert chains is not None
    if point.weights is not None:
        return groups
    values: Array | None = None
    if isinstance(posterior, Mixture) and posterior.parts.batch == (chains.count,):
        values = np.asarray(posterior.parts.sample(1, as_generator(3))[0])
    elif isinstance(posterior, Drawn):
        values = np.asarray(posterior.draws)
    if values is None or len(values) != chains.count:
        return groups
    values = values.reshape(chains.chains, chains.draws, -1)
    entry = (("chain", "draw"), values[..., 0]) if values.shape[2] == 1 else (("chain", "draw", "target_dim_0"), values)
    return {**groups, "posterior": groups["posterior"].assign(target=entry)}


def _as_dataset(
    arrays: Mapping[str, Array], compiled: CompiledModel, attrs: Mapping[str, str] | None = None
) -> xr.Dataset:
    """Arrays ``(chain, draw, ...)`` under the model's dims and coords."""
    model, found, coords = compiled.model, {}, dict[str, Any]()
    for name, array in arrays.items():
        rank = array.ndim - 2
        dims = list(model.named_vars_to_dims.get(name) or ())
        if name in ("release", compiled.belief.variable) and len(dims) != rank:
            dims = ["record", "column"][:rank]
            names = compiled.belief.column_names(compiled.n)
            if rank == 2 and names is not None and len(names) == array.shape[3]:
                coords["column"] = list(names)
        if len(dims) != rank:
            dims = [f"{name}_dim_{i}" for i in range(rank)]
        for dim, size in zip(dims, array.shape[2:], strict=True):
            known = model.coords.get(dim)
            coords.setdefault(dim, list(known) if known is not None and len(known) == size else np.arange(size))
        found[name] = (("chain", "draw", *dims), array)
    sizes = next(iter(arrays.values())).shape[:2]
    coords |= {"chain": np.arange(sizes[0]), "draw": np.arange(sizes[1])}
    return xr.Dataset(found, coords=coords, attrs=dict(attrs or {}))


def _draw_record_files(
    points: ParameterPoints | None, theta: Mapping[str, Array], compiled: CompiledModel
) -> Array | None:
    """One file for each draw, given the release."""
    name = compiled.belief.variable
    if name in theta:
        return np.asarray(theta[name])
    if points is None or points.observed.shuffled:
        return None
    if points.observed.averages is not None:
        files, _ = points._draw_files()
        return files[..., 0] if compiled.scalar else files
    return np.stack([points._entry_draws(row) for row in range(compiled.n)], axis=1)


def _log_likelihood(points: ParameterPoints) -> Array | None:
    """Log p(what is released of record i | parameters) at every draw, ``(draws, n)``; None where it is too dear."""
    compiled, observed = points.compiled, points.observed
    n, k, count = compiled.n, compiled.k, points.count
    if observed.shuffled or observed.averages is not None:
        return None
    if compiled.kind == "mvnormal":
        centre, noises, released = normal_rows(observed)
        mean, covariance = compiled.record_moments(points.theta)
        out = np.zeros((count, n))
        for row in range(n):
            some = np.flatnonzero(released[row])
            m = np.broadcast_to(mean[:, 0 if mean.shape[1] == 1 else row], (count, k))[:, some]
            c = np.broadcast_to(covariance[:, 0 if covariance.shape[1] == 1 else row], (count, k, k))
            total = c[:, some][:, :, some] + noises[0 if len(noises) == 1 else row][np.ix_(some, some)]
            off = centre[row, some] - m
            quadratic = np.einsum("si,si->s", off, np.linalg.solve(total, off[..., None])[..., 0])
            out[:, row] = -0.5 * (quadratic + np.linalg.slogdet(total)[1] + len(some) * np.log(2 * np.pi))
        return out
    if points.records_are_normal:
        (mean, variance), (centre, noise) = compiled.entry_moments(points.theta), normal_entries(observed)
        with np.errstate(invalid="ignore", divide="ignore"):
            total = variance + noise
            logs = -0.5 * ((centre - mean) ** 2 / total + np.log(2 * np.pi * total))
        return np.asarray(np.where(np.isinf(noise), 0.0, logs).sum(axis=2))
    if count * n * k * 400 > MOST_DENSITIES or observed.joint is not None:
        return None
    try:
        return np.stack([sum(_log_evidence_of_entry(points, row, j) for j in range(k)) for row in range(n)], axis=1)
    except RuvError:
        return None


def _log_evidence_of_entry(points: ParameterPoints, row: int, column: int) -> Array:
    """Log of the integral of an entry's density times what the release tells of it, at every draw."""
    likelihood = points._entry_likelihood(row, column)
    if bool(np.all(likelihood.uninformative)):
        return np.zeros(points.count)
    known = float(likelihood.known_values[0])
    if not np.isnan(known):
        return points._log_density_of_known(known, row, column)
    if points.compiled.discrete:
        values = points._one_count(row, column).possible_values()
        logs = points._log_density(values, row, column) + np.asarray(likelihood.log(values[:, None]))[:, 0]
        return np.asarray(np.logaddexp.reduce(logs, axis=1))
    if points._needs_grid(row, column):
        return points._one_record(row, column).log_evidence()
    mean, variance = (a[:, row, column] for a in points.compiled.entry_moments(points.theta))
    assert likelihood.normal is not None
    centre, noise = (float(a[0]) for a in likelihood.normal)
    return np.asarray(-0.5 * ((centre - mean) ** 2 / (variance + noise) + np.log(2 * np.pi * (variance + noise))))


def _predictive_draws(
    mask: Mask, released: Any, compiled: CompiledModel, theta: Mapping[str, Array], draws: Any, rng: np.random.Generator
) -> Groups:
    """Prior draws, and new files and their releases by prior and posterior."""
    belief, free, found = compiled.belief, [v.name for v in compiled.free], Groups()
    shown = None if len(files_of(released)) > 1 else _release_as_numbers(released)
    if shown is not None:
        ready = _as_dataset({"release": shown[None, None]}, compiled)
        found["observed_data"] = ready.isel(chain=0, draw=0, drop=True)
    if not free or any(name not in theta for name in free):
        return found
    parts: dict[str, tuple[dict[str, Array], int]] = {}
    if not compiled.is_improper:
        prior = {name: v[:PRIOR] for name, v in compiled.prior_draws.items()}
        every = compiled.with_deterministics(prior)
        found["prior"] = _as_dataset({name: np.asarray(every[name])[None] for name in compiled.names}, compiled)
        parts["prior_predictive"] = ({name: v[:FILES] for name, v in prior.items()}, 1)
    arrays = {name: draws(np.asarray(theta[name])) for name in free}
    chains, length = next(iter(arrays.values())).shape[:2]
    some = np.linspace(0, length - 1, max(1, min(length, FILES // chains))).astype(int)
    parts["posterior_predictive"] = (
        {name: array[:, some].reshape(-1, *array.shape[2:]) for name, array in arrays.items()},
        chains,
    )
    for group, (points, rows) in parts.items():
        files, releases = [], []
        for i in range(len(next(iter(points.values())))):
            file = compiled.records_given({name: v[i] for name, v in points.items()}, rng)
            files.append(np.asarray(file, dtype=np.float64))
            table = pd.DataFrame(file if file.ndim == 2 else file[:, None], columns=belief.column_names(compiled.n))
            again = None if shown is None else _release_as_numbers(mask.apply(Frame.of(table), rng))
            releases += [] if again is None else [again]
        arrays = {belief.variable: np.stack(files)}
        if len(releases) == len(files) and len({r.shape for r in releases}) == 1:
            arrays["release"] = np.stack(releases)
        found[group] = _as_dataset({k: v.reshape(rows, -1, *v.shape[1:]) for k, v in arrays.items()}, compiled)
    return found


def _release_as_numbers(frame: Frame) -> Array | None:
    """A release as numbers, a vector if it has one column; None if it holds labels."""
    try:
        values, _ = frame.numeric("A release", missing=True)
    except RuvError:
        return None
    return values[:, 0] if values.shape[1] == 1 else values
