"""Functions of PyTorch that make numbers of open extents, in forms that leave them open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.overrides import TorchFunctionMode

from tvm_sparse.frontends.decompositions.recurrent import RECURRENT


class OpenForms(TorchFunctionMode):
    """While it is entered, what takes an open extent for a number is written otherwise.

    before: ``torch.linspace(0, 1, n)`` --> after: ``0 + arange(n) * (1 / (n - 1))``
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, or what has its result and leaves extents open."""
        write = _FORMS.get(func)
        result = NotImplemented if write is None else write(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if result is NotImplemented else result


def _is_open(*extents: Any) -> bool:
    return any(isinstance(extent, torch.SymInt) for extent in extents)


def _recurrent(cell: str) -> Callable[..., Any]:
    def write(x: Tensor, states: Any, weights: Any, *options: Any) -> Any:
        packed = not isinstance(weights, list | tuple)
        if packed or not _is_open(*x.shape[:2]):
            return NotImplemented
        return RECURRENT[cell](x, states, weights, *options)

    return write


def _one_hot(x: Tensor, num_classes: Any = -1) -> Any:
    if not _is_open(num_classes):
        return NotImplemented
    return (x.unsqueeze(-1) == torch.arange(num_classes, device=x.device)).long()


def _linspace(start: Any, end: Any, steps: Any, *, dtype: Any = None, **options: Any) -> Any:
    """Return what PyTorch does: its second half is counted from the end."""
    if not _is_open(steps) or isinstance(start, Tensor) or isinstance(end, Tensor):
        return NotImplemented
    places = torch.arange(steps, device=options.get("device"))
    step = (end - start) / torch.sym_max(steps - 1, 1)
    front, back = start + places * step, end - (steps - 1 - places) * step
    half = torch.sym_max(steps // 2, 1)  # a single place is the start
    return torch.where(places < half, front, back).to(dtype or torch.get_default_dtype())


def _whole(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """Return what writes a pooling of whole planes, whose kernel is their extents, or one."""

    def write(
        x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, *rest: Any, **named: Any
    ) -> Any:
        kernel = kernel_size if isinstance(kernel_size, tuple | list) else [kernel_size] * 2
        others = padding, stride, *rest, *named.values()
        if not _is_open(*kernel) or any(map(_is_set, others)):
            return NotImplemented
        planes = x.shape[-len(kernel) :]
        whole = [_is_same(size, n) for size, n in zip(kernel, planes, strict=True)]
        if not all(same or size == 1 for same, size in zip(whole, kernel, strict=True)):
            return NotImplemented
        return reduce(x, [axis - len(kernel) for axis, same in enumerate(whole) if same], True)

    return write


def _is_same(size: Any, extent: Any) -> bool:
    return bool(statically_known_true(size == extent))


def _is_set(option: Any) -> bool:
    """Whether an option of a pooling is another one than a dilation of one, or none."""
    values = option if isinstance(option, tuple | list) else [option]
    return any(value not in {None, False, 0, 1} for value in values)


def _line(x: Tensor, kernel_size: Any, stride: Any = None, *rest: Any, **named: Any) -> Any:
    """Pool a line as a plane of one row: PyTorch makes a number of the length of a line."""
    if not _is_open(x.shape[-1]) or named.get("return_indices"):
        return NotImplemented
    options = dict(zip(("padding", "dilation", "ceil_mode"), rest, strict=False)) | named
    options.pop("return_indices", None)
    window, step = _number(kernel_size), _number(stride if _is_given(stride) else kernel_size)
    across = {"padding": (0, 0), "dilation": (1, 1)}
    for name in across.keys() & options.keys():
        options[name] = (across[name][0], _number(options[name]))
    return F.max_pool2d(x.unsqueeze(-2), (1, window), (1, step), **options).squeeze(-2)


def _number(option: Any) -> Any:
    return option[0] if isinstance(option, tuple | list) else option


def _is_given(stride: Any) -> bool:
    return stride is not None and stride not in ((), [])


_FORMS: dict[Any, Callable[..., Any]] = {
    torch.lstm: _recurrent("lstm"),
    torch.gru: _recurrent("gru"),
    torch.rnn_tanh: _recurrent("rnn_tanh"),
    torch.rnn_relu: _recurrent("rnn_relu"),
    torch.linspace: _linspace,
    F.one_hot: _one_hot,
    F.max_pool1d: _line,
    torch.max_pool1d: _line,
    F.avg_pool2d: _whole(torch.mean),
    F.max_pool2d: _whole(torch.amax),
    torch.max_pool2d: _whole(torch.amax),
}
"""By function: what writes it, or ``NotImplemented`` where no extent that it asks for is open."""
