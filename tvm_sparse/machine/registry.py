"""Which machine a target means."""

from __future__ import annotations

from dataclasses import replace

from tvm.target import Target, codegen

from tvm_sparse.base.table import Table
from tvm_sparse.base.targets import device_name
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.machine.aarch64_neon import NEON
from tvm_sparse.machine.plain import PLAIN
from tvm_sparse.machine.record import Machine
from tvm_sparse.machine.x86_amx import AVX512_AMX
from tvm_sparse.machine.x86_avx2 import AVX, AVX2, AVX_VNNI
from tvm_sparse.machine.x86_avx512 import AVX512, AVX512_BF16, AVX512_BW, AVX512_VBMI, AVX512_VNNI

_OWN = (
    *(PLAIN, NEON, AVX, AVX2, AVX_VNNI),
    *(AVX512, AVX512_BW, AVX512_VNNI, AVX512_VBMI, AVX512_BF16, AVX512_AMX),
)

MACHINES: Table[Machine] = Table("machine", {m.name: m for m in _OWN})
"""A target is the last one whose features it has: what third parties add is asked first."""


def machine_of(target: Target) -> Machine:
    """Return the machine of a CPU target."""
    if device_name(target) != "cpu":
        raise UnsupportedError("target", f"kind '{target.kind.name}'", "a CPU ('llvm')")
    features = features_of(target)
    machine = next(m for m in reversed([*MACHINES]) if features.issuperset(m.features))
    kept = dict(machine.kept).get(chip_of(target))
    if kept is None:
        return machine
    return replace(machine, caches=replace(machine.caches, weights=kept))


def chip_of(target: Target) -> str:
    """Return LLVM's name of the chip, empty if ``target`` has none."""
    return str(target.attrs.get("mcpu", ""))


def features_of(target: Target) -> frozenset[str]:
    """Return LLVM's names of the features that ``target`` has."""
    name = str(target)
    if name not in _FEATURES:
        with target:
            _FEATURES[name] = frozenset(map(str, codegen.llvm_get_cpu_features(target)))
    return _FEATURES[name]


def rounds_once(target: Target) -> bool:
    """Whether a product and a sum of ``target`` are one instruction, with one rounding."""
    return not features_of(target).isdisjoint(("fma", "neon"))


_FEATURES: dict[str, frozenset[str]] = {}
"""What LLVM was asked before: cost models ask for every candidate."""
