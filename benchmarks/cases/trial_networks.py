"""Networks of timm, torchvision and transformers for the trial: small inputs, weights from a seed.

Constants that initialisers leave (layer scales of 1e-6, norms of one) would hide mistakes behind
them, so they are drawn, too.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from benchmarks.dynamo import BANK
from tests.zoo import package, timm_model, torchvision_model
from tvm_sparse.patterns.balanced import Balanced

Case = tuple[nn.Module, dict[str, Any]]

IMAGE = 96
"""Pixels of images in each direction, where a network does not ask for others."""

KEEP = 4
"""Weights of 16 that a pruned network keeps."""

LEAST = 64
"""Inputs of a weight from which on it is pruned."""

FRAMES = 16
TOKENS = 24
TINY = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim"), 64),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "encoder_layers"), 2),
    **dict.fromkeys(("decoder_layers", "num_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "d_ff", "hidden_dim"), 128),
    **dict.fromkeys(("decoder_ffn_dim", "ffn_dim", "n_inner", "d_inner"), 128),
    **dict.fromkeys(("embedding_size", "word_embed_proj_dim", "projection_dim"), 64),
    **{
        "vocab_size": 500,
        "head_dim": 16,
        "d_kv": 16,
        "rotary_dim": 8,
        "image_size": 64,
        "patch_size": 8,
    },
    **{"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "max_position_embeddings": 128},
}
"""Options of configurations of transformers; each has some of them."""


def network(source: str, name: str) -> Case:
    """Return a network in evaluation mode and the arguments of one call, drawn from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, inputs = SOURCES[source](name)
        _vary(model)
    return model.eval(), inputs


def prune(model: nn.Module) -> None:
    """Zero 75 % of each weight of many inputs: the least of each bank of 16, or of the whole."""
    for part in model.modules():
        weight = getattr(part, "weight", None)
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) or not isinstance(weight, nn.Parameter):
            continue
        if weight.dim() > 1 and weight[0].numel() >= LEAST:
            _prune(weight.detach())


def _prune(weight: torch.Tensor) -> None:
    if weight.shape[1] % BANK == 0:
        last = weight.movedim(1, -1)
        sizes = last.reshape(-1, weight.shape[1]).abs().numpy()
        last *= torch.from_numpy(Balanced(BANK, KEEP).project(sizes)).reshape(last.shape)
    else:
        least = weight.abs().flatten().kthvalue(weight.numel() * (BANK - KEEP) // BANK).values
        weight[weight.abs() <= least] = 0


def _vary(model: nn.Module) -> None:
    """Draw parameters that are constant, and statistics of batch norms."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.numel() > 1 and _constant(parameter):
                one = bool((parameter == 1).flatten()[0])
                parameter.uniform_(0.5, 1.5) if one else parameter.normal_(std=0.1)
        for norm in model.modules():
            if isinstance(getattr(norm, "running_var", None), torch.Tensor):
                norm.running_mean.normal_(std=0.1)
                norm.running_var.uniform_(0.5, 1.5)


def _constant(parameter: torch.Tensor) -> bool:
    return bool((parameter == parameter.flatten()[0]).all())


def _timm(name: str) -> Case:
    model = timm_model(name)
    given = model.default_cfg
    size = given["input_size"][-1] if given.get("fixed_input_size") else IMAGE
    return model, {"x": torch.randn(1, given["input_size"][0], size, size)}


class Detector(nn.Module):
    """A detector without what draws boxes: the maps of features, and what the head says of them."""

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.backbone, self.head = whole.backbone, getattr(whole, "head", None)
        self.rpn = whole.rpn.head if hasattr(whole, "rpn") else None

    def forward(self, x: torch.Tensor) -> Any:
        """Return the head's tensors, or the maps where the head wants boxes."""
        maps = list(self.backbone(x).values())
        return (self.head or self.rpn)(maps)


def _torchvision(name: str) -> Case:
    kinds = package("torchvision").models
    extra = {"weights": None}
    module = inspect.getmodule(kinds.get_model_builder(name)).__name__
    if ".segmentation" in module or ".detection" in module:
        extra["weights_backbone"] = None
    model = torchvision_model(name, **extra)
    image = torch.randn(1, 3, IMAGE, IMAGE)
    if ".detection" in module:
        return Detector(model), {"x": torch.randn(1, 3, 320, 320) if "ssd" in name else image}
    if ".video" in module:
        size = 224 if name in LARGE else IMAGE
        return model, {"x": torch.randn(1, 3, FRAMES, size, size)}
    if ".optical_flow" in module:
        images = torch.randn(2, 1, 3, 128, 128)
        return model, {"image1": images[0], "image2": images[1], "num_flow_updates": 2}
    first = next(iter(inspect.signature(model.forward).parameters))
    return model, {first: torch.randn(1, 3, 224, 224) if name in LARGE else image}


LARGE = ("vit_b_32", "maxvit_t", "mvit_v1_b", "mvit_v2_s", "s3d", "inception_v3")
"""Networks of torchvision for images of 224 pixels only."""


def _transformers(name: str) -> Case:
    """Return a model with its own default configuration, but for sizes."""
    kind = getattr(package("transformers"), name)
    known = vars(kind.config_class())
    sizes = {k: v for k, v in TINY.items() if k in known and isinstance(known[k], int | None)}
    config = kind.config_class(**sizes)
    model = kind(config)
    main = model.main_input_name
    ids = torch.randint(3, TINY["vocab_size"], (1, TOKENS))
    inputs: dict[str, Any] = {main: ids}
    if main == "pixel_values":
        size = getattr(config, "image_size", None) or IMAGE
        inputs[main] = torch.randn(1, getattr(config, "num_channels", 3), size, size)
    elif main == "input_values":
        inputs[main] = torch.randn(1, 4000)
    elif main == "input_features":
        inputs[main] = torch.randn(1, 100, getattr(config, "input_feat_per_channel", 80))
    else:
        inputs["attention_mask"] = (torch.arange(TOKENS)[None] < TOKENS - 4).long()
    taken = inspect.signature(model.forward).parameters
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :8]
    if "use_cache" in taken:
        inputs["use_cache"] = False
    return model, {key: value for key, value in inputs.items() if key in taken}


SOURCES = {"timm": _timm, "torchvision": _torchvision, "transformers": _transformers}
"""By name: a function that builds a network and its arguments from the network's name."""
