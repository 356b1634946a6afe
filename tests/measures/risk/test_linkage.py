"""Linkage by nearest neighbour: units and far records."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from measured import two_columns

import ruvdecision as ruv
from ruvdecision.errors import InputError
from ruvdecision.measures import AttributeDisclosure, ClusteringAttack, FellegiSunter, IntervalDisclosure, RecordLinkage
from ruvdecision.measures.risk.fellegi_sunter import fit_mixture


@pytest.mark.parametrize("distance", ["standardised", "mahalanobis"])
def test_linkage_does_not_depend_on_the_unit(distance: str) -> None:
    original, released = two_columns(), two_columns() + 0.3 * two_columns(1)
    measure = RecordLinkage(distance=distance)
    assert 0 < measure(original, released) < 1
    for unit in (2.0**-700, 2.0**400):
        assert measure(original * unit, released * unit) == measure(original, released)


@pytest.mark.slow
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


# -- far from zero ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64", "int64[pyarrow]"])
@pytest.mark.parametrize("measure", [RecordLinkage(), RecordLinkage(distance="rank"), FellegiSunter(tolerance_sd=0.0)])
def test_whole_numbers_beyond_53_bits_are_told_apart(measure, kind) -> None:
    """As floats 2^60 + i is 2^60 for every i up to 64."""
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    data = pd.DataFrame({"id": pd.Series([2**60 + i for i in range(50)], dtype=kind)})
    assert measure(data, data) == pytest.approx(1.0)
    assert measure(data - 2**60, data - 2**60) == pytest.approx(1.0)
    mixed = data.astype("int64")["id"].to_numpy()
    near = pd.DataFrame({"id": np.where(np.arange(50) % 2, mixed, np.roll(mixed, 1))})
    small = measure(pd.DataFrame({"id": np.arange(50)}), near - 2**60)
    assert measure(pd.DataFrame({"id": mixed}), near) == pytest.approx(float(small))


def test_whole_numbers_at_the_ends_of_their_range() -> None:
    for ends in ([-(2**63), 2**63 - 1, 0], [2**64 - 1, 2**64 - 2, 2**64 - 3]):
        data = pd.DataFrame({"id": ends})
        assert RecordLinkage()(data, data) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64"])
@pytest.mark.parametrize(
    "measure",
    [
        RecordLinkage(),
        RecordLinkage(distance="rank"),
        RecordLinkage(paired=False),
        FellegiSunter(tolerance_sd=0.0),
        IntervalDisclosure(width_sd=0.01),
        AttributeDisclosure("id", "gap", within_sd=0.01),
    ],
)
def test_a_gap_in_another_column_changes_nothing_of_them(measure, kind: str) -> None:
    """Files with gaps are scaled column by column, and there, too, from the original's smallest number."""
    rng = np.random.default_rng(4)
    small = pd.DataFrame({"id": rng.permutation(60), "gap": rng.normal(size=60).round(2)})
    small.loc[::7, "gap"] = np.nan
    near = small.assign(id=np.where(np.arange(60) % 2, small["id"], np.roll(small["id"], 1)))
    far = [f.assign(id=pd.Series(f["id"] + 2**60, dtype=kind)) for f in (small, near)]
    assert measure(*far) == pytest.approx(float(measure(small, near)))
    assert measure(far[0], far[0]) == pytest.approx(float(measure(small, small)))


@pytest.mark.parametrize("offset", [1e6, 1e8, 1e10])
@pytest.mark.parametrize(
    "measure", [RecordLinkage(), RecordLinkage(distance="mahalanobis"), FellegiSunter(tolerance_sd=1e-4)]
)
def test_a_large_offset_makes_no_ties(measure, offset: float) -> None:
    rng = np.random.default_rng(1)
    original = pd.DataFrame(np.round(rng.normal(size=(300, 2)) * 2**14) / 2**14, columns=["a", "b"])
    released = original + np.round(rng.normal(size=(300, 2)) * 2**12) / 2**14 / 100
    expected = float(measure(original, released))
    assert float(measure(original + offset, released + offset)) == pytest.approx(expected, abs=0.01)
    assert float(measure(original + offset, original + offset)) == pytest.approx(float(measure(original, original)))


