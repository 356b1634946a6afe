"""The limit: no mask passes it, its own mechanism reaches it, and other ways to compute it agree."""

import matplotlib as mpl
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from hypothesis import given, settings, strategies as st

mpl.use("Agg")
import matplotlib.pyplot as plt

from ruvdecision.analyses.limit import limit, programme
from ruvdecision.analyses.limit.estimates import UserOverFiles
from ruvdecision.analyses.limit.mixtures import Mixtures
from ruvdecision.analyses.limit.programme import Programme, TwoUsers
from ruvdecision.beliefs import FiniteBelief, NormalBelief, TableBelief
from ruvdecision.channels.steps import FileFacts
from ruvdecision.engines.finite.whole_file import WholeFile
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, Huber, LogScore, Quadratic, ZeroOne
from ruvdecision.masks import Microaggregate, Noise, Release, Shuffle, Stochastic, Suppress, SuppressCells
from ruvdecision.masks.mechanism import Combine, Mechanism, SeparateRows
from ruvdecision.targets import Average, Functional, Identity, NewRecord, Parameter, Record, Records
from ruvdecision.users.user import Snooper, User

LOSSES = [ZeroOne(), Absolute(), Quadratic()]
AVERAGE = Microaggregate(groups=1)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def random_study(seed, losses=(None, None), size=None):
    """A random finite study: a state, outcomes, one or two records, two targets, two losses."""
    rng = np.random.default_rng(seed)
    states, outcomes = rng.integers(2, 5), int(size or rng.integers(2, 6))
    belief = FiniteBelief(
        np.sort(rng.normal(size=states)).round(3).tolist(),
        probabilities=rng.dirichlet(np.ones(states)),
        likelihood=rng.dirichlet(np.ones(outcomes), size=states),
        outcomes=np.arange(outcomes) * rng.uniform(0.5, 2),
        records=int(rng.integers(1, 3)),
    )
    loss = [LOSSES[rng.integers(3)] if x is None else x for x in losses]
    scientist = Parameter("theta") if rng.random() < 0.7 else Average()
    return User(belief, Record(0), loss[0]), User(belief, scientist, loss[1]), rng


def bounds(intruder, scientist, count=6):
    """Bounds on minus U between releasing everything and nothing."""
    ends = evaluate(
        [Release(), Suppress()], intruder=intruder, scientist=scientist, risk="negative", utility="negative"
    )
    return np.linspace(*ends.risk, count)


def random_masks(belief, rng):
    size = len(belief.levels)
    masks = [Release(), Suppress(), Suppress(rows=[0]), Shuffle()]
    for _ in range(3):
        outputs = int(rng.integers(2, size + 3))
        masks.append(
            Stochastic(rng.dirichlet(np.full(outputs, rng.uniform(0.1, 1)), size=size), outputs=list(range(outputs)))
        )
    stay = rng.uniform(0.2, 0.9)
    masks.append(Stochastic(stay * np.eye(size) + (1 - stay) / size))
    return masks


@pytest.mark.slow
@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_no_mask_beats_the_limit(seed):
    intruder, scientist, rng = random_study(seed)
    rumap = evaluate(
        random_masks(intruder.belief, rng), intruder=intruder, scientist=scientist, risk="negative", utility="negative"
    )
    best = limit(intruder, scientist, rumap.risk, risk="negative", utility="negative")
    assert best.certain
    assert (rumap.utility <= best.utility + 1e-8).all()
    assert (best.gap <= 1e-7).all()


