"""Running sums and products on GPUs: a thread block goes along its lines, tile by tile."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.tensors.axis import Lines, on_axis, variable

THREADS = 256
"""Threads of a block."""

_SIDE = 8
"""Lines side by side of a block: in fp32 they are the 32 bytes that memory gives at a time."""


def scan(x: te.Tensor, axis: int, *, product: bool, dtype: str, exclusive: bool) -> te.Tensor:
    """Return the sums (or products) of the elements up to each one, ``exclusive``: before it.

    A tile has as many elements as there are threads along a line. Each thread adds what is 1, 2, 4,
    … elements before it, in two copies of the tile by turns [1]_. Floating-point numbers are
    added in float64.

    .. [1] W. Hillis, G. Steele: Data parallel algorithms. CACM 29 (12), 1986.
    """
    lines = Lines.of(x.shape, on_axis(x, axis))
    tile = _Tile(lines, "float64" if "float" in dtype else dtype, product)

    def emit(inputs: Any, outputs: Any) -> Any:
        source, result = T.buffer_proxy(inputs[0]), T.buffer_proxy(outputs[0])
        with (
            IRBuilder() as builder,
            T.thread_binding(0, tirx.ceildiv(lines.count, tile.side), "blockIdx.x") as block,
            T.thread_binding(0, tile.along, "threadIdx.y") as along,
            T.thread_binding(0, tile.side, "threadIdx.x") as aside,
        ):
            copies, total = tile.copies(), variable(tile.dtype)
            total[0] = tile.neutral
            with T.serial(0, tirx.ceildiv(lines.extent, tile.along)) as step:
                line, i = block * tile.side + aside, step * tile.along + along
                inside = tirx.all(line < lines.count, i < lines.extent)
                value = variable(tile.dtype)
                value[0] = tile.neutral
                with T.If(inside), T.Then():
                    value[0] = source[lines.place(line, i)].astype(tile.dtype)
                found = tile.scanned(copies, value[0], along, aside)
                value[0] = found[along, aside]
                if exclusive:
                    value[0] = tile.neutral
                    with T.If(along > 0), T.Then():
                        value[0] = found[along - 1, aside]
                with T.If(inside), T.Then():
                    result[lines.place(line, i)] = tile.joined(total[0], value[0]).astype(dtype)
                total[0] = tile.joined(total[0], found[tile.along - 1, aside])
                _wait()
        return builder.get()

    name = "cumprod" if product else "cumsum"
    return te.extern([x.shape], [x], emit, name=name, dtype=dtype)


class _Tile:
    """So many elements ``along`` so many lines side by side, one a thread."""

    def __init__(self, lines: Lines, dtype: str, product: bool) -> None:
        alone = isinstance(lines.after, int | tirx.IntImm) and int(lines.after) == 1
        self.side, self.dtype, self.product = 1 if alone else _SIDE, dtype, product
        self.along = THREADS // self.side
        if isinstance(lines.extent, tirx.IntImm):
            self.along = min(self.along, 1 << (int(lines.extent) - 1).bit_length())
        self.neutral = tirx.const(1 if product else 0, dtype)

    def copies(self) -> list[Any]:
        """Return two copies of the tile in shared memory."""
        shape = [self.along, self.side]
        return [T.buffer_proxy(T.decl_buffer(shape, self.dtype, scope="shared")) for _ in range(2)]

    def joined(self, earlier: Any, later: Any) -> Any:
        """Return the sum or product of two."""
        return earlier * later if self.product else earlier + later

    def scanned(self, copies: list[Any], value: Any, along: Any, aside: Any) -> Any:
        """Emit the scan of the threads' values; return the copy that holds the results."""
        here, there = copies
        here[along, aside] = value
        _wait()
        distance = 1
        while distance < self.along:
            there[along, aside] = here[along, aside]
            with T.If(along >= distance), T.Then():
                earlier = here[along - distance, aside]
                there[along, aside] = self.joined(earlier, here[along, aside])
            _wait()
            here, there, distance = there, here, 2 * distance
        return here


def _wait() -> None:
    """Emit a barrier of the thread block."""
    T.evaluate(tirx.call_intrin("void", "tirx.tvm_storage_sync", "shared"))
