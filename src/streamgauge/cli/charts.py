"""Releases as pictures: an HTML page that needs nothing else, and a PNG.

A chart for each release and measure, with a line and its 95 % band for each group (see `drawn`). Beyond LINES
groups, each group of a PNG has a panel of its own.

Promise
    The page asks nothing of any other host: its script is inside, and its policy forbids the browser to ask.
    Labels are text: whatever they contain is escaped. A picture is there whole or not at all.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from streamgauge.cli.drawn import NONE, Chart, Series, charts
from streamgauge.query.html import plus_minus
from streamgauge.query.packages import needs
from streamgauge.query.released import Releases

LINES = 4
TALLEST = 60_000  # pixels: matplotlib draws no more than 2^16
INK, FAINT, GRID = "#22303c", "#6b7785", "#e3e8ed"
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
STYLE = (
    f"body{{font-family:system-ui,sans-serif;color:{INK};max-width:70rem;margin:2rem auto;padding:0 1rem}}"
    f"h1{{font-size:1.3rem}}h2{{font-size:1.05rem;margin:2rem 0 0}}p{{color:{FAINT};margin:.2rem 0}}"
)


def plot_html(releases: Sequence[Releases], path: Path, absences: Mapping[str, str] = NONE) -> None:
    """Writes a page with a chart that can be zoomed for each release and measure."""
    with needs("plotly", "streamgauge[plot]"):
        import plotly.graph_objects as go
        from plotly import io
    parts = []
    for i, chart in enumerate(charts(releases, absences)):
        told = {"full_html": False, "include_plotlyjs": i == 0, "config": {"displaylogo": False}}
        plot = io.to_html(_figure(go, chart), default_height="420px", div_id=f"chart{i}", **told)
        title = escape(f"{chart.release}: {chart.measure}")
        parts.append(f"<h2>{title}</h2><p>{escape(chart.note)}</p>{plot}")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>Streamgauge releases</title><style>{STYLE}</style></head>"
        f"<body><h1>Streamgauge releases</h1>{''.join(parts)}</body></html>\n"
    )
    _put(path, lambda unfinished: unfinished.write_text(page, encoding="utf-8"))


def _figure(go: Any, chart: Chart) -> Any:
    figure = go.Figure()
    for one in chart.series:
        for trace in _traces(one):
            figure.add_trace(go.Scatter(trace))
    axis = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID}
    figure.update_layout(
        template="plotly_white",
        font={"color": INK},
        hovermode="closest",
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        legend={"orientation": "h", "y": -0.2},
        showlegend=True,
        xaxis={"title": {"text": "time (UTC)"}, **axis},
        yaxis={"title": {"text": escape(chart.measure)}, **axis},
    )
    return figure


def _traces(one: Series) -> Iterator[dict[str, Any]]:
    """The band, as one outline for each stretch without a gap, and the line."""
    name = escape(one.name)
    shared = {"mode": "lines", "legendgroup": name, "name": name}
    for begin, end in _stretches(one):
        part = slice(begin, end)
        times = np.concatenate([one.times[part], one.times[part][::-1]])
        outline = np.concatenate([one.high[part], one.low[part][::-1]])
        band = {"x": times, "y": outline, "fill": "toself", "fillcolor": _pale(one.colour)}
        yield {**shared, **band, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    told = [plus_minus(*numbers) for numbers in zip(one.value, one.low, one.high, strict=True)]
    hover = "%{x|%Y-%m-%d %H:%M:%S} UTC<br>%{text}<extra>%{fullData.name}</extra>"
    line = {"x": one.times, "y": one.value, "text": told, "line": {"color": one.colour, "width": 1.6}}
    yield {**shared, **line, "hovertemplate": hover}


def _stretches(one: Series) -> Iterator[tuple[int, int]]:
    """Where both bounds are known, from..to."""
    known = np.isfinite(one.low) & np.isfinite(one.high)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]])))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _pale(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"


def plot_png(releases: Sequence[Releases], path: Path, absences: Mapping[str, str] = NONE) -> None:
    """Writes one picture with all charts, one below the other."""
    with needs("matplotlib", "streamgauge[plot]"):
        import matplotlib.figure as figures
    drawn = list(charts(releases, absences))
    rows = [_rows(chart) for chart in drawn]
    height = sum(rows) * 2.1 + 1.3 * max(1, len(drawn))
    fine = min(140, TALLEST / height)
    figure = figures.Figure(figsize=(10, height), dpi=fine, layout="constrained")
    parts: Any = figure.subfigures(max(1, len(drawn)), 1, height_ratios=rows or None)
    blocks = np.atleast_1d(parts)
    for block, chart, count in zip(blocks, drawn, rows, strict=False):
        _draw(block, chart, count)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a sign that no font has is drawn as a box
        _put(path, lambda unfinished: figure.savefig(unfinished, format="png"))


def _rows(chart: Chart) -> int:
    return math.ceil(len(chart.series) / 3) if len(chart.series) > LINES else 1


def _draw(block: Any, chart: Chart, rows: int) -> None:
    """One panel for all groups if they are few, else one for each."""
    title = f"{chart.release}: {chart.measure}"
    block.suptitle(_literal(title), x=0.01, ha="left", weight="bold", color=INK, fontsize=11)
    several = len(chart.series) > LINES
    columns = 3 if several else 1
    panels = block.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for i, one in enumerate(chart.series):
        panel = panels[i] if several else panels[0]
        panel.fill_between(one.times, one.low, one.high, color=one.colour, alpha=0.18, lw=0)
        panel.plot(one.times, one.value, color=one.colour, lw=1.2, label=_literal(one.name))
        if several:
            panel.set_title(_literal(one.name), loc="left", fontsize=9, color=one.colour)
    for panel in panels:
        _frame(panel)
    for panel in panels[len(chart.series) if several else 1 :]:
        panel.set_visible(False)
    if not several and len(chart.series) > 1:
        shown = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2, "ncols": LINES}
        panels[0].legend(frameon=False, fontsize=8, labelcolor=INK, **shown)
    block.supxlabel(chart.note, x=0.01, ha="left", fontsize=8, color=FAINT)


def _frame(panel: Any) -> None:
    with needs("matplotlib", "streamgauge[plot]"):
        from matplotlib import dates
    found = dates.AutoDateLocator(minticks=3, maxticks=8)
    panel.xaxis.set_major_locator(found)
    panel.xaxis.set_major_formatter(dates.ConciseDateFormatter(found, show_offset=False))
    panel.tick_params(colors=FAINT, labelsize=8, length=0)
    panel.grid(color=GRID, lw=0.6)
    panel.set_axisbelow(True)
    panel.margins(x=0.01)
    for side in panel.spines.values():
        side.set_visible(False)


def _literal(name: str) -> str:
    """A text without formulas in it, and with no sign at its beginning that would hide it."""
    shown = name.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _put(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes beside the path, then renames."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        write(unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
