"""The callback of Lightning, under a stand-in and, where it is installed, the real trainer."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tvm_sparse as ts
from tests.pruning.trainers import Module, Trainer, packages
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning import BalancedPruning, Levels, PatternPruning, Pruner
from tvm_sparse.pruning import lightning as callbacks
from tvm_sparse.pruning.lightning import PruningCallback

X = torch.rand(16, 64, generator=torch.Generator().manual_seed(0))
LOADER = [(x,) for x in X.split(4)]


def pruner(module):
    method = PatternPruning(Block(2, 2), 0.75, criterion="taylor")
    return Pruner(module, method, schedule=Late())


class Late(Levels):
    """Half of the blocks in the second epoch, three quarters in the third."""

    def __init__(self):
        super().__init__([0.5, 0.75])

    def due(self, step):
        return super().due(step - 1) if step else None


@pytest.fixture(autouse=True)
def stand_in(request, monkeypatch):
    """Let the stand-in be what is installed, but for tests of the real package."""
    callbacks._class.cache_clear()
    if "package" not in request.fixturenames:
        for name, module in packages().items():
            monkeypatch.setitem(sys.modules, name, module)
    yield
    callbacks._class.cache_clear()


def masks(callback):
    return {name: mask.tolist() for name, mask in callback.pruner.masks.items()}


def test_hooks_prune_as_a_loop_of_ones_own():
    module, own, callback = Module(), Module(), PruningCallback(pruner)
    assert callback.state_dict() == {}
    Trainer(4, [callback]).fit(module, LOADER)
    assert module.logged == [("sparsity", share) for share in (0.5, 0.75, 0.75)]

    by_hand = pruner(own)
    optimizer = torch.optim.SGD(own.parameters(), 0.1)
    for _ in range(4):
        by_hand.step()
        for x in X.split(4):
            optimizer.zero_grad()
            own(x).square().sum().backward()
            by_hand.accumulate()
            optimizer.step()
    assert masks(callback) == {name: mask.tolist() for name, mask in by_hand.masks.items()}
    for a, b in zip(module.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_an_epoch_that_is_resumed_is_pruned_once():
    module, first = Module(), PruningCallback(pruner)
    Trainer(2, [first]).fit(module, LOADER)
    copy, again = Module(), PruningCallback(pruner)
    trainer = Trainer(3, [again])
    again.setup(trainer, copy, "fit")
    copy.load_state_dict(module.state_dict())
    again.load_state_dict(first.state_dict())
    trainer.current_epoch = 1  # which was begun
    again.on_train_epoch_start(trainer, copy)
    assert masks(again) == masks(first)
    trainer.fit(copy, LOADER, first=2)
    assert again.pruner.report.sparsity == 0.75


def test_magnitudes_take_no_scores_and_a_new_module_gets_its_own_pruner():
    callback = PruningCallback(lambda module: Pruner(module, BalancedPruning(0.5)))
    trainer, module = Trainer(1, [callback]), Module()
    trainer.fit(module, LOADER)
    assert callback.pruner.state_dict()["importance"] == {}
    before = callback.pruner
    callback.setup(trainer, module, "test")
    assert callback.pruner is before
    callback.setup(trainer, Module(), "fit")
    assert callback.pruner is not before


def test_split_weights_and_a_missing_package_are_refused(monkeypatch):
    trainer = Trainer(1, [])
    trainer.strategy = type("Own", (type("FSDPStrategy", (), {}),), {})()
    with pytest.raises(UnsupportedError, match=r"FSDPStrategy splits weights.*DDP"):
        PruningCallback(pruner).setup(trainer, Module(), "fit")
    monkeypatch.setattr(callbacks, "_PACKAGES", ("no_such_package",))
    with pytest.raises(InputError, match="pip install lightning"):
        PruningCallback(pruner)


def trained(lightning, folder, epochs_, **given):
    """Train a module by the real trainer; return it and the callback."""

    class Own(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.body = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 4))

        def training_step(self, batch, index):
            return self.body(batch[0]).square().sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)

    module, callback = Own(), PruningCallback(pruner)
    trainer = lightning.Trainer(
        max_epochs=epochs_,
        accelerator="cpu",
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=2,
        default_root_dir=folder,
    )
    trainer.fit(module, DataLoader(TensorDataset(X), 4), **given)
    return trainer, module, callback


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_under_the_real_trainer(package, tmp_path, monkeypatch):
    lightning = pytest.importorskip(package)
    monkeypatch.setattr(callbacks, "_PACKAGES", (package,))
    trainer, module, whole = trained(lightning, tmp_path, 4)
    assert isinstance(whole, lightning.Callback)
    assert float(trainer.callback_metrics["sparsity"]) == 0.75

    half, _, _ = trained(lightning, tmp_path, 2)
    half.save_checkpoint(tmp_path / "half.ckpt")
    _, resumed, callback = trained(lightning, tmp_path, 4, ckpt_path=tmp_path / "half.ckpt")
    assert masks(callback) == masks(whole)
    for a, b in zip(resumed.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)

    with_masks = ts.inspect(module.body)
    callback.pruner.squash_mask()
    assert [row.sparsity for row in with_masks.rows] == [0.75, 0.75]
    assert [float((m.weight == 0).float().mean()) for m in resumed.body[::2]] == [0.75, 0.75]
