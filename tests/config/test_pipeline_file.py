"""A pipeline file is read exactly: numbers, units, losses, windows and columns are what was written."""

import copy
import tomllib
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.config.rules import DAY, HOUR, MINUTE
from streamgauge.config.settings import Column
from streamgauge.privacy import Approx, Event, Pure, User, WEvent, Zcdp
from tests.support.clinic_file import (
    CLINIC,
    EVERYTHING,
    Change,
    changed,
    clinic,
    column,
    cost,
    path_in,
    refusal,
    release,
    stream,
    tables,
    written,
)


def test_the_example_is_read(tmp_path: Path) -> None:
    read = clinic(tmp_path)
    assert (read.stream.name, read.stream.format, read.stream.mode) == ("visits", "jsonl", "batch")
    assert (read.stream.tick, read.stream.ticks) == (5 * MINUTE, 90 * 24 * 12)
    assert (read.stream.time_format, read.stream.timezone) == ("iso", "UTC")
    assert (read.stream.unit, read.stream.budget) == (Event(), Pure(1))
    assert read.stream.columns["temperature"] == Column(
        "temperature", "number", bounds=(Fraction(35), Fraction(42)), grid=Fraction(1, 10)
    )
    assert read.releases[0].loss == Pure(Fraction(1, 2))
    assert (read.releases[0].window, read.releases[0].horizon) == ("running", read.stream.ticks)
    assert read.sinks[0].format == "parquet"
    assert read.folder == tmp_path / "clinic.streamgauge"
    assert read.unconfirmed_keys == ()


def test_every_key_is_read(tmp_path: Path) -> None:
    read = parse_pipeline(EVERYTHING, path_in(tmp_path))
    assert read.unconfirmed_keys == ("stream.tick", "release.one.sql")
    assert read.stream.unit == User(2, 30, per=288, renewal=144)
    assert (read.stream.user, read.stream.max_users) == ("patient", 1000)
    assert (read.stream.allowed_lateness, read.stream.allowed_earliness, read.stream.late) == (
        10 * MINUTE,
        90_000_000,
        "drop",
    )
    assert read.stream.start == (datetime(2026, 1, 4, 23, tzinfo=UTC).timestamp()) * 10**6
    assert read.stream.columns["region"] == Column("region", values=("north", "south"), other=True)
    assert read.stream.columns["sensor"].max_groups == 100
    assert read.stream.columns["device"].hash_cells == 65536
    one, two, three = read.releases
    assert (one.window, one.horizon, one.mechanism, one.settings) == ("sliding 12", 31 * 288, "Kary", {"branching": 13})
    assert (one.delta, one.expected_events, one.title) == (Fraction(1, 10**9), 100.0, "One")
    budget = Approx(1, "1e-6")
    left = Approx("3/4", budget.delta).additive_loss_after_delta(Fraction("1e-9"))  # of what epsilons and deltas leave
    assert (one.loss, two.loss, three.loss) == (Zcdp("0.01"), left.part("1/3"), Pure("1/4"))
    assert (two.horizon, two.consistent) == (None, True)
    assert (three.window, three.partial) == ("tumbling 288", True)
    assert read.sinks[0].releases == ("one", "two")
    assert read.sinks[0].shape == "long"


def test_a_byte_order_mark_is_no_harm(tmp_path: Path) -> None:
    assert written(tmp_path, "\ufeff" + CLINIC).stream.name == "visits"


def test_a_file_and_its_tables_are_the_same_pipeline(tmp_path: Path) -> None:
    assert changed(tmp_path, lambda _: None) == clinic(tmp_path)


@given(st.decimals(Decimal("0.001"), 10, places=12))
def test_float_is_read_as_its_typed_decimal(epsilon: Decimal) -> None:
    read = parse_pipeline(
        tomllib.loads(CLINIC.replace("1.0 }", f"{epsilon} }}"), parse_float=Decimal), Path("clinic.toml")
    )
    assert read.stream.budget == Pure(Fraction(epsilon))


def test_ten_tenths_are_one_where_binary_floats_are_not(tmp_path: Path) -> None:
    read = changed(tmp_path, release(epsilon=0.1))
    total = sum((read.releases[0].loss for _ in range(9)), start=read.releases[0].loss)
    assert total == read.stream.budget
    assert 10 * Fraction(0.1) != 1  # the broken twin


@pytest.mark.parametrize(
    ("unit", "meant"),
    [
        ("event", Event()),
        ({"w_event": 288}, WEvent(288)),
        ({"w_event": "24h"}, WEvent(288)),
        ({"user": "patient", "max_events_per_tick": 1, "max_ticks": 30}, User(1, 30)),
    ],
)
def test_units_are_read(tmp_path: Path, unit: object, meant: object) -> None:
    assert changed(tmp_path, stream(unit=unit)).stream.unit == meant


