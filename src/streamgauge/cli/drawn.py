"""What is drawn of releases: a chart for each release and measure, a series for each group.

Beyond GROUPS groups only the first are drawn, and the chart's note says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from streamgauge.cli.screens import printable
from streamgauge.query.released import Releases
from streamgauge.query.shapes import Place

GROUPS = 12
LONGEST = 60  # characters of a name
NONE: Mapping[str, str] = MappingProxyType({})
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
        """What every picture says below its title."""
        more = (
            f" The first {len(self.series)} of {self.groups:,} groups."
            if len(self.series) < self.groups
            else ""
        )
        return f"Released values with 95 % bands, at the end of each tick{self._span}.{more}{self.remark}"

    @property
    def _span(self) -> str:
        if not self.series or not len(self.series[0].times):
            return ""
        times = self.series[0].times
        first, last = (str(time.astype("datetime64[m]")).replace("T", " ") for time in (times[0], times[-1]))
        return f", {first} to {last} UTC"


def charts(releases: Sequence[Releases], absences: Mapping[str, str] = NONE) -> Iterator[Chart]:
    """Yield a chart for each measure; `absences` say why a release has no groups."""
    for each in releases:
        remark = _remark(each, absences.get(each.release, ""))
        for measure in each.shape.measures:
            columns = [_finite(part(measure)) for part in (each.values, each.lows, each.highs)]
            drawn = enumerate(each.shape.places[:GROUPS])
            series = tuple(
                Series(_name(place), COLOURS[i], each.ends, *(column[:, i] for column in columns))
                for i, place in drawn
            )
            yield Chart(each.release, measure, series, len(each.shape.places), remark)


def _remark(releases: Releases, absence: str) -> str:
    """Return sentences for the note of a chart."""
    counts = releases.shape.contributions and f"counts {releases.shape.contributions}"
    return "".join(f" {text[0].upper()}{text[1:]}." for text in (counts, absence) if text)


def _finite(numbers: Any) -> Any:
    """What can be drawn; the rest is a gap."""
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _name(place: Place) -> str:
    """The group's labels, cut where they are long; names of columns are told only if there are several."""
    name = printable(str(place) if len(place.labels) != 1 else str(place.labels[0][1]))
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."
