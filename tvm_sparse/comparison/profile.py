"""Where the time of one call goes: each kernel with the layer that it belongs to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.made_inputs import calls
from tvm_sparse.base.names import layer_of
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.ops.tensors.sums_of_products import products
from tvm_sparse.passes.finish.assemble import seen
from tvm_sparse.passes.graph.rewrite import op_name
from tvm_sparse.schedules.kernel import Kernel, is_contraction
from tvm_sparse_runtime import engine, extents, tensors


def planned_kernels(mod: tvm.IRModule, rules: dict[str, str | None]) -> list[Kernel]:
    """List the kernels that ``main`` calls, in order, before it is lowered.

    ``rules`` names the schedule rule of each function. Where ``main`` calls the parts of a batch,
    the kernels of one part are listed, between what takes and what joins parts.
    """
    kernels = []
    for call in _planned_calls(mod):
        name = call.args[0].name_hint
        operands = call.args[1].fields if isinstance(call.args[1], relax.Tuple) else []
        layers = (_layer(getattr(operand, "name", "")) for operand in operands)
        layer, rule = next(filter(None, layers), ""), rules.get(name)
        contraction = is_contraction(mod[name], rule)
        kernel = Kernel(name, layer, rule, contraction=contraction)
        found = 0 if kernel.ours else products(mod[name])
        kernels.append(replace(kernel, products=found))
    return kernels


def _planned_calls(mod: tvm.IRModule) -> list[relax.Call]:
    """Return the calls of kernels that :func:`planned_kernels` lists."""
    calls = list(_calls(mod["main"].body))
    parts = _calling_functions(calls)
    if not parts:
        return calls
    inside = list(_calls(mod[calls[parts[0]].op].body))
    if not _calling_functions(inside):
        return [*calls[: parts[0]], *inside, *calls[parts[-1] + 1 :]]
    # The function of an open batch first asks whether it has one item left.
    (part,) = _calling_functions(inside)
    return [*inside[1:part], *_calls(mod[inside[part].op].body), *inside[part + 1 :]]


def _calling_functions(calls: Sequence[relax.Call]) -> list[int]:
    return [i for i, call in enumerate(calls) if isinstance(call.op, tvm.ir.GlobalVar)]


def _calls(body: relax.SeqExpr) -> Iterator[relax.Call]:
    """Yield the calls of kernels and of other functions of the module in order.

    Of two branches, those of the first.
    """
    for block in body.blocks:
        for binding in block.bindings:
            call = getattr(binding, "value", None)
            if isinstance(call, relax.If):
                yield from _calls(call.true_branch)
            if isinstance(call, relax.Call) and (
                op_name(call).startswith("call_tir") or isinstance(call.op, tvm.ir.GlobalVar)
            ):
                yield call


def _layer(parameter: str) -> str:
    """Return the layer of a packed weight's parameter name, ``""`` for other names."""
    head, _, part = parameter.rpartition(".")
    if part in ("bias", "") or not head:
        return ""
    return layer_of(head)


def profile(library: Any, inputs: Sequence[Any], repeat: int = 10) -> list[Kernel]:
    """Run ``library`` and return its kernels in call order with their times.

    Parameters
    ----------
    library
        A :class:`~tvm_sparse.program.library.Library` for this machine.
    inputs
        Tensors as for calling the library.
    repeat
        Runs; each kernel reports the median.

    Raises
    ------
    UnsupportedError
        The library runs on a GPU.
    TensorError
        A tensor is missing or does not fit its specification.
    """
    _refuse_graphs(library)
    return _profiled(library, _arguments(library, _checked(library, inputs)), repeat)


def profile_blindly(library: Any, repeat: int = 10) -> list[Kernel]:
    """Return what :func:`profile` returns for inputs made here.

    There are no times where these are not what the model asserts of its inputs.
    """
    for inputs in calls(library.inputs, library.bounds):
        with suppress(AssertionError):
            return profile(library, inputs, repeat)
    return list(library.kernels)


def timed(library: Any, inputs: Sequence[Any], repeat: int = 10) -> tuple[list[Kernel], float]:
    """Return what :func:`profile` returns, and the median microseconds of whole runs.

    Whole runs without instruments are in turns with those that time kernels, so that both meet
    the same machine.
    """
    _refuse_graphs(library)
    main = engine.together(relax.VirtualMachine(library.executable, tvm.cpu())["main"])
    given = [tvm.runtime.tensor(np.asarray(x)) for x in inputs]
    arguments, whole = _arguments(library, given), []

    def run() -> None:
        begin = time.perf_counter()
        main(*arguments)
        whole.append((time.perf_counter() - begin) * 1e6)

    kernels = _profiled(library, arguments, repeat, run)
    return kernels, float(np.median(whole[1:]))


def _refuse_graphs(library: Any) -> None:
    if library.target.get_target_device_type() != engine.DEVICE_TYPES["cpu"]:
        raise UnsupportedError(
            "profile",
            "kernels of a GPU run in a CUDA graph, inside of which nothing is timed here",
            "a library for this CPU",
            "tvm-sparse bench --target cuda times whole calls, and NVIDIA's nsys each kernel",
        )


def _checked(library: Any, inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs as tensors, checked as in a call."""
    tensors.count(inputs, library.inputs)
    dims: dict[str, int] = {}
    pairs = zip(inputs, library.inputs, strict=True)
    given = [tensors.accept(np.asarray(x), spec, dims) for x, spec in pairs]
    extents.check(library.inputs, [x.shape for x in given], dims, library.bounds)
    return given


def _arguments(library: Any, given: Sequence[Any]) -> list[Any]:
    """Return what ``main`` takes: the tensors of the inputs, then the weights."""
    return [*given, *(tvm.runtime.tensor(w) for w in library.weights.values())]


def _profiled(
    library: Any,
    arguments: list[Any],
    repeat: int,
    between: Callable[[], None] = lambda: None,
) -> list[Kernel]:
    """Time the kernels of ``repeat`` runs after one that warms up; call ``between`` after each.

    From each time goes what the timing itself takes: the shortest call of a run, a builtin's that
    does next to nothing.
    """
    vm = relax.VirtualMachine(library.executable, tvm.cpu())
    main = engine.together(vm[seen(vm)])
    runs: list[list[tuple[str, float]]] = []
    functions = {k.function for k in library.kernels}
    shortest: list[float] = []
    started = 0.0

    def instrument(_func: Any, name: str, before: bool, _ret: Any, *_args: Any) -> None:
        nonlocal started
        now = time.perf_counter()
        if before:
            started = now
        elif name in functions:
            runs[-1].append((name, (now - started) * 1e6))
        else:  # a builtin, or the function of a part
            shortest[-1] = min(shortest[-1], (now - started) * 1e6)

    vm.set_instrument(instrument)
    for _ in range(repeat + 1):
        runs.append([])
        shortest.append(math.inf)
        main(*arguments)
        between()
    own = float(np.median(shortest[1:]))
    own = own if math.isfinite(own) else 0.0
    runs = [[(name, max(0.0, us - own)) for name, us in run] for run in runs]
    medians = np.median([_summed(run, library.kernels) for run in runs[1:]], axis=0)
    return [replace(k, us=float(us)) for k, us in zip(library.kernels, medians, strict=True)]


def _summed(run: list[tuple[str, float]], kernels: Sequence[Kernel]) -> list[float]:
    """Return the microseconds of each kernel, those of all parts of a batch together."""
    sums, place = [0.0] * len(kernels), 0
    for name, us in run:
        if place == len(kernels) or name != kernels[place].function:
            place = 0  # the next part begins
        sums[place] += us
        place += 1
    return sums
