"""Models whose conditions PyTorch cannot prove: imported where these hold at every size."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import tvm_sparse as ts
from tests.modules import Apply
from tvm_sparse.frontends.program.asked_conditions import AskedConditions
from tvm_sparse_runtime import TensorError
from tvm_sparse_runtime.errors import SparseRuntimeError

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
SIZES = (2, 3, 7, 16, 31, 61)


class Pairs(Apply):
    def forward(self, x, y):
        return self.function(x, y)


def haar(x):
    return torch.cat([x[:, ::2] + x[:, 1::2], x[:, ::2] - x[:, 1::2]], 1)


FORMS = {
    "cut": lambda x: (
        x[:, : x.shape[1] // 2],
        torch.cat([x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]], 1),
    ),
    "joined": lambda x: (
        torch.cat([x[:, :1], x[:, 1:]], 1) * 2,
        torch.cat([x[:, ::2], x[:, 1::2]], 1),
        torch.hstack([x, x[:, 1:]]),
        torch.cat(x.split([1, x.shape[1] - 1], 1)[::-1], 1),
    ),
    "differences": lambda x: (x[:, 1:] - x[:, :-1], x.diff(dim=1), F.pad(x, (0, 0, -1, 0))),
    "counted": lambda x: (
        torch.arange(x.shape[1] - 1, -1, -1)[:, None] + x,
        torch.arange(0, x.shape[1], 2) + x[0, 0, 0],
        torch.arange(x.shape[1], 0, -3) + x[0, 0, 0],
    ),
    "counted in halves": lambda x: (
        torch.arange(0.5, x.shape[1])[:, None] / x.shape[1] + x,
        torch.arange(-0.25, x.shape[1] // 2, 0.5) + x[0, 0, 0],
        torch.arange(x.shape[1], 0.0, -1.5) + x[0, 0, 0],
    ),
    "turned": lambda x: (
        torch.roll(x, x.shape[1] // 2, 1),
        torch.roll(x, (-(x.shape[1] // 2), 1), (1, 2)),
        torch.fft.fftshift(x, 1),
    ),
    "sides of a diagonal": lambda x: (
        torch.triu(x @ x.mT, diagonal=x.shape[1] // 2),
        torch.tril(x @ x.mT, diagonal=-(x.shape[1] // 2)) + 1,
    ),
    "parts": lambda x: (
        *x.split([x.shape[1] // 2, x.shape[1] - x.shape[1] // 2], 1),
        x[:, -8:] + 1,
    ),
    "reflected": lambda x: F.pad(x.mT, (1, x.shape[1] // 3), mode="reflect"),
    "reflected rows": lambda x: F.pad(x[:, None], (1, 0, x.shape[1] // 3, 1), mode="reflect") * 2,
    "replicated": lambda x: F.pad(x.mT, (x.shape[1] // 2, -x.shape[1] % 4), mode="replicate"),
    "wavelets": lambda x: haar(x[:, : x.shape[1] // 2 * 2]),
    "rows of some": lambda x: (
        F.linear(x[:, : x.shape[1] // 2 * 2].reshape(x.shape[0], -1, 2, x.shape[2]), x[0, :1]),
        F.linear(x[:, : min(8, x.shape[1])], x[0, :2]),
        torch.relu(x[:, max(0, x.shape[1] - 8) :]),
        x[:, :8].reshape(-1, x.shape[2]),
    ),
    "a multiple": lambda x: (
        x[:, : x.shape[1] - x.shape[1] % 4] + x[:, x.shape[1] % 4 :],
        x[:, : x.shape[1] - x.shape[1] % 2].reshape(x.shape[0], x.shape[1] // 2, -1) * 2,
        F.linear(x[:, x.shape[1] - x.shape[1] % 4 :], x[0, :2]),
    ),
    "the last ones": lambda x: (
        F.linear(x[:, max(0, x.shape[1] - 8) :], x[0, :2]),
        x[:, -(x.shape[1] // 2) :].relu(),
        x[:, : -(x.shape[1] % 4 + 1)].relu(),
    ),
    "the middle": lambda x: F.linear(x[:, x.shape[1] // 2 - 1 : x.shape[1] // 2 + 1], x[0, :2]),
    "one of them": lambda x: (
        torch.cat([x[:, ::2], x[:, 1::2].neg()], 1)[:, -1] * 2,
        torch.cat([x[:, ::2], x[:, 1::2]], 1)[:, -2],
        torch.cat([x[:, ::3], x[:, 1::3]], 1).select(1, -1).relu(),
    ),
    "open steps": lambda x: (
        x[:, :: x.shape[1] // 2] * 2,
        F.linear(x[..., None, :: x.shape[1] // 2, 1:3], x[0, :1, :2]),
        x[:, 1 : x.shape[1] // 2 + 1 : x.shape[1] % 3 + 1].relu(),
    ),
    "last places": lambda x: x + torch.arange(64).float()[-x.shape[1] :, None],
}


@pytest.mark.grid
@pytest.mark.parametrize("name", FORMS)
def test_forms_are_right_at_every_size(name):
    model, shapes = Apply(FORMS[name]), ({1: Dim("n", min=2, max=61)},)
    library = ts.compile(model, (torch.rand(2, 9, 4),), dynamic_shapes=shapes, config=CONFIG)
    assert library.inputs[0].shape[1] == "n"
    for size in SIZES:
        x = torch.rand(2, size, 4)
        torch.testing.assert_close(library(x), model(x))


def far_written(x):
    y = x.clone()
    y[:, : x.shape[1] // 2 * 2][:, 16:] += 1
    return F.linear(y[:, : x.shape[1] // 2 * 2], x[0, :1])


def test_what_is_written_into_a_slice_counts():
    """Rows behind the sixteenth, which the sizes that are compared do not have."""
    model, shapes = Apply(far_written), ({1: Dim("n", min=2, max=61)},)
    try:
        library = ts.compile(model, (torch.rand(2, 9, 4),), dynamic_shapes=shapes, config=CONFIG)
    except ts.InputError as error:
        assert "cannot leave these extents open" in str(error)
        return
    x = torch.rand(2, 40, 4)
    torch.testing.assert_close(library(x), model(x))


def blocks(x):
    """Return rows in blocks of eight, padded only where they are no whole number of blocks."""
    if x.shape[1] % 8 != 0:
        x = F.pad(x, (0, 0, 0, -x.shape[1] % 8))
    return x.reshape(x.shape[0], x.shape[1] // 8, 8, x.shape[2])


def attended(x):
    parts = blocks(x)
    return torch.einsum("bkqd,bkpd->bkqp", parts, parts)


BLOCKS = {
    "a sum": lambda x: blocks(x).sum(2),
    "a product": attended,
    "a linear layer of what is cut in place": lambda x: F.linear(
        blocks(x).flatten(1, 2).mul(3).add_(1)[:, : x.shape[1]], x[0, :1]
    ),
    "a linear layer of what is cut": lambda x: F.linear(
        (attended(x) @ blocks(x)).reshape(x.shape[0], -1, x.shape[2])[:, : x.shape[1]], x[0, :1]
    ),
}


@pytest.mark.grid
@pytest.mark.parametrize("rows", [16, 19])
@pytest.mark.parametrize("name", BLOCKS)
def test_an_example_of_whole_blocks_opens_all_sizes(name, rows):
    model, shapes = Apply(BLOCKS[name]), ({1: Dim("n", min=1, max=61)},)
    library = ts.compile(model, (torch.rand(2, rows, 4),), dynamic_shapes=shapes, config=CONFIG)
    for size in (1, 7, 8, 9, 16, 31, 61):
        x = torch.rand(2, size, 4)
        torch.testing.assert_close(library(x), model(x))


def test_a_multiple_that_the_model_needs_is_still_told():
    model = Apply(lambda x: x.reshape(x.shape[0], x.shape[1] // 8, 8, x.shape[2]).sum(2))
    with pytest.raises(ts.InputError, match=r"cannot leave these extents open.*n = 8\*_n"):
        shapes = ({1: Dim("n", min=1, max=61)},)
        ts.load(model, (torch.rand(2, 16, 4),), dynamic_shapes=shapes)


def test_axes_of_one_name_are_one_extent():
    """Blocks of two inputs are compared, which says nothing of their rows but for the name."""
    model = Pairs(lambda x, y: blocks(x) * blocks(y))
    n = Dim("n", min=1, max=61)
    example = (torch.rand(2, 19, 4), torch.rand(2, 19, 4))
    library = ts.compile(model, example, dynamic_shapes=({1: n}, {1: n}), config=CONFIG)
    assert [spec.shape[1] for spec in library.inputs] == ["n", "n"]
    for size in (1, 7, 8, 31, 61):
        x, y = torch.rand(2, size, 4), torch.rand(2, size, 4)
        torch.testing.assert_close(library(x, y), model(x, y))
    with pytest.raises(TensorError):
        library(torch.rand(2, 7, 4), torch.rand(2, 8, 4))


NAMED_BY_TORCH = {
    "a part of a root": (lambda x: x[:, : int(x.shape[1] ** 0.5 * 0.5)], r"int\(0.5\*float\("),
    "a number of steps": (lambda x: sum(x[:, i] for i in range(x.shape[1])), "n becomes 9"),
}


@pytest.mark.parametrize("name", NAMED_BY_TORCH)
def test_refusals_speak_python(name):
    function, said = NAMED_BY_TORCH[name]
    with pytest.raises(ts.InputError, match=said) as caught:
        shapes = ({1: Dim("n", min=2, max=61)},)
        ts.load(Apply(function), (torch.rand(2, 9, 4),), dynamic_shapes=shapes)
    assert not re.search(r"sym_|TORCH_LOGS|math\.|specialized", str(caught.value))


FROM_TWO = {
    "two parts": lambda x: torch.cat(x.chunk(2)[::-1]),
    "windows": lambda x: F.avg_pool2d(x[None, None], 2),
    "slopes": lambda x: torch.gradient(x, dim=0)[0],
}


@pytest.mark.parametrize("name", FROM_TWO)
def test_a_range_without_a_least_size_begins_where_the_model_does(name):
    model, example = Apply(FROM_TWO[name]), (torch.rand(6, 4),)
    library = ts.compile(model, example, dynamic_shapes=({0: Dim("n")},), config=CONFIG)
    for size in (2, 3, 7, 31):
        x = torch.rand(size, 4)
        torch.testing.assert_close(library(x), model(x))
    with pytest.raises(TensorError, match="n = at least 2"):
        library(torch.rand(1, 4))
    with pytest.raises(ts.InputError, match=r"where n is 1.*pass .*Dim\('n', min=2, max=40\)"):
        ts.load(model, example, dynamic_shapes=({0: Dim("n", min=1, max=40)},))


def test_a_range_begins_where_windows_fit():
    """The least size is that of PyTorch's own proof, for it is none of the smallest ones."""
    model = Apply(lambda x: F.avg_pool1d(x.mT, 20) + x.shape[0] % 2)
    shapes = ({0: Dim("n", max=80)},)
    library = ts.compile(model, (torch.rand(40, 4),), dynamic_shapes=shapes, config=CONFIG)
    for size in (20, 21, 31, 80):
        x = torch.rand(size, 4)
        torch.testing.assert_close(library(x), model(x))
    assert library.ranges == (
        "n is at least 20: for smaller sizes it is another model, or does not run",
    )
    with pytest.raises(TensorError, match="n = 20 to 80"):
        library(torch.rand(19, 4))
    with pytest.raises(ts.InputError, match=r"pass .*Dim\('n', min=20, max=80\)"):
        ts.load(model, (torch.rand(40, 4),), dynamic_shapes=({0: Dim("n", min=1, max=80)},))


