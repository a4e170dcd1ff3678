import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.deprune.recalibration import Unaligned, recalibrate


def layers(*kept, total=288):
    return [Unaligned(f"dw{i}", (32, 1, 3, 3), k, total) for i, k in enumerate(kept)]


def test_by_hand():
    # eps = 4, 16, 30, 8; alpha the same everywhere: beta ranks dw0, dw3, dw1, dw2.
    found = recalibrate(layers(68, 80, 62, 40), lambda layer: 1.2)
    assert [(r.kept, r.mark) for r in found] == [(64, "o"), (96, "u"), (64, "u"), (32, "o")]
    assert found[1].beta == pytest.approx(1.2 / 16)


def test_alpha_decides_and_may_be_a_table():
    table = {"dw0": 1.0, "dw1": 9.0}
    assert [r.mark for r in recalibrate(layers(68, 80), table)] == ["u", "o"]
    with pytest.raises(InputError, match="dw2: has no entry in the alpha table"):
        recalibrate(layers(68, 80, 70), table)


def test_alpha_is_asked_only_for_ragged_layers_and_sees_both_counts():
    asked = []

    def alpha(layer):
        asked.append((layer.name, layer.kept, layer.below, layer.above, layer.overflow))
        return 1.0

    found = recalibrate(layers(64, 70), alpha)
    assert asked == [("dw1", 70, 64, 96, 6)]
    assert [(r.kept, r.mark) for r in found] == [(64, ""), (96, "u")]


def test_a_layer_never_loses_everything():
    found = recalibrate(layers(1, 70), lambda layer: 1.0)
    assert [(r.kept, r.mark) for r in found] == [(32, "u"), (96, "u")]


def test_a_short_layer_fills_up_to_what_it_has():
    assert recalibrate(layers(30, total=72), lambda _: 1.0)[0].kept == 32
    assert recalibrate(layers(70, total=72), lambda _: 1.0)[0].kept == 72


@pytest.mark.parametrize("alpha", [0, -1, float("nan"), float("inf")])
def test_alpha_must_be_a_speed_up(alpha):
    with pytest.raises(InputError, match="a finite speed-up above 0"):
        recalibrate(layers(33), lambda _: alpha)


@given(st.lists(st.integers(0, 288), max_size=20), st.randoms(use_true_random=False))
def test_invariants(kept, random):
    before = layers(*kept)
    after = recalibrate(before, {layer.name: random.uniform(0.5, 2) for layer in before})
    marks = [r.mark for r in after]
    assert all(r.kept % 32 == 0 for r in after)
    assert all(abs(r.kept - k) < 32 for r, k in zip(after, kept, strict=True))
    assert marks.count("o") <= len([k for k in kept if k % 32]) // 2
    over = [r.beta for r in after if r.mark == "o"]
    under = [r.beta for r, b in zip(after, before, strict=True) if r.mark == "u" and b.below]
    assert not over or not under or min(over) >= max(under)
