"""Graphs that are taken as they are against the same graphs rewritten by PyTensor, far out too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ruvdecision.beliefs.pymc import BuiltModel, PyMCBelief, building_graphs, quiet_pymc
from ruvdecision.engines.pymc.model import CompiledModel, compiled_model
from ruvdecision.engines.pymc.parameters import draw_with_numpy
from ruvdecision.engines.pymc.plain_graphs import program_without_rewriting
from ruvdecision.engines.pymc.programs import _rewritten_program

pytest.importorskip("pymc")

NEAR = np.array([0, 0.3, 1, 5, 10, 18, 30, 40, 60, 100, 200, 300, 340.0])
FAR = np.array([355, 400, 600, 709, 710, 745, 746, 800, 1500.0])
LAWS: dict[str, Callable[[Any, Any], Any]] = {
    "normal": lambda pm, s: pm.Normal("p", 1, s),
    "half-normal": lambda pm, s: pm.HalfNormal("p", s),
    "half-Cauchy": lambda pm, s: pm.HalfCauchy("p", s),
    "gamma": lambda pm, s: pm.Gamma("p", 0.01, s),
    "inverse gamma": lambda pm, s: pm.InverseGamma("p", 0.01, s),
    "exponential": lambda pm, s: pm.Exponential("p", s),
    "lognormal": lambda pm, s: pm.LogNormal("p", 0, s),
    "Laplace": lambda pm, s: pm.Laplace("p", 0, s),
    "half-t": lambda pm, s: pm.HalfStudentT("p", nu=3, sigma=s),
    "Weibull": lambda pm, s: pm.Weibull("p", 0.3, s),
    "Gumbel": lambda pm, s: pm.Gumbel("p", 0, s),
}


def with_prior(law: Callable[[Any, Any], Any], above: bool) -> CompiledModel:
    """A model with this prior, whose scale is unknown too if wanted."""

    def build(n: int) -> Any:
        pm = quiet_pymc()
        with pm.Model() as model:
            law(pm, pm.HalfNormal("s", 2) if above else 2.0)
            pm.Normal("x", 0, 1, shape=n)
        return model

    return compiled_model(PyMCBelief(build), 1)


def log_priors(compiled: CompiledModel, u: Any) -> tuple[Any, Any]:
    """As they are, and after PyTensor's rewrites; where there is none, nothing of the prior is there."""
    plain = compiled._function_without_rewriting([], with_prior=True)
    assert plain is not None
    values = compiled._split_parameters(u)
    with building_graphs():
        rewritten = _rewritten_program([compiled._prior_graph], compiled._value_variables, (), True)
    with np.errstate(all="ignore"):
        mine = sum(np.broadcast_to(a, (len(u),)) for a in plain(values))
        theirs = np.broadcast_to(rewritten(*values)[0], (len(u),))
    return tuple(np.where(np.isnan(a), -np.inf, a) for a in (mine, theirs))


@pytest.mark.campaign(6, "slow")
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("above", [False, True], ids=["known scale", "unknown scale"])
def test_no_rewrite_would_change_a_prior(name: str, above: bool) -> None:
    compiled = with_prior(LAWS[name], above)
    for line in (NEAR, FAR):
        places = np.concatenate([-line[::-1], line])
        u = np.array([(s, p) for s in (-30, -3.0, 0, 3, 30) for p in places]) if above else places[:, None]
        mine, theirs = log_priors(compiled, u)
        # So far out that both are nothing, it does not matter where numbers end.
        there = (mine > -150) | (theirs > -150) if line is FAR else np.isfinite(mine) | np.isfinite(theirs)
        assert there.any() or line is FAR, "nothing is compared"
        np.testing.assert_allclose(mine[there], theirs[there], rtol=1e-12, atol=1e-12)


