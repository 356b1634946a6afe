"""Every function that decides, plots or asks what if, with junk in the place of every argument, and on maps at the edge."""

from __future__ import annotations

from operator import attrgetter

import matplotlib.pyplot as plt
import numpy as np
import pytest
from edges import attempt
from junk import JUNK

import ruvdecision as ruv

BELIEF = ruv.NormalBelief(records=3, variance=1, prior_variance=1)
INTRUDER = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic())
SCIENTIST = ruv.User(BELIEF, ruv.Parameter("mu"), ruv.Quadratic())
MASKS = [ruv.Suppress(), ruv.Noise(variance=1.0), ruv.Noise(variance=4.0)]
RUMAP = ruv.evaluate(MASKS, intruder=INTRUDER, scientist=SCIENTIST)
COIN = ruv.FiniteBelief([0.3, 0.7], likelihood=[[0.7, 0.3], [0.3, 0.7]], records=2)
COIN_USER = ruv.User(COIN, ruv.Record(0), ruv.Quadratic())
USERS = {"intruder": INTRUDER, "scientist": SCIENTIST}
DATA = np.array([0.3, -1.2, 0.5])

#: Every function with arguments that are right; junk takes the place of one at a time.
RIGHT = {
    "evaluate": {
        "masks": MASKS,
        **USERS,
        "data": DATA,
        "engine": "exact",
        "replicates": 3,
        "seed": 1,
        "risk": "gain",
        "utility": "gain",
    },
    "posterior": {"user": INTRUDER, "mask": MASKS[1], "release": DATA, "engine": "auto"},
    "choose": {
        "rumap": RUMAP,
        "max_risk": 3.0,
        "by": ruv.decide.MostUseful(),
        "tolerance": 1e-9,
        "confidence": 0.9,
        "converged": True,
        "errors": ruv.decide.Errors("shared", draws=10),
    },
    "choose by weights": {
        "weights": {"risk": 1.0, "utility": 1.0},
        "columns": ["risk", "utility"],
        "frontier_confidence": 0.5,
    },
    "choose in order": {"order": ["utility", "risk"], "slack": {"utility": 0.1}},
    "choose by loss": {"loss": lambda risk, utility: risk - utility},
    "frontier": {"rumap": RUMAP, "tolerance": 1e-12, "columns": ["risk", "utility"]},
    "frontier with probabilities": {"rumap": RUMAP, "probability": ruv.decide.Errors(draws=10)},
    "probabilities": {
        "rumap": RUMAP,
        "max_risk": 3.0,
        "columns": ["risk", "utility"],
        "errors": ruv.decide.Errors(draws=10),
    },
    "Errors": {"correlation": "shared", "draws": 10, "seed": 0},
    "explain": {"rumap": RUMAP, "release": "Suppress()", "columns": ["risk", "utility"], "tolerance": 1e-12},
    "dominated_releases": {"rumap": RUMAP, "columns": ["risk", "utility"], "tolerance": 1e-12},
    "optimise": {
        "family": ruv.analyses.MaskFamily(ruv.Noise, variance=(0.5, 4.0)),
        "max_risk": 3.0,
        **USERS,
        "risk": "reciprocal",
        "utility": "reciprocal",
        "seed": 0,
        "search": ruv.analyses.Search(starts=2),
    },
    "sensitivity": {
        "study": MASKS,
        "vary": {"intruder.belief.prior_variance": [1.0, 2.0]},
        "max_risk": 3.0,
        **USERS,
        "together": False,
        "rule": {"confidence": 0.9},
        "tolerance": 0.01,
    },
    "limit": {
        "intruder": COIN_USER,
        "scientist": COIN_USER,
        "max_risk": [5.0],
        "risk": "gain",
        "utility": "gain",
        "statistic": "records",
    },
    "worth": {
        "user": INTRUDER,
        "mask": MASKS[1],
        "than": MASKS[2],
        "data": DATA,
        "engine": "exact",
        "seed": 1,
        "what": "less noise",
    },
    "one_more_record": {"user": INTRUDER, "mask": MASKS[1], "row": -1},
    "one_more_digit": {"user": COIN_USER, "base": 1.0, "mask": ruv.Release(), "digits": 1},
    "record_risk": {
        "masks": MASKS[1:],
        "intruder": INTRUDER,
        "data": DATA,
        "groups": ["a", "b", "a"],
        "rows": [0, 1, 2],
        "engine": "auto",
        "replicates": 2,
        "seed": 1,
        "risk": "reciprocal",
    },
    "price_of_publishing": {"masks": MASKS[1:], **USERS, "mask_prior": [1.0, 4.0]},
    "calibrate": {
        "belief": BELIEF,
        "mask": MASKS[1],
        "target": ruv.Record(0),
        "simulations": 10,
        "draws": 9,
        "engine": "exact",
        "alpha": 0.01,
        "seed": 1,
    },
    "plots.rumap": {
        "rumap": RUMAP,
        "max_risk": 3.0,
        "ax": None,
        "frontier": True,
        "labels": True,
        "legend": True,
        "log": "auto",
        "title": "a",
        "limit": None,
    },
    "plots.maps": {
        "maps": [RUMAP, RUMAP],
        "max_risk": 3.0,
        "figure": None,
        "names": ["a", "b"],
        "across": 2,
        "share": True,
        "labels": False,
        "style": None,
    },
    "plots.uncertainty": {
        "rumap": RUMAP,
        "parameter": "variance",
        "ax": None,
        "users": ["intruder"],
        "relative": True,
        "log": False,
        "style": None,
    },
    "plots.posteriors": {
        "user": INTRUDER,
        "masks": MASKS[:2],
        "ax": None,
        "data": DATA,
        "seed": 1,
        "prior": True,
        "truth": 0.3,
        "engine": "auto",
    },
}
#: Those that take longer than a moment.
SLOW = {
    "price_of_publishing",
    "calibrate",
    "limit",
    "plots.rumap",
    "plots.maps",
    "plots.posteriors",
    "plots.uncertainty",
}
#: Where a large number is work, which would be done.
HEAVY = {("calibrate", "simulations"), ("calibrate", "draws"), ("one_more_digit", "digits")}
#: Methods of a map, and variants of one function.
CALLS = {
    "choose by weights": lambda weights, **options: RUMAP.choose(by=ruv.decide.Weighted(weights), **options),
    "choose in order": lambda order, slack: RUMAP.choose(3.0, ruv.decide.Lexicographic(order, slack)),
    "choose by loss": lambda loss: RUMAP.choose(by=ruv.decide.ExpectedLoss(loss)),
    "frontier with probabilities": ruv.decide.frontier,
}


