"""No error tells a record: data that must be refused, full of secrets, for everything that takes data.

Masks and measures come from the lists that the contract tests keep, so a newcomer is tried here on arrival. What is
raised may be of any kind in this file (other tests ask for a `RuvError`): here it is searched, with its causes, notes
and warnings.
"""

from __future__ import annotations

import decimal
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from edges import tried
from examples import MASKS, MEASURES, measure_names, spelt
from sentinels import CATEGORY, DATE, LARGEST, SECRETS, WHO, WHOLE, chain, labelled, leaks, numbers, table

import ruvdecision as ruv
from ruvdecision import measures
from ruvdecision.data.read import read_data
from ruvdecision.errors import FEW, InputError, RuvError, describe_failure, kind_of
from ruvdecision.masks import synthesize

TRADE = ["baker", "smith"]
HALVES = [[0.9, 0.1], [0.2, 0.8]]

#: Data with something wrong about them, made anew each time.
BAD: dict[str, Callable[[], Any]] = {
    "a gap": lambda: np.array([*SECRETS[:4], np.nan]),
    "infinite": lambda: np.array([*SECRETS[:4], np.inf]),
    "plain": numbers,
    "huge": lambda: np.array([*SECRETS[:4], 1e308]),
    "text": lambda: np.array([WHO, *map(str, SECRETS[:4])]),
    "bytes": lambda: np.array([WHO.encode()] * 5),
    "objects": lambda: np.array([WHO, SECRETS[0], None, WHOLE, DATE], dtype=object),
    "lists in cells": lambda: pd.DataFrame(
        {"income": [[x, WHO] for x in SECRETS], "trade": [{WHO: x} for x in SECRETS]}
    ),
    "a cube": lambda: np.array(SECRETS * 4).reshape(5, 2, 2),
    "one number": lambda: SECRETS[0],
    "rows of different lengths": lambda: [[SECRETS[0]], [SECRETS[1], WHO]],
    "a set": lambda: {*SECRETS},
    "a dictionary": lambda: {"income": list(SECRETS), WHO: 1},
    "complex": lambda: numbers() + 1j,
    "dates": lambda: pd.DataFrame({"income": [DATE] * 5, "trade": pd.PeriodIndex([DATE] * 5, freq="D"), "x": SECRETS}),
    "spans": lambda: pd.DataFrame(
        {"income": pd.to_timedelta([DATE.value] * 5), "x": pd.interval_range(0, SECRETS[0], periods=5)}
    ),
    "categories": lambda: pd.DataFrame({"trade": pd.Categorical([CATEGORY, "b", "b", "c", "c"]), "income": SECRETS}),
    "decimals": lambda: pd.DataFrame(
        {"income": [decimal.Decimal(str(x)) for x in SECRETS], "trade": [str(x) for x in SECRETS]}
    ),
    "one row": lambda: pd.DataFrame({"income": [SECRETS[0]], "trade": [WHO]}),
    "constant": lambda: pd.DataFrame({"income": [SECRETS[0]] * 5, "trade": [WHO] * 5}),
    "a table of counts": lambda: np.array([[WHOLE, 1], [2, 3]]),
    "a table of other numbers": lambda: np.array([[-WHOLE, SECRETS[0]], [2, 3]]),
    "a name twice": lambda: pd.DataFrame([SECRETS[:2]] * 5, columns=["income", "income"]),
    "rows named after people": lambda: pd.DataFrame({"income": SECRETS, "trade": [WHO] * 5}, index=[WHO] * 5),
    "all kinds": labelled,
    "all kinds with gaps": lambda: labelled().mask(np.random.default_rng(0).random((60, 8)) < 0.1),
}

