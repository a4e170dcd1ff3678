"""PadFirst: a table is of padded bytes, so that the layer in front of it can write the borders."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.kernels import host
from tests.passes.modules import operators
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.ops.marks import PADDING
from tvm_sparse.passes.bytes.pad_first import PadFirst
from tvm_sparse.passes.bytes.tabulate_bytes import look_up
from tvm_sparse.passes.graph.padding import pad, padding_of

SHAPE, WIDTHS = (1, 5, 6, 16), (1, 0, 2, 1)
TABLE = np.random.default_rng(0).permutation(256).astype(np.uint8)
X = np.resize(np.random.default_rng(1).permutation(256), SHAPE).astype(np.uint8)


def tabled(value, dtypes=("uint8", "uint8"), table=TABLE, also=()):
    """Return a module that pads what ``table`` has for the sum of an input with itself.

    It hands out what is padded, and ``also`` the sum or what is found.
    """
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, dtypes[0]))
    rewriter = SimpleNamespace(builder_=builder)
    with builder.function("main", [x]):
        with builder.dataflow():
            total = builder.emit(relax.op.add(x, x))
            found = look_up(rewriter, total, table, dtypes[1], machine_of(host()))
            results = {
                "total": total,
                "found": found,
                "padded": pad(rewriter, found, (*WIDTHS, value)),
            }
            outputs = [builder.emit_output(results[name]) for name in (*also, "padded")]
        builder.emit_func_output(outputs)
    return relax.transform.CanonicalizeBindings()(builder.finalize())


def padded_by(mod, x):
    """Run ``main``; return what it pads."""
    vm = relax.VirtualMachine(tvm.compile(mod, target=host()), tvm.cpu())
    return vm["main"](tvm.runtime.tensor(x))[-1].numpy()


def paddings(mod):
    """Return what each call of ``main`` pads with, in order."""
    calls = [binding.value for binding in mod["main"].body.blocks[0].bindings]
    return [padding_of(mod, call) for call in calls if isinstance(call, relax.Call)]


@pytest.mark.grid
@pytest.mark.parametrize("source", ["uint8", "int8"])
@pytest.mark.parametrize(("found", "value"), [("uint8", 0), ("uint8", 200), ("int8", -3)])
def test_bytes_are_padded_with_one_whose_entry_is_the_borders(source, found, value):
    before = tabled(value, (source, found))
    after = PadFirst(machine_of(host()))(before)
    byte = int(np.flatnonzero(TABLE == np.uint8(value % 256))[0])
    expected = (*WIDTHS, int(np.uint8(byte).view(source)))
    assert [p for p in paddings(after) if p] == [expected]
    assert paddings(after)[-1] is None  # the table comes last
    x = X.view(source)
    np.testing.assert_array_equal(padded_by(after, x), padded_by(before, x))


def test_a_value_that_no_byte_has_stays_around_what_is_found():
    before = tabled(3, table=np.where(TABLE == 3, 4, TABLE).astype(np.uint8))
    assert paddings(PadFirst(machine_of(host()))(before)) == paddings(before)


@pytest.mark.parametrize("also", ["total", "found"])
def test_what_others_read_too_stays(also):
    before = tabled(3, also=(also,))
    after = PadFirst(machine_of(host()))(before)
    assert paddings(after) == paddings(before)
    assert operators(after) == operators(before)


def test_the_mark_of_padding_is_kept():
    (padded,) = [f for f in tabled(3).functions.values() if PADDING in (f.attrs or {})]
    assert [int(n) for n in padded.attrs[PADDING]] == [*WIDTHS, 3]
