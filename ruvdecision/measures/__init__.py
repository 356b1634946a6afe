"""Measures: empirical risk and utility of a release beside its original. One file per idea, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .base import Measure, Measured
    from .fits.estimates import Correlations, Means, Quantiles, Statistic
    from .fits.regression import Linear, Logistic, Poisson
    from .risk.disclosure import AttributeDisclosure, ClusteringAttack, IntervalDisclosure, IntruderError
    from .risk.fellegi_sunter import FellegiSunter
    from .risk.linkage import RecordLinkage
    from .risk.population_uniques import LogLinearUniques, PitmanUniques, PoissonGammaUniques
    from .risk.records import PairedMeasure, RecordMeasure
    from .risk.uniqueness import KAnonymity, LDiversity, SampleUniques, SpecialUniques
    from .tables.distances import CramersV, EntropyChange, Hellinger, PearsonC, TotalVariation
    from .tables.loglinear import LogLinearLoss
    from .tables.willenborg import EntropyLoss, VarianceInflation
    from .utility.cdf import MCM, MD, mcm_maximum
    from .utility.cluster import Cluster
    from .utility.distance import Eigenvalues, EnergyDistance, IL1s, Mahalanobis, SlicedWasserstein, Wasserstein
    from .utility.divergence import DensityKL, InformationLoss, NormalKL
    from .utility.imputation import ImputationLoss, Imputed, little_liu
    from .utility.marginals import Marginals, Pairwise
    from .utility.overlap import CoefficientChanges, EllipsoidOverlap, IntervalOverlap
    from .utility.propensity import ClusteredPropensity, Propensity, TreePropensity

LATER = {
    "AttributeDisclosure": "risk.disclosure",
    "Cluster": "utility.cluster",
    "ClusteredPropensity": "utility.propensity",
    "ClusteringAttack": "risk.disclosure",
    "CoefficientChanges": "utility.overlap",
    "Correlations": "fits.estimates",
    "CramersV": "tables.distances",
    "DensityKL": "utility.divergence",
    "Eigenvalues": "utility.distance",
    "EllipsoidOverlap": "utility.overlap",
    "EnergyDistance": "utility.distance",
    "EntropyChange": "tables.distances",
    "EntropyLoss": "tables.willenborg",
    "FellegiSunter": "risk.fellegi_sunter",
    "Hellinger": "tables.distances",
    "IL1s": "utility.distance",
    "ImputationLoss": "utility.imputation",
    "Imputed": "utility.imputation",
    "InformationLoss": "utility.divergence",
    "IntervalDisclosure": "risk.disclosure",
    "IntervalOverlap": "utility.overlap",
    "IntruderError": "risk.disclosure",
    "KAnonymity": "risk.uniqueness",
    "LDiversity": "risk.uniqueness",
    "Linear": "fits.regression",
    "LogLinearLoss": "tables.loglinear",
    "LogLinearUniques": "risk.population_uniques",
    "Logistic": "fits.regression",
    "MCM": "utility.cdf",
    "MD": "utility.cdf",
    "Mahalanobis": "utility.distance",
    "Marginals": "utility.marginals",
    "Means": "fits.estimates",
    "Measure": "base",
    "Measured": "base",
    "NormalKL": "utility.divergence",
    "PairedMeasure": "risk.records",
    "Pairwise": "utility.marginals",
    "PearsonC": "tables.distances",
    "PitmanUniques": "risk.population_uniques",
    "Poisson": "fits.regression",
    "PoissonGammaUniques": "risk.population_uniques",
    "Propensity": "utility.propensity",
    "Quantiles": "fits.estimates",
    "RecordLinkage": "risk.linkage",
    "RecordMeasure": "risk.records",
    "SampleUniques": "risk.uniqueness",
    "SlicedWasserstein": "utility.distance",
    "SpecialUniques": "risk.uniqueness",
    "Statistic": "fits.estimates",
    "TotalVariation": "tables.distances",
    "TreePropensity": "utility.propensity",
    "VarianceInflation": "tables.willenborg",
    "Wasserstein": "utility.distance",
    "little_liu": "utility.imputation",
    "mcm_maximum": "utility.cdf",
}
if not TYPE_CHECKING:  # or every name would be taken to exist, and to be of any type
    __getattr__, __dir__, _ = attach(__name__, LATER)

__all__ = [
    "MCM",
    "MD",
    "AttributeDisclosure",
    "Cluster",
    "ClusteredPropensity",
    "ClusteringAttack",
    "CoefficientChanges",
    "Correlations",
    "CramersV",
    "DensityKL",
    "Eigenvalues",
    "EllipsoidOverlap",
    "EnergyDistance",
    "EntropyChange",
    "EntropyLoss",
    "FellegiSunter",
    "Hellinger",
    "IL1s",
    "ImputationLoss",
    "Imputed",
    "InformationLoss",
    "IntervalDisclosure",
    "IntervalOverlap",
    "IntruderError",
    "KAnonymity",
    "LDiversity",
    "Linear",
    "LogLinearLoss",
    "LogLinearUniques",
    "Logistic",
    "Mahalanobis",
    "Marginals",
    "Means",
    "Measure",
    "Measured",
    "NormalKL",
    "PairedMeasure",
    "Pairwise",
    "PearsonC",
    "PitmanUniques",
    "Poisson",
    "PoissonGammaUniques",
    "Propensity",
    "Quantiles",
    "RecordLinkage",
    "RecordMeasure",
    "SampleUniques",
    "SlicedWasserstein",
    "SpecialUniques",
    "Statistic",
    "TotalVariation",
    "TreePropensity",
    "VarianceInflation",
    "Wasserstein",
    "little_liu",
    "mcm_maximum",
]
