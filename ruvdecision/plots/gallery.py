"""Pictures for slides and papers: several maps, posteriors under several masks, U against noise, three measures.

All share the look of `plots.rumap`: colours that colour-blind readers can tell apart, light or dark paper
(``style=``), names written where the things are. matplotlib is imported when something is drawn, and nothing here
calls ``show()``.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_choice, check_filled, check_flag, check_integer, check_kind, check_list, is_label, suggest
from ..decide.criteria import Columns, check_map, directions
from ..decide.dominance import undominated
from ..errors import InputError
from ..maps.rumap import RUMap
from ..maps.show import better_end, shorten_text
from ..protocols import Array
from .axes import spans_decades
from .labels import Labeller
from .map import BARS, LINES, MapDrawing, write_texts
from .theme import (
    MARKERS,
    Style,
    as_literal_text,
    axes_on,
    empty_plot_error,
    figure_of,
    figure_on,
    hide_frame,
    look_of,
    points,
    set_title,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ARROWS = {"higher": "better →", "lower": "← better"}
MOST_NAMES = 14
"""Releases of a frontier that are named in the picture."""


def maps(
    maps: Mapping[str, RUMap] | Sequence[RUMap],
    max_risk: float | Mapping[str, float] | None = None,
    figure: Figure | None = None,
    *,
    names: Sequence[str] | None = None,
    across: int | None = None,
    share: bool = True,
    labels: bool = False,
    style: str | None = None,
    **options: Any,
) -> Figure:
    """Draw several maps side by side, as Trottini and Fienberg's figure 2 does, and return the Figure.

    Parameters
    ----------
    maps : mapping from name to map, or list of maps
        What to draw.
    max_risk : float or mapping from name to float, optional
        The threshold of all maps, or of each.
    figure : matplotlib Figure or SubFigure, optional
        Where to draw; a new one if not given.
    names : list of str, optional
        Names of the maps of a list; ``a``, ``b``, ... if not given.
    across : int, optional
        Maps in a row; about twice as many as rows if not given.
    share : bool
        Give all maps the same risk axis, so that heights can be compared. They must then measure risk alike.
    labels : bool
        Write parameter values along the curves.
    style : "light" or "dark", optional
        The paper of a new figure; matplotlib's own settings if not given.
    **options
        Further arguments of `rumap`.

    Examples
    --------
    >>> first = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> [ax.get_title() for ax in maps({"one": first, "half": first.take([0])}).axes]
    ['one', 'half']
    """
    from matplotlib.patches import Rectangle

    found = _maps_by_name(maps, names)
    check_flag("share", share, "Say whether all maps have the same risk axis")
    check_flag("labels", labels, "Say whether names are drawn")
    limits = max_risk if isinstance(max_risk, Mapping) else dict.fromkeys(found, max_risk)
    strange = [k for k in limits if k not in found]
    if strange:
        raise InputError("max_risk names a map that is not there", strange, suggest(str(strange[0]), list(found)))
    if share and len({m.risk_score for m in found.values()}) > 1:
        scores = sorted({m.risk_score.name for m in found.values()})
        do = "Use rumap.with_risk(...), or share=False"
        raise InputError("Maps that share an axis must measure risk alike", scores, do)
    if own := sorted(set(options) & {"ax", "legend", "title"}):
        raise InputError("plots.maps sets these itself", own, "Leave them out")
    prepared = [
        MapDrawing(one, limits.get(name), legend=False, labels=labels, title=name, **options)
        for name, one in found.items()
    ]
    wide = _maps_per_row(len(found)) if across is None else min(check_integer("across", across, low=1), len(found))
    high = -(-len(found) // wide)
    with figure_on(style, figure, (3.4 * wide + 1.6, 2.9 * high + 0.4)) as drawn:
        grid = drawn.subplots(high, wide, squeeze=False)
        used = list(grid.flat)[: len(found)]
        drawings = dict(zip(used, prepared, strict=True))
        for ax, drawing in drawings.items():
            drawing.draw(ax, own=False)
            if not labels:
                _say_chosen(ax, drawing)
        for ax in list(grid.flat)[len(found) :]:
            ax.remove()
        if share and len({ax.get_yscale() for ax in used}) > 1:
            for ax in used:
                ax.set_yscale("log" if all(a.get_ylim()[0] > 0 for a in used) else "linear")
        if share:
            low, top = min(ax.get_ylim()[0] for ax in used), max(ax.get_ylim()[1] for ax in used)
            for ax in used:
                ax.set_ylim(low, top)
                for shade in ax.patches:  # above the threshold, which reached to the map's own end
                    if isinstance(shade, Rectangle):
                        shade.set_height(top - shade.get_y())
        alike = len({m.utility_score.words("scientist") for m in found.values()}) == 1
        for i, ax in enumerate(used):
            ax.xaxis.label.set_fontsize("small")
            ax.yaxis.label.set_fontsize("small")
            # One label per row and column is enough where all say the same.
            if share and i % wide:
                ax.set_ylabel("")
            if alike and i + wide < len(found):
                ax.set_xlabel("")
        _common_legend(drawn, used)
        write_texts(drawings, beside=labels)
    return drawn


def uncertainty(
    rumap: RUMap,
    parameter: str | None = None,
    ax: Axes | None = None,
    *,
    users: Sequence[str] = ("intruder", "scientist"),
    relative: bool | None = None,
    log: bool | None = None,
    style: str | None = None,
) -> Axes:
    """Draw the users' uncertainty as a function of a mask's parameter, and return the Axes.

    Full lines are the intruder's U, dashed ones the scientist's; techniques differ in colour. Bars are one standard
    error, open markers did not converge. A good mask keeps the intruder's curve high and the scientist's low.

    Parameters
    ----------
    rumap : RUMap
        A map with users.
    parameter : str, optional
        A parameter of the masks; the one that takes most values if not given.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    users : list of "intruder" and "scientist"
        Whose U.
    relative : bool, optional
        Draw U as a share of U before any release, which puts both users on one scale. By default where that U is known.
    log : bool, optional
        A logarithmic parameter axis; by default where values are positive and span more than a factor of 30.
    style : "light" or "dark", optional
        The paper of a new figure.

    Examples
    --------
    >>> import ruvdecision as ruv
    >>> belief = ruv.NormalBelief(records=10, variance=2, prior_variance=5)
    >>> masks = [ruv.Noise(variance=v) for v in (0.5, 1, 2, 4)]
    >>> intruder, scientist = (ruv.User(belief, t, ruv.Quadratic()) for t in (ruv.Record(0), ruv.Parameter("mu")))
    >>> uncertainty(ruv.evaluate(masks, intruder=intruder, scientist=scientist)).get_xlabel()
    'variance'
    """
    check_map(rumap)
    for name, flag in (("relative", relative), ("log", log)):
        if flag is not None:
            check_flag(name, flag, "Leave it out, or write True or False")
    users = check_list("users", users, 'Write users=["intruder", "scientist"]')
    for who in users:
        check_choice("users", who, ["intruder", "scientist"])
    shown = [w for w in dict.fromkeys(users) if w in rumap.uncertainties]
    if not shown:
        raise empty_plot_error("no uncertainty, as in a map of measures", "Give a map that evaluate(...) made")
    numeric = {k: v.astype(float) for k, v in rumap.parameters.items() if v.dtype.kind == "f"}
    counts = {k: len(set(v[~np.isnan(v)].tolist())) for k, v in numeric.items()}
    if parameter is None:
        parameter = max(counts, key=lambda k: counts[k], default=None)
    if not is_label(parameter) or parameter not in counts or counts[parameter] < 2:
        do = suggest(str(parameter), [k for k in counts if counts[k] > 1])
        raise InputError("parameter must be one that varies between the masks", parameter, do)
    starts = {w: rumap.before[0 if w == "intruder" else 1] for w in shown}
    known = all(np.isfinite(s).all() and (s > 0).all() for s in starts.values())
    if relative and not known:
        do = "Leave relative out, or use proper priors"
        raise InputError("relative=True compares with U before any release", "not known", do)
    relative = known if relative is None else relative
    curves = _families_along_parameter(rumap, parameter)
    at = numeric[parameter]
    with axes_on(style, ax, (7.6, 4.6)) as ax:
        look = look_of(ax)
        finite = at[np.isfinite(at)]
        if log or (log is None and spans_decades(finite)):
            if finite.min() <= 0:
                raise InputError("A logarithmic axis needs positive values", float(finite.min()), "Leave log out")
            ax.set_xscale("log")
        for j, (name, rows) in enumerate(curves.items()):
            for k, who in enumerate(shown):
                pair, unit = rumap.uncertainties[who], starts[who][rows] if relative else 1.0
                y, error = pair.value[rows] / unit, pair.error[rows] / unit
                place = j if len(curves) > 1 else k
                colour, line = look.colours[place % len(look.colours)], LINES[0 if who == "intruder" else 1]
                text = who if len(curves) == 1 else f"{who}, {name}"
                _draw_curve(
                    ax, at[rows], y, error, rumap.converged[rows], colour, line, MARKERS[place % len(MARKERS)], text
                )
        ax.set_xlabel(as_literal_text(parameter))
        ax.set_ylabel("uncertainty U" + (", as a share of U before any release" if relative else " (expected loss)"))
        if relative:
            ax.axhline(1.0, color=look.soft, lw=1.0, ls=(0, (5, 3)), zorder=1)
        ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
        ax.margins(x=0.02)
        hide_frame(ax, look, "both", ("top", "right"))
        _name_ends(ax)
    return ax


def frontier3(
    rumap: RUMap,
    columns: Columns | None = None,
    ax: Axes | None = None,
    *,
    names: bool = True,
    title: str | None = None,
    style: str | None = None,
) -> Axes:
    """Draw the frontier of three measures: two as axes, the third as colour; return the Axes.

    Releases of the frontier are large and coloured, those that another one beats in all three are small and grey.
    Nothing is drawn in perspective: values can be read off.

    Parameters
    ----------
    rumap : RUMap
        The map.
    columns : list of three columns or mapping from column to "lower" or "higher", optional
        The first goes upwards, the second to the right, the third is the colour; ``"risk"`` and ``"utility"`` may be
        among them. A mapping says which end is better where the map does not know. Without it: risk, utility and the
        first measure.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    names : bool
        Name the releases of the frontier, if they are few.
    title : str, optional
        A title; how many releases are on the frontier if not given.
    style : "light" or "dark", optional
        The paper of a new figure.

    Examples
    --------
    >>> rumap = RUMap.build(
    ...     labels=["a", "b", "c"], intruder=[3.0, 2.0, 1.0], scientist=[3.0, 1.0, 2.0], columns={"IO": [0.2, 0.3, 0.1]}
    ... )
    >>> frontier3(rumap, {"risk": "lower", "utility": "higher", "IO": "higher"}).get_title()
    '2 of 3 releases are on the frontier of risk, utility and IO'
    """
    check_map(rumap)
    check_flag("names", names, "Say whether releases are named")
    if columns is None:
        measured = [k for k in better_end(rumap) if k in rumap.columns]
        columns = ["risk", "utility", *measured[:1]]
    ends = directions(rumap, columns)
    if len(ends) != 3:
        raise InputError("plots.frontier3 draws three columns", list(ends), 'Write columns=["risk", "IO", "KL"]')
    values = {k: rumap.column(k).value for k in ends}
    front = undominated(list(values.values()), list(ends.values()))
    y, x, z = values.values()
    drawn = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    if not drawn.any():
        raise empty_plot_error("no release has all three finite", "Look at the columns of the map")
    down, across, colour = ends
    with axes_on(style, ax, (8.2, 5.2)) as ax:
        look = look_of(ax)
        rest, best = drawn & ~front, drawn & front
        good = np.asarray(rumap.converged)
        ring: Style = {"mfc": "none", "zorder": 2, "label": "beaten by another release"}
        points(ax, x[rest], y[rest], "o", 4, look.soft, alpha=0.6, **ring)
        # Cividis is made for colour-blind readers and is as dark and bright in grey.
        low, high = float(z[drawn].min()), float(z[drawn].max())
        scale: Style = {"cmap": "cividis", "vmin": low, "vmax": high if high > low else low + 1.0}
        dots = ax.scatter(x[best], y[best], c=z[best], s=90, ec=look.ink, lw=0.8, zorder=3, **scale)
        unsure = best & ~good
        if unsure.any():
            ring |= {"zorder": 4, "label": "not converged"}
            points(ax, x[unsure], y[unsure], "o", 14, look.colours[1], mew=1.6, **ring)
        bar = ax.get_figure().colorbar(dots, ax=ax)  # type: ignore[union-attr]
        bar.set_label(as_literal_text(f"{colour} ({'more' if ends[colour] == 'higher' else 'less'} is better)"))
        ax.set_xlabel(as_literal_text(f"{across}   {ARROWS[ends[across]]}"))
        ax.set_ylabel(as_literal_text(f"{down}   {ARROWS[ends[down]]}"))
        gone = int((~drawn).sum())
        size = f"{int(front.sum()):,} of {len(rumap):,} releases are on the frontier of {down}, {across} and {colour}"
        size += f"; {gone} not drawn" if gone else ""
        set_title(ax, size if title is None else title, fontsize="medium")
        hide_frame(ax, look, "both", ("top", "right"))
        if names and 0 < best.sum() <= MOST_NAMES:
            _name_points(ax, x, y, rumap.releases, np.flatnonzero(best))
        if rest.any() or unsure.any():
            ax.legend(loc="best", frameon=False, fontsize="small")
    return ax


# -- paper ---------------------------------------------------------------------------------------------


def _common_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend for all maps. A technique may have another colour in another map: then its entry is there twice."""
    legend_entries: dict[tuple[str, str], tuple[Artist, str]] = {}
    for ax in axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            colour = getattr(handle, "get_color", lambda: "")()
            legend_entries.setdefault((name, str(colour)), (handle, name))
    if legend_entries:
        from matplotlib.lines import Line2D

        shown = list(legend_entries.values())
        room = 3.6 * figure.bbox.height / figure_of(axes[0]).dpi  # lines of small text
        lines = np.cumsum([1.2 + name.count("\n") for _, name in shown])
        if lines[-1] > room:
            most = max(3, int(np.sum(lines <= room - 1.2)))
            shown = [*shown[:most], (Line2D([], [], ls="none"), f"and {len(shown) - most} more")]
        handles, names = zip(*shown, strict=True)
        figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize="small")