#: Masks with other settings than the examples of the contract tests.
OTHERS = [
    ruv.Noise(share=0.2),
    ruv.Noise(sd=lambda x: x),
    ruv.Noise(sd=1.0, columns=["name"]),
    ruv.Noise(covariance=[[1, 0], [0, 1]]),
    ruv.masks.MomentNoise(share=0.1),
    ruv.Microaggregate(size=3, by="mdav"),
    ruv.Microaggregate(size=3, within=["trade"], columns=["income"]),
    ruv.Microaggregate(size=3, within=["name"]),
    ruv.PRAM(HALVES, columns=["trade"]),
    ruv.PRAM(HALVES, columns=["trade"], categories=TRADE),
    ruv.PRAM(stay=0.8, columns=["trade"], categories=TRADE),
    ruv.PRAM(HALVES, columns=[0]),
    ruv.PRAM(stay=0.8),
    ruv.Recode(categories={"baker": "x"}, columns=["trade"]),
    ruv.Recode(categories={"baker": "x"}, columns=[0]),
    ruv.Recode(bins=[0, 1, 2], columns=["income"]),
    ruv.Recode(width=1e-9),
    ruv.Topcode(quantile=0.9),
    ruv.Topcode(at=3.0, columns=["trade"]),
    ruv.Stochastic(HALVES, inputs=TRADE, outputs=TRADE),
    ruv.Stochastic(HALVES, columns=["trade"]),
    ruv.SuppressCells(cells="all"),
    ruv.Swap(rate=0.5, columns=["trade"]),
    ruv.RankSwap(within=0.2, columns=["trade"]),
    ruv.LocalSuppress(k=100, keys=["trade"]),
    ruv.DataShuffle(columns=["income"], given=["trade"]),
    ruv.Synthesize(method="regression"),
    ruv.Synthesize(method="cart"),
    ruv.Subsample(size=100),
    ruv.masks.Mechanism(np.ones((6, 1)), outputs=[0.5], outcomes=[0, 1], records=5),
]


def heard(call: Callable[[], Any]) -> str:
    """All that a call says when it goes wrong: the error with its causes, and warnings."""
    tried("leaks")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
            said = ""
        except Exception as error:
            said = chain(error)
    return "\n".join([said, *(str(w.message) for w in caught)])


def telling(calls: dict[str, Callable[[], Any]]) -> dict[str, str]:
    """The calls that tell a record, with the first line that does."""
    told = {name: heard(call) for name, call in calls.items()}
    return {
        name: next((line for line in said.splitlines() if leaks(line)), said)[:250]
        for name, said in told.items()
        if leaks(said)
    }


@pytest.mark.parametrize("mask", [*MASKS.values(), *OTHERS], ids=lambda m: str(m)[:70])
def test_masks(mask: ruv.Mask) -> None:
    assert telling({name: lambda make=make: mask.release(make(), 1) for name, make in BAD.items()}) == {}


#: The same arguments for the columns of `sentinels.labelled`.
SPELT = {"a": "income", "b": "age", "c": "tax", "g": "trade", "h": "name", "a ~ b + c": "income ~ age + trade"}


@pytest.mark.campaign(6)
@pytest.mark.parametrize("name", measure_names())
def test_measures(name: str) -> None:
    given = {k: spelt(v, SPELT) for k, v in MEASURES.get(name, {}).items()}
    measure, whole = getattr(measures, name)(**given), labelled()
    calls: dict[str, Callable[[], Any]] = {}
    for what in (
        "a gap",
        "text",
        "objects",
        "lists in cells",
        "dates",
        "categories",
        "decimals",
        "constant",
        "all kinds with gaps",
        "a set",
    ):
        calls[f"{what} released"] = lambda what=what: measure(whole, BAD[what]())
        calls[f"{what} original"] = lambda what=what: measure(BAD[what](), whole)
        calls[f"{what} both"] = lambda what=what: measure(BAD[what](), BAD[what]())
    calls["another category"] = lambda: measure(whole, whole.assign(trade=CATEGORY))
    calls["fewer rows"] = lambda: measure(whole, whole.iloc[:5])
    calls["one row"] = lambda: measure(whole.iloc[5:7], whole.iloc[5:6])
    assert telling(calls) == {}


