"""Columns at constant places, as resizing and borders read them, become shuffles of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.memory import array_of
from tvm_sparse.ops.tensors.near_columns import chunks_of, near_columns
from tvm_sparse.ops.tensors.windows import Chunk
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, static_shape


@dataclass(frozen=True)
class Take:
    """The rule; ``uses`` and ``values`` are how often a variable is read, and what it is bound to.

    before: ``take(take(x, rows, axis=-2), columns, axis=-1)`` --> after: one function, in any order
    """

    uses: dict[Any, int]
    values: dict[Any, Any]

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Return a call of our function, ``None`` where TVM's definition stays."""
        places = _places(call)
        if places is None:
            return None
        inner: Any = self.values.get(rewriter.original.args[0])
        pair = {_axis(call): call, _axis(inner): inner} if _places(inner) is not None else {}
        if self.uses.get(rewriter.original.args[0]) == 1 and pair.keys() == {-2, -1}:
            chunks = _chunks(pair[-1])
            if chunks is not None:
                columns, rows = _places(pair[-1]) or [], pair[-2].args[1]
                source = rewriter.visit_expr(inner.args[0])
                return rewriter.builder_.call_te(
                    lambda x, r: near_columns(x, columns, chunks, r),
                    *(source, rows),
                    primfunc_name_hint="take",
                )
        chunks = _chunks(call)
        if chunks is None:
            return None
        return rewriter.builder_.call_te(
            lambda x: near_columns(x, places, chunks), call.args[0], primfunc_name_hint="take"
        )


def _places(call: Any) -> list[int] | None:
    """Return the places along an axis of a static tensor that a call reads, if they are known."""
    if op_name(call) != "take" or not isinstance(call.args[1], GenericConst):
        return None
    index, shape = array_of(call.args[1]), static_shape(call.args[0])
    if index.ndim != 1 or not shape or call.attrs.axis is None or str(call.ty.dtype) == "bool":
        return None
    places = [int(place) for place in index]
    return places if all(0 <= place < shape[_axis(call)] for place in places) else None


def _axis(call: relax.Call) -> int:
    """Return the axis that is read, counted from behind."""
    rank = len(call.args[0].ty.shape)
    return int(call.attrs.axis) % rank - rank


def _chunks(call: relax.Call) -> list[Chunk] | None:
    """Return how shuffles read the places of ``call``, if they can, and these are columns."""
    shape = static_shape(call.args[0])
    return chunks_of(_places(call) or [], shape[-1]) if shape and _axis(call) == -1 else None
