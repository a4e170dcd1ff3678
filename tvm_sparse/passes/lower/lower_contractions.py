"""Linear layers and convolutions with constant weights become calls of our operators."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.freed import give_back
from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT32, INTEGER_SUMS, INTEGERS, Numerics
from tvm_sparse.machine.engine.registry import known, supported
from tvm_sparse.ops.bytes.quantize import padded
from tvm_sparse.ops.contractions.contraction import OPEN_ROWS, Contraction
from tvm_sparse.ops.contractions.planes import planes_shapes
from tvm_sparse.ops.contractions.recurrence import recurrence
from tvm_sparse.passes.bytes.quantization import cast
from tvm_sparse.passes.bytes.quantized import (
    Integers,
    integers_of,
    signed_bytes,
    state_steps,
    whole_integers_of,
)
from tvm_sparse.passes.bytes.weight_steps import Steps
from tvm_sparse.passes.canonical.hoist_elementwise import HoistElementwise
from tvm_sparse.passes.graph.computed_extents import at_extents, in_own_symbols, item_at
from tvm_sparse.passes.graph.convolution import (
    CONVOLUTIONS,
    convolution,
    is_channels_last,
    numerics_of,
    repeated,
)
from tvm_sparse.passes.graph.padding import pad, sides
from tvm_sparse.passes.graph.recurrences import recurrent_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    call_function,
    constant,
    count_uses,
    layer_name,
    name_of,
    op_name,
    rewrite,
    shape_of,
)
from tvm_sparse.passes.lower.abilities import CPU, Abilities
from tvm_sparse.passes.lower.channels_first import before_transpositions, first_to_last, planes_of
from tvm_sparse.passes.lower.products import LAYOUTS, constant_operands
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.in_floats import Kind
from tvm_sparse.selection.layer import Layer

OPERATORS = ("matmul", *CONVOLUTIONS)
"""What the pass looks at; the chooser's ``done`` is called after each call of one."""


def count_contractions(mod: tvm.IRModule) -> int:
    """Return how many calls :class:`LowerContractions` is going to look at."""
    found: list[bool] = []

    def look(expr: relax.Expr) -> None:
        found.append(op_name(expr) in OPERATORS or recurrent_of(expr) is not None)

    for _name, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func.body, look)
    return sum(found)