@pytest.mark.parametrize(
    ("budget", "meant"),
    [
        ({"epsilon": "1/3"}, Pure("1/3")),
        ({"epsilon": 1, "delta": 1e-6}, Approx(1, "1e-6")),
        ({"rho": Decimal("0.5")}, Zcdp("1/2")),
    ],
)
def test_budgets_are_read_and_shared_in_their_own_currency(tmp_path: Path, budget: dict[str, Any], meant: Any) -> None:
    read = changed(tmp_path, cost(budget, share=Decimal("0.5")))
    assert read.stream.budget == meant
    assert read.releases[0].loss == meant.additive_loss.part("1/2")


def test_pure_loss_fits_any_budget_and_rho_non_pure_ones(tmp_path: Path) -> None:
    for budget in ({"rho": 1}, {"epsilon": 1, "delta": 1e-6}):
        assert changed(tmp_path, cost(budget, epsilon=0.1)).releases[0].loss == Pure("0.1")
        assert changed(tmp_path, cost(budget, rho=0.1)).releases[0].loss == Zcdp("0.1")
    assert "left out under a pure budget" in refusal(lambda: changed(tmp_path, cost({"epsilon": 1}, rho=0.1)))


def test_delta_of_a_release_is_below_that_of_the_budget(tmp_path: Path) -> None:
    budget = {"epsilon": 1, "delta": 1e-6}
    assert changed(tmp_path, cost(budget, share=1, delta=1e-7)).releases[0].delta == Fraction(1, 10**7)
    assert "below the budget's delta" in refusal(lambda: changed(tmp_path, cost(budget, share=1, delta=1e-6)))


@pytest.mark.parametrize(
    ("window", "meant"),
    [
        ("running", "running"),
        ("each", "each"),
        ("sliding 24h", "sliding 288"),
        ("decayed half-life 1h", "decayed 12"),
        ("decayed polynomial 1.5", "decayed polynomial 1.5"),
        ("decayed polynomial 02.50", "decayed polynomial 2.5"),
        ("decayed polynomial 10", "decayed polynomial 10"),
    ],
)
def test_windows_become_whole_numbers_of_ticks(tmp_path: Path, window: str, meant: str) -> None:
    assert changed(tmp_path, release(window=window)).releases[0].window == meant


def test_default_horizon_is_the_end_of_a_batch_stream(tmp_path: Path) -> None:
    ticks = 90 * 288
    assert changed(tmp_path, lambda _: None).releases[0].horizon == ticks
    assert changed(tmp_path, release(horizon="end")).releases[0].horizon == ticks
    assert changed(tmp_path, release(horizon="365d")).releases[0].horizon == 365 * 288
    assert changed(tmp_path, stream(mode="streaming")).releases[0].horizon is None

    def endless(top: dict[str, Any]) -> None:
        top["stream"]["mode"] = "streaming"
        del top["stream"]["end"]
        top["release"][0]["horizon"] = "end"

    assert "horizon must be a duration" in refusal(lambda: changed(tmp_path, endless))


@pytest.mark.parametrize(
    ("mechanism", "name", "settings"),
    [
        ("auto", "auto", {}),
        ("Binary", "Binary", {}),
        ({"name": "Binary", "refine": True}, "Binary", {"refine": True}),
        ({"name": "Hybrid", "split": Decimal("0.25")}, "Hybrid", {"split": Fraction(1, 4)}),
        ({"name": "Kary", "branching": 13.0}, "Kary", {"branching": 13}),
        ({"name": "Hybrid", "inner": "Binary"}, "Hybrid", {"inner": "Binary"}),
    ],
)
def test_mechanisms_are_read_with_their_settings(
    tmp_path: Path, mechanism: object, name: str, settings: dict[str, Any]
) -> None:
    read = changed(tmp_path, release(mechanism=mechanism)).releases[0]
    assert (read.mechanism, read.settings) == (name, settings)


@pytest.mark.parametrize(
    ("source", "format", "compression"),
    [
        ("a.jsonl", "jsonl", None),
        ("a.ndjson.gz", "jsonl", "gzip"),
        ("data/a.CSV.zst", "csv", "zstd"),
        ("a.parquet", "parquet", None),
    ],
)
def test_suffix_determines_format_and_compression(
    tmp_path: Path, source: str, format: str, compression: str | None
) -> None:
    read = changed(tmp_path, stream(source=source)).stream
    assert (read.format, read.compression) == (format, compression)


def test_standard_input_has_declared_mode_and_format(tmp_path: Path) -> None:
    read = changed(tmp_path, stream(source="-", mode="streaming", format="csv")).stream
    assert (read.source, read.format, read.compression) == ("-", "csv", None)


@pytest.mark.parametrize(
    ("declared", "meant"),
    [
        ({"values": [1, Decimal("2.5"), Decimal("3.0")]}, Column("extra", "number", values=(1, 2.5, 3))),
        ({"values": [True, False]}, Column("extra", "boolean", values=(True, False))),
        ({"values": [""]}, Column("extra", "text", values=("",))),
        ({"type": "number"}, Column("extra", "number")),
        ({"type": "boolean"}, Column("extra", "boolean")),
        ({"bounds": [-1, 1], "type": "number"}, Column("extra", "number", bounds=(Fraction(-1), Fraction(1)))),
        ({"hash_cells": 2}, Column("extra", hash_cells=2)),
        ({"max_groups": 1}, Column("extra", max_groups=1)),
    ],
)
def test_columns_are_read(tmp_path: Path, declared: dict[str, Any], meant: Column) -> None:
    assert changed(tmp_path, column(**declared)).stream.columns["extra"] == meant


