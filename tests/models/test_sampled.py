"""Studies run by sampling: they run, and their numbers are those of closed forms, quadrature and brute force."""

from __future__ import annotations

import itertools

import matplotlib.pyplot as plt
import numpy as np
import places
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, special

from ruvdecision.checks import as_seed_sequence
from ruvdecision.errors import InputError, RuvError
from ruvdecision.masks import Noise, Topcode
from ruvdecision.running.replication import replicate_seeds
from ruvdecision.studies import load_study

ROOT = places.ROOT
SMALL = {"draws": 250, "tune": 250, "chains": 2}


def loaded(name):
    found = load_study(ROOT / "models" / f"{name}.py")
    return found, found.function.__globals__


def looked_at(outcome, max_risk=None):
    """The study's lines and picture, both made."""
    lines = outcome.notes()
    figure = outcome.figure(max_risk)
    assert lines and all(line and "nan" not in line.split() for line in lines)
    assert any(ax.has_data() for ax in figure.axes)
    figure.canvas.draw()
    plt.close("all")
    return "\n".join(lines)


# -- randomised response: the closed form ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def response():
    return loaded("randomised_response")


def _brute(n, a, b, stay):
    """Every file and every release, one by one: E U of the intruder and of the scientist, and U after each release."""
    files = list(itertools.product((0, 1), repeat=n))
    weight = {x: np.exp(special.betaln(a + sum(x), b + n - sum(x)) - special.betaln(a, b)) for x in files}
    expected, after = np.zeros(2), {}
    for y in files:
        joint = np.array(
            [weight[x] * np.prod([stay if i == j else 1 - stay for i, j in zip(x, y, strict=True)]) for x in files]
        )
        chance = joint.sum()
        if chance == 0:
            continue
        post = joint / chance
        pi = float(post @ [x[0] for x in files])
        total = a + b + n
        first = np.array([(a + sum(x)) / total for x in files])
        second = np.array([(a + sum(x)) * (a + sum(x) + 1) / total / (total + 1) for x in files])
        after[y] = (pi * (1 - pi), float(post @ second - (post @ first) ** 2))
        expected += chance * np.array(after[y])
    return expected, after


@pytest.mark.parametrize(
    ("n", "a", "b", "stay"),
    [(2, 1.0, 1.0, 0.7), (5, 2.0, 6.0, 0.8), (6, 0.5, 3.0, 0.55), (4, 2.0, 2.0, 1.0), (3, 1.0, 2.0, 0.2)],
)
def test_closed_form_is_the_sum_over_all_files(response, n, a, b, stay):
    names = response[1]
    expected, after = _brute(n, a, b, stay)
    assert_allclose(names["expected"](n, a, b, stay), expected, rtol=1e-11, atol=1e-15)
    for y, told in after.items():
        assert_allclose(names["given"](y, a, b, stay), told, rtol=1e-10, atol=1e-14)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.floats(0.4, 8), st.floats(0.4, 8), st.floats(0.05, 0.95), st.data())
def test_mixture_is_the_density_that_quadrature_integrates(response, n, a, b, stay, data):
    t = data.draw(st.integers(0, n))
    names = response[1]

    # Gauss and Jacobi's rule has the prior in its weights, and the rest is a polynomial of degree n + 2 at most: exact.
    u, w = special.roots_jacobi(40, b - 1, a - 1)
    p = (1 + u) / 2
    q = stay * p + (1 - stay) * (1 - p)
    logs = t * np.log(q) + (n - t) * np.log1p(-q)
    weight = w * np.exp(logs - logs.max())
    weight /= weight.sum()
    mean = weight @ p
    assert names["scientist_table"](n, a, b, stay)[1][t] == pytest.approx(weight @ (p - mean) ** 2, rel=1e-8)


