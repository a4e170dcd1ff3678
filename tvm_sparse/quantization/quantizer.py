"""torchao's quantizer for x86, which refuses no sum with a number and no product of integers."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def x86_quantizer() -> Any:
    """Return torchao's quantizer of layers, their sums and activations in bytes."""
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    class Quantizer(x86.X86InductorQuantizer):
        """Fuses a layer with the tensor that is added to it; leaves numbers and integers alone."""

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            annotated: fx.GraphModule = super().annotate(model)
            for node in annotated.graph.nodes:
                found = node.meta.get(x86.QUANT_ANNOTATION_KEY)
                if found and any(map(_is_whole, found.input_qspec_map)):
                    del node.meta[x86.QUANT_ANNOTATION_KEY]
            return annotated

        def _get_input_idx_for_binary_node(
            self, conv_gemm_node: fx.Node, binary_node: fx.Node
        ) -> tuple[int | None, int | None]:
            operands = list(binary_node.args[:2])
            if conv_gemm_node not in operands or not all(isinstance(x, fx.Node) for x in operands):
                return None, None
            place = operands.index(conv_gemm_node)
            return place, 1 - place

    quantizer = Quantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    return quantizer


def _is_whole(node: fx.Node) -> bool:
    """Whether ``node`` is a tensor of integers: places, masks, counts."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.is_floating_point()