TOLD = {
    "parts of no rows": (
        lambda x: F.conv1d(x.mT, torch.ones(4, 4, 3), stride=3).chunk(2, -1)[0],
        "the model needs",
    ),
    "in the words of the model": (
        lambda x: x.split(2),
        r"needs \(\(1 \+ n\) // 2\) == 3, ",
    ),
    "no long formula": (lambda x: [part * 2 for part in x.chunk(4)], "'n', decides what"),
}


@pytest.mark.parametrize("name", TOLD)
def test_conditions_are_told_in_short(name):
    function, said = TOLD[name]
    with pytest.raises(ts.InputError, match=said) as caught:
        ts.load(Apply(function), (torch.rand(6, 4),), dynamic_shapes=({0: Dim("n")},))
    assert not re.search(r"Infinity|oo\b|size\(\)|specified", str(caught.value))


def squeezed(x):
    """Sums of pairs of frames, taken apart again; frames behind the last pair are padded."""
    frames = x.shape[1] // 3
    y = F.avg_pool1d(x[:, : frames * 3].mT, 3).mT
    pairs = F.avg_pool1d(y.mT, 2).mT.repeat_interleave(2, 1)
    if pairs.shape[1] < frames:
        pairs = F.pad(pairs, (0, 0, 0, frames - pairs.shape[1]))
    return pairs + y


