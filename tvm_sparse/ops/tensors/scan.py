"""Running sums, products, extrema and logarithms of sums along an axis."""

from __future__ import annotations

import math
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.tensors.axis import Lines, on_axis, variable
from tvm_sparse.ops.tensors.scan_columns import ColumnScan


def scan(x: te.Tensor, axis: int, *, product: bool, dtype: str, exclusive: bool) -> te.Tensor:
    """Return the sums (or products) of the elements up to each one, ``exclusive``: before it.

    Floating-point numbers are added in float64, one after another, as PyTorch does; for lines of
    fp32 side by side see :class:`~tvm_sparse.ops.tensors.scan_columns.ColumnScan`.
    """
    lines = Lines.of(x.shape, on_axis(x, axis))
    wide = "float64" if "float" in dtype else dtype

    name = "cumprod" if product else "cumsum"
    inner = x.shape[on_axis(x, axis) + 1 :]
    columns = math.prod(map(int, inner)) if all(isinstance(e, tirx.IntImm) for e in inner) else 1
    if columns > 1:
        side = ColumnScan(lines, columns, wide, dtype, product, exclusive)

        def beside(inputs: Any, outputs: Any) -> Any:
            return side.emitted(inputs[0], outputs[0])

        return te.extern([x.shape], [x], beside, name=name, dtype=dtype)

    def emit(inputs: Any, outputs: Any) -> Any:
        source, result = T.buffer_proxy(inputs[0]), T.buffer_proxy(outputs[0])
        with IRBuilder() as builder, T.parallel(0, lines.count) as line:
            total = variable(wide)
            total[0] = tirx.const(1 if product else 0, wide)
            with T.serial(0, lines.extent) as i:
                place = lines.place(line, i)
                if exclusive:
                    result[place] = total[0].astype(dtype)
                value = source[place].astype(wide)
                total[0] = total[0] * value if product else total[0] + value
                if not exclusive:
                    result[place] = total[0].astype(dtype)
        return builder.get()

    return te.extern([x.shape], [x], emit, name=name, dtype=dtype)


def running_extremes(x: te.Tensor, axis: int, *, largest: bool) -> list[te.Tensor]:
    """Return the extreme of the elements up to each one, and the last place where it was met.

    NaN is an extreme, and stays one.
    """
    lines, dtype = Lines.of(x.shape, on_axis(x, axis)), str(x.dtype)

    def emit(inputs: Any, outputs: Any) -> Any:
        source, values, places = (T.buffer_proxy(b) for b in (*inputs, *outputs))
        with IRBuilder() as builder, T.parallel(0, lines.count) as line:
            best, met, value = variable(dtype), variable("int64"), variable(dtype)
            with T.serial(0, lines.extent) as i:
                value[0] = source[lines.place(line, i)]
                beyond = value[0] >= best[0] if largest else value[0] <= best[0]
                number = tirx.LE(value[0], value[0])
                with T.If(tirx.Select(number, tirx.any(i == 0, beyond), tirx.const(True, "bool"))):
                    with T.Then():
                        best[0], met[0] = value[0], tirx.Cast("int64", i)
                values[lines.place(line, i)] = best[0]
                places[lines.place(line, i)] = met[0]
        return builder.get()

    dtypes = [dtype, "int64"]
    return te.extern([x.shape, x.shape], [x], emit, name="running_extremes", dtype=dtypes)


def log_sums(x: te.Tensor, axis: int) -> te.Tensor:
    """Return the logarithm of the sum of the exponentials up to each element, in float64 inside."""
    lines, dtype = Lines.of(x.shape, on_axis(x, axis)), str(x.dtype)

    def emit(inputs: Any, outputs: Any) -> Any:
        source, result = T.buffer_proxy(inputs[0]), T.buffer_proxy(outputs[0])
        with IRBuilder() as builder, T.parallel(0, lines.count) as line:
            total, value = variable("float64"), variable("float64")
            total[0] = tirx.const(float("-inf"), "float64")
            with T.serial(0, lines.extent) as i:
                value[0] = tirx.Cast("float64", source[lines.place(line, i)])
                larger = tirx.Select(value[0] > total[0], value[0], total[0])
                apart = tirx.abs(total[0] - value[0])
                joined = larger + tirx.log(tirx.exp(apart * -1.0) + 1.0)
                equal = tirx.all(value[0] >= total[0], value[0] <= total[0])
                same = value[0] + tirx.const(math.log(2), "float64")
                total[0] = tirx.Select(equal, same, joined)
                result[lines.place(line, i)] = tirx.Cast(dtype, total[0])
        return builder.get()

    return te.extern([x.shape], [x], emit, name="log_sums", dtype=dtype)
