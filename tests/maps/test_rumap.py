"""The map: schema, look-up, joining, storing and showing."""

import json
import os
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings, strategies as st

from ruvdecision.errors import InputError, RuvError, UnsupportedError
from ruvdecision.maps import Labels, Provenance, RUMap
from ruvdecision.maps.scores import Column
from ruvdecision.maps.storage import decode, encode
from ruvdecision.masks import Mask, Microaggregate, Noise, Release, Shuffle, Subsample, Suppress
from ruvdecision.protocols import Value

AVERAGE = Microaggregate(groups=1)


def small(**more):
    masks = [Suppress(), AVERAGE, Noise(variance=2.08) | AVERAGE, Noise(variance=0.5) | AVERAGE, Release()]
    arguments = {
        "masks": masks,
        "intruder": Value(np.array([7, 1.8, 2.0, 1.85, 0.0]), np.array([0, 0, 0.04, 0, 0])),
        "scientist": Value.exact([5, 0.1923, 0.377, 0.238, 0.1923]),
        "before": (7.0, 5.0),
        "provenance": Provenance("exact"),
        "attrs": {"seed": 1, "intruder": "I", "scientist": "S"},
    }
    return RUMap.build(**(arguments | more))


def test_table_has_the_schema():
    table = small(columns={"IO": [1, 2, 3, 4, 5.0]}).to_dataframe()
    assert list(table.columns) == [
        "release", "technique", "groups", "variance", "intruder_uncertainty", "scientist_uncertainty", "risk", "utility",
        "risk_error", "utility_error", "engine", "intruder_error", "scientist_error", "IO",
    ]  # fmt: skip
    assert isinstance(table.index, pd.RangeIndex)
    assert len(table) == 5
    row = table.loc[2]
    assert row["release"] == "Noise(variance=2.08) | Microaggregate(groups=1)"
    assert row["technique"] == "Noise | Microaggregate"
    assert (row["risk"], row["variance"], row["groups"]) == (0.5, 2.08, 1.0)
    assert row["risk_error"] == pytest.approx(0.04 / 4, rel=1e-14)
    assert np.isnan(table["variance"][0])
    assert table["risk"][4] == np.inf
    assert table["risk_error"].tolist() == [0, 0, 0.01, 0, 0]


def test_dataset_has_coordinates_and_attributes():
    data = small(columns={"rhat": np.ones(5)}).dataset
    assert data.sizes == {"release": 5}
    assert {"release", "technique", "variance", "groups"} == set(data.coords)
    wanted = {
        "intruder_uncertainty",
        "scientist_uncertainty",
        "intruder_error",
        "scientist_error",
        "risk",
        "utility",
        "risk_error",
        "utility_error",
        "engine",
        "rhat",
    }
    assert wanted == set(data.data_vars)
    assert data.attrs["seed"] == 1
    assert {
        "numpy",
        "scipy",
        "python",
        "ruvdecision",
        "risk_function",
        "utility_function",
        "intruder",
        "scientist",
    } <= set(data.attrs)
    assert "created" not in data.attrs
    assert float(data["risk"].sel(release="Suppress()")) == pytest.approx(1 / 7)


def test_text_parameters_and_clashing_names():
    @dataclass(frozen=True)
    class Own:
        risk: float
        mood: str = "calm"
        technique = "Own"

        def parameters(self):
            return {"risk": self.risk, "mood": self.mood, "level": self.risk if self.risk < 2 else "high", "IO": 1}

    rumap = RUMap.build(
        masks=[Own(1.0), Own(2.0), Suppress()], intruder=[1, 2, 3.0], scientist=[1, 2, 3.0], columns={"IO": [1, 2, 3]}
    )
    assert list(rumap.parameters) == ["mask_risk", "mood", "level", "mask_IO"]
    assert rumap.parameters["level"].tolist() == ["1", "high", ""]
    assert rumap[0].mask_risk == 1.0
    assert "level" not in rumap[2].parameters


