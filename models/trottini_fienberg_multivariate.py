"""Trottini and Fienberg (2002), example 2: which of two variables should get the noise, for ten scientists.

Twenty records of two variables are averaged after noise with variances (l1, l2). The intruder weighs errors in the
second variable three times as much as in the first; ten scientists weigh them by Z1 to Z10. The result is a panel of
ten maps, one per scientist, each with noise on the first variable only and on the second only.

Run it with ``ruvdecision run models/trottini_fienberg_multivariate.py --max-risk 0.12 --out out/``.
"""

import numpy as np

import ruvdecision as ruv

MAX_RISK = 0.12
SPREAD = [[1, 0.2], [0.2, 1.5]]
DOUBT = [[5, 0.5], [0.5, 4]]
WEIGHTS = np.diag([1.0, 3.0])
SCIENTISTS = {
    "Z1": (6, 0.5), "Z2": (3, 0.25), "Z3": (3, 1.5), "Z4": (1.5, 0.75), "Z5": (5, 15),
    "Z6": (2.5, 7.5), "Z7": (2, 9), "Z8": (1, 4.5), "Z9": (0.5, 6), "Z10": (0.25, 3),
}  # fmt: skip
average = ruv.Microaggregate(groups=1)


def noisy(l1, l2):
    """Noise with these variances on the two variables, then the average of all records."""
    return ruv.Noise(variance=[l1, l2]) | average


def users(z, n=20):
    """The paper's intruder, and the scientist with these weights."""
    belief = ruv.NormalBelief(records=n, covariance=SPREAD, prior_mean=[0, 0], prior_covariance=DOUBT)
    intruder = ruv.User(belief, ruv.Record(0), ruv.Quadratic(weights=WEIGHTS), name="The intruder")
    return intruder, ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic(weights=np.diag(z)), name="The scientist")


def study(n=20, largest=2500.0):
    """Ten maps: noise on one variable at a time, with variance up to ``largest`` (the paper draws them to 100)."""
    grid = np.unique([float(f"{v:.1e}") for v in np.geomspace(0.05, largest, 120)])
    masks = [ruv.Suppress(), average]
    masks += [ruv.Noise(variance=v, columns=[j]) | average for j in (0, 1) for v in grid]
    panel = {}
    for name, z in SCIENTISTS.items():
        intruder, scientist = users(z, n)
        panel[name] = ruv.evaluate(masks, intruder=intruder, scientist=scientist)
    return panel


def figure(panel, max_risk=None):
    """The paper's figure 2: ten maps with shared axes of risk."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(5, 2, figsize=(10, 15), sharey=True, layout="constrained")
    for ax, (name, rumap) in zip(axes.flat, panel.items(), strict=True):
        table = rumap.to_dataframe()
        for column, style in ((0, "-"), (1, "--")):
            curve = table[table["columns"] == f"[{column}]"]
            ax.plot(curve["utility"], curve["risk"], style, label=f"noise on variable {column + 1}")
        for technique, marker in (("Suppress", "D"), ("Microaggregate", "o")):
            point = table[table["technique"] == technique]
            ax.plot(
                point["utility"],
                point["risk"],
                marker,
                color="black",
                label="nothing (M0)" if marker == "D" else "average (M1)",
            )
        if max_risk is not None:
            ax.axhline(max_risk, color="tab:red", lw=1, label=f"threshold {max_risk:g}")
        z = SCIENTISTS[name]
        ax.set_title(f"{name}: weights {z[0]:g} and {z[1]:g}", fontsize=10)
        ax.set_xlabel("data utility   better →")
        ax.set_ylabel("disclosure risk   ← better")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=3)
    return fig


def notes(panel):
    """The paper's rule beside the optimum."""
    if next(iter(panel.values())).intruder_uncertainty[1] != _u_average():
        yield "The paper's numbers are for n = 20; these settings differ, so none are compared."
        return
    yield (
        f"Critical ratio z2/z1: {critical_ratio():.9f}. The paper's rule (27) compares with w2/w1 = 3, its limit "
        "for "
        "many records."
    )
    for t in (0.15, 0.12, 0.10):
        one, two = (_alone(j, t) for j in (0, 1))
        yield f"Risk {t:g} needs l1 = {one.parameters['l1']:.10g} alone or l2 = {two.parameters['l2']:.10g} alone."
    for name, z in SCIENTISTS.items():
        intruder, scientist = users(z)
        best = ruv.optimise(noisy, intruder=intruder, scientist=scientist, max_risk=0.12)
        l1, l2 = best.parameters["l1"], best.parameters["l2"]
        ratio = z[1] / z[0]
        rule = "variable 2" if ratio < 3 else "variable 1" if ratio > 3 else "either"
        where = f"{name} (z2/z1 = {ratio:.4g}) at risk 0.12: (l1, l2) = ({l1:.7g}, {l2:.7g})"
        yield f"{where}, utility {best.utility:.10f}. Paper's rule: noise on {rule}."
    limits = [_limit(j) for j in (0, 1)]
    yield (
        "The paper says that either variance alone brings the risk as low as wanted. It does not: the limits are "
        f"{limits[0]:.10f} (l1) and {limits[1]:.10f} (l2); with both infinite, which is suppression, it is 0.0444."
    )
    for name, t in (("Z9", 0.08), ("Z1", 0.05), ("Z9", 0.06)):
        intruder, scientist = users(SCIENTISTS[name])
        best = ruv.optimise(noisy, intruder=intruder, scientist=scientist, max_risk=t)
        l1, l2 = best.parameters["l1"], best.parameters["l2"]
        answer = f"suppress one variable, (l1, l2) = ({l1:.5g}, {l2:.5g}), utility {best.utility:.10f}"
        yield f"Below the limits the rule has no answer. {name} at risk {t:g}: {answer}."
    yield "The paper's (25) and (26) print argmax; risk falls in l, so it is the least l that meets the threshold."


def critical_ratio(n=20):
    """z2/z1 at which noise on either variable does equally well: B = S0 (S0 + S1/n)^-1 (FORMULAS, section 3)."""
    b = np.asarray(DOUBT) @ np.linalg.inv(np.asarray(DOUBT) + np.asarray(SPREAD) / n)
    (w1, w2) = np.diag(WEIGHTS)
    return (b[0, 0] ** 2 / w1 - b[0, 1] ** 2 / w2) / (b[1, 1] ** 2 / w2 - b[1, 0] ** 2 / w1)


def _alone(j, t):
    intruder, scientist = users((1, 1))
    family = (lambda l1: noisy(l1, 0.0)) if j == 0 else (lambda l2: noisy(0.0, l2))
    return ruv.optimise(family, intruder=intruder, scientist=scientist, max_risk=t)


def _limit(j):
    intruder, scientist = users((1, 1))
    mask = noisy(np.inf, 0.0) if j == 0 else noisy(0.0, np.inf)
    return ruv.evaluate([mask], intruder=intruder, scientist=scientist).risk[0]


def _u_average():
    intruder, scientist = users((1, 1))
    return ruv.evaluate([average], intruder=intruder, scientist=scientist).intruder_uncertainty[0]


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
