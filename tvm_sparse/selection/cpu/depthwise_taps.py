"""Whether the taps that groups of channels share are few enough, and what they would cost."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.depthwise_columns import tap_columns_format
from tvm_sparse.ops.contractions.depthwise_taps import depthwise_taps
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.covers import covers
from tvm_sparse.selection.cpu.assumptions import DEPTHWISE_TAP
from tvm_sparse.selection.narrow import stored


def depthwise_taps_candidates(
    contraction: Contraction, scan: Scan, target: Target
) -> Iterator[Candidate | str]:
    """Yield the format of the taps that neighbouring channels keep together.

    The matrix of ``scan`` is ``(channels, taps)``.
    """
    c = contraction
    if not c.depthwise:
        return
    costs = dict(costs_of(target).tap)
    if c.features % min(costs):
        yield f"depthwise taps need a multiple of {min(costs)} channels, found {c.features}"
        return
    groups = tuple(lanes for lanes in sorted(costs) if c.features % lanes == 0)
    best = min(covers(scan, groups, (1,)), key=lambda k: k.fraction * costs[k.group])
    format = CompressedRowsFormat.of(
        scan.weight, group=best.group, tile_rows=best.group, tile_cols=scan.cols
    )
    func = depthwise_taps(c, format, target)
    held = stored(format, c, target)
    gain = DEPTHWISE_TAP if tap_columns_format(c, target) else 1.0
    yield Candidate("depthwise_taps", held, func, best.fraction, costs[best.group] * gain)
