"""Small compiled programs and their artifacts, made once for all tests of a process."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm.tirx
from tvm import relax
from tvm.s_tir import Schedule

from tvm_sparse.artifact import export
from tvm_sparse_runtime import TensorSpec


@dataclass
class Program:
    """A compiled module with everything that export() takes."""

    executable: Any
    weights: dict[str, np.ndarray]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    target: Any

    def export(self, directory: Path, **options: Any) -> Any:
        described = {"inputs": self.inputs, "outputs": self.outputs, "target": self.target}
        arguments = {"directory": directory, "weights": self.weights, **described, **options}
        return export(self.executable, arguments.pop("weights"), **arguments)


def host_target() -> Any:
    name = tvm.target.codegen.llvm_get_system_cpu()
    return tvm.target.Target({"kind": "llvm", "mcpu": name})


@functools.cache
def linear() -> Program:
    """relu(x w + b) and x w + b for any batch; its adding loop uses aligned vectors and threads."""
    batch = tvm.tirx.Var("batch", "int64")
    builder = relax.BlockBuilder()
    x, w, b = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in (("x", (batch, 64)), ("w", (64, 32)), ("b", (32,)))
    )
    with builder.function("main", [x, w, b], attrs={"num_input": 1}):
        with builder.dataflow():
            doubled = builder.emit(relax.op.add(x, x))
            total = builder.emit(relax.op.add(relax.op.matmul(doubled, w), b))
            both = builder.emit_output(relax.Tuple([relax.op.nn.relu(total), total]))
        builder.emit_func_output(both)
    schedule = Schedule(relax.transform.LegalizeOps()(builder.finalize()))
    schedule.work_on("add")
    rows, columns = schedule.get_loops(schedule.get_sblock("T_add"))
    schedule.parallel(rows)
    _, lanes = schedule.split(columns, [None, 16])
    schedule.vectorize(lanes)
    random = np.random.default_rng(0)
    return Program(
        tvm.compile(schedule.mod, host_target()),
        {
            "w": random.normal(size=(64, 32)).astype("float32"),
            "b": random.normal(size=32).astype("float32"),
        },
        (TensorSpec("x", ("batch", 64), "float32"),),
        (TensorSpec("y", ("batch", 32), "float32"), TensorSpec("z", ("batch", 32), "float32")),
        host_target(),
    )


def linear_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weights = linear().weights
    z = 2 * x.astype("float64") @ weights["w"] + weights["b"]
    return np.maximum(z, 0), z


@functools.cache
def echo() -> Program:
    """Hand out the input, then the weight: outputs that live in borrowed memory."""
    builder = relax.BlockBuilder()
    x, w = (relax.Var(name, relax.TensorType((4, 16), "int32")) for name in "xw")
    with builder.function("main", [x, w], attrs={"num_input": 1}):
        with builder.dataflow():
            both = builder.emit_output(relax.Tuple([x, w]))
        builder.emit_func_output(both)
    return Program(
        tvm.compile(builder.finalize(), host_target()),
        {"w": np.arange(64, dtype="int32").reshape(4, 16)},
        (TensorSpec("x", (4, 16), "int32"),),
        (TensorSpec("x", (4, 16), "int32"), TensorSpec("w", (4, 16), "int32")),
        host_target(),
    )


@pytest.fixture(scope="session")
def linear_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("artifacts") / "linear.tvms"
    linear().export(directory, decisions=[{"layer": "fc", "chosen": "dense"}])
    return directory


@pytest.fixture(scope="session")
def echo_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("artifacts") / "echo.tvms"
    echo().export(directory)
    return directory
