"""The options of NVIDIA GPUs as candidates, with costs relative to the dense option."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from tvm.target import Target

from tvm_sparse.formats.offsets import OffsetFormat
from tvm_sparse.machine.vector import SUM_BITS
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cuda import (
    bank_options,
    convolution_options,
    cuts,
    depthwise_options,
    library_options,
    options,
    two_four_options,
)
from tvm_sparse.selection.cuda.chip import Chip, chip
from tvm_sparse.selection.cuda.library_time import faster_library
from tvm_sparse.selection.cuda.option import Option

BYTES = "bytes on tensor cores, sums of int32"
"""What is said of layers of quantized networks."""

Find: TypeAlias = Callable[[Contraction, Scan, Target], Iterator[Option | str]]


def dense_candidates(c: Contraction, target: Target) -> Iterator[Candidate]:
    """Yield our dense operator, which always exists, and a library's where it is faster."""
    own = options.dense(c, target)
    yield _candidate(c, own, own.seconds, chip(target), lambda: [options.dense(c, target)])
    for find in (library_options.product, convolution_options.convolution):
        library = find(c, target)
        if library is not None:
            yield library_options.candidate(c, library, own.seconds, chip(target))


def balanced_candidates(c: Contraction, scan: Scan, target: Target) -> Iterator[Candidate | str]:
    """Yield the banks of a linear layer or convolution, 2:4 ones for sparse tensor cores too."""
    yield from _candidates(c, scan, target, bank_options.balanced)
    if c.numerics.bits < SUM_BITS:
        yield from _candidates(c, scan, target, options.two_four)
    if c.numerics.bits < SUM_BITS and c.numerics.floating:
        yield from two_four_options.candidates(c, scan, target)


def block_candidates(c: Contraction, scan: Scan, target: Target) -> Iterator[Candidate | str]:
    """Yield the blocks of a linear layer or convolution."""
    return _candidates(c, scan, target, options.block)


def joint_candidates(c: Contraction, scan: Scan, target: Target) -> Iterator[Candidate | str]:
    """Yield the kept tiles of a linear layer or convolution."""
    return _candidates(c, scan, target, bank_options.joint)


def unstructured_candidates(
    c: Contraction, scan: Scan, target: Target
) -> Iterator[Candidate | str]:
    """Yield why there is no format of its own."""
    return _candidates(c, scan, target, options.unstructured)


def depthwise_taps_candidates(
    c: Contraction, scan: Scan, target: Target
) -> Iterator[Candidate | str]:
    """Yield the kept taps of a depthwise convolution."""
    return _candidates(c, scan, target, depthwise_options.sparse, depthwise=True)


def _candidates(
    c: Contraction, scan: Scan, target: Target, find: Find, *, depthwise: bool = False
) -> Iterator[Candidate | str]:
    """Yield what ``find`` does as candidates, nothing for contractions of the other sort."""
    if c.depthwise != depthwise:
        return
    baseline, on = options.dense(c, target).seconds, chip(target)
    for found in find(c, scan, target):
        again = partial(find, c, scan, target)
        yield found if isinstance(found, str) else _candidate(c, found, baseline, on, again)


def _candidate(
    c: Contraction, option: Option, baseline: float, on: Chip, find: cuts.Find
) -> Candidate:
    """Return ``option`` with its cost relative to ``baseline`` seconds of the dense one.

    ``find`` finds it, and others, again.
    """

    def ways() -> list[Candidate]:
        others = cuts.in_other_parts(option, find)
        return [_candidate(c, other, baseline, on, find) for other in others]

    zero = c.zero_point
    return Candidate(
        option.name,
        OffsetFormat(option.format, c.features, zero) if zero else option.format,
        option.build(),
        option.work,
        option.seconds / baseline / option.work,
        seconds=option.seconds,
        margin=on.margin,
        rival=faster_library(c, option.seconds, on) if c.numerics.floating else BYTES,
        parts=cuts.parts_of(option),
        ways=ways,
    )
