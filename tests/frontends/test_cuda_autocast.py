"""``torch.autocast("cuda")`` of models for a GPU: cast as PyTorch casts there, or refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.export import Dim
from torch.nn import functional as F

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.cuda.use import CONFIG
from tvm_sparse import frontends
from tvm_sparse.base.targets import parse_target
from tvm_sparse.errors import SparseError
from tvm_sparse.frontends.modules.torch import from_module
from tvm_sparse.frontends.program.cuda_autocast import CudaAutocast
from tvm_sparse.frontends.program.cuda_policies import POLICIES
from tvm_sparse.frontends.traced_for import traced_for
from tvm_sparse.testing import emulate

pytestmark = pytest.mark.filterwarnings("ignore:CUDA is not available:UserWarning")

TARGET = "cuda:sm_90"
BOUNDS = {torch.bfloat16: 4e-2, torch.float16: 5e-3}


class Block(nn.Module):
    """Layers of every policy, in an autocast that is left in between.

    Without ``device`` it is what CUDA's autocast makes of it, written out.
    """

    def __init__(self, dtype, device="cuda"):
        super().__init__()
        self.dtype, self.device = dtype, device
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        if not self.device:
            return self.written_out(x)
        with torch.autocast(self.device, self.dtype):
            y = self.norm(self.first(x))
            with torch.autocast(self.device, enabled=False):
                z = self.second(y.float())
            scores = y @ self.second(y).transpose(-1, -2)
            # A type that is asked of a tensor is the one that it has in autocast.
            p = torch.softmax(scores, -1, dtype=torch.float32).to(scores.dtype)
            return torch.exp(p @ y), scores, z + p.sum()

    def written_out(self, x):
        half = self.dtype
        first, second = ((m.weight.to(half), m.bias.to(half)) for m in (self.first, self.second))
        y = self.norm(F.linear(x.to(half), *first).float())
        z = self.second(y)
        scores = y.to(half) @ F.linear(y.to(half), *second).transpose(-1, -2)
        p = torch.softmax(scores, -1, dtype=torch.float32).to(half)
        return torch.exp((p @ y.to(half)).float()), scores, z + p.float().sum()


class Plain(nn.Module):
    """A layer and a norm without autocast of their own."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x):
        return self.norm(self.layer(x))


class Disabled(Plain):
    """A model that keeps others' autocast away from a part."""

    def forward(self, x):
        with torch.autocast("cuda", enabled=False):
            return super().forward(x)


def assert_near(found, wanted, bound):
    for ours, theirs in zip(found, wanted, strict=True):
        assert str(theirs.dtype) == f"torch.{ours.dtype}"
        values = theirs.float().numpy()
        near = {"rtol": bound, "atol": bound * np.abs(values).max()}
        np.testing.assert_allclose(ours.astype("f4"), values, **near)


@needs_nvrtc
@pytest.mark.parametrize("dtype", BOUNDS)
def test_a_gpu_gets_what_autocast_computes_there(dtype):
    torch.manual_seed(0)
    model, x = Block(dtype).eval(), torch.randn(2, 9, 32)
    library = ts.compile(model, (x,), target=TARGET, config=CONFIG)
    model.device = ""
    with torch.no_grad():
        wanted = model(x)
    found = emulate(library, x.numpy())
    assert not found.report.findings, found.report.findings
    assert_near(found.outputs, wanted, BOUNDS[dtype])


def test_a_cpu_computes_what_it_did():
    torch.manual_seed(0)
    model, x = Block(torch.float16).eval(), torch.randn(2, 9, 32)
    with torch.no_grad():
        wanted = model(x)
    found = ts.compile(model, (x,), config=CONFIG)(x)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(torch.from_dlpack(ours), theirs, rtol=1e-4, atol=1e-4)


