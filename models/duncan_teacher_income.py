"""Duncan, Keller-McNulty and Stokes (2001), section V: noise on the household incomes of 177 teachers.

The paper's records are confidential. `incomes` makes a sample that has every figure of its Table 1: mean, standard
deviation, minimum, maximum and four percentiles; no real person is in it. Normal noise is added and cut off at zero
(eq. 11). Figure 5 maps the snooper who knows that the target has the largest or the smallest income, figure 6 one who
knows the rank against one who knows the row of the 99th percentile, figure 7 noise of equal variance against
noise of twice the variance above $35,000. Simulated as in the paper, and exact.

Run it with ``ruvdecision run models/duncan_teacher_income.py --out out/``.
"""

from itertools import pairwise

import numpy as np
from scipy import optimize, stats

import ruvdecision as ruv
from ruvdecision import plots
from ruvdecision.engines.rules import clipped_noise as exact
from ruvdecision.numerics.orderstatistics import percentile_rank
from ruvdecision.scenarios import empirical
from ruvdecision.targets import Maximum, Minimum

RISK = 4e-8
"""The paper's threshold, 1 / (5,000 dollars)^2, for each snooper apart."""
MEAN, SD = 20_100.0, 13_300.0
TABLE = {"min": 2_000.0, 0.01: 2_000.0, 0.1: 7_200.0, 0.9: 35_000.0, 0.99: 70_000.0, "max": 95_200.0}
SENSITIVE = 35_000.0
BOTH = ["simulate", "exact"]


def incomes(n=177):
    """A sorted sample of ``n`` incomes with the mean, SD and order statistics of the paper's Table 1.

    Between the printed order statistics the logarithm of income rises as a power of the rank; the powers of the body
    (10 to 90 %) and of the shoulder (90 to 99 %) are the two that give the mean and the standard deviation.
    """
    ranks = {1: TABLE["min"], **{percentile_rank(n, p): TABLE[p] for p in (0.01, 0.1, 0.9, 0.99)}}
    if percentile_rank(n, 0.99) >= n:
        raise ruv.InputError(
            "Table 1 prints a 99th percentile below the maximum, so rank ceil(.99 n) must be below n", n, "Use n = 177"
        )
    ranks[n] = TABLE["max"]
    at, logs = np.array(list(ranks)), np.log(list(ranks.values()))
    bent = [percentile_rank(n, 0.1), percentile_rank(n, 0.9)]

    def curve(body, shoulder):
        out = np.empty(n)
        for (a, b), (low, high) in zip(pairwise(at), pairwise(logs), strict=True):
            rank = np.arange(a, b + 1)
            power = body if a == bent[0] else shoulder if a == bent[1] else 1.0
            out[rank - 1] = low + (high - low) * ((rank - a) / (b - a)) ** power
        return np.exp(out)

    def misses(log_powers):
        x = curve(*np.exp(log_powers))
        return [x.mean() / MEAN - 1, x.std(ddof=1) / SD - 1]

    found = optimize.root(misses, [0.0, 0.0], tol=1e-14)
    if np.max(np.abs(misses(found.x))) > 1e-9:
        raise ruv.InputError(
            "No curve of this kind has the mean and SD of Table 1 with so many records", n, "Use n = 177"
        )
    return curve(*np.exp(found.x))


def study(replicates=200, seed=177, points=20, n=177):
    """Maps of figures 5, 6 and 7, and of all six targets; noise variances are 5 to 100 % of the sample variance."""
    x = incomes(n)
    grid = np.linspace(0.05, 1.0, points) * x.var(ddof=1)
    options = {"replicates": replicates, "seed": seed, "method": BOTH}
    unequal = empirical(x, grid, 0.99, "position", where=_sensitive, times=2, **options)
    return {
        "figure 5": empirical(x, grid, [Maximum(), Minimum()], "position", **options),
        "figure 6": empirical(x, grid, 0.99, **options),
        "figure 7": ruv.RUMap.concat(
            [empirical(x, grid, 0.99, "position", **options), unequal], names=["equal", "unequal"]
        ),
        "all targets": empirical(x, grid, **{**options, "method": "exact"}),
    }


def figure(result, max_risk=None):
    """Figures 5, 6 and 7 side by side."""
    import matplotlib.pyplot as plt

    names = {f"{k}: percentile 0.99, position": f"{k} variance" for k in ("equal", "unequal")}
    titles = {
        "figure 5": "Figure 5: largest and smallest income, rank known",
        "figure 6": "Figure 6: 99th percentile, rank or row known",
        "figure 7": "Figure 7: 99th percentile, noise doubled above \\$35K",
    }
    margins = {"left": 0.045, "right": 0.99, "bottom": 0.12, "top": 0.93, "wspace": 0.12}
    drawing, axes = plt.subplots(1, 3, figsize=(18, 5.4), gridspec_kw=margins)
    for ax, (key, title) in zip(axes, titles.items(), strict=True):
        plots.knowledge(result[key], RISK if max_risk is None else max_risk, ax, log="y", names=names)
        ax.set_title(title)
        ax.set_xlabel("data utility, 1 / MSE of the mean (1 / dollars²)   better →")
        ax.set_ylabel("disclosure risk, 1 / MSE (1 / dollars²)   ← better" if ax is axes[0] else "")
    return drawing


