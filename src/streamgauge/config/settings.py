"""Checked declarations of a pipeline file. All of them are public.

Times are whole microseconds since 1970 (UTC), durations are whole microseconds, horizons and windows whole
ticks. Tick 1 is [start, start + tick).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from streamgauge.config.endpoints import (
    DEFAULT_ENGINE,
    SINKS,
    SOURCES,
    SinkFacts,
    SourceFacts,
    find_sink_kind,
    find_source_kind,
)
from streamgauge.privacy import Approx, Loss, Unit, XAdjacent

if TYPE_CHECKING:
    from streamgauge.config.columns import ReportColumn
    from streamgauge.config.mapper import MapperSettings
    from streamgauge.config.release import Alert

Label = str | int | float | bool
Kind = Literal["text", "number", "boolean", "time"]


@dataclass(frozen=True)
class Column:
    """Declared column of the stream. Undeclared columns are never read."""

    name: str
    kind: Kind = "text"
    values: tuple[Label, ...] | None = None  # all accepted values; others become NULL, or "other"
    other: bool = False
    bounds: tuple[Fraction, Fraction] | None = None  # numbers are clamped to these
    grid: Fraction | None = None
    hash_cells: int | None = None  # any text, as a keyed hash below this number
    expected_distinct: int | None = None  # expected values of a hashed column, for predictions
    max_groups: int | None = None  # groups are discovered, at most so many
    max_changes: int | None = None  # times that each value may come or leave, if events have weights
    report: "ReportColumn | None" = None  # codes of reports that devices have made private


@dataclass(frozen=True)
class Lookup:
    """Public table: one row for each key in column `on`, which the stream has too."""

    name: str
    on: str
    columns: tuple[str, ...]  # without `on`
    keys: tuple[str, ...]
    rows: tuple[tuple[Label | None, ...], ...]  # one for each key; a column has one type: text or numbers


@dataclass(frozen=True)
class Stream:
    """Stream of events: their source, their time and the people that they concern."""

    name: str
    source: str  # a path relative to the pipeline file, a folder, "-", "http", "reports" or a URL
    format: Literal["jsonl", "csv", "parquet"]
    compression: Literal["gzip", "zstd"] | None
    mode: Literal["batch", "streaming"]
    time: str
    time_format: Literal["iso", "epoch s", "epoch ms", "epoch us", "epoch ns"]
    timezone: str
    tick: int
    start: int
    end: int | None
    unit: Unit
    budget: Loss
    user: str | None = None  # the column that names users, if they are the unit
    weight: str | None = None  # the column that is +1 or -1: an event comes, or is taken back
    max_users: int | None = None  # number to which the memory of users is padded
    allowed_lateness: int = 0
    allowed_earliness: int = 0
    late: Literal["drop", "next_tick"] = "drop"
    pan_private: bool = False  # if true, neither memory nor disk has exact values at rest
    reserved_intrusions: int = 0  # announced intrusions that the plan reserves
    allow_reports_from: Literal["anyone", "sender", "curator"] | None = None  # senders of reports
    key: str | None = field(default=None, repr=False)  # not shown: by mistake it may be the key itself
    columns: Mapping[str, Column] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the source's own settings: not pinned
    store: str | None = None  # a URL; None for a store in the pipeline's folder
    plugins: tuple[str, ...] = ()  # packages that the file allows

    @property
    def source_facts(self) -> SourceFacts:
        """Facts about the source's kind."""
        return SOURCES.load(find_source_kind(self.source), self.plugins)

    @property
    def is_read_once(self) -> bool:
        """True for a batch that cannot be read a second time."""
        return self.mode == "batch" and not self.source_facts.is_replayable

    @property
    def allows_integer_orders(self) -> bool:
        """True if a release may have Gaussian noise that looks ahead: the budget has a delta, and memory is private.

        Units of counters are whole: one event, or all of a w_event. A replaced event is two, and integer orders have no
        group privacy.
        """
        is_whole = not self.unit.replace and not isinstance(self.unit, XAdjacent)
        return self.pan_private and isinstance(self.budget, Approx) and is_whole

    @property
    def has_reports(self) -> bool:
        """True if records are reports that devices have made private."""
        return self.allow_reports_from is not None

    @property
    def ticks(self) -> int | None:
        """Last tick, if there is one."""
        return None if self.end is None else (self.end - self.start) // self.tick

    @property
    def reports(self) -> dict[str, "ReportColumn"]:
        """Columns that devices have made private."""
        return {name: column.report for name, column in self.columns.items() if column.report is not None}

    def tick_start(self, tick: int) -> int:
        """Return the start of a tick. Its end is the start of tick + 1."""
        return self.start + (tick - 1) * self.tick


