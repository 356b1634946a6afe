"""General utility: what it sees, its scale, and that it cannot be fooled."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import ruvdecision as ruv
from ruvdecision.measures import GeneralUtility

RNG = np.random.default_rng(3)
COVARIANCE = [[1.0, 0.7, 0.2], [0.7, 1.0, 0.1], [0.2, 0.1, 1.0]]


def population(n: int, rng: np.random.Generator) -> pd.DataFrame:
    file = pd.DataFrame(rng.multivariate_normal(np.zeros(3), COVARIANCE, size=n), columns=["a", "b", "c"])
    file["c"] = np.exp(file["c"])
    file["g"] = np.where(file["a"] + rng.normal(size=n) > 0, "yes", rng.choice(["no", "never"], n))
    return file.mask(rng.random(file.shape) < 0.05)


FILE = population(1500, RNG)
NUMBERS = ["a", "b", "c"]


def noisy(sd: float) -> pd.DataFrame:
    return FILE.assign(**{c: FILE[c] + sd * FILE[c].std() * RNG.normal(size=len(FILE)) for c in NUMBERS})


@pytest.mark.parametrize("n", [300, 1500, 4000])
def test_another_sample_is_as_good_as_the_original(n: int) -> None:
    assert GeneralUtility()(FILE, FILE) == 1
    assert GeneralUtility()(FILE, population(n, np.random.default_rng(n))) > 0.95


def test_a_file_of_nothing_has_no_utility() -> None:
    usual = {c: FILE[c].mean() if c in NUMBERS else FILE[c].mode().iloc[0] for c in FILE}
    for other in (usual, {"a": 0.0, "b": 1e9, "c": -3.0, "g": "else"}, dict.fromkeys(FILE, np.nan)):
        assert GeneralUtility()(FILE, FILE.assign(**other)) == 0


def test_more_noise_is_less_utility() -> None:
    values = [GeneralUtility()(FILE, noisy(sd)) for sd in (0.1, 0.5, 1, 3, 10, 100)]
    assert values == sorted(values, reverse=True) and values[0] > 0.95 and 0 < values[-1] < 0.4


def test_it_sees_means_spreads_tails_dependence_and_blanks() -> None:
    shifted, shrunk = FILE.assign(a=FILE.a + 1), FILE.assign(a=FILE.a * 0.5)
    cut = FILE.assign(c=FILE.c.clip(upper=FILE.c.quantile(0.95)))
    rng = np.random.default_rng(12)  # its own, so that it does not depend on which tests ran before
    apart = FILE.apply(lambda c: pd.Series(rng.permutation(c.to_numpy()), index=c.index))
    worst = {
        "mean": shifted,
        "spread": shrunk,
        "tails": cut,
        "dependence": apart,
        "margins": FILE.mask(rng.random(FILE.shape) < 0.4),
    }
    whole = GeneralUtility()(FILE, FILE)
    for part, release in worst.items():
        value = GeneralUtility()(FILE, release)
        assert value < 0.985 and value.parts[part] < whole.parts[part] - 0.05, part
    value = GeneralUtility()(FILE, apart)
    assert value.parts["margins"] == 1 and value.parts["dependence"] < 0.1 and value == pytest.approx(0.5, abs=0.03)
    flipped = FILE.assign(a=-FILE.a)  # the same margin (nearly), every sign the other way round
    assert GeneralUtility()(FILE, flipped).parts["dependence"] < 0.3


def test_a_point_mass_counts_as_it_is() -> None:
    zero = pd.DataFrame({"x": np.where(RNG.random(2000) < 0.9, 0.0, RNG.exponential(size=2000))})
    assert GeneralUtility()(zero, zero * 0) == 0 and GeneralUtility()(zero, zero) == 1
    assert GeneralUtility()(zero, zero + 1e-9 * RNG.normal(size=zero.shape)).parts["spread"] == pytest.approx(1)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 4))
def test_order_of_rows_and_columns_and_constants(seed: int, n: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    file = pd.DataFrame(rng.normal(size=(n, p)).round(1), columns=list("abcd")[:p])
    file["g"] = rng.choice(list("xyz"), n)
    other = file.assign(a=rng.permutation(file["a"]) + rng.normal(size=n)).mask(rng.random(file.shape) < 0.1)
    value = GeneralUtility()(file, other)
    assert 0 <= value <= 1 and np.isfinite(list(value.parts.values())).all()
    mixed = other.sample(frac=1, random_state=seed)[list(rng.permutation(other.columns))]
    assert GeneralUtility()(file, mixed) == pytest.approx(value)
    shuffled = file.sample(frac=1, random_state=seed)
    assert GeneralUtility()(shuffled[list(rng.permutation(file.columns))], other) == pytest.approx(value)
    constant = file.assign(**{c: file[c].iloc[0] for c in file})
    varies = any(file[c].nunique() > 1 for c in file)
    assert GeneralUtility()(file, constant) <= (value if varies else 1)


def test_a_candidate_changes_nobody() -> None:
    releases = {"noise": noisy(1), "apart": FILE.sample(frac=1, random_state=1).reset_index(drop=True)}
    few = ruv.measure(FILE, releases=releases)
    more = ruv.measure(FILE, releases={**releases, "means": noisy(5)})
    for name in few.columns:
        np.testing.assert_array_equal(few.columns[name], more.columns[name][:2])


def test_the_default_never_recommends_a_constant() -> None:
    constant = FILE.assign(**{c: FILE[c].mean() if c in NUMBERS else "yes" for c in FILE})
    rumap = ruv.measure(FILE, {"mild": ruv.Noise(sd=0.5, columns=NUMBERS)}, releases={"constant": constant}, seed=1)
    assert list(rumap.releases) == ["mild", "constant"] and rumap.choose(max_risk=1).release == "mild"
    assert np.isfinite(rumap.utility).all() and rumap.utility[1] == 0


@pytest.mark.slow
def test_batteries_say_what_they_left_out() -> None:
    file = FILE.head(150).assign(id=np.arange(150))
    rumap = ruv.measure(
        file, releases={"r": file, "long": file.sample(200, replace=True, random_state=1)}, measures="all"
    )
    notes = " ".join(rumap.notes)
    assert {"linkage", "general utility", "KL", "pMSE", "k_anonymity"} <= set(rumap.columns)
    assert "need arguments" in notes and "Mahalanobis was left out for long" in notes and "IO" in notes
    assert "id is different for every record and unchanged in r" in notes


def test_rounding_of_weights_is_no_dependence() -> None:
    """Few records show none beyond noise, in whatever order their weights are summed."""
    rng = np.random.default_rng(26)
    found = set()
    for size in (1, 2, 3, 4):
        file = pd.DataFrame({"a": [0.0] * 9, "b": list("xyz") * 3, "c": ["u"] * 9, "w": rng.uniform(0.1, 5, 9)})
        file.loc[:size, "c"] = None
        for turn in range(12):
            one, other = (file.sample(frac=1, random_state=turn + k) for k in (0, 50))
            value = GeneralUtility(["a", "b", "c"], weights="w")(one, other)
            found.add((size, "dependence" in value.parts))
            assert value == pytest.approx(1)
    assert len(found) == 4
