"""What a build needs to know of one kind of target: the record, without its instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.target import Target

from tvm_sparse.schedules.rule import ScheduleRule


@dataclass(frozen=True)
class Device:
    """How functions are scheduled and built for one kind of target.

    Parameters
    ----------
    rules
        The schedule rules in the order in which they are tried.
    pass_config
        Settings of TVM's passes that the schedules rely on.
    context
        What a build enters: vector math on CPUs, our compiler's options on GPUs.
    options
        Returns the target with the options that scheduled functions need.
    splitting
        The passes over scheduled functions that decide with what options they are built.
    after_scheduling
        The passes over scheduled functions that see them as they will run, in order.
    """

    rules: tuple[ScheduleRule, ...]
    pass_config: Mapping[str, Any]
    context: Callable[[Target], AbstractContextManager[Any]]
    options: Callable[[Target, tvm.IRModule], Target]
    splitting: Callable[[], list[Any]]
    after_scheduling: Callable[[Target], list[Any]]
