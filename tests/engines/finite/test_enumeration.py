"""The enumeration engine: agreement with the qif package, tables of counts, the papers' numbers."""

from __future__ import annotations

import importlib.util
import itertools
import json
import pickle
from collections import defaultdict

import numpy as np
import pandas as pd
import places
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose

from ruvdecision.beliefs.base import BaseBelief
from ruvdecision.beliefs.finite import FiniteBelief
from ruvdecision.beliefs.table.belief import TableBelief
from ruvdecision.engines.finite.enumeration import Enumeration
from ruvdecision.engines.finite.target_table import AverageTable
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.losses import Absolute, KullbackLeibler, LogScore, Quadratic, ZeroOne
from ruvdecision.masks import Noise, Release, Shuffle, Suppress
from ruvdecision.masks.cells import SuppressCells, publish
from ruvdecision.masks.stochastic import Stochastic
from ruvdecision.numerics.counts import compositions
from ruvdecision.protocols import Engine
from ruvdecision.targets import Cell, Functional, Parameter, Record, Records
from ruvdecision.users.user import User

ENGINE = Enumeration()
TF = np.array([[50, 63], [70, 75]])


# -- quantitative information flow -----------------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), states=st.integers(1, 6), outputs=st.integers(1, 6), guesses=st.integers(1, 5))
def test_agreement_with_qif(seed, states, outputs, guesses):
    qif = pytest.importorskip("qif")
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(states, 0.7))
    channel = rng.dirichlet(np.full(outputs, 0.7), size=states)
    costs = rng.normal(size=(guesses, states)) ** 2  # rows are guesses
    belief = FiniteBelief(np.arange(states), prior)
    mask = Stochastic(channel)

    def expected(loss, estimates="free"):
        return ENGINE.solve(User(belief, Parameter("theta"), loss, estimates=estimates), [mask])

    table = expected(lambda e, t: costs[np.asarray(e, dtype=int), np.asarray(t, dtype=int)], np.arange(guesses))
    assert table.uncertainty[0] == pytest.approx(qif.measure.l_risk.posterior(costs, prior, channel), abs=1e-10)
    assert table.before == pytest.approx(qif.measure.l_risk.prior(costs, prior), abs=1e-10)
    assert expected(ZeroOne()).uncertainty[0] == pytest.approx(
        qif.measure.bayes_risk.posterior(prior, channel), abs=1e-10
    )
    assert expected(LogScore()).uncertainty[0] == pytest.approx(
        qif.measure.shannon.posterior(prior, channel) * np.log(2), abs=1e-9
    )  # bits
    squares = (np.arange(states)[:, None] - np.arange(states)) ** 2.0
    restricted = expected(Quadratic(), "target")
    assert restricted.uncertainty[0] == pytest.approx(qif.measure.l_risk.posterior(squares, prior, channel), abs=1e-10)
    assert expected(Quadratic()).uncertainty[0] <= restricted.uncertainty[0] + 1e-12


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_agreement_with_qif_through_a_likelihood(seed):
    qif = pytest.importorskip("qif")
    rng = np.random.default_rng(seed)
    prior, law, channel = (
        rng.dirichlet(np.ones(3)),
        rng.dirichlet(np.ones(4), size=3),
        rng.dirichlet(np.ones(2), size=4),
    )
    belief = FiniteBelief(np.arange(3), prior, likelihood=law)
    u = ENGINE.solve(User(belief, Parameter("theta"), ZeroOne()), [Stochastic(channel)]).uncertainty[0]
    assert u == pytest.approx(qif.measure.bayes_risk.posterior(prior, law @ channel), abs=1e-10)


# -- the papers' numbers ----------------------------------------------------------------------------------------


