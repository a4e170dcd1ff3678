"""An error inside of a builder leaves nothing open, so that TVM tells stderr of nothing."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
from tvm import relax

from tvm_sparse.passes.graph.builders import blocks_ended


@pytest.mark.parametrize("nested", [False, True])
def test_blocks_are_ended(nested, capfd):
    def fail():
        owner = SimpleNamespace(builder_=None)
        x = relax.Var("x", relax.TensorType((2, 3), "float32"))
        with blocks_ended(owner):
            builder = owner.builder_ = relax.BlockBuilder()
            with builder.function("main", [x]), builder.dataflow():
                builder.emit(relax.op.exp(x))
                if nested:
                    builder._begin_binding_block()
                raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        fail()
    gc.collect()
    assert capfd.readouterr() == ("", "")


def test_blocks_of_success_are_left_alone():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with blocks_ended(builder), builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.exp(x)))
    assert [name.name_hint for name in builder.get().get_global_vars()] == ["main"]
