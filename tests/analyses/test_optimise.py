"""The best mask of families: exact, averaged over common random numbers, and noisy objectives."""

import zlib
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision.analyses.optimise import MaskFamily, Optimum, Search, optimise
from ruvdecision.analyses.optimise.families import UnitBox, as_families
from ruvdecision.analyses.optimise.objective import Candidate, Evaluator, MapEvaluator, Objective
from ruvdecision.analyses.optimise.search import run_in_lockstep, search_exactly
from ruvdecision.analyses.optimise.surface import has_jumps
from ruvdecision.beliefs import NormalBelief
from ruvdecision.errors import InfeasibleError, InputError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, Quadratic
from ruvdecision.maps.rumap import RUMap
from ruvdecision.masks import Microaggregate, Noise, Release, Shuffle, Suppress
from ruvdecision.measure import measure
from ruvdecision.measures import NormalKL, RecordLinkage
from ruvdecision.protocols import Value
from ruvdecision.targets import Parameter, Record
from ruvdecision.users.user import User

AVERAGE = Microaggregate(groups=1)
BELIEF = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
USERS = {"intruder": User(BELIEF, Record(0), Quadratic()), "scientist": User(BELIEF, Parameter("mu"), Quadratic())}
TWO = NormalBelief(
    records=20, covariance=[[1, 0.3], [0.3, 2]], prior_mean=[0, 0], prior_covariance=[[2, 0.5], [0.5, 3]]
)
PAIR = {"intruder": User(TWO, Record(0), Quadratic()), "scientist": User(TWO, Parameter("mu"), Quadratic())}


def noisy_average(variance):
    return Noise(variance=variance) | AVERAGE


def two_columns(a, b):
    return Noise(variance=[a, b]) | AVERAGE


def rough(users, size):
    """The exact map with errors that jump from mask to mask, as a sampler's do."""

    def by(masks):
        exact = evaluate(masks, **users)
        keys = [zlib.crc32(repr(m.numbers).encode()) for m in masks]
        z = np.array([np.random.default_rng(k).standard_normal(2) for k in keys])
        values = [
            Value(u * (1 + size * z[:, j]), size * u)
            for j, u in enumerate((exact.intruder_uncertainty, exact.scientist_uncertainty))
        ]
        return RUMap.build(masks=masks, intruder=values[0], scientist=values[1])

    return by


# -- exact ---------------------------------------------------------------------------------------------


def test_example_1_of_trottini_and_fienberg():
    best = optimise(noisy_average, max_risk=0.5, **USERS)
    assert best.parameters["variance"] == pytest.approx(2.08, rel=1e-10)
    assert best.utility == pytest.approx(2.650980392, rel=1e-9)
    assert (best.method, best.risk_error, best.utility_error, best.meets, best.binding) == (
        "exact",
        0.0,
        0.0,
        1.0,
        ("max_risk",),
    )
    assert not any(best.parameters_error.values())
    # The same through a map, where nothing is known but risk and utility.
    mapped = optimise(noisy_average, max_risk=0.5, evaluator=lambda masks: evaluate(masks, **USERS))
    assert mapped.method == "exact"
    assert mapped.parameters["variance"] == pytest.approx(2.08, rel=1e-9)


@settings(deadline=None, max_examples=25)
@given(st.floats(0.15, 0.55), st.floats(0.5, 4), st.integers(2, 40))
def test_nothing_on_a_fine_grid_is_better(limit, variance, records):
    belief = NormalBelief(records=records, variance=variance, prior_variance=5)
    users = {"intruder": User(belief, Record(0), Quadratic()), "scientist": User(belief, Parameter("mu"), Quadratic())}
    grid = evaluate([Suppress(), *(noisy_average(float(v)) for v in np.geomspace(1e-4, 1e6, 100))], **users)
    if grid.risk.min() > limit:
        with pytest.raises(InfeasibleError):
            optimise(noisy_average, max_risk=limit, **users)
        return
    best = optimise(noisy_average, max_risk=limit, **users)
    assert best.risk <= limit * (1 + 1e-9)
    assert best.utility >= grid.choose(limit).utility * (1 - 1e-9)


