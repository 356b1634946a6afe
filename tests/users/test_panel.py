"""Several users in the place of one."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from ruvdecision.beliefs import FiniteBelief, NormalBelief
from ruvdecision.engines import pick
from ruvdecision.errors import InputError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, Huber, Pinball, Power, Quadratic, ZeroOne
from ruvdecision.masks import Noise, Suppress
from ruvdecision.protocols import Value
from ruvdecision.targets import Parameter, Record
from ruvdecision.users.panel import Panel, vary_user
from ruvdecision.users.rules import Row
from ruvdecision.users.user import Snooper, User

BELIEF = NormalBelief(records=5, variance=2.0, prior_mean=0.0, prior_variance=5.0)
USER = User(BELIEF, Record(0), Quadratic())
MU = User(BELIEF, Parameter("mu"), Quadratic())
MASKS = [Suppress(), *(Noise(variance=v) for v in (0.1, 1.0, 10.0))]

tables = hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.floats(0.01, 100))


def values_of(table: Any, errors: Any = None) -> list[Value]:
    errors = np.zeros_like(table) if errors is None else errors
    return [Value(u, e) for u, e in zip(table, errors, strict=True)]


def panel_of(size: int, **options: Any) -> Panel:
    return Panel([User(BELIEF, Record(0), Quadratic(), name=f"user {i}") for i in range(size)], **options)


# -- putting uncertainties together --------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(tables)
def test_the_worst_bounds_each_member(table: Any) -> None:
    panel = panel_of(len(table), combine="worst")
    intruders, scientists = panel.merge(values_of(table), "intruder"), panel.merge(values_of(table), "scientist")
    assert np.all(intruders.value <= table) and np.all((intruders.value == table).any(axis=0))
    assert np.all(scientists.value >= table) and np.all((scientists.value == table).any(axis=0))
    assert panel.merge_before(table[:, 0].tolist()) == table[:, 0].min()
    mean = panel_of(len(table), combine="mean").merge(values_of(table))
    assert np.all(mean.value >= intruders.value * (1 - 1e-12)) and np.all(mean.value <= scientists.value * (1 + 1e-12))


@settings(deadline=None, max_examples=50)
@given(tables, st.data())
def test_weights_sum_to_one_and_follow_their_members(table: Any, data: Any) -> None:
    size = len(table)
    weights = data.draw(hnp.arrays(np.float64, size, elements=st.floats(0.01, 10)))
    order = data.draw(st.permutations(range(size)))
    panel, turned = panel_of(size, weights=weights), panel_of(size, weights=weights[order])
    assert sum(panel.weights) == pytest.approx(1.0)
    found = panel.merge(values_of(table))
    np.testing.assert_allclose(found.value, (weights / weights.sum()) @ table, rtol=1e-12)
    np.testing.assert_allclose(turned.merge(values_of(table[order])).value, found.value, rtol=1e-12)
    # Only the ratio of weights counts; equal weights are no weights.
    np.testing.assert_allclose(
        panel_of(size, weights=7 * weights).merge(values_of(table)).value, found.value, rtol=1e-12
    )
    equal = panel_of(size, weights=np.ones(size)).merge(values_of(table)).value
    np.testing.assert_allclose(equal, panel_of(size, combine="mean").merge(values_of(table)).value, rtol=1e-12)


@settings(deadline=None, max_examples=40)
@given(tables, st.data())
def test_errors_are_never_too_small(table: Any, data: Any) -> None:
    errors = data.draw(hnp.arrays(np.float64, table.shape, elements=st.floats(0, 1)))
    mean = panel_of(len(table), combine="mean").merge(values_of(table, errors))
    np.testing.assert_allclose(mean.error, errors.mean(axis=0), atol=1e-15)
    assert np.all(mean.error >= np.sqrt((errors**2).sum(axis=0)) / len(table) - 1e-15)
    for role, best in (("intruder", table.argmin(axis=0)), ("scientist", table.argmax(axis=0))):
        worst = panel_of(len(table), combine="worst").merge(values_of(table, errors), role)
        assert np.all(worst.error >= np.take_along_axis(errors, best[None], 0)[0] - 1e-15)
        assert np.all(worst.error <= errors.max(axis=0) + 1e-15)
    called = panel_of(len(table), combine=lambda u: u.mean(axis=0)).merge(values_of(table, errors))
    np.testing.assert_allclose(called.value, mean.value, rtol=1e-12)
    np.testing.assert_allclose(called.error, mean.error, atol=1e-9)


def test_a_far_member_does_not_blur_the_worst() -> None:
    panel = panel_of(3, combine="worst")
    found = panel.merge(values_of(np.array([[1.0], [1.05], [50.0]]), np.array([[0.01], [0.04], [3.0]])))
    assert found.value[0] == 1.0 and found.error[0] == 0.04


def test_defaults_depend_on_the_role() -> None:
    panel = panel_of(2)
    table = np.array([[1.0, 4.0], [3.0, 2.0]])
    np.testing.assert_array_equal(panel.merge(values_of(table), "intruder").value, [1.0, 2.0])
    np.testing.assert_array_equal(panel.merge(values_of(table), "scientist").value, [2.0, 3.0])
    weighed = panel_of(2, weights=[3, 1])
    np.testing.assert_array_equal(weighed.merge(values_of(table), "intruder").value, [1.5, 3.5])
    assert weighed.combining_rule("intruder") == "mean" and panel.combining_rule() == "worst"


def test_infinite_and_missing_uncertainties() -> None:
    table = np.array([[np.inf, np.inf], [1.0, np.inf]])
    assert panel_of(2).merge(values_of(table)).value.tolist() == [1.0, np.inf]
    assert panel_of(2, weights=[0, 1]).merge(values_of(table)).value.tolist() == [1.0, np.inf]
    assert panel_of(2, combine="mean").merge(values_of(table)).value.tolist() == [np.inf, np.inf]
    assert np.isnan(panel_of(2).merge_before([np.nan, 1.0]))  # a snooper has no U before the release


# -- units ---------------------------------------------------------------------------------------------


def test_losses_in_different_units_are_refused() -> None:
    members = [User(BELIEF, Record(0), loss) for loss in (Quadratic(), Absolute())]
    with pytest.raises(InputError, match=r'different units.*unit="before"'):
        Panel(members)
    with pytest.raises(InputError, match="different units"):
        Panel.vary(USER, loss=[Quadratic(), ZeroOne(tolerance=1.0)])
    # A function of one's own may know how to compare them.
    assert len(Panel(members, combine=lambda u: u[0] + 3 * u[1])) == 2
    for same in ([Quadratic(), Power(2.0), Huber(1.0)], [Absolute(), Pinball(0.8), Power(1.0)]):
        assert len(Panel.vary(USER, loss=same)) == len(same)


def test_scaling_by_what_was_unknown_before() -> None:
    members = [User(BELIEF, Record(0), loss) for loss in (Quadratic(), Absolute(), ZeroOne(tolerance=0.5))]
    panel = Panel(members, unit="before")
    found = [pick("auto", m, MASKS).solve(m, MASKS) for m in members]
    before = [f.before for f in found]
    merged = panel.merge([Value(f.uncertainty, f.error) for f in found], "intruder", before=before)
    shares = np.stack([f.uncertainty / f.before for f in found])
    np.testing.assert_allclose(merged.value, shares.min(axis=0), rtol=1e-14)
    assert merged.value[0] == pytest.approx(1.0) and panel.merge_before(before) == pytest.approx(1.0)
    own = Panel(members, unit=before)
    np.testing.assert_allclose(
        own.merge([Value(f.uncertainty, f.error) for f in found]).value, merged.value, rtol=1e-14
    )
    with pytest.raises(InputError, match="positive and finite"):
        panel.merge([Value(f.uncertainty, f.error) for f in found], before=[1.0, np.inf, 1.0])
    with pytest.raises(InputError, match="positive and finite"):
        panel.merge([Value(f.uncertainty, f.error) for f in found])


# -- on a map ------------------------------------------------------------------------------------------


def test_a_panel_of_one_is_its_user() -> None:
    for options in ({}, {"combine": "worst"}, {"combine": "mean"}, {"weights": [3.0]}, {"combine": lambda u: u[0]}):
        alone = evaluate(MASKS, intruder=USER, scientist=MU)
        panel = evaluate(MASKS, intruder=Panel([USER], **options), scientist=Panel([MU], **options))
        np.testing.assert_array_equal(panel.intruder_uncertainty, alone.intruder_uncertainty)
        np.testing.assert_array_equal(panel.scientist_uncertainty, alone.scientist_uncertainty)
        np.testing.assert_array_equal(panel.before, alone.before)


def test_panels_on_a_map_bound_their_members_and_keep_their_curves() -> None:
    intruders = Panel.vary(USER, prior_variance=[1.0, 5.0, 25.0])
    scientists = Panel([MU, User(BELIEF, Record(1), Quadratic())], weights=[2, 1])
    rumap = evaluate(MASKS, intruder=intruders, scientist=scientists)
    curves = np.stack([pick("auto", m, MASKS).solve(m, MASKS).uncertainty for m in intruders.members])
    np.testing.assert_allclose(rumap.intruder_uncertainty, curves.min(axis=0), rtol=1e-13)
    both = np.stack([pick("auto", m, MASKS).solve(m, MASKS).uncertainty for m in scientists.members])
    np.testing.assert_allclose(rumap.scientist_uncertainty, (2 * both[0] + both[1]) / 3, rtol=1e-13)
    columns = rumap.to_dataframe()
    for name, curve in zip(intruders.names, curves, strict=True):
        mine = [c for c in columns if name in c and "error" not in c]
        assert any(np.allclose(columns[c], curve) for c in mine), f"no column keeps the curve of {name}"


def test_panels_within_panels_and_snoopers() -> None:
    inner = Panel([USER, User(BELIEF, Record(1), Quadratic())], name="two")
    snooper = Snooper("row", Record(0), belief=BELIEF, name="snooper")
    outer = Panel([inner, snooper])
    assert outer.names == ("two", "snooper") and len(outer.users) == 3
    rumap = evaluate(MASKS[1:], intruder=outer, scientist=MU)
    parts = [pick("auto", u, MASKS[1:]).solve(u, MASKS[1:]).uncertainty for u in outer.users]
    np.testing.assert_allclose(rumap.intruder_uncertainty, np.min(parts, axis=0), rtol=1e-13)


# -- classes of users ----------------------------------------------------------------------------------


def test_over_is_every_combination() -> None:
    beliefs = [BELIEF, NormalBelief(records=5, variance=2.0, prior_mean=0.0, prior_variance=50.0)]
    panel = Panel.over(
        belief=beliefs, target=[Record(0), Parameter("mu")], loss=[Quadratic(), Huber(1.0)], name="all", combine="mean"
    )
    assert len(panel) == 8 and panel.combine == "mean" and panel.name == "all"
    assert len(set(panel.names)) == 8
    assert panel.names[0] == "prior_variance=5, record 0, the squared error"
    assert {(m.belief, m.target, type(m.loss)) for m in panel.members} == {
        (b, t, k) for b in beliefs for t in (Record(0), Parameter("mu")) for k in (Quadratic, Huber)
    }
    assert Panel.over(belief=BELIEF, target=Record(0), loss=Quadratic()).names == ("member 1",)


def test_vary_fields_of_the_belief_and_of_the_user() -> None:
    panel = Panel.vary(USER, prior_variance=[1, 2], target=[Record(0), Record(4)], options={"weights": [1, 1, 1, 3]})
    assert [m.belief.prior_variance for m in panel.members] == [1, 1, 2, 2]
    assert panel.names[3] == "prior_variance=2, target=Record(4)"
    assert panel.weights[3] == pytest.approx(0.5)
    coin = User(FiniteBelief([0.3, 0.7], likelihood=[[0.7, 0.3], [0.3, 0.7]], records=3), Record(0), ZeroOne())
    assert [m.belief.records for m in Panel.vary(coin, records=[2, 5]).members] == [2, 5]
    snooper = Snooper("row", Record(0), belief=BELIEF)
    assert vary_user(snooper, target=Record(3)).estimator == Row(3)
    assert vary_user(Snooper("mean", Record(0), belief=BELIEF), target=Record(3)).estimator != Row(3)
    with pytest.raises(InputError, match="prior_variance"):
        Panel.vary(USER, prior_varince=[1, 2])
    for bad in ({}, {"prior_variance": 3}, {"prior_variance": []}):
        with pytest.raises(InputError):
            Panel.vary(USER, **bad)
    with pytest.raises(InputError, match="User or a Snooper"):
        Panel.vary(Panel([USER]), prior_variance=[1])


def test_words_and_pickles() -> None:
    panel = Panel.vary(USER, prior_variance=[1.0, 5.0], options={"name": "Intruders"})
    words = panel.describe("intruder")
    assert words.startswith("Intruders of 2 users: the worst case") and "prior_variance=1" in words
    assert "their mean counts" in panel.describe("scientist")
    assert "weights 0.25, 0.75" in panel_of(2, weights=[1, 3]).describe()
    assert "And 3 more" in panel_of(7).describe()
    assert repr(panel) == "Panel(<2 users: prior_variance=1, prior_variance=5>, name='Intruders')"
    again = pickle.loads(pickle.dumps(panel))
    assert again.names == panel.names and again.weights == panel.weights
    assert panel_of(2, weights=[1, 3]).replace(lambda u: u).weights == (0.25, 0.75)


def test_bad_input() -> None:
    for members in ([], [3], 3, [USER, "x"]):
        with pytest.raises(InputError):
            Panel(members)
    for options in (
        {"weights": [1.0]},
        {"weights": [-1, 2]},
        {"weights": [0, 0]},
        {"weights": [1, 2], "combine": "worst"},
        {"combine": "best"},
    ):
        with pytest.raises(InputError):
            panel_of(2, **options)
    for options in (
        {"weights": [1, 2], "combine": np.mean},
        {"combine": 3},
        {"unit": "after"},
        {"unit": [1.0]},
        {"unit": [0.0, 1.0]},
        {"name": ""},
    ):
        with pytest.raises(InputError):
            panel_of(2, **options)
    with pytest.raises(InputError, match="same name"):
        Panel([User(BELIEF, Record(0), Quadratic(), name="a"), User(BELIEF, Record(1), Quadratic(), name="a")])
    with pytest.raises(InputError, match="names must be"):
        panel_of(2, names=["a"])
    with pytest.raises(InputError, match="one U per release"):
        panel_of(2, combine=lambda u: 1.0).merge(values_of(np.ones((2, 3))))
    with pytest.raises(InputError, match="one value per member"):
        panel_of(2).merge(values_of(np.ones((3, 3))))
    with pytest.raises(InputError, match="role"):
        panel_of(2).merge(values_of(np.ones((2, 3))), "agency")
