"""Code written for DeepSparse's engine runs as it is."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
import torch

from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.base.config import Config
from tvm_sparse.compat.deepsparse import Engine, Scheduler, benchmark_model, compile_model
from tvm_sparse.errors import InputError
from tvm_sparse_runtime import TensorError
from tvm_sparse_runtime.trust import POLICY

FAST = Config(measure=False)


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((16, 8)).astype("float32")
    w[rng.random(w.shape) < 0.8] = 0
    return {"w": w, "v": rng.standard_normal((8, 3, 3, 3)).astype("float32")}


@pytest.fixture
def file(tmp_path):
    nodes = [
        node("Conv", "x v", "c"),
        node("GlobalAveragePool", "c", "p"),
        node("Flatten", "p", "f"),
        node("MatMul", "f wt", "m"),
        node("Add", "m s", "y"),
        node("Relu", "y", "z"),
    ]
    held = {"v": weights()["v"], "wt": weights()["w"].T.copy()}
    shapes = {"x": ["batch", 3, 6, 6], "s": [1, 16]}
    model = graph(nodes, shapes, ["y", "z"], held)
    for output in model.graph.output:
        kind = onnx.TensorProto.FLOAT
        output.CopyFrom(onnx.helper.make_tensor_value_info(output.name, kind, ["batch", 16]))
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def inputs(batch: int, size: int = 6) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = (batch, 3, size, size), (batch, 16)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def expected(x: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
    held = {name: torch.from_numpy(w) for name, w in weights().items()}
    c = torch.nn.functional.conv2d(torch.from_numpy(x), held["v"]).mean((2, 3))
    y = (c @ held["w"].T + torch.from_numpy(s)).numpy()
    return [y, np.maximum(y, 0)]


def assert_right(found, given):
    assert isinstance(found, list)
    for got, want in zip(found, expected(*given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_an_engine_runs_its_batch_in_every_way(file):
    engine = Engine(str(file), batch_size=4, num_cores=1, config=FAST)
    given = inputs(4)
    assert_right(engine.run(given), given)
    assert_right(engine(given, val_inp=False), given)
    found, seconds = engine.timed_run(given)
    assert_right(found, given)
    assert seconds > 0
    named = engine.mapped_run(given)
    assert list(named) == ["y", "z"]
    assert_right(list(named.values()), given)
    assert (engine.batch_size, engine.num_cores, engine.num_streams) == (4, 1, 1)
    assert engine.input_names == ["x", "s"]
    assert engine.input_shapes == [(4, 3, 6, 6), (4, 16)]
    assert engine.library.decisions.records[1].sparsity == pytest.approx(0.8, abs=0.1)


def test_input_shapes_replace_those_of_the_file_and_a_folder_has_a_model(file):
    engine = compile_model(
        file.parent, batch_size=2, num_cores=1, input_shapes=[[1, 3, 8, 8], [1, 16]], config=FAST
    )
    given = inputs(2, size=8)
    assert_right(engine.run(given), given)


def test_numbers_have_no_axes_and_states_keep_their_own(tmp_path):
    nodes = [node("Mul", "x k", "scaled"), node("Add", "scaled state", "y")]
    shapes = {"x": ["n", 8], "k": [], "state": [4, 1, 8]}
    onnx.save(graph(nodes, shapes, ["y"]), tmp_path / "model.onnx")
    given = [[1, 8], [], [4, 1, 8]]
    engine = Engine(tmp_path / "model.onnx", 1, 1, input_shapes=given, config=FAST)
    assert engine.input_shapes == [(1, 8), (), (4, 1, 8)]
    x, k, state = (np.full(shape, 2, np.float32) for shape in given)
    np.testing.assert_array_equal(engine.run([x, k, state])[0], np.full((4, 1, 8), 6, np.float32))


def test_streams_run_side_by_side(file):
    engine = Engine(file, 1, num_cores=2, num_streams=5, scheduler="async", config=FAST)
    assert (engine.num_streams, engine.scheduler) == (2, Scheduler.multi_stream)
    given, results = inputs(1), []
    threads = [threading.Thread(target=lambda: results.append(engine.run(given))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    for found in results:
        assert_right(found, given)


def test_benchmarks_count_what_is_not_warmup(file):
    given = inputs(2)
    results = benchmark_model(
        file, given, 2, 1, num_iterations=3, num_warmup_iterations=1, include_outputs=True,
        config=FAST,
    )  # fmt: skip
    assert (results.num_batches, results.num_items) == (3, 6)
    assert results.items_per_second == pytest.approx(2 * results.batches_per_second)
    assert results.ms_per_batch == pytest.approx(1e3 * np.mean(results.batch_times))
    assert results.ms_per_item == pytest.approx(results.ms_per_batch / 2)
    assert results.inputs == [None] * 3
    assert_right(results.outputs[0], given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size: is 0"),
        ({"scheduler": "fifo"}, "scheduler: is 'fifo'"),
        ({"input_shapes": [[1, 3, 6, 6]]}, "input_shapes: are 1"),
        ({"input_shapes": [[1, 3, 6], [1, 16]]}, "input 'x': has 4 axes"),
        ({"model": "zoo:cv/classification"}, "SparseZoo"),
        ({"model": "missing.onnx"}, "no such file"),
    ],
)
def test_arguments_that_are_not_valid(file, arguments, message):
    with pytest.raises(InputError, match=message):
        Engine(**{"model": file, **arguments})


def test_arrays_that_do_not_fit(file):
    engine = Engine(file, 2, 1, config=FAST)
    x, s = inputs(2)
    with pytest.raises(InputError, match="is a tuple; expected a list"):
        engine.run((x, s))
    with pytest.raises(InputError, match=r"inp\[0\]: is not contiguous"):
        engine.run([x.transpose(0, 1, 3, 2), s])
    with pytest.raises(TensorError, match="expected"):
        engine.run(inputs(3))
    with pytest.raises(InputError, match="at least 1"):
        engine.benchmark([x, s], num_iterations=0)


def test_an_engine_under_a_policy_of_signatures(file, monkeypatch):
    monkeypatch.setenv(POLICY, "")
    assert Engine(file, config=FAST).input_names == ["x", "s"]
