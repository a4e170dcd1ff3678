"""Functions that multiply tiles with AMX: eight registers of 16 rows of 64 bytes, their products.

Linux grants the registers to a process that asks (``Documentation/arch/x86/xstate.rst``). Whoever
multiplies first asks. Where the system refuses, this machine's target lacks AMX
(``base/targets.py``), and an artifact with it is refused when it is loaded.
"""

from __future__ import annotations

import itertools

from tvm_sparse_runtime.host import ARCH_PRCTL, REQUEST_STATE, TILE_DATA

REGISTER_ROWS, ROW_BYTES = 16, 64

_SUMS, _ROWS, _WEIGHTS = (0, 1, 2, 3), (4, 5), (6, 7)
"""Registers of sums (two rows of two blocks), of activations, of weights."""

_DECLARED = """
declare void @llvm.x86.{instruction}(i8, i8, i8)
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tilestored64(i8, ptr, i64)
declare void @llvm.x86.tilezero(i8)
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare i64 @syscall(i64, ...)
@ts_tiles_allowed = internal global i8 0
"""

_ALLOWED = """
entry:
  %sums_pitch = zext i32 %of_sums to i64
  %x_pitch = zext i32 %of_x to i64
  %outer_pitch = zext i32 %of_outer to i64
  %shape = alloca <64 x i8>, align 64
  %allowed = load atomic i8, ptr @ts_tiles_allowed unordered, align 1
  %asks = icmp eq i8 %allowed, 0
  br i1 %asks, label %ask, label %ready
ask:
  %answer = call i64 (i64, ...) @syscall(i64 {call}, i64 {request}, i64 {state})
  store atomic i8 1, ptr @ts_tiles_allowed unordered, align 1
  br label %ready
ready:
  store <64 x i8> {shape}, ptr %shape, align 64
  %low = icmp ugt i32 %rows, 16
  %below = sub i32 %rows, 16
  %upper = select i1 %low, i32 16, i32 %rows
  %lower = select i1 %low, i32 %below, i32 1
  %rows0 = trunc i32 %upper to i8
  %rows1 = trunc i32 %lower to i8
{sizes}
  call void @llvm.x86.ldtilecfg(ptr %shape)
  %x_low = mul i64 %x_pitch, 16
  %sums_low = mul i64 %sums_pitch, 16
"""

_BEGIN = """
define void @{name}(
    ptr %sums, i32 %of_sums, ptr %x, i32 %of_x, ptr %w, i32 %of_w, i32 %rows, i32 %blocks,
    i32 %outer, i32 %of_outer, i32 %inner, i32 %of_inner, i32 %steps) {{
{allowed}
  %w_pitch = zext i32 %of_w to i64
  %inner_pitch = zext i32 %of_inner to i64
  %w_pair = mul i64 %w_pitch, 2
  br label %pair
pair:
  %left = phi i32 [%blocks, %ready], [%rest, %next]
  %w_own = phi ptr [%w, %ready], [%w_next, %next]
  %y_own = phi ptr [%sums, %ready], [%y_next, %next]
  %wide = icmp ugt i32 %left, 1
  br i1 %low, label %two, label %one
one:
  br i1 %wide, label %begin.12, label %begin.11
two:
  br i1 %wide, label %begin.22, label %begin.21
"""

_LOOPS = """
begin.{v}:
{zeros}
  br label %outer.{v}
outer.{v}:
  %o.{v} = phi i32 [0, %begin.{v}], [%o.next.{v}, %outer.end.{v}]
  %xo.{v} = phi ptr [%x, %begin.{v}], [%xo.next.{v}, %outer.end.{v}]
  %wo.{v} = phi ptr [%w_own, %begin.{v}], [%w.next.{v}, %outer.end.{v}]
  br label %inner.{v}
inner.{v}:
  %i.{v} = phi i32 [0, %outer.{v}], [%i.next.{v}, %inner.end.{v}]
  %xi.{v} = phi ptr [%xo.{v}, %outer.{v}], [%xi.next.{v}, %inner.end.{v}]
  %wi.{v} = phi ptr [%wo.{v}, %outer.{v}], [%w.next.{v}, %inner.end.{v}]
  br label %step.{v}
step.{v}:
  %s.{v} = phi i32 [0, %inner.{v}], [%s.next.{v}, %step.{v}]
  %x0.{v} = phi ptr [%xi.{v}, %inner.{v}], [%x.next.{v}, %step.{v}]
  %w0.{v} = phi ptr [%wi.{v}, %inner.{v}], [%w.next.{v}, %step.{v}]
{step}
  %x.next.{v} = getelementptr i8, ptr %x0.{v}, i64 {bytes}
  %w.next.{v} = getelementptr i8, ptr %w0.{v}, i64 {weights}
  %s.next.{v} = add i32 %s.{v}, 1
  %s.more.{v} = icmp ult i32 %s.next.{v}, %steps
  br i1 %s.more.{v}, label %step.{v}, label %inner.end.{v}
inner.end.{v}:
  %i.next.{v} = add i32 %i.{v}, 1
  %xi.next.{v} = getelementptr i8, ptr %xi.{v}, i64 %inner_pitch
  %i.more.{v} = icmp ult i32 %i.next.{v}, %inner
  br i1 %i.more.{v}, label %inner.{v}, label %outer.end.{v}
outer.end.{v}:
  %o.next.{v} = add i32 %o.{v}, 1
  %xo.next.{v} = getelementptr i8, ptr %xo.{v}, i64 %outer_pitch
  %o.more.{v} = icmp ult i32 %o.next.{v}, %outer
  br i1 %o.more.{v}, label %outer.{v}, label %end.{v}
end.{v}:
{stores}
  br label %next
"""

