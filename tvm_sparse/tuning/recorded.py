"""Schedules out of tuning records, as schedule rules that are tried before all others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.decisions import Decision
from tvm_sparse.tuning.database import Database, default_path
from tvm_sparse.tuning.record import MEASURED, MODELLED, Source
from tvm_sparse.tuning.workload import target_name

SHIPPED = Path(__file__).parent / "records"
"""Records that come with the package, one file a target."""


class Tuned(ScheduleRule):
    """Schedules what the user's own database knows something better for than the default."""

    origin = "tuned"
    source: ClassVar[Source] = MEASURED

    def __init__(self, database: Database) -> None:
        self.database = database

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Return ``func`` scheduled by its best record; a record leaves nothing to tune."""
        return None if tunable else self.database.schedule(func, target, self.source)

    def seconds(self, func: tirx.PrimFunc, target: Target) -> float | None:
        """Return the time of exactly ``func`` with the best schedule that is known."""
        return self.database.seconds(func, target, self.source)


class Shipped(Tuned):
    """The same out of the records that come with the package.

    What ``own`` has tried on this machine it knows better: tuning measures shipped schedules, too.
    """

    origin = "shipped record"

    def __init__(self, database: Database, own: Database) -> None:
        super().__init__(database)
        self.own = own

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Return ``func`` scheduled by its best record, unless it was tuned here."""
        found = super().apply(func, target, tunable)
        return None if found is None or self.own.tried(func, target) else found


class Modelled(Shipped):
    """The same for times that were modelled, of functions that nobody has measured."""

    origin = "modelled record"
    source = MODELLED

    def __init__(self, database: Database) -> None:
        super().__init__(database, database)


def recorded_rules(
    target: Target, database: str | Path | Database | None = None
) -> tuple[ScheduleRule, ...]:
    """Return the rules that look into ``database`` (the user's own by default), then ours."""
    if not isinstance(database, Database):
        database = Database(default_path() if database is None else database)
    return (Tuned(database), Shipped(shipped(target), database), Modelled(database))


def shipped(target: Target) -> Database:
    """Return the package's records for ``target``."""
    return _shipped(shipped_path(target))


def shipped_path(target: Target) -> Path:
    """Return the file of the package's records for ``target``, which need not exist."""
    return shipped_file(target_name(target))


def shipped_file(target: str) -> Path:
    """Return the same for a target's name in records, as in ``"llvm znver5 2 threads"``."""
    return SHIPPED / f"{re.sub(r'[^a-z0-9]+', '-', target.lower())}.jsonl"


def origins(decisions: Sequence[Decision], rules: dict[str, str | None]) -> None:
    """Note in each decision where its layer's schedule comes from.

    ``rules`` has the rule's name of each layer.
    """
    names = {rule.__name__: rule.origin for rule in (Tuned, Shipped, Modelled)}
    for decision in decisions:
        decision.schedule = names.get(rules.get(decision.layer) or "", decision.schedule)


@lru_cache(maxsize=4)
def _shipped(path: Path) -> Database:
    return Database(path)
