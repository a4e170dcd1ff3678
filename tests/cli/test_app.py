"""The installed command, as a user meets it: streams, exit codes, errors without tracebacks."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / "tvm-sparse"
COMMANDS = (
    "demo",
    "prune",
    "quantize",
    "inspect",
    "tune",
    "compile",
    "run",
    "bench",
    "machine",
    "doctor",
)


def call(*arguments, **environment):
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


def test_help_names_every_command():
    done = call("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for command in COMMANDS:
        assert command in done.stdout


@pytest.mark.grid
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json_and_debug(command):
    done = call(command, "--help")
    assert done.returncode == 0
    assert "--json" in done.stdout
    assert "--debug" in done.stdout


def test_version():
    from importlib.metadata import version

    assert call("--version").stdout == f"tvm-sparse {version('tvm-sparse')}\n"


@pytest.mark.grid
@pytest.mark.parametrize(
    "arguments",
    [
        ("fly",),
        ("compile", "model.pt2", "--no-such-option"),
        ("compile", "model.pt2"),
        ("compile", "model.pt2", "-o", "x", "--shape", "1,a"),
        ("run", "model.tvms", "--threads", "0"),
        ("inspect",),
    ],
)
def test_wrong_usage_exits_with_2(arguments):
    done = call(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.grid
@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "missing.pt2"),
        ("run", "missing.tvms"),
    ],
)
def test_what_is_missing_exits_with_1_and_one_message(arguments):
    done = call(*arguments)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert arguments[1].partition(":")[0] in done.stderr


def test_debug_shows_the_traceback():
    done = call("run", "missing.tvms", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_no_color_and_pipes_get_plain_text():
    for environment in ({"NO_COLOR": "1", "FORCE_COLOR": ""}, {}):
        done = call("--help", **environment)
        assert "\x1b" not in done.stdout


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "tvm_sparse", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == call("--version").stdout


def test_shells_get_completion():
    """Typer's own protocol, which does not ask what shell the tests run in."""
    script = call(_TVM_SPARSE_COMPLETE="source_bash").stdout
    assert "tvm-sparse" in script
    words = {"COMP_WORDS": "tvm-sparse ben", "COMP_CWORD": "1"}
    assert call(_TVM_SPARSE_COMPLETE="complete_bash", **words).stdout.split() == ["bench"]


@pytest.mark.grid
@pytest.mark.parametrize(("options", "told"), [((), False), (("-v",), True), (("-vv",), True)])
def test_verbose_tells_of_phases_and_passes_on_stderr(options, told, tmp_path):
    (tmp_path / "mods.py").write_text(
        "from torch import nn\ndef small():\n    return nn.Linear(16, 16)\n", encoding="utf-8"
    )
    rest = ("compile", "mods:small", "--shape", "1,16", "--dry-run", "--json", "--no-measure")
    done = call(*options, *rest, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert ("choosing: " in done.stderr) == told
    assert ("Simplify" in done.stderr) == (options == ("-vv",))


def test_ctrl_c_exits_with_130_and_leaves_nothing(tmp_path):
    (tmp_path / "mods.py").write_text(
        "import time\nfrom torch import nn\n"
        "def slow():\n    print('ready', flush=True)\n    time.sleep(60)\n",
        encoding="utf-8",
    )
    # Background jobs of shells ignore the signal, and hand that down.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    main = "from tvm_sparse.cli import main; main()"
    arguments = ("compile", "mods:slow", "--shape", "1,16", "-o", "out.tvms")
    process = subprocess.Popen(
        [sys.executable, "-c", f"{start}; {main}", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "interrupted\n"
    assert not (tmp_path / "out.tvms").exists()


@pytest.mark.parametrize("arguments", [("--help",), ("machine", "--json"), ("machine",)])
def test_results_that_cannot_be_written_are_one_line(arguments):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    told = "stdout: cannot be written (No space left on device); expected a place for the results."
    assert done.stderr == f"error: {told}\n"


def test_results_that_nobody_reads_end_a_command_without_a_word():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as closed:
        done = subprocess.run(
            [COMMAND, "machine", "--json"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")


def test_ctrl_c_during_the_import_exits_with_130():
    stop = """
import sys
class Stop:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from tvm_sparse.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", stop], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
