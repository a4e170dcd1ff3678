"""Operators that are known and refused, with the reason."""

from __future__ import annotations

from typing import Any

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

_VALUES = "the shape of its result depends on values"
_OPTIONAL = "optional values are no tensors"
_STRINGS = "works on strings"
_RANDOM = "draws random numbers"
_TRAINING = "is a step of training"

_REASONS = {
    _VALUES: ("Compress", "NonMaxSuppression", "NonZero", "Unique"),
    _OPTIONAL: ("Optional", "OptionalGetElement", "OptionalHasElement"),
    _STRINGS: ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
    _RANDOM: (
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ),
}

_TRAINED = ("Adagrad", "Adam", "Gradient", "Momentum")


def _enter(operator: str, reason: str, domain: str) -> None:
    @converter(operator, raw=True, any_attributes=True, domain=domain)
    def refuse(*values: Any, node: Node) -> None:
        expected = "operators on tensors of known shapes"
        raise node.refuse(reason, expected, f"export without it{node.cut}")


for _reason, _operators in _REASONS.items():
    for _operator in _operators:
        _enter(_operator, _reason, "")
for _operator in _TRAINED:
    _enter(_operator, _TRAINING, "ai.onnx.preview.training")
