"""The passes that differ between devices: the record, without its instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from tvm.target import Target

from tvm_sparse.selection.choose import Chooser

Pass: TypeAlias = Any


@dataclass(frozen=True)
class Scheduling:
    """What the third phase works with and fills.

    Parameters
    ----------
    apply
        The pass that schedules each function by the first rule that takes it.
    rules
        Filled by ``apply``: the rule of each function, None where none took it.
    report
        Is told of each function and its rule.
    packed
        Filled: the arrays of weights by name.
    free
        Is told which inputs may begin anywhere in memory.
    """

    apply: Pass
    rules: dict[str, str | None]
    report: Callable[[str, str | None], None]
    packed: dict[str, np.ndarray]
    free: Callable[[tuple[int, ...]], None]


@dataclass(frozen=True)
class DevicePasses:
    """Phases 2 to 4 for one kind of target, each a list of passes in order.

    Parameters
    ----------
    lower
        Contractions become our operators, the rest TVM's definitions; functions are fused.
    schedule
        How each function runs; weights leave the code.
    finalise
        Relax to virtual machine code, memory planned.
    native_main
        Whether what calls the kernels is machine code, where it neither branches nor calls others.
    """

    lower: Callable[[Chooser], list[Pass]]
    schedule: Callable[[Scheduling, Target], list[Pass]]
    finalise: Callable[[Target], list[Pass]]
    native_main: bool = False
