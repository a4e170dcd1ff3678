"""Uses of PyTorch's operators by family, as :mod:`tests.frontends.operators` has them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.frontends.operators import Use

PLACES = torch.tensor([[0, 3, -1], [3, 3, 1]])
ROW = torch.tensor([4, 0, 4])


def _whole(x: Tensor) -> Tensor:
    return (x * 4).to(torch.int64)


def _scattered(reduce: str, *, include_self: bool = True) -> Use:
    places = PLACES % 5

    def use(x: Tensor) -> Tensor:
        return x[0].scatter_reduce(1, places, x[1], reduce, include_self=include_self)

    return use


SCATTERS: dict[str, Use] = {
    "scatter": lambda x: x[0].scatter(1, torch.tensor([[0, 2], [1, 4]]), x[1]),
    "scatter number": lambda x: x[0].scatter(0, torch.tensor([[0, 2], [1, 4]]), 7.0),
    "scatter add": lambda x: x[0].scatter_add(1, PLACES % 5, x[1]),
    **{name: _scattered(name) for name in ("sum", "prod", "mean", "amax", "amin")},
    **{f"{name} alone": _scattered(name, include_self=False) for name in ("mean", "amax", "sum")},
    "index add": lambda x: x.index_add(1, ROW, x[:, :3], alpha=2),
    "index copy": lambda x: x.index_copy(1, ROW[:2], x[:, 1:3]),
    "index fill": lambda x: x.index_fill(-1, ROW, 3.0),
    "index put": lambda x: x.index_put((ROW % 2, ROW), x[0, :3]),
    "index put inside": lambda x: torch.ops.aten.index_put(x, [None, ROW - 5], x[:, :3], True),
    "index put apart": lambda x: torch.ops.aten.index_put(x, [ROW % 2, None, ROW], x[0, :3]),
    "mask put": lambda x: x.index_put((x[:, 0] > 0,), torch.tensor(3.0)),
    "masked scatter": lambda x: x.masked_scatter(x > 0, x.flip(0)),
    "put": lambda x: x.put(ROW, x[0, 0, :3], accumulate=True),
    "take": lambda x: x.take(ROW),
    "slices": lambda x: x.slice_scatter(x[:, ::2], 1, 0, 5, 2).select_scatter(x[0], 0, 1),
    "diagonal": lambda x: x.diagonal_scatter(x[:, 0], 0, 1, 2),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "strides": lambda x: x.as_strided((3, 4), (2, 3), 1),
    "fold": lambda x: F.fold(F.unfold(x[None], 2), (5, 5), 2),
}

ORDER: dict[str, Use] = {
    "sort": lambda x: x.sort(1).values,
    "stable sort": lambda x: _whole(x).sort(dim=1, stable=True).indices,
    "argsort": lambda x: x.argsort(-1, descending=True),
    "kth value": lambda x: x.kthvalue(2, 1).values,
    "median": lambda x: x.median(-1).values,
    "nanmedian": lambda x: torch.where(x > 1, torch.nan, x).nanmedian(-1).values,
    "mode": lambda x: _whole(x).mode(1).values,
    "quantile": lambda x: x.quantile(torch.tensor([0.2, 0.5]), 1),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 0.5])),
    "searchsorted": lambda x: torch.searchsorted(x.sort(-1).values, x.flip(0), right=True),
    "cummax": lambda x: x.cummax(1).values,
    "cummin's places": lambda x: _whole(x).cummin(-1).indices,
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "cumprod": lambda x: x.cumprod(-1),
    "histc": lambda x: x.histc(6, -2, 2),
    "var_mean": lambda x: torch.stack(torch.var_mean(x, (0, 2))),
}

NUMBERS: dict[str, Use] = {
    "sinh": lambda x: torch.sinh(x) + torch.cosh(x),
    "gamma": lambda x: torch.lgamma(x) + torch.digamma(x.abs() + 0.1),
    "trigamma": lambda x: torch.polygamma(1, x.abs() + 0.5),
    "erfc": lambda x: torch.erfc(x) + torch.special.erfcx(x.abs()),
    "erfinv": lambda x: torch.erfinv(torch.tanh(x)) + torch.special.ndtri(torch.sigmoid(x)),
    "bessel i": lambda x: torch.special.i0e(x * 9) + torch.special.i1e(x * 9),
    "bessel j": lambda x: torch.special.bessel_j0(x * 9) + torch.special.bessel_j1(x * 9),
    "bessel y": lambda x: torch.special.bessel_y0(x.abs() * 9 + 1),
    "bessel k": lambda x: torch.special.scaled_modified_bessel_k1(x.abs() * 9 + 1),
    "hypot": lambda x: torch.hypot(x, x.flip(0)) + torch.hypot(x * 0, x * 0),
    "copysign": lambda x: torch.copysign(x, x.flip(0)) + torch.copysign(x, -0.0),
    "integer powers": lambda x: _whole(x) ** (_whole(x.flip(0)).abs() % 5),
    "negative powers": lambda x: (_whole(x) % 3 - 1 + (_whole(x) % 3 == 1)) ** -_whole(x).abs(),
    "shifts": lambda x: (_whole(x) << 3) + (_whole(x) >> 1),
    "far shifts": lambda x: (_whole(x) << (_whole(x) + 60)) + (_whole(x) >> (_whole(x) + 62)),
    "quotients of integers": lambda x: _whole(x) / 3 + torch.sigmoid(_whole(x)),
    "mixed operands": lambda x: torch.atan2(_whole(x), x) + torch.where(x > 0, x, 1),
    "comparison of mixed": lambda x: (_whole(x) < x * 4) | (_whole(x) == 2.0),
    "float of a bool": lambda x: (x > 0) * 2.5 + (x > 1),
}

PLANES: dict[str, Use] = {
    "places": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
    "places, dilated": lambda x: F.max_pool2d(x, 2, 1, 0, 2, True, return_indices=True)[1],
    "maxima with places": lambda x: torch.ops.aten.max_pool2d_with_indices(x, [2, 2])[0],
    "unpool": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "adaptive maxima": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "adaptive places": lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True)[1],
    "circular": lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"),
    "bilinear form": lambda x: F.bilinear(x, x, torch.ones(2, 6, 6)),
    "distances": lambda x: torch.cdist(x, x, 1.0) + F.pdist(x[0, 0]).sum(),
    "addbmm": lambda x: torch.addbmm(x[0, 0], x[0], x[0], beta=2, alpha=0.5),
}

FAMILIES = {"scatters": SCATTERS, "order": ORDER, "numbers": NUMBERS, "planes": PLANES}
SHAPES = {"scatters": (2, 5, 5), "order": (2, 5, 5), "numbers": (2, 5, 5), "planes": (2, 4, 6, 6)}
