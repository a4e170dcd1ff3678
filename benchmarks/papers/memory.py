"""Memory that a compiled network plans for its activations."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from tvm_sparse.passes.finish.assemble import seen


def planned_bytes(library: Any, *inputs: Any) -> int:
    """Return the bytes of all buffers that one call allocates, outputs included.

    The compiler shares buffers between activations that do not live at the same time, so their
    sum is the peak. Scratch of single kernels on the stack does not count.
    """
    machine = relax.VirtualMachine(library.executable, tvm.cpu())
    arguments = [tvm.runtime.tensor(x.numpy()) for x in inputs]
    arguments += [tvm.runtime.tensor(weight) for weight in library.weights.values()]
    total = 0

    def count(_func: Any, name: str, before: bool, _ret: Any, *values: Any) -> None:
        nonlocal total
        if before and name == "vm.builtin.alloc_storage":
            total += int(values[1][0])

    machine.set_instrument(count)
    machine[seen(machine)](*arguments)
    return total
