import sys

import ml_dtypes
import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

from tests.runtime.arrays import aligned
from tvm_sparse_runtime import engine, tensors
from tvm_sparse_runtime.errors import TensorError
from tvm_sparse_runtime.spec import ITEM_BYTES, TensorSpec

NUMPY_1 = np.__version__.startswith("1.")
"""NumPy 1 can neither share read-only memory nor import writeable one."""
SPEC = TensorSpec("x", ("n", 4), "float32")


def accepted(value, spec=SPEC):
    return tensors.accept(value, spec, {})


@pytest.mark.parametrize("wrap", [np.asarray, torch.from_numpy, engine.tensor])
def test_aligned_memory_is_used_as_it_is(wrap):
    array = aligned(8, "float32").reshape(2, 4)
    assert accepted(wrap(array)).data_ptr() == array.ctypes.data


@pytest.mark.skipif(NUMPY_1, reason="NumPy 1 cannot share it")
def test_read_only_memory_is_used_as_it_is():
    array = aligned(8, "float32").reshape(2, 4)
    array.flags.writeable = False
    assert accepted(array).data_ptr() == array.ctypes.data


@pytest.mark.parametrize("offset", range(1, 64))
def test_misaligned_memory_is_copied(offset):
    array = aligned(8, "float32", offset).reshape(2, 4)
    array[...] = np.arange(8).reshape(2, 4)
    tensor = accepted(array)
    assert tensor.data_ptr() % 64 == 0
    np.testing.assert_array_equal(np.from_dlpack(tensor), array)
    array[...] = -1
    assert np.from_dlpack(tensor)[0, 1] == 1


@pytest.mark.parametrize("offset", [4, 16, 60, 2])
def test_what_may_begin_anywhere_is_used_as_it_is(offset):
    array = aligned(8, "float32", offset).reshape(2, 4)
    tensor = tensors.accept(array, SPEC, {}, "cpu", 4)
    assert (tensor.data_ptr() == array.ctypes.data) == (offset % 4 == 0)


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_every_dtype_also_misaligned(dtype):
    source = torch.arange(9).to(getattr(torch, dtype))[1:]
    tensor = accepted(source, TensorSpec("x", (8,), dtype))
    assert tensor.data_ptr() % 64 == 0
    assert torch.equal(torch.from_dlpack(tensor), source)


BASE = np.arange(32, dtype="float32")


@pytest.mark.parametrize(
    "value",
    [
        BASE.reshape(4, 8).T,
        BASE.reshape(8, 4)[::-1],
        BASE.reshape(4, 8)[:, ::2],
        BASE.reshape(8, 4, order="F"),
        BASE.reshape(8, 4)[::8],
        np.broadcast_to(BASE[:4], (3, 4)),
        torch.from_numpy(BASE).reshape(4, 8).T,
        torch.from_numpy(BASE)[:4].expand(3, 4),
        torch.from_numpy(BASE.reshape(8, 4)).requires_grad_(),
        torch._neg_view(torch.from_numpy(BASE.reshape(8, 4))),
        torch.nn.Parameter(torch.ones(2, 4)),
        np.zeros((0, 4), "float32"),
        torch.zeros(0, 4),
    ],
    ids=range(13),
)
def test_any_layout(value):
    tensor = accepted(value)
    expected = value.detach().resolve_neg().numpy() if isinstance(value, torch.Tensor) else value
    assert tensor.is_contiguous()
    np.testing.assert_array_equal(np.from_dlpack(tensor), expected)


def test_foreign_tensor_with_strides():
    foreign = engine.tensor(BASE.reshape(4, 8).T)
    assert not foreign.is_contiguous()
    np.testing.assert_array_equal(np.from_dlpack(accepted(foreign)), BASE.reshape(4, 8).T)


@pytest.mark.parametrize("shape", [(0, 4), (5, 4, 0)])
def test_empty_tensors_have_plain_strides(shape):
    """NumPy's are zero, which compiled code takes for another layout."""
    spec = TensorSpec("x", shape, "float32")
    for value in (np.empty(shape, "float32"), aligned(0, "float32").reshape(shape)):
        assert accepted(value, spec).strides == engine.empty(shape, "float32").strides


