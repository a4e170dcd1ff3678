"""Pooling of whole planes, of lines, and to a fraction of each extent, where these are open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tvm_sparse.frontends.program.open_table import is_open, is_same, rewrites


def _whole(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """Return what writes a pooling of whole planes, whose kernel is their extents, or one."""

    def write(
        x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, *rest: Any, **named: Any
    ) -> Any:
        kernel = kernel_size if isinstance(kernel_size, tuple | list) else [kernel_size] * 2
        others = padding, stride, *rest, *named.values()
        if not is_open(*kernel) or any(map(_is_set, others)):
            return NotImplemented
        planes = x.shape[-len(kernel) :]
        whole = [is_same(size, n) for size, n in zip(kernel, planes, strict=True)]
        if not all(same or size == 1 for same, size in zip(whole, kernel, strict=True)):
            return NotImplemented
        return reduce(x, [axis - len(kernel) for axis, same in enumerate(whole) if same], True)

    return write


def _is_set(option: Any) -> bool:
    """Whether an option of a pooling is another one than a dilation of one, or none."""
    values = option if isinstance(option, tuple | list) else [option]
    return any(value not in {None, False, 0, 1} for value in values)


@rewrites("max_pool1d", "nn.functional.max_pool1d")
def _line(x: Tensor, kernel_size: Any, stride: Any = None, *rest: Any, **named: Any) -> Any:
    """Pool a line as a plane of one row: PyTorch makes a number of the length of a line."""
    if not is_open(x.shape[-1]) or named.get("return_indices"):
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


rewrites("nn.functional.avg_pool2d")(_whole(torch.mean))
rewrites("nn.functional.max_pool2d", "max_pool2d")(_whole(torch.amax))


def _shares(pool: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """Return what writes an adaptive pooling whose windows are whole: ``(h // 2, w // 2)``."""

    def write(x: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        given = output_size if isinstance(output_size, tuple | list) else [output_size] * rank
        if return_indices or not is_open(*given):
            return NotImplemented
        windows = [_share(n, size) for n, size in zip(x.shape[-rank:], given, strict=True)]
        return NotImplemented if 0 in windows else pool(x, windows, windows)

    return write


def _share(extent: Any, outputs: Any) -> int:
    """Return of how many elements each of the ``outputs`` is, 0 if these are no equal shares.

    They have to be equal at every size: PyTorch says which multiples an extent may be.
    """
    if outputs is None:
        return 1
    known, count = (getattr(getattr(n, "node", None), "hint", n) for n in (extent, outputs))
    if not count or known % count:
        return 0
    share = known // count
    return share if bool(extent == share * outputs) else 0


for _rank in (1, 2, 3):
    _average = getattr(F, f"avg_pool{_rank}d")
    _maximum = getattr(F, f"max_pool{_rank}d") if _rank > 1 else _line
    rewrites(f"nn.functional.adaptive_avg_pool{_rank}d")(_shares(_average, _rank))
    rewrites(f"nn.functional.adaptive_max_pool{_rank}d")(_shares(_maximum, _rank))
