"""Weights of records: the same as no weights where they are equal, as repeated rows where they are whole numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ruvdecision as ruv
from ruvdecision import measures
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.measures import (
    MCM,
    MD,
    AttributeDisclosure,
    ClosestRecord,
    Cluster,
    ClusteredPropensity,
    ClusteringAttack,
    CoefficientChanges,
    Correlations,
    CramersV,
    DensityKL,
    Disclosure,
    Eigenvalues,
    EllipsoidOverlap,
    EnergyDistance,
    EntropyChange,
    EntropyLoss,
    FellegiSunter,
    GeneralUtility,
    Hellinger,
    HouseholdRisk,
    IL1s,
    ImputationLoss,
    IndividualRisk,
    InformationLoss,
    IntervalDisclosure,
    IntervalOverlap,
    IntruderError,
    Linear,
    Linkability,
    Logistic,
    LogLinearLoss,
    Mahalanobis,
    Marginals,
    Means,
    Membership,
    NormalKL,
    Pairwise,
    PearsonC,
    Poisson,
    Propensity,
    Quantiles,
    RecordLinkage,
    ReplicatedUniques,
    SkinnerElliot,
    SlicedWasserstein,
    Statistic,
    TableUtility,
    TotalVariation,
    TrainOnRelease,
    TreePropensity,
    VarianceInflation,
    Wasserstein,
)
from ruvdecision.measures.base import WeightedMeasure

NUMBERS, CATEGORIES = ["a", "b", "d"], ["c", "e"]


def _files(n: int = 60, seed: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    original = pd.DataFrame(rng.normal(size=(n, 3)), columns=NUMBERS)
    original["b"] += original["a"]
    original["c"], original["e"] = rng.choice(list("xyz"), n), rng.choice(list("pq"), n)
    original["w"] = rng.integers(1, 5, n).astype(float)
    released = original.assign(a=original["a"] + 0.5 * rng.normal(size=n), c=rng.permutation(original["c"]))
    return original, released.assign(w=rng.permutation(original["w"]))


ORIGINAL, RELEASED = _files()
HELD = _files(40, 4)[0]

MEASURES = [
    *(Hellinger(CATEGORIES), TotalVariation(CATEGORIES), EntropyChange(CATEGORIES), CramersV(CATEGORIES)),
    *(PearsonC(CATEGORIES), LogLinearLoss(CATEGORIES, margins=1), EntropyLoss(CATEGORIES), VarianceInflation(NUMBERS)),
    *(MD(["a"]), MD(["a", "b"]), MD(NUMBERS), MCM(NUMBERS), Cluster(5), NormalKL(columns=NUMBERS)),
    *(
        EnergyDistance(["a"]),
        EnergyDistance(NUMBERS),
        EnergyDistance(NUMBERS, projections=6),
        Wasserstein(NUMBERS),
    ),
    *(SlicedWasserstein(NUMBERS, projections=5), IL1s(NUMBERS), Mahalanobis(NUMBERS), Eigenvalues(NUMBERS)),
    *(DensityKL(["a"]), InformationLoss(["a", "b"]), InformationLoss(["a"], noise_sd=0.5, cells=8)),
    *(GeneralUtility(), Marginals(), Pairwise(), TableUtility(), TableUtility(way=2, kind="JSD")),
    *(Propensity(), Propensity(degree=2, columns=NUMBERS), ClusteredPropensity(clusters=3, columns=NUMBERS)),
    *(TreePropensity(min_leaf=2, min_split=4), TreePropensity(kind="class", min_leaf=2, min_split=4)),
    TreePropensity(NUMBERS, null="permutation", permutations=3, statistic="ratio"),
    IntervalOverlap(["a ~ b + C(c)", Means(NUMBERS), Correlations(NUMBERS), Quantiles(NUMBERS)]),
    *(EllipsoidOverlap("a ~ b"), CoefficientChanges("a ~ b + d"), TrainOnRelease("a", estimator="linear")),
    TrainOnRelease("c", holdout=HELD, estimator="linear"),
    *(RecordLinkage(NUMBERS), FellegiSunter(), AttributeDisclosure("a"), IntruderError("a"), IntruderError("c")),
    *(IntervalDisclosure(NUMBERS, width_sd=0.5), ClusteringAttack(NUMBERS), Disclosure("c", "e")),
    *(ReplicatedUniques(NUMBERS + CATEGORIES), ReplicatedUniques(CATEGORIES, share=True)),
    *(ClosestRecord(NUMBERS, holdout=HELD), Membership(NUMBERS, holdout=HELD), Linkability("a", ["b", "d"])),
]


def test_every_measure_with_weights_is_tried():
    """A newcomer is tested on arrival; those of keys alone are below."""
    kinds = [kind for name in measures.__all__ if isinstance(kind := getattr(measures, name), type)]
    weighted = {k.__name__ for k in kinds if issubclass(k, WeightedMeasure)}
    assert weighted - {type(m).__name__ for m in MEASURES} == {"PairedMeasure", "ImputationLoss"}


def _named(measure: object) -> str:
    return repr(measure)[:60]


def _plain(measure):
    """The measure of files without the column of weights; a holdout of the measure's is without it, too."""
    return measure(ORIGINAL.drop(columns="w"), RELEASED.drop(columns="w"))


