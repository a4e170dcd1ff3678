"""The source of one kernel as a single text, for a CUDA compiler or for a C++ compiler's CPU."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from benchmarks.gpu.hopper.design import LEFT_OUT, Design, Shape

KERNELS = Path(__file__).parent / "kernels"

NAME = "multiply_kernel"
"""Name of the kernel in its machine code."""

_INCLUDE = re.compile(r'^#(?:include ".*"|pragma once)\n', re.MULTILINE)


def cuda(design: Design, shape: Shape, left_out: str = LEFT_OUT[0]) -> str:
    """Return the CUDA source of a kernel."""
    cluster = f"__cluster_dims__({shape.parts}, 1, 1) " if shape.parts > 1 else ""
    kernel = f"""
using S = {_shape(shape, left_out)};
extern "C" __global__ void {cluster}__launch_bounds__({shape.threads}, {shape.blocks})
{NAME}(const Arguments a, const __grid_constant__ TensorMap map) {{
  extern __shared__ u8 raw[];
  multiply<S, {design.cpp("S")}>(a, map, raw);
}}
"""
    files = ("frame.cuh", f"{design.name}.cuh")
    return "\n".join([_text("ptx.cuh"), products(shape.rows), *map(_text, files), kernel])


def cpu(kernels: Iterable[tuple[Design, Shape]]) -> str:
    """Return C++ with a function ``run<i>(arguments, map, clusters)`` for each kernel."""
    wanted = list(kernels)
    designs = dict.fromkeys(f"{design.name}.cuh" for design, _ in wanted)
    functions = [
        f"""
extern "C" void run{i}(const Arguments* a, const TensorMap* map, int clusters) {{
  using S = {_shape(shape, LEFT_OUT[0])};
  run<S>(clusters, [&](u8* raw) {{ multiply<S, {design.cpp("S")}>(*a, *map, raw); }});
}}"""
        for i, (design, shape) in enumerate(wanted)
    ]
    return "\n".join([*map(_text, ("on_cpu.h", "frame.cuh", *designs)), *functions])


def products(rows: int) -> str:
    """Return the products of 64 features and ``rows`` rows: PTX wants each register by its name.

    From shared memory, with weights in registers, and sparse ones; the sums are added to.
    """
    count = rows // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    held = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    a, b, c, d, e = (f"%{count + i}" for i in range(5))
    kinds = {
        "product({}, u64 w, u64 x)": (
            f"wgmma.mma_async.sync.aligned.m64n{rows}k16.f32.f16.f16",
            f"{a}, {b}, 1, 1, 1, 0, 0",
            '"l"(w), "l"(x)',
        ),
        "product({}, u32 a0, u32 a1, u32 a2, u32 a3, u64 x)": (
            f"wgmma.mma_async.sync.aligned.m64n{rows}k16.f32.f16.f16",
            f"{{{a}, {b}, {c}, {d}}}, {e}, 1, 1, 1, 0",
            '"r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(x)',
        ),
        "sparse_product({}, u64 w, u64 x, u32 places)": (
            f"wgmma.mma_async.sp.sync.aligned.m64n{rows}k32.f32.f16.f16",
            f"{a}, {b}, {c}, 0, 1, 1, 1, 0, 0",
            '"l"(w), "l"(x), "r"(places)',
        ),
    }
    return "\n".join(
        f"DEVICE void {head.format(f'float (&d)[{count}]')} {{\n"
        f'  asm volatile("{name} {{{sums}}}, {operands};" : {held} : {inputs});\n}}'
        for head, (name, operands, inputs) in kinds.items()
    )


def _shape(shape: Shape, left_out: str) -> str:
    return f"Shape<{shape.groups}, {shape.rows}, {shape.stages}, {shape.parts}, {left_out}>"


def _text(name: str) -> str:
    return _INCLUDE.sub("", (KERNELS / name).read_text(encoding="utf-8"))
