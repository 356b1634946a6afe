"""A survey in areas with partial pooling: noise and topcoding compared on one map.

Records are normal around the mean of their area, the area means are normal around a common mean, and both spreads are
unknown: small areas borrow from large ones. The scientist wants all area means and pays the sum of squared errors. The
intruder wants one record and pays the squared error: the largest value in the smallest area, a respondent who stands
out and has few to hide among. He knows the row.

Noise hides every record alike and costs every area mean something. Topcoding reports values above a threshold as the
threshold: it hides high values only, and those below are released as they are. As long as the threshold lies below the
target's value, the intruder is left with the tail of an area's law, which the other areas help him to know. A threshold
above the target's value gives the value away.

Run it with ``ruvdecision run models/hierarchical_survey.py --out out/``.
"""

from dataclasses import replace

import numpy as np

import ruvdecision as ruv
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.engines import Sampling

MAX_RISK = 0.05
SIZES = (3, 4, 5, 6, 9, 13)
"""Records in each area; the first is the smallest."""
NAMES = ("Ash", "Birch", "Cedar", "Elm", "Fir", "Hazel")


def belief(sizes=SIZES, mean=50.0, spread=10.0):
    """Area means around an unknown common mean, records around their area's."""
    area = np.repeat(np.arange(len(sizes)), sizes)
    names = [NAMES[i] if i < len(NAMES) else f"area {i + 1}" for i in range(len(sizes))]

    def survey(n):
        import pymc as pm

        with pm.Model(coords={"area": names, "record": np.arange(n)}) as model:
            mu = pm.Normal("mu", mean, 2 * spread)
            # A prior that keeps tau from zero: six areas say little about it, and near zero their means would funnel.
            tau = pm.Gamma("tau", 2.0, 2.0 / spread)
            sigma = pm.HalfNormal("sigma", spread)
            # Away from the mean in units of tau: areas that a release says little about then do not funnel.
            means = pm.Deterministic("area_mean", mu + tau * pm.Normal("away", dims="area"), dims="area")
            pm.Normal("x", means[area[:n]], sigma, dims="record")
        return model

    words = (
        f"records of {len(sizes)} areas to be normal around area means, those normal around a common mean, both "
        "spreads unknown"
    )
    return PyMCBelief(survey, name=words)


def records(sizes=SIZES, mean=50.0, between=6.0, within=8.0, seed=33):
    """A drawn survey: one record per row, the areas one after the other."""
    rng = np.random.default_rng(seed)
    means = rng.normal(mean, between, len(sizes))
    return rng.normal(np.repeat(means, sizes), within)


def study(sizes=SIZES, points=5, draws=1000, tune=500, chains=4, seed=33, executor=None, checkpoint=None):
    """Noise from a fifth to three times the sd within areas; thresholds from the target's value down to the middle."""
    sizes = tuple(int(s) for s in sizes)
    if len(sizes) < 2 or min(sizes) < 1:
        raise ruv.InputError(
            "sizes must list two areas or more, each with a record", sizes, "Write --set sizes=[4,6,8]"
        )
    x = records(sizes, seed=seed)
    small = int(np.argmin(sizes))
    first = int(np.sum(sizes[:small]))
    target = first + int(np.argmax(x[first : first + sizes[small]]))
    common = belief(sizes)
    intruder = ruv.User(common, ruv.Record(target), ruv.Quadratic(), name="The intruder")
    scientist = ruv.User(common, ruv.Parameter("area_mean"), ruv.Quadratic(), name="The scientist")
    noise = [ruv.Noise(sd=float(f"{s:.2g}")) for s in np.geomspace(1.6, 24.0, points)]
    # One digit after the point, all of them below the target's value: above it there is nothing to sample, it is given
    # away.
    low, high = min(float(np.quantile(x, 0.4)), float(x[target]) - 1.0), float(x[target])
    cuts = np.unique(np.floor(10 * np.linspace(low, high - 0.1, points)) / 10)
    masks = [*noise, *(ruv.Topcode(at=float(c)) for c in cuts if c < high), ruv.Suppress()]
    engine = Sampling(draws=draws, tune=tune, chains=chains, target_accept=0.95, reuse=False)
    users = {"intruder": intruder, "scientist": scientist}
    rumap = ruv.evaluate(masks, **users, data=x, engine=engine, seed=seed, executor=executor, checkpoint=checkpoint)
    hidden = [int(np.sum(x > mask.at)) if isinstance(mask, ruv.Topcode) else 0 for mask in masks]
    return replace(rumap, attrs={**rumap.attrs, "sizes": list(sizes), "target_area": small, "hidden": hidden})


def figure(rumap, max_risk=None):
    """The map, with its error bars."""
    ax = rumap.plot(max_risk=MAX_RISK if max_risk is None else max_risk)
    ax.set_xlabel("utility, 1 / summed variance of the area means   better →")
    ax.set_ylabel("risk, 1 / variance of the target's record   ← better")
    ax.set_title("Areas with partial pooling: noise and topcoding")
    return ax.figure


def notes(rumap):
    """Which technique serves better at the same risk, and how the numbers were got."""
    n, size = sum(rumap.attrs["sizes"]), rumap.attrs["sizes"][rumap.attrs["target_area"]]
    yield (
        f"{n} records in {len(rumap.attrs['sizes'])} areas; the target is the largest of the {size} records of the "
        "smallest area."
    )
    for technique in ("Noise", "Topcode"):
        own = rumap.select(technique=technique)
        allowed = np.flatnonzero(own.risk <= MAX_RISK)
        if len(allowed):
            best = allowed[np.argmax(own.utility[allowed])]
            yield (
                f"{technique}: the most utility with risk at most {MAX_RISK:g} has {own.releases[best]}, risk "
                f"{own.risk[best]:.4f} ± "
                f"{own.risk_error[best]:.4f}, utility {own.utility[best]:.4f} ± {own.utility_error[best]:.4f}."
            )
        else:
            yield (
                f"{technique}: no release of the grid has risk at most {MAX_RISK:g}; the least is {own.risk.min():.4f}."
            )
    coded = rumap.select(technique="Topcode")
    above = [k for k, t in zip(rumap.attrs["hidden"], rumap.techniques, strict=True) if t == "Topcode"]
    yield (
        f"Topcoding at {coded.parameters['at'][-1]:g} hides {above[-1]} of {n} records and leaves the intruder a "
        f"standard deviation of {np.sqrt(coded.intruder_uncertainty[-1]):.2f}; at {coded.parameters['at'][0]:g} it "
        f"hides {above[0]} and leaves {np.sqrt(coded.intruder_uncertainty[0]):.2f}. Thresholds above the target's "
        "value would give it away."
    )
    order = np.argsort(coded.parameters["at"])
    if np.any(np.diff(coded.utility[order]) < 0):
        yield (
            "A milder threshold has less utility somewhere: this is one file. What comes to light there may lie "
            "farther apart than the model expects, which widens the law of the spread between areas and with it that "
            "of their means. On average over files more detail never costs utility."
        )
    for marginalization in dict.fromkeys(rumap.columns["intruder_marginalization"].tolist()):
        there = rumap.columns["intruder_marginalization"] == marginalization
        how = rumap.columns["intruder_how"][there].tolist()
        ways = ", ".join(f"{how.count(way)} {way}" for way in dict.fromkeys(how))
        yield f"Marginalization, {marginalization}: {ways}; {int(np.sum(~rumap.converged[there]))} not converged."


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
