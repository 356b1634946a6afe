"""The two studies of Duncan, Keller-McNulty and Stokes: the paper's numbers, and which of its claims hold."""

from __future__ import annotations

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import places
import pytest
from numpy.testing import assert_allclose

from ruvdecision.engines.rules import clipped_noise as exact
from ruvdecision.errors import InputError
from ruvdecision.studies import load_study

ROOT = places.ROOT
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="module")
def noise():
    found = load_study(ROOT / "models" / "duncan_additive_noise.py")
    return found, found.function(points=31)


@pytest.fixture(scope="module")
def income():
    found = load_study(ROOT / "models" / "duncan_teacher_income.py")
    return found, found.function(points=8)


@pytest.fixture(scope="module")
def sample(income):
    return income[0].function.__globals__["incomes"]()


# -- additive noise ----------------------------------------------------------------------------------------------------


def test_figures_two_to_four(noise):
    _, maps = noise
    assert list(maps) == ["figure 2", "figure 3", "figure 4"]
    assert [len(m) for m in maps.values()] == [2 * 3 * 31, 3 * 3 * 31, 4 * 3 * 31]
    reference = _reference()
    last = maps["figure 4"].select(method="paper", variance=0.2)
    assert_allclose(last.utility, 1000 / 6, rtol=1e-12)
    for text, inputs, target, state in [
        ("DKS (2) risk, population target", "l2=0.0", "typical", "population"),
        ("DKS (8) risk p=.99", "l2=0.0", "percentile", "population"),
    ]:
        told = next(
            r["value"] for r in reference if r["name"] == text and inputs in r["inputs"] and "n=200" in r["inputs"]
        )
        row = maps["figure 4"].select(method="paper", variance=0.0, target=target, knowledge=state)
        assert row.risk[0] == pytest.approx(told, abs=1e-8)


def test_notes_tell_the_numbers(noise):
    study, maps = noise
    lines = "\n".join(study.notes_function(maps))
    for words in [
        "noise variance 0.2, utility 166.667. Paper: .21 and 165",
        "risk 4.7619, utility 165.2893",
        "variance 0.25 (utility 160) with the mean known",
        "variance 0.2496106",
        "risk 0.9950 without any noise",
        "1.01005025 = (n+1)/(n-1) s2",
        "other way up, 0.9900",
        "14.3502, 7.2234, 0.9364",
        "15.1657, 11.8216, 1.2534",
        "200.0000, 165.2893, 100.0000",
        "0.0849847837, 0.886630414",
        "0.964533778",
        "K_n1 = 2.787697 and K_n2 = 0.155232",
        "2.746042 and 0.160724",
        "3.76587",
        "4.96462",
        "0.257314244",
    ]:
        assert words in lines, words
    bayes = float(re.search(r"Bayes: risk [\d.]+, ([\d.]+),", lines.split("Figure 4")[1])[1])
    assert 1 / bayes == pytest.approx(0.0883, abs=2 * 0.0002)  # maximum, n=200, l2=.21: .0883 with s.e. .0002


def test_other_settings_compare_nothing(noise):
    study, _ = noise
    lines = list(study.notes_function(study.function(n=50, variance=0.1, points=3)))
    assert "differ" in lines[0] and not any("Paper: .21" in line for line in lines)
    assert any("no noise is enough" in line for line in lines)  # a known mean leaves at most the population variance


def test_figure_of_the_scenarios(noise):
    study, maps = noise
    figure = study.figure_function(maps)
    axes = figure.axes
    assert len(axes) == 9 and all(ax.get_yscale() == "log" for ax in axes)
    assert [ax.get_title() for ax in axes[:3]] == [
        "Figure 2, as printed",
        "Figure 2, exact error of the same rules",
        "Figure 2, Bayes' rule, flat prior",
    ]
    assert len({ax.get_ylim() for ax in axes[:3]}) == 1
    plt.close(figure)


# -- incomes -----------------------------------------------------------------------------------------------------------


