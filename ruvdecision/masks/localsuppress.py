"""Local suppression: blanking single entries of key variables until every record looks like k others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..checks import check_columns, check_integer, check_number, check_vector, checked
from ..errors import InfeasibleError, InputError, RuvError
from ..numerics.compiled import compiled
from ..protocols import Array
from .base import Mask
from .columns import Ints, as_columns, category_codes, with_blanks
from .frame import Frame

MOST_KEYS = 12
REFILL_WORK = 20_000_000
PAIRS_PER_TURN = 10_000
"""So many pairs of patterns are compared one by one in the time of one turn through a way to be blank."""


@dataclass(frozen=True, repr=False)
class LocalSuppress(Mask):
    """Blank entries of the key variables, so that every record's key agrees with at least k records.

    Two records agree if no key variable tells them apart; a blank agrees with everything, and so does a value
    that is missing already. A record agrees with itself. The guarantee is checked before the release goes out.

    Few blanks can be enough for many records, since nobody can rule out a blanked record. That is the guarantee in the
    sense of sdcMicro, and no more: a record that is not blanked still shows its own key, unique or not.

    Blanks are few, not proved fewest. Sets of keys are tried from the cheapest to the dearest, where the cost of
    a set is the sum of its importances (among sets of equal cost, first the one that helps most records per blank).
    Records that agree outside the set, and of which some lie below k, form a group. If blanking the set would take a
    record to k, as many entries as needed are blanked. A blanked record agrees with its whole group, so blanking a few
    often lifts all of them, and it may be cheaper to blank one that was safe. Last, blanks that turned out needless are
    filled in again (in files where blanks times patterns stay below 2e7). Which of several equal records is blanked is
    drawn at random.

    Parameters
    ----------
    k : int
        Each key must occur at least this often.
    keys : names or positions
        The key variables, of any kind, at most 12; the values are compared as they are, so recode numbers first.
    importance : list or {key: number}, optional
        How much it costs to blank an entry of each key, positive; 1 where not given.
    alpha : float
        How much a record with a blank counts for a record with another key, as in `key_matches`. Below 1 nobody can
        hide behind the blanks of others, so all records with a rare key are blanked, and as few entries of each as let
        it agree with k.

    In a DataFrame integers become nullable ``Int64`` and booleans ``boolean`` in columns that get a blank; in an array
    they become floating point.

    Examples
    --------
    >>> df = pd.DataFrame({"sex": ["m", "m", "f"], "town": ["A", "A", "A"]})
    >>> LocalSuppress(k=2, keys=["sex", "town"]).release(df, 1).isna().to_numpy().sum()
    np.int64(1)
    """

    k: int = checked(2, check_integer, low=1)
    keys: Any = checked(None, as_columns)
    importance: Any = None
    alpha: float = checked(1.0, check_number, low=0, high=1)

    always_shown: ClassVar[tuple[str, ...]] = ("k",)
    opaque: ClassVar[str] = "which entries are blank depends on the values of the whole file"

    def __post_init__(self) -> None:
        super().__post_init__()
        keys = self.keys
        if keys is None:
            do = 'Write LocalSuppress(k=3, keys=["age", "sex"])'
            raise InputError("LocalSuppress needs the key variables", None, do)
        if len(keys) > MOST_KEYS:
            what = f"LocalSuppress takes at most {MOST_KEYS} key variables"
            raise InputError(what, len(keys), "Take the keys that an intruder can know")
        if isinstance(self.importance, Mapping):
            stray = [c for c in self.importance if c not in keys]
            if stray:
                raise InputError("importance names columns that are no keys", stray, f"Choose from {list(keys)}")
            given = {c: check_number(f"importance[{c!r}]", v, low=0, open_low=True) for c, v in self.importance.items()}
            object.__setattr__(self, "importance", given)
        elif self.importance is not None:
            costs = check_vector("importance", self.importance, len(keys))
            object.__setattr__(
                self, "importance", tuple(check_number("importance", float(v), low=0, open_low=True) for v in costs)
            )

    def __hash__(self) -> int:
        # A mapping among the arguments has no hash of its own.
        return hash(self.family)

    @property
    def costs(self) -> Array:
        """Cost of a blank in each key."""
        if self.importance is None:
            return np.ones(len(self.keys))
        if isinstance(self.importance, dict):
            return np.array([self.importance.get(c, 1.0) for c in self.keys])
        return np.array(self.importance)

    def apply(self, frame: Frame, rng: np.random.Generator) -> Frame:
        positions = check_columns("keys", self.keys, frame.columns)
        if frame.n < self.k:
            what = f"No key can occur {self.k} times in {frame.n} records"
            raise InfeasibleError(what, f"k={self.k}", "Use a smaller k")
        codes = np.stack([category_codes(frame.table.iloc[:, i])[0] for i in positions], axis=1)
        found = (
            suppress(codes, self.k, self.costs, rng)
            if self.alpha == 1
            else suppress_rare(codes, self.k, self.costs, self.alpha)
        )
        blank = found & (codes >= 0)
        touched = [(i, blank[:, j]) for j, i in enumerate(positions) if blank[:, j].any()]
        return frame.put({i: with_blanks(frame.table.iloc[:, i], rows, frame.kind) for i, rows in touched})


def key_matches(data: Any, keys: Any = None, *, weights: Any = None, alpha: float = 1.0) -> Any:
    """Count the records that agree with each record on the keys; blanks agree with everything.

    Parameters
    ----------
    data : DataFrame or array
        The file.
    keys : names or positions, optional
        The key variables; all columns by default.
    weights : array, optional
        Sum these (sampling weights) instead of counting, one per record.
    alpha : float
        How much a record with a blank counts for a record with another key: 1 as any, 0 not at all. A record's own
        key, blanks included, counts in full, and so do complete records for one with blanks, as in sdcMicro.

    >>> key_matches(pd.DataFrame({"a": ["x", "x", None]})).tolist()
    [3, 3, 3]
    >>> key_matches(pd.DataFrame({"a": ["x", "x", None]}), weights=[1, 2, 4], alpha=0.5).tolist()
    [5.0, 5.0, 7.0]
    """
    frame = Frame.of(data)
    positions = frame.positions(None) if keys is None else check_columns("keys", keys, frame.columns)
    codes = np.stack([category_codes(frame.table.iloc[:, i])[0] for i in positions], axis=1)
    file, alpha = _Patterns.of(codes), check_number("alpha", alpha, low=0, high=1)
    if weights is None and alpha == 1:
        return file.matches(file.codes)[file.row]
    given = np.ones(frame.n) if weights is None else check_vector("weights", weights, frame.n)
    amount = np.bincount(file.row, weights=given, minlength=len(file.counts))
    return replace(file, counts=amount).matches_with_discounted_blanks(file.codes, alpha)[file.row]


def suppress(codes: Ints, k: int, costs: Array, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which entries to blank; ``codes`` has one column per key, -1 for missing."""
    original, codes = codes, codes.copy()
    shuffled = rng.permutation(len(codes))
    for tier in _key_sets_by_cost(codes.shape[1], costs):
        file = _Patterns.of(codes)
        low = file.matches(file.codes, enough=k)
        if np.all(low >= k):
            break
        if len(tier) > 1:
            plans = [(_plan_blanks(file, low, keys, k), keys) for keys in tier]
            worth = [(helped / max(blanks, 1), -i) for i, ((blanks, helped, _, _), _) in enumerate(plans)]
            tier = [
                keys for _, (_, keys) in sorted(zip(worth, plans, strict=True), key=lambda pair: pair[0], reverse=True)
            ]
        for keys in tier:
            file = _Patterns.of(codes)
            low = file.matches(file.codes, enough=k)
            if np.all(low >= k):
                break
            _, _, pattern, amount = _plan_blanks(file, low, keys, k)
            rows = _records_to_blank(file.row, pattern, amount, shuffled)
            codes[np.ix_(rows, np.array(keys))] = -1
    codes = _refill_blanks(codes, original, k, costs, shuffled)
    file = _Patterns.of(codes)
    if np.any(file.matches(file.codes, enough=k) < k):
        do = "This is a defect of the mask: please report it"
        raise RuvError(f"LocalSuppress did not reach k={k}", "a key that occurs too seldom", do)
    return codes < 0


