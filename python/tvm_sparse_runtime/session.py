"""A started program with its weights, called with tensors of any framework."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from . import engine, extents, gpu, tensors
from .direct import Direct
from .errors import SparseRuntimeError, shown
from .extents import Bounds
from .pool import Pool
from .spec import TensorSpec, alignments, nbytes
from .structure import Structure
from .threads import call_lock, checked, enter

Self = TypeVar("Self", bound="Session")


class Session:
    """One compiled program, ready to run.

    Parameters
    ----------
    vm
        Virtual machine from :func:`~tvm_sparse_runtime.engine.start`, whose function ``main``
        takes the inputs, then the weights.
    inputs, outputs
        Specifications in call order.
    weights
        Tensors in the order of ``main``, of exactly the types and shapes that it was compiled for:
        calls check inputs only. Anything with DLPack. Used where they lie when aligned to 64
        bytes, else copied once; a GPU's are copied there once. What a library makes of them
        stands behind them (:func:`~tvm_sparse_runtime.gpu.prepared`).
    device
        Where the program runs, a key of :data:`~tvm_sparse_runtime.engine.DEVICE_TYPES`.
    bounds
        Smallest and largest extent of symbols in the inputs' shapes.
    restart
        Makes another virtual machine of the same program, for :meth:`clone`.
    structure
        How inputs and outputs are nested. Without one, a call takes the inputs in order or by name
        and returns one tensor, or a tuple of several.
    unaligned
        Numbers of the inputs that may begin on any multiple of their elements' size; others begin
        on one of 64 bytes, or are copied.

    Notes
    -----
    Calls from several threads are safe; they run one after another. Threads that shall run side by
    side have a :meth:`clone` each. On a GPU all calls of a process run one after another, each on
    its caller's stream; none waits for the GPU unless it copies outputs to the host.
    """

    def __init__(
        self,
        vm: Any,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        weights: Iterable[Any],
        *,
        device: str = "cpu",
        bounds: Bounds | None = None,
        restart: Callable[[], Any] | None = None,
        structure: Structure | None = None,
        unaligned: Sequence[int] = (),
    ) -> None:
        self._restart = restart
        self.threads: int | None = None
        self.inputs, self.outputs, self.device = tuple(inputs), tuple(outputs), device
        self.bounds = dict(bounds or {})
        self._open = any(isinstance(e, str) for spec in self.inputs for e in spec.shape)
        self.structure = structure or _flat(self.inputs, self.outputs)
        with gpu.turn(device):
            own = [gpu.moved(_aligned(weight), device) for weight in weights]
            self._weights = own + ([] if device == "cpu" else gpu.prepared(vm, own))
        self._starts, self._ends = _ranges(self._weights)
        self._alignments = alignments(self.inputs, unaligned)
        self._staging = gpu.Staging()
        self._direct = Direct(self.inputs, device, self._alignments)
        self._sizes = [_size(spec) for spec in self.inputs]
        self._begin(vm)
        arity, given = vm["get_function_arity"]("main"), len(self.inputs) + len(self._weights)
        if arity != given:
            raise SparseRuntimeError(
                "main", f"takes {arity} tensors", f"{given} inputs and weights as described"
            )

    def clone(self: Self, *, threads: int | None = None) -> Self:
        """Return a second session of the program, whose calls run beside those of this one.

        Parameters
        ----------
        threads
            Threads of the clone's calls; by default as many as this session's.

        Returns
        -------
        session
            It shares code and weights; memory for activations is its own.

        Raises
        ------
        SparseRuntimeError
            If the session was made of a virtual machine alone, or ``threads`` cannot be.
        """
        if self._restart is None:
            raise SparseRuntimeError("session", "made of one virtual machine", "a loaded library")
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.threads = self.threads if threads is None else checked(threads)
        other._begin(self._restart())
        return other

    def pool(self, sessions: int, *, threads: int | None = None) -> Pool:
        """Return a :class:`~tvm_sparse_runtime.pool.Pool`: so many calls at a time."""
        return Pool(self, sessions, threads)

    def __copy__(self: Self) -> Self:
        """Return a :meth:`clone`."""
        return self.clone()

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        """Return a :meth:`clone`: nobody writes to what it shares."""
        return self.clone()

    def __reduce__(self) -> Any:
        """Refuse to be pickled: only a loaded library has files that another process can load."""
        raise SparseRuntimeError("session", "cannot be pickled", "a loaded library")

    def _begin(self, vm: Any) -> None:
        """Take the virtual machine that the calls of this session alone run on."""
        self._main, self._lock = engine.together(vm["main"]), call_lock()

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Run the program once.

        Parameters
        ----------
        *values, **named
            The model's own arguments; or its tensors alone, one for each input in order.

        Returns
        -------
        outputs
            Tensors as in :meth:`run`, in tuples, lists and dictionaries as the model nests them.

        Raises
        ------
        TensorError, SparseRuntimeError
            As :meth:`run`, or if an argument is missing, unknown or nested in another way.
        """
        if named or not all([hasattr(value, "__dlpack__") for value in values]):
            values = tuple(self.structure.bind(values, named))
        return self.structure.restore(self.run(*values))

    def run(self, *values: Any) -> tuple[Any, ...]:
        """Run the program once on its tensors.

        Parameters
        ----------
        *values
            One tensor for each input: NumPy, torch, or anything with DLPack, in host memory or
            on the device where the program runs.

        Returns
        -------
        outputs
            A tensor for each output, in the framework of the first input and where that is. It
            shares no memory with inputs or weights.

        Raises
        ------
        TensorError
            If a tensor does not fit its specification, or an extent its bounds.
        SparseRuntimeError
            If the program fails, for instance for want of memory.
        """
        if (spans := self._direct.spans(values)) is not None:
            return tuple([*map(tensors.to_torch, self._owned(self._run(values), spans))])
        tensors.count(values, self.inputs)
        with gpu.turn(self.device, values):
            return self._called(values)

    def _called(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs of :meth:`run`."""
        dims: dict[str, int] = {}
        device, accept = self.device, tensors.accept
        # All are as long as the others: it has just been asked.
        described = zip(values, self.inputs, self._alignments)
        arguments = [accept(v, spec, dims, device, to) for v, spec, to in described]
        if self._open:
            extents.check(self.inputs, [a.shape for a in arguments], dims, self.bounds)
            self._direct.learn([a.shape for a in arguments])
        home = "cpu"
        if device != "cpu":
            home = gpu.home(values[0]) if values else home
            arguments = self._staging.moved(arguments, device)
        export = tensors.exporter(values[0] if values else None, device)
        if export is not tensors.to_torch:  # TVM answers torch's tensors with torch's
            arguments = [engine.tensor(argument) for argument in arguments]
        spans = [*map(_span, arguments, self.inputs, self._sizes)]
        owned = self._owned(self._run(arguments), spans)
        if home != device:
            owned = [gpu.moved(tensor, home) for tensor in owned]
        return tuple([export(tensor) for tensor in owned])

    def _owned(self, result: Any, inputs: Sequence[tuple[int, int]]) -> list[Any]:
        """Return the outputs in what the program returned: one tensor, or TVM's array of them.

        What lies in the memory of inputs or weights is copied: a program may hand it out.
        """
        if hasattr(result, "data_ptr"):
            found = [result]
        else:
            # Half of the time of an index, a tenth of that of an iterator.
            item = engine.function("ffi.ArrayGetItem")
            found = [item(result, i) for i in range(len(result))]
        if len(found) != len(self.outputs):
            raise SparseRuntimeError("main", f"{len(found)} outputs", str(len(self.outputs)))
        for place, tensor in enumerate(found):
            if self._lent(tensor.data_ptr(), inputs):
                found[place] = _copied(tensor, self.device)
        return found

    def _lent(self, address: int, inputs: Sequence[tuple[int, int]]) -> bool:
        """Whether ``address`` lies in a weight, or in an input."""
        place = bisect_right(self._starts, address)
        if place and address < self._ends[place - 1]:
            return True
        for start, size in inputs:
            if start <= address < start + size:
                return True
        return False

    def _run(self, arguments: Sequence[Any]) -> Any:
        """Return what the program makes of checked arguments."""
        enter(self.threads)
        try:
            with self._lock:
                return self._main(*arguments, *self._weights)
        except Exception as error:  # TVM's errors have no type of their own
            shapes = ", ".join(str(tuple(argument.shape)) for argument in arguments)
            asserted = isinstance(error, AssertionError)
            raise SparseRuntimeError(
                "main",
                f"failed on inputs of the shapes {shapes} ({shown(str(error), 200)})",
                "what the model asserts" if asserted else "enough memory, or smaller inputs",
            ) from error


def _flat(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Structure:
    """Return the structure of tensors in, one tensor or a tuple out."""
    several = {"tuple": [*range(len(outputs))]}
    named = tuple((spec.name, place) for place, spec in enumerate(inputs))
    return Structure(named, several if len(outputs) > 1 else 0)


def _aligned(weight: Any) -> Any:
    """Return ``weight`` as an aligned tensor."""
    tensor = engine.tensor(weight)
    if not tensor.is_contiguous():
        raise SparseRuntimeError("weights", f"strides {tensor.strides}", "a contiguous tensor")
    return engine.aligned(tensor)


def _size(spec: TensorSpec) -> int | None:
    """Return the bytes of an input; ``None`` if they differ from call to call."""
    static = [extent for extent in spec.shape if isinstance(extent, int)]
    return nbytes(tuple(static), spec.dtype) if len(static) == len(spec.shape) else None


def _span(tensor: Any, spec: TensorSpec, size: int | None) -> tuple[int, int]:
    """Return the address and the bytes of an argument."""
    return tensor.data_ptr(), nbytes(tensor.shape, spec.dtype) if size is None else size


def _ranges(parts: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return where the memory of ``parts`` starts and ends: ranges in order, apart.

    What lies between them is not theirs: a small output is often allocated there.
    """
    starts: list[int] = []
    ends: list[int] = []
    for start, size in sorted(map(engine.span, parts)):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], start + size)
        else:
            starts.append(start)
            ends.append(start + size)
    return starts, ends


def _copied(tensor: Any, device: str) -> Any:
    """Return a copy of an output."""
    if device != "cpu":
        return gpu.copy(tensor, device)
    source = engine.tensor(tensor)
    return engine.copy(source, engine.empty(source.shape, str(source.dtype)))
