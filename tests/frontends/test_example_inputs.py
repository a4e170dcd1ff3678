"""Example inputs that are none: each sort has a sentence that says what to pass."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.errors import InputError

X = torch.zeros(4, 64)


class Two(nn.Module):
    def forward(self, first, second, *, scale=1.0):
        return first + second * scale


LINEAR = nn.Linear(64, 8).eval()


@pytest.mark.parametrize(
    ("model", "inputs", "told"),
    [
        (LINEAR, (4, 64), r"example inputs: \(4, 64\) are numbers; expected tensors"),
        (LINEAR, torch.Size([4, 64]), r"\(4, 64\) are numbers"),
        (LINEAR, (64,), r"\(64,\) are numbers"),
        (Two(), (4, 64), r"\(4, 64\) are numbers"),
        (LINEAR, ([[0.0] * 64] * 4,), "are numbers"),
        (LINEAR, (np.zeros((4, 64), "f4"),), "'input': is a NumPy array; expected a torch tensor"),
        (LINEAR, np.zeros((4, 64), "f4"), "inputs: is a NumPy array; .* torch.from_numpy"),
        (LINEAR, (np.float32(3),), "'input': is a NumPy array"),
        (LINEAR, {"input": np.zeros((4, 64))}, "'input': is a NumPy array"),
        (LINEAR, (X, X), r"do not fit forward\(input\): too many positional"),
        (LINEAR, (), "missing a required argument"),
        (LINEAR, {"x": X}, r"do not fit forward\(input\): .*'input'"),
        (Two(), X, r"do not fit forward\(first, second, scale=1.0\): missing .*'second'"),
        (Two(), ({"first": X},), "missing a required argument"),
        (LINEAR, "input", "are of type str"),
        (LINEAR, iter([X]), "are of type list_iterator"),
        (LINEAR, {1, 2}, "are of type set"),
        (LINEAR, (object(),), "'input': is of the class object"),
        (LINEAR, (X.to("meta"),), r"'input': has no values \(it is on the meta device\)"),
        (LINEAR, (X.to_sparse(),), r"'input': is a sparse tensor; .*x.to_dense\(\)"),
        (LINEAR, (torch.nested.nested_tensor([X]),), "'input': is a nested tensor"),
        (LINEAR, (X.double(),), r"multiplies float64 by float32; .*x.to\("),
        (LINEAR, (X.half(),), "multiplies float16 by float32"),
        (nn.Conv1d(4, 8, 3), (X[None].double(),), "multiplies float64 by float32|are float64"),
        (LINEAR, (X[:, :5],), r"does not run on them \(mat1 and mat2 shapes"),
        (nn.Embedding(4, 4), (X,), "does not run on them"),
        (nn.Module(), (X,), "does not run on them|forward"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else type(value).__name__,
)
def test_each_sort_has_its_sentence(model, inputs, told):
    with pytest.raises(InputError, match=told) as caught:
        ts.load(model, inputs)
    assert caught.value.todo


def test_places_inside_of_containers_are_named():
    class Nested(nn.Module):
        def forward(self, parts):
            return parts["a"][1] + 1

    with pytest.raises(InputError, match=r"example input 'parts\['a'\]\[1\]': is a NumPy array"):
        ts.load(Nested(), ({"a": (X, np.zeros(3))},))


def test_constants_and_containers_are_fine():
    pair = namedtuple("pair", "first second")

    class Nested(nn.Module):
        def forward(self, both, scale, name=None):
            return both.first + both.second * scale

    x = torch.randn(3)
    assert ts.load(Nested(), (pair(x, x), 2.0, "a")).outputs


class ToldApart(nn.Module):
    """Has another use for each argument."""

    def forward(self, x, y, more):
        """Return a sum in which every argument counts differently."""
        return x - 2 * y + 4 * more["z"]


@pytest.mark.grid
@pytest.mark.parametrize("again", [lambda x: x, lambda x: x.view_as(x), lambda x: x.detach()])
@pytest.mark.parametrize("opened", [False, True])
def test_one_tensor_in_several_places_is_several_inputs(again, opened):
    x = torch.randn(2, 5)
    axes = {0: torch.export.Dim("batch")}
    shapes = {"dynamic_shapes": (axes, axes, {"z": axes})} if opened else {}
    library = ts.compile(ToldApart(), (x, again(x), {"z": again(x)}), **shapes)
    given = [torch.randn(2, 5) for _ in range(3)]
    wanted = given[0] - 2 * given[1] + 4 * given[2]
    torch.testing.assert_close(library.run(*given)[0], wanted)


def test_attention_to_itself_in_an_example_is_attention_to_others_in_a_call():
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval().requires_grad_(False)
    x = torch.randn(1, 4, 8)
    library = ts.compile(attention, (x, x, x))
    query, key, value = (torch.randn(1, 4, 8) for _ in range(3))
    torch.testing.assert_close(library.run(query, key, value)[0], attention(query, key, value)[0])


class Held(nn.Module):
    """Has a buffer, a parameter and a plain tensor, each of which counts differently."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("buffer", torch.randn(3, 4))
        self.parameter = nn.Parameter(torch.randn(3, 4), requires_grad=False)
        self.plain = torch.randn(3, 4)

    def forward(self, x, y, z):
        """Return a sum in which every tensor counts differently."""
        return x - 2 * self.buffer + 3 * y * self.parameter - 5 * z + 7 * self.plain


def test_a_tensor_of_the_module_is_an_input_in_an_example():
    model = Held().eval()
    library = ts.compile(model, (model.buffer, model.parameter, model.plain))
    given = [torch.randn(3, 4) for _ in range(3)]
    torch.testing.assert_close(library.run(*given)[0], model(*given))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (nn.Linear, r"model: is the class Linear; .*pass an instance, Linear\(\.\.\.\)"),
        (LINEAR.state_dict(), "model: is a OrderedDict; .*load_state_dict"),
        (lambda x: x, "model: is a function; .*forward method"),
        (X, "model: is a Tensor"),
        (None, "model: is a NoneType"),
    ],
)
def test_what_is_no_model(model, told):
    with pytest.raises(InputError, match=told):
        ts.compile(model, (X,))
