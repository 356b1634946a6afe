"""The risk-utility map: every candidate release with its risk, utility, errors and measures.

U is data, risk is a view: a map stores both users' uncertainties and derives risk = f(U) and its error when asked.
Only numeric arrays are made when a map is built. Labels, parameter columns and the Dataset are made when they are
first looked at, so that a map of thousands of masks costs no more than its numbers.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._version import __version__
from ..checks import (
    check_choice,
    check_filled,
    check_flag,
    check_index,
    check_kind,
    check_list,
    check_mapping,
    check_text,
    is_single,
    suggest,
)
from ..errors import InputError
from ..protocols import Array, Value
from ..users.panel import Panel
from .columns import (
    SCHEMA,
    Condition,
    Entries,
    Labels,
    as_column,
    as_names,
    as_value,
    check_name,
    marks_convergence,
    meets_condition,
    non_empty_columns,
    number_duplicates,
    parameter_columns,
    read_only_copy,
    same_mask,
    technique_of,
    uncertainties_before,
    whole_text,
    whole_texts,
)
from .joining import join_two_maps, worst_case
from .scores import Axis, Column, Reciprocal, Score, ScoreLike, as_score
from .show import ReleaseRow, as_html_table, as_text_table

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from ..decide.choice import Choice
    from ..decide.compare import Explanation, Releases
    from ..decide.criteria import Columns, Criterion
    from ..decide.probability import Errors
    from ..masks.base import Mask
    from ..protocols import Belief
    from ..users.user import Snooper, User

NUMBERS = ("risk", "utility", "risk_error", "utility_error")


@dataclass(frozen=True)
class Provenance:
    """How the numbers of a map were made.

    Parameters
    ----------
    engine : str or sequence of str
        Which engine gave each entry.
    notes : sequence of str
        Remarks that belong to the map.
    users : pair, optional
        The intruder and the scientist themselves, for what needs more than their description. They are not saved.
    draws : mapping
        Kept draws by user and position: datasets by the names of ArviZ's groups.
    """

    engine: str | Sequence[str] = ""
    notes: Sequence[str] = ()
    users: tuple[User | Snooper | Panel, User | Snooper | Panel] | None = None
    draws: Mapping[str, Mapping[int, Mapping[str, xr.Dataset]]] = field(default_factory=dict)


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
    risk_score: Score | Column
    utility_score: Score | Column
    masks: tuple[Mask | None, ...] | None = None
    columns: Mapping[str, Entries] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    users: tuple[User | Snooper | Panel, User | Snooper | Panel] | None = None
    """The intruder and the scientist that the map was made with; not in files."""
    _engine: tuple[str, ...] = ()
    _labels: tuple[str, ...] | None = None
    _technique: tuple[str, ...] | None = None
    _parameters: Mapping[str, Entries] | None = None
    _draws: Mapping[str, Mapping[str, Mapping[str, xr.Dataset]]] = field(default_factory=dict)

    # -- making --------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        masks: Sequence[Mask | None] | None = None,
        labels: Sequence[str] | Labels | None = None,
        intruder: Value | ArrayLike | None = None,
        scientist: Value | ArrayLike | None = None,
        before: Sequence[ArrayLike | None] | None = None,
        risk: ScoreLike = "reciprocal",
        utility: ScoreLike = "reciprocal",
        columns: Mapping[str, ArrayLike] | None = None,
        attrs: Mapping[str, object] | None = None,
        provenance: Provenance | None = None,
    ) -> RUMap:
        """Make a map from arrays with one entry per release.

        Parameters
        ----------
        masks : sequence of masks, optional
            Anything with ``str()``, ``technique`` and ``parameters()``. Without masks give ``labels``.
        labels : sequence of str or Labels, optional
            Names of the releases; ``str(mask)`` if not given. `Labels` also holds techniques and parameters that
            override what the masks say.
        intruder, scientist : Value or array, optional
            The users' uncertainties, averaged over replicates, with their errors. Leave one out if the map's
            risk (or utility) is a column.
        before : pair of float or arrays
            Both users' uncertainty before any release, needed by the gains only.
        risk, utility : str, callable, Score or Column
            A decreasing function of U, or the name of a column.
        columns : mapping, optional
            Measures and diagnostics under their names. A column that is called ``converged``, or ends in
            ``_converged``, marks releases whose sampler did not converge. A column that is called ``user`` says whose
            uncertainty an entry is, where the same releases stand there for several users, states of knowledge or
            methods; the labels then begin with that name, ``"row known: Noise(variance=2)"``.
        attrs : mapping, optional
            Seed, replicates, the users' descriptions (``intruder`` and ``scientist``), ...
        provenance : Provenance, optional
            Which engine gave each entry, remarks, the users themselves and draws that were kept.
        """
        do = "Write RUMap.build(labels=[...], intruder=[...], scientist=[...])"
        made = Provenance() if provenance is None else check_kind("provenance", provenance, Provenance, do)
        masks = None if masks is None else check_list("masks", masks, do)
        listed = labels if labels is None or isinstance(labels, Labels) else check_list("labels", labels, do)
        called = listed if isinstance(listed, Labels) else Labels(listed)
        columns = check_mapping("columns", {} if columns is None else columns, 'Write columns={"IO": [0.9, 0.8]}')
        attrs = check_mapping("attrs", {} if attrs is None else attrs, 'Write attrs={"seed": "1"}')
        values = {"intruder": as_value("intruder", intruder), "scientist": as_value("scientist", scientist)}
        extra = {check_name(k): as_column(k, v) for k, v in columns.items()}
        taken = {*SCHEMA, *extra}
        given = None
        if called.parameters is not None:
            given = {check_name(k, taken): as_column(k, v) for k, v in called.parameters.items()}
        if masks is None and called.names is None:
            raise InputError("A map needs masks or labels", None, "Give masks=[...] or labels=[...]")
        counts = {k: v.value.shape[0] for k, v in values.items() if v is not None}
        lists = {"masks": masks, "labels": called.names, "engine": made.engine, "technique": called.technique}
        counts |= {k: len(v) for k, v in lists.items() if v is not None and not is_single(v)}
        counts |= {f"column {k}": len(v) for k, v in extra.items()}
        counts |= {f"parameter {k}": len(v) for k, v in (given or {}).items()}
        if len(set(counts.values())) != 1:
            raise InputError("Everything in a map has one entry per release", counts, "Give arrays of the same length")
        size = next(iter(counts.values()))
        if size == 0:
            raise InputError("A map needs at least one release", "none", "List at least one mask")
        rumap = cls(
            size,
            values["intruder"],
            values["scientist"],
            uncertainties_before(before, size),
            as_score(risk, tuple(extra)),
            as_score(utility, tuple(extra)),
            None if masks is None else tuple(masks),
            MappingProxyType(extra),
            MappingProxyType({**_software_versions(), **attrs}),
            tuple(made.notes),
            made.users,
            _texts_per_release(made.engine, size),
            None if called.names is None else as_names(called.names),
            None if called.technique is None else _texts_per_release(called.technique, size),
            given,
        )
        if made.draws:
            names = rumap.releases
            kept = {user: {names[i]: found for i, found in parts.items()} for user, parts in made.draws.items()}
            rumap = replace(rumap, _draws=MappingProxyType({user: parts for user, parts in kept.items() if parts}))
        for role in ("risk", "utility"):
            axis = rumap.axis(role)
            # 1/U of a negative entropy makes no sense, but U itself does: that is said when risk is looked at.
            if axis.score != Reciprocal() or axis.value is None:
                axis.check()
        if called.names is None:
            rumap._refuse_duplicates()
        return rumap

    def with_risk(self, score: ScoreLike) -> RUMap:
        """The same uncertainties with risk measured by another decreasing function (or a column)."""
        return self._with_score("risk", score)

    def with_utility(self, score: ScoreLike) -> RUMap:
        """The same uncertainties with utility measured by another decreasing function (or a column)."""
        return self._with_score("utility", score)

    def _with_score(self, role: str, score: ScoreLike) -> RUMap:
        found = as_score(score, tuple(self.columns))
        changed = replace(self, risk_score=found) if role == "risk" else replace(self, utility_score=found)
        changed.axis(role).check()
        return changed

    def with_column(self, name: str, values: ArrayLike) -> RUMap:
        """The same map with one column more (or another one of that name)."""
        return replace(self, columns=MappingProxyType({**self.columns, check_name(name): as_column(name, values)}))

    def with_unit(self, unit: str) -> RUMap:
        """The same map, whose typical errors are told in this unit: "dollars", "kg"."""
        return replace(self, attrs=MappingProxyType({**self.attrs, "unit": check_text("unit", unit, "Name the unit")}))

    @staticmethod
    def concat(maps: Iterable[RUMap], names: Sequence[str] | None = None) -> RUMap:
        """Put maps one below the other.

        Risk and utility must be measured by the same functions, or the axes would mean nothing. The users
        must be the same too, unless ``names`` tells the maps apart: then releases and techniques are prefixed,
        ``"record: Noise(variance=2)"``, and each map keeps its own curves. Where the maps have different users the
        names are those of the users: the column ``user`` holds them, the `dataset` has a dimension for them, frontiers
        are drawn within each and a choice is by the worst of them (`worst`).
        """
        do = "Write RUMap.concat([a, b])"
        parts = check_list("maps", maps, do)
        for part in check_filled("maps", parts, do):
            check_kind("Each of maps", part, RUMap, do)
        if names is not None:
            do = f"Give {len(parts)} different names"
            called = [] if is_single(names) else [str(name) for name in names]
            if len(called) != len(parts) or len(set(called)) != len(parts):
                raise InputError("concat needs one name per map, each its own", names, do)
            differ = len({(str(m.attrs.get("intruder")), str(m.attrs.get("scientist"))) for m in parts}) > 1
            parts = [m.named(name, user=differ) for m, name in zip(parts, called, strict=True)]
        return functools.reduce(lambda a, b: join_two_maps(a, b, named=names is not None), parts)

    def __add__(self, other: RUMap) -> RUMap:
        return RUMap.concat([self, other]) if isinstance(other, RUMap) else NotImplemented

    def named(self, name: str, user: bool = False) -> RUMap:
        """The same map with ``name: `` before every release and technique, and before the users' descriptions.

        ``user`` says that it is the name of who looks at the releases, and not of the releases.
        """
        check_flag("user", user, "Say whether it is the name of who looks at the releases")
        attrs = {k: f"{name}: {v}" if k in ("intruder", "scientist") else v for k, v in self.attrs.items()}
        columns = dict(self.columns)
        if user:
            columns["user"] = np.array([f"{name}: {u}" if u else name for u in self._user_of_entries])
        return replace(
            self,
            attrs=MappingProxyType(attrs),
            columns=MappingProxyType(columns),
            _labels=tuple(f"{name}: {x}" for x in self.releases),
            _technique=tuple(f"{name}: {x}" for x in self.techniques),
            _parameters=dict(self.parameters),
        )

    # -- several users -------------------------------------------------------------------------------

    @property
    def _user_of_entries(self) -> list[str]:
        """Whose uncertainty each entry is; empty texts in a map of one pair of users."""
        return [str(u) for u in self.columns["user"]] if "user" in self.columns else [""] * self.size

    @property
    def user_names(self) -> tuple[str, ...]:
        """The users, states of knowledge or methods that look at the same releases; none if there is one of them."""
        found = tuple(dict.fromkeys(self._user_of_entries)) if "user" in self.columns else ()
        return found if len(found) > 1 else ()

    @cached_property
    def released(self) -> tuple[str, ...]:
        """What is released, without the name of the user who looks at it; `releases` in a map of one user."""
        if not self.user_names:
            return self.releases
        return tuple(_without_user_name(u, text) for u, text in zip(self._user_of_entries, self.releases, strict=True))

    def worst(self) -> RUMap:
        """The map of the worst case: of every release the largest risk and the least utility over the users.

        An agency chooses among releases, never among intruders. Releases that some user has not looked at are left out,
        and a note says how many. The column ``worst_user`` names who has the largest risk. A map of one user is its own
        worst case.

        >>> a = RUMap.build(labels=["x", "y"], intruder=[2.0, 1.0], scientist=[0.5, 0.25], attrs={"intruder": "A"})
        >>> b = RUMap.build(labels=["x", "y"], intruder=[4.0, 0.5], scientist=[0.5, 0.25], attrs={"intruder": "B"})
        >>> worst = RUMap.concat([a, b], names=["weak", "strong"]).worst()
        >>> worst.risk, worst.columns["worst_user"]
        (array([0.5, 2. ]), array(['weak', 'strong'], dtype='<U6'))
        """
        found = worst_case(self)
        if found is None:
            users = self.user_names
            do = f'Evaluate the same masks for all of them, or look at one: rumap.select(user="{users[0]}")'
            what = "No release of the map is there for every user, so there is no worst case"
            raise InputError(what, ", ".join(users), do)
        return found

    # -- the columns ---------------------------------------------------------------------------------

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """Label of every release; masks whose texts coincide are numbered ``#2``, ``#3``."""
        return self._labels if self._labels is not None else number_duplicates(whole_texts(self.masks or ()))

    @cached_property
    def techniques(self) -> tuple[str, ...]:
        """Technique of every release, without its parameters."""
        if self._technique is not None:
            return self._technique
        return self.releases if self.masks is None else tuple(technique_of(m) for m in self.masks)

    @cached_property
    def parameters(self) -> Mapping[str, Entries]:
        """One array per mask parameter: floats with NaN where it does not apply, text if any entry is text."""
        if self._parameters is not None:
            return MappingProxyType(dict(self._parameters))
        return MappingProxyType(parameter_columns(self.masks or (None,) * self.size, {*SCHEMA, *self.columns}))

    @property
    def engine(self) -> tuple[str, ...]:
        """Which engine gave each entry."""
        return self._engine

    def axis(self, role: str) -> Axis:
        """What ``"risk"`` or ``"utility"`` is computed from."""
        if check_choice("role", role, ("risk", "utility")) == "risk":
            return Axis(role, "intruder", self.risk_score, self.intruder, self.before[0], self.columns)
        return Axis(role, "scientist", self.utility_score, self.scientist, self.before[1], self.columns)

    @cached_property
    def _score_values(self) -> dict[str, Value]:
        return {}

    def _score_value(self, role: str) -> Value:
        """Risk or utility of every release, computed when it is first looked at."""
        if role not in self._score_values:
            axis = self.axis(role)
            value, error = axis.score.evaluate(axis)
            self._score_values[role] = Value(read_only_copy(value), read_only_copy(error))
        return self._score_values[role]

    @property
    def risk(self) -> Array:
        """Disclosure risk, f(U of the intruder) or a column."""
        return self._score_value("risk").value

    @property
    def utility(self) -> Array:
        """Data utility, f(U of the scientist) or a column."""
        return self._score_value("utility").value

    @property
    def risk_error(self) -> Array:
        """Standard error of risk by the delta method; zero where it is exact."""
        return self._score_value("risk").error

    @property
    def utility_error(self) -> Array:
        """Standard error of utility by the delta method; zero where it is exact."""
        return self._score_value("utility").error

    def column(self, name: str) -> Value:
        """A column of numbers with its standard error (zero if there is none); risk and utility are columns too."""
        numbers = [k for k, v in self.columns.items() if v.dtype.kind in "biuf"]
        check_choice("A column of numbers", name, ["risk", "utility", *numbers])
        return self._score_value(name) if name in ("risk", "utility") else self.axis("risk").column(name)

    @property
    def uncertainties(self) -> dict[str, Value]:
        """U and its error of each user that the map has: the intruder, the scientist."""
        users = {"intruder": self.intruder, "scientist": self.scientist}
        return {name: found for name, found in users.items() if found is not None}

    @property
    def intruder_uncertainty(self) -> Array:
        """The intruder's expected loss after each release; NaN in a map without an intruder."""
        return np.full(self.size, np.nan) if self.intruder is None else self.intruder.value

    @property
    def scientist_uncertainty(self) -> Array:
        """The scientist's expected loss after each release; NaN in a map without a scientist."""
        return np.full(self.size, np.nan) if self.scientist is None else self.scientist.value

    def typical_error(self, user: str, before: bool = False) -> Value | None:
        """A typical error of a user's estimate in the data's own unit, after each release or ``before`` any of them.

        The root of U for a squared error, U itself for an absolute one. None where the loss is no distance, and in a
        map that does not know it.

        >>> rumap = RUMap.build(labels=["a"], intruder=[4.0], scientist=[1.0], attrs={"intruder_error_scale": [1, 0.5]})
        >>> rumap.typical_error("intruder").value
        array([2.])
        """
        check_choice("user", user, ("intruder", "scientist"))
        check_flag("before", before, "Say whether it is that before any release")
        scale, found = self.attrs.get(f"{user}_error_scale"), self.uncertainties.get(user)
        if not isinstance(scale, list) or len(scale) != 2 or found is None:
            return None
        weight, power = scale
        u = Value.exact(self.before[user == "scientist"]) if before else found
        with np.errstate(divide="ignore", invalid="ignore"):
            value = (u.value / weight) ** power
            return Value(value, np.where(u.error > 0, power * value / u.value * u.error, 0.0))

    @property
    def typical_errors(self) -> dict[str, Value]:
        """What `typical_error` gives, by column, in a map that knows the unit of its data."""
        found = {f"{who}_typical_error": self.typical_error(who) for who in self.uncertainties if "unit" in self.attrs}
        return {name: value for name, value in found.items() if value is not None}

    @cached_property
    def converged(self) -> NDArray[np.bool_]:
        """False where a sampler did not converge, or nodes did not settle."""
        good = np.ones(self.size, dtype=bool)
        for name, values in self.columns.items():
            if marks_convergence(name):
                # A missing mark (NaN) means that no sampler ran.
                numeric = values.dtype.kind in "biuf"
                good &= np.asarray(values, dtype=float) != 0 if numeric else ~np.isin(values, ["False", "false", "no"])
        return good

    @cached_property
    def one_release(self) -> NDArray[np.bool_]:
        """True where a number is that of one drawn release, which has no error: another draw would give another."""
        found = np.zeros(self.size, dtype=bool)
        for name, values in self.columns.items():
            if name.endswith("_releases"):
                found |= np.asarray(values, dtype=float) == 1
        return found & (np.isnan(self.risk_error) | np.isnan(self.utility_error))

    @cached_property
    def dataset(self) -> xr.Dataset:
        """The map as an `xarray.Dataset` along ``release``, with technique and parameters as coordinates.

        Where several users look at the same releases it has a dimension ``user``, too.
        """
        if not self.user_names:
            return self.long_dataset
        import pandas as pd
        import xarray as xr

        places = pd.MultiIndex.from_arrays([self._user_of_entries, self.released], names=["user", "release"])
        technique = [
            _without_user_name(u, text) for u, text in zip(self._user_of_entries, self.techniques, strict=True)
        ]
        long = self.long_dataset.drop_vars(["release", "user"]).assign_coords(technique=("release", technique))
        long = long.rename({"release": "entry"})
        names = list(dict.fromkeys(self.released))
        wide = long.reset_coords().assign_coords(xr.Coordinates.from_pandas_multiindex(places, "entry"))
        wide = wide.unstack("entry").reindex(user=list(self.user_names), release=names)
        # What belongs to the release alone has no dimension of users.
        tables = {k: wide[k].transpose("user", "release").values for k in ("technique", *self.parameters)}
        # A missing entry is the same as a missing one.
        alike = [k for k, t in tables.items() if np.all((t == t[:1]) | ((t != t) & (t[:1] != t[:1])))]
        return wide.assign_coords({k: wide[k].isel(user=0, drop=True) for k in alike})

    @cached_property
    def long_dataset(self) -> xr.Dataset:
        """The map as a Dataset with one entry per release and user, as it is kept in files."""
        import xarray as xr

        table = {k: ("release", np.array(v)) for k, v in self._all_columns.items()}
        attrs = {**self.attrs, "risk_function": self.risk_score.name, "utility_function": self.utility_score.name}
        return xr.Dataset(table, attrs=attrs).set_coords(["release", "technique", *self.parameters])

    def to_dataframe(self) -> pd.DataFrame:
        """One row per release: label, technique, parameters, both users' U, risk, utility, errors, engine, measures.

        A map that knows the unit of its data (`with_unit`) adds each user's typical error in it.
        """
        import pandas as pd

        texts = {"release": list(self.releases), "technique": list(self.techniques), "engine": list(self.engine)}
        table = {k: texts[k] if k in texts else np.array(v) for k, v in self._all_columns.items()}
        return pd.DataFrame(table | {k: v.value for k, v in self.typical_errors.items()})

    @property
    def _all_columns(self) -> dict[str, Entries]:
        """Every column of the table, in its order."""
        users = self.uncertainties
        return {
            "release": np.asarray(self.releases, dtype=str),
            "technique": np.asarray(self.techniques, dtype=str),
            **self.parameters,
            **{f"{k}_uncertainty": v.value for k, v in users.items()},
            **dict(zip(NUMBERS, (self.risk, self.utility, self.risk_error, self.utility_error), strict=True)),
            "engine": np.asarray(self.engine, dtype=str),
            **{f"{k}_error": v.error for k, v in users.items()},
            **self.columns,
        }

    # -- looking up ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[ReleaseRow]:
        return (self._release_row(i) for i in range(self.size))

    @overload
    def __getitem__(self, key: str | int | np.integer) -> ReleaseRow: ...
    @overload
    def __getitem__(self, key: slice | list[Any] | tuple[Any, ...] | Entries) -> RUMap: ...
    def __getitem__(self, key: Any) -> ReleaseRow | RUMap:
        """A `ReleaseRow` by position or label; a smaller map by a slice, positions or a boolean array."""
        if isinstance(key, str):
            if key not in self._positions_by_label:
                raise InputError("No release has this label", key, suggest(key, self.releases))
            return self._release_row(self._positions_by_label[key])
        if isinstance(key, slice):
            return self.take(np.arange(self.size)[key])
        if is_single(key):
            return self._release_row(check_index("position", key, self.size))
        return self.take(key)

    def take(self, rows: ArrayLike) -> RUMap:
        """A map of these releases only: positions, labels or a boolean array, in the order given."""
        try:
            rows = np.asarray(rows)
        except ValueError:
            do = "Give one list of positions or labels"
            raise InputError("Releases are taken by positions or labels", "lists of several lengths", do) from None
        if rows.dtype.kind in "US" and rows.ndim:
            rows = np.array([self[str(label)].position for label in rows], dtype=int)
        if rows.dtype == bool:
            if rows.shape != (self.size,):
                do = "Give one per release"
                raise InputError(f"A boolean selection needs {self.size} entries", f"shape {rows.shape}", do)
            rows = np.flatnonzero(rows)
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            do = "Give a list of positions"
            raise InputError("Releases are taken by positions, labels or a boolean array", rows.tolist(), do)
        if rows.size and (rows.min() < -self.size or rows.max() >= self.size):
            for row in rows:
                check_index("position", row, self.size)  # says which one
        rows = rows.astype(int) % self.size
        if rows.size == 0:
            raise InputError("No release is selected", "an empty selection", "A map needs at least one release")
        if np.unique(rows).size != rows.size:
            raise InputError("A release is taken twice", rows.tolist(), "Name each position once")

        users: dict[str, Any] = {
            who: Value(*(read_only_copy(x[rows]) for x in found)) for who, found in self.uncertainties.items()
        }
        technique = self._technique if self.masks is not None or self._technique is not None else self.techniques
        return replace(
            self,
            size=rows.size,
            **users,
            before=(self.before[0][rows], self.before[1][rows]),
            masks=None if self.masks is None else tuple(self.masks[i] for i in rows),
            columns=MappingProxyType({k: v[rows] for k, v in self.columns.items()}),
            _engine=tuple(self._engine[i] for i in rows),
            _labels=tuple(self.releases[i] for i in rows),
            _technique=None if technique is None else tuple(technique[i] for i in rows),
            # Drop columns that no release of the smaller map has.
            _parameters=None
            if self._parameters is None
            else non_empty_columns({k: v[rows] for k, v in self._parameters.items()}),
        )

    def select(self, technique: Condition | None = None, **conditions: Condition) -> RUMap:
        """The releases of a technique, or with given parameters.

        A condition is a value, a list of values, or a function of the column that gives True or False for each entry:
        ``rumap.select(technique="Noise", variance=lambda v: v <= 2)``. Any column of the table can be named.
        Numbers match up to rounding (a relative 1e-12). If nothing matches, that is an `InputError`.
        """
        if technique is not None:
            conditions = {"technique": technique, **conditions}
        table = self._all_columns
        keep = np.ones(self.size, dtype=bool)
        for name, wanted in conditions.items():
            if name not in table:
                raise InputError("select names a column that is not there", name, suggest(name, list(table)))
            here = meets_condition(table[name], wanted, name)
            if not np.any(keep & here):
                got = "a function that is never true" if callable(wanted) else wanted
                do = suggest(str(wanted), list(dict.fromkeys(map(str, table[name][keep].tolist()))))
                raise InputError(f"No release has this {name}", got, do)
            keep &= here
        return self.take(keep)

    def with_order(self, belief: Belief | None = None) -> RUMap:
        """The map with a column ``tells_less_than``: a release that tells all that this one does.

        Whatever the users want, that release is more useful and riskier (Blackwell). Empty where there is none or where
        it cannot be decided. ``belief`` is the intruder's if not given.
        """
        from ..analyses.blackwell import blackwell_order

        if self.masks is None or (belief is None and self.users is None):
            raise InputError("The order needs the map's masks and a belief", None, "Evaluate masks, or give belief=")
        if belief is None and self.users is not None:
            belief = self.users[0].users[0].belief
        return self.with_column(
            "tells_less_than",
            blackwell_order([m for m in self.masks if m is not None], belief).nearest_more_informative(),
        )

    def draws(self, release: str | int, user: str | None = None) -> Any:
        """Posterior draws that `Sampling(keep=...)` kept for a release, as ArviZ takes them.

        Parameters
        ----------
        release : str or int
            Its label or position.
        user : str, optional
            ``"intruder"``, ``"scientist"`` or a member of a panel; the first whose draws were kept if not given.

        Returns
        -------
        InferenceData (ArviZ 0) or xarray.DataTree (ArviZ 1)
            Groups ``posterior`` (parameters, Deterministics, the user's ``target``, and the records where
            ``keep_records`` asked for them, under the model's dims and coords), ``sample_stats``, ``log_likelihood`` of
            the release record by record, ``log_prior``, ``prior``, ``observed_data`` (the release), and
            ``prior_predictive`` and ``posterior_predictive`` of a new file and of its release; each where there is one.
            ``arviz.summary(rumap.draws(0))`` and ArviZ's plots work. They are saved with the map.
        """
        from ..engines.pymc.traces import as_arviz

        label = self[release].release
        found = {who: parts[label] for who, parts in self._draws.items() if label in parts}
        if not found:
            do = "Evaluate with engine=ruv.Sampling(keep=True), or keep=[mask, ...] for some releases"
            raise InputError("No draws were kept for this release", label, do)
        if user is None:
            user = next(iter(found))
        if user not in found:
            raise InputError("No draws were kept for this user", user, suggest(user, list(found)))
        return as_arviz(found[user])

    # -- deciding, drawing, keeping ------------------------------------------------------------------

    def frontier(
        self, tolerance: float = 1e-12, *, columns: Columns | None = None, probability: bool | Errors = False
    ) -> RUMap:
        """The releases that no other one beats, in order of risk; see `ruvdecision.decide.frontier`."""
        from ..decide import frontier

        return frontier(self, tolerance, columns=columns, probability=probability)

    def choose(self, max_risk: float | None = None, by: Criterion | None = None, **options: Any) -> Choice:
        """The best release whose risk is allowed, by utility unless said otherwise; see `ruvdecision.decide.choose`."""
        from ..decide import choose

        return choose(self, max_risk, by, **options)

    def probabilities(
        self, max_risk: float | None = None, *, columns: Columns | None = None, errors: Errors | None = None
    ) -> pd.DataFrame:
        """How probably each release meets the threshold, is on the frontier, is the best.

        See `ruvdecision.decide.probabilities`.
        """
        from ..decide import probabilities

        return probabilities(self, max_risk, columns=columns, errors=errors)

    def explain(self, release: Releases, *, columns: Columns | None = None) -> Explanation:
        """Who dominates a release and by how much; see `ruvdecision.decide.explain`."""
        from ..decide import explain

        return explain(self, release, columns=columns)

    def dominated(self, *, columns: Columns | None = None) -> pd.DataFrame:
        """Table of the dominated releases, by whom and by how much; see `ruvdecision.decide.dominated_releases`."""
        from ..decide import dominated_releases

        return dominated_releases(self, columns=columns)

    def plot(self, max_risk: float | None = None, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the map and return the Axes; see `plots.rumap`."""
        from .. import plots

        return plots.rumap(self, max_risk, ax, **options)

    def report(self, path: str | os.PathLike[str], max_risk: float | None = None, **options: Any) -> Path:
        """Write a report of the map and the choice, HTML, PDF or Markdown, over an older one if ``overwrite=True``.

        ``options`` are ``title``, ``notes``, ``format``, ``date``, ``sensitivity``, ``limit``, ``record_risk``,
        ``rule``, ``seed``, ``figures`` and ``overwrite``; see `ruvdecision.report.write_report`.
        """
        from ..report import write_report

        return write_report(self, path, max_risk, **options)

    def save(self, path: str | os.PathLike[str], created: bool = False, *, overwrite: bool = False) -> Path:
        """Write the map to a netCDF file; not over one that exists unless ``overwrite``. See `maps.storage.save`."""
        from .storage import save

        return save(self, path, created, overwrite=overwrite)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> RUMap:
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
    def _positions_by_label(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.releases)}

    def _refuse_duplicates(self) -> None:
        """Refuse a mask that is listed twice.

        The same mask gives the same exact U, so only ties need to be looked at; that keeps large maps cheap.
        """
        masks = self.masks or ()
        suspects: Iterable[int] = range(self.size)
        exact = [v for v in self.uncertainties.values() if not np.any(v.error)]
        if self.size > 64 and exact:
            order = np.lexsort([v.value for v in exact])
            tied = np.logical_and.reduce([np.diff(v.value[order]) == 0 for v in exact])
            suspects = order[np.r_[tied, False] | np.r_[False, tied]].tolist()
        listed: dict[str, list[Mask | None]] = {}
        for i in sorted(suspects):
            mask = masks[i]
            label = str(mask)
            if any(same_mask(mask, other) for other in listed.get(label, ())):
                raise InputError("A release is listed twice", label, "List every mask once")
            listed.setdefault(label, []).append(mask)

    def _release_row(self, i: int) -> ReleaseRow:
        parameters = {k: v[i].item() for k, v in self.parameters.items()}
        applies = {k: v for k, v in parameters.items() if v == v and v != ""}
        errors = [0.0 if v is None else float(v.error[i]) for v in (self.intruder, self.scientist)]
        return ReleaseRow(
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
            bool(self.one_release[i]),
        )

    def __getstate__(self) -> dict[str, object]:
        # A mapping proxy does not cross process borders, a dict does.
        state = {name: v for name, v in vars(self).items() if name in self.__dataclass_fields__}
        return state | {name: dict(state[name]) for name in ("columns", "attrs", "_draws")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update({k: MappingProxyType(v) if k in ("columns", "attrs") else v for k, v in state.items()})


def _texts_per_release(given: str | Sequence[str], size: int) -> tuple[str, ...]:
    """One text per release; a single one is that of all."""
    return (whole_text(given),) * size if is_single(given) else whole_texts(given)


@functools.cache
def _software_versions() -> Mapping[str, str]:
    import scipy

    found = {"ruvdecision": __version__, "numpy": np.__version__, "scipy": scipy.__version__}
    return MappingProxyType(found | {"python": platform.python_version()})


def _without_user_name(user: str, text: str) -> str:
    """A label without the user's name in front."""
    return text.replace(f"{user}: ", "", 1) if user else text
