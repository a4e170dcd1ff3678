"""Whole networks on a GPU: outputs verified, our sparse and dense artifacts against PyTorch."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import tvm_sparse as ts
import tvm_sparse_runtime as rt
from benchmarks.gpu import prepare
from benchmarks.gpu.timing import OwnGraphs, Timer
from tvm_sparse.demo.separable import build_separable
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.pruning import deprune

BATCH = 32
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2}
"""Largest difference, relative to the largest output."""

CODE = (*prepare.KERNEL_CODE, "passes", "patterns", "pruning", "frontends", "artifact")
"""Folders of the package that decide what an artifact is."""

Built = tuple[torch.nn.Module, torch.Tensor]
Maker = Callable[[], Built]


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


def mobile(name: str) -> Maker:
    """Return a maker of a torchvision network that DEPrune-BH pruned, in half precision."""

    def make() -> Built:
        for package in ("torchvision", "pytest"):
            if importlib.util.find_spec(package) is None:
                raise ImportError(f"{package} is not installed")
        from benchmarks.networks import build, prune_deprune

        model, x = build(name, BATCH)
        prune_deprune(model, name)
        return model.half(), x.half()

    return make


NETWORKS: dict[str, Maker] = {
    "separable digits": digits,
    "perceptron": perceptron,
    "mobilenet_v2 fp16": mobile("mobilenet_v2"),
    "efficientnet_b0 fp16": mobile("efficientnet_b0"),
}


def place(name: str, level: str) -> Path:
    """Return the directory of a network's artifact."""
    return prepare.BUILT / prepare.code_version(*CODE) / f"{name.replace(' ', '_')}_{level}.tvms"


def build_artifacts(name: str, target: str) -> None:
    """Compile a network sparse and dense; artifacts that are there stay."""
    for level, config in (("sparse", ts.Config()), ("dense", ts.Config(sparse=False))):
        if not place(name, level).exists():
            model, x = NETWORKS[name]()
            path = place(name, level)
            path.parent.mkdir(parents=True, exist_ok=True)
            ts.compile(model, (x,), target=target, config=config).export(path)


def rows(name: str, timer: Timer) -> Iterator[dict[str, Any]]:
    """Yield times of a network, if it is built."""
    if place(name, "sparse").exists():
        model, x = NETWORKS[name]()
        yield {"case": name, **_measured(name, model.cuda(), x.cuda(), timer)}


@torch.inference_mode()
def _measured(name: str, model: torch.nn.Module, x: torch.Tensor, timer: Timer) -> dict[str, Any]:
    expected = model(x)
    programs: dict[str, Callable[[], object]] = {"torch eager": lambda: model(x)}
    errors = {}
    for level in ("sparse", "dense"):
        library = rt.load(place(name, level))
        error = float((library(x) - expected).abs().max() / expected.abs().max())
        errors[level] = error
        if not error <= TOLERANCE[x.dtype]:
            raise ArithmeticError(f"{name} {level}: outputs differ by {error:.2g}")
        programs[f"ours {level}"] = lambda library=library: library(x)
    missing = {}
    try:
        last = model.to(memory_format=torch.channels_last) if x.dim() == 4 else model
        fast = torch.compile(last, mode="max-autotune")
        fast(x)
        programs["torch.compile max-autotune"] = OwnGraphs(lambda: fast(x))
    # Whatever keeps the compiler from working is a remark in the results.
    except Exception as error:
        missing["torch.compile"] = f"{type(error).__name__}: {str(error)[:160]}"
    return {"errors": errors, "missing": missing, **timer.row(programs)}