@pytest.mark.parametrize("gap", [0.5, np.nan])
@pytest.mark.parametrize("paired", [True, False])
def test_what_no_distance_can_hold_is_refused(gap: float, paired: bool) -> None:
    rng = np.random.default_rng(7)
    near = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    near.loc[0, "b"] = gap
    measure = RecordLinkage(paired=paired)
    with pytest.raises(InputError, match="units"):
        measure(near.assign(a=near["a"] * 1e-130), near.assign(a=near["a"] * 1e120))
    tiny = near.assign(a=near["a"] * 1e-320)
    if gap == 0.5:
        with pytest.raises(InputError, match="squares do not vanish"):
            measure(tiny, tiny)
    else:
        assert measure(tiny, tiny) == pytest.approx(1.0)


def test_a_longer_release_is_linked_by_its_labels() -> None:
    """Several released records of one respondent: each looks for its original, as one file after another would."""
    rng = np.random.default_rng(5)
    original = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    copies = [original + 0.3 * rng.normal(size=(30, 2)) for _ in range(3)]
    together = pd.concat(copies)
    for measure in (RecordLinkage(), FellegiSunter(), IntervalDisclosure(width_sd=0.2)):
        found = measure.per_record(original, together)
        assert len(found) == 90
        if not isinstance(measure, FellegiSunter):  # whose probabilities are fitted to all pairs
            alone = np.concatenate([measure.per_record(original, copy) for copy in copies])
            np.testing.assert_allclose(found, alone)
            assert float(measure(original, together)) == pytest.approx(alone.mean())
    with pytest.raises(InputError, match="each original's own record"):
        RecordLinkage(link="original to released")(original, together)
    with pytest.raises(InputError, match=r"whose rows.*linkability"):
        ClusteringAttack()(original, together.reset_index(drop=True))


# -- releases in which no row is known to be anybody's ---------------------------------------------------


class Distance:
    """Distance of two rows by its definition: standardised numbers, categories, and columns that one does not know."""

    def __init__(self, original: pd.DataFrame) -> None:
        self.mean, self.sd, self.shares = {}, {}, {}
        for c in original:
            if original[c].dtype == float:
                self.mean[c], self.sd[c] = original[c].mean(), original[c].std()
            else:
                self.shares[c] = original[c].value_counts(normalize=True)

    def __call__(self, me: dict, you: dict) -> float:
        square = 0.0
        for c in me:
            if pd.isna(me[c]):
                continue
            if c in self.sd:
                far = 1 + ((me[c] - self.mean[c]) / self.sd[c]) ** 2
                square += far if pd.isna(you[c]) else ((me[c] - you[c]) / self.sd[c]) ** 2
            else:
                same = (self.shares[c] ** 2).sum()
                far = 1 + (1 - 2 * self.shares[c].get(me[c], 0) + same) / (1 - same)
                square += far if pd.isna(you[c]) else 2 * (me[c] != you[c]) / (1 - same)
        return float(np.sqrt(square))


def by_definition(original: pd.DataFrame, released: pd.DataFrame, link: str) -> tuple[np.ndarray, float]:
    """The risk of each row that asks, and the share of copies, one row after the other."""
    distance, files = Distance(original), [original, released]
    asking, asked = files[::-1] if link == "released to original" else files
    risk, alone = np.zeros(len(asking)), {}
    for i, me in enumerate(asking.to_dict("records")):
        other, own = (np.array([distance(me, you) for you in f.to_dict("records")]) for f in (asked, asking))
        if other.min() == 0:
            risk[i] = 1 / np.sum((other if asked is original else own) == 0)
            continue
        rest = own[own > 0]
        least = min(other.min(), rest.min(initial=np.inf)) * (1 + 1e-9)
        near = np.sum(other <= least), np.sum(rest <= least)
        alone[i] = near[0] / sum(near), len(other) / (len(other) + len(rest))
    if alone:
        share, chance = np.array(list(alone.values())).T
        if chance.mean() < 1:
            excess = max((share.mean() - chance.mean()) / (1 - chance.mean()), 0)
            risk[list(alone)] = excess * share / max(share.mean(), 1e-300)
    return risk, 1 - len(alone) / len(risk)