@pytest.mark.slow
@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_the_limit_is_reached_by_its_mechanism_and_is_convex(seed):
    intruder, scientist, _ = random_study(seed)
    best = limit(intruder, scientist, bounds(intruder, scientist), risk="negative", utility="negative")
    masks = list(dict.fromkeys(best.mechanisms))
    rumap = evaluate(
        masks, intruder=intruder, scientist=scientist, engine=WholeFile(), risk="negative", utility="negative"
    )
    where = [masks.index(m) for m in best.mechanisms]
    assert np.allclose(rumap.scientist_uncertainty[where], best.scientist_uncertainty, rtol=0, atol=1e-7)
    assert (rumap.intruder_uncertainty[where] >= best.least - 1e-8).all()
    if intruder.belief.records == 1:
        plain = evaluate(masks, intruder=intruder, scientist=scientist, risk="negative", utility="negative")
        assert np.allclose(plain.scientist_uncertainty, rumap.scientist_uncertainty, rtol=0, atol=1e-12)
    order = np.argsort(best.least)
    u, s = best.least[order], best.scientist_uncertainty[order]
    assert (np.diff(s) >= -1e-8).all()  # more protection never helps the scientist
    slopes = np.diff(s) / np.maximum(np.diff(u), 1e-12)
    assert (np.diff(slopes[np.diff(u) > 1e-6]) >= -1e-5).all()
    ends = evaluate(
        [Release(), Suppress()], intruder=intruder, scientist=scientist, risk="negative", utility="negative"
    )
    assert s[0] == pytest.approx(ends.scientist_uncertainty[0], abs=1e-8)
    assert s[-1] <= ends.scientist_uncertainty[1] + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_qif(seed):
    """qif lists the outputs and guesses that it may use; the same loss functions on the same states."""
    mechanism = pytest.importorskip("qif").mechanism
    rng = np.random.default_rng(seed)
    size = 5
    prior = rng.dirichlet(np.ones(size))
    values = np.sort(rng.normal(size=size))
    belief = FiniteBelief(values, probabilities=prior)
    intruder = User(belief, Record(0), ZeroOne() if seed % 2 else Absolute())
    scientist = User(belief, Record(0), Quadratic(), estimates="target")
    hide = (lambda w, x: float(w != x)) if seed % 2 else (lambda w, x: float(abs(values[w] - values[x])))
    best = limit(intruder, scientist, 0.0, risk="negative", utility="negative")
    for share in (0.3, 0.7, 0.95):
        least = best.after[0] + share * (best.before[0] - best.after[0])
        ours = limit(intruder, scientist, -least, risk="negative", utility="negative").scientist_uncertainty[0]
        square = lambda w, x: float((values[w] - values[x]) ** 2)  # noqa: E731
        matrix = np.asarray(mechanism.l_risk.min_loss_given_min_risk(prior, size, size, least, hide, square))
        theirs = float(np.sum(prior[:, None] * matrix * (values[:, None] - values[None, :]) ** 2))
        assert ours == pytest.approx(theirs, abs=1e-7)


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize(("first", "second"), [(Quadratic(), ZeroOne()), (Quadratic(), Absolute())])
def test_column_generation_agrees_with_the_whole_programme(first, second):
    for seed in range(4):
        intruder, scientist, rng = random_study(seed, (first, second), size=4)
        size = 5
        chance = rng.dirichlet(np.ones(size))
        values = [rng.normal(size=4), rng.normal(size=3)]
        joints = [chance[:, None] * rng.dirichlet(np.ones(len(v)), size=size) for v in values]
        study = TwoUsers(*map(UserOverFiles, (intruder, scientist), values, joints))
        assert Mixtures.is_applicable(study)
        low, high = study.after[0], study.before[0]
        for share in (0.2, 0.6, 0.9):
            a, b = (kind(study).solve(low + share * (high - low)) for kind in (Mixtures, Programme))
            assert a.scientist == pytest.approx(b.scientist, abs=2e-8)
            assert a.bound == pytest.approx(b.bound, abs=2e-8)


def test_two_squared_errors_against_brute_force():
    """Two files: every output is one share, so a fine grid of outputs and a linear programme is a second way."""
    belief = FiniteBelief([0.0, 1.0], likelihood=[[0.8, 0.2], [0.3, 0.7]], probabilities=[0.4, 0.6])
    intruder, scientist = User(belief, Record(0), Quadratic()), User(belief, Parameter("theta"), LogScore())
    law = belief.law * belief.prior[:, None]
    chance, given = law.sum(axis=0), law / law.sum(axis=0)
    share = np.linspace(0, 1, 4001)
    theta = share * given[1, 0] + (1 - share) * given[1, 1]
    entropy = -(theta * np.log(theta) + (1 - theta) * np.log(1 - theta))
    for least in (0.05, 0.15, 0.22):
        found = scipy.optimize.linprog(
            entropy, A_ub=-(share * (1 - share))[None], b_ub=[-least], A_eq=np.array([share, 1 - share]), b_eq=chance
        )
        ours = limit(intruder, scientist, 1 / least).scientist_uncertainty[0]
        assert ours == pytest.approx(found.fun, abs=1e-7)
        assert ours <= found.fun + 1e-9


@pytest.mark.slow
@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("loss", [Huber(0.5), LogScore()])
def test_losses_with_a_continuum_of_estimates_say_their_gap(loss):
    belief = FiniteBelief([0.0, 1.0, 2.5], likelihood=[[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]])
    intruder, scientist = User(belief, Record(0), ZeroOne()), User(belief, Parameter("theta"), loss)
    best = limit(intruder, scientist, [2.0, 1.8])
    assert best.certain
    assert (best.gap < 0.05 * best.before[1]).all()  # cells of a continuum close in slowly, and say so
    masks = [m for m in best.mechanisms if m is not None]
    rumap = evaluate(masks, intruder=intruder, scientist=scientist)
    assert np.allclose(rumap.scientist_uncertainty, best.reached[1], atol=1e-9)
    assert (rumap.risk <= best.max_risk + 1e-8).all()


