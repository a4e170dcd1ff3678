"""Small Relax modules for pass tests, and what to ask of the results."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.passes.graph.rewrite import op_name


def module(
    body: Callable[..., Any], *shapes: tuple[Any, ...], dtype: str = "float32"
) -> tvm.IRModule:
    """Return ``main(*inputs)`` whose result is ``body(*inputs)``."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{i}", relax.TensorType(shape, dtype)) for i, shape in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            out = builder.emit_output(body(*inputs))
        builder.emit_func_output(out)
    return builder.finalize()


def operators(mod: tvm.IRModule) -> dict[str, int]:
    """Return how often each operator is called in ``main``."""
    found: collections.Counter[str] = collections.Counter()

    def look(expr: Any) -> None:
        if isinstance(expr, relax.Call):
            found[op_name(expr)] += 1

    relax.analysis.post_order_visit(mod["main"].body, look)
    return dict(found)


def evaluate(mod: tvm.IRModule, *inputs: np.ndarray) -> Any:
    """Run ``main`` through TVM's default pipeline; return its array, or a list of several."""
    vm = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    found = vm["main"](*(tvm.runtime.tensor(x) for x in inputs))
    return found.numpy() if isinstance(found, tvm.runtime.Tensor) else [x.numpy() for x in found]
