"""One curve of an additive-noise map: a snooper with a target, a state of knowledge and a method."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.stats.distributions import rv_frozen

from ..checks import (
    Data,
    as_float_array,
    check_choice,
    check_finite,
    check_flag,
    check_integer,
    check_number,
    check_vector,
)
from ..errors import InputError, UnsupportedError
from ..numerics.orderstatistics import normal_moments, percentile_rank
from ..protocols import Array
from ..targets import Percentile
from . import bayes, exact, formulas
from .bayes import Prior
from .populations import Masked, check_law, is_normal

LARGEST_VARIANCE = 1e300
"""Sums of squares of such noise are still numbers."""
TARGETS = ("typical", "value", "percentile", "maximum", "minimum")
KNOWLEDGE = ("population", "sample", "record")
METHODS = ("paper", "exact", "bayes")
SCIENTISTS = ("mean", "variance")


@dataclass(frozen=True, eq=False)
class Curve:
    """The uncertainty of one snooper and one scientist as a function of the noise variance.

    The arguments are those of `additive_noise`, with one knowledge state and one method. A curve is continuous:
    ask it for any noise variance, or give curves to `crossings` and `optimal_noise`.

    Examples
    --------
    >>> curve = Curve(n=200, target="maximum", knowledge="sample", method="exact")
    >>> round(float(curve.risk(0.21)), 6)
    4.964624
    """

    n: int
    variance: float | None = None
    target: str = "typical"
    knowledge: str = "population"
    method: str = "paper"
    p: float | None = None
    rank: int | None = None
    tau: float | None = None
    mean: float | None = None
    data: Data | None = field(default=None, repr=False)
    prior: Prior = "flat"
    variance_known: bool = True
    population: rv_frozen | None = None
    noise: rv_frozen | None = None
    scientist: str = "mean"

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("n", check_integer("n", self.n, low=1))
        check_choice("target", self.target, TARGETS)
        check_choice("knowledge", self.knowledge, KNOWLEDGE)
        check_choice("method", self.method, METHODS)
        check_choice("scientist", self.scientist, SCIENTISTS)
        self._check_population(put)
        self._check_target(put)
        self._check_method(put)
        if self.scientist == "variance" and self.n < 2:
            raise InputError("A scientist who wants the variance needs at least two records", self.n, "Use a larger n")

    # -- what it says --------------------------------------------------------------------------------------

    @property
    def normal(self) -> bool:
        """True if records and noise are normal."""
        return self.population is None

    @property
    def order(self) -> int | None:
        """Rank of the order statistic that is meant, counted from the smallest; None for a typical target."""
        if self.target == "percentile":
            assert self.p is not None
            return percentile_rank(self.n, self.p)
        if self.target in ("maximum", "minimum"):
            assert self.rank is not None
            return self.n + 1 - self.rank if self.target == "maximum" else self.rank
        return None

    @property
    def target_in_words(self) -> str:
        """The target in words."""
        if self.target == "percentile":
            return f"{'population' if self.knowledge == 'population' else 'sample'} percentile {self.p:g}"
        if self.target in ("maximum", "minimum"):
            place = f"{_ordinal(self.rank or 1)} {'largest' if self.target == 'maximum' else 'smallest'}"
            return self.target if self.rank == 1 else place
        return "typical" if self.tau is None else f"value {self.tau:g}"

    @property
    def label(self) -> str:
        """Target, knowledge and method in words."""
        return f"{self.target_in_words}, {self.knowledge} knowledge, {self.method}"

    @property
    def formula(self) -> str:
        """What the number is: the paper's equation, the exact error of the same rule, or the Bayes rule."""
        if self.method == "bayes":
            shown = {"flat": "flat prior", "known": "known mean"}.get(str(self.prior), "normal prior")
            return f"posterior variance, {shown}" + ("" if self.variance_known else ", unknown variance (large n)")
        if self.knowledge == "record":
            return "eq. 4, Y_i"
        paper = self.method == "paper"
        if self.order is not None:
            estimate = f"Y_({self.order})"
            if not paper:
                return f"exact error of {estimate}"
            number = {"percentile": "8" if self.normal else "5"}.get(self.target, "10")
            if self.tau is not None:
                number = {"8": "6", "5": "6", "10": "9"}[number]
            return f"eq. {number}, {estimate}"
        if not paper:
            return "exact error of the released mean"
        return f"eq. {1 if self.tau is not None else 3 if self.data is not None else 2}, released mean"

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks that a reader of the curve should have."""
        note = Percentile(float(self.p or 0.0)).note(self.n) if self.target == "percentile" else ""
        return (note,) if note else ()

    # -- the numbers -----------------------------------------------------------------------------------------

    def uncertainty(self, noise_variance: ArrayLike) -> Array:
        """The snooper's expected squared error at each noise variance."""
        grid = check_noise(noise_variance)
        result = self._snooper_uncertainty(np.atleast_1d(grid).ravel())
        return np.asarray(np.broadcast_to(result, (grid.size,)).reshape(grid.shape))

    def risk(self, noise_variance: ArrayLike) -> Array:
        """Reciprocal of `uncertainty`; infinite where nothing is uncertain."""
        return _reciprocal(self.uncertainty(noise_variance))

    def scientist_uncertainty(self, noise_variance: ArrayLike, *, informed: bool = False) -> Array:
        """The scientist's expected squared error: with the plug-in rule, or knowing the noise variance.

        A scientist who wants the mean takes the released mean. Knowing lambda changes nothing under a flat
        prior; with a normal prior the informed scientist has the posterior variance V. (Where the snooper's
        prior is a known mean the scientist still has a flat one: there would be nothing to learn.) A scientist
        who wants the variance takes S_y^2; who knows lambda subtracts lambda^2.
        """
        grid = check_noise(noise_variance)
        v = float(self.variance or 0.0)
        if self.scientist == "mean":
            prior = self.prior if informed and self.prior not in bayes.NAMED else "flat"
            return bayes.posterior_variance_of_mean(self.n, v, grid, prior)
        own = 3.0 if self.population is None else float(self.population.stats(moments="k")) + 3.0
        noise = 3.0 if self.noise is None else float(self.noise.stats(moments="k")) + 3.0
        fourth = own * v**2 + 6 * v * grid + noise * grid**2  # central moment of a released record
        return formulas.scientist_variance_mse(self.n, fourth, v, grid)[1 if informed else 0]

    def utility(self, noise_variance: ArrayLike, *, informed: bool = False) -> Array:
        """Reciprocal of `scientist_uncertainty`."""
        return _reciprocal(self.scientist_uncertainty(noise_variance, informed=informed))

    @property
    def before(self) -> float:
        """The Bayesian snooper's uncertainty before any release; NaN for a plug-in rule, which has no belief."""
        if self.method != "bayes":
            return float("nan")
        v, mean = float(self.variance or 0.0), bayes.prior_variance(self.prior)
        if self.order is not None and self.knowledge == "population":
            return float(mean if self.variance_known else np.inf)
        own = v if self.order is None or self.knowledge == "record" else v * normal_moments(self.n, self.order).variance
        return float(mean + own)

    # -- dispatch ----------------------------------------------------------------------------------------------

    def _snooper_uncertainty(self, grid: Array) -> Array:
        n, v = self.n, float(self.variance or 0.0)
        if self.method == "bayes":
            return self._bayes_uncertainty(n, v, grid)
        if self.knowledge == "record":
            # Whatever the target: its own record is released with this noise.
            return formulas.linked_record_mse(grid)
        if self.order is None:
            return self._average_target_uncertainty(n, v, grid)
        return (
            self._order_statistic_uncertainty(n, v, grid)
            if self.normal
            else np.array([self._uncertainty_by_convolution(n, float(x)) for x in grid])
        )

    def _average_target_uncertainty(self, n: int, v: float, grid: Array) -> Array:
        sample, paper = self.knowledge == "sample", self.method == "paper"
        if self.tau is not None:
            rule = exact.sample_given_target_mse if sample and not paper else formulas.given_target_mse
            return rule(n, v, grid, self.tau - float(self.mean or 0.0))
        if self.data is not None:
            if not paper:
                return exact.sample_given_data_mse(self.data, grid)
            return formulas.sample_average_target_mse(
                n, v, grid, float(np.sum((np.asarray(self.data) - float(self.mean or 0.0)) ** 2))
            )
        rule2 = exact.sample_average_target_mse if sample and not paper else formulas.average_target_mse
        return rule2(n, v, grid)

    def _order_statistic_uncertainty(self, n: int, v: float, grid: Array) -> Array:
        order = self.order or 1
        distance = None if self.tau is None else self.tau - float(self.mean or 0.0)
        if self.method == "paper":
            if self.target == "percentile":
                return formulas.percentile_mse(n, v, grid, float(self.p or 0.5), distance)
            flip = -1.0 if self.target == "minimum" else 1.0
            return formulas.extreme_mse(n, v, grid, self.rank or 1, None if distance is None else flip * distance)
        if self.knowledge == "population":
            return exact.population_percentile_mse(n, v, grid, float(self.p or 0.5), order)
        if distance is None:
            return exact.order_statistic_mse(n, v, grid, order)
        law = stats.norm(0.0, np.sqrt(v))
        return np.array([float(Masked(law, float(x)).given_value(n, order, distance)[0]) for x in grid])

    def _uncertainty_by_convolution(self, n: int, noise_variance: float) -> float:
        masked = Masked(self.population, noise_variance, self.noise)
        order, p = self.order or 1, float(self.p or 0.5)
        if self.method == "paper":
            return masked.asymptotic_percentile_mse(n, p, self.tau)
        if self.knowledge == "population":
            return masked.population_percentile_mse(n, p, order)
        if self.tau is None:
            return masked.order_statistic_mse(n, order)
        return float(masked.given_value(n, order, self.tau)[0])

    def _bayes_uncertainty(self, n: int, v: float, grid: Array) -> Array:
        if self.order is None or self.knowledge == "record":
            return bayes.uncertainty(n, v, grid, self.prior, self.knowledge)
        if self.knowledge == "sample":
            return bayes.order_statistic_mse(n, v, grid, self.order, self.prior)
        if not self.variance_known:
            return bayes.percentile_mse_with_unknown_variance(n, v, grid, float(self.p or 0.5))
        return bayes.uncertainty(n, v, grid, self.prior, self.knowledge, percentile=True)

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_population(self, put: Callable[[str, object], None]) -> None:
        if self.noise is not None:
            check_law("noise", self.noise)
            if is_normal(self.noise):
                put("noise", None)
        law = self.population
        if law is not None:
            check_law("population", law)
            moments = (("variance", self.variance, float(law.var())), ("mean", self.mean, float(law.mean())))
            for name, given, value in moments:
                if given is not None and not np.isclose(given, value, rtol=1e-9, atol=1e-12):
                    do = f"Leave {name} out"
                    raise InputError(f"{name} contradicts population, which has {name} {value:g}", given, do)
                put(name, value)
            if is_normal(law) and self.noise is None:
                put("population", None)
        put("variance", check_number("variance", 1.0 if self.variance is None else self.variance, low=0, open_low=True))
        put("mean", check_number("mean", 0.0 if self.mean is None else self.mean))
        if self.noise is not None and self.population is None:
            put("population", stats.norm(float(self.mean or 0.0), np.sqrt(float(self.variance or 1.0))))

    def _check_target(self, put: Callable[[str, object], None]) -> None:
        extreme = self.target in ("maximum", "minimum")
        if self.target == "percentile":
            if self.p is None:
                raise InputError('target="percentile" needs p', None, "Give p=0.99, for example")
            put("p", check_number("p", self.p, low=0, high=1, open_low=True, open_high=True))
        elif self.p is not None:
            raise InputError('p is for target="percentile"', self.p, "Leave p out, or change the target")
        if extreme:
            put("rank", check_integer("rank", 1 if self.rank is None else self.rank, low=1, high=self.n))
            if self.knowledge == "population":
                what = f"A {self.target} belongs to the sample: knowledge must be 'sample' or 'record'"
                raise InputError(what, self.knowledge, 'Use target="percentile" for a population value')
        elif self.rank is not None:
            raise InputError('rank is for target="maximum" or "minimum"', self.rank, "Use p= for a percentile")
        if self.target == "value" and self.tau is None:
            do = 'Give tau=, or use target="typical" for the average over targets'
            raise InputError('target="value" needs tau, the value of the target', None, do)
        if self.tau is not None:
            put("tau", check_number("tau", self.tau))
            if self.method == "bayes":
                what = "A Bayesian snooper does not know tau, so there is no curve for a given tau"
                raise UnsupportedError(what, self.tau, 'Leave tau out, or use method="exact"')
            if self.target == "percentile" and self.knowledge == "population":
                do = 'Leave tau out, or use knowledge="sample"'
                raise InputError("The population percentile is a value already", self.tau, do)
        if self.data is not None:
            if self.order is not None or self.tau is not None or self.knowledge != "sample" or self.method == "bayes":
                what = 'data is for a typical target with knowledge="sample" and method "paper" or "exact"'
                raise InputError(what, self.label, "Leave data out")
            put("data", check_vector("data", self.data, self.n))

    def _check_method(self, put: Callable[[str, object], None]) -> None:
        extreme = self.target in ("maximum", "minimum")
        if self.method == "paper" and extreme and self.knowledge == "sample":
            if not self.normal:
                what = "The paper's constants for extremes hold for normal records and noise only"
                raise UnsupportedError(what, str(self.population), 'Use method="exact"')
            if self.n < 2:
                what = "The paper's constants for extremes need at least two records"
                raise InputError(what, self.n, 'Use method="exact"')
        put("prior", bayes.check_prior(self.prior))
        if self.method == "bayes" and not self.normal:
            what = "The Bayes snooper has a closed form for normal records and noise only"
            raise UnsupportedError(what, str(self.population), 'Use method="exact", or a normal population')
        check_flag("variance_known", self.variance_known, "Write variance_known=False for an unknown variance")
        asked = {"method": "bayes", "target": "percentile", "knowledge": "population", "prior": "flat"}
        if not self.variance_known and any(vars(self)[name] != value for name, value in asked.items()):
            given = ", ".join(f'{name}="{value}"' for name, value in asked.items())
            raise UnsupportedError(f"variance_known=False is available for {given}", self.label, "Leave it out")

    def settings(self) -> dict[str, object]:
        """The arguments that differ from their defaults, without data."""
        given = {}
        for f in dataclasses.fields(self):
            value = vars(self)[f.name]
            if f.name != "data" and value is not None and (f.default is dataclasses.MISSING or value != f.default):
                given[f.name] = value
        return given


def check_noise(noise_variance: ArrayLike) -> Array:
    """Return noise variances as an array of finite, non-negative numbers."""
    grid = check_finite("noise_variance", as_float_array("noise_variance", noise_variance))
    if np.any(grid < 0):
        raise InputError("noise_variance must not be negative", float(grid.min()), "Give the variance of the noise")
    if np.any(grid > LARGEST_VARIANCE):
        got, do = float(grid.max()), "Use larger units"
        raise InputError(f"noise_variance must be at most {LARGEST_VARIANCE:g}", got, do)
    return grid


def _reciprocal(value: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / value)


def _ordinal(k: int) -> str:
    ending = "th" if 10 <= k % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(k % 10, "th")
    return f"{k}{ending}"
