"""How operators run on CPUs: one rule a file, tried in the order of :data:`RULES`."""

from __future__ import annotations

from tvm_sparse.schedules.cpu.block import Block
from tvm_sparse.schedules.cpu.compressed_rows import CompressedRows
from tvm_sparse.schedules.cpu.contraction import Contraction
from tvm_sparse.schedules.cpu.depthwise import Depthwise
from tvm_sparse.schedules.cpu.generic import Generic
from tvm_sparse.schedules.cpu.rows import Rows
from tvm_sparse.schedules.cpu.winograd import Winograd
from tvm_sparse.schedules.rule import ScheduleRule

RULES: tuple[ScheduleRule, ...] = (
    Contraction(),
    Winograd(),
    Block(),
    CompressedRows(),
    Depthwise(),
    Rows(),
    Generic(),
)
