"""Original and release beside each other, and the paper that every picture can be drawn on."""

from __future__ import annotations

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import ruvdecision as ruv
from ruvdecision import plots
from ruvdecision.errors import InputError
from ruvdecision.plots.theme import DARK, look_of


def two_files(n: int = 40) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(3)
    original = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"]).assign(text="x")
    return original, original.assign(a=original["a"] + rng.normal(0, 0.3, n))


@pytest.mark.parametrize(("kind", "count"), [("pairs", 9), ("scatter", 2), ("histograms", 3)])
def test_each_kind_draws_its_pictures(kind: str, count: int) -> None:
    figure = plots.files(*two_files(), kind=kind, style="dark")
    assert len(figure.axes) == count
    assert all(look_of(ax) is DARK for ax in figure.axes)
    plt.close(figure)


def test_rings_are_the_records_that_linkage_counts() -> None:
    original, released = two_files()
    share = float(ruv.measures.RecordLinkage(known=["a", "b"])(original, released))
    figure = plots.files(original, released, ["a", "b"], kind="scatter", linked=True)
    rings = [line for line in figure.axes[1].get_lines() if line.get_marker() == "o"]
    assert len(rings[0].get_xdata()) == round(40 * share)  # type: ignore[arg-type]
    assert f"{round(40 * share)} of 40 records are linked rightly" in figure.axes[1].get_title()
    own = plots.files(original, released, ["a", "b"], kind="scatter", linked=np.arange(40) < 7)
    assert "7 of 40" in own.axes[1].get_title()
    plt.close("all")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "pie"}, "kind"),
        ({"columns": ["a", "text"]}, "numeric columns of both files"),
        ({"columns": ["a"], "kind": "scatter"}, "needs two columns"),
        ({"linked": [True]}, "one flag per record"),
        ({"figure": 3}, "figure must be a Figure"),
    ],
)
def test_bad_arguments(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plots.files(*two_files(), **change)  # type: ignore[arg-type]


def test_files_of_other_records_have_no_links() -> None:
    original, released = two_files()
    with pytest.raises(InputError, match="same records"):
        plots.files(original, released[:9], linked=True)


@pytest.mark.parametrize("name", [name for name in plots.__all__ if name != "theme"])
def test_every_picture_takes_the_paper(name: str) -> None:
    assert inspect.signature(getattr(plots, name)).parameters["style"].default is None


@pytest.mark.parametrize("draw", ["rumap", "knowledge", "limit"])
def test_dark_paper(draw: str) -> None:
    belief = ruv.NormalBelief(records=10, variance=2, prior_variance=5)
    intruder, scientist = (ruv.User(belief, t, ruv.Quadratic()) for t in (ruv.Record(0), ruv.Parameter("mu")))
    if draw == "limit":
        ax = plots.limit(ruv.limit(intruder, scientist, np.linspace(0.2, 0.9, 4)), style="dark")
    else:
        masks = [ruv.Noise(variance=v) for v in (0.5, 1, 2, 4)]
        rumap = ruv.evaluate(masks, intruder=intruder, scientist=scientist)
        ax = getattr(plots, draw)(rumap, style="dark")
    assert look_of(ax) is DARK
    assert ax.xaxis.label.get_color() == DARK.ink
    plt.close("all")
    with pytest.raises(InputError, match="style is for a new figure"):
        plots.rumap(
            ruv.RUMap.build(labels=["a"], intruder=[1.0], scientist=[1.0]), ax=plt.figure().subplots(), style="dark"
        )
    plt.close("all")
