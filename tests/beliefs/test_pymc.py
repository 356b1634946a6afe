"""PyMC models meet files by name, take settings, and integrate over what is missing. Checked by closed forms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ruvdecision as ruv
from ruvdecision.errors import InputError
from ruvdecision.users.settings import settings_of, with_setting

S = np.array([[2.0, 0.8], [0.8, 1.0]])
DATA = pd.DataFrame([[0.3, 1.0], [2.2, 0.1], [-1.0, 3.0]], columns=["income", "age"], index=["id-4", "id-17", "id-2"])
OTHER = DATA[["age", "income"]]
NOISE = ruv.Noise(variance=[0.5, 1.5])


def survey(n, scale=1.0):
    import pymc as pm

    with pm.Model(coords={"variable": ["income", "age"], "person": range(n)}) as model:
        mu = pm.Normal("mu", [1.0, 2.0], scale, dims="variable")
        pm.MvNormal("x", mu, cov=S, dims=("person", "variable"))
    return model


def closed(scale=1.0):
    prior = {"prior_mean": [1.0, 2.0], "prior_covariance": scale**2 * np.eye(2)}
    return ruv.NormalBelief(records=3, covariance=S, columns=["income", "age"], **prior)


def u_of(belief, target, mask=NOISE, **options):
    user = ruv.User(belief, target, ruv.Quadratic())
    rumap = ruv.evaluate([mask], intruder=user, scientist=user, seed=3, replicates=1, **options)
    return float(rumap.intruder_uncertainty[0])


BELIEF = ruv.PyMCBelief(survey)
TARGETS = [ruv.Record("id-2", column="income"), ruv.Parameter("mu", component="age"), ruv.Average(column="age")]


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS[:2], ids=lambda t: t.describe())
def test_names_of_a_model_are_its_coords(target):
    engine = ruv.Quadrature()
    numbers = [u_of(BELIEF, target, data=file, engine=engine) for file in (DATA, OTHER)]
    assert numbers == pytest.approx([u_of(closed(), target, data=DATA)] * 2, rel=1e-6)
    user = ruv.User(BELIEF, target, ruv.Quadratic())
    release = NOISE.release(DATA, 1)
    means = [float(ruv.posterior(user, NOISE, r, engine=engine).mean()) for r in (release, release[["age", "income"]])]
    exact = ruv.posterior(ruv.User(closed(), target, ruv.Quadratic()), NOISE, release)
    assert means == pytest.approx([float(exact.mean())] * 2, abs=1e-6)


@pytest.mark.long
def test_missing_entries_are_integrated_out():
    gaps = DATA.copy()
    gaps.iloc[1, 0], gaps.iloc[2] = np.nan, np.nan
    for target in (ruv.Record("id-17", column="income"), ruv.Parameter("mu", component="age")):
        got = u_of(BELIEF, target, data=gaps[["age", "income"]], engine=ruv.Quadrature())
        assert got == pytest.approx(u_of(closed(), target, data=gaps), rel=1e-6)


def test_a_column_too_many_or_too_few():
    for odd in (DATA.assign(region="north"), DATA[["age"]]):
        with pytest.raises(InputError, match=r"must have the columns \['income', 'age'\]"):
            u_of(BELIEF, ruv.Record(0), data=odd)
    with pytest.raises(InputError, match="No entry of mu is called so"):
        u_of(BELIEF, ruv.Parameter("mu", component="wage"), data=DATA)


def test_settings_reach_the_builder():
    user = ruv.User(ruv.PyMCBelief(survey, size=3, scale=2.0), ruv.Parameter("mu"), ruv.Quadratic())
    assert settings_of(user.belief) == {"size": 3, "scale": 2.0}
    assert settings_of(BELIEF)["scale"] == 1.0  # the builder's default can be varied too
    panel = ruv.Panel.vary(user, scale=[0.5, 3.0])
    assert [member.belief.settings["scale"] for member in panel.members] == [0.5, 3.0]
    changed = with_setting(user, ["belief", "scale"], 0.7, "belief.scale")
    assert repr(changed.belief) == "PyMCBelief(survey, records='x', size=3, scale=0.7)"
    assert changed.belief.draw(np.random.default_rng(0)).shape == (3, 2)
    with pytest.raises(InputError, match="no such setting"):
        ruv.PyMCBelief(survey, sclae=2.0)
    with pytest.raises(InputError, match="Neither the user nor the belief"):
        ruv.Panel.vary(user, spread=[1.0])


@pytest.mark.long
def test_settings_move_the_numbers():
    users = [ruv.User(ruv.PyMCBelief(survey, scale=s), TARGETS[1], ruv.Quadratic()) for s in (0.2, 1.0)]
    rumap = ruv.evaluate(
        [NOISE], intruder=ruv.Panel(users, combine="mean"), scientist=users[1], data=DATA, replicates=1, seed=1
    )
    exact = [u_of(closed(s), TARGETS[1], data=DATA) for s in (0.2, 1.0)]
    assert float(rumap.intruder_uncertainty[0]) == pytest.approx(np.mean(exact), rel=1e-6)


@pytest.mark.long
def test_a_model_may_be_given_itself():
    belief = ruv.PyMCBelief(survey(3))
    assert belief.records == 3
    assert u_of(belief, TARGETS[1], data=OTHER, engine=ruv.Quadrature()) == pytest.approx(
        u_of(closed(), TARGETS[1], data=DATA), rel=1e-6
    )
    with pytest.raises(InputError, match="for 3 records"):
        u_of(belief, TARGETS[1], data=DATA.iloc[:2])
    for wrong in (lambda: ruv.PyMCBelief(survey(3), size=4), lambda: ruv.PyMCBelief(survey(3), records="y")):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InputError, match="takes no settings"):
        ruv.PyMCBelief(survey(3), scale=2.0)


@pytest.mark.long
def test_a_missing_record_is_as_good_as_a_parameter():
    """A record that nobody has is what a model says that writes it as a parameter, and the rest without it."""

    def whole(n):
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu", 1.0, 1.0)
            pm.LogNormal("x", mu, 0.5, shape=n)
        return model

    def listwise(n):
        import pymc as pm

        with pm.Model() as model:
            mu = pm.Normal("mu", 1.0, 1.0)
            pm.LogNormal("lost", mu, 0.5)
            pm.LogNormal("x", mu, 0.5, shape=n)
        return model

    data, mask, engine = np.array([2.0, np.nan, 4.0]), ruv.Round(base=1.0), ruv.Quadrature()
    there = data[[0, 2]]
    for one, other in ((ruv.Record(1), ruv.Parameter("lost")), (ruv.Parameter("mu"), ruv.Parameter("mu"))):
        got = u_of(ruv.PyMCBelief(whole), one, mask, data=data, engine=engine)
        assert got == pytest.approx(u_of(ruv.PyMCBelief(listwise), other, mask, data=there, engine=engine), rel=1e-4)


def numbers(n):
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 1.0, 2.0)
        pm.Normal("x", mu, 1.5, shape=n)
    return model


@pytest.mark.slow
def test_labels_gaps_and_weights_of_one_variable():
    exact = ruv.NormalBelief(records=3, variance=2.25, prior_mean=1.0, prior_variance=4.0)
    mask, data = ruv.Noise(variance=1.0), pd.Series([1.0, 0.0, 3.0], index=["a", "b", "c"])
    gap = data.replace(0.0, np.nan)
    for file in (data, gap):
        for target in (
            ruv.Record("b"),
            ruv.Parameter("mu"),
            ruv.Average(weights=pd.Series({"c": 1.0, "a": 3.0, "b": 2.0})),
        ):
            got = u_of(ruv.PyMCBelief(numbers), target, mask, data=file)
            assert got == pytest.approx(u_of(exact, target, mask, data=file), rel=1e-6)
    model = ruv.PyMCBelief(numbers(3))
    assert u_of(model, ruv.Record("b"), mask, data=gap) == pytest.approx(u_of(exact, ruv.Record("b"), mask, data=gap))
