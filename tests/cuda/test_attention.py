"""Fused attention on GPUs, executed on the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

import tvm_sparse as ts
from tests.cuda.kernels import ARCHS, compiled, executed, needs_nvrtc, target, typed
from tests.cuda.test_product import heads, plain, seen
from tests.cuda.use import CONFIG, Use
from tests.emulation.exact import array
from tvm_sparse.ops.cuda.attention import Attention, ScoreMask, attention
from tvm_sparse.selection.cuda.attention_choice import attention_warps
from tvm_sparse.testing import emulate

DTYPES = ("float16", "bfloat16")
ERROR = {"float16": 2e-3, "bfloat16": 1.6e-2}
HEADS_LAST = (0, 2, 1, 3)

CASES = {
    "one query": (1, 1, 5, 2, 64, None),
    "one key": (2, 20, 1, 2, 16, None),
    "whole steps": (1, 64, 128, 2, 64, None),
    "odd": (2, 37, 67, 3, 64, None),
    "widest": (1, 20, 33, 2, 128, None),
    "columns of a mask": (2, 37, 67, 2, 32, (2, 1, 1, 67)),
    "a mask": (2, 20, 35, 2, 64, (20, 35)),
    "rows of a mask": (2, 20, 35, 2, 48, (1, 2, 20, 1)),
    "a mask of each item": (2, 17, 70, 2, 96, (2, 2, 17, 70)),
}


def wanted(q, k, v, mask, a):
    """What float64 gives; rows without a finite score are zero or NaN, as asked for."""
    scores = q @ k.swapaxes(-1, -2) * a.scale + mask
    largest = scores.max(-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = shares.sum(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        shares = shares / np.where((total == 0) & a.safe, 1, total)
    return (shares @ v).transpose(a.order)


def operands(a, dtype, rng, mask):
    views = (a.query, a.key, a.value)
    values = [typed(rng.standard_normal(view.shape), dtype) for view in views]
    return values if mask is None else [*values, typed(mask, dtype)]


def result(emulator, a, dtype, given, warps):
    func = attention(a, dtype, warps).with_attr("global_symbol", "main")
    return executed(emulator, func, given, a.output, dtype)


def each(ones, others):
    """Return all pairs; with every run each one meets one of the others, in turns."""
    return [
        pytest.param(one, other, marks=[pytest.mark.slow] if (i + j) % len(others) else [])
        for i, one in enumerate(ones)
        for j, other in enumerate(others)
    ]


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(("case", "dtype"), each(CASES, DTYPES))
def test_errors_are_those_of_the_dtype(emulator, case, dtype):
    batch, rows, keys, count, width, shape = CASES[case]
    views = [heads(batch, length, count, width) for length in (rows, keys, keys)]
    rng = np.random.default_rng(0)
    mask = None if shape is None else rng.standard_normal(shape)
    if mask is not None:
        mask[rng.random(shape) < 0.3] = -np.inf
        mask[..., 0, :] = -np.inf
    a = Attention(
        *views,
        lead=(batch, count),
        order=HEADS_LAST,
        masks=() if shape is None else (ScoreMask(shape),),
        scale=0.25,
        safe=True,
    )
    assert a.fits(dtype)
    given = operands(a, dtype, rng, mask)
    exact = [seen(v, x.astype("f8")) for v, x in zip(views, given, strict=False)]
    added = 0 if mask is None else given[3].astype("f8")
    for warps in (1, 4):
        got = result(emulator, a, dtype, given, warps)
        np.testing.assert_allclose(got, wanted(*exact, added, a), rtol=0, atol=ERROR[dtype])


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_key_that_alone_counts_gives_its_value_exactly(emulator, dtype):
    rows, keys, width = 70, 130, 64
    rng = np.random.default_rng(1)
    chosen = rng.integers(0, keys, rows)
    mask = np.full((rows, keys), -np.inf)
    mask[np.arange(rows), chosen] = 3
    view = plain(2, keys, width)
    a = Attention(plain(2, rows, width), view, view, (2,), (0, 1, 2), (ScoreMask((rows, keys)),))
    given = operands(a, dtype, rng, mask)
    given[2] = typed(rng.integers(-9, 10, (2, keys, width)), dtype)
    got = result(emulator, a, dtype, given, 2)
    np.testing.assert_array_equal(got, given[2].astype("f4")[:, chosen])


@needs_nvrtc
def test_what_stands_in_the_place_of_a_score_hides_it(emulator):
    """Also where the score is no number, or infinite: nothing is added to it."""
    rows, keys, width = 4, 70, 16
    a = Attention(
        *(plain(n, width) for n in (rows, keys, keys)),
        (),
        (0, 1),
        (ScoreMask((keys,), instead=True),),
    )
    hidden = np.zeros(keys)
    hidden[3], hidden[68] = -np.inf, -2
    given = operands(a, "float16", np.random.default_rng(3), hidden)
    given[1][3], given[1][68] = np.nan, np.inf
    exact = [x.astype("f8") for x in given[:3]]
    scores = np.where(hidden, hidden, np.nan_to_num(exact[0] @ np.nan_to_num(exact[1], posinf=0).T))
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    got = result(emulator, a, "float16", given, 1)
    wanted = shares / shares.sum(-1, keepdims=True) @ exact[2]
    np.testing.assert_allclose(got, wanted, rtol=0, atol=ERROR["float16"])


@needs_nvrtc
def test_rows_without_a_score_and_odd_numbers(emulator):
    rows, keys, width = 5, 70, 16
    views = [plain(n, width) for n in (rows, keys, keys)]
    a = Attention(*views, (), (0, 1), (ScoreMask((rows, keys)),))
    mask = np.zeros((rows, keys))
    mask[1], mask[2, 66], mask[3, 66], mask[4, :65] = -np.inf, np.nan, np.inf, -np.inf
    given = operands(a, "float16", np.random.default_rng(2), mask)
    got = result(emulator, a, "float16", given, 1)
    finite = np.isfinite(got).all(1)
    np.testing.assert_array_equal(finite, [True, False, False, False, True])
    assert np.isnan(got[1:4]).all()


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(("width", "arch"), each([16, 64, 96, 128], ARCHS))
def test_nothing_spills(arch, width):
    view = heads(2, 100, 3, width)
    a = Attention(view, view, view, (2, 3), HEADS_LAST, (ScoreMask((2, 1, 1, 100)),))
    two = replace(a, masks=(ScoreMask((3, 100, 100), instead=True), *a.masks))
    for one in (a, two):
        func = attention(one, "float16", 4).with_attr("global_symbol", "main")
        (used,) = compiled(func, arch).values()
        assert used.registers <= 200
        # At most the address of a mask's row, to have four blocks of a multiprocessor.
        assert used.stack <= 16 * len(one.masks)


@needs_nvrtc
def test_a_missing_barrier_is_found(emulator):
    view = plain(1, 100, 16)
    a = Attention(view, view, view, (1,), (0, 1, 2))
    func = attention(a, "float16", 4).with_attr("global_symbol", "main")
    given = operands(a, "float16", np.random.default_rng(0), None)
    with pytest.raises(AssertionError, match=r"race|barrier|written|read"):
        executed(
            emulator, func, given, a.output, "float16", lambda ptx: ptx.replace("bar.sync", "//")
        )


def test_what_has_no_kernel():
    def fits(view, value=None, order=(0, 1, 2)):
        return Attention(view, view, value or view, (2,), order).fits("float16")

    assert fits(plain(2, 20, 32))
    assert not fits(plain(2, 20, 24))
    assert not fits(plain(2, 20, 144))
    assert not fits(plain(2, 2**31, 32))
    assert not fits(plain(2, 20, 32), plain(2, 20, 16))
    assert not fits(plain(2, 20, 32), order=(0, 2, 1))
    assert not fits(heads(2, 20, 1, 32, transposed=True))


def test_thread_blocks_fill_a_gpu_and_no_warp_idles():
    def warps(batch, rows):
        view = heads(batch, rows, 12, 64)
        return attention_warps(Attention(view, view, view, (batch, 12), HEADS_LAST), target())

    assert [warps(32, 512), warps(1, 128), warps(32, 17), warps(32, 1)] == [4, 1, 2, 1]


def split(x, width=32):
    return x.reshape(*x.shape[:2], -1, width).transpose(1, 2)


def merge(y):
    return y.transpose(1, 2).flatten(2)


def sdpa(q, k, v, mask=None):
    return merge(F.scaled_dot_product_attention(split(q), split(k), split(v), mask))


def causal(q, k, v):
    return merge(F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=True))


def eager(q, k, v, mask):
    scores = split(q) @ split(k).transpose(-1, -2) / 5.5 + mask
    return merge(torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ split(v))


def scaled_operands(q, k, v, mask):
    scores = (split(q) * 0.5) @ (split(k) / 3).transpose(-1, -2) + mask
    return merge(scores.softmax(-1) @ split(v))


def mask_first(q, k, v, mask):
    scores = mask + 0.2 * (split(q) @ split(k).transpose(-1, -2))
    return merge(scores.softmax(-1) @ split(v))


def scores_too(q, k, v):
    shares = (split(q) @ split(k).transpose(-1, -2)).softmax(-1)
    return merge(shares @ split(v)), shares


def columns(q, k, v):
    return merge((split(q) @ split(k).transpose(-1, -2)).softmax(-2) @ split(v))


def filled(number):
    """Return attention that puts ``number`` in the place of scores, as older models do."""

    def function(q, k, v, hidden):
        scores = split(q) @ split(k).transpose(-1, -2) * 0.2
        return merge(scores.masked_fill(hidden, number).softmax(-1) @ split(v))

    return function


def chosen(q, k, v):
    """GPT-2's attention, as it was: scores are chosen by a triangle, a tensor is the scale."""
    scores = split(q) @ split(k).transpose(-1, -2)
    scores = scores / torch.full([], 32**0.5, dtype=scores.dtype)
    least = torch.full([], torch.finfo(torch.float16).min, dtype=scores.dtype)
    length = q.shape[1]
    seen = torch.ones(length, length, dtype=torch.bool).tril()
    return merge(torch.where(seen, scores, least).softmax(-1).type(v.dtype) @ split(v))


