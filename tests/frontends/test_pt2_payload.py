"""Tables of tensors must fit the bytes that are there."""

from __future__ import annotations

import copy

import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.pt2_payload import vetted_payload

META = {
    "dtype": 7,
    "sizes": [{"as_int": 2}, {"as_int": 3}],
    "strides": [{"as_int": 3}, {"as_int": 1}],
    "storage_offset": {"as_int": 0},
    "device": {"type": "cuda", "index": 1},
}
ENTRY = {"path_name": "weight_0", "use_pickle": False, "tensor_meta": META}


def vetted(stored, **changes):
    entry = copy.deepcopy(ENTRY)
    entry["tensor_meta"].update(changes)
    return vetted_payload({"config": {"w": entry}}, {"weight_0": stored}, "f.pt2")


def extents(*values):
    return [{"as_int": value} for value in values]


def test_what_fits_comes_back_on_the_cpu():
    for changes in (
        {},
        {"strides": extents(1, 2)},
        {"sizes": extents(0, 3), "strides": extents(3, 1)},
        {"sizes": [], "strides": []},
        {"sizes": extents(1, 512, 6), "strides": extents(6, 0, 1)},
    ):
        (entry,) = vetted(24, **changes)["config"].values()
        assert entry["tensor_meta"]["device"] == {"type": "cpu", "index": None}
    assert vetted(0, sizes=extents(4, 0), strides=extents(0, 1))


@pytest.mark.parametrize("stored", [None, 0, 20, 23, 25])
def test_bytes_that_are_not_there(stored):
    with pytest.raises(InputError, match=r"'w': (has no bytes|of shape \[2, 3\] does not fit)"):
        vetted(stored)


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": extents(3, 3)},
        {"strides": extents(4, 1)},
        {"storage_offset": {"as_int": 1}},
        {"storage_offset": {"as_int": -1}},
        {"sizes": extents(2)},
        {"sizes": extents(-1, 3)},
        {"sizes": extents(True, 3)},
        {"sizes": extents(2**40, 2**40), "strides": extents(0, 0)},
        {"sizes": extents(2**62, 0)},
        {"sizes": extents(2**47, 0)},
        {"dtype": True},
    ],
    ids=range(11),
)
def test_extents_that_lie(changes):
    with pytest.raises(InputError, match=r"f\.pt2: 'w'"):
        vetted(24, **changes)


def test_two_dtypes_of_the_same_bytes():
    other = copy.deepcopy(ENTRY)
    other["tensor_meta"]["dtype"] = 5
    config = {"config": {"a": copy.deepcopy(ENTRY), "b": other}}
    with pytest.raises(InputError, match="'b': has another dtype"):
        vetted_payload(config, {"weight_0": 24}, "f.pt2")
