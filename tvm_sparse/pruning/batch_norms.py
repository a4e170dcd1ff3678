"""Batch norms after pruning: the means and variances of what they read have changed."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tvm_sparse.base.batches import several
from tvm_sparse.pruning.compensation.calls import Batch, call_of, evaluating, watch


def reestimate_batch_norms(model: nn.Module, calibration: Iterable[Batch]) -> int:
    """Take running means and variances of all batch norms anew; return how many ran.

    For networks whose weights were pruned without being fitted: by magnitude, or filter by filter.
    :func:`.one_shot` fits them already and gains nothing by it.

    Parameters
    ----------
    model
        Changed in place. A batch norm that does not run keeps what it has.
    calibration
        Batches as for :func:`.one_shot`, of some dozens of samples each; moments are their mean.

    Raises
    ------
    InputError
        There is no batch, or the model does not run on one; the model is then as it was.
    """
    batches = list(several("calibration", calibration))
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
    before = [(norm.momentum, _moments(norm)) for norm in norms]
    ran: set[int] = set()
    done = False
    try:
        with evaluating(model):
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # a mean over all batches
                norm.training = True
            for batch in batches:
                watch(model, call_of(batch), norms, lambda norm, _: ran.add(id(norm)))
        done = True
    finally:
        for norm, (momentum, moments) in zip(norms, before, strict=True):
            norm.momentum = momentum
            for name, value in moments.items():
                if not done or id(norm) not in ran or not name.startswith("running"):
                    getattr(norm, name).copy_(value)
    return len(ran)


def _moments(norm: _BatchNorm) -> dict[str, Tensor]:
    """Return copies of the means, the variances and the count of batches that ``norm`` has seen."""
    return {name: buffer.clone() for name, buffer in norm.named_buffers(recurse=False)}
