"""What the driver is asked, by a driver that only listens."""

import ctypes
from types import SimpleNamespace

import pytest
import torch

from benchmarks.gpu.hopper import launch, weights
from benchmarks.gpu.hopper.arguments import Arguments
from benchmarks.gpu.hopper.design import Design, Shape

DESIGN, SHAPE = Design("tiles"), Shape(1, 16, 4, 2, 2)
RESIDENT, SMS = 2, 3


class Driver:
    """Takes every call; ``refused`` fails."""

    def __init__(self):
        self.calls, self.refused = [], ""

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, arguments))
            if name == "cuOccupancyMaxActiveBlocksPerMultiprocessor":
                arguments[0]._obj.value = RESIDENT
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"no such thing"
            return 500 if name == self.refused else 0

        return call

    def arguments(self, name):
        return next(arguments for called, arguments in self.calls if called == name)


@pytest.fixture
def driver(monkeypatch):
    found = Driver()
    monkeypatch.setattr(launch, "_driver", lambda: found)
    monkeypatch.setattr(launch.machine_code, "cubin", lambda *kernel: b"code")
    chip = SimpleNamespace(multi_processor_count=SMS)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: chip)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=7))
    return found


def test_a_launch_names_all_that_the_kernel_reads(driver):
    weight = weights.make(DESIGN, 64, (128, 256), torch.Generator().manual_seed(0), zeros=0.5)
    x = torch.ones(20, 256, dtype=torch.float16)
    program = launch.Kernel(DESIGN, SHAPE).program(weight, x)
    y = program()
    _, *size, stream, parameters, more = driver.arguments("cuLaunchKernel")
    tiles, parts, shared = 2 * 2, 2, DESIGN.shared_bytes(SHAPE)
    assert size == [tiles * parts, 1, 1, 160, 1, 1, shared]
    assert driver.arguments("cuFuncSetAttribute")[1:] == (launch.MOST_SHARED_BYTES, shared)
    assert (stream.value, more) == (7, None)
    given = Arguments.from_address(parameters[0])
    assert (given.y, given.weights) == (y.data_ptr(), weight.packed.data_ptr())
    assert (given.features, given.rows, given.row_tiles) == (128, 20, 2)
    assert parameters[1] % 64 == 0
    assert y.shape == (20, 128)


def test_a_tensor_map_has_columns_first(driver):
    x = torch.ones(20, 256, dtype=torch.float16)
    launch._tensor_map(x, SHAPE.rows)
    _, kind, axes, values, sizes, pitch, box, every, *how = driver.arguments(
        "cuTensorMapEncodeTiled"
    )
    assert (kind, axes, values.value) == (launch.FLOAT16, 2, x.data_ptr())
    assert [list(given) for given in (sizes, pitch, box, every)] == [
        *([256, 20], [512], [64, 16], [1, 1])
    ]
    assert how == [0, launch.SWIZZLE_128B, launch.L2_PROMOTION_128B, 0]


def test_what_the_driver_refuses_is_said(driver):
    driver.refused = "cuModuleLoadData"
    with pytest.raises(RuntimeError, match=r"cuModuleLoadData: no such thing \(500\)"):
        launch.Kernel(DESIGN, SHAPE)


def test_the_driver_counts_resident_blocks(driver):
    assert launch.Kernel(DESIGN, SHAPE).resident() == RESIDENT
    assert ctypes.sizeof(Arguments) == 5 * 8 + 4 * 4
