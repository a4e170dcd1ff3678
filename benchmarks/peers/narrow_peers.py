"""What other libraries make of one dense layer of bytes, or of bfloat16, in their own packing."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.cases.kernel_cases import Case
from benchmarks.peers.kernel_peers import Channels, copies, image_of, oihw_of, onnx_program
from benchmarks.peers.openvino_models import openvino_model

Program = Callable[[], Any]


def bytes_peers(case: Case, x: np.ndarray, matrix: np.ndarray, threads: int) -> dict[str, Program]:
    """Return libraries that multiply unsigned by signed bytes; scales are one.

    All give the sums, as integers or floats. OpenVINO multiplies bytes only in graphs that quantize
    their input themselves, by oneDNN.
    """
    torch_one = _torch_conv if case.contraction.taps else _torch_linear
    found = {"oneDNN packed": torch_one(case, x, matrix)}
    if not case.contraction.taps and _installed("onnxruntime", "onnx"):
        found["onnxruntime"] = _onnxruntime(case, x, matrix, threads)
    return found


def half_peers(case: Case, x: np.ndarray, matrix: np.ndarray, threads: int) -> dict[str, Program]:
    """Return libraries that multiply bfloat16; of linear layers only."""
    import torch

    rows = torch.from_numpy(x.astype(np.float32)).bfloat16()
    weight = torch.from_numpy(matrix.astype(np.float32)).bfloat16()
    number = copies(2 * matrix.size, case.cold)
    pack = torch.ops.mkldnn._reorder_linear_weight
    packed = itertools.cycle([pack(weight, len(rows)) for _ in range(number)])
    run = torch.ops.mkldnn._linear_pointwise
    wide = x.astype(np.float32)
    found: dict[str, Program] = {
        "oneDNN packed": lambda: run(rows, next(packed), None, "none", [], "").float()
    }
    if _installed("openvino"):
        found["openvino"] = _openvino(wide, matrix.astype(np.float32), threads)
    return found


def _installed(*packages: str) -> bool:
    return all(map(importlib.util.find_spec, packages))


def _torch_linear(case: Case, x: np.ndarray, matrix: np.ndarray) -> Program:
    import torch

    rows, weight = torch.from_numpy(x), torch.from_numpy(matrix)
    number = copies(matrix.nbytes, case.cold)
    pack = torch.ops.onednn.qlinear_prepack
    packed = itertools.cycle([pack(weight, list(x.shape)) for _ in range(number)])
    scales, zeros = torch.ones(len(matrix)), torch.zeros(len(matrix), dtype=torch.int32)
    run, output = torch.ops.onednn.qlinear_pointwise, (1.0, 0, torch.float32, "none", [], "")
    return lambda: run(rows, 1.0, 0, next(packed), scales, zeros, None, *output)


def _torch_conv(case: Case, x: np.ndarray, matrix: np.ndarray) -> Program:
    import torch

    c, (_, _, stride, padding) = case.contraction, case.window
    image = torch.from_numpy(image_of(case, x)).contiguous(memory_format=torch.channels_last)
    weight = torch.from_numpy(oihw_of(case, matrix))
    scales, zeros = torch.ones(c.features), torch.zeros(c.features, dtype=torch.int32)
    window = [stride] * 2, [padding] * 2, [1, 1], c.columns if c.depthwise else 1
    packed = torch.ops.onednn.qconv_prepack(weight, scales, 1.0, 0, *window, list(image.shape))
    run, output = torch.ops.onednn.qconv_pointwise, (1.0, 0, torch.float32, "none", [], "")
    return lambda: Channels(run(image, 1.0, 0, packed, scales, zeros, None, *window, *output))


def _onnxruntime(case: Case, x: np.ndarray, matrix: np.ndarray, threads: int) -> Program:
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(np.ascontiguousarray(matrix.T), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return onnx_program(model, x, copies(matrix.nbytes, case.cold), threads)


def _openvino(x: np.ndarray, matrix: np.ndarray, threads: int) -> Program:
    import openvino
    from openvino import opset13 as op

    node = op.parameter(list(x.shape), np.float32)
    result = op.matmul(node, op.constant(matrix), False, True)
    compiled = openvino_model(openvino.Model([result], [node]), threads, "bf16")
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(x))
    return lambda: (request.infer(), request.get_output_tensor().data)[1]
