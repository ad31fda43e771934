"""Storage of reports: each code once, with its number, and vectors as they arrive."""

from struct import Struct

import numpy as np
import pytest

from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.localdp.report_bytes import pack_codes
from streamgauge.runtime.live.open_reports import (
    CountedReports,
    OpenReports,
    decode_part,
    encode_part,
    group_by_tick,
    merge_parts,
)
from streamgauge.runtime.live.open_ticks import OpenSums
from tests.support.reported_polls import tally_of, told_by


def test_reports_of_long_tick_are_written_in_few_parts() -> None:
    reports, parts, written = OpenReports(), dict[str, bytes](), 0
    for number in range(500):
        reports.add(tally_of(pack_codes(np.array([number, 7]), 3)))
        for name, part in reports.save_changes().items():
            written += len(part or b"")
            parts |= {name: part} if part is not None else {}
            if part is None:
                del parts[name]
        assert len(parts) <= 2 * (number + 1).bit_length()
    assert written < 30 * sum(map(len, parts.values()))
    again = OpenReports()
    again.restore_parts(parts)
    closed, known = again.close(1), reports.close(1)
    assert told_by(closed) == told_by(known)
    assert (int(closed.sums.sum()), set(again.save_changes().values())) == (1000, {None})
    assert not hasattr(OpenSums, "save_changes")


def test_large_part_is_not_written_again() -> None:
    """A store cannot contain one part with all vectors of a long tick."""
    reports, commits = OpenReports(max_part_bytes=1000), list[int]()
    for number in range(600):
        reports.add(tally_of(np.full((2, 20), number % 256, np.uint8)))
        commits.append(sum(len(part or b"") for part in reports.save_changes().values()))
    assert max(commits) < 2 * 1000 + 100
    assert sum(commits) < 10 * 600 * 2 * 24
    assert int(reports.close(1).sums.sum()) == 1200


@pytest.mark.parametrize("large", [1, 100, 1000])
def test_no_part_exceeds_size_limit_for_any_number_of_reports(large: int) -> None:
    drawn, reports = np.random.default_rng(1).integers(0, 256, (300, 20), np.uint8), OpenReports(large)
    for at in range(0, 300, 100):
        reports.add(tally_of(drawn[at : at + 100]))
        reports.add(tally_of(drawn[at : at + 5], tick=2))
        parts = [part for part in reports.save_changes().values() if part is not None]
        assert max(map(len, parts)) <= max(large, 24) + 100
    assert told_by(reports.close(1)) == told_by(tally_of(drawn))
    assert int(reports.close(2).sums.sum()) == 15


@pytest.mark.parametrize("size", [1, 3, 4, 5, 130])
def test_reports_of_any_size_are_decoded_as_encoded(size: int) -> None:
    drawn = np.random.default_rng(size).integers(0, 256, (50, size), np.uint8)
    parts = [
        group_by_tick(np.arange(50) % 3 - 1, drawn, np.full(50, 7)),
        group_by_tick(np.full(50, 1), drawn, np.ones(50)),
    ]
    for part in (*parts, merge_parts(parts)):
        again = decode_part(encode_part(part))
        assert again.keys() == part.keys()
        for tick, counted in part.items():
            assert np.array_equal(again[tick].rows, counted.rows)
            assert np.array_equal(again[tick].times, counted.times)
    one_by_one = np.concatenate(list(merge_parts(parts)[1].reports()))
    assert len(one_by_one) == 50 + 7 * 16
    assert {*map(bytes, one_by_one)} == {*map(bytes, drawn)}


def test_single_reports_are_produced_in_bounded_pieces() -> None:
    rows = np.arange(40, dtype=np.uint8).reshape(4, 10)
    pieces = list(CountedReports(rows, np.array([1, 9, 0, 3], np.uint32)).reports(max_bytes=64))
    assert [len(piece) for piece in pieces] == [6, 6, 1]
    assert np.concatenate(pieces)[:, 0].tolist() == [0, *[10] * 9, *[30] * 3]


@pytest.mark.parametrize("data", [b"", b"SGT1", Struct("<qQ").pack(7, 2) + bytes(16), b"SGT1" + bytes(20)])
def test_reports_of_another_version_are_refused(data: bytes) -> None:
    """The third has the format from before vector reports: tick, number of codes, codes, counts."""
    with pytest.raises(InvalidSaveError, match="must be as this version writes them, got others: go on"):
        decode_part(data)
