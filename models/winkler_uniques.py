"""Winkler (2004), section 4: models of population uniques judged by two populations with the same sample.

A file of records with four keys is drawn at random from a population. Two other populations of the same size contain
the very same file. In one, everybody else has a combination of keys that no record has, so that every unique of the
file is unique in the population. In the other, everybody else is the double of some record, so that none is. A model
that sees the file alone gives one answer for all three: it is right at most once. The agency, which has the population,
counts.

Releases recode age from years to four groups and drop keys. Risk is the counted share of records that are unique in the
population at random; columns hold the counts of the other two and the models' estimates. Utility is the share of the
keys' entropy that a release keeps.

Run it with ``ruvdecision run models/winkler_uniques.py --out out/``.
"""

import numpy as np
import pandas as pd

import ruvdecision as ruv
from ruvdecision.measures import LogLinearUniques, PitmanUniques, PoissonGammaUniques, PopulationUniques, SkinnerElliot
from ruvdecision.measures.tables.distances import entropy

MAX_RISK = 0.01
POPULATIONS = {
    "random": "the file is a random sample",
    "alone": "nobody else shares a record's keys",
    "crowded": "everybody else is a record's double",
}
RECODES = {
    "years": lambda x: x,
    "age in fives": lambda x: x.assign(age=x["age"] // 5),
    "age in tens": lambda x: x.assign(age=x["age"] // 10),
    "age in four groups": lambda x: x.assign(age=x["age"] // 20),
    "years, no job": lambda x: x.drop(columns="job"),
    "age in tens, no job": lambda x: x.assign(age=x["age"] // 10).drop(columns="job"),
}
MODELS = {
    "Poisson-Gamma": PoissonGammaUniques,
    "log-linear": LogLinearUniques,
    "Pitman": PitmanUniques,
}


def people(n, rng):
    """Age, region, job and sex of people, drawn apart from one another with unequal shares."""
    shares = {"region": 16, "job": 12, "sex": 2}
    table = {"age": np.minimum(rng.gamma(3.0, 14.0, n), 79.0).astype(int)}
    for name, many in shares.items():
        table[name] = rng.choice(many, n, p=(p := 1.0 / np.arange(1.0, many + 1.0)) / p.sum())
    return pd.DataFrame(table)


def populations(whole, n, rng):
    """Three populations of the same size that contain the same first n records: the given one, alone and crowded."""
    file, others = whole.iloc[:n], len(whole) - n
    known = pd.MultiIndex.from_frame(file)
    strangers = whole[~pd.MultiIndex.from_frame(whole).isin(known)]
    # Each record has a double at least; who has more of them is drawn. Strangers have doubles among themselves.
    doubles = file.iloc[np.concatenate([np.arange(n), rng.integers(n, size=others - n)])]
    joined = {"alone": strangers.iloc[rng.integers(len(strangers), size=others)], "crowded": doubles}
    return {"random": whole} | {k: pd.concat([file, v], ignore_index=True) for k, v in joined.items()}


def study(n=1000, size=20_000, seed=1):
    """Count and estimate the share of population uniques under every recoding."""
    rng = np.random.default_rng([seed, 4])
    whole = people(size, rng)
    columns = {f"counted, {name}": [] for name in POPULATIONS} | {name: [] for name in MODELS}
    columns |= {"sample uniques": [], "unique match": [], "unique match_error": [], "information": []}
    bits = entropy(whole.iloc[:n].value_counts(normalize=True).to_numpy())
    for recode in RECODES.values():
        release = recode(whole).iloc[:n]
        for name, population in populations(recode(whole), n, rng).items():
            found = PopulationUniques(population=population)(release, release)
            columns[f"counted, {name}"].append(float(found))
        columns["sample uniques"].append(found.parts["sample uniques"] / n)
        for name, model in MODELS.items():
            try:
                columns[name].append(float(model(population=size)(release, release)))
            except ruv.UnsupportedError:
                columns[name].append(np.nan)
        match = SkinnerElliot(population=size)(release, release)
        columns["unique match"].append(float(match))
        columns["unique match_error"].append(match.error)
        columns["information"].append(entropy(release.value_counts(normalize=True).to_numpy()) / bits)
    return ruv.RUMap.build(
        labels=list(RECODES),
        provenance=ruv.maps.Provenance(engine="data"),
        risk="counted, random",
        utility="information",
        columns={name: np.array(values) for name, values in columns.items()},
        attrs={"data": f"{n:,} records of {size:,} people", "seed": str(seed)},
    )


def figure(rumap, max_risk=None):
    """The counts in the three populations, and the models' estimates, for every recoding."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(9, 5.5), layout="constrained")
    ax = picture.subplots()
    at = np.arange(len(rumap.releases))
    for name, words in POPULATIONS.items():
        ax.plot(at, rumap.columns[f"counted, {name}"], "o-", label=f"counted: {words}")
    for name in MODELS:
        ax.plot(at, rumap.columns[name], "x--", label=f"estimated: {name}")
    if max_risk is not None:
        ax.axhline(max_risk, color="grey", linewidth=0.8)
    ax.set_xticks(at, rumap.releases, rotation=20, ha="right")
    ax.set_ylabel("share of records that are population uniques")
    ax.legend(fontsize="small")
    return picture


def notes(rumap):
    """How far each model is off in each population."""
    yield f"Data: {rumap.attrs['data']}; the three populations contain the same file."
    for row, release in enumerate(rumap.releases):
        counted = ", ".join(f"{rumap.columns[f'counted, {name}'][row]:.3f} ({name})" for name in POPULATIONS)
        said = ", ".join(f"{name} {rumap.columns[name][row]:.3f}" for name in MODELS)
        unique = rumap.columns["sample uniques"][row]
        yield f"{release}: {unique:.3f} of the records are unique. Counted {counted}; estimated {said}."
    for name in MODELS:
        off = {p: np.nanmax(np.abs(rumap.columns[name] - rumap.columns[f"counted, {p}"])) for p in POPULATIONS}
        yield (
            f"{name} is off by up to {off['random']:.3f} where the file is a random sample, by {off['alone']:.3f} "
            f"where nobody shares a record's keys and by {off['crowded']:.3f} where all do. "
            "Nothing in the file tells which."
        )
    yield (
        "Winkler's objections hold: the models need a simple random sample, say how many and not which, and an agency "
        "that has the population can count."
    )