@pytest.mark.slow
def test_users_who_differ_in_their_beliefs():
    outcomes = [0.0, 1.0, 2.0]
    one = FiniteBelief(
        [0, 1], probabilities=[0.3, 0.7], likelihood=[[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], outcomes=outcomes
    )
    two = FiniteBelief(
        [0, 1], probabilities=[0.6, 0.4], likelihood=[[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], outcomes=outcomes
    )
    for loss in (Quadratic(), ZeroOne()):
        intruder, scientist = User(one, Record(0), loss), User(two, Parameter("theta"), Quadratic())
        rng = np.random.default_rng(5)
        masks = [Stochastic(rng.dirichlet(np.ones(3), size=3)) for _ in range(30)]
        rumap = evaluate(masks, intruder=intruder, scientist=scientist)
        best = limit(intruder, scientist, rumap.risk)
        assert (rumap.utility <= best.utility * (1 + 1e-8)).all()
        again = evaluate(list(dict.fromkeys(best.mechanisms)), intruder=intruder, scientist=scientist)
        assert np.allclose(np.sort(np.unique(again.utility.round(6))), np.unique(best.utility.round(6)), rtol=1e-5)


@pytest.mark.parametrize("records", [25, pytest.param(150, marks=pytest.mark.long)])
def test_many_records_and_several_hundred_files(records):
    coin = FiniteBelief([0.2, 0.5, 0.8], likelihood=[[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]], records=records)
    intruder, scientist = User(coin, Record(0), Quadratic()), User(coin, Parameter("theta"), Quadratic())
    best = limit(intruder, scientist, [4.1, 4.5])
    # Files of many records whose posteriors agree to the last digit count as one kind.
    kinds = int(best.notes[0].split()[0])
    assert "kinds of files" in best.notes[0] and (kinds == 50 if records == 25 else 100 < kinds <= 300)
    rumap = evaluate(list(best.mechanisms), intruder=intruder, scientist=scientist, engine=WholeFile())
    assert np.allclose(rumap.utility, best.utility, rtol=1e-6)
    assert (rumap.risk <= best.max_risk + 1e-7).all()


@pytest.mark.slow
def test_tables_of_counts():
    belief = TableBelief((2, 2), total=6, margins={(0,): [4, 2]})
    cell = Functional(lambda t: t[0], of=Records(), name="the first cell")
    intruder, scientist = User(belief, cell, ZeroOne()), User(belief, Records(), Quadratic())
    best = limit(intruder, scientist, [1.5, 2.0])
    assert (best.gap < 1e-7).all()
    assert best.mechanisms == (None, None)
    assert best.matrices[0].shape[0] == 15  # five first rows times three second rows
    with pytest.raises(UnsupportedError, match="no mask"):
        best.mechanism(1.5)


# -- normal beliefs ----------------------------------------------------------------------------------------


def example_1():
    belief = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    return User(belief, Record(0), Quadratic()), User(belief, Parameter("mu"), Quadratic())


def test_trottini_fienberg_example_1_lies_on_or_inside():
    intruder, scientist = example_1()
    grid = np.geomspace(0.02, 500, 40)
    on = evaluate([AVERAGE, *(Noise(variance=v) | AVERAGE for v in grid)], intruder=intruder, scientist=scientist)
    same = limit(intruder, scientist, on.risk, statistic="average")
    assert np.allclose(
        same.utility, on.utility, rtol=1e-10
    )  # noise on the average is optimal for what sees the average
    others = evaluate([Noise(variance=v) for v in grid], intruder=intruder, scientist=scientist)
    for rumap in (on, others):
        assert (rumap.utility <= limit(intruder, scientist, rumap.risk).utility * (1 + 1e-12)).all()
    best = limit(intruder, scientist, 0.5, statistic="average")
    assert best.utility[0] == pytest.approx(2.650980392, abs=5e-10)  # FORMULAS section 2
    assert best.mechanism(0.5).covariance == ((pytest.approx(0.208),),)  # noise variance 2.08 over ten records


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("statistic", ["records", "average"])
def test_normal_mechanism_reaches_the_limit(statistic):
    belief = NormalBelief(
        records=7, covariance=[[4, 1], [1, 3]], prior_mean=[1, 2], prior_covariance=[[5, 0.5], [0.5, 6]]
    )
    pairs = [
        (Record(3), Parameter("mu")),
        (Functional(lambda a, b: a[0] - 2 * b[1], of=[Record(0), Record(5)]), Parameter("mu")),
        (NewRecord(), Parameter("mu", component=1)),
    ]
    for one, two in pairs:
        size = 1 if isinstance(one, Functional) else 2
        intruder = User(belief, one, Quadratic([1, 3] if size == 2 else 1))
        scientist = User(belief, two, Quadratic([[2, 0.3], [0.3, 5]] if getattr(two, "component", None) is None else 2))
        best = limit(intruder, scientist, statistic=statistic)
        masks = list(dict.fromkeys(best.mechanisms))
        rumap = evaluate(masks, intruder=intruder, scientist=scientist)
        where = [masks.index(m) for m in best.mechanisms]
        assert np.allclose(rumap.scientist_uncertainty[where], best.scientist_uncertainty, rtol=1e-8)
        assert np.allclose(
            np.maximum(rumap.intruder_uncertainty[where], best.least), rumap.intruder_uncertainty[where], rtol=1e-8
        )


def test_rank_one_solution_of_formulas_3d():
    """K = h v v' along the smallest generalised eigenvector of (Q, W), and the axis value of FORMULAS is a little worse."""
    spread, doubt, n = np.array([[4, 1.5], [1.5, 3]]), np.array([[5, 1], [1, 2.0]]), 20
    w, z = np.diag([1.0, 3.0]), np.array([[2.0, 0.4], [0.4, 1.0]])
    belief = NormalBelief(records=n, covariance=spread, prior_covariance=doubt)
    intruder, scientist = User(belief, Record(0), Quadratic(w)), User(belief, Parameter("mu"), Quadratic(z))
    a = doubt + spread / n
    q = np.linalg.solve(a, doubt) @ z @ np.linalg.solve(a, doubt).T
    value, vector = scipy.linalg.eigh(q, w)
    least_i, least_s = np.trace(w @ spread) * (1 - 1 / n), np.trace(z @ (doubt - doubt @ np.linalg.solve(a, doubt)))
    v = vector[:, 0]
    room = (v @ w @ v) / (v @ np.linalg.solve(a, v))  # K <= A
    for share in (0.1, 0.5, 0.99):
        best = limit(intruder, scientist, 1 / (least_i + share * room), statistic="average")
        assert best.scientist_uncertainty[0] == pytest.approx(least_s + value[0] * share * room, rel=1e-9)
        assert best.scientist_uncertainty[0] <= least_s + min(np.diag(q) / np.diag(w)) * share * room + 1e-12


@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_normal_closed_form_against_search_over_noise_covariances(share):
    belief = NormalBelief(records=6, covariance=[[4, 1.5], [1.5, 3]], prior_covariance=[[5, 1], [1, 2]])
    intruder, scientist = User(belief, Record(0), Quadratic([1, 3])), User(belief, Parameter("mu"), Quadratic([2, 1]))
    whole = limit(intruder, scientist, statistic="average")
    least = whole.after[0] + share * (whole.before[0] - whole.after[0])
    best = limit(intruder, scientist, 1 / least, statistic="average").scientist_uncertainty[0]

    # Noise of variances v1 and v2 along two rotated axes; v2 is what the risk bound needs (FORMULAS section 3).
    spread, doubt, n = belief.record_covariance, belief.mu_covariance, 6
    a = doubt + spread / n
    angle, first = (v.ravel() for v in np.meshgrid(np.linspace(0, np.pi, 181), np.r_[0, np.geomspace(1e-3, 1e9, 80)]))
    turn = np.stack([np.stack([np.cos(angle), -np.sin(angle)], -1), np.stack([np.sin(angle), np.cos(angle)], -1)], -2)

    def both(second):
        noise = np.einsum("gij,gj,gkj->gik", turn, np.stack([first, second], -1), turn)
        inverse = np.linalg.inv(a + noise / n)
        return (
            np.einsum("ij,gji->g", np.diag([1.0, 3.0]), doubt + spread - a @ inverse @ a),
            np.einsum("ij,gji->g", np.diag([2.0, 1.0]), doubt - doubt @ inverse @ doubt),
        )

    low, high = np.full(len(angle), -12.0), np.full(len(angle), 9.0)
    for _ in range(50):
        middle = (low + high) / 2
        enough = both(10**middle)[0] >= least
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    u = both(10**high)
    found = float(np.min(np.where(u[0] >= least - 1e-9, u[1], np.inf)))
    assert best <= found + 1e-7
    assert found == pytest.approx(best, rel=0.005)  # the search comes near, never past


def test_normal_closed_form_against_a_discretised_programme():
    """One dimension: the posterior mean of mu and of the record are the average; cut the average into cells."""
    intruder, scientist = example_1()
    sd, n = np.sqrt(5 + 2 / 10), 61
    z = np.linspace(-4, 4, n)
    chance = np.exp(-(z**2) / 2)
    average = FiniteBelief(sd * z, probabilities=chance / chance.sum())
    gain = 5 / 5.2
    first = User(average, Record(0), Quadratic())
    second = User(average, Functional(lambda x: gain * x, of=Record(0)), Quadratic())
    exact = limit(intruder, scientist, [0.5, 0.3, 0.2], statistic="average")
    rest_i, rest_s = exact.after
    programme = limit(first, second, 1 / (1 / exact.max_risk - rest_i))
    assert np.allclose(programme.scientist_uncertainty + rest_s, exact.scientist_uncertainty, rtol=5e-3)


@pytest.mark.long
def test_other_losses_under_a_normal_belief_are_cut_into_cells():
    belief = NormalBelief(records=10, variance=2, prior_variance=5)
    intruder, scientist = User(belief, Record(0), Absolute()), User(belief, Parameter("mu"), Quadratic())
    on = evaluate([Noise(variance=v) | AVERAGE for v in (10.0,)], intruder=intruder, scientist=scientist)
    best = limit(intruder, scientist, on.risk, statistic="average", states=31)
    assert any("cells (31 in each of 1 directions)" in note for note in best.notes)
    # Normal noise is not best against the absolute error, but cells of the average come close to it from above.
    assert (best.utility >= 0.97 * on.utility).all()
    assert best.mechanisms[0] is None


# -- the masks ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_mechanism_releases_and_is_inverted():
    coin = FiniteBelief([0.3, 0.7], likelihood=[[0.7, 0.3], [0.3, 0.7]], records=3)
    user = User(coin, Record(1), Quadratic())
    rng = np.random.default_rng(2)
    mask = Mechanism(rng.dirichlet(np.ones(3), size=6), outputs=[0.1, 0.5, 0.9], outcomes=[0, 1], records=3, rows=[1])
    shown = [mask.release([0.0, 1.0, 1.0], seed)[0] for seed in range(4000)]
    step = mask.steps(FileFacts(3, (0,)), np.empty((1, 0)))[0]
    row = step.matrix[step.index_of(np.array([0, 1, 1]))]
    counts = np.array([np.mean(np.isclose(shown, v)) for v in mask.outputs])
    assert np.all(np.abs(counts - row) < 4 * np.sqrt(row * (1 - row) / 4000))
    # Bayes' rule by listing all eight files.
    files = np.array(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij")).reshape(3, -1).T
    weight = sum(p * np.prod(law[files], axis=1) for p, law in zip(coin.prior, coin.law, strict=True))
    table = step.matrix[[step.index_of(f) for f in files]]
    u = 0.0
    for o in range(3):
        joint = weight * table[:, o]
        m = joint @ files[:, 1] / joint.sum()
        u += joint @ (files[:, 1] - m) ** 2
        released = np.full(3, mask.outputs[o])
        assert WholeFile().posterior(user, mask, released).mean() == pytest.approx(m)
    assert WholeFile().solve(user, [mask]).uncertainty[0] == pytest.approx(u)
    with_data = WholeFile().solve(user, [mask], data=[0.0, 1.0, 1.0]).uncertainty[0]
    assert with_data > 0
    assert str(mask) == "Mechanism(6 files, 3 outputs)"


@pytest.mark.long
def test_combine_releases_what_its_channel_says():
    mask = SeparateRows(rows=[2]) | Combine([[1, 0.5], [0, 1]], [[0.5, 0.2], [0.2, 0.3]], rows=[2])
    data = np.array([1.0, 2.0, 10.0, 6.0])
    shown = np.array([mask.release(data, seed) for seed in range(4000)])
    assert np.allclose(shown[:, 0], shown[:, 3])
    pair = shown[:, [2, 0]]
    assert np.all(np.abs(pair.mean(axis=0) - [11.5, 3.0]) < 4 * np.sqrt([0.5, 0.3]) / np.sqrt(4000))
    assert np.allclose(np.cov(pair.T), [[0.5, 0.2], [0.2, 0.3]], atol=0.05)


# -- users who already know something ----------------------------------------------------------------------


def test_an_intruder_who_knows_all_others():
    """Their mean costs nothing to tell; then it is one number, and U of both is linear in what is left of it."""
    n, s, f = 7, 2.0, 5.0
    belief = NormalBelief(records=n, variance=s, prior_mean=1.0, prior_variance=f)
    intruder = User(belief, Record(0), Quadratic(), knows=Release(rows=range(1, n)))
    scientist = User(belief, Parameter("mu"), Quadratic())
    others = 1 / (1 / f + (n - 1) / s)
    own = s + others
    share = np.array([1.0, 0.7, 0.4, 0.01])
    best = limit(intruder, scientist, 1 / (share * own))
    assert best.before == (pytest.approx(own), pytest.approx(f))
    assert best.scientist_uncertainty == pytest.approx((1 / (1 / f + n / s)) * (1 - share) + others * share, rel=1e-7)
    rumap = evaluate(list(best.mechanisms), intruder=intruder, scientist=scientist)
    assert rumap.scientist_uncertainty == pytest.approx(best.reached[1], rel=1e-8)
    assert rumap.intruder_uncertainty == pytest.approx(share * own, rel=1e-6)
    assert np.unique(rumap.before[0]) == pytest.approx(own)


def test_knowledge_that_both_users_have_is_another_prior():
    belief = NormalBelief(records=6, variance=2.0, prior_mean=1.0, prior_variance=5.0)
    later = NormalBelief(records=4, variance=2.0, prior_mean=1.0, prior_variance=1 / (1 / 5.0 + 2 / 2.0))
    for statistic in ("records", "average"):
        pair = [User(belief, t, Quadratic(), knows=Release(rows=[4, 5])) for t in (Record(0), Parameter("mu"))]
        plain = [User(later, t, Quadratic()) for t in (Record(0), Parameter("mu"))]
        best = limit(*pair, statistic=statistic)
        same = limit(*plain, best.max_risk, statistic=statistic)
        if statistic == "records":
            assert best.utility == pytest.approx(same.utility, rel=1e-7)
        rumap = evaluate(list(dict.fromkeys(best.mechanisms)), intruder=pair[0], scientist=pair[1])
        assert np.unique(rumap.utility.round(8)) == pytest.approx(np.unique(best.utility.round(8)))
    absolute = User(belief, Parameter("mu"), Absolute(), knows=Release(rows=[4, 5]))
    start = limit(pair[0], absolute, 0.01).before  # no bound is met: nothing is solved
    assert start == pytest.approx((best.before[0], np.sqrt(2 * best.before[1] / np.pi)), rel=0.03)  # in cells


@pytest.mark.parametrize(
    "known",
    [Release(rows=[1, 2]), AVERAGE, Noise(variance=1.0), Noise(variance=2.0) | Microaggregate(groups=2)],
    ids=str,
)
def test_no_mask_beats_the_limit_beside_what_the_intruder_knows(known):
    belief = NormalBelief(records=6, variance=2.0, prior_mean=1.0, prior_variance=5.0)
    intruder = User(belief, Record(0), Quadratic(), knows=known)
    scientist = User(belief, Parameter("mu"), Quadratic())
    masks = [Suppress(), Release(), AVERAGE, Suppress(rows=[0]), Microaggregate(groups=3)]
    masks += [
        m
        for v in (0.3, 2.0, 9.0)
        for m in (Noise(variance=v), Noise(variance=v) | AVERAGE, Noise(variance=v, common=True))
    ]
    masks += [Noise(variance=v) & Release(rows=[1, 2]) for v in (0.3, 2.0, 9.0)]
    rumap = evaluate(masks, intruder=intruder, scientist=scientist)
    best = limit(intruder, scientist, np.unique(rumap.risk[np.isfinite(rumap.risk)]))
    assert best.certain and (best.gap < 1e-6 * best.before[1]).all()
    there = np.isfinite(rumap.risk)
    bound = best.utility[np.searchsorted(best.max_risk, rumap.risk[there])]
    assert (rumap.utility[there] <= bound * (1 + 1e-6)).all()
    again = evaluate(list(dict.fromkeys(best.mechanisms)), intruder=intruder, scientist=scientist)
    assert (np.sort(again.risk) <= best.max_risk.max() * (1 + 1e-6)).all()
    assert np.unique(best.reached[1].round(6)) == pytest.approx(
        np.unique(again.scientist_uncertainty.round(6)), abs=1e-6
    )


@pytest.mark.parametrize("known", [Release(rows=[1]), Stochastic([[0.9, 0.1], [0.3, 0.7]])], ids=str)
def test_finite_knowledge_by_a_programme_that_lists_all(known):
    """Two records of two kinds: an output per estimate of the scientist, a bound per output, thing known and guess."""
    belief = FiniteBelief([0.2, 0.9], [0.4, 0.6], likelihood=[[0.7, 0.3], [0.25, 0.75]], outcomes=[0, 1], records=2)
    intruder = User(belief, Record(0), ZeroOne(), knows=known)
    scientist = User(belief, Parameter("theta"), ZeroOne())
    kernel = np.eye(2) if known == Release(rows=[1]) else np.array(known.matrix)
    first = np.ones((2, 1)) if known == Release(rows=[1]) else kernel  # what is known of record 0
    files = [(i, j) for i in (0, 1) for j in (0, 1)]
    chance = np.array([[p * belief.law[s, i] * belief.law[s, j] for s, p in enumerate(belief.prior)] for i, j in files])
    things = [(a, b) for a in range(first.shape[1]) for b in (0, 1)]
    weight = np.array([[first[i, a] * kernel[j, b] for a, b in things] for i, j in files]) * chance.sum(axis=1)[:, None]
    # C[x, b] for 4 files and 2 outputs, then v[b, thing].
    cost = np.concatenate([(chance.sum(axis=1)[:, None] - chance).reshape(-1), np.zeros(2 * len(things))])
    upper = []
    for b in (0, 1):
        for t in range(len(things)):
            for guess in (0, 1):
                row = np.zeros(len(cost))
                for x, (i, _) in enumerate(files):
                    row[2 * x + b] = -weight[x, t] * (i != guess)
                row[8 + b * len(things) + t] = 1.0
                upper.append(row)
    equal = np.zeros((4, len(cost)))
    for x in range(4):
        equal[x, 2 * x : 2 * x + 2] = 1.0
    before = evaluate([Suppress()], intruder=intruder, scientist=scientist).before[0][0]
    for share in (0.2, 0.6, 0.95):
        best = limit(intruder, scientist, -share * before, risk="negative", utility="negative")
        assert best.before[0] == pytest.approx(before, rel=1e-12)
        risk = np.concatenate([np.zeros(8), -np.ones(2 * len(things))])
        bounds = [(0, 1)] * 8 + [(None, None)] * (2 * len(things))
        found = scipy.optimize.linprog(
            cost,
            A_ub=[*upper, risk],
            b_ub=[*np.zeros(len(upper)), -share * before],
            A_eq=equal,
            b_eq=np.ones(4),
            bounds=bounds,
        )
        assert best.certain
        assert best.scientist_uncertainty[0] == pytest.approx(found.fun, abs=1e-7)


def test_a_scientist_who_knows_a_record_and_an_intruder_who_does_not():
    belief = FiniteBelief([0.2, 0.9], [0.4, 0.6], likelihood=[[0.7, 0.3], [0.25, 0.75]], outcomes=[0, 1], records=2)
    for loss in (Quadratic(), ZeroOne(), LogScore()):
        intruder = User(belief, Record(0), Quadratic())
        scientist = User(belief, Parameter("theta"), loss, knows=Release(rows=[1]))
        rng = np.random.default_rng(3)
        masks = [
            Suppress(),
            Release(),
            *(Stochastic(rng.dirichlet(np.ones(2), size=2), outputs=[0, 1]) for _ in range(8)),
        ]
        rumap = evaluate(masks, intruder=intruder, scientist=scientist, risk="negative", utility="negative")
        best = limit(intruder, scientist, rumap.risk, risk="negative", utility="negative")
        assert best.certain and (best.gap < 1e-6).all()
        assert (rumap.utility <= best.utility + 1e-8).all()
        assert best.before[1] == pytest.approx(rumap.before[1][0])
        assert best.after == pytest.approx((rumap.intruder_uncertainty[1], rumap.scientist_uncertainty[1]), abs=1e-9)


def test_a_table_of_which_a_margin_is_known():
    belief = TableBelief((2, 2), total=6)
    cell = Functional(lambda t: t[0], of=Records(), name="the first cell")
    known = SuppressCells([(0, 0), (0, 1), (1, 0), (1, 1)], margins=[(0,)])
    intruder, scientist = User(belief, cell, ZeroOne(), knows=known), User(belief, cell, Quadratic())
    shown = [
        SuppressCells([(0, 0), (1, 1)], margins=[]),
        SuppressCells([(0, 0), (0, 1), (1, 0), (1, 1)], margins=[(1,)]),
    ]
    rumap = evaluate(shown, intruder=intruder, scientist=scientist, risk="negative", utility="negative")
    best = limit(intruder, scientist, rumap.risk, risk="negative", utility="negative")
    assert best.before[0] == pytest.approx(rumap.before[0][0])
    assert (rumap.utility <= best.utility + 1e-8).all()


def test_knowledge_that_is_refused():
    intruder, scientist = example_1()
    knows = lambda user, mask: User(user.belief, user.target, user.loss, knows=mask)  # noqa: E731
    with pytest.raises(UnsupportedError, match="scientist who knows nothing"):
        limit(intruder, knows(scientist, AVERAGE))
    with pytest.raises(UnsupportedError, match="squared errors"):
        limit(User(intruder.belief, Record(0), Absolute(), knows=AVERAGE), scientist)
    with pytest.raises(UnsupportedError, match="whose row is whose"):
        limit(knows(intruder, Shuffle()), scientist)
    coin = FiniteBelief([0, 1], likelihood=[[0.8, 0.2], [0.3, 0.7]], records=2)
    with pytest.raises(UnsupportedError, match="named rows"):
        limit(User(coin, Record(0), ZeroOne(), knows=Noise(sd=1.0)), User(coin, Parameter("theta"), ZeroOne()))


def test_rows_apart_are_still_released_beside_another_release():
    """A step that names no columns drops none, in a release of several too."""
    intruder, _ = example_1()
    for mask in (
        SeparateRows(rows=[0]) | Noise(variance=1.0),
        SeparateRows(rows=[0]) | Combine(np.eye(2), np.eye(2), rows=[0]),
    ):
        alone, beside = evaluate([mask, mask & Suppress()], intruder=intruder, scientist=intruder).intruder_uncertainty
        assert alone == pytest.approx(beside, rel=1e-12)


# -- the object and its errors -----------------------------------------------------------------------------


def test_limit_object():
    intruder, scientist = example_1()
    best = limit(intruder, scientist, [0.1, 0.3, 0.5])
    assert np.isnan(best.utility[0])  # safer than releasing nothing
    assert best.mechanisms[0] is None
    assert "1 of the bounds" in best.notes[-1]
    table = best.to_dataframe()
    assert list(table["max_risk"]) == [0.1, 0.3, 0.5]
    assert repr(best).startswith("Limit(3 bounds: utility at most")
    with pytest.raises(UnsupportedError, match="No mechanism meets"):
        best.mechanism(0.1)
    with pytest.raises(InputError, match="one of the bounds"):
        best.mechanism(0.4)
    rumap = evaluate([Noise(variance=2.08) | AVERAGE, Suppress()], intruder=intruder, scientist=scientist)
    short = best.shortfall(rumap)
    assert (short["share"] <= 1 + 1e-12).all()
    assert short["limit"][0] == pytest.approx(best.utility[2], rel=1e-9)
    assert limit(intruder, scientist, np.inf).utility[0] == pytest.approx(1 / best.after[1])


def test_plots():
    intruder, scientist = example_1()
    rumap = evaluate(
        [Suppress(), *(Noise(variance=v) | AVERAGE for v in (0.5, 1, 2, 5))], intruder=intruder, scientist=scientist
    )
    best = limit(intruder, scientist, np.linspace(0.15, 0.6, 12))
    ax = rumap.plot(max_risk=0.5, limit=best)
    (line,) = [x for x in ax.lines if str(x.get_label()).startswith("limit")]
    assert np.allclose(line.get_xdata(), best.utility)
    assert ax.get_xlim()[1] >= best.utility.max()
    assert len(best.plot().lines) == 1
    with pytest.raises(InputError, match="alike"):
        rumap.plot(limit=limit(intruder, scientist, risk="gain"))
    with pytest.raises(InputError, match="must be a Limit"):
        rumap.plot(limit=3)
    if getattr(rumap, "users", None) is None:
        with pytest.raises(InputError, match="does not hold its users"):
            rumap.plot(limit=True)
    else:
        assert any(str(x.get_label()).startswith("limit") for x in rumap.plot(limit=True).lines)


def test_bad_input():
    intruder, scientist = example_1()
    with pytest.raises(InputError, match="must be a User"):
        limit(Snooper("mean", Average()), scientist)
    with pytest.raises(InputError, match="statistic"):
        limit(intruder, scientist, statistic="median")
    with pytest.raises(InputError, match="max_risk"):
        limit(intruder, scientist, [0.1, np.nan])
    with pytest.raises(UnsupportedError, match="same one"):
        limit(intruder, User(NormalBelief(records=10, variance=2, prior_variance=6), Parameter("mu"), Quadratic()))
    flat = NormalBelief(records=10, variance=2, prior="flat")
    with pytest.raises(UnsupportedError, match="flat prior"):
        limit(User(flat, Record(0), Quadratic()), User(flat, Parameter("mu"), Quadratic()))
    with pytest.raises(UnsupportedError, match="Identity"):
        limit(User(intruder.belief, Identity(0), ZeroOne()), scientist)
    with pytest.raises(UnsupportedError, match="kind of belief"):
        limit(User(FiniteBelief([0, 1]), Record(0), ZeroOne()), scientist)
    many = FiniteBelief([0, 1], likelihood=np.full((2, 6), 1 / 6), records=40)
    with pytest.raises(UnsupportedError, match="different files"):
        limit(User(many, Record(0), ZeroOne()), User(many, Parameter("theta"), ZeroOne()))
    one, two = FiniteBelief([0, 1]), FiniteBelief([0, 1, 2])
    with pytest.raises(InputError, match="same file"):
        limit(User(one, Record(0), ZeroOne()), User(two, Record(0), ZeroOne()))
    with pytest.raises(InputError, match="rows, one per file"):
        Mechanism([[1.0]], outputs=[0], outcomes=[0, 1], records=2)
    with pytest.raises(InputError, match="no row for"):
        Mechanism([[1.0], [1.0]], outputs=[0], outcomes=[0, 1], records=1).release([7.0], 1)


@pytest.mark.slow
def test_files_too_improbable_for_the_solver_still_give_an_output():
    """Cells 4.5 standard deviations out: without an output of their own they would make U of all others too small."""
    belief = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    scientist = User(belief, Parameter("mu"), Absolute())
    best = limit(User(belief, Record(0), Quadratic()), scientist, [0.5, 0.8], states=49)
    assert all(np.allclose(matrix.sum(axis=1), 1.0) for matrix in best.matrices)
    assert np.all(best.scientist_uncertainty >= best.after[1])
    assert best.utility == pytest.approx([2.336422, 2.576900], rel=1e-6)


def test_rounding_leaves_no_uncertainty_below_zero():
    """The released record is known to the last digit but one: U was -4e-16, and the limit refused it."""
    belief = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    intruder = User(belief, Record(0), Quadratic(), knows=Release(rows=[3]))
    found = limit(intruder, User(belief, Parameter("mu"), Quadratic()), [0.3, 0.4], progress=False)
    assert found.after[0] == pytest.approx(0, abs=1e-12) and found.after[0] >= 0
    assert np.allclose(found.reached_risk, [0.3, 0.4]) and found.gap.max() < 1e-8


@pytest.mark.parametrize("most", [10_000_000, pytest.param(None, marks=pytest.mark.slow)])
def test_a_search_that_closes_slowly_ends_after_a_stated_number_of_steps(most, monkeypatch):
    """The best mechanism has a continuum of outputs: cells were split, and programmes grew, without an end."""
    most = programme.MOST_WORK if most is None else most
    monkeypatch.setattr(programme, "MOST_WORK", most)
    solve, works = programme.linprog, []

    def counted(cost, **parts):
        found = solve(cost, **parts)
        works.append(found.nit * len(cost))
        return found

    monkeypatch.setattr(programme, "linprog", counted)
    belief = NormalBelief(records=3, variance=1, prior_mean=0, prior_variance=5)
    intruder, scientist = User(belief, Record(0), Absolute()), User(belief, Record(0), Quadratic())
    best = limit(intruder, scientist, max_risk=1.0, progress=False)
    assert 0 < sum(works) < 2 * most
    assert f"at 1 of the risk bounds the search ended for its length ({most:,} steps times unknowns)" in best.notes[1]
    assert best.certain and best.gap[0] > 1e-6
    assert best.reached_risk[0] <= 1.0 + 1e-9
    # The limit of the continuum, between .9965 and 1.0009 by finer cells, lies between bound and mechanism.
    assert best.scientist_uncertainty[0] <= 1.0009 and best.reached[1][0] >= 0.9965


def test_a_programme_that_takes_too_many_steps_is_refused(monkeypatch):
    monkeypatch.setattr(programme, "MOST_WORK_AT_ONCE", 100)
    belief = FiniteBelief([0, 1, 2, 3])
    intruder = User(belief, Record(0), ZeroOne())
    with pytest.raises(RuvError, match="takes too many steps; got more than"):
        limit(intruder, User(belief, Record(0), Absolute()), max_risk=[1.5], progress=False)


@pytest.mark.parametrize("most", [0, 20_000, 200_000, 2_000_000])
def test_risk_bounds_that_share_their_work_have_the_limit_between_bound_and_mechanism(most, monkeypatch):
    """25 default bounds took five minutes: now one programme's line and one bound's mechanism serve the others."""
    belief = FiniteBelief(np.arange(8.0))
    intruder = User(belief, Record(0), Absolute())
    scientist = User(belief, Functional(lambda x: (x - 2) ** 2, of=Record(0)), Quadratic())
    risks = np.linspace(0.52, 2.5, 8)
    one_by_one = [limit(intruder, scientist, risk, progress=False) for risk in risks]
    exact = np.array([float(one.scientist_uncertainty[0]) for one in one_by_one])
    assert max(float(one.gap[0]) for one in one_by_one) < 1e-7
    monkeypatch.setattr(programme, "MOST_WORK_FOR_ALL", most)
    together = limit(intruder, scientist, risks, progress=False)
    met = ~np.isnan(exact)
    assert met.sum() >= 5 and together.certain
    assert np.all(together.scientist_uncertainty[met] <= exact[met] + 1e-8)
    assert np.all(together.reached[1][met] >= exact[met] - 1e-8)
    assert np.all(together.reached_risk[met] <= risks[met] * (1 + 1e-8))
    for matrix, kept, left in zip(together.matrices, *together.reached, strict=True):
        if matrix is not None:
            assert np.allclose(matrix.sum(axis=1), 1) and matrix.min() >= 0 and kept >= 0 and left >= 0
    if most >= 2_000_000:
        assert together.gap[met].max() < 1e-4
    else:
        assert "for that of all bounds" in together.notes[1]
