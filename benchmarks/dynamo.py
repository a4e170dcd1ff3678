"""``torch.compile`` with our backend beside eager PyTorch and inductor, in one process, in turns.

    python -m benchmarks.dynamo

A first run fills the caches of all three; times are those of a run with warm caches.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

import tvm_sparse as ts
from benchmarks.harness import common
from benchmarks.harness.threads import limit_threads
from tests import zoo
from tvm_sparse.patterns.balanced import Balanced

BANK, KEEP = 16, 2
BERT = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "vocab_size": 1000,
}


def networks() -> dict[str, tuple[nn.Module, dict[str, torch.Tensor]]]:
    """Return models with seeded weights and the arguments of one call."""
    torch.manual_seed(0)
    image = torch.randn(1, 3, 224, 224)
    ids = torch.randint(0, 1000, (1, 128))
    return {
        "resnet18 (torchvision)": (zoo.torchvision_model("resnet18"), {"x": image}),
        "mobilenetv3_small_100 (timm)": (zoo.timm_model("mobilenetv3_small_100"), {"x": image}),
        "BERT, 4 layers of 256 (transformers)": (
            zoo.transformers_model("BertModel", "BertConfig", **BERT),
            {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
        ),
    }


def prune(model: nn.Module) -> None:
    """Zero 14 of 16 weights of each bank, in layers whose rows are whole banks."""
    for part in model.modules():
        if isinstance(part, nn.Embedding | nn.EmbeddingBag):
            continue
        inputs_first = isinstance(part, nn.ConvTranspose2d) or type(part).__name__ == "Conv1D"
        for weight in part.parameters(recurse=False):
            if weight.dim() > 1:
                _prune(weight.detach().movedim(0, 1) if inputs_first else weight.detach())


def _prune(weight: torch.Tensor) -> None:
    """Prune a weight whose outputs come first and whose inputs are next, in its memory."""
    if weight.shape[1] % BANK == 0:
        last = weight.movedim(1, -1)
        mask = Balanced(BANK, KEEP).project(last.reshape(len(weight), -1).abs().numpy())
        last *= torch.from_numpy(mask).reshape(last.shape)


def measured(model: nn.Module, inputs: dict[str, torch.Tensor], rounds: int) -> dict[str, Any]:
    """Return times of the three ways to run ``model``, and the largest error of ours."""
    torch._dynamo.reset()
    ours = torch.compile(model, backend="tvm_sparse")
    inductor = torch.compile(model, options={"freezing": True})
    programs = {"eager": model, "inductor": inductor, "tvm_sparse": ours}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.errors.SlowKernelWarning)
        begin = time.perf_counter()
        found = _tensors(ours(**inputs))
        first = time.perf_counter() - begin
        pairs = list(zip(found, _tensors(model(**inputs)), strict=True))
        times = common.interleaved(
            {name: lambda p=program: p(**inputs) for name, program in programs.items()}, rounds
        )
    report = ts.partitions(ours)
    return {
        "us": {name: t["median_us"] for name, t in times.items()},
        "first_call_s": first,
        "cached": all(part.cached for part in report.parts),
        "parts": len(report.parts),
        "left_to_pytorch": sum(len(graph.eager) for graph in report.graphs),
        "error": max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs),
    }


def _tensors(result: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def main() -> None:
    """Measure every network, as it is and pruned, and save the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    limit_threads(1)
    torch.set_num_threads(1)
    rows = []
    for pruned in (False, True):
        for name, (model, inputs) in networks().items():
            if pruned:
                prune(model)
            row = {"network": name, "pruned": pruned, **measured(model, inputs, options.rounds)}
            rows.append(row)
            print(row, flush=True)
    assert all(np.isfinite(row["error"]) and row["error"] < 1e-3 for row in rows), "wrong results"
    common.save("dynamo", {"environment": common.environment(1), "rows": rows})


if __name__ == "__main__":
    main()
