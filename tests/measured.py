"""Every exported measure in several settings, for data with any columns, and the releases that each is tried on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from ruvdecision import measures
from ruvdecision.measures import Correlations, Logistic, Means, Measure, Poisson, Quantiles, Statistic

PEOPLE = pd.DataFrame({c: np.random.default_rng(i).choice([0.0, 1.0, 2.0, 3.5], 30) for i, c in enumerate("abcxy")})
"""A file beside original and release, for measures that take a population or a holdout."""
BASES = {"Measure", "PairedMeasure", "RecordMeasure"}


def names() -> list[str]:
    """The measures that can be made, as `measures.__all__` has them: a newcomer is tested on arrival."""
    every = (getattr(measures, name) for name in measures.__all__)
    return sorted(
        c.__name__ for c in every if isinstance(c, type) and issubclass(c, Measure) and c.__name__ not in BASES
    )


def labels(data: Any) -> list[Any]:
    """Column labels of any data; two made-up ones where there are none."""
    if isinstance(data, pd.DataFrame) and data.shape[1]:
        return list(data.columns)
    if isinstance(data, pd.Series):
        return [data.name]
    width = np.ndim(data)
    if isinstance(data, np.ndarray | list) and width:
        return list(range(np.shape(data)[1] if width == 2 else 1)) or ["a", "b"]
    return ["a", "b"]


def mean_of(table: pd.DataFrame) -> float:
    """A statistic that any table has: how many different first entries there are."""
    return float(table.iloc[:, 0].nunique())


def two_numbers(table: pd.DataFrame) -> tuple[float, float]:
    """An estimate and its variance that any table has."""
    return float(table.iloc[:, -1].nunique()), 1.0


def quoted(label: Any) -> str:
    """A column's name as a formula has it."""
    return f"`{label}`"


