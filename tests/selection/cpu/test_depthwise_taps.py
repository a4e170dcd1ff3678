"""When pruned taps of depthwise kernels are offered, and in which width."""

from __future__ import annotations

import numpy as np

from tests.kernels import host
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cpu.depthwise_taps import depthwise_taps_candidates


def offered(kept):
    channels = len(kept)
    window = ((1, 4, 4), channels, channels, (3, 3), (1, 1), (1, 1), (6, 6))
    contraction = Contraction(*window, depthwise=True)
    return list(depthwise_taps_candidates(contraction, Scan(kept.astype(np.float32)), host()))


def test_taps_that_sixteen_channels_share():
    kept = np.zeros((32, 9), bool)
    kept[:16, [1, 4]] = kept[16:, [0, 4, 8]] = True
    (candidate,) = offered(kept)
    assert candidate.format.group == 16
    assert candidate.work == 5 / 18


def test_narrow_groups_where_wide_ones_share_little():
    kept = np.zeros((32, 9), bool)
    for group in range(4):
        kept[8 * group : 8 * group + 8, 2 * group : 2 * group + 2] = True
    (candidate,) = offered(kept)
    assert candidate.format.group == 8


def test_odd_channels_are_refused_with_the_reason():
    (reason,) = offered(np.ones((12, 9), bool))
    assert reason == "depthwise taps need a multiple of 8 channels, found 12"
