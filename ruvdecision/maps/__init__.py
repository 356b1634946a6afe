"""The risk-utility map: its table, scores, columns, storage and text."""

from .columns import Labels
from .rumap import Provenance, Row, RUMap
from .scores import Column, Score, as_score

__all__ = ["Column", "Labels", "Provenance", "RUMap", "Row", "Score", "as_score"]
