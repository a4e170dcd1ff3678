"""The installed command, as a user meets it: streams, exit codes, errors without tracebacks."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / "tvm-sparse"
COMMANDS = ("demo", "inspect", "compile", "run", "machine")


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


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_json_and_debug(command):
    done = call(command, "--help")
    assert done.returncode == 0
    assert "--json" in done.stdout
    assert "--debug" in done.stdout


def test_version():
    from importlib.metadata import version

    assert call("--version").stdout == f"tvm-sparse {version('tvm-sparse')}\n"


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
