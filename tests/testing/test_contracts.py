"""Contracts: every built-in source, sink and engine meets them, and broken twins fail."""

import csv
import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streamgauge.config.settings import Stream
from streamgauge.privacy import User
from streamgauge.records.blocks import Block
from streamgauge.sinks import CsvLines, JsonLines, LineFile, ParquetParts
from streamgauge.sources import Inbox, StandardInput, open_batch_source
from streamgauge.sources.folder import LiveFolder
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.sources.tail import FollowedFile
from streamgauge.testing.contracts import (
    GOOD_LINES,
    POISON,
    check_batch_source,
    check_engine,
    check_engine_changes,
    check_engine_ranges,
    check_even_source,
    check_single_pass_source,
    check_sink,
    check_streaming_source,
)
from tests.support.declared import ALL, BY_REGION, TICKS, engine, json_line, part
from tests.support.declared import stream as clinic
from tests.support.declared_streams import stream

OWNER = "ab" * 16
USERS = clinic(unit=User(1, 2))
OF_ONE_USER = [json_line({"hours": 1, "region": "north", "who": "ana"}).encode()] * 4
LINES = [
    json_line({"hours": hours, "region": region}).encode() for hours in range(8) for region in ("north", "south", "?")
]


class Feed:
    """Bytes that are appended to a file, as any writer does."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)


def follow(path: Path, kind: type[FollowedFile] = FollowedFile) -> Callable[[], FollowedFile]:
    return lambda: kind(path, has_header=False)


# sources


def test_followed_file_meets_the_contract(tmp_path: Path) -> None:
    check_streaming_source(follow(tmp_path / "v.jsonl"), Feed(tmp_path / "v.jsonl"))


def test_live_folder_meets_the_contract(tmp_path: Path) -> None:
    of = stream(".", mode="streaming")
    check_streaming_source(lambda: LiveFolder(tmp_path, of), Feed(tmp_path / "a.jsonl"))


def test_standard_input_meets_the_single_pass_contract() -> None:
    reading, writing = os.pipe()

    def write(data: bytes) -> None:
        os.write(writing, data)

    try:
        check_single_pass_source(StandardInput(reading), write)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("is_durable", [True, False])
def test_inboxes_meet_the_single_pass_contract(is_durable: bool) -> None:
    lasting = Inbox(key_ttl=10**6, max_waiting_bytes=10**6, now=lambda: 0)
    inbox: Any = lasting if is_durable else EphemeralInbox(max_waiting_bytes=10**6)
    check_single_pass_source(inbox, lambda data: inbox.put(str(hash(data)), data) and None, cuts=False)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_reads_of_files_do_not_depend_on_records(tmp_path: Path, kind: str) -> None:
    made = iter(range(10))

    def make(lines: Any) -> Any:
        folder = tmp_path / str(next(made))
        folder.mkdir()
        Feed(folder / "v.jsonl")(b"".join(line + b"\n" for line in lines))
        return follow(folder / "v.jsonl")() if kind == "file" else LiveFolder(folder, stream("."))

    check_even_source(make)


@pytest.mark.parametrize("name", ["v.jsonl", "v.jsonl.gz", "folder"])
def test_batch_files_meet_the_contract(tmp_path: Path, name: str) -> None:
    data = b"".join(line + b"\n" for line in (*GOOD_LINES, POISON))
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        (path / "a.jsonl").write_bytes(data)
    else:
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    changed = path / "b.jsonl" if name == "folder" else path
    check_batch_source(lambda: open_batch_source(stream(name), tmp_path), GOOD_LINES, lambda: Feed(changed)(b"x"))


class Forgetful(FollowedFile):
    """Restart from the beginning after every kill."""

    def resume(self, position: bytes | None) -> None:
        """Forget."""


class Lagging(FollowedFile):
    """Report the position before the last block."""

    before: bytes | None = None

    def read(self) -> Block | None:
        before = super().position()
        block = super().read()
        self.before = before if block is not None else self.before
        return block

    def position(self) -> bytes:
        return self.before or super().position()


class Hasty(FollowedFile):
    """Continue at the end of the file for any position."""

    def resume(self, position: bytes | None) -> None:
        while self.read() is not None:
            pass


class Torn(FollowedFile):
    """Return a line that has no end yet."""

    def read(self) -> Block | None:
        block = super().read()
        if self._file is not None and not self._file.is_finished and block is None:
            self._file.finish()
            block = self._file.read()
        return block


class Poisoned(FollowedFile):
    """Replaces bad letters instead of dropping the record."""

    def read(self) -> Block | None:
        block = super().read()
        return block and Block(block.data + b"bad\n" * len(block.dropped_records), block.offset)


class Endless(FollowedFile):
    """Never report the end."""

    at_end = property(lambda self: False, lambda self, value: None)  # type: ignore[assignment]


class GroupOffset(FollowedFile):
    """Resume after the last `commit`, as a consumer group does."""

    def __init__(self, path: Path, *, has_header: bool) -> None:
        super().__init__(path, has_header=has_header)
        self.offset_file = Path(f"{path}.offset")

    def commit(self, closed_until: int) -> None:
        super().commit(closed_until)
        self.offset_file.write_bytes(self.position())

    def resume(self, position: bytes | None) -> None:
        super().resume(self.offset_file.read_bytes() if self.offset_file.exists() else None)


@pytest.mark.parametrize("kind", [Forgetful, Lagging, Hasty, Torn, Poisoned, Endless, GroupOffset])
def test_broken_sources_are_caught(tmp_path: Path, kind: type[FollowedFile]) -> None:
    with pytest.raises(AssertionError):
        check_streaming_source(follow(tmp_path / "v.jsonl", kind), Feed(tmp_path / "v.jsonl"))


def test_source_with_reads_that_depend_on_records_is_caught(tmp_path: Path) -> None:
    class Uneven(FollowedFile):
        """Its position is longer after a bad record."""

        def position(self) -> bytes:
            return super().position() + b"!" * (512 * (b"\xff" in path.read_bytes()))

    made = iter(range(10))

    def make(lines: Any) -> Any:
        nonlocal path
        path = tmp_path / f"{next(made)}.jsonl"
        Feed(path)(b"".join(line + b"\n" for line in lines))
        return follow(path, Uneven)()

    path = tmp_path
    with pytest.raises(AssertionError, match="must not depend on what is in a record"):
        check_even_source(make)


def test_an_inbox_that_repeats_batches_is_caught() -> None:
    class Repeating(Inbox):
        """Drop the keys of committed batches."""

        def put(self, key: str | None, lines: bytes, **settings: Any) -> Any:
            super().put(None, lines, **settings)
            return super().put(None, lines, **settings)

    inbox = Repeating(key_ttl=10**6, max_waiting_bytes=10**6, now=lambda: 0)
    with pytest.raises(AssertionError, match="read once"):
        check_single_pass_source(inbox, lambda data: inbox.put("a", data) and None, cuts=False)


@pytest.mark.parametrize("broken", ["fingerprint", "ranges"])
def test_broken_batch_sources_are_caught(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "v.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in GOOD_LINES))

    class Twin:
        """A batch source with one fault."""

        def __init__(self) -> None:
            self.inner, self.reads = open_batch_source(stream("v.jsonl"), tmp_path), 0

        @property
        def ranges(self) -> Any:
            self.reads += 1
            return () if broken == "ranges" and self.reads == 2 else self.inner.ranges

        def fingerprint(self) -> str:
            return "the same" if broken == "fingerprint" else self.inner.fingerprint()

        def schemas(self) -> Any:
            return ()

    with pytest.raises(AssertionError):
        check_batch_source(Twin, GOOD_LINES, lambda: Feed(path)(b"x\n"))


# sinks


def sink_of(tmp_path: Path, kind: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    path = tmp_path / f"releases.{kind}"
    if kind == "parquet":
        return lambda: ParquetParts("p", path, OWNER), lambda: duckdb.sql(
            f"SELECT release, tick, value FROM '{path}/*.parquet'"
        ).fetchall()
    form: Any = JsonLines() if kind == "jsonl" else CsvLines()
    return lambda: LineFile("f", path, form, OWNER), lambda: read_lines(path, kind)


def read_lines(path: Path, kind: str) -> Iterator[tuple[str, int, float]]:
    with path.open() as file:
        if kind == "jsonl":
            for row in map(json.loads, file):
                yield row["release"], row["tick"], row["count"]["value"]
        else:
            for row in csv.DictReader(file):
                yield row["release"], int(row["tick"]), float(row["value"])


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_built_in_sinks_meet_the_contract(tmp_path: Path, kind: str) -> None:
    check_sink(*sink_of(tmp_path, kind))


class Appending(LineFile):
    """Never removes what a lost run wrote."""

    def write(self, releases: Any, tick: int, chain: str) -> bytes:
        self._length = self.path.stat().st_size if self.path.exists() else 0
        return super().write(releases, tick, chain)


class Traceless(LineFile):
    """Report nothing about its content."""

    def resume(self, position: bytes | None) -> None:
        super().resume(position)


class Trusting(LineFile):
    """Accept any content as its own."""

    def diverged(self, knows: Any) -> None:
        """Say nothing."""


class Eager(LineFile):
    """Remove lost lines on open, together with the evidence."""

    def resume(self, position: bytes | None) -> Any:
        found = super().resume(position)
        if self.path.exists():
            os.truncate(self.path, 0)
        return found


@pytest.mark.parametrize("kind", [Appending, Traceless, Trusting, Eager])
def test_broken_sinks_are_caught(tmp_path: Path, kind: type[LineFile]) -> None:
    path = tmp_path / "releases.jsonl"
    with pytest.raises(Exception, match=r"must|of ours"):
        check_sink(lambda: kind("f", path, JsonLines(), OWNER), lambda: read_lines(path, "jsonl"))


# engines


def make_engine() -> Any:
    return engine(clinic(), [ALL, BY_REGION])


def test_embedded_engine_meets_the_contract(tmp_path: Path) -> None:
    check_engine(make_engine, make_engine, LINES, TICKS)
    (tmp_path / "a").write_bytes(b"".join(line + b"\n" for line in LINES))
    (tmp_path / "b").write_bytes(LINES[0] + b"\n")
    ranges = [part(tmp_path / "a"), part(tmp_path / "b", clean=False)]
    check_engine_ranges(make_engine, make_engine, ranges, TICKS)


@pytest.mark.parametrize("declared", [clinic(), USERS], ids=["events", "users"])
def test_the_embedded_engine_changes_its_measures_while_it_is_open(declared: Stream) -> None:
    make = partial(engine, declared)
    check_engine_changes(make, make, [ALL], [BY_REGION, ALL], lines=LINES, ticks=TICKS)
    check_engine_changes(make, make, [BY_REGION, ALL], [ALL], lines=LINES, ticks=TICKS)


class Twin:
    """An engine around the embedded one."""

    def __init__(self) -> None:
        self.inner = make_engine()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *failure: object) -> None:
        self.inner.close()


class LosesLast(Twin):
    """Drops the last record of a block."""

    def scan_block(self, block: Block, *settings: Any) -> Any:
        return self.inner.scan_block(Block(block.data[: block.data[:-1].rfind(b"\n") + 1], 0), *settings)


class Fragile(Twin):
    """Raises on a record that is no object."""

    def scan_block(self, block: Block, *settings: Any) -> Any:
        if b"null" in block.data or b"\n{\n" in block.data or b"\n\n" in block.data:
            raise ValueError(block.data[:10])
        return self.inner.scan_block(block, *settings)


class Misplaced(Twin):
    """Report bad records at wrong lines."""

    def locate(self, block: Block, header: Any = None) -> Any:
        return [replace(each, offset=each.offset + 1) for each in self.inner.locate(block, header)]


class Deaf(Twin):
    """Ignore a stop."""

    def scan_ranges(self, ranges: Any, first: int, last: int, stop: Any = None) -> Any:
        return self.inner.scan_ranges(ranges, first, last)


def test_engine_that_drops_users_on_measure_change_is_caught() -> None:
    class Forgetful(Twin):
        def change_measures(self, measures: Any) -> None:
            self.inner.close()
            self.inner = engine(USERS, measures)

    def make(measures: Any) -> Any:
        twin = Forgetful()
        twin.inner = engine(USERS, measures)
        return twin

    with pytest.raises(AssertionError, match="after a change"):
        check_engine_changes(make, partial(engine, USERS), [ALL], [ALL, BY_REGION], lines=OF_ONE_USER, ticks=TICKS)


def test_engine_that_ignores_a_change_of_measures_is_caught() -> None:
    class Unchanged(Twin):
        def change_measures(self, measures: Any) -> None:
            """Keep them."""

    with pytest.raises(AssertionError, match="after a change"):
        check_engine_changes(
            lambda measures: Unchanged(), partial(engine, clinic()), [ALL], [ALL], lines=LINES, ticks=TICKS
        )


@pytest.mark.parametrize("kind", [LosesLast, Fragile, Misplaced])
def test_broken_engines_are_caught(kind: type[Twin]) -> None:
    with pytest.raises(AssertionError):
        check_engine(kind, make_engine, LINES, TICKS)


def test_engine_that_ignores_a_stop_is_caught(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LINES[0] + b"\n")
    with pytest.raises(AssertionError, match="a stop must raise"):
        check_engine_ranges(Deaf, make_engine, [part(tmp_path / "a")], TICKS)
