"""Short ways against long ones: graphs as numpy calls, frames without tables, releases that are never a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ruvdecision.beliefs.pymc import PyMCBelief, cheap_mode, quiet_pymc, without_notices
from ruvdecision.channels.likelihood import join_rows, observe
from ruvdecision.engines.pymc.log_posterior import OnePosterior, log_posteriors
from ruvdecision.engines.pymc.marginal import marginal_likelihood
from ruvdecision.engines.pymc.model import compiled_model
from ruvdecision.engines.pymc.nodes import LaplaceBoxes, find_boxes, place_nodes
from ruvdecision.engines.pymc.programs import Program, _without_parameter_checks, vectorised
from ruvdecision.engines.pymc.replicates import observed_in
from ruvdecision.masks import Clip, Noise, Round, Subsample, Suppress
from ruvdecision.masks.frame import Frame, NumericFrame

RNG = np.random.default_rng(5)


# -- graphs ------------------------------------------------------------------------------------------------


def normal(n: int) -> Any:
    pm = quiet_pymc()
    with pm.Model() as model:
        mu = pm.Normal("mu", 1.0, 5.0)
        sigma = pm.HalfNormal("sigma", 3.0)
        pm.Normal("x", mu, sigma, shape=n)
    return model


def gamma(n: int) -> Any:
    pm = quiet_pymc()
    with pm.Model() as model:
        a = pm.Gamma("a", 2.0, 1.0)
        b = pm.Beta("b", 2.0, 3.0)
        pm.Deterministic("ratio", a / (a + b))
        pm.Gamma("x", alpha=a + 1, beta=b, shape=n)
    return model


def students(n: int) -> Any:
    pm = quiet_pymc()
    with pm.Model() as model:
        shift = pm.Data("shift", np.array([0.5, 1.5]))
        mu = pm.StudentT("mu", nu=4, mu=0.0, sigma=2.0, shape=2)
        pm.Potential("tie", -((mu[0] - mu[1]) ** 2) - pm.math.log1pexp(mu[0]))
        pm.Normal("x", mu[0] * shift[0] + mu[1] * shift[1], 1.5, shape=n)
    return model


def lognormal(n: int) -> Any:
    pm = quiet_pymc()
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.LogNormal("x", pm.Normal("mu", 0.0, 2.0), sigma, shape=n)
    return model


LOGNORMAL = PyMCBelief(lognormal)


def vectors(n: int) -> Any:
    pm = quiet_pymc()
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0, shape=2)
        pm.MvNormal("x", mu, cov=np.array([[1.0, 0.3], [0.3, 2.0]]), shape=(n, 2))
    return model


def whole(outputs: Any, inputs: Any) -> Any:
    """The same graphs by PyTensor's own function, without a word of ours in between."""
    import pytensor
    import pytensor.tensor as pt
    from pytensor.graph.replace import vectorize_graph

    many = [pt.tensor(f"{v.name}_many", dtype=v.dtype, shape=(None, *v.type.shape)) for v in inputs]
    with without_notices():
        graphs, places = _without_parameter_checks(outputs, inputs)
        graphs = vectorize_graph(graphs, dict(zip(places, many, strict=True)))
        return pytensor.function(many, graphs, mode=cheap_mode(), on_unused_input="ignore")


