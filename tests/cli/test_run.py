import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import torch

import tvm_sparse as ts
from tvm_sparse.cli.run import timed


@pytest.fixture
def artifact(call, here, pt2):
    call("compile", pt2, "-o", "model.tvms", "--no-measure")
    return here / "model.tvms"


def test_outputs_are_those_of_torch(call_json, artifact, here, small):
    x = np.random.default_rng(1).random((3, 64), np.float32)
    np.save("x.npy", x)
    printed = call_json("run", artifact, "--input", "x.npy", "--output", "y.npy")
    expected = small(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(np.load("y.npy"), expected, rtol=1e-5, atol=1e-6)
    (output,) = printed["outputs"]
    assert output["shape"] == [3, 32]
    assert output["range"] == pytest.approx([expected.min(), expected.max()], rel=1e-5)
    assert printed["latency"] is None


def test_a_trace_is_written(call, call_json, artifact, here):
    call_json("run", artifact, "--trace", "t.json")
    events = json.loads((here / "t.json").read_text())["traceEvents"]
    assert {event["cat"] for event in events} == {"call", "kernel", "builtin"}
    assert "no/t.json" in call("run", artifact, "--trace", "no/t.json", status=1).output


def test_bfloat16_is_printed(call_json, here):
    model = torch.nn.Linear(8, 4).bfloat16().eval()
    x = torch.ones(1, 8, dtype=torch.bfloat16)
    ts.compile(model, (x,), config=ts.Config(measure=False)).export("half.tvms")
    (output,) = call_json("run", here / "half.tvms")["outputs"]
    assert (output["dtype"], output["shape"]) == ("bfloat16", [1, 4])


def narrow(here):
    """Return a network in bfloat16, exact on small integers, whose artifact is ``narrow.tvms``."""
    model = torch.nn.Linear(8, 4).bfloat16().eval()
    with torch.no_grad():
        model.weight.copy_(torch.arange(32).reshape(4, 8) % 5 - 2)
        model.bias.copy_(torch.tensor([0.5, -0.5, 1, 0]))
    x = torch.ones(2, 8, dtype=torch.bfloat16)
    ts.compile(model, (x,), config=ts.Config(measure=False)).export(here / "narrow.tvms")
    return model


def of_the_runtime(*arguments):
    command = [sys.executable, "-m", "tvm_sparse_runtime", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_files_of_bfloat16_are_float32_or_its_own_bits(call, here):
    model, x = narrow(here), np.arange(16, dtype="float32").reshape(2, 8) % 3 - 1
    with torch.no_grad():
        wanted = model(torch.from_numpy(x).bfloat16()).float().numpy()
    np.save("single.npy", x)
    np.save("columns.npy", np.asfortranarray(x))
    np.save("own.npy", x.astype(ml_dtypes.bfloat16))  # NumPy writes V2
    for name, rounded in (("single", True), ("columns", True), ("own", False)):
        flags = ("narrow.tvms", "--input", f"{name}.npy", "--output", "y.npy")
        told = [call("run", *flags).output, of_the_runtime(*flags)]
        for said in told:
            assert (f"{name}.npy: float32, rounded to bfloat16" in said) == rounded
            assert "y.npy: bfloat16, written as float32" in said
        found = np.load("y.npy")
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, wanted)


def test_other_files_for_bfloat16_are_refused(call, here):
    narrow(here)
    np.save("half.npy", np.ones((2, 8), "float16"))
    done = call("run", "narrow.tvms", "--input", "half.npy", status=1)
    assert "dtype float16; expected dtype bfloat16" in done.output


def test_repeat_gives_statistics(call, call_json, artifact):
    latency = call_json("run", artifact, "--repeat", "20")["latency"]
    assert latency["repeat"] == 20
    assert 0 < latency["min_us"] <= latency["median_us"] <= latency["p99_us"]
    assert "20 calls: min" in call("run", artifact, "--repeat", "20").stdout


def test_neither_torch_nor_the_compiler_is_loaded(artifact):
    script = (
        "import sys\n"
        "from tvm_sparse.cli import app\n"
        "app(['run', sys.argv[1]], standalone_mode=False)\n"
        "print(sorted({'torch', 'tvm'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, artifact], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.grid
@pytest.mark.parametrize(
    ("shape", "dtype", "count", "message"),
    [
        ((3, 63), "float32", 1, "63"),
        ((3, 64), "float64", 1, "float64"),
        ((3, 64), "float32", 2, "2 tensors"),
    ],
)
def test_a_wrong_input_is_named(call, artifact, shape, dtype, count, message):
    np.save("x.npy", np.zeros(shape, dtype))
    error = call("run", artifact, *["--input", "x.npy"] * count, status=1).stderr
    assert message in error
    assert error.count("\n") == 1


def test_as_many_output_files_as_outputs(call, artifact, here):
    error = call("run", artifact, "-o", "a.npy", "-o", "b.npy", status=1).stderr
    assert "--output" in error
    assert not (here / "a.npy").exists()


def test_a_damaged_artifact_is_refused(call, artifact):
    (library,) = artifact.glob("*.so")
    library.write_bytes(library.read_bytes()[:-100])
    error = call("run", artifact, status=1).stderr
    assert library.name in error
    assert "--debug" not in error


def test_warm_up_is_not_counted():
    calls = []
    found = timed(lambda: calls.append(0), 5)
    assert found["repeat"] == 5
    assert len(calls) > 5


def test_open_extents_are_made_at_the_sizes_that_are_asked(call, call_json, here, small):
    rows = {0: torch.export.Dim("rows", max=64)}
    library = ts.compile(
        small, (torch.rand(3, 64),), dynamic_shapes=(rows,), config=ts.Config(measure=False)
    )
    library.export(here / "open.tvms")
    assert "random inputs at rows=1" in call("run", "open.tvms").stderr
    (output,) = call_json("run", "open.tvms", "--at", "rows=5")["outputs"]
    assert output["shape"] == [5, 32]
    twice = ["--at", "rows=5", "--at", "rows=6"]
    assert "one set of sizes" in call("run", "open.tvms", *twice, status=2).stderr
    assert "rows = 0 to 64" in call("run", "open.tvms", "--at", "rows=65", status=1).stderr
