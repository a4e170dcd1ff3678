"""Small lowered modules to take tuning tasks from."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from tests.kernels import host, integers, keep_of_bank
from tests.passes.modules import module
from tvm_sparse.base.config import Config
from tvm_sparse.passes import pipeline
from tvm_sparse.passes.graph.rewrite import constant
from tvm_sparse.schedules.build import build_context
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions
from tvm_sparse.tuning.tasks import Task, extract


def weights(seed: int, keep: int = 4, shape: tuple[int, int] = (64, 64)) -> np.ndarray:
    """Return a balanced matrix: ``keep`` of each bank of 16."""
    return keep_of_bank(np.random.default_rng(seed), shape, keep)


def lowered(body, *shapes, sparse: bool = True) -> tvm.IRModule:
    """Return the fused, not yet scheduled module of ``body(*inputs)``."""
    chooser = Chooser(host(), Config(measure=False, sparse=sparse), Decisions())
    with build_context(host()):
        return tvm.transform.Sequential(pipeline.lower(chooser))(module(body, *shapes))


def linear(x, weight: np.ndarray, name: str):
    """Return ``x @ weight.T`` with a named weight."""
    return relax.op.matmul(x, constant(np.ascontiguousarray(weight.T), f"{name}.weight"))


def relu(x):
    """Return ``max(x, 0)``."""
    return relax.op.nn.relu(x)


def mlp(seed: int = 0, rows: int = 8):
    """Return a body of three equal layers, the last without ReLU."""

    def body(x):
        x = relu(linear(x, weights(seed), "a"))
        x = relu(linear(x, weights(seed + 1), "b"))
        return linear(x, weights(seed + 2), "c")

    return body, (rows, 64)


def tasks(body, *shapes, sparse: bool = True) -> list[Task]:
    """Return the tasks of ``body``."""
    return extract(lowered(body, *shapes, sparse=sparse), host())


def random_input(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return small integers as fp32."""
    return integers(np.random.default_rng(seed), shape)
