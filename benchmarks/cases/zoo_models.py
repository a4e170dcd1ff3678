"""Models as their users have them: transformers, timm, torchvision and four of no library.

Weights are random. Widths are those of the real models; those with many alike layers have two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.cases.zoo_networks import Recurrent, Step, UNet, Waves
from tests.zoo import timm_model, torchvision_model, transformers_model

Case = tuple[nn.Module, dict[str, Any]]
VOCABULARY = 5000


class Recommender(nn.Module):
    """Scores of items for a user: tables of embeddings, bags of past items, and an MLP."""

    def __init__(self, width: int = 64, items: int = 20000) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(10000, width), nn.Embedding(items, width)
        self.past = nn.EmbeddingBag(items, width, mode="mean")
        widths = (3 * width + 16, 512, 256, 1)
        self.layers = nn.ModuleList(map(nn.Linear, widths[:-1], widths[1:]))

    def forward(
        self, users: torch.Tensor, items: torch.Tensor, past: torch.Tensor, facts: torch.Tensor
    ) -> torch.Tensor:
        """Map users, items, ``(batch, length)`` past items and 16 numbers to a score each."""
        x = torch.cat([self.user(users), self.item(items), self.past(past), facts], 1)
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return torch.sigmoid(self.layers[-1](x))[:, 0]


class Numbered(nn.Module):
    """A module that takes the states of :class:`Step` as one list."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step

    def forward(self, token: torch.Tensor, place: torch.Tensor, states: list[torch.Tensor]) -> Any:
        """Return the scores of the next token and the new states."""
        return self.step(token, place, *states)


def _tokens(length: int = 64) -> torch.Tensor:
    return torch.randint(2, VOCABULARY, (1, length))


def _encoder(kind: str, **options: Any) -> Callable[[], Case]:
    """Return a case of an encoder of transformers with a mask."""

    def made() -> Case:
        model = transformers_model(
            f"{kind}Model", f"{kind}Config", vocab_size=VOCABULARY, **options
        )
        ids = _tokens()
        mask = (torch.arange(ids.shape[1])[None] < 50).long()
        return model, {"input_ids": ids, "attention_mask": mask}

    return made


def _gpt2() -> nn.Module:
    return transformers_model(
        "GPT2LMHeadModel",
        "GPT2Config",
        n_layer=2,
        vocab_size=VOCABULARY,
        bos_token_id=0,
        eos_token_id=1,
    )


def _step() -> Case:
    step = Step(_gpt2(), 128)
    given = {"token": torch.tensor([[11]]), "place": torch.tensor(17), "states": step.states()}
    return Numbered(step).eval(), given


def _llama() -> Case:
    model = transformers_model(
        "LlamaForCausalLM",
        "LlamaConfig",
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=VOCABULARY,
    )
    return model, {"input_ids": _tokens(), "use_cache": False}


def _t5() -> Case:
    model = transformers_model("T5EncoderModel", "T5Config", num_layers=2, vocab_size=VOCABULARY)
    return model, {"input_ids": _tokens()}


def _vit() -> Case:
    model = transformers_model("ViTModel", "ViTConfig", num_hidden_layers=2)
    return model, {"pixel_values": torch.randn(1, 3, 224, 224)}


def _whisper() -> Case:
    model = transformers_model(
        "WhisperForAudioClassification", "WhisperConfig", encoder_layers=2, decoder_layers=1
    )
    return model.encoder, {"input_features": torch.randn(1, 80, 3000)}


def _image(make: Callable[..., nn.Module], name: str, size: int = 224, **options: Any) -> Any:
    def made() -> Case:
        return make(name, **options), {"x": torch.randn(1, 3, size, size)}

    return made


def _ssdlite() -> Case:
    model = torchvision_model("ssdlite320_mobilenet_v3_large", weights=None, weights_backbone=None)
    return model.backbone, {"x": torch.randn(1, 3, 320, 320)}


def _recommender() -> Case:
    given = {"users": torch.randint(0, 10000, (256,)), "items": torch.randint(0, 20000, (256,))}
    past = torch.randint(0, 20000, (256, 20))
    return Recommender().eval(), {**given, "past": past, "facts": torch.randn(256, 16)}


MODELS: dict[str, Callable[[], Case]] = {
    "BERT": _encoder("Bert", num_hidden_layers=2),
    "DistilBERT": _encoder("DistilBert", n_layers=2),
    "RoBERTa": _encoder("Roberta", num_hidden_layers=2),
    "GPT-2, prefill": lambda: (_gpt2(), {"input_ids": _tokens(), "use_cache": False}),
    "GPT-2, a step with its cache": _step,
    "T5 encoder": _t5,
    "ViT": _vit,
    "Whisper encoder": _whisper,
    "Llama": _llama,
    "resnet50d": _image(timm_model, "resnet50d"),
    "convnext_tiny": _image(timm_model, "convnext_tiny"),
    "efficientnet_b0": _image(timm_model, "efficientnet_b0"),
    "mobilenetv3_large_100": _image(timm_model, "mobilenetv3_large_100"),
    "deit_small": _image(timm_model, "deit_small_patch16_224"),
    "swin_tiny": _image(timm_model, "swin_tiny_patch4_window7_224"),
    "regnety_008": _image(timm_model, "regnety_008"),
    "deeplabv3_mobilenet_v3": _image(
        torchvision_model,
        "deeplabv3_mobilenet_v3_large",
        weights=None,
        weights_backbone=None,
    ),
    "ssdlite320 backbone": _ssdlite,
    "wav2vec extractor": lambda: (Waves().eval(), {"x": torch.randn(1, 16000)}),
    "U-Net": lambda: (UNet().eval(), {"x": torch.randn(1, 3, 128, 128)}),
    "GRU classifier": lambda: (Recurrent().eval(), {"tokens": _tokens(40)}),
    "recommender": _recommender,
}
"""By name: a function that draws the model and the arguments of one call."""


def model_of(name: str) -> Case:
    """Return the model ``name`` and its arguments, drawn from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MODELS[name]()
