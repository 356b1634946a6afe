"""How the map and the choice move when settings do."""

import pickle

import matplotlib
import numpy as np
import pandas as pd
import places
import pytest
from hypothesis import given, settings, strategies as st

matplotlib.use("agg")
import matplotlib.pyplot as plt

from ruvdecision.analyses.sensitivity import Sensitivity, sensitivity
from ruvdecision.beliefs import NormalBelief
from ruvdecision.decide import ExpectedLoss
from ruvdecision.errors import InputError
from ruvdecision.evaluate import evaluate
from ruvdecision.losses import Absolute, Quadratic
from ruvdecision.maps.rumap import RUMap
from ruvdecision.masks import Microaggregate, Noise, Suppress
from ruvdecision.measure import measure
from ruvdecision.measures import NormalKL, RecordLinkage
from ruvdecision.protocols import Value
from ruvdecision.studies import load_study
from ruvdecision.targets import Parameter, Record
from ruvdecision.users.panel import Panel
from ruvdecision.users.user import User

AVERAGE = Microaggregate(groups=1)
MASKS = [Suppress(), *(Noise(variance=float(v)) | AVERAGE for v in (1, 1.5, 2.08, 2.5, 3, 4))]
BELIEF = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
USERS = {"intruder": User(BELIEF, Record(0), Quadratic()), "scientist": User(BELIEF, Parameter("mu"), Quadratic())}
MODELS = places.ROOT / "models"


def study(prior_variance=5.0, variance=2.0):
    belief = NormalBelief(records=10, variance=variance, prior_variance=prior_variance)
    return evaluate(
        MASKS, intruder=User(belief, Record(0), Quadratic()), scientist=User(belief, Parameter("mu"), Quadratic())
    )


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_every_row_is_what_a_run_of_its_own_says():
    result = sensitivity(study, {"prior_variance": [3, 5, 8], "variance": [1.8, 2.2]}, max_risk=0.5)
    table = result.to_dataframe()
    assert len(table) == 6
    base = study().choose(0.5)
    assert table["chosen"][0] == base.release == result.base.choice.release
    for row, kind in zip(
        table.iloc[1:].itertuples(),
        [
            {"prior_variance": 3.0},
            {"prior_variance": 5.0},
            {"prior_variance": 8.0},
            {"variance": 1.8},
            {"variance": 2.2},
        ],
        strict=True,
    ):
        alone = study(**kind)
        assert row.chosen == alone.choose(0.5).release
        assert row.risk == alone[base.release].risk
        assert row.utility == alone[base.release].utility
        assert row.meets == (alone[base.release].risk <= 0.5 * (1 + 1e-9))
        assert row.frontier == len(alone.frontier())
        if row.meets:
            best = alone.choose(0.5).utility
            assert row.regret == pytest.approx((best - alone[base.release].utility) / best, abs=1e-12)
        else:
            assert np.isnan(row.regret)
    assert table["prior_variance"].tolist() == ["5", "3", "5", "8", "5", "5"]
    assert table["same"][2]


def test_paths_into_users_are_the_same_as_building_them():
    result = sensitivity(
        MASKS, {"intruder.belief.prior_variance": [3, 8], "belief.variance": [1.8]}, max_risk=0.5, **USERS
    )
    other = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=3)
    by_hand = evaluate(MASKS, intruder=User(other, Record(0), Quadratic()), scientist=USERS["scientist"])
    np.testing.assert_array_equal(result.maps["intruder.belief.prior_variance = 3"].risk, by_hand.risk)
    np.testing.assert_array_equal(result.maps["intruder.belief.prior_variance = 3"].utility, by_hand.utility)
    # Without a user's name both change.
    np.testing.assert_array_equal(result.maps["belief.variance = 1.8"].risk, study(variance=1.8).risk)
    np.testing.assert_array_equal(result.maps["belief.variance = 1.8"].utility, study(variance=1.8).utility)
    assert result.base_values == {"intruder.belief.prior_variance": "5", "belief.variance": "2"}
    assert USERS["intruder"].belief.prior_variance == 5  # nothing is edited


