import itertools

from benchmarks.gpu import cases
from benchmarks.gpu.queue import whole
from benchmarks.gpu.queue.step import Plan


def test_every_case_is_measured_those_of_a_weight_after_each_other():
    for part, listed in (("grid", cases.grid), ("papers", cases.papers)):
        pieces = list(whole.pieces(part, Plan()))
        assert [piece.name for piece in pieces] == [case.name for case in listed()]
        assert {piece.part for piece in pieces} == {part}
        weights = [(c.seed, c.contraction.dtype) for c in whole.cases(part, Plan())]
        changes = sum(one != other for one, other in itertools.pairwise(weights))
        assert changes == len(set(weights)) - 1


def test_kernels_of_all_pieces_are_built_before():
    plan = Plan()
    built = {kernel.name for kernel in whole.kernels("depthwise", plan)}
    needed = {kernel.name for piece in whole.pieces("depthwise", plan) for kernel in piece.needs}
    assert built == needed and len(needed) == 2 * len(list(cases.depthwise()))