@dataclass(frozen=True)
class Release:
    """Query that is published at every tick."""

    name: str
    sql: str
    loss: Loss
    window: str = "running"  # "each", "sliding TICKS" ... (see `config.windows`); the longest of several
    shorter_windows: tuple[int, ...] = ()  # ticks of the other sliding windows, the shortest first
    partial: bool = False  # if true, each tick has the figure of its tumbling period so far
    horizon: int | None = None  # ticks
    mechanism: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the mechanism
    max_groups: int = 10**6
    delta: Fraction | None = None  # for groups that are discovered
    share: Fraction | None = None  # of the budget, if the loss was declared as a share
    expected_events: float | None = None  # expected events of a group in a tick, for predictions
    title: str = ""
    description: str = ""
    requested_by: str | None = None  # the analyst, if the release is not in the file
    alerts: tuple["Alert", ...] = ()  # measures derived from the others
    consistent: bool = False  # true if published numbers obey what is known of the true ones
    mapper: "MapperSettings | None" = None  # whose pairs the query reads, instead of the stream's events
    column: str | None = None  # column of reports, once the query was found to read one: the loss is the column's

    @property
    def windows(self) -> str | list[str]:
        """Window as the file has it: one, or an array of several, the longest last."""
        shorter = [f"sliding {ticks}" for ticks in self.shorter_windows]
        return [*shorter, self.window] if shorter else self.window


@dataclass(frozen=True)
class SinkSettings:
    """Destination of releases."""

    to: str  # a path relative to the pipeline file, "-" for standard output, or a URL
    format: str  # "jsonl", "csv" or "parquet"; empty for a URL
    releases: tuple[str, ...] = ()  # names of releases; empty for all
    shape: Literal["wide", "long"] = "wide"  # of CSV; the other formats have one shape each
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the sink's own settings
    plugins: tuple[str, ...] = ()  # packages that the file allows

    @property
    def facts(self) -> SinkFacts:
        """Facts about the sink's kind."""
        return SINKS.load(find_sink_kind(self.to, self.format), self.plugins)


@dataclass(frozen=True)
class EngineSettings:
    """Engine that reads events. Not pinned, because all engines give equal answers."""

    kind: str = DEFAULT_ENGINE
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ServerSettings:
    """Settings of the server. None of them is pinned."""

    anonymous: bool = False  # true if readers need no token
    https: bool = False  # true if a proxy in front ends TLS: cookies are marked secure
    publish_delay: int = 1_000_000  # microseconds: late releases are published at its multiples
    max_body: int = 8_000_000  # bytes of one request, decompressed
    max_buffer: int = 64_000_000  # bytes of events that are not committed yet
    rate: float = 50.0  # requests a second of one client
    max_streams: int = 1000  # connections that wait for releases
    max_streams_per_client: int = 20
    max_downloads: int = 100  # replies of CSV or Arrow that are being sent
    max_downloads_per_client: int = 4
    adhoc_max_groups: int = 10_000  # of one release that an analyst requests
    adhoc_max_active: int = 200  # ad hoc releases that are open or draining
    adhoc_max_active_per_analyst: int = 50
    adhoc_max_total: int = 500  # releases that one analyst ever requests, ended ones too
    adhoc_max_requests_per_minute: int = 30  # of one analyst, and ends; as many at once
    adhoc_max_plans_per_minute: int = 60  # of one analyst, requests too; as many at once
    adhoc_max_memory: int = 64_000_000  # maximum bytes of all of them
    adhoc_max_cpu_ms: int = 200  # that all of them add to a round, see `runtime.plan.limits`
    hosts: tuple[str, ...] = ()  # accepted host names; for the default see `server.http.middleware`
    max_reports: int = 64  # records of one message, if anyone may send reports
    show_intruder: bool = False  # true if readers see the rehearsal of an intrusion into any memory


@dataclass(frozen=True)
class PipelineFile:
    """Checked pipeline file. `blocks` are the canonical texts that the store pins."""

    path: Path
    stream: Stream
    lookups: Mapping[str, Lookup]
    releases: tuple[Release, ...]
    sinks: tuple[SinkSettings, ...]
    blocks: Mapping[str, str]  # "stream", "budget", "lookup.NAME", "release.NAME": canonical JSON
    unconfirmed_keys: tuple[str, ...] = ()  # keys that `init` guessed and no person has confirmed
    server: ServerSettings = ServerSettings()
    engine: EngineSettings = EngineSettings()
    mappers: Mapping[str, "MapperSettings"] = field(default_factory=dict)

    @property
    def plugins(self) -> tuple[str, ...]:
        """Packages whose code this file allows."""
        return self.stream.plugins

    @property
    def folder(self) -> Path:
        """Folder that the pipeline owns: the store and logs, nothing raw."""
        return self.path.with_suffix(".streamgauge")
