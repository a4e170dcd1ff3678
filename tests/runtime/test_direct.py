"""Which calls are direct, and that a direct call returns what any other does."""

import numpy as np
import pytest
import torch

from tvm_sparse_runtime import TensorError, TensorSpec, engine
from tvm_sparse_runtime.direct import Direct
from tvm_sparse_runtime.session import Session

X = TensorSpec("x", (3, 4), "float32")
Y = TensorSpec("y", (2,), "int64")


def aligned(tensor, by=0):
    """Return an equal tensor ``by`` elements behind an aligned address."""
    buffer = torch.empty(tensor.numel() + 80, dtype=tensor.dtype)
    first = -buffer.data_ptr() % 64 // buffer.element_size() + by
    return buffer[first : first + tensor.numel()].view(tensor.shape).copy_(tensor)


def test_addresses_and_bytes_of_plain_tensors():
    x, y = aligned(torch.ones(3, 4)), aligned(torch.ones(2, dtype=torch.int64))
    direct = Direct([X, Y], "cpu", (64, 64))
    assert direct.spans([x, y]) == [(x.data_ptr(), 48), (y.data_ptr(), 16)]
    assert direct.spans([y, x]) is None
    assert direct.spans([x]) is None
    assert direct.spans([x, y, y]) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda x: aligned(x, by=1),
        lambda x: x.double(),
        lambda x: aligned(x.reshape(4, 3)),
        lambda x: aligned(x.T.contiguous()).T,
        torch.nn.Parameter,
        lambda x: x.requires_grad_(),
        torch._neg_view,
        lambda x: x.to_sparse(),
        lambda x: x.to("meta"),
        lambda x: x.numpy(),
        lambda x: x.tolist(),
    ],
    ids=range(11),
)
def test_other_values_are_asked_more(change):
    assert Direct([X], "cpu", (64,)).spans([change(aligned(torch.ones(3, 4)))]) is None


@pytest.mark.parametrize("offset", [0, 4, 20, 2])
def test_inputs_that_begin_anywhere(offset):
    bytes_ = aligned(torch.zeros(128, dtype=torch.uint8)).numpy()
    x = torch.from_numpy(bytes_[offset : offset + 48].view("float32").reshape(3, 4))
    spans = Direct([X], "cpu", (4,)).spans([x])
    assert spans == ([(x.data_ptr(), 48)] if offset % 4 == 0 else None)


@pytest.mark.parametrize(
    ("inputs", "device"), [([X], "cuda"), ([], "cpu"), ([TensorSpec("x", (0,), "float32")], "cpu")]
)
def test_programs_that_have_no_direct_calls(inputs, device):
    values = [torch.empty(tuple(map(int, spec.shape))) for spec in inputs]
    assert Direct(inputs, device, [64] * len(inputs)).spans(values) is None


OPEN = TensorSpec("x", ("n", 4), "float32")


def test_shapes_with_open_extents_are_direct_once_they_are_known():
    direct = Direct([OPEN], "cpu", (64,))
    x, other = aligned(torch.ones(3, 4)), aligned(torch.ones(2, 4))
    assert direct.spans([x]) is None
    direct.learn([(3, 4)])
    assert direct.spans([x]) == [(x.data_ptr(), 48)]
    assert direct.spans([other]) is None
    direct.learn([(2, 4)])
    assert direct.spans([other]) == [(other.data_ptr(), 32)]
    assert direct.spans([x]) is not None


def test_the_oldest_of_many_shapes_is_forgotten():
    direct = Direct([OPEN], "cpu", (64,))
    for extent in range(1, 1026):
        direct.learn([(extent, 4)])
    assert direct.spans([aligned(torch.ones(1, 4))]) is None
    assert direct.spans([aligned(torch.ones(2, 4))]) is not None


def returning(program, outputs=1, **named):
    """Return a session that runs a Python function on its one input and a weight."""
    vm = {"main": program, "get_function_arity": {"main": 2}.__getitem__}
    specs = [TensorSpec(f"y{i}", (3, 4), "float32") for i in range(outputs)]
    inputs = named.pop("inputs", [X])
    return Session(vm, inputs, specs, [np.arange(12, dtype="float32").reshape(3, 4)], **named)


def test_extents_are_checked_whatever_was_called_before():
    session = returning(lambda x, weight: x, inputs=[OPEN], bounds={"n": (2, 5)})
    for extent in (3, 3, 5, 3):
        x = aligned(torch.full((extent, 4), float(extent)))
        assert torch.equal(session(x), x)
        assert torch.equal(session(x=x), x)
    for wrong in (torch.ones(6, 4), torch.ones(1, 4), torch.ones(3, 5), torch.ones(3, 4).double()):
        with pytest.raises(TensorError, match="input x"):
            session(aligned(wrong))


@pytest.mark.parametrize("place", [0, 1])
def test_borrowed_memory_is_not_handed_out(place):
    session = returning(lambda *arguments: arguments[place])
    x = aligned(torch.full((3, 4), 7.0))
    found, again = session(x), session(x)
    expected = (x, torch.arange(12.0).reshape(3, 4))[place]
    found += 1
    assert type(found) is torch.Tensor
    assert torch.equal(again, expected)
    assert torch.equal(session(x), expected)


def test_several_outputs_are_nested_as_the_model_nests_them():
    make = engine.function("ffi.Array")
    session = returning(lambda x, weight: make(engine.tensor(x), weight), outputs=2)
    x = aligned(torch.ones(3, 4))
    found = session(x)
    assert [type(found), *map(type, found)] == [tuple, torch.Tensor, torch.Tensor]
    assert torch.equal(found[0], x)
    assert found[0].data_ptr() != x.data_ptr()


def test_wrong_tensors_have_the_error_of_any_call():
    with pytest.raises(TensorError, match="input x: shape"):
        returning(lambda x, weight: x)(aligned(torch.ones(4, 3)))