def test_paths_reach_every_member_of_a_panel():
    panel = Panel([USERS["intruder"], User(BELIEF, Record(1), Absolute())], unit="before")
    result = sensitivity(
        MASKS,
        {"belief.prior_variance": [3], "intruder.members.0.belief.variance": [1.8]},
        max_risk=0.9,
        **{**USERS, "intruder": panel},
    )
    other = NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=3)
    both = Panel([User(other, Record(0), Quadratic()), User(other, Record(1), Absolute())], unit="before")
    by_hand = evaluate(MASKS, intruder=both, scientist=User(other, Parameter("mu"), Quadratic()))
    np.testing.assert_array_equal(result.variations[0].rumap.risk, by_hand.risk)
    np.testing.assert_array_equal(result.variations[0].rumap.utility, by_hand.utility)
    assert result.base_values["belief.prior_variance"] == "5"
    assert not np.array_equal(result.variations[1].rumap.risk, result.base.rumap.risk)
    np.testing.assert_array_equal(result.variations[1].rumap.utility, result.base.rumap.utility)


def test_losses_scores_and_the_threshold_can_be_varied():
    vary = {"scientist.loss": {"absolute": Absolute()}, "risk": ["relative_gain"], "max_risk": [0.45, 0.6]}
    result = sensitivity(MASKS, {k: vary[k] for k in ("scientist.loss", "max_risk")}, max_risk=0.5, **USERS)
    assert [v.label for v in result.variations] == ["scientist.loss = absolute", "max_risk = 0.45", "max_risk = 0.6"]
    assert result.variations[0].choice.release == result.base.choice.release
    assert result.variations[2].choice.release == study().choose(0.6).release
    assert result.variations[1].max_risk == 0.45
    assert not result.stable
    gains = sensitivity(MASKS, {"risk": vary["risk"]}, max_risk=0.5, **USERS)
    assert gains.variations[0].rumap.risk_score.name == "relative_gain"


def test_verdicts():
    def made(shift=0.0, cost=0.0):
        return RUMap.build(
            labels=["a", "b"], risk="r", utility="u", columns={"r": [0.4 + shift, 0.3], "u": [2.0 - cost, 1.99]}
        )

    stable = sensitivity(made, {"shift": [-0.1, 0.05]}, max_risk=0.5)
    assert (stable.verdict, stable.stable) == ("stable", True)
    assert stable.sentence == "The choice is stable: a is chosen in all 2 variations of shift."
    near = sensitivity(made, {"cost": [0.02]}, max_risk=0.5)
    assert near.verdict == "nearly stable"
    assert near.sentence == (
        "The choice is nearly stable: another release is chosen in 1 of 1 variation of cost, "
        "but a is allowed in all of them and costs at most 0.5 % of the utility."
    )
    strict = sensitivity(made, {"cost": [0.02]}, max_risk=0.5, tolerance=0.001)
    assert strict.verdict == "not stable"
    assert strict.sentence.endswith("it matters most that cost = 0.02, where a costs 0.5 % of the utility against b.")
    broken = sensitivity(made, {"shift": [0.0, 0.2], "cost": [1.0]}, max_risk=0.5)
    assert broken.verdict == "not stable"
    assert broken.sentence.endswith(
        "it matters most that shift = 0.2, where a has risk 0.6, 20 % above the threshold 0.5."
    )
    none = sensitivity(made, {"shift": [0.2]}, max_risk=0.1)
    assert none.verdict == "no choice"
    assert "No release has risk at most 0.1" in none.sentence
    gone = sensitivity(lambda t=0.5, s=0.0: made(s)[[0]], {"s": [0.2]}, max_risk=0.5)
    assert "no release is allowed (a has risk 0.6)" in gone.sentence
    assert gone.to_dataframe()["remark"][1].startswith("No release has risk")


def test_releases_that_come_and_go():
    def made(labels=("a", "b")):
        n = len(labels)
        return RUMap.build(
            labels=list(labels),
            risk="r",
            utility="u",
            columns={"r": np.linspace(0.4, 0.3, n), "u": np.linspace(2, 1, n)},
        )

    result = sensitivity(made, {"labels": {"other": ("c", "b")}}, max_risk=0.5)
    assert result.verdict == "not stable"
    assert "a is not among the releases" in result.sentence
    row = result.to_dataframe().iloc[1]
    assert np.isnan(row["risk"])
    assert row["frontier_shared"] == pytest.approx(1 / 3)


