"""The program for a whole batch: its parts go through the network one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx

from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.tensors.concatenate import concatenate
from tvm_sparse.passes.graph.builders import blocks_ended
from tvm_sparse.passes.shrink.split_batch import EACH, parts_of


@tvm.transform.module_pass(opt_level=0, name="CallParts")
@dataclass(frozen=True)
class CallParts:
    """Make ``main`` again what :class:`SplitBatch` made it the part of.

    before: ``main(x: (1, ...), w)``, parts = 16 --> after: ``part(x: (1, ...), w)`` and
    ``main(x: (16, ...), w): concat(part(take_part(x, 0), w), ..., part(take_part(x, 15), w))``

    Inputs are copied part by part: kernels want tensors that begin where their memory begins.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with a ``main`` for the whole batch."""
        main = mod["main"]
        parts = parts_of(mod)
        if parts in (1, EACH):
            return mod
        inputs = int(main.attrs["num_input"])
        others = {name: f for name, f in mod.functions_items() if name.name_hint != "main"}
        builder = relax.BlockBuilder(tvm.IRModule(others, attrs=mod.attrs))
        part = builder.add_func(private(main), "part")
        params = [relax.Var(p.name, _times(parts, p.ty)) for p in main.params[:inputs]]
        weights = [relax.Var(p.name, p.ty) for p in main.params[inputs:]]
        takers = [
            builder.add_func(taker(p.ty, parts * int(p.ty.shape.values[0])), "take_part")
            for p in main.params[:inputs]
        ]
        function = builder.function("main", [*params, *weights], attrs={"num_input": inputs})
        with blocks_ended(builder), function:
            with builder.dataflow():
                results = []
                for index in int64(tuple(range(parts))):
                    taken = [
                        builder.emit(relax.call_tir(take, [x, index], out_ty=small.ty))
                        for take, x, small in zip(takers, params, main.params, strict=False)
                    ]
                    results.append(builder.emit(relax.Call(part, [*taken, *weights])))
                out = builder.emit_output(_joined(builder, results, main.ret_ty))
            builder.emit_func_output(out)
        return builder.get()


def private(main: relax.Function) -> relax.Function:
    """Return ``main`` as a function that only its module calls."""
    for name in list(main.attrs.keys()):
        main = main.without_attr(name)
    return main


def _times(parts: int, ty: Any) -> Any:
    """Return the type of ``parts`` such tensors joined."""
    first, *rest = ty.shape.values
    return relax.TensorType([int(first) * parts, *rest], ty.dtype)


def taker(ty: Any, batch: Any) -> tirx.PrimFunc:
    """Return ``f(X, index, Y)``, which copies part ``index`` of a ``batch`` of items to ``Y``."""
    shape, dtype = list(ty.shape.values), str(ty.dtype)
    x = te.placeholder([batch, *shape[1:]], dtype, name="X")
    index = tirx.Var("index", "int64")
    y = te.compute(shape, lambda first, *rest: x(index * shape[0] + first, *rest), name="Y")
    return te.create_prim_func([x, index, y]).without_attr("global_symbol")


def _joined(builder: relax.BlockBuilder, results: list[Any], ty: Any) -> Any:
    """Return the results of all parts, tensors or tuples of them, joined along their batch."""
    if isinstance(ty, relax.TupleType):
        fields = enumerate(ty.fields)
        return relax.Tuple(
            [
                _joined(builder, [builder.emit(relax.TupleGetItem(r, i)) for r in results], field)
                for i, field in fields
            ]
        )
    return builder.emit(
        builder.call_te(
            lambda *pieces: concatenate(pieces, 0), *results, primfunc_name_hint="join_parts"
        )
    )
