import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from tests.artifact.programs import echo, linear, linear_reference
from tests.runtime.arrays import aligned
from tvm_sparse_runtime import SparseRuntimeError, TensorError, TensorSpec, engine, start
from tvm_sparse_runtime.session import Session

X = TensorSpec("x", ("n", 4), "float32")


def fake(main, arity):
    """Return a virtual machine whose ``main`` is a Python function."""
    return {"main": main, "get_function_arity": {"main": arity}.__getitem__}


def session_of(program):
    """Start a compiled program in this process, as the compiler's own library does."""
    vm = start(program.executable.jit())
    return Session(vm, program.inputs, program.outputs, program.weights.values())


@pytest.fixture(scope="module")
def linear_session():
    return session_of(linear())


def test_weights_are_passed_after_inputs_and_aligned():
    raw = np.arange(130, dtype="float32")
    weights = [raw[1:65], torch.ones(2, dtype=torch.bfloat16), raw]
    seen = []

    def main(*arguments):
        seen.append([a.data_ptr() for a in arguments])
        return engine.empty((1,), "float32")

    session = Session(fake(main, 4), [X], [TensorSpec("y", (1,), "float32")], weights)
    session(np.ones((3, 4), "float32"))
    session(np.ones((3, 4), "float32"))
    assert all(address % 64 == 0 for call in seen for address in call)
    assert seen[0][1:] == seen[1][1:], "weights are copied at most once"


def test_weight_with_strides_is_refused():
    with pytest.raises(SparseRuntimeError, match="contiguous"):
        Session(fake(None, 2), [X], [], [np.ones((4, 4), "float32").T])


def test_wrong_number_of_weights_is_refused():
    with pytest.raises(SparseRuntimeError, match="takes 5 tensors; expected 1 inputs"):
        Session(fake(None, 5), [X], [], [])


@pytest.mark.parametrize("count", [0, 2])
def test_wrong_number_of_inputs(linear_session, count):
    with pytest.raises(TensorError, match=r"expected 1; x: float32\[batch, 64\]"):
        linear_session(*[np.zeros((1, 64), "float32")] * count)


def test_wrong_number_of_outputs():
    session = Session(fake(lambda x: [x, x], 1), [X], [X], [])
    with pytest.raises(SparseRuntimeError, match="2 outputs"):
        session(np.ones((1, 4), "float32"))


def test_what_fails_inside_names_the_shapes():
    def main(*_):
        raise RuntimeError("no memory for 9 bytes")

    session = Session(fake(main, 1), [X], [X], [])
    with pytest.raises(SparseRuntimeError, match=r"main: failed on .* \(3, 4\) .*no memory for 9"):
        session(np.ones((3, 4), "float32"))


@pytest.mark.parametrize("count", [0, 1, 9])
def test_extents_outside_their_bounds(count):
    session = Session(fake(None, 1), [X], [X], [], bounds={"n": (2, 8)})
    with pytest.raises(TensorError, match=r"input x: .*expected n = 2 to 8"):
        session(np.ones((count, 4), "float32"))


def test_extents_that_depend_on_others():
    def main(_, x):
        return engine.copy(x, engine.empty(x.shape, "float32"))

    specs = [TensorSpec("d", ("n * 2", 4), "float32"), X]
    session = Session(fake(main, 2), specs, [X], [])
    x = np.ones((3, 4), "float32")
    assert session(np.ones((6, 4), "float32"), x).shape == (3, 4)
    with pytest.raises(TensorError, match=r"input d: shape \(5, 4\), .*expected a multiple of 2"):
        session(np.ones((5, 4), "float32"), x)
    with pytest.raises(TensorError, match=r"shape \(3, 4\), .*expected n = 4"):
        session(np.ones((8, 4), "float32"), x)


def test_no_inputs_gives_numpy():
    made = engine.copy(engine.tensor(np.arange(3.0)), engine.empty((3,), "float64"))
    session = Session(fake(lambda: made, 0), [], [TensorSpec("y", (3,), "float64")], [])
    np.testing.assert_array_equal(session(), np.arange(3.0))


@pytest.mark.parametrize("batch", [0, 1, 2, 7, 64])
def test_symbolic_batch(linear_session, batch):
    x = np.random.default_rng(batch).normal(size=(batch, 64)).astype("float32")
    outputs = linear_session(x)
    assert type(outputs) is tuple
    for found, expected in zip(outputs, linear_reference(x), strict=True):
        assert type(found) is np.ndarray
        assert found.flags.writeable
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_torch_in_torch_out(linear_session):
    x = torch.randn(3, 64, requires_grad=True)
    y, z = linear_session(x)
    assert isinstance(y, torch.Tensor)
    assert not y.requires_grad
    np.testing.assert_allclose(z, linear_reference(x.detach().numpy())[1], atol=1e-4)
    tensors = linear_session(engine.tensor(x.detach()))
    assert all(isinstance(t, engine.ffi().Tensor) for t in tensors)


