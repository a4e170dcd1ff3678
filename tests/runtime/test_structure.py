"""Calls are bound by name and nesting, results are nested again, and damage is refused."""

import numpy as np
import pytest

from tvm_sparse_runtime.errors import RuntimeArtifactError, TensorError
from tvm_sparse_runtime.structure import Structure, leaves, parsed, paths

X, Y, Z = (np.full(1, i) for i in range(3))
STRUCTURE = Structure(
    (("x", {"dict": {"a": 0, "b": {"list": [1, None]}}}), ("y", 2), ("flag", {"value": True})),
    {"dict": {"first": 1, "rest": {"tuple": [0, {"value": 3}, None]}}},
)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (({"a": X, "b": [Y, None]}, Z), {}),
        (({"b": (Y, None), "a": X}, Z, True), {}),
        (({"a": X, "b": [Y, None]},), {"y": Z, "flag": True}),
        ((), {"y": Z, "x": {"a": X, "b": [Y, None]}}),
        ((X, Y, Z), {}),
    ],
)
def test_arguments_by_place_by_name_or_flat(values, named):
    assert [int(t[0]) for t in STRUCTURE.bind(values, named)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {"y": Z}, "input x: is missing; expected x, y, flag"),
        (({"a": X, "b": [Y, None]}, Z), {"y": Z}, "input y: is given twice"),
        ((), {"z": Z}, "there is no 'z'"),
        (({}, Z, True, 1), {}, "4 arguments"),
        (({"a": X}, Z), {}, "a mapping of a; expected a mapping of a, b"),
        (([X, Y], Z), {}, "a list of 2"),
        (({"a": X, "b": [Y]}, Z), {}, r"input x\['b'\]: a list of 1; expected a sequence of 2"),
        (({"a": X, "b": Y}, Z), {}, "a ndarray"),
        (({"a": X, "b": [Y, Z]}, Z), {}, r"expected None, as it was compiled with"),
        (({"a": X, "b": [Y, None]}, Z, False), {}, "input flag: False; expected True"),
        (({"a": X, "b": [Y, None]}, Z, 1), {}, "input flag: 1; expected True"),
    ],
)
def test_other_arguments_are_refused_by_name(values, named, message):
    with pytest.raises(TensorError, match=message):
        STRUCTURE.bind(values, named)


def test_results_are_nested():
    assert STRUCTURE.restore(["p", "q"]) == {"first": "q", "rest": ("p", 3, None)}
    assert Structure((), {"list": [0, {"dict": {}}]}).restore(["p"]) == ["p", {}]


def test_leaves_and_their_paths():
    assert list(leaves(STRUCTURE.output)) == [1, 0, {"value": 3}, None]
    found = [path for path, _ in paths(STRUCTURE.output)]
    assert found == [("first",), ("rest", "0"), ("rest", "1"), ("rest", "2")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": True}, "a place"),
        ({"output": -1}, "integer"),
        ({"output": {}}, "one key"),
        ({"output": {"set": []}}, "a tuple, list, dict or value"),
        ({"output": {"tuple": {}}}, "an array"),
        ({"output": {"dict": []}}, "an object"),
        ({"output": {"value": None}}, "a tuple, list, dict or value"),
        ({"arguments": [["x"]]}, "a name and a tree"),
        ({"arguments": [["", 0]]}, "printable"),
        ({"arguments": [["x", 0], ["x", 1]]}, "each argument once"),
        ({"more": 1}, "only the keys"),
    ],
)
def test_damaged_structures(change, message):
    with pytest.raises(RuntimeArtifactError, match=message):
        parsed({"arguments": [["x", 0]], "output": 0, **change}, "here")


def test_a_sound_structure_is_read():
    sound = {"arguments": [["x", 0], ["y", {"tuple": [1]}]], "output": {"value": "text"}}
    assert parsed(sound, "") == Structure((("x", 0), ("y", {"tuple": [1]})), {"value": "text"})
