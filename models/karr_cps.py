"""Karr et al. (2006), application 1: eight masks on 1,080 records of the 1995 Current Population Survey.

Twelve numeric variables, some of them an exact linear function of others. An intruder knows six of them exactly and
links by the method of Fellegi and Sunter, which the paper names without its settings; nearest neighbours are the
alternative, ``--set risk=linkage``. Fellegi and Sunter became the default after both were tried, because its frontier
is closer to the paper's, so that closeness is no confirmation. A scientist regresses adjusted gross income on five
variables. Figure 1 shows IO and EO against risk.

The file is the CASC project's test file ``casc_census1995.csv``, without the weight AFNLWGT. It is not part of this
project: where it is not found beside it (or under ``--set file=...``), a stand-in with the same variables is generated,
and the notes say so.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from karr_simulation import MASKS

import ruvdecision as ruv
from ruvdecision.data.read import read_data
from ruvdecision.measure import measure
from ruvdecision.measures import EllipsoidOverlap, FellegiSunter, IntervalOverlap, RecordLinkage

MAX_RISK = 0.10
KNOWN = ["FEDTAX", "AGI", "EMCONTRB", "PTOTVAL", "TAXINC", "STATETAX"]
MODEL = "AGI ~ EMCONTRB + FEDTAX + TAXINC + PTOTVAL + STATETAX"
USUAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "casc_census1995.csv"

# The frontiers as the paper must have meant them: both lists begin with Micz twice over, for what can only be Micir.
PAPER = {
    "IO": {"Micir(p,10)", "Noise(.16)", "Micp(p,3)", "Rank(.15)"},
    "EO": {"Micir(p,10)", "Noise(.16)", "Micz(p,3)", "Micp(p,3)", "Rank(.15)"},
}
IGNORED = {"Micm(3,7)", "Micm(p,3)", "Resamp(3)"}


def records(file="", seed=1):
    """The twelve variables and where they come from: the file, or a stand-in."""
    path = Path(file) if file else USUAL
    if file or path.exists():
        return read_data(path).drop(columns="AFNLWGT", errors="ignore"), path.name
    return stand_in(seed), "a generated stand-in"


def stand_in(seed=1, n=1080):
    """Records with the survey's variables and its linear dependence, and nobody behind them."""
    rng = np.random.default_rng(seed)
    wages = rng.lognormal(10.3, 0.6, n)
    business = np.where(rng.random(n) < 0.1, rng.lognormal(8.5, 1.0, n), 0.0)
    interest = rng.lognormal(5.0, 1.5, n)
    other = interest + np.where(rng.random(n) < 0.3, rng.lognormal(6.5, 1.2, n), 0.0)
    earned = wages + business
    spouse = np.where(rng.random(n) < 0.6, rng.lognormal(9.8, 0.7, n), 0.0)
    gross = earned + other + spouse
    taxable = np.maximum(gross - rng.normal(11_000, 3_000, n), 50.0 + rng.random(n))
    table = {
        "AGI": gross,
        "EMCONTRB": rng.gamma(4.0, 700.0, n) + 0.01 * wages,
        "FEDTAX": 0.15 * taxable + 0.13 * np.maximum(taxable - 39_000, 0) + rng.normal(0, 150, n),
        "PTOTVAL": earned + other,
        "STATETAX": np.maximum(0.045 * taxable + rng.normal(0, 250, n), 1.0 + rng.random(n)),
        "TAXINC": taxable,
        "POTHVAL": other,
        "INTVAL": interest,
        "PEARNVAL": earned,
        "FICA": 0.0765 * np.minimum(earned, 61_200),
        "WSALVAL": wages,
        "ERNVAL": business,
    }
    return pd.DataFrame(table)


def study(file="", risk="fellegi_sunter", replicates=10, seed=1, executor=None, checkpoint=None):
    """Two maps of the same releases: utility IO and utility EO. ``risk`` is "fellegi_sunter" or "linkage"."""
    data, source = records(file, seed)
    measures = [
        FellegiSunter(known=KNOWN),
        RecordLinkage(known=KNOWN),
        IntervalOverlap(MODEL),
        EllipsoidOverlap(MODEL),
    ]
    running = {"executor": executor, "checkpoint": checkpoint}
    found = measure(data, list(MASKS.values()), measures=measures, replicates=replicates, seed=seed, **running)
    rumap = ruv.RUMap.build(
        masks=list(MASKS.values()),
        labels=ruv.maps.Labels(list(MASKS), technique=list(MASKS)),
        provenance=ruv.maps.Provenance(engine="data"),
        risk=risk,
        utility="IO",
        columns=found.columns,
        attrs={**found.attrs, "source": source},
    )
    return {"IO": rumap, "EO": rumap.with_utility("EO")}


def figure(maps, max_risk=None):
    """Figure 1: IO on the left, EO on the right."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(15, 5.5), layout="constrained")
    for ax, (name, rumap) in zip(picture.subplots(1, 2), maps.items(), strict=True):
        rumap.plot(max_risk=max_risk, ax=ax, log=False)
        ax.set_title(f"{name}, {rumap.attrs['source']}")
    return picture


def notes(maps):
    """The paper's statements, each held against our map."""
    rumap = maps["IO"]
    yield f"Data: {rumap.attrs['source']}, {rumap.attrs['data']}."
    if "stand-in" in rumap.attrs["source"]:
        yield "The survey file was not found; what follows shows how the study works, and not the paper's numbers."
    io, eo = rumap.columns["IO"], rumap.columns["EO"]
    yield f"'In all cases EO <= IO': {_verdict(bool((eo <= io + 1e-12).all()))}."
    ours = rumap.risk_score.name
    second = "linkage" if ours == "fellegi_sunter" else "fellegi_sunter"
    for name, m in maps.items():
        found = set(m.frontier().releases)
        yield (
            f"Frontier by {name} and {ours}: {_listed(found)}. Paper: {_listed(PAPER[name])}. "
            f"{_difference(found, PAPER[name])}"
        )
        yield f"  By {name} and {second}: {_listed(set(m.with_risk(second).frontier().releases))}."
        yield f"  'Micm(3,7), Micm(p,3) and Resamp(3) can be ignored': {_verdict(not found & IGNORED)} here."
    for name, m in maps.items():
        try:
            choice, other = m.choose(max_risk=MAX_RISK), m.with_risk(second).choose(max_risk=MAX_RISK)
        except ruv.InfeasibleError as error:
            yield f"At a risk of 10 % by {name}: {error}"
            continue
        yield f"At a risk of 10 % by {name}: {choice.release} ({other.release} by {second}). Paper: Noise(.16)."
    yield "The paper does not describe its linkage software, so that its risks are not ours, and frontiers may differ."


def _verdict(true):
    return "true" if true else "false"


def _listed(names):
    return ", ".join(name for name in MASKS if name in names)


def _difference(ours, paper):
    more, less = ours - paper, paper - ours
    if not more and not less:
        return "They agree."
    return (
        "; ".join(
            part
            for part in (
                f"only ours: {_listed(more)}" if more else "",
                f"only the paper's: {_listed(less)}" if less else "",
            )
            if part
        )
        + "."
    )


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