@pytest.mark.parametrize("rows", [18, 21])
def test_an_example_of_even_frames_opens_odd_ones(rows):
    """No example next to 18 rows has an odd number of frames."""
    shapes = ({1: Dim("n", min=6, max=61)},)
    library = ts.compile(
        Apply(squeezed), (torch.rand(2, rows, 4),), dynamic_shapes=shapes, config=CONFIG
    )
    assert not library.ranges
    for size in (6, 8, 9, 12, 17, 27, 30, 61):
        x = torch.rand(2, size, 4)
        torch.testing.assert_close(library(x), squeezed(x))


def pyramid(x):
    """Sums of a plane and its means over ever larger parts, of which there may be one."""
    parts = [F.avg_pool2d(x, size) for size in (4, 16)]
    sizes = x.shape[-2:]
    return x + sum(
        F.interpolate(F.adaptive_avg_pool2d(p, 3), sizes, mode="bilinear") for p in parts
    )


def test_a_range_begins_at_a_single_window():
    """PyTorch proves the model for two windows or more, and one will do."""
    model, shapes = Apply(pyramid), ({2: Dim("h"), 3: Dim("w")},)
    library = ts.compile(model, (torch.rand(1, 3, 48, 64),), dynamic_shapes=shapes, config=CONFIG)
    for height, width in [(16, 16), (16, 40), (33, 31), (64, 80)]:
        x = torch.rand(1, 3, height, width)
        torch.testing.assert_close(library(x), model(x))
    with pytest.raises(TensorError, match="h = at least 16"):
        library(torch.rand(1, 3, 15, 16))


