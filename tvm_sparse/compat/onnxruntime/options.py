"""Options of sessions and runs, with the names and defaults of onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class GraphOptimizationLevel(IntEnum):
    """How much onnxruntime rewrites a graph; here it changes nothing."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether onnxruntime runs nodes side by side; here it changes nothing."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """In which order onnxruntime runs nodes; here it changes nothing."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass
class SessionOptions:
    """Options of a session.

    ``intra_op_num_threads`` is honoured, 0 being all physical cores, and so are free dimensions
    that get a value by name. The others tune onnxruntime itself: they are kept, and used where a
    session falls back to it.
    """

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    graph_optimization_level: Any = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: Any = ExecutionMode.ORT_SEQUENTIAL
    execution_order: Any = ExecutionOrder.DEFAULT
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    free_dimensions: dict[str, int] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fix the extents that the model calls ``name``."""
        self.free_dimensions[name] = value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry for onnxruntime."""
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return the entry ``key``.

        Raises
        ------
        RuntimeError
            There is none, as in onnxruntime.
        """
        if key not in self.entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self.entries[key]


@dataclass
class RunOptions:
    """Options of a run, which tune onnxruntime itself."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    entries: dict[str, str] = field(default_factory=dict)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry for onnxruntime."""
        self.entries[key] = value


def real_options(real: Any, given: Any) -> Any:
    """Return the options of the module ``real``, onnxruntime itself, that are like ``given``."""
    if not isinstance(given, SessionOptions):
        return given
    options, unset = real.SessionOptions(), SessionOptions()
    for name, value in vars(given).items():
        if name not in ("free_dimensions", "entries") and value != getattr(unset, name):
            kind = type(getattr(options, name))
            setattr(options, name, kind(int(value)) if isinstance(value, IntEnum) else value)
    for name, size in given.free_dimensions.items():
        options.add_free_dimension_override_by_name(name, size)
    for key, text in given.entries.items():
        options.add_session_config_entry(key, text)
    return options
