"""The built-in sparsity kinds, registered when the registry is first read."""

from __future__ import annotations

from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.ops.balanced_candidates import balanced_candidates
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.registry import Kind, register

BALANCED = register(Kind("balanced", Balanced, (BalancedFormat,), balanced_candidates))
