from rich.console import Console

from tvm_sparse.cli import tables
from tvm_sparse.selection.decisions import Decision


def _text(table):
    console = Console(width=140, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_every_decision_is_a_row_with_its_reason():
    sparse = Decision(
        "fc1", "linear", (8, 16), 0.75, "balanced 4 of 16", "balanced", "faster", 9, 4
    )
    dense = Decision("fc2", "linear", (8, 16), 0.0, "none", "dense", "no zeros")
    lines = _text(tables.decision_table([sparse, dense], "A model")).splitlines()
    assert lines[0].strip() == "A model"
    (first,) = [line for line in lines if "fc1" in line]
    (second,) = [line for line in lines if "fc2" in line]
    cells = [cell.strip() for cell in first.strip("│").split("│")]
    assert cells == ["fc1", "balanced 4 of 16", "75.0 %", "9.0", "4.0", "balanced", "faster"]
    cells = [cell.strip() for cell in second.strip("│").split("│")]
    assert cells == ["fc2", "none", "0.0 %", "-", "-", "dense", "no zeros"]


def test_numbers_stand_to_the_right_and_text_to_the_left():
    result = tables.table(("name", "us"), [("a", "1.0"), ("b", "-")])
    assert [column.justify for column in result.columns] == ["left", "right"]


def test_an_empty_table_prints():
    assert "name" in _text(tables.table(("name",), []))
