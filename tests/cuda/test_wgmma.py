"""Weights on Hopper's tensor cores, however they are stored: executed, and broken on purpose."""

from __future__ import annotations

import pytest
import torch

from tests.cuda.hopper import (
    DTYPES,
    HALF,
    LIMIT,
    Net,
    changing,
    check_epilogues,
    check_exact,
    instructions,
    outcome,
)
from tests.cuda.kernels import needs_nvrtc
from tests.cuda.wgmma_kinds import FOUR, KINDS, balanced, kept
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.wgmma_weights import KEPT, MATRIX, TWO_FOUR, banks
from tvm_sparse.selection.cuda import wgmma_option
from tvm_sparse.selection.cuda.wgmma_option import tile_of

pytestmark = needs_nvrtc


@pytest.mark.grid
@pytest.mark.parametrize(
    ("kind", "case"), [(name, case) for name, kind in KINDS.items() for case in kind.cases]
)
@pytest.mark.parametrize(("dtype", "result"), DTYPES)
def test_small_integers_are_exact(hopper, kind, case, dtype, result):
    types = {"activation": dtype, "weight": dtype, "output": result}
    c, matrix, kernel = KINDS[kind].made(KINDS[kind].cases[case], **types)
    check_exact(hopper, c, matrix, kernel)


IN_PARTS = {kind: ((33,), 1160, 130, (16, 64, 8 if kind == "banks" else 4)) for kind in FOUR}


@pytest.mark.parametrize("kind", FOUR)
@pytest.mark.parametrize("parts", [2, 3])
def test_small_integers_in_parts_are_exact(hopper, kind, parts):
    c, matrix, kernel = KINDS[kind].made(IN_PARTS[kind], parts)
    assert instructions(kernel[0])
    check_exact(hopper, c, matrix, kernel)


def test_more_parts_than_steps_leave_zeros(hopper):
    lead, _, features, sizes = IN_PARTS["blocks"]
    c, matrix, kernel = KINDS["blocks"].made((lead, 128, features, sizes), 4)
    check_exact(hopper, c, matrix, kernel)


ADDED = r"add\.f32\s+(%f\d+), (%f\d+), (%f\d+);"
"""How the second kernel adds a part: the sum, the sum before, the part. The first has none."""

OF_PARTS = {
    "a lost part": (ADDED, r"mov.f32 \1, \2;"),
    "a part that counts twice": (ADDED, r"fma.rn.f32 \1, \3, 0f40000000, \2;"),
    "a part in another one's place": (r"(ld\.global\S*\s+\{[^}]*\}, \[%rd\d+)\+768\]", r"\1]"),
}


@pytest.mark.parametrize("mutation", OF_PARTS)
@pytest.mark.parametrize("kind", FOUR)
def test_what_is_wrong_with_a_part_is_noticed(hopper, kind, mutation):
    c, matrix, kernel = KINDS[kind].made(IN_PARTS[kind], 2)
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        check_exact(hopper, c, matrix, kernel, changing(*OF_PARTS[mutation]))


COPIES = {
    "copies are not waited for": (r"cp\.async\.wait_group 2;", "cp.async.wait_group 9;"),
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", ""),
    "a product is not waited for": (r"wgmma\.wait_group\.sync\.aligned 0;", ""),
}
OVERTAKE = {"products overtake": (r"(wgmma\.wait_group\.sync\.aligned) 1;", r"\1 7;")}
REGISTERS = {"no fence of registers": (r"wgmma\.fence\.sync\.aligned;", "")}
PARITY = {"a wrong parity": (r"(try_wait\.parity\S* \S+, \[\S+\]), \S+;", r"\1, 1;")}
UNAWAITED = {"nobody waits for a step": (r"@p bra DONE;\nbra AGAIN;", "")}
WORDS = r"(ld\.shared\.u32\s+%r\d+, \[%r\d+)\]"
"""How words that say which of four columns are kept are loaded."""


def bytes_of(right: int) -> dict[str, tuple[str, str]]:
    """Return the mutations of a bulk copy's bytes."""
    return {
        "too many bytes": (rf"(expect_tx.*) {right};", rf"\1 {right + 16};"),
        "too few bytes": (rf"(expect_tx.*) {right};", rf"\1 {right - 16};"),
    }


