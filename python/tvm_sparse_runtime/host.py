"""What this machine offers: instruction sets and cores."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import platform
from pathlib import Path

_FLAG_LINES = ("flags", "Features")
"""Names of the line of ``/proc/cpuinfo`` that lists instruction sets, on x86 and on Arm."""

ARCH_PRCTL, REQUEST_STATE, TILE_DATA = 158, 0x1023, 18
"""Of Linux on x86: the system call for more state of registers, its request for a process,
and the state of AMX (``Documentation/arch/x86/xstate.rst``)."""


@functools.cache
def cpu_features(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """Return the flags that every processor of this machine has, as the kernel spells them.

    Those of AMX count where the system lets this process use its registers.
    """
    flags = _flags(path)
    tiles = frozenset(flag for flag in flags if flag.startswith("amx_"))
    return flags - tiles if tiles and not tiles_allowed() else flags


def tiles_allowed() -> bool:
    """Ask the system for AMX's registers, for all threads; whether it grants them."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_STATE, TILE_DATA) == 0


def _flags(path: str) -> frozenset[str]:
    """Return the flags in ``path`` that all processors have."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    flags = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in _FLAG_LINES:
            flags.append(frozenset(value.split()))
    return frozenset.intersection(*flags) if flags else frozenset()


def physical_cores(topology: str = "/sys/devices/system/cpu") -> int:
    """Return the physical cores this process may run on, at least 1.

    Hyper-threads of one core count once; a CPU quota of the control group counts as a limit.
    """
    cores = {_siblings(topology, cpu) for cpu in os.sched_getaffinity(0)}
    return max(1, min(len(cores), cpu_quota()))


def cpu_quota(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> int:
    """Return the whole processors the control groups grant, or a huge number without a limit.

    Each group around that of this process may set a limit; the least counts.
    """
    quotas = [_quota(group) for group in _groups(root, own)]
    return min((quota for quota in quotas if quota is not None), default=1 << 30)


def _groups(root: str, own: str) -> list[Path]:
    """Return the folders of the control groups that this process is in, and of their roots."""
    found = [Path(root), Path(root, "cpu")]
    try:
        lines = Path(own).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        inner = Path(root, "cpu" if controllers else "", path.lstrip("/"))
        found += [inner, *inner.parents]
    return [group for group in dict.fromkeys(found) if group.is_relative_to(root)]


def _quota(group: Path) -> int | None:
    """Return the whole processors that one control group grants, None without a limit."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = (int(w) for name in names for w in (group / name).read_text().split())
        except (OSError, ValueError):
            continue
        if quota > 0 and period > 0:
            return max(1, math.ceil(quota / period))
    return None


def _siblings(topology: str, cpu: int) -> str:
    """Return a text that is the same for all hyper-threads of one core."""
    for name in ("core_cpus_list", "thread_siblings_list"):
        try:
            return Path(topology, f"cpu{cpu}", "topology", name).read_text().strip()
        except OSError:
            continue
    return str(cpu)
