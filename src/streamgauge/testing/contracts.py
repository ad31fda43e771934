"""Contract tests of sources, sinks and engines, to call from your own tests.

    from streamgauge.testing.contracts import check_streaming_source

    def test_feed(feed_server):
        check_streaming_source(lambda: FeedSource(feed_server.url, 5), feed_server.append)

Each check gets a function that makes your source, sink or engine. It raises AssertionError with the broken rule. The
checks need no test runner and no network.

    kills      a run may die between any two calls: another process resumes from the last committed position
    resumes    nothing is read twice or lost after one
    cuts       records come in pieces of any length
    poison     a bad record is dropped alone, and its text appears nowhere
    evenness   calls, positions and passes do not depend on the content of a record
"""

import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from threading import Event as Flag
from typing import Any

import numpy as np

from streamgauge.interfaces import BatchSource, Engine, Range, Sink, StopRequestedError, StreamingSource
from streamgauge.plan.measure import Measure, Pass
from streamgauge.records.blocks import MAX_RECORD_BYTES, Block
from streamgauge.releases.release import TickRelease
from streamgauge.releases.schema import Group, ReleaseSchema

POSITION_BYTES = 2**9  # a run pads positions with blanks to this length
MAX_READS = 100  # of a source that has a handful of records
POISON = b'{"n": "\xff\xfe secret"}'
GOOD_LINES = tuple(b'{"n": %d}' % number for number in range(12))

Feed = Callable[[bytes], None]
Sums = dict[tuple[int, int, int, int], tuple[int, ...]]


def check_streaming_source(make: Callable[[], StreamingSource], feed: Feed, *, cuts: bool = True) -> None:
    """Check a source that continues and can be replayed.

    Args:
        make: Return a fresh source on the same records, as another process would open it.
        feed: Append bytes to the input of the source; nothing has been appended before.
        cuts: True if the medium may show a part of a record before the rest; False if it has whole records only.
    """
    source = make()
    _expect(source.replayable, "replayable must be True for this contract, got False")
    source.resume(None)
    _expect(_read_all(source) == [], "an empty source must give no record, got some")
    committed, lines_read = source.position(), list[bytes]()
    for number, line in enumerate((*GOOD_LINES[:4], POISON, *GOOD_LINES[4:])):
        if cuts:
            feed(line[:5])
            _expect_lines(_read_all(source), [], "a record must be whole before it is read")
            feed(line[5:] + b"\n")
        else:
            feed(line + b"\n")
        read = _read_all(source)
        _expect_lines(read, [] if line == POISON else [line], "each good record must be read once, no other")
        lines_read += read
        if number % 3 == 0:  # the run commits here: records read later are lost with the process
            committed, lines_read = source.position(), []
            if number % 2:  # else the run dies after its commit, before the source learns of it
                source.commit(0)
        source.close()
        source = make()
        source.resume(_pad(committed))
        _expect_lines(_read_all(source), lines_read, "after a kill a source must give what came after the position")
    _check_positions(make, source)
    source.close()


def check_single_pass_source(source: StreamingSource, feed: Feed, *, cuts: bool = True) -> None:
    """Check a source whose records cannot be read again. It outlives its runs.

    Args:
        source: A fresh source.
        feed: Append bytes to the input of the source.
        cuts: True if the medium may show a part of a record before the rest.
    """
    _expect(not source.replayable, "replayable must be False for this contract, got True")
    source.resume(None)
    _expect(_read_all(source) == [], "an empty source must give no record, got some")
    for line in (*GOOD_LINES[:4], POISON, *GOOD_LINES[4:]):
        if cuts:
            feed(line[:5])
            _expect_lines(_read_all(source), [], "a record must be whole before it is read")
            feed(line[5:] + b"\n")
        else:
            feed(line + b"\n")
        _expect_lines(
            _read_all(source), [] if line == POISON else [line], "each good record must be read once, no other"
        )
        position = source.position()
        _expect(b"secret" not in position, "a position must have nothing of a record in it, got a text")
        source.commit(0)
        source.resume(_pad(position) if position else None)  # another run of the same process
        _expect(_read_all(source) == [], "what was committed must not be read by the next run, got some of it")


