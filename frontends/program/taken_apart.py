"""A program with its operators taken apart, as PyTorch does it, but in a fraction of the time."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._C import DispatchKey
from torch._export import utils
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import ExportedProgram, exported_program

from tvm_sparse.errors import SparseError, UnsupportedError
from tvm_sparse.frontends.program.spliced import spliced

_log = logging.getLogger(__name__)

Table = Mapping[Any, Callable[..., Any]]

_PARTS = {"cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops"}
"""What PyTorch's own function takes that is called here."""


def taken_apart(program: ExportedProgram, table: Table) -> ExportedProgram:
    """Return ``program.run_decompositions(table)``.

    PyTorch traces the whole program for that. Here only what is taken apart is traced, where all
    operators are pure and no extent follows from a value. PyTorch also exchanges the kernels of all
    500 composite operators, and back again. Here it exchanges those that ``table`` does not leave
    to the kernel which they have.

    Raises
    ------
    UnsupportedError
        A result has another number of axes than before: of an open extent a form was not known.
    """
    result = _taken_apart(program, table)
    ranks, found = _ranks(program), _ranks(result)
    own = found[-len(ranks) :]  # state that is written, if any, stands before them
    for place, (before, behind) in enumerate(zip(ranks, own, strict=False)):
        if before != behind:
            raise UnsupportedError(
                f"output {place}",
                f"its {before} axes would become {behind}",
                "operators whose results have axes that do not follow from an open extent",
                "give the extents one size, or write x.select(axis, place) for x.squeeze()",
            )
    return result


def _ranks(program: ExportedProgram) -> list[int | None]:
    """Return the number of axes of each output, ``None`` of what is no tensor."""
    values = [getattr(n, "meta", {}).get("val") for n in program.graph.output_node().args[0]]
    return [value.dim() if isinstance(value, torch.Tensor) else None for value in values]


def _taken_apart(program: ExportedProgram, table: Table) -> ExportedProgram:
    function = getattr(exported_program, "_decompose_exported_program", None)
    if function is None or not _PARTS < set(inspect.signature(function).parameters):
        return program.run_decompositions(dict(table))
    composite = _composite()
    kept = {op: utils._special_op_to_preserve_cia for op in composite if op not in table}
    own = {op: rule for op, rule in table.items() if _is_preservable(op, composite)}
    changed = {op: rule for op, rule in own.items() if not _is_kernel_of(op, rule)}
    kernels = {**changed, **kept}
    with unset_fake_temporarily():
        return _spliced(program, table, kernels) or function(
            program,
            cia_to_decomp=kernels,
            python_decomp_table={op: rule for op, rule in table.items() if op not in composite},
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )


def _spliced(program: ExportedProgram, table: Table, kernels: Table) -> ExportedProgram | None:
    """Return ``program`` with operators taken apart where they stand, if that can be done."""
    try:
        return spliced(program, table, _composite(), kernels)
    except SparseError:
        raise
    except Exception as error:  # PyTorch's own trace says it again, and where it is
        _log.debug("one by one: %s", error)
        return None


@functools.cache
def _composite() -> frozenset[Any]:
    """Return the operators that PyTorch computes from others, and lets an export keep whole."""
    return frozenset(utils._collect_all_valid_cia_ops())


def _is_preservable(op: Any, composite: frozenset[Any]) -> bool:
    """Whether ``op`` is composite, or one of a library that came later."""
    if op in composite or op.namespace == "aten":
        return op in composite
    return bool(utils._is_preservable_cia_op(op))


def _is_kernel_of(op: torch._ops.OpOverload, rule: Callable[..., Any]) -> bool:
    """Whether ``rule`` is the kernel of ``op`` itself."""
    kernel = op.py_kernels.get(DispatchKey.CompositeImplicitAutograd)
    return rule is kernel or getattr(rule, "keywords", {}).get("kernel") is op
