"""The door for third parties: kinds join detector, candidates and schedules; devices, all of it."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_sparse.base.numerics import FLOAT32, Numerics
from tvm_sparse.base.table import Table
from tvm_sparse.kinds import BUILT_IN, Kind
from tvm_sparse.machine.engine.registry import OTHER_NUMERICS
from tvm_sparse.passes import pipeline
from tvm_sparse.passes.device import DevicePasses
from tvm_sparse.patterns.families import FAMILIES
from tvm_sparse.schedules import build
from tvm_sparse.schedules.build import OWN_RULES
from tvm_sparse.schedules.device import Device
from tvm_sparse.selection.candidates import DENSE_OPERATORS, DenseOperators
from tvm_sparse.selection.operators import OPERATORS

__all__ = ["Kind", "kinds", "register", "register_device", "unregister", "unregister_device"]

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


def register_device(
    kind: str,
    device: Device,
    passes: DevicePasses,
    dense: DenseOperators,
    numerics: Iterable[Numerics] = (FLOAT32,),
) -> None:
    """Let models be compiled for targets of TVM's ``kind``; a second device of a kind is refused.

    Parameters
    ----------
    kind
        The name of a kind of TVM's targets, such as ``"c"``.
    device
        How functions are scheduled and built.
    passes
        What happens to a model behind the first phase.
    dense
        Yields the candidates of a layer that do not care for zeros, the direct sum first. Sparse
        ones come from kinds, whose ``operators`` name the target's kind.
    numerics
        What these multiply. Layers of other dtypes keep TVM's own operators.
    """
    build.DEVICES.add(kind, device)
    pipeline.DEVICES.add(kind, passes)
    DENSE_OPERATORS.add(kind, dense)
    OTHER_NUMERICS[kind] = tuple(numerics)


def unregister_device(kind: str) -> None:
    """Remove the device of TVM's ``kind``; unknown ones are ignored."""
    for table in (build.DEVICES, pipeline.DEVICES, DENSE_OPERATORS):
        table.remove(kind)
    OTHER_NUMERICS.pop(kind, None)


def kinds() -> dict[str, Kind]:
    """Return all registered kinds by name, in registration order."""
    return _KINDS.parts()