def test_a_share_near_one_keeps_its_digits() -> None:
    """Beta(2, 3) on the logit scale: p^2 (1 - p)^3 up to a constant, p = 1 / (1 + exp(-u)), 1 - p written out apart."""
    compiled = with_prior(lambda pm, s: pm.Beta("p", 2, 3), False)
    u = np.concatenate([-NEAR[::-1], NEAR])
    exact = -2 * np.logaddexp(0, -u) - 3 * np.logaddexp(0, u)
    found = compiled.values_at(u[:, None]).log_prior
    np.testing.assert_allclose(found - found[len(NEAR)], exact - exact[len(NEAR)], rtol=1e-12)


@pytest.mark.parametrize("fragile", ["log(1 - exp)", "log(sum of exp)", "log1p(exp)", "exp - 1", "log(1 + x)"])
def test_a_form_that_loses_digits_is_left_to_pytensor(fragile: str) -> None:
    import pytensor.tensor as pt

    x = pt.dvector("x")
    graph = {
        "log(1 - exp)": pt.log(1 - pt.exp(x)),
        "log(sum of exp)": pt.log(pt.sum(pt.exp(x))),
        "log1p(exp)": pt.log1p(pt.exp(x)),
        "exp - 1": pt.exp(x) - 1,
        "log(1 + x)": pt.log(1 + x),
    }[fragile]
    assert program_without_rewriting([graph], [x]) is None
    assert program_without_rewriting([graph], [x], strict=False) is not None


def test_a_branch_that_is_never_taken_is_not_walked() -> None:
    import pytensor.tensor as pt

    x = pt.dvector("x")
    program = program_without_rewriting([pt.switch(pt.constant(True), 2 * x, pt.exp(x))], [x])
    assert program is not None and len(program.steps) == 1
    np.testing.assert_array_equal(program(np.ones((3, 2)))[0], np.full((3, 2), 2.0))


def test_densities_of_records_at_many_nodes() -> None:
    def build(n: int) -> Any:
        pm = quiet_pymc()
        with pm.Model() as model:
            pm.LogNormal("x", pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("sigma", 1.0), shape=n)
        return model

    import pytensor.tensor as pt

    compiled, rng = compiled_model(PyMCBelief(build), 2), np.random.default_rng(0)
    theta = {"mu": rng.normal(0, 20, 50), "sigma": np.exp(rng.normal(0, 8, 50))}
    nodes = np.append(0.0, np.exp(np.linspace(-60, 60, 41)))[:, None] * np.ones(2)
    symbol = pt.tensor("nodes", dtype="float64", shape=(None, 2))
    with building_graphs():
        rewritten = _rewritten_program([compiled.log_density_graph_at(symbol)], compiled.free, [symbol], True)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            compiled.log_density(theta, nodes), rewritten(theta["mu"], theta["sigma"], nodes)[0], rtol=1e-12
        )


def test_moments_that_are_the_same_at_all_points() -> None:
    """As many points as records: what is known of each record is not taken for what is known at each point."""

    def build(n: int) -> Any:
        pm = quiet_pymc()
        with pm.Model() as model:
            pm.Normal("x", np.arange(float(n)), pm.HalfNormal("sigma", 1.0), shape=n)
        return model

    compiled = compiled_model(PyMCBelief(build), 4)
    moments = compiled.values_at(np.zeros((4, 1))).normal
    assert moments is not None
    np.testing.assert_array_equal(moments[0], np.tile(np.arange(4.0), (4, 1)))
    np.testing.assert_array_equal(moments[1], np.ones((4, 1)))


def test_numpy_draws_what_pymc_draws() -> None:
    def build(n: int) -> Any:
        pm = quiet_pymc()
        with pm.Model() as model:
            s = pm.HalfNormal("s", 2.0)
            a = pm.Gamma("a", 2.0, 1.0)
            mu = pm.Normal("mu", a, s)
            z = pm.Normal("z", 0.0, 1.0, shape=2)
            pm.Normal("x", mu + z[0], pm.Uniform("top", 1.0, 2.0), shape=n)
        return model

    compiled = compiled_model(PyMCBelief(build), 3)
    mine = draw_with_numpy(compiled.free, compiled.shapes, 50, 77)
    theirs = BuiltModel._draw_at_once(compiled, 50, 77)
    assert mine is not None and theirs is not None
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