def of_any_length(kind: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(8)
    original = pd.DataFrame({"a": rng.normal(size=14), "b": rng.normal(size=14), "c": rng.choice(list("xyz"), 14)})
    if kind == "gaps":
        original = original.mask(rng.random(original.shape) < 0.15)
    if kind == "categories":
        original = pd.DataFrame({c: rng.choice(list("xyz"), 14) for c in "abc"})
        return original, pd.DataFrame({c: rng.choice(list("xyz"), 22) for c in "abc"})
    if kind == "few":
        return original, original.assign(a=original["a"] + 0.3).iloc[[3, 3, 8, 9]].reset_index(drop=True)
    longer = pd.concat([original.iloc[:7], original], ignore_index=True)
    moved = rng.normal(0, 0.2, len(longer)) * (np.arange(len(longer)) % 3 > 0)  # every third row is a copy
    return original, longer.assign(a=longer["a"] + moved)


@pytest.mark.parametrize("link", ["released to original", "original to released"])
@pytest.mark.parametrize("kind", ["mixed", "gaps", "categories", "few"])
def test_a_release_of_nobodys_rows_by_its_definition(kind: str, link: str) -> None:
    original, released = of_any_length(kind)
    value = RecordLinkage(link=link)(original, released)
    expected, copies = by_definition(original, released, link)
    np.testing.assert_allclose(value.records, expected, atol=1e-12)
    assert float(value) == pytest.approx(expected.mean()) and value.parts["copies"] == pytest.approx(copies)
    assert value.parts["linked"] == 0 and 0 <= expected.mean() <= 1
    turned = [f.sample(frac=1, random_state=i).reset_index(drop=True) for i, f in enumerate((original, released))]
    assert float(RecordLinkage(link=link)(*turned)) == pytest.approx(float(value))


def test_what_nobodys_rows_tell() -> None:
    rng = np.random.default_rng(3)
    original = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    measure, both = RecordLinkage(), RecordLinkage(link="original to released")
    # Another sample of the population tells of nobody: within its error of 0, and on average at chance.
    fresh = [measure(original, rng.normal(size=(600, 3))) for _ in range(20)]
    assert max(v / v.error for v in fresh) < 4
    gap = [v.parts["nearer"] - v.parts["chance"] for v in fresh]
    assert abs(np.mean(gap)) < 4 * np.std(gap, ddof=1) / np.sqrt(20)
    # The originals' own rows, some of them or all of them twice, have the number that they have with labels.
    some, twice = original.iloc[50:150], pd.concat([original, original])
    assert measure(original, some.reset_index(drop=True)) == measure(original, some) == 1
    assert both(original, twice.reset_index(drop=True)) == measure(original, twice) == 1
    assert both(original, some.reset_index(drop=True)) == pytest.approx(0.25, abs=0.01)
    # Noise is found in between, near the number with labels.
    noisy = original + rng.normal(0, 0.1, size=(400, 3))
    known, unknown = measure(original, noisy.iloc[:300]), measure(original, noisy.iloc[:300].reset_index(drop=True))
    assert 0.7 < known < 0.95 and abs(known - unknown) < 3 * unknown.error < 0.15
    assert measure(original, original.iloc[:9] * 0 + 1) == 0
    # A synthetic file of the same length: positions are nobody's either.
    shuffled = original.sample(frac=1, random_state=1).reset_index(drop=True)
    assert measure(original, shuffled) < 0.02 < RecordLinkage(paired=False)(original, shuffled) == 1


def test_nobodys_rows_by_group_and_with_weights() -> None:
    """Groups that happen to have as many rows in both files are not paired by position."""
    original = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0, 4.0], "g": list("xxyyy"), "w": [1.0, 2, 3, 4, 5]})
    released = pd.DataFrame({"a": [1.0, 0.0, 3.0, 9.0], "g": list("xxyy"), "w": [1.0, 1, 1, 2]})
    value = RecordLinkage(known=["a"], by="g")(original, released)
    assert value.parts["g=x"] == 1 and value.records[:3].tolist() == [1, 1, 1]
    weighted = RecordLinkage(known=["a"], weights="w")(original, released)
    assert float(weighted) == pytest.approx((3 + 2 * weighted.records[3]) / 5)
    # An intruder who errs: some draws have copies alone, others none.
    erring = RecordLinkage(known=["g"], error_rate=0.4, draws=30)(original.iloc[:3], released.iloc[:2])
    assert 0 < erring < 1 and erring.error > 0 and 0 < erring.parts["copies"] < 1 and "nearer" in erring.parts
    with pytest.raises(InputError, match="one_to_one"):
        RecordLinkage(one_to_one=True, paired=False)