def test_models_of_measures() -> None:
    """Formulas with categories: coefficients are named after values, and errors must not name them."""
    whole = labelled()
    copy = whole.assign(double=whole["trade"], owned=whole["owner"].astype(int), one=SECRETS[0])
    calls = {
        str(model): lambda model=model: ruv.measures.IntervalOverlap(model)(copy, copy)
        for model in (
            "income ~ trade + double",
            "income ~ trade + one",
            "income ~ name + trade",
            "income ~ trade * name",
            "trade ~ age",
            "np.log(wealth) ~ trade",
            "income ~ trade + np.log(wealth)",
            "income ~ no_such(trade)",
            "income ~ C(trade, levels=['baker'])",
            "income ~ C(trade, contr.treatment(base='no such'))",
            "income ~ C(born)",
            "income ~ bs(wealth, df=3) + poly(income, 2)",
            "income ~ Q('no such')",
            measures.Logistic("trade ~ age"),
            measures.Logistic("owned ~ trade"),
            measures.Logistic("owned ~ one"),
            measures.Logistic("income ~ age"),
            measures.Poisson("wealth ~ trade"),
            measures.Statistic(lambda x: float(WHO), columns=["income"]),
            measures.Statistic(lambda x: np.full((2, 2), SECRETS[0]), columns=["income"]),
        )
    }
    odd = pd.DataFrame([[0.5, 0.5], [0.5, 0.5]], index=TRADE, columns=TRADE)
    calls["transition"] = lambda: measures.EntropyLoss(transition={"trade": odd}, columns=["trade"])(whole, whole)
    calls["another response"] = lambda: ruv.measures.IntervalOverlap(measures.Logistic("trade ~ age"))(
        whole[whole["trade"].isin(TRADE)], whole[whole["trade"].isin(["baker", CATEGORY])]
    )
    calls["statistic"] = lambda: measures.VarianceInflation(statistic=lambda t: WHO)(whole, whole)
    assert telling(calls) == {}


BELIEF = ruv.NormalBelief(records=5, variance=1.0, prior_variance=1.0)
USER = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic())
FINITE = ruv.User(
    ruv.FiniteBelief(values=[0, 1], probabilities=[0.5, 0.5], records=5, likelihood=HALVES),
    ruv.Record(0),
    ruv.ZeroOne(),
)
TABLE = ruv.User(ruv.TableBelief(shape=(2, 2), total=5), ruv.Cell((0, 0)), ruv.Quadratic())
WHICH = ruv.User(BELIEF, ruv.Identity(0, known=[0]), ruv.ZeroOne())
SNOOPER = ruv.Snooper("max", ruv.Maximum())


def breaks(*_: Any) -> float:
    """A function of the caller's that fails on a record, and says which."""
    raise ValueError(f"cannot work with {WHO} and {SECRETS[0]}")


@pytest.mark.parametrize(
    "user",
    [
        USER,
        FINITE,
        TABLE,
        WHICH,
        SNOOPER,
        ruv.Snooper(breaks, ruv.Record(0)),
        ruv.Snooper("mean", ruv.Functional(breaks, of=ruv.Record(0))),
        ruv.Snooper("mean", ruv.Record(0), ruv.CustomLoss(breaks)),
        ruv.Snooper("mean", ruv.Record(0), ruv.CustomLoss(lambda e, t: -abs(t))),
        ruv.Snooper("mean", ruv.Record(0), ruv.CustomLoss(lambda e, t: np.nan * t)),
        ruv.User(BELIEF, ruv.Identity(0, known=[0], values=[SECRETS[0]]), ruv.ZeroOne()),
        ruv.User(FINITE.belief, ruv.Identity(0, known=[0], values=[WHOLE]), ruv.ZeroOne()),
        ruv.Panel([USER, USER], names=["a", "b"]),
    ],
    ids=lambda u: u.describe()[:80],
)
def test_users(user: Any) -> None:
    masks = [ruv.Noise(sd=1.0), ruv.Release(), ruv.Round(base=2.0)]
    calls: dict[str, Callable[[], Any]] = {}
    for what, make in BAD.items():
        if what in ("all kinds with gaps", "huge", "decimals", "bytes"):
            continue
        calls[f"evaluate {what}"] = lambda make=make: ruv.evaluate(
            masks, intruder=user, scientist=user, data=make(), seed=1, replicates=3
        )
        calls[f"record_risk {what}"] = lambda make=make: ruv.analyses.record_risk(
            masks[:1], user, data=make(), seed=1, replicates=3
        )
    calls["posterior"] = lambda: ruv.posterior(user, ruv.Round(base=2.0), numbers())
    calls["posterior of a table"] = lambda: ruv.posterior(
        user, ruv.SuppressCells(cells=[(0, 0)]), np.array([[WHOLE, 1], [2, 3]])
    )
    calls["posterior of categories"] = lambda: ruv.posterior(user, ruv.Stochastic(HALVES), [WHO, *SECRETS[:4]])
    assert telling(calls) == {}