_KEPT_BEGIN = """
define void @{name}(
    ptr %sums, i32 %of_sums, ptr %x, i32 %of_x, ptr %w, ptr %places, ptr %starts, i32 %rows,
    i32 %slots, i32 %of_outer) {{
{allowed}
  br label %slot
slot:
  %k = phi i32 [0, %ready], [%k.next, %next]
  %y_own = phi ptr [%sums, %ready], [%y_next, %next]
  %first.at = getelementptr i32, ptr %starts, i32 %k
  %last.at = getelementptr i32, ptr %first.at, i32 1
  %first = load i32, ptr %first.at, align 4
  %last = load i32, ptr %last.at, align 4
  %none = icmp eq i32 %first, %last
  br i1 %low, label %begin.2{blocks}, label %begin.1{blocks}
"""

_KEPT_LOOP = """
begin.{v}:
{zeros}
  br i1 %none, label %end.{v}, label %step.{v}
step.{v}:
  %e.{v} = phi i32 [%first, %begin.{v}], [%e.next.{v}, %step.{v}]
  %entry.{v} = zext i32 %e.{v} to i64
  %place.{v} = getelementptr [2 x i32], ptr %places, i64 %entry.{v}
  %inside.at.{v} = getelementptr i32, ptr %place.{v}, i64 1
  %line.{v} = load i32, ptr %place.{v}, align 4
  %inside.{v} = load i32, ptr %inside.at.{v}, align 4
  %far.{v} = mul i32 %line.{v}, %of_outer
  %offset.{v} = add i32 %far.{v}, %inside.{v}
  %behind.{v} = zext i32 %offset.{v} to i64
  %x0.{v} = getelementptr i8, ptr %x, i64 %behind.{v}
  %w0.{v} = getelementptr [{weights} x i8], ptr %w, i64 %entry.{v}
{step}
  %e.next.{v} = add i32 %e.{v}, 1
  %e.more.{v} = icmp ult i32 %e.next.{v}, %last
  br i1 %e.more.{v}, label %step.{v}, label %end.{v}
end.{v}:
{stores}
  br label %next
"""

_KEPT_END = """
next:
  %k.next = add i32 %k, 1
  %y_next = getelementptr i8, ptr %y_own, i64 {wide}
  %more = icmp ult i32 %k.next, %slots
  br i1 %more, label %slot, label %done
done:
  call void @llvm.x86.tilerelease()
  ret void
}}
"""

_END = """
next:
  %rest = sub i32 %left, 2
  %w_next = getelementptr i8, ptr %w_own, i64 %w_pair
  %y_next = getelementptr i8, ptr %y_own, i64 128
  %more = icmp sgt i32 %rest, 0
  br i1 %more, label %pair, label %done
done:
  call void @llvm.x86.tilerelease()
  ret void
}
"""


def dense_code(instruction: str, step: int) -> tuple[str, str]:
    """Return the function ``code`` of a :class:`TileUnit` by ``instruction``.

    For each number of registers of rows and of blocks there are loops of their own: four products
    of four loads where both are two.
    """
    name = f"ts_tiles_{instruction}_{step}"
    loops = [_loops(instruction, step, rows, blocks) for rows in (1, 2) for blocks in (1, 2)]
    begin = _BEGIN.format(name=name, allowed=_allowed(step))
    return name, "".join((_DECLARED.format(instruction=instruction), begin, *loops, _END))


