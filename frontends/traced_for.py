"""What a model is imported for: a GPU has an autocast of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tvm.target import Target

from tvm_sparse.base.targets import device_name


@contextlib.contextmanager
def traced_for(target: Target) -> Iterator[None]:
    """Import models for ``target``: ``torch.autocast`` of its device casts what it casts there.

    Raises
    ------
    UnsupportedError
        This is called in an autocast for a GPU that PyTorch has disabled, since there is none.
    """
    if device_name(target) != "cuda":
        yield
        return
    from tvm_sparse.frontends.program.cuda_autocast import CudaAutocast, around

    with CudaAutocast(around()).entered():
        yield
