"""Where signatures are asked for, what this process compiled runs, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.artifact.own_key import open_own, own_key, own_trust
from tvm_sparse.testing import emulate
from tvm_sparse_runtime import trust
from tvm_sparse_runtime.errors import RuntimeArtifactError, SparseRuntimeError
from tvm_sparse_runtime.library import load

FAST = ts.Config(measure=False)
MODEL, X = nn.Linear(8, 4).eval(), torch.ones(1, 8)


@pytest.fixture(params=["a key", "no key"])
def policy(request, tmp_path, monkeypatch):
    path = tmp_path / "public.pem"
    public = ed25519.Ed25519PrivateKey.generate().public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(public.public_bytes(serialization.Encoding.PEM, form))
    monkeypatch.setenv(trust.POLICY, str(path) if request.param == "a key" else "")


def test_nothing_is_signed_unless_somebody_asks(monkeypatch):
    monkeypatch.delenv(trust.POLICY, raising=False)
    assert own_key() is None
    assert own_trust() is None


def test_own_artifacts_open(policy, tmp_path):
    library = ts.compile(MODEL, (X,), config=FAST)
    path = library.export(tmp_path / "own.tvms", sign=own_key())
    np.testing.assert_allclose(open_own(path, own_trust())(X.numpy()), MODEL(X).detach(), 1e-5)
    with pytest.raises(RuntimeArtifactError, match=r"fits no trusted key|one of 0 trusted keys"):
        load(path)


def test_no_other_artifact_opens(policy, linear_artifact, tmp_path):
    with pytest.raises(RuntimeArtifactError, match="it has no signature"):
        open_own(linear_artifact, own_trust())
    with pytest.raises(SparseRuntimeError, match="True where keys are trusted"):
        open_own(linear_artifact, None)
    library = ts.compile(MODEL, (X,), config=FAST)
    other = library.export(tmp_path / "o.tvms", sign=ed25519.Ed25519PrivateKey.generate())
    with pytest.raises(RuntimeArtifactError, match="fits no trusted key"):
        open_own(other, own_trust())


@pytest.mark.grid
@needs_nvrtc
def test_emulation_under_a_policy(policy):
    emulation = emulate(ts.compile(MODEL, (X,), target="cuda:sm_90", config=FAST), X.numpy())
    np.testing.assert_allclose(emulation.outputs[0], MODEL(X).detach(), 1e-5, 1e-5)
