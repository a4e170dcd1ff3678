import copy
import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime import manifests
from tvm_sparse_runtime.errors import RuntimeArtifactError
from tvm_sparse_runtime.parsing import parse
from tvm_sparse_runtime.structure import Structure

DOCUMENT = manifests.manifest().to_bytes()
BODY = json.loads(DOCUMENT)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(), v, max_size=3)
)


def paths(value, path=()):
    """Yield the way to every value inside ``value``."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from paths(inner, (*path, key))


def changed(path, value=None, remove=False):
    """Return a copy of the sound document with one value replaced or removed."""
    body = copy.deepcopy(BODY)
    place = body
    for key in path[:-1]:
        place = place[key]
    if remove:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return body


def test_round_trip():
    assert parse(DOCUMENT) == manifests.manifest()
    assert parse(manifests.signed(BODY)) == manifests.manifest()


@pytest.mark.parametrize("version", [0, 1, 8, "1", None, True, 2.0])
def test_unknown_format_version(version):
    body = {"format": BODY["format"], "format_version": version, "anything": "else"}
    with pytest.raises(RuntimeArtifactError, match="format version"):
        parse(manifests.signed(body))


STRUCTURE = {"arguments": [["x", 0]], "output": {"dict": {"y": 0}}}


def test_structures_are_of_version_four():
    loaded = manifests.manifest(structure=Structure((("x", 0),), STRUCTURE["output"]))
    assert parse(loaded.to_bytes()) == loaded
    assert loaded.signature() != manifests.manifest().signature()
    assert json.loads(loaded.to_bytes())["structure"] == STRUCTURE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 3}, "only the keys"),
        ({"structure": None}, "an object"),
        ({"structure": {**STRUCTURE, "output": 1}}, "all 1 outputs in order"),
        ({"structure": {**STRUCTURE, "arguments": []}}, "all 1 inputs in order"),
    ],
)
def test_structures_that_do_not_fit(changes, message):
    body = {**BODY, "format_version": 4, "alternatives": [], "structure": STRUCTURE, **changes}
    with pytest.raises(RuntimeArtifactError, match=message):
        parse(manifests.signed(body))


def test_inputs_that_begin_anywhere():
    body = {**BODY, "format_version": 5, "alternatives": [], "structure": None, "unaligned": [0]}
    loaded = parse(manifests.signed(body))
    assert loaded.unaligned == (0,)
    assert parse(loaded.to_bytes()) == loaded
    assert loaded.signature() != manifests.manifest().signature()
    assert json.loads(loaded.to_bytes())["format_version"] == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 4, "structure": STRUCTURE}, "only the keys"),
        ({"unaligned": [1]}, "numbers of inputs in order"),
        ({"unaligned": [0, 0]}, "numbers of inputs in order"),
        ({"unaligned": [-1]}, "integer"),
        ({"unaligned": None}, "an array"),
    ],
)
def test_numbers_that_are_not_those_of_inputs(changes, message):
    newer = {"format_version": 5, "alternatives": [], "structure": None, "unaligned": [0]}
    with pytest.raises(RuntimeArtifactError, match=message):
        parse(manifests.signed({**BODY, **newer, **changes}))


NEWER = {"format_version": 6, "structure": None, "unaligned": []}
OTHER = {key: BODY[key] for key in ("target", "library", "code", "weights")}


def test_decisions_of_alternatives():
    other = {**OTHER, "decisions": [{"layer": "fc", "chosen": "dense"}]}
    loaded = parse(manifests.signed({**BODY, **NEWER, "alternatives": [other]}))
    assert parse(loaded.to_bytes()) == loaded
    assert json.loads(loaded.to_bytes())["format_version"] == 6
    assert loaded.programs()[1].decisions == ({"layer": "fc", "chosen": "dense"},)


@pytest.mark.parametrize(
    ("version", "other", "message"),
    [
        (6, OTHER, "also the key 'decisions'"),
        (5, {**OTHER, "decisions": []}, "only the keys"),
        (6, {**OTHER, "decisions": None}, "an array"),
        (6, {**OTHER, "decisions": [1]}, "an object"),
    ],
)
def test_alternatives_that_do_not_fit(version, other, message):
    body = {**BODY, **NEWER, "format_version": version, "alternatives": [other]}
    with pytest.raises(RuntimeArtifactError, match=message):
        parse(manifests.signed(body))


def test_ranges_of_extents():
    other = {**OTHER, "decisions": []}
    newer = {**NEWER, "format_version": 7, "ranges": ["n is at least 2"], "alternatives": [other]}
    loaded = parse(manifests.signed({**BODY, **newer}))
    assert loaded.ranges == ("n is at least 2",)
    assert json.loads(loaded.to_bytes())["format_version"] == 7
    assert parse(loaded.to_bytes()) == loaded
    with pytest.raises(RuntimeArtifactError, match="text"):
        parse(manifests.signed({**BODY, **newer, "ranges": [1]}))
    with pytest.raises(RuntimeArtifactError, match="only the keys"):
        parse(manifests.signed({**BODY, **newer, "format_version": 6}))


def test_ranges_beside_alternatives_without_decisions():
    alone = parse(manifests.signed({**BODY, **NEWER, "format_version": 5, "alternatives": [OTHER]}))
    told = parse(dataclasses.replace(alone, ranges=("n is at least 2",)).to_bytes())
    assert told.programs()[1].decisions == alone.decisions


def test_alternatives_without_decisions_share_the_first_ones():
    body = {**BODY, **NEWER, "format_version": 5, "unaligned": [0], "alternatives": [OTHER]}
    loaded = parse(manifests.signed(body))
    assert loaded.programs()[1].decisions == loaded.decisions
    assert parse(loaded.to_bytes()) == loaded


def test_foreign_document():
    with pytest.raises(RuntimeArtifactError, match="the format is None"):
        parse(b'{"name": "something"}')


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("inputs",), {}, "an array"),
        (("inputs", 0, "shape", 1), -4, "integer"),
        (("inputs", 0, "shape", 1), True, "integer"),
        (("inputs", 0, "shape", 0), "", "printable"),
        (("inputs", 0, "dtype"), "float31", "one of"),
        (("outputs", 0, "name"), 7, "printable"),
        (("weights", 1, "offset"), 32, "multiple of 64"),
        (("weights", 1, "offset"), 0, "at least 30"),
        (("weights", 1, "name"), "w", "each weight once"),
        (("weights", 0, "shape"), [2**40, 2**40], "fits into memory"),
        (("weights", 0, "shape"), ["batch", 5], "integer"),
        (("library",), "/lib/libc.so", "leaves the directory"),
        (("library",), "../model.so", "leaves the directory"),
        (("library",), "manifest.json", "leaves the directory"),
        (("library",), "other.so", "named after its checksum"),
        (("files", "../../etc/passwd"), {"sha256": "0" * 64, "size": 1}, "leaves the directory"),
        (("files", ".."), {"sha256": "0" * 64, "size": 1}, "leaves the directory"),
        (("files", "a"), {"sha256": "0" * 63 + "G", "size": 1}, "hexadecimal"),
        (("files", "a"), {"sha256": "0" * 64, "size": -1}, "integer"),
        (("threads",), 0, "integer from 1"),
        (("versions", "python"), "3.11", "only the keys"),
        (("target", "cpu_features"), "avx2", "an array"),
        (("decisions",), ["free"], "an object"),
        (("new",), 1, "only the keys"),
    ],
)
def test_wrong_values(path, value, message):
    with pytest.raises(RuntimeArtifactError, match=message):
        parse(manifests.signed(changed(path, value)))


@pytest.mark.parametrize("key", [k for k in BODY if k != "checksum"])
def test_missing_keys(key):
    with pytest.raises(RuntimeArtifactError):
        parse(manifests.signed(changed((key,), remove=True)))


def test_every_flipped_bit_is_found():
    for position in range(len(DOCUMENT)):
        for bit in range(8):
            damaged = bytearray(DOCUMENT)
            damaged[position] ^= 1 << bit
            try:
                loaded = parse(bytes(damaged))
            except RuntimeArtifactError:
                continue
            assert loaded == manifests.manifest(), damaged  # one space for another


@given(st.data())
@settings(max_examples=300)
def test_mutated_values_never_crash(data):
    path = data.draw(st.sampled_from(sorted(paths(BODY), key=str)))
    body = changed(path, data.draw(VALUES), remove=data.draw(st.booleans()))
    try:
        loaded = parse(manifests.signed(body))
    except RuntimeArtifactError as error:
        str(error).encode("ascii")
    else:
        assert parse(loaded.to_bytes()) == loaded


@given(st.data())
@settings(max_examples=300)
def test_mutated_bytes_never_crash(data):
    begin = data.draw(st.integers(0, len(DOCUMENT)))
    end = data.draw(st.integers(begin, len(DOCUMENT)))
    damaged = DOCUMENT[:begin] + data.draw(st.binary(max_size=40)) + DOCUMENT[end:]
    try:
        assert parse(damaged) == manifests.manifest()
    except RuntimeArtifactError:
        pass
