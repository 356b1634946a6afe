"""Every record by itself: the target EachRecord, and record_risk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision.analyses.record_risk import record_risk
from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.engines import Exact, Problem, pick, plan_for
from ruvdecision.engines.every_record import Each, EveryRecord, aim_at, rows_of, uncertainty_of_every_record as of_rows
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.evaluate import evaluate, posterior
from ruvdecision.losses import Absolute, LogScore, Quadratic, ZeroOne
from ruvdecision.masks import Clip, Microaggregate, Noise, RankSwap, Release, Shuffle, Stochastic, Subsample, Suppress
from ruvdecision.targets import Average, EachRecord, Functional, Identity, Parameter, Record
from ruvdecision.users.panel import Panel
from ruvdecision.users.rules import Row, WeightedSum
from ruvdecision.users.user import Snooper, User

mpl.use("Agg")

N = 6
BELIEF = NormalBelief(records=N, variance=2.0, prior_mean=0.5, prior_variance=5.0)
WIDE = NormalBelief(records=N, covariance=[[2.0, 0.6], [0.6, 1.0]], prior_covariance=np.eye(2))
SIZES = [0.1, 0.5, 1.0, 1.0, 2.0, 4.0]
DATA = np.array([3.0, -1.0, 0.4, 0.6, 8.0, 2.0])


def one_by_one(user: Any, masks: Any, **options: Any) -> Any:
    """U of every record by asking for each alone."""
    found = []
    for j in range(N):
        one = aim_at(user, j)
        found.append(pick("auto", one, masks, options.get("data")).solve(one, masks, **options).uncertainty)
    return np.stack(found, axis=1)


def every_record(user: Any, masks: Any, engine: Any = "auto", **options: Any) -> Each:
    """U of every record at once."""
    problem = Problem.of(user, masks, **options)
    return of_rows(engine, problem, rows_of(problem.user, problem.data))


def root(seed: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed)


# -- each record as if asked for alone -----------------------------------------------------------------

LINEAR = [
    Noise(variance=1.0),
    Noise(variance=SIZES),
    Suppress(rows=[1, 4]),
    Noise(variance=1.0) | Microaggregate(groups=4),
    Microaggregate(groups=2) | Noise(variance=0.4) | Microaggregate(groups=3),
    Shuffle() | Noise(variance=0.5),
    Subsample(size=3) | Noise(variance=0.5),
    Subsample(size=4) | Noise(variance=0.5) | Microaggregate(groups=3),
    Noise(variance=np.where([True, False, False, True, False, False], 4.5, 0.5)),
]


@pytest.mark.parametrize("mask", LINEAR, ids=str)
@pytest.mark.parametrize("belief", [BELIEF, WIDE], ids=["number", "vector"])
def test_normal_records(mask: Any, belief: Any) -> None:
    user = User(belief, EachRecord(), Quadratic())
    each = every_record(user, [mask])
    np.testing.assert_allclose(each.uncertainty, one_by_one(user, [mask]), rtol=1e-12)
    assert not each.error.any() and each.engine == ["exact"]
    np.testing.assert_allclose(each.before, pick("auto", aim_at(user, 0), [mask]).solve(aim_at(user, 0), [mask]).before)


@pytest.mark.parametrize(
    "mask", [Noise(variance=SIZES), Subsample(size=3) | Noise(variance=0.5), Shuffle() | Noise(variance=0.5)], ids=str
)
def test_losses_that_look_at_the_data(mask: Any) -> None:
    """A list of estimates makes U depend on where the record lies.

    All records share the releases that each would see alone.
    """
    user = User(BELIEF, EachRecord(), Quadratic(), estimates=np.linspace(-4.0, 8.0, 7))
    options: dict[str, Any] = {"data": DATA, "replicates": 8, "seed": root(3)}
    each = every_record(user, [mask], **options)
    np.testing.assert_allclose(each.uncertainty, one_by_one(user, [mask], **options), rtol=1e-12)
    assert np.all(each.error > 0)
    if mask.technique == "Noise":
        assert len(np.unique(each.uncertainty.round(10))) == N
    without = every_record(user, [mask], replicates=8, seed=root(3))
    np.testing.assert_allclose(without.uncertainty, one_by_one(user, [mask], replicates=8, seed=root(3)), rtol=0.5)


@pytest.mark.long
def test_functions_of_a_record_and_users_in_doubt() -> None:
    twice = User(BELIEF, Functional(lambda x: 2 * x, of=Record(0)), Quadratic())
    found = every_record(twice, [Noise(variance=SIZES)])
    plain = every_record(User(BELIEF, EachRecord(), Quadratic()), [Noise(variance=SIZES)])
    np.testing.assert_allclose(found.uncertainty, 4 * plain.uncertainty, rtol=1e-12)
    right = NormalBelief(records=N, variance=3.0, prior_variance=1.0)
    wrong = User(BELIEF, EachRecord(), Absolute(), truth=right)
    np.testing.assert_allclose(every_record(wrong, LINEAR[:4]).uncertainty, one_by_one(wrong, LINEAR[:4]), rtol=1e-12)
    dark = User(BELIEF, EachRecord(), Quadratic(), knows_mask=False, mask_prior=[0.5, 1.0, 2.0])
    options: dict[str, Any] = {"replicates": 6, "seed": root(1)}
    each = every_record(dark, [Noise(variance=SIZES)], **options)
    known = plain.uncertainty
    assert np.all(each.uncertainty >= known - 1e-12)


FINITE = FiniteBelief([0.2, 0.8], likelihood=[[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]], outcomes=[0.0, 1.0, 2.0], records=N)
FLIP = Stochastic([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])


@pytest.mark.parametrize(
    "mask", [FLIP, Suppress(rows=[1, 2]) | FLIP, FLIP | Shuffle(), Subsample(size=3) | FLIP], ids=str
)
def test_finite_records(mask: Any) -> None:
    user = User(FINITE, EachRecord(), Quadratic())
    np.testing.assert_allclose(every_record(user, [mask]).uncertainty, one_by_one(user, [mask]), rtol=1e-12)
    data = np.array([0.0, 1.0, 1.0, 2.0, 0.0, 2.0])
    if "Subsample" not in mask.technique:
        each = every_record(user, [mask], data=data)
        np.testing.assert_allclose(each.uncertainty, one_by_one(user, [mask], data=data), rtol=1e-12)


def test_which_row_is_whose() -> None:
    user = User(WIDE, Identity(0, known=[0]), ZeroOne())
    data = np.random.default_rng(1).normal(size=(N, 2))
    options: dict[str, Any] = {"data": data, "replicates": 5, "seed": root(2)}
    each = every_record(user, [Noise(variance=0.5)], **options)
    together = User(WIDE, Identity("all", known=[0]), ZeroOne())
    whole = pick("auto", together, [Noise(variance=0.5)], data).solve(together, [Noise(variance=0.5)], **options)
    assert each.uncertainty.shape == (1, N)
    assert abs(each.uncertainty.mean() - whole.uncertainty[0]) < 4 * whole.error[0] + 0.2


# -- snoopers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mask",
    [
        Noise(variance=SIZES),
        Noise(sd=1.0) | Microaggregate(groups=3),
        Microaggregate(groups=2),
        Microaggregate(groups=2) | Noise(sd=0.7),
        Noise(sd=1.0) | Microaggregate(groups=[0, 0, 0, 1, 1, 2]) | Noise(sd=0.5, common=True) | Noise(sd=0.7),
        Noise(sd=1.0, common=True),
        Suppress(rows=[1]),
    ],
    ids=str,
)
@pytest.mark.parametrize("loss", [Quadratic(), Absolute()], ids=repr)
def test_snoopers_take_each_row_for_its_record(mask: Any, loss: Any) -> None:
    user = Snooper("row", EachRecord(), loss)
    each = every_record(user, [mask], data=DATA, seed=root(1))
    np.testing.assert_allclose(each.uncertainty, one_by_one(user, [mask], data=DATA, seed=root(1)), rtol=1e-10)
    drawn = Snooper("row", EachRecord(), loss, belief=BELIEF)
    np.testing.assert_allclose(
        every_record(drawn, [mask], seed=root(1)).uncertainty, one_by_one(drawn, [mask], seed=root(1)), rtol=1e-10
    )


def test_snoopers_by_simulation() -> None:
    """Masks without a closed form: the very releases that each record would see alone."""
    user = Snooper("row", EachRecord())
    for mask in (RankSwap(within=0.5), Noise(sd=2.0) | Clip(lower=0.0), Shuffle()):
        options: dict[str, Any] = {"data": DATA, "replicates": 25, "seed": root(1)}
        each = every_record(user, [mask], **options)
        np.testing.assert_allclose(each.uncertainty, one_by_one(user, [mask], **options), rtol=1e-10)
        one = aim_at(user, 2)
        alone = pick("auto", one, [mask], DATA).solve(one, [mask], **options)
        assert each.error[0, 2] == pytest.approx(alone.error[0], rel=1e-9)
    with pytest.raises(UnsupportedError, match="some releases hold no value"):
        every_record(user, [Subsample(size=3)], data=DATA, seed=root(1))
    wide = np.random.default_rng(2).normal(size=(N, 2))
    found = every_record(Snooper("row", Record(0)), [Noise(variance=[1.0, 3.0])], data=wide)
    np.testing.assert_allclose(found.uncertainty, 4.0, rtol=1e-12)
    mean = Snooper("mean", EachRecord())
    np.testing.assert_allclose(
        every_record(mean, [Release()], data=DATA).uncertainty[0], (DATA.mean() - DATA) ** 2, rtol=1e-12
    )


def test_rules_that_look_at_certain_rows() -> None:
    """The same row for every record, weights of one's own: records are not alike, though the mask treats them so."""
    for rule in (Row(3), WeightedSum([0.5, 0.5, 0, 0, 0, 0]), lambda y: y[1]):
        user = Snooper(rule, EachRecord(), belief=BELIEF)
        each = every_record(user, [Noise(variance=1.0)], seed=root(1))
        np.testing.assert_allclose(each.uncertainty, one_by_one(user, [Noise(variance=1.0)], seed=root(1)), rtol=1e-12)
        assert len(np.unique(each.uncertainty.round(9))) == 2