def test_a_user_column_may_be_declared_too(tmp_path: Path) -> None:
    unit = {"user": "extra", "max_events_per_tick": 1, "max_ticks": 3}
    top = tables(column(hash_cells=100))
    top["stream"]["unit"] = unit
    read = parse_pipeline(top, path_in(tmp_path))
    assert read.stream.columns["extra"].hash_cells == 100
    top["stream"]["unit"] = {**unit, "user": "Extra"}
    assert "differ in more than case" in refusal(lambda: parse_pipeline(top, path_in(tmp_path)))


def test_default_earliness_is_one_tick_and_lateness_zero(tmp_path: Path) -> None:
    read = changed(tmp_path, lambda _: None).stream
    assert (read.allowed_lateness, read.allowed_earliness, read.late) == (0, read.tick, "drop")
    assert changed(tmp_path, stream(allowed_earliness="0s", allowed_lateness="1d")).stream.allowed_earliness == 0


def test_lookup_names_must_be_unique(tmp_path: Path) -> None:
    def named(name: str, region: str) -> Change:
        def change(top: dict[str, Any]) -> None:
            columns = top["stream"]["columns"]
            columns.update({"sensor": {"type": "text"}, region: {"type": "text"}})
            top["lookup"] = {name: {"file": "sites.csv", "on": "sensor"}}

        return change

    assert changed(tmp_path, named("sites", "x")).lookups["sites"].keys == ("a",)
    assert "otherwise than the stream" in refusal(lambda: changed(tmp_path, named("visits", "x")))
    assert "differ in more than case" in refusal(lambda: changed(tmp_path, named("Visits", "x")))
    assert "columns are not the stream's" in refusal(lambda: changed(tmp_path, named("sites", "SITES.room")))


def test_sink_inside_the_source_folder_is_refused(tmp_path: Path) -> None:
    def change(top: dict[str, Any]) -> None:
        top["stream"].update(source="inbox", format="jsonl")
        top["sink"] = [{"to": "inbox/out.jsonl"}]

    assert "apart from the source" in refusal(lambda: changed(tmp_path, change))
    (tmp_path / "link").symlink_to(tmp_path / "inbox")
    through = tables(change)
    through["sink"] = [{"to": "link/out.jsonl"}]
    assert "apart from the source" in refusal(lambda: parse_pipeline(through, path_in(tmp_path)))


@pytest.mark.parametrize(
    ("source", "sinks", "what"),
    [
        ("~/inbox", ["inbox/out.jsonl"], "the source"),
        ("inbox", ["~/inbox/out.jsonl"], "the source"),
        ("inbox", ["~/clinic.streamgauge/out.jsonl"], "the pipeline's folder"),
        ("inbox", ["~/out.jsonl", "out.jsonl"], "sink 1"),
        ("inbox", ["~/sites.csv"], "lookup.sites"),
        ("inbox", ["k/clinic.key"], "the key"),
        ("inbox", ["k/clinic.key.guard"], "the rollback guard beside the key"),
    ],
)
def test_sink_path_is_compared_in_every_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, sinks: list[str], what: str
) -> None:
    def change(top: dict[str, Any]) -> None:
        top["stream"].update(source=source, format="jsonl", key="file: ~/k/clinic.key")
        top["lookup"] = {"sites": {"file": "~/sites.csv", "on": "sensor"}}
        top["sink"] = [{"to": sink, "format": "jsonl"} for sink in sinks]

    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "sites.csv").write_text("sensor,room\na17,Kitchen\n")
    assert f"to must be apart from {what}, got" in refusal(lambda: changed(tmp_path, change))


def test_two_releases_may_not_share_a_name(tmp_path: Path) -> None:
    def twice(top: dict[str, Any]) -> None:
        top["release"].append({**top["release"][0], "name": "Fever_By_Region"})

    assert "must differ from all others" in refusal(lambda: changed(tmp_path, twice))


def test_markers_name_keys_with_strange_names_too(tmp_path: Path) -> None:
    top = copy.deepcopy(EVERYTHING)
    top["confirm"] = ['stream.columns."body heat".bounds', "stream.columns.region.values", "lookup.sites.file"]
    assert parse_pipeline(top, path_in(tmp_path)).unconfirmed_keys == tuple(top["confirm"])


def test_tick_of_a_day_has_24_hours(tmp_path: Path) -> None:
    read = changed(tmp_path, stream(tick="1d")).stream
    assert (read.tick, read.tick_start(2) - read.tick_start(1)) == (DAY, 24 * HOUR)
