"""The native executor of PTX, in this process: kernels on NumPy arrays."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse_emulator.errors import EmulatorError
from tvm_sparse_emulator.report import EmulationReport, Triple

LIBRARY = "libtvm_sparse_ptx.so"
_MESSAGE = 1000
_MAP = 128
_POINTER, _TEXT, _BYTES = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64


def directory() -> Path:
    """Return the directory of the executor and of the CUDA driver and runtime that use it."""
    # An editable installation keeps what was compiled away from the sources.
    distribution = importlib.metadata.distribution("tvm-sparse-emulator")
    return Path(str(distribution.locate_file("tvm_sparse_emulator/lib")))


@functools.cache
def library() -> ctypes.CDLL:
    """Return the native library with the types of its functions."""
    found = ctypes.CDLL(str(directory() / LIBRARY))
    found.ts_ptx_load.restype = found.ts_ptx_kernel.restype = _POINTER
    found.ts_ptx_allocate.restype = _POINTER
    found.ts_ptx_report.restype = _TEXT
    found.ts_ptx_load.argtypes = [_TEXT, _TEXT, ctypes.c_size_t]
    found.ts_ptx_kernel.argtypes = [_POINTER, _TEXT]
    found.ts_ptx_unload.argtypes = found.ts_ptx_free.argtypes = [_POINTER]
    found.ts_ptx_allocate.argtypes = [_BYTES]
    found.ts_ptx_wrote.argtypes = [_POINTER, _BYTES]
    found.ts_ptx_options.argtypes = [ctypes.c_int, _BYTES]
    numbers = ctypes.POINTER(ctypes.c_uint32)
    places = ctypes.POINTER(_POINTER)
    found.ts_ptx_launch.argtypes = [
        *(_POINTER, _POINTER, numbers, numbers, _BYTES, places, _TEXT, ctypes.c_size_t)
    ]
    return found


def options(*, sanitize: bool = True, blocks: int = 0) -> None:
    """Say whether to look for errors, and how many blocks of a grid to execute (0: all)."""
    library().ts_ptx_options(int(sanitize), blocks)


def report() -> EmulationReport:
    """Return what was executed and found since the last call."""
    found = EmulationReport.parse(library().ts_ptx_report())
    library().ts_ptx_forget()
    return found


class Memory(AbstractContextManager["Memory"]):
    """Arrays where kernels can access them; freed at the end of the context."""

    def __init__(self) -> None:
        self._places: list[tuple[int, np.ndarray]] = []

    def __exit__(self, *_: object) -> None:
        for memory, _array in self._places:
            library().ts_ptx_free(memory)

    def place(self, array: np.ndarray) -> int:
        """Copy a contiguous array to memory of its own and return the address."""
        if not array.flags.c_contiguous:
            raise EmulatorError("arguments", "an array is not contiguous in C order")
        memory = int(library().ts_ptx_allocate(array.nbytes))
        ctypes.memmove(memory, array.ctypes.data, array.nbytes)
        library().ts_ptx_wrote(memory, array.nbytes)
        self._places.append((memory, array))
        return memory

    def fetch(self) -> None:
        """Copy what kernels wrote back into the arrays."""
        for memory, array in self._places:
            ctypes.memmove(array.ctypes.data, memory, array.nbytes)

    def tensor_map(self, array: np.ndarray, box: Sequence[int], swizzle: int = 0) -> bytes:
        """Place an array and return a parameter of 128 bytes: how bulk copies read it in boxes.

        Parameters
        ----------
        array
            Contiguous, of 1 to 5 dimensions.
        box
            Elements of a box in each dimension.
        swizzle
            0: none; 1, 2, 3: patterns of 32, 64, 128 bytes, as the CUDA driver counts them.

        Raises
        ------
        EmulatorError
            The PTX ISA forbids such a map.
        """
        rank, encode = array.ndim, library().ts_ptx_tensor_map
        encode.argtypes = [
            *(_POINTER, _POINTER, ctypes.c_int, ctypes.c_int, _POINTER, _POINTER, _POINTER),
            *(ctypes.c_int, _TEXT, ctypes.c_size_t),
        ]
        made, error = (ctypes.c_uint8 * _MAP)(), ctypes.create_string_buffer(_MESSAGE)
        sizes = (_BYTES * rank)(*reversed(array.shape))
        strides = (_BYTES * rank)(*reversed(array.strides[:-1]))
        boxes = (ctypes.c_uint32 * rank)(*reversed(box))
        where = self.place(array)
        shape = (rank, array.itemsize, sizes, strides, boxes, swizzle)
        if encode(made, where, *shape, error, _MESSAGE):
            raise EmulatorError("tensor map", error.value.decode())
        return bytes(made)


def execute(
    ptx: str | bytes,
    kernel: str,
    grid: Triple,
    block: Triple,
    arguments: Sequence[np.ndarray | int | bytes],
    *,
    shared: int = 0,
    memory: Memory | None = None,
) -> EmulationReport:
    """Launch a kernel of a PTX module and return what it did; arrays are written in place.

    Parameters
    ----------
    ptx
        Text of the module.
    kernel, grid, block, shared
        What to launch; ``shared`` are the bytes of dynamic shared memory.
    arguments
        Contiguous arrays for pointers, numbers for integers, bytes for structures.
    memory
        Holds arrays that structures point to; they are written in place too.

    Raises
    ------
    EmulatorError
        The module holds something that the executor does not know, or cannot be launched so.
    """
    lib, error = library(), ctypes.create_string_buffer(_MESSAGE)
    text = ptx.encode() if isinstance(ptx, str) else ptx
    module = lib.ts_ptx_load(text, error, _MESSAGE)
    if not module:
        raise EmulatorError("PTX", error.value.decode())
    try:
        entry = lib.ts_ptx_kernel(module, kernel.encode())
        if not entry:
            raise EmulatorError("PTX", f"no kernel '{kernel}'")
        with Memory() as own:
            values = [_argument(value, own) for value in arguments]
            pointers = (_POINTER * len(values))(*(ctypes.addressof(value) for value in values))
            sizes = [(ctypes.c_uint32 * 3)(*size) for size in (grid, block)]
            if lib.ts_ptx_launch(module, entry, *sizes, shared, pointers, error, _MESSAGE):
                raise EmulatorError(f"kernel '{kernel}'", error.value.decode())
            for placed in (own, memory):
                if placed is not None:
                    placed.fetch()
        return report()
    finally:
        lib.ts_ptx_unload(module)


def _argument(value: np.ndarray | int | bytes, memory: Memory) -> Any:
    """Return an argument as C sees it; arrays are copied to memory that kernels may access."""
    if isinstance(value, bytes):
        return ctypes.create_string_buffer(value, len(value))
    return ctypes.c_int64(memory.place(value) if isinstance(value, np.ndarray) else value)
