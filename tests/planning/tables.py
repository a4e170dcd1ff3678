"""Tables made by hand for tests of plans: no network, no measurement."""

import numpy as np

from tvm_sparse.base.targets import parse_target, spelled, threads_of
from tvm_sparse.planning.costs import Costs
from tvm_sparse.planning.tables import Point, Tables

TARGET = parse_target("cpu").target
LEVELS = (0.0, 0.5, 0.75)
US = np.array([[100.0, 60, 35], [200, 110, 60], [50, 50, 50]])
LOSSES = np.array([[0, 0.01, 0.05], [0, 0.02, 0.03], [0, 0.001, 0.002]])


def costs(scale=1.0, source="measured", drop=0.0):
    return Costs(US * scale, 150.0, US * 40, 1000.0, source, drop)


def tables(**numerics):
    """Three layers with two levels; the dense network takes 500 us, the fastest 295."""

    def point(label, choice, drop):
        loss = float(LOSSES[np.arange(3), choice].sum())
        return Point(label, costs().whole_us(choice), costs().whole_bytes(choice), loss, drop)

    labels = ("dense", "balanced 50 %", "balanced 75 %")
    return Tables(
        layers=("a.weight", "b.weight", "c.weight"),
        sizes=(100, 200, 50),
        candidates=labels,
        levels=LEVELS,
        recipes=(None, *({"method": "balanced", "sparsity": s} for s in LEVELS[1:])),
        costs=numerics or {"float32": costs()},
        losses=LOSSES,
        uniform=(point(labels[1], [1, 1, 1], 0.05), point(labels[2], [2, 2, 2], 0.2)),
        mixed=(
            point("", [0, 1, 0], 0.03),
            point("", [1, 2, 0], 0.06),
            point("", [2, 2, 0], 0.15),
        ),
        dense_us=500.0,
        target=spelled(TARGET),
        threads=threads_of(TARGET),
    )
