"""Laws of plots: they load nothing else, labels are text, and each file is whole or absent."""

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge.cli.views import plot as charts
from streamgauge.cli.views.plot import MAX_GROUPS, plot_html, plot_png
from streamgauge.cli.views.releases import BLOCKS, build_sparkline, build_trend
from streamgauge.optional import MissingPackageError
from streamgauge.releases.release import Group, Releases, ReleaseSchema, TickRelease
from tests.support.limits import max_file_size

HOUR = 3_600 * 10**6
HOSTILE = "</script><script>alert('$x$')</script> 東 <a href='http://x.example'>"


def series(groups: int = 3, ticks: int = 30) -> Releases:
    labels = [HOSTILE, *(f"ward {i}" for i in range(1, groups))]
    shape = ReleaseSchema("fever <b>", ("count", "mean"), tuple(Group(1, (("ward", label),)) for label in labels))
    rng = np.random.default_rng(1)
    items = []
    for tick in range(1, ticks + 1):
        value = rng.normal(50, 5, (2, groups))
        low, high = value - 4, value + 4
        if tick in (10, 11):
            value[0, 0] = low[0, 0] = high[0, 0] = np.nan
            high[1, 1:] = np.inf
        reliable = np.ones(value.shape, bool)
        items.append(TickRelease(shape, tick, HOUR * tick, HOUR * (tick + 1), value, value, low, high, reliable))
    return Releases(shape, items)


def page(tmp_path: Path, releases: list[Releases]) -> str:
    plot_html(releases, tmp_path / "releases.html")
    return (tmp_path / "releases.html").read_text(encoding="utf-8")


def without_library(text: str) -> str:
    """Return the page without the script of the chart library, which is the longest script."""
    scripts = re.findall(r"<script.*?</script>", text, re.DOTALL)
    return text.replace(max(scripts, key=len), "")


@pytest.mark.slow
def test_page_loads_nothing_from_network(tmp_path: Path) -> None:
    text = page(tmp_path, [series(), series(2)])
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|img|iframe|link)[^>]*\b(src|href)=", text)
    assert "cdn.plot.ly" not in without_library(text)


def test_labels_in_a_page_are_text(tmp_path: Path) -> None:
    text = without_library(page(tmp_path, [series()]))
    assert "<script>alert" not in text
    assert "<a href" not in text
    assert "alert(" in text
    assert "<h2>fever &lt;b&gt;: count</h2>" in text


def test_a_twin_that_does_not_escape_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "escape", str)
    assert "<h2>fever <b>: count</h2>" in page(tmp_path, [series()])


def test_page_has_chart_per_measure_and_names_omitted_groups(tmp_path: Path) -> None:
    text = page(tmp_path, [series(MAX_GROUPS + 8, 3), series(MAX_GROUPS, 3)])
    assert text.count("Plotly.newPlot(") == 4
    assert text.count(f"The {MAX_GROUPS} largest of {MAX_GROUPS + 8} groups, by the last tick.") == 2


def test_largest_groups_of_the_last_tick_are_drawn() -> None:
    """Many groups are shown by size, few in their declared order."""
    for count in (MAX_GROUPS + 8, MAX_GROUPS):
        releases = series(count, 3)
        (chart, *_) = charts.build_charts([releases])
        newest = releases.values("count")[-1]
        expected = np.sort(newest)[::-1][:MAX_GROUPS] if count > MAX_GROUPS else newest
        assert [each.value[-1] for each in chart.series] == expected.tolist()


def ranked() -> Releases:
    """Two ticks of three ranks."""
    shape = ReleaseSchema("top", ("count",), (), ranked_columns=(("g", str),))
    value = np.array([[9.0, 7.0, 3.0]])
    rest = (value, value - 1, value + 1, value > 0)
    ticks = [(1, ["c", "b", "a"]), (2, ["b", "d", "a"])]
    items = [TickRelease(shape.with_groups(names), tick, tick, tick + 1, value, *rest) for tick, names in ticks]
    return Releases.from_releases(shape, items)