FOUND = {
    "blocks": {**COPIES, **OVERTAKE, **REGISTERS, **PARITY, **bytes_of(8192)},
    "banks": {
        **COPIES,
        **OVERTAKE,
        **REGISTERS,
        **PARITY,
        **UNAWAITED,
        **bytes_of(3072),
        "tiles come without zeros": (r"st\.shared\.v4\.u32 \[.*;", ""),
        "zeros come after values": (r"bar\.warp\.sync\s.*;", ""),
        "a warp tells that it is done for all": (r"(mbarrier\.init\S* \[\S+\]), %r\d+;", r"\1, 1;"),
        "a warp more is waited for": (r"(mbarrier\.init\S* \[\S+\]), %r\d+;", r"\1, 5;"),
        "nobody gives a tile": (r"mbarrier\.arrive\.shared::cta\.b64 _, \[.*;", ""),
    },
    "two_four": {
        **COPIES,
        **REGISTERS,
        **UNAWAITED,
        **bytes_of(9216),
        "places behind the last": (WORDS, r"\1+1024]"),
    },
    "matrix": {**COPIES, **OVERTAKE},
}
NOTICED = {
    "banks": {
        "values at other places": (r"(st\.shared\.u16 \[%r\d+)\]", r"\1+2]"),
        "values that are not stored": (r"st\.shared\.u16 \[.*;", ""),
    },
    "two_four": {"places of another feature": (WORDS, r"\1+8]")},
    "matrix": {"a matrix that is not turned": (r"1, 1, 1, 1, 0;", "1, 1, 1, 0, 0;")},
}
"""Changes of the PTX: what the sanitizer finds, and what makes the output wrong."""


def listed(mutations):
    return [(kind, name) for kind, names in mutations.items() for name in names]


def broken(hopper, kind, change):
    """Return whether the output is right, and the findings, with a change of the PTX."""
    c, matrix, kernel = KINDS[kind].made(KINDS[kind].small)
    return outcome(hopper, c, matrix, kernel, change)


@pytest.mark.parametrize(("kind", "mutation"), listed(FOUND))
def test_what_is_broken_is_found(hopper, kind, mutation):
    assert broken(hopper, kind, changing(*FOUND[kind][mutation]))[1]


@pytest.mark.parametrize(("kind", "mutation"), listed(NOTICED))
def test_what_is_wrong_is_noticed(hopper, kind, mutation):
    assert not broken(hopper, kind, changing(*NOTICED[kind][mutation]))[0]


@pytest.mark.parametrize("kind", FOUR)
def test_the_unbroken_one_is_right(hopper, kind):
    assert broken(hopper, kind, str) == (True, ())


WEIGHTS = {"blocks": KEPT, "two_four": TWO_FOUR, "matrix": MATRIX}
WIDE = pytest.param(128, marks=pytest.mark.slow)


@pytest.mark.grid
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("rows", [8, 16, 64, 128, 256])
@pytest.mark.parametrize("features", [64, WIDE])
def test_machine_code_has_the_products_and_no_spills(kind, rows, features):
    weights = WEIGHTS[kind]
    asked = {256: 4000, 128: 1000}.get(rows, rows)
    tile = tile_of(asked, features, LIMIT, 2, weights)
    assert tile.rows >= min(rows, 64)
    case = ((rows,), 512, 256, (tile.rows, features, tile.stages))
    counts = instructions(KINDS[kind].made(case)[2][0])
    assert counts["HGMMA.SP" if kind == "two_four" else "HGMMA"] and not counts["HMMA"], counts


@pytest.mark.grid
@pytest.mark.parametrize("rows", [8, 64, 128])
@pytest.mark.parametrize("slots", [1, 3, 8, 16])
def test_machine_code_of_banks_has_them_too(rows, slots):
    c = Contraction((rows,), 512, 128, numerics=HALF)
    tile = tile_of(rows, 64, LIMIT, 2, banks(slots))
    assert tile.rows == rows
    matrix = balanced(2 * slots, 64)(c)
    func, _ = KINDS["banks"].operator(c, (rows, 64, tile.stages), matrix)
    counts = instructions(func)
    assert counts["HGMMA"] and not counts["HMMA"], counts


def in_blocks(shape):
    mask = torch.rand(-(-shape[0] // 64), shape[1] // 64) < 0.15
    return mask.repeat_interleave(64, 0).repeat_interleave(64, 1)[: shape[0]]


NETWORKS = {
    "block": (512, "kept", in_blocks),
    "balanced": (256, "banks", lambda shape: torch.from_numpy(kept(shape, 6))),
    "two_four": (256, "two_four", lambda shape: torch.from_numpy(kept(shape, 2, 4))),
}
"""By format: columns, what the model calls its kernels, and the mask of a weight."""


@pytest.mark.grid
@pytest.mark.parametrize("format", NETWORKS)
@pytest.mark.parametrize("open_batch", [False, True])
def test_a_network_with_epilogues_equals_pytorch(format, open_batch, monkeypatch):
    width, option, mask = NETWORKS[format]
    monkeypatch.setitem(wgmma_option.UNMEASURED, option, 0.01)  # layers as small go elsewhere
    torch.manual_seed(0)
    model = Net(width, 72).half().eval()
    with torch.no_grad():
        for layer in (model.a, model.b, model.c):
            layer.weight *= mask(layer.weight.shape)
    check_epilogues(model, format, open_batch=open_batch)
