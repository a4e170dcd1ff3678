"""The manifest of an artifact: what it holds, for which machine, and the checksums of it all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .extents import Bounds
from .spec import TensorSpec, nbytes
from .structure import Structure

FILE_NAME = "manifest.json"
REFRESH_FILE = "refresh.json"
"""The graph of a refreshable artifact, one of its files."""
FORMAT = "tvm-sparse artifact"
FORMAT_VERSIONS = (2, 3, 4, 5, 6, 7)
"""What this release reads. It writes the lowest that has all fields in use."""
NEWER_FIELDS = {"alternatives": 3, "structure": 4, "unaligned": 5, "ranges": 7}
"""The version that has brought a field; all others are in version 2."""
DECIDED = 6
"""The version whose alternatives have decisions of their own."""
_SIGNED = (
    *("format_version", "versions", "target", "inputs", "outputs", "bounds", "weights"),
    *("structure", "unaligned"),
)
"""The fields that the code was made for."""
WEIGHTS_SYMBOL = "tvm_sparse_weights"
"""First byte of the weight section in the library; ``WEIGHTS_SYMBOL + "_end"`` is one past it."""


def library_name(sha256: str) -> str:
    """Return the file name of a library with this checksum.

    The dynamic loader takes a library with a known path for the one that it has already: after an
    export over an old artifact, a fixed name would run the old code in processes that have it open.
    """
    return f"model-{sha256[:16]}.so"


@dataclass(frozen=True)
class Weight:
    """One tensor of the weight section; ``offset`` in bytes from its beginning."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return nbytes(self.shape, self.dtype)


@dataclass(frozen=True)
class FileRecord:
    """Checksum (SHA-256, hexadecimal) and size in bytes of one file."""

    sha256: str
    size: int


@dataclass(frozen=True)
class TargetRecord:
    """The machine the code was made for.

    ``machine`` is the name of the architecture (``platform.machine()``), ``cpu_features`` are flags
    as ``/proc/cpuinfo`` spells them. ``gpu_archs`` are the NVIDIA architectures (``"sm_90"``) that
    its GPU code is made for; code for a CPU alone names none.
    """

    kind: str
    machine: str
    mcpu: str
    cpu_features: tuple[str, ...]
    gpu_archs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alternative:
    """The program for another CPU or GPU, in a library of its own.

    ``weights`` lie in the section of the manifest's first library; equal ones are there once.
    Without ``decisions`` those of the manifest are its own, too.
    """

    target: TargetRecord
    library: str
    code: str
    weights: tuple[Weight, ...]
    decisions: tuple[Mapping[str, Any], ...] | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields in which a manifest of this program differs."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Manifest:
    """Everything the loader has to know before it opens the library.

    Parameters
    ----------
    versions
        Versions of ``tvm``, ``tvm_ffi`` and ``tvm_sparse`` that made the artifact.
    target
        The machine it was made for.
    inputs, outputs
        Specifications in call order.
    weights
        Table of the weight section, in the order in which ``main`` takes them after the inputs.
    bounds
        Smallest and largest extent of symbols in the inputs' shapes; None for no limit.
    library
        Name of the library among ``files``.
    code
        SHA-256 of the library without its weights.
    files
        Every file of the directory except the manifest itself.
    threads
        Threads to run with; None for all physical cores.
    decisions
        What was decided for each layer and why, as free JSON.
    alternatives
        The program for other CPUs or GPUs; the best that the machine runs is taken.
    structure
        How inputs and outputs are nested; None if they are not.
    unaligned
        Numbers of the inputs that may begin on any multiple of their elements' size, in order.
    ranges
        Why an open extent has narrower bounds than were asked for, a phrase each.
    """

    versions: Mapping[str, str]
    target: TargetRecord
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    weights: tuple[Weight, ...]
    library: str
    code: str
    files: Mapping[str, FileRecord]
    bounds: Bounds = field(default_factory=dict)
    threads: int | None = None
    decisions: tuple[Mapping[str, Any], ...] = field(default=())
    alternatives: tuple[Alternative, ...] = ()
    structure: Structure | None = None
    unaligned: tuple[int, ...] = ()
    ranges: tuple[str, ...] = ()

    def programs(self) -> tuple[Manifest, ...]:
        """Return the manifest for each library: its own first, then those of alternatives."""
        return (self, *(replace(self, **found.fields()) for found in self.alternatives))

    def to_bytes(self) -> bytes:
        """Return the JSON document, with a checksum of its own content."""
        body = {"format": FORMAT, **self._body()}
        body["checksum"] = checksum(body)
        return (json.dumps(body, indent=1, allow_nan=False) + "\n").encode()

    def signature(self) -> str:
        """Return what the library has in its own section, so that no other manifest fits it.

        It is the SHA-256 of all that the code was made for: versions, target, inputs, outputs,
        their bounds and structure, where they may begin, and the table of weights.
        """
        body = self._body()
        return checksum({key: body[key] for key in _SIGNED if key in body})

    def _body(self) -> dict[str, Any]:
        """Return the fields in plain form, and the lowest format version that has them."""
        body = asdict(self)
        used = [version for key, version in NEWER_FIELDS.items() if body[key]]
        if any(one.decisions is not None for one in self.alternatives):
            used.append(DECIDED)
        version = max(used, default=FORMAT_VERSIONS[0])
        for alternative in body["alternatives"]:
            if version < DECIDED:
                del alternative["decisions"]
            elif alternative["decisions"] is None:
                alternative["decisions"] = body["decisions"]
        later = {key for key, since in NEWER_FIELDS.items() if since > version}
        kept = {key: value for key, value in body.items() if key not in later}
        return {"format_version": version, **kept}


def checksum(body: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical text of ``body``."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
