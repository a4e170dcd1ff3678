"""Small sound ONNX graphs of many kinds, to be damaged one thing at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.frontends.onnx.graphs import graph, node

RNG = np.random.default_rng(11)
DOMAIN = "com.microsoft"


def _normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def _bytes(*shape: int, kind: Any = np.int8) -> np.ndarray:
    limits = np.iinfo(kind)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(kind)


def _scales(*shape: int) -> np.ndarray:
    return np.asarray(RNG.uniform(0.01, 0.05, shape), np.float32)


def _own(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return node(operator, inputs, outputs, domain=DOMAIN, **attributes)


def _model(
    nodes: list[Any], shape: tuple[int, ...], opset: int = 17, kind: int = 1, **weights: Any
) -> onnx.ModelProto:
    arrays = {name: np.asarray(value) for name, value in weights.items()}
    made = graph(nodes, {"x": shape}, ["y"], arrays, opset=opset, domains={DOMAIN: 1})
    made.graph.input[0].type.tensor_type.elem_type = kind
    return made


def _byte_layers() -> dict[str, onnx.ModelProto]:
    activation = {"s": np.float32(0.03), "z": np.uint8(120)}
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    there_and_back = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w ws wz", "wd", axis=0),
    ]
    convolution = {"w": _bytes(6, 4, 3, 3), "ws": _scales(6), "wz": np.zeros(6, np.int8)}
    matrix = {"w": _bytes(8, 5), "ws": np.float32(0.02), "wz": np.int8(3)}
    bias = {"b": RNG.integers(-900, 900, 6).astype(np.int32)}
    ends = {"s2": np.float32(0.5), "z2": np.uint8(90)}
    return {
        "QDQ convolution": _model(
            [*there_and_back, node("Conv", "d wd", "y", **same)],
            (1, 4, 5, 6),
            **activation,
            **convolution,
        ),
        "QDQ product": _model(
            [
                node("QuantizeLinear", "x s z", "q"),
                node("DequantizeLinear", "q s z", "d"),
                node("DequantizeLinear", "w ws wz", "wd"),
                node("Gemm", "d wd", "g"),
                node("QuantizeLinear", "g s2 z2", "g_q"),
                node("DequantizeLinear", "g_q s2 z2", "y"),
            ],
            (3, 8),
            **activation,
            **matrix,
            **ends,
        ),
        "QLinearConv": _model(
            [
                node("QuantizeLinear", "x s z", "q"),
                node("QLinearConv", "q s z w ws wz s2 z2 b", "c", **same),
                node("DequantizeLinear", "c s2 z2", "y"),
            ],
            (1, 4, 5, 6),
            **activation,
            **convolution,
            **ends,
            **bias,
        ),
        "QLinearMatMul": _model(
            [
                node("QuantizeLinear", "x s z", "q"),
                node("QLinearMatMul", "q s z w ws wz s2 z2", "c"),
                node("DequantizeLinear", "c s2 z2", "y"),
            ],
            (3, 8),
            **activation,
            **matrix,
            **ends,
        ),
        "QLinearAdd": _model(
            [
                node("QuantizeLinear", "x s z", "q"),
                _own("QLinearAdd", "q s z q s z s2 z2", "a"),
                _own("QLinearConcat", "s2 z2 a s2 z2 q s z", "c", axis=1),
                _own("QLinearLeakyRelu", "c s2 z2 s2 z2", "l", alpha=0.1),
                node("DequantizeLinear", "l s2 z2", "y"),
            ],
            (3, 8),
            **activation,
            **ends,
        ),
        "QGemm": _model(
            [node("QuantizeLinear", "x s z", "q"), _own("QGemm", "q s z w ws wz", "y")],
            (3, 8),
            **activation,
            **matrix,
        ),
        "blocks": _model(
            [
                node("DequantizeLinear", "w ws wz", "wd", axis=0, block_size=4),
                node("MatMul", "x wd", "y"),
            ],
            (3, 8),
            21,
            w=_bytes(8, 5),
            ws=_scales(2, 5),
            wz=_bytes(2, 5),
        ),
        "16 bits": _model(
            [_own("QuantizeLinear", "x s z", "q"), _own("DequantizeLinear", "q s z", "y")],
            (3, 8),
            s=np.float32(0.001),
            z=np.uint16(30000),
        ),
    }


def _fused() -> dict[str, onnx.ModelProto]:
    heads = {"num_heads": 2}
    return {
        "FusedGemm": _model(
            [
                _own(
                    "FusedGemm",
                    "x w b",
                    "y",
                    transB=1,
                    activation="LeakyRelu",
                    activation_alpha=0.1,
                )
            ],
            (3, 8),
            w=_normal(5, 8),
            b=_normal(5),
        ),
        "FusedConv": _model(
            [_own("FusedConv", "x w b", "y", kernel_shape=[3, 3], activation="Relu", group=2)],
            (1, 4, 5, 6),
            w=_normal(6, 2, 3, 3),
            b=_normal(6),
        ),
        "FusedMatMul": _model(
            [_own("FusedMatMul", "x w", "y", transB=1, alpha=0.5)], (2, 3, 8), w=_normal(5, 8)
        ),
        "SkipLayerNormalization": _model(
            [_own("SkipLayerNormalization", "x x g h b", "y", epsilon=1e-5)],
            (2, 3, 8),
            g=_normal(8),
            h=_normal(8),
            b=_normal(8),
        ),
        "EmbedLayerNormalization": _model(
            [_own("EmbedLayerNormalization", "x t w p s g h m", "y n", epsilon=1e-5)],
            (2, 5),
            kind=TensorProto.INT32,
            t=RNG.integers(0, 2, (2, 5)).astype(np.int32),
            w=_normal(6, 8),
            p=_normal(5, 8),
            s=_normal(2, 8),
            g=_normal(8),
            h=_normal(8),
            m=np.ones((2, 5), np.int32),
        ),
        "Attention": _model(
            [_own("Attention", "x w b m", "y", unidirectional=1, **heads)],
            (2, 4, 6),
            w=_normal(6, 24),
            b=_normal(24),
            m=np.array([3, 4], np.int32),
        ),
        "MultiHeadAttention": _model(
            [_own("MultiHeadAttention", "x k v b m", "y", scale=0.3, **heads)],
            (2, 4, 8),
            k=_normal(2, 5, 8),
            v=_normal(2, 5, 8),
            b=_normal(24),
            m=np.array([[1, 1, 0, 1, 1], [1, 0, 1, 1, 1]], np.int32),
        ),
        "RotaryEmbedding": _model(
            [_own("RotaryEmbedding", "x p c s", "y", interleaved=1)],
            (2, 4, 16),
            p=np.array([2]),
            c=_normal(9, 4),
            s=_normal(9, 4),
        ),
        "DynamicQuantizeMatMul": _model(
            [_own("DynamicQuantizeMatMul", "x w s z b", "y")],
            (3, 8),
            w=_bytes(8, 5),
            s=_scales(5),
            z=np.zeros(5, np.int8),
            b=_normal(5),
        ),
        "MatMulNBits": _model(
            [_own("MatMulNBits", "x w s z", "y", K=32, N=5, bits=4, block_size=16)],
            (3, 32),
            w=_bytes(5, 2, 8, kind=np.uint8),
            s=_scales(5, 2),
            z=_bytes(5, 1, kind=np.uint8),
        ),
        "QAttention": _model(
            [
                node("QuantizeLinear", "x s z", "q"),
                _own("QAttention", "q w b s ws - z wz", "y", **heads),
            ],
            (2, 4, 6),
            s=np.float32(0.03),
            z=np.uint8(120),
            w=_bytes(6, 24),
            b=_normal(24),
            ws=np.float32(0.02),
            wz=np.int8(0),
        ),
    }


def _plain() -> dict[str, onnx.ModelProto]:
    branch = [
        helper.make_graph(
            [node("MatMul", f"x {name}", f"{name}_y")],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_y", 1, [3, 5])],
            [numpy_helper.from_array(_normal(8, 5), name)],
        )
        for name in ("a", "b")
    ]
    return {
        "shapes": _model(
            [
                node("Shape", "x", "n"),
                node("Gather", "n i", "first", axis=0),
                node("Concat", "first rest", "target", axis=0),
                node("Reshape", "x target", "r"),
                node("Slice", "r i e i", "s"),
                node("Pad", "s p", "y"),
            ],
            (3, 8),
            i=np.array([0]),
            rest=np.array([2, -1]),
            e=np.array([2]),
            p=np.array([0, 1, 0, 0, 0, 2]),
        ),
        "branches": _model(
            [
                node("ReduceSum", "x", "t", keepdims=0),
                node("Greater", "t zero", "c"),
                node("If", "c", "y", then_branch=branch[0], else_branch=branch[1]),
            ],
            (3, 8),
            zero=np.float32(0),
        ),
        "resize": _model(
            [node("Resize", "x - s", "y", mode="linear")],
            (1, 2, 4, 5),
            s=np.array([1, 1, 2, 1.5], np.float32),
        ),
        "LSTM": _model(
            [node("LSTM", "x w r b", "y", hidden_size=4)],
            (3, 2, 6),
            w=_normal(1, 16, 6),
            r=_normal(1, 16, 4),
            b=_normal(1, 32),
        ),
        "STFT": _model(
            [node("STFT", "x s w n", "y")],
            (1, 40, 1),
            s=np.int64(8),
            w=_normal(16),
            n=np.int64(16),
        ),
        "constants": _model(
            [
                helper.make_node(
                    "Constant", [], ["w"], name="c", value=numpy_helper.from_array(_normal(8, 5))
                ),
                node("MatMul", "x w", "m"),
                node("BatchNormalization", "m g g g v", "n"),
                node("Softmax", "n", "y", axis=-1),
            ],
            (3, 8),
            g=_normal(5),
            v=abs(_normal(5)),
        ),
    }


GRAPHS = {**_byte_layers(), **_fused(), **_plain()}
