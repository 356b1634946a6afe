"""Duncan, Keller-McNulty and Stokes (2001), section IV: additive noise against snoopers who know more or less.

n normal records get normal noise. The scientist takes the released mean; the snooper knows a row (eq. 4), that the
target belongs to the population (eq. 2), that it is the 99th population percentile (eq. 8) or the largest record (eq.
10). The maps show figures 2, 3 and 4 with the formulas as printed, with the exact error of the same rules, and for a
snooper who uses Bayes' rule and knows the noise variance.

Run it with ``ruvdecision run models/duncan_additive_noise.py --out out/``.
"""

from dataclasses import replace

import numpy as np

from ruvdecision import plots
from ruvdecision.errors import InfeasibleError
from ruvdecision.numerics.orderstatistics import extreme_constants, normal_moments
from ruvdecision.scenarios import Curve, crossings, map_curves, optimal_noise

RISK = 5.0
"""The paper's largest tolerable risk.

It is a threshold for each state of knowledge, so the maps themselves have no one choice.
"""
PAPER = {"n": 200, "variance": 1.0, "p": 0.99}
METHODS = {"paper": "as printed", "exact": "exact error of the same rules", "bayes": "Bayes' rule, flat prior"}


def scenarios(n=200, variance=1.0, p=0.99, method="paper"):
    """The four snoopers of figure 4; figures 2 and 3 have the first two and three."""
    common = {"n": n, "variance": variance, "method": method}
    return {
        "record": Curve(knowledge="record", **common),
        "population": Curve(knowledge="population", **common),
        "percentile": Curve(target="percentile", p=p, **common),
        "maximum": Curve(target="maximum", knowledge="sample", **common),
    }


def study(n=200, variance=1.0, p=0.99, largest=1.5, points=151):
    """Map figures 2, 3 and 4 by all three methods, for noise variances up to ``largest`` times the population's."""
    grid = variance * np.linspace(0, largest, points)
    every = [list(scenarios(n, variance, p, m).values()) for m in METHODS]
    maps = {f"figure {2 + i}": map_curves([c for curves in every for c in curves[: 2 + i]], grid) for i in range(3)}
    return {k: replace(m, attrs={**m.attrs, "n": n, "variance": variance, "p": p}) for k, m in maps.items()}


def figure(result, max_risk=None):
    """One row per figure of the paper, one column per method."""
    import matplotlib.pyplot as plt

    names = {"typical, record": "row known", "typical, population": "in the population"}
    names |= {"percentile, population": "percentile", "maximum, sample": "maximum", "record knowledge": "row known"}
    names |= {"population knowledge": "in the population"}
    margins = {"left": 0.05, "right": 0.99, "bottom": 0.05, "top": 0.97, "wspace": 0.1, "hspace": 0.16}
    drawing, axes = plt.subplots(3, 3, figsize=(15, 12.5), gridspec_kw=margins)
    for i, (title, rumap) in enumerate(result.items()):
        finite = rumap.risk[np.isfinite(rumap.risk)]
        span = (finite.min() / 1.6, 2 * finite.max())
        for j, (method, words) in enumerate(METHODS.items()):
            limit = RISK if max_risk is None else max_risk
            ax = plots.knowledge(rumap.select(method=method), limit, axes[i, j], log="y", risk_range=span, names=names)
            ax.set_title(f"{title.capitalize()}, {words}")
            ax.set_xlabel("data utility, 1 / MSE of the mean   better →" if i == 2 else "")
            ax.set_ylabel("disclosure risk, 1 / MSE of the snooper   ← better" if j == 0 else "")
    return drawing


