"""A damaged safetensors file is refused, or gives a module with other numbers."""

from __future__ import annotations

import random

import pytest
from safetensors.torch import save_file

from tests.frontends.networks import pair
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.safetensors import load_factory


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    save_file(pair().state_dict(), path)
    return path.read_bytes()


def damaged(data: bytes, generator: random.Random) -> bytes:
    result, head = bytearray(data), 8 + int.from_bytes(data[:8], "little")
    kind = generator.randrange(5)
    if kind == 0:
        return data[: generator.randrange(len(data))]
    if kind == 1:
        return data + generator.randbytes(generator.randint(1, 99))
    if kind == 2:
        result[generator.randrange(8)] = generator.randrange(256)
        return bytes(result)
    if kind == 3:
        word = generator.choice([b'"F32"', b"[16", b"data_offsets", b"0.weight", b"shape", b","])
        new = generator.choice([b'"I64"', b"[99999999999999999999", b"-1", b"null", b"[[", b""])
        return data.replace(word, new, generator.randint(1, 3))
    for _ in range(generator.randint(1, 4)):
        result[generator.randrange(head)] ^= 1 << generator.randrange(8)
    return bytes(result)


def test_damaged_files_are_one_error(sound, tmp_path):
    generator, path, refused = random.Random(0), tmp_path / "w.safetensors", 0
    for _ in range(400):
        path.write_bytes(damaged(sound, generator))
        try:
            load_factory("tests.frontends.networks:pair", path)
        except InputError:
            refused += 1
    assert refused > 350


INDEXES = {
    "deep": "[" * 100_000,
    "deep inside": '{"weight_map": ' * 100_000,
    "list": "[]",
    "number": '{"weight_map": 1}',
    "nested": '{"weight_map": {"a": ["b"]}}',
    "elsewhere": '{"weight_map": {"a": "../w.safetensors"}}',
    "bytes": b"\xff\xfe",
    "empty": "",
    "long number": "1" * 10_000,
    "missing": '{"weight_map": {"a": "none.safetensors"}}',
}


@pytest.mark.parametrize("case", INDEXES)
def test_damaged_indexes_are_one_error(case, tmp_path):
    path, content = tmp_path / "w.safetensors.index.json", INDEXES[case]
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError):
        load_factory("tests.frontends.networks:pair", path)


def test_a_deep_header_is_one_error(tmp_path):
    header = b"[" * 100_000
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InputError):
        load_factory("tests.frontends.networks:pair", tmp_path / "w.safetensors")