def biased(q, k, v, bias, hidden):
    """T5's attention: a bias of positions, then a mask."""
    scores = split(q) @ split(k).transpose(-1, -2) + bias
    scores += hidden
    return merge(scores.float().softmax(-1).type_as(scores) @ split(v))


def chosen_and_masked(q, k, v, hidden):
    """GPT-2's attention, as it was, with a mask of what is padded."""
    seen = torch.ones(20, 20, dtype=torch.bool).tril()
    scores = split(q) @ split(k).transpose(-1, -2) * 0.2
    return merge((torch.where(seen, scores, -torch.inf) + hidden).softmax(-1) @ split(v))


ADDED = torch.zeros(2, 1, 20, 20).masked_fill(torch.rand(2, 1, 20, 20) < 0.2, -torch.inf)
ALLOWED = torch.ones(2, 1, 1, 20, dtype=torch.bool)
ALLOWED[0, ..., 15:] = False
NONE_IN_A_ROW = torch.ones(20, 20, dtype=torch.bool).tril(-1)

FORMS = {
    "plain": (sdpa, ()),
    "causal": (causal, ()),
    "allowed": (sdpa, (ALLOWED,)),
    "rows without a key": (sdpa, (NONE_IN_A_ROW,)),
    "added": (sdpa, (ADDED.clamp(min=-9),)),
    "eager": (eager, (ADDED.clamp(min=-9),)),
    "scaled operands": (scaled_operands, (ADDED.clamp(min=-9),)),
    "mask first": (mask_first, (ADDED.clamp(min=-9),)),
    "nothing in a place": (filled(-torch.inf), (~ALLOWED,)),
    "a number in a place": (filled(-3.0), (~ALLOWED,)),
    "rows of a number": (filled(-65504.0), (~NONE_IN_A_ROW,)),
    "chosen": (chosen, ()),
    "two masks": (biased, (torch.randn(1, 3, 20, 20), ADDED.clamp(min=-9))),
    "a number and a mask": (chosen_and_masked, (ADDED[:, :, :1].clamp(min=-9),)),
    "scores too": (scores_too, ()),
    "columns": (columns, ()),
    "zero in a place": (filled(0.0), (~ALLOWED,)),
}
APART = ("scores too", "columns", "zero in a place")


