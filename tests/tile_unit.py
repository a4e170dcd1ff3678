"""An engine for tiles that every machine has: loops over single bytes, in LLVM's language."""

from __future__ import annotations

import functools

from tvm_sparse.machine.tiles import TileUnit

BOUNDS = {
    "b": "%blocks",
    "r": "%rows",
    "l": "16",
    "o": "%outer",
    "i": "%inner",
    "s": "%steps",
    "g": "{groups}",
    "j": "4",
}
"""Loops, outermost first, and how many turns each has."""

INSIDE = """
  %sum.row = mul i32 %r, %of_sums
  %sum.block = mul i32 %b, 64
  %sum.lane = mul i32 %l, 4
  %sum.0 = add i32 %sum.row, %sum.block
  %sum.1 = add i32 %sum.0, %sum.lane
  %sum.at = getelementptr i8, ptr %sums, i32 %sum.1
  %x.row = mul i32 %r, %of_x
  %x.outer = mul i32 %o, %of_outer
  %x.inner = mul i32 %i, %of_inner
  %x.step = mul i32 %s, {step}
  %x.group = mul i32 %g, 4
  %x.0 = add i32 %x.row, %x.outer
  %x.1 = add i32 %x.0, %x.inner
  %x.2 = add i32 %x.1, %x.step
  %x.3 = add i32 %x.2, %x.group
  %x.4 = add i32 %x.3, %j
  %x.at = getelementptr i8, ptr %x, i32 %x.4
  %w.0 = mul i32 %o, %inner
  %w.1 = add i32 %w.0, %i
  %w.2 = mul i32 %w.1, %steps
  %w.3 = add i32 %w.2, %s
  %w.4 = mul i32 %w.3, {groups}
  %w.5 = add i32 %w.4, %g
  %w.6 = mul i32 %w.5, 64
  %w.block = mul i32 %b, %of_w
  %w.7 = add i32 %w.6, %w.block
  %w.8 = add i32 %w.7, %sum.lane
  %w.9 = add i32 %w.8, %j
  %w.at = getelementptr i8, ptr %w, i32 %w.9
  %x.byte = load i8, ptr %x.at
  %w.byte = load i8, ptr %w.at
  %x.wide = {extend} i8 %x.byte to i32
  %w.wide = sext i8 %w.byte to i32
  %product = mul i32 %x.wide, %w.wide
  %old = load i32, ptr %sum.at
  %kept = select i1 %first, i32 0, i32 %old
  %new = add i32 %kept, %product
  store i32 %new, ptr %sum.at
"""


def unit(extend: str) -> TileUnit:
    """Return the engine for bytes that are ``extend``ed: ``"zext"`` or ``"sext"``."""
    return TileUnit(functools.partial(_code, extend), rows=8, sums=1024, step=16)


def _code(extend: str, step: int) -> tuple[str, str]:
    name = f"toy_tiles_{extend}_{step}"
    groups = step // 4
    names = [*BOUNDS]
    lines = [
        f"define void @{name}(ptr %sums, i32 %of_sums, ptr %x, i32 %of_x, ptr %w, i32 %of_w, "
        "i32 %rows, i32 %blocks, i32 %outer, i32 %of_outer, i32 %inner, i32 %of_inner, "
        "i32 %steps) {",
        "entry:",
        *(f"  %{n}.p = alloca i32" for n in names),
        f"  store i32 0, ptr %{names[0]}.p",
        f"  br label %{names[0]}.head",
    ]
    for n, inner in zip(names, [*names[1:], "body"], strict=True):
        bound = BOUNDS[n].format(groups=groups)
        begin = f"begin.{inner}" if inner != "body" else "body"
        lines += [
            f"{n}.head:",
            f"  %{n} = load i32, ptr %{n}.p",
            f"  %{n}.more = icmp ult i32 %{n}, {bound}",
            f"  br i1 %{n}.more, label %{begin}, label %{n}.end",
        ]
        if inner != "body":
            lines += [f"begin.{inner}:", f"  store i32 0, ptr %{inner}.p"]
            lines += [f"  br label %{inner}.head"]
    lines += ["body:"]
    for number, n in enumerate(["i", "s", "g", "j"]):
        before = "o" if not number else f"any.{number - 1}"
        lines += [f"  %any.{number} = or i32 %{before}, %{n}"]
    lines += ["  %first = icmp eq i32 %any.3, 0"]
    lines += [INSIDE.format(step=step, groups=groups, extend=extend)]
    for n, outer in zip(reversed(names), [*reversed(names[:-1]), ""], strict=True):
        lines += [
            f"  %{n}.next = add i32 %{n}, 1",
            f"  store i32 %{n}.next, ptr %{n}.p",
            f"  br label %{n}.head",
            f"{n}.end:",
        ]
        if not outer:
            lines += ["  ret void", "}"]
    return name, "\n".join(lines) + "\n"


TILES = (("uint8", unit("zext")), ("int8", unit("sext")))
"""What ``Machine.tiles`` says of it."""