def test_all_combinations():
    result = sensitivity(study, {"prior_variance": [3, 8], "variance": [1.8, 2.2]}, max_risk=0.5, together=True)
    assert len(result.variations) == 4
    assert result.variations[1].settings == {"prior_variance": "3", "variance": "2.2"}
    np.testing.assert_array_equal(result.variations[3].rumap.risk, study(8, 2.2).risk)
    effects = result.effects("risk").set_index("factor")
    name = result.base.choice.release
    mean = np.mean([study(p, 1.8)[name].risk for p in (3, 8)])
    assert effects.loc["variance", "high"] == pytest.approx(mean, rel=1e-12)
    with pytest.raises(InputError, match="too many combinations"):
        sensitivity(
            study, {"prior_variance": np.arange(1, 300), "variance": np.arange(1, 300)}, max_risk=0.5, together=True
        )


def test_effects_are_the_range_of_the_table_widest_first():
    result = sensitivity(study, {"prior_variance": [3, 8], "variance": [1.8, 2.2]}, max_risk=0.5)
    table = result.to_dataframe()
    for of, column in (("risk", "risk"), ("utility", "utility"), ("chosen risk", "chosen_risk"), ("regret", "regret")):
        effects = result.effects(of).set_index("factor")
        for name, rows in (("prior_variance", [1, 2]), ("variance", [3, 4])):
            seen = table[column].iloc[rows].dropna()
            if len(seen):
                assert (effects.loc[name, "low"], effects.loc[name, "high"]) == (seen.min(), seen.max())
    assert result.effects("risk")["factor"].tolist() == ["variance", "prior_variance"]
    with pytest.raises(InputError, match="of must be"):
        result.effects("harm")


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0.5, 20), min_size=1, max_size=4), st.floats(0.3, 0.7))
def test_stable_means_the_same_choice_everywhere(values, limit):
    result = sensitivity(study, {"prior_variance": values}, max_risk=limit)
    chosen = [v.choice.release if v.choice else None for v in (result.base, *result.variations)]
    if chosen[0] is None:
        assert result.verdict == "no choice"
    else:
        assert result.stable == (len(set(chosen)) == 1)
        if result.verdict == "nearly stable":
            assert (result.to_dataframe()["regret"] <= result.tolerance).all()


def test_the_frontier_without_a_choice():
    result = sensitivity(study, {"prior_variance": [3, 8]})
    assert result.verdict == "no choice"
    assert result.sentence.startswith("No threshold was given")
    shares = result.frontiers()
    assert set(shares["release"]) == set(study().releases)
    assert shares["on_frontier"].between(0, 1).all()
    assert (shares["chosen"] == 0).all()
    change = result.to_dataframe()["risk_change"]
    assert change[0] == 0
    assert change[1] == pytest.approx(np.median(study(3).risk / study().risk - 1), rel=1e-9)
    assert result.plot().get_xlabel().startswith("median relative change of risk")


def test_rules_of_the_agency():
    loss = lambda risk, utility: 40 * risk - utility  # noqa: E731
    result = sensitivity(study, {"variance": [1.5, 4.0]}, rule={"by": ExpectedLoss(loss)})
    for v in result.variations:
        assert v.choice.release == v.rumap.choose(by=ExpectedLoss(loss)).release
        values = loss(v.rumap.risk, v.rumap.utility)
        assert v.kept == pytest.approx(values[v.rumap.releases.index(result.base.choice.release)])
    assert result.about == "expected loss"
    row = result.to_dataframe().iloc[1]
    best = result.variations[0].choice.value
    assert row["regret"] == pytest.approx((result.variations[0].kept - best) / abs(best), abs=1e-12)
    with pytest.raises(InputError, match="function"):
        sensitivity(study, {"variance": [1.5]}, rule={"by": ExpectedLoss(3)})


