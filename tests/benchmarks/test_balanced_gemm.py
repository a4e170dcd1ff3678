import numpy as np
import pytest

from benchmarks.papers import balanced_gemm


@pytest.mark.parametrize("kept", balanced_gemm.KEPT)
def test_all_patterns_have_the_same_sparsity(kept):
    scores = np.random.default_rng(0).random((64, 256))
    for mask in balanced_gemm.masks_of(scores, kept).values():
        assert 1 - mask.mean() == pytest.approx(1 - kept / 32, abs=0.02)


def test_page_shows_our_ratio_beside_the_papers():
    def times(us):
        return {"x": {"median_us": us}}

    row = {
        "batch": 1,
        "kept": 8,
        "sparsity": 0.75,
        "libraries_dense": times(20e3),
        "ours_dense": times(21e3),
        "ours": {"balanced": times(8e3), "block": times(5e3), "unstructured": times(9e3)},
    }
    page = balanced_gemm.markdown({"rows": [row]})
    assert "| 8.00 (x, 2.50x) | 5.00 (x, 4.00x) | 9.00 (x, 2.22x) | 2.1x |" in page
    assert "faster than unstructured sparsity in 1 of 1 rows" in page
    assert "2.50x (paper 2.1x)" in balanced_gemm.finding({"rows": [row]})
