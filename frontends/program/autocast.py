"""Programs that were exported under ``torch.autocast``: its casts are not in their graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import fx

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.program.cuda_autocast import (
    CUDA,
    HALVES,
    CudaAutocast,
    active,
    original,
    refuse_disabled,
)
from tvm_sparse.frontends.program.cuda_policies import TELLING

Autocast = tuple[str, torch.dtype]


def with_casts(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` with the casts that ``torch.autocast`` made while it was exported.

    before: ``linear(x, w)`` of float32 with a result in bfloat16
    after: ``linear(to_copy(x), to_copy(w))``

    Autocast casts in front of what :func:`torch.export.export` records: the types of results are
    all that is left of it. So operators are traced again, under the autocast that they tell of.
    Autocast for CUDA casts where it did when the program was exported, and where the program is
    compiled for CUDA.

    Raises
    ------
    UnsupportedError
        A block for CUDA is disabled, and nobody can tell by whom. Or the types of results are not
        those that the autocast gives.
    """
    found, mode = recorded(program.graph), active()
    if _on_gpu(program):  # PyTorch itself casts there
        with original():
            return _again(program, found)
    blocks = list(_blocks(program.graph_module))
    for_cuda = [(graph, enabled) for device, graph, enabled in blocks if device == CUDA]
    cast = any(recorded(graph) for graph, _ in for_cuda)
    cast |= any(map(_tells_of_cuda, (program.graph, *(graph for _, graph, _ in blocks))))
    if mode is None:
        if not cast:
            return program if found is None else _again(program, found)
        with CudaAutocast().entered():
            return with_casts(program)
    if for_cuda and not cast and not any(enabled for _, enabled in for_cuda):
        refuse_disabled("is a block of an exported program which PyTorch has disabled")
    if cast or for_cuda:
        mode.cast()
    if mode.around is not None:
        return _again(program, (CUDA, mode.around))
    if found is None and not mode.casts:
        return program
    return _again(program, found, same=cast or not for_cuda)


def left_out(program: torch.export.ExportedProgram) -> bool:
    """Whether ``program`` has autocast for CUDA, which casts nothing where it is not for CUDA."""
    blocks = _blocks(program.graph_module)
    return active() is None and any(
        device == CUDA and not recorded(graph) for device, graph, _ in blocks
    )


def recorded(graph: fx.Graph) -> Autocast | None:
    """Return the device and dtype of the autocast that ``graph`` was exported under, if it was.

    An operator tells it that has tensors in single precision only, at least two of them, and gives
    one in half precision without being asked to.
    """
    for _, read, out in _computed(graph):
        single = len(read) > 1 and all(x.dtype == torch.float32 for x in read)
        if single and out.dtype in HALVES:
            return out.device.type, out.dtype
    return None


def _tells_of_cuda(graph: fx.Graph) -> bool:
    """Whether an operator gives float32 of halves as it does in autocast for CUDA alone."""
    for node, read, out in _computed(graph):
        name = str(node.target).removeprefix("aten.").removesuffix(".default")
        halves = bool(read) and read[0].dtype in HALVES
        if name in TELLING and halves and out.dtype == torch.float32:
            return True
    return False


def _computed(graph: fx.Graph) -> Iterator[tuple[fx.Node, list[torch.Tensor], torch.Tensor]]:
    """Yield operators that give a tensor of no type that they are asked for, and what they read."""
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        given, out = (*node.args, *node.kwargs.values()), node.meta.get("val")
        if torch.dtype in map(type, given) or not isinstance(out, torch.Tensor):
            continue
        read = [argument.meta.get("val") for argument in node.all_input_nodes]
        yield node, [x for x in read if _floating(x)], out


def _floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _blocks(module: fx.GraphModule) -> Iterator[tuple[str, fx.Graph, bool]]:
    """Yield device, graph and whether it is enabled of each block, with those inside of it."""
    for node in module.graph.nodes:
        if node.target is torch.ops.higher_order.wrap_with_autocast:
            device, _, enabled, _, inner, *_ = node.args
            owner = module.get_submodule(inner.target)
            assert isinstance(owner, fx.GraphModule)
            yield device, owner.graph, enabled
            yield from _blocks(owner)


def _on_gpu(program: torch.export.ExportedProgram) -> bool:
    values = [node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]
    return any(isinstance(x, torch.Tensor) and x.device.type == CUDA for x in values)


def _again(
    program: torch.export.ExportedProgram, around: Autocast | None, same: bool = False
) -> torch.export.ExportedProgram:
    """Return ``program`` traced again in an autocast; results have the ``same`` types as before."""
    block: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if around is not None:
        block = torch.autocast(*around, cache_enabled=False)
    with block, torch.no_grad():
        result = program.run_decompositions({})
    if same and _types(result) != _types(program):
        found = f"gives {_types(program)}, and its operators give {_types(result)} in autocast"
        raise UnsupportedError("model", found, "a program of torch.autocast as it is here")
    return result


def _types(program: torch.export.ExportedProgram) -> list[str]:
    values = [getattr(n, "meta", {}).get("val") for n in program.graph.output_node().args[0]]
    return [str(x.dtype).removeprefix("torch.") for x in values if isinstance(x, torch.Tensor)]
