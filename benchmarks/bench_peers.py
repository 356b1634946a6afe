"""Measures against SDMetrics, SynthEval, anonymeter, recordlinkage and scipy; numbers agree before clocks count.

Every ratio is theirs / ours, so that below one we lose. Where a peer computes another quantity than ours the row says
"other quantity": the task is the same, the number is not, and the ratio tells what an answer to the same question
costs.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

import ruvdecision as ruv
from ruvdecision.numerics.threads import one_thread

from .cases import file, names
from .elsewhere import anonymeter, rscript
from .rows import Absent, peer
from .timing import race

FASTER = ">= 1"


def run(quick: bool = False) -> Iterator[Any]:
    """Yield rows; ``quick`` takes a fifth of the records."""
    n = 2_000 if quick else 10_000
    data = file(n, 10)
    released = ruv.PRAM(stay=0.9, columns=names(10)[1]).release(
        ruv.Noise(share=0.16, columns=names(10)[0]).release(data, 1), 2
    )
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers' own, of which we have no say
        yield from with_scipy(data, released)
        yield from with_sdmetrics(data, released)
        yield from with_syntheval(data, released)
        yield from with_recordlinkage(data, released, 300 if quick else 1_000)
        yield from with_anonymeter(data, released, 300 if quick else 2_000)
    yield from with_r(data, released)


def against(
    name: str, ours: Callable[[], float], theirs: Callable[[], float], *, within: float | None = 1e-9, rounds: int = 3
) -> Any:
    """Check that both give the same number, unless ``within`` is None, and race them."""
    if within is not None:
        a, b = float(ours()), float(theirs())
        if not abs(a - b) <= within:
            raise AssertionError(f"{name}: {a!r} and {b!r} are not the same number")
    mine, other = race(ours, theirs, rounds=rounds)
    return name, mine, other, other / mine, FASTER


def with_scipy(data: pd.DataFrame, released: pd.DataFrame) -> Iterator[Any]:
    from scipy.stats import energy_distance, wasserstein_distance

    a, b = data["v1"].to_numpy(), released["v1"].to_numpy()
    ours = ruv.measures.Wasserstein(columns=["v1"], standardise=False)
    yield against(
        "scipy wasserstein_distance / Wasserstein, one column",
        lambda: ours(data, released),
        lambda: wasserstein_distance(a, b),
    )
    energy = ruv.measures.EnergyDistance(columns=["v1"], standardise=False)
    # scipy gives the root of the distance.
    yield against(
        "scipy energy_distance / EnergyDistance, one column",
        lambda: energy(data, released),
        lambda: energy_distance(a, b) ** 2,
    )


def with_sdmetrics(data: pd.DataFrame, released: pd.DataFrame) -> Iterator[Any]:
    if peer("sdmetrics") is None:
        yield Absent("SDMetrics", "not installed here")
        return
    from sdmetrics.column_pairs import ContingencySimilarity, CorrelationSimilarity
    from sdmetrics.single_column import KSComplement, TVComplement
    from sdmetrics.single_table import LogisticDetection

    numbers, words = names(data.shape[1])

    def mean(metric: Any, columns: Any) -> float:
        return 1 - float(np.mean([metric.compute(data[c], released[c]) for c in columns]))

    title = f"n = {len(data):,}"
    pairs = [list(c) for c in combinations(numbers, 2)]
    ks, tv, correlation = (
        ruv.measures.Marginals(columns=numbers),
        ruv.measures.Marginals(columns=words),
        ruv.measures.Pairwise(columns=numbers),
    )
    # They round to 15 decimals first, which moves no step by more than one record.
    yield against(
        f"SDMetrics KSComplement / Marginals, {len(numbers)} numbers, {title}",
        lambda: ks(data, released),
        lambda: mean(KSComplement, numbers),
    )
    yield against(
        f"SDMetrics TVComplement / Marginals, {len(words)} categories, {title}",
        lambda: tv(data, released),
        lambda: mean(TVComplement, words),
    )
    yield against(
        f"SDMetrics CorrelationSimilarity / Pairwise, {len(pairs)} pairs, {title}",
        lambda: correlation(data, released),
        lambda: mean(CorrelationSimilarity, pairs),
    )
    two = ruv.measures.TotalVariation(columns=words, way=2)
    yield against(
        f"SDMetrics ContingencySimilarity / TotalVariation, {len(words)} categories, {title}",
        lambda: two(data, released),
        lambda: mean(ContingencySimilarity, [list(c) for c in combinations(words, 2)]),
    )
    metadata = {"columns": {c: {"sdtype": "numerical"} for c in numbers}}
    propensity = ruv.measures.Propensity(columns=numbers)
    yield against(
        f"SDMetrics LogisticDetection / Propensity, {title} (other quantity: cross-validated AUC)",
        lambda: propensity(data, released),
        lambda: LogisticDetection.compute(data[numbers], released[numbers], metadata),
        within=None,
        rounds=1,
    )


def with_syntheval(data: pd.DataFrame, released: pd.DataFrame) -> Iterator[Any]:
    if peer("syntheval") is None:
        yield Absent("SynthEval", "not installed here")
        return
    from syntheval.metrics.privacy.metric_distance_closest_record import MedianDistanceToClosestRecord
    from syntheval.metrics.utility.metric_confidence_interval_overlap import ConfidenceIntervalOverlap
    from syntheval.metrics.utility.metric_kolmogorov_smirnov import KolmogorovSmirnovTest
    from syntheval.metrics.utility.metric_propensity_mse import PropensityMeanSquaredError

    numbers, _ = names(data.shape[1])
    a, b = data[numbers], released[numbers]
    title = f"n = {len(data):,}"

    def theirs(metric: Any, key: str, **how: Any) -> Callable[[], float]:
        def work() -> float:
            with contextlib.redirect_stdout(io.StringIO()):
                made = metric(
                    a,
                    b,
                    cat_cols=[],
                    num_cols=numbers,
                    nn_dist="euclid",
                    do_preprocessing=False,
                    verbose=False,
                    plot_figures=False,
                )
                return float(made.evaluate(**how)[key])

        return work

    marginals, means = (
        ruv.measures.Marginals(),
        ruv.measures.IntervalOverlap(ruv.measures.Means(numbers), kind="length"),
    )
    yield against(
        f"SynthEval ks_test / Marginals, {title}", lambda: marginals(a, b), theirs(KolmogorovSmirnovTest, "avg ks")
    )
    # Theirs takes 1.96 where ours takes the quantile of Student's law.
    yield against(
        f"SynthEval cio of means / IntervalOverlap(Means), {title}",
        lambda: means(a, b),
        theirs(ConfidenceIntervalOverlap, "avg overlap", ci="sem"),
        within=1e-3,
    )
    propensity = ruv.measures.Propensity()
    yield against(
        f"SynthEval p_mse / Propensity, {title} (other quantity: 5 folds, penalised)",
        lambda: propensity(a, b),
        theirs(PropensityMeanSquaredError, "avg pMSE"),
        within=None,
        rounds=1,
    )
    linkage = ruv.measures.RecordLinkage()
    few = min(len(data), 2_000)
    a, b = a.head(few), b.head(few)
    yield against(
        f"SynthEval dcr / RecordLinkage, n = {few:,} (other quantity: median distance)",
        lambda: linkage(a, b),
        theirs(MedianDistanceToClosestRecord, "mDCR"),
        within=None,
        rounds=1,
    )


def with_recordlinkage(data: pd.DataFrame, released: pd.DataFrame, n: int) -> Iterator[Any]:
    if peer("recordlinkage") is None:
        yield Absent("recordlinkage", "not installed here")
        return
    import logging

    import recordlinkage

    logging.getLogger("recordlinkage").setLevel(logging.ERROR)  # it says at every call that all pairs are many
    known = ["v1", "v2", "v3", "v4"]
    a, b = data[known].head(n), released[known].head(n)
    width = {c: 0.2 * float(a[c].std(ddof=1)) for c in known}
    measure = ruv.measures.FellegiSunter(known=known, tolerance=width)

    def theirs() -> float:
        index = recordlinkage.Index()
        index.full()
        compare = recordlinkage.Compare()
        for c in known:
            compare.numeric(c, c, method="step", offset=width[c], label=c)
        agreement = compare.compute(index.index(b, a), b, a)
        model = recordlinkage.ECMClassifier(max_iter=200, atol=1e-9)
        model.fit(agreement)
        weight = model.prob(agreement).to_numpy().reshape(len(b), len(a))
        tie = weight >= weight.max(axis=1, keepdims=True) - 1e-9
        return float((tie.diagonal() / tie.sum(axis=1)).mean())

    # Both fit the same mixture by EM from other starts; the links are the same where the fits are.
    yield against(
        f"recordlinkage index, compare, ECM and best links / FellegiSunter, n = {n:,}",
        lambda: measure(a, b),
        theirs,
        within=0.01,
        rounds=1,
    )


def with_anonymeter(data: pd.DataFrame, released: pd.DataFrame, attacks: int) -> Iterator[Any]:
    numbers, _ = names(data.shape[1])
    found = anonymeter(data[numbers], released[numbers], attacks)
    if isinstance(found, str):
        yield Absent("anonymeter", found)
        return
    a, b = data[numbers], released[numbers]
    every = f"{attacks:,} of n = {len(data):,} attacked"
    mine = {
        "linkability": (
            ruv.measures.RecordLinkage(known=numbers[:6]),
            "RecordLinkage",
            "its two halves meet at one released record",
        ),
        "inference": (
            ruv.measures.AttributeDisclosure(unknown="v0", known=numbers[1:6]),
            "AttributeDisclosure",
            "Gower distance, within 5 %",
        ),
        "singling out": (ruv.measures.SampleUniques(keys=numbers[:3]), "SampleUniques", "random predicates"),
    }
    for attack, (measure, name, why) in mine.items():
        if attack not in found:
            yield Absent(f"anonymeter {attack}", found.get("failed", "no answer"))
            continue
        ours, _ = race(lambda measure=measure: measure(a, b), lambda: None, rounds=3)
        theirs = found[attack]
        title = f"anonymeter {attack}, {every} / {name}, all records (other quantity: {why})"
        yield title, ours, theirs, theirs / ours, FASTER


def with_r(data: pd.DataFrame, released: pd.DataFrame) -> Iterator[Any]:
    """Base R, sdcMicro and synthpop, each timed by R itself on the same files."""
    numbers, _ = names(data.shape[1])
    a, b = data[numbers], released[numbers]
    found = rscript(a, b)
    if isinstance(found, str):
        for name in ("base R", "sdcMicro", "synthpop"):
            yield Absent(name, found)
        return
    formula = f"v0 ~ {' + '.join(numbers[1:])}"
    ours: dict[str, tuple[str, Callable[[], float], float | None]] = {
        "base R, two lm() and confint()": (
            "IntervalOverlap",
            _value(ruv.measures.IntervalOverlap(formula, kind="length"), a, b),
            1e-6,
        ),
        "base R, glm() of the pooled file": ("Propensity", _value(ruv.measures.Propensity(), a, b), 1e-6),
        "base R, ks.test() per column": ("Marginals", _value(ruv.measures.Marginals(), a, b), 1e-9),
        "sdcMicro microaggregation(mdav)": ("Microaggregate", _mask(ruv.Microaggregate(size=3, by="mdav"), a), None),
        "sdcMicro rankSwap": ("RankSwap", _mask(ruv.RankSwap(within=0.05), a), None),
        "sdcMicro addNoise": ("Noise", _mask(ruv.Noise(share=0.16), a), None),
        "sdcMicro dUtility(IL1)": ("IL1s", _value(ruv.measures.IL1s(), a, b), None),
        "synthpop syn(cart)": ("Synthesize", _mask(ruv.Synthesize(method="cart"), a), None),
        "synthpop utility.gen(logit)": ("Propensity", _value(ruv.measures.Propensity(), a, b), None),
    }
    for name, (mine, work, within) in ours.items():
        if name not in found:
            package = name.split()[0]
            yield Absent(name, "not installed here" if package not in found.get("packages", ()) else "no answer")
            continue
        theirs, value = found[name]
        if within is not None and not abs(float(work()) - value) <= within:
            raise AssertionError(f"{name}: {float(work())!r} and {value!r} are not the same number")
        seconds, _ = race(work, lambda: None, rounds=3)
        kind = "" if within is not None else " (the same task)"
        yield f"{name} / {mine}, n = {len(a):,}{kind}", seconds, theirs, theirs / seconds, FASTER


def _value(measure: Any, a: pd.DataFrame, b: pd.DataFrame) -> Callable[[], float]:
    return lambda: float(measure(a, b))


def _mask(mask: Any, a: pd.DataFrame) -> Callable[[], float]:
    return lambda: float(mask.release(a, 1).iloc[0, 0])
