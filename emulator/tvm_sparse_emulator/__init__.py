"""Execute CUDA kernels on a CPU: their PTX is executed, checked and counted. Needs no GPU."""

from .errors import EmulatorError
from .executor import Memory, execute, options
from .nvrtc import compile_ptx
from .report import EmulationReport, Finding, Launch
from .version import __version__

__all__ = [
    "EmulationReport",
    "EmulatorError",
    "Finding",
    "Launch",
    "Memory",
    "__version__",
    "compile_ptx",
    "execute",
    "options",
]
