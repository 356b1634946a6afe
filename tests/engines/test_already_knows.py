"""Users who already know something of the records, and releases that are made side by side."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from brute import dense_channel, joint
from hypothesis import given, settings, strategies as st

import ruvdecision as ruv
from ruvdecision.masks.cells import publish

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "user_models.json").read_text())
BELIEF = ruv.NormalBelief(records=7, variance=2.0, prior_mean=1.0, prior_variance=5.0)
COIN = ruv.FiniteBelief([0.2, 0.9], [0.4, 0.6], likelihood=[[0.7, 0.3], [0.25, 0.75]], records=3)
TOSS = ruv.Stochastic([[0.9, 0.1], [0.2, 0.8]])
X = np.array([1.0, 0.3, 2.5, 4.0, -1.0, 0.7, 2.2])
SCIENTIST = ruv.User(BELIEF, ruv.Parameter("mu"), ruv.Quadratic())


def read(text):
    return None if text is None else eval(text, {"ruv": ruv})


def solved(user, *masks, **options):
    rumap = ruv.evaluate(list(masks), intruder=user, scientist=user, **options)
    return np.asarray(rumap.intruder_uncertainty), float(rumap.before[0][0])


def uncertainty(user, mask, **options):
    return float(solved(user, mask, **options)[0][0])


@pytest.mark.slow
@pytest.mark.campaign(7, "slow")
@pytest.mark.parametrize("identity", sorted({case["id"] for case in REFERENCE}))
def test_reference(identity):
    cases = [case for case in REFERENCE if case["id"] == identity]
    for case in cases:
        user = ruv.User(*(read(case[k]) for k in ("belief", "target", "loss")), knows=read(case["knows"]))
        after, before = solved(user, read(case["mask"]))
        value = before if case["what"] == "U0" else after[0]
        assert value == pytest.approx(case["value"], rel=1e-8, abs=1e-7), case


# -- properties ----------------------------------------------------------------------------------------------

LINEAR = [
    ruv.Suppress(),
    ruv.Release(rows=[1, 2]),
    ruv.Noise(variance=0.5),
    ruv.Noise(variance=3.0),
    ruv.Noise(variance=1.0, common=True),
    ruv.Microaggregate(groups=1),
    ruv.Microaggregate(groups=3),
    ruv.Noise(variance=1.0) | ruv.Microaggregate(groups=2),
    ruv.Microaggregate(groups=2) | ruv.Noise(variance=1.0),
    ruv.Noise(variance=1.0) & ruv.Suppress(rows=[0, 1]),
    ruv.Noise(variance=2.0) | (ruv.Noise(variance=0.5) & ruv.Microaggregate(groups=1)),
]
CATEGORIES = [
    ruv.Suppress(),
    ruv.Release(rows=[1]),
    TOSS,
    ruv.Stochastic([[0.6, 0.3, 0.1], [0.1, 0.5, 0.4]]),
    TOSS & ruv.Suppress(rows=[0, 1]),
    ruv.Microaggregate(groups=1),
    TOSS | ruv.Microaggregate(groups=2),
    ruv.Microaggregate(groups=1) | ruv.Noise(sd=0.4),
]
quick = settings(deadline=None, max_examples=30)


def check_properties(belief, target, loss, first, second):
    plain = ruv.User(belief, target, loss)
    knows = ruv.User(belief, target, loss, knows=second)
    (alone, both, turned), _ = (
        solved(plain, first, first & second, second & first)
        if first != second
        else ((uncertainty(plain, first), uncertainty(plain, first & second), uncertainty(plain, second & first)), None)
    )
    other = uncertainty(plain, second)
    (after, nothing), before = (
        solved(knows, first, ruv.Suppress())
        if first != ruv.Suppress()
        else ((uncertainty(knows, first), uncertainty(knows, ruv.Suppress())), solved(knows, first)[1])
    )
    slack = 1e-9 * max(abs(alone), abs(other), 1.0)
    assert both <= min(alone, other) + slack
    assert both == pytest.approx(turned, rel=1e-8, abs=slack)
    assert after == pytest.approx(both, rel=1e-8, abs=slack)  # to know b and be told a is to be told both
    assert before == nothing == pytest.approx(other, rel=1e-8, abs=slack)
    if second == ruv.Suppress():
        assert both == pytest.approx(alone, rel=1e-8, abs=slack)


@pytest.mark.slow
@quick
@given(
    n=st.integers(3, 8),
    s2=st.floats(1e-2, 1e2),
    f2=st.floats(1e-2, 1e2),
    target=st.sampled_from([ruv.Record(0), ruv.Parameter("mu"), ruv.Average(), ruv.NewRecord()]),
    loss=st.sampled_from([ruv.Quadratic(), ruv.Absolute()]),
    first=st.sampled_from(LINEAR),
    second=st.sampled_from(LINEAR),
)
def test_more_information_never_hurts_normal(n, s2, f2, target, loss, first, second):
    belief = ruv.NormalBelief(records=n, variance=s2, prior_mean=1.0, prior_variance=f2)
    check_properties(belief, target, loss, first, second)


@pytest.mark.slow
@quick
@given(
    target=st.sampled_from([ruv.Record(0), ruv.Parameter("theta"), ruv.Average()]),
    loss=st.sampled_from([ruv.Quadratic(), ruv.Absolute(), ruv.ZeroOne()]),
    first=st.sampled_from(CATEGORIES),
    second=st.sampled_from(CATEGORIES),
)
def test_more_information_never_hurts_finite(target, loss, first, second):
    check_properties(COIN, target, loss, first, second)


# -- by direct conditioning ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(LINEAR, 2)), ids=str)
def test_posterior_given_both_releases(first, second):
    """Mean and variance against conditioning of all numbers at once."""
    from ruvdecision.engines.normal.releases import channel_of

    n, s2, f2 = 7, 2.0, 5.0
    mask = first & second
    files = mask.release(X, 5)
    values = np.stack(files, axis=1)
    a, r = channel_of(BELIEF, mask).dense()
    joint = s2 * np.eye(n) + f2
    there = np.flatnonzero(~np.isnan(values.reshape(-1)))
    a, r, y = a[there], r[np.ix_(there, there)], values.reshape(-1)[there]
    gain = joint @ a.T @ np.linalg.pinv(a @ joint @ a.T + r, rcond=1e-12, hermitian=True)
    mean, cov = 1.0 + gain @ (y - a @ np.ones(n)), joint - gain @ a @ joint
    for row in (0, 2, 6):
        found = ruv.posterior(ruv.User(BELIEF, ruv.Record(row), ruv.Quadratic()), mask, files)
        assert float(found.mean()) == pytest.approx(mean[row], abs=1e-7)
        assert float(found.var()) == pytest.approx(cov[row, row], abs=1e-7)
        known = ruv.User(BELIEF, ruv.Record(row), ruv.Quadratic(), knows=second)
        assert float(ruv.posterior(known, first, files).mean()) == pytest.approx(mean[row], abs=1e-7)


def left_of(masks, n, k, spread, doubt):
    """Covariance of (mu, x_1, ..., x_n, new) given all releases, from one factor of it and of what is released."""
    channels, views, noises = [dense_channel(mask, n, k) for mask in masks], [], []
    for a, r, alive in channels:
        keep = np.flatnonzero(alive)
        views.append(np.hstack([np.zeros((len(keep), k)), a[keep], np.zeros((len(keep), k))]))
        noises.append(r[np.ix_(keep, keep)])
    factors = []
    for cov in (joint(n, spread, doubt), scipy.linalg.block_diag(*noises)):
        values, vectors = np.linalg.eigh(cov)
        factors.append(vectors * np.sqrt(np.where(values > 1e-13 * values.max(initial=0), values, 0.0)))
    _, singular, turned = np.linalg.svd(np.hstack([np.vstack(views) @ factors[0], factors[1]]), full_matrices=False)
    shown = factors[0] @ turned[singular > 1e-10 * singular.max()].T[: len(factors[0])]
    return factors[0] @ factors[0].T - shown @ shown.T


@pytest.mark.parametrize(
    ("n", "k", "masks"),
    [
        (5, 1, [ruv.Microaggregate(groups=1), ruv.Suppress(rows=[0, 2]) | ruv.Noise(sd=0.5)]),
        (5, 2, [ruv.Microaggregate(groups=2), ruv.Suppress(rows=[0, 2]) | ruv.Noise(sd=0.5)]),
        (5, 1, [ruv.Noise(sd=1, common=True) | ruv.Suppress(rows=[0, 1, 2, 3]) | ruv.Noise(sd=2), ruv.Noise(sd=0.2)]),
        (
            5,
            2,
            [
                ruv.Noise(sd=0.1, common=True) | ruv.Microaggregate(groups=[2, 1, 2, 0, 1]),
                ruv.Suppress(columns=[0]) | ruv.Suppress(rows=[0, 1, 4]),
            ],
        ),
        (
            2,
            3,
            [
                ruv.Noise(sd=0.1, common=True) | ruv.Microaggregate(groups=1, columns=[0]),
                ruv.Suppress(columns=[0, 2], rows=[0]),
            ],
        ),
    ],
    ids=str,
)
def test_numbers_that_two_releases_repeat(n, k, masks):
    """What one release tells exactly says nothing of the noise in the other, however the two are rotated."""
    rng = np.random.default_rng(k)
    spread, doubt = (x @ x.T + 0.3 * np.eye(k) for x in rng.normal(size=(2, k, k)))
    belief = ruv.NormalBelief(records=n, covariance=spread, prior_mean=np.zeros(k), prior_covariance=doubt)
    if k == 1:
        belief = ruv.NormalBelief(records=n, variance=spread.item(), prior_variance=doubt.item())
    left = left_of(masks, n, k, spread, doubt)
    average = np.kron(np.r_[0.0, np.full(n, 1 / n), 0.0], np.eye(k))
    for target, of in (
        (ruv.Parameter("mu"), np.eye(len(left))[:k]),
        (ruv.Record(0), np.eye(len(left))[k : 2 * k]),
        (ruv.Record(n - 1), np.eye(len(left))[n * k : (n + 1) * k]),
        (ruv.Average(), average),
    ):
        right = np.trace(of @ left @ of.T)
        for first, second in (masks, masks[::-1]):
            user = ruv.User(belief, target, ruv.Quadratic(), knows=second)
            after, before = solved(user, first)
            assert after[0] == pytest.approx(right, rel=1e-8, abs=1e-10)
            assert after[0] <= before + 1e-12


@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize(
    "other", [ruv.Noise(variance=1.0), ruv.Microaggregate(groups=2), ruv.Subsample(size=4)], ids=str
)
@pytest.mark.parametrize("target", [ruv.Record(0), ruv.Parameter("mu")], ids=str)
def test_a_sample_beside_another_release_is_an_average_over_who_is_in_it(other, target):
    belief = ruv.NormalBelief(records=5, variance=2.0, prior_variance=5.0)
    user = ruv.User(belief, target, ruv.Absolute())
    subsets = list(itertools.combinations(range(5), 2))
    each = [uncertainty(user, other & ruv.Release(rows=rows)) for rows in subsets]
    assert uncertainty(user, other & ruv.Subsample(size=2)) == pytest.approx(np.mean(each), rel=1e-9)


def test_a_sample_beside_changed_answers():
    for target in (ruv.Record(0), ruv.Parameter("theta")):
        user = ruv.User(COIN, target, ruv.Quadratic())
        each = [uncertainty(user, TOSS & ruv.Release(rows=rows)) for rows in itertools.combinations(range(3), 2)]
        assert uncertainty(user, TOSS & ruv.Subsample(size=2)) == pytest.approx(np.mean(each), rel=1e-12)


@pytest.mark.slow
def test_many_kinds_of_samples_are_drawn_with_an_error():
    belief = ruv.NormalBelief(records=40, variance=2.0, prior_variance=5.0)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    mask = ruv.Microaggregate(groups=10) & ruv.Subsample(size=20)
    rumap = ruv.evaluate([mask], intruder=user, scientist=user, seed=1)
    error = float(rumap.intruder.error[0])
    # A pair of unknown groups of four: the record is in the sample, or some of the three others are.
    ways = [(m, _hypergeometric(m)) for m in range(4)]
    expected = 0.5 * sum(p * _left(belief, m) for m, p in ways)
    assert 0 < error < 0.2
    assert abs(float(rumap.intruder_uncertainty[0]) - expected) < 5 * error + 0.02


def _hypergeometric(m):
    from scipy.stats import hypergeom

    return float(hypergeom(39, 3, 20).pmf(m))


def _left(belief, m):
    """U of a record that is not in the sample, m of whose group are."""
    rows = [*range(1, 1 + m), *range(10, 30 - m)]
    mask = ruv.Microaggregate(groups=10) & ruv.Release(rows=rows)
    return uncertainty(ruv.User(belief, ruv.Record(0), ruv.Quadratic()), mask)


def test_two_noisy_copies_of_one_number_are_one_with_less_noise():
    belief = ruv.FiniteBelief([0.0, 1.0, 2.5], [0.2, 0.5, 0.3])
    for loss in (ruv.Quadratic(), ruv.LogScore()):
        user = ruv.User(belief, ruv.Record(0), loss)
        both = uncertainty(user, ruv.Noise(variance=2.0) & ruv.Noise(variance=6.0))
        assert both == pytest.approx(uncertainty(user, ruv.Noise(variance=1.5)), rel=1e-8)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    cut, noise = ruv.Recode(bins=[-1, 0.5, 3]), ruv.Noise(variance=2.0)
    low, high = ruv.FiniteBelief([0.0], [1.0]), ruv.FiniteBelief([1.0, 2.5], [0.625, 0.375])
    each = [uncertainty(ruv.User(part, ruv.Record(0), ruv.Quadratic()), noise) for part in (low, high)]
    assert uncertainty(user, noise & cut) == pytest.approx(0.2 * each[0] + 0.8 * each[1], rel=1e-8)


# -- what follows from it ------------------------------------------------------------------------------------


def test_a_grid_with_knowledge_is_solved_as_its_members_are():
    user = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows=ruv.Release(rows=[1, 2, 3]))
    grid = [ruv.Noise(variance=v) for v in np.geomspace(0.1, 10, 50)]
    together, before = solved(user, *grid)
    assert together == pytest.approx([uncertainty(user, mask) for mask in grid], rel=1e-12)
    assert np.all(np.diff(together) > 0) and together[-1] < before


def test_relative_gain_of_nothing_is_nothing():
    for knows in (ruv.Noise(sd=1.0), ruv.Release(rows=[1]), ruv.Subsample(size=3)):
        for data in (None, X):
            user = ruv.User(BELIEF, ruv.Record(0), ruv.Linex(0.3), knows=knows)
            masks = [ruv.Suppress(), ruv.Noise(variance=1.0)]
            rumap = ruv.evaluate(
                masks, intruder=user, scientist=SCIENTIST, data=data, seed=2, replicates=20, risk="relative_gain"
            )
            assert rumap.risk[0] == 0 and rumap.risk[1] > 0


def test_with_data_what_is_known_is_drawn_once_per_replicate():
    """An own loss looks at where the posterior lies: the same knowledge must stand behind every mask."""
    user = ruv.User(BELIEF, ruv.Parameter("mu"), ruv.Linex(1.0), knows=ruv.Noise(sd=3.0))
    after, before = solved(user, ruv.Suppress(), ruv.Noise(variance=1e8), data=X, seed=4, replicates=5)
    assert before == after[0] == pytest.approx(after[1], rel=1e-6)
    assert before != solved(user, ruv.Suppress(), data=X, seed=5, replicates=5)[1] or user.loss.location_free


def test_the_informed_intruder_in_every_record():
    """Who knows all records but one learns of that one from its own noise and from the mean."""
    others = ruv.Release(rows=list(range(1, 7)))
    user = ruv.User(BELIEF, ruv.EachRecord(aggregate="max"), ruv.Quadratic(), knows=others)
    rumap = ruv.evaluate([ruv.Noise(variance=1.0)], intruder=user, scientist=SCIENTIST)
    assert rumap.intruder_uncertainty[0] == 0
    one = ruv.analyses.record_risk(
        [ruv.Noise(variance=1.0)], ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows=others)
    )
    spread = 2.0 + 1 / (1 / 5 + 6 / 2)
    assert one.uncertainty[0] == pytest.approx([spread / (1 + spread), *[0.0] * 6])


@pytest.mark.slow
def test_panels_and_users_who_doubt():
    knows = ruv.Release(rows=[1, 2])
    plain = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic())
    informed = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows=knows)
    panel = ruv.Panel([plain, informed], names=["plain", "informed"])
    rumap = ruv.evaluate([ruv.Noise(variance=2.0)], intruder=panel, scientist=SCIENTIST)
    frame = rumap.to_dataframe()
    assert frame["intruder[informed]_uncertainty"][0] == uncertainty(informed, ruv.Noise(variance=2.0))
    assert frame["intruder[plain]_uncertainty"][0] > frame["intruder[informed]_uncertainty"][0]
    options = {"truth": BELIEF, "knows": knows}
    assert uncertainty(ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), **options), ruv.Noise(variance=2.0)) == (
        pytest.approx(uncertainty(informed, ruv.Noise(variance=2.0)))
    )
    one = ruv.MaskPrior(masks=[ruv.Noise(variance=2.0)])
    dark = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows_mask=False, mask_prior=one, knows=knows)
    assert uncertainty(dark, ruv.Noise(variance=2.0), replicates=10) == pytest.approx(
        uncertainty(informed, ruv.Noise(variance=2.0))
    )
    vague = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows_mask=False, knows=ruv.Noise(variance=2.0))
    assert uncertainty(vague, ruv.Noise(variance=2.0), seed=1) < uncertainty(
        ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows=ruv.Noise(variance=2.0)), ruv.Suppress()
    )


def test_cells_of_a_table_that_are_known():
    table = ruv.TableBelief((2, 2), total=6)
    hidden, known = (
        ruv.SuppressCells([(0, 0), (0, 1)], margins=False),
        ruv.SuppressCells([(0, 0), (1, 1)], margins=False),
    )
    plain, informed = (ruv.User(table, ruv.Cell((0, 0)), ruv.Quadratic(), knows=k) for k in (None, known))
    assert uncertainty(informed, hidden) == uncertainty(plain, hidden & known) == 0  # margins and a cell beside it
    after, before = solved(informed, ruv.Suppress())
    assert after[0] == before == uncertainty(plain, known) > 0
    counts = np.array([[1, 2], [0, 3]])
    law = ruv.posterior(informed, ruv.Suppress(), publish(ruv.Suppress() & known, counts))
    assert float(law.mean()) == pytest.approx(2.0)  # two cells that are not known share four
    with pytest.raises(ruv.InputError, match="published together"):
        ruv.posterior(informed, ruv.Suppress(), counts)


def test_words():
    user = ruv.User(
        BELIEF, ruv.Record(0), ruv.Quadratic(), knows=ruv.Release(rows=[1, 2]) & ruv.Microaggregate(groups=1)
    )
    sentence = "What Release(rows=[1, 2]) & Microaggregate(groups=1) releases of the same records is already known."
    assert sentence in user.describe()
    rumap = ruv.evaluate([ruv.Noise(variance=1.0)], intruder=user, scientist=SCIENTIST)
    assert sentence in str(rumap.attrs["intruder"])


@pytest.mark.long
def test_calibrated():
    mask = ruv.Noise(variance=2.0) & ruv.Microaggregate(groups=2) & ruv.Subsample(size=2)
    assert ruv.calibrate(BELIEF, mask, ruv.Record(0), simulations=200, seed=1).passed
    assert ruv.calibrate(COIN, TOSS & ruv.Subsample(size=1), ruv.Parameter("theta"), simulations=200, seed=1).passed


def test_order_statistics_after_both():
    belief = ruv.NormalBelief(records=4, variance=2.0, prior_variance=5.0)
    user = ruv.User(belief, ruv.Maximum(), ruv.Quadratic())
    both = uncertainty(user, ruv.Noise(variance=2.0) & ruv.Noise(variance=6.0))
    assert both == pytest.approx(uncertainty(user, ruv.Noise(variance=1.5)), rel=1e-9)


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "mask", "words"),
    [
        (ruv.Snooper("mean", ruv.Average(), belief=BELIEF), "both", "a snooper's rule looks at one"),
        (ruv.User(BELIEF, ruv.Identity(0), ruv.ZeroOne()), "both", "which row is whose is asked of one"),
        (ruv.User(BELIEF, ruv.Identity(0), ruv.ZeroOne(), knows=TOSS), "one", "who already knows something"),
        (ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic()), "rounded", "no linear-Gaussian channel"),
        (ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic()), "shuffled", "which rows belong together is not known"),
        (ruv.User(COIN, ruv.Record(0), ruv.Quadratic()), "shuffled", "which rows belong together is not known"),
        (ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic()), "twice", "Use one Subsample"),
    ],
)
def test_what_has_no_answer_is_refused_by_name(user, mask, words):
    noise = ruv.Noise(variance=1.0)
    masks = {
        "one": noise,
        "both": noise & noise,
        "rounded": noise & ruv.Round(base=5),
        "shuffled": ruv.Release() & ruv.Shuffle(),
        "twice": noise & (ruv.Subsample(size=2) | ruv.Subsample(size=1)),
    }
    with pytest.raises(ruv.UnsupportedError, match=words):
        uncertainty(user, masks[mask])


def test_bad_input():
    with pytest.raises(ruv.InputError, match="knows must be a mask"):
        ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows=[1, 2])
    user = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic(), knows=ruv.Noise(variance=1.0))
    with pytest.raises(ruv.InputError, match="makes 2 releases"):
        ruv.posterior(user, ruv.Noise(variance=1.0), X)


def test_shuffled_beside_averages_of_all():
    user = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic())
    noisy = ruv.Shuffle() | ruv.Noise(variance=1.0)
    alone = uncertainty(user, noisy)
    assert uncertainty(user, noisy & ruv.Suppress()) == pytest.approx(alone)
    both = uncertainty(user, noisy & ruv.Microaggregate(groups=1))
    # E(x_J | both) is the average, which is known: what is left is the spread within the file.
    assert both == pytest.approx(2.0 * (1 - 1 / 7)) and both < alone


def test_frames_with_names():
    belief = ruv.NormalBelief(
        records=7, covariance=np.eye(2), prior_covariance=np.eye(2), prior_mean=[0, 0], columns=["a", "b"]
    )
    frame = pd.DataFrame({"a": X, "b": X[::-1]})
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic(), knows=ruv.Release(columns=["b"]))
    masks = [ruv.Suppress(), ruv.Noise(variance=1.0, columns=["a"]), ruv.Release(columns=["a"])]
    after, before = solved(user, *masks, data=frame)
    assert before == after[0] > after[1] > after[2] == 0


def test_engines_asked_directly_and_calibration_know_it_too():
    belief = ruv.NormalBelief(records=3, variance=2.0, prior_mean=0.5, prior_variance=5.0)
    mask, known = ruv.Noise(variance=1.5), ruv.Release(rows=[1])
    release = (mask & known).release(np.array([[0.3], [2.1], [-1.0]]), 1)
    plain, informed = (ruv.User(belief, ruv.Record(0), ruv.Quadratic(), knows=k) for k in (None, known))
    found, right = ruv.Exact().posterior(informed, mask, release), ruv.Exact().posterior(plain, mask & known, release)
    assert float(found.mean()) == pytest.approx(float(right.mean()), rel=1e-12)
    assert float(found.var()) == pytest.approx(float(right.var()), rel=1e-12)
    assert float(found.var()) < float(ruv.Exact().posterior(plain, mask, release[0]).var())
    assert ruv.calibrate(belief, mask, ruv.Record(0), 40, knows=known, seed=1).passed
    with pytest.raises(ruv.InputError, match="knows"):
        ruv.calibrate(belief, mask, ruv.Record(0), 40, knows="all", seed=1)
