"""Releases as charts: a self-contained HTML page, or a PNG.

Each release and measure has a chart, with a line and a 95 % band for each group. Above MAX_GROUPS groups only
the largest at the last tick are drawn, and the note says so. A release that ranks its groups has bars of its last
tick instead. Above MAX_PANEL_SERIES groups, each group of a PNG has a panel of its own.

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
MAX_BARS = 40
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
    has_bars: bool = False  # for groups that are ranked: of the last tick alone
    row_noun: str = "tick"

    @property
    def note(self) -> str:
        """Note below the title of every chart."""
        largest = f" The {len(self.series)} largest of {self.groups:,} groups, by the last {self.row_noun}."
        more = largest if len(self.series) < self.groups else ""
        if self.has_bars:
            bounds = "95 % bounds for all at once"
            return f"The largest groups, with {bounds}, at the last {self.row_noun}{self._span}.{self.remark}"
        return f"Released values with 95 % bands, at the end of each {self.row_noun}{self._span}.{more}{self.remark}"

    @property
    def _span(self) -> str:
        if not self.series or not len(self.series[0].times):
            return ""
        times = self.series[0].times
        first, last = (str(time.astype("datetime64[m]")).replace("T", " ") for time in (times[0], times[-1]))
        return f", which ended {last} UTC" if self.has_bars else f", {first} to {last} UTC"


def build_charts(releases: Sequence[Releases], absences: Mapping[str, str] = NO_ABSENCES) -> Iterator[Chart]:
    """Yield a chart for each measure; `absences` say why a release has no groups."""
    for each in releases:
        remark = _build_remark(each, absences.get(each.release, ""))
        for measure in each.shape.measures:
            parts = [part(measure) for part in (each.values, each.lows, each.highs)]
            columns = [np.where(np.isfinite(part), part, np.nan) for part in parts]  # a gap for infinite numbers
            if each.shape.is_ranked:
                yield _build_bars(each, measure, columns, remark)
                continue
            drawn: Sequence[int] = range(len(each.shape.groups))
            if len(drawn) > MAX_GROUPS:
                drawn = each.find_largest(measure, MAX_GROUPS)
            series = tuple(
                Series(
                    _format_group(each.shape.groups[place]), colour, each.ends, *(part[:, place] for part in columns)
                )
                for place, colour in zip(drawn, COLOURS, strict=False)
            )
            yield Chart(each.release, measure, series, len(each.shape.groups), remark, row_noun=each.row_noun)


def _build_bars(releases: Releases, measure: str, columns: Sequence[Any], remark: str) -> Chart:
    """Return the groups of the last tick, the first rank first."""
    listed = len(releases[-1].shape.groups) if len(releases) else 0
    drawn = releases.find_largest(measure, min(listed, MAX_BARS))
    names = [f"{rank}. {_format_group(releases.shape.groups[place])}" for rank, place in enumerate(drawn, 1)]
    times = releases.ends[-1:]
    series = tuple(
        Series(name, COLOURS[0], times, *(part[-1:, place] for part in columns))
        for name, place in zip(names, drawn, strict=True)
    )
    return Chart(releases.release, measure, series, listed, remark, True, releases.row_noun)


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
        height = f"{max(200, 90 + 26 * len(chart.series))}px" if chart.has_bars else "420px"
        plot = io.to_html(_build_figure(go, chart), default_height=height, div_id=f"chart{i}", **options)
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
    if chart.has_bars:
        return _build_bar_figure(go, chart)
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


def _build_bar_figure(go: Any, chart: Chart) -> Any:
    """Return horizontal bars with error bars, the first rank at the top."""
    value, low, high = _stack_bars(chart)
    above, below = np.nan_to_num(high - value), np.nan_to_num(value - low)
    errors = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": INK_COLOUR}
    names = [escape(one.name) for one in chart.series]
    texts = [format_estimate(*numbers) for numbers in zip(value, low, high, strict=True)]
    bars = {"x": value, "y": names, "orientation": "h", "error_x": {**errors, "thickness": 1.3, "width": 4}}
    hover = {"text": texts, "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    figure = go.Figure(go.Bar({**bars, **hover, "marker": {"color": _lighten(COLOURS[0], 0.65)}}))
    axis = {"gridcolor": GRID_COLOUR, "zerolinecolor": FAINT_COLOUR, "linecolor": GRID_COLOUR}
    figure.update_layout(
        template="plotly_white",
        font={"color": INK_COLOUR},
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        xaxis={"title": {"text": escape(chart.measure)}, **axis},
        yaxis={"type": "category", "autorange": "reversed", "automargin": True, "dtick": 1, "showgrid": False},
    )
    return figure


def _stack_bars(chart: Chart) -> tuple[Any, Any, Any]:
    """Return the values and the bounds of the bars."""
    parts = ("value", "low", "high")
    value, low, high = (np.array([getattr(one, part)[-1] for one in chart.series], float) for part in parts)
    return value, low, high


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


def _lighten(colour: str, opacity: float = 0.15) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def plot_png(releases: Sequence[Releases], path: Path, absences: Mapping[str, str] = NO_ABSENCES) -> None:
    """Write one picture with all charts, one below the other."""
    with require_package("matplotlib", "streamgauge[plot]"):
        import matplotlib.figure as figures
    drawn = list(build_charts(releases, absences))
    sizes = [len(chart.series) for chart in drawn]
    rows = [
        max(1, math.ceil(size / 9)) if chart.has_bars else math.ceil(size / 3) if size > MAX_PANEL_SERIES else 1
        for chart, size in zip(drawn, sizes, strict=True)
    ]
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
    if chart.has_bars:
        _draw_bars(block.subplots(1, 1), chart)
        block.supxlabel(chart.note, x=0.01, ha="left", fontsize=8, color=FAINT_COLOUR)
        return
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


def _draw_bars(panel: Any, chart: Chart) -> None:
    """Draw horizontal bars with error bars, the first rank at the top."""
    value, low, high = _stack_bars(chart)
    places = np.arange(len(value))
    panel.barh(places, value, color=COLOURS[0], alpha=0.6, height=0.65)
    errors = np.nan_to_num(np.stack([value - low, high - value]))
    panel.errorbar(value, places, xerr=errors, fmt="none", ecolor=INK_COLOUR, elinewidth=1, capsize=2)
    panel.set_yticks(places, [_escape_text(one.name) for one in chart.series])
    panel.invert_yaxis()
    panel.tick_params(colors=FAINT_COLOUR, labelsize=8, length=0)
    panel.grid(color=GRID_COLOUR, lw=0.6, axis="x")
    panel.set_axisbelow(True)
    for side in panel.spines.values():
        side.set_visible(False)


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
