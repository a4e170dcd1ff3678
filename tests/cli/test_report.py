import json

import pytest


@pytest.fixture
def artifact(call, here, pt2):
    call("compile", pt2, "--no-measure", "-o", here / "model.tvms")
    return here / "model.tvms"


def test_the_page_of_an_artifact(call, call_json, here, pt2, artifact):
    assert "wrote page.html" in call("report", artifact, "-o", "page.html").stdout
    page = (here / "page.html").read_text(encoding="utf-8")
    manifest = json.loads((artifact / "manifest.json").read_bytes())
    for record in manifest["decisions"]:
        assert f"<td>{record['layer']}</td>" in page
        assert record["reason"].split(";")[0] in page
    assert "1 of 2 layers sparse" in page
    assert manifest["versions"]["tvm"] in page
    assert "Where the time goes" not in page


def test_pages_are_not_replaced_unasked(call, here, artifact):
    (here / "page.html").write_text("mine")
    assert "exists" in call("report", artifact, "-o", "page.html", status=1).stderr
    assert (here / "page.html").read_text() == "mine"
    call("report", artifact, "-o", "page.html", "--force")
    assert (here / "page.html").read_text().startswith("<!doctype html>")


def test_damage_is_found_before_anything_is_written(call, here, artifact):
    text = (artifact / "manifest.json").read_text()
    (artifact / "manifest.json").write_text(text.replace("balanced", "balanecd"))
    assert "manifest.json" in call("report", artifact, "-o", "page.html", status=1).stderr
    assert not (here / "page.html").exists()
    assert "missing" in call("report", here / "missing", "-o", "page.html", status=1).stderr
