"""The interface of onnxruntime, beside onnxruntime itself."""

from __future__ import annotations

import logging
import sys
import threading

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvm_sparse as ts
from tests.frontends.onnx.graphs import branching, graph, node
from tvm_sparse.base import onnxruntime_itself
from tvm_sparse.compat import onnxruntime as ours
from tvm_sparse.compat.onnxruntime import programs
from tvm_sparse.errors import InputError, SparseError
from tvm_sparse.program import compiler
from tvm_sparse_runtime.errors import SparseRuntimeError, TensorError

CONFIG = ts.Config(measure=False)
RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((32, 48)).astype(np.float32)
X = RNG.standard_normal((3, 32)).astype(np.float32)


def _model():
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "y"), node("Add", "h k", "z")]
    model = graph(nodes, {"x": ("n", 32), "k": (48,)}, ["y", "z"], {"w": WEIGHT}, opset=17)
    for value, shape in zip(model.graph.output, (["n", 48], ["n", 48]), strict=True):
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, shape))
    model.metadata_props.add(key="character", value="a\nb")
    model.producer_name, model.model_version = "me", 3
    return model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("sessions")


@pytest.fixture(autouse=True)
def cache(place, monkeypatch):
    """A cache of this module's tests."""
    monkeypatch.setattr(programs, "cache_directory", lambda: place / "cache")


@pytest.fixture(scope="module")
def path(place):
    onnx.save(_model(), place / "m.onnx")
    return place / "m.onnx"


K = np.arange(48, dtype=np.float32)
FEED = {"x": X, "k": K}


@pytest.fixture
def sessions(path):
    return ours.InferenceSession(str(path), config=CONFIG), onnxruntime.InferenceSession(path)


def test_it_answers_as_onnxruntime_does(sessions):
    mine, theirs = sessions
    for names in (None, [], ["z"], ["z", "y"]):
        found, wanted = mine.run(names, FEED), theirs.run(names, FEED)
        assert isinstance(found, list)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    for method in ("get_inputs", "get_outputs"):
        for a, b in zip(getattr(mine, method)(), getattr(theirs, method)(), strict=True):
            assert (a.name, a.type, a.shape) == (b.name, b.type, b.shape)
    a, b = mine.get_modelmeta(), theirs.get_modelmeta()
    for name in ("custom_metadata_map", "producer_name", "graph_name", "version", "domain"):
        assert getattr(a, name) == getattr(b, name)
    assert mine.get_providers() == theirs.get_providers() == ["CPUExecutionProvider"]


def _logged(caplog):
    """What a user who set up no logging reads, line by line."""
    found = [r for r in caplog.records if "compat" in r.name]
    assert all(r.levelno == logging.WARNING for r in found)
    assert "\n" not in "".join(r.getMessage() for r in found)
    return [r.getMessage() for r in found]


def _announced(path, place, fixed=""):
    """A compilation's line, up to the name of what it makes."""
    begin = f"compiles {path}{fixed}, which may take minutes; the next start opens "
    return begin + str(place / "cache" / "onnx")


def test_the_first_start_says_what_takes_long(path, place, monkeypatch, caplog):
    """The line comes before the compilation; the folder that it names is what opens later."""
    compiled = compiler.compile

    def once_announced(*args, **kwargs):
        assert len(_logged(caplog)) == 1
        return compiled(*args, **kwargs)

    monkeypatch.setattr(compiler, "compile", once_announced)
    config = ts.Config(measure=False, sparse=False)
    ours.InferenceSession(path, config=config)
    (line,) = _logged(caplog)
    assert line.startswith(_announced(path, place))
    assert ours.InferenceSession(line.rpartition(" opens ")[2]).run(["y"], FEED)[0].shape == (3, 48)
    ours.InferenceSession(path, config=config)
    assert len(_logged(caplog)) == 1


def test_a_second_session_compiles_nothing(path, sessions, monkeypatch):
    monkeypatch.setattr(programs.File, "_compiled", None)
    session = ours.InferenceSession(path, config=CONFIG)
    assert session.run(["y"], FEED)[0].shape == (3, 48)
    with pytest.raises(TypeError):
        ours.InferenceSession(path, config=ts.Config(measure=False, cache=False))


