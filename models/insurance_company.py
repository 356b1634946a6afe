"""Trottini and Fienberg (2002), section 1: an insurance company is intruder and scientist at once.

The company wants to know whether one applicant is ill (and would deny the policy), and how many people are over 60 with
an income above $4,000 (to whom it sells). A sample may serve the second and withhold the first, the paper says. Here
each of n people is in one of four groups, well or ill and not eligible or eligible. The share of eligible people is one
of a few values, equally likely; illness has a known rate in both groups. The release is a random sample; the company
knows whether the applicant is in it.
"""

import numpy as np

import ruvdecision as ruv

MAX_RISK = 0.3
SHARES = (0.1, 0.2, 0.3, 0.4)
ILL = (0.15, 0.3)
"""Rates of illness among those who are not eligible, and those who are."""


def users(n):
    """The company in both roles: records are 2 * eligible + ill."""
    law = [[(1 - s) * (1 - ILL[0]), (1 - s) * ILL[0], s * (1 - ILL[1]), s * ILL[1]] for s in SHARES]
    belief = ruv.FiniteBelief(
        values=SHARES, probabilities=[1 / len(SHARES)] * len(SHARES), likelihood=law, records=n, name="share"
    )
    ill = ruv.Functional(lambda x: x % 2, ruv.Record(0), name="the applicant is ill")
    intruder = ruv.User(belief, ill, ruv.Quadratic(), name="The company as intruder")
    return intruder, ruv.User(belief, ruv.Parameter("share"), ruv.Quadratic(), name="The company as scientist")


def study(n=8):
    """Samples of one to all records; risk and utility are the shares of the expected loss that they remove."""
    intruder, scientist = users(n)
    masks = [ruv.Suppress(), *(ruv.Subsample(size=k) for k in range(1, n + 1))]
    return ruv.evaluate(masks, intruder=intruder, scientist=scientist, risk="relative_gain", utility="relative_gain")


def notes(rumap):
    """What a sample does to the two roles."""
    best = rumap.choose(max_risk=MAX_RISK)
    yield (
        f"{best.release} removes {100 * best.utility:.0f} % of the scientist's expected loss and {100 * best.risk:.0f} "
        "% of the intruder's; the whole file would remove "
        f"{100 * rumap.utility[-1]:.0f} % and all of it."
    )
    gain = np.diff(rumap.utility)
    yield (
        "For the intruder a sample of k is hardly more than the chance k/n to find the applicant in it. For the "
        f"scientist the first record tells {gain[0] / gain[-1]:.2g} times as much as the last: so a sample serves the "
        "one and withholds from the other, as the paper says."
    )


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