def test_reference_numbers():
    numbers = {
        e["name"]: e["value"] for e in json.loads((places.REFERENCE / "trottini_fienberg_duncan.json").read_text())
    }
    belief = FiniteBelief([0, 1, 2, 5], [0.1, 0.35, 0.3, 0.25])

    def u(loss, estimates="free"):
        return ENGINE.solve(User(belief, Record(0), loss, estimates=estimates), [Suppress()]).uncertainty[0]

    assert u(Quadratic()) == pytest.approx(2.96, rel=1e-12)  # FORMULAS section 1
    assert u(Quadratic(), "target") == pytest.approx(
        numbers["finite posterior: quadratic, e in Omega (TF step 2)"], rel=1e-12
    )
    assert u(Absolute()) == pytest.approx(numbers["finite posterior: absolute"], rel=1e-12)
    assert u(LogScore()) == pytest.approx(numbers["finite posterior: log score"], rel=1e-12)
    tables = TableBelief((2, 2), 258)
    solution = ENGINE.solve(User(tables, Records(), LogScore()), [SuppressCells()], data=TF)
    assert solution.uncertainty[0] == pytest.approx(
        np.log(numbers["TF 4.1 M(S), 2x2 margins (113,145;120,138)"]), rel=1e-12
    )
    assert solution.before == pytest.approx(numbers["TF 4.1 prior U_S = log M(X)"], rel=1e-12)


# -- tables -----------------------------------------------------------------------------------------------------


def table_brute(belief, target, mask, u):
    """Expected uncertainty over all tables of the belief, grouped by what is published."""
    tables = belief.completions()
    p = np.exp(belief.system.log_weight(tables.reshape(len(tables), -1)))
    p = p / p.sum()
    groups = defaultdict(list)
    for i, table in enumerate(tables):
        shown = table.astype(float)
        margins = []
        for step in mask.parts:
            if isinstance(step, SuppressCells):
                shown[step.hidden(table.shape)] = -1
                margins = [
                    table.sum(axis=tuple(a for a in range(table.ndim) if a not in axes)).ravel().tolist()
                    for axes in step.axes(table.ndim)
                ]
        groups[str((shown.tolist(), margins))].append(i)
    values = np.array([target(t) for t in tables], dtype=float)
    return sum(p[g].sum() * u(values[g], p[g] / p[g].sum()) for g in groups.values())


def variance(x, p):
    x = x.reshape(len(x), -1)
    return float(p @ ((x - p @ x) ** 2).sum(axis=1))


def entropy(x, p):
    _, place = np.unique(x, axis=0, return_inverse=True)
    q = np.bincount(place.reshape(-1), weights=p)
    return float(-np.sum(q[q > 0] * np.log(q[q > 0])))


@pytest.mark.parametrize("weights", ["uniform", 0.4])
@pytest.mark.parametrize(
    "mask",
    [
        SuppressCells(),
        SuppressCells([(0, 0), (1, 1)]),
        SuppressCells([(0, 0), (0, 1), (1, 1)], margins=False),
        SuppressCells(margins=[(0,)]),
    ],
    ids=str,
)
def test_expected_uncertainty_of_tables(mask, weights):
    belief = TableBelief((2, 3), 5, weights=weights)
    pairs = [
        (Cell((0, 0)), lambda t: t[0, 0]),
        (Records(), lambda t: t.ravel()),
        (Functional(lambda a, b: a - b, of=[Cell((0, 0)), Cell((1, 2))]), lambda t: t[0, 0] - t[1, 2]),
    ]
    for target, value in pairs:
        for loss, u in ((Quadratic(), variance), (LogScore(), entropy)):
            solution = ENGINE.solve(User(belief, target, loss), [mask])
            assert solution.uncertainty[0] == pytest.approx(table_brute(belief, value, mask, u), abs=1e-10)
            assert solution.error[0] == 0 and solution.engine == ["enumeration"]


def test_realised_tables():
    belief = TableBelief((2, 2), 258)
    masks = [Release(), SuppressCells([(0, 0)]), SuppressCells(), SuppressCells(margins=False), Suppress()]
    whole = ENGINE.solve(User(belief, Records(), LogScore()), masks, data=TF)
    assert_allclose(whole.uncertainty, [0, 0, np.log(114), np.log(2929290), np.log(2929290)], rtol=1e-11, atol=1e-13)
    cell = ENGINE.solve(User(belief, Cell((0, 0)), Quadratic()), masks, data=TF)
    uniform = (114**2 - 1) / 12  # uniform on 0..113
    x = np.arange(259)
    prior = (258 - x + 1) * (258 - x + 2) / 2
    prior = prior / prior.sum()
    spread = prior @ x**2 - (prior @ x) ** 2
    assert_allclose(cell.uncertainty, [0, 0, uniform, spread, spread], rtol=1e-9, atol=1e-12)
    assert cell.before == pytest.approx(spread, rel=1e-9)
    rows = ENGINE.solve(User(belief, Cell((1, 0)), Quadratic()), [Suppress(rows=[1])], data=TF).uncertainty[0]
    assert rows == pytest.approx(((258 - 113 + 1) ** 2 - 1) / 12, rel=1e-12)