def test_confidence_is_asked_of_the_kept_choice_too():
    def made(error=0.01):
        value = Value(np.array([2.2, 4.0]), np.array([error, 0.01]))
        return RUMap.build(labels=["a", "b"], intruder=value, scientist=[0.5, 1.0])

    result = sensitivity(made, {"error": [0.5]}, max_risk=0.5, rule={"confidence": 0.95})
    assert result.base.choice.release == "a"
    assert result.variations[0].choice.release == "b"
    assert not result.to_dataframe()["meets"][1]
    assert "is not surely enough below the threshold" in result.sentence
    assert any("Monte Carlo" in p for p in result.describe())


def test_loaded_studies_and_their_thresholds():
    loaded = load_study(MODELS / "trottini_fienberg_normal.py")
    result = sensitivity(loaded, {"prior_variance": [5.0, 6.0]}, max_risk=0.5, settings={"largest": 10.0})
    assert result.base.choice.variance == pytest.approx(2.08)
    assert result.to_dataframe()["same"][1]
    assert result.base_values == {"prior_variance": "5"}


def test_studies_of_several_maps():
    panel = lambda u=2.0: {"one": study(prior_variance=u), "two": study(variance=u)}  # noqa: E731
    with pytest.raises(InputError, match="several maps"):
        sensitivity(panel, {"u": [3.0]}, max_risk=0.5)
    result = sensitivity(panel, {"u": [3.0]}, max_risk=0.5, name="two")
    np.testing.assert_array_equal(result.variations[0].rumap.risk, study(variance=3.0).risk)
    with pytest.raises(InputError, match="no map of that name"):
        sensitivity(panel, {"u": [3.0]}, max_risk=0.5, name="three")


def test_texts_and_travel():
    result = sensitivity(study, {"prior_variance": [3, 8]}, max_risk=0.5)
    assert repr(result).startswith("Sensitivity: The choice is")
    assert str(result) == result.sentence
    assert "<table" in result._repr_html_()
    paragraphs = result.describe()
    assert paragraphs[0] == result.sentence
    assert "2 variations, one at a time. prior_variance: 3, 8 (base 5)." in paragraphs
    again = pickle.loads(pickle.dumps(result))
    assert isinstance(again, Sensitivity)
    pd.testing.assert_frame_equal(again.to_dataframe(), result.to_dataframe())
    with pytest.raises(AttributeError):
        result.tolerance = 2


def test_data_never_show():
    data = np.array([123.456, 7.89, 2.0, 3.0])
    belief = NormalBelief(records=4, variance=2, prior_variance=5)
    users = {"intruder": User(belief, Record(0), Quadratic()), "scientist": User(belief, Parameter("mu"), Quadratic())}
    result = sensitivity(MASKS, {"data": [data, data + 1]}, max_risk=0.5, data=data, **users)
    text = repr(result) + " ".join(result.describe())
    assert "123" not in text
    assert result.to_dataframe()["data"].tolist()[1:] == ["data 1", "data 2"]


def test_tornado():
    result = sensitivity(study, {"prior_variance": [3, 8], "variance": [1.8, 2.2]}, max_risk=0.5)
    ax = result.plot()
    assert ax.get_title() == f"The choice is {result.verdict}"
    assert [t.get_text().split("\n")[0] for t in ax.get_yticklabels()] == ["variance", "prior_variance"]
    effects = result.effects("risk")
    ends = sorted(p.get_x() + p.get_width() for p in ax.patches)
    expected = sorted([*effects["low"], *effects["high"]])
    np.testing.assert_allclose(ends, expected, rtol=1e-9)
    assert any(line.get_linestyle() == "--" and line.get_xdata()[0] == 0.5 for line in ax.lines)
    _, own = plt.subplots()
    assert result.plot("utility", own, title="mine") is own
    assert own.get_title() == "mine"
    flat = sensitivity(study, {"prior_variance": [5.0]}, max_risk=0.5).plot()
    assert "no change" in [t.get_text() for t in flat.texts]
    with pytest.raises(InputError, match="nothing to draw"):
        sensitivity(study, {"prior_variance": [3]}).plot("regret")
    endless = lambda u=1.0: RUMap.build(labels=["a"], risk="r", utility="u", columns={"r": [u], "u": [1.0]})  # noqa: E731
    sensitivity(endless, {"u": [np.inf, 0.5]}, max_risk=2.0).plot().figure.canvas.draw()


