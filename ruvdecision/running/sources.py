"""The source text that results depend on: every imported module that is neither the standard library nor installed.

The text is read from disk when a run starts. Of a package all files count; of a module also those that its functions
import later. The main module does not count as a whole: a script or a notebook goes on changing around the study, so
that only the functions and classes of it count that the study uses (`ruvdecision.running.digests` looks at those).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
import sysconfig
from pathlib import Path

STANDARD = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
LATER = re.compile(rb"^[ \t]+(?:from|import)[ \t]+(\w+)", re.MULTILINE)


def sources() -> dict[str, bytes]:
    """Source text by the name of the module, or of the package that it belongs to.

    >>> "numpy" in sources(), "json" in sources()
    (False, False)
    """
    found: dict[str, bytes] = {}
    names = set(sys.modules) - {"__main__"}
    tops = {name.partition(".")[0] for name in names}
    bare = {top for top in tops if file_of(top) is None}
    waiting = [*(tops - bare), *(name for name in names if name.partition(".")[0] in bare)]
    while waiting:
        name = waiting.pop()
        file = file_of(name)
        if name in found or is_library(name) or file is None or not file.endswith(".py"):
            continue
        package = Path(file).name == "__init__.py"
        files = sorted(Path(file).parent.rglob("*.py")) if package else [Path(file)]
        found[name] = b"".join(b"%s\n%s\n" % (os.fsencode(f.name), f.read_bytes()) for f in files)
        later = {match.decode() for match in LATER.findall(found[name])} if not package else set()
        waiting += [other for other in later if other not in sys.modules and not is_library(other)]
    return found


def is_library(name: str) -> bool:
    """Whether a module is of the standard library or installed. One that has no file is neither."""
    file = file_of(name)
    if file is None:
        return name.partition(".")[0] in sys.stdlib_module_names
    return file.startswith(STANDARD) or INSTALLED.search(file) is not None


def file_of(name: str) -> str | None:
    """The file of a module, imported or not; None where there is none, as in a notebook."""
    module = sys.modules.get(name)
    found = _find(name) if module is None else getattr(module, "__file__", None)
    return found if found and os.path.isfile(found) else None


@functools.lru_cache(maxsize=1024)
def _find(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except (AttributeError, ImportError, ValueError):
        return None
    return None if spec is None else spec.origin