@pytest.mark.campaign(3)
@pytest.mark.parametrize("build", [normal, gamma, students, vectors])
@pytest.mark.parametrize("n", [1, 4])
def test_a_program_gives_what_the_function_gives(build: Any, n: int) -> None:
    compiled = compiled_model(PyMCBelief(build), n)
    u = RNG.normal(0, 1.5, (7, compiled.size))
    values = compiled._split_parameters(u)
    for outputs in ([compiled._prior_graph], compiled.model.replace_rvs_by_values(list(compiled.free))):
        mine = vectorised(outputs, compiled._value_variables)
        assert isinstance(mine.function, Program)
        for a, b in zip(mine(values), whole(outputs, compiled._value_variables)(*values), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.campaign(2)
@pytest.mark.parametrize("build", [normal, gamma, students, vectors])
def test_all_at_once_is_one_after_the_other(build: Any) -> None:
    compiled = compiled_model(PyMCBelief(build), 3)
    u = RNG.normal(0, 1.0, (5, compiled.size))
    at = compiled.values_at(u)
    prior = vectorised([compiled._prior_graph], compiled._value_variables)(compiled._split_parameters(u))[0]
    np.testing.assert_allclose(at.log_prior, prior, rtol=1e-13)
    theta = compiled.on_natural_scale(u)
    for name, values in theta.items():
        np.testing.assert_allclose(at.theta[name], values, rtol=1e-14)
    assert (at.normal is None) == (build is gamma)
    if at.normal is not None:
        for a, b in zip(at.normal, compiled.record_moments(theta), strict=True):
            np.testing.assert_allclose(a, np.broadcast_to(b, a.shape), rtol=1e-14)
    assert compiled.values_at(u, normal=False).normal is None
    rough = compiled.values_without_rewriting(u)
    np.testing.assert_allclose(rough.log_prior, at.log_prior, rtol=1e-12)
    for name, values in theta.items():
        np.testing.assert_allclose(rough.theta[name], values, rtol=1e-12)


def test_a_program_reads_data_again_at_every_run() -> None:
    compiled = compiled_model(PyMCBelief(students), 2)
    u = np.array([[0.3, -0.4]])
    before = compiled.values_at(u).normal
    compiled.model.set_data("shift", np.array([2.0, 3.0]))
    after = compiled.values_at(u).normal
    assert before is not None and after is not None
    assert before[0].ravel()[0] == pytest.approx(0.3 * 0.5 - 0.4 * 1.5)
    assert after[0].ravel()[0] == pytest.approx(0.3 * 2.0 - 0.4 * 3.0)


def test_sums_of_many_terms_whole_numbers_and_squares() -> None:
    import pytensor.tensor as pt

    x, i = pt.dvector("x"), pt.vector("i", dtype="int8")
    outputs = [x + 2 * x + i + x**2, pt.sqrt(i), i**2, x**3, pt.switch(x > 0, x, i), pt.sum(x * i)]
    mine = vectorised(outputs, [x, i])
    points = [RNG.normal(size=(4, 3)), RNG.integers(0, 9, (4, 3)).astype("int8")]
    for a, b in zip(mine(points), whole(outputs, [x, i])(*points), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_lengths_that_do_not_fit_are_refused() -> None:
    import pytensor.tensor as pt

    x, y = pt.dvector("x"), pt.dvector("y")
    mine = vectorised([x + y], [x, y])
    with pytest.raises(ValueError, match="length"):
        mine([np.ones((2, 3)), np.ones((2, 1))])


def test_a_product_grid_is_laid_out_as_its_points_are() -> None:
    roots = np.array([[[2.0, 0.0], [0.5, 1.5]], [[1.0, 0.0], [-0.2, 0.7]]])
    boxes = LaplaceBoxes(RNG.normal(size=(2, 2)), roots, np.full((2, 2), -9.0), np.full((2, 2), 9.0))
    z = [RNG.normal(size=(2, 3)), RNG.normal(size=(2, 4))]
    points = np.stack(np.broadcast_arrays(z[0][:, :, None], z[1][:, None, :]), axis=-1).reshape(2, -1, 2)
    found = boxes.parameters_on_grid([z[0][:, :, None], z[1][:, None, :]], (3, 4))
    np.testing.assert_allclose(found.reshape(2, -1, 2), boxes.parameters_at(points), rtol=1e-14)


def test_groups_of_releases_hold_each_release_once() -> None:
    count = 300
    high = RNG.uniform(8.6, 30.0, (count, 2))
    boxes = LaplaceBoxes(np.zeros((count, 2)), np.tile(np.eye(2), (count, 1, 1)), -high, high)
    groups = boxes.grouped_by_steps()
    assert sorted(i for members, _ in groups for i in members) == list(range(count))
    assert len(groups) > 4


@pytest.mark.parametrize(
    ("mask", "kind"), [(Noise(sd=0.4), "integrated on a shared grid"), (Round(base=1.0), "integrated over nodes")]
)
def test_the_slope_that_samplers_are_given_is_that_of_the_likelihood(mask: Any, kind: str) -> None:
    import pytensor

    compiled = compiled_model(LOGNORMAL, 1)
    seen = [observed_in(mask, np.array([[x]]), compiled, np.random.SeedSequence(3)) for x in (0.4, 9.0)]
    columns = join_rows(2, [(np.array([i]), one.columns[0]) for i, one in enumerate(seen)])
    likelihood = marginal_likelihood(compiled, replace(seen[0], columns=(columns,)))
    assert likelihood.name == kind
    with without_notices():
        model = likelihood.pymc_model()
        places = [model.rvs_to_values[model[rv.name]] for rv in compiled.free]
        logp = model.logp()
        function = pytensor.function(
            places, [logp, *pytensor.grad(logp, places)], mode=pytensor.compile.Mode("py", "fast_compile")
        )
    for u in np.random.default_rng(2).normal(0.2, 0.4, (4, 2)):
        found, *slope = (float(a) for a in function(*u))
        at = compiled.values_at(np.array([u]), normal=False)
        assert found == pytest.approx(float((at.log_prior + likelihood.log_likelihood(at.theta))[0]), rel=1e-9)
        for i, h in enumerate(1e-5 * np.eye(2)):
            moved = (float(function(*(u + h))[0]) - float(function(*(u - h))[0])) / 2e-5
            assert slope[i] == pytest.approx(moved, rel=1e-6, abs=1e-6)


def test_a_box_that_is_too_small_is_widened_without_looking_at_all_places() -> None:
    compiled = compiled_model(LOGNORMAL, 4)
    seen = observed_in(Noise(sd=0.4), np.array([[2.0], [1.0], [3.0], [0.5]]), compiled, np.random.SeedSequence(3))
    ((_, one),) = log_posteriors(compiled, [seen])
    assert isinstance(one, OnePosterior)
    boxes = find_boxes(one, compiled.initial[None])
    small = replace(boxes, low=boxes.low / 3, high=boxes.high / 3)
    looked: list[int] = []

    class Counted(OnePosterior):
        def evaluate(self, u: Any) -> Any:
            looked.append(u.shape[1])
            return super().evaluate(u)

    nodes = place_nodes(Counted(one.compiled, one.observed, one.likelihood), small)
    places = nodes.logs.size
    assert looked.count(places) == 1 and len(looked) > 2 and max(looked[:-1]) < places / 2
    edges = np.concatenate([nodes.logs[0][[0, -1]].ravel(), nodes.logs[0][:, [0, -1]].ravel()])
    assert edges.max() < nodes.logs.max() - 30
    wide = place_nodes(one, boxes)
    means = [(n.weights[0] * n.theta["mu"]).sum() for n in (nodes, wide)]
    assert means[0] == pytest.approx(means[1], abs=1e-6)


# -- frames and releases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [RNG.normal(size=6), RNG.normal(size=(6, 2))], ids=["vector", "matrix"])
def test_numbers_become_the_table_that_they_stand_for(given: Any) -> None:
    table = pd.DataFrame(given if given.ndim == 2 else given[:, None], index=list("abcdef")).rename(columns=str)
    new = RNG.normal(size=table.shape)
    for data in (table, given):
        frame = Frame.of(data)
        late = frame.replace(new, range(table.shape[1]))
        assert isinstance(late, NumericFrame) and late.plain and late.n == 6
        np.testing.assert_array_equal(late.numeric("a test")[0], new)
        again = late.replace(new[:, :1] + 1, [0])  # one column of them: through the table where there are more
        np.testing.assert_array_equal(again.numeric("a test")[0][:, 0], new[:, 0] + 1)
        np.testing.assert_array_equal(np.asarray(late.unwrap()).reshape(new.shape), new)
        pd.testing.assert_index_equal(late.table.index, frame.table.index)
        pd.testing.assert_index_equal(late.table.columns, frame.table.columns)
        late.table.iloc[0, 0] = 99.0  # what is written into the table holds
        assert late.numeric("a test")[0][0, 0] == 99.0


def test_columns_of_other_types_keep_them() -> None:
    table = pd.DataFrame({"a": np.arange(3, dtype=np.float32), "b": [1.0, 2.0, 3.0]})
    frame = Frame.of(table)
    assert not frame.plain
    assert frame.replace(np.ones((3, 2)), [0, 1]).table.dtypes.tolist() == [np.dtype("float32"), np.dtype("float64")]


MASKS = [
    Noise(sd=0.7),
    Noise(variance=2),
    Noise(sd=[0.5] * 5 + [0.0] * 3),
    Noise(sd=0.7, kind="laplace"),
    Noise(sd=0.7) | Clip(lower=0),
    Noise(sd=float("inf")),
    Noise(sd=0.4) | Noise(variance=0.3),
    Noise(sd=0.4) | Subsample(4),
    Subsample(4) | Noise(sd=0.4),
    Suppress(rows=[1, 2]) | Noise(sd=0.3),
    Round(0.5),
]


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_a_release_tells_the_same_with_and_without_a_table(mask: Any) -> None:
    table = pd.DataFrame(RNG.normal(2.0, 1.0, (8, 1)))
    compiled = compiled_model(PyMCBelief(normal), 8)
    short = observed_in(mask, Frame.of(table), compiled, np.random.SeedSequence(3))
    long = observe(mask, mask.release(table, np.random.SeedSequence(3)), 8)
    x = RNG.normal(2.0, 1.0, (4, 8))
    assert short.names == long.names and short.categorical == long.categorical
    for a, b in zip(short.columns, long.columns, strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a.log(x), b.log(x))


@pytest.mark.parametrize("size", [0.0, 1e-9, 0.37, 4.0, 1e200])
def test_noise_of_one_size_is_that_of_its_covariance(size: float) -> None:
    """To the last bit: one number for all entries takes a shorter way than a matrix."""
    data = RNG.normal(size=(6, 2))
    one, matrix = Noise(variance=size), Noise(covariance=np.diag([size, size]))
    np.testing.assert_array_equal(one.release(data, 1), matrix.release(data, 1))
    for a, b in zip(observe(one, data, 6).columns, observe(matrix, data, 6).columns, strict=True):
        assert a.normal is not None and b.normal is not None
        np.testing.assert_array_equal(a.normal[0], b.normal[0])
        np.testing.assert_array_equal(a.normal[1], b.normal[1])
