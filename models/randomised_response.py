r"""Randomised response: a yes-no trait under PRAM, in closed form beside sampled.

Each of n respondents has a sensitive trait, x = 1, with the unknown probability p, and p has a Beta(a, b) prior. Every
answer is kept with probability s and turned round otherwise: Warner's (1965) design, which is PRAM with two categories.
The intruder wants one respondent's trait, the scientist the proportion p; both pay the squared error, so that the
intruder's U is pi (1 - pi), with pi his chance that the respondent has the trait.

The posterior is a finite mixture. With K = the sum of the records, T = the sum of the released answers and B the beta
function,

    P(K = k)         = C(n, k) B(a + k, b + n - k) / B(a, b)
    P(T = t | K = k) = sum_j C(k, j) s^j (1 - s)^(k - j)  C(n - k, t - j) (1 - s)^(t - j) s^(n - k - t + j)
    p | T = t        ~ sum_k P(K = k | T = t) Beta(a + k, b + n - k).

It is the same law as the density proportional to p^(a-1) (1-p)^(b-1) q^t (1-q)^(n-t), q = s p + (1-s)(1-p), expanded in
powers of p. For the intruder the target's own answer y counts apart from the others': with K' and T' the sums over
these,

    P(x = i, K' = k, T' = t, y) = C(n-1, k) B(a + i + k, b + n - i - k) / B(a, b)  P(T' = t | K' = k)  P(y | x = i).

All sums are finite, so the mean of U over the releases that the belief expects is a finite sum too: the exact map,
drawn before any data exist. The sampled map takes one drawn file, samples p given each release of it, and is held
against the closed form for the very same releases. A single release may leave an intruder less sure than he was, where
the answer is not the one that he expected: his gain is then negative, while the expected one never is.

Run it with ``ruvdecision run models/randomised_response.py --out out/``.
"""

from dataclasses import replace

import numpy as np
from scipy import special, stats

import ruvdecision as ruv
from ruvdecision.beliefs.pymc import PyMCBelief
from ruvdecision.engines import Sampling
from ruvdecision.protocols import Value
from ruvdecision.running.replication import replicate_seeds

RELEASES = 4
"""Releases of the file per mask."""
MAX_RISK = 0.2
"""A fifth of what the intruder does not know beforehand."""
SCORE = {"risk": "relative_gain", "utility": "relative_gain"}


def belief(n=100, a=2.0, b=6.0):
    """A trait of unknown frequency."""

    def trait(n):
        import pymc as pm

        with pm.Model() as model:
            p = pm.Beta("p", a, b)
            pm.Bernoulli("x", p, shape=n)
        return model

    return PyMCBelief(
        trait, size=n, name=f"each respondent to have the trait with a probability that follows Beta({a:g}, {b:g})"
    )


def release_law(n, stay):
    """P(T = t | K = k), rows k = 0..n, columns t = 0..n."""
    law = np.zeros((n + 1, n + 1))
    for k in range(n + 1):
        kept = stats.binom.pmf(np.arange(k + 1), k, stay)
        turned = stats.binom.pmf(np.arange(n - k + 1), n - k, 1 - stay)
        law[k] = np.convolve(kept, turned)
    return law


def sum_law(n, a, b):
    """P(K = k): the beta-binomial law of the number with the trait."""
    k = np.arange(n + 1)
    logs = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return np.exp(logs + special.betaln(a + k, b + n - k) - special.betaln(a, b))


def scientist_table(n, a, b, stay):
    """P(T = t) and the variance of p given T = t, for t = 0..n."""
    k = np.arange(n + 1)
    joint = sum_law(n, a, b)[:, None] * release_law(n, stay)
    chance = joint.sum(axis=0)
    # A total that cannot occur (all answers kept or all turned round, and no such K) has no posterior and counts for
    # nothing.
    weight = np.divide(joint, chance, out=np.zeros_like(joint), where=chance > 0)
    total = a + b + n
    first, second = (a + k) / total, (a + k) * (a + k + 1) / total / (total + 1)
    return chance, np.maximum(second @ weight - (first @ weight) ** 2, 0.0)


