"""Additive noise against snoopers with different knowledge, after Duncan, Keller-McNulty and Stokes (2001).

`additive_noise` draws the map, `curves` gives the same as continuous functions, `crossings` and `optimal_noise` solve
them. `empirical` maps noise on records at hand (section V of the paper), `incomes` has its exact values,
`RankPosterior` what a Bayesian snooper believes about the largest record.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import as_tuple, check_arguments, check_choice, check_filled, check_kind
from ..engines.rules import clipped_noise as incomes
from ..errors import InputError
from ..maps.columns import Labels, number_duplicates
from ..maps.rumap import Provenance, RUMap
from ..masks.noise import Noise
from ..protocols import Value
from . import bayes, exact, formulas
from .bayes import RankPosterior
from .crossing import Crossing, LeastNoise, crossings, optimal_noise
from .curve import KNOWLEDGE, METHODS, TARGETS, Curve, check_noise
from .empirical import empirical
from .populations import Masked

__all__ = [
    "Crossing",
    "Curve",
    "LeastNoise",
    "Masked",
    "RankPosterior",
    "additive_noise",
    "bayes",
    "crossings",
    "curves",
    "empirical",
    "exact",
    "formulas",
    "incomes",
    "map_curves",
    "optimal_noise",
]


def additive_noise(
    n: int | None = None,
    variance: float | None = None,
    noise_variance: ArrayLike = (),
    target: str = "typical",
    knowledge: str | Sequence[str] | None = None,
    p: float | None = None,
    method: str | Sequence[str] = "paper",
    **options: Any,
) -> RUMap:
    """Map of additive noise for one or several states of knowledge and methods.

    Parameters
    ----------
    n : int
        Number of records.
    variance : float, default 1
        Population variance of a record.
    noise_variance : array
        The grid of noise variances, lambda^2.
    target : {"typical", "value", "percentile", "maximum", "minimum"}
        "typical": a person like any other (eqs. 2 to 4). "value": a person whose value is ``tau`` (eq. 1; ``tau``
        with "typical" means the same). "percentile": the ``p``-th percentile of the population, or of the sample
        (eqs. 5, 6, 8). "maximum", "minimum": the ``rank``-th largest or smallest record (eqs. 9, 10).
    knowledge : {"population", "sample", "record"} or a list of them
        "population": the target is somebody of the population, or the population percentile. "sample": the target is
        in the file, as one of its records or as the one of that percentile or rank; which row it is is not known.
        "record": the snooper knows which released row is the target's, and uses that row. (Duncan et al. call
        knowledge of a sample percentile "record knowledge" in section 4.2; here it is "sample".) "population" if not
        given, "sample" for an extreme.
    p : float
        For target="percentile". Where n p is not whole the next rank up is used, and a note says so.
    method : {"paper", "exact", "bayes"} or a list of them
        "paper": the formulas as printed, large-sample ones for percentiles and extremes. "exact": the true
        expected error of the same rule for the n at hand. "bayes": the expected posterior variance of a snooper who
        uses Bayes' rule and knows the noise variance.
    **options
        ``rank``: for extremes, 1 is the maximum itself. ``tau`` and ``mean``: the target's value and the
        population mean; with a percentile or extreme, the value of that record (eqs. 6 and 9). ``data``: the
        records, for a typical target in the sample (eq. 3; exact: given the records). ``prior``: "flat", "known" or
        ("normal", prior variance), for method="bayes" and the informed scientist. ``variance_known=False``: a
        Bayesian snooper of a population percentile who must learn the variance too (large n). ``population``,
        ``noise``: frozen scipy.stats laws of the records and the noise (whose centre and scale are set by the
        grid), for the percentile and extreme targets by numerical convolution. ``scientist``: "mean" or
        "variance", what the scientist wants.

    Returns
    -------
    RUMap
        One row per noise variance, knowledge state and method, with columns ``target``, ``knowledge``, ``method``,
        ``formula`` and ``utility_informed``, the utility of a scientist who knows the noise variance (see
        `Curve.scientist_uncertainty`).

    Examples
    --------
    >>> rumap = additive_noise(n=200, noise_variance=[0.1, 0.2, 0.3], knowledge="record")
    >>> rumap.choose(max_risk=5.0001).release
    'Noise(variance=0.2)'
    """
    return map_curves(
        curves(n=n, variance=variance, target=target, knowledge=knowledge, p=p, method=method, **options),
        noise_variance,
    )


def curves(
    n: int | None = None,
    variance: float | None = None,
    target: str = "typical",
    knowledge: str | Sequence[str] | None = None,
    p: float | None = None,
    method: str | Sequence[str] = "paper",
    **options: Any,
) -> list[Curve]:
    """The curves of `additive_noise`, one per state of knowledge and method, as continuous functions.

    >>> [c.label for c in curves(n=200, knowledge=["sample", "record"], method="exact")]
    ['typical, sample knowledge, exact', 'typical, record knowledge, exact']
    """
    check_arguments("additive_noise", options, Curve.__dataclass_fields__)
    if n is None:
        if options.get("data") is None:
            raise InputError("additive_noise needs n, the number of records", None, "Give n=200, for example")
        n = int(np.size(options["data"]))
    check_choice("target", target, TARGETS)
    if knowledge is None:
        knowledge = "sample" if target in ("maximum", "minimum") else "population"
    states = _check_several("knowledge", knowledge, KNOWLEDGE)
    methods = _check_several("method", method, METHODS)
    common: dict[str, Any] = {"n": n, "variance": variance, "target": target, "p": p, **options}
    data = common.pop("data", None)
    result, used = [], False
    for state in states:
        for way in methods:
            # Records at hand concern the sample state of a plug-in snooper only.
            takes = data is not None and state == "sample" and way != "bayes"
            used |= takes
            result.append(Curve(knowledge=state, method=way, data=data if takes else None, **common))
    if data is not None and not used:
        got = f"knowledge {states}, method {methods}"
        raise InputError('data is for knowledge="sample" with method "paper" or "exact"', got, "Leave data out")
    return result


def map_curves(listed: Sequence[Curve], noise_variance: ArrayLike) -> RUMap:
    """A map of any curves over one grid of noise variances, such as the four of the paper's figure 4.

    >>> four = [Curve(n=200, knowledge="record"), Curve(n=200), Curve(n=200, target="percentile", p=0.99)]
    >>> len(map_curves(four, [0.1, 0.2]))
    6
    """
    do = "Use scenarios.curves(...)"
    listed = check_filled("listed", as_tuple(listed), do)
    for one in listed:
        check_kind("A curve", one, Curve, do)
    grid = np.atleast_1d(check_noise(noise_variance)).ravel()
    if grid.size == 0:
        do = "Give noise_variance=np.linspace(0, 1, 101), for example"
        raise InputError("noise_variance must list at least one variance", "none", do)
    masks = [Noise(variance=float(v)) for v in grid]
    short = _distinct_names(listed)
    many = len(listed) > 1
    texts = number_duplicates([str(m) for m in masks])
    repeat = lambda values: [x for x in values for _ in grid]  # noqa: E731
    plain = all(c.population is None and c.noise is None and c.data is None for c in listed)
    labels = [f"{name}: {text}" for name in short for text in texts] if many else list(texts)
    engines = repeat([{"paper": "closed form", "exact": "exact", "bayes": "exact"}[c.method] for c in listed])
    return RUMap.build(
        masks=masks * len(listed),
        labels=Labels(labels, repeat([f"{name}: Noise" for name in short]) if many else None),
        intruder=Value.exact(np.concatenate([c.uncertainty(grid) for c in listed])),
        scientist=Value.exact(np.concatenate([c.scientist_uncertainty(grid) for c in listed])),
        before=(repeat([c.before for c in listed]), None),
        provenance=Provenance(engines, tuple(dict.fromkeys(note for c in listed for note in c.notes))),
        columns={
            **({"user": repeat(short)} if many else {}),
            "target": repeat([c.target for c in listed]),
            "knowledge": repeat([c.knowledge for c in listed]),
            "method": repeat([c.method for c in listed]),
            "formula": repeat([c.formula for c in listed]),
            "utility_informed": np.concatenate([c.utility(grid, informed=True) for c in listed]),
        },
        attrs={
            "intruder": "; ".join(f"{name}: {c.formula}" for name, c in zip(short, listed, strict=True)),
            "scientist": "; ".join(dict.fromkeys(f"wants the population {c.scientist}" for c in listed)),
            "scenario": json.dumps([c.settings() for c in listed]) if plain else "",
        },
    )


def _distinct_names(listed: Sequence[Curve]) -> list[str]:
    """Names that tell the curves apart, no longer than they must be."""
    names = [
        f"{c.knowledge} knowledge, {c.method}"
        if len({x.target_in_words for x in listed if x.knowledge == c.knowledge}) == 1
        and len({x.target for x in listed}) == 1
        else c.label
        for c in listed
    ]
    if len(set(names)) < len(names):
        names = [f"{name} ({c.formula})" for name, c in zip(names, listed, strict=True)]
    return list(number_duplicates(names))


def _check_several(name: str, value: Any, options: Sequence[str]) -> list[str]:
    listed = list(as_tuple(value))
    if not listed or len(set(map(str, listed))) != len(listed):
        what = f"{name} must list at least one of {', '.join(map(repr, options))}, each once"
        raise InputError(what, value, f"Give {name}={options[0]!r}, for example")
    return listed
