"""One data file a chip: which one a target stands for, and whose costs it has."""

import pytest

from tvm_sparse.base.targets import GPUS, SHARED_MEMORY_BYTES, parse_target
from tvm_sparse.selection.cuda.chip import MARGINS, PLACE, chip, load, read


def test_every_gpu_has_a_file_and_every_file_a_gpu():
    assert {path.stem for path in PLACE.glob("*.json")} == set(GPUS)


@pytest.mark.parametrize("name", GPUS)
def test_files_agree_with_targets_and_name_their_sources(name):
    found = load(name)
    assert found.arch == GPUS[name]
    assert found.shared - 1024 == SHARED_MEMORY_BYTES[found.arch]
    assert all(
        "NVIDIA" in text or ":" in text or "measured" in text for text in read(name)["sources"]
    )
    assert found.margin == MARGINS[found.measured]
    assert ("fit" in read(name)) == found.measured


def test_what_was_not_measured_takes_the_costs_of_what_was():
    h200, h100 = load("h200"), load("h100")
    assert h200.measured and not h100.measured
    assert h100.costs == h200.costs
    assert h100.bandwidth < h200.bandwidth
    assert (h200.margin, h100.margin) == (1.1, 1.3)


@pytest.mark.parametrize(
    ("target", "name", "measured"),
    [
        ("cuda:sm_80", "A100", False),
        ("cuda:sm_86", "A10", False),
        ("cuda:sm_87", "A10", False),
        ("cuda:sm_89", "L4", False),
        ("cuda:sm_90", "H200", True),
        ("cuda:sm_100", "H200", False),  # its costs, but nobody measured it
        ("cuda:sm_120", "RTX 5090", False),
        ("cuda:sm_80,sm_90", "A100", False),
        ("cuda:h100", "H100", False),
        ("cuda:rtx4090", "RTX 4090", False),
    ],
)
def test_targets_stand_for_chips(target, name, measured):
    found = chip(parse_target(target).target)
    assert (found.name, found.measured) == (name, measured)
