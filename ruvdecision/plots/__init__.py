"""Pictures of maps, posteriors and decisions.

Each takes ``ax=None`` and gives back the Axes; matplotlib is imported then.
"""

from .analyses import publishing, record_risk, tornado
from .files import files, tables
from .gallery import frontier3, maps, uncertainty
from .knowledge import knowledge
from .map import limit, rumap
from .posterior import posteriors
from .theme import theme

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
