"""What a model's author calls an operator of a traced graph."""

from __future__ import annotations

import operator
from typing import Any

import torch

_OWN = {
    "_local_scalar_dense": "torch.Tensor.item",
    "item": "torch.Tensor.item",
    "_to_copy": "torch.Tensor.to",
    "_unique2": "torch.unique",
    "_cdist_forward": "torch.cdist",
    "_euclidean_dist": "torch.cdist",
    "_ctc_loss": "torch.nn.functional.ctc_loss",
    "_embedding_bag": "torch.nn.functional.embedding_bag",
    "_embedding_bag_forward_only": "torch.nn.functional.embedding_bag",
    "_native_multi_head_attention": "torch.nn.MultiheadAttention",
    "_transformer_encoder_layer_fwd": "torch.nn.TransformerEncoderLayer",
    "_nested_tensor_from_tensor_list": "torch.nested.nested_tensor",
    "_nested_tensor_from_mask": "torch.nested.nested_tensor",
    "_pack_padded_sequence": "torch.nn.utils.rnn.pack_padded_sequence",
    "_pad_packed_sequence": "torch.nn.utils.rnn.pad_packed_sequence",
    "native_dropout": "torch.nn.functional.dropout",
    "native_layer_norm": "torch.nn.functional.layer_norm",
    "native_group_norm": "torch.nn.functional.group_norm",
    "native_batch_norm": "torch.nn.functional.batch_norm",
    "rrelu_with_noise": "torch.nn.functional.rrelu",
    "rrelu_with_noise_functional": "torch.nn.functional.rrelu",
    **dict.fromkeys(("_fft_r2c", "_fft_c2c", "_fft_c2r"), "torch.fft"),
    "convolution": "convolution",
    "slice": "indexing",
    "index": "indexing",
    "index_put": "indexing",
    "scalar_tensor": "torch.tensor",
    "lift_fresh_copy": "torch.tensor",
    "map_impl": "map",
}
"""Operators whose own name nobody writes."""

_PREFIXES = {"linalg_": "linalg", "special_": "special", "fft_": "fft"}
_SUFFIXES = ("_functional", "_copy", "_cachemask", "_with_indices", "_ex", "_backward")


def base_name(node: torch.fx.Node) -> str:
    """Return the operator that a node calls, without its overload."""
    return str(getattr(node.target, "__name__", "")).partition(".")[0]


def operator_name(target: Any) -> str:
    """Return the name that documentation has for an operator: ``"torch.bmm"``.

    ``target`` is what a node calls, or the name of an operator with its overload.
    """
    if getattr(target, "__module__", "") in ("_operator", "builtins", "math"):
        return "indexing" if target is operator.getitem else f"{target.__name__} of numbers"
    space = getattr(target, "namespace", "aten")
    name = str(target if isinstance(target, str) else getattr(target, "__name__", target))
    base = name.partition(".")[0]
    if space not in ("aten", "prims"):
        return base if space == "higher_order" else f"{space}::{base}"
    return _OWN.get(base) or _documented(base) or base.strip("_")


def _documented(name: str) -> str:
    """Return where PyTorch has a function or method of this name, with less of it if need be."""
    bare = name.strip("_")
    tries = [name, bare, bare + "_"]
    tries += [bare.removesuffix(suffix) for suffix in _SUFFIXES if bare.endswith(suffix)]
    for text in tries:
        for prefix, module in _PREFIXES.items():
            short = text.removeprefix(prefix)
            if short != text and hasattr(getattr(torch, module), short):
                return f"torch.{module}.{short}"
        spaces = {"torch.nn.functional": torch.nn.functional, "torch": torch}
        for where, place in {**spaces, "torch.Tensor": torch.Tensor}.items():
            if not text.startswith("_") and hasattr(place, text):
                return f"{where}.{text}"
    return ""
