"""Errors that a user can act on: where, what was found, what was expected, what to do."""

from __future__ import annotations

from tvm_sparse_runtime.errors import SparseRuntimeError


class SparseError(SparseRuntimeError):
    """Base of every error the compiler raises on purpose; it takes what its own base takes."""


class InputError(SparseError):
    """A model, weight, option or file that cannot be used as it is."""


class UnsupportedError(SparseError):
    """A sound input that this version does not compile."""


class ArtifactError(SparseError):
    """An artifact directory that is damaged, foreign or made for another machine."""


class SlowKernelWarning(UserWarning):
    """Much of a compiled model's time goes to something that has no operator of ours."""


class WidenedBytesWarning(UserWarning):
    """Something quantized multiplies wider numbers: the target has no operators of its bytes."""


class WrittenInputWarning(UserWarning):
    """A model writes into an input that it does not return: a library leaves it as it is."""
