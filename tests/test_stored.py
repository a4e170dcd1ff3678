"""This release opens the artifacts of every format version that it promises to open."""

from __future__ import annotations

import importlib.metadata
import json
import platform

import numpy as np
import pytest

from tests import stored
from tests.runtime import native
from tvm_sparse_runtime import TensorError, load
from tvm_sparse_runtime.manifest import FILE_NAME, FORMAT_VERSIONS
from tvm_sparse_runtime.parsing import parse

WHEELS = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi"}


def test_there_is_one_of_each_version():
    assert tuple(stored.TARGETS) == FORMAT_VERSIONS


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_manifests_are_read_and_written_as_they_were(version):
    document = (stored.path(version) / FILE_NAME).read_bytes()
    assert json.loads(document)["format_version"] == version
    assert parse(document).to_bytes() == document


@pytest.mark.parametrize("version", FORMAT_VERSIONS)
def test_they_run(version):
    manifest = parse((stored.path(version) / FILE_NAME).read_bytes())
    here = {key: importlib.metadata.version(name) for key, name in WHEELS.items()}
    made = {key: manifest.versions[key] for key in WHEELS}
    if here != made or platform.machine() != manifest.target.machine:
        pytest.skip(f"made with {made}, here are {here}")
    library = load(stored.path(version), threads=1)
    wanted = np.load(stored.path(version).with_suffix(".npy"))
    np.testing.assert_array_equal(library.run(stored.X)[0], wanted)
    if version in stored.STRUCTURES:
        np.testing.assert_array_equal(library([stored.X], scale=1.0)["y"], wanted)
    else:
        np.testing.assert_array_equal(library(stored.X), wanted)
    with pytest.raises(TensorError, match="batch = 1 to 16"):
        library(np.zeros((17, 64), "float32"))
    status, handle = native.opened(stored.path(version))
    assert status == native.OK, native.last_error()
    native.library().tvm_sparse_close(handle)
