"""What ``ts.compile`` returns: a compiled model that runs here, says what it is, and exports."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.artifact.cpu import machine, required_cpu_features
from tvm_sparse.base.targets import is_launched, spelled
from tvm_sparse.comparison.profile import profile
from tvm_sparse.errors import ArtifactError
from tvm_sparse.frontends.modules.effective import to_numpy
from tvm_sparse.frontends.structure import plain, plain_spec, restored, spec_of
from tvm_sparse.program.compiled import Compiled
from tvm_sparse.schedules.kernel import Kernel
from tvm_sparse_runtime.host import cpu_features

_MAKERS = ("apache-tvm", "apache-tvm-ffi", "tvm-sparse")
"""Distributions whose releases read each other's compiled programs only."""


class Library:
    """A compiled model.

    Call it with the model's arguments, or with its tensors alone in order (torch, NumPy or anything
    with DLPack, zero copy where memory is aligned); it returns what the model returns.
    :meth:`export` writes a directory that ``tvm_sparse_runtime.load`` opens without compiler or
    torch. ``slow`` says which kernels have no operator of ours and take long: measured, or by a
    model where nothing is measured. ``ranges`` says which open extents have a narrower range than
    was asked for, or sizes that are refused, and what in the model's code asks for it.

    It can be copied, pickled and saved with ``torch.save``: another process with the same releases
    runs it, on a CPU that has what it was compiled for.
    """

    def __init__(self, compiled: Compiled) -> None:
        model = compiled.model
        self.executable, self.target = compiled.executable, compiled.target
        self.decisions, self.kernels = compiled.decisions, compiled.kernels
        self.inputs, self.outputs, self.weights = model.inputs, model.outputs, compiled.weights
        self.bounds, self.structure = model.bounds, model.structure
        self.ranges = model.ranges
        self._output_spec = model.output_spec
        self.unaligned, self.recipe = compiled.unaligned, compiled.recipe
        self.alternatives = tuple(Library(other) for other in compiled.alternatives)
        self.slow, self._pristine = compiled.slow, compiled.pristine
        self._session: Any = None

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the model on this machine; returns tensors of the first input's framework."""
        if self.structure is None:
            return (self._session or self._running())(*inputs, **named)
        tensors = self.run(*self._tensors(inputs, named))
        return restored(self.structure, self._output_spec, tensors)

    def run(self, *tensors: Any) -> tuple[Any, ...]:
        """Run the model on its tensors alone, in order; returns a tensor for each output."""
        found: tuple[Any, ...] = self._running().run(*tensors)
        return found

    def _running(self) -> Any:
        """Return a session of the program, started when it is first needed."""
        if self._session is None:
            self._session = self._exported() if is_launched(self.target) else self._started()
        return self._session

    def _tensors(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the tensors of a call in the order of the inputs."""
        if self.structure is None:
            return [*self._running().structure.bind(inputs, named)] if named else [*inputs]
        return self.structure.bind([plain(value) for value in inputs], plain(dict(named)))

    def arrays(self, *inputs: Any, **named: Any) -> list[np.ndarray]:
        """Return the tensors of a call, in the order of the inputs, as arrays."""
        tensors = self._tensors(inputs, named)
        return [to_numpy(x, "input") if hasattr(x, "detach") else np.asarray(x) for x in tensors]

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"<Library for {spelled(self.target)}: {inputs} -> {outputs}; {self.verdict()}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: a line and the decisions."""
        return f"<p>{escape(repr(self))}</p>{self.decisions._repr_html_()}"

    def _started(self) -> Any:
        """Return a session of the program in this process's memory."""
        from tvm_sparse_runtime.engine import start
        from tvm_sparse_runtime.session import Session

        if hasattr(self, "_made_with"):
            self._check_host()
        weights = list(self.weights.values())
        vm = start(self.executable.jit())
        return Session(
            vm,
            self.inputs,
            self.outputs,
            weights,
            bounds=self.bounds,
            structure=self.structure,
            unaligned=self.unaligned,
        )

    def _exported(self) -> Any:
        """Return a session of an artifact: the same code here and where it is deployed."""
        from tvm_sparse.artifact.own_key import open_own, own_key, own_trust

        with tempfile.TemporaryDirectory() as place:
            path = self.export(Path(place, "model.tvms"), sign=own_key())
            return open_own(path, own_trust())

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy, or another process, makes an equal library of."""
        made = {name: version(name) for name in _MAKERS}
        state = {**vars(self), "executable": None, "_session": None, "_made_with": made}
        return {**state, "_output_spec": plain_spec(self._output_spec)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become the library of a state.

        Raises
        ------
        ArtifactError
            It was made with another release, whose code this one cannot run.
        """
        for name, made in state["_made_with"].items():
            if made != version(name):
                found, todo = f"made with {name} {made}, here it is {version(name)}", "use export()"
                raise ArtifactError("pickled library", found, "the same version", todo)
        vars(self).update(state)
        self._output_spec = spec_of(self._output_spec)
        self.executable = self._pristine.executable()

    def _check_host(self) -> None:
        """Refuse to run here what came from elsewhere, for a machine that has more."""
        lacking = set(required_cpu_features(self.target)) - cpu_features()
        if machine(self.target) != platform.machine() or lacking:
            found = f"made for {spelled(self.target)}, which this machine is not"
            raise ArtifactError("pickled library", found, "that machine", "compile it again here")

    def profile(self, *inputs: Any, repeat: int = 10, **named: Any) -> list[Kernel]:
        """Run on this machine and return every kernel in call order with its median time."""
        return profile(self, self.arrays(*inputs, **named), repeat)

    def verdict(self) -> str:
        """Return in one phrase what was reached: sparse layers, their gain, bytes of weights.

        Kernels that have no operator of ours and take long are named, and extents that the model's
        code narrows.
        """
        told = f"{self.decisions.verdict()}; {self.nbytes / 2**20:.1f} MiB of weights"
        return "; ".join([told, *self.slow, *self.ranges])

    def _all_unaligned(self) -> tuple[int, ...]:
        """Return the inputs that may begin anywhere for every program of the artifact."""
        others = [set(other.unaligned) for other in self.alternatives]
        return tuple(i for i in self.unaligned if all(i in found for found in others))

    @property
    def nbytes(self) -> int:
        """Bytes of all packed weights."""
        return sum(w.nbytes for w in self.weights.values())

    def export(
        self,
        directory: str | Path,
        *,
        force: bool = False,
        ptx: bool = False,
        sign: Any = None,
    ) -> Path:
        """Write the artifact directory (library with mapped weights, manifest) and return it.

        Parameters
        ----------
        directory
            Its place.
        force
            Replace an artifact that is there.
        ptx
            Hold PTX for :func:`tvm_sparse.testing.emulate` instead of a GPU's machine code.
        sign
            A private Ed25519 key, or the path of its PEM file: sign the manifest, for
            ``load(..., trusted=...)``.
        """
        from tvm_sparse.artifact import export
        from tvm_sparse.artifact.link import Program

        export(
            self._pristine.executable(),
            self.weights,
            directory=Path(directory),
            inputs=self.inputs,
            outputs=self.outputs,
            target=self.target,
            decisions=self.decisions.to_json(),
            bounds=self.bounds,
            structure=self.structure,
            unaligned=self._all_unaligned(),
            ranges=self.ranges,
            force=force,
            ptx=ptx,
            sign=sign,
            recipe=None if self.recipe is None else self.recipe.to_bytes(),
            alternatives=[
                Program(
                    other._pristine.executable(),
                    other.weights,
                    other.target,
                    other.decisions.to_json(),
                )
                for other in self.alternatives
            ],
        )
        return Path(directory)
