"""A fingerprint of confidential data that may stand in a report: a hash with a key that the agency keeps.

A plain hash would be a leak. Whoever knows all records but one can try every value of that one until the hash agrees,
and a salt that is printed beside it does not help. With a secret key nothing can be tried.

The key is ``RUVDECISION_KEY`` from the environment (an agency sets it once, for everybody who should be able to
compare), or a random one that is kept in the user's data directory and is readable by that user alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sys
from pathlib import Path

from ..data.write import place_files
from ..errors import InputError
from .digests import digest

VARIABLE = "RUVDECISION_KEY"
SHORTEST = 16


def fingerprint_data(data: object, key: str | bytes | None = None, *, create: bool = False) -> str:
    """Keyed hash of a data set: same data and same key, same text. It tells nothing without the key.

    Parameters
    ----------
    data : DataFrame, array or any data
        Told apart by values, types, names and order.
    key : str or bytes, optional
        At least 16 characters; the agency's own if not given.
    create : bool, default False
        Make a key of one's own if there is none; the command line does.

    Returns
    -------
    str
        The hash and a name of the key, or an empty text if there is no key.

    Examples
    --------
    >>> first, again = (fingerprint_data([1.0, 2.0], key="only the agency knows") for _ in range(2))
    >>> first == again, first == fingerprint_data([1.0, 2.1], key="only the agency knows")
    (True, False)
    """
    secret = _check_key(key) if key is not None else own_key(create)
    if secret is None:
        return ""
    # BLAKE2b takes keys of up to 64 bytes; the name of the key comes from another hash of it.
    short = hashlib.blake2b(secret, digest_size=32, person=b"data").digest()
    name = hashlib.blake2b(secret, digest_size=4, person=b"name").hexdigest()
    return f"blake2b {digest(data, short)}, key {name}"


def fingerprint_as_attrs(data: object) -> dict[str, str]:
    """The fingerprint as an attribute of a map; nothing where there is no key."""
    found = fingerprint_data(data)
    return {"data_fingerprint": found} if found else {}


def key_file() -> Path:
    """Where the user's own key is kept if the environment has none."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    else:
        base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "ruvdecision" / "key"


def own_key(create: bool = False) -> bytes | None:
    """The key of the environment, or the one that is kept in the user's data directory."""
    given = os.environ.get(VARIABLE)
    if given:
        return _check_key(given)
    try:
        path = key_file()
        if not path.exists() and not create:
            return None
        if not path.exists():
            # If another process is first its key counts.
            with contextlib.suppress(FileExistsError):
                place_files({path: secrets.token_hex(32).encode()}, folders=True, private=True)
        return _check_key(path.read_text("ascii").strip())
    except (OSError, RuntimeError, UnicodeDecodeError, InputError):
        # No home, no room, or a spoilt file: a study is worth more than its fingerprint.
        return None


def _check_key(key: object) -> bytes:
    if not isinstance(key, (str, bytes)):
        raise InputError("A key must be text or bytes", type(key).__name__, "Give a secret of at least 16 characters")
    raw = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    if len(raw) < SHORTEST:
        do = "A short key can be guessed; give a longer one"
        raise InputError(f"A key must have at least {SHORTEST} characters", f"{len(raw)}", do)
    return raw
