"""The HTML report: self-contained, complete, and usable in a browser."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mfcheck.catalogue import claims, places
from mfcheck.outcome import Outcome
from mfcheck.report.compare import compare
from mfcheck.report.drawn_interval import drawn_interval
from mfcheck.report.page import Picture, html
from mfcheck.statistics.estimate import Estimate, exact
from mfcheck.statistics.verdict import Region, Verdict
from tests.outcomes import CONTROL, OUTCOME, REFUTED, SUPPORTED, criterion, outcome

FIGURE = (
    "data:image/svg+xml;base64,"
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHdpZHRoPSI5MDAiIGhlaWdodD0iMzAwIj48L3N2Zz4="
)
PICTURES = [Picture("diffusion_variance", ("D1",), "Variance over its prediction; refuted outside the band.", FIGURE)]
FOUND = [OUTCOME, CONTROL, outcome(claim="K1", verdict=Verdict.INCONCLUSIVE), outcome(claim="C1", criteria=(REFUTED,))]


def page(outcomes: list[Outcome] = FOUND, **more: Any) -> str:
    return html(outcomes, claims(), places, PICTURES, **more)


class Tags(HTMLParser):
    """Opening and closing tags match, ids are unique, and every link inside the file has its end."""

    VOID = frozenset({"meta", "link", "input", "img", "br", "rect", "line", "circle", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [facts["id"] or ""] if "id" in facts else []
        self.links += [facts["href"] or ""] if tag == "a" else []
        self.sources += [facts[name] or "" for name in ("src", "href") if name in facts and tag != "a"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


def test_the_page_is_whole_and_nothing_in_it_leaves_the_file() -> None:
    tags = Tags()
    tags.feed(page())
    assert tags.open == []
    assert len(tags.ids) == len(set(tags.ids))
    assert all(link.startswith("#") and (link[1:] in tags.ids) for link in tags.links)
    assert all(source.startswith("data:") for source in tags.sources)


def test_every_claim_has_its_words_its_mathematics_its_controls_and_the_line_that_runs_it_again() -> None:
    text = page()
    d1 = claims()["D1"]
    article = text.partition('<article id="claim-D1"')[2].partition("</article>")[0]
    for part in (d1.source, d1.hypotheses, "<math", "SUPPORTED", "mfcheck verify D1 --seed", "claims_diffusion.py"):
        assert part in article, part
    assert CONTROL.control is not None and CONTROL.control in article
    assert "Not as expected: K1" in text


def test_words_from_outcomes_are_escaped() -> None:
    text = page([outcome(statement="<script>alert(1)</script> & more")])
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text


def test_a_claim_that_the_catalogue_has_no_more_is_shown_with_what_its_outcome_says() -> None:
    text = page([outcome(claim="D99")])
    assert '<article id="claim-D99"' in text and OUTCOME.prediction in text


def test_the_interval_is_drawn_where_it_lies() -> None:
    inside = drawn_interval(criterion(Estimate(1.0, 0.995, 1.005, 0.99, 10), Region(0.99, 1.01, 1.0)))
    left, width = (float(re.findall(rf'class="region".*? {name}="([\d.]+)"', inside)[0]) for name in ("x", "width"))
    (a, b), *_ = re.findall(r'class="measured" x1="([\d.]+)" x2="([\d.]+)"', inside)
    assert left < float(a) < float(b) < left + width
    outside = drawn_interval(criterion(exact(2.0), Region.at_most(1.0)))
    left, width = (float(re.findall(rf'class="region".*? {name}="([\d.]+)"', outside)[0]) for name in ("x", "width"))
    assert left == 0 and float(re.findall(r'cx="([\d.]+)"', outside)[0]) > width
    assert "circle" not in drawn_interval(criterion(Estimate(float("nan"), 0, 1, 0.9, 2), Region.at_most(1.0)))


def test_a_comparison_names_the_verdicts_and_the_intervals_that_moved() -> None:
    moved = compare([OUTCOME, CONTROL], [outcome(verdict=Verdict.REFUTED, criteria=(REFUTED,)), outcome(claim="K1")])
    (change,) = moved.changed
    assert (change.outcome, change.verdict_before, change.verdict_now) == ("D1", "SUPPORTED", "REFUTED")
    assert change.apart and moved.gone == (CONTROL.name,) and moved.new == ("K1",)
    assert "SUPPORTED → REFUTED" in page(comparison=moved)
    assert compare(FOUND, FOUND).moves == ()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install '.[test]'")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as started:
        # no network, no sandbox: the page is our own file, and containers have no user namespaces
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        launched = started.chromium.launch(executable_path=path, args=options)
        yield launched
        launched.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser_it_filters_sorts_and_fits(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(), encoding="utf-8")
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    errors: list[str] = []
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("request", lambda request: errors.append(request.url) if request.url.startswith("http") else None)
    tab.goto(path.as_uri())

    rows = tab.locator("#table tbody tr:visible")
    assert rows.count() == 3 and tab.locator("#shown").inner_text() == "3 shown"
    tab.fill("#search", "chaos k1")
    assert rows.count() == 0
    tab.fill("#search", "")
    tab.select_option("#verdict", "INCONCLUSIVE")
    assert rows.count() == 1 and tab.locator("article:visible").count() == 1
    tab.select_option("#verdict", "")
    tab.select_option("#family", "D")
    assert rows.first.get_attribute("data-claim") == "D1" and rows.count() == 1
    tab.select_option("#family", "")
    tab.click("#table th button >> nth=0")
    assert [row.get_attribute("data-claim") for row in rows.all()] == ["K1", "C1", "D1"]

    picture = tab.locator("figure img")
    assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
    again = tab.locator(".gallery img")
    assert again.evaluate("image => image.complete && image.naturalWidth > 0") and again.is_visible()
    tab.select_option("#family", "K")
    assert not picture.is_visible()
    again.click()
    assert picture.is_visible() and rows.count() == 3
    box = picture.bounding_box()
    assert box["width"] > 0.5 * width * 0.9 and box["x"] + box["width"] <= width
    # the page itself never scrolls sideways; wide tables do, in their own boxes, and no text is cut elsewhere
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    cut = """() => [...document.querySelectorAll("h1, h2, h3, h4, p, li, dd, dt, a, figcaption, label, summary")]
        .filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"""
    assert tab.evaluate(cut) == []
    assert errors == []
    tab.close()


def test_the_file_holds_a_figure_once() -> None:
    assert page().count(FIGURE) == 1


def test_a_control_of_a_refuted_hypothesis_shows_what_it_supports() -> None:
    refuted = outcome(verdict=Verdict.REFUTED, expected=Verdict.REFUTED, criteria=(REFUTED,))
    control = outcome(control="made true", verdict=Verdict.SUPPORTED, expected=Verdict.SUPPORTED)
    text = page([refuted, control])
    assert "the claim is made true" in text and "nothing" not in text.partition("made true:")[2].partition("</li>")[0]
    assert "the claim is false" in page()


def test_every_interval_and_picture_has_words_for_a_screen_reader() -> None:
    text = page()
    assert text.count('role="img" aria-label=') == sum(len(o.criteria) for o in FOUND if o.control is None)
    assert f'alt="{PICTURES[0].caption}"' in text
    assert SUPPORTED.name in text


def test_a_difference_judged_by_a_rule_of_its_own_has_its_word() -> None:
    row = criterion(
        Estimate(-0.09, -0.1, -0.08, 0.95, 12, details={"word": "better"}), Region.around(0.0, absolute=0.01)
    )
    text = page([outcome(claim="W1", criteria=(row,), profile="wikitext small")])
    assert "<td>better</td>" in text and "REFUTED</span></td>" not in text
