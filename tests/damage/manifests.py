"""Edit every field of a manifest to every kind of value, under a checksum that fits."""

from __future__ import annotations

import copy
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tvm_sparse_runtime as rt
from tests.damage.artifacts import X
from tests.damage.watch import report
from tests.runtime.manifests import signed
from tvm_sparse_runtime.manifest import FILE_NAME

VALUES = [None, True, 0, 1, -1, 7, 2**31, 2**63 - 1, 2**70, 10**400, 1.5, -0.0, 1e308]
VALUES += ["", "x", "batch", "batch * 2", "9**9**9**9", "../a.so", "\ud800", "\x00", "0" * 64]
VALUES += ["int8", "float64", "bool", "float32", [], {}, [[]], [1], ["batch", 64], {"x": 1}, [None]]
REMOVED, TWICE, FIRST = object(), object(), object()
"""Changes: take the field away; repeat it (in an array, or under another key); exchange it with
the first of its neighbours."""


def edits(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every edited body, with a description."""
    for path in _paths({key: body[key] for key in sorted(body.keys() - {"checksum"})}):
        for value in (*VALUES, REMOVED, TWICE, FIRST):
            edited = copy.deepcopy(body)
            place: Any = edited
            for key in path[:-1]:
                place = place[key]
            _change(place, path[-1], value)
            if edited != body:
                what = {id(REMOVED): "removed", id(TWICE): "twice", id(FIRST): "exchanged"}
                yield f"{path} {what.get(id(value), ascii(value)[:20])}", edited


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if path[-1:] == ("cpu_features",) and key > 1:
            return  # there are many, all alike
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from _paths(inner, (*path, key))


def _change(place: Any, key: Any, value: Any) -> None:
    if value is REMOVED:
        del place[key]
    elif value is TWICE and isinstance(place, list):
        place.append(place[key])
    elif value is TWICE:
        place[f"{key}2"] = place[key]
    elif value is FIRST:
        first = 0 if isinstance(place, list) else min(place)
        place[first], place[key] = place[key], place[first]
    else:
        place[key] = value


def documents(sound: Path) -> list[tuple[str, bytes]]:
    """Return every edited manifest of an artifact."""
    body = json.loads((sound / FILE_NAME).read_bytes())
    edited = [(what, signed(changed)) for what, changed in edits(body)]
    deep = b'{"decisions": [' + b'{"a": [' * 100_000
    large = json.dumps({**body, "threads": "THREADS"}).replace('"THREADS"', "1e999").encode()
    return [*edited, ("deep", deep), ("beyond all floats", large), ("bytes", b"\xff\xfe{}")]


def run(document: bytes, sound: Path, place: Path) -> str:
    """Load ``sound`` with another manifest; return what became of it."""
    copied = shutil.copytree(sound, place / "a.tvms")
    (copied / FILE_NAME).write_bytes(document)
    try:
        outputs = rt.load(copied, threads=1)(X)
    except rt.RuntimeArtifactError as error:
        return "refused" if str(error).isascii() else "not printable"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    wanted = rt.load(sound, threads=1)(X)
    same = all(np.array_equal(a, b) for a, b in zip(outputs, wanted, strict=True))
    return "right" if same else "wrong"


def main(sound: str, cases: str) -> None:
    every = documents(Path(sound))

    def one(case: int) -> tuple[str, str]:
        what, document = every[case]
        with tempfile.TemporaryDirectory() as place:
            return what, run(document, Path(sound), Path(place))

    report(cases, one)


if __name__ == "__main__":
    main(*sys.argv[1:])
