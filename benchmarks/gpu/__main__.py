"""Run the GPU benchmark: ``python -m benchmarks.gpu [--parts grid] [--build] [--minutes 9.5]``.

Every row is saved as soon as it is there; a second call continues where the first one ended. What
fails or computes something else is saved as failed, and the next case goes on.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from benchmarks.gpu import device, prepare
from benchmarks.gpu.jobs import PARTS, Job, buildable, jobs
from benchmarks.gpu.results import Results, tell


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    options.deadline = time.monotonic() + options.minutes * 60
    failed = _build(options)
    if options.build:
        return 1 if failed else 0
    reason = device.missing()
    if reason:
        tell(f"built, but not measured: {reason}")
        return 2
    for part in options.parts:
        results = Results(f"gpu_{part}")
        for job in jobs(part, results.done, options):
            if job.name in options.skip:
                failed += 1
                continue
            if time.monotonic() + job.seconds > options.deadline:
                tell(f"{part}: {options.minutes:g} minutes are over; run it again to go on")
                return 3
            failed += _measured(job, results, options)
    return 1 if failed else 0


def _measured(job: Job, results: Results, options: argparse.Namespace) -> bool:
    """Save the rows of ``job``; return whether it failed."""
    try:
        for row in job.run():
            if row["case"] not in results.done:
                results.add(row)
    # One failure must not take the machine's time from all that follows.
    except Exception as error:
        results.fail(job.name, error)
        if not device.current().works():
            _restart(job, options)
        return True
    return False


def _restart(job: Job, options: argparse.Namespace) -> None:
    """Go on in a fresh process, without ``job``: after a wild access no call to CUDA succeeds."""
    left = (options.deadline - time.monotonic()) / 60
    command = [sys.executable, "-m", "benchmarks.gpu", "--parts", *options.parts]
    for name in ("target", "repeats", "workers", "flush"):
        command += [f"--{name}", str(getattr(options, name))]
    command += ["--minutes", f"{left:.2f}", *["--no-tune-libraries"] * (not options.tune_libraries)]
    command += ["--skip", *options.skip, job.name]
    tell("the GPU takes no more calls from this process: on in a fresh one")
    os.execv(sys.executable, command)


def _build(options: argparse.Namespace) -> int:
    """Build what is measured; return how many kernels and networks cannot be built."""
    from benchmarks.gpu import models

    wanted, failed = buildable(options.parts), 0
    built = prepare.build_all(wanted, options.target, options.workers, pack=not options.build)
    for position, (kernel, error) in enumerate(built, 1):
        failed += bool(error)
        tell(f"[{position}/{len(wanted)}] {kernel.name}" + (f": {error}" if error else ""))
    for name in models.NETWORKS if "models" in options.parts else ():
        try:
            models.build_artifacts(name, options.target)
            tell(f"network {name}")
        # A network needs packages that may be missing; the others are built all the same.
        except (Exception, SystemExit) as error:
            failed += 1
            tell(f"network {name}: {type(error).__name__}: {error}")
    if options.build:
        size = (
            sum(
                file.stat().st_size for file in prepare.code_files(prepare.KERNEL_CODE, models.CODE)
            )
            / 2**20
        )
        tell(f"built in {prepare.BUILT}: {size:.1f} MiB of machine code")
    return failed


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--target", default="cuda:sm_90", help="architecture to compile for")
    parser.add_argument("--build", action="store_true", help="only compile; needs no GPU")
    parser.add_argument("--minutes", type=float, default=9.5, help="stop after as many")
    parser.add_argument("--repeats", type=int, default=100, help="timed calls of each program")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument(
        "--flush", choices=device.FLUSHES, default="clean", help="what programs find in L2"
    )
    parser.add_argument(
        "--tune-libraries",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="tune Triton's block kernel, case by case: up to a minute each",
    )
    parser.add_argument("--skip", nargs="+", default=[], help="names of cases to leave out")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
