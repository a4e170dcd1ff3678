"""Products of warpgroups: layouts and types, and each line that can be wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.warpgroups import THREADS, Layout, Product, case
from tvm_sparse_emulator.errors import EmulatorError
from tvm_sparse_emulator.executor import execute

LAYOUTS = [Layout(mode, turned) for mode in range(4) for turned in (False, True)]
PRODUCTS = {
    **{f"left {layout}": Product(left=layout) for layout in LAYOUTS},
    **{f"right {layout}": Product(64, right=layout) for layout in LAYOUTS},
    "bf16, 256 features": Product(256, "bf16", right=Layout(3)),
    "tf32": Product(8, "tf32"),
    "tf32 without a pattern": Product(24, "tf32", Layout(0), Layout(0)),
    "left in registers": Product(40, left=None),
    "left in registers, turned": Product(40, "bf16", None, Layout(2, turned=True)),
    "tf32, left in registers": Product(16, "tf32", None),
    "signs": Product(signs=(-1, 1)),
    "both signs": Product(signs=(-1, -1)),
    "sums from zero": Product(adds=False),
    "sparse": Product(32, sparse=True),
    "sparse, other pair": Product(32, "bf16", sparse=True, selector=1),
    "sparse, right turned": Product(64, sparse=True, right=Layout(1, turned=True)),
    "sparse, left in registers": Product(16, left=None, sparse=True),
}


def run(name, old="", new=""):
    """The sums and the kinds of findings; `old` becomes `new` in the text."""
    made = case(PRODUCTS[name])
    assert old in made.text
    text = made.text.replace(old, new, 1)
    report = execute(text, "k", (1, 1, 1), (THREADS, 1, 1), made.arrays)
    exact = np.array_equal(made.arrays[-1], made.wanted)
    return exact, {finding.kind for finding in report.findings}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_exact(name):
    assert run(name) == (True, set())


WAIT = "wgmma.wait_group.sync.aligned 0;"
COMMIT = "wgmma.commit_group.sync.aligned;"
STORE = "st.shared.u32 [%r20], %r0;"


@pytest.mark.parametrize(
    ("name", "old", "new", "kind"),
    [
        ("signs", WAIT, "", "open register"),
        ("signs", WAIT, "wgmma.wait_group.sync.aligned 1;", "open register"),
        ("signs", COMMIT, "", "open register"),
        ("signs", WAIT, f"mov.f32 %f0, %s0;\n{WAIT}".replace("%f0", "%w0"), "open register"),
        ("left in registers", WAIT, f"mov.u32 %w0, %r0;\n{WAIT}", "open register"),
        ("signs", "wgmma.fence.sync.aligned;", "", "register fence"),
        ("left in registers", "wgmma.fence.sync.aligned;", "", "register fence"),
        ("signs", WAIT, f"{STORE}\n{WAIT}", "open group"),
        ("signs", WAIT + "\n", f"{WAIT}\nwgmma.fence.sync.aligned;\n", None),
        ("signs", "wgmma.fence", f"@!%p1 {STORE}\nbar.sync 0;\nwgmma.fence", "proxy fence"),
        ("signs", "wgmma.fence", f"@!%p1 {STORE}\nfence.proxy.async;\nwgmma.fence", "race"),
        ("signs", "@!%p2 bra AGAIN;", "", "unfinished copy"),
        ("signs", "wgmma.fence", "@!%p1 wgmma.fence", "warp divergence"),
        ("signs", "wgmma.mma", "setp.lt.u32 %p3, %r0, 96;\n@%p3 wgmma.mma", "warp divergence"),
        ("sparse", "ld.global.u32 %w4, [%d2+16]", "mov.u32 %w4, 0", "metadata"),
        ("signs", "or.b64 %ad, %d4", "or.b64 %ad, 16383", "out of bounds"),
    ],
)
def test_a_wrong_line_is_found(name, old, new, kind):
    exact, found = run(name, old, new)
    assert kind in found if kind else (exact, found) == (True, set())


def test_values_come_no_earlier_than_a_wait_allows():
    exact, _ = run("signs", WAIT, "")
    assert not exact


def test_what_is_not_covered_is_refused():
    with pytest.raises(EmulatorError, match="base offset"):
        run("signs", "or.b64 %ad, %d4", f"or.b64 %ad, {1 << 49}")