def _check_positions(make: Callable[[], StreamingSource], source: StreamingSource) -> None:
    """Check that an empty read moves no position, and that a position opens twice.

    Another process opens it.
    """
    position = source.position()
    _expect(_read_all(source) == [], "a source at its end must give no record, got some")
    _expect(source.position() == position, "reading nothing must not move the position")
    _expect(len(position) <= 2**20, "a position must be small, got more than a megabyte")
    _expect(b"secret" not in position, "a position must have nothing of a record in it, got a text")
    source.pause()
    source.resume(_pad(position))
    _expect(_read_all(source) == [], "a source that was paused must continue at its position, got records again")
    for _ in range(2):
        other = make()
        other.resume(_pad(position))
        _expect(_read_all(other) == [], "a resumed source must not repeat what was committed")
        other.close()


def check_even_source(make: Callable[[Sequence[bytes]], StreamingSource]) -> None:
    """Check that reads and lengths of positions do not depend on record content.

    Args:
        make: Return a source that has some records, each of the same length.
    """
    lines_read = []
    for word in (b"a", b"z", b"\xff"):
        source = make([b'{"n": "%s"}' % (word * 8)] * 5)
        source.resume(None)
        calls, ends = 0, []
        while calls < MAX_READS:
            source.read()
            calls += 1
            ends.append((source.at_end, len(_pad(source.position()))))
            if source.at_end:
                break
        lines_read.append((calls, ends))
        source.close()
    _expect(
        lines_read[0] == lines_read[1] == lines_read[2], "reads and positions must not depend on what is in a record"
    )


def check_batch_source(make: Callable[[], BatchSource], lines: Sequence[bytes], change: Callable[[], None]) -> None:
    """Check a complete source that has no columns file and can be read as blocks.

    Args:
        make: Return the source.
        lines: Its good records, in order.
        change: Change the source, if only by one record.
    """
    source = make()
    for _ in range(2):
        _expect_lines(_read_ranges(source.ranges), lines, "ranges must give the same records whenever they are read")
    _expect(make().fingerprint() == source.fingerprint(), "a fingerprint must stay while the source does")
    for each in source.ranges:
        copy = pickle.loads(pickle.dumps(each))
        _expect_lines(_read_ranges([copy]), _read_ranges([each]), "a range must be readable in another process")
        _expect(b"secret" not in pickle.dumps(each), "a range must have nothing of a record in it, got a text")
    before = source.fingerprint()
    change()
    _expect(make().fingerprint() != before, "a fingerprint must change with the source, got the same")


def check_sink(make: Callable[[], Sink], read: Callable[[], Iterable[tuple[str, int, float]]]) -> None:
    """Check a sink that can be read back.

    Args:
        make: Return a fresh sink at the same location, as another process would open it.
        read: Return the content: release, tick and value of each row.
    """
    sink, position, expected = make(), None, list[tuple[str, int, float]]()
    _expect(sink.resume(None) is None, "a new sink must have no trace, got one")
    for tick in range(1, 7):
        sink.write([_build_release(tick, 100.0 + tick)], tick, _chain("lost", tick))  # dies before the commit
        sink.close()
        sink = make()
        newest = sink.resume(position)
        _expect(
            newest is not None and _is_known(newest, "lost", tick),
            "resume must return the newest trace, even after the position",
        )
        diverged = sink.diverged(partial(_is_known, history="kept", tick=tick - 1))
        _expect(diverged is None, "the last write that the store knows must be found at the position")
        position = sink.write([_build_release(tick, float(tick))], tick, _chain("kept", tick))
        expected.append(("probe", tick, float(tick)))
        sink.close()
        _expect(sorted(read()) == expected, "each tick must be in the sink once, as it was last written")
        sink = make()
        sink.resume(position)
    _expect(sink.diverged(lambda trace: False) is not None, "a sink of another history must be found out")
    sink.close()
    sink = make()
    sink.resume(position)
    sink.close()
    _expect(sorted(read()) == expected, "resume and close alone must change nothing")


