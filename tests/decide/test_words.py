"""Numbers in sentences that a board can read."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import places
import pytest

import ruvdecision as ruv


def two(intruder, **options):
    return ruv.RUMap.build(labels=["a", "b"], intruder=intruder, scientist=[0.5, 0.25], **options)


@pytest.mark.parametrize(
    ("score", "intruder", "said"),
    [
        ("negative", [0.02, 0.5], "−0.02 → −0.5"),  # percentages of negative numbers mean nothing
        ("reciprocal", [1.0, 1.1], "%"),
        ("reciprocal", [0.001, 1.1], "1000 → 0.9091"),
    ],
)
def test_a_change_is_a_percentage_only_where_that_means_something(score, intruder, said):
    text = str(two(intruder, risk=score).explain("a"))
    assert said in text and ("%" in text.split("utility")[0]) == (said == "%")


def test_a_far_miss_is_told_as_a_factor():
    with pytest.raises(ruv.InfeasibleError) as caught:
        two([0.0125, 0.0125]).choose(max_risk=5)
    assert "16 times the threshold" in str(caught.value) and "e+0" not in str(caught.value)
    with pytest.raises(ruv.InfeasibleError, match=r"4 %"):
        two([1 / 5.2, 1 / 5.2]).choose(max_risk=5)


def test_no_sampler_is_said_to_have_converged_where_there_was_none(tmp_path):
    page = two([2.0, 1.0]).report(tmp_path / "a.md").read_text()
    assert "every sampler converged" not in page
    page = two([2.0, 1.0], columns={"converged": [True, True]}).report(tmp_path / "b.md").read_text()
    assert "every sampler converged" in page


def test_a_risk_below_zero_is_explained():
    rumap = two([8.0, 9.0], risk="gain", before=(7.0, 2.0))
    assert any("Risk is below zero: after the release the intruder's" in line for line in rumap.choose(0.5).meaning)
    assert not any("below zero" in line for line in two([2.0, 1.0]).choose(5).meaning)


def test_a_release_that_tells_nothing_says_so():
    rumap = ruv.RUMap.build(labels=["Suppress()", "b"], intruder=[7.0, 1.0], scientist=[5.0, 0.5], before=(7.0, 5.0))
    assert rumap.choose(0.2).worthless.startswith("it tells the scientist almost nothing: 100 %")
    assert rumap.choose(2).worthless == ""
    with pytest.raises(ruv.InfeasibleError, match="nothing releases less than Suppress"):
        rumap.choose(0.1)
    with pytest.raises(ruv.InfeasibleError, match="nearest miss, with utility 0"):
        rumap.choose(0.2, min_utility=1.0)
    assert rumap.choose(2, min_utility=1.0).release == "b"


def test_units_of_the_data_reach_the_choice():
    belief = ruv.NormalBelief(records=4, variance=9, prior_variance=16, columns=["income"])
    data = pd.DataFrame({"income": [1.0, 2.0, 3.0, 4.0]})
    data.attrs["units"] = {"income": "$"}
    users = {"intruder": ruv.User(belief, ruv.Record(0), ruv.Quadratic())}
    users["scientist"] = ruv.User(belief, ruv.Parameter("mu"), ruv.Quadratic())
    rumap = ruv.evaluate([ruv.Suppress()], data=data, **users)
    assert rumap.choose(1).meaning[0] == (
        "The intruder's estimate is typically off by $5, 100 % of the $5 before any release."
    )
    data.attrs["units"] = {}
    assert "off by 5, " in ruv.evaluate([ruv.Suppress()], data=data, **users).choose(1).meaning[0]


def test_identity_is_told_in_records():
    rumap = ruv.RUMap.build(
        labels=["a"],
        intruder=[0.75],
        scientist=[1.0],
        attrs={"find_rows": ["intruder"], "file_records": 40},
    )
    assert rumap.choose(5).meaning[0].startswith("The intruder finds the right row for 10 of 40 records")


def test_a_tornado_does_not_say_no_change_where_the_choice_changes():
    def study(u=2.0):
        return ruv.RUMap.build(labels=["a", "b"], intruder=[u, 1.0], scientist=[0.5, 0.25])

    moved = ruv.sensitivity(study, vary={"max_risk": [0.6, 1.5]}, max_risk=0.6)
    texts = [t.get_text() for t in moved.plot().texts]
    assert texts == ["the same, but another choice at 1.5"]
    plt.close("all")


def test_the_command_line_takes_a_floor(capsys):
    from ruvdecision.cli import main

    study = str(places.ROOT / "models" / "trottini_fienberg_normal.py")
    assert main(["run", study, "--max-risk", "0.5", "--min-utility", "3", "--quiet"]) == 2
    assert "No allowed release has utility of at least 3" in capsys.readouterr().err
