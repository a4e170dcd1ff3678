import pytest

from tvm_sparse.selection.cuda.chip import load
from tvm_sparse.selection.cuda.occupancy import resident_blocks

A100, H200 = load("a100"), load("h200")


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "chip", "blocks"),
    [
        (128, 32, 0, A100, 16),  # threads
        (32, 16, 0, A100, 32),  # blocks
        (256, 128, 0, A100, 2),  # registers
        (256, 65, 0, A100, 3),  # 65 registers of a lane are 2304 of a warp
        (128, 32, 48 * 1024, A100, 3),  # shared memory
        (128, 32, 48 * 1024, H200, 4),
        (33, 32, 0, A100, 32),  # a second warp for one thread
        (1024, 128, 0, A100, 0),
    ],
)
def test_the_scarcest_resource_decides(threads, registers, shared, chip, blocks):
    assert resident_blocks(threads, registers, shared, chip) == blocks
