"""What a run of the queue gave, in twenty lines at most."""

from __future__ import annotations

from collections import Counter

from benchmarks.gpu import device
from benchmarks.gpu.queue.run import Queue
from benchmarks.gpu.queue.step import Step
from benchmarks.gpu.results import environment
from tvm_sparse.comparison.gpu_times import reason

LINES, WIDTH = 20, 150

NO_GPU = "small layers on a CPU: no time here says anything about a GPU"


def summary(queue: Queue, minutes: float) -> str:
    """Return the text: the GPU, a line for each step, the first failures."""
    about, chip = environment(), device.current().about()
    where = ", ".join(f"{name} {value}" for name, value in chip.items() if name != "gpu")
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    used = sum(queue.spent.values()) / 60
    state = "time over: run it again to go on" if queue.over else "whole"
    lines = [
        f"GPU queue on {about['gpu']}, {about['date']}: "
        f"{used:.1f} of {minutes:.3g} minutes, {state}",
        f"{versions}; {where or NO_GPU}",
        *(_step(queue, step) for step in queue.steps),
    ]
    failed = [
        f"  failed: {step.name}: {line['piece']}: {line['failed']}"
        for step in queue.steps
        for line in queue.store.last(step.name)
        if "failed" in line
    ]
    room = LINES - len(lines)
    if len(failed) > room:
        failed = [*failed[: room - 1], f"  and {len(failed) - room + 1} more failed"]
    return "\n".join(line[:WIDTH] for line in [*lines, *failed]) + "\n"


def _step(queue: Queue, step: Step) -> str:
    """Return the line of a step: what became of its pieces, and what its rows tell."""
    last = queue.store.last(step.name)
    rows = [row for line in last for row in line.get("rows", ())]
    done, failed = sum("rows" in line for line in last), sum("failed" in line for line in last)
    skipped = Counter(why for (name, _), why in queue.skipped.items() if name == step.name)
    kept = max(0, queue.kept.get(step.name, 0) - done - failed)
    told = [f"{done} done"] * bool(done) + [f"{failed} failed"] * bool(failed)
    told += [f"{kept} as before"] * bool(kept) + [f"{n} {why}" for why, n in skipped.items()]
    try:
        words = step.tells(rows) if rows else ""
        # Ratios of a CPU to itself would be taken for those of a GPU.
        words = "" if device.current().ptx else words
    except Exception as error:
        words = reason(error)
    spent = queue.spent.get(step.name, 0.0) / 60
    line = f"{step.name} ({spent:.1f} of {step.minutes:g} min): {', '.join(told) or 'not begun'}"
    return f"{line}; {words}" if words else line
