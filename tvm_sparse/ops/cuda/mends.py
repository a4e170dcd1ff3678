"""Ways to compute that a model prefers and a GPU must still confirm: each can be turned off.

A benchmark measures both: ``with using(Mends(held_banks=False)): ...`` around the choice of an
option *and* its :attr:`~tvm_sparse.selection.cuda.option.Option.build`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Mends:
    """What is on; the defaults are what the executor's counts and the fitted model say.

    ``step_padding`` is the fraction of columns that may be filled up for longer steps.
    ``held_banks`` loads a bank's values and indices before it stores any. ``lanes_apart`` gives the
    threads of an fp32 product rows of banks that are next to each other. ``words_beside`` gives the
    lanes of a stream words of indices that are. ``parts`` cuts each reduction into so many, where
    its steps allow it; 0 leaves that to the model, 1 cuts none. ``segments`` cuts that of streams,
    so that their activations fit on chip. ``clamped_loads`` lets the activations of streams that
    lie past the end be loaded from the last place: no load is behind a condition of its own.
    ``true_counts`` reads and multiplies the blocks that a block row has, not those that fill it up.
    ``block_engine`` is what multiplies blocks, banks and 2:4 weights where there is a choice,
    ``"mma.sync"`` or ``"wgmma"``; an empty text leaves that to the model. ``wave_rows`` gives the
    warps of a stream more weight rows, so that the activations are staged by fewer thread blocks.
    """

    step_padding: float = 0.08
    held_banks: bool = True
    lanes_apart: bool = True
    words_beside: bool = True
    parts: int = 0
    segments: bool = True
    clamped_loads: bool = True
    true_counts: bool = True
    block_engine: str = ""
    wave_rows: bool = True


OFF = Mends(
    step_padding=0.0,
    held_banks=False,
    lanes_apart=False,
    words_beside=False,
    parts=1,
    segments=False,
    clamped_loads=False,
    true_counts=False,
    block_engine="mma.sync",
    wave_rows=False,
)
"""What kernels were built with before there was a choice."""

_IN_USE: ContextVar[Mends] = ContextVar("mends", default=Mends())


def in_use() -> Mends:
    """Return what is on now."""
    return _IN_USE.get()


@contextlib.contextmanager
def using(mends: Mends) -> Iterator[None]:
    """Turn ``mends`` on, and what was on before again behind it."""
    token = _IN_USE.set(mends)
    try:
        yield
    finally:
        _IN_USE.reset(token)
