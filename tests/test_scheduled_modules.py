"""The tool that shows whether a change keeps the code of whole networks."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests import tools


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TVM_NUM_THREADS", "1")  # the tool sets it for its own process
        return tools.load("scheduled_modules")


def network(width: int, scale: float = 1.0) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, width), nn.ReLU()).eval()
    with torch.no_grad():
        model[0].weight *= scale
    return model


@pytest.fixture(scope="module")
def found(tool):
    return tool.hashes(network(32), torch.zeros(2, 16), "cpu:haswell")


def test_equal_networks_have_equal_hashes(tool, found):
    again = tool.hashes(network(32), torch.zeros(2, 16), "cpu:haswell")
    assert tool.differences({"net": found}, {"net": again}) == []


def test_other_code_and_other_weights_are_named(tool, found):
    wider = tool.hashes(network(48), torch.zeros(2, 16), "cpu:haswell")
    assert any("functions" in line for line in tool.differences({"net": found}, {"net": wider}))
    scaled = tool.hashes(network(32, 2.0), torch.zeros(2, 16), "cpu:haswell")
    lines = tool.differences({"net": found}, {"net": scaled})
    assert lines
    assert all(": weights " in line for line in lines)


def test_a_missing_case_and_a_module_that_differs_alone_are_named(tool, found):
    (line,) = tool.differences({"net": found}, {})
    assert line == "net: in one file only"
    other = copy.deepcopy(found) | {"module": "0"}
    (line,) = tool.differences({"net": found}, {"net": other})
    assert "module differs" in line
