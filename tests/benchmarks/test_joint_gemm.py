import numpy as np
import pytest

from benchmarks.papers import joint_gemm
from tvm_sparse.patterns.joint import Joint


@pytest.mark.parametrize("mix", [0.0, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("sparsity", [0.5, 0.9])
def test_all_mixes_reach_the_same_sparsity(mix, sparsity):
    fine, coarse = Joint.targets(joint_gemm.target_of(sparsity, mix), mix)
    assert 1 - (1 - fine) * (1 - coarse) == pytest.approx(sparsity)
    weight = np.random.default_rng(0).standard_normal((256, 1024)).astype(np.float32)
    mask = joint_gemm.mask_of(weight, sparsity, mix, 256, 4)
    assert 1 - mask.mean() == pytest.approx(sparsity, abs=0.02)


def row(*times):
    mixes = np.linspace(0, 1, len(times))
    ours = [
        {"mix": p, "formats": {"block": {"median_us": t}}}
        for p, t in zip(mixes, times, strict=True)
    ]
    dense = {"oneDNN": {"median_us": 100.0}}
    return {
        "figure": 5,
        "sparsity": 0.7,
        "ours": ours,
        "libraries_dense": dense,
        "ours_dense": dense,
        "libraries_sparse_at_p_0": {"MKL": {"median_us": 300.0}},
    }


def test_claims_are_counted_and_worded():
    rows = [row(10, 20, 30), row(30, 50, 20)]
    found = joint_gemm.claims(rows)
    assert found == {"rows": 2, "block_first": 1, "mixes": 2, "between": 1}
    page = joint_gemm.markdown({"rows": rows[:1]})
    assert "the first statement holds; 1 of 1 joint masks" in page
    assert "| 0.1 (oneDNN) |" in page
    assert "faster than balanced sparsity in 1 of 2 rows" in joint_gemm.finding({"rows": rows})
