"""``torch.compile(model, backend="tvm_sparse")``: graphs of Dynamo as compiled libraries."""

from tvm_sparse.dynamo.backend import backend
from tvm_sparse.dynamo.report import partitions

__all__ = ["backend", "partitions"]
