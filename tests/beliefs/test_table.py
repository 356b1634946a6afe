"""Tables of counts: exact counting, laws of cells, bounds, importance sampling, suppression."""

from __future__ import annotations

import itertools
from collections import defaultdict
from math import comb

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy.special import gammaln
from scipy.stats import betabinom

from ruvdecision.beliefs.table.belief import TableBelief, TablePosterior
from ruvdecision.beliefs.table.completions import Completions
from ruvdecision.errors import InputError, UnsupportedError
from ruvdecision.masks.cells import PublishedTable, SuppressCells, margin_of
from ruvdecision.posteriors import Drawn, Finite
from ruvdecision.protocols import Value
from ruvdecision.targets import Cell, Functional, Record, Records

TF = np.array([[50, 63], [70, 75]])  # a table that agrees with Trottini and Fienberg's 114 completions


def brute(belief: TableBelief) -> tuple[np.ndarray, np.ndarray]:
    """All tables by trying everything, with their probabilities: shares no code with the counters."""
    size, total = int(np.prod(belief.shape)), belief.total
    found = []
    for head in itertools.product(range(total + 1), repeat=size - 1):
        last = total - sum(head)
        if last < 0:
            continue
        table = np.array([*head, last]).reshape(belief.shape)
        if all(table[i] == c for i, c in belief.cells.items()) and all(
            np.array_equal(margin_of(table, a), m) for a, m in belief.margins.items()
        ):
            found.append(table)
    tables = np.array(found)
    a = np.ones(belief.shape) if isinstance(belief.weights, str) else np.broadcast_to(belief.weights, belief.shape)
    log_w = (gammaln(tables + a) - gammaln(a) - gammaln(tables + 1.0)).reshape(len(tables), -1).sum(axis=1)
    w = np.exp(log_w - log_w.max())
    return tables, w / w.sum()


@st.composite
def small_problems(draw: st.DrawFn) -> TableBelief:
    shape = draw(st.sampled_from([(4,), (2, 2), (2, 3), (3, 2), (2, 2, 2), (1, 4)]))
    size = int(np.prod(shape))
    table = np.array(draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))).reshape(shape)
    if table.sum() > 7:
        table = np.minimum(table, 1)
    hidden = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))).reshape(shape)
    cells = {tuple(int(i) for i in idx): int(table[tuple(idx)]) for idx in np.argwhere(~hidden)}
    axes = [a for k in range(1, len(shape)) for a in itertools.combinations(range(len(shape)), k)]
    chosen = draw(st.lists(st.sampled_from(axes), unique=True, max_size=3)) if axes else []
    margins = {a: margin_of(table, a) for a in chosen}
    weights = draw(st.sampled_from(["uniform", 0.5, 2.0, "array"]))
    if weights == "array":
        weights = np.array(draw(st.lists(st.floats(0.2, 3.0), min_size=size, max_size=size))).reshape(shape)
    return TableBelief(shape, int(table.sum()), cells, margins, weights)


# -- counting ------------------------------------------------------------------------------------------


def test_trottini_fienberg_counts():
    prior = TableBelief((2, 2), total=258)
    assert prior.count() == 2_929_290 == comb(261, 3)  # T-F 4.1, M(X)
    assert float(prior.log_count().value) == pytest.approx(14.890270630809704, rel=1e-12)
    after = prior.given(SuppressCells().publish(TF))
    assert after.count() == 114  # T-F 4.1, M(S)
    assert float(after.log_count().value) == pytest.approx(4.736198448394496, rel=1e-13)
    assert float(after.posterior(Records()).entropy().value) == pytest.approx(np.log(114), rel=1e-13)
    assert after.bounds((0, 0)) == (0, 113)
    assert after.method == "dynamic programming"


def test_one_way_reading_of_the_example():
    # Two of four cells published, the suppressed ones add up to 113: the other reading of the lost table.
    belief = TableBelief(4, total=258).given(SuppressCells([0, 1]).publish([50, 63, 70, 75]))
    assert belief.count() == 114