@pytest.mark.slow
def test_large_prior_is_averaged_over_drawn_tables():
    belief = TableBelief((2, 2), 60)  # 39711 tables, too many to list
    user = User(belief, Records(), LogScore())
    solution = ENGINE.solve(user, [SuppressCells()], replicates=300, seed=np.random.SeedSequence(2))
    # Given the margins every table has min(margins) + 1 companions or fewer; the expectation by summing over all
    # margins.
    total, weight = 0.0, 0
    for r, c in itertools.product(range(61), repeat=2):
        m = min(r, c, 60 - r, 60 - c) + 1
        total += m * np.log(m)
        weight += m
    assert weight == belief.count()
    assert solution.error[0] > 0 and solution.engine == ["enumeration, averaged over releases"]
    assert abs(solution.uncertainty[0] - total / weight) < 4 * solution.error[0]
    again = ENGINE.solve(user, [SuppressCells()], replicates=300, seed=np.random.SeedSequence(2))
    assert again.uncertainty[0] == solution.uncertainty[0]


def test_importance_sampling_reaches_the_map_with_its_error():
    table = np.random.default_rng(1).integers(0, 9, size=(4, 4))
    exact = TableBelief((4, 4), int(table.sum()))
    rough = TableBelief((4, 4), int(table.sum()), limit=50, draws=3000)
    for target, loss in ((Records(), LogScore()), (Cell((1, 2)), Quadratic())):
        sure = ENGINE.solve(User(exact, target, loss), [SuppressCells()], data=table)
        estimate = ENGINE.solve(User(rough, target, loss), [SuppressCells()], data=table)
        assert sure.error[0] == 0 and estimate.error[0] > 0
        assert estimate.engine == ["enumeration, sequential importance sampling"]
        assert 100 < estimate.diagnostics["effective_draws"][0] <= 3000 and sure.diagnostics == {}
        assert abs(estimate.uncertainty[0] - sure.uncertainty[0]) < 4 * estimate.error[0]


def test_kullback_leibler_is_the_log_of_the_number_of_tables():
    belief = TableBelief((2, 2), 258)
    solution = ENGINE.solve(
        User(belief, Records(), KullbackLeibler()), [SuppressCells(), SuppressCells(margins=[(0,)])], data=TF
    )
    assert_allclose(solution.uncertainty, np.log([114, 114 * 146]), rtol=1e-12)  # T-F eq. 10-12
    assert solution.before == pytest.approx(np.log(2929290), rel=1e-12)
    with pytest.raises(UnsupportedError, match="cannot be listed as estimates"):
        ENGINE.solve(User(belief, Records(), Quadratic(), estimates="target"), [SuppressCells()], data=TF)
    few = User(TableBelief((2, 2), 258, margins={0: [113, 145]}), Records(), Quadratic(), estimates="target")
    # Uniform on 0..113 in four cells that move together; the mean 56.5 lies between two tables.
    assert ENGINE.solve(few, [SuppressCells()], data=TF).uncertainty[0] == pytest.approx(
        4 * ((114**2 - 1) / 12 + 0.25), rel=1e-12
    )


def test_posterior_of_tables():
    belief = TableBelief((2, 2), 258)
    user = User(belief, Cell((0, 0)), Quadratic())
    mask = SuppressCells()
    posterior = ENGINE.posterior(user, mask, mask.publish(TF))
    assert_allclose(posterior.probabilities, np.full(114, 1 / 114), rtol=1e-12)
    bare = SuppressCells([(0, 0), (0, 1)], margins=False)
    assert_allclose(ENGINE.posterior(user, bare, bare.release(TF)).probabilities, np.full(114, 1 / 114), rtol=1e-12)
    assert float(ENGINE.posterior(user, Suppress()).mean()) == pytest.approx(64.5)
    # A release carries its margins along; what has lost them is refused.
    for table in (TF, pd.DataFrame(TF)):
        assert_allclose(ENGINE.posterior(user, mask, mask.release(table)).probabilities, posterior.probabilities)
        with pytest.raises(InputError, match="lost theirs"):
            ENGINE.posterior(user, mask, np.array(mask.release(table)))
    chain = SuppressCells([(0, 0)]) | SuppressCells([(0, 1), (1, 0), (1, 1)])
    assert_allclose(ENGINE.posterior(user, chain, publish(chain, TF)).probabilities, posterior.probabilities)
    with pytest.raises(InputError, match="depends on what is released"):
        ENGINE.posterior(user, mask)


