"""Build the documentation: python docs/build.py [out/docs]. Nothing is written outside the folder that is named.

Sphinx reads a copy of this folder, beside the pages that it makes: with the notebooks, the pages that stand in the
project's root, and the pictures, which are drawn anew when their script has changed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGES = ("ARCHITECTURE", "CHANGELOG", "SECURITY")


def prepare(source: Path) -> None:
    """Put everything that Sphinx reads into one folder."""
    for old in source.iterdir() if source.exists() else ():
        if old.name != "pictures":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copytree(HERE, source, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "_build"))
    (source / "notebooks").mkdir()
    for built in sorted((ROOT / "notebooks").glob("[0-9][0-9]*_*.ipynb")):
        shutil.copyfile(built, source / "notebooks" / built.name)
    for name in PAGES:
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        (source / f"{name.lower()}.md").write_text(text.replace("(docs/", "("), encoding="utf-8")
    drawn, script = source / "pictures" / "map.png", HERE / "make_pictures.py"
    if not drawn.exists() or drawn.stat().st_mtime < script.stat().st_mtime:
        run(str(script), str(drawn.parent))


def run(*command: str) -> None:
    """Run Python with the package of this checkout, leaving no compiled files in it."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, *command], check=True, env=environment)


def main(target: Path) -> None:
    """Build the site."""
    source = target.with_name(f"{target.name}-source")
    prepare(source)
    trees = target.with_name(f"{target.name}-trees")
    run("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(trees), str(source), str(target))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/docs").resolve())
