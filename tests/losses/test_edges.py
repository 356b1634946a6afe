"""Every loss of every posterior at the edge: point masses, one state, chances of 1e-300, scales of 1e150, batches."""

from __future__ import annotations

import numpy as np
import pytest
from edges import attempt, read_only

import ruvdecision as ruv
from ruvdecision import losses, posteriors
from ruvdecision.errors import RuvError

#: Variants of every loss as functions of a scale: the loss of s * theta in the units of s * theta.
LOSSES = {
    "CRPS": [lambda s: ruv.CRPS()],
    "Absolute": [lambda s: ruv.Absolute()],
    "CustomLoss": [
        lambda s: ruv.CustomLoss(lambda e, t: ((e - t) / s) ** 2),
        lambda s: ruv.CustomLoss(
            lambda e, t: float(abs(e - t) / s) if np.ndim(e) == 0 else np.abs(np.asarray(e) - t) / s, location_free=True
        ),
    ],
    "Huber": [lambda s: ruv.Huber(s), lambda s: ruv.Huber(1e-3 * s), lambda s: ruv.Huber(1e3 * s)],
    "IntervalScore": [
        lambda s: ruv.IntervalScore(0.9),
        lambda s: ruv.IntervalScore(1e-6),
        lambda s: ruv.IntervalScore(1 - 1e-9),
    ],
    "KullbackLeibler": [lambda s: ruv.KullbackLeibler(), lambda s: ruv.KullbackLeibler(entropy=False)],
    "Linex": [lambda s: ruv.Linex(0.5 / s), lambda s: ruv.Linex(-2.0 / s, b=3.0)],
    "LogScore": [lambda s: ruv.LogScore()],
    "Pinball": [lambda s: ruv.Pinball(0.7), lambda s: ruv.Pinball(1e-9), lambda s: ruv.Pinball(1 - 1e-9)],
    "Power": [
        lambda s: ruv.Power(1.5),
        lambda s: ruv.Power(0.5),
        lambda s: ruv.Power(1),
        lambda s: ruv.Power(2),
        lambda s: ruv.Power(1.9999),
        lambda s: ruv.Power(3),
    ],
    "Quadratic": [lambda s: ruv.Quadratic(), lambda s: ruv.Quadratic(2.0), lambda s: ruv.Quadratic([0.5])],
    "ZeroOne": [lambda s: ruv.ZeroOne(), lambda s: ruv.ZeroOne(0.3 * s)],
}
#: The power of the scale that U is in; None for those whose parameters carry it, so that U does not change.
DEGREE = {"Absolute": 1, "CRPS": 1, "IntervalScore": 1, "Pinball": 1, "Quadratic": 2, "Huber": 2}

GRID = np.linspace(-8, 8, 161)
DRAWS = np.random.default_rng(0).standard_normal(200)

