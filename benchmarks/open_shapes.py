"""A sentence encoder with open batch and length beside its own closed programs.

    python -m benchmarks.open_shapes                       # one thread, 75 % zeros and dense
    python -m benchmarks.open_shapes --layers 2 --lengths 16 64 --batches 1 8

Writes ``results/open_shapes.json``: a row for each shape with the milliseconds of the closed
program of that shape and of the one open program, in turns, and their ratio. Every output is
checked against eager PyTorch before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

TOLERANCE = 1e-4


def main() -> None:
    options = _arguments()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    import torch

    from benchmarks.harness.common import environment, save

    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    for sparsity in options.sparsities:
        for row in measure(sparsity, options):
            rows.append(row)
            save("open_shapes", {"environment": environment(options.threads), "rows": rows})
            print(json.dumps(row), flush=True)


def measure(sparsity: float, options: argparse.Namespace) -> Any:
    """Yield a row for each shape of the encoder at ``sparsity``."""
    import torch

    import tvm_sparse as ts
    from benchmarks.harness.common import interleaved, relative_error

    torch.manual_seed(0)
    model = encoder(options.layers).eval().requires_grad_(False)
    if sparsity:
        ts.prune.balanced(model, sparsity).squash_mask()
    dims = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("tokens", max=512)}
    opened = ts.compile(model, (torch.randn(2, 64, 384),), dynamic_shapes=(dims,))
    for batch in options.batches:
        for length in options.lengths:
            x = torch.randn(batch, length, 384)
            closed, expected = ts.compile(model, (x,)), model(x)
            error = max(relative_error(program(x), expected) for program in (closed, opened))
            if error > TOLERANCE:
                raise SystemExit(f"{batch} x {length}: error {error}")
            programs = {"closed": lambda c=closed, x=x: c(x), "open": lambda x=x: opened(x)}
            times = interleaved(programs, rounds=options.rounds)
            yield {
                "batch": batch,
                "tokens": length,
                "sparsity": sparsity,
                "threads": options.threads,
                "closed_ms": times["closed"]["median_us"] / 1e3,
                "open_ms": times["open"]["median_us"] / 1e3,
                "ratio": times["open"]["median_us"] / times["closed"]["median_us"],
                "error": error,
            }


def encoder(layers: int) -> Any:
    """Return a BERT-like encoder: layers of 384 features in 12 heads, behind the embedding."""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self, size: int = 384, heads: int = 12) -> None:
            super().__init__()
            self.heads = heads
            self.q, self.k, self.v, self.o = (nn.Linear(size, size) for _ in range(4))
            self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
            self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, tokens, size = x.shape
            shape = (batch, tokens, self.heads, size // self.heads)
            q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.q, self.k, self.v))
            scores = q @ k.transpose(-1, -2) * shape[-1] ** -0.5
            seen = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, tokens, size)
            x = self.first(x + self.o(seen))
            return self.second(x + self.down(nn.functional.gelu(self.up(x))))

    return nn.Sequential(*(Layer() for _ in range(layers)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 128, 384])
    parser.add_argument("--sparsities", type=float, nargs="+", default=[0.75, 0.0])
    return parser.parse_args()


if __name__ == "__main__":
    main()