def suppress_rare(codes: Ints, k: int, costs: Array, alpha: float) -> NDArray[np.bool_]:
    """The same where a record with a blank counts ``alpha`` for records with another key: rare records are blanked.

    Of the sets of keys with the same cost the one that helps most records comes first. Who is blanked counts less for
    others, so it is looked again until all reach k; what no set of keys can help is blanked as a whole.
    """
    codes, wanted = codes.copy(), k * (1 - 1e-12)
    while True:
        before = codes.copy()
        for tier in _key_sets_by_cost(codes.shape[1], costs):
            while tier:
                file = _Patterns.of(codes)
                rare = np.flatnonzero(file.matches_with_discounted_blanks(file.codes, alpha) < wanted)
                if not len(rare):
                    return codes < 0
                helped = [_patterns_helped(file, rare, keys, wanted, alpha) for keys in tier]
                most = max(range(len(tier)), key=lambda i: file.counts[helped[i]].sum())
                codes[np.ix_(np.isin(file.row, helped[most]), np.array(tier[most]))] = -1
                tier = [keys for keys, found in zip(tier, helped, strict=True) if len(found) and keys != tier[most]]
        if np.array_equal(codes, before):
            rows = np.isin(file.row, rare)
            codes[rows if (codes[rows] >= 0).any() else slice(None)] = -1