def settings(name: str, columns: list[Any]) -> Iterator[dict[str, Any]]:
    """Arguments for a measure of data with these columns, the plainest first."""
    first, last = columns[0], columns[-1]
    some = columns[: max(1, len(columns) // 2)]
    y, x = quoted(first), quoted(last) if last != first else "1"
    model = f"{y} ~ {x}"
    every = f"{y} ~ ."
    yield from {
        "MD": [{}, {"columns": some}],
        "MCM": [{}, {"columns": some}],
        "AttributeDisclosure": [
            {"unknown": last},
            {"unknown": first, "distance": "rank", "known": last},
            {"unknown": last, "distance": "mahalanobis"},
        ],
        "IntruderError": [
            {"unknown": last},
            {"unknown": first, "distance": "rank"},
            {"unknown": last, "distance": "mahalanobis"},
        ],
        "Cluster": [{"clusters": 3}, {"clusters": [2, 1], "standardise": True}, {"clusters": 2, "method": "kmeans"}],
        "ClusteredPropensity": [
            {"clusters": 2},
            {"clusters": 1, "degree": 2, "standardise": True, "separable": "share", "statistic": "ratio"},
            {"clusters": 2, "null": "permutation", "permutations": 2, "statistic": "z"},
        ],
        "ClusteringAttack": [{}, {"clusters": 2, "method": "kmeans"}, {"clusters": 1, "known": some}],
        "CoefficientChanges": [
            {"model": model},
            {"model": every, "kind": "significance"},
            {"model": [Means(), model], "weights": [1, 2], "kind": "any sign"},
        ],
        "CramersV": [{}, {"signed": True, "missing": "category"}],
        "PearsonC": [{}, {"signed": True, "missing": "category"}],
        "DensityKL": [{"columns": some[:2]}, {"columns": first, "under": "both", "bandwidth": 0.5}],
        "InformationLoss": [{"columns": some[:2]}, {"columns": first, "bandwidth": 0.5}],
        "Eigenvalues": [{}, {"robust": True}],
        "EllipsoidOverlap": [
            {"model": model},
            {"model": Means()},
            {"model": every, "method": "draws", "draws": 100},
            {"model": Logistic(model)},
        ],
        "EnergyDistance": [{}, {"standardise": False}, {"columns": first}],
        "EntropyChange": [{}, {"signed": True, "missing": "category"}, {"way": 1}],
        "Hellinger": [{}, {"way": 2, "missing": "category"}],
        "TotalVariation": [{}, {"way": 1, "missing": "category"}],
        "EntropyLoss": [{}, {"missing": "category"}],
        "FellegiSunter": [
            {},
            {"known": some, "tolerance_sd": 0, "iterations": 3},
            {"tolerance_sd": 1.0, "start_m": 0.5},
            {"tolerance_share": 0.05, "one_to_one": True},
        ],
        "ImputationLoss": [{}, {"statistic": two_numbers}],
        "IntervalDisclosure": [{}, {"width_rank": 0.1, "across": "any"}, {"width_sd": 0, "across": "mean"}],
        "IntervalOverlap": [
            {"model": model},
            {"model": every, "kind": "length", "penalty": 0.1},
            {"model": Logistic(model)},
            {"model": Poisson(model)},
            {"model": Means()},
            {"model": Quantiles(at=[0.1, 0.5])},
            {"model": Correlations()},
            {"model": Statistic(lambda x: x.mean(axis=0), draws=20)},
            {"model": f"{y} ~ C({x})" if x != "1" else f"{y} ~ 0 + 1"},
            {"model": f"{y} ~ np.log({x})"},
        ],
        "KAnonymity": [{}, {"keys": some, "missing": "category"}, {"missing": "wildcard"}],
        "LDiversity": [
            {"target": last},
            {"target": first, "kind": "entropy", "missing": "category"},
            {"target": last, "kind": "recursive", "c": 1.5},
        ],
        "TCloseness": [{"target": last}, {"target": first, "keys": [last], "missing": "category"}],
        "IndividualRisk": [{}, {"keys": some, "weights": last}, {"method": "exact", "alpha": 0.5, "threshold": 0.1}],
        "HouseholdRisk": [{"household": last}, {"keys": some[:1], "household": last, "method": "exact"}],
        "SkinnerElliot": [
            {"population": 100},
            {"keys": some, "weights": last, "population": None},
            {"population": 50, "missing": "category"},
        ],
        "KMap": [{"population": PEOPLE, "keys": [first]}, {"population": PEOPLE, "missing": "category"}],
        "DeltaPresence": [{"population": PEOPLE, "keys": [first]}, {"population": PEOPLE, "missing": "category"}],
        "PopulationUniques": [{"population": PEOPLE, "keys": [first]}],
        "Disclosure": [{"keys": first, "target": last}, {"keys": some}, {"keys": last, "missing": "category"}],
        "ReplicatedUniques": [{}, {"keys": some, "share": True}],
        "ClosestRecord": [{}, {"known": some, "distance": "mahalanobis"}],
        "Linkability": [{"known": first, "other": last}, {"known": first, "other": last, "distance": "mahalanobis"}],
        "Membership": [{"holdout": PEOPLE}],
        "TableUtility": [{}, {"way": [1, 2], "kind": "S_pMSE"}, {"columns": some, "kind": "JSD", "groups": 3}],
        "TrainOnRelease": [{"target": last, "estimator": "linear", "folds": 2}, {"target": first, "holdout": PEOPLE}],
        "LogLinearLoss": [{}, {"margins": 1, "smoothing": 0.5, "missing": "category"}],
        "LogLinearUniques": [
            {"population": 100},
            {"population": 10**12, "margins": 2, "missing": "category"},
            {"population": 50, "overdispersed": True, "keys": some},
        ],
        "PitmanUniques": [{"population": 100}, {"population": 10**12, "keys": some, "missing": "category"}],
        "PoissonGammaUniques": [
            {"population": 100},
            {"population": 10**12, "method": "moments", "missing": "category"},
            {"population": 13, "combinations": 10**6},
        ],
        "NormalKL": [{}, {"under": "both", "columns": some}, {"under": "released"}],
        "Propensity": [
            {},
            {"degree": 2, "statistic": "ratio"},
            {"degree": "II", "statistic": "U"},
            {"statistic": "z", "null": "permutation", "permutations": 3},
            {"statistic": "SPECKS", "null": "synthetic", "degree": 3},
        ],
        "TreePropensity": [
            {},
            {"min_split": 2, "min_leaf": 1, "cp": 0},
            {"statistic": "ratio", "null": "permutation", "permutations": 2, "min_leaf": 2, "min_split": 4},
        ],
        "RecordLinkage": [
            {},
            {"distance": "mahalanobis"},
            {"distance": "rank", "link": "original to released"},
            {"one_to_one": True, "known": some},
            {"error_sd": 0.5, "draws": 2},
            {"error_rate": 0.5, "draws": 2},
            {"known": [last]},
        ],
        "SampleUniques": [{}, {"share": True, "keys": some, "missing": "category"}],
        "SpecialUniques": [{"largest": 2}, {"share": True, "keys": some[:3], "missing": "category"}],
        "VarianceInflation": [{}, {"statistic": mean_of, "draws": 5}],
        "SlicedWasserstein": [{"projections": 5}, {"projections": 3, "order": 1, "standardise": False}],
        "Wasserstein": [{}, {"order": 3, "standardise": False}],
    }.get(name, [{}])


def required(kind: type, columns: list[Any]) -> dict[str, Any]:
    """Arguments that a measure cannot do without, for one that `settings` does not know."""
    fill = {
        "model": f"{quoted(columns[0])} ~ 1",
        "unknown": columns[-1],
        "target": columns[-1],
        "household": columns[-1],
        "other": columns[-1],
        "population": 100,
    }
    if kind.__name__ in ("KMap", "DeltaPresence", "PopulationUniques", "Membership"):
        fill |= {"population": PEOPLE, "holdout": PEOPLE}
    return {f.name: fill[f.name] for f in fields(kind) if f.name in fill}


def instances(name: str, data: Any) -> list[Callable[[], Any]]:
    """Makers of the measure in every setting, and with missing values left out.

    Some may refuse to be made for such columns.
    """
    kind, columns = getattr(measures, name), labels(data)
    chosen = [required(kind, columns) | given for given in settings(name, columns)]
    return [lambda given=given: kind(**given) for given in [*chosen, {**chosen[0], "missing": "omit"}]]


# -- releases ------------------------------------------------------------------------------------------


def noisy(data: Any) -> Any:
    """Numbers a little off, in their own type where it takes fractions.

    The first entry like the last in other columns.
    """
    if isinstance(data, pd.DataFrame):
        out = data.copy()
        for j in range(data.shape[1]):
            out.isetitem(j, noisy_column(data.iloc[:, j], seed=j))
        return out
    if isinstance(data, pd.Series):
        return pd.Series(noisy_column(data, seed=0), index=data.index, name=data.name)
    if isinstance(data, np.ndarray) and data.dtype.kind == "f" and data.size:
        return (data + 0.01 * np.random.default_rng(5).standard_normal(data.shape)).astype(data.dtype)
    return data


def noisy_column(column: pd.Series, seed: int) -> Any:
    """The values of one column with noise."""
    if pd.api.types.is_float_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        moved = values + 0.01 * size * np.random.default_rng(seed).standard_normal(len(values))
        return pd.Series(moved).astype(column.dtype).array
    values = column.array.copy()
    if len(values):
        values[0] = values[-1]
    return values


def rows(data: Any, which: Any) -> Any:
    """Some rows of data that have rows."""
    if isinstance(data, pd.DataFrame | pd.Series):
        return data.iloc[which]
    return data[which] if isinstance(data, np.ndarray) and data.ndim else data


def column(data: Any, value: Any) -> Any:
    """The data with another first column."""
    if isinstance(data, pd.DataFrame) and data.shape[1]:
        out = data.copy()
        out.isetitem(0, value if not callable(value) else value(out.iloc[:, 0]))
        return out
    if (
        isinstance(data, np.ndarray)
        and data.dtype.kind == "f"
        and data.ndim == 2
        and data.shape[1]
        and isinstance(value, float)
    ):
        out = np.array(data)
        out[:, 0] = value
        return out
    return data


def other_type(series: pd.Series) -> Any:
    """A column as objects, or as text where it holds text already."""
    return series.astype(object) if pd.api.types.is_numeric_dtype(series.dtype) else series.astype(str)


def length(data: Any) -> int:
    """How many rows there are, if there are rows."""
    return len(data) if np.ndim(data) else 0


def turned(data: Any) -> Any:
    """The rows in another order."""
    return rows(data, np.random.default_rng(2).permutation(length(data)))


RELEASES: dict[str, Callable[[Any], Any]] = {
    "the same": lambda data: data,
    "noisy": noisy,
    "rows in another order": turned,
    "fewer rows": lambda data: rows(data, slice(0, max(1, length(data) // 2))),
    "one row": lambda data: rows(data, slice(0, 1)),
    "twice as many rows": lambda data: rows(data, np.repeat(np.arange(length(data)), 2)),
    "columns in another order": lambda data: data.iloc[:, ::-1] if isinstance(data, pd.DataFrame) else data,
    "a column less": lambda data: data.iloc[:, 1:] if isinstance(data, pd.DataFrame) else data,
    "a column more": lambda data: data.assign(more=1.0) if isinstance(data, pd.DataFrame) else data,
    "another type": lambda data: column(data, other_type),
    "a column of NaN": lambda data: column(data, np.nan),
    "a constant column": lambda data: column(data, 1.0),
    "an infinite column": lambda data: column(data, np.inf),
    "a column of text": lambda data: column(data, "x"),
}


MANY = 77
# The mean of 77 of these is off by a rounding error, so that a plain standard deviation is not zero.
AWKWARD = [0.1, 1 / 3, 100_000.1]


def two_columns(seed: int = 0) -> pd.DataFrame:
    """Normal columns c and x."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"c": rng.normal(size=MANY), "x": rng.normal(size=MANY)})
