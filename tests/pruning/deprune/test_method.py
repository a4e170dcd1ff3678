import pytest
import torch
from torch import nn

from tests import zoo
from tvm_sparse.errors import InputError
from tvm_sparse.pruning import DEPrune, Levels, Pruner, deprune
from tvm_sparse.pruning.deprune.diagonal import imbalance, kept_vectors
from tvm_sparse.pruning.masks import squashed_copy


class Blocks(nn.Module):
    """Stem, two separable blocks of which the second has a residual, head."""

    def __init__(self, channels=64):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.dw1 = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.pw1 = nn.Sequential(nn.Conv2d(channels, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.expand = nn.Conv2d(8, channels, 1)
        self.dw2 = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.pw2 = nn.Sequential(nn.Conv2d(channels, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        x = self.pw1(torch.relu(self.dw1(torch.relu(self.stem(x)))))
        x = x + self.pw2(torch.relu(self.dw2(torch.relu(self.expand(x)))))
        return self.head(x).mean((2, 3))


def lopsided():
    """The second sub-GEMM of dw1 has a hundred times the weights of the first."""
    torch.manual_seed(0)
    model = Blocks().eval()
    model.dw1.weight.data[32:] *= 100
    return model


def test_dcp_has_one_threshold_and_bwt_equal_groups():
    dcp, bwt = lopsided(), lopsided()
    weight = dcp.dw1.weight.detach().abs()
    mask = deprune(dcp, 0.5, 0, variant="DEPrune").masks["dw1.weight"]
    assert weight[mask].min() >= weight[~mask].max()
    assert int(mask.sum()) == 288
    assert kept_vectors(mask.numpy())[0] < 5
    report = deprune(bwt, 0.5, 0).report
    assert kept_vectors((bwt.dw1.weight != 0).numpy()) == [144, 144]
    assert imbalance((bwt.dw1.weight != 0).numpy()) == 0
    assert report["dw1"].pattern == "depthwise taps, 144 kept in each group of 32 channels"
    assert [layer.name for layer in report.layers] == ["dw1", "dw2"]


def test_tied_pw_conv2_lose_the_same_filters_and_so_do_their_readers():
    model = lopsided()
    strength = sum((m[0].weight.detach() ** 2).sum((1, 2, 3)) for m in (model.pw1, model.pw2))
    masks = (pruner := deprune(model, 0, 0.25)).masks
    kept = masks["pw1.0.weight"].flatten(1).any(1)
    assert int(kept.sum()) == 6
    assert strength[kept].min() > strength[~kept].max()
    assert torch.equal(masks["pw2.0.weight"].flatten(1).any(1), kept)
    for key in ("pw1.1.weight", "pw1.1.bias", "pw2.1.weight", "pw2.1.bias"):
        assert torch.equal(masks[key], kept)
    for key in ("expand.weight", "head.weight"):
        assert torch.equal(masks[key].any(0).flatten(), kept)
    assert pruner.report["pw1.0"].note == "6 of 8 filters; tied: pw1.0, pw2.0"
    assert "stem.weight" not in masks
    assert "dw1.weight" not in masks


def test_removed_filters_are_zero_wherever_they_are_read():
    model = zoo.torchvision_model("mobilenet_v2")
    pruner = deprune(model, 0.75, 0.5)
    plain, disturbed = squashed_copy(model).eval(), squashed_copy(model).eval()
    modules = dict(disturbed.named_modules())
    for channels in pruner.selection.sets:
        keep = pruner.masks[channels.rows[0].key].flatten(1).any(1)
        for layer in channels.columns:
            modules[layer.name].weight.data[:, ~keep] = 1e3
    x = torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(plain(x), disturbed(x))


def test_hsr_aligns_kept_vectors():
    # 41 % leaves 170 of 288 (eps 10) in each layer: the first in the ranking drops to 160, the
    # other fills up to 192.
    model = lopsided()
    table = {"dw1": 1.05, "dw2": 1.2}
    report = deprune(model, 0.41, 0, variant="DEPrune-BH", alpha=table).report
    assert kept_vectors((model.dw2.weight != 0).numpy()) == [160, 160]
    assert kept_vectors((model.dw1.weight != 0).numpy()) == [192, 192]
    assert report["dw2"].note == "HSR o: 170 -> 160 of 288 vectors, alpha 1.200, beta 0.1200"
    assert report["dw1"].note.startswith("HSR u: 170 -> 192")


def test_hsr_takes_back_the_largest_weights():
    plain, aligned = lopsided(), lopsided()
    before = deprune(plain, 0.41, 0).masks
    after = deprune(aligned, 0.41, 0, variant="DEPrune-BH", alpha=lambda _: 1.1).masks
    for key, module in (("dw1.weight", "dw1"), ("dw2.weight", "dw2")):
        weight = getattr(lopsided(), module).weight.detach().abs()
        for rows in (slice(0, 32), slice(32, 64)):
            kept = after[key][rows]
            assert weight[rows][kept].min() >= weight[rows][~kept].max()
        changed = before[key] ^ after[key]
        assert changed.any()


def test_hsr_of_filters():
    model = Blocks(channels=32)
    model.pw1[0] = nn.Conv2d(32, 100, 1, bias=False)
    model.pw1[1] = nn.BatchNorm2d(100)
    model.expand = nn.Conv2d(100, 32, 1)
    model.pw2[0] = nn.Conv2d(32, 100, 1, bias=False)
    model.pw2[1] = nn.BatchNorm2d(100)
    model.head = nn.Conv2d(100, 4, 1)
    options = {"variant": "DEPrune-BH", "alpha": lambda _: 1.1, "align": ("pointwise",)}
    report = deprune(model, 0.41, 0.3, **options).report
    assert report["pw1.0"].note.startswith("96 of 100 filters; HSR u: 70 -> 96")
    assert report["dw1"].note == ""


def test_rising_sparsity_stays_aligned():
    model = lopsided()
    asked = []

    def alpha(layer):
        asked.append(layer.name)
        return 1.1

    method = DEPrune(0.8, 0.5, "DEPrune-BH", alpha)
    pruner = Pruner(model, method, schedule=Levels([0.2, 0.4, 0.5, 0.7, 0.8]))
    for _ in range(5):
        pruner.step()
        for name in ("dw1", "dw2"):
            kept = kept_vectors((getattr(model, name).weight != 0).numpy())
            assert len(set(kept)) == 1
            assert kept[0] % 32 == 0
    assert asked


def test_include_and_ignore():
    report = deprune(lopsided(), 0.5, 0.5, ignore=["dw1", "pw2.0"]).report
    assert report.skipped["dw1"] == "in ignore"
    assert report.skipped["pw1.0"] == "is tied to a layer left out"
    assert [layer.name for layer in report.layers] == ["dw2"]
    with pytest.raises(InputError, match="no tap and no filter"):
        deprune(lopsided(), 0.5, 0, ignore=["dw*"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"depthwise": 2}, "0 to 1"),
        ({"variant": "BH"}, "DEPrune-B or DEPrune-BH"),
        ({"variant": "DEPrune-BH"}, "no alpha"),
        ({"norm": "l0"}, "l1 or l2"),
    ],
)
def test_wrong_parameters(wrong, message):
    with pytest.raises(InputError, match=message):
        DEPrune(**{"depthwise": 0.5, **wrong})


def test_a_pruned_network_can_be_pruned_further():
    model = lopsided()
    first = deprune(model, 0.5, 0.25).masks["pw1.0.weight"].clone()
    second = deprune(model, 0.75, 0.5)
    assert second.report["dw1"].sparsity == 0.75
    assert int(second.masks["pw1.0.weight"].flatten(1).any(1).sum()) == 4
    assert not (second.masks["pw1.0.weight"] & ~first).any()
