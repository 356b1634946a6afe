"""What a synthetic or resized file gives away to an intruder who looks up keys in it: no record is paired with another.

Numbers and names are those of Raab, Nowok and Dibben (synthpop's ``disclosure``): for each combination q of keys and
each value t of the target, d counts the original's records and s the release's. The files may have any number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from ...checks import checked
from ...errors import UnsupportedError
from ...protocols import Array
from .. import frames
from ..base import Measured
from ..frames import Ints, Names
from ..tables import cells
from .records import AveragedMeasure


@dataclass(frozen=True, repr=False)
class _KeysInBoth(AveragedMeasure):
    """A risk from the combinations of keys in both files, for the records of the original."""

    own_missing: ClassVar[tuple[str, ...]] = ("category",)

    per_record_file: ClassVar[str] = "original"
    keys: Names = checked(None, frames.as_names)


@dataclass(frozen=True, repr=False)
class ReplicatedUniques(_KeysInBoth):
    """How many records that are unique in the original are unique in the release with the same keys.

    A synthetic record that replicates a unique one tells that somebody with these keys exists, and the file's readers
    will take it for him. `per_record` gives 1 for the original's replicated uniques.

    Parameters
    ----------
    keys : names, optional
        The columns that an intruder knows; all by default.
    share : bool
        Give the share of the original's records instead of their number.

    Notes
    -----
    ``parts`` has synthpop's counts: uniques of the ``original``, of the ``synthetic`` file,
    ``synthetic_uniques_in_original`` (in any number) and ``replicated_uniques``.

    Examples
    --------
    >>> float(ReplicatedUniques()([1, 1, 2, 3], [1, 2, 3, 3, 4]))
    1.0
    """

    label: ClassVar[str] = "replicated_uniques"
    reference: ClassVar[str] = "Nowok, Raab and Dibben (2016), Journal of Statistical Software 74, 11"

    share: bool = False

    def weigh(self, found: Measured, weights: Array) -> Measured:
        """The weighted share, or as many records as that share of the file is."""
        share = super().weigh(Measured(found.parts["share"], 0.0, found.parts, None, found.records), weights)
        value = float(share) if self.share else float(share) * len(weights)
        return Measured(value, 0.0, share.parts | {"share": float(share)}, None, share.records)

    def compare(self, state: pd.DataFrame, released: pd.DataFrame) -> Measured:
        """Count."""
        (ours, theirs), size = cells.joint_codes_of_tables(state, released)
        d, s = np.bincount(ours, minlength=size), np.bincount(theirs, minlength=size)
        both = (d == 1) & (s == 1)
        parts = {
            "original": float((d == 1).sum()),
            "synthetic": float((s == 1).sum()),
            "synthetic_uniques_in_original": float(((s == 1) & (d > 0)).sum()),
            "replicated_uniques": float(both.sum()),
            "share": float(both.sum() / len(state)),
        }
        value = parts["share" if self.share else "replicated_uniques"]
        return Measured(value, parts=parts, records=both[ours].astype(np.float64))


@dataclass(frozen=True, repr=False)
class Disclosure(_KeysInBoth):
    """Share of the original's records whose target value the release gives away: disclosive and correct, DiSCO.

    An intruder looks up a respondent's keys in the release. If all records that he finds there have the same target
    value he believes it; DiSCO counts the records for which he is right. No record is linked, so files may be synthetic
    and of any length. It says what a file discloses in fact, also where a good model would (nearly everybody has the
    same value): compare with ``Dorig``, and see ``one level``. `per_record` gives 1 for such records of the original.

    Parameters
    ----------
    keys : names
        The columns that an intruder knows.
    target : name or names, optional
        What he wants; every other column by default. With several the value is the largest, and ``table`` has all.
    missing : "category", "impute", "omit" or "raise"
        ``"category"`` takes missing as a value of its own.

    Notes
    -----
    ``parts`` are percentages as in synthpop. Identity: ``UiO`` uniques in the original, ``UiS`` in the release,
    ``UiOiS`` uniques of the original whose keys are in the release, ``repU`` replicated uniques. Attribute: ``Dorig``
    and ``Dsyn`` records whose keys determine the target in their own file; of the original's records, ``iS`` those
    whose keys are in the release, ``DiS`` those whose keys determine a target there, ``DiSCO`` those for which it is
    right, ``DiSDiO`` those for which it is determined in the original as well. ``max_denom`` and ``mean_denom``:
    records per combination of keys and target that DiSCO counts. Correct attribution probabilities: ``baseCAPd``
    (guessing by the target's shares), ``CAPd`` (keys looked up in the original), ``CAPs`` (the release in itself),
    ``DCAP`` (the original's records in the release), ``TCAP`` (DiSCO among records whose keys are there). ``one level``
    is the largest share that one target value has among the records that DiSCO counts: near 100 the release tells what
    nearly all have. With several targets each has its ``Dorig`` and ``DiSCO``.

    Examples
    --------
    >>> original = pd.DataFrame({"age": [1, 1, 2, 3], "ill": ["a", "b", "a", "b"]})
    >>> synthetic = pd.DataFrame({"age": [1, 2, 2, 2, 3], "ill": ["a", "a", "a", "a", "a"]})
    >>> value = Disclosure("age", "ill")(original, synthetic)
    >>> float(value), value.parts["DiS"], value.parts["repU"]
    (0.5, 100.0, 25.0)
    """

    label: ClassVar[str] = "disclosure"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    reference: ClassVar[str] = "Raab, Nowok and Dibben (2024), arXiv:2406.16826; Taub, Elliot et al. (2018)"

    keys: Names = checked(None, frames.as_names, required=True)
    target: Names = checked(None, frames.as_names)

    def uses(self, original: pd.DataFrame) -> frames.Labels:
        """The keys and then the targets."""
        keys = frames.pick_columns(self.name, self.keys, original)
        wanted = None if self.target is None else frames.pick_columns(self.name, self.target, original)
        return [
            *keys,
            *frames.pick_apart(self.name, original, ("target", wanted), *(("keys", k) for k in keys))[: -len(keys)],
        ]

    def weigh(self, found: Measured, weights: Array) -> Measured:
        """The weighted share of records whose target is given away."""
        if found.table is not None:
            what = f"{self.name} takes weights for one target"
            raise UnsupportedError(what, f"{len(found.table)} targets", 'Name one, target="income"')
        return super().weigh(found, weights)

    def compare(self, state: pd.DataFrame, released: pd.DataFrame) -> Measured:
        """Look every combination of keys up, for each target."""
        names: Any = self.keys
        keys = list(state.columns[: len(names)])
        (ours, theirs), size = cells.joint_codes_of_tables(state[keys], released[keys])
        found = KeysLookedUp.of(ours, theirs, size)
        targets = [c for c in state.columns if c not in keys]
        results = {}
        for label in targets:
            (ours, theirs), values = cells.joint_codes_of_tables(state[[label]], released[[label]])
            results[str(label)] = found.target(ours, theirs, values)
        identity = found.identity()
        if len(targets) == 1:
            ((parts, records),) = results.values()
            return Measured(float(records.mean()), parts=identity | parts, records=records)
        table = pd.DataFrame({name: parts for name, (parts, _) in results.items()}).T
        shown = {f"{kind} {name}": float(table.loc[name, kind]) for name in results for kind in ("Dorig", "DiSCO")}
        worst = np.max([records for _, records in results.values()], axis=0)
        value = max(float(records.mean()) for _, records in results.values())
        return Measured(value, parts=identity | shown, table=table.assign(**identity), records=worst)


class KeysLookedUp(NamedTuple):
    """Combinations of keys of two files: each record's, and how often each occurs."""

    ours: Ints
    theirs: Ints
    d: Ints
    s: Ints

    @classmethod
    def of(cls, ours: Ints, theirs: Ints, size: int) -> KeysLookedUp:
        """Count."""
        return cls(ours, theirs, np.bincount(ours, minlength=size), np.bincount(theirs, minlength=size))

    def identity(self) -> dict[str, float]:
        """Percentages of uniques."""
        d, s = self.d, self.s
        return {
            "UiO": 100.0 * float((d == 1).sum()) / len(self.ours),
            "UiS": 100.0 * float((s == 1).sum()) / len(self.theirs),
            "UiOiS": 100.0 * float(((d == 1) & (s > 0)).sum()) / len(self.ours),
            "repU": 100.0 * float(((d == 1) & (s == 1)).sum()) / len(self.ours),
        }

    def target(self, ours: Ints, theirs: Ints, values: int) -> tuple[dict[str, float], Array]:
        """Percentages for one target, and which records of the original are given away."""
        n, m = len(ours), len(theirs)
        pairs = np.concatenate([self.ours * values + ours, self.theirs * values + theirs])
        kinds, place = np.unique(pairs, return_inverse=True)
        place = place.reshape(-1)
        d_qt, s_qt = np.bincount(place[:n], minlength=len(kinds)), np.bincount(place[n:], minlength=len(kinds))
        q, t = kinds // values, kinds % values
        one_d = np.bincount(q, weights=d_qt > 0, minlength=len(self.d)) == 1
        one_s = np.bincount(q, weights=s_qt > 0, minlength=len(self.d)) == 1
        disclosed = (s_qt > 0) & one_s[q]
        right, there = np.where(disclosed, d_qt, 0), float(self.d[self.s > 0].sum())
        positive = right[right > 0]
        by_value = np.bincount(t, weights=right)
        with np.errstate(divide="ignore", invalid="ignore"):
            guess_s = np.where(self.s[q] > 0, s_qt / self.s[q], 0.0)
            guess_d = np.where(self.d[q] > 0, d_qt / self.d[q], 0.0)
        shares = np.bincount(ours) / n
        counted = {
            "Dorig": self.d[one_d].sum() / n,
            "Dsyn": self.s[one_s].sum() / m,
            "iS": there / n,
            "DiS": self.d[one_s].sum() / n,
            "DiSCO": right.sum() / n,
            "DiSDiO": right[one_d[q]].sum() / n,
            "baseCAPd": shares @ shares,
            "CAPd": d_qt @ guess_d / n,
            "CAPs": s_qt @ guess_s / m,
            "DCAP": d_qt @ guess_s / n,
            "TCAP": right.sum() / there if there else 0.0,
            "one level": by_value.max() / right.sum() if len(positive) else 0.0,
        }
        parts = {name: 100.0 * float(share) for name, share in counted.items()}
        sizes = (float(positive.max()), float(positive.mean())) if len(positive) else (0.0, 0.0)
        parts |= dict(zip(("max_denom", "mean_denom"), sizes, strict=True))
        return parts, disclosed[place[:n]].astype(np.float64)