#: Laws of numbers as functions of a scale.
LAWS = {
    "Gaussian": {
        "plain": lambda s: ruv.posteriors.Gaussian.scalar(0.3 * s, 1.7 * s * s),
        "point": lambda s: ruv.posteriors.Gaussian.scalar(0.3 * s, 0.0),
        "far": lambda s: ruv.posteriors.Gaussian.scalar(1e9 * s, s * s),
    },
    "Finite": {
        "plain": lambda s: ruv.posteriors.Finite(s * np.array([0.0, 1.0, 2.5]), [0.2, 0.5, 0.3]),
        "one state": lambda s: ruv.posteriors.Finite([2.0 * s], [1.0]),
        "point": lambda s: ruv.posteriors.Finite(s * np.array([0.0, 1.0]), [0.0, 1.0]),
        "chance 1e-300": lambda s: ruv.posteriors.Finite(s * np.array([0.0, 1.0]), [1e-300, 1.0]),
        "twice the same value": lambda s: ruv.posteriors.Finite(s * np.array([1.0, 1.0, 2.0]), [0.25, 0.25, 0.5]),
        "ties": lambda s: ruv.posteriors.Finite(s * np.array([0.0, 1.0, 2.0, 3.0]), [0.25] * 4),
    },
    "Mixture": {
        "plain": lambda s: ruv.posteriors.Mixture(
            ruv.posteriors.Gaussian.scalar(s * np.array([0.0, 2.0]), s * s * np.array([1.0, 0.5])), [0.4, 0.6]
        ),
        "point": lambda s: ruv.posteriors.Mixture(
            ruv.posteriors.Gaussian.scalar(s * np.array([0.0, 2.0]), [0.0, 0.0]), [0.0, 1.0]
        ),
        "two points": lambda s: ruv.posteriors.Mixture(
            ruv.posteriors.Gaussian.scalar(s * np.array([0.0, 2.0]), [0.0, 0.0]), [0.5, 0.5]
        ),
        "point and normal": lambda s: ruv.posteriors.Mixture(
            ruv.posteriors.Gaussian.scalar(s * np.array([0.0, 2.0]), [0.0, s * s]), [0.5, 0.5]
        ),
        "chance 1e-300": lambda s: ruv.posteriors.Mixture(
            ruv.posteriors.Gaussian.scalar(s * np.array([5.0, 0.0]), s * s * np.ones(2)), [1e-300, 1.0]
        ),
    },
    "Drawn": {
        "plain": lambda s: ruv.posteriors.Drawn(s * DRAWS),
        "chains": lambda s: ruv.posteriors.Drawn(s * DRAWS.reshape(4, 50), chains=4),
        "weighted": lambda s: ruv.posteriors.Drawn(s * DRAWS, weights=np.arange(1.0, 201.0)),
        "all weight on one": lambda s: ruv.posteriors.Drawn(s * DRAWS, weights=np.eye(200)[3]),
        "point": lambda s: ruv.posteriors.Drawn(np.full(10, 2.0 * s)),
        "two draws": lambda s: ruv.posteriors.Drawn(s * np.array([0.0, 1.0])),
        "discrete": lambda s: ruv.posteriors.Drawn(s * np.arange(6.0).repeat(3), discrete=True),
    },
    "sampled Mixture": {
        "plain": lambda s: ruv.posteriors.Mixture(
            ruv.posteriors.Gaussian.scalar(s * np.linspace(-1, 1, 40), 1.5 * s * s), sampled=True
        ),
        "points": lambda s: ruv.posteriors.Mixture(
            ruv.posteriors.Gaussian.scalar(s * np.linspace(-1, 1, 40), 0.0), sampled=True
        ),
        "one point": lambda s: ruv.posteriors.Mixture(ruv.posteriors.Gaussian.scalar(np.full(5, s), 0.0), sampled=True),
        "finite": lambda s: ruv.posteriors.Mixture(
            ruv.posteriors.Finite(s * np.arange(3.0), [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]), sampled=True
        ),
        "nodes": lambda s: ruv.posteriors.Mixture(
            ruv.posteriors.Gaussian.scalar(s * np.array([0.0, 1.0]), s * s), [0.5, 0.5]
        ),
    },
    "Curve": {"plain": lambda s: ruv.posteriors.Curve(s * GRID, -(GRID**2) / 2)},
    "PartlyDiscrete": {
        "two points beside": lambda s: ruv.posteriors.PartlyDiscrete(
            ruv.posteriors.Finite([0.0, s], [0.4, 0.6]), ruv.posteriors.Curve(s * GRID, -(GRID**2) / 2), 0.3
        )
    },
}

#: A point mass on a continuum has no density: its entropy is minus infinity, which `LogScore` documents.
BOTTOMLESS = {
    "point",
    "two points",
    "point and normal",
    "all weight on one",
    "two draws",
    "points",
    "one point",
    "two points beside",
}
#: The function of a CustomLoss is integrated and searched, which takes a while; these laws will do by default.
QUICK = {
    ("Gaussian", "plain"),
    ("Finite", "plain"),
    ("Finite", "point"),
    ("Finite", "chance 1e-300"),
    ("Drawn", "two draws"),
}


def every_law(name, slow):
    return [
        (law, kind)
        for law, laws in LAWS.items()
        for kind in laws
        if name != "CustomLoss" or ((law, kind) in QUICK) != slow
    ]


def test_every_loss_and_posterior_is_tried():
    apart = {"BayesLoss", "Componentwise"}
    assert set(LOSSES) == {n for n in losses.__all__ if isinstance(getattr(losses, n), type)} - apart
    assert set(LAWS) - {"sampled Mixture"} == set(posteriors.__all__) - {"BasePosterior"}


