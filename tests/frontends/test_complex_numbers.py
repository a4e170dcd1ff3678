"""Fourier transforms of fixed axes, and complex numbers between them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.frontends.running import run
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends import load

MIXED = torch.randn(3, 4, 3, 5, 2, generator=torch.Generator().manual_seed(1))
WEIGHT = torch.randn(8, 4, 3, 2, generator=torch.Generator().manual_seed(0))


class Network(nn.Module):
    def __init__(self, use) -> None:
        super().__init__()
        self.use = use

    def forward(self, x):
        return self.use(x)


def filtered(x):
    y = torch.fft.rfft2(x, dim=(1, 2), norm="ortho") * torch.view_as_complex(WEIGHT)
    return torch.fft.irfft2(y, s=(8, 7), dim=(1, 2), norm="ortho")


def spectrum(x):
    window = torch.hann_window(16)
    return torch.stft(x[:, :, 0, 0].repeat(1, 8), 16, 4, 16, window, return_complex=True).abs()


def spectral(x):
    """The layer of a Fourier neural operator: a product of matrices at each kept frequency."""
    y = torch.fft.rfft2(x.permute(0, 3, 1, 2))
    kept = torch.einsum("bixy,ixyo->boxy", y[..., :4, :3], torch.view_as_complex(MIXED))
    result = torch.zeros(2, 5, 8, 4, dtype=torch.cfloat)
    result[:, :, :4, :3] = kept
    return torch.fft.irfft2(result, s=(8, 7))


def rotated(x):
    angles = torch.outer(torch.arange(8.0), torch.arange(7.0))
    turned = torch.view_as_complex(x[..., :2].contiguous()) * torch.polar(torch.ones(8, 7), angles)
    return torch.view_as_real(turned)


def parts(use):
    """Return a function of two complex tensors that returns the parts of ``use`` of them."""

    def function(x):
        y, z = torch.fft.fft(x, dim=1), torch.fft.fft(x.flip(2), dim=2)
        return torch.view_as_real(use(y, z).resolve_conj())

    return function


USES = {
    "spectral": spectral,
    "rotated": rotated,
    "matrices": parts(lambda y, z: y.transpose(-1, -2) @ z),
    "matrix onto": parts(
        lambda y, z: torch.addmm(y[0, :3, 0], y[0, 0].t(), z[0, 0], beta=2, alpha=0.5)
    ),
    "linear": parts(lambda y, z: torch.nn.functional.linear(y, z[0, 0])),
    "convolution": parts(
        lambda y, z: torch.nn.functional.conv1d(y[0], z[:, 0].repeat(1, 1, 2)[:, :7, :3])
    ),
    "quotients": parts(lambda y, z: y / z + y / 2 + 1 / (z + 3) + y / (1 + 2j)),
    "numbers": parts(lambda y, z: 2 - y + (1 - 2j) + torch.add(y, z, alpha=3)),
    "exponential": parts(lambda y, z: torch.exp(1j * y.real) + torch.exp(z / 8)),
    "angle": parts(lambda y, z: torch.complex(y.angle(), z.abs())),
    "chosen": parts(lambda y, z: torch.where(y.real > 0, y, 0) + z.masked_fill(z.imag > 0, 1j)),
    "parts": parts(lambda y, z: torch.cat([*y.split(2, 1)[::-1], z.chunk(2, 1)[1]], 1)),
    "picked": parts(lambda y, z: y[:, torch.tensor([2, 0])] + z.unbind(1)[1].unsqueeze(1)),
    "equal": parts(lambda y, z: torch.complex((y == z).float(), (y != y).float())),
    "norm": parts(lambda y, z: torch.linalg.vector_norm(y, dim=-1) + 0j),
    "mixed tokens": lambda x: torch.fft.fftn(torch.fft.fftn(x, dim=-1), dim=-2).real,
    "filter": filtered,
    "spectrum": spectrum,
    "even and odd": lambda x: (
        torch.fft.irfft(torch.fft.rfft(x, dim=1), dim=1)
        + torch.fft.irfft(torch.fft.rfft(x, dim=2), n=7, dim=2)
    ),
    "shift": lambda x: torch.fft.fftshift(torch.fft.fft2(x), dim=-1).imag,
    "correlation": lambda x: (
        torch.fft.ifft(torch.fft.fft(x, dim=1) * torch.fft.fft(x.flip(1), dim=1).conj(), dim=1).real
    ),
    "cut": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1)[:, :3], n=8, dim=1),
    "sums": lambda x: torch.view_as_real(
        2 * torch.fft.fft(x, n=5) * 1j + torch.fft.fft(x, n=5, norm="forward") - x[..., :1]
    ),
    "borders": lambda x: torch.view_as_real(
        torch.constant_pad_nd(torch.fft.fft(x, dim=1), (1, 2), 3.0)
    ),
    "long axes": lambda x: torch.view_as_real(
        torch.fft.ifft(torch.fft.fft(x.flatten(1)) * (1 + 2j))
        + torch.fft.fftn(x.permute(2, 1, 3, 0).reshape(7, 24, 2).repeat(1, 3, 1), dim=(0, 1)).sum()
    ),
}


SLOW = {"norm"}
"""LLVM takes two minutes for it."""


@pytest.mark.grid
@pytest.mark.parametrize(
    "use", [pytest.param(use, marks=pytest.mark.slow if use in SLOW else ()) for use in USES]
)
def test_transforms(use):
    x = torch.randn(2, 8, 7, 3, generator=torch.Generator().manual_seed(1))
    model = Network(USES[use])
    (found,) = run(load(model, x), x)
    expected = model(x)
    assert abs(found - expected.numpy()).max() < 3e-6 * max(1, float(expected.abs().max()))


def test_what_is_refused_by_name():
    x = torch.randn(2, 2003)
    with pytest.raises(UnsupportedError, match="an axis of 2003"):
        load(Network(lambda x: torch.fft.fft(x).real), x)
    with pytest.raises(UnsupportedError, match="complex numbers"):
        load(Network(torch.fft.fft), x[:, :5])
    with pytest.raises(UnsupportedError, match="complex numbers"):
        load(Network(lambda x: x.abs()), x[:, :5].to(torch.complex64))


def test_magnitudes_neither_overflow_nor_vanish():
    x = torch.tensor([[1e30, -2e30, 0.0, 1e30], [3e-30, 1e-30, -2e-30, 0.0], [0.0] * 4])
    model = Network(lambda x: torch.fft.fft(x).abs())
    (found,) = run(load(model, x), x)
    assert torch.allclose(torch.from_numpy(found), model(x), rtol=2e-6, atol=0)


class Filter(nn.Module):
    """A filter whose weights are complex parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6, 9, dtype=torch.cfloat))

    def forward(self, x):
        return torch.fft.irfft(torch.einsum("bif,iof->bof", torch.fft.rfft(x), self.weight), n=16)


def test_complex_parameters():
    model, x = Filter().eval(), torch.randn(2, 4, 16)
    (found,) = run(load(model, (x,)), x)
    torch.testing.assert_close(torch.as_tensor(found), model(x).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "use",
    [torch.linalg.inv, torch.linalg.det, lambda y: torch.linalg.qr(y)[1], torch.linalg.svdvals],
)
def test_factors_of_complex_matrices_are_refused(use):
    """They are computed in float64, which has no imaginary part."""
    network = Network(lambda x: use(torch.fft.fft(x)).abs())
    with pytest.raises(UnsupportedError, match=r"operator 'torch.linalg.* has complex numbers"):
        load(network, (torch.randn(3, 3),))