def _patterns_helped(file: _Patterns, rare: Ints, keys: Sequence[int], wanted: float, alpha: float) -> Ints:
    """Those of the rare patterns that agree with as many records as wanted once they are blank on these keys."""
    free = rare[(file.codes[np.ix_(rare, np.array(keys))] >= 0).all(axis=1)]
    if not len(free):
        return free
    after = file.codes[free]
    after[:, keys] = -1
    _, first, group = np.unique(_row_numbers(after), return_index=True, return_inverse=True)
    blank = (file.codes[free] < 0).any(axis=1)
    # Those who are blanked together count in full, whatever they counted before.
    gained = np.bincount(group, weights=file.counts[free] * np.where(blank, 1.0 - alpha, 0.0))
    return free[(file.matches_with_discounted_blanks(after[first], alpha) + gained)[group] >= wanted]


# -- patterns of keys -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Patterns:
    """The different key patterns of a file, how often each occurs, and the pattern of each record."""

    codes: Ints
    counts: Ints
    row: Ints

    @classmethod
    def of(cls, codes: Ints) -> _Patterns:
        label = _row_numbers(codes)
        _, first, row, counts = np.unique(label, return_index=True, return_inverse=True, return_counts=True)
        return cls(codes[first], counts, row.reshape(-1))

    def matches(self, asked: Ints, enough: int | None = None) -> Any:
        """Count the records that agree with each asked pattern; counting stops where there are ``enough``.

        Patterns are taken by which keys are blank. Those with no blanks, or few, come first: they settle most.
        """
        found = np.zeros(len(asked), dtype=self.counts.dtype)
        (own, kinds), (other, wants) = (_keys_present(codes) for codes in (self.codes, asked))
        sizes = np.bincount(own)
        turns = len(kinds) * len(wants)
        if turns > 100 and len(self.codes) * len(asked) < PAIRS_PER_TURN * turns:
            return count_agreeing(self.codes, self.counts, asked)
        for kind in np.argsort(-sizes, kind="stable"):
            here = np.flatnonzero(own == kind)
            open_ = np.flatnonzero(found < enough) if enough is not None else np.arange(len(asked))
            for want in np.unique(other[open_]):
                rows = open_[other[open_] == want]
                both = np.flatnonzero(kinds[kind] & wants[want])
                if not len(both):
                    found[rows] += self.counts[here].sum()
                    continue
                label = _row_numbers(np.concatenate([self.codes[np.ix_(here, both)], asked[np.ix_(rows, both)]]))
                total = np.bincount(label[: len(here)], weights=self.counts[here], minlength=int(label.max()) + 1)
                found[rows] += total[label[len(here) :]].astype(found.dtype)
        return found

    def matches_with_discounted_blanks(self, asked: Ints, alpha: float) -> Array:
        """The same, where a pattern with a blank counts ``alpha`` for another one, and in full for itself."""
        blank = np.asarray((self.codes < 0).any(axis=1))
        found = replace(self, counts=np.where(blank, alpha * self.counts, self.counts)).matches(asked)
        label = _row_numbers(np.concatenate([self.codes, asked]))
        same = np.bincount(label[: len(blank)], weights=np.where(blank, self.counts, 0.0), minlength=label.max() + 1)
        return np.asarray(found + (1.0 - alpha) * same[label[len(blank) :]], dtype=np.float64)