def check_law(name, law, kind):
    """U at scales 1, 1e-150 and 1e150: never NaN, not negative, an error that is one, and in the units of the loss."""
    for variant, make in enumerate(LOSSES[name]):
        base = None
        for scale in (1.0, 1e-150, 1e150):
            where = f"{name}[{variant}] of {law}, {kind}, at scale {scale:g}"
            found = attempt(lambda: make(scale).uncertainty(LAWS[law][kind](scale)), kind="losses")  # noqa: B023
            if isinstance(found, RuvError):
                # A curve is drawn in sensible units; KullbackLeibler has no numbers on a continuum.
                assert (law in {"Curve", "PartlyDiscrete"} and scale != 1.0) or (
                    name == "KullbackLeibler" and LAWS[law][kind](scale).support is None
                ), where
                continue
            value, error = float(found.value), float(found.error)
            assert not np.isnan(value) and error >= 0, where
            assert value >= 0 or name == "LogScore", where
            if np.isinf(value):
                large = name == "Power" and make(scale).p == 3 and scale > 1
                assert large or (name == "LogScore" and value < 0 and kind in BOTTOMLESS), where
                continue
            if scale == 1.0:
                base = value
                continue
            degree = make(scale).p if name == "Power" else DEGREE.get(name, 0)
            if name == "LogScore" and LAWS[law][kind](1.0).support is None:
                assert value == pytest.approx(base + np.log(scale), rel=1e-9, abs=1e-9), where
            elif degree == 3:  # mostly out of reach
                with np.errstate(divide="ignore"):
                    assert value == pytest.approx(
                        np.exp(np.log(base) + degree * np.log(scale)), rel=1e-7, abs=1e-300
                    ), where
            else:
                assert value == pytest.approx(base * scale**degree, rel=1e-7, abs=1e-12 * scale**degree), where


@pytest.mark.slow
@pytest.mark.campaign(3)
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_loss_of_law(name):
    for law, kind in every_law(name, slow=False):
        check_law(name, law, kind)


@pytest.mark.long
def test_own_loss_of_every_law():
    for law, kind in every_law("CustomLoss", slow=True):
        check_law("CustomLoss", law, kind)


BATCHES = {
    "Gaussian": lambda shape: ruv.posteriors.Gaussian.scalar(
        np.arange(np.prod(shape, dtype=int)).reshape(shape) * 1.5, 1.0 + np.ones(shape)
    ),
    "Finite": lambda shape: ruv.posteriors.Finite([0.0, 1.0, 3.0], np.broadcast_to([0.2, 0.5, 0.3], (*shape, 3))),
    "Mixture": lambda shape: ruv.posteriors.Mixture(
        ruv.posteriors.Gaussian.scalar(np.broadcast_to([0.0, 2.0], (*shape, 2)), [1.0, 0.5]), [0.4, 0.6]
    ),
    "Curve": lambda shape: ruv.posteriors.Curve(GRID, np.broadcast_to(-(GRID**2) / 2, (*shape, len(GRID)))),
}


@pytest.mark.slow
@pytest.mark.campaign(4, "slow")
@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"CustomLoss"}))
@pytest.mark.parametrize("law", sorted(BATCHES))
def test_a_batch_is_each_alone(name, law):
    if name == "KullbackLeibler" and law != "Finite":
        return
    loss = LOSSES[name][0](1.0)
    for shape in ((), (1,), (0,), (3, 2)):
        if law == "Curve" and 0 in shape:
            assert isinstance(attempt(lambda: BATCHES["Curve"]((0,)), kind="losses"), RuvError)
            continue
        batch = BATCHES[law](shape)
        found = attempt(lambda: loss.uncertainty(batch), kind="losses")  # noqa: B023
        assert not isinstance(found, RuvError), f"{shape}: {found}"
        assert found.value.shape == shape and np.shape(found.error) == shape
        for index in np.ndindex(shape):
            alone = loss.uncertainty(batch.select(index)).value
            assert float(alone) == pytest.approx(float(found.value[index]), rel=1e-9)


