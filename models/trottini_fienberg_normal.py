"""Trottini and Fienberg (2002), example 1: noise and averaging for one normal variable.

Ten records are normal with variance 2; both users hold a normal prior with variance 5 on the mean. The intruder
wants record 0, the scientist the mean, and both pay the squared error. The map compares suppression (the paper's
M0), the average of all records (M1), noise and then the average (M2), noise alone with the target's row known and
unknown, and averages in several groups with the target's group known and unknown.

Run it with ``ruvdecision run models/trottini_fienberg_normal.py --max-risk 0.5 --out out/``.
"""

from dataclasses import replace

import numpy as np
from scipy import integrate, stats

import ruvdecision as ruv
from ruvdecision.numerics.orderstatistics import group_variances

MAX_RISK = 0.5
PAPER = {"n": 10, "variance": 2.0, "prior_variance": 5.0}
average = ruv.Microaggregate(groups=1)


def users(n=10, variance=2.0, prior_variance=5.0):
    """The paper's intruder and scientist."""
    belief = ruv.NormalBelief(records=n, variance=variance, prior_mean=0, prior_variance=prior_variance)
    intruder = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), name="The intruder")
    return intruder, ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic(), name="The scientist")


def study(n=10, variance=2.0, prior_variance=5.0, largest=1600.0):
    """Map the paper's three releases and their rivals, with noise variances up to ``largest``."""
    intruder, scientist = users(n, variance, prior_variance)
    # Two digits each, so that the values read well on the map.
    two_digits = [float(f"{v:.1e}") for v in np.geomspace(0.01, largest, 150)]
    grid = np.union1d(two_digits, [2.08])
    groups = [g for g in range(2, n) if n % g == 0]
    masks = [ruv.Suppress(), average]
    masks += [ruv.Noise(variance=v) | average for v in grid]
    masks += [ruv.Noise(variance=v) for v in grid]
    masks += [ruv.Shuffle() | ruv.Noise(variance=v) for v in grid]
    masks += [ruv.Microaggregate(groups=g) for g in groups]
    masks += [ruv.Shuffle() | ruv.Microaggregate(groups=g) for g in groups]
    rumap = ruv.evaluate(masks, intruder=intruder, scientist=scientist)
    return replace(rumap, attrs={**rumap.attrs, "n": n, "variance": variance, "prior_variance": prior_variance})


def figure(rumap, max_risk=None):
    """The map without the releases that tie with others, and without the far end of noise alone."""
    shown = rumap.select(technique=["Suppress", "Microaggregate", "Noise | Microaggregate", "Noise"])
    return shown.take(np.flatnonzero(shown.risk <= 2 * shown.risk[1])).plot(max_risk=max_risk).figure


def notes(rumap):
    """The paper's numbers beside ours."""
    s = {name: rumap.attrs[name] for name in PAPER}
    if s != PAPER:
        yield (
            "The paper's numbers are for n = 10, variance 2 and prior variance 5; these settings differ, so none "
            "are "
            "compared."
        )
        return
    intruder, scientist = users(**s)
    n, s2 = s["n"], s["variance"]

    def row(mask):
        return ruv.evaluate([mask], intruder=intruder, scientist=scientist)[0]

    def best(family):
        return ruv.optimise(family, intruder=intruder, scientist=scientist, max_risk=0.5)

    none, mean = row(ruv.Suppress()), row(average)
    yield (
        f"M0, suppression: risk {none.risk:.4f}, utility {none.utility:.4f}. Paper: 1/(s2 + f2) = 0.1429 and 1/f2 = "
        "0.2."
    )
    yield (
        f"M1, the average: risk {mean.risk:.4f}, utility {mean.utility:.4f}. The paper prints the risk as (1/n)/((n-1) "
        "s2) = 0.0056, a misprint for n/((n-1) s2) = 0.5556."
    )
    found = best(lambda variance: ruv.Noise(variance=variance) | average)
    v = found.parameters["variance"]
    printed, literal = row(ruv.Noise(variance=2.081) | average), row(ruv.Noise(sd=2.081) | average)
    yield (
        f"M2 at risk 0.5: noise variance {v:.6g} (sd {np.sqrt(v):.8g}), utility {found.utility:.10g}. Paper: r = "
        "2.081, utility 2.65."
    )
    yield (
        f"  The paper's 2.081 is the variance on a grid: variance 2.081 has risk {printed.risk:.8f} and utility "
        f"{printed.utility:.8f}; "
        f"as a standard deviation it would give risk {literal.risk:.8f} and utility {literal.utility:.8f}."
    )
    alone = best(lambda variance: ruv.Noise(variance=variance))
    yield (
        "Claim (ii), noise and average beat noise alone. Row known: true; noise alone needs variance "
        f"{alone.parameters['variance']:.9g} and leaves utility {alone.utility:.9g}."
    )
    hidden = row(ruv.Shuffle() | ruv.Noise(variance=2.08))
    yield (
        f"  Row unknown: a tie. Expected U is {hidden.intruder_uncertainty:.10g} for noise alone "
        f"and {found.intruder_uncertainty:.10g} for M2. "
        f"Only E(1/U) differs, {_mean_reciprocal(intruder.belief, 2.08):.10f} against 0.5, because 1/U is convex."
    )
    for g in (1, 2, 5, 10):
        known = row(ruv.Microaggregate(groups=g))
        unknown = row(ruv.Shuffle() | ruv.Microaggregate(groups=g))
        yield (
            f"Claim (i), one group is best. {g} group{'s' if g > 1 else ' '}: risk {known.risk:.4f} with the group "
            f"known, {unknown.risk:.4f} with the group unknown."
        )
    yield "  So (i) holds for a known group and is a tie in mean U for an unknown one."
    two = best(lambda variance: ruv.Noise(variance=variance) | ruv.Microaggregate(groups=2))
    yield (
        f"Noise and two known groups at risk 0.5: variance {two.parameters['variance']:.9g}, utility {two.utility:.9g}."
    )
    for g in (2, 5):
        u = s2 * float(np.mean(group_variances([n // g] * g)))
        yield (
            f"Sorted groups are riskier: {g} groups of sorted records, group known, leave the intruder {u:.8f}, "
            f"against {s2 * (1 - g / n):.1f} for unsorted ones."
        )


def _mean_reciprocal(belief, noise):
    """E(1/U) for noise alone with an unknown row: U depends on the release through a chi-square."""
    n, s2, f2 = belief.records, belief.variance, belief.prior_variance
    rho = s2 / (s2 + noise)
    v = 1 / (1 / f2 + n / (s2 + noise))
    law = stats.chi2(n - 1)

    def reciprocal(x):
        return law.pdf(x) / (s2 * (1 - rho) + (1 - rho) ** 2 * v + rho**2 * (s2 + noise) * x / n)

    return integrate.quad(reciprocal, 0, np.inf)[0]


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
