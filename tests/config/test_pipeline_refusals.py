"""A bad pipeline file is refused in one line that names the file, the key and the rule."""

import copy
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config import release as alerts
from streamgauge.config.columns import COLUMN_KEYS
from streamgauge.config.endpoints import ENGINE_KEYS, PLUGIN_KEYS
from streamgauge.config.lookup import LOOKUP_KEYS
from streamgauge.config.pipeline_file import TOP_KEYS, parse_pipeline
from streamgauge.config.release import RELEASE_KEYS
from streamgauge.config.server import ADHOC_RULES, SERVER_RULES
from streamgauge.config.sink import SINK_KEYS
from streamgauge.config.stream import BUDGET_KEYS, STREAM_KEYS, UNIT_KEYS
from streamgauge.config.toml_table import TomlTable
from tests.support.clinic_file import ELSEWHERE, EVERYTHING, KEYS, at, clinic, path_in, refusal, stream, tables


def test_walk_covers_every_known_key() -> None:
    known = {
        *TOP_KEYS,
        *STREAM_KEYS,
        *UNIT_KEYS,
        *BUDGET_KEYS,
        *COLUMN_KEYS,
        *LOOKUP_KEYS,
        *RELEASE_KEYS,
        *alerts.ALERT_KEYS,
        *SINK_KEYS,
        *SERVER_RULES,
        "adhoc",
        *ADHOC_RULES,
        *PLUGIN_KEYS,
        *ENGINE_KEYS,
    }
    assert {place[-1] for place in KEYS} | ELSEWHERE == known | ELSEWHERE


