from benchmarks.papers import pages


def test_overview_links_to_every_result(tmp_path):
    shown = [
        (pages.Page("A paper", name, lambda _: f"# Title\n\n{name}", None, lambda c: c["said"]), c)
        for name, c in (("one", {"said": "First."}), ("two", {"said": "Second."}))
    ]
    text = pages.overview(shown, pages.RESULTS.parents[1] / "docs" / "performance")
    assert text.count("## A paper") == 1
    link = "[Title](../../benchmarks/results/papers/two.md)"
    assert f"* {link}. Second." in text


def test_every_result_has_a_page():
    names = [page.name for page in pages.PAGES]
    assert len(set(names)) == len(names)
    found = {path.stem for path in (pages.RESULTS / "papers").glob("*.json")}
    assert {name for name in found if "_accuracy_" not in name} <= set(names)
