"""What a tuning record is about: an operator, its shapes and its target, but never its weights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target
from tvm.tirx import IndexMap

from tvm_sparse.base.targets import shares_loops, threads_of
from tvm_sparse.ops.marks import OPERATOR
from tvm_sparse.schedules.blocks import REDUCTION, SPATIAL, all_blocks
from tvm_sparse.schedules.rule import is_written


@dataclass(frozen=True)
class Workload:
    """The key of tuning records.

    Parameters
    ----------
    operator
        The operator's mark: ``"dense"``, ``"balanced"``, …
    computation
        Extents, buffers and accesses of the operator's block as text. Buffer shapes tell the
        format's parameters (values a bank, index words); where the nonzeros are does not appear.
    target
        Kind, processor and threads.
    function
        Structural hash of the whole function, epilogue included. Records of another function with
        the same operator fit too; see :meth:`tvm_sparse.tuning.database.Database.best`.
    """

    operator: str
    computation: str
    target: str
    function: str

    @property
    def anchor(self) -> tuple[str, str, str]:
        """The key without the epilogue."""
        return self.operator, self.computation, self.target


def workload_of(func: tirx.PrimFunc, target: Target) -> Workload | None:
    """Return the key of ``func``, or ``None`` if it holds no marked operator."""
    block = marked_block(func)
    if block is None:
        return None
    operator = str(block.annotations[OPERATOR])
    return Workload(operator, _computation(block), target_name(target), _digest(func))


def marked_block(func: tirx.PrimFunc) -> Any:
    """Return the block that carries an operator's mark, or ``None``."""
    if is_written(func):
        return None
    schedule = s_tir.Schedule(func)
    blocks = (schedule.get(block) for block in all_blocks(schedule))
    return next((block for block in blocks if OPERATOR in block.annotations), None)


def target_name(target: Target) -> str:
    """Return kind, processor and threads, as in ``"llvm znver5 2 threads"``."""
    attrs = target.attrs
    processor = attrs.get("mcpu") or attrs.get("arch") or "generic"
    features = ",".join(sorted(str(f) for f in attrs.get("mattr") or ()))
    name = f"{target.kind.name} {processor}" + (f" {features}" if features else "")
    return f"{name} {threads_of(target)} threads" if shares_loops(target) else name


def _computation(block: Any) -> str:
    axes = list(block.iter_vars)
    kinds = {SPATIAL: "S", REDUCTION: "R"}
    domain = [f"{kinds.get(int(a.iter_type), '?')}{_extent(a.dom.extent)}" for a in axes]
    reads = [_access(region, axes) for region in block.reads]
    writes = [_access(region, axes) for region in block.writes]
    return f"[{' '.join(domain)}] {'; '.join(writes)} <- {'; '.join(reads)}"


def _access(region: Any, axes: list[Any]) -> str:
    """Return dtype, shape and index of one access; axes are called ``i0``, ``i1``."""
    canonical = [tirx.Var(f"i{n}", axis.var.ty.dtype) for n, axis in enumerate(axes)]
    rename = IndexMap([a.var for a in axes], [r.min for r in region.region], None)
    buffer, starts = region.source, rename.map_indices(canonical)
    spans = zip(starts, (_extent(r.extent) for r in region.region), strict=True)
    index = [_text(start) + ("" if extent == "1" else f":+{extent}") for start, extent in spans]
    return f"{buffer.dtype}[{','.join(_extent(e) for e in buffer.shape)}]({','.join(index)})"


def _extent(extent: Any) -> str:
    return str(int(extent)) if isinstance(extent, tirx.IntImm) else "n"


def _text(expr: Any) -> str:
    return re.sub(r"T\.int\d+\((-?\d+)\)", r"\1", str(expr)).replace(" ", "")


def _digest(func: tirx.PrimFunc) -> str:
    """Return a hash of the function's body and buffers, whatever it is called."""
    for attribute in dict(func.attrs or {}):
        func = func.without_attr(attribute)
    return f"{tvm_ffi.structural_hash(func) & (2**64 - 1):016x}"
