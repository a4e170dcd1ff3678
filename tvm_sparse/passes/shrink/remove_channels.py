"""Removed filters become smaller layers: outputs that nothing reads, inputs that are constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.notes import Notes
from tvm_sparse.machine.vector import LANES
from tvm_sparse.passes.graph.builders import blocks_ended
from tvm_sparse.passes.graph.convolution import CONVOLUTIONS, options_of
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import constant, layer_name, name_of, op_name, shape_of
from tvm_sparse.passes.shrink.channels import (
    ChannelFacts,
    constants_through,
    is_padded,
    read_columns,
    treatment_of,
    weight_matrix,
)

MULTIPLE = LANES
"""Kept channels are filled up to whole vectors: 51 channels run no faster than 64."""


class ChannelAnalysis:
    """Constants forward, ties and demand backward, over the bindings of one dataflow block."""

    def __init__(self, bindings: list[Any], outputs: list[Any]) -> None:
        self.values = {b.var: b.value for b in bindings}
        self.casts = {b.var: b.ty for b in bindings if isinstance(b, relax.MatchCast)}
        self.channels = ChannelFacts()
        for binding in bindings:
            self._forward(binding.var, binding.value)
        for var in outputs:
            self.channels.fix(var)
        for binding in reversed(bindings):
            self._backward(binding.var, binding.value)

    def value(self, expr: relax.Expr) -> Any:
        """Return what ``expr`` is bound to in this block."""
        return self.values.get(expr, expr)

    def treatment(self, expr: relax.Expr) -> str:
        """Return how a bound expression treats channels; numbers and open axes have none."""
        if not isinstance(expr, relax.Call):
            return ""
        shapes = [shape_of(x) for x in (expr, *expr.args[:1])]
        if not shapes[0] or not all(isinstance(shape[-1], int) for shape in shapes if shape):
            return ""
        return treatment_of(expr, self.value)

    def known(self, expr: relax.Expr, count: int) -> np.ndarray:
        """Return the known channel values of an operand as a vector of ``count``."""
        value = self.value(expr)
        if isinstance(value, GenericConst):
            array = array_of(value)
            vector = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
            same = (vector == vector[:1]).all(0)
            return np.broadcast_to(np.where(same, vector[0], np.nan), (count,)).astype(np.float64)
        return self.channels.known.get(expr, np.full(count, np.nan))

    def _forward(self, var: relax.Var, value: relax.Expr) -> None:
        treatment, shape = self.treatment(value), shape_of(var) or []
        if not treatment:
            return
        x = value.args[0]
        if treatment == "same":
            tensors = list(value.args) if op_name(value) in ELEMENTWISE else [x]
            operands = [self.known(a, shape[-1]) for a in tensors]
        else:
            weight = weight_matrix(value, array_of(self.value(value.args[1])))
            operands = [self.known(x, (shape_of(x) or [0])[-1]), weight]
        self.channels.known[var] = constants_through(value, treatment, operands, is_padded(value))

    def _backward(self, var: relax.Var, value: relax.Expr) -> None:
        channels, treatment = self.channels, self.treatment(value)
        if not treatment:
            for operand in _variables(value):
                channels.fix(operand)
            channels.fix(var)
            return
        if treatment in ("same", "depthwise"):
            for operand in _variables(value):
                channels.tie(var, operand)
            return
        x = value.args[0]
        weight = weight_matrix(value, array_of(self.value(value.args[1])))
        live = np.ones(len(weight), bool) if channels.group(var).fixed else channels.group(var).live
        needed = read_columns(weight, live) & ~self._constant(value, x)
        channels.group(x).live |= needed

    def _constant(self, call: relax.Call, x: relax.Expr) -> np.ndarray:
        """Return which input channels of a mixing operator are constant where it reads them."""
        known = self.known(x, (shape_of(x) or [0])[-1])
        return known == 0 if is_padded(call) else ~np.isnan(known)


def _variables(value: relax.Expr) -> list[Any]:
    """Return the variables that ``value`` reads, those inside nested tuples included."""
    return list(relax.analysis.free_vars(value))


@tvm.transform.module_pass(opt_level=0, name="RemoveChannels")
@dataclass(frozen=True)
class RemoveChannels:
    """Make layers with removed filters physically smaller, through all that they are tied to.

    before: ``conv2d(relu(conv2d(x, w1)), w2)`` with zero rows in ``w1`` or zero columns in ``w2``
    after:  the same with those rows and columns gone

    A channel goes when nothing reads it, or when it is a constant that can move into the bias of
    its readers. Residual additions, poolings and squeeze-excite tie tensors: they lose the same
    channels or none. Expects channels last. ``notes`` gets a phrase for each layer that shrank.
    """

    notes: Notes = field(default_factory=Notes)

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with smaller layers, or ``mod`` itself where nothing can go."""
        analysis = analyse(mod)
        if analysis is None:
            return mod
        channels = analysis.channels
        keep = {var: channels.keep(var, MULTIPLE) for var in analysis.values}
        if not any(
            not channels.group(var).fixed and len(kept) < len(channels.group(var).live)
            for var, kept in keep.items()
        ):
            return mod
        return Rebuild(analysis, self.notes, lambda var: channels.keep(var, MULTIPLE)).module(mod)


def analyse(mod: tvm.IRModule) -> ChannelAnalysis | None:
    """Return what is known of the channels of ``main``, if it is one dataflow block."""
    main = mod["main"]
    blocks = list(main.body.blocks)
    if len(blocks) != 1:
        return None
    bindings = list(blocks[0].bindings)
    return ChannelAnalysis(bindings, [*main.params, *_outputs(main.body.body, bindings)])


