"""Discovered groups on the command line: planned, run, shown, exported and drawn."""

import csv
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamgauge.cli import run
from streamgauge.testing.noise import InsecureNoise
from tests.support.clinics import TICKS, TOML, clinic, invoke, records

HOSTILE = "\x1b[2J_$x$<b>"
WORDS = (
    TOML.replace("budget = { epsilon = 1.0 }", "budget = { epsilon = 2.0, delta = 1e-6 }")
    .replace("[stream.columns]", "[stream.columns]\nword = { max_groups = 50 }")
    .split("[[release]]")[0]
    + """
[[release]]
name = "words"
sql = "SELECT word, COUNT(*) FROM visits GROUP BY word"
rho = 0.02
delta = 1e-7
"""
)


def lines() -> list[str]:
    """Return records with frequent words and with words that occur once."""
    made = []
    for i, line in enumerate(records(2000)):
        word = ("tea", "_milk", HOSTILE, f"once {i}")[min(i % 6, 3)]
        made.append(json.dumps(json.loads(line) | {"word": word}))
    return made


@pytest.fixture(scope="module")
def seeded() -> Iterator[None]:
    """Seed the noise of all runs; unseeded noise sometimes publishes a word that occurs once."""
    real = run.build_options
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run, "build_options", lambda **said: replace(real(**said), noise=InsecureNoise(7)))
        yield


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, seeded: None) -> Path:
    file = clinic(tmp_path_factory.mktemp("words"), WORDS, lines())
    found = invoke("run", file)
    assert found.exit_code == 0, found.stderr
    return file


def test_plan_and_ledger_show_deltas_and_thresholds(ran: Path) -> None:
    plan = invoke("plan", ran).stdout
    assert "rho 0.02 beside delta 1e-07" in plan
    assert "at most 50 groups, discovered" in plan
    assert "a group appears at" in plan
    ledger = invoke("ledger", ran).stdout
    assert "rho 0.02 beside delta 1e-07" in ledger
    printed_json = json.loads(invoke("ledger", ran, "--json").stdout)
    assert printed_json["delta_spent"] == "1/10000000"
    assert printed_json["charges"][0]["delta"] == "1/10000000"


def test_releases_show_groups_with_escaped_control_characters(ran: Path) -> None:
    shown = invoke("releases", ran).stdout
    assert "tea" in shown
    assert "\\x1b[2J_$x$<b>" in shown
    assert "\x1b" not in shown
    assert "once" not in shown


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet"])
def test_every_export_has_every_group_of_every_tick(ran: Path, suffix: str, tmp_path: Path) -> None:
    """The first ticks, which have no group, are included."""
    to = tmp_path / f"words.{suffix}"
    found = invoke("export", ran, "--output", to)
    assert found.exit_code == 0, found.stderr
    if suffix == "csv":
        with to.open(newline="") as file:
            cells = [row["word"] for row in csv.DictReader(file)]
        groups = [{"word": json.loads(cell) if cell.startswith('"') else cell} for cell in cells]
    elif suffix == "json":
        groups = [row["group"] for row in json.loads(to.read_text())]
    elif suffix == "jsonl":
        groups = [json.loads(line)["group"] for line in to.read_text().split("\n")[:-1]]
    else:
        import duckdb

        with duckdb.connect() as engine:
            rows = engine.execute(f"SELECT \"group\" FROM '{to}'").fetchall()
        groups = [json.loads(group) for (group,) in rows]
    assert {group["word"] for group in groups} == {"tea", "_milk", HOSTILE}


@pytest.mark.parametrize("suffix", ["html", "png"])
def test_groups_with_hostile_texts_are_drawn(ran: Path, suffix: str, tmp_path: Path) -> None:
    found = invoke("plot", ran, "--output", tmp_path / f"words.{suffix}")
    assert found.exit_code == 0, found.output
    assert (tmp_path / f"words.{suffix}").stat().st_size > 1000


@pytest.mark.usefixtures("seeded")
def test_release_without_published_groups_is_shown_and_drawn(tmp_path: Path) -> None:
    file = clinic(tmp_path, WORDS, lines()[5::6])
    assert invoke("run", file).exit_code == 0
    for command in (
        ("releases", file),
        ("export", file, "--output", tmp_path / "words.json"),
        ("export", file, "--output", tmp_path / "words.parquet"),
        ("plot", file, "--output", tmp_path / "words.html"),
        ("plot", file, "--output", tmp_path / "words.png"),
    ):
        found = invoke(*command)
        assert found.exit_code == 0, (command, found.output, found.exception)
    assert json.loads((tmp_path / "words.json").read_text()) == []
    said = r"o group has passed its threshold yet: a group appears once its noisy count reaches (\d+) events"
    shown = re.search(f"\nn{said}\n", invoke("releases", file, "words").stdout)
    drawn = re.search(rf"\. N{said}\.</p>", (tmp_path / "words.html").read_text())
    assert shown is not None
    assert drawn is not None
    plan = json.loads(invoke("plan", file, "--json").stdout)
    last = plan["releases"][0]["errors"][-1]
    assert last["tick"] == TICKS
    assert int(shown[1]) == int(drawn[1]) == math.floor(last["threshold"]) + 1
