"""Releases as charts: a self-contained HTML page, or a PNG.

Each release and measure has a chart, with a line and a 95 % band for each group. Above MAX_GROUPS groups only
the first are drawn, and the note says so. Above MAX_PANEL_SERIES groups, each group of a PNG has a panel of its
own.

**Promise.** The page loads nothing from other hosts: its script is inline, and its policy forbids requests.
Labels are escaped. A picture is written whole or not at all.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from streamgauge.cli.console import escape_controls
from streamgauge.cli.views.export import open_unfinished
from streamgauge.optional import require_package
from streamgauge.releases.release import Releases
from streamgauge.releases.schema import Group
from streamgauge.releases.tables import format_estimate

MAX_GROUPS = 12
MAX_NAME_CHARS = 60  # characters of a name
NO_ABSENCES: Mapping[str, str] = MappingProxyType({})
COLOURS = (
    *("#1f6f8b", "#c8553d", "#2a9d6f", "#7a6fb0", "#e0a458", "#5b8db8"),
    *("#a23b72", "#6a8532", "#3d405b", "#d1773e", "#4a7c7e", "#8d6b94"),
)


@dataclass(frozen=True, eq=False)
class Series:
    """One group of one measure over time."""

    name: str
    colour: str
    times: Any  # the ends of ticks: when each number was known
    value: Any
    low: Any
    high: Any


@dataclass(frozen=True)
class Chart:
    """One measure of one release."""

    release: str
    measure: str
    series: tuple[Series, ...]
    groups: int
    remark: str = ""  # which events count, or why there are no groups

    @property
    def note(self) -> str:
        """Note below the title of every chart."""
        more = f" The first {len(self.series)} of {self.groups:,} groups." if len(self.series) < self.groups else ""
        return f"Released values with 95 % bands, at the end of each tick{self._span}.{more}{self.remark}"

    @property
    def _span(self) -> str:
        if not self.series or not len(self.series[0].times):
            return ""
        times = self.series[0].times
        first, last = (str(time.astype("datetime64[m]")).replace("T", " ") for time in (times[0], times[-1]))
        return f", {first} to {last} UTC"


def build_charts(releases: Sequence[Releases], absences: Mapping[str, str] = NO_ABSENCES) -> Iterator[Chart]:
    """Yield a chart for each measure; `absences` say why a release has no groups."""
    for each in releases:
        remark = _build_remark(each, absences.get(each.release, ""))
        for measure in each.shape.measures:
            parts = [part(measure) for part in (each.values, each.lows, each.highs)]
            columns = [np.where(np.isfinite(part), part, np.nan) for part in parts]  # a gap for infinite numbers
            drawn = enumerate(each.shape.groups[:MAX_GROUPS])
            series = tuple(
                Series(_format_group(place), COLOURS[i], each.ends, *(column[:, i] for column in columns))
                for i, place in drawn
            )
            yield Chart(each.release, measure, series, len(each.shape.groups), remark)


def _build_remark(releases: Releases, absence: str) -> str:
    """Return sentences for the note of a chart."""
    return "".join(f" {text[0].upper()}{text[1:]}." for text in (*releases.shape.notes, absence) if text)


def _format_group(place: Group) -> str:
    """Return the labels of a group, shortened; with column names if there are several."""
    name = escape_controls(str(place) if len(place.labels) != 1 else str(place.labels[0][1]))
    return name if len(name) <= MAX_NAME_CHARS else f"{name[: MAX_NAME_CHARS - 3]}..."


MAX_PANEL_SERIES = 4
MAX_HEIGHT_PIXELS = 60_000  # pixels: matplotlib draws no more than 2^16
INK_COLOUR, FAINT_COLOUR, GRID_COLOUR = "#22303c", "#6b7785", "#e3e8ed"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
PAGE_STYLE = (
    f"body{{font-family:system-ui,sans-serif;color:{INK_COLOUR};max-width:70rem;margin:2rem auto;padding:0 1rem}}"
    f"h1{{font-size:1.3rem}}h2{{font-size:1.05rem;margin:2rem 0 0}}p{{color:{FAINT_COLOUR};margin:.2rem 0}}"
)


def plot_html(releases: Sequence[Releases], path: Path, absences: Mapping[str, str] = NO_ABSENCES) -> None:
    """Write a page with a chart for each release and measure."""
    with require_package("plotly", "streamgauge[plot]"):
        import plotly.graph_objects as go
        from plotly import io
    parts = []
    for i, chart in enumerate(build_charts(releases, absences)):
        options = {"full_html": False, "include_plotlyjs": i == 0, "config": {"displaylogo": False}}
        plot = io.to_html(_build_figure(go, chart), default_height="420px", div_id=f"chart{i}", **options)
        title = escape(f"{chart.release}: {chart.measure}")
        parts.append(f"<h2>{title}</h2><p>{escape(chart.note)}</p>{plot}")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">'
        f"<title>Streamgauge releases</title><style>{PAGE_STYLE}</style></head>"
        f"<body><h1>Streamgauge releases</h1>{''.join(parts)}</body></html>\n"
    )
    with open_unfinished(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


def _build_figure(go: Any, chart: Chart) -> Any:
    figure = go.Figure()
    for one in chart.series:
        for trace in _build_traces(one):
            figure.add_trace(go.Scatter(trace))
    axis = {"gridcolor": GRID_COLOUR, "zerolinecolor": GRID_COLOUR, "linecolor": GRID_COLOUR}
    figure.update_layout(
        template="plotly_white",
        font={"color": INK_COLOUR},
        hovermode="closest",
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        legend={"orientation": "h", "y": -0.2},
        showlegend=True,
        xaxis={"title": {"text": "time (UTC)"}, **axis},
        yaxis={"title": {"text": escape(chart.measure)}, **axis},
    )
    return figure


def _build_traces(one: Series) -> Iterator[dict[str, Any]]:
    """Yield the band, one outline for each part without gaps, and the line."""
    name = escape(one.name)
    shared = {"mode": "lines", "legendgroup": name, "name": name}
    for begin, end in _find_stretches(one):
        part = slice(begin, end)
        times = np.concatenate([one.times[part], one.times[part][::-1]])
        outline = np.concatenate([one.high[part], one.low[part][::-1]])
        band = {"x": times, "y": outline, "fill": "toself", "fillcolor": _lighten(one.colour)}
        yield {**shared, **band, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    texts = [format_estimate(*numbers) for numbers in zip(one.value, one.low, one.high, strict=True)]
    hover = "%{x|%Y-%m-%d %H:%M:%S} UTC<br>%{text}<extra>%{fullData.name}</extra>"
    line = {"x": one.times, "y": one.value, "text": texts, "line": {"color": one.colour, "width": 1.6}}
    yield {**shared, **line, "hovertemplate": hover}


def _find_stretches(one: Series) -> Iterator[tuple[int, int]]:
    """Yield ranges in which both bounds are known."""
    known = np.isfinite(one.low) & np.isfinite(one.high)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]])))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _lighten(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"


def plot_png(releases: Sequence[Releases], path: Path, absences: Mapping[str, str] = NO_ABSENCES) -> None:
    """Write one picture with all charts, one below the other."""
    with require_package("matplotlib", "streamgauge[plot]"):
        import matplotlib.figure as figures
    drawn = list(build_charts(releases, absences))
    sizes = [len(chart.series) for chart in drawn]
    rows = [math.ceil(size / 3) if size > MAX_PANEL_SERIES else 1 for size in sizes]
    height = sum(rows) * 2.1 + 1.3 * max(1, len(drawn))
    fine = min(140, MAX_HEIGHT_PIXELS / height)
    figure = figures.Figure(figsize=(10, height), dpi=fine, layout="constrained")
    parts: Any = figure.subfigures(max(1, len(drawn)), 1, height_ratios=rows or None)
    blocks = np.atleast_1d(parts)
    for block, chart, count in zip(blocks, drawn, rows, strict=False):
        _draw(block, chart, count)
    with warnings.catch_warnings(), open_unfinished(path) as unfinished:
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a sign that no font has is drawn as a box
        figure.savefig(unfinished, format="png")


def _draw(block: Any, chart: Chart, rows: int) -> None:
    """Draw one panel for all groups if they are few, else one for each."""
    title = f"{chart.release}: {chart.measure}"
    block.suptitle(_escape_text(title), x=0.01, ha="left", weight="bold", color=INK_COLOUR, fontsize=11)
    several = len(chart.series) > MAX_PANEL_SERIES
    columns = 3 if several else 1
    panels = block.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for i, one in enumerate(chart.series):
        panel = panels[i] if several else panels[0]
        panel.fill_between(one.times, one.low, one.high, color=one.colour, alpha=0.18, lw=0)
        panel.plot(one.times, one.value, color=one.colour, lw=1.2, label=_escape_text(one.name))
        if several:
            panel.set_title(_escape_text(one.name), loc="left", fontsize=9, color=one.colour)
    for panel in panels:
        _style_panel(panel)
    for panel in panels[len(chart.series) if several else 1 :]:
        panel.set_visible(False)
    if not several and len(chart.series) > 1:
        shown = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2, "ncols": MAX_PANEL_SERIES}
        panels[0].legend(frameon=False, fontsize=8, labelcolor=INK_COLOUR, **shown)
    block.supxlabel(chart.note, x=0.01, ha="left", fontsize=8, color=FAINT_COLOUR)


def _style_panel(panel: Any) -> None:
    with require_package("matplotlib", "streamgauge[plot]"):
        from matplotlib import dates
    found = dates.AutoDateLocator(minticks=3, maxticks=8)
    panel.xaxis.set_major_locator(found)
    panel.xaxis.set_major_formatter(dates.ConciseDateFormatter(found, show_offset=False))
    panel.tick_params(colors=FAINT_COLOUR, labelsize=8, length=0)
    panel.grid(color=GRID_COLOUR, lw=0.6)
    panel.set_axisbelow(True)
    panel.margins(x=0.01)
    for side in panel.spines.values():
        side.set_visible(False)


def _escape_text(name: str) -> str:
    """Return the text without formulas, and without a first character that would hide it."""
    shown = name.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
