"""Marks of an audit's page, as inline SVG: measured over claimed, on one scale for all of them.

0 ......... 1 ......... 2 >       the claim is 1; what is beyond 2 is at the end, with an arrow
"""

from collections import Counter
from collections.abc import Sequence
from html import escape
from math import isfinite

from streamgauge.audit.report import Finding

WIDTH, HEIGHT, MOST = 260, 22, 2.0
MARGIN = 12
BINS = 50  # of the picture of all of them
DOT = 7  # pixels that a dot takes there
BROAD = 760


def across(ratio: float, width: int = WIDTH) -> float:
    """Where a ratio is, in pixels.

    >>> across(0.0), across(1.0), across(9.0)
    (12.0, 130.0, 248.0)
    """
    return MARGIN + (width - 2 * MARGIN) * min(max(ratio, 0.0), MOST) / MOST


def tone(finding: Finding) -> str:
    return "bad" if not finding.as_it_must_be else "broken" if finding.guilty else "holds"


def mark(finding: Finding, x: float, y: float, size: float) -> str:
    """A dot, or a diamond for what must be condemned."""
    if not finding.guilty:
        return f'<circle class="{tone(finding)}" cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}"/>'
    points = f"{x:.1f},{y - size:.1f} {x + size:.1f},{y:.1f} {x:.1f},{y + size:.1f} {x - size:.1f},{y:.1f}"
    return f'<polygon class="{tone(finding)}" points="{points}"/>'


def strip(finding: Finding) -> str:
    """The line of one row: all lines together are the plot."""
    middle, parts = HEIGHT / 2, [upright(1.0, "claim", HEIGHT)]
    for end in sorted(set(finding.verdict.ends or ())):
        x = across(end / finding.verdict.claimed if isfinite(end) else MOST)
        parts.append(f'<path class="exact" d="M{x - 5:.1f} 2h10l-5 7z"/>')
    if finding.verdict.ratio is not None:
        x = across(finding.verdict.ratio)
        parts += [mark(finding, x, middle, 4.5), arrow(middle) if finding.verdict.ratio > MOST else ""]
    name = escape(f"{finding.title}: measured {spoken(finding.verdict.ratio)} of the claim; {finding.words}")
    return svg(WIDTH, HEIGHT, name, f"<title>{name}</title>{''.join(parts)}")


def spoken(ratio: float | None) -> str:
    return "nothing" if ratio is None else f"{ratio:.2f}"


def arrow(y: float) -> str:
    return f'<text x="{WIDTH - 8}" y="{y + 4:.0f}">&#8250;</text>'


def upright(ratio: float, name: str, height: int, width: int = WIDTH) -> str:
    x = across(ratio, width)
    return f'<line class="{name}" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'


def svg(width: int, height: int, label: str, inside: str) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg {size} role="img" aria-label="{label}">{inside}</svg>'


def scale(width: int, y: int, words: Sequence[tuple[float, str]]) -> str:
    anchors = {0.0: "start", MOST: "end"}
    return "".join(
        f'<text x="{across(at, width):.1f}" y="{y}" text-anchor="{anchors.get(at, "middle")}">{text}</text>'
        for at, text in words
    )


AXIS = svg(
    WIDTH,
    16,
    "a scale from 0 over the claim to twice the claim",
    scale(WIDTH, 12, [(0, "0"), (1, "claim"), (2, "2 x")]),
)


def overview(findings: Sequence[Finding]) -> str:
    """All that was measured, as a heap of marks."""
    heaps: Counter[int] = Counter()
    placed = []
    for finding in sorted(findings, key=lambda each: (each.guilty, each.title)):
        if finding.verdict.ratio is not None:
            column = min(BINS, int(finding.verdict.ratio / MOST * BINS))
            placed.append((finding, (column + 0.5) * MOST / BINS, heaps[column]))
            heaps[column] += 1
    tallest = max(heaps.values(), default=1)
    floor = DOT * tallest + 10
    marks = [
        mark(finding, across(ratio, BROAD), floor - DOT * (level + 0.5), DOT / 2 - 0.4)
        for finding, ratio, level in placed
    ]
    words = [(0, "0"), (0.5, "half the claim"), (1, "the claim"), (1.5, "1.5 x"), (2, "2 x and more")]
    inside = "".join([upright(1.0, "claim", floor, BROAD), *marks, scale(BROAD, floor + 16, words)])
    label = f"{len(placed)} measured bounds, each over its claim"
    return f'<div class="glance">{svg(BROAD, floor + 22, label, inside)}</div>'
