"""Regressions found in a review of the measures: constant columns, far origins, huge numbers, and what errors may say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.stats import energy_distance

from ruvdecision.cli.measure_names import spell_measures
from ruvdecision.errors import InputError
from ruvdecision.measures import (
    Cluster,
    ClusteredPropensity,
    Correlations,
    DensityKL,
    Eigenvalues,
    EllipsoidOverlap,
    EnergyDistance,
    IL1s,
    IntervalOverlap,
    LDiversity,
    Logistic,
    Mahalanobis,
    Marginals,
    Means,
    NormalKL,
    Pairwise,
    Poisson,
    RecordLinkage,
    SampleUniques,
    SlicedWasserstein,
    Statistic,
    Wasserstein,
)
from ruvdecision.measures.frames import numeric, spreads

N = 77
# The mean of 77 of these is off by a rounding error, so that a plain standard deviation is not zero.
AWKWARD = [0.1, 1 / 3, 100_000.1]


def data(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"c": rng.normal(size=N), "x": rng.normal(size=N)})


@pytest.mark.parametrize("value", AWKWARD)
def test_spread_of_equal_numbers_is_zero(value: float) -> None:
    assert np.full(N, value).std(ddof=1) > 0
    assert spreads(np.full((N, 1), value)).tolist() == [0.0]
    values = data().to_numpy()
    assert spreads(values) == pytest.approx(values.std(axis=0, ddof=1), rel=1e-15)


@pytest.mark.parametrize("value", AWKWARD)
@pytest.mark.parametrize(
    "measure",
    [
        NormalKL(),
        EnergyDistance(),
        Wasserstein(),
        SlicedWasserstein(),
        IL1s(),
        Mahalanobis(),
        Eigenvalues(),
        DensityKL(),
    ],
    ids=repr,
)
def test_constant_original_is_refused_by_name(measure, value: float) -> None:
    original = data().assign(c=value)
    with pytest.raises(InputError, match=r"constant c\b"):
        measure(original, original.assign(c=2 * value))


@pytest.mark.parametrize("value", AWKWARD)
def test_constant_release(value: float) -> None:
    original = data()
    released = original.assign(c=value)
    assert NormalKL()(original, released) == np.inf
    with pytest.raises(InputError, match="vary in the release"):
        Eigenvalues()(original, released)
    with pytest.raises(InputError, match="vary in the release"):
        IntervalOverlap(Correlations())(original, released)
    # The association with a constant is zero, so the change is that of the original.
    r = np.corrcoef(original.c, original.x)[0, 1]
    assert Pairwise()(original, released) == pytest.approx(abs(r) / 2, abs=1e-12)


@pytest.mark.parametrize("value", AWKWARD)
def test_association_of_a_constant_number_with_a_category_is_zero(value: float) -> None:
    table = pd.DataFrame({"c": np.full(N, value), "d": np.full(N, value / 3), "k": ["a", "b"] * (N // 2) + ["a"]})
    seen = Pairwise()(table, table.assign(c=np.arange(N), d=np.arange(N))).table
    assert seen is not None
    assert seen["original"].tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-15)


@pytest.mark.parametrize("value", AWKWARD)
def test_constant_response_has_an_exact_fit(value: float) -> None:
    original, released = data(), data().assign(c=value)
    seen = IntervalOverlap("c ~ x")(original, released).table
    assert seen is not None
    assert seen["released"].tolist() == [pytest.approx(value, rel=1e-15), 0.0]
    assert seen["released_se"].tolist() == [0.0, 0.0]
    assert EllipsoidOverlap("c ~ x")(original, released) in (0.0, 0.5)
    means = IntervalOverlap(Means(["c"]))(original, released).table
    assert means is not None and means["released_se"].tolist() == [0.0]


def test_means_have_the_covariance_of_numpy() -> None:
    table = data()
    assert Means().fit(table).scale == pytest.approx(np.cov(table.to_numpy(), rowvar=False) / N, rel=1e-12)


@pytest.mark.parametrize("value", AWKWARD)
def test_standardised_clusters_leave_a_constant_column_alone(value: float) -> None:
    original = data().assign(c=value)
    released = data(1).assign(c=value)
    for measure in (Cluster(clusters=4, standardise=True), ClusteredPropensity(clusters=4, standardise=True)):
        assert measure(original, released) == pytest.approx(
            float(measure(original.assign(c=0.0), released.assign(c=0.0))), abs=1e-9
        )


@pytest.mark.parametrize("value", AWKWARD)
def test_shift_of_a_constant_margin_is_infinite(value: float) -> None:
    original = data().assign(c=value)
    seen = Marginals()(original, original.assign(c=2 * value)).table
    assert seen is not None
    assert seen.loc["c", "sd"] == 0.0 and seen.loc["c", "shift"] == np.inf


def test_energy_distance_does_not_depend_on_the_origin() -> None:
    rng = np.random.default_rng(0)
    # Multiples of 2^-10 stay exact after the shift.
    x, y = (np.round(rng.normal(m, 1, 300) * 1024) / 1024 for m in (0.0, 0.2))
    near = [float(EnergyDistance(standardise=False)(x + far, y + far)) for far in (0.0, 1e6, 1e10)]
    assert near[0] == pytest.approx(energy_distance(x, y) ** 2, rel=1e-10)
    assert all(a == pytest.approx(b, rel=1e-12) for a, b in pairwise(near))


def test_huge_numbers_that_cancel_are_seen() -> None:
    table = pd.DataFrame({"a": [1e200, -1e200, 1.0]})
    with pytest.raises(InputError, match="beyond 1e140 in columns a"):
        numeric("A measure", table)
    with pytest.raises(InputError, match="infinite, missing or beyond"):
        numeric("A measure", pd.DataFrame({"a": [np.inf, -np.inf]}))


@pytest.mark.parametrize("distance", ["standardised", "mahalanobis"])
def test_linkage_does_not_depend_on_the_unit(distance: str) -> None:
    original, released = data(), data() + 0.3 * data(1)
    measure = RecordLinkage(distance=distance)
    assert 0 < measure(original, released) < 1
    for unit in (2.0**-700, 2.0**400):
        assert measure(original * unit, released * unit) == measure(original, released)


@pytest.mark.parametrize("link", ["released to original", "original to released"])
def test_one_far_record_makes_no_ties_of_the_others(link: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = x + rng.normal(0, 0.003, 300)
    far = y.copy()
    far[0] = 1e11
    measure = RecordLinkage(link=link)
    before, after = measure.per_record(x, y), measure.per_record(x, far)
    assert 0.5 < before.mean() < 0.9
    changed = np.flatnonzero(before != after)
    # Only the record itself, and those that were linked to it or had it as a rival, may change.
    assert len(changed) <= 3 and after.mean() == pytest.approx(before.mean(), abs=0.01)
    brute = (np.abs(x[:, None] - far) if link == "original to released" else np.abs(far[:, None] - x)).argmin(axis=1)
    # From so far away all originals are equally near, so the record itself is left out.
    assert after[1:].tolist() == (brute == np.arange(300)).astype(float)[1:].tolist()
    # The other kernel, which finds all neighbours, agrees.
    found = measure.links(x, far)
    assert found["linked"][found["row"] > 0].tolist() == brute[1:].tolist()


def test_spelled_measures_take_arguments_in_the_order_of_the_call() -> None:
    made = spell_measures(["l_diversity('ill', kind='entropy')", "SampleUniques(share=True)"], known=["age"])
    assert made == [LDiversity("ill", keys=["age"], kind="entropy"), SampleUniques(keys=["age"], share=True)]
    with pytest.raises(InputError, match="sensitive must name one column"):
        spell_measures(["l_diversity"])
    with pytest.raises(InputError, match="No measure has a use for --known"):
        spell_measures(["KL"], known=["age"])
    with pytest.raises(InputError, match="No measure has a use for --model"):
        spell_measures(["linkage"], models=["y ~ a"])
    with pytest.raises(InputError, match="No measure has a use for --columns"):
        spell_measures(["linkage"], columns=["a"])


def test_errors_quote_no_record() -> None:
    table = data().assign(c=np.linspace(-4321.5, 1, N))
    for model in (Logistic("c ~ x"), Poisson("c ~ x")):
        with pytest.raises(InputError) as caught:
            IntervalOverlap(model)(table, table)
        assert "4321" not in str(caught.value) and "values in c" in str(caught.value)
    people = pd.DataFrame({"who": ["Ann", "Bob"] * 10, "x": np.arange(20.0) % 7})
    with pytest.raises(InputError, match="no category of who in common") as caught:
        IntervalOverlap("x ~ who")(people, people.assign(who=["P", "Q"] * 10))
    assert "Ann" not in str(caught.value) and "2 in one and 2 others" in str(caught.value)


@pytest.mark.parametrize("kind", [Logistic, Poisson])
def test_a_category_that_separates_the_response_is_refused(kind) -> None:
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"g": ["a", "b"] * 50, "x": rng.normal(size=100)})
    table["y"] = np.where(table.g == "a", 0, rng.integers(0, 2, 100))
    # The likelihood grows for ever with the coefficient of g; its estimate would be where the search happened to stop.
    with pytest.raises(InputError, match="no finite estimate in the original"):
        IntervalOverlap(kind("y ~ g + x"))(table, table)
    with pytest.raises(InputError, match="no finite estimate in the release"):
        IntervalOverlap(kind("y ~ g + x"))(table.assign(y=rng.integers(0, 2, 100)), table)


def test_a_rare_event_is_no_separation() -> None:
    x = np.zeros(20_000)
    x[:40] = 1.0
    y = np.zeros(20_000)
    y[[0, 50]] = 1.0
    fit = Logistic("y ~ x").fit(pd.DataFrame({"x": x, "y": y}))
    # Saturated: log odds of 1 in 19,960 and of 1 in 40.
    low, high = -np.log(19_959), -np.log(39)
    assert fit.estimate == pytest.approx([low, high - low], rel=1e-9)
    assert fit.se[0] == pytest.approx(np.sqrt(1 + 1 / 19_959), rel=1e-6)


def test_statistic_of_varying_length_is_refused() -> None:
    with pytest.raises(InputError, match="as many numbers"):
        IntervalOverlap(Statistic(lambda x: np.unique(x), columns=["x"]))(data(), data())


@pytest.mark.parametrize(
    "make", [lambda: SampleUniques(share="no"), lambda: RecordLinkage(one_to_one=1), lambda: Cluster(standardise=None)]
)
def test_a_switch_is_true_or_false(make) -> None:
    with pytest.raises(InputError, match="must be True or False"):
        make()
    assert SampleUniques(share=np.bool_(True))([1, 2, 2], [1, 2, 2]) == pytest.approx(1 / 3)
