import json

import pytest
import typer

from tvm_sparse.cli import console
from tvm_sparse.errors import InputError
from tvm_sparse_runtime import TensorError


@pytest.mark.parametrize("kind", [InputError, TensorError])
def test_own_errors_become_one_line(capsys, kind):
    with pytest.raises(typer.Exit) as exit_, console.errors(debug=False):
        raise kind("layer 'fc'", "its weight holds NaN", "finite weights", "retrain it")
    assert exit_.value.exit_code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "error: layer 'fc': its weight holds NaN; expected finite weights; retrain it.\n"
    )


def test_long_messages_and_brackets_are_left_alone(capsys):
    with pytest.raises(typer.Exit), console.errors(debug=False):
        raise InputError("x" * 200, "shape [1, 3] is [bold]wrong[/bold]")
    assert capsys.readouterr().err == f"error: {'x' * 200}: shape [1, 3] is [bold]wrong[/bold].\n"


def test_unexpected_errors_name_the_way_to_the_traceback(capsys):
    with pytest.raises(typer.Exit) as exit_, console.errors(debug=False):
        raise ZeroDivisionError("division by zero\nand more")
    assert exit_.value.exit_code == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ZeroDivisionError: division by zero\n")
    assert "--debug" in error
    assert "Traceback" not in error


def test_debug_lets_errors_through():
    with pytest.raises(InputError), console.errors(debug=True):
        raise InputError("x", "y")


def test_usage_errors_and_exits_pass():
    with pytest.raises(typer.BadParameter), console.errors(debug=False):
        raise typer.BadParameter("no")
    with pytest.raises(typer.Exit) as exit_, console.errors(debug=False):
        raise typer.Exit(0)
    assert exit_.value.exit_code == 0


def test_work_is_silent_without_a_terminal(capsys):
    with console.working("thinking"):
        pass
    assert capsys.readouterr() == ("", "")


def test_json_is_one_object(capsys):
    console.show_json({"a": [1, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None]}


def test_lines_of_others_are_joined(capsys):
    with pytest.raises(typer.Exit), console.errors(debug=False):
        raise InputError("a  b.yaml", "is not YAML (while parsing\n  expected <block end>\n    ^)")
    told = "error: a  b.yaml: is not YAML (while parsing expected <block end> ^).\n"
    assert capsys.readouterr().err == told


def test_numbers_that_json_has_not_are_null(capsys):
    console.show_json({"range": (float("nan"), 1.5), "least": [{"x": float("-inf")}]})
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found == {"range": [None, 1.5], "least": [{"x": None}]}
