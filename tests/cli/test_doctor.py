from tvm_sparse.cli import checks
from tvm_sparse.cli.checks import Finding


def test_this_machine_has_what_tests_need(call, call_json):
    found = {f["check"]: f for f in call_json("doctor")["findings"]}
    assert {"Python", "torch", "CPU", "C++ compiler", "GPU", "cache"} <= found.keys()
    assert all(f["status"] != "problem" for f in found.values())
    assert call("doctor").stdout.endswith("nothing stands in the way\n")


def test_a_problem_exits_with_1_and_says_what_to_do(call, monkeypatch):
    bad = Finding("torch", "problem", "not installed", "pip install torch")
    monkeypatch.setattr(checks, "CHECKS", (lambda: iter([bad]),))
    printed = call("doctor", status=1).stdout
    assert "pip install torch" in printed
    assert printed.endswith("1 problems\n")
