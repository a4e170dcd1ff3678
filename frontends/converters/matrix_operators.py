"""Operators that factorise matrices: PyTorch's and three of our own, each one function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.converters.operators import called, converter
from tvm_sparse.ops.linalg.cholesky import cholesky
from tvm_sparse.ops.linalg.householder import reflected, reflections
from tvm_sparse.ops.linalg.jacobi import orthogonal_columns
from tvm_sparse.ops.linalg.lu import lu_factors, permutation
from tvm_sparse.ops.linalg.triangular import solve_triangular

_LIBRARY = torch.library.Library("tvm_sparse", "DEF")
_LIBRARY.define("orthogonal_columns(Tensor x) -> (Tensor, Tensor)")
_LIBRARY.define("permutation(Tensor pivots, SymInt rows) -> Tensor")
_LIBRARY.define("reflections(Tensor x) -> (Tensor, Tensor)")


@torch.library.register_fake("tvm_sparse::orthogonal_columns")
def _columns_of(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty((*x.shape[:-2], x.shape[-1], x.shape[-1]))


@torch.library.register_fake("tvm_sparse::permutation")
def _order_of(pivots: Tensor, rows: int) -> Tensor:
    return pivots.new_empty((*pivots.shape[:-1], rows), dtype=torch.int64)


@torch.library.register_fake("tvm_sparse::reflections")
def _reflections_of(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty((*x.shape[:-2], torch.sym_min(*x.shape[-2:])))


@converter("linalg_lu_factor_ex.default")
def _lu_factors(importer: Any, node: torch.fx.Node) -> Any:
    return called(importer, node, lu_factors, importer.env[node.args[0]])


@converter("permutation.default")
def _permutation(importer: Any, node: torch.fx.Node) -> Any:
    pivots, rows = importer.retrieve_args(node)
    return called(importer, node, lambda p: permutation(p, rows), pivots)


@converter("linalg_cholesky_ex.default")
def _cholesky(importer: Any, node: torch.fx.Node) -> Any:
    return called(importer, node, cholesky, importer.env[node.args[0]])


@converter("geqrf.default", "reflections.default")
def _reflections(importer: Any, node: torch.fx.Node) -> Any:
    return called(importer, node, reflections, importer.env[node.args[0]])


@converter("linalg_householder_product.default")
def _reflected(importer: Any, node: torch.fx.Node) -> Any:
    return called(importer, node, reflected, *importer.retrieve_args(node))


@converter("orthogonal_columns.default")
def _orthogonal_columns(importer: Any, node: torch.fx.Node) -> Any:
    return called(importer, node, orthogonal_columns, importer.env[node.args[0]])


@converter("linalg_solve_triangular.default")
def _solve_triangular(importer: Any, node: torch.fx.Node) -> Any:
    """Convert systems of one leading shape with the matrix on the left, as rules leave them."""
    a, b = importer.retrieve_args(node)
    upper, unit = (bool(node.kwargs.get(name)) for name in ("upper", "unitriangular"))
    return called(importer, node, lambda a, b: solve_triangular(a, b, upper=upper, unit=unit), a, b)
