"""The sampler's settings and power-scaling with junk for every argument, on a model that is really sampled."""

from __future__ import annotations

import numpy as np
import pytest
from edges import attempt
from junk import JUNK

import ruvdecision as ruv
from ruvdecision.errors import RuvError

# PyMC and its libraries speak about their own future when a builder imports them.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def build(n):
    import pymc as pm

    with pm.Model() as model:
        pm.Normal("x", pm.Normal("mu", 1.0, 2.0), 1.5, shape=n)
    return model


MODEL = ruv.PyMCBelief(build, size=4)
NORMAL = ruv.NormalBelief(records=4, variance=2.25, prior_mean=1, prior_variance=4)
COIN = ruv.FiniteBelief([0.3, 0.7], likelihood=[[0.7, 0.3], [0.3, 0.7]], records=4)
DATA = np.array([0.3, 2.1, -1.0, 4.2])
MASKS = [ruv.Noise(variance=1.0), ruv.Noise(variance=2.0)]
USERS = {
    "intruder": ruv.User(MODEL, ruv.Record(0), ruv.Quadratic()),
    "scientist": ruv.User(MODEL, ruv.Parameter("mu"), ruv.Quadratic()),
}

SETTINGS = {
    "draws": 20,
    "tune": 20,
    "chains": 2,
    "sampler": "auto",
    "target_accept": 0.8,
    "target_mcse": 0.1,
    "max_draws": 100,
    "strict": False,
    "keep": False,
    "reuse": True,
    "prior_power": 1.0,
    "likelihood_power": 1.0,
}
#: Numbers at the edge of what a setting may be, beside the junk.
NUMBERS = {f"{x:g}": (lambda x=x: x) for x in (1e-300, 1e-9, 1 - 1e-16, 1e3, 1e300)}
#: Where a large number is work, which would be done.
HEAVY = ("draws", "tune", "chains", "max_draws")
#: Plain types, which are kept whatever was given.
PLAIN = {"draws": int, "tune": int, "chains": int, "max_draws": int, "sampler": str, "target_accept": float}
PLAIN |= {"prior_power": float, "likelihood_power": float}


def sampled(engine, **options):
    return ruv.evaluate(MASKS, **USERS, data=DATA, engine=engine, seed=1, **options)


@pytest.fixture(scope="module")
def compiled():
    """The model is compiled before warnings are failures: what PyMC says then is not ours."""
    return sampled(ruv.Sampling(**SETTINGS))


@pytest.mark.long
@pytest.mark.parametrize("field", SETTINGS)
def test_junk_in_every_setting_of_the_sampler(field, compiled):
    """A RuvError; or settings of plain types that say what they are, and a map of numbers with errors."""
    wrong, made = [], 0
    for junk, thing in (JUNK | NUMBERS).items():
        if field in HEAVY and junk in ("a large integer", "1e308", "1000", "1e+300"):
            continue  # it would be done
        try:
            found = attempt(lambda value: ruv.Sampling(**{**SETTINGS, field: value}), thing(), kind="constructors")
            if isinstance(found, RuvError):
                continue
            made += 1
            assert type(getattr(found, field)) is PLAIN.get(field, type(getattr(found, field)))
            assert eval(repr(found), {"Sampling": ruv.Sampling, "np": np}) == found
            rumap = attempt(lambda: sampled(found), kind="constructors")  # noqa: B023
            if isinstance(rumap, RuvError):
                assert found.strict and isinstance(rumap, ruv.ConvergenceError)
                continue
            assert np.all(rumap.intruder_uncertainty > 0) and np.all(np.isfinite(rumap.intruder_uncertainty))
            assert np.all(rumap.intruder.error >= 0) and np.all(np.isfinite(rumap.intruder.error))
            if getattr(found, field) == SETTINGS[field]:
                np.testing.assert_array_equal(rumap.intruder_uncertainty, compiled.intruder_uncertainty)
        except Exception as error:
            wrong.append(f"{junk}: {type(error).__name__}: {str(error)[:100]}")
    assert not wrong, f"{len(wrong)} of {field}: " + "; ".join(wrong)
    assert made or field in ("draws", "tune", "max_draws", "sampler")


@pytest.mark.long
def test_an_error_that_cannot_be_reached_uses_up_the_budget(compiled):
    """However small it is."""
    for target in (1e-9, 1e-300, 5e-324):
        table = sampled(ruv.Sampling(**{**SETTINGS, "target_mcse": target})).to_dataframe()
        assert set(table["intruder_budget"]) == {"not reached with 100 draws"}


