"""What a GPU timed, and what each of our kernels demands by the model: the two must agree.

A row's record of a kernel says what its demand follows from: the format, the tile, and which of
:mod:`tvm_sparse.ops.cuda.mends` it was built with (none, where it says nothing). Times that hold
some of the host's are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.harness.common import load
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.buckets import Bucket, Buckets
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.depthwise import DepthwiseTapsFormat
from tvm_sparse.formats.kept_tiles import KeptTilesFormat
from tvm_sparse.formats.lane_banks import LaneBanksFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.formats.two_four import TwoFourFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import stream
from tvm_sparse.ops.cuda.mends import OFF, Mends, using
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.demand import Demand
from tvm_sparse.selection.cuda.stream_demand import banks_demand, dense_demand
from tvm_sparse.selection.cuda.tile_option import stored_demand

PARTS = ("correct", "papers", "grid", "mend_times")

TILES = ("tile", "2:4 tile")

FORMATS = {
    made.__name__: made
    for made in (
        *(BlockFormat, Bucket, Buckets, DenseFormat, DepthwiseTapsFormat, KeptTilesFormat),
        *(LaneBanksFormat, TileBanksFormat, TwoFourFormat),
    )
}
DTYPE = re.compile(r"\b(float32|float16|bfloat16)\b")


@dataclass(frozen=True)
class Timed:
    """A kernel of a row: its demand, its time, and whether a flush left written lines before it.

    ``record`` says what its demand follows from.
    """

    case: str
    kernel: str
    rows: int
    us: float
    demand: Demand
    written: bool
    record: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def weight(self) -> str:
        """The case without its rows of activations."""
        return re.sub(r", N=\d+", "", self.case)


def timed(on: Chip, parts: tuple[str, ...] = PARTS) -> Iterator[Timed]:
    """Yield the tiles and streams of floats that were timed on ``on``: costs are fitted to them."""
    for part in parts:
        for row in rows(on, part):
            for name, record in row.get("kernels", {}).items():
                taken = row["times"].get(f"ours {name}")
                late = f"ours {name}" in row.get("contaminated", ())
                if taken is None or late or not modelled(record):
                    continue
                written = row.get("flush", "dirty") == "dirty"
                demand = demand_of(row, record, on)
                about = (row["case"], name, row["rows"], taken["median_us"])
                yield Timed(*about, demand, written, record)


def rows(on: Chip, part: str) -> list[dict[str, Any]]:
    """Return the rows of a part of the results that were measured on ``on``."""
    content = load(f"gpu_{part}")
    return [row for row in content.get("rows", []) if measured_on(on, gpu_of(row))]


def gpu_of(row: dict[str, Any]) -> str:
    """Return what its driver calls the GPU that a row was measured on."""
    return str(row.get("environment", {}).get("gpu", ""))


def measured_on(on: Chip, gpu: str) -> bool:
    """Whether ``gpu``, as its driver calls it, is ``on``: an A100 is no A10."""
    return re.search(rf"\b{on.name}\b", gpu) is not None


def modelled(record: dict[str, Any]) -> bool:
    """Whether a record is that of a tile or a stream, and says all that its demand needs."""
    tiled = record.get("kernel") in TILES and record.get("tile") is not None
    return tiled or record.get("kernel") == "stream"


def contraction_of(row: dict[str, Any], format: Any) -> Contraction:
    """Return the linear layer that a row is about."""
    (dtype,) = set(DTYPE.findall(row["case"]))
    numerics = Numerics.uniform(dtype)
    return Contraction((row["rows"],), format.cols, format.rows, numerics=numerics)


def mends_of(record: dict[str, Any]) -> Mends:
    """Return what a kernel was built with: what its record does not know was off."""
    return replace(OFF, **record.get("mends", {}))


def demand_of(row: dict[str, Any], record: dict[str, Any], on: Chip) -> Demand:
    """Return the demand of a kernel as it was built."""
    format = format_of(record["format"])
    c = contraction_of(row, format)
    with using(mends_of(record)):
        if record["kernel"] != "stream":
            return stored_demand(c, format, ThreadBlockTile(*record["tile"]), on)
        if isinstance(format, DenseFormat):
            return dense_demand(c, format, stream.choose_warps(c.features, on.sms))
        return banks_demand(c, format, warps_of(c, format, record, on))


def warps_of(
    c: Contraction, format: LaneBanksFormat, record: dict[str, Any], on: Chip
) -> stream.Warps:
    """Return the warps of a stream; older records leave them to the rule of then."""
    if "warps" in record:
        return stream.Warps(*record["warps"])
    staged = stream.staged_bytes(c, stream.Cut(format, stream.Warps(1, 1)))
    return stream.choose_warps(c.features, on.sms, staged)


def format_of(text: str) -> Any:
    """Return the format whose ``repr`` is ``text``."""
    return _made(ast.parse(text, mode="eval").body)


def _made(node: ast.expr) -> Any:
    if isinstance(node, ast.Tuple):
        return tuple(_made(one) for one in node.elts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return FORMATS[node.func.id](**{str(k.arg): _made(k.value) for k in node.keywords})
    return ast.literal_eval(node)
