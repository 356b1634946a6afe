"""The risk-utility map: every candidate release with its risk, utility, errors and measures.

U is data, risk is a view: a map stores both users' uncertainties and derives risk = f(U) and its error when asked.
Only numeric arrays are made when a map is built. Labels, parameter columns and the Dataset are made when they are
first looked at, so that a map of thousands of masks costs no more than its numbers.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .._version import __version__
from ..checks import check_index, is_single, suggest
from ..errors import InputError
from ..protocols import Array, Value
from .columns import (
    SCHEMA,
    as_before,
    as_column,
    as_names,
    as_pair,
    as_value,
    check_name,
    frozen,
    matches,
    parameter_columns,
    same_mask,
    technique_of,
    tell_apart,
    used,
    whole_text,
)
from .joining import join
from .scores import Column, Reciprocal, as_score
from .show import Row, as_html_table, as_text_table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from ..decide import Choice, Explanation

__all__ = ["RUMap", "Row"]


@dataclass(frozen=True, eq=False, repr=False)
class RUMap:
    """Every candidate release with the intruder's and the scientist's uncertainty, risk and utility.

    Maps are made by `evaluate`, `measure` and the scenarios; `RUMap.build` makes one from arrays.

    Examples
    --------
    >>> rumap = RUMap.build(labels=["safe", "useful"], intruder=[4.0, 1.0], scientist=[2.0, 0.5])
    >>> rumap.choose(max_risk=0.5).release
    'safe'
    """

    size: int
    intruder: Value | None
    scientist: Value | None
    before: tuple[Array, Array]
    risk_score: Any
    utility_score: Any
    masks: tuple[Any, ...] | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    _engine: Any = ""
    _labels: Any = None
    _technique: Any = None
    _parameters: Any = None
    users: tuple[Any, Any] | None = None
    """The intruder and the scientist that the map was made with; not in files."""
    _draws: Mapping[str, Any] = field(default_factory=dict)

    # -- making --------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        masks: Sequence[Any] | None = None,
        labels: Sequence[str] | None = None,
        intruder: Any = None,
        scientist: Any = None,
        before: Any = (None, None),
        engine: str | Sequence[str] = "",
        risk: Any = "reciprocal",
        utility: Any = "reciprocal",
        columns: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        technique: str | Sequence[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
        users: tuple[Any, Any] | None = None,
        draws: Mapping[str, Mapping[int, Any]] | None = None,
    ) -> RUMap:
        """Make a map from arrays with one entry per release.

        Parameters
        ----------
        masks : sequence of masks, optional
            Anything with ``str()``, ``technique`` and ``parameters()``. Without masks give ``labels``.
        labels : sequence of str, optional
            Names of the releases; ``str(mask)`` if not given.
        intruder, scientist : Value or array, optional
            The users' uncertainties, averaged over replicates, with their errors. Leave one out if the map's
            risk (or utility) is a column.
        before : pair of float or arrays
            Both users' uncertainty before any release, needed by the gains only.
        engine : str or sequence of str
            Which engine gave each entry.
        risk, utility : str, callable, Score or Column
            A decreasing function of U, or the name of a column.
        columns : mapping, optional
            Measures and diagnostics under their names. A column that is called ``converged``, or ends in
            ``_converged``, marks releases whose sampler did not converge.
        attrs : mapping, optional
            Seed, replicates, the users' descriptions (``intruder`` and ``scientist``), ...
        technique, parameters : optional
            Override what the masks say: one technique (or one per release), and a mapping of parameter columns.
        notes : sequence of str
            Remarks that belong to the map.
        users : pair, optional
            The intruder and the scientist themselves, for what needs more than their description. They are not saved.
        draws : mapping, optional
            Kept posterior draws by user and position. They are not saved.
        """
        values = [as_value(name, v) for name, v in (("intruder", intruder), ("scientist", scientist))]
        extra = {check_name(k): as_column(k, v) for k, v in (columns or {}).items()}
        sizes = {"masks": masks, "labels": labels}
        counts = {k: len(v) for k, v in sizes.items() if v is not None}
        counts |= {k: v.value.shape[0] for k, v in zip(("intruder", "scientist"), values, strict=True) if v is not None}
        counts |= {f"column {k}": len(v) for k, v in extra.items()}
        if not isinstance(engine, str):
            counts["engine"] = len(engine)
        if technique is not None and not isinstance(technique, str):
            counts["technique"] = len(technique)
        given = (
            None
            if parameters is None
            else {check_name(k, {*SCHEMA, *extra}): as_column(k, v) for k, v in parameters.items()}
        )
        counts |= {f"parameter {k}": len(v) for k, v in (given or {}).items()}
        if masks is None and labels is None:
            raise InputError("A map needs masks or labels", None, "Give masks=[...] or labels=[...]")
        if len(set(counts.values())) != 1:
            raise InputError("Everything in a map has one entry per release", counts, "Give arrays of the same length")
        size = next(iter(counts.values()))
        if size == 0:
            raise InputError("A map needs at least one release", "none", "List at least one mask")
        reference = tuple(
            as_before(name, b, size) for name, b in zip(("intruder", "scientist"), as_pair(before), strict=True)
        )
        rumap = cls(
            size,
            values[0],
            values[1],
            reference,  # type: ignore[arg-type]
            as_score(risk, tuple(extra)),
            as_score(utility, tuple(extra)),
            None if masks is None else tuple(masks),
            MappingProxyType(extra),
            MappingProxyType({**_versions(), **(attrs or {})}),
            tuple(notes),
            whole_text(engine) if isinstance(engine, str) else tuple(map(whole_text, engine)),
            None if labels is None else as_names(labels),
            technique
            if technique is None
            else whole_text(technique)
            if isinstance(technique, str)
            else tuple(map(whole_text, technique)),
            given,
            users,
        )
        if draws:
            names = rumap.releases
            kept = {user: {names[i]: found for i, found in parts.items()} for user, parts in draws.items() if parts}
            rumap = replace(rumap, _draws=MappingProxyType(kept))
        for role in ("risk", "utility"):
            # 1/U of a negative entropy makes no sense, but U itself does: that is said when risk is looked at.
            if not isinstance(getattr(rumap, f"{role}_score"), Reciprocal) or rumap._user(role)[0] is None:
                rumap._check_score(role)
        if labels is None:
            rumap._refuse_duplicates()
        return rumap

    def with_risk(self, score: Any) -> RUMap:
        """The same uncertainties with risk measured by another decreasing function (or a column)."""
        changed = replace(self, risk_score=as_score(score, tuple(self.columns)))
        changed._check_score("risk")
        return changed

    def with_utility(self, score: Any) -> RUMap:
        """The same uncertainties with utility measured by another decreasing function (or a column)."""
        changed = replace(self, utility_score=as_score(score, tuple(self.columns)))
        changed._check_score("utility")
        return changed

    @staticmethod
    def concat(maps: Iterable[RUMap], names: Sequence[str] | None = None) -> RUMap:
        """Put maps one below the other.

        Risk and utility must be measured by the same functions, or the axes would mean nothing. The users
        must be the same too, unless ``names`` tells the maps apart: then releases and techniques are prefixed,
        ``"record: Noise(variance=2)"``, and each map keeps its own curves.
        """
        parts = list(maps)
        if not parts or not all(isinstance(m, RUMap) for m in parts):
            raise InputError("concat needs maps", [type(m).__name__ for m in parts], "Write RUMap.concat([a, b])")
        if names is not None:
            if isinstance(names, str) or len(names) != len(parts) or len(set(names)) != len(parts):
                raise InputError(
                    "concat needs one name per map, each its own", names, f"Give {len(parts)} different names"
                )
            parts = [m.named(str(name)) for m, name in zip(parts, names, strict=True)]
        return functools.reduce(lambda a, b: join(a, b, named=names is not None), parts)

    def __add__(self, other: RUMap) -> RUMap:
        return RUMap.concat([self, other]) if isinstance(other, RUMap) else NotImplemented

    def named(self, name: str) -> RUMap:
        """The same map with ``name: `` before every release and technique, and before the users' descriptions."""
        attrs = {k: f"{name}: {v}" if k in ("intruder", "scientist") else v for k, v in self.attrs.items()}
        return replace(
            self,
            attrs=MappingProxyType(attrs),
            _labels=tuple(f"{name}: {x}" for x in self.releases),
            _technique=tuple(f"{name}: {x}" for x in self.techniques),
            _parameters=dict(self.parameters),
        )

    # -- the columns ---------------------------------------------------------------------------------

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """Label of every release; masks whose texts coincide are told apart by ``#2``, ``#3``."""
        return self._labels if self._labels is not None else tell_apart([str(m) for m in self.masks or ()])

    @cached_property
    def techniques(self) -> tuple[str, ...]:
        """Technique of every release, without its parameters."""
        if self._technique is not None:
            return (self._technique,) * self.size if isinstance(self._technique, str) else self._technique
        return self.releases if self.masks is None else tuple(technique_of(m) for m in self.masks)

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """One array per mask parameter: floats with NaN where it does not apply, text if any entry is text."""
        if self._parameters is not None:
            return MappingProxyType(dict(self._parameters))
        return MappingProxyType(parameter_columns(self.masks or (None,) * self.size, {*SCHEMA, *self.columns}))

    @cached_property
    def engine(self) -> tuple[str, ...]:
        """Which engine gave each entry."""
        return (self._engine,) * self.size if isinstance(self._engine, str) else self._engine

    @cached_property
    def risk(self) -> Array:
        """Disclosure risk, f(U of the intruder) or a column."""
        return self._view("risk")[0]

    @cached_property
    def utility(self) -> Array:
        """Data utility, f(U of the scientist) or a column."""
        return self._view("utility")[0]

    @cached_property
    def risk_error(self) -> Array:
        """Standard error of risk by the delta method; zero where it is exact."""
        return self._view("risk")[1]

    @cached_property
    def utility_error(self) -> Array:
        """Standard error of utility by the delta method; zero where it is exact."""
        return self._view("utility")[1]

    @property
    def intruder_uncertainty(self) -> Array:
        """The intruder's expected loss after each release; NaN in a map without an intruder."""
        return np.full(self.size, np.nan) if self.intruder is None else self.intruder.value

    @property
    def scientist_uncertainty(self) -> Array:
        """The scientist's expected loss after each release; NaN in a map without a scientist."""
        return np.full(self.size, np.nan) if self.scientist is None else self.scientist.value

    @cached_property
    def converged(self) -> Any:
        """False where a sampler did not converge."""
        good = np.ones(self.size, dtype=bool)
        for name, values in self.columns.items():
            if name == "converged" or name.endswith("_converged"):
                # A missing mark (NaN) means that no sampler ran.
                good &= (values != 0) if values.dtype.kind in "biuf" else ~np.isin(values, ["False", "false", "no"])
        return good

    @cached_property
    def dataset(self) -> xr.Dataset:
        """The map as an `xarray.Dataset` along ``release``, with technique and parameters as coordinates."""
        import xarray as xr

        text = {"release": self.releases, "technique": self.techniques}
        coords = {k: ("release", np.asarray(v, dtype=str)) for k, v in text.items()}
        coords |= {k: ("release", np.asarray(v)) for k, v in self.parameters.items()}
        data: dict[str, Any] = {}
        for user, value in (("intruder", self.intruder), ("scientist", self.scientist)):
            if value is not None:
                data[f"{user}_uncertainty"], data[f"{user}_error"] = value
        data |= {k: getattr(self, k) for k in ("risk", "utility", "risk_error", "utility_error")}
        data["engine"] = np.asarray(self.engine, dtype=str)
        data |= self.columns
        attrs = {**self.attrs, "risk_function": self.risk_score.name, "utility_function": self.utility_score.name}
        return xr.Dataset({k: ("release", np.array(v)) for k, v in data.items()}, coords, attrs)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per release: label, technique, parameters, both users' U, risk, utility, errors, engine, measures."""
        import pandas as pd

        table: dict[str, Any] = {"release": list(self.releases), "technique": list(self.techniques), **self.parameters}
        users = [(name, v) for name, v in (("intruder", self.intruder), ("scientist", self.scientist)) if v is not None]
        table |= {f"{name}_uncertainty": v.value for name, v in users}
        table |= {k: getattr(self, k) for k in ("risk", "utility", "risk_error", "utility_error")}
        table["engine"] = list(self.engine)
        table |= {f"{name}_error": v.error for name, v in users}
        table |= self.columns
        return pd.DataFrame({k: v if isinstance(v, list) else np.array(v) for k, v in table.items()})

    # -- looking up ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Row]:
        return (self._row(i) for i in range(self.size))

    @overload
    def __getitem__(self, key: str | int | np.integer[Any]) -> Row: ...
    @overload
    def __getitem__(self, key: slice | list[Any] | tuple[Any, ...] | NDArray[Any]) -> RUMap: ...
    def __getitem__(self, key: Any) -> Row | RUMap:
        """A `Row` by position or label; a smaller map by a slice, positions or a boolean array."""
        if isinstance(key, str):
            if key not in self._positions:
                raise InputError("No release has this label", key, suggest(key, self.releases))
            return self._row(self._positions[key])
        if isinstance(key, slice):
            return self.take(np.arange(self.size)[key])
        if is_single(key):
            return self._row(check_index("position", key, self.size))
        return self.take(key)

    def take(self, rows: Any) -> RUMap:
        """A map of these releases only: positions, labels or a boolean array, in the order given."""
        try:
            rows = np.asarray(rows)
        except ValueError:
            do = "Give one list of positions or labels"
            raise InputError("Releases are taken by positions or labels", "lists of several lengths", do) from None
        if rows.dtype.kind in "US":
            rows = np.array([self[str(label)].position for label in rows], dtype=int)
        if rows.dtype == bool:
            if rows.shape != (self.size,):
                raise InputError(
                    f"A boolean selection needs {self.size} entries", f"shape {rows.shape}", "Give one per release"
                )
            rows = np.flatnonzero(rows)
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            raise InputError(
                "Releases are taken by positions, labels or a boolean array", rows.tolist(), "Give a list of positions"
            )
        if rows.size and (rows.min() < -self.size or rows.max() >= self.size):
            for row in rows:
                check_index("position", row, self.size)  # says which one
        rows = rows.astype(int) % self.size
        if rows.size == 0:
            raise InputError("No release is left", "an empty selection", "A map needs at least one release")
        if np.unique(rows).size != rows.size:
            raise InputError("A release is taken twice", rows.tolist(), "Name each position once")

        def pick(sequence: Any) -> Any:
            return sequence if sequence is None or isinstance(sequence, str) else tuple(sequence[i] for i in rows)

        def cut(value: Value | None) -> Value | None:
            return None if value is None else Value(frozen(value.value[rows]), frozen(value.error[rows]))

        return replace(
            self,
            size=rows.size,
            intruder=cut(self.intruder),
            scientist=cut(self.scientist),
            before=(self.before[0][rows], self.before[1][rows]),
            masks=pick(self.masks),
            columns=MappingProxyType({k: v[rows] for k, v in self.columns.items()}),
            _engine=pick(self._engine),
            _labels=pick(self.releases),
            _technique=pick(self._technique)
            if self.masks is not None or self._technique is not None
            else pick(self.techniques),
            # Drop columns that no release of the smaller map has.
            _parameters=None if self._parameters is None else used({k: v[rows] for k, v in self._parameters.items()}),
        )

    def select(self, technique: Any = None, **conditions: Any) -> RUMap:
        """The releases of a technique, or with given parameters.

        A condition is a value, a list of values, or a function of the column that gives True or False for each entry:
        ``rumap.select(technique="Noise", variance=lambda v: v <= 2)``. Any column of the table can be named.
        Numbers match up to rounding (a relative 1e-12). If nothing matches, that is an `InputError`.
        """
        if technique is not None:
            conditions = {"technique": technique, **conditions}
        table = {
            "release": self.releases,
            "technique": self.techniques,
            "engine": self.engine,
            **self.parameters,
            **self.columns,
        }
        table |= {
            k: getattr(self, k)
            for k in ("intruder_uncertainty", "scientist_uncertainty", "risk", "utility", "risk_error", "utility_error")
        }
        keep = np.ones(self.size, dtype=bool)
        for name, wanted in conditions.items():
            if name not in table:
                raise InputError("select names a column that is not there", name, suggest(name, list(table)))
            here = matches(np.asarray(table[name]), wanted, name)
            if not np.any(keep & here):
                seen = list(dict.fromkeys(np.asarray(table[name])[keep].tolist()))
                raise InputError(
                    f"No release has this {name}",
                    wanted if not callable(wanted) else "a function that is never true",
                    suggest(str(wanted), [str(s) for s in seen]),
                )
            keep &= here
        return self.take(keep)

    def with_order(self, belief: Any = None) -> RUMap:
        """The map with a column ``dominated_whatever``: the release that tells everything this one does, whatever the users want.

        That release is more useful to every scientist and riskier with every intruder (Blackwell). Empty where there is none or
        where it cannot be decided. ``belief`` is the intruder's if not given.
        """
        from ..analyses.blackwell import dominated_whatever

        if self.masks is None or (belief is None and self.users is None):
            raise InputError("The order needs the map's masks and a belief", None, "Evaluate masks, or give belief=")
        if belief is None:
            user: Any = self.users[0] if self.users is not None else None
            while hasattr(user, "members"):
                user = user.members[0]
            belief = getattr(user, "belief", None)
        column = as_column("dominated_whatever", dominated_whatever(list(self.masks), belief).column())
        return replace(self, columns=MappingProxyType({**self.columns, "dominated_whatever": column}))

    def draws(self, release: Any, user: str | None = None) -> Any:
        """Posterior draws that `Sampling(keep=...)` kept for a release, as ArviZ takes them.

        Parameters
        ----------
        release : str or int
            Its label or position.
        user : str, optional
            ``"intruder"``, ``"scientist"`` or a member of a panel; needed only where their draws differ.

        Returns
        -------
        xarray.Dataset
            Variables along ``chain`` and ``draw``; ``arviz.summary(rumap.draws(0))`` works.
        """
        label = self[release].release
        found = {who: parts[label] for who, parts in self._draws.items() if label in parts}
        if not found:
            do = "Evaluate with engine=ruv.Sampling(keep=True), or keep=[mask, ...] for some releases"
            raise InputError("No draws were kept for this release", label, do)
        if user is None:
            user = next(iter(found))
        if user not in found:
            raise InputError("No draws were kept for this user", user, suggest(user, list(found)))
        return found[user]

    # -- deciding, drawing, keeping ------------------------------------------------------------------

    def frontier(self, tolerance: float = 1e-12, *, columns: Any = None, **doubt: Any) -> RUMap:
        """The releases that no other one beats, in order of risk; see `ruvdecision.decide.frontier`."""
        from ..decide import frontier

        return frontier(self, tolerance, columns=columns, **doubt)

    def choose(self, max_risk: float | None = None, tolerance: float = 1e-9, **rule: Any) -> Choice:
        """The best release whose risk is allowed, by utility unless said otherwise; see `ruvdecision.decide.choose`."""
        from ..decide import choose

        return choose(self, max_risk, tolerance, **rule)

    def probabilities(self, max_risk: float | None = None, **doubt: Any) -> pd.DataFrame:
        """How surely each release meets the threshold, is on the frontier, is the best; see `ruvdecision.decide.probabilities`."""
        from ..decide import probabilities

        return probabilities(self, max_risk, **doubt)

    def explain(self, release: Any, *, columns: Any = None) -> Explanation:
        """Who dominates a release and by how much; see `ruvdecision.decide.explain`."""
        from ..decide import explain

        return explain(self, release, columns=columns)

    def dominated(self, *, columns: Any = None) -> pd.DataFrame:
        """Table of the dominated releases, by whom and by how much; see `ruvdecision.decide.dominated`."""
        from ..decide import dominated

        return dominated(self, columns=columns)

    def plot(self, max_risk: float | None = None, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the map and return the Axes; see `plots.rumap`."""
        from .. import plots

        return plots.rumap(self, max_risk, ax, **options)

    def report(
        self,
        path: Any,
        max_risk: float | None = None,
        title: str | None = None,
        notes: str | Sequence[str] = (),
        format: str | None = None,
        date: Any = "today",
        **beside: Any,
    ) -> Path:
        """Write a report of the map and the choice, HTML or Markdown, not over one that exists unless ``overwrite=True``.

        ``beside`` are ``sensitivity``, ``limit``, ``record_risk``, ``rule``, ``figures`` and ``overwrite``; see
        `ruvdecision.report.write_report`.
        """
        from ..report import write_report

        return write_report(self, path, max_risk, title=title, notes=notes, format=format, date=date, **beside)

    def save(self, path: Any, created: bool = False, *, overwrite: bool = False) -> Path:
        """Write the map to a netCDF file, not over one that exists unless ``overwrite``; see `ruvdecision.maps.storage.save`."""
        from .storage import save

        return save(self, path, created, overwrite=overwrite)

    @staticmethod
    def load(path: Any) -> RUMap:
        """Read a map that `save` wrote; see `ruvdecision.maps.storage.load`."""
        from .storage import load

        return load(path)

    # -- showing -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return as_text_table(self)

    def _repr_html_(self) -> str:
        return as_html_table(self)

    # -- helpers -------------------------------------------------------------------------------------

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.releases)}

    def _user(self, role: str) -> tuple[Value | None, Array]:
        return (self.intruder, self.before[0]) if role == "risk" else (self.scientist, self.before[1])

    def _view(self, role: str) -> tuple[Array, Array]:
        score = getattr(self, f"{role}_score")
        if isinstance(score, Column):
            u = np.asarray(self.columns[score.column], dtype=np.float64)
            error = np.asarray(self.columns.get(f"{score.column}_error", np.zeros(self.size)), dtype=np.float64)
            if score.score is None:
                return frozen(u), frozen(error)
            return frozen(score.score(u)), frozen(score.score.error(u, error))
        self._check_score(role)
        value, before = self._user(role)
        assert value is not None  # _check_score refused it otherwise
        return frozen(score(value.value, before)), frozen(score.error(value.value, value.error, before))

    def _check_score(self, role: str) -> None:
        score = getattr(self, f"{role}_score")
        if isinstance(score, Column):
            if score.column not in self.columns:
                raise InputError(
                    f"The {role} names a column that is not there",
                    score.column,
                    suggest(score.column, list(self.columns)),
                )
            values = self.columns[score.column]
            if values.dtype.kind not in "biuf":
                raise InputError(
                    f"The {role} must be a column of numbers", f"{score.column} is text", "Name a column of numbers"
                )
            if score.score is not None:
                score.score.check(np.asarray(values, dtype=np.float64), None, role)
            return
        value, before = self._user(role)
        if value is None:
            who = "intruder" if role == "risk" else "scientist"
            raise InputError(
                f"{role}={score.name!r} needs the {who}'s uncertainty",
                f"a map without {who}",
                f"Name a column: {suggest('', list(self.columns)) if self.columns else 'give columns={...}'}",
            )
        if score.relative and np.all(np.isnan(before)):
            raise InputError(
                f'{role}="{score.name}" compares with the uncertainty before the release',
                "no U0",
                "Give before=(U0 of the intruder, U0 of the scientist)",
            )
        score.check(value.value, before, role)

    def _refuse_duplicates(self) -> None:
        """Refuse a mask that is listed twice.

        The same mask gives the same exact U, so only ties need to be looked at; that keeps large maps cheap.
        """
        masks = self.masks or ()
        suspects: Any = range(self.size)
        exact = [v for v in (self.intruder, self.scientist) if v is not None and not np.any(v.error)]
        if self.size > 64 and exact:
            order = np.lexsort([v.value for v in exact])
            tied = np.logical_and.reduce([np.diff(v.value[order]) == 0 for v in exact])
            suspects = order[np.r_[tied, False] | np.r_[False, tied]]
        seen: dict[str, list[Any]] = {}
        for i in sorted(suspects):
            mask = masks[i]
            label = str(mask)
            if any(same_mask(mask, other) for other in seen.get(label, ())):
                raise InputError("A release is listed twice", label, "List every mask once")
            seen.setdefault(label, []).append(mask)

    def _row(self, i: int) -> Row:
        parameters = {k: v[i].item() if hasattr(v[i], "item") else v[i] for k, v in self.parameters.items()}
        applies = {k: v for k, v in parameters.items() if v == v and v != ""}
        errors = [0.0 if v is None else float(v.error[i]) for v in (self.intruder, self.scientist)]
        return Row(
            self.releases[i],
            None if self.masks is None else self.masks[i],
            self.techniques[i],
            MappingProxyType(applies),
            float(self.risk[i]),
            float(self.utility[i]),
            float(self.risk_error[i]),
            float(self.utility_error[i]),
            float(self.intruder_uncertainty[i]),
            float(self.scientist_uncertainty[i]),
            errors[0],
            errors[1],
            self.engine[i],
            MappingProxyType({k: v[i].item() for k, v in self.columns.items()}),
            bool(self.converged[i]),
            i,
        )

    def __getstate__(self) -> dict[str, Any]:
        # A mapping proxy does not cross process borders, a dict does.
        return {
            name: dict(v) if isinstance(v := getattr(self, name), MappingProxyType) else v
            for name in self.__dataclass_fields__
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, MappingProxyType(value) if name in ("columns", "attrs") else value)


@functools.cache
def _versions() -> Mapping[str, str]:
    import scipy

    return MappingProxyType(
        {
            "ruvdecision": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        }
    )