def test_the_study_of_a_suppressed_table(root):
    spec = importlib.util.spec_from_file_location("suppressed_table", root / "models" / "suppressed_table.py")
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    rumap = study.study()
    frame = rumap.to_dataframe().set_index("release")
    assert frame.loc["SuppressCells()", "scientist_uncertainty"] == pytest.approx(
        4.736198448394496, rel=1e-12
    )  # T-F: log 114
    assert frame.loc["SuppressCells()", "intruder_uncertainty"] == pytest.approx((114**2 - 1) / 12, rel=1e-12)
    assert frame.loc["SuppressCells(cells=[[0, 0]])", "risk"] == 1.0  # found by subtraction
    assert any("114" in line for line in study.notes(rumap))
    weighted = study.study(row=1, column=1, concentration=0.5).to_dataframe().set_index("release")
    assert 0 < weighted.loc["SuppressCells()", "scientist_uncertainty"] < np.log(114)


# -- the engine -------------------------------------------------------------------------------------------------


def test_protocol_and_pickle():
    assert isinstance(ENGINE, Engine)
    assert pickle.loads(pickle.dumps(Enumeration(limit=7))) == Enumeration(limit=7)
    user = pickle.loads(pickle.dumps(User(TableBelief((2, 2), 258), Cell((0, 0)), Quadratic())))
    assert ENGINE.solve(user, [SuppressCells()], data=TF).uncertainty[0] == pytest.approx((114**2 - 1) / 12)


@pytest.mark.parametrize(
    ("mask", "data", "words"),
    [
        (Noise(sd=1.0), None, "does not suppress cells"),
        (Shuffle(), None, "does not suppress cells"),
        (SuppressCells([(0, 3)]), TF, "between 0 and 1"),
        (SuppressCells(), TF + 1, "add up to the total"),
        (SuppressCells(), TF[0], "shape"),
        (SuppressCells(), TF * 1.5, "whole numbers"),
    ],
)
def test_bad_requests_about_tables(mask, data, words):
    with pytest.raises(RuvError, match=words):
        ENGINE.solve(User(TableBelief((2, 2), 258), Cell((0, 0)), Quadratic()), [mask], data=data)


def test_other_requests():
    user = User(FiniteBelief([0, 1]), Parameter("theta"), Quadratic())
    assert "SuppressCells" in str(ENGINE.refuses(user, [SuppressCells()]))
    with pytest.raises(UnsupportedError):
        ENGINE.solve(user, [SuppressCells()])
    with pytest.raises(InputError, match="limit"):
        Enumeration(limit=0)

    class Strange(BaseBelief):
        records, parameters = 1, ()

        def draw(self, rng):
            return np.zeros(1)

    assert "needs a FiniteBelief" in str(ENGINE.refuses(User(Strange(), Record(0), Quadratic()), [Release()]))


def test_the_law_of_the_counts_is_that_of_all_records_listed() -> None:
    """Four records with three outcomes, each with chances of its own."""
    chances = np.random.default_rng(4).dirichlet(np.ones(3), size=(2, 4))
    counts = compositions(4, 3)
    listed = np.zeros((2, len(counts)))
    place = {tuple(c): i for i, c in enumerate(counts.tolist())}
    for outcome in itertools.product(range(3), repeat=4):
        at = place[tuple(np.bincount(outcome, minlength=3).tolist())]
        listed[:, at] += np.prod([chances[:, r, i] for r, i in enumerate(outcome)], axis=0)
    np.testing.assert_allclose(AverageTable(counts, np.zeros(len(counts))).counts_law(chances), listed, rtol=1e-12)
