"""What an axis shows: the region of decision, logarithms for ratio scales only, shares from 0 to 1."""

from __future__ import annotations

import numpy as np
import pytest

import ruvdecision as ruv
from ruvdecision.analyses.record_risk import RecordRisk
from ruvdecision.maps.scores import Column, as_score
from ruvdecision.plots.axes import window


def test_a_wide_ratio_scale_is_logarithmic():
    found = window("y", np.geomspace(0.1, 100, 30), [0.5, 0.1, 100], score=as_score("reciprocal"))
    assert found.log
    assert found.low < 0.1 and 100 < found.high < 1000


@pytest.mark.parametrize("score", ["gain", "relative_gain", "negative_log", "negative"])
def test_scales_without_ratios_are_linear(score):
    assert not window("y", np.geomspace(0.001, 1, 30), score=as_score(score)).log


def test_rounding_is_zero():
    assert not window("x", [7.8e-16, 0.2, 0.4], score=as_score("reciprocal")).log


def test_a_long_tail_does_not_make_the_axis():
    values = [1e-123, 1e-60, 0.5, 3.0, 40.0, 1e5]
    found = window("x", values, [0.5, 3.0, 40.0])
    assert found.log
    assert 1e-4 < found.low < 0.5 and 40 < found.high < 1e5
    assert found.outside(np.array(values)).tolist() == [True, True, False, False, False, True]


def test_a_share_keeps_its_ends():
    found = window("y", [0.3, 0.8], score=Column("linkage"))
    assert found.low < 0 < 0.1 and 1 < found.high < 1.1 and not found.log


def test_the_region_of_decision_is_not_pressed_into_a_corner():
    found = window("y", [0.0, 1.0, 2.0, 1000.0], [0.0, 1.0, 2.0])
    assert not found.log
    assert found.high < 10
    everything = window("y", [0.0, 1.0, 2.0, 10.0], [0.0, 1.0, 2.0])
    assert everything.high > 10


def test_a_logarithm_of_zero_is_refused():
    with pytest.raises(ruv.InputError, match="positive"):
        window("x", [0.0, 1.0], log="x")


def test_nothing_finite():
    assert window("x", [np.inf, np.nan]) == window("x", [])


def flagship():
    belief = ruv.NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    intruder, scientist = (ruv.User(belief, t, ruv.Quadratic()) for t in (ruv.Record(0), ruv.Parameter("mu")))
    noise = [ruv.Noise(variance=float(v)) for v in np.geomspace(0.01, 50, 20)]
    return ruv.evaluate([ruv.Suppress(), *noise], intruder=intruder, scientist=scientist)


def test_the_flagship_shows_where_the_decision_is():
    ax = flagship().plot(max_risk=0.5)
    assert ax.get_yscale() == "log"
    low, high = ax.get_ylim()
    # The threshold is not at the foot of the picture.
    assert 0.1 < (np.log(0.5) - np.log(low)) / (np.log(high) - np.log(low)) < 0.9


def test_how_many_lie_outside_is_said():
    rumap = ruv.RUMap.build(labels=list("abcd"), intruder=[1e9, 1.0, 0.5, 1e-9], scientist=[1.0, 0.5, 0.4, 0.6])
    ax = rumap.plot(max_risk=1.5)
    texts = [t.get_text() for t in ax.get_legend().get_texts()]
    away = [t for t in texts if t.startswith("outside the picture")]
    low, high = ax.get_ylim()
    count = int(np.sum((rumap.risk < low) | (rumap.risk > high)))
    assert count > 0 and away == [f"outside the picture: {count} of 4"]


def risks(values):
    """The risks of records, as given."""
    u = 1 / np.array([values])
    rows, error = np.arange(u.size), np.zeros(u.shape)
    masks = (ruv.Noise(variance=1.0),)
    return RecordRisk(masks, rows, u, error, np.full(u.shape, np.nan), as_score("reciprocal"), None, ("exact",), "")


def test_few_distinct_risks_are_drawn_where_they_are():
    found = risks([0.538] * 10 + [0.2] * 5)
    ax = ruv.plots.record_risk(found, 0, max_risk=0.6)
    assert not ax.patches
    drawn = np.concatenate([line.get_xydata() for line in ax.get_lines() if line.get_marker() == "o"])
    np.testing.assert_allclose(drawn, [[0.2, 5], [0.538, 10]])


def test_no_bar_holds_records_on_both_sides_of_the_threshold():
    values = np.linspace(0.1, 1.0, 200)
    found = risks(values)
    ax = ruv.plots.record_risk(found, 0, max_risk=0.6)
    bars = [(p.get_x(), p.get_x() + p.get_width(), p.get_height()) for p in ax.patches]
    assert not [b for b in bars if b[0] < 0.6 - 1e-9 and b[1] > 0.6 + 1e-9]
    below = sum(height for _, right, height in bars if right <= 0.6 + 1e-9)
    assert below == np.sum(values <= 0.6)
