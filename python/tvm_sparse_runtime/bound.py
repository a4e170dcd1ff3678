"""A call on a GPU whose inputs and outputs stay where they are, as one CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import engine, extents, gpu, tensors
from .errors import SparseRuntimeError, TensorError, shown
from .session import Session
from .threads import enter


class Bound:
    """A call that is bound to the memory of its inputs; see :meth:`.Library.bind`.

    Attributes
    ----------
    inputs
        The tensors that each call reads. They are kept as long as this.
    outputs
        The tensors that each call writes, in the framework of the first input.
    """

    def __init__(self, session: Session, values: Sequence[Any]) -> None:
        self.inputs, self._structure = tuple(values), session.structure
        with gpu.turn(session.device, values):
            arguments = [*_arguments(session, values), *session._weights]
            enter(session.threads)
            try:
                with session._lock:
                    made = engine.function("tvm_sparse.bound")(session._main, arguments)
            except Exception as error:  # TVM's errors have no type of their own
                raise SparseRuntimeError(
                    "bind",
                    f"the call cannot be one CUDA graph ({shown(str(error), 200)})",
                    "a program that waits for nothing on the GPU, and outputs of its own",
                    "call it without binding",
                ) from error
        export = tensors.exporter(values[0] if values else None, session.device)
        self._replay = made[0]
        self.outputs = tuple([export(made[place]) for place in range(1, len(made))])

    def __call__(self) -> Any:
        """Run the program on what its inputs hold now; returns :attr:`outputs` as it nests them.

        It is put on the caller's stream, and waits for nothing.
        """
        with gpu.turn("cuda", self.inputs):
            self._replay()
        return self._structure.restore(self.outputs)


def _arguments(session: Session, values: Sequence[Any]) -> list[Any]:
    """Return the inputs as they lie; refuse what would have to be copied."""
    if session.device != "cuda":
        raise SparseRuntimeError("bind", "a program for CPUs", "one for a GPU")
    if len(values) != len(session.inputs):
        raise TensorError("inputs", f"{len(values)} tensors", str(len(session.inputs)))
    dims: dict[str, int] = {}
    found = []
    for value, spec in zip(values, session.inputs):
        argument = tensors.accept(value, spec, dims, session.device)
        lies_there = gpu.home(value) == session.device
        if not lies_there or argument.data_ptr() != engine.tensor(value).data_ptr():
            raise TensorError(
                f"input {spec.name}",
                "would be copied" if lies_there else "lies on the host",
                "memory of the GPU, contiguous, that begins on a multiple of 64 bytes",
            )
        found.append(argument)
    extents.check(session.inputs, [a.shape for a in found], dims, session.bounds)
    return found
