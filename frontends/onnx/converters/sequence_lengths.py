"""Sequences of their own lengths in one batch: all steps are run, those behind an end left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_CLOSED = 1e4
"""Added to the argument of a sigmoid: it is one, or zero where it is taken away."""


def of_own_lengths(
    run: Callable[..., list[Tensor]],
    x: Tensor,
    lengths: Tensor,
    states: Sequence[Tensor],
    *,
    reverse: bool,
) -> list[Tensor]:
    """Return all hidden states of a layer, zero behind an end, and the last one of each state.

    A step does not depend on later ones, so these may be run. Backwards, a sequence begins at its
    own end: its elements are taken in that order, and its states put back. The state of an LSTM's
    cell stays as it is where its input gate is zero and its forget gate one. Behind an end its
    hidden state is zero, as is its output gate: onnxruntime's is, where it rounds all of them.

    Parameters
    ----------
    run
        :func:`.direction_of` of a cell, its weights and its first states.
    x
        (steps, batch, input).
    lengths
        Integers, (batch,); from zero to as many as there are steps.
    states
        The first states, (batch, hidden): the last ones of an empty sequence.
    """
    lengths = lengths.to(torch.int64)
    steps = torch.arange(x.shape[0])[:, None]
    alive = steps < lengths
    x = torch.where(alive[..., None], x, 0.0)  # what is behind an end may be no number
    order = torch.where(alive, lengths - 1 - steps, steps)
    kept = _kept(alive, states[0].shape[-1]) if len(states) > 1 else None
    rows, _, *others = run(_taken(x, order) if reverse else x, reverse=False, beside=kept)
    ends = torch.clamp(lengths - 1, min=0)[None]
    last = torch.where((lengths > 0)[:, None], _taken(rows, ends)[0], states[0])
    rows = torch.where(alive[..., None], rows, 0.0)
    return [_taken(rows, order) if reverse else rows, last, *others]


def _kept(alive: Tensor, size: int) -> Tensor:
    """Return what is added to the gates i, o, f and c of an LSTM whose cell has to stay."""
    column = torch.tensor([-_CLOSED, -_CLOSED, _CLOSED, 0.0]).repeat_interleave(size)
    return torch.where(alive[..., None], 0.0, column)


def _taken(x: Tensor, steps: Tensor) -> Tensor:
    """Return for each sequence what ``x`` has at these steps."""
    return torch.gather(x, 0, steps[..., None].expand(-1, -1, x.shape[-1]))
