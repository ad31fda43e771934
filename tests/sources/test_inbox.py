"""Posted batches: accepted once, read whole, and acknowledged only after a commit."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.config.rules import DAY
from streamgauge.config.settings import PipelineFile
from streamgauge.sources import Inbox, InboxFullError, build_inbox
from streamgauge.sources import http as module
from streamgauge.sources.line_reader import BLOCK_BYTES
from tests.support.declared_streams import stream

REMEMBERED = 1000


class Clock:
    """A clock that is set by hand."""

    time = 0

    def now(self) -> int:
        return self.time


def an_inbox(most: int = 10**6, clock: Clock | None = None) -> Inbox:
    return Inbox(key_ttl=REMEMBERED, max_waiting_bytes=most, now=(clock or Clock()).now)


def everything(inbox: Inbox) -> bytes:
    """Return the data of one round of reads."""
    found = b""
    while True:
        block = inbox.read()
        found += block.data if block else b""
        if inbox.at_end:
            return found


def test_batch_is_acknowledged_only_after_a_commit():
    inbox = an_inbox()
    ticket = inbox.put("a", b'{"x": 1}\n')
    assert (inbox.find_status("a"), inbox.find_status("b")) == ("waiting", "unknown")
    inbox.commit()
    assert not ticket.done.done()
    assert everything(inbox) == b'{"x": 1}\n'
    assert (ticket.done.done(), inbox.find_status("a")) == (False, "waiting")
    inbox.commit()
    assert (ticket.done.result(0), ticket.is_duplicate, inbox.find_status("a")) == (None, False, "committed")


def test_repeated_batch_has_the_first_number_of_records():
    """The number is the same while the batch waits, after a read, after a commit, and in a later run."""
    inbox, later = an_inbox(), an_inbox()

    def told(of, key="a"):
        return of.put(key, b"1\n2\n3\n", records=3).records

    first, after = inbox.put("a", b"1\n2\n", records=2), [told(inbox)]
    assert everything(inbox) == b"1\n2\n"
    after.append(told(inbox))
    inbox.commit()
    later.resume(inbox.position())
    assert (first.records, [*after, told(inbox), told(later)]) == (2, [2] * 4)
    assert (told(later, "b"), everything(later)) == (3, b"1\n2\n3\n")


def test_repeated_batch_is_read_once_and_acknowledged_to_all():
    inbox = an_inbox()
    first, again = inbox.put("a", b"1\n"), inbox.put("a", b"1\n")
    assert everything(inbox) == b"1\n"
    third = inbox.put("a", b"other\n")
    assert everything(inbox) == b""
    inbox.commit()
    last = inbox.put("a", b"1\n")
    assert [ticket.is_duplicate for ticket in (first, again, third, last)] == [False, True, True, True]
    assert all(ticket.done.done() for ticket in (first, again, third, last))
    assert inbox.read() is None


@pytest.mark.parametrize("tells", [False, True])
def test_substitute_of_repeated_batch_waits_for_its_own_commit(tells):
    """The broken twin has no substitute and acknowledges the batch at once."""
    inbox, instead = an_inbox(), None if tells else b"0\n"
    first = inbox.put("a", b"1\n", substitute=instead)
    assert everything(inbox) == b"1\n"
    inbox.commit()
    again, new = (inbox.put(key, b"1\n", substitute=instead) for key in ("a", "b"))
    assert first.done.done()
    assert [again.done.done(), new.done.done()] == [tells, False]
    assert everything(inbox) == (b"1\n" if tells else b"0\n1\n")
    inbox.commit()
    assert again.done.done()
    assert new.done.done()
    assert [again.is_duplicate, new.is_duplicate] == [True, False]


def test_substitute_needs_equal_capacity_and_follows_the_first_batch():
    inbox = an_inbox(most=5)
    inbox.put("a", b"1\n", substitute=b"0\n")
    inbox.put("a", b"1\n", substitute=b"0\n")
    with pytest.raises(InboxFullError):
        inbox.put("a", b"1\n", substitute=b"0\n")
    assert everything(inbox) == b"1\n0\n"
    inbox.resume(None)
    assert everything(inbox) == b"1\n0\n"
    inbox.close()
    with pytest.raises(InboxFullError, match="got some after its end"):
        inbox.put("a", b"1\n", substitute=b"0\n")


def test_batch_without_key_is_remembered_for_one_commit():
    inbox = an_inbox()
    tickets = [inbox.put(None, b"1\n") for _ in range(3)]
    assert everything(inbox) == b"1\n" * 3
    committed = inbox.position()
    inbox.resume(committed)  # a run that died between the commit and its end
    assert [ticket.done.done() for ticket in tickets] == [True] * 3
    assert everything(inbox) == b""
    inbox = an_inbox()
    inbox.put(None, b"1\n")
    everything(inbox)
    inbox.commit()
    assert module.parse_entries(inbox.position()) == {}


def test_sender_that_disconnects_does_not_block_others():
    inbox = an_inbox()
    first, again = inbox.put("a", b"1\n"), inbox.put("a", b"1\n")
    assert first.done.cancel()
    inbox.read()
    inbox.commit()
    assert again.done.result(0) is None


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_a_torn_line_of_one_batch_never_joins_the_next(batches):
    inbox, alone = an_inbox(), b""
    for number, lines in enumerate(batches):
        inbox.put(str(number), lines)
        single = an_inbox()
        single.put("", lines)
        alone += everything(single)
    assert everything(inbox) == alone
    assert alone == b"" or alone.endswith(b"\n")


def test_an_empty_batch_is_acknowledged_too():
    inbox = an_inbox()
    ticket = inbox.put("a", b"")
    block = inbox.read()
    assert (block is not None and block.data) == b""
    inbox.commit()
    assert ticket.done.done()


def test_dropped_records_have_place_and_rule_up_to_limit():
    inbox = an_inbox()
    inbox.put("a", b"fine\nba\rd\n")
    inbox.put("b", b"\xff\nfine")
    block = inbox.read()
    assert block is not None
    assert block.data == b"fine\nfine\n"
    assert [(each.offset, each.length) for each in block.dropped_records] == [(5, 4), (10, 1)]
    inbox.max_dropped_records = 3
    inbox.put("c", b"\xff\n" * 10)
    block = inbox.read()
    assert block is not None
    assert len(block.dropped_records) == 3


def test_small_batches_are_read_together_and_large_ones_whole():
    inbox = an_inbox(most=10 * BLOCK_BYTES)
    for number in range(5):
        inbox.put(str(number), b"x\n" * 10)
    inbox.put("large", b"y\n" * BLOCK_BYTES)
    inbox.put("last", b"z\n")
    lengths = [len(block.data) for block in iter(inbox.read, None)]
    assert lengths == [100, 2 * BLOCK_BYTES, 2]


def test_round_of_reads_ends_while_batches_keep_arriving():
    """Otherwise a tick could never close."""
    inbox = an_inbox(most=10 * BLOCK_BYTES)
    inbox.put("0", b"x\n" * BLOCK_BYTES)
    inbox.put("1", b"x\n" * BLOCK_BYTES)
    rounds = 0
    while inbox.read() and not inbox.at_end:
        rounds += 1
        inbox.put(f"more {rounds}", b"x\n")
    assert rounds == 1
    assert everything(inbox) == b"x\n"


def test_batch_above_capacity_is_refused_whole():
    inbox = an_inbox(most=10)
    inbox.put("a", b"12345678")
    with pytest.raises(InboxFullError, match="events that wait must be at most 10 bytes, got more"):
        inbox.put("b", b"123")
    assert inbox.find_status("b") == "unknown"
    inbox.read()
    with pytest.raises(InboxFullError):
        inbox.put("b", b"123")  # uncommitted batches stay for the next run
    inbox.commit()
    inbox.put("b", b"123")
    inbox.max_batches = 2
    with pytest.raises(InboxFullError, match="at most 2 at a time, send fewer, larger ones"):
        inbox.put("c", b"")
    assert inbox.put("a", b"").is_duplicate


def test_key_is_forgotten_only_after_its_ticks_close():
    clock = Clock()
    inbox = an_inbox(clock=clock)
    for time in (100, 200):
        clock.time = time
        inbox.put(f"at {time}", b"1\n")
        inbox.read()
        inbox.commit(closed_until=0)
    clock.time = 10**9  # the clock alone closes nothing
    inbox.commit(closed_until=100 + REMEMBERED)
    assert inbox.find_status("at 100") == "committed"
    inbox.commit(closed_until=101 + REMEMBERED)
    assert (inbox.find_status("at 100"), inbox.find_status("at 200")) == ("unknown", "committed")


def test_keys_live_a_day_longer_if_late_events_count():
    sent = replace(stream("http", mode="streaming"), allowed_earliness=30, tick=50)
    file = PipelineFile(Path("v.toml"), sent, {}, (), (), {})
    assert build_inbox(file, Clock().now)._key_ttl == 80
    carrying = replace(file, stream=replace(sent, late="next_tick"))
    assert build_inbox(carrying, Clock().now)._key_ttl == 80 + DAY


def test_resumed_inbox_returns_batches_after_the_commit_again():
    inbox = an_inbox()
    committed = inbox.put("a", b"1\n")
    inbox.read()
    position = inbox.position()
    inbox.commit()
    read, waiting = inbox.put("b", b"2\n"), None
    inbox.read()
    waiting = inbox.put("c", b"3\n")
    inbox.resume(position)
    assert everything(inbox) == b"2\n3\n"
    assert (committed.done.done(), read.done.done(), waiting.done.done()) == (True, False, False)
    inbox.commit()
    assert read.done.done()
    assert waiting.done.done()


def test_batch_of_unconfirmed_commit_is_not_read_again():
    inbox = an_inbox()
    ticket = inbox.put("a", b"1\n")
    inbox.read()
    inbox.resume(inbox.position())  # the run died after the commit and before its confirmation
    assert (everything(inbox), ticket.done.done(), ticket.is_duplicate) == (b"", True, True)


def test_batch_before_opening_is_compared_with_stored_keys():
    before, after = an_inbox(), an_inbox()
    before.put("a", b"1\n")
    before.read()
    again, new = after.put("a", b"1\n"), after.put("b", b"2\n")
    after.resume(before.position())
    assert (again.is_duplicate, again.done.done(), new.is_duplicate) == (True, True, False)
    assert everything(after) == b"2\n"


def test_a_position_has_no_key_that_was_not_read():
    inbox = an_inbox()
    inbox.put("a", b"1\n")
    after = an_inbox()
    after.resume(inbox.position().ljust(2**16))
    assert after.find_status("a") == "unknown"


@pytest.mark.parametrize("twin", [False, True])
def test_position_hides_keys_and_their_number(twin):
    lengths = set()
    inbox = an_inbox()
    if twin:
        inbox.min_key_slots = 1
    for number in range(300):
        inbox.put(f"patient {number}", b"1\n")
        inbox.read()
        lengths.add(len(inbox.position()))
        assert b"patient" not in inbox.position()
    assert (len(lengths) == 1) is not twin


def test_closed_inbox_refuses_batches_and_rejects_waiting_ones():
    inbox = an_inbox()
    read = inbox.put("a", b"1\n")
    inbox.read()
    waiting = inbox.put("b", b"2\n")
    inbox.close()
    for ticket in (read, waiting):
        with pytest.raises(InboxFullError, match="while the run goes on"):
            ticket.done.result(0)
    with pytest.raises(InboxFullError, match="got some after its end"):
        inbox.put("c", b"")
    assert (inbox.is_exhausted, inbox.read()) == (True, None)
    after = an_inbox()
    after.resume(inbox.position())
    assert (after.find_status("a"), after.find_status("b")) == ("committed", "unknown")


def test_senders_and_a_reader_at_once_lose_and_repeat_nothing():
    inbox, found = an_inbox(), b""
    with ThreadPoolExecutor(4) as senders:
        work = [senders.submit(inbox.put, str(i % 400), b"%d\n" % (i % 400)) for i in range(800)]
        while not all(each.done() for each in work) or not inbox.at_end:
            block = inbox.read()
            found += block.data if block else b""
            inbox.commit()
        found += everything(inbox)
        inbox.commit()
    assert sorted(map(int, found.split())) == list(range(400))
    assert all(each.result().done.done() for each in work)
