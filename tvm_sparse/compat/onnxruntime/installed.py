"""The module in place of onnxruntime for other packages, and what all sessions share."""

from __future__ import annotations

import sys

from tvm_sparse.base.onnxruntime_itself import stand_aside, stand_in

PROVIDER = "CPUExecutionProvider"

__version__ = "1.20.0"
"""The version whose interface this is."""


class _State:
    fallback = False


def install(*, fallback: bool = False) -> None:
    """Let ``import onnxruntime`` give this module from now on.

    Call it before packages are imported that shall use it. What is imported of onnxruntime already
    stays what it is.

    Parameters
    ----------
    fallback
        Whether onnxruntime itself runs what is refused here; see :class:`.InferenceSession`.
    """
    assert __package__ is not None
    _State.fallback = fallback
    stand_in(sys.modules[__package__])


def uninstall() -> None:
    """Undo :func:`install`."""
    _State.fallback = False
    stand_aside()


def fallback_by_default() -> bool:
    """Return what :func:`install` was told."""
    return _State.fallback


def get_available_providers() -> list[str]:
    """Return the CPU's only."""
    return [PROVIDER]


def get_all_providers() -> list[str]:
    """Return the CPU's only."""
    return [PROVIDER]


def get_device() -> str:
    """Return ``"CPU"``."""
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Do nothing: this package's messages are errors and warnings of Python."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Do nothing; see :func:`set_default_logger_severity`."""
