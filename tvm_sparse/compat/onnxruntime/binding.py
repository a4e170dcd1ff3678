"""Inputs and outputs that are bound to memory, for one run after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_sparse.compat.onnxruntime.values import OrtValue, array_of, at_address, check_host
from tvm_sparse.errors import InputError


class IOBinding:
    """Which arrays a session's runs read, and which they write to.

    Made by :meth:`InferenceSession.io_binding`.
    """

    def __init__(self, session: Any) -> None:
        self._inputs: dict[str, np.ndarray] = {}
        self._outputs: dict[str, np.ndarray | None] = {}
        self._results: dict[str, np.ndarray] = {}
        self._known = [value.name for value in session.get_outputs()]

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Read the input ``name`` from an array."""
        self._inputs[name] = np.asarray(arr_on_cpu)

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """Read the input ``name`` from a value."""
        self._inputs[name] = array_of(ortvalue)

    def bind_input(  # noqa: PLR0917 (onnxruntime's own signature)
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Read the input ``name`` from memory in C order, which stays there."""
        check_host(device_type)
        self._inputs[name] = at_address(buffer_ptr, shape, element_type)

    def bind_output(  # noqa: PLR0917 (onnxruntime's own signature)
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Return the output ``name``, in memory of the caller's if it is given."""
        check_host(device_type)
        self._check(name)
        given = None if buffer_ptr is None else at_address(buffer_ptr, shape or (), element_type)
        self._outputs[name] = given

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Write the output ``name`` to a value."""
        self._check(name)
        self._outputs[name] = array_of(ortvalue)

    def _check(self, name: str) -> None:
        if name not in self._known:
            raise InputError("output", f"'{name}' is unknown", ", ".join(self._known))

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, in the order in which they were bound."""
        return [OrtValue(self._results[name]) for name in self._outputs]

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """Return the outputs of the last run as arrays."""
        return [self._results[name] for name in self._outputs]

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget all outputs."""
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Do nothing: all memory is the host's."""

    def synchronize_outputs(self) -> None:
        """Do nothing: a run has ended when it returns."""

    def run(self, session: Any, options: Any) -> None:
        """Run ``session`` on what is bound.

        Raises
        ------
        InputError
            An output does not fit the memory it is bound to.
        """
        names = list(self._outputs)
        for name, found in zip(names, session.run(names, self._inputs, options), strict=True):
            given = self._outputs[name]
            if given is not None:
                if (given.shape, given.dtype) != (found.shape, found.dtype):
                    has = f"has shape {list(found.shape)} and type {found.dtype}"
                    wanted = f"{list(given.shape)} and {given.dtype}, which it is bound to"
                    raise InputError(f"output '{name}'", has, wanted)
                given[...] = found
            self._results[name] = found if given is None else given
