"""What ``torch.autocast("cuda")`` does to operators, after PyTorch's ``autocast_mode.h``.

PyTorch keeps it in kernels that cast nothing of tensors on a CPU. What an operator is not listed
for it does in the types that it gets.
"""

from __future__ import annotations

import enum

from torch._C import _dispatch_has_kernel_for_dispatch_key


class Policy(enum.Enum):
    """Which type an operator's floating operands of at most 32 bits are cast to."""

    HALF = "the type of the autocast"
    SINGLE = "float32"
    SINGLE_RESULT = "none: it is asked for a result in float32"
    WIDEST = "the widest of theirs and that of the autocast"
    BANNED = "none: PyTorch raises"


_HALF = """
_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d.input conv_transpose3d.input convolution cudnn_convolution
cudnn_convolution_transpose prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm
baddbmm bmm chain_matmul linalg_multi_dot scaled_dot_product_attention
_scaled_dot_product_flash_attention _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell
rnn_tanh_cell rnn_relu_cell lstm.input gru.input rnn_tanh.input rnn_relu.input
"""
"""The last four are cast by the kernels of cuDNN, which a PyTorch without CUDA has not."""

_SINGLE = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm
frobenius_norm.dim nuclear_norm nuclear_norm.dim norm.Scalar norm.ScalarOpt_dim cosine_similarity
poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss
smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm
logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
_upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d
_upsample_bicubic2d_aa
"""

_SINGLE_RESULT = """
prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList
"""

_WIDEST = """
addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put tensordot scatter_add vdot
"""

POLICIES = {
    **dict.fromkeys(_HALF.split(), Policy.HALF),
    **dict.fromkeys(_SINGLE.split(), Policy.SINGLE),
    **dict.fromkeys(_SINGLE_RESULT.split(), Policy.SINGLE_RESULT),
    **dict.fromkeys(_WIDEST.split(), Policy.WIDEST),
    "binary_cross_entropy": Policy.BANNED,
}
"""The policy of an operator of ATen by its name and overload."""

TELLING = frozenset(
    name
    for name, policy in POLICIES.items()
    if policy in (Policy.SINGLE, Policy.SINGLE_RESULT)
    and not _dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCPU")
)
"""Operators with results in float32 of halves in autocast for CUDA, and in that for a CPU not."""
