"""How long networks with open extents take to compile, beside one closed program of each.

    python -m benchmarks.open_compile
    python -m benchmarks.open_compile --networks "MobileNetV2, planes" --whole edgenext

Writes ``results/open_compile.json``: a row for each network with the processor seconds of both.
They are those of :mod:`benchmarks.cases.open_networks`, and whole ones of other packages. Each
program is compiled in processes of its own, behind a small network that warms libraries up; the
least of the repeats counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.harness.threads import limit_threads

NAME = "open_compile"
Made = tuple[Any, tuple[Any, ...], Any]
"""A network, its example inputs, and its open axes."""


def main() -> None:
    options = _arguments()
    limit_threads(1)
    if options.one:
        print(json.dumps(seconds(options.one, is_open=options.open)))
        return
    from benchmarks.harness.common import environment, load, save

    rows = {row["network"]: row for row in load(NAME).get("rows", [])}
    for name in (*options.networks, *options.whole):
        taken: dict[str, list[float]] = {"closed": [], "open": []}
        for _ in range(options.repeats):
            for which, found in taken.items():
                command = [sys.executable, "-m", "benchmarks.open_compile", "--one", name]
                command += ["--open"] * (which == "open")
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found.append(json.loads(done.stdout.splitlines()[-1]))
        here = environment(1)
        one, other = (min(taken[which]) for which in ("closed", "open"))
        row = {"network": name, "closed_s": one, "open_s": other, "ratio": other / one}
        rows[name] = row | {"cpu": here["cpu"], "shared": options.shared}
        print(json.dumps(rows[name]), flush=True)
        save(NAME, {"environment": here, "rows": list(rows.values())})


def seconds(name: str, *, is_open: bool) -> float:
    """Return the processor seconds that one program of a network takes to compile."""
    import torch
    from torch import nn

    import tvm_sparse as ts

    torch.set_num_threads(1)
    config = ts.Config(measure=False, cache=False)
    small, x = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval(), torch.randn(1, 3, 32, 32)
    axes = {2: torch.export.Dim("height", min=8, max=64)}
    for shapes in (None, (axes,)):
        ts.compile(small, (x,), dynamic_shapes=shapes, config=config)
    model, inputs, shapes = _made(name)
    begin = time.process_time()
    ts.compile(model, inputs, dynamic_shapes=shapes if is_open else None, config=config)
    return time.process_time() - begin


def _made(name: str) -> Made:
    import torch

    import tvm_sparse as ts
    from benchmarks.cases.open_networks import NETWORKS

    torch.manual_seed(0)
    if name in WHOLE:
        model, inputs, shapes = WHOLE[name]()
    else:
        network = NETWORKS[name]
        model = network.make()
        inputs, shapes = (torch.randn(*network.example),), (network.dims(),)
    model = model.eval().requires_grad_(False)
    ts.prune.balanced(model, 0.75).squash_mask()
    return model, inputs, shapes


def _encoder() -> Made:
    import torch

    from benchmarks.cases.networks import Encoder

    inputs = torch.randn(2, 16, 384)
    axes = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("tokens", max=512)}
    return Encoder(6, 384), (inputs,), (axes,)


def _pictures(model: Any) -> Made:
    import torch

    height, width = (32 * torch.export.Dim(name, min=2, max=12) for name in ("height", "width"))
    return model, (torch.randn(1, 3, 224, 224),), ({2: height, 3: width},)


def _mobilenet() -> Made:
    from tests.zoo import torchvision_model

    return _pictures(torchvision_model("mobilenet_v2"))


def _edgenext() -> Made:
    from tests.zoo import timm_model

    return _pictures(timm_model("edgenext_xx_small"))


WHOLE: dict[str, Callable[[], Made]] = {
    "encoder of six layers": _encoder,
    "mobilenet_v2": _mobilenet,
    "edgenext": _edgenext,
}
"""An encoder of six layers of 384; MobileNetV2 and EdgeNeXt of open planes."""


def _arguments() -> argparse.Namespace:
    from benchmarks.cases.open_networks import NETWORKS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--whole", nargs="*", default=list(WHOLE), choices=list(WHOLE))
    parser.add_argument("--shared", action="store_true", help="say that others used the machine")
    parser.add_argument("--one", choices=[*NETWORKS, *WHOLE], help=argparse.SUPPRESS)
    parser.add_argument("--open", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
