"""Arguments of every wrong kind: a measure is not made, or it works, or an error says what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from edges import attempt, frame
from junk import JUNK
from measured import names, noisy, required, settings

import ruvdecision as ruv
from ruvdecision import measures
from ruvdecision.cli.measure_names import spell_measures
from ruvdecision.errors import InputError, RuvError
from ruvdecision.measures import IntervalOverlap, little_liu, mcm_maximum

DATA = frame(rows=20)
RELEASED = noisy(DATA)
#: Models that overlaps are made of, with what they need.
MODELS: dict[str, dict[str, Any]] = {
    "Means": {},
    "Quantiles": {},
    "Correlations": {},
    "Statistic": {"function": np.mean, "draws": 20},
    "Linear": {"formula": "a ~ b"},
    "Logistic": {"formula": "a ~ b"},
    "Poisson": {"formula": "a ~ b"},
}


def used(kind: Any, given: dict[str, Any], junk: Any) -> Any:
    """Make the measure, or the model, and use it; a trillion draws are a right wish that no test can wait for."""
    made = kind(**given)
    if isinstance(junk, int | float) and abs(junk) > 1000:
        return made
    measure = IntervalOverlap(made) if kind.__name__ in MODELS else made
    assert repr(made)
    return measure(DATA, [RELEASED, DATA] if kind.__name__ == "ImputationLoss" else RELEASED)


def tried_with(call: Callable[[Any], Any], broken: list[str], what: str) -> None:
    """Call with every piece of junk and write down what breaks the rule."""
    for label, make in JUNK.items():
        junk = make()
        try:
            value = attempt(call, junk, kind="arguments")
        except Exception as error:  # every kind of failure is one; all are listed at the end
            # A function of the caller's fails as it likes.
            if not callable(junk):
                broken.append(f"{what}={label}: {type(error).__name__}: {str(error)[:100]}")
            continue
        if isinstance(value, float) and np.isnan(value) and not callable(junk):
            broken.append(f"{what}={label}: NaN")


SHARED = {"name", "missing", "by", "weights"}
FAMILIES = {"NormalKL", "IntervalOverlap", "RecordLinkage", "IndividualRisk", "Disclosure", "KAnonymity", "Marginals"}


@pytest.mark.slow
@pytest.mark.campaign(6)
@pytest.mark.parametrize("name", [*names(), *MODELS])
def test_wrong_arguments_of_measures(name: str) -> None:
    kind = getattr(measures, name)
    base = MODELS[name] if name in MODELS else required(kind, list("abc")) | next(iter(settings(name, list("abc"))))
    broken: list[str] = []
    for field in fields(kind):
        # What all measures share is checked in one place, and tried on one measure of each family.
        if field.init and (field.name not in SHARED or name in FAMILIES):
            tried_with(lambda junk, key=field.name: used(kind, {**base, key: junk}, junk), broken, field.name)
    assert not broken, "\n".join(broken)


CALLS: dict[str, Callable[[Any], Any]] = {
    "data": lambda junk: ruv.measure(junk, releases={"x": RELEASED}, measures=[ruv.measures.MD()]),
    "masks": lambda junk: ruv.measure(DATA, junk, measures=[ruv.measures.MD()], seed=1),
    "releases": lambda junk: ruv.measure(DATA, releases=junk, measures=[ruv.measures.MD()]),
    "one release": lambda junk: ruv.measure(DATA, releases={"x": junk}, measures=[ruv.measures.MD()]),
    "name of a release": lambda junk: (
        ruv.measure(DATA, releases={junk: RELEASED}, measures=[ruv.measures.MD()]) if hashable(junk) else None
    ),
    "measures": lambda junk: ruv.measure(DATA, releases={"x": RELEASED}, measures=junk),
    "one measure": lambda junk: ruv.measure(DATA, releases={"x": RELEASED}, measures=[junk]),
    "replicates": lambda junk: ruv.measure(
        DATA, [ruv.Round(base=1)], measures=[ruv.measures.MD()], replicates=few(junk)
    ),
    "seed": lambda junk: ruv.measure(DATA, [ruv.Noise(sd=1)], measures=[ruv.measures.MD()], seed=junk),
    "key": lambda junk: ruv.measure(DATA, releases={"x": RELEASED}, measures=[ruv.measures.MD()], key=junk),
    "risk": lambda junk: ruv.measure(DATA, releases={"x": RELEASED}, measures=[ruv.measures.MD()], risk=junk),
    "utility": lambda junk: ruv.measure(DATA, releases={"x": RELEASED}, measures=[ruv.measures.MD()], utility=junk),
    "parts": lambda junk: ruv.measure(DATA, releases={"x": RELEASED}, measures=[ruv.measures.MD()], parts=junk),
    "chunksize": lambda junk: ruv.measure(
        DATA, releases={"x": RELEASED}, measures=[ruv.measures.NormalKL()], chunksize=junk
    ),
    "the original of a measure": lambda junk: ruv.measures.MD()(junk, junk),
    "the release of a measure": lambda junk: ruv.measures.RecordLinkage()(DATA, junk),
    "copies": lambda junk: ruv.measures.ImputationLoss()(DATA, junk),
    "estimates": lambda junk: ruv.masks.combine_partial(junk, [1.0, 2.0]),
    "variances": lambda junk: ruv.masks.combine_full([1.0, 2.0], junk),
    "both of them": lambda junk: ruv.masks.combine_full(junk, junk),
    "size_ratio": lambda junk: ruv.masks.combine_full([1.0, 2.0], [1.0, 2.0], size_ratio=junk),
    "level": lambda junk: ruv.masks.combine_partial([1.0, 2.0], [1.0, 2.0]).interval(junk),
    "estimates of little_liu": lambda junk: little_liu(junk, [1.0, 2.0]),
    "variances of little_liu": lambda junk: little_liu(np.eye(2), junk),
    "n of mcm_maximum": lambda junk: mcm_maximum(junk, 3),
    "p of mcm_maximum": lambda junk: mcm_maximum(3, 3, junk),
}


def hashable(junk: Any) -> bool:
    """Whether it can be a key of a mapping at all."""
    try:
        hash(junk)
    except TypeError:
        return False
    return True


def few(junk: Any) -> Any:
    """Counts that are right but large are not what is tested here."""
    return 1 if isinstance(junk, int | float) and 3 < junk < np.inf else junk


@pytest.mark.campaign(5, "slow")
@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_of_calls(name: str) -> None:
    broken: list[str] = []
    tried_with(CALLS[name], broken, name)
    assert not broken, "\n".join(broken)


SPELLINGS = [
    "", " ", ",", ",,,", "(", ")", "MD(", "MD)", "MD()()", "MD(1, 2, 3, 4)", "MD(columns=)", "MD(=1)", "MD(columns='a'", "MD('a' 'b')",
    "MD(columns=a)", "MD(columns=__import__('os'))", "MD(**{'columns': 'a'})", "MD(*['a'])", "MD(columns=[['a']])", "MD(columns={'a': {}})",
    "MD(columns=1e400)", "MD(columns=b'a')", "MD(name='')", "MD(name=1)", "MD(unknown=1)", "MD(columns='a', columns='b')", "Measure",
    "RecordMeasure", "little_liu", "mcm_maximum", "Imputed", "Statistic", "IO", "IntervalOverlap('a ~ b')", "IntervalOverlap(Means())",
    "IntervalOverlap(model=)", "IntervalOverlap('a ~')", "\x00", "MD\n", "MD;KL", "md", "KL(under='nobody')", "Cluster(clusters=1_000)",
    "Cluster(clusters=-1)", "Cluster(clusters=0x10)", "Cluster(clusters=True)", "Cluster(clusters=[])", "linkage(known=['a', 'a'])",
    "linkage(known=())", "linkage(error_sd={'a': 1, 'a': 2})", "lambda: 0", "MD if True else KL", "MD.columns", "MD[0]", "'MD'", "1",
    "Quantiles(at=2)", "ÄÖÜ", "MD(columns='ä')", "(MD)", "MD, KL", "MD()KL()", "MD(" * 50, "MD(columns=" + "[" * 200 + "]" * 200 + ")",
]  # fmt: skip


@pytest.mark.parametrize("text", SPELLINGS)
def test_odd_spellings(text: str) -> None:
    """What a person may type is read or refused; what is read is a list of measures."""
    made = attempt(
        lambda t: spell_measures([t], known=["a"], models=["a ~ b"], columns=["a", "b"]), text, kind="spellings"
    )
    assert isinstance(made, RuvError) or all(isinstance(m, measures.Measure) for m in made)


def test_a_failing_function_of_the_callers_is_not_hidden() -> None:
    """What a caller's own function raises stays visible."""

    def fails(table: Any) -> float:
        raise ZeroDivisionError("in the caller's function")

    with pytest.raises((ZeroDivisionError, RuvError)):
        measures.VarianceInflation(statistic=fails)(DATA, RELEASED)
    with pytest.raises((ZeroDivisionError, RuvError)):
        IntervalOverlap(measures.Statistic(fails))(DATA, RELEASED)


@pytest.mark.parametrize(
    ("name", "given", "option"),
    [
        ("InformationLoss", {"noise": "uniform"}, "noise"),
        ("InformationLoss", {"cells": 20}, "cells"),
        ("LDiversity", {"target": "a", "c": 3.0}, "c"),
        ("IntervalDisclosure", {"width_rank": 0.1, "spread_of": "released"}, "spread_of"),
        ("IntervalDisclosure", {"outlying": True, "spread_of": "released"}, "spread_of"),
        ("IndividualRisk", {"alpha": 0.5, "missing": "category"}, "alpha"),
        ("HouseholdRisk", {"household": "a", "alpha": 0.5, "missing": "omit"}, "alpha"),
        ("Propensity", {"permutations": 5}, "permutations"),
        ("EllipsoidOverlap", {"model": "a ~ b", "draws": 50}, "draws"),
        ("VarianceInflation", {"draws": 50}, "draws"),
    ],
)
def test_an_option_that_nothing_would_use_is_refused(name: str, given: dict[str, Any], option: str) -> None:
    with pytest.raises(InputError, match=f"{option} would not be used"):
        getattr(measures, name)(**given)
