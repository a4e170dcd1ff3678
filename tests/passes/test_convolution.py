"""Convolution calls as contractions: plain, strided, depthwise, grouped, of unknown batch."""

from __future__ import annotations

import pytest
from tvm import relax, tirx

from tests.passes.modules import module
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.passes.convolution import convolution, extent
from tvm_sparse.passes.rewrite import op_name


def contraction(batch, kernel, groups=1, strides=(1, 1), borders=(1, 1)):
    """Return what a convolution of a 9 x 8 image of 12 channels contracts."""
    found = []

    def body(x, w):
        options = {"data_layout": "NHWC", "kernel_layout": "OHWI", "groups": groups}
        return relax.op.nn.conv2d(x, w, strides=strides, padding=borders, **options)

    mod = relax.transform.Normalize()(module(body, (batch, 9, 8, 12), kernel))

    def look(expr):
        if op_name(expr) == "nn.conv2d":
            found.append(convolution(expr, expr.args[0], kernel, borders))

    relax.analysis.post_order_visit(mod["main"].body, look)
    (result,) = found
    return result


def test_plain():
    expected = Contraction((2, 5, 8), 12, 20, (3, 3), (2, 1), (1, 1), (9, 8), borders=(1, 1))
    assert contraction(2, (20, 3, 3, 12), strides=(2, 1)) == expected


def test_depthwise():
    found = contraction(2, (12, 3, 3, 1), groups=12)
    assert found.depthwise
    assert (found.columns, found.features, found.lead) == (12, 12, (2, 9, 8))
    assert found.matrix_shape == (12, 9)


@pytest.mark.parametrize("kernel", [(12, 3, 3, 4), (24, 3, 3, 4)])
def test_other_groups_have_no_operator(kernel):
    assert contraction(2, kernel, groups=3) is None


def test_an_unknown_batch_is_a_fresh_symbol():
    batch = tirx.Var("n", "int64")
    (first, *rest) = contraction(batch, (20, 3, 3, 12)).lead
    assert not isinstance(first, int)
    assert not first.same_as(batch)
    assert rest == [9, 8]
    assert extent(7) == 7
