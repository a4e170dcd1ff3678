"""Networks that people run, of small extents: every kernel executed, results as near as eager."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.emulation.exact import array
from tests.zoo import torchvision_model, transformers_model
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.selection.cuda import convolution_options, library_options
from tvm_sparse.testing import emulate
from tvm_sparse_runtime.libraries import LIBRARIES

pytestmark = needs_nvrtc

BOUNDS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Error of an output, relative to the largest one, besides four times PyTorch's own."""

BANK = Balanced(16, 4)
FEW_CHANNELS = 16
"""Layers with fewer columns stay dense when the others are pruned."""


def image(name):
    return torchvision_model(name, num_classes=10), torch.randn(2, 3, 32, 32)


def bert():
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
    options = {"vocab_size": 64, "num_hidden_layers": 2}
    model = transformers_model("BertModel", "BertConfig", **sizes, **options)
    return model, torch.randint(0, 64, (2, 12))


def gpt():
    sizes = {"n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 32}
    tokens = {"vocab_size": 64, "bos_token_id": 0, "eos_token_id": 1}
    model = transformers_model("GPT2LMHeadModel", "GPT2Config", **sizes, **tokens)
    model.config.use_cache = False
    return model, torch.randint(0, 64, (2, 12))


NETWORKS = {
    "mobilenet_v2": lambda: image("mobilenet_v2"),
    "resnet50": lambda: image("resnet50"),
    "bert": bert,
    "gpt2": gpt,
}
QUICK = ("bert", "gpt2")
IMAGES = ("mobilenet_v2", "resnet50")
each = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in NETWORKS]


def run(name, dtype, change=lambda model: {}, **options):
    """Compile one for Hopper, execute its artifact, compare with float64; return the library.

    ``change`` may prune the model, and returns the formats that layers are to have.
    """
    torch.manual_seed(0)
    model, x = NETWORKS[name]()
    force = change(model)
    exact, model = copy.deepcopy(model).double(), model.to(dtype)
    wide, x = (x.double(), x.to(dtype)) if x.is_floating_point() else (x, x)
    with torch.no_grad():
        eager, wanted = results(model(x)), results(exact(wide))
    config = ts.Config(measure=False, cache=False, tuned=False, force=force)
    library = ts.compile(model, (x,), target="cuda:sm_90a", config=config)
    emulation = emulate(library, array(x), **options)
    assert emulation.report.launches
    assert not emulation.report.findings, emulation.report.findings
    found = [torch.from_numpy(got.astype("f8")) for got in emulation.outputs]
    for got, near, right in zip(found, eager, wanted, strict=True):
        error, own = (got - right).abs().max(), (near.double() - right).abs().max()
        assert error <= BOUNDS[dtype] * right.abs().max() + 4 * own
    return library


def results(output):
    return [output] if isinstance(output, torch.Tensor) else list(output.to_tuple())


def chosen(library):
    return {decision.chosen for decision in library.decisions}


@pytest.mark.grid
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("name", each)
@pytest.mark.parametrize("there", [True, False])
def test_dense_layers_by_a_library_or_by_ours(name, dtype, there, tmp_path, monkeypatch):
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv("FAKE_CUDA_LOG", str(log))
    monkeypatch.setattr(library_options, "seconds", lambda *_: 1e-9)
    monkeypatch.setattr(convolution_options, "seconds", lambda *_: 1e-9)
    library = run(name, dtype, libraries=there)
    wanted = {"cublaslt"} | ({"cudnn"} if name in IMAGES else set())
    assert wanted == chosen(library) & LIBRARIES.keys()
    asked = {line.split()[0] for line in log.read_text().splitlines()}
    assert asked & LIBRARIES.keys() == (wanted if there else set())


def balanced(model):
    """Keep 4 weights of 16 columns in wide layers; return that these are to be stored so."""
    force = {}
    for name, layer in model.named_modules():
        plain = isinstance(layer, (nn.Linear, nn.Conv2d)) and getattr(layer, "groups", 1) == 1
        if plain and layer.weight.shape[1] >= FEW_CHANNELS and name != "lm_head":
            with torch.no_grad():
                rows = layer.weight.movedim(1, -1)
                mask = BANK.project(rows.abs().reshape(len(rows), -1).numpy())
                rows *= torch.from_numpy(mask).reshape(rows.shape)
            force[name] = "balanced"
    return force


@pytest.mark.grid
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("name", [one for one in each if "gpt2" not in one.values])
def test_pruned_layers(name, dtype):
    assert "balanced" in chosen(run(name, dtype, balanced))