def notes(result):
    """The paper's numbers beside ours."""
    settings = {name: result["figure 4"].attrs[name] for name in PAPER}
    n, s2, p = settings.values()
    curve = {m: scenarios(n, s2, p, m) for m in METHODS}
    printed = settings == PAPER
    if not printed:
        yield (
            "The paper's numbers are for n = 200, variance 1 and p = 0.99; these settings differ, so only ours are "
            "shown."
        )
    say = (lambda text: f" Paper: {text}.") if printed else lambda text: ""

    row = curve["paper"]["record"]
    best = optimal_noise(row, RISK)
    yield (
        f"Figure 2, row known, risk at most 5: noise variance {best.noise_variance:.6g}, utility {best.utility:.6g}."
        + say(".21 and 165")
    )
    if printed:
        there = f"risk {row.risk(0.21):.4f}, utility {row.utility(0.21):.4f}"
        yield f"  .21 is the first point of a .01 grid with risk strictly below 5: {there}."
    known = Curve(n=n, variance=s2, knowledge="record", method="bayes", prior="known")
    yield (
        f"  A snooper who uses Bayes' rule needs more noise: {_need(known)} with the mean known, "
        f"{_need(curve['bayes']['record'])} with a flat prior. At the plug-in optimum their risk is "
        f"{float(curve['bayes']['record'].risk(best.noise_variance)):.4f} (flat prior)."
    )
    open_ = curve["paper"]["population"]
    yield f"  Row unknown: risk {float(open_.risk(0.0)):.4f} without any noise." + say(
        "low enough that no noise is needed"
    )
    yield (
        f"The mean beats the target's own row from noise variance {_meet(row, open_)} = (n+1)/(n-1) s2 on. "
        f"The paper prints the fraction the other way up, {(n - 1) / (n + 1) * s2:.4f}."
    )
    inside = Curve(n=n, variance=s2, knowledge="sample", method="exact")
    yield (
        f"  If the target is in the sample (the mean contains it) it is {_meet(row, inside)}, the population "
        "variance itself."
    )

    for method, word in (("paper", "eq. 8"), ("exact", "exact"), ("bayes", "Bayes")):
        risks = ", ".join(f"{float(curve[method]['percentile'].risk(v * s2)):.4f}" for v in (0.0, 0.21, 1.0))
        yield f"Figure 3, percentile {p:g}, {word}: risk {risks} at noise variance 0, .21, 1 (times s2)."
    printed_p = curve["paper"]["percentile"]
    yield f"  Eq. 8 meets eq. 4 at noise variance {_meet(printed_p, row)} and eq. 2 at {_meet(printed_p, open_)}."
    yield (
        "  The Bayes snooper knows the population variance: a percentile is then as well known as the mean, and "
        "risk "
        "equals utility."
    )

    constants, moments = extreme_constants(n), normal_moments(n, n)
    yield (
        f"Figure 4, the maximum: K_n1 = {constants.mean:.6f} and K_n2 = {constants.variance:.6f} are asymptotic; "
        f"exactly {moments.mean:.6f} and {moments.variance:.6f}."
    )
    for method, word in (("paper", "eq. 10"), ("exact", "exact"), ("bayes", "Bayes")):
        risks = ", ".join(f"{float(curve[method]['maximum'].risk(v * s2)):.6g}" for v in (0.05, 0.21, 1.0))
        yield f"  {word}: risk {risks} at noise variance .05, .21, 1 (times s2)."
    yield (
        "  Paper: knowing that the target is the extreme helps least. Not so: eq. 10 treats the largest record and the "
        "largest released value as independent. Exactly, the risk has no upper limit, and up to noise variance "
        f"{_meet(curve['exact']['maximum'], curve['exact']['record'])} it exceeds that of the known row."
    )


def _meet(a, b):
    """The noise variances at which two curves meet, in words."""
    return ", ".join(f"{c.noise_variance:.9g}" for c in crossings([a, b])) or "(nowhere)"


def _need(curve):
    """The least noise that keeps the risk at 5, in words."""
    try:
        best = optimal_noise(curve, RISK)
    except InfeasibleError:
        return "no noise is enough"
    return f"variance {best.noise_variance:.7g} (utility {best.utility:.6g})"


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