def test_several_parameters_beat_a_grid():
    best = optimise(two_columns, max_risk=0.32, **PAIR)
    grid = np.r_[0, np.geomspace(0.01, 1e4, 30)]
    rumap = evaluate([two_columns(float(a), float(b)) for a in grid for b in grid], **PAIR)
    assert best.risk <= 0.32 * (1 + 1e-9)
    assert best.utility >= rumap.choose(0.32).utility
    mapped = optimise(
        two_columns, max_risk=0.32, evaluator=lambda masks: evaluate(masks, **PAIR), search=Search(starts=2)
    )
    assert mapped.utility == pytest.approx(best.utility, rel=1e-6)


@pytest.mark.long
def test_a_wide_range_does_not_hide_a_small_optimum():
    """Noise of rank one: the direction is an angle, the size lies five decades below its bound."""

    def family(angle, size):
        u = np.array([np.cos(angle), np.sin(angle)])
        return Noise(covariance=size * np.outer(u, u)) | AVERAGE

    narrow = optimise(MaskFamily(family, angle=(0.0, np.pi), size=(0.0, 50.0)), max_risk=0.32, **PAIR)
    wide = optimise(MaskFamily(family, angle=(0.0, np.pi), size=(0.0, 1e6)), max_risk=0.32, **PAIR)
    assert wide.utility == pytest.approx(narrow.utility, rel=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.floats(0, 1), st.floats(-5, 5), st.floats(1e-3, 1e6), st.floats(1e-6, 0.5))
def test_coordinates_go_there_and_back(t, low, width, share):
    for high, scale in ((low + width, share * width), (np.inf, width)):
        box = UnitBox([(low, high)], [scale])
        value = box.values(np.array([t]))
        assert low <= value[0] <= high
        if np.isfinite(value[0]) and value[0] - low > 1e-9 * abs(low):
            assert box.coordinates(value)[0] == pytest.approx(t, rel=1e-5, abs=1e-9)
    assert UnitBox([(low, low + width)], [share * width]).values(np.array([0.5]))[0] == pytest.approx(
        low + share * width, rel=1e-9, abs=1e-9
    )


# -- families and listed values ------------------------------------------------------------------------


def test_the_best_of_several_families():
    families = {
        "noise": lambda variance: Noise(variance=variance),
        "noisy average": noisy_average,
        "nothing": Suppress(),
    }
    best = optimise(families, max_risk=0.5, **USERS)
    each = {k: optimise(f, max_risk=0.5, **USERS).utility for k, f in list(families.items())[:2]}
    assert best.family == max(each, key=each.get)
    assert best.utility == pytest.approx(max(each.values()), rel=1e-9)
    assert best.contenders[0].family == best.family
    assert {c.family for c in best.contenders} == set(families)
    table = best.to_dataframe()
    assert table["utility"].is_monotonic_decreasing
    assert f"Best of {best.family}" in str(best)
    assert "the next family is" in str(best)
    # One that cannot meet the threshold does not cost the others.
    some = optimise([Release(), noisy_average], max_risk=0.5, **USERS)
    assert some.family == "noisy_average"
    assert some.contenders[1].optimum is None
    assert "No mask of the family" in some.to_dataframe()["remark"][1]
    with pytest.raises(InfeasibleError, match="any family"):
        optimise({"all": Release(), "mean": AVERAGE}, max_risk=0.2, **USERS)


