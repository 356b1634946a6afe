"""Lognormal incomes behind noise cut off at zero: Bayes' rule by sampling beside Duncan's plug-in snoopers.

The records are the 177 household incomes of `duncan_teacher_income`, or incomes drawn from a lognormal law. Both users
believe that incomes are lognormal with unknown median and spread. The release adds normal noise and reports what falls
below zero as zero. The intruder wants the largest income and pays the absolute error in dollars; he knows the top
earner's row, or only that the target is the largest. The scientist wants the population's median and pays the
absolute error too. No closed form is known, so both are sampled, and every point has its standard error.

Beside them stand the snoopers of Duncan, Keller-McNulty and Stokes (2001) on the same records and the same scale: one
takes the released value of the top earner's row, the other the largest released value. Their loss is averaged over
releases of these records; a Bayesian's is what he himself expects after the release that he sees. Utility is the
Bayesian scientist's for every curve.

Run it with ``ruvdecision run models/lognormal_income.py --out out/``.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

import ruvdecision as ruv
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.engines import Quadrature, Sampling
from ruvdecision.protocols import Value
from ruvdecision.targets import Maximum

MAX_RISK = 1 / 5_000
"""An expected error of 5,000 dollars: the paper's threshold 4E-08, which is for squared errors, in dollars."""
CURVES = {
    "Bayes, row known": "the sampled intruder who knows the row",
    "Bayes, rank known": "the sampled intruder who knows that the target is the largest",
    "plug-in, row known": "the snooper who takes the row's released value",
    "plug-in, rank known": "the snooper who takes the largest released value",
}


def belief(typical=20_000.0):
    """Lognormal incomes: the median within a factor of 7 or so of ``typical``, logarithms with sd of order one."""

    def lognormal(n):
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu", np.log(typical), 1.0)
            sigma = pm.HalfNormal("sigma", 1.0)
            pm.Deterministic("median", pm.math.exp(mu))
            pm.LogNormal("x", mu, sigma, shape=n)
        return model

    words = (
        f"incomes to be lognormal, log median normal around log {typical:,.0f} with sd 1, spread half-normal with "
        "scale 1"
    )
    return PyMCBelief(lognormal, name=words)


def records(source="teachers", n=177, seed=177):
    """The incomes: ``"teachers"`` has Table 1 of Duncan et al., ``"drawn"`` is lognormal, median 17,000, log sd 0.6."""
    if source == "teachers":
        from duncan_teacher_income import incomes

        return incomes(n)
    if source != "drawn":
        raise ruv.InputError("source must be 'teachers' or 'drawn'", source, "Write --set source=drawn")
    return np.sort(np.random.default_rng(seed).lognormal(np.log(17_000), 0.6, n))


def study(
    points=8,
    source="teachers",
    n=177,
    draws=1000,
    tune=500,
    chains=4,
    target_mcse=0.03,
    releases=1,
    replicates=400,
    seed=177,
    executor=None,
    checkpoint=None,
):
    """Four curves for noise variances from 5 to 100 % of the sample's.

    ``releases`` are averaged over for the sampled users, ``replicates`` for the snoopers. With the row known more draws
    are taken until both uncertainties are known to ``target_mcse``.
    """
    x = records(source, n, seed)
    top = int(np.argmax(x))
    masks = [
        ruv.Noise(variance=float(f"{v:.3g}")) | ruv.masks.Clip(lower=0)
        for v in np.linspace(0.05, 1.0, points) * x.var(ddof=1)
    ]
    common, loss = belief(), ruv.Absolute()
    scientist = ruv.User(common, ruv.Parameter("median"), loss, name="The scientist")
    few = Sampling(draws=draws, tune=tune, chains=chains)
    maps = {}
    # The largest of many records is drawn file by file from a part of the draws: more draws would not make it better
    # known.
    for name, target, engine in (
        ("Bayes, row known", ruv.Record(top), replace(few, target_mcse=target_mcse)),
        ("Bayes, rank known", Maximum(), few),
    ):
        intruder = ruv.User(common, target, loss, name="The intruder")
        maps[name] = ruv.evaluate(
            masks,
            intruder=intruder,
            scientist=scientist,
            data=x,
            engine=engine,
            replicates=releases,
            seed=seed,
            executor=executor,
            checkpoint=None if checkpoint is None else Path(checkpoint) / name,
        )
    told = maps["Bayes, row known"]
    utility = Value(told.scientist_uncertainty, told.scientist.error)
    for name, rule, target in (
        ("plug-in, row known", "row", ruv.Record(top)),
        ("plug-in, rank known", "max", Maximum()),
    ):
        snooper = ruv.Snooper(rule, target, loss, name="The snooper")
        # A snooper has no belief: the scientist beside him is a placeholder, and the sampled one takes its place.
        found = ruv.evaluate(masks, intruder=snooper, scientist=snooper, data=x, replicates=replicates, seed=seed)
        maps[name] = ruv.RUMap.build(
            masks=masks,
            intruder=Value(found.intruder_uncertainty, found.intruder.error),
            scientist=utility,
            provenance=ruv.maps.Provenance(engine=[f"{a.split(' / ')[0]} / sampling" for a in found.engine]),
            columns={"scientist_converged": told.converged},
            attrs={**found.attrs, "scientist": scientist.describe()},
        )
    words = {"source": source, "records": n, "sample_variance": float(x.var(ddof=1))}
    return {name: replace(rumap, attrs={**rumap.attrs, **words, "curve": name}) for name, rumap in maps.items()}


