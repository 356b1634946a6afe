"""Finite beliefs: posteriors and expected uncertainties against brute force over every file and every release."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binom, norm

from ruvdecision.beliefs.finite import FiniteBelief
from ruvdecision.engines.finite.enumeration import Enumeration
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, LogScore, Quadratic, ZeroOne
from ruvdecision.masks import Clip, Microaggregate, Noise, Release, Round, Shuffle, Subsample, Suppress
from ruvdecision.masks.mechanism import Mechanism
from ruvdecision.masks.stochastic import Stochastic
from ruvdecision.targets import Average, Functional, NewRecord, Parameter, Record, Records
from ruvdecision.users.user import User

ENGINE = Enumeration()
OUTCOMES = np.array([0.0, 1.0, 3.0])


def random_belief(rng, states=3, outcomes=3, records=3):
    return FiniteBelief(
        np.sort(rng.normal(size=states)),
        rng.dirichlet(np.ones(states)),
        rng.dirichlet(np.ones(outcomes), size=states),
        OUTCOMES[:outcomes],
        records,
    )


def target_value(belief, target, theta, x, new):
    if isinstance(target, Parameter):
        return theta
    if isinstance(target, Record):
        return x[target.row]
    if isinstance(target, NewRecord):
        return new
    if isinstance(target, Average):
        return sum(x) / len(x)
    if isinstance(target, Records):
        return tuple(x)
    parts = [target_value(belief, p, theta, x, new) for p in target.parts]
    return float(target.function(*parts))


def releases_of(mask, x, values, n):
    """Every release of a file with its chance, written down by hand for each mask: (row or None, output) entries."""
    laws = [(1.0, [(r, values[v]) for r, v in enumerate(x)])]
    for step in mask.parts:
        new = []
        for p, rows in laws:
            if isinstance(step, Suppress):
                hidden = range(n) if step.rows is None else step.rows
                new.append((p, [(r, None if r in hidden or (r is None and step.rows is None) else v) for r, v in rows]))
            elif isinstance(step, Stochastic):
                k = np.array(step.matrix)
                inputs, outputs = list(values), list(step.outputs if step.outputs is not None else values)
                for choice in itertools.product(range(k.shape[1]), repeat=len(rows)):
                    q = np.prod(
                        [1.0 if v is None else k[inputs.index(v), c] for (_, v), c in zip(rows, choice, strict=True)]
                    )
                    if all(c == 0 for (_, v), c in zip(rows, choice, strict=True) if v is None):
                        new.append(
                            (
                                p * q,
                                [
                                    (r, None if v is None else outputs[c])
                                    for (r, v), c in zip(rows, choice, strict=True)
                                ],
                            )
                        )
            elif isinstance(step, Subsample):
                keep = list(itertools.combinations(range(len(rows)), step.kept_count(len(rows))))
                new.extend((p / len(keep), [rows[i] for i in c]) for c in keep)
            elif isinstance(step, Shuffle):
                new.append(
                    (
                        p,
                        sorted(
                            ((None, v) for _, v in rows), key=lambda e: (e[1] is None, e[1] if e[1] is not None else 0)
                        ),
                    )
                )
            else:
                new.append((p, rows))
        laws = new
    return [(p, tuple(rows)) for p, rows in laws if p > 0]


def brute(belief, target, mask, us, x_given=None):
    """Expected uncertainties by a dictionary over all states, files, new records and releases."""
    n, size = belief.records, len(belief.levels)
    values = [float(v) for v in belief.levels.numbers]
    mentions_new = any(isinstance(t, NewRecord) for t in getattr(target, "parts", [target]))
    joint = defaultdict(lambda: defaultdict(float))
    for x in itertools.product(range(size), repeat=n):
        releases = releases_of(mask, x, values, n)
        for s in range(len(belief.prior)):
            p = belief.prior[s] * np.prod([belief.law[s, v] for v in x])
            for new in range(size if mentions_new else 1):
                t = target_value(belief, target, float(belief.states.numbers[s]), [values[v] for v in x], values[new])
                share = p * belief.law[s, new] if mentions_new else p
                for q, release in releases:
                    joint[release][t] += share * q
    weights = {r: sum(d.values()) for r, d in joint.items()}
    if x_given is not None:
        weights = defaultdict(float)
        for q, release in releases_of(mask, x_given, values, n):
            weights[release] += q
    total = np.zeros(len(us))
    for release, weight in weights.items():
        if weight > 0:
            d = joint[release]
            p = np.array(list(d.values()))
            total += [weight * u(np.array(list(d.keys())), p / p.sum()) for u in us]
    return total


def quadratic(t, p):
    t = t.reshape(len(t), -1)
    m = p @ t
    return float(p @ ((t - m) ** 2).sum(axis=1))


def entropy(t, p):
    p = p[p > 0]
    return float(-np.sum(p * np.log(p)))


def zero_one(t, p):
    return float(1 - p.max())


K3 = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])
K32 = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
MASKS = [
    Release(),
    Suppress(),
    Suppress(rows=[1]),
    Stochastic(K3),
    Stochastic(K32, outputs=[0.0, 1.0]),
    Stochastic(K3) | Stochastic(K32, outputs=[0.0, 1.0]),
    Stochastic(K3) | Suppress(rows=[0]),
    Subsample(size=2),
    Subsample(size=1) | Stochastic(K3),
    Shuffle(),
    Stochastic(K3) | Shuffle(),
    Subsample(size=2) | Shuffle(),
    Suppress(rows=[2]) | Shuffle(),
    Suppress(rows=[2]) | Subsample(size=2),
]
TARGETS = [
    Parameter("theta"),
    Record(0),
    Record(-1),
    NewRecord(),
    Average(),
    Records(),
    Functional(lambda t, a: t * a, of=[Parameter("theta"), Record(1)]),
    Functional(lambda a, b: a - b, of=[Record(0), NewRecord()]),
    Functional(lambda a: a**2, of=Average()),
]


@pytest.mark.parametrize("mask", MASKS, ids=lambda m: m.technique)
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.describe())
def test_expected_uncertainty_against_brute_force(mask, target):
    belief = random_belief(np.random.default_rng(7))
    wanted = brute(belief, target, mask, [quadratic, entropy, zero_one])
    for loss, expected in zip((Quadratic(), LogScore(), ZeroOne()), wanted, strict=True):
        user = User(belief, target, loss)
        solution = ENGINE.solve(user, [mask])
        assert solution.uncertainty[0] == pytest.approx(expected, abs=1e-10)
        assert solution.error[0] == 0 and solution.engine == ["enumeration"]


@pytest.mark.parametrize(
    "mask",
    [
        Release(),
        Suppress(rows=[0]),
        Stochastic(K3),
        Stochastic(K32, outputs=[0.0, 1.0]),
        Shuffle(),
        Stochastic(K3) | Shuffle(),
    ],
    ids=lambda m: m.technique,
)
@pytest.mark.parametrize(
    "target", [Parameter("theta"), Record(1), NewRecord(), Average(), Records()], ids=lambda t: t.describe()
)
def test_realised_records_average_over_their_releases(mask, target):
    belief = random_belief(np.random.default_rng(11))
    x = (0, 2, 1)
    wanted = brute(belief, target, mask, [quadratic, entropy], x)
    for loss, expected in zip((Quadratic(), LogScore()), wanted, strict=True):
        solution = ENGINE.solve(User(belief, target, loss), [mask], data=OUTCOMES[list(x)])
        assert solution.uncertainty[0] == pytest.approx(expected, abs=1e-10)


def test_sampled_records_are_drawn_and_carry_an_error():
    belief = random_belief(np.random.default_rng(2))
    user = User(belief, Record(0), Quadratic())
    x = (0, 2, 1)
    solution = ENGINE.solve(
        user, [Subsample(size=2)], data=OUTCOMES[list(x)], replicates=400, seed=np.random.SeedSequence(1)
    )
    exact = brute(belief, Record(0), Subsample(size=2), [quadratic], x)[0]
    assert solution.error[0] > 0
    assert abs(solution.uncertainty[0] - exact) < 4 * solution.error[0]
    assert solution.engine == ["enumeration, averaged over releases"]


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_further_masking_never_tells_more(seed):
    rng = np.random.default_rng(seed)
    belief = random_belief(rng, records=2)
    first, second = Stochastic(rng.dirichlet(np.ones(3), size=3)), Stochastic(rng.dirichlet(np.ones(3), size=3))
    for target in (Parameter("theta"), Record(0)):
        for loss in (Quadratic(), LogScore(), ZeroOne(), Absolute()):
            masks = [Release(), first, first | second, first | second | Shuffle(), Suppress()]
            solution = ENGINE.solve(User(belief, target, loss), masks)
            assert np.all(np.diff(solution.uncertainty) >= -1e-10)
            assert solution.uncertainty[-1] == pytest.approx(solution.before, abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_chain_of_matrices_is_their_product(seed):
    rng = np.random.default_rng(seed)
    belief = random_belief(rng)
    a, b = rng.dirichlet(np.ones(3), size=3), rng.dirichlet(np.ones(3), size=3)
    for target in (Parameter("theta"), Record(1), Average()):
        u = ENGINE.solve(
            User(belief, target, Quadratic()), [Stochastic(a) | Stochastic(b), Stochastic(a @ b)]
        ).uncertainty
        assert u[0] == pytest.approx(u[1], abs=1e-11)


# -- many records ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fifty_coins():
    theta = np.array([0.3, 0.6])
    belief = FiniteBelief(theta, [0.4, 0.6], np.column_stack([1 - theta, theta]), records=50)
    heads = np.arange(51)
    joint = np.array([0.4, 0.6]) * binom.pmf(heads[:, None], 50, theta)
    p = joint / joint.sum(axis=1, keepdims=True)
    expected = joint.sum(axis=1) @ (p @ theta**2 - (p @ theta) ** 2)
    u = ENGINE.solve(User(belief, Parameter("theta"), Quadratic()), [Release(), Shuffle()]).uncertainty
    assert_allclose(u, expected, rtol=1e-11)
    m = p @ theta
    predicted = joint.sum(axis=1) @ (m * (1 - m))
    assert ENGINE.solve(User(belief, NewRecord(), Quadratic()), [Release()]).uncertainty[0] == pytest.approx(
        predicted, rel=1e-11
    )
    # One record of a shuffled file is a head with the share of heads.
    share = heads / 50
    assert ENGINE.solve(User(belief, Record(3), Quadratic()), [Shuffle()]).uncertainty[0] == pytest.approx(
        joint.sum(axis=1) @ (share * (1 - share)), rel=1e-10
    )
    assert ENGINE.solve(User(belief, Average(), Quadratic()), [Release()]).uncertainty[0] == pytest.approx(0, abs=1e-12)
    k = np.array([[0.8, 0.2], [0.3, 0.7]])
    # Law of the average given randomised responses, by simulation.
    rng = np.random.default_rng(0)
    value = ENGINE.solve(User(belief, Average(), Quadratic()), [Stochastic(k)]).uncertainty[0]
    draws = []
    for _ in range(400):
        x = belief.draw_codes(rng)
        y = (rng.random(50) < k[x, 1]).astype(float)
        draws.append((x.mean(), float(ENGINE.posterior(User(belief, Average(), Quadratic()), Stochastic(k), y).mean())))
    gaps = np.array([(a - b) ** 2 for a, b in draws])
    assert abs(gaps.mean() - value) < 4 * gaps.std() / 20


def test_too_many_releases_are_refused_with_the_limit():
    rng = np.random.default_rng(0)
    belief = FiniteBelief(np.arange(5.0), likelihood=rng.dirichlet(np.ones(10), size=5), records=60)
    user = User(belief, Parameter("theta"), Quadratic())
    assert "limit of 5000000" in str(ENGINE.refuses(user, [Release()]))
    with pytest.raises(UnsupportedError, match="limit"):
        ENGINE.solve(user, [Release()])
    assert ENGINE.refuses(user, [Suppress()]) is None
    # With data the realised release is one posterior, however many others there might have been.
    data = belief.draw(rng)
    exact = ENGINE.posterior(user, Release(), data).quadratic().value
    assert ENGINE.solve(user, [Release()], data=data).uncertainty[0] == pytest.approx(float(exact), rel=1e-12)
    with pytest.raises(UnsupportedError, match="combinations"):
        ENGINE.solve(User(belief, Records(), Quadratic()), [Suppress()])


# -- one release -----------------------------------------------------------------------------------------


def test_posterior_by_hand():
    belief = FiniteBelief(
        ["sick", "well"], [0.1, 0.9], likelihood=[[0.8, 0.2], [0.05, 0.95]], outcomes=["+", "-"], records=2
    )
    user = User(belief, Parameter("theta"), ZeroOne())
    sick, well = 0.1 * 0.8 * 0.2, 0.9 * 0.05 * 0.95
    posterior = ENGINE.posterior(user, Release(), ["+", "-"])
    assert_allclose(posterior.probabilities, [sick / (sick + well), well / (sick + well)], rtol=1e-13)
    hidden = ENGINE.posterior(user, Suppress(rows=[1]), ["+", None])
    assert_allclose(hidden.probabilities, [0.08 / 0.125, 0.045 / 0.125], rtol=1e-13)
    assert_allclose(ENGINE.posterior(user, Suppress()).probabilities, [0.1, 0.9])
    with pytest.raises(InputError, match="depends on what is released"):
        ENGINE.posterior(user, Release())
    with pytest.raises(InputError, match="cannot give"):
        ENGINE.posterior(user, Release(), ["+", "?"])


def test_sample_labels_say_whose_record_it_is():
    belief = random_belief(np.random.default_rng(3), records=4)
    user = User(belief, Record(2), Quadratic())
    seen = pd.Series([3.0, 0.0], index=[0, 2])
    known = ENGINE.posterior(user, Subsample(size=2), seen)
    assert float(known.quadratic().value) == pytest.approx(0, abs=1e-14)
    # Without labels, record 2 is either of them or neither.
    unnamed = ENGINE.posterior(user, Subsample(size=2), np.array([3.0, 0.0]))
    shuffled = ENGINE.posterior(user, Subsample(size=2) | Shuffle(), seen)
    assert_allclose(unnamed.probabilities, shuffled.probabilities, rtol=1e-12)
    post = belief.prior * belief.law[:, 2] * belief.law[:, 0]
    predictive = (post / post.sum()) @ belief.law
    assert_allclose(unnamed.probabilities, 0.5 * predictive + 0.25 * np.array([1.0, 0, 1.0]), rtol=1e-12)


def test_released_data_can_be_inverted():
    belief = random_belief(np.random.default_rng(5), records=6)
    user = User(belief, Parameter("theta"), Quadratic())
    mask = Stochastic(K3, inputs=OUTCOMES) | Subsample(size=4) | Shuffle()
    release = mask.release(pd.Series(belief.draw(np.random.default_rng(1))), 3)
    p = belief.prior * np.prod([(belief.law @ K3)[:, list(OUTCOMES).index(v)] for v in release], axis=0)
    assert_allclose(ENGINE.posterior(user, mask, release).probabilities, p / p.sum(), rtol=1e-12)


# -- noise --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_noise_on_one_record_against_a_fine_grid():
    belief = FiniteBelief([0.0, 1.0, 2.5], [0.2, 0.5, 0.3])
    y = np.linspace(-40, 43, 800_001)
    for sd in (0.05, 0.8, 3.0):
        density = norm.pdf(y[:, None], belief.states.numbers, sd) * belief.prior
        total = density.sum(axis=1)
        p = density / np.maximum(total, 1e-300)[:, None]
        t = belief.states.numbers
        var = p @ t**2 - (p @ t) ** 2
        wanted = {
            Quadratic: np.trapezoid(total * var, y),
            ZeroOne: np.trapezoid(total * (1 - p.max(axis=1)), y),
            LogScore: np.trapezoid(-total * np.sum(np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0), axis=1), y),
        }
        for loss, expected in wanted.items():
            solution = ENGINE.solve(User(belief, Record(0), loss()), [Noise(sd=sd)])
            assert solution.uncertainty[0] == pytest.approx(expected, abs=2e-8)
            assert solution.error[0] < 1e-9 and solution.engine == ["enumeration"]


def test_noise_between_two_points_has_a_closed_form():
    # Two points one apart: the best guess errs with chance Phi(-1 / (2 sd)).
    belief = FiniteBelief([0.0, 1.0])
    for sd in (0.1, 0.5, 2.0):
        u = ENGINE.solve(
            User(belief, Parameter("theta"), ZeroOne()), [Noise(sd=sd), Noise(variance=0.0), Noise(variance=np.inf)]
        ).uncertainty
        assert u[0] == pytest.approx(norm.cdf(-0.5 / sd), abs=1e-10)
        assert u[1] == pytest.approx(0, abs=1e-14) and u[2] == pytest.approx(0.5, abs=1e-14)


def test_noise_after_a_matrix_and_on_new_records():
    belief = FiniteBelief([0.2, 0.7], [0.3, 0.7], likelihood=[[0.8, 0.2], [0.3, 0.7]])
    k = np.array([[0.9, 0.1], [0.2, 0.8]])
    y = np.linspace(-15, 16, 300_001)
    density = norm.pdf(y[:, None], [0.0, 1.0], 0.7) @ (belief.law @ k).T * belief.prior
    p = density / density.sum(axis=1, keepdims=True)
    m = p @ belief.law[:, 1]
    expected = np.trapezoid(density.sum(axis=1) * m * (1 - m), y)
    u = ENGINE.solve(User(belief, NewRecord(), Quadratic()), [Stochastic(k) | Noise(sd=0.7)]).uncertainty[0]
    assert u == pytest.approx(expected, abs=1e-9)
    release = [0.4]
    post = belief.prior * (belief.law @ k @ norm.pdf(0.4, [0.0, 1.0], 0.7))
    assert_allclose(
        ENGINE.posterior(
            User(belief, Parameter("theta"), Quadratic()), Stochastic(k) | Noise(sd=0.7), release
        ).probabilities,
        post / post.sum(),
        rtol=1e-12,
    )


@pytest.mark.long
def test_noise_on_several_records_is_averaged_over_releases():
    belief = random_belief(np.random.default_rng(8), records=2)
    user = User(belief, Record(0), Quadratic())
    solution = ENGINE.solve(
        user, [Noise(sd=0.6), Noise(sd=0.6) | Shuffle()], replicates=600, seed=np.random.SeedSequence(3)
    )
    assert np.all(solution.error > 0) and solution.engine[0] == "enumeration, averaged over releases"
    # The known row by two-dimensional summation on a grid.
    g = np.linspace(-4, 7, 221)
    step = g[1] - g[0]
    f = norm.pdf(g[:, None], OUTCOMES, 0.6)  # release by outcome
    joint = np.einsum("s,sa,ya,sb,zb->yza", belief.prior, belief.law, f, belief.law, f)
    total = joint.sum(axis=2)
    m1, m2 = joint @ OUTCOMES, joint @ OUTCOMES**2
    known = np.sum(m2 - m1**2 / total) * step**2
    swapped = (joint + joint.transpose(1, 0, 2)) / 2
    unknown = np.sum(swapped @ OUTCOMES**2 - (swapped @ OUTCOMES) ** 2 / swapped.sum(axis=2)) * step**2
    assert abs(solution.uncertainty[0] - known) < 4 * solution.error[0]
    assert abs(solution.uncertainty[1] - unknown) < 4 * solution.error[1]
    again = ENGINE.solve(user, [Noise(sd=0.6)], replicates=600, seed=np.random.SeedSequence(3))
    assert again.uncertainty[0] == solution.uncertainty[0]


def test_noise_of_other_sizes_and_kinds():
    belief = random_belief(np.random.default_rng(9), records=3)
    user = User(belief, Parameter("theta"), Quadratic())
    y = [0.4, 1.9, 2.2]
    spread = np.array([0.5, 1.0, 2.0])
    w = belief.prior * np.prod([belief.law @ norm.pdf(v, OUTCOMES, s) for v, s in zip(y, spread, strict=True)], axis=0)
    assert_allclose(ENGINE.posterior(user, Noise(sd=tuple(spread)), y).probabilities, w / w.sum(), rtol=1e-12)
    # A share of the belief's own variance.
    m = belief.marginal
    sd = np.sqrt(0.16 * (m @ OUTCOMES**2 - (m @ OUTCOMES) ** 2))
    assert_allclose(
        ENGINE.posterior(user, Noise(share=0.16), y).probabilities,
        ENGINE.posterior(user, Noise(sd=sd), y).probabilities,
        rtol=1e-12,
    )
    assert "cannot invert" in str(ENGINE.refuses(user, [Noise(sd=1.0, kind="laplace")]))
    assert "cannot invert" in str(ENGINE.refuses(user, [Noise(sd=1.0) | Clip(lower=0.0)]))
    assert "Put it first" in str(ENGINE.refuses(user, [Stochastic(K3) | Noise(share=0.16)]))
    assert "nobody can name" in str(ENGINE.refuses(user, [Shuffle() | Noise(sd=tuple(spread))]))
    doubled = Noise(variance=[[1.0], [0.5], [1.0]])
    same = Noise(variance=(1.0, 0.5, 1.0))
    assert_allclose(
        ENGINE.posterior(user, doubled, y).probabilities, ENGINE.posterior(user, same, y).probabilities, rtol=1e-12
    )


def test_vectors_and_columns():
    values = np.array([[0.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    belief = FiniteBelief(values, [0.5, 0.2, 0.3])
    user = User(belief, Parameter("theta"), Quadratic())
    u = ENGINE.solve(user, [Release(), Suppress(columns=[0]), Suppress(columns=[1]), Suppress()]).uncertainty
    var = lambda x, p: float((p / p.sum()) @ x**2 - ((p / p.sum()) @ x) ** 2)  # noqa: E731
    first = 0.5 * var(values[1:, 0], np.array([0.2, 0.3]))
    second = 0.7 * var(values[:2, 1], np.array([0.5, 0.2]))
    full = var(values[:, 0], belief.prior) + var(values[:, 1], belief.prior)
    assert_allclose(u, [0, first, second, full], atol=1e-12)
    posterior = ENGINE.posterior(user, Noise(covariance=[[1.0, 0.3], [0.3, 0.5]]), [[0.5, 0.7]])
    from scipy.stats import multivariate_normal

    w = belief.prior * [multivariate_normal([0.5, 0.7], [[1.0, 0.3], [0.3, 0.5]]).pdf(v) for v in values]
    assert_allclose(posterior.probabilities, w / w.sum(), rtol=1e-10)
    part = ENGINE.posterior(user, Noise(variance=1.0, columns=[0]), [[0.5, 1.0]])
    w = belief.prior * norm.pdf(0.5, values[:, 0], 1.0) * (values[:, 1] == 1.0)
    assert_allclose(part.probabilities, w / w.sum(), rtol=1e-10)
    assert ENGINE.solve(User(belief, Parameter("theta", component=1), Quadratic()), [Suppress()]).uncertainty[
        0
    ] == pytest.approx(var(values[:, 1], belief.prior))


# -- the mask, the belief, bad input --------------------------------------------------------------------------


def test_stochastic_releases_real_data():
    k = np.array([[0.6, 0.3, 0.1], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    codes = np.repeat([0, 1, 2], 20_000)
    out = Stochastic(k).release(codes, 4)
    for i in range(3):
        share = np.bincount(out[codes == i].astype(int), minlength=3) / 20_000
        assert np.all(np.abs(share - k[i]) <= 4 * np.sqrt(k[i] * (1 - k[i]) / 20_000))
    frame = pd.DataFrame({"a": ["x", "y", None], "b": [1, 2, 3]}, index=[5, 6, 7])
    flipped = Stochastic([[0, 1], [1, 0]], inputs=["x", "y"], columns="a").release(frame, 0)
    assert flipped["a"].tolist()[:2] == ["y", "x"] and pd.isna(flipped["a"].iloc[2])
    assert flipped["b"].tolist() == [1, 2, 3] and list(flipped.index) == [5, 6, 7]
    assert frame["a"].iloc[0] == "x"
    kinds = pd.Series(pd.Categorical(["lo", "hi"], categories=["lo", "hi"]))
    assert Stochastic([[0, 1], [1, 0]]).release(kinds, 0).tolist() == ["hi", "lo"]
    named = Stochastic([[1.0], [1.0]], outputs=["gone"], inputs=["lo", "hi"]).release(
        np.array(["lo", "hi"], dtype=object), 0
    )
    assert named.tolist() == ["gone", "gone"]
    assert Stochastic(np.eye(2)).parameters() == {"matrix": "2 x 2", "kept": 1.0}


def test_likelihood_functions_and_labels():
    belief = FiniteBelief([1.0, 2.0], likelihood=lambda o, v: binom.pmf(o, 3, v / 4), outcomes=[0, 1, 2, 3])
    assert_allclose(belief.law, [binom.pmf(range(4), 3, 0.25), binom.pmf(range(4), 3, 0.5)])
    words = FiniteBelief(["a", "b"], likelihood=lambda o, v: 0.8 if o == v else 0.2, outcomes=["a", "b"])
    assert_allclose(words.law, [[0.8, 0.2], [0.2, 0.8]])
    assert words.draw(np.random.default_rng(0))[0] in ("a", "b")
    assert_allclose(words.levels.codes(["b", "a", None], "data"), [1, 0, -1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FiniteBelief([]), "values must be"),
        (lambda: FiniteBelief("abc"), "list of values"),
        (lambda: FiniteBelief([1, 1]), "different from each other"),
        (lambda: FiniteBelief([1, np.nan]), "finite"),
        (lambda: FiniteBelief([1, 2], [0.5, 0.6]), "sum to 1"),
        (lambda: FiniteBelief([1, 2], [-0.5, 1.5]), "negative"),
        (lambda: FiniteBelief([1, 2], [1.0]), "2 entries"),
        (lambda: FiniteBelief([1, 2], records=2), "Without a likelihood"),
        (lambda: FiniteBelief([1, 2], outcomes=[1]), "outcomes belong to a likelihood"),
        (lambda: FiniteBelief([1, 2], likelihood=[[1.0], [1.0]], records=0), "records"),
        (lambda: FiniteBelief([1, 2], likelihood=[[0.5, 0.4], [1, 0]]), "sum to 1"),
        (lambda: FiniteBelief([1, 2], likelihood=[[1.0]]), "shape"),
        (lambda: FiniteBelief([1, 2], likelihood=lambda o, v: 1.0), "needs the list of outcomes"),
        (lambda: User(FiniteBelief([1, 2]), Parameter("mu"), Quadratic()), "no such parameter"),
        (lambda: User(FiniteBelief([1, 2]), Parameter("theta", component=0), Quadratic()), "no components"),
        (lambda: User(FiniteBelief([1, 2]), Record(1), Quadratic()), "between 0 and 0"),
        (lambda: User(FiniteBelief([1, 2]), NewRecord(), Quadratic()), "no population"),
        (lambda: User(FiniteBelief(["a", "b"]), Average(), Quadratic()), "no average"),
        (lambda: User(FiniteBelief(["a", "b"]), Functional(lambda x: x, of=Record(0)), Quadratic()), "labels"),
        (lambda: Stochastic([[0.5, 0.4]]), "sum to 1"),
        (lambda: Stochastic([1.0]), "one row per category"),
        (lambda: Stochastic([[1.0, 0.0]], outputs=["a"]), "2 entries"),
        (lambda: Stochastic([[1.0], [1.0]], inputs=["a", "a"]), "different"),
        (lambda: Stochastic(np.eye(2)).release(["a", "b"], 0), "Give inputs"),
        (lambda: Stochastic(np.eye(2)).release([0, 2], 0), "codes 0 to 1"),
        (lambda: Stochastic(np.eye(2), inputs=["a", "b"]).release(["a", "c"], 0), "no row for"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(RuvError, match=words):
        make()


@pytest.mark.parametrize(
    ("mask", "data", "words"),
    [
        (Stochastic(np.eye(2)), None, "one row per category, 3 here"),
        (Microaggregate(groups=1), None, "Enumeration cannot invert"),
        (Noise(sd=1.0) | Stochastic(np.eye(3)), None, "Put Stochastic before Noise"),
        (Noise(sd=1.0, common=True), None, "ties the records together"),
        (Shuffle() | Suppress(rows=[0]), None, "Put it first in the chain"),
        (Suppress(rows=[9]), None, "between 0 and 2"),
        (Release(), [0.0, 1.0], "3 records"),
        (Release(), [0.0, 1.0, 2.0], "does not know"),
    ],
)
def test_bad_masks_and_data(mask, data, words):
    belief = random_belief(np.random.default_rng(1))
    with pytest.raises(RuvError, match=words):
        ENGINE.solve(User(belief, Record(0), Quadratic()), [mask], data=data)


def test_labels_refuse_noise_and_distances():
    belief = FiniteBelief(["a", "b"], [0.4, 0.6])
    assert "labels" in str(ENGINE.refuses(User(belief, Parameter("theta"), ZeroOne()), [Noise(sd=1.0)]))
    assert "labels" in str(ENGINE.refuses(User(belief, Parameter("theta"), Quadratic()), [Release()]))
    assert "labels" in str(ENGINE.refuses(User(belief, Parameter("theta"), ZeroOne(tolerance=1.0)), [Release()]))
    assert ENGINE.refuses(User(belief, Parameter("theta"), LogScore()), [Release()]) is None
    own = User(belief, Parameter("theta"), lambda e, t: abs(e - t))
    assert 'estimates="target"' in str(ENGINE.refuses(own, [Release()]))
    asymmetric = User(belief, Parameter("theta"), lambda e, t: np.where(e == t, 0.0, 1.0 + 3.0 * t), estimates="target")
    assert ENGINE.solve(asymmetric, [Suppress()]).uncertainty[0] == pytest.approx(0.4)  # say "b"


def test_impossible_data_are_refused():
    belief = FiniteBelief([0, 1], [1.0, 0.0])
    with pytest.raises(InputError, match="cannot come from this belief"):
        ENGINE.solve(User(belief, Record(0), Quadratic()), [Release()], data=[1])


def test_random_rounding_has_two_outputs() -> None:
    belief = FiniteBelief(values=[0.0, 0.5, 3.0], probabilities=[0.2, 0.5, 0.3])
    found = ENGINE.posterior(User(belief, Record(0), Quadratic()), Round(base=2, random=True), [2.0])
    # 0 stays; 0.5 goes up to 2 with chance 1/4, 3 down to 2 with chance 1/2.
    weight = np.array([0.0, 0.5 * 0.25, 0.3 * 0.5])
    assert_allclose(found.probabilities, weight / weight.sum(), rtol=1e-14)


def test_mechanisms_and_other_masks_are_solved_apart_as_together(tmp_path) -> None:
    """Pieces without a mechanism go to the engine that takes them."""
    belief = FiniteBelief([0, 1], likelihood=[[0.7, 0.3], [0.2, 0.8]], outcomes=[0, 1], records=2)
    user = User(belief, Record(0), Quadratic())
    whole = Mechanism([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]], outputs=[0, 1], outcomes=[0, 1], records=2)
    masks = [whole, Stochastic([[0.9, 0.1], [0.2, 0.8]]), Release()]
    together, apart = (
        evaluate(masks, intruder=user, scientist=user, seed=1, checkpoint=place) for place in (None, tmp_path / "kept")
    )
    assert_allclose(apart.intruder_uncertainty, together.intruder_uncertainty, rtol=0)
