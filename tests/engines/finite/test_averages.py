"""Averages of rows under a finite belief, against every file and every release written out."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import ruvdecision as ruv
from ruvdecision.engines.finite.whole_file import WholeFile

LEVELS = {2: [0.0, 1.0], 3: [0.0, 1.0, 3.0], 4: [0.0, 1.0, 3.0, 4.0]}
DECIMALS = [0.1, 0.4, 0.2, 0.3]


def belief_of(records, levels, seed=3, states=3):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(levels), size=states)
    return ruv.FiniteBelief([-1.0, 0.5, 2.0], rng.dirichlet(np.ones(states)), law, LEVELS[levels], records)


def stays(levels, chance=0.6):
    return np.full((levels, levels), (1 - chance) / (levels - 1)) + (chance - (1 - chance) / (levels - 1)) * np.eye(
        levels
    )


# -- releases by hand: a function of the file that lists (chance, what is seen) ------------------------------------


def total(x, levels):
    return [(1.0, round(sum(x), 9))]


def halves(x, levels):
    cut = (len(x) + 1) // 2
    return [(1.0, (round(sum(x[:cut]), 9), round(sum(x[cut:]), 9)))]


def changed(x, levels):
    chances = stays(len(levels))
    for out in itertools.product(range(len(levels)), repeat=len(x)):
        yield np.prod([chances[levels.index(v), o] for v, o in zip(x, out, strict=True)]), out


def total_of_changed(x, levels):
    return [(p, round(sum(levels[o] for o in out), 9)) for p, out in changed(x, levels)]


def nothing(x, levels):
    return [(1.0, ())]


def second_row(x, levels):
    return [(1.0, x[1])]


def others(x, levels):
    return [(1.0, x[1:])]


def rounded_mean(x, levels):
    return [(1.0, float(np.rint(sum(x) / len(x))))]


def side_by_side(*laws):
    def joint(x, levels):
        parts = itertools.product(*(list(law(x, levels)) for law in laws))
        return [(np.prod([p for p, _ in one]), tuple(seen for _, seen in one)) for one in parts]

    return joint


def masks_of(levels):
    swap, mean = ruv.Stochastic(stays(levels)), ruv.Microaggregate(groups=1)
    return {
        "total": (mean, total),
        "halves": (ruv.Microaggregate(groups=2), halves),
        "total of changed": (swap | mean, total_of_changed),
        "rounded mean": (mean | ruv.Round(base=1), rounded_mean),
        "changed": (swap, changed),
        "pram": (ruv.PRAM(stays(levels), categories=sorted(LEVELS[levels])), changed),
        "nothing": (ruv.Suppress(), nothing),
        "second row": (ruv.Release(rows=[1]), second_row),
        "others": (ruv.Suppress(rows=[0]), others),
    }


def uncertainties(values, chances):
    values, chances = np.array(values), np.array(chances)
    order = np.argsort(values)
    median = values[order][np.searchsorted(np.cumsum(chances[order]), 0.5 * (1 - 1e-12))]
    live = chances[chances > 0]
    return [
        chances @ (values - chances @ values) ** 2,
        chances @ np.abs(values - median),
        1 - chances.max(),
        -np.sum(live * np.log(live)),
    ]


LOSSES = (ruv.Quadratic(), ruv.Absolute(), ruv.ZeroOne(), ruv.LogScore())
MEAN = ruv.Microaggregate(groups=1)
VALUES = {
    "record": (ruv.Record(0), lambda theta, x, new: x[0]),
    "last": (ruv.Record(-1), lambda theta, x, new: x[-1]),
    "average": (ruv.Average(), lambda theta, x, new: round(sum(x) / len(x), 13)),
    "state": (ruv.Parameter("theta"), lambda theta, x, new: theta),
    "new": (ruv.NewRecord(), lambda theta, x, new: new),
    "difference": (
        ruv.Functional(lambda a, b: a - b, of=[ruv.Record(0), ruv.Record(1)]),
        lambda theta, x, new: round(x[0] - x[1], 13),
    ),
}


def files(belief):
    """Every state, file and new record, with its chance."""
    levels = belief.levels.numbers.tolist()
    for s, theta in enumerate(belief.states.numbers):
        for codes in itertools.product(range(len(levels)), repeat=belief.records + 1):
            chance = belief.prior[s] * np.prod(belief.law[s, list(codes)])
            yield chance, float(theta), tuple(levels[c] for c in codes[:-1]), levels[codes[-1]]


def expected(belief, value, law, given=None):
    """Expected uncertainties for the losses; with a file ``given`` the average over its releases."""
    levels = belief.levels.numbers.tolist()
    joint, seen_after = defaultdict(lambda: defaultdict(float)), {}
    for chance, theta, x, new in files(belief):
        if x not in seen_after:
            seen_after[x] = list(law(x, levels))
        for p, seen in seen_after[x]:
            joint[seen][value(theta, x, new)] += chance * p
    weights = {seen: sum(one.values()) for seen, one in joint.items()}
    if given is not None:
        weights = defaultdict(float)
        for p, seen in law(given, levels):
            weights[seen] += p
    each = [
        weight
        * np.array(uncertainties(list(joint[seen]), np.array(list(joint[seen].values())) / sum(joint[seen].values())))
        for seen, weight in weights.items()
        if weight > 0
    ]
    return np.sum(each, axis=0)


@pytest.mark.parametrize("target", VALUES)
@pytest.mark.parametrize(("records", "levels"), [(2, 4), (3, 3), (5, 2)])
def test_users_who_know_a_total(records, levels, target):
    belief, (asked, value) = belief_of(records, levels), VALUES[target]
    masks = masks_of(levels)
    before = expected(belief, value, total)
    after = {name: expected(belief, value, side_by_side(law, total)) for name, (_, law) in masks.items()}
    for i, loss in enumerate(LOSSES):
        user = ruv.User(belief, asked, loss, knows=ruv.Microaggregate(groups=1))
        score = "relative_gain" if before[i] > 1e-12 else "gain"
        rumap = ruv.evaluate([mask for mask, _ in masks.values()], intruder=user, scientist=user, risk=score)
        assert_allclose(rumap.intruder_uncertainty, [after[name][i] for name in masks], rtol=1e-10, atol=1e-12)
        size = before[i] if before[i] > 1e-12 else 1.0
        gains = [(before[i] - after[name][i]) / size for name in masks]
        assert_allclose(rumap.to_dataframe()["risk"], gains, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("target", VALUES)
@pytest.mark.parametrize("name", ["total", "halves", "total of changed", "rounded mean"])
def test_releases_of_averages(name, target):
    belief, (asked, value) = belief_of(3, 3), VALUES[target]
    mask, law = masks_of(3)[name]
    given, before = (0.0, 3.0, 1.0), expected(belief, value, nothing)
    for plain, hand, data in (
        (mask, law, None),
        (ruv.Suppress(rows=[0]) & mask, side_by_side(others, law), None),
        (mask, law, given),
        (mask & ruv.Stochastic(stays(3)), side_by_side(law, changed), given),
    ):
        wanted = expected(belief, value, hand, data)
        for loss, u, u0 in zip(LOSSES, wanted, before, strict=True):
            found = WholeFile().solve(ruv.User(belief, asked, loss), [plain], data=None if data is None else list(data))
            assert found.uncertainty[0] == pytest.approx(u, rel=1e-10, abs=1e-12)
            assert found.error[0] == 0 and found.engine == ["enumeration"] and not found.averaged
            assert found.before == pytest.approx(u0, rel=1e-10)


@pytest.mark.parametrize(
    "known", [ruv.Microaggregate(groups=1) | ruv.Noise(sd=0.8), ruv.Noise(sd=0.8) | ruv.Microaggregate(groups=1)]
)
@pytest.mark.parametrize("beside", ["nothing", "changed", "second row", "total of changed"])
def test_a_noisy_mean_is_integrated_over(known, beside):
    """Three copies of a mean, each with noise of its own, tell as much as the mean of three noisy records."""
    belief, (mask, law) = belief_of(3, 3), masks_of(3)[beside]
    levels, sd = belief.levels.numbers.tolist(), 0.8 / np.sqrt(3)
    joint = defaultdict(float)
    for chance, _, x, _ in files(belief):
        for p, seen in law(x, levels):
            joint[seen, round(sum(x) / 3, 9), x[0]] += chance * p
    grid = np.linspace(-6 * sd, 3 + 6 * sd, 6001)
    wanted = 0.0
    for shown in {seen for seen, _, _ in joint}:
        part = np.zeros((3, len(grid)))
        for (seen, mean, first), p in joint.items():
            if seen == shown:
                part[levels.index(first)] += p * norm.pdf(grid, mean, sd)
        density = part.sum(axis=0)
        moments = [np.array(levels) ** k @ part for k in (1, 2)]
        wanted += np.trapezoid(moments[1] - moments[0] ** 2 / density, grid)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), knows=known)
    found = ruv.evaluate([mask], intruder=user, scientist=user)
    assert found.intruder_uncertainty[0] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("known", [ruv.Microaggregate(groups=1), ruv.Noise(sd=0.5) | ruv.Microaggregate(groups=1)])
def test_noisy_records_beside_a_total(known):
    """The posterior is Bayes' rule over all files; U is its average over releases, with an error."""
    belief, sd = belief_of(3, 3), 1.0
    mask, spread = ruv.Noise(sd=sd), 0.0 if not known.parts[1:] else 0.5 / np.sqrt(3)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    rng = np.random.default_rng(5)
    levels = belief.levels.numbers
    listed = [(p, np.array(x)) for p, _, x, _ in files(belief)]
    chances, every = np.array([p for p, _ in listed]), np.stack([x for _, x in listed])

    def posterior(noisy, mean):
        log = -0.5 * ((noisy - every) ** 2).sum(axis=1) / sd**2
        gap = mean - every.mean(axis=1)
        log += np.where(np.abs(gap) < 1e-9, 0.0, -np.inf) if spread == 0 else -0.5 * gap**2 / spread**2
        weight = chances * np.exp(log)
        return np.array([weight[every[:, 0] == v].sum() for v in levels]) / weight.sum()

    for _ in range(5):
        x = belief.draw(rng)
        noisy, mean = (mask & known).release(x, rng)
        found = ruv.posterior(user, mask & known, (noisy, mean))
        assert_allclose(found.probabilities, posterior(noisy, mean[0]), rtol=1e-6, atol=1e-9)
    wanted = []
    for _ in range(4000):
        x = belief.draw(rng)
        p = posterior(x + sd * rng.standard_normal(3), x.mean() + spread * rng.standard_normal())
        wanted.append(p @ levels**2 - (p @ levels) ** 2)
    u = WholeFile().solve(user, [mask & known], replicates=400)
    assert u.averaged and u.error[0] > 0
    away = np.hypot(u.error[0], np.std(wanted) / np.sqrt(len(wanted)))
    assert abs(u.uncertainty[0] - np.mean(wanted)) < 4 * away


