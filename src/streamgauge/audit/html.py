"""A report as a page: a table for each kind of finding, with measured loss over claim as a bar.

The line in each bar is the claim, the open triangle is the exact loss. Bars end at twice the claim.

The page is one file: no script, no font and no picture from elsewhere, and a policy that forbids the browser to
request any. Names are text, whatever they contain. Every verdict is a word, so that colour adds nothing.
"""

from collections.abc import Iterator, Sequence
from html import escape
from math import isfinite

from streamgauge.audit.report import KIND_TITLES, AuditReport, Finding

BAR_WIDTH_PIXELS, BAR_HEIGHT_PIXELS, MAX_RATIO = 240, 16, 2.0
COLOURS = {"holds": "#2a7ac0", "broken": "#b8621b", "bad": "#d6293e"}  # of bars, on white and on black
PAGE_CSS = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem }
p, li { max-width: 46rem }
.verdict { font-weight: 600 }
.guilty { text-decoration: underline }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .86rem; white-space: nowrap }
th, td { padding: .1rem .7rem .1rem 0; border-bottom: 1px solid GrayText; text-align: left; font-weight: 400 }
.n { text-align: right; font-variant-numeric: tabular-nums }
svg { vertical-align: middle }
.claim, .exact { fill: none; stroke: CanvasText; stroke-width: 1.5 }
""" + "\n".join(f".{name} {{ fill: {colour} }}" for name, colour in COLOURS.items())
CURRENCY_SYMBOLS = {"pure": "epsilon", "zCDP": "rho", "approximate": "epsilon"}
CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
SECTION_NOTES = {
    "pipeline": "Real runs of the file on neighbouring inputs. Exact covers the whole horizon.",
    "unit": "A quarter of the runs of the same claim for one event.",
    "memory": "An intruder sees the memory once, unannounced.",
    "adversary": "Values are chosen in view of all releases so far.",
    "adapting": "Exact covers groups that were searched, and the spending of windows over all decisions.",
    "published": "Fewer runs, and no score that is known to be best: bounds are looser.",
    "local": "Small settings, all items and histories. Means and variances of estimates are computed too.",
    "twin": "An audit that misses one of the broken, or condemns an honest one, is itself broken.",
}
INTRODUCTION_HTML = """
<p>Each <b>claim</b> says that no reader can distinguish two neighbouring inputs better than epsilon (or rho)
allows. An attack runs the code many times on both and searches for the event that distinguishes them best.</p>
<ul>
<li><b>Measured</b> is a lower bound of the true loss. With the stated confidence all bounds of this page hold
together. A bound above the claim condemns it.</li>
<li><b>Exact</b> is the computed loss over all neighbours of the unit, where it can be computed. Two numbers are the
ends of an interval: the lower one condemns, the upper one acquits, and a claim between the two is undecided by
computation.</li>
<li><b>Ratio</b> is the measured bound over the claim. Close to 1: the claim is tight, and the attack strong.
Far below: the claim is loose, or the attack weak; the exact loss shows which.</li>
<li>A claim that <b>holds</b> was not refuted. That is no proof: proofs are in the files of the mechanisms.
<b>Weak</b> means that the attack showed less than half of the claim.</li>
<li>In a bar the line is the claim, and the open triangle the exact loss. Bars end at twice the claim.</li>
</ul>
"""


def render_page(report: AuditReport) -> str:
    """Render the whole page."""
    tone = "clean" if report.is_clean else "guilty"
    sections = "".join(render_section(kind, report.findings) for kind in KIND_TITLES)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Streamgauge: an audit</title><style>{PAGE_CSS}</style></head><body><main>"
        f'<h1>An audit of Streamgauge</h1><p class="verdict {tone}">{escape(report.summary)}</p>'
        f"{INTRODUCTION_HTML}{sections}</main></body></html>\n"
    )


def render_section(kind: str, findings: Sequence[Finding]) -> str:
    """Render the table of one kind, if it has findings."""
    rows = "".join(render_row(finding) for finding in findings if finding.kind == kind)
    if not rows:
        return ""
    heads = ("subject", "measured / claim", "claim", "exact", "measured", "ratio", "score", "runs", "verdict")
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    title, note = escape(KIND_TITLES[kind]), escape(SECTION_NOTES.get(kind, ""))
    return (
        f'<h2>{title[:1].upper()}{title[1:]}</h2><p>{note}</p><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def render_row(finding: Finding) -> str:
    cells = "".join(f'<td class="n">{escape(text)}</td>' for text in list_cells(finding))
    tone = "clean" if finding.is_expected else "guilty"
    return (
        f'<tr><th scope="row" title="{escape(finding.reason)}">{escape(finding.title)}</th>'
        f'<td>{draw_bar(finding)}</td>{cells}<td class="verdict {tone}">{escape(finding.summary)}</td></tr>'
    )


def list_cells(finding: Finding) -> Iterator[str]:
    """Return the numbers of a row as text."""
    verdict, measured = finding.verdict, finding.verdict.measurement
    yield f"{CURRENCY_SYMBOLS[verdict.loss.currency]} {verdict.claimed:.4g}"
    yield verdict.computed_text
    if measured is None:
        yield from [""] * 4
    else:
        ratio = measured.amount / verdict.claimed
        yield from (f"{measured.amount:.4f}", f"{ratio:.2f}") if isfinite(ratio) else ("infinite", "infinite")
        yield from (measured.score, f"{measured.runs:,}")


def draw_bar(finding: Finding) -> str:
    """Draw measured over claimed, on one scale for all findings."""
    ratio, claim = finding.verdict.ratio, to_pixels(1.0)
    tone = "bad" if not finding.is_expected else "broken" if finding.is_broken else "holds"
    parts = [f'<rect class="{tone}" y="4" width="{to_pixels(ratio or 0.0):.1f}" height="8"/>']
    parts.append(f'<line class="claim" x1="{claim:.1f}" x2="{claim:.1f}" y1="0" y2="{BAR_HEIGHT_PIXELS}"/>')
    for end in sorted(set(finding.verdict.loss_bounds or ())):
        parts.append(f'<path class="exact" d="M{to_pixels(end / finding.verdict.claimed) - 5:.1f} 1h10l-5 7z"/>')
    shown = "nothing" if ratio is None else f"{ratio:.2f}"
    label = escape(f"{finding.title}: measured {shown} of the claim; {finding.summary}")
    size = f'viewBox="0 0 {BAR_WIDTH_PIXELS} {BAR_HEIGHT_PIXELS}" width="{BAR_WIDTH_PIXELS}"'
    return f'<svg {size} height="{BAR_HEIGHT_PIXELS}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def to_pixels(ratio: float) -> float:
    """Return the place of a ratio in a bar.

    >>> to_pixels(0.0), to_pixels(1.0), to_pixels(9.0)
    (0.0, 120.0, 240.0)
    """
    return BAR_WIDTH_PIXELS * min(max(ratio, 0.0), MAX_RATIO) / MAX_RATIO
