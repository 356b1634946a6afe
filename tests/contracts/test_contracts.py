"""What every exported implementation must do, whoever wrote it: a newcomer is tested on arrival."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
from examples import BELIEFS, CATEGORICAL, LOSSES, MASKS, MEASURES, POSTERIORS, TARGETS, exported, measure_names

import ruvdecision as ruv
from ruvdecision import engines, losses, masks, measures, posteriors, protocols, targets
from ruvdecision.engines import base


def test_every_class_has_an_example():
    assert set(exported(masks, masks.Mask)) == set(MASKS)
    assert {n for n in exported(losses, None) if n != "Loss"} >= set(LOSSES)
    assert set(exported(posteriors, None)) - {"BasePosterior"} == set(POSTERIORS) - {"sampled Mixture"}
    assert set(exported(targets, targets.BaseTarget)) == {*TARGETS, "Cell"}


@pytest.mark.parametrize("name", sorted(MASKS))
def test_mask(name):
    mask = MASKS[name]
    assert dataclasses.is_dataclass(mask) and mask.__dataclass_params__.frozen
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mask, dataclasses.fields(mask)[0].name if dataclasses.fields(mask) else "x", 1)
    assert repr(mask.parts[-1]).startswith(name) or name == "Chain"
    assert isinstance(mask.technique, str) and isinstance(mask.parameters(), dict)
    assert hash(mask.family) == hash(pickle.loads(pickle.dumps(mask)).family)
    assert (mask | ruv.Release()).parts[-1] == ruv.Release()
    if name == "SuppressCells":
        data = np.array([[1, 2], [3, 4]])
    elif name in ("Stochastic", "Mechanism"):
        data = np.array([0, 1, 1, 0, 1, 0])
    else:
        data = np.arange(6.0)
    kept = data.copy()
    first, again = mask.release(data, 1), mask.release(data, 1)
    np.testing.assert_array_equal(data, kept)
    np.testing.assert_array_equal(first, again)
    assert isinstance(first, np.ndarray)
    frame = mask.release(pd.DataFrame(data), 1)
    assert isinstance(frame, pd.DataFrame) and list(frame.columns) == list(pd.DataFrame(data).columns)
    if name not in ("Subsample", "Chain"):
        assert list(frame.index) == list(range(len(data)))


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize("law", sorted(POSTERIORS))
def test_loss_of_posterior(name, law):
    """U is the expected loss of the estimate, and no other estimate does better."""
    loss, posterior = LOSSES[name], POSTERIORS[law]
    assert isinstance(loss, protocols.Loss) and isinstance(posterior, protocols.Posterior)
    if name == "KullbackLeibler" and law != "Finite":
        with pytest.raises(ruv.RuvError):
            loss.uncertainty(posterior)
        return
    value = loss.uncertainty(posterior)
    assert np.shape(value.value) == () and np.all(value.error >= 0)
    # Whoever names a point mass right is rewarded by the log score without bound.
    assert np.isfinite(value.value) or (law, name) == ("PartlyDiscrete", "LogScore")
    if law in ("Gaussian", "Finite") and name not in ("CustomLoss",):
        assert value.error == 0
    if name in ("LogScore", "KullbackLeibler", "CRPS", "IntervalScore"):
        return
    estimate = loss.estimate(posterior)
    expected = posterior.expect(lambda t: loss(estimate, t), at=estimate)
    slack = 1e-9 + (1e-6 if law == "Mixture" else 0) + 4 * float(value.error)
    if name != "ZeroOne":
        assert float(value.value) == pytest.approx(float(expected.value), rel=1e-6, abs=slack)
    for shift in (-0.2, 0.2):
        other = posterior.expect(lambda t: loss(estimate + shift, t), at=estimate + shift)  # noqa: B023
        assert float(other.value) >= float(value.value) - slack - (2e-2 if name == "ZeroOne" else 0)


@pytest.mark.campaign(5, "slow")
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_target(name):
    target = TARGETS[name]
    assert isinstance(target, protocols.Target) and isinstance(target.describe(), str) and repr(target).startswith(name)
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.anything = 1
    belief = ruv.NormalBelief(records=4, variance=1, prior_variance=1)
    masks = [ruv.Release(), ruv.Noise(variance=1.0), ruv.Suppress()]
    if name in ("Maximum", "Minimum", "OrderStatistic", "Percentile"):
        user, masks = ruv.Snooper(target, target, belief=belief), masks[:2]
    else:
        user = ruv.User(belief, target, ruv.ZeroOne() if name == "Identity" else ruv.Quadratic())
    rumap = ruv.evaluate(masks, intruder=user, scientist=user, seed=1)
    assert np.all(np.diff(rumap.intruder_uncertainty) > 0)


@pytest.mark.parametrize("name", sorted(BELIEFS))
def test_belief(name):
    belief, target, mask, loss = BELIEFS[name]
    assert isinstance(belief, protocols.Belief) and repr(belief).startswith(name) and isinstance(belief.describe(), str)
    user = ruv.User(belief, target, loss)
    assert user.describe().endswith(".")
    first, again = belief.draw(np.random.default_rng(1)), belief.draw(np.random.default_rng(1))
    np.testing.assert_array_equal(first, again)
    rumap = ruv.evaluate([ruv.Release(), mask, ruv.Suppress()], intruder=user, scientist=user, seed=1)
    u = rumap.intruder_uncertainty
    assert u[0] <= u[1] + 1e-12 and u[1] <= u[2] + 1e-12 and u[0] == 0
    posterior = ruv.posterior(user, mask, mask.release(first, 2))
    assert isinstance(posterior, protocols.Posterior)
    with pytest.raises(ruv.RuvError):
        ruv.User(belief, ruv.Parameter("nobody knows"), loss)


ENGINES = [engines.Exact(), engines.Enumeration(), engines.Ranks(), engines.WholeFile(), engines.FixedRule(), engines.Identification(),
           engines.Quadrature(), engines.Sampling()]  # fmt: skip


def gives_way(engine):
    """Whether users whom the engine is not made for get another, though it was asked for."""
    posterior = engines.Question.POSTERIOR
    return engine.answers is not posterior or engine.companions == base.ORDER[posterior]


def test_every_engine_has_a_place_in_the_list():
    listed = {name for places in base.ORDER.values() for _, name in places}
    assert (
        listed
        == {type(e).__name__ for e in ENGINES}
        == {n for n in exported(engines, engines.BaseEngine) if n != "BaseEngine"}
    )


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)
def test_engine(engine):
    """A problem gives a plan that runs as a whole and in pieces alike, or a refusal that says what is missing and what to do."""
    assert isinstance(engine, protocols.Engine) and isinstance(engine, engines.BaseEngine)
    root = np.random.SeedSequence(1)
    for name, (belief, target, mask, loss) in BELIEFS.items():
        if isinstance(belief, ruv.PyMCBelief):
            continue
        user = ruv.User(belief, target, loss)
        problem = engines.Problem.of(user, [mask, ruv.Suppress()], replicates=2, seed=root)
        plan = engine.plan(problem)
        if isinstance(plan, engines.Refusal):
            assert isinstance(plan.missing, engines.Missing) and plan.do, (
                f"{engine.name} refuses {name} without a way out"
            )
            assert isinstance(plan.error(), ruv.UnsupportedError) and plan.what in str(plan)
            if not gives_way(engine):
                with pytest.raises(ruv.UnsupportedError):
                    ruv.evaluate([mask], intruder=user, scientist=user, engine=engine)
            continue
        assert sorted(i for piece in plan.pieces for i in piece) == [0, 1]
        whole, alone = plan.run()[0], engine.solve(user, [mask, ruv.Suppress()], replicates=2, seed=root)
        np.testing.assert_array_equal(whole.uncertainty, alone.uncertainty)
        assert np.all(whole.before >= whole.uncertainty - 1e-12)
        for piece in plan.pieces:
            np.testing.assert_array_equal(plan.run(piece)[0].uncertainty, whole.uncertainty[piece])
            fresh = engine.plan(problem.for_masks(piece))
            np.testing.assert_array_equal(fresh.run()[0].uncertainty, whole.uncertainty[piece])


def test_posteriors_come_with_their_evidence():
    """The chance or density of the release: an integral over all releases for numbers, a sum for categories."""
    normal = ruv.User(ruv.NormalBelief(records=1, variance=2, prior_variance=3), ruv.Record(0), ruv.Quadratic())
    found = list(engines.Exact().posteriors(engines.Problem.of(normal, []), ruv.Noise(variance=1.5), [[0.3], [-2.0]]))
    total = 2 + 3 + 1.5
    expected = [-0.5 * (np.log(2 * np.pi * total) + y**2 / total) for y in (0.3, -2.0)]
    np.testing.assert_allclose([e.density()[0] for e in found], expected, rtol=1e-12)
    assert [e.density()[1] for e in found] == [1.0, 1.0]
    belief = ruv.FiniteBelief(values=[0, 1], probabilities=[0.3, 0.7])
    finite, mask = ruv.User(belief, ruv.Record(0), ruv.ZeroOne()), ruv.Stochastic([[0.9, 0.1], [0.2, 0.8]])
    found = list(engines.Enumeration().posteriors(engines.Problem.of(finite, []), mask, [[0], [1]]))
    np.testing.assert_allclose(
        np.exp([e.density()[0] for e in found]), [0.3 * 0.9 + 0.7 * 0.2, 0.3 * 0.1 + 0.7 * 0.8], rtol=1e-12
    )
    for e, release in zip(found, ([0], [1]), strict=True):
        own = engines.Enumeration().posterior(finite, mask, release)
        np.testing.assert_allclose(e.posterior.probabilities, own.probabilities, rtol=1e-12)


def test_pick_gives_way_where_an_engine_is_not_made_for_the_user():
    belief = ruv.NormalBelief(records=4, variance=1, prior_variance=1)
    plain = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    for asked in [e for e in ENGINES if gives_way(e)]:
        assert isinstance(engines.pick(asked, plain, [ruv.Noise(sd=1.0)]), engines.Exact)
    assert isinstance(
        engines.pick("exact", ruv.Snooper("mean", ruv.Record(0)), [ruv.Noise(sd=1.0)], np.arange(4.0)),
        engines.FixedRule,
    )
    with pytest.raises(ruv.UnsupportedError, match="Enumeration needs a FiniteBelief") as error:
        engines.pick(engines.Enumeration(), plain, [ruv.Noise(sd=1.0)])
    assert error.value.do == "Use engine='auto'"


@pytest.mark.parametrize("name", measure_names())
def test_measure(name):
    """A name, a role and a direction; the original itself never does worse than an altered file.

    Inputs stay as they were.
    """
    measure = getattr(measures, name)(**MEASURES.get(name, {}))
    assert isinstance(measure, protocols.Measure) and measure.name and measure.role in ("risk", "utility")
    assert measure.direction in ("higher", "lower")
    rng = np.random.default_rng(0)
    if name in CATEGORICAL:
        original = pd.DataFrame({"g": rng.choice(list("xyz"), 200), "h": rng.choice(list("uv"), 200)})
        released = original.assign(g=rng.permutation(original["g"].to_numpy()))
    else:
        original = pd.DataFrame(
            rng.standard_normal((200, 3)) @ [[1, 0.5, 0], [0, 1, 0.5], [0, 0, 1]], columns=list("abc")
        )
        released = original + 0.5 * rng.standard_normal((200, 3))
    if name == "ImputationLoss":
        released, same = [released, released + 0.1], [original, original]
    else:
        same = original
    before = original.copy()
    value, itself = float(measure(original, released)), float(measure(original, same))
    pd.testing.assert_frame_equal(original, before)
    assert np.isfinite(value) and np.isfinite(itself)
    if measure.role == "utility" and name != "VarianceInflation":
        assert itself <= value + 1e-9 if measure.direction == "lower" else itself >= value - 1e-9
