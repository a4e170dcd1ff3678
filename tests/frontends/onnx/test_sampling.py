"""GridSample: every mode, padding and corner, against onnxruntime and ONNX's own reference."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager, expected, graph, node
from tests.ops.test_grid_sample import PADDINGS, far
from tests.parts import family, parts
from tvm_sparse.errors import UnsupportedError

CONFIG = ts.Config(sparse=False, measure=False, cache=False, tuned=False)
USES = [
    (
        f"{mode}_{padding}_{corners}",
        {"mode": mode, "padding_mode": padding, "align_corners": corners},
    )
    for mode in ("linear", "nearest", "cubic")
    for padding in PADDINGS
    for corners in (0, 1)
]


def samples(uses, extents, samples):
    inputs = {"x": (2, 3, *extents), "grid": (2, *samples, len(extents))}
    nodes = [node("GridSample", "x grid", name, **how) for name, how in uses]
    made = graph(nodes, inputs, [name for name, _ in uses], opset=20)
    shape = [2, 3, *samples]
    for value in made.graph.output:
        value.CopyFrom(helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, shape))
    return made


PLACES = {"planes": ((5, 7), (4, 6)), "volumes": ((3, 4, 2), (4, 5, 2))}
OF_VOLUMES = {name: how for name, how in USES if "cubic" not in name}
PARTS = parts({"planes": dict(USES), "volumes": OF_VOLUMES}, 4)


@pytest.mark.grid
@pytest.mark.parametrize("part", PARTS)
def test_as_onnxruntime_and_the_reference(part, tmp_path):
    uses, (extents, places) = [*PARTS[part].items()], PLACES[family(part)]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, *extents)).astype(np.float32)
    grid = far(2, *places, len(extents)).numpy()
    model = samples(uses, extents, places)
    onnx.save(model, tmp_path / "model.onnx")
    found = ts.compile(tmp_path / "model.onnx", config=CONFIG).run(x, grid)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    theirs = session.run(None, {"x": x, "grid": grid})
    plain = eager(model, x, grid)
    wrong = [
        name
        for (name, _), ours, torchs, wanted in zip(uses, found, plain, theirs, strict=True)
        if not np.allclose(np.asarray(ours), wanted, rtol=1e-4, atol=5e-5)
        or not np.allclose(torchs, wanted, rtol=1e-4, atol=5e-5)
    ]
    assert wrong == []
    reference = expected(model, x, grid)
    wrong = [
        name
        for (name, _), ours, wanted in zip(uses, plain, reference, strict=True)
        if not np.allclose(ours, wanted, rtol=1e-4, atol=5e-5)
    ]
    # ONNX's reference moves the place to the border, onnxruntime and PyTorch each tap.
    assert set(wrong) <= {"cubic_border_0", "cubic_border_1"}


def test_a_line_is_a_plane_of_height_one():
    x = np.random.default_rng(1).standard_normal((2, 3, 6)).astype(np.float32)
    grid = far(2, 9, 1).numpy()
    model = samples([*OF_VOLUMES.items()], (6,), (9,))
    for ours, wanted in zip(eager(model, x, grid), expected(model, x, grid), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=5e-5)


def test_cubic_volumes_are_refused_by_name():
    model = samples([USES[-1]], (3, 4, 2), (4, 5, 2))
    with pytest.raises(UnsupportedError, match="mode 'bicubic' of 3 axes"):
        eager(model, np.zeros((2, 3, 3, 4, 2), np.float32), np.zeros((2, 4, 5, 2, 3), np.float32))
