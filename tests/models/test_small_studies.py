"""Studies of single statements of the papers, at small size: what they claim holds, and their notes say it."""

from __future__ import annotations

import numpy as np
import places
import pytest

from ruvdecision.studies import load_study


def run(name, **settings):
    return load_study(places.ROOT / "models" / f"{name}.py").run(**settings)


def test_the_insurance_company_learns_less_about_one_than_about_all():
    outcome = run("insurance_company", n=4)
    rumap = outcome.maps["map"]
    assert rumap.risk[0] == pytest.approx(0, abs=1e-12) and rumap.risk[-1] == pytest.approx(1)
    assert np.all(np.diff(rumap.risk) > 0) and np.all(np.diff(rumap.utility) > 0)
    # A sample of half has the applicant with probability one half, and tells a little more through the share.
    assert 0.5 < rumap.risk[2] < 0.51
    assert "Subsample(size=1) removes" in outcome.notes()[0]


def test_noise_beyond_a_fifth_costs_utility_and_saves_little_risk():
    outcome = run("duncan_reidentification", n=800, replicates=2)
    rumap = outcome.maps["map"]
    assert rumap.utility == pytest.approx(1 / (1 + np.array([m.share for m in rumap.masks])))
    assert rumap.risk[0] > 0.9 and rumap.risk[-2] < 0.5
    assert rumap.risk[0] - rumap.risk[-2] > rumap.risk[-2] - rumap.risk[-1]
    assert outcome.notes()[0].startswith("9 unusual records of 800")


def test_a_wrong_model_is_another_model():
    outcome = run("karr_wrong_model", n=300, replicates=1)
    columns = outcome.maps["right model"].columns
    assert not np.allclose(columns["right"], columns["wrong"])
    assert len(outcome.notes()) == 9
    assert all(0 <= x <= 0.951 for name in ("right", "wrong") for x in columns[name])


def test_moments_prefer_what_the_eye_rejects():
    outcome = run("woo_figure_1", n=500)
    notes = outcome.notes()
    assert notes[-2:] == ["By regression the better file is Syn.", "By tree the better file is Resampling."]
    first = next(line for line in notes if "variance of x1" in line)
    ours = first.split()[3:7:2]
    assert ours[0] == ours[1]  # Syn keeps moments exactly
    figure = outcome.figure()
    assert len(figure.axes) == 4
    import matplotlib.pyplot as plt

    plt.close("all")


def test_notes_are_computed_once():
    outcome = run("woo_figure_1", n=200)
    calls = []
    object.__setattr__(outcome.study, "notes_function", lambda result: calls.append(1) or ["one"])
    assert outcome.notes() == outcome.notes() == ["one"]
    assert calls == [1]
