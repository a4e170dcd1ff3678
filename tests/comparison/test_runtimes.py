import numpy as np
import pytest
import torch
from torch import nn

from tvm_sparse.comparison import runtimes
from tvm_sparse.comparison.reference import largest_error


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 4))


X = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)


@pytest.mark.slow
def test_every_runtime_computes_the_same():
    """With ``torch.compile``, which builds C++, and all that the extra ``bench`` brings."""
    model = network().eval()
    with torch.no_grad():
        wanted = [model(torch.from_numpy(X)).numpy()]
    with runtimes.programs(runtimes.case(model, [X], 1), [*runtimes.RUNTIMES]) as found:
        programs, missing = found
        assert programs.keys() | missing.keys() == runtimes.RUNTIMES.keys()
        assert {"PyTorch eager", "torch.compile"} <= programs.keys()
        for name, program in programs.items():
            assert largest_error(program(), wanted) < (0.1 if name in runtimes.INT8 else 1e-4), name


def test_what_is_not_installed_and_what_fails_is_told(monkeypatch):
    def fails(given, place):
        raise RuntimeError("no such operator\nand more")

    monkeypatch.setattr(
        runtimes,
        "RUNTIMES",
        {
            "a": (runtimes.RUNTIMES["PyTorch eager"][0], "torch"),
            "b": (fails, "torch"),
            "c": (fails, "no_such_package"),
        },
    )
    with runtimes.programs(runtimes.case(network(), [X], 1), ["a", "b", "c"]) as found:
        programs, missing = found
    assert [*programs] == ["a"]
    assert missing == {
        "b": "no such operator",
        "c": "the package 'no_such_package' is not installed",
    }


def test_pytorch_does_not_read_onnx_files(tmp_path):
    case, names = runtimes.case(tmp_path / "m.onnx", [X], 1), runtimes.OF_TORCH[:2]
    with runtimes.programs(case, names) as found:
        assert found == ({}, dict.fromkeys(names, "does not read ONNX files"))


def test_files_with_weights_beside_them_are_quantized(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    source = runtimes.case(network().eval(), [X], 1).onnx_file(tmp_path)
    apart = tmp_path / "apart.onnx"
    told = {"save_as_external_data": True, "location": "apart.data", "size_threshold": 0}
    onnx.save(onnx.load(str(source)), str(apart), **told)
    with runtimes.programs(runtimes.case(apart, [X], 1), ["onnxruntime int8"]) as found:
        programs, missing = found
        assert not missing
        wanted = network().eval()(torch.from_numpy(X)).detach().numpy()
        assert largest_error(programs["onnxruntime int8"](), [wanted]) < 0.1


def test_a_model_is_written_as_onnx_once_for_all_runtimes(tmp_path, monkeypatch):
    given = runtimes.case(network(), [X], 1)
    assert given.onnx_file(tmp_path).is_file()
    monkeypatch.setattr(torch.onnx, "export", None)
    assert given.onnx_file(tmp_path) == tmp_path / "model.onnx"
