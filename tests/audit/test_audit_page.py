"""The page of an audit shows every finding, requests nothing else, and says nothing by colour alone."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

import streamgauge as sg
from streamgauge.audit.exact.worst_case import WorstCase
from streamgauge.audit.report import KIND_TITLES, AuditReport, Finding
from streamgauge.audit.verdict import Measurement, Verdict
from streamgauge.cli.views.audit import PLOT_CELLS, draw_bar, render_page

VOID_TAGS = {"meta", "br"}
NASTY = '<script>alert("x")</script> & "quotes" [bold]'


def build_verdict(title: str, amount: float, exact: float = 1.0) -> Verdict:
    measured = Measurement("pair", "likelihood ratio", 1000, 0.999, amount, amount, 0.0, 0.0, 0.1)
    return Verdict(title, sg.Pure(1), WorstCase((), exact, "pair"), measured)


def build_finding(kind: str, title: str, amount: float, *, is_broken: bool = False, exact: float = 1.0) -> Finding:
    return Finding(kind, title, build_verdict(title, amount, exact), is_broken, reason=NASTY)


def build_report(*more: Finding) -> AuditReport:
    found = [build_finding(kind, f"a {kind}", 0.9) for kind in KIND_TITLES]
    broken = build_finding("twin", "broken", 3.5, is_broken=True, exact=float("inf"))
    return AuditReport((*found, broken, *more), 0.999, 12.0)


class PageTree(HTMLParser):
    """Strict reader of a page: every tag is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_page_is_well_formed_and_has_every_finding() -> None:
    text = "".join(PageTree(render_page(build_report())).text)
    for kind, title in KIND_TITLES.items():
        assert title in text
        assert f"a {kind}" in text
    assert "infinite" in text
    assert "found out" in text


def test_page_requests_nothing_and_has_no_script() -> None:
    text = render_page(build_report())
    tree = PageTree(text)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tree.tags}
    assert not re.search(r"https?:|url\(|@import|src=", text)
    policy = next(attrs["content"] for tag, attrs in tree.tags if attrs.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'")


def test_names_with_markup_are_escaped() -> None:
    tree = PageTree(render_page(build_report(build_finding("counter", NASTY, 0.5))))
    assert NASTY in "".join(tree.text)
    assert not any(tag == "script" for tag, _ in tree.tags)


def test_every_finding_has_a_bar_in_its_row() -> None:
    lines = "".join(PageTree(render_page(build_report())).text).splitlines()
    bars = [line for line in lines if "#" in line]
    assert len(bars) == len(KIND_TITLES) + 1
    assert max(line.count("#") for line in bars) == PLOT_CELLS - 1  # and the mark of the claim


def test_unexpected_verdict_says_so_in_words() -> None:
    clean = "".join(PageTree(render_page(build_report())).text)
    bad = "".join(PageTree(render_page(build_report(build_finding("counter", "guilty", 1.5)))).text)
    assert "guilty: measured 1.5 > 1" in bad
    assert bad.count("condemned;") == clean.count("condemned;")
    assert "1 condemned" in bad
    assert "0 condemned" in clean


@pytest.mark.parametrize(("ratio", "cells"), [(0.0, 0), (0.5, 10), (0.9, 18), (1.5, 30), (2.0, 40), (99.0, 40)])
def test_bar_is_as_long_as_its_ratio(ratio: float, cells: int) -> None:
    bar = draw_bar(build_verdict("a", ratio, 0.25))
    assert bar.index("|") == PLOT_CELLS // 2
    assert bar.index("v") == PLOT_CELLS // 8
    hidden = (cells > PLOT_CELLS // 2) + (cells > PLOT_CELLS // 8)
    assert bar.count("#") == cells - hidden
