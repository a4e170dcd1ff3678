"""The ``tvm-sparse`` command and its subcommands."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tvm_sparse.cli import console
from tvm_sparse.cli.bench import bench_command
from tvm_sparse.cli.compile import compile_command
from tvm_sparse.cli.demo import demo_command
from tvm_sparse.cli.distil import distil_command
from tvm_sparse.cli.doctor import doctor_command
from tvm_sparse.cli.explain import explain_command
from tvm_sparse.cli.hub import pull_command, push_command
from tvm_sparse.cli.inspect import inspect_command
from tvm_sparse.cli.machine import machine_command
from tvm_sparse.cli.passes import passes_command
from tvm_sparse.cli.plan import plan_command
from tvm_sparse.cli.prune import prune_command
from tvm_sparse.cli.quantize import quantize_command
from tvm_sparse.cli.refresh import refresh_command
from tvm_sparse.cli.report import report_command
from tvm_sparse.cli.run import run_command
from tvm_sparse.cli.tune import tune_command

app = typer.Typer(
    name="tvm-sparse",
    help="Compile pruned PyTorch models with Apache TVM into fast, deployable libraries.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo_command)
app.command("plan")(plan_command)
app.command("prune")(prune_command)
app.command("distil")(distil_command)
app.command("quantize")(quantize_command)
app.command("inspect")(inspect_command)
app.command("tune")(tune_command)
app.command("compile")(compile_command)
app.command("refresh")(refresh_command)
app.command("run")(run_command)
app.command("push")(push_command)
app.command("pull")(pull_command)
app.command("bench")(bench_command)
app.command("explain")(explain_command)
app.command("passes")(passes_command)
app.command("report")(report_command)
app.command("machine")(machine_command)
app.command("doctor")(doctor_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tvm-sparse {version('tvm-sparse')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="Tell what is done; twice: every pass, too."
        ),
    ] = 0,
) -> None:
    """Hold the options that stand before a command."""
    console.log(verbose)


def main() -> None:
    """Run the command line; exit with 0 (done), 1 (error), 2 (wrong usage) or 130 (Ctrl-C)."""
    # Before tvm_ffi is imported: it would compile an extension for torch, TVM would bind threads.
    os.environ.setdefault("TVM_FFI_DISABLE_TORCH_C_DLPACK", "1")
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    # Model factories are found where the user stands, as `python -m` does.
    sys.path.insert(0, "")
    if "--debug" in sys.argv:
        app(prog_name="tvm-sparse")  # which exits
    try:
        with console.errors(debug=False), console.writing():  # pages of help
            app(prog_name="tvm-sparse")
    except typer.Exit as end:
        raise SystemExit(end.exit_code) from end
