"""What an artifact asks of the machine."""

import platform

import pytest

from tests.runtime import manifests
from tests.runtime.manifests import verified_manifest
from tvm_sparse_runtime import requirements
from tvm_sparse_runtime.errors import RuntimeArtifactError
from tvm_sparse_runtime.manifest import FILE_NAME, TargetRecord


@pytest.fixture
def artifact(tmp_path):
    return manifests.write(tmp_path / "a.tvms")


def assert_refused(directory, *words):
    with pytest.raises(RuntimeArtifactError) as caught:
        verified_manifest(directory)
    for word in words:
        assert word in str(caught.value)


def rewrite(artifact, **changes):
    (artifact / FILE_NAME).write_bytes(manifests.manifest(**changes).to_bytes())


@pytest.mark.parametrize("key", ["tvm", "tvm_ffi"])
def test_other_versions(artifact, key):
    versions = dict(manifests.manifest().versions)
    rewrite(artifact, versions={**versions, key: "9.9.9"})
    assert_refused(artifact, "9.9.9", versions[key], "pip install apache-tvm")


def test_tvm_not_installed(artifact, monkeypatch):
    monkeypatch.setattr(requirements, "_DISTRIBUTIONS", {"tvm": "no-such-distribution"})
    assert_refused(artifact, "not installed")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (TargetRecord("cuda", platform.machine(), "sm_90", ()), "made for 'cuda'"),
        (TargetRecord("llvm", "s390x", "z16", ()), "made for 's390x'"),
        (TargetRecord("llvm", platform.machine(), "future", ("avx4096",)), "lacks avx4096"),
    ],
)
def test_other_machines(artifact, target, message):
    rewrite(artifact, target=target)
    assert_refused(artifact, message)
