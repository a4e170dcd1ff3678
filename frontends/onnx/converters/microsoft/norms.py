"""Normalisation of sums: what is added before is part of the operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.converters.indexing import gather
from tvm_sparse.frontends.onnx.converters.microsoft import DOMAIN
from tvm_sparse.frontends.onnx.converters.norms import layer_norm, rms_norm
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

_EPSILON = 1e-12


def _sum(x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    total = x + skip
    return total if bias is None else total + bias


def _without_statistics(node: Node, y: Tensor, total: Tensor) -> list[Tensor | None]:
    """Return the outputs of a norm of a sum; statistics, which inference has no use for, refused.

    onnxruntime does not compute them on CPUs either.
    """
    if any(node.outputs[1:3]):
        raise node.refuse("gives statistics of a training step", "its first and last output")
    return [y, None, None, total][: max(1, len(node.outputs))]


@converter("SkipLayerNormalization", domain=DOMAIN)
def _layer_norm_of_sum(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = _EPSILON,
    node: Node,
) -> list[Tensor | None]:
    total = _sum(x, skip, bias)
    y = layer_norm(total, gamma, beta, epsilon=epsilon, node=node.with_outputs(1))
    return _without_statistics(node, y, total)


@converter("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def _rms_norm_of_sum(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    bias: Tensor | None = None,
    *,
    epsilon: float = _EPSILON,
    node: Node,
) -> list[Tensor | None]:
    total = _sum(x, skip, bias)
    return _without_statistics(node, rms_norm(total, gamma, epsilon=epsilon, node=node), total)


@converter("SimplifiedLayerNormalization", domain=DOMAIN)
@converter("SimplifiedLayerNormalization")
def _rms_norm(
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    node: Node,
) -> Any:
    """Onnxruntime writes it in ONNX's own domain, too, which has no operator of that name."""
    if any(node.outputs[1:]):
        raise node.refuse("gives statistics of a training step", "its first output")
    return rms_norm(x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type, node=node)


@converter("EmbedLayerNormalization", domain=DOMAIN)
def _norm_of_embeddings(  # noqa: PLR0917 (as many as the operator has)
    words: Tensor,
    segments: Tensor | None,
    word_table: Tensor,
    place_table: Tensor,
    segment_table: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    places: Tensor | None = None,
    *,
    epsilon: float = _EPSILON,
    mask_index_type: int = 1,
    node: Node,
) -> list[Tensor | None]:
    """Add up to three embeddings and normalise; ``mask_index_type`` concerns an output's shape.

    The second output counts the tokens of each sequence, the third is the sum.
    """
    if places is None:
        places = torch.arange(words.shape[1])[None]
    total = gather(word_table, words) + gather(place_table, places)
    if segments is not None and segment_table is not None:
        total = total + gather(segment_table, segments)
    y = layer_norm(total, gamma, beta, epsilon=epsilon, node=node.with_outputs(1))
    if mask is None:
        count = torch.zeros(words.shape[0], dtype=torch.int32)
    else:
        count = (mask == 1).sum(1).to(torch.int32)
    return [y, count, total][: max(1, len(node.outputs))]
