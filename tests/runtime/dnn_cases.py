"""Convolutions of small integers by cuDNN's stand-in: a program for ``test_dnn.py``."""

from __future__ import annotations

import numpy as np

from tests.runtime.library_cases import behind, called, print_all, small
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction, reference


def contraction(case):
    """Return what a case computes."""
    batch, height, width, channels, features = case["size"]
    window = [case[name] for name in ("taps", "borders", "strides", "dilation")]
    extents = zip((height, width), *window, strict=True)
    lead = [(n + 2 * b - d * (k - 1) - 1) // s + 1 for n, k, b, s, d in extents]
    taps, borders, strides, dilation = map(tuple, window)
    return Contraction(
        (batch, *lead),
        channels,
        features,
        taps,
        strides,
        dilation,
        (height, width),
        Numerics.uniform(case["dtype"]),
        borders,
    )


def run(case):
    """Return the status of a convolution, and whether it is right."""
    rng, c = np.random.default_rng(0), contraction(case)
    given = {"x": small(rng, *c.input_shape), "w": small(rng, *c.matrix_shape)}
    given |= {"bias": small(rng, c.features), "residual": small(rng, *c.output_shape)}
    wanted = behind(case, reference(c, given["x"], given["w"]), given)
    typed = {name: array.astype(case["dtype"]) for name, array in given.items()}
    numbers = [*case["size"], *c.taps, *c.borders, *c.strides, *c.dilation]
    return called("tvm_sparse.dnn.convolution", case, typed, wanted.astype(case["dtype"]), numbers)


if __name__ == "__main__":
    print_all(run)