def test_listed_values_are_tried_one_by_one():
    family = lambda variance, groups: Noise(variance=variance) | Microaggregate(groups=groups)  # noqa: E731
    best = optimise(MaskFamily(family, groups=range(1, 6)), max_risk=0.5, **USERS)
    each = {
        g: optimise(MaskFamily(lambda variance, g=g: family(variance, g), variance=(0, np.inf)), max_risk=0.5, **USERS)
        for g in range(1, 6)
    }
    winner = max(each, key=lambda g: each[g].utility)
    assert best.parameters["groups"] == winner
    assert best.utility == pytest.approx(each[winner].utility, rel=1e-9)
    only = optimise(MaskFamily(lambda groups: Microaggregate(groups=groups), groups={1, 2, 5}), max_risk=0.7, **USERS)
    rumap = evaluate([Microaggregate(groups=g) for g in (1, 2, 5)], **USERS)
    assert only.release == rumap.choose(0.7).release
    with pytest.raises(InfeasibleError, match="No mask of the family"):
        optimise(MaskFamily(lambda groups: Microaggregate(groups=groups), groups={1, 2, 5}), max_risk=0.1, **USERS)


def test_every_family_has_its_own_bounds():
    narrow = MaskFamily(lambda variance: Noise(variance=variance), variance=(1, 2))
    found, several = as_families({"a": narrow, "b": noisy_average})
    assert several
    assert found["a"][0].box == ((1.0, 2.0),)
    assert found["b"][0].box == ((0.0, np.inf),)


# -- averaged over common random numbers ---------------------------------------------------------------


@pytest.mark.long
def test_averages_are_solved_exactly_and_carry_their_error():
    intruder = User(BELIEF, Record(0), Absolute())
    settings = {
        "intruder": intruder,
        "scientist": USERS["scientist"],
        "replicates": 3,
        "max_risk": 0.9,
    }
    family = lambda variance: Noise(variance=variance) | Shuffle()  # noqa: E731
    best = optimise(MaskFamily(family, variance=(0.1, 30)), **settings)
    assert best.method == "exact"
    assert best.risk == pytest.approx(0.9, rel=1e-9)
    assert best.risk_error > 0
    assert best.meets == pytest.approx(0.5, abs=1e-6)
    # The parameter's error is the risk's error over the slope there.
    v = best.parameters["variance"]
    near = evaluate(
        [family(v * 0.98), family(v * 1.02)], intruder=intruder, scientist=USERS["scientist"], replicates=3, seed=0
    )
    slope = np.diff(near.intruder_uncertainty)[0] / (0.04 * v)
    error = evaluate([family(v)], intruder=intruder, scientist=USERS["scientist"], replicates=3, seed=0)[
        0
    ].intruder_error
    assert best.parameters_error["variance"] == pytest.approx(error / slope, rel=0.35)
    sure = optimise(MaskFamily(family, variance=(0.1, 30)), confidence=0.9, **settings)
    assert sure.risk < best.risk
    assert sure.meets == pytest.approx(0.9, abs=1e-6)  # Student's t with two degrees of freedom


# -- noisy ---------------------------------------------------------------------------------------------


def test_roughness_is_seen():
    part = MaskFamily(noisy_average, variance=(0.1, 20)).parts("noise")[0]
    assert has_jumps(Objective(part, MapEvaluator(rough(USERS, 0.01), 0.5)))
    assert not has_jumps(Objective(part, MapEvaluator(lambda masks: evaluate(masks, **USERS), 0.5)))


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("seed", [0, 2])
def test_a_noisy_optimum_lies_within_its_error(seed):
    best = optimise(noisy_average, evaluator=rough(USERS, 0.01), max_risk=0.5, seed=seed)
    assert best.method == "surface"
    assert best.risk <= 0.5
    assert best.evaluations < 110
    assert 0.05 < best.parameters_error["variance"] < 0.5
    assert abs(best.parameters["variance"] - 2.08) < 3 * best.parameters_error["variance"]
    true = evaluate([best.mask], **USERS)
    assert abs(true.utility[0] - 2.651) < 3 * 0.25 * 2.651 * 0.1 + 3 * best.utility_error
    again = optimise(noisy_average, evaluator=rough(USERS, 0.01), max_risk=0.5, seed=seed)
    assert again == best


@pytest.mark.slow
def test_noise_in_two_parameters_finds_the_edge():
    exact = optimise(two_columns, max_risk=0.32, **PAIR)
    best = optimise(two_columns, evaluator=rough(PAIR, 0.005), max_risk=0.32)
    true = evaluate([best.mask], **PAIR)
    assert true.utility[0] == pytest.approx(exact.utility, rel=0.03)
    assert true.risk[0] <= 0.32 * (1 + 3 * 0.005)