def test_mixture_at_a_tight_quadrature(response):
    n, a, b, stay, t = 100, 2.0, 6.0, 0.8, 37

    def moment(power):
        def inside(p):
            q = stay * p + (1 - stay) * (1 - p)
            return p**power * np.exp(
                (a - 1) * np.log(p) + (b - 1) * np.log1p(-p) + t * np.log(q) + (n - t) * np.log1p(-q) + 65
            )

        return integrate.quad(inside, 0, 1, epsabs=0, epsrel=1e-12, points=[0.28])[0]

    mass, first, second = (moment(k) for k in range(3))
    told = response[1]["scientist_table"](n, a, b, stay)[1][t]
    assert told == pytest.approx(second / mass - (first / mass) ** 2, rel=1e-9)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(2, 40), st.floats(0.3, 9), st.floats(0.3, 9), st.floats(0, 1))
def test_laws_of_the_closed_form(response, n, a, b, stay):
    names = response[1]
    chance, pi = names["intruder_table"](n, a, b, stay)
    mass, _ = names["scientist_table"](n, a, b, stay)
    assert chance.sum() == pytest.approx(1, abs=1e-10) and mass.sum() == pytest.approx(1, abs=1e-10)
    assert np.all((pi >= 0) & (pi <= 1 + 1e-12))
    assert np.sum(chance * pi) == pytest.approx(a / (a + b), rel=1e-9)  # the mean of posteriors is the prior
    # To turn every answer round is to rename the categories.
    here, there = names["expected"](n, a, b, stay), names["expected"](n, a, b, 1 - stay)
    assert_allclose(here, there, rtol=1e-8, atol=1e-13)
    prior = names["before"](a, b)
    assert all(u <= v * (1 + 1e-9) for u, v in zip(here, prior, strict=True))
    # More noise on top of it never helps anybody.
    worse = names["expected"](n, a, b, 0.5 + 0.6 * (stay - 0.5))
    assert all(u <= v * (1 + 1e-9) for u, v in zip(here, worse, strict=True))


@pytest.fixture(scope="module")
def randomised(response):
    return response[0].run(n=40, points=4, draws=500, tune=300, chains=2)


@pytest.mark.long
def test_randomised_response_sampled_and_closed_form_agree(response, randomised):
    result = randomised.result
    gaps = response[1]["compare"](result)
    assert gaps.shape == (4, 2) and np.isfinite(gaps).all()
    assert np.abs(gaps).max() < 4
    sampled = result["sampled"]
    assert np.all(sampled.scientist.error < 0.2 * sampled.scientist_uncertainty)
    assert set(sampled.engine) == {"sampling"}


@pytest.mark.slow
def test_randomised_response_is_quadrature_too(response, randomised):
    from ruvdecision.engines import Quadrature
    from ruvdecision.evaluate import evaluate

    names, exact, sampled = response[1], randomised.result["given the release"], randomised.result["sampled"]
    intruder, scientist = sampled.users
    data = (np.random.default_rng(1965).random(40) < names["stats"].beta.median(2.0, 6.0)).astype(int)
    both = {"intruder": intruder, "scientist": scientist}
    found = evaluate(list(sampled.masks), **both, data=data, engine=Quadrature(), replicates=4, seed=1965)
    assert_allclose(found.intruder_uncertainty, exact.intruder_uncertainty, rtol=1e-6)
    assert_allclose(found.scientist_uncertainty, exact.scientist_uncertainty, rtol=1e-6)


@pytest.mark.slow
def test_randomised_response_tells_and_draws(randomised):
    lines = looked_at(randomised, 0.3)
    assert "A fair coin (0.5) tells nothing: U is 0.187500 and 0.020833, the prior's 0.187500 and 0.020833" in lines
    assert f"= {2 * 6 / 8 / 9 / 48:.6f}; the sum gives {2 * 6 / 8 / 9 / 48:.6f}" in lines
    mean = randomised.maps["expected"]
    assert np.all(np.diff(mean.risk) > 0) and np.all(np.diff(mean.utility) > 0)  # more kept answers, more of both
    assert mean.risk[0] == pytest.approx(0, abs=1e-12) and mean.risk[-1] == pytest.approx(1, abs=1e-12)


