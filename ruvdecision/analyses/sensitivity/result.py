"""What a sensitivity analysis found: whether the choice is stable, what moves it, tables, paragraphs and a plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...decide import Choice, not_dominated
from ...decide.compare import listed
from ...decide.probability import check_threshold, meets
from ...errors import InputError
from ...maps.rumap import RUMap
from ...maps.show import ReleaseRow, counted, short

if TYPE_CHECKING:
    import pandas as pd
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

    def __getstate__(self) -> dict[str, Any]:
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
        effects = [self._effect(v) for v in self.variations]
        if all(e.same for e in effects):
            return "stable"
        return "nearly stable" if all(e.meets and e.regret <= self.tolerance for e in effects) else "not stable"

    @property
    def sentence(self) -> str:
        """One sentence that says whether the choice is stable, and what moves it most."""
        count = len(self.variations)
        what = listed(list(self.factors))
        if self.base.choice is None:
            if self.base.reason:
                return f"There is no choice to be stable: {self.base.reason}"
            kept = np.array([self._effect(v).frontier_shared for v in self.variations])
            low, high = 100 * kept.min(), 100 * kept.max()
            share = f"{low:.0f}" if f"{low:.0f}" == f"{high:.0f}" else f"between {low:.0f} and {high:.0f}"
            start = "No threshold was given, so no release is chosen"
            return f"{start}; over {counted(count, 'variation')} of {what} {share} % of the frontier stays."
        name = self.base.choice.release
        effects = [(v, self._effect(v)) for v in self.variations]
        other = sum(not e.same for _, e in effects)
        if self.verdict == "stable":
            every = "the only variation" if count == 1 else f"all {count} variations"
            return f"The choice is stable: {name} is chosen in {every} of {what}."
        moved = f"another release is chosen in {other} of {counted(count, 'variation')} of {what}"
        if any(v.choice is None for v, _ in effects):
            none = sum(v.choice is None for v, _ in effects)
            moved += f" (none can be in {none})" if none < other else ", where none meets the threshold"
        if self.verdict == "nearly stable":
            worst = max(e.regret for _, e in effects)
            cost = f"costs at most {_percent(worst)} of the {self.about}"
            return f"The choice is nearly stable: {moved}, but {name} is allowed in all of them and {cost}."
        variation, worst_effect = max(effects, key=lambda pair: pair[1].severity)
        trouble = self._trouble(variation, worst_effect)
        return f"The choice is not stable: {moved}; it matters most that {variation.label}, where {trouble}."

    def describe(self) -> list[str]:
        """Paragraphs for a report: the verdict, what was varied, what moved, and what to beware of."""
        way = "in all combinations" if self.together else "one at a time"
        varied = "; ".join(f"{k}: {', '.join(v)} (base {self.base_values[k]})" for k, v in self.factors.items())
        paragraphs = [self.sentence, f"{counted(len(self.variations), 'variation')}, {way}. {varied}."]
        if self.base.choice is not None:
            lines = []
            for of in ("risk", "utility"):
                for row in self.effects(of).itertuples():
                    low, high = min(row.low, row.base), max(row.high, row.base)
                    if np.isfinite([low, high]).all() and high - low > 1e-9 * abs(row.base):
                        lines.append(f"{of} {short(low)} to {short(high)} with {row.factor}")
            if lines:
                values = f"risk {short(self.base.choice.risk)}, utility {short(self.base.choice.utility)} at the base"
                paragraphs.append(
                    f"The chosen release, {self.base.choice.release} ({values}), has {'; '.join(lines)}; nothing else "
                    "moves it."
                )
            broken = [v.label for v in self.variations if not self._effect(v).meets]
            if broken:
                some = ", ".join(broken[:5]) + (", ..." if len(broken) > 5 else "")
                paragraphs.append(f"It would not be allowed in {len(broken)} of them: {some}.")
        always = self.frontiers()
        kept = always[always["on_frontier"] == 1.0]
        paragraphs.append(
            f"{counted(len(kept), 'release')} of {len(always)} {'is' if len(kept) == 1 else 'are'} on the frontier in "
            "every variation."
        )
        unconverged = sum(not np.all(v.rumap.converged) for v in (self.base, *self.variations))
        if unconverged:
            paragraphs.append(f"Some releases did not converge in {unconverged} of the maps.")
        noisy = max(float(np.nanmax(v.rumap.risk_error, initial=0.0)) for v in (self.base, *self.variations))
        if noisy > 0:
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
        import pandas as pd

        rows = []
        for v in (self.base, *self.variations):
            e = self._effect(v)
            row: dict[str, Any] = {k: v.settings.get(k, self.base_values[k]) for k in self.factors}
            row |= {
                "chosen": "" if v.choice is None else v.choice.release,
                "same": e.same,
                "risk": e.risk,
                "utility": e.utility,
                "meets": e.meets,
                "regret": e.regret,
                "chosen_risk": float("nan") if v.choice is None else v.choice.risk,
                "chosen_utility": float("nan") if v.choice is None else v.choice.utility,
                "frontier": e.frontier,
                "frontier_shared": e.frontier_shared,
                "risk_change": e.risk_change,
                "utility_change": e.utility_change,
                "remark": v.reason,
            }
            rows.append(row)
        return pd.DataFrame(rows)

    def frontiers(self) -> pd.DataFrame:
        """For every release the share of maps, base included, in which it is on the frontier, and is chosen."""
        import pandas as pd

        everybody = (self.base, *self.variations)
        labels = dict.fromkeys(r for v in everybody for r in v.rumap.releases)
        on = dict.fromkeys(labels, 0)
        chosen = dict.fromkeys(labels, 0)
        for v in everybody:
            for label in _front(v.rumap):
                on[label] += 1
            if v.choice is not None:
                chosen[v.choice.release] += 1
        count = len(everybody)
        return pd.DataFrame(
            {
                "release": list(labels),
                "on_frontier": [on[k] / count for k in labels],
                "chosen": [chosen[k] / count for k in labels],
            }
        )

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
        import pandas as pd

        if of not in OF:
            raise InputError(f"of must be one of {', '.join(map(repr, OF))}", of, "Leave it at 'risk'")
        start = self._number(self.base, of)
        rows = []
        for name, labels in self.factors.items():
            means = {}
            for label in labels:
                met = np.array([self._number(v, of) for v in self.variations if v.settings.get(name) == label])
                met = met[~np.isnan(met)]
                if met.size:
                    means[label] = float(met.mean())
            row = {"factor": name, "base": start, "low": start, "high": start, "low_at": "", "high_at": ""}
            if means:
                low, high = min(means, key=lambda k: means[k]), max(means, key=lambda k: means[k])
                row |= {"low": means[low], "high": means[high], "low_at": low, "high_at": high}
            rows.append(row)
        table = pd.DataFrame(rows)
        ends = table[["low", "high", "base"]]
        with np.errstate(invalid="ignore"):
            width = np.nan_to_num((ends.max(axis=1) - ends.min(axis=1)).to_numpy(dtype=float), nan=0.0)
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
        return f"Sensitivity: {self.sentence}\n{shown.head(12).to_string(index=False, float_format=short)}{more}"

    def _repr_html_(self) -> str:
        import html

        table = self.to_dataframe().to_html(index=False, float_format=short)
        return f"<div><strong>{html.escape(self.sentence)}</strong>{table}</div>"

    # -- helpers -------------------------------------------------------------------------------------

    def _effect(self, v: Variation) -> _Effect:
        """What a variation does to the base choice and the map."""
        mine, other = set(_front(self.base.rumap)), set(_front(v.rumap))
        both = mine | other
        moves = [_median_change(self.base.rumap, v.rumap, role) for role in ("risk", "utility")]
        common: dict[str, Any] = {
            "frontier": len(other),
            "frontier_shared": len(mine & other) / len(both) if both else 1.0,
        }
        common |= {"risk_change": moves[0], "utility_change": moves[1]}
        choice = self.base.choice
        if choice is None or choice.release not in v.rumap.releases:
            return _Effect(False, False, np.nan, np.nan, np.nan, **common)
        row = v.rumap[choice.release]
        limit = np.inf if v.max_risk is None else v.max_risk
        same = v.choice is not None and v.choice.release == choice.release
        allowed = same or self._allowed(v, row, limit)
        regret = np.nan
        if v.choice is not None and allowed:
            regret = 0.0 if same else self._cost(v.choice.value, v.kept)
        return _Effect(same, allowed, row.risk, row.utility, regret, **common, over=_over(row.risk, limit))

    def _allowed(self, v: Variation, row: ReleaseRow, limit: float) -> bool:
        if np.isinf(limit):
            return True
        threshold, room = check_threshold(v.rumap, limit)
        confidence = self.base.choice.confidence if self.base.choice is not None else None
        if confidence is None:
            return bool(row.risk <= threshold + room)
        return bool(row.converged and meets(v.rumap, threshold, room)[row.position] >= confidence)

    def _cost(self, best: float, kept: float) -> float:
        """What keeping the base choice costs, as a share of the best."""
        if self.about == "order" or not np.isfinite([best, kept]).all() or best == 0:
            return float("nan")
        return max((kept - best if self.about == "expected loss" else best - kept) / abs(best), 0.0)

    def _number(self, v: Variation, of: str) -> float:
        e = self._effect(v)
        if self.base.choice is None:
            return {"risk": e.risk_change, "utility": e.utility_change}.get(of, float("nan"))
        if of.startswith("chosen"):
            return float("nan") if v.choice is None else float(getattr(v.choice, of.split()[1]))
        return float(getattr(e, of))

    def _trouble(self, v: Variation, e: _Effect) -> str:
        assert self.base.choice is not None
        name = self.base.choice.release
        if np.isnan(e.risk):
            return f"{name} is not among the releases"
        if v.choice is None:
            return f"no release is allowed ({name} has risk {short(e.risk)})"
        if not e.meets:
            if e.over == 0:
                return f"{name} is not surely enough below the threshold {short(float(v.max_risk or np.inf))}"
            over = f"{_percent(e.over)} above the threshold {short(float(v.max_risk or np.inf))}"
            return f"{name} has risk {short(e.risk)}, {over}"
        if np.isnan(e.regret):
            return f"{v.choice.release} comes before {name}"
        return f"{name} costs {_percent(e.regret)} of the {self.about} against {v.choice.release}"


@dataclass(frozen=True)
class _Effect:
    same: bool
    meets: bool
    risk: float
    utility: float
    regret: float
    frontier: int
    frontier_shared: float
    risk_change: float
    utility_change: float
    over: float = 0.0

    @property
    def severity(self) -> float:
        """To name the worst: a broken threshold before a loss of utility, a release that is gone before both."""
        if np.isnan(self.risk):
            return 1e9
        if not self.meets:
            return 1e3 + min(self.over, 1e6)
        return self.regret if self.regret == self.regret else 0.0


def _front(rumap: RUMap) -> list[str]:
    return [rumap.releases[i] for i in np.flatnonzero(not_dominated(rumap.risk, rumap.utility))]


def _median_change(a: RUMap, b: RUMap, role: str) -> float:
    """Median relative change over the releases that both maps have."""
    places = {r: i for i, r in enumerate(b.releases)}
    pairs = [(i, places[r]) for i, r in enumerate(a.releases) if r in places]
    if not pairs:
        return float("nan")
    x, y = (np.asarray(getattr(m, role))[[p[k] for p in pairs]] for k, m in enumerate((a, b)))
    good = np.isfinite(x) & np.isfinite(y) & (x != 0)
    return float(np.median((y[good] - x[good]) / np.abs(x[good]))) if good.any() else float("nan")


def _over(risk: float, limit: float) -> float:
    return float(max(risk - limit, 0.0) / abs(limit)) if limit and np.isfinite(limit) else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"
