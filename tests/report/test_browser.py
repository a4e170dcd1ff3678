"""The report in a browser: sorting, filtering, narrow screens, and no error in its console."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.report.html import write

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32), nn.Linear(32, 10))
    ts.prune.balanced(model, 0.75, ignore=["3"]).squash_mask()
    path = tmp_path_factory.mktemp("report") / "small.html"
    config = ts.Config(measure=False)
    write(ts.compile(model.eval(), (torch.zeros(2, 64),), config=config), path)
    return path


@pytest.fixture
def page(browser, report):
    opened = browser.new_page(viewport={"width": 1000, "height": 800})
    errors = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text))
    opened.goto(report.as_uri())
    yield opened
    assert errors == []
    opened.close()


def layers(page):
    return page.locator("#layers tbody tr:visible td:first-child").all_text_contents()


def test_columns_sort_both_ways_by_keyboard(page):
    assert layers(page) == ["0", "2", "3"]
    button = page.get_by_role("button", name="sparsity")
    button.focus()
    page.keyboard.press("Enter")
    assert layers(page)[0] == "3"
    page.keyboard.press("Enter")
    assert layers(page)[-1] == "3"
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("sparsity")


def test_the_filter_hides_layers_and_says_how_many_are_left(page):
    page.get_by_label("Show layers with").fill("balanced")
    assert layers(page) == ["0", "2"]
    assert page.get_by_role("status").inner_text() == "2 of 3"


def test_pictures_have_words_and_load(page):
    images = page.locator("figure img")
    assert images.count() == 2
    for image in images.all():
        assert image.get_attribute("alt")
        assert image.evaluate("i => i.naturalWidth > 0")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_the_page(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 380, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    colours = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    dark = colours[1] == "rgb(13, 17, 23)"
    assert dark == (scheme == "dark")
