"""Empirical risk and utility of a release and its original, imported when first used."""

from .base import Measure as Measure, Measured as Measured
from .battery import panel as panel
from .fits.estimates import Correlations as Correlations, Means as Means, Quantiles as Quantiles, Statistic as Statistic
from .fits.regression import Linear as Linear, Logistic as Logistic, Poisson as Poisson
from .risk.attribution import Disclosure as Disclosure, ReplicatedUniques as ReplicatedUniques
from .risk.closest import ClosestRecord as ClosestRecord, Linkability as Linkability, Membership as Membership
from .risk.disclosure import (
    AttributeDisclosure as AttributeDisclosure,
    ClusteringAttack as ClusteringAttack,
    IntervalDisclosure as IntervalDisclosure,
    IntruderError as IntruderError,
)
from .risk.diversity import LDiversity as LDiversity, TCloseness as TCloseness
from .risk.fellegi_sunter import FellegiSunter as FellegiSunter
from .risk.individual import (
    HouseholdRisk as HouseholdRisk,
    IndividualRisk as IndividualRisk,
    SkinnerElliot as SkinnerElliot,
)
from .risk.known_population import (
    DeltaPresence as DeltaPresence,
    KMap as KMap,
    PopulationUniques as PopulationUniques,
)
from .risk.linkage import RecordLinkage as RecordLinkage
from .risk.population_uniques import (
    LogLinearUniques as LogLinearUniques,
    PitmanUniques as PitmanUniques,
    PoissonGammaUniques as PoissonGammaUniques,
)
from .risk.records import PairedMeasure as PairedMeasure, RecordMeasure as RecordMeasure
from .risk.uniqueness import (
    KAnonymity as KAnonymity,
    SampleUniques as SampleUniques,
    SpecialUniques as SpecialUniques,
)
from .tables.distances import (
    CramersV as CramersV,
    EntropyChange as EntropyChange,
    Hellinger as Hellinger,
    PearsonC as PearsonC,
    TotalVariation as TotalVariation,
)
from .tables.loglinear import LogLinearLoss as LogLinearLoss
from .tables.willenborg import EntropyLoss as EntropyLoss, VarianceInflation as VarianceInflation
from .utility.cdf import MCM as MCM, MD as MD, mcm_maximum as mcm_maximum
from .utility.cluster import Cluster as Cluster
from .utility.distance import (
    Eigenvalues as Eigenvalues,
    EnergyDistance as EnergyDistance,
    IL1s as IL1s,
    Mahalanobis as Mahalanobis,
    SlicedWasserstein as SlicedWasserstein,
    Wasserstein as Wasserstein,
)
from .utility.divergence import DensityKL as DensityKL, InformationLoss as InformationLoss, NormalKL as NormalKL
from .utility.general import GeneralUtility as GeneralUtility
from .utility.imputation import ImputationLoss as ImputationLoss, Imputed as Imputed, little_liu as little_liu
from .utility.marginals import Marginals as Marginals, Pairwise as Pairwise
from .utility.overlap import (
    CoefficientChanges as CoefficientChanges,
    EllipsoidOverlap as EllipsoidOverlap,
    IntervalOverlap as IntervalOverlap,
)
from .utility.propensity import (
    ClusteredPropensity as ClusteredPropensity,
    Propensity as Propensity,
    TreePropensity as TreePropensity,
)
from .utility.table_utility import TableUtility as TableUtility
from .utility.train_on_release import TrainOnRelease as TrainOnRelease
