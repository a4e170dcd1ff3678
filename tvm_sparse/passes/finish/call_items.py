"""The program for an open batch: its items go through the network one after another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import ir, relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.emit import lanes_from
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.tensors.axis import flat_view
from tvm_sparse.passes.finish.call_parts import private, taker
from tvm_sparse.passes.shrink.split_batch import EACH, parts_of

TAKE, PUT = "take_part", "put_part"
"""Names of what copies an item of an input, and into an output."""


@tvm.transform.module_pass(opt_level=0, name="CallItems")
@dataclass(frozen=True)
class CallItems:
    """Make ``main`` again what ``SplitOpenBatch`` made it an item of.

    before: ``main(x: (1, ...), w)``, parts = each --> after: ``part(x: (1, ...), w)``,
    ``main(x: (n, ...), w): n > 1 ? items(x, empty(n, ...), (0, n), w) : part(x, w)`` and
    ``items(x, y, (first, end), w): end - first < 2 ? put_part(part(take_part(x, first), w), y,
    first) : items(x, items(x, y, first half, w), second half, w)``

    The virtual machine has no loops; halves of halves are as deep as the logarithm of the batch.
    Items are copied: kernels want tensors that begin where their memory begins.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with a ``main`` for the whole batch."""
        if parts_of(mod) != EACH:
            return mod
        main = mod["main"]
        inputs = int(main.attrs["num_input"])
        others = {name: f for name, f in mod.functions_items() if name.name_hint != "main"}
        builder = relax.BlockBuilder(tvm.IRModule(others, attrs=mod.attrs))
        items = _Items(builder, main, inputs)
        name, function = items.recursion()
        whole = ir.GlobalVar("main")
        functions = dict(builder.get().functions_items()) | {name: function}
        functions[whole] = items.main(name).with_attr("global_symbol", "main")
        return relax.transform.Normalize()(tvm.IRModule(functions, attrs=mod.attrs))


class _Items:
    """Makes the functions around the one for an item."""

    def __init__(self, builder: relax.BlockBuilder, main: relax.Function, inputs: int) -> None:
        self.item, self.several = main, isinstance(main.ret_ty, relax.TupleType)
        self.inputs, self.weights = main.params[:inputs], main.params[inputs:]
        self.outputs = list(main.ret_ty.fields) if self.several else [main.ret_ty]
        batch = tirx.Var("n", "int64")
        self.part = builder.add_func(private(main), "part")
        self.takers = [builder.add_func(taker(p.ty, batch), TAKE) for p in self.inputs]
        self.putters = [builder.add_func(_putter(ty), PUT) for ty in self.outputs]
        self.makers = [builder.add_func(_nothing(ty), "empty") for ty in self.outputs]
        self.larger = builder.add_func(_larger(), "larger")

    def params(self, batch: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Return new variables for inputs, outputs and weights."""
        inputs = [relax.Var(p.name, _batched(p.ty, batch)) for p in self.inputs]
        outputs = [relax.Var(f"y{i}", _batched(ty, batch)) for i, ty in enumerate(self.outputs)]
        return inputs, outputs, [relax.Var(p.name, p.ty) for p in self.weights]

    def result(self, batch: Any) -> Any:
        """Return the type of all outputs for a batch."""
        return relax.TupleType([_batched(ty, batch) for ty in self.outputs])

    def recursion(self) -> tuple[ir.GlobalVar, relax.Function]:
        """Return ``items(inputs, outputs, (first, end), weights)`` and its name."""
        batch, first, end = (tirx.Var(name, "int64") for name in ("n", "first", "end"))
        inputs, outputs, weights = self.params(batch)
        between = relax.Var("between", relax.ShapeType([first, end]))
        params, ty = [*inputs, *outputs, between, *weights], self.result(batch)
        name = ir.GlobalVar("items")
        relax.expr._update_type(name, relax.FuncType([p.ty for p in params], ty))
        middle = first + tirx.floordiv(end - first, 2)

        def half(given: list[Any], begin: Any, stop: Any) -> Any:
            return relax.Call(name, [*inputs, *given, relax.ShapeExpr([begin, stop]), *weights])

        def fields(var: relax.Var) -> list[Any]:
            return [relax.TupleGetItem(var, i) for i in range(len(outputs))]

        earlier, both = relax.Var("earlier", ty), relax.Var("both", ty)
        halves = [
            relax.VarBinding(earlier, half(outputs, first, middle)),
            relax.VarBinding(both, half(fields(earlier), middle, end)),
        ]
        one = self._one(inputs, outputs, weights, first)
        several = relax.SeqExpr([relax.BindingBlock(halves)], both)
        body = self._choice((tirx.const(2, "int64"), end - first), one, several, ty)
        return name, relax.Function(params, body, ty)

    def _choice(
        self, numbers: tuple[Any, Any], larger: relax.SeqExpr, other: relax.SeqExpr, ty: Any
    ) -> relax.SeqExpr:
        """Return the first value where one of two numbers is larger than the second."""
        condition, chosen = _Bindings(), relax.Var("chosen", ty)
        truth = relax.TensorType((), "bool")
        is_larger = condition.bind(relax.call_tir(self.larger, [*numbers], out_ty=truth), truth)
        condition.all.append(relax.VarBinding(chosen, relax.If(is_larger, larger, other)))
        return condition.giving(chosen)

    def _one(
        self, inputs: list[Any], outputs: list[Any], weights: list[Any], index: Any
    ) -> relax.SeqExpr:
        """Return the outputs with those of one item in them."""
        steps = _Bindings()
        taken = [
            steps.bind(relax.call_tir(take, [x, index], out_ty=p.ty), p.ty)
            for take, x, p in zip(self.takers, inputs, self.inputs, strict=True)
        ]
        found = self._found(steps, taken, weights)
        results = [
            steps.bind(relax.op.call_tir_inplace(put, [one, y, index], [1], y.ty), y.ty)
            for put, one, y in zip(self.putters, found, outputs, strict=True)
        ]
        return steps.giving(relax.Tuple(results))

    def _found(self, steps: _Bindings, inputs: list[Any], weights: list[Any]) -> list[Any]:
        """Bind what an item becomes, and return its outputs."""
        found = steps.bind(relax.Call(self.part, [*inputs, *weights]), self.item.ret_ty)
        if not self.several:
            return [found]
        fields = enumerate(self.outputs)
        return [steps.bind(relax.TupleGetItem(found, i), ty) for i, ty in fields]

    def main(self, items: ir.GlobalVar) -> relax.Function:
        """Return the function for a batch: of one item, its tensors are the item's."""
        batch, zero, one = tirx.Var("n", "int64"), *(tirx.const(i, "int64") for i in range(2))
        inputs, outputs, weights = self.params(batch)
        ty, several, alone, none = self.result(batch), _Bindings(), _Bindings(), _Bindings()

        def empty(steps: _Bindings) -> list[Any]:
            made = zip(self.makers, outputs, strict=True)
            return [steps.bind(relax.call_tir(make, [], out_ty=y.ty), y.ty) for make, y in made]

        between = relax.ShapeExpr([zero, batch])
        call = relax.Call(items, [*inputs, *empty(several), between, *weights])
        pairs = zip(inputs, self.inputs, strict=True)
        item = [alone.bind(_viewed(x, p.ty), p.ty) for x, p in pairs]
        found = zip(self._found(alone, item, weights), outputs, strict=True)
        results = [alone.bind(_viewed(value, y.ty), y.ty) for value, y in found]
        rest = self._choice(
            (batch, zero),
            alone.giving(relax.Tuple(results)),
            none.giving(relax.Tuple(empty(none))),
            ty,
        )
        body = self._choice((batch, one), several.giving(several.bind(call, ty)), rest, ty)
        if not self.several:
            body = relax.SeqExpr(body.blocks, relax.TupleGetItem(body.body, 0))
            ty = ty.fields[0]
        attrs = tvm.ir.make_node("ir.DictAttrs", num_input=len(inputs))
        return relax.Function([*inputs, *weights], body, ty, attrs=attrs)


