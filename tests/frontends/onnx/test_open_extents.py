"""Operators on open extents: the same results as onnxruntime's at several sizes."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse_runtime.errors import TensorError

CONFIG = ts.Config(measure=False)
PLANES = ((1, 2, 8, 9), (2, 2, 11, 16), (1, 2, 13, 13))
OPEN = {"x": ["n", 2, "h", "w"]}


def _sessions(tmp_path, model):
    for value in model.graph.output:
        if not value.HasField("type"):
            rank = len(model.graph.input[0].type.tensor_type.shape.dim)
            kind = onnx.TensorProto.FLOAT
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, [None] * rank))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return ts.compile(path, config=CONFIG), onnxruntime.InferenceSession(path)


def _check(tmp_path, model, shapes, tolerance=1e-5):
    library, session = _sessions(tmp_path, model)
    draw = np.random.default_rng(0)
    for shape in shapes:
        x = draw.random(shape, np.float32)
        wanted = session.run(None, {"x": x})
        for ours, theirs in zip(library.run(x), wanted, strict=True):
            np.testing.assert_allclose(np.from_dlpack(ours), theirs, atol=tolerance)
    return library


@pytest.mark.grid
@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_convolutions_pad_by_their_extents(tmp_path, padding, stride):
    weight = np.random.default_rng(1).random((4, 2, 3, 5), np.float32)
    nodes = [node("Conv", "x weight", "y", auto_pad=padding, strides=[stride, stride])]
    _check(tmp_path, graph(nodes, OPEN, ["y"], {"weight": weight}), PLANES)


def test_planes_behind_padded_layers_are_divided_once(tmp_path):
    draw, nodes, weights, channels = np.random.default_rng(1), [], {}, 2
    for i, kernel in enumerate([3, 5, 3, 1, 3]):
        weights[f"w{i}"] = draw.random((3, channels, kernel, kernel), np.float32) / 9
        options = {"auto_pad": "SAME_UPPER", "strides": [2, 2] if kernel != 5 else [1, 1]}
        nodes.append(node("Conv", f"x{i or ''} w{i}", f"x{i + 1}", **options))
        channels = 3
    library = _check(
        tmp_path, graph(nodes, OPEN, ["x5"], weights), [(1, 2, 33, 64), (2, 2, 97, 40)]
    )
    assert str(library.outputs[0].shape[2]) == "(h + 15) // 16"


@pytest.mark.grid
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    "attributes",
    [{"auto_pad": "SAME_UPPER"}, {"pads": [1, 1, 1, 1]}, {"pads": [0, 0, 1, 1]}],
)
def test_pooling_of_open_planes(tmp_path, operator, attributes):
    windows = {"kernel_shape": [3, 3], "strides": [2, 2], **attributes}
    _check(tmp_path, graph([node(operator, "x", "y", **windows)], OPEN, ["y"], opset=17), PLANES)


def test_windows_may_hang_over_the_end(tmp_path):
    windows = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
    _check(tmp_path, graph([node("MaxPool", "x", "y", **windows)], OPEN, ["y"], opset=17), PLANES)


@pytest.mark.grid
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_from_within_an_open_axis(tmp_path, mode):
    pads = {"pads": np.array([0, 3, 0, 2])}
    model = graph([node("Pad", "x pads", "y", mode=mode)], {"x": [1, "w"]}, ["y"], pads, opset=19)
    _check(tmp_path, model, [(1, 4), (1, 5), (1, 9)], 0)


@pytest.mark.grid(9)
@pytest.mark.parametrize("scale", [2.0, 1.5, 0.5])
@pytest.mark.parametrize(
    ("mode", "places", "more"),
    [
        ("linear", "half_pixel", {}),
        ("linear", "asymmetric", {}),
        ("linear", "pytorch_half_pixel", {}),
        ("cubic", "half_pixel", {}),
        ("nearest", "asymmetric", {"nearest_mode": "floor"}),
        ("nearest", "half_pixel", {}),
    ],
)
def test_open_planes_are_resized_by_constant_scales(tmp_path, mode, places, more, scale):
    scales = {"scales": np.array([1, 1, scale, scale], np.float32)}
    options = {"mode": mode, "coordinate_transformation_mode": places, **more}
    model = graph([node("Resize", "x - scales", "y", **options)], OPEN, ["y"], scales, opset=17)
    _check(tmp_path, model, [(1, 2, 4, 6), (1, 2, 5, 7), (2, 2, 12, 9)])


@pytest.mark.grid
@pytest.mark.parametrize(
    ("mode", "rounding"),
    [("nearest", "floor"), ("nearest", "ceil"), ("linear", "floor"), ("cubic", "floor")],
)
def test_corners_of_open_planes_stay_where_they_are(tmp_path, mode, rounding):
    scales = {"scales": np.array([1, 1, 2, 3], np.float32)}
    options = {"coordinate_transformation_mode": "align_corners", "nearest_mode": rounding}
    nodes = [node("Resize", "x - scales", "y", mode=mode, **options)]
    model = graph(nodes, OPEN, ["y"], scales, opset=17)
    _check(tmp_path, model, [(1, 2, 4, 6), (1, 2, 5, 7), (2, 2, 12, 9), (1, 2, 1, 1)])


def test_sizes_of_a_free_batch_are_its_own(tmp_path):
    nodes = [
        node("Shape", "x", "lead", start=0, end=2),
        node("Concat", "lead plane", "sizes", axis=0),
        node("Resize", "x - - sizes", "y", mode="linear"),
    ]
    model = graph(nodes, {"x": ["n", 3, 8, 8]}, ["y"], {"plane": np.array([16, 20])}, opset=17)
    _check(tmp_path, model, [(1, 3, 8, 8), (3, 3, 8, 8)])


@pytest.mark.grid
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_single_elements_are_resized_to_open_planes(tmp_path, mode):
    nodes = [
        node("GlobalAveragePool", "x", "mean"),
        node("Shape", "x", "sizes"),
        node("Resize", "mean - - sizes", "wide", mode=mode),
        node("Concat", "wide x", "y", axis=1),
    ]
    model = graph(nodes, {"x": ["n", 2, "h", "w"]}, ["y"], {}, opset=17)
    library = _check(tmp_path, model, [(1, 2, 4, 6), (3, 2, 1, 7), (2, 2, 1, 1)])
    assert library.bounds == {"n": (1, None), "h": (1, None), "w": (1, None)}


@pytest.mark.grid
@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(-1, -(1 << 40), -1), (1 << 31, -(1 << 31), -2), (-2, 0, -2), (-1, -5, -1), (5, 1, -2)],
)
def test_slices_backwards_over_an_open_axis(tmp_path, start, end, step):
    rows = {"starts": [start], "ends": [end], "axes": [1], "steps": [step]}
    weights = {name: np.array(value) for name, value in rows.items()}
    nodes = [node("Slice", "x starts ends axes steps", "y")]
    model = graph(nodes, {"x": ["n", "l", 4]}, ["y"], weights, opset=17)
    library = _check(tmp_path, model, [(2, 8, 4), (1, 15, 4)], 0)
    assert library.inputs[0].shape == ("n", "l", 4)


@pytest.mark.grid
@pytest.mark.parametrize("end", [10**9, (1 << 31) - 1, 1 << 62])
def test_the_end_of_a_slice_may_be_far(tmp_path, end):
    rows = {"starts": [-(1 << 31)], "ends": [end], "axes": [0]}
    weights = {name: np.array(value) for name, value in rows.items()}
    model = graph([node("Slice", "x starts ends axes", "y")], OPEN, ["y"], weights, opset=17)
    library = _check(tmp_path, model, PLANES[:1], 0)
    assert library.outputs[0].shape == ("n", 2, "h", "w")


def test_extents_pass_casts_quotients_and_ranges(tmp_path):
    nodes = [
        node("Shape", "x", "shape"),
        node("Cast", "shape", "narrow", to=onnx.TensorProto.INT32),
        node("Slice", "narrow zero one", "lead"),
        node("Concat", "lead rest", "target", axis=0),
        node("Cast", "target", "wide", to=onnx.TensorProto.INT64),
        node("Reshape", "x wide", "flat"),
        node("Gather", "shape at", "length"),
        node("Div", "length two", "half"),
        node("Range", "start half two", "places"),
        node("Cast", "places", "numbers", to=onnx.TensorProto.FLOAT),
        node("ReduceSum", "numbers", "sum", keepdims=0),
        node("Add", "flat sum", "y"),
    ]
    weights = {
        "zero": np.array([0]),
        "one": np.array([1]),
        "at": np.array(1),
        "two": np.array(2),
        "start": np.array(0),
        "rest": np.array([-1], np.int32),
    }
    model = graph(nodes, {"x": ["n", "l", 4]}, ["y"], weights, opset=17)
    model.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, None])
    )
    _check(tmp_path, model, [(1, 6, 4), (3, 9, 4)])


def test_a_range_of_floats_counts_to_an_extent(tmp_path):
    """As detectors make the places of their anchors; the float itself is an operand besides."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape at", "length"),
        node("Cast", "length", "real", to=onnx.TensorProto.FLOAT),
        node("Range", "zero real one", "counted"),
        node("Add", "counted half", "places"),
        node("Div", "places real", "parts"),
        node("Mul", "x parts", "y"),
    ]
    floats = {"zero": 0.0, "one": 1.0, "half": 0.5}
    weights = {name: np.array(value, np.float32) for name, value in floats.items()}
    model = graph(nodes, {"x": ["n", "l"]}, ["y"], {"at": np.array(1), **weights}, opset=17)
    model.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, None])
    )
    _check(tmp_path, model, [(1, 6), (3, 9), (2, 33)])
    model.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(np.float32(0.5), "one"))
    onnx.save(model, tmp_path / "fractions.onnx")
    with pytest.raises(ts.UnsupportedError, match="counts to an open extent in fractions"):
        ts.load(tmp_path / "fractions.onnx")


