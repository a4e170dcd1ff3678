"""``tvm-sparse distil``: a pruned model learns to give what the dense one gives."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_sparse.base.progress import bars
from tvm_sparse.cli import console, outputs, tables
from tvm_sparse.cli.calibration import Calibration, arrays, as_tensors, in_pieces
from tvm_sparse.cli.options import (
    Debug,
    FileOrFactory,
    Force,
    Json,
    Weights,
    WeightsOutput,
    is_onnx,
)

if TYPE_CHECKING:
    from torch import nn

Given = tuple[Any, Any, list[Any]]
"""Student, teacher, batches."""

USUAL = 300.0
"""Seconds of a run where nothing else is asked for."""

Teacher = Annotated[
    Path,
    typer.Option(
        "--teacher",
        metavar="FILE",
        help="The dense model: an .onnx file where SOURCE is one, else its .safetensors weights.",
    ),
]
Seconds = Annotated[float | None, typer.Option(min=0, help=f"How long it learns. [{USUAL:.0f}]")]
Steps = Annotated[int | None, typer.Option(min=0, help="Steps at most, a batch each.")]
BatchSize = Annotated[
    int, typer.Option("--batch", min=1, help="Samples a step; the first axis of inputs has them.")
]
Rate = Annotated[float, typer.Option(min=0, help="The largest learning rate.")]
Resume = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Keep the run here, and go on from there.")
]


def distil_command(
    source: FileOrFactory,
    *,
    teacher: Teacher,
    calibration: Calibration,
    output: WeightsOutput,
    weights: Weights = None,
    seconds: Seconds = None,
    steps: Steps = None,
    batch: BatchSize = 8,
    rate: Rate = 1e-3,
    resume: Resume = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Train the pruned model of SOURCE to give what the dense one gives, and write it.

    Labels are not needed; zeros stay zeros. SOURCE is what `prune` wrote: an ONNX file, or a
    factory with --weights. More inputs than pruning saw keep more: some hundreds or thousands.
    """
    with console.errors(debug):
        file = is_onnx(source, weights)
        outputs.check_new_file(output, ".onnx" if file else ".safetensors", force=force)
        given = _files if file else _modules
        student, dense, batches = given(source, weights, teacher, arrays(calibration), batch)
        together = max(1, batch // max(map(_samples, batches)))
        if seconds is None and steps is None:
            seconds = USUAL
        begin = time.monotonic()
        losses = _trained(
            student,
            dense,
            batches,
            steps,
            seconds=seconds,
            rate=rate,
            accumulate=together,
            resume=resume,
        )
        if file:
            student.save(output)
        else:
            outputs.write_weights(student, output)
        zeros = _zeros(student)
        found = {
            "model" if file else "weights": str(output),
            "steps": len(losses),
            "loss": [losses[0], losses[-1]] if losses else [],
            "seconds": round(time.monotonic() - begin, 1),
            "zeros": zeros,
        }
        if json:
            console.show_json(found)
            return
        if losses:
            console.show(f"{len(losses)} steps, loss {losses[0]:.4g} -> {losses[-1]:.4g}")
        console.show(f"{tables.percent(zeros)} zeros in its layers")
        console.show(f"wrote {output}")


def _samples(batch: Any) -> int:
    """Return how many samples a batch has: the largest first extent."""
    tensors = batch.values() if isinstance(batch, dict) else [batch]
    return max((len(x) for x in tensors if x.ndim), default=1)


def _files(source: str, _: Path | None, teacher: Path, batches: list[Any], size: int) -> Given:
    """Return two ONNX files as modules, and batches of ``size``, or of that which the file has."""
    from tvm_sparse.frontends.onnx.trainable import OnnxModule
    from tvm_sparse.onnx_files.calibration import checked
    from tvm_sparse.onnx_files.extents import fixed_extent

    if teacher.suffix != ".onnx":
        raise typer.BadParameter("not an .onnx file", param_hint="--teacher")
    student, dense = OnnxModule(source), OnnxModule(teacher)
    shapes = (value.type.tensor_type.shape.dim for value in student.document.proto.graph.input)
    if not any(fixed_extent(dims[0]) for dims in shapes if dims):
        batches = in_pieces(batches, size)
    return student, dense, [as_tensors(batch) for batch in checked(student.document, batches)]


def _modules(
    source: str, weights: Path | None, teacher: Path, batches: list[Any], size: int
) -> Given:
    """Return what a factory makes with two files of weights, and batches of ``size``."""
    from tvm_sparse.frontends.files.safetensors import load_factory

    if weights is None:
        raise typer.BadParameter("the pruned weights", param_hint="--weights")
    student, dense = load_factory(source, weights), load_factory(source, teacher)
    return student.eval(), dense.eval(), [as_tensors(batch) for batch in in_pieces(batches, size)]


def _trained(student: Any, dense: Any, batches: list[Any], steps: int | None, **given: Any) -> Any:
    """Distil with a bar; return the losses."""
    from tvm_sparse.pruning.distillation.distil import distil

    with bars() as progress:
        return distil(
            student,
            dense,
            batches,
            steps,
            progress=lambda done, total, _: progress("distilling", done, total),
            **given,
        )


def _zeros(model: nn.Module) -> float:
    """Return the fraction of zeros in the layers of ``model``."""
    from tvm_sparse.pruning.layers import matrices_of

    weights = [
        layer.weight.detach()
        for name, module in model.named_modules()
        for layer in matrices_of(name, module)
    ]
    return sum(int((w == 0).sum()) for w in weights) / max(1, sum(w.numel() for w in weights))
