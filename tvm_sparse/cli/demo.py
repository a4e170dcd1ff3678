"""``tvm-sparse demo``: the whole way on real data, in under three minutes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_sparse.base.extras import require
from tvm_sparse.base.progress import bars
from tvm_sparse.cli import console, tables
from tvm_sparse.cli.options import Debug, Json

if TYPE_CHECKING:
    from rich.table import Table

    from tvm_sparse.demo.records import Level, Result


def demo_command(
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Directory to write the artifact to."),
    ] = Path("digits.tvms"),
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs.")] = 10,
    fine_tuning: Annotated[int, typer.Option(min=1, help="Epochs after each pruning step.")] = 6,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Train a small network on real digits, prune, compile, check, quantize, export and load it."""
    with console.errors(debug):
        for extra in ("demo", "quantize"):  # the one brings the other
            require(extra, "tvm-sparse demo")
        from tvm_sparse.demo.run import run

        with bars() as progress:
            result = run(
                output, epochs=epochs, fine_tuning=fine_tuning, force=True, progress=progress
            )
        if json:
            console.show_json(result.to_json())
        else:
            show(result)


def show(result: Result) -> None:
    """Print the tables, and last the lines that matter."""
    for level in result.levels:
        zeros = f"{tables.percent(level.wanted)} asked, {tables.percent(level.sparsity)} pruned"
        title = f"{zeros}, {level.numbers}"
        console.show(tables.decision_table(level.decisions, title))
    console.show(
        accuracy_table(result), latency_table(result), size_table(result), *summary(result)
    )


def accuracy_table(result: Result) -> Table:
    """Return the test accuracy on the way, one row a level."""
    columns = (
        *("sparsity", "numbers", "dense", "pruned", "fine-tuned", "compiled"),
        "same class as PyTorch",
    )
    rows = [
        (
            tables.percent(level.sparsity),
            level.numbers,
            tables.percent(result.accuracy_dense),
            tables.percent(level.accuracy["untuned"]),
            tables.percent(level.accuracy["pruned"]),
            tables.percent(level.accuracy["compiled"]),
            f"{level.agreeing} of {level.images}",
        )
        for level in result.levels
    ]
    return tables.table(columns, rows, "Test accuracy")


def latency_table(result: Result) -> Table:
    """Return the latency of one image by program, one row a level."""
    columns = (
        *("sparsity", "numbers", "sparse us", "p99", "dense float us", "p99"),
        *("PyTorch eager us", "p99"),
    )
    rows = [
        (tables.percent(level.sparsity), level.numbers, *_latencies(level))
        for level in result.levels
    ]
    calls = result.levels[0].latency["sparse"].calls
    return tables.table(columns, rows, f"Latency of one image (median of {calls}, interleaved)")


def _latencies(level: Level) -> list[str]:
    taken = [level.latency[name] for name in ("sparse", "dense", "pytorch")]
    return [tables.microseconds(v) for one in taken for v in (one.median_us, one.p99_us)]


def size_table(result: Result) -> Table:
    """Return bytes before and after."""
    names = {
        "model": "PyTorch parameters",
        "dense": "artifact, all dense",
        "sparse": "artifact, sparse",
        "int8": "artifact, sparse and int8",
    }
    rows = [(text, f"{result.size[name] / 1024:.0f}") for name, text in names.items()]
    return tables.table(("what", "KiB"), rows, "Size")


def summary(result: Result) -> list[str]:
    """Return the last lines: error, accuracy, speed-up, bytes, artifact."""
    *_, last, in_bytes = result.levels
    kept = 100 * (last.accuracy["compiled"] - result.accuracy_dense)
    changed = 100 * (in_bytes.accuracy["compiled"] - last.accuracy["compiled"])
    eager = last.latency["pytorch"].median_us / last.latency["sparse"].median_us
    return [
        f"fresh process: loaded in {result.fresh['load_seconds']:.2f} s without torch and without "
        "the compiler, same predictions",
        f"max abs error: {last.max_abs_error:.2e} over all outputs of {last.images} test images",
        f"accuracy kept: {tables.percent(last.accuracy['compiled'])} at "
        f"{tables.percent(last.sparsity)} zeros ({kept:+.1f} points against the dense network)",
        f"speed-up:      {last.speedup:.2f}x over our own dense build, {eager:.2f}x over PyTorch "
        "eager",
        f"in bytes:      {tables.percent(in_bytes.accuracy['compiled'])} ({changed:+.1f} points), "
        f"{in_bytes.speedup:.2f}x over our own dense build of floats, "
        f"{result.size['int8'] / result.size['sparse']:.2f} of the artifact's size",
        f"artifact:      {result.artifact}",
    ]
