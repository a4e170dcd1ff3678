"""The casts of ``torch.autocast("cuda")`` for tensors on a CPU: kernels of PyTorch's dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet, _dispatch_has_kernel_for_dispatch_key
from torch.utils import _pytree as pytree

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.program.cuda_policies import POLICIES, Policy

_KEY = "AutocastCPU"
_CASTS = DispatchKeySet(DispatchKey.AutocastCPU)
_TODO = "convert the model instead (model.half()), or compute this operator outside of autocast"


def kernels() -> torch.library.Library:
    """Let ``torch.autocast("cpu")`` cast as ``torch.autocast("cuda")`` does, until destroyed.

    An operator that CUDA's autocast casts without a known policy, and one that it refuses, raise
    :class:`UnsupportedError`. Operators that only a CPU's autocast casts are left as they are.
    """
    library = torch.library.Library("aten", "IMPL")
    for name in sorted(_names()):
        library.impl(name.removeprefix("aten::"), _kernel(name), _KEY)
    return library


def _names() -> set[str]:
    """Return the operators that some autocast casts."""
    aten = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
    cast = {
        name
        for name in aten
        for key in (_KEY, "AutocastCUDA")
        if _dispatch_has_kernel_for_dispatch_key(name, key)
    }
    return cast | ({f"aten::{name}" for name in POLICIES} & set(aten))


def _kernel(name: str) -> Callable[..., Any]:
    short = name.removeprefix("aten::")
    policy = POLICIES.get(short)
    if policy is None and not _dispatch_has_kernel_for_dispatch_key(name, "AutocastCUDA"):
        return torch.library.fallthrough_kernel
    packet, _, overload = short.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if policy is None or policy is Policy.BANNED:
            raise UnsupportedError(f"operator '{short}'", "in autocast of 'cuda'", todo=_TODO)
        with torch._C._ExcludeDispatchKeyGuard(_CASTS):
            if policy is Policy.SINGLE_RESULT:
                return op(**_single_result(op, args, kwargs))
            args, kwargs = _cast((args, kwargs), policy)
            return op(*args, **kwargs)

    return kernel


def _eligible(value: Any) -> bool:
    """Whether autocast casts ``value``: a tensor of floats, but not of doubles."""
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return floating and value.dtype != torch.float64


def _cast(given: Any, policy: Policy) -> Any:
    dtype = torch.float32
    if policy is not Policy.SINGLE:
        dtype = torch.get_autocast_dtype("cpu")
    if policy is Policy.WIDEST:
        held = {x.dtype for x in pytree.tree_leaves(given) if _eligible(x)}
        dtype = torch.float32 if held - {dtype} else dtype
    return pytree.tree_map(lambda x: x.to(dtype) if _eligible(x) else x, given)


def _single_result(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, with a result in float32 asked for if no other type is."""
    names = [argument.name for argument in op._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    if given.get("dtype") is None and _eligible(given[names[0]]):
        given["dtype"] = torch.float32
    return given