@pytest.mark.slow
@pytest.mark.campaign(3, "slow")
@pytest.mark.parametrize("user", [USER, FINITE, WHICH], ids=["normal", "finite", "identity"])
def test_posteriors_of_releases_that_no_mask_gave(user: ruv.User) -> None:
    """A release is not public before it is released, and what is no release may be the file itself."""
    releases = ("plain", "text", "objects", "categories", "one row", "all kinds")
    calls: dict[str, Callable[[], Any]] = {
        f"{str(mask)[:50]} {what}": lambda mask=mask, what=what: ruv.posterior(user, mask, BAD[what]())
        for mask in (*MASKS.values(), *OTHERS)
        for what in releases
    }
    assert telling(calls) == {}


def lognormal(n: int) -> Any:
    import pymc as pm

    with pm.Model() as model:
        pm.LogNormal("x", pm.Normal("mu", 0, 1), 1.0, shape=n)
    return model


@pytest.mark.long
@pytest.mark.parametrize("mask", [ruv.Noise(sd=1.0), ruv.Round(base=2), ruv.Recode(bins=[0, 1, 2])], ids=str)
def test_models_in_pymc(mask: ruv.Mask) -> None:
    user = ruv.User(ruv.PyMCBelief(lognormal), ruv.Record(0), ruv.Absolute())
    calls: dict[str, Callable[[], Any]] = {}
    for what in ("a gap", "text", "objects", "categories", "dates", "a set", "complex", "all kinds"):
        options: dict[str, Any] = {
            "intruder": user,
            "scientist": user,
            "engine": ruv.Quadrature(),
            "replicates": 1,
            "seed": 1,
        }
        calls[f"evaluate {what}"] = lambda what=what, options=options: ruv.evaluate([mask], data=BAD[what](), **options)
        if what not in ("a gap", "all kinds"):
            calls[f"posterior {what}"] = lambda what=what: ruv.posterior(
                user, mask, BAD[what](), engine=ruv.Quadrature()
            )
    assert telling(calls) == {}


def test_other_routes() -> None:
    calls: dict[str, Callable[[], Any]] = {}
    noise, whole, kl = [ruv.Noise(sd=1.0)], labelled(), [ruv.measures.NormalKL(columns=["tax"])]
    for what, make in BAD.items():
        if what in ("all kinds with gaps", "huge", "decimals", "bytes"):
            continue
        calls[f"worth {what}"] = lambda make=make: ruv.analyses.worth(USER, noise[0], data=make())
        calls[f"price {what}"] = lambda make=make: ruv.analyses.price_of_publishing(
            noise, intruder=USER, scientist=USER, data=make(), replicates=2
        )
        calls[f"groups {what}"] = lambda make=make: ruv.analyses.record_risk(noise, USER, groups=make())
        calls[f"in pieces {what}"] = lambda make=make: ruv.measure(
            make(), releases={"r": make()}, measures=kl, chunksize=2
        )
        calls[f"both {what}"] = lambda make=make: ruv.evaluate(
            noise, intruder=USER, scientist=USER, data=make(), measures=kl
        )
        calls[f"fingerprint {what}"] = lambda make=make: ruv.running.fingerprint.fingerprint_data(
            make(), key="a key that is long enough"
        )
        for key in ("name", "trade", "income"):
            calls[f"{key} of {what}"] = lambda make=make, key=key: ruv.measure(
                whole, releases={"r": make()}, measures=kl, key=key
            )
    strange = {"r": whole.assign(name=whole["name"] + WHO, income=whole["income"].astype(str))}
    for key in ("name", "income"):
        calls[f"strange {key}"] = lambda key=key: ruv.measure(whole, releases=strange, measures=kl, key=key)
    assert telling(calls) == {}


