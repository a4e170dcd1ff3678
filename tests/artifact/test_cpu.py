import platform

import pytest
import tvm

from tests.artifact.programs import host_target
from tvm_sparse.artifact import cpu, required_cpu_features
from tvm_sparse_runtime import host


def target(mcpu, triple="x86_64-linux-gnu", **more):
    return tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "mtriple": triple, **more})


@pytest.mark.parametrize(
    ("mcpu", "some", "none"),
    [
        ("x86-64", set(), {"pni", "avx"}),
        ("haswell", {"avx2", "fma", "f16c", "bmi1", "abm", "sse4_1"}, {"avx512f", "avx_vnni"}),
        ("cascadelake", {"avx512_vnni", "avx512vl"}, {"avx512_bf16"}),
        ("sapphirerapids", {"amx_int8", "avx512_fp16", "avx512_bf16"}, set()),
        ("znver3", {"avx2", "sse4a"}, {"avx512f"}),
    ],
)
def test_x86(mcpu, some, none):
    flags = required_cpu_features(target(mcpu))
    assert some <= set(flags)
    assert not none & set(flags)
    assert flags == sorted(flags)


def test_attributes_count():
    assert "avx512f" in required_cpu_features(target("haswell", mattr=["+avx512f"]))
    assert "fma" not in required_cpu_features(target("haswell", mattr=["-fma"]))


def test_arm():
    flags = required_cpu_features(target("neoverse-v2", "aarch64-linux-gnu"))
    assert {"asimd", "asimddp", "sve2", "i8mm"} <= set(flags)


def test_unknown_architecture_needs_nothing_by_name():
    assert required_cpu_features(target("generic-rv64", "riscv64-linux-gnu")) == []


@pytest.mark.parametrize(
    ("triple", "expected"),
    [("x86_64-linux-gnu", "x86_64"), ("arm64-apple-darwin", "aarch64"), ("amd64-x", "x86_64")],
)
def test_machine(triple, expected):
    assert cpu.machine(tvm.target.Target({"kind": "llvm", "mtriple": triple})) == expected


def test_this_machine_can_run_what_it_compiles():
    assert cpu.machine(host_target()) == platform.machine()
    assert set(required_cpu_features(host_target())) <= host.cpu_features()
