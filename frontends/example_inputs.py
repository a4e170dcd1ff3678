"""Example inputs: the arguments of one call, each a tensor with values or a constant."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.modules.effective import all_tensors, is_sparse

Examples = torch.Tensor | Sequence[Any] | Mapping[str, Any]

WHERE = "example inputs"


def arguments(examples: Examples) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments of a call.

    Raises
    ------
    InputError
        They are no tensor, sequence or mapping.
    """
    if isinstance(examples, torch.Tensor):
        return (examples,), {}
    if isinstance(examples, Mapping):
        return (), dict(examples)
    if _is_array(examples):
        raise _array(WHERE, examples)
    if not isinstance(examples, Sequence) or isinstance(examples, str | bytes):
        found = f"are of type {type(examples).__name__}"
        todo = "pass a tuple of tensors"
        raise InputError(WHERE, found, "a tensor, a sequence or a mapping of arguments", todo)
    return tuple(examples), {}


def bound(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``module.forward`` by their names.

    Raises
    ------
    InputError
        They do not fit it, or one is neither a tensor with values nor a constant.
    """
    signature = inspect.signature(module.forward)
    try:
        named = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        if args and not kwargs and all(isinstance(arg, int | float) for arg in args):
            raise numbers(tuple(args)) from error
        raise InputError(
            WHERE,
            f"do not fit forward{_shown(signature)}: {error}",
            "one example of each argument",
            "positional arguments go into a tuple, keyword arguments into a mapping",
        ) from error
    for path, leaf in _leaves(named):
        _check(path, leaf)
    leaves = pytree.tree_leaves(named)
    if leaves and all(isinstance(leaf, int | float) for leaf in leaves):
        raise numbers(tuple(leaves))
    return named


def told_apart(module: nn.Module, call: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    """Return a module's arguments with a copy of each tensor that it or they have already.

    :func:`torch.export.export` takes one tensor in two places for one, and its program would read
    the later one in both: ``(x, x, x)`` for attention, or a buffer of the module as an example.
    """
    seen = {id(tensor) for tensor in all_tensors(module)}

    def own(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.clone()
        seen.add(id(tensor))
        return tensor

    return pytree.tree_map_only(torch.Tensor, own, call)


def parameters(module: nn.Module) -> list[str]:
    """Return the names of what ``module.forward`` takes."""
    return list(inspect.signature(module.forward).parameters)


def numbers(found: tuple[Any, ...]) -> InputError:
    """Return what to tell of a shape in the place of a tensor."""
    return InputError(
        WHERE,
        f"{found} are numbers",
        "tensors",
        f"pass a tensor of that shape, like torch.zeros{found}",
    )


def _shown(signature: inspect.Signature) -> str:
    text = ", ".join(str(p).partition(":")[0] for p in signature.parameters.values())
    return f"({text if len(text) < 80 else text[:77] + '...'})"


def _leaves(named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what containers hold, with the path to it."""
    for path, leaf in pytree.tree_flatten_with_path(dict(named))[0]:
        first, *rest = path
        yield f"'{getattr(first, 'key', first)}{pytree.keystr(tuple(rest))}'", leaf


def _check(path: str, leaf: Any) -> None:
    where = f"example input {path}"
    if isinstance(leaf, torch.Tensor):
        found, todo = next(_unusual(leaf), ("", ""))
        if found:
            raise InputError(where, found, "a dense tensor with values", todo)
    elif _is_array(leaf):
        raise _array(where, leaf)
    elif not isinstance(leaf, bool | int | float | str | None):
        raise InputError(
            where,
            f"is of the class {type(leaf).__name__}",
            "a tensor, a constant, or tuples, lists and dictionaries of them",
            "register the class with torch.export.register_dataclass if it holds tensors",
        )


def _unusual(tensor: torch.Tensor) -> Iterator[tuple[str, str]]:
    """Yield what keeps a tensor from being an example, and what to do."""
    if tensor.is_nested:
        yield "is a nested tensor", "pad it, and pass a mask"
    elif is_sparse(tensor):
        yield "is a sparse tensor", "pass x.to_dense(); only weights may be sparse"
    elif tensor.is_quantized:
        yield "is a quantized tensor", "pass x.int_repr(), or x.dequantize()"
    elif tensor.is_meta or isinstance(tensor, torch._subclasses.FakeTensor):
        yield "has no values (it is on the meta device)", "pass torch.zeros_like(x, device='cpu')"
    elif torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        yield "is inside torch.func or torch.vmap", "compile the model outside of it"
    elif is_traceable_wrapper_subclass(tensor):
        yield f"is of the class {type(tensor).__name__}", "pass a plain tensor"


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") and not isinstance(value, torch.Tensor)


def _array(where: str, value: Any) -> InputError:
    kind = "a NumPy array" if type(value).__module__ == "numpy" else f"a {type(value).__name__}"
    return InputError(where, f"is {kind}", "a torch tensor", "pass torch.from_numpy(x)")
