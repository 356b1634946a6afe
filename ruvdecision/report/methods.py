"""What a report says about its method, and where that comes from."""

from __future__ import annotations

from collections.abc import Sequence

from .. import measures
from ..maps.columns import attr_as_list
from ..maps.rumap import RUMap
from ..maps.show import better_end
from .diagnostics import has_errors, is_diagnostic

PAPERS = {
    "TF": "M. Trottini and S. E. Fienberg (2002). Modelling user uncertainty for disclosure risk and data utility. "
    "International Journal of Uncertainty, Fuzziness and Knowledge-Based Systems 10(5), 511–527.",
    "DKS": "G. T. Duncan, S. A. Keller-McNulty and S. L. Stokes (2001). Disclosure risk vs. data utility: the R-U "
    "confidentiality map. Technical report, National Institute of Statistical Sciences.",
    "K6": "A. F. Karr, C. N. Kohnen, A. Oganian, J. P. Reiter and A. P. Sanil (2006). A framework for evaluating the "
    "utility of data "
    "altered to protect confidentiality. Technical report 153, National Institute of Statistical Sciences.",
    "KORW": "A. F. Karr, A. Oganian, J. P. Reiter and M.-J. Woo. New measures of data utility.",
    "W": "W. E. Winkler (2004). Masking and re-identification methods for public-use microdata: overview and research "
    "problems. Research Report Series (Statistics 2004-06), U.S. Bureau of the Census.",
    "V21": "A. Vehtari, A. Gelman, D. Simpson, B. Carpenter and P.-C. Bürkner (2021). Rank-normalization, folding, and "
    "localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2), 667–718.",
    "V24": "A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry (2024). Pareto smoothed importance sampling. "
    "Journal of Machine Learning Research 25(72), 1–58.",
}


def method_notes(maps: Sequence[RUMap]) -> list[str]:
    """One paragraph per idea that these maps make use of."""
    notes = []
    if _has_models(maps):
        notes.append(
            "Each user is a decision maker with a belief, a target and a loss. After a release the user takes the "
            "estimate with the least expected loss; that least expected loss is the user's uncertainty, U = min over d "
            "of E[ loss(d, target) | release ]. (A user with a fixed rule takes that rule's estimate instead of the "
            "best one.) Risk is a decreasing function of the intruder's U and utility of the scientist's (Trottini and "
            "Fienberg 2002). U is averaged over releases before the function is applied, so the order of releases does "
            "not depend on which decreasing function it is."
        )
    notes.append(
        "The map sets the risk of every candidate release against its utility (Duncan, Keller-McNulty and Stokes "
        "2001). A release is on the frontier if no other one has at most its risk and at least its utility and is "
        "strictly better in one of them (Karr et al. 2006). The chosen release has the greatest utility among those "
        "whose risk is at most the threshold; ties go to the lower risk."
    )
    if any("scenario" in m.attrs for m in maps):
        notes.append(
            "Risks of additive noise are those of a snooper who knows the target's row, its rank in the file or its "
            "place in the population (Duncan, Keller-McNulty and Stokes 2001, section IV)."
        )
    if _has_measures(maps):
        notes.append(
            "Measures compare a released data set with the original: overlap of confidence regions and divergence "
            "(Karr et al. 2006), distribution functions, clusters and propensity scores (Karr, Oganian, Reiter and "
            "Woo), record linkage (Winkler 2004). They describe one data set, whereas U speaks of what a user believes."
        )
    if any(u.members for m in maps for u in m.users or ()):
        notes.append(
            "A panel is several users in the place of one. Of intruders the one who knows most counts, the least U, "
            "unless the study says otherwise; of scientists the mean counts."
        )
    if _has_sampling_diagnostics(maps):
        notes.append(
            "Some posteriors were sampled. Such a number carries its Monte Carlo error, and a release is marked where "
            "the sampler did not converge: R-hat above 1.01, an effective sample size below 400 (or a tenth of the "
            "draws, if these are fewer than 4,000), a divergence, or a Pareto k of 0.7 or more where draws of one "
            "release were weighted for another (Vehtari et al. 2021, 2024)."
        )
    if any(has_errors(m).any() for m in maps):
        notes.append(
            "Probabilities of meeting the threshold and of being on the frontier take errors as normal and independent "
            "between releases."
        )
    notes.append(
        "An error after ± is one standard error; numbers without one are exact up to rounding, or were given without "
        "an error. The fingerprint is a hash of the map's labels and numbers: the same map gives the same fingerprint, "
        "and the same report byte by byte (but for its date)."
    )
    return notes


def measure_meanings(rumap: RUMap) -> list[tuple[str, str]]:
    """Each measure of a map with one sentence of what it is and where it comes from, as its class says."""
    found = []
    for name, text in zip(better_end(rumap), attr_as_list(rumap.attrs.get("measures") or []), strict=False):
        kind = getattr(measures, str(text).partition("(")[0], None)
        if kind is None or not kind.__doc__:
            continue
        means = kind.__doc__.splitlines()[0].rstrip(".").removeprefix(f"{name}: ")
        source = f" ({kind.reference})" if kind.reference else ""
        found.append((name, f"{means}{source}: {text}."))
    return found


def references(maps: Sequence[RUMap]) -> list[str]:
    """The papers that the notes name."""
    keys = (
        ["TF"] * _has_models(maps)
        + ["DKS", "K6"]
        + ["KORW", "W"] * _has_measures(maps)
        + ["V21", "V24"] * _has_sampling_diagnostics(maps)
    )
    return [PAPERS[key] for key in keys]


def _has_models(maps: Sequence[RUMap]) -> bool:
    return any(score.column is None for m in maps for score in (m.risk_score, m.utility_score))


def _has_sampling_diagnostics(maps: Sequence[RUMap]) -> bool:
    """True if an engine wrote diagnostics of draws."""
    return any(k.endswith(("_rhat", "_ess_bulk", "_khat")) and is_diagnostic(m, k) for m in maps for k in m.columns)


def _has_measures(maps: Sequence[RUMap]) -> bool:
    """True if a map has columns of numbers that are not an engine's notes on its own work."""
    return any(
        not is_diagnostic(m, k) and v.dtype.kind in "biuf"
        for m in maps
        if "scenario" not in m.attrs
        for k, v in m.columns.items()
    )
