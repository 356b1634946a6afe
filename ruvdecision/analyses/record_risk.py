"""The risk of every record at once: its distribution, the riskiest records by position, and risk by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..checks import (
    Data,
    Seed,
    as_seed_sequence,
    check_distinct_positions,
    check_filled,
    check_index,
    check_integer,
    check_list,
    check_number,
    is_label,
    is_number,
    suggest,
)
from ..engines.base import Problem, progress_of_part
from ..engines.every_record import Each, file_size, rows_of, uncertainty_of_every_record
from ..engines.solving import check_user
from ..errors import InputError
from ..evaluate import check_masks
from ..maps.scores import Score, ScoreLike, as_score_of_uncertainty
from ..masks.base import Mask
from ..protocols import Array, Engine, Value
from ..running.progress import Bar
from ..users.panel import Panel, Role

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = (0.5, 0.9, 0.95, 0.99)


def record_risk(
    masks: Sequence[Mask] | Mask,
    intruder: Role,
    *,
    data: Data | None = None,
    groups: ArrayLike | None = None,
    rows: Sequence[int] | None = None,
    engine: Engine | str = "auto",
    replicates: int | None = None,
    seed: Seed = None,
    risk: ScoreLike = "reciprocal",
    progress: bool | None = None,
) -> RecordRisk:
    """The risk of every record, each as if it were the intruder's target.

    Records of one kind, which the mask and the belief treat alike, are worked out once; with data, all records are
    judged on the same releases. Records are named by position, and never shown.

    Parameters
    ----------
    masks : mask or list of masks
        The candidate releases.
    intruder : User, Snooper or Panel
        Who is after a record. The target says what is wanted of it: `Record(0)` or `EachRecord()` the record itself,
        `Identity(0, known=...)` its row, a `Functional` of one record a function of it. A panel's members are put
        together record by record.
    data : DataFrame or array, optional
        The confidential records, where risk depends on them.
    groups : array, optional
        A label per record of the file, for risk by group.
    rows : list of int, optional
        The records in question; all of them if not given.
    engine, replicates, seed, risk, progress
        As in `evaluate`.

    Returns
    -------
    RecordRisk

    Examples
    --------
    >>> import ruvdecision as ruv
    >>> belief = ruv.NormalBelief(records=4, variance=1, prior="known")
    >>> found = record_risk(ruv.Noise(variance=[1.0, 1.0, 1.0, 0.25]), ruv.User(belief, ruv.Record(0), ruv.Quadratic()))
    >>> found.risk.round(3).tolist(), found.riskiest(1)["row"].tolist()
    ([[2.0, 2.0, 2.0, 5.0]], [3])
    """
    candidates = check_masks(masks)
    users = [user for _, user in check_user("intruder", intruder).leaves]
    if replicates is not None:
        replicates = check_integer("replicates", replicates, low=1)
    do = 'Use "reciprocal", "relative_gain" or a decreasing function'
    score = as_score_of_uncertainty(risk, "risk must be a function of U here", do)
    sizes = [file_size(user, data) for user in users]
    size = sizes[0]
    if len(set(sizes)) > 1:
        raise InputError("All members of the panel must be about the same records", sizes, "Set records= alike")
    chosen = rows_of(Problem.of(users[0], candidates, data).user, data) if rows is None else _check_rows(rows, size)
    labels = None if groups is None else _check_groups(groups, size)[chosen]
    root = as_seed_sequence(seed)
    found: list[Each] = []
    with Bar(f"Judging {len(chosen):,} records under {len(candidates):,} releases", progress) as bar:
        for i, user in enumerate(users):
            problem = Problem.of(user, candidates, data, replicates=replicates, seed=root)
            watched = replace(problem, progress=progress_of_part(lambda share, *_: bar.update(share), i, len(users)))
            found.append(uncertainty_of_every_record(engine, watched, chosen))
    values = iter([(Value(f.uncertainty, f.error), f.before) for f in found])
    value, before = _merge_members(intruder, values)
    engines = [" / ".join(dict.fromkeys(f.engine[j] for f in found)) for j in range(len(candidates))]
    score.check(value.value.ravel(), np.broadcast_to(before, value.value.shape).ravel(), "risk")
    return RecordRisk(
        tuple(candidates), chosen, value.value, value.error, before, score, labels, tuple(engines), intruder.describe()
    )


@dataclass(frozen=True, eq=False, repr=False)
class RecordRisk:
    """The risk of every record under each release; made by `record_risk`.

    Rows of ``uncertainty``, ``error`` and ``risk`` are releases, columns are records. Records are known by their
    position in the confidential file, counted from 0.
    """

    masks: tuple[Mask, ...]
    rows: NDArray[np.int64]
    uncertainty: Array
    error: Array
    before: Array
    score: Score
    groups: NDArray[np.generic] | None
    engine: tuple[str, ...]
    intruder: str

    @property
    def releases(self) -> tuple[str, ...]:
        """Labels of the releases."""
        return tuple(str(m) for m in self.masks)

    @property
    def risk(self) -> Array:
        """Risk of every record, (releases, records)."""
        return np.asarray(self.score(self.uncertainty, self.before))

    @property
    def risk_error(self) -> Array:
        """Standard errors of the risks; zero where they are exact."""
        return np.asarray(self.score.error(self.uncertainty, self.error, self.before))

    def quantile(self, q: ArrayLike) -> Array:
        """Quantile of the records' risks under each release: a share ``q`` of the records does not exceed it."""
        levels = [check_number("q", level, low=0, high=1) for level in np.atleast_1d(q).tolist()]
        found = np.stack([np.quantile(self.risk, level, axis=1, method="inverted_cdf") for level in levels], axis=-1)
        return np.asarray(found[:, 0] if np.ndim(q) == 0 else found)

    def summary(self) -> pd.DataFrame:
        """One row per release: mean, quantiles and largest risk, and which record it is."""
        risk = self.risk
        columns: dict[str, object] = {"release": self.releases, "mean": risk.mean(axis=1)}
        columns |= {f"quantile_{level:g}": self.quantile(level) for level in LEVELS}
        return pd.DataFrame(
            columns | {"max": risk.max(axis=1), "riskiest": self.rows[np.argmax(risk, axis=1)], "engine": self.engine}
        )

    def riskiest(self, count: int = 10, release: str | int | Mask = 0) -> pd.DataFrame:
        """The records with the largest risk under one release, by position and never by value."""
        count = check_integer("count", count, low=1)
        i = self._release_position(release)
        order = np.argsort(-self.risk[i], kind="stable")[:count]
        found = {"row": self.rows[order], "risk": self.risk[i, order], "risk_error": self.risk_error[i, order]}
        found["uncertainty"] = self.uncertainty[i, order]
        if self.groups is not None:
            found["group"] = self.groups[order]
        return pd.DataFrame(found)

    def by_group(self) -> pd.DataFrame:
        """One row per release and group: records, mean, quantiles and largest risk."""
        if self.groups is None:
            raise InputError("Risk by group needs groups", "none", "Pass groups= to record_risk, one label per record")
        rows = []
        for i, label in enumerate(self.releases):
            for group, part in pd.Series(self.risk[i]).groupby(self.groups, sort=False, dropna=False):
                mine = part.to_numpy()
                row = {"release": label, "group": group, "records": len(mine), "mean": mine.mean()}
                row |= {f"quantile_{q:g}": float(np.quantile(mine, q, method="inverted_cdf")) for q in (0.5, 0.95)}
                rows.append(row | {"max": mine.max()})
        return pd.DataFrame(rows)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per release and record."""
        m, n = self.uncertainty.shape
        found = {
            "release": np.repeat(np.array(self.releases, dtype=object), n),
            "row": np.tile(self.rows, m),
            "uncertainty": self.uncertainty.ravel(),
            "error": self.error.ravel(),
            "risk": self.risk.ravel(),
            "risk_error": self.risk_error.ravel(),
        }
        if self.groups is not None:
            found["group"] = np.tile(self.groups, m)
        return pd.DataFrame(found)

    def plot(
        self,
        release: str | int | Mask | None = None,
        ax: Axes | None = None,
        *,
        by_group: bool = False,
        max_risk: float | None = None,
    ) -> Axes:
        """How many records have which risk: a histogram of one release, or a curve each; see `plots.record_risk`."""
        from .. import plots

        return plots.record_risk(self, release, ax, by_group=by_group, max_risk=max_risk)

    def _release_position(self, release: str | int | Mask) -> int:
        """Position of a release, by position, label or mask."""
        if isinstance(release, (Mask, str)):
            label = str(release)
            if label not in self.releases:
                raise InputError("There is no such release", label, suggest(label, self.releases))
            return self.releases.index(label)
        return check_index("release", release, len(self.masks))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        table = self.summary().drop(columns="engine").to_string(index=False, float_format=lambda v: f"{v:.4g}")
        return f"Risk of {len(self.rows):,} records under {len(self.masks):,} releases\n{table}"


def _merge_members(user: Role, values: Iterator[tuple[Value, Array]]) -> tuple[Value, Array]:
    """A user's values, or a panel's from its members', record by record."""
    if not isinstance(user, Panel):
        return next(values)
    parts = [_merge_members(member, values) for member in user.members]
    before = np.array([user.merge_before([float(b[j]) for _, b in parts]) for j in range(len(parts[0][1]))])
    if user.unit == "before":
        # Every record has its own U before the release.
        parts = [(Value(v.value / b, v.error / b), np.ones_like(b)) for v, b in parts]
        return user.merge([v for v, _ in parts], before=[1.0] * len(parts)), before
    return user.merge([v for v, _ in parts]), before


def _check_rows(rows: Sequence[int], size: int) -> NDArray[np.int64]:
    do = "Leave rows out for all records"
    listed = check_list("rows", rows, do)
    strange = sum(not is_number(r) or r % 1 != 0 for r in listed)
    if strange:
        # Whoever passes the records themselves by mistake should not find them in the message.
        raise InputError("rows must be whole numbers", f"{strange} others", "Count rows from 0")
    return check_distinct_positions("rows", check_filled("rows", listed, do), size)


def _check_groups(groups: ArrayLike, size: int) -> NDArray[np.generic]:
    do = "Give a label for every record of the file"
    labels = check_list("groups", groups, do)
    if len(labels) != size or not all(map(is_label, labels)):
        raise InputError(f"groups must be {size} labels, one per record", f"{len(labels)} of them", do)
    array = np.empty(size, dtype=object)
    array[:] = labels
    return array
