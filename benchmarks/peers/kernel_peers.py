"""What other libraries make of one layer: dense in their own packing, and sparse."""

from __future__ import annotations

import importlib.util
import itertools
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.cases.kernel_cases import Case
from benchmarks.peers.openvino_models import openvino_model

Program = Callable[[], Any]
"""Runs the layer once; returns its output in the contraction's layout (NHWC)."""


def dense_peers(case: Case, x: np.ndarray, matrix: np.ndarray, threads: int) -> dict[str, Program]:
    """Return the dense libraries that are installed; ``x`` is padded, ``matrix`` in ``hwi`` order.

    Weights are packed beforehand wherever a library offers that; convolutions pad themselves.
    """
    found = _torch_linear(case, x, matrix) if not case.contraction.taps else {}
    if case.contraction.taps:
        found |= _torch_conv(case, x, matrix)
    if importlib.util.find_spec("openvino"):
        found["openvino"] = _openvino(case, x, matrix, threads)
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        found["onnxruntime"] = _onnxruntime(case, x, matrix, threads)
    return found


def sparse_peers(case: Case, x: np.ndarray, matrix: np.ndarray) -> dict[str, Program]:
    """Return the sparse libraries for a linear layer (none multiplies convolutions).

    They take the transposed input and give the transposed output: neither is counted.
    """
    if case.contraction.taps or case.cold:
        return {}
    import torch

    warnings.filterwarnings("ignore", message="Sparse .* tensor support is in beta")
    turned = np.ascontiguousarray(x.T)
    right = torch.from_numpy(turned)
    rows = torch.from_numpy(matrix).to_sparse_csr()
    blocks = torch.from_numpy(matrix).to_sparse_bsr((16, 16))
    found: dict[str, Program] = {
        "torch CSR (MKL)": lambda: (rows @ right).numpy().T,
        "torch BSR 16x16 (MKL)": lambda: (blocks @ right).numpy().T,
    }
    if importlib.util.find_spec("scipy"):
        from scipy.sparse import csr_array

        compressed = csr_array(matrix)
        found["scipy CSR"] = lambda: (compressed @ turned).T
    return found


def copies(nbytes: int, cold: bool) -> int:
    """Return how many copies of weights to walk through so that caches do not hold them."""
    return max(2, math.ceil(96e6 / nbytes)) if cold else 1


def _torch_linear(case: Case, x: np.ndarray, matrix: np.ndarray) -> dict[str, Program]:
    import torch

    rows, number = torch.from_numpy(x), copies(matrix.nbytes, case.cold)
    weights = [torch.from_numpy(matrix.copy()) for _ in range(number)]
    plain = itertools.cycle(weights)
    pack = torch.ops.mkldnn._reorder_linear_weight
    packed = itertools.cycle([pack(weight, len(rows)) for weight in weights])
    run = torch.ops.mkldnn._linear_pointwise
    found: dict[str, Program] = {
        "torch linear (MKL)": lambda: torch.nn.functional.linear(rows, next(plain)).numpy(),
        "oneDNN packed": lambda: run(rows, next(packed), None, "none", [], "").numpy(),
    }
    if len(rows) == 1:
        found["torch mv (MKL)"] = lambda: torch.mv(next(plain), rows[0]).numpy()[None]
    return found


def _torch_conv(case: Case, x: np.ndarray, matrix: np.ndarray) -> dict[str, Program]:
    import torch

    _, _, stride, padding = case.window
    groups = case.contraction.columns if case.contraction.depthwise else 1
    image = torch.from_numpy(image_of(case, x)).contiguous(memory_format=torch.channels_last)
    weight = torch.from_numpy(oihw_of(case, matrix))
    window = [padding] * 2, [stride] * 2, [1, 1], groups
    packed = torch.ops.mkldnn._reorder_convolution_weight(weight, *window, list(image.shape))
    run = torch.ops.mkldnn._convolution_pointwise

    def onednn() -> Any:
        return run(image, packed, None, *window, "none", [], "").permute(0, 2, 3, 1).numpy()

    def plain() -> Any:
        y = torch.nn.functional.conv2d(image, weight, None, stride, padding, 1, groups)
        return y.permute(0, 2, 3, 1).numpy()

    return {"oneDNN packed": onednn, "torch conv2d": plain}


def image_of(case: Case, x: np.ndarray) -> np.ndarray:
    """Return the input without its borders, NCHW."""
    size, _, _, padding = case.window
    inner = x[:, padding : padding + size, padding : padding + size]
    return np.ascontiguousarray(inner.transpose(0, 3, 1, 2))


def oihw_of(case: Case, matrix: np.ndarray) -> np.ndarray:
    c = case.contraction
    weight = matrix.reshape(c.features, *c.taps, -1)
    return np.ascontiguousarray(np.moveaxis(weight, -1, 1))


def _openvino(case: Case, x: np.ndarray, matrix: np.ndarray, threads: int) -> Program:
    import openvino
    from openvino import opset13 as op

    c, data = case.contraction, x
    if not c.taps:
        node = op.parameter(list(x.shape), np.float32)
        result = op.matmul(node, op.constant(matrix), False, True)
    else:
        data = image_of(case, x)
        node = op.parameter(list(data.shape), np.float32)
        _, _, stride, padding = case.window
        strides, pads = [stride] * 2, [padding] * 2
        weight = oihw_of(case, matrix)
        if c.depthwise:
            kernel = op.constant(weight[:, :, None])
            result = op.group_convolution(node, kernel, strides, pads, pads, [1, 1])
        else:
            result = op.convolution(node, op.constant(weight), strides, pads, pads, [1, 1])
    compiled = openvino_model(openvino.Model([result], [node]), threads)
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(data))
    return _nhwc(case, lambda: (request.infer(), request.get_output_tensor().data)[1])


def _onnxruntime(case: Case, x: np.ndarray, matrix: np.ndarray, threads: int) -> Program:
    from onnx import TensorProto, helper, numpy_helper

    c, data = case.contraction, x
    attributes: Mapping[str, Any] = {}
    weight, kind = np.ascontiguousarray(matrix.T), "MatMul"
    if c.taps:
        data, weight, kind = image_of(case, x), oihw_of(case, matrix), "Conv"
        _, _, stride, padding = case.window
        groups = c.columns if c.depthwise else 1
        attributes = {"strides": [stride] * 2, "pads": [padding] * 4, "group": groups}
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "w"], ["y"], **attributes)],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, data.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    run = onnx_program(model, data, copies(matrix.nbytes, case.cold), threads)
    return _nhwc(case, run)


def onnx_program(model: Any, data: np.ndarray, number: int, threads: int) -> Program:
    """Return what runs ``number`` sessions of a model from ``x`` to ``y`` in turns."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    bindings = []
    for _ in range(number):
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), settings, ["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        binding.bind_cpu_input("x", data)
        binding.bind_output("y")
        bindings.append((session, binding))
    turns = itertools.cycle(bindings)

    def run() -> Any:
        session, binding = next(turns)
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0]

    return run


def _nhwc(case: Case, run: Program) -> Program:
    """Return ``run`` with a lazy output; :func:`as_array` turns it into the contraction's."""
    return run if not case.contraction.taps else lambda: Channels(run())


class Channels:
    """An NCHW output, to be turned only when it is looked at."""

    def __init__(self, output: Any) -> None:
        self.output = output


def as_array(output: Any) -> np.ndarray:
    """Return a program's output as an array in the contraction's layout."""
    if isinstance(output, Channels):
        return np.moveaxis(as_array(output.output), 1, -1)
    return np.asarray(output.numpy() if hasattr(output, "numpy") else output)