def called(name):
    if name in CALLS:
        return CALLS[name]
    rooms = (ruv, ruv.decide, ruv.analyses)
    return next(attrgetter(name)(room) for room in rooms if hasattr(room, name.split(".")[0]))


@pytest.mark.slow
@pytest.mark.campaign(8, "slow")
@pytest.mark.parametrize(
    "name", sorted(set(RIGHT) - SLOW) + [pytest.param(n, marks=pytest.mark.long) for n in sorted(SLOW)]
)
def test_junk_in_every_argument(name):
    """A result, or a RuvError; nothing else, and the junk is left as it was."""
    arguments, wrong = RIGHT[name], []
    called(name)(**arguments)
    for field in arguments:
        for junk, thing in JUNK.items():
            if (name, field) in HEAVY and junk in ("a large integer", "1e308"):
                continue  # it would be done
            try:
                attempt(lambda value: called(name)(**{**arguments, field: value}), thing(), kind="functions")  # noqa: B023
            except Exception as error:
                wrong.append(f"{field} = {junk}: {type(error).__name__}: {str(error)[:100]}")
            plt.close("all")
    assert not wrong, f"{len(wrong)} of {name}: " + "; ".join(wrong)


def a_map(intruder, scientist, error=0.0, **columns):
    intruder, scientist = np.asarray(intruder, dtype=float), np.asarray(scientist, dtype=float)
    values = [
        ruv.protocols.Value(u, np.broadcast_to(np.asarray(error, dtype=float), u.shape)) for u in (intruder, scientist)
    ]
    return ruv.RUMap.build(
        labels=[f"r{i}" for i in range(len(intruder))], intruder=values[0], scientist=values[1], columns=columns
    )


