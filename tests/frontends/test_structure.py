"""Models are called as they are, and return what they return, in memory and from an artifact."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple

import pytest
import torch
from torch import nn

import tvm_sparse as ts
import tvm_sparse_runtime as runtime
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.structure import plain

FAST = ts.Config(measure=False)
Pair = namedtuple("Pair", "left right")


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, batch, pair, *, scale=None, flag=False):
        y = self.fc(batch["x"]) + pair[0] * (2 if flag else 1)
        y = y if scale is None else y * scale
        return OrderedDict(y=y, none=None, rest=[Pair(batch["x"] + 1, 7), (y - 1,)])


@pytest.fixture(scope="module")
def nested():
    torch.manual_seed(0)
    model = Nested().eval()
    args = ({"x": torch.randn(2, 4)}, (torch.randn(3), None))
    kwargs = {"scale": torch.randn(3), "flag": True}
    return model, args, kwargs, ts.compile(model, args, kwargs, config=FAST)


def assert_same(got, expected):
    found, spec = torch.utils._pytree.tree_flatten(got)
    wanted, wanted_spec = torch.utils._pytree.tree_flatten(expected)
    assert spec == wanted_spec
    for left, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(left, right)


def test_a_library_returns_what_the_model_returns(nested):
    model, args, kwargs, library = nested
    expected = model(*args, **kwargs)
    got = library(*args, **kwargs)
    assert type(got) is OrderedDict and type(got["rest"][0]) is Pair
    assert_same(got, expected)
    assert_same(library(batch=args[0], pair=args[1], **kwargs), expected)
    assert_same(library(args[0]["x"], args[1][0], kwargs["scale"]), expected)
    assert [spec.name for spec in library.outputs] == ["y", "rest_0_0", "rest_1_0"]
    assert len(library.profile(*args, **kwargs, repeat=1)) == len(library.kernels)


def test_an_artifact_returns_plain_containers(nested, tmp_path):
    model, args, kwargs, library = nested
    deployed = runtime.load(library.export(tmp_path / "a"))
    got, expected = deployed(*args, **kwargs), model(*args, **kwargs)
    assert [type(got), type(got["rest"]), type(got["rest"][0])] == [dict, list, tuple]
    assert_same(got, plain(expected))
    with pytest.raises(runtime.TensorError, match="input flag: False"):
        deployed(*args, scale=kwargs["scale"], flag=False)
    assert deployed.manifest.structure == library.structure


def test_tensors_in_and_out_need_no_structure(tmp_path):
    library = ts.compile(nn.Linear(3, 2).eval(), torch.randn(1, 3), config=FAST)
    assert library.structure is None
    x = torch.randn(1, 3)
    assert torch.equal(library(input=x), library(x))
    deployed = runtime.load(library.export(tmp_path / "a"))
    assert deployed.manifest.structure is None
    assert b'"format_version": 2' in (tmp_path / "a" / "manifest.json").read_bytes()


def test_dynamic_shapes_are_those_of_torch_export():
    class Scores(nn.Module):
        def forward(self, x, mask):
            return {"y": torch.where(mask, x, 0.0).sum(-1)}

    batch, tokens = torch.export.Dim("batch", max=8), torch.export.Dim("tokens")
    shapes = {"x": {0: batch, 1: tokens}, "mask": {0: batch, 1: tokens}}
    examples = (torch.randn(2, 5), torch.ones(2, 5, dtype=torch.bool))
    library = ts.compile(Scores(), examples, dynamic_shapes=shapes, config=FAST)
    assert [spec.shape for spec in library.inputs] == [("batch", "tokens")] * 2
    x = torch.randn(3, 7)
    torch.testing.assert_close(library(x, mask=x > 0)["y"], x.clamp(min=0).sum(-1))
    with pytest.raises(runtime.TensorError, match="batch = "):
        library(torch.zeros(9, 2), torch.ones(9, 2, dtype=torch.bool))
    with pytest.raises(InputError, match="along with dynamic_shapes"):
        ts.load(Scores(), examples, dynamic_batch=True, dynamic_shapes=shapes)
    with pytest.raises(InputError, match="exported already"):
        ts.load(torch.export.export(Scores(), examples), dynamic_shapes=shapes)


def test_keys_that_are_no_text_are_refused():
    class Keyed(nn.Module):
        def forward(self, x):
            return {0: x + 1}

    with pytest.raises(UnsupportedError, match=r"the keys \[0\]"):
        ts.load(Keyed(), torch.ones(2))


def test_plain_containers():
    given = {"d": defaultdict(list, a=1), "o": OrderedDict(b=2), "p": Pair(3, [4]), "e": {}}
    assert plain(given) == {"d": {"a": 1}, "o": {"b": 2}, "p": (3, [4]), "e": {}}
