"""Read a manifest that may hold anything, and let through only what this version writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import fields
from .errors import RuntimeArtifactError, shown
from .manifest import (
    DECIDED,
    FILE_NAME,
    FORMAT,
    FORMAT_VERSIONS,
    NEWER_FIELDS,
    Alternative,
    FileRecord,
    Manifest,
    TargetRecord,
    Weight,
    checksum,
    library_name,
)
from .spec import ALIGNMENT, ITEM_BYTES, TensorSpec, fits
from .structure import leaves
from .structure import parsed as parsed_structure
from .trust import SIGNATURE_FILE


def parse(data: bytes, where: str = FILE_NAME) -> Manifest:
    """Read a manifest that may hold anything.

    Raises
    ------
    RuntimeArtifactError
        For every document that :meth:`Manifest.to_bytes` of this format version could not have
        written.
    """
    body = fields.parse_json(data, where)
    if body.get("format") != FORMAT:
        raise RuntimeArtifactError(
            where,
            f"the format is {shown(body.get('format'))}",
            shown(FORMAT),
            "name a directory that library.export() wrote",
        )
    version = body.get("format_version")
    if type(version) is not int or version not in FORMAT_VERSIONS:
        raise RuntimeArtifactError(
            where,
            f"format version {shown(version)}",
            " or ".join(map(str, FORMAT_VERSIONS)),
            "install the release of tvm-sparse that wrote it, or export it again",
        )
    found = body.pop("checksum", None)
    if found != _checksum(body):
        raise RuntimeArtifactError(
            where, "its content does not match its own checksum", "", fields.DAMAGED
        )
    for key in ("format", "format_version"):
        del body[key]
    newer = {key: _NEWER[key] for key, since in NEWER_FIELDS.items() if since <= version}
    if version > NEWER_FIELDS["structure"]:
        newer["structure"] = fields.optional(parsed_structure)
    if version >= DECIDED:
        newer["alternatives"] = _alternatives("decisions")
    manifest = Manifest(**fields.record({**_FIELDS, **newer})(body, where))
    _check_structure(manifest, where)
    _check_unaligned(manifest, where)
    _check_weights(manifest.weights, where)
    for name in (program.library for program in manifest.programs()):
        library = manifest.files.get(name)
        if library is None or name != library_name(library.sha256):
            raise fields.wrong(where, name, "a library named after its checksum")
    return manifest


def _checksum(body: Mapping[str, Any]) -> str | None:
    """Return the checksum of ``body``; None if no manifest can have such content."""
    try:
        return checksum(body)
    except (ValueError, RecursionError):  # a number beyond all floats, deep nesting
        return None


def _check_weights(weights: tuple[Weight, ...], where: str) -> None:
    """Refuse tensors that overlap or are listed twice."""
    end, names = 0, set()
    for weight in weights:
        if weight.name in names:
            raise fields.wrong(where, weight.name, "each weight once")
        if weight.offset < end:
            place = f"{where}: weight {weight.name}"
            raise fields.wrong(place, weight.offset, f"an offset of at least {end}")
        names.add(weight.name)
        end = weight.offset + weight.nbytes


def _check_structure(manifest: Manifest, where: str) -> None:
    """Refuse a structure that does not name each input and output once, in order."""
    if manifest.structure is None:
        return
    for what, specs, trees in (
        ("inputs", manifest.inputs, [tree for _, tree in manifest.structure.arguments]),
        ("outputs", manifest.outputs, [manifest.structure.output]),
    ):
        places = [leaf for tree in trees for leaf in leaves(tree) if isinstance(leaf, int)]
        if places != [*range(len(specs))]:
            raise fields.wrong(f"{where}: structure", places, f"all {len(specs)} {what} in order")


def _check_unaligned(manifest: Manifest, where: str) -> None:
    """Refuse numbers that are not those of inputs, in order."""
    found = [*manifest.unaligned]
    if found != [i for i in range(len(manifest.inputs)) if i in found]:
        raise fields.wrong(f"{where}: unaligned", found, "numbers of inputs in order")


def _dtype(value: Any, where: str) -> str:
    if not isinstance(value, str) or value not in ITEM_BYTES:
        raise fields.wrong(where, value, f"one of {', '.join(ITEM_BYTES)}")
    return value


def _dimension(value: Any, where: str) -> int | str:
    if isinstance(value, str):
        return fields.text(value, where)
    return int(fields.integer(0)(value, where))


def _static_shape(value: Any, where: str) -> tuple[int, ...]:
    shape: tuple[int, ...] = fields.sequence(fields.integer(0))(value, where)
    _check_size(shape, value, where)
    return shape


def _shape(value: Any, where: str) -> tuple[int | str, ...]:
    shape: tuple[int | str, ...] = fields.sequence(_dimension)(value, where)
    _check_size([extent for extent in shape if isinstance(extent, int)], value, where)
    return shape


def _check_size(extents: Sequence[int], value: Any, where: str) -> None:
    if not fits(extents):
        raise fields.wrong(where, value, "a shape that fits into memory")


def _offset(value: Any, where: str) -> int:
    """Check for a place in the weight section where a tensor may begin."""
    offset = int(fields.integer(0, 2**60)(value, where))
    if offset % ALIGNMENT:
        raise fields.wrong(where, offset, f"a multiple of {ALIGNMENT}")
    return offset


def _plain_name(value: Any, where: str) -> str:
    name = fields.text(value, where)
    if name in {".", "..", FILE_NAME, SIGNATURE_FILE} or "/" in name or "\\" in name:
        raise RuntimeArtifactError(
            where,
            f"the path {shown(name)} leaves the directory",
            "the plain name of a file inside it",
            "do not load this artifact",
        )
    return name


def _digest(value: Any, where: str) -> str:
    if not isinstance(value, str) or len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise fields.wrong(where, value, "64 hexadecimal digits")
    return value


def _build(kind: type, checks: Mapping[str, fields.Check]) -> fields.Check:
    """Return a check for an object that becomes a ``kind``."""
    test = fields.record(checks)
    return lambda value, where: kind(**test(value, where))


def _bounds(value: Any, where: str) -> dict[str, tuple[int, int | None]]:
    """Check for an object that gives symbols a pair: the smallest extent, the largest or null."""
    pairs = fields.mapping(fields.sequence(fields.optional(fields.integer(0))))(value, where)
    for name, pair in pairs.items():
        if len(pair) != 2 or pair[0] is None or (pair[1] is not None and pair[1] < pair[0]):
            raise fields.wrong(f"{where}[{shown(name)}]", list(pair), "two integers in order")
    return pairs


def _files(value: Any, where: str) -> dict[str, FileRecord]:
    for name in value if isinstance(value, dict) else ():
        _plain_name(name, where)
    item = _build(FileRecord, {"sha256": _digest, "size": fields.integer(0)})
    result: dict[str, FileRecord] = fields.mapping(item)(value, where)
    return result


_SPECS = fields.sequence(
    _build(
        TensorSpec,
        {"name": fields.text, "shape": _shape, "dtype": _dtype},
    )
)
_TARGET = _build(
    TargetRecord,
    {
        "kind": fields.text,
        "machine": fields.text,
        "mcpu": fields.text,
        "cpu_features": fields.sequence(fields.text),
        "gpu_archs": fields.sequence(fields.text),
    },
)
_WEIGHTS = fields.sequence(
    _build(
        Weight,
        {
            "name": fields.text,
            "dtype": _dtype,
            "shape": _static_shape,
            "offset": _offset,
        },
    )
)
_FIELDS: dict[str, fields.Check] = {
    "versions": fields.record(dict.fromkeys(("tvm", "tvm_ffi", "tvm_sparse"), fields.text)),
    "target": _TARGET,
    "inputs": _SPECS,
    "outputs": _SPECS,
    "weights": _WEIGHTS,
    "library": _plain_name,
    "code": _digest,
    "bounds": _bounds,
    "files": _files,
    "threads": fields.optional(fields.integer(1, 4096)),
    "decisions": fields.sequence(fields.mapping(fields.anything)),
}


def _alternatives(*more: str) -> fields.Check:
    """Return a check for programs that have ``more`` keys than all have."""
    keys = ("target", "library", "code", "weights", *more)
    return fields.sequence(_build(Alternative, {key: _FIELDS[key] for key in keys}))


_NEWER: dict[str, fields.Check] = {
    "alternatives": _alternatives(),
    "structure": parsed_structure,
    "unaligned": fields.sequence(fields.integer(0)),
    "ranges": fields.sequence(fields.text),
}
