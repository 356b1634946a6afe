"""Every public function, and every method of a map, with junk in the place of every argument: a result or a `RuvError`.

Functions that decide, plot maps or ask what if are walked in tests/decide/test_edges.py; masks, measures and other
classes have tests of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from edges import attempt
from junk import JUNK
from scipy import stats

import ruvdecision as ruv
from ruvdecision import analyses, decide, masks, plots, report, scenarios

NORMAL = ruv.NormalBelief(records=3, variance=1, prior_variance=1, columns=["a"])
PAIR = ruv.NormalBelief(records=3, covariance=np.eye(2), prior_covariance=np.eye(2), columns=["a", "b"])
COIN = ruv.FiniteBelief([0.3, 0.7], likelihood=[[0.7, 0.3], [0.3, 0.7]], records=2)
INTRUDER = ruv.User(NORMAL, ruv.Record(0), ruv.Quadratic())
SCIENTIST = ruv.User(NORMAL, ruv.Parameter("mu"), ruv.Quadratic())
USERS: dict[str, Any] = {"intruder": INTRUDER, "scientist": SCIENTIST}
MASKS = [ruv.Suppress(), ruv.Noise(variance=1.0), ruv.Noise(variance=4.0)]
RUMAP = ruv.evaluate(MASKS, **USERS).with_unit("kg")
DATA = np.array([0.3, -1.2, 0.5])
FILE = pd.DataFrame(np.random.default_rng(4).normal(3.0, 1.0, size=(20, 2)), columns=["a", "b"])
CURVE = scenarios.Curve(5, 1.0)
CURVES = [CURVE, scenarios.Curve(5, 1.0, knowledge="sample")]
COIN_USER = ruv.User(COIN, ruv.Record(0), ruv.Quadratic())
LIMIT = ruv.limit(COIN_USER, COIN_USER, max_risk=[5.0])
VARY = {"intruder.belief.prior_variance": [1.0, 2.0]}
SENSITIVITY = ruv.sensitivity(MASKS, VARY, max_risk=3.0, **USERS)
PRICE = analyses.price_of_publishing(MASKS[1:], **USERS, mask_prior=[1.0, 4.0])
EACH = analyses.record_risk(MASKS[1:], INTRUDER, data=DATA, groups=["a", "b", "a"], seed=1)
TABLES = ruv.measures.TableUtility(way=[1, 2])(FILE, FILE + 0.5)
POPULATION = stats.lognorm(0.5)

#: Every function with arguments that are right; junk takes the place of one at a time.
RIGHT: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "measure": (
        ruv.measure,
        {"data": FILE, "masks": MASKS[1:], "measures": [ruv.measures.NormalKL()], "replicates": 1, "seed": 1,
         "key": None, "risk": "KL", "utility": "KL", "parts": False, "chunksize": None, "executor": None,
         "progress": False, "releases": {"x": FILE}},
    ),
    "evaluate": (
        ruv.evaluate, {"masks": MASKS[1:], **USERS, "measures": None, "progress": False, "executor": None},
    ),
    "choose": (decide.choose, {"rumap": RUMAP, "max_risk": 3.0, "min_utility": 0.0}),
    "undominated": (decide.undominated, {"values": [[1.0, 2.0]] * 2, "better": ["lower", "higher"], "tolerance": 0.0}),
    "not_dominated": (decide.not_dominated, {"risk": [1.0, 2.0], "utility": [1.0, 2.0], "tolerance": 0.0}),
    "blackwell_order": (analyses.blackwell_order, {"masks": MASKS[1:], "belief": None, "records": 3, "columns": 1}),
    "refines": (analyses.refines, {"a": MASKS[1], "b": MASKS[2], "belief": None, "records": 3, "columns": 1}),
    "garbling": (analyses.garbling, {"first": np.eye(2), "second": [[0.5, 0.5], [0.1, 0.9]]}),
    "limit": (
        ruv.limit, {"intruder": COIN_USER, "scientist": COIN_USER, "max_risk": [5.0], "states": 10, "progress": False},
    ),
    "worth": (analyses.worth, {"user": INTRUDER, "mask": MASKS[1], "data": DATA, "replicates": 3, "seed": 1}),
    "one_more_variable": (
        analyses.one_more_variable, {"user": ruv.User(PAIR, ruv.Record(0, column=0), ruv.Quadratic()), "column": "b",
                                     "mask": ruv.Noise(variance=1.0)},
    ),
    "MaskFamily": (lambda make, **bounds: analyses.MaskFamily(make, **bounds), {"make": ruv.Noise, "variance": (0.5, 4.0)}),
    "optimise": (
        ruv.optimise, {"family": analyses.MaskFamily(ruv.Noise, variance=(0.5, 4.0)), "max_risk": 3.0, **USERS,
                       "confidence": None, "progress": False},
    ),
    "sensitivity": (
        ruv.sensitivity, {"study": MASKS, "vary": VARY, "max_risk": 3.0, **USERS, "settings": None, "name": None,
                          "progress": False},
    ),
    "calibrate": (
        analyses.calibrate, {"belief": NORMAL, "mask": MASKS[1], "target": ruv.Record(0), "simulations": 10,
                             "draws": 9, "knows": None, "seed": 1, "progress": False, "executor": None},
    ),
    "record_risk": (
        analyses.record_risk, {"masks": MASKS[1:], "intruder": INTRUDER, "data": DATA, "seed": 1, "progress": False},
    ),
    "vary_user": (ruv.users.vary_user, {"user": INTRUDER, "prior_variance": 2.0}),
    "Panel.vary": (
        ruv.Panel.vary, {"user": INTRUDER, "options": {"weights": [1.0, 2.0]}, "prior_variance": [1.0, 2.0]},
    ),
    "measures.panel": (ruv.measures.panel, {"name": "risk", "rows": 20, "make": None}),
    "combine_full": (
        masks.combine_full, {"estimates": [1.0, 2.0, 3.0], "variances": [0.1, 0.1, 0.1], "size_ratio": 1.0},
    ),
    "combine_partial": (masks.combine_partial, {"estimates": [1.0, 2.0], "variances": [0.1, 0.1]}),
    "release": (MASKS[1].release, {"data": DATA, "rng": 1}),
    "mask.refines": (MASKS[1].refines, {"other": MASKS[2], "belief": None, "records": 3, "columns": 1}),
    "publish": (ruv.SuppressCells(cells=[(0, 0)]).publish, {"table": [[1, 2], [3, 4]]}),
    "scenarios.additive_noise": (
        scenarios.additive_noise, {"n": 5, "variance": 1.0, "noise_variance": [1.0, 2.0], "target": "maximum",
                                   "knowledge": "sample", "p": None, "method": "paper"},
    ),
    "scenarios.curves": (
        scenarios.curves, {"n": 5, "variance": 1.0, "target": "typical", "knowledge": None, "p": None,
                           "method": "paper"},
    ),
    "scenarios.Curve": (
        scenarios.Curve, {"n": 5, "variance": 1.0, "target": "percentile", "knowledge": "population",
                          "method": "exact", "p": 0.5, "rank": None, "tau": None, "mean": None, "data": None,
                          "prior": "flat", "variance_known": True, "population": None, "noise": None,
                          "scientist": "mean"},
    ),
    "scenarios.map_curves": (scenarios.map_curves, {"listed": CURVES, "noise_variance": [1.0, 2.0]}),
    "scenarios.crossings": (scenarios.crossings, {"curves": CURVES, "low": 0.1, "high": 10.0, "points": 20}),
    "scenarios.optimal_noise": (scenarios.optimal_noise, {"curve": CURVE, "max_risk": 0.9}),
    "scenarios.empirical": (
        scenarios.empirical, {"data": np.abs(DATA), "noise_variance": [1.0], "targets": [ruv.Maximum()],
                              "knowledge": "index", "lower": 0.0, "upper": None, "where": None, "times": None,
                              "replicates": 2, "seed": 1, "method": "simulate"},
    ),
    "scenarios.Masked": (scenarios.Masked, {"population": POPULATION, "noise_variance": 1.0, "noise": None}),
    "scenarios.RankPosterior": (
        scenarios.RankPosterior, {"release": DATA, "rank": 2, "variance": 1.0, "noise_variance": 1.0, "prior": "flat",
                                  "prior_mean": 0.0},
    ),
    "plots.files": (
        plots.files, {"original": FILE, "released": FILE + 0.1, "columns": ["a", "b"], "figure": None, "kind": "pairs",
                      "linked": None, "most": 10, "names": ("x", "y"), "style": None},
    ),
    "plots.frontier3": (
        plots.frontier3, {"rumap": RUMAP.with_column("third", [1.0, 2.0, 3.0]), "columns": {"risk": "lower", "utility": "higher", "third": "lower"},
                          "ax": None, "names": True, "title": "a", "style": None},
    ),
    "plots.knowledge": (
        plots.knowledge, {"rumap": RUMAP, "max_risk": 3.0, "ax": None, "against": "utility", "log": "auto",
                          "risk_range": None, "names": None, "title": "a", "style": None},
    ),
    "plots.limit": (plots.limit, {"limit": LIMIT, "ax": None, "style": None}),
    "plots.publishing": (plots.publishing, {"price": PRICE, "ax": None, "max_risk": 3.0, "style": None}),
    "plots.record_risk": (
        plots.record_risk, {"found": EACH, "release": 0, "ax": None, "by_group": False, "max_risk": 3.0, "style": None},
    ),
    "plots.tables": (plots.tables, {"found": TABLES, "of": "S_pMSE", "ax": None, "title": "a", "style": None}),
    "plots.tornado": (
        plots.tornado, {"result": SENSITIVITY, "of": "risk", "ax": None, "most": 5, "labels": True, "title": "a",
                        "style": None},
    ),
    "fingerprint": (report.fingerprint, {"rumap": RUMAP}),
    "render_report": (
        report.render_report, {"rumap": RUMAP, "max_risk": 3.0, "format": "html", "title": "a", "notes": "a",
                               "date": None, "sensitivity": None, "limit": None, "record_risk": None, "rule": None,
                               "seed": False},
    ),
    "report_files": (
        report.report_files, {"rumap": RUMAP, "path": "a.md", "max_risk": 3.0, "format": None, "figures": None},
    ),
    "write_report": (
        report.write_report, {"rumap": RUMAP, "path": "a.md", "max_risk": 3.0, "overwrite": True, "figures": None},
    ),
    "RUMap.build": (
        ruv.RUMap.build, {"masks": MASKS, "labels": ["a", "b", "c"], "intruder": [1.0, 2.0, 3.0],
                          "scientist": [1.0, 2.0, 3.0], "before": (3.0, 3.0), "risk": "gain", "utility": "gain",
                          "columns": {"x": [1.0, 2.0, 3.0]}, "attrs": {"a": 1}, "provenance": None},
    ),
    "RUMap.concat": (ruv.RUMap.concat, {"maps": [RUMAP, RUMAP.take([0])], "names": ["a", "b"]}),
    "RUMap.axis": (RUMAP.axis, {"role": "risk"}),
    "RUMap.column": (RUMAP.column, {"name": "risk"}),
    "RUMap.dominated": (RUMAP.dominated, {"columns": ["risk", "utility"]}),
    "RUMap.explain": (RUMAP.explain, {"release": 0, "columns": None}),
    "RUMap.named": (RUMAP.named, {"name": "x", "user": False}),
    "RUMap.select": (RUMAP.select, {"technique": "Noise", "variance": lambda v: v > 1}),
    "RUMap.take": (RUMAP.take, {"rows": [0]}),
    "RUMap.typical_error": (RUMAP.typical_error, {"user": "intruder", "before": False}),
    "RUMap.with_column": (RUMAP.with_column, {"name": "x", "values": [1.0, 2.0, 3.0]}),
    "RUMap.with_order": (RUMAP.with_order, {"belief": NORMAL}),
    "RUMap.with_risk": (RUMAP.with_risk, {"score": "gain"}),
    "RUMap.with_utility": (RUMAP.with_utility, {"score": "gain"}),
    "RUMap.with_unit": (RUMAP.with_unit, {"unit": "kg"}),
    "RUMap.save": (RUMAP.save, {"path": "map.nc", "created": False, "overwrite": True}),
    "RUMap.load": (ruv.RUMap.load, {"path": "map.nc"}),
}  # fmt: skip
#: Where a large number is work, which would be done.
WORK = {("calibrate", "simulations"), ("calibrate", "draws"), ("measure", "replicates"), ("worth", "replicates")}
WORK |= {("scenarios.empirical", "replicates"), ("scenarios.crossings", "points"), ("one_more_digit", "digits")}
#: Methods of a map that are walked elsewhere, or take nothing.
ELSEWHERE = {"choose", "draws", "frontier", "plot", "probabilities", "report", "to_dataframe", "worst"}


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    RUMAP.save("map.nc")
    yield
    plt.close("all")


def test_every_method_of_a_map_is_walked() -> None:
    methods = {n for n, _ in inspect.getmembers(ruv.RUMap, callable) if not n.startswith("_")}
    assert methods == {n.removeprefix("RUMap.") for n in RIGHT if n.startswith("RUMap.")} | ELSEWHERE


@pytest.mark.slow
@pytest.mark.campaign(8, "slow")
@pytest.mark.parametrize("name", RIGHT)
def test_junk_in_every_argument(name: str) -> None:
    call, arguments = RIGHT[name]
    wrong: list[str] = []
    call(**{k: v for k, v in arguments.items() if (name, k) != ("measure", "releases")})
    for field in arguments:
        for junk, make in JUNK.items():
            if (name, field) in WORK and junk in ("a large integer", "1e308"):
                continue

            def use(value: object, given: dict[str, Any] = arguments, field: str = field) -> Any:
                return call(**{**given, field: value})

            try:
                attempt(use, make(), kind="functions")
            except Exception as error:
                if (name, field) == ("measures.panel", "make") and callable(make()):
                    continue  # a function of the caller's fails as it likes
                wrong.append(f"{field} = {junk}: {type(error).__name__}: {str(error)[:100]}")
            plt.close("all")
    assert not wrong, f"{len(wrong)} of {name}: " + "; ".join(wrong)