def test_columns_and_groups_with_names():
    """Means of one variable in named groups: records are pairs."""
    pairs = [[0.0, 5.0], [1.0, 5.0], [1.0, 7.0]]
    belief = ruv.FiniteBelief(
        [0, 1], likelihood=[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], outcomes=pairs, records=3, columns=["a", "b"]
    )
    mask = ruv.Microaggregate(groups=["u", "v", "u"], columns="b")
    joint = defaultdict(lambda: np.zeros(2))
    for s, codes in itertools.product(range(2), itertools.product(range(3), repeat=3)):
        x = [pairs[c] for c in codes]
        seen = (tuple(a for a, _ in x), x[0][1] + x[2][1], x[1][1])
        joint[seen][int(x[0][1] == 7.0)] += 0.5 * np.prod(belief.law[s, list(codes)])
    wanted = sum(4 * p[0] * p[1] / p.sum() for p in joint.values())
    user = ruv.User(belief, ruv.Record(0, "b"), ruv.Quadratic())
    assert WholeFile().solve(user, [mask]).uncertainty[0] == pytest.approx(wanted, rel=1e-12)
    frame = pd.DataFrame([[0.0, 5.0], [1.0, 7.0], [1.0, 7.0]], columns=["a", "b"], index=["x", "y", "z"])
    found = ruv.posterior(user, mask, mask.release(frame))
    assert found.mean() == pytest.approx(5.0)  # 0 goes with 5 alone