def beyond(share: np.ndarray, usual: np.ndarray, copy: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Risk of rows that are nobody's: copies are found, others as far as they are more than chance."""
    rest = share[~copy]
    excess = max((rest.mean() - usual.mean()) / (1 - usual.mean()), 0) if len(rest) else 0.0
    risk = found.copy()
    risk[~copy] = excess * rest / max(rest.mean(), 1e-300) if len(rest) else 0.0
    return risk


@pytest.mark.parametrize("kind", ["mixed", "few", "equal originals"])
def test_probabilistic_links_of_nobodys_rows_by_all_pairs(kind: str) -> None:
    original, released = of_any_length("few" if kind == "few" else "mixed")
    if kind == "equal originals":
        original = pd.concat([original, original.iloc[:4]], ignore_index=True)
    sd = original[["a", "b"]].std().to_numpy()

    def agree(first: pd.DataFrame, second: pd.DataFrame) -> np.ndarray:
        numbers = [
            np.abs(first[[c]].to_numpy() - second[c].to_numpy()) <= 0.3 * s for c, s in zip("ab", sd, strict=True)
        ]
        return np.stack([*numbers, first[["c"]].to_numpy() == second["c"].to_numpy()], axis=-1)

    def best(pattern: np.ndarray) -> np.ndarray:
        weight = np.where(pattern, np.log2(fit.m / fit.u), np.log2((1 - fit.m) / (1 - fit.u))).sum(axis=-1)
        top = weight.max(axis=1)
        odds = 2.0**top * fit.prevalence / (1 - fit.prevalence)
        return odds / (1 + odds) / (weight >= top[:, None] - 1e-9 * (1 + np.abs(top[:, None]))).sum(axis=1)

    pairs = agree(released, original)
    counts = np.bincount((pairs @ [1, 2, 4]).ravel(), minlength=8)
    fit = fit_mixture(counts, prevalence=1 / len(original))
    kinds, often = np.unique([str(list(r)) for r in original.to_numpy()], return_counts=True)
    apart = original.drop_duplicates().sort_values(list("abc"), key=lambda v: v.astype(str))
    often = np.array([often[list(kinds).index(str(list(r)))] for r in apart.to_numpy()])
    own = agree(apart, apart)
    others = [np.delete(own[i], i, axis=0)[None] for i in range(len(apart))]
    usual = np.repeat([best(o)[0] for o in others], often)
    copy = (released[["a"]].to_numpy() == original["a"].to_numpy()).any(axis=1)
    ties = pairs.all(axis=2).sum(axis=1)
    measure = FellegiSunter(tolerance_sd=0.3)
    value = measure(original, released)
    expected = beyond(best(pairs), usual, copy, np.where(copy, 1 / np.maximum(ties, 1), 0.0))
    np.testing.assert_allclose(value.records, expected, atol=1e-9)
    assert value.parts["chance"] == pytest.approx(usual.mean()) and float(value) == pytest.approx(expected.mean())
    turned = [f.sample(frac=1, random_state=i).reset_index(drop=True) for i, f in enumerate((original, released))]
    assert float(measure(turned[0][list("cab")], turned[1])) == pytest.approx(float(value))


@pytest.mark.parametrize("across", ["all", "any", "mean"])
@pytest.mark.parametrize("width", [{"width_sd": 0.2}, {"width_rank": 0.1}, {"width_sd": 0.2, "spread_of": "released"}])
def test_intervals_of_nobodys_rows_by_all_distances(width: dict, across: str) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(55, 2))
    x[30:] = x[:10]  # equal originals
    y[:9], y[9:30] = x[3:12], x[rng.integers(0, 40, 21)] + rng.normal(0, 0.1, (21, 2))
    sd = x.std(axis=0, ddof=1)

    def inside(truth: np.ndarray, shown: np.ndarray, file: np.ndarray) -> np.ndarray:
        if "width_sd" in width:
            unit = (y if "spread_of" in width else x).std(axis=0, ddof=1)
            each = np.abs(truth - shown) <= 0.2 * unit
        else:
            below = np.stack([(file[:, j] < shown[:, [j]]).sum(axis=1) for j in (0, 1)], axis=1)
            upto = np.stack([(file[:, j] <= shown[:, [j]]).sum(axis=1) for j in (0, 1)], axis=1)
            steps, last, ranked = len(file) // 10, len(file) - 1, np.sort(file, axis=0)
            low = np.stack([ranked[np.maximum(below[:, j] - steps, 0), j] for j in (0, 1)], axis=1)
            high = np.stack([ranked[np.minimum(upto[:, j] - 1 + steps, last), j] for j in (0, 1)], axis=1)
            each = (low <= truth) & (truth <= high)
        return {"all": each.all(axis=1), "any": each.any(axis=1), "mean": each.mean(axis=1)}[across].astype(float)

    gap = (((y[:, None] - x) / sd) ** 2).sum(axis=2)
    near = x[gap.argmin(axis=1)]
    share = inside(near, y, y)
    own = (((x[:, None] - x) / sd) ** 2).sum(axis=2)
    own[own < 1e-20] = np.inf
    usual = inside(x[own.argmin(axis=1)], x, x)
    expected = beyond(share, usual, (near == y).all(axis=1), share)
    value = IntervalDisclosure(across=across, **width)(x, y)
    np.testing.assert_allclose(value.records, expected, atol=1e-12)
    assert value.parts["copies"] == pytest.approx(9 / 55)