@pytest.mark.parametrize(
    ("vary", "more", "message"),
    [
        ({}, {}, "vary must not be empty"),
        ({"prior_variance": 5}, {}, "must list values"),
        ({"prior_variance": []}, {}, "no value"),
        ({3: [1]}, {}, "must be text"),
        ({"prior_varianc": [1]}, {}, "Did you mean 'prior_variance'"),
        ({"prior_variance": [1]}, {"tolerance": 2}, "tolerance"),
        ({"prior_variance": [1]}, {"together": "yes"}, "together"),
        ({"prior_variance": [1]}, {"intruder": USERS["intruder"]}, "its own users"),
        ({"prior_variance": [1]}, {"settings": {"nobody": 1}}, "no setting"),
        ({"max_risk": [0.5]}, {}, "no base value"),
        ({"prior_variance": [1]}, {"rule": {"confidence": 0.9}}, "needs a threshold"),
        ({"prior_variance": [1]}, {"rule": {"confidenc": 0.9}, "max_risk": 0.5}, "Did you mean 'confidence'"),
        ({"prior_variance": [1]}, {"rule": 3}, "rule must be a mapping"),
    ],
)
def test_what_cannot_be_varied(vary, more, message):
    with pytest.raises(InputError, match=message):
        sensitivity(study, vary, **more)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("intruder.belief.prior_varianc", "Did you mean 'prior_variance'"),
        ("intruder.belief.record_covariance", "does not have"),
        ("nobody.loss", "neither user has"),
        ("intruder.belief.variance.real", "no named parts"),
        ("masks.99", "position"),
    ],
)
def test_paths_that_lead_nowhere(name, message):
    with pytest.raises(InputError, match=message):
        sensitivity(MASKS, {name: [1]}, max_risk=0.5, **USERS)


def test_masks_need_users_and_known_arguments():
    with pytest.raises(InputError, match="need the scientist"):
        sensitivity(MASKS, {"loss": [Absolute()]}, intruder=USERS["intruder"])
    with pytest.raises(InputError, match="no such argument"):
        sensitivity(MASKS, {"loss": [Absolute()]}, enginee="exact", **USERS)
    with pytest.raises(InputError, match="must give a map"):
        sensitivity(lambda u=1: 3, {"u": [1]})
    with pytest.raises(InputError, match="sensitivity needs a study"):
        sensitivity(3, {"u": [1]})


def test_measured_maps_vary_by_settings_of_measures():
    data = pd.DataFrame(np.random.default_rng(1).normal(size=(40, 3)), columns=list("abc"))
    masks = {"little": Noise(sd=0.05), "much": Noise(sd=2)}
    common = {"data": data, "measures": [RecordLinkage(), NormalKL()], "seed": 3}
    vary = {"linkage.known": {"one": ["a"], "two": ["a", "b"]}, "replicates": [2], "columns": [["a"]]}
    result = sensitivity(masks, vary, max_risk=0.9, **common)
    assert len(result.variations) == 4
    alone = measure(data, masks, measures=[RecordLinkage(["a"]), NormalKL()], seed=3)
    assert result.variations[0].rumap.risk.tolist() == alone.risk.tolist()
    assert result.variations[3].rumap.to_dataframe()["KL"][1] == pytest.approx(
        measure(data, masks, measures=[RecordLinkage(), NormalKL(columns=["a"])], seed=3).to_dataframe()["KL"][1]
    )
    released = sensitivity(None, {"known": [["a"]]}, releases={"r": data + 0.1}, **common)
    assert released.variations[0].rumap.risk[0] >= 0
    with pytest.raises(InputError, match=r"no measure has.*linkage\.known"):
        sensitivity(masks, {"linkage.knwon": [["a"]]}, max_risk=0.9, **common)
    with pytest.raises(InputError, match="no such argument"):
        sensitivity(masks, {"linkage.known": [["a"]]}, max_risk=0.9, engine="exact", **common)
