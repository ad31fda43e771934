"""A followed file: each line once and in order, through growth, rotation and restarts, or a refusal."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.sources import SourceError, StandardInput, open_streaming_source
from streamgauge.sources import growing_file as growing
from streamgauge.sources.line_reader import LENGTH_RULE
from streamgauge.sources.tail import FollowedFile
from tests.support.declared_streams import drained, rules, stream, text
from tests.support.limits import no_free_descriptors

SECRET = b'{"name": "secret"}\n'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "visits.jsonl"


def follow(path, **settings):
    return open_streaming_source(stream(path.name, mode="streaming", **settings), path.parent)


def follow_in_small_blocks(path):
    return FollowedFile(path, has_header=False, block_bytes=8)


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def rotate(path):
    """Rotate as logrotate does: the highest number is the oldest."""
    numbers = sorted((int(old.suffix[1:]) for old in path.parent.glob(path.name + ".*")), reverse=True)
    for number in numbers:
        path.with_name(f"{path.name}.{number}").rename(path.with_name(f"{path.name}.{number + 1}"))
    path.rename(path.with_name(path.name + ".1"))


def restarted(live, path, follow=follow, **settings):
    position = live.position()
    live.close()
    again = follow(path, **settings)
    again.resume(position)
    return again


def test_a_line_is_read_when_it_is_whole(path):
    live = follow(path)
    assert live.read() is None
    assert live.at_end
    for data, out in [(b"", b""), (b"a\nb", b"a\n"), (b"c\r", b""), (b"\n", b"bc\n"), ("é".encode()[:1], b"")]:
        append(path, data)
        assert text(drained(live)) == out
    append(path, "é\n".encode()[1:])
    assert text(drained(live)) == "é\n".encode()
    assert live.replayable
    assert not live.is_exhausted
    live.close()


def test_source_is_at_end_after_all_present_data_is_read(path):
    append(path, b"123\n" * 5 + b"4")
    live = follow_in_small_blocks(path)
    assert not live.at_end
    told = [(live.read().data, live.at_end) for _ in range(2)]
    assert told == [(b"123\n" * 2, False)] * 2
    assert live.read().data == b"123\n"
    assert live.at_end
    append(path, b"\n")
    assert live.at_end  # no read since then
    assert live.read().data == b"4\n"
    live.close()


def test_block_up_to_the_end_leaves_source_at_end(path):
    """Otherwise a busy file would never be at its end."""
    append(path, b"a")
    live = follow(path)
    for _ in range(3):
        append(path, b"\na")
        assert live.read().data == b"a\n"
        assert live.at_end
    live.close()


def test_renamed_file_is_read_to_its_end_before_new_one(path):
    append(path, b"a\nb")
    live = follow(path)
    assert text(drained(live)) == b"a\n"
    rotate(path)
    append(path.with_name("visits.jsonl.1"), b"c\nd")
    path.touch()
    assert text(drained(live)) == b"bc\n"  # its writer may not know yet
    append(path.with_name("visits.jsonl.1"), b"e")
    append(path, b"f\n")
    assert not live.at_end or text([live.read()]) == b"de\n"
    assert text(drained(live)) == b"f\n"
    live.close()


def test_source_is_not_at_end_while_next_file_waits(path):
    path.touch()
    live = follow(path)
    drained(live)
    append(path, b"a\n")
    rotate(path)
    append(path, b"b\n")
    assert live.read().data == b"a\n"
    assert not live.at_end
    assert live.read().data == b"b\n"
    assert live.at_end
    live.close()


@pytest.mark.parametrize("down", [False, True])
def test_files_rotated_between_reads_are_read_in_order(path, down):
    append(path.with_name("visits.jsonl.1"), b"before our time\n")
    append(path, b"a\n")
    live = follow(path)
    drained(live)
    for data in (b"b\n", b"c", b"d\n"):
        rotate(path)
        append(path, data)
    if down:
        live = restarted(live, path)
    assert text(drained(live)) == b"b\nc\nd\n"
    live.close()


def test_rotated_names_may_be_dates_and_others_are_ignored(path):
    append(path, b"a\n")
    live = follow(path)
    drained(live)
    path.rename(path.with_name("visits.jsonl-20260105"))
    for number, (name, data) in enumerate([("visits.jsonl.2026-01-06", b"b\n"), ("visits.jsonl-20260107", b"c\n")]):
        append(path.with_name(name), data)
        os.utime(path.with_name(name), ns=(0, 2 * 10**18 + number))
    for name in ("visits.jsonl.bak", "visits.jsonl.1.gz", "visits.jsonl2", "other.jsonl.1"):
        append(path.with_name(name), b"no\n")
    append(path, b"d\n")
    assert text(drained(live)) == b"b\nc\nd\n"
    live.close()


def test_removed_file_is_read_to_its_end_before_new_one(path):
    append(path.with_name("visits.jsonl.1"), b"before our time\n")
    os.utime(path.with_name("visits.jsonl.1"), ns=(0, 10**18))
    append(path, b"a\n")
    live = follow(path)
    drained(live)
    append(path, b"b\n")
    path.unlink()
    assert text(drained(live)) == b"b\n"
    append(path, b"c\n")
    assert text(drained(live)) == b"c\n"
    live.close()


@given(st.data())
def test_each_line_is_read_once_in_random_histories(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("followed") / "visits.jsonl"
    path.touch()
    live, read, written, number = follow(path), [], [], 0
    live.read()
    acts = st.lists(st.sampled_from(["write", "part", "rotate", "read", "drain", "restart"]), max_size=25)
    for act in [*data.draw(acts), "drain"]:
        if act in ("write", "part"):
            number += 1
            written.append(b"%d" % number + b"\n" * (act == "write"))
            append(path, written[-1])
        elif act == "rotate":
            if written and not written[-1].endswith(b"\n"):
                written.append(b"\n")  # the end of a file ends its last line
            rotate(path)
            path.touch()
        elif act == "restart":
            live = restarted(live, path)
        else:
            read += [live.read() or b""] if act == "read" else drained(live)
    live.close()
    whole = b"".join(written)
    whole = whole[: whole.rfind(b"\n") + 1]
    may_wait = whole[: whole.rfind(b"\n", 0, -1) + 1]  # while the new file is empty, the old one's last line may
    assert text(block for block in read if block) in ((whole,) if path.stat().st_size else (whole, may_wait))


@pytest.mark.parametrize("then", [b"", b"a\n", b"other\n" * 100])
@pytest.mark.parametrize("down", [False, True])
def test_truncated_file_is_refused_even_if_it_has_grown_again(path, then, down):
    append(path, SECRET * 5)
    live = follow(path)
    drained(live)
    position = live.position()
    path.write_bytes(then)
    if down:
        live.close()
        live = follow(path)
    with pytest.raises(SourceError, match=r"a followed file must only ever grow .*never by copying") as refused:
        live.resume(position) if down else live.read()
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)
    live.close()


def test_a_file_that_is_gone_after_a_restart_is_refused(path):
    append(path, SECRET)
    live = follow(path)
    drained(live)
    position = live.position()
    path.rename(path.with_name("elsewhere"))  # keeps the inode from being given to the next
    append(path, b"a\n")
    again = follow(path)
    with pytest.raises(SourceError, match="must still be there, under its name or a rotated one, got no such file"):
        again.resume(position)
    live.close()


def test_position_without_a_file_can_be_resumed(path):
    live = restarted(follow(path), path)
    append(path, b"a\n")
    assert text(drained(live)) == b"a\n"
    live.close()


def test_position_is_the_end_of_the_returned_blocks(path):
    append(path, b"123\n" * 20)
    live, blocks = follow_in_small_blocks(path), []
    for _ in range(10):
        blocks.append(live.read())
        live.position()
        live = restarted(live, path, follow_in_small_blocks)
    assert text(blocks) == b"123\n" * 20
    live.close()


def test_twin_with_position_of_unreturned_bytes_loses_lines(path, monkeypatch):
    """The twin stores the end of the bytes read, not that of the blocks returned."""
    monkeypatch.setattr(growing.GrowingFile, "offset", property(lambda self: self._read_bytes))
    append(path, b"a\nb")
    live = follow(path)
    drained(live)
    live = restarted(live, path)
    append(path, b"c\n")
    assert text(drained(live)) != b"bc\n"
    live.close()


def test_a_position_holds_no_text(path):
    append(path, SECRET * 3 + b"secret")
    live = follow(path)
    drained(live)
    assert b"secret" not in live.position()
    assert "secret" not in repr(live)
    live.close()


def test_too_long_line_is_dropped_whole_after_a_restart(path):
    append(path, b"a\n" + b"x" * 2**21)
    live = follow(path)
    assert text(drained(live)) == b"a\n"
    live = restarted(live, path)
    append(path, b"x" * 2**21 + b"\nb\n")
    blocks = drained(live)
    assert text(blocks) == b"b\n"
    assert rules(blocks) == [LENGTH_RULE]
    assert blocks[0].dropped_records[0].length == 2**22
    live.close()


def test_each_csv_file_has_its_header(tmp_path):
    path = tmp_path / "visits.csv"
    live = follow(path, format="csv")
    assert live.read() is live.header is None
    append(path, b"\xef\xbb\xbfa,")
    assert live.read() is live.header is None
    append(path, b"b\n1,2\n")
    assert live.read().data == b"1,2\n"
    assert live.header == ("a", "b")
    live = restarted(live, path, format="csv")
    assert live.header == ("a", "b")
    append(path, b"3,4\n")
    assert live.read().data == b"3,4\n"
    rotate(path)
    append(path, b"b\n5\n")
    assert live.read().data == b"5\n"
    assert live.header == ("b",)
    live.close()


@pytest.mark.parametrize(
    ("name", "settings", "rule"),
    [
        ("visits.jsonl.gz", {}, "a file that is followed must be uncompressed, got .*; put it into a folder"),
        ("visits", {"compression": "zstd"}, "a file that is followed must be uncompressed"),
        ("visits.parquet", {"format": "parquet"}, "a live source of Parquet must be a folder, got visits.parquet"),
        ("-", {"format": "parquet"}, "a live source of Parquet must be a folder, got -"),
    ],
)
def test_source_that_cannot_be_followed_is_refused(tmp_path, name, settings, rule):
    with pytest.raises(SourceError, match=rule):
        open_streaming_source(stream(name, mode="streaming", **settings), tmp_path)


def test_a_pipe_is_not_followed(path):
    os.mkfifo(path)
    with pytest.raises(SourceError, match="source must be a file or a folder"):
        follow(path).read()


def test_unreadable_file_is_refused_in_one_line(path):
    append(path, b"a\n")
    live = follow(path)
    with (
        no_free_descriptors(),
        pytest.raises(SourceError, match=r"^source must be readable, got .*: Too many open files$"),
    ):
        live.read()


def test_kind_of_live_source_follows_from_its_path(path):
    assert isinstance(follow(path), FollowedFile)
    assert isinstance(open_streaming_source(stream("-", mode="streaming"), path.parent), StandardInput)
