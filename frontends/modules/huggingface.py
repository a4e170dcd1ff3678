"""What PyTorch's exporter must be told about Hugging Face's classes."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from torch.fx import _pytree as fx_pytree
from torch.utils import _pytree as pytree

_PARTS = ["self_attention_cache", "cross_attention_cache"]


def register_caches() -> None:
    """Let key-value caches of transformers, if it is in use, be arguments and results."""
    caches: Any = sys.modules.get("transformers.cache_utils")
    if caches is None:
        return
    with contextlib.suppress(ImportError):  # releases before 4.50 have no such function
        from transformers.integrations import executorch

        executorch.register_dynamic_cache_export_support()
        _register_pair(caches.EncoderDecoderCache)


def _register_pair(kind: Any) -> None:
    """Let the caches of an encoder and a decoder be a dictionary of both, unless it is known."""
    if kind in pytree.SUPPORTED_NODES:
        return
    pytree.register_pytree_node(
        kind,
        lambda cache: (_parts(cache), _PARTS),
        lambda parts, _: kind(*parts),
        serialized_type_name=f"{kind.__module__}.{kind.__name__}",
        flatten_with_keys_fn=lambda cache: (
            [(pytree.GetAttrKey(part), getattr(cache, part)) for part in _PARTS],
            _PARTS,
        ),
    )
    fx_pytree.register_pytree_flatten_spec(kind, lambda cache, _: _parts(cache))


def _parts(cache: Any) -> list[Any]:
    return [getattr(cache, part) for part in _PARTS]
