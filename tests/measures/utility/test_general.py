"""General utility: what it sees, its scale, and that it cannot be fooled."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from places import SHARED

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


@pytest.mark.parametrize("only", [7.0, "yes"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_what_varies_by_its_blanks_alone_is_not_kept_by_a_constant(only: object, share: float) -> None:
    blanks = np.random.default_rng(4).random(len(FILE)) < share
    file = pd.DataFrame({"k": pd.Series([only] * len(FILE)).mask(blanks), "a": FILE["a"]})
    constant = file.assign(k=only, a=file["a"].mean())
    assert GeneralUtility()(file, constant) == 0 < GeneralUtility()(file, file.assign(a=3 * file["a"]))
    again = np.random.default_rng(5).permutation(blanks)[: len(FILE) // 2]
    fewer = file[: len(again)].assign(k=pd.Series([only] * len(again)).mask(again))
    assert GeneralUtility(columns="k")(file, fewer) == pytest.approx(1, abs=0.01)
    assert GeneralUtility(columns="k")(file, file) == 1


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 4))
def test_order_of_rows_and_columns_and_constants(seed: int, n: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    file = pd.DataFrame(rng.normal(size=(n, p)).round(1), columns=list("abcd")[:p])
    file["g"], file["k"] = rng.choice(list("xyz"), n), np.where(rng.random(n) < 0.7, 1.0, np.nan)
    other = file.assign(a=rng.permutation(file["a"]) + rng.normal(size=n)).mask(rng.random(file.shape) < 0.1)
    value = GeneralUtility()(file, other)
    assert 0 <= value <= 1 and np.isfinite(list(value.parts.values())).all()
    mixed = other.sample(frac=1, random_state=seed)[list(rng.permutation(other.columns))]
    assert GeneralUtility()(file, mixed) == pytest.approx(value)
    shuffled = file.sample(frac=1, random_state=seed)
    assert GeneralUtility()(shuffled[list(rng.permutation(file.columns))], other) == pytest.approx(value)
    constant = file.assign(**{c: file[c].iloc[0] for c in file})
    varies = any(file[c].nunique(dropna=False) > 1 for c in file)
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
    assert "id is different for every record and unchanged in every release" in notes  # "long" repeats it


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


# -- the definition once more, record by record ---------------------------------------------------------


def kish(weights: list[float]) -> float:
    return sum(weights) ** 2 / sum(w * w for w in weights) if weights else 0.0


def similar(a: float, b: float, noise: float) -> float:
    return math.exp(-max(abs(math.log(a / b)) - noise, 0.0)) if a > 0 else 0.0


def share_kept(change: float, share: float, v: float) -> float:
    return 1 - max(change - 2 * math.sqrt(max(share * (1 - share), 0.0) * v), 0.0)


def upto(records: list[tuple[float, float]], x: float) -> float:
    return sum(w for v, w in records if v <= x) / sum(w for _, w in records)


def moments(records: list[tuple[float, float]]) -> tuple[float, float, float]:
    total, n = sum(w for _, w in records), len(records)
    mean = sum(w * v for v, w in records) / total
    sd = math.sqrt(sum(w * (v - mean) ** 2 for v, w in records) / total * n / (n - 1))
    return mean, sd, sum(w * ((v - mean) / sd) ** 4 for v, w in records) / total - 1


def judged_number(files: list[list[tuple[float, float]]], groups: int) -> tuple[dict[str, float], list[list[int]]]:
    """Scores and groups of one column of numbers; a file is a list of (value or nan, weight)."""
    known = [[(v, w) for v, w in file if v == v] for file in files]
    sizes, all_sizes = ([kish([w for _, w in file]) for file in each] for each in (known, files))
    shares = [sum(w for _, w in a) / sum(w for _, w in b) for a, b in zip(known, files, strict=True)]
    (mean, sd, wide), (other, spread, _) = map(moments, known)
    values = sorted({v for v, _ in known[0]})
    between = [(a + b) / 2 for a, b in itertools.pairwise(values)]
    below = [upto(known[0], a) for a in values[:-1]]
    cuts = []
    for k in range(1, groups):
        at = next((i for i, f in enumerate(below[:-1]) if f + 1e-12 >= k / groups), len(below) - 1)
        cuts += [between[at]] if between[at] not in cuts else []
    codes = [[sum(c < v for c in cuts) if v == v else len(cuts) + 1 for v, _ in file] for file in files]
    noise = math.sqrt(1 / sizes[0] + 1 / sizes[1])
    gap = max(abs(upto(known[0], x) - upto(known[1], x)) for x in {v for file in known for v, _ in file})
    scores = {
        "shape": 1 - min(max(gap - 1.36 * noise, 0) / (1 - 1.36 * noise), 1),
        "mean": math.exp(-max(abs(other - mean) / sd - 2 * noise, 0)),
        "spread": similar(spread, sd, math.sqrt(max(wide, 0)) * noise),
    }
    tails = []
    for sign, level in itertools.product((1, -1), (0.05, 0.01)):
        here, there = ([(sign * v, w) for v, w in file] for file in known)
        ends = sorted({v for v, _ in here})
        edge = next(v for v in ends if upto(here, v) > level * (1 + 1e-12))
        few = [(v, w) for v, w in here if v < edge]
        if level * len(here) >= 10 and len(few) >= 5:
            edge = (max(few)[0] + edge) / 2
            share, found = upto(here, edge), max(upto(there, edge), 0.5 / sizes[1])
            tails.append(similar(found, share, 2 * math.sqrt((1 - share) / share * (1 / sizes[0] + 1 / sizes[1]))))
    if tails:
        scores["tails"] = sum(tails) / len(tails)
    lost = share_kept(abs(shares[1] - shares[0]), shares[0], 1 / all_sizes[0] + 1 / all_sizes[1])
    return scores | {"score": lost * math.prod(scores.values()) ** (1 / len(scores))}, codes


def judged_category(files: list[list[tuple[object, float]]]) -> tuple[dict[str, float], list[list[int]]]:
    """The same for categories; a missing one is None."""
    counts = Counter(v for v, _ in files[0] if v is not None)
    place = {v: i for i, v in enumerate(v for v in counts if counts[v] >= 5)}
    rare, blank, every = len(place), len(place) + 1, range(len(place) + 2)
    codes = [[blank if v is None else place.get(v, rare) for v, _ in file] for file in files]
    p, q = (
        [sum(w for (_, w), c in zip(file, code, strict=True) if c == k) / sum(w for _, w in file) for k in every]
        for file, code in zip(files, codes, strict=True)
    )
    v = sum(1 / kish([w for _, w in file]) for file in files)
    lost = share_kept(abs(p[-1] - q[-1]), p[-1], v)
    p, q, v = [x / (1 - p[-1]) for x in p[:-1]], [x / (1 - q[-1]) for x in q[:-1]], v / (1 - p[-1])
    sd = [math.sqrt(x * (1 - x) * v) for x in p]
    noise = 0.4 * sum(sd) + 0.6 * math.sqrt(sum(s * s for s in sd))
    own = []
    for file in files:
        total = sum(w for x, w in file if x is not None)
        own.append([sum(w for x, w in file if x == k) / total for k in {x for x, _ in file} - {None}])
    same, others = (sum(x * x for x in shares) for shares in own)
    wide = 4 * math.sqrt(max(sum(x**3 for x in own[0]) - same**2, 0) * v) / (1 - same)
    distance = sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
    scores = {
        "shape": 1 - min(max(distance - noise, 0) / max(1 - noise, 1e-9), 1),
        "spread": similar(1 - others, 1 - same, wide),
    }
    return scores | {"score": lost * math.sqrt(scores["shape"] * scores["spread"])}, codes


def slow_general_utility(original: pd.DataFrame, released: pd.DataFrame, weights: str | None) -> dict[str, float]:
    tables = [original, released]
    often = [[1.0] * len(t) if weights is None else t[weights].tolist() for t in tables]
    groups = 5 if len(original) >= 1000 else 3 if len(original) >= 200 else 2
    rows, codes = [], []
    for name in original.columns.drop([] if weights is None else [weights]):
        number = pd.api.types.is_numeric_dtype(original[name])
        columns = [
            t[name].astype(float).tolist() if number else [v if isinstance(v, str) else None for v in t[name]]
            for t in tables
        ]
        files = [list(zip(c, w, strict=True)) for c, w in zip(columns, often, strict=True)]
        scores, code = judged_number(files, groups) if number else judged_category(files)
        rows.append(scores)
        codes.append(code)
    whole = lost = 0.0
    v = sum(1 / kish(w) for w in often)
    for a, b in itertools.combinations(range(len(codes)), 2):
        beyond, spread = [], 0.0
        for i, w in enumerate(often):
            joint, one, two, total = Counter(), Counter(), Counter(), sum(w)
            for x, y, each in zip(codes[a][i], codes[b][i], w, strict=True):
                joint[x, y] += each / total
                one[x] += each / total
                two[y] += each / total
            cells = itertools.product(range(max(map(max, codes[a])) + 1), range(max(map(max, codes[b])) + 1))
            beyond.append({c: joint[c] - one[c[0]] * two[c[1]] for c in cells})
            if i == 0:
                spread = math.prod(sum(math.sqrt(max(s * (1 - s), 0)) for s in m.values()) for m in (one, two))
        noise = spread * math.sqrt(v)
        whole += max(sum(map(abs, beyond[0].values())) / 2 - noise, 0)
        lost += max(sum(abs(d - beyond[1][c]) for c, d in beyond[0].items()) / 2 - noise, 0)
    margins = sum(r["score"] for r in rows) / len(rows)
    found = {k: sum(r[k] for r in rows if k in r) / sum(k in r for r in rows) for k in {k for r in rows for k in r}}
    found |= {"margins": margins} | ({"dependence": max(1 - lost / whole, 0.0)} if whole > 1e-9 else {})
    return found | {"value": (margins + found.get("dependence", margins)) / 2}


CASES = {
    "SD2011": (["sex", "age", "edu", "income", "ls", "marital"], None),
    "testdata": (["urbrur", "roof", "age", "sex", "income", "sampling_weight"], "sampling_weight"),
    "francdat": (["Key1", "Key3", "Num1", "Num2", "w"], "w"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_its_definition_record_by_record(name: str) -> None:
    """Real files with blanks, weights and categories; the release is other records, coarser, noisy and blanked."""
    columns, weights = CASES[name]
    path = SHARED / "data" / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the working copy")
    file, rng = pd.read_csv(path)[columns].sample(frac=1, random_state=1), np.random.default_rng(5)
    file = file.assign(**{c: file[c].map(lambda v: f"k{v}") for c in ("urbrur", "roof", "Key1") if c in file})
    n = min(260, len(file))
    original = file.iloc[:n].reset_index(drop=True)
    released = original if len(file) == n else file.iloc[n : n + 210].reset_index(drop=True)
    for c in released.columns.drop([] if weights is None else [weights]):
        if pd.api.types.is_numeric_dtype(file[c]):
            released = released.assign(**{c: released[c] + 0.3 * file[c].std() * rng.normal(size=len(released))})
        released = released.assign(**{c: released[c].mask(rng.random(len(released)) < 0.05)})
    value = GeneralUtility(weights=weights)(original, released)
    expected = slow_general_utility(original, released, weights)
    assert 0.05 < value < 0.999
    found = value.parts | {"value": float(value), "score": value.parts["margins"]}
    assert {k: found[k] for k in expected} == pytest.approx(expected, rel=1e-9)