def check_engine(
    make: Callable[[], Engine], reference: Callable[[], Engine], lines: Sequence[bytes], ticks: int
) -> None:
    """Check that an engine returns the sums of a reference, however blocks are cut.

    Args:
        make: Return the engine, for measures of a stream of JSON lines.
        reference: Return the embedded engine for the same measures.
        lines: Records, without line feeds; poison among them.
        ticks: The last tick.
    """
    whole = b"".join(line + b"\n" for line in lines)
    with reference() as known:
        expected = add_passes([known.scan_block(Block(whole, 0), 1, ticks, False)])
    for size in (1, 3, len(lines)):
        with make() as engine:
            parts = [lines[begin : begin + size] for begin in range(0, len(lines), size)]
            blocks = [Block(b"".join(line + b"\n" for line in part), 0) for part in parts]
            passes = [engine.scan_block(block, 1, ticks, False) for block in blocks]
            _expect(add_passes(passes) == expected, "sums must be those of the embedded engine, for every cut")
            _expect(
                all((each.first, each.last) == (1, ticks) for each in passes), "a pass must cover the requested ticks"
            )
            engine.scan_empty_block(1, ticks)
            again = engine.scan_block(Block(b"", 0), 1, ticks, False)
            _expect(add_passes([again]) == {}, "an empty block must add nothing")
    _check_poison(make, lines, ticks, expected)


def _check_poison(make: Callable[[], Engine], lines: Sequence[bytes], ticks: int, expected: Sums) -> None:
    """Check that bad lines change no sum, raise nothing, and are located without text."""
    poison = (b"", b"{", b"null", b'{"a":' * 50, b"\0\0", b"x" * MAX_RECORD_BYTES)
    mixed = [line for good in lines for line in (good, poison[len(good) % len(poison)])]
    data = b"".join(line + b"\n" for line in mixed)
    with make() as engine:
        try:
            found = engine.scan_block(Block(data, 0), 1, ticks, False)
        except Exception as failure:
            raise AssertionError(f"no record may raise, got {type(failure).__name__}") from None
        _expect(add_passes([found]) == expected, "a bad record must change no sum")
        _expect(found.counts["records"] == len(mixed), "all records must be counted for the curator")
        for record in engine.locate(Block(data, 0)):
            _expect(
                data[record.offset + record.length : record.offset + record.length + 1] == b"\n", "offsets must fit"
            )


def check_engine_changes(
    make: Callable[[Sequence[Measure]], Engine],
    reference: Callable[[Sequence[Measure]], Engine],
    measures: Sequence[Measure],
    others: Sequence[Measure],
    *,
    lines: Sequence[bytes],
    ticks: int,
) -> None:
    """Check that an open engine answers other measures from the next block on, and still bounds users as before.

    Args:
        make: Return the engine for some measures of a stream of JSON lines.
        reference: Return the embedded engine for some measures.
        measures: The measures until the change.
        others: The measures after it.
        lines: Records, without line feeds. The change is in their middle.
        ticks: The last tick.
    """
    middle = len(lines) // 2
    first, second = (Block(b"".join(line + b"\n" for line in part), 0) for part in (lines[:middle], lines[middle:]))
    with make(measures) as engine, reference(others) as known:
        engine.scan_block(first, 1, ticks, False)
        known.scan_block(first, 1, ticks, False)
        expected = add_passes([known.scan_block(second, 1, ticks, False)])
        engine.change_measures(others)
        found = add_passes([engine.scan_block(second, 1, ticks, False)])
        _expect(found == expected, "after a change, sums must be those of an engine that had the measures before")
        try:
            engine.change_measures([])
        except ValueError:
            pass
        else:
            raise AssertionError("a change to no measure must be refused, got none")
        engine.scan_empty_block(1, ticks)


