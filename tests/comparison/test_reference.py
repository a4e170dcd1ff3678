import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from tvm_sparse.comparison.reference import eager, largest_error, reference, torch_module
from tvm_sparse.comparison.runtimes import case
from tvm_sparse.errors import InputError


def test_masks_are_part_of_what_counts_as_right(rng=np.random.default_rng(0)):
    model = nn.Linear(8, 4)
    prune.l1_unstructured(model, "weight", 0.5)
    x = rng.standard_normal((2, 8)).astype(np.float32)
    (got,) = reference(model)([x])()
    with torch.no_grad():
        np.testing.assert_allclose(got, model(torch.from_numpy(x)).numpy(), rtol=1e-6)


def test_every_output_is_returned_in_order():
    class Two(nn.Module):
        def forward(self, x):
            return {"a": x + 1, "b": (x * 2, x * 3)}

    found = eager(torch_module(Two()), [np.float32([1, 2])])()
    assert [list(x) for x in found] == [[2, 3], [2, 4], [3, 6]]


def test_exported_programs_take_their_tensors_however_they_nest_them(tmp_path):
    class Nested(nn.Module):
        def forward(self, pair, *, scale, flag):
            return (pair["x"] - pair["y"]) * scale if flag else scale

    pair = {"x": torch.tensor([3.0]), "y": torch.tensor([1.0])}
    named = {"scale": torch.tensor([5.0]), "flag": True}
    torch.export.save(torch.export.export(Nested(), (pair,), named), tmp_path / "nested.pt2")
    tensors = [np.float32([3]), np.float32([1]), np.float32([5])]
    (got,) = reference(tmp_path / "nested.pt2")(tensors)()
    assert list(got) == [10]


def test_an_onnx_file_is_run_by_onnxruntime(tmp_path):
    pytest.importorskip("onnxruntime")
    model = nn.Linear(8, 4).eval()
    x = torch.rand(2, 8)
    case(model, [x.numpy()], 1).onnx_file(tmp_path).rename(tmp_path / "m.onnx")
    (got,) = reference(tmp_path / "m.onnx")([x.numpy()])()
    np.testing.assert_allclose(got, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_without_onnxruntime_the_reason_is_given(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="onnxruntime is not installed"):
        reference("m.onnx")


@pytest.mark.parametrize(
    ("found", "wanted", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([np.nan, 2.0], [np.nan, 2.0], 0),
        ([np.inf, 2.0], [np.inf, 2.0], 0),
        ([np.nan, 2.0], [1.0, 2.0], np.inf),
        ([1.0, 2.0], [np.nan, 2.0], np.inf),
        ([np.inf, 2.0], [-np.inf, 2.0], np.inf),
        ([1.0], [1.0, 2.0], np.inf),
        ([], [], 0),
    ],
)
def test_errors_are_relative_and_never_lost_in_nan(found, wanted, error):
    assert largest_error([np.float32(found)], [np.float32(wanted)]) == error


def test_values_that_are_all_small_are_compared_as_larger_ones():
    found, wanted = [np.float32([3e-8])], [np.float32([1e-9])]
    assert largest_error(found, wanted) > 10
    assert largest_error(found, wanted, 5e-4) < 1e-4
    assert largest_error([np.float32([2e-6])], wanted, 5e-4) > 1e-3


def test_another_number_of_outputs_is_an_error():
    assert largest_error([np.zeros(1)], []) == np.inf
