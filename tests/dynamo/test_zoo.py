"""Models of transformers, timm and torchvision through the backend, against float64."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import tvm_sparse as ts
from tests import zoo

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 200}
WIDE = {**SMALL, "intermediate_size": 128}
TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertModel", "BertConfig", WIDE),
    "roberta": ("RobertaModel", "RobertaConfig", WIDE),
    "distilbert": (
        "DistilBertModel",
        "DistilBertConfig",
        {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 200},
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200, "n_positions": 64,
         "bos_token_id": 0, "eos_token_id": 1},
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", WIDE),
    "t5": (
        "T5EncoderModel",
        "T5Config",
        {"d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4, "d_kv": 16,
         "vocab_size": 200},
    ),
}  # fmt: skip
VISION = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
IMAGES = {
    "vit": lambda: zoo.transformers_model(
        "ViTModel", "ViTConfig", **VISION, intermediate_size=128, image_size=64, patch_size=16
    ),
    "efficientnet_b0": lambda: zoo.timm_model("efficientnet_b0"),
    "convnext_atto": lambda: zoo.timm_model("convnext_atto"),
    "regnety_002": lambda: zoo.timm_model("regnety_002"),
    "resnet18": lambda: zoo.torchvision_model("resnet18"),
}


def check(model: torch.nn.Module, **inputs: torch.Tensor) -> None:
    """Assert that the backend compiles ``model`` whole, and is as exact as eager PyTorch."""
    torch._dynamo.reset()
    fast = torch.compile(
        model,
        backend="tvm_sparse",
        fullgraph=True,
        options={"measure": False, "artifacts": False},
    )
    wide = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(**wide)
        found = fast(**inputs)
    assert type(found) is type(exact)
    (graph,) = ts.explain(fast).graphs
    assert len(graph.parts) == 1 and not graph.eager
    pairs = list(zip(pytree.tree_leaves(found), pytree.tree_leaves(exact), strict=True))
    tensors = [pair for pair in pairs if isinstance(pair[0], torch.Tensor)]
    assert tensors
    for got, want in tensors:
        assert float((got - want).abs().max() / want.abs().max()) < 1e-4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tvm_sparse.errors.SlowKernelWarning")
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_text(name):
    made, configuration, options = TRANSFORMERS[name]
    torch.manual_seed(0)
    ids = torch.randint(2, 200, (2, 16))
    check(zoo.transformers_model(made, configuration, **options), input_ids=ids)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tvm_sparse.errors.SlowKernelWarning")
@pytest.mark.parametrize("name", IMAGES)
def test_images(name):
    torch.manual_seed(0)
    model = IMAGES[name]()
    first = "pixel_values" if name == "vit" else "x"
    check(model, **{first: torch.randn(1, 3, 64, 64)})
