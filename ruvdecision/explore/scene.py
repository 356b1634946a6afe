"""What the page shows of one map: the sentence, the drawings, the numbers. Everything is read from the map."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..decide import not_dominated
from ..errors import InfeasibleError, InputError, RuvError
from ..maps.rumap import RUMap
from ..maps.scores import Column
from ..maps.show import HEADS, counted, entry, evenly, number, user_columns, value
from .lawdrawing import draw_panel
from .lesson import BeliefPanel, Built
from .mapdrawing import draw_map, series_of

#: Rows of the table, beside those that have a mark.
EXCERPT = 8
#: Releases that a pointer can find and the slider of releases can reach; further ones are left out evenly.
REACHED = 3000


def show(built: Built, max_risk: float, look: str, example: int, width: float) -> dict[str, Any]:
    """The scene of a map, ready for JSON.

    Parameters
    ----------
    built : Built
        The map and what belongs to it.
    max_risk : float
        The threshold.
    look : str
        What the reader looks at: "chosen", "own", or the label of a release after "release:".
    example : int
        Number of the example file that the posteriors are drawn for.
    width : float
        Width of the map's drawing in pixels.
    """
    rumap = built.rumap
    choice, sentence, kind = None, "", "decision"
    try:
        choice = rumap.choose(max_risk=max_risk)
        sentence = str(choice)
        if choice.within_error or not choice.row.converged:
            kind = "warning"
    except (InfeasibleError, InputError) as error:
        sentence, kind = f"No release is chosen. {error}", "warning"
    chosen = None if choice is None else int(choice.row.position)
    looked, how = _find(rumap, built, look, chosen)
    drawing = draw_map(rumap, max_risk, chosen, looked, width, _in_words(rumap, max_risk, sentence))
    order = [int(i) for one in series_of(rumap) for i in one.rows]
    if len(order) > REACHED:
        kept = {*evenly(np.array(order), REACHED).tolist(), chosen, looked}
        order = [i for i in order if i in kept]
    reached = set(order)
    panels = _panels(built, looked, example)
    # Side by side on a wide page, one below the other on a phone.
    room = width if width < 560 else (width - 16) / 2
    return {
        "sentence": sentence,
        "kind": kind,
        "facts": _facts(rumap, choice, max_risk),
        "users": _users(rumap),
        "notes": [note for note in built.notes if note],
        "map": {
            "svg": drawing.svg,
            "points": [p for p in drawing.points if int(p[2]) in reached],
            "legend": drawing.legend,
            "remarks": drawing.remarks,
        },
        "order": order,
        "labels": {str(i): rumap.releases[i] for i in order},
        "tips": {str(i): tip(rumap, i) for i in order},
        "look": {"row": looked, "how": how, "label": "" if looked is None else rumap.releases[looked]},
        "chosen": None
        if choice is None
        else {"row": chosen, "label": choice.release, **_numbers(rumap, int(chosen or 0))},
        "looked": None if looked is None else _numbers(rumap, looked),
        "panels": [
            {
                "who": p.who,
                "title": p.title,
                "words": p.words,
                "svg": draw_panel(p, room),
            }
            for p in panels
        ],
        "table": _table(rumap, choice, looked),
        "size": len(rumap),
    }


def tip(rumap: RUMap, i: int) -> str:
    """A release in one line.

    >>> tip(RUMap.build(labels=["a"], intruder=[2.0], scientist=[0.5]), 0)
    'a: risk 0.5, utility 2'
    """
    risk, utility = value(rumap.risk[i], rumap.risk_error[i]), value(rumap.utility[i], rumap.utility_error[i])
    return f"{rumap.releases[i]}: risk {risk}, utility {utility}" + ("" if rumap.converged[i] else "; not converged")


def _find(rumap: RUMap, built: Built, look: str, chosen: int | None) -> tuple[int | None, str]:
    """The row that the reader looks at, and how it was found."""
    if look == "own" and built.own is not None:
        return built.own, "own"
    if look.startswith("release:"):
        label = look.removeprefix("release:")
        try:
            return int(rumap[label].position), "picked"
        except InputError:
            pass  # other settings, other releases: look at the chosen one again
    if chosen is not None:
        return chosen, "chosen"
    # Nothing is chosen: the safest release is the nearest miss.
    return (None, "none") if np.all(np.isnan(rumap.risk)) else (int(np.nanargmin(rumap.risk)), "safest")


def _panels(built: Built, looked: int | None, example: int) -> list[BeliefPanel]:
    mask = None if looked is None or built.rumap.masks is None else built.rumap.masks[looked]
    if built.panels is None or mask is None:
        return []
    try:
        return list(built.panels(mask, example))
    except RuvError as error:
        return [BeliefPanel("intruder", "", words=f"No posterior can be drawn here: {error.what}.")]


def _facts(rumap: RUMap, choice: Any, max_risk: float) -> list[str]:
    """Why this release: how many were allowed, and what the threshold costs."""
    facts = []
    useful = "is the most useful" if isinstance(rumap.utility_score, Column) else "tells the scientist most"
    if choice is not None:
        verb = "has" if choice.allowed == 1 else "have"
        allowed = (
            f"{choice.allowed:,} of {counted(len(rumap), 'candidate release')} {verb} a risk of at most "
            f"{number(max_risk, 4)}"
        )
        facts.append(f"{allowed}; among them this one {useful}." if choice.allowed > 1 else f"{allowed}.")
        known = np.flatnonzero(~np.isnan(rumap.utility) & ~np.isnan(rumap.risk))
        best = int(known[np.argmax(rumap.utility[known])])
        if rumap.utility[best] > choice.utility:
            facts.append(
                f"Without the threshold it would be {rumap.releases[best]}, with utility "
                f"{number(float(rumap.utility[best]), 4)} and risk {number(float(rumap.risk[best]), 4)}."
            )
    front = int(not_dominated(rumap.risk, rumap.utility).sum())
    if front:
        facts.append(
            f"{counted(front, 'release')} {'is' if front == 1 else 'are'} on the frontier: no other one is as safe and "
            "more useful."
        )
    return facts


def _users(rumap: RUMap) -> list[str]:
    said = []
    for role, who in (("risk", "intruder"), ("utility", "scientist")):
        score = getattr(rumap, f"{role}_score")
        words = str(rumap.attrs.get(who, "")).strip()
        scale = (
            f"{role.capitalize()} is the column {score.name}."
            if isinstance(score, Column)
            else f"{role.capitalize()} is {score.words(who)}."
        )
        if words and not words.startswith(("The ", "A ", "An ")):
            words = f"The {who}: {words}"
        said.append(f"{words}{'' if not words or words.endswith('.') else '.'} {scale}".strip())
    return said


def _numbers(rumap: RUMap, i: int) -> dict[str, str]:
    return {name: entry(rumap, name, i) for name in user_columns(rumap)}


def _table(rumap: RUMap, choice: Any, looked: int | None) -> dict[str, Any]:
    marks: dict[int, list[str]] = {}
    if choice is not None:
        marks.setdefault(int(choice.row.position), []).append("chosen")
        if choice.next_best is not None:
            marks.setdefault(int(choice.next_best.position), []).append("next best")
    if looked is not None:
        marks.setdefault(looked, []).append("you look at it")
    known = np.flatnonzero(~np.isnan(rumap.risk) & ~np.isnan(rumap.utility))
    by_risk = known[np.argsort(rumap.risk[known], kind="stable")]
    rows = sorted(
        {*marks, *evenly(by_risk, EXCERPT).tolist()}, key=lambda i: (float(np.nan_to_num(rumap.risk[i], nan=np.inf)), i)
    )
    columns = user_columns(rumap)
    return {
        "head": ["release", *(HEADS.get(c, c) for c in columns), "mark"],
        "rows": [
            {
                "cells": [rumap.releases[i], *(entry(rumap, c, i) for c in columns), ", ".join(marks.get(i, []))],
                "kind": "chosen" if "chosen" in marks.get(i, []) else "looked" if i == looked else "",
            }
            for i in rows
        ],
        "more": len(rumap) - len(rows),
    }


def _in_words(rumap: RUMap, max_risk: float, sentence: str) -> str:
    known = ~np.isnan(rumap.risk) & ~np.isnan(rumap.utility)
    if not known.any():
        return "A map without a value."
    ends = [number(float(f(v[known])), 4) for v in (rumap.utility, rumap.risk) for f in (np.min, np.max)]
    run = f"Utility runs from {ends[0]} to {ends[1]} to the right, risk from {ends[2]} to {ends[3]} upwards"
    return (
        f"A risk-utility map of {counted(len(rumap), 'release')}. {run}; the threshold on the risk is "
        f"{number(max_risk, 4)}. {sentence}"
    )
