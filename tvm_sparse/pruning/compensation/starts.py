"""Where runs over the calibration data begin: at the repeated block that is looked at.

The layers of a block are several stages. Its inputs are kept for all of them, and what the blocks
before it returned when they were pruned. So each block runs for its own stages and once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from tvm_sparse.pruning.blocks import blocks_of
from tvm_sparse.pruning.compensation.calls import Batch, Call, call_of, watch
from tvm_sparse.pruning.compensation.passed import Calls, Networks, Passed, copied, nbytes
from tvm_sparse.pruning.compensation.stages import Stage

MOST_BYTES = 2**30
"""Inputs of a block, of both networks and all batches, that are kept at most.

Results of the blocks before it are kept as long as both fit.
"""


@dataclass(frozen=True)
class Run:
    """A run of the network pruned so far: ``module`` with ``call``; it belongs to ``batch``.

    ``dense_calls`` are the calls of the stage's caller in the dense network.
    """

    batch: Batch
    module: nn.Module
    call: Call
    dense_calls: list[Call]


@dataclass(frozen=True)
class _Start:
    """A module of each network, and its calls in all batches."""

    modules: Networks
    calls: Calls


class Starts:
    """Runs of ``model`` and ``dense`` side by side over all ``batches``."""

    def __init__(self, model: nn.Module, dense: nn.Module, batches: Sequence[Batch]) -> None:
        self.model, self.dense, self.batches = model, dense, batches
        given = [call_of(batch) for batch in batches]
        self._whole = _Start((model, dense), (given, given))
        self._blocks = blocks_of(model)
        self._block, self._start = "", self._whole
        self._passed = Passed()

    def runs(self, stage: Stage) -> Iterator[Run]:
        """Yield a run for each batch, which calls the caller of ``stage`` as often as it says."""
        start = self._of(stage)
        if start is not self._whole and len(self._dense_calls(stage, start, 0)) != stage.calls:
            start = self._whole  # it is called from outside of its block, too
            self._block, self._start = "", start
            self._passed.clear()
        for i, batch in enumerate(self.batches):
            calls = self._dense_calls(stage, start, i)
            yield Run(batch, start.modules[0], copied(start.calls[0][i]), calls)

    def _dense_calls(self, stage: Stage, start: _Start, batch: int) -> list[Call]:
        """Return the calls of the caller of ``stage``; copies, where more follow."""
        calls: list[Call] = []

        def see(_: nn.Module, call: Call) -> None:
            calls.append(call if len(calls) + 1 == stage.calls else copied(call))

        caller = self.dense.get_submodule(stage.caller)
        watch(start.modules[1], copied(start.calls[1][batch]), [caller], see, stage.calls)
        return calls

    def _of(self, stage: Stage) -> _Start:
        names = (b for b in self._blocks if f"{stage.caller}.".startswith(f"{b}."))
        name = next(names, "")
        if name != self._block:
            self._pass(name)
            self._block, self._start = name, self._whole  # what was kept is given back first
            self._start = self._caught(name) if name else self._whole
        return self._start

    def _pass(self, name: str) -> None:
        """Keep what the block returns that is left for ``name``, if its inputs are kept."""
        if self._start is not self._whole:
            calls = self._start.calls
            self._passed.add(self._block, self._start.modules, calls, MOST_BYTES - nbytes(calls))
        if name in self._passed:
            self._passed.clear()  # it is not done: more of its layers are to be pruned

    def _caught(self, name: str) -> _Start:
        """Return the calls of block ``name``; whole runs if it is not called once, or too large."""
        modules = self.model.get_submodule(name), self.dense.get_submodule(name)
        kept: tuple[list[Call], list[Call]] = ([], [])
        for i in range(len(self.batches)):
            for side, network in enumerate((self.model, self.dense)):
                seen: list[Call] = []
                with self._passed.over(network, side, i):
                    # The first run goes on, to see whether there is a second call.
                    watch(
                        network,
                        self._whole.calls[side][i],
                        [modules[side]],
                        lambda _, call, seen=seen: seen.append(copied(call)),  # type: ignore[misc]
                        1 if i else 2,
                    )
                if len(seen) != 1:
                    return self._whole
                kept[side].append(seen[0])
            if nbytes(kept) * len(self.batches) > MOST_BYTES * (i + 1):
                return self._whole
        return _Start(modules, kept)