def _maps_per_row(count: int) -> int:
    """Maps in a row: wider than high, with as few empty places as can be."""
    choices = range(int(np.ceil(np.sqrt(count))), int(np.ceil(np.sqrt(2 * count))) + 1)
    return min(choices, key=lambda wide: (-count % wide, wide))


def _say_chosen(ax: Axes, drawing: MapDrawing) -> None:
    """A small map has no room for texts beside its points: the chosen release goes below its title."""
    text = f"chosen: {drawing.chosen.release}" if drawing.chosen else drawing.refused
    if text:
        text = "\n".join(textwrap.wrap(text, 44, max_lines=2, placeholder=" …"))
        ax.set_title(f"{as_literal_text(str(drawing.title))}\n{as_literal_text(text)}", fontsize="small")


def _maps_by_name(maps: Mapping[str, RUMap] | Iterable[RUMap] | RUMap, names: Iterable[str] | None) -> dict[str, RUMap]:
    do = "Write plots.maps([rumap_a, rumap_b])"
    if isinstance(maps, Mapping):
        if names is not None:
            raise InputError("The maps have names already", "names beside a mapping", "Leave names out")
        found = {str(k): m for k, m in maps.items()}
    else:
        listed = [maps] if isinstance(maps, RUMap) else check_list("maps", maps, do)
        given = [chr(97 + i) if i < 26 else str(i + 1) for i in range(len(listed))]
        if names is not None:
            given = list(map(str, check_list("names", names, "Name each map once")))
        if len(given) != len(listed) or len(set(given)) != len(given):
            raise InputError(f"names must be {len(listed)} different texts", given, "Name each map once")
        found = dict(zip(given, listed, strict=True))
    for one in check_filled("maps", found.values(), do):
        check_kind("Each of maps", one, RUMap, do)
    return found


