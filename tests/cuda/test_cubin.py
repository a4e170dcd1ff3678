import struct

import pytest
import torch

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.artifact.cubin import rewrite_blob
from tvm_sparse.errors import ArtifactError


def sized(*parts):
    return b"".join(struct.pack("<Q", len(p)) + p for p in parts)


def kernels():
    """A table of one kernel: key, name, one argument type, two launch parameters, one tag."""
    one = sized(b"k", b"k") + struct.pack("<QI", 1, 7)
    one += struct.pack("<Q", 2) + sized(b"blockIdx.x", b"threadIdx.x") + struct.pack("<Qi", 1, 0)
    return struct.pack("<Q", 1) + one


def blob(*modules):
    """The main module, its library, then ``modules`` of (kind, bytes)."""
    tree = struct.pack("<Q", len(modules) + 2) + bytes(8 * (len(modules) + 2))
    tree += struct.pack("<Q", 1) + bytes(8)
    body = tree + sized(b"_lib") + b"".join(sized(kind, data) for kind, data in modules)
    return struct.pack("<Q", len(body)) + body


def cuda(form, code):
    return b"cuda", sized(form) + kernels() + sized(code)


def test_sources_are_compiled_and_the_rest_is_left_alone():
    before = blob((b"other", b"data"), cuda(b"cuda", b"source"), cuda(b"ptx", b"text"))
    after = blob((b"other", b"data"), cuda(b"cubin", b"code of source"), cuda(b"ptx", b"text"))
    assert rewrite_blob(before, lambda text: ("cubin", b"code of " + text.encode())) == after


@pytest.mark.parametrize(
    "damaged",
    [
        blob(cuda(b"cuda", b"x"))[:-1],
        blob(cuda(b"cuda", b"x")) + b"?",
        blob((b"cuda", sized(b"cuda") + struct.pack("<Q", 1 << 60))),
        blob((b"cuda", sized(b"cuda") + kernels() + sized(b"x") + b"?")),
    ],
)
def test_unknown_layouts_are_refused(damaged):
    with pytest.raises(ArtifactError, match="unknown way"):
        rewrite_blob(damaged, lambda text: ("cubin", b""))


def small_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, 2, 1),
        torch.nn.ReLU6(),
        torch.nn.Conv2d(32, 32, 3, 1, 1, groups=32),
        torch.nn.Conv2d(32, 64, 1),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    ).eval()


@pytest.fixture(scope="module", params=["cuda:sm_90", "cuda:sm_80,sm_90"])
def artifact(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("artifact") / "small.tvms"
    library = ts.compile(small_model(), (torch.zeros(1, 3, 32, 32),), target=request.param)
    library.export(place)
    return request.param, place


RUN = """
import json, numpy, tvm_sparse_runtime as rt
library = rt.load({path!r})
x = numpy.ones((1, 3, 32, 32), "float32")
print(json.dumps([list(library(x).shape) for _ in range(3)]))
"""


@pytest.mark.grid
@needs_nvrtc
def test_artifact_holds_machine_code_only(artifact):
    data = next(artifact[1].glob("*.so")).read_bytes()
    assert b"__global__" not in data
    assert b"__launch_bounds__" not in data


@needs_nvrtc
def test_artifact_loads_and_launches(artifact, fake_cuda):
    name, place = artifact
    assert fake_cuda.run(RUN.format(path=str(place))) == [[1, 10]] * 3
    (loaded,) = fake_cuda.lines("load")
    assert loaded[1] == ("fatbin" if "," in name else "cubin")
    launches = fake_cuda.launches()
    # Depthwise and 1x1 convolution are one kernel: 256 pixels in tiles of 32, 64 features of 16.
    pairs = [one for one in launches if "depthwise_pointwise" in one.kernel]
    assert {one.grid for one in pairs} == {(8, 4, 1)}
    # One row of activations streams the weight by: 10 features, four warps of one each.
    streams = [one for one in launches if "linear" in one.kernel]
    assert {(one.grid, one.block) for one in streams} == {((3, 1, 1), (32, 4, 1))}
    tiles = [one for one in launches if one.shared > 0]
    assert tiles
    assert all("conv" in one.kernel or one in pairs for one in tiles)
    beyond = {one.kernel: one.shared for one in tiles if one.shared > 48 << 10}
    assert {words[1]: int(words[3]) for words in fake_cuda.lines("attribute")} == beyond


@needs_nvrtc
def test_weights_move_once_and_the_rest_is_a_graph(artifact, fake_cuda):
    fake_cuda.run(RUN.format(path=str(artifact[1])))
    to_device = [int(words[1]) for words in fake_cuda.lines("copy") if words[2] == "1"]
    inputs = [size for size in to_device if size == 3 * 32 * 32 * 4]
    assert len(inputs) == 3
    assert len(to_device) - len(inputs) == 8  # each weight and bias once
    assert len(fake_cuda.lines("capture")) == 2
    assert sum(words == ["launch", "graph"] for words in fake_cuda.lines("launch")) == 2