def test_data_in_the_wrong_place() -> None:
    """Whoever mixes up two arguments must not find the records in the message."""
    rumap = ruv.evaluate([ruv.Noise(sd=1.0)], intruder=USER, scientist=USER)
    calls: dict[str, Callable[[], Any]] = {}
    for what, wrong in {
        "array": numbers(),
        "frame": table(),
        "list": list(SECRETS),
        "name": {WHO: SECRETS[0]},
        "long": [*SECRETS] * 5,
    }.items():
        for place, call in {
            "masks": lambda d: ruv.evaluate(d, intruder=USER, scientist=USER),
            "intruder": lambda d: ruv.evaluate([ruv.Noise(sd=1.0)], intruder=d, scientist=USER),
            "replicates": lambda d: ruv.evaluate([ruv.Noise(sd=1.0)], intruder=USER, scientist=USER, replicates=d),
            "engine": lambda d: ruv.evaluate([ruv.Noise(sd=1.0)], intruder=USER, scientist=USER, engine=d),
            "measures": lambda d: ruv.measure(table(), [ruv.Noise(sd=1.0)], measures=d),
            "key": lambda d: ruv.measure(table(), [ruv.Noise(sd=1.0)], measures=[ruv.measures.NormalKL()], key=d),
            "the masks of measure": lambda d: ruv.measure(table(), d, measures=[ruv.measures.NormalKL()]),
            "releases": lambda d: ruv.measure(table(), releases=d, measures=[ruv.measures.NormalKL()]),
            "user": lambda d: ruv.User(d, ruv.Record(0), ruv.Quadratic()),
            "target": lambda d: ruv.User(BELIEF, d, ruv.Quadratic()),
            "loss": lambda d: ruv.User(BELIEF, ruv.Record(0), d),
            "panel": lambda d: ruv.Panel(d),
            "rows": lambda d: ruv.analyses.record_risk([ruv.Noise(sd=1.0)], USER, rows=d),
            "intruder of record_risk": lambda d: ruv.analyses.record_risk([ruv.Noise(sd=1.0)], d),
            "price": lambda d: ruv.analyses.price_of_publishing([ruv.Noise(sd=1.0)], intruder=d, scientist=USER),
            "worth": lambda d: ruv.analyses.worth(d, ruv.Noise(sd=1.0)),
            "calibrate": lambda d: ruv.calibrate(BELIEF, d, ruv.Record(0)),
            "limit": lambda d: ruv.limit(d, USER, max_risk=1.0),
            "sensitivity": lambda d: ruv.sensitivity(d, {"x": [1]}),
            "columns": lambda d: ruv.Noise(sd=1.0, columns=["income"]).release({"income": d}, 1),
            "chain": lambda d: ruv.masks.Chain((ruv.Noise(sd=1.0), d)),
            "seed": lambda d: ruv.Noise(sd=1.0).release(numbers(), d),
            "report": lambda d: ruv.report.render_report(d),
            "notes of a report": lambda d: rumap.report("no such folder/report.html", notes=d),
            "title of a report": lambda d: ruv.report.render_report(rumap, title=d),
            "path": lambda d: rumap.save(d),
            "choose": lambda d: rumap.choose(max_risk=d),
            "select": lambda d: rumap[d],
            "fingerprint": lambda d: ruv.running.fingerprint.fingerprint_data(table(), key=d),
            "file": lambda d: read_data(d),
        }.items():
            if (
                what in ("list", "name") and place in ("loss", "choose", "key", "engine", "replicates", "seed")
            ) or place == "select":
                continue  # a short list of numbers is what these take, or nearly: it is shown, as the caller's setting
            if what == "name" and place == "releases":
                continue  # names of releases are the caller's
            calls[f"{what} as {place}"] = lambda call=call, wrong=wrong: call(wrong)
    assert telling(calls) == {}


