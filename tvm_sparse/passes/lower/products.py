"""Products of two activations become calls of our operator, layouts around them part of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import INTEGER_SUMS, Numerics
from tvm_sparse.machine.engine.registry import IN_PRODUCTS, supported_singly
from tvm_sparse.ops.contractions.batch_matmul import View, batch_matmul
from tvm_sparse.ops.cuda.product import product
from tvm_sparse.passes.bytes.byte_products import (
    beside_in_columns,
    byte_operands,
    byte_product,
    centre_of,
    meant_sums,
    summable,
    turned,
)
from tvm_sparse.passes.bytes.quantization import Meaning
from tvm_sparse.passes.canonical.left_products import MATRIX
from tvm_sparse.passes.graph.computed_extents import at_extents, with_extents
from tvm_sparse.passes.graph.convolution import numerics_of
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    call_function,
    layer_name,
    name_of,
    op_name,
    shape_of,
)
from tvm_sparse.passes.graph.views import Names, Seen, Shape, named, seen, step_of, whole
from tvm_sparse.passes.shrink.group_products import ZEROS
from tvm_sparse.passes.shrink.unfold_lines import MOST_COLUMNS
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.cuda.product_choice import UNKNOWN, bytes_pay, product_tile
from tvm_sparse.selection.in_floats import Kind

LAYOUTS = ("reshape", "permute_dims")
"""What a product of two activations does while it stores, where nothing else reads its result."""

Views: TypeAlias = tuple[View, View, View]
"""How a product of two activations sees its operands, and how its result is seen."""

Made: TypeAlias = tuple[Views, Numerics, Names]
"""A product of ours: its views, what it computes with, and the names of computed extents."""


class Products:
    """The products of two activations of one function, lowered for the target, a CPU."""

    in_floats = Kind.OPEN_PRODUCTS
    """What quantized ones are that multiply no bytes."""

    def __init__(self, chooser: Chooser, uses: dict[Any, int]) -> None:
        self.target, self.extents, self.uses = chooser.target, chooser.extents, uses
        self.note = chooser.decisions.in_floats.note_product
        self.made: dict[tvm.ir.GlobalVar, Made] = {}

    def lower(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Lower a product of two activations, of their bytes where they are quantized."""
        if (integers := self.of_bytes(rewriter, call)) is not None:
            return integers
        if byte_operands(rewriter, call) is not None:
            self.note(self.in_floats, [shape_of(operand) or () for operand in call.args])
        return self._of_numbers(rewriter, call)

    def _of_numbers(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Lower a product of two activations; transposes before it are read in place."""
        output = tuple(shape_of(call) or ())
        views = (seen(rewriter, x, symbols=True, quotients=False) for x in call.args)
        left, right = views
        least = min(len(shape_of(operand) or ()) for operand in call.args)
        if left is None or right is None or not output or least < MATRIX:
            return None
        shapes = [output, *left[0].shapes, *right[0].shapes]
        names: Names = []
        if not all(isinstance(extent, int) for shape in shapes for extent in shape):
            found = named(output, left, right) or named(output, *map(whole, call.args))
            if found is None:
                return None
            output, (left, right), names = found
        return self.of_views(rewriter, call, (left, right), output, names)

    def of_bytes(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Lower a product of quantized activations; ``None`` if it is none."""
        return byte_product(rewriter, call, self.target)

    def of_views(
        self,
        rewriter: Rewriter,
        call: relax.Call,
        both: tuple[Seen, Seen],
        output: Shape,
        names: Names,
    ) -> Any | None:
        """Lower the product of two views; ``None`` if no operator of ours has it."""
        numerics, (left, right) = numerics_of(call), both
        if not supported_singly(numerics, self.target):
            return None
        made = (left[0], right[0], View(output)), numerics, names
        return self._product(rewriter, call, made, [left[1], right[1]])

    def _product(
        self, rewriter: Rewriter, call: relax.Call, made: Made, operands: list[Any]
    ) -> Any:
        """Emit a product of two activations that has the result of ``call``."""
        views, numerics, names = made
        # Extents as what is computed behind it has them: else TVM would not fuse the two.
        func = with_extents(batch_matmul(*views, self.target, numerics), names)
        product = call_function(rewriter, func, operands, call.ty, "matmul")
        self.made[product.args[0]] = made
        return product

    def layout(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Let a product write its rows where ``call``, the only reader, puts them."""
        if self.uses.get(rewriter.original.args[0]) != 1:
            return None
        product, shape = rewriter.resolve(call.args[0]), tuple(shape_of(call) or ())
        made = self.made.get(product.args[0]) if op_name(product) == "call_tir" else None
        step = step_of(rewriter, call, shape) if made and shape else None
        if made is None or step is None:
            return None
        (left, right, output), numerics, names = made
        output = View(output.shape, (*output.steps, step))
        if not output.keeps_rows():
            return None
        made = (left, right, output), numerics, names
        return self._product(rewriter, call, made, list(product.args[1].fields[:2]))


class TiledProducts(Products):
    """The same for a GPU: its thread blocks compute tiles."""

    in_floats = Kind.PRODUCTS

    def of_bytes(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Lower a product of quantized activations of any extents; ``None`` if it is none."""
        operands = byte_operands(rewriter, call)
        if operands is None or not summable(*operands):
            return None
        left, right = (operand.bytes for operand in operands)
        beside = beside_in_columns(rewriter, right)
        if not self._pays(call, operands, beside=beside):
            self.note(Kind.SHORT_PRODUCTS, [shape_of(left) or (), shape_of(right) or ()])
            return self._of_numbers(rewriter, call)
        right = right if beside else turned(rewriter, right)
        product = relax.op.matmul(left, right, out_dtype=INTEGER_SUMS)
        sums = self._of_numbers(rewriter, rewriter.builder_.normalize(product))
        return None if sums is None else meant_sums(rewriter, call, operands, rewriter.emit(sums))

    def _pays(self, call: relax.Call, operands: tuple[Meaning, Meaning], *, beside: bool) -> bool:
        """Whether bytes are modelled faster than floats, unless the model adds up bytes itself."""
        floats, centre = numerics_of(call), centre_of(operands)
        left, right = (self._known(operand.bytes) for operand in operands)
        more = [math.prod(left)] if centre.of_rows else []
        more += [math.prod(right)] if centre.of_columns else []
        more += [] if beside else [2 * math.prod(right)]
        types = operands[0].scale.dtype, operands[1].scale.dtype
        both = Numerics(*types, INTEGER_SUMS, floats.output), floats
        size, items = (left[-2], right[-1], left[-1]), math.prod(left[:-2])
        return not floats.floating or bytes_pay(size, items, both, more, self.target)

    def _known(self, operand: Any) -> tuple[int, ...]:
        """Return extents: of open ones, those of the examples."""
        shape = shape_of(operand) or []
        found = at_extents(shape, self.extents)
        return found or tuple(e if isinstance(e, int) else UNKNOWN for e in shape)

    def of_views(
        self,
        rewriter: Rewriter,
        call: relax.Call,
        both: tuple[Seen, Seen],
        output: Shape,
        names: Names,
    ) -> Any | None:
        """Lower the product of two views; ``None`` if no tile has it."""
        numerics, (left, right), (*lead, rows, features) = numerics_of(call), both, output
        size = (rows, features, left[0].shapes[-1][-1])
        if numerics not in IN_PRODUCTS or 0 in {*lead, *size}:
            return None
        tile = product_tile(size, tuple(lead), numerics, self.target)
        if tile is None:
            return None
        func = with_extents(product(left[0], right[0], tuple(lead), numerics, tile), names)
        return call_function(rewriter, func, [left[1], right[1]], call.ty, "matmul")


def constant_operands(
    rewriter: Rewriter, call: relax.Call
) -> Iterator[tuple[str, np.ndarray, str]]:
    """Yield the named constants that a product reads where they lie, and why no format has them.

    These are the layer's name and its matrices, features first.
    """
    for place, side in enumerate(("left operand", "matrices of a batch")):
        weight = rewriter.constant(call.args[place])
        if weight is None or not name_of(weight) or len(shape_of(weight) or ()) < MATRIX:
            continue
        value = array_of(weight)
        value = value if place == 0 else value.swapaxes(-1, -2)
        zeros = 1 - np.count_nonzero(value) / value.size
        short = "writing its result takes as long as multiplying"
        odd = short if value.shape[-1] <= MOST_COLUMNS else "no convolution has its extents"
        why = "few zeros" if zeros < ZEROS else odd
        yield layer_name(weight), value, f"{side}, {why}: multiplied as activations are"
