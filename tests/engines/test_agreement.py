"""Every engine that takes a case gives the same answer, and "auto" gives it too.

A case is one question asked in several ways: users and masks that must come to the same uncertainty. Each way goes to
"auto" and to every engine that does not refuse it, and all answers are compared in pairs. Answers without an error
agree to 1e-9, the others within five of their errors.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import special

import ruvdecision as ruv
from ruvdecision.engines import Identification, Ranks, WholeFile
from ruvdecision.engines.rules.fixed_rule import FixedRule

# PyMC and its libraries speak about their own future when a builder imports them.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

ENGINES: dict[str, Any] = {
    "exact": ruv.Exact(),
    "enumeration": ruv.Enumeration(),
    "whole file": WholeFile(),
    "ranks": Ranks(),
    "identification": Identification(),
    "rule": FixedRule(),
    "rule, exact": FixedRule("exact"),
    "rule, simulated": FixedRule("simulate"),
    "quadrature": ruv.Quadrature(),
    "sampling": ruv.Sampling(draws=1000, tune=400, chains=2),
}
NORMAL, RANKED = ("exact",), ("ranks",)
FINITE, TABLED = ("enumeration",), ("enumeration",)
ERRORS = 5.0
EXACT = 1e-9


@dataclass(frozen=True)
class Case:
    """Ways to ask one question, each a user and a mask. ``engines`` are those that take the first way."""

    ways: list[tuple[Any, Any]]
    engines: tuple[str, ...]
    data: Any = None
    replicates: int | None = None
    slow: bool = field(default=False, kw_only=True)


Answers = dict[str, tuple[float, float]]


def taking(way: tuple[Any, Any], data: Any = None) -> list[str]:
    """Names of the engines that do not refuse."""
    user, mask = way
    return [name for name, engine in ENGINES.items() if engine.refuses(user, [mask], data) is None]


def answers(case: Case, seed: int = 3) -> Answers:
    """Uncertainty and error of every way by every engine that takes it."""
    found = {}
    for i, (user, mask) in enumerate(case.ways):
        options = {"data": case.data, "replicates": case.replicates}
        root = seed + (i if case.data is None else 0)  # ways that look at data see the same releases of them
        rumap = ruv.evaluate([mask], intruder=user, scientist=user, seed=root, **options)
        found[f"{i} auto"] = (float(rumap.intruder_uncertainty[0]), float(rumap.intruder.error[0]))
        for name in taking((user, mask), case.data):
            solution = ENGINES[name].solve(user, [mask], seed=np.random.SeedSequence(root), **options)
            found[f"{i} {name}"] = (float(solution.uncertainty[0]), float(solution.error[0]))
    return found


def compare(found: Answers) -> Counter[tuple[str, str]]:
    """Count the pairs of engines that were compared; fail on all that do not agree."""
    pairs: Counter[tuple[str, str]] = Counter()
    wrong = []
    for one, other in itertools.combinations(found, 2):
        (a, first), (b, second) = found[one], found[other]
        pairs[tuple(sorted((one[2:], other[2:])))] += 1
        allowed = ERRORS * np.hypot(first, second) + EXACT * max(abs(a), abs(b))
        if a != b and not abs(a - b) <= allowed:
            wrong.append(f"{one}: {a:.12g} ± {first:.2g}, {other}: {b:.12g} ± {second:.2g}")
    assert not wrong, "; ".join(wrong)
    return pairs


# -- normal records ------------------------------------------------------------------------------------------

ONE = ruv.NormalBelief(records=4, variance=2, prior_mean=1, prior_variance=5)
SPREAD, DOUBT = np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([[4.0, 0.5], [0.5, 2.0]])
TWO = ruv.NormalBelief(records=4, covariance=SPREAD, prior_mean=[0, 1], prior_covariance=DOUBT)
LONE = ruv.NormalBelief(records=1, variance=2, prior_mean=1, prior_variance=5)
FLAT = ruv.NormalBelief(records=4, variance=2, prior="flat")
NOISE = ruv.Noise(variance=1.5)
AVERAGE = ruv.Microaggregate(groups=1)


def square(estimate: Any, truth: Any) -> Any:
    return (estimate - truth) ** 2


def twice(x: Any) -> Any:
    return 2 * x


SQUARE = ruv.CustomLoss(square)
TARGETS = {
    "record": ruv.Record(1),
    "mean": ruv.Parameter("mu"),
    "new record": ruv.NewRecord(),
    "average": ruv.Average(),
}
LOSSES = {
    "squared": ruv.Quadratic(),
    "absolute": ruv.Absolute(),
    "window": ruv.ZeroOne(tolerance=0.4),
    "log": ruv.LogScore(),
    "pinball": ruv.Pinball(0.3),
    "huber": ruv.Huber(1.0),
    "crps": ruv.CRPS(),
}
MASKS = {
    "release": ruv.Release(),
    "nothing": ruv.Suppress(),
    "rows left out": ruv.Suppress(rows=[1, 2]),
    "noise": NOISE,
    "noisy average": NOISE | AVERAGE,
    "pairs": ruv.Microaggregate(groups=2),
    "sample": ruv.Subsample(size=2),
}


def doubtful(user: Any, mask: Any) -> list[tuple[Any, Any]]:
    """The same user, told that the truth is what he believes, or that the mask is one of one."""
    belief, target, loss = user.belief, user.target, user.loss
    return [
        (user, mask),
        (ruv.User(belief, target, loss, truth=belief), mask),
        (ruv.User(belief, target, loss, knows_mask=False, mask_prior=ruv.MaskPrior(masks=[mask])), mask),
    ]


def normal_cases() -> dict[str, Case]:
    cases = {}
    for (aim, target), (cost, loss), (how, mask) in itertools.product(TARGETS.items(), LOSSES.items(), MASKS.items()):
        if (len(aim) + len(cost) + len(how)) % 3 == 0:  # a third of them, spread over all
            cases[f"one variable, {aim}, {cost}, {how}"] = Case([(ruv.User(ONE, target, loss), mask)], NORMAL)
    for aim, target in TARGETS.items():
        for cost in ("squared", "absolute", "log"):
            for how in ("noise", "noisy average", "rows left out"):
                user = ruv.User(TWO, target, LOSSES[cost])
                cases[f"two variables, {aim}, {cost}, {how}"] = Case([(user, MASKS[how])], NORMAL)
    for aim in ("record", "mean"):
        user = ruv.User(ONE, TARGETS[aim], ruv.Absolute())
        cases[f"doubts about nothing, {aim}"] = Case(doubtful(user, NOISE), NORMAL, replicates=20)
    record = ruv.User(ONE, ruv.Record(0), ruv.Absolute())
    cases["each of one record"] = Case(
        [
            (ruv.User(ONE, ruv.EachRecord(rows=[0]), ruv.Absolute()), NOISE),
            (ruv.User(ONE, ruv.EachRecord(aggregate="mean"), ruv.Absolute()), NOISE),
            (record, NOISE),
            (record, ruv.Noise(variance=1.0) | ruv.Noise(variance=0.5)),
        ],
        NORMAL,
    )
    cases["noise told by its size"] = Case([(record, ruv.Noise(sd=1.2)), (record, ruv.Noise(variance=1.44))], NORMAL)
    half = ruv.Absolute(weights=0.5)
    cases["twice a record"] = Case(
        [(ruv.User(ONE, ruv.Functional([[2.0]], of=ruv.Record(0)), half), NOISE), (record, NOISE)], NORMAL
    )
    cases["a loss of one's own"] = Case(
        [(ruv.User(ONE, ruv.Record(0), SQUARE), NOISE), (ruv.User(ONE, ruv.Record(0), ruv.Quadratic()), NOISE)], NORMAL
    )
    cases["rows in unknown order without noise, log"] = Case(
        [(ruv.User(ONE, ruv.Record(0), ruv.LogScore()), ruv.Shuffle())], NORMAL
    )
    cases["rows in unknown order"] = Case(
        [
            (ruv.User(ONE, ruv.Record(0), ruv.Quadratic()), NOISE | ruv.Shuffle()),
            (ruv.User(ONE, ruv.Record(0), ruv.Quadratic()), ruv.Shuffle() | NOISE),
            (ruv.User(ONE, ruv.Record(0), SQUARE), NOISE | ruv.Shuffle()),
        ],
        NORMAL,
        slow=True,
    )
    return cases


def knowing_cases() -> dict[str, Case]:
    """Two releases, and what a user already knows: the same question asked as one or the other."""
    cases = {}
    known = ruv.Release(rows=[0, 2])
    pairs = {
        "noise twice": (NOISE, ruv.Noise(variance=4.0)),
        "noise and average": (NOISE, AVERAGE),
        "noise and records": (NOISE, known),
        "average and records": (ruv.Noise(variance=1.0) | AVERAGE, known),
    }
    for (how, (first, second)), (aim, target) in itertools.product(pairs.items(), TARGETS.items()):
        for belief, size in ((ONE, "one variable"), (TWO, "two variables")):
            user = ruv.User(belief, target, ruv.Quadratic())
            informed = ruv.User(belief, target, ruv.Quadratic(), knows=second)
            ways = [(user, first & second), (user, second & first), (informed, first)]
            cases[f"{size}, {aim}, {how}"] = Case(ways, NORMAL)
    user = ruv.User(COIN, ruv.Record(0), ruv.Quadratic())
    change, other = ruv.Stochastic(TOSS), ruv.Release(rows=[1])
    informed = ruv.User(COIN, ruv.Record(0), ruv.Quadratic(), knows=other)
    cases["coin, changed answers and a record"] = Case([(user, change & other), (informed, change)], FINITE)
    for how, (first, second) in pairs.items():
        if how == "average and records":
            continue
        for aim in ("record", "mean"):
            ways = [(ruv.User(b, TARGETS[aim], ruv.Quadratic()), first & second) for b in (SCALAR, ONE)]
            ways.append((ruv.User(SCALAR, TARGETS[aim], ruv.Quadratic(), knows=second), first))
            cases[f"PyMC, {aim}, {how}"] = Case(ways, MODEL, FILE, replicates=3, slow=True)
    for how, mask in {
        "noise and round": ruv.Noise(sd=0.5) & ruv.Round(base=1),
        "round, then noise twice": ruv.Round(base=0.5) | (ruv.Noise(sd=0.5) & ruv.Noise(sd=1.0)),
        "topcode and records": ruv.Topcode(at=1.0) & ruv.Release(rows=[2]),
    }.items():
        user = ruv.User(INCOMES, ruv.Parameter("mu"), ruv.Absolute())
        cases[f"PyMC, incomes, {how}"] = Case([(user, mask)], MODEL, EARNED, replicates=3, slow=True)
    change = ruv.PRAM(TOSS, columns=[0], categories=[0, 1])
    ways = [
        (ruv.User(b, ruv.Parameter("theta"), ruv.Quadratic()), change & ruv.Release(rows=[1])) for b in (COINS, BETA)
    ]
    cases["PyMC, coins, changed answers and a record"] = Case(ways, MODEL, TOSSED, slow=True)
    return cases


# -- ranks, snoopers and rows --------------------------------------------------------------------------------


def rank_cases() -> dict[str, Case]:
    cases = {}
    for cost, loss in LOSSES.items():
        ways = [(ruv.User(LONE, ruv.Maximum(), loss), NOISE), (ruv.User(LONE, ruv.Record(0), loss), NOISE)]
        cases[f"the largest of one, {cost}"] = Case(ways, RANKED, slow=True)
    for how, mask in (("noise", NOISE), ("nothing", ruv.Suppress()), ("noise, shuffled", NOISE | ruv.Shuffle())):
        cases[f"the second of four, {how}"] = Case(
            [(ruv.User(ONE, ruv.OrderStatistic(2), loss), mask) for loss in (ruv.Quadratic(), SQUARE)],
            RANKED,
            slow=True,
        )
    for how, mask in (("release", ruv.Release()), ("shuffled", ruv.Shuffle())):
        user = ruv.User(ONE, ruv.Maximum(), ruv.LogScore())
        cases[f"the largest when all are known, log, {how}"] = Case([(user, mask)], RANKED, replicates=5)
    cases["the largest and the smallest"] = Case(
        [
            (ruv.User(ONE, target, ruv.Quadratic()), NOISE)
            for target in (ruv.Maximum(), ruv.Minimum(), ruv.OrderStatistic(4))
        ],
        RANKED,
    )
    return cases


FILE = np.array([[0.3], [2.1], [-1.0], [4.2]])


def snooper_cases() -> dict[str, Case]:
    three, simulated = ("rule", "rule, exact", "rule, simulated"), ("rule", "rule, simulated")
    alone = ruv.NormalBelief(records=1, variance=2, prior="flat")
    return {
        "the row as it is released": Case(
            [
                (ruv.Snooper("row", ruv.Record(0), belief=LONE), NOISE),
                (ruv.Snooper("row", ruv.Record(0), belief=ONE), NOISE),
                (ruv.Snooper("row", ruv.EachRecord(), belief=ONE), NOISE),
                (ruv.User(alone, ruv.Record(0), ruv.Quadratic()), NOISE),
            ],
            three,
            replicates=2000,
        ),
        "the row as it is released, absolute": Case(
            [
                (ruv.Snooper("row", ruv.Record(0), ruv.Absolute(), belief=ONE), NOISE),
                (ruv.User(alone, ruv.Record(0), ruv.Absolute()), NOISE),
            ],
            three,
            replicates=2000,
        ),
        "the average of the release": Case(
            [
                (ruv.Snooper("mean", ruv.Average(), belief=ONE), NOISE),
                (ruv.User(FLAT, ruv.Average(), ruv.Quadratic()), NOISE),
            ],
            three,
            replicates=2000,
        ),
        "the average of the release, with data": Case(
            [(ruv.Snooper("mean", ruv.Average()), NOISE), (ruv.Snooper("mean", ruv.Average(), belief=ONE), NOISE)],
            three,
            FILE,
            replicates=2000,
        ),
        "the largest value of a file": Case([(ruv.Snooper("max", ruv.Maximum()), NOISE)], three, FILE, replicates=2000),
        "the largest value of a belief": Case(
            [
                (ruv.Snooper("max", ruv.Maximum(), belief=ONE), NOISE),
                (ruv.Snooper("min", ruv.Minimum(), belief=ONE), NOISE),
            ],
            simulated,
            replicates=2000,
        ),
    }


def identity_cases() -> dict[str, Case]:
    known = ruv.NormalBelief(records=4, variance=2, prior="known", prior_mean=1)
    apart = ruv.NormalBelief(records=4, covariance=np.diag([2.0, 1.0]), prior="known", prior_mean=[1, 0])
    who = ruv.Identity(0, known=[0])
    return {
        "which row is whose": Case(
            [
                (ruv.User(known, who, ruv.ZeroOne()), NOISE),
                (ruv.User(known, who, ruv.ZeroOne()), ruv.Noise(variance=1.0) | ruv.Noise(variance=0.5)),
                (ruv.User(apart, who, ruv.ZeroOne()), ruv.Noise(variance=[1.5, 3.0])),
                (ruv.User(known, ruv.Identity(2, known=[0]), ruv.ZeroOne()), NOISE),
            ],
            ("identification",),
            replicates=400,
            slow=True,
        )
    }


# -- finite sets ---------------------------------------------------------------------------------------------

COIN = ruv.FiniteBelief([0.2, 0.9], [0.4, 0.6], likelihood=[[0.7, 0.3], [0.25, 0.75]], records=3)
NUMBER = ruv.FiniteBelief([0.0, 1.0, 2.5], [0.2, 0.5, 0.3])
TOSS = np.array([[0.9, 0.1], [0.2, 0.8]])


def finite_cases() -> dict[str, Case]:
    cases = {}
    aims = {
        "record": ruv.Record(0),
        "state": ruv.Parameter("theta"),
        "new record": ruv.NewRecord(),
        "average": ruv.Average(),
    }
    losses = {"squared": ruv.Quadratic(), "absolute": ruv.Absolute(), "zero-one": ruv.ZeroOne(), "log": ruv.LogScore()}
    masks = {
        "changed": ruv.Stochastic(TOSS),
        "shuffled": ruv.Stochastic(TOSS) | ruv.Shuffle(),
        "sample": ruv.Subsample(size=2),
    }
    for (aim, target), (cost, loss), (how, mask) in itertools.product(aims.items(), losses.items(), masks.items()):
        cases[f"coin, {aim}, {cost}, {how}"] = Case([(ruv.User(COIN, target, loss), mask)], FINITE)
    for cost, loss in losses.items():
        cases[f"coin, state, {cost}, noise"] = Case(
            doubtful(ruv.User(COIN, ruv.Parameter("theta"), loss), ruv.Noise(variance=0.3)), FINITE
        )
        cases[f"number, {cost}, noise"] = Case([(ruv.User(NUMBER, ruv.Parameter("theta"), loss), NOISE)], FINITE)
    cases["number, doubts about nothing"] = Case(
        doubtful(ruv.User(NUMBER, ruv.Parameter("theta"), ruv.Quadratic()), NOISE), FINITE
    )
    single = ruv.FiniteBelief([0.2, 0.9], [0.4, 0.6], likelihood=[[0.7, 0.3], [0.25, 0.75]], records=1)
    for aim in ("record", "state"):
        user = ruv.User(single, aims[aim], ruv.Quadratic())
        # Files of one record: those with the outcome 0 come last, as `compositions` lists them.
        whole = ruv.masks.Mechanism(TOSS, outputs=[0.0, 1.0], outcomes=[0, 1], records=1, rows=[0])
        cases[f"one record as a file, {aim}"] = Case([(user, ruv.Stochastic(TOSS)), (user, whole)], FINITE)
    each = ruv.User(COIN, ruv.EachRecord(aggregate="mean"), ruv.Quadratic())
    cases["coin, each record"] = Case(
        [(each, ruv.Stochastic(TOSS)), (ruv.User(COIN, ruv.Record(1), ruv.Quadratic()), ruv.Stochastic(TOSS))],
        FINITE,
    )
    return cases


def table_cases() -> dict[str, Case]:
    table = ruv.TableBelief((2, 2), total=2)
    # Of the ten tables six have nothing in a cell, three one and one two.
    cell = ruv.FiniteBelief([0.0, 1.0, 2.0], [0.6, 0.3, 0.1])
    cases = {}
    for cost, loss in {
        "squared": ruv.Quadratic(),
        "absolute": ruv.Absolute(),
        "zero-one": ruv.ZeroOne(),
        "log": ruv.LogScore(),
    }.items():
        user, plain = ruv.User(table, ruv.Cell((0, 0)), loss), ruv.User(cell, ruv.Parameter("theta"), loss)
        cases[f"cell, {cost}, nothing"] = Case([(user, ruv.Suppress()), (plain, ruv.Suppress())], TABLED)
        cases[f"cell, {cost}, release"] = Case([(user, ruv.Release()), (plain, ruv.Release())], TABLED)
        hidden = [ruv.SuppressCells(cells=[(0, 0), (i, j)]) for i, j in ((0, 1), (1, 0))]
        cases[f"cell, {cost}, two cells"] = Case([(user, mask) for mask in hidden], TABLED)
    return cases


# -- models in PyMC ------------------------------------------------------------------------------------------


def one_variable(n: int) -> Any:
    import pymc as pm

    with pm.Model() as model:
        pm.Normal("x", pm.Normal("mu", 1.0, np.sqrt(5.0)), np.sqrt(2.0), shape=n)
    return model


def two_variables(n: int) -> Any:
    import pymc as pm

    with pm.Model() as model:
        mu = pm.MvNormal("mu", np.array([0.0, 1.0]), DOUBT, shape=2)
        pm.MvNormal("x", mu, SPREAD, shape=(n, 2))
    return model


def unknown_sd(n: int) -> Any:
    import pymc as pm

    with pm.Model() as model:
        pm.Normal("x", pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("sigma", 2.0), shape=n)
    return model


def incomes(n: int) -> Any:
    import pymc as pm

    with pm.Model() as model:
        pm.LogNormal("x", pm.Normal("mu", 0.0, 1.0), 0.7, shape=n)
    return model


def coins(n: int) -> Any:
    import pymc as pm

    with pm.Model() as model:
        pm.Bernoulli("x", pm.Beta("theta", 2.0, 3.0), shape=n)
    return model


def beta_coins(records: int) -> ruv.FiniteBelief:
    """The same coins with finitely many chances.

    Gauss and Jacobi's nodes have the moments of Beta(2, 3) up to the 39th.
    """
    x, w = special.roots_jacobi(20, 2.0, 1.0)
    chances = (1 + x) / 2
    return ruv.FiniteBelief(
        chances, w / w.sum(), likelihood=np.stack([1 - chances, chances], axis=1), outcomes=[0, 1], records=records
    )


SCALAR, VECTOR = ruv.PyMCBelief(one_variable, size=4), ruv.PyMCBelief(two_variables, size=4)
UNKNOWN, INCOMES, COINS = (ruv.PyMCBelief(build, size=4) for build in (unknown_sd, incomes, coins))
BETA = beta_coins(4)
MODEL = ("quadrature", "sampling")
PAIRS = np.array([[0.3, 1.2], [2.1, 0.4], [-1.0, 0.9], [4.2, 2.0]])
EARNED = np.array([0.4, 1.1, 2.7, 0.9])
TOSSED = np.array([1, 0, 1, 1])


def model_cases() -> dict[str, Case]:
    cases = {}
    for aim, target in TARGETS.items():
        for cost in ("squared", "window", "log"):
            ways = [(ruv.User(belief, target, LOSSES[cost]), NOISE) for belief in (SCALAR, ONE)]
            cases[f"PyMC, one variable, {aim}, {cost}"] = Case(ways, MODEL, FILE, slow=True)
        ways = [(ruv.User(belief, target, ruv.Quadratic()), ruv.Noise(variance=0.5)) for belief in (VECTOR, TWO)]
        # On a grid of two parameters there are no averages of vectors.
        cases[f"PyMC, two variables, {aim}"] = Case(
            ways, ("sampling",) if aim == "average" else MODEL, PAIRS, slow=True
        )
    ways = [(ruv.User(belief, ruv.Record(1), ruv.LogScore()), ruv.Release()) for belief in (SCALAR, ONE)]
    cases["PyMC, one variable, a record that is known, log"] = Case(ways, MODEL, FILE, replicates=2, slow=True)
    for aim, target in {"record": ruv.Record(1), "sd": ruv.Parameter("sigma"), "new record": ruv.NewRecord()}.items():
        cases[f"PyMC, unknown sd, {aim}"] = Case(
            [(ruv.User(UNKNOWN, target, ruv.Absolute()), NOISE)], MODEL, FILE, slow=True
        )
    masks = {
        "noise": ruv.Noise(sd=0.5),
        "round": ruv.Round(base=1),
        "topcode": ruv.Topcode(at=2.0),
        "release": ruv.Release(),
    }
    for how, mask in masks.items():
        user = ruv.User(INCOMES, ruv.Parameter("mu"), ruv.Absolute())
        cases[f"PyMC, incomes, {how}"] = Case([(user, mask)], MODEL, EARNED, slow=True)
    for how, mask in {
        "release": ruv.Release(),
        "rows left out": ruv.Suppress(rows=[1, 2]),
        "nothing": ruv.Suppress(),
    }.items():
        for aim, target in {
            "chance": ruv.Parameter("theta"),
            "new record": ruv.NewRecord(),
            "record": ruv.Record(1),
        }.items():
            ways = [(ruv.User(belief, target, ruv.Quadratic()), mask) for belief in (COINS, BETA)]
            cases[f"PyMC, coins, {aim}, {how}"] = Case(ways, MODEL, TOSSED, slow=True)
    return cases


CASES = (
    normal_cases()
    | knowing_cases()
    | rank_cases()
    | snooper_cases()
    | identity_cases()
    | finite_cases()
    | table_cases()
    | model_cases()
)


@pytest.mark.campaign(8, "slow")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if c.slow else n for n, c in CASES.items()])
def test_engines_agree(name: str, record_property: Any) -> None:
    case = CASES[name]
    assert taking(case.ways[0], case.data) == list(case.engines)
    pairs = compare(answers(case))
    assert pairs
    record_property("compared", ", ".join(f"{a} with {b}" for a, b in pairs))


def test_every_engine_stands_beside_another_one() -> None:
    """Somewhere, in one way of a case or across its ways."""
    quick = [
        case for case in CASES.values() if not any(isinstance(user.belief, ruv.PyMCBelief) for user, _ in case.ways)
    ]
    beside = {name for case in CASES.values() if len(case.engines) > 1 for name in case.engines}
    beside |= {name for case in quick if len(case.ways) > 1 for way in case.ways for name in taking(way, case.data)}
    assert beside == set(ENGINES)


# -- one release ---------------------------------------------------------------------------------------------

#: Ways that have the same posterior, a release, and the losses that look at it.
RELEASES: dict[str, tuple[list[tuple[Any, Any]], Any, tuple[str, ...]]] = {
    "a record behind noise": (
        [
            *doubtful(ruv.User(ONE, ruv.Record(1), ruv.Quadratic()), NOISE),
            (ruv.User(SCALAR, ruv.Record(1), ruv.Quadratic()), NOISE),
        ],
        NOISE.release(FILE, 1),
        ("exact", "quadrature", "sampling"),
    ),
    "a mean behind noise": (
        [(ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic()), NOISE) for belief in (ONE, SCALAR)],
        NOISE.release(FILE, 1),
        ("exact", "quadrature", "sampling"),
    ),
    "the largest behind noise": (
        [(ruv.User(belief, ruv.Maximum(), ruv.Quadratic()), NOISE) for belief in (ONE, SCALAR)],
        NOISE.release(FILE, 1),
        ("ranks", "sampling"),
    ),
    "the largest of one behind noise": (
        [(ruv.User(LONE, target, ruv.Quadratic()), NOISE) for target in (ruv.Maximum(), ruv.Record(0))],
        NOISE.release(FILE[:1], 1),
        ("exact", "ranks"),
    ),
    "a chance behind changed answers": (
        [
            (ruv.User(belief, ruv.Parameter("theta"), ruv.Quadratic()), ruv.PRAM(TOSS, columns=[0], categories=[0, 1]))
            for belief in (BETA, COINS)
        ],
        TOSSED[:, None],
        ("enumeration", "quadrature", "sampling"),
    ),
    "a mean behind two releases": (
        [
            (ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic(), knows=knows), mask)
            for belief in (ONE, SCALAR)
            for knows, mask in ((None, NOISE & ruv.Release(rows=[0, 2])), (ruv.Release(rows=[0, 2]), NOISE))
        ],
        (NOISE & ruv.Release(rows=[0, 2])).release(FILE, 1),
        ("exact", "quadrature", "sampling"),
    ),
    "a chance behind changed answers and a record": (
        [
            (
                ruv.User(belief, ruv.Parameter("theta"), ruv.Quadratic()),
                ruv.PRAM(TOSS, columns=[0], categories=[0, 1]) & ruv.Release(rows=[1]),
            )
            for belief in (BETA, COINS)
        ],
        (TOSSED[:, None], np.array([[np.nan], [0.0], [np.nan], [np.nan]])),
        ("enumeration", "quadrature", "sampling"),
    ),
    "a chance behind noise": (
        [
            (ruv.User(belief, ruv.Parameter("theta"), ruv.Quadratic()), ruv.Noise(variance=0.3))
            for belief in (BETA, COINS)
        ],
        np.array([[1.4], [0.2], [0.7], [0.5]]),
        ("enumeration", "quadrature", "sampling"),
    ),
}


def moments(posterior: Any) -> dict[str, Any]:
    """Questions with an error of their own: mean, variance and a cube."""
    return {
        "mean": posterior.expect(lambda x: x),
        "variance": posterior.quadratic(),
        "cube": posterior.expect(lambda x: x**3),
    }


@pytest.mark.long
@pytest.mark.parametrize("name", RELEASES)
def test_posteriors_agree(name: str) -> None:
    ways, release, engines = RELEASES[name]
    found: dict[str, Answers] = {}
    for i, (user, mask) in enumerate(ways):
        laws = {"auto": ruv.posterior(user, mask, release)}
        laws |= {engine: ENGINES[engine].posterior(user, mask, release) for engine in taking((user, mask))}
        for engine, law in laws.items():
            for question, (value, error) in moments(law).items():
                found.setdefault(question, {})[f"{i} {engine}"] = (float(value), float(error))
    for question, each in found.items():
        pairs = compare(each)
        assert {engine for pair in pairs for engine in pair} == {"auto", *engines}, question


# -- refusals ------------------------------------------------------------------------------------------------

WHO = {
    "record": lambda belief: ruv.User(belief, ruv.Record(0), ruv.Quadratic()),
    "all records": lambda belief: ruv.User(belief, ruv.Records(), ruv.Quadratic()),
    "each record": lambda belief: ruv.User(belief, ruv.EachRecord(), ruv.Quadratic()),
    "row": lambda belief: ruv.User(belief, ruv.Identity(0, known=[0]), ruv.ZeroOne()),
    "largest": lambda belief: ruv.User(belief, ruv.Maximum(), ruv.Quadratic()),
    "cell": lambda belief: ruv.User(belief, ruv.Cell((0, 0)), ruv.Quadratic()),
    "truth of another": lambda belief: ruv.User(belief, ruv.Record(0), ruv.Quadratic(), truth=belief),
    "unknown mask": lambda belief: ruv.User(
        belief, ruv.Record(0), ruv.Quadratic(), knows_mask=False, mask_prior=[0.5, 1.0]
    ),
    "snooper": lambda belief: ruv.Snooper("row", ruv.Record(0), belief=belief),
    "snooper, each record": lambda belief: ruv.Snooper("row", ruv.EachRecord(), belief=belief),
    "snooper, largest": lambda belief: ruv.Snooper("max", ruv.Maximum(), belief=belief),
}


@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n == "largest" else n for n in WHO])
def test_engines_do_it_or_say_what_can(name: str) -> None:
    """An engine gives numbers, or a sentence that says what to use; it never takes what it cannot do."""
    met = 0
    for belief in (ONE, TWO, COIN, NUMBER, ruv.TableBelief((2, 2), total=2)):
        if (name == "cell") != isinstance(belief, ruv.TableBelief):
            continue
        try:
            user = WHO[name](belief)
        except ruv.InputError:  # a belief without such a target
            continue
        for mask, engine in itertools.product((NOISE, ruv.Suppress()), ENGINES.values()):
            reason = engine.refuses(user, [mask])
            if reason is None:
                solution = engine.solve(user, [mask], replicates=3, seed=np.random.SeedSequence(1))
                assert solution.uncertainty[0] >= 0
                assert solution.error[0] >= 0
            else:
                assert reason.do and reason.do in str(reason), f"{engine!r}: {reason}"
            met += 1
    assert met