@pytest.mark.parametrize("place", KEYS, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.parametrize("typo", ["{}_", "x{}", "{}{}"])
def test_misspelt_key_is_refused_with_a_suggestion(tmp_path: Path, place: tuple[Any, ...], typo: str) -> None:
    top = copy.deepcopy(EVERYTHING)
    table, key = at(top, place[:-1]), place[-1]
    wrong = typo.format(key, key[-1])
    table[wrong] = table.pop(key)
    text = refusal(lambda: parse_pipeline(top, path_in(tmp_path)))
    if place[-2:] == ("mechanism", "name"):
        assert "mechanism.name must be" in text
    else:
        assert text.startswith("unknown key ")
        assert text.endswith(f"{wrong} (did you mean {key}?)")


@pytest.mark.parametrize("place", KEYS, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.parametrize("wrong", [time(1), Decimal("NaN"), [[]], 10**5000], ids=["time", "nan", "array", "huge"])
def test_value_of_wrong_type_is_refused_by_its_key(tmp_path: Path, place: tuple[Any, ...], wrong: object) -> None:
    top = copy.deepcopy(EVERYTHING)
    at(top, place[:-1])[place[-1]] = wrong
    text = refusal(lambda: parse_pipeline(top, path_in(tmp_path)))
    assert " must be " in text
    assert place[-1] in text.partition(" must be ")[0]


def test_twin_that_ignores_unknown_keys_loses_misspelt_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tables(stream(allowed_latenes="10m"))
    assert "did you mean allowed_lateness?" in refusal(lambda: parse_pipeline(wrong, path_in(tmp_path)))
    monkeypatch.setattr(TomlTable, "parse", lambda where, value, keys: TomlTable.parse_open(where, value))
    assert parse_pipeline(wrong, path_in(tmp_path)).stream.allowed_lateness == 0  # the broken twin


REFUSED: dict[str, list[tuple[str, str]]] = {
    '"5m"': [
        ('"5 minits"', 'stream.tick must be a duration such as "5m", got "5 minits"'),
        ("300", 'stream.tick must be a duration such as "5m" (a number alone has no unit), got 300'),
        ('"0s"', 'stream.tick must be a duration such as "5m", got "0s"'),
    ],
    'tick = "5m"\n': [("", 'stream.tick must be a duration such as "5m", got nothing')],
    '"event"': [
        ('"evnt"', "(did you mean event?)"),
        ("{ w_event = 3, user = 'u' }", "got { w_event, user }"),
        ("{ max_ticks = 3 }", "got { max_ticks }"),
        ("{ w_event = 3, per = '1d' }", "stream.unit.per must be of users only: add user = ..., the column"),
        ("{ per = '1d', max_events_per_tick = 1 }", "per must be of users only"),
        ("{ user = 'u', max_ticks = 3 }", "stream.unit.max_events_per_tick must be a whole number"),
        ("{ user = 'ts', max_events_per_tick = 1, max_ticks = 3 }", "another column than the time, got ts"),
        ('{ w_event = "7m" }', "stream.unit.w_event must be a number of ticks, or a duration"),
    ],
    'unit = "event"\n': [("", "stream.unit must be")],
    "{ epsilon = 1.0 }": [
        ("{ epsilon = 1.0, rho = 1 }", "stream.budget must be { epsilon }"),
        ("{ delta = 0.1 }", "got { delta }"),
        ("{}", "got { }"),
        (
            "1.0",
            "stream.budget must be a table such as { epsilon = 1 }, { epsilon = 1, delta = 1e-6 } or { rho = 0.05 }"
            ", got 1.0",
        ),
        ("{ epsilon = 0 }", "stream.budget.epsilon must be a number from 1e-9 to 1e6, got 0"),
        ("{ epsilon = 1e999999999 }", "stream.budget.epsilon must be a number from"),
        ("{ epsilon = inf }", "got Infinity"),
        ("{ epsilon = true }", "got true"),
        ("{ epsilon = 1, delta = 1 }", "stream.budget.delta must be a number from"),
    ],
    'end = "2026-04-05T00:00:00Z"\n': [("", "stream.end must be given for a batch source")],
    '"2026-04-05T00:00:00Z"': [
        ('"2026-04-05T00:01:00Z"', "the start plus a whole number of ticks of 5m"),
        ('"2026-01-05T00:00:00Z"', 'stream.end must be after the start, got "2026-01-05T00:00:00Z"'),
        ('"2025-01-05T00:00:00Z"', 'stream.end must be after the start, got "2025-01-05T00:00:00Z"'),
    ],
    '"visits.jsonl"': [
        ('"-"', 'stream.mode must be "batch" or "streaming" for standard input, got nothing'),
        ('"visits"', 'stream.format must be "jsonl" or "csv" or "parquet", got nothing'),
        ('"visits.parquet"\nmode = "streaming"', 'must be "jsonl" or "csv" for this source'),
        ('"visits.parquet.gz"', 'must be "jsonl" or "csv" for this source'),
        ('"visits.jsonl"\nformat = "jsnl"', "(did you mean jsonl?)"),
        ('"visits.jsonl"\nmode = "streeming"', '"streeming" (did you mean streaming?)'),
        ('"visits.jsonl"\ntimezone = "Europe/Berln"', "(did you mean Europe/Berlin?)"),
        ('"visits.jsonl"\nkey = "~/key"', 'stream.key must be "file:PATH", "env:NAME" or'),
    ],
    '"visits"': [('"my visits"', "stream.name must be a name of letters"), ('"2visits"', "begins with no digit")],
    '["north", "south", "east", "west"]': [
        ("[]", "stream.columns.region.values must be an array of 1 to 10^6"),
        ('["a", "a"]', 'different from each other, got "a" twice'),
        ("[1, 1.0]", "different from each other, got 1 twice"),
        ('["a", 1]', 'all text (in one line), numbers or booleans, got ["a", 1]'),
        ("[1, true]", "got [1, true]"),
        ("[9007199254740993]", "got [9007199254740993]"),
        ('"north"', 'must be an array of values, got "north"'),
    ],
    '"west"] }': [
        ('"other"], other = true }', 'from "other", got "other" twice'),
        ('"west"], type = "number" }', 'type must be "text" or left out, as values say, got "number"'),
        ('"west"], bounds = [0, 1] }', "by one of values, bounds, hash_cells, max_groups or type, got values and"),
        ('"west"], grid = 1 }', "grid must be left out unless there are bounds"),
    ],
    '["north", "south", "east", "west"] }': [("[1, 2], other = true }", "false unless the values are text")],
    '{ values = ["north", "south", "east", "west"] }': [
        ("{}", "got none of them"),
        ('"text"', 'stream.columns.region must be a table, got "text"'),
        ("{ other = true, type = 'text' }", "unless there are values"),
    ],
    "[35.0, 42.0]": [
        ("[42.0, 35.0]", "bounds must be two numbers, the lower first, such as [0, 100], got [42.0, 35.0]"),
        ("[35.0]", "got [35.0]"),
        ("[35.0, nan]", "got [35.0, NaN]"),
    ],
    "grid = 0.1": [
        ("grid = 0.3", "grid must be a number above 0 that both bounds are multiples of"),
        ("grid = -0.1", "grid must be a number above 0"),
    ],
    "temperature =": [
        ("ts =", "stream.columns.ts must be left out, got the time column"),
        ("TS =", "names that differ in more than case, got TS and ts"),
        ("Region =", "names that differ in more than case, got Region and region"),
        ("'a\"b' =", "must be the name of a column, without control characters, double quotes or a $ in front"),
        ('"a\\nb" =', 'stream.columns."a\\u000ab" must be the name of a column'),
        ('" " =', "must be the name of a column"),
    ],
    "epsilon = 0.5\n": [
        ("", "release.fever_by_region must be given exactly one of epsilon, rho and share, got none"),
        ("epsilon = 0.5\nshare = 0.5\n", "got epsilon and share"),
        ("rho = 0.5\n", "rho must be left out under a pure budget, since zCDP implies no epsilon"),
        ("share = 0\n", "share must be a part of the budget above 0 and at most 1"),
        ("share = 1.5\n", "share must be a part of the budget above 0 and at most 1"),
        ('share = "1/0"\n', 'such as 0.5 or "1/3", got "1/0"'),
        ("epsilon = 0.5\ndelta = 1e-9\n", "delta must be left out unless the budget has a delta"),
        ('epsilon = 0.5\nwindow = "runing"\n', "(did you mean running?)"),
        (
            'epsilon = 0.5\nwindow = "sliding 7m"\n',
            '"sliding DURATION" of a whole number of ticks of 5m, got "sliding 7m"',
        ),
        ('epsilon = 0.5\nwindow = "tumbling 7m"\n', '"tumbling DURATION" of a whole number of ticks of 5m, got'),
        ('epsilon = 0.5\nwindow = "tumbling mont Asia/Tokyo"\n', "(did you mean tumbling month Asia/Tokyo?)"),
        ('epsilon = 0.5\nwindow = "tumbling day Asia/Tokio"\n', "(did you mean tumbling day Asia/Tokyo?)"),
        ('epsilon = 0.5\nwindow = "tumbling day Atlantis/City"\n', '"tumbling day ZONE" with a time zone such as'),
        ('epsilon = 0.5\nwindow = "decayed 1h"\n', "(did you mean decayed half-life 1h?)"),
        ('epsilon = 0.5\nwindow = "sliding 288"\n', "window must be"),
        ('epsilon = 0.5\nwindow = "decayed polynomial 0.001"\n', "with an exponent from 0.01 to 10, got"),
        ('epsilon = 0.5\nwindow = "decayed polynomial 1h"\n', "(did you mean decayed polynomial 1.5?)"),
        ('epsilon = 0.5\nwindow = "decayed polinomial 1.5"\n', "(did you mean decayed polynomial 1.5?)"),
        ('epsilon = 0.5\nmechanism = { name = "Hybrid", inner = "Bynary" }\n', "(did you mean Binary?)"),
        ('epsilon = 0.5\nmechanism = { name = "Hybrid", inner = "WindowSum" }\n', 'got "WindowSum"'),
        ('epsilon = 0.5\nmechanism = { name = "PolynomialDecay", exponent = 2 }\n', "leave it out"),
        ('epsilon = 0.5\nhorizon = "7m"\n', 'horizon must be a duration such as "365d" or "end" of'),
        ('epsilon = 0.5\nmechanism = "Bynary"\n', "(did you mean Binary?)"),
        ("epsilon = 0.5\nmechanism = { branching = 2 }\n", "mechanism.name must be"),
        ('epsilon = 0.5\nmechanism = { name = "Kary", loss = 2 }\n', "unknown key release.fever_by"),
        ('epsilon = 0.5\nmechanism = { name = "auto", levels = 2 }\n', "mechanism.levels"),
        ("epsilon = 0.5\nmax_groups = 0\n", "max_groups must be a whole number from 1 to 2^40, got 0"),
        (
            "epsilon = 0.5\nexpected_events = 0\n",
            'expected_events must be a number above 0, such as 0.5 or "1/200", got 0',
        ),
    ],
    '"fever_by_region"': [('"fever by region"', "release 1.name must be a name of letters, digits, _ and -")],
    'name = "fever_by_region"\n': [("", "release 1.name must be")],
    "[[release]]": [
        ("[release]", "release must be an array of tables, got a table"),
        ("[[releases]]", "unknown key releases (did you mean release?)"),
    ],
    "[[sink]]": [("[sink]", "sink must be an array of tables, got a table")],
    '"releases.parquet"': [
        ('"releases"', 'sink 1.format must be "jsonl" or "csv" or "parquet", got nothing'),
        ('"releases.csv.gz"', "sink 1.to must be a path without the suffix of a compression"),
        ('"-"\nformat = "parquet"', '"jsonl" or "csv" for standard output'),
        ('"r.csv"\nreleases = ["fever_by_regoin"]', "(did you mean fever_by_region?)"),
        ('"r.csv"\nshape = "tall"', 'sink 1.shape must be "wide" or "long", got "tall"'),
        ('"r.jsonl"\nshape = "wide"', "sink 1.shape must be left out unless the format is csv"),
        ('"r.parquet"\nshape = "long"', "sink 1.shape must be left out unless the format is csv"),
        ('"r.csv"\nreleases = []', "names of releases, or left out for all of them"),
        ('"./sub/../visits.jsonl"', "sink 1.to must be apart from the source"),
        ('"clinic.toml"\nformat = "csv"', "sink 1.to must be apart from the pipeline file"),
        ('"clinic.streamgauge/a.csv"', "sink 1.to must be apart from the pipeline's folder"),
        ('"a.csv"\n[[sink]]\nto = "./a.csv"', "sink 2.to must be apart from sink 1"),
        ('"-"\n[[sink]]\nto = "-"', "sink 2.to must be apart from sink 1"),
    ],
    "[stream]": [
        ('confirm = ["stream.tik"]\n[stream]', '"stream.tik" (did you mean stream.tick?)'),
        ('confirm = ["stream.tick", "stream.tick"]\n[stream]', "confirm must be an array of different keys"),
        ("confirm = [[]]\n[stream]", "confirm must be an array of keys of this file"),
        ('confirm = "stream.tick"\n[stream]', "confirm must be an array of keys of this file"),
        (
            "[lookup.visits]\nfile = 'sites.csv'\non = 'region'\n[stream]",
            "lookup.visits must be named otherwise than the stream, got its name",
        ),
        ("[lookup.\"a b\"]\nfile = 'sites.csv'\non = 'region'\n[stream]", 'lookup."a b" must be a name of'),
    ],
}


@pytest.mark.parametrize(
    ("old", "new", "words"), [(old, new, words) for old, cases in REFUSED.items() for new, words in cases]
)
def test_bad_setting_is_refused_with_its_rule(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert words in refusal(lambda: clinic(tmp_path, old, new))
