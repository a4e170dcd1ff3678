"""What belongs to one sparsity kind, and the built-in kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.depthwise import DepthwiseTapsFormat
from tvm_sparse.formats.shared_columns import SharedColumnsFormat
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Pattern
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.depthwise import DepthwiseTaps
from tvm_sparse.patterns.filters import FilterPruned
from tvm_sparse.patterns.joint import Joint
from tvm_sparse.patterns.unstructured import Unstructured
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.operators import OPERATORS, Operators


@dataclass(frozen=True)
class Kind:
    """A sparsity kind, complete: what is zero, how the rest is stored, computed and scheduled.

    Parameters
    ----------
    name
        What reports and ``Config.force`` call it.
    pattern
        The mask family.
    formats
        Format classes with ``encode``/``decode``/``nbytes``.
    operators
        By TVM's name for a kind of target (``"llvm"``, ``"cuda"``): a function
        ``(contraction, scan, target) -> candidates``. It yields a
        :class:`~tvm_sparse.selection.candidate.Candidate` for each format that fits the weight
        matrix ``scan.weight`` ``(features, taps * columns)`` (columns in ``hwi`` order), or a
        sentence that says why one does not. Layers of this kind stay dense on other targets.
    schedules
        Rules with ``apply(func, target, tunable)``, tried before the built-in ones.
    """

    name: str
    pattern: type[Pattern]
    formats: tuple[type[Any], ...] = ()
    operators: Mapping[str, Operators] = field(default_factory=dict)
    schedules: tuple[ScheduleRule, ...] = ()


def _built_in(pattern: type[Pattern], *formats: type[Any]) -> Kind:
    return Kind(pattern.kind, pattern, formats, OPERATORS.parts().get(pattern.kind, {}))


BUILT_IN = (
    _built_in(Balanced, BalancedFormat),
    _built_in(Block, CompressedRowsFormat, SharedColumnsFormat, BlockFormat),
    _built_in(Joint, CompressedBanksFormat),
    _built_in(DepthwiseTaps, CompressedRowsFormat, DepthwiseTapsFormat),
    _built_in(FilterPruned),
    _built_in(Unstructured, CompressedRowsFormat),
)