def test_a_kernel_longer_than_the_first_try(tmp_path):
    weight = np.random.default_rng(0).random((4, 1, 400), np.float32)
    nodes = [node("Conv", "x weight", "y", strides=[160])]
    model = graph(nodes, {"x": [1, 1, "samples"]}, ["y"], {"weight": weight}, opset=17)
    library = _check(tmp_path, model, [(1, 1, 400), (1, 1, 16000)], 1e-4)
    assert library.bounds == {"samples": (400, None)}
    with pytest.raises(TensorError, match="at least 400"):
        library.run(np.zeros((1, 1, 399), np.float32))


def test_halves_of_a_concatenation_that_only_pytorch_compares(tmp_path):
    """Planes that are halved and doubled again have their size, if that is a multiple of four."""
    weight = np.random.default_rng(0).random((2, 2, 3, 3), np.float32)
    halves = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
    nodes = [
        node("Conv", "x weight", "half", **halves),
        node("Conv", "half weight", "quarter", **halves),
        node("Resize", "quarter - scales", "again", mode="nearest"),
        node("Concat", "half again", "y", axis=1),
    ]
    weights = {"weight": weight, "scales": np.array([1, 1, 2, 2], np.float32)}
    path = tmp_path / "model.onnx"
    model = graph(nodes, OPEN, ["y"], weights, opset=17)
    kind = onnx.TensorProto.FLOAT
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", kind, [None] * 4))
    onnx.save(model, path)
    library = ts.compile(ts.load(path), config=CONFIG)
    assert library.inputs[0].shape == ("n", 2, "h_by_4 * 4", "w_by_4 * 4")
    session = onnxruntime.InferenceSession(path)
    for shape in ((3, 2, 16, 24), (1, 2, 4, 8), (2, 2, 20, 4), (1, 2, 68, 140)):
        x = np.random.default_rng(0).random(shape, np.float32)
        wanted = session.run(None, {"x": x})[0]
        np.testing.assert_allclose(np.from_dlpack(library.run(x)[0]), wanted, atol=1e-4)
    with pytest.raises(TensorError, match="18 on axis 2; expected a multiple of 4, x: float32"):
        library.run(np.zeros((3, 2, 18, 24), np.float32))


