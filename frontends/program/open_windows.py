"""Windows of open planes that do not overlap, taken apart and joined again by views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tvm_sparse.frontends.program.open_table import is_open, rewrites


@rewrites("nn.functional.unfold")
def _unfold(x: Tensor, kernel_size: Any, *rest: Any, **named: Any) -> Any:
    """Return the elements of each window, ``(n, c * kh * kw, windows)``.

    before: ``F.unfold(x, 2, stride=2)`` --> after: ``x.unflatten(3, (w // 2, 2)).unflatten(...)``

    PyTorch looks every element up, and asks whether there is one window along an axis. What is
    left behind the last whole window is in none.
    """
    if not is_open(*x.shape[-2:]) or not _are_apart(kernel_size, rest, named):
        return NotImplemented
    rows, columns = _pair(kernel_size)
    height, width = x.shape[-2] // rows, x.shape[-1] // columns
    for count in (height, width):
        torch._check(count >= 1, lambda: "a plane of one window or more")
    whole = x.narrow(-2, 0, height * rows).narrow(-1, 0, width * columns)
    windows = whole.unflatten(-1, (width, columns)).unflatten(-3, (height, rows))
    return windows.movedim((-3, -1), (-4, -3)).flatten(-2).flatten(-4, -2)


@rewrites("nn.functional.fold", of_multiples=False)
def _fold(x: Tensor, output_size: Any, kernel_size: Any, *rest: Any, **named: Any) -> Any:
    """Return the plane, ``(n, c, h, w)``, of which ``x`` has the windows; zero behind them.

    Views of an example with one window along an axis serve no other one. For plain axes another
    example is found; of multiples, PyTorch's own function tells which sizes have one window.
    """
    size = _pair(output_size)
    if not is_open(*size) or not _are_apart(kernel_size, rest, named):
        return NotImplemented
    rows, columns = _pair(kernel_size)
    height, width = size[0] // rows, size[1] // columns
    torch._check(x.shape[-1] == height * width, lambda: "as many windows as the plane has")
    windows = x.unflatten(-1, (height, width)).unflatten(-3, (-1, rows, columns))
    joined = windows.movedim((-4, -3), (-3, -1)).flatten(-2).flatten(-3, -2)
    return F.pad(joined, (0, size[1] - width * columns, 0, size[0] - height * rows))


def _are_apart(kernel_size: Any, rest: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether each element is in one window at most: windows begin where others end."""
    default = {"dilation": 1, "padding": 0, "stride": 1}
    options = {**default, **dict(zip(default, rest, strict=False)), **named}
    dilation, padding, stride = map(_pair, options.values())
    kernel = _pair(kernel_size)
    return not is_open(*kernel) and kernel == stride and (dilation, padding) == ((1, 1), (0, 0))


def _pair(option: Any) -> tuple[Any, Any]:
    rows, columns = option if isinstance(option, tuple | list) else (option, option)
    return rows, columns