def _outputs(body: relax.Expr, bindings: list[Any]) -> list[Any]:
    values = {b.var: b.value for b in bindings}
    value = values.get(body, body)
    return [body, *(_variables(value) if isinstance(value, relax.Tuple) else [])]


class Rebuild:
    """Emits the function again with other channels; TVM infers the new shapes.

    ``keep`` returns the channels that a variable is to have, in the order that it is to have them.
    """

    def __init__(
        self, analysis: ChannelAnalysis, notes: Notes, keep: Callable[[Any], np.ndarray]
    ) -> None:
        self.analysis, self.notes, self.keep = analysis, notes, keep
        self.new: dict[Any, Any] = {}
        self.builder = relax.BlockBuilder()

    def module(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return ``mod`` with ``main`` emitted again."""
        main = mod["main"]
        params = list(main.params)
        function = self.builder.function("main", params, attrs=dict(main.attrs.items()))
        with blocks_ended(self.builder), function:
            with self.builder.dataflow():
                for var, value in self.analysis.values.items():
                    found, cast = self._smaller(var, value), self.analysis.casts.get(var)
                    builder = self.builder
                    self.new[var] = builder.match_cast(found, cast) if cast else builder.emit(found)
                out = self.builder.emit_output(self._of(main.body.body))
            self.builder.emit_func_output(out)
        func = self.builder.finalize()["main"]
        kept = {name: f for name, f in mod.functions_items() if name.name_hint != "main"}
        return tvm.IRModule({**kept, mod.get_global_var("main"): func}, attrs=mod.attrs)

    def _of(self, expr: relax.Expr) -> Any:
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self._of(field) for field in expr.fields])
        return self.new.get(expr, expr)

    def _smaller(self, var: relax.Var, value: relax.Expr) -> Any:
        treatment = self.analysis.treatment(value)
        if isinstance(value, relax.TupleGetItem):
            return relax.TupleGetItem(self._of(value.tuple_value), value.index)
        if not isinstance(value, relax.Call):
            return self._of(value)
        if treatment == "same":
            return self._same(var, value)
        if treatment:
            return self._layer(var, value, treatment)
        return relax.Call(value.op, [self._of(a) for a in value.args], value.attrs, value.ty_args)

    def _same(self, var: relax.Var, call: relax.Call) -> Any:
        keep = self.keep(var)
        if op_name(call) == "reshape":
            shape = [*(shape_of(call) or [])[:-1], len(keep)]
            return relax.op.reshape(self._of(call.args[0]), relax.ShapeExpr(shape))
        operands = [self._vector(a, keep) for a in call.args]
        return relax.Call(call.op, operands, call.attrs)

    def _vector(self, operand: relax.Expr, keep: np.ndarray) -> Any:
        value = self.analysis.value(operand)
        if not isinstance(value, GenericConst):
            return self._of(operand)
        array = array_of(value)
        if array.ndim == 0 or array.shape[-1] == 1:
            return value
        return constant(array[..., keep], name_of(value))

    def _layer(self, var: relax.Var, call: relax.Call, treatment: str) -> Any:
        x, weight = call.args[0], self.analysis.value(call.args[1])
        array, out, read = array_of(weight), self.keep(var), self.keep(x)
        features, columns = ((shape_of(v) or [0])[-1] for v in (var, x))
        inputs = (1, 1) if treatment == "depthwise" else (columns, len(read))
        self._note(layer_name(weight), (features, len(out)), inputs)
        if treatment == "depthwise":
            smaller = constant(_take(array, out, 0), name_of(weight))
            return self._convolution(call, x, smaller, groups=len(out))
        bias = self._moved_bias(call, x, array, out)
        if op_name(call) == "matmul":
            smaller = constant(_take(_take(array, read, 0), out, 1), name_of(weight))
            result = relax.op.matmul(self._of(x), smaller, out_dtype=str(call.ty.dtype))
        else:
            smaller = constant(_take(_take(array, out, 0), read, -1), name_of(weight))
            result = self._convolution(call, x, smaller)
        if not bias.any():
            return result
        shape = (1,) * (len(shape_of(call) or []) - 1) + (len(out),)
        return relax.op.add(self.builder.emit(result), constant(bias.reshape(shape)))

    def _convolution(self, call: relax.Call, x: relax.Expr, weight: Any, **options: Any) -> Any:
        """Return ``call`` of the new ``x``, with another weight and other ``options``."""
        operator = CONVOLUTIONS[op_name(call)].operator
        return operator(self._of(x), weight, **options_of(call) | options)

    def _moved_bias(
        self, call: relax.Call, x: relax.Expr, array: np.ndarray, out: np.ndarray
    ) -> np.ndarray:
        """Return what removed constant inputs added to each kept output."""
        known = self.analysis.known(x, (shape_of(x) or [0])[-1])
        gone = np.ones(len(known), bool)
        gone[self.keep(x)] = False
        total = weight_matrix(call, array)[:, :, gone].sum(1, dtype=np.float64)[out]
        return (total @ np.nan_to_num(known[gone])).astype(str(call.ty.dtype))

    def _note(self, layer: str, outputs: tuple[int, int], inputs: tuple[int, int]) -> None:
        """Remember how many of the outputs and inputs of ``layer`` are kept, if not all."""
        parts = [
            f"{before - after} of {before} {what}"
            for what, (before, after) in (("outputs", outputs), ("inputs", inputs))
            if after < before
        ]
        if parts:
            self.notes.add(layer, f"{' and '.join(parts)} removed")


def _take(array: np.ndarray, kept: np.ndarray, axis: int) -> np.ndarray:
    """Return the ``kept`` entries of an axis; ``array`` itself where these are all, in order."""
    return array if np.array_equal(kept, np.arange(array.shape[axis])) else array.take(kept, axis)
