"""Bit vectors as text: exactly one text for each report."""

from base64 import b64encode

import numpy as np
import pytest

from streamgauge.records.reports import LETTERS, decode_reports, encode_reports, text_size

SIZES = [1, 2, 3, 4, 9, 130]


@pytest.mark.parametrize("size", SIZES)
def test_report_is_standard_base64_and_decodes_back(size: int) -> None:
    rows = np.random.default_rng(size).integers(0, 256, (200, size), np.uint8)
    texts = encode_reports(rows)
    assert texts == [b64encode(row.tobytes()).decode() for row in rows]
    assert {len(text) for text in texts} == {text_size(size)}
    again, good = decode_reports(texts, size)
    assert (np.array_equal(again, rows), good.all()) == (True, True)
    assert encode_reports(rows[:0]) == []
    assert decode_reports([], size)[0].shape == (0, size)


@pytest.mark.parametrize("size", SIZES)
def test_different_texts_are_different_reports(size: int) -> None:
    """Every text that differs in one letter is another report or invalid."""
    (text,) = encode_reports(np.full((1, size), 0b01101100, np.uint8))
    letters = [*LETTERS.decode(), "=", "-", "_", " ", "\n", "\0", "é", "\ud800"]
    others = {text[:at] + letter + text[at + 1 :] for at in range(len(text)) for letter in letters} - {text}
    rows, good = decode_reports([*others, text], size)
    told = [row.tobytes() for row in rows[good]]
    assert len(told) == len(set(told)) > 1
    assert [each for each, is_one in zip(others, good, strict=False) if is_one] == encode_reports(rows[good][:-1])


def test_invalid_text_is_no_report_and_changes_no_other() -> None:
    good = "AQID"
    told = [None, 7, b"AQID", ["AQID"], good, "AQI", "AQID=", "", "AQ==", "ééAA", good, "éé"]
    rows, which = decode_reports(told, 3)
    assert which.tolist() == [each == good for each in told]
    assert rows[which].tolist() == [[1, 2, 3]] * 2
