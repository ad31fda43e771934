"""A report as a page: what was measured against what was claimed, for every subject, drawn and in numbers.

Every row of a table is a line of its plot: a dot where the measured bound is, an open mark where the computed
loss is, and the claim as one line through all rows. Above the tables, all subjects in one picture.

Promise
    One file that needs nothing else: no script, no font, no picture from elsewhere, and a policy that forbids
    the browser to ask for any. Names are text, whatever they contain. Nothing is told by colour alone.
"""

from collections.abc import Iterator, Sequence
from html import escape
from math import isfinite

from streamgauge.audit.drawn_marks import AXIS, overview, strip
from streamgauge.audit.page_style import STYLE
from streamgauge.audit.report import TITLES, Finding, Report

CURRENCIES = {"pure": "epsilon", "zCDP": "rho", "approximate": "epsilon"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
NOTES = {
    "pipeline": "Real runs of the file on neighbouring inputs; exact is of the whole horizon.",
    "unit": "A quarter of the runs of the same claim for one event.",
    "memory": "An intruder sees the memory once, unannounced.",
    "adversary": "Values are chosen in view of all releases so far.",
    "adapting": "Computed are groups that were searched, and what windows spend over all decisions.",
    "published": "Fewer runs, and no score that is known to be best: bounds are looser.",
    "local": "Small settings, all items and histories; means and variances of estimates are computed too.",
    "twin": "An audit that misses one of the broken, or condemns an honest one, is itself broken.",
}
READING = """
<p>Each <b>claim</b> says that no reader can tell two neighbouring inputs apart better than epsilon (or rho)
allows. An attack runs the code many times on both and looks for the event that tells them apart best.</p>
<ul>
<li><b>Measured</b> is a bound from below on what is really lost: with the stated confidence all bounds of
this page hold together. A bound above the claim condemns it.</li>
<li><b>Exact</b> is what is lost by computation, where that can be had: over all neighbours of the unit. Two
numbers are the ends of an interval: the lower one condemns, the upper one acquits, and a claim between the
two is undecided by computation.</li>
<li><b>Ratio</b> is the measured bound over the claim. Close to 1: the claim is tight, and the attack strong.
Far below: the claim is loose, or the attack weak; the exact loss tells which.</li>
<li>A claim that <b>holds</b> was not refuted. That is no proof: proofs are in the mechanisms' own
files. <b>Weak</b> is said where the attack showed less than half of the claim.</li>
</ul>
"""


def page(report: Report) -> str:
    """The whole page."""
    tone = "clean" if report.clean else "guilty"
    sections = "".join(section(kind, report.findings) for kind in TITLES)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Streamgauge: an audit</title><style>{STYLE}</style></head><body><main>"
        f'<h1>An audit of Streamgauge</h1><p class="verdict {tone}">{escape(report.summary)}</p>'
        f"<h2>All claims at a glance</h2>{overview(report.findings)}{legend()}"
        f"<h2>How to read it</h2>{READING}{sections}</main></body></html>\n"
    )


def legend() -> str:
    return (
        '<p class="faint">A dot is a claim that must hold, a diamond a broken twin that must be condemned; '
        "the line is the claim. Left of it nothing is refuted. An open triangle is the exact loss.</p>"
    )


def section(kind: str, findings: Sequence[Finding]) -> str:
    """The plot and the table of one kind, if there are any."""
    found = [finding for finding in findings if finding.kind == kind]
    if not found:
        return ""
    heads = ("claim", "exact", "measured", "ratio", "score", "runs", "verdict")
    numbers = {"exact", "measured", "ratio", "runs"}
    head = "".join(f'<th scope="col"{cls(name in numbers)}>{name}</th>' for name in heads)
    note = f'<p class="faint">{escape(NOTES[kind])}</p>' if kind in NOTES else ""
    rows = "".join(row(finding) for finding in found)
    plot = f'<th scope="col" class="s">{AXIS}</th>'
    return (
        f'<h2>{escape(capital(TITLES[kind]))}</h2>{note}<div class="wide"><table><thead><tr>'
        f'<th scope="col">subject</th>{plot}{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def cls(is_number: bool) -> str:
    return ' class="n"' if is_number else ""


def row(finding: Finding) -> str:
    cells = "".join(f"<td{cls(is_number)}>{escape(text)}</td>" for text, is_number in told(finding))
    tone = "clean" if finding.as_it_must_be else "guilty"
    why = f' title="{escape(finding.why)}"' if finding.why else ""
    return (
        f'<tr><th scope="row"{why}>{escape(finding.title)}</th><td class="s">{strip(finding)}</td>{cells}'
        f'<td class="verdict {tone}">{escape(finding.words)}</td></tr>'
    )


def told(finding: Finding) -> Iterator[tuple[str, bool]]:
    """The texts of a row's cells, and whether each is a number."""
    verdict, measured = finding.verdict, finding.verdict.measured
    yield f"{CURRENCIES[verdict.loss.currency]} {verdict.claimed:.4g}", False
    yield verdict.computed, True
    yield "" if measured is None else number(measured.amount), True
    yield "" if finding.verdict.ratio is None else number(finding.verdict.ratio, 2), True
    yield "" if measured is None else measured.score, False
    yield "" if measured is None else f"{measured.runs:,}", True


def number(value: float, digits: int = 4) -> str:
    """
    >>> number(0.91234), number(0.91234, 2), number(float("inf"))
    ('0.9123', '0.91', 'infinite')
    """
    return "infinite" if not isfinite(value) else f"{value:.{digits}f}"