def test_the_sample_has_every_figure_of_table_one(sample):
    assert len(sample) == 177 and np.all(np.diff(sample) >= 0)
    assert sample.mean() == pytest.approx(20_100, abs=1e-4) and sample.std(ddof=1) == pytest.approx(13_300, abs=1e-4)
    assert_allclose(sample[[0, 1, 17, 159, 175, 176]], [2_000, 2_000, 7_200, 35_000, 70_000, 95_200], rtol=1e-12)


def test_the_sample_is_the_shared_one_up_to_its_rounding(sample):
    path = SHARED / "data" / "teacher_income_177.csv"
    if not path.exists():
        pytest.skip("shared/data/teacher_income_177.csv is not beside the project")
    assert_allclose(sample, np.loadtxt(path, skiprows=1), rtol=5e-4)


def test_the_sample_is_the_same_every_time_and_for_other_sizes(income, sample):
    make = income[0].function.__globals__["incomes"]
    np.testing.assert_array_equal(make(), sample)
    other = make(200)
    assert (
        len(other) == 200
        and other.mean() == pytest.approx(20_100, abs=1e-4)
        and other.std(ddof=1) == pytest.approx(13_300, abs=1e-4)
    )
    with pytest.raises(InputError, match="below n"):
        make(77)
    with pytest.raises(InputError, match="No curve of this kind"):
        make(101)


def test_maps_of_figures_five_to_seven(income):
    _, maps = income
    assert list(maps) == ["figure 5", "figure 6", "figure 7", "all targets"]
    for name in ("figure 5", "figure 6", "figure 7"):
        drawn, told = (maps[name].select(method=m) for m in ("simulate", "exact"))
        assert np.all(drawn.utility_error > 0) and not told.risk_error.any()
        gap = np.abs(drawn.intruder_uncertainty - told.intruder_uncertainty)
        assert np.all(gap < 4 * drawn.intruder.error + 1e-3 * told.intruder_uncertainty)
    assert np.all(maps["figure 5"].select(target="minimum").risk > 2.4e-7)
    position, index = (maps["figure 6"].select(knowledge=k, method="exact").risk for k in ("position", "index"))
    assert np.all(position > index)


def test_notes_say_which_claims_hold(income):
    study, maps = income
    lines = list(study.notes_function(maps))
    text = "\n".join(lines)
    for words in [
        "n = 176.9", "4.35e-07", "about 177", "risk 4.711e-08", "0.14138 S2", "probability 0.043", "0.1337 S2", "4.229e-08",
        "8.93e-07 and 89.3%", "90.3% with S_x2, 88.7% at the exact need", "0.26354 S2", "9.171e-07 against 8.577e-07",
        "62.4% against 64.3%"
    ]:  # fmt: skip
        assert words in text, words
    verdicts = [line for line in lines if "rank gives away more" in line]
    assert len(verdicts) == 6 and all(": true" in line for line in verdicts)
    false = [line for line in lines if ": false" in line]
    assert [line.split(":")[0] for line in false] == [
        "Claim, .12 S2 meets 4E-08 for the maximum",
        "  With .12 of the released variance S_y2, as printed, lambda2 is 0.1337 S2 and the risk 4.229e-08",
        "Claim, unequal variance keeps more utility, 90% target",
    ]


def test_the_least_noise_is_the_least(income, sample):
    needed = income[0].function.__globals__["needed"]
    for rank, unequal in ((177, False), (176, True)):
        v = needed(sample, rank, unequal=unequal)
        spread = (
            exact.noise_variances_by_threshold(sample, [v, 0.99 * v], 35_000) if unequal else np.array([v, 0.99 * v])
        )
        risk = 1 / exact.ranked_record_mse(sample, spread, rank)
        assert risk[0] == pytest.approx(4e-8, rel=1e-8) and risk[1] > 4e-8


def test_figure_of_the_incomes(income):
    study, maps = income
    figure = study.figure_function(maps, max_risk=4e-8)
    assert len(figure.axes) == 3 and all(ax.get_yscale() == "log" for ax in figure.axes)
    words = [t.get_text() for t in figure.axes[2].texts]
    assert {"equal variance", "unequal variance"} <= set(words)
    plt.close(figure)


def _reference():
    return json.loads((places.REFERENCE / "trottini_fienberg_duncan.json").read_text(encoding="utf-8"))