def test_randomised_response_needs_two(response):
    with pytest.raises(InputError, match="n must be at least 2"):
        response[0].run(n=1)


# -- the foundation's study --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def foundation():
    return loaded("trottini_fienberg_sampled")


@pytest.fixture(scope="module")
def overlaid(foundation):
    return foundation[0].run(points=3, draws=400, tune=300, chains=2)


@pytest.mark.long
def test_sampled_points_lie_on_the_exact_curve(foundation, overlaid):
    gaps = foundation[1]["compare"](overlaid.result)
    sampled, exact = overlaid.result["sampled"], overlaid.result["exact"]
    assert gaps.shape == (8, 2) and np.abs(gaps).max() < 4
    # Few draws: R-hat is not below 1.01 everywhere, but no chain is lost.
    assert np.max(sampled.columns["intruder_rhat"]) < 1.05 and not sampled.columns["intruder_divergences"].any()
    # Gaps in standard errors say nothing if the errors are wide.
    assert np.max(sampled.intruder.error / sampled.intruder_uncertainty) < 0.12
    # Noise alone is integrated and averaged by Rao and Blackwell: a fraction of the error of raw draws, as long as the
    # release tells more about the record than the parameters do.
    alone = sampled.select(technique="Noise")
    told = alone.parameters["variance"] < 10
    assert told.sum() == 2
    assert np.all(alone.intruder.error[told] < 0.02 * alone.intruder_uncertainty[told])
    assert {"closed form"} == set(alone.columns["intruder_marginalization"])
    assert set(sampled.releases) <= set(exact.releases)


@pytest.mark.long
def test_foundation_by_sampling_tells_and_draws(overlaid):
    lines = looked_at(overlaid, 0.5)
    assert "The paper's choice" in lines and "Exact: 0.5 and 2.651." in lines
    assert "averages tie records together" in lines


# -- lognormal incomes -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def income():
    return loaded("lognormal_income")


@pytest.fixture(scope="module")
def earners(income):
    return income[0].run(points=3, source="drawn", n=30, target_mcse=0.5, replicates=2000, **SMALL)


@pytest.mark.long
def test_lognormal_curves(income, earners):
    result = earners.result
    assert list(result) == list(income[1]["CURVES"])
    row, rank, plug = (result[k] for k in ("Bayes, row known", "Bayes, rank known", "plug-in, row known"))
    for rumap in (row, rank):
        assert np.all(rumap.risk_error > 0) and np.all(rumap.utility_error > 0)
    for other in (rank, plug, result["plug-in, rank known"]):
        assert_allclose(other.scientist_uncertainty, row.scientist_uncertainty, rtol=1e-12)
    # The plug-in's error is the noise's mean absolute value, as long as zero is far away.
    v = np.asarray(plug.parameters["variance"])
    assert np.all(np.abs(plug.intruder_uncertainty - np.sqrt(2 * v / np.pi)) < 4 * plug.intruder.error)


