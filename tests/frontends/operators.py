"""Uses of PyTorch's operators, each a function of one tensor, to compare an import with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

Use = Callable[[Tensor], Tensor]

PLACES, OTHERS = torch.tensor([0, -1, 2]), torch.tensor([1, -2, 0])


def _in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:3].mul_(2)
    return y


CORRECTED: dict[str, Use] = {
    "last": lambda x: x[:, -1],
    "last but one": lambda x: x.select(2, -2),
    "add alpha": lambda x: torch.add(x, x * x, alpha=3),
    "add number alpha": lambda x: torch.add(x, 2, alpha=3),
    "sub alpha": lambda x: torch.sub(x, x * x, alpha=3),
    "rsub": lambda x: 1 - x,
    "rsub alpha": lambda x: torch.rsub(x, 1, alpha=2),
    "floor division": lambda x: (x * 5) // 2,
    "integer floor division": lambda x: ((x * 10).long() // 3).float(),
    "truncated division": lambda x: torch.div(x * 5, 2, rounding_mode="trunc"),
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "amax": lambda x: x.amax((0, -1)),
    "amax of all": lambda x: x.amax(),
    "amin": lambda x: x.amin(1, keepdim=True),
    "min": lambda x: x.min(-1).values,
    "argmin": lambda x: x.min(-1).indices.float(),
    "logsumexp": lambda x: x.logsumexp(-1),
    "product": lambda x: x.prod(1),
    "product kept": lambda x: x.prod(1, keepdim=True),
    "group norm": lambda x: F.group_norm(x[:, :4], 2),
    "group norm affine": lambda x: F.group_norm(x[:, :4], 2, torch.ones(4), torch.ones(4)),
    "average by": lambda x: F.avg_pool2d(x[None], 2, divisor_override=3),
    "average by, rounded up": lambda x: F.avg_pool2d(
        x[None, :, :4], 3, 2, 1, ceil_mode=True, divisor_override=3
    ),
    "average by, of volumes": lambda x: F.avg_pool3d(
        x[None], (2, 3, 1), (1, 2, 2), (1, 1, 0), ceil_mode=True, divisor_override=2
    ),
    "average of one image": lambda x: F.avg_pool2d(x, 2) * 2,
    "infinite": lambda x: torch.full((5,), -torch.inf).maximum(x) - torch.full_like(x, 0.5),
    "average": lambda x: F.avg_pool2d(x[None], 3, 2, 1, count_include_pad=False),
    "nearest size": lambda x: F.interpolate(x[None], size=(7, 3)),
    "nearest factor": lambda x: F.interpolate(x[None], scale_factor=1.5),
    "nearest whole": lambda x: F.interpolate(x[None], scale_factor=2),
    "index": lambda x: x[:, PLACES],
    "index list": lambda x: x[..., [0, -1]],
    "index both": lambda x: x[PLACES % 2, OTHERS],
    "index neighbours": lambda x: x[:, PLACES, OTHERS],
    "index apart": lambda x: x[PLACES % 2, :, OTHERS],
    "index apart broadcast": lambda x: x[(PLACES % 2)[:, None], :, OTHERS[None]],
    "index computed": lambda x: x[:, x[0, 0].argmax() - torch.tensor([1, 5])],
}
"""What TVM's importer alone gets wrong or does not know, and plain uses of the same operators."""

UNARY: dict[str, Use] = {
    name: getattr(torch, name)
    for name in (
        *("floor", "ceil", "trunc", "frac", "sign", "abs", "erf", "exp", "expm1", "sin", "cos"),
        *("tan", "sinh", "atan", "sigmoid", "tanh", "neg", "square", "relu", "tril", "round"),
    )
} | {
    name: getattr(F, name)
    for name in (
        *("silu", "mish", "hardswish", "hardsigmoid", "relu6", "celu", "softplus", "logsigmoid"),
        *("softsign", "tanhshrink", "softshrink", "hardshrink", "gelu", "leaky_relu"),
    )
}

