"""Tuning records in a file of JSON lines that several processes may append to."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import BinaryIO

import platformdirs
from pydantic import ValidationError
from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.base.line_files import appending, open_lines
from tvm_sparse.errors import InputError
from tvm_sparse.schedules.build import rules_for
from tvm_sparse.tuning.record import MEASURED, Record, Source, anchor_key
from tvm_sparse.tuning.space import Space, space_of
from tvm_sparse.tuning.workload import Workload, workload_of

FILE = "records.jsonl"

CONFIRMED_GAIN = 0.97
MEASURED_GAIN = 0.95
"""Ratios to the default below which a record counts: a single measurement must show more.

Gains of a per cent or two are of a function that runs alone, with warm caches; inside a network
they may be losses.
"""


class Database:
    """Records of ``path``: a directory (its ``records.jsonl``) or a ``.jsonl`` file.

    Lines are only ever appended, each in one write under a lock, so that a process may be killed
    at any time. A line that is not a record (torn, edited, of a later version) is skipped and
    counted in :attr:`skipped`. Reading does not create anything.

    Raises
    ------
    InputError
        The file is a link, a pipe, a device or a directory, or cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        given = Path(path)
        self.path = given if given.suffix == ".jsonl" else given / FILE
        self.skipped = 0
        self._records: dict[tuple[str, ...], list[Record]] = defaultdict(list)
        self._offset = 0
        self.refresh()

    def __iter__(self) -> Iterator[Record]:
        for records in self._records.values():
            yield from records

    def __len__(self) -> int:
        return sum(len(records) for records in self._records.values())

    def refresh(self) -> None:
        """Read what has been appended to the file since the last look."""
        try:
            file = open_lines(self.path, "rb")
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            found = f"cannot be read ({error.strerror or error})"
            raise InputError(str(self.path), found, "a file of records", "name another") from error
        with file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # another process is writing it
                self._offset += len(line)
                self._take(line)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            record = Record.model_validate_json(line)
        except ValidationError:
            self.skipped += 1
            return
        self._records[record.anchor].append(record)

    def add(self, records: Iterable[Record]) -> None:
        """Append ``records`` to the file."""
        lines = b"".join(r.model_dump_json(exclude_none=True).encode() + b"\n" for r in records)
        if not lines:
            return
        with appending(self.path) as file:
            file.write((b"\n" if _torn(file) else b"") + lines)
        self.refresh()

    def of(self, workload: Workload, space: Space, source: Source = MEASURED) -> list[Record]:
        """Return the records of an operator that compare with its rule's present default.

        Times that were modelled are never mixed with those that were measured.
        """
        key = anchor_key(workload.anchor, space.rule_name, space.rule.version)
        records = self._records.get(key)
        if not records:
            return []
        default = space.default.values
        return [r for r in records if r.default == default and r.source == source]

    def best(self, workload: Workload, space: Space, source: Source = MEASURED) -> Record | None:
        """Return the fastest record that is faster than the default schedule.

        Records of exactly this function come first, then confirmed ones of the same operator
        behind which something else was fused.
        """
        records = self.of(workload, space, source)
        mine = [r for r in records if r.function == workload.function]
        if any(r.confirmed for r in mine):
            return _fastest(mine)
        return _fastest(mine) or _fastest([r for r in records if r.confirmed])

    def schedule(
        self, func: tirx.PrimFunc, target: Target, source: Source = MEASURED
    ) -> s_tir.Schedule | None:
        """Return ``func`` scheduled by its best record, or ``None`` without one that fits."""
        workload = workload_of(func, target) if self._records else None
        if workload and not any(key[:3] == workload.anchor for key in self._records):
            return None
        space = space_of(func, target, rules_for(target)) if workload else None
        record = self.best(workload, space, source) if workload and space else None
        return space.schedule(record.point) if space and record else None

    def seconds(
        self, func: tirx.PrimFunc, target: Target, source: Source = MEASURED
    ) -> float | None:
        """Return the time of exactly ``func`` with its best record, else with its default."""
        workload = workload_of(func, target) if self._records else None
        if workload is None or not any(key[:3] == workload.anchor for key in self._records):
            return None
        space = space_of(func, target, rules_for(target))
        records = self.of(workload, space, source) if space else []
        mine = [r for r in records if r.function == workload.function]
        best = _fastest(mine)
        if best and best.microseconds:
            return best.microseconds * 1e-6
        defaults = [r.default_microseconds for r in mine if r.default_microseconds]
        return median(defaults) * 1e-6 if defaults else None

    def tried(self, func: tirx.PrimFunc, target: Target) -> bool:
        """Return whether schedules of exactly ``func`` were compared with its present default."""
        workload = workload_of(func, target) if self._records else None
        space = space_of(func, target, rules_for(target)) if workload else None
        if workload is None or space is None:
            return False
        return any(r.function == workload.function for r in self.of(workload, space))

    def merge(self, records: Iterable[Record]) -> int:
        """Append those of ``records`` that are not here yet; return how many those were."""
        known = {r.model_dump_json() for r in self}
        new = {r.model_dump_json(): r for r in records}
        added = [record for text, record in new.items() if text not in known]
        self.add(added)
        return len(added)

    def bests(self) -> list[Record]:
        """Return the best measured record of each function that has one better than the default."""
        functions: dict[tuple[str, ...], list[Record]] = defaultdict(list)
        for record in self:
            if record.source != MEASURED:
                continue
            functions[(*record.anchor, record.function)].append(record)
        found = (_fastest(records) for records in functions.values())
        return [record for record in found if record]


def default_path() -> Path:
    """Return the directory of the user's own records."""
    return platformdirs.user_data_path("tvm-sparse") / "tuning"


def _torn(file: BinaryIO) -> bool:
    """Whether the file ends in the middle of a line: its writer was killed."""
    size = file.seek(0, os.SEEK_END)
    if not size:
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


def confirmations(records: Iterable[Record]) -> list[Record]:
    """Return the confirmed ones of ``records``, of each schedule of a function only the last.

    Taking the best of several would reward luck.
    """
    return list({(r.function, r.point): r for r in records if r.confirmed}.values())


def _fastest(records: list[Record]) -> Record | None:
    """Return the fastest of ``records`` that beats the default; confirmed ones alone, if any."""
    confirmed = confirmations(records)
    limit = CONFIRMED_GAIN if confirmed else MEASURED_GAIN
    faster = [r for r in confirmed or records if (r.ratio or 1.0) < limit]
    return min(faster, key=lambda r: r.ratio or 1.0, default=None)
