"""Damage ``.pt2`` files: their bytes, their members, and every value of their JSON."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tests.damage.watch import report
from tvm_sparse.errors import SparseError
from tvm_sparse.frontends.files.pt2 import load_pt2
from tvm_sparse.frontends.program.exported import from_exported

VALUES = [None, True, -1, 0, 2**31, 2**62, 2**64, 10**400, -(2**63), 1.5, 1e308, "", "x", "s0"]
VALUES += ["9**9**9**9", "99999999999!", "1<<9999999999", "Pow(9,Pow(9,Pow(9,9)))", "9" * 6000]
VALUES += ["torch.ops.aten.add.Tensor", "torch.ops.aten.empty.memory_format", [], {}, [[]], [1] * 9]
VALUES += [{"as_int": -1}, {"as_int": 2**62}, {"as_expr": {"expr_str": "9**9**9**9"}}]


def damaged(data: bytes, members: dict[str, bytes], seed: int) -> tuple[str, bytes | None]:
    """Return what is damaged, and the bytes of the file; None if ``members`` were changed."""
    generator = random.Random(seed)
    kind = generator.choices(("flip", "cut", "member", "json"), (15, 5, 25, 55))[0]
    if kind == "flip":
        return kind, _flipped(data, generator)
    if kind == "cut":
        return kind, data[: generator.randrange(len(data))]
    name = generator.choice(list(members))
    if kind == "member":
        _damage_member(members, name, generator)
    else:
        tables = [name for name in members if name.endswith(".json")]
        programs = [name for name in tables if name.endswith("models/model.json")]
        name = generator.choice([*programs * 3, *tables])
        members[name] = _edited(members[name], generator)
    return f"{kind} {name}", None


def _flipped(data: bytes, generator: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(generator.randint(1, 8) if result else 0):
        result[generator.randrange(len(result))] ^= 1 << generator.randrange(8)
    return bytes(result)


def _damage_member(members: dict[str, bytes], name: str, generator: random.Random) -> None:
    data, other = members[name], generator.choice(list(members))
    kind = generator.randrange(6)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[name], members[other] = members[other], data
    else:
        cut = data[: generator.randrange(len(data) + 1)]
        members[name] = (b"", _flipped(data, generator), cut, data + bytes(7))[kind - 2]


def _edited(data: bytes, generator: random.Random) -> bytes:
    body = json.loads(data)
    for _ in range(generator.choice([1, 1, 1, 2, 3])):
        paths = list(_paths(body))
        if not paths:
            break
        *way, key = generator.choice(paths)
        place = _at(body, way)
        kind = generator.random()
        if kind < 0.2:
            del place[key]
        elif kind < 0.4:
            place[key] = json.loads(json.dumps(_at(body, generator.choice(paths))))
        elif kind < 0.5 and isinstance(place, list):
            place.insert(key, json.loads(json.dumps(place[key])))
        else:
            place[key] = generator.choice(VALUES)
    return json.dumps(body).encode()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from _paths(inner, (*path, key))


def _at(body: Any, path: Any) -> Any:
    for key in path:
        body = body[key]
    return body


def run(sound: Path, seed: int, path: Path) -> tuple[str, str]:
    """Damage a copy of ``sound`` and import it; an edited program may be another sound one."""
    with zipfile.ZipFile(sound) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    what, data = damaged(sound.read_bytes(), members, seed)
    if data is None:
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        path.write_bytes(data)
    try:
        from_exported(load_pt2(path))
    except SparseError as error:
        return what, "refused" if path.name in str(error) or error.where == "model" else str(error)
    except BaseException as error:
        return what, f"{type(error).__name__}: {error}"
    return what, "right"


def main(sound: str, cases: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        report(cases, lambda case: run(Path(sound), case, Path(place, "damaged.pt2")))


if __name__ == "__main__":
    main(*sys.argv[1:])
