"""Write the stored artifacts that are missing, with the outputs that they give."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from tests import stored
from tvm_sparse.artifact import export
from tvm_sparse.artifact.link import Program
from tvm_sparse.passes.finish.free_inputs import FreeInputs
from tvm_sparse_runtime import TensorSpec, load

DECISIONS = ({"layer": "fc", "chosen": "dense", "us": 1.5e-05},)


def program(cpu: str, unaligned: tuple[int, ...]) -> Program:
    """Return relu(|x| w) for any batch, with whole numbers as weights."""
    batch = tvm.tirx.Var("batch", "int64")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((batch, 64), "float32"))
    w = relax.Var("w", relax.TensorType((64, 4), "float32"))
    with builder.function("main", [x, w], attrs={"num_input": 1}):
        with builder.dataflow():
            output = builder.emit_output(relax.op.nn.relu(relax.op.matmul(relax.op.abs(x), w)))
        builder.emit_func_output(output)
    triple = "x86_64-unknown-linux-gnu"
    target = tvm.target.Target({"kind": "llvm", "mtriple": triple, "mcpu": cpu})
    module, found = relax.transform.LegalizeOps()(builder.finalize()), [()]
    if unaligned:
        module = FreeInputs(found.append)(module)
    assert found[-1] == unaligned
    weights = {"w": (np.arange(256) % 5 - 2).astype("float32").reshape(64, 4)}
    return Program(tvm.compile(module, target), weights, target, DECISIONS)


for version, cpus in stored.TARGETS.items():
    if stored.path(version).exists():
        continue
    unaligned = stored.UNALIGNED.get(version, ())
    first, *others = [program(cpu, unaligned) for cpu in cpus]
    export(
        first.executable,
        first.weights,
        directory=stored.path(version),
        inputs=(TensorSpec("x", ("batch", 64), "float32"),),
        outputs=(TensorSpec("y", ("batch", 4), "float32"),),
        target=first.target,
        bounds={"batch": (1, 16)},
        threads=1,
        decisions=DECISIONS,
        alternatives=others,
        structure=stored.STRUCTURES.get(version),
        unaligned=unaligned,
        ranges=stored.RANGES.get(version, ()),
    )
    (y,) = load(stored.path(version)).run(stored.X)
    np.save(stored.path(version).with_suffix(".npy"), y)