def figure(result, max_risk=None):
    """The four curves on one map, sampled points with their error bars."""
    from ruvdecision import plots

    together = ruv.RUMap.concat(list(result.values()), names=list(result))
    names = {f"{name}: Noise": name for name in result}
    ax = plots.knowledge(together, max_risk=MAX_RISK if max_risk is None else max_risk, names=names)
    ax.set_xlabel("utility, 1 / expected error of the median (1 / dollars)   better →")
    ax.set_ylabel("risk, 1 / expected error of the largest income (1 / dollars)   ← better")
    ax.set_title("The top earner behind noise: Bayes' rule and plug-in")
    return ax.figure


def notes(result):
    """How much noise each intruder calls for, and how well the numbers are known."""
    first = result["Bayes, row known"]
    s2 = first.attrs["sample_variance"]
    for name, rumap in result.items():
        v, threshold = np.asarray(rumap.parameters["variance"]), 1 / MAX_RISK
        u = rumap.intruder_uncertainty
        if u.max() < threshold:
            need = "more noise than the grid has"
        elif u[0] >= threshold:
            need = f"no more than the least noise of the grid, {v[0] / s2:.2f} S2"
        else:
            # U grows with noise up to Monte Carlo error; its running maximum can be read backwards.
            need = f"noise variance {np.interp(threshold, np.maximum.accumulate(u), v) / s2:.3f} S2"
        yield f"{name}: an expected error of ${threshold:,.0f} needs {need} against {CURVES[name]}."
    ratio = result["plug-in, row known"].intruder_uncertainty / first.intruder_uncertainty
    yield (
        f"With the row known, the plug-in's mean error on these records is {ratio.min():.3f} to {ratio.max():.3f} "
        "times what the Bayesian expects; for a Gaussian it could not be below 1. Here it can: the plug-in is judged "
        "on the records, the Bayesian by his belief."
    )
    for name in ("Bayes, row known", "Bayes, rank known"):
        rumap = result[name]
        share = np.max(rumap.intruder.error / rumap.intruder_uncertainty)
        other = np.max(rumap.scientist.error / rumap.scientist_uncertainty)
        how = rumap.columns["intruder_how"].tolist()
        yield (
            f"{name}: standard errors at most {share:.2%} (intruder) and {other:.2%} (scientist); "
            f"{how.count('sampled')} of {len(how)} "
            f"releases sampled, the rest reweighted; {int(np.sum(~rumap.converged))} not converged."
        )
    yield _checked(first)


def _checked(rumap):
    """The sampled median against quadrature over both parameters, where only one release was looked at."""
    if rumap.attrs["replicates"] != 1 or rumap.users is None:
        return "Quadrature is compared for one release per mask; set releases=1."
    seed = int(rumap.attrs["seed"])
    x = records(rumap.attrs["source"], int(rumap.attrs["records"]), seed)
    scientist = rumap.users[1]
    exact = ruv.evaluate(
        list(rumap.masks), intruder=scientist, scientist=scientist, data=x, engine=Quadrature(), replicates=1, seed=seed
    )
    far = np.max(np.abs(rumap.scientist_uncertainty - exact.scientist_uncertainty) / rumap.scientist.error)
    return f"Quadrature of the same releases agrees with the sampled scientist within {far:.1f} standard errors."


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
