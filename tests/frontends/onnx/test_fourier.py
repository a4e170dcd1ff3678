"""Fourier transforms of ONNX graphs, against NumPy and onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager, expected, graph, node

CONFIG = ts.Config(measure=False, tuned=False)
RNG = np.random.default_rng(0)


def _model(operator, shape, opset=17, inputs="x", outputs="y", *, parts=None, **attributes):
    made = [node(operator, inputs, outputs, **attributes)]
    weights = {name: np.asarray(value) for name, value in (parts or {}).items()}
    return graph(made, {"x": shape}, ["y"], weights, opset=opset)


@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize(
    ("last", "inverse", "onesided"),
    [(1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0), (2, 1, 0), (2, 1, 1)],
)
@pytest.mark.parametrize("opset", [17, 20])
def test_of_one_axis(length, last, inverse, onesided, opset):
    options = {"inverse": inverse, "onesided": onesided}
    parts = {"a": np.int64(1), "n": np.int64(length or 0)}
    inputs = f"x {'n' if length else '-'}{' a' if opset == 20 else ''}"
    options |= {"axis": 1} if opset == 17 else {}
    model = _model("DFT", (2, 6, 3, last), opset, inputs, parts=parts, **options)
    x = RNG.standard_normal((2, 6, 3, last), np.float32)
    (found,), (wanted,) = eager(model, x), expected(model, x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("last", [1, 2])
@pytest.mark.parametrize("parts", ["window", "length", "both", "neither"])
def test_of_frames(last, parts):
    x = RNG.standard_normal((2, 40, last), np.float32)
    held = {"s": np.int64(5), "w": np.hanning(16).astype(np.float32), "n": np.int64(16)}
    window = "w" if parts in ("window", "both") else "-"
    length = "n" if parts in ("length", "both") else "-"
    onesided = int(last == 1)
    model = _model("STFT", x.shape, 17, f"x s {window} {length}", parts=held, onesided=onesided)
    count = 40 if parts == "neither" else 16
    signal = x[..., 0] + (1j * x[..., 1] if last == 2 else 0)
    frames = np.stack([signal[:, i : i + count] for i in range(0, 40 - count + 1, 5)], 1)
    frames = frames * held["w"] if window == "w" else frames
    wanted = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
    (found,) = eager(model, x)
    np.testing.assert_allclose(found, np.stack([wanted.real, wanted.imag], -1), atol=1e-4)


def test_a_signal_without_an_axis_of_parts_is_real():
    x = RNG.standard_normal((2, 40), np.float32)
    held = {"s": np.int64(5), "w": np.hanning(16).astype(np.float32)}
    (found,) = eager(_model("STFT", x.shape, 17, "x s w", parts=held), x)
    (wanted,) = eager(_model("STFT", (2, 40, 1), 17, "x s w", parts=held), x[..., None])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.grid
@pytest.mark.parametrize(("length", "hop"), [(25, 10), (64, 16), (400, 160), (2048, 512)])
def test_spectra_are_compiled(length, hop, tmp_path):
    x = RNG.standard_normal((1, 3 * length, 1), np.float32)
    held = {"s": np.int64(hop), "w": np.hanning(length).astype(np.float32)}
    onnx.save(_model("STFT", x.shape, 17, "x s w", parts=held), tmp_path / "model.onnx")
    found = ts.compile(tmp_path / "model.onnx", config=CONFIG)(x)
    starts = range(0, 2 * length + 1, hop)
    wanted = np.fft.rfft(np.stack([x[:, i : i + length, 0] for i in starts], 1) * held["w"])
    wanted = np.stack([wanted.real, wanted.imag], -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.grid
@pytest.mark.parametrize(("last", "onesided"), [(1, 0), (2, 0), (2, 1)])
def test_inverses_are_compiled(last, onesided, tmp_path):
    model = _model("DFT", (2, 6, 3, last), 17, inverse=1, onesided=onesided, axis=1)
    onnx.save(model, tmp_path / "model.onnx")
    x = RNG.standard_normal((2, 6, 3, last), np.float32)
    found = ts.compile(tmp_path / "model.onnx", config=CONFIG)(x)
    np.testing.assert_allclose(found, expected(model, x)[0], rtol=1e-4, atol=1e-5)


def test_an_open_batch(tmp_path):
    held = {"s": np.int64(10), "n": np.int64(25)}
    model = _model("STFT", ("batch", 60, 1), 17, "x s - n", parts=held)
    onnx.save(model, tmp_path / "model.onnx")
    library = ts.compile(tmp_path / "model.onnx", config=CONFIG)
    for batch in (1, 3):
        x = RNG.standard_normal((batch, 60, 1), np.float32)
        np.testing.assert_allclose(library(x), eager(model, x)[0], atol=1e-4)


WRONG = {
    "axis 3 of 3": {"opset": 17, "axis": 3},
    "axis -1 of 3": {"opset": 17, "axis": -1},
    "dft_length 0": {"parts": {"n": np.int64(0)}, "inputs": "x n"},
    "its last axis has 2 elements": {"shape": (2, 6, 2), "onesided": 1},
    "its last axis has 1 elements": {"onesided": 1, "inverse": 1},
    "its last axis has 3 elements": {"shape": (2, 6, 3)},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_breaks_the_rules(message):
    options = {"shape": (2, 6, 1), **WRONG[message]}
    with pytest.raises(ts.InputError, match=message):
        eager(_model("DFT", **options), np.zeros(options["shape"], np.float32))


def test_a_window_of_another_length():
    held = {"s": np.int64(5), "w": np.ones(8, np.float32), "n": np.int64(16)}
    model = _model("STFT", (1, 40, 1), 17, "x s w n", parts=held)
    with pytest.raises(ts.InputError, match=r"a window of shape \[8\]; expected \[16\]"):
        eager(model, np.zeros((1, 40, 1), np.float32))


def test_lengths_known_at_run_time_are_refused(tmp_path):
    step = helper.make_tensor_value_info("s", TensorProto.INT64, [])
    made = _model("STFT", (1, 40, 1), 17, "x s - n", parts={"n": np.int64(16)})
    made.graph.input.append(step)
    onnx.save(made, tmp_path / "model.onnx")
    with pytest.raises(ts.UnsupportedError, match="input 'step' is computed or given at run time"):
        ts.load(tmp_path / "model.onnx")
    assert ts.load(tmp_path / "model.onnx", constants={"s": 5}).outputs[0].shape == (1, 5, 9, 2)
