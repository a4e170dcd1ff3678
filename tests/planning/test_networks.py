import torch

from tvm_sparse.planning.networks import PIECES, alike


def test_batches_are_cut_into_pieces_like_the_example():
    x = torch.arange(20.0).reshape(5, 4)
    found = alike([x, torch.zeros(3, 7)], torch.zeros(2, 4))
    assert [tuple(b.shape) for b in found] == [(2, 4), (2, 4)]
    assert torch.equal(torch.cat(found), x[:4])


def test_pieces_of_mappings_and_of_lists_of_one():
    batch = {"a": torch.zeros(4, 3), "b": torch.ones(4, 2), "flag": True}
    found = alike([batch], {"a": torch.zeros(1, 3), "b": torch.zeros(1, 2), "flag": True})
    assert len(found) == 4 and found[0]["flag"] is True and found[0]["b"].shape == (1, 2)
    assert alike([(torch.zeros(2, 3),)], torch.zeros(1, 3))[0].shape == (1, 3)
    assert len(alike([torch.zeros(1000, 3)], torch.zeros(1, 3))) == PIECES


def test_without_a_batch_of_its_shapes_the_example_stands_alone():
    example = torch.zeros(2, 4)
    for other in (torch.zeros(8, 5), torch.zeros(1, 4), {"x": torch.zeros(2, 4)}):
        assert alike([other], example) == [example]
    assert alike([], example) == [example]
