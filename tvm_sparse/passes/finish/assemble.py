"""From a lowered module to an executable: what calls the kernels is machine code as they are."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import vm_build
from tvm.target import Target

MAIN = "main"

STEPPED = "stepped"
"""Name of ``main`` in the virtual machine's own code: its instruments see each step."""


def assemble(mod: tvm.IRModule, target: Target, passes: list[Any], *, native: bool = True) -> Any:
    """Return the executable of ``mod`` behind ``passes``.

    A ``native`` ``main`` is machine code: the virtual machine would take 0.2 us more a kernel, and
    many take 1 to 3. A second function has the same steps in the machine's own code, for profiles.
    A ``main`` that branches, or calls other functions of Relax, has that code alone.
    """
    with target:
        mod = tvm.transform.Sequential(passes)(mod)
    if not native or not _straight(mod):
        return relax.build(mod, target=target, relax_pipeline=None)
    # What ``relax.build`` does for one sort of code.
    main, stepped = mod[MAIN], tvm.ir.GlobalVar(STEPPED)
    kernels = {name: f for name, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    again = {stepped: main.with_attr("global_symbol", STEPPED), **kernels}
    builder = relax.ExecBuilder()
    vm_build._vmcodegen(builder, tvm.IRModule(again, attrs=mod.attrs), "bytecode")
    code = vm_build._vmcodegen(builder, mod, "compiled")
    constants = dict((mod.attrs or {}).get("const_name_to_constant", {}))
    return vm_build._vmlink(builder, target, vm_build._filter_tir(code), params=constants)


def seen(vm: relax.VirtualMachine) -> str:
    """Return the name of the function of ``vm`` whose steps its instruments see."""
    return STEPPED if vm.module.implements_function(STEPPED) else MAIN


def _straight(mod: tvm.IRModule) -> bool:
    """Whether ``main`` is the only function of Relax, and has no branches."""
    functions = [f for _, f in mod.functions_items() if isinstance(f, relax.Function)]
    branches: list[Any] = []

    def see(expr: Any) -> None:
        if isinstance(expr, relax.If | relax.Function):
            branches.append(expr)

    relax.analysis.post_order_visit(mod[MAIN].body, see)
    return len(functions) == 1 and not branches