def test_totals_that_differ_in_their_last_digit_are_one():
    """In binary 0.1 + 0.4 is not 0.2 + 0.3, and a file is averaged in the order of its rows."""
    belief = ruv.FiniteBelief([0, 1, 2], likelihood=belief_of(3, 4).law, outcomes=DECIMALS, records=3)
    user = ruv.User(belief, ruv.Record(0), ruv.LogScore())
    for mask, law in ((MEAN, total), (MEAN & ruv.Release(rows=[1]), side_by_side(total, second_row))):
        wanted = expected(belief, lambda theta, x, new: x[0], law)[3]
        assert WholeFile().solve(user, [mask]).uncertainty[0] == pytest.approx(wanted, rel=1e-12)
    one, other = (ruv.posterior(user, MEAN, MEAN.release(x)) for x in ([0.1, 0.4, 0.2], [0.3, 0.3, 0.1]))
    assert_allclose(one.probabilities, other.probabilities, rtol=1e-14)


def test_many_exchangeable_records():
    """Fifty records are counted: of a known total nothing is left to say about the average."""
    belief = ruv.FiniteBelief([0.2, 0.6], likelihood=[[0.8, 0.2], [0.4, 0.6]], records=50)
    known = ruv.Microaggregate(groups=1)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), knows=known)
    ones = np.arange(51) / 50
    chance = ruv.User(belief, ruv.Average(), ruv.Quadratic())
    law = np.array([ruv.posterior(user, ruv.Suppress(), (np.full(50, np.nan), np.full(50, t))).mean() for t in ones])
    assert_allclose(law, ones, atol=1e-12)
    assert WholeFile().solve(chance, [known]).uncertainty[0] == pytest.approx(0.0, abs=1e-15)