def check_engine_ranges(
    make: Callable[[], Engine], reference: Callable[[], Engine], ranges: Sequence[Range], ticks: int
) -> None:
    """Check the passes over a batch source, and the reaction to a stop."""
    with make() as engine, reference() as known:
        mine, theirs = (list(each.scan_ranges(ranges, 1, ticks)) for each in (engine, known))
    _expect(add_passes(mine) == add_passes(theirs), "sums of ranges must be those of the embedded engine")
    cuts = [[(each.first, each.last) for each in passes] for passes in (mine, theirs)]
    _expect(cuts[0] == cuts[1], "passes must be cut by declarations alone, as the embedded engine does")
    stop = Flag()
    stop.set()
    with make() as engine:
        try:
            list(engine.scan_ranges(ranges, 1, ticks, stop))
        except StopRequestedError:
            return
    raise AssertionError("a stop must raise StopRequestedError, got a result")


def add_passes(passes: Iterable[Pass]) -> Sums:
    """Return the sums by measure, tick, group and cell, without those that are zero."""
    found: dict[tuple[int, int, int, int], Any] = {}
    for each in passes:
        for measure, tally in enumerate(each.tallies):
            for row in range(len(tally.ticks)):
                key = (measure, int(tally.ticks[row]), int(tally.groups[row]), int(tally.cells[row]))
                found[key] = found.get(key, 0) + tally.sums[:, row]
    return {key: tuple(int(value) for value in row) for key, row in found.items() if np.any(row)}


def _build_release(tick: int, value: float) -> TickRelease:
    shape = ReleaseSchema("probe", ("count",), (Group(0, ()),))
    numbers = np.array([[value]])
    start = 1_767_571_200_000_000 + (tick - 1) * 60_000_000
    return TickRelease(shape, tick, start, start + 60_000_000, numbers, numbers, numbers, numbers, np.array([[True]]))


def _chain(history: str, tick: int) -> str:
    return sha256(f"{history} {tick}".encode()).hexdigest()


def _is_known(trace: tuple[int, str], history: str, tick: int) -> bool:
    """Return whether a history knows a stamp, which may have a chain's prefix only."""
    return trace[0] == tick and bool(trace[1]) and _chain(history, tick).startswith(trace[1])


def _read_all(source: StreamingSource) -> list[bytes]:
    """Return all records up to the end, as lines."""
    found: list[bytes] = []
    for _ in range(MAX_READS):
        block = source.read()
        if block is not None:
            _check_block(block)
            found += block.data.splitlines()
        if source.at_end:
            return found
    raise AssertionError(f"at_end must become True at the end, got {MAX_READS} reads without")


def _read_ranges(ranges: Iterable[Range]) -> list[bytes]:
    found: list[bytes] = []
    for each in ranges:
        for block in each.blocks():
            _check_block(block)
            found += block.data.splitlines()
    return found


def _check_block(block: Block) -> None:
    lines = block.data.split(b"\n")
    _expect(lines.pop() == b"", "a block must end with a line feed")
    for line in lines:
        _expect(len(line) <= MAX_RECORD_BYTES and b"\r" not in line, "lines must be short and without carriage returns")
        try:
            line.decode()
        except UnicodeDecodeError:
            raise AssertionError("lines must be UTF-8, got one that is not") from None
    _expect("secret" not in repr(block), "a dropped record must leave nothing of its text")


def _expect_lines(found: Sequence[bytes], expected: Sequence[bytes], rule: str) -> None:
    _expect(list(found) == list(expected), f"{rule}, got {len(found)} records for {len(expected)}")


def _expect(holds: bool, rule: str) -> None:
    if not holds:
        raise AssertionError(rule)


def _pad(position: bytes) -> bytes:
    """Return a position as the store returns it."""
    size = POSITION_BYTES
    while size < len(position):
        size *= 2
    return position.ljust(size)
