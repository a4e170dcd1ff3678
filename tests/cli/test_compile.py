import itertools

import numpy as np
import onnx
import pytest
import torch

import tvm_sparse_runtime
from tests.frontends.onnx.graphs import branching, detecting, graph, node
from tvm_sparse.comparison import beside
from tvm_sparse.comparison.latency import Latency
from tvm_sparse.selection import layer_times
from tvm_sparse.selection.decisions import DENSE
from tvm_sparse.selection.measure import Measured


def test_a_pt2_becomes_an_artifact_that_agrees_with_torch(call_json, here, pt2, small):
    printed = call_json("compile", pt2, "-o", here / "out.tvms")
    assert printed["artifact"] == str(here / "out.tvms")
    first, second = printed["decisions"]
    assert (first["layer"], first["sparsity"]) == ("0", 0.75)
    assert second["chosen"] == "dense"
    x = torch.rand(3, 64)
    y = tvm_sparse_runtime.load(here / "out.tvms")(x)
    torch.testing.assert_close(y, small(x).detach(), rtol=1e-5, atol=1e-6)


def test_the_table_shows_the_reason(call, here, pt2):
    printed = call("compile", pt2, "-o", "out.tvms", "--no-measure").stdout
    assert "not measured" in printed
    assert "no zeros" in printed
    assert printed.endswith("wrote out.tvms\n")


def test_an_artifact_is_replaced_by_force_only(call, here, pt2):
    call("compile", pt2, "-o", "out.tvms", "--no-measure")
    error = call("compile", pt2, "-o", "out.tvms", "--no-measure", status=1).stderr
    assert "out.tvms" in error
    call("compile", pt2, "-o", "out.tvms", "--no-measure", "--force")


def test_a_dry_run_writes_nothing(call_json, here, pt2):
    before = sorted(here.iterdir())
    printed = call_json("compile", pt2, "-o", "out.tvms", "--dry-run")
    assert printed["artifact"] is None
    assert len(printed["decisions"]) == 2
    assert sorted(p for p in here.iterdir() if p.name != "__pycache__") == before


def test_a_factory_takes_shapes_weights_and_an_open_batch(call, here, small):
    from safetensors.torch import save_file

    save_file(small.state_dict(), here / "w.safetensors")
    options = ["--weights", "w.safetensors", "--shape", "2,64", "--dynamic-batch", "--no-measure"]
    call("compile", "factories:small", *options, "-o", "out.tvms")
    library = tvm_sparse_runtime.load("out.tvms")
    for batch in (1, 2, 5):
        x = torch.rand(batch, 64)
        torch.testing.assert_close(library(x), small(x).detach(), rtol=1e-5, atol=1e-6)


def test_an_example_may_be_a_file(call, here):
    np.save("x.npy", np.zeros((4, 64), np.float32))
    call("compile", "factories:small", "--input", "x.npy", "-o", "out.tvms", "--no-measure")
    assert tvm_sparse_runtime.load("out.tvms").inputs[0].shape == (4, 64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "toaster"], "toaster"),
        (["--target", "cpu:no-such-cpu"], "no-such-cpu"),
        (["--dynamic-batch"], "dynamic_batch"),
        (["--weights", "w.safetensors"], "weights"),
    ],
)
def test_wrong_options_say_what_to_do(call, here, pt2, arguments, message):
    error = call("compile", pt2, "--dry-run", *arguments, status=1).stderr
    assert message in error
    assert error.count("\n") == 1
    assert "--debug" not in error


def test_a_factory_without_shape_is_an_error(call, here):
    assert "example inputs" in call("compile", "factories:small", "--dry-run", status=1).stderr


def test_another_cpu_is_compiled_for_but_not_measured(call_json, here, pt2):
    printed = call_json("compile", pt2, "--dry-run", "--target", "cpu:haswell")
    assert all(d["dense_us"] is None for d in printed["decisions"])


@pytest.mark.parametrize("source", ["missing.pt2", "no_such_module:factory", "factories:large"])
def test_a_source_that_is_not_there_is_named(call, here, source):
    for command in (["inspect", source], ["compile", source, "--dry-run", "--shape", "1,64"]):
        error = call(*command, status=1).stderr
        assert source in error or source.partition(":")[0] in error
        assert error.count("\n") == 1


def test_the_verdict_says_what_was_reached(call, call_json, here, pt2, monkeypatch):
    monkeypatch.setattr(layer_times, "TINY", 0)

    def measure(functions, *_, **__):
        """Half the dense time for every format, whatever else the machine does."""
        return Measured({n: 2.0 if n in DENSE else 1.0 for n in functions})

    monkeypatch.setattr(layer_times, "measure", measure)
    turns = itertools.cycle([1.0, 2000.0])
    turn = lambda *_: {"ours": Latency(1, 1, 1), "source": Latency(next(turns), 1, 1)}  # noqa: E731
    monkeypatch.setattr(beside, "race", turn)
    last = call("compile", pt2, "-o", "out.tvms", "--check").stdout.splitlines()[-2]
    assert last.startswith("1 of 2 layers sparse, ")
    assert "2.0x the speed of their dense kernels" in last
    assert "MiB of weights; error " in last
    assert last.endswith("times the speed of the source: the machine is busy, try again")
    printed = call_json("compile", pt2, "--dry-run", "--no-measure", "--check")
    assert printed["check"]["error"] < 1e-5
    assert printed["verdict"].startswith("1 of 2 layers sparse; ")