SHAPES: dict[str, Use] = {
    "slice": lambda x: x[:, -3:],
    "slice step": lambda x: x[:, 1:-1:2],
    "new axis": lambda x: x[:, None, :, 0],
    "roll": lambda x: torch.roll(x, (1, -2), (0, 1)),
    "narrow": lambda x: x.narrow(1, -2, 2),
    "unbind": lambda x: x.unbind(1)[-1],
    "chunk": lambda x: x.chunk(3, 1)[2],
    "split": lambda x: x.split([1, 4], 1)[1],
    "index_select": lambda x: x.index_select(1, torch.tensor([0, 2])),
    "gather": lambda x: x.gather(1, torch.full((2, 3, 5), 2)),
    "transpose reshape": lambda x: x.transpose(1, 2).reshape(2, -1),
    "expand": lambda x: x[:, :1].expand(-1, 3, -1),
    "repeat": lambda x: x.repeat(1, 2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "stack": lambda x: torch.stack([x, x + 1], -1),
    "pad": lambda x: F.pad(x, (1, 2, -1, 1), value=0.5),
    "reflect": lambda x: F.pad(x, (1, 2), mode="reflect"),
    "unflatten": lambda x: x[:, :4].unflatten(1, (2, 2)),
    "flip": lambda x: x.flip(1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "in place": lambda x: x.clone().relu_().add_(x),
    "in place slice": _in_place,
}

REDUCTIONS: dict[str, Use] = {
    "mean": lambda x: x.mean((1, 2)),
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std((1, 2)),
    "norm": lambda x: x.norm(dim=-1),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "any": lambda x: (x > 1).any(1).float(),
    "all": lambda x: (x > -1).all(-1).float(),
    "cumsum": lambda x: x.cumsum(1),
    "cube": lambda x: x**3,
    "cumsum of booleans": lambda x: (x > 0).cumsum(1).float(),
    "cumprod of bytes": lambda x: (x * 3).to(torch.int8).cumprod(-1).float(),
    "cumsum as int32": lambda x: (x > 0).cumsum(1, dtype=torch.int32).float(),
    "cat of several types": lambda x: torch.cat([x > 0, x, (x * 3).int()], 1),
    "cat with empty tensors": lambda x: torch.cat([torch.ones(0), x, torch.ones(0).double()], 1),
    "topk": lambda x: x.topk(2, -1).values,
    "argmax": lambda x: x.argmax(-1, keepdim=True).float(),
    "max": lambda x: x.max(1).values,
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (5,)),
    "rms_norm": lambda x: F.rms_norm(x, (5,)),
    "instance_norm": F.instance_norm,
    "cosine": lambda x: F.cosine_similarity(x, x + 1, -1),
}

ARITHMETIC: dict[str, Use] = {
    "powers": lambda x: x**2 + x.pow(3) + 2**x + x.abs().pow(0.5),
    "fmod": lambda x: torch.fmod(x * 5, 2.0),
    "remainder": lambda x: torch.remainder(x * 5, 2.0),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=2),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=2),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3),
    "clamp": lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0.2),
    "where": lambda x: torch.where(x > 0, x, -x).masked_fill(x < -1, 7.0),
    "logic": lambda x: (((x > 0) & ~(x > 1)) ^ (x < -1)).float(),
    "integers": lambda x: ((x * 10).int() * 2 + (x * 10).long() % 3).float(),
    "products": lambda x: x @ x[0] + torch.bmm(x, x.transpose(1, 2)),
    "vectors": lambda x: x[0] @ x[1, 0] + x[0, 0] @ x[1],
    "baddbmm": lambda x: torch.baddbmm(x, x, x, beta=0.5, alpha=2),
    "addmm": lambda x: torch.addmm(x[0], x[0], x[1], beta=0.5, alpha=2),
    "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x) + torch.einsum("bij,kj->bik", x, x[0]),
    "broadcast product": lambda x: x[:, None] @ x[None],
    "constants": lambda x: x + torch.arange(5) + torch.eye(5) + x.new_ones(5),
}

PLANES: dict[str, Use] = {
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True) + F.max_pool2d(x, 3, 2, 1),
    "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1) + F.avg_pool2d(x, 3, 2, ceil_mode=True),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "bilinear": lambda x: F.interpolate(x, size=(9, 11), mode="bilinear"),
    "corners": lambda x: F.interpolate(x, size=(9, 11), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "replicate": lambda x: F.pad(x, (1, 1, 2, 2), mode="replicate"),
    "local_response": lambda x: F.local_response_norm(x, 3),
    "index apart": lambda x: x[:, PLACES, :, OTHERS],
}


class Uses(torch.nn.Module):
    """All of ``uses`` on one input."""

    def __init__(self, uses: Mapping[str, Use]) -> None:
        super().__init__()
        self.uses = dict(uses)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {name: use(x) for name, use in self.uses.items()}