def test_scenarios() -> None:
    from ruvdecision.scenarios import additive_noise, empirical

    calls: dict[str, Callable[[], Any]] = {}
    for what, make in BAD.items():
        calls[f"empirical {what}"] = lambda make=make: empirical(make(), noise_variance=[1.0])
        calls[f"bounded {what}"] = lambda make=make: empirical(make(), [1.0], lower=0.0, upper=1.0)
        calls[f"additive {what}"] = lambda make=make: additive_noise(
            noise_variance=[1.0], knowledge="sample", data=make()
        )
    calls["combine"] = lambda: synthesize.combine_partial([numbers(), numbers()], [numbers()])
    assert telling(calls) == {}


FILES: dict[str, bytes] = {
    "no header.csv": f"{SECRETS[0]},{WHO}\n{SECRETS[1]},b\n".encode(),
    "whole.csv": f"{WHOLE},34,17\n{WHOLE},35,18\n".encode(),
    "twice.csv": f"{SECRETS[0]},{SECRETS[0]}\n1,2\n".encode(),
    "longer line.csv": f"a,b\n1,2\n{WHO},{SECRETS[0]},{SECRETS[1]}\n".encode(),
    "open quote.csv": f'a,b\n1,"{WHO}\n'.encode(),
    "other bytes.csv": f"a,b\n1,{WHO}".encode() + b"\xff\n",
    "odd.parquet": WHO.encode() * 20,
    "odd.dta": WHO.encode() * 20,
    "odd.sav": WHO.encode() * 20,
    "odd.sas7bdat": WHO.encode() * 50,
    "odd.xpt": WHO.encode() * 50,
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(FILES[name])
    compared = [ruv.measures.NormalKL(columns=["a"])]
    calls: dict[str, Callable[[], Any]] = {
        "read": lambda: read_data(file),
        "measure": lambda: ruv.measure(str(file), releases={"r": str(file)}, measures=compared),
        "in pieces": lambda: ruv.measure(str(file), releases={"r": str(file)}, measures=compared, chunksize=1),
    }
    assert telling(calls) == {}


@pytest.mark.parametrize("first", ["0,1,2", "2019,2020,2021", "income,2020", "age,1a", "year 1.5"])
def test_names_that_are_numbers_are_still_names(first: str, tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text(f"{first}\n{','.join('7' * (first.count(',') + 1))}\n")
    assert list(map(str, read_data(tmp_path / "file.csv").columns)) == first.split(",")


def test_a_first_line_of_numbers_is_refused(tmp_path: Path) -> None:
    for first in ("1.5,age", "3,2,1", "7,7", "1e5,2e5", ".5,a"):
        (tmp_path / "file.csv").write_text(f"{first}\n{first}\n")
        with pytest.raises(InputError, match="holds numbers"):
            read_data(tmp_path / "file.csv")


# -- the error itself ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "got",
    [
        numbers(),
        table(),
        table()["income"],
        table().index,
        [*SECRETS, *range(FEW)],
        [numbers()],
        {"a": table()},
        ([table()],),
        WHO.encode(),
    ],
    ids=lambda g: type(g).__name__,
)
def test_an_error_shows_and_keeps_no_data(got: Any) -> None:
    error = InputError("This is wrong", got, "Do that")
    assert leaks(chain(error)) == []
    assert isinstance(error.got, str)
    assert leaks(pickle.dumps(error)) == []
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_still_shows_settings() -> None:
    for got in (2.5, [1, 2], {"low": 3, "high": None}, ruv.Noise(sd=1.0), "text", (0.5, "a")):
        assert repr(got).strip("'") in str(InputError("This is wrong", got))
    assert str(InputError("This is wrong", np.zeros((3, 2)))) == "This is wrong; got a ndarray of shape (3, 2)."
    assert kind_of(None) == "nothing" and kind_of(ruv.Noise) == "the class Noise" and kind_of(LARGEST) == "a float"


def test_a_failure_tells_where_and_not_what() -> None:
    try:
        breaks(1)
    except ValueError as error:
        told = describe_failure(error)
    assert told.startswith("ValueError at line ") and told.endswith(" of test_leaks_errors.py")
    with pytest.raises(RuvError, match=r"got ValueError at line \d+ of test_leaks_errors.py"):
        ruv.evaluate(
            [ruv.Noise(sd=1.0)], intruder=ruv.Snooper(breaks, ruv.Record(0)), scientist=SNOOPER, data=numbers(), seed=1
        )