def test_rows_by_position_label_and_iteration():
    rumap = small(columns={"IO": [1, 2, 3, 4, 5]})
    row = rumap["Suppress()"]
    assert (row.release, row.technique, row.mask, row.engine, row.position) == (
        "Suppress()",
        "Suppress",
        Suppress(),
        "exact",
        0,
    )
    assert row.risk == 1 / 7
    assert row.IO == 1
    assert dict(row.parameters) == {}
    assert rumap[-1].release == "Release()"
    assert rumap[np.int64(2)].variance == 2.08
    assert [r.release for r in rumap] == list(rumap.releases)
    assert [r.risk for r in rumap] == rumap.risk.tolist()
    assert len(rumap) == 5
    with pytest.raises(AttributeError, match="Did you mean 'utility'"):
        _ = row.utilty
    for bad, message in (
        (7, "between 0 and 4"),
        ("Supress()", r"Did you mean 'Suppress\(\)'"),
        (1.5, "whole number"),
        ([0, 0], "twice"),
        ([], "No release"),
        ([9], "between"),
        ([True], "5 entries"),
    ):
        with pytest.raises(InputError, match=message):
            rumap[bad]
    assert str(pickle.loads(pickle.dumps(row))) == str(row)


def test_smaller_maps():
    rumap = small(columns={"IO": [1, 2, 3, 4, 5]})
    assert rumap[1:3].releases == rumap.releases[1:3]
    assert rumap[[3, 0]].risk.tolist() == rumap.risk[[3, 0]].tolist()
    assert rumap[rumap.risk < 0.5].releases == ("Suppress()",)
    assert list(rumap[[0]].parameters) == []
    assert rumap.take(["Release()", "Suppress()"]).masks == (Release(), Suppress())
    noise = rumap.select("Noise | Microaggregate")
    assert noise.parameters["variance"].tolist() == [2.08, 0.5]
    assert rumap.select(variance=2.08).releases == noise.releases[:1]
    assert rumap.select(variance=[0.5, 2.08]).releases == noise.releases
    assert rumap.select(variance=lambda v: v < 1, technique=["Noise | Microaggregate"]).releases == noise.releases[1:]
    assert rumap.select(IO=3).releases == noise.releases[:1]
    assert rumap.select(risk=np.inf).releases == ("Release()",)
    for conditions, message in (
        ({"technique": "Nois"}, "technique"),
        ({"varianse": 1}, "Did you mean 'variance'"),
        ({"variance": 9}, "No release has this variance"),
        ({"variance": "x"}, "column of numbers"),
        ({"technique": "Suppress", "variance": 0.5}, "No release"),
    ):
        with pytest.raises(InputError, match=message):
            rumap.select(**conditions)


def test_risk_is_a_view_of_u():
    rumap = small()
    gain = rumap.with_risk("gain")
    assert gain.risk.tolist() == (7 - rumap.intruder_uncertainty).tolist()
    assert gain.risk_error[2] == pytest.approx(0.04, rel=1e-14)
    assert gain.utility.tolist() == rumap.utility.tolist()
    assert rumap.with_utility("relative_gain").utility[0] == 0
    assert gain.dataset.attrs["risk_function"] == "gain"
    assert gain.with_risk("reciprocal").risk.tolist() == rumap.risk.tolist()
    with pytest.raises(InputError, match="strictly decreasing"):
        rumap.with_utility(lambda u: u)
    with pytest.raises(ValueError, match="read-only"):
        rumap.risk[0] = 1


def test_columns_alone_make_a_map():
    columns = {"linkage": [0.9, 0.1], "linkage_error": [0.01, 0.02], "IO": [0.99, 0.4], "KL": [0.001, 2.0]}
    rumap = RUMap.build(labels=["a", "b"], columns=columns, risk="linkage", utility="IO")
    assert rumap.risk.tolist() == [0.9, 0.1]
    assert rumap.risk_error.tolist() == [0.01, 0.02]
    assert rumap.utility_error.tolist() == [0, 0]
    assert "intruder_uncertainty" not in rumap.to_dataframe()
    assert rumap.choose(0.5).release == "b"
    assert rumap.choose(0.9).release == "a"
    assert np.isnan(rumap[0].intruder_uncertainty)
    other = rumap.with_utility(Column("KL", "reciprocal"))
    assert other.utility == pytest.approx([1000, 0.5])
    assert rumap.techniques == ("a", "b")
    with pytest.raises(InputError, match="intruder"):
        rumap.with_risk("reciprocal")
    with pytest.raises(InputError, match="Did you mean 'linkage'"):
        rumap.with_risk("linkag")
    with pytest.raises(InputError, match="not there"):
        rumap.with_risk(Column("EO"))
    with pytest.raises(InputError, match="text"):
        RUMap.build(labels=["a"], columns={"x": ["y"], "z": [1]}, risk="x", utility="z")


