"""Several users of the same releases: a choice is among releases, never among users."""

from __future__ import annotations

import numpy as np
import pytest

import ruvdecision as ruv
from ruvdecision.scenarios import Curve, map_curves

GRID = np.linspace(0, 1.5, 31)


def looked_at(intruder, who, labels=("x", "y"), scientist=(0.5, 0.25), **options):
    attrs = {"intruder": who}
    return ruv.RUMap.build(labels=list(labels), intruder=intruder, scientist=list(scientist), attrs=attrs, **options)


def both(a, b):
    return ruv.RUMap.concat([a, b], names=["weak", "strong"])


def curves():
    return [Curve(n=200, knowledge="record"), Curve(n=200, knowledge="population")]


def test_the_weakest_snooper_is_not_recommended():
    rumap = map_curves(curves(), GRID)
    choice = rumap.choose(max_risk=5)
    worst = np.maximum(*(c.risk(GRID) for c in curves()))
    least = np.flatnonzero(worst <= 5)[0]
    assert choice.release == f"Noise(variance={GRID[least]:g})"
    assert choice.risk == pytest.approx(worst[least], rel=1e-12)
    assert choice.worst_user == "record knowledge, paper"
    assert "the worst user, record knowledge, paper" in str(choice)


def test_worst_is_the_largest_risk_and_the_least_utility():
    a, b = looked_at([2.0, 1.0], "A"), looked_at([4.0, 0.5], "B", scientist=(0.4, 0.5))
    worst = both(a, b).worst()
    assert worst.releases == ("x", "y")
    np.testing.assert_allclose(worst.risk, [0.5, 2.0])
    np.testing.assert_allclose(worst.utility, [2.0, 2.0])
    assert list(worst.columns["worst_user"]) == ["weak", "strong"]
    assert worst.worst() is worst
    assert a.worst() is a


def test_a_risk_that_is_not_known_may_be_the_worst():
    worst = both(looked_at([2.0, np.nan], "A"), looked_at([4.0, 0.5], "B")).worst()
    assert np.isnan(worst.risk[1])
    assert worst.choose(max_risk=10).release == "x"


def test_only_releases_that_all_have_looked_at():
    a, b = looked_at([2.0, 1.0], "A"), looked_at([4.0, 0.5], "B", labels=("y", "z"))
    worst = both(a, b).worst()
    assert worst.releases == ("y",)
    assert any("2 releases" in note for note in worst.notes)
    with pytest.raises(ruv.InputError, match="no worst case"):
        both(a, looked_at([1.0, 2.0], "B", labels=("p", "q"))).choose(max_risk=1)


def test_each_user_has_a_frontier():
    rumap = map_curves(curves(), GRID)
    found = rumap.frontier()
    for name in rumap.user_names:
        alone = rumap.select(user=name).frontier()
        assert found.select(user=name).releases == alone.releases
    assert set(rumap.worst().frontier().releases) <= {f"Noise(variance={v:g})" for v in GRID}


def test_the_dataset_has_a_dimension_of_users():
    rumap = map_curves(curves(), GRID)
    data = rumap.dataset
    assert dict(data.sizes) == {"user": 2, "release": GRID.size}
    assert list(data["user"].values) == list(rumap.user_names)
    assert data["variance"].dims == ("release",)
    np.testing.assert_allclose(data["variance"], GRID)
    for name, curve in zip(rumap.user_names, curves(), strict=True):
        np.testing.assert_allclose(data["risk"].sel(user=name), curve.risk(GRID))


def test_users_survive_a_file(tmp_path):
    rumap = map_curves(curves(), GRID[1:])
    back = ruv.RUMap.load(rumap.save(tmp_path / "map.nc"))
    assert back.user_names == rumap.user_names
    assert back.choose(max_risk=5).release == rumap.choose(max_risk=5).release
    assert back.dataset.sizes == rumap.dataset.sizes


def test_names_of_releases_are_not_names_of_users():
    a, b = looked_at([2.0, 1.0], "A"), looked_at([4.0, 0.5], "A")
    rumap = both(a, b)
    assert rumap.user_names == ()
    assert rumap.choose(max_risk=0.3).release == "strong: x"


def test_names_of_users_of_several_users():
    inner = both(looked_at([2.0, 1.0], "A"), looked_at([4.0, 0.5], "B"))
    rumap = ruv.RUMap.concat([inner, looked_at([3.0, 3.0], "C")], names=["first", "second"])
    assert rumap.user_names == ("first: weak", "first: strong", "second")
    assert rumap.released == ("x", "y") * 3


def test_who_dominates_and_how_probably_is_of_the_worst_case():
    rumap = both(looked_at([2.0, 1.0], "A"), looked_at([1.0, 0.9], "B", scientist=(0.2, 0.25)))
    table = rumap.probabilities(max_risk=0.5)
    assert list(table["release"]) == ["x", "y"]
    assert not rumap.explain("x").dominated
    assert list(rumap.dominated()["release"]) == []


def test_nothing_releases_less_than_nothing():
    belief = ruv.NormalBelief(records=3, variance=2, prior_mean=0, prior_variance=5)
    user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
    rumap = ruv.evaluate([ruv.Suppress(), ruv.Noise(variance=1)], intruder=user, scientist=user)
    with pytest.raises(ruv.InfeasibleError, match="nothing releases less"):
        rumap.choose(max_risk=0.01)


def test_the_picture_stars_the_release_of_the_worst_case():
    rumap = map_curves(curves(), GRID[1:])
    ax = rumap.plot(max_risk=5)
    choice = rumap.choose(max_risk=5)
    star = next(line for line in ax.get_lines() if line.get_label() == "chosen release")
    assert star.get_xydata()[0] == pytest.approx([choice.utility, choice.risk])
