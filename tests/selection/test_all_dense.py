"""A network is not slower than its all-dense build, by the model."""

from dataclasses import replace

import pytest
import torch

import tvm_sparse as ts
from benchmarks.gpu.models import perceptron
from tvm_sparse.base.notes import Note
from tvm_sparse.selection.all_dense import all_dense, worth_a_look
from tvm_sparse.selection.decisions import ON_REQUEST, Decision, Decisions

LAYER = Decision("a", "linear", (4, 4), 0.5, "balanced 2 of 4", "balanced", "modelled faster")


def network(*times, chosen="balanced"):
    records = [
        replace(LAYER, layer=str(i), chosen=chosen, modelled_us=us) for i, us in enumerate(times)
    ]
    return Decisions(records)


def test_the_faster_sum_is_taken_and_ties_go_to_dense():
    dense = network(3.0, 3.0, chosen="dense")
    for record in dense:
        record.reason = f"a note; {ON_REQUEST}"
    assert all_dense(network(2.0, 3.5), dense) is None
    for slower in (network(2.0, 4.0), network(2.0, 4.5)):
        found = all_dense(slower, dense)
        assert [record.chosen for record in found] == ["dense", "dense"]
        assert all("a note; all layers dense: 6.0 us by the model" in r.reason for r in found)


def test_no_model_no_verdict():
    assert all_dense(network(None), network(1.0)) is None
    assert not worth_a_look(network(None), [])


def test_only_zeros_that_changed_something_are_worth_a_look():
    assert worth_a_look(network(1.0), [])
    assert not worth_a_look(network(1.0, chosen="dense"), [])
    assert worth_a_look(network(1.0, chosen="dense"), [Note("0", "3 of 4 outputs removed")])
    measured = Decisions([replace(LAYER, modelled_us=1.0, dense_us=2.0)])
    assert not worth_a_look(measured, [])


@pytest.mark.grid
@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:a10"])
def test_the_perceptron_that_lost_is_no_slower(target):
    """Its sparse build took 101 us on an H200, its dense one 51."""
    model, x = perceptron()
    sparse, dense = (
        ts.compile(model, example_inputs=(x,), target=target, config=ts.Config(sparse=on))
        for on in (True, False)
    )
    assert {record.chosen for record in sparse.decisions} == {"dense"}
    assert sparse.decisions.modelled_us <= dense.decisions.modelled_us


def test_a_network_that_loses_by_its_zeros_is_compiled_dense(monkeypatch):
    from tvm_sparse.program import compiler

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 128), torch.nn.Linear(128, 64)).eval()
    model[0].weight.data[:64] = 0
    model[0].bias.data[:64] = 0
    monkeypatch.setattr(compiler, "all_dense", lambda ours, theirs: all_dense(_twice(ours), theirs))
    found = ts.compile(model, example_inputs=(torch.zeros(32, 256),), target="cuda:sm_90")
    assert all(r.reason.startswith("all layers dense") for r in found.decisions)
    assert [record.shape for record in found.decisions] == [(128, 256), (64, 128)]


def _twice(decisions):
    records = [replace(r, modelled_us=2 * r.modelled_us) for r in decisions]
    return replace(decisions, records=records)
