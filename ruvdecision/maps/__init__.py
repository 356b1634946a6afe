"""The risk-utility map: its table, scores, columns, storage and text."""

from .columns import Labels
from .rumap import Provenance, RUMap
from .scores import Column, Score, as_score
from .show import ReleaseRow

__all__ = ["Column", "Labels", "Provenance", "RUMap", "ReleaseRow", "Score", "as_score"]
