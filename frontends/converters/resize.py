"""Resizing, one axis after another, with weights that PyTorch itself computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tvm import relax, tirx

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.open_resize import Resizing, grown, resized, whole
from tvm_sparse.frontends.converters.operators import converter
from tvm_sparse.ops.marks import ANY_ORDER

aten = torch.ops.aten

MOST_TAPS = 4
"""More inputs than this for an output are read by a product of matrices."""

Weights = Callable[..., Tensor]
"""``(rows of lines, extent, align_corners, factor)``: the lines resized to the extent."""


def _nearest(operator: Any) -> Weights:
    return lambda rows, wanted, _corners, factor, apart=False: operator(
        rows[:, None], [wanted], factor
    )[:, 0]


def _linear(operator: Any) -> Weights:
    """Return lines resized as planes are, of height one.

    With ``apart`` they lie between rows of zeros, and all rows have a share in the result: one
    without would make NaN of an infinite element, whatever the columns do.
    """

    def weights(
        rows: Tensor, wanted: int, corners: bool, factor: float | None, apart: bool = False
    ) -> Tensor:
        if not apart:
            return operator(rows[:, None, None], [1, wanted], corners, None, factor)[:, 0, 0]
        planes = torch.zeros(len(rows), 1, 4, rows.shape[1], dtype=rows.dtype)
        planes[:, 0, 1] = rows
        return operator(planes, [8, wanted], corners, None, factor)[:, 0, 3]

    return weights


_NEAREST = {
    **dict.fromkeys(
        (aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec),
        _nearest(aten.upsample_nearest1d.default),
    ),
    **dict.fromkeys(
        (
            aten._upsample_nearest_exact1d.vec,
            aten._upsample_nearest_exact2d.vec,
            aten._upsample_nearest_exact3d.vec,
        ),
        _nearest(aten._upsample_nearest_exact1d.default),
    ),
}
_LINEAR = {
    **dict.fromkeys(
        (aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec),
        _linear(aten.upsample_bilinear2d.default),
    ),
    aten.upsample_bicubic2d.vec: _linear(aten.upsample_bicubic2d.default),
    aten._upsample_bilinear2d_aa.vec: _linear(aten._upsample_bilinear2d_aa.default),
    aten._upsample_bicubic2d_aa.vec: _linear(aten._upsample_bicubic2d_aa.default),
}
_OPEN = {
    **{op: "nearest-exact" if "exact" in str(op) else "nearest" for op in _NEAREST},
    **{op: "cubic" if "cubic" in str(op) else "linear" for op in _LINEAR if "_aa" not in str(op)},
}
"""What resizes open extents, and how."""

_NAMED = {"primfunc_name_hint": "resized", "primfunc_attrs": {ANY_ORDER: True}}
"""What functions that resize an open axis are called, and said of them."""

RESIZES = (*_NEAREST, *_LINEAR)
"""The operators that are imported here."""


def _enter(operator: Any, weights: Weights, *, linear: bool) -> None:
    """Enter the converter of a resizing ``operator``."""

    @converter(operator.__name__)
    def convert(importer: Any, node: torch.fx.Node) -> Any:
        source, size, *rest = importer.retrieve_args(node)
        corners, factors = rest if linear else (False, *rest)
        if linear and "float" not in str(source.ty.dtype):
            raise UnsupportedError("interpolate", f"{source.ty.dtype}", "floats")
        for axis, (extent, wanted, factor) in enumerate(_steps(source, size, factors), 2):
            if not isinstance(extent, int) or not isinstance(wanted, int):
                how = Resizing(axis, _OPEN.get(operator, ""), bool(corners), factor)
                source = _open(importer.block_builder, source, wanted, how)
                continue
            lines = torch.eye(extent, dtype=_computed_in(str(source.ty.dtype)))
            matrix = weights(lines, wanted, bool(corners), factor).T.numpy()
            if np.array_equal(matrix, lines.numpy()):
                continue
            infinite = torch.where(lines == 1, torch.inf, 0).to(lines.dtype)
            response = weights(infinite, wanted, bool(corners), factor, apart=True).T.numpy()
            source = _along(importer.block_builder.emit, source, axis, (matrix, response))
        return source


def _computed_in(dtype: str) -> torch.dtype:
    """Return the type in which elements of ``dtype`` are multiplied and added up."""
    return torch.float64 if dtype == "float64" else torch.float32


def _steps(source: Any, size: Any, factors: Any) -> list[tuple[Any, Any, float | None]]:
    """Return each axis's extent, the wanted one, and the factor if that is what is given.

    Open extents are expressions; the wanted one of an open extent is unknown where there is a
    factor.
    """
    extents = [getattr(e, "value", e) for e in source.ty.shape.values][2:]
    given = [None] * len(extents) if factors is None else list(factors)
    if size is None:
        pairs = zip(extents, given, strict=True)
        size = [int(e * f) if isinstance(e, int) and f is not None else None for e, f in pairs]
    return list(zip(extents, (getattr(n, "value", n) for n in size), given, strict=True))


def _open(builder: Any, source: Any, wanted: Any, how: Resizing) -> Any:
    """Resize an axis whose extent is open before or behind."""
    extent = source.ty.shape[how.axis]
    if not how.mode or (wanted is None and how.share is None):
        expected = "no antialiasing, and a size or a factor in sixty-fourths; or fixed planes"
        raise UnsupportedError("interpolate", "resizes an open height or width", expected)
    share = how.share if wanted is None else whole(extent, wanted)
    if share is not None:
        # Of the tensor's own extent: TVM fuses functions whose extents have one form.
        return builder.emit_te(
            lambda x: resized(x, grown(x.shape[how.axis], share), how), source, **_NAMED
        )
    wanted = tirx.const(wanted, "int64") if isinstance(wanted, int) else wanted
    return builder.emit_te(lambda x, extent: resized(x, extent, how), source, wanted, **_NAMED)


def _along(
    emit: Callable[[Any], Any], x: Any, axis: int, line: tuple[np.ndarray, np.ndarray]
) -> Any:
    """Multiply a matrix ``(wanted, extent)`` with an axis of ``x``: as few taps, or as a product.

    ``line`` has the response to infinite elements, too.
    """
    matrix, response = line
    places, shares = _taps(matrix, response)
    taps = places.shape[1]
    if taps == 1 and (shares == 1).all():
        return emit(relax.op.take(x, relax.const(places[:, 0], "int64"), axis))
    dtype, rank = str(x.ty.dtype), len(x.ty.shape)
    inside = str(matrix.dtype)
    single = x if dtype == inside else emit(relax.op.astype(x, inside))
    if taps > MOST_TAPS:
        order = [*range(axis), *range(axis + 1, rank), axis]
        rows = emit(relax.op.permute_dims(single, order))
        product = emit(relax.op.matmul(rows, relax.const(np.ascontiguousarray(matrix.T), inside)))
        back = [*range(axis), rank - 1, *range(axis, rank - 1)]
        result = emit(relax.op.permute_dims(product, back))
    else:
        column = [-1, *[1] * (rank - 1 - axis)]
        result = None
        for place, share in zip(places.T, shares.T, strict=True):
            tap = emit(relax.op.take(single, relax.const(place, "int64"), axis))
            term = emit(relax.op.multiply(tap, relax.const(share.reshape(column), inside)))
            result = term if result is None else emit(relax.op.add(result, term))
    return result if dtype == inside else emit(relax.op.astype(result, dtype))


def _taps(matrix: np.ndarray, response: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each output the inputs that have a share in it, and their shares.

    An input without a share counts where PyTorch multiplies it, too: by its ``response`` to an
    infinite input. One that it multiplies by zero a second time is there twice. Outputs with fewer
    inputs than others have their main one in parts.
    """
    found = [_taps_of(shares, seen) for shares, seen in zip(matrix, response, strict=True)]
    count = max(map(len, found))
    for taps in found:
        parts = 1 + count - len(taps)
        place, share = max(taps, key=lambda tap: abs(tap[1]))
        taps.remove((place, share))
        taps.extend([(place, share / parts)] * parts)
        taps.sort()
    places, shares = np.moveaxis(np.array(found), -1, 0)
    return places.astype(np.int64), shares.astype(matrix.dtype)


def _taps_of(shares: np.ndarray, response: np.ndarray) -> list[tuple[int, float]]:
    """Return the inputs that an output reads, each with its share."""
    (places,) = np.nonzero((response != 0) | (shares != 0))
    taps = [(int(place), float(shares[place])) for place in places]
    return taps + [(p, 0.0) for p, share in taps if share and np.isnan(response[p])]


for _table in (_NEAREST, _LINEAR):
    for _operator, _weights in _table.items():
        _enter(_operator, _weights, linear=_table is _LINEAR)