@pytest.mark.long
def test_lognormal_numbers_are_those_of_a_plain_grid(income, earners):
    """Both users by brute force: the parameters on a grid, the record on another, no code of the engines."""
    names, rumap = income[1], earners.result["Bayes, row known"]
    from scipy import stats

    x = names["records"]("drawn", 30, 177)
    ((_, for_mask, _),) = replicate_seeds(as_seed_sequence(177), 1)
    middle = 1
    mask, sd = rumap.masks[middle], float(np.sqrt(rumap.masks[middle].variance))
    y = np.asarray(mask.release(x, for_mask)).ravel()
    mu, sigma = np.linspace(np.log(17_000) - 1.2, np.log(17_000) + 1.2, 121), np.linspace(0.05, 1.6, 100)
    m, s = (g.ravel() for g in np.meshgrid(mu, sigma, indexing="ij"))
    t = np.linspace(np.log(200.0), np.log(600_000.0), 1500)
    seen = np.where(y[:, None] > 0, stats.norm.logpdf(y[:, None], np.exp(t), sd), stats.norm.logcdf(0, np.exp(t), sd))
    law = stats.norm.pdf(t[None], m[:, None], s[:, None])  # of the logarithm of a record
    logs = np.log(np.maximum(law @ np.exp(seen).T, 1e-300)).sum(axis=1)
    logs += stats.norm.logpdf(m, np.log(20_000), 1) + stats.halfnorm.logpdf(s)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()

    def absolute(values, chances):
        order = np.argsort(values, kind="stable")
        values, chances = values[order], chances[order] / chances.sum()
        best = values[np.searchsorted(np.cumsum(chances), 0.5)]
        return float(chances @ np.abs(values - best))

    top = int(np.argmax(x))
    conditional = law * np.exp(seen[top])
    conditional /= conditional.sum(axis=1, keepdims=True)
    u = absolute(np.exp(t), weight @ conditional), absolute(np.exp(m), weight)
    assert abs(rumap.intruder_uncertainty[middle] - u[0]) < 4 * rumap.intruder.error[middle] + 0.003 * u[0]
    assert abs(rumap.scientist_uncertainty[middle] - u[1]) < 4 * rumap.scientist.error[middle] + 0.01 * u[1]
    assert rumap.scientist.error[middle] < 0.15 * u[1]


@pytest.mark.long
def test_lognormal_tells_and_draws(earners):
    lines = looked_at(earners)
    for words in (
        "Bayes, row known: an expected error of $5,000 needs",
        "plug-in, rank known: an expected error",
        "Quadrature of the same releases",
    ):
        assert words in lines
    assert float(lines.split("sampled scientist within ")[1].split()[0]) < 4


def test_lognormal_sources(income):
    records = income[1]["records"]
    assert_allclose([records("drawn", 20, 3).size, np.diff(records("drawn", 20, 3)).min() >= 0], [20, True])
    assert_allclose(records("drawn", 20, 3), records("drawn", 20, 3))
    with pytest.raises(RuvError, match="source must be 'teachers' or 'drawn'"):
        income[0].run(source="survey")


# -- a survey in areas -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def survey():
    return loaded("hierarchical_survey")


@pytest.fixture(scope="module")
def areas(survey):
    return survey[0].run(sizes=(3, 6, 9), points=2, draws=400, tune=400, chains=2)


