"""Sentences to vectors: a tokeniser, an artifact of an encoder, pooling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from .errors import SparseRuntimeError, shown
from .library import load

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
FIELDS = {IDS: "ids", MASK: "attention_mask", TYPES: "type_ids"}
"""What an encoder's inputs are called, and where the tokeniser's results have them."""
POOLINGS = ("mean", "cls")


class SentenceEncoder:
    """An encoder of sentences: any number of texts of any length.

    Texts are sorted by length and run in batches, each as long as its longest text, so an artifact
    with open extents of batch and length computes little padding. Where an extent is fixed, batches
    are padded to it.

    Parameters
    ----------
    artifact
        The directory of an exported encoder, or one that is loaded. Its inputs are called
        ``input_ids``, and perhaps ``attention_mask`` and ``token_type_ids``: integers of
        ``(batch, length)``.
    tokenizer
        The path of a ``tokenizer.json``, or of the folder that has it (``pip install tokenizers``);
        or an object like ``tokenizers.Tokenizer``.
    pooling
        ``"mean"`` over the tokens of a text, or ``"cls"``, its first one. Used where the output is
        ``(batch, length, width)``; an output of ``(batch, width)`` is taken as it is.
    normalize
        Whether vectors have the length 1.
    longest
        Tokens that a text is cut to; by default what the tokeniser says, at most what the artifact
        takes.
    output
        The name of the output; by default the first one.

    Raises
    ------
    SparseRuntimeError
        An input has another name, or an option cannot be; the tokeniser cannot be read.
    """

    def __init__(
        self,
        artifact: Any,
        tokenizer: Any,
        *,
        pooling: str = "mean",
        normalize: bool = True,
        longest: int | None = None,
        output: str | None = None,
    ) -> None:
        if pooling not in POOLINGS:
            raise SparseRuntimeError("pooling", shown(pooling), " or ".join(map(repr, POOLINGS)))
        self.session = load(artifact) if isinstance(artifact, str | Path) else artifact
        self.tokenizer = _tokenizer(tokenizer)
        self.pooling, self.normalize = pooling, normalize
        self._output = _output(self.session, output)
        for spec in self.session.inputs:
            if spec.name not in FIELDS or len(spec.shape) != 2:
                wanted = f"{', '.join(FIELDS)} of (batch, length)"
                raise SparseRuntimeError(f"input '{spec.name}'", str(spec), wanted)
        self._masked = any(spec.name == MASK for spec in self.session.inputs)
        self._fixed = [e if isinstance(e, int) else None for e in self.session.inputs[0].shape]
        self.longest = self._cut(longest)

    def encode(self, texts: str | Sequence[str], batch_size: int = 32) -> np.ndarray:
        """Return the vectors of texts.

        Parameters
        ----------
        texts
            One text, or several.
        batch_size
            How many run in one call, at most.

        Returns
        -------
        vectors
            float32 of ``(texts, width)``, in the order of the texts; ``(width,)`` for one.
        """
        if isinstance(texts, str):
            return self.encode([texts])[0]
        if batch_size < 1:
            raise SparseRuntimeError("batch_size", shown(batch_size), "at least 1")
        encoded = self.tokenizer.encode_batch(list(texts))
        vectors: dict[int, np.ndarray] = {}
        lengths = [len(text.ids) for text in encoded]
        order = sorted(range(len(encoded)), key=lambda i: -lengths[i])
        for chosen in self._batches(order, lengths, batch_size):
            vectors |= zip(chosen, self._run([encoded[i] for i in chosen]), strict=True)
        found = [vectors[i] for i in range(len(encoded))]
        return np.stack(found) if found else np.zeros((0, self._width()), np.float32)

    def _batches(
        self, order: Sequence[int], lengths: Sequence[int], size: int
    ) -> Iterator[Sequence[int]]:
        """Yield what runs together: texts of one length where no mask says which tokens count."""
        size = min(size, self._fixed[0] or size)
        for _, same in groupby(order, lambda i: 0 if self._masked else lengths[i]):
            texts = list(same)
            for first in range(0, len(texts), size):
                yield texts[first : first + size]

    def _run(self, encoded: Sequence[Any]) -> np.ndarray:
        """Return the vectors of texts that fit one call."""
        rows = self._fixed[0] or len(encoded)
        tokens = self._fixed[1] or max(1, *(len(text.ids) for text in encoded))
        arrays = [_filled(encoded, spec, (rows, tokens)) for spec in self.session.inputs]
        found = np.asarray(self.session.run(*arrays)[self._output], np.float32)
        if found.ndim == 3:
            found = self._pooled(found, _filled(encoded, None, (rows, tokens)))
        found = found[: len(encoded)]
        if self.normalize:
            found = found / np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1e-12)
        return found

    def _pooled(self, states: np.ndarray, mask: np.ndarray) -> np.ndarray:
        if self.pooling == "cls":
            return states[:, 0]
        weights = mask[:, :, None].astype(np.float32)
        return np.sum(states * weights, axis=1) / np.maximum(weights.sum(axis=1), 1e-9)

    def _cut(self, longest: int | None) -> int | None:
        """Make the tokeniser cut texts, and pad none; return at how many tokens."""
        symbol = self.session.inputs[0].shape[1]
        limit = self._fixed[1] or self.session.bounds.get(str(symbol), (1, None))[1]
        own = (self.tokenizer.truncation or {}).get("max_length")
        known = [n for n in (longest or own, limit) if n]
        self.tokenizer.no_padding()
        if not known:
            return None
        self.tokenizer.enable_truncation(min(known))
        return min(known)

    def _width(self) -> int:
        width = self.session.outputs[self._output].shape[-1]
        return width if isinstance(width, int) else 0


def _filled(encoded: Sequence[Any], spec: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return one input of all texts, zeros behind their ends; the mask without ``spec``."""
    field = FIELDS[MASK if spec is None else spec.name]
    found = np.zeros(shape, "int64" if spec is None else spec.dtype)
    for row, text in zip(found, encoded, strict=False):
        values = getattr(text, field)
        row[: len(values)] = values
    return found


def _tokenizer(given: Any) -> Any:
    if not isinstance(given, str | Path):
        return given
    path = Path(given) / "tokenizer.json" if Path(given).is_dir() else Path(given)
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise SparseRuntimeError(
            str(path), "the package 'tokenizers' is not installed", todo="pip install tokenizers"
        ) from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # it raises nothing more precise
        raise SparseRuntimeError(str(path), str(error), "a tokenizer.json") from None


def _output(session: Any, name: str | None) -> int:
    names = [spec.name for spec in session.outputs]
    if name is None:
        return 0
    if name not in names:
        raise SparseRuntimeError("output", shown(name), f"one of {', '.join(names)}")
    return names.index(name)
