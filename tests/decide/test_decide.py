"""The frontier and the choice under a threshold."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ruvdecision.decide import choose, frontier, not_dominated
from ruvdecision.errors import InfeasibleError, InputError
from ruvdecision.maps.rumap import Provenance, RUMap
from ruvdecision.masks import Microaggregate, Noise, Suppress
from ruvdecision.protocols import Value


def brute_force(risk, utility):
    keep = []
    for r, u in zip(risk, utility, strict=True):
        if np.isnan(r) or np.isnan(u):
            keep.append(False)
            continue
        better = (risk <= r) & (utility >= u) & ((risk < r) | (utility > u))
        keep.append(not np.any(better))
    return keep


values = st.one_of(
    st.integers(-4, 4).map(float), st.floats(-100, 100), st.sampled_from([np.inf, -np.inf, np.nan, 0.0, -0.0])
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(values, values), min_size=1, max_size=60))
def test_frontier_agrees_with_brute_force(points):
    risk, utility = np.array(points).T
    assert not_dominated(risk, utility, tolerance=0).tolist() == brute_force(risk, utility)


def test_frontier_of_many_points_agrees_with_brute_force():
    rng = np.random.default_rng(5)
    for step in (0.0, 0.05, 0.5):
        points = rng.random((2, 1500))
        risk, utility = np.round(points / step) * step if step else points
        assert not_dominated(risk, utility).tolist() == brute_force(risk, utility)


def test_values_that_differ_by_rounding_tie():
    risk, utility = np.array([0.5, 0.5 * (1 + 1e-15), 0.5]), np.array([2.0, 2.0, 2.0 * (1 - 2e-15)])
    assert not_dominated(risk, utility).all()
    assert not_dominated(risk, utility, tolerance=0).tolist() == [True, False, False]
    assert not_dominated([0.5, 0.5 * (1 + 1e-9)], [1, 1]).tolist() == [True, False]


def build(risk, utility, **more):
    with np.errstate(divide="ignore"):
        labels = more.pop("labels", [f"r{i}" for i in range(len(risk))])
        error = np.broadcast_to(more.pop("error", 0.0), len(risk))
        u = 1 / np.asarray(risk, dtype=float)
        return RUMap.build(
            labels=labels, intruder=Value(u, error * u**2), scientist=1 / np.asarray(utility, dtype=float), **more
        )


def test_frontier_is_a_map_in_order_of_risk():
    rumap = build([0.5, 0.2, 0.5, 0.4, np.inf, np.nan], [3, 1, 3, 0.5, 3.5, 9])
    best = frontier(rumap)
    assert best.releases == ("r1", "r0", "r2", "r4")
    assert rumap.frontier().releases == best.releases
    assert np.all(np.diff(best.risk[:-1]) >= 0)
    # With nothing more to gain, infinite risk is dominated.
    assert frontier(build([1, np.inf], [3, 3])).releases == ("r0",)
    assert frontier(build([1], [3])).releases == ("r0",)
    with pytest.raises(InputError, match="both a risk and a utility"):
        frontier(build([np.nan], [1]))


def example_1(grid):
    """T-F example 1: n = 10, variance 2, prior variance 5, noise then one average (FORMULAS section 2)."""
    v = 1 / (1 / 5 + 10 / (2 + grid))
    rho = 2 / (2 + grid)
    average = Microaggregate(groups=1)
    masks = [Suppress(), average, *(Noise(variance=float(g)) | average for g in grid)]
    return RUMap.build(
        masks=masks,
        intruder=Value.exact(np.r_[7, 1.8, 2 * (1 - rho / 10) + (1 - rho) ** 2 * v]),
        scientist=Value.exact(np.r_[5, 1 / (1 / 5 + 5), v]),
        before=(7.0, 5.0),
        provenance=Provenance(engine="exact"),
    )


def test_example_1_chooses_variance_208():
    choice = choose(example_1(np.array([0.01, 2.07, 2.08, 2.09, 1600])), max_risk=0.5)
    assert choice.release == "Noise(variance=2.08) | Microaggregate(groups=1)"
    assert choice.mask.numbers == (2.08,)
    assert choice.risk == pytest.approx(0.5, rel=1e-12)
    assert choice.utility == pytest.approx(2.650980392, rel=1e-9)  # T-F 5.1; their "r" is the variance
    assert dict(choice.parameters) == {"variance": 2.08, "groups": 1.0}
    assert choice.technique == "Noise | Microaggregate"
    assert choice.variance == 2.08
    assert choice.next_best.variance == 2.09
    assert (choice.allowed, choice.max_risk, choice.within_error, choice.remarks) == (4, 0.5, False, ())
    assert str(choice) == (
        "Release Noise(variance=2.08) | Microaggregate(groups=1): risk 0.5 (threshold 0.5), utility 2.651; "
        "the next best allowed is Noise(variance=2.09) | Microaggregate(groups=1) with risk 0.4998, utility 2.645."
    )


def test_the_order_of_releases_does_not_depend_on_the_score():
    rumap = example_1(np.geomspace(0.01, 1600, 41))
    at = float(rumap.risk[20])
    chosen = choose(rumap, at).release
    for score in ("gain", "relative_gain", "negative_log", lambda u: 1 / (1 + u)):
        other = rumap.with_risk(score).with_utility(score)
        assert choose(other, float(other.risk[20])).release == chosen
        assert set(other.frontier().releases) == set(rumap.frontier().releases)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=20), st.integers(1, 6))
def test_choice_agrees_with_brute_force(points, threshold):
    risk, utility = np.array(points, dtype=float).T
    rumap = build(risk, utility)
    allowed = [i for i in range(len(risk)) if risk[i] <= threshold]
    if not allowed:
        with pytest.raises(InfeasibleError):
            choose(rumap, threshold)
        return
    best = min(allowed, key=lambda i: (-utility[i], risk[i], i))
    choice = choose(rumap, threshold)
    assert choice.position == best
    assert not_dominated(risk, utility)[best] or choice.utility == max(utility[allowed])


def test_tolerance_of_the_threshold():
    rumap = build([0.5 * (1 + 5e-10), 0.4], [2, 1])
    assert choose(rumap, 0.5).release == "r0"
    assert choose(rumap, 0.5, tolerance=0).release == "r1"
    assert choose(build([0.5 * (1 + 2e-9), 0.4], [2, 1]), 0.5).release == "r1"
    # A gain of zero is met by a release that tells nothing, up to rounding of U0.
    tells_nothing = RUMap.build(labels=["none"], intruder=[7 - 1e-12], scientist=[1.0], before=(7.0, 5.0), risk="gain")
    assert choose(tells_nothing, 0.0).release == "none"


def test_infeasible_names_the_nearest_miss():
    with pytest.raises(
        InfeasibleError, match=r"risk at most 0\.1; got safe as the nearest miss, with risk 0\.2 \(0\.1 above, 100 %\)"
    ):
        choose(build([0.2, 0.5], [1, 2], labels=["safe", "open"]), 0.1)
    with pytest.raises(InfeasibleError, match="NaN for all"):
        choose(build([np.nan], [1]), 0.1)
    with pytest.raises(InfeasibleError, match="has a utility"):
        choose(build([0.1], [np.nan]), 0.1)
    with pytest.raises(InfeasibleError, match="risk ∞"):
        choose(build([np.inf], [1]), 0.1)


def test_missing_and_infinite_values():
    rumap = build([np.nan, 0.2, np.inf, 0.3], [9, 1, 8, np.nan])
    assert choose(rumap, 0.5).release == "r1"
    everything = choose(rumap, np.inf)
    assert everything.release == "r2"
    assert "no threshold" in str(everything)


@pytest.mark.parametrize("bad", [0, -1, np.nan, "0.5", None, True, [0.5], -np.inf, 1j])
def test_thresholds_that_cannot_be(bad):
    with pytest.raises(InputError, match="max_risk"):
        choose(build([0.2], [1]), bad)


def test_thresholds_of_gains():
    rumap = example_1(np.array([2.08]))
    assert choose(rumap.with_risk("gain"), 5).variance == 2.08
    assert choose(rumap.with_risk("gain"), 0).release == "Suppress()"
    assert choose(rumap.with_risk("relative_gain"), 5 / 7).variance == 2.08
    with pytest.raises(InfeasibleError):
        choose(rumap.with_risk("gain"), -1)
    with pytest.raises(InputError, match="at most 1"):
        choose(rumap.with_risk("relative_gain"), 1.5)
    with pytest.raises(InputError, match="tolerance"):
        choose(rumap, 0.5, tolerance=-1)


def test_choice_speaks_of_errors_and_convergence():
    rumap = build([0.48, 0.3], [2, 1], error=0.015, columns={"converged": [False, True]})
    choice = choose(rumap, 0.5)
    assert choice.within_error
    assert choice.risk_error == pytest.approx(0.015, rel=1e-12)
    assert "within two standard errors" in str(choice)
    assert "did not converge" in str(choice)
    assert "risk 0.48 ± 0.015 (threshold 0.5)" in str(choice)
    assert not choose(rumap, 0.4).within_error
    assert choose(rumap, 0.4).remarks == ()
    assert choose(rumap, 0.52).within_error is False
    # An exact risk at its threshold is not in doubt.
    assert not choose(build([0.5], [1]), 0.5).within_error


def test_choice_is_frozen_and_travels():
    choice = choose(build([0.2, 0.3], [1, 2], columns={"IO": [0.5, 0.6]}), 0.5)
    with pytest.raises(AttributeError):
        choice.max_risk = 3
    assert choice.IO == 0.6
    with pytest.raises(AttributeError, match="no 'EO'"):
        _ = choice.EO
    assert str(pickle.loads(pickle.dumps(choice))) == str(choice)


def test_bad_shapes():
    with pytest.raises(InputError, match="same length"):
        not_dominated([1, 2], [1])
    with pytest.raises(InputError, match="numbers"):
        not_dominated(["a"], [1])
