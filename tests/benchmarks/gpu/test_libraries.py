import pytest
import torch

from benchmarks.gpu import device, libraries
from benchmarks.gpu.cases import Case, small
from benchmarks.gpu.layers import error_share, reference
from benchmarks.gpu.timeline import Timeline
from tvm_sparse.ops.contractions.contraction import Contraction

DEPTHWISE = [c for c in small() if c.contraction.depthwise and c.contraction.dtype == "float32"]


def operands(case):
    x = torch.randn(case.contraction.input_shape, generator=torch.Generator().manual_seed(0))
    return x, torch.from_numpy(case.weight())


@pytest.mark.parametrize("case", DEPTHWISE, ids=lambda case: case.name)
def test_depthwise_baselines_compute_the_layer(case):
    """They are ordinary torch programs, so a CPU tells whether they are right."""
    x, weight = operands(case)
    expected, magnitude = reference(case, x, weight)
    programs = libraries.dense(case, x, weight)
    assert programs.keys() == {"cudnn nchw", "cudnn nhwc", "unfold + bmm"}
    for program in programs.values():
        out = program()
        assert out.shape == case.contraction.output_shape
        assert error_share(case, out, expected, magnitude) <= 1


def test_wrong_outputs_are_seen():
    case = Case("small", Contraction((3,), 64, 32), "none", 0.0)
    x, weight = operands(case)
    expected, magnitude = reference(case, x, weight)
    assert error_share(case, expected.float(), expected, magnitude) <= 1
    assert error_share(case, expected.float() * 1.001, expected, magnitude) > 1
    assert error_share(case, expected.float() * float("nan"), expected, magnitude) == float("inf")


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_libraries_that_refuse_are_named(monkeypatch):
    case = Case("small", Contraction((3,), 64, 32), "balanced", 0.75)
    monkeypatch.setattr(device, "current", Timeline)
    found, missing = libraries.sparse(case, *operands(case), tune=False)
    assert missing["triton bsr"] == "ValueError: only blocks"
    assert missing["cusparselt 2:4"] == "ValueError: the mask is not 2:4"
    (name, program), *rest = found.items()
    assert (name, rest) == ("cusparse csr", [])
    x, weight = operands(case)
    assert torch.allclose(program(), x @ weight.t(), atol=1e-5)
