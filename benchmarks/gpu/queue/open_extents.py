"""Open extents: one artifact at many sizes. Layers by libraries and by us, attention, scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch.export import Dim
from torch.nn import functional

import tvm_sparse as ts
import tvm_sparse_runtime as rt
from benchmarks.gpu import device, models
from benchmarks.gpu.queue.background import Background
from benchmarks.gpu.queue.step import Piece, Plan, Row
from benchmarks.gpu.timing import OwnGraphs, Timer
from tvm_sparse.patterns.balanced import Balanced

LIMIT = 400.0
NOT_YET = "not compiled yet"
OURS = {"ours": ts.Config(measure=False, libraries=False)}
LAYERS = {**OURS, "cublaslt": ts.Config(measure=False, force={"*": "cublaslt"})}
TWO_FOUR = {**OURS, "cusparselt": ts.Config(measure=False, force={"*": "cusparselt"})}


class Attention(torch.nn.Module):
    """Causal attention of heads of 64 columns, which lie side by side."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Return ``(batch, length, width)`` of three such tensors."""
        batch, length, width = query.shape
        heads = [
            x.view(batch, length, width // 64, 64).transpose(1, 2) for x in (query, key, value)
        ]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, width)


class Scores(torch.nn.Module):
    """Products of queries and keys that are bytes, in heads of 64 columns."""

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Return ``(batch, heads, length, length)`` of two ``(batch, length, width)``."""
        batch, length, width = query.shape
        steps = ((x * 16).round().clamp(-127, 127).to(torch.int8) for x in (query, key))
        query, key = (
            (q.float() * 0.0625).half().view(batch, length, width // 64, 64).transpose(1, 2)
            for q in steps
        )
        return query @ key.transpose(2, 3)


@dataclass(frozen=True)
class Open:
    """A network of float16 with open extents, and the sizes at which it is called."""

    name: str
    make: Callable[[], torch.nn.Module]
    width: int
    sizes: tuple[tuple[int, ...], ...]
    inputs: int = 1
    levels: Mapping[str, ts.Config] = field(default_factory=lambda: OURS)

    def examples(self, size: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
        """Return inputs of a size."""
        seed = torch.Generator().manual_seed(0)
        shape = (*size, self.width)
        return tuple(torch.randn(shape, generator=seed).half() for _ in range(self.inputs))

    def build(self, target: str, ptx: bool) -> None:
        """Compile what is not there yet."""
        first = self.sizes[-1]
        dims = {axis: Dim(f"extent{axis}", max=16 * max(first)) for axis in range(len(first))}
        for level, config in self.levels.items():
            path = models.place(self.name, level, ptx=ptx)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                given = [torch.cat([x, x]) if x.shape[0] == 1 else x for x in self.examples(first)]
                opened = {"dynamic_shapes": (dims,) * self.inputs, "target": target}
                made = ts.compile(self.make(), tuple(given), config=config, **opened)
                made.export(path, ptx=ptx)


def _layer(width: int) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(width, 4 * width), torch.nn.ReLU(), torch.nn.Linear(4 * width, width)
    return torch.nn.Sequential(*layers).eval().half()


def _quads(width: int) -> torch.nn.Module:
    """Return the same layers with two zeros in four weights."""
    layers = _layer(width)
    for layer in (layers[0], layers[2]):
        scores = torch.rand(layer.weight.shape).numpy()
        layer.weight.data *= torch.from_numpy(Balanced(4, 2).project(scores))
    return layers


def networks(plan: Plan) -> tuple[Open, ...]:
    """Return what is measured."""
    if plan.small:
        layers = Open("open layers", partial(_layer, 32), 32, ((5,), (300,)), levels=LAYERS)
        # No row of layers so small is a library's, so nothing can be forced.
        free = {**OURS, "cusparselt": ts.Config(measure=False)}
        quads = Open("open 2:4", partial(_quads, 32), 32, ((5,), (37,)), levels=free)
        attention = Open("open attention", Attention, 64, ((2, 5), (1, 37)), 3)
        return layers, quads, attention, Open("open bytes", Scores, 64, ((2, 5), (1, 37)), 2)
    rows = tuple((n,) for n in (1, 8, 32, 64, 256, 1024, 4096))
    odd = tuple((n,) for n in (64, 512, 515, 1024, 4096, 4099))
    lengths = (*((1, n) for n in (128, 512, 2048)), *((32, n) for n in (128, 512)))
    return (
        Open("open layers", partial(_layer, 1024), 1024, rows, levels=LAYERS),
        Open("open 2:4", partial(_quads, 1024), 1024, odd, levels=TWO_FOUR),
        Open("open attention", Attention, 768, lengths, 3),
        Open("open bytes", Scores, 768, lengths, 2),
    )


def start(plan: Plan, background: Background) -> None:
    """Begin to compile them."""
    for network in networks(plan):
        background.start(network.name, network.build, plan.target, background.ptx)


def build_all(plan: Plan, *, ptx: bool) -> None:
    """Compile them now."""
    for network in networks(plan):
        network.build(plan.target, ptx)


def pieces(plan: Plan, background: Background) -> Iterator[Piece]:
    """Yield a piece for each network."""
    key = plan.key(*models.CODE)
    for network in networks(plan):
        run = partial(_measured, network, plan, background)
        skip = "" if background.ready(network.name) else NOT_YET
        yield Piece(network.name, "open", key, run, skip=skip, limit=LIMIT)


def _measured(network: Open, plan: Plan, background: Background) -> Iterable[Row]:
    if future := background.tasks.get(network.name):
        future.result()
    network.build(plan.target, device.current().ptx)
    model = network.make()
    ptx = device.current().ptx
    found = {level: rt.load(models.place(network.name, level, ptx=ptx)) for level in network.levels}
    for size in network.sizes:
        inputs = [device.current().put(x) for x in network.examples(size)]
        row = _timed(model.to(inputs[0].device), inputs, found, Timer(plan.repeats))
        asked = [line for library in found.values() for line in library.libraries]
        case = f"{network.name}, {'x'.join(map(str, size))}"
        yield {"case": case, "size": list(size), "libraries": asked, **row}


@torch.inference_mode()
def _timed(
    model: torch.nn.Module,
    inputs: list[torch.Tensor],
    libraries: Mapping[str, rt.Library],
    timer: Timer,
) -> Row:
    """Return times and errors of ``libraries`` by their levels, beside PyTorch."""
    wanted, errors = model(*inputs), {}
    programs: dict[str, Callable[[], object]] = {"torch eager": lambda: model(*inputs)}
    for level, library in libraries.items():
        error = float((library(*inputs) - wanted).abs().max() / wanted.abs().max())
        errors[level] = error
        if not error <= models.TOLERANCE[wanted.dtype]:
            raise ArithmeticError(f"{level}: outputs of {inputs[0].shape} differ by {error:.2g}")
        programs[level] = OwnGraphs(lambda library=library: library(*inputs))
    return {"errors": errors, **timer.row(programs)}


def tells(rows: list[Row]) -> str:
    """Say how much faster ours and the library are than PyTorch, at worst and at best."""
    gains: dict[str, list[float]] = {}
    for row in rows:
        times = {name: taken["median_us"] for name, taken in row["times"].items()}
        for level in times.keys() - {"torch eager"}:
            gains.setdefault(level, []).append(times["torch eager"] / times[level])
    return ", ".join(f"{n} {min(g):.2f} to {max(g):.2f}x" for n, g in sorted(gains.items()))
