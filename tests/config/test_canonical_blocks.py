"""Pinned blocks of a file: equal meaning has equal text, and another meaning has another text."""

import json
import tomllib
from pathlib import Path

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from tests.support.clinic_file import CLINIC, EVERYTHING, clinic, path_in


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"5m"', '"300s"'),
        ("0.5\n", "0.50\n"),
        ("0.5\n", "5e-1\n"),
        ("epsilon = 0.5\n", 'share = "1/2"\n'),
        ("epsilon = 0.5\n", 'epsilon = 0.5\nwindow = "running"\nhorizon = "90d"\nmechanism = "auto"\n'),
        ("epsilon = 0.5\n", 'epsilon = 0.5\nmechanism = { name = "auto" }\nmax_groups = 1_000_000\n'),
        ("epsilon = 0.5\n", 'epsilon = 0.5\ntitle = "T"\ndescription = "D"\nexpected_events = 3\n'),
        ("{ epsilon = 1.0 }", "{ epsilon = 1 }"),
        ('"2026-01-05T00:00:00Z"', "2026-01-05T01:00:00+01:00"),
        ('"2026-01-05T00:00:00Z"', "2026-01-05"),
        (
            'unit = "event"',
            'timezone = "UTC"\nunit = "event"\ntime_format = "iso"\nallowed_lateness = "0s"\nallowed_earliness = "5m"',
        ),
        ('"west"] }', '"west"], other = false, type = "text" }'),
        ("[35.0, 42.0], grid = 0.1", "[35, 42], grid = 0.10"),
        ('to = "releases.parquet"', 'to = "elsewhere.csv"'),
        ("[stream]", 'confirm = ["stream.tick"]\n[stream]'),
        ("unit = ", 'key = "env:KEY"\nunit = '),
    ],
)
def test_equal_meaning_has_equal_text(tmp_path: Path, old: str, new: str) -> None:
    assert clinic(tmp_path, old, new).blocks == clinic(tmp_path).blocks


def test_twin_that_pins_written_text_refuses_equal_meaning() -> None:
    text = CLINIC.replace('"5m"', '"300s"')
    assert tomllib.loads(text) != tomllib.loads(CLINIC)  # the broken twin


@pytest.mark.parametrize(
    ("old", "new", "block"),
    [
        ('tick = "5m"', 'tick = "10m"', "stream"),
        ('"ts"', '"at"', "stream"),
        ('start = "2026-01-05', 'start = "2026-01-04', "stream"),
        ('"event"', "{ w_event = 2 }", "stream"),
        ('"north", "south"', '"south", "north"', "stream"),
        ("grid = 0.1", "grid = 0.5", "stream"),
        ("temperature = {", "x = { type = 'text' }\ntemperature = {", "stream"),
        ("{ epsilon = 1.0 }", "{ epsilon = 2.0 }", "budget"),
        ('"visits.jsonl"', '"other.jsonl"', "source"),
        ('time = "ts"', 'time = "ts"\nallowed_lateness = "1m"', "source"),
        ("epsilon = 0.5", "epsilon = 0.6", "release.fever_by_region"),
        ("> 38", "> 39", "release.fever_by_region"),
        ("epsilon = 0.5", 'epsilon = 0.5\nwindow = "each"', "release.fever_by_region"),
        ("epsilon = 0.5", 'epsilon = 0.5\nmechanism = "Binary"', "release.fever_by_region"),
    ],
)
def test_another_meaning_has_another_text_in_its_block(tmp_path: Path, old: str, new: str, block: str) -> None:
    before, after = clinic(tmp_path).blocks, clinic(tmp_path, old, new).blocks
    differ = {name for name in before if before[name] != after.get(name)}
    assert block in differ
    if "tick" not in old and "start" not in old:  # horizons and the least allowed earliness depend on these
        assert differ == {block}


def test_blocks_are_plain_json_under_their_names(tmp_path: Path) -> None:
    blocks = parse_pipeline(EVERYTHING, path_in(tmp_path)).blocks
    assert set(blocks) == {"stream", "budget", "source", "lookup.sites", "release.one", "release.two", "release.three"}
    assert all(json.dumps(json.loads(text)) for text in blocks.values())


def test_a_changed_public_table_changes_its_block(tmp_path: Path) -> None:
    before = parse_pipeline(EVERYTHING, path_in(tmp_path)).blocks
    (tmp_path / "sites.csv").write_text("sensor,room\na,2\n")
    after = parse_pipeline(EVERYTHING, path_in(tmp_path)).blocks
    assert {name for name in before if before[name] != after[name]} == {"lookup.sites"}
