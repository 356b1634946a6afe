"""Numbers of sdcMicro and synthpop on the files of agencies, to the digits that they give, or the reason why not."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from places import REFERENCE, SHARED

from ruvdecision import measures

ENTRIES = {e["id"]: e["value"] for e in json.loads((REFERENCE / "agency_risk.json").read_text())}
FRANC, SEVEN = ["Key1", "Key2", "Key3", "Key4"], ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]
FOUR = ["urbrur", "water", "sex", "age"]
FILES: dict[str, tuple[str, list[str], str | None]] = {
    "francdat": ("francdat.csv", FRANC, "w"),
    "td7": ("testdata.csv", SEVEN, "sampling_weight"),
    "td4": ("testdata.csv", FOUR, "sampling_weight"),
    "francdat_na": ("francdat_na.csv", FRANC, "w"),
    "td7_na": ("td7_na.csv", SEVEN, "sampling_weight"),
    "sd5": ("SD2011.csv", ["sex", "agegr", "placesize", "edu", "marital"], None),
}
NUMERIC: dict[str, tuple[str, list[str]]] = {
    "td3": ("testdata.csv", ["expend", "income", "savings"]),
    "francdat3": ("francdat.csv", ["Num1", "Num2", "Num3"]),
    "sd4": ("sd4num_orig.csv", ["age", "height", "weight", "bmi"]),
}
#: sdcMicro gives risk 0 to records with between one and two matches, which alpha = 1/2 makes: no probability is 0 there.
NO_RISK = {"francdat_na.indivRisk.alpha0.5", "td7_na.indivRisk.alpha0.5"}


@functools.cache
def read(name: str) -> pd.DataFrame:
    for folder in (SHARED / "data", SHARED / "reference" / "agency"):
        if (folder / name).exists():
            return pd.read_csv(folder / name)
    pytest.skip(f"{name} is not beside the working copy")


def ids(pattern: str) -> list[str]:
    return [i for i in ENTRIES if re.match(pattern, i.partition(".")[2])]


def agree(found: dict[str, Any], wanted: dict[str, Any], rel: float = 1e-9) -> None:
    for name, value in wanted.items():
        np.testing.assert_allclose(
            np.asarray(found[name], dtype=float), np.asarray(value, dtype=float), rtol=rel, atol=1e-12, err_msg=name
        )


@pytest.mark.parametrize("entry", ids(r"(fk|Fk|indivRisk|risk_unweighted)"))
def test_frequencies_and_individual_risk(entry: str) -> None:
    file, _, kind = entry.partition(".")
    name, keys, weights = FILES[file]
    x, alpha = read(name), re.search(r"alpha([\d.]+)", kind)
    measure = measures.IndividualRisk(
        keys,
        None if kind.startswith("risk_unweighted") else weights,
        alpha=float(alpha[1]) if alpha else 1.0,
        method="exact" if "exact" in kind else "approx",
    )
    table, value, wanted = measure.record_table(x, x), measure(x, x), dict(ENTRIES[entry])
    column = table[{"f": "f", "F": "F"}.get(kind[0], "risk")]
    holes = x[keys].isna().any(axis=1)
    found = {
        **{name: column.sum() for name in ("sum", "sum_fk", "sum_Fk")},
        **{f"viol{k}": value.parts[f"below {k}"] for k in (2, 3, 5)},
        "n_fk1": (table["f"] == 1).sum(),
        "max": column.max(),
        "min": column.min(),
        "first10": column[:10],
        "first10_with_NA": column[holes][:10],
        "all": column,
    }
    if entry in NO_RISK:
        between = table["f"].between(1, 2, inclusive="neither")
        found["sum"] = column[~between].sum()
        found["first10"] = column.where(~between, 0.0)[:10]
        assert between.any() and (column[between] > 0).all()
    agree(found, wanted, 1e-8)


@pytest.mark.parametrize("entry", ids("(measure_risk|sdcObj)"))
def test_expected_re_identifications_and_households(entry: str) -> None:
    name, keys, weights = FILES[entry.partition(".")[0]]
    x, wanted = read(name), ENTRIES[entry]
    value = measures.IndividualRisk(keys, weights)(x, x)
    found = {"global_risk_ER": value.parts["expected"], "global_risk": value, "risk_pct": 100 * value}
    found |= {"risk": value, "risk_ER": value.parts["expected"]}
    if "hier_risk" in wanted:
        measure = measures.HouseholdRisk(keys, "ori_hid", weights)
        whole, each = measure(x, x), measure.per_record(x, x)
        found |= {"hier_risk": whole, "hier_risk_ER": whole.parts["expected"]}
        found |= {"hier_first10": each[:10], "hier_max": each.max()}
        assert whole.parts["expected alone"] == value.parts["expected"]
    agree(found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ids("suda2"))
def test_suda_scores_dis_and_contributions(entry: str) -> None:
    file, _, kind = entry.partition(".")
    name, keys, _ = FILES[file]
    x, wanted = read(name), dict(ENTRIES[entry])
    fraction = float(np.float32(kind.split("dis")[1]))  # sdcMicro holds it in single precision
    measure = measures.SpecialUniques(keys, largest=len(keys), fraction=fraction, missing="pairwise")
    value, dis = measure(x, x), measure.dis(x, x)
    there = np.flatnonzero(value.records)
    contributions = wanted.pop("attribute_contributions")
    agree({c: value.parts[f"contribution {c}"] for c in contributions}, contributions)
    found = {
        "sum": value.records.sum(),
        "max": value.records.max(),
        "n_nonzero": value,
        "rows_first10_nonzero": there[:10] + 1,
        "first10_nonzero": value.records[there][:10],
        "dis_sum": value.parts["DIS"],
        "dis_max": value.parts["DIS largest"],
        "dis_first10_nonzero": dis[there][:10],
    }
    agree(found, wanted, 1e-6)
    levels = measure.level_contributions(x, x)["contribution"].groupby("column").sum()
    agree(levels.to_dict(), contributions)


@pytest.mark.parametrize("entry", ids("ldiversity"))
def test_diversity(entry: str) -> None:
    name, keys, target = {
        "td7": ("testdata.csv", SEVEN, "hhcivil"),
        "td4_roof": ("testdata.csv", FOUR, "roof"),
        "francdat": ("francdat.csv", ["Key1", "Key2", "Key4"], "Key3"),
        "sd3_ls": ("SD2011.csv", ["sex", "agegr", "edu"], "ls"),
    }[entry.partition(".")[0]]
    x = read(name)
    for kind, wanted in ENTRIES[entry].items():
        measure = measures.LDiversity(keys, target, kind=kind, c=2)
        each = measure.diversity(x, x)
        found = {"first10": each[:10], "sum": each.sum(), "min": measure(x, x)}
        if x[target].isna().any() and kind != "recursive":
            # sdcMicro takes every missing target as a value of its own, which overstates diversity.
            assert found.pop("sum") < wanted["sum"]
            wanted = {k: v for k, v in wanted.items() if k != "sum"}
            lone = x[target].astype(object).where(x[target].notna(), pd.Series(np.arange(len(x)), dtype=object))
            theirs = measure.diversity(x, x.assign(**{target: lone.astype(str)}))
            assert theirs.sum() == pytest.approx(ENTRIES[entry][kind]["sum"], rel=1e-9)
        agree(found, wanted)


@pytest.mark.parametrize("entry", ids(r"tab\."))
def test_tables(entry: str) -> None:
    file, _, kind = entry.partition(".")
    columns = kind[4:].split("_")
    codes = {"income": [-8]} if file == "sd7" and "income" in columns else None
    value = measures.TableUtility(columns, codes=codes)(read(f"{file}_orig.csv"), read(f"{file}_syn.csv"))
    agree(value.parts, ENTRIES[entry])
    pair = measures.TableUtility(columns, way=len(columns), codes=codes, kind="VW")
    assert float(pair(read(f"{file}_orig.csv"), read(f"{file}_syn.csv"))) == pytest.approx(value.parts["VW"], rel=1e-12)


@pytest.mark.parametrize("entry", ids(r"disclosure\."))
def test_disclosure(entry: str) -> None:
    file, _, kind = entry.partition(".")
    keys, target = kind[11:].split(".")
    value = measures.Disclosure(keys.split("_"), target)(read(f"{file}_orig.csv"), read(f"{file}_syn.csv"))
    for group in ENTRIES[entry].values():
        agree(value.parts, {k: v or 0.0 for k, v in group.items()})  # the mean of no cell is null there
    assert 100 * float(value) == pytest.approx(value.parts["DiSCO"], rel=1e-12)


@pytest.mark.parametrize("entry", ids(r"multi\."))
def test_disclosure_of_all_targets(entry: str) -> None:
    file, _, kind = entry.partition(".")
    value = measures.Disclosure(kind[6:].split("_"))(read(f"{file}_orig.csv"), read(f"{file}_syn.csv"))
    assert value.table is not None
    for target, wanted in ENTRIES[entry].items():
        found = {"ident.orig": value.parts["UiO"], "ident.syn": value.parts["repU"]}
        found |= {"attrib.orig": value.parts[f"Dorig {target}"], "attrib.syn": value.parts[f"DiSCO {target}"]}
        agree(found, wanted)
        assert value.table.loc[target, "DiSCO"] == found["attrib.syn"]


@pytest.mark.parametrize("entry", ids(r"repuniq\."))
def test_replicated_uniques(entry: str) -> None:
    file, wanted = entry.partition(".")[0], dict(ENTRIES[entry])
    value = measures.ReplicatedUniques(wanted.pop("keys"))(read(f"{file}_orig.csv"), read(f"{file}_syn.csv"))
    wanted.pop("pct")
    agree(value.parts, wanted)
    assert float(value) == wanted["replicated_uniques"]


@pytest.mark.parametrize("entry", ids(r"dRisk(\.k01)?$"))
def test_intervals_around_released_values(entry: str) -> None:
    file, _, kind = entry.partition(".")
    name, columns = NUMERIC[file.partition("_")[0]]
    measure = measures.IntervalDisclosure(
        columns, width_sd=0.01 if kind.endswith("k01") else 0.05, spread_of="released"
    )
    assert float(measure(read(name), read(f"{file}.csv"))) == pytest.approx(ENTRIES[entry], rel=1e-9)


@pytest.mark.parametrize("entry", ids(r"modRisk\.(default|PML|IPF)"))
def test_sdcmicro_takes_the_rate_of_the_sample_for_that_of_the_population(entry: str) -> None:
    """Its gr1 and gr2 follow from our rates mu if mu stands for mu / p; `LogLinearUniques` takes mu / p, which is right.

    A cell of the population with mean lambda = mu / p leaves (1 - p) lambda people outside the sample. (Simulated
    populations confirm `LogLinearUniques` in test_risk.) gr1 and gr2 are divided by the number of non-empty cells.
    """
    name, keys, _ = FILES[entry.partition(".")[0]]
    x = read(name)[keys]
    n, p = len(x), 0.01
    sizes = x.groupby(keys)[keys[0]].transform("size")
    cells = len(x.drop_duplicates())
    mu = n * np.prod([x[k].map(x[k].value_counts(normalize=True)) for k in keys], axis=0)[sizes == 1]
    theirs = {
        "gr1": np.exp(-(1 - p) * mu).sum() / cells,
        "gr2": (-np.expm1(-(1 - p) * mu) / ((1 - p) * mu)).sum() / cells,
    }
    agree(theirs, ENTRIES[entry], 1e-7)
    value = measures.LogLinearUniques(keys, population=round(n / p))(x, x)
    left = (1 - p) * mu / p
    assert value.parts["expected uniques"] == pytest.approx(np.exp(-left).sum(), rel=1e-9)
    assert value.parts["expected matches"] == pytest.approx((-np.expm1(-left) / left).sum(), rel=1e-9)
    if entry.startswith("td7"):
        assert value.parts["expected uniques"] == pytest.approx(5.47, abs=0.005)
        assert value.parts["expected matches"] == pytest.approx(14.92, abs=0.005)


@pytest.mark.parametrize("entry", ids(r"modRisk\.(CE|weightedLLM)"))
def test_sdcmicro_puts_weights_into_the_model_of_cells(entry: str) -> None:
    """Its CE has log(count / weight + 0.1) of the cell as an offset, weightedLLM the cell's weight as a predictor.

    Both are functions of the very counts that are fitted, so we have neither; their numbers follow from the definition.
    """
    name, keys, weights = FILES[entry.partition(".")[0]]
    x = read(name)
    levels = [np.unique(x[k]) for k in keys]
    grid = pd.MultiIndex.from_product(levels, names=keys)
    grouped = x.groupby(keys)[weights]
    count, weight = (v.reindex(grid, fill_value=0.0).to_numpy(dtype=float) for v in (grouped.size(), grouped.sum()))
    columns = [np.ones(len(grid))]
    for j, own in enumerate(levels):
        columns += [(grid.codes[j] == k).astype(float) for k in range(1, len(own))]
    offset = np.zeros(len(grid))
    if entry.endswith("CE"):
        offset = np.log(np.divide(count, weight, out=np.zeros(len(count)), where=weight > 0) + 0.1)
    else:
        columns.append(weight)
    design, mu = np.column_stack(columns), count + 0.1
    for _ in range(60):
        working = np.log(mu) - offset + (count - mu) / mu
        gram = design.T @ (design * mu[:, None])
        scale = np.sqrt(np.diag(gram))
        beta = np.linalg.solve(gram / np.outer(scale, scale), design.T @ (mu * working) / scale) / scale
        mu = np.exp(np.clip(design @ beta + offset, -700, 700))
    one, p = count == 1, 1.0 / weight[count == 1]
    left = (1 - p) * mu[one]
    found = {"gr1": np.exp(-left).sum() / (count > 0).sum(), "gr2": (-np.expm1(-left) / left).sum() / (count > 0).sum()}
    agree(found, ENTRIES[entry], 1e-6)
