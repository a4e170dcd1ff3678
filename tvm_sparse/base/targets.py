"""What a user may call a target, and the TVM target that it means."""

from __future__ import annotations

import difflib
import os
import platform
from dataclasses import dataclass

import tvm
from tvm.target import Target, codegen

from tvm_sparse.errors import InputError
from tvm_sparse_runtime import host, threads

SHARED_MEMORY_BYTES = {
    "sm_80": 166912,
    "sm_86": 101376,
    "sm_87": 166912,
    "sm_89": 101376,
    "sm_90": 232448,
    "sm_90a": 232448,
    "sm_100": 232448,
    "sm_103": 232448,
    "sm_120": 101376,
}
"""Shared memory that one thread block may use, by architecture (CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability"). Older ones lack what the kernels use: cp.async
and the m16n8k16 tensor-core shape. An ``a`` behind an architecture adds instructions that no later
one has (``wgmma``): such code runs on that architecture alone."""

GPUS = {
    "a100": "sm_80",
    "a10": "sm_86",
    "rtx4090": "sm_89",
    "l4": "sm_89",
    "h100": "sm_90",
    "h200": "sm_90",
    "rtx5090": "sm_120",
}
"""GPUs whose data the cost model has (``selection/cuda/chips``), and their architectures. The last
one of an architecture stands for it, and for what is newer up to the next one here."""

LIMITS = ("max_threads_per_block", "max_shared_memory_per_block", "thread_warp_size")
"""Attributes of a CUDA target that schedules ask for."""

PORTABLE_ARCHS = ("sm_80", "sm_90")
"""What ``"cuda"`` means on a machine without a GPU."""


@dataclass(frozen=True)
class ResolvedTarget:
    """A TVM target, and whether its code runs on this machine."""

    target: Target
    runs_here: bool

    @property
    def timed_here(self) -> bool:
        """Whether functions are timed one by one: here, and not launched by a host of their own."""
        return self.runs_here and not is_launched(self.target)


def parse_target(name: str | Target) -> ResolvedTarget:
    """Return the target called ``name``.

    ``"cpu"`` is this machine with its real features; ``"cpu:<name>"`` another CPU of the same
    architecture in LLVM's spelling (``cpu:haswell``, ``cpu:skylake-avx512``). ``"aarch64"`` is any
    64-bit Arm CPU with Linux, which has NEON, ``"aarch64:<name>"`` one of them. ``"cuda:sm_90"`` is
    an NVIDIA GPU, ``"cuda:sm_80,sm_90"`` code for both; ``"cuda"`` this machine's GPU, or where
    there is none :data:`PORTABLE_ARCHS`. ``"cuda:h100"`` (one of :data:`GPUS`) is code for its
    architecture, chosen by the cost model of that GPU. A TVM ``Target`` is taken as it is; one for
    CUDA gets the limits and the host that it lacks.

    Raises
    ------
    InputError
        There is no such target, or it asks for several programs (:func:`programs_of`).
    """
    if isinstance(name, Target):
        target = _completed(name)
        return ResolvedTarget(target, _runs_here(target))
    if len(programs := programs_of(name)) > 1:
        raise InputError(
            "target",
            f"'{name}' is {len(programs)} programs",
            "one",
            f"name {' or '.join(map(str, programs))}; only compile takes several",
        )
    kind, _, rest = name.partition(":")
    if kind == "cuda":
        if rest in GPUS:
            target = _cuda((GPUS[rest],), model=rest)
        else:
            target = _cuda(tuple(a.strip() for a in rest.split(",")) if rest else _default_archs())
        return ResolvedTarget(target, _runs_here(target))
    if kind not in ("cpu", "aarch64"):
        raise InputError(
            "target",
            f"'{name}' is unknown",
            "'cpu', 'cpu:<LLVM name>', 'aarch64', 'cuda', 'cuda:sm_90' or a TVM Target",
            "for this machine use --target cpu",
        )
    if kind == "cpu":
        target = _cpu(rest or codegen.llvm_get_system_cpu(), codegen.llvm_get_system_triple())
    else:
        target = _cpu(rest or "generic", "aarch64-linux-gnu")
    return ResolvedTarget(target, _runs_here(target))


def programs_of(name: str | Target) -> list[str | Target]:
    """Return the targets of the programs that code for ``name`` is: most are one.

    Architectures whose code runs on newer GPUs share a program. One that stands alone has
    instructions that no other has, so it gets a program of its own: ``cuda:sm_80,sm_90,sm_90a`` is
    ``cuda:sm_80,sm_90`` and ``cuda:sm_90a``.
    """
    if isinstance(name, Target) or not name.startswith("cuda:"):
        return [name]
    archs = [arch.strip() for arch in name.removeprefix("cuda:").split(",")]
    shared, alone = [a for a in archs if portable(a)], [a for a in archs if not portable(a)]
    return [f"cuda:{','.join(one)}" for one in ([shared] if shared else []) + [[a] for a in alone]]


def spelled(target: Target) -> str:
    """Return ``target`` as :func:`parse_target` takes it: ``cpu:znver4``, ``cuda:sm_80,sm_90``."""
    if target.kind.name == "cuda":
        return f"cuda:{target.attrs.get('model') or ','.join(cuda_archs(target))}"
    cpu = str(target.attrs.get("mcpu", ""))
    return f"cpu:{cpu}" if target.kind.name == "llvm" and cpu else str(target.kind.name)


def device_name(target: Target) -> str:
    """Return what TVM's runtime calls the device that code for ``target`` runs on: ``"cpu"``."""
    kind = str(target.kind.name)
    return {"llvm": "cpu"}.get(kind, kind)


