"""One block behind what a kernel computes: the rest of a fused function is inlined into it."""

from __future__ import annotations

from typing import Any

from tvm import s_tir

from tvm_sparse.schedules.blocks import BlockRV, all_blocks, domain, downstream, inline


def isolate(sch: s_tir.Schedule, anchor: BlockRV, keep: tuple[str, ...] = ()) -> Any:
    """Leave one block behind ``anchor`` that stores its result, and return that block.

    A consumer with another domain (a broadcast that enlarges it, a padding) is not pulled into
    the anchor's tile: the chain is cut before it. It is also cut where several blocks that are too
    much to repeat read one, and where a chain of other inputs joins it that is too much to inline.
    Blocks before the anchor are inlined into it, except ``keep``.
    """
    name, stores = sch.get(anchor).name_hint, _stores_before_joins(sch, anchor, keep)
    behind = downstream(sch, anchor)
    cut = [
        sch.get(q).name_hint
        for q in behind
        if any(domain(sch, q) != domain(sch, c) for c in sch.get_consumers(q))
    ]
    kept = (name, *keep, *cut, *stores)
    if any(len(sch.get_consumers(q)) > 1 for q in behind):
        kept = (*kept, *_stores_of_forks(sch, (name, *keep), kept))
    inline(sch, keep=kept)
    (epilogue,) = sch.get_consumers(anchor)
    return epilogue


def _stores_of_forks(
    sch: s_tir.Schedule, blocks: tuple[str, ...], kept: tuple[str, ...]
) -> list[str]:
    """Return what stores the results of ``blocks`` that several would read, all others inlined."""
    trial = sch.copy()
    inline(trial, keep=kept)
    names = {sch.get(block).name_hint for block in all_blocks(sch)}.intersection(blocks)
    forks = [name for name in names if len(trial.get_consumers(trial.get_sblock(name))) > 1]
    stores = [store for name in forks for store in sch.get_consumers(sch.get_sblock(name))]
    return [sch.get(store).name_hint for store in stores]


def _stores_before_joins(sch: s_tir.Schedule, anchor: BlockRV, keep: tuple[str, ...]) -> list[str]:
    """Return what stores a result of ``anchor`` before a block that joins it to another chain.

    That is a chain from other inputs, of which a block stays that cannot be inlined. Where the
    block reads the anchor itself, there is a copy in front of it then.
    """
    name = sch.get(anchor).name_hint
    if not _beside(sch, name, keep):
        return []
    trial = sch.copy()
    inline(trial, keep=(name, *keep))
    stores: list[str] = []
    for other in _beside(trial, name, keep):
        for join in _joins(sch, sch.get_sblock(other), anchor):
            for source in sch.get_producers(join):
                stored = sch.get(source).name_hint
                if stored == name:
                    stores.append(sch.get(_copied(sch, source)).name_hint)
                elif stored in _names(sch, downstream(sch, anchor)):
                    stores.append(stored)
    return stores


def _beside(sch: s_tir.Schedule, name: str, keep: tuple[str, ...]) -> list[str]:
    """Return the blocks that neither come from the block ``name`` nor lead to it."""
    behind = _names(sch, downstream(sch, sch.get_sblock(name)))
    return [
        other
        for block in all_blocks(sch)
        if (other := sch.get(block).name_hint) not in (name, *keep, *behind)
        and name not in _names(sch, downstream(sch, block))
    ]


def _joins(sch: s_tir.Schedule, block: BlockRV, anchor: BlockRV) -> list[Any]:
    """Return the first blocks behind ``block`` that are behind ``anchor``, too."""
    behind = _names(sch, downstream(sch, anchor))
    found, waiting = {}, [block]
    while waiting:
        for reader in sch.get_consumers(waiting.pop()):
            name = sch.get(reader).name_hint
            if name in behind:
                found[name] = reader
            else:
                waiting.append(reader)
    return list(found.values())


def _copied(sch: s_tir.Schedule, source: BlockRV) -> BlockRV:
    """Put a copy between ``source`` and what reads it; return the block that makes it."""
    (written,), readers = sch.get(source).writes, sch.get_consumers(source)
    reads = sch.get(readers[0]).reads
    at = next(i for i, read in enumerate(reads) if read.source.same_as(written.source))
    return sch.cache_read(readers[0], at, "global", readers)


def _names(sch: s_tir.Schedule, blocks: list[Any]) -> set[str]:
    return {sch.get(block).name_hint for block in blocks}
