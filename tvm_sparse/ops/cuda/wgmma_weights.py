"""How weights on Hopper's tensor cores are stored and multiplied: what CUDA C has of each kind."""

from __future__ import annotations

from dataclasses import dataclass, replace

GROUP = 64
"""Features of a warpgroup's product, and columns of a box of activations."""

GROUP_THREADS = 128


@dataclass(frozen=True)
class Weights:
    """How weights are stored and multiplied: ``columns`` of a step, and C text.

    ``nbytes`` are those of a step and a warpgroup: of its values, and of what stands behind them.
    ``parameters`` and ``begin`` say where a thread block's steps begin and how many they are;
    ``column`` is the first column of ``step``, ``others`` the address of what stands behind values.
    A single copy by one thread brings values where they are ``packed``, else all threads copy.
    Banks are stored as ``slots`` of a thread; ``teams`` of threads put them to their places in
    shared memory, whose ``tiles`` the product reads, and others multiply.
    ``product`` is the instruction, with its ``operands`` and ``flags``. ``multiply`` asks for
    number ``k`` of four in a step, ``prepare`` loads what these need in registers. ``pending``
    steps are under way when the next one begins: none where its registers would be loaded then,
    since the assembler would let every single product wait.
    """

    name: str
    columns: int
    nbytes: tuple[int, int]
    parameters: str
    begin: str
    column: str
    others: str
    product: str
    operands: tuple[tuple[str, str], ...]
    flags: str
    prepare: str
    multiply: str
    pending: int
    slots: int = 0
    teams: int = 0
    tiles: int = 0
    packed: bool = True


_MATRICES = (("unsigned long long w", '"l"(w)'), ("unsigned long long x", '"l"(x)'))

KEPT = Weights(
    name="kept",
    columns=64,
    nbytes=(8192, 0),
    parameters="const int* columns, const int* starts",
    begin="const int begin = starts[0], steps = starts[1] - begin;",
    column="columns[begin + step] * 64",
    others="",
    product="wgmma.mma_async.sync.aligned.m64n{rows}k16",
    operands=_MATRICES,
    flags="1, 1, 1, 0, 0",
    prepare="",
    multiply="{name}_multiply(sums, w + 2 * k, a + 2 * k);",
    pending=1,
)
"""Kept blocks of 64 columns, which a table names."""

MATRIX = replace(
    KEPT,
    name="matrix",
    parameters="int lanes, int steps",
    begin="""const int begin = 0;
  asm volatile("" : "+r"(steps));  // products of an unrolled loop would take turns""",
    column="step * 64",
    flags="1, 1, 1, 1, 0",
    multiply="{name}_multiply(sums, w + 128 * k, a + 2 * k);",
    packed=False,
)
"""A dense matrix of columns by ``lanes`` features, as libraries have it: products turn it round."""


def banks(slots: int) -> Weights:
    """Return kept blocks of which a thread stores so many ``slots``, as ``KEPT`` otherwise."""
    nbytes = 4 * 128 * (-(-slots // 2) + -(-slots // 4))
    return replace(KEPT, name="banks", nbytes=(nbytes, 0), slots=slots, teams=2, tiles=4)


TWO_FOUR = Weights(
    name="two_four",
    columns=128,
    nbytes=(8192, 1024),
    parameters="const int* places, int steps",
    begin="const int begin = 0;",
    column="step * 128",
    others="places + step * (OTHERS / 4)",
    product="wgmma.mma_async.sp.sync.aligned.m64n{rows}k32",
    operands=(*_MATRICES, ("unsigned places", '"r"(places)')),
    flags="0, 1, 1, 1, 0, 0",
    prepare="""unsigned words[4];
    const int word = thread / 128 * 256 + thread / 32 % 4 * 16 + thread % 32 / 4 * 2 + thread % 2;
#pragma unroll
    for (int k = 0; k < 4; ++k)
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(words[k])
        : "r"(at + VALUES + (word + k * 64) * 4));""",
    multiply="{name}_multiply(sums, w + 2 * k, a + k / 2 * (ROWS * 8) + k % 2 * 4, words[k]);",
    pending=0,
)
"""Two of four neighbouring columns in each feature, and words that name their places. Lane ``4 r +
q`` of a warp gives the word of features ``r`` and ``r + 8``, of half ``q % 2`` of 32 columns."""
