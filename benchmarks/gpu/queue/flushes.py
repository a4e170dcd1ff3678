"""Step 1: what programs find in L2 changes their times: lines written, lines read, their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import torch
from torch.nn import functional

from benchmarks.gpu import device, prepare
from benchmarks.gpu.cases import SIZE, Case
from benchmarks.gpu.device import Program
from benchmarks.gpu.layers import Layer
from benchmarks.gpu.prepare import Kernel
from benchmarks.gpu.queue.step import Piece, Plan, Row
from benchmarks.gpu.timing import Timer
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction

WEIGHTS = (("balanced", 0.75), ("balanced", 0.9), ("block 64x64", 0.9))
SMALL = 256


def cases(plan: Plan) -> list[Case]:
    """Return one row of activations on each of :data:`WEIGHTS`."""
    size = SMALL if plan.small else SIZE
    c = Contraction((1,), size, size, numerics=Numerics.uniform("float16"))
    return [Case(f"{size}x{size}", c, pattern, zeros) for pattern, zeros in WEIGHTS]


def kernels(plan: Plan) -> list[Kernel]:
    """Return their kernels."""
    return prepare.kernels(cases(plan))


def pieces(plan: Plan) -> Iterator[Piece]:
    """Yield a piece for each flush."""
    key, needs = plan.key(*prepare.KERNEL_CODE), tuple(kernels(plan))
    for flush in device.FLUSHES:
        run = partial(_measured, flush, plan, needs)
        yield Piece(f"flush {flush}", "flush", key, run, needs)


def _measured(flush: str, plan: Plan, needs: tuple[Kernel, ...]) -> Iterable[Row]:
    """Return the row of a flush: ours, the dense library, and a kernel of one element."""
    one = device.current().put(torch.zeros(1))
    programs: dict[str, Program] = {"one element": lambda: one.add_(1)}
    for kernel in needs:
        layer = Layer(kernel.case)
        programs[f"ours {kernel.case.name}"] = layer.ours(kernel, plan.target)[0]
        programs["library dense"] = partial(functional.linear, layer.x, layer.weight)
    yield {"case": f"flush {flush}", **Timer(plan.repeats, flush).row(programs)}


def tells(rows: list[Row]) -> str:
    """Say what the dense library takes behind each flush."""
    times = {row["flush"]: row["times"]["library dense"]["median_us"] for row in rows}
    return "dense " + ", ".join(f"{flush} {us:.1f} us" for flush, us in times.items())
