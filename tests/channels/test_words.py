"""A mask in words: what it does, read from its steps."""

from __future__ import annotations

import numpy as np
import pytest

import ruvdecision as ruv
from ruvdecision.channels.steps import FileFacts
from ruvdecision.channels.words import in_words
from ruvdecision.masks import Clip, SeparateRows

PLAIN = FileFacts(10, (0,))
NAMED = FileFacts(10, ("income", "age"))


@pytest.mark.parametrize(
    ("mask", "about", "words"),
    [
        (ruv.Noise(variance=29), PLAIN, "add normal noise with variance 29 to every record"),
        (ruv.Noise(variance=29), NAMED, "add normal noise with variance 29 to income and age"),
        (ruv.Noise(variance=4, columns=["age"]), NAMED, "add normal noise with variance 4 to age"),
        (ruv.Noise(sd=2, kind="laplace"), PLAIN, "add Laplace noise with variance 4 to every record"),
        (ruv.Noise(variance=0), PLAIN, "publish the records as they are"),
        (ruv.Suppress(), PLAIN, "publish nothing"),
        (ruv.Microaggregate(groups=1), PLAIN, "publish the average of all records"),
        (
            ruv.Microaggregate(groups=5),
            PLAIN,
            "replace the values in each of 5 groups of records by their average",
        ),
        (ruv.Round(base=5), PLAIN, "round every record to multiples of 5"),
        (ruv.Shuffle(), PLAIN, "put the records in random order"),
        (ruv.Subsample(size=4), PLAIN, "keep a random sample of 4 of 10 records"),
        (Clip(lower=0), PLAIN, "set every record below 0 up to it"),
        (SeparateRows(rows=[0]), NAMED, "publish the records as they are"),
    ],
)
def test_one_mask(mask, about, words):
    assert in_words(mask, about) == words


def test_a_chain_says_its_steps_in_order():
    chain = ruv.Noise(variance=2) | ruv.Round(base=5) | ruv.Shuffle()
    assert in_words(chain, PLAIN) == (
        "add normal noise with variance 2 to every record, then round every record to multiples of 5, then put the "
        "records in random order"
    )


def test_several_releases_are_said_one_after_the_other():
    both = ruv.Round(base=5) | (ruv.Noise(variance=2) & ruv.Microaggregate(groups=1))
    assert in_words(both, NAMED) == (
        "round income and age to multiples of 5, then add normal noise with variance 2 to income and age; "
        "and as another release: publish the average of all records"
    )


def test_what_only_simulation_knows_is_given_as_written():
    assert in_words(ruv.RankSwap(within=0.05), NAMED) == f"apply {ruv.RankSwap(within=0.05)}"


def flagship():
    belief = ruv.NormalBelief(records=10, variance=2, prior_mean=0, prior_variance=5)
    users = [ruv.User(belief, t, ruv.Quadratic()) for t in (ruv.Record(0), ruv.Parameter("mu"))]
    masks = [ruv.Suppress(), *(ruv.Noise(variance=v) | ruv.Microaggregate(groups=1) for v in (1.0, 2.5, 4.0))]
    return ruv.evaluate(masks, intruder=users[0], scientist=users[1])


def test_a_choice_says_what_to_do_and_what_it_means(tmp_path):
    rumap = flagship()
    choice = rumap.choose(max_risk=0.5)
    assert choice.order == "add normal noise with variance 2.5 to every record, then publish the average of all records"
    off, start = np.sqrt(choice.intruder_uncertainty), np.sqrt(7.0)
    share = 100 * off / start
    assert choice.meaning[0] == (
        f"The intruder's estimate is typically off by {off:.3g}, {share:.3g} % of the {start:.3g} before any release."
    )
    back = ruv.RUMap.load(rumap.with_unit("dollars").save(tmp_path / "map.nc")).choose(max_risk=0.5)
    assert back.order == choice.order
    assert "dollars" in back.meaning[0]


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (ruv.Quadratic(), lambda u: np.sqrt(u)),
        (ruv.Quadratic(weights=4), lambda u: np.sqrt(u / 4)),
        (ruv.Absolute(), lambda u: u),
        (ruv.Power(p=4), lambda u: u**0.25),
        (ruv.LogScore(), None),
        (ruv.ZeroOne(tolerance=1), None),
    ],
)
def test_typical_errors_are_in_the_unit_of_the_data(loss, expected):
    belief = ruv.NormalBelief(records=3, variance=2, prior_mean=0, prior_variance=5)
    user = ruv.User(belief, ruv.Record(0), loss)
    rumap = ruv.evaluate([ruv.Noise(variance=1)], intruder=user, scientist=user, risk="negative", utility="negative")
    found = rumap.typical_error("intruder")
    if expected is None:
        assert found is None
    else:
        np.testing.assert_allclose(found.value, expected(rumap.intruder_uncertainty))


def test_a_typical_error_grows_with_the_unit_of_the_data():
    # In other units (cents for dollars) the typical error is that many times as large.
    def off(scale):
        belief = ruv.NormalBelief(records=3, variance=2 * scale**2, prior_mean=0, prior_variance=5 * scale**2)
        user = ruv.User(belief, ruv.Record(0), ruv.Quadratic())
        rumap = ruv.evaluate([ruv.Noise(variance=scale**2)], intruder=user, scientist=user)
        return rumap.typical_error("intruder").value

    np.testing.assert_allclose(off(100.0), 100 * off(1.0), rtol=1e-10)


def test_the_error_of_a_typical_error_is_that_of_a_root():
    value = ruv.protocols.Value(np.array([4.0]), np.array([0.4]))
    rumap = ruv.RUMap.build(labels=["a"], intruder=value, scientist=[1.0], attrs={"intruder_error_scale": [1.0, 0.5]})
    found = rumap.typical_error("intruder")
    assert found.value[0] == 2.0 and found.error[0] == pytest.approx(0.1)
