"""The [server] table and the http source: keys, refusals and pins."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.pipeline_file import PipelineFileError, parse_pipeline
from streamgauge.config.settings import PipelineFile, ServerSettings

TABLES: dict[str, Any] = {
    "stream": {
        "name": "v",
        "source": "http",
        "time": "ts",
        "tick": "10s",
        "start": "2026-01-05T00:00:00Z",
        "unit": "event",
        "budget": {"epsilon": 1},
        "columns": {"g": {"values": ["a", "b"]}},
    },
    "release": [{"name": "counts", "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/2"}],
}


def read(server: dict[str, Any] | None = None, **stream: Any) -> PipelineFile:
    made = deepcopy(TABLES)
    made["stream"] |= stream
    return parse_pipeline(made | ({} if server is None else {"server": server}), Path("v.toml"))


def test_empty_server_table_has_the_defaults():
    assert read().server == read({}).server == ServerSettings()


def test_server_table_sets_its_values():
    said = {"anonymous": True, "https": True, "publish_delay": "500ms", "max_body": "1MiB", "rate": 0.5}
    said |= {"max_buffer": "2 MB", "max_streams": 3, "max_streams_per_client": 2, "hosts": ["Clinic.example"]}
    said |= {"max_downloads": 7, "max_downloads_per_client": 5}
    told = (True, True, 500_000, 2**20, 2_000_000, 0.5, 3, 2, 7, 5)
    assert read(said).server == ServerSettings(*told, hosts=("clinic.example",))


def test_limits_of_adhoc_releases_are_a_separate_table():
    limits = {"max_groups": 1, "max_active": 2, "max_active_per_analyst": 3, "max_total": 4}
    limits |= {"max_requests_per_minute": 5, "max_plans_per_minute": 6, "max_memory": "7KB", "max_cpu_ms": 8}
    expected = {f"adhoc_{name}": value for name, value in limits.items()} | {"adhoc_max_memory": 7000}
    assert read({"adhoc": limits}).server == ServerSettings(**expected)
    assert read({"adhoc": {}}).server == ServerSettings()


def test_nothing_of_the_server_is_pinned():
    assert read({"rate": 7}).blocks == read().blocks


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"anonymus": True}, r"unknown key server.anonymus \(did you mean anonymous\?\)"),
        ({"anonymous": "yes"}, 'server.anonymous must be true or false, got "yes"'),
        ({"publish_delay": "0s"}, "server.publish_delay must be a duration"),
        ({"max_body": 8}, r'server.max_body must be a size such as "8MB", .*\(a number alone has no unit\)'),
        ({"max_body": "1GB"}, "server.max_body must be a size such as .* at most 64MiB"),
        ({"max_buffer": "1MB"}, "server.max_buffer must be at least max_body"),
        ({"rate": 0}, "server.rate must be a number from 0.01 to 1e6, got 0"),
        ({"hosts": "clinic.example"}, "server.hosts must be names of hosts without a port"),
        ({"hosts": ["clinic.example:443"]}, "server.hosts must be names of hosts without a port"),
        ({"hosts": []}, "server.hosts must be names of hosts without a port"),
        ({"max_streams": 0}, "server.max_streams must be a whole number from 1 to 100000, got 0"),
        ({"adhoc": 3}, "server.adhoc must be a table, got 3"),
        ({"adhoc": {"max_activ": 3}}, r"unknown key server.adhoc.max_activ \(did you mean max_active\?\)"),
        ({"adhoc": {"max_total": -1}}, "server.adhoc.max_total must be a whole number from 0 to 10000, got -1"),
    ],
)
def test_invalid_server_table_is_refused(server, words):
    with pytest.raises(PipelineFileError, match=f"v.toml: {words}"):
        read(server)


def test_http_source_is_streaming_jsonl():
    stream = read().stream
    assert (stream.source, stream.mode, stream.format, stream.end) == ("http", "streaming", "jsonl", None)
    assert read(mode="streaming", format="jsonl").blocks == read().blocks


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("mode", "batch", '"streaming"'), ("format", "csv", '"jsonl"'), ("format", "parquet", '"jsonl"')],
)
def test_http_source_refuses_other_modes_and_formats(key, value, words):
    with pytest.raises(PipelineFileError, match=f'stream.{key} must be {words}, got "{value}"'):
        read(**{key: value})


def test_sink_may_be_named_http():
    made = deepcopy(TABLES) | {"sink": [{"to": "http", "format": "jsonl"}]}
    assert parse_pipeline(made, Path("v.toml")).sinks[0].to == "http"
    made["stream"] |= {"source": "./http", "format": "jsonl", "mode": "streaming"}
    with pytest.raises(PipelineFileError, match="apart from the source"):
        parse_pipeline(made, Path("v.toml"))