@pytest.mark.campaign(2, "slow")
@pytest.mark.parametrize("measure", MEASURES, ids=_named)
def test_equal_weights_are_no_weights_and_only_ratios_matter(measure):
    weighted, plain = replace(measure, weights="w"), _plain(measure)
    if getattr(measure, "holdout", None) is not None:
        weighted = replace(weighted, holdout=HELD.assign(w=1.0))
    even = weighted(ORIGINAL.assign(w=7.0), RELEASED.assign(w=2.0))
    assert float(even) == pytest.approx(float(plain), rel=1e-9, abs=1e-12)
    assert even.error == pytest.approx(plain.error, rel=0.1)
    one, other = weighted(ORIGINAL, RELEASED), weighted(ORIGINAL.assign(w=3 * ORIGINAL["w"]), RELEASED)
    assert float(one) == pytest.approx(float(other), rel=1e-8, abs=1e-12)


@pytest.mark.slow
def test_weights_matter_and_rows_may_be_permuted():
    order = np.random.default_rng(1).permutation(len(ORIGINAL))
    same = 0
    for measure in MEASURES:
        weighted = replace(measure, weights="w")
        found = weighted(ORIGINAL, RELEASED)
        same += float(found) == pytest.approx(float(_plain(measure)), rel=1e-6)
        if not isinstance(measure, (TreePropensity, TrainOnRelease, Cluster, ClusteredPropensity)):
            moved = weighted(ORIGINAL.iloc[order], RELEASED.iloc[order])
            assert float(moved) == pytest.approx(float(found), rel=1e-7, abs=1e-10), measure
    assert same <= 6  # shares of 0 or 1, counts, and files without repeated keys


def _repeated(table: pd.DataFrame) -> pd.DataFrame:
    return table.loc[table.index.repeat(table["w"].astype(int))].drop(columns="w").reset_index(drop=True)


REPEATED = [
    *(
        Hellinger(CATEGORIES),
        EntropyChange(CATEGORIES, way=1),
        CramersV(CATEGORIES),
        LogLinearLoss(CATEGORIES, margins=1),
    ),
    *(MD(["a"]), MD(["a", "b"]), MD(NUMBERS), NormalKL(columns=NUMBERS), Pairwise(), Marginals()),
    *(EnergyDistance(NUMBERS, standardise=False), EnergyDistance(["a"], standardise=False)),
    *(
        Wasserstein(NUMBERS, standardise=False, order=2),
        SlicedWasserstein(NUMBERS, projections=5, standardise=False),
    ),
    *(
        DensityKL(["a"], bandwidth=0.3),
        InformationLoss(["a", "b"], bandwidth=0.3),
        Propensity(degree=2, columns=NUMBERS),
    ),
    *(TableUtility(CATEGORIES, kind=kind) for kind in ("pMSE", "JSD", "SPECKS", "dBhatt", "MabsDD", "PO50")),
    TreePropensity(NUMBERS, min_leaf=1, min_split=2, max_depth=2, cp=0.0),
    TreePropensity(CATEGORIES, kind="class", min_leaf=1, min_split=2, max_depth=1, cp=0.0),
]


@pytest.mark.parametrize("measure", REPEATED, ids=_named)
def test_whole_weights_are_repeated_rows(measure):
    """The same number of records in both files: the weights of each add up to the same."""
    value = replace(measure, weights="w")(ORIGINAL, RELEASED)
    assert float(value) == pytest.approx(float(measure(_repeated(ORIGINAL), _repeated(RELEASED))), rel=1e-9)


