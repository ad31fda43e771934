"""A sink has one permanent owner and one run at a time: others are refused and change nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.settings import SinkSettings
from streamgauge.sinks import CsvLines, JsonLines, LineFile, ParquetParts, SinkAccessError, SinkError, open_sink
from streamgauge.sinks.formats import Stamp
from tests.support.codes import has_code
from tests.support.examples import ROLLED, WARDS, Wide, released, writes

OURS, THEIRS = "a" * 32, "b" * 32
Made = Callable[[Path, str], Any]
KINDS: dict[str, Made] = {
    "jsonl": lambda folder, owner: LineFile("out", folder / "out", JsonLines(), owner),
    "csv": lambda folder, owner: LineFile("out", folder / "out", CsvLines(), owner),
    "wide": lambda folder, owner: LineFile("out", folder / "out", Wide(), owner),
    "parquet": lambda folder, owner: ParquetParts("out", folder / "out", owner),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def written(kind: Made, folder: Path, owner: str, count: int = 2) -> bytes:
    """Write to a sink, close it, and return its last position."""
    made = kind(folder, owner)
    assert made.resume(None) is None
    positions = [made.write(*write) for write in writes(count)]
    made.close()
    return bytes(positions[-1])


def test_stamp_has_number_and_prefixes_of_chain_and_owner() -> None:
    chain = "9f86d081884c7d65" + "0" * 48
    assert str(Stamp(17, chain, OURS)) == f"17:9f86d081884c7d65:{OURS[:8]}"
    assert Stamp.parse(str(Stamp(17, chain, OURS))) == Stamp(17, chain[:16], OURS[:8])
    assert Stamp.parse(str(Stamp(17, chain))) == Stamp(17, chain[:16])
    short = chain[:16]
    assert Stamp.parse(f"{2**62 - 1}:{short}") == Stamp(2**62 - 1, short)
    wrong = ("", "17", "17:", f"x:{short}", f"1:{short}:3:4", f"{2**62}:{short}", f"{'9' * 5000}:{short}")
    wrong += (f"1:{short[:-1]}", f"1:{chain}", f"1:{short}:", f"1:{short}:{OURS}", f"\u0661:{short}")
    assert [Stamp.parse(text) for text in wrong] == [None] * len(wrong)


@every_kind
def test_a_line_spends_at_most_forty_bytes_on_its_stamp(kind: Made, tmp_path: Path) -> None:
    """Commit numbers of 8 digits are included; whole chains and owners would need 106 bytes."""
    assert len(str(Stamp(10_000_000, "f" * 64, OURS))) <= 40
    made = kind(tmp_path, OURS)
    position = made.write([released(ROLLED, 1)], 10_000_000, "f" * 64)
    assert made.resume(position) == (10_000_000, "f" * 16)
    made.close()
    stored = b"".join(content(tmp_path).values())
    assert b"f" * 16 in stored
    assert b"f" * 17 not in stored
    assert OURS[:9].encode() not in stored


@every_kind
def test_sink_of_another_store_is_refused_and_unchanged(kind: Made, tmp_path: Path) -> None:
    position = written(kind, tmp_path, THEIRS)
    before = content(tmp_path)
    for told in (None, position):
        with pytest.raises(SinkError, match=r"sink out must be this pipeline's own, got .*: name another"):
            kind(tmp_path, OURS).resume(told)
    assert content(tmp_path) == before


@every_kind
def test_sink_with_stamps_without_owner_continues(kind: Made, tmp_path: Path) -> None:
    position = written(kind, tmp_path, "")
    made = kind(tmp_path, OURS)
    assert made.resume(position) == (2, f"{2:016x}")
    position = made.write(*writes(3)[2])
    assert made.resume(position) == (3, f"{3:016x}")
    made.close()
    with pytest.raises(SinkError, check=has_code("foreign")):
        kind(tmp_path, THEIRS).resume(position)


@every_kind
def test_twin_without_owner_stamps_truncates_sink_of_another_store(kind: Made, tmp_path: Path) -> None:
    written(kind, tmp_path, "")
    before = content(tmp_path)
    made = kind(tmp_path, "")
    made.resume(None)
    made.write(*writes(1)[0])
    made.close()
    assert not before.items() <= content(tmp_path).items()


@every_kind
def test_open_sink_refuses_second_run_until_closed(kind: Made, tmp_path: Path) -> None:
    first, second = kind(tmp_path, OURS), kind(tmp_path, OURS)
    assert first.resume(None) is None
    for use in (lambda: second.resume(None), lambda: second.write(*writes(1)[0])):
        with pytest.raises(SinkError, match="sink out must be written by one run at a time, got one that"):
            use()
    position = first.write(*writes(1)[0])
    first.close()
    assert second.resume(position) == (1, f"{1:016x}")
    second.close()


@every_kind
def test_resume_without_write_creates_and_removes_nothing(kind: Made, tmp_path: Path) -> None:
    made = kind(tmp_path, OURS)
    assert made.resume(None) is None
    made.close()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir() if kind is KINDS["parquet"] else (tmp_path / "out").touch()
    assert made.resume(None) is None
    made.close()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@every_kind
def test_sink_with_unknown_trace_at_position_is_diverged(kind: Made, tmp_path: Path) -> None:
    """The position belongs to one history and the sink to another; both share the first write."""
    position = written(kind, tmp_path, OURS, 3)
    made = kind(tmp_path, OURS)
    made.resume(position)
    assert made.diverged({(3, f"{3:016x}")}.__contains__) is None
    assert "sink out must be as this pipeline left it, got another content" in made.diverged({}.__contains__)
    made.resume(None)
    assert made.diverged({}.__contains__) is None
    made.close()


@every_kind
def test_empty_write_leaves_sink_position_unchanged(kind: Made, tmp_path: Path) -> None:
    made = kind(tmp_path, OURS)
    made.resume(written(kind, tmp_path, OURS, 1))
    made.resume(made.write([], 9, "cd"))
    assert made.diverged({(1, f"{1:016x}")}.__contains__) is None
    made.close()


@every_kind
def test_dangling_symlink_survives_resume_and_first_write(kind: Made, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    name = {id(made): name for name, made in KINDS.items()}[id(kind)]
    format_ = "csv" if name == "wide" else name
    settings = SinkSettings("link", format_, (), "wide" if name == "wide" else "long")  # type: ignore[arg-type]
    made = open_sink(settings, tmp_path, shapes=[WARDS, ROLLED])
    assert made.resume(None) is None
    made.close()
    assert [path.name for path in tmp_path.iterdir()] == ["link"]
    made.write(*writes(1)[0])
    made.close()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").exists()


@every_kind
def test_sink_renamed_before_lock_is_created_again(kind: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is renamed between open and lock; the sink creates and locks another one."""
    from streamgauge import files as held

    lock, lost = held.fcntl.flock, []

    def removed_first(descriptor: int, how: int) -> None:
        if not lost:
            lost.append(descriptor)
            (tmp_path / "out").rename(tmp_path / "elsewhere")
            if kind is KINDS["parquet"]:
                (tmp_path / "out").mkdir()
        lock(descriptor, how)

    monkeypatch.setattr(held.fcntl, "flock", removed_first)
    written(kind, tmp_path, OURS, 1)
    assert (tmp_path / "elsewhere").is_dir() or not (tmp_path / "elsewhere").stat().st_size
    made = kind(tmp_path, OURS)
    assert made.resume(None) == (1, f"{1:016x}")
    made.close()


def test_forked_child_cannot_write_to_sink(tmp_path: Path) -> None:
    made = KINDS["jsonl"](tmp_path, OURS)
    made.resume(None)
    made._location._file_lock.renew()  # as in a forked child
    with pytest.raises(SinkAccessError, match="opened before a fork"):
        made.write(*writes(1)[0])
    made.close()
