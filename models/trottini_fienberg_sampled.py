"""Trottini and Fienberg (2002), example 1, by sampling: the sampled map laid over the exact one.

The same ten normal records and the same two users as in `trottini_fienberg_normal`, but their belief is written as a
PyMC model and nothing is told to the sampler of the closed form. The posterior variances of a normal model do not
depend on what is released, so one drawn file and one release of it are enough, and every sampled uncertainty must lie
within a few of its standard errors of the exact one. Noise alone leaves records that are integrated out; averages tie
them together, and their records are sampled with one coordinate of each exact average eliminated.

Run it with ``ruvdecision run models/trottini_fienberg_sampled.py --max-risk 0.5 --out out/``.
"""

import numpy as np
from scipy import stats

import ruvdecision as ruv
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.engines import Sampling

MAX_RISK = 0.5
average = ruv.Microaggregate(groups=1)


def beliefs(n=10, variance=2.0, prior_variance=5.0):
    """The belief as a formula, and as a PyMC model."""

    def normal(n):
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu", 0.0, np.sqrt(prior_variance))
            pm.Normal("x", mu, np.sqrt(variance), shape=n)
        return model

    words = f"records to be normal with variance {variance:g}, their mean normal with variance {prior_variance:g}"
    return ruv.NormalBelief(records=n, variance=variance, prior_mean=0, prior_variance=prior_variance), PyMCBelief(
        normal, name=words
    )


def users(belief):
    """The paper's intruder and scientist."""
    intruder = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), name="The intruder")
    return {
        "intruder": intruder,
        "scientist": ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic(), name="The scientist"),
    }


def study(
    n=10,
    variance=2.0,
    prior_variance=5.0,
    largest=200.0,
    points=8,
    draws=1000,
    tune=500,
    chains=4,
    seed=10,
    executor=None,
    checkpoint=None,
):
    """Suppression, average, noise and average, noise alone: exact on a fine grid, sampled at ``points`` of it."""
    exact, sampled = beliefs(n, variance, prior_variance)
    marks = [float(f"{v:.2g}") for v in np.geomspace(0.2, largest, points)]
    if variance == 2.0 and prior_variance == 5.0 and n == 10:
        marks[int(np.argmin(np.abs(np.log(np.array(marks) / 2.08))))] = 2.08  # the paper's choice
    masks = [
        ruv.Suppress(),
        average,
        *(ruv.Noise(variance=v) | average for v in marks),
        *(ruv.Noise(variance=v) for v in marks),
    ]
    fine = np.union1d([float(f"{v:.3g}") for v in np.geomspace(min(marks), max(marks), 60)], marks)
    curve = [
        ruv.Suppress(),
        average,
        *(ruv.Noise(variance=v) | average for v in fine),
        *(ruv.Noise(variance=v) for v in fine),
    ]
    data = exact.draw(np.random.default_rng(seed))
    engine = Sampling(draws=draws, tune=tune, chains=chains)
    return {
        "sampled": ruv.evaluate(
            masks,
            **users(sampled),
            data=data,
            engine=engine,
            seed=seed,
            executor=executor,
            checkpoint=checkpoint,
        ),
        "exact": ruv.evaluate(curve, **users(exact)),
    }


def compare(result):
    """Sampled less exact uncertainty in standard errors, one row per release: intruder, scientist."""
    sampled, exact = result["sampled"], result["exact"]
    place = {name: i for i, name in enumerate(exact.releases)}
    rows = [place[name] for name in sampled.releases]
    gaps = []
    for role in ("intruder", "scientist"):
        gap = getattr(sampled, f"{role}_uncertainty") - getattr(exact, f"{role}_uncertainty")[rows]
        error = getattr(sampled, role).error
        # Rao and Blackwell leave no error at all where the law of the target does not depend on the draws.
        gaps.append(
            np.divide(gap, error, out=np.zeros_like(gap), where=np.abs(gap) > 1e-12 * exact.intruder_uncertainty[rows])
        )
    return np.stack(gaps, axis=1)


