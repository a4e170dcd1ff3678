"""Uses of PyTorch's operators by family, as :mod:`tests.frontends.operators` has them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.frontends.operators import Use
from tvm_sparse.ops.linalg.polynomials import RECURRENCES

PLACES = torch.tensor([[0, 3, -1], [3, 3, 1]])
ROW = torch.tensor([4, 0, 4])


def _whole(x: Tensor) -> Tensor:
    return (x * 4).to(torch.int64)


def _scattered(reduce: str, *, include_self: bool = True) -> Use:
    places = PLACES % 5

    def use(x: Tensor) -> Tensor:
        return x[0].scatter_reduce(1, places, x[1], reduce, include_self=include_self)

    return use


def _regular(x: Tensor) -> Tensor:
    return x + 4 * torch.eye(x.shape[-1])


def _positive(x: Tensor) -> Tensor:
    return x @ x.mT + torch.eye(x.shape[-1])


def _product_of_svd(x: Tensor) -> Tensor:
    u, s, vh = torch.linalg.svd(x, full_matrices=True)
    middle = torch.zeros_like(x)
    middle.diagonal(0, 1, 2).copy_(s)
    return u @ middle @ vh + u.mT @ u @ x + x @ (vh @ vh.mT)


def _product_of_eigh(x: Tensor) -> Tensor:
    values, v = torch.linalg.eigh(x + x.mT)
    return (v * values.unsqueeze(-2)) @ v.mT + v.mT @ v


def _polynomial(name: str) -> Use:
    function = getattr(torch.special, name)
    return lambda x: function(x, torch.arange(5)) + function(x, 2) + function(0.3, x * 2)


def _grid(x: Tensor, align: bool) -> Tensor:
    theta = torch.tensor([[[1.4, 0.3, 0.1], [-0.2, 1.2, 0.4]]]).expand(x.shape[0], -1, -1)
    return F.affine_grid(theta, [*x.shape[:2], 5, 4], align_corners=align)


def _sampled(mode: str, padding: str, align: bool) -> Use:
    return lambda x: F.grid_sample(x, _grid(x, align), mode, padding, align)


def _volume_sampled(mode: str) -> Use:
    grid = torch.linspace(-1.3, 1.4, 1 * 2 * 3 * 4 * 3).reshape(1, 2, 3, 4, 3)
    return lambda x: F.grid_sample(x[:1], grid, mode, align_corners=False)


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
    "polygamma": lambda x: torch.polygamma(0, x.abs() + 1) + torch.polygamma(3, x.abs() + 0.5),
    "zeta": lambda x: torch.special.zeta(x.abs() + 1.5, x.abs() + 0.5),
    "zeta on the left": lambda x: torch.special.zeta(torch.full_like(x, 4), x.frac() - 3),
    "divisors": lambda x: torch.gcd(_whole(x * 9), _whole(x.flip(0) * 9)).lcm(_whole(x) % 7 + 1),
    "heaviside": lambda x: torch.heaviside(_whole(x), _whole(x.flip(0))),
    "clamp": lambda x: x.clamp(x[:, :1], x[0, 0].abs()).clamp(max=x.flip(0)),
    "backwards": lambda x: x + torch.arange(6, 1, -1) + torch.arange(0.5, 3, 0.5),
    "no elements": lambda x: x[:, :0].mean(1).isnan(),
    "lengths": lambda x: torch.linalg.vector_norm(x, dim=1, keepdim=True) + x.norm() + x.norm(p=1),
    "length of halves": lambda x: x.bfloat16().norm(dim=0) + x.half().norm(p=1, dim=0),
    "length in another type": lambda x: torch.linalg.vector_norm(x, 2, (0, 1), dtype=torch.double),
    "other norms": lambda x: x.norm(p=3, dim=1) + x.norm(p=torch.inf, dim=1),
    "number of zeros": lambda x: torch.linalg.vector_norm(_whole(x).float(), 0, 1),
    **{name: _polynomial(name) for name in RECURRENCES},
}

MATRICES: dict[str, Use] = {
    "solve": lambda x: torch.linalg.solve(_regular(x), x),
    "solve from the right": lambda x: torch.linalg.solve(_regular(x), x, left=False),
    "solve for vectors": lambda x: torch.linalg.solve(_regular(x), x[:, 0]),
    "inverse": lambda x: torch.linalg.inv(_regular(x)) + torch.linalg.pinv(_regular(x)),
    "determinant": lambda x: torch.linalg.det(x) + torch.linalg.slogdet(x)[1],
    "sign": lambda x: torch.linalg.slogdet(x)[0],
    "factors": lambda x: torch.linalg.lu_factor(x[:, :3])[0],
    "pivots": lambda x: torch.linalg.lu_factor(x[..., :3])[1],
    "unpacked": lambda x: torch.cat(torch.linalg.lu(x), 1),
    "by factors": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x, adjoint=True),
    "by factors from the right": lambda x: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(_regular(x)), x, left=False
    ),
    "triangular": lambda x: torch.linalg.solve_triangular(_regular(x), x, upper=True),
    "triangular of ones": lambda x: torch.linalg.solve_triangular(
        x, x, upper=False, left=False, unitriangular=True
    ),
    "one triangle": lambda x: torch.linalg.solve_triangular(_regular(x)[0], x, upper=False),
    "Cholesky": lambda x: torch.linalg.cholesky(_positive(x)),
    "Cholesky upper": lambda x: torch.linalg.cholesky(_positive(x), upper=True),
    "by Cholesky": lambda x: torch.cholesky_solve(x, torch.linalg.cholesky(_positive(x))),
    "inverse by Cholesky": lambda x: torch.cholesky_inverse(torch.linalg.cholesky(_positive(x))),
    "QR": lambda x: torch.cat(torch.linalg.qr(x[..., :3]), 1),
    "QR, complete": lambda x: torch.linalg.qr(x[..., :3], "complete")[0],
    "R": lambda x: torch.linalg.qr(x[:, :3], "r")[1],
    "reflections": lambda x: torch.ormqr(*torch.geqrf(x), x, left=False, transpose=True),
    "singular values": lambda x: torch.linalg.svdvals(x[:, :3]),
    "singular vectors": lambda x: _product_of_svd(x[:, :3]) + _product_of_svd(x[..., :3]).mT,
    "deficient": lambda x: _product_of_svd(x[:, :1].expand(-1, 5, -1)),
    "eigenvalues": lambda x: torch.linalg.eigvalsh(x) + torch.linalg.eigvalsh(x, UPLO="U"),
    "eigenvectors": _product_of_eigh,
    "norms": lambda x: torch.linalg.matrix_norm(x, 2) + torch.linalg.matrix_norm(x, "nuc"),
    "rank": lambda x: torch.linalg.matrix_rank(x[:, :1] * x[:, :, :1]),
}


PLANES: dict[str, Use] = {
    "places": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
    "places, dilated": lambda x: F.max_pool2d(x, 2, 1, 0, 2, True, return_indices=True)[1],
    "maxima with places": lambda x: torch.ops.aten.max_pool2d_with_indices(x, [2, 2])[0],
    "rounded up": lambda x: F.max_pool2d(x, 4, ceil_mode=True) + F.avg_pool2d(x, 4, ceil_mode=True),
    "volumes rounded up": lambda x: F.max_pool3d(x, 4, ceil_mode=True, return_indices=True)[1],
    "unpool": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "adaptive maxima": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "adaptive places": lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True)[1],
    "circular": lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"),
    "reflected": lambda x: F.pad(x, (1, 2, 0, 3), mode="reflect"),
    "replicated": lambda x: F.pad(x, (0, 2, 4, 1), mode="replicate"),
    "replicated and cut": lambda x: F.pad(x, (-1, 2, 0, 1), mode="replicate"),
    "bilinear form": lambda x: F.bilinear(x, x, torch.ones(2, 6, 6)),
    "distances": lambda x: torch.cdist(x, x, 1.0) + F.pdist(x[0, 0]).sum(),
    "addbmm": lambda x: torch.addbmm(x[0, 0], x[0], x[0], beta=2, alpha=0.5),
    "addbmm of integers": lambda x: (
        torch.addbmm(*(_whole(v) for v in (x[0, 0], x[0], x[0])))
        + torch.addmm(*(_whole(v[0, 0]) for v in (x, x, x)), beta=1.6, alpha=2.2)
    ),
    "transposed, of integers": lambda x: F.conv_transpose2d(
        _whole(x), _whole(x.mT[0].expand(4, 4, 6, 6)), stride=2, groups=2
    ),
    "transposed, far": lambda x: F.conv_transpose2d(
        x, x.flip(1).transpose(0, 1), stride=2, padding=1, output_padding=2, dilation=3
    ),
    "bag": lambda x: F.embedding_bag(PLACES % 4, x[0, 0], mode="mean"),
    "bag of maxima": lambda x: F.embedding_bag(
        ROW, x[0, 0], torch.tensor([0, 0, 2]), mode="max", padding_idx=0
    ),
    "bag with weights": lambda x: F.embedding_bag(
        ROW,
        x[0, 0],
        torch.tensor([0, 1, 2]),
        mode="sum",
        per_sample_weights=x[0, 1, 0, :3],
        include_last_offset=True,
    ),
    **{
        f"grid, {mode}, {padding}, {align}": _sampled(mode, padding, align)
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for align in (True, False)
    },
}

VOLUMES: dict[str, Use] = {
    "grid": _volume_sampled("bilinear"),
    "grid nearest": _volume_sampled("nearest"),
    "average of one": lambda x: F.avg_pool3d(x[0], 2) * 2,
}

FAMILIES = {
    "scatters": SCATTERS,
    "order": ORDER,
    "numbers": NUMBERS,
    "matrices": MATRICES,
    "planes": PLANES,
    "volumes": VOLUMES,
}
_ROWS = dict.fromkeys(("scatters", "order", "numbers", "matrices"), (2, 5, 5))
SHAPES = {**_ROWS, "planes": (2, 4, 6, 6), "volumes": (2, 3, 4, 5, 6)}
