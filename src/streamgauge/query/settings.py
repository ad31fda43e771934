"""What a pipeline file declares, after it was checked: everything here is public.

Times are whole microseconds since 1970 (UTC), durations are whole microseconds, horizons and windows whole
ticks. Tick 1 is [start, start + tick).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from streamgauge.privacy import Loss, Unit

if TYPE_CHECKING:
    from streamgauge.query.alerts import Alert
    from streamgauge.query.report_columns import ReportColumn

Label = str | int | float | bool
Kind = Literal["text", "number", "boolean", "time"]


@dataclass(frozen=True)
class Column:
    """A declared column of the stream. What is not declared is never read."""

    name: str
    kind: Kind = "text"
    values: tuple[Label, ...] | None = None  # all values that are kept; others are NULL, or "other"
    other: bool = False
    bounds: tuple[Fraction, Fraction] | None = None  # numbers are clamped to them
    grid: Fraction | None = None
    hashed: int | None = None  # any text, known by a keyed hash below this number
    expected_distinct: int | None = (
        None  # values of a hashed column that the curator expects, for predictions
    )
    max_groups: int | None = None  # groups are discovered, at most so many
    report: "ReportColumn | None" = None  # codes of reports, which devices have made private


@dataclass(frozen=True)
class Lookup:
    """A public table: one row for each key in column `on`, which the stream has too."""

    name: str
    on: str
    columns: tuple[str, ...]  # without `on`
    keys: tuple[str, ...]
    rows: tuple[tuple[Label | None, ...], ...]  # one for each key; a column has one type: text or numbers


@dataclass(frozen=True)
class Stream:
    """The events: where they come from, when they happened, whom they are about."""

    name: str
    source: str  # a path relative to the pipeline file, a folder, "-", "http" or "reports"
    format: Literal["jsonl", "csv", "parquet"]
    compression: Literal["gzip", "zstd"] | None
    arrival: Literal["finished", "live"]
    time: str
    time_format: Literal["iso", "epoch s", "epoch ms", "epoch us", "epoch ns"]
    timezone: str
    tick: int
    start: int
    end: int | None
    unit: Unit
    budget: Loss
    user: str | None = None  # the column that names users, where they are the unit
    max_users: int | None = None  # what the memory of users is padded to
    lateness: int = 0
    earliness: int = 0
    late: Literal["drop", "carry"] = "drop"
    pan_private: bool = False  # whether nothing exact rests in memory or on disk
    intrusions: int = 0  # announced ones that are reserved
    senders: Literal["anyone", "curator"] | None = None  # who may send reports
    key: str | None = field(default=None, repr=False)  # who mistakes it may have written the key itself
    columns: Mapping[str, Column] = field(default_factory=dict)

    @property
    def ticks(self) -> int | None:
        """The last tick, if there is one."""
        return None if self.end is None else (self.end - self.start) // self.tick

    @property
    def reports(self) -> dict[str, "ReportColumn"]:
        """The columns that devices have made private."""
        return {name: column.report for name, column in self.columns.items() if column.report is not None}

    def begins(self, tick: int) -> int:
        """When a tick begins; tick + 1 says when it ends."""
        return self.start + (tick - 1) * self.tick


@dataclass(frozen=True)
class Release:
    """One thing to publish at every tick."""

    name: str
    sql: str
    loss: Loss
    window: str = "running"  # "running", "each", "sliding TICKS" or "decayed TICKS"
    horizon: int | None = None  # ticks
    mechanism: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the mechanism
    max_groups: int = 10**6
    delta: Fraction | None = None  # for groups that are discovered
    share: Fraction | None = None  # of the budget, if the loss was declared as one
    expected: float | None = None  # events of a group in a tick that the curator expects, for predictions
    title: str = ""
    description: str = ""
    asked: str | None = None  # the analyst who asked for it, if it is not in the file
    alerts: tuple["Alert", ...] = ()  # measures that are made of the others
    column: str | None = (
        None  # of reports, once it has been found that it reads one: the loss is the column's
    )


@dataclass(frozen=True)
class SinkSettings:
    """Where releases go."""

    to: str  # a path relative to the pipeline file, or "-" for standard output
    format: Literal["jsonl", "csv", "parquet"]
    releases: tuple[str, ...] = ()  # their names; all if there are none
    shape: Literal["wide", "long"] = "wide"  # of CSV; the other formats have one shape each


@dataclass(frozen=True)
class ServerSettings:
    """How the server behaves. None of it is pinned."""

    anonymous: bool = False  # whether readers need no token
    https: bool = False  # whether readers come by TLS, which ends in front: cookies are marked secure
    publish_delay: int = 1_000_000  # microseconds: late releases leave at multiples of it
    max_body: int = 8_000_000  # bytes of one request, decompressed
    max_waiting: int = 64_000_000  # bytes of events that are not committed yet
    rate: float = 50.0  # requests a second of one client
    max_live: int = 1000  # connections that wait for releases
    max_live_per_client: int = 20
    max_downloads: int = 100  # replies of CSV or Arrow that are being sent
    max_downloads_per_client: int = 4
    max_groups: int = 10_000  # of one release that an analyst asks for
    max_asked: int = 200  # releases that were asked for, and are open or run on
    max_asked_per_analyst: int = 50
    max_asks_per_analyst: int = 500  # releases that one analyst ever asks for, ended ones too
    max_asks_per_minute: int = 30  # of one analyst, and ends; as many at once
    max_plans_per_minute: int = 60  # of one analyst, asks too; as many at once
    max_asked_memory: int = 64_000_000  # bytes that all of them keep, at most
    max_asked_work: int = 200  # that all of them add to a round, see `pipeline.work`
    hosts: tuple[str, ...] = ()  # names under which it is asked for; by default see `server.hosts`
    max_reports: int = 64  # records of one message, where anyone sends reports
    show_intruder: bool = False  # whether readers see the rehearsal of an intrusion into any memory


@dataclass(frozen=True)
class PipelineFile:
    """A pipeline file, checked. `blocks` are the canonical texts that the store pins."""

    path: Path
    stream: Stream
    lookups: Mapping[str, Lookup]
    releases: tuple[Release, ...]
    sinks: tuple[SinkSettings, ...]
    blocks: Mapping[str, str]  # "stream", "budget", "lookup.NAME", "release.NAME": canonical JSON
    unconfirmed: tuple[str, ...] = ()  # keys that `init` guessed and nobody has confirmed
    server: ServerSettings = ServerSettings()

    @property
    def folder(self) -> Path:
        """What the pipeline owns: the store and logs, nothing raw."""
        return self.path.with_suffix(".streamgauge")