def test_scalars_stay_scalars():
    for value in (np.array(2.5, "float32"), torch.tensor(2.5)):
        assert accepted(value, TensorSpec("s", (), "float32")).shape == ()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1.0] * 4], "a list; expected a NumPy array"),
        (None, "a NoneType"),
        (2.5, "a float"),
        (np.zeros((2, 4)), "dtype float64; expected dtype float32"),
        (np.zeros((2, 4), "complex64"), "DLPack"),
        (np.zeros((2, 4), ">f4"), "DLPack"),
        (np.zeros((2, 4), object), "DLPack"),
        (np.zeros((2, 4), "M8[s]"), "DLPack"),
        (np.zeros((2, 4), "U3"), "DLPack"),
        (np.zeros((2, 4), [("a", "float32")]), "DLPack"),
        (np.ma.masked_array(np.zeros((2, 4), "float32"), mask=True), "an array with a mask"),
        (np.broadcast_to(np.float32(0), (1 << 45, 4)), "DLPack"),
        (np.zeros((2, 4), "longdouble"), "DLPack"),
        (np.ndarray, "DLPack"),
        (torch.Tensor, "DLPack"),
        ({"x": 1}, "a dict"),
        ("x", "a str"),
        (torch.zeros(2, 4, dtype=torch.bfloat16), "dtype bfloat16"),
        (torch.zeros(2, 4).to_sparse(), "layout torch.sparse_coo"),
        (torch.zeros(2, 4, device="meta"), "without values"),
        (np.zeros(4, "float32"), r"shape \(4,\); expected 2 dimensions, x: float32\[n, 4\]"),
        (np.zeros((2, 5), "float32"), r"shape \(2, 5\); expected 4 on axis 1"),
    ],
    ids=range(22),
)
def test_what_does_not_fit(value, message):
    with pytest.raises(TensorError, match=f"input x: .*{message}"):
        accepted(value)


@pytest.mark.parametrize(
    ("number", "runs_on", "message"),
    [(0, "cpu", "move it to the CPU"), (1, "cuda", "device 1; expected device 0.*cuda:0")],
)
def test_tensor_on_a_device(number, runs_on, message):
    class OnDevice:
        def __dlpack__(self):
            raise AssertionError

        def __dlpack_device__(self):
            return 2, number

    with pytest.raises(TensorError, match=message):
        tensors.accept(OnDevice(), SPEC, {}, runs_on)


def test_one_symbol_is_one_length():
    dims = {}
    tensors.accept(np.zeros((3, 4), "float32"), SPEC, dims)
    assert dims == {"n": 3}
    other = TensorSpec("y", (2, "n"), "float32")
    tensors.accept(np.zeros((2, 3), "float32"), other, dims)
    with pytest.raises(TensorError, match="n is 5 on axis 1; expected n = 3 as before"):
        tensors.accept(np.zeros((2, 5), "float32"), other, dims)


def test_export_in_the_same_framework():
    tensor = engine.empty((2, 3), "float32")
    as_numpy = tensors.exporter(np.zeros(1))(tensor)
    assert type(as_numpy) is np.ndarray
    assert as_numpy.flags.writeable
    assert NUMPY_1 or as_numpy.ctypes.data == tensor.data_ptr()
    as_torch = tensors.exporter(torch.zeros(1))(tensor)
    assert type(as_torch) is torch.Tensor
    assert as_torch.data_ptr() == tensor.data_ptr()
    assert tensors.exporter(tensor)(tensor) is tensor
    assert type(tensors.exporter(None)(tensor)) is np.ndarray


def test_export_through_the_array_api():
    class Foreign:
        def __array_namespace__(self):
            return np

    assert type(tensors.exporter(Foreign())(engine.empty((2,), "int8"))) is np.ndarray


def test_numpy_alone_has_no_bfloat16(monkeypatch):
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    with pytest.raises(TensorError, match="pass torch tensors"):
        tensors.exporter(None)(engine.empty((2,), "bfloat16"))


def test_bfloat16_of_ml_dtypes():
    array = np.array([[1.5, -2], [0, np.inf]], ml_dtypes.bfloat16)
    tensor = tensors.accept(array, TensorSpec("x", (2, 2), "bfloat16"), {})
    assert str(tensor.dtype) == "bfloat16"
    back = tensors.exporter(array)(tensor)
    assert back.dtype == array.dtype
    assert (back == array).all()


def cut(x):
    """Return the values of ``x`` 4 bytes behind aligned memory."""
    return torch.cat([x.flatten(), x.flatten()])[1:13].view(3, 4)


class Subclass(np.ndarray):
    """An array that is more than its memory says."""


