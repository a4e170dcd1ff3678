import json

from tvm_sparse.pruning.report import LayerReport, Report

REPORT = Report(
    "balanced",
    (
        LayerReport("a", (2, 50), "balanced 1 of 2", 0.5, 0.5, 100),
        LayerReport("b", (1, 300), "balanced 1 of 4", 0.5, 0.75, 300, "a note"),
    ),
    {"c": "in ignore"},
)


def test_overall_sparsity_counts_weights():
    assert REPORT.sparsity == (50 + 225) / 400
    assert Report("none", ()).sparsity == 0


def test_lookup_json_and_text():
    assert REPORT["b"].note == "a note"
    assert json.loads(json.dumps(REPORT.to_json()))["layers"][0]["name"] == "a"
    text = str(REPORT)
    assert "balanced: 68.75% zeros in 2 layers" in text
    assert "75.00%  balanced 1 of 4  1x300  (a note)" in text
    assert "c: skipped, in ignore" in text
