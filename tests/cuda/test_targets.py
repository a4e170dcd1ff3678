import pytest
import torch
from tvm.target import Target

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.base.targets import (
    PORTABLE_ARCHS,
    cuda_archs,
    gpu_of,
    newest_arch,
    parse_target,
    programs_of,
)
from tvm_sparse.errors import InputError


def test_one_architecture():
    resolved = parse_target("cuda:sm_90")
    assert resolved.target.kind.name == "cuda"
    assert cuda_archs(resolved.target) == ("sm_90",)
    assert int(resolved.target.attrs["max_shared_memory_per_block"]) == 232448
    assert resolved.target.host.kind.name == "llvm"


def test_several_architectures_keep_to_the_limits_of_all():
    target = parse_target("cuda:sm_90, sm_80").target
    assert cuda_archs(target) == ("sm_90", "sm_80")
    assert str(target.attrs["arch"]) == "sm_80"
    assert int(target.attrs["max_shared_memory_per_block"]) == 166912


def test_code_for_one_architecture_alone(monkeypatch):
    assert newest_arch(parse_target("cuda:sm_90a").target) == "sm_90a"
    assert gpu_of(parse_target("cuda:sm_90a").target) == gpu_of(parse_target("cuda:sm_90").target)
    for here, runs in (("sm_90", True), ("sm_100", False)):
        monkeypatch.setattr("tvm_sparse.base.targets._gpu_arch", lambda here=here: here)
        assert parse_target("cuda:sm_90a").runs_here is runs


@pytest.mark.parametrize(
    ("name", "programs"),
    [
        ("cpu:haswell", ["cpu:haswell"]),
        ("cuda:sm_80,sm_90", ["cuda:sm_80,sm_90"]),
        ("cuda:h200", ["cuda:h200"]),
        ("cuda:sm_90a", ["cuda:sm_90a"]),
        ("cuda:sm_90a, sm_80,sm_90", ["cuda:sm_80,sm_90", "cuda:sm_90a"]),
    ],
)
def test_what_stands_alone_is_a_program_of_its_own(name, programs):
    assert programs_of(name) == programs


def test_where_one_program_is_wanted_several_are_refused_by_name():
    words = "'cuda:sm_80,sm_90a' is 2 programs.*name cuda:sm_80 or cuda:sm_90a"
    with pytest.raises(InputError, match=words):
        parse_target("cuda:sm_80,sm_90a")


def test_without_a_gpu_the_name_alone_is_portable(monkeypatch):
    monkeypatch.setattr("tvm_sparse.base.targets._gpu_arch", lambda: None)
    resolved = parse_target("cuda")
    assert cuda_archs(resolved.target) == PORTABLE_ARCHS
    assert not resolved.runs_here


def test_with_a_gpu_the_name_alone_is_that_gpu(monkeypatch):
    monkeypatch.setattr("tvm_sparse.base.targets._gpu_arch", lambda: "sm_90")
    resolved = parse_target("cuda")
    assert cuda_archs(resolved.target) == ("sm_90",)
    assert resolved.runs_here
    assert not parse_target("cuda:sm_80").runs_here


def test_unknown_architecture_names_the_known_ones():
    with pytest.raises(InputError, match=r"no CUDA architecture 'sm_70'.*sm_80"):
        parse_target("cuda:sm_70")


def test_plain_tvm_target():
    target = parse_target("cuda:sm_80").target
    assert parse_target(target).target is target


@pytest.mark.parametrize("host", [None, "llvm"])
def test_what_a_plain_tvm_target_lacks_is_added(host):
    given = Target({"kind": "cuda", "arch": "sm_80", "max_shared_memory_per_block": 49152})
    given = Target(given, host=host) if host else given
    target = parse_target(given).target
    assert cuda_archs(target) == ("sm_80",)
    assert int(target.attrs["max_shared_memory_per_block"]) == 49152
    assert int(target.attrs["max_threads_per_block"]) == 1024
    assert target.host.kind.name == "llvm"


def test_a_plain_tvm_target_of_an_old_architecture_is_refused_by_name():
    """Without a GPU, TVM takes ``Target("cuda")`` for the oldest there is."""
    with pytest.raises(InputError, match=r"no CUDA architecture 'sm_50'.*sm_80"):
        parse_target(Target({"kind": "cuda", "arch": "sm_50"}))


@needs_nvrtc
def test_a_network_for_a_plain_tvm_target_is_exported(tmp_path):
    model, x = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU()), torch.zeros(4, 64)
    target = Target({"kind": "cuda", "arch": "sm_90"})
    library = ts.compile(model, (x,), target=target, config=ts.Config(measure=False))
    assert library.export(tmp_path / "plain.tvms").exists()
