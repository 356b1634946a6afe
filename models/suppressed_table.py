"""Suppressing cells of a 2 x 2 table: how many tables a reader holds possible, and one cell as the intruder sees it.

Trottini and Fienberg (2002, section 4.1) measure the scientist's loss of utility by log M(S), M(S) being the number of
tables that agree with what is published. Their table did not survive; four cells, a total of 258 and M(S) = 114 did.
The table [[50, 63], [70, 75]] with all cells suppressed and its margins published agrees with them.

The scientist wants the whole table under the logarithmic score. The intruder wants one cell under quadratic loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import ruvdecision as ruv

TABLE = ((50, 63), (70, 75))
MAX_RISK = 0.5


def patterns() -> list[ruv.Mask]:
    """Candidate publications, from nothing to almost everything."""
    return [
        ruv.Suppress(),
        ruv.SuppressCells(margins=[(0,)]),
        ruv.SuppressCells(margins=[(1,)]),
        ruv.SuppressCells(),
        ruv.SuppressCells([(0, 0), (0, 1)], margins=False),
        ruv.SuppressCells([(0, 0), (1, 1)], margins=False),
        ruv.SuppressCells([(0, 0), (0, 1), (1, 0)], margins=False),
        ruv.SuppressCells([(0, 0)]),
    ]


def study(row: int = 0, column: int = 0, concentration: float = 1.0) -> ruv.RUMap:
    """Map the patterns; the intruder is after the cell at ``row``, ``column``.

    ``concentration`` other than 1 makes both users' prior weights Dirichlet-multinomial instead of uniform.
    """
    belief = ruv.TableBelief(
        (2, 2), total=int(np.sum(TABLE)), weights="uniform" if concentration == 1 else concentration
    )
    # A table that can be worked out leaves no uncertainty, and 1/U is then infinite; the relative gain stays finite.
    return ruv.evaluate(
        patterns(),
        intruder=ruv.User(belief, ruv.Cell((row, column)), ruv.Quadratic(), name="The intruder"),
        scientist=ruv.User(belief, ruv.Records(), ruv.LogScore(), name="The scientist"),
        data=np.array(TABLE),
        risk="relative_gain",
        utility="relative_gain",
    )


def notes(rumap: ruv.RUMap) -> Iterator[str]:
    """The paper's numbers beside ours."""
    belief = ruv.TableBelief((2, 2), total=int(np.sum(TABLE)))
    after = belief.given(ruv.SuppressCells().publish(TABLE))
    low, high = after.bounds((0, 0))
    frame = rumap.to_dataframe().set_index("release")
    ours = float(frame.loc[str(ruv.SuppressCells()), "scientist_uncertainty"])
    log_prior = float(belief.log_count().value)
    yield (
        f"Before any release: the paper's M is C(261, 3) = 2929290, log M = 14.8903; we count {belief.count()}, log "
        f"M = {log_prior:.4f}."
    )
    yield (
        "All cells suppressed, margins published: the paper says M(S) = 114, U_S = log 114 = 4.736198; we count "
        f"{after.count()}"
    )
    yield f"  by {after.method}, and with the chosen weights U_S = {ours:.6f}."
    yield (
        f"The intruder then knows cell (0, 0) to lie in {low} to {high}; equally likely values have variance "
        f"{(114**2 - 1) / 12:.2f}."
    )
    yield "The paper's table is lost; two cells of a one-way table that add up to 113 would give 114 as well."
    yield "One cell suppressed beside published margins protects nothing: it follows by subtraction."


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
