"""What this machine offers: instruction sets and cores."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path

_FLAG_LINES = ("flags", "Features")
"""Names of the line of ``/proc/cpuinfo`` that lists instruction sets, on x86 and on Arm."""


@functools.cache
def cpu_features(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """Return the flags that every processor of this machine has, as the kernel spells them."""
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


def cpu_quota(root: str = "/sys/fs/cgroup") -> int:
    """Return the whole processors the control group grants, or a huge number without a limit."""
    unlimited = 1 << 30
    for quota_file, period_file in (
        ("cpu.max", None),
        ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"),
    ):
        try:
            words = Path(root, quota_file).read_text().split()
            if period_file:
                words += Path(root, period_file).read_text().split()
            quota, period = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):
            continue
        if quota > 0 and period > 0:
            return max(1, math.ceil(quota / period))
    return unlimited


def _siblings(topology: str, cpu: int) -> str:
    """Return a text that is the same for all hyper-threads of one core."""
    for name in ("core_cpus_list", "thread_siblings_list"):
        try:
            return Path(topology, f"cpu{cpu}", "topology", name).read_text().strip()
        except OSError:
            continue
    return str(cpu)
