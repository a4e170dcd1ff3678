"""Whether a network is slower with its zeros used than without: layers are not all there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_sparse.base.notes import Note
from tvm_sparse.selection.decisions import DENSE, ON_REQUEST, Decisions


def worth_a_look(decisions: Decisions, notes: Sequence[Note]) -> bool:
    """Whether zeros changed a network whose times a model knows, and no measurement.

    ``notes`` are what passes did to it before, for the sake of zeros.
    """
    changed = bool(notes) or any(record.chosen not in DENSE for record in decisions)
    measured = any(record.dense_us or record.sparse_us for record in decisions)
    return changed and not measured and decisions.modelled_us is not None


def all_dense(sparse: Decisions, dense: Decisions) -> Decisions | None:
    """Return ``dense`` with the reason, if the model finds that network as fast; else ``None``."""
    ours, theirs = sparse.modelled_us, dense.modelled_us
    if ours is None or theirs is None or ours < theirs:
        return None
    told = f"all layers dense: {theirs:.1f} us by the model, {ours:.1f} us with their zeros used"
    records = [replace(r, reason=r.reason.replace(ON_REQUEST, told)) for r in dense]
    return replace(dense, records=records)
