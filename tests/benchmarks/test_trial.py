"""A network of the trial is a row, whatever becomes of its process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest
import torch
from torch import nn

from benchmarks import trial
from benchmarks.cases import trial_networks


def crash(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(*_):
    time.sleep(60)


@pytest.mark.parametrize(("end", "said"), [(crash, "SIGKILL"), (hang, "took more than 0.2 s")])
def test_crashes_and_hangs_are_rows(monkeypatch, end, said):
    monkeypatch.setattr(trial, "_send", end)
    seconds = 0.2 if end is hang else 30
    row = trial._tried(multiprocessing.get_context("fork"), "timm", "x", "dense", seconds)
    assert row == {"source": "timm", "name": "x", "mode": "dense", "error": said}


def test_pruned_weights_have_a_quarter_left_and_small_ones_all():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 8), nn.Linear(68, 20), nn.Conv2d(3, 8, 3))
    trial_networks.prune(model)
    left = [int(layer.weight.count_nonzero()) for layer in model]
    assert left == [128 * 8 // 4, 68 * 20 // 4, 3 * 8 * 9]


def test_constants_of_initialisers_are_drawn():
    norm = nn.BatchNorm2d(8)
    scale = nn.ParameterList([nn.Parameter(torch.full((8,), 1e-6))])
    trial_networks._vary(nn.ModuleList([norm, scale]))
    drawn = (norm.weight, norm.bias, norm.running_mean, norm.running_var, scale[0])
    assert not any(trial_networks._constant(values) for values in drawn)
