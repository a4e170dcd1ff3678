"""Unfolded inputs, multiplied by the matrix of the weight, are what the layer computes."""

import pytest
import torch
from torch import nn

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.patterns.lowering import lower
from tvm_sparse.pruning.compensation.attention import heads_of
from tvm_sparse.pruning.compensation.inputs import inputs_of
from tvm_sparse.pruning.layers import PrunableLayer, matrices_of, sort_of

CONVOLUTIONS = [
    (nn.Conv1d(3, 4, 3, 2, 1), (2, 3, 9)),
    (nn.Conv2d(3, 4, (3, 2), (2, 1), (1, 0), (1, 2)), (2, 3, 7, 6)),
    (nn.Conv2d(3, 4, 3, padding="same", dilation=2), (1, 3, 6, 5)),
    (nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 5, 5)),
    (nn.Conv3d(2, 3, 2, 1, 1), (2, 2, 3, 4, 3)),
    (nn.Conv2d(3, 4, 2), (3, 5, 5)),
]


def layer_of(module):
    return PrunableLayer("layer", module, sort_of(module))


@pytest.mark.parametrize(("conv", "shape"), CONVOLUTIONS)
def test_convolutions(conv, shape):
    x = torch.randn(shape)
    images = list(inputs_of(layer_of(conv), conv, ((x,), {}), x))
    matrix = torch.from_numpy(lower(conv.weight.detach().numpy()))
    found = torch.cat([part[0] @ matrix.T for part in images]) + conv.bias
    expected = (
        conv(x).detach().movedim(-1 - len(conv.kernel_size), -1).reshape(-1, conv.out_channels)
    )
    torch.testing.assert_close(found.detach(), expected)


def test_depthwise_channels_have_matrices_of_their_own():
    conv, x = nn.Conv2d(5, 5, 3, 2, 1, groups=5, bias=False), torch.randn(1, 5, 7, 7)
    (parts,) = inputs_of(layer_of(conv), conv, ((x,), {}), x)
    taps = conv.weight.detach().reshape(5, 9, 1)
    torch.testing.assert_close((parts @ taps)[..., 0], conv(x).detach().reshape(5, -1))


def test_padding_tokens_do_not_count():
    linear, x = nn.Linear(4, 2), torch.randn(2, 3, 4)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    (found,) = inputs_of(layer_of(linear), linear, ((x,), {}), {"attention_mask": mask})
    assert torch.equal(found[0], torch.stack([x[0, 0], x[0, 1], x[1, 0]]))
    (every,) = inputs_of(layer_of(linear), linear, ((), {"input": x}), (x, mask))
    assert torch.equal(every[0], x.reshape(6, 4))


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_attention(own, separate):
    width = 8
    module = nn.MultiheadAttention(
        width, 2, batch_first=True, kdim=6 if separate else None, vdim=4 if separate else None
    ).eval()
    query = torch.randn(2, 3, width)
    key = torch.randn(2, 5, 6 if separate else width)
    value = torch.randn(2, 5, 4 if separate else width)
    call = ((query, query, query), {}) if own and not separate else ((query, key), {"value": value})
    layers = matrices_of("layer", module)
    found = {x.parameter: next(inputs_of(x, module, call, None)) for x in layers}
    if separate:
        assert [found[n].shape[-1] for n in ("q_proj_weight", "v_proj_weight")] == [8, 4]
        assert torch.equal(found["k_proj_weight"][0], key.reshape(10, 6))
    elif own:
        assert torch.equal(found["in_proj_weight"][0], query.reshape(6, width))
    else:
        parts = found["in_proj_weight"]
        assert parts.shape == (3, 10, width)
        assert (parts[0, 6:] == 0).all()
        assert torch.equal(parts[2], value.reshape(10, width))


def test_attention_heads_are_what_the_output_projection_reads():
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    projection = module.out_proj
    heads = heads_of(module, ((x, x, x), {}))
    assert module.out_proj is projection
    torch.testing.assert_close(projection(heads), module(x, x, x)[0])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_gates_of_recurrent_layers(cell, bidirectional, packed):
    """Gates computed from what is said to be read are those of a cell, step by step."""
    torch.manual_seed(0)
    module = cell(3, 4, num_layers=2, bidirectional=bidirectional, batch_first=not packed)
    x = torch.randn(2, 5, 3)
    lengths = [5, 3] if packed else [5, 5]
    given = (
        nn.utils.rnn.pack_padded_sequence(x.transpose(0, 1), torch.tensor(lengths)) if packed else x
    )
    outputs, _ = module(given)
    if packed:
        outputs = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)[0]
    hidden = {}
    for layer in matrices_of("layer", module):
        (found,) = inputs_of(layer, module, ((given,), {}), None)
        hidden[layer.parameter] = found[0]
        assert len(found[0]) == sum(lengths)
    # (step, item) in order, only steps that count; the last layer's outputs are known.
    places = [(t, b) for t in range(5) for b in range(2) if t < lengths[b]]
    for row, (t, b) in enumerate(places):
        wanted = outputs[b, t - 1, :4] if t else torch.zeros(4)
        torch.testing.assert_close(hidden["weight_hh_l1"][row], wanted.detach())
        if bidirectional:
            wanted = outputs[b, t + 1, 4:] if t + 1 < lengths[b] else torch.zeros(4)
            torch.testing.assert_close(hidden["weight_hh_l1_reverse"][row], wanted.detach())
        torch.testing.assert_close(hidden["weight_ih_l0"][row], x[b, t])


def test_initial_states_are_read_first():
    module = nn.GRU(3, 4)
    x, h = torch.randn(2, 1, 3), torch.randn(1, 1, 4)
    layer = next(x for x in matrices_of("layer", module) if x.parameter == "weight_hh_l0")
    (found,) = inputs_of(layer, module, ((x, h), {}), None)
    assert torch.equal(found[0, 0], h[0, 0])


def test_the_projection_of_an_lstm_is_refused_by_name():
    module = nn.LSTM(3, 4, proj_size=2)
    layer = next(x for x in matrices_of("layer", module) if x.parameter == "weight_hr_l0")
    with pytest.raises(UnsupportedError, match="weight_hr_l0"):
        next(inputs_of(layer, module, ((torch.randn(2, 1, 3),), {}), None))
