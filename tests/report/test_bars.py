import xml.etree.ElementTree as ET

from tvm_sparse.report.bars import bars

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_long_as_their_values():
    root = ET.fromstring(bars([("a", 10.0), ("b", 20.0)], "us"))
    first, second = (float(r.get("width")) for r in root.iter(f"{SVG}rect"))
    assert second == 2 * first
    assert [r.get("class") for r in root.iter(f"{SVG}rect")] == ["first", "other"]


def test_names_are_escaped():
    root = ET.fromstring(bars([("<b> & c", 1.0)], "us"))
    assert next(root.iter(f"{SVG}text")).text == "<b> & c"


def test_no_rows_are_no_error():
    assert not [*ET.fromstring(bars([], "us")).iter(f"{SVG}rect")]
