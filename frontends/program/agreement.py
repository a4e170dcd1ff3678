"""Whether two forms of one program give the same at some sizes of its open extents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from tvm_sparse.frontends.program.decided_extents import size_of
from tvm_sparse.frontends.program.ones import Shapes, traced_at


def agree(
    before: torch.export.ExportedProgram,
    after: torch.export.ExportedProgram,
    sizes: Mapping[Any, int],
) -> bool:
    """Whether both forms run on the same numbers, and return the same ones.

    Parameters
    ----------
    before, after
        Programs that take the same inputs.
    sizes
        By symbol; one that is not named has the size of the example. Real numbers are random,
        integers are zero and one in turns.
    """
    sizes = traced_at(before) | dict(sizes)
    try:
        given = list(_drawn(before, sizes))
        wanted, found = _run(before, given, sizes), _run(after, given, sizes)
        check_close(found, wanted)
    except Exception:
        return False
    return True


def check_close(found: Any, wanted: Any) -> None:
    """Raise an error where two results of a model differ by more than rounding.

    They are tensors and constants, None among them, in any containers that PyTorch opens.
    """
    for one, other in zip(*map(pytree.tree_leaves, (found, wanted)), strict=True):
        if isinstance(other, str | None):
            assert one == other
        else:
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)


def tensors_of(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Return every parameter, buffer and constant of ``program`` by its name."""
    return {**program.constants, **program.state_dict}


def _drawn(program: torch.export.ExportedProgram, sizes: Mapping[Any, int]) -> Iterator[Any]:
    generator = torch.Generator().manual_seed(0)
    specs = program.graph_signature.input_specs
    nodes = program.graph.find_nodes(op="placeholder")
    for spec, node in zip(specs, nodes, strict=True):
        value = node.meta.get("val")
        if spec.kind is not InputKind.USER_INPUT:
            continue
        if not isinstance(value, torch.Tensor):
            yield value
            continue
        shape = torch.Size([size_of(extent, sizes) for extent in value.shape])
        if value.is_floating_point():
            yield torch.randn(shape, generator=generator).to(value.dtype)
        else:
            yield (torch.arange(shape.numel()) % 2).reshape(shape).to(value.dtype)


def _run(
    program: torch.export.ExportedProgram, given: Sequence[Any], sizes: Mapping[Any, int]
) -> list[Any]:
    """Return what ``program`` returns for these inputs, and what it writes."""
    tensors, rest = tensors_of(program), iter(given)
    placed = [
        next(rest) if spec.kind is InputKind.USER_INPUT else tensors[spec.target]
        for spec in program.graph_signature.input_specs
    ]
    with torch.no_grad():
        result = Shapes(program.graph_module, sizes).run(*placed, enable_io_processing=False)
    return [value for value in result if isinstance(value, torch.Tensor)]