@pytest.mark.long
@pytest.mark.parametrize(
    "field", ["masks", "intruder", "scientist", "data", "powers", "max_risk", "engine", "seed", "replicates"]
)
def test_junk_in_every_argument_of_power_scaling(field, compiled):
    """A result with finite maps, or a RuvError."""
    engine = ruv.Sampling(**{**SETTINGS, "target_mcse": None})
    right = {
        "masks": MASKS,
        **USERS,
        "data": DATA,
        "powers": (0.8,),
        "max_risk": 1.5,
        "engine": engine,
        "seed": 1,
        "replicates": 1,
    }
    ruv.analyses.power_scaling(**right)
    wrong = []
    for junk, thing in JUNK.items():
        if (field, junk) == ("replicates", "a large integer") or (field, junk) == ("engine", "None"):
            continue  # it would be done, with all draws
        try:
            found = attempt(
                lambda value: ruv.analyses.power_scaling(**{**right, field: value}), thing(), kind="functions"
            )
            if isinstance(found, RuvError):
                continue
            assert isinstance(found, ruv.analyses.Sensitivity)
            for each in found.variations:
                assert np.all(np.isfinite(each.rumap.risk)) and np.all(np.isfinite(each.rumap.utility))
        except Exception as error:
            wrong.append(f"{junk}: {type(error).__name__}: {str(error)[:100]}")
    assert not wrong, f"{len(wrong)} of {field}: " + "; ".join(wrong)


def person(belief, **options):
    return ruv.User(belief, ruv.Record(0), ruv.Quadratic(), **options)


SNOOPER = ruv.Snooper("row", ruv.Record(0))
#: Users, arguments and what the refusal says.
CANNOT = {
    "normal beliefs": ({"intruder": person(NORMAL), "scientist": person(NORMAL)}, "got NormalBelief"),
    "a finite belief": ({"intruder": person(COIN), "scientist": person(COIN)}, "got FiniteBelief"),
    "snoopers": ({"intruder": SNOOPER, "scientist": SNOOPER}, "got Snooper"),
    "a panel of them": (
        {"intruder": ruv.Panel([person(NORMAL), SNOOPER]), "scientist": SNOOPER},
        "got NormalBelief, Snooper",
    ),
    "one of two": ({"intruder": person(NORMAL)}, "needs a PyMCBelief"),
    "a belief for a user": ({"intruder": MODEL}, "must be a User"),
    "no powers": ({"powers": []}, "other than 1"),
    "the power one": ({"powers": [1.0, 1]}, "other than 1"),
    "one number": ({"powers": 0.8}, "powers must be a list"),
    "text": ({"powers": "0.8"}, "powers must be a list"),
    "numbers as text": ({"powers": ["0.8"]}, "powers must be a number"),
    "the power zero": ({"powers": [0.0]}, r"in \(0, 1000\]"),
    "a negative power": ({"powers": [-1.0]}, r"in \(0, 1000\]"),
    "a power without end": ({"powers": [np.inf]}, r"in \(0, 1000\]"),
    "a power that leaves one draw": ({"powers": [1e308]}, r"in \(0, 1000\]"),
    "another engine": ({"engine": ruv.Quadrature()}, "must be a Sampling; got a Quadrature"),
    "an engine's name": ({"engine": "sampling"}, "must be a Sampling; got a str"),
    "an engine's class": ({"engine": ruv.Sampling}, "must be a Sampling"),
    "an argument that evaluate does not have": ({"draws": 100}, "evaluate has no such argument; got draws"),
    "records that cannot be integrated out": (
        {"masks": [ruv.Noise(variance=1.0) | ruv.Microaggregate(groups=2)]},
        "integrated out",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n.startswith("records that") else n for n in CANNOT]
)
def test_what_power_scaling_cannot_take(name):
    change, words = CANNOT[name]
    arguments = {
        "masks": MASKS,
        **USERS,
        "data": DATA,
        "engine": ruv.Sampling(draws=20, tune=20, chains=1),
        "seed": 1,
        **change,
    }
    with pytest.raises(RuvError, match=words) as caught:
        ruv.analyses.power_scaling(**arguments)
    assert caught.value.what and caught.value.do


@pytest.mark.long
def test_a_snooper_does_not_move_with_the_prior(compiled):
    """He stands beside a sampled user, who does."""
    result = ruv.analyses.power_scaling(
        (mask for mask in MASKS),
        intruder=SNOOPER,
        scientist=USERS["scientist"],
        data=DATA,
        powers=[0.5, 2.0],
        seed=1,
        engine=ruv.Sampling(draws=200, tune=100, chains=2),
    )
    assert len(result.variations) == 4
    for each in result.variations:
        np.testing.assert_array_equal(each.rumap.risk, result.base.rumap.risk)
        assert np.all(each.rumap.utility != result.base.rumap.utility)