@pytest.mark.slow
@pytest.mark.parametrize("r", [0, 1, 2, 7, 25, 60])
def test_three_by_three_with_equal_margins(r):
    belief = TableBelief((3, 3), 3 * r, margins={0: [r] * 3, 1: [r] * 3})
    assert belief.count() == (r + 1) * (r + 2) * (r * r + 3 * r + 4) // 8  # MacMahon


@pytest.mark.parametrize(
    ("k", "r", "count"), [(4, 1, 24), (4, 2, 282), (4, 3, 2008), (5, 2, 6210), (5, 5, 22069251), (4, 8, 981541)]
)
def test_magic_squares(k, r, count):
    # Integer matrices with equal row and column sums, OEIS A001496 (k = 4) and A003438 (k = 5).
    assert TableBelief((k, k), k * r, margins={0: [r] * k, 1: [r] * k}).count() == count


def test_counts_of_any_size_are_exact_integers():
    assert TableBelief(100, 10**6).count() == comb(10**6 + 99, 99)
    two = TableBelief((2, 60), 600, margins={0: [250, 350]})
    assert two.count() == comb(250 + 59, 59) * comb(350 + 59, 59)  # rows are independent


def test_independent_parts_are_counted_apart():
    # Rows 0 and 1 share columns 0 and 1 only; rows 2 and 3 columns 2 and 3 only: two 2 x 2 tables.
    hidden = {(i, j) for i, j in itertools.product(range(4), repeat=2) if (i < 2) == (j < 2)}
    table = np.arange(16).reshape(4, 4)
    belief = TableBelief((4, 4), int(table.sum())).given(SuppressCells(sorted(hidden)).publish(table))
    assert len(belief.system.parts) == 2
    blocks = [table[:2, :2], table[2:, 2:]]
    expected = np.prod([min(*b.sum(axis=0), *b.sum(axis=1)) + 1 for b in blocks])
    assert belief.count() == expected


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(belief=small_problems())
def test_everything_against_brute_force(belief):
    tables, p = brute(belief)
    assert belief.count() == len(tables)
    assert float(belief.log_count().value) == pytest.approx(np.log(len(tables)), abs=1e-12)
    listed = belief.completions()
    assert sorted(map(tuple, listed.reshape(len(listed), -1).tolist())) == sorted(
        map(tuple, tables.reshape(len(tables), -1).tolist())
    )
    assert float(belief.system.entropy().value) == pytest.approx(-np.sum(p * np.log(p)), abs=1e-11)
    flat = tables.reshape(len(tables), -1)
    mean, cov = belief.system.moments()
    assert_allclose(mean, p @ flat, atol=1e-11)
    assert_allclose(cov, (flat - p @ flat).T @ ((flat - p @ flat) * p[:, None]), atol=1e-10)
    for number, index in enumerate(np.ndindex(*belief.shape)):
        x = flat[:, number]
        assert belief.bounds(index) == (x.min(), x.max())
        law = belief.cell(index)
        assert_allclose(
            [law.cdf(v) for v in range(belief.total + 1)],
            [p[x <= v].sum() for v in range(belief.total + 1)],
            atol=1e-11,
        )
    best = belief.system.most_probable()
    assert float(p[np.all(flat == best, axis=1)][0]) == pytest.approx(p.max(), rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_counts_of_middling_tables_by_plain_recursion(seed):
    # Row by row with a dictionary of what is left of the columns: nothing shared with the counter but the idea.
    rng = np.random.default_rng(seed)
    shape = (4, 4) if seed % 2 else (5, 3)
    table = rng.integers(0, 9, size=shape)
    hidden = rng.random(shape) < 0.75
    belief = TableBelief(shape, int(table.sum())).given(SuppressCells(np.argwhere(hidden).tolist()).publish(table))
    open_rows = np.where(hidden, table, 0).sum(axis=1)
    ways = {tuple(np.where(hidden, table, 0).sum(axis=0)): 1}
    for r in range(shape[0]):
        after = defaultdict(int)
        places = np.flatnonzero(hidden[r])
        for left, count in ways.items():
            for parts in itertools.product(*(range(min(left[c], open_rows[r]) + 1) for c in places)):
                if sum(parts) == open_rows[r]:
                    rest = list(left)
                    for c, x in zip(places, parts, strict=True):
                        rest[c] -= x
                    after[tuple(rest)] += count
        ways = after
    assert belief.count() == ways[(0,) * shape[1]]


def test_cell_of_a_table_without_margins_is_beta_binomial():
    belief = TableBelief((2, 3), 40, weights=[[0.5, 1.0, 2.0], [3.0, 0.7, 1.1]])
    law = belief.cell((1, 0))
    assert_allclose(law.probabilities, betabinom(40, 3.0, 8.3 - 3.0).pmf(np.arange(41)), rtol=1e-9)


def test_draws_follow_the_law():
    belief = TableBelief((2, 3), 12, margins={0: [7, 5], 1: [4, 4, 4]}, weights=0.6)
    rng = np.random.default_rng(5)
    tables = belief.system.sample(20_000, rng)
    mean, cov = belief.system.moments()
    assert np.all(np.abs(tables.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(cov) / len(tables)) + 1e-12)
    exact = belief.cell((0, 0))
    share = np.bincount(tables[:, 0], minlength=8)[: len(exact.values)] / len(tables)
    assert np.all(np.abs(share - exact.probabilities) < 4 * np.sqrt(exact.probabilities / len(tables)))
    assert belief.draw(rng).sum() == 12


def test_weighted_count_is_still_a_count():
    assert TableBelief((2, 2), 30, weights=0.3).count() == TableBelief((2, 2), 30).count()


# -- importance sampling ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["uniform", 0.5])
def test_importance_sampling_agrees_with_exact_counting(weights):
    table = np.array([[3, 5, 2], [4, 0, 6], [1, 7, 3]])
    margins = {0: table.sum(axis=1), 1: table.sum(axis=0)}
    exact = TableBelief((3, 3), 31, margins=margins, weights=weights)
    rough = TableBelief((3, 3), 31, margins=margins, weights=weights, limit=10, draws=4000)
    assert rough.method.startswith("sequential importance sampling (4000 draws worth ")
    assert "trusted" not in rough.method
    estimate = rough.log_count()
    assert 0 < float(estimate.error) < 0.05
    assert abs(float(estimate.value) - float(exact.log_count().value)) < 4 * float(estimate.error)
    count = rough.count()
    assert isinstance(count, Value)
    assert abs(float(count.value) - exact.count()) < 4 * float(count.error)
    entropy, sure = rough.system.entropy(), exact.system.entropy()
    assert abs(float(entropy.value) - float(sure.value)) < 4 * float(entropy.error)
    assert rough.bounds((1, 1)) == exact.bounds((1, 1))  # exact either way
    law = rough.cell((1, 1))
    assert isinstance(law, Drawn)
    u, true = law.quadratic(), exact.cell((1, 1)).quadratic()
    assert abs(float(u.value) - float(true.value)) < 4 * float(u.error)


def test_three_way_importance_sampling_agrees_with_exact_counting():
    table = np.random.default_rng(3).integers(0, 4, size=(3, 3, 2))
    publication = SuppressCells().publish(table)
    assert set(publication.margins) == {(0, 1), (0, 2), (1, 2)}
    total = int(table.sum())
    exact = TableBelief((3, 3, 2), total).given(publication)
    rough = TableBelief((3, 3, 2), total, limit=5, draws=3000).given(publication)
    assert isinstance(exact.count(), int)
    estimate = rough.log_count()
    assert abs(float(estimate.value) - np.log(exact.count())) < 4 * float(estimate.error)


def test_large_tables_fall_back_to_sampling_and_say_so():
    rows, columns = [50, 60, 70, 80, 30, 20, 10, 100], [100, 200, 50, 20, 10, 20, 10, 10]
    belief = TableBelief((8, 8), 420, margins={0: rows, 1: columns}, limit=20_000, draws=1000)
    assert "sequential importance sampling" in belief.method
    assert float(belief.log_count().value) == pytest.approx(
        95.36, abs=0.3
    )  # a run with 5000 draws gives 95.362 (0.020)
    assert belief.bounds((7, 1)) == (0, 100)
    with pytest.raises(UnsupportedError, match="Raise limit="):
        belief.completions(limit=1000)
    posterior = belief.posterior(Records())
    assert isinstance(posterior, TablePosterior)
    assert_allclose(posterior.mean().reshape(8, 8).sum(axis=1), rows, rtol=1e-9)
    with pytest.raises(UnsupportedError, match="exact counting"):
        posterior.mode()


# -- posteriors of whole tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["uniform", 0.7])
def test_unlisted_posterior_agrees_with_the_listed_one(weights):
    belief = TableBelief((2, 3), 14, margins={0: [8, 6], 1: [5, 4, 5]}, weights=weights)
    listed = belief.posterior(Records())
    assert isinstance(listed, Finite)
    unlisted = TablePosterior(belief.system, [belief.cell(i) for i in np.ndindex(2, 3)], 0)
    assert_allclose(unlisted.mean(), listed.mean(), atol=1e-12)
    assert_allclose(unlisted.var(), listed.var(), atol=1e-11)
    assert_allclose(unlisted.cov(), listed.cov(), atol=1e-11)
    assert_allclose(unlisted.quantile(0.3), listed.quantile(0.3))
    for at in (2.0, np.arange(6.0)):
        assert_allclose(unlisted.cdf(at), listed.cdf(at), atol=1e-12)
        assert_allclose(unlisted.lower_partial_moment(at).value, listed.lower_partial_moment(at).value, atol=1e-12)
        assert_allclose(unlisted.upper_partial_moment(at).value, listed.upper_partial_moment(at).value, atol=1e-12)
        assert_allclose(unlisted.power(at, 3).value, listed.power(at, 3).value, atol=1e-11)
        assert_allclose(unlisted.huber(at, 1.0).value, listed.huber(at, 1.0).value, atol=1e-12)
    assert_allclose(unlisted.log_mgf(0.3).value, listed.log_mgf(0.3).value, atol=1e-12)
    assert_allclose(unlisted.mean_difference().value, listed.mean_difference().value, atol=1e-12)
    assert_allclose(unlisted.entropy().value, listed.entropy().value, atol=1e-12)
    w = np.random.default_rng(0).normal(size=(6, 6))
    for weight in (2.0, np.arange(6.0), w @ w.T):
        assert_allclose(unlisted.quadratic(weight).value, listed.quadratic(weight).value, atol=1e-10)
    best = unlisted.mode()
    assert_allclose(unlisted.log_density(best), listed.log_density(best), atol=1e-12)
    assert_allclose(unlisted.outside(best, 0.0).value, listed.outside(best, 0.0).value, atol=1e-12)
    assert unlisted.log_density(best + 1) == -np.inf
    value, error = unlisted.expect(lambda x: x[..., 0] * x[..., 4])
    assert abs(float(value) - float(listed.expect(lambda x: x[..., 0] * x[..., 4]).value)) < 4 * float(error)
    wide = unlisted.outside(best, 1.0)
    assert abs(float(wide.value) - float(listed.outside(best, 1.0).value)) < 4 * float(wide.error)


def test_large_prior_has_an_exact_entropy():
    posterior = TableBelief((2, 2), 258).posterior(Records())
    assert isinstance(posterior, TablePosterior)
    assert float(posterior.entropy().value) == pytest.approx(14.890270630809704, rel=1e-12)
    assert float(posterior.entropy().error) == 0.0
    assert posterior.support.shape[1] == 4 and np.all(posterior.support.sum(axis=1) == 258)


def test_functions_of_cells():
    belief = TableBelief((2, 2), 30, margins={0: [12, 18], 1: [10, 20]})
    sums = belief.posterior(Functional(lambda a, b: a + b, of=[Cell((0, 0)), Cell((1, 1))]))
    tables = belief.completions()
    assert_allclose(np.unique(tables[:, 0, 0] + tables[:, 1, 1]), np.unique(sums.support))
    big = TableBelief((2, 2), 258)
    drawn = big.posterior(Functional([1.0, 1.0], of=[Cell((0, 0)), Cell((0, 1))]))
    exact = betabinom(258, 2, 2)
    u = drawn.quadratic()
    assert abs(float(u.value) - exact.var()) < 4 * float(u.error)
    whole = belief.posterior(Functional(lambda x: x.max(), of=Records()))
    assert_allclose(whole.mean(), tables.reshape(len(tables), -1).max(axis=1).mean(), rtol=1e-12)


# -- the mask -----------------------------------------------------------------------------------------------


def test_release_keeps_the_kind_of_data():
    mask = SuppressCells([(0, 1), (1, 0)])
    frame = pd.DataFrame(TF, index=["a", "b"], columns=["x", "y"])
    out = mask.release(frame)
    assert list(out.index) == ["a", "b"] and list(out.columns) == ["x", "y"]
    assert np.isnan(out.loc["a", "y"]) and out.loc["a", "x"] == 50
    assert_allclose(mask.release(TF), [[50, np.nan], [np.nan, 75]])
    assert frame.loc["a", "y"] == 63
    series = SuppressCells([1], margins=False).release(pd.Series([1, 2], index=["p", "q"]))
    assert series["p"] == 1 and np.isnan(series["q"])
    assert SuppressCells([(0, 0, 1)]).release(np.ones((2, 2, 2)))[0, 0, 1] != 1
    assert_allclose((SuppressCells([(0, 0)]) | SuppressCells([(1, 1)])).release(TF), [[np.nan, 63], [70, np.nan]])


def test_publication():
    mask = SuppressCells([(0, 1)], margins=[(1,)])
    seen = mask.publish(TF)
    assert seen.total == 258 and list(seen.margins) == [(1,)]
    assert_allclose(seen.margins[(1,)], [120, 138])
    assert SuppressCells(margins=True).axes(3) == [(0, 1), (0, 2), (1, 2)]
    assert SuppressCells(margins=True).axes(1) == []
    further = SuppressCells([(1, 1)], margins=[(0,), (1,)]).publish(seen)
    assert list(further.margins) == [(1,)] and np.isnan(further.cells[1, 1])
    assert repr(mask) == "SuppressCells(cells=[[0, 1]], margins=[[1]])"
    assert SuppressCells([(0, 1)]).family == SuppressCells([[0, 1]]).family != SuppressCells([(1, 1)]).family


def test_more_suppression_never_tells_more():
    belief = TableBelief((3, 3), 36)
    table = np.arange(9).reshape(3, 3)
    counts = []
    hidden = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]
    for k in range(1, 6):
        counts.append(belief.given(SuppressCells(hidden[:k]).publish(table)).count())
    assert counts[0] == 1 and counts[2] == 1  # one or three cells of a rectangle can be worked out
    assert all(a <= b for a, b in itertools.pairwise(counts))
    assert belief.given(SuppressCells(hidden, margins=False).publish(table)).count() >= counts[-1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TableBelief((2, 2), -1), "total must be a whole number"),
        (lambda: TableBelief((2, 0), 4), "shape must be a whole number"),
        (lambda: TableBelief((), 4), "shape must be whole numbers, at least one"),
        (lambda: TableBelief("22", 4), "shape must be whole numbers"),
        (lambda: TableBelief((2, 2), 4, cells={(0, 2): 1}), "between 0 and 1"),
        (lambda: TableBelief((2, 2), 4, cells={(0,): 1}), "2 positions"),
        (lambda: TableBelief((2, 2), 4, cells=[1]), "cells must be a mapping"),
        (lambda: TableBelief((2, 2), 4, cells={(0, 0): 5}), "No table of counts agrees"),
        (lambda: TableBelief((2, 2), 4, cells={(0, 0): 1.5}), "whole number"),
        (lambda: TableBelief((2, 2), 4, margins={0: [2, 3]}), "add up to the total 4"),
        (lambda: TableBelief((2, 2), 4, margins={0: [1, 1, 2]}), "shape"),
        (lambda: TableBelief((2, 2), 4, margins={(0, 1): [[1, 1], [1, 1]]}), "not all axes"),
        (lambda: TableBelief((2, 2), 4, cells={(0, 0): 3}, margins={0: [2, 2]}), "No table of counts agrees"),
        (lambda: TableBelief((2, 2), 4, weights="even"), "weights must be"),
        (lambda: TableBelief((2, 2), 4, weights=0), "weights must be positive"),
        (lambda: TableBelief((2, 2), 4, weights=[1, 2]), "shape"),
        (lambda: TableBelief((2, 2), 4).given([[1, np.nan]]), "shape"),
        (lambda: TableBelief((2, 2), 4).given(SuppressCells().publish(TF)), "add up to the total 4"),
        (lambda: TableBelief((2, 2), 258, cells={(0, 0): 1}).given(TF), "contradicts the known cell"),
        (lambda: TableBelief((2, 2), 4).cell((0, 5)), "between 0 and 1"),
        (lambda: TableBelief((2, 2), 4).check_target(Record(0)), "A table has cells"),
        (lambda: TableBelief((2, 2), 4).completions(limit=3), "more than limit=3"),
        (lambda: SuppressCells([]), "cells must not be empty"),
        (lambda: SuppressCells("some"), 'cells must be "all"'),
        (lambda: SuppressCells([(0, 0), (0, 0)]), "different from each other"),
        (lambda: SuppressCells(margins="rows"), "margins must be"),
        (lambda: SuppressCells([(0, 5)]).release(TF), "between 0 and 1"),
        (lambda: SuppressCells([(0,)]).release(TF), "2 positions"),
        (lambda: SuppressCells(margins=[(0, 1)]).publish(TF), "not all axes"),
        (lambda: SuppressCells().publish([[1, -2]]), "non-negative"),
        (lambda: SuppressCells().publish([[1, np.nan]]), "missing cells"),
        (lambda: SuppressCells().publish([["a", 1]]), "made of counts"),
        (lambda: Cell("ab"), "index must be whole numbers"),
        (lambda: TableBelief((3, 3), 200).posterior(Records()).quadratic([1.0, 2.0]), "weights must fit a target of 9"),
    ],
)
def test_bad_input(make, words):
    with pytest.raises((InputError, UnsupportedError), match=words):
        make()


def test_impossible_systems_are_found_infeasible():
    # Consistent margins of a 3 x 3 x 3 table that no table has: a classical pitfall, found by exact search.
    system = Completions(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), np.array([1, 1, 1]), np.ones(3), 1000, 100, 0)
    assert not system.feasible  # a + b = b + c = a + c = 1 has only halves


def test_published_table_key_tells_publications_apart():
    a, b = SuppressCells([(0, 0)]).publish(TF), SuppressCells([(0, 0)], margins=False).publish(TF)
    assert isinstance(a, PublishedTable) and a.key != b.key and a.key == SuppressCells([(0, 0)]).publish(TF).key