def test_confidence_keeps_a_noisy_choice_away_from_the_threshold():
    best = optimise(noisy_average, evaluator=rough(USERS, 0.01), max_risk=0.5, confidence=0.95)
    assert best.meets >= 0.95
    assert evaluate([best.mask], **USERS).risk[0] < 0.5
    assert best.risk + 1.6 * best.risk_error <= 0.5


@pytest.mark.long
def test_measures_are_optimised_too():
    data = np.random.default_rng(1).multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 60)
    by = lambda masks: measure(data, masks, measures=[RecordLinkage(), NormalKL()], replicates=2, seed=3)  # noqa: E731
    best = optimise(
        MaskFamily(lambda sd: Noise(sd=sd), sd=(0.01, 2)), evaluator=by, max_risk=0.1, search=Search(evaluations=30)
    )
    assert best.risk <= 0.1
    grid = by([Noise(sd=float(s)) for s in np.linspace(0.05, 2, 25)])
    assert best.utility >= 0.9 * grid.choose(0.1).utility


def test_a_budget_is_kept():
    calls = []

    def by(masks):
        calls.append(len(masks))
        return rough(USERS, 0.02)(masks)

    best = optimise(
        MaskFamily(noisy_average, variance=(0.1, 20)), evaluator=by, max_risk=0.5, search=Search(evaluations=20)
    )
    assert best.evaluations <= 20 + 12 + 10 + 1  # the search, the last steps inside, the look at roughness
    assert sum(calls) == best.evaluations + 1


def test_what_did_not_converge_is_never_chosen():
    def by(masks):
        exact = evaluate(masks, **USERS)
        good = [m.numbers[0] > 3 for m in masks]
        values = (exact.intruder_uncertainty, exact.scientist_uncertainty)
        return RUMap.build(masks=masks, intruder=values[0], scientist=values[1], columns={"intruder_converged": good})

    best = optimise(MaskFamily(noisy_average, variance=(0.5, 20)), evaluator=by, max_risk=0.5, search=Search("exact"))
    assert best.parameters["variance"] >= 3
    assert best.unconverged > 0
    assert "did not converge" in str(best)
    with pytest.raises(InfeasibleError, match="has converged"):
        optimise(MaskFamily(noisy_average, variance=(0.5, 2)), evaluator=by, max_risk=0.5, search=Search("exact"))


# -- bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: {"intruder": None}, "intruder"),
        (lambda: {"evaluator": lambda masks: 3}, "instead of users"),
        (lambda: {"search": Search("grid")}, "'auto', 'exact', 'surface'"),
        (lambda: {"search": "exact"}, "must be a Search"),
        (lambda: {"confidence": 1.0}, "confidence"),
        (lambda: {"confidence": 0.2}, "confidence"),
        (lambda: {"search": Search(evaluations=3)}, "evaluations"),
        (lambda: {"search": Search(starts=0)}, "starts"),
        (lambda: {"search": Search("exact", evaluations=50)}, "what surfaces may ask for"),
        (lambda: {"family": MaskFamily(noisy_average, variance=(2, 1))}, "must rise"),
        (lambda: {"family": MaskFamily(noisy_average, variance=3)}, "pair"),
        (lambda: {"family": MaskFamily(noisy_average, variance=range(0))}, "no value"),
        (lambda: {"family": MaskFamily(noisy_average, sd=(0, 1))}, "does not have"),
        (lambda: {"executor": None}, "no such argument"),
        (lambda: {"max_risk": -1}, "more than 0"),
        (lambda: {"max_risk": "low"}, "max_risk"),
    ],
)
def test_what_cannot_be_searched(bad, message):
    with pytest.raises(InputError, match=message):
        optimise(**{"family": noisy_average, "max_risk": 0.5, **USERS, **bad()})