def doubled_from_six(x):
    return (x * 2 if x.shape[0] > 5 else x)[: x.shape[0] // 2 + 1]


def test_what_code_of_the_model_asks_narrows_a_range_without_ends():
    model, example = Apply(doubled_from_six), (torch.rand(8, 4),)
    library = ts.compile(model, example, dynamic_shapes=({0: Dim("n")},), config=CONFIG)
    (told,) = library.ranges
    assert re.fullmatch(r"n is at least 6: .* \(test_asked_sizes.py, line \d+\)", told)
    for size in (6, 7, 31):
        x = torch.rand(size, 4)
        torch.testing.assert_close(library(x), model(x))
    with pytest.raises(TensorError, match="n = at least 6"):
        library(torch.rand(5, 4))
    with pytest.raises(ts.InputError, match=r"line \d+\).*pass .*Dim\('n', min=6, max=40\)"):
        ts.load(model, example, dynamic_shapes=({0: Dim("n", min=1, max=40)},))


def test_what_code_of_the_model_asks_of_multiples_is_asserted():
    model = Apply(lambda x: x * 2 if x.shape[0] % 3 else x + 1)
    shapes = ({0: Dim("n", min=1, max=40)},)
    library = ts.compile(model, (torch.rand(8, 4),), dynamic_shapes=shapes, config=CONFIG)
    (told,) = library.ranges
    assert told.endswith("traced where (x.shape[0] % 3) != 0; compile apart what is not")
    for size in (1, 2, 7, 40):
        x = torch.rand(size, 4)
        torch.testing.assert_close(library(x), model(x))
    with pytest.raises(SparseRuntimeError, match=r"traced where \(x.shape\[0\] % 3\) != 0"):
        library(torch.rand(6, 4))


def test_planes_that_shrink_to_one():
    model = Apply(lambda x: F.interpolate(x, scale_factor=0.5) + F.avg_pool2d(x, 2))
    shapes = ({2: Dim("h", min=2, max=40), 3: Dim("w", min=2, max=40)},)
    library = ts.compile(model, (torch.rand(1, 3, 8, 9),), dynamic_shapes=shapes, config=CONFIG)
    for height, width in [(2, 2), (3, 7), (16, 2), (31, 40)]:
        x = torch.rand(1, 3, height, width)
        torch.testing.assert_close(library(x), model(x))


REFUSED = {
    "another branch at one size": lambda x: x * 2 if x.shape[1] - 1 == 1 else x,
    "another branch far away": lambda x: x * 2 if x.shape[1] > 16 else x,
    "axes that vanish": lambda x: x[:, 1:].squeeze() * 2,
    "from either end": lambda x: x[:, : x.shape[1] - 20] * 2,
    "as many operators as rows": lambda x: sum(x[:, i] for i in range(x.shape[1])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_results_at_some_size_are_refused(name):
    model, shapes = Apply(REFUSED[name]), ({1: Dim("n", min=2, max=61)},)
    with pytest.raises(ts.InputError, match="cannot leave these extents open") as caught:
        ts.load(model, (torch.rand(2, 9, 4),), dynamic_shapes=shapes)
    assert "TORCH_LOGS" not in str(caught.value)


def test_extents_of_two_names_that_must_be_equal_are_refused():
    model = Pairs(lambda x, y: x[:, 1:] + y[:, 1:])
    n, m = Dim("n", min=2, max=61), Dim("m", min=2, max=61)
    with pytest.raises(ts.InputError, match="cannot leave these extents open"):
        ts.load(model, (torch.rand(2, 9), torch.rand(2, 9)), dynamic_shapes=({1: n}, {1: m}))


def test_pieces_of_one_element_are_not_tried_at_large_sizes():
    """``x[1:2]`` has one row at every size from two on."""
    tried = []

    def pieces(x):
        if isinstance(x.shape[0], int):
            tried.append(x.shape[0])
        return [part * 2 for part in x.tensor_split((1, 2, 3))]

    ts.load(Apply(pieces), (torch.rand(6, 4),), dynamic_shapes=({0: Dim("n")},))
    assert 0 < max(tried) < 5000


def test_what_a_trace_asked_that_is_not_taken_is_forgotten():
    def shifted(x, y):
        kept = x.clone()
        kept[:, : x.shape[1] // 2] += 1  # a slice that is written: traced twice
        rows = torch.cat([kept, y], 2)
        return rows.reshape(y.shape[0] * x.shape[1], -1), kept

    n, m = Dim("n", min=2, max=9), Dim("m", min=2, max=40)
    model, shapes = Pairs(shifted), ({0: n, 1: m}, {0: n, 1: m})
    x, y = torch.randn(2, 7, 4), torch.randn(2, 7, 4)
    library = ts.compile(model, (x, y), dynamic_shapes=shapes, config=CONFIG)
    for sizes in ((2, 7), (3, 4), (9, 31)):
        x, y = torch.randn(*sizes, 4), torch.randn(*sizes, 4)
        torch.testing.assert_close(library(x, y), model(x, y))
    half = Apply(lambda x: x[:2] if x.shape[0] > 4 else x)
    with AskedConditions() as asked:
        torch.export.export(half, (x.mT,), dynamic_shapes=({0: Dim.AUTO},))
        assert asked.found
        asked.forget()
    assert not asked.found and not asked.guards


@dataclass
class Found:
    rows: torch.Tensor
    rest: object = None


class Named(nn.Module):
    """What ``kind`` returns of rows of halved planes, of which some sizes leave one row."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.layer = kind, nn.Conv2d(3, 4, 3, 2, 1)

    def forward(self, x):
        return self.kind(self.layer(x).flatten(2).transpose(1, 2).mean(1))


RESULTS = {
    "data class": Found,
    "nothing beside": lambda rows: (rows, None),
    "dictionary": lambda rows: {"rows": rows, "kind": "mean", "rest": None},
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_in_containers_are_compared(name):
    if Found not in pytree.SUPPORTED_NODES:
        torch.export.register_dataclass(Found)
    model = Named(RESULTS[name]).eval().requires_grad_(False)
    shapes = ({2: Dim("h", min=1, max=20), 3: Dim("w", min=1, max=20)},)
    library = ts.compile(model, (torch.rand(2, 3, 9, 8),), dynamic_shapes=shapes, config=CONFIG)
    for size in ((1, 1), (2, 1), (9, 8), (17, 20)):
        x = torch.rand(2, 3, *size)
        found, wanted = map(pytree.tree_leaves, (library(x), model(x)))
        torch.testing.assert_close(found[0], wanted[0])
