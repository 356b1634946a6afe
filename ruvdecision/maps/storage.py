"""Keeping a map in a netCDF file. Masks are stored as text (their class and settings), never as code.

The rule of versions: a map carries the number of its format, in its attribute ``ruvdecision_map``. A change that an
older version could not read, or would read wrongly, raises the number; a version reads every format up to its own and
refuses later ones, which says to update. What a later format has in addition gets, in an older file, the value that it
had when there was no choice.

1. The map as it is today.
2. The same, and after the netCDF file a line with the SHA-256 of all bytes before it, which readers of netCDF pass
   over. It is looked at before anything else is: a byte that changed on a disk or a line would otherwise be a number
   that changed, or bring the HDF5 library down. A program that edits the file drops the line; such a file is read like
   one of format 1. Columns that are listed under ``escaped`` hold JSON of their text.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import re
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import masks
from ..checks import check_flag, check_kind
from ..data.write import check_output_paths, write_files
from ..errors import InputError, RuvError, UnsupportedError
from ..protocols import Array, Value
from ..running.encoding import Json, Stored, pack, unpack
from .columns import Entries, Labels, whole_text
from .rumap import Provenance, RUMap
from .scores import KNOWN, Column, Score, Tabulated, as_score

if TYPE_CHECKING:
    import h5py  # type: ignore[import-untyped]
    import xarray as xr

FORMAT = 2
_ODD = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
    MemoryError,
    zlib.error,
)
_OURS = ("before", "mask_spec", "score_risk", "score_utility")
_SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_.+@-]*")
_HDF5 = b"\x89HDF\r\n\x1a\n"
_SEAL = re.compile(rb"\nruvdecision sha256 ([0-9a-f]{64})\n\Z")
_PACKED: tuple[list[int], ...] = ([], [3], [1], [2, 1], [1, 3], [2, 1, 3])
"""Filters that other programs use: deflate (1), after shuffle (2), and a checksum (3). HDF5 loads others as plugins."""
_ROOM = 2**26
"""Bytes that a small file may become in memory; a large one may become 64 times its own."""
_UNPACKED = 4
"""Bytes that may be unpacked for each of those: many variables can be one and the same chunk."""
_CHUNKS = 10_000
"""Chunks of a variable that is packed: each is looked at before HDF5 unpacks it."""
_CHUNK = 2**24
"""Bytes that a chunk of a small variable may become in memory; other programs write some of a megabyte."""
_ARRAY = re.compile(r"[<>|=]?(?:[biuf]\d{1,2}|U\d+)")
_SEAL_LENGTH = len(b"\nruvdecision sha256 \n") + 64


def save(rumap: RUMap, path: str | os.PathLike[str], created: bool = False, *, overwrite: bool = False) -> Path:
    """Write a map to a netCDF file and return its path.

    The file appears whole or not at all, and one that exists is not written over unless ``overwrite`` says so. The same
    map gives the same bytes, because no date is stored unless ``created`` asks for it. A score that is a function of
    your own comes back with its values but not its code; a mask class of your own comes back as None with a note.
    """
    check_output_paths([path], overwrite=overwrite)
    check_flag("created", created, "Say whether the date is kept")
    return write_files({path: as_bytes(rumap, created)}, overwrite=overwrite)[0]


def load(path: str | os.PathLike[str]) -> RUMap:
    """Read a map that `save` wrote.

    Classes of masks are looked up by name in `ruvdecision.masks`; nothing in the file is run.
    """
    try:
        target = Path(path)
    except TypeError:
        raise InputError("A map file is named by its path", type(path).__name__, 'Write RUMap.load("map.nc")') from None
    if not target.is_file():
        do = "Check the path; maps are written by rumap.save(path)"
        raise InputError("There is no such map file", str(target), do)
    try:
        content = target.read_bytes()
    except OSError as error:
        raise InputError(f"{target} cannot be read", error.strerror or str(error), "Check its permissions") from None
    return from_bytes(content, str(target))


def as_bytes(rumap: RUMap, created: bool = False) -> bytes:
    """The file of a map, as `save` writes it.

    It is made in memory: the HDF5 library does not bear a disk that is full.
    """
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as opened:
        _dataset_of_map(rumap, created).dump_to_store(H5NetCDFStore(opened))
    content = buffer.getvalue()
    return content + b"\nruvdecision sha256 " + hashlib.sha256(content).hexdigest().encode() + b"\n"


def from_bytes(content: bytes, name: str = "the file") -> RUMap:
    """Read a map from the bytes of its file; ``name`` is for errors."""
    import h5py

    do = "Give a file that rumap.save(path) wrote"
    if not content.startswith(_HDF5):
        older = content.startswith(b"CDF")
        what = "The file is not a map"
        raise InputError(what, f"{name}, {'an older kind of netCDF' if older else 'no netCDF file'}", do)
    seal = _SEAL.search(content, max(len(content) - _SEAL_LENGTH, 0))
    if seal is not None and hashlib.sha256(content[: seal.start()]).hexdigest().encode() != seal[1]:
        do = "Take a copy, or save the map again"
        raise InputError("The map file is damaged", f"{name}: its bytes are not those that were written", do)
    try:
        # Not through xarray, which warns about files of others and looks at more than a map needs.
        with h5py.File(io.BytesIO(content), "r") as opened:
            described = _table_of_contents(opened)
            if described is None:
                raise InputError("The file is not a map of ruvdecision", name, do)
            meta = json.loads(described)
            version = meta["format"]
            if type(version) is int and version > FORMAT:
                got = f"{name}, format {version}; this version reads formats 1 to {FORMAT}"
                raise UnsupportedError("The map was saved by a newer version", got, "Update ruvdecision")
            if type(version) is not int or version < 1:
                raise TypeError("its format is not a number from 1 on")
            stored = _Reader(opened, max(_ROOM, 64 * len(content)), len(content)).read(_check_meta(meta))
        return _map_from_contents(meta, stored)
    except UnsupportedError:
        raise
    except RuvError as problem:
        if problem.do == do:
            raise
        raise InputError("The map file is damaged", f"{name}: {problem.what}", "Save the map again") from None
    except _ODD as problem:
        if isinstance(problem, (OSError, RuntimeError)) and not isinstance(problem, RecursionError):
            raise InputError("The file is not a map", f"{name}: {type(problem).__name__}", do) from problem
        got = f"{name}: {type(problem).__name__} {_shorten(problem)}"
        raise InputError("The map file is damaged", got, "Save the map again") from None


def fingerprint(rumap: RUMap) -> str:
    """SHA-256 of a map's labels and numbers, in hexadecimal: maps with the same one hold the same.

    It covers the releases in their order, both users' uncertainties with their errors, U0, risk, utility and all
    further columns. It does not cover attributes and notes, so it does not change when a map is saved and read again.

    >>> rumap = RUMap.build(labels=["a", "b"], intruder=[2.0, 1.0], scientist=[0.5, 0.25])
    >>> len(fingerprint(rumap)), fingerprint(rumap) == fingerprint(rumap.take([1, 0]))
    (64, False)
    """
    check_kind("rumap", rumap, RUMap, "Make one with ruv.evaluate or ruv.measure")
    parts: dict[str, Entries] = {"release": np.array(rumap.releases, dtype=str)}
    for who, pair in rumap.uncertainties.items():
        parts |= {f"{who}_uncertainty": pair.value, f"{who}_error": pair.error}
    parts |= {"intruder_before": rumap.before[0], "scientist_before": rumap.before[1]}
    parts |= {"risk": rumap.risk, "utility": rumap.utility}
    parts |= {f"column {name}": rumap.columns[name] for name in sorted(rumap.columns)}
    state = hashlib.sha256(b"ruvdecision map 1")
    for name, values in parts.items():
        if values.dtype.kind in "biuf":
            # One NaN and one zero: the same number must give the same bytes on every machine.
            numbers = np.where(np.isnan(values.astype(np.float64)), np.nan, values.astype(np.float64)) + 0.0
            contents = [numbers.astype("<f8").tobytes()]
        else:
            contents = [str(x).encode("utf-8", "surrogatepass") for x in values.tolist()]
        for raw in (name.encode("utf-8", "surrogatepass"), *contents):
            # The length in front, so that no two lists of texts run together to the same bytes.
            state.update(len(raw).to_bytes(8, "little") + raw)
    return state.hexdigest()


def _table_of_contents(opened: h5py.File) -> str | None:
    """The table of contents, one text; None if there is none."""
    import h5py

    if "ruvdecision_map" not in opened.attrs:
        return None
    entry = opened.attrs.get_id("ruvdecision_map")
    if entry.shape != () or h5py.check_string_dtype(entry.dtype) is None:
        return None
    text = opened.attrs["ruvdecision_map"]
    return text if isinstance(text, str) else None


def _check_meta(meta: Stored) -> Stored:
    """The table of contents, made of what it should be made of."""
    lists = {"parameters": str, "columns": str, "notes": str, "users": bool, "attrs": list}
    for name, kind in lists.items():
        if type(meta[name]) is not list or any(type(x) is not kind for x in meta[name]):
            raise TypeError(f"its {name} are no list")
    given = [*meta["names"].items(), *((x, x) for x in meta.get("escaped", ())), *((k, "") for k, _ in meta["attrs"])]
    if any(type(x) is not str for pair in given for x in pair):
        raise TypeError("its names are not text")
    if len(meta["users"]) != 2 or type(meta["masks"]) is not bool:
        raise TypeError("it does not say whose it is")
    if any(type(meta[role]) is not dict for role in ("risk", "utility")):
        raise TypeError("it does not say what it is made of")
    return meta


class _Reader:
    """Reads the variables that the table of contents lists, each after a look at what it is and how large.

    A file may name other files as the place of its data, link to them, or be small and yet claim billions of entries.
    """

    def __init__(self, opened: h5py.File, room: int, size: int) -> None:
        self.opened, self.room, self.size, self.block = opened, room, size, max(64, _ROOM // max(size, 1))
        self.unpacked = _UNPACKED * room

    def read(self, meta: Stored) -> dict[str, Entries]:
        true = {v: k for k, v in meta["names"].items()}
        texts = {"release", "technique", "engine", *meta.get("escaped", ())}
        numbers = [
            f"{w}_{end}"
            for w, has in zip(("intruder", "scientist"), meta["users"], strict=True)
            if has
            for end in ("uncertainty", "error")
        ]
        listed = dict.fromkeys([*("release", "technique", "engine"), *numbers, *meta["parameters"], *meta["columns"]])
        n = self._checked_dataset(true.get("release", "release")).size
        kinds = {k: "O" if k in texts else "biuf" if k in numbers else "biufO" for k in listed}
        found = {(at := true.get(k, k)): self._read_variable(at, (n,), kinds[k]) for k in listed}
        found["before"] = self._read_variable("before", (2, n), "f")
        settings = [v for _, v in meta["attrs"]] + [e["coords"] for e in meta.get("draws", ())]
        if meta["masks"]:
            found["mask_spec"] = self._read_variable("mask_spec", (n,), "O")
            settings += map(_parsed, found["mask_spec"].tolist())
        for each in settings:
            self._take_memory(_room_of_texts(each), "a list of texts")
        for role in ("risk", "utility"):
            if meta[role].get("tabulated") and (name := f"score_{role}") in self.opened:
                nodes = self._checked_dataset(name).size // 3
                found[name] = self._read_variable(name, (3, min(nodes, n)), "f")
        for name, shape in _draws_in(meta).items():
            found[name] = self._read_variable(name, shape, "biuf")
        return found

    def _checked_dataset(self, name: str) -> h5py.Dataset:
        import h5py

        if not isinstance(self.opened.get(name, getlink=True), h5py.HardLink) or "/" in name:
            raise LookupError(f"{name!r} is no variable of its own")
        variable = self.opened[name]
        if not isinstance(variable, h5py.Dataset):
            raise LookupError(f"{name!r} is no variable")
        made = variable.id.get_create_plist()
        if made.get_external_count() or variable.is_virtual:
            raise LookupError(f"{name!r} lies in another file")
        if [made.get_filter(i)[0] for i in range(made.get_nfilters())] not in _PACKED:
            raise LookupError(f"{name!r} is packed in a way that is not known")
        # HDF5 unpacks whole chunks, and one of a variable that may grow can be larger than all there is.
        size = max(variable.size or 0, 1) * variable.dtype.itemsize
        if variable.chunks and math.prod(variable.chunks) * variable.dtype.itemsize > max(size, _CHUNK):
            raise MemoryError(f"{name!r} is packed in pieces that are larger than it is")
        return variable

    def _read_variable(self, name: str, shape: tuple[int, ...], kinds: str) -> Entries:
        """A variable as it was before xarray wrote it."""
        import h5py

        variable = self._checked_dataset(name)
        text = h5py.check_string_dtype(variable.dtype) is not None
        plain = h5py.check_enum_dtype(variable.dtype) is None
        kind = "O" if text else variable.dtype.kind if plain else ""
        if variable.shape != shape or not kind or kind not in kinds or (kind == "O") != text:
            raise TypeError(f"{name!r} is not of the kind and length that it should have")
        self._take_memory(variable.size * variable.dtype.itemsize, name)
        self._refuse_swelling(variable, name)
        if not text:
            values = np.asarray(variable[()])
            marked = "dtype" in variable.attrs and variable.attrs.get_id("dtype").shape == ()
            return values.astype(bool) if marked and variable.attrs["dtype"] == "bool" else values
        entries, longest = np.empty(shape, dtype=object), 0
        for start in range(0, shape[0], self.block):  # many entries of a file can be one and the same long text
            part = slice(start, start + self.block)
            entries[part] = variable.asstr()[part]
            lengths = [len(x) for x in entries[part]]
            longest = max([longest, *lengths])
            self._take_memory(sum(lengths), name)
        if 4 * longest * len(entries) > self.room:  # numpy gives every entry the room of the longest
            raise MemoryError(f"{name!r} is too large")
        return entries

    def _refuse_swelling(self, variable: h5py.Dataset, name: str) -> None:
        """HDF5 unpacks all that was packed into a chunk, before it looks how much should be there."""
        if variable.compression is None or not variable.size:
            return
        corners = [range(0, size, step) for size, step in zip(variable.shape, variable.chunks, strict=True)]
        if math.prod(map(len, corners)) > _CHUNKS:
            raise MemoryError(f"{name!r} is packed in too many pieces")
        whole = math.prod(variable.chunks) * max(variable.dtype.itemsize, 16)  # a text is its length and its place
        made = variable.id.get_create_plist()
        deflate = [made.get_filter(i)[0] for i in range(made.get_nfilters())].index(1)
        for corner in itertools.product(*corners):
            about = variable.id.get_chunk_info_by_coord(corner)
            # A chunk can go without some of the filters, and says which.
            if about.byte_offset is not None and not about.filter_mask >> deflate & 1:
                if about.size > self.size:
                    raise LookupError(f"{name!r} is larger than its file")
                unpacked = zlib.decompressobj().decompress(variable.id.read_direct_chunk(corner)[1], whole + 1)
                self.unpacked -= len(unpacked)
                if len(unpacked) > whole or self.unpacked < 0:
                    raise MemoryError(f"{name!r} holds more than it says")

    def _take_memory(self, size: int, name: str) -> None:
        self.room -= size
        if self.room < 0:
            raise MemoryError(f"{name!r} is too large for a file of this size")


def _parsed(spec: str) -> Json:
    with contextlib.suppress(ValueError, RecursionError):  # said when the mask is made
        return json.loads(spec)
    return None


def _room_of_texts(stored: Json) -> int:
    """Bytes of the texts in what was stored if they are an array: numpy gives every entry the room of the longest."""
    lengths, todo = [0], [stored]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            lengths.append(len(one))
        elif isinstance(one, (list, dict)):
            todo += one if isinstance(one, list) else one.values()
    return 4 * max(lengths) * len(lengths)


def encode(value: object) -> Json:
    """Turn a mask or a setting into what JSON can hold; raises `TypeError` for what cannot be stored as text."""
    return pack(value, _encode_array_or_mask)


def decode(stored: Json) -> Any:
    """Undo `encode`; raises `LookupError` for a mask class that is not there."""
    return unpack(stored, _decode_array_or_mask)


def _encode_array_or_mask(value: object) -> Json:
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return {"array": encode(value.tolist()), "dtype": value.dtype.str, "shape": list(value.shape)}
    # The very class, not one that only shares its name: it must come back as what it was.
    if isinstance(value, masks.Mask) and _mask_class(type(value).__name__) is type(value):
        return {"mask": type(value).__name__, "settings": [[k, encode(v)] for k, v in value.settings().items()]}
    raise TypeError(f"{type(value).__name__} cannot be stored as text")


def _decode_array_or_mask(stored: Stored) -> object:
    if "array" in stored:
        if type(stored["dtype"]) is not str or not _ARRAY.fullmatch(stored["dtype"]):
            raise TypeError("an array of an unknown kind")
        # Text is as wide as it is: a width that a file claims could be gigabytes.
        kind = str if "U" in stored["dtype"] else np.dtype(stored["dtype"])
        return np.array(decode(stored["array"]), dtype=kind).reshape(stored["shape"])
    known = _mask_class(stored["mask"])
    if known is None:
        raise LookupError(stored["mask"])
    return known(**{k: decode(v) for k, v in stored["settings"]})


def _mask_class(name: str) -> type[masks.Mask] | None:
    """A class of masks that the package offers; None if there is none of that name."""
    known = getattr(masks, name) if name in dir(masks) else None
    return known if isinstance(known, type) and issubclass(known, masks.Mask) else None


def _dataset_of_map(rumap: RUMap, created: bool) -> xr.Dataset:
    dataset = rumap.long_dataset.drop_vars(["risk", "utility", "risk_error", "utility_error"])
    notes, specs = list(rumap.notes), []
    for mask in rumap.masks or ():
        try:
            specs.append(json.dumps(encode(mask)))
        except TypeError as problem:
            specs.append("")
            notes.append(f"The mask {_shorten(mask)} was not stored: {problem}")
    # netCDF forbids some names, a slash for one, and a few are ours; the true names are kept, too.
    names = {
        str(k): str(k) if _SAFE.fullmatch(str(k)) and str(k) not in _OURS else f"column_{i}"
        for i, k in enumerate(dataset.variables)
    }
    while len(set(names.values())) != len(names):
        names = {k: v if k == v else f"_{v}" for k, v in names.items()}
    dataset = dataset.rename({k: v for k, v in names.items() if k != v})
    attrs = {**rumap.attrs, **({"created": datetime.now(UTC).isoformat(timespec="seconds")} if created else {})}
    meta: Stored = {
        "format": FORMAT,
        "names": {v: k for k, v in names.items() if k != v},
        "parameters": list(rumap.parameters),
        "columns": list(rumap.columns),
        "notes": list(dict.fromkeys(notes)),
        "attrs": [[k, _encode_attr(v)] for k, v in attrs.items()],
        "users": [rumap.intruder is not None, rumap.scientist is not None],
        "masks": rumap.masks is not None,
    }
    kept, meta["draws"] = _stored_draws(rumap)
    dataset = dataset.assign(kept)
    for role in ("risk", "utility"):
        meta[role], extra = _score_spec(rumap, role)
        if extra is not None:
            dataset[f"score_{role}"] = ((f"{role}_part", f"{role}_node"), extra)
    dataset["before"] = (("role", "release"), np.stack(rumap.before))
    if rumap.masks is not None:
        dataset["mask_spec"] = ("release", np.array(specs, dtype=str))
    # For readers of other programs; what counts is in the JSON.
    readable = {
        whole_text(k): v if isinstance(v, float) or (isinstance(v, int) and abs(v) < 2**62) else whole_text(v)
        for k, v in attrs.items()
        if v is not None and k
    }
    dataset.attrs = {
        **readable,
        "risk_function": whole_text(rumap.risk_score.name),
        "utility_function": whole_text(rumap.utility_score.name),
        "ruvdecision_map": json.dumps(meta),
    }
    return dataset


def _map_from_contents(meta: Stored, stored: dict[str, Entries]) -> RUMap:
    columns = {meta["names"].get(k, k): v for k, v in stored.items() if k not in _OURS and k not in _draws_in(meta)}

    for name in meta.get("escaped", ()):
        columns[name] = np.array([json.loads(x) for x in columns[name].tolist()], dtype=object)

    def text(name: str) -> list[str]:
        return [str(x) for x in columns[name].tolist()]

    notes, specs = list(meta["notes"]), stored["mask_spec"].tolist() if meta["masks"] else []
    found = [_read_mask(label, spec, notes) for label, spec in zip(text("release"), specs, strict=bool(specs))]
    users = [
        Value(columns[f"{who}_uncertainty"].astype(float), columns[f"{who}_error"].astype(float)) if there else None
        for who, there in zip(("intruder", "scientist"), meta["users"], strict=True)
    ]
    return RUMap.build(
        masks=found if meta["masks"] else None,
        labels=Labels(
            text("release"), text("technique"), {k: _as_numbers_or_text(columns[k]) for k in meta["parameters"]}
        ),
        intruder=users[0],
        scientist=users[1],
        before=(stored["before"][0], stored["before"][1]),
        risk=_read_score(meta["risk"], stored.get("score_risk")),
        utility=_read_score(meta["utility"], stored.get("score_utility")),
        columns={k: _as_numbers_or_text(columns[k]) for k in meta["columns"]},
        attrs={k: decode(v) for k, v in meta["attrs"]},
        provenance=Provenance(text("engine"), notes, draws=_read_draws(meta, stored)),
    )


def _stored_draws(rumap: RUMap) -> tuple[dict[str, tuple[list[str], Entries]], list[Stored]]:
    """Kept draws as variables ``draws_0``, ``draws_1``, ... of the file, each array once, and what they are."""
    arrays: dict[str, tuple[list[str], Entries]] = {}
    names: dict[int, str] = {}
    entries: list[Stored] = []
    for user, parts in rumap._draws.items():
        for label, groups in parts.items():
            if label not in rumap.releases:
                continue
            for group, data in groups.items():
                variables: list[list[object]] = []
                for name, variable in data.data_vars.items():
                    values = variable.values
                    values = values.astype(np.int8) if values.dtype == bool else values
                    key = names.setdefault(id(variable.variable._data), f"draws_{len(names)}")
                    arrays[key] = ([f"{key}_{i}" for i in range(values.ndim)], values)
                    kind = "bool" if variable.dtype == bool else ""
                    variables.append([str(name), key, [str(d) for d in variable.dims], list(values.shape), kind])
                coords = [[str(name), encode(c.values.tolist())] for name, c in data.coords.items()]
                about = {"user": user, "release": rumap.releases.index(label), "group": group}
                entries.append({**about, "variables": variables, "coords": coords, "attrs": dict(data.attrs)})
    return arrays, entries


def _draws_in(meta: Stored) -> dict[str, tuple[int, ...]]:
    """Variables of a file that hold draws, and their shapes."""
    listed = [one for entry in meta.get("draws", ()) for one in entry["variables"]]
    return {str(key): tuple(int(size) for size in shape) for _, key, _, shape, _ in listed}


def _read_draws(meta: Stored, stored: dict[str, Entries]) -> dict[str, dict[int, dict[str, xr.Dataset]]]:
    import xarray as xr

    found: dict[str, dict[int, dict[str, xr.Dataset]]] = {}
    for entry in meta.get("draws", ()):
        arrays = {
            name: (dims, stored[key].astype(bool) if kind == "bool" else stored[key])
            for name, key, dims, _, kind in entry["variables"]
        }
        coords = {name: decode(values) for name, values in entry["coords"]}
        data = xr.Dataset(arrays, coords=coords, attrs=entry["attrs"])
        found.setdefault(str(entry["user"]), {}).setdefault(int(entry["release"]), {})[str(entry["group"])] = data
    return found


def _read_mask(label: str, spec: str, notes: list[str]) -> masks.Mask | None:
    if not spec:
        return None
    try:
        mask = decode(json.loads(spec))
        if not isinstance(mask, masks.Mask):
            raise TypeError("it is no mask")
        return mask
    except (RuvError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError, MemoryError) as problem:
        notes.append(f"The mask {_shorten(label)} was not restored: {type(problem).__name__} {_shorten(problem)}")
        return None


def _score_spec(rumap: RUMap, role: str) -> tuple[dict[str, Json], Array | None]:
    """How a score is stored: by name if it is ours, by its values at the map's own U if it is a function."""
    axis, spec = rumap.axis(role), dict[str, Json]()
    found, score = axis.score.source(axis)
    if axis.score.column is not None:
        spec["column"] = axis.score.column
    if score is None:
        return spec, None
    assert found is not None
    u = found.value
    spec["name"] = score.name
    if score in KNOWN.values():
        return spec, None
    spec["tabulated"] = True
    nodes = np.unique(u[~np.isnan(u)])
    with np.errstate(all="ignore"):
        return spec, np.stack([nodes, score(nodes), score.slope(nodes, np.array(np.nan))])


def _read_score(spec: Stored, table: Entries | None) -> Score | Column:
    score: Score | Column | None = as_score(spec["name"]) if "name" in spec and not spec.get("tabulated") else None
    if spec.get("tabulated"):
        if table is None:
            raise LookupError("its score")
        score = Tabulated(spec["name"], *(tuple(row.tolist()) for row in table))
    if "column" in spec:
        return Column(spec["column"], score)
    if score is None:
        raise LookupError("its score")
    return score


def _encode_attr(value: object) -> Json:
    try:
        return encode(value)
    except TypeError:
        return str(value)


def _as_numbers_or_text(array: Entries) -> Entries:
    return array if array.dtype.kind in "biuf" else np.array([str(x) for x in array.tolist()])


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