def as_dtype(x, dtype):
    return x if x.dtype == torch.bool else x.to(dtype)


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(("form", "dtype"), each(FORMS, (torch.float16, torch.bfloat16)))
def test_networks_equal_pytorch(form, dtype):
    torch.manual_seed(0)
    function, masks = FORMS[form]
    inputs = [torch.randn(2, 20, 96) for _ in range(3)]
    given = [as_dtype(x, dtype) for x in (*inputs, *masks)]
    library = ts.compile(Use(function), tuple(given), target="cuda:sm_90", config=CONFIG)
    fused = [kernel for kernel in library.kernels if kernel.function.startswith("attention")]
    assert len(fused) == (form not in APART)
    assert form in APART or not any("multiply" in kernel.function for kernel in library.kernels)
    found = emulate(library, *map(array, given))
    assert not found.report.findings
    exact = function(*(as_dtype(x, torch.float64) for x in given))
    exact = exact if isinstance(exact, tuple) else (exact,)
    bound = 6 * ERROR[str(dtype).removeprefix("torch.")]
    for got, want in zip(found.outputs, exact, strict=True):
        np.testing.assert_allclose(got.astype("f8"), want.numpy(), rtol=0, atol=bound)


LENGTHS = (1, 31, 32, 33, 67)
"""Queries and keys: a thread block has 32 queries, a step 64 keys."""


