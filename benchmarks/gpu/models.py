"""Whole networks on a GPU: outputs verified, our sparse and dense artifacts against PyTorch."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import tvm_sparse as ts
import tvm_sparse_runtime as rt
from benchmarks.gpu import device, prepare
from benchmarks.gpu.timing import OwnGraphs, Timer
from tvm_sparse.comparison.gpu_times import reason
from tvm_sparse.demo.separable import build_separable
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning import deprune

BATCH = 32
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2}
"""Largest difference, relative to the largest output."""

CODE = (*prepare.KERNEL_CODE, "passes", "patterns", "pruning", "frontends", "artifact")
"""Folders of the package that decide what an artifact is."""

Built = tuple[torch.nn.Module, torch.Tensor]
Maker = Callable[[], Built]
Prune = Callable[[torch.nn.Module], None]


def digits() -> Built:
    """Return the demonstration's separable network with pruned taps and filters."""
    model = build_separable()
    pruner = deprune(model, 0.7, 0.4, variant="DEPrune-BH", alpha=lambda _layer: 1.0)
    pruner.step()
    pruner.squash_mask()
    return model, torch.randn(BATCH, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def perceptron() -> Built:
    """Return a balanced multilayer perceptron."""
    torch.manual_seed(0)
    sizes = (784, 1024, 1024, 10)
    layers: list[torch.nn.Module] = []
    for columns, features in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(columns, features), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1]).eval()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            weight = layer.weight.detach()
            weight *= torch.from_numpy(Balanced(16, 4).project(weight.abs().numpy()))
    return model, torch.randn(BATCH, 784)


def zoo(name: str, batch: int, prune: Prune | None = None) -> Maker:
    """Return a maker of a network in half precision.

    It is pruned by ``prune``, or by DEPrune-BH, or to 4 of 16.
    """

    def make() -> Built:
        for package in ("torchvision", "pytest"):
            if importlib.util.find_spec(package) is None:
                raise ImportError(f"{package} is not installed")
        from benchmarks.cases.networks import DEPRUNE, build, prune_balanced, prune_deprune

        model, x = build(name, batch)
        if prune is not None:
            prune(model)
        elif name in DEPRUNE:
            prune_deprune(model, name)
        else:
            prune_balanced(model, keep=4)
        return model.half(), x.half()

    return make


def blocks(model: torch.nn.Module) -> None:
    """Prune linear layers to a tenth of their 64 x 64 blocks, in place."""
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            weight = layer.weight.detach()
            kept = Block(64, 64).project(weight.abs().numpy(), 0.9)
            weight *= torch.from_numpy(kept * (1 - 0.9) ** -0.5)


def gates(model: torch.nn.Module) -> None:
    """Prune recurrent layers as the papers do: a fifth is kept, balanced."""
    from benchmarks.cases.networks import prune_balanced

    prune_balanced(model, keep=5, bank=25)


def tiny() -> Built:
    """Return a network that the stand-in executes in seconds."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 8)
    ).eval()
    weight = model[0].weight.detach()
    weight *= torch.from_numpy(Balanced(16, 4).project(weight.abs().numpy()))
    return model, torch.randn(2, 64)


NETWORKS: dict[str, Maker] = {
    "separable digits": digits,
    "perceptron": perceptron,
    **{
        f"{name} fp16, batch {batch}": zoo(name, batch)
        for name in ("mobilenet_v2", "efficientnet_b0", "resnet50", "bert_base")
        for batch in (1, BATCH)
    },
    **{
        f"bert_base blocks fp16, batch {batch}": zoo("bert_base", batch, blocks)
        for batch in (1, BATCH)
    },
    "lstm_ptb, 35 steps, fp16, batch 1": zoo("lstm_ptb_35", 1, gates),
}
TINY = {"tiny": tiny}
"""For the stand-in."""


def place(name: str, level: str, *, ptx: bool = False) -> Path:
    """Return the directory of a network's artifact."""
    file = f"{name.replace(' ', '_').replace(',', '')}_{level}{'_ptx' * ptx}.tvms"
    return prepare.BUILT / prepare.code_version(*CODE) / file


def build_artifacts(name: str, target: str, *, ptx: bool = False) -> None:
    """Compile a network sparse and dense; artifacts that are there stay.

    Nothing is measured for it: another process may be measuring on the same GPU.
    """
    sparse = ts.Config(measure=False)
    for level, config in (("sparse", sparse), ("dense", replace(sparse, sparse=False))):
        if not place(name, level, ptx=ptx).exists():
            model, x = {**NETWORKS, **TINY}[name]()
            path = place(name, level, ptx=ptx)
            path.parent.mkdir(parents=True, exist_ok=True)
            ts.compile(model, (x,), target=target, config=config).export(path, ptx=ptx)


def rows(name: str, timer: Timer, mode: str = "max-autotune") -> Iterator[dict[str, Any]]:
    """Yield times of a network, if it is built; ``mode`` is torch.compile's, empty: without it."""
    if place(name, "dense", ptx=device.current().ptx).exists():
        model, x = {**NETWORKS, **TINY}[name]()
        x = device.current().put(x)
        yield {"case": name, **_measured(name, model.to(x.device), x, timer, mode)}


@torch.inference_mode()
def _measured(
    name: str, model: torch.nn.Module, x: torch.Tensor, timer: Timer, mode: str
) -> dict[str, Any]:
    expected = model(x)
    if not bool(expected.isfinite().all()):
        raise ArithmeticError(f"{name}: what PyTorch itself computes is not finite in {x.dtype}")
    programs: dict[str, Callable[[], object]] = {"torch eager": lambda: model(x)}
    errors, asked = {}, list[str]()
    for level in ("sparse", "dense"):
        library = rt.load(place(name, level, ptx=device.current().ptx))
        asked += [f"{level}, {line}" for line in library.libraries]
        error = float((library(x) - expected).abs().max() / expected.abs().max())
        errors[level] = error
        if not error <= TOLERANCE[x.dtype]:
            raise ArithmeticError(f"{name} {level}: outputs differ by {error:.2g}")
        programs[f"ours {level}"] = OwnGraphs(lambda library=library: library(x))
    missing = {}
    try:
        if not mode:
            raise NotImplementedError("not asked for")
        last = model.to(memory_format=torch.channels_last) if x.dim() == 4 else model
        fast = torch.compile(last, mode=mode)
        fast(x)
        programs[f"torch.compile {mode}"] = OwnGraphs(lambda: fast(x))
    # Whatever keeps the compiler from working is a remark in the results.
    except Exception as error:
        missing["torch.compile"] = reason(error)
    return {"errors": errors, "libraries": asked, "missing": missing, **timer.row(programs)}
