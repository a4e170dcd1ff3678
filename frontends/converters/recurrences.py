"""The operator that recurrent layers are imported as: all steps behind the product of all inputs.

PyTorch's own decompositions write each step out. This operator stays whole until a pass decides.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.converters.affine_bytes import rounded_dynamically
from tvm_sparse.frontends.converters.operators import converter, emit
from tvm_sparse.ops.contractions.cells import CELLS, Functions
from tvm_sparse.passes.graph.recurrences import Recurrent

_LIBRARY = torch.library.Library("tvm_sparse", "FRAGMENT")
_LIBRARY.define(
    "recurrence(Tensor gates, Tensor weight, Tensor[] states, Tensor? bias, str cell, bool reverse,"
    " bool batch_first, bool rounded) -> Tensor[]"
)

_FUNCTIONS = Functions(
    torch.sigmoid, torch.tanh, torch.relu, lambda first, a, b: torch.where(first > 0, a, b)
)


@torch.library.impl(_LIBRARY, "recurrence", "CompositeExplicitAutograd")
def recurrence(  # noqa: PLR0917 (as many as the operator has)
    gates: Tensor,
    weight: Tensor,
    states: list[Tensor],
    bias: Tensor | None,
    cell: str,
    reverse: bool,
    batch_first: bool,
    rounded: bool,
) -> list[Tensor]:
    """Return the hidden states of all steps, and the other states behind the last one.

    Parameters
    ----------
    gates
        The products of all inputs, biases included: (steps, batch, gates * hidden), or the batch
        first.
    weight
        (gates * hidden, hidden).
    states
        (batch, hidden) each, the hidden state first.
    bias
        (gates * hidden,), added to the product of the hidden state.
    cell
        A key of :data:`~tvm_sparse.ops.contractions.cells.CELLS`.
    rounded
        Whether the product of the hidden state reads what its bytes mean, with a scale that each
        state has itself.
    """
    letters, step = CELLS[cell].gates, CELLS[cell].step
    rows = list(gates.unbind(int(batch_first)))
    for t in range(len(rows))[:: -1 if reverse else 1]:
        read = rounded_dynamically(states[0]) if rounded else states[0]
        own = torch.nn.functional.linear(read, weight, bias)
        inputs, products = (
            dict(zip(letters, v.chunk(len(letters), -1), strict=True)) for v in (rows[t], own)
        )
        states = step(_FUNCTIONS, inputs, products, states)
        rows[t] = states[0]
    return [torch.stack(rows, int(batch_first)), *states[1:]]


@torch.library.register_fake("tvm_sparse::recurrence")
def _shapes(gates: Tensor, weight: Tensor, states: list[Tensor], *_: Any) -> list[Tensor]:
    every = gates.new_empty((*gates.shape[:2], weight.shape[1]))
    return [every, *map(torch.empty_like, states[1:])]


@converter("recurrence.default")
def _recurrence(importer: Any, node: torch.fx.Node) -> Any:
    gates, weight, states, bias, cell, *flags = importer.retrieve_args(node)
    layer = Recurrent(cell, gates, weight, list(states), bias, *flags)
    return emit(importer, layer.call())
