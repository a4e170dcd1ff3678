"""Park et al., Tables 2 to 4: speed of DEPrune's variants against three unpruned baselines.

The baselines of the depthwise layers are the unpruned DR path (the paper's), the unpruned direct
kernel, and the best library. Run with
``python -m benchmarks.papers.deprune_speed [--networks mobilenet_v2] [--parts layers whole]``;
parts that were measured before stay in the JSON.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import torch
from torch import nn

import tvm_sparse as ts
from benchmarks.cases.kernel_cases import Case, depthwise
from benchmarks.harness.common import interleaved, relative_error
from benchmarks.harness.kernel_race import DENSE, Race
from benchmarks.papers import deprune_pages
from benchmarks.papers.memory import planned_bytes
from benchmarks.papers.output import earlier, tell, write
from benchmarks.papers.refactored import Refactored
from benchmarks.papers.runtimes import dense_runtimes
from tests.zoo import torchvision_model
from tvm_sparse.demo.alpha import MeasuredAlpha
from tvm_sparse.passes.shrink.order_channels import order_by_taps
from tvm_sparse.pruning import Pruner, deprune
from tvm_sparse.pruning.layers import DEPTHWISE, sort_of

NAME = deprune_pages.NAME
TOLERANCE = 2e-4


def prepare_layers(network: str) -> Callable[[], dict[str, Any]]:
    """Build all depthwise layers, unpruned and pruned by each variant; the answer times them."""
    pruners = {variant: prune(network, variant) for variant in deprune_pages.VARIANTS}
    races = {}
    for name, case in depthwise_layers(torchvision_model(network)).items():
        tell(f"{network}, {name}")
        races[name] = _race(case, {v: p.masks[f"{name}.weight"] for v, p in pruners.items()})

    def timed() -> dict[str, Any]:
        rows = []
        for name, race in races.items():
            notes = {variant: p.report[name].note for variant, p in pruners.items()}
            rows.append({"layer": name, "case": race.case.name, "notes": notes, **_timed(race)})
        return {"layers": rows}

    return timed


def prune(network: str, variant: str, ratios: tuple[float, float] | None = None) -> Pruner:
    """Prune the network (random weights) by the paper's shares, or by ``ratios``.

    The alpha of DEPrune-BH is measured by compiling every layer.
    """
    model = torchvision_model(network)
    taps, filters = ratios or deprune_pages.PAPER[network].ratios
    x = torch.zeros(1, 3, 224, 224)
    alpha = MeasuredAlpha(model, (x,)) if variant == "DEPrune-BH" else None
    return deprune(model, taps, filters, variant=variant, alpha=alpha)


def depthwise_layers(model: nn.Module) -> dict[str, Case]:
    """Return the depthwise layers of a network for images of 224 x 224."""
    found: dict[str, Case] = {}

    def note(name: str, layer: nn.Conv2d, x: torch.Tensor) -> None:
        size, stride = x.shape[2], layer.stride[0]
        found[name] = depthwise(size, layer.in_channels, layer.kernel_size[0], stride=stride)

    hooks = [
        layer.register_forward_pre_hook(lambda layer, inputs, name=name: note(name, layer, *inputs))
        for name, layer in model.named_modules()
        if sort_of(layer) == DEPTHWISE
    ]
    with torch.no_grad():
        model(torch.zeros(1, 3, 224, 224))
    for hook in hooks:
        hook.remove()
    return found


def _race(case: Case, masks: dict[str, torch.Tensor]) -> Race:
    race = Race(case)
    race.add_dense()
    _add_refactored(race, DENSE, race.weight, dense=True)
    for variant, mask in masks.items():
        kept = mask.reshape(race.weight.shape).numpy()
        ordered = kept[order_by_taps(kept)]
        race.add_sparse(variant, ordered)
        _add_refactored(race, variant, race.weight * ordered)
    return race


def _timed(race: Race) -> dict[str, Any]:
    race.run(rounds=7, seconds=0.01)
    unpruned = race.libraries(DENSE)
    return {
        "dr_dense": {sort: unpruned.pop(sort) for sort in deprune_pages.DR},
        "ours_dense": race.ours(DENSE),
        "libraries_dense": unpruned,
        "ours": {variant: race.ours(variant) for variant in deprune_pages.VARIANTS},
        "dr": {variant: race.libraries(variant) for variant in deprune_pages.VARIANTS},
        "error": race.error,
    }


def _add_refactored(race: Race, key: str, matrix: np.ndarray, dense: bool = False) -> None:
    layer = Refactored(race.case, race.x, matrix, dense)
    for sort, run in zip(deprune_pages.DR, (layer.whole, layer.product), strict=True):
        race.add_program(key, sort, layer.output(run))


def prepare_whole(network: str) -> Callable[[], dict[str, Any]]:
    """Compile the whole network, unpruned and pruned by each variant; the answer times it."""
    x = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    model = torchvision_model(network)
    models = {"unpruned": model}
    for variant in deprune_pages.VARIANTS:
        models[variant] = prune(network, variant).squash_mask()
    half = prune(network, "DEPrune-BH", (0.5, 0.5)).squash_mask()
    programs, memory, expected = {}, {}, {}
    for name, pruned in {**models, "50 %": half}.items():
        tell(f"{network}, {name}: compiling")
        library = ts.compile(pruned, (x,))
        memory[name] = {"weights": library.nbytes, "activations": planned_bytes(library, x)}
        with torch.no_grad():
            expected[name] = pruned(x).numpy()
        programs[name] = lambda library=library: library(x)
    for name, program in dense_runtimes(model, x).items():
        programs[name], expected[name] = program, expected["unpruned"]
    errors = {name: relative_error(run(), expected[name]) for name, run in programs.items()}
    wrong = {name: error for name, error in errors.items() if not error < TOLERANCE}
    if wrong:
        raise SystemExit(f"{network}: outputs differ from PyTorch's: {wrong}")

    def timed() -> dict[str, Any]:
        times = interleaved(programs, rounds=9, seconds=0.05)
        return {"whole": times, "memory": memory, "errors": errors}

    return timed


PARTS = {"layers": prepare_layers, "whole": prepare_whole}


def main(values: list[str] | None = None) -> None:
    """Measure what is asked for, keep other parts, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = list(deprune_pages.PAPER)
    parser.add_argument("--networks", nargs="*", choices=known, default=known)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    options = parser.parse_args(values)
    torch.set_num_threads(1)
    found = earlier(NAME).get("networks", {})
    prepared = [(n, PARTS[part](n)) for part in options.parts for n in options.networks]
    for network, timed in prepared:
        found[network] = {**found.get(network, {}), **timed()}
        content = {"networks": {name: found[name] for name in known if name in found}}
        page = deprune_pages.markdown(content)
        write(NAME, content, page, lambda f, c=content: deprune_pages.draw(c, f), (11, 4.5))


if __name__ == "__main__":
    main()
