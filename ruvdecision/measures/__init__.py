"""Measures: empirical risk and utility of a release beside its original. One file per idea, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach

if TYPE_CHECKING:
    from .base import Measure, Measured
    from .cdf import MCM, MD, mcm_maximum
    from .cluster import Cluster
    from .disclosure import AttributeDisclosure, ClusteringAttack, IntervalDisclosure, IntruderError
    from .distance import Eigenvalues, EnergyDistance, IL1s, Mahalanobis, SlicedWasserstein, Wasserstein
    from .divergence import DensityKL, InformationLoss, NormalKL
    from .estimates import Correlations, Means, Quantiles, Statistic
    from .fellegi_sunter import FellegiSunter
    from .imputation import ImputationLoss, Imputed, little_liu
    from .linkage import RecordLinkage
    from .loglinear import LogLinearLoss
    from .marginals import Marginals, Pairwise
    from .overlap import CoefficientChanges, EllipsoidOverlap, IntervalOverlap
    from .population_uniques import LogLinearUniques, PitmanUniques, PoissonGammaUniques
    from .propensity import ClusteredPropensity, Propensity, TreePropensity
    from .records import PairedMeasure, RecordMeasure
    from .regression import Linear, Logistic, Poisson
    from .tables import CramersV, EntropyChange, Hellinger, PearsonC, TotalVariation
    from .uniqueness import KAnonymity, LDiversity, SampleUniques, SpecialUniques
    from .willenborg import EntropyLoss, VarianceInflation

LATER = {
    "AttributeDisclosure": "disclosure",
    "Cluster": "cluster",
    "ClusteredPropensity": "propensity",
    "ClusteringAttack": "disclosure",
    "CoefficientChanges": "overlap",
    "Correlations": "estimates",
    "CramersV": "tables",
    "DensityKL": "divergence",
    "Eigenvalues": "distance",
    "EllipsoidOverlap": "overlap",
    "EnergyDistance": "distance",
    "EntropyChange": "tables",
    "EntropyLoss": "willenborg",
    "FellegiSunter": "fellegi_sunter",
    "Hellinger": "tables",
    "IL1s": "distance",
    "ImputationLoss": "imputation",
    "Imputed": "imputation",
    "InformationLoss": "divergence",
    "IntervalDisclosure": "disclosure",
    "IntervalOverlap": "overlap",
    "IntruderError": "disclosure",
    "KAnonymity": "uniqueness",
    "LDiversity": "uniqueness",
    "Linear": "regression",
    "LogLinearLoss": "loglinear",
    "LogLinearUniques": "population_uniques",
    "Logistic": "regression",
    "MCM": "cdf",
    "MD": "cdf",
    "Mahalanobis": "distance",
    "Marginals": "marginals",
    "Means": "estimates",
    "Measure": "base",
    "Measured": "base",
    "NormalKL": "divergence",
    "PairedMeasure": "records",
    "Pairwise": "marginals",
    "PearsonC": "tables",
    "PitmanUniques": "population_uniques",
    "Poisson": "regression",
    "PoissonGammaUniques": "population_uniques",
    "Propensity": "propensity",
    "Quantiles": "estimates",
    "RecordLinkage": "linkage",
    "RecordMeasure": "records",
    "SampleUniques": "uniqueness",
    "SlicedWasserstein": "distance",
    "SpecialUniques": "uniqueness",
    "Statistic": "estimates",
    "TotalVariation": "tables",
    "TreePropensity": "propensity",
    "VarianceInflation": "willenborg",
    "Wasserstein": "distance",
    "little_liu": "imputation",
    "mcm_maximum": "cdf",
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