def test_model_and_measure_on_one_map():
    rumap = small(columns={"IO": [0, 0.9, 0.8, 0.7, 1]}, utility="IO")
    assert rumap.choose(0.5).utility == 0.8
    assert rumap.utility_score == Column("IO")


def test_concatenation():
    whole = small()
    again = whole[:2] + whole[2:]
    assert again.to_dataframe()[list(whole.to_dataframe())].equals(whole.to_dataframe())
    assert RUMap.concat([whole[[0]], whole[[1, 2]], whole[[3, 4]]]).releases == whole.releases
    assert again.masks == whole.masks
    assert again.attrs["seed"] == 1
    mixed = RUMap.concat(
        [
            whole[[0]],
            small(
                masks=[Noise(sd=v) for v in (1, 2, 3, 4, 5)],
                attrs={"seed": 2, "intruder": "I", "scientist": "S"},
                columns={"IO": np.arange(5)},
            ),
        ]
    )
    assert mixed.attrs["seed"] == [1, 2]
    assert np.isnan(mixed.columns["IO"][0])
    assert mixed.parameters["sd"][1:].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(InputError, match="share releases"):
        whole + whole[[2]]
    with pytest.raises(InputError, match=r"with_risk"):
        whole[:2] + whole[2:].with_risk("gain")
    other = small(attrs={"intruder": "J", "scientist": "S"}, before=(9.0, 5.0))
    with pytest.raises(InputError, match="users"):
        whole[:2] + other[2:]
    for bad in ([], [1], [whole, "x"]):
        with pytest.raises(InputError, match="maps must"):
            RUMap.concat(bad)
    with pytest.raises(TypeError):
        whole + 1


def test_concatenation_of_different_users_by_name():
    ours, theirs = small(risk="gain"), small(attrs={"intruder": "J", "scientist": "S"}, before=(9.0, 5.0), risk="gain")
    both = RUMap.concat([ours, theirs], names=["record", "sample"])
    assert both.releases[0] == "record: Suppress()"
    assert both.techniques[5] == "sample: Suppress"
    assert both.risk[[0, 5]].tolist() == [0, 2]  # each against its own U0
    assert both.attrs["intruder"] == "record: I\nsample: J"
    assert both.select("record: Suppress").releases == ("record: Suppress()",)
    assert both.parameters["variance"][[2, 7]].tolist() == [2.08, 2.08]
    for bad in (["a"], ["a", "a"], "ab"):
        with pytest.raises(InputError, match="one name per map"):
            RUMap.concat([ours, theirs], names=bad)


