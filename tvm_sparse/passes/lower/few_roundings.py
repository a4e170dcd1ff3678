"""Long chains of operators on bfloat16 become several kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import ir, relax, tirx

from tvm_sparse.ops.bytes.halves import HALF
from tvm_sparse.ops.marks import FUSION, OPAQUE, OUT_FUSABLE
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.cpu.vector_math import times_written

ROUNDING = 5
"""How often a number is read where it is rounded."""

LONGEST = 4_000
"""Variables of a kernel's expression, all written out, that TVM analyses in seconds."""


@tvm.transform.module_pass(opt_level=0, name="FewRoundings")
@dataclass(frozen=True)
class FewRoundings:
    """Let TVM not fuse an operator on bfloat16 behind a chain that is long already.

    before: ``add``, ``sigmoid``, ``multiply``, ``multiply``, all fusable
    after:  ``add``, ``sigmoid``, ``multiply``, and a ``multiply`` that is not

    Each operator rounds its result, which reads it five times. TVM's code generator analyses an
    expression with all variables written out: of twelve operators it would not end.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with operators that are not fused."""
        chains = _Chains(mod)
        apart: dict[Any, Any] = {}

        def rule(rewriter: Rewriter, call: relax.Call) -> Any | None:
            if rewriter.original not in chains.cut:
                return None
            name = call.args[0]
            if name not in apart:
                alone = mod[name].with_attr(FUSION, OPAQUE)
                apart[name] = rewriter.builder_.add_func(alone, f"{name.name_hint}_alone")
            return relax.Call(call.op, [apart[name], *call.args[1:]], call.attrs, call.ty_args)

        return rewrite(mod, rule)


@dataclass(frozen=True)
class _Function:
    """What one operator makes of the length of its operands.

    ``reads`` says how often it reads each parameter for one result, ``written`` how often its
    elementary functions write out theirs. ``inside``: operands may be computed in its kernel.
    ``computes``: it does more than copy.
    """

    reads: tuple[int, ...]
    written: int
    inside: bool
    computes: bool

    @staticmethod
    def of(function: tirx.PrimFunc) -> _Function:
        """Return what is known of ``function``."""
        loads, stores = (nodes(function.body, kind) for kind in (ir.TensorLoad, tirx.BufferStore))
        return _Function(
            tuple(max(1, sum(x.source.same_as(p) for x in loads)) for p in function.params),
            times_written(function.body),
            int(function.attrs[FUSION]) < OUT_FUSABLE,
            not all(isinstance(store.value, ir.TensorLoad) for store in stores),
        )


@dataclass
class _Chains:
    """How long the expressions of a module's kernels would be; calls in ``cut`` begin kernels."""

    module: tvm.IRModule
    sizes: dict[Any, int] = field(default_factory=dict)
    functions: dict[Any, _Function] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bound = relax.analysis.get_var2val(self.module["main"])
        self.cut: set[Any] = set()
        for call in self.bound.values():
            self.size(call)

    def size(self, call: Any) -> int:
        """Return the length of what a kernel computes that ends with ``call``; 1 of a tensor."""
        if not self._is_fusable(call):
            return 1
        if call not in self.sizes:
            long, behind = self._length(call)
            if long > LONGEST and behind and str(call.ty.dtype) == HALF:
                self.cut.add(call)
            self.sizes[call] = 1 if call in self.cut else long
        return self.sizes[call]

    def _length(self, call: Any) -> tuple[int, bool]:
        """Return the length with ``call``, and whether there are others before it in its kernel."""
        name, half = call.args[0], str(call.ty.dtype) == HALF
        if name not in self.functions:
            self.functions[name] = _Function.of(self.module[name])
        function = self.functions[name]
        factor = function.written * (ROUNDING if half and function.computes else 1)
        if not function.inside:
            return factor, False
        fields = call.args[1].fields if isinstance(call.args[1], relax.Tuple) else ()
        sizes = [self.size(self.bound.get(operand)) for operand in fields]
        total = sum(size * reads for size, reads in zip(sizes, function.reads, strict=False))
        return factor * max(1, total), max(sizes, default=1) > 1

    def _is_fusable(self, call: Any) -> bool:
        if op_name(call) != "call_tir" or isinstance(call.ty, relax.TupleType):
            return False
        pattern = (self.module[call.args[0]].attrs or {}).get(FUSION)
        return pattern is not None and int(pattern) <= OUT_FUSABLE
