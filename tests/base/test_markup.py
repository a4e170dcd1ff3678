from tvm_sparse.base.markup import html_table


def test_cells_are_escaped_and_numbers_short():
    table = html_table(["a<b"], [["<i>"], [1.23456], [None]])
    assert "<th>a&lt;b</th>" in table
    assert "<td>&lt;i&gt;</td>" in table
    assert "<td>1.235</td>" in table
    assert "<td></td>" in table