def notes(result):
    """Table 1, and the paper's claims one by one."""
    n = int(result["figure 5"].attrs["records"])
    x = incomes(n)
    s2 = x.var(ddof=1)
    ordered = {k: x[(percentile_rank(n, k) if isinstance(k, float) else 1 if k == "min" else n) - 1] for k in TABLE}
    yield (
        f"Table 1: mean {x.mean():,.0f}, SD {x.std(ddof=1):,.0f}, "
        + ", ".join(f"{k if isinstance(k, str) else f'{k:.0%}'} {v:,.0f}" for k, v in ordered.items())
        + ". Paper: 20.1K, 13.3K, 2K, 2K, 7.2K, 35K, 70K, 95.2K."
    )
    unmasked = 1 / exact.scientist_mse(x, 0.0)[0]
    yield (
        f"Unmasked utility n/S2 = {unmasked:.3g}. Paper: 10.0E-07, which needs n = {10.0e-7 * SD**2:.1f}; "
        f"n = 77 (printed above eq. 12) would give {77 / SD**2:.3g}."
    )
    yield (
        f"  With n = 77 the 99th percentile has rank ceil(76.23) = {percentile_rank(77, 0.99)}, the maximum itself, "
        "but Table 1 has 70K and 95.2K. So the paper's n is about 177."
    )
    yield from _maximum(x)
    yield (
        f"Claim, no noise is enough for the minimum: true for a known rank, risk at least {1 / x[0] ** 2:.3g} because "
        f"the release stops at 0. With the row known {needed(x, 1, knowledge='index') / s2:.5f} S2 is enough."
    )
    every = result["all targets"]
    for target in dict.fromkeys(every.columns["target"].tolist()):
        index, position = (every.select(target=target, knowledge=k).risk for k in ("index", "position"))
        ratio = position / index
        yield (
            f"Claim, the rank gives away more than the row, {target}: {_verdict(ratio)}, the ratio of risks is "
            f"{ratio.min():.4g} to {ratio.max():.4g} over the grid."
        )
    yield (
        "  That is no theorem: for normal records, n = 200, the row is worth more than the rank of the maximum once "
        "the noise variance exceeds .2573 of theirs."
    )
    for p in (0.99, 0.9):
        yield _unequal(x, p)


def _maximum(x):
    """The claims about the largest income."""
    n, s2 = len(x), x.var(ddof=1)

    def risk(v):
        return 1 / exact.ranked_record_mse(x, v, n)[0]

    def efficiency(v):
        return s2 / n / exact.scientist_mse(x, v)[0]

    need, claimed = needed(x, n), 0.12 * s2
    chance = stats.chi2.sf(200 / RISK / exact.linked_record_mse(x[-1], claimed), 200)
    yield (
        f"Claim, .12 S2 meets 4E-08 for the maximum: {_truth(risk(claimed) <= RISK)} with the variance of the records, "
        f"risk {risk(claimed):.4g}; the need is {need / s2:.5f} S2. 200 replicates have a relative error of "
        f"{np.sqrt(2 / 200):.0%} and show 4E-08 or less with probability {chance:.3f}."
    )
    share = optimize.brentq(lambda s: s - 0.12 * exact.released_variance(x, s * s2)[0] / s2, 0.05, 0.5)
    printed = share * s2
    yield (
        f"  With .12 of the released variance S_y2, as printed, lambda2 is {share:.4f} S2 and the risk "
        f"{risk(printed):.4g}: {_truth(risk(printed) <= RISK)} too."
    )
    utility = 1 / exact.scientist_mse(x, printed)[0]
    holds = round(utility * 1e7, 1) == 8.9 and round(100 * efficiency(printed)) == 89
    yield (
        f"Claim, utility 8.9E-07 and efficiency 89 % there: {_truth(holds)}, {utility:.3g} and "
        f"{efficiency(printed):.1%} with S_y2; "
        f"{efficiency(claimed):.1%} with S_x2, {efficiency(need):.1%} at the exact need."
    )


def _unequal(x, p):
    """The claim about unequal variances, for one percentile."""
    n, s2 = len(x), x.var(ddof=1)
    rank = percentile_rank(n, p)
    equal, unequal = needed(x, rank), needed(x, rank, unequal=True)
    after, before = (
        exact.scientist_mse(x, exact.noise_variances_by_threshold(x, unequal, SENSITIVE))[0],
        exact.scientist_mse(x, equal)[0],
    )
    why = "" if x[rank - 1] > SENSITIVE else " 35K is not above 35K, so the target's own noise is not doubled."
    return (
        f"Claim, unequal variance keeps more utility, {p:.0%} target: {_truth(after < before)}, base variance "
        f"{unequal / s2:.5f} against {equal / s2:.5f} S2, utility {1 / after:.4g} against {1 / before:.4g}, efficiency "
        f"{s2 / n / after:.1%} against {s2 / n / before:.1%}.{why}"
    )


def needed(x, rank, knowledge="position", unequal=False, max_risk=RISK):
    """The least (base) noise variance whose exact risk is at most ``max_risk``."""
    x = np.sort(np.asarray(x, dtype=float))
    s2 = x.var(ddof=1)

    def lacks(share):
        if knowledge == "index":
            return float(exact.linked_record_mse(x[rank - 1], share * s2)) - 1 / max_risk
        v = exact.noise_variances_by_threshold(x, share * s2, SENSITIVE) if unequal else share * s2
        return exact.ranked_record_mse(x, v, rank)[0] - 1 / max_risk

    return s2 * optimize.brentq(lacks, 1e-4, 20.0, xtol=1e-12)


def _sensitive(values):
    return values > SENSITIVE


def _truth(holds):
    return "true" if holds else "false"


def _verdict(ratio):
    return "true" if ratio.min() >= 1 else "true up to rounding" if ratio.min() > 1 - 1e-6 else "false"


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
