"""The queue: what a GPU is asked, in the order in which the answers matter."""

from __future__ import annotations

from functools import partial

from benchmarks.gpu.queue import (
    again,
    cpu,
    flushes,
    hopper,
    library_table,
    mends,
    networks,
    open_extents,
    profiles,
    sanity,
    schedules,
    whole,
)
from benchmarks.gpu.queue.background import Background
from benchmarks.gpu.queue.step import Step


def steps(background: Background) -> tuple[Step, ...]:
    """Return the table; networks are compiled in the ``background``."""
    return (
        Step(
            "sanity",
            *(2.0, "chip, clocks, L2; small layers of every operator", "whether to go on"),
            *(sanity.pieces, sanity.kernels, sanity.tells),
        ),
        Step(
            "flush",
            *(1.0, "dirty, clean, no flush: dense, banks, blocks, one element", "what a time is"),
            *(flushes.pieces, flushes.kernels, flushes.tells),
        ),
        Step(
            "library",
            *(3.0, "dense libraries over rows, columns, features, dtype", "the dense side"),
            *(library_table.pieces, lambda plan: (), library_table.tells),
        ),
        Step(
            "profiler",
            *(4.0, "ncu on eight kernels: stalls, shared memory, L2", "the order of the mends"),
            *(profiles.pieces, profiles.kernels, profiles.tells),
        ),
        Step(
            "mends",
            *(6.0, "each change of a kernel on and off", "keep or drop it"),
            *(
                partial(mends.pieces, mends.MENDS, "mend_times"),
                partial(mends.kernels, mends.MENDS),
                mends.tells,
            ),
        ),
        Step(
            "hopper",
            *(3.0, "wgmma by hand: dense, blocks, banks, 2:4", "the bound for generated kernels"),
            *(hopper.pieces, lambda plan: (), hopper.tells),
        ),
        Step(
            "again",
            *(3.0, "contaminated rows, Triton tuned", "the ratios that were withdrawn"),
            *(again.pieces, again.kernels, again.tells),
        ),
        *(
            Step(
                part,
                *(minutes, f"{runs} and libraries", "the public page; the chip's model"),
                *(partial(whole.pieces, part), partial(whole.kernels, part), again.tells),
            )
            for part, minutes, runs in (
                ("grid", 4.0, "8192 x 8192 over patterns, zeros and rows, ours"),
                ("papers", 3.0, "layers of the papers, mixed patterns, ours"),
                ("depthwise", 1.0, "depthwise layers of mobile networks, ours"),
                ("convolutions", 1.0, "convolutions of ResNet-50, ours"),
                ("two_four", 1.0, "2:4 layers of transformers with many rows, ours"),
                ("bytes", 1.0, "layers of bytes beside fp16, ours"),
            )
        ),
        Step(
            "networks",
            *(4.0, "whole networks, batch 1 and 32, and PyTorch's graphs", "whole networks"),
            *(partial(networks.pieces, background=background), lambda plan: (), networks.tells),
        ),
        Step(
            "open",
            *(
                1.0,
                "open rows: libraries and our tiles; attention, bytes",
                "where a library is asked",
            ),
            *(partial(open_extents.pieces, background=background), lambda plan: ()),
            open_extents.tells,
        ),
        Step(
            "schedules",
            *(6.0, "three operators tuned, 40 random schedules", "records; the chip's model"),
            *(schedules.pieces, lambda plan: (), schedules.tells),
        ),
        Step(
            "cpu",
            *(15.0, "ResNet-50, BERT on 16, 8, 4 threads, float and int8", "rows of more threads"),
            *(cpu.pieces, lambda plan: (), cpu.tells),
        ),
    )
