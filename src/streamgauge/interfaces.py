"""Protocols of the replaceable parts of a run: source, engine, sink, clock, store.

Each has a Protocol here, a registry that entry points fill (`streamgauge.registry`) and a contract test in
`streamgauge.testing.contracts`. The store Protocols come last. Their commit rules are in `streamgauge.store`, the
registry in `streamgauge.store.drivers` (group `streamgauge.stores`), the contract in
`streamgauge.testing.store_contract`.

    registry    entry-point group        the entry point is a     chosen by
    SOURCES     streamgauge.sources      SourceKind               the scheme of [stream] source
    SINKS       streamgauge.sinks        SinkKind                 the scheme of [[sink]] to
    ENGINES     streamgauge.engines      EngineKind               [engine] kind

A kind is a factory and the public facts about it. A pipeline file is checked against the facts before anything is
opened. No other code compares the name of a kind.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event as Flag
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, cast

from streamgauge.clock import Clock, SystemClock
from streamgauge.config import endpoints
from streamgauge.config.settings import Lookup, PipelineFile, SinkSettings, Stream
from streamgauge.records.blocks import Block, DroppedRecord
from streamgauge.records.source_schema import SourceSchema
from streamgauge.registry import Registry, RegistryError

if TYPE_CHECKING:
    from streamgauge.plan.measure import Measure, Pass
    from streamgauge.releases.release import TickRelease
    from streamgauge.releases.schema import ReleaseSchema

__all__ = [
    "ENGINES",
    "SINKS",
    "SOURCES",
    "BatchSource",
    "Clock",
    "Engine",
    "EngineKind",
    "EngineRequest",
    "Range",
    "Registry",
    "RegistryError",
    "Sink",
    "SinkKind",
    "SinkRequest",
    "SourceKind",
    "SourceRequest",
    "StopRequestedError",
    "StoreBacking",
    "StoreDriver",
    "StoreReading",
    "StreamingSource",
    "UserMemory",
    "check_stop",
    "open_engine",
]

Header = tuple[str, ...] | None
SavedParts = dict[str, bytes | None]


class Range(Protocol):
    """Address of some records of a batch source, readable by any process.

    It can be pickled, is public and contains no credentials. Reading it twice gives the same records.
    """

    @property
    def path(self) -> Path:
        """Path of the file. An engine may read it directly if `is_clean`."""
        ...

    @property
    def is_clean(self) -> bool:
        """True if an engine that reads the path finds the records that `blocks` gives."""
        ...

    @property
    def header(self) -> Header:
        """Names of the columns, if the range is CSV."""
        ...

    @property
    def size(self) -> int:
        """Approximate number of bytes to read."""
        ...

    def blocks(self) -> Iterator[Block]:
        """Return the records as clean lines, without the header."""
        ...

    def tables(self, columns: Sequence[str]) -> Iterator[Any]:
        """Return the records as Arrow tables of some columns, if the range is columnar."""
        ...

    def split(self, size: int) -> "Sequence[Range]":
        """Return ranges of about `size` bytes with the same records, or only this one if it cannot be cut."""
        ...


class BatchSource(Protocol):
    """Complete source."""

    @property
    def ranges(self) -> Sequence[Range]:
        """All records, in parts. Their number must not depend on the content of a record."""
        ...

    def fingerprint(self) -> str:
        """Return a text that changes if the source changes."""
        ...

    def schemas(self) -> Iterable[SourceSchema]:
        """Return the columns of each file that has a header or a schema."""
        ...


class StreamingSource(Protocol):
    """Source that continues to receive records. Inherit from this class for the defaults.

    A run reads blocks, adds them up, commits the sums together with `position`, and then calls `commit`. After a
    crash another process calls `resume` with the position of the last commit. A replayable source then returns again
    every record that it returned after that position, and no record from before it. A run that waits for commands
    calls `pause`, and later `resume` with the current position.

    The position is committed when a tick closes. So a log must retain its records for a tick, the allowed lateness
    and the longest downtime.

    A record is one line. A message with a line feed inside would be two records: drop it by a rule.
    """

    @property
    def header(self) -> Header:
        """Names of the columns of the last block, if it was CSV."""
        return None

    @property
    def replayable(self) -> bool:
        """True if records read after a position can be read again. Equals `SourceKind.is_replayable`."""
        ...

    @property
    def at_end(self) -> bool:
        """True if every record that existed at the start of this round was read.

        A round begins with the first `read` after `commit`, `resume` or an end. A due tick closes at the end of a
        round. An empty poll is not the end: compare with the log's end offset. While it is False and `read` returns
        None, the records exist and have not arrived: the run reads again at once, and ticks stay open.
        """
        ...

    @property
    def has_waiters(self) -> bool:
        """True if a sender waits for unread records to be committed."""
        return False

    @property
    def is_exhausted(self) -> bool:
        """True if no more records will ever arrive."""
        return False

    def schemas(self) -> Iterable[SourceSchema]:
        """Return the columns of each present file that has a header or a schema."""
        return ()

    def wait_for_header(self, sleep: Callable[[], None], stop: Flag | None) -> None:
        """Wait for the header that every record depends on. Do nothing if there is none."""
        return

    def read(self) -> Block | None:
        """Return available records, at most 16 MiB, or None.

        Never wait if there are none. Wait at most 50 ms for records that exist and have not arrived, as a poll with a
        timeout does.

        Raises:
            SourceError: If the source cannot be read. A source that is away for a moment may return None instead,
                with `at_end` False.
        """
        ...

    def position(self) -> bytes:
        """Return the end of the blocks that were read, for `resume`. It is stored encrypted and padded."""
        ...

    def resume(self, position: bytes | None) -> None:
        """Continue after a position, or from the beginning if it is None.

        The position comes back with blanks at its end, which hide its length. With pan_private = true no position
        is stored, and None means the current place.
        """
        ...

    def commit(self, closed_until: int) -> None:
        """Accept that all read records are durable.

        Ticks that end by `closed_until`, in microseconds since 1970, are closed.
        """
        return

    def pause(self) -> None:
        """Read nothing until the next `resume`; reject senders that wait."""
        return

    def close(self) -> None:
        """Release connections and files."""
        return


class UserMemory(Protocol):
    """Users that an engine remembers in order to bound their contributions."""

    def forget(self, tick: int) -> None:
        """Forget events of the ticks up to `tick`, which are closed."""
        ...

    def save(self, ticks: int) -> SavedParts:
        """Return the parts to write when a tick closes, padded for `ticks` open ticks.

        Together with the parts that were written before and not replaced, they are the whole memory.
        """
        ...

    def save_changed(self) -> SavedParts:
        """Return the parts to write between two closed ticks."""
        ...

    def restore(self, state: Mapping[str, bytes]) -> None: ...


class Engine(Protocol):
    """Aggregation of records into exact sums by tick, group and cell.

    All engines return equal sums for equal records. No record raises, changes how another is read, or appears in
    a message. One thread at a time uses an engine.
    """

    @property
    def bounds(self) -> UserMemory: ...

    def scan_ranges(self, ranges: Sequence[Range], first: int, last: int, stop: Flag | None = None) -> "Iterator[Pass]":
        """Return the sums of the ticks from `first` to `last`, pass by pass.

        Only declarations determine where passes are cut. A set `stop` raises `StopRequestedError`.
        """
        ...

    def scan_block(
        self, block: Block, first_open: int, last_allowed: int, carry: bool, header: Header = None
    ) -> "Pass":
        """Return the sums of a live block. Late events are dropped or carried forward.

        Carried events count in the first open tick.
        """
        ...

    def scan_empty_block(self, first_open: int, last_allowed: int, header: Header = None) -> None:
        """Do the same work as for a block of one record, without a record."""
        ...

    def change_measures(self, measures: "Sequence[Measure]") -> None:
        """Answer other measures from the next block on. Users stay bounded as they are.

        If it raises, nothing has changed. A run calls it between two blocks, when a release is added.
        """
        ...

    def locate(self, block: Block, header: Header = None) -> tuple[DroppedRecord, ...]:
        """Return the positions of bad records in a block."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Sink(Protocol):
    """Destination of releases that contains each tick once and completely.

    The store remembers the position that `write` returned. At start, `resume` gets it and returns the newest
    (tick, chain) in the sink, even after the position. The next write removes everything after the position.
    """

    @property
    def name(self) -> str: ...

    def resume(self, position: bytes | None) -> tuple[int, str] | None: ...

    def diverged(self, knows: Callable[[tuple[int, str]], bool]) -> str | None:
        """Return why the sink's content differs from the stored history, or None.

        Content up to the position belongs to the history if `knows` accepts its traces.
        """
        ...

    def check_columns(self) -> None:
        """Reject columns that the sink cannot store, without opening it for writing."""
        ...

    def write(self, releases: "Sequence[TickRelease]", tick: int, chain: str) -> bytes:
        """Write durably and return the position.

        `tick` is the last tick written, and `chain` the chain at that tick.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class SourceRequest:
    """Facts about the run that a source gets when it opens."""

    stream: Stream
    base: Path  # the folder that relative paths start from
    stop: Flag | None = None  # set when the run must stop: check it in long loops
    clock: Clock = field(default_factory=SystemClock)
    standard_input: int = 0  # the descriptor

    @property
    def url(self) -> str:
        """Source URL as in the pipeline file."""
        return self.stream.source

    @property
    def options(self) -> Mapping[str, Any]:
        """Table [stream.options]."""
        return self.stream.options


@dataclass(frozen=True)
class SourceKind(endpoints.SourceFacts):
    """Kind of source: its factories and public facts (`config.endpoints.SourceFacts` explains each).

    A source that can be read again cannot support pan_private: the open tick would count its records twice.
    """

    open_streaming: Callable[[SourceRequest], StreamingSource] | None = None
    open_batch: Callable[[SourceRequest], BatchSource] | None = None

    def __post_init__(self) -> None:
        if self.supports_pan_private and self.is_replayable:
            raise ValueError("supports_pan_private must be False for a source that can be read again, got True")


@dataclass(frozen=True)
class SinkRequest:
    """Facts about the run that a sink gets when it opens."""

    settings: SinkSettings
    base: Path  # the folder that relative paths start from
    owner: str = ""  # the identity of the store that writes
    shapes: "Sequence[ReleaseSchema]" = ()  # the releases that will be written

    @property
    def url(self) -> str:
        """Sink URL as in the pipeline file."""
        return self.settings.to

    @property
    def options(self) -> Mapping[str, Any]:
        """Table `options` of the [[sink]]."""
        return self.settings.options


@dataclass(frozen=True)
class SinkKind(endpoints.SinkFacts):
    """Kind of sink. `open` has no effect on the destination until `resume`."""

    open: Callable[[SinkRequest], Sink]


@dataclass(frozen=True)
class EngineRequest:
    """Facts about the run that an engine gets when it opens."""

    stream: Stream
    lookups: Mapping[str, Lookup]
    measures: "Sequence[Measure]"
    secret: bytes = field(repr=False)  # key of the user hashes: 32 bytes
    memory: str = "600MB"
    count_columns: bool = False  # if true, passes count the records that lack a column
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineKind(endpoints.EngineFacts):
    """Kind of engine."""

    open: Callable[[EngineRequest], Engine]


SOURCES = cast("Registry[SourceKind]", endpoints.SOURCES)
SINKS = cast("Registry[SinkKind]", endpoints.SINKS)
ENGINES = cast("Registry[EngineKind]", endpoints.ENGINES)


def open_engine(
    file: PipelineFile,
    measures: "Sequence[Measure]",
    secret: bytes,
    *,
    memory: str = "600MB",
    count_columns: bool = False,
) -> Engine:
    """Return the engine that a file chooses, for some measures."""
    stream, settings = file.stream, file.engine
    if stream.mode == "streaming" and stream.format == "parquet":
        stream = replace(stream, format="jsonl")  # live folders of Parquet files return their rows in this format
    request = EngineRequest(stream, file.lookups, measures, secret, memory, count_columns, settings.options)
    return ENGINES.load(settings.kind, file.plugins).open(request)


StepHook = Callable[[str], None]  # called with the name of each step of a commit; tests stop a run there


def ignore(*arguments: object) -> None:
    """Do nothing: the default of callbacks."""


class StopRequestedError(Exception):
    """A stop was requested, so the work is unfinished and has no result."""


def check_stop(stop: Flag | None) -> None:
    """Raise StopRequestedError if a stop was requested."""
    if stop is not None and stop.is_set():
        raise StopRequestedError


MAX_ENTRY = 2**62  # a bound above every entry number and tick of a store


class HeadRow(NamedTuple):
    """Row with the current generation and the last entry of a store."""

    identity: str
    generation: int  # grows by one with each commit
    number: int  # the last entry of the history, 0 in a new store
    tick: int
    chain: str


class EntryRow(NamedTuple):
    """Entry of the public history. A new store has entry 0."""

    number: int
    tick: int
    chain: str


class LedgerRow(NamedTuple):
    """Ledger entry as canonical JSON, with its history entry."""

    number: int
    chain: str
    text: str


class ReleaseRow(NamedTuple):
    """Release of one tick. Places are 1, 2, ... in the order of commits."""

    place: int
    number: int
    chain: str  # of the entry; empty if there is no such entry
    release: str
    tick: int
    payload: bytes


class PartRow(NamedTuple):
    """Encrypted part of the state. `generation` is that of the commit that wrote it."""

    name: str
    generation: int
    sealed: bytes


class MarkRow(NamedTuple):
    """Small public record, such as how far a sink was written."""

    name: str
    value: bytes
    checksum: bytes


class StoreReading(Protocol):
    """Rows of a store, read without a key and without a lock.

    Each call returns rows of one committed state, never of an open transaction. Later calls may see later
    commits. No call may keep a read transaction open after it returned, except an iterator that is not
    exhausted. `until` limits a call to entries of at most that number.

    Every method raises `StoreError` with code `damaged` if the stored bytes cannot be rows, and
    `StoreUnwritableError` if the medium cannot be reached. No error may contain stored bytes.
    """

    @property
    def address(self) -> str:
        """Folder or URL for messages, without credentials."""
        ...

    def head(self) -> HeadRow: ...

    def sealed_keys(self) -> bytes:
        """Return the encrypted table of part keys that belongs to the head."""
        ...

    def entries(self, first: int = 0, limit: int = MAX_ENTRY) -> Iterator[EntryRow]:
        """Yield entries in the order of their numbers, from number `first` on."""
        ...

    def entries_at(self, tick: int, until: int = MAX_ENTRY) -> list[EntryRow]:
        """Return the entries of one tick, in order."""
        ...

    def ledger(self, until: int = MAX_ENTRY, skip: int = 0) -> list[LedgerRow]:
        """Return ledger entries in the order of commits, without the first `skip`."""
        ...

    def count_ledger(self, until: int) -> int: ...

    def release_names(self, until: int) -> list[str]:
        """Return names in the order in which they were first committed."""
        ...

    def releases(
        self,
        release: str,
        first: int,
        last: int,
        until: int,
        *,
        step: int = 1,
        limit: int,
        payload_bytes: int | None = None,
        newest_first: bool = False,
    ) -> list[ReleaseRow]:
        """Return one release at ticks `first`, `first + step`, ... up to `last`, in order.

        Args:
            limit: The maximum number of rows.
            payload_bytes: The length to which payloads are cut.
            newest_first: True to start with the last ticks.
        """
        ...

    def count_ticks(self, release: str, first: int, last: int, step: int = 1) -> int:
        """Return how many rows `releases` has without a limit, of all entries."""
        ...

    def rows(self, after: int, until: int, limit: int, payload_bytes: int | None = None) -> list[ReleaseRow]:
        """Return the rows of all releases after place `after`, in the order of places."""
        ...

    def count_rows(self, until: int) -> int:
        """Return the number of release rows. It is also the last place."""
        ...

    def marks(self) -> list[MarkRow]: ...

    def last_write_time(self) -> int:
        """Return a time at or after the last commit, in microseconds since 1970."""
        ...

    def parts(self) -> Iterator[PartRow]:
        """Yield all parts of the state, each name once."""
        ...

    def close(self) -> None: ...


class StoreBacking(StoreReading, Protocol):
    """Rows and key slots of a store, open for its one writer.

    **Transactions.** All `write_`, `add_` and `delete_` methods but `write_slot` are called inside
    `transaction()`. When the block ends normally, the rows are committed: all of them or none, and on stable
    storage. If the block raises, no row is written. A crash at any moment leaves the state before or after a
    transaction, nothing else. If committing itself fails, the outcome is unknown: the method raises
    `StoreUnwritableError`, and the caller opens the store again.

    **One writer.** While a backing is open, a second `open_writer` raises `AlreadyRunningError`. A lease that can
    expire cannot guarantee that. Then `write_head` must compare the generation, so that the older writer commits
    nothing.

    **History.** Entries, releases and ledger entries are never changed or deleted. A second row for a release
    and tick raises `StoreError` with code `already_released`.

    **Slots.** Two slots contain data keys, one for even generations and one for odd ones. They are outside of
    transactions. `write_slot` returns when the slot is on stable storage. A torn write of one slot must not
    harm the other. After `destroy_slot` returned, nothing that the backing wrote contains that slot, unless the
    driver declares that it does not erase slots.
    """

    @property
    def exists(self) -> bool:
        """True if `create` was completed."""
        ...

    def create(self, head: HeadRow, sealed_keys: bytes) -> None:
        """Create an empty store with this head and entry 0.

        A crash leaves either no store or a complete one.
        """
        ...

    def check(self) -> None:
        """Check format and medium before anything is used.

        Raises:
            StoreError: The format is not the one that this code writes (`version`).
            StoreError: Pages or indexes are damaged (`damaged`).
        """
        ...

    def transaction(self) -> AbstractContextManager[None]: ...

    def write_head(self, head: HeadRow, sealed_keys: bytes) -> None:
        """Replace the head and its table of part keys.

        Raises:
            StoreError: The generation of the stored head is not `head.generation - 1` (`writer_replaced`).
        """
        ...

    def touch_head(self) -> None:
        """Rewrite the head unchanged, so that this commit is the newest in the journal."""
        ...

    def add_entry(self, entry: EntryRow, released: Sequence[tuple[str, int, bytes]], ledger: Sequence[str]) -> None:
        """Add an entry, then its releases (name, tick, payload), then its ledger texts."""
        ...

    def write_part(self, part: PartRow) -> None:
        """Add a part, or replace the part of this name."""
        ...

    def delete_part(self, name: str) -> None:
        """Delete the part of this name, if it exists."""
        ...

    def delete_parts(self) -> None: ...

    def write_marks(self, marks: Iterable[MarkRow]) -> None:
        """Add marks, or replace those of the same names."""
        ...

    def find_slot(self, generation: int) -> bytes | None:
        """Return the bytes in the slot of a generation. The caller checks them."""
        ...

    def write_slot(self, generation: int, slot: bytes) -> None:
        """Write a slot, replacing the bytes at its place."""
        ...

    def destroy_slot(self, generation: int) -> None:
        """Overwrite the slot of a generation with random bytes."""
        ...

    def empty_journal(self) -> bool:
        """Remove earlier commits from the journal. Return False if a reader prevents it."""
        ...


class StoreDriver(Protocol):
    """Access to the store at one address, built by factories of `streamgauge.stores`.

    A factory gets the URL of `[stream] store`, which has no password. `folder` is the pipeline's own folder
    on this machine.
    """

    @property
    def erases_slots(self) -> bool:
        """True if no journal, replica or backup of the medium retains a destroyed slot.

        If false, an adversary with the medium and the curator's key can decrypt past states. Streams with
        `pan_private = true` are then refused.
        """
        ...

    def exists(self, folder: Path) -> bool:
        """Return whether a store exists, without a lock."""
        ...

    def open_writer(self, folder: Path, *, create: bool) -> StoreBacking:
        """Open the store for its one writer.

        Raises:
            AlreadyRunningError: Another writer has the store.
            StoreNotFoundError: There is no store, and `create` is false.
        """
        ...

    def open_reader(self, folder: Path) -> StoreReading:
        """Open the store for reading, also while a run writes.

        Raises:
            StoreNotFoundError: There is no store.
            StoreError: The format is not the one that this code writes (`version`).
        """
        ...

    def copy(self, folder: Path, to: Path) -> None:
        """Write a copy of one moment into an existing empty folder, and check it.

        The copy has only the slot of its generation.

        Raises:
            StoreError: The store is copied by other means, which the message names.
        """
        ...
