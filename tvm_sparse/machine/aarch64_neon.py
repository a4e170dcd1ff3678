"""aarch64 with NEON: 32 registers of 128 bits, lookups from memory."""

from __future__ import annotations

from tvm_sparse.machine.costs import FROM_MEMORY, Costs
from tvm_sparse.machine.lookup import plain_lookup
from tvm_sparse.machine.record import Machine

NEON = Machine(
    name="NEON",
    features=("neon",),
    register_bits=128,
    sums=24,
    widths=(512,),  # LLVM cuts them in four
    costs=Costs("shipped for plain CPUs", lookup=((16, FROM_MEMORY),)),
    lookups=(("float32", 16, plain_lookup(16)),),
    rounds=True,
)
