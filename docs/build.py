"""Build the site: ``python docs/build.py [DIRECTORY]``. It works in a copy: nothing is written beside the sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(site: Path) -> int:
    """Copy the pages, draw the pictures, take the notebooks in, and let Sphinx build; any warning fails."""
    copy = site.parent / f"{site.name}-source"
    for generated in ("reference", "notebooks"):
        shutil.rmtree(copy / generated, ignore_errors=True)
    shutil.copytree(ROOT / "docs", copy, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for page in ("ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md"):
        # Their links lead to files of the repository, which the site does not have.
        text = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", (ROOT / page).read_text(encoding="utf-8"))
        (copy / page.lower()).write_text(text, encoding="utf-8")
    (copy / "notebooks").mkdir()
    for built in sorted((ROOT / "notebooks").glob("[0-9][0-9]*_*.ipynb")):
        shutil.copyfile(built, copy / "notebooks" / built.name)
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "RUVDECISION_ROOT": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    pictures, script = copy / "pictures", ROOT / "docs" / "make_pictures.py"
    if not (pictures / "map.png").exists() or (pictures / "map.png").stat().st_mtime < script.stat().st_mtime:
        subprocess.run([sys.executable, str(script), str(pictures)], check=True, env=environment)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-b", "html", str(copy), str(site)]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out" / "docs").resolve()))
