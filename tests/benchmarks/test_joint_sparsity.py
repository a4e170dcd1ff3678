import pytest

from benchmarks.papers import joint_sparsity
from tvm_sparse.pruning import Exponential, JointPruning, OneShot


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(joint_sparsity, "CHANNELS", (64, 64))


def test_iterated_masks_meet_and_single_ones_do_not(small):
    method = JointPruning(0.5, 0.5)
    iterated = joint_sparsity.achieved(method, Exponential())
    once = joint_sparsity.achieved(method, OneShot())
    assert 56 < iterated["sparsity"] < 59  # the paper: 57.94
    assert once["sparsity"] > 70
    assert len(iterated["layers"]) == 2


def test_block_sparsity_is_exact(small):
    # Table II, p = 0: 49.90 %. The first layer's 27 columns leave an edge that is never pruned.
    found = joint_sparsity.achieved(JointPruning(0.5, 0.0), Exponential())
    assert found["layers"][1] == pytest.approx(49.90, abs=0.02)
    assert found["layers"][0] == pytest.approx(49.90 * 24 / 27, abs=0.4)


def test_page():
    row = {"target": 0.5, "mix": 0.5, "paper": 57.94, "ours": 57.18, "ours_one_shot": 73.12}
    one = {"block": 4, "target": 0.5, "dense_epochs": 20, "paper": 57.94, "ours": 57.18}
    page = joint_sparsity.markdown({"table_2": [row], "table_1": [one]})
    assert "| 50% | 0.5 | 57.94 | 57.18 | 73.12 |" in page
    assert "-0.76 to -0.76 points in Table II" in page
