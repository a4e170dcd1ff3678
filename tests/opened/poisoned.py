"""Memory of a program as it may be: full of NaN, with NaN before and behind each tensor."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.comparison.profile import _arguments, _checked
from tvm_sparse.passes.finish.assemble import seen
from tvm_sparse_runtime import engine

POISON = 0xFF
"""Of these bytes floats of all sizes are NaN, and integers are -1."""
BAND = 1 << 12
"""Bytes of poison on either side of a tensor."""
WORKSPACES = (1 << 20, 1 << 18, 1 << 16)


class Overrun(AssertionError):
    """A kernel wrote outside its tensors, or read what nobody had written."""


def run(library: Any, inputs: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    """Return the outputs of a call in whose memory everything is poison before it is written.

    Each kernel runs a second time on copies of its operands between bands of poison. What it
    writes must be the same, and the bands must be as they were.
    """
    vm = relax.VirtualMachine(library.executable, tvm.cpu())
    main = vm[seen(vm)]
    vm.set_instrument(_Watch())
    found = main(*_arguments(library, _checked(library, inputs)))
    found = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
    return tuple(tensor.numpy().copy() for tensor in found)


class _Watch:
    """What the virtual machine calls before and after each of its steps."""

    def __init__(self) -> None:
        self.copies: list[Any] = []

    def __call__(self, function: Any, name: str, before: bool, result: Any, *given: Any) -> int:
        if name == "vm.builtin.alloc_tensor":
            if not before:
                _fill(result)
            return 0
        if name.startswith("vm.") or not any(isinstance(x, tvm.runtime.Tensor) for x in given):
            return 0
        try:
            if before:
                _poison_workspaces()
                self.copies = [_Copy(x) if isinstance(x, tvm.runtime.Tensor) else x for x in given]
                function(*(getattr(x, "tensor", x) for x in self.copies))
            else:
                for place, (copy, own) in enumerate(zip(self.copies, given, strict=True)):
                    if isinstance(copy, _Copy):
                        copy.check(own, f"{name}, operand {place} of {[_shape(x) for x in given]}")
        except Overrun as error:
            self.failed = str(error)
            raise
        return 0


class _Copy:
    """A copy of a tensor between bands of poison."""

    def __init__(self, tensor: Any) -> None:
        address, self.size = engine.span(tensor)
        self.raw = np.full(2 * BAND + self.size + 64, POISON, np.uint8)
        self.begin = BAND + -(self.raw.ctypes.data + BAND) % 64
        ctypes.memmove(self.raw.ctypes.data + self.begin, address, self.size)
        flat = tvm.runtime.from_dlpack(self.raw[self.begin :])
        self.tensor = engine.view(flat, tensor.shape, str(tensor.dtype))

    def check(self, own: Any, where: str) -> None:
        """Compare with the tensor that was copied, after a kernel has run on both."""
        end = self.begin + self.size
        for side, band in (("before", self.raw[: self.begin]), ("behind", self.raw[end:])):
            if (band != POISON).any():
                raise Overrun(f"{where}: {np.flatnonzero(band != POISON)} bytes {side} it")
        address, size = engine.span(own)
        if bytes(self.raw[self.begin : end]) != ctypes.string_at(address, size):
            raise Overrun(f"{where}: other numbers between NaN than elsewhere")


def _shape(x: Any) -> Any:
    return tuple(x.shape) if hasattr(x, "shape") else x


def _fill(tensor: Any) -> None:
    ctypes.memset(*_at(tensor))


def _at(tensor: Any) -> tuple[int, int, int]:
    address, size = engine.span(tensor)
    return address, POISON, size


def _poison_workspaces() -> None:
    """Fill the memory that kernels of this thread take from TVM for the time of a call."""
    with _workspaces() as found:
        for address, size in found:
            ctypes.memset(address, POISON, size)


@contextmanager
def _workspaces() -> Iterator[list[tuple[int, int]]]:
    library = ctypes.CDLL(str(engine.runtime_library()))
    take, give = library.TVMBackendAllocWorkspace, library.TVMBackendFreeWorkspace
    take.restype = ctypes.c_void_p
    take.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_int, ctypes.c_int]
    give.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    cpu = (engine.DEVICE_TYPES["cpu"], 0)
    found = [(take(*cpu, size, 1, 8), size) for size in WORKSPACES]
    try:
        yield found
    finally:
        for address, _ in reversed(found):
            give(*cpu, address)