def changed(array, **flags):
    array.setflags(**flags)
    return array


@pytest.mark.parametrize(
    ("change", "plain"),
    [
        (lambda x: x, True),
        (cut, True),
        (lambda x: x.double(), False),
        (lambda x: x[:, :2], False),
        (lambda x: x.T.contiguous().T, False),
        (torch.nn.Parameter, False),
        (lambda x: x.as_subclass(torch.nn.Buffer), False),
        (lambda x: x.clone().requires_grad_(), False),
        (torch._neg_view, False),
        (lambda x: x.to_sparse(), False),
        (lambda x: x.to("meta"), False),
        (lambda x: x.numpy(), True),
        (lambda x: cut(x).numpy(), True),
        (lambda x: changed(x.numpy(), write=False), True),
        (lambda x: x.numpy().astype(">f4"), False),
        (lambda x: x.numpy().astype("float64"), False),
        (lambda x: x.numpy().astype(object), False),
        (lambda x: x.numpy().astype([("a", "float32")]), False),
        (lambda x: x.numpy()[:, ::2], False),
        (lambda x: x.numpy().T, False),
        (lambda x: x.numpy().view(Subclass), False),
        (lambda x: np.ma.masked_array(x.numpy()), False),
        (lambda x: x.tolist(), False),
    ],
    ids=range(23),
)
def test_values_that_need_no_questions(change, plain):
    """Tensors and arrays of exactly the type, contiguous on the host, are taken as they are."""
    x = torch.arange(12.0).reshape(3, 4)
    assert tensors._is_plain(change(x), "float32") is plain


def test_numpy_has_no_bfloat16_of_its_own():
    assert not tensors._is_plain(np.ones(3, ml_dtypes.bfloat16), "bfloat16")
    assert tensors._is_plain(torch.ones(3, dtype=torch.bfloat16), "bfloat16")


@pytest.mark.parametrize("wrap", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (12,), (3, 4, 1), (3, 5)])
def test_shapes_of_plain_values_are_compared(wrap, shape):
    with pytest.raises(TensorError, match="input x: shape"):
        accepted(wrap(np.zeros(shape, "float32")), TensorSpec("x", (4, 3), "float32"))


@pytest.mark.parametrize("wrap", [np.asarray, torch.from_numpy])
def test_empty_plain_values_are_made_anew(wrap):
    tensor = accepted(wrap(np.zeros((0, 4), "float32")), TensorSpec("x", (0, 4), "float32"))
    assert isinstance(tensor, engine.ffi().Tensor)
    assert tensor.strides == engine.empty((0, 4), "float32").strides


def refusal(value) -> str:
    with pytest.raises(TensorError) as caught:
        accepted(value)
    return str(caught.value)


ZEROS = torch.zeros(2, 4)
RAGGED = [torch.zeros(1, 4), torch.zeros(2, 4)]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda: torch.nested.nested_tensor(RAGGED), "a nested tensor"),
        (lambda: torch.nested.nested_tensor(RAGGED, layout=torch.jagged), "a nested tensor"),
        (ZEROS.to_sparse, "layout torch.sparse_coo"),
        (ZEROS.to_sparse_csr, "layout torch.sparse_csr"),
        (ZEROS.to_mkldnn, "layout torch._mkldnn"),
        (lambda: ZEROS.to("meta"), "without values (meta)"),
        (lambda: FakeTensorMode().from_tensor(ZEROS), "FakeTensor"),
    ],
    ids=["nested", "jagged", "coo", "csr", "mkldnn", "meta", "fake"],
)
@pytest.mark.filterwarnings("ignore:.*(nested|Sparse).*:UserWarning")
def test_tensors_without_plain_memory(value, words):
    assert words in refusal(value())


TRANSFORMS = {
    "vmap": lambda call: torch.vmap(call)(torch.zeros(3, 2, 4)),
    "grad": lambda call: torch.func.grad(call)(ZEROS),
    "jvp": lambda call: torch.func.jvp(call, (ZEROS,), (ZEROS,)),
    "jacrev": lambda call: torch.func.jacrev(call)(ZEROS),
    "functionalize": lambda call: torch.func.functionalize(call)(ZEROS),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_have_no_memory(name):
    """Their tensors say that they are plain; that of functionalize lies at address 0."""
    with pytest.raises(TensorError, match="inside a transform of functions, which has no memory"):
        TRANSFORMS[name](accepted)
