"""Pictures of maps, posteriors and decisions.

Each takes ``ax=None`` and gives back the Axes; matplotlib is imported then.
"""

from .files import files
from .gallery import frontier3, maps, uncertainty
from .knowledge import knowledge
from .map import limit, rumap
from .posterior import posteriors
from .record_risk import publishing, record_risk
from .tables import tables
from .theme import theme
from .tornado import tornado

__all__ = [
    "files",
    "frontier3",
    "knowledge",
    "limit",
    "maps",
    "posteriors",
    "publishing",
    "record_risk",
    "rumap",
    "tables",
    "theme",
    "tornado",
    "uncertainty",
]
