"""What a user could run on a GPU instead: PyTorch, its compiler with its own graphs, TensorRT."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tvm_sparse.comparison.gpu_times import OwnGraphs
from tvm_sparse.comparison.runtimes import Case, Make
from tvm_sparse.frontends.modules.effective import to_tensor

GPU = "cuda"
MODE = "max-autotune"
"""The mode of ``torch.compile`` that searches kernels and replays CUDA graphs."""


def tensors_of(outputs: Any) -> list[torch.Tensor]:
    """Return the tensors of a module's result in order."""
    return [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]


@contextlib.contextmanager
def exact_products() -> Iterator[None]:
    """Let PyTorch multiply float32 in float32, as ours does: convolutions would take TF32."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def _called(module: Callable[..., Any], inputs: list[torch.Tensor]) -> Callable[[], Any]:
    def run() -> list[torch.Tensor]:
        with torch.inference_mode():
            return tensors_of(module(*inputs))

    return run


def _placed(given: Case) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    return given.module.to(GPU), [to_tensor(array).to(GPU) for array in given.inputs]


def _eager(given: Case, _folder: Path) -> Any:
    return _called(*_placed(given))


def _inductor(given: Case, _folder: Path) -> Any:
    module, inputs = _placed(given)
    fast = torch.compile(module, mode=MODE)
    run = _called(fast, inputs)
    for _ in range(3):  # its graphs are captured in the first calls
        run()
    return OwnGraphs(run)


def _tensorrt(given: Case, _folder: Path) -> Any:
    import torch_tensorrt

    module, inputs = _placed(given)
    types = {tensor.dtype for tensor in inputs if tensor.is_floating_point()} or {torch.float32}
    engine = torch_tensorrt.compile(module, ir="dynamo", inputs=inputs, enabled_precisions=types)
    return _called(engine, inputs)


RUNTIMES: dict[str, tuple[Make, str]] = {
    "PyTorch eager": (_eager, "torch"),
    f"torch.compile {MODE}": (_inductor, "torch"),
    "TensorRT": (_tensorrt, "torch_tensorrt"),
}
"""How each is made, and the package that it needs; all take PyTorch's modules."""
