"""What was decided for each layer, and why: the records that reports print."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from tvm_sparse.base.markup import html_table
from tvm_sparse.selection.in_floats import InFloats
from tvm_sparse_runtime.libraries import LIBRARIES

if TYPE_CHECKING:
    from tvm_sparse.selection.break_even import Studied
    from tvm_sparse.selection.mask_picture import MaskPicture

DENSE = (
    *("dense", "winograd", "tiles", "shifts"),
    *(chosen for chosen, library in LIBRARIES.items() if library.kind == "dense"),
)
"""Names of the candidates that do not care for zeros."""

ON_REQUEST = "compiled dense on request (sparse=False)"
"""Why a layer's zeros are not looked at."""


@dataclass
class Decision:
    """One layer's record. Times are microseconds of one call on the compiling machine.

    ``chosen`` is ``"dense"``, ``"winograd"`` (dense, with fewer products), ``"tiles"`` (dense, by
    an engine for tiles), ``"shifts"`` (dense, lanes along pixels), ``"cublaslt"`` or ``"cudnn"``
    (dense; that library computes it where it is there), ``"cusparselt"`` (2:4, likewise) or the
    name of a sparse format; ``reason`` says why in a sentence. ``dense_us`` is the time of the
    fastest dense way. ``modelled_us`` is the time of what was chosen by the model of a GPU, all
    calls of the layer.
    """

    layer: str
    operator: str
    shape: tuple[int, ...]
    sparsity: float
    pattern: str
    chosen: str
    reason: str
    dense_us: float | None = None
    sparse_us: float | None = None
    schedule: str = "default"
    modelled_us: float | None = None


@dataclass(frozen=True)
class History:
    """The trials that found one kernel's schedule. Times are microseconds of one call.

    ``curve`` is the best time after each trial, the default's included; ``origin`` says whose
    records those are: ``"tuned"``, ``"shipped record"`` or ``"modelled record"``.
    """

    function: str
    layers: tuple[str, ...]
    origin: str
    default_us: float
    curve: tuple[float, ...]


@dataclass(frozen=True)
class Rounding:
    """What layers of floats multiply instead, and what that costs.

    ``error`` is the largest difference of an output from the same network in single precision,
    over its largest value, on the inputs that ``inputs`` names; ``None`` where code does not run.
    """

    precision: str
    error: float | None
    inputs: str

    def phrase(self) -> str:
        """Return both in a phrase."""
        cost = "not measured" if self.error is None else f"{self.error:.1e} on {self.inputs}"
        return f"products of {self.precision}, error {cost}"


@dataclass(repr=False)
class Decisions:
    """All records of one compilation, in network order.

    ``places`` maps the name of a layer to its position in the network: passes that visit layers in
    another order sort the decisions by it. Layers without one come last, in the order in which they
    were decided. A large batch goes through the network in ``parts`` (0: an open one, item by
    item); times of layers are those of one part. ``costs`` says which costs the models of a CPU
    were made of. ``masks`` are corners of the masks by layer, ``studied`` further candidates with
    their modelled times. ``histories`` are the searches behind tuned kernels. ``rounding`` is there
    where the user asked for another precision. ``in_floats`` is what is quantized and multiplies
    no bytes, as the target has no operators of them. ``own_us`` are the modelled times of our own
    kernels for layers that a library was chosen for; ``stored_for`` are the libraries whose layers
    were given back, but have their weights as they want them.
    """

    records: list[Decision] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    parts: int = 1
    costs: str = ""
    masks: dict[str, MaskPicture] = field(default_factory=dict)
    studied: dict[str, Studied] = field(default_factory=dict)
    histories: list[History] = field(default_factory=list)
    rounding: Rounding | None = None
    in_floats: InFloats = field(default_factory=InFloats)
    own_us: dict[str, float] = field(default_factory=dict)
    stored_for: dict[str, str] = field(default_factory=dict)

    def add(self, decision: Decision) -> None:
        """Insert one record behind those of earlier layers."""
        last = len(self.places)
        bisect.insort(self.records, decision, key=lambda d: self.places.get(d.layer, last))

    def give_back(self, layer: str, why: str) -> None:
        """Record that our own kernel computes a layer that a library was chosen for, and why."""
        for record in self.records:
            library = LIBRARIES.get(record.chosen) if record.layer == layer else None
            if library is not None:
                told = record.reason.partition(f"by {library.name} ")[0].rstrip("; ")
                asked = f"by our own kernel: {library.name} is not asked, since {why}"
                record.reason = "; ".join(filter(None, [told, asked]))
                self.stored_for[layer] = record.chosen
                record.chosen, record.modelled_us = library.ours, self.own_us.get(layer)

    def built(self) -> dict[str, str]:
        """Return what each layer was built as: what was chosen, also where that was given back."""
        return {r.layer: self.stored_for.get(r.layer, r.chosen) for r in self.records}

    @property
    def modelled_us(self) -> float | None:
        """Modelled time of all layers of ours together; ``None`` where no model knows any."""
        times = [r.modelled_us for r in self.records if r.modelled_us is not None]
        return sum(times) if times else None

    def verdict(self) -> str:
        """Return how many layers run sparse, their gain, who else computes, what rounding costs."""
        phrases = [self._gain()]
        for chosen, library in LIBRARIES.items():
            asked = sum(record.chosen == chosen for record in self.records)
            told = f"{asked} {library.kind} by {library.name} where it is there"
            phrases += [told] if asked else []
        phrases += [] if self.rounding is None else [self.rounding.phrase()]
        return "; ".join(filter(None, [*phrases, *self.in_floats.phrases()]))

    def _gain(self) -> str:
        sparse = [d for d in self.records if d.chosen not in DENSE]
        told = f"{len(sparse)} of {len(self.records)} layers sparse"
        pairs = [(d.dense_us, d.sparse_us) for d in sparse if d.dense_us and d.sparse_us]
        if not pairs:
            return told
        gain = sum(dense for dense, _ in pairs) / sum(best for _, best in pairs)
        return f"{told}, {gain:.1f}x the speed of their dense kernels"

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.records)

    def __repr__(self) -> str:
        return f"<Decisions: {self.verdict()}>"

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        names = ("layer", "pattern", "sparsity", "dense_us", "sparse_us", "chosen", "reason")
        rows = ([getattr(record, name) for name in names] for record in self.records)
        return html_table([name.replace("_", " ") for name in names], rows)

    def to_json(self) -> list[dict[str, object]]:
        """Return plain dictionaries, one a layer."""
        return [asdict(r) for r in self.records]