@pytest.mark.parametrize("offset", range(64))
def test_every_alignment(linear_session, offset):
    """A misaligned pointer ends the process unless it is copied: the program uses vectors."""
    x = aligned(3 * 64, "float32", offset).reshape(3, 64)
    x[...] = np.arange(192).reshape(3, 64) % 7
    np.testing.assert_allclose(linear_session(x)[1], linear_reference(x)[1], atol=1e-3)


def test_outputs_outlive_everything():
    session = session_of(linear())
    x = np.ones((5, 64), "float32")
    kept = [session(x + i)[1] for i in range(20)]
    del session
    for i, z in enumerate(kept):
        np.testing.assert_allclose(z, linear_reference(x + i)[1], atol=1e-2)


def test_outputs_share_no_memory_with_inputs_or_weights():
    session = session_of(echo())
    x = np.arange(256, dtype="int32")
    x = x[-x.ctypes.data % 64 // 4 :][:64].reshape(4, 16)
    same, weight = session(x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(weight, echo().weights["w"])
    same[...] = weight[...] = -1
    assert x[0, 1] != -1
    np.testing.assert_array_equal(session(x)[1], np.arange(64).reshape(4, 16))


@pytest.mark.parametrize("offset", [0, 4])
def test_torch_outputs_share_no_memory_either(offset):
    """TVM's call takes and makes torch's tensors itself."""
    session = session_of(echo())
    raw = torch.zeros(96, dtype=torch.int32)
    x = raw[offset : offset + 64].view(4, 16)
    same, weight = session(x)
    assert type(same) is type(weight) is torch.Tensor
    same[...] = weight[...] = -1
    assert not x.any()
    np.testing.assert_array_equal(session(x)[1], np.arange(64).reshape(4, 16))


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_input_names_the_framework_of_outputs(first):
    """Whatever the others are of."""

    def main(a, b):
        return [engine.copy(t, engine.empty((3, 4), "float32")) for t in map(engine.tensor, (a, b))]

    session = Session(fake(main, 2), [X, TensorSpec("y", ("n", 4), "float32")], [X, X], [])
    values = [torch.ones(3, 4), np.full((3, 4), 2, "float32")]
    found = session(*(values if first == 0 else values[::-1]))
    assert {type(y) for y in found} == {type(values[first])}
    assert sorted(float(y[0, 0]) for y in found) == [1, 2]


def test_threads_may_share_a_session(linear_session):
    inputs = [np.full((4, 64), i, "float32") for i in range(4)]
    expected = [linear_reference(x)[1] for x in inputs]
    wrong = []

    def work(i):
        for _ in range(50):
            if not np.allclose(linear_session(inputs[i])[1], expected[i], atol=1e-3):
                wrong.append(i)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_clones_share_weights_and_run_side_by_side():
    """Each of two calls waits inside the program for the other to be there."""
    meeting = threading.Barrier(2, timeout=20)
    addresses = []

    def main(x, w):
        addresses.append(w.data_ptr())
        meeting.wait()
        return engine.copy(x, engine.empty(x.shape, "float32"))

    weights = [np.arange(129, dtype="float32")[1:]]
    first = Session(fake(main, 2), [X], [X], weights, restart=lambda: fake(main, 2))
    second = first.clone()
    inputs = [np.full((3, 4), n, "float32") for n in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda s, x: s(x), (first, second), inputs))
    for output, given in zip(found, inputs, strict=True):
        np.testing.assert_array_equal(output, given)
    assert len(set(addresses)) == 1


@pytest.mark.parametrize(("part", "copied"), [(0, True), (1, False), (2, True), (3, False)])
def test_outputs_in_weights_are_copied_and_those_between_are_not(part, copied):
    memory = np.zeros(5 * 16, "float32")
    first = -memory.ctypes.data % 64 // 4
    parts = [memory[first + 16 * i :][:16] for i in range(4)]
    out = engine.tensor(parts[part])
    session = Session(
        fake(lambda *_: out, 3), [X], [TensorSpec("y", (16,), "float32")], [parts[2], parts[0]]
    )
    y = session(np.ones((1, 4), "float32"))
    assert np.shares_memory(y, parts[part]) != copied


def test_a_session_of_one_machine_has_no_clones():
    with pytest.raises(SparseRuntimeError, match="made of one virtual machine"):
        Session(fake(None, 1), [X], [X], []).clone()