# -- curves and names ----------------------------------------------------------------------------------


def _families_along_parameter(rumap: RUMap, parameter: str) -> dict[str, NDArray[np.intp]]:
    """Rows that differ in one parameter alone, in its order, by a name."""
    at = rumap.parameters[parameter]
    others = {k: v for k, v in rumap.parameters.items() if k != parameter}
    groups: dict[tuple[str, ...], list[int]] = {}
    for i in np.flatnonzero(~np.isnan(at)).tolist():
        groups.setdefault((rumap.techniques[i], *(str(v[i]) for v in others.values())), []).append(i)
    named: dict[str, NDArray[np.intp]] = {}
    for key, members in groups.items():
        twins = [k for k in groups if k[0] == key[0]]
        described = [
            f"{n}={v}"
            for j, (n, v) in enumerate(zip(others, key[1:], strict=True))
            if len({t[j + 1] for t in twins}) > 1
        ]
        rows = np.array(members)
        named[", ".join([key[0], *described])] = rows[np.argsort(at[rows], kind="stable")]
    if len(named) > len(MARKERS) * 2:
        raise InputError("Too many curves to tell apart", len(named), "Take some of them with rumap.select(...)")
    return named


def _draw_curve(
    ax: Axes, x: Array, y: Array, error: Array, good: NDArray[np.bool_], colour: str, line: str, marker: str, name: str
) -> None:
    shown = np.isfinite(y)
    few = shown.sum() <= 40
    ax.plot(
        x[shown],
        y[shown],
        ls=line,
        lw=2,
        color=colour,
        marker=marker if few else "",
        ms=4,
        label=as_literal_text(name),
        zorder=3,
    )
    points(ax, x[shown & ~good], y[shown & ~good], marker, 7, colour, hollow=True, mew=1.5, zorder=4)
    barred = shown & (error > 0) & np.isfinite(error)
    if barred.any():
        ax.errorbar(x[barred], y[barred], error[barred], ecolor=colour, capsize=2, **BARS)