def test_wrong_outputs_end_the_check(call, here, pt2, monkeypatch):
    from tvm_sparse.comparison import reference

    monkeypatch.setattr(reference, "largest_error", lambda *_: float("nan"))
    error = call("compile", pt2, "-o", "out.tvms", "--check", status=1).stderr
    assert "computes something else" in error
    assert not (here / "out.tvms").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "3,64"], "--shape"),
        (["--input", "x.npy"], "--input"),
        (["-o", "taken.txt"], "taken.txt"),
        (["--report", "missing/page.html"], "no directory"),
        (["--check", "--target", "cpu:haswell"], "does not run here"),
    ],
)
def test_what_would_be_ignored_or_fail_is_refused(call, here, pt2, arguments, message):
    (here / "taken.txt").write_text("text")
    options = arguments if "-o" in arguments else [*arguments, "--dry-run"]
    assert message in call("compile", pt2, "--no-measure", *options, status=1).stderr


@pytest.mark.isa("avx512bf16", "avx512vbmi")
def test_what_another_precision_costs_is_shown(call, call_json, here, pt2):
    options = ["--no-measure", "--precision", "bfloat16"]
    printed = call_json("compile", pt2, "--dry-run", "--check", *options)
    rounding = printed["rounding"]
    assert (rounding["precision"], rounding["inputs"]) == ("bfloat16", "random inputs")
    assert 1e-4 < rounding["error"] < 2e-2
    assert printed["check"]["error"] == pytest.approx(rounding["error"], rel=0.1)
    call("compile", pt2, "-o", "out.tvms", *options, "--report", "page.html")
    shown = f"products of bfloat16, error {rounding['error']:.1e} on random inputs"
    assert shown in (here / "page.html").read_text()


@pytest.mark.parametrize(
    ("precision", "target", "message"),
    [("bfloat16", "cpu:haswell", "gain nothing"), ("int4", "cpu", "'float32' or 'bfloat16'")],
)
def test_a_precision_that_cannot_be_is_refused(call, here, pt2, precision, target, message):
    options = ["--dry-run", "--precision", precision, "--target", target]
    assert message in call("compile", pt2, *options, status=1).stderr


def test_a_graph_is_compiled_up_to_named_values(call, call_json, here):
    onnx.save(detecting(np.ones((8, 6), np.float32)), here / "detector.onnx")
    error = call("compile", "detector.onnx", "--dry-run", status=1).stderr
    assert "--outputs scores" in " ".join(error.split())
    options = ["--outputs", "scores", "--outputs", "boxes", "--no-measure", "--check"]
    printed = call_json("compile", "detector.onnx", *options, "-o", "out.tvms")
    assert printed["check"]["error"] < 1e-5
    outputs = tvm_sparse_runtime.load("out.tvms").outputs
    assert [spec.name for spec in outputs] == ["scores", "boxes"]
    rows = call_json("inspect", "detector.onnx", "--outputs", "boxes")["layers"]
    assert [row["layer"] for row in rows] == ["w"]


def test_an_input_is_fixed(call, here):
    onnx.save(branching(), here / "voice.onnx")
    call("compile", "voice.onnx", "--constant", "rate=16000", "--no-measure", "-o", "out.tvms")
    assert [spec.name for spec in tvm_sparse_runtime.load("out.tvms").inputs] == ["x"]
    error = call("compile", "voice.onnx", "--constant", "rat=1", "--dry-run", status=1).stderr
    assert "'rate'" in error


def test_open_extents_of_a_file_are_fixed_and_bounded(call, here):
    weight = {"w": np.ones((16, 8), np.float32)}
    model = graph([node("MatMul", "x w", "y")], {"x": ["N", "T", 16]}, ["y"], weight, opset=17)
    onnx.save(model, here / "rows.onnx")
    options = ["--shape", "x=2,T,16", "--bound", "T=4:32", "--no-measure", "--force"]
    call("compile", "rows.onnx", *options, "--check", "-o", "out.tvms")
    library = tvm_sparse_runtime.load("out.tvms")
    assert library.inputs[0].shape == (2, "T", 16)
    assert library.bounds == {"T": (4, 32)}
    call("compile", "rows.onnx", "--shape", "2,5,16", "--no-measure", "--force", "-o", "out.tvms")
    assert tvm_sparse_runtime.load("out.tvms").inputs[0].shape == (2, 5, 16)
    error = call("compile", "rows.onnx", "--shape", "2,5,17", "--dry-run", status=1).stderr
    assert "which the file fixes" in " ".join(error.split())


def test_a_check_of_open_extents_says_its_sizes(call, here, small):
    rows = {0: torch.export.Dim("rows", max=64)}
    program = torch.export.export(small, (torch.rand(3, 64),), dynamic_shapes=(rows,))
    torch.export.save(program, here / "open.pt2")
    options = ["--dry-run", "--no-measure"]
    assert "at batch=1" in call("compile", "open.pt2", *options, "--check").stdout
    asked = call("compile", "open.pt2", *options, "--check", "--at", "batch=7").stdout
    assert "the speed of the source at batch=7" in " ".join(asked.split())
    alone = call("compile", "open.pt2", *options, "--at", "batch=7", status=2).stderr
    assert "for --check" in alone
