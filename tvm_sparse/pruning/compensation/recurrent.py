"""What the gates of a recurrent layer read: inputs of each of its layers, and hidden states."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.pruning.compensation.calls import Call


def gate_inputs(module: nn.RNNBase, parameter: str, call: Call) -> Tensor:
    """Return what ``parameter`` is multiplied by (rows, columns).

    ``weight_ih_l1_reverse`` reads the outputs of layer 0, ``weight_hh_l1_reverse`` the hidden
    states of layer 1 in its reverse direction, each but the last, from the initial one on.

    Raises
    ------
    UnsupportedError
        The projection ``weight_hr`` of an LSTM, whose input no call shows.
    """
    found = re.fullmatch(r"weight_(ih|hh|hr)_l(\d+)(_reverse)?", parameter)
    assert found is not None
    role, index, reverse = found[1], int(found[2]), found[3] is not None
    if role == "hr":
        raise UnsupportedError(
            parameter,
            "is the projection inside an LSTM, whose input cannot be observed",
            "gates",
            "leave it out with ignore, or use an LSTM without proj_size",
        )
    args, kwargs = call
    inputs = args[0] if args else kwargs["input"]
    state = args[1] if len(args) > 1 else kwargs.get("hx")
    steps, valid = _sequence(module, inputs)
    for layer in range(index):
        steps = _single(module, layer, steps, state, valid)
    if role == "ih":
        return steps[valid]
    width = module.proj_size or module.hidden_size
    outputs = _single(module, index, steps, state, valid)[..., width * reverse :][..., :width]
    initial = _initial(module, index, reverse, state, outputs)
    if not reverse:
        return torch.cat([initial[None], outputs[:-1]])[valid]
    following = torch.cat([outputs[1:], initial[None]])
    # A shorter sequence of the batch starts, in reverse, at its own end.
    ends = torch.cat([valid[1:], torch.zeros_like(valid[:1])])
    return torch.where(ends[..., None], following, initial)[valid]


def _sequence(module: nn.RNNBase, inputs: Any) -> tuple[Tensor, Tensor]:
    """Return ``inputs`` as (steps, batch, features), and which of its steps count (bool)."""
    if isinstance(inputs, PackedSequence):
        steps, lengths = pad_packed_sequence(inputs)
        valid = torch.arange(len(steps))[:, None] < lengths
        return steps, valid.to(steps.device)
    steps = inputs if inputs.dim() == 3 else inputs[:, None]
    if inputs.dim() == 3 and module.batch_first:
        steps = steps.transpose(0, 1)
    return steps, torch.ones(steps.shape[:2], dtype=torch.bool, device=steps.device)


def _single(module: nn.RNNBase, layer: int, steps: Tensor, state: Any, valid: Tensor) -> Tensor:
    """Return the outputs (steps, batch, directions * width) of one layer of ``module``."""
    directions = 2 if module.bidirectional else 1
    options: dict[str, Any] = {"bidirectional": module.bidirectional, "bias": module.bias}
    if module.mode.startswith("RNN"):
        options["nonlinearity"] = module.mode.removeprefix("RNN_").lower()
    if module.proj_size:
        options["proj_size"] = module.proj_size
    cell = {"LSTM": nn.LSTM, "GRU": nn.GRU}.get(module.mode, nn.RNN)
    single = cell(steps.shape[-1], module.hidden_size, **options).to(steps)
    with torch.no_grad():
        for name, value in single.named_parameters():
            value.copy_(getattr(module, name.replace("_l0", f"_l{layer}")))
        rows = slice(layer * directions, (layer + 1) * directions)
        first = _states(state, rows, steps)
        lengths = valid.sum(0).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(steps, lengths, enforce_sorted=False)
        outputs, _ = single(packed, first)
    padded, _ = pad_packed_sequence(outputs, total_length=len(steps))
    return padded


def _states(state: Any, rows: slice, steps: Tensor) -> Any:
    """Return the initial states of one layer, with a batch axis, ``None`` for zeros."""
    if state is None:
        return None
    if isinstance(state, tuple):
        return tuple(_states(s, rows, steps) for s in state)
    found = state[rows]
    return (found if found.dim() == 3 else found[:, None]).contiguous()


def _initial(module: nn.RNNBase, layer: int, reverse: bool, state: Any, outputs: Tensor) -> Tensor:
    """Return the hidden state (batch, width) that one direction of ``layer`` starts with."""
    if state is None:
        return torch.zeros_like(outputs[0])
    hidden = state[0] if isinstance(state, tuple) else state
    row = layer * (2 if module.bidirectional else 1) + reverse
    found = hidden[row]
    return found if found.dim() == 2 else found[None]
