"""How operators run on CPUs: one rule a file, tried in the order of :data:`RULES`."""

from __future__ import annotations

from tvm_sparse.schedules.cpu.block import BlockRule
from tvm_sparse.schedules.cpu.compressed_rows import CompressedRowsRule
from tvm_sparse.schedules.cpu.contraction import ContractionRule
from tvm_sparse.schedules.cpu.depthwise import DepthwiseRule
from tvm_sparse.schedules.cpu.generic import GenericRule
from tvm_sparse.schedules.cpu.planes import PlanesRule
from tvm_sparse.schedules.cpu.rows import RowsRule
from tvm_sparse.schedules.cpu.shared_columns import SharedColumnsRule
from tvm_sparse.schedules.cpu.shifted_rows import ShiftedRowsRule
from tvm_sparse.schedules.cpu.tiles import TilesRule
from tvm_sparse.schedules.cpu.winograd import WinogradRule
from tvm_sparse.schedules.rule import ScheduleRule

RULES: tuple[ScheduleRule, ...] = (
    ContractionRule(),
    WinogradRule(),
    TilesRule(),
    BlockRule(),
    CompressedRowsRule(),
    SharedColumnsRule(),
    ShiftedRowsRule(),
    PlanesRule(),
    DepthwiseRule(),
    RowsRule(),
    GenericRule(),
)