@compiled()
def count_agreeing(codes: Ints, counts: NDArray[Any], asked: Ints) -> NDArray[Any]:
    """Count the records that agree with each asked pattern, pattern by pattern."""
    found = np.zeros(len(asked), dtype=counts.dtype)
    for i in range(len(asked)):
        for j in range(len(codes)):
            agrees = True
            for k in range(codes.shape[1]):
                a, b = asked[i, k], codes[j, k]
                if a != b and a >= 0 and b >= 0:
                    agrees = False
                    break
            if agrees:
                found[i] += counts[j]
    return found


def _keys_present(codes: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Which keys each pattern has: a number per pattern, and what the number means."""
    kinds, own = np.unique(codes >= 0, axis=0, return_inverse=True)
    return own.reshape(-1), kinds


def _row_numbers(codes: Ints) -> Ints:
    """One whole number per row, equal for equal rows, below the number of rows."""
    label = codes[:, 0] + 1
    size = int(label.max()) + 1
    for column in codes.T[1:]:
        width = int(column.max()) + 2
        if size > 2**62 // width:
            label = np.unique(label, return_inverse=True)[1].reshape(-1)
            size = int(label.max()) + 1
        label = label * width + column + 1
        size *= width
    return np.asarray(np.unique(label, return_inverse=True)[1].reshape(-1), dtype=np.int64)


# -- how many to blank, and whom --------------------------------------------------------------------------


def _key_sets_by_cost(d: int, costs: Array) -> Iterator[list[list[int]]]:
    """Sets of keys from the cheapest to the dearest, those of equal cost together."""
    sets = [list(c) for size in range(1, d + 1) for c in itertools.combinations(range(d), size)]
    price = lambda s: round(float(costs[s].sum()), 9)  # noqa: E731
    sets.sort(key=lambda s: (price(s), len(s)))
    for _, tier in itertools.groupby(sets, key=price):
        yield list(tier)


def _plan_blanks(file: _Patterns, low: Ints, keys: Sequence[int], k: int) -> tuple[int, int, Ints, Ints]:
    """How many records of which patterns to blank on ``keys``: blanks, records helped, patterns, amounts."""
    none = np.zeros(0, dtype=np.int64)
    # Only patterns that tell all these keys: the others belong to a smaller set.
    free = np.flatnonzero(np.all(file.codes[:, keys] >= 0, axis=1))
    if not len(free):
        return 0, 0, none, none
    after = file.codes[free].copy()
    after[:, keys] = -1
    group = _row_numbers(after)
    needy = np.bincount(group, weights=low[free] < k) > 0
    pick = needy[group]
    free, after, group = free[pick], after[pick], group[pick]
    if not len(free):
        return 0, 0, none, none
    _, first, group = np.unique(group, return_index=True, return_inverse=True)
    size = np.bincount(group, weights=file.counts[free])
    # Records of one group agree once blanked, so a group of k is safe without counting further.
    reach = size.astype(np.int64)
    small = np.flatnonzero(reach < k)
    if len(small):
        reach[small] = file.matches(after[first[small]], enough=k)
    keep = reach[group] >= k
    free, group = free[keep], group[keep]
    order = np.lexsort((file.counts[free], low[free] >= k, group))
    free, group = free[order], group[order]
    edges = np.flatnonzero(np.diff(group, prepend=-1, append=-1))
    counts, lack = file.counts[free], k - low[free]
    amount = np.zeros(len(free), dtype=np.int64)
    for a, b in itertools.pairwise(edges):
        amount[a:b] = _fewest_blanks(counts[a:b], lack[a:b])
    used = amount > 0
    helped = int(counts[lack > 0].sum())
    return int(amount.sum()) * len(keys), helped, free[used], amount[used]


def _fewest_blanks(counts: Ints, lack: Ints) -> Ints:
    """How many of each pattern of a group to blank, so that all of it reaches k.

    A pattern that lacks ``lack`` records is safe if that many *other* records of the group are blanked, or if all of
    its own are. For a total b, patterns that lack more than b must go whole; the others may give b - lack each, or go
    whole too. The smallest b that can be made up is taken. Patterns come with the needy first, the small first.
    """
    total = int(counts.sum())
    must_help = lack > 0
    for b in range(1, total + 1):
        whole = must_help & (lack > b)
        fixed = int(counts[whole].sum())
        if fixed > b:
            continue
        spare = np.where(whole, 0, np.minimum(counts, np.maximum(b - np.maximum(lack, 0), 0)))
        short = b - fixed - int(spare.sum())
        if short > 0:
            # Let small needy patterns go whole, as long as they fit.
            for i in np.flatnonzero(must_help & ~whole & (spare < counts)):
                if fixed + int(counts[i]) > b:
                    break
                whole[i] = True
                fixed += int(counts[i])
                short -= int(counts[i]) - int(spare[i])
                spare[i] = 0
                if short <= 0:
                    break
            if short > 0:
                continue
        amount = np.where(whole, counts, 0)
        left = b - fixed
        for place, room in enumerate(spare.tolist()):
            give = min(room, left)
            amount[place] += give
            left -= give
            if left == 0:
                break
        return amount
    return np.where(must_help, counts, 0)


def _refill_blanks(codes: Ints, original: Ints, k: int, costs: Array, shuffled: Ints) -> Ints:
    """Fill blanks in again that are not needed any more, the dearest first; large files are left as they are."""
    fresh = (codes < 0) & (original >= 0)
    touched = shuffled[fresh[shuffled].any(axis=1)]
    rest = _Patterns.of(codes[~fresh.any(axis=1)]) if len(touched) < len(codes) else None
    units = codes[touched] if rest is None else np.concatenate([codes[touched], rest.codes])
    if not len(touched) or int(fresh.sum()) * len(units) > REFILL_WORK:
        return codes
    units = np.asfortranarray(units)
    weight = np.ones(len(units), dtype=np.int64)
    if rest is not None:
        weight[len(touched) :] = rest.counts
    count = _Patterns.of(codes).matches(units)
    entries = [(int(i), int(j)) for j in np.argsort(-costs, kind="stable") for i in np.flatnonzero(fresh[touched, j])]
    for i, j in entries:
        value = original[touched[i], j]
        # Those that would no longer agree with the record: they tell this key, and tell another value.
        hurt = (units[:, j] >= 0) & (units[:, j] != value)
        for other in np.flatnonzero(units[i] >= 0):
            hurt &= (units[:, other] < 0) | (units[:, other] == units[i, other])
        lost = int(weight[hurt].sum())
        if count[i] - lost >= k and (lost == 0 or int(count[hurt].min()) > k):
            units[i, j] = value
            count[i] -= lost
            count[hurt] -= 1
    codes = codes.copy()
    codes[touched] = units[: len(touched)]
    return codes


def _records_to_blank(row: Ints, pattern: Ints, amount: Ints, shuffled: Ints) -> Ints:
    """The records to blank: the first of each pattern in a random order."""
    if not len(pattern):
        return np.zeros(0, dtype=np.int64)
    quota = np.zeros(int(row.max()) + 1, dtype=np.int64)
    quota[pattern] = amount
    mixed = shuffled[quota[row[shuffled]] > 0]
    order = mixed[np.argsort(row[mixed], kind="stable")]
    own = row[order]
    start = np.flatnonzero(np.concatenate([[True], own[1:] != own[:-1]]))
    place = np.arange(len(own)) - np.repeat(start, np.diff(np.append(start, len(own))))
    return np.asarray(order[place < quota[own]])