def is_launched(target: Target) -> bool:
    """Whether functions for ``target`` are launched by a host, whose code is another."""
    host = target.host
    return target.kind.name == "cuda" or (host is not None and str(host.kind) != str(target.kind))


def shares_loops(target: Target) -> bool:
    """Whether the loops of functions for ``target`` are shared by threads of a CPU."""
    return device_name(target) == "cpu"


def gpu_of(target: Target) -> str:
    """Return which of :data:`GPUS` a CUDA target is chosen for.

    The one that it names, or the one that stands for the oldest of its architectures.
    """
    named = str(target.attrs.get("model") or "")
    if named in GPUS:
        return named
    number = capability(str(target.attrs["arch"]))
    known = {capability(arch): gpu for gpu, arch in GPUS.items()}
    older = [arch for arch in known if arch <= number]
    return known[max(older, default=min(known))]


def threads_of(target: Target) -> int:
    """Return how many threads code for ``target`` runs on: ``TVM_NUM_THREADS``, or its cores."""
    cores = target.attrs.get("num-cores") or os.cpu_count() or 1
    return threads.asked() or int(cores)


def cuda_archs(target: Target) -> tuple[str, ...]:
    """Return the architectures that the machine code of a CUDA target is made for, else none."""
    if target.kind.name != "cuda":
        return ()
    named = tuple(key for key in map(str, target.keys) if key.startswith("sm_"))
    return named or (str(target.attrs["arch"]),)


def newest_arch(target: Target) -> str:
    """Return the newest of a CUDA target's architectures, ``"sm_90"``."""
    return max(cuda_archs(target), key=lambda arch: (capability(arch), not portable(arch)))


def capability(arch: str) -> int:
    """Return the compute capability of the GPUs of an architecture, ten times: 90 of ``sm_90a``."""
    return int(arch.removeprefix("sm_").removesuffix("a"))


def portable(arch: str) -> bool:
    """Whether later GPUs understand code for ``arch``, as PTX at least."""
    return not arch.endswith("a")


def _runs_here(target: Target) -> bool:
    if target.kind.name == "llvm":
        triple = str(target.attrs.get("mtriple") or platform.machine())
        named = str(target.attrs.get("mcpu", ""))
        same = triple.startswith(platform.machine())
        return same and named in ("", codegen.llvm_get_system_cpu())
    here = _gpu_arch()
    if target.kind.name != "cuda" or here is None:
        return False
    return capability(here) in map(capability, cuda_archs(target))


def _gpu_arch() -> str | None:
    """Return the architecture of this machine's first GPU, if it has one."""
    device = tvm.cuda(0)
    if not device.exist:
        return None
    return "sm_" + str(device.compute_version).replace(".", "")


def _default_archs() -> tuple[str, ...]:
    here = _gpu_arch()
    return PORTABLE_ARCHS if here is None else (here,)


def _cuda(archs: tuple[str, ...], **options: str) -> Target:
    """Return a target whose schedules respect the limits of all ``archs``."""
    unknown = next((a for a in archs if a not in SHARED_MEMORY_BYTES), None)
    if unknown is not None:
        raise InputError(
            "target",
            f"no CUDA architecture '{unknown}'",
            f"some of {', '.join(SHARED_MEMORY_BYTES)}, or one of {', '.join(GPUS)}",
            "run `nvidia-smi --query-gpu=compute_cap --format=csv` on the GPU machine",
        )
    lowest = min(archs, key=capability)
    device = {
        "kind": "cuda",
        "keys": ["cuda", "gpu", *archs],
        "arch": lowest,
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": min(SHARED_MEMORY_BYTES[a] for a in archs),
        "thread_warp_size": 32,
        **options,
    }
    # The host only launches kernels: no instruction sets beyond the architecture's baseline.
    host = {"kind": "llvm", "mtriple": codegen.llvm_get_system_triple()}
    return Target(device, host=Target(host))


def _completed(target: Target) -> Target:
    """Return a CUDA target with a host, and with the limits that schedules ask for."""
    archs = cuda_archs(target)
    has_host = target.host is not None
    if not archs or (has_host and all(limit in target.attrs for limit in LIMITS)):
        return target
    whole, keys = _cuda(archs), [str(key) for key in target.keys]
    device = {"kind": "cuda", "keys": keys, **dict(whole.attrs), **dict(target.attrs)}
    return Target(device, host=target.host or whole.host)


def _cpu(cpu: str, triple: str) -> Target:
    known = [str(c) for c in codegen.llvm_get_cpu_archlist(_llvm(triple))]
    if cpu not in known:
        close = difflib.get_close_matches(cpu, known, n=3)
        raise InputError(
            "target",
            f"LLVM knows no CPU '{cpu}'",
            "an LLVM CPU name",
            f"did you mean {', '.join(close)}" if close else "see `llc -mcpu=help`",
        )
    withheld = _withheld(cpu, triple) if cpu == codegen.llvm_get_system_cpu() else []
    options = {"mattr": withheld} if withheld else {}
    return _llvm(triple, mcpu=cpu, **{"num-cores": os.cpu_count() or 1}, **options)


def _withheld(cpu: str, triple: str) -> list[str]:
    """Return the attributes without the tile registers, where the system keeps them from us.

    LLVM tells a CPU by its model. Virtual machines and old kernels leave AMX out.
    """
    if "amx_tile" in host.cpu_features():
        return []
    known = map(str, codegen.llvm_get_cpu_features(_llvm(triple, mcpu=cpu)))
    return [f"-{feature}" for feature in sorted(known) if feature.startswith("amx-")]


def _llvm(triple: str, **options: str | int | list[str]) -> Target:
    return Target({"kind": "llvm", "mtriple": triple, **options})