def types(model, *inputs, **options):
    """Return the types of the results of a model that is imported for a GPU."""
    with traced_for(parse_target(TARGET).target):
        imported = frontends.load(model, inputs or None, **options)
    return [spec.dtype for spec in imported.outputs]


def test_extents_stay_open():
    x, dims = torch.randn(2, 9, 32), ({1: Dim("n", max=64)},)
    model = Block(torch.float16).eval()
    assert types(model, x, dynamic_shapes=dims) == ["float32", "float16", "float32"]


def test_autocast_that_names_the_device_of_an_input_is_the_same():
    class Asks(Block):
        def forward(self, x):
            with torch.autocast("cuda", torch.float16):
                y = self.first(x)
                with torch.autocast(x.device.type, enabled=False):
                    return y, self.second(y.float())

    assert types(Asks(None).eval(), torch.randn(2, 32)) == ["float16", "float32"]


def test_autocast_around_the_compilation(monkeypatch):
    x = torch.randn(2, 16)
    with monkeypatch.context() as patch:  # as on a machine with a GPU
        patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        with torch.autocast("cuda", torch.float16):
            assert types(Plain().eval(), x) == ["float32"]
            assert types(Disabled().eval(), x) == ["float32"]
            assert types(nn.Linear(16, 16), x) == ["float16"]
            assert types(torch.export.export(nn.Linear(16, 16), (x,))) == ["float16"]
    assert types(nn.Linear(16, 16), x) == ["float32"]


def test_autocast_of_a_cpu_keeps_its_casts():
    class Powers(nn.Linear):
        def forward(self, x):
            return torch.exp(super().forward(x))

    with torch.autocast("cpu", torch.float16):
        assert types(Powers(16, 16), torch.randn(2, 16)) == ["float16"]
    with CudaAutocast(torch.float16).entered():
        assert from_module(Powers(16, 16), torch.randn(2, 16)).outputs[0].dtype == "float32"


def test_a_block_that_pytorch_disabled_is_refused_where_nobody_can_tell():
    x = torch.randn(2, 16)
    told = r"torch.autocast\('cuda'\).* has disabled.*without a GPU.*into forward"
    with torch.autocast("cuda", torch.float16), pytest.raises(SparseError, match=told):
        types(Plain(), x)
    with pytest.raises(SparseError, match=told):
        types(torch.export.export(Disabled().eval(), (x,)))

    class Decorated(Plain):
        @torch.autocast("cuda", torch.float16)
        def forward(self, x):
            return super().forward(x)

    with pytest.raises(SparseError, match=told):
        types(Decorated().eval(), x)
    assert types(Disabled().eval(), x) == ["float32"]


def test_decorators_of_a_machine_with_a_gpu_cast(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)

        class Decorated(Plain):
            @torch.autocast("cuda", torch.float16)
            def forward(self, x):
                return self.layer(x)

    assert types(Decorated().eval(), torch.randn(2, 16)) == ["float16"]


def program_of_a_gpu(model, *inputs):
    """Return a program as PyTorch exports it of tensors on a GPU, but for their device."""
    with CudaAutocast().entered(), torch.no_grad():
        program = torch.export.export(model, inputs)
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes:
            if node.target is torch.ops.higher_order.wrap_with_autocast:
                node.args = ("cuda", *node.args[1:])
        graph.recompile()
    return program


@pytest.mark.parametrize("target", ["cpu", TARGET])
def test_a_program_that_was_cast_when_it_was_exported_is_cast_everywhere(target, tmp_path):
    torch.manual_seed(0)
    model, x = Block(torch.float16).eval(), torch.randn(2, 9, 32)
    program = program_of_a_gpu(model, x)
    torch.export.save(program, tmp_path / "program.pt2")
    model.device = ""
    with torch.no_grad():
        wanted = model(x)
    for source in (program, str(tmp_path / "program.pt2")):
        library = ts.compile(source, target=target, config=CONFIG)
        assert [spec.dtype for spec in library.outputs] == ["float32", "float16", "float32"]
        if target == "cpu":
            assert_near([np.asarray(a) for a in map(torch.from_dlpack, library(x))], wanted, 5e-3)


