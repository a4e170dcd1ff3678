"""Products that Triton 3.9 compiles for Hopper, ahead of time and without a GPU.

python products.py: writes the PTX files beside this one, without their notes for a debugger.
"""

import re
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

EDGE = 64
COLUMNS = 128
NOTES = re.compile(r"\s*(\.loc|\.file|\$L__tmp|\$L__func|\$L__debug)")


@triton.jit
def loads(a, b, c, depth, am: tl.constexpr, ak: tl.constexpr, bk: tl.constexpr, bn: tl.constexpr,
          n: tl.constexpr, step: tl.constexpr):  # fmt: skip
    """Threads copy tiles by ``cp.async``; strides of ``a`` and ``b`` in elements."""
    row = tl.program_id(0) * 64 + tl.arange(0, 64)
    column = tl.program_id(1) * n + tl.arange(0, n)
    at = tl.arange(0, step)
    left = a + row[:, None] * am + at[None, :] * ak
    right = b + at[:, None] * bk + column[None, :] * bn
    sums = tl.zeros((64, n), tl.float32)
    for _ in range(0, depth, step):
        sums = tl.dot(tl.load(left), tl.load(right), sums, allow_tf32=True)
        left += step * ak
        right += step * bk
    tl.store(c + row[:, None] * 128 + column[None, :], sums)


@triton.jit
def boxes(a, b, c, depth, n: tl.constexpr, step: tl.constexpr):
    """Bulk copies bring boxes, and take one away."""
    row, column = tl.program_id(0) * 64, tl.program_id(1) * n
    sums = tl.zeros((64, n), tl.float32)
    for at in range(0, depth, step):
        sums = tl.dot(a.load([row, at]), b.load([at, column]), sums)
    c.store([row, column], sums)


def write(name, kernel, signature, constants):
    """Compile for Hopper in 4 warps and 3 stages."""
    signature |= {"depth": "i32"} | dict.fromkeys(constants, "constexpr")
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(kernel, signature, constants, attributes)
    made = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 3}
    )
    kernel_alone = made.asm["ptx"].partition("\t.section")[0].partition("\t.file")[0]
    lines = (line.partition("//")[0].rstrip() for line in kernel_alone.split("\n"))
    text = "\n".join(line for line in lines if line and not NOTES.match(line))
    head = f"// Triton 3.9, products.py; {made.metadata.shared} bytes of shared memory\n"
    Path(__file__).with_name(f"{name}.ptx").write_text(head + text + "\n", encoding="utf-8")


def main():
    depth = 192
    rows, turned = (depth, 1), (1, COLUMNS)
    right, right_turned = (COLUMNS, 1), (1, depth)
    for name, dtype, a, b, n, step in (
        ("right_turned", "fp16", rows, right, 64, 64),
        ("both_turned", "fp16", turned, right, 16, 64),
        ("pattern_of_64", "bf16", rows, right_turned, 64, 32),
        ("pattern_of_32", "fp16", rows, right_turned, 32, 16),
        ("tf32", "fp32", rows, right_turned, 64, 32),
    ):
        signature = {"a": f"*{dtype}", "b": f"*{dtype}", "c": "*fp32"}
        strides = dict(zip(("am", "ak", "bk", "bn"), (*a, *b), strict=True))
        write(name, loads, signature, strides | {"n": n, "step": step})
    box = f"[{EDGE}, {EDGE}]>"
    signature = {
        "a": f"tensordesc<fp16{box}",
        "b": f"tensordesc<fp16{box}",
        "c": f"tensordesc<fp32{box}",
    }
    write("boxes", boxes, signature, {"n": EDGE, "step": EDGE})


if __name__ == "__main__":
    main()
