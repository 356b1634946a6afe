"""anonymeter's attacks, timed in its own environment: ``peer_anonymeter.py ATTACKS ORIGINAL RELEASED``, as JSON.

It imports nothing of ours. One job, because ours has one thread.
"""

import json
import sys
import warnings
from time import perf_counter

import numpy as np
import pandas as pd


def main(attacks, original, released):
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    warnings.simplefilter("ignore")
    np.random.seed(0)  # noqa: NPY002
    a, b = pd.read_csv(original), pd.read_csv(released)
    names = list(a.columns)
    makers = {
        "linkability": (LinkabilityEvaluator, {"aux_cols": (names[:3], names[3:6])}, {"n_jobs": 1}),
        "inference": (
            InferenceEvaluator,
            {"aux_cols": names[1:6], "secret": names[0], "regression": True},
            {"n_jobs": 1},
        ),
        "singling out": (SinglingOutEvaluator, {}, {"mode": "univariate"}),
    }
    found = {}
    for name, (maker, how, then) in makers.items():
        try:
            # The first, small run compiles.
            maker(ori=a.head(50), syn=b.head(50), n_attacks=10, **how).evaluate(**then)
            evaluator = maker(ori=a, syn=b, n_attacks=attacks, **how)
            start = perf_counter()
            evaluator.evaluate(**then)
            found[name] = perf_counter() - start
        except Exception as error:
            found["failed"] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:4])
