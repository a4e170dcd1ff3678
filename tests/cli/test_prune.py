import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import load_file

from tests.exported import exported
from tvm_sparse.patterns.detector import detect


def test_the_weights_have_the_pattern_and_fill_the_factory(call_json, call, here):
    printed = call_json(
        "prune", "factories:small", "-o", "p.safetensors", "--sparsity", 0.75, "--ignore", "2"
    )
    weights = load_file("p.safetensors")
    assert [layer["name"] for layer in printed["layers"]] == ["0"]
    assert printed["sparsity"] == 0.75
    assert (weights["0.weight"] == 0).float().mean() == 0.75
    assert detect(weights["0.weight"].numpy()).best.pattern.kind == "balanced"
    assert not (weights["2.weight"] == 0).any()
    options = ["--weights", "p.safetensors", "--shape", "2,64", "--no-measure", "--check"]
    assert "1 of 2 layers sparse" in call("compile", "factories:small", *options, "-o", "o").stdout


def test_parameters_of_the_method_are_set_by_name(call, here):
    options = ["--method", "block", "--sparsity", 0.5, "--set", "rows=4", "--set", "cols=2"]
    printed = call("prune", "factories:small", "-o", "p.safetensors", *options).stdout
    assert "block 4x2" in printed
    assert printed.endswith("wrote p.safetensors\n")
    error = call(
        "prune", "factories:small", "-o", "q.safetensors", "--set", "banc=4", status=1
    ).stderr
    assert "did you mean 'bank'" in error


def test_calibration_adapts_what_remains(call, here, small):
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    np.save("x.npy", x)
    errors = {}
    for name, options in {"once": [], "fitted": ["--calibration", "x.npy"]}.items():
        call("prune", "factories:small", "-o", f"{name}.safetensors", "--sparsity", 0.75, *options)
        from factories import small as factory

        model, dense = factory(), factory()
        model.load_state_dict(load_file(f"{name}.safetensors"))
        with torch.no_grad():
            errors[name] = (model(torch.from_numpy(x)) - dense(torch.from_numpy(x))).norm()
    assert errors["fitted"] < 0.8 * errors["once"]


def test_a_recipe_says_all_of_it(call, here):
    (here / "r.yaml").write_text("method: unstructured\nsparsity: 0.5\n", encoding="utf-8")
    base = ["prune", "factories:small", "-o", "p.safetensors", "--recipe", "r.yaml"]
    assert "50.0 % zeros in 2 layers" in call(*base).stdout
    call(*base, "--sparsity", 0.9, status=2)
    text = "method: unstructured\nsparsity: 0.9\nschedule: {kind: levels, sparsities: [0.5, 0.9]}\n"
    (here / "r.yaml").write_text(text, encoding="utf-8")
    assert "training loop" in call(*base, "--force", status=1).stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["factories:small", "-o", "p.pt"], 2, "safetensors"),
        (["factories:small", "-o", "p.safetensors", "--set", "bank"], 2, "bank=16"),
        (["factories:small", "-o", "missing/p.safetensors"], 1, "no directory"),
        (["model.pt2", "-o", "p.safetensors"], 1, "no factory"),
        (["factories:small", "-o", "p.safetensors", "--method", "balancd"], 1, "balanced"),
    ],
)
def test_wrong_use_is_told_before_any_work(call, here, arguments, status, message):
    assert message in call("prune", *arguments, status=status).stderr
    assert not (here / "p.safetensors").exists()


def test_a_file_is_replaced_by_force_only(call, here):
    base = ["prune", "factories:small", "-o", "p.safetensors", "--sparsity", 0.5]
    call(*base)
    assert "--force" in call(*base, status=1).stderr
    call(*base, "--force")


@pytest.fixture
def onnx_file(here, small):
    """`small` with its first layer pruned, as `m.onnx`."""
    axes = {"dynamic_axes": {"x": {0: "n"}}}
    exported(small, torch.rand(3, 64), here / "m.onnx", old=True, **axes)
    values = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    np.savez(here / "x.npz", x=values)
    np.save(here / "x.npy", values)
    return here / "m.onnx"


@pytest.mark.grid
@pytest.mark.parametrize("file", ["x.npz", "x.npy"])
def test_an_onnx_file_becomes_one_with_zeros(call, call_json, onnx_file, file):
    options = ["prune", "m.onnx", "-o", "p.onnx", "--sparsity", 0.75, "--ignore", "2"]
    printed = call_json(*options)
    assert printed["model"] == "p.onnx"
    assert [(r["name"], r["sparsity"]) for r in printed["layers"]] == [("0", 0.75)]
    assert printed["skipped"] == {"2": "in ignore"}
    printed = call(*options, "--force", "--calibration", file).stdout
    assert "of its output lost" in printed
    assert printed.endswith("wrote p.onnx\n")
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load("p.onnx").graph.initializer}
    assert (weights["0.weight"] == 0).mean() == 0.75
    options = ["--shape", "x=2,64", "--no-measure", "--check"]
    assert "1 of 2 layers sparse" in call("compile", "p.onnx", *options, "-o", "o").stdout


def test_recipes_name_layers_of_a_file(call, here, onnx_file):
    text = "method: layers\nlayers:\n  0.weight: {method: balanced, sparsity: 0.5}\n"
    text += "  /2/Gemm: {method: unstructured, sparsity: 0.9}\n"
    (here / "r.yaml").write_text(text, encoding="utf-8")
    printed = call("prune", "m.onnx", "-o", "p.onnx", "--recipe", "r.yaml").stdout
    assert "balanced 8/16" in printed or "50.0 %" in printed
    assert "90.0 %" in printed


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["m.onnx", "-o", "p.safetensors"], 2, "not a .onnx file"),
        (["m.onnx", "-o", "p.onnx", "--weights", "w.safetensors"], 2, "has its own"),
        (["n.onnx", "-o", "p.onnx"], 1, "no such file"),
        (["m.onnx", "-o", "p.onnx", "--method", "filters"], 1, "PyTorch module"),
        (["m.onnx", "-o", "p.onnx", "--ignore", "7"], 1, "matches no prunable layer"),
        (["m.onnx", "-o", "p.onnx", "--calibration", "y.npz"], 1, "no plain file"),
        (["m.onnx", "-o", "p.onnx", "--calibration", "wrong.npz"], 1, "no input 'y'"),
    ],
)
def test_what_no_file_can_be_pruned_with_is_refused(
    call, here, onnx_file, arguments, status, message
):
    np.savez(here / "wrong.npz", y=np.zeros(3))
    (here / "y.npz").mkdir()
    assert message in call("prune", *arguments, "--sparsity", 0.5, status=status).stderr
    assert not (here / "p.onnx").exists()


def test_a_machine_chooses_the_pattern_of_each_layer(call, here):
    (here / "wide.py").write_text(
        "import torch\n"
        "def net():\n"
        "    torch.manual_seed(0)\n"
        "    layers = torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 8)\n"
        "    return torch.nn.Sequential(*layers).eval().half()\n",
        encoding="utf-8",
    )
    base = ["prune", "wide:net", "-o", "p.safetensors", "--target", "cuda:h200"]
    shape = ["--shape", "64,1024:float16"]
    printed = call(*base, *shape, "--sparsity", 0.875).stdout
    assert "block" in printed
    assert (load_file("p.safetensors")["0.weight"] == 0).float().mean() == 0.875
    for wrong in ([], [*shape, "--sparsity", 0.5, "--method", "block"], ["--sparsity", 0.5]):
        assert "takes --sparsity and --shape" in call(*base, *wrong, status=2).stderr
