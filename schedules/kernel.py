"""One kernel of a compiled program: what it is, who made its code, and whether that is too slow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_sparse.ops.marks import OPERATOR
from tvm_sparse.ops.tensors.sums_of_products import sums_products
from tvm_sparse.schedules.cpu.generic import GenericRule
from tvm_sparse.schedules.cpu.rows import RowsRule
from tvm_sparse.schedules.cuda.generic import REST
from tvm_sparse.schedules.rule import WRITTEN, is_written

GENERIC = frozenset(rule.name for rule in (GenericRule(), *REST))
"""Schedule rules that take what no operator's own rule takes."""

_CONVERSION = re.compile(
    r"(fused_)?((multiply|divide|reshape|transpose)\d*_)*(quantized|dequantized)\d*|quantize_rows\d*"
)
"""Names of kernels that only convert: functions are called by their operators."""

PRODUCT = 1e-3
"""Microseconds of a product and its sum in plain loops; a schedule makes that 1e-5."""

LITTLE = 10.0
"""Modelled microseconds up to which a kernel that is not ours is not worth a word."""

MUCH = 0.1
"""Fraction of the time from which on a kernel that is not ours is worth a warning."""


@dataclass(frozen=True)
class Kernel:
    """One call of the compiled program.

    ``layer`` is the fully qualified name of the layer whose weight it reads, or empty;
    ``rule`` the schedule rule that made its code, ``None`` if no rule took it; ``us`` the median
    microseconds of one call (of all parts, where a batch goes through in parts), builtins of the
    virtual machine excluded. A ``contraction`` sums products of two tensors; where no rule for such
    made its code, it sums so many ``products``.
    """

    function: str
    layer: str
    rule: str | None
    us: float = 0.0
    contraction: bool = False
    products: int = 0

    @property
    def converts(self) -> bool:
        """Whether it does nothing but round floats to bytes, or write what bytes mean as floats."""
        return _CONVERSION.fullmatch(self.function) is not None

    @property
    def ours(self) -> bool:
        """Whether a rule made for it scheduled it: general rules do not make contractions fast."""
        return self.rule is not None and not (self.contraction and self.rule in GENERIC)


def is_contraction(func: tirx.PrimFunc, rule: str | None) -> bool:
    """Whether ``func``, which ``rule`` scheduled, sums products of two tensors."""
    if rule == WRITTEN:
        return is_written(func) and OPERATOR in func.body.block.annotations
    if rule == RowsRule().name:
        return False
    return (rule is not None and rule not in GENERIC) or sums_products(func)


def slow_phrases(kernels: Sequence[Kernel]) -> list[str]:
    """Return a warning for each function that is not ours and takes much of the time.

    Where nothing was measured, that is modelled.
    """
    if not any(kernel.us for kernel in kernels):
        return _modelled(kernels)
    total = sum(k.us for k in kernels)
    times: dict[str, float] = {}
    for kernel in kernels:
        if not kernel.ours:
            times[kernel.function] = times.get(kernel.function, 0.0) + kernel.us
    return [
        f"'{name}' has no operator of ours and takes {us / total:.0%} of the time"
        for name, us in sorted(times.items(), key=lambda item: -item[1])
        if us > MUCH * total
    ]


def _modelled(kernels: Sequence[Kernel]) -> list[str]:
    """Return what plain loops would take, for functions that sum products in such."""
    times: dict[str, float] = {}
    for kernel in kernels:
        if not kernel.ours:
            times[kernel.function] = times.get(kernel.function, 0.0) + PRODUCT * kernel.products
    return [
        f"'{name}' has no operator of ours and takes {us:.0f} us by the model (not measured)"
        for name, us in sorted(times.items(), key=lambda item: -item[1])
        if us > LITTLE
    ]
