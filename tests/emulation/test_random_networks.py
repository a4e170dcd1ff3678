"""Random networks, their very PTX executed on a CPU, as near to exact values as PyTorch."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch

import tvm_sparse as ts
from tests.cuda.kernels import ARCHS, needs_nvrtc, target
from tests.emulation.exact import array
from tests.random_glue import random_glue
from tests.random_networks import random_network
from tests.random_sequences import random_sequences
from tvm_sparse.emulation.process import Emulator

pytestmark = needs_nvrtc

MAKERS = (random_network, random_sequences, random_glue)
BOUNDS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Error of an output, relative to the largest one, besides four times PyTorch's own."""

QUICK, ALL = 2, 100
CONFIG = ts.Config(measure=False, cache=False, tuned=False)


@pytest.fixture(scope="module")
def emulators():
    with contextlib.ExitStack() as stack:
        yield {arch: stack.enter_context(Emulator(target(arch))) for arch in ARCHS}


@pytest.mark.grid
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize(
    "seed", [*range(QUICK), *(pytest.param(s, marks=pytest.mark.slow) for s in range(QUICK, ALL))]
)
def test_random_networks(seed, dtype, emulators, tmp_path):
    model, x = MAKERS[seed % len(MAKERS)](seed)
    model, x = model.to(dtype), x.to(dtype)
    arch = ARCHS[(seed // len(MAKERS) + list(BOUNDS).index(dtype)) % 2]
    with torch.no_grad(), _skipping_what_pytorch_lacks():
        eager, exact = model(x).double(), copy.deepcopy(model).double()(x.double())
    library = ts.compile(model, (x,), target=f"cuda:{arch}", config=CONFIG)
    path = library.export(tmp_path / "model.tvms", ptx=True)
    ((outputs, report),) = emulators[arch].run_artifact(path, [[array(x)]])
    assert not report.findings, report.findings
    found = torch.from_numpy(outputs[0].astype("f8"))
    assert torch.equal(found.isnan(), eager.isnan())
    number = ~(exact.isnan() | eager.isnan())
    if number.any():
        scale, own = exact[number].abs().max(), (eager - exact)[number].abs().max()
        error = (found - exact)[number].abs().max()
        assert error <= BOUNDS[dtype] * max(1e-3, float(scale)) + 4 * own


@contextlib.contextmanager
def _skipping_what_pytorch_lacks():
    """Skip where PyTorch has no kernel for 16 bits (an antialiased resize), thus no reference."""
    try:
        yield
    except NotImplementedError as error:
        pytest.skip(str(error))