def test_release_of_rows_in_another_order_tells_the_same_of_a_row_that_is_named():
    belief = belief_of(4, 3)
    mask = ruv.Stochastic(stays(3)) & ruv.Microaggregate(groups=1)
    user = ruv.User(belief, ruv.Record(0), ruv.LogScore())
    one, other = ([1.0, 0.0, 3.0, 1.0], [1.0, 1.0, 0.0, 3.0])
    found = [ruv.posterior(user, mask, (x, np.full(4, 1.25))).probabilities for x in (one, other)]
    assert_allclose(found[0], found[1], rtol=1e-12)
    assert not np.allclose(found[0], ruv.posterior(user, mask, (one, np.full(4, 0.5))).probabilities)


@pytest.mark.parametrize(
    ("mask", "release", "words"),
    [
        (ruv.Microaggregate(groups=1), [1.0, 1.0], "must have 3 records"),
        (ruv.Microaggregate(groups=1), [1.1, 1.1, 1.1], "that the mask cannot give"),
        (ruv.Microaggregate(groups=1), None, "depends on what is released"),
        (ruv.Microaggregate(groups=1) & ruv.Release(), [1.0, 1.0, 1.0], "makes 2 releases"),
    ],
)
def test_releases_that_cannot_be(mask, release, words):
    with pytest.raises(ruv.InputError, match=words):
        WholeFile().posterior(ruv.User(belief_of(3, 3), ruv.Record(0), ruv.Quadratic()), mask, release)


LABELS = ruv.FiniteBelief([0, 1], likelihood=[[0.5, 0.5], [0.1, 0.9]], outcomes=["a", "b"], records=3)