def test_a_squeeze_of_all_ones_does_not_hold_for_a_batch_of_one(tmp_path):
    nodes = [node("Squeeze", "x", "y")]
    model = graph(nodes, {"x": ["n", 3, 1]}, ["y"], opset=17)
    kind = onnx.TensorProto.FLOAT
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", kind, [None, None]))
    onnx.save(model, tmp_path / "model.onnx")
    loaded = ts.load(tmp_path / "model.onnx")
    assert loaded.outputs[0].shape == ("n", 3)
    assert loaded.bounds == {"n": (2, None)}


def test_a_batch_that_can_only_be_one_is_one(tmp_path):
    nodes = [
        node("Shape", "x", "length", start=1, end=2),
        node("Concat", "length one parts", "shape", axis=0),
        *(node("Transpose", "x", "turned", perm=[1, 0, 2]), node("Reshape", "turned shape", "y")),
    ]
    held = {"one": np.array([1]), "parts": np.array([2, 3])}
    model = graph(nodes, {"x": ["batch", "length", 6]}, ["y"], held, opset=17)
    library = _check(tmp_path, model, [(1, 1, 6), (1, 7, 6), (1, 300, 6)], tolerance=0)
    assert library.inputs[0].shape == (1, "length", 6)


def test_padding_that_follows_from_an_extent_follows_another_one(tmp_path):
    """Exporters of audio pad to a least length, then to whole frames."""
    nodes = [
        *(node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Sub", "frame n", "d")),
        *(node("Max", "d zero", "more"), node("Unsqueeze", "more first", "m")),
        *(node("Concat", "none m", "p", axis=0), node("Pad", "x p", "a")),
        *(node("Max", "n frame", "l"), node("Add", "l rest", "r"), node("Div", "r frame", "f")),
        *(node("Mul", "f frame", "w"), node("Sub", "w l", "e"), node("Unsqueeze", "e first", "q")),
        *(node("Concat", "lead q", "o", axis=0), node("Pad", "a o", "b")),
        node("Reshape", "b rows", "y"),
    ]
    numbers = {"one": 1, "frame": 16, "zero": 0, "rest": 15}
    rows = {"first": [0], "none": [0, 0, 0], "lead": [0, 32, 0], "rows": [-1, 16]}
    parts = {name: np.array(value, np.int64) for name, value in (numbers | rows).items()}
    made = graph(nodes, {"x": [1, "n"]}, ["y"], parts, opset=17)
    _check(tmp_path, made, [(1, n) for n in (2, 15, 16, 17, 100)], tolerance=0)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_channels_that_fill_no_blocks_are_told(tmp_path, mode):
    nodes = [node("DepthToSpace", "x", "y", blocksize=2, mode=mode)]
    model = graph(nodes, {"x": ["n", "c", "h", "w"]}, ["y"])
    library = _check(tmp_path, model, [(1, 8, 3, 5), (2, 4, 2, 2), (1, 12, 4, 1)], tolerance=0)
    with pytest.raises(TensorError, match="6 on axis 1; expected a multiple of 4"):
        library.run(np.zeros((1, 6, 3, 3), np.float32))
