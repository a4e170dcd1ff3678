"""Whatever a library is called with: the right numbers, or one ``TensorError``."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from tests.artifact.programs import linear_artifact, linear_reference
from tvm_sparse_runtime import TensorError, engine, load

__all__ = ["linear_artifact"]
DTYPES = ["float32", "float32", "float64", "float16", "int32", "bool", "complex64", ">f4", "object"]


def array(generator: random.Random) -> np.ndarray:
    """Return an array of any shape, dtype and layout."""
    rank = generator.choice([2, 2, 2, 2, 0, 1, 3])
    shape = [generator.choice([0, 1, 2, 5])] * (rank > 1) + [generator.choice([64, 64, 63, 1, 0])]
    shape = ([3] * max(0, rank - 2) + shape)[: rank or 0]
    values = np.random.default_rng(generator.randrange(99)).integers(-3, 4, shape)
    made = values.astype(generator.choice(DTYPES))
    kind = generator.randrange(8)
    if kind == 0 and rank > 1:
        return np.asfortranarray(made)
    if kind == 1 and rank:
        return made[::-1]
    if kind == 2:
        return np.broadcast_to(made, (2, *made.shape))
    if kind == 3:
        return np.ma.masked_array(made, mask=False)
    if kind == 4:
        made.flags.writeable = False
    return made


NO_TENSORS = (None, 1.5, "x", [[1.0] * 64], {}, object(), np.ndarray, (3, 64))
WRAPS = (
    torch.from_numpy,
    lambda made: torch.from_numpy(made).requires_grad_(made.dtype.kind == "f"),
    engine.tensor,
)


def value(generator: random.Random) -> object:
    """Return an array, the same in another framework, or no tensor at all."""
    kind = generator.randrange(8)
    if kind == 0:
        return generator.choice(NO_TENSORS)
    sound = np.random.default_rng(kind).integers(-3, 4, (kind, 64)).astype("float32")
    made = sound if kind < 4 else np.array(array(generator))
    if kind % 2 and made.dtype.kind in "fi" and made.dtype.isnative and made.ndim:
        return generator.choice(WRAPS)(made)
    return made if kind < 4 else array(generator)


def as_numpy(given: object) -> np.ndarray:
    return np.asarray(given.detach() if isinstance(given, torch.Tensor) else np.from_dlpack(given))


@pytest.mark.parametrize("seed", range(4))
def test_any_call(linear_artifact, seed):
    generator, library = random.Random(seed), load(linear_artifact)
    refused = right = 0
    for _ in range(250):
        values = [value(generator) for _ in range(generator.choice([1, 1, 1, 1, 0, 2]))]
        try:
            outputs = library(*values)
        except TensorError:
            refused += 1
            continue
        right += 1
        (x,) = map(as_numpy, values)
        assert x.dtype == np.float32 and x.ndim == 2 and x.shape[1] == 64
        for found, expected in zip(outputs, linear_reference(x), strict=True):
            np.testing.assert_allclose(as_numpy(found), expected, atol=1e-3)
    assert refused > 50
    assert right > 10
