"""Hostile records of reports: each is one report at most, and does not change how others are read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.plan.measure import Tally
from streamgauge.records.reports import encode_reports
from streamgauge.runtime.live.open_reports import OpenReports
from tests.support.pipelines import Tables, published, run
from tests.support.reported_polls import (
    COUNT,
    LISTED,
    POLL,
    WINDOWS,
    claim,
    drawn,
    expected,
    is_vector,
    poll,
    protocols,
    sending,
    told_by,
)


def hostile(made: Pipeline) -> list[Any]:
    """Return values that records may have in place of a report."""
    if not is_vector(made):
        return [claim(made).codes, -1, 3.5, "x", None, True, [], 10**30, 1e300]
    size, (good,) = claim(made).report_size, drawn(made, "a", 9)
    beyond, longer = encode_reports(np.full((2, size), 255, np.uint8))[0], good + "AAAA"
    spelt = ["-" * len(good), "é" * (len(good) // 2), "*" + good[1:], good[:-1], f" {good}", longer, good * 99]
    filled = [good[:-2] + "/=", good[:-1] + "=", "=" * len(good), good[:-4]]
    other = [None, True, 7, 12345, 3.5, [], [good], {"emoji": good}, "", "\x00" * len(good), 10**30]
    return [beyond, *spelt, *(each for each in filled if each != good), *other]


@protocols
def test_impossible_reports_change_no_estimate(tmp_path: Path, column: Tables) -> None:
    made = poll(tmp_path, {"name": "all", "sql": COUNT}, **column)
    good, bad = drawn(made, "aab", 1), hostile(made)
    run(made, **sending(tmp_path, made, {2: [*bad, *good, *bad]}, 15))
    assert published(made, "all") == expected(made, [good], 1)


@pytest.mark.one_of_each
@protocols
def test_one_record_moves_estimate_by_at_most_two_reports(tmp_path: Path, column: Tables) -> None:
    """Neighbours differ in the content of one record: another report, or none, takes its place. Everything
    else that a run writes is the same."""
    made = poll(tmp_path, *POLL["release"][:3], **column)
    others, reach = drawn(made, "abc" * 5, 3), 2 * claim(made).influence + 1e-9
    texts, lengths = [], []
    for number, one in enumerate([drawn(made, "a", 4)[0], drawn(made, "c", 5)[0], *hostile(made)[::4]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        again = poll(folder, *POLL["release"], **column)
        run(again, **sending(folder, again, {2: [*others[:7], one, *others[7:]], 12: others}, 25))
        texts.append([np.array(published(again, name)) for name in WINDOWS])
        lengths.append((len(texts[-1][0]), published(again, "ages")))
    assert lengths == [(2, [[0, 16], [0, 15]])] * len(lengths)
    for each in texts:
        for one, other in zip(each, texts[0], strict=True):
            assert np.abs(one - other).max() <= reach


def test_codes_of_27_bits_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = poll(tmp_path, {"name": "now", "sql": COUNT, "window": "each"}, hashes=2**16, width=2**10)
    codes = claim(made).codes
    assert codes == 2**27
    how = sending(tmp_path, made, {2: [codes - 1, codes - 1, codes, 0]}, 9)
    accepted: dict[bytes, int] = {}
    observed = OpenReports.add

    def add(self: OpenReports, tally: Tally) -> None:
        accepted.update(told_by(tally))
        observed(self, tally)

    monkeypatch.setattr(OpenReports, "add", add)
    run(made, **how)
    assert accepted == {bytes(4): 1, (2**27 - 1).to_bytes(4, "little"): 2}


@pytest.mark.parametrize(
    "column",
    [
        {"report": "CountMeanSketch", "hashes": 2, "width": 2**16},
        {"report": "UnaryEncoding", "values": ["a", "b", *map(str, range(2**16 - 2))], **LISTED},
    ],
    ids=["CountMeanSketch", "UnaryEncoding"],
)
def test_longest_vectors_are_counted(tmp_path: Path, column: Tables) -> None:
    made = poll(tmp_path, {"name": "now", "sql": COUNT, "window": "each"}, **column)
    texts = drawn(made, "aab", 1)
    run(made, **sending(tmp_path, made, {2: texts}, 15))
    assert published(made, "now") == expected(made, [texts], 1)
    assert "bytes in memory and in commits until its window is over" in str(made.plan())
