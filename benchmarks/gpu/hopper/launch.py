"""Kernels on a GPU, by the driver: TVM launches neither clusters nor tensor maps."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.gpu.hopper import machine_code, source
from benchmarks.gpu.hopper.arguments import Call
from benchmarks.gpu.hopper.design import LEFT_OUT, Design, Shape
from benchmarks.gpu.hopper.weights import Weight

MOST_SHARED_BYTES = 8
"""``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES``."""

FLOAT16, SWIZZLE_128B, L2_PROMOTION_128B = 6, 3, 2
"""Of the driver's enumerations for tensor maps."""

BOX_COLUMNS = 64


class Kernel:
    """A kernel that the driver has loaded."""

    def __init__(self, design: Design, shape: Shape, left_out: str = LEFT_OUT[0]) -> None:
        self.shape, self._shared = shape, design.shared_bytes(shape)
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        code, name = machine_code.cubin(design, shape, left_out), source.NAME.encode()
        _do("cuModuleLoadData", ctypes.byref(module), code)
        _do("cuModuleGetFunction", ctypes.byref(self._function), module, name)
        _do("cuFuncSetAttribute", self._function, MOST_SHARED_BYTES, self._shared)

    def resident(self) -> int:
        """Return how many thread blocks an SM holds at once."""
        count = ctypes.c_int()
        shared = ctypes.c_size_t(self._shared)
        find = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        _do(find, ctypes.byref(count), self._function, self.shape.threads, shared)
        return max(1, count.value)

    def program(self, weight: Weight, x: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Return a program that multiplies ``x``, ``[rows, K]`` fp16, into the same tensor."""
        sms = torch.cuda.get_device_properties(x.device).multi_processor_count
        call = Call(weight, self.shape, len(x), sms * self.resident())
        boxes = _tensor_map(x, self.shape.rows)
        grid = call.units * self.shape.parts
        taken = (ctypes.byref(call.arguments), boxes)
        pointers = (ctypes.c_void_p * 2)(*(ctypes.cast(p, ctypes.c_void_p).value for p in taken))

        def run() -> torch.Tensor:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            blocks, threads = (grid, 1, 1), (self.shape.threads, 1, 1)
            size = (*blocks, *threads, self._shared)
            _do("cuLaunchKernel", self._function, *size, stream, pointers, None)
            return call.y

        # What a launch reads must live as long as the program.
        run.held = (call, boxes, x)  # type: ignore[attr-defined]
        return run


def _tensor_map(x: torch.Tensor, rows: int) -> Any:
    """Return how boxes of ``rows`` x 64 columns are read: zeros past the edge, in the swizzle."""
    memory = ctypes.create_string_buffer(256)
    aligned = (ctypes.addressof(memory) + 63) // 64 * 64
    encoded = (ctypes.c_uint8 * 128).from_address(aligned)
    encoded.memory = memory  # type: ignore[attr-defined]
    count, columns = x.shape
    sizes, pitch = (ctypes.c_uint64 * 2)(columns, count), (ctypes.c_uint64 * 1)(columns * 2)
    box, every = (ctypes.c_uint32 * 2)(BOX_COLUMNS, rows), (ctypes.c_uint32 * 2)(1, 1)
    what = (FLOAT16, 2, ctypes.c_void_p(x.data_ptr()), sizes, pitch, box, every)
    how = (0, SWIZZLE_128B, L2_PROMOTION_128B, 0)
    _do("cuTensorMapEncodeTiled", ctypes.c_void_p(aligned), *what, *how)
    return encoded


@functools.cache
def _driver() -> ctypes.CDLL:
    """Return the driver, in the context that PyTorch made."""
    torch.zeros(1, device="cuda")
    return ctypes.CDLL("libcuda.so.1")


def _do(name: str, *arguments: Any) -> None:
    """Call the driver; raise ``RuntimeError`` with its words if it refuses."""
    status = getattr(_driver(), name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{name}: {(text.value or b'unknown').decode()} ({status})")