def intruder_table(n, a, b, stay):
    """P(y, T' = t) and pi = P(x = 1 | y, T' = t): arrays with rows y = 0, 1 and columns t = 0..n-1."""
    k = np.arange(n)
    ways = special.gammaln(n) - special.gammaln(k + 1) - special.gammaln(n - k)
    law = release_law(n - 1, stay)
    joint = np.empty((2, 2, n))  # x, y, t
    for x in (0, 1):
        own = np.exp(ways + special.betaln(a + x + k, b + n - x - k) - special.betaln(a, b)) @ law
        for y in (0, 1):
            joint[x, y] = (stay if x == y else 1 - stay) * own
    chance = joint.sum(axis=0)
    return chance, np.divide(joint[1], chance, out=np.zeros_like(chance), where=chance > 0)


def expected(n, a, b, stay):
    """The mean of both users' U over releases that the belief expects: intruder, scientist."""
    chance, pi = intruder_table(n, a, b, stay)
    mass, variance = scientist_table(n, a, b, stay)
    return float(np.sum(chance * pi * (1 - pi))), float(mass @ variance)


def given(release, a, b, stay, row=0):
    """Both users' U after one release: intruder, scientist."""
    y = np.asarray(release).astype(int).ravel()
    pi = intruder_table(len(y), a, b, stay)[1][y[row], y.sum() - y[row]]
    return float(pi * (1 - pi)), float(scientist_table(len(y), a, b, stay)[1][y.sum()])


def study(n=100, a=2.0, b=6.0, points=9, draws=1000, tune=500, chains=4, seed=1965, executor=None, checkpoint=None):
    """Three maps over the chance that an answer is kept: expected U, and U given releases, exact and sampled."""
    if n < 2:
        raise ruv.InputError("n must be at least 2", n, "One respondent and somebody to hide among")
    common = belief(n, a, b)
    intruder = ruv.User(common, ruv.Record(0), ruv.Quadratic(), name="The intruder")
    scientist = ruv.User(common, ruv.Parameter("p"), ruv.Quadratic(), name="The scientist")
    data = (np.random.default_rng(seed).random(n) < stats.beta.median(a, b)).astype(int)
    mask = lambda stay: ruv.PRAM(stay=stay, columns=[0], categories=[0, 1])  # noqa: E731
    grid = [float(s) for s in np.round(np.linspace(0.55, 0.99, points), 4)]
    fine = [float(s) for s in np.union1d(np.round(np.linspace(0.5, 1.0, 51), 4), grid)]
    words = {
        "attrs": {"intruder": intruder.describe(), "scientist": scientist.describe()},
        "before": before(a, b),
        **SCORE,
    }
    both = np.array([expected(n, a, b, s) for s in fine])
    masks = [mask(s) for s in grid]
    sampled = ruv.evaluate(
        masks,
        intruder=intruder,
        scientist=scientist,
        data=data,
        engine=Sampling(draws=draws, tune=tune, chains=chains),
        replicates=RELEASES,
        seed=seed,
        executor=executor,
        checkpoint=checkpoint,
        **SCORE,
    )
    seen = np.array(
        [
            np.mean([given(release, a, b, s) for release in _released(m, data, seed)], axis=0)
            for m, s in zip(masks, grid, strict=True)
        ]
    )
    maps = {
        "expected": ruv.RUMap.build(
            [mask(s) for s in fine],
            intruder=_sure(both[:, 0]),
            scientist=_sure(both[:, 1]),
            provenance=ruv.maps.Provenance(engine="closed form"),
            **words,
        ),
        "given the release": ruv.RUMap.build(
            masks,
            intruder=_sure(seen[:, 0]),
            scientist=_sure(seen[:, 1]),
            provenance=ruv.maps.Provenance(engine="closed form"),
            **words,
        ),
        "sampled": sampled,
    }
    return {name: replace(rumap, attrs={**rumap.attrs, "n": n, "a": a, "b": b}) for name, rumap in maps.items()}


def before(a, b):
    """Both users' U before any release: the variance of one record and that of p."""
    mean = a / (a + b)
    return mean * (1 - mean), mean * (1 - mean) / (a + b + 1)


def compare(result):
    """Sampled less closed-form U in standard errors: one row per release, intruder and scientist."""
    exact, sampled = result["given the release"], result["sampled"]
    return np.stack(
        [
            (getattr(sampled, f"{r}_uncertainty") - getattr(exact, f"{r}_uncertainty")) / getattr(sampled, r).error
            for r in ("intruder", "scientist")
        ],
        axis=1,
    )


