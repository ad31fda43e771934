"""Test vectors for every implementation of the client, bit for bit: tests/localdp/vectors.json.

Run this file to write it again, after a change that no client in use has to survive.
"""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import streamgauge as sg
from streamgauge.localdp import hashing, wire

FILE = Path(__file__).with_name("vectors.json")
ITEMS = ("", "a", "🔥", "naïve", "\x00", "e" * 200, "lone \ud800 half", "\udc00\ud800", 0, -7, 2**53 - 1)
ODD = (7.0, -0.0, 2.0**53 - 1, 2.0**53, 2.5, True, False, None)  # whole floats are numbers, the rest is ""
SEEDS = (0, 7, 2**53 - 1)
ROWS = (0, 1, 2, 255, 65535)
WIDTHS = (2, 3, 1024, 1000003)
SKETCHES = ("a", "🔥", "lone \ud800 half", -7)


def hashed(seed: int) -> dict[str, Any]:
    family = {width: hashing.HashFamily(65536, width, seed) for width in WIDTHS}
    return {
        "seed": seed,
        "words": [str(family[2].word(item)) for item in (*ITEMS, *ODD)],
        "coefficients": {str(row): [str(word) for word in hashing.compute_row_coefficients(row, seed)] for row in ROWS},
        "columns": {
            str(width): [[each.column(row, item) for row in ROWS] for item in (*ITEMS, *ODD)]
            for width, each in family.items()
        },
    }


def reported(claim: Any, *cases: tuple[Any, ...]) -> dict[str, Any]:
    """Return the reports of items for given draws, and all of them in one message."""
    reports = [claim.encode(*case) for case in cases]
    return {
        "settings": wire.to_settings(claim),
        "report_size": claim.report_size,
        "cases": [
            {"item": item, "drawn": drawn, "report": report.hex()}
            for (item, *drawn), report in zip(cases, reports, strict=True)
        ],
        "message": wire.pack_message(claim, reports).hex(),
    }


def bits(width: int, *ones: int) -> list[int]:
    return [int(place in ones) for place in range(width)]


def claims() -> list[dict[str, Any]]:
    room = sg.localdp
    hadamard = room.HadamardCountMeanSketch(sg.Pure(4), hashes=65536, width=1024, seed=7)
    small = room.HadamardCountMeanSketch(sg.Pure("1/2"), hashes=3, width=2)
    vectors = room.CountMeanSketch(sg.Pure("2.5"), hashes=300, width=20, seed=7)
    wide = room.CountMeanSketch(sg.Pure(4), hashes=2, width=64)
    return [
        reported(hadamard, *((item, row, 1000 - row, row % 2) for item, row in zip(SKETCHES, ROWS, strict=False))),
        reported(hadamard, ("a", 65535, 1023, 0), ("a", 65535, 1023, 1), ("b", 0, 0, 0)),
        reported(small, *(("a", row, line, flipped) for row in range(3) for line in (0, 1) for flipped in (0, 1))),
        reported(vectors, *((item, 299, bits(20, 0, 7, 8, 19)) for item in SKETCHES), ("a", 0, bits(20))),
        reported(wide, ("a", 1, bits(64, 63)), ("b", 0, bits(64))),
        *listed(),
        spelt(),
    ]


def listed() -> list[dict[str, Any]]:
    """Hashed columns, and protocols over a list, whose last case has an item that is not on it."""
    room, items = sg.localdp, ("a", "🔥", "lone \ud800 half", -7, "e")
    hashed_columns = room.LocalHashing(sg.Pure(1), hashes=1000, seed=7)
    response = room.RandomisedResponse(sg.Pure(1), items=items)
    many = room.RandomisedResponse(sg.Pure(8), items=tuple(range(300)))
    vector = room.UnaryEncoding(sg.Pure(1), items=tuple(range(-5, 6)))
    hadamard = room.HadamardResponse(sg.Pure("1/3"), items=items)
    cases = [(item, *both) for item in (*items, "none") for both in product((0, 7), (0, 1))]
    return [
        reported(hashed_columns, *((item, 999, kept, 2) for item in SKETCHES for kept in (0, 1))),
        reported(response, *((item, kept, 2, 0) for item in items for kept in (0, 1)), ("none", 0, 3, 3)),
        reported(many, (299, 0, 298, 0), (0, 0, 0, 0), (7, 1, 7, 0), ("none", 1, 0, 258)),
        reported(many, *((item, 1, 0, 258) for item in (*ODD, 1.0, 299.0))),
        reported(vector, (0, 1, bits(11, 5)), (0, 0, bits(11, 5, 10)), ("none", 1, bits(11, 2))),
        reported(vector, *((item, 1, bits(11)) for item in (*ODD, -5.0))),
        reported(hadamard, *cases),
        reported(hadamard, *((item, 7, 0) for item in (*ODD, -7.0))),
    ]


def spelt() -> dict[str, Any]:
    """Words at every level: cut, ended, with letters that are dropped, and with half a character."""
    words = sg.localdp.HeavyHitters(
        sg.Pure(4), alphabet="abé🔥\ufeff\ufffd", length=5, step=2, hashes=300, width=64, seed=7
    )
    said = ("abbaba", "ab", "🔥é!🔥b", "\ufeffa\ud800b", "", 7)
    return reported(words, *((word, level, 299, 61, level % 2) for word in said for level in range(3)))


def made() -> dict[str, Any]:
    return {"items": [*ITEMS, *ODD], "rows": list(ROWS), "hashes": [hashed(seed) for seed in SEEDS], "claims": claims()}


def written(vectors: dict[str, Any]) -> str:
    """Return ASCII, so that halves of pairs can be written; a list of numbers is one line."""
    flat = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda found: f"[{_on_one_line(found[1])}]", json.dumps(vectors, indent=1))
    return flat + "\n"


def _on_one_line(text: str) -> str:
    return re.sub(r",\n\s+", ", ", text)


if __name__ == "__main__":
    FILE.write_text(written(made()), encoding="ascii")