def test_a_large_file_costs_little() -> None:
    n = 50_000
    belief = NormalBelief(records=n, variance=2.0, prior_variance=5.0)
    found = record_risk([Noise(variance=1.0) | Microaggregate(groups=n // 3)], User(belief, EachRecord(), Quadratic()))
    assert found.risk.shape == (1, n) and len(np.unique(found.risk.round(12))) == 2
    data = np.random.default_rng(1).normal(size=n)
    bias = record_risk([Microaggregate(groups=n // 5)], Snooper("row", EachRecord()), data=data)
    groups = np.asarray(Microaggregate(groups=n // 5).release(data, 1))
    np.testing.assert_allclose(bias.uncertainty[0], (groups - data) ** 2, atol=1e-12)


# -- one number of all ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=12), st.floats(0, 1))
def test_aggregates_are_those_of_the_risks(uncertainties: list[float], q: float) -> None:
    """The quantile of 1/U, whatever decreasing function risk is."""
    u = np.array(uncertainties)
    assert 1 / EachRecord().overall(u) == pytest.approx(np.max(1 / u))
    assert 1 / EachRecord(1.0).overall(u) == pytest.approx(np.max(1 / u))
    level = EachRecord(q).overall(u)
    assert np.mean(1 / u <= 1 / level + 1e-12) >= q - 1e-9
    for f in (lambda x: 1 / x, lambda x: -np.log(x), lambda x: np.exp(-x)):
        assert f(level) == pytest.approx(np.quantile(f(u), max(q - 1e-10, 0), method="inverted_cdf"))
    assert EachRecord("mean").overall(u) == pytest.approx(u.mean())


def test_maps_of_the_riskiest_the_average_and_a_quantile() -> None:
    scientist = User(BELIEF, Parameter("mu"), Quadratic())
    masks = [Noise(variance=SIZES), Suppress(rows=[0]) | Noise(variance=1.0)]
    each = one_by_one(User(BELIEF, EachRecord(), Quadratic()), masks)
    for aggregate, expected in (
        ("max", each.min(axis=1)),
        ("mean", each.mean(axis=1)),
        (0.5, np.sort(each, axis=1)[:, 3]),
    ):
        rumap = evaluate(masks, intruder=User(BELIEF, EachRecord(aggregate), Quadratic()), scientist=scientist)
        np.testing.assert_allclose(rumap.intruder_uncertainty, expected, rtol=1e-12)
        assert rumap.before[0][0] == pytest.approx(7.0)
    riskiest = [v for name, v in rumap.columns.items() if "riskiest" in name]
    assert riskiest and riskiest[0][0] == 0
    some = evaluate(masks, intruder=User(BELIEF, EachRecord(rows=[4, 5]), Quadratic()), scientist=scientist)
    np.testing.assert_allclose(some.intruder_uncertainty, each[:, [4, 5]].min(axis=1), rtol=1e-12)


def test_errors_of_aggregates() -> None:
    user = User(BELIEF, EachRecord("mean"), Quadratic(), estimates=[-2.0, 0.0, 2.0, 4.0])
    options: dict[str, Any] = {"data": DATA, "replicates": 10, "seed": root(3)}
    mask = [Noise(variance=1.0)]
    each = every_record(user, mask, **options)
    mean = Exact().solve(user, mask, **options)
    assert mean.error[0] == pytest.approx(each.error.mean())
    worst = Exact().solve(replace(user, target=EachRecord()), mask, **options)
    assert worst.uncertainty[0] == each.uncertainty.min() and worst.error[0] >= each.error[0, each.uncertainty.argmin()]
    with pytest.raises(UnsupportedError, match="posterior of its own"):
        posterior(user, mask[0])


# -- the table of risks --------------------------------------------------------------------------------


def test_record_risk() -> None:
    masks = [Noise(variance=SIZES), Noise(variance=1.0)]
    user = User(BELIEF, Record(0), Quadratic())
    groups = ["a", "a", "b", "b", "b", "c"]
    found = record_risk(masks, user, groups=groups)
    each = one_by_one(user, masks)
    np.testing.assert_allclose(found.risk, 1 / each, rtol=1e-12)
    assert found.riskiest(2)["row"].tolist() == [0, 1] and found.riskiest(2)["group"].tolist() == ["a", "a"]
    assert "value" not in found.riskiest().columns
    assert found.quantile(0.5).shape == (2,) and found.quantile([0.1, 0.9]).shape == (2, 2)
    np.testing.assert_allclose(found.quantile(1.0), found.risk.max(axis=1))
    summary = found.summary()
    np.testing.assert_allclose(summary["max"], found.risk.max(axis=1))
    assert summary["riskiest"].tolist()[0] == 0
    table = found.by_group()
    first = table[table["release"] == found.releases[0]].set_index("group")
    assert first["records"].tolist() == [2, 3, 1]
    assert first.loc["b", "mean"] == pytest.approx(found.risk[0, 2:5].mean())
    assert first.loc["b", "max"] == pytest.approx(found.risk[0, 2:5].max())
    long = found.to_dataframe()
    assert len(long) == 12 and long["risk"].iloc[6] == found.risk[1, 0]
    gain = record_risk(masks, user, risk="relative_gain", rows=[5, 0])
    np.testing.assert_allclose(gain.risk, 1 - each[:, [5, 0]] / 7.0, rtol=1e-12)
    assert gain.riskiest(1)["row"].tolist() == [0] and len(gain) == 2
    assert "6 records under 2 releases" in repr(found)


def test_record_risk_of_a_panel_is_put_together_record_by_record() -> None:
    panel = Panel(
        [User(BELIEF, Record(0), Quadratic(), name="bayes"), Snooper("row", Record(0), belief=BELIEF, name="row")]
    )
    parts = [record_risk(Noise(variance=SIZES), m).uncertainty for m in panel.members]
    np.testing.assert_allclose(record_risk(Noise(variance=SIZES), panel).uncertainty, np.minimum(*parts), rtol=1e-12)
    shares = Panel([User(BELIEF, Record(0), loss) for loss in (Quadratic(), Absolute())], unit="before", combine="mean")
    found = record_risk(Noise(variance=SIZES), shares)
    each = [record_risk(Noise(variance=SIZES), m) for m in shares.members]
    np.testing.assert_allclose(found.uncertainty, np.mean([e.uncertainty / e.before for e in each], axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.before, 1.0)


def test_plots() -> None:
    masks = [Noise(variance=SIZES), Noise(variance=1.0)]
    found = record_risk(masks, User(BELIEF, Record(0), Quadratic()), groups=list("aabbbc"))
    axes = found.plot(max_risk=1.0)
    assert "better" in axes.get_xlabel() and len(axes.get_legend().get_texts()) == 2
    assert found.plot(0).get_ylabel() == "records"
    assert len(found.plot(masks[0], by_group=True).get_legend().get_texts()) == 3
    assert found.plot("Noise(variance=1)").get_title() == "6 records"  # all alike
    uneven = record_risk(Noise(variance=[0.001, 0.1, 1.0, 1.0, 2.0, 4.0]), User(BELIEF, Record(0), Quadratic())).plot()
    dots = [line.get_ydata() for line in uneven.get_lines() if line.get_marker() == "o"]
    assert uneven.get_xscale() == "log" and np.sum(dots) == N  # few distinct risks are dots
    sure = record_risk([Suppress(rows=[0])], User(BELIEF, Record(0), Quadratic()))
    assert "5 with infinite risk" in sure.plot().get_title()
    with pytest.raises(InputError, match="one release"):
        found.plot(by_group=True)
    with pytest.raises(InputError, match="nothing to draw"):
        record_risk([Release()], User(BELIEF, Record(0), Quadratic())).plot()


def test_bad_input() -> None:
    user = User(BELIEF, Record(0), Quadratic())
    for bad in ("min", -0.1, 1.5, None):
        with pytest.raises(InputError):
            EachRecord(bad)
    for rows in ([], 3, [0, 0], [0.5]):
        with pytest.raises(InputError):
            EachRecord(rows=rows)
    with pytest.raises(InputError, match="between 0 and 5"):
        User(BELIEF, EachRecord(rows=[9]), Quadratic())
    with pytest.raises(InputError, match="rows must be different from each other"):
        record_risk(Noise(sd=1.0), user, rows=[0, -6])
    with pytest.raises(InputError, match="one per record"):
        record_risk(Noise(sd=1.0), user, groups=["a"])
    with pytest.raises(InputError, match="after one record"):
        record_risk(Noise(sd=1.0), User(BELIEF, Parameter("mu"), Quadratic()))
    with pytest.raises(InputError, match="after one record"):
        record_risk(Noise(sd=1.0), User(BELIEF, Functional(lambda a, b: a - b, of=[Record(0), Record(1)]), Quadratic()))
    with pytest.raises(InputError, match="intruder must be"):
        record_risk(Noise(sd=1.0), "me")
    with pytest.raises(InputError, match="no such release"):
        record_risk(Noise(sd=1.0), user).riskiest(release="Noise")
    with pytest.raises(InputError, match="needs groups"):
        record_risk(Noise(sd=1.0), user).by_group()
    with pytest.raises(RuvError):
        record_risk(RankSwap(within=0.5), user)
    with pytest.raises(InputError, match="not negative"):
        record_risk(Noise(sd=0.01), User(BELIEF, Record(0), LogScore()))
    every = User(BELIEF, EachRecord(), Quadratic())
    assert isinstance(plan_for("auto", Problem.of(every, [Release()])), EveryRecord)
    assert isinstance(pick("auto", every, [Release()]), Exact)
    assert aim_at(User(BELIEF, Functional(lambda a, b: a - b, of=[Record(0), Average()]), Quadratic()), 4).target.parts[
        0
    ] == Record(4)
    found = record_risk(Noise(sd=1.0), user, groups=pd.Series(["a", None, "b", "b", "b", "b"]))
    assert found.by_group()["records"].sum() == N


def test_the_error_of_the_riskiest_record_is_the_largest_among_those_that_may_be_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record within four standard errors of the least uncertainty may be the riskiest; one farther off may not."""
    each = Each(
        np.arange(3),
        np.array([[1.0, 1.5, 3.0], [2.0, 1.0, 1.01]]),
        np.array([[0.01, 0.2, 0.3], [0.5, 0.0, 0.001]]),
        np.full(3, 4.0),
        ["exact"] * 2,
    )
    monkeypatch.setattr("ruvdecision.engines.every_record.uncertainty_of_every_record", lambda *_: each)
    user = User(replace(BELIEF, records=3), EachRecord(), Quadratic())
    (found,) = plan_for("auto", Problem.of(user, [Noise(sd=1.0), Noise(sd=2.0)])).run()
    np.testing.assert_allclose(found.uncertainty, [1.0, 1.0])
    np.testing.assert_allclose(found.error, [0.2, 0.5])