@pytest.mark.long
def test_survey_numbers_are_those_of_brute_force(survey, areas):
    """U by weighted draws of the three common parameters, with every area's mean on a grid: no code of the engines."""
    from scipy import stats

    names, rumap, sizes = survey[1], areas.result, (3, 6, 9)
    x = names["records"](sizes, seed=33)
    area = np.repeat(np.arange(3), sizes)
    target = int(rumap.users[0].target.row)
    assert area[target] == 0 and x[target] == x[:3].max()
    rng, count = np.random.default_rng(0), 12_000
    # The prior is wide beside 18 records, so draws of the common mean are taken nearer to them and weighted back.
    mu, tau, sigma = (
        rng.normal(50, 12, count),
        rng.gamma(2, 5, count),
        np.maximum(np.abs(rng.normal(0, 10, count)), 0.05),
    )
    base = stats.norm.logpdf(mu, 50, 20) - stats.norm.logpdf(mu, 50, 12)
    m = np.linspace(-30, 130, 241)
    prior = stats.norm.logpdf(m, mu[:, None], np.maximum(tau, 0.6)[:, None])  # below the grid's step tau cannot be told
    ((_, for_mask, _),) = replicate_seeds(as_seed_sequence(33), 1)
    for i, mask in enumerate(rumap.masks[:-1]):
        y = np.asarray(mask.release(x, for_mask)).ravel()
        spread = (
            np.sqrt(sigma**2 + getattr(mask, "sd", 0.0) ** 2)[:, None] if isinstance(mask, Noise) else sigma[:, None]
        )
        cut = mask.at if isinstance(mask, Topcode) else np.inf
        logs, first, second = base.copy(), np.empty((3, count)), np.empty((3, count))
        for a in range(3):
            seen, hidden = y[(area == a) & (y < cut)], int(np.sum((area == a) & (y >= cut)))
            squares = len(seen) * m**2 - 2 * m * seen.sum() + np.sum(seen**2)
            own = prior - 0.5 * squares / spread**2 - len(seen) * np.log(spread)
            if hidden:
                own += hidden * stats.norm.logsf(cut, m, spread)
            top = own.max(axis=1, keepdims=True)
            law = np.exp(own - top)
            mass = law.sum(axis=1)
            logs += top[:, 0] + np.log(mass)
            law /= mass[:, None]
            first[a], second[a] = law @ m, law @ m**2
            if a == 0:
                centre, variance = _record_given(mask, m, sigma[:, None], y[target])
                record = (law * centre).sum(axis=1), (law * (variance + centre**2)).sum(axis=1)
        w = np.exp(logs - logs.max())
        w /= w.sum()
        effective = 1 / np.sum(w**2)
        assert effective > 300
        scientist = float(np.sum(second @ w - (first @ w) ** 2))
        intruder = float(record[1] @ w - (record[0] @ w) ** 2)
        rough = 4 / np.sqrt(effective)
        for role, u in (("intruder", intruder), ("scientist", scientist)):
            mine = getattr(rumap, role)
            assert abs(mine.value[i] / u - 1) < 4 * mine.error[i] / u + rough, (str(mask), role)
            assert mine.error[i] < 0.2 * u


@pytest.mark.long
def test_survey_suppressed_is_the_prior(areas):
    """Nothing is released: the common mean has variance 400, tau's square the mean 150 and sigma's 100."""
    last = areas.result
    assert str(last.masks[-1]) == "Suppress()"
    for mine, u in ((last.intruder, 400 + 150 + 100), (last.scientist, 3 * (400 + 150))):
        assert abs(mine.value[-1] - u) < 4 * mine.error[-1] and mine.error[-1] < 0.2 * u


def _record_given(mask, m, sigma, released):
    """Mean and variance of the target's record given its area's mean and the spread."""
    from scipy import stats

    if isinstance(mask, Noise):
        gain = sigma**2 / (sigma**2 + mask.sd**2)
        return m + gain * (released - m), (1 - gain) * sigma**2 + 0 * m
    z = (mask.at - m) / sigma
    ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logsf(z))
    return m + sigma * ratio, sigma**2 * np.maximum(1 + z * ratio - ratio**2, 0.0)


@pytest.mark.long
def test_survey_more_masking_less_of_both(areas):
    rumap = areas.result
    noise, coded = rumap.select(technique="Noise"), rumap.select(technique="Topcode")
    assert len(noise) == 2 and len(coded) == 2
    assert noise.risk[0] > noise.risk[-1] and noise.utility[0] > noise.utility[-1]
    assert np.isfinite(rumap.risk).all() and np.all(rumap.intruder.error > 0)
    assert rumap.risk[-1] == pytest.approx(rumap.risk.min())  # suppression tells least


@pytest.mark.long
def test_survey_tells_and_draws(areas):
    lines = looked_at(areas, 0.1)
    assert "18 records in 3 areas; the target is the largest of the 3 records" in lines
    assert "Noise: " in lines and "Topcode: " in lines and "Marginalization, " in lines


def test_survey_refuses_sizes(survey):
    with pytest.raises(InputError, match="two areas or more"):
        survey[0].run(sizes=(4,))
