"""Every exported class with junk in the place of every argument: an object that works, or a `RuvError`."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from edges import attempt
from exports import public
from junk import JUNK

import ruvdecision as ruv
from ruvdecision.errors import RuvError
from ruvdecision.masks.base import Mask
from ruvdecision.users import rules


def two_columns(risk, utility):
    """A loss of the agency itself."""
    return risk - utility


NORMAL = ruv.NormalBelief(records=3, variance=1, prior_variance=1)
USER = ruv.User(NORMAL, ruv.Record(0), ruv.Quadratic())
GRID = np.linspace(-4, 4, 33)


def square(estimate, truth):
    return (estimate - truth) ** 2


def twice(x):
    return 2 * x


def model(n):
    raise AssertionError("a belief is built when it is used")


#: Every class with arguments that are right: junk takes the place of one at a time. Several entries per class where one class
#: has several ways to be written.
RIGHT: dict[str, list[dict]] = {
    "CRPS": [{"weights": 1.0}],
    "Absolute": [{"weights": 1.0}],
    "CustomLoss": [{"function": square, "name": "mine", "location_free": True}],
    "Huber": [{"delta": 1.0, "weights": 1.0}],
    "IntervalScore": [{"level": 0.9, "weights": 1.0}],
    "KullbackLeibler": [{"entropy": True}],
    "Linex": [{"a": 0.5, "b": 1.0}],
    "LogScore": [{}],
    "Pinball": [{"q": 0.7, "weights": 1.0}],
    "Power": [{"p": 1.5, "weights": 1.0}],
    "Quadratic": [{"weights": 1.0}],
    "ZeroOne": [{"tolerance": 0.3}],
    "Curve": [{"x": GRID, "log_density": -(GRID**2) / 2, "breaks": None}],
    "Drawn": [
        {"draws": np.arange(6.0).reshape(2, 3), "chains": 2, "discrete": True},
        {"draws": np.ones((4, 2)), "weights": np.ones(4)},
    ],
    "Finite": [{"values": [0.0, 1.0], "probabilities": [0.5, 0.5]}],
    "Gaussian": [{"mean": [0.0, 1.0], "cov": np.eye(2)}],
    "Mixture": [
        {"parts": ruv.posteriors.Gaussian.scalar([0.0, 1.0], 1.0), "weights": [0.5, 0.5], "chains": 1, "sampled": True},
        {
            "parts": ruv.posteriors.Finite([0.0, 1.0], [[0.5, 0.5], [0.2, 0.8]]),
            "weights": None,
            "chains": None,
            "sampled": False,
        },
    ],
    "PartlyDiscrete": [
        {
            "discrete": ruv.posteriors.Finite([0.0, 1.0], [0.5, 0.5]),
            "continuous": ruv.posteriors.Curve(GRID, -(GRID**2) / 2),
            "chance": 0.3,
        }
    ],
    "Average": [{"weights": [1.0, 2.0], "column": 0}],
    "EachRecord": [{"aggregate": "max", "rows": [0, 1]}],
    "Functional": [{"function": twice, "of": ruv.Record(0), "name": "twice"}],
    "Identity": [
        {"row": 0, "known": [0], "error_variance": 1.0},
        {"row": [0, 1], "known": [0], "error_sd": 1.0, "values": [0.0, 1.0]},
    ],
    "Maximum": [{}],
    "Minimum": [{}],
    "NewRecord": [{}],
    "OrderStatistic": [{"order": 2}],
    "Parameter": [{"name": "mu", "component": 0}],
    "Percentile": [{"p": 0.5}],
    "Record": [{"row": 0, "column": 0}],
    "Records": [{}],
    "Cell": [{"index": (0, 1)}],
    "FiniteBelief": [
        {"values": [0.0, 1.0], "probabilities": [0.5, 0.5], "name": "theta"},
        {
            "values": [0.0, 1.0],
            "probabilities": [0.5, 0.5],
            "likelihood": [[0.9, 0.1], [0.2, 0.8]],
            "outcomes": [0, 1],
            "records": 2,
            "name": "theta",
            "columns": ["a"],
        },
    ],
    "NormalBelief": [
        {"records": 3, "variance": 1.0, "prior_mean": 0.0, "prior_variance": 1.0, "columns": ["a"]},
        {
            "records": 3,
            "covariance": np.eye(2),
            "prior_mean": [0.0, 1.0],
            "prior_covariance": np.eye(2),
            "columns": ["a", "b"],
        },
        {"records": 3, "variance": 1.0, "prior": "flat"},
    ],
    "PyMCBelief": [{"builder": model, "records": "x", "size": 4, "name": "a model", "columns": ["x"]}],
    "TableBelief": [
        {
            "shape": (2, 2),
            "total": 5,
            "cells": {(0, 0): 1},
            "margins": {(0,): [2, 3]},
            "weights": 1.0,
            "limit": 1000,
            "draws": 10,
            "seed": 0,
        }
    ],
    "User": [
        {
            "belief": NORMAL,
            "target": ruv.Record(0),
            "loss": ruv.Quadratic(),
            "estimates": "free",
            "name": "she",
            "truth": NORMAL,
            "knows": ruv.Release(rows=[1]),
        },
        {"belief": NORMAL, "target": ruv.Record(0), "loss": square, "knows_mask": False, "mask_prior": [1.0, 2.0]},
    ],
    "Median": [{}],
    "Snooper": [{"estimator": "row", "target": ruv.Record(0), "loss": ruv.Quadratic(), "belief": NORMAL, "name": "he"}],
    "Panel": [
        {
            "members": [USER, USER],
            "weights": [1, 2],
            "combine": "mean",
            "name": "two",
            "unit": [1, 1],
            "names": ["a", "b"],
        }
    ],
    "MaskPrior": [
        {"variances": [1.0, 2.0], "weights": [1, 2]},
        {"masks": [ruv.Noise(variance=1.0)], "weights": [1]},
        {"low": 0.1, "high": 2.0, "points": 5},
    ],
    "MostUseful": [{}],
    "Weighted": [{"weights": {"utility": 1.0, "risk": 3.0}}],
    "Lexicographic": [{"order": ["risk", "utility"], "slack": {"risk": 0.1}}],
    "ExpectedLoss": [{"loss": two_columns}],
    "Search": [{"method": "auto", "starts": 4, "evaluations": 30}],
    "Errors": [{"correlation": "independent", "draws": 100, "seed": 0}],
    "Enumeration": [{"limit": 1000}],
    "Exact": [{}],
    "Ranks": [{}],
    "Quadrature": [{"tolerance": 1e-9, "fallback": True}],
    "Sampling": [
        {
            "draws": 100,
            "tune": 100,
            "chains": 2,
            "sampler": "auto",
            "target_accept": 0.8,
            "target_mcse": 0.1,
            "max_draws": 1000,
            "strict": False,
            "keep": False,
            "keep_records": False,
            "reuse": True,
            "importance": False,
            "prior_power": 1.0,
            "likelihood_power": 1.0,
        }
    ],
    "FixedRule": [{"method": "auto"}],
    "Identification": [{}],
    "WholeFile": [{"limit": 1000}],
    "Custom": [{"function": np.mean}],
    "WeightedSum": [{"coefficients": [0.5, 0.5], "offset": 0.0}],
    "Mean": [{}],
    "Ranked": [{"target": ruv.Maximum()}],
    "Row": [{"row": 1}],
}

#: Fields of a criterion that are filled in when it meets a map.
BOUND = {"needs", "arguments", "by_name", "settings"}
#: What the functions of the package give back, and parts that no caller writes.
GIVEN_BACK = {
    "Calibration",
    "Choice",
    "Combined",
    "Contender",
    "Explanation",
    "LinearChannel",
    "Limit",
    "Optimum",
    "Order",
}
GIVEN_BACK |= {
    "BaseEngine",
    "Evidence",
    "EveryRecord",
    "Missing",
    "Plan",
    "Problem",
    "Question",
    "Refusal",
    "WrongBelief",
}
GIVEN_BACK |= {"MaskFamily"}  # its ranges have any names; tests/analyses/test_optimise.py tries them
GIVEN_BACK |= {"PublishingPrice", "RUMap", "RecordRisk", "Sensitivity", "Value", "Variation", "Worth"}


def wanted():
    """Every exported class that a caller makes, but masks, measures and errors, which have tests of their own."""
    found = public() | {c.__name__: c for c in rules.Rule.__subclasses__()}
    classes = {
        n: c for n, c in found.items() if inspect.isclass(c) and not c.__module__.startswith("ruvdecision.measures")
    }
    return {
        n: c
        for n, c in classes.items()
        if not issubclass(c, (Mask, RuvError)) and n not in GIVEN_BACK and not inspect.isabstract(c)
    }


def test_every_class_has_arguments_that_are_right():
    assert set(RIGHT) == set(wanted())
    for name, entries in RIGHT.items():
        for arguments in entries:
            wanted()[name](**arguments)
        fields = set(inspect.signature(wanted()[name]).parameters) - BOUND
        assert fields == {argument for arguments in entries for argument in arguments}, name


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_junk_in_every_argument(name):
    """An object that shows and describes itself, or a RuvError; nothing else, and the junk is left as it was."""
    made, wrong = wanted()[name], []
    for arguments in RIGHT[name]:
        for field in arguments:
            for junk, thing in JUNK.items():
                try:
                    found = attempt(lambda value: made(**{**arguments, field: value}), thing(), kind="constructors")  # noqa: B023
                    if not isinstance(found, RuvError):
                        assert repr(found)
                        if hasattr(found, "describe") and name != "PyMCBelief":
                            assert found.describe()
                except Exception as error:
                    wrong.append(f"{field} = {junk}: {type(error).__name__}: {str(error)[:100]}")
    assert not wrong, f"{len(wrong)} of {name}: " + "; ".join(wrong)
