"""Blocks of the pages that test_docs does not run: other languages, modules, the runtime's page."""

from __future__ import annotations

import importlib.util
import json
import re
from typing import Any

import numpy as np
import torch
from torch import nn

import tvm_sparse as ts
from tests.test_docs import BLOCK, DOCS
from tvm_sparse.tuning.record import Record

FENCE = re.compile(r"^ *```(\w+)$", re.MULTILINE)


def test_blocks_in_other_languages_are_tried_too():
    """Python and commands are those of test_docs; test_deploy_page compiles the C++."""
    found = {
        (page.relative_to(DOCS).as_posix(), language)
        for page in DOCS.rglob("*.md")
        for language in FENCE.findall(page.read_text(encoding="utf-8"))
    }
    assert {one for one in found if one[1] not in ("python", "sh")} == {
        ("deploy.md", "cpp"),
        ("design/architecture.md", "mermaid"),
        ("pruning.md", "yaml"),
        ("tuning.md", "json"),
    }


def test_recipes_that_are_shown_prune(tmp_path):
    text = (DOCS / "pruning.md").read_text(encoding="utf-8")
    recipes = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(recipes) == 2
    for recipe in recipes:
        layers = {"features": nn.Sequential(nn.Linear(64, 64)), "hidden": nn.Linear(64, 64)}
        model = nn.Sequential()
        for name, layer in {**layers, "classifier": nn.Linear(64, 64)}.items():
            model.add_module(name, layer)
        (tmp_path / "recipe.yaml").write_text(recipe, encoding="utf-8")
        report = ts.prune.load_recipe(tmp_path / "recipe.yaml").pruner(model).step()
        assert [0 < layer.sparsity <= 0.75 for layer in report.layers] == [True, True]


def test_the_record_that_is_shown_is_one():
    """Its dots stand for what has a default."""
    (text,) = re.findall(r"```json\n(.*?)```", (DOCS / "tuning.md").read_text("utf-8"), re.DOTALL)
    record = Record(**json.loads(text.replace(", ...}", "}")))
    assert record.confirmed
    assert record.ratio is not None


def test_the_runtimes_own_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, x = nn.Conv2d(16, 4, 1).eval(), torch.zeros(1, 16, 8, 8)
    compiled = ts.compile(model, (x,), config=ts.Config(measure=False))
    compiled.export("model.tvms")
    (block,) = BLOCK.findall((DOCS.parent / "python" / "README.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    exec(block, names)
    np.testing.assert_array_equal(names["y"], compiled(x).numpy())


MODULE = re.compile(r"python -m\s+([a-z_.]*[a-z_])")


def test_modules_that_are_shown_exist():
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    names = {name for page in pages for name in MODULE.findall(page.read_text(encoding="utf-8"))}
    assert len(names) > 20
    assert not [name for name in sorted(names) if importlib.util.find_spec(name) is None]
