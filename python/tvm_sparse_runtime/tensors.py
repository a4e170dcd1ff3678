"""Tensors at the border: any framework in, aligned TVM tensors inside, the same framework out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import engine, extents, gpu
from .errors import TensorError, shown
from .spec import ALIGNMENT, ITEM_BYTES, TensorSpec, nbytes


def count(values: Sequence[Any], specs: Sequence[TensorSpec]) -> None:
    """Refuse more or fewer ``values`` than inputs."""
    if len(values) != len(specs):
        expected = "; ".join([f"{len(specs)}", *map(str, specs)])
        raise TensorError("inputs", f"{len(values)} tensors", expected)


def accept(
    value: Any,
    spec: TensorSpec,
    dims: dict[str, int],
    device: str = "cpu",
    alignment: int = ALIGNMENT,
) -> Any:
    """Return ``value`` as an aligned, contiguous tensor that fits ``spec``: TVM's, or torch's own.

    Parameters
    ----------
    value
        NumPy array, torch tensor, or anything else with ``__dlpack__``. Its memory is used as it
        is when it is contiguous and aligned, else it is copied.
    spec
        What it has to be.
    dims
        Lengths of the symbols met so far in this call; extended.
    device
        Where the tensor may lie besides host memory; there it must be contiguous.
    alignment
        Bytes on a multiple of which it begins in host memory.

    Raises
    ------
    TensorError
        Wrong kind, device, dtype, rank or shape.
    """
    tensor = _imported(value, spec, device)
    shape = tensor.shape
    if shape != spec.shape:
        _check_shape(tuple(shape), spec, dims)
    if device != "cpu":
        return gpu.aligned(tensor)
    # As engine.aligned, which asks for what is known here.
    if tensor.data_ptr() % alignment or 0 in shape:
        return engine.copy(tensor, engine.empty(shape, spec.dtype), nbytes(shape, spec.dtype))
    return tensor


_NUMPY_TYPES = {name: np.dtype(name) for name in ITEM_BYTES if name != "bfloat16"}


def _is_plain(value: Any, dtype: str) -> bool:
    """Whether a value is a contiguous array or tensor of ``dtype`` in host memory, of no subclass.

    Asked first, because general questions take longer than a small model.
    """
    if type(value) is np.ndarray:
        return value.dtype is _NUMPY_TYPES.get(dtype) and value.flags.c_contiguous
    torch = sys.modules.get("torch")
    plain = torch is not None and is_plain_torch(value, torch, getattr(torch, dtype, None))
    return plain and (address_of(value) != 0 or 0 in value.shape)


def is_plain_torch(value: Any, torch: Any, dtype: Any) -> bool:
    """Whether a value is a plain, contiguous tensor of torch's ``dtype`` in host memory."""
    return (
        type(value) is torch.Tensor
        and value.dtype is dtype
        and value.is_cpu
        and value.layout is torch.strided
        and value.is_contiguous()
        and not value.requires_grad
        and not value.is_neg()
        and not value.is_nested
    )


def address_of(tensor: Any) -> int:
    """Return where a tensor of torch begins; 0 if it has no memory, as in ``vmap`` and the like."""
    try:
        return int(tensor.data_ptr())
    except RuntimeError:
        return 0


