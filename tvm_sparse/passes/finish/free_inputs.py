"""Inputs may begin anywhere in memory where kernels only load their elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import DataType, ir, relax, s_tir, tirx

from tvm_sparse.passes.graph.rewrite import op_name
from tvm_sparse.schedules.blocks import REDUCTION, nodes

Report = Callable[[tuple[int, ...]], None]

_ADDRESSES = ("tirx.address_of", "tirx.tvm_access_ptr")
"""What hands memory on to code that may expect its beginning to be aligned."""


@tvm.transform.module_pass(opt_level=0, name="FreeInputs")
@dataclass(frozen=True)
class FreeInputs:
    """Let kernels load inputs of ``main`` from any multiple of an element's size.

    before: ``x: T.Buffer((8,), "float32")``, aligned to 64 bytes as TVM's own tensors are
    after:  ``x: T.Buffer((8,), "float32", align=4)``

    Arrays of NumPy begin elsewhere, and need no copy then. An input stays as it is unless it is
    only passed to kernels that load its elements, one by one or in vectors, and reduce nothing:
    vectors across two cache lines take longer, more than a copy where they are loaded often. Runs
    on scheduled functions. ``report`` is told the numbers of the inputs.
    """

    report: Report

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with other kernels for such inputs."""
        main = mod["main"]
        inputs = list(main.params)[: int(main.attrs["num_input"])]
        places = _Places(mod)
        found = tuple(i for i, var in enumerate(inputs) if places.free(var))
        changed: dict[ir.GlobalVar, set[int]] = {}
        for var in (inputs[i] for i in found):
            for name, place in places.of(var):
                changed.setdefault(name, set()).add(place)
        result = tvm.IRModule(dict(mod.functions_items()), attrs=mod.attrs)
        for name, numbers in changed.items():
            result[name] = _loading(mod[name], sorted(numbers))
        self.report(found)
        return result


class _Places:
    """Where ``main`` passes its inputs to kernels."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod, body = mod, mod["main"].body
        self.uses = Counter(nodes(body, relax.Var))
        self.passed: dict[relax.Var, list[tuple[ir.GlobalVar, int]]] = {}
        for call in nodes(body, ir.Call):
            if op_name(call) == "call_tir" and isinstance(call.args[1], relax.Tuple):
                for place, operand in enumerate(call.args[1].fields):
                    if isinstance(operand, relax.Var):
                        self.passed.setdefault(operand, []).append((call.args[0], place))

    def of(self, var: relax.Var) -> list[tuple[ir.GlobalVar, int]]:
        """Return the kernels that ``var`` is passed to, and which parameter it is there."""
        return self.passed.get(var, [])

    def free(self, var: relax.Var) -> bool:
        """Whether nothing is done with ``var`` but loading its elements."""
        places = self.of(var)
        if not places or len(places) != self.uses[var]:
            return False
        return all(_only_loaded(self.mod[name], place) for name, place in places)


def _only_loaded(func: Any, place: int) -> bool:
    """Whether ``func`` loads elements of a parameter, and neither reduces nor hands it on."""
    if not isinstance(func, tirx.PrimFunc):
        return False
    body, param = func.body, func.params[place]
    blocks = nodes(body, s_tir.SBlock)
    axes = [axis for block in blocks for axis in block.iter_vars]
    handed_on = any(getattr(call.op, "name", "") in _ADDRESSES for call in nodes(body, ir.Call))
    if handed_on or any(block.match_buffers for block in blocks):
        return False
    if any(int(axis.iter_type) == REDUCTION for axis in axes):
        return False
    read = [*nodes(body, ir.TensorLoad), *nodes(body, ir.TensorRegion)]
    loaded = sum(part.source.same_as(param) for part in read)
    mentioned = sum(var.same_as(param) for var in nodes(body, tirx.Var))
    return mentioned == loaded > 0


def _loading(func: tirx.PrimFunc, places: Sequence[int]) -> tirx.PrimFunc:
    """Return ``func`` with parameters that begin on any multiple of an element's size."""
    free: dict[Any, Any] = {}
    for place in places:
        old = func.params[place]
        size = DataType(str(old.ty.dtype)).itemsize
        free[old] = tirx.decl_buffer(
            list(old.ty.shape), old.ty.dtype, old.name, data_alignment=size
        )
    body = tvm_ffi.structural_map(func.body, (tirx.Var, lambda var: free.get(var, var)))
    params = [free.get(param, param) for param in func.params]
    return tirx.PrimFunc(params, body, func.ret_type, attrs=func.attrs)
