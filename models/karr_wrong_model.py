"""Karr et al. (2006), section 3.1: what masks do to an analyst who leaves out important predictors.

The paper says, without numbers, that some masks gave regressions "bearing little resemblance" to those of the original
data when the analyst's model was wrong, most of all some kinds of microaggregation. Here the data have five
predictors. One analyst regresses on all of them, the other leaves out the two that matter most. Both compare their
intervals with those from the original file (IO).
"""

import numpy as np
import pandas as pd
from karr_simulation import MASKS

import ruvdecision as ruv

MAX_RISK = 0.5
RIGHT, WRONG = "y ~ a + b + c + d + e", "y ~ c + d + e"


def records(n, seed):
    """Five correlated predictors; a and b matter most."""
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(np.full(5, 2.0), 0.5 + 0.5 * np.eye(5), n)
    y = x @ [1.0, -0.8, 0.3, 0.2, -0.1] + rng.standard_normal(n)
    return pd.DataFrame(np.column_stack([y, x]), columns=["y", *"abcde"])


def study(n=1000, replicates=5, seed=1, executor=None, checkpoint=None):
    """Two maps of the same releases: utility for the right model and for the wrong one."""
    measures = [
        ruv.measures.RecordLinkage(known=list("abcde")),
        ruv.measures.IntervalOverlap(RIGHT, name="right"),
        ruv.measures.IntervalOverlap(WRONG, name="wrong"),
    ]
    running = {"executor": executor, "checkpoint": checkpoint, "progress": False}
    running |= {"replicates": replicates, "seed": seed}
    found = ruv.measure(records(n, seed), list(MASKS.values()), measures=measures, **running)
    rumap = ruv.RUMap.build(
        masks=list(MASKS.values()),
        labels=ruv.maps.Labels(list(MASKS), technique=list(MASKS)),
        provenance=ruv.maps.Provenance(engine="data"),
        risk="linkage",
        utility="right",
        columns=found.columns,
        attrs=found.attrs,
    )
    return {"right model": rumap, "wrong model": rumap.with_utility("wrong")}


def notes(maps):
    """Overlap of both analysts, by mask."""
    columns = maps["right model"].columns
    for name, right, wrong in zip(MASKS, columns["right"], columns["wrong"], strict=True):
        yield f"{name:<11} overlap {right:.2f} with the right model, {wrong:.2f} with the wrong one."
    lost = [name for name, wrong in zip(MASKS, columns["wrong"], strict=True) if wrong < 0.5]
    yield f"Below one half with the wrong model: {', '.join(lost) or 'none'}. Paper: above all microaggregation."


if __name__ == "__main__":
    from ruvdecision.cli import main

    raise SystemExit(main(["run", __file__]))
