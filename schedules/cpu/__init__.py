"""How operators run on CPUs: one rule a file, tried in the order of :data:`RULES`."""

from __future__ import annotations

from tvm_sparse.schedules.cpu.contraction import Contraction
from tvm_sparse.schedules.cpu.depthwise import Depthwise
from tvm_sparse.schedules.cpu.generic import Generic
from tvm_sparse.schedules.cpu.rows import Rows
from tvm_sparse.schedules.rule import ScheduleRule

RULES: tuple[ScheduleRule, ...] = (Contraction(), Depthwise(), Rows(), Generic())
