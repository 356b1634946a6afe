"""List the licences of everything that ruvdecision installs, and fail where one is unknown or would bind its users.

Run by `make lint`: python .ci/licences.py
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution

#: Licences that ask whoever passes on a program built on them to open it.
BINDING = re.compile(r"\bA?GPL|GNU (Affero )?General Public", re.IGNORECASE)
#: What says nothing about itself in its metadata, looked up by hand.
KNOWN = {"cons": "LGPL-3.0", "minikanren": "BSD-3-Clause"}


def licence(package: Distribution) -> str:
    """The licence by its expression, its classifiers or its first line."""
    about = package.metadata
    classified = [
        c.rsplit("::", 1)[-1].strip() for c in about.get_all("Classifier") or () if c.startswith("License ::")
    ]
    stated = (about.get("License-Expression") or "", ", ".join(classified), (about.get("License") or "").strip())
    first = next((text for text in stated if text and text != "UNKNOWN"), KNOWN.get(str(about["Name"]).lower(), ""))
    return first.splitlines()[0][:60] if first else ""


def installed(name: str = "ruvdecision") -> dict[str, Distribution]:
    """What a package needs, and what that needs, as far as it is installed here; extras are left out."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        wanted = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if wanted in found:
            continue
        try:
            found[wanted] = distribution(wanted)
        except PackageNotFoundError:
            continue  # for another system or Python
        needs = [r for r in found[wanted].requires or () if "extra ==" not in r]
        waiting += [re.split(r"[^A-Za-z0-9._-]", r, maxsplit=1)[0] for r in needs]
    return dict(sorted(found.items()))


def main() -> int:
    """Print the list; the exit code is 1 if a licence is unknown or binding."""
    listed = {f"{name} {package.version}": licence(package) for name, package in installed().items()}
    for name, text in listed.items():
        sys.stdout.write(f"{name:<32} {text or 'UNKNOWN'}\n")
    bad = [name for name, text in listed.items() if not text or (BINDING.search(text) and "LGPL" not in text)]
    sys.stdout.write(f"{len(listed)} packages; to look at: {', '.join(bad) or 'none'}\n")
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
