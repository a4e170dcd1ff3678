import numpy as np
import pytest
from safetensors.torch import load_file

from tests.planning.tables import tables
from tvm_sparse.planning.budget import Budget
from tvm_sparse.planning.plan import Plan
from tvm_sparse.pruning.recipe import load_recipe


@pytest.fixture
def base(here):
    np.save("x.npy", np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32))
    options = ["--calibration", "x.npy", "--target", "cpu:haswell", "--trials", 3]
    return ["plan", "factories:small", "-o", "plan.json", "--level", 0.5, "--level", 0.75, *options]


def test_a_plan_is_written_and_prunes(base, call, call_json):
    printed = call_json(*base, "--bytes", 20000, "--picture", "plan.svg")
    assert printed["predicted"]["bytes"] <= 20000
    assert [layer["layer"] for layer in printed["layers"]] == ["0.weight", "2.weight"]
    assert {row["label"] for row in printed["pareto"]} == {"balanced 50 %", "balanced 75 %"}
    assert load_recipe("plan.json").method.layers
    call("prune", "factories:small", "-o", "p.safetensors", "--recipe", "plan.json")
    weights = load_file("p.safetensors")
    for layer in printed["layers"]:
        assert float((weights[layer["layer"]] == 0).float().mean()) == layer["zeros"]
    shown = call(*base, "--bytes", 25000, "--force").stdout  # another budget, the same tables
    assert "wrote plan.json" in shown and "dense us" in shown


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ([], 1, "one of speedup, latency_ms, bytes, sparsity, max_drop"),
        (["--speedup", 2, "--bytes", 3], 1, "got speedup, bytes as a budget"),
        (["--speedup", -1], 1, "a number above zero"),
        (["--speedup", 2, "--method", "filters"], 1, "does not prune each layer by itself"),
        (["--speedup", 2, "--numerics", "int4"], 1, "int8-dynamic"),
        (["--speedup", 2, "-o", "plan.yaml"], 2, "not a .json file"),
        (["--speedup", 2, "--level", 75], 1, "fractions of zeros"),
    ],
)
def test_wrong_use_is_told_before_any_work(base, call, options, status, message):
    assert message in " ".join(call(*base, *options, status=status).stderr.split())


def test_compile_says_whether_a_promise_is_kept(here, call, call_json):
    Plan.of(tables(), Budget("speedup", 1.2)).save("plan.json")
    command = ["compile", "factories:small", "--shape", "2,64", "--no-measure", "--dry-run"]
    promise = call_json(*command, "--plan", "plan.json")["promise"]
    assert promise["promised_ms"] == pytest.approx(0.41) and promise["kept"] is False
    assert "promised 0.41 ms" in call(*command, "--plan", "plan.json").stdout
    assert "cannot be read" in call(*command, "--plan", "none.json", status=1).stderr


def test_quantize_takes_its_numerics(here, call):
    np.save("x.npy", np.zeros((4, 64), np.float32))
    recipe = here / "r.json"
    recipe.write_text('{"method": "balanced", "sparsity": 0.5, "numerics": "int8-dynamic"}')
    command = ["quantize", "factories:small", "-o", "q.pt2", "--calibration", "x.npy"]
    call(*command, "--recipe", "r.json")
    assert (here / "q.pt2").exists()
    call(*command, "--force", "--recipe", "r.json", "--activations", "static", status=2)
    recipe.write_text('{"method": "balanced", "sparsity": 0.5}')
    stderr = call(*command, "--force", "--recipe", "r.json", status=1).stderr
    assert "float32" in stderr and "int8-dynamic" in stderr