@pytest.mark.parametrize(
    ("belief", "mask", "words"),
    [
        (
            belief_of(60, 4),
            ruv.Release(rows=range(30)) & MEAN,
            "different files; got a limit of 200,000. Use fewer records",
        ),
        (belief_of(20, 4), ruv.Stochastic(stays(4)) & MEAN, "Use fewer records or outcomes"),
        (belief_of(4, 3), ruv.Subsample(size=2) & MEAN, "cannot invert Subsample.size=2. beside an average of rows"),
        (belief_of(4, 3), ruv.Shuffle() & MEAN, "cannot invert Shuffle.* beside an average of rows"),
        (belief_of(4, 3), MEAN & ruv.Noise(sd=1.0, kind="laplace"), "its noise is laplace"),
        (belief_of(4, 3), ruv.Noise(sd=1.0) | ruv.Round(base=1) | MEAN, "noise makes a continuum"),
        (LABELS, MEAN, "needs numbers, and these are labels"),
    ],
    ids=lambda v: None if isinstance(v, ruv.FiniteBelief) else str(v),
)
def test_what_is_too_much_is_refused(belief, mask, words):
    user = ruv.User(belief, ruv.Record(0), ruv.ZeroOne())
    with pytest.raises(ruv.UnsupportedError, match=words) as raised:
        ruv.evaluate([mask], intruder=user, scientist=user)
    assert raised.value.do


def test_every_record_with_a_known_total():
    """The risk of every record, two of which are released, is that of each asked for by itself."""
    belief = belief_of(4, 3)
    each = ruv.analyses.record_risk(
        [ruv.Release(rows=[1, 2])], intruder=ruv.User(belief, ruv.Record(0), ruv.Quadratic(), knows=MEAN)
    )
    wanted = [
        expected(belief, lambda theta, x, new, r=r: x[r], side_by_side(lambda x, levels: [(1.0, x[1:3])], total))[0]
        for r in range(4)
    ]
    assert_allclose(np.ravel(each.uncertainty), wanted, rtol=1e-10, atol=1e-12)


def test_the_average_of_one_record_is_the_record():
    belief = ruv.FiniteBelief([0.0, 1.0, 3.0], [0.2, 0.5, 0.3])
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    noise = ruv.Noise(sd=0.7)
    alone, both = (
        ruv.evaluate([mask], intruder=user, scientist=user).intruder_uncertainty for mask in (noise, noise | MEAN)
    )
    assert_allclose(both, alone, rtol=1e-12)


def test_several_noisy_copies_of_one_draw_are_one():
    belief = ruv.FiniteBelief([0.0, 1.0, 3.0], [0.2, 0.5, 0.3])
    user = ruv.User(belief, ruv.Record(0), ruv.Absolute())
    noise = ruv.Noise(sd=0.7)
    alone, both = ruv.evaluate(
        [noise, noise | (ruv.Release() & ruv.Release())], intruder=user, scientist=user
    ).intruder_uncertainty
    assert both == pytest.approx(alone, rel=1e-10)
    one, two = (
        ruv.posterior(user, noise, [0.8]),
        ruv.posterior(user, noise | (ruv.Release() & ruv.Release()), ([0.8], [0.8])),
    )
    assert_allclose(two.probabilities, one.probabilities, rtol=1e-12)


def test_users_who_are_wrong_and_users_in_the_dark():
    """Somebody whose truth is his belief pays what he expects; a mask that nobody names is refused."""
    belief = belief_of(3, 3)
    right = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), knows=MEAN)
    wrong = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), knows=MEAN, truth=belief_of(3, 3))
    mask = ruv.Stochastic(stays(3), inputs=LEVELS[3])
    exact, drawn = (
        ruv.evaluate([mask], intruder=u, scientist=u, seed=2, replicates=400).to_dataframe() for u in (right, wrong)
    )
    away = abs(exact["intruder_uncertainty"][0] - drawn["intruder_uncertainty"][0])
    assert 0 < away < 4 * drawn["intruder_error"][0]
    dark = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), knows_mask=False)
    with pytest.raises(ruv.UnsupportedError, match="which mask it was is not known"):
        ruv.evaluate([MEAN | ruv.Noise(sd=1.0)], intruder=dark, scientist=right)
    with pytest.raises(ruv.UnsupportedError, match="averages rows"):
        MEAN.refines(mask, belief)