def kept_code(instruction: str, step: int, blocks: int) -> tuple[str, str]:
    """Return the function ``kept`` of a :class:`TileUnit` by ``instruction``."""
    name = f"ts_kept_tiles_{instruction}_{step}_{blocks}"
    begin = _KEPT_BEGIN.format(name=name, allowed=_allowed(step), blocks=blocks)
    loops = [_kept_loop(instruction, step, rows, blocks) for rows in (1, 2)]
    end = _KEPT_END.format(wide=blocks * ROW_BYTES)
    return name, "".join((_DECLARED.format(instruction=instruction), begin, *loops, end))


def _allowed(step: int) -> str:
    """Return the instructions that ask for the registers and shape them."""
    return _ALLOWED.format(
        call=ARCH_PRCTL,
        request=REQUEST_STATE,
        state=TILE_DATA,
        shape=_shape(step),
        sizes="\n".join(
            f"  %size{r} = getelementptr i8, ptr %shape, i64 {48 + r}\n"
            f"  store i8 %rows{_row(r)}, ptr %size{r}, align 1"
            for r in (*_SUMS, *_ROWS)
        ),
    )


def _row(register: int) -> int:
    """Return whether a register holds the upper or the lower rows: 0 or 1."""
    return register // 2 if register in _SUMS else _ROWS.index(register)


def _shape(step: int) -> str:
    """Return the operand of ``ldtilecfg``: bytes of a row of each register, and its rows."""
    shape = [1, *[0] * (ROW_BYTES - 1)]
    for register in range(8):
        shape[16 + 2 * register] = step if register in _ROWS else ROW_BYTES
        shape[48 + register] = step // 4 if register in _WEIGHTS else REGISTER_ROWS
    return f"<{', '.join(f'i8 {value}' for value in shape)}>"


def _loops(instruction: str, step: int, rows: int, blocks: int) -> str:
    """Return the loops over windows and steps, for as many registers of rows and of blocks."""
    v, weights = f"{rows}{blocks}", step // 4 * ROW_BYTES
    return _LOOPS.format(
        v=v,
        zeros=_zeros(rows, blocks),
        step=_step(v, instruction, rows, blocks, next_block="%w_pitch", groups=ROW_BYTES),
        bytes=step,
        weights=weights,
        stores=_stores(v, rows, blocks),
    )


def _kept_loop(instruction: str, step: int, rows: int, blocks: int) -> str:
    """Return the loop over the steps of a slot, for as many registers of rows and of blocks."""
    v, groups = f"{rows}{blocks}", blocks * ROW_BYTES
    return _KEPT_LOOP.format(
        v=v,
        zeros=_zeros(rows, blocks),
        step=_step(v, instruction, rows, blocks, next_block=str(ROW_BYTES), groups=groups),
        weights=step // 4 * groups,
        stores=_stores(v, rows, blocks),
    )


def _zeros(rows: int, blocks: int) -> str:
    """Return the instructions that clear the sums."""
    return "\n".join(
        f"  call void @llvm.x86.tilezero(i8 {2 * r + b})"
        for r, b in itertools.product(range(rows), range(blocks))
    )


def _step(v: str, instruction: str, rows: int, blocks: int, *, next_block: str, groups: int) -> str:
    """Return the loads and products of a step that begins at ``%x0`` and ``%w0``.

    Weights of the next block are ``next_block`` behind, those of the next group ``groups``.
    """
    lines = []
    for base, offset, first, count, pitch in (
        ("x", "%x_low", _ROWS[0], rows, "%x_pitch"),
        ("w", next_block, _WEIGHTS[0], blocks, str(groups)),
    ):
        if count == 2:
            lines += [f"%{base}1.{v} = getelementptr i8, ptr %{base}0.{v}, i64 {offset}"]
        lines += [
            f"call void @llvm.x86.tileloadd64(i8 {first + n}, ptr %{base}{n}.{v}, i64 {pitch})"
            for n in range(count)
        ]
    lines += [
        f"call void @llvm.x86.{instruction}(i8 {2 * r + b}, i8 {_ROWS[r]}, i8 {_WEIGHTS[b]})"
        for r, b in itertools.product(range(rows), range(blocks))
    ]
    return "\n".join(f"  {line}" for line in lines)


def _stores(v: str, rows: int, blocks: int) -> str:
    """Return the instructions that store the sums."""
    lines = []
    for r, b in itertools.product(range(rows), range(blocks)):
        at = f"%y{r}{b}.{v}"
        base = f"%y{r}.{v}" if r else "%y_own"
        if r and not b:
            lines += [f"{base} = getelementptr i8, ptr %y_own, i64 %sums_low"]
        lines += [
            f"{at} = getelementptr i8, ptr {base}, i64 {ROW_BYTES * b}",
            f"call void @llvm.x86.tilestored64(i8 {2 * r + b}, ptr {at}, i64 %sums_pitch)",
        ]
    return "\n".join(f"  {line}" for line in lines)
