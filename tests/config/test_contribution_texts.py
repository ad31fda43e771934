"""Texts on the counted events of a user and on the assumption of a budget, from declarations alone."""

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.config.stream import describe_assumption, describe_contributions

STREAM = {
    **{"name": "v", "source": "v.jsonl", "time": "ts", "tick": "1h", "start": "2026-01-05T00:00:00Z"},
    **{"end": "2026-02-02T00:00:00Z", "unit": "event", "budget": {"epsilon": 1}, "key": "file:v.key"},
}
RELEASE = {"name": "counts", "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/2"}
BEYOND = "; events beyond that are not counted, and the band does not include that"


def stream_of(tmp_path, **declared):
    return parse_pipeline({"stream": STREAM | declared, "release": [RELEASE]}, tmp_path / "v.toml").stream


@pytest.mark.parametrize(
    ("tick", "events", "ticks", "words"),
    [
        ("1h", 2, 60, "at most 2 events an hour and 60 hours for each plane"),
        ("1d", 1, 1, "at most 1 event a day and 1 day for each plane"),
        ("6h", 1_000, 4, "at most 1,000 events in 6h and 4 ticks of 6h for each plane"),
        ("1w", 3, 2_000, "at most 3 events a week and 2,000 weeks for each plane"),
    ],
)
def test_text_of_user_bounds_names_the_counted_events(tmp_path, tick, events, ticks, words):
    unit = {"user": "plane", "max_events_per_tick": events, "max_ticks": ticks}
    assert describe_contributions(stream_of(tmp_path, tick=tick, unit=unit)) == words + BEYOND


@pytest.mark.parametrize("unit", ["event", {"w_event": 24}])
def test_other_units_have_no_text_of_bounds(tmp_path, unit):
    assert describe_contributions(stream_of(tmp_path, unit=unit)) == ""


def test_pan_private_user_has_no_text_of_bounds(tmp_path):
    private = {"pan_private": True, "source": "http", "mode": "streaming", "format": "jsonl"}
    release = RELEASE | {"sql": "SELECT COUNT(DISTINCT u) FROM v"}
    stream = STREAM | private | {"unit": {"user": "u"}, "columns": {"u": {"hash_cells": 64}}}
    made = parse_pipeline({"stream": stream, "release": [release]}, tmp_path / "v.toml").stream
    assert (made.user, describe_contributions(made)) == ("u", "")


def test_w_event_budget_states_assumption_of_one_event_a_tick(tmp_path):
    believed = "if a person has at most one event a tick, which is not checked"
    assert describe_assumption(stream_of(tmp_path, unit={"w_event": "1d"})) == believed
    assert describe_assumption(stream_of(tmp_path)) == ""
