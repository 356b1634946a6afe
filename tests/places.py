"""Where the project and what may stand beside it are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
"""What lies beside a working copy and not in the project: data files that others distribute."""
REFERENCE = ROOT / "tests" / "reference"
"""Numbers of the papers and their inputs; its README names the sources."""
