"""Shapes of norms and element-wise functions with open extents, which traces need not compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import is_contiguous_for_memory_format_or_false
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

aten = torch.ops.aten


class KnownShapes:
    """While it is entered, results that are shaped as their first operand are told at once.

    PyTorch runs the decomposition of such an operator on symbols to find the shape of its result:
    a batch norm takes 20 ms. It is still asked where extents that must be equal are open, where
    memory has another order, and for everything else.
    """

    def __enter__(self) -> KnownShapes:
        """Begin."""
        self._original: Any = FakeTensorMode._dispatch_impl
        FakeTensorMode._dispatch_impl = _told(self._original)  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        FakeTensorMode._dispatch_impl = self._original  # type: ignore[method-assign]


def _told(original: Callable[..., Any]) -> Callable[..., Any]:
    def dispatch(mode: FakeTensorMode, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        tell = _RESULTS.get(func) if set(kwargs or ()) <= {"approximate"} else None
        x = args[0] if args else None
        if tell is not None and isinstance(x, FakeTensor) and _is_plain(mode, x):
            result = tell(mode, x, *args[1:])
            if result is not NotImplemented:
                return result
        return original(mode, func, types, args, kwargs)

    return dispatch


def _is_plain(mode: FakeTensorMode, x: FakeTensor) -> bool:
    """Return whether ``x`` holds floats and open extents, and has no value that is followed."""
    followed = mode.propagate_real_tensors or x.constant is not None
    return x.fake_mode is mode and x.is_floating_point() and _is_open(x) and not followed


def _is_open(x: Tensor) -> bool:
    return any(not isinstance(extent, int) for extent in x.shape)


def _empty(mode: FakeTensorMode, x: FakeTensor, shape: Sequence[Any], order: Any) -> FakeTensor:
    meta = torch.empty(shape, dtype=x.dtype, device="meta", memory_format=order)
    return FakeTensor(mode, meta, x.device)


def _elementwise(mode: FakeTensorMode, x: FakeTensor, *_: Any) -> Any:
    """Return the result of an element-wise function, which keeps the order of ``x``."""
    for order in (torch.contiguous_format, torch.channels_last):
        if is_contiguous_for_memory_format_or_false(x, memory_format=order):
            return _empty(mode, x, x.shape, order)
    return NotImplemented


def _itself(_mode: FakeTensorMode, x: FakeTensor, *_: Any) -> Any:
    """Return what an element-wise function writes its result into."""
    return x


def _batch_norm(mode: FakeTensorMode, x: FakeTensor, *parameters: Any) -> Any:
    """Return the result of a batch norm that is not trained, and its two empty tensors."""
    if x.ndim < 2 or not _are(parameters[:4], x, x.shape[1:2]):
        return NotImplemented
    result = _elementwise(mode, x)
    if result is NotImplemented:
        return NotImplemented
    return result, *(_empty(mode, x, (0,), torch.contiguous_format) for _ in range(2))


def _layer_norm(
    mode: FakeTensorMode, x: FakeTensor, last: Sequence[Any], weight: Any, bias: Any, *_: Any
) -> Any:
    """Return the result of a layer norm of the ``last`` extents, the means and the scales."""
    order, leading = torch.contiguous_format, x.ndim - len(last)
    here = leading >= 0 and last and _are((weight, bias), x, x.shape[leading:])
    if not here or list(x.shape[leading:]) != list(last):
        return NotImplemented
    if not is_contiguous_for_memory_format_or_false(x, memory_format=order):
        return NotImplemented
    means = (*x.shape[:leading], *(1 for _ in last))
    return tuple(_empty(mode, x, shape, order) for shape in (x.shape, means, means))


def _are(parameters: Sequence[Any], x: Tensor, shape: Sequence[Any]) -> bool:
    """Return whether each of ``parameters`` that is given has numbers like ``x`` in ``shape``."""
    return all(isinstance(extent, int) for extent in shape) and all(
        p is None or (p.dtype == x.dtype and tuple(p.shape) == tuple(shape)) for p in parameters
    )


_ELEMENTWISE = (
    "abs cos elu erf exp gelu hardsigmoid hardswish hardtanh leaky_relu log mish neg relu rsqrt"
    " sigmoid silu sin softplus sqrt tanh"
).split()

_RESULTS: dict[Any, Callable[..., Any]] = {
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
    aten.native_layer_norm.default: _layer_norm,
    **{getattr(aten, name).default: _elementwise for name in _ELEMENTWISE},
    **{getattr(aten, f"{n}_").default: _itself for n in _ELEMENTWISE if hasattr(aten, f"{n}_")},
}
"""By operator: its result, or NotImplemented where PyTorch is asked."""
