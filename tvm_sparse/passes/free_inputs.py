"""Inputs may begin anywhere in memory where kernels only load their elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import DataType, ir, relax, s_tir, tirx

from tvm_sparse.passes.rewrite import op_name
from tvm_sparse.schedules.blocks import REDUCTION

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
        self.mod, self.passed = mod, dict[relax.Var, list[tuple[ir.GlobalVar, int]]]()
        self.uses: Counter[relax.Var] = Counter()
        tvm_ffi.structural_walk(mod["main"].body, ((ir.Call, self._call), (relax.Var, self._use)))

    def _use(self, var: Any) -> None:
        self.uses[var] += 1

    def _call(self, call: Any) -> None:
        if op_name(call) != "call_tir" or not isinstance(call.args[1], relax.Tuple):
            return
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
    param = func.params[place]
    mentioned, loaded, others = [0], [0], [False]

    def mention(var: Any) -> None:
        mentioned[0] += var.same_as(param)

    def load(found: Any) -> None:
        loaded[0] += found.source.same_as(param)

    def region(found: Any) -> None:
        loaded[0] += found.source.same_as(param)

    def call(found: Any) -> None:
        others[0] = others[0] or getattr(found.op, "name", "") in _ADDRESSES

    def block(found: Any) -> None:
        reduces = any(int(axis.iter_type) == REDUCTION for axis in found.iter_vars)
        others[0] = others[0] or reduces or bool(found.match_buffers)

    kinds = (tirx.Var, mention), (ir.TensorLoad, load), (ir.TensorRegion, region)
    tvm_ffi.structural_walk(func.body, (*kinds, (ir.Call, call), (s_tir.SBlock, block)))
    return not others[0] and mentioned[0] == loaded[0] > 0


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
