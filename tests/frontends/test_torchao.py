"""What torchao's ``quantize_`` makes of a module: layers of bytes, bit by bit torchao's results."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.program.test_compiler import prune_banks
from tvm_sparse.errors import InputError

torchao = pytest.importorskip("torchao.quantization")
primitives = pytest.importorskip("torchao.quantization.quant_primitives")
granularity = pytest.importorskip("torchao.quantization.granularity")

CONFIG = ts.Config(measure=False, tuned=False)
X = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0)) * 3
ASYMMETRIC = primitives.MappingType.ASYMMETRIC


def quantized(config, dtype=torch.float32):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 32, bias=False)).eval()
    prune_banks(module, 4)
    module = module.to(dtype)
    torchao.quantize_(module, config)
    return module


def kernels(library):
    return [kernel.function for kernel in library.kernels]


@pytest.fixture(scope="module")
def dynamic():
    return quantized(torchao.Int8DynamicActivationInt8WeightConfig())


@pytest.mark.grid
@pytest.mark.parametrize("exported", [True, False])
def test_rows_are_scaled_when_they_are_there_and_zeros_are_used(dynamic, exported):
    source = torch.export.export(dynamic, (X,)) if exported else dynamic
    library = ts.compile(source, None if exported else (X,), config=CONFIG)
    assert [d.layer for d in library.decisions] == ["0", "2"]
    assert all(d.chosen not in ("dense", "library") for d in library.decisions)
    names = kernels(library)
    assert sum("quantize_rows" in name for name in names) == 2
    assert sum("linear" in name and "int8" in name for name in names) == 2
    assert len(names) == 4  # rows and bytes of each layer: bias and GELU are fused behind it
    with torch.no_grad():
        torch.testing.assert_close(library(X), dynamic(X), rtol=1e-6, atol=1e-6)


def test_sums_of_bytes_are_exact(dynamic):
    """One layer, no activation: every step is the same one in the same order."""
    library = ts.compile(dynamic[2:], (X[..., :48],), config=CONFIG)
    with torch.no_grad():
        expected = dynamic[2:](X[..., :48])
    np.testing.assert_array_equal(library(X[..., :48]).numpy(), expected.numpy())


def test_torch_compile(dynamic):
    options = {"measure": False, "tuned": False}
    with torch.no_grad():
        found = torch.compile(dynamic, backend="tvm_sparse", options=options)(X)
        torch.testing.assert_close(found, dynamic(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({"act_mapping_type": ASYMMETRIC}, torch.float32),
        pytest.param(
            {"granularity": granularity.PerTensor()}, torch.float32, marks=pytest.mark.slow
        ),
        pytest.param({}, torch.bfloat16, marks=pytest.mark.slow),
    ],
)
def test_other_forms_are_right_with_kernels_of_their_own(config, dtype):
    module = quantized(torchao.Int8DynamicActivationInt8WeightConfig(**config), dtype)
    x = X.to(dtype)
    library = ts.compile(module, (x,), config=CONFIG)
    assert all("int8" in name for name in kernels(library) if "linear" in name)
    with torch.no_grad():
        near = 1e-6 if dtype == torch.float32 else 2**-7
        torch.testing.assert_close(library(x), module(x), rtol=near, atol=near)


def test_bytes_for_weights_only_are_floats_when_they_run():
    module = quantized(torchao.Int8WeightOnlyConfig())
    library = ts.compile(module, (X,), config=CONFIG)
    assert not any("int8" in name for name in kernels(library))
    assert all(d.chosen != "dense" for d in library.decisions)
    with torch.no_grad():
        torch.testing.assert_close(library(X), module(X), rtol=1e-5, atol=1e-5)


def test_a_choice_that_is_not_read_is_named():
    module = quantized(torchao.Int8DynamicActivationInt8WeightConfig())
    program = torch.export.export(module, (X,))
    for node in program.graph.find_nodes(
        op="call_function", target=torch.ops.torchao.choose_qparams_affine.default
    ):
        node.args = (node.args[0], "SYMMETRIC_NO_CLIPPING_ERR", *node.args[2:])
    with pytest.raises(InputError, match=r"torchao::choose_qparams_affine"):
        ts.compile(program, config=CONFIG)


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # of PyTorch's own writer
def test_files_have_plain_tensors(dynamic, tmp_path):
    program = torch.export.export(dynamic, (X,))
    torch.export.save(program, tmp_path / "whole.pt2")
    with pytest.raises(InputError, match=r"run_decompositions"):
        ts.compile(tmp_path / "whole.pt2", config=CONFIG)
    torch.export.save(program.run_decompositions(), tmp_path / "plain.pt2")
    library = ts.compile(tmp_path / "plain.pt2", config=CONFIG)
    assert sum("linear" in name and "int8" in name for name in kernels(library)) == 2
    with torch.no_grad():
        torch.testing.assert_close(library(X), dynamic(X), rtol=1e-6, atol=1e-6)


def test_inspection_sees_the_zeros(dynamic):
    for source in (dynamic, torch.export.export(dynamic, (X,)).module()):
        first, last = ts.inspect(source).rows
        assert (first.layer, last.layer) == ("0", "2")
        assert min(first.sparsity, last.sparsity) > 0.7
        assert first.shape == (48, 64)
