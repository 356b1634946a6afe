"""Sampling the records together with the parameters, where they cannot be integrated out.

Entries that the release fixes are fixed. Entries that it bounds are sampled on a mapped line, so that no draw falls
outside. An average without noise is met exactly: one member of the group is what the others leave of the sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...beliefs.pymc import CHAINS, keeping_starts, without_notices
from ...channels.likelihood import ReleaseLikelihood, tensor_math
from ...errors import UnsupportedError
from ...posteriors import Drawn
from ...protocols import Array, Posterior
from ...targets import BaseTarget, Files, Kind
from .log_density import log_density_graph
from .model import CompiledModel
from .nuts import Chains, Sampler
from .parameter_points import Places
from .programs import vectorised
from .support import SupportMap, find_support_maps

if TYPE_CHECKING:
    from pymc import Model
    from pytensor.tensor.variable import TensorVariable

ALL = "records::all"
FORWARD = 1000
"""Draws from the prior for what is known before any release."""


@dataclass(frozen=True, eq=False)
class LatentRecords:
    """A model whose records are sampled, for one release."""

    compiled: CompiledModel
    observed: ReleaseLikelihood
    reason: str

    # -- the release as data -----------------------------------------------------------------------------

    @cached_property
    def model_key(self) -> str:
        """Releases alike in this share a compiled model.

        Normal noise is data, and so is none at all where nothing starts from what was released: what is known before
        the release has the model of the release. Any other likelihood is part of the model.
        """
        observed = self.observed
        # Rows in unknown order are refused when the model is made, so they must never find one that was made for
        # others.
        digest = hashlib.sha256(b"shuffled" if observed.shuffled else b"")
        tied = np.zeros((self.compiled.n, self.compiled.k), dtype=bool)
        for _, j, rows in self._exact_groups:
            tied[rows, j] = True
        for j, column in enumerate(observed.columns):
            plain = column.normal is not None
            digest.update(f"{plain}".encode())
            marks = [~np.isnan(column.known_values), np.isfinite(column.low), np.isfinite(column.high)]
            marks += [column.uninformative & ~tied[:, j] if plain else column.uninformative]
            if not plain:
                marks += [column.low, column.high, np.nan_to_num(column.known_values)]
                marks += [*column.window(0.5), *column.window(5.0)]
            for array in marks:
                digest.update(np.ascontiguousarray(array).tobytes())
        if observed.joint is not None:
            digest.update(b"joint" + np.isnan(observed.joint.centre).tobytes())
        if observed.averages is not None:
            a = observed.averages
            for array in (a.label, a.members, np.isnan(a.values), a.noise != 0, a.error != 0):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def data(self) -> dict[str, Array]:
        """The numbers of the release that the compiled model takes."""
        found: dict[str, Array] = {"known": np.nan_to_num(self._known_entries)}
        for j, column in enumerate(self.observed.columns):
            if column.normal is not None:
                centre, variance = column.normal
                noisy = np.isfinite(variance) & (variance > 0)
                found[f"centre{j}"] = np.where(noisy, centre, 0.0)
                found[f"variance{j}"] = np.where(noisy, variance, 1.0)
                found[f"noisy{j}"] = noisy.astype(float)
        if self.observed.joint is not None:
            joint = self.observed.joint
            found["joint_centre"] = np.nan_to_num(joint.centre)
            found["joint_precision"] = self._joint_precision
        if self.observed.averages is not None:
            found["average"] = np.nan_to_num(self.observed.averages.values)
            found["average_variance"] = self._average_variance
        return found

    @cached_property
    def _known_entries(self) -> Array:
        return np.stack([column.known_values for column in self.observed.columns], axis=1)

    @cached_property
    def _joint_precision(self) -> Array:
        """Precision of the noise of each row over its released entries, zero elsewhere."""
        joint = self.observed.joint
        assert joint is not None
        n, k = joint.centre.shape
        out = np.zeros((n, k, k))
        for i in range(n):
            there = np.flatnonzero(~np.isnan(joint.centre[i]))
            block = joint.covariance[0 if len(joint.covariance) == 1 else i][np.ix_(there, there)]
            if len(there) and np.linalg.eigvalsh(block)[0] <= 0:
                raise UnsupportedError(
                    "Correlated noise that leaves some combination of columns as it is cannot be sampled with records "
                    "of this law",
                    do="Give every column noise of its own too, so that the covariance is positive definite",
                )
            out[i][np.ix_(there, there)] = np.linalg.inv(block)
        return out

    @cached_property
    def _average_variance(self) -> Array:
        """Variance of the noise on each released average."""
        a = self.observed.averages
        assert a is not None
        if np.any(a.covariance * (1 - np.eye(a.covariance.shape[1]))):
            raise UnsupportedError(
                "Averages after noise that is correlated across columns cannot be sampled", do="Use variance= or sd="
            )
        return a.variance

    # -- the model ---------------------------------------------------------------------------------------

    def sampler(self, kind: str) -> Sampler:
        """The compiled model for releases of this shape."""
        self._refuse_unsuitable()
        model = self._build_model()
        names = [rv.name for rv in self.compiled.free] + [ALL]
        shapes = {**self.compiled.shapes, ALL: (self.compiled.n, self.compiled.k)}
        return Sampler(model, kind, names, shapes)

    def _refuse_unsuitable(self) -> None:
        if self.observed.shuffled:
            raise UnsupportedError(
                "Rows in unknown order cannot be sampled with this belief: its records do not all follow one law",
                do="Leave out Shuffle(), or write the model so that all records are alike given the parameters",
            )
        if self._inequality_name:
            raise UnsupportedError(
                f"The Potential {self._inequality_name!r} forbids some values of the records: a sampler gets stuck",
                do="Write a bound on single records into their law (pm.TruncatedNormal or pm.Truncated with arrays as "
                "lower= and upper=); write x[8] > x[3] as a sum: x[8] is x[3] plus a positive variable, and the "
                "records are a pm.Deterministic of both",
            )
        if self.compiled.point_masses is not None:
            raise UnsupportedError(
                "Records whose law has point masses cannot be sampled where they must be drawn together",
                do="Use a mask that works record by record (Noise, Round, Topcode, Suppress)",
            )
        if self.compiled.discrete and self.compiled.kind == "joint":
            raise UnsupportedError(
                "Discrete records that depend on each other given the parameters can be neither summed out nor sampled",
                do="Write them as independent given the parameters (for a table of counts one pm.Poisson per entry), "
                "or use Suppress()",
            )
        if self.compiled.discrete:
            raise UnsupportedError(
                "Discrete records that cannot be summed out cannot be sampled",
                do="Use a mask that works record by record (PRAM, Round, Suppress)",
            )

    @cached_property
    def _inequality_name(self) -> str:
        """Name of a Potential that has no density for records that their law makes: an inequality; or nothing."""
        compiled = self.compiled
        if not compiled.model.potentials or compiled.flat:
            return ""
        inputs = [*compiled.free, compiled.x]
        found = compiled.forward_sample(FORWARD // 5, np.random.default_rng(20_002))
        with without_notices():
            logs = vectorised([p.sum() for p in compiled.model.potentials], inputs)([found[v.name] for v in inputs])
        names = [p.name for p, each in zip(compiled.model.potentials, logs, strict=True) if np.isneginf(each).any()]
        return names[0] if names else ""

    def _build_model(self) -> Model:
        import pymc as pm
        import pytensor.tensor as pt
        from pytensor.graph.replace import graph_replace

        compiled, data = self.compiled, self.data()
        # Looked at before the context is entered: to find it may build a model, which would become this one's child.
        _ = self._support_map
        model = compiled.belief.build(compiled.n)
        x = model[compiled.belief.variable]
        free = x in model.free_RVs
        plain = free and not self._has_bounds and not self._exact_groups
        with without_notices(), model:
            symbols = {name: pm.Data(f"release::{name}", value) for name, value in data.items()}
            if not free and (self._has_bounds or self._exact_groups):
                raise UnsupportedError(
                    "Records that the model derives from others cannot be fixed or bounded by a release",
                    do="Make the records a distribution of their own, or use normal noise",
                )
            graph, jacobian = self._records_from_unbounded(symbols) if free and not plain else (x, 0.0)
            matrix = graph if graph.ndim == 2 else graph[:, None]
            pm.Potential("release", pt.sum(self._likelihood_graph(matrix, symbols)) + jacobian)
            if plain or not free:
                pm.Deterministic(ALL, matrix)
                return model
            at = x.type(name="records")
            law = log_density_graph(x, at, [rv for rv in model.free_RVs if rv is not x])
            (law,) = graph_replace([law], {at: at.type.filter_variable(graph)})
            pm.Potential("records::law", pt.sum(law))
        with without_notices():
            # Outside of the model's context: the new model must not become its child, with names taken already.
            found = keeping_starts(model, lambda m: pm.do(m, {x.name: graph}, make_interventions_shared=False))
            with found:
                own = found[x.name]
                pm.Deterministic(ALL, own if own.ndim == 2 else own[:, None])
            return found

    @cached_property
    def _support_map(self) -> SupportMap:
        x = self.compiled.x
        # The support of entries that have a law each is found by looking; a vector's law is taken to be on the whole
        # line.
        each = x in self.compiled.model.free_RVs and getattr(x.owner.op, "ndim_supp", 1) == 0
        if not each:
            return SupportMap()
        start = self.compiled.on_natural_scale(self.compiled.initial[None])
        support_maps = find_support_maps(self.compiled, start, self.observed.columns)
        return SupportMap(
            min(support_map.low for support_map in support_maps), max(support_map.high for support_map in support_maps)
        )

    @cached_property
    def _released_ends(self) -> tuple[Array, Array]:
        """Least and largest value of each entry that the release allows, ``(n, k)`` each."""
        low, high = (
            np.stack(ends, axis=1) for ends in zip(*((c.low, c.high) for c in self.observed.columns), strict=True)
        )
        return low, high

    @cached_property
    def _has_bounds(self) -> bool:
        return bool(
            (~np.isnan(self._known_entries)).any() or any(np.isfinite(end).any() for end in self._released_ends)
        )

    @cached_property
    def _averaged_groups(self) -> list[tuple[int, int, Places]]:
        """Group, column and rows of the released averages."""
        a = self.observed.averages
        if a is None:
            return []
        released = np.argwhere(~np.isnan(a.values)).tolist()
        found = [(g, j, np.flatnonzero((np.asarray(a.label) == g) & np.asarray(a.members)[:, j])) for g, j in released]
        return [(g, j, rows) for g, j, rows in found if len(rows)]

    @cached_property
    def _exact_groups(self) -> list[tuple[int, int, Places]]:
        """Those without noise."""
        return [(g, j, rows) for g, j, rows in self._averaged_groups if self._average_variance[g, j] == 0]

    def _records_from_unbounded(self, symbols: Mapping[str, TensorVariable]) -> tuple[TensorVariable, TensorVariable]:
        """The records as a graph of unbounded numbers, and the log of the Jacobian."""
        import pymc as pm
        import pytensor.tensor as pt

        low, high = self._released_ends
        bounded = np.isfinite(low)
        low, high = np.maximum(low, self._support_map.low), np.minimum(high, self._support_map.high)
        records, jacobian = symbols["known"], pt.constant(0.0)
        unknown = np.isnan(self._known_entries)
        for g, j, rows in self._exact_groups:
            if (~unknown[rows, j]).any() or bounded[rows, j].any():
                raise UnsupportedError(
                    "An average of records that are released besides cannot be sampled", do="Release one or the other"
                )
            unknown[rows, j] = False
            value, size = symbols["average"][g, j], len(rows)
            if np.isinf(self._support_map.low) and np.isinf(self._support_map.high):
                # Distances from the average: the chain starts with all of them at it, wherever that is.
                away = pm.Flat(f"records::group{g}_{j}", shape=size - 1) if size > 1 else pt.zeros(0)
                own = value + pt.concatenate([away, -pt.sum(away)[None]])
            elif np.isfinite(self._support_map.low) and np.isinf(self._support_map.high):
                # Shares of the sum: softmax with the last at zero.
                away = [pm.Flat(f"records::group{g}_{j}", shape=size - 1)] if size > 1 else []
                shares = pt.special.softmax(pt.concatenate([*away, pt.zeros(1)]))
                own = self._support_map.low + size * (value - self._support_map.low) * shares
                jacobian = jacobian + pt.sum(pt.log(shares))
            else:
                raise UnsupportedError(
                    "An average of records between two ends cannot be sampled", do="Add noise before the average"
                )
            records = pt.set_subtensor(records[rows, j], own)
        rows, columns = np.nonzero(unknown)
        if len(rows):
            u = pm.Flat("records::free", shape=len(rows))
            a, b = low[rows, columns], high[rows, columns]
            place, scale = self._starting_points(a, b, rows, columns)
            starts, stops = np.isfinite(a), np.isfinite(b)
            both, below, above = starts & stops, starts & ~stops, ~starts & stops
            a0, b0 = np.where(starts, a, 0.0), np.where(stops, b, 0.0)
            v = place + scale * u
            grown = pt.exp(pt.clip(v, -600, 600))
            squashed = pt.sigmoid(v)
            own = pt.switch(
                both, a0 + (b0 - a0) * squashed, pt.switch(below, a0 + grown, pt.switch(above, b0 - 1 / grown, v))
            )
            steps = pt.switch(both, -pt.softplus(-v) - pt.softplus(v), pt.switch(below, v, pt.switch(above, -v, 0.0)))
            jacobian = jacobian + pt.sum(steps)
            records = pt.set_subtensor(records[rows, columns], own)
        return (records if not self.compiled.scalar else records[:, 0]), jacobian

    def _starting_points(self, low: Array, high: Array, rows: Places, columns: Places) -> tuple[Array, Array]:
        """Where unbounded entries start and how they are scaled: near what was released."""
        place, scale = np.zeros(len(rows)), np.ones(len(rows))
        for i in np.flatnonzero(np.isinf(high)):
            one = self.observed.columns[columns[i]].take(np.array([rows[i]]))
            a, b = (float(w[0]) for w in one.window(0.5))
            if np.isinf(low[i]) and np.isfinite(a) and np.isfinite(b):
                place[i], scale[i] = (a + b) / 2, max((b - a) / 2, 1e-12)
            elif np.isfinite(low[i]) and np.isfinite(b) and b > low[i]:
                place[i] = np.log((max(a, low[i]) + b) / 2 - low[i])
        return place, scale

    def _likelihood_graph(self, records: TensorVariable, symbols: Mapping[str, TensorVariable]) -> TensorVariable:
        import pytensor.tensor as pt

        total = pt.constant(0.0)
        if self.observed.joint is not None:
            residual = symbols["joint_centre"] - records
            total = total - 0.5 * pt.sum(residual * pt.sum(symbols["joint_precision"] * residual[:, None, :], axis=-1))
        for j, column in enumerate(self.observed.columns):
            if f"noisy{j}" in symbols:
                variance = symbols[f"variance{j}"]
                squares = (symbols[f"centre{j}"] - records[:, j]) ** 2 / variance
                total = total - 0.5 * pt.sum(symbols[f"noisy{j}"] * (squares + pt.log(2 * np.pi * variance)))
                continue
            rows = np.flatnonzero(np.isnan(column.known_values) & ~np.asarray(column.uninformative))
            if len(rows):
                total = total + pt.sum(column.take(rows).log(records[rows, j], tensor_math()))
        exact = {(g, j) for g, j, _ in self._exact_groups}
        for g, j, rows in self._averaged_groups:
            if (g, j) not in exact:
                variance = symbols["average_variance"][g, j]
                residual = symbols["average"][g, j] - pt.mean(records[rows, j])
                total = total - 0.5 * residual**2 / variance - 0.5 * pt.log(variance)
        return total

    # -- laws --------------------------------------------------------------------------------------------

    def law(self, target: BaseTarget, chains: Chains) -> Posterior:
        """Posterior of a target from draws of parameters and records."""
        if target.asks(Kind.NEW):
            raise UnsupportedError(
                "Records of this model depend on each other, so a new one is not defined by it",
                do="Add the new record to the model as a variable and ask for it by Parameter(name)",
            )
        flat = chains.theta
        files = flat.pop(ALL)
        records = files[..., 0] if self.compiled.scalar else files
        found = target.numbers_in_files(Files(records, self.compiled.with_deterministics(flat)))
        shape = (chains.chains, chains.draws)
        return Drawn(found.reshape(shape + found.shape[1:]), chains=chains.chains)

    def prior_chains(self) -> Chains:
        """Draws of parameters and records before any release, given what the model observes."""
        compiled, shape = self.compiled, (self.compiled.n, self.compiled.k)
        names = [rv.name for rv in compiled.free]
        if compiled.informed:
            draws, files = (
                {name: compiled.draws_given_observed[name] for name in names},
                compiled.draws_given_observed[compiled.belief.variable],
            )
        else:
            rng = np.random.default_rng(20_000)
            rows = [compiled.draw(rng) for _ in range(FORWARD)]
            files = _as_chains([records for records, _ in rows])
            draws = {name: _as_chains([found[name] for _, found in rows]) for name in names}
        files = files.reshape(*files.shape[:2], *shape).astype(float)
        return Chains({**draws, ALL: files}, 0, *files.shape[:2])


def _as_chains(rows: list[Array]) -> Array:
    """Independent draws, laid as chains."""
    return np.stack(rows).reshape(CHAINS, -1, *np.shape(rows[0]))
