"""Rows of sums: the axes of the output, or the numbered positions of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.target import Target

from tvm_sparse.base.targets import threads_of
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.marks import flat


@dataclass(frozen=True)
class NumberedRows:
    """The leading axes of the sums.

    They are those of the output, or the positions of an image are numbered, in as many ``parts`` of
    equal size as there are threads. A register tile then spans as many positions as suit the
    registers, whatever the width of an image is.
    """

    contraction: Contraction
    parts: int | None

    @classmethod
    def of(cls, c: Contraction, target: Target, *, numbered: bool) -> NumberedRows:
        """Return them for ``c``, with positions ``numbered`` where all threads get as many.

        TVM finds no elements of parts in vectors of which the last one is partial.
        """
        threads = threads_of(target)
        even = numbered and c.is_pointwise and c.positions % threads == 0
        found = even and (threads == 1 or c.features % LANES == 0)
        return cls(c, threads if found else None)

    @property
    def _plain(self) -> int:
        """How many leading axes of the output are those of the sums."""
        c = self.contraction
        return len(c.lead) if self.parts is None else len(c.lead) - len(c.taps)

    @property
    def extents(self) -> tuple[Any, ...]:
        """Extents of the axes."""
        plain = self.contraction.lead[: self._plain]
        if self.parts is None:
            return plain
        parts = (self.parts,) if self.parts > 1 else ()
        return (*plain, *parts, self.contraction.positions // self.parts)

    def numbered(self, lead: list[Any]) -> list[Any]:
        """Return where the sums of an output row are."""
        return self._moved(lead, self.contraction.lead, self.extents)

    def lead(self, index: list[Any]) -> list[Any]:
        """Return the output row that has the sums at ``index``."""
        return self._moved(index, self.extents, self.contraction.lead)

    def _moved(self, index: list[Any], before: Any, after: Any) -> list[Any]:
        """Return ``index`` in axes of extents ``before`` as one in those ``after``."""
        if self.parts is None:
            return list(index)
        position = flat(index[self._plain :], before[self._plain :])
        return [*index[: self._plain], *unravel(position, after[self._plain :])]