def test_content_and_artifacts_are_models_too(path, place, sessions):
    wanted = sessions[1].run(None, FEED)
    content = ours.InferenceSession(path.read_bytes(), config=CONFIG)
    ts.compile(path, config=CONFIG).export(place / "m.tvms", force=True)
    artifact = ours.InferenceSession(place / "m.tvms")
    for session in (content, artifact):
        assert [v.name for v in session.get_inputs()] == ["x", "k"]
        for a, b in zip(session.run(None, FEED), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_bound_arrays(sessions):
    for session in sessions:
        binding = session.io_binding()
        binding.bind_cpu_input("x", X)
        binding.bind_input("k", "cpu", 0, np.float32, K.shape, K.ctypes.data)
        given = np.zeros((3, 48), np.float32)
        binding.bind_output("z", "cpu", 0, np.float32, given.shape, given.ctypes.data)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        z, y = binding.copy_outputs_to_cpu()
        np.testing.assert_array_equal(z, given)
        np.testing.assert_allclose(z, X @ WEIGHT + K, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(y, np.maximum(X @ WEIGHT, 0), rtol=1e-4, atol=1e-4)
        assert [v.shape() for v in binding.get_outputs()] == [[3, 48], [3, 48]]
        binding.clear_binding_outputs()
    value = ours.OrtValue.ortvalue_from_numpy(X)
    (found,) = sessions[0].run_with_ort_values(["y"], {"x": value, "k": K})
    np.testing.assert_array_equal(found.numpy(), y)
    small = sessions[0].io_binding()
    small.bind_ortvalue_input("x", value)
    small.bind_cpu_input("k", K)
    small.bind_ortvalue_output("y", ours.OrtValue.ortvalue_from_shape_and_type((3, 4)))
    with pytest.raises(InputError, match="which it is bound to"):
        sessions[0].run_with_iobinding(small)


@pytest.mark.parametrize(
    ("names", "feed", "message"),
    [
        (["q"], FEED, "output 'q'"),
        (None, {"x": X}, "input 'k'"),
        (None, {**FEED, "q": X}, "input 'q'"),
        (None, {**FEED, "x": X[:, :2]}, "x"),
        (None, {**FEED, "x": X.astype(np.float64)}, "float64"),
    ],
)
def test_wrong_calls_are_one_error(sessions, names, feed, message):
    with pytest.raises(SparseRuntimeError, match=message):
        sessions[0].run(names, feed)


def test_threads_and_free_dimensions_are_honoured(path):
    options = ours.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_free_dimension_override_by_name("n", 3)
    options.graph_optimization_level = ours.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ours.InferenceSession(path, options, ["CPUExecutionProvider"], config=CONFIG)
    assert session.run(["y"], FEED)[0].shape == (3, 48)
    (calls,) = session._calls.values()
    assert calls._idle.get_nowait().threads == 1
    with pytest.raises(SparseRuntimeError, match="x"):
        session.run(["y"], {**FEED, "x": X[:2]})
    with pytest.raises(InputError, match="CPUExecutionProvider"):
        ours.InferenceSession(path, providers=["CUDAExecutionProvider"])


def test_calls_of_several_threads_are_right(path):
    session = ours.InferenceSession(path, config=CONFIG)
    failed = []

    def work(seed):
        x = np.random.default_rng(seed).standard_normal((seed + 1, 32)).astype(np.float32)
        for _ in range(10):
            (y,) = session.run(["y"], {"x": x, "k": K})
            if not np.allclose(y, np.maximum(x @ WEIGHT, 0), rtol=1e-4, atol=1e-4):
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_number_that_decides_is_compiled_when_it_is_known(place, caplog):
    onnx.save(branching(), place / "branching.onnx")
    session = ours.InferenceSession(place / "branching.onnx", config=CONFIG)
    assert [v.name for v in session.get_inputs()] == ["x", "rate"]
    x = np.ones((1, 9), np.float32)
    (y,) = session.run(None, {"x": x, "rate": np.array(16000)})
    np.testing.assert_array_equal(y, np.full((1, 4), 9))
    with pytest.raises(SparseError):
        session.run(None, {"x": x, "rate": np.array(8000)})
    tried = ["", " for rate = 16000", " for rate = 8000", " for rate = 8000, x of 1x9"]
    for line, fixed in zip(_logged(caplog), tried, strict=True):
        assert line.startswith(_announced(place / "branching.onnx", place, fixed))


def _refused(place):
    """A model that onnxruntime takes, and this package refuses."""
    nodes = [node("NonZero", "x", "y")]
    model = graph(nodes, {"x": (2, 3)}, ["y"], {}, opset=17)
    value = helper.make_tensor_value_info("y", TensorProto.INT64, [2, "n"])
    model.graph.output[0].CopyFrom(value)
    onnx.save(model, place / "refused.onnx")
    return place / "refused.onnx"


def test_what_is_refused_runs_on_onnxruntime_if_asked(place, caplog):
    path, x = _refused(place), np.eye(2, 3, dtype=np.float32)
    with pytest.raises(SparseError):
        ours.InferenceSession(path)
    options = ours.SessionOptions()
    options.intra_op_num_threads = 1
    caplog.clear()
    session = ours.InferenceSession(path, options, fallback=True)
    tried, line = _logged(caplog)
    assert tried.startswith(_announced(path, place))
    assert line.startswith(f"onnxruntime runs {path}: ")
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.nonzero(x))
    assert session.get_inputs()[0].name == "x"
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.nonzero(x))
    with pytest.raises(InputError, match="a path, or the content"):
        ours.InferenceSession(3)
    with pytest.raises(InputError, match="own format"):
        ours.InferenceSession(place / "m.ort")


def test_other_packages_import_it_once_it_is_installed(place):
    ours.install(fallback=True)
    try:
        import onnxruntime as found

        assert found is ours
        assert onnxruntime_itself.onnxruntime("tests") is onnxruntime
        session = found.InferenceSession(_refused(place))
        assert isinstance(session._real, onnxruntime.InferenceSession)
    finally:
        ours.uninstall()
    assert sys.modules["onnxruntime"] is onnxruntime


def test_shapes_that_an_open_program_does_not_take_get_their_own(path, place, monkeypatch, caplog):
    session = ours.InferenceSession(path, config=CONFIG)
    caplog.clear()
    opened = session._opened

    def refusing(fixed):
        if not fixed.shapes:
            raise TensorError("input x", "3 on axis 0", "n = 7 to 9")
        return opened(fixed)

    monkeypatch.setattr(session, "_opened", refusing)
    for _ in range(2):
        (y,) = session.run(["y"], FEED)
        np.testing.assert_allclose(y, np.maximum(X @ WEIGHT, 0), rtol=1e-4, atol=1e-4)
    (line,) = _logged(caplog)
    assert line.startswith(_announced(path, place, " for x of 3x32, k of 48"))
    with pytest.raises(TensorError, match="n = 7 to 9"):
        session.run(["y"], {**FEED, "x": X[:, :2]})