def test_families_that_are_none():
    for family, message in (
        ([], "no family"),
        (3, "callable"),
        (lambda: AVERAGE, "at least one parameter"),
        (lambda variance: 3, "must be a Mask"),
    ):
        with pytest.raises(InputError, match=message):
            optimise(family, max_risk=0.5, **USERS)
    with pytest.raises(InputError, match="evaluator and risk"):
        optimise(noisy_average, evaluator=lambda masks: evaluate(masks, **USERS), risk="gain", max_risk=0.5)
    with pytest.raises(InputError, match="one release per mask"):
        optimise(noisy_average, evaluator=lambda masks: evaluate(masks[:1], **USERS), max_risk=0.5)
    assert Optimum.__dataclass_params__.frozen


# -- searches that run in step -------------------------------------------------------------------------------


class Known(Evaluator):
    """A safety of a + b and a loss of a^2 + 2 b^2, which under a + b >= 3 is least at (2, 1)."""

    required, positive, calls = 3.0, True, 0

    def safety_and_loss(self, masks):
        self.calls += 1
        a, b = np.array([np.ravel(mask.numbers) for mask in masks]).T
        nothing = np.zeros(len(masks))
        return Value(a + b, nothing), Value(a**2 + 2 * b**2, nothing), np.ones(len(masks), dtype=bool)


def test_an_optimum_inside_the_box_is_found_to_rounding_in_few_calls():
    family = MaskFamily(lambda a, b: Noise(variance=[a, b]), a=(0.0, 10.0), b=(0.0, 10.0))
    evaluator = Known(1.0)
    objective = Objective(family.parts("noise")[0], evaluator)
    best = objective.best(search_exactly(objective, 8, np.random.SeedSequence(1)))
    assert best.loss == pytest.approx(6.0, rel=1e-12)
    # Along the threshold the loss is 6 + 3 d^2: what lies within 1e-12 of it lies within d = 1.5e-6, and the machine's
    # rounding says which of these is the least.
    assert best.values == pytest.approx((2.0, 1.0), abs=1.5e-6)
    assert sum(best.values) == pytest.approx(3.0, rel=1e-11)
    # Nine descents and five parabolas of seven roots each, one after the other, would ask some five hundred times.
    assert evaluator.calls < 120


def test_searches_in_step_ask_together_and_end_alone():
    batches = []

    def ask(values):
        batches.append(values.ravel().tolist())
        return [Candidate((v,), v, -v) for v in values.ravel()]

    def search(ask, start, steps):
        return [ask(np.array([[start + k]]))[0].safety for k in range(steps)]

    found = run_in_lockstep(ask, [partial(search, start=10.0 * i, steps=i) for i in range(4)])
    assert found == [[], [10.0], [20.0, 21.0], [30.0, 31.0, 32.0]]
    assert batches == [[10.0, 20.0, 30.0], [21.0, 31.0], [32.0]]


@pytest.mark.parametrize("error", [InputError("what", "got", "do"), KeyboardInterrupt()])
def test_searches_in_step_all_end_with_an_error(error):
    def ask(values):
        raise error

    with pytest.raises(type(error)):
        run_in_lockstep(ask, [lambda one: one(np.zeros((1, 1))) for _ in range(3)])
    with pytest.raises(ZeroDivisionError):
        run_in_lockstep(
            lambda values: [Candidate((0.0,), 0, 0)] * len(values),
            [lambda one: one(np.zeros((1, 1))), lambda one: 1 / 0],
        )


@pytest.mark.parametrize("top", [1e10, 1e160, 1.7e308])
def test_a_range_as_wide_as_floats_are(top):
    """Hundreds of halvings: a search of a hundred steps ended in scipy's own error."""
    best = optimise(MaskFamily(Noise, sd=(1.0, top)), max_risk=0.35, **USERS)
    narrow = optimise(MaskFamily(Noise, sd=(1.0, 100.0)), max_risk=0.35, **USERS)
    assert best.risk == pytest.approx(0.35, rel=1e-9)
    assert best.parameters["sd"] == pytest.approx(narrow.parameters["sd"], rel=1e-9)
