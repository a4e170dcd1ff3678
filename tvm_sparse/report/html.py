"""One HTML file that opens offline: every decision with its reason, every kernel with its time."""

from __future__ import annotations

import math
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm.target import codegen

from tvm_sparse.base.targets import parse_target, spelled
from tvm_sparse.comparison.profile import profile_blindly
from tvm_sparse.report import curves, tuning
from tvm_sparse.report.layers import layer_rows
from tvm_sparse.report.page import page
from tvm_sparse.report.png import data_url
from tvm_sparse.schedules.kernel import GENERIC, Kernel, slow_phrases
from tvm_sparse.selection.decisions import DENSE, Decision, Decisions

if TYPE_CHECKING:
    from tvm_sparse.program.library import Library
    from tvm_sparse_runtime.manifest import Manifest

COLUMNS = (
    ("layer", False),
    ("operator", False),
    ("weight", False),
    ("sparsity", True),
    ("pattern", False),
    ("dense us", True),
    ("sparse us", True),
    ("of all time", True),
    ("chosen", False),
    ("schedule", False),
    ("why", False),
)
"""Of the table of layers: the heading, and whether numbers stand below it."""

FLOAT_BYTES = 4
"""Of a weight before compiling."""


def write(library: Library, path: Path) -> None:
    """Profile ``library`` on random inputs, if its code runs here, and write its report."""
    kernels = library.kernels
    if parse_target(library.target).timed_here:
        kernels = profile_blindly(library)
    path.write_text(render(library, kernels, f"Report of {path.stem}"), encoding="utf-8")


def render(library: Library, kernels: list[Kernel], title: str = "tvm-sparse report") -> str:
    """Return the report of a compiled model as HTML.

    Parameters
    ----------
    library
        What was compiled.
    kernels
        Its kernels in call order, with times as :meth:`Library.profile` gives them, or without
        (``library.kernels``, times zero) when it cannot run here.
    title
        Heading of the page.
    """
    return _page(
        library.decisions,
        kernels,
        slow=slow_phrases(kernels),
        ranges=library.ranges,
        title=title,
        target=spelled(library.target),
        nbytes=library.nbytes,
        curves=curves.curves(library.decisions, library.target),
        environment=_environment(),
    )


def render_artifact(manifest: Manifest, title: str) -> str:
    """Return the report of an exported model as HTML, from what its manifest says.

    That is what was decided and measured when it was compiled. Its code is not opened.
    """
    records = [Decision(**{**d, "shape": tuple(d["shape"])}) for d in manifest.decisions]
    made_for = manifest.target
    cpu = f"cpu:{made_for.mcpu}" if made_for.mcpu else made_for.machine
    return _page(
        Decisions(records),
        [],
        slow=[],
        ranges=manifest.ranges,
        title=title,
        target=f"cuda:{','.join(made_for.gpu_archs)}" if made_for.gpu_archs else cpu,
        nbytes=sum(weight.nbytes for weight in manifest.weights),
        curves=[],
        environment=dict(manifest.versions) | {"instruction sets": " ".join(made_for.cpu_features)},
    )


def _page(decisions: Decisions, kernels: list[Kernel], **facts: Any) -> str:
    total = sum(k.us for k in kernels)
    return page(
        "compiled.html",
        verdict=_sentence(decisions.verdict()),
        columns=COLUMNS,
        without_zeros=DENSE,
        dense_bytes=sum(FLOAT_BYTES * math.prod(d.shape) for d in decisions),
        pairs=_pairs(list(decisions)),
        masks=_masks(decisions),
        picture=curves,
        searches=[(history, tuning.points(history)) for history in decisions.histories],
        search=tuning,
        layers=layer_rows(decisions, kernels),
        parts=decisions.parts,
        costs=decisions.costs,
        kernels=_bars(kernels, total),
        total=total,
        conversions=[k for k in kernels if k.converts],
        leftovers=[k for k in kernels if k.rule is None or k.rule in GENERIC],
        **facts,
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _environment() -> dict[str, str]:
    """Return what a reader needs to believe the times."""
    versions = {name: version(name) for name in ("tvm-sparse", "apache-tvm", "torch", "numpy")}
    cpu = codegen.llvm_get_system_cpu()
    return versions | {"CPU": cpu, "Python": platform.python_version(), "date": str(date.today())}


def _pairs(decisions: list[Decision]) -> list[dict[str, Any]]:
    """Return dense and chosen times of the layers that have both, with the widths of their bars."""
    found: list[dict[str, Any]] = []
    for d in decisions:
        sparse = d.sparse_us if d.chosen not in DENSE else None
        if d.dense_us is not None and sparse is not None:
            found.append({"layer": d.layer, "dense": d.dense_us, "ours": sparse})
    longest = max((max(p["dense"], p["ours"]) for p in found), default=1.0)
    for pair in found:
        pair |= {f"{name}_width": 100 * pair[name] / longest for name in ("dense", "ours")}
    return found


def _masks(decisions: Decisions) -> list[dict[str, Any]]:
    """Return the pictures of masks in network order."""
    return [
        {
            "layer": d.layer,
            "pattern": d.pattern,
            "url": data_url(picture.mask),
            "rows": picture.mask.shape[0],
            "cols": picture.mask.shape[1],
            "unit_rows": picture.unit_rows,
            "unit_cols": picture.unit_cols,
        }
        for d in decisions
        if (picture := decisions.masks.get(d.layer)) is not None
    ]


def _bars(kernels: list[Kernel], total: float) -> list[dict[str, Any]]:
    """Return each kernel with the left edge and width of its bar, in percent of all time."""
    rows, before = [], 0.0
    for kernel in kernels:
        fraction = 100 * kernel.us / total if total else 0.0
        rows.append({"kernel": kernel, "left": before, "width": fraction})
        before += fraction
    return rows
