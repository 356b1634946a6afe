"""What a sensitivity analysis found: whether the choice is stable, what moves it, tables, paragraphs and a plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ...checks import check_choice
from ...decide import Choice, not_dominated
from ...decide.compare import list_in_words
from ...decide.probability import check_threshold, probability_below_threshold
from ...maps.rumap import RUMap
from ...maps.show import ReleaseRow, few_digits, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OF = ("risk", "utility", "chosen risk", "chosen utility", "regret")


@dataclass(frozen=True)
class Variation:
    """One setting of the study: its map, and the release that is chosen there (None if none is, and why)."""

    settings: Mapping[str, str]
    rumap: RUMap = field(repr=False)
    max_risk: float | None
    choice: Choice | None
    reason: str = ""
    kept: float = float("nan")
    """Utility, weighted sum or expected loss of the base choice here."""

    @property
    def label(self) -> str:
        """What was changed, in words."""
        return ", ".join(f"{k} = {v}" for k, v in self.settings.items()) or "base"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "settings": dict(self.settings)}


@dataclass(frozen=True)
class Sensitivity:
    """How a map and its choice move when settings do; `sensitivity` makes one.

    Attributes
    ----------
    base : Variation
        The map and the choice at the base settings.
    variations : tuple of Variation
        The same for every variation.
    factors : mapping
        The settings that were varied, with the labels of their values.
    base_values : mapping
        The base value of each, as text.
    together : bool
        True if all combinations were run.
    tolerance : float
        Share of the utility that a nearly stable choice may cost.
    about : str
        What the choice takes the most (or least) of: utility, weighted sum, expected loss, or an order of columns.
    """

    base: Variation
    variations: tuple[Variation, ...]
    factors: Mapping[str, tuple[str, ...]]
    base_values: Mapping[str, str]
    together: bool = False
    tolerance: float = 0.01
    about: str = "utility"

    # -- the verdict ---------------------------------------------------------------------------------

    @property
    def stable(self) -> bool:
        """True if the same release is chosen in every variation."""
        return self.verdict == "stable"

    @property
    def verdict(self) -> str:
        """``"stable"``, ``"nearly stable"``, ``"not stable"``, or ``"no choice"`` where nothing is chosen at the base.

        Nearly stable: another release is chosen somewhere, but the base choice meets the threshold everywhere and never
        costs more than ``tolerance`` of the utility.
        """
        if self.base.choice is None:
            return "no choice"
        if all(e.same for e in self._all_effects):
            return "stable"
        nearly = all(e.meets and e.regret <= self.tolerance for e in self._all_effects)
        return "nearly stable" if nearly else "not stable"

    @property
    def sentence(self) -> str:
        """One sentence that says whether the choice is stable, and what moves it most."""
        effects, what = self._all_effects, list_in_words(list(self.factors))
        varied = f"{plural(len(effects), 'variation')} of {what}"
        if self.base.choice is None:
            if self.base.reason:
                return f"There is no choice to be stable: {self.base.reason}"
            ends = [f"{100 * share(e.frontier_shared for e in effects):.0f}" for share in (min, max)]
            kept = ends[0] if ends[0] == ends[1] else f"between {ends[0]} and {ends[1]}"
            return f"No threshold was given, so no release is chosen; over {varied} {kept} % of the frontier stays."
        name = self.base.choice.release
        other, none = sum(not e.same for e in effects), sum(v.choice is None for v in self.variations)
        if self.verdict == "stable":
            every = "the only variation" if len(effects) == 1 else f"all {len(effects)} variations"
            return f"The choice is stable: {name} is chosen in {every} of {what}."
        moved = f"another release is chosen in {other} of {varied}"
        if none:
            moved += f" (none can be in {none})" if none < other else ", where none meets the threshold"
        if self.verdict == "nearly stable":
            cost = f"costs at most {_format_percent(max(e.regret for e in effects))} of the {self.about}"
            return f"The choice is nearly stable: {moved}, but {name} is allowed in all of them and {cost}."
        worst = max(range(len(effects)), key=lambda i: effects[i].severity)
        most = f"it matters most that {self.variations[worst].label}"
        return f"The choice is not stable: {moved}; {most}, where {self._what_is_wrong(worst)}."

    def describe(self) -> list[str]:
        """Paragraphs for a report: the verdict, what was varied, what moved, and what to beware of."""
        way = "in all combinations" if self.together else "one at a time"
        varied = "; ".join(f"{k}: {', '.join(v)} (base {self.base_values[k]})" for k, v in self.factors.items())
        paragraphs = [self.sentence, f"{plural(len(self.variations), 'variation')}, {way}. {varied}."]
        if self.base.choice is not None:
            lines = []
            for of in ("risk", "utility"):
                for row in self.effects(of).itertuples():
                    low, high = min(row.low, row.base), max(row.high, row.base)
                    if np.isfinite([low, high]).all() and high - low > 1e-9 * abs(row.base):
                        lines.append(f"{of} {few_digits(low)} to {few_digits(high)} with {row.factor}")
            if lines:
                base = self.base.choice
                values = f"risk {few_digits(base.risk)}, utility {few_digits(base.utility)} at the base"
                paragraphs.append(
                    f"The chosen release, {self.base.choice.release} ({values}), has {'; '.join(lines)}; nothing else "
                    "moves it."
                )
            broken = [v.label for v, e in zip(self.variations, self._all_effects, strict=True) if not e.meets]
            if broken:
                some = ", ".join(broken[:5]) + (", ..." if len(broken) > 5 else "")
                paragraphs.append(f"It would not be allowed in {len(broken)} of them: {some}.")
        always = self.frontiers()
        kept = always[always["on_frontier"] == 1.0]
        paragraphs.append(
            f"{plural(len(kept), 'release')} of {len(always)} {'is' if len(kept) == 1 else 'are'} on the frontier in "
            "every variation."
        )
        unconverged = sum(not np.all(m.converged) for m in self.maps.values())
        if unconverged:
            paragraphs.append(f"Some releases did not converge in {unconverged} of the maps.")
        if any(np.nanmax(m.risk_error, initial=0.0) > 0 for m in self.maps.values()):
            paragraphs.append("Risks carry Monte Carlo errors; differences smaller than these mean nothing.")
        return paragraphs

    # -- tables --------------------------------------------------------------------------------------

    def to_dataframe(self) -> pd.DataFrame:
        """One row per variation, the base first.

        A column per setting with its value (one at a time the others keep their base value), ``chosen`` (the release
        chosen there), ``same``, ``risk`` and ``utility`` of the base choice there, ``meets`` (whether it is allowed),
        ``regret`` (share of the utility that keeping it costs), ``chosen_risk``, ``chosen_utility``, ``frontier``
        (releases on it), ``frontier_shared`` (releases on both frontiers as a share of those on either),
        ``risk_change`` and ``utility_change`` (median relative change over all releases) and ``remark``.
        """
        rows = []
        for v, e in zip(
            (self.base, *self.variations), (self._effect_of_variation(self.base), *self._all_effects), strict=True
        ):
            settings = {**self.base_values, **v.settings}
            chosen = "" if v.choice is None else v.choice.release
            rows.append({**settings, "chosen": chosen, **vars(e), "remark": v.reason})
        return pd.DataFrame(rows).drop(columns="over")

    def frontiers(self) -> pd.DataFrame:
        """For every release the share of maps, base included, in which it is on the frontier, and is chosen."""
        on: Counter[str] = Counter(r for m in self.maps.values() for r in _frontier_labels(m))
        chosen = Counter(v.choice.release for v in (self.base, *self.variations) if v.choice is not None)
        labels = list(dict.fromkeys(r for m in self.maps.values() for r in m.releases))
        shares = {"on_frontier": on, "chosen": chosen}
        count = len(self.variations) + 1
        return pd.DataFrame({"release": labels} | {k: [c[r] / count for r in labels] for k, c in shares.items()})

    def effects(self, of: str = "risk") -> pd.DataFrame:
        """Range of a number over the values of each setting, the widest first: what a tornado shows.

        Parameters
        ----------
        of : "risk", "utility", "chosen risk", "chosen utility" or "regret"
            Risk and utility of the base choice, of the release that is chosen each time, or what keeping the base
            choice costs. Where no release is chosen, risk and utility are the median relative change over all releases.

        Returns
        -------
        DataFrame
            ``factor``, ``base``, ``low``, ``high``, and the values ``low_at``, ``high_at`` that give them. With all
            combinations a value's number is the mean over the other settings.
        """
        check_choice("of", of, OF)
        start = self._effect_size(self._effect_of_variation(self.base), of)
        numbers = np.array([self._effect_size(e, of) for e in self._all_effects])
        rows = []
        for name, labels in self.factors.items():
            at = np.array([v.settings.get(name, "") for v in self.variations])
            met = {k: numbers[(at == k) & ~np.isnan(numbers)] for k in labels}
            means = {k: float(m.mean()) for k, m in met.items() if m.size}
            low, high = (end(means, key=lambda k: means[k], default="") for end in (min, max))
            ends = {"low": means.get(low, start), "high": means.get(high, start), "low_at": low, "high_at": high}
            rows.append({"factor": name, "base": start, **ends})
        table = pd.DataFrame(rows)
        ends_of = table[["low", "high", "base"]]
        with np.errstate(invalid="ignore"):
            width = np.nan_to_num((ends_of.max(axis=1) - ends_of.min(axis=1)).to_numpy(dtype=float), nan=0.0)
        return table.iloc[np.argsort(-width, kind="stable")].reset_index(drop=True)

    @property
    def maps(self) -> dict[str, RUMap]:
        """The maps by what was changed; the base map is ``"base"``."""
        return {v.label: v.rumap for v in (self.base, *self.variations)}

    # -- showing -------------------------------------------------------------------------------------

    def plot(self, of: str = "risk", ax: Axes | None = None, **options: Any) -> Axes:
        """Draw a tornado and return the Axes; see `plots.tornado`."""
        from ... import plots

        return plots.tornado(self, of, ax, **options)

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        table = self.to_dataframe()
        keep = [*self.factors, "chosen", "risk", "utility", "meets", "regret"] if self.base.choice is not None else None
        shown = table[keep or [*self.factors, "frontier", "frontier_shared", "risk_change", "utility_change"]]
        more = f"\n... {len(shown) - 12} more" if len(shown) > 12 else ""
        return f"Sensitivity: {self.sentence}\n{shown.head(12).to_string(index=False, float_format=few_digits)}{more}"

    def _repr_html_(self) -> str:
        import html

        table = self.to_dataframe().to_html(index=False, float_format=few_digits)
        return f"<div><strong>{html.escape(self.sentence)}</strong>{table}</div>"

    # -- helpers -------------------------------------------------------------------------------------

    @cached_property
    def _all_effects(self) -> list[_Effect]:
        return [self._effect_of_variation(v) for v in self.variations]

    def _effect_of_variation(self, v: Variation) -> _Effect:
        """What a variation does to the base choice and the map."""
        mine, other = _frontier_labels(self.base.rumap), _frontier_labels(v.rumap)
        both = mine | other
        shared = len(mine & other) / len(both) if both else 1.0
        risk, utility = (_median_change(self.base.rumap, v.rumap, role) for role in ("risk", "utility"))
        chosen = (np.nan, np.nan) if v.choice is None else (v.choice.risk, v.choice.utility)
        found = _Effect(False, np.nan, np.nan, False, np.nan, *chosen, len(other), shared, risk, utility)
        choice = self.base.choice
        if choice is None or choice.release not in v.rumap.releases:
            return found
        row = v.rumap[choice.release]
        limit = np.inf if v.max_risk is None else v.max_risk
        same = v.choice is not None and v.choice.release == choice.release
        allowed = same or self._base_choice_allowed(v, row, limit)
        regret = np.nan
        if v.choice is not None and allowed:
            regret = 0.0 if same else self._cost_of_keeping(v.choice.value, v.kept)
        over = max(row.risk - limit, 0.0) / abs(limit) if limit and np.isfinite(limit) else 0.0
        found = replace(found, same=same, risk=row.risk, utility=row.utility)
        return replace(found, meets=allowed, regret=regret, over=float(over))

    def _base_choice_allowed(self, v: Variation, row: ReleaseRow, limit: float) -> bool:
        if np.isinf(limit):
            return True
        threshold, room = check_threshold(v.rumap, limit)
        confidence = self.base.choice.confidence if self.base.choice is not None else None
        if confidence is None:
            return bool(row.risk <= threshold + room)
        return bool(row.converged and probability_below_threshold(v.rumap, threshold, room)[row.position] >= confidence)

    def _cost_of_keeping(self, best: float, kept: float) -> float:
        """What keeping the base choice costs, as a share of the best."""
        if self.about == "order" or not np.isfinite([best, kept]).all() or best == 0:
            return float("nan")
        return max((kept - best if self.about == "expected loss" else best - kept) / abs(best), 0.0)

    def _effect_size(self, e: _Effect, of: str) -> float:
        if self.base.choice is None:
            return {"risk": e.risk_change, "utility": e.utility_change}.get(of, float("nan"))
        return float(vars(e)[of.replace(" ", "_")])

    def _what_is_wrong(self, i: int) -> str:
        """What is wrong with the base choice in a variation."""
        assert self.base.choice is not None
        v, e, name = self.variations[i], self._all_effects[i], self.base.choice.release
        threshold = few_digits(float(v.max_risk or np.inf))
        if np.isnan(e.risk):
            return f"{name} is not among the releases"
        if v.choice is None:
            return f"no release is allowed ({name} has risk {few_digits(e.risk)})"
        if not e.meets and e.over == 0:
            return f"{name} is not surely enough below the threshold {threshold}"
        if not e.meets:
            return f"{name} has risk {few_digits(e.risk)}, {_format_percent(e.over)} above the threshold {threshold}"
        if np.isnan(e.regret):
            return f"{v.choice.release} comes before {name}"
        return f"{name} costs {_format_percent(e.regret)} of the {self.about} against {v.choice.release}"


@dataclass(frozen=True)
class _Effect:
    """What a variation does to the base choice, and to the map; the columns of the table."""

    same: bool
    risk: float
    utility: float
    meets: bool
    regret: float
    chosen_risk: float
    chosen_utility: float
    frontier: int
    frontier_shared: float
    risk_change: float
    utility_change: float
    over: float = 0.0
    """How far its risk is above the threshold, as a share of it."""

    @property
    def severity(self) -> float:
        """To name the worst: a broken threshold before a loss of utility, a release that is gone before both."""
        if np.isnan(self.risk):
            return 1e9
        if not self.meets:
            return 1e3 + min(self.over, 1e6)
        return self.regret if self.regret == self.regret else 0.0


def _frontier_labels(rumap: RUMap) -> set[str]:
    return {rumap.releases[i] for i in np.flatnonzero(not_dominated(rumap.risk, rumap.utility))}


def _median_change(a: RUMap, b: RUMap, role: str) -> float:
    """Median relative change over the releases that both maps have."""
    shared = [r for r in a.releases if r in set(b.releases)]
    if not shared:
        return float("nan")
    x, y = (m.take(shared).column(role).value for m in (a, b))
    good = np.isfinite(x) & np.isfinite(y) & (x != 0)
    return float(np.median((y[good] - x[good]) / np.abs(x[good]))) if good.any() else float("nan")


def _format_percent(share: float) -> str:
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"
