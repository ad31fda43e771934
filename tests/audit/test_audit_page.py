"""The page of an audit shows every finding, needs nothing else, and tells nothing by colour alone."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

import streamgauge as sg
from streamgauge.audit.html import COLOURS, MAX_RATIO, PAGE_CSS, render_page, to_pixels
from streamgauge.audit.report import KIND_TITLES, AuditReport, Finding
from streamgauge.audit.verdict import Measurement, Verdict

VOID = {"meta", "br", "rect", "line", "path"}
NASTY = '<script>alert("x")</script> & "quotes"'


def finding(kind: str, title: str, amount: float, *, guilty: bool = False, exact: float | None = 1.0) -> Finding:
    measured = Measurement("pair", "likelihood ratio", 1000, 0.999, amount, amount, 0.0, 0.0, 0.1)
    return Finding(kind, title, Verdict(title, sg.Pure(1), exact, "pair", measured), guilty, reason=NASTY)


def report(*more: Finding) -> AuditReport:
    found = [finding(kind, f"a {kind}", 0.9) for kind in KIND_TITLES]
    return AuditReport((*found, finding("twin", "broken", 3.5, guilty=True, exact=float("inf")), *more), 0.999, 12.0)


class Tree(HTMLParser):
    """Reads a page strictly: every tag is closed where it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


def test_the_page_is_well_formed_and_has_every_finding_and_every_section() -> None:
    tree = Tree(render_page(report()))
    said = " ".join(tree.text)
    for kind, title in KIND_TITLES.items():
        assert title[1:] in said
        assert f"a {kind}" in said
    assert "infinite" in said
    assert "found out" in said


def test_the_page_asks_for_nothing_and_has_no_script() -> None:
    text = render_page(report())
    tree = Tree(text)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tree.tags}
    assert not re.search(r"https?:|url\(|@import|src=", text)
    policy = next(attrs["content"] for tag, attrs in tree.tags if attrs.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'")


def test_names_are_text_whatever_they_contain() -> None:
    tree = Tree(render_page(report(finding("counter", NASTY, 0.5))))
    assert NASTY in "".join(tree.text)
    assert not any(tag == "script" for tag, _ in tree.tags)


def test_every_bar_has_words_and_stands_for_one_finding() -> None:
    tree = Tree(render_page(report()))
    pictures = [attrs for tag, attrs in tree.tags if tag == "svg"]
    assert len(pictures) == len(KIND_TITLES) + 1
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in pictures)
    bars = [attrs for tag, attrs in tree.tags if tag == "rect"]
    assert [attrs["class"] for attrs in bars].count("broken") == 1
    assert max(float(str(attrs["width"])) for attrs in bars) == to_pixels(MAX_RATIO)


def test_what_is_not_as_it_must_be_stands_out() -> None:
    bad = render_page(report(finding("counter", "guilty", 1.5)))
    assert 'class="verdict guilty"' in bad
    assert 'class="bad"' in bad
    assert 'class="bad"' not in render_page(report())


def test_marks_are_where_their_numbers_are() -> None:
    assert to_pixels(0) < to_pixels(0.5) < to_pixels(1) < to_pixels(1.5) < to_pixels(MAX_RATIO) == to_pixels(99)
    assert to_pixels(1) - to_pixels(0) == pytest.approx(to_pixels(MAX_RATIO) - to_pixels(1))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("paper", ["#ffffff", "#121212"], ids=["by day", "by night"])
def test_bars_can_be_seen_and_text_has_the_colour_of_the_system(paper: str) -> None:
    assert not re.search(r"(?<!-)color:", PAGE_CSS)
    for name, colour in COLOURS.items():
        light, dark = sorted((luminance(colour), luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, name