def figure(result, max_risk=None):
    """Exact curves as lines, sampled points with error bars on them; below, how far apart they are."""
    import matplotlib.pyplot as plt

    drawing, (above, below) = plt.subplots(2, 1, figsize=(8, 8), height_ratios=[3, 1], layout="constrained")
    sampled, exact = result["sampled"], result["exact"]
    gaps = compare(result)
    for technique, colour in (
        ("Noise | Microaggregate", "#0072B2"),
        ("Noise", "#D55E00"),
        ("Suppress", "0.4"),
        ("Microaggregate", "#009E73"),
    ):
        line, dots = exact.select(technique=technique), sampled.select(technique=technique)
        name = technique.replace("Microaggregate", "average").lower()
        if len(line) > 1:
            above.plot(line.utility, line.risk, color=colour, lw=1.2, label=f"{name}, exact")
        else:
            above.plot(line.utility, line.risk, "+", ms=14, color=colour, label=f"{name}, exact")
        good = dots.converged
        above.errorbar(
            dots.utility, dots.risk, dots.risk_error, dots.utility_error, fmt="none", ecolor=colour, capsize=2, lw=1
        )
        above.plot(dots.utility[good], dots.risk[good], "o", ms=4.5, color=colour, label=f"{name}, sampled")
        above.plot(dots.utility[~good], dots.risk[~good], "o", ms=4.5, mfc="none", color=colour)
        rows = [i for i, t in enumerate(sampled.techniques) if t == technique]
        for j, marker in ((0, "v"), (1, "^")):
            below.plot(rows, gaps[rows, j], marker, ms=5, color=colour)
    if max_risk is not None:
        above.axhline(max_risk, color="0.3", ls="--", lw=1)
        above.annotate(
            f"risk {max_risk:g}", (above.get_xlim()[1], max_risk), ha="right", va="bottom", fontsize=8, color="0.3"
        )
    above.set(
        xlabel="utility, 1/U of the scientist   better →",
        ylabel="risk, 1/U of the intruder   ← better",
        xscale="log",
        yscale="log",
    )
    above.set_title("Trottini and Fienberg's example: sampled points, exact curves")
    above.legend(fontsize=8, frameon=False)
    below.axhspan(-2, 2, color="0.93")
    below.axhline(0, color="0.6", lw=0.8)
    below.set(
        xlabel="release, in the order of the table",
        ylabel="(sampled − exact) / error",
        ylim=np.array([-1, 1]) * max(4.0, 1.1 * np.abs(gaps).max()),
    )
    below.annotate(
        "▼ intruder  ▲ scientist; band: two standard errors", (0.01, 0.04), xycoords="axes fraction", fontsize=8
    )
    return drawing


def notes(result):
    """How far sampled and exact are apart, and how each point was got."""
    sampled = result["sampled"]
    gaps = compare(result)
    worst = np.unravel_index(np.argmax(np.abs(gaps)), gaps.shape)
    limit = stats.norm.isf(0.05 / 2 / gaps.size)
    yield (
        f"{len(sampled)} releases, two users each: the largest gap between sampled and exact U is "
        f"{abs(gaps[worst]):.2f} standard errors ({sampled.releases[worst[0]]}, the "
        f"{('intruder', 'scientist')[worst[1]]}); {limit:.2f} would be exceeded by chance in one of 20 runs."
    )
    for role, j in (("intruder", 0), ("scientist", 1)):
        share = getattr(sampled, role).error / getattr(sampled, f"{role}_uncertainty")
        typical = np.sqrt(np.mean(gaps[:, j] ** 2))
        yield (
            f"The {role}: relative standard errors from {share.min():.3%} to {share.max():.2%}, root mean square "
            "gap "
            f"{typical:.2f}."
        )
    for marginalization in dict.fromkeys(sampled.columns["intruder_marginalization"].tolist()):
        own = [
            r
            for r, there in zip(
                sampled.columns["intruder_how"],
                sampled.columns["intruder_marginalization"] == marginalization,
                strict=True,
            )
            if there
        ]
        ways = ", ".join(f"{own.count(way)} {way}" for way in dict.fromkeys(own))
        yield f"Marginalization, {marginalization}: {ways}."
    chosen = [i for i, mask in enumerate(sampled.releases) if "2.08" in mask and "Microaggregate" in mask]
    if chosen:
        i = chosen[0]
        yield (
            f"The paper's choice, {sampled.releases[i]}: risk {sampled.risk[i]:.4f} ± {sampled.risk_error[i]:.4f} and "
            f"utility {sampled.utility[i]:.3f} ± {sampled.utility_error[i]:.3f}. Exact: 0.5 and 2.651."
        )


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
