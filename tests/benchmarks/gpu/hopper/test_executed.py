"""Each design's PTX: exact on small integers without findings, and a finding for each mistake."""

import functools
import re

import pytest
import torch

from benchmarks.gpu.hopper import executed
from benchmarks.gpu.hopper.arguments import Call
from tests.benchmarks.gpu.hopper.cases import CASES, UNITS, data
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse_emulator.errors import EmulatorError

pytestmark = needs_nvrtc

ALONE = [name for name, case in CASES.items() if case.shape.parts == 1]
"""A cluster's thread blocks are not executed together."""


@functools.cache
def compiled(name):
    return executed.ptx(CASES[name].design, CASES[name].shape)


def product(name, change=lambda text: text):
    """Return what a kernel makes of integers, what it must make, and the findings."""
    case = CASES[name]
    weight, x = data(case)
    call = Call(weight, case.shape, case.rows, UNITS)
    text = change(compiled(name))
    y, report = executed.run(text, case.design, case.shape, call, x)
    return y.float(), x.float() @ weight.dense.float().T, report.findings


@pytest.mark.parametrize("name", ALONE)
def test_products_are_exact(name):
    found, expected, findings = product(name)
    assert findings == ()
    assert expected.count_nonzero() > expected.numel() / 2
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_clusters_are_refused_by_name():
    with pytest.raises(EmulatorError, match="cluster"):
        product("blocks in parts")


BLOCKS, SCATTERED = "blocks, several items a unit", "3 scattered of 32"

MUTATIONS = {
    "sums read before their wait": (BLOCKS, r"wgmma\.wait_group\S+ 0;", "", "open register"),
    "products without a group": (BLOCKS, r"wgmma\.commit_group\S+;", "", "open register"),
    "sums written, no fence": (BLOCKS, r"wgmma\.fence\S+;", "", "register fence"),
    "weights decoded, no fence": ("3 pairs of 32", r"wgmma\.fence\S+;", "", "register fence"),
    "a stage given back too early": (BLOCKS, r"(wait_group\S+) 1;", r"\1 2;", "race"),
    "stores, no fence": (SCATTERED, r"fence\.proxy\.async\S+;", "", "proxy fence"),
    "stores, no barrier": (SCATTERED, r"bar\.sync %r\d+, %r\d+;", "", "race"),
    "barriers made, no fence": (
        *(BLOCKS, r"fence\.(proxy\.async|mbarrier_init)\S+;", "", "proxy fence"),
    ),
    "barriers made, no barrier": (BLOCKS, r"bar\.sync\s+0;", "", "race"),
    "more bytes expected": (BLOCKS, r", 9216;", ", 9232;", "byte count"),
    "fewer bytes expected": (BLOCKS, r", 9216;", ", 9200;", "byte count"),
    "stages are not given back": (
        BLOCKS,
        r"mbarrier\.arrive\.shared\S+ _, \[%r\d+\];",
        "",
        "deadlock",
    ),
    "stages are taken at once": (BLOCKS, r"not\.b32", "mov.b32", "unfinished copy"),
    "nobody waits for a stage": (BLOCKS, r"@p bra DONE;\nbra AGAIN;", "", "unfinished copy"),
    "stages overwritten": (BLOCKS, r"@p bra DONE;\nbra AGAIN;", "", "open group"),
    "other places": ("2:4", r"(ld\.shared\.u32\s+%r\d+, \[%r\d+)\]", r"\1+4]", "metadata"),
}


@pytest.mark.parametrize("mistake", MUTATIONS)
def test_mistakes_are_found(mistake):
    name, pattern, replacement, kind = MUTATIONS[mistake]

    def change(text):
        changed, count = re.subn(pattern, replacement, text)
        assert count
        return changed

    _, _, findings = product(name, change)
    assert kind in {finding.kind for finding in findings}
