"""Run the queue: ``benchmarks/gpu/run.sh --queue --minutes 25 --out DIRECTORY``.

``--build`` builds what it needs without a GPU and packs a folder that travels. ``--stand-in`` runs
it whole on this CPU, on small layers; its times say nothing about a GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.gpu import device, prepare, stand_in
from benchmarks.gpu.queue import bundle, hopper, networks, open_extents
from benchmarks.gpu.queue.background import Background
from benchmarks.gpu.queue.collect import LEDGER
from benchmarks.gpu.queue.run import Queue
from benchmarks.gpu.queue.step import Plan
from benchmarks.gpu.queue.steps import steps
from benchmarks.gpu.queue.store import Store, read
from benchmarks.gpu.queue.summary import summary
from benchmarks.gpu.queue.supervise import going_on, supervise
from benchmarks.gpu.results import tell
from benchmarks.harness.common import load

SUMMARY = "summary.txt"
EARLIER = prepare.BUILT / "queue"
"""Where a run's files are looked for by the next one, besides its own folder."""

COMPILED = {"networks": networks, "open": open_extents}
"""Steps whose artifacts are compiled in the background."""


def main(arguments: list[str]) -> int:
    """Run, and return 0 if everything was run, 1 if a piece failed, 3 if the time was over."""
    options = _options(arguments)
    if not options.session and not options.build:
        return supervise(arguments, options.out, options.minutes)
    small = options.stand_in
    plan = Plan(options.target, small, 3 if small else options.repeats, options.workers)
    background = Background(
        options.target, workers=0 if small or options.build else options.workers, ptx=small
    )
    table = [step for step in steps(background) if step.name in (options.steps or [step.name])]
    if options.build or (small and device.STAND_IN not in os.environ):
        failed = _build(plan, table, pack=not options.build)
        if options.build:
            bundle.write(options.bundle, options.part)
            return int(failed)
        stand_in.enter(["-m", "benchmarks.gpu.queue", *arguments])
    if why := device.missing():
        tell(f"nothing can be measured: {why}")
        return 2
    earlier = [*read(EARLIER / "queue.jsonl"), *load(LEDGER).get("rows", [])]
    store = Store(options.out, options.session, [] if small else earlier)

    def restart() -> None:
        background.close()
        left = (deadline - time.monotonic()) / 60
        tell("the GPU takes no more calls from this process: on in a fresh one")
        command = ["-m", "benchmarks.gpu.queue", *going_on(arguments, left, options.session)]
        os.execv(sys.executable, [sys.executable, *command])

    deadline = time.monotonic() + options.minutes * 60
    queue = Queue(plan, table, store, background, deadline=deadline, restart=restart)
    for step in table:
        background.pack(step.kernels(plan))
    for name, compiled in COMPILED.items():
        if any(step.name == name for step in table):
            compiled.start(plan, background)
    try:
        queue.run()
    finally:
        background.close()
        text = summary(queue, options.minutes)
        (options.out / SUMMARY).write_text(text, encoding="utf-8")
        print(text, flush=True)
    failed = any("failed" in line for step in table for line in store.last(step.name))
    return 3 if queue.over else int(failed)


def _build(plan: Plan, table: list, *, pack: bool) -> bool:
    """Build all kernels of the steps; return whether one cannot be built."""
    wanted = {kernel.name: kernel for step in table for kernel in step.kernels(plan)}
    workers, failed = plan.workers, False
    kernels = list(wanted.values())
    built = prepare.build_all(kernels, plan.target, workers, pack=pack, ptx=plan.small)
    for position, (kernel, error) in enumerate(built, 1):
        failed |= bool(error)
        tell(f"[{position}/{len(wanted)}] {kernel.name}" + (f": {error}" if error else ""))
    if not plan.small and any(step.name == "hopper" for step in table):
        error = hopper.build()
        failed |= bool(error)
        tell(f"kernels by hand: {error or 'compiled'}")
    for step in table if plan.small else ():
        if step.name in COMPILED:
            COMPILED[step.name].build_all(plan, ptx=True)
    return failed


def _options(arguments: list[str]) -> argparse.Namespace:
    names = [step.name for step in steps(Background("", workers=0, ptx=False))]
    parser = argparse.ArgumentParser(prog="benchmarks.gpu.queue", description=__doc__)
    parser.add_argument("--minutes", type=float, default=9.0, help="stop after as many")
    parser.add_argument("--out", type=Path, default=EARLIER, help="folder of the results")
    parser.add_argument("--steps", nargs="+", choices=names, help="some steps; all without any")
    parser.add_argument("--target", default="cuda:sm_90", help="architecture to compile for")
    parser.add_argument("--repeats", type=int, default=100, help="timed calls of each program")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--build", action="store_true", help="only build and pack; needs no GPU")
    parser.add_argument("--bundle", type=Path, default=bundle.PLACE, help="folder that travels")
    parser.add_argument("--part", type=int, default=45, help="MB of one of its parts, at most")
    parser.add_argument("--stand-in", action="store_true", help="small, on this CPU")
    parser.add_argument("--session", help="name of this call, of the process that runs it")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
