"""assemble: what calls the kernels is machine code, and a profile sees its steps all the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tvm_sparse.passes.finish.assemble import MAIN, STEPPED, assemble, seen

FLAG = relax.TensorType((), "bool")


def functions(library):
    """Return the functions of the virtual machine that have code of its own."""
    text = library.executable.mod["as_text"]()
    return [line[1:-1] for line in text.splitlines() if line.startswith("@") and line[-1] == ":"]


def test_main_is_machine_code_with_the_same_steps():
    model, x = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64)), torch.randn(3, 64)
    library = ts.compile(model.eval(), (x,), config=ts.Config(measure=False))
    assert functions(library) == [STEPPED]
    vm = relax.VirtualMachine(library.executable, tvm.cpu())
    arguments = [tvm.runtime.tensor(a) for a in (x.numpy(), *library.weights.values())]
    first, second = (vm[name](*arguments).numpy() for name in (MAIN, STEPPED))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, model(x).detach().numpy(), atol=1e-5)


def test_a_symbolic_extent_is_read_from_the_input():
    model, x = nn.Sequential(nn.Linear(64, 32), nn.Softmax(-1)).eval(), torch.randn(5, 64)
    shapes = ({0: torch.export.Dim("rows", min=2, max=64)},)
    library = ts.compile(model, (x,), dynamic_shapes=shapes, config=ts.Config(measure=False))
    assert functions(library) == [STEPPED]
    for rows in (2, 5, 64):
        x = torch.randn(rows, 64)
        np.testing.assert_allclose(library(x.numpy()), model(x).detach().numpy(), atol=1e-6)


class Chosen(nn.Module):
    """One of two sums, as its input says."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


@pytest.mark.filterwarnings("ignore")
def test_both_branches_of_a_model_are_computed_in_machine_code():
    x = torch.ones(3, 64)
    library = ts.compile(Chosen(), (x,), config=ts.Config(measure=False))
    assert functions(library) == [STEPPED]
    for value in (x, -x):
        np.testing.assert_array_equal(library(value.numpy()), Chosen()(value).numpy())


def test_a_branch_of_relax_is_the_virtual_machines():
    builder = relax.BlockBuilder()
    tensor = relax.TensorType((3,), "float32")
    with builder.function(MAIN, [x := relax.Var("x", tensor), c := relax.Var("c", FLAG)]):
        yes, no = (relax.SeqExpr([], value) for value in (x, relax.op.negative(x)))
        builder.emit_func_output(builder.emit(relax.If(c, yes, no)))
    target = tvm.target.Target("llvm")
    steps = [relax.get_pipeline("default_build")]
    executable = assemble(builder.finalize(), target, steps)
    vm = relax.VirtualMachine(executable, tvm.cpu())
    assert seen(vm) == MAIN
    value = np.arange(3, dtype="f4")
    for flag, found in ((True, value), (False, -value)):
        got = vm[MAIN](tvm.runtime.tensor(value), tvm.runtime.tensor(np.array(flag)))
        np.testing.assert_array_equal(got.numpy(), found)
