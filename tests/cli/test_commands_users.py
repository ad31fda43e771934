"""User bounds on the command line: plans, releases, plots and Parquet files state the bounds of counted events."""

import json
from pathlib import Path

import pytest

from tests.support.clinics import TOML, clinic, invoke, records

UNIT = 'unit = { user = "who", max_events_per_tick = 1, max_ticks = 2 }'
SAID = (
    "at most 1 event an hour and 2 hours for each who; "
    "events beyond that are not counted, and the band does not include that"
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [json.dumps(json.loads(line) | {"who": f"p{i % 7}"}) for i, line in enumerate(records())]
    toml = TOML.replace('unit = "event"', UNIT) + '\n[[sink]]\nto = "out"\nformat = "parquet"\n'
    file = clinic(tmp_path_factory.mktemp("users"), toml, lines)
    found = invoke("run", file)
    assert found.exit_code == 0, found.stderr
    return file


def test_plan_states_bounds_of_counted_events(ran: Path) -> None:
    assert f"\n  counts    {SAID}\n" in invoke("plan", ran).stdout
    plan = json.loads(invoke("plan", ran, "--json").stdout)
    assert plan["unit"]["contributions"] == plan["releases"][0]["contributions"] == SAID


def test_releases_state_bounds_of_counted_events(ran: Path) -> None:
    assert invoke("releases", ran).stdout.count(f"\ncounts {SAID}\n") == 2


def test_plot_page_states_bounds_of_counted_events(ran: Path, tmp_path: Path) -> None:
    found = invoke("plot", ran, "--output", tmp_path / "users.html")
    assert found.exit_code == 0, found.output
    assert (tmp_path / "users.html").read_text().count(f" Counts {SAID}.</p>") == 3


def test_parquet_files_state_bounds_of_counted_events(ran: Path) -> None:
    import duckdb

    requested = "SELECT decode(key), decode(value) FROM parquet_kv_metadata(?)"
    (part,) = (ran.parent / "out").glob("*.parquet")
    with duckdb.connect() as engine:
        assert dict(engine.execute(requested, [str(part)]).fetchall())["contributions"] == SAID
