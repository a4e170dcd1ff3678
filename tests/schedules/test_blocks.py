"""Questions of all schedule rules: what is written out where it is read."""

from __future__ import annotations

import numpy as np
import torch
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module
from tvm_sparse.base.targets import parse_target
from tvm_sparse.passes.lower.definitions import DEFINITIONS
from tvm_sparse.schedules.build import rules_for
from tvm_sparse.schedules.rule import ApplySchedules


def chain(steps):
    """Return a body in which every step reads the one before twice."""

    def body(x):
        for _ in range(steps):
            x = relax.op.maximum(x, relax.op.multiply(x, relax.const(0.5, "float32")))
        return x

    return body


def test_a_chain_that_doubles_is_cut():
    target, x = parse_target("cpu").target, np.random.default_rng(0).standard_normal((4, 16))
    sizes = []
    for steps in (8, 16):
        mod = relax.transform.LegalizeOps(DEFINITIONS)(module(chain(steps), (4, 16)))
        mod = relax.transform.FuseTIR()(relax.transform.FuseOps()(annotated(mod)))
        after = ApplySchedules(target, rules_for(target))(mod)
        sizes.append(len(after.script()))
        expected = x.astype(np.float32)
        for _ in range(steps):
            expected = np.maximum(expected, expected * 0.5)
        np.testing.assert_array_equal(evaluate(after, x.astype(np.float32)), expected)
    assert sizes[1] < 3 * sizes[0]


def test_a_chain_of_bfloat16_is_cut():
    """Every step is rounded; TVM's passes took twice as long for each, minutes for 13."""

    class Chain(torch.nn.Module):
        def forward(self, x):
            for _ in range(20):
                x = x * 0.5 + 1
            return x

    x = torch.linspace(-3, 3, 21).bfloat16()
    library = ts.compile(Chain(), (x,), config=ts.Config(measure=False, cache=False))
    torch.testing.assert_close(library(x), Chain()(x))


def annotated(mod):
    return relax.transform.AnnotateTIROpPattern()(mod)
