"""Prune the layers of a transformer to 90 % zeros, quantize them to 8 bits, compare the three."""

from __future__ import annotations

import argparse
import copy

import numpy as np
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.comparison.latency import race


class Layer(nn.Module):
    """An encoder layer as in BERT: attention, then two linear layers with GELU between."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.last_norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (f(x).view(split).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = self.norm(x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width)))
        return self.last_norm(x + self.narrow(nn.functional.gelu(self.wide(x))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=768, help="width of the layer")
    parser.add_argument("--tokens", type=int, default=128, help="tokens in the input")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each program")
    options = parser.parse_args()

    torch.manual_seed(0)
    dense = Layer(options.width, heads=options.width // 64).eval()
    batches = [torch.randn(1, options.tokens, options.width) for _ in range(8)]
    x = batches[0]

    # Masks by second-order scores; the weights that stay make up for those that go.
    pruned = copy.deepcopy(dense)
    pruner = ts.prune.one_shot(pruned, batches, ts.prune.BalancedPruning(0.9))
    pruner.squash_mask()
    integers = ts.quantize(pruned, batches)

    libraries = {
        "dense": ts.compile(dense, (x,)),
        "90 % zeros": ts.compile(pruned, (x,)),
        "90 % zeros, int8": ts.compile(integers),
    }
    print(libraries["90 % zeros, int8"].decisions)
    calls = {name: (lambda f=f: f(x)) for name, f in libraries.items()}
    with torch.inference_mode():
        wanted = pruned(x).numpy()
        times = race({"PyTorch, dense": lambda: dense(x), **calls}, options.rounds, calls=5)
    for name, taken in times.items():
        print(f"{name:>18}: {taken.median_us:8.0f} us")
    for name in ("90 % zeros", "90 % zeros, int8"):
        error = np.abs(np.asarray(libraries[name](x)) - wanted).max() / np.abs(wanted).max()
        print(f"{name}: largest difference from PyTorch {error:.1e} of the largest output")


if __name__ == "__main__":
    main()
