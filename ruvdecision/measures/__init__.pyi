"""Empirical risk and utility of a release and its original, imported when first used."""

from .base import (
    Measure as Measure,
)
from .base import (
    Measured as Measured,
)
from .fits.estimates import (
    Correlations as Correlations,
)
from .fits.estimates import (
    Means as Means,
)
from .fits.estimates import (
    Quantiles as Quantiles,
)
from .fits.estimates import (
    Statistic as Statistic,
)
from .fits.regression import (
    Linear as Linear,
)
from .fits.regression import (
    Logistic as Logistic,
)
from .fits.regression import (
    Poisson as Poisson,
)
from .risk.disclosure import (
    AttributeDisclosure as AttributeDisclosure,
)
from .risk.disclosure import (
    ClusteringAttack as ClusteringAttack,
)
from .risk.disclosure import (
    IntervalDisclosure as IntervalDisclosure,
)
from .risk.disclosure import (
    IntruderError as IntruderError,
)
from .risk.fellegi_sunter import (
    FellegiSunter as FellegiSunter,
)
from .risk.linkage import (
    RecordLinkage as RecordLinkage,
)
from .risk.population_uniques import (
    LogLinearUniques as LogLinearUniques,
)
from .risk.population_uniques import (
    PitmanUniques as PitmanUniques,
)
from .risk.population_uniques import (
    PoissonGammaUniques as PoissonGammaUniques,
)
from .risk.records import (
    PairedMeasure as PairedMeasure,
)
from .risk.records import (
    RecordMeasure as RecordMeasure,
)
from .risk.uniqueness import (
    KAnonymity as KAnonymity,
)
from .risk.uniqueness import (
    LDiversity as LDiversity,
)
from .risk.uniqueness import (
    SampleUniques as SampleUniques,
)
from .risk.uniqueness import (
    SpecialUniques as SpecialUniques,
)
from .tables.distances import (
    CramersV as CramersV,
)
from .tables.distances import (
    EntropyChange as EntropyChange,
)
from .tables.distances import (
    Hellinger as Hellinger,
)
from .tables.distances import (
    PearsonC as PearsonC,
)
from .tables.distances import (
    TotalVariation as TotalVariation,
)
from .tables.loglinear import (
    LogLinearLoss as LogLinearLoss,
)
from .tables.willenborg import (
    EntropyLoss as EntropyLoss,
)
from .tables.willenborg import (
    VarianceInflation as VarianceInflation,
)
from .utility.cdf import (
    MCM as MCM,
)
from .utility.cdf import (
    MD as MD,
)
from .utility.cdf import (
    mcm_maximum as mcm_maximum,
)
from .utility.cluster import (
    Cluster as Cluster,
)
from .utility.distance import (
    Eigenvalues as Eigenvalues,
)
from .utility.distance import (
    EnergyDistance as EnergyDistance,
)
from .utility.distance import (
    IL1s as IL1s,
)
from .utility.distance import (
    Mahalanobis as Mahalanobis,
)
from .utility.distance import (
    SlicedWasserstein as SlicedWasserstein,
)
from .utility.distance import (
    Wasserstein as Wasserstein,
)
from .utility.divergence import (
    DensityKL as DensityKL,
)
from .utility.divergence import (
    InformationLoss as InformationLoss,
)
from .utility.divergence import (
    NormalKL as NormalKL,
)
from .utility.imputation import (
    ImputationLoss as ImputationLoss,
)
from .utility.imputation import (
    Imputed as Imputed,
)
from .utility.imputation import (
    little_liu as little_liu,
)
from .utility.marginals import (
    Marginals as Marginals,
)
from .utility.marginals import (
    Pairwise as Pairwise,
)
from .utility.overlap import (
    CoefficientChanges as CoefficientChanges,
)
from .utility.overlap import (
    EllipsoidOverlap as EllipsoidOverlap,
)
from .utility.overlap import (
    IntervalOverlap as IntervalOverlap,
)
from .utility.propensity import (
    ClusteredPropensity as ClusteredPropensity,
)
from .utility.propensity import (
    Propensity as Propensity,
)
from .utility.propensity import (
    TreePropensity as TreePropensity,
)
