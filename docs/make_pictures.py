"""Draw the pictures of the README with the package itself: python docs/make_pictures.py."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))

import trottini_fienberg_normal  # noqa: E402

if __name__ == "__main__":
    rumap = trottini_fienberg_normal.study()
    figure = trottini_fienberg_normal.figure(rumap, max_risk=0.5)
    figure.savefig(HERE / "map.png", dpi=110, metadata={"Software": None})