VECTORS = {
    "Gaussian": lambda: ruv.posteriors.Gaussian([1.0, -2.0], [[2.0, 0.5], [0.5, 1.0]]),
    "a point": lambda: ruv.posteriors.Gaussian([1.0, -2.0], np.zeros((2, 2))),
    "singular": lambda: ruv.posteriors.Gaussian([1.0, -2.0], np.ones((2, 2))),
    "Finite": lambda: ruv.posteriors.Finite([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]], [0.5, 0.25, 0.25]),
    "one state": lambda: ruv.posteriors.Finite([[0.0, 1.0]], [1.0]),
    "Drawn": lambda: ruv.posteriors.Drawn(np.random.default_rng(1).standard_normal((50, 2))),
    "two draws": lambda: ruv.posteriors.Drawn(np.eye(2)),
}


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"CustomLoss"}))
def test_vectors(name):
    """A sum over components where the loss is one; always a number that is not negative, or -inf for the log score."""
    for kind, make in VECTORS.items():
        for variant in LOSSES[name]:
            loss, posterior = variant(1.0), make()
            if getattr(loss, "weights", 1.0) == (0.5,):
                continue  # one weight in a list is for numbers
            found = attempt(lambda: loss.uncertainty(posterior), kind="losses")  # noqa: B023
            if isinstance(found, RuvError):
                assert name == "KullbackLeibler", f"{loss} of {kind}: {found}"
                continue
            assert np.shape(found.value) == () and not np.isnan(found.value) and found.error >= 0, f"{loss} of {kind}"
            assert found.value >= 0 or name == "LogScore", f"{loss} of {kind}"


def test_constructors_take_arrays_of_any_kind_and_leave_them_alone():
    plain = ruv.Quadratic().uncertainty(ruv.posteriors.Finite([0.0, 1.0, 3.0], [0.25, 0.5, 0.25])).value
    for values in (
        read_only(np.array([0.0, 1.0, 3.0])),
        np.array([0, 1, 3], dtype="int8"),
        np.array([0, 1, 3], dtype="float32"),
        [0, 1, 3],
    ):
        for chances in (
            read_only(np.array([0.25, 0.5, 0.25])),
            np.array([0.25, 0.5, 0.25], dtype="float16"),
            (0.25, 0.5, 0.25),
        ):
            found = attempt(
                lambda v, p: ruv.Quadratic().uncertainty(ruv.posteriors.Finite(v, p)), values, chances, kind="losses"
            )
            assert float(found.value) == float(plain)
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    for matrix in (read_only(cov.copy()), np.asfortranarray(cov), cov.astype("float32"), cov.tolist()):
        for mean in (read_only(np.array([1.0, 2.0])), np.array([1, 2]), [1, 2]):
            found = attempt(
                lambda m, c: ruv.Quadratic().uncertainty(ruv.posteriors.Gaussian(m, c)), mean, matrix, kind="losses"
            )
            assert float(found.value) == 3.0
    wide = np.asfortranarray(np.arange(12.0).reshape(6, 2))
    found = attempt(lambda d: ruv.Absolute().uncertainty(ruv.posteriors.Drawn(d)), read_only(wide), kind="losses")
    assert float(found.value) == pytest.approx(6.0)


ENDS = [
    5e-324,
    1e-310,
    1e-160,
    1e-16,
    np.nextafter(1, 0),
    np.nextafter(2, 3),
    1e16,
    1e160,
    1e300,
    1.7e308,
    -1e308,
    np.inf,
]


@pytest.mark.slow
@pytest.mark.parametrize("make", [ruv.Huber, ruv.Linex, ruv.Pinball, ruv.Power, ruv.ZeroOne, ruv.IntervalScore])
def test_every_parameter_up_to_the_ends_of_floats(make):
    """A loss is refused, or every posterior has a U that is a number; no search goes on without end."""
    laws = [law(1.0) for kind in LAWS.values() for law in kind.values()]
    for end in ENDS:
        loss = attempt(make, end, kind="losses")
        if isinstance(loss, RuvError):
            continue
        for law in laws:
            found = attempt(loss.uncertainty, law, kind="losses")
            assert isinstance(found, RuvError) or not np.isnan(found.value).any(), (end, law)
