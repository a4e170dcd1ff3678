"""Fourier transforms of fixed axes, and complex numbers between them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.frontends.running import run
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends import load

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


USES = {
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


@pytest.mark.parametrize("use", USES)
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