def joined(x):
    """Query, key and value are slices of one projection, whose batch and length are open."""
    return causal(*x.split(96, 2))


def time_major(q, k, v):
    """Rows are as far apart as a batch is wide."""
    turned = (x.unflatten(2, (-1, 32)).permute(1, 2, 0, 3) for x in (q, k, v))
    return F.scaled_dot_product_attention(*turned).permute(2, 0, 1, 3).flatten(2)


def grouped(q, k, v):
    """Three heads of queries share each head of keys and values."""
    shared = (split(x[..., :32]).repeat_interleave(3, 1) for x in (k, v))
    return merge(F.scaled_dot_product_attention(split(q), *shared))


def expanded(q, k, v):
    """The same, as models of transformers write it."""
    batch, length, _ = k.shape
    shared = (
        split(x[..., :32])[:, :, None].expand(batch, 1, 3, length, 32).flatten(1, 2) for x in (k, v)
    )
    return merge(F.scaled_dot_product_attention(split(q), *shared, is_causal=True))


def one_more(q, k, v):
    """There is one more key than queries: an extent that is computed."""
    return sdpa(q, *(torch.cat([x[:, :1], x], 1) for x in (k, v)))


BATCH, LENGTH = Dim("batch", max=64), Dim("length", max=4096)
OPEN = {
    "plain": (sdpa, 3, ()),
    "causal": (causal, 3, ()),
    "joined": (joined, 1, ()),
    "allowed": (sdpa, 3, (lambda b, n: torch.arange(n).expand(b, 1, 1, n) < 40,)),
    "eager": (eager, 3, (lambda b, n: torch.arange(n).flip(0).mul(-0.1).expand(b, 1, n, n),)),
    "time major": (time_major, 3, ()),
    "grouped": (grouped, 3, ()),
    "expanded": (expanded, 3, ()),
    "one more": (one_more, 3, ()),
    "chosen": (chosen, 3, ()),
    "filled": (
        filled(-torch.inf),
        3,
        (lambda b, n: torch.arange(n).expand(b, 1, 1, n) > 40,),
    ),
}


def opened(case, batch, length, dtype):
    """Return inputs of a case, and the axes of them that are open."""
    _, count, masks = OPEN[case]
    first, second = (length, batch) if case == "time major" else (batch, length)
    width = 96 * (4 - count) if count == 1 else 96
    tensors = [torch.randn(first, second, width) for _ in range(count)]
    masks = [make(batch, length).contiguous() for make in masks]
    given = [as_dtype(x, dtype) for x in (*tensors, *masks)]
    axes = {0: BATCH, 1: LENGTH} if case != "time major" else {0: LENGTH, 1: BATCH}
    of_mask = [{0: BATCH} | {a: LENGTH for a in (2, 3) if m.shape[a] > 1} for m in masks]
    return given, (*[axes] * count, *of_mask)


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(("case", "dtype"), each(OPEN, (torch.float16, torch.bfloat16)))
def test_open_extents_are_one_kernel_too(case, dtype):
    turn = list(OPEN).index(case) + (dtype is torch.bfloat16)
    torch.manual_seed(0)
    function, *_ = OPEN[case]
    inputs, dims = opened(case, 3, 37, dtype)
    library = ts.compile(
        Use(function), tuple(inputs), dynamic_shapes=(dims,), target="cuda:sm_90", config=CONFIG
    )
    fused = [kernel for kernel in library.kernels if kernel.function.startswith("attention")]
    assert len(fused) == 1, library.kernels
    # Keys and values that heads share are read where they lie.
    assert not any("broadcast" in kernel.function for kernel in library.kernels)
    bound = 6 * ERROR[str(dtype).removeprefix("torch.")]
    for length in (LENGTHS[turn % 5], LENGTHS[(turn + 2) % 5]):
        given, _ = opened(case, 1 + length % 3, length, dtype)
        found = emulate(library, *map(array, given))
        assert not found.report.findings, found.report.findings
        exact = function(*(as_dtype(x, torch.float64) for x in given))
        np.testing.assert_allclose(found.outputs[0].astype("f8"), exact.numpy(), rtol=0, atol=bound)
