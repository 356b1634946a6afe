"""Records that occur nowhere else, planted in data, and the search for them in whatever comes out.

A secret is looked for in every way in which it may be written: with many digits or few, in scientific form, as bytes of
either order and width, as text in two encodings, and inside what is packed: archives, compressed streams, base64. Three
digits may be a coincidence and are not looked for.
"""

from __future__ import annotations

import base64
import io
import re
import traceback
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = [
    "CATEGORY",
    "DATE",
    "LARGEST",
    "SECRETS",
    "SMALLEST",
    "WHO",
    "WHOLE",
    "chain",
    "files",
    "labelled",
    "leaks",
    "numbers",
    "table",
]

#: Five records in the middle of their column.
SECRETS = (90817.2635, 60504.3927, 70915.8264, 80624.1739, 50713.9462)
#: The ends of a column are records, too: they like to get out as limits of axes, thresholds and notes.
LARGEST, SMALLEST = 7318529.4186, -4926173.5821
#: A whole number, a name, a rare category and a date of birth.
WHOLE, WHO, CATEGORY, DATE = 918273645, "Zebulon Quixby", "ostrich farrier", pd.Timestamp("1937-03-29 04:17:53")


def _looks() -> list[bytes]:
    texts = {
        WHO,
        "Quixby",
        CATEGORY,
        f"{DATE:%Y-%m-%d}",
        f"{DATE:%d.%m.%Y}",
        f"{DATE:%m/%d/%Y}",
        str(WHOLE),
        f"{WHOLE:,}",
        f"{WHOLE:.6g}",
    }
    texts.add(str(DATE.value)[:12])
    found: set[bytes] = set()
    for x in (*SECRETS, LARGEST, SMALLEST):
        x = abs(x)
        texts |= {f"{x:.{d}g}" for d in (6, 7, 9)} | {repr(x), f"{x:.5e}"[:7], f"{x:,.2f}", f"{x:.0f}", f"{x:,.0f}"}
        texts |= {f"{x:.4g}"} if x > 1e6 else set()
    for x in (*SECRETS, LARGEST, SMALLEST):
        found |= {np.array(x, dtype=t).tobytes() for t in ("<f8", ">f8", "<f4", ">f4")}
    found |= {np.array(WHOLE, dtype=t).tobytes() for t in ("<i8", "<i4", ">i4", "<f8", ">f8")}
    found |= {np.array(DATE.value, dtype=t).tobytes() for t in ("<i8", ">i8")}
    return sorted(found | {t.encode() for t in texts} | {t.encode("utf-16-le") for t in (WHO, CATEGORY)})


LOOKS = _looks()


def leaks(content: bytes | str) -> list[bytes]:
    """The secrets that ``content`` shows, packed or not."""
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else bytes(content)
    parts = list(_unpacked(raw))
    return [s for s in LOOKS if any(s in part and (not _short(s) or _apart(s, part)) for part in parts)]


def _short(look: bytes) -> bool:
    return len(look) < 7 and look.isdigit()


def _apart(look: bytes, part: bytes) -> bool:
    """Whether five digits stand there as a number: inside another number's digits they are a coincidence."""
    return re.search(rb"(?<![0-9.])" + look + rb"(?![0-9])", part) is not None


def _unpacked(raw: bytes, depth: int = 0) -> Iterator[bytes]:
    # What is packed in long runs of letters is looked at unpacked: as letters it may look like anything.
    yield re.sub(rb"[A-Za-z0-9+/]{400,}={0,2}", b" ", raw)
    if depth == 3:
        return
    if raw[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            for name in archive.namelist():
                yield from _unpacked(archive.read(name), depth + 1)
    for start in re.finditer(rb"stream\r?\n|zTXt[^\0]*\0\0", raw):  # a PDF's streams, a PNG's compressed words
        try:
            yield from _unpacked(zlib.decompressobj().decompress(raw[start.end() :]), depth + 1)
        except zlib.error:
            continue
    for run in re.finditer(rb"[A-Za-z0-9+/]{11,}={0,2}", raw):  # arrays in a checkpoint, pictures in a page
        text = run.group().rstrip(b"=")
        yield from _unpacked(base64.b64decode(text + b"=" * (-len(text) % 4)) if len(text) % 4 != 1 else b"", depth + 1)


def chain(error: BaseException) -> str:
    """All that an error says: itself, its notes, its causes and contexts, and its arguments."""
    told, todo, seen = ["".join(traceback.format_exception(error))], [error], set()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        told += [str(one), repr(one.args), *getattr(one, "__notes__", ()), repr(getattr(one, "got", ""))]
        # A context that was cut off with ``from None`` is not shown to anybody.
        todo += [e for e in (one.__cause__, None if one.__suppress_context__ else one.__context__) if e is not None]
    return "\n".join(told)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def numbers() -> np.ndarray[Any, Any]:
    return np.array(SECRETS)


def table(rows: int = 60) -> pd.DataFrame:
    """A file with secrets in every kind of column."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "income": rng.normal(60000, 9000, rows).round(2),
            "age": rng.integers(20, 70, rows),
            "tax": rng.normal(9000, 900, rows).round(2),
            "wealth": rng.normal(1e5, 1e6, rows).round(2),
        }
    )
    frame.loc[:4, "income"] = SECRETS
    frame.loc[7, "wealth"], frame.loc[8, "wealth"] = LARGEST, SMALLEST
    frame.loc[9, "age"] = WHOLE
    return frame


def labelled(rows: int = 60) -> pd.DataFrame:
    """The same with names, a rare category, truth values and dates."""
    rng = np.random.default_rng(4)
    frame = table(rows)
    frame["trade"] = rng.choice(["baker", "smith", "mason"], rows)
    frame.loc[5, "trade"] = CATEGORY
    frame["name"] = [f"person {i}" for i in range(rows)]
    frame.loc[6, "name"] = WHO
    frame["born"] = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 9000, rows), unit="D")
    frame.loc[3, "born"] = DATE
    frame["owner"] = rng.random(rows) < 0.5
    return frame