def test_weights_make_the_weighted_mean_of_what_records_risk():
    w = ORIGINAL["w"].to_numpy()
    for measure in (
        AttributeDisclosure("a"),
        Disclosure("c", "e"),
        RecordLinkage(NUMBERS, link="original to released"),
    ):
        plain = ORIGINAL.drop(columns="w"), RELEASED.drop(columns="w")
        risk = measure.per_record(*plain)
        value = replace(measure, weights="w")(ORIGINAL, RELEASED)
        assert float(value) == pytest.approx(float(w @ risk / w.sum()), rel=1e-12)
        assert value.parts["unweighted"] == pytest.approx(float(measure(*plain)), rel=1e-12)
    off = IntruderError("a").per_record(ORIGINAL.drop(columns="w"), RELEASED.drop(columns="w"))
    rms = np.sqrt(w @ off**2 / w.sum()) / ORIGINAL["a"].std()
    assert float(IntruderError("a", weights="w")(ORIGINAL, RELEASED)) == pytest.approx(rms, rel=1e-9)


@pytest.mark.parametrize("model", [Linear("a ~ b + c"), Logistic("y ~ b + c"), Poisson("k ~ b")], ids=str)
def test_weighted_regressions_by_direct_computation(model):
    data = ORIGINAL.assign(y=(ORIGINAL["d"] > 0).astype(int), k=(2 * ORIGINAL["d"] ** 2).astype(int))
    w = data["w"].to_numpy() / data["w"].mean()
    fit = model.fit(data.drop(columns="w"), data["w"].to_numpy())
    columns = [np.ones(len(data)), data["b"], data["c"] == "y", data["c"] == "z"][: len(fit.names)]
    x = np.column_stack([np.asarray(c, dtype=float) for c in columns])
    y = data[str(model).split(" ~ ")[0]].to_numpy(dtype=float)
    if isinstance(model, Logistic):
        mean = np.exp(x @ fit.estimate) if isinstance(model, Poisson) else 1 / (1 + np.exp(-x @ fit.estimate))
        np.testing.assert_allclose(x.T @ (w * (y - mean)), 0, atol=1e-8)  # the weighted score
        variance = mean if isinstance(model, Poisson) else mean * (1 - mean)
        np.testing.assert_allclose(fit.scale, np.linalg.inv(x.T @ (x * (w * variance)[:, None])), rtol=1e-7)
    else:
        gram = x.T @ (x * w[:, None])
        beta = np.linalg.solve(gram, x.T @ (w * y))
        rss = w @ (y - x @ beta) ** 2
        np.testing.assert_allclose(fit.estimate, beta, rtol=1e-9)
        np.testing.assert_allclose(fit.scale, np.linalg.inv(gram) * rss / (len(y) - x.shape[1]), rtol=1e-9)


