"""The door for third parties: a registered kind joins detector, candidates and schedules."""

from __future__ import annotations

from tvm_sparse.base.table import Table
from tvm_sparse.kinds import BUILT_IN, Kind
from tvm_sparse.patterns.families import FAMILIES
from tvm_sparse.schedules.build import OWN_RULES
from tvm_sparse.selection.operators import OPERATORS

__all__ = ["Kind", "kinds", "register", "unregister"]

_KINDS: Table[Kind] = Table("kind", {kind.name: kind for kind in BUILT_IN})


def register(kind: Kind) -> Kind:
    """Add ``kind``; a second kind of the same name is refused."""
    _KINDS.add(kind.name, kind)
    FAMILIES.add(kind.name, kind.pattern)
    OWN_RULES.add(kind.name, kind.schedules)
    OPERATORS.add(kind.name, kind.operators)
    return kind


def unregister(name: str) -> None:
    """Remove the kind called ``name``; unknown names are ignored."""
    for table in (_KINDS, FAMILIES, OWN_RULES, OPERATORS):
        table.remove(name)


def kinds() -> dict[str, Kind]:
    """Return all registered kinds by name, in registration order."""
    return _KINDS.parts()