def test_duplicates_are_refused_but_not_mere_namesakes():
    with pytest.raises(InputError, match=r"twice; got Suppress\(\)"):
        RUMap.build(masks=[Suppress(), Release(), Suppress()], intruder=[1, 2, 1.0], scientist=[1, 2, 1.0])
    masks = [Noise(variance=1 + i / 7) for i in range(300)]
    u = 1 + np.arange(300.0)
    with pytest.raises(InputError, match=r"Noise\(variance=1\)"):
        RUMap.build(masks=[*masks, Noise(variance=1.0)], intruder=np.append(u, 1), scientist=np.append(u, 1))
    # A sampled map has no exact ties, and is searched all the same.
    with pytest.raises(InputError, match="twice"):
        RUMap.build(
            masks=[*masks, Noise(variance=1.0)],
            intruder=Value(np.append(u, 9.5), np.ones(301)),
            scientist=Value(np.append(u, 9), np.ones(301)),
        )
    near = RUMap.build(masks=[Noise(variance=2.0), Noise(variance=2.0 + 1e-13)], intruder=[1, 1.1], scientist=[1, 1.1])
    assert near.releases == ("Noise(variance=2)", "Noise(variance=2) #2")
    with pytest.raises(InputError, match="own label"):
        RUMap.build(labels=["a", "a"], intruder=[1, 2.0], scientist=[1, 2.0])
    with pytest.raises(InputError, match="twice"):
        RUMap.build(
            masks=[Noise(covariance=np.eye(2)), Noise(covariance=np.eye(2))], intruder=[1, 1.0], scientist=[1, 1.0]
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masks": []}, "one entry per release|at least one"),
        ({"masks": None}, "masks or labels"),
        ({"labels": ["a"]}, "one entry per release"),
        ({"intruder": [1.0]}, "one entry per release"),
        ({"intruder": [[1.0]]}, "flat"),
        ({"intruder": ["x"] * 5}, "numbers"),
        ({"intruder": Value(np.ones(5), -np.ones(5))}, "negative error"),
        ({"intruder": Value(np.ones(5), np.ones(4))}, "one error per release"),
        ({"before": 3}, "pair"),
        ({"before": ([1.0, 2.0], 3.0)}, "U0 of the intruder"),
        ({"provenance": Provenance(["exact"])}, "one entry per release"),
        ({"columns": {"risk": np.ones(5)}}, "uses already"),
        ({"columns": {"": np.ones(5)}}, "named by text"),
        ({"columns": {3: np.ones(5)}}, "named by text"),
        ({"columns": {"a": np.ones(4)}}, "one entry per release"),
        ({"columns": {"a": np.ones((5, 2))}}, "flat"),
        ({"columns": {"a": np.ones(5) * 1j}}, "numbers or text"),
        ({"labels": Labels(parameters={"release": np.ones(5)})}, "uses already"),
        ({"columns": {"a": np.ones(5)}, "labels": Labels(parameters={"a": np.ones(5)})}, "uses already"),
        ({"risk": "nothing"}, "must be one of"),
        ({"labels": Labels(technique=["a"])}, "one entry per release"),
        ({"intruder": None}, "needs the intruder"),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(InputError, match=message):
        small(**changes)


def test_an_empty_map_is_refused():
    with pytest.raises(InputError, match="at least one release"):
        RUMap.build(masks=[], intruder=[], scientist=[])


def test_missing_uncertainty_stays_missing():
    rumap = RUMap.build(
        labels=["a", "b"], intruder=[np.nan, 2.0], scientist=[1.0, np.inf], columns={"converged": [None, False]}
    )
    assert np.isnan(rumap.risk[0])
    assert rumap.utility.tolist() == [1.0, 0.0]
    assert rumap.converged.tolist() == [True, False]
    assert "1 release with a U that is not finite" in repr(rumap)
    late = RUMap.build(
        labels=["a", "b"], intruder=[1.0, 2.0], scientist=[1.0, 3.0], columns={"converged": [True, False]}
    )
    assert "did not converge" in repr(late)
    hopeless = RUMap.build(labels=["a"], intruder=[np.nan], scientist=[1.0])
    assert "no release has both" in repr(hopeless)


# -- storing -------------------------------------------------------------------------------------------


def test_saved_maps_come_back(tmp_path):
    masks = [
        Suppress(columns=["a", "b"], rows=[0, 3]), Noise(variance=[1.0, np.inf]), Noise(covariance=[[2, 1], [1, 3]], common=True),
        Noise(sd=np.inf) | Shuffle() | Microaggregate(groups=["x", "y", "x"]), Subsample(share=0.5),
    ]  # fmt: skip
    columns = {
        "a/b": [1.5, np.nan, np.inf, -np.inf, 0],
        "converged": [True, False, True, True, True],
        "before": list("vwxyz"),
        "é ß": np.arange(5),
        "note": ["", "ü", "<b>", "x", "y"],
    }
    rumap = small(
        masks=masks, columns=columns, attrs={"seed": 2**100, "none": None, "list": [1, "a", np.nan], "intruder": "I"}
    )
    path = rumap.save(tmp_path / "map.nc")
    back = RUMap.load(path)
    xr.testing.assert_identical(back.dataset.drop_attrs(), rumap.dataset.drop_attrs())
    assert repr(dict(back.attrs)) == repr(dict(rumap.attrs))
    assert back.masks == rumap.masks
    assert back.to_dataframe().equals(rumap.to_dataframe())
    assert back.before[0].tolist() == rumap.before[0].tolist()
    assert back.with_risk("gain").risk.tolist() == rumap.with_risk("gain").risk.tolist()
    assert back.converged.dtype == bool
    # The same map gives the same bytes, also after a round trip; nothing else is left in the directory.
    back.save(tmp_path / "again.nc")
    assert (tmp_path / "again.nc").read_bytes() == path.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.nc", "map.nc"]
    with pytest.raises(InputError, match="exists already"):
        rumap.save(path, created=True)
    assert "created" not in RUMap.load(path).attrs
    rumap.save(path, created=True, overwrite=True)
    assert "created" in RUMap.load(path).attrs


def test_scores_come_back(tmp_path):
    rumap = small(columns={"KL": [1, 2, 3, 4, 5.0]})
    for score in (
        "gain",
        "relative_gain",
        lambda u: 1 / (1 + u),
        "KL",
        Column("KL", "negative_log"),
        Column("KL", lambda v: -v),
    ):
        scored = rumap.with_risk(score)
        back = RUMap.load(scored.save(tmp_path / "map.nc", overwrite=True))
        np.testing.assert_array_equal(back.risk, scored.risk)
        np.testing.assert_allclose(back.risk_error, scored.risk_error, rtol=1e-14)
        assert back.risk_score.name == scored.risk_score.name
        assert back.frontier().releases == scored.frontier().releases
        assert back[[1, 2]].risk.tolist() == scored.risk[[1, 2]].tolist()
    columns_only = RUMap.build(labels=["a"], columns={"linkage": [0.3], "IO": [1]}, risk="linkage", utility="IO")
    back = RUMap.load(columns_only.save(tmp_path / "map.nc", overwrite=True))
    assert (back.risk.tolist(), back.masks, back.intruder) == ([0.3], None, None)


@dataclass(frozen=True, repr=False)
class Mine(Mask):
    level: float = 1.0


def test_foreign_masks_come_back_as_none_with_a_note(tmp_path):
    rumap = RUMap.build(
        masks=[Mine(2.0), Suppress(), Suppress(columns=[object()])], intruder=[1, 2, 3.0], scientist=[1, 2, 3.0]
    )
    back = RUMap.load(rumap.save(tmp_path / "m.nc"))
    assert back.masks == (None, Suppress(), None)
    assert back.releases[0] == "Mine(level=2)"
    assert back.techniques[0] == "Mine"
    assert back[0].level == 2.0
    assert any("Mine(level=2) was not stored" in n for n in back.notes)
    assert "not stored" in repr(back)
    assert "its mask is not stored" in str(back.choose(1.0))


def test_a_class_that_shares_a_name_is_foreign():
    other = type("Suppress", (Mine,), {})
    with pytest.raises(TypeError, match="cannot be stored"):
        encode(other(3.0))
    for name in ("Mine", "os", "frame", "Frame", "__builtins__"):
        with pytest.raises(LookupError):
            decode({"mask": name, "settings": []})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=60)
