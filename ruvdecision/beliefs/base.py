"""What a belief offers beyond its number of records, its parameters and a draw of the records."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from ..checks import Data
from ..errors import UnsupportedError
from ..protocols import Array
from ..targets import BaseTarget


class DrawnFile(NamedTuple):
    """A data set from a belief, with what it came from."""

    table: Data
    """As masks take it."""
    records: Array
    """As losses see them: ``(n,)``, ``(n, k)``, or a table of counts."""
    parameters: Mapping[str, Array]
    new: Array | None = None
    """Somebody outside the file, where that was asked for or costs nothing."""


class BaseBelief:
    """What follows from ``records``, ``parameters`` and ``draw(rng)``, which a belief that derives from it defines."""

    columns: Sequence[Hashable] | None = None
    """Names of the variables of a record, where they have any."""

    if TYPE_CHECKING:
        # A field of that name would take a property for its default.
        @property
        def records(self) -> int: ...
        @property
        def parameters(self) -> tuple[str, ...]: ...

    def draw(self, rng: np.random.Generator) -> Data:
        """Draw a data set from the belief, as the masks take it."""
        raise NotImplementedError(f"{type(self).__name__} must define draw(rng)")

    def draw_with_parameters(self, rng: np.random.Generator) -> tuple[Any, dict[str, Array]]:
        """Draw records and the parameters that they came from, as far as the belief says them."""
        return self.draw(rng), {}

    def draw_file(self, rng: np.random.Generator, new: bool = False) -> DrawnFile:
        """Draw a data set and what it came from; ``new`` asks for somebody outside the file, too."""
        if new:
            do = "Define draw_file(rng, new) in it, or ask for a record of the file"
            raise UnsupportedError(f"{type(self).__name__} draws nobody outside the file", None, do)
        return self._as_file(*self.draw_with_parameters(rng))

    def _as_file(self, records: Any, parameters: Mapping[str, Array], new: Array | None = None) -> DrawnFile:
        table = pd.DataFrame(records, columns=self.column_names(len(records)))
        return DrawnFile(table, np.asarray(records, dtype=np.float64), parameters, new)

    def describe(self) -> str:
        """What is believed, in words."""
        return repr(self)

    def column_names(self, n: int | None = None) -> Sequence[Hashable] | None:
        """Names of the variables of a record in a file of n."""
        return self.columns

    def entry_names(self, name: str, n: int | None = None) -> Sequence[Sequence[Hashable]]:
        """Names of the entries of a parameter along each of its axes."""
        return ()

    def check_target(self, target: BaseTarget) -> None:
        """Raise an error if the belief does not have this target."""

    def labels_of(self, target: BaseTarget) -> bool:
        """Whether a target's values are labels, which have no distances."""
        return False