def test_weighted_means_correlations_and_quantiles_by_direct_computation():
    w, values = ORIGINAL["w"].to_numpy(), ORIGINAL[NUMBERS].to_numpy()
    n = len(w)
    fit = Means(NUMBERS).fit(ORIGINAL, weights=w)
    mean = w @ values / w.sum()
    np.testing.assert_allclose(fit.estimate, mean, rtol=1e-12)
    off = values - mean
    covariance = (off * w[:, None]).T @ off / w.sum() * n / (n - 1)
    np.testing.assert_allclose(fit.scale, covariance / n, rtol=1e-12)
    sd = np.sqrt(np.diag(covariance))
    z = Correlations(NUMBERS).fit(ORIGINAL, weights=w).estimate
    np.testing.assert_allclose(np.tanh(z), (covariance / np.outer(sd, sd))[np.triu_indices(3, 1)], rtol=1e-12)
    # With whole weights a median lies between the neighbours of the repeated file's.
    rows = np.sort(np.repeat(values[:, 0], w.astype(int)))
    middle = Quantiles(["a"], at=[0.5]).fit(ORIGINAL, weights=w).estimate[0]
    assert rows[len(rows) // 2 - 3] <= middle <= rows[len(rows) // 2 + 3]


def test_pieces_of_a_file_have_the_same_weighted_numbers(tmp_path):
    paths = []
    for name, table in (("original", ORIGINAL), ("release", RELEASED)):
        paths.append(tmp_path / f"{name}.csv")
        table.to_csv(paths[-1], index=False)
    chosen = [
        *(NormalKL(columns=NUMBERS, weights="w"), IL1s(NUMBERS, weights="w"), Mahalanobis(NUMBERS, weights="w")),
        *(IntervalOverlap("a ~ b + c", weights="w"), Hellinger(CATEGORIES, weights="w")),
        *(Eigenvalues(NUMBERS, weights="w"), VarianceInflation(NUMBERS, weights="w")),
    ]
    whole = ruv.measure(ORIGINAL, releases={"r": RELEASED}, measures=chosen).to_dataframe()
    pieces = ruv.measure(paths[0], releases={"r": paths[1]}, measures=chosen, chunksize=17).to_dataframe()
    for measure in chosen:
        assert pieces[measure.name][0] == pytest.approx(whole[measure.name][0], rel=1e-10)


def test_copies_have_weights_of_their_own():
    copies = [_files(seed=s)[0] for s in (5, 6, 7)]
    value = ImputationLoss(NUMBERS, weights="w")(ORIGINAL, copies)
    w = [c["w"].to_numpy() for c in copies]
    means = np.array([v @ c[NUMBERS].to_numpy() / v.sum() for c, v in zip(copies, w, strict=True)])
    within = [
        v @ (c[NUMBERS].to_numpy() - m) ** 2 / v.sum() / (len(v) - 1) for c, v, m in zip(copies, w, means, strict=True)
    ]
    between = means.var(axis=0, ddof=1) / 3
    assert float(value) == pytest.approx(float(np.mean(between / (np.mean(within, axis=0) + between))), rel=1e-9)


def test_weights_with_missing_values_and_groups():
    holes = ORIGINAL.assign(a=ORIGINAL["a"].where(ORIGINAL.index % 7 > 0))
    whole = holes.dropna()
    value = NormalKL(columns=NUMBERS, weights="w", missing="omit")(holes, RELEASED)
    assert float(value) == pytest.approx(float(NormalKL(columns=NUMBERS, weights="w")(whole, RELEASED)), rel=1e-12)
    by = Marginals(NUMBERS, weights="w", by="e")(ORIGINAL, RELEASED)
    part = [t[t["e"] == "p"] for t in (ORIGINAL, RELEASED)]
    assert by.parts["e=p"] == pytest.approx(float(Marginals(NUMBERS, weights="w")(*part)), rel=1e-12)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_weights_must_be_positive_numbers(bad):
    data = ORIGINAL.assign(w=ORIGINAL["w"].where(ORIGINAL.index > 0, bad))
    with pytest.raises(InputError, match="positive weights in the original"):
        Marginals(weights="w")(data, RELEASED)
    with pytest.raises(InputError, match="positive weights in the release"):
        Marginals(weights="w")(ORIGINAL, data)


def test_what_cannot_be_weighted_says_so():
    with pytest.raises(UnsupportedError, match="robust"):
        Eigenvalues(NUMBERS, robust=True, weights="w")
    with pytest.raises(UnsupportedError, match="not told the weights"):
        IntervalOverlap(Statistic(np.mean, NUMBERS), weights="w")(ORIGINAL, RELEASED)
    with pytest.raises(UnsupportedError, match="one target"):
        Disclosure("c", weights="w")(ORIGINAL, RELEASED)
    for wrong in ("v", 99, ["w"], 1.5, None):
        if wrong is not None:
            with pytest.raises(RuvError):
                Marginals(weights=wrong)(ORIGINAL, RELEASED)
    with pytest.raises(RuvError, match="not in the release"):
        Marginals(weights="w")(ORIGINAL, RELEASED.drop(columns="w"))


def test_numbers_are_weights_of_models_and_a_name_is_one_of_records():
    models = ["a ~ b", "b ~ d"]
    old = IntervalOverlap(models, weights=[1.0, 3.0])
    assert old == IntervalOverlap(models, [1.0, 3.0]) and old.model_weights == (1.0, 3.0) and old.weights is None
    both = IntervalOverlap(models, [1.0, 3.0], weights="w")(ORIGINAL, RELEASED)
    each = [float(IntervalOverlap(m, weights="w")(ORIGINAL, RELEASED)) for m in models]
    assert float(both) == pytest.approx((each[0] + 3 * each[1]) / 4)


def test_sampling_weights_of_one_say_that_the_sample_is_the_population():
    data = ORIGINAL.assign(h=np.arange(len(ORIGINAL)) // 3, w=1.0)
    for kind, given in (
        (IndividualRisk, {}),
        (IndividualRisk, {"method": "exact"}),
        (HouseholdRisk, {"household": "h"}),
    ):
        plain, even = (kind(CATEGORIES, **given, weights=w) for w in (None, "w"))
        assert float(even(data, data)) == pytest.approx(float(plain(data, data)), rel=1e-12)
        np.testing.assert_allclose(even.per_record(data, data), plain.per_record(data, data), rtol=1e-12)
    keys, n = ["c", "e", "h"], len(data)
    assert SkinnerElliot(keys, weights="w")(data, data) == SkinnerElliot(keys, population=n)(data, data) == 1