def test_what_was_loaded_for_a_cpu_is_refused_for_a_gpu():
    loaded = frontends.load(Block(torch.float16).eval(), (torch.randn(2, 9, 32),))
    ts.compile(loaded, config=CONFIG)
    with pytest.raises(SparseError, match=r"not for CUDA.*pass the module"):
        ts.compile(loaded, target=TARGET, config=CONFIG)


def test_an_operator_that_cuda_bans_is_refused():
    class Loss(nn.Module):
        def forward(self, x):
            with torch.autocast("cuda", torch.float16):
                return F.binary_cross_entropy(x, x)

    with pytest.raises(SparseError, match=r"binary_cross_entropy.*outside of autocast"):
        types(Loss(), torch.rand(2, 16))


def test_every_operator_that_cuda_casts_has_a_policy():
    names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
    cast = torch._C._dispatch_has_kernel_for_dispatch_key
    assert {n[6:] for n in names if cast(n, "AutocastCUDA")} <= POLICIES.keys()


OPERATORS = {
    "product": lambda x: x.square @ x.square,
    "linear": lambda x: F.linear(x.square, x.square),
    "vector": lambda x: torch.mv(x.square, x.row),
    "dot": lambda x: torch.dot(x.row, x.row.float()),
    "attention": lambda x: F.scaled_dot_product_attention(x.image, x.image, x.image),
    "einsum": lambda x: torch.einsum("ab,bc->ac", x.square, x.square),
    "conv": lambda x: F.conv2d(x.image, x.image, padding="valid"),
    "exp": lambda x: torch.exp(x.square),
    "power": lambda x: x.square**2,
    "norm": lambda x: F.layer_norm(x.square, (8,)),
    "rms": lambda x: F.rms_norm(x.square, (8,)),
    "length": lambda x: torch.norm(x.square, dim=-1),
    "lengths": lambda x: torch.linalg.vector_norm(x.square),
    "softmax": lambda x: torch.softmax(x.square, -1),
    "softmax to halves": lambda x: torch.softmax(x.square, -1, dtype=torch.bfloat16),
    "sum": lambda x: x.square.sum(-1),
    "mean": lambda x: x.square.mean(-1),
    "running": lambda x: x.square.cumsum(-1),
    "mixed": lambda x: torch.addcmul(x.square, x.square, x.square.float()),
    "halves": lambda x: torch.addcmul(x.square, x.square, x.square),
    "beside": lambda x: torch.cat([x.square, x.square.float()]),
    "gelu": lambda x: F.gelu(x.square),
    "pool": lambda x: F.avg_pool2d(x.image, 2),
    "larger": lambda x: torch.ops.aten.upsample_nearest2d(x.image, [16, 16]),
    "loss": lambda x: F.cross_entropy(x.square, x.square),
    "error": lambda x: F.mse_loss(x.square, x.square),
}


def inputs(dtype, device):
    shapes = {"square": (8, 8), "row": (8,), "image": (1, 1, 8, 8)}
    return SimpleNamespace(
        **{name: torch.ones(s, device=device).to(dtype) for name, s in shapes.items()}
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("name", OPERATORS)
def test_types_are_those_of_pytorch_on_a_gpu(name, dtype):
    if name in ("dot", "mixed") and dtype == torch.float64:
        pytest.skip("PyTorch refuses it")
    function, kept = OPERATORS[name], torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.float16)
    try:
        with FakeTensorMode():  # says what CUDA's own kernels would cast, without a GPU
            wanted = function(inputs(dtype, "cuda")).dtype
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", kept)
    with CudaAutocast().entered(), torch.autocast("cuda", torch.float16), torch.no_grad():
        assert function(inputs(dtype, "cpu")).dtype == wanted
