"""Numbers in sentences that a board can read."""

from __future__ import annotations

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
