"""Pictures of maps, posteriors and decisions.

Each takes ``ax=None`` and gives back the Axes; matplotlib is imported then.
"""

from .gallery import plot_frontier3 as frontier3
from .gallery import plot_maps as maps
from .gallery import plot_uncertainty as uncertainty
from .knowledge import plot_knowledge as knowledge
from .map import plot_limit as limit
from .map import plot_map as rumap
from .posterior import plot_posteriors as posteriors
from .record_risk import plot_publishing as publishing
from .record_risk import plot_record_risk as record_risk
from .theme import theme
from .tornado import plot_tornado as tornado

__all__ = [
    "frontier3",
    "knowledge",
    "limit",
    "maps",
    "posteriors",
    "publishing",
    "record_risk",
    "rumap",
    "theme",
    "tornado",
    "uncertainty",
]
