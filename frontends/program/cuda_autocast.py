"""``torch.autocast("cuda")`` of models that are traced on a CPU: what a GPU would compute."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch.amp.autocast_mode import autocast

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.program.cuda_kernels import kernels
from tvm_sparse.frontends.quiet import quiet

CUDA, HOST = "cuda", "cpu"
HALVES = (torch.float16, torch.bfloat16)

WHERE = f"torch.autocast('{CUDA}')"
TODO = f"write 'with torch.autocast(\"{CUDA}\", dtype)' into forward, and pass the module"


class CudaAutocast:
    """What ``torch.autocast("cuda")`` is while a model is traced on a CPU, for a GPU.

    Its blocks become blocks for the CPU with the casts of CUDA. From the first one on, blocks that
    name the CPU have these casts, too: a model that asks its inputs for their device means both.

    Parameters
    ----------
    around
        The type of an autocast that all is traced in, if any.
    """

    def __init__(self, around: torch.dtype | None = None) -> None:
        self.around = around
        self._kernels: torch.library.Library | None = None
        self._twins: list[autocast] = []

    @property
    def casts(self) -> bool:
        """Whether PyTorch has the casts of CUDA."""
        return self._kernels is not None

    def cast(self) -> None:
        """Let PyTorch have the casts of CUDA."""
        if self._kernels is None:
            with quiet():
                self._kernels = kernels()

    @contextlib.contextmanager
    def entered(self) -> Iterator[CudaAutocast]:
        """Let it be so."""
        token = _ACTIVE.set(self)
        try:
            with _methods(*self._around(*_ORIGINAL)):
                yield self
        finally:
            _ACTIVE.reset(token)
            if self._kernels is not None:
                self._kernels._destroy()

    def whole(self) -> contextlib.AbstractContextManager[Any]:
        """Return the autocast that all is traced in."""
        if self.around is None:
            return contextlib.nullcontext()
        return autocast(CUDA, self.around, cache_enabled=False)

    def _around(self, init: Any, enter: Any, leave: Any) -> tuple[Any, Any, Any]:
        """Return the methods of PyTorch's class, given its own."""

        def made(
            block: Any,
            device_type: str,
            dtype: torch.dtype | None = None,
            enabled: bool = True,
            cache_enabled: bool | None = None,
        ) -> None:
            if device_type != CUDA:
                init(block, device_type, dtype, enabled, cache_enabled)
                return
            dtype = torch.get_autocast_dtype(CUDA) if dtype is None else dtype
            if enabled and dtype not in HALVES:
                raise UnsupportedError(WHERE, f"casts to {dtype}", "a type of 16 bits")
            self.cast()
            init(block, HOST, dtype, enabled, cache_enabled)
            block.for_cuda = True

        def entered(block: Any) -> Any:
            if block.device == CUDA:  # made before, as a decorator
                _require_known(block)
                twin = autocast(CUDA, block.fast_dtype, block._enabled, block._cache_enabled)
                self._twins.append(twin)
                twin.__enter__()
                return block
            if getattr(block, "for_cuda", False):
                block.cuda_before = torch.is_autocast_enabled(CUDA)
                torch.set_autocast_enabled(CUDA, block._enabled)
            return enter(block)

        def left(block: Any, *raised: Any) -> Any:
            if block.device == CUDA:
                return self._twins.pop().__exit__(*raised)
            if getattr(block, "for_cuda", False):
                torch.set_autocast_enabled(CUDA, block.cuda_before)
            return leave(block, *raised)

        return made, entered, left


_ORIGINAL = (autocast.__init__, autocast.__enter__, autocast.__exit__)

_ACTIVE: ContextVar[CudaAutocast | None] = ContextVar("cuda_autocast", default=None)


def active() -> CudaAutocast | None:
    """Return what is entered."""
    return _ACTIVE.get()


def original() -> contextlib.AbstractContextManager[None]:
    """Return a context in which autocast is PyTorch's own: for tensors that are on a GPU."""
    return _methods(*_ORIGINAL)


@contextlib.contextmanager
def _methods(*methods: Any) -> Iterator[None]:
    """Let PyTorch's class have other methods for a while."""
    before = autocast.__init__, autocast.__enter__, autocast.__exit__
    autocast.__init__, autocast.__enter__, autocast.__exit__ = methods  # type: ignore[method-assign]
    try:
        yield
    finally:
        autocast.__init__, autocast.__enter__, autocast.__exit__ = before  # type: ignore[method-assign]


def surrounding() -> contextlib.AbstractContextManager[Any]:
    """Return the autocast for CUDA that a model is traced in."""
    mode = active()
    return contextlib.nullcontext() if mode is None else mode.whole()


def around() -> torch.dtype | None:
    """Return the type of the autocast for CUDA that this is called in, if any.

    Raises
    ------
    UnsupportedError
        There may be one that PyTorch has disabled, since there is no GPU.
    """
    if torch.is_autocast_enabled(CUDA):
        return torch.get_autocast_dtype(CUDA)
    if not torch.is_autocast_enabled(HOST) and _nested():
        refuse_disabled("surrounds this as a block which PyTorch has disabled")
    return None


def _nested() -> bool:
    """Whether this is called in a block of autocast, of whatever kind."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth > 0


def _require_known(block: Any) -> None:
    if not block._enabled:
        refuse_disabled("is a decorator which PyTorch has disabled")


def refuse_uncast() -> None:
    """Refuse a model that was imported for a CPU, and has blocks for CUDA, where it is for CUDA."""
    if active() is not None:
        found = "cast nothing when this model was imported, which was not for CUDA"
        todo = "pass the module or program itself, not what was loaded from it"
        raise UnsupportedError(WHERE, found, "a model that is imported for its target", todo)


def refuse_disabled(found: str) -> None:
    """Refuse a disabled block where nobody can tell who disabled it: PyTorch does without a GPU."""
    if not torch.cuda.is_available():
        found = f"{found}: it does so on a machine without a GPU, and says no more"
        raise UnsupportedError(WHERE, found, "a block whose state is known", TODO)