class _Lower:
    """The rule; remembers the choice of each weight, so that a shared weight is packed once."""

    def __init__(self, chooser: Chooser, can: Abilities, mod: tvm.IRModule) -> None:
        self.chooser, self.can = chooser, can
        self.products = can.products(chooser, count_uses(mod["main"]))
        self.turned = before_transpositions(mod) if can.channels_first else {}
        self.planes: set[str] = set()
        self.choices: dict[tuple[str, str], list[tuple[np.ndarray, Candidate, list[Any]]]] = {}

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        name = op_name(call)
        if name in LAYOUTS:
            return self.products.layout(rewriter, call)
        if name not in (*OPERATORS, "call_pure_packed"):
            return None
        if name == "call_pure_packed":
            lowered = self._recurrence(rewriter, call)
        elif name == "matmul":
            lowered = self._linear(rewriter, call)
        else:
            lowered = self._convolution(rewriter, call) if is_channels_last(call) else None
        self.chooser.done()
        return lowered

    def _linear(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        weight = rewriter.constant(call.args[1])
        x_shape = shape_of(call.args[0])
        if weight is None or len(shape_of(weight) or ()) != 2:
            for name, matrix, reason in constant_operands(rewriter, call):
                self.chooser.leave(name, "linear", matrix, reason)
            return self.products.lower(rewriter, call)
        if x_shape is None:
            return None
        if len(x_shape) == 1:
            row = rewriter.emit(relax.op.reshape(call.args[0], [1, x_shape[0]]))
            product = relax.op.matmul(row, call.args[1], out_dtype=str(call.ty.dtype))
            product = rewriter.emit(product)
            return relax.op.reshape(
                rewriter.emit(self._linear(rewriter, rewriter.resolve(product))), call.ty.shape
            )
        value = array_of(weight)
        columns, features = value.shape
        lead = in_own_symbols(x_shape[:-1])
        integers = self._integers(rewriter, call, layer_name(weight), value.T)
        numerics = FLOAT32 if integers else self._numerics(call, weight, "linear")
        if numerics is None:
            return None
        examples = at_extents(x_shape[:-1], self.chooser.extents)
        contraction = Contraction(lead, columns, features, numerics=numerics, examples=examples)
        matrix = integers.weight if integers else value.T
        layer = Layer(layer_name(weight), "linear", contraction, matrix)
        return self._emit(rewriter, call, weight, layer, integers or call.args[0])

    def _convolution(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        weight, shape = rewriter.constant(call.args[1]), shape_of(call)
        name = op_name(call).removeprefix("nn.")
        if weight is None or shape is None:
            return self.can.computed_weights(rewriter, call, self.chooser.target)
        value, groups, rank = array_of(weight), int(call.attrs.groups), len(call.attrs.strides)
        integers = self._integers(rewriter, call, layer_name(weight), value)
        if integers is None and self._numerics(call, weight, name) is None:
            return None
        x = integers.x if integers else call.args[0]
        padding = [int(p) for p in call.attrs.padding]
        outside = self.can.reads_outside and (integers is None or integers.zero_is_zero)
        borders = tuple(padding[:rank]) if outside and any(padding) else ()
        x = x if borders else _pad(rewriter, x, padding, integers)
        x = repeated(rewriter, x, value.shape, groups, shuffles=self.can.shuffles)
        widened = layer_name(weight) in self.chooser.widened
        static = not self.can.open_planes
        contraction = convolution(call, x, value.shape, borders, guarded=widened, static=static)
        if contraction is None:
            return None
        examples = item_at(shape[:-1], self.chooser.extents)
        contraction = replace(contraction, examples=examples)
        depthwise = contraction.depthwise
        if rank not in self.can.depthwise if depthwise else groups > 1 and not self.can.groups:
            reason = f"{groups} groups of {value.shape[-1]} channels: no operator of ours"
            self.chooser.leave(layer_name(weight), name, value, reason)
            return None
        operator, joined = "depthwise" if depthwise else name, groups // contraction.groups
        moved = np.moveaxis(integers.weight if integers else value, -1, 1)
        layer = Layer(layer_name(weight), operator, contraction, moved, 1 if depthwise else joined)
        if integers or rewriter.original not in self.turned:
            operand = replace(integers, x=x) if integers else x
            return self._emit(rewriter, call, weight, layer, operand)
        return self._on_planes(rewriter, call, weight, layer, x)

    def _on_planes(
        self, rewriter: Rewriter, call: relax.Call, weight: Any, layer: Layer, x: Any
    ) -> Any:
        """Emit ``layer`` on what ``x`` is channels first, if that is best, and a transposition."""
        found = planes_of(rewriter, call, layer.contraction)
        if found is None:
            return self._emit(rewriter, call, weight, layer, x)
        source, planes = found
        layer = replace(layer, planes=planes, skips_transpose=self.turned[rewriter.original])
        candidate, arrays = self._packed(weight, layer)
        c = candidate.planes
        if c is None:
            return self._emit(rewriter, call, weight, layer, x)
        hint = f"{layer.operator}_{candidate.name}"
        (before, after), on_a_line = planes_shapes(c), len(c.taps) < len(call.attrs.strides)
        source = rewriter.emit(relax.op.reshape(source, before)) if on_a_line else source
        kind = relax.TensorType(after, c.out_dtype)
        first = call_function(rewriter, candidate.func, [source, *arrays], kind, hint)
        self.planes.add(first.args[0].name_hint)
        last = relax.op.permute_dims(rewriter.emit(first), first_to_last(len(c.taps)))
        return relax.op.reshape(rewriter.emit(last), call.ty.shape) if on_a_line else last

    def _recurrence(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Make one function of all steps, around the operator that suits the state's product."""
        found = recurrent_of(call)
        if found is None:
            return None
        weight, r = rewriter.constant(found.weight), found.record.in_own_symbols
        value, meaning = array_of(weight), []
        steps = state_steps(value, self.chooser.target) if r.rounded else None
        if isinstance(steps, Steps):
            r, value = replace(r, numerics=INTEGERS[0]), steps.integers.astype(INTEGERS[0].weight)
            meaning = [constant(steps.sizes), constant(value.sum(1, dtype=INTEGER_SUMS))]
        elif steps is not None:
            said = f"floats, though the state is rounded: {steps}"
            self.chooser.notes.add(layer_name(weight), said)
        typical = r.steps if isinstance(r.steps, int) else OPEN_ROWS
        layer = Layer(layer_name(weight), "linear", r.product, value, times=typical)
        candidate, arrays = self._packed(weight, layer)
        given = [found.gates, *arrays, *meaning, *([found.bias] if r.bias else []), *found.states]
        hint = f"{found.cell}_{candidate.name}" + f"_{r.numerics.activation}" * r.integers
        func = recurrence(r, candidate.func)
        result = rewriter.emit(call_function(rewriter, func, given, found.types, hint))
        return result if len(found.types) > 1 else relax.Tuple([result])

    def _numerics(self, call: relax.Call, weight: Any, operator: str) -> Numerics | None:
        """Return what ``call`` computes with, ``None`` (and why) if no operator of ours does."""
        numerics, target = numerics_of(call), self.chooser.target
        if supported(numerics, target):
            return numerics
        types = ", ".join(dict.fromkeys(found.activation for found in known(target)))
        reason = f"{numerics.weight} weights: operators of ours are {types}"
        if numerics.weight in types.split(", "):
            reason = f"{numerics}: no operator of ours"
        self.chooser.leave(layer_name(weight), operator, array_of(weight), reason)
        return None

    def _integers(
        self, rewriter: Rewriter, call: relax.Call, name: str, value: np.ndarray
    ) -> Integers | None:
        """Return the operands of a quantized layer, ``None`` (and why) if it stays in floats."""
        grouped = op_name(call) != "matmul" and int(call.attrs.groups) > 1
        find = whole_integers_of if str(call.ty.dtype) == INTEGER_SUMS else integers_of
        by_row = op_name(call) == "matmul"
        found = find(rewriter, call.args[0], value, self.chooser.target, by_row=by_row)
        lacks = isinstance(found, Integers) and grouped and not self.can.grouped_bytes
        if isinstance(found, Integers) and not lacks:
            return found
        if found:
            reason = Kind.GROUPS.reason if lacks else found
            said = f"{call.args[1].ty.dtype}, though its input is quantized: {reason}"
            self.chooser.notes.add(name, said)
        if lacks:
            self.chooser.decisions.in_floats.note(Kind.GROUPS, name)
        return None

    def _emit(self, rewriter: Rewriter, call: relax.Call, weight: Any, layer: Layer, x: Any) -> Any:
        """Emit ``layer`` on ``x``, a tensor or :class:`Integers`."""
        if not isinstance(x, Integers):
            candidate, arrays = self._packed(weight, layer)
            hint = f"{layer.operator}_{candidate.name}"
            return call_function(rewriter, candidate.func, [x, *arrays], call.ty, hint)
        contraction = x.contraction(layer.contraction)
        ty = relax.TensorType(call.ty.shape, contraction.out_dtype)
        sums, places = list[Any](), self.chooser.decisions.places
        for i, part in enumerate(signed_bytes(layer.weight)):
            rest = ".rest" * i
            piece = replace(layer, name=layer.name + rest, contraction=contraction, weight=part)
            if layer.name in places:
                places[piece.name] = places[layer.name]
            candidate, arrays = self._packed(weight, piece, rest)
            hint = f"{layer.operator}_{candidate.name}_{x.dtype}"
            sums.append(
                rewriter.emit(call_function(rewriter, candidate.func, [x.x, *arrays], ty, hint))
            )
        meant = x.meaning(rewriter, functools.reduce(relax.op.add, sums))
        return meant if x.factors is None else cast(rewriter, meant, str(call.ty.dtype))

    def _packed(self, weight: Any, layer: Layer, rest: str = "") -> tuple[Candidate, list[Any]]:
        """Choose and pack a weight, or its ``rest``, once, however often the network reads it."""
        name, value = name_of(weight) + rest, array_of(weight)
        known = self.choices.setdefault((name, str((layer.contraction, layer.planes))), [])
        for seen, candidate, arrays in known:
            if np.shares_memory(seen, value) or np.array_equal(seen, value):
                return candidate, arrays
        choice = self.chooser.choose(layer)
        give_back()
        arrays = [
            constant(packed, f"{name}.{part}" if name_of(weight) else "")
            for part, packed in choice.arrays.items()
        ]
        known.append((value, choice.candidate, arrays))
        return choice.candidate, arrays


def _pad(rewriter: Rewriter, x: Any, padding: list[int], integers: Integers | None) -> Any:
    """Return channels-last ``x`` with what means zero before all spatial axes and behind them."""
    if not any(padding):
        return x
    if integers is None or integers.zero is None:
        return pad(rewriter, x, (*padding, integers.zero_point if integers else 0))
    before, after = sides(padding)
    return rewriter.builder_.emit_te(
        lambda t, z: padded(t, z, before, after), x, integers.zero, primfunc_name_hint="pad"
    )


@tvm.transform.module_pass(opt_level=0, name="LowerContractions")
@dataclass(frozen=True)
class LowerContractions:
    """Replace contractions by packed weights and our operators, as the chooser decides.

    before: ``matmul(x, w)`` --> after: ``call_tir(linear_balanced, (x, values, indices))``
    """

    chooser: Chooser
    can: Abilities = CPU

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module; the decisions are in the chooser."""
        rule = _Lower(self.chooser, self.can, mod)
        lowered = rewrite(mod, rule)
        hoist = [HoistElementwise(frozenset(rule.planes))] if rule.planes else []
        return tvm.transform.Sequential(hoist)(lowered)
