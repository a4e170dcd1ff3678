"""Load and run exported models without the compiler and without torch."""

from .bound import Bound
from .engine import start
from .errors import RuntimeArtifactError, SparseRuntimeError, TensorError
from .library import Library, load
from .manifest import Manifest
from .pool import Pool
from .session import Session
from .spec import TensorSpec
from .version import __version__

__all__ = [
    "Bound",
    "Library",
    "Manifest",
    "Pool",
    "RuntimeArtifactError",
    "Session",
    "SparseRuntimeError",
    "TensorError",
    "TensorSpec",
    "__version__",
    "load",
    "start",
]
