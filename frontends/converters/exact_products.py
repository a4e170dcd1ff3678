"""Products of integers and of float64, which TVM's converters would compute in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tvm import relax

from tvm_sparse.errors import InputError

_CONVOLUTIONS = {
    3: (relax.op.nn.conv1d, "NCW", "OIW"),
    4: (relax.op.nn.conv2d, "NCHW", "OIHW"),
    5: (relax.op.nn.conv3d, "NCDHW", "OIDHW"),
}
"""By number of axes: the operator and the layouts of its operands."""


def exact_product(
    env: dict[Any, Any], emit: Callable[[Any], Any], node: torch.fx.Node, place: str
) -> Any:
    """Emit the product that ``node`` is, in its own type, and return it.

    Parameters
    ----------
    env
        What the operands were imported as.
    emit
        Emits a Relax expression.
    node
        A product of matrices or a convolution.
    place
        Its layer, for an error.

    Raises
    ------
    InputError
        It is a transposed convolution.
    """
    dtype = str(node.meta["val"].dtype).removeprefix("torch.")
    name = str(node.target).removeprefix("aten.")
    operands = [env.get(a, a) if isinstance(a, torch.fx.Node) else a for a in node.args]
    if name == "convolution.default" and operands[6]:
        raise InputError(
            place, f"'{name}' of {dtype} cannot be imported", "float32 or less", "use model.float()"
        )
    if name == "convolution.default":
        return _convolution(emit, operands, dtype)
    if name == "addmm.default":
        bias, x, weight = operands
    else:
        x, weight, bias = (*operands, None)[:3]
    if name == "linear.default":
        weight = emit(relax.op.permute_dims(weight))
    product = emit(relax.op.matmul(x, weight, out_dtype=dtype))
    product = _times(emit, product, node.kwargs.get("alpha", 1), dtype)
    if bias is not None:
        bias = _times(emit, bias, node.kwargs.get("beta", 1), dtype)
    return product if bias is None else emit(relax.op.add(product, bias))


def _times(emit: Callable[[Any], Any], x: Any, factor: Any, dtype: str) -> Any:
    return x if factor == 1 else emit(relax.op.multiply(x, relax.const(factor, dtype)))


def _convolution(emit: Callable[[Any], Any], operands: list[Any], dtype: str) -> Any:
    x, weight, bias, strides, padding, dilation, _, _, groups = operands
    rank = len(x.ty.shape)
    operator, data, kernel = _CONVOLUTIONS[rank]
    result = emit(
        operator(
            x,
            weight,
            strides=list(strides),
            padding=list(padding),
            dilation=list(dilation),
            groups=groups,
            data_layout=data,
            kernel_layout=kernel,
            out_dtype=dtype,
        )
    )
    if bias is None:
        return result
    return emit(relax.op.add(result, emit(relax.op.reshape(bias, (1, -1, *[1] * (rank - 2))))))