def figure(result, max_risk=None):
    """The expected curve, and one file's releases on it: closed form as crosses, sampled as dots with their errors."""
    import matplotlib.pyplot as plt

    drawing, ax = plt.subplots(figsize=(7.5, 5.5), layout="constrained")
    mean, exact, sampled = result["expected"], result["given the release"], result["sampled"]
    ax.plot(mean.utility, mean.risk, color="#0072B2", lw=1.4, label="expected before any data, closed form")
    ax.errorbar(
        sampled.utility,
        sampled.risk,
        sampled.risk_error,
        sampled.utility_error,
        fmt="none",
        ecolor="#D55E00",
        capsize=2,
        lw=1,
    )
    good = sampled.converged
    ax.plot(sampled.utility[good], sampled.risk[good], "o", ms=5, color="#D55E00", label="one file's releases, sampled")
    if not good.all():
        ax.plot(
            sampled.utility[~good], sampled.risk[~good], "o", ms=5, mfc="none", color="#D55E00", label="not converged"
        )
    ax.plot(exact.utility, exact.risk, "x", ms=8, color="black", label="the same releases, closed form")
    for i in {0, len(sampled) // 2, len(sampled) - 1}:
        stay = sampled.parameters["stay"][i]
        ax.annotate(
            f"{stay:g} kept",
            (exact.utility[i], exact.risk[i]),
            xytext=(-6, -12),
            ha="right",
            textcoords="offset points",
            fontsize=8,
        )
    limit = MAX_RISK if max_risk is None else max_risk
    ax.axhline(limit, color="0.3", ls="--", lw=1)
    ax.annotate(f"risk {limit:g}", (0.0, limit), va="bottom", fontsize=8, color="0.3")
    ax.set(
        xlabel="utility, share of the scientist's uncertainty removed   better →",
        ylabel="risk, share of the intruder's removed   ← better",
    )
    ax.set_title(f"Randomised response of {mean.attrs['n']} respondents")
    ax.legend(fontsize=8, frameon=False)
    return drawing


def notes(result):
    """Where the threshold lies, what costs what, and how far sampled and closed form are apart."""
    mean, gaps = result["expected"], compare(result)
    n, a, b = (result["sampled"].attrs[k] for k in ("n", "a", "b"))
    stay = np.asarray(mean.parameters["stay"])
    best = mean.choose(max_risk=MAX_RISK)
    yield (
        f"Before any data: the most utility with risk at most {MAX_RISK:g} has {best.release}, risk {best.risk:.4f} "
        f"and utility {best.utility:.4f}."
    )
    half, whole = (int(np.flatnonzero(stay == s)[0]) for s in (0.5, 1.0))
    yield (
        f"A fair coin (0.5) tells nothing: U is {mean.intruder_uncertainty[half]:.6f} and "
        f"{mean.scientist_uncertainty[half]:.6f}, the prior's {before(a, b)[0]:.6f} and {before(a, b)[1]:.6f}."
    )
    plain = a * b / (a + b) / (a + b + 1) / (a + b + n)
    yield (
        f"True answers (1.0) tell the trait; the scientist keeps a b / ((a+b)(a+b+1)(a+b+n)) = {plain:.6f}; "
        f"the sum gives {mean.scientist_uncertainty[whole]:.6f}."
    )
    yield (
        f"Sampled against closed form for the same releases: at most {np.abs(gaps[:, 0]).max():.2f} standard errors "
        f"apart for the intruder, {np.abs(gaps[:, 1]).max():.2f} for the scientist, over {len(gaps)} releases."
    )
    sampled = result["sampled"]
    surprised = int(np.sum(result["given the release"].risk < 0))
    if surprised:
        yield (
            f"After {surprised} of these releases the intruder is less sure than before; on average over releases "
            "he "
            "never is."
        )
    for role in ("intruder", "scientist"):
        share = getattr(sampled, role).error / getattr(sampled, f"{role}_uncertainty")
        yield f"The {role}'s relative standard errors: {share.min():.3%} to {share.max():.2%}."


def _released(mask, data, seed):
    """The releases that `ruv.evaluate` sees: the mask's random numbers of each replicate."""
    from ruvdecision.checks import as_seed_sequence

    return [mask.release(data, for_mask) for _, for_mask, _ in replicate_seeds(as_seed_sequence(seed), RELEASES)]


def _sure(values):
    return Value(values, np.zeros(len(values)))


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