def test_ranked_groups_are_bars_of_the_last_tick(tmp_path: Path) -> None:
    (chart,) = charts.build_charts([ranked()])
    assert chart.has_bars
    assert [(each.name, each.value.tolist()) for each in chart.series] == [("1. b", [9]), ("2. d", [7]), ("3. a", [3])]
    text = page(tmp_path, [ranked()])
    assert '"orientation":"h"' in text
    assert "error_x" in text
    plot_png([ranked()], tmp_path / "bars.png")
    assert (tmp_path / "bars.png").stat().st_size > 5000


def test_bands_have_gaps_where_nothing_is_known() -> None:
    count, mean = charts.build_charts([series()])
    stretches: Any = [list(charts._find_stretches(chart.series[i])) for chart in (count, mean) for i in (0, 1)]
    assert stretches == [[(0, 9), (11, 30)], [(0, 30)], [(0, 30)], [(0, 9), (11, 30)]]


@pytest.mark.one_of_each
@pytest.mark.parametrize("groups", [1, 3, 7, 20])
def test_picture_is_drawn_for_any_number_of_groups(tmp_path: Path, groups: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_png([series(groups)], tmp_path / "releases.png")
    assert (tmp_path / "releases.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["releases.png"]


@pytest.mark.slow
def test_plot_without_data_is_drawn(tmp_path: Path) -> None:
    empty = Releases(series().shape)
    none = Releases(ReleaseSchema("none", ("count",), ()))
    for releases in ([], [empty], [none]):
        plot_png(releases, tmp_path / "releases.png")
        assert "Streamgauge releases" in page(tmp_path, releases)


def test_failed_plot_leaves_previous_file(tmp_path: Path) -> None:
    before = page(tmp_path, [series()])
    with max_file_size(1000), pytest.raises(OSError, match="File too large"):
        plot_html([series()], tmp_path / "releases.html")
    assert (tmp_path / "releases.html").read_text(encoding="utf-8") == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(("module", "plot"), [("plotly.graph_objects", plot_html), ("matplotlib", plot_png)])
def test_a_package_that_is_missing_to_draw_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, plot: Any
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=r"must be installed for this: pip install 'streamgauge\[plot\]'"):
        plot([series()], tmp_path / "releases")
    assert list(tmp_path.iterdir()) == []


def test_sparklines_rise_from_the_lowest_sign_to_the_highest() -> None:
    assert build_sparkline(np.arange(8), 8) == BLOCKS
    assert build_sparkline(np.arange(800), 8) == BLOCKS
    assert build_sparkline([3, 3, 3]) == BLOCKS[0] * 3
    assert build_sparkline([]) == ""
    assert build_sparkline([1e308, -1e308], 2) == BLOCKS[7] + BLOCKS[0]


def test_sparklines_leave_unknown_values_blank() -> None:
    nan = float("nan")
    assert build_sparkline([nan, 1, float("inf"), 2]) == f" {BLOCKS[0]} {BLOCKS[7]}"
    assert build_sparkline([nan, nan]) == "  "
    assert build_sparkline([nan, 1, nan, 2], 2) == BLOCKS[0] + BLOCKS[7]


def test_sparklines_have_a_form_for_plain_terminals() -> None:
    assert build_sparkline(np.arange(8), 8, ascii_only=True).isascii()
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        build_sparkline([1], 0)


def test_a_trend_of_noise_inside_its_intervals_looks_level() -> None:
    rng = np.random.default_rng(3)
    noise = np.concatenate([[5_000.0], 100 + rng.uniform(-2, 2, 39)])
    half = np.concatenate([[9_000.0], np.full(39, 20.0)])
    drawn = build_trend(noise, noise - half, noise + half)
    assert set(build_sparkline(noise[1:])) >= set("▁█")
    assert (drawn[0], set(drawn[1:])) == (" ", set("▄▅"))


def test_a_trend_beyond_its_intervals_is_drawn_in_full() -> None:
    rising = np.arange(8.0) * 100
    assert build_trend(rising, rising - 20, rising + 20, 8) == build_sparkline(rising, 8) == BLOCKS
