"""What a session shows of a result: its name and what it says, in a few lines, without addresses or empty fields."""

from __future__ import annotations

import pytest

import ruvdecision as ruv

BELIEF = ruv.NormalBelief(records=4, variance=2, prior_mean=0, prior_variance=5)
INTRUDER = ruv.User(BELIEF, ruv.Record(0), ruv.Quadratic())
SCIENTIST = ruv.User(BELIEF, ruv.Parameter("mu"), ruv.Quadratic())
USERS = {"intruder": INTRUDER, "scientist": SCIENTIST}
MAP = ruv.evaluate([ruv.Suppress(), ruv.Noise(variance=1), ruv.Noise(variance=4)], **USERS)
FAMILY = ruv.analyses.MaskFamily(ruv.Noise, variance=(0.1, 10))


@pytest.mark.parametrize(
    ("result", "start"),
    [
        (lambda: MAP.choose(max_risk=2), "Choice: Release Noise(variance=1): risk "),
        (lambda: MAP.choose(max_risk=2).next_best, "ReleaseRow: Noise(variance=4): risk "),
        (lambda: ruv.decide.explain(MAP, 1), "Explanation: Noise(variance=1) is on the frontier"),
        (lambda: ruv.analyses.worth(SCIENTIST, ruv.Noise(sd=1)), "Worth: Noise(sd=1) rather than Suppress()"),
        (lambda: ruv.limit(**USERS, max_risk=0.5), "Limit(1 bound: utility at most "),
        (lambda: ruv.limit(**USERS, max_risk=[0.2, 0.5]), "Limit(2 bounds: utility at most "),
        (lambda: FAMILY, "MaskFamily(Noise, variance=(0.1, 10.0))"),
        (lambda: ruv.optimise(FAMILY, **USERS, max_risk=0.5), "Optimum: Best of the family: Noise(variance="),
    ],
)
def test_results_read_well(result, start):
    shown = repr(result())
    assert shown.startswith(start) and "object at 0x" not in shown and "mappingproxy" not in shown and len(shown) < 400


def test_one_mask_where_a_list_is_wanted():
    assert len(ruv.analyses.blackwell_order(ruv.Noise(sd=1), records=3).masks) == 1
    with pytest.raises(ruv.InputError, match="masks must be a list"):
        ruv.analyses.blackwell_order(3, records=3)
