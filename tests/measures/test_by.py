"""Measures by groups of records: the parts are what the measure says of the groups alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from edges import attempt
from measured import instances, names

import ruvdecision as ruv
from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.measures import (
    ImputationLoss,
    IndividualRisk,
    KMap,
    LDiversity,
    LogLinearUniques,
    NormalKL,
    PitmanUniques,
    PoissonGammaUniques,
    RecordLinkage,
    SkinnerElliot,
    SpecialUniques,
)


def files() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(4)
    original = pd.DataFrame(rng.normal(size=(40, 3)).round(1), columns=list("abc"))
    original["region"] = np.repeat(["N", "S"], [25, 15])
    return original, original.assign(a=original["a"] + rng.normal(0, 0.3, 40))


def test_parts_are_the_measures_of_the_groups() -> None:
    original, released = files()
    for make in (NormalKL, RecordLinkage):
        plain, found = make(), make(by="region")(original, released)
        for level in "NS":
            own = [t[t["region"] == level].drop(columns="region") for t in (original, released)]
            assert found.parts[f"region={level}"] == pytest.approx(float(plain(*own)))
        assert found.table is not None and found.table["records"].tolist() == [25, 15]
    whole = RecordLinkage(known=list("abc"))(original, released)
    assert float(found) == float(whole)
    assert RecordLinkage(by="region").per_record(original, released).tolist() == whole.records.tolist()


def test_pairs_stay_together_where_the_group_was_masked() -> None:
    original, released = files()
    moved = released.assign(region=released["region"].to_numpy()[::-1])
    measure = RecordLinkage(known=list("abc"), by="region")
    assert measure(original, moved).parts == measure(original, released).parts


def test_another_file_is_parted_too() -> None:
    people = pd.DataFrame({"age": [1, 1, 2, 2], "region": list("NSNN")})
    value = KMap("age", population=people, by="region")(people.iloc[[0, 1, 2]], people.iloc[[0, 1, 2]])
    assert float(value) == 2 and value.parts["region=N"] == 1 and value.parts["region=S"] == 1


def test_a_population_is_parted_as_the_sample_is() -> None:
    """A simple random sample has the same share of every group."""
    rng = np.random.default_rng(2)
    file = pd.DataFrame(
        {"a": rng.integers(0, 9, 60), "b": rng.integers(0, 9, 60), "g": np.repeat(["N", "S"], [40, 20])}
    )
    for kind in (PoissonGammaUniques, LogLinearUniques, PitmanUniques, SkinnerElliot):
        value = kind(["a", "b"], population=600, by="g")(file, file)
        for level, size in (("N", 400), ("S", 200)):
            own = file[file["g"] == level]
            assert value.parts[f"g={level}"] == pytest.approx(float(kind(["a", "b"], population=size)(own, own)))


def test_a_group_that_is_too_small_says_why() -> None:
    original, released = files()
    original.loc[0, "region"] = released.loc[0, "region"] = "tiny"
    value = NormalKL(columns=list("abc"), by="region")(original, released)
    assert np.isnan(value.parts["region=tiny"]) and value.table is not None and value.table.loc["tiny", "note"]
    rumap = ruv.measure(original, releases={"x": released}, measures=[IndividualRisk("a", by="region")])
    assert "individual_risk.region=S" in rumap.columns and "individual_risk.expected" not in rumap.columns


@pytest.mark.parametrize("name", [n for n in names() if n != "ImputationLoss"])
def test_every_measure_takes_groups(name: str) -> None:
    original, released = (t.round(0) for t in files())
    plain = instances(name, original[list("abc")])[0]()
    grouped = type(plain)(**{**{k: v for k, v in plain.settings().items() if k != "name"}, "by": "region"})
    found = attempt(grouped, original, released, kind="groups")
    assert isinstance(found, RuvError) or "region=N" in found.parts


def test_bad_input(tmp_path) -> None:
    original, released = files()
    with pytest.raises(InputError, match="names a column"):
        NormalKL(by="town")(original, released)
    with pytest.raises(UnsupportedError, match="by groups"):
        ImputationLoss(by="region")(original, [released, released])
    original.to_csv(tmp_path / "x.csv", index=False)
    path = str(tmp_path / "x.csv")
    with pytest.raises(UnsupportedError, match="whole files"):
        ruv.measure(path, releases={"x": path}, measures=[NormalKL(columns=["a"], by="region")], chunksize=10)


@pytest.mark.parametrize("missing", ["omit", "wildcard", "category"])
def test_risks_of_records_with_groups_and_missing_values(missing: str) -> None:
    original, released = files()
    for table in (original, released):
        table.loc[::6, "b"] = np.nan
    plain, grouped = (IndividualRisk(["a", "b"], missing=missing, by=by) for by in (None, "region"))
    np.testing.assert_array_equal(
        grouped.per_record(original, released), plain.per_record(original, released)
    )  # NaN where a row is left out
    assert grouped.record_table(original, released).equals(plain.record_table(original, released))
    linked = RecordLinkage(missing="omit", by="region").per_record(original, released)
    assert np.isnan(linked[::6]).all() and not np.isnan(np.delete(linked, np.s_[::6])).any()
    special = SpecialUniques(["a", "b"], missing="category", by="region")
    assert len(special.dis(original, released)) == 40 and len(special.level_contributions(original, released))
    diverse = LDiversity(["a"], "b", by="region")
    assert len(diverse.diversity(original, released)) == 40


@pytest.mark.parametrize(
    "junk",
    [
        ["region"],
        {"region"},
        ("region",),
        {"region": 1},
        np.zeros(3),
        pd.Series([1]),
        b"region",
        1.5,
        -7,
        99,
        lambda: 0,
    ],
)
def test_junk_for_groups_is_refused_by_name(junk: object) -> None:
    original, released = files()
    with pytest.raises(RuvError):
        NormalKL(by=junk)(original, released)


@pytest.mark.parametrize(
    "spelled",
    [
        lambda g: g.astype(np.float64),
        lambda g: pd.Timestamp("2020-01-01") + pd.to_timedelta(g, unit="D"),
        lambda g: g.astype("float16"),
        lambda g: g.map({0: True, 1: False, 2: None}).astype("boolean"),
        lambda g: g.astype("category"),
    ],
    ids=["floats", "dates", "narrow floats", "truth values", "categories"],
)
def test_groups_of_a_synthetic_file_are_found_by_value(spelled) -> None:  # type: ignore[no-untyped-def]
    """Whole numbers become floats where a file has a gap, and a midnight is a day in some spellings."""
    rng = np.random.default_rng(8)
    original, released = (pd.DataFrame(rng.normal(size=(n, 2)), columns=list("ab")) for n in (60, 90))
    original["g"], released["g"] = rng.integers(0, 3, 60), rng.integers(0, 3, 90)
    wanted = NormalKL(by="g")(original, released)
    found = NormalKL(by="g")(original.assign(g=spelled(original["g"])), released.assign(g=spelled(released["g"])))
    assert wanted.table is not None
    assert found.table is not None
    assert sorted(found.table["value"]) == pytest.approx(sorted(wanted.table["value"]))
    mixed = NormalKL(by="g")(original, released.assign(g=released["g"].astype(np.float64)))
    assert mixed.parts == pytest.approx(wanted.parts)


def test_the_population_of_a_group_is_found_by_value() -> None:
    """People without a region make whole numbers floats; the group of each region was then compared with everybody."""
    rng = np.random.default_rng(9)
    people = pd.DataFrame({"k": rng.integers(0, 4, 200), "g": rng.integers(0, 3, 200)})
    sample = people.iloc[:60].reset_index(drop=True)
    wanted = KMap("k", population=people, by="g")(sample, sample)
    gaps = pd.concat([people, pd.DataFrame({"k": [0], "g": [np.nan]})], ignore_index=True)
    found = KMap("k", population=gaps, by="g")(sample, sample)
    assert [found.parts[f"g={v}"] for v in range(3)] == [wanted.parts[f"g={v}"] for v in range(3)]


def test_an_empty_text_is_a_group_of_its_own() -> None:
    original = pd.DataFrame({"g": ["x", ""] * 20, "a": np.arange(40) % 5})
    other = original.assign(g=original["g"].replace("x", "q"))[::-1].reset_index(drop=True).iloc[:30]
    assert ruv.measures.TotalVariation(by="g")(original, other).table.loc["", "records"] == 15


def test_values_without_an_order_make_groups() -> None:
    original, released = files()
    odd = pd.Series([(1, 2), "N", 2.5, None] * 10, dtype=object)
    found = NormalKL(by="region")(original.assign(region=odd), released.assign(region=odd))
    assert found.table is not None
    assert sorted(found.table.index) == ["(1, 2)", "2.5", "N", "nan"]
    assert found.table["value"].notna().all()


def test_lists_make_no_groups() -> None:
    original, released = files()
    lists = [f.assign(region=[[1], [2]] * 20) for f in (original, released)]
    with pytest.raises(InputError, match="lists or the like in region"):
        NormalKL(by="region")(*lists)


@pytest.mark.parametrize("kind", ["float16", "lists"])
def test_keys_of_odd_types(kind: str) -> None:
    original, released = files()
    numbers = np.arange(40, dtype=np.float16)
    keys = numbers if kind == "float16" else pd.Series([[i] for i in range(40)])
    keyed = [f.drop(columns="region").assign(key=keys) for f in (original, released)]
    if kind == "lists":
        with pytest.raises(InputError, match="lists or the like in key"):
            ruv.measure(keyed[0], releases={"r": keyed[1]}, measures=[NormalKL()], key="key")
        return
    rumap = ruv.measure(keyed[0], releases={"r": keyed[1][::-1]}, measures=[RecordLinkage()], key="key")
    plain = [f.drop(columns="region") for f in (original, released)]
    assert rumap.risk[0] == pytest.approx(float(RecordLinkage()(*plain)))