def _name_ends(ax: Axes) -> None:
    """Write the name of every curve at its right end, apart from one another."""
    figure = figure_of(ax)
    figure.draw_without_rendering()
    named = [(str(line.get_label()), np.asarray(line.get_xydata()), line.get_color()) for line in ax.get_lines()]
    named = [(name, path[-1], colour) for name, path, colour in named if not name.startswith("_") and len(path)]
    ends = np.array([ax.transData.transform(end)[1] for _, end, _ in named])
    step, place = 13 * figure.dpi / 72, ends.copy()
    for a, b in itertools.pairwise(np.argsort(ends)):
        place[b] = max(place[b], place[a] + step)
    place -= max(0.0, float(place.max(initial=0.0)) - ax.get_window_extent().y1)
    for (name, at, colour), away in zip(named, (place - ends) * 72 / figure.dpi, strict=True):
        style: Style = {"va": "center", "fontsize": "small", "color": colour, "annotation_clip": False}
        ax.annotate(name, tuple(at), xytext=(7, away), textcoords="offset points", **style)


def _name_points(ax: Axes, x: Array, y: Array, names: Sequence[str], rows: NDArray[np.intp]) -> None:
    figure = figure_of(ax)
    figure.draw_without_rendering()
    labeller = Labeller(ax, x[np.isfinite(x) & np.isfinite(y)], y[np.isfinite(x) & np.isfinite(y)])
    path = ax.transData.transform(np.column_stack([x[rows], y[rows]]))
    look = look_of(ax)
    count = len(ax.texts)
    for i, row in enumerate(rows):
        labeller.write_beside(shorten_text(names[row], 34), path[i : i + 1], 0, "black")
    for note in ax.texts[count:]:
        note.set_color(look.ink)
