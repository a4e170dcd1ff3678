"""An engine for tiles that every machine has: loops over single bytes, in LLVM's language."""

from __future__ import annotations

import functools

from tvm_sparse.machine.tiles import TileUnit

SUMS = """
  %sum.row = mul i32 %r, %of_sums
  %sum.block = mul i32 {block}, 64
  %sum.lane = mul i32 %l, 4
  %sum.0 = add i32 %sum.row, %sum.block
  %sum.1 = add i32 %sum.0, %sum.lane
  %sum.at = getelementptr i8, ptr %sums, i32 %sum.1
  %x.row = mul i32 %r, %of_x
  %group = mul i32 %g, 4
"""

PRODUCT = """
  %x.byte = load i8, ptr %x.at
  %w.byte = load i8, ptr %w.at
  %x.wide = {extend} i8 %x.byte to i32
  %w.wide = sext i8 %w.byte to i32
  %product = mul i32 %x.wide, %w.wide
  %added = select i1 {adds}, i32 %product, i32 0
  %old = load i32, ptr %sum.at
  %kept = select i1 %first, i32 0, i32 %old
  %new = add i32 %kept, %added
  store i32 %new, ptr %sum.at
"""

DENSE = """
  %x.outer = mul i32 %o, %of_outer
  %x.inner = mul i32 %i, %of_inner
  %x.step = mul i32 %s, {step}
  %x.0 = add i32 %x.row, %x.outer
  %x.1 = add i32 %x.0, %x.inner
  %x.2 = add i32 %x.1, %x.step
  %x.3 = add i32 %x.2, %group
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
"""

KEPT = """
  %sum.slot = mul i32 %k, {blocks}
  %sum.vector = add i32 %sum.slot, %b
  %before = sub i32 %e, 1
  %exists = icmp ne i32 %e, 0
  %counted = add i32 %begin, %before
  %number = select i1 %exists, i32 %counted, i32 0
  %place = getelementptr [2 x i32], ptr %places, i32 %number
  %inside.at = getelementptr i32, ptr %place, i32 1
  %line = load i32, ptr %place
  %inside = load i32, ptr %inside.at
  %x.line = mul i32 %line, %of_outer
  %x.0 = add i32 %x.row, %x.line
  %x.1 = add i32 %x.0, %inside
  %x.2 = add i32 %x.1, %group
  %x.3 = add i32 %x.2, %j
  %x.at = getelementptr i8, ptr %x, i32 %x.3
  %w.0 = mul i32 %number, {groups}
  %w.1 = add i32 %w.0, %g
  %w.2 = mul i32 %w.1, {blocks}
  %w.3 = add i32 %w.2, %b
  %w.4 = mul i32 %w.3, 64
  %w.5 = add i32 %w.4, %sum.lane
  %w.6 = add i32 %w.5, %j
  %w.at = getelementptr i8, ptr %w, i32 %w.6
"""

ENTRIES = """
  %begin.at = getelementptr i32, ptr %starts, i32 %k
  %end.at = getelementptr i32, ptr %begin.at, i32 1
  %begin = load i32, ptr %begin.at
  %end = load i32, ptr %end.at
  %own = sub i32 %end, %begin
  %count = add i32 %own, 1
"""
"""A turn that clears the sum, then one for each step."""


def unit(extend: str) -> TileUnit:
    """Return the engine for bytes that are ``extend``ed: ``"zext"`` or ``"sext"``."""
    code, kept = functools.partial(_code, extend), functools.partial(_kept, extend)
    return TileUnit(code, kept, rows=8, sums=1024, step=16)


def _code(extend: str, step: int) -> tuple[str, str]:
    name, groups = f"toy_tiles_{extend}_{step}", step // 4
    bounds = {"b": "%blocks", "r": "%rows", "l": "16"}
    bounds |= {"o": "%outer", "i": "%inner", "s": "%steps", "g": str(groups), "j": "4"}
    arguments = "ptr %w, i32 %of_w, i32 %rows, i32 %blocks, i32 %outer, i32 %of_outer, i32 %inner"
    body = SUMS.format(block="%b") + DENSE.format(step=step, groups=groups)
    body += PRODUCT.format(extend=extend, adds="true")
    return name, _loops(name, arguments + ", i32 %of_inner, i32 %steps", bounds, "oisgj", body)


def _kept(extend: str, step: int, blocks: int) -> tuple[str, str]:
    name, groups = f"toy_kept_{extend}_{step}_{blocks}", step // 4
    bounds = {"k": "%slots", "b": str(blocks), "r": "%rows", "l": "16"}
    bounds |= {"e": "%count", "g": str(groups), "j": "4"}
    arguments = "ptr %w, ptr %places, ptr %starts, i32 %rows, i32 %slots, i32 %of_outer"
    kept = KEPT.format(groups=groups, blocks=blocks).split("  %before", maxsplit=1)
    body = kept[0] + SUMS.format(block="%sum.vector") + "  %before" + kept[1]
    body += PRODUCT.format(extend=extend, adds="%exists")
    return name, _loops(name, arguments, bounds, "egj", body, {"e": ENTRIES})


def _loops(
    name: str,
    arguments: str,
    bounds: dict[str, str],
    added: str,
    body: str,
    heads: dict[str, str] | None = None,
) -> str:
    """Return a function of nested loops, outermost first; ``added`` are those that sums add up."""
    names, heads = [*bounds], heads or {}
    lines = [
        f"define void @{name}(ptr %sums, i32 %of_sums, ptr %x, i32 %of_x, {arguments}) {{",
        "entry:",
        *(f"  %{n}.p = alloca i32" for n in names),
        f"  store i32 0, ptr %{names[0]}.p",
        f"  br label %{names[0]}.head",
    ]
    for n, inner in zip(names, [*names[1:], "body"], strict=True):
        begin = f"begin.{inner}" if inner != "body" else "body"
        lines += [
            f"{n}.head:",
            heads.get(n, ""),
            f"  %{n} = load i32, ptr %{n}.p",
            f"  %{n}.more = icmp ult i32 %{n}, {bounds[n]}",
            f"  br i1 %{n}.more, label %{begin}, label %{n}.end",
        ]
        if inner != "body":
            lines += [f"begin.{inner}:", f"  store i32 0, ptr %{inner}.p"]
            lines += [f"  br label %{inner}.head"]
    lines += ["body:", f"  %any.0 = or i32 0, %{added[0]}"]
    for number, n in enumerate(added[1:]):
        lines += [f"  %any.{number + 1} = or i32 %any.{number}, %{n}"]
    lines += [f"  %first = icmp eq i32 %any.{len(added) - 1}, 0", body]
    for n, outer in zip(reversed(names), [*reversed(names[:-1]), ""], strict=True):
        lines += [
            f"  %{n}.next = add i32 %{n}, 1",
            f"  store i32 %{n}.next, ptr %{n}.p",
            f"  br label %{n}.head",
            f"{n}.end:",
        ]
        if not outer:
            lines += ["  ret void", "}"]
    return "\n".join(lines) + "\n"


TILES = (("uint8", unit("zext")), ("int8", unit("sext")))
"""What ``Machine.tiles`` says of it."""