@pytest.mark.parametrize("measure", [FellegiSunter(tolerance_sd=0.1), IntervalDisclosure(width_sd=0.1)], ids=repr)
def test_what_links_and_intervals_tell_of_nobodys_rows(measure) -> None:
    rng = np.random.default_rng(3)
    original = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    fresh = [measure(original, rng.normal(size=(600, 3))) for _ in range(8)]
    assert max(v / v.error for v in fresh) < 4 and max(map(float, fresh)) < 0.05
    some = original.iloc[50:150]
    assert measure(original, some.reset_index(drop=True)) == pytest.approx(float(measure(original, some)), abs=1e-12)
    noisy = original + rng.normal(0, 0.02, size=(400, 3))
    known, unknown = measure(original, noisy.iloc[:300]), measure(original, noisy.iloc[:300].reset_index(drop=True))
    assert known > 0.9 and abs(known - unknown) < 0.08
    shuffled = original.sample(frac=1, random_state=1).reset_index(drop=True)
    nobody = type(measure)(**{**measure.settings(), "paired": False})
    assert measure(original, shuffled) < 0.03
    assert nobody(original, shuffled) == pytest.approx(float(measure(original, original)), abs=1e-12)
    assert np.isfinite(
        type(measure)(**{**measure.settings(), "missing": "impute"})(original, noisy.mask(noisy > 2)[:99])
    )


def test_what_needs_pairs_says_what_to_use_instead() -> None:
    x, y = np.arange(8.0).reshape(-1, 2), np.arange(12.0).reshape(-1, 2)
    with pytest.raises(InputError, match="measure linkage, linkability or disclosure instead"):
        ClusteringAttack()(x, y)
    for measure, option in (
        (RecordLinkage(one_to_one=True), "one_to_one"),
        (FellegiSunter(one_to_one=True), "one_to_one"),
        (IntervalDisclosure(outlying=True), "outlying"),
    ):
        with pytest.raises(InputError, match=f"or write {option}=False, which needs no pairs"):
            measure(x, y[:3])
    for given in ({"one_to_one": True}, {"outlying": True}):
        with pytest.raises(InputError, match="true pairs"):
            (FellegiSunter if "one_to_one" in given else IntervalDisclosure)(paired=False, **given)


def test_a_file_in_another_order_is_no_safer() -> None:
    """Without a key rows are linked by position, where a shuffled copy of the data would look like a safe release."""
    rng = np.random.default_rng(4)
    data = rng.normal(size=(400, 3))
    noisy, order = data + rng.normal(0, 0.05, data.shape), rng.permutation(400)
    releases = {
        "copy": data[order],
        "noisy": noisy[order],
        "in order": noisy,
        "another sample": rng.normal(size=data.shape),
        "four groups": np.repeat(data.reshape(4, 100, 3).mean(axis=1), 100, axis=0),
        "means": np.broadcast_to(data.mean(axis=0), data.shape),
    }
    rumap = ruv.measure(data, releases=releases, measures=[RecordLinkage()])
    risk = dict(zip(rumap.releases, rumap.risk.tolist(), strict=True))
    assert risk["copy"] == 1 and risk["noisy"] > 0.9
    assert RecordLinkage()(data, data[order]) < 0.02, "by position"
    for name in ("in order", "another sample", "four groups", "means"):
        assert risk[name] == float(RecordLinkage()(data, releases[name])), name
    notes = [note for note in rumap.notes if "not in the order of the data" in note]
    assert len(notes) == 1 and notes[0].startswith("linkage of copy, noisy: ")


def test_keyed_rows_are_linked_as_they_are_keyed() -> None:
    rng = np.random.default_rng(4)
    data = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]).assign(id=range(300))
    order = rng.permutation(300)
    swapped = data.assign(id=data["id"].to_numpy()[order])  # each record under another one's key
    rumap = ruv.measure(data, releases={"swapped": swapped}, measures=[RecordLinkage()], key="id")
    assert rumap.risk[0] < 0.02


def test_released_files_in_the_place_of_masks_are_told_apart() -> None:
    data = pd.DataFrame({"a": [1.0, 2.0, 4.0]})
    for given in (data, [data], {"mine": data}):
        with pytest.raises(InputError, match="releases="):
            ruv.measure(data, given)  # type: ignore[arg-type]