#: Maps at the edge. Uncertainties of zero are infinite risks and utilities.
MAPS = {
    "one release": lambda: a_map([2.0], [1.0]),
    "all equal": lambda: a_map([2.0] * 4, [1.0] * 4),
    "ties in risk": lambda: a_map([2.0, 2.0, 1.0], [1.0, 3.0, 2.0]),
    "infinite risk": lambda: a_map([0.0, 2.0], [0.0, 1.0]),
    "only infinite": lambda: a_map([0.0, 0.0], [0.0, 0.0]),
    "nothing learnt": lambda: a_map([np.inf, 2.0], [np.inf, 1.0]),
    "huge and tiny": lambda: a_map([1e-150, 1e150, 1.0], [1e150, 1e-150, 1.0]),
    "errors": lambda: a_map([2.0, 1.9, 0.5], [1.0, 0.9, 0.3], 0.2),
    "infinite errors": lambda: a_map([2.0, 1.0], [1.0, 0.5], np.inf),
    "many": lambda: a_map(np.linspace(1, 2, 3000), np.linspace(2, 1, 3000)),
}


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize("name", MAPS)
def test_maps_at_the_edge(name):
    """Every question about every map has an answer or a RuvError, and no figure is left open."""
    rumap, failed = MAPS[name](), []
    asks = {
        "choose": lambda: rumap.choose(max_risk=0.6),
        "choose all": lambda: rumap.choose(max_risk=np.inf),
        "choose with confidence": lambda: rumap.choose(
            max_risk=0.6, confidence=0.9, errors=ruv.decide.Errors(draws=20)
        ),
        "choose by weights": lambda: rumap.choose(
            by=ruv.decide.Weighted({"risk": 1.0, "utility": 2.0}), errors=ruv.decide.Errors(draws=20)
        ),
        "choose in order": lambda: rumap.choose(
            by=ruv.decide.Lexicographic(["utility", "risk"]), errors=ruv.decide.Errors(draws=20)
        ),
        "choose by loss": lambda: rumap.choose(
            by=ruv.decide.ExpectedLoss(lambda risk, utility: risk - utility), errors=ruv.decide.Errors(draws=20)
        ),
        "frontier": lambda: rumap.frontier(),
        "frontier with probabilities": lambda: rumap.frontier(probability=ruv.decide.Errors(draws=20)),
        "probabilities": lambda: rumap.probabilities(0.6, errors=ruv.decide.Errors(draws=20)),
        "explain": lambda: str(rumap.explain(0)),
        "dominated": lambda: rumap.dominated(),
        "text": lambda: repr(rumap) + rumap._repr_html_(),
        "plot": lambda: rumap.plot(max_risk=0.6),
        "plot with logarithms": lambda: rumap.plot(log=True),
    }
    for ask, question in asks.items():
        try:
            found = attempt(question, kind="functions")
            if ask == "frontier" and isinstance(found, ruv.RUMap):
                assert set(found.releases) <= set(rumap.releases)
            if ask.startswith("plot") and not isinstance(found, ruv.RuvError):
                assert hasattr(found, "set_xlim")
            if ask == "choose" and not isinstance(found, ruv.RuvError):
                assert found.risk <= 0.6 * (1 + 1e-9)
                allowed = rumap.utility[rumap.risk <= 0.6]
                assert found.utility == allowed.max()
        except Exception as error:
            failed.append(f"{ask}: {type(error).__name__}: {str(error)[:150]}")
        plt.close("all")
    assert not failed, f"{name}: " + "; ".join(failed)


def test_an_error_leaves_no_figure_behind():
    plt.close("all")
    for call in (
        lambda: RUMAP.plot(title=3),
        lambda: RUMAP.plot(log="nonsense"),
        lambda: RUMAP.plot(max_risk=-1),
        lambda: ruv.plots.maps([RUMAP], across=0),
        lambda: ruv.plots.uncertainty(RUMAP, "nonsense"),
        lambda: ruv.plots.rumap(None),
        lambda: ruv.plots.knowledge(None),
        lambda: ruv.plots.tornado(None),
        lambda: ruv.plots.knowledge(RUMAP, title=3),
        lambda: ruv.plots.knowledge(RUMAP, risk_range=(2, 1)),
    ):
        assert isinstance(attempt(call, kind="functions"), ruv.RuvError)
    assert plt.get_fignums() == []


BAD_STUDIES = {
    "no masks": {"masks": []},
    "a generator of masks": {"masks": (m for m in MASKS)},
    "a mask twice": {"masks": [MASKS[1], MASKS[1]]},
    "not masks": {"masks": [MASKS[0], "noise"]},
    "the class of a mask": {"masks": [ruv.Noise]},
    "one mask": {"masks": MASKS[1]},
    "no executor": {"executor": 3},
    "replicates of zero": {"replicates": 0},
    "replicates of a half": {"replicates": 0.5},
    "a seed below zero": {"seed": -1},
    "a seed of text": {"seed": "1"},
    "a risk that rises": {"risk": lambda u: u},
    "a risk that is NaN": {"risk": lambda u: float("nan")},
    "a risk that raises": {"risk": lambda u: 1 / 0},
    "a risk that is constant": {"risk": lambda u: 1.0},
    "an engine that is none": {"engine": "fastest"},
    "an engine's class": {"engine": ruv.Exact},
    "measures without data": {"measures": [ruv.measures.Means()] if isinstance(ruv.measures.Means, type) else []},
    "swapped users": {"intruder": BELIEF},
}


@pytest.mark.parametrize("name", BAD_STUDIES)
def test_studies_at_the_edge(name):
    settings = {"masks": MASKS, **USERS, **BAD_STUDIES[name]}
    found = attempt(lambda: ruv.evaluate(**settings), kind="functions")
    good = {"a generator of masks": 3, "one mask": 1}
    assert (len(found) == good[name]) if name in good else isinstance(found, ruv.RuvError)


def test_the_limit_checks_the_functions_of_u():
    """As every map does: they fall, and they are numbers."""
    for odd in (lambda u: u, lambda u: float("nan"), lambda u: 1.0, lambda u: "three"):
        for role in ("risk", "utility"):
            found = attempt(
                lambda: ruv.limit(COIN_USER, COIN_USER, **{"max_risk": [0.1], "risk": "gain", role: odd}),  # noqa: B023
                kind="functions",
            )
            assert isinstance(found, ruv.RuvError)