def exporter(example: Any, device: str = "cpu") -> Callable[[Any], Any]:
    """Return the function that turns a TVM tensor into the framework of ``example``, zero copy.

    That into torch's tensors also takes these: a call with torch's tensors makes them.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(example, torch.Tensor):
        if device != "cpu":
            return torch.from_dlpack
        return to_torch
    if example is None or isinstance(example, np.ndarray):
        return _to_numpy
    if hasattr(example, "__array_namespace__"):
        return lambda tensor: example.__array_namespace__().from_dlpack(tensor)
    return lambda tensor: tensor


def _imported(value: Any, spec: TensorSpec, device: str) -> Any:
    """Return a contiguous tensor on the memory of ``value``, or on that of a copy."""
    where = f"input {spec.name}"
    try:
        if device == "cpu" and _is_plain(value, spec.dtype):
            # TVM's call imports torch's tensors itself, in less time.
            return value if hasattr(value, "__dlpack_c_exchange_api__") else engine.tensor(value)
        _refuse_kinds(value, where, device)
        tensor = engine.tensor(_compact(value))
        if not tensor.is_contiguous():
            tensor = engine.tensor(_compact(np.from_dlpack(tensor)))
        dtype = str(tensor.dtype)  # fails for complex numbers
    except TensorError:
        raise
    except Exception as error:  # each framework has its own types for what it cannot export
        found = f"cannot be read through DLPack ({shown(str(error), 120)})"
        raise TensorError(where, found, f"a contiguous tensor, {spec}") from error
    if dtype != spec.dtype:
        raise TensorError(where, f"dtype {dtype}", f"dtype {spec.dtype}")
    return tensor


def _refuse_kinds(value: Any, where: str, device: str) -> None:
    """Refuse values without memory on ``device`` or the host, and masked or nested ones."""
    if not hasattr(value, "__dlpack__"):
        found = f"a {type(value).__name__}"
        raise TensorError(where, found, "a NumPy array, torch tensor or DLPack tensor")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        _refuse_torch(value, torch, where)
    masked = sys.modules.get("numpy.ma")  # NumPy imports it when it is asked for
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise TensorError(where, "an array with a mask", "all values", "fill it first")
    place, number = value.__dlpack_device__()
    if place not in {engine.DEVICE_TYPES["cpu"], engine.DEVICE_TYPES[device]}:
        raise TensorError(where, "a tensor on a device", "host memory", "move it to the CPU")
    if place != engine.DEVICE_TYPES["cpu"] and number:
        found = f"a tensor on device {number}"
        raise TensorError(where, found, "device 0, where programs run", f"move it to {device}:0")


def _refuse_torch(value: Any, torch: Any, where: str) -> None:
    """Refuse tensors that are more or less than numbers in memory."""
    if value.is_nested:
        raise TensorError(where, "a nested tensor", "one of a single shape", "pad it first")
    if value.layout is not torch.strided:
        found = f"a tensor of the layout {value.layout}"
        raise TensorError(where, found, "torch.strided", "call to_dense() first")
    if value.is_quantized:
        raise TensorError(where, "a quantized tensor", "numbers", "call int_repr() or dequantize()")
    if value.is_meta:
        raise TensorError(where, "a tensor without values (meta)", "values in memory")
    if value.is_cpu and value.numel() and not address_of(value):
        found = f"a {type(value).__name__} inside a transform of functions, which has no memory"
        expected = "a plain tensor"
        raise TensorError(where, found, expected, "call it outside of vmap, grad and the like")


def _compact(value: Any) -> Any:
    """Return NumPy's and torch's own contiguous form of ``value``; others as they are."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().resolve_neg().contiguous()
    if isinstance(value, np.ndarray):
        return np.asarray(value, order="C")
    return value


def _check_shape(shape: tuple[int, ...], spec: TensorSpec, dims: dict[str, int]) -> None:
    """Compare a shape with its specification; bind symbols on their first use."""
    where = f"input {spec.name}"
    if len(shape) != len(spec.shape):
        raise TensorError(where, f"shape {shape}", f"{len(spec.shape)} dimensions, {spec}")
    for axis, (length, expected) in enumerate(zip(shape, spec.shape, strict=True)):
        if isinstance(expected, str):
            wanted = extents.bind(expected, length, dims)
            if wanted:
                raise TensorError(
                    where, f"shape {shape}, {length} on axis {axis}", f"{wanted}, {spec}"
                )
            if expected.isidentifier() and dims[expected] != length:
                raise TensorError(
                    where,
                    f"shape {shape}, {expected} is {length} on axis {axis}",
                    f"{expected} = {dims[expected]} as before",
                )
        elif length != expected:
            raise TensorError(where, f"shape {shape}", f"{expected} on axis {axis}, {spec}")


def to_torch(tensor: Any) -> Any:
    """Return a TVM tensor, or one that TVM's call made torch's already, as torch's."""
    torch: Any = sys.modules["torch"]
    if type(tensor) is torch.Tensor:
        return tensor
    # A capsule in host memory leaves nothing to ask; asking takes longer than a small model.
    return torch.from_dlpack(tensor.__dlpack__())


def _to_numpy(tensor: Any) -> np.ndarray:
    if tensor.dtype != "bfloat16":
        array = np.from_dlpack(tensor)
        return array if array.flags.writeable else array.copy()  # read-only in NumPy 1
    extended = sys.modules.get("ml_dtypes")  # which whoever passes such arrays has imported
    if extended is None:
        raise TensorError(
            "output", "bfloat16, which NumPy lacks", "another framework", "pass torch tensors"
        )
    return _to_numpy(engine.view(tensor, tensor.shape, "uint16")).view(extended.bfloat16)
