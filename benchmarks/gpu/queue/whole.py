"""The parts of the benchmark as a whole: every row again, with the kernels that are chosen now.

Triton's block kernel is not tuned here: that takes ten seconds a case, and step 6 did it where it
decided. ``collect`` keeps its tuned times.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gpu import prepare
from benchmarks.gpu.cases import TAPS, Case, window
from benchmarks.gpu.prepare import Kernel
from benchmarks.gpu.queue import again, mends
from benchmarks.gpu.queue.again import measured
from benchmarks.gpu.queue.step import Piece, Plan
from benchmarks.gpu.timing import Timer
from tvm_sparse.base.numerics import INTEGERS
from tvm_sparse.ops.contractions.contraction import Contraction

TINY_BYTES = Contraction((16,), 80, 64, numerics=INTEGERS[0])

SMALL = {
    "grid": lambda: [mends.TINY.case(16)],
    "papers": lambda: [mends.TINY.case(1)],
    "depthwise": lambda: [Case("8x8x32", window((8, 32, 3, 1), 1, "float16"), "taps", TAPS)],
    "convolutions": lambda: [Case("8x8x16", window((8, 16, 3, 1), 1, "float16", 8), "none", 0.0)],
    "two_four": lambda: [mends.TINY_TWO_FOUR.case(16)],
    "bytes": lambda: [Case("64x80", TINY_BYTES, "balanced", 0.75)],
}
"""What shows on a CPU whether a part runs."""


def cases(part: str, plan: Plan) -> list[Case]:
    """Return the cases of a part, those of a weight after each other: it is made once for them."""
    return SMALL[part]() if plan.small else list(again.PARTS[part]())


def kernels(part: str, plan: Plan) -> list[Kernel]:
    """Return the kernels of a part."""
    return prepare.kernels(cases(part, plan))


def pieces(part: str, plan: Plan) -> Iterator[Piece]:
    """Yield a piece for each case."""
    key, timer = plan.key(*prepare.KERNEL_CODE), Timer(plan.repeats)
    for case in cases(part, plan):
        needs = tuple(prepare.kernels([case]))
        yield Piece(case.name, part, key, measured(case, needs, plan.target, timer), needs)