@given(json_values)
def test_settings_survive_as_text(value):
    again = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    assert again == value
    assert repr(again) == repr(value)


def test_arrays_survive_as_text():
    for array in (
        np.array([[1.0, np.inf], [np.nan, -0.0]]),
        np.arange(3, dtype=np.int8),
        np.zeros((0, 2)),
        np.array(["a", "bc"]),
        np.array([True, False]),
        np.array(3.5),
    ):
        again = decode(json.loads(json.dumps(encode(array), allow_nan=False)))
        np.testing.assert_array_equal(again, array)
        assert (again.dtype, again.shape) == (array.dtype, array.shape)


def test_files_that_are_not_ours(tmp_path):
    with pytest.raises(InputError, match="no such map file"):
        RUMap.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(InputError, match="not a map"):
        RUMap.load(tmp_path / "text.nc")
    (tmp_path / "empty.nc").write_bytes(b"")
    with pytest.raises(InputError, match="not a map"):
        RUMap.load(tmp_path / "empty.nc")
    xr.Dataset({"x": ("y", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(InputError, match="not a map of ruvdecision"):
        RUMap.load(tmp_path / "other.nc")
    path = small().save(tmp_path / "map.nc")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a map"):
        RUMap.load(path)
    xr.Dataset(attrs={"ruvdecision_map": '{"format": 99}'}).to_netcdf(tmp_path / "new.nc", engine="h5netcdf")
    with pytest.raises(UnsupportedError, match="newer version"):
        RUMap.load(tmp_path / "new.nc")
    for broken in ("{}", "not json", "[1]"):
        xr.Dataset(attrs={"ruvdecision_map": broken}).to_netcdf(tmp_path / "bad.nc", engine="h5netcdf")
        with pytest.raises(InputError, match="damaged"):
            RUMap.load(tmp_path / "bad.nc")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = small().save(tmp_path / "map.nc")
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RuvError, match="could not be written; got No space left"):
        small(provenance=Provenance(engine="other")).save(path, overwrite=True)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["map.nc"]
    with pytest.raises(InputError, match="directory"):
        small().save(tmp_path / "nowhere" / "map.nc")
    with pytest.raises(InputError, match="directory"):
        small().save(tmp_path)


# -- showing -------------------------------------------------------------------------------------------


def test_repr_is_short_and_says_what_matters():
    text = repr(small())
    assert text.splitlines()[0] == "RUMap: 5 releases of 4 techniques (exact)"
    assert "risk 0.1429 to ∞: 1 / expected loss of the intruder" in text
    assert "frontier: 4 releases" in text
    assert "Noise(variance=2.08) | Microaggregate(groups=1)" in text
    many = RUMap.build(
        labels=[f"r{i}" for i in range(500)], intruder=np.arange(1.0, 501), scientist=np.arange(1.0, 501)
    )
    assert len(repr(many).splitlines()) == 13
    assert "r0 " in repr(many)
    assert "r499 " in repr(many)


def test_repr_shows_the_errors_and_one_number_where_all_are_equal():
    """1/U of U = 4 with error .2 has the error .2 / 16, by the slope of 1/U."""
    users = {"intruder": Value([4.0, 2.0], [0.2, np.nan]), "scientist": Value([0.5, 0.25], [0.0, 0.0])}
    rumap = RUMap.build(labels=["a", "b"], **users)
    lines = repr(rumap).splitlines()
    assert [line.split() for line in lines[-2:]] == [
        ["a", "0.25", "±", "0.013", "2"],
        ["b", "0.5", "±", "unknown", "4"],
    ]
    assert "  utility 2: 1 / expected loss of the scientist" in repr(rumap[["a"]]).splitlines()
    assert "0.25 ± 0.013" in rumap._repr_html_()
    assert str(rumap[0]) == "a: risk 0.25 ± 0.013, utility 2"


def test_html_is_escaped():
    rumap = RUMap.build(
        labels=["<script>alert(1)</script>"],
        intruder=[1.0],
        scientist=[2.0],
        provenance=Provenance(engine="<i>", notes=["a <b> note"]),
    )
    page = rumap._repr_html_()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<tr>") == 2


def test_a_name_cannot_command_a_terminal():
    """A map from elsewhere is printed before anybody has read its names."""
    odd = "\x1b]0;title\x07\x1b[2Ja\u202e"
    rumap = RUMap.build(
        labels=[odd, "b"], intruder=[1.0, 2.0], scientist=[2.0, 3.0], provenance=Provenance(engine=odd, notes=[odd])
    )
    for text in (str(rumap), rumap._repr_html_(), str(rumap[0]), repr(rumap[0]), str(rumap.choose(max_risk=2.0))):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert "[2Ja" in text


def test_maps_travel_between_processes():
    rumap = small(columns={"IO": np.arange(5)})
    back = pickle.loads(pickle.dumps(rumap))
    assert back.to_dataframe().equals(rumap.to_dataframe())
    assert back.masks == rumap.masks
    with pytest.raises(AttributeError):
        rumap.size = 3


def test_labels_are_made_when_they_are_looked_at():
    class Counting(Noise):
        shown = 0

        def __str__(self):
            Counting.shown += 1
            return super().__str__()

    masks = [Counting(variance=float(v)) for v in range(1, 201)]
    rumap = RUMap.build(masks=masks, intruder=np.arange(1.0, 201), scientist=np.arange(1.0, 201))
    assert rumap.risk[1] == 0.5
    assert Counting.shown == 0
    assert rumap.releases[0].endswith("(variance=1)")
    assert rumap.releases[199].endswith("(variance=200)")
    assert Counting.shown == 200