class _Bindings:
    """What is bound one after another in a branch."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def bind(self, value: Any, ty: Any) -> relax.Var:
        """Bind a value of a type to a new variable and return that."""
        self.all.append(relax.VarBinding(relax.Var(f"v{len(self.all)}", ty), value))
        return self.all[-1].var

    def giving(self, result: Any) -> relax.SeqExpr:
        """Return the bindings with their result."""
        return relax.SeqExpr([relax.BindingBlock(self.all)], result)


def _viewed(x: Any, ty: Any) -> Any:
    """Return ``x`` with another shape of as many elements."""
    return relax.op.memory.view(x, relax.ShapeExpr(list(ty.shape.values)))


def _batched(ty: Any, batch: Any) -> Any:
    """Return the type of a batch of such items."""
    return relax.TensorType([batch, *list(ty.shape.values)[1:]], ty.dtype)


def _putter(ty: Any) -> tirx.PrimFunc:
    """Return ``f(X, Y, index)``, which copies an item to its place in ``Y``."""
    shape, dtype = tuple(int(extent) for extent in ty.shape.values), str(ty.dtype)
    size, index, batch = math.prod(shape), tirx.Var("index", "int64"), tirx.Var("n", "int64")
    lanes = math.gcd(size, LANES)
    x = te.placeholder(int64(shape), dtype, name="X")

    def emit(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder, T.serial(0, tirx.const(size // lanes, "int64")) as vector:
            one, all_ = flat_view(inputs[0], size), flat_view(outputs[0], batch * size)
            place = lanes_from(index * size + vector * lanes, lanes)
            all_[place] = one[lanes_from(vector * lanes, lanes)]
        return builder.get()

    y = te.extern([[batch, *int64(shape[1:])]], [x], emit, name="put", dtype=dtype)
    func = te.create_prim_func([x, y, index])
    return func.with_attr("tirx.noalias", True).without_attr("global_symbol")


def _larger() -> tirx.PrimFunc:
    """Return ``f(a, b, larger)``, which tells whether ``a`` is larger than ``b``."""
    a, b = tirx.Var("a", "int64"), tirx.Var("b", "int64")
    larger = te.compute((), lambda: a > b, name="larger")
    return te.create_prim_func([a, b, larger]).without_attr("global_symbol")


def _nothing(ty: Any) -> tirx.PrimFunc:
    """Return ``f(Y)``, which leaves its memory as it is."""
    shape, dtype = tuple(int(extent) for extent in ty.shape.values), str(ty.dtype)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"tirx.noalias": True})
        T.arg("Y", T.Buffer([tirx.Var("n", "int64"), *int64(shape[1:])], dtype))
        T.evaluate(tirx.const(0, "int64"))
    return builder.get()
